//! Measurements and small simulations that no experiment of `lab/sim` makes: orders through the FIX door, packets of
//! market data to events, transports, what trees and shards carry. Each gives a report as experiments do.

use std::time::Duration;

use fast::opra::V2;
use fast::opra::stream::{Shape, make};
use fast::slots::Description;
use host::failure::Failure;
use net::plane::PlaneKind;
use sim::cloud::flow::Flow;
use sim::cloud::link::{Cloud, Profile};
use sim::cloud::report::{Report, Row, Run};
use sim::cloud::{seeds, stats, table1, throughput as model};
use telemetry::plot::{Curve, Figure};
use types::Nanos;

use super::super::{throughput, timing};
use super::Session;
use crate::bench::opra_day::{self, DayWay};
use crate::bench::orders::{self, OrderScenario, STAGES};
use crate::bench::redis::Redis;
use crate::bench::rtt::ioc::{self, IocFlow, IocFound, Stamps};
use crate::bench::wire_to_event::{self, Feed, FeedFound, Way};
use crate::bench::{hop, transports, wires};

/// Makes a report.
type Measure = fn(&Session) -> Result<Report, Failure>;

/// The measurements by name.
pub(super) const ALL: &[(&str, Measure)] = &[
    ("unicast", unicast),
    ("throughput", carried),
    ("order-fix", |session| orders(session, "order-fix", 10_000)),
    ("order-fix-1000", |session| orders(session, "order-fix-1000", 1_000)),
    ("order-clients", many_clients),
    ("order-sweep", sweep),
    ("transports", over_transports),
    ("clock-skew", skew),
    ("lemondrop-time", placing),
    ("opra-stream", stream),
    ("opra-channels", channels),
    ("opra-wire", wire),
    ("opra-day", day),
    ("opra-planes", planes),
    ("opra-plane-events", |session| plane_events(session, PlaneKind::Udp)),
    ("opra-plane-events-tc-clone", |session| plane_events(session, PlaneKind::TcClone)),
    ("opra-plane-events-af-xdp", |session| plane_events(session, PlaneKind::AfXdp)),
    ("opra-pingpong", pingpong),
];

/// Values of several runs as a row, in ns.
fn measured(what: &str, unit: &'static str, values: &[f64]) -> Row {
    Row::measured(what, unit, None, values)
}

/// The value that this share of sorted ones does not exceed, to a thousandth; NaN of none.
fn quantile(sorted: &[u64], part: f64) -> f64 {
    let permille = (part * 1_000.0).round() as usize;
    if sorted.is_empty() { f64::NAN } else { clock::simulate::quantile(sorted, permille) as f64 }
}

/// Figure 3 and section 4: what a receiver's place costs with and without a tree, what a hop and a child cost.
fn unicast(session: &Session) -> Result<Report, Failure> {
    const MESSAGES: u64 = 400;
    let profile = Profile::table1();
    let delays = |layers: &[usize], seed: u64| -> Vec<u64> {
        let tree = table1::tree(layers, 0, false);
        let cloud = Cloud::new(&profile, seed, tree.topology.layers(), 0);
        let mut flow = Flow::new(tree, cloud);
        let nodes = layers.last().copied().unwrap_or(0);
        let mut by_receiver = vec![Vec::new(); nodes];
        for id in 1..=MESSAGES {
            let sent_at = id * 10 * Nanos::MILLI;
            for (known, arrival) in by_receiver.iter_mut().zip(flow.send(id, sent_at, 0)) {
                known.push(arrival - sent_at);
            }
        }
        by_receiver.iter_mut().map(|known| stats::median(known)).collect()
    };
    let oml = |layers: &[usize], seed: u64| -> f64 {
        let tree = table1::tree(layers, 0, false);
        let cloud = Cloud::new(&profile, seed, tree.topology.layers(), 0);
        let mut flow = Flow::new(tree, cloud);
        let one = |id: u64| {
            let sent_at = id * 10 * Nanos::MILLI;
            flow.send(id, sent_at, 0).iter().max().copied().unwrap_or(0) - sent_at
        };
        stats::median(&mut (1..=MESSAGES).map(one).collect::<Vec<_>>()) as f64
    };
    let first = session.options.first_seed;
    let range = first..first + session.seeds.unwrap_or(if session.fast { 2 } else { 10 });
    let each = |of: &(dyn Fn(u64) -> f64 + Sync)| seeds::map(range.clone(), of);
    let last_over_first = |layers: &'static [usize]| {
        each(&move |seed| {
            let all = delays(layers, seed);
            let [first, last] = [all.first(), all.last()].map(|of| of.copied().unwrap_or(0) as f64);
            last - first
        })
    };
    let rows = vec![
        Row::new(
            "direct unicast: last receiver later than the first",
            "ns",
            None,
            &last_over_first(&[100]),
        ),
        Row::new(
            "tree F=10: last receiver later than the first",
            "ns",
            None,
            &last_over_first(&[10, 100]),
        ),
        Row::new(
            "one hop more",
            "ns",
            None,
            &each(&|seed| oml(&[10, 10], seed) - oml(&[10], seed)),
        ),
        Row::new(
            "one child more",
            "ns",
            None,
            &each(&|seed| (oml(&[30], seed) - oml(&[10], seed)) / 20.0),
        ),
    ];
    let curve = |name: &str, layers: &[usize]| {
        let all = delays(layers, first);
        let points = all.iter().zip(1..).map(|(ns, at)| (f64::from(at), *ns as f64 / 1e3));
        Curve { name: name.into(), points: points.collect() }
    };
    let figure = Figure {
        file: "figure3",
        title: "Figure 3: median delay of each of 100 receivers".into(),
        x: "receiver",
        y: "median delay (us)",
        curves: vec![curve("direct unicast", &[100]), curve("tree, F=10, D=2", &[10, 100])],
    };
    Ok(Report {
        name: "unicast",
        seeds: range.end - range.start,
        rows,
        figures: vec![figure],
        ..Report::default()
    })
}

