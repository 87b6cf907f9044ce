//! `fairbell-lab cloud plan`: trees planned while participants trade, in one venue one after another: plans
//! while nobody is slow, of which none may change the tree; a subtree replaced at once; plans after some
//! proxies have become slow, which have to leave the tree; and another root that has to know the last plan.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use host::failure::{Failure, on};
use host::fleet::file::NodeRole;
use host::fleet::messages::Operation;
use host::fleet::plan::{AppliedLine, PlanReport, PlanRequest};
use host::sockets::io;
use overlay::topology::Topology;
use serde::Serialize;

use super::checks::Checks;
use super::participants::Participants;
use super::site::{Plan, Site};
use super::{ASYMMETRY_US, MAIN, SEGMENT_MIB, Shape, edges, start, told, venue, watched};

/// Longest trading: it ends when the plans have been.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Longest wait for proxies that stand by to answer roll calls, and between two looks.
const STANDBY_MAX: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(500);
/// Until the observer's ten seconds are of what is now.
const SETTLED: Duration = Duration::from_secs(13);
/// Messages of these ten seconds of which something can be said, and the longest wait for so many on busy
/// cores.
const ENOUGH: u64 = 200;
const MEASURED_MAX: Duration = Duration::from_secs(60);
/// Until all machines are connected to another root that leads, and it knows what they remember.
const REMINDED: Duration = Duration::from_secs(15);
/// How long a plan may take.
const PLAN_MAX: Duration = Duration::from_secs(120);
/// Predicted is so close to measured, as a share of it.
const CLOSE: f64 = 0.2;
/// What moving stragglers away has to gain, as a share of what the tree before took.
const GAIN: f64 = 0.15;

/// Options of `fairbell-lab cloud plan`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab cloud plan                              one proxy of nine hosts is slow: it has to leave the tree\n  \
    fairbell-lab cloud plan --stragglers 0 --times 20    nobody is: the tree has to stay\n  \
    fairbell-lab cloud plan --hosts 25 --depth 3 --stragglers 3 --standby 4 --rate 1000 --null 20 --subtree 4\n  \
    fairbell-lab cloud plan --roots 3                    then another root leads, and knows what was planned\n  \
    fairbell-lab cloud plan --stragglers 0 --strategy RULE-1x10   a tree of another shape while all trade\n\n\
    Exit code 1 when a request was lost, books differ, or a plan was not what it has to be. It needs what\n\
    `fairbell-lab cloud` needs.")]
pub struct PlanArgs {
    /// Hosts, the participants' among them
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(7..=64))]
    hosts: u32,
    /// Replicas of the root: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    roots: u32,
    /// Proxies that stand by
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=8))]
    standby: u32,
    /// Hops from the root to an edge
    #[arg(long, value_name = "D", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(2..=4))]
    depth: u32,
    /// Children of a proxy
    #[arg(long, value_name = "F", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    fanout: u32,
    /// Siblings whose children a proxy helps: with one, a straggler costs a hedge rather than time
    #[arg(long, value_name = "H", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=3))]
    hedge: u32,
    /// Proxies whose packets take longer
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(0..=8))]
    stragglers: u32,
    /// How much longer, each way, us
    #[arg(long, value_name = "US", default_value_t = 5_000,
          value_parser = clap::value_parser!(u64).range(0..=100_000))]
    slow_us: u64,
    /// Plans, one after another
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    times: u32,
    /// Plans before that, while nobody is slow: none of them may change the tree
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=100))]
    null: u32,
    /// Then so many proxies are replaced at once by as many that stand by: one and those below it, and
    /// those beside it where these are fewer
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=8))]
    subtree: u32,
    /// Have this tree in the last of these plans, whatever its gain: also one of another shape, like RULE-1x10
    #[arg(long, value_name = "NAME", default_value = "")]
    strategy: String,
    /// What the paths are like
    #[arg(long, value_name = "NAME", default_value = "table1")]
    profile: String,
    /// Requests per second, all participants together
    #[arg(long, value_name = "N", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(100..=100_000))]
    rate: u64,
    /// Fixes the draws of delays, offsets, requests and plans
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Folder of the machines' files; what was there is removed
    #[arg(long, value_name = "DIR", default_value = "out/cloud-plan")]
    out: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What the command prints.
