//! Formats in which all messages share one space of presence bits and previous values.
//!
//! OPRA FAST is of this kind: no templates, but categories, and a field has the same slot (its
//! presence bit, its previous value) in whatever category it occurs. Such a format is a
//! [`Format`]: slots, categories, what is appended or repeated and when, and how packets are
//! framed. A [`SlotDecoder`] and a [`SlotEncoder`] are generated from it: masks and tables are
//! worked out by the compiler, one decoder for each description.
//!
//! Rules: fields follow in the order of their slots, all stop-bit encoded and none nullable; a
//! field whose bit is clear has its previous value, or one more than it; previous values are
//! undefined at the start of every packet.

mod bmi;
mod decode;
mod encode;
mod plan;

pub use decode::{Message, PACKET_MAX, Packet, SlotDecoder, SlotSink, packet_header};
pub use encode::{Contents, SlotEncoder};
pub use plan::{category_slots, slot};

/// Slots a format may have: presence maps of at most nine bytes.
pub const SLOTS_MAX: usize = 63;

/// How a slot's field is represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned, 32 bits.
    Number,
    /// At most eight characters, kept as a number: first character highest.
    Short,
    /// Any number of characters.
    Long,
}

/// What a clear presence bit means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The previous value.
    Copy,
    /// One more than the previous value.
    Increment,
}

/// One field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Its name.
    pub name: &'static str,
    /// Its representation.
    pub kind: Kind,
    /// Its operator.
    pub rule: Rule,
}

/// Fields that some messages have in addition, by the value of another field.
#[derive(Clone, Copy, Debug)]
pub struct Appendage {
    /// Slot that decides.
    pub by: u8,
    /// Its values, and the slots appended; any other value is an error.
    pub cases: &'static [(&'static [u8], &'static [u8])],
}

/// Fields that occur several times at the end of a message.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Slot that decides.
    pub by: u8,
    /// Its values, the slot with the number of repetitions, and the slots repeated.
    pub cases: &'static [(&'static [u8], u8, &'static [u8])],
    /// Most repetitions.
    pub most: u64,
}

/// What follows the fields of a category.
#[derive(Clone, Copy, Debug)]
pub enum More {
    /// Nothing.
    Nothing,
    /// Further fields.
    Appendage(Appendage),
    /// Fields several times.
    Repeat(Repeat),
}

/// A kind of message.
#[derive(Clone, Copy, Debug)]
pub struct Category {
    /// Value of the category slot.
    pub code: u8,
    /// Its name.
    pub name: &'static str,
    /// Its slots, ascending, with the category's own.
    pub slots: &'static [u8],
    /// What follows.
    pub more: More,
}

/// How a packet begins and ends. Each message has its length in one byte in front, 255 for the
/// last one, which goes on to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// First byte.
    pub start: u8,
    /// Last byte.
    pub end: u8,
    /// Second byte, where there is a header.
    pub version: Option<u8>,
    /// ASCII digits of the first message's sequence number.
    pub sequence_digits: usize,
    /// ASCII digits of the number of messages.
    pub count_digits: usize,
}

impl Framing {
    /// Bytes before the first message.
    pub const fn header(&self) -> usize {
        match self.version {
            Some(_) => 2 + self.sequence_digits + self.count_digits,
            None => 1,
        }
    }
}

/// A format as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// Its slots, in order.
    pub slots: &'static [Slot],
    /// The slot that tells the category.
    pub category: u8,
    /// Slots of categories that are not listed.
    pub other: &'static [u8],
    /// Its categories.
    pub categories: &'static [Category],
    /// Its packets.
    pub framing: Framing,
}

/// A type that stands for a format, so that its tables are constants of the decoder.
pub trait Description {
    /// The format.
    const FORMAT: Format;
}
