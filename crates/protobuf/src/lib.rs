//! The one trait of `protobuf` 2 that the consensus library (`raft` 0.7) is compiled against, put in
//! its place by `[patch]` in the workspace, as `raft-proto` is.
//!
//! The library asks messages for their size, to cut batches. It also offers to write and read changes
//! of membership, which this exchange does not make: both are refused. So no parser of the published
//! crate (RUSTSEC-2024-0437) is in the binary.

/// What is wrong with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtobufError {
    /// Messages are neither written nor read in this format.
    NotOffered,
}

impl std::fmt::Display for ProtobufError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("messages are neither written nor read in this format")
    }
}

impl std::error::Error for ProtobufError {}

/// A message, as far as the library needs it.
pub trait Message {
    /// About how many bytes it has.
    fn compute_size(&self) -> u32;

    /// Refused.
    ///
    /// # Errors
    /// Always [`ProtobufError::NotOffered`].
    fn merge_from_bytes(&mut self, _: &[u8]) -> Result<(), ProtobufError> {
        Err(ProtobufError::NotOffered)
    }

    /// Refused.
    ///
    /// # Errors
    /// Always [`ProtobufError::NotOffered`].
    fn write_to_bytes(&self) -> Result<Vec<u8>, ProtobufError> {
        Err(ProtobufError::NotOffered)
    }
}
