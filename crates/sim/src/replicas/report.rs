//! What a seed came to, and many seeds.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{Options, run};

/// Reports of failed seeds that are kept.
const FAILED_MAX: usize = 16;

/// What is looked at in the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Checker {
    /// What a client was told to be executed is in every replica's log, as it was told.
    AcknowledgedPresent,
    /// No request was executed twice.
    ExactlyOnce,
    /// Logs and states of all replicas are the same, byte for byte.
    ReplicasEqual,
    /// The log holds nothing that no client sent.
    NothingInvented,
    /// Money was moved, not made.
    MoneyConserved,
    /// Receivers hold all executions in order, each once.
    FeedContinuous,
    /// After healing every client got its answers and every replica all records.
    Progress,
    /// No replica stopped for another reason than a rotten disk.
    NobodyStopped,
    /// The run panicked.
    Panic,
}

/// What a checker found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Which.
    pub checker: Checker,
    /// What.
    pub what: String,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often what went wrong, and what came of it.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds those of another run.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }

            /// Names and values, in order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counts! {
    /// Machines killed at some moment.
    crashes,
    /// Leaders among them.
    leaders_killed,
    /// Machines that stopped in the middle of a disk operation.
    disk_crashes,
    /// Machines started again.
    restarts,
    /// Machines that did nothing for a while and went on.
    pauses,
    /// Times that some machines could not reach the others.
    partitions,
    /// Messages lost to a partition.
    cut,
    /// Messages lost.
    lost,
    /// Messages delivered twice.
    duplicated,
    /// Messages that took so long that later ones overtook them.
    delayed,
    /// Messages with a flipped bit.
    garbled,
    /// Writes of which a crash kept some sectors.
    torn,
    /// Writes that a crash took away.
    vanished,
    /// Torn tails that were cut when a journal was opened.
    tails,
    /// Writes that stopped part of the way.
    short,
    /// Syncs and reads that failed.
    failed,
    /// Disk operations that took long.
    slow,
    /// Files that had no room.
    full,
    /// Bits that flipped on disks.
    rotten,
    /// Machines that refused to start on a rotten disk, and stayed out.
    refused,
    /// Requests that a client sent again.
    retries,
    /// Requests that clients got answers to.
    answered,
    /// Records of requests that had been executed before.
    repeats,
    /// Times that a replica began to lead.
    terms_led,
    /// Answers of earlier leaders that clients did not believe.
    fenced_answers,
    /// Packets of earlier epochs that receivers dropped.
    fenced_packets,
    /// Packets that receivers had.
    repeated_packets,
    /// Digests compared.
    compared,
    /// Reads of the journal for replicas that lagged.
    fetches,
    /// Snapshots taken or restored from.
    snapshots,
    /// Records committed.
    records,
    /// Virtual time, ms.
    virtual_ms,
}

impl Counts {
    /// Those that are faults, with their names.
    pub fn faults(&self) -> Vec<(&'static str, u64)> {
        let last = "refused";
        let mut named = self.named();
        let end = named.iter().position(|(name, _)| *name == last).map_or(0, |place| place + 1);
        named.truncate(end);
        named
    }
}

/// What a seed came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What the checkers found; empty when all is well.
    pub found: Vec<Found>,
    /// How often what went wrong.
    pub counts: Counts,
    /// From the death of each leader to its successor's first answer, virtual ns.
    pub failovers_ns: Vec<u64>,
    /// Digest of everything that happened, in order: equal for equal runs.
    pub digest: u64,
}

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// Reports of those in which something was found, at most 16.
    pub failed: Vec<Report>,
    /// How many there were.
    pub failures: u64,
    /// Sums.
    pub counts: Counts,
    /// Sorted.
    pub failovers_ns: Vec<u64>,
}

impl Summary {
    /// Adds those of other seeds.
    pub fn add(&mut self, other: Summary) {
        self.seeds += other.seeds;
        self.failures += other.failures;
        self.counts.add(&other.counts);
        self.failed.extend(other.failed);
        self.failed.sort_by_key(|report| report.seed);
        self.failed.truncate(FAILED_MAX);
        self.failovers_ns.extend(other.failovers_ns);
        self.failovers_ns.sort_unstable();
    }
}

/// Runs seeds one after the other; `progress` hears how many are done and have failed. A panic is
/// found by [`Checker::Panic`].
pub fn run_seeds(
    seeds: Range<u64>,
    options: &Options,
    mut progress: impl FnMut(u64, u64),
) -> Summary {
    let mut summary = Summary::default();
    for seed in seeds {
        let report = catch_unwind(AssertUnwindSafe(|| run(seed, options)));
        let report = report.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("");
            let found = vec![Found { checker: Checker::Panic, what: text.to_string() }];
            Report { seed, found, counts: Counts::default(), failovers_ns: vec![], digest: 0 }
        });
        summary.seeds += 1;
        summary.counts.add(&report.counts);
        summary.failovers_ns.extend(&report.failovers_ns);
        if !report.found.is_empty() {
            summary.failures += 1;
            if summary.failed.len() < FAILED_MAX {
                summary.failed.push(report);
            }
        }
        progress(summary.seeds, summary.failures);
    }
    summary.failovers_ns.sort_unstable();
    summary
}
