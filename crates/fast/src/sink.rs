//! The receiver of decoded fields, and the limits that no message may exceed.

use crate::value::Value;

/// Receives the fields of messages as they are decoded. `field` is an index of
/// [`crate::Templates::fields`].
pub trait Sink {
    /// A message, or the part of one that a dynamic reference leads to, begins.
    fn begin(&mut self, template: u32) {
        let _ = template;
    }
    /// The message or part that began last ends.
    fn end(&mut self) {}
    /// A primitive field has this value.
    fn field(&mut self, field: u32, value: Value<'_>);
    /// An optional field, group or sequence is absent.
    fn absent(&mut self, field: u32) {
        let _ = field;
    }
    /// A group begins; its fields follow.
    fn begin_group(&mut self, field: u32) {
        let _ = field;
    }
    /// The group that began last ends.
    fn end_group(&mut self) {}
    /// A sequence of `length` elements begins.
    fn begin_sequence(&mut self, field: u32, length: u32) {
        let _ = (field, length);
    }
    /// The next element of the sequence begins.
    fn element(&mut self) {}
    /// The sequence that began last ends.
    fn end_sequence(&mut self) {}
}

/// Limits that no message may exceed; beyond them decoding ends with [`crate::Code::Limit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most elements of all sequences of a message together.
    pub elements: u32,
    /// Steps of a message inside sequences: elements times what is in one, so that a few bytes and a
    /// template with many fields that take none cannot ask for hours of work.
    pub steps: u32,
    /// Longest string that deltas and tails may make, bytes.
    pub text: usize,
    /// Deepest nesting of dynamic references.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { elements: 1 << 16, steps: 1 << 22, text: 1 << 16, depth: 16 }
    }
}
