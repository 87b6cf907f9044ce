//! `fairbell-lab backtest`: a recorded market in our engine, with a strategy in it.

mod command;
mod read;
mod record_files;
mod tell;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use backtest::{
    Config, Delay, Fees, Idle, Maker, MakerConfig, Outcome, Recording, Strategy, Taker, TakerConfig,
};
use clap::{Args, ValueEnum};
use types::{Nanos, SelfTrade};

use self::command::External;
use self::record_files::RecordFiles;
use host::failure::Failure;

/// Options of `fairbell-lab backtest`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab backtest out/exchange.log --strategy none          the recorded market alone\n  \
    fairbell-lab backtest day.itch --instrument MSFT --strategy maker --qty 100 --lots-max 1000\n  \
    fairbell-lab backtest es.mbo.dbn.zst --instrument ESZ5 --strategy taker --order-delay-us 250\n  \
    fairbell-lab backtest capture.pcap --jitter-us 50 --seed 7 --out out/backtest --json\n\n\
    FILE is an input log of ours, a capture (pcap, pcapng) of MoldUDP64 with ITCH 5.0, a file of\n\
    ITCH messages or of packets each behind its length (what up --capture writes), or a DBN file\n\
    of schema mbo; gzip and Zstandard are unpacked. A folder, or one file of it, that\n\
    fairbell feed serve --ticks wrote has best prices and trades alone.")]
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
    /// Events read at most
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

/// All there is to tell.
struct Told<'a> {
    args: &'a BacktestArgs,
    read: &'a read::Found,
    outcome: &'a Outcome,
    strategy: &'static str,
    took_ns: u64,
}

/// Runs it.
///
/// # Errors
/// The file cannot be read or holds no events.
pub fn run(args: &BacktestArgs) -> Result<(), Failure> {
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
) -> Result<(&'static str, Option<Outcome>), Failure> {
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
    if let Some(command) = &args.strategy_cmd {
        let patience = Duration::from_secs(args.strategy_timeout_s);
        let mut external = External::start(command, patience, recording)?;
        let outcome = play(&mut external);
        return match external.finish() {
            Some(error) => Err(Failure::Run(format!("strategy {command}: {error}"))),
            None => Ok(("command", outcome)),
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
    Ok((strategy.name(), outcome))
}
