//! `fairbell-lab bench telemetry`: what metrics and records cost an order, and what a Redis that dies costs.
//!
//! Slices with and without telemetry take turns, in turned order from pair to pair, so that both meet the same
//! machine. With it, there is a record of each order and of each observed datagram, written to a real Redis
//! server, and metrics are read once a second over HTTP. Each pair gives a ratio of medians and of 99th
//! percentiles; their medians over all pairs are held to the bar.
//!
//! The last slice is another one: its server, which syncs each write, is killed in the middle and started
//! again. All orders have to be answered once, and the numbers that are missing in what the server has then
//! have to be exactly those that were counted as lost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use exchange::Role;
use monitoring::export::{Export, Source};
use monitoring::streams::Server;
use monitoring::table::Format;
use net::{Loop, trace_channel};
use serde_json::json;
use telemetry::Recorder;
use types::Nanos;

use super::redis::Redis;
use super::rtt::system::System;
use super::rtt::{RttArgs, RttPath};
use fairbell::load::ProtocolName;
use fairbell::options::{Switch, duration};
use fairbell::report::numbers;
use host::alarms::Alarms;
use host::config::Config;
use host::deployment::{TRACE_BATCH, TRACE_BATCHES};
use host::failure::Failure;
use host::telemetry::{Place, Service, Telemetry};

/// Options of `fairbell-lab bench telemetry`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench telemetry                 40 s: with and without, in turn, then a Redis that dies\n  \
    fairbell-lab bench telemetry --path engine   gateway and engine alone, in a loop that spins\n  \
    fairbell-lab bench telemetry --control       with a loop that waits for each record: misses the bar\n\n\
    It starts Debian's redis-server on free ports of loopback.")]
pub struct TelemetryArgs {
    /// Time of measurement, all slices together
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "40s")]
    pub duration: Duration,
    /// Pairs of slices
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub pairs: u32,
    /// Orders per second, open loop
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,
    /// What is between participant and book
    #[arg(long, value_enum, default_value_t = RttPath::Tree)]
    pub path: RttPath,
    /// The server's program [default: FAIRBELL_REDIS_SERVER, else redis-server]
    #[arg(long, value_name = "FILE")]
    pub redis_server: Option<PathBuf>,
    /// On trial: the loop itself writes each record to Redis and waits for the answer
    #[arg(long)]
    pub control: bool,
    /// Do not fail when a ratio is above its bar
    #[arg(long)]
    pub no_bar: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Ratios of p50 and p99 at most.
const BAR: [f64; 2] = [1.02, 1.10];
/// Between two readings of the metrics.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);
/// How long a page or an answer may take to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the server of the last slice is away.
const AWAY: Duration = Duration::from_millis(800);
/// Records that may wait in the last slice: fewer than there are while the server is away.
const FEW: u64 = 1_024;

/// Measures and prints.
///
/// # Errors
/// No server; a bar that is missed; records that were lost uncounted.
pub fn run(args: &TelemetryArgs) -> Result<(), Failure> {
    let total_ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    let slice_ns = total_ns / (2 * u64::from(args.pairs) + 1);
    if slice_ns < Nanos::SECOND {
        return Err(Failure::Usage("--duration: a second for each slice is needed".to_string()));
    }
    let program = Redis::program(args.redis_server.clone());
    let dir = std::env::temp_dir().join(format!("fairbell-telemetry-{}", std::process::id()));
    let outcome = measure(args, &program, &dir, slice_ns);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn measure(args: &TelemetryArgs, program: &Path, dir: &Path, slice_ns: u64) -> Result<(), Failure> {
    let system = System::new(&RttArgs {
        duration: args.duration,
        rate: args.rate,
        protocol: ProtocolName::Ouch,
        path: args.path,
        sealed: Switch::On,
        no_bar: true,
        strict: false,
        json: true,
    });
    let redis = Redis::start(program, &dir.join("fast"), false)?;
    let (mut pairs, mut sums) = (Vec::new(), Sums::default());
    let mut all = [Recorder::new(), Recorder::new()];
    for pair in 0..args.pairs {
        if !args.json {
            eprintln!("pair {} of {}", pair + 1, args.pairs);
        }
        let seed = u64::from(pair);
        let with = || {
            let settings =
                Settings { url: redis.url(), prefix: format!("pair{pair}"), queue: 65_536 };
            with_telemetry(&system, (slice_ns, seed), &settings, args.control)
        };
        let without = || system.slice(slice_ns, seed).map(|(latencies, _)| latencies);
        let ((told, own), bare) = match pair % 2 {
            0 => {
                let with = with()?;
                (with, without()?)
            }
            _ => {
                let bare = without()?;
                (with()?, bare)
            }
        };
        sums.add(&own);
        pairs.push([0.5, 0.99].map(|q| told.quantile(q) as f64 / bare.quantile(q).max(1) as f64));
        all[0].merge(&bare);
        all[1].merge(&told);
    }
    drop(redis);
    let ratios = [0, 1].map(|which| {
        let mut of: Vec<f64> = pairs.iter().map(|pair: &[f64; 2]| pair[which]).collect();
        of.sort_by(f64::total_cmp);
        (of[(of.len() - 1) / 2] + of[of.len() / 2]) / 2.0
    });
    let killed = killed(&system, program, dir, slice_ns)?;
    let met = ratios[0] <= BAR[0] && ratios[1] <= BAR[1];
    print(args, slice_ns, (&pairs, ratios, met), &all, (&sums, &killed));
    if killed.missing != killed.lost || killed.got + killed.missing != killed.numbered {
        return Err(Failure::Run(format!(
            "{} records are missing, {} were counted as lost",
            killed.missing, killed.lost
        )));
    }
    match met || args.no_bar {
        true => Ok(()),
        false => Err(Failure::Run(format!(
            "the bar is not met: {:.3}x at p50, {:.3}x at p99 (--no-bar to take it)",
            ratios[0], ratios[1]
        ))),
    }
}

/// Telemetry of a slice.
struct Settings {
    url: String,
    prefix: String,
    queue: u64,
}

/// Records of slices, and pages of metrics.
#[derive(Default)]
struct Sums {
    records: u64,
    lost: u64,
    pages: u64,
    page_bytes: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.records += other.records;
        self.lost += other.lost;
        self.pages += other.pages;
        self.page_bytes = self.page_bytes.max(other.page_bytes);
    }
}

