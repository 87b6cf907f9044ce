//! Whether a ladder's parts agree with each other; for tests and debug builds.

use super::{Ladder, Page, Pending};
use crate::order::NOWHERE;

impl Ladder {
    /// Whether pages, chapters, spare ones and table agree with each other and with the best level.
    pub(crate) fn is_sound(&self) -> bool {
        let (mut levels, mut occupied, mut best) = (0, 0, None);
        let sound = self.page_index.is_sound(|page, number, chapter| {
            let Some(data) = self.pages.get(page as usize) else { return false };
            (best, occupied) = (self.best_of(page), occupied + 1);
            levels += data.occupied.count_ones();
            let of_page = |bit| {
                let place = data.place(bit);
                place & 63 == bit && self.level(place).page == page
            };
            (data.number, data.chapter) == (number, chapter)
                && (0..64).all(|bit| data.occupied >> bit & 1 == 0 || of_page(bit))
        });
        let Pending { key, place } = self.pending;
        let waits = key != 0;
        if waits && (best.is_none_or(|(other, _)| key > other)) {
            best = Some((key, place));
        }
        levels += u32::from(waits);
        // Pending, it is in an existing page, and no bit of that page says so.
        let known = |page: &Page| {
            let bit = 1 << (place & 63);
            u64::from(page.number) == key >> 6 && (page.occupied | page.displayed) & bit == 0
        };
        let apart = if waits { known(self.page_at(place)) } else { place == NOWHERE };
        let best_is = (self.best_key != 0).then_some((self.best_key, self.best_place));
        let best_price = if self.best_key == 0 { 0 } else { self.price(self.best_key) };
        let next_is = (self.next_key, Some(self.next_place), self.next_price);
        let worse = self.best().and_then(|place| self.worse(place));
        let next = || worse.map(|place| (self.key_at(place), worse, self.price_at(place)));
        sound
            && apart
            && (self.next_key == 0 || next() == Some(next_is))
            && levels == self.levels
            && levels as usize + self.free_levels() == self.list.len()
            && occupied + self.spares as usize == self.pages.len()
            && self.spares_are_sound()
            && best == best_is
            && best_price == self.best_price
    }

    fn free_levels(&self) -> usize {
        let mut next = self.free;
        std::iter::from_fn(|| {
            next = self.list.get(next as usize)?.queue.head;
            Some(next)
        })
        .count()
    }

    fn spares_are_sound(&self) -> bool {
        let (mut count, mut spares) = (0, 0);
        let (mut last, mut page) = (NOWHERE, self.oldest_spare);
        while let Some(data) = self.pages.get(page as usize) {
            let known = data.queued && self.page_index.find(data.number) == page;
            let dark = data.occupied != 0 || data.displayed == 0;
            if !known || !dark || count == self.pages.len() {
                return false;
            }
            spares += u32::from(data.occupied == 0);
            (count, last, page) = (count + 1, page, data.newer);
        }
        let queued = self.pages.iter().filter(|data| data.queued).count();
        // That of the pending level joins the queue when the level goes.
        let waiting = self.pending.key != 0 && {
            let page = self.page_at(self.pending.place);
            page.occupied == 0 && !page.queued
        };
        spares + u32::from(waiting) == self.spares && count == queued && last == self.newest_spare
    }
}
