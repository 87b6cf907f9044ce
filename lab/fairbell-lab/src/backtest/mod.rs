//! `fairbell-lab backtest`: a recorded market in our engine, with a strategy in it.

mod command;
mod read;
mod record_files;
mod sequence;
mod tell;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backtest::{Config, Delay, Fees, Outcome, Recording};
use clap::{Args, ValueEnum};
use strategy::{
    Cage, Idle, Limits, Maker, MakerConfig, Module, Programmed, Strategy, Taker, TakerConfig, heard,
};
use types::{Instrument, Nanos, SelfTrade};

use self::command::External;
use self::record_files::RecordFiles;
use host::failure::Failure;

/// Options of `fairbell-lab backtest`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab backtest out/exchange.log --strategy none          the recorded market alone\n  \
    fairbell-lab backtest day.itch --instrument MSFT --strategy maker --qty 100 --lots-max 1000\n  \
    fairbell-lab backtest es.mbo.dbn.zst --instrument ESZ5 --strategy taker --order-delay-us 250\n  \
    fairbell-lab backtest capture.pcap --jitter-us 50 --seed 7 --out out/backtest --json\n  \
    fairbell-lab backtest out/exchange.log --strategy-wasm maker.wasm --strategy-settings lots=2\n  \
    fairbell-lab backtest out/maker.heard --strategy-wasm maker.wasm          what it heard live, again\n\n\
    FILE is an input log of ours, a capture (pcap, pcapng; also what up --capture writes) of\n\
    MoldUDP64 with ITCH 5.0, a file of ITCH messages each behind its length (gzip is unpacked), a\n\
    DBN file of schema mbo (Zstandard is unpacked), LOBSTER's ..._message_N.csv, or what a strategy\n\
    heard live. A folder, or one file of it, that fairbell feed serve --ticks wrote has best prices\n\
    and trades alone.")]
pub struct BacktestArgs {
    /// The recorded market
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What trades in it
    #[arg(long, value_name = "NAME", default_value = "maker")]
    pub strategy: Name,
    /// A strategy in another process, started by a shell: news and orders are lines of JSON over
    /// its standard input and output
    #[arg(long, value_name = "COMMAND", conflicts_with = "strategy")]
    pub strategy_cmd: Option<String>,
    /// A strategy that is a WebAssembly module of the interface fairbell:strategy, under the usual limits
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "strategy_cmd"])]
    pub strategy_wasm: Option<PathBuf>,
    /// What the module is told as its settings
    #[arg(long, value_name = "TEXT", default_value = "", requires = "strategy_wasm")]
    pub strategy_settings: String,
    /// How long the other process may take for an answer, in seconds
    #[arg(long, value_name = "S", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub strategy_timeout_s: u64,
    /// Only these instruments; may be given several times [default: all]
    #[arg(long = "instrument", value_name = "SYMBOL")]
    pub instruments: Vec<String>,
    /// Lots of each order
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub qty: u32,
    /// Lots held at most of an instrument, long or short
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub lots_max: u64,
    /// Of the maker: price units behind the best price of the others; negative: before it
    #[arg(long, value_name = "UNITS", default_value_t = 0, allow_negative_numbers = true)]
    pub offset: i64,
    /// Of the taker: share of the bid in the lots of both best prices from which on it buys
    #[arg(long, value_name = "PERMILLE", default_value_t = 850,
          value_parser = clap::value_parser!(u64).range(500..=1000))]
    pub threshold: u64,
    /// From the exchange to the strategy, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100)]
    pub feed_delay_us: u64,
    /// From the strategy to the exchange, in microseconds
    #[arg(long, value_name = "US", default_value_t = 100)]
    pub order_delay_us: u64,
    /// Evenly drawn up to so much more, each way, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0)]
    pub jitter_us: u64,
    /// Fee of orders that rested, in millionths of the value; negative: a rebate
    #[arg(long, value_name = "PPM", default_value_t = 0, allow_negative_numbers = true)]
    pub maker_fee: i32,
    /// Fee of orders that came, in millionths of the value
    #[arg(long, value_name = "PPM", default_value_t = 0, allow_negative_numbers = true)]
    pub taker_fee: i32,
    /// Trades are judged by the middle after this time, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    pub markout_ms: u64,
    /// Seed of the jitter
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// A file with more events of the chosen instruments than this is refused; none is played in part
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub records_max: usize,
    /// Configuration that an input log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// When an order of the strategy would trade with another of its own
    #[arg(long, value_name = "RULE", default_value = "cancel-newest")]
    pub self_trade: SelfTradeRule,
    /// Folder for trades.csv, best.csv and the plots of the course
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Built-in strategies.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// Nobody: how well engine and recording agree
    None,
    /// Quotes both sides at the best prices of the others
    Maker,
    /// Buys where many bid and few offer, and the other way round
    Taker,
}