/// A slice with telemetry.
fn with_telemetry(
    system: &System,
    (slice_ns, seed): (u64, u64),
    settings: &Settings,
    control: bool,
) -> Result<(Recorder, Sums), Failure> {
    let mut config = Config::default();
    config.telemetry.listen = "127.0.0.1:0".to_string();
    config.telemetry.records = "redis".to_string();
    config.telemetry.redis_url.clone_from(&settings.url);
    config.telemetry.prefix.clone_from(&settings.prefix);
    config.telemetry.queue_records = settings.queue;
    let service = Service::start(&config, ("bench", Path::new("")), &Alarms::default())?;
    let service = service.ok_or_else(|| Failure::Run("no telemetry".to_string()))?;
    let telemetry = service.telemetry().clone();
    let at = service.address().ok_or_else(|| Failure::Run("no door of metrics".to_string()))?;
    let over = AtomicBool::new(false);
    let (outcome, sums) = thread::scope(|scope| {
        let reader = scope.spawn(|| read_metrics(at, &over));
        let mut drained = Vec::new();
        let told = |loops: &mut [Loop<Role>]| {
            if control {
                wait_for_each(&mut loops[0], &settings.url);
            }
            let (places, traces) = attach(&telemetry, loops);
            drained = traces.into_iter().map(|drain| scope.spawn(drain)).collect();
            places
        };
        let outcome = system.slice_told(slice_ns, seed, told);
        over.store(true, Ordering::Relaxed);
        (outcome, reader.join().unwrap_or_default())
    });
    let lines = service.end();
    let (latencies, _) = outcome?;
    let lost = lines.iter().filter_map(|line| line.split(' ').nth(1)?.parse::<u64>().ok()).sum();
    Ok((latencies, Sums { lost, ..sums }))
}

/// Gives loops what `fairbell up` gives them; their places, and what is to run beside them.
fn attach(
    telemetry: &Telemetry,
    loops: &mut [Loop<Role>],
) -> (Vec<Arc<Place>>, Vec<impl FnOnce() + Send + use<>>) {
    telemetry.record_orders(&mut loops[0], "orders");
    let mut drains = Vec::new();
    let places = (loops.iter_mut().enumerate()).map(|(at, of)| {
        let (sender, receiver) = trace_channel(TRACE_BATCHES, TRACE_BATCH);
        of.send_traces(sender);
        let mut releases = telemetry.releases(&format!("releases-{}", at + 1));
        drains.push(move || {
            let mut runs = true;
            while runs {
                runs = receiver.drain(|batch| {
                    if let Some(releases) = &mut releases {
                        releases.take(batch);
                    }
                });
                thread::sleep(Duration::from_millis(5));
            }
        });
        telemetry.place(&format!("loop-{}", at + 1), 0, of.handle())
    });
    (places.collect(), drains)
}

/// The negative control: the root's loop asks Redis after each call that applied something.
fn wait_for_each(of: &mut Loop<Role>, url: &str) {
    let Ok(mut server) = Server::new(url) else { return };
    let mut last = 0;
    of.after_each_call(move |role| {
        let applied = role.as_root().map_or(0, |root| root.engine().applied());
        if applied > last {
            last = applied;
            let _ = server.names("none");
        }
    });
}

