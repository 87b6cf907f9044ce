//! The shards of one venue, event by event.

use std::collections::VecDeque;

use engine::{AllotNote, AllotSteps, Allotter, Applied, Config, Engine, Limits, Output, replay};
use types::{
    AccountId, AllotAction, AllotRecord, Command, CommandKind, Digest, ExecutionKind, Input,
    Instrument, InstrumentId, LimitKind, Nanos, Price, Qty, RejectReason, Seq, ShardId, Side,
    Source, SplitMix64, Symbol, TimeInForce, UserRefNum,
};

use super::checks::Ledger;
use super::{ANSWERED_WITHIN_NS, Counts, Options, Report, Sabotage};
use crate::queue::Queue;

const MILLI: u64 = Nanos::MILLI;
const ACCOUNTS: u16 = 4;
/// Faults happen until here.
const FAULTY_NS: u64 = 2_000 * MILLI;
/// And then everything is well.
const END_NS: u64 = FAULTY_NS + 3_000 * MILLI;
/// Between two looks of a participant at what is open, and of the operator.
const LOOK_NS: u64 = 10 * MILLI;
/// When what was not answered is sent again.
const RESEND_NS: u64 = 25 * MILLI;
/// The operator's commands for all shards.
const DIRECTIVES: u64 = 5;

enum Event {
    /// A request reaches a shard.
    Request(usize, Command),
    /// An answer reaches the participant.
    Answer(AccountId, UserRefNum),
    /// What a leader of this term proposed is durable.
    Durable(usize, u64),
    Note(usize, ShardId, [u8; AllotNote::SIZE]),
    Tick(usize, u64),
    Look,
    Crash(usize, u64),
    Lead(usize),
    Snapshot(usize),
    Cut(usize, usize, u64),
}

struct Shard {
    engine: Engine,
    log: Vec<Input>,
    /// Inputs of the log that the snapshot stands for, and the snapshot.
    snapshot: Option<(usize, Vec<u8>)>,
    /// Proposed by the leader and not durable yet.
    pending: VecDeque<Input>,
    term: u64,
    allotter: Option<Allotter>,
    durable_at: u64,
}

/// A participant's request that has no answer yet.
struct Open {
    shard: usize,
    command: Command,
    resend_at: u64,
    /// How long its shard had a leader since, without a break.
    waited: u64,
}

/// What links do.
struct Weather {
    lost: u64,
    doubled: u64,
    slow: u64,
    slow_ns: u64,
}

pub(super) struct World {
    seed: u64,
    now: u64,
    dice: SplitMix64,
    events: Queue<Event>,
    shards: Vec<Shard>,
    weather: Weather,
    /// Until when the link between two shards is cut.
    cuts: Vec<(usize, usize, u64)>,
    ledger: Ledger,
    open: Vec<Open>,
    next_ref: Vec<u32>,
    /// All orders at one price.
    flat: bool,
    directives: Vec<Command>,
    directives_at: Vec<u64>,
    /// Directives that each shard is known to have carried out.
    told: Vec<u32>,
    /// What an account does after all faults: the shard it uses, whether it has used up its limit.
    last: Vec<(usize, bool)>,
    sabotage: Option<Sabotage>,
    counts: Counts,
    out: Output,
    steps: AllotSteps,
    failed: Option<String>,
}

fn config(shard: u16, shards: u16, limits: &[(LimitKind, u64)]) -> Config {
    let instrument = Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("ONE").expect("a valid symbol"),
        tick: Price(1),
        price_max: Price(10_000),
        qty_max: Qty(1_000),
        lot_decimals: 0,
    };
    let limits = limits.iter().fold(Limits::NONE, |all, (kind, limit)| all.with(*kind, *limit));
    let mut config = Config {
        shard: ShardId(shard),
        shards,
        accounts_max: usize::from(ACCOUNTS),
        gateways_max: 1,
        limits,
        trades_kept: 64,
        ..Config::new(vec![instrument])
    };
    (config.book.orders, config.book.levels) = (512, 256);
    (config.book.stops, config.book.pegs) = (16, 16);
    config
}

