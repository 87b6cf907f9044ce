//! What a market-by-order feed told, in the words of none.

use crate::data_book::{Check, Edit, Levels, Step};
use types::limits::{INSTRUMENTS_MAX, PRICE_MAX, QTY_MAX};
use types::{Instrument, InstrumentId, Nanos, Price, Qty, Side, Symbol};

/// One event of the recorded market. Orders are named by the venue's references, which are unique
/// within an instrument while the order lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When the venue says it happened, in nanoseconds since some midnight.
    pub time: Nanos,
    /// Instrument that the record is about.
    pub instrument: InstrumentId,
    /// The event that is recorded.
    pub what: What,
}

/// How the trade of an execution is told to the public.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Printed {
    /// By the execution, at the order's price.
    AtLimit,
    /// By the execution, at this price.
    At(u32),
    /// By a [`What::Print`] of its own.
    Apart,
}

/// An event of the recorded market.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// An order rests, last at its price.
    Add {
        /// Reference of the order.
        order: u64,
        /// Side that the order is on.
        side: Side,
        /// Displayed quantity of the order, lots.
        qty: u32,
        /// Price of the order, in units of the recording.
        price: u32,
    },
    /// Lots of a resting order traded.
    Execute {
        /// Reference of the order.
        order: u64,
        /// Lots that traded, above 0.
        qty: u32,
        /// How the trade is told to the public.
        printed: Printed,
    },
    /// A trade, told apart from the executions of its orders ([`Printed::Apart`]).
    Print {
        /// Side of the order that came; `None` in an auction, or not known.
        aggressor: Option<Side>,
        /// Lots that traded; of an auction counted once.
        qty: u32,
        /// Price of the trade, in units of the recording.
        price: u32,
    },
    /// Lots of an order that was not displayed traded.
    Trade {
        /// Side of the order that rested; `None`: not known.
        side: Option<Side>,
        /// Lots that traded, above 0.
        qty: u32,
        /// Price of the trade, in units of the recording.
        price: u32,
    },
    /// Lots of a resting order went away.
    Reduce {
        /// Reference of the order.
        order: u64,
        /// Lots by which it shrinks, above 0.
        qty: u32,
    },
    /// A resting order went away.
    Delete {
        /// Reference of the order.
        order: u64,
    },
    /// A resting order went away, and one of its side came for it, last at its price.
    Replace {
        /// Reference of the order that is replaced.
        old: u64,
        /// Reference of the order that takes its place; may be the same.
        new: u64,
        /// Displayed quantity of the order, lots.
        qty: u32,
        /// Price of the order, in units of the recording.
        price: u32,
    },
    /// Orders trade as they come from now on, or they don't.
    Trading(bool),
    /// Every resting order went away.
    Clear,
    /// A trading day begins: every resting order went away, orders of the strategy too, which live
    /// for a day; those of the market that stay are added again.
    NewDay,
}

impl What {
    /// What it changes in the data's own book, for formats whose messages are events one by one.
    pub fn edit(&self) -> Option<Edit> {
        Some(match *self {
            What::Add { order, side, qty, price } => {
                Edit::Set { order, side, price: i64::from(price), qty }
            }
            What::Execute { order, qty, .. } | What::Reduce { order, qty } => {
                Edit::Reduce { order, qty }
            }
            What::Delete { order } => Edit::Reduce { order, qty: u32::MAX },
            What::Replace { old, new, qty, price } => Edit::Replace { old, new, price, qty },
            What::Clear | What::NewDay => Edit::Clear,
            What::Trade { .. } | What::Print { .. } | What::Trading(_) => return None,
        })
    }
}

/// A recorded market: its instruments and what happened, in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    instruments: Vec<Instrument>,
    records: Vec<Record>,
    steps: Vec<Step>,
    levels: Vec<Levels>,
    /// Number of decimals that a price unit stands for.
    pub price_decimals: u32,
    /// Events with prices or quantities that no order of the exchange can have, left out.
    pub left_out: u64,
    /// Events whose time was before that of the one before; they are taken at that one's time.
    pub out_of_time: u64,
}

/// Why there is no recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordingError {
    /// More instruments than an exchange can have.
    Instruments,
    /// More events than were allowed.
    Records(usize),
}

