//! `fairbell replica`: one replica of an exchange's root, a process of its own.

mod recover;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;

use clap::{Args, Subcommand};
use net::Clock;

use host::admin::action::Action;
use host::admin::members;
use host::admin::protocol::Reply;
use host::admin::server::Server;
use host::alarms::{self, Alarms};
use host::failure::Failure;
use host::replica::certificates;
use host::replica::checkpoints::Begin;
use host::replica::cluster::Cluster;
use host::replica::line::RootLine;
use host::replica::node::{Host, ask};

use crate::store::beside::Beside;

/// The admin socket, in the replica's folder.
pub const SOCKET: &str = "admin.sock";
/// Lines about operators that may wait to be printed.
const LINES: usize = 64;

/// Options of `fairbell replica`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    fairbell replica --cluster cluster.json --id 1 --dir /var/lib/fairbell/1\n  \
    fairbell replica --cluster cluster.json --status    how all replicas stand\n  \
    fairbell replica --cluster cluster.json --issue     keys and certificates, in keys/ beside it\n  \
    fairbell admin --socket /var/lib/fairbell/1/admin.sock replicas list\n  \
    fairbell replica recover --id 1 --dir /var/lib/fairbell/1 --from 3    too few are whole\n\n\
    The cluster file names the places of all nodes and replicas and holds the deployment's\n\
    secret; keys/ beside it the replica's own key and certificate. `fairbell-lab drill failover --keep` leaves one to look at. It runs until Ctrl-C.\n\
    A root of a venue on many machines is a node of cluster.toml: `fairbell node`.")]
pub struct ReplicaArgs {
    /// Configuration file [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What else is to be done
    #[command(subcommand)]
    pub what: Option<What>,
    /// Who is where
    #[arg(long, value_name = "FILE", required = true)]
    pub cluster: Option<PathBuf>,
    /// Its number, from 1
    #[arg(long, value_name = "N", required_unless_present_any = ["status", "issue"])]
    pub id: Option<u8>,
    /// Folder of its journal
    #[arg(long, value_name = "DIR", required_unless_present_any = ["status", "issue"])]
    pub dir: Option<PathBuf>,
    /// Ask all replicas how they stand, one JSON line each
    #[arg(long, conflicts_with_all = ["id", "dir"])]
    pub status: bool,
    /// Make the group's authority and its replicas' certificates and keys, as far as there are none
    #[arg(long, conflicts_with_all = ["id", "dir", "status"])]
    pub issue: bool,
    /// Give places at its doors to the first who come: the control of `fairbell-lab drill strangers`
    #[arg(long, hide = true)]
    pub first_come: bool,
}

/// What is done to a replica's folder.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Let a replica in doubt elect one whose log counts, where too few are whole to elect anybody
    Recover(recover::RecoverArgs),
}

/// Runs a replica, or asks all of them.
pub fn run(args: &ReplicaArgs) -> Result<(), Failure> {
    if let Some(What::Recover(args)) = &args.what {
        return recover::run(args);
    }
    let Some(path) = &args.cluster else {
        return Err(Failure::Usage("--cluster: which file".to_string()));
    };
    let cluster = Cluster::read(path)?;
    if args.issue {
        return issue(cluster, path);
    }
    let (Some(id), Some(dir)) = (args.id, &args.dir) else { return ask_all(&cluster) };
    let config = host::config::read(args.config.as_deref())?;
    let stop = crate::options::interrupted()?;
    let mut host = Host::new((&config, &cluster), (id, dir), Clock::start(0), Begin::Checkpoint)?;
    let (inputs, of) = (host.recovered, host.restored);
    let unread = host.unread();
    eprintln!(
        "replica {id}: {inputs} inputs recovered, {of} of them by a checkpoint; {unread} files of its \
         log are read from now on"
    );
    if args.first_come {
        eprintln!("replica {id}: strangers can keep others from its doors (--first-come)");
        host.first_come();
    }
    let root = host.handle();
    let alarms = host.alarms();
    let store = Beside::in_folder(&config, (dir, dir.clone()), &alarms)?;
    std::thread::scope(|scope| {
        let places = cluster.places().count() as u8;
        let (over, alarms) = (&*stop, &alarms);
        scope.spawn(move || serve_operators(dir, RootLine::one_of(places, root), alarms, over));
        scope.spawn(move || alarms.tell(over, |line| eprintln!("replica {id}: {line}")));
        let outcome = host.run(&stop).map(|_| ());
        let told = store.map(Beside::end_in_lines).unwrap_or_default();
        told.iter().for_each(|line| eprintln!("replica {id}: {line}"));
        outcome
    })
}

/// Serves the operators of one replica's group until `stop`. Without the socket the replica does
/// what it is for all the same.
fn serve_operators(dir: &Path, line: RootLine, alarms: &Alarms, stop: &AtomicBool) {
    let server = match Server::bind(&dir.join(SOCKET)) {
        Ok(server) => server.with_alarms(alarms),
        Err(why) => {
            eprintln!("no operators are heard: {why}");
            return;
        }
    };
    let (told, lines) = sync_channel::<String>(LINES);
    std::thread::scope(|scope| {
        scope.spawn(move || lines.iter().for_each(|line| eprintln!("{line}")));
        server.run(stop, &told, |_, action| match action {
            Action::Replicas { what } => {
                members::perform(&line, what).unwrap_or_else(Reply::refused)
            }
            Action::Status => {
                let (text, alarms) = alarms::told(&alarms.standing());
                let text = if text.is_empty() { "no alarms".to_string() } else { text.join("\n") };
                Reply::done(text, serde_json::json!({ "alarms": alarms }))
            }
            _ => Reply::refused("a replica's socket is for `status` and `replicas` alone"),
        });
        drop(told);
    });
}

fn issue(mut cluster: Cluster, path: &Path) -> Result<(), Failure> {
    let made = certificates::issue(&mut cluster)?;
    cluster.write(path)?;
    let folder = cluster.keys.display();
    match made.is_empty() {
        true => println!("{folder}: all are there"),
        false => println!("{folder}: made for {}", made.join(", ")),
    }
    Ok(())
}

fn ask_all(cluster: &Cluster) -> Result<(), Failure> {
    let asked: Vec<_> =
        cluster.places().map(|(number, _)| (number, ask(cluster, number))).collect();
    let newest = asked.iter().filter_map(|(_, status)| status.as_ref());
    let newest = newest.max_by_key(|status| status.changes).map(|status| &status.members);
    let founders = cluster.replicas.len();
    // Those in reserve need not run, and those that were removed can't.
    let due = |number: u8| {
        newest.map_or(usize::from(number) <= founders, |members| members.contains(&number))
    };
    let mut silent = 0;
    for (number, status) in &asked {
        match status {
            Some(status) => println!("{}", serde_json::to_string(status).unwrap_or_default()),
            None if due(*number) => {
                println!("{{\"replica\":{number},\"answers\":false}}");
                silent += 1;
            }
            None => {}
        }
    }
    match silent {
        0 => Ok(()),
        some => Err(Failure::Run(format!("{some} replicas do not answer"))),
    }
}
