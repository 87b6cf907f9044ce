//! A root with its replica: what the group has committed goes into the root, what the root wants
//! logged goes to the group.
//!
//! As a node it is the root's place in the overlay. It listens there and speaks only while it leads
//! (but answers requests of anybody for messages of the feed that the leader has told to be
//! released: a leader tells its followers so every [`RELEASES_NS`] at most). What the replica wants
//! done outside (messages to others, writes, reads) waits to be taken after each call
//! ([`Member::take_actions`]) by whoever made it, who tells it what came of that by [`Member::handle_message`], [`Member::handle_written`], [`Member::handle_fetched`],
//! [`Member::handle_kept`] and [`Member::handle_snapshot_read`]. Whoever made it also takes
//! snapshots ([`crate::compact`]), from the journal, when the member asks for one: every so many
//! positions, and when another replica needs one.
//!
//! Where datagrams are sealed, each time that one leads is a life of its own: nodes that have met
//! it take nothing more of an earlier one.

use std::collections::VecDeque;

use journal::{Journal, JournalError, Storage};
use overlay::{key_ring::KeyRing, lives::Life};
use replication::{
    Action, Change, Entry, EntryData, Install, Kept, Recovered, Refusal, Replica, ReplicaId,
    SnapshotRead,
};
use types::{Channel, ClockReading, FeedSeq, Input, Nanos, Node, Outbox, Peer};
use zerocopy::TryFromBytes;

use crate::input_snapshot::InputSnapshot;
use crate::{LogGap, NewLink, Role, Root, Sealed};

mod checkpoint;

pub use checkpoint::Keep;

/// Records given to the group at once; a batch fits into what may be uncommitted.
const BATCH: usize = 1_024;

const _: () = assert!(BATCH > 0 && WRITES_AHEAD > 0, "what waits gets on");
const _: () = assert!(RELEASES_NS <= RELEASES_AGAIN_NS, "news are told sooner");
/// Writes of a leader that may wait for its disk: what comes meanwhile goes to the group at once,
/// and travels, is written and acknowledged as one.
const WRITES_AHEAD: usize = 1;

/// A leader tells its followers of release times so long after the last time, if there are new
/// ones.
pub const RELEASES_NS: u64 = 2 * Nanos::MILLI;
/// And so long if there are none: somebody may have come back.
const RELEASES_AGAIN_NS: u64 = 100 * Nanos::MILLI;

/// Notices that may wait to be heard.
const UNHEARD_MAX: usize = 64;

/// Why no member can be made.
#[derive(Debug)]
pub enum MemberError {
    /// The journal can't be read.
    Journal(JournalError),
    /// It is of another exchange.
    Genesis,
    /// What it holds does not follow from one another.
    Log(LogGap),
    /// A snapshot is none of a root, or of another version.
    Snapshot,
    /// The cipher of sealed datagrams can't be set up.
    Cipher,
    /// The group's configuration.
    Config(replication::ConfigError),
}

impl std::fmt::Display for MemberError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MemberError::Journal(error) => error.fmt(f),
            MemberError::Genesis => f.write_str(
                "its records are of another exchange, session or configuration: go on with that, \
                 or name an empty folder",
            ),
            MemberError::Log(error) => error.fmt(f),
            MemberError::Snapshot => f.write_str(
                "its snapshot is none of a root's inputs, or was written by another version: use \
                 that one",
            ),
            MemberError::Cipher => f.write_str("the cipher of sealed datagrams is not there"),
            MemberError::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for MemberError {}

/// The root's state as the group's records make it.
struct State {
    role: Role,
    /// The group's first record.
    genesis: Vec<u8>,
    /// It is in the log.
    begun: bool,
    /// Inputs committed.
    inputs: u64,
    nobody: Outbox,
}

impl State {
    fn take(&mut self, now: ClockReading, record: &[u8]) -> Result<(), MemberError> {
        if record.is_empty() {
            return Ok(());
        }
        if !self.begun {
            self.begun = record == self.genesis;
            return if self.begun { Ok(()) } else { Err(MemberError::Genesis) };
        }
        // A leader that did not know yet that one before it had begun.
        if record == self.genesis {
            return Ok(());
        }
        let input = Input::try_read_from_bytes(record).map_err(|_| MemberError::Genesis)?;
        self.commit(now, &input)
    }

