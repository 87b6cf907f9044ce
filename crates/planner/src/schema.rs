//! One experiment as a file: agents, probes, runs and comparisons; results have the same shape.
//!
//! Read from TOML or JSON by whoever has the file. Everything has a default but the agents, which a
//! local run makes itself. [`Experiment::check`] says what is wrong before anything starts.

use serde::{Deserialize, Serialize};

use crate::build::Pick;
use crate::cloud::CloudModel;
use crate::objective::Goal;
use crate::score::Strategy;
use crate::tree::Shape;

/// Largest number of VMs in a pool.
pub const VMS_MAX: usize = 1_024;
/// Most probes that one member sends or hears in one job.
pub const PROBES_MAX: u64 = 1 << 20;
/// Largest number of runs in an experiment.
const RUNS_MAX: usize = 256;

/// An experiment, as its file describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Experiment {
    /// Name of the experiment, for reports.
    pub name: String,
    /// Seed of roots, slices and placements.
    pub seed: u64,
    /// Depth and fan-out of all trees.
    pub tree: Shape,
    /// Rates and durations of the probe jobs.
    pub probes: Probes,
    /// VMs of the pool; empty for a local run.
    pub agents: Vec<Agent>,
    /// Pool of a local run, on this machine.
    pub local: Local,
    /// Trees to be built and compared, in order.
    pub runs: Vec<Run>,
}

/// A VM that runs an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Name of the VM, for people.
    pub name: String,
    /// IPv4 address and port of its control channel (TCP); probes come to the same port (UDP).
    pub address: String,
}

/// Rates and durations of the probe jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probes {
    /// Probes per second: to each candidate, of a multicast, to all others of a mesh together.
    pub rate: u32,
    /// Length of a PARENT and of a LEMON job, ms.
    pub duration_ms: u32,
    /// Length of an MCAST job, ms.
    pub evaluation_ms: u32,
    /// Time at the start of a job during which probes are not counted, ms.
    pub warmup_ms: u32,
    /// Longest time for members to report after a job's end, ms.
    pub gather_ms: u32,
}

/// A pool on the loopback address, with delays of a synthetic cloud.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Local {
    /// Number of agents in the pool.
    pub vms: usize,
    /// Model of the delays and stragglers.
    pub cloud: CloudModel,
}

/// How the tree of a run is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Kind {
    /// Selected by probes: the best of K candidates for each parent.
    Best,
    /// Selected by probes: the worst of K candidates for each parent.
    Worst,
    /// Selected at random, without probes.
    Rand,
    /// Placed as a whole by the delays of a mesh.
    Lemon,
    /// The tree of the run before with at most K of its VMs replaced by spares, from the mesh.
    Revise,
    /// The tree of the run before with everything below one child of the root selected anew by
    /// probes: the child above the worst leaf.
    Reselect,
}

/// One tree to build and evaluate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name of the run, for reports.
    pub name: String,
    /// How the tree is found.
    pub kind: Kind,
    /// How candidates are ranked: WEIGHTED, P90, P50 or an expression.
    #[serde(default = "weighted")]
    pub strategy: Strategy,
    /// Candidates probed for each parent (K).
    #[serde(default = "four")]
    pub candidates: usize,
    /// `random` (the same for all runs), `egress` (best sender of the mesh), or an agent's name.
    /// LEMON places its root itself.
    #[serde(default = "random")]
    pub root: String,
    /// Objective that a LEMON run minimises.
    #[serde(default)]
    pub goal: Goal,
    /// Number of evaluations of the tree; 0: the tree is only built.
    #[serde(default = "one")]
    pub repeats: usize,
}

fn weighted() -> Strategy {
    Strategy::Weighted
}

fn four() -> usize {
    4
}

fn one() -> usize {
    1
}

fn random() -> String {
    "random".to_string()
}

