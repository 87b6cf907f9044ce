//! `fairbell telemetry export`: records of requests and of sampled datagrams, from Redis or files into
//! tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use monitoring::export::{Export, Progress, Source};
use monitoring::streams::Server;
use monitoring::table::Format;
use serde_json::json;

use crate::options::duration;
use crate::report::numbers::grouped;
use host::config::shown_address;
use host::failure::Failure;

/// Options of `fairbell telemetry`.
#[derive(Args, Clone, Debug)]
pub struct TelemetryArgs {
    /// What to do
    #[command(subcommand)]
    pub command: TelemetryCommand,
}

/// Its subcommands.
#[derive(Subcommand, Clone, Debug)]
pub enum TelemetryCommand {
    /// Write records that are new since the last time as tables, and say how many are missing
    Export(ExportArgs),
}

/// Options of `fairbell telemetry export`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell telemetry export --from redis://127.0.0.1:6379/0 --to tables\n  \
    fairbell telemetry export --from out/telemetry --to tables --format csv\n  \
    fairbell telemetry export --from redis://:word@10.0.0.7/0 --to tables --follow\n\n\
    The folder of the tables remembers in export.json how far each stream was read. Exit code 1: the\n\
    source could not be read or has no records, or files of records were damaged.")]
pub struct ExportArgs {
    /// Address of a Redis server, or folder of files
    #[arg(long, value_name = "URL|DIR")]
    pub from: String,
    /// Folder of the tables
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Form of the tables
    #[arg(long, value_enum, default_value_t = FormatName::Parquet)]
    pub format: FormatName,
    /// What the keys of the streams begin with
    #[arg(long, value_name = "PREFIX", default_value = "fairbell")]
    pub prefix: String,
    /// Go on until Ctrl-C
    #[arg(long)]
    pub follow: bool,
    /// With --follow: a file of each stream is ended after so long
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    pub every: Duration,
    /// Print one JSON document at the end
    #[arg(long)]
    pub json: bool,
}

/// Forms of tables.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormatName {
    /// Parquet, compressed by zstd
    Parquet,
    /// Lines with commas, names in the first one
    Csv,
}

/// Between two looks for more.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs the command.
///
/// # Errors
/// Wrong options; a source that can't be read.
pub fn run(args: &TelemetryArgs) -> Result<(), Failure> {
    match &args.command {
        TelemetryCommand::Export(args) => export(args),
    }
}

fn export(args: &ExportArgs) -> Result<(), Failure> {
    let usage = |why: String| Failure::Usage(format!("--from: {why}"));
    let source = match args.from.contains("://") || args.from.starts_with("redis") {
        true => {
            let server = Server::new(&args.from).map_err(usage)?;
            Source::Redis { server, prefix: args.prefix.clone() }
        }
        false if Path::new(&args.from).is_dir() => Source::Files(PathBuf::from(&args.from)),
        false => {
            let why = format!("{}: no folder, and no address like redis://HOST:PORT/0", args.from);
            return Err(usage(why));
        }
    };
    let format = match args.format {
        FormatName::Parquet => Format::Parquet,
        FormatName::Csv => Format::Csv,
    };
    let mut export = Export::open(source, &args.to, format).map_err(Failure::Run)?;
    let interrupted = crate::options::interrupted()?;
    let mut saved = Instant::now();
    let mut outcome = export.pass();
    while args.follow && !interrupted.load(Ordering::Relaxed) {
        if let Err(why) = &outcome {
            eprintln!("telemetry export: {why}: tried again");
        }
        std::thread::sleep(LOOK_EVERY);
        outcome = export.pass();
        if saved.elapsed() >= args.every {
            saved = Instant::now();
            export.save().map_err(Failure::Run)?;
        }
    }
    export.save().map_err(Failure::Run)?;
    tell(args, &export);
    outcome.map_err(Failure::Run)?;
    match export.complaints.as_slice() {
        [] if export.state().streams.is_empty() && !args.follow => {
            let what = match args.from.contains("://") {
                true => format!("there are no streams of records under {}:", args.prefix),
                false => "there are no files of records in this folder".to_string(),
            };
            Err(Failure::Run(format!("--from {}: {what}", shown_address(&args.from))))
        }
        [] => Ok(()),
        all => Err(Failure::Run(all.join("; "))),
    }
}

fn tell(args: &ExportArgs, export: &Export) {
    let streams = &export.state().streams;
    if args.json {
        let files: Vec<_> = export.files.iter().map(|path| path.display().to_string()).collect();
        let streams: Vec<_> = (streams.iter())
            .map(|(name, of)| {
                let unended = of.account.unended();
                json!({
                    "stream": name, "records": of.account.got, "missing": of.account.missing,
                    "lives": of.account.lives, "more_may_be_missing": !unended.is_empty(),
                    "lives_without_end": unended, "strange_entries": of.strange,
                })
            })
            .collect();
        println!("{:#}", json!({ "streams": streams, "files": files }));
        return;
    }
    print!("{}", table(streams));
    println!("{} files written to {}", export.files.len(), args.to.display());
}

/// Of all streams, and what is to be known of some.
fn table(streams: &BTreeMap<String, Progress>) -> String {
    let mut lines = vec![format!(
        "{:<40} {:>14} {:>14} {:>7} {:>8}",
        "stream, all runs together", "records", "missing", "lives", "damaged"
    )];
    let mut notices = Vec::new();
    for (name, Progress { account, strange, .. }) in streams {
        let unended = account.unended();
        let more = if unended.is_empty() { "" } else { "+" };
        let (got, missing) = (grouped(account.got), grouped(account.missing) + more);
        let (lives, damaged) = (account.lives, grouped(*strange));
        lines.push(format!("{name:<40} {got:>14} {missing:>14} {lives:>7} {damaged:>8}"));
        notices.extend(unended.iter().map(|life| {
            let why = match *life == account.life {
                true => "has not ended in order: it goes on, or was cut short and",
                false => "did not end in order:",
            };
            format!("{name}: life {life} {why} more may be missing behind its last record")
        }));
        if *strange > 0 {
            notices
                .push(format!("{name}: {damaged} entries are damaged, or none of ours: left out"));
        }
    }
    lines.append(&mut notices);
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_that_was_cut_and_damaged_entries_are_told() {
        let mut of = Progress::default();
        of.account.take(10, 1, 4);
        of.account.take(11, 1, 2);
        of.account.take(11, 3, 0);
        let name = || "m:orders".to_string();
        let told = table(&[(name(), of.clone())].into());
        let row = told.lines().nth(1).expect("a row").split_whitespace().collect::<Vec<_>>();
        assert_eq!(row, ["m:orders", "6", "0+", "2", "0"]);
        assert!(told.contains("m:orders: life 10 did not end in order: more may be"), "{told}");
        of.account.take(12, 1, 1);
        of.strange = 3;
        let told = table(&[(name(), of)].into());
        for part in ["life 12 has not ended in order: it goes on", "orders: 3 entries are damaged"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
        let mut whole = Progress::default();
        whole.account.take(10, 1, 4);
        whole.account.take(10, 5, 0);
        let told = table(&[(name(), whole)].into());
        assert!(told.lines().count() == 2 && !told.contains('+'), "{told}");
    }
}
