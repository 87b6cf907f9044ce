//! The root's dealings with the roots of a venue's other shards: parts of limits, how far private
//! streams are, operators' commands for all.
//!
//! What is told are totals that only rise, as this shard's log has them when they are durable: a
//! datagram that is lost, doubled or late changes nothing, and what was not confirmed is told again. So
//! there is nothing to set up between two roots and nothing to remember; whoever leads next begins by
//! telling everything. Nothing here delays an order.
//!
//! Datagram, little-endian: version u8, kind u8, sender u16, commands for all that the sender has
//! carried out u32, and by kind: notes of limits ([`AllotNote`]); accounts (u16, six zeros) each with a
//! position u64; one command, or outcomes of some (module `directives`); nothing; parts of an instrument
//! that moves (module `moves`). Where the venue has a secret a tag of 32 bytes ends it.

use engine::{AllotNote, AllotSteps, Allotter, Engine, log::Draft};
use overlay::aes_gcm::KeySource;
use overlay::private_sender::PrivateStreams;
use types::{
    AccountId, AllotRecord, Channel, ClockReading, Command, CommandKind, MergeRecord, Nanos,
    NodeId, Outbox, Peer, ShardId, Source,
};

use super::Root;
use super::directives::DirectiveOutcomes;
use super::moves::Moves;
use crate::config::ExchangeConfig;

const VERSION: u8 = 1;
pub(super) const HEADER: usize = 8;
pub(super) const TAG: usize = 32;
/// Bytes of an account and its position.
const POSITION: usize = 16;
/// What was not confirmed is told again after this, at first and at most.
const AGAIN_NS: u64 = 20 * Nanos::MILLI;
const AGAIN_MAX_NS: u64 = 320 * Nanos::MILLI;
/// A root says that it is there so often.
const ALIVE_NS: u64 = 200 * Nanos::MILLI;

/// What a datagram says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Notes of limits.
    Allot = 1,
    /// To the home of accounts: how long their streams are here.
    Streams = 2,
    /// From the home of accounts: up to where their streams there are merged.
    Merged = 3,
    /// From the first shard: the next command for all.
    Direct = 4,
    /// Nothing more than its header.
    Alive = 5,
    /// To the shard that an instrument goes to: some bytes of it.
    Move = 6,
    /// From that shard: how many it has.
    Have = 7,
    /// To the first shard: instruments that have arrived.
    Arrived = 8,
    /// To the first shard: what the engine made of the newest commands for all (module `directives`).
    Outcomes = 9,
}

impl Kind {
    fn of(number: u8) -> Option<Kind> {
        use Kind::{Alive, Allot, Arrived, Direct, Have, Merged, Move, Outcomes, Streams};
        let all = [Allot, Streams, Merged, Direct, Alive, Move, Have, Arrived, Outcomes];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// What a root has counted of its dealings with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BetweenCounters {
    /// Datagrams sent to other shards.
    pub sent: u64,
    /// Datagrams of other shards.
    pub heard: u64,
    /// Datagrams that were unreadable, not authentic or of nobody.
    pub refused: u64,
    /// Records that put other shards' streams into those of accounts that are at home here.
    pub merged: u64,
    /// Bytes sent of instruments that go to other shards, those sent again included.
    pub moved: u64,
}

/// What one other shard is known to be like.
#[derive(Clone, Copy, Default)]
pub(super) struct Neighbour {
    /// Commands for all that it has carried out, as far as it told.
    pub(super) directive: u32,
    /// When it was heard of last; 0: never.
    heard: Nanos,
    /// When it was told the next command last.
    pub(super) directed: Nanos,
    /// What its engine made of the newest of them.
    pub(super) outcomes: DirectiveOutcomes,
}

/// The dealings of one root with the roots of the other shards.
pub(super) struct Shards {
    pub(super) me: ShardId,
    shards: u16,
    pub(super) datagram_max: usize,
    keys: Option<KeySource>,
    /// While it leads.
    pub(super) allotter: Option<Allotter>,
    steps: AllotSteps,
    /// Limits moved by inputs applied since the last call.
    moved: Vec<AllotRecord>,
    /// Streams merged by them.
    merged: Vec<MergeRecord>,
    /// By account number: how much of its stream here the home has merged, as far as it told.
    pub(super) confirmed: Vec<u64>,
    /// Accounts at home elsewhere whose streams have grown beyond that, and by account whether it is one
    /// of them.
    owed: Vec<AccountId>,
    owes: Vec<bool>,
    /// Some of them are new.
    fresh: bool,
    again_at: Nanos,
    again_ns: u64,
    /// By account number and shard: position of a merge that is on its way into the log.
    proposed: Vec<u64>,
    pub(super) neighbours: Vec<Neighbour>,
    /// The last command for all that is on its way into the log.
    pub(super) directing: u32,
    alive_at: Nanos,
    /// Instruments that come and go.
    pub(super) moves: Moves,
    pub(super) counters: BetweenCounters,
}

impl Shards {
    /// `None` in a venue of one shard.
    pub(super) fn new(config: &ExchangeConfig, engine: &mut Engine) -> Option<Box<Shards>> {
        let (me, shards) = (config.shard.id, config.shard.shards);
        if shards < 2 {
            return None;
        }
        let accounts = config.accounts.len() + 1;
        let mut new = Shards {
            me,
            shards,
            datagram_max: config.options.datagram_max(),
            keys: config.options.secret.as_ref().map(|secret| secret.between_shards()),
            allotter: None,
            steps: AllotSteps::default(),
            moved: Vec::with_capacity(64),
            merged: Vec::with_capacity(64),
            confirmed: vec![0; accounts],
            owed: Vec::with_capacity(accounts),
            owes: vec![false; accounts],
            fresh: false,
            again_at: Nanos::NEVER,
            again_ns: AGAIN_NS,
            proposed: vec![0; accounts * usize::from(shards)],
            neighbours: vec![Neighbour::default(); usize::from(shards)],
            directing: 0,
            alive_at: Nanos(0),
            moves: Moves::default(),
            counters: BetweenCounters::default(),
        };
        new.allotter = Some(Allotter::new(engine));
        Some(Box::new(new))
    }

