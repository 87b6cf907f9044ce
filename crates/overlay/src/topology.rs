//! Shape of the proxy tree and who serves whom: pure arithmetic, the same on every node.
//!
//! Nodes are numbered from the root: 0 is the root, 1..=N_0 the first layer, and so on; the last
//! layer are the receivers. Layer sizes follow from the leaves up, N_j = ceil(N_{j+1} / F); the
//! root serves all of layer 0.
//!
//! Children of node i of layer j for message m are the indices
//! `ceil(b N_{j+1} / N_j) .. ceil((b + 1) N_{j+1} / N_j)` of the next layer, with the block
//! `b = (i + offset_j(m)) mod N_j`. Where N_{j+1} = F N_j this is the paper's rule (Jasper §5),
//! elsewhere it still gives every node exactly one parent. Offsets are mixed radix,
//! `offset_j(m) = m div (N_0 .. N_{j-1}) mod N_j`, so that every path from the root is used.
//!
//! Sibling hedging (§6): a node also sends to the children of its next H siblings, with wrap, after
//! its own; so a child's further parents are the H before its own. H is at most N_j - 1, and layer
//! 0, whose one parent is the root, is never hedged.

use std::ops::Range;

use types::NodeId;

/// The root: publisher, retransmission server, sequencer.
pub const ROOT: NodeId = NodeId(0);
/// Most layers of a tree.
pub const DEPTH_MAX: usize = 8;

/// Layer sizes and the numbering of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    depth: usize,
    sizes: [u32; DEPTH_MAX],
    /// Node id of index 0 of each layer.
    firsts: [u32; DEPTH_MAX],
}

/// What all nodes of one tree agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Layers.
    pub topology: Topology,
    /// Siblings a node helps, H; 0 for none. Cut to what a layer allows.
    pub hedge: usize,
    /// Whether parents change with every message.
    pub dynamic: bool,
    /// Epoch a node starts in; it follows a publisher that starts a later one.
    pub epoch: u32,
    /// Number of this tree.
    pub stream: u16,
    /// Length of a round of the delay all-reduce, in ns.
    pub round_ns: u64,
}

/// Why a topology was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyError {
    /// No layer, or more than [`DEPTH_MAX`].
    Depth(usize),
    /// A proxy that serves nobody.
    Fanout,
    /// A layer without nodes.
    EmptyLayer(usize),
    /// More nodes, the root included, than a [`NodeId`] can name.
    TooManyNodes(u64),
}

