//! Calls that a recording does not state but implies: while its book is crossed or locked, orders
//! are collected, because continuous trading would have traded them.
//!
//! Such a call begins with the event that crosses the book. When the data states no state before
//! it and nothing traded since the recording, or the book, began, it begins there: a market
//! that opens with an auction was not open before. It ends with the last event at the time at which
//! the book is no longer crossed, so that all executions of an auction belong to it. Inside one
//! event of the venue a book may be crossed for some messages; that is such a call, too, and lets
//! nothing trade that did not.

use std::collections::BTreeMap;

use types::{InstrumentId, Nanos};

use crate::data_book::DataBook;
use crate::record::{Recording, What};

/// A call begins or ends before an event of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    /// Index of the event in the recording.
    pub index: usize,
    /// Instrument whose call begins or ends.
    pub instrument: InstrumentId,
    /// Whether the call begins; otherwise it ends.
    pub begins: bool,
}

/// What is known of an instrument.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Since this event nothing traded and no state was told.
    quiet: Option<usize>,
    /// Whether the instrument is in a call that was found so.
    called: bool,
    /// The call ends behind this time.
    ends: Option<Nanos>,
}

/// The implied calls of a recording, by event.
pub(crate) fn implied(recording: &Recording) -> Vec<Turn> {
    let mut book = DataBook::default();
    let mut known: BTreeMap<InstrumentId, Known> = BTreeMap::new();
    let mut ending: Vec<InstrumentId> = Vec::new();
    let mut turns = Vec::new();
    for (index, record) in recording.records().iter().enumerate() {
        let instrument = record.instrument;
        ending.retain(|&instrument| {
            let Some(one) = known.get_mut(&instrument) else { return false };
            let over = one.ends.is_some_and(|ends| ends < record.time);
            if over {
                *one = Known::default();
                turns.push(Turn { index, instrument, begins: false });
            }
            one.ends.is_some()
        });
        let first = Known { quiet: Some(index), ..Known::default() };
        let one = known.entry(instrument).or_insert(first);
        match record.what {
            What::Trading(_) => one.quiet = None,
            What::Clear | What::NewDay if !one.called => one.quiet = Some(index),
            _ => {}
        }
        if let Some(edit) = record.what.edit() {
            book.apply(instrument, &edit);
        }
        let crossed = book.is_crossed(instrument);
        let traded =
            matches!(record.what, What::Execute { .. } | What::Trade { .. } | What::Print { .. });
        match (crossed, one.called) {
            (true, false) => {
                let index = one.quiet.take().unwrap_or(index);
                one.called = true;
                turns.push(Turn { index, instrument, begins: true });
            }
            (true, true) => one.ends = None,
            (false, true) if one.ends.is_none() => {
                one.ends = Some(record.time);
                ending.push(instrument);
            }
            (false, false) if traded => one.quiet = None,
            _ => {}
        }
    }
    turns.sort_by_key(|turn| turn.index);
    turns
}

#[cfg(test)]
mod tests {
    use types::{Side, Symbol};

    use super::*;
    use crate::record::{Printed, Record};

    const ONE: InstrumentId = InstrumentId(1);

    fn add(order: u64, side: Side, price: u32) -> What {
        What::Add { order, side, qty: 5, price }
    }

    fn turns(events: &[(u64, What)]) -> Vec<(usize, bool)> {
        let mut recording = Recording::new(4);
        recording.instrument(Symbol::new("A").unwrap()).unwrap();
        for &(time, what) in events {
            let record = Record { time: Nanos(time), instrument: ONE, what };
            recording.push(record, 100).unwrap();
        }
        implied(&recording).iter().map(|turn| (turn.index, turn.begins)).collect()
    }

    #[test]
    fn a_crossed_book_is_a_call_from_the_beginning_to_the_end_of_its_auction() {
        let execute = |order| What::Execute { order, qty: 5, printed: Printed::At(100) };
        let opening = [
            (1, add(1, Side::Buy, 90)),
            (2, add(2, Side::Sell, 100)),
            (3, add(3, Side::Buy, 101)),
            (9, execute(3)),
            // Same time, no longer crossed: still the auction.
            (9, execute(2)),
            (10, add(4, Side::Sell, 99)),
            (11, execute(4)),
            // A cross in the middle of trading begins where it is.
            (12, add(5, Side::Sell, 90)),
            (13, What::Reduce { order: 5, qty: 5 }),
            (14, add(6, Side::Sell, 95)),
        ];
        assert_eq!(turns(&opening), [(0, true), (5, false), (7, true), (9, false)]);
        let mut stated = opening;
        stated[1].1 = What::Trading(true);
        assert_eq!(turns(&stated), [(7, true), (9, false)]);
        stated[1] = opening[1];
        stated[0].1 = What::Trading(true);
        assert_eq!(turns(&stated)[..2], [(2, true), (5, false)]);
    }

    #[test]
    fn books_that_are_never_crossed_imply_nothing() {
        let calm = [
            (1, add(1, Side::Buy, 90)),
            (2, add(2, Side::Sell, 100)),
            (3, What::Execute { order: 2, qty: 5, printed: Printed::AtLimit }),
            (4, What::Clear),
        ];
        assert!(turns(&calm).is_empty());
    }
}
