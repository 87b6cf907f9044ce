//! The loop: recorded events, the strategy's requests and its news, in order of time.

use std::collections::{BTreeMap, VecDeque};

use engine::Engine;
use feed::StreamDigest;
use strategy::{Report, Request, Seat, Strategy};
use types::{
    Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId, Liquidity, MarketEvent,
    Nanos, ORDER_POST_ONLY, Qty, SelfTrade, Side, SplitMix64, UserRefNum,
};
use wire::itch::Encoder;
use zerocopy::IntoBytes;

use crate::account::{Account, Fees, Fill};
use crate::calls::{Turn, implied};
use crate::equality::{Comparison, Equality};
use crate::market::Market;
use crate::observer::{Observer, Unobserved};
use crate::outcome::{Markout, Outcome, Point};
use crate::record::{Record, Recording, What};
use crate::venue::{STRATEGY, Told, Venue};

const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// How long something is on its way: never less than `ns`, up to `jitter_ns` more, first in first
/// out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delay {
    /// Smallest delay, ns.
    pub ns: u64,
    /// Largest additional delay, uniform, ns.
    pub jitter_ns: u64,
}

/// Settings of a backtest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Delay of news from the exchange to the strategy.
    pub feed: Delay,
    /// Delay of requests from the strategy to the exchange.
    pub orders: Delay,
    /// Seed of the delays' jitter.
    pub seed: u64,
    /// Fees that the strategy's trades cost.
    pub fees: Fees,
    /// After which time trades are judged by the middle.
    pub markout: Nanos,
    /// Points of the course, at most.
    pub points: usize,
    /// What happens when an order of the strategy would trade with another of its own.
    pub self_trade: SelfTrade,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            feed: Delay { ns: 100_000, jitter_ns: 0 },
            orders: Delay { ns: 100_000, jitter_ns: 0 },
            seed: 1,
            fees: Fees::default(),
            markout: Nanos(Nanos::SECOND),
            points: 1_000,
            self_trade: SelfTrade::CancelNewest,
        }
    }
}

/// A queue with a delay.
#[derive(Debug)]
struct Line<T> {
    delay: Delay,
    random: SplitMix64,
    queue: VecDeque<(Nanos, T)>,
    last: Nanos,
}

impl<T> Line<T> {
    fn new(delay: Delay, seed: u64) -> Line<T> {
        Line { delay, random: SplitMix64::new(seed), queue: VecDeque::new(), last: Nanos(0) }
    }

    /// Sends all at `now`: they arrive together.
    fn send(&mut self, now: Nanos, all: impl IntoIterator<Item = T>) {
        let mut all = all.into_iter().peekable();
        if all.peek().is_some() {
            let extra = match self.delay.jitter_ns {
                0 => 0,
                jitter => self.random.next_u64() % (jitter + 1),
            };
            let due = Nanos(now.0.saturating_add(self.delay.ns).saturating_add(extra));
            self.last = self.last.max(due);
            let due = self.last;
            self.queue.extend(all.map(|one| (due, one)));
        }
    }

    fn due(&self) -> Nanos {
        self.queue.front().map_or(Nanos(u64::MAX), |(due, _)| *due)
    }

    fn pop(&mut self, due: Nanos) -> Option<T> {
        self.queue.pop_front_if(|(at, _)| *at == due).map(|(_, one)| one)
    }
}

struct Run<'s> {
    venue: Venue,
    market: Market,
    news: Line<Told>,
    requests: Line<Command>,
    strategy: &'s mut dyn Strategy,
    observer: &'s mut dyn Observer,
    seat: Seat,
    encoder: Encoder,
    bytes: Vec<u8>,
    midnight: Nanos,
    /// As the exchange knows it: trades count when they happen.
    account: Account,
    judged: VecDeque<(Nanos, Fill)>,
    middles: BTreeMap<InstrumentId, i64>,
    /// Twice the price at which the strategy traded last: before there is a middle.
    traded: BTreeMap<InstrumentId, i64>,
    best: i128,
    instruments: Vec<types::Instrument>,
    config: Config,
    step: u64,
    next_point: u64,
    digest: StreamDigest,
    outcome: Outcome,
}

