//! What the library wants of a message beyond its fields: a size; and of a change of membership, its
//! written form, which is ours: changes u8 · per change type u8, member u64, little-endian · context,
//! to the end.

use protobuf::ProtobufError;

use crate::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2};

/// Implements the trait for types with a function `memory(&self) -> usize`.
macro_rules! sized_message {
    ($($name:ident),* $(,)?) => {$(
        impl protobuf::Message for $name {
            fn compute_size(&self) -> u32 {
                u32::try_from(self.memory()).unwrap_or(u32::MAX)
            }
        }
    )*};
}
pub(crate) use sized_message;

/// Bytes of a change.
const SINGLE: usize = 9;

impl protobuf::Message for ConfChangeV2 {
    fn compute_size(&self) -> u32 {
        u32::try_from(1 + self.changes.len() * SINGLE + self.context.len()).unwrap_or(u32::MAX)
    }

    fn merge_from_bytes(&mut self, bytes: &[u8]) -> Result<(), ProtobufError> {
        *self = ConfChangeV2::read(bytes).ok_or(ProtobufError::Malformed)?;
        Ok(())
    }

    fn write_to_bytes(&self) -> Result<Vec<u8>, ProtobufError> {
        self.write().ok_or(ProtobufError::NotOffered)
    }
}

impl ConfChangeV2 {
    /// Its written form; nothing for one that is entered or left in another way than by itself, or
    /// with more than 255 changes.
    pub fn write(&self) -> Option<Vec<u8>> {
        let auto = self.transition == ConfChangeTransition::Auto;
        let mut bytes = vec![u8::try_from(self.changes.len()).ok().filter(|_| auto)?];
        for change in &self.changes {
            bytes.push(change.change_type as u8);
            bytes.extend_from_slice(&change.node_id.to_le_bytes());
        }
        bytes.extend_from_slice(&self.context);
        Some(bytes)
    }

    /// Reads the written form; nothing when it makes no sense.
    pub fn read(bytes: &[u8]) -> Option<ConfChangeV2> {
        let (count, rest) = bytes.split_first()?;
        let (changes, context) = rest.split_at_checked(usize::from(*count) * SINGLE)?;
        let single = |bytes: &[u8]| {
            let (kind, member) = bytes.split_first()?;
            let change_type = ConfChangeType::from_number(*kind)?;
            Some(ConfChangeSingle {
                change_type,
                node_id: u64::from_le_bytes(member.try_into().ok()?),
            })
        };
        let changes: Option<Vec<_>> = changes.chunks(SINGLE).map(single).collect();
        Some(ConfChangeV2 {
            changes: changes?,
            context: context.to_vec(),
            ..ConfChangeV2::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::Message;

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let single = |change_type, node_id| ConfChangeSingle { change_type, node_id };
        let change = ConfChangeV2 {
            changes: vec![
                single(ConfChangeType::RemoveNode, 7),
                single(ConfChangeType::AddNode, 9),
            ],
            context: b"who is in it then".to_vec(),
            ..ConfChangeV2::default()
        };
        let bytes = change.write_to_bytes().unwrap();
        assert_eq!(bytes.len() as u32, change.compute_size());
        let mut known = ConfChangeV2::default();
        assert_eq!((known.merge_from_bytes(&bytes), &known), (Ok(()), &change));
        let explicit = ConfChangeV2 { transition: ConfChangeTransition::Explicit, ..change };
        assert_eq!(explicit.write_to_bytes(), Err(ProtobufError::NotOffered));
        for bad in [&[][..], &[1], &[1, 0, 1, 2, 3], &[1, 9, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(known.merge_from_bytes(bad), Err(ProtobufError::Malformed), "{bad:?}");
        }
    }
}
