//! `fairbell load`: order load for any OUCH or FIX door, with exactly-once accounting.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use net::{Clock, Directory, Loop, LoopConfig, peer_addr};
use participant::load::{
    Kind, Load, LoadConfig, LoadCounts, LoadPhase, Login, Protocol, SecondPoint, UNREAD_MAX,
    Version,
};
use telemetry::Recorder;
use types::{Instrument, InstrumentId, Nanos, NodeId, Price, Qty, Symbol, limits};

use crate::least_loaded::Doors;
use crate::options::{TlsArgs, duration};
use crate::report::numbers;
use crate::up::report_quantiles;
use host::failure::Failure;

/// Options of `fairbell load`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell load --protocol ouch --address 127.0.0.1:26401 --login 'P{nn}:secret{nn}' --first 9 --clients 1 --symbol BTCUSD --price 78000\n  \
    fairbell load --protocol fix --address 127.0.0.1:27001 --comp-id 'CLIENT{nnn}' --clients 300 --rate 10000 --duration 60s --symbol GENA --price 100\n  \
    fairbell load ... --tls --ca authority.pem --cert member1.pem --key member1.key.pem\n  \
    fairbell load --protocol ouch --least-loaded edge-1:7014 --least-loaded edge-2:7014 --login ... --symbol ...\n  \
    fairbell load ... --json --hdr latency.hgrm\n\n\
    Open loop: a request that goes out late is charged with the delay. Every request must have\n\
    exactly one answer, otherwise the exit code is 1. In --login and --comp-id {nnn} stands for three\n\
    digits of the client's number, {nn} for two; a single n in braces for as many as it has.")]
pub struct LoadArgs {
    /// The door's protocol
    #[arg(long, value_enum)]
    pub protocol: ProtocolName,
    /// Address of a gateway; again for further ones, clients take them in turn
    #[arg(long = "address", value_name = "HOST:PORT", required_unless_present = "least_loaded")]
    pub addresses: Vec<String>,
    /// Ask this subscription door of an edge which edges take participants, and connect each client to
    /// the one that has least to do; again for further doors, asked in turn when one is away
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "addresses")]
    pub least_loaded: Vec<String>,
    /// Credentials, USER:PASSWORD; needed by OUCH and --least-loaded
    #[arg(long, value_name = "USER:PASSWORD")]
    pub login: Option<String>,
    /// Our SenderCompID, FIX only
    #[arg(long, value_name = "TEXT", default_value = "CLIENT{nnn}")]
    pub comp_id: String,
    /// TLS with the doors.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Our TargetCompID, FIX only
    #[arg(long, value_name = "TEXT", default_value = "FAIRBELL")]
    pub target: String,
    /// FIX version
    #[arg(long, value_enum, default_value_t = FixName::Fix44)]
    pub fix: FixName,
    /// Clients, each with a connection of its own
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: u32,
    /// Number of the first client
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub first: u32,
    /// Requests per second, all clients together
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub rate: u64,
    /// Length of the load
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub duration: Duration,
    /// Answers to the requests of this time give no latency
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub warmup: Duration,
    /// Patience for the last answers
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub patience: Duration,
    /// What to trade
    #[arg(long, value_name = "NAME")]
    pub symbol: String,
    /// Price that orders lie around
    #[arg(long, value_name = "PRICE")]
    pub price: String,
    /// Price step
    #[arg(long, value_name = "PRICE", default_value = "0.01")]
    pub tick: String,
    /// Of a hundred new orders, those good for 1 ms to 2 s only
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(0..=100))]
    pub good_till_date: u64,
    /// Seed of all randomness
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Write the latencies' percentiles to FILE, as HdrHistogram tools read them
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Protocols by name.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolName {
    /// OUCH 5.0 over SoupBinTCP
    Ouch,
    /// FIX
    Fix,
}

/// FIX versions by name.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FixName {
    /// FIX 4.2
    #[value(name = "4.2")]
    Fix42,
    /// FIX 4.4
    #[value(name = "4.4")]
    Fix44,
    /// FIX 5.0 SP2 over FIXT 1.1
    #[value(name = "5.0sp2")]
    Fix50Sp2,
}

