//! More machines than are needed are asked for, measured, and the best of them kept (the thesis' TreeBuilder):
//! whoever makes machines is asked for all, agents on them send probes, trees of them are built and evaluated
//! by messages, and the machines without a place in the best one are given back.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use host::config::Config;
use host::deployment;
use host::failure::{Failure, on};
use host::fleet::file::{ClusterFile, NodeRole};
use host::fleet::scale::machines::Machines;
use planner::Strategy;
use planner::campaign::{Results, RunResult};
use planner::objective::{Goal, Hops};
use planner::schema::{Agent, Experiment, Kind, Run};
use planner::tree::Shape;
use probe::Key;
use serde::{Deserialize, Serialize};
use types::NodeId;

/// Between two looks whether an agent answers.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long one may take to take a connection.
const CONNECT: Duration = Duration::from_millis(500);
/// Name of the tree of machines as they came: what is compared with.
const AS_THEY_CAME: &str = "as they came";

/// Machines that may be had.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Port of the agents: control over TCP, probes over UDP.
    #[serde(default = "usual_port")]
    pub port: u16,
    /// The machines.
    #[serde(default)]
    pub machine: Vec<Candidate>,
}

fn usual_port() -> u16 {
    7_400
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Its name, for whoever makes machines.
    pub name: String,
    /// Its IP address.
    pub address: std::net::IpAddr,
    /// Its zone; empty: none is named.
    #[serde(default)]
    pub zone: String,
}

impl Pool {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn read(path: &Path) -> Result<Pool, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| on(path, error))?;
        let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
        let pool: Pool = toml::from_str(&text)
            .map_err(|error| wrong(error.message().lines().collect::<Vec<_>>().join(", ")))?;
        let mut names: Vec<&String> = pool.machine.iter().map(|of| &of.name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("machine {} is named twice", pair[0])));
        }
        Ok(pool)
    }
}

/// How machines are measured.
#[derive(Clone, Copy, Debug)]
pub struct Measuring {
    /// Probes per second.
    pub rate: u32,
    /// Length of a job of probes.
    pub job: Duration,
    /// Length of an evaluation by messages.
    pub evaluation: Duration,
    /// Candidates that are looked at for each parent (K).
    pub candidates: usize,
    /// Fixes the draws.
    pub seed: u64,
    /// How long machines may take until their agents answer.
    pub patience: Duration,
}

/// A tree that was measured, time to the last leaf (OML).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// How it came about.
    pub tree: String,
    /// Median, ns.
    pub p50_ns: f64,
    /// 90th percentile, ns.
    pub p90_ns: f64,
    /// Messages that reached all leaves.
    pub messages: u64,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Selected {
    /// Machines that were asked for.
    pub asked: usize,
    /// Those whose agents never answered, or stopped to.
    pub silent: Vec<String>,
    /// By node of the cluster file, in its order: the machine that it is to be on.
    pub kept: Vec<(String, String)>,
    /// Machines that were given back.
    pub released: Vec<String>,
    /// All trees, that of the machines as they came first.
    pub trees: Vec<Measured>,
    /// The tree that was taken.
    pub chosen: String,
    /// What went wrong on the way.
    pub notes: Vec<String>,
}

/// Asks for all machines of a pool, keeps the best for the nodes of a file, gives the others back. The file has their
/// addresses and zones then.
///
/// # Errors
/// Machines that can't be had, too few of them; the venue's tree is larger than a pool can be.
pub fn select(
    (file, config): (&mut ClusterFile, &Config),
    pool: &Pool,
    (machines, key): (&mut dyn Machines, &Key),
    measuring: &Measuring,
    stop: &Arc<AtomicBool>,
) -> Result<Selected, Failure> {
    let shape = shape(file, config)?;
    let needed = shape.positions().max(file.nodes.len());
    if pool.machine.len() < needed {
        let (has, nodes) = (pool.machine.len(), file.nodes.len());
        return Err(Failure::Usage(format!(
            "{has} machines: a full tree of depth {} and fan-out {} and the {nodes} nodes need {needed}",
            shape.depth, shape.fanout
        )));
    }
    let names: Vec<String> = pool.machine.iter().map(|of| of.name.clone()).collect();
    let taken = machines.start(&names).and_then(|()| {
        let there = wait_for(pool, measuring.patience, stop);
        let (results, mesh) = measure(pool, &there, (shape, measuring), key, stop)?;
        choose(file, config, &there, (&results, mesh.as_ref()))
    });
    let Chosen { places, tree, trees, dead, notes } = match taken {
        Ok(chosen) => chosen,
        // Nobody pays for machines that nothing came of.
        Err(why) => {
            let _ = machines.stop(&names);
            return Err(why);
        }
    };
    let silent: Vec<String> =
        (0..names.len()).filter(|at| dead.contains(at)).map(|at| names[at].clone()).collect();
    let mut kept = Vec::new();
    for (node, place) in file.nodes.iter_mut().zip(&places) {
        let candidate = &pool.machine[*place];
        node.address = candidate.address.to_string();
        node.zone.clone_from(&candidate.zone);
        kept.push((node.name.clone(), candidate.name.clone()));
    }
    let released: Vec<String> =
        (0..names.len()).filter(|at| !places.contains(at)).map(|at| names[at].clone()).collect();
    machines.stop(&released)?;
    Ok(Selected { asked: names.len(), silent, kept, released, trees, chosen: tree, notes })
}

