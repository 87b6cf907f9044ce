//! The level that was made last, while no page knows of it.
//!
//! Where prices swing, many an order comes to a price that has none and goes before another order of its
//! side comes to such a price. So a level that is made in a page that exists is *pending* at first: it has its
//! place in the list and may be the best or the next one, but page, chapter and volume learn of it only when
//! another level of the side is made. What looks for levels by pages looks here, too.

use super::{Ladder, Queue};
use crate::order::NOWHERE;

/// The pending level of a ladder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    /// Key of the level, 0 for none, and its place.
    pub(super) key: u64,
    pub(super) place: u32,
}

impl Pending {
    pub(super) const NONE: Pending = Pending { key: 0, place: NOWHERE };
}

impl Ladder {
    /// Has the page of the pending level learn of it, if there is one.
    #[inline(never)]
    pub(super) fn settle_pending(&mut self) {
        let Pending { key, place } = std::mem::replace(&mut self.pending, Pending::NONE);
        if key == 0 {
            return;
        }
        let level = self.level(place);
        let (page, displayed) = (level.page, u64::from(level.shown != 0));
        let bit = place & 63;
        let data = &mut self.pages[page as usize];
        data.places[bit as usize] = place;
        self.spares -= u32::from(data.occupied == 0);
        data.occupied |= 1 << bit;
        data.displayed |= displayed << bit;
        self.page_index.occupy(data.chapter, data.number);
    }

    /// Removes the pending level if it is empty; it shows nothing any more.
    #[inline(always)]
    pub(super) fn undisplay_pending(&mut self) {
        let place = self.pending.place;
        let level = self.level(place);
        if level.orders != 0 {
            return;
        }
        debug_assert!(level.queue == Queue::EMPTY, "an empty level has a queue");
        let page = level.page;
        self.pending = Pending::NONE;
        self.forget_best(place, page);
        self.free_level(place);
        let data = &mut self.pages[page as usize];
        let spare = data.occupied == 0;
        data.used |= spare;
        if spare & !data.queued {
            self.queue_spare(page);
        }
    }

    /// Whether there is a pending level with a key below `below` and above that of the level at `other`.
    pub(super) fn pending_between(&self, other: Option<u32>, below: u64) -> bool {
        let Pending { key, .. } = self.pending;
        key != 0 && key < below && other.is_none_or(|place| key > self.key_at(place))
    }
}

#[cfg(test)]
mod tests {
    use types::{Price, Side, TickTable};

    use super::*;

    fn stay(ladder: &mut Ladder, key: u64) -> u32 {
        let place = ladder.find_or_make(key, true).expect("room");
        (ladder.level_mut(place).orders, ladder.level_mut(place).shown) = (1, 1);
        place
    }

    fn go(ladder: &mut Ladder, place: u32) {
        (ladder.level_mut(place).orders, ladder.level_mut(place).shown) = (0, 0);
        ladder.undisplay(place);
    }

    fn occupied(ladder: &Ladder) -> u32 {
        ladder.pages.iter().map(|page| page.occupied.count_ones()).sum()
    }

    #[test]
    fn a_level_enters_its_page_when_the_next_one_is_made() {
        let mut ladder = Ladder::new(Side::Buy, &TickTable::uniform(Price(1)), 100);
        let first = stay(&mut ladder, 1_000);
        assert_eq!((occupied(&ladder), ladder.find(1_000)), (0, Some(first)));
        assert_eq!(stay(&mut ladder, 1_000), first, "it is found, not made again");
        let second = stay(&mut ladder, 1_010);
        assert_eq!((occupied(&ladder), ladder.find(1_000)), (1, Some(first)));
        go(&mut ladder, second);
        assert_eq!((occupied(&ladder), ladder.best()), (1, Some(first)), "no page knew of it");
        stay(&mut ladder, 1_020);
        assert_eq!(occupied(&ladder), 1, "there was none to be settled");
        assert!(ladder.is_sound());
        // Control: a page that knows of it already is found.
        let page = ladder.level(first).page as usize;
        ladder.pages[page].occupied |= 1 << (1_020 & 63);
        assert!(!ladder.is_sound());
    }

    #[test]
    fn it_is_between_its_neighbours_also_where_nothing_else_is_near() {
        let key = |n: u64| 1 + n * 300_000;
        for pending in 0..5 {
            let mut ladder = Ladder::new(Side::Sell, &TickTable::uniform(Price(1)), 4_000);
            // Volumes that had levels once: more of them than stay linked.
            for n in (0..100).chain([pending]) {
                let place = stay(&mut ladder, key(n));
                go(&mut ladder, place);
            }
            let others = (0..5).filter(|&n| n != pending);
            let mut places: Vec<_> = others.map(|n| (n, stay(&mut ladder, key(n)))).collect();
            places.push((pending, stay(&mut ladder, key(pending))));
            assert_eq!(ladder.pending.key, key(pending));
            places.sort_unstable();
            for pair in places.windows(2) {
                let ((_, worse), (_, better)) = (pair[0], pair[1]);
                assert_eq!(ladder.worse(better), Some(worse), "{pending} pending");
                assert_eq!(ladder.better(worse), Some(better), "{pending} pending");
            }
            let (worst, best) = (places[0].1, places[4].1);
            assert_eq!((ladder.worse(worst), ladder.better(best)), (None, None));
            assert_eq!((ladder.worst(), ladder.best()), (Some(worst), Some(best)));
            assert_eq!(ladder.best_displayed(), Some(best));
            assert!(ladder.is_sound());
            for (_, best) in places.into_iter().rev() {
                assert_eq!(ladder.best(), Some(best));
                go(&mut ladder, best);
                assert!(ladder.is_sound());
            }
            assert_eq!(
                (ladder.best(), ladder.worst(), ladder.best_displayed()),
                (None, None, None)
            );
        }
    }
}
