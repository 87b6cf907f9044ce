//! Order to acknowledgement by what the log survives (P9): the same load on the same machine with
//! `journal.durability` none, local and replicated, each beside a floor of the same hops and writes.
//!
//! All six take turns in slices, so that they meet the same machine and disk. The exchange is the
//! one of `fairbell up` with one receiver, without sequencing window: gateway, root and listener in
//! their loops, and replicas as it starts them. Its latency counts from when an order was due to its
//! acceptance, open loop. A floor sends one request at a time at the same rate: over loopback TCP to
//! a thread that answers (none), writes and syncs one record before (local), or also has most of the
//! others do so over a TCP round trip meanwhile (replicated).

mod floor;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use net::{Clock, Loop, LoopConfig, WaitStrategy};
use participant::load::{Kind, Load, LoadConfig, LoadPhase, Login, Protocol};
use telemetry::Recorder;
use types::{Nanos, NodeId, Peer, Price};

use super::journal::Removed;
use fairbell::options::duration;
use fairbell::report::Quantiles;
use floor::Between;
use host::config::Config;
use host::failure::Failure;
use host::sockets::io;
use {fairbell::up::report_quantiles, host::serve::serve};

/// Options of `fairbell-lab bench durability`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench durability                three durabilities beside their floors, a minute\n  \
    fairbell-lab bench durability --rate 500 --duration 10s --rounds 5 --json\n  \
    fairbell-lab bench durability --dir /data/bench --replicas 5    on another disk, five replicas")]
pub struct DurabilityArgs {
    /// Requests per second, open loop
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,
    /// Length of a slice
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5s")]
    pub duration: Duration,
    /// Slices of each
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Replicas, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(3..=5))]
    pub replicas: u32,
    /// Folder on the disk to be measured; what is made there is removed again
    #[arg(long, value_name = "DIR", default_value = "out/bench-durability")]
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Sessions of the load.
const CLIENTS: usize = 4;
/// Their node.
const CLIENT: NodeId = NodeId(60_000);
/// Answers of this time give no latency: caches are cold, and replicas have to choose a leader.
const WARM_UP_NS: u64 = 500 * Nanos::MILLI;
/// How long logins and the last answers may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// One durability.
struct Row {
    durability: &'static str,
    between: Between,
    system: Recorder,
    floor: Recorder,
}

/// Measures and prints.
pub fn run(args: &DurabilityArgs) -> Result<(), Failure> {
    if args.duration < Duration::from_secs(1) {
        return Err(Failure::Usage("--duration: at least 1s is needed".to_string()));
    }
    if args.replicas == 4 {
        return Err(Failure::Usage("--replicas: 3 or 5".to_string()));
    }
    let row = |durability, between| Row {
        durability,
        between,
        system: Recorder::new(),
        floor: Recorder::new(),
    };
    let mut rows = [
        row("none", Between::Nothing),
        row("local", Between::Disk),
        row("replicated", Between::Replicas(args.replicas)),
    ];
    std::fs::create_dir_all(&args.dir).map_err(|error| host::failure::on(&args.dir, error))?;
    let every = Duration::from_secs_f64(1.0 / args.rate as f64);
    for round in 0..args.rounds {
        for row in &mut rows {
            if !args.json {
                eprintln!("round {} of {}: {}", round + 1, args.rounds, row.durability);
            }
            // A new log each time, and room for the next one.
            let dir = args.dir.join("fairbell-durability");
            let _files = Removed(&dir);
            row.system.merge(&slice(args, row.durability, &dir, u64::from(round))?);
            row.floor.merge(&floor::measure(row.between, &dir, (every, args.duration))?);
        }
    }
    match args.json {
        true => println!("{:#}", document(args, &rows)),
        false => print(&rows),
    }
    Ok(())
}

fn config(args: &DurabilityArgs, durability: &str, dir: &Path) -> Config {
    let mut config = Config::default().unlimited();
    (config.overlay.depth, config.overlay.receivers, config.overlay.hedge) = (1, 1, 0);
    config.overlay.change_tree_at_percent = 0;
    config.sequencer.enabled = false;
    // An order that trades at once is answered with its trade, which waits for its public message.
    config.hold.cap_ms = 1;
    config.day.auctions = false;
    config.ports.base = 0;
    config.journal.durability = durability.to_string();
    config.journal.replicas = args.replicas;
    config.journal.dir = dir.join("journal").display().to_string();
    config
}