    pub(super) fn home_of(&self, account: AccountId) -> ShardId {
        ShardId(account.0.saturating_sub(1) % self.shards)
    }

    /// It leads no more.
    pub(super) fn follow(&mut self) {
        self.allotter = None;
        self.forget();
    }

    fn forget(&mut self) {
        self.moved.clear();
        self.merged.clear();
        self.confirmed.fill(0);
        self.owed.clear();
        self.owes.fill(false);
        (self.fresh, self.again_at, self.again_ns) = (false, Nanos::NEVER, AGAIN_NS);
        self.proposed.fill(0);
        self.neighbours.fill(Neighbour::default());
        (self.directing, self.alive_at) = (0, Nanos(0));
        self.moves.forget();
    }

    /// It leads, or stands alone, from now on, with this state: everything is to be told.
    pub(super) fn lead(&mut self, engine: &mut Engine, private: &PrivateStreams) {
        self.forget();
        self.allotter = Some(Allotter::new(engine));
        for number in 1..self.confirmed.len() {
            let account = AccountId(number as u16);
            if private.next_position(account) > 1 {
                self.note_stream(account);
            }
        }
    }

    /// An account's stream here has grown.
    pub(super) fn note_stream(&mut self, account: AccountId) {
        let elsewhere = self.home_of(account) != self.me;
        if let Some(owes) = self.owes.get_mut(usize::from(account.0))
            && elsewhere
            && !*owes
        {
            *owes = true;
            self.owed.push(account);
        }
        self.fresh |= elsewhere;
    }

    /// An input of this shard's own was applied.
    pub(super) fn note_applied(&mut self, command: &Command) {
        match command.kind {
            CommandKind::Allot => self.moved.extend(AllotRecord::of(command)),
            CommandKind::MergeStream => self.merged.extend(MergeRecord::of(command)),
            CommandKind::EndOfDay => self.moves.begin_anew(),
            CommandKind::StartOfDay | CommandKind::SetInstrument | CommandKind::MovePart => {
                self.moves.look()
            }
            _ => {}
        }
    }

    /// When [`Root::serve_shards`] is wanted next.
    pub(super) fn next_timeout(&self) -> Nanos {
        match &self.allotter {
            Some(allotter) => {
                let moves = self.moves.next_timeout();
                allotter.next_tick().min(self.again_at).min(self.alive_at).min(moves)
            }
            None => Nanos::NEVER,
        }
    }

    fn place(&self, account: AccountId, shard: ShardId) -> usize {
        usize::from(account.0) * usize::from(self.shards) + usize::from(shard.0)
    }

    /// Sends one datagram to a shard.
    pub(super) fn send(
        &mut self,
        (to, kind): (ShardId, Kind),
        directive: u32,
        fill: impl FnOnce(&mut Vec<u8>),
        out: &mut Outbox,
    ) {
        self.counters.sent += 1;
        write((self.me, self.keys.as_ref()), (to, kind, directive), fill, out);
    }

