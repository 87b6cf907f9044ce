//! Plans of the tree: measured, made, applied, and compared with what came of them.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use exchange::TreeShape;
use overlay::topology::Tree;
use types::NodeId;

use super::{ANSWER, COMMIT, LOOK_EVERY, SILENT, Server, lock};
use crate::clock_agent::UNKNOWN_NS;
use crate::fleet::file::{NodeRole, Port};
use crate::fleet::messages::FromRoot;
use crate::fleet::observer::SPAN_NS;
use crate::fleet::plan::forest::{Candidate, Forest, Pool, Wanted, seated};
use crate::fleet::plan::measuring::Measuring;
use crate::fleet::plan::{
    AppliedLine, Measured, PAIRS_MAX, PairLine, PlanReport, PlanRequest, ProbeOrder, Probed,
    is_never,
};

/// Longest wait for machines beyond the length of a job.
const PATIENCE: Duration = Duration::from_secs(4);
/// Datagrams of the observer's span below which nothing was measured.
const MEASURED_MIN: u64 = 30;
/// After a change of the tree until the observer's span is of the new one alone.
const AFTER: Duration = Duration::from_nanos(SPAN_NS + 2_000_000_000);
/// Longest wait until another root's machine was told of a plan.
const TOLD_MAX: Duration = Duration::from_secs(3);
/// Length of a line of machines' names in an answer.
const NAMES_MAX: usize = 8;

/// Machines that should take part and do not, with the reason.
type Absent = Vec<(String, String)>;

/// What the replica that leads plans.
#[derive(Default)]
pub(super) struct Planning {
    /// One plan at a time.
    busy: AtomicBool,
    /// The job under way, and how many there were.
    job: Mutex<(u64, Option<Measuring>)>,
    last: Mutex<Option<Last>>,
    /// When plans were made, ns of the observer's clock: probes and the search take processors' time, so what
    /// datagrams took then is not the tree's alone.
    planned: Mutex<VecDeque<Range<u64>>>,
}

/// A machine whose clock is ahead of this one's by more may not say what the last plan was, ns.
const AHEAD_NS: u64 = 60_000_000_000;
/// Longest text of a plan that machines remember with its delays; of a longer one they do so without.
const REMEMBERED_MAX: usize = 1 << 19;

/// What tells one state of a plan's report from another: when it was made, and whether what was measured
/// after it is known.
pub(super) type Known = (u64, bool);

fn known(report: &PlanReport) -> Known {
    let applied = report.applied.as_ref();
    (report.at_ns, applied.is_some_and(|applied| applied.after.is_some()))
}

/// The last plan.
struct Last {
    report: PlanReport,
    /// When its tree was asked for.
    applied_at: Option<Instant>,
    /// Roots' machines that were told of it.
    told: BTreeSet<u16>,
}

impl Last {
    fn of(report: PlanReport) -> Last {
        // What is measured with its tree is known once the observer of this replica has seen enough.
        let applied_at = report.applied.is_some().then(Instant::now);
        Last { report, applied_at, told: BTreeSet::new() }
    }
}

impl Planning {
    /// What a machine is to measure, if it was not told yet; `known`: the last job that it was told of.
    pub(super) fn order(&self, machine: u16, known: &mut u64) -> Option<ProbeOrder> {
        let job = lock(&self.job);
        if *known == job.0 {
            return None;
        }
        *known = job.0;
        job.1.as_ref()?.order(machine).cloned()
    }

    /// The last plan, if it is other than what a root's machine was told to remember: see
    /// [`FromRoot::Planned`].
    pub(super) fn to_remember(&self, machine: u16, told: &mut Known) -> Option<FromRoot> {
        let mut last = lock(&self.last);
        let last = last.as_mut().filter(|last| known(&last.report) != *told)?;
        last.told.insert(machine);
        let report = &last.report;
        *told = known(report);
        let plan = serde_json::to_string(report).ok()?;
        if plan.len() <= REMEMBERED_MAX {
            return Some(FromRoot::Planned { plan });
        }
        let short = PlanReport { pairs: Vec::new(), ..report.clone() };
        let plan = serde_json::to_string(&short).ok()?;
        (plan.len() <= REMEMBERED_MAX).then_some(FromRoot::Planned { plan })
    }

