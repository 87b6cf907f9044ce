//! Conversion between types (FAST 1.1, §8), for application fields that have another type than
//! their field in the template, and for initial values.

use crate::error::Code;
use crate::value::{Decimal, Owned, Type, Value};

/// Whether a byte is whitespace by the definition of XML.
fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// `value` as `to`.
///
/// # Errors
/// D10 and D11, R1 and R3 to R5, as the specification has them.
pub fn convert(value: Value<'_>, to: Type) -> Result<Owned, Code> {
    match value {
        _ if value.ty() == to => Ok(value.to_owned()),
        Value::Bytes(bytes) => match to {
            Type::Ascii | Type::Unicode => string(&hex(bytes), to),
            _ => Err(Code::D10),
        },
        Value::Ascii(bytes) => {
            let text = std::str::from_utf8(bytes).map_err(|_| Code::R3)?;
            from_string(text, to)
        }
        Value::Unicode(text) => from_string(text, to),
        Value::Decimal(decimal) => from_decimal(decimal, to),
        _ => from_integer(value.integer().unwrap_or(0), to),
    }
}

/// §8.1: a string as any type.
///
/// # Errors
/// D11 for a wrong syntax, R1, R3 and R4 for what does not fit.
pub fn from_string(text: &str, to: Type) -> Result<Owned, Code> {
    match to {
        Type::U32 | Type::I32 | Type::U64 | Type::I64 => {
            let number = integer(text, to.bounds().0 < 0)?;
            Owned::of_integer(to, number).ok_or(Code::R4)
        }
        Type::Decimal => decimal(text).map(Owned::Decimal),
        Type::Ascii | Type::Unicode => string(text, to),
        Type::Bytes => {
            let digits: Vec<u8> = text.bytes().filter(|byte| !is_space(byte)).collect();
            unhex(&digits).map(Owned::Bytes).ok_or(Code::D11)
        }
    }
}

fn string(text: &str, to: Type) -> Result<Owned, Code> {
    match to {
        Type::Ascii if text.is_ascii() => Ok(Owned::Ascii(text.as_bytes().to_vec())),
        Type::Ascii => Err(Code::R3),
        _ => Ok(Owned::Unicode(text.to_string())),
    }
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// §8.1.1: a string as an integer; a number of more than 38 digits fits no type.
fn integer(text: &str, signed: bool) -> Result<i128, Code> {
    let text = trimmed(text);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) if signed => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Code::D11);
    }
    let number: i128 = digits.parse().map_err(|_| Code::R4)?;
    Ok(if negative { -number } else { number })
}

/// §8.1.2: a string as a decimal.
fn decimal(text: &str) -> Result<Decimal, Code> {
    let text = trimmed(text);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all = || whole.bytes().chain(part.bytes());
    if all().next().is_none() || !all().all(|byte| byte.is_ascii_digit()) {
        return Err(Code::D11);
    }
    let mut mantissa = 0_i128;
    let mut exponent = 0_i32;
    for digit in all() {
        let next = mantissa * 10 + i128::from(digit - b'0');
        // Zeros at the end go to the exponent once the mantissa is full.
        mantissa = next;
        if mantissa > i128::MAX / 100 {
            return Err(Code::R1);
        }
    }
    exponent -= i32::try_from(part.len()).map_err(|_| Code::R1)?;
    while i64::try_from(mantissa).is_err() && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    let mantissa = if negative { -mantissa } else { mantissa };
    let mantissa = i64::try_from(mantissa).map_err(|_| Code::R1)?;
    let decimal = Decimal { exponent, mantissa };
    // Too many digits after the point may still be zeros.
    let decimal = if decimal.is_valid() { decimal } else { decimal.normalized() };
    if decimal.is_valid() { Ok(decimal) } else { Err(Code::R1) }
}

/// §8.2: an integer as another type.
fn from_integer(value: i128, to: Type) -> Result<Owned, Code> {
    match to {
        Type::Decimal => {
            let (mut mantissa, mut exponent) = (value, 0);
            while i64::try_from(mantissa).is_err() && mantissa % 10 == 0 {
                mantissa /= 10;
                exponent += 1;
            }
            let mantissa = i64::try_from(mantissa).map_err(|_| Code::R1)?;
            Ok(Owned::Decimal(Decimal { exponent, mantissa }))
        }
        Type::Ascii | Type::Unicode => string(&value.to_string(), to),
        Type::Bytes => Err(Code::D10),
        _ => Owned::of_integer(to, value).ok_or(Code::R4),
    }
}

/// §8.3: a decimal as another type.
fn from_decimal(value: Decimal, to: Type) -> Result<Owned, Code> {
    match to {
        Type::Bytes => Err(Code::D10),
        Type::Ascii | Type::Unicode => string(&decimal_text(value), to),
        _ => {
            let whole = whole(value).ok_or(Code::R5)?;
            Owned::of_integer(to, whole).ok_or(Code::R5)
        }
    }
}

