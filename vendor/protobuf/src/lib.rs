//! The one trait of `protobuf` 2 that the consensus library (`raft` 0.7) is compiled against, put in
//! its place by `[patch]` in the workspace, as `raft-proto` is.
//!
//! The library asks messages for their size, to cut batches. It also writes and reads changes of
//! membership: `raft-proto` has a form of its own for those, and anything else is refused. So no
//! parser of the published crate (RUSTSEC-2024-0437) is in the binary.

/// What is wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtobufError {
    /// Messages of this kind are neither written nor read.
    NotOffered,
    /// The bytes are none of such a message.
    Malformed,
}

impl std::fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ProtobufError::NotOffered => "messages of this kind are neither written nor read",
            ProtobufError::Malformed => "the bytes are none of such a message",
        })
    }
}

impl std::error::Error for ProtobufError {}

/// A message, as far as the library needs it.
pub trait Message {
    /// About how many bytes it has.
    fn compute_size(&self) -> u32;

    /// Reads it; refused unless the message has a written form.
    ///
    /// # Errors
    /// [`ProtobufError`].
    fn merge_from_bytes(&mut self, _: &[u8]) -> Result<(), ProtobufError> {
        Err(ProtobufError::NotOffered)
    }

    /// Writes it; refused unless the message has a written form.
    ///
    /// # Errors
    /// [`ProtobufError`].
    fn write_to_bytes(&self) -> Result<Vec<u8>, ProtobufError> {
        Err(ProtobufError::NotOffered)
    }
}
