//! The decoder generated from a [`Format`].
//!
//! The stop bits of a packet are gathered first, and taken off its bytes. A message's presence map
//! then says which slots its fields go to and the stop bits where they are, so that neither waits
//! for the other and nothing is read byte by byte: a field is the eight bytes that end with it, and
//! what its slot's mask and its width leave of them. The packet lies backwards for that, and is read
//! so, which makes the next field and the next slot the lowest bit of each word. What could go wrong with a field is asked of
//! the whole message before and after. Messages with repetitions or long texts, and whatever is
//! odd, go field by field and have their errors told there.
//!
//! An error ends the packet, since previous values may be wrong from there on; the next packet
//! starts afresh. Work is at most a constant per byte, and nothing is allocated once a packet with
//! the most repetitions has been seen.

use std::marker::PhantomData;
use std::num::NonZeroU64;

use super::bmi;
use super::plan::{Plan, SEVENS, bit};
use super::{Category, Description, Format, Kind, More};
use crate::error::{Code, ErrorCounts};

/// Length of the longest packet, bytes.
pub const PACKET_MAX: usize = 2_048;
/// Bytes of the longest message that is decoded at once: its stop bits are in the eight bytes that
/// begin with those of its last byte.
const MESSAGE_MAX: usize = 57;
/// Bytes that may be read for a message: eight from each of 64 offsets.
const READ: usize = 64 + 8;
/// Bytes of a packet and of what is read beyond it, a multiple of 16.
const ROOM: usize = (PACKET_MAX + READ).next_multiple_of(16);

/// The header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Packet {
    /// Sequence number of the first message; 0 where the format has no header.
    pub sequence: u64,
    /// Number of messages in the packet.
    pub messages: u32,
}

/// Receives the messages of packets as they are decoded.
pub trait SlotSink {
    /// The next message of the packet, with all its values.
    fn message(&mut self, message: &Message<'_>);
}

/// A message with all values filled in.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Code of the message's category.
    pub category: u8,
    /// Slots that the message has, slot 0 in the highest bit.
    pub slots: u64,
    /// Values by slot: numbers, short texts as numbers, long texts as places. Those that the
    /// message does not have are of earlier messages.
    pub values: &'a [u64; 64],
    /// Values of the repeated slots, one repetition after the other.
    pub repeated: &'a [u64],
    /// Slots that are repeated, in their order.
    pub repeated_slots: &'static [u8],
    packet: &'a [u8],
}

impl<'a> Message<'a> {
    /// Whether the message has a value in this slot.
    #[inline(always)]
    pub fn has(&self, slot: usize) -> bool {
        self.slots << slot >> 63 == 1
    }

    /// Value of a number slot; 0 where the message does not have the slot.
    #[inline(always)]
    pub fn number(&self, slot: usize) -> u32 {
        if self.has(slot) { self.values.get(slot).map_or(0, |&value| value as u32) } else { 0 }
    }

    /// Value of a short text slot as a number, first character highest; 0 where the message does
    /// not have the slot.
    #[inline(always)]
    pub fn short(&self, slot: usize) -> u64 {
        if self.has(slot) { self.values.get(slot).copied().unwrap_or(0) } else { 0 }
    }

    /// Characters of a long text slot.
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
    /// The packet backwards, without stop bits: its last byte is the first one here.
    bytes: Box<[u8; ROOM]>,
    /// One bit for each of them: it is the last of its field.
    stops: [u8; ROOM / 8],
    values: [u64; 64],
    /// Slots that have a previous value, slot 0 in the highest bit.
    defined: u64,
    repeated: Vec<u64>,
    counts: ErrorCounts,
    format: PhantomData<F>,
}

impl<F: Description> Default for SlotDecoder<F> {
    fn default() -> SlotDecoder<F> {
        SlotDecoder {
            bytes: Box::new([0; ROOM]),
            stops: [0; ROOM / 8],
            values: [0; 64],
            defined: 0,
            repeated: Vec::new(),
            counts: ErrorCounts::default(),
            format: PhantomData,
        }
    }
}

