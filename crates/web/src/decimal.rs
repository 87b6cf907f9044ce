//! Prices and quantities as decimal texts, exactly.

use types::Instrument;
pub use types::decimal::price;
use types::decimal::scaled;

/// Lots as units of the instrument: `150000000` with 8 decimals is `1.5`.
pub fn lots_text(lots: u64, lot_decimals: u8) -> String {
    let scale = 10u64.checked_pow(u32::from(lot_decimals)).unwrap_or(u64::MAX);
    let (whole, part) = (lots / scale, lots % scale);
    if part == 0 {
        return whole.to_string();
    }
    let digits = format!("{part:0width$}", width = usize::from(lot_decimals));
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// As [`lots_text`], of a position.
pub fn position_text(lots: i64, lot_decimals: u8) -> String {
    let sign = if lots < 0 { "-" } else { "" };
    format!("{sign}{}", lots_text(lots.unsigned_abs(), lot_decimals))
}

/// Price units times lots as quote currency, exactly.
pub fn value_text(value: i128, lot_decimals: u8) -> String {
    let places = 4 + usize::from(lot_decimals);
    let digits = format!("{:0width$}", value.unsigned_abs(), width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    let part = part.trim_end_matches('0');
    let sign = if value < 0 { "-" } else { "" };
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// A quantity in lots of an instrument.
pub fn lots(text: &str, instrument: &Instrument) -> Option<u64> {
    scaled(text, instrument.lot_decimals)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!((lots_text(150_000_000, 8), lots_text(5, 0)), ("1.5".into(), "5".into()));
        assert_eq!(position_text(-1, 2), "-0.01");
        assert_eq!(value_text(-15_000, 0), "-1.5");
        assert_eq!(value_text(1, 8), "0.000000000001");
        assert_eq!(value_text(0, 2), "0");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(lots in 0..u64::MAX / 2, places in 0..9u8) {
            prop_assert_eq!(scaled(&lots_text(lots, places), places), Some(lots));
        }
    }
}
