//! The price levels of one side of one book.
//!
//! Prices are counted in units (the tick, or half of it where the middle of two prices needs a
//! place) and turned so that a larger *key* is better on either side. 64 neighbouring keys share a
//! page, which says where their levels lie, with one bit each for "has orders" and "displays lots";
//! [`PageIndex`] finds pages and knows their order, so that walking on from a level is a few bit
//! scans. A freed level is the next to be taken, so that few levels need few cache lines however
//! far their prices wander. A page that lost its last level stays, for a price that was is a price
//! that comes again, until it is one of too many such *spare* pages and was not used for long:
//! memory follows the number of levels and not the range of prices. Where prices swing, pages become spare
//! and have levels again with every order; so spare ones wait in a queue that a page does not leave when it
//! gets a level, but when its turn comes to be used for other prices and it is found to have one; and a level
//! enters its page only when the next one is made (see [`pending`]).

mod check;
mod pending;
mod queue;
mod walk;

use types::{Side, TickTable};

use crate::order::{NIL, NOWHERE};
use crate::page_index::PageIndex;

use pending::Pending;
pub(crate) use queue::Queue;

/// Spare pages kept before one of them is used for other prices.
const SPARES: u32 = 1_024;

/// Pages that are found at once, by the lower bits of their numbers.
const RECENT: usize = 512;

/// Keys run from 1 to less than this.
const TOP: u64 = 1 << 32;

/// `yes` or `no`, without a branch that nobody could predict.
#[inline(always)]
fn select(condition: bool, yes: u32, no: u32) -> u32 {
    let mask = u32::from(condition).wrapping_neg();
    no ^ ((no ^ yes) & mask)
}

/// The same of prices.
#[inline(always)]
fn select_price(condition: bool, yes: i64, no: i64) -> i64 {
    no ^ ((no ^ yes) & i64::from(condition).wrapping_neg())
}

/// A price level: the queues of the orders at one price.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Level {
    /// The displayed orders, in order of time.
    pub(crate) queue: Queue,
    /// Lots open, of all its orders.
    pub(crate) open: u64,
    /// Number of orders, hidden ones included.
    pub(crate) orders: u32,
    /// Page that the level is on.
    page: u32,
    /// Lots displayed, of all its orders. Not beside `open`: read as one what was just written as two, they
    /// would have to wait for the cache.
    pub(crate) shown: u64,
}

const _: () = assert!(size_of::<Level>() == 32);

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Page {
    /// Bit n: level n has orders.
    occupied: u64,
    /// Bit n: level n displays lots.
    displayed: u64,
    number: u32,
    chapter: u32,
    /// The next in the queue of spare pages, of one that is there: all that lost their last level are, and
    /// some that have got levels since.
    newer: u32,
    queued: bool,
    /// It had levels in the queue, and has none again: it goes to the end when its turn comes.
    used: bool,
    /// Place in the list of each occupied level of the page, by the level's bit.
    places: [u32; 64],
}

impl Page {
    #[inline(always)]
    fn place(&self, bit: u32) -> u32 {
        self.places[(bit & 63) as usize]
    }
}

#[derive(Debug)]
pub(crate) struct Ladder {
    /// Key of the best level, 0 for none, and its place and price. A place is a level's number in
    /// the list and six bits, those of its key.
    pub(crate) best_key: u64,
    pub(crate) best_price: i64,
    pub(crate) best_place: u32,
    /// The same of the next level below the best one, where it is known; key 0: it has to be looked for. Where an
    /// order comes as the best and soon goes again, it is the best of before.
    next_place: u32,
    next_key: u64,
    next_price: i64,
    pending: Pending,
    /// Levels in use, and how many may be.
    pub(crate) levels: u32,
    pub(crate) capacity: u32,
    /// Multiplier with which [`Ladder::key`] counts price units without a division.
    magic: u64,
    turn: u64,
    base: u64,
    unit: i64,
    list: Vec<Level>,
    /// First of the list's free levels; the next one is its queue's head.
    free: u32,
    /// The hidden queues of the levels.
    hidden: Vec<Queue>,
    pages: Vec<Page>,
    page_index: PageIndex,
    /// Page that was last found for a number with these lower bits, of this or another number: each page says
    /// which it has. The index takes three steps that wait for one another.
    recent: Box<[u32; RECENT]>,
    /// First and last of the queue of spare pages.
    oldest_spare: u32,
    newest_spare: u32,
    /// Pages without levels.
    spares: u32,
}

