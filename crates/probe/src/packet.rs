//! A probe on the wire: job, sender, number and time of sending, with a keyed tag; 34 bytes.
//!
//! Big-endian: magic (4), job (8), place of the sender (2), number (4), nanoseconds since the Unix
//! epoch on the first sender's clock (8), the first eight bytes of an HMAC-SHA256 under a key of
//! the job (8).

use crate::link::Key;

/// Length of a probe datagram, bytes.
pub const LENGTH: usize = 34;
const MAGIC: [u8; 4] = *b"FBP1";
const SIGNED: usize = LENGTH - 8;

/// A probe: a datagram with a time of sending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Probe {
    /// Number of the job that the probe belongs to.
    pub job: u64,
    /// Index among the members of the one that sent this copy.
    pub sender: u16,
    /// Number within the job, from 0.
    pub number: u32,
    /// Time at which the first sender sent it, ns since the epoch.
    pub sent_ns: u64,
}

/// The key of a job's probes.
pub fn job_key(shared: &Key, job: u64) -> Key {
    shared.derive(b"fairbell probe packets ", &[&job.to_be_bytes()])
}

impl Probe {
    /// The probe as bytes with its tag.
    pub fn encode(&self, key: &Key) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..12].copy_from_slice(&self.job.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.sender.to_be_bytes());
        bytes[14..18].copy_from_slice(&self.number.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.sent_ns.to_be_bytes());
        let tag: [u8; 8] = key.tag(&[&bytes[..SIGNED]]);
        bytes[SIGNED..].copy_from_slice(&tag);
        bytes
    }

    /// From bytes, when they are a probe with a valid tag.
    pub fn decode(bytes: &[u8], key: &Key) -> Option<Probe> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let (signed, tag) = bytes.split_at(SIGNED);
        if signed.get(..4)? != MAGIC || !key.verify(&[signed], tag) {
            return None;
        }
        Some(Probe {
            job: u64::from_be_bytes(signed.get(4..12)?.try_into().ok()?),
            sender: u16::from_be_bytes(signed.get(12..14)?.try_into().ok()?),
            number: u32::from_be_bytes(signed.get(14..18)?.try_into().ok()?),
            sent_ns: u64::from_be_bytes(signed.get(18..26)?.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn key(job: u64) -> Key {
        job_key(&Key::new(&[3; 32]).unwrap(), job)
    }

    #[test]
    fn a_probe_has_a_fixed_layout() {
        let probe = Probe { job: 1, sender: 2, number: 3, sent_ns: 4 };
        let bytes = probe.encode(&key(1));
        assert_eq!(bytes[..18], *b"FBP1\0\0\0\0\0\0\0\x01\0\x02\0\0\0\x03");
        // A tag under the key of another job.
        assert_eq!(Probe::decode(&bytes, &key(2)), None);
    }

    proptest! {
        #[test]
        fn probes_read_back_and_altered_ones_do_not(
            job in any::<u64>(), sender in any::<u16>(), number in any::<u32>(),
            sent_ns in any::<u64>(), at in 0..LENGTH, by in 1u8..,
        ) {
            let probe = Probe { job, sender, number, sent_ns };
            let mut bytes = probe.encode(&key(job));
            prop_assert_eq!(Probe::decode(&bytes, &key(job)), Some(probe));
            bytes[at] ^= by;
            prop_assert_eq!(Probe::decode(&bytes, &key(job)), None);
        }

        #[test]
        fn any_bytes_are_no_probe(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(Probe::decode(&bytes, &key(1)).is_none());
        }
    }
}
