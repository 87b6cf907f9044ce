//! Values of fields: text to number and back, without floating point and without allocation.
//!
//! Readers take what the FIX data types allow and nothing else: no leading `+`, no exponent, no
//! blanks; leading zeros are allowed. Times are UTC on the proleptic Gregorian calendar; a leap
//! second (`:60`) is read as the first second of the next minute.

use types::{Nanos, Price, Qty};

use crate::digits;
use crate::frame::SOH;

const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// A number without a sign, of 1 to 18 digits; `None` for anything else.
#[inline]
pub fn uint(text: &[u8]) -> Option<u64> {
    if let Some(word) = digits::short(text) {
        return digits::read(word, text.len());
    }
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// A number of 1 to 18 digits, perhaps with a minus sign; `None` for anything else.
pub fn int(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => uint(digits).map(|value| -(value as i64)),
        digits => uint(digits).map(|value| value as i64),
    }
}

/// A decimal number as a count of 10^-`places`, at most 8; `None` when it has more decimals than that which
/// are not zero, or more than 18 digits altogether.
#[inline]
pub fn decimal(text: &[u8], places: u32) -> Option<i64> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if text.len() > 32 {
        return None;
    }
    // At most 32 digits cannot overflow what is checked to have at most 18 afterwards.
    let (mut value, mut kept) = (0u64, 0);
    let mut rest = text.iter();
    let mut point = false;
    for &byte in rest.by_ref() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            point = byte == b'.';
            if !point {
                return None;
            }
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        kept += 1;
    }
    let mut decimals = 0;
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 || (decimals == places && digit != 0) {
            return None;
        }
        if decimals < places {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            decimals += 1;
            kept += 1;
        }
    }
    let digits = text.len() - usize::from(point);
    if digits == 0 || kept > 18 {
        return None;
    }
    let value = (value as i64).checked_mul(POWERS[(places - decimals).min(8) as usize])?;
    Some(if negative { -value } else { value })
}

/// Powers of ten, up to the eight decimals there are at most.
const POWERS: [i64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// A price with at most four decimals, in units of 1/10000; `None` for anything else.
#[inline]
pub fn price(text: &[u8]) -> Option<Price> {
    if let Some(price) = short_price(text) {
        return Some(price);
    }
    decimal(text, 4).map(Price)
}

/// A price of at most eight characters and four decimals that is not negative; others are left
/// to [`decimal`].
#[inline]
fn short_price(text: &[u8]) -> Option<Price> {
    const POINTS: u64 = u64::from_le_bytes([b'.'; 8]);
    let word = digits::short(text)?;
    // The first point: exact up to there ("Hacker's Delight" 6-1).
    let points = word ^ POINTS;
    let points = points.wrapping_sub(0x0101_0101_0101_0101) & !points & 0x8080_8080_8080_8080;
    if points == 0 {
        return Some(Price(digits::read(word, text.len())? as i64 * 10_000));
    }
    let bits = points.trailing_zeros() - 7;
    let decimals = text.len() - 1 - bits as usize / 8;
    let scale = *POWERS.get(4usize.checked_sub(decimals)?)?;
    // What follows the point moves into its place.
    let below = (1u64 << bits) - 1;
    let value = digits::read(word & below | (word >> 8) & !below, text.len() - 1)?;
    Some(Price(value as i64 * scale))
}

/// A quantity in whole lots; `None` when a decimal is not zero, or it is no number.
#[inline]
pub fn qty(text: &[u8]) -> Option<Qty> {
    // Hardly any has a point.
    if let Some(lots) = digits::short(text).and_then(|word| digits::read(word, text.len())) {
        return Some(Qty(lots));
    }
    decimal(text, 0).and_then(|lots| u64::try_from(lots).ok()).map(Qty)
}

/// `Y` is true, `N` false; `None` for anything else.
pub fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"Y" => Some(true),
        b"N" => Some(false),
        _ => None,
    }
}

fn two(text: &[u8], at: usize) -> Option<u64> {
    let pair = text.get(at..at + 2)?;
    uint(pair)
}

