//! The decoder of FAST 1.1 streams, for templates compiled at run time or when this is built.
//!
//! [`Decoder::message`] reads one message and hands every field to a [`Sink`] in the order of the
//! stream. Nothing is allocated once the previous values have reached their sizes. Work is bounded
//! by the bytes and by [`Limits`]. After an error the previous values are those of the fields before
//! it: [`Decoder::reset`] where the protocol resets, or they will be wrong.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::bits::{PresenceMap, Reader};
use crate::built::{AtRunTime, Built, Program};
use crate::dictionary::{self, Entry, State, increment, initial_decimal, initial_text, number};
use crate::error::{Code, ErrorCounts, FastError, TemplateError};
use crate::program::{Initial, Op, Scalar, Templates};
use crate::sink::{Limits, Sink};
use crate::template::Operator;
use crate::value::{Decimal, Type, Value};

/// A decoder with its dictionaries, for templates read at run time, or for those that `P` was built of.
#[derive(Debug)]
pub struct Decoder<P = AtRunTime> {
    templates: Arc<Templates>,
    entries: Vec<Entry>,
    /// Template identifier of the previous message, for its copy operator; `None`: undefined.
    template: Option<u32>,
    scratch: Vec<u8>,
    strict: bool,
    limits: Limits,
    counts: ErrorCounts,
    program: PhantomData<P>,
}

impl Decoder {
    /// A decoder with all previous values undefined, which counts overlong encodings without
    /// refusing them.
    pub fn new(templates: Arc<Templates>) -> Decoder {
        Decoder::with(templates)
    }
}

impl<P: Built> Decoder<P> {
    /// As [`Decoder::new`], for the templates that `P` was built of.
    ///
    /// # Errors
    /// None for what [`crate::built::generate`] has written: it has compiled the templates before.
    pub fn built() -> Result<Decoder<P>, TemplateError> {
        Ok(Decoder::with(Arc::new(Templates::from_xml(P::XML)?)))
    }
}

impl<P: Program> Decoder<P> {
    fn with(templates: Arc<Templates>) -> Decoder<P> {
        let entries = dictionary::undefined(templates.slots);
        Decoder {
            templates,
            entries,
            template: None,
            scratch: Vec::new(),
            strict: false,
            limits: Limits::default(),
            counts: ErrorCounts::default(),
            program: PhantomData,
        }
    }

    /// The templates and fields whose indexes a sink is given.
    pub fn templates(&self) -> &Arc<Templates> {
        &self.templates
    }

    /// Makes overlong encodings (R6 to R9) errors, too.
    pub fn strict(mut self) -> Decoder<P> {
        self.strict = true;
        self
    }

    /// Sets limits in place of the default ones.
    pub fn with_limits(mut self, limits: Limits) -> Decoder<P> {
        self.limits = limits;
        self
    }

    /// Makes all previous values undefined, also that of the template identifier.
    pub fn reset(&mut self) {
        dictionary::reset(&mut self.entries);
        self.template = None;
    }

    /// Number of errors so far by code, those that were passed over included.
    pub fn counts(&self) -> &ErrorCounts {
        &self.counts
    }

    /// Reads one message from the front of `bytes`; how many bytes it had.
    ///
    /// # Errors
    /// The dynamic and reportable ones. The sink may have been given fields before.
    #[inline]
    pub fn message<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<usize, FastError> {
        let templates = &*self.templates;
        let mut run = Run {
            templates,
            entries: &mut self.entries,
            template: &mut self.template,
            scratch: &mut self.scratch,
            reader: Reader::new(bytes, self.strict),
            sink,
            elements: self.limits.elements,
            steps: self.limits.steps,
            depth: self.limits.depth,
            text: self.limits.text,
        };
        let outcome = run.segment::<P>();
        let position = run.reader.position();
        for code in run.reader.take_noted() {
            self.counts.add(code);
        }
        match outcome {
            Ok(()) => Ok(position),
            Err(error) => {
                self.counts.add(error.code);
                Err(error)
            }
        }
    }

