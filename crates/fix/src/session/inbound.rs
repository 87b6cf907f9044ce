//! Messages that were received ahead of their turn: kept, within bounds, until the missing ones are
//! here.

use std::collections::BTreeMap;

use types::Nanos;

/// What was received under a number ahead of its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    /// A message that is handled when its turn comes, as received.
    Message(Vec<u8>),
    /// A message that has been handled already and only uses up its number.
    Done,
}

/// The messages received ahead of the one that is expected.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    waiting: BTreeMap<u32, Waiting>,
    bytes: usize,
    messages_max: usize,
    bytes_max: usize,
}

impl Queue {
    pub(super) fn new(messages_max: usize, bytes_max: usize) -> Queue {
        Queue { waiting: BTreeMap::new(), bytes: 0, messages_max, bytes_max }
    }

    /// Keeps a message, unless one is kept under its number already or there is no room; then it
    /// will be resent like the ones before it.
    pub(super) fn keep(&mut self, seq: u32, message: Option<&[u8]>) {
        let length = message.map_or(0, <[u8]>::len);
        let room = self.waiting.len() < self.messages_max && self.bytes + length <= self.bytes_max;
        if room && !self.waiting.contains_key(&seq) {
            let waiting = message.map_or(Waiting::Done, |bytes| Waiting::Message(bytes.to_vec()));
            self.waiting.insert(seq, waiting);
            self.bytes += length;
        }
    }

    /// Removes and returns what is kept under `seq`, and drops everything below.
    pub(super) fn take(&mut self, seq: u32) -> Option<Waiting> {
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= seq) {
            let (key, waiting) = entry.remove_entry();
            if let Waiting::Message(bytes) = &waiting {
                self.bytes -= bytes.len();
            }
            if key == seq {
                return Some(waiting);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

/// A gap in the received numbers, for which a resend has been asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    /// Last number that was missing when we asked.
    pub(super) until: u32,
    /// When the resend was asked for, on our clock.
    pub(super) asked_at: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_first_of_each_number_within_bounds() {
        let mut queue = Queue::new(3, 10);
        queue.keep(7, Some(b"seven"));
        queue.keep(7, Some(b"again"));
        queue.keep(9, None);
        queue.keep(8, Some(b"too long"));
        assert_eq!(queue.take(6), None);
        assert_eq!(queue.take(7), Some(Waiting::Message(b"seven".to_vec())));
        assert_eq!((queue.take(8), queue.bytes()), (None, 0));
        assert_eq!(queue.take(9), Some(Waiting::Done));
        assert!(queue.is_empty());
    }
}
