//! The decoder generated from a [`Format`].
//!
//! The stop bits of a packet are gathered into words first. A message's presence map then says
//! which slots its fields go to and the stop bits where they are, so that neither waits for the
//! other and nothing is read byte by byte. Messages with repetitions or long texts, and whatever is
//! odd, go field by field and have their errors told there.
//!
//! An error ends the packet, since previous values may be wrong from there on; the next packet
//! starts afresh. Work is at most a constant per byte, and nothing is allocated once a packet with
//! the most repetitions has been seen.

use std::marker::PhantomData;

use super::bmi;
use super::plan::{Plan, Way, bit};
use super::{Category, Description, Format, Kind, More};
use crate::error::{Code, ErrorCounts};

/// Bytes of the longest packet.
pub const PACKET_MAX: usize = 2_048;
/// What is read beyond the end of a packet.
const SLACK: usize = 64;
const WORDS: usize = PACKET_MAX / 64 + 2;
const STOPS: u64 = 0x8080_8080_8080_8080;

/// What a packet was.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packet {
    /// Sequence number of the first message, where the header has it.
    pub sequence: u64,
    /// Messages in it.
    pub messages: u32,
}

/// Where messages go.
pub trait SlotSink {
    /// The next message.
    fn message(&mut self, message: &Message<'_>);
}

/// A message with all values filled in.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its category.
    pub category: u8,
    /// Slots it has, slot 0 in the highest bit.
    pub slots: u64,
    /// Values by slot: numbers, short texts as numbers, long texts as places. Those that the
    /// message does not have are of earlier messages.
    pub values: &'a [u64; 64],
    /// Values of repeated slots, repetition by repetition.
    pub repeated: &'a [u64],
    /// Slots repeated.
    pub repeated_slots: &'static [u8],
    packet: &'a [u8],
}

impl<'a> Message<'a> {
    /// Whether it has a slot.
    #[inline(always)]
    pub fn has(&self, slot: usize) -> bool {
        self.slots << slot >> 63 == 1
    }

    /// A number; 0 where the message does not have it.
    #[inline(always)]
    pub fn number(&self, slot: usize) -> u32 {
        if self.has(slot) { self.values.get(slot).map_or(0, |&value| value as u32) } else { 0 }
    }

    /// A short text as a number, first character highest; 0 where the message does not have it.
    #[inline(always)]
    pub fn short(&self, slot: usize) -> u64 {
        if self.has(slot) { self.values.get(slot).copied().unwrap_or(0) } else { 0 }
    }

    /// The characters of a long text.
    pub fn long(&self, slot: usize) -> impl Iterator<Item = u8> + use<'a> {
        let place = self.short(slot);
        let (start, len) = ((place >> 16) as usize, (place & 0xFFFF) as usize);
        let bytes = self.packet.get(start..start + len).unwrap_or(&[]);
        bytes.iter().map(|byte| byte & 0x7F)
    }
}

/// The characters of a short text.
pub(crate) fn characters(text: u64) -> impl Iterator<Item = u8> {
    text.to_be_bytes().into_iter().skip_while(|&byte| byte == 0)
}

/// A decoder of packets of one format.
#[derive(Debug)]
pub struct SlotDecoder<F> {
    bytes: Box<[u8; PACKET_MAX + SLACK]>,
    /// One bit for each byte of the packet: it is the last of its field.
    stops: [u64; WORDS],
    values: [u64; 64],
    /// Slots with a previous value.
    defined: u64,
    repeated: Vec<u64>,
    repeated_slots: &'static [u8],
    counts: ErrorCounts,
    format: PhantomData<F>,
}

impl<F: Description> Default for SlotDecoder<F> {
    fn default() -> SlotDecoder<F> {
        SlotDecoder {
            bytes: Box::new([0; PACKET_MAX + SLACK]),
            stops: [0; WORDS],
            values: [0; 64],
            defined: 0,
            repeated: Vec::new(),
            repeated_slots: &[],
            counts: ErrorCounts::default(),
            format: PhantomData,
        }
    }
}

impl<F: Description> SlotDecoder<F> {
    const FORMAT: Format = F::FORMAT;
    const PLAN: &'static Plan = &Plan::of(&F::FORMAT);

    /// Errors so far.
    pub fn counts(&self) -> &ErrorCounts {
        &self.counts
    }

