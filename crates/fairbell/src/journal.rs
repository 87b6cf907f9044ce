//! `fairbell journal`: durable journals of an exchange looked at, checked, exported and replayed.
//!
//! Only `mend` changes a journal. The others may look while an exchange writes it: what it is writing
//! just now shows as a tail. [`kept`] is the other side: how an exchange keeps its log there.

mod mend;

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use engine::log_file::{LogHeader, write_header, write_input};
use engine::{Applied, Engine, Output};
use journal::{JournalError, Verified};

use crate::log::Outputs;
use host::failure::{Failure, on};
use host::files;
use host::journal::kept::{self, Genesis};
use host::journal::read::{inputs, look, verified};
use host::journal::reader::folders;
use host::journal::{advice, file_of};

/// Options of `fairbell journal`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell journal inspect out/journal          segments, watermark, snapshots\n  \
    fairbell journal verify out/journal           every byte of the committed part\n  \
    fairbell journal export out/journal --out day.log   an input log for `fairbell log replay`\n  \
    fairbell journal replay out/journal --json    through a fresh engine, with digests\n  \
    fairbell journal mend replica-2               a damaged one of a group: it comes again")]
pub struct JournalArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub what: What,
}

/// What can be done with a journal.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Say what is in it
    #[command(after_help = "Example: fairbell journal inspect out/journal --json")]
    Inspect(FolderArgs),
    /// Check all of it; the exit code is 1 when the committed part is damaged
    #[command(after_help = "Example: fairbell journal verify out/journal")]
    Verify(FolderArgs),
    /// Write the log in it to a file
    #[command(after_help = "Example: fairbell journal export out/journal --out day.log")]
    Export(ExportArgs),
    /// Run the log in it through a fresh engine
    #[command(after_help = "Example: fairbell journal replay out/journal --json")]
    Replay(ReplayArgs),
    /// Set a replica's damaged log aside, so that it gets it again from the others
    #[command(after_help = "Example: fairbell journal mend replica-2\n\n\
        The replica must not run. Its vote is kept, and until the others have given it what it may\n\
        have had it elects nobody. So no more than a minority may be mended at a time: a group\n\
        whose majority has lost its logs does not come up again by this.")]
    Mend(mend::MendArgs),
}

