//! The door of one node: what leaves is sealed, what comes in is opened, judged and counted.
//!
//! Nodes themselves stay in clear; whoever hosts one puts a [`Guard`] between it and the sockets
//! (corners 18 and 19). A clear datagram is 16 bytes of header, the hop part, and the rest, the
//! end-to-end part.
//!
//! Keys: each pair of nodes that ever speak to each other has one for hop parts, so that a sender
//! is proven and no receiver can pass for a proxy. End-to-end parts have a key of market data, which
//! all nodes hold; one per gateway for its orders, which the proxies hold, too, since they read
//! side and price; and the pair's own for everything that goes from one node to the next: private
//! streams, acknowledgements, requests, delays, control. The stream of an [`Origin`] is the node
//! that sealed the part.
//!
//! A datagram is let in when its hop part is authentic, its kind is one that its sender may send,
//! its end-to-end part is authentic, and its number is new between the two nodes: in that order,
//! before anything else looks at it. An order must be of the gateway that sealed it. Whatever else
//! comes is dropped and counted in [`GuardStats`].
//!
//! A proxy passes end-to-end parts on as they were sealed. Orders that wait in a queue leave in
//! another call; of these the last [`KEPT_MAX`] are remembered, older ones the proxy seals itself.
//! A repair is sealed anew, so a number is never used twice. Nothing allocates once warm.

use std::ops::Range;

use types::{NodeId, limits::DATAGRAM_MAX};
use zerocopy::TryFromBytes;

use crate::{
    control::{ControlHeader, ControlKind},
    frame::{self, FrameKind, HopHeader, OrderBody},
    seal::{
        Aead, NUMBER_MAX, OpenedHop, Origin, ReplayWindow, SealError, SealHeader, Sealer,
        append_body, open_hop, seal_body,
    },
    topology::{ROOT, Topology},
};

/// Orders whose sealed form a queueing proxy remembers.
pub const KEPT_MAX: usize = 4_096;
/// Bytes of a header, the hop part.
const HOP_LEN: usize = size_of::<HopHeader>();

/// The keys of one node.
pub struct KeyTable<K> {
    /// By node: the key shared with it alone.
    pairs: Vec<Option<K>>,
    market: Option<K>,
    /// By node: the key of the orders of the gateway there.
    orders: Vec<Option<K>>,
}

/// Which nodes there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fleet {
    nodes: u16,
    edges: Range<u16>,
}

impl Fleet {
    /// The nodes of a tree and of all that have its receivers at the same numbers.
    pub fn of(topology: &Topology) -> Fleet {
        let first = topology.receiver_ids().next().map_or(0, |node| node.0);
        let edges = first..first.saturating_add(topology.receivers() as u16);
        Fleet { nodes: topology.id_end() as u16, edges }
    }

    fn is_edge(&self, node: NodeId) -> bool {
        self.edges.contains(&node.0)
    }
}

impl<K> KeyTable<K> {
    /// The keys that `node` holds, each made by `key` from its name; `None` when one can't be made.
    pub fn new(node: NodeId, fleet: &Fleet, key: impl Fn(&[u8]) -> Option<K>) -> Option<Self> {
        let name = |kind: &[u8; 4], a: u16, b: u16| {
            let [a, b] = [a.to_le_bytes(), b.to_le_bytes()];
            key(&[kind[0], kind[1], kind[2], kind[3], a[0], a[1], b[0], b[1]])
        };
        let edge = fleet.is_edge(node);
        let (mut pairs, mut orders) = (Vec::new(), Vec::new());
        for peer in 0..fleet.nodes {
            let peer_is_edge = fleet.edges.contains(&peer);
            let speaks = peer != node.0 && !(edge && peer_is_edge);
            let reads = peer_is_edge && (!edge || peer == node.0);
            pairs.push(match speaks {
                true => Some(name(b"pair", peer.min(node.0), peer.max(node.0))?),
                false => None,
            });
            orders.push(if reads { Some(name(b"ordr", peer, 0)?) } else { None });
        }
        Some(KeyTable { pairs, market: Some(name(b"mark", 0, 0)?), orders })
    }

