//! `fairbell log`: input logs written, replayed and questioned, a record at a time.
//!
//! A log is read under the configuration it was written with, that of `fairbell.toml` or
//! `--config`; the digest in its header says whether it is.

use clap::{Args, Subcommand};
use std::fs::File;
use std::io::{BufReader, IsTerminal, Read, Seek, SeekFrom};
use std::path::Path;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use engine::log_file::{HEADER_LEN, LogReader, MAGIC, RECORD_LEN};
use engine::{Applied, Config, Engine, Output};
use feed::StreamDigest;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use types::{Input, Nanos};
use wire::itch;
use zerocopy::IntoBytes;

use host::failure::{Failure, on};
use host::journal::read::AsLog;

/// Options of `fairbell log`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell log replay day.log --from 2500000 --json      from the start\n  \
    fairbell log replay day.log --snapshot day.snap --json from half way: equal digests\n  \
    fairbell log dry-run out/exchange.log kill --account 3  what an operator's command would do")]
pub struct LogArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub log: Log,
}

/// What can be done with a log.
#[derive(Subcommand, Clone, Debug)]
pub enum Log {
    /// Replay a log, from its start or from a snapshot, and print digests
    Replay(LogReplayArgs),
    /// Say what an operator's command would do at the end of a log; nothing is written
    DryRun(dry::DryRunArgs),
}

/// Options of `fairbell log replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell log replay out/exchange.log            digests of state and messages\n  \
    fairbell log replay a.log --from 25000 --json   outputs after 25,000 commands only\n  \
    fairbell log replay a.log --snapshot a.snap     from half way: the same digests")]
pub struct LogReplayArgs {
    /// The log
    #[arg(value_name = "FILE")]
    pub log: PathBuf,
    /// Begin with this snapshot instead of an empty exchange
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub snapshot: Option<PathBuf>,
    /// Digest outputs from after this many commands only, as a replay from a snapshot does
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub from: u64,
    /// Configuration that the log was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

mod dry;

/// Inputs between two looks at the progress bar.
const LOOK_EVERY: u64 = 1 << 14;
/// A day in nanoseconds; ITCH times count from the midnight before an input.
const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// A log opened for reading, and what its exchange was made of.
pub struct Opened {
    /// Its records.
    pub reader: LogReader<Box<dyn Read>>,
    /// The engine's configuration it was written under.
    pub config: Config,
    /// Records it has or had, by the size of its file.
    pub records: u64,
}

impl Opened {
    /// The engine before the first record: a new one, or that of the snapshot beside the log from
    /// which it can be replayed since its oldest part was given up.
    ///
    /// # Errors
    /// When there is no such snapshot, or it is damaged.
    pub fn begin(&self, path: &Path) -> Result<Engine, Failure> {
        let given_up = self.reader.header().given_up;
        if given_up == 0 {
            return Ok(Engine::new(self.config.clone()));
        }
        let Some((_, snapshot)) = host::spill::snapshot_from(path, given_up) else {
            let line =
                format!("its first {given_up} inputs were given up, and no snapshot is beside it");
            return Err(on(path, line));
        };
        let bytes = std::fs::read(&snapshot).map_err(|error| on(&snapshot, error))?;
        let engine = Engine::read_snapshot(self.config.clone(), &bytes);
        engine.map_err(|error| on(&snapshot, error))
    }

