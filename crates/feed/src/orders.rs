//! Resting orders in a slab, found by reference number, linked in the order of their queue.
//!
//! Slots are reused, so links are slot numbers; every slot number in the map or in a link was
//! handed out by this slab and has not been freed, which is why indexing with it cannot fail.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

use types::Side;

/// Number of a slot in the slab.
pub(crate) type Slot = u32;
/// Marks the end of a queue or of the free slots.
pub(crate) const NONE: Slot = Slot::MAX;

/// A resting order in its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resting {
    pub order_ref: u64,
    pub price: u32,
    pub qty: u32,
    /// Stock locate of the order's instrument.
    pub locate: u16,
    pub side: Side,
    /// Slot of the order in front, at the same price.
    pub prev: Slot,
    /// Slot of the order behind; of a free slot, the next free slot.
    pub next: Slot,
}

/// Multiplicative hashing of one 64-bit reference: the same in every process, and reference
/// numbers are the exchange's to choose, so nobody can aim for collisions.
#[derive(Default)]
pub(crate) struct RefHasher(u64);

impl Hasher for RefHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The table takes its bucket from the low bits and its tag from the high ones.
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The slab of resting orders, with room for a fixed number.
#[derive(Debug)]
pub(crate) struct Orders {
    slots: Vec<Resting>,
    free: Slot,
    by_ref: HashMap<u64, Slot, BuildHasherDefault<RefHasher>>,
    max: usize,
}

/// Why an order could not be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// An order with this reference rests already.
    Duplicate,
    /// No slot is free.
    Full,
}

impl Orders {
    pub fn new(max: usize) -> Orders {
        let max = max.min(NONE as usize);
        let by_ref = HashMap::with_capacity_and_hasher(max, BuildHasherDefault::default());
        Orders { slots: Vec::with_capacity(max), free: NONE, by_ref, max }
    }

    pub fn len(&self) -> usize {
        self.by_ref.len()
    }

    pub fn max(&self) -> usize {
        self.max
    }

    /// Forgets all orders, keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.by_ref.clear();
        self.free = NONE;
    }

    pub fn find(&self, order_ref: u64) -> Option<Slot> {
        self.by_ref.get(&order_ref).copied()
    }

    pub fn insert(&mut self, order: Resting) -> Result<Slot, Refused> {
        let full = self.by_ref.len() >= self.max;
        match self.by_ref.entry(order.order_ref) {
            Entry::Occupied(_) => Err(Refused::Duplicate),
            Entry::Vacant(_) if full => Err(Refused::Full),
            Entry::Vacant(entry) => {
                let slot = self.free;
                let slot = if slot == NONE {
                    self.slots.push(order);
                    self.slots.len() as Slot - 1
                } else {
                    self.free = self.slots[slot as usize].next;
                    self.slots[slot as usize] = order;
                    slot
                };
                entry.insert(slot);
                Ok(slot)
            }
        }
    }

    /// Frees a slot that no queue links to any more.
    pub fn remove(&mut self, slot: Slot) {
        let order = &mut self.slots[slot as usize];
        self.by_ref.remove(&order.order_ref);
        order.next = self.free;
        self.free = slot;
    }

    pub fn get(&self, slot: Slot) -> &Resting {
        &self.slots[slot as usize]
    }

    pub fn get_mut(&mut self, slot: Slot) -> &mut Resting {
        &mut self.slots[slot as usize]
    }
}