/// What ends instead of a trade of the strategy with itself.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelfTradeRule {
    /// The rest of the order that comes
    CancelNewest,
    /// The order that rests
    CancelOldest,
    /// Both
    CancelBoth,
    /// What would have traded, of both
    Decrement,
}

impl SelfTradeRule {
    fn rule(self) -> SelfTrade {
        match self {
            SelfTradeRule::CancelNewest => SelfTrade::CancelNewest,
            SelfTradeRule::CancelOldest => SelfTrade::CancelOldest,
            SelfTradeRule::CancelBoth => SelfTrade::CancelBoth,
            SelfTradeRule::Decrement => SelfTrade::Decrement,
        }
    }
}

pub use self::tell::{replayed, replayed_json};

/// All there is to tell.
struct Told<'a> {
    args: &'a BacktestArgs,
    read: &'a read::Found,
    outcome: &'a Outcome,
    strategy: String,
    took_ns: u64,
}

/// Runs it.
///
/// # Errors
/// The file cannot be read or holds no events.
pub fn run(args: &BacktestArgs) -> Result<(), Failure> {
    if let Some(bytes) = read::heard(&args.file)? {
        return replay(args, &bytes);
    }
    let wanted = read::Wanted {
        instruments: &args.instruments,
        records_max: args.records_max,
        config: args.config.as_deref(),
    };
    let read = read::read(&args.file, &wanted)?;
    let start = Instant::now();
    let files = args.out.as_deref().map(|folder| {
        let files = RecordFiles::create(folder, &read.recording);
        files.map_err(|error| host::failure::on(folder, error))
    });
    let mut files = files.transpose()?;
    let (strategy, outcome) = play(args, &read.recording, files.as_mut())?;
    let Some(outcome) = outcome else {
        let line = format!("{}: no event of these instruments", args.file.display());
        return Err(Failure::Run(line));
    };
    let took_ns = start.elapsed().as_nanos() as u64;
    let told = Told { args, read: &read, outcome: &outcome, strategy, took_ns };
    if args.json {
        println!("{:#}", tell::json(&told));
    } else {
        print!("{}", tell::text(&told));
    }
    if let (Some(folder), Some(files)) = (&args.out, files) {
        files.finish().map_err(|error| host::failure::on(folder, error))?;
        if !args.json {
            for name in ["trades.csv", "best.csv"] {
                println!("{}", folder.join(name).display());
            }
        }
        let files = telemetry::plot::write(&tell::figures(&told), folder);
        let files = files.map_err(|error| host::failure::on(folder, error))?;
        if !args.json {
            files.iter().for_each(|file| println!("{}", file.display()));
        }
    }
    Ok(())
}