impl<F: Description> SlotDecoder<F> {
    const FORMAT: Format = F::FORMAT;
    const PLAN: &'static Plan = &Plan::of(&F::FORMAT);

    /// Number of errors so far, by code.
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

    /// With the instructions that `BMI` stands for, and messages at once where they can be; otherwise,
    /// for tests, field by field throughout.
    #[inline(always)]
    pub(super) fn whole<const BMI: bool, const ONCE: bool, S: SlotSink>(
        &mut self,
        packet: &[u8],
        sink: &mut S,
    ) -> Result<Packet, Code> {
        let (head, last) = header(&Self::FORMAT, packet)?;
        self.load(packet);
        self.defined = 0;
        let mut at = Self::FORMAT.framing.header();
        let mut messages = 0;
        while at < last {
            let start = at + 1;
            let end = match packet[at] {
                255 => last,
                length => start + usize::from(length),
            };
            if end > last || start >= end {
                return Err(Code::Framing);
            }
            let (behind, len) = (packet.len() - end, end - start);
            let plain = if ONCE { self.plain::<BMI>(behind, len) } else { None };
            let (category, slots, repeated_slots) = match plain {
                Some((category, slots)) => (category, slots, &[][..]),
                None => self.careful(packet, start, end)?,
            };
            sink.message(&Message {
                category,
                slots,
                values: &self.values,
                repeated: &self.repeated,
                repeated_slots,
                packet,
            });
            messages += 1;
            at = end;
        }
        if Self::FORMAT.framing.version.is_some() && head.messages != messages {
            return Err(Code::Framing);
        }
        Ok(Packet { sequence: head.sequence, messages })
    }

    /// Copies the packet backwards to where reading beyond it is harmless, gathers its stop bits and
    /// takes them off. What lies beyond it is of earlier packets and never becomes part of a value.
    #[inline(always)]
    fn load(&mut self, packet: &[u8]) {
        let (front, chunks) = packet.as_rchunks::<16>();
        let mut first = [0; 16];
        first[16 - front.len()..].copy_from_slice(front);
        let places = self.bytes.as_chunks_mut::<16>().0.iter_mut();
        let mut places = places.zip(self.stops.as_chunks_mut::<2>().0);
        let mut put = |chunk: &[u8; 16]| {
            let backwards = u128::from_be_bytes(*chunk);
            if let Some((place, stops)) = places.next() {
                *place = (backwards & u128::from_ne_bytes([0x7F; 16])).to_le_bytes();
                *stops = bmi::stops(backwards).to_le_bytes();
            }
        };
        chunks.iter().rev().for_each(&mut put);
        put(&first);
    }