    /// Takes what a root's machine remembers of a plan that another replica made, when that is later than
    /// what is known here. False: it is not.
    pub(super) fn remind(&self, plan: &str, now_ns: u64) -> bool {
        // Of a version that told of plans otherwise, or of one without a figure: no plan.
        let Ok(report) = serde_json::from_str::<PlanReport>(plan) else { return false };
        let mut last = lock(&self.last);
        let newer = last.as_ref().is_none_or(|last| known(&report) > known(&last.report));
        if !newer || report.at_ns > now_ns.saturating_add(AHEAD_NS) {
            return false;
        }
        *last = Some(Last::of(report));
        true
    }

    /// Takes what a machine heard.
    pub(super) fn hear(&self, machine: u16, probed: Probed) {
        if let Some(job) = &mut lock(&self.job).1 {
            job.take(machine, probed);
        }
    }
}

/// Ends a plan, however it ended.
struct Busy<'a> {
    of: &'a Server,
    /// When it began, ns of the observer's clock.
    since: u64,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let planning = &self.of.planning;
        lock(&planning.job).1 = None;
        let until = lock(&self.of.observer).of.now();
        let mut planned = lock(&planning.planned);
        planned.retain(|of| of.end.saturating_add(2 * SPAN_NS) > self.since);
        planned.push_back(self.since..until);
        drop(planned);
        planning.busy.store(false, Ordering::Release);
    }
}

impl Server {
    /// The answer that a plan is.
    pub(super) fn told(plan: &PlanReport) -> FromRoot {
        let data = serde_json::to_value(plan).unwrap_or_default();
        FromRoot::Answer { text: summary(plan), data }
    }

    /// Measures, makes trees, and has the best one, or the one that is named, where that is wanted.
    pub(super) fn plan(&self, request: &PlanRequest) -> Result<PlanReport, (String, bool)> {
        if self.planning.busy.swap(true, Ordering::AcqRel) {
            return Err(("another plan is being made: again in a moment".to_string(), false));
        }
        let _busy = Busy { of: self, since: lock(&self.observer).of.now() };
        let begun = Instant::now();
        let subtree = match &request.subtree[..] {
            "" => None,
            name => Some(self.proxy(name)?),
        };
        let tree = self.tree()?;
        let (pool, absent) = self.pool(&tree)?;
        // Before the probes: what they cost nodes is not the tree's.
        let measured = self.measured();
        let delays = self.measure(&pool, request)?;
        let edge_bound = pool.edges.iter().map(|(_, machine)| delays.bound_ns(*machine)).max();
        let wanted = Wanted {
            tree: &tree,
            pool: &pool,
            delays: &delays,
            settings: &self.venue.file.plan,
            seed: request.seed,
            subtree,
            measured,
            uncertainty_ns: delays.bound_ns(pool.root).saturating_add(edge_bound.unwrap_or(0)),
        };
        let forest = wanted.grow().map_err(|why| (why, false))?;
        let mut report = self.report(&wanted, &forest, absent);
        if request.apply || !request.strategy.is_empty() {
            self.apply(request, &tree, &forest, measured, &mut report)?;
        }
        report.took_ms = begun.elapsed().as_millis() as u64;
        *lock(&self.planning.last) = Some(Last::of(report.clone()));
        self.wait_until_told(pool.root);
        Ok(report)
    }

