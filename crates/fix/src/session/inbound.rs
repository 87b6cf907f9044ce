//! Messages that came too early: kept, within bounds, until the ones before them are here.

use std::collections::BTreeMap;

use types::Nanos;

/// What was received ahead of its turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    /// The message, as received.
    Message(Vec<u8>),
    /// A message that has been dealt with already and only uses its number.
    Done,
}

/// Messages ahead of the one expected.
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

    /// Keeps a message, unless there is one under this number already or no room: then it will be
    /// resent like the ones before it.
    pub(super) fn keep(&mut self, seq: u32, message: Option<&[u8]>) {
        let length = message.map_or(0, <[u8]>::len);
        let room = self.waiting.len() < self.messages_max && self.bytes + length <= self.bytes_max;
        if room && !self.waiting.contains_key(&seq) {
            let waiting = message.map_or(Waiting::Done, |bytes| Waiting::Message(bytes.to_vec()));
            self.waiting.insert(seq, waiting);
            self.bytes += length;
        }
    }

    /// Takes what waits under `seq`; everything below is forgotten.
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

/// A resend that we have asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    /// Last number missing when we asked.
    pub(super) until: u32,
    /// Time of the resend request.
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
