//! What the engine counts, for reports and operators; part of its state.

use types::{Digest, RejectReason};

use crate::codec::{Reader, SnapshotError, Writer};
use crate::snapshot::COUNT_MAX;

/// Reasons of [`RejectReason`], `None` included.
const REASONS: usize = RejectReason::ALL.len() + 1;

const _: () = assert!(RejectReason::None as usize == 0, "reasons are places in a table");

/// Counts of one instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InstrumentCounters {
    /// Trades.
    pub trades: u64,
    /// Lots traded, each trade counted once.
    pub volume: u64,
}

/// Counts of the whole shard since it started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counters {
    /// New orders taken.
    pub accepted: u64,
    /// Replaces done.
    pub replaced: u64,
    /// Cancels done (in part or in full) because a participant asked.
    pub canceled: u64,
    /// Cancels that named no open order of the account: they came too late.
    pub cancels_too_late: u64,
    /// Inputs whose transport number had been seen.
    pub duplicate_transport: u64,
    /// Requests whose business identity had been seen.
    pub duplicate_request: u64,
    pub(crate) rejects: [u64; REASONS],
    pub(crate) instruments: Vec<InstrumentCounters>,
}

impl Counters {
    pub(crate) fn new(instruments: usize) -> Counters {
        Counters {
            accepted: 0,
            replaced: 0,
            canceled: 0,
            cancels_too_late: 0,
            duplicate_transport: 0,
            duplicate_request: 0,
            rejects: [0; REASONS],
            instruments: vec![InstrumentCounters::default(); instruments],
        }
    }

    /// New orders and replaces refused for `reason`.
    pub fn rejects(&self, reason: RejectReason) -> u64 {
        self.rejects[reason as usize]
    }

    pub(crate) fn rejected(&mut self, reason: RejectReason) {
        assert!(reason != RejectReason::None, "a refusal has a reason");
        self.rejects[reason as usize] += 1;
    }

    /// Everything but the instruments' counts.
    fn totals(&self) -> impl Iterator<Item = u64> {
        let totals = [
            self.accepted,
            self.replaced,
            self.canceled,
            self.cancels_too_late,
            self.duplicate_transport,
            self.duplicate_request,
        ];
        totals.into_iter().chain(self.rejects)
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        // Nothing for what only a venue of several shards has: digests are as before there were any.
        let shared = self.rejects(RejectReason::ShardAllotment);
        let plain = self.totals().take(self.totals().count() - usize::from(shared == 0));
        plain.for_each(|count| digest.fold(count));
        for instrument in &self.instruments {
            digest.fold(instrument.trades);
            digest.fold(instrument.volume);
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.totals().for_each(|count| out.u64(count));
        for instrument in &self.instruments {
            out.u64(instrument.trades);
            out.u64(instrument.volume);
        }
    }

    /// Takes up what [`Counters::write`] wrote.
    pub(crate) fn read(&mut self, bytes: &mut Reader) -> Result<(), SnapshotError> {
        let totals = [
            &mut self.accepted,
            &mut self.replaced,
            &mut self.canceled,
            &mut self.cancels_too_late,
            &mut self.duplicate_transport,
            &mut self.duplicate_request,
        ];
        for count in totals.into_iter().chain(&mut self.rejects) {
            *count = count_of(bytes)?;
        }
        for instrument in &mut self.instruments {
            (instrument.trades, instrument.volume) = (count_of(bytes)?, count_of(bytes)?);
        }
        Ok(())
    }
}

fn count_of(bytes: &mut Reader) -> Result<u64, SnapshotError> {
    let count = bytes.u64()?;
    if count > COUNT_MAX { Err(bytes.damaged()) } else { Ok(count) }
}
