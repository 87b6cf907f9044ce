//! Positions and meanings of message fields, taken from the definitions that the codecs themselves
//! use; the tables of docs/ouch.md and docs/itch.md are generated from them.

/// One field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldLayout {
    /// Name of the field in the code.
    pub name: &'static str,
    /// Bytes before it, the message type included.
    pub offset: usize,
    /// Length of the field in the message, bytes.
    pub len: usize,
    /// Name of the field's Rust type, which says how it is encoded.
    pub kind: &'static str,
    /// What the field means, in a sentence for the page of the format.
    pub doc: &'static str,
}

/// One message; the type byte at its begin is not among the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Name of the message in the code.
    pub name: &'static str,
    /// Type byte of the message, its first byte.
    pub kind: u8,
    /// Length without optional fields, bytes.
    pub len: usize,
    /// What the message means, in a sentence for the page of the format.
    pub doc: &'static str,
    /// Fields in the order in which they lie in the message, without the type byte.
    pub fields: &'static [FieldLayout],
}
