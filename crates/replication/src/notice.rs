//! What a leader says to the others beside the log, and whether it was still the leader when it did.
//!
//! Whoever hears a notice answers, unless it knows of a later term. When most have answered, no
//! other leader can have been elected before the notice was sent: most of the group promises a
//! later term before there is one.

use std::collections::BTreeMap;

use crate::wire::{Body, NOTICE_MAX, NOTICES};
use crate::{Action, Replica, ReplicaId};

/// The notices that the leader of a term has told.
#[derive(Clone, Default, Debug)]
pub(crate) struct Notices {
    term: u64,
    /// Number of the last notice of the term.
    number: u64,
    /// By voter: the last one it has answered.
    answered: BTreeMap<ReplicaId, u64>,
    /// Most have answered those up to this one.
    confirmed: u64,
}

impl Replica {
    /// Says something to all others that know of such messages, if it leads: at most [`NOTICE_MAX`]
    /// bytes, which may get lost. It is not in the log: for what is of use only while it leads.
    /// [`Action::Confirmed`] tells when most have heard it, by its number; 0 when nothing was said.
    pub fn notify(&mut self, notice: &[u8], out: &mut Vec<Action>) -> u64 {
        let serving = self.serving.filter(|_| self.stopped.is_none());
        let Some(term) = serving.filter(|_| notice.len() <= NOTICE_MAX) else { return 0 };
        if self.notices.term != term {
            self.notices = Notices { term, ..Notices::default() };
        }
        self.notices.number += 1;
        let number = self.notices.number;
        for to in self.core.membership().others(self.config.id) {
            if self.versions.with(to) >= NOTICES {
                self.tell(to, &Body::Notice { term, number, bytes: notice }, out);
            }
        }
        // Who is most alone has nobody to wait for.
        self.confirm_notices(out);
        number
    }

    /// A notice came, or an answer to one.
    pub(crate) fn take_beside(&mut self, from: ReplicaId, body: &Body<'_>, out: &mut Vec<Action>) {
        match *body {
            Body::Notice { term, number, bytes } => {
                self.take_notice(from, (term, number, bytes), out);
            }
            Body::Noticed { term, number } => self.take_noticed(from, (term, number), out),
            _ => {}
        }
    }

    fn take_notice(
        &mut self,
        from: ReplicaId,
        (term, number, bytes): (u64, u64, &[u8]),
        out: &mut Vec<Action>,
    ) {
        let known = self.core.membership().get(from).is_some();
        if known && term >= self.core.standing().term {
            out.push(Action::Notice(bytes.to_vec()));
            self.tell(from, &Body::Noticed { term, number }, out);
        }
    }

    fn take_noticed(&mut self, from: ReplicaId, (term, number): (u64, u64), out: &mut Vec<Action>) {
        let members = self.core.membership();
        let notices = &mut self.notices;
        let ours = self.serving == Some(term) && notices.term == term && number <= notices.number;
        if !ours || !members.votes(from) {
            return;
        }
        let last = notices.answered.entry(from).or_insert(0);
        *last = number.max(*last);
        self.confirm_notices(out);
    }

    /// Says so if most have heard more of the notices than before.
    fn confirm_notices(&mut self, out: &mut Vec<Action>) {
        let members = self.core.membership();
        let notices = &mut self.notices;
        let own = members.votes(self.config.id).then_some(notices.number);
        let heard = notices.answered.iter().filter(|(who, _)| members.votes(**who));
        let mut heard: Vec<u64> = heard.map(|(_, number)| *number).chain(own).collect();
        heard.sort_unstable_by(|a, b| b.cmp(a));
        let most = members.quorum().checked_sub(1).and_then(|place| heard.get(place)).copied();
        if let Some(number) = most.filter(|number| *number > notices.confirmed) {
            assert!(number <= notices.number, "only what was said is confirmed");
            notices.confirmed = number;
            out.push(Action::Confirmed(number));
        }
    }
}
