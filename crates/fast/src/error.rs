//! What can be wrong with templates and streams, by the codes of FAST 1.1, appendix 4.
//!
//! `S` are errors of templates, `D` of a stream or of a message to be encoded, `R` are reportable:
//! a decoder may go on. This one goes on after R6 to R9 unless it is strict, because they only say
//! that the sender spent more bytes than needed; after all others there is no value to go on with.
//! Four codes have no number in the specification: bytes that end too early, a bound of this
//! implementation, a value that the template's operators cannot carry, and broken packet framing.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// Kinds of errors, by their names in the specification.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order of the specification.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code in one sentence.
            pub fn text(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// As it is written in the specification, like `D2`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => stringify!($name),)* }
            }
        }
    };
}

codes! {
    /// Static error S1 (FAST 1.1): the template XML is not well-formed or not valid.
    S1 "the template XML is not well-formed or not valid",
    /// Static error S2 (FAST 1.1): the operator is not applicable to the type of the field.
    S2 "the operator is not applicable to the type of the field",
    /// Static error S3 (FAST 1.1): the initial value cannot be converted to the type of the field.
    S3 "the initial value cannot be converted to the type of the field",
    /// Static error S4 (FAST 1.1): a constant operator has no initial value.
    S4 "a constant operator has no initial value",
    /// Static error S5 (FAST 1.1): a default operator on a mandatory field has no initial value.
    S5 "a default operator on a mandatory field has no initial value",
    /// Dynamic error D1 (FAST 1.1): the types of field and application value cannot be converted to
    /// each other.
    D1 "the types of field and application value cannot be converted to each other",
    /// Dynamic error D2 (FAST 1.1): an integer is outside the bounds of its type.
    D2 "an integer is outside the bounds of its type",
    /// Dynamic error D3 (FAST 1.1): the decimal cannot be encoded with the operators of exponent
    /// and mantissa.
    D3 "the decimal cannot be encoded with the operators of exponent and mantissa",
    /// Dynamic error D4 (FAST 1.1): the previous value has another type than the field.
    D4 "the previous value has another type than the field",
    /// Dynamic error D5 (FAST 1.1): a mandatory field is absent, its previous value undefined, and
    /// there is no initial value.
    D5 "a mandatory field is absent, its previous value undefined, and there is no initial value",
    /// Dynamic error D6 (FAST 1.1): a mandatory field needs its previous value, which is empty.
    D6 "a mandatory field needs its previous value, which is empty",
    /// Dynamic error D7 (FAST 1.1): the subtraction length exceeds the base value or an int32.
    D7 "the subtraction length exceeds the base value or an int32",
    /// Dynamic error D8 (FAST 1.1): the referred template is unknown.
    D8 "the referred template is unknown",
    /// Dynamic error D9 (FAST 1.1): no template has the identifier.
    D9 "no template has the identifier",
    /// Dynamic error D10 (FAST 1.1): a byte vector converts to and from strings only.
    D10 "a byte vector converts to and from strings only",
    /// Dynamic error D11 (FAST 1.1): the string does not follow the syntax of the type converted
    /// to.
    D11 "the string does not follow the syntax of the type converted to",
    /// Dynamic error D12 (FAST 1.1): a block has size zero.
    D12 "a block has size zero",
    /// Reportable error R1 (FAST 1.1): the decimal's exponent is outside -63 to 63 or its mantissa
    /// outside an int64.
    R1 "the decimal's exponent is outside -63 to 63 or its mantissa outside an int64",
    /// Reportable error R2 (FAST 1.1): the string is not valid UTF-8.
    R2 "the string is not valid UTF-8",
    /// Reportable error R3 (FAST 1.1): the string has characters that are not ASCII.
    R3 "the string has characters that are not ASCII",
    /// Reportable error R4 (FAST 1.1): the integer cannot be represented in its type.
    R4 "the integer cannot be represented in its type",
    /// Reportable error R5 (FAST 1.1): the decimal is no integer of the type.
    R5 "the decimal is no integer of the type",
    /// Reportable error R6 (FAST 1.1): an integer is overlong.
    R6 "an integer is overlong",
    /// Reportable error R7 (FAST 1.1): a presence map is overlong.
    R7 "a presence map is overlong",
    /// Reportable error R8 (FAST 1.1): a presence map has more bits than required.
    R8 "a presence map has more bits than required",
    /// Reportable error R9 (FAST 1.1): a string is overlong.
    R9 "a string is overlong",
    /// No error of the specification: the bytes end inside a field.
    Truncated "the bytes end inside a field",
    /// No error of the specification: a bound of this decoder is exceeded.
    Limit "a bound of this decoder is exceeded",
    /// No error of the specification: the operator cannot carry the value.
    Unencodable "the operator cannot carry the value",
    /// No error of the specification: the packet's framing is broken.
    Framing "the packet's framing is broken",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.name(), self.text())
    }
}

/// A dynamic or reportable error, and the field where it happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastError {
    /// The kind of error.
    pub code: Code,
    /// Index of the field in [`crate::Templates::fields`], where one is known.
    pub field: Option<u32>,
}

impl From<Code> for FastError {
    fn from(code: Code) -> FastError {
        FastError { code, field: None }
    }
}

impl fmt::Display for FastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "{} (field {field})", self.code),
            None => write!(f, "{}", self.code),
        }
    }
}

impl std::error::Error for FastError {}

/// A static error and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TemplateError {
    /// One of S1 to S5, or [`Code::Limit`].
    pub code: Code,
    /// Line of the XML text, from 1; 0 where there is none.
    pub line: u32,
    /// What stood there.
    pub detail: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.code, self.detail)
    }
}

impl std::error::Error for TemplateError {}

/// How often each code occurred.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorCounts([u64; Code::ALL.len()]);

impl Default for ErrorCounts {
    fn default() -> ErrorCounts {
        ErrorCounts([0; Code::ALL.len()])
    }
}

impl ErrorCounts {
    /// Counts one.
    pub fn add(&mut self, code: Code) {
        if let Some(count) = self.0.get_mut(code as usize) {
            *count += 1;
        }
    }

    /// How often `code` occurred.
    pub fn of(&self, code: Code) -> u64 {
        self.0.get(code as usize).copied().unwrap_or(0)
    }

    /// Of all codes together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The codes that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Code, u64)> {
        Code::ALL.iter().map(|&code| (code, self.of(code))).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_by_name() {
        let mut counts = ErrorCounts::default();
        for code in [Code::D9, Code::R6, Code::D9] {
            counts.add(code);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(Code::D9, 2), (Code::R6, 1)]);
        assert_eq!((counts.total(), Code::D12.name()), (3, "D12"));
    }
}