impl std::fmt::Display for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TopologyError::Depth(depth) => write!(f, "depth {depth} is not in 1..={DEPTH_MAX}"),
            TopologyError::Fanout => write!(f, "fan-out must be at least 1"),
            TopologyError::EmptyLayer(layer) => write!(f, "layer {layer} has no nodes"),
            TopologyError::TooManyNodes(nodes) => {
                write!(f, "{nodes} nodes are more than {}", u16::MAX)
            }
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// `depth` hops from the root to each of `receivers`, `fanout` children per proxy.
    pub fn new(depth: usize, fanout: usize, receivers: usize) -> Result<Topology, TopologyError> {
        if depth == 0 || depth > DEPTH_MAX {
            return Err(TopologyError::Depth(depth));
        }
        if fanout == 0 {
            return Err(TopologyError::Fanout);
        }
        let mut sizes = [0; DEPTH_MAX];
        let mut size = receivers;
        for layer in sizes[..depth].iter_mut().rev() {
            *layer = size;
            size = size.div_ceil(fanout);
        }
        Topology::from_layers(&sizes[..depth])
    }

    /// Layers of any sizes, the one below the root first.
    pub fn from_layers(layers: &[usize]) -> Result<Topology, TopologyError> {
        if layers.is_empty() || layers.len() > DEPTH_MAX {
            return Err(TopologyError::Depth(layers.len()));
        }
        if let Some(layer) = layers.iter().position(|size| *size == 0) {
            return Err(TopologyError::EmptyLayer(layer));
        }
        let nodes = layers.iter().fold(1u64, |sum, size| sum.saturating_add(*size as u64));
        if nodes > u64::from(u16::MAX) {
            return Err(TopologyError::TooManyNodes(nodes));
        }
        let (mut sizes, mut firsts) = ([0; DEPTH_MAX], [0; DEPTH_MAX]);
        let mut next = 1;
        for (layer, size) in layers.iter().enumerate() {
            sizes[layer] = *size as u32;
            firsts[layer] = next;
            next += *size as u32;
        }
        Ok(Topology { depth: layers.len(), sizes, firsts })
    }

    /// Hops from the root to a receiver.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Layer sizes, the one below the root first.
    pub fn layers(&self) -> &[u32] {
        &self.sizes[..self.depth]
    }

    /// All nodes, the root included.
    pub fn nodes(&self) -> usize {
        1 + self.layers().iter().sum::<u32>() as usize
    }

    /// How many receivers there are.
    pub fn receivers(&self) -> usize {
        self.sizes[self.depth - 1] as usize
    }

    /// The receivers, in order.
    pub fn receiver_ids(&self) -> impl Iterator<Item = NodeId> {
        let first = self.firsts[self.depth - 1];
        (first..first + self.sizes[self.depth - 1]).map(|id| NodeId(id as u16))
    }

    /// The proxies, in order.
    pub fn proxy_ids(&self) -> impl Iterator<Item = NodeId> {
        (1..self.firsts[self.depth - 1]).map(|id| NodeId(id as u16))
    }

    /// The node at `index` of `layer`, if there is one.
    pub fn node_id(&self, layer: usize, index: usize) -> Option<NodeId> {
        let size = *self.layers().get(layer)? as usize;
        (index < size).then(|| NodeId((self.firsts[layer] as usize + index) as u16))
    }

    /// Layer and index of a node; `None` for the root and for nodes that do not exist.
    pub fn locate(&self, node: NodeId) -> Option<(usize, usize)> {
        let id = u32::from(node.0);
        let layer = self.firsts[..self.depth].iter().rposition(|first| *first <= id)?;
        let index = id - self.firsts[layer];
        (index < self.sizes[layer]).then_some((layer, index as usize))
    }

    /// Whether the node is a receiver of this tree.
    pub fn is_receiver(&self, node: NodeId) -> bool {
        self.locate(node).is_some_and(|(layer, _)| layer + 1 == self.depth)
    }

    /// To whom `node` sends message `id`, its own children first. Empty for receivers.
    pub fn children(&self, node: NodeId, id: u64, hedge: usize, dynamic: bool) -> Children {
        let none = Children { first: 0, width: 0, blocks: 1, block: 0, left: 0, here: 0..0 };
        if node == ROOT {
            // One block: the whole of layer 0.
            return Children { first: self.firsts[0], width: self.sizes[0], left: 1, ..none };
        }
        let Some((layer, index)) = self.locate(node) else { return none };
        if layer + 1 >= self.depth {
            return none;
        }
        let blocks = self.sizes[layer];
        Children {
            first: self.firsts[layer + 1],
            width: self.sizes[layer + 1],
            blocks,
            block: (index as u32 + self.offset(layer, id, dynamic)) % blocks,
            left: 1 + hedge.min(blocks as usize - 1) as u32,
            here: 0..0,
        }
    }

    /// From whom `node` gets message `id`, its own parent first; the inverse of
    /// [`Topology::children`]. Empty for the root.
    pub fn parents(&self, node: NodeId, id: u64, hedge: usize, dynamic: bool) -> Parents {
        let Some((layer, index)) = self.locate(node) else {
            return Parents { first: 0, width: 1, index: 0, left: 0 };
        };
        let Some(above) = layer.checked_sub(1) else {
            return Parents { first: 0, width: 1, index: 0, left: 1 };
        };
        let width = self.sizes[above];
        // ceil(b N' / N) <= c < ceil((b + 1) N' / N) has the one solution b = floor(c N / N').
        let block = (index as u64 * u64::from(width) / u64::from(self.sizes[layer])) as u32;
        let own = (block + width - self.offset(above, id, dynamic)) % width;
        let left = 1 + hedge.min(width as usize - 1) as u32;
        Parents { first: self.firsts[above], width, index: own, left }
    }

    /// How many copies of each message `node` is sent.
    pub fn copies(&self, node: NodeId, hedge: usize) -> usize {
        self.parents(node, 0, hedge, false).count()
    }

    /// Position of `child` among the own children of `node` for `id`, and how many those are.
    pub fn own_child(
        &self,
        node: NodeId,
        child: NodeId,
        id: u64,
        dynamic: bool,
    ) -> Option<(usize, usize)> {
        let mut children = self.children(node, id, 0, dynamic);
        children.enter_block();
        let index = u32::from(child.0).checked_sub(children.first)?;
        let own = children.here;
        own.contains(&index).then(|| ((index - own.start) as usize, own.len()))
    }

    /// The nodes above through which `node` may send orders, the preferred one first: fixed for an
    /// epoch (corner 3), another rotation in the next one. H + 1 of them, but two even without
    /// hedging: market data lost with a dead parent is repaired from elsewhere, an order that has
    /// only one way is not.
    pub fn up_candidates(&self, node: NodeId, hedge: usize, epoch: u32) -> Parents {
        self.parents(node, u64::from(epoch), hedge.max(1), true)
    }

    /// The candidate that `node` takes for an order which was re-sent `attempt` times.
    ///
    /// Candidate counts of the layers are the digits of `attempt`, the gateway's first: consecutive
    /// attempts walk through all paths to the root, which one and the same choice at every layer
    /// would not. `None` for the root.
    pub fn up_hop(&self, node: NodeId, hedge: usize, epoch: u32, attempt: u8) -> Option<NodeId> {
        let (layer, _) = self.locate(node)?;
        let below = self.layers()[layer..self.depth - 1].iter();
        let digits = below.rev().fold(usize::from(attempt), |digits, size| {
            digits / (1 + hedge.max(1).min(*size as usize - 1))
        });
        let mut candidates = self.up_candidates(node, hedge, epoch);
        let count = candidates.left as usize;
        candidates.nth(digits % count)
    }

    fn offset(&self, layer: usize, id: u64, dynamic: bool) -> u32 {
        if !dynamic {
            return 0;
        }
        let digits = self.sizes[..layer].iter().fold(id, |id, size| id / u64::from(*size));
        (digits % u64::from(self.sizes[layer])) as u32
    }
}

