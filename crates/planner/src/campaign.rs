//! A whole experiment as a state machine: jobs out, reports in, results at the end.
//!
//! The mesh comes first when a run needs it, then each run's PARENT jobs, then its MCAST jobs. A VM
//! that does not report is dead from then on: left out of the pool, noted, and the experiment goes
//! on without it. A run whose tree can't be built or evaluated is noted and skipped. Who carries
//! the jobs out, real agents or a synthetic cloud, is the caller's affair.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use types::SplitMix64;

use crate::anneal::{AnnealOptions, anneal};
use crate::build::{BuildOptions, Builder, Pick, PlanError};
use crate::faq::{FaqOptions, Qap};
use crate::matrix::Square;
use crate::objective::{ExpectedMax, Goal, Hops, WorstLeaf, Z90};
use crate::polish::two_opt;
use crate::revise::improve;
use crate::schema::{Experiment, Kind, Run};
use crate::stats::{Messages, Summary};
use crate::tree::Tree;

/// Kind of a measurement; agents do these three and no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobKind {
    /// The first member sends to all others.
    Parent,
    /// A tree: the first member sends, others forward, leaves listen.
    Mcast,
    /// LEMON: every VM sends to every other one.
    Lemon,
}

/// A measurement that agents have to make.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Kind of the measurement.
    pub kind: JobKind,
    /// VMs, the leader first; of a tree in breadth-first order.
    pub members: Vec<usize>,
    /// Number of children per member of a tree; 0: the job has no tree.
    pub fanout: usize,
}

/// What one member heard from another one.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Heard {
    /// Index of the sender among the members.
    pub from: usize,
    /// Summary of the delays of the probes heard.
    pub summary: Summary,
    /// Quantiles of the delays at equal steps of probability, ns.
    pub quantiles_ns: Vec<i64>,
    /// Standard deviation of the delays in each slice of the job, ns.
    pub deviations_ns: Vec<f64>,
}

/// Report of a job, gathered by its leader.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobReport {
    /// By member: what it heard; empty of one that listens to nobody.
    pub heard: Vec<Vec<Heard>>,
    /// Indexes of the members that did not report in time.
    pub silent: Vec<usize>,
    /// Figures per message over all leaves; `None`: the job was not MCAST.
    pub messages: Option<Messages>,
}

/// How a job ended.
#[derive(Clone, PartialEq, Debug)]
pub enum JobEnd {
    /// The leader has reported.
    Done(JobReport),
    /// The job failed; the reason, for people.
    Failed(String),
}

/// One evaluation (MCAST job) of a tree.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Evaluation {
    /// Each leaf that reported, with what it heard.
    pub leaves: Vec<(usize, Heard)>,
    /// VMs that did not report.
    pub silent: Vec<usize>,
    /// Figures per message over all leaves.
    pub messages: Messages,
}

impl Evaluation {
    /// The leaf with the largest 90th percentile.
    pub fn worst(&self) -> Option<&(usize, Heard)> {
        let p90 = |leaf: &&(usize, Heard)| leaf.1.summary.p90_ns;
        self.leaves.iter().max_by(|a, b| p90(a).total_cmp(&p90(b)))
    }
}

/// The result of one run: a tree, and its evaluations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// The run, as it was asked for.
    pub run: Run,
    /// The tree; `None`: it could not be built.
    pub tree: Option<Tree>,
    /// Number of PARENT jobs that building it took.
    pub stages: usize,
    /// Evaluations of the tree, in order.
    pub evaluations: Vec<Evaluation>,
    /// Remarks and errors of the run, for people.
    pub notes: Vec<String>,
}

/// The results of a whole campaign.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The experiment that was run.
    pub experiment: Experiment,
    /// Names of the VMs by number.
    pub names: Vec<String>,
    /// VMs known to be slow, where the cloud is synthetic.
    pub stragglers: Vec<usize>,
    /// Results of the runs, in their order.
    pub runs: Vec<RunResult>,
    /// VMs that stopped answering.
    pub dead: Vec<usize>,
    /// Number of jobs run.
    pub jobs: usize,
    /// Failures of jobs, for people, in order.
    pub failures: Vec<String>,
}

