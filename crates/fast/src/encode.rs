//! The encoder of FAST 1.1 streams: for each operator the shortest form that gives the value back.
//!
//! Values of another type than their field are converted as §8 says. After an error nothing has
//! been appended, but previous values of earlier fields may have changed: reset both sides.

use std::sync::Arc;

use crate::bits;
use crate::convert::convert;
use crate::dictionary::{self, Entry, State, increment, initial_decimal, initial_text, number};
use crate::error::{Code, FastError};
use crate::program::{Op, Scalar, Templates};
use crate::record::{Item, Record};
use crate::template::Operator;
use crate::value::{Decimal, Owned, Type};

/// Longest string whose delta or tail is looked for; also the decoder's default limit.
const TEXT_MAX: usize = 1 << 16;

/// An encoder with its dictionaries.
#[derive(Debug)]
pub struct Encoder {
    templates: Arc<Templates>,
    entries: Vec<Entry>,
    template: Option<u32>,
}

/// A message segment that is being encoded: presence bits and body.
#[derive(Default)]
struct Segment {
    map: Vec<bool>,
    bytes: Vec<u8>,
}

impl Segment {
    fn append(self, out: &mut Vec<u8>) {
        bits::put_presence_map(out, &self.map);
        out.extend_from_slice(&self.bytes);
    }
}

impl Encoder {
    /// An encoder with all previous values undefined.
    pub fn new(templates: Arc<Templates>) -> Encoder {
        let entries = dictionary::undefined(templates.slots);
        Encoder { templates, entries, template: None }
    }

    /// Makes all previous values undefined, also that of the template identifier.
    pub fn reset(&mut self) {
        dictionary::reset(&mut self.entries);
        self.template = None;
    }

    /// Appends one message.
    ///
    /// # Errors
    /// D1 and conversion errors for values of a wrong type; D3 and [`Code::Unencodable`] for values
    /// that the operators cannot carry; D5 for a mandatory value that is missing; D4, D6 and D8 as
    /// in decoding; D9 for a template without identifier.
    pub fn message(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), FastError> {
        let mut whole = Vec::new();
        self.segment(record, &mut whole)?;
        out.extend_from_slice(&whole);
        Ok(())
    }

    /// Appends a block of messages.
    ///
    /// # Errors
    /// D12 for none, otherwise those of [`Encoder::message`].
    pub fn block(&mut self, records: &[Record], out: &mut Vec<u8>) -> Result<(), FastError> {
        let mut inside = Vec::new();
        for record in records {
            self.message(record, &mut inside)?;
        }
        if inside.is_empty() {
            return Err(Code::D12.into());
        }
        bits::put_unsigned(out, inside.len() as u128);
        out.extend_from_slice(&inside);
        Ok(())
    }

    fn segment(&mut self, record: &Record, out: &mut Vec<u8>) -> Result<(), FastError> {
        let templates = Arc::clone(&self.templates);
        let template = templates.templates.get(record.template as usize).ok_or(Code::D9)?;
        let mut segment = Segment::default();
        let known = self.template == Some(record.template);
        segment.map.push(!known);
        if !known {
            bits::put_unsigned(&mut segment.bytes, template.id.ok_or(Code::D9)?.into());
            self.template = Some(record.template);
        }
        if template.reset {
            dictionary::reset(&mut self.entries);
        }
        self.steps(&templates, template.block, record, &mut record.parts.iter(), &mut segment)?;
        segment.append(out);
        Ok(())
    }

