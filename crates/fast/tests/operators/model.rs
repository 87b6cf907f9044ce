//! FAST 1.1 read literally: bits in vectors, one step per sentence of the specification, nothing
//! shared with the implementation but the names of types, operators and codes.

use std::collections::VecDeque;

use fast::template::Operator;
use fast::{Code, Type};

/// A value: an integer, a decimal, or bytes.
#[derive(Clone, PartialEq, Debug)]
pub enum Val {
    Int(i128),
    Dec(i128, i128),
    Text(Vec<u8>),
}

#[derive(Clone, PartialEq, Debug)]
pub enum Previous {
    Undefined,
    Empty,
    Assigned(Val),
}

#[derive(Clone, Debug)]
pub struct Spec {
    pub ty: Type,
    pub operator: Operator,
    pub optional: bool,
    pub initial: Option<Val>,
}

/// What a segment consists of after its template identifier.
pub struct Stream {
    pub map: VecDeque<bool>,
    pub bytes: VecDeque<u8>,
}

type Outcome<T> = Result<T, Code>;

impl Stream {
    /// §10.2: the bytes of an entity without their stop bits.
    fn entity(&mut self) -> Outcome<Vec<u8>> {
        let mut groups = Vec::new();
        loop {
            let byte = self.bytes.pop_front().ok_or(Code::Truncated)?;
            groups.push(byte & 0x7F);
            if byte & 0x80 != 0 {
                return Ok(groups);
            }
        }
    }

    fn bit(&mut self) -> bool {
        self.map.pop_front().unwrap_or(false)
    }

    /// §10.6.1.2; anything beyond 70 bits is called out of range at once.
    fn unsigned(&mut self) -> Outcome<i128> {
        let groups = self.entity()?;
        let significant = groups.iter().position(|&group| group != 0).unwrap_or(groups.len() - 1);
        if groups.len() - significant > 12 {
            return Err(Code::D2);
        }
        if groups.len() > 1 && groups[0] == 0 {
            return Err(Code::R6);
        }
        Ok(groups.iter().fold(0, |value, &group| value * 128 + i128::from(group)))
    }

    /// §10.6.1.1: two's complement, the first data bit is the sign.
    fn signed(&mut self) -> Outcome<i128> {
        let groups = self.entity()?;
        if groups.len() > 17 {
            return Err(Code::D2);
        }
        let value = twos_complement(&groups);
        if groups.len() > 1 && twos_complement(&groups[1..]) == value {
            return Err(Code::R6);
        }
        Ok(value)
    }

    /// §10.6.1: nullable integers are one more when they are not negative.
    fn nullable(&mut self, nullable: bool, value: i128) -> Option<i128> {
        match value {
            0 if nullable => None,
            _ if nullable && value > 0 => Some(value - 1),
            _ => Some(value),
        }
    }

    fn integer(&mut self, ty: Type, nullable: bool) -> Outcome<Option<i128>> {
        let value = match ty {
            Type::U32 | Type::U64 => self.unsigned()?,
            _ => self.signed()?,
        };
        let value = self.nullable(nullable, value);
        let (low, high) = match ty {
            Type::U32 => (0, 4_294_967_295),
            Type::I32 => (-2_147_483_648, 2_147_483_647),
            Type::U64 => (0, 18_446_744_073_709_551_615),
            _ => (-9_223_372_036_854_775_808, 9_223_372_036_854_775_807),
        };
        match value {
            Some(value) if value < low || value > high => Err(Code::D2),
            value => Ok(value),
        }
    }

    /// §10.6.3.
    fn ascii(&mut self, nullable: bool) -> Outcome<Option<Vec<u8>>> {
        let mut text = self.entity()?;
        if nullable && text[0] == 0 {
            text.remove(0);
            if text.is_empty() {
                return Ok(None);
            }
            if text[0] != 0 {
                return Err(Code::R9);
            }
        }
        if text[0] == 0 {
            text.remove(0);
            if !text.is_empty() && text[0] != 0 {
                return Err(Code::R9);
            }
        }
        Ok(Some(text))
    }

    /// §10.6.5.
    fn vector(&mut self, nullable: bool) -> Outcome<Option<Vec<u8>>> {
        let Some(length) = self.integer(Type::U32, nullable)? else { return Ok(None) };
        let mut bytes = Vec::new();
        for _ in 0..length {
            bytes.push(self.bytes.pop_front().ok_or(Code::Truncated)?);
        }
        Ok(Some(bytes))
    }

    /// A value as its type's representation.
    fn value(&mut self, ty: Type, nullable: bool) -> Outcome<Option<Val>> {
        match ty {
            Type::Ascii => Ok(self.ascii(nullable)?.map(Val::Text)),
            Type::Unicode | Type::Bytes => Ok(self.vector(nullable)?.map(Val::Text)),
            Type::Decimal => {
                let Some(exponent) = self.integer(Type::I32, nullable)? else { return Ok(None) };
                let mantissa = self.integer(Type::I64, false)?.unwrap();
                Ok(Some(Val::Dec(exponent, mantissa)))
            }
            _ => Ok(self.integer(ty, nullable)?.map(Val::Int)),
        }
    }
}

fn twos_complement(groups: &[u8]) -> i128 {
    let mut bits = Vec::new();
    for group in groups {
        for at in (0..7).rev() {
            bits.push(group >> at & 1);
        }
    }
    let weight = |bits: &[u8]| bits.iter().fold(0_i128, |sum, &bit| sum * 2 + i128::from(bit));
    weight(&bits[1..]) - i128::from(bits[0]) * (1 << (bits.len() - 1))
}

