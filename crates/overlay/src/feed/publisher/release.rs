//! When messages are public, between a publisher and those who follow it.

use types::{ClockReading, FeedSeq, Nanos};

use super::Publisher;

/// What a publisher says of release times; all of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedRelease {
    /// One past the last message that was sent and confirmed.
    pub end: FeedSeq,
    /// All before it are public from then on at the latest: deadline + bound on the publisher's clock;
    /// release times never run backwards.
    pub release: Nanos,
    /// OWD_G, in ns; 0 while there is no estimate.
    pub owd_ns: u64,
    /// The fleet's largest clock bound, in ns.
    pub bound_ns: u64,
}

impl Publisher {
    /// What followers have to know.
    pub fn release(&self, now: Nanos) -> FeedRelease {
        FeedRelease {
            end: self.store.confirmed(),
            release: self.last_release,
            owd_ns: self.reducer.owd_g(now).unwrap_or(0),
            bound_ns: self.reducer.bound_ns(now),
        }
    }

    /// Somebody else publishes from now on: sends nothing, and knows of no release time but what it
    /// is told and has stamped itself.
    pub fn follow(&mut self) {
        self.follows = true;
        self.store.follow();
    }

    /// One past the last message that was sent.
    pub fn sent(&self) -> FeedSeq {
        self.store.stamped()
    }

    /// This publisher was the one to publish when it had sent the messages before number `end`.
    /// Whether that is news.
    pub fn confirm(&mut self, end: FeedSeq) -> bool {
        let before = self.store.confirmed();
        if !self.follows {
            self.store.confirm(end);
        }
        before != self.store.confirmed()
    }

    /// What the one that publishes says. What a publisher hears that does not follow changes nothing.
    pub fn learn(&mut self, now: ClockReading, told: &FeedRelease) {
        if !self.follows {
            return;
        }
        self.last_release = self.last_release.max(told.release);
        self.told_delay = (told.owd_ns, told.bound_ns);
        // Two clocks: neither is further off than its bound.
        let bound_ns = told.bound_ns.max(now.bound_ns).min(u64::from(u32::MAX));
        let deadline = told.release.since(Nanos(told.bound_ns)).max(1);
        self.store.stamp(told.end.0, Nanos(deadline), bound_ns as u32);
    }

    /// It publishes from now on. What it was not told of may have been sent just before: it is held
    /// as long as the largest delay and the largest clock bounds that are believed, and so is what
    /// follows. The fleet's delay is what the one before said, until reports come. One of `several` may
    /// be succeeded without hearing of it: the public gets what it sends when that is confirmed.
    pub fn take_over(&mut self, now: ClockReading, several: bool) {
        self.follows = false;
        if several {
            self.store.await_confirmation();
        }
        let (owd_ns, told_ns) = std::mem::take(&mut self.told_delay);
        if owd_ns > 0 {
            self.reducer.go_on(now.now, owd_ns, told_ns);
        }
        let bound_ns = told_ns.max(now.bound_ns).min(u64::from(u32::MAX));
        self.bound_ns = bound_ns;
        if self.store.has_unstamped() || self.count > 0 {
            let limits = self.config.delay;
            let longest_ns = limits.owd_max_ns + limits.bound_max_ns.max(bound_ns) + now.bound_ns;
            self.last_release = self.last_release.max(now.now.after(longest_ns));
            // What still waits in the packet is stamped when it leaves.
            let end = self.next_seq - u64::from(self.count);
            let deadline = self.last_release.since(Nanos(bound_ns)).max(1);
            self.store.stamp(end, Nanos(deadline), bound_ns as u32);
        }
    }
}