impl Run {
    /// A run with the usual parameters.
    pub fn new(name: &str, kind: Kind, strategy: Strategy) -> Run {
        Run {
            name: name.to_string(),
            kind,
            strategy,
            candidates: four(),
            root: random(),
            goal: Goal::TotalTime,
            repeats: one(),
        }
    }

    /// Choice of the builder, for runs that probe.
    pub fn pick(&self) -> Option<Pick> {
        match self.kind {
            Kind::Best => Some(Pick::Best),
            Kind::Worst => Some(Pick::Worst),
            Kind::Rand => Some(Pick::Rand),
            Kind::Reselect => Some(Pick::Best),
            Kind::Lemon | Kind::Revise => None,
        }
    }

    /// Whether the run needs the delays of a mesh.
    pub fn needs_mesh(&self) -> bool {
        matches!(self.kind, Kind::Lemon | Kind::Revise) || self.root == "egress"
    }
}

impl Default for Probes {
    /// Fits two cores with 25 agents on them.
    fn default() -> Probes {
        Probes {
            rate: 1_000,
            duration_ms: 1_000,
            evaluation_ms: 5_000,
            warmup_ms: 100,
            gather_ms: 2_000,
        }
    }
}

impl Default for Local {
    fn default() -> Local {
        Local { vms: 25, cloud: CloudModel::default() }
    }
}

impl Default for Experiment {
    /// The thesis' comparison (tables 5.1 and 5.2), shorter, and LEMON by the other objectives.
    fn default() -> Experiment {
        let best = |name, strategy| Run::new(name, Kind::Best, strategy);
        let lemon = |name, goal| Run { goal, ..Run::new(name, Kind::Lemon, Strategy::P50) };
        let egress = Run {
            root: "egress".to_string(),
            candidates: 8,
            ..best("BEST-P50-K8-EGRESS", Strategy::P50)
        };
        let revised =
            Run { candidates: 2, ..Run::new("RAND-2-REPLACED", Kind::Revise, Strategy::P50) };
        let reselected = Run {
            candidates: 6,
            ..Run::new("RAND-2-REPLACED-1-SUBTREE", Kind::Reselect, Strategy::P50)
        };
        Experiment {
            name: "treebuilder".to_string(),
            seed: 1,
            tree: Shape { depth: 3, fanout: 2 },
            probes: Probes::default(),
            agents: Vec::new(),
            local: Local::default(),
            runs: vec![
                best("BEST-WEIGHTED", Strategy::Weighted),
                best("BEST-P90", Strategy::P90),
                best("BEST-P50", Strategy::P50),
                egress,
                Run::new("WORST-P90", Kind::Worst, Strategy::P90),
                Run::new("RAND", Kind::Rand, Strategy::P50),
                revised,
                reselected,
                lemon("LEMON", Goal::TotalTime),
                lemon("LEMON-WORST-LEAF", Goal::WorstLeaf),
                lemon("LEMON-EXPECTED-MAX", Goal::ExpectedMax),
            ],
        }
    }
}

impl Experiment {
    /// Names of the pool's VMs: those of the agents, or `vm-00` and so on.
    pub fn names(&self) -> Vec<String> {
        if self.agents.is_empty() {
            return (0..self.local.vms).map(|vm| format!("vm-{vm:02}")).collect();
        }
        self.agents.iter().map(|agent| agent.name.clone()).collect()
    }

