//! The data's own book: what a recording says of the resting orders, kept without the engine.
//!
//! Each message of the data is a [`Step`]: what it changes in that book, by the rules of its format
//! (in DBN trades and fills change nothing, cancels and changes do), and whether the book can be
//! read after it. Orders are kept by reference, levels by price; nothing is matched.

use std::collections::BTreeMap;

use types::limits::PRICE_MAX;
use types::{InstrumentId, Side};

/// Most levels of a side that are compared.
pub const DEPTH: usize = 10;

/// A price and the lots at it.
pub type Lots = (i64, u64);

/// What a message changes in the data's own book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edit {
    /// The order rests with these terms, whatever it was before; no lots: it is gone.
    Set {
        /// Reference of the order.
        order: u64,
        /// Side that the order is on.
        side: Side,
        /// Price in units of the recording; may be one that no order of the exchange can have.
        price: i64,
        /// Lots that rest; 0: the order is gone.
        qty: u32,
    },
    /// The order is so many lots smaller.
    Reduce {
        /// Reference of the order.
        order: u64,
        /// Lots by which it shrinks; those it has or more: it is gone.
        qty: u32,
    },
    /// The order is gone and another of its side rests.
    Replace {
        /// Reference of the order that is replaced.
        old: u64,
        /// Reference of the order that takes its place.
        new: u64,
        /// Price of the new order, in units of the recording.
        price: u32,
        /// Quantity of the new order, lots.
        qty: u32,
    },
    /// All orders of the instrument are gone.
    Clear,
}

/// Why books are not compared after a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Excluded {
    /// It is part of a snapshot: the book is not whole yet.
    Snapshot,
    /// The data says that it lost messages, and has not told the whole book since.
    Gap,
    /// The data's book holds an order with a price that no order of the exchange can have.
    Price,
}

impl Excluded {
    /// All reasons, in the order of the variants.
    pub const ALL: [Excluded; 3] = [Excluded::Snapshot, Excluded::Gap, Excluded::Price];

    /// The reason in words, for the report.
    pub fn name(self) -> &'static str {
        match self {
            Excluded::Snapshot => "part of a snapshot",
            Excluded::Gap => "the data lost messages before",
            Excluded::Price => "an order has a price that no order here can have",
        }
    }
}

/// Whether books can be compared after a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// More messages belong to the same event.
    Unfinished,
    /// The event is complete: the edits made the data's own book.
    Book,
    /// The event is complete: the data tells its own levels, [`crate::Recording::levels`] at this
    /// index.
    Levels(usize),
    /// The event is complete, but the data's own book is not known.
    Excluded(Excluded),
}

/// What a message says of the data's own book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Events of the record up to and with this message.
    pub records: usize,
    /// Instrument that the message is about.
    pub instrument: InstrumentId,
    /// Change of the data's book; `None`: the message changes nothing there.
    pub edit: Option<Edit>,
    /// Whether books can be compared after it.
    pub check: Check,
}

/// Best levels of both sides, best first, as far as they are known: at most [`DEPTH`] a side.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Levels {
    /// Levels of the buyers and of the sellers.
    pub sides: [Vec<Lots>; 2],
    /// Nothing rests behind the levels of that side.
    pub complete: [bool; 2],
}

/// Levels of one side in order of price.
type Ladder = BTreeMap<i64, u64>;

#[derive(Clone, Debug, Default)]
struct OneBook {
    orders: BTreeMap<u64, (Side, i64, u32)>,
    sides: [Ladder; 2],
    /// Orders with prices that the exchange can't have.
    strange: usize,
}

fn strange(price: i64) -> bool {
    !(1..=PRICE_MAX).contains(&price)
}

impl OneBook {
    fn set(&mut self, order: u64, side: Side, price: i64, qty: u32) {
        self.reduce(order, u32::MAX);
        if qty > 0 {
            self.orders.insert(order, (side, price, qty));
            *self.sides[side as usize & 1].entry(price).or_default() += u64::from(qty);
            self.strange += usize::from(strange(price));
        }
    }

