//! Figures 11 and 12: the limit-order queue of the proxies under bursts of orders. The queue is the
//! overlay's own ([`EgressQueue`]).

use overlay::{
    egress::{EgressQueue, QueueConfig, QueuePolicy},
    order_facts::{OrderFacts, OrderKind},
};
use telemetry::plot::{Curve, Figure};
use types::{Nanos, SplitMix64};

use super::{
    link::exponential,
    market::{Market, Side},
    report::{Check, Report, Row, Run},
    stats::percentile,
};

const PROXIES: usize = 10;
/// A proxy may send one order every so often: 100,000 orders a second together.
const SLOT_NS: u64 = 100_000;
/// Orders come at 2.5 times that for 40 ms, then at 0.2 times that for 80 ms.
const OVERLOAD: f64 = 2.5;
const CALM: f64 = 0.2;
const BURST_NS: u64 = 40_000_000;
const PERIOD_NS: u64 = 120_000_000;
const PERIODS: u64 = 5;
/// From a proxy to the engine.
const HOP_NS: u64 = 26_000;
/// Price levels on which bids and asks overlap.
const OVERLAP: usize = 10;
/// All price levels: the grid of figure 12.
const LEVELS: [usize; 5] = [10, 20, 40, 80, 160];

struct Order {
    at: u64,
    proxy: usize,
    account: u16,
    side: Side,
    price: usize,
}

/// What a queue achieved.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// Trades during bursts, and in all.
    in_bursts: u64,
    total: u64,
    /// Of orders that traded: from generation to the engine, to the trade, medians.
    to_engine_ns: u64,
    to_trade_ns: u64,
    to_trade_p99_ns: u64,
    /// The longest that any order waited at its proxy.
    worst_wait_ns: u64,
}

/// Orders of five bursts; every account's orders go through one proxy.
fn orders(levels: usize, seed: u64) -> Vec<Order> {
    let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0xFA);
    let mut orders = Vec::new();
    let mut at = 0.0;
    let side_levels = (levels + OVERLAP) / 2;
    while at < (PERIODS * PERIOD_NS) as f64 {
        let bursting = (at as u64) % PERIOD_NS < BURST_NS;
        let load = if bursting { OVERLOAD } else { CALM };
        at += exponential(SLOT_NS as f64 / PROXIES as f64 / load, &mut rng);
        let account = 1 + rng.below(1_000) as u16;
        let step = rng.below(side_levels as u64) as usize;
        // Bids take the lower part of the ladder, asks the upper one; they overlap in the middle.
        let (side, price) = match rng.below(2) {
            0 => (Side::Bid, step),
            _ => (Side::Ask, levels - 1 - step),
        };
        let proxy = usize::from(account) % PROXIES;
        orders.push(Order { at: at as u64, proxy, account, side, price });
    }
    orders
}

fn facts(order: &Order, number: u32) -> OrderFacts {
    let price = order.price as i64;
    let kind = match order.side {
        Side::Bid => OrderKind::Bid(price),
        Side::Ask => OrderKind::Ask(price),
    };
    let account = order.account;
    OrderFacts { account, instrument: 1, kind, creates: Some(number), about: None }
}

/// Passes the orders of one proxy through its queue: (time at the engine, number).
fn proxy(orders: &[Order], proxy: usize, config: QueueConfig, out: &mut Vec<(u64, u32)>) -> u64 {
    let mut queue = EgressQueue::new(config);
    let mut coming = orders.iter().enumerate().filter(|(_, o)| o.proxy == proxy).peekable();
    // Proxies are not in step.
    let mut slot = SLOT_NS * proxy as u64 / PROXIES as u64;
    loop {
        while let Some((number, order)) = coming.next_if(|(_, order)| order.at <= slot) {
            let at = Nanos(order.at);
            let number = number as u32;
            // Capacity is ample here: nothing is shed.
            let known = Some(facts(order, number));
            let _ = queue.push(at, at, known, (0, false), &number.to_le_bytes());
        }
        if let Some(served) = queue.pop(Nanos(slot)) {
            let number = served.bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
            out.push((slot + HOP_NS, number));
            slot += SLOT_NS;
        } else if let Some((_, order)) = coming.peek() {
            // Idle: the next order leaves at once, but slots stay a slot apart.
            slot = slot.max(order.at);
        } else {
            return queue.stats().wait_max_ns;
        }
    }
}