/// The value of a field from the stream and the previous value, which changes (§6.3 and §10.5.1).
pub fn decode(
    spec: &Spec,
    previous: &mut Previous,
    typed: bool,
    stream: &mut Stream,
) -> Outcome<Option<Val>> {
    let value = operate(spec, previous, typed, stream)?;
    match &value {
        Some(Val::Dec(exponent, _)) if !(-63..=63).contains(exponent) => Err(Code::R1),
        Some(Val::Text(text)) if spec.ty == Type::Unicode && std::str::from_utf8(text).is_err() => {
            Err(Code::R2)
        }
        _ => Ok(value),
    }
}

/// `typed`: the previous value has the field's type.
fn operate(
    spec: &Spec,
    previous: &mut Previous,
    typed: bool,
    stream: &mut Stream,
) -> Outcome<Option<Val>> {
    let look = |previous: &Previous| match previous {
        Previous::Assigned(_) if !typed => Err(Code::D4),
        other => Ok(other.clone()),
    };
    match spec.operator {
        Operator::None => stream.value(spec.ty, spec.optional),
        Operator::Constant => {
            Ok(if !spec.optional || stream.bit() { spec.initial.clone() } else { None })
        }
        Operator::Default => {
            if stream.bit() {
                return stream.value(spec.ty, spec.optional);
            }
            Ok(spec.initial.clone())
        }
        Operator::Copy | Operator::Increment | Operator::Tail => {
            if stream.bit() {
                let Some(mut value) = stream.value(spec.ty, spec.optional)? else {
                    *previous = Previous::Empty;
                    return Ok(None);
                };
                if spec.operator == Operator::Tail {
                    let base = match look(previous)? {
                        Previous::Assigned(base) => base,
                        _ => spec.initial.clone().unwrap_or(Val::Text(Vec::new())),
                    };
                    value = with_tail(base, value);
                }
                *previous = Previous::Assigned(value.clone());
                return Ok(Some(value));
            }
            match look(previous)? {
                Previous::Assigned(value) => {
                    let value = match value {
                        Val::Int(value) if spec.operator == Operator::Increment => {
                            Val::Int(incremented(spec.ty, value))
                        }
                        value => value,
                    };
                    *previous = Previous::Assigned(value.clone());
                    Ok(Some(value))
                }
                Previous::Undefined => match &spec.initial {
                    Some(value) => {
                        *previous = Previous::Assigned(value.clone());
                        Ok(Some(value.clone()))
                    }
                    None if spec.optional => {
                        *previous = Previous::Empty;
                        Ok(None)
                    }
                    None => Err(Code::D5),
                },
                Previous::Empty if spec.optional => Ok(None),
                Previous::Empty => Err(Code::D6),
            }
        }
        Operator::Delta => delta(spec, previous, look, stream),
    }
}

fn incremented(ty: Type, value: i128) -> i128 {
    match (ty, value) {
        (Type::U32, 4_294_967_295) | (Type::U64, 18_446_744_073_709_551_615) => 0,
        (Type::I32, 2_147_483_647) => -2_147_483_648,
        (Type::I64, 9_223_372_036_854_775_807) => -9_223_372_036_854_775_808,
        _ => value + 1,
    }
}

fn with_tail(base: Val, tail: Val) -> Val {
    let (Val::Text(mut base), Val::Text(tail)) = (base, tail) else { panic!("tails are texts") };
    for _ in 0..tail.len() {
        base.pop();
    }
    base.extend(tail);
    Val::Text(base)
}

fn delta(
    spec: &Spec,
    previous: &mut Previous,
    look: impl Fn(&Previous) -> Outcome<Previous>,
    stream: &mut Stream,
) -> Outcome<Option<Val>> {
    let first = stream.signed()?;
    let Some(first) = stream.nullable(spec.optional, first) else { return Ok(None) };
    let rest = match spec.ty {
        Type::Decimal => Some(Val::Int(stream.signed()?)),
        Type::Ascii => stream.ascii(false)?.map(Val::Text),
        Type::Unicode | Type::Bytes => stream.vector(false)?.map(Val::Text),
        _ => None,
    };
    let default = match spec.ty {
        Type::Decimal => Val::Dec(0, 0),
        ty if ty.is_integer() => Val::Int(0),
        _ => Val::Text(Vec::new()),
    };
    let base = match look(previous)? {
        Previous::Assigned(base) => base,
        Previous::Undefined => spec.initial.clone().unwrap_or(default),
        Previous::Empty => return Err(Code::D6),
    };
    let value = match (base, rest) {
        (Val::Int(base), None) => {
            let (low, high) = spec.ty.bounds();
            if base + first < low || base + first > high {
                return Err(Code::R4);
            }
            Val::Int(base + first)
        }
        (Val::Dec(exponent, mantissa), Some(Val::Int(second))) => {
            let (exponent, mantissa) = (exponent + first, mantissa + second);
            let fits = i64::try_from(mantissa).is_ok();
            if !fits || !(-63..=63).contains(&exponent) {
                return Err(Code::R1);
            }
            Val::Dec(exponent, mantissa)
        }
        (Val::Text(mut base), Some(Val::Text(added))) => {
            if !(-2_147_483_648..=2_147_483_647).contains(&first) {
                return Err(Code::D7);
            }
            let (front, count) = if first < 0 { (true, -(first + 1)) } else { (false, first) };
            if count > base.len() as i128 {
                return Err(Code::D7);
            }
            for _ in 0..count {
                if front {
                    base.remove(0);
                } else {
                    base.pop();
                }
            }
            Val::Text(if front { [added, base].concat() } else { [base, added].concat() })
        }
        other => panic!("{other:?}"),
    };
    *previous = Previous::Assigned(value.clone());
    Ok(Some(value))
}
