//! Exact decimal text to scaled integers; no floating point anywhere on the way.

/// Why a decimal text is not a number of the wanted scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecimalError {
    /// The text is not `digits[.digits][e[+-]digits]`.
    Syntax,
    /// Does not fit 64 bits at the wanted scale.
    Overflow,
    /// Has more decimal places than the wanted scale keeps.
    Inexact,
}

impl std::fmt::Display for DecimalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DecimalError::Syntax => "not a decimal number",
            DecimalError::Overflow => "number too large",
            DecimalError::Inexact => "number has too many decimal places",
        })
    }
}

impl std::error::Error for DecimalError {}

/// `text` times 10^`places`, exactly. Accepts scientific notation such as `2.6e-06`, no sign.
///
/// # Errors
/// See [`DecimalError`]; digits that the scale would lose are an error unless they are zeros.
pub fn parse_scaled(text: &str, places: u32) -> Result<u64, DecimalError> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (text, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && part.is_empty() {
        return Err(DecimalError::Syntax);
    }
    let mut value: u128 = 0;
    for byte in whole.bytes().chain(part.bytes()) {
        if !byte.is_ascii_digit() {
            return Err(DecimalError::Syntax);
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u128::from(byte - b'0')))
            .ok_or(DecimalError::Overflow)?;
    }
    let shift = i64::from(places) + i64::from(exponent) - part.len() as i64;
    let scaled = scale(value, shift)?;
    u64::try_from(scaled).map_err(|_| DecimalError::Overflow)
}

fn scale(value: u128, shift: i64) -> Result<u128, DecimalError> {
    if value == 0 {
        return Ok(0);
    }
    let power =
        u32::try_from(shift.unsigned_abs()).ok().and_then(|digits| 10u128.checked_pow(digits));
    match (power, shift >= 0) {
        (Some(power), true) => value.checked_mul(power).ok_or(DecimalError::Overflow),
        (None, true) => Err(DecimalError::Overflow),
        (Some(power), false) if value.is_multiple_of(power) => Ok(value / power),
        (_, false) => Err(DecimalError::Inexact),
    }
}

fn parse_exponent(text: &str) -> Result<i32, DecimalError> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or("")),
        Some(b'+') => (false, text.get(1..).unwrap_or("")),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(DecimalError::Syntax);
    }
    let magnitude: i32 = digits.parse().map_err(|_| DecimalError::Syntax)?;
    Ok(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_venues_write() {
        assert_eq!(parse_scaled("78318.0", 4), Ok(783_180_000));
        assert_eq!(parse_scaled("1.53453667", 8), Ok(153_453_667));
        assert_eq!(parse_scaled("2.6e-06", 8), Ok(260));
        assert_eq!(parse_scaled("1e-08", 8), Ok(1));
        assert_eq!(parse_scaled("1.5E+3", 0), Ok(1_500));
        assert_eq!(parse_scaled("0.0", 8), Ok(0));
        assert_eq!(parse_scaled("999999999.0", 4), Ok(9_999_999_990_000));
        assert_eq!(parse_scaled("1.230", 2), Ok(123));
    }

    #[test]
    fn refuses_what_it_cannot_keep_exactly() {
        assert_eq!(parse_scaled("1e-09", 8), Err(DecimalError::Inexact));
        assert_eq!(parse_scaled("0.00015", 4), Err(DecimalError::Inexact));
        assert_eq!(parse_scaled("1e400000", 8), Err(DecimalError::Overflow));
        assert_eq!(parse_scaled("1e-400000", 8), Err(DecimalError::Inexact));
        assert_eq!(parse_scaled("99999999999999999999", 0), Err(DecimalError::Overflow));
        for bad in ["", ".", "-1", "+1", "1..2", "1e", "1e-", "nan", "1 ", "e5", "1e5.0"] {
            assert_eq!(parse_scaled(bad, 8), Err(DecimalError::Syntax), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,60}", places in 0u32..40) {
            let _ = parse_scaled(&text, places);
        }

        #[test]
        fn printing_and_parsing_agree(value: u32, exponent in 0u32..9) {
            let text = format!("{value}e-{exponent}");
            prop_assert_eq!(parse_scaled(&text, exponent), Ok(u64::from(value)));
        }
    }
}
