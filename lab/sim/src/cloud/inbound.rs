//! Inbound fairness: in which order do the orders of one race reach the engine? The sequencer and
//! the ways up are the overlay's own: a gateway sends an order by as many of its candidates at a
//! time as `overlay::uplink::UplinkConfig::ways` says, again by the next ones after a timeout.

use overlay::{
    release_policy::{Delivery, Marks, ReleasePolicy},
    sequencer::{Offer, Sequencer, SequencerConfig},
    topology::Tree,
};
use telemetry::plot::{Curve, Figure};
use types::{ClockReading, GatewayId, Incarnation, Nanos, NodeId, ShardId, Source, SplitMix64};

use super::{
    clock_errors::{ClockErrors, Clocks},
    link::{Cloud, Profile},
    report::{Check, Options, Report, Row, Run, Takes},
    seeds,
    stats::{median, percentile},
    table1,
};

/// Receivers, children of a proxy and H where nothing else is asked for; D is 2.
const RECEIVERS: usize = 100;
const FANOUT: usize = 10;
const HEDGE: usize = 2;
/// Races a seed, orders in each, and time between races.
const RACES: u64 = 2_000;
const ORDERS: u64 = 20;
const RACE_NS: u64 = 1_000_000;
/// Participants react within this time of the public tick.
const REACTION_NS: u64 = 40_000;
/// Pairs generated closer than this are nobody's: twice the largest error of the assumed clocks.
const CLOSE_NS: u64 = 900;
/// A lost order is sent again after this, the overlay's shortest timeout.
const AGAIN_NS: u64 = 10_000_000;
/// Clocks begin here.
pub(super) const START: u64 = Nanos::SECOND;

/// One order of a race.
#[derive(Clone, Copy)]
struct Order {
    race: u64,
    /// True time of generation; what the gateway's clock read then; arrival at the root.
    generated: u64,
    t_in: u64,
    arrived: u64,
    /// Time since the participant's delivery of the tick, by its own clock.
    since_tick: u64,
    tick: u64,
}

/// In which order orders are processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    /// As they arrive.
    Arrival,
    /// Sequencer with this window, by `t_in`.
    Sequencer(u64),
    /// Sequencer with this window, counted from the tick, by the time since the tick reached the
    /// participant.
    DeliveryBased(u64),
    /// All of a batch of this length at once.
    Batch(u64),
    /// Sequencer whose window follows this share of late orders, in parts of a million.
    Adaptive(u32),
    /// Sequencer with this window that draws among times no further apart than the second.
    Drawn(u64, u64),
}

struct Outcome {
    /// Of pairs of a race further apart than [`CLOSE_NS`]: processed as generated. Ties count half.
    in_order: f64,
    /// The same of pairs further apart than the clocks can tell.
    clear_in_order: f64,
    /// Median time from generation to processing.
    latency_ns: u64,
    late: u64,
}

/// Where the races are run.
struct Place {
    profile: Profile,
    clocks: Clocks,
    layers: [u32; 2],
    hedge: usize,
}

impl Place {
    fn of_run(run: &Run) -> Place {
        let receivers = run.options.receivers.unwrap_or(RECEIVERS) as u32;
        let profile = run.profile(Profile::standard());
        Place {
            clocks: Clocks::of_run(run, &profile, receivers as usize),
            profile,
            layers: [run.options.fanout.unwrap_or(FANOUT) as u32, receivers],
            hedge: run.options.hedge.unwrap_or(HEDGE),
        }
    }