fn measure(orders: &[Order], levels: usize, policy: QueuePolicy, age_permille: u32) -> Outcome {
    let config = QueueConfig {
        policy,
        capacity: 8_192,
        account_max: 8_192,
        age_permille,
        ..QueueConfig::default()
    };
    let mut arrivals = Vec::with_capacity(orders.len());
    let mut outcome = Outcome::default();
    for index in 0..PROXIES {
        let wait = proxy(orders, index, config, &mut arrivals);
        outcome.worst_wait_ns = outcome.worst_wait_ns.max(wait);
    }
    arrivals.sort_unstable();
    let mut market = Market::new(levels);
    let mut arrived = vec![0; orders.len()];
    let (mut to_engine, mut to_trade) = (Vec::new(), Vec::new());
    for (at, number) in arrivals {
        let order = &orders[number as usize];
        arrived[number as usize] = at;
        if let Some(maker) = market.take(number, order.side, order.price) {
            outcome.total += 1;
            outcome.in_bursts += u64::from(at % PERIOD_NS < BURST_NS);
            for party in [maker, number] {
                let generated = orders[party as usize].at;
                to_engine.push(arrived[party as usize] - generated);
                to_trade.push(at - generated);
            }
        }
    }
    outcome.to_engine_ns = percentile(&mut to_engine, 0.5);
    outcome.to_trade_ns = percentile(&mut to_trade, 0.5);
    outcome.to_trade_p99_ns = percentile(&mut to_trade, 0.99);
    outcome
}

/// The queues compared.
const QUEUES: [(&str, QueuePolicy, u32); 4] = [
    ("FIFO", QueuePolicy::Fifo, 0),
    ("SimplePQ", QueuePolicy::SimplePq, 0),
    ("FancyPQ", QueuePolicy::LimitOrder, 0),
    ("FancyPQ, age lane", QueuePolicy::LimitOrder, 100),
];
const SIMPLE: usize = 1;

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let mut rows = Vec::new();
    let mut gains: [Vec<(f64, f64)>; 2] = Default::default();
    let mut cuts: [Vec<(f64, f64)>; 2] = Default::default();
    for (done, levels) in LEVELS.into_iter().enumerate() {
        let outcomes: Vec<[Outcome; 4]> = run
            .range()
            .map(|seed| {
                let orders = orders(levels, seed);
                QUEUES.map(|(_, policy, age)| measure(&orders, levels, policy, age))
            })
            .collect();
        for (index, (queue, ..)) in QUEUES.into_iter().enumerate() {
            let values = |field: fn(&Outcome) -> f64| -> Vec<f64> {
                outcomes.iter().map(|seed| field(&seed[index])).collect()
            };
            let seconds = (PERIODS * BURST_NS) as f64 / 1e9;
            let bursts: Vec<f64> =
                values(|o| o.in_bursts as f64).iter().map(|trades| trades / seconds).collect();
            let mut row = |what: &str, unit, values: &[f64]| {
                let what = format!("{OVERLAP}/{levels} {queue}: {what}");
                rows.push(Row::new(what, unit, None, values));
            };
            row("trades a second in bursts", "1/s", &bursts);
            row("trades in all", "trades", &values(|o| o.total as f64));
            row(
                "median, generation to engine, of traded orders",
                "ns",
                &values(|o| o.to_engine_ns as f64),
            );
            row("median, generation to trade", "ns", &values(|o| o.to_trade_ns as f64));
            row("p99, generation to trade", "ns", &values(|o| o.to_trade_p99_ns as f64));
            row("worst wait of any order", "ns", &values(|o| o.worst_wait_ns as f64));
        }
        for (curve, index) in [2, 3].into_iter().enumerate() {
            let ratio = |field: fn(&Outcome) -> u64| -> Vec<f64> {
                let one = |seed: &[Outcome; 4]| {
                    (field(&seed[index]) as f64 / field(&seed[SIMPLE]).max(1) as f64 - 1.0) * 100.0
                };
                outcomes.iter().map(one).collect()
            };
            let queue = QUEUES[index].0;
            let gain = ratio(|o| o.in_bursts);
            let cut = ratio(|o| o.to_engine_ns);
            let last = levels == LEVELS[LEVELS.len() - 1] && index == 2;
            let published = |value: f64| last.then_some(value);
            let what = format!("{OVERLAP}/{levels} {queue} against SimplePQ: trades in bursts");
            rows.push(Row::new(what, "%", published(150.0), &gain));
            gains[curve].push((levels as f64, rows[rows.len() - 1].ours.mean));
            let what = format!("{OVERLAP}/{levels} {queue} against SimplePQ: latency to engine");
            rows.push(Row::new(what, "%", published(-99.9), &cut));
            cuts[curve].push((levels as f64, rows[rows.len() - 1].ours.mean));
            let total = ratio(|o| o.total);
            let what = format!("{OVERLAP}/{levels} {queue} against SimplePQ: trades in all");
            rows.push(Row::new(what, "%", None, &total));
        }
        (run.progress)((done + 1) as f64 / LEVELS.len() as f64);
    }
    let best = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::MIN, f64::max);
    let least = |points: &[(f64, f64)]| points.iter().map(|p| p.1).fold(f64::MAX, f64::min);
    let checks = vec![
        Check::new("FancyPQ: best gain of trades in bursts (%)", best(&gains[0]), 100.0, 200.0),
        Check::new("FancyPQ: best latency reduction (%)", least(&cuts[0]), -100.0, -98.0),
        Check::new("with age lane: best gain (%)", best(&gains[1]), 75.0, 200.0),
    ];
    let both = |points: [Vec<(f64, f64)>; 2]| -> Vec<Curve> {
        let names = [QUEUES[2].0, QUEUES[3].0];
        let curve = |(name, points): (&str, _)| Curve { name: name.into(), points };
        names.into_iter().zip(points).map(curve).collect()
    };
    let x = "price levels in all, 10 of them overlapping";
    Report {
        name: "fancypq",
        title: "Figures 11 and 12: the limit-order queue under bursts of orders",
        model: format!(
            "{PROXIES} proxies that send an order every {} us each; {PERIODS} bursts of {} ms at \
             {OVERLOAD} times that, then {} ms at {CALM} times; bids and asks uniform on ladders \
             that overlap on {OVERLAP} levels; the queue is the overlay's, age lane 20 ms and 10 % \
             of the egress",
            SLOT_NS / 1_000,
            BURST_NS / 1_000_000,
            (PERIOD_NS - BURST_NS) / 1_000_000
        ),
        seeds: run.seeds,
        rows,
        checks,
        figures: vec![
            Figure {
                file: "figure12a",
                title: "Figure 12: trades in bursts, against SimplePQ".into(),
                x,
                y: "gain (%)",
                curves: both(gains),
            },
            Figure {
                file: "figure12b",
                title: "Figure 12: latency of traded orders to the engine, against SimplePQ".into(),
                x,
                y: "change (%)",
                curves: both(cuts),
            },
            figure11(),
        ],
        notes: vec![
            "150 % more is what 2.5 times overload allows: without the queue's help 1 / 2.5 of the \
             orders that could trade get through in a burst. The paper does not state its overload \
             or its ladder."
                .into(),
            "The queue moves trades in time and hardly creates any: see the rows of trades in all."
                .into(),
            "Without the age lane an order far from the middle waits until the burst has drained; \
             under lasting overload it would wait for ever. The age lane bounds that for a tenth of \
             the egress."
                .into(),
        ],
        ..Report::default()
    }
}