/// An experiment that is being run, job by job.
#[derive(Debug)]
pub struct Campaign {
    results: Results,
    alive: Vec<bool>,
    mesh: Option<Hops>,
    waiting: VecDeque<Run>,
    stage: Stage,
    running: Option<Job>,
    root: usize,
    mesh_tries: usize,
}

#[derive(Debug)]
enum Stage {
    Idle,
    Building(Box<Builder>),
    Evaluating(usize),
}

/// Note of a run that revises a tree when the run before has none.
const NO_TREE: &str = "the run before has no tree";

/// The child of the root above the leaf that the last evaluation found worst.
fn weak_side(run: &RunResult, tree: &Tree) -> usize {
    let worst = run.evaluations.last().and_then(Evaluation::worst);
    let mut at = worst.and_then(|(vm, _)| tree.position(*vm)).unwrap_or(1);
    while let Some(parent) = tree.shape.parent(at).filter(|parent| *parent > 0) {
        at = parent;
    }
    at
}

/// Most tries of a mesh, each with another leader.
const MESH_TRIES: usize = 3;

impl Campaign {
    /// An experiment that passed [`Experiment::check`], with everybody alive.
    pub fn new(experiment: Experiment) -> Campaign {
        let names = experiment.names();
        let mut rng = SplitMix64::new(SplitMix64::mix(experiment.seed));
        Campaign {
            alive: vec![true; names.len()],
            mesh: None,
            waiting: experiment.runs.iter().cloned().collect(),
            stage: Stage::Idle,
            running: None,
            root: rng.below(names.len() as u64) as usize,
            mesh_tries: 0,
            results: Results {
                experiment,
                names,
                stragglers: Vec::new(),
                runs: Vec::new(),
                dead: Vec::new(),
                jobs: 0,
                failures: Vec::new(),
            },
        }
    }

    /// The results of the runs that are done.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// The results, at the end of the campaign.
    pub fn into_results(self) -> Results {
        self.results
    }

    /// Delays between all pairs, once they are measured.
    pub fn mesh(&self) -> Option<&Hops> {
        self.mesh.as_ref()
    }

    /// Leaves a VM out that cannot be reached.
    pub fn mark_dead(&mut self, vm: usize) {
        if let Some(alive) = self.alive.get_mut(vm).filter(|alive| **alive) {
            *alive = false;
            self.results.dead.push(vm);
        }
    }

    fn pool(&self) -> Vec<usize> {
        (0..self.alive.len()).filter(|vm| self.alive[*vm]).collect()
    }

    /// Share of the runs done, 0 to 1.
    pub fn progress(&self) -> f64 {
        let all = self.results.experiment.runs.len().max(1);
        (all - self.waiting.len()).saturating_sub(1) as f64 / all as f64
    }

    /// The next job, the same until its end is told; `None` when the experiment is over.
    pub fn next_job(&mut self) -> Option<Job> {
        while self.running.is_none() {
            self.running = Some(match &mut self.stage {
                Stage::Idle => match self.begin()? {
                    Some(job) => job,
                    None => continue,
                },
                Stage::Building(builder) => match builder.ask() {
                    Ok(Some(question)) => {
                        let mut members = vec![question.parent];
                        members.extend(question.candidates);
                        Job { kind: JobKind::Parent, members, fanout: 0 }
                    }
                    Ok(None) => {
                        let tree = builder.tree();
                        self.built(tree);
                        continue;
                    }
                    Err(error) => {
                        self.give_up(error.to_string());
                        continue;
                    }
                },
                Stage::Evaluating(_) => {
                    let fanout = self.results.experiment.tree.fanout;
                    let tree = self.results.runs.last().and_then(|run| run.tree.as_ref());
                    let members = tree.map(|tree| tree.vms.clone()).unwrap_or_default();
                    Job { kind: JobKind::Mcast, members, fanout }
                }
            });
        }
        self.running.clone()
    }

