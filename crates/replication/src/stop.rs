//! The reasons for which a replica stops for good.

/// Reason for which a replica stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Its state differs from that of the majority of replicas.
    Diverged {
        /// Position at which the digests differ.
        position: u64,
    },
    /// The group has gone on without records that were committed here, because an operator made a
    /// replica the leader that lacks them.
    Overruled {
        /// First position at which the logs differ.
        position: u64,
    },
    /// It is no longer a member of the group.
    Removed {
        /// Number of the membership without this replica that another one has applied.
        number: u64,
    },
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Diverged { position } => write!(
                f,
                "its state at position {position} is not that of most replicas: stopped; keep its \
                 folder for an inquiry"
            ),
            Stop::Overruled { position } => write!(
                f,
                "the group has another record at position {position} than the committed one here: it \
                 was recovered from a replica that lacked it; stopped. What it holds from there on is \
                 on no other disk: keep its folder for an inquiry, then `fairbell journal mend --force`"
            ),
            Stop::Removed { number } => write!(
                f,
                "it was removed from the group, as membership {number} says: stopped; its number is \
                 never used again, and its folder may go"
            ),
        }
    }
}
