//! The links of all nodes of a tree, joined by ways that lose nothing: for tests of what is sealed.

use overlay::{
    control::{CONTROL_VERSION, ControlHeader, ControlKind},
    frame::{FrameKind, HopHeader, OrderBody},
    hedging::Hedging,
    lives::{Keys, Life},
    sealed_link::{Fleet, SealedLink, SealedLinkStats},
    topology::Topology,
};
use types::{GatewayId, Nanos, NodeId, Source};
use zerocopy::IntoBytes;

/// Three layers in two planes, and a proxy that stands by: a root, seven proxies, four edges.
pub fn tree() -> Topology {
    let hedging = Hedging { planes: 2, ..Hedging::default() };
    let tree = Topology::new(3, 2, 4).and_then(|tree| tree.with_hedging(hedging)).expect("a tree");
    let first = tree.receiver_ids().next().expect("a receiver");
    tree.with_receivers_at(NodeId(first.0 + 1)).expect("one more")
}

/// All kinds of datagrams that there are.
pub const KINDS: [Result<FrameKind, ControlKind>; 16] = [
    Ok(FrameKind::Data),
    Ok(FrameKind::Repair),
    Ok(FrameKind::RepairRequest),
    Ok(FrameKind::Delay),
    Ok(FrameKind::Order),
    Ok(FrameKind::OrderAck),
    Ok(FrameKind::Hello),
    Ok(FrameKind::Grant),
    Ok(FrameKind::Attach),
    Ok(FrameKind::AttachReply),
    Ok(FrameKind::Private),
    Ok(FrameKind::PrivateAck),
    Err(ControlKind::HopReport),
    Err(ControlKind::Detour),
    Err(ControlKind::Tree),
    Err(ControlKind::Status),
];

/// A datagram of a kind that says it is from `sender`, with an order of the gateway at `source`.
pub fn clear(kind: Result<FrameKind, ControlKind>, sender: NodeId, source: NodeId) -> Vec<u8> {
    let first = tree().receiver_ids().next().expect("a receiver");
    let gateway = GatewayId(source.0.saturating_sub(first.0) + 1);
    let source = Source { gateway, seq: 1, ..Source::default() };
    let body = OrderBody { source, depends_on: 0, t_in: Nanos(1) };
    let mut bytes = match kind {
        Ok(kind) => HopHeader::new(kind, sender, 1).as_bytes().to_vec(),
        Err(kind) => {
            let (version, reserved) = (CONTROL_VERSION, [0; 6]);
            let header = ControlHeader { version, kind, sender, epoch: 1, stream: 0, reserved };
            header.as_bytes().to_vec()
        }
    };
    bytes.extend_from_slice(body.as_bytes());
    bytes
}

/// The links, by node.
pub struct Links<S: Keys> {
    pub now: Nanos,
    pub all: Vec<SealedLink<S>>,
}

impl<S: Keys> Links<S> {
    /// The links of all nodes, which have met; `keys` and life of each.
    pub fn new(
        topology: &Topology,
        keys: impl Fn(NodeId) -> S,
        life: impl Fn(NodeId) -> Life,
    ) -> Self {
        let fleet = Fleet::of(topology);
        let link = |node: NodeId| {
            SealedLink::new(node, fleet.clone(), life(node), false, keys(node)).expect("a cipher")
        };
        let all = fleet.nodes().map(link).collect();
        let mut links = Links { now: Nanos(Nanos::SECOND), all };
        links.settle();
        links
    }

    /// Delivers hellos until there are none; all of them, and who sent them to whom.
    pub fn settle(&mut self) -> Vec<(NodeId, NodeId, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let mut said = Vec::new();
            for link in &mut self.all {
                let from = link.node();
                link.handle_timeout(self.now);
                link.take_hellos(|to, bytes| said.push((from, to, bytes.to_vec())));
            }
            if said.is_empty() {
                return all;
            }
            for (_, to, bytes) in &said {
                let _ = self.all[usize::from(to.0)].open(self.now, bytes);
            }
            all.extend(said);
        }
    }

    /// Seals a datagram; `None` when the link does not send it, or not yet.
    pub fn seal(&mut self, from: NodeId, to: NodeId, clear: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let link = &mut self.all[usize::from(from.0)];
        link.seal(self.now, to, (clear, false), &mut bytes).then_some(bytes)
    }

    /// Whether a node takes a sealed datagram.
    pub fn open(&mut self, to: NodeId, bytes: &[u8]) -> bool {
        matches!(self.all[usize::from(to.0)].open(self.now, bytes), Ok(Some(_)))
    }

    /// Whether a datagram is sent and taken.
    pub fn send(&mut self, from: NodeId, to: NodeId, clear: &[u8]) -> bool {
        let sealed = self.seal(from, to, clear);
        sealed.is_some_and(|bytes| self.open(to, &bytes))
    }

    /// Of all links.
    pub fn stats(&self) -> SealedLinkStats {
        let mut sum = SealedLinkStats::default();
        self.all.iter().for_each(|link| sum += link.stats());
        sum
    }
}
