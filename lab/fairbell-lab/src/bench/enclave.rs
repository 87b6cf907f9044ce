//! `fairbell-lab bench enclave`: the three places of a participant's program beside each other, and how far apart enclaves
//! hear a message with and without equalization.
//!
//! The same strategy is called in place, is a module in the cage, a client behind sockets of loopback, and a program in an
//! attested enclave; all are told one market and must ask for the same orders.
//!
//! Then several enclaves of machines whose boundaries differ by what `--away-us` says, which is waited before each message
//! crosses. Each boundary is measured, and each round tells every enclave twice, in turn: at once, and later by
//! what the slowest boundary takes longer. They are asked one after the other, because they share this
//! machine's cores. What counts is the enclave's own clock when it heard, which is the host's here.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use host::enclave::{self, Bounds, Equalizer, Image, Running, Trust, monotonic};
use host::failure::{Failure, on};
use net::Clock;
use serde_json::json;
use strategy::enclave::Hold;
use strategy::{Maker, MakerConfig, Programmed, Strategy};
use telemetry::Recorder;
use telemetry::plot::{self, Curve, Figure};
use types::Nanos;

use super::strategy::{LOTS, Way, caged, inside, instruments, market, outside, settings};

/// Options of `fairbell-lab bench enclave`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    scripts/build-strategies.sh out/strategies enclave\n  \
    fairbell-lab bench enclave out/strategies/maker.wasm out/strategies/maker\n  \
    fairbell-lab bench enclave out/strategies/maker.wasm out/strategies/maker --away-us 0,50 --out out/enclave")]
pub struct EnclaveBenchArgs {
    /// The maker of sdk/strategy/examples as a module
    #[arg(value_name = "MODULE")]
    pub module: PathBuf,
    /// The same as a program for an enclave
    #[arg(value_name = "PROGRAM")]
    pub program: PathBuf,
    /// Messages of the feed
    #[arg(long, value_name = "N", default_value_t = 50_000,
          value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub messages: u64,
    /// By how much the boundary of each enclave is longer than it is here
    #[arg(long, value_name = "US", value_delimiter = ',', default_values_t = [0, 10, 20, 35],
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub away_us: Vec<u64>,
    /// Messages that every enclave is told with and without equalization
    #[arg(long, value_name = "N", default_value_t = 16_000,
          value_parser = clap::value_parser!(u64).range(10..=10_000_000))]
    pub rounds: u64,
    /// Fixes the market
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the distributions as figures into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Crossings by which a boundary is measured.
const CROSSINGS: u64 = 1_000;

/// A program in an enclave whose boundary is so much longer, ns.
struct Away {
    running: Running,
    away_ns: u64,
}

impl Away {
    fn new(
        program: &Image,
        trust: &Trust,
        (away_us, clock): (u64, Clock),
    ) -> Result<Away, Failure> {
        let running = started(program, trust, clock)?;
        Ok(Away { running, away_ns: away_us * Nanos::MICRO })
    }

    /// Tells it after `hold`; from the release to when it heard, ns.
    fn tell(&mut self, hold: &mut Hold, clock: Clock) -> Result<u64, Failure> {
        let sent = monotonic();
        hold(clock.now());
        let crosses = monotonic() + self.away_ns;
        while monotonic() < crosses {
            std::hint::spin_loop();
        }
        let crossing = self.running.enclave.cross(monotonic);
        let crossing = crossing.map_err(|error| Failure::Run(format!("enclave: {error}")))?;
        Ok(crossing.sent + crossing.one_way_ns() - sent)
    }
}

fn started(program: &Image, trust: &Trust, clock: Clock) -> Result<Running, Failure> {
    let bounds = Bounds { memory_bytes: 64 << 20, answer: Duration::from_secs(5) };
    let (measurement, settings) = (program.measurement(), settings());
    enclave::attested(trust, program, ("maker", &settings), (measurement, &bounds, clock))
}

/// What the enclaves heard when.
struct Spread {
    /// Each boundary: what it is longer by, and its measured median, ns.
    boundaries: Vec<(u64, u64)>,
    /// From the release to when an enclave heard, ns, without and with equalization.
    delays: [Recorder; 2],
    /// Between the first and the last enclave that hears a message, ns.
    apart: [Recorder; 2],
}

fn spread(
    args: &EnclaveBenchArgs,
    (program, trust): (&Image, &Trust),
    clock: Clock,
) -> Result<Spread, Failure> {
    let away = |us: &u64| Away::new(program, trust, (*us, clock));
    let mut enclaves = args.away_us.iter().map(away).collect::<Result<Vec<_>, _>>()?;
    let equalizer = Equalizer::new(0);
    let mut holds: Vec<[Hold; 2]> = Vec::new();
    let mut boundaries = Vec::new();
    for one in &mut enclaves {
        let (mut times, mut none) = (Recorder::new(), Box::new(|_| ()) as Hold);
        for _ in 0..CROSSINGS {
            times.record(one.tell(&mut none, clock)?);
        }
        let takes = times.quantile(0.5);
        boundaries.push((one.away_ns, takes));
        holds.push([none, equalizer.hold(takes, clock)]);
    }
    let [mut delays, mut apart] = [(); 2].map(|()| [Recorder::new(), Recorder::new()]);
    for round in 0..args.rounds {
        for turn in [0, 1] {
            // Which comes first changes: neither has the warmer caches.
            let equalized = (turn + round as usize) % 2;
            let (mut first, mut last) = (u64::MAX, 0);
            for (one, holds) in enclaves.iter_mut().zip(&mut holds) {
                let heard = one.tell(&mut holds[equalized], clock)?;
                delays[equalized].record(heard);
                (first, last) = (first.min(heard), last.max(heard));
            }
            apart[equalized].record(last - first);
        }
    }
    Ok(Spread { boundaries, delays, apart })
}