    /// Positions that fit one datagram.
    fn positions_max(&self) -> usize {
        (self.datagram_max.saturating_sub(HEADER + TAG) / POSITION).max(1)
    }

    /// Tells each home how long the streams are that it has not merged.
    fn tell_streams(&mut self, private: &PrivateStreams, directive: u32, out: &mut Outbox) {
        let length = |account| private.next_position(account) - 1;
        let (owes, confirmed) = (&mut self.owes, &self.confirmed);
        self.owed.retain(|account| {
            let number = usize::from(account.0);
            owes[number] = length(*account) > confirmed[number];
            owes[number]
        });
        let (me, shards, most) = (self.me, self.shards, self.positions_max());
        for home in (0..shards).map(ShardId).filter(|home| *home != me) {
            let at_home = |account: &&AccountId| (account.0 - 1) % shards == home.0;
            let mut owed = self.owed.iter().filter(at_home).peekable();
            while owed.peek().is_some() {
                let told = owed.by_ref().take(most).map(|account| (*account, length(*account)));
                let from = (me, self.keys.as_ref());
                let fill = |buffer: &mut Vec<u8>| write_positions(told, buffer);
                write(from, (home, Kind::Streams, directive), fill, out);
                self.counters.sent += 1;
            }
        }
    }

    /// What a datagram says, its sender and what that has carried out; `None` for anything that no
    /// other shard of this venue writes.
    fn read<'a>(&self, bytes: &'a [u8]) -> Option<(Kind, ShardId, u32, &'a [u8])> {
        let body = match &self.keys {
            Some(keys) => {
                let (body, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG)?)?;
                // Compared as a whole, whatever differs first.
                let own = keys.tag(body);
                let differs = own.iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
                (differs == 0).then_some(body)?
            }
            None => bytes,
        };
        let (header, rest) = body.split_first_chunk::<HEADER>()?;
        let [version, kind, a, b, c, d, e, f] = *header;
        let sender = ShardId(u16::from_le_bytes([a, b]));
        let known = version == VERSION && sender.0 < self.shards && sender != self.me;
        let directive = u32::from_le_bytes([c, d, e, f]);
        known.then_some((Kind::of(kind)?, sender, directive, rest))
    }
}

/// Queues one datagram to a shard.
fn write(
    (me, keys): (ShardId, Option<&KeySource>),
    (to, kind, directive): (ShardId, Kind, u32),
    fill: impl FnOnce(&mut Vec<u8>),
    out: &mut Outbox,
) {
    let bytes = out.write(|buffer| {
        let from = buffer.len();
        buffer.extend_from_slice(&[VERSION, kind as u8]);
        buffer.extend_from_slice(&me.0.to_le_bytes());
        buffer.extend_from_slice(&directive.to_le_bytes());
        fill(buffer);
        let tag = keys.zip(buffer.get(from..)).map(|(keys, told)| keys.tag(told));
        buffer.extend_from_slice(tag.as_ref().map_or(&[], |tag| &tag[..]));
    });
    out.datagram(Channel::SHARDS, Peer::Node(NodeId(to.0)), bytes);
}

fn write_positions(positions: impl Iterator<Item = (AccountId, u64)>, buffer: &mut Vec<u8>) {
    for (account, position) in positions {
        buffer.extend_from_slice(&account.0.to_le_bytes());
        buffer.extend_from_slice(&[0; 6]);
        buffer.extend_from_slice(&position.to_le_bytes());
    }
}

/// Accounts and positions of a datagram; `None` for anything else.
fn positions(rest: &[u8]) -> Option<impl Iterator<Item = (AccountId, u64)> + '_> {
    let whole = rest.len().is_multiple_of(POSITION);
    let read = |bytes: &[u8]| {
        let account = u16::from_le_bytes([bytes[0], bytes[1]]);
        let position = u64::from_le_bytes(std::array::from_fn(|n| bytes[8 + n]));
        (AccountId(account), position)
    };
    whole.then(|| rest.chunks_exact(POSITION).map(read))
}

impl Root {
    /// What it counted of its dealings with other shards; nothing where there are none.
    pub fn between(&self) -> BetweenCounters {
        self.shards.as_ref().map_or_else(Default::default, |shards| shards.counters)
    }

    /// When another shard's leader was heard of last, on this root's clock, and how many commands for all
    /// shards it is known to have carried out; `None` for this one and where it was not heard of.
    pub fn heard_of(&self, shard: ShardId) -> Option<(Nanos, u32)> {
        let known = self.shards.as_ref()?.neighbours.get(usize::from(shard.0))?;
        (known.heard != Nanos(0)).then_some((known.heard, known.directive))
    }

