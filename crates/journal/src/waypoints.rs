//! Where some of a log's frames stand, so that reading a range does not begin at the segment's start.
//!
//! Kept in memory only, filled by writing and by reading, and allowed to miss anything: reading
//! begins at the last frame known to come before what is wanted, however far before.

/// Most frames that are remembered; beyond it every second one is dropped, and the distance
/// doubles.
const WAYPOINTS_MAX: usize = 1 << 14;
/// Distance between two remembered frames at first, positions.
const APART: u64 = 256;

/// Where a frame with records is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waypoint {
    /// Position of the frame's first record.
    pub(crate) position: u64,
    /// Number of the frame's segment.
    pub(crate) segment: u64,
    /// Offset of the frame in its segment, bytes.
    pub(crate) offset: u64,
    /// Number of the frame in the log.
    pub(crate) frame: u64,
}

/// The remembered frames, in order of positions and of frames.
pub(crate) struct Waypoints {
    known: Vec<Waypoint>,
    apart: u64,
}

impl Waypoints {
    pub(crate) fn new() -> Waypoints {
        Waypoints { known: Vec::new(), apart: APART }
    }

    /// Notes a frame whose first record counts.
    pub(crate) fn note(&mut self, point: Waypoint) {
        let place = self.known.partition_point(|known| known.position < point.position);
        let before = place.checked_sub(1).and_then(|place| self.known.get(place));
        let near = |known: &Waypoint| known.position.abs_diff(point.position) < self.apart;
        if before.is_some_and(near) || self.known.get(place).is_some_and(near) {
            return;
        }
        self.known.insert(place, point);
        if self.known.len() > WAYPOINTS_MAX {
            let mut odd = false;
            self.known.retain(|_| {
                odd = !odd;
                odd
            });
            self.apart *= 2;
        }
        assert!(self.known.len() <= WAYPOINTS_MAX);
    }

    /// Drops frames with records after this position, which were taken back.
    pub(crate) fn cut_after(&mut self, position: u64) {
        let kept = self.known.partition_point(|known| known.position <= position);
        self.known.truncate(kept);
    }

    /// Drops frames that begin before this position, which may be gone.
    pub(crate) fn forget_before(&mut self, position: u64) {
        let gone = self.known.partition_point(|known| known.position < position);
        self.known.drain(..gone);
    }

    /// The last remembered frame that begins at or before a position.
    pub(crate) fn before(&self, position: u64) -> Option<Waypoint> {
        let place = self.known.partition_point(|known| known.position <= position);
        place.checked_sub(1).and_then(|place| self.known.get(place)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(position: u64) -> Waypoint {
        Waypoint { position, segment: 1, offset: position * 10, frame: position }
    }

    #[test]
    fn the_last_one_before_a_position_is_found_whatever_the_order_of_notes() {
        let mut points = Waypoints::new();
        for position in [2_000, 1, 1_000, 3_000, 1_001] {
            points.note(at(position));
        }
        let found = [0, 1, 999, 1_000, 1_999, 9_999].map(|p| points.before(p).map(|w| w.position));
        assert_eq!(found, [None, Some(1), Some(1), Some(1_000), Some(1_000), Some(3_000)]);
        points.cut_after(2_000);
        points.forget_before(500);
        let found = [999, 9_999].map(|p| points.before(p).map(|w| w.position));
        assert_eq!(found, [None, Some(2_000)]);
    }

    #[test]
    fn they_are_bounded() {
        let mut points = Waypoints::new();
        let count = 3 * WAYPOINTS_MAX as u64;
        (0..count).for_each(|n| points.note(at(n * APART)));
        assert!(points.known.len() <= WAYPOINTS_MAX);
        let wanted = (count - 1) * APART;
        let before = points.before(wanted).expect("there are some");
        assert!(wanted - before.position <= 4 * APART, "{before:?}");
    }
}
