//! Before a replica that was started takes part: is its disk what it was?
//!
//! A disk that was set back to an older copy has forgotten what its replica acknowledged and whom it
//! voted for. A replica that took part with it could help to elect a leader that lacks what was
//! committed. So each one asks when it is started. The others tell what they know of it: its starts,
//! the newest term in which it spoke, and how far it acknowledged the log of that term's leader
//! ([`Mark`]; written down with every new term, and behind the log for positions). If that is more than
//! its disk holds, or the journal knows the folder to be a copy, it is set back.
//!
//! One that is not takes part when so many have answered as make most of the group with itself: without
//! them nobody is elected anyway. It waits for the others an election timeout longer. Those of a version that
//! knows no questions know nothing of it either: they count as if they had answered when they are heard.
//!
//! One that is set back says nothing before most of the group, itself not counted, have told it their
//! terms, and are sure of their own disks. Whatever it has helped to commit was in the term of a leader
//! whom most had elected; so one of those who answer knows that term, and it promised nothing to any
//! leader of a later one. From there it is one in doubt (`journal::mend`), in the term behind all these
//! and [`journal::TERMS_UNHEARD`] more: votes that it gave and that none of those heard of are passed over. It
//! elects nobody before a leader of such a term has sent it a record, and that one was elected by others.
//! So a group bears as many of them as leave most of it whole, and elects nobody while fewer are.

use std::collections::{BTreeMap, BTreeSet};

use journal::{PEERS_MAX, Peer, TERMS_UNHEARD};

use crate::members::VOTERS_MAX;
use crate::wire::{self, Ask, Body, Mark, QUESTIONS, Told};
use crate::{Action, Config, Membership, Recovered, Replica, ReplicaId, Write};

/// Number of positions by which another replica may be ahead of its record before the record is
/// written with other writes.
const APART: u64 = 1 << 16;
/// Ticks after which a replica that is heard and does not answer is taken for a version without
/// questions.
const DEAF: u32 = 64;
/// Ticks without an answer after which a replica is also asked in a form that every version
/// answers: followers of some versions say nothing by themselves while there is a leader.
const SILENT: u32 = DEAF / 2;

const _: () = assert!(SILENT < DEAF, "whoever is asked has time to answer");
const _: () = assert!(PEERS_MAX >= 2 * VOTERS_MAX - 1, "something is kept of all others");

/// Why a replica gives no vote for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// It was started, and asks the others what they know of its promises.
    Asks {
        /// Number of replicas that have answered.
        answered: usize,
        /// Number of replicas that have to answer.
        needed: usize,
    },
    /// Its disk is an older copy of itself.
    SetBack {
        /// Number of replicas with sound disks that have told their terms.
        sure: usize,
        /// Number of such answers that it needs.
        needed: usize,
    },
    /// Its disk may lack what it acknowledged in terms up to this one.
    Doubts {
        /// Last term in which the replica may have acknowledged records that it lost.
        term: u64,
        /// The only replica that it may elect; `None`: none.
        sponsor: Option<ReplicaId>,
    },
}

impl std::fmt::Display for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Waits::Asks { answered, needed } => write!(
                f,
                "it was started and elects nobody before {needed} others have told what they know of \
                 its disk; {answered} have"
            ),
            Waits::SetBack { sure, needed } => write!(
                f,
                "its disk is an older copy of itself, and may lack what it had acknowledged: it elects \
                 nobody before {needed} others whose disks are whole have told it their terms, and one \
                 of them leads; {sure} have. Start them; if they are lost: `fairbell cluster recover`, \
                 or `fairbell replica recover`"
            ),
            Waits::Doubts { term, sponsor: None } => write!(
                f,
                "its disk may lack what it had acknowledged in terms up to {term}: it elects nobody \
                 before a leader whom others have elected has sent it the log. Start them; if they are \
                 lost: `fairbell cluster recover`, or `fairbell replica recover`"
            ),
            Waits::Doubts { term, sponsor: Some(to) } => write!(
                f,
                "its disk may lack what it had acknowledged in terms up to {term}: by an operator's \
                 word it elects {to} and nobody else before it has the log of that"
            ),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Asking,
    SetBack,
    Settled,
}

/// What one replica has answered.
#[derive(Clone, Copy, Debug)]
struct Answer {
    sure: bool,
    term: u64,
}

/// State of a replica's start, and what it knows of the others.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    ask: Ask,
    last: u64,
    phase: Phase,
    ticks: u32,
    answers: BTreeMap<ReplicaId, Answer>,
    /// Replicas that were heard meanwhile, members or not.
    heard: BTreeSet<ReplicaId>,
    /// Newest membership that another replica has told.
    told: Option<Membership>,
    /// Whether the replica was asked to campaign meanwhile.
    pub(crate) campaigns: bool,
    known: BTreeMap<ReplicaId, Mark>,
    written: BTreeMap<ReplicaId, Mark>,
    /// Ticks during which something was known that is not recorded, without any write.
    idle: u32,
}