impl Tree {
    /// [`Topology::children`] of `node` in this tree.
    pub fn children(&self, node: NodeId, id: u64) -> Children {
        self.topology.children(node, id, self.hedge, self.dynamic)
    }

    /// [`Topology::parents`] of `node` in this tree.
    pub fn parents(&self, node: NodeId, id: u64) -> Parents {
        self.topology.parents(node, id, self.hedge, self.dynamic)
    }

    /// The one node above that takes `node`'s part in round `round` of the delay all-reduce.
    pub fn reduce_parent(&self, node: NodeId, round: u64) -> Option<NodeId> {
        self.topology.parents(node, round, 0, self.dynamic).next()
    }
}

/// Receivers of a message, in sending order.
#[derive(Clone, Debug)]
pub struct Children {
    /// Id of index 0 of the next layer.
    first: u32,
    width: u32,
    /// Blocks the next layer is cut into: nodes of the sender's layer.
    blocks: u32,
    block: u32,
    left: u32,
    /// What is left of the block being listed.
    here: Range<u32>,
}

impl Children {
    fn enter_block(&mut self) {
        if self.left == 0 {
            return;
        }
        let edge = |block: u32| {
            (u64::from(block) * u64::from(self.width)).div_ceil(u64::from(self.blocks)) as u32
        };
        self.here = edge(self.block)..edge(self.block + 1);
        self.block = (self.block + 1) % self.blocks;
        self.left -= 1;
    }
}

