//! What a receiver gives up of the feed because it is too far behind.
//!
//! The retransmission server answers a request for something it no longer keeps with the number of
//! the first message it has ([`crate::frame::DATA_OLDEST`]). What is missing before that can't be
//! had any more. And a gap longer than the receiver's limit is not worth repairing: it goes on with
//! the first datagram behind it. Either way the receiver jumps over what is missing, counts it, and
//! hands on everything it has, in sequence; its listeners fetch a snapshot.
//!
//! A jump comes no earlier than the release time of the datagram that the receiver jumps to.
//! Deadlines rise with the feed, so whatever is jumped over is public by then: other receivers were
//! free to hand it on, and executions in it may be told.

use types::Nanos;

/// What was counted of messages that a receiver gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SkipStats {
    /// Number of messages that were skipped.
    pub messages: u64,
    /// Number of times that messages were skipped.
    pub jumps: u64,
    /// Number of answers by which the server told that it no longer has what was asked for.
    pub told: u64,
}

/// Messages that are known to be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skip {
    /// Messages before this one can't be repaired.
    oldest: u64,
    /// Time at which the lost messages would have been released.
    public_at: Nanos,
    /// A gap of more messages is not repaired; 0: every gap is.
    gap_max: u64,
    stats: SkipStats,
}

impl Skip {
    /// Nothing lost yet; a gap of more than `gap_max` messages is not repaired (0: every gap is).
    pub fn new(gap_max: u64) -> Skip {
        Skip { oldest: 0, public_at: Nanos(0), gap_max, stats: SkipStats::default() }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> SkipStats {
        self.stats
    }

    /// The server has nothing before message `oldest`, whose release time is `public_at`.
    pub fn told(&mut self, oldest: u64, public_at: Nanos) {
        self.stats.told += 1;
        if oldest > self.oldest {
            (self.oldest, self.public_at) = (oldest, public_at);
        }
    }

    /// Where to go on from `next`, which is missing, and from when on. `held` is the first message
    /// that waits and when it may be handed on. `None`: what is missing may still come.
    pub fn target(&self, next: u64, held: Option<(u64, Nanos)>) -> Option<(u64, Nanos)> {
        let held = held.filter(|(seq, _)| *seq > next);
        if self.oldest > next {
            return Some(match held {
                Some((seq, at)) if seq <= self.oldest => (seq, at),
                _ => (self.oldest, self.public_at),
            });
        }
        held.filter(|(seq, _)| self.gap_max > 0 && seq - next > self.gap_max)
    }

    /// A jump of so many messages was made.
    pub fn jumped(&mut self, messages: u64) {
        self.stats.messages += messages;
        self.stats.jumps += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_cannot_come_is_jumped_over() {
        let at = Nanos;
        let mut skip = Skip::new(100);
        assert_eq!(skip.target(5, None), None);
        assert_eq!(skip.target(5, Some((105, at(7)))), None, "a gap of 100 is repaired");
        assert_eq!(skip.target(5, Some((106, at(7)))), Some((106, at(7))));
        assert_eq!(Skip::new(0).target(5, Some((1 << 40, at(7)))), None, "no limit");
        skip.told(50, at(9));
        skip.told(40, at(8));
        assert_eq!(skip.target(5, None), Some((50, at(9))));
        assert_eq!(skip.target(5, Some((60, at(10)))), Some((50, at(9))), "50 to 59 may come");
        assert_eq!(skip.target(5, Some((20, at(6)))), Some((20, at(6))), "what is held goes first");
        assert_eq!(skip.target(50, Some((60, at(10)))), None);
        assert_eq!(skip.target(20, Some((20, at(6)))), Some((50, at(9))));
        skip.jumped(45);
        assert_eq!(skip.stats(), SkipStats { messages: 45, jumps: 1, told: 2 });
    }
}
