//! Who makes the profit: eight accounts at four distances race for quotes in the engine.
//!
//! A maker's quote is a bargain for whoever takes it first. Market data tells all eight at once or as
//! it comes; their orders go up the tree, through the overlay's sequencer or as they come, into one
//! engine ([`engine::Engine`]) as immediate-or-cancel orders. Who got the quote sells at its fair price. Profit
//! is what the engine's reports amount to ([`engine::statement::Ledger`]).

use std::sync::Arc;

use engine::{Applied, Config, Engine, Output, statement::Ledger};
use overlay::sequencer::{Offer, Sequencer, SequencerConfig};
use telemetry::plot::{Curve, Figure};
use types::{
    AccountId, ClockReading, Command, CommandKind, ExecutionKind, GatewayId, Incarnation, Input,
    Instrument, InstrumentId, Nanos, NodeId, OrderType, Price, Qty, Seq, ShardId, Side, Source,
    SplitMix64, Symbol, TimeInForce, UserRefNum,
};

use super::{
    clock_errors::{ClockErrors, Clocks},
    deadline::{Estimator, Kind, Rounds},
    flow::{Flow, LOST},
    inbound::{START, climb},
    link::{Cloud, Profile, exponential},
    report::{Check, Options, Report, Row, Run, Takes},
    seeds,
    stats::Estimate,
    table1,
};

const RECEIVERS: usize = 100;
const FANOUT: usize = 10;
const HEDGE: usize = 2;
/// Accounts that race, two at each distance; the maker has the number after theirs.
const RACERS: usize = 8;
const MAKER: u16 = RACERS as u16 + 1;
/// How much longer than in the cloud's model a way to or from a participant takes, in ns.
const DISTANCES_NS: [u64; 4] = [0, 20_000, 60_000, 150_000];
/// Messages before the first race, in which delays are learned.
const WARM_UP: u64 = 2_500;
const RACES: u64 = 5_000;
const RACE_NS: u64 = Nanos::MILLI;
/// Races of a round of the delay all-reduce, which lasts 50 ms.
const ROUND: u64 = 50;
/// Mean of what a participant's program takes; drawn afresh each time.
const REACTION_NS: f64 = 2_000.0;
/// When a lost message is there after all.
const REPAIRED_NS: u64 = 2 * RACE_NS;
/// Deadlines of market data.
const KIND: Kind = Kind::OfMaximum(990);
/// Late orders of a million that the sequencer's window aims at, where it begins, and its most.
const LATE_PPM: u32 = 100;
const WINDOW_NS: u64 = Nanos::MILLI / 2;
const WINDOW_MAX_NS: u64 = 5 * Nanos::MILLI;
/// Times that clocks are not trusted to tell apart, where ties are drawn.
const TIE_NS: u64 = 2_000;
/// A quote, and what it is worth.
const QUOTE: i64 = 10_000;
const FAIR: i64 = 10_010;
/// Races take turns in so many instruments: an order that comes late finds no other race's quote.
const INSTRUMENTS: u64 = 32;
/// A race is over after so many further ones.
const OVER: u64 = 16;

/// What is done for fairness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rules {
    /// Market data is held until a common deadline.
    hold: bool,
    /// Orders go by their times, within a window.
    sequencer: bool,
    /// Of times that clocks can't tell apart, one is drawn.
    draw: bool,
}

const CASES: [(&str, Rules); 5] = [
    ("no hold, arrival order", Rules { hold: false, sequencer: false, draw: false }),
    ("hold, arrival order", Rules { hold: true, sequencer: false, draw: false }),
    ("no hold, sequencer", Rules { hold: false, sequencer: true, draw: false }),
    ("hold and sequencer", Rules { hold: true, sequencer: true, draw: false }),
    ("hold and sequencer, ties drawn", Rules { hold: true, sequencer: true, draw: true }),
];
const UNFAIR_AT: usize = 0;
const FAIR_AT: usize = 3;
const DRAWN_AT: usize = 4;

/// A participant's order of one race.
#[derive(Clone, Copy)]
struct Order {
    race: u64,
    racer: usize,
    generated: u64,
    t_in: u64,
    arrived: u64,
}

/// Where the races are run.
struct Place<'a> {
    profile: &'a Profile,
    layers: &'a [usize],
    hedge: usize,
    clocks: &'a Clocks,
}

/// What came of one seed.
struct Outcome {
    /// Of the profit of all, in percent, by account.
    shares: Vec<f64>,
    /// Races that the first to react won, in percent.
    first_won: f64,
    /// Median time from an order's generation to the engine, in ns.
    latency_ns: f64,
}

