//! The encoder generated from a [`Format`]: packets with every field left out that the previous
//! value gives.

use std::marker::PhantomData;

use super::decode::{PACKET_MAX, characters};
use super::plan::bit;
use super::{Category, Description, Format, Kind, More, Rule};
use crate::bits;
use crate::error::Code;

/// The values of a message to be encoded.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// Values by slot, short texts as numbers; those that the category does not have are ignored.
    pub values: &'a [u64; 64],
    /// The long text, where the category has one.
    pub text: &'a [u8],
    /// Values of repeated slots, repetition by repetition; their number goes into its slot.
    pub repeated: &'a [u64],
}

/// An encoder of packets of one format.
#[derive(Debug)]
pub struct SlotEncoder<F> {
    /// Messages of the packet that has been begun.
    body: Vec<u8>,
    previous: [u64; 64],
    defined: u64,
    messages: u32,
    sequence: u64,
    format: PhantomData<F>,
}

impl<F: Description> Default for SlotEncoder<F> {
    fn default() -> SlotEncoder<F> {
        SlotEncoder {
            body: Vec::new(),
            previous: [0; 64],
            defined: 0,
            messages: 0,
            sequence: 0,
            format: PhantomData,
        }
    }
}

/// A message that is being encoded.
struct Draft {
    map: u64,
    bytes: Vec<u8>,
    previous: [u64; 64],
}

impl<F: Description> SlotEncoder<F> {
    const FORMAT: Format = F::FORMAT;

    /// Length of the packet in bytes, if it ended now.
    pub fn len(&self) -> usize {
        Self::FORMAT.framing.header() + self.body.len() + 1
    }

    /// Whether the packet has no message yet.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Adds a message to the packet, whose first one has number `sequence`.
    ///
    /// # Errors
    /// [`Code::Limit`] when the packet has no room for it: nothing has changed. D11 for a value
    /// that decides on an appendage or repetitions and is not in the description, R3 for text
    /// that is not ASCII, [`Code::Unencodable`] for an empty one.
    pub fn message(
        &mut self,
        code: u8,
        contents: &Contents<'_>,
        sequence: u64,
    ) -> Result<(), Code> {
        let category = Self::FORMAT.categories.iter().find(|category| category.code == code);
        let listed = category.map_or(Self::FORMAT.other, |category| category.slots);
        let mut draft = Draft { map: 0, bytes: Vec::new(), previous: self.previous };
        let mut values = *contents.values;
        values[Self::FORMAT.category as usize] = code.into();
        let mut slots = listed.iter().fold(0, |slots, &slot| slots | bit(slot));
        for &slot in listed {
            self.field(slot, values[slot as usize], contents.text, &mut draft)?;
        }
        if let Some(category) = category {
            slots |= self.more(category, &mut values, contents, &mut draft)?;
        }
        let mut map = Vec::new();
        let all: Vec<bool> = (0..63).map(|at| draft.map << at >> 63 == 1).collect();
        bits::put_presence_map(&mut map, &all);
        let len = map.len() + draft.bytes.len();
        if len > 254 || self.len() + 1 + len > PACKET_MAX {
            return Err(Code::Limit);
        }
        self.body.push(len as u8);
        self.body.extend_from_slice(&map);
        self.body.extend_from_slice(&draft.bytes);
        self.previous = draft.previous;
        self.defined |= slots & draft.map;
        if self.messages == 0 {
            self.sequence = sequence;
        }
        self.messages += 1;
        Ok(())
    }

    fn field(&self, slot: u8, value: u64, text: &[u8], draft: &mut Draft) -> Result<(), Code> {
        let (index, mask) = (slot as usize, bit(slot));
        let known = (self.defined | draft.map) & mask != 0;
        let described = &Self::FORMAT.slots[index];
        let expected = match described.rule {
            Rule::Copy => draft.previous[index],
            Rule::Increment => u64::from((draft.previous[index] as u32).wrapping_add(1)),
        };
        if !known || value != expected || described.kind == Kind::Long {
            draft.map |= mask;
            put(described.kind, value, text, &mut draft.bytes)?;
        }
        draft.previous[index] = value;
        Ok(())
    }

    fn more(
        &self,
        category: &Category,
        values: &mut [u64; 64],
        contents: &Contents<'_>,
        draft: &mut Draft,
    ) -> Result<u64, Code> {
        let mut slots = 0;
        let one_of = |known: &[u8], value: u64| known.iter().any(|&k| u64::from(k) == value);
        match &category.more {
            More::Nothing => {}
            More::Appendage(appendage) => {
                let by = values[appendage.by as usize];
                let case = appendage.cases.iter().find(|(known, _)| one_of(known, by));
                for &slot in case.ok_or(Code::D11)?.1 {
                    slots |= bit(slot);
                    self.field(slot, values[slot as usize], contents.text, draft)?;
                }
            }
            More::Repeat(repeat) => {
                let by = values[repeat.by as usize];
                let case = repeat.cases.iter().find(|(known, _, _)| one_of(known, by));
                let &(_, count, repeated) = case.ok_or(Code::D11)?;
                let times = contents.repeated.len() / repeated.len().max(1);
                if times as u64 > repeat.most {
                    return Err(Code::Limit);
                }
                values[count as usize] = times as u64;
                slots |= bit(count);
                self.field(count, times as u64, contents.text, draft)?;
                for repetition in contents.repeated.chunks_exact(repeated.len().max(1)) {
                    // One bit stands for all repetitions, so all are sent.
                    for (&slot, &value) in repeated.iter().zip(repetition) {
                        slots |= bit(slot);
                        draft.map |= bit(slot);
                        let kind = Self::FORMAT.slots[slot as usize].kind;
                        put(kind, value, contents.text, &mut draft.bytes)?;
                        draft.previous[slot as usize] = value;
                    }
                }
            }
        }
        Ok(slots)
    }

    /// Ends the packet and appends it to `out`, even when it has no message.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let framing = &Self::FORMAT.framing;
        out.push(framing.start);
        if let Some(version) = framing.version {
            out.push(version);
            put_digits(out, self.sequence, framing.sequence_digits);
            put_digits(out, self.messages.into(), framing.count_digits);
        }
        out.append(&mut self.body);
        out.push(framing.end);
        self.defined = 0;
        self.messages = 0;
    }
}

fn put(kind: Kind, value: u64, text: &[u8], out: &mut Vec<u8>) -> Result<(), Code> {
    match kind {
        Kind::Number => {
            let value = u32::try_from(value).map_err(|_| Code::D2)?;
            bits::put_unsigned(out, value.into());
        }
        Kind::Short => {
            let start = out.len();
            out.extend(characters(value));
            if out.len() == start {
                out.push(0);
            }
            if !out[start..].is_ascii() {
                return Err(Code::R3);
            }
        }
        Kind::Long if text.is_empty() => return Err(Code::Unencodable),
        Kind::Long if !text.is_ascii() => return Err(Code::R3),
        Kind::Long => out.extend_from_slice(text),
    }
    if let Some(last) = out.last_mut() {
        *last |= 0x80;
    }
    Ok(())
}

/// Writes the last `digits` decimal digits of a number, with zeros in front.
fn put_digits(out: &mut Vec<u8>, number: u64, digits: usize) {
    let start = out.len();
    out.resize(start + digits, b'0');
    let mut rest = number;
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}
