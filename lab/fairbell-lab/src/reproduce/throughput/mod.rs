//! `fairbell-lab reproduce throughput`: what trees and shards carry on this machine, by real nodes and
//! sockets, and by the simulator with the costs that the same run has measured.
//!
//! A rate is raised until it is not carried: until publishing falls behind, messages have not been
//! released by every receiver soon after the last one was sent, or sockets drop packets
//! ([`rig::Found::carried`] has the bounds). A rate that is not carried is tried again, twice, as other
//! work on the machine may have been the reason.

mod rig;
mod station;

use host::failure::Failure;
use sim::cloud::flow::Service;
use sim::cloud::report::{Check, Report, Row};
use sim::cloud::stats::median_interval;
use sim::cloud::throughput::{self as model, Costs, Share};
use telemetry::plot::{Curve, Figure};

use rig::{Found, Setup};

/// The first rate that is tried, messages a second over all trees.
const FIRST: f64 = 4_000.0;
/// The first rate of a quick run, of which the limit is not far.
const QUICK_FIRST: f64 = 16_000.0;
/// A rate below which nothing is tried.
const LEAST: f64 = 20.0;
/// Halvings of the interval that holds the highest rate carried: to 4.5 %.
const HALVINGS: u32 = 4;
/// Times that a rate is tried before it counts as not carried.
const TRIES: u32 = 3;
/// Trees of the paper's successor.
const FIVE: usize = 5;
/// Orders in the book and commands of each shard.
const TAPE: (usize, usize) = (5_000, 200_000);
/// Shards that orders are sent through.
const SHARDS: [u16; 3] = [1, 2, 4];

const MEASURED: &str = "measured on this machine";
const SIMULATED: &str = "simulated, a core for each node";
const SIMULATED_SHARDS: &str = "simulated, a core for each shard";

/// One thing that is measured.
struct Case {
    /// What rows call it.
    name: String,
    published: Option<f64>,
    setup: Setup,
    /// Of each run, the highest rate that was carried.
    found: Vec<Found>,
}

impl Case {
    fn new(name: impl Into<String>, published: Option<f64>, setup: Setup) -> Case {
        Case { name: name.into(), published, setup, found: Vec::new() }
    }

    fn rates(&self) -> Vec<f64> {
        self.found.iter().map(|found| found.rate).collect()
    }

    fn row(&self) -> Row {
        let what = format!("{}: {MEASURED}", self.name);
        Row::measured(what, "1/s", self.published, &self.rates())
    }

    /// The median over the runs.
    fn middle(&self, of: impl Fn(&Found) -> f64) -> f64 {
        let values: Vec<f64> = self.found.iter().map(of).collect();
        median_interval(&values).map_or(f64::NAN, |(middle, ..)| middle)
    }

    /// What one node of a kind took for a datagram in a run: root, a proxy, a receiver for one copy, ns.
    fn costs_of(&self, found: &Found) -> [f64; 3] {
        let per = |ns: u64, nodes: usize| ns as f64 / found.datagrams.max(1) as f64 / nodes as f64;
        // A slice has one proxy, of which each receiver gets one copy.
        let cpu = found.cpu;
        [per(cpu.root, 1), per(cpu.proxies, 1), per(cpu.receivers, rig::SLICE)]
    }

    /// The medians of these over the runs.
    fn node_costs(&self) -> [f64; 3] {
        [0, 1, 2].map(|kind| self.middle(|found| self.costs_of(found)[kind]))
    }

    fn per_datagram(&self) -> f64 {
        self.middle(per_datagram)
    }
}

fn per_datagram(found: &Found) -> f64 {
    found.messages as f64 / found.datagrams.max(1) as f64
}