/// A journal's folder.
#[derive(Args, Clone, Debug)]
pub struct FolderArgs {
    /// The journal's folder
    pub dir: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Options of `fairbell journal export`.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// The journal's folder
    pub dir: PathBuf,
    /// The log
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Options of `fairbell journal replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The journal's folder
    pub dir: PathBuf,
    /// Configuration file it was written under [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &JournalArgs) -> Result<(), Failure> {
    match &args.what {
        What::Inspect(args) => inspect(args),
        What::Verify(args) => verify(args),
        What::Export(args) => export(args),
        What::Replay(args) => replay(args),
        What::Mend(args) => mend::run(args),
    }
}

fn check(dir: &Path) -> Result<Verified, Failure> {
    verified(dir).map_err(|error| {
        let empty = matches!(&error, JournalError::Register(_)) && is_empty(dir);
        let label = look(dir).ok().and_then(|mut folder| journal::label(&mut folder).ok());
        let others = folders(dir, false);
        on(
            dir,
            match others.first().filter(|one| empty && one.as_path() != dir) {
                Some(one) => {
                    format!("holds other journals' folders: name one, as {}", one.display())
                }
                None if empty => "holds no journal".to_string(),
                None => advice(label.flatten(), &error),
            },
        )
    })
}

/// Whether nothing in a folder is a journal's.
fn is_empty(dir: &Path) -> bool {
    let of = |name: &str| ["log-", "snap-", "inst-"].iter().any(|begins| name.starts_with(begins));
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    !names.map(|entry| entry.file_name()).any(|name| name.to_str().is_some_and(of))
}

fn document(found: &Verified) -> serde_json::Value {
    let tail = found.tail.map(|tail| {
        serde_json::json!({
            "segment": tail.segment,
            "file": file_of(tail.segment),
            "offset": tail.offset,
            "bytes": tail.bytes,
            "damage": tail.damage.to_string(),
        })
    });
    let segments = found.segments.iter().map(|segment| {
        serde_json::json!({
            "number": segment.number,
            "file": file_of(segment.number),
            "bytes": segment.bytes,
            "used": segment.used,
            "frames": segment.frames,
            "first_position": segment.first_position,
        })
    });
    serde_json::json!({
        "id": format!("{:016x}", found.id),
        "label": String::from_utf8_lossy(&found.label).trim_end(),
        "format": found.format,
        "block_bytes": found.block,
        "first": found.first,
        "last": found.last,
        "committed": found.committed,
        "chain": format!("{:016x}", found.chain),
        "term": found.vote.term,
        "voted_for": found.vote.voted_for,
        "records": found.records,
        "truncations": found.truncations,
        "tail": tail,
        "damaged_copies": found.damaged_copies,
        "damaged_snapshots": found.damaged_snapshots,
        "segments": segments.collect::<Vec<_>>(),
        "snapshots": found.snapshots.iter().map(|info| {
            serde_json::json!({"position": info.position, "bytes": info.bytes})
        }).collect::<Vec<_>>(),
    })
}

fn inspect(args: &FolderArgs) -> Result<(), Failure> {
    let found = check(&args.dir)?;
    if args.json {
        println!("{:#}", document(&found));
        return Ok(());
    }
    println!("journal     {:016x}, {}", found.id, String::from_utf8_lossy(&found.label).trim_end());
    println!("positions   {} to {}, committed to {}", found.first, found.last, found.committed);
    println!("chain       {:016x}", found.chain);
    println!("vote        term {}, for {}", found.vote.term, found.vote.voted_for);
    for info in &found.snapshots {
        println!("snapshot    at {}, {} bytes", info.position, info.bytes);
    }
    println!("segment               from position   frames     used of bytes");
    for segment in &found.segments {
        println!(
            "{:<20}  {:>13}  {:>7}  {:>7} of {}",
            file_of(segment.number),
            segment.first_position,
            segment.frames,
            segment.used,
            segment.bytes
        );
    }
    remarks(&found).iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// What is not as it should be, and does no harm.
fn remarks(found: &Verified) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(tail) = found.tail {
        lines.push(format!(
            "a write cut short at {}, offset {}, {} bytes ({}): opening removes it",
            file_of(tail.segment),
            tail.offset,
            tail.bytes,
            tail.damage
        ));
    }
    if found.damaged_copies > 0 {
        lines.push(format!(
            "{} copies of watermark or vote can't be read, the others can: opening heals them",
            found.damaged_copies
        ));
    }
    if found.damaged_snapshots > 0 {
        lines.push(format!("{} snapshots are damaged and not used", found.damaged_snapshots));
    }
    lines
}

/// What is found by the same code as at a start; then what a start would ask of the records, and of the
/// files' modes.
fn verify(args: &FolderArgs) -> Result<(), Failure> {
    let found = check(&args.dir)?;
    // Other labels are those of benchmarks.
    if found.last > 0 && [kept::LABEL, host::replica::node::LABEL].contains(&found.label) {
        inputs(&args.dir, |_| Ok(()), |_| Ok(())).or_else(|error| match error {
            // A group that has not begun.
            _ if found.committed == 0 => Ok(0),
            error => Err(error),
        })?;
    }
    let writable = look(&args.dir)?.check_writable().map_err(JournalError::Disk);
    writable.map_err(|error| {
        let text = advice(Some(found.label), &error);
        on(&args.dir, format!("its records are whole, and a start here is refused: {text}"))
    })?;
    if args.json {
        println!("{:#}", document(&found));
        return Ok(());
    }
    println!(
        "{}: {} records in {} segments are whole, to position {}, committed to {}",
        args.dir.display(),
        found.records,
        found.segments.len(),
        found.last,
        found.committed
    );
    remarks(&found).iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn export(args: &ExportArgs) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| on(&args.out, error);
    let file = std::cell::RefCell::new(None);
    let begin = |genesis: &Genesis| {
        let apart = files::create_apart(&args.out, std::slice::from_ref(&args.dir))?;
        let mut out = BufWriter::with_capacity(1 << 18, apart);
        let (rules_version, config_digest) = (genesis.rules_version, genesis.config_digest);
        let header = LogHeader { rules_version, config_digest, given_up: 0 };
        write_header(&mut out, &header).map_err(wrong)?;
        *file.borrow_mut() = Some(out);
        Ok(())
    };
    let count = inputs(&args.dir, begin, |input| match file.borrow_mut().as_mut() {
        Some(out) => write_input(out, input).map_err(wrong),
        None => Ok(()),
    })?;
    if let Some(mut out) = file.into_inner() {
        out.flush().map_err(wrong)?;
    }
    println!("{}: {count} commands", args.out.display());
    Ok(())
}

fn replay(args: &ReplayArgs) -> Result<(), Failure> {
    let loaded = host::fleet::shards::settings(args.config.as_deref())?;
    let known = host::deployment::engine_configs(&loaded);
    let state = std::cell::RefCell::new(None);
    let begin = |genesis: &Genesis| {
        let header = (genesis.rules_version, genesis.config_digest);
        let config = host::deployment::written_under(&known, header);
        let config = config.map_err(|why| on(&args.dir, why))?;
        let outputs = Outputs::new(&config);
        *state.borrow_mut() = Some((Engine::new(config), outputs, Output::default()));
        Ok(())
    };
    inputs(&args.dir, begin, |input| {
        if let Some((engine, outputs, output)) = state.borrow_mut().as_mut() {
            output.clear();
            let _: Applied = engine.apply(input, output);
            outputs.take(input, output);
        }
        Ok(())
    })?;
    let Some((engine, outputs, _)) = state.into_inner() else {
        return Err(on(&args.dir, host::journal::read::NO_LOG));
    };
    let (state, (executions, feed)) = (engine.state_digest(), outputs.digests());
    if args.json {
        let document = serde_json::json!({
            "rules_version": engine::RULES_VERSION,
            "applied": engine.applied(),
            "state_digest": format!("{state:016x}"),
            "executions": outputs.executions,
            "executions_digest": format!("{executions:016x}"),
            "feed_messages": outputs.feed_messages,
            "feed_digest": format!("{feed:016x}"),
            "feed_next": engine.feed_next().0,
        });
        println!("{document:#}");
    } else {
        println!("commands replayed  {}", engine.applied());
        println!("state              {state:016x}");
        println!("execution reports  {executions:016x} ({})", outputs.executions);
        println!("feed messages      {feed:016x} ({})", outputs.feed_messages);
    }
    Ok(())
}
