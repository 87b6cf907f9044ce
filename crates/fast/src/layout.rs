//! Formats of fixed layout from descriptions: views over bytes, checked once for their length.
//!
//! [`layout!`] takes the length of each message and the type and offset of every field. The
//! compiler refuses a field that reaches beyond its message. A view is a reference to an array of
//! exactly its length, so reading a field is one load; [`Fields`] goes over all of them.
//! [`messages!`] adds an enum over messages that are told apart by their first byte.

/// Types a field may have, all big-endian.
pub trait FieldType: Sized {
    /// Number of bytes that the field takes.
    const LEN: usize;
    /// Reads the field from the front of `bytes`; missing bytes count as zero.
    fn read(bytes: &[u8]) -> Self;
    /// The field as a number, for sums: text as its first eight bytes at most, the first one
    /// highest.
    fn number(self) -> u64;
    /// What people are shown of the field at the front of `bytes`; missing bytes count as zero.
    fn shown(bytes: &[u8]) -> Shown<'_> {
        Shown::Number(Self::read(bytes).number())
    }
}

/// A field as people are shown it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown<'a> {
    /// An integer.
    Number(u64),
    /// One byte that stands for something.
    Letter(u8),
    /// Text of a fixed length, padding included.
    Text(&'a [u8]),
    /// So many units of 10^-`decimals`.
    Decimal {
        /// The count of units.
        units: u64,
        /// Digits behind the point.
        decimals: u8,
    },
    /// A time of day, ns since midnight.
    Time(u64),
}

impl<'a> Shown<'a> {
    /// An integer as a count of units of 10^-`decimals`; anything else as it is.
    pub fn decimal(self, decimals: u8) -> Shown<'a> {
        match self {
            Shown::Number(units) => Shown::Decimal { units, decimals },
            other => other,
        }
    }

    /// An integer as a time of day in ns; anything else as it is.
    pub fn time(self) -> Shown<'a> {
        match self {
            Shown::Number(ns) => Shown::Time(ns),
            other => other,
        }
    }
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl FieldType for $ty {
            const LEN: usize = size_of::<$ty>();
            #[inline(always)]
            fn read(bytes: &[u8]) -> $ty {
                bytes.first_chunk().map_or(0, |chunk| <$ty>::from_be_bytes(*chunk))
            }
            #[inline(always)]
            fn number(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}

integers! { u16 u32 u64 }

impl FieldType for u8 {
    const LEN: usize = 1;
    #[inline(always)]
    fn read(bytes: &[u8]) -> u8 {
        bytes.first().copied().unwrap_or(0)
    }
    #[inline(always)]
    fn number(self) -> u64 {
        u64::from(self)
    }
    fn shown(bytes: &[u8]) -> Shown<'_> {
        Shown::Letter(u8::read(bytes))
    }
}

/// An unsigned integer of six bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct U48(pub u64);

impl FieldType for U48 {
    const LEN: usize = 6;
    #[inline(always)]
    fn read(bytes: &[u8]) -> U48 {
        bytes
            .first_chunk::<6>()
            .map_or(U48(0), |&[a, b, c, d, e, f]| U48(u64::from_be_bytes([0, 0, a, b, c, d, e, f])))
    }
    #[inline(always)]
    fn number(self) -> u64 {
        self.0
    }
    fn shown(bytes: &[u8]) -> Shown<'_> {
        Shown::Time(U48::read(bytes).0)
    }
}

impl<const N: usize> FieldType for [u8; N] {
    const LEN: usize = N;
    #[inline(always)]
    fn read(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
    #[inline(always)]
    fn number(self) -> u64 {
        let mut eight = [0; 8];
        let len = N.min(8);
        eight[8 - len..].copy_from_slice(&self[..len]);
        u64::from_be_bytes(eight)
    }
    fn shown(bytes: &[u8]) -> Shown<'_> {
        Shown::Text(bytes.get(..N).unwrap_or(bytes))
    }
}

/// Whether a field at `offset` ends within a message of `len` bytes.
pub const fn fits<T: FieldType>(offset: usize, len: usize) -> bool {
    offset + T::LEN <= len
}

/// Iteration over all fields of a view.
pub trait Fields {
    /// Number of bytes of the message.
    const LEN: usize;
    /// Names of the fields, in the order of the description.
    const NAMES: &'static [&'static str];
    /// Calls `each` with every field as a number, in the order of the description.
    fn each(&self, each: impl FnMut(u64));
}