    /// Waits until another root's machine than the leader's, if there is one, was told of the last plan: whoever
    /// leads next knows what an operator was answered. At most [`TOLD_MAX`].
    fn wait_until_told(&self, leader: u16) {
        let others: Vec<u16> = {
            let heard = lock(&self.heard);
            let roots = self.venue.file.of(NodeRole::Root).map(|(machine, _)| machine);
            let tell = |machine: &u16| {
                let one = heard.get(machine).filter(|one| one.at.elapsed() < SILENT);
                *machine != leader && one.is_some_and(|one| one.health.plans)
            };
            roots.filter(tell).collect()
        };
        let until = Instant::now() + TOLD_MAX;
        let is_told = || {
            let last = lock(&self.planning.last);
            last.as_ref()
                .is_none_or(|last| others.iter().any(|machine| last.told.contains(machine)))
        };
        while !others.is_empty() && !is_told() && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The last plan, this replica's or one that a root's machine remembers, with what came of it.
    pub(super) fn last_plan(&self) -> Result<PlanReport, (String, bool)> {
        self.follow_plan();
        let last = lock(&self.planning.last);
        let report = last.as_ref().map(|last| last.report.clone());
        report
            .ok_or_else(|| ("no plan was made, or all roots were started since".to_string(), false))
    }

    /// The last plan in a line, for the status of all.
    pub(super) fn planned_line(&self) -> Option<String> {
        self.follow_plan();
        lock(&self.planning.last).as_ref().map(|last| format!("plan: {}", summary(&last.report)))
    }

    /// What the observer has measured in its last span while no plan was made; `None` where that is too little.
    fn measured(&self) -> Option<Measured> {
        let planned: Vec<Range<u64>> = lock(&self.planning.planned).iter().cloned().collect();
        let measured = lock(&self.observer).of.ways(&planned);
        (measured.messages >= MEASURED_MIN).then_some(measured)
    }

    /// Notes what is measured with a tree that was applied, once that is of it alone.
    fn follow_plan(&self) {
        let waits = |last: &Last| {
            let told = last.report.applied.as_ref().is_none_or(|applied| applied.after.is_some());
            !told && last.applied_at.is_some_and(|at| at.elapsed() > AFTER)
        };
        if !lock(&self.planning.last).as_ref().is_some_and(waits) {
            return;
        }
        let measured = self.measured();
        let changes = self.standing().nodes.tree().changes;
        if let Some(Last { report, applied_at: Some(at), .. }) = &mut *lock(&self.planning.last)
            && let Some(applied) = &mut report.applied
            && applied.after.is_none()
            && at.elapsed() > AFTER
            && changes + 1 == applied.epoch
            && measured.is_some()
        {
            applied.after = measured;
            self.alarms.note("plan", summary(report));
        }
    }

    /// Makes and applies plans as often as the file says, while this replica leads, until `stop`.
    pub fn keep_planned(&self, stop: &AtomicBool) {
        let every = self.venue.file.plan.every();
        let (mut since, mut term, mut seed) = (Instant::now(), 0, 0u64);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            let standing = self.standing();
            if standing.term != term {
                (term, since) = (standing.term, Instant::now());
            }
            if term == 0 {
                continue;
            }
            self.follow_plan();
            if every.is_none_or(|every| since.elapsed() < every) {
                continue;
            }
            since = Instant::now();
            seed += 1;
            let request = PlanRequest { apply: true, seed, ..PlanRequest::default() };
            match self.plan(&request) {
                Ok(report) => self.alarms.note("plan", summary(&report)),
                Err((why, _)) => self.alarms.note("plan", format!("none was made: {why}")),
            }
        }
    }

