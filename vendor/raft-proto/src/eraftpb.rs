//! Entries, messages, hard state, configuration and snapshots of a group.

pub use crate::data::EntryData;
use crate::message::sized_message;

/// A struct with a getter, a setter, a `mut_` and a `take_` for each of its fields.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $type:ty, $get:ident $set:ident $mut:ident $take:ident;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            $(
                #[doc = concat!("The field `", stringify!($field), "`.")]
                pub fn $get(&self) -> &$type {
                    &self.$field
                }
                #[doc = concat!("Sets the field `", stringify!($field), "`.")]
                pub fn $set(&mut self, value: $type) {
                    self.$field = value;
                }
                #[doc = concat!("The field `", stringify!($field), "`, to be changed.")]
                pub fn $mut(&mut self) -> &mut $type {
                    &mut self.$field
                }
                #[doc = concat!("Takes the field `", stringify!($field), "` away.")]
                pub fn $take(&mut self) -> $type {
                    std::mem::take(&mut self.$field)
                }
            )*
        }
    };
}

/// Getters and setters of fields that are copied.
macro_rules! copied {
    ($name:ident { $($field:ident: $type:ty, $get:ident $set:ident;)* }) => {
        impl $name {
            $(
                #[doc = concat!("The field `", stringify!($field), "`.")]
                pub fn $get(&self) -> $type {
                    self.$field
                }
                #[doc = concat!("Sets the field `", stringify!($field), "`.")]
                pub fn $set(&mut self, value: $type) {
                    self.$field = value;
                }
            )*
        }
    };
}

/// An enumeration whose first value is the default.
macro_rules! values {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the names are the algorithm's own")]
        pub enum $name {
            #[default]
            $($value = $number,)*
        }

        impl $name {
            /// The value with a number.
            pub fn from_number(number: u8) -> Option<$name> {
                match number {
                    $($number => Some($name::$value),)*
                    _ => None,
                }
            }
        }
    };
}

values!(
    /// What an entry is.
    EntryType { EntryNormal = 0, EntryConfChange = 1, EntryConfChangeV2 = 2, }
);
values!(
    /// What a message is.
    MessageType {
        MsgHup = 0,
        MsgBeat = 1,
        MsgPropose = 2,
        MsgAppend = 3,
        MsgAppendResponse = 4,
        MsgRequestVote = 5,
        MsgRequestVoteResponse = 6,
        MsgSnapshot = 7,
        MsgHeartbeat = 8,
        MsgHeartbeatResponse = 9,
        MsgUnreachable = 10,
        MsgSnapStatus = 11,
        MsgCheckQuorum = 12,
        MsgTransferLeader = 13,
        MsgTimeoutNow = 14,
        MsgReadIndex = 15,
        MsgReadIndexResp = 16,
        MsgRequestPreVote = 17,
        MsgRequestPreVoteResponse = 18,
    }
);
values!(
    /// How a change of membership is entered and left.
    ConfChangeTransition { Auto = 0, Implicit = 1, Explicit = 2, }
);
values!(
    /// One step of a change of membership.
    ConfChangeType { AddNode = 0, RemoveNode = 1, AddLearnerNode = 2, }
);

/// An entry of the log.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Entry {
    /// What it is.
    pub entry_type: EntryType,
    /// The term of the leader that made it.
    pub term: u64,
    /// Its position.
    pub index: u64,
    /// What it says; empty for the one that a leader begins with.
    pub data: EntryData,
    /// Not used.
    pub context: Vec<u8>,
    /// Not used.
    pub sync_log: bool,
}
copied!(Entry {
    entry_type: EntryType, get_entry_type set_entry_type;
    term: u64, get_term set_term;
    index: u64, get_index set_index;
});

impl Entry {
    /// What it says.
    pub fn get_data(&self) -> &[u8] {
        &self.data
    }

    /// Takes away what it says.
    pub fn take_data(&mut self) -> EntryData {
        std::mem::take(&mut self.data)
    }

    fn memory(&self) -> usize {
        self.data.len() + self.context.len() + 24
    }
}

record!(
    /// Who is in the group.
    ConfState {
        /// Who votes.
        voters: Vec<u64>, get_voters set_voters mut_voters take_voters;
        /// Who only listens.
        learners: Vec<u64>, get_learners set_learners mut_learners take_learners;
        /// Who voted before, while a change is under way.
        voters_outgoing: Vec<u64>,
            get_voters_outgoing set_voters_outgoing mut_voters_outgoing take_voters_outgoing;
        /// Who will only listen after the change.
        learners_next: Vec<u64>,
            get_learners_next set_learners_next mut_learners_next take_learners_next;
        /// The change ends by itself.
        auto_leave: bool, get_auto_leave set_auto_leave mut_auto_leave take_auto_leave;
    }
);

impl<Voters, Learners> From<(Voters, Learners)> for ConfState
where
    Voters: IntoIterator<Item = u64>,
    Learners: IntoIterator<Item = u64>,
{
    fn from((voters, learners): (Voters, Learners)) -> ConfState {
        let (voters, learners) = (voters.into_iter().collect(), learners.into_iter().collect());
        ConfState { voters, learners, ..ConfState::default() }
    }
}

