//! The little of MoldUDP64 1.0 that the overlay must read: sequence numbers and message bounds.
//!
//! A packet is a 20-byte header (session 10 bytes, sequence number 8, message count 2, big-endian)
//! and `count` blocks of a 2-byte length and that many bytes. Count 0 is a heartbeat and 0xFFFF the
//! end of the session; both carry the next sequence number and no block. A request has the header's
//! layout: session, first message wanted, how many.

/// Bytes of a header, and of a request.
pub const HEADER_LEN: usize = 20;
/// Message count that says the session is over.
pub const END_OF_SESSION: u16 = 0xFFFF;
/// Length field before each message, bytes.
pub const PREFIX_LEN: usize = 2;

/// Name of a MoldUDP64 session, padded with spaces.
pub type Session = [u8; 10];

/// The fields of a header or of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Session that the sequence numbers belong to.
    pub session: Session,
    /// Sequence number of the first message (heartbeat, end of session: of the next one).
    pub seq: u64,
    /// Number of messages; 0: heartbeat, 0xFFFF: end of session.
    pub count: u16,
}

impl Header {
    /// Reads a header from the front; `None` when the bytes are too few.
    pub fn read(bytes: &[u8]) -> Option<(Header, &[u8])> {
        let (session, rest) = bytes.split_first_chunk::<10>()?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let header = Header {
            session: *session,
            seq: u64::from_be_bytes(*seq),
            count: u16::from_be_bytes(*count),
        };
        Some((header, rest))
    }

    /// The header as bytes on the wire.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..10].copy_from_slice(&self.session);
        bytes[10..18].copy_from_slice(&self.seq.to_be_bytes());
        bytes[18..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

/// A complete packet whose structure was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// Header of the packet.
    pub header: Header,
    /// The messages, each after its length as two bytes, big-endian.
    pub blocks: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks that the blocks are as many as the header says and end where the bytes end, and that
    /// sequence numbers start at 1 and do not run over.
    pub fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (header, blocks) = Header::read(bytes)?;
        let packet = Packet { header, blocks };
        header.seq.checked_add(u64::from(header.count))?;
        let rest = packet.skip(packet.messages())?;
        (header.seq > 0 && rest.is_empty()).then_some(packet)
    }

    /// How many messages it carries: none for heartbeats and the end of the session.
    pub fn messages(&self) -> u16 {
        if self.is_end_of_session() { 0 } else { self.header.count }
    }

    /// Sequence number after its last message.
    pub fn end(&self) -> u64 {
        self.header.seq.saturating_add(u64::from(self.messages()))
    }

    /// Whether the packet says that the session has ended.
    pub fn is_end_of_session(&self) -> bool {
        self.header.count == END_OF_SESSION
    }

    /// The blocks after the first `count`; `None` when they are fewer.
    pub fn skip(&self, count: u16) -> Option<&'a [u8]> {
        (0..count).try_fold(self.blocks, |rest, _| block(rest).map(|(_, rest)| rest))
    }
}

/// Splits the first block, its length included, off `blocks`.
pub fn block(blocks: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, _) = blocks.split_first_chunk::<PREFIX_LEN>()?;
    blocks.split_at_checked(PREFIX_LEN + usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: Session = *b"FAIRBELL01";

    fn packet(seq: u64, count: u16, messages: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Header { session: SESSION, seq, count }.bytes().to_vec();
        for message in messages {
            bytes.extend_from_slice(&(message.len() as u16).to_be_bytes());
            bytes.extend_from_slice(message);
        }
        bytes
    }

    #[test]
    fn a_packet_is_read_as_it_was_written() {
        let bytes = packet(7, 3, &[b"one", b"", b"three"]);
        let read = Packet::parse(&bytes).unwrap();
        assert_eq!((read.header.seq, read.messages(), read.end()), (7, 3, 10));
        assert_eq!(read.skip(2), Some(&b"\x00\x05three"[..]));
        assert_eq!(read.skip(4), None);
    }

    #[test]
    fn wrong_counts_and_lengths_are_refused() {
        assert!(Packet::parse(&packet(1, 1, &[])).is_none());
        assert!(Packet::parse(&packet(1, 0, &[b"x"])).is_none());
        assert!(Packet::parse(&packet(1, 1, &[b"x", b"y"])).is_none());
        assert!(Packet::parse(&packet(0, 0, &[])).is_none());
        assert!(Packet::parse(&packet(u64::MAX, 1, &[b"x"])).is_none());
        assert!(Packet::parse(&packet(5, 0, &[])).is_some_and(|heartbeat| heartbeat.end() == 5));
        let end = packet(5, END_OF_SESSION, &[]);
        assert!(Packet::parse(&end).is_some_and(|end| end.is_end_of_session()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.skip(packet.messages()).is_some());
            }
        }

        #[test]
        fn mutated_packets_never_panic(at in 0usize..33, value in any::<u8>()) {
            let mut bytes = packet(7, 3, &[b"one", b"", b"three"]);
            bytes[at.min(31)] = value;
            let _ = Packet::parse(&bytes).map(|packet| packet.end());
        }
    }
}