impl Start {
    /// State of a replica that has no others to ask.
    pub(crate) fn settled() -> Start {
        Start {
            ask: Ask { start: 0, lives: 0, term: 0 },
            last: 0,
            phase: Phase::Settled,
            ticks: 0,
            answers: BTreeMap::new(),
            heard: BTreeSet::new(),
            told: None,
            campaigns: false,
            known: BTreeMap::new(),
            written: BTreeMap::new(),
            idle: 0,
        }
    }

    /// Of one that goes on from its journal. One that is not counted is never elected or asked to
    /// elect: it takes part at once, and so does one that speaks no version with questions.
    pub(crate) fn new(config: &Config, recovered: &Recovered) -> Start {
        let newest = recovered.groups.last().and_then(|(_, group)| Membership::read(group));
        let members = newest.unwrap_or_else(|| Membership::founders(config));
        let mark = |peer: &Peer| {
            let Peer { server, lives, term, position } = *peer;
            Some((ReplicaId(u8::try_from(server).ok()?), Mark { lives, term, position }))
        };
        let known: BTreeMap<ReplicaId, Mark> = recovered.peers.iter().filter_map(mark).collect();
        let alone = members.quorum() == 1 && members.votes(config.id);
        let asks = config.newest >= QUESTIONS && members.votes(config.id) && !alone;
        let phase = match (recovered.set_back && !alone, asks) {
            (true, _) => Phase::SetBack,
            (false, true) => Phase::Asking,
            (false, false) => Phase::Settled,
        };
        let ask = Ask { start: config.start, lives: recovered.lives, term: recovered.vote.term };
        let last = recovered.last;
        Start { ask, last, phase, written: known.clone(), known, ..Start::settled() }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.phase == Phase::Settled
    }

    /// Notes that a replica was heard that may be new in the group.
    pub(crate) fn hears(&mut self, from: ReplicaId) {
        if self.heard.len() < PEERS_MAX {
            self.heard.insert(from);
        }
    }

    /// Whether an answer says that more was promised than the disk knows.
    fn is_beyond(&self, mark: &Mark) -> bool {
        let Ask { lives, term, .. } = self.ask;
        mark.lives > lives || mark.term > term || (mark.term == term && mark.position > self.last)
    }

    /// Takes over what a replica says about its own log.
    pub(crate) fn note(&mut self, who: ReplicaId, said: Mark) {
        assert!(self.known.len() <= PEERS_MAX, "what is known of others is bounded");
        let room = self.known.len() < PEERS_MAX;
        let Some(known) = self.known.get_mut(&who) else {
            if room {
                self.known.insert(who, said);
            }
            return;
        };
        known.lives = known.lives.max(said.lives);
        let (at, of) = ((said.term, said.position), (known.term, known.position));
        (known.term, known.position) = at.max(of);
        assert!((known.term, known.position) >= of, "what was said stays said");
    }

    /// What has to be recorded with the next write. With `any`, also positions that are only a
    /// little ahead of the record.
    fn take_peers(&mut self, any: bool) -> Option<Vec<Peer>> {
        let due = |(who, mark): (&ReplicaId, &Mark)| {
            let written = self.written.get(who).copied().unwrap_or_default();
            let far = mark.position >= written.position.saturating_add(APART);
            mark.lives > written.lives || mark.term > written.term || far
        };
        let wanted = match any {
            true => self.known != self.written,
            false => self.known.iter().any(due),
        };
        let peer = |(who, mark): (&ReplicaId, &Mark)| {
            let Mark { lives, term, position } = *mark;
            Peer { server: u64::from(who.0), lives, term, position }
        };
        wanted.then(|| {
            self.written.clone_from(&self.known);
            self.idle = 0;
            self.known.iter().map(peer).collect()
        })
    }

    /// Drops what is known of replicas that were removed.
    fn forget(&mut self, members: &Membership) {
        self.known.retain(|who, _| !members.is_removed(*who));
    }
}

impl Replica {
    /// Why the replica gives no vote for now; `None`: it takes part.
    pub fn waits(&self) -> Option<Waits> {
        match self.start.phase {
            Phase::Asking => {
                let (answered, needed, _) = self.answered();
                Some(Waits::Asks { answered, needed })
            }
            Phase::SetBack => {
                let (sure, needed, _) = self.sure();
                Some(Waits::SetBack { sure, needed })
            }
            Phase::Settled => {
                let (term, sponsor) = (self.core.doubt(), self.core.sponsor());
                (term > 0).then_some(Waits::Doubts { term, sponsor })
            }
        }
    }

    /// Newest membership that is known.
    fn newest(&self) -> &Membership {
        let own = self.core.membership();
        self.start.told.as_ref().filter(|told| told.number > own.number).unwrap_or(own)
    }

    /// Of those counted: how many have answered, how many have to, and how many there are.
    fn answered(&self) -> (usize, usize, usize) {
        let (own, members) = (self.config.id, self.newest());
        let answers = |id: &ReplicaId| {
            let deaf = self.start.ticks >= DEAF && self.versions.heard_within(*id, DEAF);
            self.start.answers.contains_key(id) || deaf
        };
        let others = || members.voters().filter(|id| *id != own);
        let needed = members.quorum() - usize::from(members.votes(own));
        (others().filter(answers).count(), needed, others().count())
    }