    /// Orders of all races, in order of arrival. `ways`: copies sent upwards by different parents.
    /// `held`: whether the tick reaches everybody at one deadline or when it comes.
    fn orders(&self, seed: u64, ways: usize, held: bool) -> Vec<Order> {
        let layers = self.layers;
        let tree = table1::tree(&layers.map(|size| size as usize), self.hedge, true);
        let run_ns = RACES * RACE_NS;
        let mut cloud = Cloud::new(&self.profile, seed, &layers, run_ns);
        let first = 1 + layers[0] as usize;
        let errors = self.clocks.of_seed(seed);
        let assumed = || ClockErrors::assumed(&cloud, first..first + layers[1] as usize).into();
        let errors = errors.unwrap_or_else(assumed);
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0x1B);
        let mut orders = Vec::new();
        for race in 0..RACES {
            let tick = race * RACE_NS;
            for _ in 0..ORDERS {
                let receiver = rng.below(u64::from(layers[1])) as usize;
                let clock = errors.error_ns(receiver, tick);
                let delivered = match held {
                    // By the participant's own clock.
                    true => (START + tick + 300_000).saturating_add_signed(-clock),
                    false => START + tick + 50_000 + rng.below(60_000),
                };
                let since_tick = rng.below(REACTION_NS);
                let generated = delivered + since_tick;
                let number = orders.len() as u64 + 1;
                let node = (first + receiver) as u16;
                let arrived = climb(&mut cloud, &tree, number, node, generated, ways);
                let t_in = generated.saturating_add_signed(clock);
                orders.push(Order {
                    race,
                    generated,
                    t_in,
                    arrived,
                    since_tick,
                    tick: START + tick,
                });
            }
        }
        orders.sort_by_key(|order| order.arrived);
        orders
    }
}

/// When the first copy of an order is at the root. The way up has the delays of the way down.
pub(super) fn climb(
    cloud: &mut Cloud,
    tree: &Tree,
    number: u64,
    node: u16,
    generated: u64,
    ways: usize,
) -> u64 {
    let parents = tree.topology.up_candidates(NodeId(node), tree.hedge, tree.epoch);
    let parents: Vec<NodeId> = parents.collect();
    let mut sent_at = generated;
    for round in 0usize.. {
        let mut best = u64::MAX;
        for attempt in round * ways..(round + 1) * ways {
            let proxy = parents[attempt % parents.len()].0;
            let key = cloud.message_key(number << 16 | attempt as u64);
            let at = sent_at - START;
            let first = cloud.delay_ns(key, proxy, node, at);
            let whole = first.and_then(|hop| Some(hop + cloud.delay_ns(key, 0, proxy, at + hop)?));
            best = best.min(whole.map_or(u64::MAX, |delay| sent_at + delay));
        }
        if best != u64::MAX {
            return best;
        }
        sent_at += AGAIN_NS;
    }
    sent_at
}

/// (race, time generated, time processed, rank) of each order.
fn process(orders: &[Order], policy: Policy) -> (Vec<(u64, u64, u64, u64)>, u64) {
    let mut config = SequencerConfig::default();
    let (window_ns, delivery_based) = match policy {
        Policy::Arrival => (0, false),
        Policy::Sequencer(window) => (window, false),
        Policy::DeliveryBased(window) => (window, true),
        Policy::Adaptive(late_ppm) => {
            config.late_ppm = late_ppm;
            (FIRST_WINDOW_NS, false)
        }
        Policy::Drawn(window, tie_ns) => {
            (config.tie_ns, config.tie_seed) = (tie_ns, 1);
            (window, false)
        }
        Policy::Batch(length) => {
            let end = |order: &Order| (order.arrived / length + 1) * length;
            let one = |order: &Order| (order.race, order.generated, end(order), end(order));
            return (orders.iter().map(one).collect(), 0);
        }
    };
    config.policy = if delivery_based { ReleasePolicy::Delivery } else { ReleasePolicy::Fair };
    config.window_ns = window_ns;
    let mut sequencer = Sequencer::new(&config);
    let mut done = Vec::with_capacity(orders.len());
    let mut last = 0;
    let mut take = |sequencer: &mut Sequencer, until: u64| {
        while sequencer.next_timeout().0 <= until {
            // "At once": with no window, and after the first one of a tie.
            let now = match sequencer.next_timeout().0 {
                0 if window_ns == 0 => until,
                0 => last,
                now => now,
            };
            last = now;
            let reading = ClockReading { now: Nanos(now), bound_ns: 0 };
            let Some(order) = sequencer.pop_due(reading) else { return };
            let index = order.payload.as_slice().try_into().map(u32::from_le_bytes).unwrap_or(0);
            let it: &Order = &orders[index as usize];
            let rank = done.len() as u64;
            done.push((it.race, it.generated, now.max(it.arrived), rank));
        }
    };
    for (index, order) in orders.iter().enumerate() {
        // What was due before this one came.
        take(&mut sequencer, order.arrived - 1);
        let delivery = Delivery { sent: Nanos(order.tick), since_ns: order.since_tick };
        let marks = Marks {
            delivery: delivery_based.then_some(delivery),
            attempt: u8::from(order.arrived - order.generated >= AGAIN_NS),
            ..Marks::default()
        };
        let (gateway, shard) = (GatewayId(1 + (index % 64) as u16), ShardId(0));
        let source = Source { gateway, shard, incarnation: Incarnation(1), seq: index as u64 + 1 };
        let payload = (index as u32).to_le_bytes();
        let t_in = Nanos(order.t_in);
        let offer = Offer { source, t_in, waits_for: None, payload: &payload, marks };
        let now = ClockReading { now: Nanos(order.arrived), bound_ns: 0 };
        // Room for 65,536 orders; some hundred are in the window.
        let _ = sequencer.offer(now, &offer);
        take(&mut sequencer, order.arrived);
    }
    take(&mut sequencer, u64::MAX - 1);
    let late = sequencer.counters().late;
    (done, late)
}

