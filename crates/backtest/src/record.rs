//! What a market-by-order feed told, in the words of none.

use types::limits::{INSTRUMENTS_MAX, PRICE_MAX, QTY_MAX};
use types::{Instrument, InstrumentId, Nanos, Price, Qty, Side, Symbol};

/// One event of the recorded market. Orders are named by the venue's references, which are unique
/// within an instrument while the order lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When the venue says it happened, in nanoseconds since some midnight.
    pub time: Nanos,
    /// On what.
    pub instrument: InstrumentId,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// An order rests, last at its price.
    Add {
        /// Its reference.
        order: u64,
        /// Its side.
        side: Side,
        /// Lots displayed.
        qty: u32,
        /// Its price.
        price: u32,
    },
    /// Lots of a resting order traded.
    Execute {
        /// The order.
        order: u64,
        /// Lots.
        qty: u32,
    },
    /// Lots of an order that was not displayed traded.
    Trade {
        /// Side of the order that rested.
        side: Side,
        /// Lots.
        qty: u32,
        /// The price.
        price: u32,
    },
    /// Lots of a resting order went away.
    Reduce {
        /// The order.
        order: u64,
        /// Lots.
        qty: u32,
    },
    /// A resting order went away.
    Delete {
        /// The order.
        order: u64,
    },
    /// A resting order went away, and one of its side came for it, last at its price.
    Replace {
        /// The order that goes.
        old: u64,
        /// The order that comes; may be the same reference.
        new: u64,
        /// Lots displayed.
        qty: u32,
        /// Its price.
        price: u32,
    },
    /// Orders trade as they come from now on, or they don't.
    Trading(bool),
    /// Every resting order went away.
    Clear,
}

/// A recorded market: its instruments and what happened, in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    instruments: Vec<Instrument>,
    records: Vec<Record>,
    /// Decimals of prices.
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
            return Ok(());
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

    /// What is traded, by number.
    pub fn instruments(&self) -> &[Instrument] {
        &self.instruments
    }

    /// What happened.
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
