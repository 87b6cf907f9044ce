//! The program that a venue runs: command line, configuration, participants that play, live view and reports.
//!
//! Each subcommand is a module with a `run`. Standard output carries results (the report, or one
//! JSON document with `--json`), standard error everything else. Exit codes: 0 success, 1 the run
//! failed (its last line says why), 2 wrong usage or configuration (one line, nothing was started).

use std::ffi::OsString;
use std::process::ExitCode;

pub mod admin;
pub mod captures;
pub mod cert;
pub mod certify;
pub mod check;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod dictionaries;
pub mod explain;
pub mod journal;
mod least_loaded;
pub mod load;
pub mod log;
pub mod manual;
pub mod node;
pub mod options;
pub mod password;
pub mod plan;
pub mod plant;
pub mod query;
pub mod replica;
pub mod report;
pub mod statement;
pub mod store;
pub mod strategy;
pub mod subscribe;
pub mod telemetry;
pub mod up;
pub mod view;
mod web;

use check::Check;
use cli::Command;
use host::failure::Failure;
use host::{files, limits};

/// The whole program with the process's own arguments.
pub fn main() -> ExitCode {
    process("fairbell", run)
}

/// A program of this workspace: what it does with the process's own arguments, and its exit code.
pub fn process(name: &str, run: impl FnOnce(std::env::ArgsOs) -> Result<(), Failure>) -> ExitCode {
    end_with_reader();
    files::keep_private();
    limits::prepare();
    match run(std::env::args_os()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Ends the process in silence when nobody reads its output any more, as `fairbell ... | head` does.
fn end_with_reader() {
    /// What a shell reports of a process that SIGPIPE ended.
    const NO_READER: i32 = 128 + 13;
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let what = panic.payload_as_str().unwrap_or_default();
        if what.starts_with("failed printing to std") && what.contains("Broken pipe") {
            std::process::exit(NO_READER);
        }
        told(panic);
    }));
}

/// Runs one command line, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Result<(), Failure> {
    let args: Vec<OsString> = args.into_iter().collect();
    cli::refuse_moved(&args)?;
    let Some(cli) = cli::parse::<cli::Cli>(args)? else { return Ok(()) };
    match cli.command {
        Command::Up(args) => up::run(&args),
        Command::Admin(args) => admin::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Replica(args) => replica::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Subscribe(args) => subscribe::run(&args),
        Command::Certify(args) => certify::run(&args),
        Command::Fix(args) => dictionaries::run(&args),
        Command::Log(args) => log::run(&args.log, &[]),
        Command::Journal(args) => journal::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Query(args) => query::run(&args),
        Command::Telemetry(args) => telemetry::run(&args),
        Command::Agent(args) => plan::agent(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => explain::run(&args, &[]),
        Command::Statement(args) => statement::run(&args, &[]),
        Command::Cert(args) => cert::run(&args),
        Command::Strategy(args) => strategy::run(&args),
        Command::HashPassword(args) => password::run(&args),
        Command::Check(args) => match args.check {
            Check::Config(args) => check::config(&args),
        },
        Command::Feed(args) => captures::run(&args),
        Command::Clock(args) => clock::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
    }
}