/// The number as an integer, when it is one of at most 38 digits.
fn whole(value: Decimal) -> Option<i128> {
    let value = value.normalized();
    let power = u32::try_from(value.exponent).ok()?;
    i128::from(value.mantissa).checked_mul(10_i128.checked_pow(power)?)
}

/// §8.3.2: a decimal as a string, exact for every exponent.
fn decimal_text(value: Decimal) -> String {
    let value = value.normalized();
    let sign = if value.mantissa < 0 { "-" } else { "" };
    let digits = value.mantissa.unsigned_abs().to_string();
    if value.exponent >= 0 {
        let zeros = "0".repeat(value.exponent.unsigned_abs() as usize);
        return format!("{sign}{digits}{zeros}");
    }
    let after = value.exponent.unsigned_abs() as usize;
    let padded = format!("{digits:0>width$}", width = after + 1);
    let (whole, part) = padded.split_at(padded.len() - after);
    format!("{sign}{whole}.{part}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pair = |pair: &[u8]| match *pair {
        [high, low] => Some((value(high)? << 4 | value(low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ascii(text: &str) -> Value<'_> {
        Value::Ascii(text.as_bytes())
    }

    #[test]
    fn strings_to_numbers() {
        assert_eq!(convert(ascii(" 42\n"), Type::U32), Ok(Owned::U32(42)));
        assert_eq!(convert(ascii("-0"), Type::I32), Ok(Owned::I32(0)));
        assert_eq!(convert(ascii("-1"), Type::U32), Err(Code::D11));
        assert_eq!(convert(ascii("4294967296"), Type::U32), Err(Code::R4));
        assert_eq!(convert(ascii(&"9".repeat(50)), Type::U64), Err(Code::R4));
        assert_eq!(convert(ascii("1 2"), Type::U32), Err(Code::D11));
        let decimal = |exponent, mantissa| Ok(Owned::Decimal(Decimal { exponent, mantissa }));
        for (text, expected) in
            [("1", decimal(0, 1)), ("1.1", decimal(-1, 11)), (".1", decimal(-1, 1))]
        {
            assert_eq!(convert(ascii(text), Type::Decimal), expected);
        }
        assert_eq!(convert(ascii("-0.1"), Type::Decimal), decimal(-1, -1));
        for wrong in ["", "-", ".", "1.1.1", "1e5", "+1"] {
            assert_eq!(convert(ascii(wrong), Type::Decimal), Err(Code::D11), "{wrong:?}");
        }
        assert_eq!(
            convert(ascii("12345678901234567890"), Type::Decimal),
            decimal(1, 1234567890123456789)
        );
        assert_eq!(convert(ascii("12345678901234567891"), Type::Decimal), Err(Code::R1));
    }

    #[test]
    fn strings_bytes_and_character_sets() {
        assert_eq!(convert(ascii("aF 01"), Type::Bytes), Ok(Owned::Bytes(vec![0xAF, 1])));
        for wrong in ["a", "0g"] {
            assert_eq!(convert(ascii(wrong), Type::Bytes), Err(Code::D11));
        }
        let bytes = Value::Bytes(&[0xAF, 1]);
        assert_eq!(convert(bytes, Type::Ascii), Ok(Owned::Ascii(b"af01".to_vec())));
        assert_eq!(convert(bytes, Type::U32), Err(Code::D10));
        assert_eq!(convert(Value::U32(1), Type::Bytes), Err(Code::D10));
        assert_eq!(convert(Value::Unicode("\u{e9}"), Type::Ascii), Err(Code::R3));
        assert_eq!(convert(ascii("x"), Type::Unicode), Ok(Owned::Unicode("x".to_string())));
    }

    #[test]
    fn numbers_to_numbers_and_strings() {
        let decimal = |exponent, mantissa| Value::Decimal(Decimal { exponent, mantissa });
        assert_eq!(convert(Value::I32(-1), Type::U64), Err(Code::R4));
        assert_eq!(convert(Value::U64(u64::MAX), Type::Decimal), Err(Code::R1));
        assert_eq!(convert(decimal(2, 3), Type::U32), Ok(Owned::U32(300)));
        assert_eq!(convert(decimal(-1, 30), Type::U32), Ok(Owned::U32(3)));
        assert_eq!(convert(decimal(-1, 31), Type::U32), Err(Code::R5));
        assert_eq!(convert(decimal(63, 31), Type::I64), Err(Code::R5));
        let text = |value, text: &str| {
            assert_eq!(convert(value, Type::Unicode), Ok(Owned::Unicode(text.to_string())));
        };
        text(decimal(-3, -5), "-0.005");
        text(decimal(-1, 50), "5");
        text(decimal(2, 7), "700");
        text(Value::I64(i64::MIN), "-9223372036854775808");
    }
}
