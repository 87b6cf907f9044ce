//! Previous values (FAST 1.1, §6.3.1), the same for decoder and encoder.

use crate::error::Code;
use crate::program::{Initial, Scalar};
use crate::value::{Decimal, Type};

/// Whether there is a previous value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Undefined,
    Empty,
    Assigned,
}

/// A previous value, as the dictionaries keep it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub state: State,
    ty: Type,
    /// An integer as 64 bits, or the mantissa of a decimal.
    pub bits: u64,
    pub exponent: i32,
    pub text: Vec<u8>,
}

impl Entry {
    pub fn new() -> Entry {
        Entry { state: State::Undefined, ty: Type::U32, bits: 0, exponent: 0, text: Vec::new() }
    }

    /// The state as a field of type `ty` sees it.
    #[inline(always)]
    pub fn state(&self, ty: Type) -> Result<State, Code> {
        if self.state == State::Assigned && self.ty != ty {
            return Err(Code::D4);
        }
        Ok(self.state)
    }

    #[inline(always)]
    pub fn assign(&mut self, ty: Type, bits: u64) {
        self.state = State::Assigned;
        self.ty = ty;
        self.bits = bits;
    }

    pub fn assign_decimal(&mut self, value: Decimal) {
        self.assign(Type::Decimal, value.mantissa as u64);
        self.exponent = value.exponent;
    }

    pub fn decimal(&self) -> Decimal {
        Decimal { exponent: self.exponent, mantissa: self.bits as i64 }
    }

    /// Marks the previous value as a text of type `ty`, after `text` has been set.
    pub fn assign_text(&mut self, ty: Type) {
        self.state = State::Assigned;
        self.ty = ty;
    }

    /// Makes the text that a delta or tail applies to: the previous value, else the initial one,
    /// else nothing.
    pub fn base_text(&mut self, op: &Scalar, state: State) {
        if state != State::Assigned {
            self.text.clear();
            self.text.extend_from_slice(initial_text(op).unwrap_or(&[]));
        }
    }
}

/// Initial value of a field of a text type; `None`: it has none.
#[inline(always)]
pub(crate) fn initial_text(op: &Scalar) -> Option<&[u8]> {
    match &op.initial {
        Initial::Text(bytes) => Some(bytes),
        _ => None,
    }
}

/// Initial value of a decimal field; `None`: it has none.
#[inline(always)]
pub(crate) fn initial_decimal(op: &Scalar) -> Option<Decimal> {
    match op.initial {
        Initial::Decimal(value) => Some(value),
        _ => None,
    }
}

/// The next integer; from the largest value of the type to the smallest (§6.3.6).
#[inline(always)]
pub(crate) fn increment(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::U32 => u64::from((bits as u32).wrapping_add(1)),
        Type::I32 => i64::from((bits as i32).wrapping_add(1)) as u64,
        _ => bits.wrapping_add(1),
    }
}

/// The integer that 64 bits stand for in type `ty`.
#[inline(always)]
pub(crate) fn number(ty: Type, bits: u64) -> i128 {
    match ty {
        Type::I32 | Type::I64 => i128::from(bits as i64),
        _ => i128::from(bits),
    }
}

/// The previous values of all dictionaries, `slots` of them, undefined.
pub(crate) fn undefined(slots: usize) -> Vec<Entry> {
    vec![Entry::new(); slots]
}

/// Makes all previous values undefined, but keeps their memory.
pub(crate) fn reset(entries: &mut [Entry]) {
    for entry in entries {
        entry.state = State::Undefined;
    }
}