impl Iterator for Children {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        while self.here.is_empty() && self.left > 0 {
            self.enter_block();
        }
        self.here.next().map(|index| NodeId((self.first + index) as u16))
    }
}

/// Senders of a message to one node, its own parent first.
#[derive(Clone, Debug)]
pub struct Parents {
    /// Id of index 0 of the layer above.
    first: u32,
    width: u32,
    index: u32,
    left: u32,
}

impl Iterator for Parents {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        self.left = self.left.checked_sub(1)?;
        let node = NodeId((self.first + self.index) as u16);
        self.index = (self.index + self.width - 1) % self.width;
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn default_tree_has_three_proxies_for_nine_receivers() {
        let tree = Topology::new(2, 3, 9).unwrap();
        assert_eq!((tree.layers(), tree.nodes()), (&[3, 9][..], 13));
        assert_eq!(tree.node_id(1, 8), Some(NodeId(12)));
        assert_eq!(tree.node_id(1, 9), None);
        assert_eq!(tree.locate(NodeId(4)), Some((1, 0)));
        assert_eq!((tree.locate(ROOT), tree.locate(NodeId(13))), (None, None));
        let children: Vec<_> = tree.children(NodeId(1), 0, 1, true).map(|node| node.0).collect();
        assert_eq!(children, [4, 5, 6, 7, 8, 9], "own children first, then the nieces");
        let wrapped: Vec<_> = tree.children(NodeId(3), 0, 1, true).map(|node| node.0).collect();
        assert_eq!(wrapped, [10, 11, 12, 4, 5, 6]);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert_eq!(Topology::new(0, 3, 9), Err(TopologyError::Depth(0)));
        assert_eq!(Topology::new(9, 3, 9), Err(TopologyError::Depth(9)));
        assert_eq!(Topology::new(2, 0, 9), Err(TopologyError::Fanout));
        assert_eq!(Topology::new(2, 3, 0), Err(TopologyError::EmptyLayer(0)));
        assert_eq!(Topology::new(2, 1, 40_000), Err(TopologyError::TooManyNodes(80_001)));
        assert!(Topology::new(1, 1, 65_534).is_ok());
    }

    #[test]
    fn every_pair_of_layer_sizes_partitions_the_lower_one() {
        for (parents, children) in (1..=60).flat_map(|n| (1..=60).map(move |m| (n, m))) {
            let tree = Topology::from_layers(&[parents, children]).unwrap();
            for id in [0, 1, 7, 59, 3_601] {
                let mut seen = vec![0; children];
                for parent in 0..parents {
                    let node = tree.node_id(0, parent).unwrap();
                    for child in tree.children(node, id, 0, true) {
                        seen[tree.locate(child).unwrap().1] += 1;
                        assert_eq!(tree.parents(child, id, 0, true).next(), Some(node));
                    }
                }
                assert!(seen.iter().all(|count| *count == 1), "{parents} -> {children}, id {id}");
            }
        }
    }

    #[test]
    fn equals_the_papers_rule_where_sizes_are_multiples() {
        for (parents, fanout) in (1..=12).flat_map(|n| (1..=6).map(move |f| (n, f))) {
            let tree = Topology::from_layers(&[parents, parents * fanout]).unwrap();
            for (id, i) in (0..40).flat_map(|m| (0..parents).map(move |i| (m, i))) {
                let node = tree.node_id(0, i).unwrap();
                let ours: Vec<_> = tree.children(node, id, 0, true).collect();
                let paper: Vec<_> = (0..fanout)
                    .map(|k| ((id as usize + i) * fanout + k) % (parents * fanout))
                    .map(|index| tree.node_id(1, index).unwrap())
                    .collect();
                assert_eq!(ours, paper);
            }
        }
    }

