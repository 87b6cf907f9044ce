//! `fairbell replica recover`: where too few replicas are whole to elect anybody, an operator says whose
//! log counts.
//!
//! What is done, and what is said first, is [`host::replica::recovery`]'s.

use std::path::PathBuf;

use clap::Args;
use host::failure::Failure;
use host::replica::recovery::Order;

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
    let named = |id: u8| (id, format!("replica {id}"));
    let order = Order {
        own: named(args.id),
        from: named(args.from),
        dir: args.dir.clone(),
        compare: args.compare.clone(),
        accept_loss: args.accept_loss,
    };
    let done = order.run()?;
    match args.json {
        true => println!("{:#}", done.data),
        false => println!("{}", done.text),
    }
    Ok(())
}
