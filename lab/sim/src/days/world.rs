//! One seed: the venue, its days and nights, and the checks.

pub(super) mod soak;

use std::collections::BTreeMap;

use engine::schedule::{DayTimes, Plan, Schedule, Zone};
use engine::statement::{Ledger, Statement, Tape, reconcile};
use engine::{Engine, InstrumentRules, Limits, Output};
use exchange::{
    AccessConfig, Account, ExchangeConfig, Life, LoginTerms, OverlayOptions, Role, Root, Secret,
    Throttle, Timetable, audit, deploy, listener, subscriber,
};
use feed::Subscriber;
use types::{
    AccountId, Channel, Command, CommandKind, Instrument, InstrumentId, InstrumentParam, Nanos,
    NodeId, Price, Qty, Side, SplitMix64, Symbol, TimeInForce, later_session, limits,
};

use super::actor::{Actor, Eyes};
use super::{Counts, Options, Report, Sabotage, Trader};
use crate::clock::SimClock;
use crate::link::LinkModel;
use crate::world::{Fault, Place, World, address};

const MILLI: u64 = Nanos::MILLI;
const SECOND: u64 = Nanos::SECOND;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// 2 March 2026, a Monday: half a second before the venue's day begins.
const START: Nanos = Nanos(20_514 * DAY + OPENS - SECOND / 2);
/// The venue's day, ns since its midnight.
const OPENS: u64 = 8 * HOUR;
const CALL: u64 = OPENS + 300 * MILLI;
const TRADES: u64 = OPENS + 600 * MILLI;
const CLOSING: u64 = TRADES + 2_400 * MILLI;
const CLOSES: u64 = CLOSING + 200 * MILLI;
const ENDS: u64 = CLOSES + 200 * MILLI;
/// Patience with what has to become quiet.
const PATIENCE_NS: u64 = 20 * SECOND;
const STEP_NS: u64 = 2 * MILLI;
const TRADERS: usize = 4;
pub(super) const RECEIVERS: usize = 4;
/// Channel of order entry.
const ENTRY: Channel = Channel(2);
/// The day on which the late listener comes.
const LATE_DAY: u64 = 3;
/// Failures told of a seed.
const TOLD_MAX: usize = 8;

/// Statements of accounts and instruments at one moment.
pub type Ledgers = BTreeMap<(AccountId, InstrumentId), Statement>;

/// One day of a seed.
#[derive(Clone, Debug)]
pub struct Day {
    /// The feed's session, as the public calls it.
    pub session: [u8; 10],
    /// Inputs of the log up to its end, those of earlier days included.
    pub inputs: u64,
    /// What the statements are at its end, since the first day.
    pub statements: Ledgers,
    /// Orders that are open when it has ended.
    pub open: usize,
    /// Trades of it.
    pub trades: u64,
}

fn instruments() -> Vec<Instrument> {
    let instrument = |(index, name): (usize, &&str)| Instrument {
        id: InstrumentId(index as u16 + 1),
        symbol: Symbol::new(name).expect("a symbol"),
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 0,
    };
    ["ALFA", "BRAVO", "CHARL", "DELTA"].iter().enumerate().map(instrument).collect()
}

fn schedule(times: &DayTimes, start: Nanos) -> Schedule {
    let plan = Plan { weekdays: Plan::ALL_DAYS, ..Plan::with_auctions(times) };
    Schedule::new(plan, Zone::utc(), start).expect("a sound plan")
}

/// Some seconds, with everything that a day has.
const SHORT: DayTimes = DayTimes {
    pre_open: OPENS,
    opening_call: CALL,
    open: TRADES,
    closing_call: CLOSING,
    close: CLOSES,
    end: ENDS,
    indicative_every_ns: 100 * MILLI,
};

