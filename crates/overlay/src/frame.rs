//! Layouts of every datagram between nodes of the exchange.
//!
//! A datagram is a [`HopHeader`], which changes at every hop, and one body that does not: body and
//! payload are what a later version seals end to end, the header is what it tags per hop
//! (corner 19). All structs are little-endian and fixed; reading checks length, version and every
//! discriminant, and gives a reason when it refuses.
//!
//! Three number spaces, never mixed (corner 4): `DataBody::id` is the overlay id, dense from 1 per
//! (epoch, stream); the payload of a data frame is a MoldUDP64 packet with sequence numbers of its
//! own; log positions stay at the root.

use types::{
    AccountId, FeedSeq, GatewayId, Incarnation, Nanos, NodeId, Source, limits::DATAGRAM_MAX,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

/// Version of the layouts of this module.
pub const VERSION: u8 = 1;

/// Kind of a datagram: what its body is.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable,
)]
#[repr(u8)]
pub enum FrameKind {
    /// Down the tree: [`DataBody`] + MoldUDP64 packet.
    Data = 1,
    /// Retransmission server to one receiver: as `Data`, with the id, times and deadline of the
    /// original (corner 13).
    Repair = 2,
    /// Receiver to retransmission server: [`RepairRequestBody`].
    RepairRequest = 3,
    /// Up the tree: [`DelayBody`] + samples.
    Delay = 4,
    /// Up the tree: [`OrderBody`] + payload (a `types::Command`, opaque here).
    Order = 5,
    /// Root to gateway, direct: [`OrderAckBody`].
    OrderAck = 6,
    /// Gateway to root, direct: [`HelloBody`].
    Hello = 7,
    /// Root to gateway, direct: [`GrantBody`].
    Grant = 8,
    /// Gateway to root, direct: [`AttachBody`].
    Attach = 9,
    /// Root to gateway, direct: [`AttachReplyBody`].
    AttachReply = 10,
    /// Root to gateway, direct: [`PrivateBody`] + `count` records of `record_len` bytes.
    Private = 11,
    /// Gateway to root, direct: [`PrivateAckBody`].
    PrivateAck = 12,
}

/// First 16 bytes of every datagram; rewritten at each hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, IntoBytes, TryFromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HopHeader {
    /// Version of the layout: [`VERSION`].
    pub version: u8,
    /// Kind of the body that follows.
    pub kind: FrameKind,
    /// For orders: how often the gateway has re-sent it (saturating). Each hop reads its own digit
    /// of this number (`Topology::up_hop`), so that re-sends walk through all ways up.
    pub attempt: u8,
    /// For orders: [`ORDER_DEFERRED`], [`ORDER_PACED`], and above them [`HopHeader::backlog`].
    pub flags: u8,
    /// Who sent this copy. A claim, not a proof, until datagrams are sealed.
    pub sender: NodeId,
    /// For paced orders: number of this packet between these two nodes.
    pub hop_number: u16,
    /// Tree epoch the sender lives in.
    pub epoch: u32,
    /// For paced orders: lower half of the nanoseconds at which this hop was sent.
    pub hop_sent: u32,
}

/// [`HopHeader::flags`]: a queue on the way let later orders pass (corner 6).
pub const ORDER_DEFERRED: u8 = 1;
/// [`HopHeader::flags`]: the hop is paced and wants to be told how it went.
pub const ORDER_PACED: u8 = 2;

/// A market-data datagram, before its MoldUDP64 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DataBody {
    /// Overlay id, dense from 1 per (epoch, stream).
    pub id: u64,
    /// When the publisher sent it.
    pub t_sent: Nanos,
    /// When receivers may hand it on; 0 before the first delay estimate: at once.
    pub deadline: Nanos,
    /// The fleet's largest clock bound: a receiver waits until its own clock reads
    /// `deadline + bound_ns`, so that all wait the same (corner 14).
    pub bound_ns: u32,
    /// Number of the stream, which is that of its tree.
    pub stream: u16,
    /// Hedging of this message: 0 as the tree's, else H + 1.
    pub hedge: u8,
    /// Bits [`DATA_PARITY`] and [`DATA_OLDEST`]; the others are zero.
    pub flags: u8,
}

/// [`DataBody::flags`]: the payload is a [`crate::parity`] block, not a MoldUDP64 packet.
pub const DATA_PARITY: u8 = 1;
/// [`DataBody::flags`]: a repair of the root that says what it no longer has. The packet has no
/// message, its number is that of the first message kept; id, times and bound are that datagram's.
pub const DATA_OLDEST: u8 = 2;

