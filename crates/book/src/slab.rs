//! Slots for resting orders, with the links of their queues inside.
//!
//! Memory is reserved once; a freed slot is the next to be used, while it is still in the cache. A
//! slot's generation is odd while it holds an order and steps at every change of hands.

use crate::order::{Handle, Order};

/// "No slot".
pub(crate) const NIL: u32 = u32::MAX;

/// An order with its links.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) order: Order,
    pub(crate) prev: u32,
    /// Next in the queue, or next free slot.
    pub(crate) next: u32,
    pub(crate) generation: u32,
}

const _: () = assert!(size_of::<Slot>() == 64, "an order fills one cache line");

#[derive(Clone, Debug)]
pub(crate) struct Slab {
    slots: Vec<Slot>,
    free: u32,
    live: u32,
    capacity: u32,
}

impl Slab {
    pub(crate) fn new(capacity: u32) -> Slab {
        assert!(capacity < NIL, "the last slot number means none");
        let slots = Vec::with_capacity(capacity as usize);
        Slab { slots, free: NIL, live: 0, capacity }
    }

    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    pub(crate) fn is_full(&self) -> bool {
        self.live == self.capacity
    }

    /// Slots ever used; the rest of the reservation is untouched.
    pub(crate) fn touched(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn is_live(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(|s| s.generation & 1 == 1)
    }

    /// Stores an order with its links unset; the caller has checked [`Slab::is_full`].
    pub(crate) fn insert(&mut self, order: Order) -> u32 {
        assert!(!self.is_full(), "insert into a full slab");
        self.live += 1;
        if self.free == NIL {
            self.slots.push(Slot { order, prev: NIL, next: NIL, generation: 1 });
            return self.slots.len() as u32 - 1;
        }
        let slot = self.free;
        let entry = &mut self.slots[slot as usize];
        debug_assert!(entry.generation & 1 == 0, "a free slot holds an order");
        self.free = entry.next;
        let generation = entry.generation.wrapping_add(1);
        *entry = Slot { order, prev: NIL, next: NIL, generation };
        slot
    }

    /// Frees a slot; every handle to it is stale from now on.
    pub(crate) fn remove(&mut self, slot: u32) {
        let free = self.free;
        let entry = self.at_mut(slot);
        assert!(entry.generation & 1 == 1, "a slot is freed twice");
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = free;
        self.free = slot;
        self.live -= 1;
    }

    /// The slot a handle names, if its order still rests.
    pub(crate) fn find(&self, handle: Handle) -> Option<u32> {
        let entry = self.slots.get(handle.slot as usize)?;
        let live = entry.generation == handle.generation && entry.generation & 1 == 1;
        live.then_some(handle.slot)
    }

    pub(crate) fn handle(&self, slot: u32) -> Handle {
        Handle { slot, generation: self.at(slot).generation }
    }

    pub(crate) fn at(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }
}