impl FixName {
    /// The version.
    pub fn version(self) -> Version {
        match self {
            FixName::Fix42 => Version::Fix42,
            FixName::Fix44 => Version::Fix44,
            FixName::Fix50Sp2 => Version::Fix50Sp2,
        }
    }

    /// Its name for people.
    pub fn text(self) -> &'static str {
        match self {
            FixName::Fix42 => "4.2",
            FixName::Fix44 => "4.4",
            FixName::Fix50Sp2 => "5.0 SP2",
        }
    }
}

/// The clients' node.
const CLIENTS: NodeId = NodeId(60_001);
/// How long a door may take that was not reached before.
const CLOSED: Duration = Duration::from_secs(1);
/// How long all logins may take.
const LOGINS_NS: u64 = 30 * Nanos::SECOND;

/// Plays and prints.
pub fn run(args: &LoadArgs) -> Result<(), Failure> {
    let clock = Clock::start(0);
    let doors = doors(args)?;
    let config = config(args, &doors, clock.now())?;
    let mut load = Load::new(config).map_err(|error| Failure::Usage(error.to_string()))?;
    load.begin_at(&doors.first);
    let load = play(load, clock, args)?;
    let all = load.timings().all();
    if let Some(path) = &args.hdr {
        write_hdr(path, &all)?;
    }
    if args.json {
        println!("{:#}", document(args, &doors, &load, &all));
    } else {
        print(args, &doors, &load, &all);
    }
    verdict(&load, &doors.at)
}

/// Where clients begin: at the addresses in turn, or at the edges that have least to do.
fn doors(args: &LoadArgs) -> Result<Doors, Failure> {
    let clients = args.clients as usize;
    if args.least_loaded.is_empty() {
        let at: Vec<SocketAddr> =
            args.addresses.iter().map(|text| resolve(text)).collect::<Result<_, _>>()?;
        let first = (0..clients).map(|client| client % at.len().max(1)).collect();
        return Ok(Doors { at, first });
    }
    let Login { username, password, .. } = login(args, args.first)?;
    if username.is_empty() {
        let why = "--least-loaded: the door that is asked wants --login USER:PASSWORD";
        return Err(Failure::Usage(why.to_string()));
    }
    let tls = args.tls.client(args.least_loaded.first().map_or("", String::as_str))?;
    let (login, brought) = ((&username[..], &password[..]), (clients, args.rate));
    Doors::ask(&args.least_loaded, login, tls.as_ref(), brought, |edge| {
        let [ouch, fix, _] = edge.ports;
        if args.protocol == ProtocolName::Ouch { ouch } else { fix }
    })
}

