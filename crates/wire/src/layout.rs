//! Where the fields of messages lie, from the definitions that the codecs themselves use:
//! docs/ouch.md and docs/itch.md are written from it.

/// One field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldLayout {
    /// Its name in the code.
    pub name: &'static str,
    /// Bytes before it, the message type included.
    pub offset: usize,
    /// Its bytes.
    pub len: usize,
    /// Its type in the code.
    pub kind: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// One message; the type byte at its begin is not among the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Its name in the code.
    pub name: &'static str,
    /// The message type byte.
    pub kind: u8,
    /// Its bytes, without optional ones.
    pub len: usize,
    /// What it means.
    pub doc: &'static str,
    /// Its fields in order.
    pub fields: &'static [FieldLayout],
}
