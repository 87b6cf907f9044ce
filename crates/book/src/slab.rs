//! Slots for the orders of all books.
//!
//! Memory is reserved once and touched as it is used; a freed slot is the next to be taken, while
//! it is still in the cache. Slot 0 ([`NIL`]) holds no order: links that lead nowhere lead there,
//! so that a queue's ends need no branches. There is one slot more than orders may rest, for the
//! one coming in.

use types::{NewOrder, Price, Side};

use crate::index::IdHash;
use crate::order::{Home, NIL, Order};

#[derive(Debug)]
pub(crate) struct Slab {
    slots: Vec<Order>,
    free: u32,
    live: u32,
    capacity: u32,
}

impl Slab {
    /// Room for `capacity` resting orders and one that is on its way in.
    pub(crate) fn new(capacity: u32) -> Slab {
        assert!(capacity < u32::MAX - 2, "slots are numbered with 32 bits");
        let mut slots = crate::huge::with_capacity(capacity as usize + 2);
        slots.push(blank());
        Slab { slots, free: NIL, live: 0, capacity }
    }

    /// Orders held, the one on its way in included.
    #[inline(always)]
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Whether no slot is free for another order.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.live >= self.capacity
    }

    /// The one that came in last has no place to rest.
    pub(crate) fn is_over(&self) -> bool {
        self.live > self.capacity
    }

    /// A slot for an order: the caller writes it at once.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> u32 {
        self.live += 1;
        let slot = self.free;
        if slot == NIL {
            return self.grow();
        }
        self.free = self[slot].next;
        slot
    }

    #[inline(never)]
    fn grow(&mut self) -> u32 {
        assert!(self.slots.len() <= self.capacity as usize + 1, "more orders than slots");
        self.slots.push(blank());
        self.slots.len() as u32 - 1
    }

    /// Frees a slot; what it held can be read until the slot is taken again.
    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: u32) {
        let free = self.free;
        let order = &mut self[slot];
        debug_assert!(order.home != Home::Free, "a slot is freed twice");
        order.home = Home::Free;
        order.next = free;
        self.free = slot;
        self.live -= 1;
    }

    /// Links the neighbours of an order that leaves its queue. They are written, never read: a miss
    /// on them need not be waited for.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, prev: u32, next: u32) {
        self[prev].next = next;
        self[next].prev = prev;
    }

    /// The slots ever used, free ones included.
    pub(crate) fn slots(&self) -> &[Order] {
        &self.slots[1..]
    }
}

fn blank() -> Order {
    let mut order =
        Order::new(0, 0, &NewOrder::limit(0, Side::Buy, Price(0), 0), IdHash::default());
    order.home = Home::Free;
    order
}

impl std::ops::Index<u32> for Slab {
    type Output = Order;
    #[inline(always)]
    fn index(&self, slot: u32) -> &Order {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline(always)]
    fn index_mut(&mut self, slot: u32) -> &mut Order {
        &mut self.slots[slot as usize]
    }
}