    /// Decodes a packet and hands its messages to the sink.
    ///
    /// # Errors
    /// Framing, and what is wrong with a message; the messages before it have been handed over.
    #[inline]
    pub fn packet<S: SlotSink>(&mut self, packet: &[u8], sink: &mut S) -> Result<Packet, Code> {
        let outcome = bmi::whole(self, packet, sink);
        if let Err(code) = outcome {
            self.counts.add(code);
        }
        outcome
    }

    #[inline(always)]
    pub(super) fn whole<const BMI: bool, S: SlotSink>(
        &mut self,
        packet: &[u8],
        sink: &mut S,
    ) -> Result<Packet, Code> {
        let (head, last) = header(&Self::FORMAT, packet)?;
        self.load(packet)?;
        self.defined = 0;
        // Of a packet that ended inside a message.
        self.repeated_slots = &[];
        let mut at = Self::FORMAT.framing.header();
        let mut messages = 0;
        while at < last {
            let start = at + 1;
            let end = match self.bytes[at & (PACKET_MAX - 1)] {
                255 => last,
                length => start + usize::from(length),
            };
            if end > last || start >= end {
                return Err(Code::Framing);
            }
            let (category, slots) = match self.plain::<BMI>(start, end) {
                Some(done) => done,
                None => self.careful(start, end)?,
            };
            sink.message(&Message {
                category,
                slots,
                values: &self.values,
                repeated: &self.repeated,
                repeated_slots: self.repeated_slots,
                packet: &self.bytes[..],
            });
            self.repeated_slots = &[];
            messages += 1;
            at = end;
        }
        if Self::FORMAT.framing.version.is_some() && head.messages != messages {
            return Err(Code::Framing);
        }
        Ok(Packet { sequence: head.sequence, messages })
    }

    /// Copies the packet to where reading beyond its end is harmless, and gathers the stop bits.
    /// What lies behind it is of earlier packets and never becomes part of a value.
    #[inline(always)]
    fn load(&mut self, packet: &[u8]) -> Result<(), Code> {
        let room = self.bytes.get_mut(..packet.len()).ok_or(Code::Limit)?;
        room.copy_from_slice(packet);
        let chunks = self.bytes.chunks_exact(64).take(packet.len() / 64 + 1);
        for (word, chunk) in self.stops.iter_mut().zip(chunks) {
            *word = stops(chunk);
        }
        Ok(())
    }

    /// A message of a plain category without anything odd in it. Otherwise nothing is changed but
    /// values that the message has itself.
    #[inline(always)]
    fn plain<const BMI: bool>(&mut self, start: usize, end: usize) -> Option<(u8, u64)> {
        let plan = Self::PLAN;
        let len = end - start;
        if len > 64 {
            return None;
        }
        // Stop bits of the message, its first byte lowest; the last byte must be one.
        let (word, shift) = (start / 64 % (WORDS - 1), start % 64);
        let window = self.stops[word] >> shift | self.stops[word + 1] << 1 << (63 - shift);
        let mut window = window & (u64::MAX >> (64 - len));
        let map_len = window.trailing_zeros() as usize + 1;
        if window >> (len - 1) == 0 || map_len > 8 {
            return None;
        }
        window &= window - 1;
        let map = bmi::gather::<BMI>(load(&self.bytes, start) >> (64 - 8 * map_len));
        let present = map << (64 - 7 * map_len);
        let mut left = present;
        let mut from = map_len;
        let mut category = self.values[Self::FORMAT.category as usize];
        let category_bit = bit(Self::FORMAT.category);
        if left & category_bit != 0 {
            if window >> from & 1 == 0 {
                return None;
            }
            category = u64::from(self.bytes[(start + from) & (PACKET_MAX - 1)] & 0x7F);
            window &= window - 1;
            from += 1;
            left ^= category_bit;
        }
        let entry = &plan.entries[(category & 127) as usize];
        if entry.way != Way::Plain {
            return None;
        }
        let mut wide = 0;
        while window != 0 {
            if left == 0 {
                return None;
            }
            let slot = left.leading_zeros();
            let until = window.trailing_zeros() as usize;
            let width = until + 1 - from;
            if width > 8 {
                return None;
            }
            left ^= 1 << 63 >> slot;
            window &= window - 1;
            let raw = load(&self.bytes, start + from) >> (64 - 8 * width) & !STOPS;
            from = until + 1;
            let text = ((plan.texts << slot) as i64 >> 63) as u64;
            let number = bmi::gather::<BMI>(raw);
            wide |= number & !text;
            self.values[(slot & 63) as usize] = raw & text | number & !text;
        }
        let defined = self.defined | present;
        let mut slots = entry.slots;
        if entry.appended {
            slots |= plan.appendages[(self.values[plan.appendage_by & 63] & 127) as usize];
        }
        // Numbers that are too large, fields missing or too many, values never sent.
        if wide >> 32 != 0 || left != 0 || present & !slots != 0 || slots & !defined != 0 {
            return None;
        }
        let mut increments = plan.increments & entry.slots & !present;
        while increments != 0 {
            let slot = increments.leading_zeros();
            increments ^= 1 << 63 >> slot;
            let value = &mut self.values[(slot & 63) as usize];
            *value = u64::from((*value as u32).wrapping_add(1));
        }
        self.values[Self::FORMAT.category as usize] = category;
        self.defined = defined;
        Some((category as u8, slots))
    }

