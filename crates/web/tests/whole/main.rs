//! Accounts' sessions against a gateway played by hand, and the door over real connections.

mod account;
mod door;
mod ends;
mod ids;
mod private;
mod replay;

use types::{Instrument, InstrumentId, Price, Qty, Symbol, limits};
use web::request::Instruments;

/// One instrument, AAA, with lots of a tenth.
fn instruments() -> Instruments {
    Instruments(vec![Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("AAA").expect("a symbol"),
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 1,
    }])
}
