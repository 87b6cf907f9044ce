//! Instruments: their symbols and the facts about them that do not change during a day.

use crate::{InstrumentId, Price, Qty};

/// An instrument's name: eight bytes, upper case, padded with spaces on the right (ITCH 5.0 Stock).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Symbol(pub [u8; 8]);

impl Symbol {
    /// Pads `name` with spaces; `None` when it is empty, longer than eight bytes or not printable
    /// ASCII without spaces.
    pub fn new(name: &str) -> Option<Symbol> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > 8 || !bytes.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        let mut padded = [b' '; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(Symbol(padded))
    }

    /// The name without its padding.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("").trim_end_matches(' ')
    }
}

impl std::fmt::Display for Symbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The static facts of an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instrument {
    /// Dense identifier, also the ITCH stock locate.
    pub id: InstrumentId,
    /// Name of the instrument in OUCH, ITCH and FIX messages.
    pub symbol: Symbol,
    /// Smallest price step; every limit price is a positive multiple of it.
    pub tick: Price,
    /// Largest limit price; never above [`crate::limits::PRICE_MAX`].
    pub price_max: Price,
    /// Largest order quantity in lots; never above [`crate::limits::QTY_MAX`].
    pub qty_max: Qty,
    /// Decimal places of one lot, for display only: one lot is 10^-`lot_decimals` units.
    pub lot_decimals: u8,
}
