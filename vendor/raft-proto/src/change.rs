//! Changes of membership, as the library asks about them.

use std::borrow::Cow;

use crate::eraftpb::{ConfChange, ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

/// A change of one member.
pub fn new_conf_change_single(node_id: u64, change_type: ConfChangeType) -> ConfChangeSingle {
    ConfChangeSingle { change_type, node_id }
}

/// Either kind of change, as the newer one.
pub trait ConfChangeI {
    /// Turned into the newer kind.
    fn into_v2(self) -> ConfChangeV2;
    /// Seen as the newer kind.
    fn as_v2(&self) -> Cow<'_, ConfChangeV2>;
    /// Itself, when it is the older kind.
    fn as_v1(&self) -> Option<&ConfChange>;
}

impl ConfChangeI for ConfChange {
    fn into_v2(self) -> ConfChangeV2 {
        let ConfChange { change_type, node_id, context, .. } = self;
        let changes = vec![ConfChangeSingle { change_type, node_id }];
        ConfChangeV2 { changes, context, ..ConfChangeV2::default() }
    }

    fn as_v2(&self) -> Cow<'_, ConfChangeV2> {
        Cow::Owned(self.clone().into_v2())
    }

    fn as_v1(&self) -> Option<&ConfChange> {
        Some(self)
    }
}

impl ConfChangeI for ConfChangeV2 {
    fn into_v2(self) -> ConfChangeV2 {
        self
    }

    fn as_v2(&self) -> Cow<'_, ConfChangeV2> {
        Cow::Borrowed(self)
    }

    fn as_v1(&self) -> Option<&ConfChange> {
        None
    }
}

/// Whether two memberships are the same, in whatever order they are listed.
pub fn conf_state_eq(a: &ConfState, b: &ConfState) -> bool {
    let same = |a: &[u64], b: &[u64]| {
        let sorted = |list: &[u64]| {
            let mut list = list.to_vec();
            list.sort_unstable();
            list.dedup();
            list
        };
        sorted(a) == sorted(b)
    };
    same(&a.voters, &b.voters)
        && same(&a.learners, &b.learners)
        && same(&a.voters_outgoing, &b.voters_outgoing)
        && same(&a.learners_next, &b.learners_next)
        && a.auto_leave == b.auto_leave
}