#[derive(Serialize, Clone, Debug)]
struct Report {
    profile: String,
    hosts: usize,
    seed: u64,
    stragglers: Vec<String>,
    /// Plans while nobody was slow, and how many of them changed the tree.
    null_plans: usize,
    null_applied: usize,
    /// Who left and who came when a subtree was replaced.
    subtree: Replaced,
    plans: Vec<PlanReport>,
    /// Whether another root that came to lead knew the last plan; null: there is one root.
    remembered: Option<bool>,
    /// Plans that changed the tree.
    applied: usize,
    #[serde(flatten)]
    checks: Checks,
    complaints: Vec<String>,
}

/// A subtree that was replaced.
#[derive(Serialize, Clone, PartialEq, Eq, Debug, Default)]
struct Replaced {
    leave: Vec<String>,
    come: Vec<String>,
}

/// What was done while participants traded.
#[derive(Default)]
struct Done {
    null: Vec<PlanReport>,
    subtree: Replaced,
    stragglers: Vec<String>,
    plans: Vec<PlanReport>,
    remembered: Option<bool>,
}

/// Has trees planned.
///
/// # Errors
/// [`Failure::Unavailable`] where there can be no box; what was not as it has to be.
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
    if args.subtree > args.standby {
        let why = format!("--subtree {}: --standby {} are fewer", args.subtree, args.standby);
        return Err(Failure::Usage(why));
    }
    let network = start(args.hosts, super::profile(&args.profile)?, args.seed)?;
    let hosts = args.hosts.saturating_sub(args.standby);
    let shape = Shape {
        name: MAIN,
        depth: args.depth,
        hedge: args.hedge,
        edges: edges(hosts, args.roots, (args.depth, args.fanout))?,
        fanout: args.fanout,
        standby: args.standby,
        segment_mib: SEGMENT_MIB,
        asymmetry_us: ASYMMETRY_US,
    };
    if args.out.exists() {
        std::fs::remove_dir_all(&args.out).map_err(|error| on(&args.out, error))?;
    }
    let own = std::env::current_exe().map_err(io)?;
    let plan = Plan {
        // On busy cores a straggler may be silent for a second, and then no plan is needed to replace it; and
        // many messages go in one datagram, so that there are too few of one of 16.
        venue: venue(&shape, "huygens", true)
            .replace("replace_after_ms = 1000", "replace_after_ms = 0")
            .replace("[hold]\n", "[hold]\nobserve_every = 2\n"),
        shards: 1,
        roots: args.roots as usize,
        offset_us: 10_000,
        drift_ppb: 50_000,
        seed: args.seed,
        ipv6: false,
        web: false,
        disks: false,
        snapshots: true,
        idle: 0,
        scale: Default::default(),
        hosts: Vec::new(),
        programs: [own.clone(), own],
    };
    let mut site = Site::start(&network, &plan, &args.out)?;
    site.keep_journals()?;
    let layers = (args.depth as usize, args.fanout as usize, shape.edges as usize);
    let topology = Topology::new(layers.0, layers.1, layers.2);
    let topology = topology.map_err(|error| Failure::Usage(error.to_string()))?;
    let trade = (args.rate, args.seed);
    let trading = Participants::start(&site, trade, LONGEST, Default::default())?;
    let clock = trading.clock;
    let (clocks, (load, done)) = watched(&site, || {
        trading.wait_for_trading()?;
        let slow = |place| network.slow(place, args.slow_us * types::Nanos::MICRO);
        let done = work(args, &site, &topology, slow)?;
        Ok((trading.end()?, done))
    })?;
    let Done { null, subtree, stragglers, plans, remembered } = done;
    let checks = Checks::of(&mut site, (&load, &clocks), (&[], clock.now()), &[])?;
    let mut report = Report {
        profile: args.profile.clone(),
        hosts: args.hosts as usize,
        seed: args.seed,
        stragglers,
        null_plans: null.len(),
        null_applied: null.iter().filter(|plan| plan.applied.is_some()).count(),
        applied: plans.iter().filter(|plan| plan.applied.is_some()).count(),
        subtree,
        remembered,
        complaints: checks.complaints().into_iter().map(|(_, what)| what).collect(),
        plans,
        checks,
    };
    // A tree that was asked for by its name need not be better.
    let chosen = report.plans.len() - usize::from(!args.strategy.is_empty());
    let judged = match chosen {
        0 => Vec::new(),
        _ => judged(&report.stragglers, &report.plans[..chosen]),
    };
    report.complaints.extend(judged);
    if let Some(plan) = report.plans.get(chosen).filter(|plan| plan.applied.is_none()) {
        report.complaints.push(format!("shape: the tree stays: {}", plan.kept));
    }
    report.complaints.extend(noise(&null));
    report.complaints.extend(seated(&report.subtree, report.plans.first()));
    if report.remembered == Some(false) {
        report
            .complaints
            .push("memory: the root that leads now does not know the last plan".into());
    }
    told(&report, args.json, print, &report.complaints)
}

