//! MoldUDP64 1.0: sequenced messages in datagrams, and requests for those that were lost.
//!
//! A downstream packet is session (10 bytes), sequence number of its first message (8), message
//! count (2), then per message a two-byte length and its bytes; all big-endian. Count 0 is a
//! heartbeat whose sequence number is the next one to come; count 0xFFFF says that the session is
//! over, its sequence number likewise. A request is the same 20 bytes with nothing behind.
//!
//! [`Packet::parse`] walks all messages once, so a packet that exists is whole: no bytes missing,
//! none left over. A message of no bytes is legal here.

use zerocopy::big_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes before the first message.
pub const HEADER_LEN: usize = 20;
/// Bytes in front of every message.
pub const BLOCK_LEN: usize = 2;
/// The message count that means "end of session".
pub const END_OF_SESSION: u16 = 0xFFFF;

/// Name of a session, ASCII padded with spaces.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct Session(pub [u8; 10]);

/// First bytes of a downstream packet, all of a request.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Session that the numbers belong to.
    pub session: Session,
    /// Sequence number of the first message; in a heartbeat, of the next message to come.
    pub seq: U64,
    /// Number of messages in a packet or wanted by a request; 0: heartbeat, [`END_OF_SESSION`]:
    /// end.
    pub count: U16,
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

impl Header {
    fn new(session: Session, seq: u64, count: u16) -> Header {
        Header { session, seq: U64::new(seq), count: U16::new(count) }
    }
}

/// Why bytes are not a MoldUDP64 packet or request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoldError {
    /// Fewer bytes than the header, or fewer messages than it counts.
    Truncated,
    /// Bytes behind the last message.
    TrailingBytes,
    /// Sequence numbers would pass 2^64.
    SequenceOverflow,
}

impl std::fmt::Display for MoldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            MoldError::Truncated => "MoldUDP64 packet is cut short",
            MoldError::TrailingBytes => "MoldUDP64 packet has bytes behind its last message",
            MoldError::SequenceOverflow => "MoldUDP64 sequence number overflows",
        })
    }
}

impl std::error::Error for MoldError {}

/// A downstream packet whose messages have all been checked to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    header: &'a Header,
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks `bytes` from the header to the last message.
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, MoldError> {
        let (header, body) = Header::ref_from_prefix(bytes).map_err(|_| MoldError::Truncated)?;
        let packet = Packet { header, body };
        let mut messages = packet.messages();
        for _ in 0..packet.count() {
            messages.next().ok_or(MoldError::Truncated)?;
        }
        if !messages.rest.is_empty() {
            return Err(MoldError::TrailingBytes);
        }
        let last = packet.seq().checked_add(u64::from(packet.count()));
        last.map(|_| packet).ok_or(MoldError::SequenceOverflow)
    }

    /// Session that the numbers belong to.
    pub fn session(&self) -> Session {
        self.header.session
    }

    /// Number of the first message; of the next one to come when there is none.
    pub fn seq(&self) -> u64 {
        self.header.seq.get()
    }

    /// How many messages: 0 for heartbeats and the end of the session.
    pub fn count(&self) -> u16 {
        if self.is_end_of_session() { 0 } else { self.header.count.get() }
    }

    /// The number after the last message.
    pub fn next_seq(&self) -> u64 {
        self.seq() + u64::from(self.count())
    }

    /// Whether it is a heartbeat: nothing new, but the sender lives.
    pub fn is_heartbeat(&self) -> bool {
        self.header.count.get() == 0
    }

    /// Whether it ends the session.
    pub fn is_end_of_session(&self) -> bool {
        self.header.count.get() == END_OF_SESSION
    }

    /// The messages in order, numbered from [`Packet::seq`].
    pub fn messages(&self) -> Messages<'a> {
        Messages { rest: self.body, left: self.count() }
    }
}

/// Iterator over the messages of a [`Packet`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (len, rest) = U16::ref_from_prefix(self.rest).ok()?;
        let (message, rest) = rest.split_at_checked(usize::from(len.get()))?;
        self.rest = rest;
        Some(message)
    }
}

/// Builds downstream packets of one session, one after the other, in one buffer.
#[derive(Clone, Debug)]
pub struct PacketBuilder {
    header: Header,
    bytes: Vec<u8>,
    max_len: usize,
}