    /// A message of a plain category without anything odd in it, `len` bytes that end `behind` bytes
    /// before the packet does. Otherwise nothing is changed but values that the message has itself.
    #[inline(always)]
    fn plain<const BMI: bool>(&mut self, behind: usize, len: usize) -> Option<(u8, u64)> {
        let plan = Self::PLAN;
        if len > MESSAGE_MAX {
            return None;
        }
        // Stop bits of the message, its last byte lowest; the highest one is that of the presence
        // map.
        let stops = self.stops[behind / 8 % (PACKET_MAX / 8)..].first_chunk()?;
        let stops = bmi::low::<BMI>(u64::from_le_bytes(*stops) >> (behind % 8), len);
        let backwards: &[u8; READ] = self.bytes[behind % PACKET_MAX..].first_chunk()?;
        let map_at = 63 - (stops | 1).leading_zeros() as usize;
        let map_len = len - map_at;
        if map_len > 8 {
            return None;
        }
        let map = bmi::extract::<BMI>(eight(backwards, map_at), SEVENS, 8 * map_len);
        let present = map << (64 - 7 * map_len);
        // A field for each bit. Where a stop bit covers three bytes more, fields are of at most four
        // bytes, and all numbers of those are in range; nothing covers bytes behind the last field.
        if stops.count_ones() != present.count_ones() + 1 {
            return None;
        }
        let covered = stops | stops << 1;
        let covered = covered | covered << 2;
        let wide = bmi::low::<BMI>(!covered, map_at);
        if wide != 0 && bmi::low::<BMI>(!(covered | covered << 4), map_at) != 0 {
            return None;
        }
        // The fields, the last one first.
        let (mut left, mut window, mut at) = (present, stops, 0);
        while let Some(slots) = NonZeroU64::new(left) {
            let slot = (slots.trailing_zeros() ^ 63) as usize;
            window &= window.wrapping_sub(1);
            let next = window.trailing_zeros() as usize;
            self.values[slot] =
                bmi::extract::<BMI>(eight(backwards, at), plan.masks[slot], 8 * (next - at));
            left &= left - 1;
            at = next;
        }
        if wide != 0 && self.too_wide(present) {
            return None;
        }
        let category = self.values[Self::FORMAT.category as usize];
        let entry = plan.entries.get(category as usize)?;
        let mut slots = entry.slots;
        if entry.appended {
            slots |= plan.appendages.get(self.values[plan.appendage_by & 63] as usize)?;
        }
        // Fields too many, values never sent; categories that are not plain have all bits.
        let defined = self.defined | present;
        if present & !slots != 0 || slots & !defined != 0 {
            return None;
        }
        let counted = entry.slots & !present;
        let mut at = 0;
        while at < plan.counters.1 {
            let slot = plan.counters.0[at] as usize;
            let more = (counted << slot >> 63) as u32;
            self.values[slot] = u64::from((self.values[slot] as u32).wrapping_add(more));
            at += 1;
        }
        self.defined = defined;
        Some((category as u8, slots))
    }

    /// Whether a number among the fields present has more than 32 bits.
    #[cold]
    #[inline(never)]
    fn too_wide(&self, present: u64) -> bool {
        let values = self.values.iter().zip(&Self::PLAN.masks).zip(0..64);
        let mut numbers =
            values.filter(|((_, mask), slot)| **mask == SEVENS && present << slot >> 63 == 1);
        numbers.any(|((value, _), _)| value >> 32 != 0)
    }

