//! One parity datagram for every k: a receiver that lacks one of them makes it up itself.
//!
//! The block names the datagrams it covers relative to its own overlay id and carries the
//! exclusive or of their lengths, times, deadlines, bounds and packets. It is worth its bandwidth for
//! repair without a round trip, not for latency (decisions): a receiver waits for the whole group.
//! Groups are in sending order; heartbeats are not covered. An option, off by default.

use types::{
    Nanos,
    limits::{DATAGRAM_MAX, MOLD_PACKET_MAX},
};

use crate::frame::{DATA_PARITY, DataBody};

/// Most datagrams in a parity group.
pub const GROUP_MAX: u16 = 32;
/// Number of recent datagrams that a receiver remembers.
const REMEMBERED: usize = 256;
/// How far before the parity the group may begin.
const REACH: u64 = 64;

/// Bytes before the mixed packets: which ids are covered (bit i: the parity's less 1 less i), then
/// times, deadlines, clock bounds and lengths mixed; all little-endian.
const BLOCK: usize = 30;
const _: () = assert!(16 + size_of::<DataBody>() + BLOCK + MOLD_PACKET_MAX <= DATAGRAM_MAX);

/// Sender's side of parity: XOR over a group of datagrams.
#[derive(Clone, Debug)]
pub struct ParityEncoder {
    group: u16,
    ids: Vec<u64>,
    t_sent: u64,
    deadline: u64,
    bound_ns: u32,
    len: u16,
    mixed: Vec<u8>,
    bytes: Vec<u8>,
}

impl ParityEncoder {
    /// A parity for every `group` datagrams, at least 2 and at most [`GROUP_MAX`].
    pub fn new(group: u16) -> ParityEncoder {
        ParityEncoder {
            group: group.clamp(2, GROUP_MAX),
            ids: Vec::with_capacity(usize::from(GROUP_MAX)),
            t_sent: 0,
            deadline: 0,
            bound_ns: 0,
            len: 0,
            mixed: Vec::with_capacity(MOLD_PACKET_MAX),
            bytes: Vec::with_capacity(MOLD_PACKET_MAX + BLOCK),
        }
    }

    /// A datagram was sent; whether a parity is due.
    pub fn add(&mut self, body: &DataBody, packet: &[u8]) -> bool {
        if self.ids.first().is_some_and(|first| body.id - first >= REACH) {
            // Heartbeats in between made the group too wide to be named.
            self.clear();
        }
        self.ids.push(body.id);
        self.t_sent ^= body.t_sent.0;
        self.deadline ^= body.deadline.0;
        self.bound_ns ^= body.bound_ns;
        self.len ^= packet.len() as u16;
        if self.mixed.len() < packet.len() {
            self.mixed.resize(packet.len(), 0);
        }
        mix(&mut self.mixed, packet);
        self.ids.len() == usize::from(self.group)
    }

    /// The parity's payload, for a datagram with `id`; begins a new group.
    pub fn take(&mut self, id: u64) -> &[u8] {
        let bit = |covered: &u64| match id.wrapping_sub(*covered).wrapping_sub(1) {
            back if back < REACH => 1u64 << back,
            _ => 0,
        };
        let covered = self.ids.iter().map(bit).fold(0, |all, bit| all | bit);
        let (t_sent, deadline, len) = (self.t_sent, self.deadline, self.len);
        self.bytes.clear();
        for part in [
            &covered.to_le_bytes()[..],
            &t_sent.to_le_bytes(),
            &deadline.to_le_bytes(),
            &self.bound_ns.to_le_bytes(),
            &len.to_le_bytes(),
            &self.mixed,
        ] {
            self.bytes.extend_from_slice(part);
        }
        self.clear();
        &self.bytes
    }

    fn clear(&mut self) {
        self.ids.clear();
        (self.t_sent, self.deadline, self.bound_ns, self.len) = (0, 0, 0, 0);
        self.mixed.clear();
    }
}

/// Receiver's side of parity: restores the one datagram of a group that is missing.
#[derive(Clone, Debug)]
pub struct ParityDecoder {
    seen: Vec<Seen>,
    made: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    id: u64,
    t_sent: u64,
    deadline: u64,
    bound_ns: u32,
    packet: Vec<u8>,
}

impl Default for ParityDecoder {
    fn default() -> Self {
        ParityDecoder::new()
    }
}