/// The price step of the levels of a market.
pub(crate) fn unit_of(ticks: &TickTable) -> i64 {
    let unit = ticks.unit().0;
    if unit % 2 == 0 { unit / 2 } else { 1 }
}

impl Ladder {
    pub(crate) fn new(side: Side, ticks: &TickTable, capacity: u32) -> Ladder {
        assert!(capacity < 1 << 25, "a place is a level and six bits");
        let unit = unit_of(ticks);
        // A sell's key is TOP - units = !units + 1 + TOP.
        let (turn, base) = if side == Side::Buy { (0, 0) } else { (u64::MAX, TOP + 1) };
        Ladder {
            best_key: 0,
            best_price: 0,
            best_place: NOWHERE,
            next_place: NOWHERE,
            next_key: 0,
            next_price: 0,
            pending: Pending::NONE,
            levels: 0,
            capacity,
            magic: u64::MAX / unit as u64,
            turn,
            base,
            unit,
            list: Vec::with_capacity(capacity as usize),
            free: NOWHERE,
            hidden: Vec::with_capacity(capacity as usize),
            pages: Vec::with_capacity(capacity as usize),
            page_index: PageIndex::new(capacity),
            recent: Box::new([NOWHERE; RECENT]),
            oldest_spare: NOWHERE,
            newest_spare: NOWHERE,
            spares: 0,
        }
    }

    /// The price step of the levels.
    pub(crate) fn unit(&self) -> i64 {
        self.unit
    }

    /// The key of a price from 1 to 2^32 - 1.
    ///
    /// With m = floor((2^64 - 1) / unit), floor((price + 1) * m / 2^64) is floor(price / unit)
    /// whenever (price + 1) * unit <= 2^64 (write price = q * unit + r: the product lies below
    /// q + 1, and its error, (price + 1) / 2^64 at most, below the 1 / unit there is to spare).
    #[inline(always)]
    pub(crate) fn key(&self, price: i64) -> u64 {
        self.key_of(self.units(price))
    }

    /// A price in units, rounded down; see [`Ladder::key`]. The result means nothing for a value that
    /// is no price.
    #[inline(always)]
    pub(crate) fn units(&self, price: i64) -> u64 {
        ((u128::from((price as u64).wrapping_add(1)) * u128::from(self.magic)) >> 64) as u64
    }

    /// The key of a price given in units.
    #[inline(always)]
    pub(crate) fn key_of(&self, units: u64) -> u64 {
        (units ^ self.turn).wrapping_add(self.base)
    }

    #[inline(always)]
    pub(crate) fn price(&self, key: u64) -> i64 {
        (key.wrapping_sub(self.base) ^ self.turn) as i64 * self.unit
    }

    #[inline(always)]
    pub(crate) fn level(&self, place: u32) -> &Level {
        &self.list[(place >> 6) as usize]
    }

    #[inline(always)]
    pub(crate) fn level_mut(&mut self, place: u32) -> &mut Level {
        &mut self.list[(place >> 6) as usize]
    }

    #[inline(always)]
    fn page_at(&self, place: u32) -> &Page {
        &self.pages[self.level(place).page as usize]
    }

    /// The key of the level at a place.
    pub(crate) fn key_at(&self, place: u32) -> u64 {
        u64::from(self.page_at(place).number) << 6 | u64::from(place & 63)
    }

    /// The price of the level at a place.
    pub(crate) fn price_at(&self, place: u32) -> i64 {
        self.price(self.key_at(place))
    }

    /// The page of a number, which may have no levels; `NOWHERE` if there is none.
    #[inline(always)]
    fn find_page(&mut self, number: u32) -> u32 {
        let page = self.recent[number as usize % RECENT];
        match self.pages.get(page as usize) {
            Some(data) if data.number == number => page,
            _ => self.find_other_page(number),
        }
    }

    #[inline(never)]
    fn find_other_page(&mut self, number: u32) -> u32 {
        let page = self.page_index.find(number);
        self.recent[number as usize % RECENT] = page;
        page
    }