    /// Takes what a snapshot holds beyond what was taken before.
    fn load(&mut self, now: ClockReading, bytes: &[u8]) -> Result<(), MemberError> {
        let compact = InputSnapshot::read(bytes).ok_or(MemberError::Snapshot)?;
        if compact.genesis != self.genesis {
            return Err(MemberError::Genesis);
        }
        self.begun = true;
        for input in compact.after(self.inputs) {
            self.commit(now, &input.ok_or(MemberError::Snapshot)?)?;
        }
        Ok(())
    }

    fn commit(&mut self, now: ClockReading, input: &Input) -> Result<(), MemberError> {
        let nobody = &mut self.nobody;
        nobody.clear();
        let taken = self.role.with_root(nobody, |root, out| root.commit(now, input, out));
        match taken {
            Some(Err(gap)) => Err(MemberError::Log(gap)),
            _ => {
                self.inputs = input.seq.0;
                Ok(())
            }
        }
    }
}

/// What a leader has told of release times.
#[derive(Default)]
struct Releases {
    /// The root's datagrams then; nothing while there is something else that is new.
    told: Option<u64>,
    /// What it had sent when it told, by the number of the notice, until most have heard it.
    sent: VecDeque<(u64, Vec<FeedSeq>)>,
    /// When it is time to tell more, new or not.
    due: [Nanos; 2],
    bytes: Vec<u8>,
}

/// A root and its replica; see the module.
pub struct Member {
    state: State,
    replica: Replica,
    new_link: Option<NewLink>,
    /// What its host is to do.
    outside: Vec<Action>,
    actions: VecDeque<Action>,
    scratch: Vec<Action>,
    /// Records that the group has not been given yet, in order.
    waiting: VecDeque<EntryData>,
    /// A snapshot is asked for after so many positions; 0: never. And the position at which one was
    /// asked for, or installed, last.
    snapshot_every: u64,
    snapshot_at: u64,
    /// The term in which it leads, and the last in which it did.
    leading: Option<u64>,
    led: u64,
    /// Why it takes part in nothing any more.
    stopped: Option<String>,
    keeping: Option<checkpoint::Keeping>,
    releases: Releases,
    /// The position at which the root was written down last.
    kept_at: u64,
}

