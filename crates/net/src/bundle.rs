//! Several overlay datagrams to one node in one packet of the network.
//!
//! A system call and a packet cost far more than the few hundred bytes in it. So what the nodes of a
//! loop send to the same node within one turn leaves together at the turn's end. A busy loop has
//! long turns and sends full bundles; an idle one has turns of one call and sends bare datagrams, so
//! nothing waits for company. Nodes know nothing of it and neither do their links: a part of a
//! bundle is what would have been a datagram, sealed by itself.
//!
//! Format: [`MARK`], then per part its length as two bytes, big endian, and its bytes. No datagram of
//! the overlay begins with [`MARK`]. A bundle of one part is sent bare.

use std::collections::VecDeque;

use types::limits::{DATAGRAM_BUILT_MAX, DATAGRAM_MAX};
use types::{Channel, NodeId};

/// First byte of a bundle.
pub(crate) const MARK: u8 = 0x84;
const LENGTH: usize = 2;

const _: () = assert!(DATAGRAM_MAX <= u16::MAX as usize, "the length of a part");

/// What waits for one node.
pub(crate) struct Lane {
    host: usize,
    pub channel: Channel,
    pub to: NodeId,
    bytes: Vec<u8>,
    parts: usize,
}

/// Whose lane it is, by which channel, and to whom.
type LaneKey = (usize, Channel, NodeId);

impl Lane {
    fn key(&self) -> LaneKey {
        (self.host, self.channel, self.to)
    }

    fn new((host, channel, to): LaneKey) -> Lane {
        Lane { host, channel, to, bytes: Vec::with_capacity(DATAGRAM_MAX), parts: 0 }
    }

    /// Adds a part; false when the packet has no room for it. An empty lane takes any.
    fn add(&mut self, part: &[u8]) -> bool {
        if self.parts == 0 {
            self.bytes.push(MARK);
        } else if self.bytes.len() + LENGTH + part.len() > DATAGRAM_BUILT_MAX {
            return false;
        }
        self.bytes.extend_from_slice(&(part.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(part);
        self.parts += 1;
        let packet = self.bytes.len();
        assert!(
            self.parts == 1 || packet <= DATAGRAM_BUILT_MAX,
            "whoever gets a longer one drops it"
        );
        true
    }

    /// What is to be sent: a bare datagram or a bundle.
    pub fn packet(&self) -> &[u8] {
        let skipped = if self.parts == 1 { 1 + LENGTH } else { 0 };
        self.bytes.get(skipped..).unwrap_or(&[])
    }

    /// Begins the next packet with a part.
    pub fn restart(&mut self, part: &[u8]) {
        self.clear();
        self.add(part);
    }

    /// Forgets the parts, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.parts = 0;
    }
}

/// The lanes of a loop.
#[derive(Default)]
pub(crate) struct Lanes {
    /// Sorted by host, channel and receiving node.
    lanes: Vec<Lane>,
    /// Those with parts, in the order of their first part.
    used: VecDeque<LaneKey>,
}

impl Lanes {
    /// Adds a part; if there is no room for it, nothing is done and the lane returned.
    pub fn add(&mut self, key: LaneKey, part: &[u8]) -> Option<&mut Lane> {
        let place = match self.lanes.binary_search_by_key(&key, Lane::key) {
            Ok(place) => place,
            Err(place) => {
                self.lanes.insert(place, Lane::new(key));
                place
            }
        };
        let lane = self.lanes.get_mut(place)?;
        if lane.parts == 0 {
            self.used.push_back(key);
        }
        if lane.add(part) { None } else { Some(lane) }
    }

    /// A lane with parts and the host it is of; the caller clears it.
    pub fn pop_used(&mut self) -> Option<(usize, &mut Lane)> {
        let key = self.used.pop_front()?;
        let place = self.lanes.binary_search_by_key(&key, Lane::key).ok()?;
        self.lanes.get_mut(place).map(|lane| (key.0, lane))
    }
}

/// The datagrams of a packet: itself, or the parts of a bundle up to the first that is cut short.
pub(crate) struct Parts<'a> {
    rest: &'a [u8],
    /// Of the whole packet.
    bytes: usize,
    bundle: bool,
}

