//! What strategies are tested with: one instrument.

use types::{Instrument, InstrumentId, Price, Qty, Symbol};

pub const ONE: InstrumentId = InstrumentId(1);

pub fn instruments() -> Vec<Instrument> {
    vec![Instrument {
        id: ONE,
        symbol: Symbol::new("AAA").expect("a symbol"),
        tick: Price(100),
        price_max: Price(types::limits::PRICE_MAX),
        qty_max: Qty(types::limits::QTY_MAX),
        lot_decimals: 0,
    }]
}
