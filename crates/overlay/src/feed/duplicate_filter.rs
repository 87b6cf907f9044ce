//! First copy wins: a fixed array of the last ids seen (Jasper appendix A), with epochs and with an
//! account of the copies that never came.
//!
//! Ids start at 1 and share slots modulo the (power of two) size. A slot that holds a greater id
//! than the one arriving means that reordering went beyond what the filter spans: such a copy is
//! refused and counted, never mistaken for new. A later epoch of the sender empties the filter, an
//! earlier one is refused: a restarted sender, which counts from 1 again, is heard.
//!
//! A sender that took over from another one has ids beyond all of the earlier one's ([`TERM_SHIFT`]):
//! once two of them were heard, whatever the earlier one still sends is refused. One alone may be
//! a datagram that was damaged.
//!
//! Hedging sends each node several copies; which came is kept per id, and when an id is
//! [`SETTLE_LAG`] behind the newest the missing ones are added up: drops per hop. An id that jumps
//! by more than the filter is wide is taken as an absence of ours and not counted as loss.
//!
//! Not guaranteed: anything against a forger; datagrams are to be authenticated before (corner 19).

/// Ids of a sender's term begin at its number shifted by so much.
pub const TERM_SHIFT: u32 = 32;
/// How far behind the newest id copies are still awaited before they count as missing.
pub const SETTLE_LAG: u64 = 1_024;
/// Ids settled per arrival at most, so that a jump costs no arrival much.
const SETTLE_STEPS: usize = 16;
/// Copies of one id told apart.
const COPIES_MAX: usize = 56;

/// Verdict of the filter on an arriving copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The first copy of its id: process it.
    First,
    /// A copy of the same id came before.
    Duplicate,
    /// The reorder bound was broken, a later term has begun, or the id is 0: drop.
    TooOld,
    /// Sent in an epoch that is over: drop.
    StaleEpoch,
}

/// What a filter has counted since the node started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterStats {
    /// Number of copies after the first.
    pub duplicates: u64,
    /// Copies beyond the reorder bound, of an earlier term, or with id 0.
    pub too_old: u64,
    /// Number of copies of an earlier epoch.
    pub stale_epoch: u64,
    /// Copies from nodes that are no parents for their id; they count as copies all the same.
    pub strays: u64,
    /// Copies that were due and did not come.
    pub copies_missing: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    id: u64,
    /// Bit i: the copy of parent i came; the upper byte: copies that are due.
    seen: u64,
}

/// The filter of one stream at one node.
pub struct DuplicateFilter {
    slots: Box<[Slot]>,
    epoch: u32,
    copies: u32,
    highest: u64,
    /// The sender's term, and a later one of which one id was heard.
    term: u64,
    rising: u64,
    /// Every id up to this one is accounted for.
    settled: u64,
    lag: u64,
    stats: FilterStats,
}

impl DuplicateFilter {
    /// A filter spanning `slots` ids (rounded up to a power of two, at least 64) of a sender that
    /// lives in `epoch` or a later one, for a node that is sent `copies` copies of each (at most 56
    /// are told apart).
    pub fn new(slots: usize, epoch: u32, copies: usize) -> DuplicateFilter {
        let slots = slots.max(64).next_power_of_two();
        DuplicateFilter {
            slots: vec![Slot::default(); slots].into_boxed_slice(),
            epoch,
            copies: copies.min(COPIES_MAX) as u32,
            highest: 0,
            term: 0,
            rising: 0,
            settled: 0,
            lag: SETTLE_LAG.min(slots as u64 / 4),
            stats: FilterStats::default(),
        }
    }

    /// This filter with its counters started from those of another one.
    pub fn counting_on(self, stats: FilterStats) -> DuplicateFilter {
        DuplicateFilter { stats, ..self }
    }

    /// Latest epoch that a copy had.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// What was counted since the start.
    pub fn stats(&self) -> FilterStats {
        self.stats
    }

    /// Judges and records the copy of `id` that came from the node's parent number `parent`
    /// (`None`: the sender is no parent for this id).
    pub fn accept(&mut self, epoch: u32, id: u64, parent: Option<usize>) -> Arrival {
        self.accept_one_of(epoch, id, parent, self.copies as usize)
    }

    /// [`DuplicateFilter::accept`] for an id of which the node is sent `copies` copies.
    #[inline]
    pub fn accept_one_of(
        &mut self,
        epoch: u32,
        id: u64,
        parent: Option<usize>,
        copies: usize,
    ) -> Arrival {
        let index = id as usize & (self.slots.len() - 1);
        if let (Some(slot), Some(parent)) = (self.slots.get_mut(index), parent)
            && slot.id == id
            && epoch == self.epoch
            && parent < COPIES_MAX
            && id > 0
        {
            slot.seen |= 1 << parent;
            self.stats.duplicates += 1;
            return Arrival::Duplicate;
        }
        self.judge(epoch, id, parent, copies)
    }