impl Member {
    /// A member that goes on from its journal, as a follower. `genesis` says what exchange it is,
    /// and is the group's first record; not as long as an input.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn open<S: Storage>(
        root: Box<Root>,
        config: replication::Config,
        genesis: Vec<u8>,
        journal: &mut Journal<S>,
        parts: (ClockReading, Option<NewLink>),
    ) -> Result<Member, MemberError> {
        Member::open_behind(0, root, config, genesis, journal, parts)
    }

    /// The same with a root that was made of a checkpoint at a position, which fits the journal
    /// ([`crate::Checkpoint::fits`]), or at 0 with a new one.
    ///
    /// # Errors
    /// [`MemberError`].
    pub fn open_behind<S: Storage>(
        position: u64,
        mut root: Box<Root>,
        config: replication::Config,
        genesis: Vec<u8>,
        journal: &mut Journal<S>,
        (now, new_link): (ClockReading, Option<NewLink>),
    ) -> Result<Member, MemberError> {
        let inputs = root.engine().applied();
        root.join_group();
        let role = match new_link.as_ref().map(|new_link| new_link.link(now.now)) {
            Some(Some(link)) => Role::Sealed(Box::new(Sealed::new(Role::Root(root), link))),
            Some(None) => return Err(MemberError::Cipher),
            None => Role::Root(root),
        };
        let nobody = Outbox::default();
        let mut state = State { role, genesis, begun: position > 0, inputs, nobody };
        let newest = replication::kept(journal).snapshot;
        let snapshot_at = newest.map_or(0, |info| info.position);
        if snapshot_at > position {
            let bytes = journal.read_snapshot(snapshot_at).map_err(MemberError::Journal)?;
            state.load(now, &bytes)?;
        }
        let mut taken = Ok(());
        let held = position.max(snapshot_at);
        let recovered: Recovered = replication::recover_after(journal, position, |record| {
            if taken.is_ok() && record.position > held {
                taken = state.take(now, record.bytes);
            }
        })
        .map_err(MemberError::Journal)?;
        taken?;
        let replica = Replica::new(config, recovered, now.now).map_err(MemberError::Config)?;
        Ok(Member {
            state,
            replica,
            new_link,
            outside: Vec::new(),
            actions: VecDeque::new(),
            scratch: Vec::new(),
            waiting: VecDeque::new(),
            snapshot_every: 0,
            snapshot_at,
            leading: None,
            led: 0,
            stopped: None,
            keeping: None,
            releases: Releases::default(),
            kept_at: position,
        })
    }

    /// From now on it asks for a snapshot after so many positions, and not before the log has grown
    /// by a quarter since the last one, each of which holds all inputs; 0: only when another
    /// replica needs one.
    pub fn take_snapshots_every(&mut self, positions: u64) {
        self.snapshot_every = positions;
    }

    /// The root, behind its link if it has one.
    pub fn role(&self) -> &Role {
        &self.state.role
    }

    /// The replica.
    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// The term in which it leads.
    pub fn leading(&self) -> Option<u64> {
        self.leading
    }

    /// What its host is to do, in order: every [`Action`] but [`Action::Apply`],
    /// [`Action::Restore`], [`Action::Notice`] and [`Action::Confirmed`], which are its own. To be
    /// taken after each call, before anything else is told to it.
    pub fn take_actions(&mut self) -> std::vec::Drain<'_, Action> {
        self.outside.drain(..)
    }

    /// Why it takes part in nothing any more.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// A message of another replica.
    pub fn handle_message(&mut self, now: ClockReading, bytes: &[u8], out: &mut Outbox) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.handle_message(bytes, &mut self.scratch);
        self.go_on(now, out);
    }

    /// A write is durable, and so are all before it.
    pub fn handle_written(&mut self, now: ClockReading, number: u64, out: &mut Outbox) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.handle_written(number, &mut self.scratch);
        self.go_on(now, out);
    }

    /// What was to be read; nothing when that failed.
    pub fn handle_fetched(
        &mut self,
        now: ClockReading,
        (number, entries): (u64, Vec<Entry>),
        out: &mut Outbox,
    ) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.handle_fetched(number, entries, &mut self.scratch);
        self.go_on(now, out);
    }

    /// The journal keeps this now.
    pub fn handle_kept(&mut self, now: ClockReading, kept: &Kept, out: &mut Outbox) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.handle_kept(kept, &mut self.scratch);
        self.go_on(now, out);
    }

    /// What was to be read of a snapshot; nothing when that failed.
    pub fn handle_snapshot_read(
        &mut self,
        now: ClockReading,
        (wanted, bytes): (&SnapshotRead, &[u8]),
        out: &mut Outbox,
    ) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.handle_snapshot_read(wanted, bytes, &mut self.scratch);
        self.go_on(now, out);
    }

    /// Asks for votes at once: for handing over, and for tests.
    pub fn campaign(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.campaign(&mut self.scratch);
        self.go_on(now, out);
    }

    /// Changes who is in the group, if it leads; see [`Replica::change`].
    ///
    /// # Errors
    /// [`Refusal`], with nothing changed.
    pub fn change(
        &mut self,
        now: ClockReading,
        change: &Change,
        out: &mut Outbox,
    ) -> Result<u64, Refusal> {
        if self.stopped.is_some() {
            return Err(Refusal::NotLeading(None));
        }
        let taken = self.replica.change(change, &mut self.scratch);
        self.go_on(now, out);
        taken
    }

    /// Has another replica lead, if this one does; see [`Replica::hand_over`].
    ///
    /// # Errors
    /// [`Refusal`], with nothing changed.
    pub fn hand_over(
        &mut self,
        now: ClockReading,
        to: ReplicaId,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if self.stopped.is_some() {
            return Err(Refusal::NotLeading(None));
        }
        let taken = self.replica.hand_over(to, &mut self.scratch);
        self.go_on(now, out);
        taken
    }

    /// Begins a key epoch under `ring`, the root's own of another secret: its link is rekeyed with
    /// `life`, never lived before, and those of the next times that it leads are of this ring. For a
    /// while these know the former ring, too, since others may have no newer one. `false`, and
    /// nothing has changed, where datagrams are in clear, the ring is another node's, or ring or life
    /// are in use.
    pub fn rekey(&mut self, now: ClockReading, ring: KeyRing, life: Life) -> bool {
        let Some(new_link) = self.new_link.as_mut().filter(|of| of.node() == ring.node()) else {
            return false;
        };
        let done = self.state.role.rekey(now, ring.clone(), life);
        if done {
            new_link.rekey(now.now, ring);
        }
        done
    }

    /// Calls the root; what it wants logged goes to the group with the next timeout. Nobody hears
    /// what a root says that does not lead.
    pub(crate) fn with_root<T>(
        &mut self,
        out: &mut Outbox,
        call: impl FnOnce(&mut Root, &mut Outbox) -> T,
    ) -> Option<T> {
        if !self.speaks() {
            return self.state.role.with_root(&mut Outbox::default(), call);
        }
        let result = self.state.role.with_root(out, call);
        self.collect(out);
        result
    }

    /// Does whatever there is to do.
    fn go_on(&mut self, now: ClockReading, out: &mut Outbox) {
        loop {
            self.collect(out);
            self.offer();
            self.actions.extend(self.scratch.drain(..));
            let committed = self.act(now, out);
            if committed && self.leading.is_some() {
                self.state.role.handle_durable(now, self.state.inputs, out);
            }
            if self.scratch.is_empty() && self.actions.is_empty() && out.journaled().is_empty() {
                return;
            }
        }
    }

    /// When a leader has to tell its followers of release times.
    fn releases_due(&self) -> Nanos {
        let sent = self.state.role.as_root().map(Root::datagrams);
        self.releases.due[usize::from(sent == self.releases.told)]
    }

    /// Tells them, if it is time.
    fn tell_releases(&mut self, now: Nanos) {
        if now < self.releases_due() {
            return;
        }
        let Some(root) = self.state.role.as_root() else { return };
        let Releases { told, sent, due, bytes } = &mut self.releases;
        bytes.clear();
        root.write_releases(now, bytes);
        *told = Some(root.datagrams());
        *due = [now + RELEASES_NS, now + RELEASES_AGAIN_NS];
        let number = self.replica.notify(bytes, &mut self.scratch);
        if sent.len() >= UNHEARD_MAX {
            sent.pop_front();
        }
        sent.push_back((number, root.sent()));
        assert!(sent.len() <= UNHEARD_MAX);
    }

    /// Most have heard what was told up to this notice: the root led when it had sent that.
    fn confirm_releases(&mut self, number: u64) {
        let mut heard = None;
        while self.releases.sent.front().is_some_and(|(of, _)| *of <= number) {
            heard = self.releases.sent.pop_front();
        }
        let Some((_, ends)) = heard else { return };
        let confirm = |root: &mut Root, _: &mut Outbox| root.confirm_sent(&ends);
        if self.state.role.with_root(&mut self.state.nobody, confirm) == Some(true) {
            self.releases.told = None;
        }
    }

    /// Takes what the root wants logged.
    fn collect(&mut self, out: &mut Outbox) {
        if !out.journaled().is_empty() {
            assert!(out.journaled().len().is_multiple_of(size_of::<Input>()), "whole inputs");
            let records = out.journaled().chunks(size_of::<Input>());
            self.waiting.extend(records.map(EntryData::from));
            out.clear_journaled();
        }
        if self.leading.is_none() {
            self.waiting.clear();
        }
    }

    /// Gives the group what waits, as far as it takes it.
    fn offer(&mut self) {
        while !self.waiting.is_empty() && self.replica.writes_waiting() < WRITES_AHEAD {
            let given = self.waiting.len().min(BATCH);
            let batch = self.waiting.iter().take(given).map(|record| &**record);
            if self.replica.propose(batch, &mut self.scratch).is_err() {
                return;
            }
            assert!(given > 0 && given <= self.waiting.len(), "what was given was waiting");
            self.waiting.drain(..given);
        }
    }

    /// Does what the replica wants; whether anything was committed.
    fn act(&mut self, now: ClockReading, out: &mut Outbox) -> bool {
        let mut committed = false;
        while let Some(action) = self.actions.pop_front() {
            match action {
                Action::Apply(entry) => {
                    committed |= self.apply(now, &entry, out);
                    self.ask_for_snapshot(entry.position);
                    self.keep_checkpoint(now, entry.position, out);
                }
                Action::Restore(install) => self.restore(now, &install, out),
                Action::Lead { term } => {
                    self.lead(now, term, out);
                    self.outside.push(action);
                }
                Action::Follow { .. } => {
                    self.follow(now, out);
                    self.outside.push(action);
                }
                Action::Notice(ref bytes) => {
                    let learn = |root: &mut Root, _: &mut Outbox| root.learn_releases(now, bytes);
                    let _ = self.state.role.with_root(&mut self.state.nobody, learn);
                }
                Action::Confirmed(number) => self.confirm_releases(number),
                Action::Stop(ref why) => {
                    let why = why.to_string();
                    self.stop(why, out);
                    self.outside.push(action);
                }
                other => self.outside.push(other),
            }
        }
        committed
    }

    /// Applies a committed record; false once it is done with.
    fn apply(&mut self, now: ClockReading, entry: &Entry, out: &mut Outbox) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        if let Err(error) = self.state.take(now, &entry.record) {
            self.stop(format!("position {}: {error}", entry.position), out);
            return false;
        }
        if !self.replica.wants_digest(entry.position) {
            return true;
        }
        if self.leading.is_some() {
            self.state.role.handle_durable(now, self.state.inputs, out);
        }
        let digest = self.state.role.as_root().map_or(0, Root::state_digest);
        self.replica.tell_digest(entry.position, digest, &mut self.scratch);
        false
    }

    /// Asks for a snapshot when it is time for one, and nobody is getting the last.
    fn ask_for_snapshot(&mut self, position: u64) {
        let since = position.saturating_sub(self.snapshot_at);
        let due = since >= self.snapshot_every.max(self.snapshot_at / 4);
        if self.snapshot_every > 0 && due && !self.replica.is_sending() {
            self.snapshot_at = position;
            self.outside.push(Action::TakeSnapshot);
        }
    }

    /// Takes the inputs that it lacks from another replica's snapshot.
    fn restore(&mut self, now: ClockReading, install: &Install, out: &mut Outbox) {
        let position = install.info.position;
        self.snapshot_at = position;
        if let Err(error) = self.state.load(now, &install.bytes) {
            self.stop(format!("the snapshot at position {position}: {error}"), out);
        }
    }

    fn lead(&mut self, now: ClockReading, term: u64, out: &mut Outbox) {
        self.follow(now, out);
        if let Some(new_link) = &self.new_link {
            let Some(link) = new_link.link(now.now) else {
                self.stop("no cipher for sealed datagrams".to_string(), out);
                return;
            };
            if let Role::Sealed(sealed) = &mut self.state.role {
                sealed.renew(now, link);
            }
        }
        assert!(term > self.led, "no two times that it leads are of one term");
        (self.leading, self.led) = (Some(term), term);
        self.releases = Releases::default();
        if !self.state.begun {
            self.waiting.push_back(self.state.genesis.as_slice().into());
        }
        self.state.role.with_root(out, |root, out| root.lead(now, term, out));
    }

    fn follow(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.leading.take().is_none() {
            return;
        }
        let mut unheard = Outbox::default();
        // What was committed in the same step is not to be taken back with the rest.
        self.state.role.handle_durable(now, self.state.inputs, &mut unheard);
        unheard.clear();
        out.clear_journaled();
        self.waiting.clear();
        if let Some(Err(error)) = self.state.role.with_root(&mut unheard, |root, _| root.follow()) {
            self.stop(error.to_string(), out);
        }
        assert!(self.leading.is_none() && self.waiting.is_empty(), "nothing of its own is left");
    }

    fn stop(&mut self, why: String, out: &mut Outbox) {
        self.stopped.get_or_insert(why);
        self.leading = None;
        self.waiting.clear();
        out.clear_journaled();
    }

    fn speaks(&self) -> bool {
        self.leading.is_some() && self.stopped.is_none()
    }
}

impl Node for Member {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        if self.speaks() || (channel == Channel::FEED && self.stopped.is_none()) {
            self.state.role.handle_datagram(now, channel, from, bytes, out);
            self.go_on(now, out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.stopped.is_some() {
            return;
        }
        self.replica.handle_timeout(now.now, &mut self.scratch);
        if self.speaks() {
            self.state.role.handle_timeout(now, out);
            self.tell_releases(now.now);
        }
        self.go_on(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        if self.stopped.is_some() {
            return Nanos::NEVER;
        }
        // Records wait for room in the group, but for those that were put there from outside.
        let root = match self.speaks() {
            true => self.state.role.next_timeout().min(self.releases_due()),
            false => Nanos::NEVER,
        };
        self.replica.next_timeout().min(root)
    }

    fn expect_more(&mut self) {
        // Nobody tells one that does not speak when the batch is over.
        if self.speaks() {
            self.state.role.expect_more();
        }
    }

    fn handle_batch(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.speaks() {
            self.state.role.handle_batch(now, out);
            self.go_on(now, out);
        }
    }
}
