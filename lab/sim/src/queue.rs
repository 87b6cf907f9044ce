//! The event queue of all simulated worlds but the clouds', which have so many events that they keep
//! them in a wheel, and the pool of datagram payloads: no allocation once both are warm.

use std::{cmp::Ordering, collections::BinaryHeap};

use types::{Nanos, Peer};

/// Events in the order of their time and, at one time, of their scheduling.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    scheduled: u64,
}

struct Entry<E> {
    /// Time in the upper, scheduling order in the lower half.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the heap gives its largest entry, we want the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), scheduled: 0 }
    }

    pub(crate) fn push(&mut self, at: Nanos, event: E) {
        let key = u128::from(at.0) << 64 | u128::from(self.scheduled);
        self.scheduled += 1;
        self.heap.push(Entry { key, event });
    }

    /// Time of the earliest event; [`Nanos::NEVER`] where there is none.
    pub(crate) fn next(&self) -> Nanos {
        self.heap.peek().map_or(Nanos::NEVER, |entry| Nanos((entry.key >> 64) as u64))
    }

    /// The earliest event, unless it is later than `limit`.
    pub(crate) fn pop_until(&mut self, limit: Nanos) -> Option<(Nanos, E)> {
        let at = Some(self.next()).filter(|at| *at <= limit)?;
        self.heap.pop().map(|entry| (at, entry.event))
    }

    /// The earliest event, or its time alone where that is later: `postpone` says until when it has
    /// to wait, and it keeps its place among those of that time.
    pub(crate) fn pop_or_postpone(
        &mut self,
        postpone: impl FnOnce(Nanos, &E) -> Option<Nanos>,
    ) -> Option<(Nanos, Option<E>)> {
        let Entry { key, event } = self.heap.pop()?;
        let at = Nanos((key >> 64) as u64);
        let Some(until) = postpone(at, &event) else { return Some((at, Some(event))) };
        let order = u128::from(key as u64);
        self.heap.push(Entry { key: u128::from(until.0) << 64 | order, event });
        Some((at, None))
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

/// Payloads shared by all copies of a datagram that are on their way, with their sender.
#[derive(Default)]
pub(crate) struct Pool {
    slots: Vec<Payload>,
    free: Vec<u32>,
}

struct Payload {
    bytes: Vec<u8>,
    sender: Peer,
    references: u32,
}

impl Pool {
    /// Stores bytes with one reference.
    pub(crate) fn store(&mut self, bytes: &[u8], sender: Peer) -> u32 {
        if let Some(slot) = self.free.pop() {
            let payload = &mut self.slots[slot as usize];
            payload.bytes.clear();
            payload.bytes.extend_from_slice(bytes);
            (payload.sender, payload.references) = (sender, 1);
            return slot;
        }
        self.slots.push(Payload { bytes: bytes.to_vec(), sender, references: 1 });
        (self.slots.len() - 1) as u32
    }

    pub(crate) fn bytes(&self, slot: u32) -> &[u8] {
        &self.slots[slot as usize].bytes
    }

    pub(crate) fn sender(&self, slot: u32) -> Peer {
        self.slots[slot as usize].sender
    }

    pub(crate) fn retain(&mut self, slot: u32) {
        self.slots[slot as usize].references += 1;
    }

    pub(crate) fn release(&mut self, slot: u32) {
        let references = &mut self.slots[slot as usize].references;
        *references -= 1;
        if *references == 0 {
            self.free.push(slot);
        }
    }

    /// Payloads still referenced.
    pub(crate) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_out_sorted_and_stable(times in prop::collection::vec(0u64..50, 0..300)) {
            let mut queue = Queue::new();
            for (order, &at) in times.iter().enumerate() {
                queue.push(Nanos(at), order);
            }
            let mut expect: Vec<_> = times.iter().copied().enumerate().map(|(i, at)| (at, i)).collect();
            expect.sort_unstable();
            let mut got = Vec::new();
            while let Some((at, order)) = queue.pop_until(Nanos(100)) {
                got.push((at.0, order));
            }
            prop_assert_eq!(got, expect);
        }
    }

    #[test]
    fn payloads_are_reused_after_their_last_reference() {
        let mut pool = Pool::default();
        let slot = pool.store(b"one", Peer::Addr(1));
        pool.retain(slot);
        pool.release(slot);
        assert_eq!(pool.bytes(slot), b"one");
        pool.release(slot);
        assert_eq!(pool.in_use(), 0);
        assert_eq!(pool.store(b"two", Peer::Addr(2)), slot);
    }
}
