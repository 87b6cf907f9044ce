//! Prices and quantities: integers with a stated unit.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A price in ten-thousandths of the quote currency, the `Price(4)` of ITCH 5.0 and OUCH 5.0.
///
/// Signed and 64 bits wide so that differences and OUCH's eight-byte prices fit; what ITCH can
/// carry (32 bits) is checked by the engine before an order is accepted.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(transparent)]
pub struct Price(pub i64);

impl Price {
    /// Units of one whole quote currency unit.
    pub const ONE: i64 = 10_000;

    /// The price of `units` whole currency units.
    pub const fn from_whole(units: i64) -> Price {
        Price(units * Price::ONE)
    }
}

impl std::fmt::Display for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) = (magnitude / 10_000, magnitude % 10_000);
        if part == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{part:04}") }
    }
}

/// A quantity in lots of the instrument (BTC/USD here: 1e-8 BTC).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(transparent)]
pub struct Qty(pub u64);

impl std::fmt::Display for Qty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Price;

    #[test]
    fn price_prints_only_the_decimals_it_has() {
        assert_eq!(Price::from_whole(78_350).to_string(), "78350");
        assert_eq!(Price(783_505_000).to_string(), "78350.5000");
        assert_eq!(Price(-1).to_string(), "-0.0001");
    }
}
