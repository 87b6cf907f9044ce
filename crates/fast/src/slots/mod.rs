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

/// Most slots that a format may have: presence maps of at most nine bytes.
pub const SLOTS_MAX: usize = 63;

/// Representation of a slot's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An unsigned integer of 32 bits.
    Number,
    /// At most eight characters, kept as a number: first character highest.
    Short,
    /// A text of any number of characters.
    Long,
}

/// Value of a slot whose presence bit is clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The value of the slot before (copy operator).
    Copy,
    /// The value of the slot before, plus one (increment operator).
    Increment,
}

/// One field of a format: its representation and operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Name of the field.
    pub name: &'static str,
    /// How the field's values are represented.
    pub kind: Kind,
    /// What the field's value is when it is not in the stream.
    pub rule: Rule,
}

/// Fields that some messages have in addition, by the value of another field.
#[derive(Clone, Copy, Debug)]
pub struct Appendage {
    /// Slot whose value decides which fields are appended.
    pub by: u8,
    /// Values of that slot, each list with the slots appended; any other value is an error.
    pub cases: &'static [(&'static [u8], &'static [u8])],
}

/// Fields that occur several times at the end of a message.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Slot whose value decides what is repeated.
    pub by: u8,
    /// Values of that slot, each list with the slot of the number of repetitions and the slots
    /// repeated.
    pub cases: &'static [(&'static [u8], u8, &'static [u8])],
    /// Largest number of repetitions.
    pub most: u64,
}

/// What follows the fields of a category.
#[derive(Clone, Copy, Debug)]
pub enum More {
    /// No further fields.
    Nothing,
    /// Fields that depend on the value of a slot.
    Appendage(Appendage),
    /// Fields that are repeated a number of times.
    Repeat(Repeat),
}

/// A category: a kind of message with its slots.
#[derive(Clone, Copy, Debug)]
pub struct Category {
    /// Value of the category slot.
    pub code: u8,
    /// Name of the category.
    pub name: &'static str,
    /// Slots of the category's messages, ascending, the category slot included.
    pub slots: &'static [u8],
    /// What follows those slots.
    pub more: More,
}

/// How a packet begins and ends. Each message has its length in one byte in front, 255 for the
/// last one, which goes on to the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// First byte of every packet.
    pub start: u8,
    /// Last byte of every packet.
    pub end: u8,
    /// Second byte of every packet, where there is a header; `None`: there is no header.
    pub version: Option<u8>,
    /// Number of ASCII digits of the first message's sequence number.
    pub sequence_digits: usize,
    /// Number of ASCII digits of the number of messages.
    pub count_digits: usize,
}

impl Framing {
    /// Number of bytes before the first message.
    pub const fn header(&self) -> usize {
        match self.version {
            Some(_) => 2 + self.sequence_digits + self.count_digits,
            None => 1,
        }
    }
}

/// A format: slots, categories and framing.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Name of the format.
    pub name: &'static str,
    /// Fields of the format; a field's index is its slot.
    pub slots: &'static [Slot],
    /// Slot whose value is the category's code.
    pub category: u8,
    /// Slots of messages whose category is not listed.
    pub other: &'static [u8],
    /// Categories that the format has.
    pub categories: &'static [Category],
    /// How packets begin and end.
    pub framing: Framing,
}

/// A type that stands for a format, so that its tables are constants of the decoder.
pub trait Description {
    /// The format that the type stands for.
    const FORMAT: Format;
}
