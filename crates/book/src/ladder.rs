//! The price levels of one side of one book.
//!
//! Prices are counted in units (the tick, or half of it where the middle of two prices needs a
//! place) and turned so that a larger *key* is better on either side. 64 neighbouring keys share a
//! page: its levels lie side by side, with one bit each for "has orders" and "displays lots". Pages
//! are found through a small table, are linked in order of price, and exist only while they hold a
//! level, so that memory follows the number of levels and not the range of prices. Walking on from
//! a level is a bit scan; only the making of a page searches (a sorted directory).

use types::{Side, TickTable};

use crate::order::{NIL, NOWHERE};
use crate::pages::PageTable;

/// Keys run from 1 to less than this.
const TOP: u64 = 1 << 32;

/// `yes` or `no`, without a branch that nobody could predict.
#[inline(always)]
fn select(condition: bool, yes: u32, no: u32) -> u32 {
    let mask = u32::from(condition).wrapping_neg();
    no ^ ((no ^ yes) & mask)
}

/// First and last of a queue of orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue { head: NIL, tail: NIL };

    /// Makes a slot the last one; returns the one before it. The caller links the two.
    #[inline(always)]
    pub(crate) fn append(&mut self, slot: u32) -> u32 {
        let tail = self.tail;
        self.head = select(tail == NIL, slot, self.head);
        self.tail = slot;
        tail
    }

    /// Takes out a slot that had these neighbours. The caller links the two.
    #[inline(always)]
    pub(crate) fn unlink(&mut self, prev: u32, next: u32) {
        self.head = select(prev == NIL, next, self.head);
        self.tail = select(next == NIL, prev, self.tail);
    }
}

/// One price.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Level {
    /// The displayed queue.
    pub(crate) queue: Queue,
    /// Lots open and displayed, of all its orders.
    pub(crate) open: u64,
    pub(crate) shown: u64,
    /// Orders, hidden ones included.
    pub(crate) orders: u32,
    /// Which of [`Ladder::hidden`] is its hidden queue; `NOWHERE`: it never had one since it was
    /// empty.
    pub(crate) hidden: u32,
}

const _: () = assert!(size_of::<Level>() == 32);

const NO_LEVEL: Level =
    Level { queue: Queue::EMPTY, open: 0, shown: 0, orders: 0, hidden: NOWHERE };

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Page {
    /// Bit n: level n has orders.
    occupied: u64,
    /// Bit n: level n displays lots.
    displayed: u64,
    number: u32,
    /// Neighbouring pages with larger and smaller keys; in a free page `worse` is the next free
    /// one.
    better: u32,
    worse: u32,
    levels: [Level; 64],
}

#[derive(Debug)]
pub(crate) struct Ladder {
    /// Key of the best level, 0 for none, and its place and price.
    pub(crate) best_key: u64,
    pub(crate) best_price: i64,
    pub(crate) best_place: u32,
    /// Levels in use, and how many may be.
    pub(crate) levels: u32,
    pub(crate) capacity: u32,
    /// See [`Ladder::key`].
    magic: u64,
    turn: u64,
    base: u64,
    unit: i64,
    table: PageTable,
    pages: Vec<Page>,
    free_page: u32,
    free_hidden: u32,
    hidden: Vec<Queue>,
    /// (page number, page), ascending.
    directory: Vec<(u32, u32)>,
}

/// The price step of the levels of a market.
pub(crate) fn unit_of(ticks: &TickTable) -> i64 {
    let unit = ticks.unit().0;
    if unit % 2 == 0 { unit / 2 } else { 1 }
}

impl Ladder {
    pub(crate) fn new(side: Side, ticks: &TickTable, capacity: u32) -> Ladder {
        assert!(capacity < 1 << 25, "a place is a page and six bits");
        let unit = unit_of(ticks);
        // A sell's key is TOP - units = !units + 1 + TOP.
        let (turn, base) = if side == Side::Buy { (0, 0) } else { (u64::MAX, TOP + 1) };
        Ladder {
            best_key: 0,
            best_price: 0,
            best_place: NOWHERE,
            levels: 0,
            capacity,
            magic: u64::MAX / unit as u64,
            turn,
            base,
            unit,
            table: PageTable::new(capacity),
            pages: Vec::with_capacity(capacity as usize),
            free_page: NOWHERE,
            free_hidden: NOWHERE,
            hidden: Vec::with_capacity(capacity as usize),
            directory: Vec::with_capacity(capacity as usize),
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

    /// A price in units, rounded down; see [`Ladder::key`]. Of what is no price, some number.
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
        &self.pages[(place >> 6) as usize].levels[(place & 63) as usize]
    }

    #[inline(always)]
    pub(crate) fn level_mut(&mut self, place: u32) -> &mut Level {
        &mut self.pages[(place >> 6) as usize].levels[(place & 63) as usize]
    }

    /// The key of the level at a place.
    pub(crate) fn key_at(&self, place: u32) -> u64 {
        u64::from(self.pages[(place >> 6) as usize].number) << 6 | u64::from(place & 63)
    }

    /// The price of the level at a place.
    pub(crate) fn price_at(&self, place: u32) -> i64 {
        self.price(self.key_at(place))
    }

    /// The place of the level with this key, if it has orders.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let page = self.table.find((key >> 6) as u32)?;
        let bit = (key & 63) as u32;
        let occupied = self.pages[page as usize].occupied >> bit & 1 == 1;
        occupied.then_some(page << 6 | bit)
    }

