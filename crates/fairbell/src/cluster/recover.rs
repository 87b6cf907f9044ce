//! `fairbell cluster recover`: as [`crate::replica`]'s `recover`, for the folders of a fleet's roots.

use std::path::{Path, PathBuf};

use clap::Args;
use host::failure::Failure;
use host::fleet::file::ClusterFile;
use host::fleet::node::journal_dir;
use host::replica::recovery::Order;

/// Options of `fairbell cluster recover`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster recover --name root-1 --dir /var/lib/fairbell --from root-3    what can't be proved\n  \
    fairbell cluster recover --name root-1 --dir /var/lib/fairbell --from root-3 --accept-loss\n  \
    fairbell cluster recover --name root-2 --dir /mnt/new --from root-3 --disk-gone --accept-loss\n\n\
    On the machine of each root that says that it is in doubt, or whose disk is gone, while nobody leads,\n\
    and only when roots that are whole can't be had in time: on as many as make most of the roots with\n\
    --from. Never start a root on an empty folder instead. The one whose log counts needs it, too, when it\n\
    is in doubt itself: --name and --from are equal then. Start --from first, then these.")]
pub struct RecoverArgs {
    /// Who is where
    #[arg(long, value_name = "FILE", default_value = "cluster/cluster.toml")]
    pub cluster: PathBuf,
    /// The root whose folder this is
    #[arg(long, value_name = "NODE")]
    pub name: String,
    /// Its folder, as `fairbell node` has it; it must not run [default: the file's]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The root whose log counts
    #[arg(long, value_name = "NODE")]
    pub from: String,
    /// Folder of that, if it is on this machine: to say what it lacks
    #[arg(long, value_name = "DIR")]
    pub compare: Option<PathBuf>,
    /// Its disk is gone: begin in an empty folder
    #[arg(long)]
    pub disk_gone: bool,
    /// Do it, whatever is lost by it
    #[arg(long)]
    pub accept_loss: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// Names that are no roots; see [`Order::run`] and [`Order::begin`].
pub fn run(args: &RecoverArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.cluster)?;
    // As the shard has it whose log the machine keeps.
    let file = file.of_node(file.node(&args.name)?.1);
    let root = |name: &str| {
        let (number, _) = file.node(name)?;
        let none = || {
            let shard = match file.shard_count() {
                1 => String::new(),
                _ => format!(" of shard {}", file.shard_name()),
            };
            Failure::Usage(format!("{name} is no root{shard}, and has no log of it"))
        };
        Ok::<_, Failure>((file.replica(number).ok_or_else(none)?, name.to_string()))
    };
    let (own, from) = (root(&args.name)?, root(&args.from)?);
    let (_, entry) = file.node(&args.name)?;
    let dir = args.dir.clone().or_else(|| entry.dir.clone());
    let dir = dir.ok_or_else(|| Failure::Usage("--dir: which folder".to_string()))?;
    let compare = args.compare.as_deref().map(of_node);
    let order = Order { own, from, dir: journal_dir(&dir), compare, accept_loss: args.accept_loss };
    let done = match args.disk_gone {
        true => order.begin(file.group())?,
        false => order.run()?,
    };
    match args.json {
        true => println!("{:#}", done.data),
        false => println!("{}", done.text),
    }
    Ok(())
}

/// The journal's folder, by that of its node or by its own.
fn of_node(dir: &Path) -> PathBuf {
    let inner = journal_dir(dir);
    if inner.is_dir() { inner } else { dir.to_path_buf() }
}
