//! The consensus library behind the boundary: `raft` 0.7, with pre-vote and check-quorum.

use journal::{SnapshotInfo, Vote};
use raft::eraftpb::{
    ConfChangeV2, Entry, EntryType, Message, MessageType, Snapshot, SnapshotMetadata,
};
use raft::{RawNode, StateRole};
use types::SplitMix64;

use crate::consensus::TERM_MAX;
use crate::log_view::{LogView, from_library, into_library};
use crate::members::steps;
use crate::{
    Change, Config, ConfigError, Install, Membership, Recovered, Refused, ReplicaId, Standing,
    Work, Write, wire,
};

/// A group kept together by Raft.
pub struct RaftGroup {
    node: RawNode<LogView>,
    config: Config,
    vote: Vote,
    /// Last term in which the replica may have acknowledged what it lost, so that it gives no vote;
    /// 0: none.
    doubt: u64,
    /// The only one that it may elect while in doubt.
    sponsor: Option<ReplicaId>,
    /// The doubt is to be written down.
    doubted: bool,
    /// A snapshot that the library is asked to take.
    offered: Option<Install>,
    /// A snapshot that is being written to the disk, with the number of that work.
    installing: Option<(u64, Install)>,
    /// A snapshot that is durable, from which the state has to be made.
    restored: Option<Install>,
}

impl RaftGroup {
    /// A replica that goes on from what its journal holds.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: &Config, recovered: Recovered) -> Result<RaftGroup, ConfigError> {
        config.check()?;
        let Recovered { vote, before, last, committed, doubt, sponsor, .. } = recovered;
        if committed > last || before.0 > committed || vote.term >= 2 * TERM_MAX {
            return Err(ConfigError::Recovered);
        }
        let tail = &recovered.tail;
        let whole = tail.iter().map(|entry| entry.position).eq(committed + 1..=last);
        if !whole || !recovered.groups.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(ConfigError::Recovered);
        }
        let founders = Membership::founders(config);
        let election_tick = config.election_ticks as usize;
        let told = raft::Config {
            id: u64::from(config.id.0),
            election_tick,
            heartbeat_tick: config.heartbeat_ticks as usize,
            applied: committed,
            max_size_per_msg: config.message_bytes,
            max_inflight_msgs: config.in_flight as usize,
            check_quorum: true,
            pre_vote: true,
            max_uncommitted_size: config.uncommitted_bytes,
            batch_append: true,
            ..raft::Config::default()
        };
        let silent = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&told, LogView::new(config.id, founders, recovered), &silent)
            .map_err(|_| ConfigError::Recovered)?;
        let mut group = RaftGroup {
            node,
            config: config.clone(),
            vote,
            doubt,
            sponsor: u8::try_from(sponsor).ok().filter(|id| *id > 0).map(ReplicaId),
            doubted: false,
            offered: None,
            installing: None,
            restored: None,
        };
        group.draw_timeout();
        Ok(group)
    }

    /// The library draws election timeouts by itself; ours follow from seed, replica, term and role,
    /// so that a run can be repeated.
    fn draw_timeout(&mut self) {
        let raft = &mut self.node.raft;
        let role = match raft.state {
            StateRole::Follower => 0,
            StateRole::PreCandidate => 1,
            StateRole::Candidate => 2,
            StateRole::Leader => 3,
        };
        let ticks = u64::from(self.config.election_ticks);
        let facts = u64::from(self.config.id.0) << 56 ^ role << 48 ^ raft.term;
        let draw = SplitMix64::new(SplitMix64::mix(self.config.seed) ^ facts).below(ticks);
        raft.set_randomized_election_timeout((ticks + draw) as usize);
    }

    /// A change of who is in the group is committed: it takes effect. A leader that is removed by it
    /// leads no more.
    fn take_change(&mut self, position: u64, group: &[u8]) {
        // Whoever sent it, or the journal, has seen that it can be read.
        let Some(next) = Membership::read(group) else { return };
        let own = self.config.id;
        let known = self.node.raft.prs().conf().to_conf_state();
        for step in steps(&known, &next.conf_state(own)) {
            let change = ConfChangeV2 { changes: vec![step], ..ConfChangeV2::default() };
            // The library refuses only what leaves nobody who votes, which a membership never says.
            let _ = self.node.apply_conf_change(&change);
        }
        let removed = next.is_removed(own);
        self.node.mut_store().change(position, group.to_vec(), next);
        let raft = &mut self.node.raft;
        if removed && raft.state == StateRole::Leader {
            raft.become_follower(raft.term, raft::INVALID_ID);
            self.draw_timeout();
        }
    }

    /// Why a message must not reach the library, which would stop: the disk lost what it had
    /// promised, or the leader's log lacks what was committed.
    fn lost(&self, message: &Message) -> Option<Refused> {
        if message.term < self.node.raft.term {
            return None;
        }
        match message.msg_type {
            MessageType::MsgHeartbeat => {
                let (told, last) = (message.commit, self.node.raft.raft_log.last_index());
                (told > last).then_some(Refused::LogLost { told, last })
            }
            MessageType::MsgAppend => {
                let log = &self.node.raft.raft_log;
                let differs = |(position, term): &(u64, u64)| {
                    *position <= log.committed
                        && log.term(*position).is_ok_and(|own| own > 0 && own != *term)
                };
                let entries = message.entries.iter().map(|entry| (entry.index, entry.term));
                let mut told = std::iter::once((message.index, message.log_term)).chain(entries);
                told.find(differs).map(|(position, _)| Refused::Overruled { position })
            }
            _ => None,
        }
    }

    /// Whether the sender has a longer log than this leader: it is of another group, and stops when
    /// it hears of this one's records.
    fn is_beyond(&self, message: &Message) -> bool {
        message.msg_type == MessageType::MsgAppendResponse
            && !message.reject
            && message.index > self.node.raft.raft_log.last_index()
    }

    /// Whether it asks for votes.
    fn campaigns(&self) -> bool {
        self.doubt == 0 || self.sponsor == Some(self.config.id)
    }
}