    /// Where inputs of the exchange's own come from.
    pub(super) fn own_source(&self) -> Source {
        Source { shard: self.engine.config().shard, ..Source::default() }
    }

    /// Begins to deal with the other shards, as the one that leads or stands alone.
    pub(super) fn lead_shards(&mut self) {
        let Root { shards, engine, private, .. } = self;
        if let Some(shards) = shards {
            shards.lead(engine, private);
        }
    }

    /// Puts a record of this shard's own into the log, if there is room; it goes on with the pump.
    pub(super) fn record(&mut self, now: ClockReading, command: Command) -> bool {
        if self.schedule.ended || !self.gate_has_room() || !self.has_room() {
            return false;
        }
        let draft = Draft { t_in: now.now, source: self.own_source(), flags: 0, command };
        self.enter_log(now, draft)
    }

    /// A datagram of another shard.
    pub(super) fn handle_shard(&mut self, now: ClockReading, bytes: &[u8], out: &mut Outbox) {
        let directive = self.engine.directive();
        let Some(shards) = &mut self.shards else {
            self.counters.malformed += 1;
            return;
        };
        if shards.allotter.is_none() {
            return;
        }
        let Some((kind, from, carried_out, rest)) = shards.read(bytes) else {
            shards.counters.refused += 1;
            return;
        };
        shards.counters.heard += 1;
        let known = &mut shards.neighbours[usize::from(from.0)];
        known.directive = known.directive.max(carried_out);
        known.heard = now.now;
        let sound = match kind {
            Kind::Allot => self.hear_notes(now, from, rest, out),
            Kind::Streams => self.hear_streams(now, from, rest, out),
            Kind::Merged => {
                let positions = positions(rest);
                positions
                    .map(|all| all.for_each(|(account, up_to)| shards.hear_merged(account, up_to)))
                    .is_some()
            }
            Kind::Direct => self.hear_direct(now, from, rest),
            Kind::Alive => rest.is_empty(),
            Kind::Move => self.hear_move(now, from, rest, out),
            Kind::Have => self.hear_have(from, rest, out),
            Kind::Arrived => self.hear_arrived(now, from, rest, out),
            Kind::Outcomes => known.outcomes.hear(rest),
        };
        if let Some(shards) = self.shards.as_mut().filter(|_| !sound) {
            shards.counters.refused += 1;
        }
        self.pass_directive(now, (from, directive), out);
    }

    fn hear_notes(
        &mut self,
        now: ClockReading,
        from: ShardId,
        rest: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let Root { shards: Some(shards), engine, .. } = self else { return false };
        let notes = rest.chunks(AllotNote::SIZE).map(AllotNote::decode);
        let mut sound = true;
        for note in notes {
            match (note, &mut shards.allotter) {
                (Some(note), Some(allotter)) => {
                    allotter.heard(now.now, from, &note, engine, &mut shards.steps);
                }
                _ => sound = false,
            }
        }
        self.follow_steps(now, out);
        sound
    }

    /// Another shard says how long streams are there of accounts that are at home here.
    fn hear_streams(
        &mut self,
        now: ClockReading,
        from: ShardId,
        rest: &[u8],
        out: &mut Outbox,
    ) -> bool {
        let Some(positions) = positions(rest) else { return false };
        let mut sound = true;
        for (account, up_to) in positions {
            let Some(shards) = &self.shards else { return false };
            let exists = account.0 > 0 && usize::from(account.0) < shards.confirmed.len();
            if !exists || shards.home_of(account) != shards.me || up_to >= MergeRecord::POSITION_MAX
            {
                sound = false;
                continue;
            }
            let place = shards.place(account, from);
            let merged = self.engine.merged(account, from);
            if up_to > merged.max(shards.proposed[place]) {
                let record = MergeRecord { account, shard: from, up_to };
                let entered = self.record(now, record.command());
                if let Some(shards) = self.shards.as_mut().filter(|_| entered) {
                    shards.proposed[place] = up_to;
                }
            } else if merged > 0 {
                let directive = self.engine.directive();
                if let Some(shards) = &mut self.shards {
                    let told = std::iter::once((account, merged));
                    let fill = |buffer: &mut Vec<u8>| write_positions(told, buffer);
                    shards.send((from, Kind::Merged), directive, fill, out);
                }
            }
        }
        sound
    }

