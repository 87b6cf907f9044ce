//! `fairbell-lab cloud plan`: trees planned while participants trade, with machines that are slow, and
//! without.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use host::failure::{Failure, on};
use host::fleet::file::NodeRole;
use host::fleet::messages::Operation;
use host::fleet::plan::{AppliedLine, PlanReport, PlanRequest};
use host::sockets::io;
use serde::Serialize;

use super::checks::Checks;
use super::participants::Participants;
use super::site::{Plan, Site};
use super::{ASYMMETRY_US, MAIN, SEGMENT_MIB, Shape, edges, start, venue, watched};

/// Longest trading: it ends when the plans have been.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Until the observer's ten seconds are of what is now.
const SETTLED: Duration = Duration::from_secs(13);
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
    fairbell-lab cloud plan --hosts 25 --stragglers 3 --standby 4 --rate 1000 --json\n\n\
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
    plans: Vec<PlanReport>,
    /// Plans that changed the tree.
    applied: usize,
    #[serde(flatten)]
    checks: Checks,
    complaints: Vec<String>,
}

/// Has trees planned.
///
/// # Errors
/// [`Failure::Unavailable`] where there can be no box; what was not as it has to be.
pub fn run(args: &PlanArgs) -> Result<(), Failure> {
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
        // On busy cores a straggler may be silent for a second, and then no plan is needed to replace it.
        venue: venue(&shape, "huygens", true)
            .replace("replace_after_ms = 1000", "replace_after_ms = 0"),
        roots: args.roots as usize,
        offset_us: 10_000,
        drift_ppb: 50_000,
        seed: args.seed,
        ipv6: false,
        disks: false,
        snapshots: true,
        programs: [own.clone(), own],
    };
    let mut site = Site::start(&network, &plan, &args.out)?;
    site.keep_journals()?;
    let slow: Vec<usize> =
        site.places(NodeRole::Proxy).into_iter().take(args.stragglers as usize).collect();
    let stragglers = slow.iter().map(|place| site.file.nodes[*place].name.clone()).collect();
    let trade = (args.rate, args.seed);
    let trading = Participants::start(&site, trade, LONGEST, Default::default())?;
    let clock = trading.clock;
    let (clocks, (load, plans)) = watched(&site, || {
        trading.wait_for_trading()?;
        for place in &slow {
            network.slow(*place, args.slow_us * types::Nanos::MICRO);
        }
        let mut plans = Vec::new();
        for time in 0..u64::from(args.times) {
            std::thread::sleep(SETTLED);
            plans.push(planned(&site, args.seed + time)?);
        }
        Ok((trading.end()?, plans))
    })?;
    let checks = Checks::of(&mut site, (&load, &clocks), (&[], clock.now()), &[])?;
    let mut report = Report {
        profile: args.profile.clone(),
        hosts: args.hosts as usize,
        seed: args.seed,
        stragglers,
        applied: plans.iter().filter(|plan| plan.applied.is_some()).count(),
        complaints: checks.complaints().into_iter().map(|(_, what)| what).collect(),
        plans,
        checks,
    };
    let judged = judged(&report.stragglers, &report.plans);
    report.complaints.extend(judged);
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&report);
            println!("{}", text.map_err(|error| Failure::Run(error.to_string()))?);
        }
        false => print(&report),
    }
    match report.complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(report.complaints.join("; "))),
    }
}

/// One plan, with what was measured after it where it changed the tree.
fn planned(site: &Site<'_>, seed: u64) -> Result<PlanReport, Failure> {
    let request = PlanRequest { apply: true, seed, ..PlanRequest::default() };
    let read = |data| {
        serde_json::from_value::<PlanReport>(data).map_err(|error| Failure::Run(error.to_string()))
    };
    let plan = read(site.operate_within(&Operation::Plan(request), PLAN_MAX)?)?;
    if plan.applied.is_none() {
        return Ok(plan);
    }
    std::thread::sleep(SETTLED);
    read(site.operate(&Operation::LastPlan)?)
}

/// What of plans is not as it has to be.
fn judged(stragglers: &[String], plans: &[PlanReport]) -> Vec<String> {
    let mut found = Vec::new();
    for plan in plans.iter().filter(|_| stragglers.is_empty()) {
        if let Some(applied) = &plan.applied {
            found.push(format!("noise: epoch {} although nobody is slow", applied.epoch));
        }
    }
    if stragglers.is_empty() {
        return found;
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
        let measured =
            |p50_ns| Some(Measured { messages: 99, p50_ns, p99_ns: p50_ns, first_ns: p50_ns });
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
        assert_eq!(judged(&[], &[PlanReport::default()]), [""; 0]);
    }
}
