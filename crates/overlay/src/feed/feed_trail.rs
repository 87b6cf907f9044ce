//! Datagrams of the feed in a spill store, one after the other, so that a retransmission store can
//! be made again of those that it keeps.
//!
//! Each is its body, the length of its packet and the packet. They go to the spill store in whole
//! blocks; what does not fill one yet is in memory. A spill store that takes nothing is tried again
//! with each further datagram, until too much waits: then the trail is over, and its store can't be
//! packed any more in this life. The feed itself never waits for it.

use types::{Packer, SpillStore, Unpacker, limits::MOLD_PACKET_MAX};
use zerocopy::{FromBytes, IntoBytes};

use crate::frame::DataBody;

/// Bytes of a block in the spill store.
pub(crate) const BLOCK: usize = 8_192;
/// Length of the record's header before each packet, bytes.
pub(crate) const HEAD: usize = size_of::<DataBody>() + 4;
/// Bytes that may wait for the spill store.
const WAITING_MAX: usize = 1 << 20;

/// Writes datagrams of one stream of the feed to a spill store, and reads them back.
pub(crate) struct FeedTrail {
    spill: Option<Box<dyn SpillStore>>,
    /// Bytes in the spill store, a whole number of blocks.
    put: u64,
    /// Records after those that are on their way to the disk.
    waiting: Vec<u8>,
    /// Offset of the first datagram that the store still keeps.
    front: u64,
}

impl FeedTrail {
    pub(crate) fn new(spill: Box<dyn SpillStore>) -> FeedTrail {
        FeedTrail { spill: Some(spill), put: 0, waiting: Vec::with_capacity(2 * BLOCK), front: 0 }
    }

    /// Notes that the store keeps a datagram.
    pub(crate) fn append(&mut self, body: &DataBody, packet: &[u8]) {
        let Some(spill) = &mut self.spill else { return };
        self.waiting.extend_from_slice(body.as_bytes());
        self.waiting.extend_from_slice(&(packet.len() as u32).to_le_bytes());
        self.waiting.extend_from_slice(packet);
        while let Some(block) = self.waiting.get(..BLOCK)
            && spill.put(self.put, block)
        {
            self.waiting.drain(..BLOCK);
            self.put += BLOCK as u64;
        }
        if self.waiting.len() > WAITING_MAX {
            (self.spill, self.waiting) = (None, Vec::new());
        }
    }

    /// The store no longer keeps its oldest datagram.
    pub(crate) fn forget(&mut self, packet_len: usize) {
        self.front += (HEAD + packet_len) as u64;
    }

    /// Writes down where it is, and what is not in the spill store. False when something waits for
    /// that.
    pub(crate) fn pack(&self, to: &mut Packer<'_>) -> bool {
        to.u64(self.front);
        to.u64(self.put);
        to.section(|bytes| bytes.extend_from_slice(&self.waiting));
        self.spill.is_some() && self.waiting.len() < BLOCK
    }

    /// Restores a packed trail, and gives `keep` every datagram from the first one kept on; at most
    /// `bytes_max` bytes. `None` when the bytes are no packed trail, or belong to another spill
    /// store.
    pub(crate) fn unpack(
        &mut self,
        from: &mut Unpacker<'_>,
        bytes_max: u64,
        mut keep: impl FnMut(&DataBody, &[u8]) -> bool,
    ) -> Option<()> {
        let (front, put, waiting) = (from.u64()?, from.u64()?, from.section()?);
        let end = put.checked_add(waiting.len() as u64)?;
        let length = end.checked_sub(front)?;
        if !put.is_multiple_of(BLOCK as u64) || waiting.len() >= BLOCK || length > bytes_max {
            return None;
        }
        let (mut block, mut held) = (vec![0; BLOCK], Vec::with_capacity(2 * BLOCK));
        let mut at = front - front % BLOCK as u64;
        let mut skip = (front - at) as usize;
        while at < put {
            if !self.spill.as_ref()?.get(at, &mut block) {
                return None;
            }
            held.extend_from_slice(block.get(skip..)?);
            (at, skip) = (at + BLOCK as u64, 0);
            take(&mut held, &mut keep)?;
        }
        held.extend_from_slice(waiting.get(skip..)?);
        take(&mut held, &mut keep)?;
        (self.front, self.put, self.waiting) = (front, put, waiting.to_vec());
        held.is_empty().then_some(())
    }
}

/// Takes the whole datagrams out of bytes, and leaves the rest.
fn take(held: &mut Vec<u8>, keep: &mut impl FnMut(&DataBody, &[u8]) -> bool) -> Option<()> {
    let mut rest = &held[..];
    while let Some((head, packets)) = rest.split_at_checked(HEAD) {
        let (body, len) = DataBody::read_from_prefix(head).ok()?;
        let len = u32::from_le_bytes(*len.first_chunk()?) as usize;
        if len > MOLD_PACKET_MAX {
            return None;
        }
        let Some((packet, behind)) = packets.split_at_checked(len) else { break };
        if !keep(&body, packet) {
            return None;
        }
        rest = behind;
    }
    let taken = held.len() - rest.len();
    held.drain(..taken);
    Some(())
}
