//! `fairbell-lab log`: logs of generated commands, written and read again.
//!
//! The commands are of all kinds, for the exchange of [`generated`], whose four instruments are each
//! traded by other rules.

mod entry;
pub mod generated;
mod script;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use engine::log_file::{LogHeader, write_header, write_input};
use engine::{Engine, Output};
use fairbell::log::{progress, trades};
use host::failure::{Failure, on};
use types::{Input, Seq};

use entry::Entry;
use script::Script;

/// Inputs between two looks at the progress bar.
const LOOK_EVERY: u64 = 1 << 14;

/// Options of `fairbell-lab log`.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub log: Log,
}

/// What can be done with a log.
#[derive(Subcommand, Clone, Debug)]
pub enum Log {
    /// Write a log of generated commands of all kinds, through gateway decoding and engine
    Write(WriteArgs),
    /// What `fairbell log` does, with such logs, too.
    #[command(flatten)]
    Read(fairbell::log::Log),
}

/// Options of `fairbell-lab log write`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab log write --commands 1000000 --out day.log\n  \
    fairbell-lab log write --commands 50000 --out a.log --snapshot-at 25000 --snapshot a.snap")]
pub struct WriteArgs {
    /// Commands to write
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub commands: u64,
    /// The log
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Write a snapshot after this many commands
    #[arg(long, value_name = "K", requires = "snapshot")]
    pub snapshot_at: Option<u64>,
    /// The snapshot's file
    #[arg(long, value_name = "FILE", requires = "snapshot_at")]
    pub snapshot: Option<PathBuf>,
    /// Seed of everything drawn
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs a subcommand.
///
/// # Errors
/// Files that can't be written or read.
pub fn run(args: &LogArgs) -> Result<(), Failure> {
    match &args.log {
        Log::Write(args) => write(args),
        Log::Read(log) => fairbell::log::run(log, &[generated::config()]),
    }
}

/// Generated commands of all kinds as inputs of [`generated`]'s exchange, for ever.
pub struct Generated {
    script: Script,
    entry: Entry,
    seq: u64,
}

impl Generated {
    /// A log that is meant to end after so many commands.
    pub fn new(seed: u64, commands: u64) -> Generated {
        let config = generated::config();
        let script = Script::new(seed, commands, &config.instruments);
        Generated { script, entry: Entry::new(&config.instruments), seq: 0 }
    }
}

impl Iterator for Generated {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        loop {
            let step = self.script.next_step();
            let Some(command) = generated::admitted(&mut self.entry, &step) else { continue };
            self.seq += 1;
            let (seq, t, source) = (Seq(self.seq), step.at, step.source);
            return Some(Input { seq, t_in: t, t_seq: t, source, flags: 0, command });
        }
    }
}

/// Writes a log of generated commands, and perhaps a snapshot on the way.
pub fn write(args: &WriteArgs) -> Result<(), Failure> {
    let config = generated::config();
    let file = File::create(&args.out).map_err(|error| on(&args.out, error))?;
    let mut file = BufWriter::with_capacity(1 << 18, file);
    let (rules_version, config_digest) = (engine::RULES_VERSION, config.digest());
    let header = LogHeader { rules_version, config_digest, given_up: 0 };
    write_header(&mut file, &header).map_err(|error| on(&args.out, error))?;
    let mut script = Script::new(args.seed, args.commands, &config.instruments);
    let mut entry = Entry::new(&config.instruments);
    let mut engine = Engine::new(config);
    let mut output = Output::default();
    let (bar, started) = (progress(args.commands), Instant::now());
    let mut refused = 0u64;
    let mut seq = 0;
    while seq < args.commands {
        let step = script.next_step();
        let Some(command) = generated::admitted(&mut entry, &step) else {
            refused += 1;
            continue;
        };
        seq += 1;
        let script::Step { at, source, .. } = step;
        let input = Input { seq: Seq(seq), t_in: at, t_seq: at, source, flags: 0, command };
        write_input(&mut file, &input).map_err(|error| on(&args.out, error))?;
        output.clear();
        let _ = engine.apply(&input, &mut output);
        if args.snapshot_at == Some(seq)
            && let Some(path) = &args.snapshot
        {
            snapshot(&engine, path)?;
        }
        if seq % LOOK_EVERY == 0 {
            bar.set_position(seq);
        }
    }
    bar.finish_and_clear();
    file.flush().map_err(|error| on(&args.out, error))?;
    let state = engine.state_digest();
    if args.json {
        let document = serde_json::json!({
            "commands": seq,
            "refused_by_gateways": refused,
            "trades": trades(&engine),
            "state_digest": format!("{state:016x}"),
            "rules_version": engine::RULES_VERSION,
        });
        println!("{document:#}");
    } else {
        let took = started.elapsed().as_secs_f64();
        println!("{}: {seq} commands in {took:.1} s, state {state:016x}", args.out.display());
    }
    Ok(())
}

fn snapshot(engine: &Engine, path: &Path) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    engine.write_snapshot(&mut bytes);
    std::fs::write(path, bytes).map_err(|error| on(path, error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use types::CommandKind;

    use super::*;

    #[test]
    fn a_script_asks_for_everything_and_ouch_carries_it_as_it_is() {
        let config = generated::config();
        let mut entry = Entry::new(&config.instruments);
        let mut script = Script::new(11, 40_000, &config.instruments);
        let mut seen = BTreeSet::new();
        for _ in 0..40_000 {
            let step = script.next_step();
            let asked = step.command;
            let admitted = generated::admitted(&mut entry, &step).expect("OUCH carries it");
            assert_eq!(admitted, asked);
            seen.insert(format!("{:?}", asked.kind));
            if asked.kind == CommandKind::NewOrder {
                let (way, life) = (asked.order_type, asked.time_in_force);
                seen.insert(format!("{way:?}"));
                seen.insert(format!("{life:?}"));
                seen.insert(format!("{:?}", asked.self_trade));
                seen.insert(format!("flags {}", asked.flags));
            }
        }
        // Orders have 8 types, 7 lives, 5 ways of self-trade prevention, 4 flags; there are 18 kinds
        // of command, of which an instrument's move between shards is none of a single shard's.
        assert_eq!(seen.len(), 8 + 7 + 5 + 4 + 16, "{seen:?}");
    }
}
