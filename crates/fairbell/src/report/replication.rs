//! The root's replicas, as a report has them.

use host::group::Term;
use serde::Serialize;

/// A root that is a group of replicas.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReplicationReport {
    /// The replica that led last, from 1.
    pub leader: u8,
    /// Its term.
    pub term: u64,
    /// Who led, in order.
    pub terms: Vec<Term>,
    /// All replicas ended with the same log and the same state, and all their disks hold it.
    pub equal: bool,
    /// Each of them.
    pub replicas: Vec<ReplicaReport>,
}

/// A replica at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReplicaReport {
    /// Its number, from 1.
    pub replica: u8,
    /// Inputs that it has applied.
    pub inputs: u64,
    /// Inputs in its journal.
    pub inputs_on_disk: u64,
    /// Digest of its state.
    pub state_digest: String,
    /// Digests that most replicas had in common while it ran.
    pub digests_compared: u64,
}