/// Defines views. Each field is `offset => name: type`.
#[macro_export]
macro_rules! layout {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident $len:literal {
            $($(#[$fdoc:meta])* $offset:literal => $field:ident: $ty:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name<'a>(&'a [u8; $len]);

        $(const _: () = assert!(
            $crate::layout::fits::<$ty>($offset, $len),
            "a field beyond the end of its message"
        );)*

        impl<'a> $name<'a> {
            /// The message at the front of `bytes`, and what follows it; `None` for too few bytes.
            #[inline(always)]
            pub fn split(bytes: &'a [u8]) -> Option<($name<'a>, &'a [u8])> {
                bytes.split_first_chunk().map(|(view, rest)| ($name(view), rest))
            }

            /// The message in exactly these bytes.
            #[inline(always)]
            pub fn parse(bytes: &'a [u8]) -> Option<$name<'a>> {
                bytes.try_into().ok().map($name)
            }

            /// All bytes of the message.
            pub fn as_bytes(&self) -> &'a [u8] {
                self.0
            }

            $(
                $(#[$fdoc])*
                #[inline(always)]
                pub fn $field(&self) -> $ty {
                    <$ty as $crate::layout::FieldType>::read(&self.0[$offset..])
                }
            )*
        }

        impl $crate::layout::Fields for $name<'_> {
            const LEN: usize = $len;
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];
            #[inline(always)]
            fn each(&self, mut each: impl FnMut(u64)) {
                $(each($crate::layout::FieldType::number(self.$field()));)*
            }
        }
    )*};
}

/// Defines views and an enum over them, told apart by the first byte. `offset => name: u8 = codes`
/// is a field whose values are limited to those given; `name: u32 as decimal(4)` or `as time()` is
/// shown to people as what [`Shown`] has of that name.
#[macro_export]
macro_rules! messages {
    (
        $(#[$edoc:meta])*
        pub enum $enum:ident;
        $(
            $(#[$doc:meta])*
            $name:ident = $kind:literal, $len:literal {
                $($(#[$fdoc:meta])* $offset:literal => $field:ident: $ty:ty
                    $(= $codes:literal)? $(as $how:ident($($digits:literal)?))?,)*
            }
        )*
    ) => {
        $crate::layout! {$(
            $(#[$doc])*
            pub struct $name $len {
                $($(#[$fdoc])* $offset => $field: $ty,)*
            }
        )*}

        $(#[$edoc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $enum<'a> {
            $(#[doc = concat!("Type ", stringify!($kind), ".")] $name($name<'a>),)*
        }

        impl<'a> $enum<'a> {
            /// Type byte and length of every message.
            pub const LENGTHS: &'static [(u8, usize)] = &[$(($kind, $len)),*];

            /// Reads exactly one message.
            ///
            /// # Errors
            /// D9 for an unknown type, `Truncated` for a wrong length, D2 for a coded field with
            /// a value outside its list.
            #[inline(always)]
            pub fn parse(bytes: &'a [u8]) -> Result<$enum<'a>, $crate::Code> {
                let &kind = bytes.first().ok_or($crate::Code::Truncated)?;
                match kind {
                    $($kind => {
                        let view = $name::parse(bytes).ok_or($crate::Code::Truncated)?;
                        $($(if !$codes.contains(&view.$field()) {
                            return Err($crate::Code::D2);
                        })?)*
                        Ok($enum::$name(view))
                    })*
                    _ => Err($crate::Code::D9),
                }
            }

            /// Name of the message, as its description has it.
            pub fn name(&self) -> &'static str {
                match self { $($enum::$name(_) => stringify!($name),)* }
            }

            /// Type byte of the message.
            pub fn kind(&self) -> u8 {
                match self { $($enum::$name(_) => $kind,)* }
            }

            /// Calls `each` with every field's name and what people are shown of it.
            pub fn shown(&self, mut each: impl FnMut(&'static str, $crate::layout::Shown<'a>)) {
                match self {
                    $($enum::$name(view) => {
                        let bytes: &'a [u8] = view.as_bytes();
                        $(each(
                            stringify!($field),
                            <$ty as $crate::layout::FieldType>::shown(
                                bytes.get($offset..).unwrap_or(&[]),
                            )$(.$how($($digits)?))?,
                        );)*
                    })*
                }
            }

            /// Calls `each` with every field as a number.
            #[inline(always)]
            pub fn each(&self, each: impl FnMut(u64)) {
                match self { $($enum::$name(view) => $crate::layout::Fields::each(view, each),)* }
            }
        }
    };
}

pub use crate::{layout, messages};