    /// The present tree.
    fn tree(&self) -> Result<Tree, (String, bool)> {
        let (to, from) = sync_channel(1);
        let asked = self.root.call(move |root, _, _| {
            let known = root.membership().map(|known| (*known.tree(), known.is_changing()));
            let _ = to.try_send((known, root.engine().nodes().tree().changes));
        });
        let told = asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok());
        let (known, changes) = told.ok_or(("the root does not answer".to_string(), true))?;
        let (tree, changing) =
            known.ok_or(("there is no roll call (overlay.roll_call_ms)".to_string(), false))?;
        match changing || tree.epoch != changes + 1 {
            true => Err(("the tree is changing already: again in a moment".to_string(), false)),
            false => Ok(tree),
        }
    }

    /// Who takes part, and who should and does not, with the reason.
    fn pool(&self, tree: &Tree) -> Result<(Pool, Absent), (String, bool)> {
        let standing = self.standing();
        let place = usize::from(standing.leader).checked_sub(1);
        let root = place.and_then(|place| self.venue.file.replicated().nth(place));
        let (root, _) = root.ok_or(("nobody leads at present".to_string(), true))?;
        let heard = lock(&self.heard);
        let why = |machine: u16| {
            let health = heard.get(&machine).filter(|one| one.at.elapsed() < SILENT);
            Some(match health.map(|one| &one.health) {
                None => "it is away",
                Some(health) if !health.probes => "its version has no probing agent",
                Some(health) if health.clock_bound_ns >= UNKNOWN_NS => "its clock has no bound",
                Some(health) if health.quarantined => "its clock is in quarantine",
                Some(_) if standing.nodes.get(machine.into()).drained => "it is drained",
                Some(_) => return None,
            })
        };
        if let Some(why) = why(root) {
            return Err((format!("{}: {why}", self.named(root)), true));
        }
        let placed = seated(&tree.topology);
        let (mut proxies, mut answer, mut edges) = (Vec::new(), Vec::new(), Vec::new());
        let mut absent = Vec::new();
        for (node, machine, port) in &self.venue.overlay {
            let trouble = why(*machine);
            absent.extend(trouble.map(|why| (self.named(*machine), why.to_string())));
            match (port, trouble) {
                (Port::Edge, None) => edges.push((*node, *machine)),
                (Port::Proxy, None) => {
                    proxies.push((*node, *machine));
                    answer.push(*node);
                }
                (Port::Proxy, Some(_)) if placed.contains(node) => proxies.push((*node, *machine)),
                _ => {}
            }
        }
        Ok((Pool { root, proxies, answer, edges }, absent))
    }

    fn named(&self, machine: u16) -> String {
        self.venue.file.numbered(machine).map_or_else(String::new, |node| node.name.clone())
    }

    /// Has the pool measured.
    fn measure(&self, pool: &Pool, request: &PlanRequest) -> Result<Measuring, (String, bool)> {
        let settings = &self.venue.file.plan;
        let secret = probe::entropy().ok_or(("no randomness".to_string(), false))?;
        let alive = pool.proxies.iter().filter(|(node, _)| pool.answer.contains(node));
        let proxies: Vec<u16> = alive.map(|(_, machine)| *machine).collect();
        let distinct = |all: Vec<u16>| {
            let set: BTreeSet<u16> = all.into_iter().collect();
            set.into_iter().collect::<Vec<u16>>()
        };
        let from = distinct([&[pool.root][..], &proxies].concat());
        let edges: Vec<u16> = pool.edges.iter().map(|(_, machine)| *machine).collect();
        let to = distinct([proxies, edges].concat());
        let probes = match request.probes {
            0 => settings.probes,
            asked => asked.clamp(20, crate::fleet::plan::PROBES_MAX),
        };
        let gap_us = 1_000_000 / u64::from(settings.probes_per_s);
        let job = Measuring::new(&from, &to, probes, gap_us.max(1), &secret);
        let until = Instant::now() + Duration::from_millis(job.length_ms()) + PATIENCE;
        {
            let mut held = lock(&self.planning.job);
            held.0 += 1;
            held.1 = Some(job);
        }
        loop {
            std::thread::sleep(LOOK_EVERY);
            if self.standing().term == 0 {
                return Err(("this root leads no more: again".to_string(), true));
            }
            let mut held = lock(&self.planning.job);
            let over = held.1.as_ref().is_none_or(Measuring::is_over);
            if over || Instant::now() > until {
                let job = held.1.take().ok_or(("the job was given up".to_string(), true))?;
                drop(held);
                let silent: Vec<String> = job.silent().iter().map(|of| self.named(*of)).collect();
                if !silent.is_empty() {
                    let why = format!("{} told nothing of its probes", silent.join(", "));
                    return Err((why, false));
                }
                return Ok(job);
            }
        }
    }

    fn report(&self, wanted: &Wanted<'_>, forest: &Forest, absent: Absent) -> PlanReport {
        let Wanted { pool, delays, .. } = wanted;
        let named = |nodes: &[(NodeId, u16)]| -> Vec<String> {
            nodes.iter().map(|(_, machine)| self.named(*machine)).collect()
        };
        // A machine may have several roles.
        let proxies = || pool.proxies.iter().map(|of| of.1);
        let senders: BTreeSet<u16> = std::iter::once(pool.root).chain(proxies()).collect();
        let hearers: BTreeSet<u16> = proxies().chain(pool.edges.iter().map(|of| of.1)).collect();
        let mut pairs = Vec::new();
        for from in senders {
            for to in hearers.iter().filter(|to| **to != from) {
                let series = delays.delays(from, *to);
                let mut arrived: Vec<i64> = series.iter().flatten().copied().collect();
                arrived.sort_unstable();
                let at = |part| planner::stats::percentile(&arrived, part);
                pairs.push(PairLine {
                    from: self.named(from),
                    to: self.named(*to),
                    p50_ns: at(0.5),
                    p90_ns: at(0.9),
                    p99_ns: at(0.99),
                    loss: 1.0 - arrived.len() as f64 / series.len().max(1) as f64,
                    uncertainty_ns: delays.bound_ns(from).saturating_add(delays.bound_ns(*to)),
                });
            }
        }
        if pairs.len() > PAIRS_MAX {
            pairs.clear();
        }
        let tree = |candidate: &Candidate| {
            let mut new = 0;
            let machine = |node: &Option<NodeId>| match node {
                Some(node) => self.machine(*node).to_string(),
                None => {
                    new += 1;
                    format!("new-{new}")
                }
            };
            let proxies = candidate.nodes.iter().map(machine).collect();
            crate::fleet::plan::TreeLine { proxies, ..candidate.line.clone() }
        };
        PlanReport {
            at_ns: crate::alarms::now_ns(),
            epoch: wanted.tree.epoch,
            seed: wanted.seed,
            probes: delays.sent(),
            root: self.named(pool.root),
            pool: named(&pool.proxies),
            edges: named(&pool.edges),
            absent,
            pairs,
            trees: forest.trees.iter().map(tree).collect(),
            node_ns: forest.node_ns,
            verdict: forest.verdict.clone(),
            ..PlanReport::default()
        }
    }

    /// Has a tree of a plan, or says why the present one stays.
    fn apply(
        &self,
        request: &PlanRequest,
        present: &Tree,
        forest: &Forest,
        before: Option<Measured>,
        report: &mut PlanReport,
    ) -> Result<(), (String, bool)> {
        let named = !request.strategy.is_empty();
        let name = if named { &request.strategy } else { &forest.verdict.strategy };
        let Some(tree) = forest.trees.iter().find(|tree| tree.line.strategy == *name) else {
            let all: Vec<&str> = forest.trees.iter().map(|tree| &tree.line.strategy[..]).collect();
            return Err((format!("no strategy {name}: {}", all.join(", ")), false));
        };
        if !tree.line.obstacle.is_empty() {
            return Err((format!("{name}: {}", tree.line.obstacle), false));
        }
        let nodes: Vec<NodeId> = tree.nodes.iter().flatten().copied().collect();
        if tree.shape.is_none() && nodes == seated(&present.topology) {
            report.kept = format!("{name} is the present tree");
            return Ok(());
        }
        if !named && !forest.verdict.counts {
            report.kept = "the gain is within noise, or too small".to_string();
            return Ok(());
        }
        let (to, from) = sync_channel(1);
        let shape = tree.shape;
        let asked = self.root.call(move |root, now, out| {
            let before = root.engine().nodes().tree().changes;
            let steps = match shape {
                None => root.arrange_proxies(now, &nodes, out),
                Some((depth, fanout)) => {
                    root.arrange_tree(now, TreeShape { depth, fanout }, &nodes, out)
                }
            };
            let _ = to.try_send(steps.map(|steps| (steps, before)));
        });
        let told = asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok());
        let told = told.ok_or(("the root does not answer".to_string(), true))?;
        let (steps, changes) = told.map_err(|why| (format!("{name}: {why}"), false))?;
        let until = Instant::now() + COMMIT;
        // The steps are in the log at once, and count when they are committed.
        let goal = changes + steps as u32;
        while self.standing().nodes.tree().changes < goal && Instant::now() < until {
            self.look();
            std::thread::sleep(Duration::from_millis(2));
        }
        let changes = self.standing().nodes.tree().changes;
        if changes < goal {
            return Err(("not committed in time: look at the status".to_string(), true));
        }
        report.applied = Some(AppliedLine {
            strategy: name.clone(),
            epoch: changes + 1,
            steps,
            predicted: tree.line.predicted,
            before,
            after: None,
        });
        Ok(())
    }
}

