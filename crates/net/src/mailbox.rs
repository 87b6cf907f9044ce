//! From a loop to a thread that makes things durable: bytes in order, taken in lots.
//!
//! The loop only appends to a buffer, and the reader takes all that is there by exchanging it for
//! its own, so what came while it was busy comes together and neither allocates once the buffers
//! are warm. How much may wait is bounded by the node that fills it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct Letters {
    bytes: Vec<u8>,
    closed: bool,
}

/// The mailbox; see the module.
#[derive(Default)]
pub struct Mailbox {
    letters: Mutex<Letters>,
    news: Condvar,
}

impl Mailbox {
    /// Adds bytes and wakes the reader.
    pub fn push(&self, bytes: &[u8]) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.bytes.extend_from_slice(bytes);
        drop(letters);
        self.news.notify_one();
    }

    /// Puts all that is there into `into`, which is cleared first; waits as long as `patience` for
    /// something to come. False once it is closed and empty.
    pub fn take(&self, into: &mut Vec<u8>, patience: Duration) -> bool {
        into.clear();
        let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |letters: &mut Letters| letters.bytes.is_empty() && !letters.closed;
        let waited = self.news.wait_timeout_while(letters, patience, idle);
        let (mut letters, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut letters.bytes, into);
        !(letters.closed && into.is_empty())
    }

    /// Whether nothing more will come.
    pub fn is_closed(&self) -> bool {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).closed
    }

    /// Nothing more will come; what is there can still be taken.
    pub fn close(&self) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.news.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_order_until_it_is_closed_and_empty() {
        let mailbox = Mailbox::default();
        let mut bytes = vec![9];
        assert!(mailbox.take(&mut bytes, Duration::ZERO));
        assert!(bytes.is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..1_000u32).for_each(|n| mailbox.push(&n.to_le_bytes()));
                mailbox.close();
            });
            let mut all = Vec::new();
            while mailbox.take(&mut bytes, Duration::from_secs(10)) {
                all.extend_from_slice(&bytes);
            }
            let expected: Vec<u8> = (0..1_000u32).flat_map(u32::to_le_bytes).collect();
            assert_eq!(all, expected);
        });
    }
}