    /// A message field by field, in the order of the description.
    #[inline(never)]
    fn careful(&mut self, start: usize, end: usize) -> Result<(u8, u64), Code> {
        let mut at = start;
        let present = self.map(&mut at, end)?;
        let category_slot = Self::FORMAT.category;
        self.repeated.clear();
        self.repeated_slots = &[];
        self.field(category_slot, present, &mut at, end)?;
        let code = self.values[category_slot as usize];
        let code = u8::try_from(code).map_err(|_| Code::D2)?;
        let category = Self::FORMAT.categories.iter().find(|category| category.code == code);
        let listed = category.map_or(Self::FORMAT.other, |category| category.slots);
        let mut slots = 0;
        for &slot in listed {
            slots |= bit(slot);
            if slot != category_slot {
                self.field(slot, present, &mut at, end)?;
            }
        }
        if let Some(category) = category {
            slots |= self.more(category, present, &mut at, end)?;
        }
        if present & !slots != 0 {
            return Err(Code::R8);
        }
        if at != end {
            return Err(Code::Framing);
        }
        Ok((code, slots))
    }

    /// What follows the fields of a category; the slots it had.
    fn more(
        &mut self,
        category: &Category,
        present: u64,
        at: &mut usize,
        end: usize,
    ) -> Result<u64, Code> {
        let mut slots = 0;
        match &category.more {
            More::Nothing => {}
            More::Appendage(appendage) => {
                let by = self.values[appendage.by as usize];
                let case = appendage.cases.iter().find(|(values, _)| is_one_of(values, by));
                for &slot in case.ok_or(Code::D11)?.1 {
                    slots |= bit(slot);
                    self.field(slot, present, at, end)?;
                }
            }
            More::Repeat(repeat) => {
                let by = self.values[repeat.by as usize];
                let case = repeat.cases.iter().find(|(values, _, _)| is_one_of(values, by));
                let &(_, count, repeated) = case.ok_or(Code::D11)?;
                slots |= bit(count);
                self.field(count, present, at, end)?;
                let times = self.values[count as usize];
                if times > repeat.most {
                    return Err(Code::Limit);
                }
                self.repeated_slots = repeated;
                for _ in 0..times {
                    for &slot in repeated {
                        slots |= bit(slot);
                        self.field(slot, present, at, end)?;
                        self.repeated.push(self.values[slot as usize]);
                    }
                }
            }
        }
        Ok(slots)
    }

    /// A presence map.
    fn map(&self, at: &mut usize, end: usize) -> Result<u64, Code> {
        let (start, len) = self.entity(at, end)?;
        let bytes = &self.bytes[start..start + len];
        if len > 9 {
            return Err(Code::R8);
        }
        let map = bytes.iter().fold(0_u64, |map, byte| map << 7 | u64::from(byte & 0x7F));
        Ok(map << (64 - 7 * len))
    }

    /// Start and length of a stop-bit entity; goes past it.
    fn entity(&self, at: &mut usize, end: usize) -> Result<(usize, usize), Code> {
        let rest = self.bytes.get(*at..end).ok_or(Code::Truncated)?;
        let last = rest.iter().position(|byte| byte & 0x80 != 0).ok_or(Code::Truncated)?;
        let start = *at;
        *at += last + 1;
        Ok((start, last + 1))
    }

