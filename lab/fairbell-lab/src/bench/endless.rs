//! Does a root's memory stay flat however long its log gets? Hundreds of millions of inputs through
//! one engine, log, private streams and feed, as fast as they go, and the process's resident size.
//!
//! The inputs are those of `fairbell-lab log write` (four instruments traded by different rules, eight
//! accounts, auctions, halts, kill switches, mass cancels, broken trades, trading days of 200,000
//! inputs) and between them, one for one, a flood: two accounts' immediate-or-cancel orders that
//! find nothing or are refused. All go through the root as those of a journal do at its start, so there is no
//! network, and nobody is told; everything that a root keeps of them it keeps.
//!
//! Log and streams lie in files as `fairbell up` has them, with `memory.when_full = "recycle"`. At
//! the end what is left of the log is replayed from its oldest snapshot and must give the same state.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use engine::Engine;
use exchange::{ExchangeConfig, Role, Root, deploy};
use indicatif::ProgressBar;
use types::{
    AccountId, ClockReading, Command, CommandKind, GatewayId, Incarnation, Input, InstrumentId,
    Nanos, Outbox, Peer, Price, Qty, Seq, ShardId, Source, TimeInForce, UserRefNum,
};

use crate::log::{Generated, generated};
use crate::resident::resident;
use fairbell::log::progress;
use fairbell::report::numbers::grouped;
use host::config::Config;
use host::failure::{Failure, on};

/// Inputs between two looks at the memory.
const LOOK_EVERY: u64 = 1 << 18;
/// Most inputs of the warm-up, in which what is bounded fills: a twentieth of all, up to so many.
const WARM_MAX: u64 = 10_000_000;
/// Without bounds there is nothing that fills.
const WARM_UNBOUNDED: u64 = 1_000_000;
/// Resident size may leave its level by so much, percent.
const BAND: f64 = 2.0;
/// Accounts of the generated inputs, and behind them those that flood.
const ACCOUNTS: u16 = 8;
const FLOODERS: u16 = 2;
/// Gateways of the generated inputs, and behind them that of the flood.
const GATEWAYS: u16 = 3;

/// Options of `fairbell-lab bench endless`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench endless                          200 million inputs, some minutes\n  \
    fairbell-lab bench endless --inputs 20M --json\n  \
    fairbell-lab bench endless --dir /dev/shm --disk-mib 256\n  \
    fairbell-lab bench endless --inputs 20M --unbounded   all in memory: must be found not flat")]