impl<'a> Parts<'a> {
    pub fn of(packet: &'a [u8]) -> Parts<'a> {
        match packet {
            [MARK, rest @ ..] => Parts { rest, bytes: packet.len(), bundle: true },
            rest => Parts::bare(rest),
        }
    }

    /// One datagram, whatever it begins with.
    pub fn bare(packet: &'a [u8]) -> Parts<'a> {
        Parts { rest: packet, bytes: packet.len(), bundle: false }
    }
}

impl<'a> Iterator for Parts<'a> {
    /// An error: what is left is no part.
    type Item = Result<&'a [u8], ()>;

    fn next(&mut self) -> Option<Result<&'a [u8], ()>> {
        if !self.bundle {
            self.bundle = true;
            return Some(Ok(std::mem::take(&mut self.rest)));
        }
        if self.rest.is_empty() {
            return None;
        }
        let part = self.rest.split_first_chunk::<LENGTH>().and_then(|(length, rest)| {
            rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
        });
        // Nobody sends nothing, and a packet must not make for endless calls.
        let part = part.filter(|(part, _)| !part.is_empty() && self.bytes <= DATAGRAM_MAX);
        self.rest = part.map_or(&[], |(_, rest)| rest);
        Some(part.map(|(part, _)| part).ok_or(()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn parts(packet: &[u8]) -> Vec<Result<&[u8], ()>> {
        Parts::of(packet).collect()
    }

    #[test]
    fn one_part_is_sent_bare() {
        let mut lane = Lane::new((0, Channel::OVERLAY, NodeId(1)));
        lane.add(b"alone");
        assert_eq!(lane.packet(), b"alone");
        lane.restart(b"again");
        assert_eq!(lane.packet(), b"again");
    }

    #[test]
    fn lanes_come_out_in_the_order_of_their_first_parts() {
        let mut lanes = Lanes::default();
        for (host, to) in [(1, 5), (0, 9), (1, 5), (1, 4)] {
            assert!(lanes.add((host, Channel::OVERLAY, NodeId(to)), b"part").is_none());
        }
        assert!(lanes.add((0, Channel::OVERLAY, NodeId(9)), &[1; DATAGRAM_MAX]).is_some());
        let mut seen = Vec::new();
        while let Some((host, lane)) = lanes.pop_used() {
            seen.push((host, lane.to.0, lane.parts));
            lane.clear();
        }
        assert_eq!(seen, [(1, 5, 2), (0, 9, 1), (1, 4, 1)]);
    }

    #[test]
    fn a_bundle_that_is_cut_short_says_so_at_its_end() {
        assert_eq!(parts(&[MARK, 0, 1, 7, 0, 2, 8]), [Ok(&[7][..]), Err(())]);
        assert_eq!(parts(&[MARK, 0]), [Err(())]);
        assert_eq!(parts(&[MARK]), []);
        assert_eq!(parts(&[MARK, 0, 0, 0, 1, 7]), [Err(())]);
        assert_eq!(parts(&[MARK; DATAGRAM_MAX + 1]), [Err(())]);
    }

    proptest! {
        #[test]
        fn parts_come_out_as_they_went_in(
            sent in vec(vec(any::<u8>().prop_filter("no mark", |b| *b != MARK), 1..400), 1..12),
        ) {
            let mut lane = Lane::new((0, Channel::OVERLAY, NodeId(1)));
            let kept = sent.iter().filter(|part| lane.add(part)).map(|part| Ok(part.as_slice()));
            let kept: Vec<_> = kept.collect();
            prop_assert!(lane.packet().len() <= DATAGRAM_MAX);
            prop_assert_eq!(parts(lane.packet()), kept);
        }

        #[test]
        fn arbitrary_packets_end(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(parts(&bytes).len() <= bytes.len().max(1));
        }

        #[test]
        fn arbitrary_bundles_end(mut bytes in vec(0u8..4, 1..200)) {
            bytes[0] = MARK;
            let parts = parts(&bytes);
            prop_assert!(parts.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