    fn steps<'r>(
        &mut self,
        templates: &Templates,
        block: usize,
        record: &'r Record,
        parts: &mut impl Iterator<Item = &'r Record>,
        segment: &mut Segment,
    ) -> Result<(), FastError> {
        for op in &templates.blocks[block] {
            let item = |field: u32| record.get(templates.fields[field as usize].name_index);
            match op {
                Op::Scalar(op) => {
                    let value = primitive(item(op.field), op.ty).map_err(at(op.field))?;
                    self.scalar(op, value, segment).map_err(at(op.field))?;
                }
                Op::Parts { exponent, mantissa } => {
                    let field = exponent.field;
                    let value = primitive(item(field), Type::Decimal).map_err(at(field))?;
                    self.parts(exponent, mantissa, value, segment).map_err(at(field))?;
                }
                Op::Group { field, optional, map, block } => {
                    let group = match item(*field) {
                        Some(Item::Group(group)) => Some(group),
                        None if *optional => None,
                        None => return Err(at(*field)(Code::D5)),
                        Some(_) => return Err(at(*field)(Code::D1)),
                    };
                    if *optional {
                        segment.map.push(group.is_some());
                    }
                    if let Some(group) = group {
                        self.inside(templates, *block, *map, group, segment)?;
                    }
                }
                Op::Sequence { field, length, map, block } => {
                    let elements = match item(*field) {
                        Some(Item::Sequence(elements)) => Some(elements),
                        None => None,
                        Some(_) => return Err(at(*field)(Code::D1)),
                    };
                    let count = elements.map(|elements| elements.len() as i128);
                    self.integer(length, count, segment).map_err(at(*field))?;
                    for element in elements.into_iter().flatten() {
                        self.inside(templates, *block, *map, element, segment)?;
                    }
                }
                Op::Missing => return Err(Code::D8.into()),
                Op::Dynamic => {
                    let part = parts.next().ok_or(Code::D5)?;
                    self.segment(part, &mut segment.bytes)?;
                }
            }
        }
        Ok(())
    }

    fn inside(
        &mut self,
        templates: &Templates,
        block: usize,
        own: bool,
        record: &Record,
        outer: &mut Segment,
    ) -> Result<(), FastError> {
        let mut segment = Segment::default();
        self.steps(templates, block, record, &mut record.parts.iter(), &mut segment)?;
        if own {
            segment.append(&mut outer.bytes);
        } else {
            outer.bytes.extend_from_slice(&segment.bytes);
        }
        Ok(())
    }

    fn scalar(
        &mut self,
        op: &Scalar,
        value: Option<Owned>,
        segment: &mut Segment,
    ) -> Result<(), Code> {
        match op.ty {
            Type::Decimal => {
                let value = match value {
                    Some(Owned::Decimal(value)) => Some(value),
                    _ => None,
                };
                self.decimal(op, value, segment)
            }
            Type::Ascii | Type::Unicode | Type::Bytes => {
                let value = value.as_ref().map(Owned::as_value);
                let text = value.as_ref().and_then(|value| value.bytes());
                self.text(op, text, segment)
            }
            _ => {
                let value = value.and_then(|value| value.as_value().integer());
                self.integer(op, value, segment)
            }
        }
    }

    fn integer(
        &mut self,
        op: &Scalar,
        value: Option<i128>,
        segment: &mut Segment,
    ) -> Result<(), Code> {
        mandatory(op, value.is_none())?;
        let initial = op.bits.map(|bits| number(op.ty, bits));
        let entry = self.entries.get_mut(op.slot);
        let (ty, nullable) = (op.ty, op.optional);
        match (op.operator, entry) {
            (Operator::Constant, _) => constant(op, value.is_some(), value == initial, segment),
            (Operator::None, _) => {
                bits::put_integer(&mut segment.bytes, ty, nullable, value);
                Ok(())
            }
            (Operator::Default, _) => {
                if segment.sent(value != initial) {
                    bits::put_integer(&mut segment.bytes, ty, nullable, value);
                }
                Ok(())
            }
            (Operator::Copy | Operator::Increment, Some(entry)) => {
                let expected = match entry.state(ty) {
                    Ok(State::Assigned) if op.operator == Operator::Copy => Some(entry.bits),
                    Ok(State::Assigned) => Some(increment(ty, entry.bits)),
                    Ok(State::Undefined) => op.bits,
                    _ => None,
                };
                let expected = expected.map(|bits| number(ty, bits));
                let silent = match value {
                    Some(_) => value == expected,
                    None => entry.state == State::Empty,
                };
                if segment.sent(!silent) {
                    bits::put_integer(&mut segment.bytes, ty, nullable, value);
                }
                match value {
                    Some(value) => entry.assign(ty, value as u64),
                    None => entry.state = State::Empty,
                }
                Ok(())
            }
            (Operator::Delta, Some(entry)) => {
                let Some(value) = value else {
                    bits::put_integer(&mut segment.bytes, Type::I64, true, None);
                    return Ok(());
                };
                let base = match entry.state(ty)? {
                    State::Assigned => number(ty, entry.bits),
                    State::Undefined => initial.unwrap_or(0),
                    State::Empty => return Err(Code::D6),
                };
                bits::put_integer(&mut segment.bytes, Type::I64, nullable, Some(value - base));
                entry.assign(ty, value as u64);
                Ok(())
            }
            _ => Err(Code::S2),
        }
    }

    fn decimal(
        &mut self,
        op: &Scalar,
        value: Option<Decimal>,
        segment: &mut Segment,
    ) -> Result<(), Code> {
        mandatory(op, value.is_none())?;
        if value.is_some_and(|value| !value.is_valid()) {
            return Err(Code::R1);
        }
        let initial = initial_decimal(op);
        match (op.operator, self.entries.get_mut(op.slot)) {
            (Operator::Constant, _) => {
                let value = value.map(Decimal::normalized);
                constant(op, value.is_some(), value == initial, segment)
            }
            (Operator::None, _) => {
                put_scaled(&mut segment.bytes, op.optional, value);
                Ok(())
            }
            (Operator::Default, _) => {
                if segment.sent(value != initial) {
                    put_scaled(&mut segment.bytes, op.optional, value);
                }
                Ok(())
            }
            (Operator::Copy, Some(entry)) => {
                let silent = match (value, entry.state(op.ty)) {
                    (Some(value), Ok(State::Assigned)) => value == entry.decimal(),
                    (Some(value), Ok(State::Undefined)) => Some(value) == initial,
                    (Some(_), _) => false,
                    (None, _) => entry.state == State::Empty,
                };
                if segment.sent(!silent) {
                    put_scaled(&mut segment.bytes, op.optional, value);
                }
                match value {
                    Some(value) => entry.assign_decimal(value),
                    None => entry.state = State::Empty,
                }
                Ok(())
            }
            (Operator::Delta, Some(entry)) => {
                let out = &mut segment.bytes;
                let Some(value) = value else {
                    bits::put_integer(out, Type::I32, true, None);
                    return Ok(());
                };
                let base = match entry.state(op.ty)? {
                    State::Assigned => entry.decimal(),
                    State::Undefined => initial.unwrap_or_default(),
                    State::Empty => return Err(Code::D6),
                };
                let exponent = i128::from(value.exponent) - i128::from(base.exponent);
                bits::put_integer(out, Type::I32, op.optional, Some(exponent));
                bits::put_signed(out, i128::from(value.mantissa) - i128::from(base.mantissa));
                entry.assign_decimal(value);
                Ok(())
            }
            _ => Err(Code::S2),
        }
    }

    fn parts(
        &mut self,
        exponent: &Scalar,
        mantissa: &Scalar,
        value: Option<Owned>,
        segment: &mut Segment,
    ) -> Result<(), Code> {
        let Some(Owned::Decimal(value)) = value else {
            return self.integer(exponent, None, segment);
        };
        if !value.is_valid() {
            return Err(Code::R1);
        }
        // A constant exponent leaves one form of the number, if any.
        let value = match exponent.bits {
            Some(fixed) if exponent.operator == Operator::Constant => {
                value.rescaled(fixed as i32).ok_or(Code::D3)?
            }
            _ => value,
        };
        let refused = |code| if code == Code::Unencodable { Code::D3 } else { code };
        self.integer(exponent, Some(value.exponent.into()), segment).map_err(refused)?;
        self.integer(mantissa, Some(value.mantissa.into()), segment).map_err(refused)
    }

    fn text(
        &mut self,
        op: &Scalar,
        value: Option<&[u8]>,
        segment: &mut Segment,
    ) -> Result<(), Code> {
        mandatory(op, value.is_none())?;
        if value.is_some_and(|text| text.len() > TEXT_MAX) {
            return Err(Code::Limit);
        }
        let initial = initial_text(op);
        match (op.operator, self.entries.get_mut(op.slot)) {
            (Operator::Constant, _) => constant(op, value.is_some(), value == initial, segment),
            (Operator::None, _) => put_text(&mut segment.bytes, op.ty, op.optional, value),
            (Operator::Default, _) => {
                if segment.sent(value != initial) {
                    put_text(&mut segment.bytes, op.ty, op.optional, value)?;
                }
                Ok(())
            }
            (Operator::Copy | Operator::Tail, Some(entry)) => {
                let state = entry.state(op.ty);
                let silent = match (value, state) {
                    (Some(value), Ok(State::Assigned)) => value == entry.text,
                    (Some(value), Ok(State::Undefined)) => Some(value) == initial,
                    (Some(_), _) => false,
                    (None, _) => entry.state == State::Empty,
                };
                if segment.sent(!silent) {
                    let mut sent = value;
                    if let (Operator::Tail, Some(value)) = (op.operator, value) {
                        entry.base_text(op, state?);
                        sent = Some(tail(&entry.text, value).ok_or(Code::Unencodable)?);
                    }
                    put_text(&mut segment.bytes, op.ty, op.optional, sent)?;
                }
                let Some(value) = value else {
                    entry.state = State::Empty;
                    return Ok(());
                };
                entry.text.clear();
                entry.text.extend_from_slice(value);
                entry.assign_text(op.ty);
                Ok(())
            }
            (Operator::Delta, Some(entry)) => text_delta(op, entry, value, segment),
            _ => Err(Code::S2),
        }
    }
}

