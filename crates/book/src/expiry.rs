//! When good-till-date orders end (5.6).
//!
//! A heap with the earliest end on top, and by slot where in it an order is: it holds the open
//! orders with an end and no others, only they touch it, and everything is reserved at the start.

use crate::books::Shared;
use crate::order::{Home, Order};
use crate::slab::Slab;
use types::{Nanos, TimeInForce};

/// A good-till-date order in the heap of ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    end: u64,
    slot: u32,
}

/// An order that is being ended: book by book, by end and reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Due {
    book: u16,
    end: u64,
    order_ref: u64,
    slot: u32,
}

#[derive(Debug)]
pub(crate) struct Expiries {
    heap: Vec<Entry>,
    /// By slot: one more than its place in the heap; 0: it has none.
    places: Vec<u32>,
    /// Out of the heap and about to be cancelled, the first one last.
    due: Vec<Due>,
}

impl Expiries {
    /// For as many orders as a slab of this capacity has slots for.
    pub(crate) fn new(capacity: u32) -> Expiries {
        let slots = capacity as usize + 2;
        Expiries {
            heap: Vec::with_capacity(slots),
            places: vec![0; slots],
            due: Vec::with_capacity(slots),
        }
    }

    /// The earliest end, [`u64::MAX`] when there is none.
    #[inline(always)]
    pub(crate) fn next(&self) -> u64 {
        self.heap.first().map_or(u64::MAX, |first| first.end)
    }

    /// An order has been written into a slot, or over what was there.
    #[inline(never)]
    pub(crate) fn set(&mut self, slot: u32, order: &Order) {
        self.remove(slot);
        if order.time_in_force == TimeInForce::GoodTillDate {
            self.heap.push(Entry { end: order.expire_at, slot });
            self.rise(self.heap.len() - 1);
        }
    }

    /// The order in a slot has no end any more, if it had one.
    #[inline(never)]
    pub(crate) fn remove(&mut self, slot: u32) {
        let place = std::mem::take(&mut self.places[slot as usize]) as usize;
        if place == 0 {
            return;
        }
        self.heap.swap_remove(place - 1);
        if place <= self.heap.len() {
            self.sink(place - 1);
            self.rise(place - 1);
        }
    }

    /// Writes an entry to its place and notes the place for its order.
    fn settle(&mut self, at: usize, entry: Entry) {
        self.heap[at] = entry;
        self.places[entry.slot as usize] = at as u32 + 1;
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 && entry < self.heap[(at - 1) / 2] {
            self.settle(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.settle(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let left = 2 * at + 1;
            let Some(mut least) = self.heap.get(left).map(|_| left) else { break };
            if self.heap.get(left + 1).is_some_and(|right| *right < self.heap[left]) {
                least = left + 1;
            }
            if entry <= self.heap[least] {
                break;
            }
            self.settle(at, self.heap[least]);
            at = least;
        }
        self.settle(at, entry);
    }

    /// Takes out what ends at `now` or before, and says in which book its first order is.
    pub(crate) fn due(&mut self, now: Nanos, slab: &Slab) -> Option<u16> {
        if self.due.is_empty() {
            while let Some(Entry { end, slot }) = self.heap.first().copied()
                && end <= now.0
            {
                self.remove(slot);
                let Order { book, order_ref, .. } = slab[slot];
                self.due.push(Due { book, end, order_ref, slot });
            }
            self.due.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.due.last().map(|due| due.book)
    }

    /// The next order of a book that is to be cancelled.
    pub(crate) fn pop_due(&mut self, book: u16) -> Option<u32> {
        self.due.pop_if(|due| due.book == book).map(|due| due.slot)
    }

    /// Whether the heap is one, and of exactly the open orders with an end.
    pub(crate) fn is_sound(&self, slab: &Slab) -> bool {
        let ordered = (1..self.heap.len()).all(|at| self.heap[(at - 1) / 2] <= self.heap[at]);
        let placed = self.heap.iter().enumerate().all(|(at, entry)| {
            let order = &slab[entry.slot];
            let dated = order.time_in_force == TimeInForce::GoodTillDate;
            let open = order.home != Home::Free && dated && order.expire_at == entry.end;
            open && self.places[entry.slot as usize] as usize == at + 1
        });
        let dated = slab.slots().iter().filter(|order| {
            order.home != Home::Free && order.time_in_force == TimeInForce::GoodTillDate
        });
        let due = self.due.iter().all(|due| {
            let order = &slab[due.slot];
            (order.order_ref, order.expire_at) == (due.order_ref, due.end)
        });
        ordered && placed && due && dated.count() == self.heap.len() + self.due.len()
    }
}

impl Shared {
    /// An order has been written into a slot.
    #[inline(always)]
    pub(crate) fn note_end(&mut self, slot: u32) {
        self.note_end_after(slot, TimeInForce::Day);
    }

    /// An order has been written over another one with this life.
    #[inline(always)]
    pub(crate) fn note_end_after(&mut self, slot: u32, before: TimeInForce) {
        let order = &self.slab[slot];
        if order.time_in_force == TimeInForce::GoodTillDate || before == TimeInForce::GoodTillDate {
            self.expiries.set(slot, order);
        }
    }

    /// Frees the slot of an order that is nowhere any more.
    #[inline(always)]
    pub(crate) fn free(&mut self, slot: u32) {
        if self.slab[slot].time_in_force == TimeInForce::GoodTillDate {
            self.expiries.remove(slot);
        }
        self.slab.remove(slot);
    }
}