    /// Does what an allotter wants done.
    fn follow_steps(&mut self, now: ClockReading, out: &mut Outbox) {
        let directive = self.engine.directive();
        let Some(shards) = &mut self.shards else { return };
        let mut steps = std::mem::take(&mut shards.steps);
        let notes_max = (shards.datagram_max.saturating_sub(HEADER + TAG) / AllotNote::SIZE).max(1);
        // Notes of a call are for few shards: those of each share datagrams.
        for to in (0..shards.shards).map(ShardId) {
            let mut of_shard = steps.notes.iter().filter(|(shard, _)| *shard == to).peekable();
            while of_shard.peek().is_some() {
                let fill = |buffer: &mut Vec<u8>| {
                    let notes = of_shard.by_ref().take(notes_max);
                    notes.for_each(|(_, note)| buffer.extend_from_slice(&note.encode()));
                };
                shards.send((to, Kind::Allot), directive, fill, out);
            }
        }
        steps.notes.clear();
        for command in steps.commands.drain(..) {
            // One that finds no room is proposed again.
            let _ = self.record(now, command);
        }
        if let Some(shards) = &mut self.shards {
            shards.steps = steps;
        }
    }

    /// Tells other shards of what was applied; called when all that is due has gone through.
    pub(super) fn tell_shards(&mut self, now: ClockReading, out: &mut Outbox) {
        let Some(shards) = &mut self.shards else { return };
        if shards.allotter.is_none() {
            return;
        }
        let directive = self.engine.directive();
        if !shards.moved.is_empty() {
            let moved = std::mem::take(&mut shards.moved);
            if let Some(allotter) = &mut shards.allotter {
                for record in &moved {
                    allotter.applied(now.now, record, &self.engine, &mut shards.steps);
                }
            }
            shards.moved = moved;
            shards.moved.clear();
            self.follow_steps(now, out);
        }
        let Root { shards: Some(shards), private, .. } = self else { return };
        let merged = std::mem::take(&mut shards.merged);
        let most = shards.positions_max();
        for of in (0..shards.shards).map(ShardId) {
            let mut told = merged.iter().filter(|record| record.shard == of).peekable();
            while told.peek().is_some() {
                let positions = told.by_ref().take(most).map(|of| (of.account, of.up_to));
                let fill = |buffer: &mut Vec<u8>| write_positions(positions, buffer);
                shards.send((of, Kind::Merged), directive, fill, out);
            }
        }
        shards.counters.merged += merged.len() as u64;
        shards.merged = merged;
        shards.merged.clear();
        if std::mem::take(&mut shards.fresh) {
            shards.tell_streams(private, directive, out);
            shards.again_ns = AGAIN_NS;
            shards.again_at = shards.again_at.min(now.now.after(AGAIN_NS));
        }
        if shards.directing > 0 && directive == shards.directing {
            // It has been carried out: the others are told with the timeout that is due now.
            (shards.directing, shards.alive_at) = (0, now.now);
            shards.neighbours.iter_mut().for_each(|known| known.directed = Nanos(0));
        }
    }

    /// Timers of the dealings with other shards.
    pub(super) fn serve_shards(&mut self, now: ClockReading, out: &mut Outbox) {
        self.serve_moves(now, out);
        let Root { shards: Some(shards), engine, private, .. } = self else { return };
        let Some(allotter) = &mut shards.allotter else { return };
        let directive = engine.directive();
        if allotter.next_tick() <= now.now {
            allotter.tick(now.now, engine, &mut shards.steps);
        }
        if shards.again_at <= now.now {
            shards.tell_streams(private, directive, out);
            shards.again_ns = (2 * shards.again_ns).min(AGAIN_MAX_NS);
            let owes = !shards.owed.is_empty();
            shards.again_at = if owes { now.now.after(shards.again_ns) } else { Nanos::NEVER };
        }
        let alive = shards.alive_at <= now.now;
        if alive {
            shards.alive_at = now.now.after(ALIVE_NS);
        }
        let (me, all) = (shards.me, if alive { shards.shards } else { 0 });
        for to in (0..all).map(ShardId).filter(|other| *other != me) {
            let Some(shards) = &mut self.shards else { return };
            shards.send((to, Kind::Alive), directive, |_| {}, out);
            if to == ShardId(0) {
                self.tell_outcomes(directive, out);
            }
            self.pass_directive(now, (to, directive), out);
        }
        self.follow_steps(now, out);
    }
}

impl Shards {
    /// The home has merged an account's stream here up to a position.
    fn hear_merged(&mut self, account: AccountId, up_to: u64) {
        let elsewhere = self.home_of(account) != self.me;
        if let Some(confirmed) = self.confirmed.get_mut(usize::from(account.0))
            && elsewhere
        {
            *confirmed = up_to.max(*confirmed);
        }
    }
}
