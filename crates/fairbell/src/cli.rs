//! The command line: subcommands, options with units, examples, and one-line complaints.

use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{Config, Loaded};
use crate::failure::Failure;
use crate::load::ProtocolName;

mod admin;
mod clock;
mod records;

pub use admin::{Action, AdminArgs, LIMITS, Members, PARAMETERS};
pub use clock::{AgentArgs, AsymmetryOf, Clock, ClockArgs, ReportArgs, SimulateArgs, StatusArgs};
pub use records::{
    Check, CheckArgs, CheckBookArgs, DryRunArgs, ExplainArgs, Log, LogArgs, LogReplayArgs,
    Operation, PHASES, StatementArgs, WriteArgs, config, config_with_doors,
};

/// The configuration file read when `--config` names none and this one exists.
pub const CONFIG_FILE: &str = "fairbell.toml";

/// Orders of a simulated seed.
pub const DEFAULT_ORDERS: u64 = 500;

/// The command line as a whole.
#[derive(Parser, Debug)]
#[command(
    name = "fairbell",
    version,
    about = "A cloud exchange that is fair by construction",
    after_help = "Examples:\n  \
        fairbell up --once                 play the sample through a whole exchange, then report\n  \
        fairbell up                        the same, then keep serving until Ctrl-C\n  \
        fairbell sim --seeds 0..1000       a thousand faulty networks, simulated\n  \
        fairbell replay                    the sample through the engine alone\n  \
        fairbell log replay out/exchange.log  the last run again, with digests\n  \
        fairbell admin status              how a running exchange is; and steer it\n  \
        fairbell explain 3:17              one order's whole story\n  \
        fairbell statement                 what everybody traded, reconciled\n  \
        fairbell check book                the order book against its model\n  \
        fairbell bench book --workload w1  the order book alone\n  \
        fairbell bench rtt                 order to acceptance beside its floor"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a whole exchange on this machine and play order flow through it
    Up(UpArgs),
    /// Steer a running exchange
    Admin(AdminArgs),
    /// Run one replica of an exchange's root
    Replica(crate::replica::ReplicaArgs),
    /// Kill leaders and gateways of real processes while clients trade, and account for it
    Drill(DrillArgs),
    /// Play order load against any OUCH or FIX door and account for every answer
    Load(crate::load::LoadArgs),
    /// Certify a participant's own FIX or OUCH client, step by step
    Certify(crate::certify::CertifyArgs),
    /// The exchange's FIX dictionaries, for QuickFIX engines
    Fix(crate::dictionaries::FixArgs),
    /// Run the exchange in the deterministic simulator, once per seed
    Sim(SimArgs),
    /// Replay the sample in file order through the engine, in process
    Replay(ReplayArgs),
    /// Write, replay and question input logs
    Log(LogArgs),
    /// Look into a durable journal, check it, take its log out of it
    Journal(crate::journal::JournalArgs),
    /// Make the post-trade store from a journal, keep it up to date, reconcile it
    Store(crate::store::StoreArgs),
    /// Ask the post-trade store for orders and trades
    Query(crate::query::QueryArgs),
    /// Published experiments of cloud exchanges, ours beside the published figures
    Reproduce(crate::reproduce::ReproduceArgs),
    /// Take part in probe jobs, on every VM of a pool
    Agent(crate::plan::AgentArgs),
    /// Probe a pool of VMs, build trees of them, evaluate and compare
    Plan(crate::plan::PlanArgs),
    /// Tell one order's whole story from a log
    Explain(ExplainArgs),
    /// Statements, trades and closing prices of a log, reconciled with its feed
    Statement(StatementArgs),
    /// Compare parts of the exchange with models of them, or look at a configuration
    Check(CheckArgs),
    /// Decode, count and replay captures of market data
    Feed(crate::captures::FeedArgs),
    /// Play a recorded market in our engine, with a strategy in it
    Backtest(crate::backtest::BacktestArgs),
    /// Attack the doors of an exchange in this process while honest clients trade
    Attack(crate::attack::AttackArgs),
    /// Make an authority and certificates for a trial of TLS
    Cert(crate::cert::CertArgs),
    /// Print the hash of a password for the configuration
    HashPassword(crate::password::HashArgs),
    /// Keep clocks synchronized, and judge them
    Clock(ClockArgs),
    /// Measure
    Bench(BenchArgs),
}

