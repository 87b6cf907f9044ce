//! Who sends which copies besides a node's own parent, and in which order they are listed.
//!
//! * [`HedgePolicy::Sibling`] (Jasper §6): a node also sends to the children of its next H
//!   siblings, with wrap, after its own; a child's further parents are the H before its own.
//! * [`HedgePolicy::PathDisjoint`]: of siblings F apart rather than neighbours, so that the further
//!   parents of a child have other parents themselves and fail independently.
//! * [`HedgePolicy::ExtraFanout`] (§6, the F + H strawman): every group of siblings has H spare
//!   proxies without children of their own that send to all nieces. For comparison only: a spare
//!   sends F times as much as anybody else.

use std::ops::Range;

use types::NodeId;

use crate::{
    tree::seating::Seating,
    tree::topology::{DEPTH_MAX, ROOT},
};

/// Policy that decides which other nodes' children a node also sends to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HedgePolicy {
    /// A node helps the children of its next siblings.
    #[default]
    Sibling,
    /// Children of siblings that have another parent.
    PathDisjoint,
    /// No other node's children; spare proxies send to them.
    ExtraFanout,
}

/// How a tree hedges. All nodes must agree on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hedging {
    /// Which other nodes' children a node also sends to.
    pub policy: HedgePolicy,
    /// H of the copies into each layer; [`Hedging::TREE`]: the tree's. The last layer's is what
    /// the literature calls receiver hedging.
    pub layers: [u8; DEPTH_MAX],
    /// Spare proxies per group of siblings, of [`HedgePolicy::ExtraFanout`] only.
    pub spares: u8,
    /// Times the proxy layers exist; messages take turns. At least 1.
    pub planes: u16,
}

impl Default for Hedging {
    fn default() -> Self {
        Hedging {
            policy: HedgePolicy::Sibling,
            layers: [Hedging::TREE; DEPTH_MAX],
            spares: 0,
            planes: 1,
        }
    }
}

impl Hedging {
    /// No H of a layer's own.
    pub const TREE: u8 = u8::MAX;

    /// The H of copies into `layer`, where it has one of its own.
    pub fn layer_hedge(&self, layer: usize) -> Option<usize> {
        let hedge = *self.layers.get(layer)?;
        (hedge != Hedging::TREE).then_some(usize::from(hedge))
    }
}

/// Receivers of a message, in sending order: the own children, then those of others.
#[derive(Clone, Debug)]
pub struct Children {
    /// Id of index 0 of the next layer.
    first: u32,
    width: u32,
    /// Blocks the next layer is cut into: nodes of the sender's layer.
    blocks: u32,
    block: u32,
    /// Number of blocks that are still to be listed.
    left: u32,
    /// Number of blocks that have been listed.
    done: u32,
    step: u32,
    order: u32,
    /// Rest of the block that is being listed.
    here: Range<u32>,
    /// Ids of spare proxies, after the first block.
    spares: Range<u32>,
    /// Which node is at which place; everything else here counts places.
    seating: Seating,
}

impl Children {
    pub(crate) fn none() -> Children {
        Children::new(0, 0, 1, 0, 0, (1, 1))
    }

    pub(crate) fn new(
        first: u32,
        width: u32,
        blocks: u32,
        block: u32,
        left: u32,
        (step, order): (u32, u32),
    ) -> Children {
        let (here, spares) = (0..0, 0..0);
        let seating = Seating::default();
        Children { first, width, blocks, block, left, done: 0, step, order, here, spares, seating }
    }

    pub(crate) fn seated(self, seating: Seating) -> Children {
        Children { seating, ..self }
    }

    pub(crate) fn and(self, spares: Range<u32>) -> Children {
        Children { spares, ..self }
    }

    /// Position of `child` in the first block, and the block's length.
    pub(crate) fn own(mut self, child: NodeId) -> Option<(usize, usize)> {
        self.enter_block();
        let index = self.seating.place(child).checked_sub(self.first)?;
        let own = self.here;
        own.contains(&index).then(|| ((index - own.start) as usize, own.len()))
    }

    /// How many of them are own children, before the first is taken.
    pub(crate) fn own_count(&self) -> usize {
        let mut first = self.clone();
        first.enter_block();
        first.here.len()
    }

    fn enter_block(&mut self) {
        if self.left == 0 {
            return;
        }
        let edge = |block: u32| {
            (u64::from(block) * u64::from(self.width)).div_ceil(u64::from(self.blocks)) as u32
        };
        self.here = edge(self.block)..edge(self.block + 1);
        self.done += 1;
        self.left -= 1;
        if self.left > 0 {
            let further = self.step + u32::from(self.done.is_multiple_of(self.order));
            self.block = (self.block + further) % self.blocks;
        }
    }
}

impl Iterator for Children {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        while self.here.is_empty() {
            if self.done > 0
                && let Some(spare) = self.spares.next()
            {
                return Some(NodeId(spare as u16));
            }
            if self.left == 0 {
                return None;
            }
            self.enter_block();
        }
        self.here.next().map(|index| self.seating.node(self.first + index))
    }

    /// Block by block: what a node that sends to all of them needs.
    fn fold<B, F: FnMut(B, NodeId) -> B>(mut self, init: B, mut f: F) -> B {
        let mut sum = init;
        let mut spares = std::mem::take(&mut self.spares);
        loop {
            for index in self.here.clone() {
                sum = f(sum, self.seating.node(self.first + index));
            }
            if self.done > 0 {
                sum = spares.by_ref().fold(sum, |sum, spare| f(sum, NodeId(spare as u16)));
            }
            if self.left == 0 {
                return sum;
            }
            self.enter_block();
        }
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
    done: u32,
    step: u32,
    order: u32,
    spares: Range<u32>,
    seating: Seating,
}

impl Parents {
    pub(crate) fn none() -> Parents {
        Parents::new(0, 1, 0, 0, (1, 1))
    }

    pub(crate) fn root() -> Parents {
        Parents::new(u32::from(ROOT.0), 1, 0, 1, (1, 1))
    }

    pub(crate) fn new(
        first: u32,
        width: u32,
        index: u32,
        left: u32,
        (step, order): (u32, u32),
    ) -> Parents {
        let seating = Seating::default();
        Parents { first, width, index, left, done: 0, step, order, spares: 0..0, seating }
    }

    pub(crate) fn seated(self, seating: Seating) -> Parents {
        Parents { seating, ..self }
    }

    pub(crate) fn and(self, spares: Range<u32>) -> Parents {
        Parents { spares, ..self }
    }

    /// Number of children left to list.
    pub fn len(&self) -> usize {
        self.left as usize + self.spares.len()
    }

    /// Whether no children are left to list.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn first_index(&self) -> u32 {
        self.index
    }
}

impl Iterator for Parents {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let Some(left) = self.left.checked_sub(1) else {
            return self.spares.next().map(|id| NodeId(id as u16));
        };
        let node = self.seating.node(self.first + self.index);
        self.left = left;
        self.done += 1;
        if left > 0 {
            let back = self.step + u32::from(self.done.is_multiple_of(self.order));
            self.index = (self.index + self.width - back % self.width) % self.width;
        }
        Some(node)
    }
}
