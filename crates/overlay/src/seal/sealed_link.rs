//! The door of one node: what leaves is sealed, what comes in is opened, judged and counted.
//!
//! Nodes themselves stay in clear; whoever hosts one puts a [`SealedLink`] between it and the sockets
//! (corners 18 and 19). A clear datagram is 16 bytes of header, the hop part, and the rest, the
//! end-to-end part.
//!
//! Keys, all of the node's ring ([`crate::key_ring`]): each pair of nodes that ever speak to each other
//! has one for hop parts, so that a sender is proven and no receiver can pass for a proxy; it is of
//! the present lives of both ([`crate::lives`]), which is agreed before anything else goes either way.
//! End-to-end parts of market data have a key of the life of the root or proxy that sealed them, which
//! all nodes can make; those of orders one of the gateway's life, for the root and the proxies, which
//! read side and price. Everything that goes from one node to the next is under the pair's: private streams,
//! acknowledgements, requests, delays, control. The stream of an [`Origin`] is the node that sealed
//! the part, and its life is one that this node has asked that node for, not one that a proxy told.
//!
//! A datagram is let in when its hop part is authentic, its kind is one that its sender may send,
//! its end-to-end part is authentic, and its number is new between the two nodes: in that order,
//! before anything else looks at it. An order must be of the gateway that sealed it. Whatever else
//! comes is dropped and counted in [`SealedLinkStats`].
//!
//! What is to go to a node whose life is not known yet, and what comes in a life that is not known,
//! is dropped as if a link had lost it, and that node is asked: a round trip later it goes.
//!
//! Keys are exchanged while traffic goes on: [`SealedLink::rekey`], [`crate::epochs`].
//!
//! A proxy passes end-to-end parts on as they were sealed. Orders that wait in a queue leave in
//! another call; of these the last [`KEPT_MAX`] are remembered, older ones the proxy seals itself.
//! A repair is sealed anew, so a number is never used twice. Nothing allocates once warm.

use std::ops::Range;

use types::{Nanos, NodeId, limits::DATAGRAM_MAX};
use zerocopy::TryFromBytes;

use crate::{
    control::{ControlHeader, ControlKind},
    frame::{self, FrameKind, HopHeader, OrderBody},
    seal::epochs::{Epoch, Epochs},
    seal::lives::{HELLO_VERSION, Held, Keys, Life, Shared},
    seal::{
        NUMBER_MAX, OpenedHop, Origin, SealError, SealHeader, append_body, open_hop, read_header,
        seal_body,
    },
    tree::topology::{ROOT, Topology},
};

/// Orders whose sealed form a queueing proxy remembers.
pub const KEPT_MAX: usize = 4_096;
/// Bytes of a header, the hop part.
const HOP_LEN: usize = size_of::<HopHeader>();

/// Numbers of all nodes of a deployment, by kind.
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

    /// Numbers of all nodes that have keys.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes).map(NodeId)
    }

    /// Whether `node` has to open what `of` seals for many of this kind, or seals it: all read the
    /// market data of the root and of proxies, and these the orders of all edges.
    pub(crate) fn reads(&self, node: NodeId, kind: Shared, of: NodeId) -> bool {
        kind_of_shared(self, of) == kind
            && (kind == Shared::Market || node == of || !self.is_edge(node))
    }

    /// Whom `node` ever speaks to, and what each of them seals for many.
    pub(crate) fn peers(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (NodeId, Option<Shared>)> + '_ {
        let edge = self.is_edge(node);
        (0..self.nodes)
            .map(NodeId)
            .filter(move |peer| !(edge && self.is_edge(*peer)))
            .map(|peer| (peer, Some(kind_of_shared(self, peer))))
    }
}

/// Kind of traffic that a node seals for several others.
pub(crate) fn kind_of_shared(fleet: &Fleet, node: NodeId) -> Shared {
    if fleet.is_edge(node) { Shared::Orders } else { Shared::Market }
}

/// What a sealed link has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SealedLinkStats {
    /// Number of datagrams sealed, each copy counted.
    pub sealed: u64,
    /// Number of datagrams opened.
    pub opened: u64,
    /// Datagrams refused because they were not sealed or not readable as sealed ones.
    pub clear: u64,
    /// With a tag that is wrong, or of a node without a key here.
    pub forged: u64,
    /// Number of refused hellos: of nodes without a link here, or under keys that are unknown or no
    /// longer valid.
    pub unproven: u64,
    /// That came before, or are too old to tell.
    pub replayed: u64,
    /// Authentic, but nothing that their sender may send.
    pub forbidden: u64,
    /// Number of own datagrams that were not sent: too long, or to a node without a link.
    pub unsent: u64,
    /// Not sent since the other end's life was not known in time.
    pub early: u64,
    /// Of lives that were not known yet, or were over: not let in.
    pub other_life: u64,
}