    /// Starts the next run; `None` when there is none, `Some(None)` when it needs no job yet.
    fn begin(&mut self) -> Option<Option<Job>> {
        let run = self.waiting.front()?;
        if run.needs_mesh() && self.mesh.is_none() && self.mesh_tries < MESH_TRIES {
            self.mesh_tries += 1;
            return Some(Some(Job { kind: JobKind::Lemon, members: self.pool(), fanout: 0 }));
        }
        let run = self.waiting.pop_front()?;
        let before = self.results.runs.last().cloned();
        self.results.runs.push(RunResult {
            run: run.clone(),
            tree: None,
            stages: 0,
            evaluations: Vec::new(),
            notes: Vec::new(),
        });
        let begun = match (run.kind, run.pick()) {
            (Kind::Lemon, _) | (_, None) => match self.place(&run, before.as_ref()) {
                Ok(tree) => {
                    self.built(Some(tree));
                    Ok(())
                }
                Err(why) => Err(why),
            },
            (_, Some(pick)) => self.builder(&run, pick, before.as_ref()).map(|builder| {
                self.stage = Stage::Building(Box::new(builder));
            }),
        };
        if let Err(why) = begun {
            self.give_up(why);
        }
        Some(None)
    }

    fn builder(
        &self,
        run: &Run,
        pick: Pick,
        before: Option<&RunResult>,
    ) -> Result<Builder, String> {
        let experiment = &self.results.experiment;
        let options = BuildOptions {
            shape: experiment.tree,
            candidates: run.candidates,
            pick,
            strategy: run.strategy.clone(),
            seed: experiment.seed,
        };
        let built = if run.kind == Kind::Reselect {
            let before = before.ok_or(NO_TREE)?;
            let tree = before.tree.as_ref().ok_or(NO_TREE)?;
            Builder::reselect(options, tree, weak_side(before, tree), &self.pool())
        } else {
            self.choose_root(run).and_then(|root| Builder::new(options, &self.pool(), root))
        };
        built.map_err(|error| error.to_string())
    }

    fn choose_root(&self, run: &Run) -> Result<usize, PlanError> {
        let pool = self.pool();
        match run.root.as_str() {
            // The first living one from a random place on.
            "random" => {
                let next = pool.iter().find(|vm| **vm >= self.root).or(pool.first());
                next.copied().ok_or(PlanError::PoolTooSmall)
            }
            "egress" => {
                let hops = self.mesh.as_ref().ok_or(PlanError::Unknown)?.only(&pool);
                let best =
                    (0..pool.len()).min_by(|a, b| hops.egress(*a).total_cmp(&hops.egress(*b)));
                best.map(|at| pool[at]).ok_or(PlanError::PoolTooSmall)
            }
            name => {
                let vm = self.results.names.iter().position(|known| known == name);
                vm.filter(|vm| pool.contains(vm)).ok_or(PlanError::Unknown)
            }
        }
    }

    /// A tree placed, or revised, from the mesh.
    fn place(&self, run: &Run, before: Option<&RunResult>) -> Result<Tree, String> {
        let pool = self.pool();
        let shape = self.results.experiment.tree;
        let mesh = self.mesh.as_ref().ok_or("there is no mesh")?;
        if run.kind == Kind::Revise {
            let tree = before.and_then(|before| before.tree.as_ref()).ok_or(NO_TREE)?;
            let objective = WorstLeaf::new(shape, mesh);
            return Ok(improve(&objective, tree, &pool, run.candidates, 0.0, true).0);
        }
        if pool.len() < shape.positions() {
            return Err(PlanError::PoolTooSmall.to_string());
        }
        let vms = place(run.goal, shape, &mesh.only(&pool), self.results.experiment.seed);
        let vms = vms.into_iter().filter_map(|at| pool.get(at).copied()).collect();
        Tree::new(shape, vms).ok_or_else(|| "the placement is no tree".to_string())
    }