    /// Whether an order could rest at this key.
    pub(crate) fn has_room(&self, key: u64) -> bool {
        self.levels < self.capacity || self.find(key).is_some()
    }

    /// The level with this key, made if it does not exist; `None` when no further level may. A new
    /// one is empty: the caller adds an order at once.
    #[inline(always)]
    pub(crate) fn find_or_make(&mut self, key: u64) -> Option<u32> {
        let Some(page) = self.table.find((key >> 6) as u32) else {
            return self.make_with_page(key);
        };
        let bit = (key & 63) as u32;
        if self.pages[page as usize].occupied >> bit & 1 == 1 {
            return Some(page << 6 | bit);
        }
        self.make(key, page)
    }

    #[cold]
    fn make_with_page(&mut self, key: u64) -> Option<u32> {
        if self.levels == self.capacity {
            return None;
        }
        let page = self.make_page((key >> 6) as u32);
        self.make(key, page)
    }

    /// Makes the level with this key in its page.
    #[inline(never)]
    fn make(&mut self, key: u64, page: u32) -> Option<u32> {
        if self.levels == self.capacity {
            return None;
        }
        let bit = (key & 63) as u32;
        let place = page << 6 | bit;
        self.pages[page as usize].occupied |= 1 << bit;
        self.levels += 1;
        if key > self.best_key {
            (self.best_key, self.best_place, self.best_price) = (key, place, self.price(key));
        }
        Some(place)
    }

    #[cold]
    fn make_page(&mut self, number: u32) -> u32 {
        let at = self.directory.partition_point(|&(other, _)| other < number);
        let worse = if at == 0 { NOWHERE } else { self.directory[at - 1].1 };
        let better = self.directory.get(at).map_or(NOWHERE, |&(_, page)| page);
        let fresh =
            Page { occupied: 0, displayed: 0, number, better, worse, levels: [NO_LEVEL; 64] };
        let page = self.free_page;
        let page = if let Some(free) = self.pages.get_mut(page as usize) {
            // The levels of a free page are all empty already.
            self.free_page = free.worse;
            (free.number, free.better, free.worse) = (number, better, worse);
            page
        } else {
            assert!(self.pages.len() < self.capacity as usize, "more pages than levels");
            self.pages.push(fresh);
            self.pages.len() as u32 - 1
        };
        if worse != NOWHERE {
            self.pages[worse as usize].better = page;
        }
        if better != NOWHERE {
            self.pages[better as usize].worse = page;
        }
        self.directory.insert(at, (number, page));
        self.table.insert(number, page);
        page
    }

    /// Settles the bits of a level that shows nothing any more, and removes it when it is empty.
    #[inline(never)]
    pub(crate) fn undisplay(&mut self, place: u32) {
        let page = &mut self.pages[(place >> 6) as usize];
        let bit = place & 63;
        page.displayed &= !(1 << bit);
        if page.levels[bit as usize].orders != 0 {
            return;
        }
        page.occupied &= !(1 << bit);
        debug_assert!(
            page.levels[bit as usize].queue == Queue::EMPTY,
            "an empty level has a queue"
        );
        let hidden = page.levels[bit as usize].hidden;
        page.levels[bit as usize] = NO_LEVEL;
        if hidden != NOWHERE {
            self.hidden[hidden as usize].head = self.free_hidden;
            self.free_hidden = hidden;
        }
        self.levels -= 1;
        if place == self.best_place {
            self.set_best(self.worse(place));
        }
        if self.pages[(place >> 6) as usize].occupied == 0 {
            self.free(place >> 6);
        }
    }

    fn set_best(&mut self, place: Option<u32>) {
        (self.best_key, self.best_place, self.best_price) = match place {
            Some(place) => (self.key_at(place), place, self.price_at(place)),
            None => (0, NOWHERE, 0),
        };
    }

    #[cold]
    fn free(&mut self, page: u32) {
        let (number, better, worse) = {
            let page = &self.pages[page as usize];
            (page.number, page.better, page.worse)
        };
        if worse != NOWHERE {
            self.pages[worse as usize].better = better;
        }
        if better != NOWHERE {
            self.pages[better as usize].worse = worse;
        }
        let at = self.directory.partition_point(|&(other, _)| other < number);
        self.directory.remove(at);
        self.table.remove(number);
        self.pages[page as usize].worse = self.free_page;
        self.free_page = page;
    }

    /// Marks a level as displaying lots.
    pub(crate) fn display(&mut self, place: u32) {
        self.pages[(place >> 6) as usize].displayed |= 1 << (place & 63);
    }