impl std::fmt::Display for RecordingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordingError::Instruments => {
                write!(f, "more than {INSTRUMENTS_MAX} instruments: choose some by name")
            }
            RecordingError::Records(max) => {
                write!(f, "more than {max} events: choose fewer instruments, or allow more")
            }
        }
    }
}

impl std::error::Error for RecordingError {}

impl Recording {
    /// Nothing yet; prices with so many decimals.
    pub fn new(price_decimals: u32) -> Recording {
        Recording { price_decimals, ..Recording::default() }
    }

    /// Another instrument.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn instrument(&mut self, symbol: Symbol) -> Result<InstrumentId, RecordingError> {
        if self.instruments.len() >= INSTRUMENTS_MAX {
            return Err(RecordingError::Instruments);
        }
        let id = InstrumentId(self.instruments.len() as u16 + 1);
        self.instruments.push(Instrument {
            id,
            symbol,
            tick: Price(1),
            price_max: Price(PRICE_MAX),
            qty_max: Qty(QTY_MAX),
            lot_decimals: 0,
        });
        Ok(id)
    }

    /// The next event, at most `max` of them.
    ///
    /// # Errors
    /// There are too many.
    pub fn push(&mut self, mut record: Record, max: usize) -> Result<(), RecordingError> {
        let sound = match record.what {
            What::Add { qty, price, .. } | What::Replace { qty, price, .. } => qty > 0 && price > 0,
            _ => true,
        };
        if !sound {
            self.left_out += 1;
            // What the order becomes is left out; what it was is gone nevertheless.
            let What::Replace { old, .. } = record.what else { return Ok(()) };
            record.what = What::Delete { order: old };
        }
        if self.records.len() >= max {
            return Err(RecordingError::Records(max));
        }
        if let Some(last) = self.records.last().filter(|last| last.time > record.time) {
            record.time = last.time;
            self.out_of_time += 1;
        }
        self.records.push(record);
        Ok(())
    }

    /// The file does not say which side orders had that nobody saw.
    pub(crate) fn forget_hidden_sides(&mut self) {
        for record in &mut self.records {
            if let What::Trade { side, .. } = &mut record.what {
                *side = None;
            }
        }
    }

    /// Notes what the message just read says of the data's own book, and whether books can be
    /// compared after it.
    pub fn step(&mut self, instrument: InstrumentId, edit: Option<Edit>, check: Check) {
        self.steps.push(Step { records: self.records.len(), instrument, edit, check });
    }

    /// Notes the levels that the data itself tells after what was pushed so far.
    pub fn step_to_levels(&mut self, instrument: InstrumentId, levels: Levels) {
        self.levels.push(levels);
        self.step(instrument, None, Check::Levels(self.levels.len() - 1));
    }

    /// The data's own book, step by step, in the order of the file.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Levels that the data tells itself, as [`Check::Levels`] names them.
    pub fn levels(&self) -> &[Levels] {
        &self.levels
    }

    /// What is traded, by number.
    pub fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    /// The recorded events, in the order of the recording.
    pub fn records(&self) -> &[Record] {
        &self.records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_order_can_be_is_left_out_and_time_never_runs_backwards() {
        let mut recording = Recording::new(4);
        let instrument = recording.instrument(Symbol::new("A").unwrap()).unwrap();
        let add = |order, qty, time| Record {
            time: Nanos(time),
            instrument,
            what: What::Add { order, side: Side::Buy, qty, price: 7 },
        };
        recording.push(add(1, 5, 10), 2).unwrap();
        recording.push(add(2, 0, 11), 2).unwrap();
        recording.push(add(3, 5, 9), 2).unwrap();
        assert_eq!(recording.push(add(4, 5, 12), 2), Err(RecordingError::Records(2)));
        assert_eq!((recording.left_out, recording.out_of_time), (1, 1));
        let times: Vec<u64> = recording.records().iter().map(|record| record.time.0).collect();
        assert_eq!(times, [10, 10]);
        for _ in 1..INSTRUMENTS_MAX {
            recording.instrument(Symbol::new("B").unwrap()).unwrap();
        }
        let full = recording.instrument(Symbol::new("C").unwrap());
        assert_eq!(full, Err(RecordingError::Instruments));
    }
}