/// Reads the page once a second until all is over.
fn read_metrics(at: SocketAddr, over: &AtomicBool) -> Sums {
    let (mut sums, mut next) = (Sums::default(), Instant::now());
    while !over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += SCRAPE_EVERY;
            let mut page = String::new();
            let asked = TcpStream::connect(at).and_then(|mut stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
                stream.read_to_string(&mut page)
            });
            if asked.is_ok() {
                sums.pages += 1;
                sums.page_bytes = sums.page_bytes.max(page.len() as u64);
                let lines = page.lines().filter(|line| line.starts_with("fairbell_records_total{"));
                let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
                sums.records = values.sum();
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    sums
}

/// What became of the records of a slice whose server was killed.
struct Killed {
    orders: u64,
    numbered: u64,
    got: u64,
    missing: u64,
    lost: u64,
}

fn killed(system: &System, program: &Path, dir: &Path, slice_ns: u64) -> Result<Killed, Failure> {
    let mut redis = Redis::start(program, &dir.join("synced"), true)?;
    let settings = Settings { url: redis.url(), prefix: "killed".to_string(), queue: FEW };
    let (outcome, back) = thread::scope(|scope| {
        let slice = scope.spawn(|| with_telemetry(system, (slice_ns, 1_000), &settings, false));
        thread::sleep(Duration::from_nanos(slice_ns / 2));
        redis.kill();
        thread::sleep(AWAY);
        let back = redis.start_again();
        (slice.join(), back)
    });
    back?;
    // Whoever is not answered exactly once is an error of the slice.
    let (latencies, sums) = outcome.map_err(|_| Failure::Run("a slice panicked".to_string()))??;
    let server = Server::new(&redis.url()).map_err(Failure::Run)?;
    let source = Source::Redis { server, prefix: settings.prefix };
    let mut export =
        Export::open(source, &dir.join("tables"), Format::Parquet).map_err(Failure::Run)?;
    export.pass().map_err(Failure::Run)?;
    export.save().map_err(Failure::Run)?;
    let accounts = || export.state().streams.values().map(|of| &of.account);
    let (got, missing) = (accounts().map(|of| of.got).sum(), accounts().map(|of| of.missing).sum());
    // The last entry of each stream says how many there were.
    let numbered = accounts().map(|of| of.next.saturating_sub(1)).sum();
    Ok(Killed { orders: latencies.summary().count, numbered, got, missing, lost: sums.lost })
}

fn print(
    args: &TelemetryArgs,
    slice_ns: u64,
    (pairs, ratios, met): (&[[f64; 2]], [f64; 2], bool),
    [bare, told]: &[Recorder; 2],
    (sums, killed): (&Sums, &Killed),
) {
    let path = match args.path {
        RttPath::Engine => "engine",
        RttPath::Tree => "tree",
    };
    let of = |recorder: &Recorder| [0.5, 0.99].map(|q| recorder.quantile(q));
    if args.json {
        let document = json!({
            "seed": Config::default().flow.seed, "path": path, "rate_per_s": args.rate,
            "slice_ns": slice_ns, "pairs_p50_p99": pairs, "control": args.control,
            "without_p50_p99_ns": of(bare), "with_p50_p99_ns": of(told),
            "ratio_p50": ratios[0], "ratio_p99": ratios[1], "bar_p50_p99": BAR, "bar_met": met,
            "records": sums.records, "records_lost": sums.lost, "pages": sums.pages,
            "page_bytes": sums.page_bytes,
            "redis_killed": {
                "orders_answered_once": killed.orders,
                "records": killed.numbered, "records_in_redis": killed.got,
                "records_missing": killed.missing, "records_counted_as_lost": killed.lost,
            },
        });
        println!("{document:#}");
        return;
    }
    println!("order to acceptance through {path}, us        p50        p99      count");
    for (name, recorder) in [("without telemetry", bare), ("metrics and records", told)] {
        let [p50, p99] = of(recorder).map(numbers::micros);
        println!("  {name:<32} {p50:>10} {p99:>10} {:>10}", recorder.summary().count);
    }
    println!("  {:<32} {:>9.3}x {:>9.3}x", "ratio, median of the pairs", ratios[0], ratios[1]);
    let verdict = if met { "met" } else { "not met" };
    println!("  {:<32} {:>9.2}x {:>9.2}x  {verdict}", "bar", BAR[0], BAR[1]);
    println!(
        "  records of all slices: {} and more, {} lost; {} pages of metrics, {} bytes at most",
        sums.records, sums.lost, sums.pages, sums.page_bytes
    );
    println!(
        "Redis killed for {} ms and back: {} orders answered, each once; of {} records {} are in Redis, \
         {} are missing, {} were counted as lost",
        AWAY.as_millis(),
        killed.orders,
        killed.numbered,
        killed.got,
        killed.missing,
        killed.lost
    );
}
