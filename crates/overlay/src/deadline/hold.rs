//! Datagrams that wait at a receiver: for their release time, or for an earlier one.
//!
//! Ordered by feed sequence, bounded, buffers reused: once warm nothing is allocated. When full,
//! the datagram that is last in sequence has to go (it may be the arriving one): what is needed
//! first is kept, and repair brings the other back.

use std::collections::VecDeque;

use types::Nanos;
use types::limits::MOLD_PACKET_MAX;

use crate::feed::mold::{Header, Packet};

/// A datagram that is held until its deadline.
#[derive(Clone, Default, Debug)]
pub struct Held {
    /// Sequence number of its first message.
    pub seq: u64,
    /// Sequence number behind its last message.
    pub end: u64,
    /// Overlay id of the datagram.
    pub id: u64,
    /// Deadline as the root stamped it, ns; 0: none.
    pub deadline: Nanos,
    /// When it may be handed on, on the receiver's clock.
    pub release_at: Nanos,
    /// When the first copy arrived, on the receiver's clock.
    pub arrived: Nanos,
    /// The MoldUDP64 packet, header included.
    pub packet: Vec<u8>,
}

impl Held {
    /// Appends the packet, less messages before `next`, which were handed on in another packet.
    pub(crate) fn append_from(&self, next: u64, buffer: &mut Vec<u8>) {
        let over = next.saturating_sub(self.seq).min(u64::from(u16::MAX)) as u16;
        match (over > 0).then(|| Packet::parse(&self.packet)).flatten() {
            Some(packet) => {
                let count = packet.header.count.saturating_sub(over);
                let header = Header { seq: next, count, ..packet.header };
                buffer.extend_from_slice(&header.bytes());
                buffer.extend_from_slice(packet.skip(over).unwrap_or(&[]));
            }
            _ => buffer.extend_from_slice(&self.packet),
        }
    }
}

/// What became of a datagram given to [`HoldBuffer::insert`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Insert {
    /// The datagram is held until its release time.
    Held,
    /// Every message in it is held already.
    Known,
    /// There is no room for it.
    Full,
    /// It waits in the place of the last one, whose messages `from..to` are gone.
    Displaced {
        /// Sequence number of the first message that was lost.
        from: u64,
        /// Sequence number after the last one that was lost.
        to: u64,
    },
}

/// Datagrams that are held until their deadlines, in order of sequence.
pub struct HoldBuffer {
    slots: Vec<Held>,
    free: Vec<u32>,
    /// (first message, slot), sorted by first message.
    order: VecDeque<(u64, u32)>,
    max: usize,
}

impl HoldBuffer {
    /// An empty buffer for at most `max` datagrams (at least 1).
    pub fn new(max: usize) -> HoldBuffer {
        let max = max.max(1);
        HoldBuffer { slots: Vec::new(), free: Vec::new(), order: VecDeque::new(), max }
    }

    /// Number of datagrams that are held.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no datagram is held.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether there is no room for another datagram.
    pub fn is_full(&self) -> bool {
        self.order.len() >= self.max
    }

