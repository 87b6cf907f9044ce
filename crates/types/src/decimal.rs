//! Decimals that are typed: read exactly, never by way of a float.

use crate::Price;

/// Characters of a number that is read, at most.
const LENGTH_MAX: usize = 24;
/// Decimals of a price.
const PRICE_PLACES: u8 = 4;

/// A decimal without sign and exponent, times 10^`places`; `None`: not that, too large, or more places
/// than there are.
pub fn scaled(text: &str, places: u8) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() > LENGTH_MAX || !digits(whole) || !digits(part) {
        return None;
    }
    let part = part.trim_end_matches('0');
    let missing = usize::from(places).checked_sub(part.len())?;
    let scale = 10u64.checked_pow(u32::from(places))?;
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
    let part = part.checked_mul(10u64.checked_pow(u32::try_from(missing).ok()?)?)?;
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(part)
}

/// A price: `78350`, `0.01`; `None` for anything else.
pub fn price(text: &str) -> Option<Price> {
    scaled(text, PRICE_PLACES).and_then(|units| i64::try_from(units).ok()).map(Price)
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
            ["", ".", ".5", "5.", "-1", "+1", "1e3", "1.23", " 1", "99999999999999999999", "1,5"]
        {
            assert_eq!(scaled(wrong, 1), None, "{wrong}");
        }
        assert_eq!((price("0.01"), price("78350")), (Some(Price(100)), Some(Price(783_500_000))));
        assert_eq!((price("1.00001"), price("99999999999999999")), (None, None));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(raw in 0..=i64::MAX / 2) {
            prop_assert_eq!(price(&Price(raw).to_string()), Some(Price(raw)));
        }

        #[test]
        fn nothing_typed_panics(text in ".{0,40}", places in any::<u8>()) {
            let _ = scaled(&text, places);
        }
    }
}
