//! Limits that span shards, beside one ledger of the whole venue: whatever messages are lost, doubled
//! and reordered and whichever shard is restored from its log, no limit is exceeded.

use engine::{AllotFault, AllotWant, Applied, Config, Engine, Limits, Output, replay_from};
use types::{
    AccountId, AllotAction, AllotRecord, Command, CommandKind, ExecutionKind, Input, LimitKind,
    Nanos, Qty, RejectReason, Seq, ShardId, Side, Source, SplitMix64,
};

use crate::bench::{cancel, config as plain, order};

/// All orders are at this price: then a trade turns open value into value of a position of equal size.
const PRICE: i64 = 100;
const ACCOUNTS: u16 = 3;
const STEPS: usize = 400;
const SECOND: u64 = 1_000_000_000;

/// What the whole venue knows of one account, from reports alone.
#[derive(Clone, Default)]
struct Ledger {
    /// By shard: account's order number, lots open.
    open: Vec<std::collections::BTreeMap<u32, u64>>,
    /// By shard.
    position: Vec<i64>,
    /// Messages in the bucket, in billionths.
    bucket: i128,
    last: u64,
}

impl Ledger {
    fn used(&self, kind: LimitKind) -> u128 {
        let orders = self.open.iter().map(|open| open.len() as u128).sum();
        let lots = |shard: usize| {
            let open: u64 = self.open[shard].values().sum();
            u128::from(open) + u128::from(self.position[shard].unsigned_abs())
        };
        match kind {
            LimitKind::OpenOrders => orders,
            _ => (0..self.open.len()).map(lots).sum::<u128>() * PRICE as u128,
        }
    }
}

/// A total on its way between an account's home and another shard.
#[derive(Clone, Copy)]
struct Letter {
    to: usize,
    record: AllotRecord,
}

struct Venue {
    dice: SplitMix64,
    kind: LimitKind,
    now: u64,
    limit: u64,
    /// The largest limit that is still being brought down.
    ceiling: u64,
    engines: Vec<Engine>,
    logs: Vec<Vec<Input>>,
    snapshots: Vec<(usize, Vec<u8>)>,
    letters: Vec<Letter>,
    ledgers: Vec<Ledger>,
    next_ref: u32,
    out: Output,
    seen: Seen,
    fault: Option<AllotFault>,
}

#[derive(Default, Debug)]
struct Seen {
    accepted: u64,
    trades: u64,
    short: u64,
    moved: u64,
    refused: u64,
    restored: u64,
    lowered: u64,
    full: u64,
}

fn config(shard: usize, shards: usize, kind: LimitKind, limit: u64) -> Config {
    Config {
        shard: ShardId(shard as u16),
        shards: shards as u16,
        accounts_max: usize::from(ACCOUNTS),
        limits: Limits::NONE.with(kind, limit),
        ..plain()
    }
}

fn fresh(config: &Config, fault: Option<AllotFault>) -> Engine {
    let mut engine = Engine::new(config.clone());
    fault.into_iter().for_each(|fault| engine.allot_wrongly(fault));
    engine
}

impl Venue {
    fn new(seed: u64, fault: Option<AllotFault>) -> Venue {
        let mut dice = SplitMix64::new(SplitMix64::mix(seed) ^ 0xA110);
        let shards = 2 + dice.below(3) as usize;
        let kind = LimitKind::SHARED[seed as usize % LimitKind::SHARED.len()];
        let limit = match kind {
            LimitKind::Credit => (4 + dice.below(40)) * PRICE as u64,
            LimitKind::OpenOrders => 1 + dice.below(12),
            _ => [5, 8, 10, 20][dice.below(4) as usize],
        };
        let engine = |shard| fresh(&config(shard, shards, kind, limit), fault);
        let bucket = i128::from(limit) * i128::from(SECOND);
        let ledger = Ledger {
            open: vec![Default::default(); shards],
            position: vec![0; shards],
            bucket,
            last: 0,
        };
        let mut venue = Venue {
            dice,
            kind,
            now: 10 * SECOND,
            limit,
            ceiling: limit,
            engines: (0..shards).map(engine).collect(),
            logs: vec![Vec::new(); shards],
            snapshots: vec![(0, Vec::new()); shards],
            letters: Vec::new(),
            ledgers: vec![ledger; usize::from(ACCOUNTS)],
            next_ref: 1,
            out: Output::default(),
            seen: Seen::default(),
            fault,
        };
        (0..shards).for_each(|shard| {
            let _ = venue.apply(shard, Command::new(CommandKind::StartOfDay));
        });
        venue
    }

    fn shards(&self) -> usize {
        self.engines.len()
    }