/// Whether a vote may follow another: in a later term, or in the same term for the same replica.
fn may_follow(before: &Vote, vote: &Vote) -> bool {
    vote.term > before.term
        || vote.term == before.term && (before.voted_for == 0 || vote.voted_for == before.voted_for)
}

/// Whether a message asks for a vote, or to ask for votes.
fn is_election(message: &Message) -> bool {
    matches!(
        message.msg_type,
        MessageType::MsgRequestVote
            | MessageType::MsgRequestPreVote
            | MessageType::MsgTimeoutNow
            | MessageType::MsgHup
    )
}

/// Messages in their bytes, with whom they are for.
fn bodies(messages: Vec<Message>) -> Vec<(ReplicaId, Vec<u8>)> {
    let body = |message: Message| {
        let to = u8::try_from(message.to).ok().map(ReplicaId)?;
        wire::is_offered(&message).then(|| (to, wire::encode(&message)))
    };
    messages.into_iter().filter_map(body).collect()
}

impl RaftGroup {
    /// Tells the library that a tick has passed.
    pub(crate) fn tick(&mut self) {
        // Whoever may have lost something waits to be led; and who has a snapshot on its way has
        // nothing between it and the state, where the library would look when it asks for votes.
        if self.campaigns() && !self.is_installing() {
            self.node.tick();
            self.draw_timeout();
        } else if self.doubt > 0 {
            // It asks nobody, but a leader that is silent is none any more for whoever asks it.
            let elapsed = &mut self.node.raft.election_elapsed;
            *elapsed = elapsed.saturating_add(1);
        }
    }

    /// A message came in.
    ///
    /// # Errors
    /// [`Refused`], with nothing changed.
    pub(crate) fn receive(&mut self, from: ReplicaId, message: &[u8]) -> Result<(), Refused> {
        let message = wire::decode(from, self.config.id, message).map_err(Refused::Decode)?;
        if let Some(lost) = self.lost(&message) {
            return Err(lost);
        }
        let asked = message.msg_type == MessageType::MsgTimeoutNow;
        let elects = self.doubt == 0 || (self.sponsor == Some(from) && !asked);
        let deaf = is_election(&message) && !elects;
        if deaf || (asked && self.is_installing()) || self.is_beyond(&message) {
            return Ok(());
        }
        // What the library has no use for it says so about, and nothing follows from it.
        let _ = self.node.step(message);
        self.draw_timeout();
        Ok(())
    }