fn config(seed: u64) -> ExchangeConfig {
    let account = |index: usize| Account {
        firm: String::new(),
        id: AccountId(index as u16 + 1),
        username: format!("P{index}"),
        password: format!("secret{index}"),
        terms: LoginTerms::default(),
        cancel_on_disconnect: false,
        throttle: Throttle::UNLIMITED,
        fix: None,
    };
    let mut rules: Vec<_> = instruments().iter().map(InstrumentRules::of).collect();
    // The last one is traded from the third day on.
    rules[3].held = false;
    ExchangeConfig {
        depth: 2,
        fanout: 2,
        receivers: RECEIVERS,
        hedge: 1,
        dynamic_parents: true,
        round_ns: 50 * MILLI,
        delay_window: 200,
        delay_permille: 950,
        delay_cap_ns: 5 * MILLI,
        sequencer_window_ns: 300 * Nanos::MICRO,
        linger_ns: 0,
        execution_hold_max_ns: 5 * SECOND,
        cancel_grace_ns: SECOND,
        durable: true,
        outstanding: 1_024,
        connections_max: 64,
        access: AccessConfig::default(),
        // Less than a day: whoever comes later has to do without.
        store: overlay::retransmission::StoreConfig { datagrams: 512, ..Default::default() },
        log_capacity: 1 << 20,
        open_orders_max: 1 << 14,
        unique_ids: false,
        levels_max: 1 << 12,
        trades_kept: 1 << 12,
        instruments: instruments(),
        rules,
        limits: Limits::NONE,
        self_trade: Vec::new(),
        timetable: Timetable::empty().with_schedule(schedule(&SHORT, START)),
        accounts: (0..TRADERS).map(account).collect(),
        fix_comp_id: "FAIRBELL".to_string(),
        session: *b"FAIRBELL01",
        midnight: Nanos(START.0 / DAY * DAY),
        seed,
        shard: Default::default(),
        options: OverlayOptions {
            tokens: Some(Secret([0x70; 32])),
            roll_call: Some(overlay::membership::RollCallConfig::default()),
            ..OverlayOptions::default()
        },
    }
}

/// The configuration of the venue's engine, which its log is replayed with.
pub fn engine_config() -> engine::Config {
    config(0).engine()
}

/// One seed being run.
struct Run<'o> {
    options: &'o Options,
    config: ExchangeConfig,
    world: World<Actor>,
    eyes: Eyes,
    rng: SplitMix64,
    first_edge: usize,
    first_listener: usize,
    late: usize,
    first_trader: usize,
    day: u64,
    /// The log so far once more: its engine, and what everybody was told.
    engine: Engine,
    ledger: Ledger,
    tape: Tape,
    trades: u64,
    report: Report,
}

/// Runs one seed.
///
/// # Panics
/// When the built-in venue makes no exchange, which a test would find.
pub fn run_seed(seed: u64, options: &Options) -> Report {
    let mut run = Run::new(seed, (options, config(seed), START), |_| ());
    for day in 0..u64::from(options.days.max(2)) {
        run.day = day;
        if !run.trading_day() {
            break;
        }
        run.night();
    }
    run.conclude()
}

