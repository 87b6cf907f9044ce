//! Prices in configuration are text, `"0.01"`: exact, where a float would not be.

use serde::{Deserialize, Deserializer, Serializer, de::Error};
use types::Price;

/// Reads `"78350"` or `"0.0100"`; `None` for anything else: signs, more than four decimals, no
/// digits, out of range.
pub fn parse(text: &str) -> Option<Price> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 4 {
        return None;
    }
    let part: i64 = format!("{part:0<4}").parse().ok()?;
    let whole: i64 = whole.parse().ok()?;
    whole.checked_mul(Price::ONE)?.checked_add(part).map(Price)
}

/// Writes a price as decimal text.
///
/// # Errors
/// The writer's.
pub fn serialize<S: Serializer>(price: &Price, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(price)
}

/// Reads a price from decimal text.
///
/// # Errors
/// What is no price.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Price, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).ok_or_else(|| D::Error::custom("must be a price like \"0.01\""))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;
    use types::Price;

    #[test]
    fn only_plain_decimals_are_prices() {
        assert_eq!(parse("78350"), Some(Price(783_500_000)));
        assert_eq!(parse("0.01"), Some(Price(100)));
        for bad in ["", ".", "1.", ".5", "-1", "+1", "1.00001", "1e3", "99999999999999999"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(raw in 0i64..=i64::MAX / 2) {
            prop_assert_eq!(parse(&Price(raw).to_string()), Some(Price(raw)));
        }
    }
}
