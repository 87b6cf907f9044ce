//! Delays of a few messages that all receivers pick alike, merged on the way up the tree.
//!
//! The deadline that all receivers meet depends on the maximum over receivers message by message,
//! which no set of per-receiver percentiles can tell. So each receiver reports, besides its own
//! estimate, the delays of the `limit` messages of a round whose mixed ids are smallest: without
//! talking to each other all choose the same ones, whatever the rate. Merging takes the maximum
//! delay, adds up who had the message, and keeps the smallest again; nothing that belongs to the
//! result is ever lost on the way (a message among the smallest of all is among the smallest of
//! everybody who has it).
//!
//! A message belongs to the round it was sent in, and is reported two rounds later: by then it has
//! been released. What a liar can do: displace others' messages with ids that were never sent; the
//! root drops those, has fewer samples, and falls back to the percentiles when there are too few.

use types::{Nanos, SplitMix64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Samples in one report at most.
pub const SAMPLES_MAX: usize = 64;
/// Number of rounds between the sending of a message and the report of its arrival.
pub const REPORT_LAG: u64 = 2;
/// Rounds a receiver keeps samples of.
const KEPT: usize = 4;

/// [`Sample::flags`]: some receiver handed the message on after its release time.
pub const SAMPLE_MISSED: u16 = 1;
/// [`Sample::flags`]: the message had a deadline.
pub const SAMPLE_STAMPED: u16 = 2;
/// Kept by a receiver only: not handed on yet.
const PENDING: u16 = 0x8000;

/// Arrival of one message, merged over receivers.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct Sample {
    /// Overlay id of the message.
    pub id: u64,
    /// Largest one-way delay over the receivers, ns.
    pub owd_ns: u32,
    /// Number of receivers that have the message.
    pub receivers: u16,
    /// Bits [`SAMPLE_MISSED`] and [`SAMPLE_STAMPED`].
    pub flags: u16,
}

/// The samples of one round, in bounded number.
#[derive(Clone, Debug)]
pub struct SampleSet {
    /// Samples in order of their mixed id.
    list: Vec<Sample>,
    limit: usize,
}

impl SampleSet {
    /// An empty set that keeps `limit` samples (at most [`SAMPLES_MAX`]); allocates here only.
    pub fn new(limit: usize) -> SampleSet {
        let limit = limit.min(SAMPLES_MAX);
        SampleSet { list: Vec::with_capacity(limit + 1), limit }
    }

    /// Removes all samples; keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// The samples, in order of their mixed ids.
    pub fn as_slice(&self) -> &[Sample] {
        &self.list
    }

    /// Adds a sample, or merges it with the one of the same message.
    pub fn add(&mut self, sample: Sample) {
        match self.place(sample.id) {
            Ok(place) => {
                let known = &mut self.list[place];
                known.owd_ns = known.owd_ns.max(sample.owd_ns);
                known.receivers = known.receivers.saturating_add(sample.receivers);
                known.flags |= sample.flags;
            }
            Err(place) if place < self.limit => {
                self.list.insert(place, sample);
                self.list.truncate(self.limit);
            }
            Err(_) => {}
        }
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Sample> {
        let place = self.place(id).ok()?;
        self.list.get_mut(place)
    }

    fn place(&self, id: u64) -> Result<usize, usize> {
        let key = SplitMix64::mix(id);
        self.list.binary_search_by_key(&key, |sample| SplitMix64::mix(sample.id))
    }
}

/// Reads the samples behind a report; `None` when they are not `count` whole ones.
pub fn read(count: u16, bytes: &[u8]) -> Option<impl Iterator<Item = Sample> + '_> {
    let size = size_of::<Sample>();
    let fits = usize::from(count) <= SAMPLES_MAX && bytes.len() == usize::from(count) * size;
    fits.then(|| bytes.chunks_exact(size).filter_map(|bytes| Sample::read_from_bytes(bytes).ok()))
}

/// The samples of one receiver, round by round.
#[derive(Clone, Debug)]
pub struct ReceiverSamples {
    rounds: [(u64, SampleSet); KEPT],
    round_ns: u64,
    on: bool,
}

impl ReceiverSamples {
    /// Keeps `limit` samples per round of `round_ns`; 0 for none.
    pub fn new(limit: usize, round_ns: u64) -> ReceiverSamples {
        let rounds = std::array::from_fn(|_| (0, SampleSet::new(limit)));
        ReceiverSamples { rounds, round_ns: round_ns.max(1), on: limit > 0 }
    }

