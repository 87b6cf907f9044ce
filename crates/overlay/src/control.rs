//! Datagrams from one node to the next that are nobody else's business: what a parent tells its
//! children about the orders they send, who stands in for a dead proxy, which tree comes next, and
//! that a node is alive and knows it.
//!
//! A family of their own: the first byte tells them from [`crate::frame`]s, so that a node which
//! does not know them refuses them as another version.

use types::{
    NodeId, Outbox,
    limits::{DATAGRAM_BUILT_MAX, DATAGRAM_MAX},
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::{
    tree::hedging::{HedgePolicy, Hedging},
    tree::seating::Seating,
    tree::topology::{DEPTH_MAX, Topology, Tree},
};

/// First byte of a control datagram.
pub const CONTROL_VERSION: u8 = 0x81;
/// Arrivals in one hop report at most.
pub const ARRIVALS_MAX: usize = 128;

/// Kind of a control datagram: what its body is.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum ControlKind {
    /// Parent to child: [`HopReportBody`] + arrivals.
    HopReport = 1,
    /// From the root to every node: [`DetourBody`].
    Detour = 2,
    /// Root to every node: [`TreeBody`], the present tree or the next one; answered by a status.
    Tree = 3,
    /// From every node to the root: [`StatusBody`].
    Status = 4,
}

/// Header of a control datagram: its first 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ControlHeader {
    /// Version of the layout: [`CONTROL_VERSION`].
    pub version: u8,
    /// Kind of the body that follows.
    pub kind: ControlKind,
    /// Node that sent it; authenticated where datagrams are sealed.
    pub sender: NodeId,
    /// Tree epoch the sender lives in.
    pub epoch: u32,
    /// Number of the stream, which is that of its tree.
    pub stream: u16,
    /// Padding; zero.
    pub reserved: [u8; 6],
}

/// How a child's orders arrive, and how many more it may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HopReportBody {
    /// Highest hop number that was heard from the child.
    pub highest: u16,
    /// With credits: the hop number it may go to.
    pub limit: u16,
    /// Number of [`HopArrival`] entries that follow.
    pub count: u16,
    /// 1: credits are granted, and `limit` counts; 0: they are not.
    pub credits: u16,
}

/// The arrival of one order, as its hop number names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HopArrival {
    /// Hop number of the order.
    pub number: u16,
    /// Padding; zero.
    pub reserved: u16,
    /// How long it took, in ns.
    pub owd_ns: u32,
}

/// A proxy is dead, or back; numbered so that old news does not undo newer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DetourBody {
    /// Grows with every message of its kind in an epoch.
    pub number: u64,
    /// Bit i of word w: node `first + 64 w + i` is dead.
    pub dead: [u64; 4],
    /// Node of the first bit.
    pub first: NodeId,
    /// Padding; zero.
    pub reserved: [u8; 6],
}

/// A whole tree: what a node needs to know of an epoch before it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TreeBody {
    /// Length of a round of the delay all-reduce, in ns.
    pub round_ns: u64,
    /// Epoch that the tree belongs to.
    pub epoch: u32,
    /// Hedging factor H of the tree.
    pub hedge: u16,
    /// Node of the first receiver.
    pub receivers_at: NodeId,
    /// Nodes of each layer of one plane, the one below the root first; 0: no layer.
    pub layers: [u16; DEPTH_MAX],
    /// H of each layer, or `Hedging::TREE`.
    pub layer_hedges: [u8; DEPTH_MAX],
    /// Number of planes: how many times the proxy layers exist.
    pub planes: u16,
    /// Which nodes' children a node helps: 0 those of the next siblings, 1 those of siblings with
    /// another parent, 2 none.
    pub policy: u8,
    /// Spare proxies per group of siblings.
    pub spares: u8,
    /// 1: parents change with every message.
    pub dynamic: u8,
    /// 0: messages take turns in the planes; else the one plane in use, plus one.
    pub only_plane: u8,
    /// Padding; zero.
    pub reserved: [u8; 2],
    /// The first places at which another node than their own stands, each with that node; unused
    /// entries are zeros. Further ones follow behind the body ([`tree_tail`]).
    pub moved: [[u16; 2]; MOVED_HERE],
}

/// Places that a [`TreeBody`] itself tells of.
pub const MOVED_HERE: usize = 8;

/// What follows a [`TreeBody`]: places and who stands there as the body has them, of those that have
/// no room in it. Empty for most trees.
pub fn tree_tail(tree: &Tree) -> Vec<u8> {
    let rest = tree.topology.seating().moved().iter().skip(MOVED_HERE);
    rest.flat_map(|(place, node)| [*place, *node].as_bytes().to_vec()).collect()
}

/// The tree that a [`ControlKind::Tree`] tells of, with the number `stream`; `None` when there can be no
/// such tree.
pub fn told_tree(bytes: &[u8], stream: u16) -> Option<Tree> {
    let (body, tail) = TreeBody::read_from_prefix(bytes).ok()?;
    body.tree(stream, tail)
}