    fn built(&mut self, tree: Option<Tree>) {
        let Some(run) = self.results.runs.last_mut() else { return };
        self.stage = match &tree {
            Some(_) if run.run.repeats > 0 => Stage::Evaluating(0),
            _ => Stage::Idle,
        };
        run.tree = tree;
    }

    fn give_up(&mut self, why: String) {
        self.stage = Stage::Idle;
        if let Some(run) = self.results.runs.last_mut() {
            run.notes.push(why);
        }
    }

    /// How the job asked for ended.
    pub fn job_ended(&mut self, end: JobEnd) {
        let Some(job) = self.running.take() else { return };
        self.results.jobs += 1;
        match end {
            JobEnd::Done(report) => {
                for place in &report.silent {
                    if let Some(vm) = job.members.get(*place) {
                        let name = self.results.names[*vm].clone();
                        self.results.failures.push(format!("{:?}: {name} is silent", job.kind));
                        self.mark_dead(*vm);
                    }
                }
                self.done(&job, report);
            }
            JobEnd::Failed(why) => self.failed(&job, why),
        }
    }

    fn done(&mut self, job: &Job, report: JobReport) {
        match (&mut self.stage, job.kind) {
            (Stage::Building(builder), _) => {
                let heard = |(vm, heard): (&usize, &Vec<Heard>)| {
                    (*vm, heard.first().map(|heard| heard.summary))
                };
                let seen: Vec<_> =
                    job.members.iter().zip(&report.heard).skip(1).map(heard).collect();
                builder.answer(&seen);
                if let Some(run) = self.results.runs.last_mut() {
                    run.stages += 1;
                }
            }
            (Stage::Evaluating(done), _) => {
                *done += 1;
                let Some(run) = self.results.runs.last_mut() else { return };
                let internal = run.tree.as_ref().map_or(0, |tree| tree.shape.internal());
                let leaves = job.members.iter().zip(report.heard).skip(internal);
                run.evaluations.push(Evaluation {
                    leaves: leaves
                        .filter_map(|(vm, heard)| Some((*vm, heard.into_iter().next()?)))
                        .collect(),
                    silent: report
                        .silent
                        .iter()
                        .filter_map(|at| job.members.get(*at).copied())
                        .collect(),
                    messages: report.messages.unwrap_or_default(),
                });
                if *done >= run.run.repeats {
                    self.stage = Stage::Idle;
                }
            }
            (Stage::Idle, _) => self.mesh = Some(mesh(self.alive.len(), job, &report)),
        }
    }

    fn failed(&mut self, job: &Job, why: String) {
        let leader = job.members.first().copied().unwrap_or_default();
        let name = self.results.names.get(leader).cloned().unwrap_or_default();
        self.results.failures.push(format!("{:?} led by {name}: {why}", job.kind));
        self.mark_dead(leader);
        match &mut self.stage {
            Stage::Building(builder) => {
                // A dead root is the run's end when it was given by name, so all are treated alike.
                if let Err(error) = builder.parent_failed() {
                    self.give_up(error.to_string());
                }
            }
            Stage::Evaluating(_) => self.give_up(format!("not evaluated: {why}")),
            Stage::Idle => {}
        }
    }
}

/// Places a tree by an objective: FAQ and 2-opt on the sum of medians, then, for the other two,
/// annealing from there. Gives the VM of each position.
pub fn place(goal: Goal, shape: crate::tree::Shape, hops: &Hops, seed: u64) -> Vec<usize> {
    let qap = Qap::tree(shape, hops.median.clone());
    let options =
        FaqOptions { iterations: 100, tolerance: 1e-3, starts: 5, seed, ..FaqOptions::default() };
    let mut placement = qap.solve(&options);
    two_opt(&qap, &mut placement);
    let options = AnnealOptions { seed, ..AnnealOptions::default() };
    match goal {
        Goal::TotalTime => placement.vms,
        Goal::WorstLeaf => {
            anneal(&WorstLeaf::new(shape, hops), &placement.vms, hops.n(), &options).0
        }
        Goal::ExpectedMax => {
            anneal(&ExpectedMax::new(shape, hops), &placement.vms, hops.n(), &options).0
        }
    }
}