impl Place<'_> {
    fn receiver(&self, racer: usize) -> usize {
        let receivers = self.layers.last().copied().unwrap_or(RACERS);
        racer * receivers / RACERS
    }

    /// Orders of all races, in order of arrival at the root.
    fn orders(&self, seed: u64, hold: bool) -> Vec<Order> {
        let tree = table1::tree(self.layers, self.hedge, true);
        let run_ns = (WARM_UP + RACES + 1) * RACE_NS;
        let cloud = Cloud::new(self.profile, seed, tree.topology.layers(), run_ns);
        let mut upward = Cloud::new(self.profile, seed, tree.topology.layers(), run_ns);
        let receivers = tree.topology.receivers();
        let first = tree.topology.nodes() - receivers;
        let assumed = || Arc::new(ClockErrors::assumed(&cloud, first..first + receivers));
        let errors = self.clocks.of_seed(seed).unwrap_or_else(assumed);
        let mut further = vec![0; receivers];
        for racer in 0..RACERS {
            further[self.receiver(racer)] = DISTANCES_NS[racer * DISTANCES_NS.len() / RACERS];
        }
        let mut flow = Flow::new(tree, cloud);
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0x8ACE5);
        let mut rounds = Rounds::new(receivers);
        let mut estimator = Estimator::new(KIND, ROUND as usize);
        let mut orders = Vec::new();
        for id in 1..=WARM_UP + RACES {
            if id.is_multiple_of(ROUND) {
                let (count, samples) = rounds.begin();
                let samples = samples.to_vec();
                let longest = samples.iter().map(|sample| sample.owd_ns).max().unwrap_or(0);
                estimator.reports(longest.into(), count, &samples);
            }
            let sent_at = id * RACE_NS;
            let arrivals = flow.send(id, sent_at, self.hedge);
            let own = |receiver: usize| {
                let arrival = match arrivals[receiver] {
                    LOST => sent_at + REPAIRED_NS,
                    arrival => arrival + further[receiver],
                };
                arrival.saturating_add_signed(errors.error_ns(receiver, sent_at))
            };
            let needed_ns = (0..receivers).map(own).max().unwrap_or(0).saturating_sub(sent_at);
            rounds.arrived(id, needed_ns);
            estimator.saw(id, needed_ns);
            if id <= WARM_UP {
                continue;
            }
            let deadline = match hold {
                true => sent_at + estimator.delay_ns().unwrap_or(0),
                false => 0,
            };
            for racer in 0..RACERS {
                let receiver = self.receiver(racer);
                let error = errors.error_ns(receiver, sent_at);
                // By the own clock; generation and arrival in true time.
                let heard = own(receiver).max(deadline);
                let t_in = START + heard + exponential(REACTION_NS, &mut rng) as u64;
                let generated = t_in.saturating_add_signed(-error);
                let node = NodeId((first + receiver) as u16);
                let number = id * RACERS as u64 + racer as u64;
                let ways = self.hedge + 1;
                let climbed = climb(&mut upward, &tree, number, node.0, generated, ways);
                let arrived = climbed + further[receiver];
                let race = id - WARM_UP - 1;
                orders.push(Order { race, racer, generated, t_in, arrived });
            }
        }
        orders.sort_by_key(|order| (order.arrived, order.race, order.racer));
        orders
    }

    fn outcome(&self, seed: u64, rules: Rules) -> Outcome {
        let orders = self.orders(seed, rules.hold);
        let released = sequence(&orders, rules, seed);
        let mut market = Market::new();
        let mut latencies: Vec<u64> =
            released.iter().map(|(at, order)| at - order.generated).collect();
        let mut due = released.into_iter().peekable();
        for race in 0..RACES + OVER {
            let quoted = START + (WARM_UP + 1 + race) * RACE_NS;
            while let Some((at, order)) = due.next_if(|(at, _)| *at < quoted) {
                market.take(at, &order);
            }
            if let Some(over) = race.checked_sub(OVER) {
                market.settle(quoted, over);
            }
            if race < RACES {
                market.quote(quoted, race);
            }
        }
        let mut fastest = vec![(u64::MAX, 0); RACES as usize];
        for order in &orders {
            let best = &mut fastest[order.race as usize];
            *best = (*best).min((order.generated, order.racer));
        }
        let won = market.winners.iter().zip(&fastest);
        let first_won = won.filter(|(winner, fastest)| **winner == Some(fastest.1)).count();
        Outcome {
            shares: market.shares(),
            first_won: first_won as f64 / RACES as f64 * 100.0,
            latency_ns: super::stats::median(&mut latencies) as f64,
        }
    }
}

