//! Types and values of fields (FAST 1.1, §5 and §6.2).

/// Type of a primitive field (§5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Unsigned integer of 32 bits (uInt32).
    U32,
    /// Signed integer of 32 bits (int32).
    I32,
    /// Unsigned integer of 64 bits (uInt64).
    U64,
    /// Signed integer of 64 bits (int64).
    I64,
    /// A mantissa times a power of ten (decimal).
    Decimal,
    /// A string of seven-bit characters (string, charset ascii).
    Ascii,
    /// A string of Unicode characters in UTF-8 (string, charset unicode).
    Unicode,
    /// A string of bytes (byteVector).
    Bytes,
}

impl Type {
    /// Whether the type is one of the four integer types.
    pub fn is_integer(self) -> bool {
        matches!(self, Type::U32 | Type::I32 | Type::U64 | Type::I64)
    }

    /// Whether the type is a string or a byte vector.
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
    /// Signed count of the power of ten.
    pub mantissa: i64,
}

impl Decimal {
    /// Smallest exponent of a valid number.
    pub const EXPONENT_MIN: i32 = -63;
    /// Largest exponent of a valid number.
    pub const EXPONENT_MAX: i32 = 63;

    /// Whether the exponent is in the range of a valid number.
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
    /// A value of [`Type::U32`].
    U32(u32),
    /// A value of [`Type::I32`].
    I32(i32),
    /// A value of [`Type::U64`].
    U64(u64),
    /// A value of [`Type::I64`].
    I64(i64),
    /// A value of [`Type::Decimal`].
    Decimal(Decimal),
    /// [`Type::Ascii`]: every byte is below 128.
    Ascii(&'a [u8]),
    /// A value of [`Type::Unicode`].
    Unicode(&'a str),
    /// A value of [`Type::Bytes`].
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// Type that the value has.
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

    /// The value as a number; `None` for a value of another type than an integer.
    pub fn integer(&self) -> Option<i128> {
        match *self {
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The bytes of a string or byte vector; `None` for a value of another type.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Ascii(bytes) | Value::Bytes(bytes) => Some(bytes),
            Value::Unicode(text) => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// A copy of the value that owns its text.
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
    /// A value of [`Type::U32`].
    U32(u32),
    /// A value of [`Type::I32`].
    I32(i32),
    /// A value of [`Type::U64`].
    U64(u64),
    /// A value of [`Type::I64`].
    I64(i64),
    /// A value of [`Type::Decimal`].
    Decimal(Decimal),
    /// [`Type::Ascii`]; bytes above 127 make the encoder refuse it.
    Ascii(Vec<u8>),
    /// A value of [`Type::Unicode`].
    Unicode(String),
    /// A value of [`Type::Bytes`].
    Bytes(Vec<u8>),
}

impl Owned {
    /// The value, with its text borrowed.
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

    /// A value of integer type `ty`; `None` when it is outside the type's bounds, or `ty` is no
    /// integer type.
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