/// The planner's tree that has a place for each node of the venue's.
fn shape(file: &ClusterFile, config: &Config) -> Result<Shape, Failure> {
    if file.shard_count() > 1 {
        let why = "machines are selected for venues of one shard";
        return Err(Failure::Usage(format!("{}: {why}", file.path.display())));
    }
    file.overlay(config)?;
    let (depth, fanout) = (config.overlay.depth as usize, config.overlay.fanout as usize);
    let shape = Shape::new(depth, fanout);
    let none = || Failure::Usage("the venue's tree is too large for the planner".to_string());
    let shape = shape.ok_or_else(none)?;
    let topology = deployment::topology(config)?;
    // Layer by layer there are at most as many nodes as the full tree has.
    let mut full = 1;
    for layer in topology.layers() {
        full *= fanout;
        if *layer as usize > full {
            return Err(Failure::Usage(format!(
                "overlay: a layer of {layer} nodes, and a tree of fan-out {fanout} has {full} there"
            )));
        }
    }
    Ok(shape)
}

/// Machines whose agents answer, by their place in the pool.
fn wait_for(pool: &Pool, patience: Duration, stop: &AtomicBool) -> Vec<usize> {
    let until = Instant::now() + patience;
    let answers = |at: &usize| {
        let to = SocketAddr::new(pool.machine[*at].address, pool.port);
        TcpStream::connect_timeout(&to, CONNECT).is_ok()
    };
    let (mut there, mut missing): (Vec<usize>, Vec<usize>) =
        (Vec::new(), (0..pool.machine.len()).collect());
    while !missing.is_empty()
        && Instant::now() < until
        && !stop.load(std::sync::atomic::Ordering::Relaxed)
    {
        let (new, still): (Vec<usize>, Vec<usize>) = missing.iter().copied().partition(answers);
        there.extend(new);
        missing = still;
        if !missing.is_empty() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    there.sort_unstable();
    there
}

fn measure(
    pool: &Pool,
    there: &[usize],
    (shape, measuring): (Shape, &Measuring),
    key: &Key,
    stop: &Arc<AtomicBool>,
) -> Result<(Results, Option<Hops>), Failure> {
    let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let at = |at: &usize| SocketAddr::new(pool.machine[*at].address, pool.port);
    let run = |name: &str, kind, strategy| {
        let candidates = measuring.candidates.max(shape.fanout);
        Run { candidates, root: "egress".to_string(), ..Run::new(name, kind, strategy) }
    };
    let mut experiment = Experiment {
        name: "provision".to_string(),
        seed: measuring.seed,
        tree: shape,
        agents: there
            .iter()
            .map(|of| Agent { name: pool.machine[*of].name.clone(), address: at(of).to_string() })
            .collect(),
        runs: vec![
            Run { root: "random".to_string(), ..run(AS_THEY_CAME, Kind::Rand, Strategy::P50) },
            run("BEST-WEIGHTED", Kind::Best, Strategy::Weighted),
            run("BEST-P90", Kind::Best, Strategy::P90),
            Run { goal: Goal::WorstLeaf, ..run("LEMON-WORST-LEAF", Kind::Lemon, Strategy::P90) },
        ],
        ..Experiment::default()
    };
    experiment.probes.rate = measuring.rate;
    experiment.probes.duration_ms = millis(measuring.job);
    experiment.probes.evaluation_ms = millis(measuring.evaluation);
    experiment.check().map_err(Failure::Usage)?;
    let addresses = there.iter().map(at).collect();
    crate::plan::control_with_mesh(experiment, addresses, key.clone(), stop)
}

/// What was chosen.
struct Chosen {
    /// By node of the file: its place in the pool.
    places: Vec<usize>,
    tree: String,
    trees: Vec<Measured>,
    /// Places in the pool.
    dead: Vec<usize>,
    notes: Vec<String>,
}

fn measured(run: &RunResult) -> Option<Measured> {
    let oml = &run.evaluations.first()?.messages.oml;
    Some(Measured {
        tree: run.run.name.clone(),
        p50_ns: oml.p50_ns,
        p90_ns: oml.p90_ns,
        messages: oml.received,
    })
}

fn choose(
    file: &ClusterFile,
    config: &Config,
    there: &[usize],
    (results, mesh): (&Results, Option<&Hops>),
) -> Result<Chosen, Failure> {
    let trees: Vec<(&RunResult, Measured)> =
        results.runs.iter().filter_map(|run| Some((run, measured(run)?))).collect();
    // Of messages that came nothing can be said of one that lost some: a tree that reaches all is better.
    let chosen = trees.iter().filter(|(run, _)| run.run.name != AS_THEY_CAME);
    let best = chosen.min_by(|a, b| a.1.p90_ns.total_cmp(&b.1.p90_ns));
    let (best, tree) =
        best.and_then(|(run, _)| Some((run, run.tree.as_ref()?))).ok_or_else(|| {
            Failure::Run(format!("no tree could be measured: {}", results.failures.join("; ")))
        })?;
    let living = |vm: &usize| !results.dead.contains(vm) && !tree.vms.contains(vm);
    let mut spares: Vec<usize> = (0..there.len()).filter(living).collect();
    let egress = |vm: usize| mesh.map_or(0.0, |mesh| mesh.egress(vm));
    spares.sort_by(|a, b| egress(*a).total_cmp(&egress(*b)).then(a.cmp(b)));
    let vms = assign(file, config, &tree.vms, tree.shape, spares)?;
    let silent = |at: &usize| {
        let vm = there.iter().position(|of| of == at);
        vm.is_none_or(|vm| results.dead.contains(&vm))
    };
    let last = there.last().map_or(0, |last| last + 1);
    let notes = results.failures.iter().chain(results.runs.iter().flat_map(|run| &run.notes));
    Ok(Chosen {
        places: vms.into_iter().map(|vm| there[vm]).collect(),
        tree: best.run.name.clone(),
        trees: trees.iter().map(|(_, of)| of.clone()).collect(),
        dead: (0..last).filter(silent).collect(),
        notes: notes.cloned().collect(),
    })
}

/// The machine of each node: the tree's for the first root, proxies and edges by their layers, and the best of
/// the others for those that stand by.
fn assign(
    file: &ClusterFile,
    config: &Config,
    vms: &[usize],
    shape: Shape,
    spares: Vec<usize>,
) -> Result<Vec<usize>, Failure> {
    let topology = deployment::topology(config)?;
    let overlay = file.overlay(config)?;
    let first =
        |layer: usize| (0..=layer).map(|above| shape.fanout.pow(above as u32)).sum::<usize>();
    let position = |id: NodeId| topology.locate(id).map(|(layer, index)| first(layer) + index);
    let (mut all, mut used) = (Vec::new(), vec![false; vms.len()]);
    for (number, node) in (1u16..).zip(&file.nodes) {
        let of_tree = overlay.iter().filter(|(_, machine, _)| *machine == number);
        let place = match node.is(NodeRole::Root) && file.replica(number) == Some(1) {
            true => Some(0),
            false => of_tree.filter_map(|(id, ..)| position(*id)).next(),
        };
        if let Some(used) = place.and_then(|place| used.get_mut(place)) {
            *used = true;
        }
        all.push(place.and_then(|place| vms.get(place)).copied());
    }
    // Places of the full tree that the venue's has not are spare, too, behind those that were none.
    let left = vms.iter().zip(&used).filter(|(_, used)| !**used).map(|(vm, _)| *vm);
    let mut spares = spares.into_iter().chain(left);
    let few = || Failure::Run("too few machines answer".to_string());
    all.into_iter().map(|vm| vm.or_else(|| spares.next()).ok_or_else(few)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_node_has_a_machine_of_its_own_and_the_tree_is_that_of_the_planner() {
        let dir = std::env::temp_dir().join(format!("fairbell-select-{}", std::process::id()));
        host::files::folder(&dir).expect("a folder");
        let settings = "[overlay]\ndepth = 2\nfanout = 3\nreceivers = 7\nstandby = 1\n";
        std::fs::write(dir.join("venue.toml"), settings).expect("written");
        let mut nodes = Vec::new();
        for (role, word, count) in [
            (NodeRole::Root, "root", 3),
            (NodeRole::Proxy, "proxy", 3),
            (NodeRole::Edge, "edge", 7),
            (NodeRole::Standby, "standby", 1),
        ] {
            nodes.extend((1..=count).map(|number| {
                let name = format!("{word}-{number}");
                host::fleet::file::NodeEntry::new(name.clone(), name, vec![role])
            }));
        }
        let file = ClusterFile::new(&dir.join("cluster.toml"), "lab", types::Nanos(1 << 60), nodes);
        let file = file.expect("a file");
        let config = file.venue().expect("settings");
        let shape = shape(&file, &config).expect("a full tree");
        assert_eq!((shape.depth, shape.fanout, shape.positions()), (2, 3, 13));
        // A tree of machines 20, 21, ...; spares 5 and 6, the better one first.
        let vms: Vec<usize> = (20..33).collect();
        let all = assign(&file, &config, &vms, shape, vec![5, 6]).expect("enough");
        assert_eq!(all[..6], [20, 5, 6, 21, 22, 23], "roots, then proxies");
        // Edges by the venue's own order of children; the one that stands by gets a leaf's machine.
        assert!(all[6..13].iter().all(|vm| (24..33).contains(vm)), "{all:?}");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        // Control: one spare and no leaf left.
        let few = assign(&file, &config, &vms[..11], shape, vec![5]);
        assert!(few.is_err_and(|why| why.to_string().contains("too few machines")));
        let _ = std::fs::remove_dir_all(dir);
    }
}