/// Orders as the sequencer lets them go, each with the time.
fn sequence(orders: &[Order], rules: Rules, seed: u64) -> Vec<(u64, Order)> {
    if !rules.sequencer {
        return orders.iter().map(|order| (order.arrived, *order)).collect();
    }
    let config = SequencerConfig {
        window_ns: WINDOW_NS,
        late_ppm: LATE_PPM,
        window_max_ns: WINDOW_MAX_NS,
        tie_ns: if rules.draw { TIE_NS } else { 0 },
        tie_seed: seed,
        ..SequencerConfig::default()
    };
    let mut sequencer = Sequencer::new(&config);
    let mut done: Vec<(u64, Order)> = Vec::with_capacity(orders.len());
    let mut take = |sequencer: &mut Sequencer, until: u64| {
        while sequencer.next_timeout().0 <= until {
            // The rest of a tie leaves with its first one.
            let last = done.last().map_or(0, |(at, _)| *at);
            let now = sequencer.next_timeout().0.max(last);
            let reading = ClockReading { now: Nanos(now), bound_ns: 0 };
            let Some(order) = sequencer.pop_due(reading) else { return };
            let index = order.payload.as_slice().try_into().map(u32::from_le_bytes).unwrap_or(0);
            let order = orders[index as usize];
            done.push((now.max(order.arrived), order));
        }
    };
    for (index, order) in orders.iter().enumerate() {
        take(&mut sequencer, order.arrived - 1);
        let (gateway, shard) = (GatewayId(1 + order.racer as u16), ShardId(0));
        let source = Source { gateway, shard, incarnation: Incarnation(1), seq: index as u64 + 1 };
        let payload = (index as u32).to_le_bytes();
        let (t_in, marks) = (Nanos(order.t_in), Default::default());
        let offer = Offer { source, t_in, waits_for: None, payload: &payload, marks };
        // Room for 65,536 orders; some dozens wait.
        let _ = sequencer.offer(ClockReading { now: Nanos(order.arrived), bound_ns: 0 }, &offer);
    }
    take(&mut sequencer, u64::MAX - 1);
    done
}

/// The engine, and what its reports amount to.
struct Market {
    engine: Engine,
    out: Output,
    ledger: Ledger,
    seq: u64,
    /// Requests so far, and the life of the gateway, by account.
    refs: [u32; RACERS + 2],
    lives: [Incarnation; RACERS + 2],
    /// By race.
    winners: Vec<Option<usize>>,
}

impl Market {
    fn new() -> Market {
        let instrument = |id: u64| Instrument {
            id: InstrumentId(id as u16),
            symbol: Symbol::new(&format!("RACE{id}")).expect("a valid symbol"),
            tick: Price(1),
            price_max: Price(100_000),
            qty_max: Qty(1_000),
            lot_decimals: 0,
        };
        let instruments = (1..=INSTRUMENTS).map(instrument).collect();
        let mut config = Config {
            accounts_max: RACERS + 1,
            gateways_max: RACERS + 1,
            trades_kept: 64,
            ..Config::new(instruments)
        };
        (config.book.orders, config.book.levels) = (512, 256);
        let (out, ledger, winners) =
            (Output::default(), Ledger::default(), vec![None; RACES as usize]);
        let (engine, refs, lives) =
            (Engine::new(config), [0; RACERS + 2], [Incarnation(0); RACERS + 2]);
        let mut market = Market { engine, out, ledger, seq: 0, refs, lives, winners };
        market.apply(START, Command::new(CommandKind::StartOfDay));
        // Each account has a gateway of its own, which asks to be let in.
        for account in 1..=MAKER {
            let account = AccountId(account);
            let asks = Command {
                account,
                user_ref: UserRefNum(1),
                ..Command::new(CommandKind::GrantIncarnation)
            };
            if let Applied::Granted(life) = market.apply(START, asks) {
                market.lives[usize::from(account.0)] = life;
            }
        }
        market
    }