    /// The next level with a smaller key.
    pub(crate) fn worse(&self, place: u32) -> Option<u32> {
        let (mut page, mut below) = (place >> 6, (1u64 << (place & 63)) - 1);
        loop {
            let bits = self.pages[page as usize].occupied & below;
            if bits != 0 {
                return Some(page << 6 | bits.ilog2());
            }
            page = self.pages[page as usize].worse;
            below = u64::MAX;
            if page == NOWHERE {
                return None;
            }
        }
    }

    /// The next level with a larger key.
    pub(crate) fn better(&self, place: u32) -> Option<u32> {
        let (mut page, mut above) = (place >> 6, (u64::MAX << (place & 63)) << 1);
        loop {
            let bits = self.pages[page as usize].occupied & above;
            if bits != 0 {
                return Some(page << 6 | bits.trailing_zeros());
            }
            page = self.pages[page as usize].better;
            above = u64::MAX;
            if page == NOWHERE {
                return None;
            }
        }
    }

    /// The best level.
    pub(crate) fn best(&self) -> Option<u32> {
        (self.best_key != 0).then_some(self.best_place)
    }

    /// The worst level.
    pub(crate) fn worst(&self) -> Option<u32> {
        let &(_, page) = self.directory.first()?;
        Some(page << 6 | self.pages[page as usize].occupied.trailing_zeros())
    }

    /// The best level that displays lots.
    pub(crate) fn best_displayed(&self) -> Option<u32> {
        let mut page = self.best()? >> 6;
        while page != NOWHERE {
            let bits = self.pages[page as usize].displayed;
            if bits != 0 {
                return Some(page << 6 | bits.ilog2());
            }
            page = self.pages[page as usize].worse;
        }
        None
    }

    /// Whether a level is marked as displaying lots.
    pub(crate) fn is_displayed(&self, place: u32) -> bool {
        self.pages[(place >> 6) as usize].displayed >> (place & 63) & 1 == 1
    }

    /// The hidden queue of a level; empty if it has none.
    pub(crate) fn hidden(&self, place: u32) -> Queue {
        let hidden = self.level(place).hidden;
        self.hidden.get(hidden as usize).copied().unwrap_or(Queue::EMPTY)
    }

    /// The hidden queue of a level, made if it has none.
    pub(crate) fn hidden_mut(&mut self, place: u32) -> &mut Queue {
        let mut hidden = self.level(place).hidden;
        if hidden == NOWHERE {
            hidden = self.free_hidden;
            if let Some(free) = self.hidden.get_mut(hidden as usize) {
                self.free_hidden = free.head;
                *free = Queue::EMPTY;
            } else {
                hidden = self.hidden.len() as u32;
                self.hidden.push(Queue::EMPTY);
            }
            self.level_mut(place).hidden = hidden;
        }
        &mut self.hidden[hidden as usize]
    }

    /// The first order of a level, displayed ones before hidden ones.
    pub(crate) fn first(&self, place: u32) -> u32 {
        let head = self.level(place).queue.head;
        if head != NIL { head } else { self.hidden(place).head }
    }

    /// Whether pages, directory, links and table agree with each other and with the best level.
    pub(crate) fn is_sound(&self) -> bool {
        let (mut levels, mut better_page) = (0, NOWHERE);
        for &(number, page) in self.directory.iter().rev() {
            let data = &self.pages[page as usize];
            let linked = data.better == better_page && data.number == number;
            let neighbour =
                better_page == NOWHERE || self.pages[better_page as usize].worse == page;
            if !linked || !neighbour || self.table.find(number) != Some(page) || data.occupied == 0
            {
                return false;
            }
            levels += data.occupied.count_ones();
            better_page = page;
        }
        let last = better_page == NOWHERE || self.pages[better_page as usize].worse == NOWHERE;
        let sorted = self.directory.is_sorted_by(|a, b| a.0 < b.0);
        let best = self.directory.last().map(|&(_, page)| {
            let place = page << 6 | self.pages[page as usize].occupied.ilog2();
            (self.key_at(place), self.price_at(place), place)
        });
        let best_is = (self.best_key, self.best_price, self.best_place);
        last && sorted && levels == self.levels && best.unwrap_or((0, 0, NOWHERE)) == best_is
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
                // Zones far apart and the two ends of the range.
                let key = match zone {
                    0 => 1 + near,
                    1 => TOP - 1 - near,
                    _ => zone * 300_000 + near * 3,
                };
                match (add, ladder.find(key)) {
                    (true, None) => match ladder.find_or_make(key) {
                        None => prop_assert_eq!(map.len(), 24),
                        Some(place) => {
                            ladder.level_mut(place).orders = 1;
                            if near % 2 == 0 {
                                ladder.display(place);
                            }
                            map.insert(key, place);
                        }
                    },
                    (false, Some(place)) => {
                        ladder.level_mut(place).orders = 0;
                        ladder.undisplay(place);
                        map.remove(&key);
                    }
                    (_, found) => prop_assert_eq!(found, map.get(&key).copied()),
                }
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
}