    fn pair(&self, peer: NodeId) -> Option<&K> {
        self.pairs.get(usize::from(peer.0))?.as_ref()
    }

    fn body(&self, class: Class, peer: NodeId) -> Option<&K> {
        match class {
            Class::Market => self.market.as_ref(),
            Class::Orders(edge) => self.orders.get(usize::from(edge.0))?.as_ref(),
            Class::Pair => self.pair(peer),
        }
    }
}

/// What a guard did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuardStats {
    /// Datagrams sealed, copies included.
    pub sealed: u64,
    /// Datagrams opened.
    pub opened: u64,
    /// Not sealed at all, or not readable as such.
    pub clear: u64,
    /// With a tag that is wrong, or of a node without a key here.
    pub forged: u64,
    /// That came before, or are too old to tell.
    pub replayed: u64,
    /// Authentic, but nothing that their sender may send.
    pub forbidden: u64,
    /// Of this node's own, not sent: too long, or to somebody without a key.
    pub unsent: u64,
}

impl GuardStats {
    /// Datagrams that were not let in.
    pub fn refused(&self) -> u64 {
        self.clear + self.forged + self.replayed + self.forbidden
    }
}

impl std::ops::AddAssign for GuardStats {
    fn add_assign(&mut self, other: GuardStats) {
        self.sealed += other.sealed;
        self.opened += other.opened;
        self.clear += other.clear;
        self.forged += other.forged;
        self.replayed += other.replayed;
        self.forbidden += other.forbidden;
        self.unsent += other.unsent;
    }
}

/// Which key an end-to-end part has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Market,
    Orders(NodeId),
    Pair,
}

struct Peer {
    sealer: Sealer,
    window: ReplayWindow,
}

/// An order as its gateway sealed it.
#[derive(Default)]
struct Kept {
    body: Vec<u8>,
    origin: Option<Origin>,
    sealed: Vec<u8>,
}

/// The guard of one node.
pub struct Guard<K> {
    node: NodeId,
    epoch: u32,
    fleet: Fleet,
    keys: KeyTable<K>,
    peers: Vec<Peer>,
    /// End-to-end parts sealed here.
    number: u64,
    /// The datagram that came last, as it came.
    received: Vec<u8>,
    /// And in clear.
    clear: Vec<u8>,
    /// Of it: origin, and where in `received` its sealed part lies.
    current: Option<(Origin, Range<usize>)>,
    /// The end-to-end part being sent, and its origin where others may have it, too.
    part: Vec<u8>,
    shared: Option<Origin>,
    kept: Vec<Kept>,
    stats: GuardStats,
}

impl<K: Aead> Guard<K> {
    /// The guard of `node`. `epoch` must grow with every start of the node as long as its keys stay
    /// the same. `queues`: its orders may leave later than in the call that brought them.
    pub fn new(node: NodeId, fleet: Fleet, epoch: u32, queues: bool, keys: KeyTable<K>) -> Self {
        let peer = |_| Peer { sealer: Sealer::new(node, epoch), window: ReplayWindow::default() };
        let mut kept = Vec::new();
        kept.resize_with(if queues { KEPT_MAX } else { 0 }, Kept::default);
        Guard {
            node,
            epoch,
            peers: (0..fleet.nodes).map(peer).collect(),
            fleet,
            keys,
            number: 0,
            received: Vec::with_capacity(DATAGRAM_MAX),
            clear: Vec::with_capacity(DATAGRAM_MAX),
            current: None,
            part: Vec::with_capacity(DATAGRAM_MAX),
            shared: None,
            kept,
            stats: GuardStats::default(),
        }
    }

    /// Totals.
    pub fn stats(&self) -> GuardStats {
        self.stats
    }

    /// Opens a datagram; the clear one, valid until the next. A refusal is counted.
    pub fn open(&mut self, bytes: &[u8]) -> Result<&[u8], SealError> {
        self.current = None;
        match self.judge(bytes) {
            Ok(()) => {
                self.stats.opened += 1;
                Ok(&self.clear)
            }
            Err(why) => {
                let count = match why {
                    SealError::Format => &mut self.stats.clear,
                    SealError::HopTag | SealError::Tag | SealError::Stranger => {
                        &mut self.stats.forged
                    }
                    SealError::Replay => &mut self.stats.replayed,
                    SealError::Forbidden => &mut self.stats.forbidden,
                };
                *count += 1;
                Err(why)
            }
        }
    }