impl SealedLinkStats {
    /// Datagrams that were not let in.
    pub fn refused(&self) -> u64 {
        self.clear + self.forged + self.replayed + self.forbidden
    }
}

impl std::ops::AddAssign for SealedLinkStats {
    fn add_assign(&mut self, other: SealedLinkStats) {
        self.sealed += other.sealed;
        self.opened += other.opened;
        self.clear += other.clear;
        self.forged += other.forged;
        self.unproven += other.unproven;
        self.replayed += other.replayed;
        self.forbidden += other.forbidden;
        self.unsent += other.unsent;
        self.early += other.early;
        self.other_life += other.other_life;
    }
}

/// Which key an end-to-end part has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Market,
    Orders(NodeId),
    Pair,
}

/// An order as its gateway sealed it.
#[derive(Default)]
struct Kept {
    body: Vec<u8>,
    origin: Option<Origin>,
    sealed: Vec<u8>,
}

/// Seals and opens the datagrams of one node.
pub struct SealedLink<S: Keys> {
    node: NodeId,
    fleet: Fleet,
    epochs: Epochs<S>,
    /// End-to-end parts sealed here, in all lives.
    number: u64,
    /// The datagram that came last, as it came.
    received: Vec<u8>,
    /// Buffer for the datagram in clear.
    clear: Vec<u8>,
    /// Origin of the received datagram, and the range of its sealed part in `received`.
    current: Option<(Origin, Range<usize>)>,
    /// The end-to-end part being sent, and its origin where others may have it, too.
    part: Vec<u8>,
    shared: Option<Origin>,
    kept: Vec<Kept>,
    /// By node: its datagrams that were opened.
    heard: Vec<u64>,
    stats: SealedLinkStats,
}

impl<S: Keys> SealedLink<S> {
    /// The link of `node` in a life that was never lived before, under keys that are its own.
    /// `queues`: its orders may leave later than in the call that brought them. `None` when the
    /// cipher can't be set up, or without the secret of what the node seals for many.
    pub fn new(node: NodeId, fleet: Fleet, life: Life, queues: bool, keys: S) -> Option<Self> {
        let mut kept = Vec::new();
        kept.resize_with(if queues { KEPT_MAX } else { 0 }, Kept::default);
        Some(SealedLink {
            node,
            epochs: Epochs::new(node, &fleet, life, keys)?,
            heard: vec![0; usize::from(fleet.nodes)],
            fleet,
            number: 0,
            received: Vec::with_capacity(DATAGRAM_MAX),
            clear: Vec::with_capacity(DATAGRAM_MAX),
            current: None,
            part: Vec::with_capacity(DATAGRAM_MAX),
            shared: None,
            kept,
            stats: SealedLinkStats::default(),
        })
    }

    /// Begins a key epoch while traffic goes on: from now on the node lives `life`, never lived
    /// before, under `keys` of another secret than all before, too. Both sessions of a peer open
    /// what comes; sending goes over [`SWITCH_NS`] later to those peers with which the new keys are
    /// agreed, and [`GRACE_NS`] later the former keys are given up: a peer that `keys` have no
    /// secret for is out then. At most [`EPOCHS_MAX`] epochs are kept.
    ///
    /// `false`, and nothing has changed: the life or the secret is in use, the cipher can't be set
    /// up, or the keys lack the secret of what the node seals for many.
    ///
    /// [`SWITCH_NS`]: crate::epochs::SWITCH_NS
    /// [`GRACE_NS`]: crate::epochs::GRACE_NS
    /// [`EPOCHS_MAX`]: crate::epochs::EPOCHS_MAX
    pub fn rekey(&mut self, now: Nanos, keys: S, life: Life) -> bool {
        self.retire(now);
        self.epochs.begin(now, (self.node, life), &self.fleet, keys)
    }

    /// Node that the link belongs to.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// What was counted since the start.
    pub fn stats(&self) -> SealedLinkStats {
        self.stats
    }

