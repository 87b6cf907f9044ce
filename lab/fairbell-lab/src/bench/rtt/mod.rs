//! P3a and P3b: order to acceptance, beside a bare echo over the same hops.
//!
//! Floor and system take turns in slices of up to 10 s, so that both meet the same machine. Both
//! have the same connections, rate, bytes per request, wait strategy and open-loop timetable, and a
//! latency counts from when the request was due, so a late sender charges its delay to the system.
//!
//! P3a is gateway and engine alone: the exchange's own root and edge in one loop with their datagrams
//! handed over in memory, no tree, no sequencing window, no hold, no disk; its floor is an echo over
//! TCP. P3b is the whole exchange: a tree of proxies, the window, sealed as `fairbell up` seals; its
//! floor is TCP, two UDP hops up, the same window, and one UDP hop back. That window is most of either
//! time, so the ratio without it, taken off both sides, is told as well.

pub(crate) mod ioc;
pub(super) mod system;

use clap::{Args, ValueEnum};
use fairbell::options::{Switch, duration};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use net::{Clock, Directory, Loop, LoopConfig, WaitStrategy, floor, peer_addr};
use telemetry::Recorder;
use types::{Nanos, NodeId, Peer};

use super::echo::{EchoClient, EchoConfig};
use fairbell::load::ProtocolName;
use fairbell::report::{Quantiles, numbers};
use fairbell::up::report_quantiles;
use host::config::Config;
use host::failure::Failure;
use host::sockets::io;

use system::System;

/// Options of `fairbell-lab bench rtt`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench rtt                   40 s: system and floor in alternating slices\n  \
    fairbell-lab bench rtt --protocol fix    the same through the FIX door\n  \
    fairbell-lab bench rtt --path tree       through the whole exchange, beside its hops and its window\n  \
    fairbell-lab bench rtt --duration 2m --rate 20000 --json\n  \
    fairbell-lab bench rtt --no-bar          exit code 0 whatever the ratio\n  \
    fairbell-lab bench rtt --strict          exit code 1 above 1.2x at p50 or 1.5x at p99\n  \
    fairbell-lab bench rtt --sealed off      what sealing costs")]
pub struct RttArgs {
    /// Time of measurement, floor and system together
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "40s")]
    pub duration: Duration,
    /// Orders per second, open loop
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// The door's protocol
    #[arg(long, value_enum, default_value_t = ProtocolName::Ouch)]
    pub protocol: ProtocolName,
    /// What is between participant and book
    #[arg(long, value_enum, default_value_t = RttPath::Engine)]
    pub path: RttPath,
    /// Whether datagrams between gateway and root are sealed, as `fairbell up` does
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub sealed: Switch,
    /// Do not fail when the ratio to the floor is above its bar
    #[arg(long)]
    pub no_bar: bool,
    /// Hold the engine's path to 1.2x of the floor at p50 and 1.5x at p99, where nothing else runs
    #[arg(long, conflicts_with = "no_bar")]
    pub strict: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What an order goes through.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RttPath {
    /// Gateway and engine alone (P3a)
    Engine,
    /// The whole exchange with its tree and its sequencing window (P3b)
    Tree,
}

/// Longest slice.
const SLICE_NS: u64 = 10 * Nanos::SECOND;
/// Participants, and connections of the floor.
const CONNECTIONS: u32 = 8;
/// The participants' node.
const CLIENT: NodeId = NodeId(60_000);

/// What is asked of the ratios to the floor: name, p50, and p99 if anything.
fn bars(path: RttPath, strict: bool) -> (&'static str, f64, Option<f64>) {
    match path {
        RttPath::Engine if strict => ("bar (strict)", 1.2, Some(1.5)),
        RttPath::Engine => ("bar (P3a)", 2.5, Some(3.0)),
        RttPath::Tree => ("bar (P3b)", 2.0, None),
    }
}

/// Measures and prints.
pub fn run(args: &RttArgs) -> Result<(), Failure> {
    let total_ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    let pairs = total_ns.div_ceil(2 * SLICE_NS).max(1);
    let slice_ns = total_ns / (2 * pairs);
    if slice_ns < Nanos::SECOND / 2 {
        return Err(Failure::Usage("--duration: at least 1s is needed".to_string()));
    }
    let system = System::new(args);
    let (mut floors, mut systems) = (Vec::new(), Vec::new());
    // What the system's requests and their answers took is what the floor carries.
    let mut sizes = [0; 2];
    for pair in 0..pairs {
        if !args.json {
            eprintln!("slice {} of {pairs}: system, then floor", pair + 1);
        }
        let (latencies, bytes) = system.slice(slice_ns, pair)?;
        systems.push(latencies);
        if pair == 0 {
            sizes = bytes;
        }
        floors.push(floor_slice(args, slice_ns, sizes, system.window_ns())?);
    }
    let found = Found::new((args.path, args.strict), system.window_ns(), &floors, &systems);
    print(args, slice_ns, sizes, &found, &floors, &systems);
    match found.met || args.no_bar {
        true => Ok(()),
        false => Err(Failure::Run(format!(
            "{} not met: {:.2}x at p50, {:.2}x at p99 (--no-bar to take it)",
            found.bar, found.ratios[0], found.ratios[1]
        ))),
    }
}

