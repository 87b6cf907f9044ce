//! Where decoded fields go, and what no message may exceed.

use crate::value::Value;

/// Where decoded fields go. `field` is an index of [`crate::Templates::fields`].
pub trait Sink {
    /// A message, or the part of one that a dynamic reference leads to, begins.
    fn begin(&mut self, template: u32) {
        let _ = template;
    }
    /// It ends.
    fn end(&mut self) {}
    /// A value.
    fn field(&mut self, field: u32, value: Value<'_>);
    /// An optional field, group or sequence is not there.
    fn absent(&mut self, field: u32) {
        let _ = field;
    }
    /// A group begins.
    fn begin_group(&mut self, field: u32) {
        let _ = field;
    }
    /// It ends.
    fn end_group(&mut self) {}
    /// A sequence begins.
    fn begin_sequence(&mut self, field: u32, length: u32) {
        let _ = (field, length);
    }
    /// The next element of it begins.
    fn element(&mut self) {}
    /// The sequence ends.
    fn end_sequence(&mut self) {}
}

/// What no message may exceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Elements of all sequences of a message.
    pub elements: u32,
    /// Steps of a message inside sequences: elements times what is in one, so that a few bytes and a
    /// template with many fields that take none cannot ask for hours of work.
    pub steps: u32,
    /// Bytes of a string that deltas and tails make longer.
    pub text: usize,
    /// Dynamic references inside each other.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { elements: 1 << 16, steps: 1 << 22, text: 1 << 16, depth: 16 }
    }
}
