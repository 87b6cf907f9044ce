//! A replica: consensus, the order of writes, who leads, and digests, behind one surface.

use std::collections::VecDeque;

use journal::SnapshotInfo;
use types::Nanos;

use crate::changes::Changing;
use crate::consensus::POSITION_MAX;
use crate::digests::{Digests, Divergence};
use crate::notice::Notices;
use crate::raft_group::RaftGroup;
use crate::start::Start;
use crate::stop::Stop;
use crate::transfer::{Next, Transfers};
use crate::versions::Versions;
use crate::wire::{self, Body, Mark, Part, UNFIT};
use crate::{
    Config, ConfigError, Entry, Fetch, Install, Kept, Recovered, Refused, ReplicaId, Standing,
    Work, Write,
};

/// Most writes that wait for the disk; beyond it the replica ignores messages.
const WRITES_MAX: usize = 256;

/// A write may take so many times as long as a leader may be silent: disks stop for a while, and go on.
const PATIENCE: u32 = 3;

/// Something that the caller has to do; actions are done in their order.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Send a message; it may get lost.
    Send {
        /// Replica that the message is for.
        to: ReplicaId,
        /// The encoded message, with its envelope.
        bytes: Vec<u8>,
    },
    /// Make something durable, after all earlier writes; answered by
    /// [`Replica::handle_written`].
    Write {
        /// Number of the write, which [`Replica::handle_written`] is called with.
        number: u64,
        /// What has to be made durable, in the order of the fields.
        write: Write,
    },
    /// Read from the journal, after all earlier writes; answered by [`Replica::handle_fetched`].
    Fetch(Fetch),
    /// Read a part of a snapshot, after all earlier writes; answered by
    /// [`Replica::handle_snapshot_read`].
    ReadSnapshot(SnapshotRead),
    /// Take a snapshot of the state soon, and tell by [`Replica::handle_kept`]: another replica
    /// needs one, and there is none of use. Repeated until there is.
    TakeSnapshot,
    /// A snapshot of another replica is durable here: forget the state, and make it of this.
    Restore(Install),
    /// A record is committed and has to be applied. Empty records are not the application's; after
    /// one the membership may have changed ([`Replica::membership`]).
    Apply(Entry),
    /// Everything committed before its time has been applied: it leads, and serves, in this term.
    Lead {
        /// The term, which fences earlier leaders.
        term: u64,
    },
    /// The replica does not lead, or leads no longer.
    Follow {
        /// Newest term that the replica knows.
        term: u64,
        /// Leader of that term; `None`: not known.
        leader: Option<ReplicaId>,
    },
    /// A present or former leader tells something beside the log ([`Replica::notify`]).
    Notice(Vec<u8>),
    /// Most have heard the notices up to this number while it led.
    Confirmed(u64),
    /// Another replica's state differs from that of the majority; that replica stops.
    Differs {
        /// The replica whose state differs.
        who: ReplicaId,
        /// Position at which the digests differ.
        position: u64,
    },
    /// The replica has stopped for good; no action follows.
    Stop(Stop),
}

/// A part of a snapshot that another replica asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotRead {
    /// The replica that wants the part.
    pub to: ReplicaId,
    /// Position that the snapshot stands for.
    pub position: u64,
    /// Digest of the whole snapshot, by which the right one is found.
    pub digest: u64,
    /// Offset of the part in the snapshot, bytes.
    pub offset: u64,
    /// Longest part to be read, bytes.
    pub most: usize,
}

/// Why records were not taken for the log; nothing was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProposeError {
    /// The replica is not the leader, or not ready to serve; perhaps the one given is.
    NotLeading(Option<ReplicaId>),
    /// Too much is on its way: again when some of it is committed.
    Busy,
    /// A record is empty or too long for a message.
    Record,
}

/// What a replica has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of messages that were handled.
    pub messages: u64,
    /// Messages that could not be read or were not for it.
    pub refused: u64,
    /// Number of records that were applied.
    pub applied: u64,
    /// How often the replica began to serve as leader.
    pub terms_led: u64,
    /// Positions at which the digests of most were equal.
    pub compared: u64,
    /// Number of parts of snapshots that were sent.
    pub parts_sent: u64,
    /// Snapshots of others that it began to collect.
    pub transfers: u64,
    /// Of those, given up for another one, or because they were not needed or not whole.
    pub transfers_ended: u64,
    /// Number of received snapshots that were installed.
    pub installed: u64,
    /// Times that its disk was found to be an older copy of itself by what others know.
    pub set_back: u64,
}