/// Orders that live at once, at most, by the record.
fn peak(recording: &Recording) -> usize {
    let (mut live, mut peak) = (0_usize, 0);
    for record in recording.records() {
        match record.what {
            What::Add { .. } => live += 1,
            What::Delete { .. } => live = live.saturating_sub(1),
            _ => {}
        }
        peak = peak.max(live);
    }
    peak
}

fn engine_config(recording: &Recording, self_trade: SelfTrade) -> engine::Config {
    let mut config = engine::Config::new(recording.instruments().to_vec());
    let orders = (peak(recording) + (1 << 12)).min(1 << 24) as u32;
    config.book = book::Capacity { orders, levels: orders, stops: 1 << 8, pegs: 1 << 8 };
    (config.accounts_max, config.gateways_max) = (4, 2);
    config.self_trade = vec![SelfTrade::Allow; usize::from(STRATEGY.0)];
    if let Some(rule) = config.self_trade.last_mut() {
        *rule = self_trade;
    }
    config
}

/// Plays `recording` with `strategy` in it. An empty recording, or one without instruments, gives
/// `None`.
pub fn run(recording: &Recording, config: Config, strategy: &mut dyn Strategy) -> Option<Outcome> {
    run_observed(recording, config, strategy, &mut Unobserved)
}

/// The same, and `observer` is told of every trade and best price.
pub fn run_observed(
    recording: &Recording,
    config: Config,
    strategy: &mut dyn Strategy,
    observer: &mut dyn Observer,
) -> Option<Outcome> {
    play(recording, config, strategy, observer, &implied(recording))
}

fn play(
    recording: &Recording,
    config: Config,
    strategy: &mut dyn Strategy,
    observer: &mut dyn Observer,
    mut turns: &[Turn],
) -> Option<Outcome> {
    let (first, last) = (recording.records().first()?, recording.records().last()?);
    recording.instruments().first()?;
    let mut run = Run::new(recording, config, (strategy, observer), (first.time, last.time));
    run.publish(first.time);
    let mut comparison = Comparison::new(recording);
    let mut before = first.time;
    for (record, index) in recording.records().iter().zip(0..) {
        let now = turns.iter().take_while(|turn| turn.index <= index).count();
        let (due, later) = turns.split_at(now);
        turns = later;
        // A call that is over ended with the event before.
        for turn in due.iter().filter(|turn| !turn.begins) {
            run.turn(before, turn);
        }
        run.until(record.time);
        if run.strategy.failure().is_some() {
            break;
        }
        for turn in due.iter().filter(|turn| turn.begins) {
            run.turn(record.time, turn);
        }
        run.tape(record);
        run.market.apply(record, &mut run.venue);
        run.middle(record.instrument);
        run.publish(record.time);
        let Run { venue, observer, .. } = &mut run;
        let is_open = |instrument| venue.is_trading(instrument);
        comparison
            .take(index + 1, &venue.engine, is_open, |found| observer.best(record.time, found));
        before = record.time;
    }
    // What was on its way arrives.
    run.until(Nanos(last.time.0.saturating_add(10 * Nanos::SECOND)));
    run.outcome.equality = comparison.equality;
    Some(run.finish(last.time))
}

