//! An event queue for events that are mostly less than a few milliseconds away.
//!
//! A ring of buckets of 32 ns with a bit for each that holds something; a bucket is a linked list
//! in one slab and is sorted when its time comes, which with a few events in it is next to nothing.
//! Later events wait in a heap until they fit. Events of one time come out in the order in which
//! they went in, unless one of them had to wait in the heap.

use std::{cmp::Reverse, collections::BinaryHeap};

/// log2 of a bucket's width in ns.
const WIDTH: u32 = 5;
/// Buckets of the ring: 1 ms.
const BUCKETS: u64 = 1 << 15;
const WORDS: u64 = BUCKETS / 64;
const NIL: u32 = u32::MAX;

/// 16 bytes with an event of 8.
#[derive(Clone, Copy)]
struct Entry<E> {
    /// Lower half of the time: the ring is shorter than that.
    at: u32,
    next: u32,
    event: E,
}

/// The queue.
pub struct Wheel<E> {
    heads: Box<[u32; BUCKETS as usize]>,
    /// Bit per bucket: its list is not empty.
    marks: Box<[u64; WORDS as usize]>,
    slab: Vec<Entry<E>>,
    free: u32,
    /// The bucket being emptied, latest event first.
    current: Vec<(u64, E)>,
    /// Its number.
    bucket: u64,
    /// The next bucket of the ring that holds something; [`u64::MAX`]: none does.
    upcoming: u64,
    /// Events in the ring.
    ringed: usize,
    far: BinaryHeap<Reverse<(u64, u64, E)>>,
    /// Bucket of the earliest event in the heap.
    far_bucket: u64,
    pushed: u64,
}