/// Options of `fairbell up`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell up --once                            the sample once, report, exit\n  \
    fairbell up --duration 30s --rate 10000 --json    one JSON document on standard output\n  \
    fairbell up --fail-proxy 2 --after 10s --hedge 0  a proxy dies; repairs and re-sends work\n  \
    fairbell up --sequencer off                   orders in the order of their arrival\n  \
    fairbell up --receivers 27 --depth 3          a deeper tree\n  \
    fairbell up --duration 20s --late-listener 8s     one joins by a snapshot of the books\n  \
    fairbell up --replicas 3 --duration 10s --rate 200   three replicas of the root, one log\n  \
    fairbell up --once --capture feed.pcap        also write the released feed of a receiver\n\n\
    Without --once and --duration it keeps serving after the sample until Ctrl-C: connect your\n\
    own OUCH client or MoldUDP64 listener to the addresses it prints.")]
pub struct UpArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the sample's files
    #[arg(long, value_name = "DIR")]
    pub sample: Option<PathBuf>,
    /// Client messages of the sample per second
    #[arg(long, value_name = "N")]
    pub rate: Option<u64>,
    /// Stop after this time of play, like 30s or 500ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Stop when the sample has been played
    #[arg(long)]
    pub once: bool,
    /// Seed of all randomness
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Put orders in the order of their arrival at the gateways
    #[arg(long, value_name = "SWITCH")]
    pub sequencer: Option<Switch>,
    /// Hops from the root to a receiver (D)
    #[arg(long, value_name = "D")]
    pub depth: Option<u32>,
    /// Children of a node (F)
    #[arg(long, value_name = "F")]
    pub fanout: Option<u32>,
    /// Receiver machines, each with a gateway (N)
    #[arg(long, value_name = "N")]
    pub receivers: Option<u32>,
    /// Siblings whose children a node also sends to (H)
    #[arg(long, value_name = "H")]
    pub hedge: Option<u32>,
    /// Make the root a group of so many replicas, 3 or 5, with journals in journal.dir; the tree
    /// keeps its shape
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    /// Kill this proxy (from 1) while the exchange runs
    #[arg(long, value_name = "K", group = "failing",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub fail_proxy: Option<u16>,
    /// Kill this gateway (from 1), with the receiver on its machine, while the exchange runs
    #[arg(long, value_name = "N", group = "failing",
          value_parser = clap::value_parser!(u16).range(1..))]
    pub fail_gateway: Option<u16>,
    /// When to kill it, from the start of play
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "failing",
          default_value = "10s")]
    pub after: Duration,
    /// Give all nodes the delays of a synthetic cloud in which this proxy (from 1) is a straggler
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    pub slow_proxy: Option<u16>,
    /// The last built-in listener hears nothing for so long after the start
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub late_listener: Option<Duration>,
    /// First port on the loopback address; 0 takes free ones
    #[arg(long, value_name = "PORT")]
    pub port_base: Option<u32>,
    /// Write the feed that the first receiver releases to FILE, a pcap, and FILE.bbo.json beside it
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Flip one byte of the Nth packet that receiver 1 releases: the run must then fail
    #[arg(long, value_name = "N", hide = true)]
    pub corrupt_packet: Option<u64>,
    /// Flip one bit of this replica's journal (from 1) before logs are compared: the run must then
    /// fail
    #[arg(long, value_name = "K", hide = true, requires = "replicas")]
    pub flip_replica: Option<u8>,
    /// Folder for report.json and report.html
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub out: PathBuf,
    /// Print the report as one JSON document; progress goes to standard error
    #[arg(long)]
    pub json: bool,
    /// No progress, only the report
    #[arg(long)]
    pub quiet: bool,
}