    fn reduce(&mut self, order: u64, qty: u32) {
        let Some(&(side, price, left)) = self.orders.get(&order) else { return };
        let gone = qty.min(left);
        let ladder = &mut self.sides[side as usize & 1];
        if let Some(lots) = ladder.get_mut(&price) {
            *lots -= u64::from(gone);
            if *lots == 0 {
                ladder.remove(&price);
            }
        }
        if gone == left {
            self.orders.remove(&order);
            self.strange -= usize::from(strange(price));
        } else {
            self.orders.insert(order, (side, price, left - gone));
        }
    }
}

/// The books of all instruments as the data tells them.
#[derive(Clone, Debug, Default)]
pub struct DataBook {
    books: BTreeMap<InstrumentId, OneBook>,
}

impl DataBook {
    /// Applies a change to the book of an instrument.
    pub fn apply(&mut self, instrument: InstrumentId, edit: &Edit) {
        let book = self.books.entry(instrument).or_default();
        match *edit {
            Edit::Set { order, side, price, qty } => book.set(order, side, price, qty),
            Edit::Reduce { order, qty } => book.reduce(order, qty),
            Edit::Replace { old, new, price, qty } => {
                if let Some(&(side, ..)) = book.orders.get(&old) {
                    book.reduce(old, u32::MAX);
                    book.set(new, side, i64::from(price), qty);
                }
            }
            Edit::Clear => *book = OneBook::default(),
        }
    }

    /// The best levels of both sides.
    pub fn levels(&self, instrument: InstrumentId) -> Levels {
        let Some(book) = self.books.get(&instrument) else {
            return Levels { complete: [true; 2], ..Levels::default() };
        };
        let own = |(price, lots): (&i64, &u64)| (*price, *lots);
        let [bids, asks] = &book.sides;
        Levels {
            sides: [
                bids.iter().rev().take(DEPTH).map(own).collect(),
                asks.iter().take(DEPTH).map(own).collect(),
            ],
            complete: [bids.len() <= DEPTH, asks.len() <= DEPTH],
        }
    }

    /// Whether some buyer pays what some seller asks: orders are being collected.
    pub fn is_crossed(&self, instrument: InstrumentId) -> bool {
        let Some(book) = self.books.get(&instrument) else { return false };
        let [bids, asks] = &book.sides;
        let best = bids.last_key_value().zip(asks.first_key_value());
        best.is_some_and(|((bid, _), (ask, _))| bid >= ask)
    }

    /// Whether an order has a price that no order of the exchange can have.
    pub fn is_strange(&self, instrument: InstrumentId) -> bool {
        self.books.get(&instrument).is_some_and(|book| book.strange > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: InstrumentId = InstrumentId(1);

    fn set(order: u64, side: Side, price: i64, qty: u32) -> Edit {
        Edit::Set { order, side, price, qty }
    }

    #[test]
    fn levels_are_what_the_edits_say_and_nothing_is_matched() {
        let mut book = DataBook::default();
        let mut apply = |edit| book.apply(ONE, &edit);
        apply(set(1, Side::Buy, 100, 5));
        apply(set(2, Side::Buy, 100, 3));
        apply(set(3, Side::Sell, 99, 7));
        apply(Edit::Reduce { order: 1, qty: 2 });
        apply(Edit::Reduce { order: 9, qty: 2 });
        apply(Edit::Replace { old: 2, new: 4, price: 98, qty: 1 });
        assert_eq!(book.levels(ONE).sides, [vec![(100, 3), (98, 1)], vec![(99, 7)]]);
        assert!(book.is_crossed(ONE) && !book.is_crossed(InstrumentId(2)));
        book.apply(ONE, &set(3, Side::Sell, 101, 2));
        assert!(!book.is_crossed(ONE) && !book.is_strange(ONE));
        book.apply(ONE, &set(5, Side::Sell, -4, 2));
        assert!(book.is_strange(ONE));
        book.apply(ONE, &Edit::Reduce { order: 5, qty: 9 });
        assert!(!book.is_strange(ONE));
        book.apply(ONE, &Edit::Clear);
        assert_eq!(book.levels(ONE).sides, [vec![], vec![]]);
    }
}