/// All slices together.
struct Found {
    floor: Quantiles,
    system: Quantiles,
    /// System over floor, p50 and p99.
    ratios: [f64; 2],
    /// The same, the window taken off both.
    without_window: [f64; 2],
    window_ns: u64,
    bar: &'static str,
    p50_max: f64,
    p99_max: Option<f64>,
    met: bool,
}

impl Found {
    /// `strict`: held to the stricter bar of the engine's path.
    fn new(
        (path, strict): (RttPath, bool),
        window_ns: u64,
        floors: &[Recorder],
        systems: &[Recorder],
    ) -> Found {
        let merged = |slices: &[Recorder]| {
            let mut all = Recorder::new();
            slices.iter().for_each(|slice| all.merge(slice));
            report_quantiles(&all.summary())
        };
        let (floor, system) = (merged(floors), merged(systems));
        // Gateway and engine alone have no window.
        let window_ns = if path == RttPath::Tree { window_ns } else { 0 };
        let ratios = |off: u64| {
            let ratio = |of: u64, to: u64| {
                of.saturating_sub(off) as f64 / to.saturating_sub(off).max(1) as f64
            };
            [ratio(system.p50, floor.p50), ratio(system.p99, floor.p99)]
        };
        let (with, without_window) = (ratios(0), ratios(window_ns));
        let (bar, p50_max, p99_max) = bars(path, strict);
        let met = with[0] <= p50_max && p99_max.is_none_or(|max| with[1] <= max);
        let ratios = with;
        Found { floor, system, ratios, without_window, window_ns, bar, p50_max, p99_max, met }
    }
}

/// How both wait: looking again and again only pays while each thread has a core.
fn wait_strategy(path: RttPath) -> WaitStrategy {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    match path {
        RttPath::Tree if cores <= 3 => WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
        _ => WaitStrategy::default(),
    }
}

fn floor_slice(
    args: &RttArgs,
    slice_ns: u64,
    [request, reply]: [usize; 2],
    window_ns: u64,
) -> Result<Recorder, Failure> {
    let listener = listen()?;
    let client = EchoClient::new(EchoConfig {
        server: address(&listener)?,
        connections: CONNECTIONS,
        rate: args.rate,
        duration_ns: slice_ns,
        request_len: request,
        reply_len: reply,
    });
    let wait = wait_strategy(args.path);
    let habits = LoopConfig { wait, ..LoopConfig::default() };
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), habits).map_err(io)?;
    of.add_node(CLIENT, client, Vec::new(), None).map_err(io)?;
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let nodes = thread::scope(|scope| {
        let server = scope.spawn(|| match args.path {
            RttPath::Engine => floor::tcp_echo(&listener, request, reply, &wait, &stop),
            RttPath::Tree => {
                floor::tcp_echo_over_hops(&listener, request, reply, window_ns, &wait, &stop)
            }
        });
        let client = scope.spawn(|| {
            of.run(&stop, Duration::from_millis(20), |of, _| {
                let over = of.nodes().all(|(_, client)| client.is_done());
                done.store(over, Ordering::Relaxed);
            })
        });
        wait_for(&done, slice_ns);
        stop.store(true, Ordering::Relaxed);
        let served = server.join();
        let nodes = client.join();
        served.map_err(|_| panicked())?.map_err(io)?;
        nodes.map_err(|_| panicked())?.map_err(io)
    })?;
    let mut recorder = Recorder::new();
    for (_, client) in &nodes {
        client.latencies().iter().for_each(|ns| recorder.record(*ns));
    }
    Ok(recorder)
}

/// Longest wait for the end of a slice behind its own time, ns: other work may have the cores meanwhile.
const END_MAX_NS: u64 = 120 * Nanos::SECOND;

