//! An event queue for events that are mostly less than a few milliseconds away.
//!
//! A ring of buckets of 256 ns; a bucket is a linked list in one slab and is sorted when its time
//! comes. Later events wait in a heap until they fit. Events of one time come out in the order in
//! which they went in, unless one of them had to wait in the heap.

use std::{cmp::Reverse, collections::BinaryHeap};

/// log2 of a bucket's width in ns.
const WIDTH: u32 = 8;
/// Buckets of the ring: 8.4 ms.
const BUCKETS: u64 = 1 << 15;
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry<E> {
    at: u64,
    event: E,
    next: u32,
}

/// The queue.
pub struct Wheel<E> {
    heads: Box<[u32]>,
    slab: Vec<Entry<E>>,
    free: u32,
    /// The bucket being emptied, latest event first.
    current: Vec<(u64, E)>,
    /// Its number.
    bucket: u64,
    /// Events in the ring.
    ringed: usize,
    far: BinaryHeap<Reverse<(u64, u64, E)>>,
    pushed: u64,
}

impl<E: Copy + Ord> Default for Wheel<E> {
    fn default() -> Self {
        Wheel {
            heads: vec![NIL; BUCKETS as usize].into_boxed_slice(),
            slab: Vec::new(),
            free: NIL,
            current: Vec::new(),
            bucket: 0,
            ringed: 0,
            far: BinaryHeap::new(),
            pushed: 0,
        }
    }
}

impl<E: Copy + Ord> Wheel<E> {
    /// Events waiting.
    pub fn len(&self) -> usize {
        self.current.len() + self.ringed + self.far.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event; one whose time is over comes next.
    pub fn push(&mut self, at: u64, event: E) {
        let bucket = at >> WIDTH;
        if bucket <= self.bucket {
            let place = self.current.partition_point(|(other, _)| *other > at);
            self.current.insert(place, (at, event));
        } else if bucket - self.bucket < BUCKETS {
            self.link(at, event);
        } else {
            self.pushed += 1;
            self.far.push(Reverse((at, self.pushed, event)));
        }
    }

    /// The earliest event, unless it is later than `limit`.
    pub fn pop_until(&mut self, limit: u64) -> Option<(u64, E)> {
        loop {
            if let Some(last) = self.current.last() {
                return if last.0 > limit { None } else { self.current.pop() };
            }
            if !self.advance(limit) {
                return None;
            }
        }
    }

    fn link(&mut self, at: u64, event: E) {
        let head = &mut self.heads[((at >> WIDTH) & (BUCKETS - 1)) as usize];
        let entry = Entry { at, event, next: *head };
        match self.slab.get_mut(self.free as usize) {
            Some(slot) => {
                *head = self.free;
                self.free = slot.next;
                *slot = entry;
            }
            None => {
                *head = self.slab.len() as u32;
                self.slab.push(entry);
            }
        }
        self.ringed += 1;
    }

    /// Goes to the next bucket that holds something, but not beyond `limit`; false when there is
    /// none.
    fn advance(&mut self, limit: u64) -> bool {
        let last = limit >> WIDTH;
        while self.bucket < last {
            if self.ringed == 0 {
                let Some(Reverse((at, ..))) = self.far.peek() else { return false };
                // Straight to the bucket before the next event.
                self.bucket = self.bucket.max((at >> WIDTH) - 1).min(last - 1);
            }
            self.bucket += 1;
            self.fetch_far();
            let head = &mut self.heads[(self.bucket & (BUCKETS - 1)) as usize];
            let mut at = std::mem::replace(head, NIL);
            while let Some(entry) = self.slab.get_mut(at as usize) {
                self.current.push((entry.at, entry.event));
                self.ringed -= 1;
                let next = std::mem::replace(&mut entry.next, self.free);
                self.free = at;
                at = next;
            }
            if !self.current.is_empty() {
                // The list is in reverse order of pushing, as events of one time should be; the
                // sort is stable.
                self.current.sort_by_key(|(at, _)| Reverse(*at));
                return true;
            }
        }
        false
    }

    fn fetch_far(&mut self) {
        while let Some(Reverse((at, ..))) = self.far.peek() {
            if (at >> WIDTH) - self.bucket >= BUCKETS {
                return;
            }
            let Some(Reverse((at, _, event))) = self.far.pop() else { return };
            self.link(at, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_out_in_the_order_of_time(
            steps in prop::collection::vec((0u64..30_000_000, any::<bool>(), 0u64..40_000), 1..300),
        ) {
            let (mut wheel, mut model) = (Wheel::default(), std::collections::BTreeSet::new());
            let mut now = 0;
            for (number, (delay, far, forward)) in steps.into_iter().enumerate() {
                let at = now + if far { delay } else { delay % 3_000 };
                wheel.push(at, number);
                model.insert((at, number));
                now += forward;
                while let Some((at, number)) = wheel.pop_until(now) {
                    let first = model.first().copied().unwrap();
                    prop_assert_eq!(at, first.0);
                    prop_assert!(model.remove(&(at, number)));
                }
                prop_assert!(model.first().is_none_or(|(at, _)| *at > now));
                prop_assert_eq!(wheel.len(), model.len());
            }
            let mut last = now;
            while let Some((at, number)) = wheel.pop_until(u64::MAX) {
                prop_assert!(at >= last && model.remove(&(at, number)));
                last = at;
            }
            prop_assert!(wheel.is_empty() && model.is_empty());
        }
    }

    #[test]
    fn events_of_one_time_keep_their_order() {
        let mut wheel = Wheel::default();
        (0..100).for_each(|number| wheel.push(5_000, number));
        let out: Vec<i32> = std::iter::from_fn(|| wheel.pop_until(9_000)).map(|e| e.1).collect();
        assert!(out.is_sorted() && out.len() == 100);
    }
}