    /// Datagrams of a peer that were opened, in all its lives.
    pub fn heard(&self, peer: NodeId) -> u64 {
        self.heard.get(usize::from(peer.0)).copied().unwrap_or(0)
    }

    /// What names the end-to-end part of the datagram that was opened last.
    pub fn origin(&self) -> Option<Origin> {
        self.current.as_ref().map(|(origin, _)| *origin)
    }

    /// A datagram of a peer came that was not opened: it was a copy, dropped in front of the link, or was
    /// handed over in memory in clear. It counts as heard.
    pub fn note_unsealed(&mut self, peer: NodeId) {
        if let Some(heard) = self.heard.get_mut(usize::from(peer.0)) {
            *heard += 1;
        }
    }

    /// When [`SealedLink::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Nanos {
        self.epochs.next_timeout()
    }

    /// Asks again who has not answered, and gives up keys whose time is over.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.retire(now);
        self.epochs.handle_timeout(now);
    }

    /// Whether [`SealedLink::take_hellos`] or [`SealedLink::take_held`] may have something.
    pub fn has_news(&self) -> bool {
        self.epochs.has_news()
    }

    /// Takes what the link itself has to say: `send` gets each datagram and to whom.
    pub fn take_hellos(&mut self, send: impl FnMut(NodeId, &[u8])) {
        self.epochs.take_hellos(send);
    }

    fn retire(&mut self, now: Nanos) {
        if !self.epochs.retire(now) {
            return;
        }
        // Orders that waited longer than their keys lived are of no use to anybody.
        let epochs = &self.epochs;
        let lives = |origin: Origin| epochs.shared_of(NodeId(origin.stream), origin.life).is_ok();
        for kept in self.kept.iter_mut().filter(|kept| !kept.origin.is_none_or(lives)) {
            kept.origin = None;
            kept.body.clear();
        }
    }

    /// Opens a datagram; the clear one, valid until the next, or `None` where it was for the link
    /// itself. A refusal is counted.
    pub fn open(&mut self, now: Nanos, bytes: &[u8]) -> Result<Option<&[u8]>, SealError> {
        self.current = None;
        self.retire(now);
        let opened = match bytes.first() {
            Some(&HELLO_VERSION) => {
                let heard = self.epochs.hear(now, bytes);
                self.stats.unproven += u64::from(heard == Err(SealError::Stranger));
                heard.map(|()| None)
            }
            _ => self.judge(now, bytes).map(Some),
        };
        let count = match opened {
            Ok(None) => return Ok(None),
            Ok(Some(())) => &mut self.stats.opened,
            Err(SealError::Format) => &mut self.stats.clear,
            Err(SealError::HopTag | SealError::Tag | SealError::Stranger) => &mut self.stats.forged,
            Err(SealError::Replay) => &mut self.stats.replayed,
            Err(SealError::Forbidden) => &mut self.stats.forbidden,
            Err(SealError::Life) => &mut self.stats.other_life,
        };
        *count += 1;
        Ok(opened?.map(|()| &self.clear[..]))
    }

    fn judge(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), SealError> {
        if bytes.len() > DATAGRAM_MAX {
            return Err(SealError::Format);
        }
        self.received.clear();
        self.received.extend_from_slice(bytes);
        let SealHeader { hop: sender, link: tag, .. } =
            read_header(bytes).ok_or(SealError::Format)?;
        let at = match self.epochs.of_session(sender, tag) {
            Ok(at) => at,
            Err(why) => {
                self.epochs.want(now, sender);
                return Err(why);
            }
        };
        let session = self.epochs.session(at, sender).ok_or(SealError::Life)?;
        let opened = open_hop(&session.key, &mut self.received)?;
        let class = (opened.header.len() == HOP_LEN)
            .then(|| {
                classify(&self.fleet, (sender, self.node), opened.origin.stream, opened.header)
            })
            .flatten()
            .ok_or(SealError::Forbidden)?;
        let (source, key) = match class {
            Class::Pair if session.life == opened.origin.life => (sender, Ok(&session.key)),
            Class::Pair => (sender, Err(SealError::Life)),
            Class::Market | Class::Orders(_) => {
                let source = NodeId(opened.origin.stream);
                (source, self.epochs.shared_of(source, opened.origin.life))
            }
        };
        let key = match key {
            Ok(key) => key,
            Err(why) => {
                if why == SealError::Life {
                    self.epochs.want(now, source);
                }
                return Err(why);
            }
        };
        self.clear.clear();
        self.clear.extend_from_slice(opened.header);
        append_body(key, &opened, &mut self.clear)?;
        let (origin, number) = (opened.origin, opened.number);
        let sealed = opened.sealed.len();
        let link = self.epochs.link_mut(at, sender).ok_or(SealError::Stranger)?;
        link.window.accept(number)?;
        if let Class::Orders(edge) = class {
            self.check_order(edge)?;
            self.keep(origin, HOP_LEN + size_of::<SealHeader>(), sealed);
        }
        let start = size_of::<SealHeader>() + HOP_LEN;
        self.current = Some((origin, start..start + sealed));
        if let Some(heard) = self.heard.get_mut(usize::from(sender.0)) {
            *heard += 1;
        }
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

    /// Puts the end-to-end part of a clear datagram into `part`: as it came, or sealed here under the
    /// keys of an epoch.
    fn prepare(&mut self, at: usize, to: NodeId, clear: &[u8]) -> Option<Origin> {
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
        let key = match classify(&self.fleet, (self.node, to), self.node.0, header)? {
            Class::Pair => &self.epochs.session(at, to)?.key,
            Class::Market | Class::Orders(_) => &self.epochs.get(at)?.shared_key,
        };
        if self.number >= NUMBER_MAX {
            return None;
        }
        self.number += 1;
        let (life, number) = (self.epochs.get(at)?.links.life().tag(), self.number);
        let origin = Origin { stream: self.node.0, life, number };
        seal_body(key, origin, body, &mut self.part);
        Some(origin)
    }

    /// Takes what waited until the life of its receiver was known: `send` gets each datagram, sealed,
    /// and to whom.
    pub fn take_held(&mut self, now: Nanos, mut send: impl FnMut(NodeId, &[u8])) {
        let mut sealed = Vec::new();
        for (to, Held { clear, part, .. }) in self.epochs.take_held(now) {
            sealed.clear();
            self.shared = part.map(|(origin, part)| {
                self.part = part;
                origin
            });
            if self.seal(now, to, (&clear, true), &mut sealed) {
                send(to, &sealed);
            }
        }
        self.shared = None;
    }

    /// Appends the sealed form of a clear datagram to a node, or holds it for a moment until that
    /// node's life is known. `again`: it is the one of the last
    /// call, to another node; its end-to-end part is sealed once where its key allows that. False, and
    /// counted, when it can't be sent.
    pub fn seal(
        &mut self,
        now: Nanos,
        to: NodeId,
        (clear, again): (&[u8], bool),
        out: &mut Vec<u8>,
    ) -> bool {
        self.retire(now);
        let agreed = self.epochs.towards(now, to);
        let at = agreed.unwrap_or_else(|| self.epochs.due(now));
        // Parts under a key of two nodes are no good to a third, and those of one epoch none in
        // another.
        let shared = self.shared.filter(|origin| again && self.fits(at, *origin));
        let origin = shared.or_else(|| self.prepare(at, to, clear));
        self.shared = origin.filter(|_| shared.is_some() || is_shared(clear));
        if agreed.is_none() && self.epochs.want(now, to) {
            let part = origin.map(|origin| (origin, &self.part[..]));
            self.stats.early += u64::from(!self.epochs.hold(now, to, (clear, part)));
            return false;
        }
        self.epochs.hurry(now, to, at);
        let sent = origin.is_some_and(|origin| self.address((at, to), origin, clear, out));
        *(if sent { &mut self.stats.sealed } else { &mut self.stats.unsent }) += 1;
        sent
    }

    /// Whether a part may go with what is sealed in an epoch: others' may always.
    fn fits(&self, at: usize, origin: Origin) -> bool {
        let own = |epoch: &Epoch<S>| epoch.links.life().tag() == origin.life;
        origin.stream != self.node.0 || self.epochs.get(at).is_some_and(own)
    }

    fn address(
        &mut self,
        (at, to): (usize, NodeId),
        origin: Origin,
        clear: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let (Some(link), Some(hop)) = (self.epochs.link_mut(at, to), clear.get(..HOP_LEN)) else {
            return false;
        };
        let Some(session) = &link.session else { return false };
        let sealed = &self.part[..];
        let opened = OpenedHop { sender: self.node, number: 0, origin, header: hop, sealed };
        link.sealer.forward(&session.key, &opened, hop, out)
    }
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
pub(crate) fn classify(
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