impl UpArgs {
    /// The configuration: file or defaults, then these options, then checked as a whole.
    pub fn load_config(&self) -> Result<Config, Failure> {
        let mut loaded = load(self.config.as_deref())?;
        if let Some(n) = self.rate {
            loaded.set("flow.rate", "--rate", n, |c, v| c.flow.rate = v)?;
        }
        if let Some(n) = self.seed {
            loaded.set("flow.seed", "--seed", n, |c, v| c.flow.seed = v)?;
        }
        if let Some(switch) = self.sequencer {
            let on = switch == Switch::On;
            loaded.set("sequencer.enabled", "--sequencer", on, |c, v| c.sequencer.enabled = v)?;
        }
        if let Some(n) = self.depth {
            loaded.set("overlay.depth", "--depth", n, |c, v| c.overlay.depth = v)?;
        }
        if let Some(n) = self.fanout {
            loaded.set("overlay.fanout", "--fanout", n, |c, v| c.overlay.fanout = v)?;
        }
        if let Some(n) = self.receivers {
            loaded.set("overlay.receivers", "--receivers", n, |c, v| c.overlay.receivers = v)?;
        }
        if let Some(n) = self.hedge {
            loaded.set("overlay.hedge", "--hedge", n, |c, v| c.overlay.hedge = v)?;
        }
        if let Some(n) = self.replicas {
            let how = "replicated".to_string();
            loaded.set("journal.replicas", "--replicas", n, |c, v| c.journal.replicas = v)?;
            loaded.set("journal.durability", "--replicas", how, |c, v| c.journal.durability = v)?;
            loaded.set("overlay.change_tree_at_percent", "--replicas", 0_u32, |c, v| {
                c.overlay.change_tree_at_percent = v;
            })?;
        }
        if let Some(n) = self.port_base {
            loaded.set("ports.base", "--port-base", n, |c, v| c.ports.base = v)?;
        }
        sample(&mut loaded, self.sample.as_deref())?;
        Ok(loaded.finish_with_doors()?)
    }
}

/// Options of `fairbell sim`.
#[derive(Args, Clone, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    fairbell sim                         seeds 0 to 999\n  \
    fairbell sim --seed 42 --orders 2000 one seed again, longer\n  \
    fairbell sim --seeds 0..50 --json    sums as one JSON document\n  \
    fairbell sim fuzz                    ten thousand random scenarios\n  \
    fairbell sim --scenario scenarios/storm.toml   a scenario from a file\n  \
    fairbell sim attack order-spam       an attack and what others have to bear\n  \
    fairbell sim replicas                ten thousand groups of replicas under faults\n\n\
    Every seed is a network with losses, duplicates, reordering and delays. A seed passes when all\n\
    books are equal and every order was answered exactly once."
)]
pub struct SimArgs {
    /// Other ways to simulate
    #[command(subcommand)]
    pub what: Option<crate::simulate::Sim>,
    /// A scenario file: network, faults, participants, length
    #[arg(long, value_name = "FILE", conflicts_with = "orders")]
    pub scenario: Option<PathBuf>,
    /// Folder for the figures of a scenario
    #[arg(long, value_name = "DIR", requires = "scenario", default_value = "out/scenario")]
    pub out: PathBuf,
    /// Seeds to run, first..last, the last one not included [default: 0..1000; of a scenario 0..5]
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub seeds: Option<Range<u64>>,
    /// This seed alone
    #[arg(long, value_name = "S", conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Orders of each seed
    #[arg(long, value_name = "N", default_value_t = DEFAULT_ORDERS,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub orders: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl SimArgs {
    /// The seeds asked for.
    pub fn seeds(&self) -> Range<u64> {
        let usual = 0..if self.scenario.is_some() { 5 } else { 1_000 };
        let seeds = self.seeds.clone().unwrap_or(usual);
        self.seed.map_or(seeds, |seed| seed..seed.saturating_add(1))
    }
}

/// Options of `fairbell replay`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell replay                      how many of the venue's trades the engine reproduces\n  \
    fairbell replay --sample DIR --json  another folder, one JSON document")]