    /// What makes the experiment impossible, in one line.
    ///
    /// # Errors
    /// The first thing found.
    pub fn check(&self) -> Result<(), String> {
        let names = self.names();
        let shape = Shape::new(self.tree.depth, self.tree.fanout)
            .ok_or("tree: depth and fanout must be at least 1 and give at most 4096 positions")?;
        if names.len() > VMS_MAX || names.len() < shape.positions() {
            return Err(format!(
                "the tree needs {} VMs and there are {} (at most {VMS_MAX})",
                shape.positions(),
                names.len()
            ));
        }
        self.probes.check(names.len())?;
        if self.runs.is_empty() || self.runs.len() > RUNS_MAX {
            return Err(format!("runs: from 1 to {RUNS_MAX}"));
        }
        for run in &self.runs {
            let known = ["random", "egress"].contains(&run.root.as_str());
            if !known && !names.contains(&run.root) {
                return Err(format!("run {}: no agent is called {:?}", run.name, run.root));
            }
            if run.repeats > 100 {
                return Err(format!("run {}: repeats must be 0..=100", run.name));
            }
            let probing = matches!(run.kind, Kind::Best | Kind::Worst | Kind::Reselect);
            if probing && !(shape.fanout..=VMS_MAX).contains(&run.candidates) {
                return Err(format!(
                    "run {}: candidates must be {}..={VMS_MAX}",
                    run.name, shape.fanout
                ));
            }
        }
        if !self.local.cloud.is_sound() {
            return Err("local.cloud: delays must be 0 to 1 s and sigmas 0 to 2".to_string());
        }
        Ok(())
    }
}

impl Probes {
    fn check(&self, vms: usize) -> Result<(), String> {
        let longest_ms = u64::from(self.duration_ms.max(self.evaluation_ms));
        let probes = u64::from(self.rate) * longest_ms / 1_000;
        if self.rate == 0 || self.duration_ms <= self.warmup_ms || probes > PROBES_MAX {
            return Err("probes: rate must be above 0, the warm-up shorter than a job, and a job \
                        at most 1048576 probes"
                .to_string());
        }
        if self.evaluation_ms <= self.warmup_ms || self.gather_ms == 0 {
            return Err("probes: evaluation_ms must exceed warmup_ms, gather_ms be above 0".into());
        }
        if longest_ms > 3_600_000 || vms as u64 * u64::from(self.rate) > 100_000_000 {
            return Err("probes: a job lasts at most an hour, the rate is bounded".to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_experiment_is_sound_and_reads_back() {
        let experiment = Experiment::default();
        experiment.check().unwrap();
        let text = toml::to_string(&experiment).unwrap();
        assert_eq!(toml::from_str::<Experiment>(&text).unwrap(), experiment);
    }

    #[test]
    fn a_file_names_what_it_changes() {
        let text = "seed = 4\n[tree]\ndepth = 2\nfanout = 2\n[local]\nvms = 9\n\
                    [[runs]]\nname = \"mine\"\nkind = \"BEST\"\nstrategy = \"p50 + 1000 * loss\"\n\
                    root = \"vm-03\"\n";
        let experiment: Experiment = toml::from_str(text).unwrap();
        experiment.check().unwrap();
        assert_eq!((experiment.runs.len(), experiment.runs[0].candidates), (1, 4));
        assert_eq!(experiment.probes, Probes::default());
    }

    #[test]
    fn complaints_name_the_fault() {
        let complain = |change: fn(&mut Experiment)| {
            let mut experiment = Experiment::default();
            change(&mut experiment);
            experiment.check().unwrap_err()
        };
        assert!(complain(|e| e.local.vms = 14).contains("needs 15 VMs"));
        assert!(complain(|e| e.tree.depth = 0).contains("depth"));
        assert!(complain(|e| e.runs[0].root = "nobody".into()).contains("nobody"));
        assert!(complain(|e| e.runs[0].candidates = 1).contains("candidates"));
        assert!(complain(|e| e.probes.warmup_ms = 1_000).contains("warm-up"));
        assert!(complain(|e| e.probes.rate = u32::MAX).contains("probes"));
        assert!(complain(|e| e.local.cloud.sigma = f64::NAN).contains("sigmas"));
        assert!(complain(|e| e.runs.clear()).contains("runs"));
        let bad = "[[runs]]\nname = \"x\"\nkind = \"BEST\"\nstrategy = \"system()\"\n";
        assert!(
            toml::from_str::<Experiment>(bad).unwrap_err().to_string().contains("unknown name")
        );
    }
}
