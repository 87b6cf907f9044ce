//! The ends of a queue of orders; the orders link each other.

use super::select;
use crate::order::NIL;

/// First and last of a queue of orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue { head: NIL, tail: NIL };

    /// Makes a slot the last one; returns the one before it. The caller links the two.
    #[inline(always)]
    pub(crate) fn append(&mut self, slot: u32) -> u32 {
        let tail = self.tail;
        self.head = select(tail == NIL, slot, self.head);
        self.tail = slot;
        tail
    }

    /// Takes out a slot that had these neighbours. The caller links the two.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, prev: u32, next: u32) {
        self.head = select(prev == NIL, next, self.head);
        self.tail = select(next == NIL, prev, self.tail);
    }
}