impl PacketBuilder {
    /// An empty packet that starts at `seq` and never gets longer than `max_len` bytes.
    ///
    /// A message of up to `max_len - HEADER_LEN - BLOCK_LEN` bytes always fits an empty packet.
    pub fn new(session: Session, seq: u64, max_len: usize) -> PacketBuilder {
        let header = Header::new(session, seq, 0);
        let mut builder =
            PacketBuilder { header, bytes: Vec::with_capacity(max_len.max(HEADER_LEN)), max_len };
        builder.reset(seq);
        builder
    }

    /// Appends a message; false when it does not fit (nothing changes).
    pub fn push(&mut self, message: &[u8]) -> bool {
        let Ok(len) = u16::try_from(message.len()) else { return false };
        let fits = self.bytes.len() + BLOCK_LEN + message.len() <= self.max_len;
        if !fits || self.count() == END_OF_SESSION - 1 {
            return false;
        }
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(message);
        self.header.count = U16::new(self.count() + 1);
        self.write_header();
        true
    }

    /// The packet so far; with no message in it, a heartbeat.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of messages so far.
    pub fn count(&self) -> u16 {
        self.header.count.get()
    }

    /// Whether there is no message yet.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Number of the first message.
    pub fn seq(&self) -> u64 {
        self.header.seq.get()
    }

    /// The number the next message pushed will have (2^64 are out of reach).
    pub fn next_seq(&self) -> u64 {
        self.seq().saturating_add(u64::from(self.count()))
    }

    /// Starts over with an empty packet at `seq`.
    pub fn reset(&mut self, seq: u64) {
        self.header.seq = U64::new(seq);
        self.header.count = U16::new(0);
        self.bytes.clear();
        self.bytes.extend_from_slice(self.header.as_bytes());
    }

    /// Starts over behind the last message: call it after the packet was sent.
    pub fn advance(&mut self) {
        self.reset(self.next_seq());
    }

    fn write_header(&mut self) {
        if let Some(start) = self.bytes.get_mut(..HEADER_LEN) {
            start.copy_from_slice(self.header.as_bytes());
        }
    }
}

/// Appends a heartbeat: `next_seq` is the number of the message to come.
pub fn encode_heartbeat(session: Session, next_seq: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(Header::new(session, next_seq, 0).as_bytes());
}

/// Appends the end of the session: `next_seq` is the number after its last message.
pub fn encode_end_of_session(session: Session, next_seq: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(Header::new(session, next_seq, END_OF_SESSION).as_bytes());
}

/// A request to a retransmission server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Session the numbers belong to.
    pub session: Session,
    /// Sequence number of the first message wanted.
    pub seq: u64,
    /// How many are wanted; the server may send fewer.
    pub count: u16,
}

impl Request {
    /// Reads a request: exactly 20 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Request, MoldError> {
        if bytes.len() > HEADER_LEN {
            return Err(MoldError::TrailingBytes);
        }
        let header = Header::ref_from_bytes(bytes).map_err(|_| MoldError::Truncated)?;
        let (seq, count) = (header.seq.get(), header.count.get());
        Ok(Request { session: header.session, seq, count })
    }

    /// Appends the request to `out`: 20 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(Header::new(self.session, self.seq, self.count).as_bytes());
    }
}

/// Length of a token, bytes.
pub const TOKEN_LEN: usize = 16;

/// What a retransmission server of Fairbell gives an address, to be shown with requests from there
/// as a proof that its answers are heard (an extension: requests without are served, sparingly).
pub type Token = [u8; TOKEN_LEN];

