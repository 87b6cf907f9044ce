//! The rules of a session as dense tables: whether a message is valid, in one pass over it.
//!
//! Only that question is answered here. A message that has a group, a custom tag, a value of
//! several characters out of a list, or a fault is left to the judgement of [`super::check`], which
//! finds what is wrong; so whatever is called valid here is valid there, and a test says so.

use std::collections::BTreeMap;

use super::{Block, Dictionary, FieldDef, Kind, MessageDef};
use crate::value;
use crate::view::Message;

/// Parts of a message in their order; a larger number means that the field has no place in the
/// message.
const HEADER: u8 = 0;
const BODY: u8 = 1;
const TRAILER: u8 = 2;
const NOWHERE: u8 = u8::MAX;

/// How a value is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// The value must not be empty.
    Any,
    /// The value is one character out of the set with this index in `sets`.
    OneOf(u16),
    /// The value is a whole number without a sign.
    Count,
    /// The value is a decimal number.
    Decimal,
    /// The value is a UTC time stamp.
    Stamp,
    /// The value has the form of another data type.
    Other(Kind),
}

/// The place of a field in a message type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    part: u8,
    required: bool,
    form: Form,
}

/// A message type: place of each field by the field's number, and how many fields are required.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Shape {
    slots: Vec<Slot>,
    required: u32,
}

/// The tables made from the two dictionaries of a session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tables {
    /// Number of each field by its tag; 0: the tag is not defined.
    numbers: Vec<u16>,
    /// Index plus one of the message types with a MsgType(35) of one character, by that character;
    /// 0: none.
    short: Vec<u16>,
    /// Index plus one of the message types with a longer MsgType(35).
    long: BTreeMap<Vec<u8>, u16>,
    shapes: Vec<Shape>,
    /// Sets of characters, one bit for each of the 256.
    sets: Vec<[u64; 4]>,
}

/// Buffers that are kept from message to message.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Number of the last message that had a field, by the field's number.
    seen: Vec<u32>,
    message: u32,
    /// Date and time, to the second, of the last valid time stamp.
    second: [u8; SECOND],
}

/// Length of `YYYYMMDD-HH:MM:SS`, bytes.
const SECOND: usize = 17;

impl Tables {
    /// The tables of header, trailer and session messages of `transport` and the other messages
    /// of `application`.
    pub(super) fn new(transport: &Dictionary, application: &Dictionary) -> Tables {
        let mut tables = Tables { short: vec![0; 256], ..Tables::default() };
        for field in transport.fields().chain(application.fields()) {
            let tag = field.tag as usize;
            if tables.numbers.len() <= tag {
                tables.numbers.resize(tag + 1, 0);
            }
            if let Some(number) = tables.numbers.get_mut(tag) {
                *number = 1;
            }
        }
        let mut last = 0u16;
        for number in tables.numbers.iter_mut().filter(|number| **number > 0) {
            // Tags have sixteen bits, and 0 is none.
            last = last.saturating_add(1);
            *number = last;
        }
        let admin = |msg_type: &str| {
            transport.message(msg_type.as_bytes()).is_some_and(|message| message.admin)
        };
        for message in transport.messages().filter(|message| message.admin) {
            tables.add(transport, transport, message);
        }
        for message in application.messages().filter(|message| !admin(&message.msg_type)) {
            tables.add(transport, application, message);
        }
        tables
    }

    fn add(&mut self, transport: &Dictionary, dictionary: &Dictionary, message: &MessageDef) {
        let blocks = [
            (HEADER, &transport.header, transport),
            (TRAILER, &transport.trailer, transport),
            (BODY, &message.body, dictionary),
        ];
        let mut slots = vec![Slot { part: NOWHERE, required: false, form: Form::Any }];
        for (tag, _) in self.numbers.clone().into_iter().enumerate().filter(|&(_, at)| at > 0) {
            let slot = self.slot(tag as u32, &blocks);
            slots.push(slot);
        }
        // CheckSum is not in the view; that it is there has been checked.
        let mut required: Vec<u32> =
            blocks.iter().flat_map(|(_, block, _)| block.required()).copied().collect();
        required.retain(|&tag| tag != 10);
        required.sort_unstable();
        required.dedup();
        for &tag in &required {
            let number = self.numbers.get(tag as usize).copied().unwrap_or(0);
            if let Some(slot) = slots.get_mut(usize::from(number)) {
                slot.required = true;
            }
        }
        self.shapes.push(Shape { slots, required: required.len() as u32 });
        let number = self.shapes.len() as u16;
        match message.msg_type.as_bytes() {
            [one] => {
                if let Some(place) = self.short.get_mut(usize::from(*one)) {
                    *place = number;
                }
            }
            longer => drop(self.long.insert(longer.to_vec(), number)),
        }
    }

