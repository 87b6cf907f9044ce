//! `fairbell replica recover`: where too few replicas are whole to elect anybody, an operator says whose
//! log counts.
//!
//! Done to the folder of each replica in doubt, while it does not run: its own log is set aside, and from then
//! on it may elect that one and nobody else, until it has the log of that. What can't be proved is said
//! first, and nothing is done before the operator takes it on himself (`--accept-loss`).

use std::path::{Path, PathBuf};

use clap::Args;
use journal::{Folder, FolderConfig, JournalError, Promises};

use host::failure::{Failure, on};

/// Options of `fairbell replica recover`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell replica recover --id 1 --dir /var/lib/fairbell/1 --from 3    what can't be proved\n  \
    fairbell replica recover --id 1 --dir /var/lib/fairbell/1 --from 3 --accept-loss\n\n\
    For replicas that say that they are in doubt while nobody leads, and only when those that are\n\
    whole can't be had in time: as many of them as make most of the group with --from. The one\n\
    whose log counts needs it, too, when it is in doubt itself: --id and --from are equal then.")]
pub struct RecoverArgs {
    /// Number of the replica whose folder this is
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub id: u8,
    /// Its folder; it must not run
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Number of the replica whose log counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub from: u8,
    /// Folder of that, if it is on this machine: to say what it lacks
    #[arg(long, value_name = "DIR")]
    pub compare: Option<PathBuf>,
    /// Do it, whatever is lost by it
    #[arg(long)]
    pub accept_loss: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &RecoverArgs) -> Result<(), Failure> {
    let dir = &args.dir;
    if !dir.is_dir() {
        return Err(on(dir, "no such folder"));
    }
    let mut folder = Folder::open(dir, FolderConfig::default()).map_err(|error| on(dir, error))?;
    let found = journal::promises(&mut folder).map_err(|error| on(dir, error))?;
    let Some(why) = doubt(&mut folder, &found).map_err(|error| on(dir, error))? else {
        let why = "is whole, and in no doubt: it elects as it is; nothing was changed";
        return Err(on(dir, why));
    };
    let there = args.compare.as_deref().filter(|_| args.id != args.from).map(last).transpose()?;
    let unproved = unproved(args, &found, there);
    if !args.accept_loss {
        let what = format!("replica {}: {why}\n{unproved}", args.id);
        return Err(Failure::Run(format!("{what}\nnothing was changed; --accept-loss does it")));
    }
    let ends = (u64::from(args.id), u64::from(args.from));
    let done = journal::yield_to(&mut folder, ends).map_err(|error| on(dir, error))?;
    if args.json {
        let document = serde_json::json!({
            "replica": args.id,
            "from": args.from,
            "doubt": why,
            "held": done.held,
            "compared_with": there,
            "unproved": unproved,
            "doubt_term": done.doubt,
            "set_aside": done.aside,
        });
        println!("{document:#}");
        return Ok(());
    }
    println!("replica {}   {why}", args.id);
    println!("{unproved}");
    println!("set aside   {} files, as {}/damaged-*", done.aside.len(), dir.display());
    println!("now         start it: it elects replica {} and nobody else", args.from);
    Ok(())
}

/// Why a replica is in doubt; nothing when it is not.
fn doubt(folder: &mut Folder, found: &Promises) -> Result<Option<String>, JournalError> {
    let mended = match journal::verify(folder) {
        Err(JournalError::Disk(error)) => return Err(error.into()),
        Err(damage) => return Ok(Some(format!("its log is damaged: {damage}"))),
        Ok(whole) => whole.last_term <= found.doubt && found.doubt > 0,
    };
    let copy = "its folder is an older copy of itself".to_string();
    let aside = "its log was set aside, and it has not got it again".to_string();
    Ok(if found.set_back { Some(copy) } else { mended.then_some(aside) })
}

/// The last position in another one's folder.
fn last(dir: &Path) -> Result<u64, Failure> {
    let folder = Folder::open_unlocked(dir, FolderConfig::default());
    let mut folder = folder.map_err(|error| on(dir, error))?;
    Ok(journal::verify(&mut folder).map_err(|error| on(dir, error))?.last)
}

/// What nobody can prove here.
fn unproved(args: &RecoverArgs, found: &Promises, there: Option<u64>) -> String {
    let RecoverArgs { id, from, .. } = *args;
    let held = found.held;
    let beyond = match (found.set_back, there) {
        (true, _) => format!(
            "can't tell  how far replica {id} was: its copy ends at position {held}, and it may have\n\
             \x20           acknowledged anything behind that"
        ),
        (false, None) => format!("it had      the log up to position {held} at least"),
        (false, Some(last)) if last < held => format!(
            "WILL LOSE   what was acknowledged of positions {} to {held}: replica {id} had them, and\n\
             \x20           replica {from} has not",
            last + 1
        ),
        (false, Some(last)) => format!(
            "it had      the log up to position {held} at least; replica {from} has it up to {last}"
        ),
    };
    format!(
        "{beyond}\n\
         can't tell  whether replica {from} has everything that was acknowledged: what replica {id} and\n\
         \x20           another one acknowledged behind the end of its log is lost by this, and\n\
         \x20           participants have heard of it. A third one that is whole makes this\n\
         \x20           unnecessary: start that first"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(set_back: bool, there: Option<u64>) -> String {
        let args = RecoverArgs {
            id: 1,
            dir: PathBuf::new(),
            from: 3,
            compare: None,
            accept_loss: false,
            json: false,
        };
        let found = Promises { id: 5, term: 7, doubt: 0, sponsor: 0, set_back, held: 40 };
        unproved(&args, &found, there)
    }

    #[test]
    fn it_says_what_is_lost_and_what_cant_be_told() {
        assert!(told(false, Some(30)).contains("positions 31 to 40"));
        assert!(told(false, Some(50)).contains("has it up to 50"));
        assert!(told(false, None).contains("up to position 40 at least"));
        assert!(told(true, Some(50)).contains("ends at position 40"));
    }
}
