//! Section 11.5: how many messages a second one tree carries, several trees in parallel, and orders
//! through shards. Simulated only; whoever has a clock measures what nodes cost and asks for
//! [`calibrated`] and [`orders`].
//!
//! A rate is carried when queues do not grow: the median time to the last receiver in the last tenth
//! of a run is at most 1.25 times that in the first.

use overlay::hedging::Hedging;
use telemetry::plot::{Curve, Figure};
use types::SplitMix64;

use super::{
    flow::{Flow, LOST, Service},
    link::{Cloud, Profile},
    math::ln,
    report::{Check, Report, Row, Run},
    stats::median,
    table1,
};

/// Messages of a run.
const MESSAGES: u64 = 6_000;
/// Every setup carries so many messages a second.
const SLOWEST: f64 = 2_000.0;
/// Nothing is asked for beyond this rate, messages a second.
const FASTEST: f64 = 1e8;
/// A rate is carried when the median of the last tenth is at most so many times that of the
/// first: queues do not grow.
const GROWTH: f64 = 1.25;
/// Halvings of the interval that holds the highest rate carried: to 1.3 %.
const HALVINGS: u32 = 5;
/// From a rate to the next one that is tried, until one is not carried.
const STEP: f64 = 1.5;

/// What rows by the published sending time tell.
const SIMULATED: &str = "by the paper's sending time, simulated";

/// Fan-out and receivers of the paper's tree.
pub const PAPER: [usize; 2] = [10, 100];
/// Messages a second that the paper states for one tree with H=2 and 100 receivers.
pub const PUBLISHED_ONE: f64 = 35_000.0;
/// What the paper's successor states for five trees.
pub const PUBLISHED_FIVE: f64 = 175_000.0;

/// What nodes cost, as a run on real sockets measured it: CPU time of one thread for each node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// By datagram.
    pub service: Service,
    /// Messages that a datagram brings, at least 1.
    pub per_datagram: f64,
}

/// How symbols are spread over trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// Each tree carries as much as any other.
    Equal,
    /// The first tree carries half of all messages, the others the rest in equal parts.
    Half,
}

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// H.
    pub hedge: usize,
    /// Trees of proxies below one root: messages take turns in them, or each carries some symbols.
    pub planes: u16,
    /// How symbols are spread over them.
    pub share: Share,
    /// Sending threads of a node.
    pub threads: usize,
    /// Roots with trees of their own over the same receivers, each with an equal part of the symbols.
    pub roots: u16,
}

impl Setup {
    /// One tree of nodes with so many sending threads.
    pub fn one(hedge: usize, threads: usize) -> Setup {
        Setup { hedge, planes: 1, share: Share::Equal, threads, roots: 1 }
    }

    /// The plane of message number `k`.
    fn plane(&self, k: u64) -> u64 {
        let planes = u64::from(self.planes.max(1));
        match self.share {
            Share::Half if planes > 1 && k.is_multiple_of(2) => 0,
            Share::Half if planes > 1 => 1 + k / 2 % (planes - 1),
            _ => k % planes,
        }
    }
}

/// Median OML in the first and in the last tenth of a run at `rate` datagrams a second below one root, of
/// those that the first tree carries: none carries more.
fn growth(rate: f64, setup: Setup, service: Option<Service>, seed: u64) -> (f64, f64) {
    let mut tree = table1::tree(&PAPER, setup.hedge, true);
    let hedging = Hedging { planes: setup.planes, ..Hedging::default() };
    tree.topology = tree.topology.with_hedging(hedging).expect("a few hundred nodes");
    let profile = Profile { threads: setup.threads, ..Profile::table1() };
    let mut flow = Flow::new(tree, Cloud::new(&profile, seed, tree.topology.layers(), 0));
    if let Some(service) = service {
        // The other roots' datagrams keep the receivers busy as well.
        let edge_ns = service.edge_ns * u64::from(setup.roots);
        flow.serve_at(Service { edge_ns, ..service });
    }
    let planes = u64::from(setup.planes.max(1));
    let oml = |k: u64| -> Option<u64> {
        let sent_at = 1 + ((k + 1) as f64 * 1e9 / rate) as u64;
        // Ids of a plane are those of its residue.
        let id = (k + 1) * planes + setup.plane(k);
        let last = flow.send(id, sent_at, setup.hedge).iter().max().copied().unwrap_or(LOST);
        (setup.plane(k) == 0).then_some(last - sent_at)
    };
    let mut omls: Vec<u64> = (0..MESSAGES).filter_map(oml).collect();
    let tenth = omls.len() / 10;
    let from = omls.len() - tenth;
    let last = median(&mut omls[from..]) as f64;
    (median(&mut omls[..tenth]) as f64, last)
}