pub struct EndlessArgs {
    /// Inputs, with k or M behind the number if you like
    #[arg(long, value_name = "N", value_parser = count, default_value = "200M")]
    pub inputs: u64,
    /// What log and private streams may take on the disk together, MiB
    #[arg(long, value_name = "MIB", default_value_t = 512,
          value_parser = clap::value_parser!(u64).range(64..=1_048_576))]
    pub disk_mib: u64,
    /// Folder of a folder for the files, which goes at the end [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The control: all in memory, and it ends as soon as that is found not to be flat
    #[arg(long)]
    pub unbounded: bool,
    /// Seed of the generated inputs
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// A number with k or M behind it.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['M', 'm']) {
        Some(digits) => (digits, 1_000_000),
        None => text.strip_suffix(['k', 'K']).map_or((text, 1), |digits| (digits, 1_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let fits = number.filter(|number| (2_000_000..=100_000_000_000).contains(number));
    fits.ok_or_else(|| format!("{text:?}: a number from 2M to 100000M, like 200M"))
}

/// The exchange that the inputs are of: that of generated logs with the accounts that flood.
fn exchange(config: &Config) -> ExchangeConfig {
    let engine = generated::config();
    let mut exchange = host::deployment::exchange_config(config, &net::Clock::start(0));
    let account = exchange.accounts.first().cloned();
    exchange.accounts = account.into_iter().cycle().take((ACCOUNTS + FLOODERS).into()).collect();
    for (account, number) in exchange.accounts.iter_mut().zip(1..) {
        account.id = AccountId(number);
        account.username = format!("A{number}");
    }
    (exchange.depth, exchange.fanout, exchange.hedge) = (1, 2, 0);
    exchange.receivers = usize::from(GATEWAYS) + 1;
    (exchange.instruments, exchange.rules) = (engine.instruments, engine.rules);
    exchange.limits = engine.limits;
    exchange.open_orders_max = engine.book.orders as usize;
    exchange.midnight = Nanos(0);
    exchange
}

/// The inputs, for ever.
struct Flow {
    generated: Generated,
    seq: u64,
    /// Time of the last one.
    at: Nanos,
    /// Requests of the flood.
    flood: u64,
    /// Days begun.
    days: u64,
}

impl Flow {
    fn new(seed: u64, inputs: u64) -> Flow {
        let generated = Generated::new(seed, inputs);
        Flow { generated, seq: 0, at: Nanos(0), flood: 0, days: 0 }
    }

    /// The flood's next one: first the life of its gateway.
    fn flood(&mut self) -> (Source, Command) {
        let gateway = GatewayId(GATEWAYS + 1);
        if self.flood == 0 {
            self.flood = 1;
            let user_ref = UserRefNum(1);
            let grant = Command { user_ref, ..Command::new(CommandKind::GrantIncarnation) };
            return (Source { gateway, ..Source::default() }, grant);
        }
        let (seq, accounts) = (self.flood, u64::from(FLOODERS));
        self.flood += 1;
        let source = Source { gateway, shard: ShardId(0), incarnation: Incarnation(1), seq };
        let mut command = Command::new(CommandKind::NewOrder);
        command.account = AccountId(ACCOUNTS + 1 + (seq % accounts) as u16);
        command.instrument = InstrumentId(1);
        command.user_ref = UserRefNum((seq / accounts) as u32 + 1);
        (command.price, command.qty) = (Price(100), Qty(1));
        command.time_in_force = TimeInForce::ImmediateOrCancel;
        (source, command)
    }
}

impl Iterator for Flow {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        let (source, command) = if self.seq % 2 == 1 {
            self.flood()
        } else {
            let input = self.generated.next()?;
            self.at = input.t_seq;
            self.days += u64::from(input.command.kind == CommandKind::StartOfDay);
            (input.source, input.command)
        };
        self.seq += 1;
        let at = self.at;
        Some(Input { seq: Seq(self.seq), t_in: at, t_seq: at, source, flags: 0, command })
    }
}

/// The process's resident size over a run, in bytes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sizes {
    /// After the warm-up; 0 before.
    level: u64,
    least: u64,
    most: u64,
}

impl Sizes {
    fn note(&mut self, bytes: u64) {
        if self.level == 0 {
            *self = Sizes { level: bytes, least: bytes, most: bytes };
        }
        (self.least, self.most) = (self.least.min(bytes), self.most.max(bytes));
    }

    /// How far it was away from its level, percent.
    fn range(&self) -> (f64, f64) {
        let of = |bytes: u64| (bytes as f64 / self.level.max(1) as f64 - 1.0) * 100.0;
        (of(self.least), of(self.most))
    }

    fn is_flat(&self) -> bool {
        let (least, most) = self.range();
        self.level > 0 && least >= -BAND && most <= BAND
    }
}

/// Looks at the memory as inputs go by.
struct Watched<'a> {
    flow: Flow,
    left: u64,
    warm: u64,
    /// Ends it when it is found not to be flat.
    ends: bool,
    sizes: &'a mut Sizes,
    days: &'a mut u64,
    bar: &'a ProgressBar,
}

impl Iterator for Watched<'_> {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        self.left = self.left.checked_sub(1)?;
        let done = self.flow.seq;
        if done.is_multiple_of(LOOK_EVERY) {
            self.bar.set_position(done);
            if done >= self.warm {
                self.sizes.note(resident().unwrap_or(0));
                if self.ends && !self.sizes.is_flat() {
                    return None;
                }
            }
        }
        *self.days = self.flow.days;
        self.flow.next()
    }
}

/// What a run gave.
struct Found {
    inputs: u64,
    seconds: f64,
    sizes: Sizes,
    days: u64,
    reports: u64,
    feed_messages: u64,
    given_up: u64,
    on_disk: u64,
    /// What is left of the log gives the same state, and how many inputs that is.
    replayed: u64,
}