    fn judge(&mut self, bytes: &[u8]) -> Result<(), SealError> {
        if bytes.len() > DATAGRAM_MAX {
            return Err(SealError::Format);
        }
        self.received.clear();
        self.received.extend_from_slice(bytes);
        let sender = claimed_sender(bytes).ok_or(SealError::Format)?;
        let pair = self.keys.pair(sender).ok_or(SealError::Stranger)?;
        let opened = open_hop(pair, &mut self.received)?;
        let class = (opened.header.len() == HOP_LEN)
            .then(|| {
                classify(&self.fleet, (sender, self.node), opened.origin.stream, opened.header)
            })
            .flatten()
            .ok_or(SealError::Forbidden)?;
        let key = self.keys.body(class, sender).ok_or(SealError::Stranger)?;
        self.clear.clear();
        self.clear.extend_from_slice(opened.header);
        append_body(key, &opened, &mut self.clear)?;
        let (origin, (epoch, number)) = (opened.origin, opened.hop);
        let sealed = opened.sealed.len();
        let peer = self.peers.get_mut(usize::from(sender.0)).ok_or(SealError::Stranger)?;
        peer.window.accept(epoch, number)?;
        if let Class::Orders(edge) = class {
            self.check_order(edge)?;
            self.keep(origin, HOP_LEN + size_of::<SealHeader>(), sealed);
        }
        let start = size_of::<SealHeader>() + HOP_LEN;
        self.current = Some((origin, start..start + sealed));
        Ok(())
    }

    /// An order sealed by a gateway must be that gateway's.
    fn check_order(&self, edge: NodeId) -> Result<(), SealError> {
        let rest = self.clear.get(HOP_LEN..).unwrap_or(&[]);
        let (order, _) = frame::body::<OrderBody>(rest).map_err(|_| SealError::Format)?;
        let own = edge.0 - self.fleet.edges.start + 1;
        if order.source.gateway.0 == own { Ok(()) } else { Err(SealError::Forbidden) }
    }

    fn keep(&mut self, origin: Origin, at: usize, len: usize) {
        let body = self.clear.get(HOP_LEN..).unwrap_or(&[]);
        let Some(kept) = place_of(body, self.kept.len()).and_then(|at| self.kept.get_mut(at))
        else {
            return;
        };
        kept.origin = Some(origin);
        kept.body.clear();
        kept.body.extend_from_slice(body);
        kept.sealed.clear();
        kept.sealed.extend_from_slice(self.received.get(at..at + len).unwrap_or(&[]));
    }

    /// Puts the end-to-end part of a clear datagram into `part`: as it came, or sealed here.
    fn prepare(&mut self, to: NodeId, clear: &[u8]) -> Option<Origin> {
        let (header, body) = clear.split_at_checked(HOP_LEN)?;
        self.part.clear();
        if let Some((origin, range)) = &self.current
            && self.clear.get(HOP_LEN..) == Some(body)
            && classify(&self.fleet, (self.node, to), origin.stream, header)
                .is_some_and(|class| class != Class::Pair)
        {
            self.part.extend_from_slice(self.received.get(range.clone())?);
            return Some(*origin);
        }
        let kept = place_of(body, self.kept.len()).and_then(|at| self.kept.get(at));
        if let Some(kept) = kept.filter(|kept| kept.body == body && is_order(header)) {
            self.part.extend_from_slice(&kept.sealed);
            return kept.origin;
        }
        let class = classify(&self.fleet, (self.node, to), self.node.0, header)?;
        let key = self.keys.body(class, to)?;
        if self.number >= NUMBER_MAX {
            return None;
        }
        self.number += 1;
        let origin = Origin { stream: self.node.0, epoch: self.epoch, number: self.number };
        seal_body(key, origin, body, &mut self.part);
        Some(origin)
    }