    /// The place of the level with this key, if it has orders.
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        if key == self.pending.key && key != 0 {
            return Some(self.pending.place);
        }
        let page = self.pages.get(self.page_index.find((key >> 6) as u32) as usize)?;
        let bit = (key & 63) as u32;
        (page.occupied >> bit & 1 == 1).then(|| page.place(bit))
    }

    /// Whether an order could rest at this key.
    pub(crate) fn has_room(&self, key: u64) -> bool {
        self.levels < self.capacity || self.find(key).is_some()
    }

    /// The level with this key, made if it does not exist; `None` when no further level may. A new
    /// one is empty: the caller adds an order at once, a displayed one if `displayed`.
    #[inline(always)]
    pub(crate) fn find_or_make(&mut self, key: u64, displayed: bool) -> Option<u32> {
        if key == self.pending.key {
            return Some(self.pending.place);
        }
        let page = self.find_page((key >> 6) as u32);
        let Some(data) = self.pages.get_mut(page as usize) else {
            return self.make_with_page(key);
        };
        let bit = (key & 63) as u32;
        if data.occupied >> bit & 1 == 1 {
            data.displayed |= u64::from(displayed) << bit;
            return Some(data.place(bit));
        }
        self.make(key, page)
    }

    #[cold]
    fn make_with_page(&mut self, key: u64) -> Option<u32> {
        if self.levels == self.capacity {
            return None;
        }
        // Its page may be without any other level, and is not to be used for other prices.
        self.settle_pending();
        let page = self.make_page((key >> 6) as u32);
        self.make(key, page)
    }

    /// Makes the level with this key in its page, pending.
    #[inline(never)]
    fn make(&mut self, key: u64, page: u32) -> Option<u32> {
        if self.levels == self.capacity {
            return None;
        }
        if self.pending.key != 0 {
            self.settle_pending();
        }
        let place = self.take_level(page) << 6 | (key & 63) as u32;
        self.pending = Pending { key, place };
        self.levels += 1;
        // Where the next one is known, most levels are worse than that: this branch is mostly foreseen.
        if key > self.next_key {
            self.rank(key, place);
        }
        Some(place)
    }

    /// A level was made that may be the best of its side or the next one: without a branch, which nobody could
    /// predict where prices swing.
    #[inline(always)]
    fn rank(&mut self, key: u64, place: u32) {
        let (better, price) = (key > self.best_key, self.price(key));
        let (best_key, best_place, best_price) = (self.best_key, self.best_place, self.best_price);
        self.best_key = best_key.max(key);
        self.best_place = select(better, place, best_place);
        self.best_price = select_price(better, price, best_price);
        // The other of the two comes next, or is one among others below.
        let other = best_key.min(key);
        let next = better | ((self.next_key != 0) & (other > self.next_key));
        self.next_key = select_price(next, other as i64, self.next_key as i64) as u64;
        self.next_place = select(next, select(better, best_place, place), self.next_place);
        let other = select_price(better, best_price, price);
        self.next_price = select_price(next, other, self.next_price);
    }

    /// An empty level in this page.
    #[inline(always)]
    fn take_level(&mut self, page: u32) -> u32 {
        let level = self.free;
        if let Some(data) = self.list.get_mut(level as usize) {
            self.free = data.queue.head;
            data.queue.head = NIL;
            data.page = page;
            return level;
        }
        self.list.push(Level { queue: Queue::EMPTY, open: 0, shown: 0, orders: 0, page });
        self.hidden.push(Queue::EMPTY);
        self.list.len() as u32 - 1
    }

    /// A page for this number, spare: the caller makes a level in it at once. There is one, since
    /// fewer than `capacity` pages have levels.
    #[cold]
    fn make_page(&mut self, number: u32) -> u32 {
        let page = if self.spares >= SPARES || self.pages.len() == self.capacity as usize {
            let page = self.next_spare();
            let spare = &mut self.pages[page as usize];
            let old = std::mem::replace(&mut spare.number, number);
            self.page_index.take_out(spare.chapter, old);
            page
        } else {
            let page = self.pages.len() as u32;
            self.pages.push(Page {
                occupied: 0,
                displayed: 0,
                number,
                chapter: NOWHERE,
                newer: NOWHERE,
                queued: false,
                used: false,
                places: [NOWHERE; 64],
            });
            self.spares += 1;
            page
        };
        self.pages[page as usize].chapter = self.page_index.put(number, page);
        page
    }

    /// A page becomes the last of the queue.
    #[inline(never)]
    fn queue_spare(&mut self, page: u32) {
        let newest = std::mem::replace(&mut self.newest_spare, page);
        let data = &mut self.pages[page as usize];
        (data.newer, data.queued, data.used) = (NOWHERE, true, false);
        match self.pages.get_mut(newest as usize) {
            Some(older) => older.newer = page,
            None => self.oldest_spare = page,
        }
    }

    /// Takes the spare page that was not used for the longest time, as far as the queue tells, out of it. There
    /// is one.
    fn next_spare(&mut self) -> u32 {
        loop {
            let page = self.oldest_spare;
            let data = &mut self.pages[page as usize];
            let (spare, used) = (data.occupied == 0, data.used);
            data.queued = false;
            self.oldest_spare = data.newer;
            if self.oldest_spare == NOWHERE {
                self.newest_spare = NOWHERE;
            }
            match (spare, used) {
                (true, false) => return page,
                // It waits anew.
                (true, true) => self.queue_spare(page),
                (false, _) => {}
            }
        }
    }

    /// Takes an order with these neighbours, which the caller links, out of the displayed queue of a level.
    #[inline(always)]
    pub(crate) fn leave(&mut self, place: u32, prev: u32, next: u32, open: u32, shown: u32) {
        let level = self.level_mut(place);
        level.open -= u64::from(open);
        level.shown -= u64::from(shown);
        level.orders -= 1;
        level.queue.unlink(prev, next);
        if level.shown == 0 {
            self.undisplay(place);
        }
    }

    /// Settles the bits of a level that shows nothing any more, and removes it when it is empty.
    #[inline(always)]
    pub(crate) fn undisplay(&mut self, place: u32) {
        match place == self.pending.place {
            true => self.undisplay_pending(),
            false => self.undisplay_settled(place),
        }
    }

    #[inline(never)]
    fn undisplay_settled(&mut self, place: u32) {
        let level = &self.list[(place >> 6) as usize];
        let at = level.page;
        let page = &mut self.pages[at as usize];
        page.displayed &= !(1 << (place & 63));
        if level.orders != 0 {
            return;
        }
        page.occupied &= !(1 << (place & 63));
        let (left, chapter, number) = (page.occupied, page.chapter, page.number);
        page.used |= left == 0;
        let queued = page.queued;
        debug_assert!(level.queue == Queue::EMPTY, "an empty level has a queue");
        self.spares += u32::from(left == 0);
        self.forget_best(place, at);
        self.page_index.vacate(chapter, number, left == 0);
        if (left == 0) & !queued {
            self.queue_spare(at);
        }
        self.free_level(place);
    }

    /// The level at a place of this page is empty: it is not the best nor the next one any more.
    #[inline(always)]
    fn forget_best(&mut self, place: u32, page: u32) {
        if place == self.best_place {
            if self.next_key == 0 {
                self.find_next(page);
            }
            (self.best_key, self.best_place, self.best_price) =
                (self.next_key, self.next_place, self.next_price);
            self.next_key = 0;
        } else if place == self.next_place {
            self.next_key = 0;
        }
    }

    /// An empty level may be taken for another price.
    #[inline(always)]
    fn free_level(&mut self, place: u32) {
        self.levels -= 1;
        self.level_mut(place).queue.head = self.free;
        self.free = place >> 6;
    }

    /// Looks for the best level from this page on down; nothing better is left.
    #[inline(never)]
    fn find_next(&mut self, page: u32) {
        let Page { chapter, number, .. } = self.pages[page as usize];
        let found =
            self.best_of(page).or_else(|| self.best_of(self.page_index.worse(chapter, number)?));
        let (mut key, mut place) = found.unwrap_or((0, NOWHERE));
        if self.pending.key > key {
            Pending { key, place } = self.pending;
        }
        let price = if key == 0 { 0 } else { self.price(key) };
        (self.next_key, self.next_place, self.next_price) = (key, place, price);
    }

    /// Key and place of the best level of a page.
    #[inline(always)]
    fn best_of(&self, page: u32) -> Option<(u64, u32)> {
        let page = &self.pages[page as usize];
        let bit = page.occupied.checked_ilog2()?;
        Some((u64::from(page.number) << 6 | u64::from(bit), page.place(bit)))
    }

    /// Marks a level as displaying lots.
    pub(crate) fn display(&mut self, place: u32) {
        if place != self.pending.place {
            let page = self.level(place).page;
            self.pages[page as usize].displayed |= 1 << (place & 63);
        }
    }

    /// Slot of the best occupied level; `None`: the side is empty.
    pub(crate) fn best(&self) -> Option<u32> {
        (self.best_key != 0).then_some(self.best_place)
    }

    /// Whether a level is marked as displaying lots; a pending one needs no mark.
    pub(crate) fn is_displayed(&self, place: u32) -> bool {
        if place == self.pending.place {
            return self.level(place).shown != 0;
        }
        self.page_at(place).displayed >> (place & 63) & 1 == 1
    }

    /// The hidden queue of a level; empty if it has none.
    pub(crate) fn hidden(&self, place: u32) -> Queue {
        self.hidden[(place >> 6) as usize]
    }

    /// The hidden queue of a level.
    pub(crate) fn hidden_mut(&mut self, place: u32) -> &mut Queue {
        &mut self.hidden[(place >> 6) as usize]
    }

    /// The first order of a level, displayed ones before hidden ones.
    pub(crate) fn first(&self, place: u32) -> u32 {
        let head = self.level(place).queue.head;
        if head != NIL { head } else { self.hidden(place).head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::iter::successors;
    use types::Price;

    fn table() -> impl Strategy<Value = TickTable> {
        prop_oneof![
            Just(TickTable::uniform(Price(1))),
            Just(TickTable::uniform(Price(100))),
            Just(TickTable::uniform(Price(7))),
            Just(
                TickTable::new(&[(Price(0), Price(2)), (Price(1_000), Price(10))]).expect("sound")
            ),
        ]
    }

    proptest! {
        #[test]
        fn a_key_gives_its_price_back(ticks in table(), sell: bool, n in 1..u32::MAX) {
            let side = if sell { Side::Sell } else { Side::Buy };
            let ladder = Ladder::new(side, &ticks, 1);
            let price = (i64::from(n) / ladder.unit() * ladder.unit()).max(ladder.unit());
            let key = ladder.key(price);
            prop_assert!((1..TOP).contains(&key));
            prop_assert_eq!(ladder.price(key), price);
            let top = i64::from(u32::MAX);
            let fitting = top / ladder.unit() * ladder.unit();
            prop_assert_eq!(ladder.key(top), ladder.key(fitting));
        }

        #[test]
        fn agrees_with_a_map(ticks in table(), sell: bool,
            steps in prop::collection::vec((0u64..12, 0u64..40, any::<bool>()), 1..400)) {
            let side = if sell { Side::Sell } else { Side::Buy };
            let mut ladder = Ladder::new(side, &ticks, 24);
            let mut map: BTreeMap<u64, u32> = BTreeMap::new();
            for (zone, near, add) in steps {
                // Zones in the same and in other volumes, several chapters in each, and the two ends of the range.
                let key = match zone {
                    0 => 1 + near,
                    1 => TOP - 1 - near,
                    _ => zone * 100_000 + near % 4 * 9_000 + near * 3,
                };
                match (add, ladder.find(key)) {
                    (true, None) => match ladder.find_or_make(key, near % 2 == 0) {
                        None => prop_assert_eq!(map.len(), 24),
                        Some(place) => {
                            ladder.level_mut(place).orders = 1;
                            ladder.level_mut(place).shown = 1 - near % 2;
                            map.insert(key, place);
                        }
                    },
                    (true, Some(place)) => {
                        let shown = ladder.is_displayed(place);
                        prop_assert_eq!(ladder.find_or_make(key, shown), Some(place));
                        prop_assert_eq!(ladder.is_displayed(place), shown);
                    }
                    (false, Some(place)) => {
                        (ladder.level_mut(place).orders, ladder.level_mut(place).shown) = (0, 0);
                        ladder.undisplay(place);
                        map.remove(&key);
                    }
                    (false, None) => {}
                }
                prop_assert_eq!(ladder.find(key), map.get(&key).copied());
                prop_assert!(ladder.is_sound());
                let down: Vec<_> = successors(ladder.best(), |&p| ladder.worse(p)).collect();
                let mut up: Vec<_> =
                    successors(ladder.worst(), |&p| ladder.better(p)).collect();
                prop_assert_eq!(&down, &map.values().rev().copied().collect::<Vec<_>>());
                up.reverse();
                prop_assert_eq!(&down, &up);
                let shown = down.iter().copied().find(|&p| ladder.is_displayed(p));
                prop_assert_eq!(ladder.best_displayed(), shown);
                prop_assert_eq!(down.first().map_or(0, |&p| ladder.key_at(p)), ladder.best_key);
            }
        }
    }

    fn come_and_go(ladder: &mut Ladder, key: u64) {
        let place = ladder.find_or_make(key, true).expect("room");
        ladder.level_mut(place).orders = 1;
        ladder.level_mut(place).orders = 0;
        ladder.undisplay(place);
    }

    #[test]
    fn prices_that_come_again_find_their_page_and_others_a_spare_one() {
        let mut ladder = Ladder::new(Side::Buy, &TickTable::uniform(Price(1)), 4_000);
        for n in 0..5_000 {
            come_and_go(&mut ladder, 1 + n % 5 * 1_000_000);
        }
        assert_eq!((ladder.pages.len(), ladder.list.len()), (5, 1));
        // More pages than are spared: each new one takes the oldest one's memory.
        for n in 0..5_000 {
            come_and_go(&mut ladder, 1 + n * 100);
        }
        assert_eq!((ladder.pages.len(), ladder.list.len()), (SPARES as usize, 1));
        assert!(ladder.is_sound());
        // Levels that stay take more pages than that.
        for n in 0..4_000 {
            let place = ladder.find_or_make(1 + n * 100, false).expect("room");
            ladder.level_mut(place).orders = 1;
        }
        assert!(ladder.is_sound());
        assert_eq!(ladder.find_or_make(7_000_000, false), None);
    }

    #[test]
    fn levels_are_in_order_whether_their_volumes_were_linked_or_not() {
        let mut ladder = Ladder::new(Side::Buy, &TickTable::uniform(Price(1)), 4_000);
        let key = |n: u64| 1 + n * 300_000;
        (0..100).for_each(|n| come_and_go(&mut ladder, key(n)));
        assert!(ladder.is_sound());
        let keys = [key(99), key(50), key(0)];
        let places = keys.map(|key| ladder.find_or_make(key, true).expect("room"));
        places.iter().for_each(|&place| ladder.level_mut(place).orders = 1);
        let down = successors(ladder.best(), |&place| ladder.worse(place));
        assert!(down.map(|place| ladder.key_at(place)).eq(keys) && ladder.is_sound());
    }

    #[test]
    fn the_best_of_before_is_the_next_until_another_comes_between() {
        let mut ladder = Ladder::new(Side::Sell, &TickTable::uniform(Price(1)), 100);
        let stay = |ladder: &mut Ladder, key| {
            let place = ladder.find_or_make(key, true).expect("room");
            ladder.level_mut(place).orders = 1;
            place
        };
        let go = |ladder: &mut Ladder, place| {
            ladder.level_mut(place).orders = 0;
            ladder.undisplay(place);
        };
        let below = stay(&mut ladder, 1_000);
        let best = stay(&mut ladder, 900_000);
        assert_eq!((ladder.next_key, ladder.next_place), (1_000, below));
        let between = stay(&mut ladder, 500_000);
        assert_eq!((ladder.next_key, ladder.next_place), (500_000, between));
        stay(&mut ladder, 10);
        assert_eq!(ladder.next_key, 500_000, "one below it changes nothing");
        go(&mut ladder, between);
        assert_eq!(ladder.next_key, 0, "which one is next is to be looked for");
        go(&mut ladder, best);
        assert_eq!((ladder.best_key, ladder.best_price), (1_000, ladder.price(1_000)));
        assert!(ladder.is_sound());
        // Control: a wrong one is found.
        ladder.next_key = 9;
        assert!(!ladder.is_sound());
    }

    #[test]
    fn a_page_that_was_used_again_outlives_older_ones_that_were_not() {
        let mut ladder = Ladder::new(Side::Buy, &TickTable::uniform(Price(1)), 4_000);
        let key = |n: u32| u64::from(1 + n * 100);
        for n in 0..SPARES {
            come_and_go(&mut ladder, key(n));
        }
        come_and_go(&mut ladder, key(0));
        come_and_go(&mut ladder, key(SPARES));
        let is_there = |n| ladder.page_index.find((key(n) >> 6) as u32) != NOWHERE;
        assert!(is_there(0) && !is_there(1), "the second was the oldest that nobody used again");
        assert!((2..=SPARES).all(is_there) && ladder.is_sound());
    }
}