pub struct ReplayArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the sample's files
    #[arg(long, value_name = "DIR")]
    pub sample: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl ReplayArgs {
    /// The configuration: file or defaults, then these options, then checked as a whole.
    pub fn load_config(&self) -> Result<Config, Failure> {
        let mut loaded = load(self.config.as_deref())?;
        sample(&mut loaded, self.sample.as_deref())?;
        Ok(loaded.finish()?)
    }
}

/// Options of `fairbell bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub bench: Bench,
}

/// The benchmarks.
#[derive(Subcommand, Clone, Debug)]
pub enum Bench {
    /// The order book alone, on tapes whose trades are known
    Book(crate::bench::book::BookArgs),
    /// The engine from OUCH bytes in to ITCH and OUCH bytes out, on one thread
    Engine(crate::bench::pipeline::EngineArgs),
    /// Market data decoded from descriptions, beside a floor written by hand
    Decode(crate::bench::decode::DecodeArgs),
    /// The FIX codec on an order and a report, beside a bare scan of the bytes
    Fix(crate::bench::fix::FixArgs),
    /// LemonDrop's placement, beside scipy's FAQ when there is one
    Plan(crate::bench::plan::PlanBenchArgs),
    /// The journal's group commit, beside a bare loop of write and fdatasync
    Journal(crate::bench::journal::JournalArgs),
    /// Order to acceptance with the log in memory, on one disk and on most of three, beside floors
    Durability(crate::bench::durability::DurabilityArgs),
    /// Round trips over every transport of the exchange
    Pingpong(crate::bench::wires::PingpongArgs),
    /// Messages in a second over every transport of the exchange
    Rate(crate::bench::wires::RateArgs),
    /// A root's memory over hundreds of millions of inputs: flat, or not
    Endless(crate::bench::endless::EndlessArgs),
    /// An engine from its journal: time against length of the log, without and with snapshots
    Recovery(crate::bench::recovery::RecoveryArgs),
    /// The post-trade store fed with a generated log, beside the engine alone
    Store(crate::bench::store::StoreBenchArgs),
    /// Order to acceptance over loopback TCP, alone or through the whole exchange, beside an echo
    Rtt(RttArgs),
    /// Gateway to engine and back over our transport, Redis lists and ZeroMQ
    Transports(crate::bench::transports::TransportsArgs),
}

/// Options of `fairbell bench rtt`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell bench rtt                   40 s: system and floor in alternating slices\n  \
    fairbell bench rtt --protocol fix    the same through the FIX door\n  \
    fairbell bench rtt --path tree       through the whole exchange, beside its hops and its window\n  \
    fairbell bench rtt --duration 2m --rate 20000 --json\n  \
    fairbell bench rtt --no-bar          exit code 0 whatever the ratio\n  \
    fairbell bench rtt --sealed off      what sealing costs")]
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

/// On or off.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Parses a command line, the program's name first. `None`: help or version was printed.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Cli>, Failure> {
    match Cli::try_parse_from(args) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                error.print().map_err(|error| Failure::Run(error.to_string()))?;
                Ok(None)
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Err(Failure::Usage("what to do? `fairbell --help` lists the commands".to_string()))
            }
            _ => Err(Failure::Usage(first_paragraph(&error.to_string()))),
        },
    }
}

/// The complaint without usage and hints, in one line.
fn first_paragraph(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_string()
}

/// Options of `fairbell drill`.
#[derive(Args, Clone, Debug)]
pub struct DrillArgs {
    /// Which one
    #[command(subcommand)]
    pub what: crate::drill::Drill,
}

/// The configuration of a file, or the built-in one.
pub fn load_plain(path: Option<&Path>) -> Result<Config, Failure> {
    Ok(load(path)?.finish()?)
}

fn load(path: Option<&Path>) -> Result<Loaded, Failure> {
    Ok(match path {
        Some(path) => Loaded::file(path)?,
        None if Path::new(CONFIG_FILE).exists() => Loaded::file(Path::new(CONFIG_FILE))?,
        None => Loaded::defaults(),
    })
}