impl<'s> Run<'s> {
    fn new(
        recording: &Recording,
        config: Config,
        (strategy, observer): (&'s mut dyn Strategy, &'s mut dyn Observer),
        span: (Nanos, Nanos),
    ) -> Run<'s> {
        let engine = engine_config(recording, config.self_trade);
        let midnight = Nanos(span.0.0 - span.0.0 % DAY_NS);
        Run {
            seat: Seat::new(1, engine.book.orders as usize + 1, None),
            venue: Venue::new(engine, span.0),
            market: Market::default(),
            news: Line::new(config.feed, config.seed),
            requests: Line::new(config.orders, SplitMix64::mix(config.seed)),
            strategy,
            observer,
            encoder: Encoder::new(recording.instruments(), midnight),
            bytes: Vec::with_capacity(64),
            midnight,
            account: Account::new(config.fees),
            judged: VecDeque::new(),
            middles: BTreeMap::new(),
            traded: BTreeMap::new(),
            best: 0,
            instruments: recording.instruments().to_vec(),
            config,
            step: ((span.1.0 - span.0.0) / config.points.max(1) as u64).max(1),
            next_point: span.0.0,
            digest: StreamDigest::default(),
            outcome: Outcome {
                market: Default::default(),
                missing: (0, 0),
                orders: 0,
                cancels: 0,
                refused: 0,
                fills: Vec::new(),
                account: Account::default(),
                equity: 0,
                drawdown: 0,
                lots_max: 0,
                made: Markout::default(),
                taken: Markout::default(),
                points: Vec::new(),
                unpriced: Vec::new(),
                equality: Equality::default(),
                prints: 0,
                digest: 0,
                span,
            },
        }
    }

    /// Everything that is due before a recorded event at `end`, which is first at its own time.
    fn until(&mut self, end: Nanos) {
        loop {
            let (request, news) = (self.requests.due(), self.news.due());
            let due = request.min(news);
            if due >= end {
                return;
            }
            if request <= news {
                if let Some(command) = self.requests.pop(due) {
                    self.venue.request(due, &command);
                    self.market.heed(&mut self.venue);
                    self.publish(due);
                }
            } else {
                self.hear(due);
            }
        }
    }

    /// What the engine has told goes out.
    fn publish(&mut self, now: Nanos) {
        for told in &self.venue.told {
            if let Told::Report(report) = told {
                self.digest.push(report.as_bytes());
                middle(&self.venue.engine, report.instrument, &mut self.middles);
                if report.kind == ExecutionKind::Executed {
                    let fill = fill(report);
                    self.observer.fill(&fill);
                    self.account.fill(&fill);
                    self.traded.insert(fill.instrument, fill.price.0.saturating_mul(2));
                    self.outcome.fills.push(fill);
                    self.judged.push_back((Nanos(now.0 + self.config.markout.0), fill));
                    let lots = self.account.holding(fill.instrument).lots.unsigned_abs();
                    self.outcome.lots_max = self.outcome.lots_max.max(lots);
                }
            }
        }
        self.news.send(now, self.venue.told.drain(..));
        self.judge(now);
        if now.0 >= self.next_point {
            self.point(now);
        }
    }

    fn turn(&mut self, now: Nanos, turn: &Turn) {
        self.market.turn(now, turn, &mut self.venue);
        self.middle(turn.instrument);
        self.publish(now);
    }

    /// What the record says of trades goes out.
    fn tape(&mut self, record: &Record) {
        let open = self.venue.is_trading(record.instrument);
        if let Some(trade) = self.market.trade(record, open) {
            self.observer.trade(&trade);
            self.outcome.prints += 1;
            self.venue.told.push(Told::Trade(trade));
        }
    }

    fn middle(&mut self, instrument: InstrumentId) -> i64 {
        middle(&self.venue.engine, instrument, &mut self.middles)
    }

    /// Trades that are old enough, by the middle as it is now.
    fn judge(&mut self, now: Nanos) {
        while let Some((_, fill)) = self.judged.pop_front_if(|(due, _)| *due <= now) {
            let twice = self.middle(fill.instrument);
            if twice > 0 {
                let made = fill.liquidity == Liquidity::Added;
                let outcome = &mut self.outcome;
                let markout = if made { &mut outcome.made } else { &mut outcome.taken };
                let gain = i128::from(twice - 2 * fill.price.0) * i128::from(fill.lots()) / 2;
                markout.gain += gain;
                markout.lots += fill.qty.0;
            }
        }
    }

    fn equity(&mut self) -> i128 {
        let (engine, middles) = (&self.venue.engine, &mut self.middles);
        for instrument in &self.instruments {
            middle(engine, instrument.id, middles);
        }
        let known = |id| self.middles.get(&id).or_else(|| self.traded.get(&id)).copied();
        self.account.equity(|id| known(id).unwrap_or(0))
    }

    fn point(&mut self, now: Nanos) {
        self.next_point = now.0 - now.0 % self.step + self.step;
        let equity = self.equity();
        self.best = self.best.max(equity);
        self.outcome.drawdown = self.outcome.drawdown.max(self.best - equity);
        let first = InstrumentId(1);
        let twice_middle = self.middle(first);
        let lots = self.account.holding(first).lots;
        self.outcome.points.push(Point { time: now, equity, lots, twice_middle });
    }

    /// Hands the strategy the news that reaches it at `now`.
    fn hear(&mut self, now: Nanos) {
        while let Some(told) = self.news.pop(now) {
            match told {
                Told::Market(event) => self.show(&event, now),
                Told::Trade(trade) => self.seat.trade(trade),
                Told::Report(report) => {
                    self.outcome.refused += u64::from(matches!(
                        report.kind,
                        ExecutionKind::Rejected | ExecutionKind::CancelRejected
                    ));
                    self.seat.report(Report::from(&report));
                }
            }
        }
        self.seat.tell(now, self.strategy);
        let requests: Vec<Command> =
            self.seat.requests().map(|request| command(&request)).collect();
        for request in &requests {
            let cancel = request.kind == CommandKind::Cancel;
            *if cancel { &mut self.outcome.cancels } else { &mut self.outcome.orders } += 1;
        }
        self.requests.send(now, requests);
    }

    /// An event as participants get it, into the strategy's books.
    fn show(&mut self, event: &MarketEvent, now: Nanos) {
        let midnight = Nanos(now.0 - now.0 % DAY_NS);
        if midnight != self.midnight {
            self.midnight = midnight;
            self.encoder = Encoder::new(&self.instruments, midnight);
        }
        self.bytes.clear();
        if self.encoder.encode(event, now, &mut self.bytes).is_ok() {
            self.digest.push(&self.bytes);
            self.seat.message(0, &self.bytes);
        }
    }

    fn finish(mut self, end: Nanos) -> Outcome {
        self.judge(end);
        self.point(end);
        self.outcome.equity = self.equity();
        let open = |id: InstrumentId| self.account.holding(id).lots != 0;
        let unpriced =
            |id: &InstrumentId| open(*id) && self.middles.get(id).is_none_or(|twice| *twice == 0);
        let ids = self.instruments.iter().map(|instrument| instrument.id);
        self.outcome.unpriced = ids.filter(unpriced).collect();
        self.outcome.market = self.market.counters();
        self.outcome.missing = self.market.missing();
        self.outcome.account = self.account;
        self.outcome.digest = self.digest.value();
        self.outcome
    }
}