/// A replica; see the crate's contract.
pub struct Replica {
    pub(crate) config: Config,
    pub(crate) core: RaftGroup,
    next_tick: Nanos,
    /// Work on its way to the disk: number, whether the write has been done, messages after it.
    pub(crate) writing: VecDeque<Writing>,
    /// The write that was waited for at the last tick, and for how many ticks it has been.
    waited: (u64, u32),
    pub(crate) standing: Standing,
    /// The term in which it serves.
    pub(crate) serving: Option<u64>,
    pub(crate) applied: u64,
    digests: Digests,
    transfers: Transfers,
    pub(crate) versions: Versions,
    pub(crate) changing: Changing,
    pub(crate) notices: Notices,
    pub(crate) start: Start,
    /// Number of the last write that was begun.
    pub(crate) newest_work: u64,
    pub(crate) stopped: Option<Stop>,
    pub(crate) counts: Counts,
}

pub(crate) struct Writing {
    pub(crate) number: u64,
    pub(crate) done: bool,
    after: Vec<(ReplicaId, Vec<u8>)>,
}

impl Replica {
    /// A replica that goes on from what its journal holds, as a follower.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config, recovered: Recovered, now: Nanos) -> Result<Replica, ConfigError> {
        let (applied, own) = (recovered.committed, recovered.snapshot);
        let start = Start::new(&config, &recovered);
        let core = RaftGroup::new(&config, recovered)?;
        Ok(Replica {
            next_tick: config.tick_after(now),
            standing: core.standing(),
            versions: Versions::new(config.newest, config.heartbeat_ticks),
            config,
            core,
            writing: VecDeque::new(),
            waited: (0, 0),
            serving: None,
            applied,
            digests: Digests::default(),
            transfers: Transfers::new(own),
            changing: Changing::default(),
            notices: Notices::default(),
            start,
            newest_work: 0,
            stopped: None,
            counts: Counts::default(),
        })
    }

    /// Handles a message from another replica.
    pub fn handle_message(&mut self, bytes: &[u8], out: &mut Vec<Action>) {
        // With the disk far behind, more to write would only wait: others send it again.
        if self.stopped.is_some() || self.is_far_behind() {
            return;
        }
        let spoken = (self.config.group, self.config.newest);
        let taken = match wire::open(spoken, self.config.id, bytes) {
            Ok((from, version, body)) => self.take(from, version, &body, out),
            Err(error) => Err(Refused::Decode(error)),
        };
        match taken {
            Ok(()) => self.counts.messages += 1,
            Err(Refused::Decode(_)) => self.counts.refused += 1,
            Err(Refused::LogLost { .. }) => self.is_set_back(out),
            Err(Refused::Overruled { position }) => self.stop(Stop::Overruled { position }, out),
        }
        self.go_on(out);
    }

    fn take(
        &mut self,
        from: ReplicaId,
        version: u8,
        body: &Body<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), Refused> {
        if let Body::Removed { number } = *body {
            // Numbers are never used again, so it stays so. It does not stop by itself when it has
            // applied that: those who have not may need its vote.
            self.stop(Stop::Removed { number }, out);
            return Ok(());
        }
        if self.core.membership().is_removed(from) {
            self.answer_removed(from, out);
            return Ok(());
        }
        match *body {
            Body::Hello(spoken) => self.versions.told(from, spoken),
            // They are of one version whatever their sender speaks.
            Body::Ask(_) | Body::Told { .. } => {}
            _ => self.versions.heard(from, version),
        }
        if !self.start.is_settled() && !matches!(body, Body::Ask(_) | Body::Told { .. }) {
            self.start.hears(from);
            return Ok(());
        }
        match *body {
            Body::Consensus(body) => {
                let taken = self.core.receive(from, body);
                if let Some((term, position)) = wire::said(body).filter(|_| taken.is_ok()) {
                    self.start.note(from, Mark { lives: 0, term, position });
                }
                return taken;
            }
            Body::Digest { position, digest } => self.compare(from, position, digest, out),
            Body::Offer { term, info, group } => {
                self.take_offer(from, term, (&info, group), out);
            }
            Body::Want { part } => self.take_want(from, &part, out),
            Body::Bytes { part, bytes } => {
                let next = self.transfers.take(&part, bytes);
                self.go_on_collecting(next, out);
            }
            Body::Notice { .. } | Body::Noticed { .. } => self.take_beside(from, body, out),
            Body::Ask(ask) => self.take_ask(from, ask, out),
            Body::Told { ref told, group } => self.take_told(from, told, group, out),
            Body::Hello(_) | Body::Removed { .. } => {}
        }
        Ok(())
    }

    /// A timer is due, or the caller is early.
    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if self.stopped.is_some() || now < self.next_tick {
            return;
        }
        // One tick, however late: what was slept through is not made up for.
        self.next_tick = self.config.tick_after(now);
        if self.disk_hangs() {
            // Nobody hears of this replica, so another will lead.
            return;
        }
        match self.start.is_settled() {
            true => self.core.tick(),
            false => self.tick_start(out),
        }
        self.tick_peers(out);
        self.changing.tick(self.config.election_ticks, self.core.committed());
        if self.versions.tick() {
            let hello = Body::Hello(self.versions.own());
            let own = self.config.id;
            self.core.membership().others(own).for_each(|to| self.tell(to, &hello, out));
        }
        self.remind_removed(out);
        self.confirm_change();
        if self.transfers.wanted_info().is_some_and(|info| self.core.holds(&info)) {
            // The log came instead.
            self.counts.transfers_ended += u64::from(self.transfers.give_up());
        }
        if let Some(part) = self.transfers.tick(self.config.sending_ticks) {
            self.ask(part, out);
        }
        self.go_on(out);
    }

    /// The journal keeps this now: a snapshot was taken, or what one stands for was given up.
    pub fn handle_kept(&mut self, kept: &Kept, out: &mut Vec<Action>) {
        if self.stopped.is_some() {
            return;
        }
        self.transfers.set_own(kept.snapshot);
        self.core.begins_behind(kept.before.0, kept.before.1);
        self.go_on(out);
    }

    /// Takes the part of a snapshot that was to be read; `None`: reading failed, and the snapshot
    /// is offered no more.
    pub fn handle_snapshot_read(
        &mut self,
        wanted: &SnapshotRead,
        bytes: &[u8],
        out: &mut Vec<Action>,
    ) {
        let SnapshotRead { to, position, digest, offset, .. } = *wanted;
        if self.stopped.is_some() {
            return;
        }
        if bytes.is_empty() {
            self.transfers.wanted(to, &Part { position, digest, offset: UNFIT });
            return;
        }
        self.counts.parts_sent += 1;
        let part = Part { position, digest, offset };
        let bytes = bytes.get(..bytes.len().min(wire::PART_MAX)).unwrap_or(&[]);
        self.tell(to, &Body::Bytes { part, bytes }, out);
    }

    /// Whether another replica is receiving this one's snapshot; until it has, that snapshot and
    /// the log behind it should be kept.
    pub fn is_sending(&self) -> bool {
        self.transfers.is_sending()
    }

    /// Position of the snapshot that comes from another replica, and how many bytes of it are there.
    pub fn collecting(&self) -> Option<(u64, u64)> {
        self.transfers.collecting()
    }

    /// Whether too much waits for the disk.
    pub(crate) fn is_far_behind(&self) -> bool {
        self.writing.len() >= WRITES_MAX
    }

    /// Whether too much waits for the disk, or the first of it for too long.
    fn disk_hangs(&mut self) -> bool {
        let first = self.writing.front().map_or(0, |writing| writing.number);
        self.waited = match self.waited {
            (number, ticks) if number == first && first != 0 => (first, ticks.saturating_add(1)),
            _ => (first, 0),
        };
        self.is_far_behind() || self.waited.1 >= PATIENCE * self.config.election_ticks
    }

    /// Next time at which [`Replica::handle_timeout`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        if self.stopped.is_some() { Nanos::NEVER } else { self.next_tick }
    }

    /// Takes records to be replicated, all or none, in order; they are applied when they are
    /// committed, or never if this leader is deposed before.
    ///
    /// # Errors
    /// [`ProposeError`], with nothing changed.
    pub fn propose<'a>(
        &mut self,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<Action>,
    ) -> Result<(), ProposeError> {
        if self.stopped.is_some() || self.serving.is_none() {
            return Err(ProposeError::NotLeading(self.standing.leader));
        }
        let fits =
            |record: &[u8]| !record.is_empty() && record.len() as u64 <= self.config.message_bytes;
        if !records.clone().all(fits) {
            return Err(ProposeError::Record);
        }
        if self.is_far_behind() || !self.core.propose(records) {
            return Err(ProposeError::Busy);
        }
        self.go_on(out);
        Ok(())
    }

    /// A write is durable, and so are all before it.
    pub fn handle_written(&mut self, number: u64, out: &mut Vec<Action>) {
        if self.stopped.is_some() {
            return;
        }
        for writing in self.writing.iter_mut().take_while(|writing| writing.number <= number) {
            writing.done = true;
        }
        self.finish_writes(out);
        self.go_on(out);
    }

    /// Handles entries that were read from the journal; none when reading failed.
    pub fn handle_fetched(&mut self, number: u64, entries: Vec<Entry>, out: &mut Vec<Action>) {
        if self.stopped.is_none() {
            self.core.fetched(number, entries);
            self.go_on(out);
        }
    }

    /// The digest of the state after a position that is a multiple of [`Config::digest_every`].
    pub fn tell_digest(&mut self, position: u64, digest: u64, out: &mut Vec<Action>) {
        if self.stopped.is_some() {
            return;
        }
        let body = Body::Digest { position, digest };
        let own = self.config.id;
        self.core.membership().others(own).for_each(|to| self.tell(to, &body, out));
        self.compare(self.config.id, position, digest, out);
    }

    /// Whether the digest is wanted at a position.
    pub fn wants_digest(&self, position: u64) -> bool {
        self.config.digest_every > 0 && position.is_multiple_of(self.config.digest_every)
    }

    /// Asks for votes at once: for tests, and for handing over before a stop.
    pub fn campaign(&mut self, out: &mut Vec<Action>) {
        if self.stopped.is_none() {
            match self.start.is_settled() {
                true => self.core.campaign(),
                false => self.start.campaigns = true,
            }
            self.go_on(out);
        }
    }

    /// Newest term, its leader, and whether this replica leads.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The term in which it leads and serves.
    pub fn serving(&self) -> Option<u64> {
        self.serving
    }

    /// Last position that was given out to be applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Everything up to here is committed; what is beyond [`Replica::applied`] is not durable here.
    pub fn committed(&self) -> u64 {
        self.core.committed()
    }

    /// The position before the first that its log holds: what is up to there is in a snapshot.
    pub fn before(&self) -> u64 {
        self.core.before()
    }

    /// The last position appended here, durable or not, committed or not.
    pub fn last(&self) -> u64 {
        self.core.last()
    }

    /// Last term in which the replica may have acknowledged what its disk has lost; it gives no
    /// vote before it has a record of a later term. 0: none.
    pub fn doubt(&self) -> u64 {
        self.core.doubt()
    }

    /// Newest message version that all members heard lately speak; [`crate::OLDEST`] while these
    /// are no majority. A leader hears all that run.
    pub fn agreed_version(&self) -> u8 {
        let members = self.core.membership();
        self.versions.agreed(members.others(self.config.id), members.quorum())
    }

    /// Writes that have not been done.
    pub fn writes_waiting(&self) -> usize {
        self.writing.len()
    }

    /// Why the replica stopped; `None`: it runs.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// What has been counted since the start.
    pub fn counts(&self) -> Counts {
        Counts { compared: self.digests.compared(), ..self.counts }
    }

    /// Settings that it was started with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Does whatever there is to do.
    pub(crate) fn go_on(&mut self, out: &mut Vec<Action>) {
        while self.stopped.is_none() {
            let Some(work) = self.core.work() else { break };
            self.take_work(work, out);
        }
        if self.stopped.is_none() {
            self.look_around(out);
        }
    }

    fn take_work(&mut self, work: Work, out: &mut Vec<Action>) {
        self.assert_follows(&work);
        let Work { number, sends, write, after, restore, committed, fetch, behind } = work;
        self.send(sends, out);
        let done = write.is_none();
        self.newest_work = number;
        if let Some(mut write) = write {
            self.write_peers(&mut write);
            out.push(Action::Write { number, write });
        }
        self.writing.push_back(Writing { number, done, after });
        self.finish_writes(out);
        if let Some(install) = restore {
            self.applied = install.info.position;
            self.counts.installed += 1;
            // The journal keeps nothing else now.
            self.transfers.set_own(Some(install.info));
            out.push(Action::Restore(install));
        }
        for entry in committed {
            self.applied = entry.position;
            self.counts.applied += 1;
            out.push(Action::Apply(entry));
        }
        self.assert_applied();
        out.extend(fetch.into_iter().map(Action::Fetch));
        self.offer(&behind, out);
    }

    /// Writes what is no work of the consensus, after all that is.
    pub(crate) fn write_beside(&mut self, write: Write, out: &mut Vec<Action>) {
        out.push(Action::Write { number: self.newest_work, write });
    }

    /// Offers the newest snapshot to those who lack what the log does not hold any more.
    fn offer(&mut self, behind: &[ReplicaId], out: &mut Vec<Action>) {
        let Some(info) = self.transfers.own() else {
            if !behind.is_empty() && self.transfers.wants_one(self.config.sending_ticks) {
                out.push(Action::TakeSnapshot);
            }
            return;
        };
        let term = self.core.standing().term;
        for to in behind {
            let group = self.core.group_at(info.position);
            self.tell(*to, &Body::Offer { term, info, group }, out);
        }
    }

    /// A snapshot is offered: by the leader, or by one that was it.
    fn take_offer(
        &mut self,
        from: ReplicaId,
        term: u64,
        (info, group): (&SnapshotInfo, &[u8]),
        out: &mut Vec<Action>,
    ) {
        let standing = self.core.standing();
        let leads = standing.leader == Some(from) && standing.term == term && !standing.leading;
        let known = (1..POSITION_MAX).contains(&info.position) && info.term <= term;
        let fits = known && info.bytes <= self.config.snapshot_bytes;
        if !leads || !fits || self.core.is_installing() {
            return;
        }
        if self.core.holds(info) {
            self.counts.transfers_ended += u64::from(self.transfers.give_up());
            self.core.install(info, None);
            return;
        }
        let (next, instead) = self.transfers.offered(info, group);
        self.counts.transfers += u64::from(next != Next::Nothing);
        self.counts.transfers_ended += u64::from(instead);
        self.go_on_collecting(next, out);
    }

    fn take_want(&mut self, from: ReplicaId, part: &Part, out: &mut Vec<Action>) {
        let Some(own) = self.transfers.wanted(from, part) else { return };
        let SnapshotInfo { position, digest, .. } = own;
        let most = self.config.part_bytes as usize;
        let read = SnapshotRead { to: from, position, digest, offset: part.offset, most };
        out.push(Action::ReadSnapshot(read));
    }

    fn go_on_collecting(&mut self, next: Next, out: &mut Vec<Action>) {
        match next {
            Next::Nothing => {}
            Next::Ask(part) => {
                self.counts.transfers_ended += u64::from(part.offset == UNFIT);
                self.ask(part, out);
            }
            // Whoever leads now: what it stands for is committed. Without a leader it is offered
            // again by the next one.
            Next::Whole(install) => {
                let info = install.info;
                let taken = self.core.install(&info, Some(install));
                self.counts.transfers_ended += u64::from(!taken);
            }
        }
    }

    /// Asks the leader for a part of its snapshot.
    fn ask(&mut self, part: Part, out: &mut Vec<Action>) {
        let standing = self.core.standing();
        if let Some(to) = standing.leader.filter(|_| !standing.leading) {
            self.tell(to, &Body::Want { part }, out);
        }
    }

    pub(crate) fn tell(&self, to: ReplicaId, body: &Body<'_>, out: &mut Vec<Action>) {
        let spoken = (self.config.group, self.versions.with(to));
        let bytes = wire::seal(spoken, self.config.id, to, body);
        out.push(Action::Send { to, bytes });
    }

    /// Lets go what waited for the writes that are done, in order.
    fn finish_writes(&mut self, out: &mut Vec<Action>) {
        let mut newest = None;
        while self.writing.front().is_some_and(|writing| writing.done) {
            let Some(Writing { number, after, .. }) = self.writing.pop_front() else { break };
            newest = Some(number);
            self.send(after, out);
        }
        if let Some(number) = newest {
            self.core.written(number);
        }
    }

    fn send(&self, messages: Vec<(ReplicaId, Vec<u8>)>, out: &mut Vec<Action>) {
        for (to, body) in messages {
            self.tell(to, &Body::Consensus(&body), out);
        }
    }

    /// Says when it begins or ends to lead.
    fn look_around(&mut self, out: &mut Vec<Action>) {
        let standing = self.core.standing();
        let changed = standing != self.standing;
        let before = std::mem::replace(&mut self.standing, standing);
        if !standing.leading || self.serving.is_some_and(|term| term != standing.term) {
            let served = self.serving.take().is_some();
            if changed || served {
                out.push(Action::Follow { term: standing.term, leader: standing.leader });
            }
        }
        if standing.leading && self.serving.is_none() && self.core.may_serve(self.applied) {
            self.serving = Some(standing.term);
            self.counts.terms_led += 1;
            out.push(Action::Lead { term: standing.term });
        }
        self.assert_stands(&before);
    }

    fn compare(&mut self, who: ReplicaId, position: u64, digest: u64, out: &mut Vec<Action>) {
        let members = self.core.membership();
        if members.get(who).is_none() {
            return;
        }
        for Divergence { who, position } in self.digests.take(who, position, digest, members) {
            if who == self.config.id {
                self.stop(Stop::Diverged { position }, out);
            } else {
                out.push(Action::Differs { who, position });
            }
        }
    }

    pub(crate) fn stop(&mut self, why: Stop, out: &mut Vec<Action>) {
        if self.stopped.is_none() {
            self.stopped = Some(why);
            self.serving = None;
            out.push(Action::Stop(why));
        }
    }
}
