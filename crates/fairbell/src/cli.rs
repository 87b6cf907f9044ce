//! The command line: subcommands, options with units, examples, and one-line complaints.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use host::failure::Failure;

/// The command line as a whole.
#[derive(Parser, Debug)]
#[command(
    name = "fairbell",
    version,
    about = "A cloud exchange that is fair by construction",
    after_help = "Examples:\n  \
        fairbell up --once                 play the sample through a whole exchange, then report\n  \
        fairbell up                        the same, then keep serving until Ctrl-C\n  \
        fairbell log replay out/exchange.log  the last run again, with digests\n  \
        fairbell admin status              how a running exchange is; and steer it\n  \
        fairbell explain 3:17              one order's whole story\n  \
        fairbell statement                 what everybody traded, reconciled\n\n\
        What proves and measures the exchange (bench, drill, attack, sim, reproduce, ...) is in\n\
        fairbell-lab."
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
    Up(crate::up::UpArgs),
    /// Steer a running exchange
    Admin(crate::admin::AdminArgs),
    /// Run one machine of a venue of many
    Node(crate::node::NodeArgs),
    /// Make a venue of many machines, and steer it
    Cluster(crate::cluster::ClusterArgs),
    /// Mend the folder of a replica of the root that does not run
    Replica(crate::replica::ReplicaArgs),
    /// Play order load against any OUCH or FIX door and account for every answer
    Load(crate::load::LoadArgs),
    /// Subscribe to the feed at an edge of a fleet, and build the books of it
    Subscribe(crate::subscribe::SubscribeArgs),
    /// Certify a participant's own FIX or OUCH client, step by step
    Certify(crate::certify::CertifyArgs),
    /// The exchange's FIX dictionaries, for QuickFIX engines
    Fix(crate::dictionaries::FixArgs),
    /// Write, replay and question input logs
    Log(crate::log::LogArgs),
    /// Look into a durable journal, check it, take its log out of it
    Journal(crate::journal::JournalArgs),
    /// Make the post-trade store from a journal, keep it up to date, reconcile it
    Store(crate::store::StoreArgs),
    /// Ask the post-trade store for orders and trades
    Query(crate::query::QueryArgs),
    /// Export records of requests and of sampled datagrams
    Telemetry(crate::telemetry::TelemetryArgs),
    /// Take part in probe jobs, on every VM of a pool
    Agent(crate::plan::AgentArgs),
    /// Probe a pool of VMs, build trees of them, evaluate and compare
    Plan(crate::plan::PlanArgs),
    /// Tell one order's whole story from a log
    Explain(crate::explain::ExplainArgs),
    /// Statements, trades and closing prices of a log, reconciled with its feed
    Statement(crate::statement::StatementArgs),
    /// Look at a configuration
    Check(crate::check::CheckArgs),
    /// Decode, count and replay captures of market data
    Feed(crate::captures::FeedArgs),
    /// Make an authority and certificates for a trial of TLS
    Cert(crate::cert::CertArgs),
    /// Make keys for participants' strategies, sign modules and check them
    Strategy(crate::strategy::StrategyArgs),
    /// Print the hash of a password for the configuration
    HashPassword(crate::password::HashArgs),
    /// Keep clocks synchronized, and judge them
    Clock(crate::clock::ClockArgs),
    /// Print what a shell needs to complete this command line
    Completions(crate::manual::CompletionsArgs),
    /// Write manual pages of all commands
    Man(crate::manual::ManArgs),
}

/// Commands that are the laboratory's.
const MOVED: &[&[&str]] = &[
    &["attack"],
    &["backtest"],
    &["bench"],
    &["check", "book"],
    &["clock", "simulate"],
    &["drill"],
    &["feed", "arbitrate"],
    &["log", "write"],
    &["replay"],
    &["reproduce"],
    &["sim"],
];

/// Says where a command is that this program had before, or what is there in place of it.
///
/// # Errors
/// The new line to type.
pub fn refuse_moved(args: &[OsString]) -> Result<(), Failure> {
    let words: Vec<_> = args.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    let moved = |name: &&&[&str]| {
        name.len() <= words.len() && words.iter().zip(**name).all(|(a, b)| a == b)
    };
    let what = words.get(1).map(|word| &word[..]);
    if words.first().is_some_and(|word| word == "replica")
        && !matches!(what, Some("recover" | "--help" | "-h" | "help"))
    {
        return Err(Failure::Usage(crate::replica::MOVED.to_string()));
    }
    match MOVED.iter().find(moved) {
        None => Ok(()),
        Some(name) => Err(Failure::Usage(format!(
            "{}: is a command of the laboratory now: fairbell-lab {}",
            name.join(" "),
            words.join(" ")
        ))),
    }
}