/// A request for MoldUDP64 messages a receiver misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RepairRequestBody {
    /// Position of the first missing message.
    pub from: FeedSeq,
    /// Number of missing messages.
    pub count: u32,
    /// Number of the stream, which is that of its tree.
    pub stream: u16,
    /// Padding; zero.
    pub reserved: u16,
}

/// One delay estimate on its way up (corner 15).
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DelayBody {
    /// Round number: exchange clock divided by the round length.
    pub round: u64,
    /// Largest one-way delay estimate below the sender, in ns.
    pub owd_ns: u64,
    /// Largest clock bound below the sender, in ns.
    pub bound_ns: u64,
    /// How many receivers the value speaks for.
    pub receivers: u32,
    /// Number of the stream, which is that of its tree.
    pub stream: u16,
    /// How many [`crate::samples::Sample`]s follow, at most [`crate::samples::SAMPLES_MAX`].
    pub samples: u16,
}

/// One order on its way up, before its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OrderBody {
    /// Transport key of the order (corner 1).
    pub source: Source,
    /// Transport number of the previous message of the same session, 0 for none: the root releases
    /// this one only after that one (corner 3).
    pub depends_on: u64,
    /// When the gateway received the request.
    pub t_in: Nanos,
}

/// Which order messages of a gateway's life are in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct OrderAckBody {
    /// Every number up to and including this one is.
    pub contiguous: u64,
    /// Bit i: number `contiguous + 1 + i` is, for the first 256.
    pub selective: [u64; 4],
    /// Bit i: number `contiguous + 1 + i` has come and waits at the root for its turn, so it need
    /// not be sent again; only what is in the log is done with.
    pub held: [u64; 4],
    /// Incarnation of the gateway that is answered.
    pub incarnation: Incarnation,
    /// [`echo`] of an order that reached the log without waiting for another one; 0: none.
    pub echo: u32,
    /// Orders of this life of which a re-sent copy was the first to come; counts round.
    pub useful: u32,
    /// Term in which this root leads its group; 0: the root has no group. A gateway that sees
    /// another term than before sends again what is not acknowledged, and `useful` counts anew.
    pub term: u32,
}

/// Names the copy of an order that was taken: the lower 24 bits of its number, then its attempt.
pub fn echo(seq: u64, attempt: u8) -> u32 {
    ((seq as u32) << 8) | u32::from(attempt)
}

/// A gateway asks for an incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct HelloBody {
    /// Gateway that asks for an incarnation.
    pub gateway: GatewayId,
    /// Padding; zero.
    pub reserved: u16,
    /// Chosen afresh at each start, so that a repeated Hello is not a second start.
    pub boot_nonce: u32,
}

/// The incarnation granted through the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct GrantBody {
    /// Gateway that asked.
    pub gateway: GatewayId,
    /// Padding; zero.
    pub reserved: u16,
    /// The gateway's boot nonce, echoed.
    pub boot_nonce: u32,
    /// Incarnation that the gateway was granted.
    pub incarnation: Incarnation,
}

/// A gateway asks for an account's private stream from a position, or gives it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AttachBody {
    /// Account whose private stream is meant.
    pub account: AccountId,
    /// 1: attach, 2: attach wherever the stream is, 0: detach.
    pub attach: u16,
    /// The gateway's name for this attachment; a higher one replaces a lower one of this gateway.
    pub token: u32,
    /// First position wanted; 0: only what comes from now on.
    pub from: u64,
}

/// The root's answer to an [`AttachBody`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AttachReplyBody {
    /// Account whose private stream is meant.
    pub account: AccountId,
    /// 1: attached; 2: refused, live at another gateway; 3: detached (also unasked, when the
    /// stream moved to another gateway).
    pub status: u16,
    /// Token of the request that is answered.
    pub token: u32,
    /// First position that will be sent.
    pub from: u64,
    /// Position the next new message will have.
    pub next: u64,
}

/// Consecutive records of an account's private stream, each of `record_len` opaque bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PrivateBody {
    /// Account whose private stream the records are of.
    pub account: AccountId,
    /// Number of records that follow.
    pub count: u16,
    /// Token of the attachment that the records are sent for.
    pub token: u32,
    /// Position of the first record.
    pub first: u64,
}

/// How far a gateway has an account's private stream; repeated while idle as its sign of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PrivateAckBody {
    /// Account whose private stream is acknowledged.
    pub account: AccountId,
    /// 1 when something is missing and should be sent again at once.
    pub gap: u16,
    /// Token of the attachment.
    pub token: u32,
    /// First position not yet received in sequence.
    pub next: u64,
}