fn config(args: &LoadArgs, doors: &Doors, now: Nanos) -> Result<LoadConfig, Failure> {
    let usage = |text: String| Failure::Usage(text);
    let price = |option: &str, text: &str| {
        types::decimal::price(text)
            .filter(|price| price.0 > 0)
            .ok_or_else(|| usage(format!("{option}: {text:?} is no price above zero")))
    };
    let symbol = Symbol::new(&args.symbol)
        .ok_or_else(|| usage("--symbol: 1 to 8 ASCII characters without blanks".to_string()))?;
    let logins = (0..args.clients).map(|index| login(args, args.first.saturating_add(index)));
    Ok(LoadConfig {
        logins: logins.collect::<Result<_, _>>()?,
        gateways: doors.at.iter().map(|at| peer_addr(*at)).collect(),
        instrument: Instrument {
            id: InstrumentId(1),
            symbol,
            tick: price("--tick", &args.tick)?,
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 0,
        },
        middle: price("--price", &args.price)?,
        rate: args.rate,
        duration_ns: nanos(args.duration),
        warmup_ns: nanos(args.warmup),
        login_timeout_ns: LOGINS_NS,
        drain_timeout_ns: nanos(args.patience),
        expiring: args.good_till_date * 10,
        seed: args.seed,
        run: run_name(now),
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Four characters that tell runs of one day apart.
fn run_name(now: Nanos) -> String {
    let tenths = now.0 / (Nanos::SECOND / 10);
    let digit = |n: u64| char::from_digit((n % 36) as u32, 36).unwrap_or('0').to_ascii_uppercase();
    (0..4).rev().map(|place| digit(tenths / 36u64.pow(place))).collect()
}

/// Where `--address` is, as its name resolves now; of a name with both versions of IP the IPv4 address.
///
/// # Errors
/// What is wrong with it.
pub fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    let bad = |error| Failure::Usage(format!("--address: {text:?}: {error}"));
    host::sockets::resolve(text).map_err(bad)
}

/// `{n}`, `{nn}`, ... replaced by the number, padded to as many digits.
fn numbered(pattern: &str, number: u32) -> String {
    let mut text = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}') {
            Some((inner, tail)) if !inner.is_empty() && inner.bytes().all(|b| b == b'n') => {
                text.push_str(&format!("{number:0width$}", width = inner.len()));
                rest = tail;
            }
            _ => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

fn login(args: &LoadArgs, number: u32) -> Result<Login, Failure> {
    let (username, password) = match &args.login {
        None if args.protocol == ProtocolName::Ouch => {
            return Err(Failure::Usage("--login: OUCH wants USER:PASSWORD".to_string()));
        }
        None => (String::new(), String::new()),
        Some(pattern) => match numbered(pattern, number).split_once(':') {
            Some((user, password)) => (user.to_string(), password.to_string()),
            None => return Err(Failure::Usage("--login: write USER:PASSWORD".to_string())),
        },
    };
    let protocol = match args.protocol {
        ProtocolName::Ouch => Protocol::Ouch,
        ProtocolName::Fix => Protocol::Fix {
            version: args.fix.version(),
            sender: numbered(&args.comp_id, number),
            target: numbered(&args.target, number),
        },
    };
    Ok(Login { protocol, username, password })
}

fn play(load: Load, clock: Clock, args: &LoadArgs) -> Result<Load, Failure> {
    let io = |error: std::io::Error| Failure::Run(format!("sockets: {error}"));
    let habits = LoopConfig {
        opened_max: args.clients as usize * 2 + 16,
        unread_max: UNREAD_MAX,
        ..LoopConfig::default()
    };
    let planned = load.planned();
    let mut of = Loop::new(clock, Arc::new(Directory::default()), habits).map_err(io)?;
    of.add_node(CLIENTS, load, Vec::new(), None).map_err(io)?;
    let named = args.addresses.first().or(args.least_loaded.first());
    if let Some(tls) = args.tls.client(named.map_or("", String::as_str))? {
        of.secure_outgoing(CLIENTS, tls);
    }
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let interrupted = crate::options::interrupted()?;
    let over = AtomicBool::new(false);
    let nodes = thread::scope(|scope| {
        let running = scope.spawn(|| {
            of.run(&stop, Duration::from_millis(20), |of, _| {
                for (_, load) in of.nodes() {
                    asked.store(load.counts().asked, Ordering::Relaxed);
                    over.store(load.phase() == LoadPhase::Done, Ordering::Relaxed);
                }
            })
        });
        let bar = progress(args, planned);
        while !over.load(Ordering::Relaxed)
            && !interrupted.load(Ordering::Relaxed)
            && !running.is_finished()
        {
            bar.set_position(asked.load(Ordering::Relaxed));
            thread::sleep(Duration::from_millis(50));
        }
        bar.finish_and_clear();
        stop.store(true, Ordering::Relaxed);
        running.join()
    });
    let nodes = nodes.map_err(|_| Failure::Run("the load's thread panicked".to_string()))?;
    let nodes = nodes.map_err(io)?;
    let load = nodes.into_iter().map(|(_, load)| load).next();
    load.ok_or_else(|| Failure::Run("the load's loop lost its node".to_string()))
}

fn progress(args: &LoadArgs, planned: u64) -> ProgressBar {
    if args.json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} requests, {eta}");
    ProgressBar::new(planned).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn write_hdr(path: &std::path::Path, all: &Recorder) -> Result<(), Failure> {
    let failed = |error| Failure::Run(format!("{}: {error}", path.display()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).map_err(failed)?);
    let mut write = || -> std::io::Result<()> {
        writeln!(
            file,
            "{:>12} {:>14} {:>10} {:>14}",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        )?;
        writeln!(file)?;
        for (ns, share) in all.cdf(200) {
            let count = (share * all.count() as f64).round();
            let (us, odds) = (ns as f64 / 1e3, 1.0 / (1.0 - share));
            writeln!(file, "{us:>12.3} {share:>14.12} {count:>10} {odds:>14.2}")?;
        }
        let summary = all.summary();
        writeln!(
            file,
            "#[Mean = {:.3}, Max = {:.3}]",
            summary.mean / 1e3,
            summary.max as f64 / 1e3
        )?;
        writeln!(file, "#[Total count = {}]", summary.count)?;
        file.flush()
    };
    write().map_err(failed)
}

/// Seconds from the start of play to the last answer.
fn played_s(load: &Load) -> f64 {
    match load.times() {
        (Some(from), Some(to)) => to.since(from) as f64 / 1e9,
        _ => 0.0,
    }
}

/// How many clients begin at each door, in the order of the doors.
fn beginning(doors: &Doors) -> impl Iterator<Item = (SocketAddr, usize)> {
    let clients = |place| doors.first.iter().filter(move |first| **first == place).count();
    doors.at.iter().enumerate().map(move |(place, at)| (*at, clients(place)))
}

fn document(args: &LoadArgs, doors: &Doors, load: &Load, all: &Recorder) -> serde_json::Value {
    let door = |(at, clients): (SocketAddr, usize)| serde_json::json!({ "address": at.to_string(), "clients": clients });
    let doors: Vec<_> = beginning(doors).map(door).collect();

    let counts = load.counts();
    let seconds = |point: &SecondPoint| {
        serde_json::json!({
            "second": point.second,
            "count": point.count,
            "p50_ns": point.p50_ns,
            "p99_ns": point.p99_ns,
            "max_ns": point.max_ns,
        })
    };
    let of = |kind| report_quantiles(&load.timings().of(kind).summary());
    serde_json::json!({
        "seed": args.seed,
        "protocol": format!("{:?}", args.protocol).to_lowercase(),
        "clients": args.clients,
        "doors": doors,
        "rate_per_s": args.rate,
        "planned": load.planned(),
        "played_s": played_s(load),
        "asked": counts.asked,
        "answered": counts.answered,
        "lost": counts.lost,
        "duplicates": counts.duplicates,
        "stray": counts.stray,
        "resent": counts.resent,
        "unsendable": counts.unsendable,
        "accepted": counts.accepted,
        "replaced": counts.replaced,
        "canceled": counts.canceled,
        "cancels_rejected": counts.cancels_rejected,
        "rejected_by_reason": counts.rejected,
        "executions": counts.executions,
        "executed_lots": counts.executed_lots,
        "logins": counts.logins,
        "logins_refused": counts.logins_refused,
        "refusals": counts.refusals,
        "connections_lost": counts.connections_lost,
        "lateness_max_ns": load.lateness_max_ns(),
        "latency_ns": report_quantiles(&all.summary()),
        "latency_new_ns": of(Kind::New),
        "latency_replace_ns": of(Kind::Replace),
        "latency_cancel_ns": of(Kind::Cancel),
        "seconds": load.timings().seconds().iter().map(seconds).collect::<Vec<_>>(),
    })
}

fn print(args: &LoadArgs, doors: &Doors, load: &Load, all: &Recorder) {
    let counts = load.counts();
    let grouped = numbers::grouped;
    let rate = counts.answered as f64 / played_s(load).max(1e-9);
    println!(
        "{} clients, {} requests in {:.1} s: {} answers/s (seed {})",
        args.clients,
        grouped(counts.asked),
        played_s(load),
        grouped(rate as u64),
        args.seed
    );
    println!(
        "  answered {}, lost {}, answered twice {}, stray {}, re-sent {}",
        grouped(counts.answered),
        grouped(counts.lost),
        grouped(counts.duplicates),
        grouped(counts.stray),
        grouped(counts.resent)
    );
    println!(
        "  accepted {}, replaced {}, cancelled {}, too late to cancel {}, executions {}",
        grouped(counts.accepted),
        grouped(counts.replaced),
        grouped(counts.canceled),
        grouped(counts.cancels_rejected),
        grouped(counts.executions)
    );
    for (reason, number) in &counts.rejected {
        println!("  refused with reason {reason}: {}", grouped(*number));
    }
    println!(
        "  logins {}, refused {}, connections lost {}, latest send {} us behind",
        counts.logins,
        counts.logins_refused,
        counts.connections_lost,
        numbers::micros(load.lateness_max_ns())
    );
    if !args.least_loaded.is_empty() {
        let door = |(at, clients)| format!("{clients} at {at}");
        let doors: Vec<String> = beginning(doors).map(door).collect();
        println!("  clients began where there was least to do: {}", doors.join(", "));
    }
    println!("\n  due to answered, us        p50        p99      p99.9        max      count");
    let row = |name: &str, of: &Recorder| {
        let of = of.summary();
        let [p50, p99, p999, max] = [of.p50, of.p99, of.p999, of.max].map(numbers::micros);
        println!("  {name:<18} {p50:>10} {p99:>10} {p999:>10} {max:>10} {:>10}", of.count);
    };
    row("all", all);
    for (name, kind) in [("new", Kind::New), ("replace", Kind::Replace), ("cancel", Kind::Cancel)] {
        row(name, load.timings().of(kind));
    }
}

/// How many logins were refused, and why.
fn refusals(counts: &LoadCounts) -> String {
    let reasons = counts.refusals.iter().map(|(why, times)| format!("; {times}: {why}"));
    format!("{} refused{}", counts.logins_refused, reasons.collect::<String>())
}

/// Doors that take no connection, and why.
fn closed(doors: &[SocketAddr]) -> String {
    let why = |door: &SocketAddr| {
        let error = TcpStream::connect_timeout(door, CLOSED).err()?;
        Some(format!("; {door}: {error}"))
    };
    doors.iter().filter_map(why).collect()
}

fn verdict(load: &Load, doors: &[SocketAddr]) -> Result<(), Failure> {
    let counts = load.counts();
    let never = load.times().0.is_none();
    let doors = if never { closed(doors) } else { String::new() };
    let wrong = [
        (never, format!("not all clients could log in: {}{doors}", refusals(&counts))),
        (counts.lost > 0, format!("{} requests without an answer", counts.lost)),
        (counts.duplicates > 0, format!("{} requests answered twice", counts.duplicates)),
        (counts.stray > 0, format!("{} answers to nothing asked", counts.stray)),
        (counts.unsendable > 0, format!("{} requests could not be sent", counts.unsendable)),
    ];
    match wrong.into_iter().find(|(is, _)| *is) {
        Some((_, why)) => Err(Failure::Run(why)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_where_the_pattern_says() {
        assert_eq!(numbered("CL{nnn}:p{n}", 7), "CL007:p7");
        assert_eq!(numbered("{x}{nn", 7), "{x}{nn");
        assert_eq!(numbered("plain", 7), "plain");
        assert_eq!(numbered("{nn}", 1234), "1234");
    }

    #[test]
    fn a_closed_door_is_named_with_the_reason() {
        let open = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let door = open.local_addr().expect("an address");
        // Nobody listens there.
        let shut = SocketAddr::from(([127, 0, 0, 1], 1));
        let said = closed(&[door, shut]);
        assert!(said.starts_with("; 127.0.0.1:1: Connection refused"), "{said}");
        assert_eq!(closed(&[door]), "");
    }

    #[test]
    fn runs_of_one_day_have_names_of_their_own() {
        let day = 24 * 3_600 * Nanos::SECOND;
        assert_eq!(run_name(Nanos(0)).len(), 4);
        assert_ne!(run_name(Nanos(day)), run_name(Nanos(day - Nanos::SECOND)));
    }
}