impl ParityDecoder {
    /// A decoder that has seen no datagram.
    pub fn new() -> ParityDecoder {
        ParityDecoder { seen: vec![Seen::default(); REMEMBERED], made: Vec::new() }
    }

    /// Remembers a datagram that came, for the parity blocks to come.
    pub fn saw(&mut self, body: &DataBody, packet: &[u8]) {
        let seen = &mut self.seen[body.id as usize % REMEMBERED];
        (seen.id, seen.t_sent, seen.deadline) = (body.id, body.t_sent.0, body.deadline.0);
        seen.bound_ns = body.bound_ns;
        seen.packet.clear();
        seen.packet.extend_from_slice(packet);
    }

    /// A parity came: the one datagram of its group that is missing, if it is one.
    pub fn complete(&mut self, parity: &DataBody, bytes: &[u8]) -> Option<(DataBody, &[u8])> {
        let (covered, rest) = split_u64(bytes)?;
        let (mut t_sent, rest) = split_u64(rest)?;
        let (mut deadline, rest) = split_u64(rest)?;
        let (bound_ns, rest) = rest.split_first_chunk::<4>()?;
        let (len, mixed) = rest.split_first_chunk::<2>()?;
        let mut bound_ns = u32::from_le_bytes(*bound_ns);
        let mut len = u16::from_le_bytes(*len);
        let mut missing = None;
        self.made.clear();
        self.made.extend_from_slice(mixed);
        for back in (0..REACH).filter(|back| covered >> back & 1 == 1) {
            let id = parity.id.checked_sub(back + 1)?;
            let seen = &self.seen[id as usize % REMEMBERED];
            if seen.id != id {
                if missing.replace(id).is_some() {
                    return None;
                }
                continue;
            }
            t_sent ^= seen.t_sent;
            deadline ^= seen.deadline;
            bound_ns ^= seen.bound_ns;
            len ^= seen.packet.len() as u16;
            if seen.packet.len() > self.made.len() {
                return None;
            }
            mix(&mut self.made, &seen.packet);
        }
        let id = missing?;
        let packet = self.made.get(..usize::from(len))?;
        let (t_sent, deadline) = (Nanos(t_sent), Nanos(deadline));
        let flags = parity.flags & !DATA_PARITY;
        Some((DataBody { id, t_sent, deadline, bound_ns, flags, ..*parity }, packet))
    }
}

fn split_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

fn mix(into: &mut [u8], bytes: &[u8]) {
    into.iter_mut().zip(bytes).for_each(|(into, byte)| *into ^= byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(id: u64, at: u64) -> DataBody {
        let (t_sent, deadline) = (Nanos(at), Nanos(at * 3));
        let bound_ns = 7 + at as u32;
        DataBody { id, t_sent, deadline, bound_ns, stream: 0, hedge: 0, flags: 0 }
    }

    proptest! {
        #[test]
        fn any_one_of_a_group_is_made_up_and_no_two(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..90), 2..9),
            lost in 0usize..9, also in 0usize..9, gap in 0u64..4,
        ) {
            let lost = lost % packets.len();
            let mut encoder = ParityEncoder::new(packets.len() as u16);
            let (mut decoder, mut due) = (ParityDecoder::new(), false);
            let id = |index: usize| 1_000 + index as u64 * (1 + gap);
            for (index, packet) in packets.iter().enumerate() {
                let body = body(id(index), 5 + index as u64);
                due = encoder.add(&body, packet);
                if index != lost && index != also {
                    decoder.saw(&body, packet);
                }
            }
            prop_assert!(due);
            let parity = DataBody { flags: DATA_PARITY, ..body(id(packets.len()), 99) };
            let bytes = encoder.take(parity.id).to_vec();
            let made = decoder.complete(&parity, &bytes);
            if also < packets.len() && also != lost {
                prop_assert!(made.is_none());
            } else {
                let expected = body(id(lost), 5 + lost as u64);
                prop_assert_eq!(made, Some((expected, &packets[lost][..])));
            }
        }

        #[test]
        fn arbitrary_blocks_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200), id in any::<u64>(),
        ) {
            let mut decoder = ParityDecoder::new();
            (1..200).for_each(|id| decoder.saw(&body(id, id), &[1; 40]));
            let _ = decoder.complete(&body(id, 1), &bytes);
            let _ = decoder.complete(&body(150, 1), &bytes);
        }
    }
}