impl World {
    pub(super) fn new(seed: u64, options: &Options) -> World {
        let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0x5AD5);
        let credit = (LimitKind::Credit, (3 + dice.below(40)) * 100);
        let orders = (LimitKind::OpenOrders, 1 + dice.below(12));
        let limits = match seed % 4 {
            0 => vec![credit],
            1 => vec![orders],
            2 => vec![(LimitKind::MessageRate, [8, 10, 20, 40][dice.below(4) as usize])],
            _ => vec![credit, orders],
        };
        let shards = usize::from(options.shards);
        let shard = |id: usize| {
            let mut engine = Engine::new(config(id as u16, options.shards, &limits));
            sabotage(&mut engine, options.sabotage);
            Shard {
                engine,
                log: Vec::new(),
                snapshot: None,
                pending: VecDeque::new(),
                term: 0,
                allotter: None,
                durable_at: 0,
            }
        };
        let calm = dice.below(8) == 0;
        let weather = Weather {
            lost: if calm { 0 } else { dice.below(200) },
            doubled: dice.below(100),
            slow: dice.below(100),
            slow_ns: 200 * MILLI,
        };
        let mut world = World {
            seed,
            now: 0,
            events: Queue::new(),
            shards: (0..shards).map(shard).collect(),
            weather,
            cuts: Vec::new(),
            ledger: Ledger::new(shards, usize::from(ACCOUNTS), &limits),
            open: Vec::new(),
            next_ref: vec![0; usize::from(ACCOUNTS)],
            flat: dice.below(2) == 0,
            directives: Vec::new(),
            directives_at: Vec::new(),
            told: vec![0; shards],
            last: (0..ACCOUNTS).map(|_| (dice.below(shards as u64) as usize, false)).collect(),
            sabotage: options.sabotage,
            counts: Counts::default(),
            out: Output::default(),
            steps: AllotSteps::default(),
            failed: None,
            dice,
        };
        world.prepare(calm);
        world
    }

    fn prepare(&mut self, calm: bool) {
        let shards = self.shards.len() as u64;
        for shard in 0..self.shards.len() {
            self.events.push(Nanos(0), Event::Lead(shard));
        }
        self.events.push(Nanos(LOOK_NS), Event::Look);
        for _ in 0..self.dice.below(4) * u64::from(!calm) * shards {
            let (at, down) = (self.dice.below(FAULTY_NS), (20 + self.dice.below(600)) * MILLI);
            let shard = self.dice.below(shards) as usize;
            self.events.push(Nanos(at), Event::Crash(shard, down));
        }
        for _ in 0..self.dice.below(5) * u64::from(!calm) {
            let (at, time) = (self.dice.below(FAULTY_NS), (50 + self.dice.below(900)) * MILLI);
            let (one, other) = (self.dice.below(shards) as usize, self.dice.below(shards) as usize);
            self.events.push(Nanos(at), Event::Cut(one, other, time));
        }
        for _ in 0..self.dice.below(6) {
            let shard = self.dice.below(shards) as usize;
            self.events.push(Nanos(self.dice.below(FAULTY_NS)), Event::Snapshot(shard));
        }
        let mut at = 50 * MILLI;
        for number in 1..=DIRECTIVES as u32 {
            at += self.dice.below(350 * MILLI);
            let account = AccountId(self.dice.below(u64::from(ACCOUNTS) + 1) as u16);
            let mut command = match self.dice.below(3) {
                0 => Command { account, ..Command::new(CommandKind::MassCancel) },
                1 => {
                    let param = u8::from(number < DIRECTIVES as u32 - 1) * self.dice.below(2) as u8;
                    Command { account, param, ..Command::new(CommandKind::Kill) }
                }
                _ => self.new_limit(account),
            };
            command.session_seq = number;
            self.directives.push(command);
            self.directives_at.push(at);
        }
        // Whoever was stopped may trade again.
        for account in 0..=ACCOUNTS {
            let account = AccountId(account);
            let session_seq = self.directives.len() as u32 + 1;
            let command = Command::new(CommandKind::Kill);
            self.directives.push(Command { account, session_seq, ..command });
            self.directives_at.push(FAULTY_NS);
        }
    }

    /// An operator's other limit. The bucket of a message rate begins anew with it, so that one stays.
    fn new_limit(&mut self, account: AccountId) -> Command {
        let at = self.dice.below(self.ledger.limited() as u64) as usize;
        let (kind, limit) = self.ledger.limit(AccountId(1), at);
        let limit = match kind {
            LimitKind::Credit => (1 + self.dice.below(40)) * 100,
            LimitKind::OpenOrders => 1 + self.dice.below(12),
            _ => limit,
        };
        // For one account at a time: the default follows from the configuration.
        let account = AccountId(account.0.max(1));
        let (param, qty) = (kind as u8, Qty(limit));
        Command { account, param, qty, ..Command::new(CommandKind::SetLimit) }
    }

    pub(super) fn play(mut self) -> Report {
        while self.failed.is_none()
            && let Some((at, event)) = self.events.pop_until(Nanos(END_NS))
        {
            self.now = at.0;
            if let Err(what) = self.happen(event) {
                self.failed = Some(format!("at {} ms: {what}", self.now / MILLI));
            }
        }
        if self.failed.is_none() {
            self.failed = self.conclude().err();
        }
        let mut digest = Digest::default();
        self.shards.iter().for_each(|shard| digest.fold(shard.engine.state_digest()));
        Report { seed: self.seed, failed: self.failed, counts: self.counts, digest: digest.0 }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Request(shard, command) => self.request(shard, command),
            Event::Answer(account, number) => {
                let asked = |open: &Open| (open.command.account, open.command.user_ref);
                let before = self.open.len();
                self.open.retain(|open| asked(open) != (account, number));
                self.counts.requests += u64::from(self.open.len() < before);
            }
            Event::Durable(shard, term) => self.durable(shard, term)?,
            Event::Note(to, from, bytes) => {
                let note = AllotNote::decode(&bytes).ok_or("a note that nobody reads")?;
                let shard = &mut self.shards[to];
                if let Some(allotter) = &mut shard.allotter {
                    allotter.heard(Nanos(self.now), from, &note, &shard.engine, &mut self.steps);
                    self.follow(to);
                }
            }
            Event::Tick(shard, term) if self.shards[shard].term == term => self.tick(shard),
            Event::Tick(..) => {}
            Event::Look => self.look()?,
            Event::Crash(shard, down) => self.crash(shard, down),
            Event::Lead(shard) => self.lead(shard)?,
            Event::Snapshot(shard) => {
                let shard = &mut self.shards[shard];
                let mut bytes = Vec::new();
                shard.engine.write_snapshot(&mut bytes);
                shard.snapshot = Some((shard.log.len(), bytes));
            }
            Event::Cut(one, other, time) => {
                self.cuts.push((one, other, self.now + time));
                self.counts.cuts += u64::from(one != other);
            }
        }
        Ok(())
    }

    fn faulty(&self) -> bool {
        self.now < FAULTY_NS
    }

    /// Sends something: lost, doubled or late as the weather is.
    fn send(&mut self, event: impl Fn() -> Event) {
        let faulty = self.faulty();
        let mut copies = 1;
        if faulty && self.dice.permille(self.weather.lost) {
            self.counts.lost += 1;
            return;
        }
        if faulty && self.dice.permille(self.weather.doubled) {
            self.counts.doubled += 1;
            copies = 2;
        }
        for _ in 0..copies {
            let mut delay = 100_000 + self.dice.below(3 * MILLI);
            if faulty && self.dice.permille(self.weather.slow) {
                delay += self.dice.below(self.weather.slow_ns);
            }
            self.events.push(Nanos(self.now + delay), event());
        }
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        let now = self.now;
        let cut = |cut: &&(usize, usize, u64)| cut.2 > now;
        self.cuts
            .iter()
            .filter(cut)
            .any(|c| (c.0, c.1) == (one, other) || (c.1, c.0) == (one, other))
    }

    /// The leader proposes an input.
    fn propose(&mut self, at: usize, command: Command) {
        let source = Source { shard: ShardId(at as u16), ..Source::default() };
        let now = Nanos(self.now);
        let shard = &mut self.shards[at];
        let seq = Seq((shard.log.len() + shard.pending.len()) as u64 + 1);
        shard.pending.push_back(Input { seq, t_in: now, t_seq: now, source, flags: 0, command });
        let delay = 200_000 + self.dice.below(4 * MILLI);
        shard.durable_at = shard.durable_at.max(self.now + delay);
        self.events.push(Nanos(shard.durable_at), Event::Durable(at, shard.term));
    }

    fn durable(&mut self, at: usize, term: u64) -> Result<(), String> {
        if self.shards[at].term != term || self.shards[at].allotter.is_none() {
            return Ok(());
        }
        let input = self.shards[at].pending.pop_front().ok_or("nothing is pending")?;
        self.append(at, input)
    }

    /// An input is in the log: it is applied, and whoever it concerns is told.
    fn append(&mut self, at: usize, input: Input) -> Result<(), String> {
        let shard = &mut self.shards[at];
        shard.log.push(input);
        self.out.clear();
        let applied = shard.engine.apply(&input, &mut self.out);
        let reports = std::mem::take(&mut self.out.executions);
        for report in &reports {
            self.ledger.note(at, input.t_in.0, report)?;
            self.counts.accepted += u64::from(report.kind == ExecutionKind::Accepted);
            self.counts.trades += u64::from(report.kind == ExecutionKind::Executed);
            self.counts.short += u64::from(report.reject == RejectReason::ShardAllotment);
        }
        let command = input.command;
        if applied == Applied::Done {
            self.note_command(at, &command);
        }
        let (account, number) = (command.account, command.user_ref);
        if matches!(command.kind, CommandKind::NewOrder | CommandKind::Cancel) {
            self.send(|| Event::Answer(account, number));
        }
        let mut concerned: Vec<AccountId> = reports.iter().map(|report| report.account).collect();
        concerned.push(command.account);
        concerned.sort_unstable();
        concerned.dedup();
        self.out.executions = reports;
        let engines: Vec<&Engine> = self.shards.iter().map(|shard| &shard.engine).collect();
        for account in concerned.into_iter().filter(|account| account.0 != 0) {
            self.ledger.check(&engines, account)?;
        }
        Ok(())
    }

    /// What a command that was carried out means for others.
    fn note_command(&mut self, at: usize, command: &Command) {
        if command.session_seq != 0 {
            self.counts.directives += 1;
        }
        if command.kind == CommandKind::SetLimit
            && self.shards[at].engine.config().home_of(command.account).0 == at as u16
            && let Some(kind) = LimitKind::from_code(command.param)
        {
            let lowered = self.ledger.set_limit(command.account, kind, command.qty.0);
            self.counts.lowered += u64::from(lowered);
        }
        let Some(record) = AllotRecord::of(command) else { return };
        self.counts.granted += u64::from(record.action == AllotAction::Grant);
        self.counts.returned += u64::from(record.action == AllotAction::Return);
        let shard = &mut self.shards[at];
        if let Some(allotter) = &mut shard.allotter {
            allotter.applied(Nanos(self.now), &record, &shard.engine, &mut self.steps);
            self.follow(at);
        }
    }

    /// Does what an allotter wants done.
    fn follow(&mut self, at: usize) {
        let mut steps = std::mem::take(&mut self.steps);
        for command in steps.commands.drain(..) {
            self.propose(at, command);
            let record = AllotRecord::of(&command).filter(|r| r.action == AllotAction::Grant);
            if let (Some(Sabotage::SpeaksEarly), Some(record)) = (self.sabotage, record) {
                let AllotRecord { account, kind, total: up, shard, .. } = record;
                let note = AllotNote { account, kind, from_home: true, up, down: 0, wish: 0 };
                steps.notes.push((ShardId(shard), note));
            }
        }
        for (to, note) in steps.notes.drain(..) {
            let (to, bytes) = (usize::from(to.0), note.encode());
            if !self.is_cut(at, to) {
                self.send(|| Event::Note(to, ShardId(at as u16), bytes));
            }
        }
        self.steps = steps;
    }

    fn tick(&mut self, at: usize) {
        let now = Nanos(self.now);
        let shard = &mut self.shards[at];
        let Some(allotter) = &mut shard.allotter else { return };
        allotter.tick(now, &mut shard.engine, &mut self.steps);
        let (next, term) = (allotter.next_tick(), shard.term);
        self.events.push(next, Event::Tick(at, term));
        self.follow(at);
    }

    fn crash(&mut self, at: usize, down: u64) {
        if self.shards[at].allotter.take().is_none() {
            return;
        }
        self.counts.crashes += 1;
        self.events.push(Nanos(self.now + down), Event::Lead(at));
    }

    /// A new leader: a snapshot and the log, with perhaps more in it than the last one knew.
    fn lead(&mut self, at: usize) -> Result<(), String> {
        if self.shards[at].allotter.is_some() {
            return Ok(());
        }
        self.shards[at].term += 1;
        let kept = self.dice.below(self.shards[at].pending.len() as u64 + 1);
        let mut pending = std::mem::take(&mut self.shards[at].pending);
        self.counts.forgotten += pending.split_off(kept as usize).len() as u64;
        for input in pending {
            self.append(at, input)?;
        }
        let shard = &mut self.shards[at];
        let config = shard.engine.config().clone();
        let (from, mut engine) = match &shard.snapshot {
            Some((from, bytes)) => {
                self.counts.snapshots += 1;
                let read = Engine::read_snapshot(config, bytes);
                (*from, read.map_err(|error| error.to_string())?)
            }
            None => (0, Engine::new(config)),
        };
        sabotage(&mut engine, self.sabotage);
        let mut out = Output::default();
        for input in &shard.log[from..] {
            out.clear();
            engine.apply(input, &mut out);
        }
        if engine.state_digest() != shard.engine.state_digest() {
            return Err(format!("shard {at} is another one after its restart"));
        }
        shard.engine = engine;
        shard.allotter = Some(Allotter::new(&mut shard.engine));
        let (term, first) = (shard.term, shard.log.is_empty());
        if first {
            self.propose(at, Command::new(CommandKind::StartOfDay));
        }
        self.events.push(Nanos(self.now + LOOK_NS), Event::Tick(at, term));
        Ok(())
    }

    fn request(&mut self, at: usize, command: Command) {
        let away = |shard: &Shard| shard.allotter.is_none();
        let waits = self.sabotage == Some(Sabotage::WaitsForOthers);
        if away(&self.shards[at]) || (waits && self.shards.iter().any(away)) {
            return;
        }
        self.propose(at, command);
    }

    /// Participants and the operator look at what is open and send what they have.
    fn look(&mut self) -> Result<(), String> {
        self.events.push(Nanos(self.now + LOOK_NS), Event::Look);
        for at in 0..self.open.len() {
            let open = &mut self.open[at];
            let leads = self.shards[open.shard].allotter.is_some();
            open.waited = if leads { open.waited + LOOK_NS } else { 0 };
            if open.waited > ANSWERED_WITHIN_NS {
                let (account, number) = (open.command.account, open.command.user_ref);
                return Err(format!("request {number:?} of {account:?} hangs at {}", open.shard));
            }
            if open.resend_at <= self.now {
                open.resend_at = self.now + RESEND_NS;
                let (shard, command) = (open.shard, open.command);
                self.send(|| Event::Request(shard, command));
            }
        }
        self.direct();
        for account in (1..=ACCOUNTS).map(AccountId) {
            for shard in 0..self.shards.len() {
                let busy = |open: &Open| open.command.account == account && open.shard == shard;
                if self.open.iter().any(busy) {
                    continue;
                }
                let command = match self.now {
                    0..FAULTY_NS if self.dice.below(3) == 0 => self.any_request(account, shard),
                    0..FAULTY_NS => None,
                    _ => self.last_request(account, shard),
                };
                if let Some(command) = command {
                    self.open.push(Open { shard, command, resend_at: 0, waited: 0 });
                }
            }
        }
        Ok(())
    }

    fn cancel(&self, account: AccountId, number: u32) -> Command {
        let user_ref = UserRefNum(number);
        Command { account, user_ref, ..Command::new(CommandKind::Cancel) }
    }

    fn order(&mut self, account: AccountId, side: Side, lots: u64, price: i64) -> Command {
        let next = &mut self.next_ref[usize::from(account.0) - 1];
        *next += 1;
        Command {
            account,
            instrument: InstrumentId(1),
            user_ref: UserRefNum(*next),
            side,
            qty: Qty(lots),
            price: Price(price),
            time_in_force: TimeInForce::Day,
            ..Command::new(CommandKind::NewOrder)
        }
    }

    fn any_request(&mut self, account: AccountId, shard: usize) -> Option<Command> {
        let open = self.ledger.open_orders(account, shard);
        if !open.is_empty() && self.dice.below(3) == 0 {
            let number = open[self.dice.below(open.len() as u64) as usize];
            return Some(self.cancel(account, number));
        }
        let side = if self.dice.below(2) == 0 { Side::Buy } else { Side::Sell };
        let price = if self.flat { 100 } else { 80 + self.dice.below(41) as i64 };
        let lots = 1 + self.dice.below(6);
        Some(self.order(account, side, lots, price))
    }

    /// When all is well: everything is cancelled, and then one shard takes all that is left.
    fn last_request(&mut self, account: AccountId, shard: usize) -> Option<Command> {
        let index = usize::from(account.0) - 1;
        let (mine, full) = self.last[index];
        if self.now < FAULTY_NS + 1_000 * MILLI {
            let number = self.ledger.open_orders(account, shard).first().copied()?;
            return Some(self.cancel(account, number));
        }
        let (kind, limit) = self.ledger.limit(account, 0);
        if full || shard != mine || self.ledger.limited() > 1 || kind == LimitKind::MessageRate {
            return None;
        }
        let left = u128::from(limit).saturating_sub(self.ledger.used(account, kind, true));
        // A price of its own for each account: nobody trades.
        let lots = if kind == LimitKind::Credit { left as u64 / 100 } else { left.min(1) as u64 };
        if lots == 0 {
            self.last[index].1 = true;
            self.counts.filled += 1;
            return None;
        }
        Some(self.order(account, Side::Buy, lots, 100))
    }

    /// The operator: each shard is told the next command until it has carried it out.
    fn direct(&mut self) {
        for at in 0..self.shards.len() {
            let next = self.told[at] as usize;
            let Some(&command) = self.directives.get(next) else { continue };
            if self.directives_at[next] > self.now || self.dice.below(3) > 0 {
                continue;
            }
            if self.shards[at].engine.directive() > next as u32 {
                // The answer may be lost, too.
                self.told[at] += u32::from(!self.dice.permille(200));
                continue;
            }
            self.send(|| Event::Request(at, command));
        }
    }

    fn conclude(&mut self) -> Result<(), String> {
        if let Some(open) = self.open.first() {
            let known = self.ledger.answered(open.command.account, open.command.user_ref.0);
            let young = open.waited < 100 * MILLI;
            (known || young).then_some(()).ok_or("a request has no answer at the end")?;
        }
        self.ledger.check_messages()?;
        let orders = |log: &[Input]| -> Vec<Command> {
            let directed = log.iter().map(|input| input.command).filter(|c| c.session_seq != 0);
            let mut directed: Vec<Command> = directed.collect();
            directed.dedup();
            directed
        };
        for (at, shard) in self.shards.iter().enumerate() {
            if shard.engine.directive() as usize != self.directives.len() {
                return Err(format!("shard {at} did not carry out all of the operator's commands"));
            }
            for account in (1..=ACCOUNTS).map(AccountId) {
                let killed = shard.engine.standing(account).is_some_and(|s| s.killed);
                if killed || shard.engine.is_killed() {
                    return Err(format!("shard {at}: {account:?} is still stopped"));
                }
            }
            let mut seen = 0;
            for command in orders(&shard.log) {
                if command.session_seq > seen + 1 {
                    return Err(format!("shard {at}: command {} too early", command.session_seq));
                }
                seen = seen.max(command.session_seq);
            }
            if self.sabotage.is_none() {
                let config = shard.engine.config().clone();
                let again = replay(config, &shard.log, |_, _, _, _| {});
                if again.state_digest() != shard.engine.state_digest() {
                    return Err(format!("shard {at}: a replay gives another state"));
                }
            }
        }
        let (kind, _) = self.ledger.limit(AccountId(1), 0);
        if self.ledger.limited() == 1 && kind != LimitKind::MessageRate {
            for (index, (shard, full)) in self.last.iter().enumerate() {
                let account = index + 1;
                full.then_some(()).ok_or(format!("account {account}: limit not had in {shard}"))?;
            }
        }
        Ok(())
    }
}

fn sabotage(engine: &mut Engine, mistake: Option<Sabotage>) {
    if let Some(Sabotage::Engine(fault)) = mistake {
        engine.allot_wrongly(fault);
    }
}