    /// Part and form of `tag` in a message type: of the first block that has it, since header and
    /// trailer take precedence over the body.
    fn slot(&mut self, tag: u32, blocks: &[(u8, &Block, &Dictionary)]) -> Slot {
        let found = blocks.iter().find(|(_, block, _)| block.has(tag));
        let known = found.and_then(|(part, block, dictionary)| {
            dictionary.field(tag).filter(|_| !block.groups.contains_key(&tag)).zip(Some(*part))
        });
        match known {
            Some((field, part)) => Slot { part, required: false, form: self.form(field) },
            None => Slot { part: NOWHERE, required: false, form: Form::Any },
        }
    }

    fn form(&mut self, field: &FieldDef) -> Form {
        // Message types are judged by themselves.
        let listed = !field.values.is_empty() && field.tag != 35;
        match field.kind {
            Kind::Char | Kind::Boolean => Form::OneOf(self.set(field, listed)),
            _ if listed => Form::OneOf(self.set(field, listed)),
            Kind::String | Kind::Words | Kind::Data => Form::Any,
            Kind::Count => Form::Count,
            Kind::Decimal => Form::Decimal,
            Kind::UtcTimestamp => Form::Stamp,
            // Its groups, if it had any, would not be judged here.
            kind => Form::Other(kind),
        }
    }

    /// Index of the set of one-character values that the field may have.
    fn set(&mut self, field: &FieldDef, listed: bool) -> u16 {
        let mut set = [0u64; 4];
        for byte in 0..=u8::MAX {
            let named = field.values.iter().any(|(code, _)| code.as_bytes() == [byte]);
            if field.kind.admits(&[byte]) && (named || !listed) {
                set[usize::from(byte / 64)] |= 1 << (byte % 64);
            }
        }
        let at = self.sets.iter().position(|known| *known == set).unwrap_or(self.sets.len());
        if at == self.sets.len() {
            self.sets.push(set);
        }
        at as u16
    }

    /// Whether `message` is certainly valid. A function of its own, so that registers suffice for
    /// its loop.
    #[inline(never)]
    pub(super) fn valid(&self, marks: &mut Marks, message: &Message<'_>) -> bool {
        let number = match message.msg_type() {
            [one] => self.short.get(usize::from(*one)),
            longer => self.long.get(longer),
        };
        let shape = number.and_then(|number| self.shapes.get(usize::from(*number).wrapping_sub(1)));
        let Some(shape) = shape else { return false };
        marks.begin(shape.slots.len());
        let (mut reached, mut required) = (HEADER, 0);
        for field in message.fields() {
            let number = self.numbers.get(field.tag as usize).copied().unwrap_or(0);
            let number = usize::from(number);
            let (Some(slot), Some(seen)) = (shape.slots.get(number), marks.seen.get_mut(number))
            else {
                return false;
            };
            // A part that has passed, or none.
            if slot.part.wrapping_sub(reached) > TRAILER || *seen == marks.message {
                return false;
            }
            *seen = marks.message;
            reached = slot.part;
            required += u32::from(slot.required);
            let admitted = match slot.form {
                Form::Any => !field.value.is_empty(),
                Form::OneOf(set) => self.is_of(set, field.value),
                Form::Count => value::uint(field.value).is_some(),
                Form::Decimal => super::kind::decimal(field.value),
                Form::Stamp => stamp(&mut marks.second, field.value),
                Form::Other(kind) => !field.value.is_empty() && kind.admits(field.value),
            };
            if !admitted {
                return false;
            }
        }
        required == shape.required
    }

    #[inline(always)]
    fn is_of(&self, set: u16, value: &[u8]) -> bool {
        let [one] = value else { return false };
        let set = self.sets.get(usize::from(set)).unwrap_or(&[0; 4]);
        set[usize::from(one / 64)] >> (one % 64) & 1 == 1
    }
}

impl Marks {
    /// Begins a message, whose fields have numbers below `numbers`.
    #[inline]
    fn begin(&mut self, numbers: usize) {
        if self.seen.len() < numbers {
            self.seen.resize(numbers, 0);
        }
        self.message = self.message.wrapping_add(1);
        if self.message == 0 {
            self.seen.fill(0);
            self.message = 1;
        }
    }
}

/// Whether `text` is a UTC time stamp. Most have the same second as the one before, which is
/// compared first.
#[inline]
fn stamp(second: &mut [u8; SECOND], text: &[u8]) -> bool {
    match text.split_first_chunk::<SECOND>() {
        Some((head, rest)) if head == second => match rest.first_chunk::<4>() {
            Some(part) if rest.len() == 4 => {
                let form = u32::from_le_bytes(*part) ^ u32::from_le_bytes(*b".000");
                (form | form.wrapping_add(0x0606_0600)) & 0xf0f0_f0ff == 0
            }
            _ => value::timestamp(text).is_some(),
        },
        head => {
            let valid = value::timestamp(text);
            // A second that is valid to its end.
            let room = valid.is_some_and(|at| at.0 < u64::MAX - types::Nanos::SECOND);
            if let Some((head, _)) = head.filter(|_| room) {
                *second = *head;
            }
            valid.is_some()
        }
    }
}
