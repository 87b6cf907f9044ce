//! The laboratory's command line.

use clap::{Args, Parser, Subcommand};

/// The command line as a whole.
#[derive(Parser, Debug)]
#[command(
    name = "fairbell-lab",
    version,
    about = "What proves and measures the exchange",
    after_help = "Examples:\n  \
        fairbell-lab sim --seeds 0..1000       a thousand faulty networks, simulated\n  \
        fairbell-lab check book                the order book against its model\n  \
        fairbell-lab bench book --workload w1  the order book alone\n  \
        fairbell-lab bench rtt                 order to acceptance beside its floor\n  \
        fairbell-lab drill failover            leaders of real processes killed under load\n  \
        fairbell-lab attack flood              one account asks without end\n  \
        fairbell-lab replay                    the sample through the engine alone\n  \
        fairbell-lab reproduce list            published experiments, ours beside theirs"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Attack the doors of an exchange in this process while honest clients trade
    Attack(crate::attack::AttackArgs),
    /// Play a recorded market in our engine, with a strategy in it
    Backtest(crate::backtest::BacktestArgs),
    /// Measure
    Bench(crate::bench::BenchArgs),
    /// Compare parts of the exchange with models of them
    Check(crate::check::CheckArgs),
    /// Synchronize clocks of a simulated cloud
    Clock(ClockArgs),
    /// A venue of many machines in a network in a box, measured against the truth
    Cloud(Box<crate::cloud::CloudArgs>),
    /// Kill leaders and gateways of real processes while clients trade, and account for it
    Drill(crate::drill::Drills),
    /// Tell one order's whole story from a log, a generated one, too
    Explain(fairbell::explain::ExplainArgs),
    /// Play market data over lossy ways
    Feed(FeedArgs),
    /// Write logs of generated commands, and replay them
    Log(crate::log::LogArgs),
    /// Replay the sample in file order through the engine, in process
    Replay(crate::replay::ReplayArgs),
    /// Published experiments of cloud exchanges, ours beside the published figures
    Reproduce(crate::reproduce::ReproduceArgs),
    /// Run the exchange in the deterministic simulator, once per seed
    Sim(crate::simulate::SimArgs),
    /// Statements, trades and closing prices of a log, a generated one, too
    Statement(fairbell::statement::StatementArgs),
    /// The web door under load, under attack, and beside the other doors
    Web(crate::web::WebArgs),
}

/// Options of `fairbell-lab clock`.
#[derive(Args, Clone, Debug)]
pub struct ClockArgs {
    /// What to do.
    #[command(subcommand)]
    pub clock: Clock,
}

/// What can be done about clocks.
#[derive(Subcommand, Clone, Debug)]
pub enum Clock {
    /// Synchronize a simulated cloud and judge errors and bounds by the truth
    Simulate(crate::clock::SimulateArgs),
}

/// Options of `fairbell-lab feed`.
#[derive(Args, Clone, Debug)]
pub struct FeedArgs {
    /// What to do.
    #[command(subcommand)]
    pub feed: Feed,
}

/// What to do with a line of market data.
#[derive(Subcommand, Clone, Debug)]
pub enum Feed {
    /// Play a line and its copy over lossy ways from a seed, and check what becomes of it
    Arbitrate(crate::arbitrate::ArbitrateArgs),
    /// Play our own feed over two lossy lines into the plant, and compare its books with the engine's
    Own(crate::own_feed::OwnArgs),
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;
    use host::failure::Failure;

    use super::*;

    fn parse_words(words: &str) -> Result<Option<Cli>, Failure> {
        fairbell::cli::parse::<Cli>(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_definition_is_sound_and_every_command_has_examples() {
        fn check(command: &clap::Command) {
            if command.get_name() != "help" {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("fairbell"), "{} shows no example", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        let command = fairbell::cli::with_examples(Cli::command());
        command.clone().debug_assert();
        check(&command);
    }

    #[test]
    fn a_single_seed_replaces_the_range() {
        let Command::Sim(args) = parse_words("fairbell-lab sim --seed 7").unwrap().unwrap().command
        else {
            panic!("not sim")
        };
        assert_eq!(args.seeds(), 7..8);
        assert!(parse_words("fairbell-lab sim --seed 7 --seeds 0..3").is_err());
    }

    #[test]
    fn complaints_are_one_line_and_exit_with_two() {
        for line in ["fairbell-lab", "fairbell-lab bench", "fairbell-lab sim --orders 0"] {
            let failure = parse_words(line).expect_err(line);
            assert_eq!(failure.exit_code(), 2, "{line}");
            assert_eq!(failure.to_string().lines().count(), 1, "{line}: {failure}");
        }
    }
}
