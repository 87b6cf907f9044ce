//! How hard a run is, and what is wrong in it on purpose.

use types::SplitMix64;

/// What is done wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// The leader answers when a record is on its own disk.
    AckBeforeCopy,
    /// Nobody compares terms: a leader does not hear that another leads, others say yes to its
    /// records, clients believe it.
    UnfencedLeader,
    /// Who has been answered is forgotten when another leads.
    NoDedupeAfterFailover,
    /// What a write cut short is taken for a record.
    TornTailAccepted,
    /// A snapshot lacks the last order before it.
    SnapshotMissesOrder,
    /// What a replica makes of a snapshot that it got from another lacks the last order.
    SentSnapshotMissesOrder,
    /// A change of who is in the group takes effect before it is committed, at a start.
    ChangeBeforeCommit,
    /// A snapshot does not say who was in the group, for whoever starts from it.
    SnapshotForgetsMembers,
    /// A start forgets for whom the machine voted, and in which term, and nobody tells it.
    VoteForgotten,
    /// That a disk is an older copy, or may lack what was acknowledged, is not written down: it counts
    /// for the start that finds it out, and for no later one.
    MarkNotDurable,
    /// A disk that is an older copy goes on in the term that it knows, as if it were whole.
    TermRepeated,
}

impl Bug {
    /// All variants, in their order.
    pub const ALL: [Bug; 11] = [
        Bug::AckBeforeCopy,
        Bug::UnfencedLeader,
        Bug::NoDedupeAfterFailover,
        Bug::TornTailAccepted,
        Bug::SnapshotMissesOrder,
        Bug::SentSnapshotMissesOrder,
        Bug::ChangeBeforeCommit,
        Bug::SnapshotForgetsMembers,
        Bug::VoteForgotten,
        Bug::MarkNotDurable,
        Bug::TermRepeated,
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Bug::AckBeforeCopy => "ack-before-copy",
            Bug::UnfencedLeader => "unfenced-leader",
            Bug::NoDedupeAfterFailover => "no-dedupe-after-failover",
            Bug::TornTailAccepted => "torn-tail-accepted",
            Bug::SnapshotMissesOrder => "snapshot-misses-order",
            Bug::SentSnapshotMissesOrder => "sent-snapshot-misses-order",
            Bug::ChangeBeforeCommit => "change-before-commit",
            Bug::SnapshotForgetsMembers => "snapshot-forgets-members",
            Bug::VoteForgotten => "vote-forgotten",
            Bug::MarkNotDurable => "mark-not-durable",
            Bug::TermRepeated => "term-repeated",
        }
    }
}

/// How hard a run is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Replicas: 3 or 5; 0 for what the seed says.
    pub replicas: u8,
    /// Requests of each of the three clients.
    pub requests: u64,
    /// How long things go wrong, ns.
    pub faults_ns: u64,
    /// How long all may take after that, ns.
    pub healing_ns: u64,
    /// Digests are compared on the way every so many positions; 0 for never.
    pub digest_every: u64,
    /// What is wrong on purpose.
    pub bug: Option<Bug>,
    /// Nothing goes wrong.
    pub calm: bool,
    /// Logs are given up right behind every snapshot; nothing for what the seed says.
    pub short_logs: Option<bool>,
    /// Who is in the group changes; nothing for what the seed says.
    pub changes: Option<bool>,
    /// Disks are set back to older copies; nothing for what the seed says.
    pub old_disks: Option<bool>,
}

impl Options {
    /// Whether who is in the group changes in the run of a seed.
    pub(super) fn has_changes(&self, seed: u64) -> bool {
        let drawn = SplitMix64::mix(seed ^ 0x6D65_6D62_6572).is_multiple_of(3);
        self.changes.unwrap_or(drawn && !self.calm)
    }

    /// Whether disks are set back in the run of a seed: where all speak the version that has questions,
    /// and where nobody is away for good.
    pub(super) fn has_old_disks(&self, seed: u64) -> bool {
        let drawn = !SplitMix64::mix(seed ^ 0x6F_6C64).is_multiple_of(3);
        self.old_disks.unwrap_or(drawn && !self.calm) && !self.has_changes(seed)
    }

    /// Whether logs are short in the run of a seed.
    pub(super) fn has_short_logs(&self, seed: u64) -> bool {
        // Drawn apart, so that nothing else depends on it.
        self.short_logs.unwrap_or(SplitMix64::mix(seed ^ 0x73_686F_7274).is_multiple_of(2))
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            replicas: 0,
            requests: 50,
            faults_ns: 2_000_000_000,
            healing_ns: 20_000_000_000,
            digest_every: 32,
            bug: None,
            calm: false,
            short_logs: None,
            changes: None,
            old_disks: None,
        }
    }
}
