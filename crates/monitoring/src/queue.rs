//! The way of records from whoever has them to the thread that writes them: bounded, and never waited for.
//!
//! A record gets its number before it is known whether there is room, so that a record without room leaves
//! a gap that everybody behind sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::record::{Bytes, RecordKind};

/// What became of the records of a stream so far.
///
/// Of those that were numbered, each is dropped, written, or still on its way.
#[derive(Default, Debug)]
pub struct Counts {
    numbered: AtomicU64,
    dropped: AtomicU64,
    written: AtomicU64,
}

impl Counts {
    /// Records that were given a number.
    pub fn numbered(&self) -> u64 {
        self.numbered.load(Relaxed)
    }

    /// Records that were lost: for want of room in the queue or behind it.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Records that are where they were to go.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    pub(crate) fn drop_more(&self, count: u64) {
        self.dropped.fetch_add(count, Relaxed);
    }

    pub(crate) fn write_more(&self, count: u64) {
        self.written.fetch_add(count, Relaxed);
    }
}

/// A record with its number.
pub(crate) type Numbered = (u64, Bytes);

/// The end of whoever has records: one thread's.
pub struct RecordSender {
    to: rtrb::Producer<Numbered>,
    counts: Arc<Counts>,
    last: u64,
}

impl RecordSender {
    /// Gives a record the next number and puts it into the queue, if there is room. It never waits and
    /// allocates nothing.
    pub fn push(&mut self, record: Bytes) {
        self.last += 1;
        if self.to.push((self.last, record)).is_err() {
            self.counts.drop_more(1);
        }
        self.counts.numbered.store(self.last, Relaxed);
    }
}

/// The writer's end.
pub struct RecordReceiver {
    pub(crate) from: rtrb::Consumer<Numbered>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) name: String,
    pub(crate) kind: RecordKind,
}

impl RecordReceiver {
    /// What became of the stream's records so far.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }
}

/// A queue for `room` records (at least 1) of a stream.
pub fn queue(name: &str, kind: RecordKind, room: usize) -> (RecordSender, RecordReceiver) {
    let (to, from) = rtrb::RingBuffer::new(room.max(1));
    let counts = Arc::<Counts>::default();
    let sender = RecordSender { to, counts: Arc::clone(&counts), last: 0 };
    (sender, RecordReceiver { from, counts, name: name.to_string(), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_has_a_number_all_the_same() {
        let (mut sender, mut receiver) = queue("orders", RecordKind::Orders, 3);
        (0..5).for_each(|n| sender.push([n; 32]));
        assert_eq!((receiver.counts.numbered(), receiver.counts.dropped()), (5, 2));
        let numbers = |of: &mut RecordReceiver| -> Vec<u64> {
            std::iter::from_fn(|| of.from.pop().ok()).map(|(number, _)| number).collect()
        };
        assert_eq!(numbers(&mut receiver), [1, 2, 3]);
        sender.push([9; 32]);
        assert_eq!(numbers(&mut receiver), [6]);
    }
}