    /// Decodes a message field by field, in the order of the description.
    #[inline(never)]
    fn careful(
        &mut self,
        packet: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(u8, u64, &'static [u8]), Code> {
        let mut from = Reader { packet, at: start, end };
        let present = from.map()?;
        let category_slot = Self::FORMAT.category;
        self.repeated.clear();
        self.field(category_slot, present, &mut from)?;
        let code = self.values[category_slot as usize];
        let code = u8::try_from(code).map_err(|_| Code::D2)?;
        let category = Self::FORMAT.categories.iter().find(|category| category.code == code);
        let listed = category.map_or(Self::FORMAT.other, |category| category.slots);
        let mut slots = 0;
        for &slot in listed {
            slots |= bit(slot);
            if slot != category_slot {
                self.field(slot, present, &mut from)?;
            }
        }
        let mut repeated: &'static [u8] = &[];
        if let Some(category) = category {
            let (more, slots_repeated) = self.more(category, present, &mut from)?;
            slots |= more;
            repeated = slots_repeated;
        }
        if present & !slots != 0 {
            return Err(Code::R8);
        }
        if from.at != end {
            return Err(Code::Framing);
        }
        Ok((code, slots, repeated))
    }

    /// Decodes what follows the fields of a category; returns its slots, and those repeated.
    fn more(
        &mut self,
        category: &Category,
        present: u64,
        from: &mut Reader<'_>,
    ) -> Result<(u64, &'static [u8]), Code> {
        let (mut slots, mut slots_repeated): (u64, &'static [u8]) = (0, &[]);
        match &category.more {
            More::Nothing => {}
            More::Appendage(appendage) => {
                let by = self.values[appendage.by as usize];
                let case = appendage.cases.iter().find(|(values, _)| is_one_of(values, by));
                for &slot in case.ok_or(Code::D11)?.1 {
                    slots |= bit(slot);
                    self.field(slot, present, from)?;
                }
            }
            More::Repeat(repeat) => {
                let by = self.values[repeat.by as usize];
                let case = repeat.cases.iter().find(|(values, _, _)| is_one_of(values, by));
                let &(_, count, repeated) = case.ok_or(Code::D11)?;
                slots |= bit(count);
                self.field(count, present, from)?;
                let times = self.values[count as usize];
                if times > repeat.most {
                    return Err(Code::Limit);
                }
                slots_repeated = repeated;
                for _ in 0..times {
                    for &slot in repeated {
                        slots |= bit(slot);
                        self.field(slot, present, from)?;
                        self.repeated.push(self.values[slot as usize]);
                    }
                }
            }
        }
        Ok((slots, slots_repeated))
    }

    /// Decodes a field from the stream, or takes its previous value.
    fn field(&mut self, slot: u8, present: u64, from: &mut Reader<'_>) -> Result<(), Code> {
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
        let (start, len) = from.entity()?;
        let bytes = &from.packet[start..start + len];
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

/// The bytes of a message that have not been read yet.
struct Reader<'p> {
    packet: &'p [u8],
    at: usize,
    end: usize,
}

impl Reader<'_> {
    /// Reads the presence map, slot 0 in the highest bit.
    fn map(&mut self) -> Result<u64, Code> {
        let (start, len) = self.entity()?;
        if len > 9 {
            return Err(Code::R8);
        }
        let bytes = &self.packet[start..start + len];
        let map = bytes.iter().fold(0_u64, |map, byte| map << 7 | u64::from(byte & 0x7F));
        Ok(map << (64 - 7 * len))
    }

    /// Start and length of the next stop-bit entity, which is passed.
    fn entity(&mut self) -> Result<(usize, usize), Code> {
        let rest = self.packet.get(self.at..self.end).ok_or(Code::Truncated)?;
        let last = rest.iter().position(|byte| byte & 0x80 != 0).ok_or(Code::Truncated)?;
        let start = self.at;
        self.at += last + 1;
        Ok((start, last + 1))
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

/// Checks start, end and header of a packet; returns the header, and the offset of the last byte.
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

/// Eight bytes at a place, the first one lowest: those that end there, where they lie backwards.
#[inline(always)]
fn eight(backwards: &[u8; READ], at: usize) -> u64 {
    backwards[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opra::stream::{Random, Shape, make};
    use crate::opra::{Opra, V1, V2};

    /// Category, slots, their values, repeated values, and texts of a message.
    type Seen = (u8, u64, Vec<u64>, Vec<u64>, Vec<u8>);

    #[derive(Default)]
    struct All(Vec<Seen>);

    impl SlotSink for All {
        fn message(&mut self, message: &Message<'_>) {
            let has = |slot: &usize| message.has(*slot);
            let values = (0..64).filter(has).map(|slot| message.values[slot]).collect();
            let plan = Plan::of(&V2::FORMAT).longs | Plan::of(&V1::FORMAT).longs;
            let longs = (0..64).filter(has).filter(|&slot| plan << slot >> 63 == 1);
            let texts = longs.flat_map(|slot| message.long(slot)).collect();
            let repeated = if message.repeated_slots.is_empty() { &[] } else { message.repeated };
            self.0.push((message.category, message.slots, values, repeated.to_vec(), texts));
        }
    }

    type Outcome = (Result<Packet, Code>, Vec<Seen>);

    fn outcome(run: impl FnOnce(&mut All) -> Result<Packet, Code>) -> Outcome {
        let mut all = All::default();
        (run(&mut all), all.0)
    }

    /// Breaks one thing: a byte, a stop bit, many stop bits, a presence map, or a field made longer
    /// in a message that says so.
    fn mutate(packet: &mut Vec<u8>, header: usize, random: &mut Random) {
        let mut lengths = vec![header];
        while let Some(next) = lengths.last().map(|&at| at + 1 + usize::from(packet[at])) {
            if next + 1 >= packet.len() {
                break;
            }
            lengths.push(next);
        }
        let length = lengths[random.below(lengths.len() as u64) as usize];
        let rest = (packet.len() - length - 1) as u64;
        let at = length + 1 + random.below(rest.min(20)) as usize;
        match random.below(5) {
            0 => packet[at] = random.next_bits() as u8,
            1 => packet[at] ^= 0x80,
            2 => packet[at..].iter_mut().take(random.below(12) as usize).for_each(|b| *b &= 0x7F),
            3 => packet[length + 1] ^= 1 << random.below(8),
            _ => {
                let more = random.below(9) as u8;
                let byte = if random.below(2) == 0 { 0 } else { random.next_bits() as u8 & 0x7F };
                packet.splice(at..at, std::iter::repeat_n(byte, more.into()));
                packet[length] = packet[length].saturating_add(more);
            }
        }
    }

    /// Packets told apart, and how many of them in another way than field by field.
    fn compare<F: Opra>(rounds: u64) {
        let shape = Shape {
            bytes: 1 << 17,
            symbols: 20_000_000,
            repeated_max: 3,
            seed: 5,
            ..Shape::default()
        };
        let stream = make::<F>(shape);
        let packets: Vec<&[u8]> = stream.packets().collect();
        let mut random = Random::new(6);
        let mut by_field = SlotDecoder::<F>::default();
        let mut at_once = SlotDecoder::<F>::default();
        let mut native = SlotDecoder::<F>::default();
        let mut refused = ErrorCounts::default();
        let mut fine = 0;
        for round in 0..rounds {
            let mut packet = packets[random.below(packets.len() as u64) as usize].to_vec();
            for _ in 0..round % 3 {
                mutate(&mut packet, F::FORMAT.framing.header(), &mut random);
            }
            let wanted = outcome(|all| by_field.whole::<false, false, All>(&packet, all));
            let once = outcome(|all| at_once.whole::<false, true, All>(&packet, all));
            assert_eq!(once, wanted, "round {round}: {packet:?}");
            assert_eq!(outcome(|all| native.packet(&packet, all)), wanted, "round {round}");
            match wanted.0 {
                Ok(_) => fine += 1,
                Err(code) => refused.add(code),
            }
        }
        assert!(fine > rounds / 3, "{fine} packets fine");
        for code in [Code::D2, Code::D5, Code::D11, Code::R8, Code::Truncated, Code::Limit] {
            assert!(refused.iter().any(|(seen, _)| seen == code), "no packet refused by {code:?}");
        }
    }

    #[test]
    fn messages_at_once_are_as_field_by_field_whole_or_broken() {
        compare::<V1>(10_000);
        compare::<V2>(10_000);
    }

    #[test]
    fn an_indicator_beyond_ascii_is_not_another_one() {
        // A quote that appends nothing ends with its indicator, here made one of two bytes: 128 more.
        let stream = make::<V2>(Shape { bytes: 1 << 16, ..Shape::default() });
        let header = V2::FORMAT.framing.header();
        let last = |packet: &[u8]| header + usize::from(packet[header]);
        let wanted = |packet: &&[u8]| b"ABDEFHIJL".contains(&(packet[last(packet)] & 0x7F));
        let packet = stream.packets().find(wanted).map(<[u8]>::to_vec);
        let mut packet = packet.expect("a packet whose first message is such a quote");
        let at = last(&packet);
        packet.insert(at, 1);
        packet[header] += 1;
        let seen = outcome(|all| SlotDecoder::<V2>::default().packet(&packet, all));
        assert_eq!(seen, (Err(Code::D11), Vec::new()));
    }
}
