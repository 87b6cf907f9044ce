//! `fairbell plan` and `fairbell agent`: choose VMs for the tree by probing them.
//!
//! The controller of an experiment file talks to agents on the pool's VMs; with `--local` the
//! agents run here, each on a loopback address of its own, and get the delays of a synthetic cloud whose
//! stragglers are known. Results go to a folder: JSON, Markdown, one HTML page, drawings as SVG.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use net::{Clock, Directory, Loop, LoopConfig};
use planner::campaign::{Campaign, Results};
use planner::cloud::Cloud;
use planner::objective::Hops;
use planner::schema::Experiment;
use probe::link::entropy;
use probe::{Agent, Controller, Key};
use types::{Channel, NodeId};

use host::failure::Failure;

mod local;
mod output;
mod stragglers;

/// Bytes that may wait for a slow reader of a control channel: a leaf's whole series.
const UNREAD_MAX: usize = 16 << 20;
/// The controller's number in its loop.
const CONTROLLER: NodeId = NodeId(u16::MAX);

/// Options of `fairbell agent`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell agent --listen 10.0.0.7:7400 --key-file probe.key   on every VM of the pool\n\n\
    It takes part in the probe jobs PARENT, MCAST and LEMON for whoever knows the key, and does\n\
    nothing else. Delays are differences of clocks: synchronise them.")]
pub struct AgentArgs {
    /// IPv4 address and port: control over TCP, probes over UDP
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: SocketAddr,
    /// File with the secret that controller and agents share, at least 16 bytes
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = crate::options::duration)]
    pub duration: Option<Duration>,
}

/// Options of `fairbell plan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell plan pool.toml --key-file probe.key   the agents and runs of an experiment file\n  \
    fairbell plan --local 25 --depth 3 --fanout 2  25 agents here, all kinds of trees compared\n  \
    fairbell plan --local 25 --kill 7 --after 10s  one of them dies on the way\n  \
    fairbell plan --local 25 --straggler-test 20   how often stragglers are kept out\n  \
    fairbell plan --print                          the usual experiment file, to start from")]
pub struct PlanArgs {
    /// Experiment file, TOML or JSON [default: the thesis' comparison]
    pub file: Option<PathBuf>,
    /// Agents on this machine, with delays of a synthetic cloud
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=250))]
    pub local: Option<u16>,
    /// Hops from the root to a leaf (D)
    #[arg(long, value_name = "D")]
    pub depth: Option<usize>,
    /// Children of a node (F)
    #[arg(long, value_name = "F")]
    pub fanout: Option<usize>,
    /// Probes per second
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
    /// Length of a PARENT or LEMON job
    #[arg(long, value_name = "TIME", value_parser = crate::options::duration)]
    pub job: Option<Duration>,
    /// Length of an evaluation
    #[arg(long, value_name = "TIME", value_parser = crate::options::duration)]
    pub evaluation: Option<Duration>,
    /// Seed of roots, slices and of the synthetic cloud
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// File with the secret that controller and agents share; not for --local
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Kill this local agent (from 0) while it runs
    #[arg(long, value_name = "VM", requires = "local", requires = "after")]
    pub kill: Option<u16>,
    /// When to kill it
    #[arg(long, value_name = "TIME", value_parser = crate::options::duration, requires = "kill")]
    pub after: Option<Duration>,
    /// Build BEST trees in this many clouds with three stragglers and count who got in
    #[arg(long, value_name = "RUNS", requires = "local",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub straggler_test: Option<u32>,
    /// Print the experiment file and exit
    #[arg(long)]
    pub print: bool,
    /// Folder for results
    #[arg(long, value_name = "DIR", default_value = "out/plan")]
    pub out: PathBuf,
    /// Print the results as one JSON document
    #[arg(long)]
    pub json: bool,
}

impl PlanArgs {
    /// The experiment: file or default, then these options, then checked as a whole.
    fn experiment(&self) -> Result<Experiment, Failure> {
        let mut experiment = match &self.file {
            None => Experiment::default(),
            Some(path) => read(path)?,
        };
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        if let Some(vms) = self.local {
            experiment.local.vms = usize::from(vms);
            experiment.agents.clear();
        }
        let probes = &mut experiment.probes;
        probes.rate = self.rate.unwrap_or(probes.rate);
        probes.duration_ms = self.job.map_or(probes.duration_ms, millis);
        probes.evaluation_ms = self.evaluation.map_or(probes.evaluation_ms, millis);
        experiment.tree.depth = self.depth.unwrap_or(experiment.tree.depth);
        experiment.tree.fanout = self.fanout.unwrap_or(experiment.tree.fanout);
        experiment.seed = self.seed.unwrap_or(experiment.seed);
        experiment.check().map_err(Failure::Usage)?;
        Ok(experiment)
    }
}

fn read(path: &Path) -> Result<Experiment, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let line = |error: String| error.lines().collect::<Vec<_>>().join(" ");
    match path.extension().is_some_and(|extension| extension == "json") {
        true => serde_json::from_str(&text).map_err(|error| wrong(line(error.to_string()))),
        false => toml::from_str(&text).map_err(|error| wrong(line(error.to_string()))),
    }
}

/// The secret in a file, that controller and agents share.
///
/// # Errors
/// The file's; a secret that is too short.
pub fn key(path: &Path) -> Result<Key, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    Key::new(bytes.trim_ascii()).map_err(|error| wrong(error.to_string()))
}

fn io(error: std::io::Error) -> Failure {
    Failure::Run(error.to_string())
}

fn randomness() -> Result<[u8; 32], Failure> {
    entropy().ok_or_else(|| Failure::Run("the system has no randomness".to_string()))
}