impl<'o> Run<'o> {
    /// A venue at `start`; `prepare` is given its nodes before anything happens.
    fn new(
        seed: u64,
        (options, config, start): (&'o Options, ExchangeConfig, Nanos),
        prepare: impl FnOnce(&mut [Role]),
    ) -> Run<'o> {
        let link = LinkModel {
            base_ns: 200 * Nanos::MICRO,
            jitter_ns: 40 * Nanos::MICRO,
            jitter_sigma: 0.6,
            loss_permille: 10,
            duplicate_permille: 5,
            reorder_permille: 10,
            reorder_ns: MILLI,
        };
        let mut world = World::new(seed, start, link);
        let tree = config.tree().expect("a possible tree").topology;
        let first_edge = 1 + tree.proxy_ids().count();
        let first_listener = first_edge + RECEIVERS;
        let late = first_listener + RECEIVERS;
        let first_trader = late + 1;
        let feed_of = |index: usize| address(first_listener + index, Channel::FEED);
        let life = Life::of(SplitMix64::mix(seed));
        let mut nodes = deploy(&config, life, feed_of).expect("a possible exchange");
        prepare(&mut nodes);
        for (id, node) in nodes.into_iter().enumerate() {
            let overlay = Some(NodeId(id as u16));
            let listens = node.as_edge().is_some();
            let place = Place { overlay, listens, clock: SimClock::default(), ..Place::default() };
            world.add(Actor::Role(Box::new(node)), place);
        }
        let hears = |index: usize, from: Nanos| {
            let mut settings = listener(&config, vec![address(0, Channel::FEED)]);
            settings.sources = Some(vec![address(first_edge + index, Channel::FEED)]);
            (settings.checkpoint_every, settings.hears_from) = (64, from);
            let node = Role::Listener(Box::new(subscriber(&config, &settings)));
            Actor::Role(Box::new(node))
        };
        for index in 0..RECEIVERS {
            world.add(hears(index, Nanos(0)), Place::default());
        }
        world.add(hears(0, Nanos(start.0 + LATE_DAY * DAY)), Place::default());
        for index in 0..TRADERS {
            let gateway = |step| address(first_edge + (index + step) % RECEIVERS, ENTRY);
            let gateways = (0..RECEIVERS).map(gateway).collect();
            let account = &config.accounts[index];
            let mut trader = Trader::new(&account.username, &account.password, gateways);
            if index == 1 && options.sabotage == Some(Sabotage::ForgetFill) {
                trader.forgets_every = 7;
            }
            world.add(Actor::Trader(Box::new(trader)), Place::default());
        }
        world.poke(first_edge, &mut crate::world::NoTap, |actor, _, _| {
            if let Actor::Role(role) = actor
                && let Some(edge) = role.as_edge_mut()
            {
                edge.subscribe(address(late, Channel::FEED));
            }
        });
        let eyes = Eyes {
            sabotage: options.sabotage,
            first_session: config.session,
            edge: first_edge + 1,
            root: 0,
            deaf: first_listener + 2,
            lost: None,
        };
        Run {
            engine: Engine::new(config.engine()),
            ledger: Ledger::default(),
            tape: Tape::default(),
            trades: 0,
            rng: SplitMix64::new(seed ^ 0xDA15),
            day: 0,
            report: Report::default(),
            options,
            config,
            world,
            eyes,
            first_edge,
            first_listener,
            late,
            first_trader,
        }
    }

    fn fail(&mut self, what: impl Into<String>) {
        if self.report.failures.len() < TOLD_MAX {
            let day = self.day + 1;
            self.report.failures.push(format!("day {day}: {}", what.into()));
        }
    }

    fn root(&self) -> &Root {
        self.world.node(0).and_then(Actor::root).expect("the root lives")
    }

    fn listeners(&self) -> impl Iterator<Item = (usize, &Subscriber)> {
        let late = (self.day >= LATE_DAY).then_some(self.late);
        let all = (self.first_listener..self.first_listener + RECEIVERS).chain(late);
        all.filter_map(|index| Some((index, self.world.node(index)?.listener()?)))
    }

    fn traders(&self) -> impl Iterator<Item = &Trader> {
        let all = self.first_trader..self.first_trader + TRADERS;
        all.filter_map(|index| self.world.node(index)?.trader())
    }

    /// True time of a time of this day; all clocks show it, whatever nights lie before.
    fn at(&self, time: u64) -> Nanos {
        Nanos(START.0 - (OPENS - SECOND / 2) + self.day * DAY + time)
    }

    /// Everybody has heard everything that the feed has.
    fn all_heard(&self) -> bool {
        let due = self.root().publisher().session();
        let next = self.root().engine().feed_next().0 - due.base();
        self.listeners().all(|(_, listener)| {
            let of = &listener.channels()[0];
            of.session().0 == due.name() && of.session_next().0 == next
        })
    }

