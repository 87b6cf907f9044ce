//! Separators and the sum of a message's bytes, many bytes at a time in safe code.

use crate::frame::SOH;

/// Bytes that are looked at together.
pub(crate) const BLOCK: usize = 64;

/// Bit `n / 8` for byte `n` of a block.
const ROWS: [u8; BLOCK] = {
    let mut rows = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        rows[at] = 1 << (at / 8);
        at += 1;
    }
    rows
};

/// One bit for each byte of the block that is the separator, and the sum of all its bytes modulo
/// 256. Both loops are such that compilers make comparisons and additions of whole registers of
/// them, as long as nothing around gets in their way: hence a function of its own.
#[inline(never)]
pub(crate) fn look(block: &[u8; BLOCK]) -> (u64, u8) {
    let mut bits = [0; BLOCK];
    for ((bit, byte), row) in bits.iter_mut().zip(block).zip(&ROWS) {
        *bit = if *byte == SOH { *row } else { 0 };
    }
    let (words, _) = bits.as_chunks::<8>();
    let columns = words.iter().fold(0, |all, word| all | u64::from_le_bytes(*word));
    let sum = block.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    // Bit n of byte m is byte m of word n: mirrored at the diagonal, bits are in order.
    (mirrored(columns), sum as u8)
}

/// Windows of a block on this keep as many bytes at their end as they begin at.
const KEPT: [u8; 2 * BLOCK] = {
    let mut kept = [0; 2 * BLOCK];
    let mut at = BLOCK;
    while at < 2 * BLOCK {
        kept[at] = u8::MAX;
        at += 1;
    }
    kept
};

/// [`look`] at the last `rest` bytes of `whole`, fewer than a block.
#[inline]
pub(crate) fn look_last(whole: &[u8], rest: usize) -> (u64, u8) {
    let rest = rest % BLOCK;
    let kept = KEPT.get(rest..).and_then(<[u8]>::first_chunk::<BLOCK>);
    let (Some(last), Some(kept)) = (whole.last_chunk::<BLOCK>(), kept) else {
        return look_short(whole);
    };
    let (found, sum) = look_kept(last, kept);
    // Nothing is kept when there is no rest.
    (found >> ((BLOCK - rest) % BLOCK), sum)
}

/// [`look`] at the bytes that `kept` has all bits set for.
#[inline(never)]
fn look_kept(block: &[u8; BLOCK], kept: &[u8; BLOCK]) -> (u64, u8) {
    let mut bits = [0; BLOCK];
    for (((bit, byte), row), kept) in bits.iter_mut().zip(block).zip(&ROWS).zip(kept) {
        *bit = if *byte & *kept == SOH { *row } else { 0 };
    }
    let (words, _) = bits.as_chunks::<8>();
    let columns = words.iter().fold(0, |all, word| all | u64::from_le_bytes(*word));
    let sum = block.iter().zip(kept).map(|(&byte, &kept)| u64::from(byte & kept)).sum::<u64>();
    (mirrored(columns), sum as u8)
}

/// [`look`] at less than a block.
#[cold]
fn look_short(whole: &[u8]) -> (u64, u8) {
    let mut block = [0; BLOCK];
    if let Some(place) = block.get_mut(..whole.len()) {
        place.copy_from_slice(whole);
    }
    look(&block)
}

/// Eight rows of eight bits mirrored at the diagonal ("Hacker's Delight" 7-3): blocks of one, two
/// and four bits trade places.
#[inline(always)]
fn mirrored(rows: u64) -> u64 {
    let trade = |rows: u64, shift: u32, mask: u64| {
        let moved = (rows ^ (rows >> shift)) & mask;
        rows ^ moved ^ (moved << shift)
    };
    let rows = trade(rows, 7, 0x00aa_00aa_00aa_00aa);
    let rows = trade(rows, 14, 0x0000_cccc_0000_cccc);
    trade(rows, 28, 0x0000_0000_f0f0_f0f0)
}

/// Sum of all bytes modulo 256, as CheckSum(10) wants it.
pub fn checksum(bytes: &[u8]) -> u8 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let (lanes, rest) = rest.as_chunks::<LANE>();
    let all = blocks.iter().fold(0u8, |all, block| all.wrapping_add(sum(block)));
    let all = lanes.iter().fold(all, |all, lane| all.wrapping_add(sum(lane)));
    let last = match bytes.last_chunk::<LANE>() {
        // Without what has been added already.
        Some(last) => u128::from_le_bytes(*last).checked_shr((LANE - rest.len()) as u32 * 8),
        None => Some(rest.iter().fold(0, |word, &byte| word << 8 | u128::from(byte))),
    };
    all.wrapping_add(last.map_or(0, |last| sum(&last.to_le_bytes())))
}

/// Bytes that fill a register.
const LANE: usize = 16;

/// Sum of all bytes modulo 256. A function of its own for the same reason as [`look`].
#[inline(never)]
fn sum<const N: usize>(bytes: &[u8; N]) -> u8 {
    bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes with many separators and their like among them.
    fn bytes(seed: &mut types::SplitMix64, length: usize) -> Vec<u8> {
        let byte = |n: u64| match n % 4 {
            0 => SOH,
            1 => [0, 2, 0x81, 0xff][(n >> 8) as usize % 4],
            _ => (n >> 16) as u8,
        };
        (0..length).map(|_| byte(seed.next_u64())).collect()
    }

    #[test]
    fn every_separator_is_found_and_every_byte_counted() {
        let mut seed = types::SplitMix64::new(11);
        for round in 0..20_000 {
            let bytes = bytes(&mut seed, round % 200);
            let (blocks, rest) = bytes.as_chunks::<BLOCK>();
            let mut found: Vec<u64> = blocks.iter().map(|block| look(block).0).collect();
            found.push(look_last(&bytes, rest.len()).0);
            let bit = |at: usize| found[at / BLOCK] >> (at % BLOCK) & 1 == 1;
            assert!((0..bytes.len()).all(|at| bit(at) == (bytes[at] == SOH)), "{round} {bytes:?}");
            let all = found.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            assert_eq!(all, bytes.iter().filter(|&&byte| byte == SOH).count(), "{round}");
            let expected = bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte));
            assert_eq!(checksum(&bytes), expected, "{round}");
        }
    }
}
