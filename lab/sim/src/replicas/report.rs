//! What a seed came to, and the sum of many.

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
    /// All replicas know the same of who is in the group: what the operator was told is made.
    MembersEqual,
    /// In each term one replica is elected, once.
    TermsUnique,
    /// No replica stopped for another reason than a rotten disk.
    NobodyStopped,
    /// The run panicked.
    Panic,
}

/// What a checker found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The checker that failed.
    pub checker: Checker,
    /// What the checker found.
    pub what: String,
}

macro_rules! counts {
    (
        faults { $($(#[$fault_doc:meta])* $fault:ident,)* }
        outcomes { $($(#[$doc:meta])* $name:ident,)* }
    ) => {
        /// How often what went wrong, and what came of it.
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct Counts {
            $($(#[$fault_doc])* pub $fault: u64,)*
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds those of another run.
            pub fn add(&mut self, other: &Counts) {
                $(self.$fault += other.$fault;)*
                $(self.$name += other.$name;)*
            }

            /// What went wrong, by name.
            pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($fault), self.$fault),)*].into_iter()
            }

            /// What came of it, by name.
            pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counts! {
    faults {
        /// Machines killed at some moment.
        crashes,
        /// Leaders among them.
        leaders_killed,
        /// Machines that stopped in the middle of a disk operation.
        disk_crashes,
        /// Machines started again.
        restarts,
        /// Machines that were upgraded, or put back to an earlier version, when they were started again.
        reversioned,
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
        /// Snapshots on their way to a replica that did not come to be installed: it stopped, another
        /// one took their place, or the log came after all.
        transfers_ended,
        /// Machines that stopped while another replica was getting their snapshot.
        senders_killed,
        /// Machines that stopped in the middle of installing a snapshot from another.
        install_crashes,
        /// Rotten disks that were refused at a start, and mended: their logs came from the others.
        mended,
        /// Disks set back to older copies, as by whoever copies files.
        set_back,
        /// Machines added to the group.
        members_added,
        /// Machines that were counted from then on.
        members_promoted,
        /// Machines removed from the group.
        members_removed,
        /// Of the removed or replaced, those whose disks were gone.
        machines_gone,
        /// Leaders that were to be removed and let another one lead.
        handed_over,
    }
    outcomes {
        /// Machines that refused to start on a rotten disk, and stayed out: their votes were rotten.
        refused,
        /// Requests that a client sent again.
        retries,
        /// Requests that clients got answers to.
        answered,
        /// Records of requests that had been executed before.
        repeats,
        /// Machines whose disks were set back and that elect again.
        readmitted,
        /// Changes of membership that were refused for the moment.
        changes_refused,
        /// Removed machines that were told so, and stopped.
        told_removed,
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
        /// Snapshots taken.
        snapshots,
        /// Snapshots of other replicas that a replica began to collect.
        transfers,
        /// Parts of snapshots sent.
        parts,
        /// Snapshots of other replicas installed.
        installs,
        /// Records committed.
        records,
        /// Virtual time, ms.
        virtual_ms,
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
    /// Reports of the first in which something was found, by seed, at most 16.
    pub failed: Vec<Report>,
    /// How many there were.
    pub failures: u64,
    /// Sums.
    pub counts: Counts,
    /// Sorted.
    pub failovers_ns: Vec<u64>,
}

impl Summary {
    pub(super) fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.counts.add(&report.counts);
        self.failovers_ns.extend(&report.failovers_ns);
        if !report.found.is_empty() {
            self.failures += 1;
            self.failed.push(report);
            self.failed.sort_by_key(|report| report.seed);
            self.failed.truncate(FAILED_MAX);
        }
    }
}