/// Until `done`, or far longer than the slice should take.
fn wait_for(done: &AtomicBool, slice_ns: u64) {
    let tries = (slice_ns + END_MAX_NS) / (10 * Nanos::MILLI);
    for _ in 0..tries {
        if done.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn print(
    args: &RttArgs,
    slice_ns: u64,
    sizes: [usize; 2],
    found: &Found,
    floors: &[Recorder],
    systems: &[Recorder],
) {
    let Found { floor, system, ratios, without_window, window_ns, bar, p50_max, p99_max, met } =
        found;
    let each = |slices: &[Recorder]| -> Vec<[u64; 2]> {
        slices.iter().map(|slice| [slice.quantile(0.5), slice.quantile(0.99)]).collect()
    };
    let (protocol, path) = names(args);
    if args.json {
        let document = serde_json::json!({
            "seed": Config::default().flow.seed,
            "protocol": protocol,
            "path": path,
            "rate_per_s": args.rate,
            "connections": CONNECTIONS,
            "sealed": args.sealed == Switch::On,
            "slice_ns": slice_ns,
            "request_bytes": sizes[0],
            "reply_bytes": sizes[1],
            "floor_ns": floor,
            "system_ns": system,
            "floor_slices_p50_p99_ns": each(floors),
            "system_slices_p50_p99_ns": each(systems),
            "ratio_p50": ratios[0],
            "ratio_p99": ratios[1],
            "window_ns": window_ns,
            "ratio_without_window_p50": without_window[0],
            "ratio_without_window_p99": without_window[1],
            "bar_ratio_p50": p50_max,
            "bar_ratio_p99": p99_max,
            "bar_met": met,
        });
        println!("{document:#}");
        return;
    }
    let row = |name: &str, of: &fairbell::report::Quantiles| {
        let [p50, p99, p999] = [of.p50, of.p99, of.p999].map(numbers::micros);
        println!("  {name:<32} {p50:>10} {p99:>10} {p999:>10} {:>10}", of.count);
    };
    println!("order to acceptance, us                  p50        p99      p99.9      count");
    let (floor_name, what) = match args.path {
        RttPath::Engine => ("floor: bare TCP echo", "gateway + engine"),
        RttPath::Tree => ("floor: TCP, UDP and window", "whole exchange"),
    };
    row(floor_name, floor);
    let sealed = if args.sealed == Switch::On { "sealed" } else { "in clear" };
    row(&format!("{what}, {protocol}, {sealed}"), system);
    println!("  {:<32} {:>9.2}x {:>9.2}x", "ratio", ratios[0], ratios[1]);
    if *window_ns > 0 {
        let name = format!("the window of {} us off both", window_ns / 1_000);
        println!("  {name:<32} {:>9.2}x {:>9.2}x", without_window[0], without_window[1]);
    }
    let p99 = p99_max.map_or(String::new(), |max| format!("{max:.2}x"));
    let verdict = if *met { "met" } else { "not met" };
    println!("  {bar:<32} {p50_max:>9.2}x {p99:>10}  {verdict}");
}

fn names(args: &RttArgs) -> (&'static str, &'static str) {
    let protocol = match args.protocol {
        ProtocolName::Ouch => "ouch",
        ProtocolName::Fix => "fix",
    };
    let path = match args.path {
        RttPath::Engine => "engine",
        RttPath::Tree => "tree",
    };
    (protocol, path)
}

fn listen() -> Result<TcpListener, Failure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)
}

fn address(listener: &TcpListener) -> Result<Peer, Failure> {
    Ok(peer_addr(listener.local_addr().map_err(io)?))
}

fn panicked() -> Failure {
    Failure::Run("a thread of the measurement panicked".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(ns: u64) -> Recorder {
        let mut recorder = Recorder::new();
        (0..1_000).for_each(|_| recorder.record(ns));
        recorder
    }

    #[test]
    fn the_window_hides_what_the_exchange_costs_and_is_told_apart() {
        // 20 us of hops against 100 us of exchange, both behind a window of 500 us.
        let (floors, systems) = ([recorder(520_000)], [recorder(600_000)]);
        let tree = Found::new((RttPath::Tree, false), 500_000, &floors, &systems);
        assert!(tree.met && (1.1..1.2).contains(&tree.ratios[0]), "{:?}", tree.ratios);
        assert!((4.5..5.5).contains(&tree.without_window[0]), "{:?}", tree.without_window);
        let engine = Found::new((RttPath::Engine, false), 500_000, &floors, &systems);
        assert_eq!(engine.ratios, engine.without_window, "no window there");
    }

    #[test]
    fn a_bar_is_met_or_not_by_p50_and_p99() {
        let found = |strict, floor, system| {
            let (floors, systems) = ([recorder(floor)], [recorder(system)]);
            Found::new((RttPath::Engine, strict), 0, &floors, &systems).met
        };
        assert!(found(false, 20_000, 40_000) && !found(false, 20_000, 60_000));
        assert!(found(true, 20_000, 23_000) && !found(true, 20_000, 25_000), "1.2x of the floor");
    }
}