    fn apply(&mut self, shard: usize, command: Command) -> Applied {
        let (seq, now) = (Seq(self.logs[shard].len() as u64 + 1), Nanos(self.now));
        let source = Source { shard: ShardId(shard as u16), ..Source::default() };
        let input = Input { seq, t_in: now, t_seq: now, source, flags: 0, command };
        self.logs[shard].push(input);
        self.out.clear();
        let applied = self.engines[shard].apply(&input, &mut self.out);
        for report in &self.out.executions {
            let ledger = &mut self.ledgers[usize::from(report.account.0) - 1];
            let (open, number) = (&mut ledger.open[shard], report.user_ref.0);
            match report.kind {
                ExecutionKind::Accepted => {
                    open.insert(number, report.leaves.0);
                    self.seen.accepted += 1;
                }
                ExecutionKind::Executed => {
                    let lots = open.get_mut(&number).expect("an open order");
                    *lots -= report.qty.0;
                    if *lots == 0 {
                        open.remove(&number);
                    }
                    let lots = report.qty.0 as i64;
                    let buys = report.side == Side::Buy;
                    ledger.position[shard] += if buys { lots } else { -lots };
                    self.seen.trades += 1;
                }
                ExecutionKind::Canceled => {
                    open.remove(&number).expect("an open order");
                }
                ExecutionKind::Rejected | ExecutionKind::CancelRejected => {}
                other => panic!("{other:?}"),
            }
        }
        applied
    }

    fn account(&mut self) -> AccountId {
        AccountId(1 + self.dice.below(u64::from(ACCOUNTS)) as u16)
    }