    /// Appends the sealed form of a clear datagram to a node. `again`: it is the one of the last
    /// call, to another node; its end-to-end part is sealed once where its key allows that. False, and
    /// counted, when it can't be sent.
    pub fn seal(&mut self, to: NodeId, clear: &[u8], again: bool, out: &mut Vec<u8>) -> bool {
        // Parts under a key of two nodes are no good to a third.
        let shared = self.shared.filter(|_| again);
        let origin = shared.or_else(|| self.prepare(to, clear));
        self.shared = origin.filter(|_| shared.is_some() || is_shared(clear));
        let sent = origin.is_some_and(|origin| self.address(to, origin, clear, out));
        *(if sent { &mut self.stats.sealed } else { &mut self.stats.unsent }) += 1;
        sent
    }

    fn address(&mut self, to: NodeId, origin: Origin, clear: &[u8], out: &mut Vec<u8>) -> bool {
        let (Some(key), Some(peer), Some(hop)) =
            (self.keys.pair(to), self.peers.get_mut(usize::from(to.0)), clear.get(..HOP_LEN))
        else {
            return false;
        };
        let sealed = &self.part[..];
        let opened = OpenedHop { sender: self.node, hop: (0, 0), origin, header: hop, sealed };
        peer.sealer.forward(key, &opened, hop, out)
    }
}

/// The node that a sealed datagram says it is from.
fn claimed_sender(bytes: &[u8]) -> Option<NodeId> {
    let (header, _) = SealHeader::try_read_from_prefix(bytes).ok()?;
    (header.version == crate::seal::SEALED_VERSION).then_some(header.hop)
}

fn is_order(header: &[u8]) -> bool {
    HopHeader::try_read_from_bytes(header).is_ok_and(|header| header.kind == FrameKind::Order)
}

/// Whether the end-to-end part of a clear datagram has a key that more than two nodes hold.
fn is_shared(clear: &[u8]) -> bool {
    let header = HopHeader::try_read_from_prefix(clear).map(|(header, _)| header);
    header.is_ok_and(|header| {
        header.version == frame::VERSION
            && matches!(header.kind, FrameKind::Data | FrameKind::Repair)
    })
}

/// Where among `places` an order is remembered.
fn place_of(body: &[u8], places: usize) -> Option<usize> {
    let key = body.get(..size_of::<types::Source>())?;
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    (places > 0).then(|| (hash >> 16) as usize % places)
}

/// The key of the end-to-end part of a datagram that `stream` sealed and `sender` sends to `to`;
/// `None` when it may not send such a thing.
fn classify(
    fleet: &Fleet,
    (sender, to): (NodeId, NodeId),
    stream: u16,
    header: &[u8],
) -> Option<Class> {
    let own = stream == sender.0;
    let (from_edge, from_root) = (fleet.is_edge(sender), sender == ROOT);
    let pair = |allowed: bool| (allowed && own).then_some(Class::Pair);
    if ControlHeader::is_control(header) {
        let header = ControlHeader::try_read_from_bytes(header).ok()?;
        return pair(
            header.sender == sender
                && match header.kind {
                    ControlKind::HopReport => !from_edge,
                    ControlKind::Detour | ControlKind::Tree => from_root,
                    ControlKind::Status => to == ROOT,
                },
        );
    }
    let header = HopHeader::try_read_from_bytes(header).ok()?;
    if header.version != frame::VERSION || header.sender != sender {
        return None;
    }
    match header.kind {
        FrameKind::Data => (!from_edge && stream == ROOT.0).then_some(Class::Market),
        FrameKind::Repair => (!from_edge && own).then_some(Class::Market),
        FrameKind::Order if from_root => None,
        FrameKind::Order if from_edge => own.then_some(Class::Orders(sender)),
        FrameKind::Order if fleet.is_edge(NodeId(stream)) => Some(Class::Orders(NodeId(stream))),
        FrameKind::Order => pair(true),
        FrameKind::Delay => pair(!from_root),
        FrameKind::RepairRequest => pair(from_edge),
        FrameKind::Hello | FrameKind::Attach | FrameKind::PrivateAck => {
            pair(from_edge && to == ROOT)
        }
        FrameKind::OrderAck | FrameKind::Grant | FrameKind::AttachReply | FrameKind::Private => {
            pair(from_root && fleet.is_edge(to))
        }
    }
}