const _: () = {
    assert!(size_of::<HopHeader>() == 16);
    assert!(size_of::<DataBody>() == 32);
    assert!(size_of::<OrderBody>() == 32);
    assert!(
        size_of::<HopHeader>() + size_of::<DataBody>() + types::limits::MOLD_PACKET_MAX
            <= DATAGRAM_MAX
    );
};

/// Why bytes are refused as a datagram of the overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// Shorter than its header or body, or longer than any datagram.
    Length,
    /// The version of the layout is not [`VERSION`].
    Version,
    /// Unknown kind, or a field that this kind has no use for is not zero.
    Header,
}

impl HopHeader {
    /// A header of this version.
    pub fn new(kind: FrameKind, sender: NodeId, epoch: u32) -> HopHeader {
        HopHeader {
            version: VERSION,
            kind,
            attempt: 0,
            flags: 0,
            sender,
            hop_number: 0,
            epoch,
            hop_sent: 0,
        }
    }

    /// Reads the header; the rest is the body and its payload.
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<(HopHeader, &[u8]), FrameError> {
        if datagram.len() > DATAGRAM_MAX {
            return Err(FrameError::Length);
        }
        let (head, rest) =
            datagram.split_at_checked(size_of::<HopHeader>()).ok_or(FrameError::Length)?;
        if head[0] != VERSION {
            return Err(FrameError::Version);
        }
        let header = HopHeader::try_read_from_bytes(head).map_err(|_| FrameError::Header)?;
        let hop = header.hop_number != 0 || header.hop_sent != 0 || header.flags >> 2 != 0;
        let allowed = match header.kind {
            FrameKind::Order => !hop || header.flags & ORDER_PACED != 0,
            _ => header.flags == 0 && !hop,
        };
        if allowed { Ok((header, rest)) } else { Err(FrameError::Header) }
    }

    /// About how many orders wait at the sender of a paced one: a power of two less one.
    pub fn backlog(&self) -> u32 {
        (1u32 << u32::from(self.flags >> 2).min(31)) - 1
    }

    /// Flags of a paced order with so many behind it.
    pub fn paced_flags(deferred: bool, backlog: usize) -> u8 {
        let log = (usize::BITS - backlog.leading_zeros()).min(31) as u8;
        let deferred = if deferred { ORDER_DEFERRED } else { 0 };
        ORDER_PACED | deferred | (log << 2)
    }
}

/// Splits a body of type `B` off the front of `bytes`.
pub fn body<B: FromBytes>(bytes: &[u8]) -> Result<(B, &[u8]), FrameError> {
    B::read_from_prefix(bytes).map_err(|_| FrameError::Length)
}

/// Appends a whole datagram to `buffer`.
pub fn encode<B: IntoBytes + Immutable>(
    buffer: &mut Vec<u8>,
    header: HopHeader,
    body: &B,
    payload: &[u8],
) {
    buffer.extend_from_slice(header.as_bytes());
    buffer.extend_from_slice(body.as_bytes());
    buffer.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn header_and_body_survive_a_round_trip() {
        let hop = HopHeader { attempt: 3, ..HopHeader::new(FrameKind::Order, NodeId(7), 9) };
        let order = OrderBody { source: Source::default(), depends_on: 4, t_in: Nanos(5) };
        let mut bytes = Vec::new();
        encode(&mut bytes, hop, &order, b"payload");
        let (read, rest) = HopHeader::read(&bytes).unwrap();
        assert_eq!(read, hop);
        assert_eq!(body::<OrderBody>(rest).unwrap(), (order, &b"payload"[..]));
    }

    #[test]
    fn refusals_name_their_reason() {
        let mut bytes = HopHeader::new(FrameKind::Data, NodeId(1), 1).as_bytes().to_vec();
        assert_eq!(HopHeader::read(&bytes[..15]), Err(FrameError::Length));
        bytes[1] = 77;
        assert_eq!(HopHeader::read(&bytes), Err(FrameError::Header));
        bytes[0] = 2;
        assert_eq!(HopHeader::read(&bytes), Err(FrameError::Version));
        assert_eq!(body::<DataBody>(&[0; 31]).unwrap_err(), FrameError::Length);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok((_, rest)) = HopHeader::read(&bytes) {
                let _ = body::<DataBody>(rest);
                let _ = body::<OrderAckBody>(rest);
            }
        }
    }
}