    /// Keeps a copy of `packet`, whose bytes are `bytes`; `fields` carries everything but the
    /// packet's own numbers and bytes, which are taken from the packet.
    pub fn insert(&mut self, packet: &Packet, bytes: &[u8], fields: Fields) -> Insert {
        let (seq, end) = (packet.header.seq, packet.end());
        let place = match self.order.back() {
            Some((last, _)) if *last > seq => {
                self.order.partition_point(|(other, _)| *other <= seq)
            }
            _ => self.order.len(),
        };
        let before = place.checked_sub(1).and_then(|place| self.held(place));
        if before.is_some_and(|before| before.end >= end) {
            return Insert::Known;
        }
        let mut outcome = Insert::Held;
        if self.is_full() {
            if place == self.order.len() {
                return Insert::Full;
            }
            if let Some((_, slot)) = self.order.pop_back() {
                let last = &self.slots[slot as usize];
                outcome = Insert::Displaced { from: last.seq, to: last.end };
                self.free.push(slot);
            }
        }
        let Fields { id, deadline, release_at, arrived } = fields;
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                // Room for any datagram, or a slot would grow when the first large one falls to it.
                let packet = Vec::with_capacity(MOLD_PACKET_MAX);
                self.slots.push(Held { packet, ..Held::default() });
                self.slots.len() as u32 - 1
            }
        };
        let held = &mut self.slots[slot as usize];
        (held.seq, held.end, held.id) = (seq, end, id);
        (held.deadline, held.release_at, held.arrived) = (deadline, release_at, arrived);
        held.packet.clear();
        held.packet.extend_from_slice(bytes);
        match place == self.order.len() {
            true => self.order.push_back((seq, slot)),
            false => self.order.insert(place, (seq, slot)),
        }
        outcome
    }

    /// The held datagram with the lowest sequence number.
    pub fn front(&self) -> Option<&Held> {
        self.held(0)
    }

    /// One past the last message of those that may be handed on at `now`, but for missing ones before
    /// them.
    pub fn end_of_due(&self, now: Nanos) -> Option<u64> {
        let last = |(_, slot): &(u64, u32)| &self.slots[*slot as usize];
        self.order.iter().rev().map(last).find(|held| held.release_at <= now).map(|held| held.end)
    }

    /// Takes the first in sequence; it can be read until the next insertion.
    pub fn pop(&mut self) -> Option<&Held> {
        let (_, slot) = self.order.pop_front()?;
        self.free.push(slot);
        Some(&self.slots[slot as usize])
    }

    fn held(&self, place: usize) -> Option<&Held> {
        self.order.get(place).map(|(_, slot)| &self.slots[*slot as usize])
    }
}

/// Fields of a datagram that [`HoldBuffer::insert`] needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields {
    /// Overlay id of the datagram.
    pub id: u64,
    /// Deadline as the root stamped it.
    pub deadline: Nanos,
    /// When it may be handed on.
    pub release_at: Nanos,
    /// Time at which it arrived, by the receiver's clock.
    pub arrived: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::mold::Header;

    fn insert(hold: &mut HoldBuffer, seq: u64, count: u16) -> Insert {
        let mut bytes = Header { session: *b"FAIRBELL01", seq, count }.bytes().to_vec();
        (0..count).for_each(|_| bytes.extend_from_slice(&[0, 1, b'x']));
        let packet = Packet::parse(&bytes).unwrap();
        let (deadline, release_at, arrived) = (Nanos(0), Nanos(0), Nanos(0));
        hold.insert(&packet, &bytes, Fields { id: seq, deadline, release_at, arrived })
    }

    #[test]
    fn comes_out_in_sequence_and_reuses_its_slots() {
        let mut hold = HoldBuffer::new(3);
        for round in 0..100 {
            let base = 1 + round * 9;
            assert_eq!(insert(&mut hold, base + 6, 3), Insert::Held);
            assert_eq!(insert(&mut hold, base, 3), Insert::Held);
            assert_eq!(insert(&mut hold, base + 3, 3), Insert::Held);
            assert_eq!(insert(&mut hold, base + 3, 3), Insert::Known);
            for part in 0..3 {
                let held = hold.pop().unwrap();
                assert_eq!((held.seq, held.packet.len()), (base + 3 * part, 29));
            }
            assert!(hold.is_empty() && hold.pop().is_none());
        }
        assert_eq!(hold.slots.len(), 3);
    }

    #[test]
    fn when_full_the_last_in_sequence_goes() {
        let mut hold = HoldBuffer::new(2);
        insert(&mut hold, 10, 1);
        insert(&mut hold, 20, 2);
        assert_eq!(insert(&mut hold, 30, 1), Insert::Full);
        assert_eq!(insert(&mut hold, 1, 1), Insert::Displaced { from: 20, to: 22 });
        assert_eq!(hold.len(), 2);
        assert_eq!(hold.pop().unwrap().seq, 1);
        assert_eq!(hold.front().unwrap().seq, 10);
    }

    #[test]
    fn a_longer_packet_from_the_same_place_is_kept_too() {
        let mut hold = HoldBuffer::new(4);
        insert(&mut hold, 1, 2);
        assert_eq!(insert(&mut hold, 1, 5), Insert::Held);
        assert_eq!(insert(&mut hold, 2, 3), Insert::Known);
        assert_eq!(hold.pop().unwrap().end, 3);
        assert_eq!(hold.pop().unwrap().end, 6);
    }
}