/// Section 11.5: the experiment's own rows in a full run, the two that are published in a fast one.
fn carried(session: &Session) -> Result<Report, Failure> {
    let mut told = |_| {};
    let seeds = session.seeds.unwrap_or(if session.fast { 1 } else { 3 });
    let mut run = Run { seeds, options: session.options, progress: &mut told };
    let mut report = model::run(&mut run);
    match session.fast {
        true => report.rows.extend(throughput::quick(seeds)?),
        false => throughput::add(&mut report, session.options.first_seed, &mut |_| {})?,
    }
    Ok(report)
}

/// How long a rate of orders is played in a fast run; in a full one as its scenario file has it.
const FAST_ORDERS: Duration = Duration::from_secs(3);
/// How long each rate of a sweep is.
const FAST_SWEEP: Duration = Duration::from_millis(500);
/// The workloads of the two sources that send orders.
const FX: &str = include_str!("../../../../../scenarios/papers/fx-trading.toml");
const AWS: &str = include_str!("../../../../../scenarios/papers/aws-prototype.toml");

fn scenario(text: &str) -> Result<OrderScenario, Failure> {
    OrderScenario::parse(text).map_err(Failure::Run)
}

/// Rates that rise until they cost too much; a fast run has the scenario's first clients and size alone.
fn sweep(session: &Session) -> Result<Report, Failure> {
    let scenario = scenario(FX)?;
    let of = &scenario.sweep;
    let (few, time) = match session.fast {
        true => ((&of.clients[..1], &of.bytes[..1]), FAST_SWEEP),
        false => ((&of.clients[..], &of.bytes[..]), of.duration),
    };
    let all = orders::play(&scenario, few, time, |_| ())?;
    let mut rows = Vec::new();
    for one in &all {
        let name = format!("{} clients, {} bytes", one.clients, one.bytes);
        let least = one.points.iter().map(|point| point.p99_us * 1e3).fold(f64::NAN, f64::min);
        let most = one.points.iter().map(|point| point.answered_per_s).fold(f64::NAN, f64::max);
        // Where not even the first rate is carried it is 0, and what the first one cost.
        let first = one.points.first().map_or(f64::NAN, |point| point.p99_us * 1e3);
        let (rate, p99) = one.knee.map_or((0.0, first), |of| (of.rate as f64, of.p99_us * 1e3));
        rows.push(measured(&format!("{name}: knee"), "1/s", &[rate]));
        rows.push(measured(&format!("{name}: p99 at the knee"), "ns", &[p99]));
        rows.push(measured(&format!("{name}: least p99"), "ns", &[least]));
        rows.push(measured(&format!("{name}: most answered"), "1/s", &[most]));
    }
    let figures = vec![orders::figure(&all, of.knee)];
    Ok(Report { name: "order-sweep", seeds: 1, rows, figures, ..Report::default() })
}