record!(
    /// What a snapshot stands for.
    SnapshotMetadata {
        /// Who was in the group.
        conf_state: ConfState, get_conf_state set_conf_state mut_conf_state take_conf_state;
        /// The last position in it.
        index: u64, get_index set_index mut_index take_index;
        /// Its term.
        term: u64, get_term set_term mut_term take_term;
    }
);
record!(
    /// A snapshot.
    Snapshot {
        /// Its bytes, for whoever made it.
        data: Vec<u8>, get_data set_data mut_data take_data;
        /// What it stands for.
        metadata: SnapshotMetadata, get_metadata set_metadata mut_metadata take_metadata;
    }
);

impl Snapshot {
    /// Whether it is of nothing.
    pub fn is_empty(&self) -> bool {
        self.metadata.index == 0
    }
}

/// A message between replicas. What a field means depends on the type: see the library.
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(missing_docs, reason = "the names are the algorithm's own")]
pub struct Message {
    pub msg_type: MessageType,
    pub to: u64,
    pub from: u64,
    pub term: u64,
    pub log_term: u64,
    pub index: u64,
    pub entries: Vec<Entry>,
    pub commit: u64,
    pub commit_term: u64,
    pub snapshot: Snapshot,
    pub request_snapshot: u64,
    pub reject: bool,
    pub reject_hint: u64,
    pub context: Vec<u8>,
    pub deprecated_priority: u64,
    pub priority: i64,
}
copied!(Message {
    msg_type: MessageType, get_msg_type set_msg_type;
    to: u64, get_to set_to;
    from: u64, get_from set_from;
    term: u64, get_term set_term;
    log_term: u64, get_log_term set_log_term;
    index: u64, get_index set_index;
    commit: u64, get_commit set_commit;
    commit_term: u64, get_commit_term set_commit_term;
    reject: bool, get_reject set_reject;
    reject_hint: u64, get_reject_hint set_reject_hint;
});

impl Message {
    /// The entries.
    pub fn get_entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Sets the entries.
    pub fn set_entries(&mut self, entries: Vec<Entry>) {
        self.entries = entries;
    }

    /// The entries, to be changed.
    pub fn mut_entries(&mut self) -> &mut Vec<Entry> {
        &mut self.entries
    }

    /// Takes the entries away.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// The snapshot.
    pub fn get_snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Sets the snapshot.
    pub fn set_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
    }

    /// Takes the snapshot away.
    pub fn take_snapshot(&mut self) -> Snapshot {
        std::mem::take(&mut self.snapshot)
    }

    /// What the sender wants back.
    pub fn get_context(&self) -> &[u8] {
        &self.context
    }

    /// Takes away what the sender wants back.
    pub fn take_context(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.context)
    }
}

/// What a replica must not forget.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HardState {
    /// The newest term it knows.
    pub term: u64,
    /// Whom it voted for in it.
    pub vote: u64,
    /// How far it knows the log to be committed.
    pub commit: u64,
}
copied!(HardState {
    term: u64, get_term set_term;
    vote: u64, get_vote set_vote;
    commit: u64, get_commit set_commit;
});

/// A change of one member.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfChangeSingle {
    /// What changes.
    pub change_type: ConfChangeType,
    /// Whom it is about.
    pub node_id: u64,
}
copied!(ConfChangeSingle {
    change_type: ConfChangeType, get_change_type set_change_type;
    node_id: u64, get_node_id set_node_id;
});

/// A change of one member, the older way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfChange {
    /// What changes.
    pub change_type: ConfChangeType,
    /// Whom it is about.
    pub node_id: u64,
    /// Not used.
    pub context: Vec<u8>,
    /// Not used.
    pub id: u64,
}
copied!(ConfChange {
    change_type: ConfChangeType, get_change_type set_change_type;
    node_id: u64, get_node_id set_node_id;
});

impl ConfChange {
    fn memory(&self) -> usize {
        self.context.len() + 24
    }
}

record!(
    /// A change of several members.
    ConfChangeV2 {
        /// How it is entered and left.
        transition: ConfChangeTransition,
            get_transition set_transition mut_transition take_transition;
        /// Whom it is about.
        changes: Vec<ConfChangeSingle>, get_changes set_changes mut_changes take_changes;
        /// Not used.
        context: Vec<u8>, get_context set_context mut_context take_context;
    }
);

impl ConfChangeV2 {
    /// Whether both the old and the new members have to agree for a while, and whether that ends
    /// by itself.
    pub fn enter_joint(&self) -> Option<bool> {
        let simple = self.transition == ConfChangeTransition::Auto && self.changes.len() <= 1;
        (!simple).then_some(self.transition != ConfChangeTransition::Explicit)
    }

    /// Whether it ends that while.
    pub fn leave_joint(&self) -> bool {
        self.transition == ConfChangeTransition::Auto && self.changes.is_empty()
    }
}

sized_message!(Entry, ConfChange);
