//! Types and values of fields (FAST 1.1, §5 and §6.2).

/// The type of a primitive field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Mantissa times a power of ten.
    Decimal,
    /// Seven-bit characters.
    Ascii,
    /// UTF-8.
    Unicode,
    /// Bytes.
    Bytes,
}

impl Type {
    /// Whether it is one of the four integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Type::U32 | Type::I32 | Type::U64 | Type::I64)
    }

    /// Whether it is a string or a byte vector.
    pub fn is_text(self) -> bool {
        matches!(self, Type::Ascii | Type::Unicode | Type::Bytes)
    }

    /// Smallest and largest value of an integer type; all of 128 bits for the others.
    pub fn bounds(self) -> (i128, i128) {
        match self {
            Type::U32 => (0, u32::MAX as i128),
            Type::I32 => (i32::MIN as i128, i32::MAX as i128),
            Type::U64 => (0, u64::MAX as i128),
            Type::I64 => (i64::MIN as i128, i64::MAX as i128),
            _ => (i128::MIN, i128::MAX),
        }
    }
}

/// A scaled number: `mantissa * 10^exponent`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Decimal {
    /// Power of ten, -63 to 63 in a valid number.
    pub exponent: i32,
    /// The digits.
    pub mantissa: i64,
}

impl Decimal {
    /// Smallest exponent.
    pub const EXPONENT_MIN: i32 = -63;
    /// Largest exponent.
    pub const EXPONENT_MAX: i32 = 63;

    /// Whether the exponent is in its range.
    pub fn is_valid(self) -> bool {
        (Decimal::EXPONENT_MIN..=Decimal::EXPONENT_MAX).contains(&self.exponent)
    }

    /// The same number with a mantissa that does not end in a zero (§6.3.2).
    pub fn normalized(mut self) -> Decimal {
        if self.mantissa == 0 {
            return Decimal::default();
        }
        while self.mantissa % 10 == 0 {
            self.mantissa /= 10;
            self.exponent += 1;
        }
        self
    }

    /// The same number with another exponent; `None` when the mantissa would be no int64.
    pub fn rescaled(self, exponent: i32) -> Option<Decimal> {
        if self.mantissa == 0 {
            return Some(Decimal { exponent, mantissa: 0 });
        }
        let mut mantissa = self.mantissa;
        let steps = i64::from(self.exponent) - i64::from(exponent);
        // An int64 has 19 digits: more steps than that cannot end well.
        if steps.unsigned_abs() > 19 {
            return None;
        }
        for _ in 0..steps {
            mantissa = mantissa.checked_mul(10)?;
        }
        for _ in steps..0 {
            if mantissa % 10 != 0 {
                return None;
            }
            mantissa /= 10;
        }
        Some(Decimal { exponent, mantissa })
    }
}

/// A value as it comes out of the decoder: text is borrowed from the decoder or the message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// [`Type::U32`].
    U32(u32),
    /// [`Type::I32`].
    I32(i32),
    /// [`Type::U64`].
    U64(u64),
    /// [`Type::I64`].
    I64(i64),
    /// [`Type::Decimal`].
    Decimal(Decimal),
    /// [`Type::Ascii`]: every byte is below 128.
    Ascii(&'a [u8]),
    /// [`Type::Unicode`].
    Unicode(&'a str),
    /// [`Type::Bytes`].
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Its type.
    pub fn ty(&self) -> Type {
        match self {
            Value::U32(_) => Type::U32,
            Value::I32(_) => Type::I32,
            Value::U64(_) => Type::U64,
            Value::I64(_) => Type::I64,
            Value::Decimal(_) => Type::Decimal,
            Value::Ascii(_) => Type::Ascii,
            Value::Unicode(_) => Type::Unicode,
            Value::Bytes(_) => Type::Bytes,
        }
    }

    /// The integer, of an integer type.
    pub fn integer(&self) -> Option<i128> {
        match *self {
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The bytes, of a text type.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Ascii(bytes) | Value::Bytes(bytes) => Some(bytes),
            Value::Unicode(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The same value with text of its own.
    pub fn to_owned(&self) -> Owned {
        match *self {
            Value::U32(value) => Owned::U32(value),
            Value::I32(value) => Owned::I32(value),
            Value::U64(value) => Owned::U64(value),
            Value::I64(value) => Owned::I64(value),
            Value::Decimal(value) => Owned::Decimal(value),
            Value::Ascii(bytes) => Owned::Ascii(bytes.to_vec()),
            Value::Unicode(text) => Owned::Unicode(text.to_string()),
            Value::Bytes(bytes) => Owned::Bytes(bytes.to_vec()),
        }
    }
}

/// A value that owns its text: of templates, and of messages to be encoded.
#[derive(Clone, PartialEq, Debug)]
pub enum Owned {
    /// [`Type::U32`].
    U32(u32),
    /// [`Type::I32`].
    I32(i32),
    /// [`Type::U64`].
    U64(u64),
    /// [`Type::I64`].
    I64(i64),
    /// [`Type::Decimal`].
    Decimal(Decimal),
    /// [`Type::Ascii`]; bytes above 127 make the encoder refuse it.
    Ascii(Vec<u8>),
    /// [`Type::Unicode`].
    Unicode(String),
    /// [`Type::Bytes`].
    Bytes(Vec<u8>),
}

impl Owned {
    /// The value, borrowed.
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Owned::U32(value) => Value::U32(*value),
            Owned::I32(value) => Value::I32(*value),
            Owned::U64(value) => Value::U64(*value),
            Owned::I64(value) => Value::I64(*value),
            Owned::Decimal(value) => Value::Decimal(*value),
            Owned::Ascii(bytes) => Value::Ascii(bytes),
            Owned::Unicode(text) => Value::Unicode(text),
            Owned::Bytes(bytes) => Value::Bytes(bytes),
        }
    }

    /// An integer of `ty`; `None` outside its bounds, or when `ty` is none.
    pub fn of_integer(ty: Type, value: i128) -> Option<Owned> {
        Some(match ty {
            Type::U32 => Owned::U32(value.try_into().ok()?),
            Type::I32 => Owned::I32(value.try_into().ok()?),
            Type::U64 => Owned::U64(value.try_into().ok()?),
            Type::I64 => Owned::I64(value.try_into().ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_normalized_and_rescaled() {
        let number = |exponent, mantissa| Decimal { exponent, mantissa };
        assert_eq!(number(0, 100).normalized(), number(2, 1));
        assert_eq!(number(9, 0).normalized(), number(0, 0));
        assert_eq!(number(2, 1).rescaled(0), Some(number(0, 100)));
        assert_eq!(number(-2, 1).rescaled(2), None);
        assert_eq!(number(63, 1).rescaled(-63), None);
    }
}