/// `clear_ns`: how far apart two orders are that the clocks can tell apart for certain.
fn judge(orders: &[Order], policy: Policy, clear_ns: u64) -> Outcome {
    let (done, late) = process(orders, policy);
    Outcome { late, ..judge_done(done, 0, clear_ns) }
}

/// The same of races from `first` on.
fn judge_done(mut done: Vec<(u64, u64, u64, u64)>, first: u64, clear_ns: u64) -> Outcome {
    done.retain(|(race, ..)| *race >= first);
    let mut latencies: Vec<u64> = done.iter().map(|(_, from, to, _)| to - from).collect();
    done.sort_unstable();
    let mut shares = [CLOSE_NS, clear_ns].map(|apart_ns| (apart_ns, 0u64, 0.0));
    for race in done.chunk_by(|a, b| a.0 == b.0) {
        for (index, first) in race.iter().enumerate() {
            // Sorted by generation: `second` came into being later.
            for second in &race[index + 1..] {
                let right = match first.3.cmp(&second.3) {
                    std::cmp::Ordering::Less => 1.0,
                    std::cmp::Ordering::Equal => 0.5,
                    std::cmp::Ordering::Greater => 0.0,
                };
                for (apart_ns, pairs, good) in &mut shares {
                    if second.1 - first.1 > *apart_ns {
                        *pairs += 1;
                        *good += right;
                    }
                }
            }
        }
    }
    let [in_order, clear_in_order] = shares.map(|(_, pairs, good)| good / pairs.max(1) as f64);
    Outcome { in_order, clear_in_order, latency_ns: median(&mut latencies), late: 0 }
}

/// Share of pairs whose order is demanded to be kept.
const KEPT: f64 = 0.9999;
/// How much further apart than the clocks can tell those pairs are, in ns.
const FURTHER_NS: [u64; 3] = [0, 5_000, 20_000];
/// Late orders of a million that an adaptive window aims at, and where it begins, in ns.
const LATE_PPM: u32 = 50;
const FIRST_WINDOW_NS: u64 = 150_000;
/// Times that are drawn among, as parts of how far apart clocks can be, in percent.
const TIES_PERCENT: [u64; 3] = [25, 50, 100];

/// The least window that keeps [`KEPT`] of the pairs further apart than `apart_ns` in order.
///
/// A pair is wrong when its earlier order arrives last, and not before the later one's time and the
/// window have passed: so each pair says what window it needs.
fn least_window(orders: &[Order], apart_ns: u64) -> u64 {
    let mut by_race: Vec<&Order> = orders.iter().collect();
    by_race.sort_unstable_by_key(|order| (order.race, order.generated));
    let mut needed = Vec::new();
    for race in by_race.chunk_by(|a, b| a.race == b.race) {
        for (index, first) in race.iter().enumerate() {
            for second in &race[index + 1..] {
                if second.generated - first.generated > apart_ns {
                    let overtaken = first.arrived > second.arrived;
                    let window = (first.arrived + 1).saturating_sub(second.t_in);
                    needed.push(if overtaken { window } else { 0 });
                }
            }
        }
    }
    if needed.is_empty() { 0 } else { percentile(&mut needed, KEPT) }
}