    fn apply(&mut self, at: u64, command: Command) -> Applied {
        self.seq += 1;
        let source = Source {
            gateway: GatewayId(command.account.0),
            incarnation: self.lives[usize::from(command.account.0)],
            seq: self.refs[usize::from(command.account.0)].into(),
            ..Source::default()
        };
        let (seq, t_in) = (Seq(self.seq), Nanos(at));
        self.out.clear();
        let input = Input { seq, t_in, t_seq: t_in, source, flags: 0, command };
        let applied = self.engine.apply(&input, &mut self.out);
        self.ledger.take_all(&self.out);
        applied
    }

    fn order(&mut self, at: u64, account: u16, race: u64, side: Side, price: i64, rests: bool) {
        let number = &mut self.refs[usize::from(account)];
        *number += 1;
        let command = Command {
            account: AccountId(account),
            instrument: InstrumentId(1 + (race % INSTRUMENTS) as u16),
            user_ref: UserRefNum(*number),
            side,
            order_type: OrderType::Limit,
            time_in_force: if rests { TimeInForce::Day } else { TimeInForce::ImmediateOrCancel },
            qty: Qty(1),
            price: Price(price),
            ..Command::new(CommandKind::NewOrder)
        };
        self.apply(at, command);
    }

    /// The maker offers a bargain.
    fn quote(&mut self, at: u64, race: u64) {
        self.order(at, MAKER, race, Side::Sell, QUOTE, true);
    }

    /// An order of a participant reaches the engine.
    fn take(&mut self, at: u64, order: &Order) {
        self.order(at, 1 + order.racer as u16, order.race, Side::Buy, QUOTE, false);
        let traded = |kind| kind == ExecutionKind::Executed;
        if self.out.executions.iter().any(|report| traded(report.kind)) {
            self.winners[order.race as usize] = Some(order.racer);
        }
    }

    /// Who has the quote sells at its fair price.
    fn settle(&mut self, at: u64, race: u64) {
        let Some(winner) = self.winners[race as usize] else { return };
        self.order(at, MAKER, race, Side::Buy, FAIR, true);
        self.order(at, 1 + winner as u16, race, Side::Sell, FAIR, false);
    }

    /// Each account's part of all racers' profit, in percent.
    fn shares(&self) -> Vec<f64> {
        let mut profits = [0i128; RACERS];
        for ((account, _), statement) in self.ledger.statements() {
            if let Some(profit) = profits.get_mut(usize::from(account.0).wrapping_sub(1)) {
                *profit += statement.sold_value - statement.bought_value;
            }
        }
        let all: i128 = profits.iter().sum();
        profits.iter().map(|profit| *profit as f64 / all.max(1) as f64 * 100.0).collect()
    }
}

