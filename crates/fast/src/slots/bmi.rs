//! The decoder compiled a second time for processors with bit manipulation instructions.
//!
//! Gathering the seven-bit groups of a field is one instruction there instead of twelve, and finding
//! the next bit one instead of three; the code is the same otherwise. Which one runs is asked of the
//! processor at every packet, which is a load and a test.

#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use super::plan::SEVENS;
use super::{Description, Packet, SlotDecoder, SlotSink};
use crate::error::Code;

/// Decodes a packet with the best instructions that the processor has.
#[inline(always)]
pub(super) fn whole<F: Description, S: SlotSink>(
    decoder: &mut SlotDecoder<F>,
    packet: &[u8],
    sink: &mut S,
) -> Result<Packet, Code> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("movbe")
    {
        // SAFETY: the features the function was compiled for have just been seen.
        return unsafe { with_instructions(decoder, packet, sink) };
    }
    decoder.whole::<false, true, S>(packet, sink)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt,movbe")]
fn with_instructions<F: Description, S: SlotSink>(
    decoder: &mut SlotDecoder<F>,
    packet: &[u8],
    sink: &mut S,
) -> Result<Packet, Code> {
    decoder.whole::<true, true, S>(packet, sink)
}

/// The low bits of a word, at most 64. `BMI` only inside [`with_instructions`].
#[inline(always)]
pub(super) fn low<const BMI: bool>(word: u64, bits: usize) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if BMI {
        // SAFETY: `BMI` is true in code reached from `with_instructions` only, which runs where the
        // processor has been seen to have BMI2; the instruction touches no memory.
        return unsafe { std::arch::x86_64::_bzhi_u64(word, bits as u32) };
    }
    word & 1_u64.checked_shl(bits as u32).map_or(u64::MAX, |above| above - 1)
}

/// Of the low bits of a word without stop bits those in a mask, put together: [`SEVENS`] for a
/// number, all for a text. `BMI` only inside [`with_instructions`].
#[inline(always)]
pub(super) fn extract<const BMI: bool>(word: u64, mask: u64, bits: usize) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if BMI {
        // SAFETY: as in `low`.
        return unsafe { std::arch::x86_64::_pext_u64(word, low::<BMI>(mask, bits)) };
    }
    let text = low::<BMI>(word, bits);
    let word = text & 0x007F_007F_007F_007F | (text & 0x7F00_7F00_7F00_7F00) >> 1;
    let word = word & 0x0000_3FFF_0000_3FFF | (word & 0x3FFF_0000_3FFF_0000) >> 2;
    let number = word & 0x0FFF_FFFF | (word & 0x0FFF_FFFF_0000_0000) >> 4;
    if mask == SEVENS { number } else { text }
}

/// The stop bits of 16 bytes, that of the lowest one lowest.
#[inline(always)]
pub(super) fn stops(bytes: u128) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_movemask_epi8, _mm_set_epi64x};
        // SAFETY: SSE2 belongs to x86-64; the instructions touch no memory.
        unsafe { _mm_movemask_epi8(_mm_set_epi64x((bytes >> 64) as i64, bytes as i64)) as u16 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    gathered_stops(bytes)
}

/// As [`stops`], without the instruction.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn gathered_stops(all: u128) -> u16 {
    // Bit 7 of byte i goes to bit 56 + i, and all others away.
    let eight = |word: u64| (word & !SEVENS).wrapping_mul(0x0002_0408_1020_4081) >> 56;
    (eight(all as u64) | eight((all >> 64) as u64) << 8) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_gathered_as_byte_by_byte() {
        let mut word = 1_u64;
        for _ in 0..1_000 {
            word = word.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ 0x55;
            let bytes = word.to_be_bytes();
            for width in 1..=8 {
                let field = &bytes[8 - width..];
                let number =
                    field.iter().fold(0_u64, |sum, byte| sum << 7 | u64::from(byte & 0x7F));
                let text = field.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(byte & 0x7F));
                assert_eq!(extract::<false>(word & SEVENS, SEVENS, 8 * width), number);
                assert_eq!(extract::<false>(word & SEVENS, u64::MAX, 8 * width), text);
            }
            let block: [u8; 16] =
                std::array::from_fn(|at| bytes[at % 8].rotate_left(at as u32 / 8));
            let slow = block.iter().rev().fold(0, |sum, byte| sum << 1 | u16::from(byte >> 7));
            assert_eq!(stops(u128::from_le_bytes(block)), slow);
            assert_eq!(gathered_stops(u128::from_le_bytes(block)), slow);
        }
    }
}