/// The least windows for 99.99 % of pairs by ways up, the adaptive window, and draws among ties.
pub fn order(run: &mut Run) -> Report {
    let place = Place::of_run(run);
    let (range, first_seed) = (run.range(), run.range().start);
    let clear_ns = 2 * place.clocks.largest_ns();
    let (mut rows, mut curves, mut checks) = (place.clocks.rows(), Vec::new(), Vec::new());
    rows.push(Row::single("clocks can be apart by", "ns", None, clear_ns as f64));
    let usual = run.options.given().iter().all(|option| *option == Takes::Clocks);
    let ways = ["one way up", "two ways up", "three ways up"];
    let ways = ways.into_iter().take(place.hedge + 1);
    for (done, name) in ways.enumerate() {
        let runs: Vec<Vec<Order>> =
            seeds::map(range.clone(), |seed| place.orders(seed, done + 1, true));
        let judged = |policy: Policy, apart_ns: u64| -> [Vec<f64>; 4] {
            let of = |seed: u64| {
                let orders = &runs[(seed - first_seed) as usize];
                // What is learned on the way is left out: the first half.
                let half = orders.partition_point(|order| order.race < RACES / 2);
                let from = if matches!(policy, Policy::Adaptive(_)) { half } else { 0 };
                let (done, _) = process(orders, policy);
                let outcome = judge_done(done, orders[from].race, apart_ns);
                let added = outcome.latency_ns as f64 - spread(orders).1 as f64;
                let unclear = outcome.in_order * 100.0;
                [outcome.clear_in_order * 100.0, added, unclear, outcome.late as f64]
            };
            let all = seeds::map(range.clone(), of);
            std::array::from_fn(|field| all.iter().map(|one| one[field]).collect())
        };
        let mut points = Vec::new();
        for further_ns in FURTHER_NS {
            let apart_ns = clear_ns + further_ns;
            let windows: Vec<f64> = seeds::map(range.clone(), |seed| {
                least_window(&runs[(seed - first_seed) as usize], apart_ns) as f64
            });
            let delays: Vec<f64> = runs.iter().map(|orders| spread(orders).1 as f64).collect();
            let added: Vec<f64> = windows
                .iter()
                .zip(&delays)
                .map(|(window, delay)| (window - delay).max(0.0))
                .collect();
            let x = further_ns / 1_000;
            let what = format!("{name}, x = {x} us: least window for 99.99 %");
            rows.push(Row::new(what, "ns", None, &windows));
            let row = Row::new(
                format!("{name}, x = {x} us: what it adds to the median order"),
                "ns",
                None,
                &added,
            );
            points.push((x as f64, row.ours.mean / 1e3));
            rows.push(row);
        }
        // One way's are a hundred times the others': in the table, and off the drawing.
        if done > 0 || place.hedge == 0 {
            curves.push(Curve { name: name.into(), points });
        }
        for (mode, policy) in [
            ("window of 500 us", Policy::Sequencer(500_000)),
            ("adaptive window", Policy::Adaptive(LATE_PPM)),
        ] {
            let [kept, added, ..] = judged(policy, clear_ns);
            let row = Row::new(format!("{name}, {mode}: pairs kept, x = 0"), "%", None, &kept);
            if usual && done == place.hedge {
                let what =
                    format!("{name}, {mode}: pairs kept, x = 0, lower end of the interval (%)");
                let least = row.ours.mean - row.ours.half_width;
                checks.push(Check::new(what, least, KEPT * 100.0, 100.0));
            }
            rows.push(row);
            let what = format!("{name}, {mode}: what it adds to the median order");
            rows.push(Row::new(what, "ns", None, &added));
        }
        if done == place.hedge {
            let what = format!("{name}, by time: pairs at least 0.9 us apart in order");
            let [_, _, unclear, _] = judged(Policy::Sequencer(500_000), clear_ns);
            rows.push(Row::new(what, "%", None, &unclear));
            for part in TIES_PERCENT {
                let tie_ns = clear_ns * part / 100;
                let [kept, added, unclear, _] = judged(Policy::Drawn(500_000, tie_ns), clear_ns);
                let us = tie_ns as f64 / 1e3;
                let named = |what: &str| format!("{name}, ties of {us:.1} us drawn: {what}");
                rows.push(Row::new(named("pairs kept, x = 0"), "%", None, &kept));
                let what = named("pairs at least 0.9 us apart in order");
                rows.push(Row::new(what, "%", None, &unclear));
                let what = named("what it adds to the median order");
                rows.push(Row::new(what, "ns", None, &added));
            }
        }
        (run.progress)((done + 1) as f64 / (place.hedge + 1) as f64);
    }
    Report {
        name: "inbound-order",
        title: "Order of generation kept for 99.99 % of pairs: windows, ways up, and draws",
        model: format!(
            "as inbound-fairness: {RACES} races a seed of {ORDERS} orders, reactions uniform \
             within {} us; pairs further apart than clocks can be and x; adaptive: {LATE_PPM} \
             late orders of a million, from {} us, judged in the second half; a lost order is \
             sent again after {} us",
            REACTION_NS / 1_000,
            FIRST_WINDOW_NS / 1_000,
            AGAIN_NS / 1_000
        ),
        seeds: run.seeds,
        rows,
        checks,
        figures: vec![Figure {
            file: "inbound-order",
            title: "What 99.99 % of pairs in order add to the median order".into(),
            x: "x: pairs further apart than clocks can be and this (us)",
            y: "added latency (us)",
            curves,
        }],
        notes: vec![
            "Least windows are chosen in hindsight, seed by seed; the window of 500 us is the \
             default of a deployment (`sequencer.window_us`), the adaptive one \
             `sequencer.late_ppm`."
                .into(),
            "One way up: a lost order comes with its second copy, 10 ms later, and no smaller \
             window keeps its place. Two ways lose both copies four times in a million."
                .into(),
            "Draws (`sequencer.tie_us`) follow the idea of Tommy (arXiv 2602.09148), which \
             compares stamps as samples of clocks with errors and leaves unordered what is too \
             close. Errors of our clocks are alike and have no known mean, so its order is the \
             order of stamps, and only ties remain: a chain of stamps no further apart than the \
             tie leaves in a drawn order. Of pairs that clocks can't tell apart fewer come out \
             right then, and chains take clear pairs along where ties are long."
                .into(),
        ],
        ..Report::default()
    }
}