/// The highest rate that is carried, to 1.3 %, beginning with `from`, which is; 0 when it is not.
fn highest(from: f64, mut carried: impl FnMut(f64) -> bool) -> f64 {
    if !carried(from) {
        return 0.0;
    }
    let (mut low, mut high) = (from, from * STEP);
    while high < FASTEST && carried(high) {
        (low, high) = (high, high * STEP);
    }
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        *(if carried(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// The highest rate that a setup carries by the published sending time, messages a second.
fn most(setup: Setup, seed: u64) -> f64 {
    highest(SLOWEST, |rate| {
        let (first, last) = growth(rate, setup, None, seed);
        last <= first * GROWTH
    })
}

/// The highest rate that a setup carries when nodes cost what was measured, messages a second over
/// all its roots.
pub fn calibrated(setup: Setup, costs: &Costs, seed: u64) -> f64 {
    let Service { root_copy_ns, receive_ns, copy_ns, edge_ns } = costs.service;
    let copies = PAPER[0] as u64 * (1 + setup.hedge as u64);
    let busiest = (root_copy_ns * PAPER[0] as u64)
        .max(receive_ns + copy_ns * copies)
        .max(edge_ns * (1 + setup.hedge as u64) * u64::from(setup.roots));
    // Below what the busiest node can do: any setup carries it.
    let from = 0.2e9 / busiest.max(1) as f64;
    let rate = highest(from, |rate| {
        let (first, last) = growth(rate, setup, Some(costs.service), seed);
        last <= first * GROWTH
    });
    rate * costs.per_datagram.max(1.0) * f64::from(setup.roots)
}

/// Instruments that orders are for.
const INSTRUMENTS: usize = 100;
/// Orders of a run.
const ORDERS: u64 = 100_000;

/// The highest rate of orders that engines carry, orders a second over `shards` of them, each on a
/// core of its own, an order costing `cost_ns`. `popular`: instruments are traded as 1, 1/2, 1/3 ...,
/// the most traded first to the shard with the least so far; otherwise all alike.
pub fn orders(shards: usize, cost_ns: f64, popular: bool, seed: u64) -> f64 {
    let weight = |rank: usize| if popular { 1.0 / (rank + 1) as f64 } else { 1.0 };
    let mut loads = vec![0.0_f64; shards.max(1)];
    let mut ends = Vec::with_capacity(INSTRUMENTS);
    let mut total = 0.0;
    for rank in 0..INSTRUMENTS {
        let least = (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0);
        loads[least] += weight(rank);
        total += weight(rank);
        ends.push((total, least));
    }
    let carried = |rate: f64| {
        let mut rng = SplitMix64::new(seed);
        let mut unit = move || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut busy = vec![0.0_f64; loads.len()];
        let mut now = 0.0;
        let mut waits = Vec::with_capacity(ORDERS as usize);
        for _ in 0..ORDERS {
            now -= ln((1.0 - unit()).max(1e-12)) * 1e9 / rate;
            let at = unit() * total;
            let place = ends.partition_point(|(end, _)| *end <= at).min(INSTRUMENTS - 1);
            let shard = ends[place].1;
            busy[shard] = busy[shard].max(now) + cost_ns;
            waits.push(busy[shard] - now);
        }
        // Of a queue that is nearly full waits differ by chance; one that grows has ever longer ones.
        let tenth = waits.len() / 10;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let last = mean(&waits[waits.len() - tenth..]);
        last <= 2.0 * mean(&waits[tenth..2 * tenth]) + 20.0 * cost_ns
    };
    highest(0.2e9 * shards.max(1) as f64 / cost_ns.max(1.0) / 4.0, carried)
}

/// The simulated part of the experiment: everything by the paper's sending time.
pub fn run(run: &mut Run) -> Report {
    let (mut rows, mut points) = (Vec::new(), Vec::new());
    let row = |setup: Setup, what: String, run: &Run| {
        let rates: Vec<f64> = run.range().map(|seed| most(setup, seed)).collect();
        Row::new(format!("{what}: {SIMULATED}"), "1/s", None, &rates).simulated()
    };
    for hedge in 0..=2 {
        rows.push(row(Setup::one(hedge, 6), format!("one tree, N=100 H={hedge}"), run));
        points.push((hedge as f64, rows[rows.len() - 1].ours.mean / 1e3));
        (run.progress)((hedge + 1) as f64 / 6.0);
    }
    let one = rows[2].ours.mean;
    rows.push(row(Setup::one(2, 1), "one tree, N=100 H=2, one sending thread".into(), run));
    (run.progress)(4.0 / 6.0);
    for planes in 2..=3 {
        let setup = Setup { planes, ..Setup::one(2, 6) };
        let what = format!("{planes} trees by symbol below one root, N=100 H=2");
        rows.push(row(setup, what, run));
    }
    let given_back = rows[rows.len() - 1].ours.mean / rows[0].ours.mean;
    (run.progress)(1.0);
    Report {
        name: "throughput",
        title: "Section 11.5: messages a second through one tree and through several, N=100",
        model: format!(
            "profile table1, D=2, F=10, {MESSAGES} messages a seed; simulated rates are carried when \
             the median OML of the last tenth is at most {GROWTH} times that of the first"
        ),
        seeds: run.seeds,
        rows,
        checks: vec![
            Check::new("H=2 by the paper's sending time, messages a second", one, 5.5e4, 6.5e4),
            Check::new("three trees at H=2 against one without hedging", given_back, 0.95, 1.05),
        ],
        figures: vec![Figure {
            file: "throughput",
            title: "Messages a second through one tree by H, N=100".into(),
            x: "H",
            y: "thousand messages a second",
            curves: vec![Curve { name: "the paper's sending time, simulated".into(), points }],
        }],
        notes: vec![
            "By the paper's sending time alone (30 copies of 3.28 us on six threads) a tree with H=2 \
             would carry about 61,000 messages a second. The paper stops at 35,000, where a proxy sends \
             1.05 million packets a second, suspects the provider's packet limit and leaves it open. Such \
             a limit is not simulated."
                .into(),
            "Several trees below one root: the root sends ten copies of each message whatever their \
             number, which is the limit from three on."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_that_of_the_sending_threads() {
        let ideal = 6e9 / (30.0 * 3_280.0);
        let ours = most(Setup::one(2, 6), 1);
        assert!((0.85..1.05).contains(&(ours / ideal)), "{ours}");
        let (first, last) = growth(1.2 * ideal, Setup::one(2, 6), None, 1);
        assert!(last > 2.0 * first, "control: an overloaded tree falls behind");
    }

    #[test]
    fn a_second_tree_carries_as_much_again_and_half_of_it_when_symbols_are_unequal() {
        let ideal = 6e9 / (30.0 * 3_280.0);
        let two = Setup { planes: 2, ..Setup::one(2, 6) };
        let (first, last) = growth(1.7 * ideal, two, None, 1);
        assert!(last < GROWTH * first, "{first} {last}");
        let (first, last) = growth(1.7 * ideal, Setup::one(2, 6), None, 1);
        assert!(last > 2.0 * first, "control: one tree does not");
        let skewed = Setup { planes: 3, share: Share::Half, ..two };
        let planes: Vec<u64> = (0..6).map(|k| skewed.plane(k)).collect();
        assert_eq!(planes, [0, 1, 0, 2, 0, 1]);
        let (first, last) = growth(2.4 * ideal, skewed, None, 1);
        assert!(last > 2.0 * first, "its busiest tree has half of it: {first} {last}");
        let equal = Setup { share: Share::Equal, ..skewed };
        let (first, last) = growth(2.4 * ideal, equal, None, 1);
        assert!(last < GROWTH * first, "control: equal shares are carried: {first} {last}");
    }

    #[test]
    fn what_was_measured_of_each_kind_of_node_is_what_limits_a_tree() {
        let service = Service { root_copy_ns: 100, receive_ns: 500, copy_ns: 200, edge_ns: 300 };
        let costs = Costs { service, per_datagram: 10.0 };
        let near = |rate: f64, ideal: f64| {
            assert!((0.9..1.06).contains(&(rate / ideal)), "{rate} {ideal}");
        };
        let one = Setup::one(2, 1);
        // A proxy: 500 + 30 * 200 ns a datagram of ten messages.
        near(calibrated(one, &costs, 1), 10.0 * 1e9 / 6_500.0);
        // Without hedging 500 + 10 * 200.
        near(calibrated(Setup::one(0, 1), &costs, 1), 10.0 * 1e9 / 2_500.0);
        // The receivers, which take three copies of what each of five roots sends.
        let slow = Service { edge_ns: 2_000, ..service };
        let five = Setup { roots: 5, ..one };
        near(calibrated(five, &Costs { service: slow, ..costs }, 1), 10.0 * 1e9 / 6_000.0);
    }

    #[test]
    fn shards_add_up_unless_one_instrument_is_most_of_the_market() {
        let one = orders(1, 200.0, false, 1);
        assert!((0.85..1.03).contains(&(one / 5e6)), "{one}");
        let four = orders(4, 200.0, false, 1);
        assert!((3.6..4.2).contains(&(four / one)), "{four}");
        let popular = orders(16, 200.0, true, 1);
        // The first instrument has 1 of 5.19 parts and one shard at most.
        assert!((4.4..5.5).contains(&(popular / one)), "{popular}");
        assert_eq!(highest(10.0, |_| false), 0.0);
    }
}