impl Segment {
    /// Appends a presence bit, and returns it.
    fn sent(&mut self, bit: bool) -> bool {
        self.map.push(bit);
        bit
    }
}

fn at(field: u32) -> impl Fn(Code) -> FastError {
    move |code| FastError { code, field: Some(field) }
}

/// Value of a primitive field, converted to the field's type; `None`: absent.
fn primitive(item: Option<&Item>, ty: Type) -> Result<Option<Owned>, Code> {
    match item {
        None => Ok(None),
        Some(Item::Value(value)) => convert(value.as_value(), ty).map(Some),
        Some(Item::Group(_) | Item::Sequence(_)) => Err(Code::D1),
    }
}

fn mandatory(op: &Scalar, missing: bool) -> Result<(), Code> {
    // A constant needs no telling.
    if missing && !op.optional && op.operator != Operator::Constant {
        return Err(Code::D5);
    }
    Ok(())
}

fn constant(op: &Scalar, present: bool, equal: bool, segment: &mut Segment) -> Result<(), Code> {
    if present && !equal {
        return Err(Code::Unencodable);
    }
    if op.optional {
        segment.map.push(present);
    }
    Ok(())
}

fn put_scaled(out: &mut Vec<u8>, nullable: bool, value: Option<Decimal>) {
    bits::put_integer(out, Type::I32, nullable, value.map(|value| value.exponent.into()));
    if let Some(value) = value {
        bits::put_signed(out, value.mantissa.into());
    }
}

