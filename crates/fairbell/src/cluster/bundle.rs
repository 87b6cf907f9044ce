//! `fairbell cluster bundle`: what engineers on call need, in one file.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use host::failure::Failure;
use host::fleet::bundle::{Bundle, Sources};
use host::fleet::file::ClusterFile;

use crate::options::duration;

/// Options of `fairbell cluster bundle`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell cluster bundle                                         where the operator's keys are\n  \
    fairbell cluster bundle --name root-1 --dir /var/lib/fairbell --cluster /etc/fairbell/cluster.toml\n  \
    fairbell cluster bundle --name edge-3 --log /var/log/fairbell.txt --out edge-3.tar.gz\n\n\
    No key and no password is in it. What could not be had is said, also when no root answers. Nothing\n\
    is changed: the machine may run meanwhile; a large log takes a while to examine.")]
pub struct BundleArgs {
    /// The file that is made; an earlier bundle there is replaced, any other file is not
    #[arg(long, value_name = "FILE", default_value = "fairbell-bundle.tar.gz")]
    pub out: PathBuf,
    /// Which machine of the cluster this is, if it is one
    #[arg(long, value_name = "NODE")]
    pub name: Option<String>,
    /// Its folder [default: the file's, else fairbell-NAME]
    #[arg(long, value_name = "DIR", requires = "name")]
    pub dir: Option<PathBuf>,
    /// Folder of its keys [default: keys/NAME beside the cluster file]
    #[arg(long, value_name = "DIR", requires = "name")]
    pub keys: Option<PathBuf>,
    /// A log whose last lines are wanted, besides those in its folder
    #[arg(long, value_name = "FILE")]
    pub log: Vec<PathBuf>,
    /// How long the roots may not answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub patience: Duration,
    /// Print what is inside as one JSON document
    #[arg(long)]
    pub json: bool,
    /// Who is where
    #[arg(long, value_name = "FILE", default_value = "cluster/cluster.toml")]
    pub cluster: PathBuf,
}

/// Makes a bundle, and prints what is inside.
///
/// # Errors
/// No such machine in the file; the bundle can't be written, or another file is there.
pub fn run(args: &BundleArgs) -> Result<(), Failure> {
    Bundle::may_replace(&args.out)?;
    let file = ClusterFile::read(&args.cluster)?;
    let machine = match &args.name {
        None => None,
        Some(name) => {
            let (_, entry) = file.node(name)?;
            let dir = args.dir.clone().or_else(|| entry.dir.clone());
            Some((&name[..], dir.unwrap_or_else(|| PathBuf::from(format!("fairbell-{name}")))))
        }
    };
    let bundle = Bundle::collect(&Sources {
        file: &file,
        machine: machine.as_ref().map(|(name, dir)| (*name, dir.as_path())),
        keys: args.keys.as_deref(),
        logs: &args.log,
        version: env!("CARGO_PKG_VERSION"),
        patience: args.patience,
    });
    bundle.write(&args.out)?;
    if args.json {
        let mut told = bundle.told();
        told["file"] = serde_json::json!(args.out);
        println!("{told:#}");
        return Ok(());
    }
    bundle.lines().iter().for_each(|line| println!("{line}"));
    let (inside, missing) = (bundle.parts.len(), bundle.missing.len());
    println!("{}: {inside} files, {missing} missing", args.out.display());
    Ok(())
}
