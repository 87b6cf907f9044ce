//! Shape of the proxy tree and who serves whom: pure arithmetic, the same on every node.
//!
//! Nodes are numbered from the root: 0 is the root, 1..=N_0 the first layer, and so on; the last
//! layer are the receivers; spare proxies come after them. Layer sizes follow from the leaves up,
//! N_j = ceil(N_{j+1} / F); the root serves all of layer 0.
//!
//! Children of node i of layer j for message m are the indices
//! `ceil(b N_{j+1} / N_j) .. ceil((b + 1) N_{j+1} / N_j)` of the next layer, with the block
//! `b = (i + offset_j(m)) mod N_j`. Where N_{j+1} = F N_j this is the paper's rule (Jasper §5),
//! elsewhere it still gives every node exactly one parent. Offsets are mixed radix,
//! `offset_j(m) = m div (N_{j+1} .. N_{D-2}) mod N_j`, so that every path from the root is used and
//! a receiver has another parent for every message.
//!
//! Who sends further copies is [`Hedging`]'s matter; the default is the paper's. H is at most
//! N_j - 1, and layer 0, whose one parent is the root, is never hedged.
//!
//! With T planes every proxy layer exists T times and message m travels through plane m mod T only
//! (round-robin spraying): each proxy has 1/T of the work, what hedging costs is given back. Or each
//! plane is a tree of its own for a stream of its own ([`Topology::with_only_plane`]): trees in
//! parallel, to which the instruments are dealt out.

use types::NodeId;

use crate::{
    tree::hedging::{Children, HedgePolicy, Hedging, Parents},
    tree::seating::Seating,
};

/// The root: publisher, retransmission server, sequencer.
pub const ROOT: NodeId = NodeId(0);
/// Largest number of layers of a tree.
pub const DEPTH_MAX: usize = 8;

/// Layer sizes and the numbering of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Topology {
    depth: usize,
    /// Sizes of the layers, the nodes of all planes counted.
    sizes: [u32; DEPTH_MAX],
    /// Node id of index 0 of each layer.
    firsts: [u32; DEPTH_MAX],
    /// First spare proxy of each layer, and behind the last one.
    spares: [u32; DEPTH_MAX],
    hedging: Hedging,
    /// The one plane that all messages travel through; `None`: they take turns.
    only: Option<u16>,
    /// Which node is at which place; all numbers above are places.
    seating: Seating,
    /// Children are computed for a layer that is one short: see [`Topology::with_child_fault`].
    faulty: bool,
}

/// Parameters on which all nodes of one tree agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tree {
    /// Layers, planes and spare proxies of the tree.
    pub topology: Topology,
    /// Siblings a node helps, H; 0 for none. Cut to what a layer allows.
    pub hedge: usize,
    /// Whether parents change with every message.
    pub dynamic: bool,
    /// Epoch a node starts in; it follows a publisher that starts a later one.
    pub epoch: u32,
    /// Number of this tree among those of the feed.
    pub stream: u16,
    /// Length of a round of the delay all-reduce, in ns.
    pub round_ns: u64,
}