/// Everything that is done while participants trade.
fn work(
    args: &PlanArgs,
    site: &Site<'_>,
    topology: &Topology,
    slow: impl Fn(usize),
) -> Result<Done, Failure> {
    let name = |place: usize| site.file.nodes[place].name.clone();
    let named = |role| site.places(role).into_iter().map(name).collect::<Vec<String>>();
    let (mut stand, standby) = (named(NodeRole::Proxy), named(NodeRole::Standby));
    let (mut done, mut seed) = (Done::default(), args.seed);
    std::thread::sleep(SETTLED);
    for _ in 0..args.null {
        // What is measured while a plan is made says nothing of the tree.
        std::thread::sleep(4 * AGAIN);
        done.null.push(planned(site, seed, "")?);
        seed += 1;
    }
    if args.subtree > 0 {
        let places = subtree(topology, args.subtree as usize);
        let leave: Vec<String> = places.iter().filter_map(|at| stand.get(*at).cloned()).collect();
        let come: Vec<String> = standby.into_iter().take(leave.len()).collect();
        let replace = Operation::Replace { nodes: leave.clone(), by: come.clone() };
        let since = Instant::now();
        // On busy cores one that stands by may have missed the last roll calls.
        while let Err(why) = site.operate(&replace) {
            if since.elapsed() > STANDBY_MAX {
                return Err(why);
            }
            std::thread::sleep(AGAIN);
        }
        for (place, name) in places.into_iter().zip(&come) {
            stand[place].clone_from(name);
        }
        done.subtree = Replaced { leave, come };
        std::thread::sleep(SETTLED);
    }
    done.stragglers = stand.into_iter().take(args.stragglers as usize).collect();
    for straggler in &done.stragglers {
        let place = site.file.nodes.iter().position(|node| node.name == *straggler);
        place.into_iter().for_each(&slow);
    }
    if !done.stragglers.is_empty() {
        std::thread::sleep(SETTLED);
        let since = Instant::now();
        while heard(site)? < ENOUGH && since.elapsed() < MEASURED_MAX {
            std::thread::sleep(AGAIN);
        }
    }
    for time in 1..=args.times {
        let strategy = if time == args.times { &args.strategy[..] } else { "" };
        done.plans.push(planned(site, seed, strategy)?);
        seed += 1;
    }
    if let [_, others @ ..] = &site.places(NodeRole::Root)[..]
        && !others.is_empty()
    {
        done.remembered = Some(remembered(site, done.plans.last())?);
    }
    Ok(done)
}

/// Places of proxies: the first one of the layer below the root and all below it, each layer after the
/// one above; where these are fewer than `count`, those beside it, too.
fn subtree(topology: &Topology, count: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let tops = (0..).map_while(|at| topology.node_id(0, at));
    for top in tops.filter(|top| !topology.is_receiver(*top)) {
        let mut layer = vec![top];
        while !layer.is_empty() {
            found.extend(layer.iter().copied());
            let below = layer.iter().flat_map(|node| topology.children(*node, 0, 0, false));
            layer = below.filter(|node| !topology.is_receiver(*node)).collect();
        }
    }
    found.truncate(count);
    found.iter().map(|node| usize::from(node.0) - 1).collect()
}