/// Nanoseconds since midnight of `HH:MM:SS` with optional decimals of a second (1 to 12 digits,
/// cut off after nanoseconds).
pub fn time_of_day(text: &[u8]) -> Option<u64> {
    let (hour, minute, second) = (two(text, 0)?, two(text, 3)?, two(text, 6)?);
    if text.get(2) != Some(&b':') || text.get(5) != Some(&b':') {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut ns = ((hour * 60 + minute) * 60 + second) * Nanos::SECOND;
    match text.get(8..) {
        None | Some([]) => {}
        Some([b'.', digits @ ..]) if (1..=12).contains(&digits.len()) => {
            let mut unit = Nanos::SECOND;
            for &byte in digits {
                let digit = byte.wrapping_sub(b'0');
                if digit > 9 {
                    return None;
                }
                unit /= 10;
                ns += u64::from(digit) * unit;
            }
        }
        Some(_) => return None,
    }
    Some(ns)
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the day `YYYYMMDD`; `None` before 1970 and for days that do not exist.
pub fn date(text: &[u8]) -> Option<u64> {
    if text.len() != 8 {
        return None;
    }
    let year = uint(text.get(..4)?)?;
    let (month, day) = (two(text, 4)?, two(text, 6)?);
    let valid = year >= 1970 && (1..=12).contains(&month);
    if !valid || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

/// Days since the epoch; March-based years make the leap day the last of its year.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day since the epoch; the inverse of [`days_from_civil`].
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// A UTC time stamp, `YYYYMMDD-HH:MM:SS` with optional decimals, as ns since the epoch. A valid
/// one beyond what 64 bits count (2554-07-21) is [`Nanos::NEVER`].
pub fn timestamp(text: &[u8]) -> Option<Nanos> {
    let (day, rest) = text.split_at_checked(8)?;
    let (b'-', time) = rest.split_first()? else { return None };
    Some(Nanos(date(day)?.saturating_mul(DAY_NS).saturating_add(time_of_day(time)?)))
}

const EIGHT: u64 = 100_000_000;

/// A number in decimal, and its length in bytes.
#[inline]
pub(crate) fn uint_text(value: u64) -> ([u8; 32], usize) {
    const SIXTEEN: u64 = EIGHT * EIGHT;
    let (top, rest) = (value / SIXTEEN, value % SIXTEEN);
    let sixteen =
        u128::from(digits::eight(rest / EIGHT)) | u128::from(digits::eight(rest % EIGHT)) << 64;
    let zeros = u128::from(digits::ZEROS) << 64 | u128::from(digits::ZEROS);
    let mut text = [0; 32];
    if top == 0 {
        // The last digit stays, be it zero.
        let leading = (sixteen.trailing_zeros() / 8).min(15);
        let word = (sixteen + zeros) >> (8 * leading);
        if let Some(place) = text.first_chunk_mut() {
            *place = word.to_le_bytes();
        }
        return (text, 16 - leading as usize);
    }
    let (word, length) = digits::uint(top as u32);
    let length = length as usize;
    if let Some(place) = text.first_chunk_mut() {
        *place = word.to_le_bytes();
    }
    if let Some(place) = text.get_mut(length..).and_then(<[u8]>::first_chunk_mut) {
        *place = (sixteen + zeros).to_le_bytes();
    }
    (text, length + 16)
}

/// Appends `value` in decimal, without leading zeros.
#[inline]
pub fn push_uint(out: &mut Vec<u8>, value: u64) {
    let (text, length) = uint_text(value);
    out.extend_from_slice(text.get(..length).unwrap_or(&text));
}

/// Appends a signed number in decimal.
pub fn push_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_uint(out, value.unsigned_abs());
}

/// Appends a price, with up to four decimals and none that are zero at the end.
#[inline]
pub fn push_price(out: &mut Vec<u8>, price: Price) {
    push_decimal(out, price.0, Places::Four);
}

/// How many decimals the integer of a decimal number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Places {
    /// The integer counts 10^-4, as prices do.
    Four,
    /// The integer counts 10^-8, as average prices do.
    Eight,
}

/// `value` × 10^-`places` with the decimals it has, and the text's length: at most 25.
#[inline]
pub(crate) fn decimal_text(value: i64, places: Places) -> ([u8; 32], usize) {
    let magnitude = value.unsigned_abs();
    let (whole, part) = match places {
        Places::Four => (magnitude / 10_000, magnitude % 10_000 * 10_000),
        Places::Eight => (magnitude / EIGHT, magnitude % EIGHT),
    };
    let mut text = [0; 32];
    let mut length = usize::from(value < 0);
    if let Some(first) = text.first_mut() {
        *first = b'-';
    }
    let (digits, wholes) = uint_text(whole);
    if let (Some(place), Some(digits)) =
        (text.get_mut(length..length + 16), digits.first_chunk::<16>())
    {
        place.copy_from_slice(digits);
    }
    length += wholes;
    if part != 0 {
        let digits = digits::eight(part);
        let decimals = (digits + digits::ZEROS).to_le_bytes();
        if let Some([point, place @ ..]) = text.get_mut(length..length + 9) {
            *point = b'.';
            place.copy_from_slice(&decimals);
        }
        length += 9 - (digits.leading_zeros() / 8) as usize;
    }
    (text, length)
}

/// Appends `value` × 10^-`places` with the decimals it has.
#[inline]
pub fn push_decimal(out: &mut Vec<u8>, value: i64, places: Places) {
    let (text, length) = decimal_text(value, places);
    out.extend_from_slice(text.get(..length).unwrap_or(&text));
}

/// Writes UTC time stamps in milliseconds; keeps the text of the second from one to the next.
#[derive(Clone, Debug)]
pub struct StampWriter {
    second: u64,
    /// `YYYYMMDD-HH:MM:S` of the second kept, as a word with its first character in the lowest
    /// byte.
    head: u128,
    /// The rest of the text: last digit of the second, `.000`, and the separator.
    tail: u64,
    text: [u8; 21],
}

impl Default for StampWriter {
    fn default() -> StampWriter {
        StampWriter { second: u64::MAX, head: 0, tail: 0, text: [0; 21] }
    }
}

impl StampWriter {
    /// The text of `at`, cut off to milliseconds, without a separator.
    #[inline]
    pub fn text(&mut self, at: Nanos) -> &[u8; 21] {
        let (head, tail) = self.words(at);
        let (first, last) = (head.to_le_bytes(), tail.to_le_bytes());
        for (place, byte) in self.text.iter_mut().zip(first.iter().chain(&last)) {
            *place = *byte;
        }
        &self.text
    }

    /// The text of a time and a separator behind it: the first sixteen bytes, then the other six,
    /// as words.
    #[inline]
    pub(crate) fn words(&mut self, at: Nanos) -> (u128, u64) {
        let second = at.0 / Nanos::SECOND;
        if second != self.second {
            self.set_second(second);
        }
        let ms = digits::four(((at.0 - second * Nanos::SECOND) / Nanos::MILLI) as u32);
        // Its first digit is 0 and lies where the point is.
        (self.head, self.tail + (u64::from(ms) << 8))
    }

    #[cold]
    fn set_second(&mut self, second: u64) {
        let (day, of_day) = (second / 86_400, second % 86_400);
        let (year, month, of_month) = civil_from_days(day);
        let (hour, minute, of_minute) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let digit = |value: u64| b'0' + (value % 10) as u8;
        let two = |value: u64| [digit(value / 10), digit(value)];
        let ([y, e], [a, r]) = (two(year / 100), two(year));
        let ([m, o], [d, t]) = (two(month), two(of_month));
        let ([h, i], [n, u], [s, c]) = (two(hour), two(minute), two(of_minute));
        self.head = u128::from_le_bytes([y, e, a, r, m, o, d, t, b'-', h, i, b':', n, u, b':', s]);
        self.tail = u64::from_le_bytes([c, b'.', b'0', b'0', b'0', SOH, 0, 0]);
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_strict() {
        assert_eq!(uint(b"0042"), Some(42));
        for bad in [&b""[..], b"+1", b" 1", b"1 ", b"1234567890123456789", b"-1"] {
            assert_eq!(uint(bad), None, "{bad:?}");
        }
        assert_eq!(int(b"-7"), Some(-7));
        assert_eq!(price(b"002000.00"), Some(Price(20_000_000)));
        assert_eq!(price(b"-.5"), Some(Price(-5_000)));
        assert_eq!(price(b"1.00010"), Some(Price(10_001)));
        for bad in [&b"1.00011"[..], b"1e5", b"+200.00", b".", b"-", b"1.2.3", b""] {
            assert_eq!(price(bad), None, "{bad:?}");
        }
        assert_eq!(qty(b"100.0"), Some(Qty(100)));
        assert_eq!(qty(b"100.5"), None);
        assert_eq!(qty(b"-1"), None);
        assert_eq!(price(&[b'9'; 32]), None);
    }

    #[test]
    fn short_numbers_are_read_as_long_ones_are() {
        let mut seed = types::SplitMix64::new(6);
        for round in 0..300_000 {
            let length = seed.next_u64() % 10;
            let one = |byte: u64| b"0123456789012345678900...-+ e:/\x01"[(byte % 32) as usize];
            let text: Vec<u8> = (0..length).map(|_| one(seed.next_u64() >> 20)).collect();
            let lots = decimal(&text, 0).and_then(|lots| u64::try_from(lots).ok()).map(Qty);
            assert_eq!(qty(&text), lots, "{round} {text:?}");
            assert_eq!(price(&text), decimal(&text, 4).map(Price), "{round} {text:?}");
            let plain = std::str::from_utf8(&text).unwrap().parse().ok();
            let digits = text.iter().all(u8::is_ascii_digit);
            assert_eq!(uint(&text), plain.filter(|_| digits), "{round} {text:?}");
        }
    }

    #[test]
    fn times_go_there_and_back() {
        let mut stamps = StampWriter::default();
        for text in ["19700101-00:00:00.000", "20000229-23:59:59.999", "20261122-03:04:05.678"] {
            let at = timestamp(text.as_bytes()).unwrap();
            assert_eq!(stamps.text(at), text.as_bytes());
        }
        for day in (0..60_000).step_by(17) {
            let text = *stamps.text(Nanos(day * DAY_NS + 1));
            assert_eq!(date(&text[..8]), Some(day));
        }
        let second = timestamp(b"20261122-03:04:05").unwrap();
        assert_eq!(timestamp(b"20261122-03:04:05.000000001").unwrap().0, second.0 + 1);
        assert_eq!(timestamp(b"25540721-23:34:33.709551615"), Some(Nanos::NEVER));
        assert_eq!(timestamp(b"25540722-00:00:00"), Some(Nanos::NEVER));
        assert_eq!(timestamp(b"99991231-23:59:60.999"), Some(Nanos::NEVER));
        for bad in [
            "20260229-00:00:00",
            "20261122",
            "20261122-24:00:00",
            "20261122 03:04:05",
            "20261122-03:04:05.",
            "20261322-03:04:05",
            "99990229-00:00:00",
            "99991231-24:00:00",
        ] {
            assert_eq!(timestamp(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn prices_print_the_decimals_they_have() {
        let print = |value, places| {
            let mut out = Vec::new();
            push_decimal(&mut out, value, places);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(print(783_505_000, Places::Four), "78350.5");
        assert_eq!(print(-1, Places::Four), "-0.0001");
        assert_eq!(print(1_000_000, Places::Four), "100");
        assert_eq!(print(333_333_333, Places::Eight), "3.33333333");
        assert_eq!(print(100_000_010, Places::Eight), "1.0000001");
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        let mut seed = types::SplitMix64::new(5);
        let edges = (0..20).flat_map(|power| [10u64.pow(power), 10u64.pow(power) - 1]);
        let random = (0..200_000).map(|_| seed.next_u64() >> (seed.next_u64() % 64));
        for value in edges.chain(0..20_000).chain([u64::MAX]).chain(random) {
            let mut out = b"x".to_vec();
            push_uint(&mut out, value);
            assert_eq!(out, format!("x{value}").into_bytes());
        }
    }
}