/// The highest rate carried, and what it gave: doubled from `first` until one is not carried, halved
/// while not even the first is, then narrowed down.
fn highest(
    first: f64,
    mut probe: impl FnMut(f64) -> Result<Option<Found>, Failure>,
) -> Result<Option<Found>, Failure> {
    let mut rate = first;
    let mut best = probe(rate)?;
    let mut over = f64::INFINITY;
    while best.is_none() && rate / 2.0 >= LEAST {
        over = rate;
        rate /= 2.0;
        best = probe(rate)?;
    }
    let Some(mut best) = best else { return Ok(None) };
    while over.is_infinite() {
        match probe(rate * 2.0)? {
            Some(found) => (rate, best) = (rate * 2.0, found),
            None => over = rate * 2.0,
        }
    }
    for _ in 0..HALVINGS {
        let middle = (rate * over).sqrt();
        match probe(middle)? {
            Some(found) => (rate, best) = (middle, found),
            None => over = middle,
        }
    }
    Ok(Some(best))
}

/// The highest rate that a setup carries.
fn saturation(setup: &Setup, first: f64, tries: u32) -> Result<Option<Found>, Failure> {
    highest(first, |rate| {
        for _ in 0..tries {
            let found = rig::feed(setup, rate)?;
            if found.carried() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    })
}

fn cases(cores: usize) -> Vec<Case> {
    let one = |hedge, single| Setup::paper(hedge, single);
    let stacked = |trees| Setup { trees, one_core: true, ..one(2, false) };
    let published = Some(model::PUBLISHED_ONE);
    let mut cases = vec![
        Case::new("one tree, N=100 H=2, packets filled", published, one(2, false)),
        Case::new("one tree, N=100 H=2, a packet for each message", published, one(2, true)),
        Case::new("one tree, N=100 H=0, packets filled", None, one(0, false)),
        Case::new("one tree, N=100 H=0, a packet for each message", None, one(0, true)),
        Case::new(
            "one tree, N=100 H=2, a packet for each message, not sealed",
            published,
            Setup { sealed: false, ..one(2, true) },
        ),
        Case::new("one tree on one core, N=100 H=2, packets filled", None, stacked(1)),
    ];
    if cores > 1 {
        let name = format!("{cores} trees by symbol on a core each, N=100 H=2, packets filled");
        cases.push(Case::new(name, None, stacked(cores)));
    }
    let name =
        format!("{FIVE} trees by symbol, each below its own root, N=100 H=2, packets filled");
    cases.push(Case::new(name, Some(model::PUBLISHED_FIVE), stacked(FIVE)));
    cases
}

/// Costs of nodes by datagram: a proxy's are split into what it takes to receive one and to send a copy
/// by what it took with H=0 and with H=2.
fn costs(hedged: &Case, bare: &Case) -> Costs {
    let ([root, proxy, edge], [_, proxy_bare, _]) = (hedged.node_costs(), bare.node_costs());
    let fanout = model::PAPER[0] as f64;
    let copy = match (proxy - proxy_bare) / (2.0 * fanout) {
        copy if copy > 0.0 && proxy_bare > fanout * copy => copy,
        _ => proxy / (3.0 * fanout),
    };
    let receive = (proxy - 3.0 * fanout * copy).max(0.0);
    let service = Service {
        root_copy_ns: (root / fanout).round() as u64,
        receive_ns: receive.round() as u64,
        copy_ns: copy.round() as u64,
        edge_ns: edge.round() as u64,
    };
    Costs { service, per_datagram: hedged.per_datagram() }
}

/// Adds to the simulated report what is measured here, and what the simulator makes of the costs.
///
/// # Errors
/// The system's; a setup that carries no rate at all.
pub(super) fn add(
    report: &mut Report,
    first_seed: u64,
    progress: &mut dyn FnMut(f64),
) -> Result<(), Failure> {
    let cores = rig::cores().len().max(1);
    let mut cases = cases(cores);
    let runs = report.seeds.max(1);
    let total = (runs * cases.len() as u64) as f64;
    for run in 0..runs {
        for (place, case) in cases.iter_mut().enumerate() {
            // Half of what the runs before found is a good beginning.
            let first = case.found.last().map_or(FIRST, |found| found.rate / 2.0);
            let found = saturation(&case.setup, first, TRIES)?;
            let none = || Failure::Run(format!("{}: no rate is carried", case.name));
            case.found.push(found.ok_or_else(none)?);
            progress((run as f64 * total / runs as f64 + place as f64 + 1.0) / total);
        }
    }
    let orders = crate::bench::shards::rates(&SHARDS, runs, TAPE)?;
    let mut rows: Vec<Row> = cases.iter().map(Case::row).collect();
    let [filled, single, filled_bare, single_bare] = &cases[..4] else { return Ok(()) };
    for case in [filled, single] {
        for (kind, node) in ["root", "a proxy", "a receiver, each copy"].iter().enumerate() {
            let each = |found: &Found| case.costs_of(found)[kind] / per_datagram(found);
            let values: Vec<f64> = case.found.iter().map(each).collect();
            let what = format!("{}, {node}: CPU time a message", case.name);
            rows.push(Row::measured(what, "ns", None, &values));
        }
    }
    let seeds = first_seed..first_seed + runs;
    let modelled = [costs(filled, filled_bare), costs(single, single_bare)];
    let curve = simulate(&mut rows, &modelled, &seeds);
    add_orders(&mut rows, &orders, &seeds);
    let one = filled.row().ours.mean;
    rows.append(&mut report.rows);
    report.rows = rows;
    report.checks.push(Check::new(
        "one tree, N=100 H=2, packets filled, measured, messages a second",
        one,
        model::PUBLISHED_ONE,
        f64::INFINITY,
    ));
    report.scalars.push(("cores", cores as f64));
    report.figures.push(figure(&cases[5..], curve));
    report.notes.splice(0..0, notes(cores, &filled.setup));
    Ok(())
}

/// The two measured rows that are published, each once and without trying again.
///
/// # Errors
/// The system's; a setup that carries no rate at all.
pub(super) fn quick(runs: u64) -> Result<Vec<Row>, Failure> {
    let mut cases = cases(rig::cores().len().max(1));
    let wanted = [model::PUBLISHED_ONE, model::PUBLISHED_FIVE];
    cases.retain(|case| {
        case.published.is_some_and(|rate| wanted.contains(&rate)) && case.setup.sealed
    });
    for case in &mut cases {
        for _ in 0..runs.max(1) {
            let found = saturation(&case.setup, QUICK_FIRST, 1)?;
            let none = || Failure::Run(format!("{}: no rate is carried", case.name));
            case.found.push(found.ok_or_else(none)?);
        }
    }
    Ok(cases.iter().map(Case::row).collect())
}

/// The simulator's rows: one tree, several below one root, several roots. Points of the curve by trees.
fn simulate(
    rows: &mut Vec<Row>,
    costs: &[Costs; 2],
    seeds: &std::ops::Range<u64>,
) -> Vec<(f64, f64)> {
    let mut row = |what: &str, published, setup, costs: &Costs| {
        let of = |seed| model::calibrated(setup, costs, seed);
        let values: Vec<f64> = seeds.clone().map(of).collect();
        let what = format!("{what}: {SIMULATED}");
        rows.push(Row::new(what, "1/s", published, &values).simulated());
        rows[rows.len() - 1].ours.mean / 1e3
    };
    let [filled, single] = costs;
    let one = |hedge| model::Setup::one(hedge, 1);
    for hedge in [2, 0] {
        let name = format!("one tree, N=100 H={hedge}, a packet for each message");
        row(&name, (hedge == 2).then_some(model::PUBLISHED_ONE), one(hedge), single);
    }
    row("one tree, N=100 H=0, packets filled", None, one(0), filled);
    let name = "one tree, N=100 H=2, packets filled";
    let mut curve = vec![(1.0, row(name, Some(model::PUBLISHED_ONE), one(2), filled))];
    for planes in [2, 3] {
        let name = format!("{planes} trees by symbol below one root, N=100 H=2, packets filled");
        row(&name, None, model::Setup { planes, ..one(2) }, filled);
    }
    let name =
        "3 trees by symbol below one root, half of the messages on one, N=100 H=2, packets filled";
    row(name, None, model::Setup { planes: 3, share: Share::Half, ..one(2) }, filled);
    for roots in [2, FIVE as u16] {
        let name =
            format!("{roots} trees by symbol, each below its own root, N=100 H=2, packets filled");
        let published = (usize::from(roots) == FIVE).then_some(model::PUBLISHED_FIVE);
        let setup = model::Setup { roots, ..one(2) };
        curve.push((f64::from(roots), row(&name, published, setup, filled)));
    }
    curve
}

fn add_orders(rows: &mut Vec<Row>, orders: &[Vec<f64>], seeds: &std::ops::Range<u64>) {
    let name = |shards: u16| match shards {
        1 => "orders through 1 shard".to_string(),
        shards => format!("orders through {shards} shards"),
    };
    for (shards, rates) in SHARDS.iter().zip(orders) {
        let what = format!("{}: {MEASURED}", name(*shards));
        rows.push(Row::measured(what, "1/s", None, rates));
    }
    let one = orders.first().and_then(|rates| median_interval(rates));
    let cost_ns = one.map_or(f64::NAN, |(rate, ..)| 1e9 / rate);
    for shards in SHARDS {
        for (popular, how) in [(false, ""), (true, ", instruments traded as 1, 1/2, 1/3 ...")] {
            let of = |seed| model::orders(usize::from(shards), cost_ns, popular, seed);
            let values: Vec<f64> = seeds.clone().map(of).collect();
            let what = format!("{}{how}: {SIMULATED_SHARDS}", name(shards));
            rows.push(Row::new(what, "1/s", None, &values).simulated());
        }
    }
}

fn figure(stacked: &[Case], simulated: Vec<(f64, f64)>) -> Figure {
    let measured = |case: &Case| (case.setup.trees as f64, case.row().ours.mean / 1e3);
    let published = [(1.0, model::PUBLISHED_ONE), (FIVE as f64, model::PUBLISHED_FIVE)];
    let curve = |name: &str, points| Curve { name: name.into(), points };
    Figure {
        file: "throughput-trees",
        title: "Messages a second by trees, each below its own root, N=100 H=2".into(),
        x: "trees",
        y: "thousand messages a second",
        curves: vec![
            curve("published", published.map(|(x, rate)| (x, rate / 1e3)).to_vec()),
            curve("measured, all trees on this machine", stacked.iter().map(measured).collect()),
            curve("simulated, a core for each node", simulated),
        ],
    }
}

fn notes(cores: usize, setup: &Setup) -> Vec<String> {
    vec![
        format!(
            "Measured: of each tree the root, one of its ten proxies and {} of its hundred receivers, a thread \
             each for root, proxy and receivers, on {cores} cores over UDP on loopback. Each makes all the \
             copies that it has in the whole tree, 10 and 10 (H + 1) for each datagram; nobody reads those for \
             nodes that are not there. (The paper has a VM of eight cores for each node.) Datagrams are \
             sealed as a venue's are, messages have {} bytes (the paper states no size).",
            rig::SLICE,
            station::MESSAGE_LEN,
        ),
        format!(
            "A rate is carried when it is published in time (at most 2 % late or 20 ms), every receiver has \
             released everything within a tenth of the {} ms that it was published for, and sockets that are \
             read dropped at most 0.1 % of packets; it is doubled until one is not carried in {TRIES} \
             tries, then narrowed down to 4.5 %. Measured cells are medians of the runs and their \
             interval, which is the range of fewer than six runs.",
            setup.time.as_millis()
        ),
        "Packets filled: the publisher shares datagrams among messages as it does in a venue \
         (`overlay.linger_us`). A packet for each message is what the paper sends; loops still put \
         several of them into one packet of the network when they have several for one node."
            .into(),
        "Simulated, a core for each node: queues of the simulator's tree with the CPU times that this run \
         measured for root, proxy and receiver, kernel included, at the highest rate carried. On \
         loopback a sender also pays for what the kernel does at the receiving end. No limit of packets by a \
         provider is in it, which is where the paper suspects its own 35,000."
            .into(),
        "Orders: decoding, sequence, log records, every risk check, matching and encoding; a thread for \
         each shard; no disk and no network. Popular instruments: the most traded of 100 has a fifth of all \
         orders, and one shard at most."
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn found(rate: f64) -> Found {
        Found {
            rate,
            messages: 3_000,
            datagrams: 100,
            late_ns: 0.0,
            settle_ns: 0.0,
            time_ns: 1e9,
            packets: 1,
            copies: 1,
            dropped: 0,
            cpu: rig::Cpu { root: 100_000, proxies: 600_000, receivers: 60_000 },
        }
    }

    #[test]
    fn the_search_ends_at_the_limit_from_either_side() {
        for (first, limit) in [(10.0, 1_000.0), (4_000.0, 1_000.0), (1_000.0, 1_000.0)] {
            let probe = |rate: f64| Ok((rate <= limit).then(|| found(rate)));
            let best = highest(first, probe).expect("no error").expect("a rate");
            assert!(best.rate <= limit && best.rate > limit / 1.05, "{first} {}", best.rate);
        }
        assert!(highest(100.0, |_| Ok(None)).expect("no error").is_none());
        let failed = highest(100.0, |_| Err(Failure::Run("x".into())));
        assert!(matches!(failed, Err(Failure::Run(_))));
    }

    #[test]
    fn costs_are_split_by_what_a_proxy_took_with_fewer_copies() {
        let mut hedged = Case::new("a", None, Setup::paper(2, false));
        let mut bare = Case::new("b", None, Setup::paper(0, false));
        hedged.found.push(found(1.0));
        let less = rig::Cpu { proxies: 300_000, ..found(1.0).cpu };
        bare.found.push(Found { cpu: less, ..found(1.0) });
        // A datagram: the root 1,000 ns, a proxy 6,000 with thirty copies and 3,000 with ten, a receiver 300.
        let costs = costs(&hedged, &bare);
        let service = Service { root_copy_ns: 100, receive_ns: 1_500, copy_ns: 150, edge_ns: 300 };
        assert_eq!((costs.service, costs.per_datagram), (service, 30.0));
        // Where noise says that more copies cost less, all is put to the copies.
        bare.found[0].cpu.proxies = 700_000;
        let noisy = super::costs(&hedged, &bare).service;
        assert_eq!((noisy.receive_ns, noisy.copy_ns), (0, 200));
    }

    #[test]
    fn a_receiver_that_is_slowed_down_lowers_the_limit_by_as_much() {
        let time = Duration::from_millis(250);
        let tiny = Setup { layers: vec![2, 4], time, slice: false, ..Setup::paper(1, true) };
        let limit = |slowed| {
            let setup = Setup { slowed, ..tiny.clone() };
            let found = saturation(&setup, 100.0, 4).expect("sockets");
            found.expect("some rate is carried").rate
        };
        // It releases 250 messages a second, or 125, and may be a tenth behind at the end.
        let [four, eight] = [4, 8].map(|ms| limit(Duration::from_millis(ms)));
        assert!(four <= 250.0 * 1.15, "{four}");
        assert!(eight <= 125.0 * 1.15, "{eight}");
        let free = limit(Duration::ZERO);
        assert!(free > 2.0 * 250.0, "control: without it more is carried: {free}");
    }
}