/// A request as the engine takes it.
fn command(request: &Request) -> Command {
    match *request {
        Request::Cancel { id } => Command {
            account: STRATEGY,
            user_ref: UserRefNum(id),
            ..Command::new(CommandKind::Cancel)
        },
        Request::Order { id, instrument, side, qty, price, life, rests } => Command {
            account: STRATEGY,
            instrument,
            user_ref: UserRefNum(id),
            side,
            qty: Qty(qty.into()),
            price,
            time_in_force: life,
            flags: if rests { ORDER_POST_ONLY } else { 0 },
            ..Command::new(CommandKind::NewOrder)
        },
    }
}

fn fill(report: &ExecutionReport) -> Fill {
    Fill {
        time: report.t_seq,
        instrument: report.instrument,
        side: report.side,
        qty: report.qty,
        price: report.price,
        liquidity: report.liquidity,
    }
}

/// Best bid plus best offer; the last one known where a side is empty, 0 if there never was one.
fn middle(engine: &Engine, id: InstrumentId, known: &mut BTreeMap<InstrumentId, i64>) -> i64 {
    let best = |side| engine.best(id, side).map(|level| level.price.0);
    if let (Some(bid), Some(offer)) = (best(Side::Buy), best(Side::Sell)) {
        known.insert(id, bid + offer);
    }
    known.get(&id).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