/// Why the races can't be run in the tree that was asked for.
pub fn fault(options: &Options) -> Option<&'static str> {
    let few = options.receivers.is_some_and(|receivers| receivers < RACERS);
    options.tree_fault(RECEIVERS).or(few.then_some("--receivers: eight of them trade"))
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let layers = match run.options.has_tree() {
        true => run.options.layers(RECEIVERS),
        false => vec![FANOUT, RECEIVERS],
    };
    let receivers = layers.last().copied().unwrap_or(0);
    let profile = run.profile(Profile::standard());
    let clocks = Clocks::of_run(run, &profile, receivers);
    let hedge = run.options.hedge.unwrap_or(HEDGE);
    let place = Place { profile: &profile, layers: &layers, hedge, clocks: &clocks };
    let (mut rows, mut curves, mut worst) = (clocks.rows(), Vec::new(), Vec::new());
    let equal = 100.0 / RACERS as f64;
    for (done, (name, rules)) in CASES.into_iter().enumerate() {
        let runs = seeds::map(run.range(), |seed| place.outcome(seed, rules));
        let of = |field: &dyn Fn(&Outcome) -> f64| runs.iter().map(field).collect::<Vec<f64>>();
        let (mut points, mut furthest) = (Vec::new(), 0.0f64);
        for racer in 0..RACERS {
            let shares = of(&|outcome| outcome.shares[racer]);
            let distance = DISTANCES_NS[racer * DISTANCES_NS.len() / RACERS] / 1_000;
            let what = format!("{name}: profit of account {} at {distance} us", racer + 1);
            let published = (rules.hold && rules.sequencer).then_some(equal);
            let row = Row::new(what, "%", published, &shares);
            points.push(((racer + 1) as f64, row.ours.mean));
            let Estimate { mean, half_width } = row.ours;
            furthest = furthest.max((mean - equal).abs() + half_width);
            rows.push(row);
        }
        let widest = of(&|outcome| {
            let most = outcome.shares.iter().copied().fold(0.0, f64::max);
            most - outcome.shares.iter().copied().fold(f64::INFINITY, f64::min)
        });
        let what = format!("{name}: largest less smallest share of a seed");
        rows.push(Row::new(what, "%", None, &widest));
        let what = format!("{name}: races that the first to react won");
        rows.push(Row::new(what, "%", None, &of(&|outcome| outcome.first_won)));
        let what = format!("{name}: median time from order to engine");
        rows.push(Row::new(what, "ns", None, &of(&|outcome| outcome.latency_ns)));
        worst.push(furthest);
        curves.push(Curve { name: name.into(), points });
        (run.progress)((done + 1) as f64 / CASES.len() as f64);
    }
    let usual = run.options.given().iter().all(|option| *option == Takes::Clocks);
    let mut checks = Vec::new();
    if usual {
        for at in [FAIR_AT, DRAWN_AT] {
            let what = format!("{}: furthest share from an eighth, interval included", CASES[at].0);
            checks.push(Check::new(what, worst[at], 0.0, 1.0));
        }
        let what = format!("{}: the same", CASES[UNFAIR_AT].0);
        checks.push(Check::new(what, worst[UNFAIR_AT], 5.0, 100.0));
    }
    Report {
        name: "races",
        title: "Appendix C with an engine: profits of eight accounts at four distances",
        model: format!(
            "profile standard, layers of {layers:?} below the root, H={hedge}, {RACES} races a seed, 1 ms \
             apart; two accounts each 0, 20, 60 and 150 us further away, both ways; reaction time exponential \
             of mean {} us; deadlines by {}; orders by {} ways, a window for {LATE_PPM} late orders of a \
             million; drawn: ties of {} us",
            REACTION_NS / 1e3,
            KIND.name(),
            hedge + 1,
            TIE_NS / 1_000,
        ),
        seeds: run.seeds,
        rows,
        checks,
        figures: vec![Figure {
            file: "races",
            title: "Share of all profits".into(),
            x: "account (two at each distance)",
            y: "profit (%)",
            curves,
        }],
        notes: vec![
            "Quotes, orders and sales are inputs of one engine; profits are what its execution reports amount \
             to. The paper's table of its appendix is not in the text we have; its statement is equal shares, \
             hence an eighth beside those rows."
                .into(),
            "Hold or sequencer alone are not enough: without the first who is near hears first, without the \
             second who is near arrives first."
                .into(),
            "Within a seed shares differ by about what chance makes of so many races: the clocks' errors change \
             within seconds. So drawing among times that clocks can't tell apart gains nothing here, and costs \
             the first to react more than half of the races that were his."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::ClockSource;
    use super::*;

    #[test]
    fn profits_are_equal_with_fairness_and_go_to_the_near_without() {
        let mut told = |_| {};
        let mut run = Run::new(1, &mut told);
        (run.options.first_seed, run.options.clocks) = (3, Some(ClockSource::Assumed));
        let (profile, layers) = (Profile::standard(), [FANOUT, RECEIVERS]);
        let clocks = Clocks::of_run(&run, &profile, RECEIVERS);
        let place = Place { profile: &profile, layers: &layers, hedge: 2, clocks: &clocks };
        let unfair = place.outcome(3, CASES[UNFAIR_AT].1).shares;
        assert!(unfair[0] + unfair[1] > 80.0 && unfair[7] < 1.0, "{unfair:?}");
        let fair = place.outcome(3, CASES[FAIR_AT].1);
        assert!(fair.shares.iter().all(|share| (share - 12.5).abs() < 4.0), "{:?}", fair.shares);
        assert!((fair.shares.iter().sum::<f64>() - 100.0).abs() < 1e-6);
        assert!(fair.first_won > 70.0, "{}", fair.first_won);
        let drawn = place.outcome(3, CASES[DRAWN_AT].1);
        assert!(drawn.first_won < fair.first_won, "a draw has its price");
    }

    #[test]
    fn the_engine_gives_a_quote_to_the_first_and_profit_to_its_account() {
        let mut market = Market::new();
        market.quote(START, 0);
        let order = |racer| Order { race: 0, racer, generated: 0, t_in: 0, arrived: 0 };
        for racer in [4, 2, 7] {
            market.take(START + 1, &order(racer));
        }
        assert_eq!(market.winners[0], Some(4));
        market.settle(START + 2, 0);
        let shares = market.shares();
        assert_eq!((shares[4], shares.iter().sum::<f64>()), (100.0, 100.0));
    }
}
