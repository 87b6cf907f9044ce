//! From level to level in order of price.

use super::{Ladder, Pending};

impl Ladder {
    /// The next level with a smaller key.
    #[inline]
    pub(crate) fn worse(&self, place: u32) -> Option<u32> {
        let settled = self.worse_settled(place);
        let pending = self.pending_between(settled, self.key_at(place));
        if pending { Some(self.pending.place) } else { settled }
    }

    fn worse_settled(&self, place: u32) -> Option<u32> {
        let page = self.page_at(place);
        let bits = page.occupied & ((1 << (place & 63)) - 1);
        if bits != 0 {
            return Some(page.place(bits.ilog2()));
        }
        let worse = &self.pages[self.page_index.worse(page.chapter, page.number)? as usize];
        Some(worse.place(worse.occupied.checked_ilog2()?))
    }

    /// The next level with a larger key.
    pub(crate) fn better(&self, place: u32) -> Option<u32> {
        let (key, settled) = (self.key_at(place), self.better_settled(place));
        let nearer = |other| self.pending.key < self.key_at(other);
        let pending = self.pending.key > key && settled.is_none_or(nearer);
        if pending { Some(self.pending.place) } else { settled }
    }

    fn better_settled(&self, place: u32) -> Option<u32> {
        let page = self.page_at(place);
        let bits = page.occupied & (u64::MAX << (place & 63)) << 1;
        if bits != 0 {
            return Some(page.place(bits.trailing_zeros()));
        }
        let better = &self.pages[self.page_index.better(page.chapter, page.number)? as usize];
        Some(better.place(better.occupied.trailing_zeros()))
    }

    /// Slot of the worst occupied level; `None`: the side is empty.
    pub(crate) fn worst(&self) -> Option<u32> {
        let settled = self.page_index.worst().map(|page| {
            let page = &self.pages[page as usize];
            page.place(page.occupied.trailing_zeros())
        });
        let Pending { key, place } = self.pending;
        let worst = key != 0 && settled.is_none_or(|other| key < self.key_at(other));
        if worst { Some(place) } else { settled }
    }

    /// The best level that displays lots.
    pub(crate) fn best_displayed(&self) -> Option<u32> {
        let settled = self.best_displayed_settled();
        let shown = self.pending.key != 0 && self.is_displayed(self.pending.place);
        let pending = shown && self.pending_between(settled, u64::MAX);
        if pending { Some(self.pending.place) } else { settled }
    }

    fn best_displayed_settled(&self) -> Option<u32> {
        let mut page = self.page_at(self.best()?);
        while page.displayed == 0 {
            page = &self.pages[self.page_index.worse(page.chapter, page.number)? as usize];
        }
        Some(page.place(page.displayed.ilog2()))
    }
}