fn play(
    args: &BacktestArgs,
    recording: &Recording,
    files: Option<&mut RecordFiles<BufWriter<File>>>,
) -> Result<(String, Option<Outcome>), Failure> {
    let delay = |us: u64| Delay {
        ns: us.saturating_mul(Nanos::MICRO),
        jitter_ns: args.jitter_us.saturating_mul(Nanos::MICRO).min(Nanos::SECOND * 3_600),
    };
    let config = Config {
        feed: delay(args.feed_delay_us),
        orders: delay(args.order_delay_us),
        seed: args.seed,
        fees: Fees { maker: args.maker_fee, taker: args.taker_fee },
        markout: Nanos(args.markout_ms.saturating_mul(Nanos::MILLI)),
        points: 1_000,
        self_trade: args.self_trade.rule(),
    };
    let (qty, lots_max) = (args.qty, args.lots_max);
    let play = |strategy: &mut dyn Strategy| match files {
        Some(files) => backtest::run_observed(recording, config, strategy, files),
        None => backtest::run(recording, config, strategy),
    };
    let market = (recording.instruments(), recording.price_decimals as u8);
    if let Some(command) = &args.strategy_cmd {
        let patience = Duration::from_secs(args.strategy_timeout_s);
        let external = External::start(command, patience)?;
        let mut external = Programmed::start(external, market, (command::ACTIONS_MAX, usize::MAX));
        let outcome = play(&mut external);
        return match external.failure() {
            Some(error) => Err(Failure::Run(format!("strategy {command}: {error}"))),
            None => match external.program_mut().finish() {
                Ok(()) => Ok((external.name().to_string(), outcome)),
                Err(error) => Err(Failure::Run(format!("strategy {command}: {error}"))),
            },
        };
    }
    if let Some(path) = &args.strategy_wasm {
        let mut caged = caged(path, &args.strategy_settings, market)?;
        let outcome = play(&mut caged);
        return match caged.failure() {
            Some(error) => Err(host::failure::on(path, error)),
            None => Ok((caged.name().to_string(), outcome)),
        };
    }
    let mut strategy: Box<dyn Strategy> = match args.strategy {
        Name::None => Box::new(Idle),
        Name::Maker => Box::new(Maker(MakerConfig { qty, offset: args.offset, lots_max })),
        Name::Taker => {
            let threshold_permille = args.threshold;
            Box::new(Taker(TakerConfig { qty, lots_max, threshold_permille }))
        }
    };
    let outcome = play(strategy.as_mut());
    Ok((strategy.name().to_string(), outcome))
}

/// Starts the module in a file, under the usual limits.
fn caged(
    path: &Path,
    settings: &str,
    market: (&[Instrument], u8),
) -> Result<Programmed<Cage>, Failure> {
    let bytes = std::fs::read(path).map_err(|error| host::failure::on(path, error))?;
    let limits = Limits::default();
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into());
    let cage = Module::new(&name, &bytes, &limits)
        .and_then(|module| Cage::new(&module, settings, &limits))
        .map_err(|error| host::failure::on(path, error))?;
    Ok(Programmed::start(cage, market, (limits.actions, limits.unanswered)))
}

/// Tells a module what a strategy heard live or in the simulator, and compares what it asks for.
fn replay(args: &BacktestArgs, bytes: &[u8]) -> Result<(), Failure> {
    let Some(module) = &args.strategy_wasm else {
        let why = "what a strategy heard is replayed with a module: name it with --strategy-wasm";
        return Err(Failure::Usage(format!("{}: {why}", args.file.display())));
    };
    let replayed = again((&args.file, bytes), module, &args.strategy_settings)?;
    if args.json {
        println!("{:#}", tell::replayed_json(&replayed));
    } else {
        print!("{}", tell::replayed(&replayed));
    }
    let file = args.file.display();
    match (replayed.is_equal(), replayed.cut) {
        (true, _) => Ok(()),
        (false, Some((at, _))) if replayed.first_difference.is_none() => {
            Err(Failure::Run(format!(
                "{file}: cut off at byte {at}: the requests before it are the record's, its end is missing"
            )))
        }
        _ => Err(Failure::Run("its requests are not those of the record".to_string())),
    }
}

/// What a module asks for when it is told the record in a file.
///
/// # Errors
/// The bytes are no record, the module is none.
pub fn again(
    (file, bytes): (&Path, &[u8]),
    module: &Path,
    settings: &str,
) -> Result<heard::Replayed, Failure> {
    let mut refused = None;
    let replayed = heard::replay(bytes, |instruments, price_decimals| {
        match caged(module, settings, (instruments, price_decimals)) {
            Ok(caged) => Ok(Box::new(caged) as Box<dyn Strategy>),
            Err(failure) => {
                let why = failure.to_string();
                refused = Some(failure);
                Err(why)
            }
        }
    });
    match refused {
        Some(failure) => Err(failure),
        None => replayed.map_err(|error| host::failure::on(file, error)),
    }
}