/// Parses a command line, the program's name first. `None`: help or version was printed.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn parse<C: Parser>(args: impl IntoIterator<Item = OsString>) -> Result<Option<C>, Failure> {
    let parsed = with_examples(C::command()).try_get_matches_from(args);
    let parsed = parsed.and_then(|mut matches| {
        C::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut C::command()))
    });
    match parsed {
        Ok(cli) => Ok(Some(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                match error.print() {
                    // Whoever reads help has read enough, as with `| head`.
                    Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(None),
                    printed => {
                        printed.map(|()| None).map_err(|error| Failure::Run(error.to_string()))
                    }
                }
            }
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                let name = C::command().get_name().to_string();
                Err(Failure::Usage(format!("what to do? `{name} --help` lists the commands")))
            }
            _ => Err(Failure::Usage(first_paragraph(&error.to_string()))),
        },
    }
}

/// Examples of a command of commands, where it has none of its own.
const EXAMPLES_MAX: usize = 8;

/// Commands of commands that show no examples show the first one of each of theirs.
pub fn with_examples(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(with_examples);
    if command.get_after_help().is_some() || command.get_subcommands().next().is_none() {
        return command;
    }
    let mut examples: Vec<String> = Vec::new();
    for of in command.get_subcommands() {
        let help = of.get_after_help().map(ToString::to_string).unwrap_or_default();
        let first = help.lines().map(str::trim).skip_while(|line| *line != "Examples:").nth(1);
        if let Some(line) = first.filter(|line| !examples.iter().any(|has| has == line)) {
            examples.push(line.to_string());
        }
    }
    examples.truncate(EXAMPLES_MAX);
    command.after_help(format!("Examples:\n  {}", examples.join("\n  ")))
}

/// The complaint without usage and hints, in one line.
fn first_paragraph(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ").trim_start_matches("error: ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::UpArgs;
    use clap::CommandFactory;

    fn parse_words(words: &str) -> Result<Option<Cli>, Failure> {
        parse::<Cli>(words.split_whitespace().map(OsString::from))
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
            if command.get_name() != "help" {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("fairbell "), "{} shows no example", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        let command = with_examples(Cli::command());
        command.clone().debug_assert();
        check(&command);
        let cluster = command.find_subcommand("cluster").expect("a command");
        let shown = cluster.get_after_help().expect("examples").to_string();
        assert!(shown.starts_with("Examples:\n  fairbell cluster init"), "{shown}");
        assert_eq!(shown.lines().count(), 1 + EXAMPLES_MAX, "{shown}");
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
            "fairbell log",
            "fairbell load --orders 0",
        ];
        for line in lines {
            let failure = parse_words(line).expect_err(line);
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert_eq!(failure.to_string().lines().count(), 1, "{line}: {failure}");
            assert!(!failure.to_string().is_empty(), "{line}");
        }
    }

    #[test]
    fn a_moved_command_says_where_it_is() {
        let run = |words: &str| crate::run(words.split_whitespace().map(OsString::from));
        let failure = run("fairbell bench book --workload w1").unwrap_err();
        assert_eq!(
            failure.to_string(),
            "bench: is a command of the laboratory now: fairbell-lab bench book --workload w1"
        );
        assert_eq!(failure.exit_code(), 2);
        for name in MOVED {
            let line = format!("fairbell {} --help", name.join(" "));
            let why = run(&line).expect_err(&line).to_string();
            assert!(why.ends_with(&format!("fairbell-lab {} --help", name.join(" "))), "{why}");
        }
        let failure = run("fairbell replica --cluster cluster.json --id 1 --dir 1").unwrap_err();
        assert!(failure.to_string().contains("`fairbell node"), "{failure}");
        assert_eq!(failure.exit_code(), 2);
        // Control: their neighbours are here.
        let here = ["check", "clock", "log", "replica recover"];
        for line in here.map(|name| format!("fairbell {name} --help")) {
            assert_eq!(run(&line), Ok(()), "{line}");
        }
    }
}