/// p95 of how much longer than the fastest an order takes upwards, and the median delay.
fn spread(orders: &[Order]) -> (u64, u64) {
    let mut delays: Vec<u64> = orders.iter().map(|order| order.arrived - order.generated).collect();
    let least = delays.iter().min().copied().unwrap_or(0);
    (percentile(&mut delays, 0.95) - least, median(&mut delays))
}

/// Why the races can't be run in the tree that was asked for, which has two hops.
pub fn fault(options: &Options) -> Option<&'static str> {
    Options { depth: Some(2), ..*options }.tree_fault(RECEIVERS)
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let steps: Vec<u64> = (0..=16).map(|step| step * 25_000).collect();
    let place = Place::of_run(run);
    let clear_ns = 2 * place.clocks.largest_ns();
    let (mut rows, mut curves, mut checks) = (place.clocks.rows(), Vec::new(), Vec::new());
    let usual = run.options.given().iter().all(|option| *option == Takes::Clocks);
    let names = ["one way up", "two ways up", "three ways up"];
    let names = names.into_iter().take(place.hedge + 1);
    for (done, name) in names.enumerate() {
        let ways = done + 1;
        let runs: Vec<Vec<Order>> = seeds::map(run.range(), |seed| place.orders(seed, ways, true));
        let first_seed = run.range().start;
        let share = |policy: &(dyn Fn(&[Order]) -> Policy + Sync)| -> [Vec<f64>; 4] {
            let outcomes = seeds::map(run.range(), |seed| {
                let orders = &runs[(seed - first_seed) as usize];
                let outcome = judge(orders, policy(orders), clear_ns);
                let added = outcome.latency_ns as f64 - spread(orders).1 as f64;
                let late = outcome.late as f64 / orders.len() as f64 * 100.0;
                [outcome.in_order * 100.0, added, late, outcome.clear_in_order * 100.0]
            });
            [0, 1, 2, 3].map(|field| outcomes.iter().map(|outcome| outcome[field]).collect())
        };
        let clear = format!("pairs more than {:.1} us apart in order", clear_ns as f64 / 1e3);
        let [plain, _, _, plain_clear] = share(&|_| Policy::Arrival);
        rows.push(Row::new(format!("{name}, no sequencer: pairs in order"), "%", None, &plain));
        rows.push(Row::new(format!("{name}, no sequencer: {clear}"), "%", None, &plain_clear));
        let spreads: Vec<f64> = runs.iter().map(|orders| spread(orders).0 as f64).collect();
        // A window of median + spread adds exactly the spread to the median latency.
        let [shares, added, late, clearly] =
            share(&|orders| Policy::Sequencer(spread(orders).0 + spread(orders).1));
        let what = format!("{name}, sequencer with added latency = p95 spread");
        rows.push(Row::new(format!("{what}: pairs in order"), "%", None, &shares));
        rows.push(Row::new(format!("{what}: {clear}"), "%", None, &clearly));
        if usual && ways == HEDGE + 1 {
            let what = format!("three ways up: {clear}, at added latency = p95 spread (%)");
            let ours = rows[rows.len() - 1].ours.mean;
            checks.push(Check::new(what, ours, 99.9, 100.0));
        }
        rows.push(Row::new(format!("{name}: p95 delay spread"), "ns", None, &spreads));
        rows.push(Row::new(format!("{name}: added median latency"), "ns", None, &added));
        rows.push(Row::new(format!("{name}: orders late"), "%", None, &late));
        for (kind, policy) in [
            ("sequencer", (|w| Policy::Sequencer(w)) as fn(u64) -> Policy),
            ("batch auction", |w| Policy::Batch(w.max(1_000))),
        ] {
            let mut points = Vec::new();
            for step in &steps {
                let [shares, added, ..] = share(&|_| policy(*step));
                let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len().max(1) as f64;
                points.push((mean(&added) / 1e3, mean(&shares)));
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if kind == "sequencer" {
                let what = format!("{name}, sequencer: best share of pairs in order");
                let best = points.iter().map(|point| point.1).fold(0.0, f64::max);
                rows.push(Row::single(what, "%", None, best));
            }
            curves.push(Curve { name: format!("{kind}, {name}"), points });
        }
        (run.progress)((done + 1) as f64 / 4.0);
    }
    unheld(run, &place, &mut rows);
    (run.progress)(1.0);
    Report {
        name: "inbound-fairness",
        title: "Orders of a race: processed as generated, against added latency",
        model: format!(
            "profile standard, layers of {:?} below the root, H={}; {RACES} races a seed with {ORDERS} orders each, \
             reactions uniform within {} us of the tick; pairs of a race generated more than \
             {CLOSE_NS} ns apart, or more than twice the largest clock error; a lost order is sent again after {} us",
            place.layers,
            place.hedge,
            REACTION_NS / 1_000,
            AGAIN_NS / 1_000
        ),
        seeds: run.seeds,
        rows,
        checks,
        figures: vec![Figure {
            file: "inbound-fairness",
            title: "Pairs of orders processed as generated".into(),
            x: "added median latency (us)",
            y: "pairs in order (%)",
            curves,
        }],
        notes: vec![
            "The Jasper paper does not order what comes up; its successor does and prints no \
             figures. So there is nothing published beside ours."
                .into(),
            "No sequencer orders better than clocks tell time. Where two orders were generated less than \
             twice the largest clock error apart, their stamps may be the wrong way round; the second \
             share of each line leaves those pairs out, and the demand of 99.9 % is made of it."
                .into(),
            "That demand is met, on average over seeds, when orders are hedged as market data is: with H=2 a \
             gateway has three candidates and uses them all at a time (`overlay.order_ways`), which triples \
             the traffic of orders. One way does not \
             meet it: an order lost on it (0.1 % a hop) comes a re-send later than any window of this \
             size waits for, and is in the wrong order with all it raced with; see the row of the best \
             share, which no window betters."
                .into(),
            "A batch auction has no order within a batch: a pair in one batch counts half.".into(),
        ],
        ..Report::default()
    }
}