impl<E: Copy + Ord> Default for Wheel<E> {
    fn default() -> Self {
        Wheel {
            heads: Box::new([NIL; BUCKETS as usize]),
            marks: Box::new([0; WORDS as usize]),
            slab: Vec::new(),
            free: NIL,
            current: Vec::new(),
            bucket: 0,
            upcoming: u64::MAX,
            ringed: 0,
            far: BinaryHeap::new(),
            far_bucket: u64::MAX,
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
    #[inline]
    pub fn push(&mut self, at: u64, event: E) {
        let ahead = (at >> WIDTH).saturating_sub(self.bucket);
        if ahead.wrapping_sub(1) < BUCKETS - 1 {
            self.link(at, event);
        } else {
            self.push_aside(at, event, ahead);
        }
    }

    #[cold]
    fn push_aside(&mut self, at: u64, event: E, ahead: u64) {
        if ahead == 0 {
            let place = self.current.partition_point(|(other, _)| *other > at);
            self.current.insert(place, (at, event));
        } else {
            self.pushed += 1;
            self.far.push(Reverse((at, self.pushed, event)));
            self.far_bucket = self.far_bucket.min(at >> WIDTH);
        }
    }

    /// The earliest event, unless it is later than `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: u64) -> Option<(u64, E)> {
        loop {
            if let Some(last) = self.current.last() {
                return if last.0 > limit { None } else { self.current.pop() };
            }
            if let Some(single) = self.advance(limit)? {
                return Some(single);
            }
        }
    }

    /// What probably comes next: to fetch what it needs while the present one is handled. Where
    /// events share a bucket it may be another one of them.
    #[inline]
    pub fn glimpse(&self) -> Option<E> {
        if let Some((_, event)) = self.current.last() {
            return Some(*event);
        }
        let head = self.heads[(self.upcoming & (BUCKETS - 1)) as usize];
        self.slab.get(head as usize).map(|entry| entry.event)
    }

    #[inline]
    fn link(&mut self, at: u64, event: E) {
        self.upcoming = self.upcoming.min(at >> WIDTH);
        let bucket = (at >> WIDTH) & (BUCKETS - 1);
        let head = &mut self.heads[bucket as usize];
        let entry = Entry { at: at as u32, next: *head, event };
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
        self.marks[(bucket / 64) as usize] |= 1 << (bucket % 64);
        self.ringed += 1;
    }

    /// Goes to the next bucket that holds something, but not beyond `limit`, and takes its list
    /// over; an event that is alone in it, and not too late, is given at once. `None` when there is
    /// no bucket.
    fn advance(&mut self, limit: u64) -> Option<Option<(u64, E)>> {
        let last = limit >> WIDTH;
        while self.bucket < last {
            let next = match self.upcoming {
                // Straight to the bucket before the next event.
                u64::MAX if self.far_bucket < u64::MAX => self.bucket.max(self.far_bucket - 1),
                u64::MAX => return None,
                bucket => bucket,
            };
            // What waits in the heap is at least a ring further than this one was: after `next`.
            self.bucket = next.min(last);
            if self.far_bucket - self.bucket < BUCKETS {
                self.fetch_far();
            }
            let place = self.bucket & (BUCKETS - 1);
            let first = std::mem::replace(&mut self.heads[place as usize], NIL);
            if let Some(entry) = self.slab.get_mut(first as usize) {
                self.marks[(place / 64) as usize] &= !(1 << (place % 64));
                let at = upper(self.bucket) | u64::from(entry.at);
                if entry.next == NIL && at <= limit {
                    let event = entry.event;
                    entry.next = std::mem::replace(&mut self.free, first);
                    self.ringed -= 1;
                    self.upcoming = self.next_mark();
                    return Some(Some((at, event)));
                }
                self.take_list(first);
                self.upcoming = self.next_mark();
                return Some(None);
            }
        }
        None
    }

    /// The next bucket of the ring that holds something; [`u64::MAX`] for none.
    #[inline]
    fn next_mark(&self) -> u64 {
        if self.ringed == 0 {
            return u64::MAX;
        }
        let place = (self.bucket + 1) & (BUCKETS - 1);
        let (word, bit) = (place / 64, place % 64);
        let first = self.marks[word as usize] & (u64::MAX << bit);
        let found = |word: u64, marks: u64| {
            let place = (word & (WORDS - 1)) * 64 + u64::from(marks.trailing_zeros());
            let ahead = place.wrapping_sub(self.bucket) & (BUCKETS - 1);
            self.bucket + ahead
        };
        if first != 0 {
            return found(word, first);
        }
        let next = (word + 1..=word + WORDS).find_map(|word| {
            let marks = self.marks[(word & (WORDS - 1)) as usize];
            (marks != 0).then(|| found(word, marks))
        });
        next.unwrap_or(u64::MAX)
    }

    /// Takes the list of the present bucket over, in order.
    fn take_list(&mut self, first: u32) {
        let (mut index, upper) = (first, upper(self.bucket));
        while let Some(entry) = self.slab.get_mut(index as usize) {
            let (at, event) = (upper | u64::from(entry.at), entry.event);
            let next = std::mem::replace(&mut entry.next, self.free);
            self.free = index;
            index = next;
            self.ringed -= 1;
            // The list is in reverse order of pushing, as events of one time should be here too.
            if self.current.last().is_none_or(|(last, _)| *last >= at) {
                self.current.push((at, event));
            } else {
                let place = self.current.partition_point(|(other, _)| *other >= at);
                self.current.insert(place, (at, event));
            }
        }
    }

    #[cold]
    fn fetch_far(&mut self) {
        while let Some(Reverse((at, ..))) = self.far.peek() {
            self.far_bucket = at >> WIDTH;
            if self.far_bucket - self.bucket >= BUCKETS {
                return;
            }
            let Some(Reverse((at, _, event))) = self.far.pop() else { return };
            self.link(at, event);
        }
        self.far_bucket = u64::MAX;
    }
}

/// Upper half of the times of a bucket.
fn upper(bucket: u64) -> u64 {
    (bucket << WIDTH) & !u64::from(u32::MAX)
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
                    // Of the bucket that is next, if it is one of the ring.
                    let next = model.first().map(|(at, _)| at >> WIDTH);
                    if let Some(glimpsed) = wheel.glimpse() {
                        let of = model.iter().find(|(_, other)| *other == glimpsed);
                        prop_assert_eq!(of.map(|(at, _)| at >> WIDTH), next);
                    }
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
