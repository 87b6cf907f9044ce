//! `fairbell check`: parts of the exchange against models of them.

use clap::{Args, Subcommand};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use book_agreement::Compared;
use book_model::compare::{RunStats, run_seed};
use book_model::coverage::Coverage;
use indicatif::ProgressBar;

use host::failure::Failure;

/// Options of `fairbell check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// What to check.
    #[command(subcommand)]
    pub check: Check,
}

/// The checks.
#[derive(Subcommand, Clone, Debug)]
pub enum Check {
    /// The order book against a naive model of the same rules, by random commands
    Book(CheckBookArgs),
}

/// Options of `fairbell-lab check book`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab check book                              a minute of seeds\n  \
    fairbell-lab check book --seconds 600 --seed-from 1000000\n  \
    fairbell-lab check book --seed 4711                  one seed again")]
pub struct CheckBookArgs {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub seconds: u64,
    /// First seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed_from: u64,
    /// This seed alone
    #[arg(long, value_name = "S", conflicts_with_all = ["seconds", "seed_from"])]
    pub seed: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Random commands to the book and to the model of its rules, seed after seed.
pub fn book(args: &CheckBookArgs) -> Result<(), Failure> {
    let started = Instant::now();
    let limit = Duration::from_secs(args.seconds);
    let first = args.seed.unwrap_or(args.seed_from);
    let (mut coverage, mut stats, mut seed) = (Coverage::default(), RunStats::default(), first);
    let bar = bar();
    loop {
        match run_seed(seed, Compared::new, &mut coverage) {
            Ok(run) => stats.add(&run),
            Err(difference) => {
                bar.finish_and_clear();
                println!("{difference}");
                let line = format!(
                    "seed {seed} failed; again with: fairbell-lab check book --seed {seed}"
                );
                return Err(Failure::Run(line));
            }
        }
        seed += 1;
        if seed.is_multiple_of(64) {
            bar.set_message(format!("seed {seed}, {} commands", stats.commands));
            bar.tick();
        }
        if args.seed.is_some() || started.elapsed() >= limit {
            break;
        }
    }
    bar.finish_and_clear();
    let empty = coverage.empty().len();
    if args.json {
        let document = serde_json::json!({
            "first_seed": first,
            "seeds": seed - first,
            "commands": stats.commands,
            "events": stats.events,
            "trades": stats.trades,
            "cells_that_can_occur": Coverage::possible_cells(),
            "cells_empty": empty,
            "seconds": started.elapsed().as_secs_f64(),
        });
        println!("{document:#}");
    } else {
        if args.seed.is_none() {
            println!("{}", coverage.render());
        }
        println!("seeds     {first}..{seed}, all equal");
        println!("commands  {}, events {}, trades {}", stats.commands, stats.events, stats.trades);
        println!("coverage  {empty} of {} possible cells empty", Coverage::possible_cells());
    }
    Ok(())
}

fn bar() -> ProgressBar {
    if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() }
}
