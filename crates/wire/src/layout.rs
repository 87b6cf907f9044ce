//! Where the fields of messages lie, from the definitions that the codecs themselves use:
//! docs/ouch.md and docs/itch.md are written from it.

/// One field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldLayout {
    /// Name of the field in the code.
    pub name: &'static str,
    /// Bytes before it, the message type included.
    pub offset: usize,
    /// Length, bytes.
    pub len: usize,
    /// Type in the code.
    pub kind: &'static str,
    /// What the field means, in a sentence for the page of the format.
    pub doc: &'static str,
}

/// One message; the type byte at its begin is not among the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Name of the message in the code.
    pub name: &'static str,
    /// The message type byte.
    pub kind: u8,
    /// Length without optional fields, bytes.
    pub len: usize,
    /// What the message means, in a sentence for the page of the format.
    pub doc: &'static str,
    /// Fields, in order.
    pub fields: &'static [FieldLayout],
}
