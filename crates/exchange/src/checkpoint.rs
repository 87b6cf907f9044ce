//! A root's checkpoint on its way to a disk and back: what exchange it is of, where in the group's
//! log it belongs, and whether it is whole.
//!
//! It is a replica's own, beside the log: nothing depends on its being there. One that is damaged, of
//! another version or exchange, or that stands for other records than the journal's, is not used, and
//! the inputs are applied instead.
//!
//! Bytes, little-endian: magic `FBCHECKP` · version u32 · 0 u32 · position · hash chain of the journal
//! after it · inputs up to it · length of the genesis and the genesis · the root's bytes, to the end
//! but for eight · digest of all before.

use journal::{Journal, Storage, snapshot_digest};
use types::{Packer, Unpacker};

const MAGIC: &[u8; 8] = b"FBCHECKP";
const VERSION: u32 = 1;
/// The longest genesis.
const GENESIS_MAX: usize = 1 << 10;

/// A checkpoint: the bytes of a root, with what they are of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The group's first record.
    pub genesis: Vec<u8>,
    /// Position in the group's log, up to which it stands for all records.
    pub position: u64,
    /// The journal's hash chain after it.
    pub chain: u64,
    /// Inputs up to there.
    pub inputs: u64,
    /// What [`crate::Root::checkpoint`] wrote.
    pub root: Vec<u8>,
}

impl Checkpoint {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.root.len() + self.genesis.len() + 64);
        let mut to = Packer::new(&mut bytes);
        to.raw(MAGIC);
        to.u32(VERSION);
        to.u32(0);
        to.u64(self.position);
        to.u64(self.chain);
        to.u64(self.inputs);
        to.section(|bytes| bytes.extend_from_slice(&self.genesis));
        to.raw(&self.root);
        let digest = snapshot_digest(&bytes);
        Packer::new(&mut bytes).u64(digest);
        bytes
    }

    /// Reads one; nothing when it is none, not whole, or of another version.
    pub fn read(bytes: &[u8]) -> Option<Checkpoint> {
        let (body, digest) = bytes.split_last_chunk::<8>()?;
        let mut from = Unpacker::new(body);
        let ours = from.raw(MAGIC.len())? == MAGIC && from.u32()? == VERSION && from.u32()? == 0;
        if !ours || snapshot_digest(body) != u64::from_le_bytes(*digest) {
            return None;
        }
        let (position, chain, inputs) = (from.u64()?, from.u64()?, from.u64()?);
        let genesis = from.section().filter(|genesis| genesis.len() <= GENESIS_MAX)?.to_vec();
        let root = body.get(from.at()..)?.to_vec();
        Some(Checkpoint { genesis, position, chain, inputs, root })
    }

    /// Whether it stands for just the records that a journal has, or had, up to its position: of this
    /// exchange, committed, and with the same chain.
    pub fn fits<S: Storage>(&self, genesis: &[u8], journal: &mut Journal<S>) -> bool {
        let covered = self.position.saturating_add(1) >= journal.first()
            && self.position <= journal.committed();
        self.genesis == genesis
            && self.position > 0
            && covered
            && journal.chain_at(self.position).is_ok_and(|chain| chain == self.chain)
    }
}

#[cfg(test)]
mod tests {
    use journal::{Config, SimDisk};
    use proptest::prelude::*;

    use super::*;

    fn checkpoint(position: u64, chain: u64) -> Checkpoint {
        let (genesis, root) = (b"an exchange".to_vec(), vec![7; 100]);
        Checkpoint { genesis, position, chain, inputs: 3, root }
    }

    #[test]
    fn it_fits_the_records_that_it_was_made_of_and_no_others() {
        let config = Config { batch_bytes: 8 << 10, alone: false, ..Config::new(1, [0; 32]) };
        let config = Config { block: 512, segment_bytes: 16 << 10, ..config };
        let journal = |last: &[u8]| {
            let mut journal = Journal::open(SimDisk::new(1), &config).expect("an empty disk").0;
            for record in [b"one", b"two", last] {
                journal.append(1, record).expect("room");
                journal.flush().expect("room");
            }
            journal.commit_to(2);
            journal
        };
        let mut ours = journal(b"three");
        let at = |journal: &mut Journal<SimDisk>, position| {
            let chain = journal.chain_at(position).expect("there");
            checkpoint(position, chain)
        };
        let second = at(&mut ours, 2);
        assert!(second.fits(b"an exchange", &mut ours));
        assert!(!second.fits(b"another", &mut ours));
        assert!(!checkpoint(2, second.chain ^ 1).fits(b"an exchange", &mut ours), "other records");
        let third = at(&mut ours, 3);
        assert!(!third.fits(b"an exchange", &mut ours), "not known to be committed");
        ours.commit_to(3);
        assert!(third.fits(b"an exchange", &mut ours));
        let mut other = journal(b"drei");
        other.commit_to(3);
        assert!(!third.fits(b"an exchange", &mut other) && second.fits(b"an exchange", &mut other));
        assert!(!checkpoint(0, 0).fits(b"an exchange", &mut ours));
        assert!(!checkpoint(u64::MAX - 1, 0).fits(b"an exchange", &mut ours));
    }

    proptest! {
        #[test]
        fn it_is_read_back_and_nothing_else_is_one(
            position in 1u64..1 << 60, chain: u64, at: prop::sample::Index, bit in 0u8..8,
            junk in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let one = checkpoint(position, chain);
            let bytes = one.bytes();
            prop_assert_eq!(Checkpoint::read(&bytes), Some(one));
            let mut wrong = bytes.clone();
            wrong[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_eq!(Checkpoint::read(&wrong), None);
            prop_assert_eq!(Checkpoint::read(&bytes[..at.index(bytes.len())]), None);
            prop_assert_eq!(Checkpoint::read(&junk), None);
        }
    }
}