/// Runs it, prints what came of it, and fails where memory was not flat.
///
/// # Errors
/// Files that can't be had; inputs that the root did not take; a log that replays to another state;
/// memory that grew.
pub fn run(args: &EndlessArgs) -> Result<(), Failure> {
    let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let dir = parent.join(format!("fairbell-endless-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| on(&dir, error))?;
    let found = play(args, &dir);
    std::fs::remove_dir_all(&dir).map_err(|error| on(&dir, error))?;
    let found = found?;
    print(args, &found);
    match found.sizes.is_flat() {
        true => Ok(()),
        false => Err(Failure::Run(format!("memory is NOT flat within {BAND} %"))),
    }
}

fn play(args: &EndlessArgs, dir: &Path) -> Result<Found, Failure> {
    let mut config = Config::default();
    config.memory.disk_mib = args.disk_mib;
    config.memory.when_full = "recycle".to_string();
    if args.unbounded {
        (config.memory.inputs, config.memory.reports) = (0, 0);
    }
    let exchange = exchange(&config);
    let deployed = deploy(&exchange, host::deployment::life()?, |_| Peer::Addr(1));
    let mut nodes = deployed.map_err(|error| Failure::Run(error.to_string()))?;
    nodes.truncate(1);
    let log = dir.join("exchange.log");
    host::spill::attach(&config.memory, &log, &mut nodes)?;
    let warm = match args.unbounded {
        true => WARM_UNBOUNDED.min(args.inputs / 2),
        false => (args.inputs / 20).clamp(LOOK_EVERY, WARM_MAX),
    };
    let bar = if args.json { ProgressBar::hidden() } else { progress(args.inputs) };
    let (mut sizes, mut days, began) = (Sizes::default(), 0, Instant::now());
    let now = ClockReading { now: Nanos(1), bound_ns: 0 };
    let played: Option<Result<_, Failure>> = nodes.first_mut().and_then(|role: &mut Role| {
        role.with_root(&mut Outbox::default(), |root, _| {
            let watched = Watched {
                flow: Flow::new(args.seed, args.inputs),
                left: args.inputs,
                warm,
                ends: args.unbounded,
                sizes: &mut sizes,
                days: &mut days,
                bar: &bar,
            };
            root.resume(now, watched).map_err(|error| Failure::Run(error.to_string()))?;
            let seconds = began.elapsed().as_secs_f64();
            let replayed = replayed(root, &log)?;
            Ok((seconds, replayed, facts(root)?))
        })
    });
    bar.finish_and_clear();
    let (seconds, replayed, (reports, feed_messages)) =
        played.ok_or_else(|| Failure::Run("no root".to_string()))??;
    let root = nodes.first().and_then(Role::as_root);
    let fill = root.map(Root::fill).unwrap_or_default();
    Ok(Found {
        inputs: root.map_or(0, |root| root.log().len() as u64),
        seconds,
        sizes,
        days,
        reports,
        feed_messages,
        given_up: fill.given_up,
        on_disk: fill.log.0 + fill.streams.0,
        replayed,
    })
}

/// Reports and messages of the feed, if all could be kept and written.
fn facts(root: &Root) -> Result<(u64, u64), Failure> {
    let (counters, fill) = (root.counters(), root.fill());
    if counters.unencodable > 0 || counters.log_full > 0 || fill.held_back {
        return Err(Failure::Run(format!("not all was taken: {counters:?}, {fill:?}")));
    }
    let accounts = 1..=ACCOUNTS + FLOODERS;
    let of = |id| root.private().next_position(AccountId(id)) - 1;
    Ok((accounts.map(of).sum(), root.engine().feed_next().0 - 1))
}

/// Replays what is left of the log, from its oldest snapshot; how many inputs that is.
fn replayed(root: &Root, log: &Path) -> Result<u64, Failure> {
    let config = root.engine().config().clone();
    let start = match root.fill().given_up {
        0 => Engine::new(config),
        given_up => {
            let (_, path) = host::spill::snapshot_from(log, given_up)
                .ok_or_else(|| on(log, "no snapshot is beside it"))?;
            let bytes = std::fs::read(&path).map_err(|error| on(&path, error))?;
            Engine::read_snapshot(config, &bytes).map_err(|error| on(&path, error))?
        }
    };
    let since = start.applied();
    let inputs = root.log().records().skip_while(|input| input.seq.0 <= since);
    let engine = engine::replay_from(start, inputs, |_, _, _, _| {});
    match engine.state_digest() == root.engine().state_digest() {
        true => Ok(engine.applied() - since),
        false => Err(on(log, "what is left of it replays to another state")),
    }
}

fn print(args: &EndlessArgs, found: &Found) {
    let Found { inputs, seconds, sizes, days, .. } = found;
    let (least, most) = sizes.range();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    if args.json {
        let document = serde_json::json!({
            "inputs": inputs,
            "unbounded": args.unbounded,
            "seconds": seconds,
            "inputs_per_s": *inputs as f64 / seconds.max(1e-9),
            "trading_days": days,
            "reports": found.reports,
            "feed_messages": found.feed_messages,
            "resident_bytes_after_warm_up": sizes.level,
            "resident_bytes_least": sizes.least,
            "resident_bytes_most": sizes.most,
            "percent_least": least,
            "percent_most": most,
            "band_percent": BAND,
            "flat": sizes.is_flat(),
            "bytes_on_disk": found.on_disk,
            "inputs_given_up": found.given_up,
            "inputs_replayed": found.replayed,
        });
        println!("{document:#}");
        return;
    }
    let rate = grouped((*inputs as f64 / seconds.max(1e-9)) as u64);
    println!("inputs            {} in {seconds:.1} s, {rate}/s", grouped(*inputs));
    println!("trading days      {days}");
    println!(
        "followed          {} reports, {} messages of the feed",
        grouped(found.reports),
        grouped(found.feed_messages)
    );
    println!("resident          {:.1} MiB after the warm-up", mib(sizes.level));
    println!(
        "range after it    {:.1} to {:.1} MiB, {least:+.2} to {most:+.2} %",
        mib(sizes.least),
        mib(sizes.most)
    );
    println!("on disk           {:.1} MiB", mib(found.on_disk));
    println!(
        "of the log        {} inputs given up, the rest ({}) replays to the same state",
        grouped(found.given_up),
        grouped(found.replayed)
    );
    println!("within {BAND} %       {}", if sizes.is_flat() { "yes: flat" } else { "NO" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_with_their_units() {
        assert_eq!(
            (count("200M"), count("2500k"), count("2000000")),
            (Ok(200_000_000), Ok(2_500_000), Ok(2_000_000))
        );
        for wrong in ["", "M", "1M", "-5M", "2.5M", "2G", "99999999999999M"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flat_is_within_the_band_on_both_sides() {
        let sizes = |level, least, most| Sizes { level, least, most };
        assert!(sizes(1_000, 981, 1_019).is_flat());
        assert!(!sizes(1_000, 981, 1_021).is_flat() && !sizes(1_000, 979, 1_000).is_flat());
        assert!(!Sizes::default().is_flat(), "nothing was seen");
    }

    #[test]
    fn a_short_run_recycles_and_replays_to_the_same_state() {
        let args = EndlessArgs {
            inputs: 3_000_000,
            disk_mib: 64,
            dir: None,
            unbounded: false,
            seed: 7,
            json: true,
        };
        let dir =
            std::env::temp_dir().join(format!("fairbell-endless-test-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let found = play(&args, &dir);
        // Whoever writes may still be about to.
        let _ = std::fs::remove_dir_all(&dir);
        let found = found.expect("it runs");
        assert_eq!(found.inputs, 3_000_000);
        assert!(found.given_up > 2_000_000 && found.days > 5, "{} given up", found.given_up);
        assert!(found.on_disk <= 64 << 20 && found.replayed > 50_000, "{}", found.on_disk);
        assert!(found.reports > found.inputs / 2 && found.feed_messages > 100_000);
    }
}