    /// Refuses a log that lacks its beginning, for whoever needs all of it.
    ///
    /// # Errors
    /// As said.
    pub fn whole(self, path: &Path) -> Result<Opened, Failure> {
        match self.reader.header().given_up {
            0 => Ok(self),
            count => Err(on(
                path,
                format!(
                    "its first {count} inputs were given up (memory.when_full = \"recycle\"): this \
                 needs all of them"
                ),
            )),
        }
    }
}

/// A log's header and records, without the holes of what was given up.
fn records_of(mut file: File) -> std::io::Result<impl Read> {
    let mut head = Vec::with_capacity(HEADER_LEN);
    Read::by_ref(&mut file).take(HEADER_LEN as u64).read_to_end(&mut head)?;
    let given_up = head.last_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    if head.len() == HEADER_LEN && head.starts_with(MAGIC) && given_up > 0 {
        let holes = given_up.saturating_mul(RECORD_LEN as u64).saturating_add(HEADER_LEN as u64);
        file.seek(SeekFrom::Start(holes.min(i64::MAX as u64)))?;
    }
    Ok(std::io::Cursor::new(head).chain(BufReader::with_capacity(1 << 18, file)))
}

/// Opens a log, or the one in a journal's folder, under the configuration it was written with.
pub fn open(path: &Path, config: Option<&Path>, also: &[Config]) -> Result<Opened, Failure> {
    let file = File::open(path).map_err(|error| on(path, error))?;
    let known = file.metadata().map_err(|error| on(path, error))?;
    // How long a journal's log is shows at its end.
    let bytes = if known.is_dir() { 0 } else { known.len() };
    let from: Box<dyn Read> = match known.is_dir() {
        true => Box::new(AsLog::open(path)),
        false => Box::new(records_of(file).map_err(|error| on(path, error))?),
    };
    let reader = LogReader::new(from);
    let reader = reader.map_err(|error| on(path, error))?;
    let mut configs = also.to_vec();
    let loaded = host::fleet::shards::settings(config)?;
    configs.splice(0..0, host::deployment::engine_configs(&loaded));
    let header = reader.header();
    let header = (header.rules_version, header.config_digest);
    let config = host::deployment::written_under(&configs, header).map_err(|why| on(path, why))?;
    config.check().map_err(|error| Failure::Usage(error.to_string()))?;
    let records = bytes.saturating_sub(HEADER_LEN as u64) / RECORD_LEN as u64;
    Ok(Opened { reader, config, records })
}

/// Digests of all messages that leave an engine.
pub struct Outputs {
    /// Of the day with this midnight.
    encoder: (Nanos, itch::Encoder),
    instruments: Vec<types::Instrument>,
    bytes: Vec<u8>,
    executions_digest: StreamDigest,
    feed_digest: StreamDigest,
    /// Execution reports.
    pub executions: u64,
    /// Messages of the feed.
    pub feed_messages: u64,
    /// Events that have no format; none, unless limits are wrong.
    pub unencodable: u64,
}

impl Outputs {
    /// None so far.
    pub fn new(config: &Config) -> Outputs {
        Outputs {
            encoder: (Nanos(0), itch::Encoder::new(&config.instruments, Nanos(0))),
            instruments: config.instruments.clone(),
            bytes: Vec::with_capacity(64),
            executions_digest: StreamDigest::default(),
            feed_digest: StreamDigest::default(),
            executions: 0,
            feed_messages: 0,
            unencodable: 0,
        }
    }

    /// Takes in what followed from an input.
    pub fn take(&mut self, input: &Input, output: &Output) {
        for report in &output.executions {
            self.executions_digest.push(report.as_bytes());
        }
        self.executions += output.executions.len() as u64;
        let midnight = Nanos(input.t_seq.0 / DAY_NS * DAY_NS);
        if self.encoder.0 != midnight {
            self.encoder = (midnight, itch::Encoder::new(&self.instruments, midnight));
        }
        for (_, event) in &output.market {
            self.bytes.clear();
            let encoded = self.encoder.1.encode(event, input.t_seq, &mut self.bytes);
            self.unencodable += u64::from(encoded.is_err());
            self.feed_digest.push(&self.bytes);
        }
        self.feed_messages += output.market.len() as u64;
    }

