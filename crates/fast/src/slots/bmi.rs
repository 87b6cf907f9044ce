//! The decoder compiled a second time for processors with bit manipulation instructions.
//!
//! Gathering the seven-bit groups of a field is one instruction there instead of twelve, and finding
//! the next bit one instead of three; the code is the same otherwise. Which one runs is asked of the
//! processor at every packet, which is a load and a test.

#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use super::{Description, Packet, SlotDecoder, SlotSink};
use crate::error::Code;

/// Decodes a packet with whatever the processor has.
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
    {
        // SAFETY: the features the function was compiled for have just been seen.
        return unsafe { with_instructions(decoder, packet, sink) };
    }
    decoder.whole::<false, S>(packet, sink)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt")]
fn with_instructions<F: Description, S: SlotSink>(
    decoder: &mut SlotDecoder<F>,
    packet: &[u8],
    sink: &mut S,
) -> Result<Packet, Code> {
    decoder.whole::<true, S>(packet, sink)
}

/// The low seven bits of eight bytes, put together to 56. `BMI` only inside
/// [`with_instructions`].
#[inline(always)]
pub(super) fn gather<const BMI: bool>(word: u64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if BMI {
        // SAFETY: `BMI` is true in code reached from `with_instructions` only, which runs where the
        // processor has been seen to have BMI2; the instruction touches no memory.
        return unsafe { std::arch::x86_64::_pext_u64(word, 0x7F7F_7F7F_7F7F_7F7F) };
    }
    let word = word & 0x007F_007F_007F_007F | (word & 0x7F00_7F00_7F00_7F00) >> 1;
    let word = word & 0x0000_3FFF_0000_3FFF | (word & 0x3FFF_0000_3FFF_0000) >> 2;
    word & 0x0FFF_FFFF | (word & 0x0FFF_FFFF_0000_0000) >> 4
}