    /// Reads the messages of one block from the front of `bytes`; how many bytes it had.
    ///
    /// # Errors
    /// D12 for an empty block, otherwise those of [`Decoder::message`]; a block that ends inside a
    /// message is [`Code::Truncated`].
    pub fn block<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<usize, FastError> {
        let mut reader = Reader::new(bytes, self.strict);
        let size = reader.block_size().and_then(|size| {
            let rest = bytes.get(reader.position()..).unwrap_or(&[]);
            let size = usize::try_from(size).map_err(|_| Code::Truncated)?;
            rest.get(..size).ok_or(Code::Truncated)
        });
        let mut rest = match size {
            Ok(rest) => rest,
            Err(code) => {
                self.counts.add(code);
                return Err(code.into());
            }
        };
        let total = reader.position() + rest.len();
        while !rest.is_empty() {
            let used = self.message(rest, sink)?;
            rest = &rest[used..];
        }
        Ok(total)
    }
}

/// The state of decoding one message.
pub struct Run<'t, 'd, 'b, 's, S> {
    templates: &'t Templates,
    entries: &'d mut Vec<Entry>,
    template: &'d mut Option<u32>,
    scratch: &'d mut Vec<u8>,
    reader: Reader<'b>,
    sink: &'s mut S,
    /// What the message may still use of its limits.
    elements: u32,
    steps: u32,
    depth: u32,
    text: usize,
}

/// Where the text of a field is after its operator has been applied.
#[derive(Clone, Copy)]
enum Place {
    Absent,
    Scratch,
    Previous,
    Initial,
}