    /// Records that the copy of `id` from the parent of that number came and was dropped in front of the
    /// node: it counts as a duplicate, and is not missing. False, and nothing has changed: the id is
    /// not known here, or not any more.
    pub fn note_copy(&mut self, epoch: u32, id: u64, parent: Option<usize>) -> bool {
        let index = id as usize & (self.slots.len() - 1);
        let known = epoch == self.epoch && id > 0;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| known && slot.id == id) else {
            return false;
        };
        match parent {
            Some(parent) if parent < COPIES_MAX => slot.seen |= 1 << parent,
            Some(_) => {}
            None => self.stats.strays += 1,
        }
        self.stats.duplicates += 1;
        true
    }

    fn judge(&mut self, epoch: u32, id: u64, parent: Option<usize>, copies: usize) -> Arrival {
        if epoch < self.epoch {
            self.stats.stale_epoch += 1;
            return Arrival::StaleEpoch;
        }
        if id == 0 {
            self.stats.too_old += 1;
            return Arrival::TooOld;
        }
        if epoch > self.epoch {
            self.epoch = epoch;
            self.slots.fill(Slot::default());
            (self.highest, self.term, self.rising) = (0, 0, 0);
        }
        let bit = match parent {
            Some(parent) if parent < COPIES_MAX => 1u64 << parent,
            Some(_) => 0,
            None => {
                self.stats.strays += 1;
                0
            }
        };
        let index = id as usize & (self.slots.len() - 1);
        let slot = &mut self.slots[index];
        if slot.id == id {
            slot.seen |= bit;
            self.stats.duplicates += 1;
            return Arrival::Duplicate;
        }
        let term = id >> TERM_SHIFT;
        if slot.id > id || term < self.term {
            self.stats.too_old += 1;
            return Arrival::TooOld;
        }
        if term > self.term && std::mem::replace(&mut self.rising, term) == term {
            self.term = term;
        }
        if self.highest == 0 {
            self.settled = id - 1;
        }
        if id > self.highest {
            self.highest = id;
            self.settle(id);
        }
        let due = (copies.min(COPIES_MAX) as u64) << COPIES_MAX;
        self.slots[index] = Slot { id, seen: bit | due };
        Arrival::First
    }

    fn settle(&mut self, newest: u64) {
        if newest - self.settled >= self.slots.len() as u64 {
            self.settled = newest - self.lag;
            return;
        }
        for _ in 0..SETTLE_STEPS {
            // Nothing is settled beyond the newest, so this cannot run over, and a sum could.
            if newest - self.settled <= self.lag {
                return;
            }
            self.settled += 1;
            let slot = self.slots[self.settled as usize & (self.slots.len() - 1)];
            let (came, due) = match slot.id == self.settled {
                true => ((slot.seen << 8).count_ones(), (slot.seen >> COPIES_MAX) as u32),
                false => (0, self.copies),
            };
            self.stats.copies_missing += u64::from(due.saturating_sub(came));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn first_copy_wins_and_the_reorder_bound_is_kept() {
        let mut filter = DuplicateFilter::new(64, 1, 2);
        assert_eq!(filter.accept(1, 5, Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, 5, Some(1)), Arrival::Duplicate);
        assert_eq!(filter.accept(1, 69, Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, 5, Some(0)), Arrival::TooOld);
        assert_eq!(filter.accept(1, 0, Some(0)), Arrival::TooOld);
        assert_eq!((filter.stats().duplicates, filter.stats().too_old), (1, 2));
    }

    #[test]
    fn a_restarted_sender_is_heard_and_the_old_one_is_not() {
        let mut filter = DuplicateFilter::new(64, 1, 1);
        assert_eq!(filter.accept(1, 1_000, Some(0)), Arrival::First);
        assert_eq!(filter.accept(2, 1, Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, 1_001, Some(0)), Arrival::StaleEpoch);
        assert_eq!(filter.accept(2, 1, Some(0)), Arrival::Duplicate);
        assert_eq!((filter.epoch(), filter.stats().stale_epoch), (2, 1));
    }

    #[test]
    fn a_later_term_fences_all_of_earlier_ones() {
        let mut filter = DuplicateFilter::new(64, 1, 1);
        let first_of = |term: u64| term << TERM_SHIFT | 1;
        for id in 1..=10 {
            assert_eq!(filter.accept(1, id, Some(0)), Arrival::First);
        }
        assert_eq!(filter.accept(1, first_of(2), Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, 12, Some(0)), Arrival::First, "it may have been damaged");
        assert_eq!(filter.accept(1, first_of(2) + 1, Some(0)), Arrival::First);
        // Ids in places that nothing later has taken.
        for id in [13, 30, first_of(1), first_of(1) + 40, first_of(2) - 2] {
            assert_eq!(filter.accept(1, id, Some(0)), Arrival::TooOld);
        }
        assert_eq!(filter.accept(1, first_of(2) + 5, Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, first_of(2) + 3, Some(0)), Arrival::First, "reordered");
        assert_eq!(filter.stats().too_old, 5);
    }

    #[test]
    fn copies_that_never_come_are_counted() {
        let mut filter = DuplicateFilter::new(4_096, 1, 3);
        for id in 1..=10_000u64 {
            for parent in 0..3 {
                // Parent 1 loses every tenth; id 77 is lost altogether.
                if id != 77 && !(parent == 1 && id % 10 == 0) {
                    filter.accept(1, id, Some(parent));
                }
            }
        }
        let settled = 10_000 - SETTLE_LAG;
        assert_eq!(filter.stats().copies_missing, settled / 10 + 3);
        assert_eq!(filter.accept(1, 1 << 60, None), Arrival::First);
        assert_eq!(filter.stats().copies_missing, settled / 10 + 3, "a jump is no loss");
        assert_eq!(filter.stats().strays, 1);
    }

    #[test]
    fn copies_that_were_dropped_in_front_are_as_if_they_had_come() {
        let mut filters = [(); 3].map(|()| DuplicateFilter::new(4_096, 1, 3));
        for id in 1..=5_000u64 {
            for (parent, told) in [(0, false), (1, true), (2, false)] {
                if parent == 1 && id % 10 == 0 {
                    continue;
                }
                filters[0].accept(1, id, Some(parent));
                match told {
                    true => assert!(filters[1].note_copy(1, id, Some(parent))),
                    false => drop(filters[1].accept(1, id, Some(parent))),
                }
                // Control: one that is not told.
                if !told {
                    filters[2].accept(1, id, Some(parent));
                }
            }
        }
        let [all, told, untold] = filters.each_ref().map(DuplicateFilter::stats);
        assert_eq!(all, told);
        let settled = 5_000 - SETTLE_LAG;
        assert_eq!((all.copies_missing, untold.copies_missing), (settled / 10, settled));
        let [_, mut filter, _] = filters;
        // What is not known is no copy: of another epoch, not yet there, gone, and never there.
        for (epoch, id) in [(2, 4_999), (0, 4_999), (1, 5_001), (1, 800), (1, 0)] {
            assert!(!filter.note_copy(epoch, id, Some(0)), "{epoch} {id}");
        }
        assert_eq!(filter.stats(), told);
        assert!(filter.note_copy(1, 5_000, None) && filter.note_copy(1, 5_000, Some(99)));
        assert_eq!(filter.stats().strays, 1);
        assert_eq!(filter.accept(1, 5_001, Some(0)), Arrival::First, "noting accepts nothing");
    }

    #[test]
    fn the_last_ids_there_are_do_not_run_over() {
        let mut filter = DuplicateFilter::new(64, 1, 1);
        assert_eq!(filter.accept(1, u64::MAX - 1, Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, u64::MAX, Some(0)), Arrival::First);
        assert_eq!(filter.accept(1, u64::MAX, Some(0)), Arrival::Duplicate);
        assert_eq!(filter.accept(2, u64::MAX, Some(0)), Arrival::First);
        assert_eq!(filter.accept(2, 63, Some(0)), Arrival::TooOld);
        assert_eq!(filter.stats().copies_missing, 0);
    }

    proptest! {
        #[test]
        fn never_accepts_an_id_twice(
            ids in prop::collection::vec((1u64..300, 0usize..70), 1..1_000),
        ) {
            let (mut filter, mut seen) = (DuplicateFilter::new(64, 0, 2), BTreeSet::new());
            for (id, parent) in ids {
                if filter.accept(0, id, Some(parent)) == Arrival::First {
                    prop_assert!(seen.insert(id));
                }
            }
        }

        #[test]
        fn within_the_bound_every_id_is_accepted_once(
            shuffle in prop::collection::vec(0u64..30, 500),
        ) {
            // Sorting by id + jitter keeps reordering below 30 ids, half of the filter.
            let mut ids: Vec<u64> = (1..=500).collect();
            ids.sort_by_key(|id| id + shuffle[*id as usize - 1]);
            let mut filter = DuplicateFilter::new(64, 0, 1);
            for id in ids {
                prop_assert_eq!(filter.accept(0, id, Some(0)), Arrival::First);
            }
        }
    }
}