/// Where a node stands, in answer to a [`TreeBody`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct StatusBody {
    /// The last epoch it knows the tree of.
    pub known: u32,
    /// The epoch it lives in.
    pub present: u32,
}

impl TreeBody {
    /// The body that describes this tree.
    pub fn of(tree: &Tree) -> TreeBody {
        let hedging = tree.topology.hedging();
        let mut moved = [[0; 2]; MOVED_HERE];
        for (pair, (place, node)) in moved.iter_mut().zip(tree.topology.seating().moved()) {
            *pair = [*place, *node];
        }
        TreeBody {
            round_ns: tree.round_ns,
            epoch: tree.epoch,
            hedge: tree.hedge.min(usize::from(u16::MAX)) as u16,
            receivers_at: tree.topology.receiver_ids().next().unwrap_or_default(),
            layers: tree.topology.plane_sizes().map(|size| size as u16),
            layer_hedges: hedging.layers,
            planes: hedging.planes,
            policy: match hedging.policy {
                HedgePolicy::Sibling => 0,
                HedgePolicy::PathDisjoint => 1,
                HedgePolicy::ExtraFanout => 2,
            },
            spares: hedging.spares,
            dynamic: tree.dynamic.into(),
            only_plane: tree.topology.only_plane().map_or(0, |plane| (plane + 1).min(255) as u8),
            reserved: [0; 2],
            moved,
        }
    }

    /// The tree told of, with the number `stream`, and the places in `tail`; `None` when there can be no
    /// such tree.
    pub fn tree(&self, stream: u16, tail: &[u8]) -> Option<Tree> {
        let sizes = self.layers.map(usize::from);
        let depth = sizes.iter().position(|size| *size == 0).unwrap_or(DEPTH_MAX);
        let hedging = Hedging {
            policy: match self.policy {
                0 => HedgePolicy::Sibling,
                1 => HedgePolicy::PathDisjoint,
                2 => HedgePolicy::ExtraFanout,
                _ => return None,
            },
            layers: self.layer_hedges,
            spares: self.spares,
            planes: self.planes,
        };
        let topology = Topology::from_layers(&sizes[..depth]).ok()?.with_hedging(hedging).ok()?;
        let mut topology = topology.with_receivers_at(self.receivers_at).ok()?;
        if let Some(plane) = self.only_plane.checked_sub(1) {
            topology = topology.with_only_plane(plane.into())?;
        }
        let (more, odd) = tail.as_chunks::<4>();
        let more = more.iter().map(|pair| [[pair[0], pair[1]], [pair[2], pair[3]]]);
        let more = more.map(|pair| pair.map(u16::from_ne_bytes));
        let here = self.moved.iter().copied().filter(|pair| *pair != [0; 2]);
        let moved: Vec<(u16, u16)> = here.chain(more).map(|[place, node]| (place, node)).collect();
        if !odd.is_empty() {
            return None;
        }
        let topology = topology.with_seating(Seating::of(&moved)?)?;
        let (hedge, dynamic) = (usize::from(self.hedge), self.dynamic == 1);
        let (epoch, round_ns) = (self.epoch, self.round_ns);
        let whole = self.dynamic <= 1 && round_ns > 0 && self.planes > 0;
        whole.then_some(Tree { topology, hedge, dynamic, epoch, stream, round_ns })
    }
}

const _: () = {
    assert!(size_of::<ControlHeader>() == 16);
    assert!(
        16 + size_of::<HopReportBody>() + ARRIVALS_MAX * size_of::<HopArrival>()
            <= DATAGRAM_BUILT_MAX
    );
};

impl ControlHeader {
    /// A header of this version.
    pub fn new(kind: ControlKind, sender: NodeId, epoch: u32, stream: u16) -> ControlHeader {
        let version = CONTROL_VERSION;
        ControlHeader { version, kind, sender, epoch, stream, reserved: [0; 6] }
    }

    /// Whether a datagram is of this family.
    pub fn is_control(datagram: &[u8]) -> bool {
        datagram.first() == Some(&CONTROL_VERSION)
    }

    /// Reads the header; the rest is the body and what follows it.
    pub fn read(datagram: &[u8]) -> Option<(ControlHeader, &[u8])> {
        if datagram.len() > DATAGRAM_MAX {
            return None;
        }
        let (header, rest) = ControlHeader::try_read_from_prefix(datagram).ok()?;
        (header.version == CONTROL_VERSION && header.reserved == [0; 6]).then_some((header, rest))
    }
}

/// Appends a control datagram to the outbox.
pub fn send<B: IntoBytes + Immutable>(
    out: &mut Outbox,
    to: NodeId,
    header: ControlHeader,
    body: &B,
    tail: &[u8],
) {
    send_by((out, types::Channel::OVERLAY), to, header, body, tail);
}

/// As [`send`], by a channel that the caller chooses.
pub fn send_by<B: IntoBytes + Immutable>(
    (out, channel): (&mut Outbox, types::Channel),
    to: NodeId,
    header: ControlHeader,
    body: &B,
    tail: &[u8],
) {
    let bytes = out.write(|buffer| {
        buffer.extend_from_slice(header.as_bytes());
        buffer.extend_from_slice(body.as_bytes());
        buffer.extend_from_slice(tail);
    });
    out.datagram(channel, types::Peer::Node(to), bytes);
}