/// Mean and standard deviation of a hop without its rare spikes: a pair gets a few dozen probes of
/// a mesh, and one spike among them would make it look worse than a straggler.
fn usual(summary: &Summary) -> (f64, f64) {
    let mean = (summary.p25_ns + 2.0 * summary.p50_ns + summary.p75_ns) / 4.0;
    (mean, ((summary.p90_ns - summary.p50_ns) / Z90).max(0.0))
}

/// The matrices of a LEMON job. A pair that nothing is known of counts as a hundred times the
/// slowest known one, so that it is used only when there is no other.
fn mesh(vms: usize, job: &Job, report: &JobReport) -> Hops {
    let unknown = f64::NAN;
    let mut hops = Hops {
        median: Square::filled(vms, unknown),
        mean: Square::filled(vms, unknown),
        variance: Square::filled(vms, unknown),
    };
    for (to, heard) in job.members.iter().zip(&report.heard) {
        for heard in heard.iter().filter(|heard| heard.summary.received > 0) {
            let Some(from) = job.members.get(heard.from) else { continue };
            hops.median.set(*from, *to, heard.summary.p50_ns);
            let (mean, spread) = usual(&heard.summary);
            hops.mean.set(*from, *to, mean);
            hops.variance.set(*from, *to, spread * spread);
        }
    }
    for matrix in [&mut hops.median, &mut hops.mean, &mut hops.variance] {
        let known = (0..vms).flat_map(|row| matrix.row(row).iter());
        let most = known.copied().filter(|entry| entry.is_finite()).fold(1.0, f64::max);
        for row in 0..vms {
            for (column, entry) in matrix.row_mut(row).iter_mut().enumerate() {
                if row == column {
                    *entry = 0.0;
                } else if !entry.is_finite() {
                    *entry = 100.0 * most;
                }
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::{Cloud, CloudModel};
    use crate::schema::Probes;

    #[test]
    fn a_spike_among_few_probes_makes_no_straggler() {
        let mut calm: Vec<i64> = (0..40).map(|n| 50_000 + 500 * n).collect();
        let before = usual(&Summary::of(&mut calm, 40));
        calm[39] = 3_000_000;
        let spiked = Summary::of(&mut calm, 40);
        assert!(spiked.stddev_ns > 400e3 && spiked.mean_ns > 120e3);
        let after = usual(&spiked);
        assert!((before.0 - after.0).abs() < 1e3 && (before.1 - after.1).abs() < 1e3, "{after:?}");
        assert!((55e3..65e3).contains(&after.0) && (4e3..12e3).contains(&after.1), "{after:?}");
    }

    /// Carries a job out in a synthetic cloud, the members of `dead` being silent.
    fn carry_out(cloud: &Cloud, job: &Job, dead: &[usize], rng: &mut SplitMix64) -> JobEnd {
        let silent = |vm: &usize| dead.contains(vm);
        if silent(&job.members[0]) {
            return JobEnd::Failed("no answer".to_string());
        }
        let mut report = JobReport::default();
        for (place, vm) in job.members.iter().enumerate() {
            if silent(vm) {
                report.silent.push(place);
                report.heard.push(Vec::new());
                continue;
            }
            let mut from = |sender: usize| Heard {
                from: sender,
                summary: cloud.probe(job.members[sender], *vm, 200, rng),
                ..Heard::default()
            };
            report.heard.push(match job.kind {
                JobKind::Lemon => (0..job.members.len())
                    .filter(|other| *other != place && !silent(&job.members[*other]))
                    .map(from)
                    .collect(),
                _ if place == 0 => Vec::new(),
                _ => vec![from(0)],
            });
        }
        if job.kind == JobKind::Mcast {
            report.messages = Some(Messages::default());
        }
        JobEnd::Done(report)
    }

    fn run(experiment: Experiment, dead: &[usize]) -> Results {
        let cloud = Cloud::new(CloudModel::straggler_test(), experiment.local.vms, 5);
        let mut campaign = Campaign::new(experiment);
        let mut rng = SplitMix64::new(2);
        while let Some(job) = campaign.next_job() {
            assert_eq!(campaign.next_job().as_ref(), Some(&job));
            campaign.job_ended(carry_out(&cloud, &job, dead, &mut rng));
            assert!(campaign.results().jobs < 1_000);
        }
        campaign.into_results()
    }

    #[test]
    fn the_usual_experiment_builds_and_evaluates_all_trees() {
        let experiment = Experiment { probes: Probes::default(), ..Experiment::default() };
        let results = run(experiment, &[]);
        assert_eq!(results.runs.len(), 11);
        // One mesh, seven parents for each of five probing runs, three for a subtree, and
        // an evaluation for each run.
        assert_eq!(results.jobs, 1 + 5 * 7 + 3 + 11);
        let tree = |name: &str| {
            let run = results.runs.iter().find(|run| run.run.name == name).unwrap();
            run.tree.clone().unwrap()
        };
        let (rand, replaced) = (tree("RAND"), tree("RAND-2-REPLACED"));
        assert_eq!(rand.changes(&replaced).len(), 2);
        let subtree = replaced.changes(&tree("RAND-2-REPLACED-1-SUBTREE"));
        let sides = [1, 2].map(|side| rand.shape.subtree(side));
        let within = |side: &Vec<usize>| subtree.iter().all(|change| side.contains(&change.0));
        assert!(!subtree.is_empty() && sides.iter().any(within), "{subtree:?}");
        for run in &results.runs {
            assert_eq!((run.evaluations.len(), run.notes.len()), (1, 0), "{}", run.run.name);
            assert_eq!(run.evaluations[0].leaves.len(), 8);
        }
        let roots: Vec<usize> =
            results.runs[..3].iter().filter_map(|run| Some(run.tree.as_ref()?.root())).collect();
        assert!(roots.windows(2).all(|pair| pair[0] == pair[1]), "{roots:?}");
        let stragglers = Cloud::new(CloudModel::straggler_test(), 25, 5).stragglers();
        for name in ["BEST-P50-K8-EGRESS", "LEMON", "LEMON-WORST-LEAF", "LEMON-EXPECTED-MAX"] {
            let run = results.runs.iter().find(|run| run.run.name == name).unwrap();
            let tree = run.tree.as_ref().unwrap();
            assert!(stragglers.iter().all(|vm| !tree.vms.contains(vm)), "{name}");
        }
    }

    #[test]
    fn the_dead_are_noted_once_and_left_out() {
        let results = run(Experiment::default(), &[0, 3, 11]);
        let mut dead = results.dead.clone();
        dead.sort_unstable();
        assert_eq!(dead, [0, 3, 11]);
        assert!(!results.failures.is_empty());
        for run in &results.runs {
            let tree = run.tree.as_ref().unwrap();
            assert!(run.notes.is_empty() != run.evaluations.is_empty(), "{run:?}");
            if run.run.kind == Kind::Lemon {
                assert!([0, 3, 11].iter().all(|vm| !tree.vms.contains(vm)));
            }
        }
    }

    #[test]
    fn too_many_dead_end_every_run_with_a_note() {
        let dead: Vec<usize> = (0..20).collect();
        let results = run(Experiment::default(), &dead);
        assert!(results.runs.iter().all(|run| !run.notes.is_empty()));
        assert_eq!(results.runs.len(), 11);
    }
}