fn sample(loaded: &mut Loaded, folder: Option<&Path>) -> Result<(), Failure> {
    if let Some(folder) = folder {
        let text = folder.to_string_lossy().into_owned();
        loaded.set("flow.sample", "--sample", text, |c, v| c.flow.sample = v)?;
    }
    Ok(())
}

/// `30s`, `500ms`, `250us`, `2m`, `1h`: a whole number above zero and a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let complaint = "write a whole number above zero and a unit, like 30s, 500ms or 2m";
    let number: u64 = number.parse().map_err(|_| complaint.to_string())?;
    let micros_each = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(complaint.to_string()),
    };
    match number.checked_mul(micros_each) {
        Some(micros) if micros > 0 => Ok(Duration::from_micros(micros)),
        _ => Err(complaint.to_string()),
    }
}

/// `0..1000`: the first seed and the one after the last.
pub(crate) fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text
        .split_once("..")
        .and_then(|(first, last)| Some(first.parse().ok()?..last.parse().ok()?))
        .filter(|range: &Range<u64>| !range.is_empty());
    range.ok_or_else(|| "write the first seed and the one after the last, like 0..1000".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse_words(words: &str) -> Result<Option<Cli>, Failure> {
        parse(words.split_whitespace().map(OsString::from))
    }

    fn up(words: &str) -> UpArgs {
        match parse_words(&format!("fairbell up {words}")).unwrap().unwrap().command {
            Command::Up(args) => args,
            other => panic!("not up: {other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound_and_every_command_has_examples() {
        fn check(command: &clap::Command) {
            let leaf = command.get_subcommands().next().is_none();
            if leaf && command.get_name() != "help" {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("fairbell "), "{} shows no example", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        let command = Cli::command();
        command.clone().debug_assert();
        check(&command);
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in
            ["", "s", "30", "-1s", "1.5s", "0s", "1d", "99999999999999999999s", "9999999999h"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!(seeds("0..1000"), Ok(0..1000));
        for bad in ["", "5", "5..5", "9..1", "a..b", "0..", "..3", "0..=3"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_single_seed_replaces_the_range() {
        let Command::Sim(args) = parse_words("fairbell sim --seed 7").unwrap().unwrap().command
        else {
            panic!("not sim")
        };
        assert_eq!(args.seeds(), 7..8);
        assert!(parse_words("fairbell sim --seed 7 --seeds 0..3").is_err());
    }

    #[test]
    fn options_reach_the_configuration() {
        let words = "--rate 5 --seed 9 --sequencer off --depth 3 --fanout 2 --receivers 8 \
                     --hedge 0 --port-base 0 --sample elsewhere";
        let config = up(words).load_config().unwrap();
        assert_eq!((config.flow.rate, config.flow.seed), (5, 9));
        assert!(!config.sequencer.enabled);
        assert_eq!((config.overlay.depth, config.overlay.fanout), (3, 2));
        assert_eq!((config.overlay.receivers, config.overlay.hedge), (8, 0));
        assert_eq!((config.ports.base, config.flow.sample.as_str()), (0, "elsewhere"));
        let failure = up("--fanout 0").load_config().unwrap_err();
        assert_eq!(failure.to_string(), "--fanout: overlay.fanout: must be 1..=64, is 0");
        assert_eq!(failure.exit_code(), 2);
    }

    #[test]
    fn complaints_are_one_line_and_exit_with_two() {
        let lines = [
            "fairbell",
            "fairbell dance",
            "fairbell up --rate many",
            "fairbell up --sequencer maybe",
            "fairbell up --duration 30",
            "fairbell up --after 3s",
            "fairbell up --nonsense",
            "fairbell bench",
            "fairbell sim --orders 0",
        ];
        for line in lines {
            let failure = parse_words(line).expect_err(line);
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert_eq!(failure.to_string().lines().count(), 1, "{line}: {failure}");
            assert!(!failure.to_string().is_empty(), "{line}");
        }
    }
}
