//! `fairbell replica`: one replica of an exchange's root, a process of its own.

pub mod checkpoints;
pub mod claims;
pub mod cluster;
pub mod host;
pub mod line;
mod links;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use net::Clock;

use crate::Failure;
use checkpoints::Begin;
use cluster::Cluster;
use host::Host;

/// Options of `fairbell replica`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell replica --cluster cluster.json --id 1 --dir /var/lib/fairbell/1\n  \
    fairbell replica --cluster cluster.json --status    how all replicas stand\n\n\
    The cluster file names the places of all nodes and replicas and holds the deployment's\n\
    secret; `fairbell drill failover --keep` leaves one to look at. It runs until Ctrl-C.")]
pub struct ReplicaArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Who is where
    #[arg(long, value_name = "FILE")]
    pub cluster: PathBuf,
    /// Its number, from 1
    #[arg(long, value_name = "N", required_unless_present = "status")]
    pub id: Option<u8>,
    /// Folder of its journal
    #[arg(long, value_name = "DIR", required_unless_present = "status")]
    pub dir: Option<PathBuf>,
    /// Ask all replicas how they stand, one JSON line each
    #[arg(long, conflicts_with_all = ["id", "dir"])]
    pub status: bool,
}

/// Runs a replica, or asks all of them.
pub fn run(args: &ReplicaArgs) -> Result<(), Failure> {
    let cluster = Cluster::read(&args.cluster)?;
    let (Some(id), Some(dir)) = (args.id, &args.dir) else { return ask_all(&cluster) };
    let config = crate::cli::load_plain(args.config.as_deref())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::Run(format!("handling Ctrl-C: {error}")))?;
    }
    let host = Host::new((&config, &cluster), (id, dir), Clock::start(0), Begin::Checkpoint)?;
    let (inputs, of) = (host.recovered, host.restored);
    eprintln!("replica {id}: {inputs} inputs recovered, {of} of them by a checkpoint");
    host.run(&stop).map(|_| ())
}

fn ask_all(cluster: &Cluster) -> Result<(), Failure> {
    let mut silent = 0;
    for (number, place) in (1..).zip(&cluster.replicas) {
        match host::ask(place.status) {
            Some(status) => println!("{}", serde_json::to_string(&status).unwrap_or_default()),
            None => {
                println!("{{\"replica\":{number},\"answers\":false}}");
                silent += 1;
            }
        }
    }
    match silent {
        0 => Ok(()),
        some => Err(Failure::Run(format!("{some} replicas do not answer"))),
    }
}
