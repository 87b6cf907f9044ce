//! Round trips between the root and one node, as the roll call times them: the last few, and their
//! median. What a node adds to every message that it passes on shows in them, whether it stands in
//! the tree or only by it.

/// Round trips kept per node: with a call each 50 ms, those of the last 1.6 s.
pub const TRIPS: usize = 32;

/// The last round trips, for a median.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trips {
    /// In ns, the oldest overwritten first.
    last: [u32; TRIPS],
    next: usize,
    count: usize,
}

impl Default for Trips {
    fn default() -> Self {
        Trips { last: [0; TRIPS], next: 0, count: 0 }
    }
}

impl Trips {
    /// Adds one, in ns; more than four seconds count as four.
    pub fn add(&mut self, ns: u64) {
        if let Some(slot) = self.last.get_mut(self.next) {
            *slot = u32::try_from(ns).unwrap_or(u32::MAX);
        }
        self.next = (self.next + 1) % TRIPS;
        self.count = (self.count + 1).min(TRIPS);
    }

    /// Their median in ns, once there are [`TRIPS`] of them.
    pub fn median_ns(&self) -> Option<u64> {
        let mut sorted = self.last;
        sorted.sort_unstable();
        let middle = sorted.get(TRIPS / 2).copied()?;
        (self.count == TRIPS).then_some(middle.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_last_ones_once_there_are_enough() {
        let mut trips = Trips::default();
        for ns in 1..TRIPS as u64 {
            trips.add(ns);
            assert_eq!(trips.median_ns(), None);
        }
        trips.add(u64::MAX);
        assert_eq!(trips.median_ns(), Some(17));
        (0..TRIPS).for_each(|_| trips.add(900));
        assert_eq!(trips.median_ns(), Some(900), "the old ones are forgotten");
    }
}
