//! Structure-aware mutations, lengths repaired, into what decodes bytes from strangers: OUCH, ITCH,
//! and SoupBinTCP sessions of both sides. No panic, memory flat, every answer what it has to be.

mod faults;
mod itch;
mod ouch;
mod ouch_messages;
mod soupbin;
mod soupbin_client;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Mutations of a seed.
const ROUNDS: usize = 500;

use types::{Instrument, InstrumentId, Nanos, Price, Qty, Symbol, limits};

const MIDNIGHT: Nanos = Nanos(1_778_000_000_000_000_000);

fn instruments() -> [Instrument; 2] {
    [(1, "BTCUSD"), (2, "GENA")].map(|(id, name)| Instrument {
        id: InstrumentId(id),
        symbol: Symbol::new(name).unwrap(),
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 0,
    })
}