/// Reads a hop report and its arrivals.
pub fn hop_report(rest: &[u8]) -> Option<(HopReportBody, impl Iterator<Item = HopArrival> + '_)> {
    let (body, tail) = HopReportBody::read_from_prefix(rest).ok()?;
    let size = size_of::<HopArrival>();
    let whole =
        usize::from(body.count) <= ARRIVALS_MAX && tail.len() == usize::from(body.count) * size;
    let arrivals = |tail: &'_ [u8]| HopArrival::read_from_bytes(tail).ok();
    whole.then(|| (body, tail.chunks_exact(size).filter_map(arrivals)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameError, HopHeader};
    use proptest::prelude::*;

    #[test]
    fn frames_and_control_are_told_apart() {
        let header = ControlHeader::new(ControlKind::HopReport, NodeId(3), 7, 1);
        let bytes = header.as_bytes();
        assert!(ControlHeader::is_control(bytes));
        assert_eq!(ControlHeader::read(bytes), Some((header, &[][..])));
        assert_eq!(HopHeader::read(bytes), Err(FrameError::Version));
    }

    proptest! {
        #[test]
        fn a_tree_is_told_whole(
            layers in prop::collection::vec(1usize..40, 1..5), idle in 0u16..9, hedge in 0usize..4,
            planes in 1u16..4, only in any::<bool>(), dynamic in any::<bool>(),
            epoch in any::<u32>(),
        ) {
            let hedging = Hedging { planes, layers: [1; DEPTH_MAX], ..Hedging::default() };
            let topology = Topology::from_layers(&layers).unwrap().with_hedging(hedging).unwrap();
            let first = topology.receiver_ids().next().unwrap();
            let topology = topology.with_receivers_at(NodeId(first.0 + idle)).unwrap();
            prop_assert_eq!(topology.receiver_ids().next(), Some(NodeId(first.0 + idle)));
            prop_assert_eq!(topology.id_end(), topology.nodes() + usize::from(idle));
            let one = topology.with_only_plane(planes - 1).unwrap();
            let idle = topology.idle_ids().next();
            let exchanged = idle.and_then(|idle| topology.with_exchanged(NodeId(1), idle));
            let topology = if only { one } else { exchanged.unwrap_or(topology) };
            let tree = Tree { topology, hedge, dynamic, epoch, stream: 3, round_ns: 5 };
            let whole = [TreeBody::of(&tree).as_bytes(), &tree_tail(&tree)].concat();
            prop_assert_eq!(told_tree(&whole, 3), Some(tree));
        }

        #[test]
        fn more_places_than_a_body_holds_follow_it(exchanges in 0u16..40, cut in 1usize..5) {
            let topology = Topology::from_layers(&[10, 40]).unwrap();
            let mut topology = topology.with_receivers_at(NodeId(100)).unwrap();
            for at in 0..exchanges {
                let next = topology.with_exchanged(NodeId(1 + at % 10), NodeId(11 + at));
                topology = next.unwrap_or(topology);
            }
            let tree = Tree { topology, hedge: 1, dynamic: true, epoch: 9, stream: 0, round_ns: 5 };
            let moved = tree.topology.seating().moved().len();
            let tail = tree_tail(&tree);
            prop_assert_eq!(tail.len(), moved.saturating_sub(MOVED_HERE) * 4);
            let mut whole = [TreeBody::of(&tree).as_bytes(), &tail].concat();
            prop_assert_eq!(told_tree(&whole, 0), Some(tree));
            // Control: a place less is no permutation, and half of one nothing at all.
            whole.truncate(whole.len() - cut);
            prop_assert_eq!(told_tree(&whole, 0), None);
        }

        #[test]
        fn arbitrary_trees_never_panic(
            bytes in prop::collection::vec(any::<u8>(), size_of::<TreeBody>()), few in any::<bool>(),
            tail in prop::collection::vec(any::<u8>(), 0..300), plain in any::<bool>(),
        ) {
            let mut body = TreeBody::read_from_bytes(&bytes).unwrap();
            if plain {
                body.moved = [[0; 2]; MOVED_HERE];
            }
            if few {
                (body.policy, body.dynamic) = (body.policy % 3, body.dynamic % 2);
                body.layers = body.layers.map(|size| size % 9);
            }
            let _ = body.tree(0, &tail).map(|tree| tree.topology.children(NodeId(1), 7, 3, true).count());
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200), ours in any::<bool>(),
        ) {
            if let Some(first) = bytes.first_mut().filter(|_| ours) {
                *first = CONTROL_VERSION;
            }
            if let Some((_, rest)) = ControlHeader::read(&bytes) {
                let _ = hop_report(rest).map(|(_, arrivals)| arrivals.count());
            }
            let _ = hop_report(&bytes).map(|(_, arrivals)| arrivals.count());
        }
    }
}