    /// Proposes records, all or none; false when this replica does not lead or too much is
    /// uncommitted.
    pub(crate) fn propose<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) -> bool {
        let entry = |data: &[u8]| Entry { data: data.into(), ..Entry::default() };
        let entries: Vec<Entry> = records.map(entry).collect();
        if entries.is_empty() || self.node.raft.state != StateRole::Leader {
            return false;
        }
        let message = Message {
            msg_type: MessageType::MsgPropose,
            from: u64::from(self.config.id.0),
            entries,
            ..Message::default()
        };
        self.node.raft.step(message).is_ok()
    }

    /// The next work, if there is any.
    pub(crate) fn work(&mut self) -> Option<Work> {
        let fetch = self.node.store().asked();
        let behind = self.node.store().behind();
        let more = fetch.is_empty() && behind.is_empty() && self.restored.is_none();
        if !self.node.has_ready() && more {
            return None;
        }
        let mut ready = self.node.ready();
        let behind = behind.into_iter().filter_map(|id| u8::try_from(id).ok().map(ReplicaId));
        let mut work = Work { number: ready.number(), fetch, ..Work::default() };
        (work.behind, work.restore) = (behind.collect(), self.restored.take());
        work.sends = bodies(ready.take_messages());
        work.after = bodies(ready.take_persisted_messages());
        let vote = ready.hs().map(|hard| Vote { term: hard.term, voted_for: hard.vote });
        let vote = vote.filter(|vote| *vote != self.vote);
        assert!(vote.is_none_or(|vote| may_follow(&self.vote, &vote)), "one vote in a term");
        self.vote = vote.unwrap_or(self.vote);
        let install = self.offered.take().filter(|_| !ready.snapshot().is_empty());
        if let Some(Install { info, group, .. }) = &install {
            assert!(!self.is_installing(), "one snapshot at a time is on its way");
            self.node.mut_store().install(info.position, info.term, group.clone());
            self.installing = install.clone().map(|install| (work.number, install));
        }
        let kept = self.node.mut_store().append(ready.entries());
        let applied = self.node.raft.raft_log.applied;
        assert!(kept.is_none_or(|kept| kept >= applied), "what is applied is not taken back");
        let entries: Vec<_> = ready.take_entries().into_iter().map(from_library).collect();
        if vote.is_some() || install.is_some() || !entries.is_empty() {
            let install = install.map(Box::new);
            let doubt = vote.filter(|_| std::mem::take(&mut self.doubted)).map(|_| self.doubt);
            let committed = self.committed();
            let write = Write { vote, install, kept, entries, committed, ..Write::default() };
            work.write = Some(Write { doubt, ..write });
        }
        work.committed = ready.take_committed_entries().into_iter().map(from_library).collect();
        self.node.advance_append_async(ready);
        if let Some(last) = work.committed.last() {
            let (position, term) = (last.position, last.term);
            for entry in work.committed.iter().filter(|entry| !entry.group.is_empty()) {
                self.take_change(entry.position, &entry.group);
            }
            if term > self.doubt {
                // Its leader held all that was committed before, and now this one does.
                self.doubt = 0;
            }
            self.node.advance_apply_to(position);
            let keep = position.saturating_sub(self.config.window);
            self.node.mut_store().forget_before(keep);
        }
        Some(work)
    }

    /// Tells the library that all writes up to this number are durable.
    pub(crate) fn written(&mut self, number: u64) {
        self.node.on_persist_ready(number);
        if let Some((_, install)) = self.installing.take_if(|(written, _)| *written <= number) {
            self.node.advance_apply_to(install.info.position);
            if install.info.term > self.doubt {
                self.doubt = 0;
            }
            assert!(self.restored.is_none(), "the one before is in the state");
            self.restored = Some(install);
        }
        self.draw_timeout();
    }

    /// Tells the library the entries that it asked for; none when reading failed.
    pub(crate) fn fetched(&mut self, number: u64, entries: Vec<crate::Entry>) {
        let waiting = self.node.store().waiting_for(number);
        if entries.is_empty() {
            return;
        }
        let entries = entries.into_iter().map(into_library).collect();
        self.node.mut_store().put_read(entries);
        for context in waiting {
            self.node.on_entries_fetched(context);
        }
        self.node.mut_store().put_read(Vec::new());
    }

    /// The log here begins behind this position, of this term.
    pub(crate) fn begins_behind(&mut self, position: u64, term: u64) {
        if position <= self.node.raft.raft_log.applied {
            self.node.mut_store().begin_behind(position, term);
        }
    }

    /// Whether a snapshot stands for nothing but what this log holds.
    pub(crate) fn holds(&self, info: &SnapshotInfo) -> bool {
        let log = &self.node.raft.raft_log;
        info.position < log.committed || log.match_term(info.position, info.term)
    }

    /// Whether a snapshot is on its way to the disk, or to the state.
    pub(crate) fn is_installing(&self) -> bool {
        self.installing.is_some() || self.restored.is_some()
    }

    /// A snapshot that the leader has: whole, or without its bytes when this log
    /// [holds](RaftGroup::holds) that. Either way the leader will hear how far this replica is.
    /// False when nobody leads this replica, and nothing came of it.
    pub(crate) fn install(&mut self, info: &SnapshotInfo, whole: Option<Install>) -> bool {
        let raft = &self.node.raft;
        let follows = raft.state == StateRole::Follower && raft.leader_id != raft::INVALID_ID;
        if !follows || self.is_installing() || (whole.is_none() && !self.holds(info)) {
            return false;
        }
        let conf_state = match &whole {
            Some(whole) => self.node.store().membership_of(&whole.group).conf_state(self.config.id),
            None => self.node.store().conf_state(),
        };
        let metadata = SnapshotMetadata { conf_state, index: info.position, term: info.term };
        let message = Message {
            msg_type: MessageType::MsgSnapshot,
            from: raft.leader_id,
            to: raft.id,
            term: raft.term,
            snapshot: Snapshot { metadata, ..Snapshot::default() },
            ..Message::default()
        };
        self.offered = whole;
        let _ = self.node.step(message);
        self.draw_timeout();
        true
    }

    /// State of this replica.
    pub(crate) fn standing(&self) -> Standing {
        let raft = &self.node.raft;
        let leader = u8::try_from(raft.leader_id).ok().filter(|id| *id > 0).map(ReplicaId);
        Standing { term: raft.term, leader, leading: raft.state == StateRole::Leader }
    }

    /// Whether a leader that has applied everything up to a position has applied all that was
    /// committed before its time: an entry of its own term is among it.
    pub(crate) fn may_serve(&self, applied: u64) -> bool {
        self.node.raft.raft_log.term(applied).is_ok_and(|term| term == self.node.raft.term)
    }

    /// Last position that is committed.
    pub(crate) fn committed(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    /// The last position that is appended here, durable or not.
    pub(crate) fn last(&self) -> u64 {
        self.node.store().last()
    }

    /// The position before the first that its log holds.
    pub(crate) fn before(&self) -> u64 {
        self.node.store().before()
    }

    /// Term that the replica's log has to pass before it gives a vote; 0: it may vote.
    pub(crate) fn doubt(&self) -> u64 {
        self.doubt
    }

    /// Membership of the group, as far as changes are applied here.
    pub(crate) fn membership(&self) -> &Membership {
        self.node.store().membership()
    }

    /// Membership at an applied position, encoded; empty for the founders.
    pub(crate) fn group_at(&self, position: u64) -> &[u8] {
        self.node.store().group_at(position)
    }

    /// Whether a change may be on its way that is not applied here.
    pub(crate) fn is_changing(&self) -> bool {
        self.node.raft.has_pending_conf()
    }

    /// Proposes a change of the membership; returns its position, or `None` when this replica does
    /// not lead or too much is uncommitted.
    pub(crate) fn change(&mut self, change: &Change, next: &Membership) -> Option<u64> {
        let raft = &mut self.node.raft;
        if raft.state != StateRole::Leader || raft.has_pending_conf() {
            return None;
        }
        let entry = Entry {
            entry_type: EntryType::EntryConfChangeV2,
            data: next.write(change).into(),
            ..Entry::default()
        };
        let message = Message {
            msg_type: MessageType::MsgPropose,
            from: raft.id,
            entries: vec![entry],
            ..Message::default()
        };
        raft.step(message).ok().map(|()| raft.raft_log.last_index())
    }

    /// Position up to which the leader knows another replica's durable log to equal its own.
    pub(crate) fn matched(&self, id: ReplicaId) -> Option<u64> {
        self.node.raft.prs().get(u64::from(id.0)).map(|progress| progress.matched)
    }

    /// Proposes an empty record, which tells the others what is committed; returns its position, or
    /// `None` when this replica does not lead or too much is uncommitted.
    pub(crate) fn confirm(&mut self) -> Option<u64> {
        let taken = self.propose(std::iter::once(&[][..]));
        taken.then(|| self.node.raft.raft_log.last_index())
    }

    /// Lets another one lead, as soon as that has what this leader has; for an election timeout
    /// nothing is taken.
    pub(crate) fn hand_over(&mut self, to: ReplicaId) {
        self.node.transfer_leader(u64::from(to.0));
    }

    /// The only one that it may elect meanwhile, by an operator's word.
    pub(crate) fn sponsor(&self) -> Option<ReplicaId> {
        self.sponsor.filter(|_| self.doubt > 0)
    }

    /// Notes that the replica may have promised anything in terms up to this one: it goes on in the
    /// next term, and gives no vote before it has a record of a later one.
    pub(crate) fn doubt_from(&mut self, term: u64) {
        (self.doubt, self.sponsor, self.doubted) = (term, None, true);
        self.node.raft.become_follower(term + 1, raft::INVALID_ID);
        self.draw_timeout();
    }

    /// Asks for votes at once: for tests and for handing over.
    pub(crate) fn campaign(&mut self) {
        if self.campaigns() && !self.is_installing() {
            let _ = self.node.campaign();
            self.draw_timeout();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DecodeError;

    #[test]
    fn one_vote_is_given_in_a_term() {
        let vote = |term, voted_for| Vote { term, voted_for };
        assert!(may_follow(&vote(3, 0), &vote(3, 2)) && may_follow(&vote(3, 2), &vote(4, 0)));
        for second in [vote(3, 1), vote(3, 0), vote(2, 2)] {
            assert!(!may_follow(&vote(3, 2), &second), "{second:?}");
        }
    }

    #[test]
    fn terms_that_could_not_grow_are_refused() {
        let (one, two) = (ReplicaId(1), ReplicaId(2));
        let told = |term| {
            let message =
                Message { msg_type: MessageType::MsgHeartbeat, term, ..Message::default() };
            wire::decode(one, two, &wire::encode(&message)).map(|message| message.term)
        };
        assert_eq!(told(TERM_MAX - 1), Ok(TERM_MAX - 1));
        for term in [0, TERM_MAX, u64::MAX] {
            assert_eq!(told(term), Err(DecodeError::Body));
        }
    }

    #[test]
    fn a_log_with_a_gap_makes_no_replica() {
        let config = Config::new(9, ReplicaId(1), 3);
        let entry =
            |position| crate::Entry { position, term: 1, record: vec![7].into(), group: vec![] };
        let with = |tail: Vec<crate::Entry>| {
            let terms = vec![(1, 1)];
            let recovered = Recovered { last: 2, terms, tail, ..Recovered::default() };
            RaftGroup::new(&config, recovered).map(|_| ())
        };
        assert_eq!(with(vec![entry(1), entry(2)]), Ok(()));
        for tail in [vec![entry(1)], vec![entry(2), entry(1)], vec![entry(1), entry(3)]] {
            assert_eq!(with(tail), Err(ConfigError::Recovered));
        }
    }
}
