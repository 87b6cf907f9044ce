//! Health of the sides of a line: what each brought first, what it skipped, how much it trails, and
//! whether it is silent while another is heard.

use types::Nanos;

use crate::arbiter::{Notice, SIDES, SideStats};

/// First copies whose time is remembered to measure by how much the second trails.
const REMEMBERED: usize = 4_096;

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    stats: SideStats,
    /// Number behind the highest message number heard.
    next: u64,
    heard: Nanos,
    stale: bool,
}

/// The sides of one line; calls come in order of time.
#[derive(Debug)]
pub(crate) struct Sides {
    sides: [Side; SIDES],
    /// First message number of recent packets, and when the first copy came.
    firsts: Vec<(u64, Nanos)>,
}

impl Sides {
    /// Two sides that have not been heard.
    pub fn new() -> Sides {
        let firsts = vec![(u64::MAX, Nanos(0)); REMEMBERED];
        Sides { sides: [Side::default(); SIDES], firsts }
    }

    /// Health of a side; of one that does not exist, nothing heard.
    pub fn stats(&self, side: usize) -> SideStats {
        self.sides.get(side).map_or(SideStats::default(), |side| side.stats)
    }

    /// A packet of `count` messages from number `first` came from a side, new or not.
    pub fn hear(
        &mut self,
        now: Nanos,
        side: usize,
        (first, count): (u64, u32),
        mut tell: impl FnMut(Notice),
    ) {
        if self.sides.iter().all(|side| side.stats.packets == 0) {
            // Silence counts from the first packet.
            self.sides.iter_mut().for_each(|side| side.heard = now);
        }
        let Some(heard) = self.sides.get_mut(side) else { return };
        heard.stats.packets += 1;
        heard.heard = now;
        if heard.stale {
            heard.stale = false;
            tell(Notice::Alive { side });
        }
        if heard.next != 0 && first < heard.next {
            heard.stats.reordered += 1;
            // What seemed missing was only late.
            heard.stats.missing = heard.stats.missing.saturating_sub(count.into());
        } else if heard.next != 0 {
            heard.stats.missing += first - heard.next;
        }
        heard.next = heard.next.max(first.saturating_add(count.into()));
    }

    /// Notes that a side was heard.
    pub fn lives(&mut self, now: Nanos, side: usize, mut tell: impl FnMut(Notice)) {
        let Some(heard) = self.sides.get_mut(side) else { return };
        heard.heard = now;
        if std::mem::take(&mut heard.stale) {
            tell(Notice::Alive { side });
        }
    }

    /// Whether a copy of the packet that begins with `first` was noted lately.
    pub fn knows(&self, first: u64) -> bool {
        self.place(first).is_some_and(|place| place.0 == first)
    }

    /// Notes that the first copy of a packet came now.
    pub fn first(&mut self, now: Nanos, side: usize, first: u64) {
        if let Some(side) = self.sides.get_mut(side) {
            side.stats.first += 1;
        }
        if let Some(place) = self.firsts.get_mut(first as usize % REMEMBERED) {
            *place = (first, now);
        }
    }

    /// A later copy of a packet came now.
    pub fn second(&mut self, now: Nanos, side: usize, first: u64) {
        let remembered = self.place(first);
        if let (Some((known, at)), Some(side)) = (remembered, self.sides.get_mut(side))
            && known == first
        {
            side.stats.behind_sum += now.0.saturating_sub(at.0);
            side.stats.behind_count += 1;
        }
    }

    fn place(&self, first: u64) -> Option<(u64, Nanos)> {
        self.firsts.get(first as usize % REMEMBERED).copied()
    }

    /// Calls a side dead that has been silent for longer than `stale` while another one was heard.
    /// Where nobody is heard, the market may be quiet, and that is for whoever knows the hours.
    pub fn watch(&mut self, stale: Nanos, mut tell: impl FnMut(Notice)) {
        let latest = self.sides.iter().map(|side| side.heard).max().unwrap_or(Nanos(0));
        for (at, side) in self.sides.iter_mut().enumerate() {
            let silent = latest.0.saturating_sub(side.heard.0) > stale.0;
            if silent && !side.stale {
                side.stale = true;
                side.stats.stale += 1;
                tell(Notice::Stale { side: at });
            }
        }
    }
}
