//! When messages are public, between a publisher and those who follow it.

use types::{ClockReading, FeedSeq, Nanos};

use super::Publisher;

/// What a publisher says of release times; all of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeedRelease {
    /// One past the last message that was sent.
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
            end: self.store.stamped(),
            release: self.last_release,
            owd_ns: self.reducer.owd_g(now).unwrap_or(0),
            bound_ns: self.reducer.bound_ns(now),
        }
    }

    /// Somebody else publishes from now on: sends nothing, and knows of no release time but what it
    /// is told and has stamped itself.
    pub fn follow(&mut self) {
        self.follows = true;
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
    /// follows. The fleet's delay is what the one before said, until reports come.
    pub fn take_over(&mut self, now: ClockReading) {
        self.follows = false;
        if let (owd_ns @ 1.., bound_ns) = std::mem::take(&mut self.told_delay) {
            self.reducer.go_on(now.now, owd_ns, bound_ns);
        }
        if self.store.has_unstamped() || self.count > 0 {
            let limits = self.config.delay;
            let longest_ns = limits.owd_max_ns + limits.bound_max_ns + now.bound_ns;
            self.last_release = self.last_release.max(now.now.after(longest_ns));
            // What still waits in the packet is stamped when it leaves.
            self.store.stamp(self.next_seq - u64::from(self.count), self.last_release, 0);
        }
    }
}
