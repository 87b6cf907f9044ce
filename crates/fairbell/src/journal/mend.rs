//! `fairbell journal mend`: a replica whose log is damaged begins again.

use std::path::PathBuf;

use clap::Args;
use journal::{Folder, FolderConfig, JournalError};

use host::failure::{Failure, on};

/// Options of `fairbell journal mend`.
#[derive(Args, Clone, Debug)]
pub struct MendArgs {
    /// The journal's folder
    pub dir: PathBuf,
    /// Also when nothing is wrong with what is there: the replica said that its log ends too early
    #[arg(long)]
    pub force: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &MendArgs) -> Result<(), Failure> {
    let dir = &args.dir;
    if !dir.is_dir() {
        return Err(on(dir, "no such folder"));
    }
    let mut folder = Folder::open(dir, FolderConfig::default()).map_err(|error| on(dir, error))?;
    let label = journal::label(&mut folder).ok().flatten();
    let damage = match journal::verify(&mut folder) {
        Err(JournalError::Register("vote")) if label == Some(host::journal::kept::LABEL) => {
            journal::restore_vote(&mut folder).map_err(|error| on(dir, error))?;
            // Whatever else is wrong is told now.
            journal::verify(&mut folder).map_err(|error| on(dir, error))?;
            println!(
                "made again  the file vote: an exchange that stands alone has promised nothing"
            );
            return Ok(());
        }
        Err(JournalError::Disk(error)) => return Err(on(dir, error)),
        Err(damage) => Some(damage.to_string()),
        Ok(_) if args.force => None,
        Ok(found) => {
            let last = found.last;
            let why = format!("is whole to position {last}; nothing was changed (see --force)");
            return Err(on(dir, why));
        }
    };
    let mended = journal::mend(&mut folder).map_err(|error| on(dir, error))?;
    if args.json {
        let document = serde_json::json!({
            "id": format!("{:016x}", mended.id),
            "damage": damage,
            "doubt_term": mended.doubt,
            "set_aside": mended.aside,
        });
        println!("{document:#}");
        return Ok(());
    }
    if let Some(damage) = damage {
        println!("found       {damage}");
    }
    println!("set aside   {} files, as {}/damaged-*", mended.aside.len(), dir.display());
    println!(
        "now         start the replica: it gets its log from the others, and elects nobody before\n\
         \x20           it has what it may have promised in terms up to {}",
        mended.doubt
    );
    Ok(())
}
