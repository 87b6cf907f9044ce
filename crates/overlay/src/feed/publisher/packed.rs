//! A publisher written down and taken up again: numbers, the packet that fills, and what the
//! retransmission store keeps, most of which lies on a shelf.
//!
//! Not written down is what the tree tells it (delays, who is dead, what is hedged, a parity group
//! under way): whoever takes it up hears that anew.

use types::{Nanos, Packer, Shelf, Unpacker};

use super::{Publisher, PublisherStats};
use crate::feed::feed_trail::BLOCK;
use crate::feed::mold::{END_OF_SESSION, HEADER_LEN};

/// Numbers that are never reached, and far from overflow.
const NUMBER_MAX: u64 = 1 << 62;

impl Publisher {
    /// Bytes of one put on the shelf.
    pub const SHELF_BLOCK: usize = BLOCK;

    /// Lays down what the retransmission store keeps as it comes. False when it keeps something
    /// already.
    #[must_use]
    pub fn lay_down(&mut self, shelf: Box<dyn Shelf>) -> bool {
        self.store.lay_down(shelf)
    }

    /// Writes down what is not on the shelf. False without one, or while that takes nothing.
    #[must_use]
    pub fn pack(&self, to: &mut Packer<'_>) -> bool {
        to.u64(self.next_seq);
        to.u64(self.next_id);
        to.u64(self.flush_from.0);
        to.u64(self.last_release.0);
        let stats = self.stats;
        let PublisherStats { messages, datagrams, heartbeats, parities, deadlines, malformed } =
            stats;
        for count in [messages, datagrams, heartbeats, parities, deadlines, malformed] {
            to.u64(count);
        }
        to.u32(self.count.into());
        to.section(|bytes| bytes.extend_from_slice(self.packet.get(HEADER_LEN..).unwrap_or(&[])));
        self.store.pack(to)
    }

    /// Takes up what was packed, before anything was published, with the same shelf. `None`, and it
    /// must not be used, for anything that no publisher packs.
    #[must_use]
    pub fn unpack(&mut self, from: &mut Unpacker<'_>) -> Option<()> {
        let bounded = |number: u64| Some(number).filter(|number| *number < NUMBER_MAX);
        let (next_seq, next_id) = (bounded(from.u64()?)?, bounded(from.u64()?)?);
        (self.flush_from, self.last_release) = (Nanos(from.u64()?), Nanos(bounded(from.u64()?)?));
        let mut counts = [0; 6];
        for count in &mut counts {
            *count = bounded(from.u64()?)?;
        }
        let [messages, datagrams, heartbeats, parities, deadlines, malformed] = counts;
        self.stats =
            PublisherStats { messages, datagrams, heartbeats, parities, deadlines, malformed };
        let count = u16::try_from(from.u32()?).ok().filter(|count| *count < END_OF_SESSION)?;
        let filling = from.section()?;
        let fits = HEADER_LEN + filling.len() <= self.config.packet_max;
        if !fits || (count == 0) != filling.is_empty() || next_seq <= u64::from(count) {
            return None;
        }
        self.packet.truncate(HEADER_LEN);
        self.packet.extend_from_slice(filling);
        (self.count, self.next_seq, self.next_id) = (count, next_seq, next_id);
        self.store.unpack(from, next_seq - u64::from(count))
    }
}