/// A distribution as a curve, us.
fn curve(name: &str, of: &Recorder) -> Curve {
    let most = of.quantile(0.995);
    let points = of.cdf(200).into_iter().filter(|(ns, _)| *ns <= most);
    Curve {
        name: name.to_string(),
        points: points.map(|(ns, part)| (ns as f64 / 1e3, part)).collect(),
    }
}

const KINDS: [&str; 2] = ["told at once", "equalized"];

fn figures(ways: &[Way], spread: &Spread) -> Vec<Figure> {
    let (x, y) = ("us", "share of messages");
    let models = ways.iter().map(|way| curve(way.name, &way.times)).collect();
    let heard = KINDS.iter().zip(&spread.delays).map(|(name, of)| curve(name, of)).collect();
    let title = |what: &str| format!("{what}, cumulative");
    vec![
        Figure {
            file: "models",
            title: title("From a released message to orders"),
            x,
            y,
            curves: models,
        },
        Figure {
            file: "enclaves",
            title: title("From a release to enclaves"),
            x,
            y,
            curves: heard,
        },
    ]
}

/// p0, p50, p90, p99 and p90 - p0, ns.
fn quantiles(of: &Recorder) -> [u64; 5] {
    let [p0, p50, p90, p99] = [0.0, 0.5, 0.9, 0.99].map(|at| of.quantile(at));
    [p0, p50, p90, p99, p90 - p0]
}

/// Runs it.
///
/// # Errors
/// A module or program is none; the places ask for different orders; an enclave ends.
pub fn run(args: &EnclaveBenchArgs) -> Result<(), Failure> {
    let clock = Clock::start(0);
    let market = market(args.messages, args.seed)?;
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| on(path, error));
    let (caged, _) = caged(&read(&args.module)?).map_err(|error| on(&args.module, error))?;
    let program = Image::new(&read(&args.program)?)?;
    let trust = Trust::own(clock.now())?;
    let running = started(&program, &trust, clock)?;
    let enclosed = Programmed::start(running, (&instruments(), 4), (64, 256));
    let config = MakerConfig { qty: LOTS, offset: 100, lots_max: 1_000_000 };
    let boxed = |strategy: Programmed<Running>| Box::new(strategy) as Box<dyn Strategy + Send>;
    let ways = [
        inside("1: at the receiver, in Rust", Box::new(Maker(config)), &market)?,
        inside("1: at the receiver, in the cage", Box::new(caged), &market)?,
        outside("2: client over loopback, in Rust", Box::new(Maker(config)), &market)?,
        inside("3: in an enclave, in Rust", boxed(enclosed), &market)?,
    ];
    let spread = spread(args, (&program, &trust), clock)?;
    if args.json {
        let five = |of: &Recorder| {
            let [p0, p50, p90, p99, span] = quantiles(of);
            json!({ "count": of.count(), "p0_ns": p0, "p50_ns": p50, "p90_ns": p90, "p99_ns": p99, "p90_p0_ns": span })
        };
        let models: Vec<_> = ways
            .iter()
            .map(|way| json!({ "model": way.name, "release_to_order": five(&way.times), "digest": format!("{:016x}", way.digest) }))
            .collect();
        let boundaries: Vec<_> = spread
            .boundaries
            .iter()
            .map(|(away, takes)| json!({ "away_ns": away, "p50_ns": takes }))
            .collect();
        let [at_once, equalized] = [0, 1].map(
            |at| json!({ "heard": five(&spread.delays[at]), "apart": five(&spread.apart[at]) }),
        );
        println!(
            "{:#}",
            json!({ "messages": args.messages, "rounds": args.rounds, "models": models, "boundaries": boundaries,
                    "at_once": at_once, "equalized": equalized })
        );
    } else {
        let row = |name: &str, of: &Recorder| {
            let texts = quantiles(of).map(|ns| format!("{:>9.2}", ns as f64 / 1e3));
            println!("{name:<34} {:>9} {}", of.count(), texts.join(" "));
        };
        let head = |what: &str| {
            println!(
                "{what:<34} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                "count", "p0", "p50", "p90", "p99", "p90-p0"
            );
        };
        println!("{} messages, seed {}; {} rounds", args.messages, args.seed, args.rounds);
        head("release to order, us");
        ways.iter().for_each(|way| row(way.name, &way.times));
        for (away, takes) in &spread.boundaries {
            println!(
                "boundary longer by {} us: median {:.2} us",
                away / Nanos::MICRO,
                *takes as f64 / 1e3
            );
        }
        head("release to enclave, us");
        KINDS.iter().zip(&spread.delays).for_each(|(name, of)| row(name, of));
        head("first to last enclave, us");
        KINDS.iter().zip(&spread.apart).for_each(|(name, of)| row(name, of));
    }
    if let Some(folder) = &args.out {
        let files = plot::write(&figures(&ways, &spread), folder);
        for file in files.map_err(|error| on(folder, error))? {
            println!("{}", file.display());
        }
    }
    match ways.iter().all(|way| way.digest == ways[0].digest) {
        true => Ok(()),
        false => Err(Failure::Run("the places ask for different orders".to_string())),
    }
}