/// A plan in a line.
fn summary(plan: &PlanReport) -> String {
    let us = |ns: f64| match is_never(ns) {
        true => "-".to_string(),
        false => format!("{:.0}", ns / 1e3),
    };
    let verdict = &plan.verdict;
    let gain = format!(
        "best of {} trees is {}, which gains {} us to the last arrival ({:.1} %, p = {:.3})",
        plan.trees.len(),
        verdict.strategy,
        us(verdict.gain_ns),
        100.0 * verdict.share,
        verdict.p
    );
    let Some(applied) = &plan.applied else {
        return match &plan.kept[..] {
            "" => gain,
            why => format!("{gain}; the tree stays: {why}"),
        };
    };
    let measured = |of: &Option<Measured>| of.map_or("-".to_string(), |of| us(of.p50_ns as f64));
    let predicted = &applied.predicted;
    let stands = plan.trees.iter().find(|tree| tree.strategy == applied.strategy);
    let mut names = stands.map(|tree| tree.proxies.clone()).unwrap_or_default();
    let more = names.len() > NAMES_MAX;
    names.truncate(NAMES_MAX);
    format!(
        "{gain}; {} is epoch {}: {}{}; us to the last arrival (p50): before {}, predicted {} ({} \
         to {}), measured {}",
        applied.strategy,
        applied.epoch,
        names.join(", "),
        if more { ", ..." } else { "" },
        measured(&applied.before),
        us(predicted.p50_ns),
        us(predicted.low_ns),
        us(predicted.high_ns),
        measured(&applied.after)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(at_ns: u64, after: bool) -> PlanReport {
        let after = after.then(Measured::default);
        let applied = Some(AppliedLine { after, ..AppliedLine::default() });
        PlanReport { at_ns, applied, ..PlanReport::default() }
    }

    #[test]
    fn a_time_beyond_what_arrived_is_no_number() {
        let mut plan = made(1, true);
        assert!(summary(&plan).contains("predicted 0 (0 to 0)"), "{}", summary(&plan));
        let applied = plan.applied.as_mut().expect("applied");
        applied.predicted.high_ns = planner::routes::LOST as f64 + 5e3;
        plan.verdict.gain_ns = -(planner::routes::LOST as f64);
        let line = summary(&plan);
        assert!(line.contains("predicted 0 (0 to -)") && line.contains("gains - us"), "{line}");
    }

    #[test]
    fn the_later_plan_is_remembered_and_told_once() {
        let (of, mut told) = (Planning::default(), Known::default());
        let remind = |plan: PlanReport| of.remind(&serde_json::to_string(&plan).expect("JSON"), 60);
        let told_of = |told: &mut Known| match of.to_remember(1, told)? {
            FromRoot::Planned { plan } => serde_json::from_str::<PlanReport>(&plan).ok(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told_of(&mut told), None);
        assert!(remind(made(50, false)));
        assert_eq!(told_of(&mut told), Some(made(50, false)));
        assert_eq!(told_of(&mut told), None, "once");
        assert!(!remind(made(50, false)), "known");
        assert!(!remind(made(40, true)), "older");
        assert!(!remind(made(61 + AHEAD_NS, false)), "of a time to come");
        assert!(!of.remind("{\"at_ns\": 70}", 60) && !of.remind("[", 60), "no plan");
        assert!(remind(made(50, true)), "what came of it");
        assert!(told_of(&mut told).is_some());
        // A plan with too many delays is remembered without.
        let pair = PairLine { from: "f".repeat(250), to: "t".repeat(250), ..PairLine::default() };
        assert!(remind(PlanReport { pairs: vec![pair; PAIRS_MAX], ..made(56, false) }));
        assert_eq!(told_of(&mut told), Some(made(56, false)));
    }
}