fn loop_config() -> LoopConfig {
    LoopConfig { unread_max: UNREAD_MAX, ..LoopConfig::default() }
}

/// Runs `fairbell agent`.
pub fn agent(args: &AgentArgs) -> Result<(), Failure> {
    let key = key(&args.key_file)?;
    let in_use = |error| Failure::Run(format!("{}: {error}", args.listen));
    let listener = std::net::TcpListener::bind(args.listen).map_err(in_use)?;
    let socket = std::net::UdpSocket::bind(args.listen).map_err(in_use)?;
    let node = Agent::new(key, randomness()?, None);
    let mut agents: Loop<Agent> =
        Loop::new(Clock::start(0), Arc::new(Directory::default()), loop_config()).map_err(io)?;
    agents.add_node(NodeId(0), node, vec![(Channel::OVERLAY, socket)], [listener]).map_err(io)?;
    let stop = crate::options::interrupted()?;
    if let Some(time) = args.duration {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            std::thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
        });
    }
    eprintln!("listening on {}", args.listen);
    let done = agents.run(&stop, Duration::from_secs(1), |_, _| ()).map_err(io)?;
    if let Some((_, agent)) = done.first() {
        let counters = agent.counters();
        println!(
            "jobs {}, orders refused {}, connections without the key {}, stray datagrams {}",
            counters.jobs, counters.refused, counters.unauthenticated, counters.strangers
        );
    }
    Ok(())
}

/// Runs `fairbell plan`.
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    let experiment = args.experiment()?;
    if args.print {
        let text = toml::to_string(&experiment).map_err(|error| Failure::Run(error.to_string()))?;
        print!("{text}");
        return Ok(());
    }
    if let Some(runs) = args.straggler_test {
        return stragglers::run(args, &experiment, runs);
    }
    let results = if args.local.is_some() || experiment.agents.is_empty() {
        let cloud = Cloud::new(experiment.local.cloud, experiment.local.vms, experiment.seed);
        let kill = args.kill.zip(args.after);
        let mut results =
            local::run(experiment, Arc::new(cloud.clone()), kill, &crate::options::interrupted()?)?;
        results.stragglers = cloud.stragglers();
        results
    } else {
        let path = args.key_file.as_deref();
        let path = path.ok_or_else(|| Failure::Usage("--key-file is missing".to_string()))?;
        let key = key(path)?;
        let addresses = addresses(&experiment)?;
        control(experiment, addresses, key, &crate::options::interrupted()?)?
    };
    let page = output::write(&results, &args.out).map_err(|error| {
        Failure::Run(format!("cannot write results to {}: {error}", args.out.display()))
    })?;
    if args.json {
        let text = serde_json::to_string(&results).map_err(|e| Failure::Run(e.to_string()))?;
        println!("{text}");
    } else {
        output::print(&results, &page);
    }
    match results.runs.iter().all(|run| run.evaluations.is_empty()) {
        true => Err(Failure::Run(match results.failures.first() {
            Some(first) => format!("no tree could be evaluated; first: {first}"),
            None => "no tree could be evaluated".to_string(),
        })),
        false => Ok(()),
    }
}

fn addresses(experiment: &Experiment) -> Result<Vec<SocketAddr>, Failure> {
    let parse = |agent: &planner::schema::Agent| {
        agent.address.parse().map_err(|_| {
            Failure::Usage(format!(
                "agent {}: {:?} is no address and port like 10.0.0.1:7400 or [fd00::1]:7400",
                agent.name, agent.address
            ))
        })
    };
    experiment.agents.iter().map(parse).collect()
}

/// Carries an experiment out with agents that run already.
fn control(
    experiment: Experiment,
    addresses: Vec<SocketAddr>,
    key: Key,
    stop: &Arc<AtomicBool>,
) -> Result<Results, Failure> {
    Ok(control_with_mesh(experiment, addresses, key, stop)?.0)
}

/// The same, and the delays between all pairs, where a run needed them.
pub(crate) fn control_with_mesh(
    experiment: Experiment,
    addresses: Vec<SocketAddr>,
    key: Key,
    stop: &Arc<AtomicBool>,
) -> Result<(Results, Option<Hops>), Failure> {
    let campaign = Campaign::new(experiment);
    let node = Controller::new(campaign, addresses, key, randomness()?);
    let mut control: Loop<Controller> =
        Loop::new(Clock::start(0), Arc::new(Directory::default()), loop_config()).map_err(io)?;
    control.add_node(CONTROLLER, node, Vec::new(), []).map_err(io)?;
    let finished = Arc::clone(stop);
    let mut shown = 0;
    let nodes = control
        .run(stop, Duration::from_millis(20), |control, _| {
            let Some((_, node)) = control.nodes().next() else { return };
            for line in node.log().iter().skip(shown) {
                shown += 1;
                progress(node.campaign(), line);
            }
            if node.is_finished() {
                finished.store(true, Ordering::Relaxed);
            }
        })
        .map_err(io)?;
    let node = nodes.into_iter().next().map(|(_, node)| node);
    let node = node.ok_or_else(|| Failure::Run("the controller ended early".to_string()))?;
    if !node.is_finished() {
        return Err(Failure::Run("interrupted".to_string()));
    }
    let campaign = node.into_campaign();
    let mesh = campaign.mesh().cloned();
    Ok((campaign.into_results(), mesh))
}

/// One line of progress, when somebody watches.
fn progress(campaign: &Campaign, line: &str) {
    use std::io::IsTerminal;
    if std::io::stderr().is_terminal() {
        let run = campaign.results().runs.last().map_or("mesh", |run| run.run.name.as_str());
        eprint!("\r\x1b[K{:3.0} %  {run}: {line}", 100.0 * campaign.progress());
    }
}