    /// Runs until something holds between two events; whether it came to.
    fn until(&mut self, what: &str, done: impl Fn(&Run<'_>) -> bool) -> bool {
        let limit = self.world.now().after(PATIENCE_NS);
        while !done(self) {
            if self.world.now() >= limit {
                let heard: Vec<_> = self
                    .listeners()
                    .map(|(_, of)| (of.channels()[0].session(), of.channels()[0].session_next().0))
                    .map(|(session, next)| (String::from_utf8_lossy(&session.0).into_owned(), next))
                    .collect();
                let due = self.root().publisher().session();
                let next = self.root().engine().feed_next().0 - due.base();
                let name = String::from_utf8_lossy(&due.name()).into_owned();
                let asked: Vec<bool> = self.traders().map(Trader::is_quiet).collect();
                self.fail(format!(
                    "{what} did not come: the feed is at {name} {next}, listeners at {heard:?}, \
                     traders quiet: {asked:?}"
                ));
                return false;
            }
            let step = self.world.now().after(STEP_NS);
            self.world.run_until(step, &mut self.eyes);
        }
        true
    }

    fn run_to(&mut self, time: u64) {
        let at = self.at(time);
        self.world.run_until(at, &mut self.eyes);
    }

    /// One day, from before it begins until it has ended and everybody knows; false when it can't go on.
    fn trading_day(&mut self) -> bool {
        self.run_to(OPENS + 100 * MILLI);
        if !self.until("the beginning of the day", |run| run.root().engine().is_open()) {
            return false;
        }
        if !self.until("the opening of the feed", |run| run.all_heard()) {
            return false;
        }
        self.check_opening();
        self.run_to(CALL + 50 * MILLI);
        self.faults();
        self.orders(CALL + 60 * MILLI, TRADES - 50 * MILLI, self.options.requests / 8);
        self.run_to(TRADES + 20 * MILLI);
        self.orders(TRADES + 20 * MILLI, CLOSING - 300 * MILLI, self.options.requests);
        self.actions();
        self.run_to(ENDS + 100 * MILLI);
        let ended = self.until("the end of the day", |run| run.root().engine().is_between_days());
        let quiet = |run: &Run<'_>| run.traders().all(Trader::is_quiet) && run.all_heard();
        if !ended || !self.until("quiet after the day", quiet) {
            return false;
        }
        // Nothing is on its way to a trader any more.
        let later = self.world.now().after(200 * MILLI);
        self.world.run_until(later, &mut self.eyes);
        self.check_end()
    }

    /// Random requests between two times of the day.
    fn orders(&mut self, from: u64, until: u64, count: u32) {
        let distance = (until - from) / u64::from(count.max(1));
        for number in 0..u64::from(count) {
            let at = self.at(from + number * distance);
            self.world.run_until(at, &mut self.eyes);
            self.request(usize::MAX);
        }
    }

    /// A random request of a random trader, who cancels once so many orders are open.
    fn request(&mut self, open_max: usize) {
        let trader = self.first_trader + self.rng.below(TRADERS as u64) as usize;
        let instrument = self.config.instruments[self.rng.below(4) as usize];
        let side = [Side::Buy, Side::Sell][self.rng.below(2) as usize];
        let (qty, step) = (1 + self.rng.below(20), self.rng.below(21) as i64);
        let price = Price(1_000_000 + 100 * (step - 10));
        let stays = self.rng.below(5) < 2;
        let time_in_force = if stays { TimeInForce::GoodTillCancelled } else { TimeInForce::Day };
        let cancels = self.rng.below(6) == 0;
        let pick = self.rng.next_u64();
        self.world.poke(trader, &mut self.eyes, |actor, now, out| {
            let Actor::Trader(trader) = actor else { return };
            match cancels || trader.open_orders() >= open_max {
                true => trader.cancel(now.now, pick, out),
                false => {
                    let of = (instrument.id, instrument.symbol);
                    trader.enter(now.now, of, (side, qty, price), time_in_force, out);
                }
            }
        });
    }

    /// A proxy is away for a while, and connections are cut, in the middle of the day.
    fn faults(&mut self) {
        let from = self.at(TRADES + 300 * MILLI);
        let span = 1_200 * MILLI;
        let proxy = 1 + self.rng.below(self.first_edge as u64 - 1) as usize;
        let (start, end) = (from.after(self.rng.below(span)), from.after(span + 100 * MILLI));
        self.world.links_mut().isolate(proxy, start, end);
        self.report.counts.proxies_restarted += 1;
        for _ in 0..2 {
            let at = from.after(self.rng.below(span));
            let edge = self.first_edge + self.rng.below(RECEIVERS as u64) as usize;
            let pick = self.rng.next_u64();
            self.world.fault(at, Fault::CutStream(edge, pick));
        }
    }

    /// What an operator changes from the next day on.
    fn actions(&mut self) {
        let set = |instrument: u16, param: InstrumentParam, price: i64, qty: u64| Command {
            instrument: InstrumentId(instrument),
            param: param as u8,
            price: Price(price),
            qty: Qty(qty),
            ..Command::new(CommandKind::SetInstrument)
        };
        let command = match self.day {
            0 => set(2, InstrumentParam::Tick, 500, 0),
            1 => set(4, InstrumentParam::Listed, 0, 1),
            3 => set(1, InstrumentParam::Listed, 0, 0),
            5 => set(3, InstrumentParam::Tick, 200, 0),
            _ => return,
        };
        let mut done = false;
        self.world.poke(0, &mut self.eyes, |actor, now, out| {
            let Actor::Role(role) = actor else { return };
            let given = role.with_root(out, |root, out| root.operator(now, command, out));
            done = given.flatten() == Some(engine::Applied::Done);
        });
        if !done {
            self.fail(format!("{command:?} was refused"));
        }
    }

    /// Books of all listeners are the engine's.
    fn compare_books(&mut self, when: &str) {
        let mut wrong = Vec::new();
        let engine = self.root().engine();
        for (index, listener) in self.listeners() {
            for instrument in &self.config.instruments {
                let image = listener.channels()[0].image();
                let (ours, theirs) =
                    (engine.displayed_digest(instrument.id), image.digest(instrument.id));
                if ours != theirs {
                    let listener = index - self.first_listener + 1;
                    let symbol = instrument.symbol;
                    wrong.push(format!("{when}: listener {listener} has another book of {symbol}"));
                }
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }

    /// A day has begun: each listener has the day's session, and the open orders.
    fn check_opening(&mut self) {
        self.compare_books("at the beginning");
        let due = later_session(self.config.session, self.day as u16);
        let named = self.root().publisher().session().name();
        if named != due {
            self.fail(format!("the session is {named:?}, not {due:?}"));
        }
        self.report.counts.rolls += u64::from(self.day > 0);
    }

    /// A day has ended: books, feed, statements and ledgers tell of the same.
    fn check_end(&mut self) -> bool {
        self.compare_books("at the end");
        let listeners: Vec<_> = self.listeners().map(|(_, listener)| listener.channels()).collect();
        let found = audit(self.root(), listeners);
        let all = found.problems.iter().cloned();
        let all: Vec<String> =
            all.chain(found.unequal.iter().map(|at| format!("{at:?}"))).collect();
        let unaudited = !found.books_equal && all.is_empty();
        all.into_iter().for_each(|problem| self.fail(problem));
        if unaudited {
            self.fail("the audit compared nothing");
        }
        self.check_counters();
        self.settle_day();
        self.check_ledgers();
        self.report.failures.is_empty()
    }

    /// Nobody met what can't be read, written or numbered.
    fn check_counters(&mut self) {
        let mut wrong = Vec::new();
        for (index, listener) in self.listeners() {
            let counters = listener.counters();
            if counters.parse_errors + counters.image_errors > 0 {
                let listener = index - self.first_listener + 1;
                wrong.push(format!("listener {listener}: {counters:?}"));
            }
        }
        let counters = self.root().counters();
        if counters.unencodable + counters.log_full + counters.malformed > 0 {
            wrong.push(format!("the root: {counters:?}"));
        }
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }

    /// Applies the day's inputs to an engine of its own, and draws up the statements.
    fn settle_day(&mut self) {
        let log: Vec<types::Input> = self.root().applied().collect();
        let mut out = Output::default();
        for input in log.iter().skip(self.engine.applied() as usize) {
            out.clear();
            let _ = self.engine.apply(input, &mut out);
            out.executions.iter().for_each(|report| self.ledger.take(report));
            out.market.iter().for_each(|(_, event)| self.tape.take(event));
        }
        let differences = reconcile(&self.ledger, &self.tape, &self.engine);
        differences.iter().for_each(|difference| self.fail(format!("{difference:?}")));
        if self.engine.state_digest() != self.root().engine().state_digest() {
            self.fail("the log does not give the live engine");
        }
        let trades = self.ledger.trades().count() as u64;
        let day = Day {
            session: self.root().publisher().session().name(),
            inputs: log.len() as u64,
            statements: self.ledger.statements(),
            open: self.engine.open_orders(),
            trades: trades - std::mem::replace(&mut self.trades, trades),
        };
        self.report.counts.carried += day.open as u64;
        self.report.days.push(day);
        self.report.log = log;
    }

    /// Every trader's own ledger against its statement.
    fn check_ledgers(&mut self) {
        let statements = self.ledger.statements();
        let mut wrong = Vec::new();
        for (account, trader) in (1..).map(AccountId).zip(self.traders()) {
            for instrument in self.config.instruments.iter().map(|one| one.id) {
                let dealt = trader.dealings().get(&instrument).copied().unwrap_or_default();
                let open = trader.open().values().filter(|open| open.instrument == instrument);
                let lots = open.clone().map(|open| open.open).sum::<u64>();
                let own = Statement {
                    orders: dealt.orders,
                    bought: dealt.bought.0,
                    sold: dealt.sold.0,
                    bought_value: dealt.bought.1,
                    sold_value: dealt.sold.1,
                    open_orders: open.clone().count() as u64,
                    open_lots: lots,
                    moved: 0,
                };
                let told = statements.get(&(account, instrument)).copied().unwrap_or_default();
                if own != told {
                    wrong.push(format!(
                        "account {account}, instrument {instrument}: its ledger {own:?}, its \
                         statement {told:?}"
                    ));
                }
            }
            if trader.open().values().any(|open| open.for_the_day) || trader.malformed() > 0 {
                let malformed = trader.malformed();
                wrong.push(format!("account {account}: day orders are open, or {malformed} wrong"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail(wrong));
    }

    /// All clocks go on to the next morning: what is quiet stays so. The clocks of this world are right,
    /// so true time goes on, too, without events: nobody has anything to do but to notice the time.
    fn night(&mut self) {
        let now = self.world.now();
        let morning = Nanos(self.at(OPENS).0 + DAY - SECOND / 2);
        self.world.skip(morning.0 - now.0);
    }

    fn conclude(mut self) -> Report {
        let mut counts = self.report.counts;
        counts.trades = self.trades;
        counts.messages = self.root().engine().feed_next().0 - 1;
        counts.lost = self.world.links().total().dropped;
        for trader in self.traders() {
            counts.orders += trader.dealings().values().map(|dealt| dealt.orders).sum::<u64>();
            counts.day_ends += trader.cancels(b'T');
            counts.delisted += trader.cancels(b'D');
            counts.off_tick += trader.cancels(b't');
            let (_, refused, logins) = trader.counts();
            (counts.refused, counts.logins) = (counts.refused + refused, counts.logins + logins);
        }
        counts.repaired = self.listeners().map(|(_, of)| of.counters().repaired).sum();
        if self.report.days.len() < self.options.days as usize && self.report.failures.is_empty() {
            self.fail("not all days came to their end");
        }
        self.report.counts = counts;
        self.report
    }
}

/// Counts of a seed that was whole.
impl Counts {
    /// Whether every kind of thing happened that a week of days is about.
    pub fn is_rich(&self) -> bool {
        self.all().iter().all(|(_, count)| *count > 0)
    }
}