/// Why a topology or tree was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopologyError {
    /// No layer, or more than [`DEPTH_MAX`].
    Depth(usize),
    /// A proxy would have no children.
    Fanout,
    /// This layer, counted from the root, has no nodes.
    EmptyLayer(usize),
    /// More nodes, the root included, than a [`NodeId`] can name.
    TooManyNodes(u64),
    /// Spare proxies and planes do not go together.
    SparesAndPlanes,
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
            TopologyError::SparesAndPlanes => f.write_str("spare proxies need a single plane"),
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
        Topology::number(layers, Hedging::default(), 0)
    }

    /// The same tree with another way of hedging; planes multiply the proxies, spares add some.
    pub fn with_hedging(&self, hedging: Hedging) -> Result<Topology, TopologyError> {
        Topology::number(&self.plane_sizes()[..self.depth], hedging, 0)
    }

    /// The same tree with its receivers numbered from `first` on, so that trees of different shapes
    /// give a receiver the same number; proxies between the tree's own and that are idle in it. A
    /// `first` that leaves too little room for the proxies changes nothing.
    pub fn with_receivers_at(&self, first: NodeId) -> Result<Topology, TopologyError> {
        let moved =
            Topology::number(&self.plane_sizes()[..self.depth], self.hedging, first.0.into())?;
        Ok(Topology { only: self.only, ..moved })
    }

    /// The same nodes under the same numbers with one plane in use: the tree of a stream that has
    /// it for itself. `None` when there is no such plane.
    pub fn with_only_plane(&self, plane: u16) -> Option<Topology> {
        (plane < self.hedging.planes).then_some(Topology { only: Some(plane), ..*self })
    }

    /// The one plane in use, where it is one of several.
    pub fn only_plane(&self) -> Option<u16> {
        self.only
    }

    /// The plane of a proxy; `None` for all other nodes, which no plane has for itself.
    pub fn plane_of_proxy(&self, node: NodeId) -> Option<u16> {
        let (layer, index) = self.locate(node)?;
        match self.plane_share(layer) {
            0 => None,
            share => Some((index as u32 / share) as u16),
        }
    }

    /// Layer sizes of one plane, the one below the root first; zero where there is no layer.
    pub fn plane_sizes(&self) -> [usize; DEPTH_MAX] {
        let mut layers = [0; DEPTH_MAX];
        for (layer, size) in layers[..self.depth].iter_mut().enumerate() {
            *size = self.plane_size(layer) as usize;
        }
        layers
    }

    fn number(
        layers: &[usize],
        mut hedging: Hedging,
        receivers_at: u32,
    ) -> Result<Topology, TopologyError> {
        if layers.is_empty() || layers.len() > DEPTH_MAX {
            return Err(TopologyError::Depth(layers.len()));
        }
        if let Some(layer) = layers.iter().position(|size| *size == 0) {
            return Err(TopologyError::EmptyLayer(layer));
        }
        hedging.planes = hedging.planes.max(1);
        if hedging.policy != HedgePolicy::ExtraFanout {
            hedging.spares = 0;
        } else if hedging.planes > 1 {
            return Err(TopologyError::SparesAndPlanes);
        }
        let proxy_layers = layers.len() - 1;
        let all_planes = |layer: usize| match layer < proxy_layers {
            true => (layers[layer] as u64).saturating_mul(u64::from(hedging.planes)),
            false => layers[layer] as u64,
        };
        let groups = |layer: usize| if layer == 0 { 1 } else { layers[layer - 1] as u64 };
        let spare = |layer: usize| groups(layer).saturating_mul(u64::from(hedging.spares));
        let nodes =
            (0..layers.len()).fold(1u64, |sum, layer| sum.saturating_add(all_planes(layer)));
        let nodes = (0..proxy_layers).fold(nodes, |sum, layer| sum.saturating_add(spare(layer)));
        let proxies = (0..proxy_layers).fold(1u64, |sum, l| sum.saturating_add(all_planes(l)));
        let idle = u64::from(receivers_at).saturating_sub(proxies);
        let nodes = nodes.saturating_add(idle);
        if nodes > u64::from(u16::MAX) {
            return Err(TopologyError::TooManyNodes(nodes));
        }
        let (mut sizes, mut firsts) = ([0; DEPTH_MAX], [0; DEPTH_MAX]);
        let mut next = 1;
        for layer in 0..layers.len() {
            sizes[layer] = all_planes(layer) as u32;
            if layer == proxy_layers {
                next += idle as u32;
            }
            firsts[layer] = next;
            next += sizes[layer];
        }
        let mut spares = [0; DEPTH_MAX];
        for (layer, first) in spares.iter_mut().enumerate() {
            *first = next;
            next += if layer < proxy_layers { spare(layer) as u32 } else { 0 };
        }
        let depth = layers.len();
        let (only, seating) = (None, Seating::default());
        Ok(Topology { depth, sizes, firsts, spares, hedging, only, seating, faulty: false })
    }

    /// The same tree with its proxies seated like that; `None` when somebody named is no proxy with
    /// a place between root and receivers, or each plane is a tree of its own.
    pub fn with_seating(&self, seating: Seating) -> Option<Topology> {
        let placed = 1..self.firsts[self.depth - 1];
        let all = seating.moved().iter().all(|(place, _)| placed.contains(&u32::from(*place)));
        (all && (self.only.is_none() || seating.is_plain()))
            .then_some(Topology { seating, ..*self })
    }

    /// This topology with the places of two proxies exchanged.
    pub fn with_exchanged(&self, a: NodeId, b: NodeId) -> Option<Topology> {
        self.with_seating(self.seating.exchanged(a, b)?)
    }

    /// Which node is at which place.
    pub fn seating(&self) -> &Seating {
        &self.seating
    }

    /// The proxies that have no work in this tree but could have some, in order.
    pub fn idle_ids(&self) -> impl Iterator<Item = NodeId> {
        let placed = self.firsts[..self.depth].iter().zip(&self.sizes);
        let end = placed.rev().nth(1).map_or(1, |(first, size)| first + size);
        (end..self.firsts[self.depth - 1]).map(|place| self.seating.node(place))
    }

    /// A deliberate off-by-one in the child sets of proxies, for tests of the checks that have to
    /// find it. Nothing else changes; no deployment makes one.
    #[doc(hidden)]
    pub fn with_child_fault(self) -> Topology {
        Topology { faulty: true, ..self }
    }

    /// Hops from the root to a receiver.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Layer sizes, the one below the root first; all planes, no spares.
    pub fn layers(&self) -> &[u32] {
        &self.sizes[..self.depth]
    }

    /// Hedging policy and factor of the tree.
    pub fn hedging(&self) -> &Hedging {
        &self.hedging
    }

    /// Number of nodes: the root and all receivers and proxies that have a place.
    pub fn nodes(&self) -> usize {
        1 + self.layers().iter().sum::<u32>() as usize + self.spare_ids().count()
    }

    /// Numbers that nodes have, idle ones included: all are below this.
    pub fn id_end(&self) -> usize {
        self.spares[self.depth - 1] as usize
    }

    /// Number of receivers of the tree.
    pub fn receivers(&self) -> usize {
        self.sizes[self.depth - 1] as usize
    }

    /// Nodes of the receivers, in ascending order.
    pub fn receiver_ids(&self) -> impl Iterator<Item = NodeId> {
        let first = self.firsts[self.depth - 1];
        (first..first + self.sizes[self.depth - 1]).map(|id| NodeId(id as u16))
    }

    /// The proxies, in order, those idle in this tree included, spare ones last; with only one
    /// plane in use, those of that plane.
    pub fn proxy_ids(&self) -> impl Iterator<Item = NodeId> {
        let ours = |node: &NodeId| match (self.only, self.plane_of_proxy(*node)) {
            (Some(only), Some(plane)) => only == plane,
            _ => true,
        };
        let placed = (1..self.firsts[self.depth - 1]).map(|id| NodeId(id as u16));
        placed.filter(ours).chain(self.spare_ids())
    }

    /// The spare proxies of [`HedgePolicy::ExtraFanout`], in order.
    pub fn spare_ids(&self) -> impl Iterator<Item = NodeId> {
        (self.spares[0]..self.spares[self.depth - 1]).map(|id| NodeId(id as u16))
    }

    /// The node at `index` of `layer`, if there is one.
    pub fn node_id(&self, layer: usize, index: usize) -> Option<NodeId> {
        let size = *self.layers().get(layer)? as usize;
        (index < size).then(|| self.seating.node(self.firsts[layer] + index as u32))
    }

    /// Layer and index of a node; `None` for the root, spares and nodes that do not exist.
    pub fn locate(&self, node: NodeId) -> Option<(usize, usize)> {
        let place = self.seating.place(node);
        let layer = self.firsts[..self.depth].iter().rposition(|first| *first <= place)?;
        let index = place - self.firsts[layer];
        (index < self.sizes[layer]).then_some((layer, index as usize))
    }

    /// Layer of a spare proxy and the group of siblings it helps.
    fn locate_spare(&self, node: NodeId) -> Option<(usize, u32)> {
        let id = u32::from(node.0);
        if id < self.spares[0] || id >= self.spares[self.depth - 1] {
            return None;
        }
        let layer = self.spares[..self.depth].iter().rposition(|first| *first <= id)?;
        Some((layer, (id - self.spares[layer]) / u32::from(self.hedging.spares)))
    }

    /// Whether the node is a receiver of this tree.
    pub fn is_receiver(&self, node: NodeId) -> bool {
        self.locate(node).is_some_and(|(layer, _)| layer + 1 == self.depth)
    }

    /// Places of the proxies that share a node's layer and plane, itself among them; of a spare,
    /// its group.
    pub fn plane_siblings(&self, node: NodeId) -> Option<std::ops::Range<u32>> {
        if let Some((layer, group)) = self.locate_spare(node) {
            return Some(self.spares_of(layer, group, usize::MAX));
        }
        let (layer, index) = self.locate(node)?;
        let size = self.plane_size(layer);
        let first = self.firsts[layer] + index as u32 / size * size;
        Some(first..first + size)
    }

    /// Whether proxy `upper` is in the layer right above `lower`, spares included.
    pub fn is_above(&self, upper: NodeId, lower: NodeId) -> bool {
        let Some((layer, _)) = self.locate(lower) else { return false };
        let of_spare = || self.locate_spare(upper).map(|(layer, _)| layer);
        match self.locate(upper).map(|(layer, _)| layer).or_else(of_spare) {
            Some(above) => above + 1 == layer,
            None => upper == ROOT && layer == 0,
        }
    }

    /// To whom `node` sends message `id`, its own children first. Empty for receivers, and for
    /// proxies of a plane that the message does not use.
    pub fn children(&self, node: NodeId, id: u64, hedge: usize, dynamic: bool) -> Children {
        let (plane, id) = self.plane_of(id);
        if node == ROOT {
            // One block: the plane's share of layer 0.
            let width = self.plane_size(0);
            let first = self.firsts[0] + plane * self.plane_share(0);
            let all = Children::new(first, width, 1, 0, 1, (1, 1));
            return all.and(self.spares_of(0, 0, hedge)).seated(self.seating);
        }
        if let Some((layer, group)) = self.locate_spare(node) {
            return self.spares_children(layer, group, id, hedge, dynamic).seated(self.seating);
        }
        let Some((layer, index)) = self.locate(node) else { return Children::none() };
        let blocks = self.plane_size(layer);
        if layer + 1 >= self.depth || index as u32 / blocks != plane {
            return Children::none();
        }
        let block = (index as u32 % blocks + self.offset(layer, id, dynamic)) % blocks;
        let next = layer + 1;
        let first = self.firsts[next] + plane * self.plane_share(next);
        let stride = self.stride(layer);
        let (left, spare) = match self.hedging.policy {
            HedgePolicy::ExtraFanout => (1, self.spares_of(next, block, hedge)),
            _ => (1 + hedge.min(blocks as usize - 1) as u32, 0..0),
        };
        let size = self.plane_size(next) - u32::from(self.faulty);
        Children::new(first, size, blocks, block, left, stride).and(spare).seated(self.seating)
    }

    /// From whom `node` gets message `id`, its own parent first; the inverse of
    /// [`Topology::children`]. Empty for the root.
    pub fn parents(&self, node: NodeId, id: u64, hedge: usize, dynamic: bool) -> Parents {
        let (plane, id) = self.plane_of(id);
        if let Some((layer, group)) = self.locate_spare(node) {
            let spare = u32::from(node.0) - self.spares[layer];
            if spare % u32::from(self.hedging.spares) >= hedge as u32 {
                return Parents::none();
            }
            return match layer.checked_sub(1) {
                None => Parents::root(),
                Some(above) => self.owner(above, 0, group, id, 0, dynamic).seated(self.seating),
            };
        }
        match self.locate(node) {
            Some((layer, index)) if self.uses_plane(layer, index, plane) => {
                self.parents_in(layer, index as u32, plane, id, hedge, dynamic)
            }
            _ => Parents::none(),
        }
    }

    /// How many copies of each message `node` is sent.
    pub fn copies(&self, node: NodeId, hedge: usize) -> usize {
        (0..u64::from(self.hedging.planes))
            .map(|id| self.parents(node, id, hedge, false).count())
            .max()
            .unwrap_or(0)
    }

    /// The number of message `id` among those that reach `node`, in sequence and from 1: what a
    /// filter of missing copies has to count by where planes share the messages.
    pub fn dense_id(&self, node: NodeId, id: u64) -> u64 {
        match self.hedging.planes {
            1 => id,
            _ if self.only.is_some() || self.is_receiver(node) => id,
            planes => id.div_ceil(u64::from(planes)),
        }
    }

    /// Position of `child` among the own children of `node` for `id`, and how many those are.
    pub fn own_child(
        &self,
        node: NodeId,
        child: NodeId,
        id: u64,
        dynamic: bool,
    ) -> Option<(usize, usize)> {
        self.children(node, id, 0, dynamic).own(child)
    }

    /// The nodes above through which `node` may send orders, the preferred one first: fixed for an
    /// epoch (corner 3), another rotation in the next one. H + 1 of them, but two even without
    /// hedging: market data lost with a dead parent is repaired from elsewhere, an order that has
    /// only one way is not. Planes share the nodes.
    pub fn up_candidates(&self, node: NodeId, hedge: usize, epoch: u32) -> Parents {
        let Some((layer, index)) = self.locate(node) else { return Parents::none() };
        let share = self.plane_share(layer);
        let plane = match (share, self.only) {
            (0, Some(only)) => u64::from(only),
            (0, None) => (index as u64 + u64::from(epoch)) % u64::from(self.hedging.planes),
            _ => u64::from(index as u32 / share),
        };
        let hedge = match self.hedging.policy {
            HedgePolicy::ExtraFanout => 0,
            _ => hedge.max(1),
        };
        self.parents_in(layer, index as u32, plane as u32, u64::from(epoch), hedge, true)
    }

    /// The candidate that `node` takes for an order which was re-sent `attempt` times.
    ///
    /// Candidate counts of the layers are the digits of `attempt`, the gateway's first: consecutive
    /// attempts walk through all paths to the root, which one and the same choice at every layer
    /// would not. `None` for the root.
    pub fn up_hop(&self, node: NodeId, hedge: usize, epoch: u32, attempt: u8) -> Option<NodeId> {
        let (layer, _) = self.locate(node)?;
        let count = |above: usize| match self.hedging.policy {
            HedgePolicy::ExtraFanout => 1,
            _ => 1 + hedge.max(1).min(self.plane_size(above) as usize - 1),
        };
        let below = (layer..self.depth - 1).rev();
        let digits = below.fold(usize::from(attempt), |digits, above| digits / count(above));
        let candidates = self.up_candidates(node, hedge, epoch);
        let here = layer.checked_sub(1).map_or(1, count);
        candidates.into_iter().nth(digits % here)
    }

    /// Parents of a node for plane and number within it.
    fn parents_in(
        &self,
        layer: usize,
        index: u32,
        plane: u32,
        id: u64,
        hedge: usize,
        dynamic: bool,
    ) -> Parents {
        let Some(above) = layer.checked_sub(1) else { return Parents::root() };
        let width = self.plane_size(above);
        let (size, share) = (self.plane_size(layer), self.plane_share(layer));
        let local = if share == 0 { index } else { index % size };
        // ceil(b N' / N) <= c < ceil((b + 1) N' / N) has the one solution b = floor(c N / N').
        let block = (u64::from(local) * u64::from(width) / u64::from(size)) as u32;
        let parents = self.owner(above, plane, block, id, hedge, dynamic).seated(self.seating);
        if self.hedging.policy != HedgePolicy::ExtraFanout {
            return parents;
        }
        let own = parents.first_index();
        let group = match above.checked_sub(1) {
            None => 0,
            Some(top) => {
                (u64::from(own) * u64::from(self.plane_size(top)) / u64::from(width)) as u32
            }
        };
        parents.and(self.spares_of(above, group, hedge))
    }

    /// Who owns `block` of the layer below `above`, and who hedges it.
    fn owner(
        &self,
        above: usize,
        plane: u32,
        block: u32,
        id: u64,
        hedge: usize,
        dynamic: bool,
    ) -> Parents {
        let width = self.plane_size(above);
        let own = (block + width - self.offset(above, id, dynamic)) % width;
        let hedge = match self.hedging.policy {
            HedgePolicy::ExtraFanout => 0,
            _ => hedge.min(width as usize - 1),
        };
        let first = self.firsts[above] + plane * self.plane_share(above);
        Parents::new(first, width, own, 1 + hedge as u32, self.stride(above))
    }

    /// The spares of group `group` of a proxy layer that `hedge` calls for.
    fn spares_of(&self, layer: usize, group: u32, hedge: usize) -> std::ops::Range<u32> {
        let each = u32::from(self.hedging.spares);
        if layer + 1 >= self.depth || each == 0 {
            return 0..0;
        }
        let first = self.spares[layer] + group * each;
        first..first + each.min(u32::try_from(hedge).unwrap_or(u32::MAX))
    }

    /// A spare forwards to all children of the siblings it helps.
    fn spares_children(
        &self,
        layer: usize,
        group: u32,
        id: u64,
        hedge: usize,
        dynamic: bool,
    ) -> Children {
        let blocks = self.plane_size(layer);
        let above = layer.checked_sub(1).map_or(1, |above| self.plane_size(above));
        let edge =
            |group: u32| (u64::from(group) * u64::from(blocks)).div_ceil(u64::from(above)) as u32;
        let (from, to) = (edge(group), edge(group + 1));
        if hedge == 0 || from >= to {
            return Children::none();
        }
        let block = (from + self.offset(layer, id, dynamic)) % blocks;
        let (first, width) = (self.firsts[layer + 1], self.plane_size(layer + 1));
        Children::new(first, width, blocks, block, to - from, (1, blocks))
    }

    /// Step between the blocks a node helps with, and after how many it would repeat itself.
    fn stride(&self, layer: usize) -> (u32, u32) {
        let size = self.plane_size(layer);
        let step = match (self.hedging.policy, layer.checked_sub(1)) {
            // A node's siblings under one parent lie side by side: that far away is another's.
            (HedgePolicy::PathDisjoint, Some(above)) => size.div_ceil(self.plane_size(above)),
            _ => 1,
        };
        let step = if step >= size { 1 } else { step };
        (step, size / gcd(size, step))
    }

    /// Plane of a message and its number there.
    fn plane_of(&self, id: u64) -> (u32, u64) {
        match (self.only, u64::from(self.hedging.planes)) {
            (Some(only), _) => (u32::from(only), id),
            (None, 1) => (0, id),
            (None, planes) => ((id % planes) as u32, id / planes),
        }
    }

    fn uses_plane(&self, layer: usize, index: usize, plane: u32) -> bool {
        let share = self.plane_share(layer);
        share == 0 || index as u32 / share == plane
    }

    /// Nodes of a layer that one plane uses.
    fn plane_size(&self, layer: usize) -> u32 {
        let planes = if layer + 1 < self.depth { u32::from(self.hedging.planes) } else { 1 };
        if planes == 1 { self.sizes[layer] } else { self.sizes[layer] / planes }
    }

    /// Distance of the same place in two planes; 0 for receivers, whom all planes share.
    fn plane_share(&self, layer: usize) -> u32 {
        if layer + 1 < self.depth { self.plane_size(layer) } else { 0 }
    }

    fn offset(&self, layer: usize, id: u64, dynamic: bool) -> u32 {
        if !dynamic {
            return 0;
        }
        // The layer above the receivers has the fastest digit: what a leaf's own parent delays is
        // over with the message.
        let below = layer + 1..self.depth.saturating_sub(1);
        let digits = below.fold(id, |id, below| id / u64::from(self.plane_size(below)));
        (digits % u64::from(self.plane_size(layer))) as u32
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Tree {
    /// H for copies that `node` sends: the tree's, unless the next layer has one of its own.
    fn hedge_below(&self, node: NodeId) -> usize {
        let next = match self.topology.locate(node) {
            Some((layer, _)) => layer + 1,
            None => match self.topology.locate_spare(node) {
                Some((layer, _)) => layer + 1,
                None => 0,
            },
        };
        self.topology.hedging.layer_hedge(next).unwrap_or(self.hedge)
    }

    /// H for copies that `node` is sent.
    fn hedge_above(&self, node: NodeId) -> usize {
        let layer = self.topology.locate(node).map(|(layer, _)| layer);
        layer.and_then(|layer| self.topology.hedging.layer_hedge(layer)).unwrap_or(self.hedge)
    }

    /// [`Topology::children`] of `node` in this tree.
    pub fn children(&self, node: NodeId, id: u64) -> Children {
        self.topology.children(node, id, self.hedge_below(node), self.dynamic)
    }

    /// [`Topology::parents`] of `node` in this tree.
    pub fn parents(&self, node: NodeId, id: u64) -> Parents {
        self.topology.parents(node, id, self.hedge_above(node), self.dynamic)
    }

    /// [`Tree::children`] for a message that was stamped with an H of its own
    /// (`frame::DataBody::hedge`).
    pub fn children_stamped(&self, node: NodeId, id: u64, stamp: u8) -> Children {
        let hedge = stamped(stamp).unwrap_or_else(|| self.hedge_below(node));
        self.topology.children(node, id, hedge, self.dynamic)
    }

    /// [`Tree::parents`] for a message that was stamped with an H of its own.
    pub fn parents_stamped(&self, node: NodeId, id: u64, stamp: u8) -> Parents {
        let hedge = stamped(stamp).unwrap_or_else(|| self.hedge_above(node));
        self.topology.parents(node, id, hedge, self.dynamic)
    }

    /// How many copies of each message `node` is sent.
    pub fn copies(&self, node: NodeId) -> usize {
        self.topology.copies(node, self.hedge_above(node))
    }

    /// The one node above that takes `node`'s part in round `round` of the delay all-reduce.
    pub fn reduce_parent(&self, node: NodeId, round: u64) -> Option<NodeId> {
        self.topology.parents(node, round, 0, self.dynamic).next()
    }
}

/// H of a stamp: 0 says the tree's own, n says n - 1.
fn stamped(stamp: u8) -> Option<usize> {
    usize::from(stamp).checked_sub(1)
}
