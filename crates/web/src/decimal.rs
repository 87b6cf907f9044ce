//! Prices and quantities as decimal texts, exactly.

use types::{Instrument, Price};

/// Digits of a number that is read, at most.
const DIGITS_MAX: usize = 24;

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

/// A decimal without sign and exponent, times 10^`places`; `None`: not that, too large, or more places
/// than there are.
pub fn scaled(text: &str, places: u8) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() > DIGITS_MAX || !digits(whole) || !digits(part) {
        return None;
    }
    let part = part.trim_end_matches('0');
    let missing = usize::from(places).checked_sub(part.len())?;
    let scale = 10u64.checked_pow(u32::from(places))?;
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
    let part = part.checked_mul(10u64.checked_pow(u32::try_from(missing).ok()?)?)?;
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(part)
}

/// A price.
pub fn price(text: &str) -> Option<Price> {
    scaled(text, 4).and_then(|units| i64::try_from(units).ok()).map(Price)
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
        assert_eq!(scaled("1.5", 8), Some(150_000_000));
        assert_eq!(scaled("007", 0), Some(7));
        assert_eq!(scaled("7.000", 0), Some(7));
        for wrong in
            ["", ".5", "5.", "-1", "+1", "1e3", "1.23", " 1", "99999999999999999999", "1,5"]
        {
            assert_eq!(scaled(wrong, 1), None, "{wrong}");
        }
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

        #[test]
        fn nothing_typed_panics(text in ".{0,40}", places in any::<u8>()) {
            let _ = scaled(&text, places);
        }
    }
}