    fn trade(&mut self) -> Result<(), String> {
        let shard = self.dice.below(self.shards() as u64) as usize;
        let account = self.account();
        let ledger = &self.ledgers[usize::from(account.0) - 1];
        let open: Vec<u32> = ledger.open[shard].keys().copied().collect();
        if !open.is_empty() && self.dice.below(3) == 0 {
            let number = open[self.dice.below(open.len() as u64) as usize];
            self.apply(shard, cancel(account.0, number));
            return Ok(());
        }
        let side = if self.dice.below(2) == 0 { Side::Buy } else { Side::Sell };
        let lots = 1 + self.dice.below(6);
        self.next_ref += 1;
        let used = self.ledgers[usize::from(account.0) - 1].used(self.kind);
        self.apply(shard, order(account.0, self.next_ref, side, lots, PRICE));
        let answer = self.out.executions[0];
        let own = match self.kind {
            LimitKind::Credit => RejectReason::CreditLimit,
            LimitKind::OpenOrders => RejectReason::OpenOrdersLimit,
            _ => RejectReason::MessageRate,
        };
        let more =
            if self.kind == LimitKind::Credit { u128::from(lots) * PRICE as u128 } else { 1 };
        let whole = used + more <= u128::from(self.limit);
        match answer.reject {
            RejectReason::None => self.take_message(account)?,
            RejectReason::ShardAllotment => {
                self.seen.short += 1;
                let wants = std::iter::from_fn(|| self.engines[shard].next_want());
                let ours = |w: &AllotWant| w.account == account && w.kind == self.kind;
                (wants.filter(ours).count() == 1).then_some(()).ok_or("wanted once")?;
            }
            // One shard alone knows that it is beyond the whole limit.
            reason if reason == own => {
                let known = self.kind == LimitKind::MessageRate || !whole;
                known
                    .then_some(())
                    .ok_or(format!("{reason:?} but {used} used of {}", self.limit))?;
                self.seen.full += 1;
            }
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    /// The whole venue's bucket has a message for it.
    fn take_message(&mut self, account: AccountId) -> Result<(), String> {
        if self.kind != LimitKind::MessageRate {
            return Ok(());
        }
        let ledger = &mut self.ledgers[usize::from(account.0) - 1];
        let full = i128::from(self.limit) * i128::from(SECOND);
        let gained = i128::from(self.now - ledger.last) * i128::from(self.limit);
        ledger.last = self.now;
        ledger.bucket = (ledger.bucket + gained).min(full) - i128::from(SECOND);
        // A shard's interval between messages is rounded down to whole nanoseconds.
        if ledger.bucket < -1_000_000 {
            return Err(format!("{account:?}: more than {} messages a second", self.limit));
        }
        Ok(())
    }

    /// A home grants, or another shard returns, some amount; often more than it may.
    fn move_part(&mut self) {
        let account = self.account();
        let home = usize::from(account.0 - 1) % self.shards();
        let shard = self.dice.below(self.shards() as u64) as usize;
        if shard == home {
            return;
        }
        let at = if self.dice.below(2) == 0 { home } else { shard };
        let other = ShardId(if at == home { shard } else { home } as u16);
        let named = if at == home { other } else { ShardId(at as u16) };
        let totals = self.engines[at].allot_totals(account, self.kind, named).expect("shared");
        let unit = if self.kind == LimitKind::Credit { PRICE as u64 } else { 1 };
        let amount = u128::from((1 + self.dice.below(8)) * unit);
        let (action, total, shard) = match at == home {
            true => (AllotAction::Grant, totals.up + amount, other.0),
            false => (AllotAction::Return, totals.down + amount, 0),
        };
        let record = AllotRecord { action, account, kind: self.kind, shard, total };
        match self.apply(at, record.command()) {
            Applied::Done => {
                self.seen.moved += 1;
                let (action, shard) = match at == home {
                    true => (AllotAction::Accept, 0),
                    false => (AllotAction::TakeBack, at as u16),
                };
                let record = AllotRecord { action, shard, ..record };
                self.letters.push(Letter { to: usize::from(other.0), record });
            }
            _ => self.seen.refused += 1,
        }
    }

    /// Any of the messages arrives, perhaps not for the last time, or is lost until it is repeated.
    fn deliver(&mut self) {
        if self.letters.is_empty() {
            return;
        }
        let at = self.dice.below(self.letters.len() as u64) as usize;
        let letter = self.letters[at];
        match self.dice.below(10) {
            0..6 => _ = self.letters.swap_remove(at),
            6 => {
                self.letters.swap_remove(at);
                return;
            }
            _ => {}
        }
        let _ = self.apply(letter.to, letter.record.command());
    }

    /// A shard begins again with a snapshot of some time ago and the rest of its log.
    fn restore(&mut self) -> Result<(), String> {
        let shard = self.dice.below(self.shards() as u64) as usize;
        let config = self.engines[shard].config().clone();
        let (at, bytes) = &self.snapshots[shard];
        let (mut again, mut out) = (fresh(&config, self.fault), Output::default());
        if !bytes.is_empty() {
            again = Engine::read_snapshot(config, bytes).map_err(|error| error.to_string())?;
            self.fault.into_iter().for_each(|fault| again.allot_wrongly(fault));
        }
        for input in &self.logs[shard][*at..] {
            again.apply(input, &mut out);
        }
        if again.state_digest() != self.engines[shard].state_digest() {
            return Err(format!("shard {shard} is another one after its restore"));
        }
        self.engines[shard] = again;
        self.seen.restored += 1;
        Ok(())
    }

    fn snapshot(&mut self) {
        let shard = self.dice.below(self.shards() as u64) as usize;
        let mut bytes = Vec::new();
        self.engines[shard].write_snapshot(&mut bytes);
        self.snapshots[shard] = (self.logs[shard].len(), bytes);
    }

    fn set_limit(&mut self) {
        if self.kind == LimitKind::MessageRate {
            return;
        }
        let unit = if self.kind == LimitKind::Credit { PRICE as u64 } else { 1 };
        let limit = self.dice.below(30) * unit;
        self.seen.lowered += u64::from(limit < self.limit);
        self.limit = limit;
        self.ceiling = self.ceiling.max(limit);
        for shard in 0..self.shards() {
            let mut command = Command::new(CommandKind::SetLimit);
            (command.param, command.qty) = (self.kind as u8, Qty(limit));
            assert_eq!(self.apply(shard, command), Applied::Done);
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let mut settled = true;
        for account in (1..=ACCOUNTS).map(AccountId) {
            let home = usize::from(account.0 - 1) % self.shards();
            let mut all = 0;
            for (shard, engine) in self.engines.iter().enumerate() {
                let part = engine.allotment(account, self.kind, Nanos(self.now)).expect("shared");
                all += if shard == home { u128::from(part.part) } else { 0 };
                // What was open before a limit was lowered stays open.
                settled &= part.used <= u128::from(part.part);
                if shard != home {
                    let id = ShardId(shard as u16);
                    let here = engine.allot_totals(account, self.kind, id).expect("shared");
                    let there = self.engines[home].allot_totals(account, self.kind, id);
                    let there = there.expect("shared");
                    let granted = there.up.saturating_sub(here.up);
                    let returned = here.down.saturating_sub(there.down);
                    let net = u128::try_from(here.net()).expect("nothing moves with instruments");
                    all += net + granted + returned;
                }
            }
            if all > u128::from(self.ceiling) {
                return Err(format!("{account:?}: parts of {all}, limit {}", self.ceiling));
            }
            let used = self.ledgers[usize::from(account.0) - 1].used(self.kind);
            if self.kind != LimitKind::MessageRate && used > u128::from(self.ceiling) {
                return Err(format!("{account:?}: {used} used of {}", self.ceiling));
            }
            settled &= all <= u128::from(self.limit) && used <= u128::from(self.limit);
        }
        if settled {
            self.ceiling = self.limit;
        }
        Ok(())
    }

    fn run(mut self) -> Result<Seen, String> {
        for _ in 0..STEPS {
            self.now += self.dice.below(SECOND / 10);
            match self.dice.below(20) {
                0..10 => self.trade()?,
                10..14 => self.move_part(),
                14..18 => self.deliver(),
                18 => self.restore()?,
                _ if self.dice.below(4) == 0 => self.set_limit(),
                _ => self.snapshot(),
            }
            self.check()?;
        }
        for (engine, log) in self.engines.iter().zip(&self.logs) {
            let again = replay_from(fresh(engine.config(), self.fault), log, |_, _, _, _| {});
            if again.state_digest() != engine.state_digest() {
                return Err("a replay gives another state".to_string());
            }
        }
        Ok(self.seen)
    }
}

#[test]
fn no_limit_is_exceeded_whatever_is_lost_doubled_reordered_or_restored() {
    let mut all = Seen::default();
    for seed in 0..600 {
        let seen = Venue::new(seed, None).run();
        let seen = seen.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        all.accepted += seen.accepted;
        all.trades += seen.trades;
        all.short += seen.short;
        all.moved += seen.moved;
        all.refused += seen.refused;
        all.restored += seen.restored;
        all.lowered += seen.lowered;
        all.full += seen.full;
    }
    let Seen { accepted, trades, short, moved, refused, restored, lowered, full } = all;
    let all = [accepted, trades, short, moved, refused, restored, lowered, full];
    assert!(all.iter().all(|&count| count > 500), "{all:?}");
}

#[test]
fn control_seeded_mistakes_are_found() {
    for fault in [AllotFault::AcceptAdds, AllotFault::ReturnsWhatIsUsed, AllotFault::GrantsTwice] {
        let found = (0..60).filter_map(|seed| Venue::new(seed, Some(fault)).run().err());
        let found: Vec<String> = found.collect();
        assert!(found.len() > 5, "{fault:?}: {} of 60", found.len());
        let limits = found.iter().all(|error| {
            error.contains("parts of")
                || error.contains("used of")
                || error.contains("messages a second")
        });
        assert!(limits, "{fault:?}: {found:?}");
    }
}

#[test]
fn an_operators_command_for_all_shards_is_carried_out_once_and_in_order() {
    let mut venue = Venue::new(1, None);
    let kill = |number, param| {
        let mut command = Command::new(CommandKind::Kill);
        (command.session_seq, command.param) = (number, param);
        command
    };
    assert_eq!(venue.apply(1, kill(2, 0)), Applied::TooFarAhead);
    assert_eq!(venue.apply(1, kill(1, 1)), Applied::Done);
    assert!(venue.engines[1].is_killed());
    assert_eq!(venue.apply(1, kill(2, 0)), Applied::Done);
    assert_eq!(venue.apply(1, kill(1, 1)), Applied::DuplicateRequest, "it comes late");
    assert!(!venue.engines[1].is_killed());
    assert_eq!((venue.engines[1].directive(), venue.engines[0].directive()), (2, 0));
}

#[test]
fn records_that_make_no_sense_change_nothing() {
    let mut venue = Venue::new(1, None);
    let good = AllotRecord {
        action: AllotAction::Return,
        account: AccountId(1),
        kind: LimitKind::OpenOrders,
        shard: 0,
        total: 1,
    };
    let parts = |venue: &Venue| {
        let part =
            |engine: &Engine| engine.allotment(AccountId(1), LimitKind::OpenOrders, Nanos(0));
        venue.engines.iter().map(part).collect::<Vec<_>>()
    };
    let before = parts(&venue);
    for (at, bad) in [
        (0, good),
        (1, AllotRecord { account: AccountId(0), ..good }),
        (1, AllotRecord { account: AccountId(9), ..good }),
        (1, AllotRecord { shard: 1, ..good }),
        (1, AllotRecord { total: 0, ..good }),
        (1, AllotRecord { total: 1 << 90, ..good }),
        (1, AllotRecord { action: AllotAction::Grant, ..good }),
        (0, AllotRecord { action: AllotAction::Grant, total: 1 << 90, shard: 1, ..good }),
        (0, AllotRecord { action: AllotAction::Grant, total: 1 << 90, shard: 99, ..good }),
        (0, AllotRecord { action: AllotAction::TakeBack, total: 1 << 90, shard: 1, ..good }),
        (0, AllotRecord { action: AllotAction::TakeBack, ..good }),
    ] {
        assert_eq!(venue.apply(at, bad.command()), Applied::Refused, "{bad:?}");
    }
    assert_eq!(parts(&venue), before);
}