    /// Digests of execution reports and of the feed's messages.
    pub fn digests(&self) -> (u64, u64) {
        (self.executions_digest.value(), self.feed_digest.value())
    }
}

/// A progress bar for longer work, hidden where nobody looks.
pub fn progress(records: u64) -> ProgressBar {
    let bar = ProgressBar::new(records);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "{pos}/{len} commands {wide_bar} {per_sec} {eta}";
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Trades of all instruments.
pub fn trades(engine: &Engine) -> u64 {
    let of = |id| engine.instrument_counters(id).map_or(0, |counts| counts.trades);
    engine.config().instruments.iter().map(|instrument| of(instrument.id)).sum()
}

/// What a replay gives.
struct Replayed {
    engine: Engine,
    outputs: Outputs,
    commands: u64,
    took: Duration,
}

/// Runs a subcommand; `also` are configurations beside the named one that a log may be of.
///
/// # Errors
/// Logs that can't be read, or are of other configurations.
pub fn run(log: &Log, also: &[Config]) -> Result<(), Failure> {
    match log {
        Log::Replay(args) => replay(args, also),
        Log::DryRun(args) => dry::run(args, also),
    }
}

/// Replays a log from its start or from a snapshot.
pub fn replay(args: &LogReplayArgs, also: &[Config]) -> Result<(), Failure> {
    let opened = open(&args.log, args.config.as_deref(), also)?;
    let rules = opened.reader.header().rules_version;
    let engine = match &args.snapshot {
        None => opened.begin(&args.log)?,
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|error| on(path, error))?;
            Engine::read_snapshot(opened.config.clone(), &bytes).map_err(|error| on(path, error))?
        }
    };
    let done = played(args, opened, engine)?;
    let (state, (executions, feed)) = (done.engine.state_digest(), done.outputs.digests());
    let seconds = done.took.as_secs_f64();
    let per_second = done.commands as f64 / seconds.max(1e-9);
    if args.json {
        let document = serde_json::json!({
            "rules_version": rules,
            "commands": done.commands,
            "applied": done.engine.applied(),
            "seconds": seconds,
            "commands_per_s": per_second,
            "trades": trades(&done.engine),
            "state_digest": format!("{state:016x}"),
            "executions": done.outputs.executions,
            "executions_digest": format!("{executions:016x}"),
            "feed_messages": done.outputs.feed_messages,
            "feed_digest": format!("{feed:016x}"),
            "feed_next": done.engine.feed_next().0,
            "debug_assertions": cfg!(debug_assertions),
        });
        println!("{document:#}");
    } else {
        println!("rules version      {rules}");
        println!("commands replayed  {} in {seconds:.2} s, {per_second:.0}/s", done.commands);
        println!("trades             {}", trades(&done.engine));
        println!("state              {state:016x}");
        println!("execution reports  {executions:016x} ({})", done.outputs.executions);
        println!("feed messages      {feed:016x} ({})", done.outputs.feed_messages);
    }
    match done.outputs.unencodable {
        0 => Ok(()),
        count => Err(on(&args.log, format!("{count} events have no ITCH message"))),
    }
}

fn played(args: &LogReplayArgs, opened: Opened, mut engine: Engine) -> Result<Replayed, Failure> {
    let Opened { mut reader, config, records } = opened;
    let from = args.from.max(engine.applied());
    let skip = engine.applied();
    let (mut outputs, mut output) = (Outputs::new(&config), Output::default());
    let (bar, started) = (progress(records), Instant::now());
    let (mut place, mut commands) = (reader.header().given_up, 0);
    while let Some(input) = reader.next().transpose().map_err(|error| on(&args.log, error))? {
        place += 1;
        if place <= skip {
            continue;
        }
        output.clear();
        let _: Applied = engine.apply(&input, &mut output);
        commands += 1;
        if place > from {
            outputs.take(&input, &output);
        }
        if place % LOOK_EVERY == 0 {
            bar.set_position(place);
        }
    }
    bar.finish_and_clear();
    if place < skip {
        return Err(on(&args.log, format!("has {place} commands, the snapshot is of {skip}")));
    }
    Ok(Replayed { engine, outputs, commands, took: started.elapsed() })
}