/// Trades per 5 ms over time, one seed, for two queues.
fn figure11() -> Figure {
    const STEP_NS: u64 = 5_000_000;
    let levels = LEVELS[3];
    let orders = orders(levels, 0);
    let curve = |(name, policy, age_permille): (&str, QueuePolicy, u32)| {
        let config = QueueConfig {
            policy,
            capacity: 8_192,
            account_max: 8_192,
            age_permille,
            ..QueueConfig::default()
        };
        let mut arrivals = Vec::new();
        (0..PROXIES).for_each(|index| {
            proxy(&orders, index, config, &mut arrivals);
        });
        arrivals.sort_unstable();
        let mut market = Market::new(levels);
        let mut trades = vec![0u32; (PERIODS * PERIOD_NS / STEP_NS) as usize + 40];
        for (at, number) in arrivals {
            let order = &orders[number as usize];
            if market.take(number, order.side, order.price).is_some()
                && let Some(step) = trades.get_mut((at / STEP_NS) as usize)
            {
                *step += 1;
            }
        }
        let point = |(step, trades): (usize, &u32)| {
            (step as f64 * STEP_NS as f64 / 1e6, f64::from(*trades) * 1e9 / STEP_NS as f64 / 1e3)
        };
        Curve { name: name.into(), points: trades.iter().enumerate().map(point).collect() }
    };
    Figure {
        file: "figure11",
        title: format!("Figure 11: trades over time, bursts every 120 ms, {OVERLAP}/{levels}"),
        x: "time (ms)",
        y: "thousand trades a second",
        curves: vec![curve(QUEUES[SIMPLE]), curve(QUEUES[2])],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_serves_what_trades_first_and_the_age_lane_bounds_the_wait() {
        let orders = orders(80, 1);
        let [fifo, simple, fancy, aged] =
            QUEUES.map(|(_, policy, age)| measure(&orders, 80, policy, age));
        assert!(fancy.in_bursts > simple.in_bursts * 2, "{simple:?} {fancy:?}");
        assert!(fancy.to_engine_ns < simple.to_engine_ns / 20, "{simple:?} {fancy:?}");
        assert!(aged.in_bursts > simple.in_bursts * 7 / 4, "{aged:?}");
        assert!(aged.worst_wait_ns <= fancy.worst_wait_ns, "{aged:?} {fancy:?}");
        let near = |a: u64, b: u64| (a as f64 / b as f64 - 1.0).abs() < 0.05;
        assert!(near(fifo.total, simple.total) && near(fancy.total, simple.total));
    }
}