/// Without hold-and-release, who is told later reacts later: what ordering by reaction time does.
fn unheld(run: &Run, place: &Place, rows: &mut Vec<Row>) {
    let runs: Vec<Vec<Order>> = seeds::map(run.range(), |seed| place.orders(seed, 2, false));
    let by_reaction = |orders: &Vec<Order>| -> Vec<Order> {
        // Judged by reaction, not by generation.
        let one = |order: &Order| Order { generated: order.tick + order.since_tick, ..*order };
        orders.iter().map(one).collect()
    };
    for (name, policy) in [
        ("arrival order", Policy::Arrival),
        ("sequencer, 200 us", Policy::Sequencer(200_000)),
        ("delivery-based, 320 us from the tick", Policy::DeliveryBased(320_000)),
    ] {
        let share = |orders| judge(&by_reaction(orders), policy, CLOSE_NS).in_order * 100.0;
        let shares: Vec<f64> = runs.iter().map(share).collect();
        let what = format!("no hold-and-release, {name}: pairs in the order of reaction times");
        rows.push(Row::new(what, "%", None, &shares));
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::ClockSource;
    use super::*;

    fn place(clocks: ClockSource) -> Place {
        let mut told = |_| {};
        let mut run = Run::new(1, &mut told);
        (run.options.first_seed, run.options.clocks) = (1, Some(clocks));
        Place::of_run(&run)
    }

    #[test]
    fn the_sequencer_restores_the_order_and_arrival_does_not() {
        let orders = place(ClockSource::Assumed).orders(1, 2, true);
        let plain = judge(&orders, Policy::Arrival, CLOSE_NS).in_order;
        assert!((0.6..0.9).contains(&plain), "{plain}");
        let (spread, median) = spread(&orders);
        let outcome = judge(&orders, Policy::Sequencer(spread + median), CLOSE_NS);
        assert!(outcome.in_order > 0.998, "{}", outcome.in_order);
        let added = outcome.latency_ns as f64 - median as f64;
        assert!((added / spread as f64 - 1.0).abs() < 0.02, "{added} {spread}");
        let wide = judge(&orders, Policy::Sequencer(900_000), CLOSE_NS).in_order;
        assert!(wide > outcome.in_order - 1e-9 && wide > 0.9999, "{wide}");
    }

    #[test]
    fn no_window_orders_what_the_clocks_cannot_tell_apart() {
        let place = place(ClockSource::Agents);
        let orders = place.orders(1, 3, true);
        let clear_ns = 2 * place.clocks.largest_ns();
        assert!(clear_ns > 2 * CLOSE_NS, "worse than assumed: {clear_ns}");
        let outcome = judge(&orders, Policy::Sequencer(900_000), clear_ns);
        assert!(outcome.clear_in_order > 0.9999, "{}", outcome.clear_in_order);
        assert!(outcome.in_order + 0.0003 < outcome.clear_in_order, "{}", outcome.in_order);
    }

    #[test]
    fn the_least_window_is_the_least() {
        let place = place(ClockSource::Assumed);
        let (orders, clear_ns) = (place.orders(1, 3, true), 2 * place.clocks.largest_ns());
        let window = least_window(&orders, clear_ns);
        let kept = |window| judge(&orders, Policy::Sequencer(window), clear_ns).clear_in_order;
        assert!(kept(window) >= KEPT && kept(window * 8 / 10) < KEPT, "{window}");
        assert!(
            least_window(&orders, clear_ns + 20_000) < window,
            "further apart, less to wait for"
        );
        let one_way = least_window(&place.orders(1, 1, true), clear_ns);
        assert!(one_way > AGAIN_NS / 2, "control: a lost order comes 10 ms later: {one_way}");
    }

    #[test]
    fn adaptive_windows_keep_the_order_and_draws_keep_what_is_clear() {
        let place = place(ClockSource::Assumed);
        let (orders, clear_ns) = (place.orders(1, 3, true), 2 * place.clocks.largest_ns());
        let adaptive = judge(&orders, Policy::Adaptive(LATE_PPM), clear_ns);
        let fixed = judge(&orders, Policy::Sequencer(500_000), clear_ns);
        assert!(adaptive.clear_in_order > 0.999, "{}", adaptive.clear_in_order);
        assert!(adaptive.latency_ns < fixed.latency_ns, "it need not wait so long");
        let drawn = judge(&orders, Policy::Drawn(500_000, 300), clear_ns);
        assert!(drawn.in_order <= fixed.in_order && drawn.clear_in_order > 0.98);
    }

    #[test]
    fn batches_tie_what_is_close() {
        let orders = place(ClockSource::Assumed).orders(1, 2, true);
        let one = judge(&orders, Policy::Batch(RACE_NS / 2), CLOSE_NS).in_order;
        assert!((0.5..0.75).contains(&one), "{one}");
    }
}