    /// A field from the stream, or from its previous value.
    fn field(&mut self, slot: u8, present: u64, at: &mut usize, end: usize) -> Result<(), Code> {
        let mask = bit(slot);
        let index = slot as usize;
        if present & mask == 0 {
            if self.defined & mask == 0 {
                return Err(Code::D5);
            }
            if Self::PLAN.increments & mask != 0 {
                self.values[index] = u64::from((self.values[index] as u32).wrapping_add(1));
            }
            return Ok(());
        }
        let (start, len) = self.entity(at, end)?;
        let bytes = &self.bytes[start..start + len];
        self.values[index] = match Self::FORMAT.slots[index].kind {
            Kind::Number => {
                // An overlong number is harmless, a wide one is not.
                let fold = |value: u64, byte: &u8| {
                    value.saturating_mul(128).saturating_add(u64::from(byte & 0x7F))
                };
                let value = bytes.iter().fold(0, fold);
                u64::from(u32::try_from(value).map_err(|_| Code::D2)?)
            }
            Kind::Short if len > 8 => return Err(Code::Limit),
            Kind::Short => bytes.iter().fold(0, |text, byte| text << 8 | u64::from(byte & 0x7F)),
            Kind::Long => (start << 16 | len) as u64,
        };
        self.defined |= mask;
        Ok(())
    }
}

fn is_one_of(values: &[u8], value: u64) -> bool {
    values.iter().any(|&known| u64::from(known) == value)
}

/// What the header of a packet says, for whoever puts packets in sequence before decoding them.
///
/// # Errors
/// Framing: start, end, version, digits; [`Code::Limit`] for a packet that is too long.
pub fn packet_header<F: Description>(packet: &[u8]) -> Result<Packet, Code> {
    header(&F::FORMAT, packet).map(|(head, _)| head)
}

/// Checks start, end and header; the header and where the last byte is.
#[inline(always)]
fn header(format: &Format, packet: &[u8]) -> Result<(Packet, usize), Code> {
    let framing = &format.framing;
    let (Some(&first), Some(&end)) = (packet.first(), packet.last()) else {
        return Err(Code::Framing);
    };
    if first != framing.start || end != framing.end || packet.len() <= framing.header() {
        return Err(Code::Framing);
    }
    if packet.len() > PACKET_MAX {
        return Err(Code::Limit);
    }
    let mut head = Packet::default();
    if let Some(version) = framing.version {
        let (&byte, rest) = packet[1..].split_first().ok_or(Code::Framing)?;
        if byte != version {
            return Err(Code::Framing);
        }
        let (sequence, rest) =
            rest.split_at_checked(framing.sequence_digits).ok_or(Code::Framing)?;
        let (count, _) = rest.split_at_checked(framing.count_digits).ok_or(Code::Framing)?;
        head.sequence = digits(sequence)?;
        head.messages = digits(count)? as u32;
    }
    Ok((head, packet.len() - 1))
}

#[inline(always)]
fn digits(bytes: &[u8]) -> Result<u64, Code> {
    let mut number = 0_u64;
    for &byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Code::Framing);
        }
        number = number.wrapping_mul(10) + u64::from(digit);
    }
    Ok(number)
}

/// Eight bytes at a place, the first one highest.
#[inline(always)]
fn load(bytes: &[u8; PACKET_MAX + SLACK], at: usize) -> u64 {
    let at = at & (PACKET_MAX - 1);
    bytes[at..].first_chunk::<8>().map_or(0, |chunk| u64::from_be_bytes(*chunk))
}

/// The stop bits of 64 bytes, the first one lowest.
#[inline(always)]
fn stops(bytes: &[u8]) -> u64 {
    let mut all = 0;
    for (at, eight) in bytes.chunks_exact(8).enumerate() {
        let word = eight.first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        // Bit 7 of byte i goes to bit 56 + i, and all others away.
        all |= ((word & STOPS).wrapping_mul(0x0002_0408_1020_4081) >> 56) << (8 * at);
    }
    all
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
            let slow = bytes.iter().fold(0_u64, |sum, byte| sum << 7 | u64::from(byte & 0x7F));
            assert_eq!(bmi::gather::<false>(word & !STOPS), slow);
            let block: Vec<u8> = (0..8).flat_map(|_| bytes).collect();
            let slow = block.iter().rev().fold(0, |sum, byte| sum << 1 | u64::from(byte >> 7));
            assert_eq!(stops(&block), slow);
        }
    }
}