/// Has another root lead, and asks it for the last plan: whether that is the one that was made.
fn remembered(site: &Site<'_>, last: Option<&PlanReport>) -> Result<bool, Failure> {
    let before = site.operate(&Operation::Status)?["leader"].clone();
    let led = site.places(NodeRole::Root).into_iter().any(|place| {
        let node = site.file.nodes[place].name.clone();
        let lead = site.operate(&Operation::Lead { node });
        lead.is_ok_and(|told| told["leader"] != before)
    });
    if !led {
        return Err(Failure::Run("no other root could be made to lead".to_string()));
    }
    let until = Instant::now() + REMINDED;
    loop {
        let told = site.operate(&Operation::LastPlan).ok();
        let told = told.and_then(|data| serde_json::from_value::<PlanReport>(data).ok());
        let known = told.zip(last).is_some_and(|(told, last)| told.at_ns == last.at_ns);
        if known || Instant::now() > until {
            return Ok(known);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Plans that changed the tree although nobody was slow.
fn noise(plans: &[PlanReport]) -> Vec<String> {
    let applied = plans.iter().filter_map(|plan| plan.applied.as_ref());
    applied
        .map(|applied| format!("noise: epoch {} although nobody is slow", applied.epoch))
        .collect()
}

/// Who is in the tree of a plan, or not, against a subtree that was replaced before it.
fn seated(subtree: &Replaced, plan: Option<&PlanReport>) -> Vec<String> {
    let present = plan.and_then(|plan| plan.trees.iter().find(|tree| tree.strategy == "PRESENT"));
    let Some(present) = present.filter(|_| !subtree.leave.is_empty()) else { return Vec::new() };
    let wrong = |name: &&String, there| present.proxies.contains(name) != there;
    let stay = subtree.leave.iter().filter(|name| wrong(name, false));
    let away = subtree.come.iter().filter(|name| wrong(name, true));
    let stay = stay.map(|name| format!("subtree: {name} is still in the tree"));
    stay.chain(away.map(|name| format!("subtree: {name} is not in the tree"))).collect()
}

/// Messages that all receivers have released, of the observer's last ten seconds.
fn heard(site: &Site<'_>) -> Result<u64, Failure> {
    let status = site.operate(&Operation::Status)?;
    Ok(status["fairness"]["messages"].as_u64().unwrap_or(0))
}

/// One plan, with what was measured after it where it changed the tree.
fn planned(site: &Site<'_>, seed: u64, strategy: &str) -> Result<PlanReport, Failure> {
    let strategy = strategy.to_string();
    let request = PlanRequest { apply: true, seed, strategy, ..PlanRequest::default() };
    let read = |data| {
        serde_json::from_value::<PlanReport>(data).map_err(|error| Failure::Run(error.to_string()))
    };
    let plan = read(site.operate_within(&Operation::Plan(request), PLAN_MAX)?)?;
    if plan.applied.is_none() {
        return Ok(plan);
    }
    let since = Instant::now();
    std::thread::sleep(SETTLED);
    loop {
        let last = read(site.operate(&Operation::LastPlan)?)?;
        let measured = last.applied.as_ref().is_none_or(|applied| applied.after.is_some());
        if measured || since.elapsed() > MEASURED_MAX {
            return Ok(last);
        }
        std::thread::sleep(AGAIN);
    }
}

/// What of plans is not as it has to be.
fn judged(stragglers: &[String], plans: &[PlanReport]) -> Vec<String> {
    let mut found = Vec::new();
    if stragglers.is_empty() {
        return noise(plans);
    }
    let Some((plan, applied)) = plans.iter().find_map(|plan| Some((plan, plan.applied.as_ref()?)))
    else {
        return vec!["stragglers: the tree stays".to_string()];
    };
    let tree = plan.trees.iter().find(|tree| tree.strategy == applied.strategy);
    let stays =
        stragglers.iter().filter(|name| tree.is_none_or(|tree| tree.proxies.contains(name)));
    found.extend(stays.map(|name| format!("stragglers: {name} is in the tree")));
    let AppliedLine { predicted, before: Some(before), after: Some(after), .. } = applied else {
        found.push("measured: nothing before or after".to_string());
        return found;
    };
    let (before, after) = (before.p50_ns as f64, after.p50_ns as f64);
    if after > before * (1.0 - GAIN) {
        found.push(format!("gain: {after:.0} ns after {before:.0}"));
    }
    let inside = (predicted.low_ns..=predicted.high_ns).contains(&after);
    if !inside && (predicted.p50_ns - after).abs() > CLOSE * after {
        found.push(format!("prediction: {:.0} ns, and {after:.0} is measured", predicted.p50_ns));
    }
    found
}

fn print(report: &Report) {
    let us = |ns: f64| ns / 1e3;
    println!(
        "profile {}, {} hosts, seed {}; slow: {}; requests {}, lost {}, answered twice {}; books equal: {} at \
         {} positions",
        report.profile,
        report.hosts,
        report.seed,
        if report.stragglers.is_empty() {
            "nobody".to_string()
        } else {
            report.stragglers.join(", ")
        },
        report.checks.requests_sent,
        report.checks.requests_lost,
        report.checks.answered_twice,
        report.checks.books_equal,
        report.checks.books_compared
    );
    if report.null_plans > 0 {
        let (plans, applied) = (report.null_plans, report.null_applied);
        println!("{plans} plans while nobody was slow: {applied} changed the tree");
    }
    if !report.subtree.leave.is_empty() {
        let Replaced { leave, come } = &report.subtree;
        println!("at once {} stand for {}", come.join(", "), leave.join(", "));
    }
    if let Some(remembered) = report.remembered {
        let knows = if remembered { "knows" } else { "does not know" };
        println!("another root leads then, and {knows} the last plan");
    }
    for plan in &report.plans {
        let verdict = &plan.verdict;
        println!(
            "best of {} is {}: gains {:.0} us ({:.1} %), p = {:.4}",
            plan.trees.len(),
            verdict.strategy,
            us(verdict.gain_ns),
            100.0 * verdict.share,
            verdict.p
        );
        let Some(applied) = &plan.applied else {
            println!("  the tree stays: {}", plan.kept);
            continue;
        };
        let measured = |of: Option<host::fleet::plan::Measured>| {
            of.map_or("-".to_string(), |of| format!("{:.0}", us(of.p50_ns as f64)))
        };
        println!(
            "  epoch {}: to the last arrival, us p50: before {}, predicted {:.0} ({:.0} to {:.0}), measured {}",
            applied.epoch,
            measured(applied.before),
            us(applied.predicted.p50_ns),
            us(applied.predicted.low_ns),
            us(applied.predicted.high_ns),
            measured(applied.after)
        );
    }
}

#[cfg(test)]
mod tests {
    use host::fleet::plan::{Measured, Predicted, TreeLine};

    use super::*;

    fn plan(proxies: &[&str], p50s: [u64; 3]) -> PlanReport {
        let [before, predicted, after] = p50s;
        let measured = |p50_ns| Some(Measured { messages: 99, p50_ns, ..Measured::default() });
        let of = predicted as f64;
        let applied = AppliedLine {
            strategy: "REVISE".to_string(),
            epoch: 2,
            predicted: Predicted {
                p50_ns: of,
                low_ns: of - 1.0,
                high_ns: of + 1.0,
                ..Predicted::default()
            },
            before: measured(before),
            after: measured(after),
            ..AppliedLine::default()
        };
        let tree = TreeLine {
            strategy: "REVISE".to_string(),
            proxies: proxies.iter().map(ToString::to_string).collect(),
            ..TreeLine::default()
        };
        PlanReport { trees: vec![tree], applied: Some(applied), ..PlanReport::default() }
    }

    #[test]
    fn a_subtree_is_a_proxy_and_those_below_it_and_then_those_beside_it() {
        let of = |depth, fanout, edges, count| {
            subtree(&Topology::new(depth, fanout, edges).expect("a tree"), count)
        };
        // Two proxies above four above eight edges.
        assert_eq!(of(3, 2, 8, 3), [0, 2, 3]);
        assert_eq!(of(3, 2, 8, 4), [0, 2, 3, 1]);
        assert_eq!(of(2, 3, 9, 2), [0, 1]);
        assert_eq!(of(2, 3, 3, 4), [0], "there are no more");
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let replaced = Replaced { leave: names(&["proxy-1"]), come: names(&["standby-1"]) };
        let present = |proxies| {
            let mut plan = plan(proxies, [1, 1, 1]);
            plan.trees[0].strategy = "PRESENT".to_string();
            seated(&replaced, Some(&plan))
        };
        assert_eq!(present(&["standby-1", "proxy-2"]), [""; 0]);
        assert_eq!(present(&["proxy-1", "proxy-2"]).len(), 2, "control: nobody went");
        assert_eq!(seated(&Replaced::default(), None), [""; 0]);
    }

    #[test]
    fn each_thing_that_may_be_wrong_is_found() {
        let slow = ["proxy-1".to_string()];
        let of = |plan: PlanReport| judged(&slow, &[plan]);
        assert_eq!(of(plan(&["proxy-2"], [1_000, 500, 510])), [""; 0]);
        let begins = |found: Vec<String>, word: &str| {
            assert!(found.len() == 1 && found[0].starts_with(word), "{word}: {found:?}");
        };
        begins(of(plan(&["proxy-1"], [1_000, 500, 510])), "stragglers: ");
        begins(of(plan(&["proxy-2"], [1_000, 900, 900])), "gain: ");
        begins(of(plan(&["proxy-2"], [1_000, 300, 500])), "prediction: ");
        begins(of(PlanReport::default()), "stragglers: the tree stays");
        begins(judged(&[], &[plan(&[], [1, 1, 1])]), "noise: ");
        begins(noise(&[plan(&[], [1, 1, 1]), PlanReport::default()]), "noise: ");
        assert_eq!(judged(&[], &[PlanReport::default()]), [""; 0]);
    }
}