    /// A message came for the first time.
    pub fn arrived(&mut self, id: u64, sent: Nanos, owd_ns: u64, stamped: bool) {
        if !self.on {
            return;
        }
        let round = sent.0 / self.round_ns;
        let (number, set) = &mut self.rounds[(round % KEPT as u64) as usize];
        if round < *number {
            return;
        }
        if round > *number {
            *number = round;
            set.clear();
        }
        let owd_ns = owd_ns.min(u64::from(u32::MAX)) as u32;
        let flags = PENDING | if stamped { SAMPLE_STAMPED } else { 0 };
        set.add(Sample { id, owd_ns, receivers: 1, flags });
    }

    /// A message was handed on, in time or late.
    pub fn released(&mut self, id: u64, late: bool) {
        if !self.on {
            return;
        }
        let found = self.rounds.iter_mut().find_map(|(_, set)| set.get_mut(id));
        if let Some(sample) = found {
            sample.flags &= !PENDING;
            sample.flags |= if late { SAMPLE_MISSED } else { 0 };
        }
    }

    /// What to report in `round`; a message still waiting counts as missed.
    pub fn report(&mut self, round: u64) -> &[Sample] {
        let wanted = round.saturating_sub(REPORT_LAG);
        let (number, set) = &mut self.rounds[(wanted % KEPT as u64) as usize];
        if *number != wanted {
            return &[];
        }
        for sample in &mut set.list {
            if sample.flags & PENDING != 0 {
                sample.flags = sample.flags & !PENDING | SAMPLE_MISSED;
            }
        }
        set.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn sample(id: u64, owd_ns: u32) -> Sample {
        Sample { id, owd_ns, receivers: 1, flags: 0 }
    }

    #[test]
    fn a_round_is_reported_two_rounds_later() {
        let mut samples = ReceiverSamples::new(4, 100);
        for id in 1..=3 {
            samples.arrived(id, Nanos(500 + id), 7, true);
        }
        samples.released(1, false);
        samples.released(2, true);
        assert!(samples.report(6).is_empty());
        let mut flags: Vec<_> = samples.report(7).iter().map(|s| (s.id, s.flags)).collect();
        flags.sort_unstable();
        assert_eq!(flags, [(1, 2), (2, 3), (3, 3)], "the third still waits");
        samples.arrived(4, Nanos(1_000), 7, false);
        samples.arrived(5, Nanos(600), 7, false);
        assert_eq!(samples.report(12).len(), 1);
        assert!(samples.report(11).is_empty());
    }

    #[test]
    fn a_report_is_whole_or_refused() {
        let bytes = [1; 48];
        assert_eq!(read(3, &bytes).unwrap().count(), 3);
        assert!(read(2, &bytes).is_none() && read(3, &bytes[1..]).is_none());
        assert!(read(65, &[0; 65 * 16]).is_none());
    }

    proptest! {
        #[test]
        fn merging_in_any_grouping_equals_merging_all(
            receivers in prop::collection::vec(
                prop::collection::btree_map(1u64..60, 0u32..1_000, 0..50), 1..9),
            limit in 1usize..20, groups in 1usize..4,
        ) {
            let mut all: BTreeMap<u64, Sample> = BTreeMap::new();
            let mut parts = vec![SampleSet::new(limit); groups];
            for (number, receiver) in receivers.iter().enumerate() {
                let mut own = SampleSet::new(limit);
                for (id, owd_ns) in receiver {
                    own.add(sample(*id, *owd_ns));
                    let entry = all.entry(SplitMix64::mix(*id)).or_insert(Sample {
                        receivers: 0,
                        ..sample(*id, 0)
                    });
                    entry.owd_ns = entry.owd_ns.max(*owd_ns);
                    entry.receivers += 1;
                }
                own.as_slice().iter().for_each(|s| parts[number % groups].add(*s));
            }
            let mut merged = SampleSet::new(limit);
            parts.iter().flat_map(SampleSet::as_slice).for_each(|s| merged.add(*s));
            let expected: Vec<Sample> = all.into_values().take(limit).collect();
            prop_assert_eq!(merged.as_slice(), &expected[..]);
        }
    }
}