    /// Of those counted: how many have told their terms and are sure of their disks, how many have to,
    /// and the newest of these terms.
    fn sure(&self) -> (usize, usize, u64) {
        let (own, members) = (self.config.id, self.newest());
        let sure = members.voters().filter(|id| *id != own);
        let sure = sure.filter_map(|id| self.start.answers.get(&id).filter(|answer| answer.sure));
        let (count, term) = sure.fold((0, 0), |(n, term), answer| (n + 1, term.max(answer.term)));
        (count, members.quorum(), term)
    }

    /// Handles a tick before the replica takes part.
    pub(crate) fn tick_start(&mut self, out: &mut Vec<Action>) {
        self.start.ticks = self.start.ticks.saturating_add(1);
        let own = self.config.id;
        let mut whom: BTreeSet<ReplicaId> = self.core.membership().others(own).collect();
        whom.extend(self.newest().others(own));
        whom.extend(&self.start.heard);
        let answers = &self.start.answers;
        let set_back = self.start.phase == Phase::SetBack;
        whom.retain(|id| answers.get(id).is_none_or(|answer| set_back && !answer.sure));
        let ask = Body::Ask(self.start.ask);
        whom.iter().for_each(|to| self.tell(*to, &ask, out));
        if !set_back && self.start.ticks >= SILENT {
            let knock = wire::knock();
            whom.iter().for_each(|to| self.tell(*to, &Body::Consensus(&knock), out));
        }
        self.settle();
    }

    /// Answers a replica that was started and asks what is known of its promises.
    pub(crate) fn take_ask(&mut self, from: ReplicaId, ask: Ask, out: &mut Vec<Action>) {
        let mark = self.start.known.get(&from).copied().unwrap_or_default();
        let standing = self.core.standing();
        let (start, term, sure) = (ask.start, standing.term, self.start.is_settled());
        let group = self.core.group_at(self.core.committed());
        let told = Told { start, sure, term, mark };
        self.tell(from, &Body::Told { told, group }, out);
        self.start.note(from, Mark { lives: ask.lives, term: ask.term, position: 0 });
    }

    /// Handles an answer: what another replica knows of this one's promises.
    pub(crate) fn take_told(
        &mut self,
        from: ReplicaId,
        told: &Told,
        group: &[u8],
        out: &mut Vec<Action>,
    ) {
        if self.start.is_settled() || told.start != self.start.ask.start {
            return;
        }
        if let Some(members) = Membership::read(group).filter(|m| m.number > self.newest().number) {
            self.start.told = Some(members);
        }
        self.start.hears(from);
        let Told { sure, term, .. } = *told;
        self.start.answers.insert(from, Answer { sure, term });
        if self.start.phase == Phase::Asking && self.start.is_beyond(&told.mark) {
            self.is_set_back(out);
        }
        self.settle();
    }

    /// Notes that the disk is an older copy of itself: the replica takes no part before it knows
    /// what it may have promised.
    pub(crate) fn is_set_back(&mut self, out: &mut Vec<Action>) {
        if self.start.phase == Phase::Settled {
            self.start.answers.clear();
        }
        self.start.phase = Phase::SetBack;
        self.counts.set_back += 1;
        let write = Write { set_back: true, ..Write::default() };
        self.write_beside(write, out);
    }

    /// Begins to take part when enough is known.
    fn settle(&mut self) {
        match self.start.phase {
            Phase::Asking => {
                let (answered, needed, others) = self.answered();
                let late = self.start.ticks >= self.config.election_ticks;
                if answered < needed || (answered < others && !late) {
                    return;
                }
                self.start.phase = Phase::Settled;
                if std::mem::take(&mut self.start.campaigns) {
                    self.core.campaign();
                }
            }
            Phase::SetBack => {
                let (sure, needed, told) = self.sure();
                if sure < needed {
                    return;
                }
                let term = told.max(self.core.standing().term).max(self.start.ask.term);
                self.start.phase = Phase::Settled;
                let doubt = term.saturating_add(TERMS_UNHEARD);
                assert!(
                    doubt > self.core.standing().term,
                    "what it may have promised is passed over"
                );
                self.core.doubt_from(doubt);
            }
            Phase::Settled => {}
        }
    }

    /// Adds what is known of the others to a write, when that is due.
    pub(crate) fn write_peers(&mut self, write: &mut Write) {
        write.peers = self.start.take_peers(false);
    }

    /// Writes down what is known of the others, when nothing else was to be written for a while.
    pub(crate) fn tick_peers(&mut self, out: &mut Vec<Action>) {
        self.start.forget(self.core.membership());
        let idle = self.start.known != self.start.written && self.writes_waiting() == 0;
        self.start.idle = if idle { self.start.idle.saturating_add(1) } else { 0 };
        if self.start.idle > self.config.election_ticks {
            let peers = self.start.take_peers(true);
            self.write_beside(Write { peers, ..Write::default() }, out);
        }
    }
}