fn put_text(out: &mut Vec<u8>, ty: Type, nullable: bool, value: Option<&[u8]>) -> Result<(), Code> {
    if ty == Type::Ascii {
        return bits::put_ascii(out, nullable, value);
    }
    bits::put_vector(out, nullable, value);
    Ok(())
}

/// The shortest tail that turns `base` into `value`; `None`: a tail cannot make a value shorter
/// than `base`.
fn tail<'v>(base: &[u8], value: &'v [u8]) -> Option<&'v [u8]> {
    match value.len().cmp(&base.len()) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Greater => Some(value),
        std::cmp::Ordering::Equal => {
            let same = base.iter().zip(value).take_while(|(one, other)| one == other).count();
            value.get(same..)
        }
    }
}

fn text_delta(
    op: &Scalar,
    entry: &mut Entry,
    value: Option<&[u8]>,
    segment: &mut Segment,
) -> Result<(), Code> {
    let out = &mut segment.bytes;
    let Some(value) = value else {
        bits::put_integer(out, Type::I32, true, None);
        return Ok(());
    };
    let state = entry.state(op.ty)?;
    if state == State::Empty {
        return Err(Code::D6);
    }
    entry.base_text(op, state);
    let base = entry.text.as_slice();
    let pairs = || base.iter().zip(value);
    let front = pairs().take_while(|(one, other)| one == other).count();
    let back = base.iter().rev().zip(value.iter().rev());
    let back = back.take_while(|(one, other)| one == other).count();
    // Subtraction lengths are excess-1 when something goes at the front.
    let (length, added) = if back > front {
        (front_length(base.len() - back), &value[..value.len() - back])
    } else {
        ((base.len() - front) as i128, &value[front..])
    };
    bits::put_integer(out, Type::I32, op.optional, Some(length));
    put_text(out, op.ty, false, Some(added))?;
    entry.text.clear();
    entry.text.extend_from_slice(value);
    entry.assign_text(op.ty);
    Ok(())
}

fn front_length(removed: usize) -> i128 {
    -(removed as i128) - 1
}