impl<'t, S: Sink> Run<'t, '_, '_, '_, S> {
    /// Decodes a message segment, or one that a dynamic reference asks for (§10).
    fn segment<P: Program>(&mut self) -> Result<(), FastError> {
        let mut map = self.reader.presence_map()?;
        if map.take() {
            let id = self.reader.unsigned(false)?.unwrap_or(0);
            *self.template = Some(self.templates.by_id(id).ok_or(Code::D9)?);
        }
        let index = self.template.ok_or(Code::D5)?;
        let template = &self.templates.templates[index as usize];
        if template.reset {
            dictionary::reset(self.entries);
        }
        self.sink.begin(index);
        P::block(self, template.block, &mut map)?;
        self.sink.end();
        if map.has_more() {
            self.reader.report(Code::R8)?;
        }
        Ok(())
    }

    /// Decodes a primitive field and hands it to the sink.
    #[inline(always)]
    pub fn field(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<(), FastError> {
        self.scalar(op, map).map_err(at(op.field))
    }

    /// Decodes a primitive field of an integer type.
    #[inline(always)]
    pub fn integer_field(
        &mut self,
        op: &Scalar,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        self.number(op, map).map_err(at(op.field))
    }

    /// Decodes an optional constant of an integer type: a presence bit and nothing else.
    #[inline(always)]
    pub fn constant_field(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) {
        match op.bits.filter(|_| map.take()) {
            Some(bits) => self.tell(op, bits),
            None => self.sink.absent(op.field),
        }
    }

    /// Decodes a primitive field of a type that is no integer.
    #[inline]
    pub fn other_field(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<(), FastError> {
        self.scalar(op, map).map_err(at(op.field))
    }

    /// Decodes a decimal whose exponent and mantissa have operators of their own.
    #[inline]
    pub fn decimal_parts(
        &mut self,
        exponent: &Scalar,
        mantissa: &Scalar,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        self.parts(exponent, mantissa, map).map_err(at(exponent.field))
    }

    /// Decodes a group; `own`: the group has a presence map of its own.
    #[inline(always)]
    pub fn group<P: Program>(
        &mut self,
        field: u32,
        (optional, own): (bool, bool),
        block: usize,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        if optional && !map.take() {
            self.sink.absent(field);
            return Ok(());
        }
        self.sink.begin_group(field);
        self.inside::<P>(field, own, block, map)?;
        self.sink.end_group();
        Ok(())
    }

    /// Decodes the segment that a dynamic reference leads to.
    pub fn dynamic<P: Program>(&mut self) -> Result<(), FastError> {
        self.depth = self.depth.checked_sub(1).ok_or(Code::Limit)?;
        self.segment::<P>()?;
        self.depth += 1;
        Ok(())
    }

    /// The templates of the decoder.
    pub(crate) fn templates(&self) -> &'t Templates {
        self.templates
    }

    /// Decodes the inside of a group or an element, with a presence map of its own where it needs
    /// one.
    #[inline]
    fn inside<P: Program>(
        &mut self,
        field: u32,
        own: bool,
        block: usize,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        if !own {
            return P::block(self, block, map);
        }
        let mut map = self.reader.presence_map().map_err(at(field))?;
        P::block(self, block, &mut map)?;
        if map.has_more() {
            self.reader.report(Code::R8).map_err(at(field))?;
        }
        Ok(())
    }

    /// Decodes a sequence, whose length comes first; `own`: elements have presence maps of their
    /// own.
    #[inline]
    pub fn sequence<P: Program>(
        &mut self,
        field: u32,
        length: &Scalar,
        (own, block): (bool, usize),
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        let Some(length) = self.integer(length, map).map_err(at(field))? else {
            self.sink.absent(field);
            return Ok(());
        };
        let length = length as u32;
        self.elements = self.elements.checked_sub(length).ok_or(Code::Limit).map_err(at(field))?;
        let cost = self.templates.costs.get(block).copied().unwrap_or(u32::MAX);
        let steps = length.checked_mul(cost).and_then(|steps| self.steps.checked_sub(steps));
        self.steps = steps.ok_or(Code::Limit).map_err(at(field))?;
        self.sink.begin_sequence(field, length);
        for _ in 0..length {
            self.sink.element();
            self.inside::<P>(field, own, block, map)?;
        }
        self.sink.end_sequence();
        Ok(())
    }

    #[inline(always)]
    fn scalar(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<(), Code> {
        match op.ty {
            Type::U32 | Type::I32 | Type::U64 | Type::I64 => {
                self.number(op, map)?;
            }
            Type::Decimal => match self.decimal(op, map)? {
                None => self.sink.absent(op.field),
                Some(value) if value.is_valid() => {
                    self.sink.field(op.field, Value::Decimal(value));
                }
                Some(_) => return Err(Code::R1),
            },
            Type::Ascii | Type::Unicode | Type::Bytes => {
                let place = self.place(op, map)?;
                let bytes = match place {
                    Place::Absent => {
                        self.sink.absent(op.field);
                        return Ok(());
                    }
                    Place::Scratch => self.scratch.as_slice(),
                    Place::Previous => self.entries[op.slot].text.as_slice(),
                    Place::Initial => initial_text(op).unwrap_or(&[]),
                };
                let value = match op.ty {
                    Type::Ascii => Value::Ascii(bytes),
                    Type::Bytes => Value::Bytes(bytes),
                    _ => Value::Unicode(std::str::from_utf8(bytes).map_err(|_| Code::R2)?),
                };
                self.sink.field(op.field, value);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn number(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<(), Code> {
        match self.integer(op, map)? {
            Some(bits) => self.tell(op, bits),
            None => self.sink.absent(op.field),
        }
        Ok(())
    }

    /// Hands an integer to the sink.
    #[inline(always)]
    fn tell(&mut self, op: &Scalar, bits: u64) {
        let value = match op.ty {
            Type::U32 => Value::U32(bits as u32),
            Type::I32 => Value::I32(bits as i32),
            Type::U64 => Value::U64(bits),
            _ => Value::I64(bits as i64),
        };
        self.sink.field(op.field, value);
    }

    #[inline(always)]
    fn integer(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<Option<u64>, Code> {
        match op.operator {
            Operator::Copy | Operator::Increment => {
                if map.take() {
                    let value = self.reader.integer(op.ty, op.optional)?;
                    let entry = &mut self.entries[op.slot];
                    match value {
                        Some(bits) => entry.assign(op.ty, bits),
                        None => entry.state = State::Empty,
                    }
                    return Ok(value);
                }
                self.previous(op)
            }
            Operator::None => self.reader.integer(op.ty, op.optional),
            Operator::Constant => Ok(if !op.optional || map.take() { op.bits } else { None }),
            Operator::Default if map.take() => self.reader.integer(op.ty, op.optional),
            Operator::Default => Ok(op.bits),
            Operator::Delta => {
                let Some(delta) = self.reader.signed(op.optional)? else { return Ok(None) };
                let entry = &mut self.entries[op.slot];
                let base = match entry.state(op.ty)? {
                    State::Assigned => entry.bits,
                    State::Undefined => op.bits.unwrap_or(0),
                    State::Empty => return Err(Code::D6),
                };
                let value = number(op.ty, base) + delta;
                let (low, high) = op.ty.bounds();
                if !(low..=high).contains(&value) {
                    return Err(Code::R4);
                }
                entry.assign(op.ty, value as u64);
                Ok(Some(value as u64))
            }
            // The compiler of templates lets it through for texts only.
            Operator::Tail => Err(Code::S2),
        }
    }

    /// Value of a copied or incremented integer that is not in the stream; `None`: absent.
    #[inline(always)]
    fn previous(&mut self, op: &Scalar) -> Result<Option<u64>, Code> {
        let entry = &mut self.entries[op.slot];
        if entry.state(op.ty)? == State::Assigned {
            if op.operator == Operator::Increment {
                entry.bits = increment(op.ty, entry.bits);
            }
            return Ok(Some(entry.bits));
        }
        if !takes_initial(entry, op)? {
            return Ok(None);
        }
        Ok(op.bits.inspect(|&bits| entry.assign(op.ty, bits)))
    }

    /// As [`Run::previous`] for the rare cases, with the value handed to the sink.
    #[cold]
    fn rare(&mut self, op: &Scalar) -> Result<(), FastError> {
        match self.previous(op).map_err(at(op.field))? {
            Some(bits) => self.tell(op, bits),
            None => self.sink.absent(op.field),
        }
        Ok(())
    }

    /// Tells the sink that the fields of these steps are absent.
    #[inline(always)]
    pub(crate) fn absent_fields(&mut self, ops: &[Op]) {
        for op in ops {
            if let Op::Scalar(scalar) = op {
                self.sink.absent(scalar.field);
            }
        }
    }

    /// Decodes a mandatory uInt32, copied or incremented: the most frequent kind of field.
    #[inline(always)]
    pub(crate) fn plain_u32(
        &mut self,
        (op, increments): (&Scalar, bool),
        (field, slot): (u32, u32),
        map: &mut PresenceMap<'_>,
    ) -> Result<(), FastError> {
        let entry = &mut self.entries[slot as usize];
        let bits = if map.take() {
            let bits = self.reader.integer(Type::U32, false).map_err(at(field))?.unwrap_or(0);
            entry.assign(Type::U32, bits);
            bits
        } else if matches!(entry.state(Type::U32), Ok(State::Assigned)) {
            if increments {
                entry.bits = increment(Type::U32, entry.bits);
            }
            entry.bits
        } else {
            return self.rare(op);
        };
        self.sink.field(field, Value::U32(bits as u32));
        Ok(())
    }

    /// Decodes a decimal without operators of its parts.
    fn scaled(&mut self, nullable: bool) -> Result<Option<Decimal>, Code> {
        let Some(exponent) = self.reader.integer(Type::I32, nullable)? else { return Ok(None) };
        let mantissa = self.reader.integer(Type::I64, false)?.unwrap_or(0);
        Ok(Some(Decimal { exponent: exponent as i32, mantissa: mantissa as i64 }))
    }

    #[inline]
    fn decimal(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<Option<Decimal>, Code> {
        match op.operator {
            Operator::None => self.scaled(op.optional),
            Operator::Constant => {
                Ok(if !op.optional || map.take() { initial_decimal(op) } else { None })
            }
            Operator::Default if map.take() => self.scaled(op.optional),
            Operator::Default => Ok(initial_decimal(op)),
            Operator::Copy => {
                if map.take() {
                    let value = self.scaled(op.optional)?;
                    let entry = &mut self.entries[op.slot];
                    match value {
                        Some(value) => entry.assign_decimal(value),
                        None => entry.state = State::Empty,
                    }
                    return Ok(value);
                }
                let entry = &mut self.entries[op.slot];
                if entry.state(op.ty)? == State::Assigned {
                    return Ok(Some(entry.decimal()));
                }
                if !takes_initial(entry, op)? {
                    return Ok(None);
                }
                Ok(initial_decimal(op).inspect(|&value| entry.assign_decimal(value)))
            }
            Operator::Delta => {
                let Some(exponent) = self.reader.signed(op.optional)? else { return Ok(None) };
                let mantissa = self.reader.signed(false)?.unwrap_or(0);
                let entry = &mut self.entries[op.slot];
                let base = match entry.state(op.ty)? {
                    State::Assigned => entry.decimal(),
                    State::Undefined => initial_decimal(op).unwrap_or_default(),
                    State::Empty => return Err(Code::D6),
                };
                let exponent = i32::try_from(i128::from(base.exponent) + exponent);
                let mantissa = i64::try_from(i128::from(base.mantissa) + mantissa);
                let (Ok(exponent), Ok(mantissa)) = (exponent, mantissa) else {
                    return Err(Code::R1);
                };
                let value = Decimal { exponent, mantissa };
                entry.assign_decimal(value);
                Ok(Some(value))
            }
            Operator::Increment | Operator::Tail => Err(Code::S2),
        }
    }

    /// Decodes the two parts of a decimal; there is a mantissa only when there is an exponent.
    #[inline]
    fn parts(
        &mut self,
        exponent: &Scalar,
        mantissa: &Scalar,
        map: &mut PresenceMap<'_>,
    ) -> Result<(), Code> {
        let Some(power) = self.integer(exponent, map)? else {
            self.sink.absent(exponent.field);
            return Ok(());
        };
        let Some(digits) = self.integer(mantissa, map)? else { return Err(Code::D6) };
        let value = Decimal { exponent: power as i32, mantissa: digits as i64 };
        if !value.is_valid() {
            return Err(Code::R1);
        }
        self.sink.field(exponent.field, Value::Decimal(value));
        Ok(())
    }

    /// Reads a string or byte vector into the scratch buffer; false for NULL.
    #[inline(always)]
    fn read_text(&mut self, ty: Type, nullable: bool) -> Result<bool, Code> {
        if ty == Type::Ascii {
            return self.reader.ascii(nullable, self.scratch);
        }
        let Some(bytes) = self.reader.vector(nullable)? else { return Ok(false) };
        self.scratch.clear();
        self.scratch.extend_from_slice(bytes);
        Ok(true)
    }

    #[inline(always)]
    fn place(&mut self, op: &Scalar, map: &mut PresenceMap<'_>) -> Result<Place, Code> {
        let initial =
            if !matches!(op.initial, Initial::None) { Place::Initial } else { Place::Absent };
        match op.operator {
            Operator::None => self.in_scratch(op),
            Operator::Constant => {
                Ok(if !op.optional || map.take() { initial } else { Place::Absent })
            }
            Operator::Default if map.take() => self.in_scratch(op),
            Operator::Default => Ok(initial),
            Operator::Copy | Operator::Tail if !map.take() => {
                let entry = &mut self.entries[op.slot];
                if entry.state(op.ty)? == State::Assigned {
                    return Ok(Place::Previous);
                }
                if !takes_initial(entry, op)? {
                    return Ok(Place::Absent);
                }
                entry.base_text(op, State::Undefined);
                entry.assign_text(op.ty);
                Ok(Place::Previous)
            }
            Operator::Copy => {
                if !self.read_text(op.ty, op.optional)? {
                    self.entries[op.slot].state = State::Empty;
                    return Ok(Place::Absent);
                }
                let entry = &mut self.entries[op.slot];
                entry.text.clear();
                entry.text.extend_from_slice(self.scratch);
                entry.assign_text(op.ty);
                Ok(Place::Previous)
            }
            Operator::Tail => self.tail(op),
            Operator::Delta => self.delta(op),
            Operator::Increment => Err(Code::S2),
        }
    }

    fn in_scratch(&mut self, op: &Scalar) -> Result<Place, Code> {
        let present = self.read_text(op.ty, op.optional)?;
        Ok(if present { Place::Scratch } else { Place::Absent })
    }

    /// §6.3.8: the bytes in the stream replace as many at the end of the base value.
    fn tail(&mut self, op: &Scalar) -> Result<Place, Code> {
        if !self.read_text(op.ty, op.optional)? {
            self.entries[op.slot].state = State::Empty;
            return Ok(Place::Absent);
        }
        let entry = &mut self.entries[op.slot];
        let state = entry.state(op.ty)?;
        entry.base_text(op, state);
        let kept = entry.text.len().saturating_sub(self.scratch.len());
        entry.text.truncate(kept);
        entry.text.extend_from_slice(self.scratch);
        entry.assign_text(op.ty);
        Ok(Place::Previous)
    }

    /// §6.3.7.3 to §6.3.7.5: applies a delta to the base value of a string or byte vector.
    fn delta(&mut self, op: &Scalar) -> Result<Place, Code> {
        let Some(length) = self.reader.signed(op.optional)? else { return Ok(Place::Absent) };
        self.read_text(op.ty, false)?;
        let entry = &mut self.entries[op.slot];
        let state = entry.state(op.ty)?;
        if state == State::Empty {
            return Err(Code::D6);
        }
        entry.base_text(op, state);
        let length = i32::try_from(length).map_err(|_| Code::D7)?;
        let removed = if length < 0 { -(i64::from(length) + 1) } else { length.into() };
        let removed = usize::try_from(removed).map_err(|_| Code::D7)?;
        let kept = entry.text.len().checked_sub(removed).ok_or(Code::D7)?;
        if kept + self.scratch.len() > self.text {
            return Err(Code::Limit);
        }
        if length < 0 {
            self.scratch.extend_from_slice(&entry.text[removed..]);
            entry.text.clear();
            entry.text.extend_from_slice(self.scratch);
        } else {
            entry.text.truncate(kept);
            entry.text.extend_from_slice(self.scratch);
        }
        entry.assign_text(op.ty);
        Ok(Place::Previous)
    }
}

/// A field is not in the stream and has no previous value: whether its initial value is taken. It
/// is an error when it is mandatory and there is none; an absent field makes the previous value
/// empty (§6.3.5).
#[inline(always)]
fn takes_initial(entry: &mut Entry, op: &Scalar) -> Result<bool, Code> {
    match entry.state {
        State::Empty if op.optional => Ok(false),
        State::Empty => Err(Code::D6),
        _ if !matches!(op.initial, Initial::None) => Ok(true),
        _ if !op.optional => Err(Code::D5),
        _ => {
            entry.state = State::Empty;
            Ok(false)
        }
    }
}

fn at(field: u32) -> impl Fn(Code) -> FastError {
    move |code| FastError { code, field: Some(field) }
}
