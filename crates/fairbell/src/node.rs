//! `fairbell node`: one machine of a venue, as `cluster.toml` has it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::store::beside::Beside;
use crate::web::Web;
use host::alarms::Alarms;
use host::clock_agent::Wrong;
use host::failure::Failure;
use host::fleet::credentials::Credentials;
use host::fleet::file::ClusterFile;
use host::fleet::node::{self, NodeOptions};
use host::telemetry::Service;

/// Options of `fairbell node`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell node --cluster /etc/fairbell/cluster.toml --name edge-3\n  \
    fairbell node --cluster cluster/cluster.toml --name root-1 --dir /var/lib/fairbell\n\n\
    It runs everything that the file gives the name, until Ctrl-C or SIGTERM. Exit codes: 1 it\n\
    could not go on, 2 wrong options or files, 4 the roots refused it.")]
pub struct NodeArgs {
    /// Who is where: the same file on every machine
    #[arg(long, value_name = "FILE")]
    pub cluster: PathBuf,
    /// This machine's name in it
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Folder of its journal and logs [default: the file's, else fairbell-NAME]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Folder of its keys [default: keys/NAME beside the cluster file]
    #[arg(long, value_name = "DIR")]
    pub keys: Option<PathBuf>,
    /// Write when each datagram of the feed was published, came and was released, to traces.bin in
    /// its folder
    #[arg(long)]
    pub traces: bool,
    /// Where Prometheus reads its metrics, in place of telemetry.listen; off: nowhere
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// On trial: the streams of root N are reached at this address
    #[arg(long = "link", value_name = "N=ADDRESS", value_parser = link, hide = true)]
    pub links: Vec<(u8, SocketAddr)>,
    /// On trial: places at a root's doors go to the first who come
    #[arg(long, hide = true)]
    pub first_come: bool,
    /// On trial: the free-running clock is ahead by so much, us
    #[arg(long, value_name = "US", default_value_t = 0, allow_hyphen_values = true, hide = true)]
    pub virtual_offset_us: i64,
    /// On trial: it gains so much, ppb
    #[arg(long, value_name = "PPB", default_value_t = 0, allow_hyphen_values = true, hide = true)]
    pub virtual_drift_ppb: i64,
    /// On trial: since when it gains that, ns since 1970, so that a machine's clock goes on when its process
    /// starts again [default: its start]
    #[arg(long, value_name = "NS", default_value_t = 0, hide = true)]
    pub virtual_origin_ns: u64,
    /// On trial: it jumps ahead by so much at each SIGUSR1, us
    #[arg(long, value_name = "US", hide = true)]
    pub virtual_jump_us: Option<u64>,
}

fn link(text: &str) -> Result<(u8, SocketAddr), String> {
    let (number, at) = text.split_once('=').ok_or("N=ADDRESS is needed")?;
    let number = number.parse().map_err(|error| format!("{number}: {error}"))?;
    Ok((number, at.parse().map_err(|error| format!("{at}: {error}"))?))
}

/// Runs a machine.
///
/// # Errors
/// See [`node::run`].
pub fn run(args: &NodeArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.cluster)?;
    let (_, entry) = file.node(&args.name)?;
    let dir = args.dir.clone().or_else(|| entry.dir.clone());
    let handling = |error| Failure::Run(format!("handling signals: {error}"));
    let jump = args.virtual_jump_us.map(|us| (Arc::new(AtomicBool::new(false)), us));
    if let Some((told, _)) = &jump {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(told))
            .map_err(handling)?;
    }
    let dir = dir.unwrap_or_else(|| PathBuf::from(format!("fairbell-{}", args.name)));
    let alarms = Alarms::default();
    let mut settings = file.of_node(entry).venue()?;
    if settings.memory.lock {
        host::limits::lock_memory()?;
    }
    let keys = args.keys.clone().unwrap_or_else(|| Credentials::folder(&file, &args.name));
    let web = Web::of_machine(&file, entry, &settings, &keys)?;
    if let Some(web) = &web {
        eprintln!("{}: {}", args.name, web.greeting());
    }
    if let Some(at) = &args.metrics {
        settings.telemetry.listen_at("--metrics", at)?;
    }
    let service = Service::start(&settings, (&args.name, &dir), &alarms)?;
    if let Some(at) = service.as_ref().and_then(Service::address) {
        eprintln!("{}: metrics: http://{at}/metrics", args.name);
    }
    let telemetry = service.as_ref().map(|service| service.telemetry().clone());
    let options = NodeOptions {
        name: args.name.clone(),
        dir: dir.clone(),
        keys,
        wrong: Wrong {
            origin: args.virtual_origin_ns,
            offset_ns: args.virtual_offset_us.saturating_mul(1_000),
            drift_ppb: args.virtual_drift_ppb,
        },
        jump,
        links: args.links.clone(),
        first_come: args.first_come,
        traces: args.traces,
        alarms: alarms.clone(),
        telemetry: telemetry.clone(),
    };
    let stop = crate::options::interrupted()?;
    let name = &args.name;
    // A root or a learner keeps the log: the store is made of it there.
    let journal = node::journal_dir(&dir);
    let config = entry.keeps_log().then(|| file.of_node(entry).venue()).transpose()?;
    let follow =
        |config| Beside::in_folder(&config, (&dir, journal), (&alarms, telemetry.as_ref()));
    let store = config.map_or(Ok(None), follow)?;
    let outcome = std::thread::scope(|scope| {
        if let Some(web) = web {
            let (stop, alarms, telemetry) = (&stop, &alarms, telemetry.as_ref());
            scope.spawn(move || {
                if let Err(failure) = web.serve(stop, (alarms, telemetry)) {
                    alarms.raise(
                        crate::web::ALARM,
                        format!("REST and WebSocket are not served: {failure}"),
                    );
                }
            });
        }
        let outcome = node::run(&file, &options, &stop, |line| eprintln!("{name}: {line}"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome
    });
    let mut told = store.map(Beside::end_in_lines).unwrap_or_default();
    told.extend(service.map(Service::end).unwrap_or_default());
    told.iter().for_each(|line| eprintln!("{name}: {line}"));
    outcome
}
