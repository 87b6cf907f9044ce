//! How hard a run is, and what is wrong in it on purpose.

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
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 5] = [
        Bug::AckBeforeCopy,
        Bug::UnfencedLeader,
        Bug::NoDedupeAfterFailover,
        Bug::TornTailAccepted,
        Bug::SnapshotMissesOrder,
    ];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Bug::AckBeforeCopy => "ack-before-copy",
            Bug::UnfencedLeader => "unfenced-leader",
            Bug::NoDedupeAfterFailover => "no-dedupe-after-failover",
            Bug::TornTailAccepted => "torn-tail-accepted",
            Bug::SnapshotMissesOrder => "snapshot-misses-order",
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
        }
    }
}