fn order_rows(found: &IocFound) -> Vec<Row> {
    let mut all: Vec<u64> = found.stamps.iter().map(Stamps::total).collect();
    all.sort_unstable();
    let mean = all.iter().map(|ns| *ns as f64).sum::<f64>() / all.len().max(1) as f64;
    let squares: f64 = all.iter().map(|ns| (*ns as f64 - mean) * (*ns as f64 - mean)).sum();
    let deviation = (squares / all.len().saturating_sub(1).max(1) as f64).sqrt();
    let within = all.partition_point(|ns| *ns <= Nanos::MILLI) as f64 / all.len().max(1) as f64;
    let parts = [("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
    let mut rows = vec![
        measured("average", "ns", &[mean]),
        measured("standard deviation", "ns", &[deviation]),
        measured("least", "ns", &[quantile(&all, 0.0)]),
        measured("largest", "ns", &[quantile(&all, 1.0)]),
        measured("answered within 1 ms", "%", &[within * 100.0]),
    ];
    rows.extend(parts.map(|(name, part)| measured(name, "ns", &[quantile(&all, part)])));
    for (name, part) in [("floor p50", 0.5), ("floor p99", 0.99)] {
        rows.push(measured(name, "ns", &[quantile(&found.floor, part)]));
    }
    let floor = found.floor.iter().map(|ns| *ns as f64).sum::<f64>();
    rows.push(measured("floor average", "ns", &[floor / found.floor.len().max(1) as f64]));
    for (at, stage) in STAGES.iter().enumerate() {
        let mut of: Vec<u64> = found.stamps.iter().map(|stamps| stamps.stages()[at]).collect();
        of.sort_unstable();
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            rows.push(measured(&format!("{stage}: {name}"), "ns", &[quantile(&of, part)]));
        }
    }
    // What is neither on a wire nor waiting for one: the engine's side of its log, and the client's reading.
    let own = |stamps: &Stamps| (stamps.stages()[2] + stamps.stages()[4]) as f64;
    let own: f64 = found.stamps.iter().map(own).sum::<f64>() / found.stamps.len().max(1) as f64;
    rows.push(measured("own work: average", "ns", &[own]));
    rows.push(Row::single("bytes of a request", "bytes", None, found.bytes[0] as f64));
    rows
}

/// Cumulative curve of the middle 99.5 % of sorted values.
fn curve(name: &str, sorted: &[u64]) -> Curve {
    let at = |part: u32| {
        let share = f64::from(part) / 200.0;
        (quantile(sorted, share) / 1e3, share * 100.0)
    };
    Curve { name: name.into(), points: (1..=199).map(at).collect() }
}

fn orders(session: &Session, name: &'static str, rate: u64) -> Result<Report, Failure> {
    let scenario = scenario(FX)?;
    let time = if session.fast { FAST_ORDERS } else { scenario.duration };
    let matching_delay_ns = session.matching_delay_ns;
    let flow = IocFlow { rate, matching_delay_ns, ..scenario.flow(time) };
    let found = ioc::measure(flow)?;
    let figures = if name == "order-fix" { order_figures(&found) } else { Vec::new() };
    Ok(Report { name, seeds: 1, rows: order_rows(&found), figures, ..Report::default() })
}

fn order_figures(found: &IocFound) -> Vec<Figure> {
    let sorted = |of: &dyn Fn(&Stamps) -> u64| {
        let mut all: Vec<u64> = found.stamps.iter().map(of).collect();
        all.sort_unstable();
        all
    };
    let stage = |(at, name): (usize, &&str)| curve(name, &sorted(&|stamps| stamps.stages()[at]));
    vec![
        Figure {
            file: "order-fix",
            title: "An order through the FIX door at 10,000 a second, beside a bare TCP echo"
                .into(),
            x: "from due to cancelled (us)",
            y: "orders, %",
            curves: vec![
                curve("immediate or cancel, FIX", &sorted(&Stamps::total)),
                curve("floor: TCP echo of the same bytes", &found.floor),
            ],
        },
        Figure {
            file: "order-stages",
            title: "The five stages of an order at 10,000 a second".into(),
            x: "duration of the stage (us)",
            y: "orders, %",
            curves: STAGES.iter().enumerate().map(stage).collect(),
        },
    ]
}

/// The same flow from hundreds of sessions.
fn many_clients(session: &Session) -> Result<Report, Failure> {
    let scenario = scenario(AWS)?;
    let time = if session.fast { FAST_ORDERS } else { scenario.duration };
    let matching_delay_ns = session.matching_delay_ns;
    let flow = IocFlow { matching_delay_ns, ..scenario.flow(time) };
    let found = ioc::measure(flow)?;
    Ok(Report { name: "order-clients", seeds: 1, rows: order_rows(&found), ..Report::default() })
}

/// Gateway to engine and back over every transport of this build, at a rate that a queue of one at a time carries, too.
fn over_transports(session: &Session) -> Result<Report, Failure> {
    let dir = std::env::temp_dir().join(format!("fairbell-transports-{}", std::process::id()));
    let redis = Redis::start(&Redis::program(None), &dir, false);
    let redis = redis.map_err(|error| Failure::Unavailable(error.to_string()))?;
    let (rate, slices) = if session.fast { (2_000, 1) } else { (2_000, 5) };
    let found = transports::measure(&redis.address(), rate, Duration::from_secs(2), slices);
    drop(redis);
    let _ = std::fs::remove_dir_all(dir);
    let found = found?;
    let mut rows = Vec::new();
    for (name, slices) in found {
        for (at, figure) in ["p50", "p99"].iter().enumerate() {
            let values: Vec<f64> = slices.iter().map(|slice| slice[at] as f64).collect();
            rows.push(measured(&format!("{name}: {figure}"), "ns", &values));
        }
    }
    Ok(Report { name: "transports", seeds: 1, rows, ..Report::default() })
}

/// Clocks that the agents keep, beside the reference's.
fn skew(session: &Session) -> Result<Report, Failure> {
    let first = session.options.first_seed;
    let seeds = session.seeds.unwrap_or(if session.fast { 1 } else { 5 });
    let mut all: Vec<u64> =
        (first..first + seeds).flat_map(|seed| crate::clock::skews(50, seed)).collect();
    all.sort_unstable();
    let within = all.partition_point(|ns| *ns <= 100_000) as f64 / all.len().max(1) as f64;
    let rows = vec![
        Row::single("within 100 us", "%", None, within * 100.0),
        Row::single("p99", "ns", None, quantile(&all, 0.99)),
        Row::single("largest", "ns", None, quantile(&all, 1.0)),
    ];
    Ok(Report { name: "clock-skew", seeds, rows, ..Report::default() })
}

/// How long LemonDrop takes on this machine.
fn placing(session: &Session) -> Result<Report, Failure> {
    let seeds = if session.fast { 3 } else { 20 };
    let mut report = Report { name: "lemondrop-time", seeds, ..Report::default() };
    timing::add(&mut report);
    report.rows.iter_mut().for_each(|row| *row = Row { published: None, ..row.clone() });
    Ok(report)
}

/// Sizes and categories of generated traffic.
fn stream(session: &Session) -> Result<Report, Failure> {
    let bytes = if session.fast { 1 << 20 } else { 16 << 20 };
    let seed = session.options.first_seed + 1;
    let stream = make::<V2>(Shape { seed, bytes, ..Shape::default() });
    let (mut sizes, mut maps, mut fields) = (Vec::new(), Vec::new(), [0_u64; 2]);
    for packet in stream.packets() {
        let mut at = V2::FORMAT.framing.header();
        while at + 1 < packet.len() {
            let end = at + 1 + usize::from(packet.get(at).copied().unwrap_or(0));
            let message = packet.get(at + 1..end).unwrap_or(&[]);
            sizes.push(message.len() as u64);
            // Every field and the map in front of them end with the byte whose highest bit is set.
            let mut length = 0;
            let mut first = true;
            for byte in message {
                length += 1;
                if byte & 0x80 != 0 {
                    match first {
                        true => maps.push(length),
                        false => fields[usize::from(length > 1)] += 1,
                    }
                    (first, length) = (false, 0_u64);
                }
            }
            at = end;
        }
    }
    sizes.sort_unstable();
    let count = sizes.len().max(1) as f64;
    let packets = stream.ends.len().max(1) as f64;
    let quotes = stream.categories.iter().find(|(category, _)| *category == b'k');
    let within = sizes.iter().filter(|size| (10..=50).contains(*size)).count() as f64;
    let row = |what: &str, unit, value| Row::single(what, unit, None, value);
    let rows = vec![
        row("bytes of a packet", "bytes", stream.bytes.len() as f64 / packets),
        row("messages of a packet", "messages", stream.messages as f64 / packets),
        row("bytes of a message", "bytes", sizes.iter().sum::<u64>() as f64 / count),
        row("messages of 10 to 50 bytes", "%", within / count * 100.0),
        row("quotes", "%", quotes.map_or(0.0, |(_, n)| *n as f64) / count * 100.0),
        row("categories", "", V2::FORMAT.categories.len() as f64),
        row(
            "presence maps of five bytes",
            "%",
            maps.iter().filter(|len| **len == 5).count() as f64 / maps.len().max(1) as f64 * 100.0,
        ),
        row(
            "fields of one byte",
            "%",
            fields[0] as f64 / (fields[0] + fields[1]).max(1) as f64 * 100.0,
        ),
    ];
    let share = |size: u64| {
        let known = sizes.iter().filter(|known| **known == size).count() as f64;
        (size as f64, known / count * 100.0)
    };
    let points = (1..=60).map(share).collect();
    let figure = Figure {
        file: "opra-sizes",
        title: "Sizes of messages, FAST for OPRA, version 2".into(),
        x: "bytes of a message",
        y: "messages, %",
        curves: vec![Curve { name: "generated traffic".into(), points }],
    };
    Ok(Report { name: "opra-stream", seeds: 1, rows, figures: vec![figure], ..Report::default() })
}

/// Decoding alone, channel by channel, from memory.
fn channels(session: &Session) -> Result<Report, Failure> {
    let (bytes, runs) = if session.fast { (1 << 20, 3) } else { (4 << 20, 9) };
    let mut rates = Vec::new();
    for channel in 0..24 {
        let seed = session.options.first_seed + channel + 1;
        let stream = make::<V2>(Shape { seed, bytes, ..Shape::default() });
        let mut best = f64::INFINITY;
        for _ in 0..runs {
            let begin = std::time::Instant::now();
            let (sum, messages) = crate::bench::decode::normalize(&stream);
            if messages == 0 {
                return Err(Failure::Run("generated traffic could not be decoded".to_string()));
            }
            std::hint::black_box(sum);
            best = best.min(begin.elapsed().as_nanos() as f64 / messages as f64);
        }
        rates.push(1e9 / best);
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let rows = vec![
        measured("messages a second and core", "1/s", &rates),
        measured("slowest channel below the fastest", "%", &[(1.0 - least / most) * 100.0]),
    ];
    Ok(Report { name: "opra-channels", seeds: 1, rows, ..Report::default() })
}

/// Packets of 256 bytes to events.
fn wire(session: &Session) -> Result<Report, Failure> {
    let seed = session.options.first_seed + 1;
    let packets = if session.fast { 20_000 } else { 400_000 };
    let feed = |way, decode, gap_ns| Feed {
        way,
        packet_bytes: 256,
        packets: if gap_ns == 0 { packets * 4 } else { packets },
        gap_ns,
        decode,
        seed,
    };
    let (mut rows, mut curves, mut arrivals) = (Vec::new(), Vec::new(), Vec::new());
    for (name, way) in [("datagrams", Way::Datagram), ("shared memory", Way::Ring)] {
        let mut paced = wire_to_event::measure(feed(way, true, 50_000))?;
        let mut bare = wire_to_event::measure(feed(way, false, 50_000))?;
        let streamed = wire_to_event::measure(feed(way, true, 0))?;
        for of in [&mut paced.way_ns, &mut bare.way_ns, &mut paced.decode_ns, &mut paced.gaps_ns] {
            of.sort_unstable();
        }
        let came = packets as u64 - paced.lost;
        let each = paced.messages as f64 / came.max(1) as f64;
        let gaps = &paced.gaps_ns;
        let mut row = |what: &str, unit, value| {
            rows.push(measured(&format!("{name}: {what}"), unit, &[value]));
        };
        row("bytes of a packet", "bytes", paced.mean_bytes);
        row("to the event, p50", "ns", quantile(&paced.way_ns, 0.5));
        row("to the event, p99", "ns", quantile(&paced.way_ns, 0.99));
        row("to the program, p50", "ns", quantile(&bare.way_ns, 0.5));
        row("to the program, p99", "ns", quantile(&bare.way_ns, 0.99));
        row("decoding a packet, p50", "ns", quantile(&paced.decode_ns, 0.5));
        row("decoding a message, p50", "ns", quantile(&paced.decode_ns, 0.5) / each.max(1.0));
        row("messages a second", "1/s", rate(&streamed));
        row("arrivals within 10 % of their distance", "%", near(gaps, 50_000.0));
        row("a core away", "%", paced.away as f64 / came.max(1) as f64 * 100.0);
        curves.push(curve(&format!("{name}, decoded"), &paced.way_ns));
        curves.push(curve(&format!("{name}, not decoded"), &bare.way_ns));
        arrivals.push(curve(name, gaps));
    }
    let figures = vec![
        Figure {
            file: "opra-wire",
            title: "From a packet of 256 bytes in the sender's memory to its last event".into(),
            x: "us",
            y: "packets, %",
            curves,
        },
        Figure {
            file: "opra-arrivals",
            title: "Between two arrivals of packets sent 50 us apart".into(),
            x: "us",
            y: "packets, %",
            curves: arrivals,
        },
    ];
    Ok(Report { name: "opra-wire", seeds: 1, rows, figures, ..Report::default() })
}

fn rate(found: &FeedFound) -> f64 {
    found.messages as f64 * 1e9 / found.span_ns.max(1) as f64
}

/// Share of sorted gaps within a tenth of what they should be, %.
fn near(sorted: &[u64], wanted: f64) -> f64 {
    let low = sorted.partition_point(|gap| (*gap as f64) < wanted * 0.9);
    let high = sorted.partition_point(|gap| (*gap as f64) <= wanted * 1.1);
    (high - low) as f64 / sorted.len().max(1) as f64 * 100.0
}

/// One hop of each data plane, over a cable between two network namespaces.
fn planes(session: &Session) -> Result<Report, Failure> {
    let time = Duration::from_millis(if session.fast { 700 } else { 6_000 });
    let mut rows = Vec::new();
    for (name, first) in hop::first_copies(256, time)? {
        for (figure, part) in [("p50", 0.5), ("p99", 0.99)] {
            rows.push(measured(&format!("{name}: {figure}"), "ns", &[quantile(&first, part)]));
        }
    }
    Ok(Report { name: "opra-planes", seeds: 1, rows, ..Report::default() })
}

/// The opening of a day with the published peak, at its own speed and at ten times it.
fn day(session: &Session) -> Result<Report, Failure> {
    let part = Duration::from_millis(if session.fast { 300 } else { 10_000 });
    let seed = session.options.first_seed + 1;
    let mut rows = Vec::new();
    for way in [DayWay::Datagram, DayWay::Ring] {
        for speed in [1, 10] {
            let found = opra_day::replay((way, speed, seed), (Duration::ZERO, part))?;
            let name = format!("{}, {speed}x", found.way);
            rows.push(measured(&format!("{name}: lost"), "%", &[found.lost_percent]));
            rows.push(measured(&format!("{name}: p99"), "ns", &[found.p99_us * 1e3]));
            rows.push(measured(&format!("{name}: a second"), "1/s", &[found.messages_per_s]));
        }
    }
    Ok(Report { name: "opra-day", seeds: 1, rows, ..Report::default() })
}

/// Packets of market data to events, each sent by a data plane over a cable between two network namespaces.
fn plane_events(session: &Session, kind: PlaneKind) -> Result<Report, Failure> {
    let packets = if session.fast { 4_000 } else { 100_000 };
    let seed = session.options.first_seed + 1;
    let way = Way::Plane(kind);
    let feed = Feed { way, packet_bytes: 256, packets, gap_ns: 50_000, decode: true, seed };
    let mut found = wire_to_event::measure(feed)?;
    found.way_ns.sort_unstable();
    let rows = [("p50", 0.5), ("p99", 0.99)];
    let rows = rows.map(|(figure, part)| measured(figure, "ns", &[quantile(&found.way_ns, part)]));
    Ok(Report { name: "opra-plane-events", seeds: 1, rows: rows.to_vec(), ..Report::default() })
}

/// Round trips and rates of the exchange's transports.
fn pingpong(session: &Session) -> Result<Report, Failure> {
    let time = Duration::from_millis(if session.fast { 500 } else { 5_000 });
    let mut rows = Vec::new();
    for size in [8, 64, 256] {
        let [p50, p99] = wires::round_trip(size, time)?;
        rows.push(measured(&format!("half a round trip, {size} bytes: p50"), "ns", &[p50 / 2.0]));
        rows.push(measured(&format!("half a round trip, {size} bytes: p99"), "ns", &[p99 / 2.0]));
    }
    for receivers in [1, 2] {
        let [rate, p50, p99] = wires::stream(256, receivers, time)?;
        let name = format!("{receivers} receivers, 256 bytes");
        rows.push(measured(&format!("{name}: messages a second"), "1/s", &[rate]));
        rows.push(measured(&format!("{name}: between two, p50"), "ns", &[p50]));
        rows.push(measured(&format!("{name}: between two, p99"), "ns", &[p99]));
    }
    Ok(Report { name: "opra-pingpong", seeds: 1, rows, ..Report::default() })
}