    #[test]
    fn mixed_radix_reaches_every_path_to_every_leaf() {
        let tree = Topology::new(4, 2, 16).unwrap();
        let all: usize = tree.layers()[..3].iter().map(|size| *size as usize).product();
        for leaf in tree.receiver_ids() {
            let paths: BTreeSet<Vec<u16>> = (0..all as u64)
                .map(|id| {
                    let above = |node: &NodeId| tree.parents(*node, id, 0, true).next();
                    std::iter::successors(Some(leaf), above).map(|node| node.0).collect()
                })
                .collect();
            assert_eq!(paths.len(), all);
        }
    }

    #[test]
    fn attempts_walk_through_every_way_up() {
        let tree = Topology::new(3, 3, 27).unwrap();
        for (leaf, hedge) in tree.receiver_ids().flat_map(|leaf| (0..3).map(move |h| (leaf, h))) {
            let ways: BTreeSet<Vec<u16>> = (0..((hedge + 1) * (hedge + 1)) as u8)
                .map(|attempt| {
                    let up = |node: &NodeId| tree.up_hop(*node, hedge, 5, attempt);
                    std::iter::successors(Some(leaf), up).map(|node| node.0).collect()
                })
                .collect();
            assert_eq!(ways.len(), (hedge + 1) * (hedge + 1));
            assert!(ways.iter().all(|way| way.len() == 4 && way[3] == 0));
            let first = tree.up_candidates(leaf, hedge, 5).nth(hedge);
            assert_eq!(tree.up_hop(leaf, hedge, 5, hedge as u8), first);
        }
    }

    fn layers() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(1usize..60, 1..5)
    }

    proptest! {
        #[test]
        fn children_and_parents_are_inverse(
            layers in layers(), id in any::<u64>(), hedge in 0usize..5, dynamic in any::<bool>(),
        ) {
            let tree = Topology::from_layers(&layers).unwrap();
            let mut sent = BTreeSet::new();
            for node in (0..tree.nodes() as u16).map(NodeId) {
                let own: Vec<_> = tree.children(node, id, 0, dynamic).collect();
                let all: Vec<_> = tree.children(node, id, hedge, dynamic).collect();
                prop_assert!(all.starts_with(&own));
                for (position, child) in own.iter().enumerate() {
                    let found = tree.own_child(node, *child, id, dynamic);
                    prop_assert_eq!(found, Some((position, own.len())));
                }
                for child in all {
                    prop_assert!(sent.insert((node, child)), "one copy per sender and child");
                }
            }
            let mut heard = BTreeSet::new();
            for node in (1..tree.nodes() as u16).map(NodeId) {
                let (layer, _) = tree.locate(node).unwrap();
                let parents: Vec<_> = tree.parents(node, id, hedge, dynamic).collect();
                let above = if layer == 0 { 1 } else { layers[layer - 1] };
                prop_assert_eq!(parents.len(), hedge.min(above - 1) + 1);
                prop_assert_eq!(tree.copies(node, hedge), parents.len());
                heard.extend(parents.into_iter().map(|parent| (parent, node)));
            }
            prop_assert_eq!(sent, heard);
        }

        #[test]
        fn unknown_nodes_have_no_relations(layers in layers(), node in any::<u16>()) {
            let tree = Topology::from_layers(&layers).unwrap();
            if node as usize >= tree.nodes() {
                prop_assert_eq!(tree.children(NodeId(node), 1, 1, true).count(), 0);
                prop_assert_eq!(tree.parents(NodeId(node), 1, 1, true).count(), 0);
                prop_assert_eq!(tree.up_hop(NodeId(node), 1, 1, 1), None);
                prop_assert_eq!(tree.own_child(NodeId(node), NodeId(1), 1, true), None);
            }
        }
    }
}