/// Reads the answer that gives a token: a heartbeat of the session with the token behind it.
pub fn parse_token(session: Session, bytes: &[u8]) -> Option<Token> {
    let (header, token) = Header::ref_from_prefix(bytes).ok()?;
    let ours = header.session == session && header.count.get() == 0;
    <Token>::try_from(token).ok().filter(|_| ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: Session = Session(*b"FAIRBELL01");

    #[test]
    fn golden_packet_with_two_messages() {
        let mut builder = PacketBuilder::new(SESSION, 0x0102_0304, 30);
        assert!(builder.push(b"abc") && builder.push(b"xy") && !builder.push(b""));
        let golden = b"FAIRBELL01\0\0\0\0\x01\x02\x03\x04\0\x02\0\x03abc\0\x02xy";
        assert_eq!(builder.bytes(), golden);
        let packet = Packet::parse(golden).unwrap();
        assert_eq!(
            (packet.seq(), packet.count(), packet.next_seq()),
            (0x0102_0304, 2, 0x0102_0306)
        );
        assert!(packet.messages().eq([b"abc".as_slice(), b"xy"]));
        builder.advance();
        assert_eq!((builder.seq(), builder.is_empty()), (0x0102_0306, true));
        assert!(Packet::parse(builder.bytes()).unwrap().is_heartbeat());
    }

    #[test]
    fn control_packets_and_requests() {
        let mut out = Vec::new();
        encode_heartbeat(SESSION, 7, &mut out);
        assert_eq!(out, b"FAIRBELL01\0\0\0\0\0\0\0\x07\0\0");
        assert!(Packet::parse(&out).unwrap().is_heartbeat());
        out.clear();
        encode_end_of_session(SESSION, 7, &mut out);
        let packet = Packet::parse(&out).unwrap();
        assert!(packet.is_end_of_session() && !packet.is_heartbeat());
        assert_eq!((packet.count(), packet.next_seq()), (0, 7));
        out.clear();
        let request = Request { session: SESSION, seq: 9, count: 3 };
        request.encode(&mut out);
        assert_eq!(out, b"FAIRBELL01\0\0\0\0\0\0\0\x09\0\x03");
        assert_eq!(Request::parse(&out), Ok(request));
        assert_eq!(Request::parse(&out[..19]), Err(MoldError::Truncated));
        out.push(0);
        assert_eq!(Request::parse(&out), Err(MoldError::TrailingBytes));
    }

    #[test]
    fn a_token_is_read_of_its_own_session_only() {
        let mut out = Vec::new();
        encode_heartbeat(SESSION, 7, &mut out);
        out.extend([5; TOKEN_LEN]);
        assert_eq!(parse_token(SESSION, &out), Some([5; TOKEN_LEN]));
        assert_eq!(parse_token(Session(*b"FAIRBELL02"), &out), None);
        assert_eq!(parse_token(SESSION, &out[..35]), None);
        out[19] = 1;
        assert_eq!(parse_token(SESSION, &out), None);
    }

    #[test]
    fn numbers_never_wrap() {
        let mut builder = PacketBuilder::new(SESSION, u64::MAX, 64);
        assert!(Packet::parse(builder.bytes()).is_ok());
        assert!(builder.push(b"a"));
        assert_eq!(Packet::parse(builder.bytes()), Err(MoldError::SequenceOverflow));
    }

    #[test]
    fn a_packet_never_counts_itself_into_the_end_of_session() {
        let mut builder = PacketBuilder::new(SESSION, 1, 1 << 20);
        while builder.push(b"") {}
        assert_eq!(builder.count(), END_OF_SESSION - 1);
        assert_eq!(Packet::parse(builder.bytes()).unwrap().messages().count(), 0xFFFE);
    }

    fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..30)
    }

    proptest! {
        #[test]
        fn round_trip(seq in 0..u64::MAX / 2, messages in messages(), max_len in 20usize..1_500) {
            let mut builder = PacketBuilder::new(SESSION, seq, max_len);
            let taken: Vec<_> = messages.iter().take_while(|m| builder.push(m)).collect();
            prop_assert!(builder.bytes().len() <= max_len);
            let packet = Packet::parse(builder.bytes()).unwrap();
            prop_assert_eq!(packet.session(), SESSION);
            prop_assert_eq!((packet.seq(), packet.next_seq()), (seq, builder.next_seq()));
            prop_assert!(packet.messages().eq(taken.iter().map(|m| m.as_slice())));
        }

        #[test]
        fn any_cut_or_flip_is_refused_or_whole(
            messages in messages(), cut in any::<prop::sample::Index>(), bit in any::<u8>(),
            extra in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let mut builder = PacketBuilder::new(SESSION, 1, 4_000);
            messages.iter().for_each(|m| { builder.push(m); });
            let whole = builder.bytes();
            let at = cut.index(whole.len());
            prop_assert_eq!(Packet::parse(&whole[..at]), Err(MoldError::Truncated));
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1 << (bit % 8);
            bytes.extend_from_slice(&extra);
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert_eq!(packet.messages().count(), usize::from(packet.count()));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Packet::parse(&bytes).map(|packet| packet.messages().count());
            let _ = Request::parse(&bytes);
            let _ = parse_token(SESSION, &bytes);
        }
    }
}
