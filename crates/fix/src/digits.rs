//! Numbers and short texts held in one machine word, with the first character in the lowest byte
//! and zeros after the last, so that they are read and appended in one operation.

/// A word with the character `0` in each of its eight bytes.
pub(crate) const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// The eight decimal digits of `value`, which is below 10^8: the first in the lowest byte, each a
/// number from 0 to 9. Two halves, then pairs, then digits are split side by side in one word,
/// each division a multiplication exact for its range.
#[inline(always)]
pub(crate) fn eight(value: u64) -> u64 {
    let halves = (value / 10_000) | ((value % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let pairs = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

/// The four decimal digits of `value`, which is below 10^4; as [`eight`].
#[inline(always)]
pub(crate) fn four(value: u32) -> u32 {
    let hundreds = (value * 5_243) >> 19;
    let pairs = hundreds | ((value - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

/// The decimal text of a value below 10^8, and its length (1..=8).
#[inline(always)]
pub(crate) fn uint(value: u32) -> (u64, u32) {
    if value < 10_000 {
        let digits = four(value);
        // The last digit stays, be it zero.
        let leading = (digits.trailing_zeros() / 8).min(3);
        (u64::from((digits + ZEROS as u32) >> (8 * leading)), 4 - leading)
    } else {
        let digits = eight(u64::from(value));
        let leading = digits.trailing_zeros() / 8;
        ((digits + ZEROS) >> ((8 * leading) % 64), 8 - leading)
    }
}

/// A text of one to eight bytes as a word; `None` for another length.
#[inline(always)]
pub(crate) fn short(text: &[u8]) -> Option<u64> {
    let length = text.len();
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // Where they overlap they are the same.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        let last = u64::from(last).checked_shl(8 * (length as u32 - 4)).filter(|_| length <= 8)?;
        return Some(u64::from(first) | last);
    }
    let at = |index: usize| text.get(index).map(|&byte| u64::from(byte) << (8 * (index % 8)));
    Some(at(0)? | at(length / 2)? | at(length - 1)?)
}

/// The number that the first `length` (1..=8) bytes of `text` spell; `None` when one is not a
/// digit.
#[inline(always)]
pub(crate) fn read(text: u64, length: usize) -> Option<u64> {
    // Leading zeros come in at the low end.
    let digits = (text ^ ZEROS).checked_shl(64 - 8 * length as u32)?;
    if (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xf0f0_f0f0_f0f0_f0f0 != 0 {
        return None;
    }
    // Digits, pairs and fours side by side; the first has the lowest place in the word.
    let pairs = (digits.wrapping_mul(0x0a01) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(0x0064_0001) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(0x2710_0000_0001) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_the_standard_library_writes() {
        let mut seed = types::SplitMix64::new(31);
        let edges = (0..8).flat_map(|power| [10u32.pow(power), 10u32.pow(power) - 1]);
        let random = (0..100_000).map(|_| (seed.next_u64() % 100_000_000) as u32);
        for value in edges.chain(0..20_000).chain(random) {
            let text = value.to_string();
            let (word, length) = uint(value);
            assert_eq!(length as usize, text.len(), "{value}");
            assert_eq!(short(text.as_bytes()), Some(word), "{value}");
            assert_eq!(read(word, text.len()), Some(u64::from(value)));
        }
        assert_eq!((short(b""), short(b"123456789")), (None, None));
        for bad in ["a", "1:", "/1", "12 ", "1.23", "-1234567", "1234567\u{1}"] {
            assert_eq!(read(short(bad.as_bytes()).unwrap(), bad.len()), None, "{bad}");
        }
        for length in 1..=8usize {
            let text: Vec<u8> = (0..length as u8).map(|at| 0xf8 | at).collect();
            let mut wide = text.clone();
            wide.resize(8, 0);
            assert_eq!(short(&text), Some(u64::from_le_bytes(wide.try_into().unwrap())));
        }
    }
}