/// Latencies of the acceptances of new orders, ns.
fn slice(
    args: &DurabilityArgs,
    durability: &str,
    dir: &Path,
    seed: u64,
) -> Result<Recorder, Failure> {
    let config = config(args, durability, dir);
    serve(&config, |gateways| {
        let load = load(args, &config, gateways, seed)?;
        let wait = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
        let habits = LoopConfig { wait, ..LoopConfig::default() };
        let mut of = Loop::new(Clock::start(0), Arc::default(), habits).map_err(io)?;
        of.add_node(CLIENT, load, Vec::new(), None).map_err(io)?;
        let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let nodes = thread::scope(|scope| {
            let clients = scope.spawn(|| {
                of.run(&stop, Duration::from_millis(20), |of, _| {
                    let over = of.nodes().all(|(_, load)| load.phase() == LoadPhase::Done);
                    done.store(over, Ordering::Relaxed);
                })
            });
            let until = std::time::Instant::now() + args.duration + 2 * PATIENCE;
            while !done.load(Ordering::Relaxed) && std::time::Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
            clients.join()
        });
        let nodes = nodes.map_err(|_| Failure::Run("the clients' thread panicked".to_string()))?;
        let load = nodes.map_err(io)?.into_iter().map(|(_, load)| load).next();
        let load = load.ok_or_else(|| Failure::Run("the clients' loop lost them".to_string()))?;
        let counts = load.counts();
        if counts.answered < load.planned() || counts.duplicates > 0 {
            return Err(Failure::Run(format!(
                "{durability}: {} of {} requests answered, {} twice: no measurement",
                counts.answered,
                load.planned(),
                counts.duplicates
            )));
        }
        let mut latencies = Recorder::new();
        latencies.merge(load.timings().of(Kind::New));
        Ok(latencies)
    })
}

fn load(
    args: &DurabilityArgs,
    config: &Config,
    gateways: Vec<Peer>,
    seed: u64,
) -> Result<Load, Failure> {
    let duration_ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    let patience_ns = PATIENCE.as_secs() * Nanos::SECOND;
    let instrument = config.instruments().first().copied();
    let instrument = instrument.ok_or_else(|| Failure::Usage("no instrument".to_string()))?;
    let login = |account: &host::config::AccountEntry| Login {
        protocol: Protocol::Ouch,
        username: account.username.clone(),
        password: account.password.clone(),
    };
    Load::new(LoadConfig {
        logins: config.accounts.0.iter().take(CLIENTS).map(login).collect(),
        gateways,
        instrument,
        middle: Price::from_whole(10_000),
        rate: args.rate,
        duration_ns,
        warmup_ns: WARM_UP_NS.min(duration_ns / 4),
        login_timeout_ns: patience_ns,
        drain_timeout_ns: patience_ns,
        expiring: 0,
        seed: config.flow.seed + seed,
        run: "D".to_string(),
    })
    .map_err(|error| Failure::Run(error.to_string()))
}

fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to.max(1) as f64
}

fn figures(row: &Row) -> [Quantiles; 2] {
    [&row.system, &row.floor].map(|of| report_quantiles(&of.summary()))
}

fn document(args: &DurabilityArgs, rows: &[Row]) -> serde_json::Value {
    let none = rows.first().map_or(0, |row| row.system.quantile(0.5));
    let row = |row: &Row| {
        let [system, floor] = figures(row);
        serde_json::json!({
            "durability": row.durability,
            "system_ns": system,
            "floor_ns": floor,
            "ratio_p50": ratio(system.p50, floor.p50),
            "ratio_p99": ratio(system.p99, floor.p99),
            "added_ns_p50": system.p50 as i64 - none as i64,
        })
    };
    serde_json::json!({
        "seed": Config::default().flow.seed,
        "rate_per_s": args.rate,
        "clients": CLIENTS,
        "replicas": args.replicas,
        "rounds": args.rounds,
        "slice_ns": u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn print(rows: &[Row]) {
    println!("order to acceptance, ns             p50          p99         p999      count");
    for row in rows {
        let [system, floor] = figures(row);
        for (name, of) in [(row.durability.to_string(), &system), ("  its floor".into(), &floor)] {
            println!("{name:<26} {:>12} {:>12} {:>12} {:>10}", of.p50, of.p99, of.p999, of.count);
        }
        let [p50, p99] = [ratio(system.p50, floor.p50), ratio(system.p99, floor.p99)];
        println!("{:<26} {p50:>11.2}x {p99:>11.2}x", "  ratio");
    }
}
