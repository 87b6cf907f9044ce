//! Planned trees: which machine stands where, by one-way delays measured while the exchange trades.
//!
//! Every machine has an agent ([`agent`]) that sends probes and hears those of others, as the replica
//! that leads tells it over the control connection ([`measuring`]). From the delays follow trees by
//! all strategies of the planner, their predicted latency and a verdict ([`forest`]); the best one
//! becomes the next epoch when an operator or the file says so.

use std::time::Duration;

use planner::noise::{Rule, Verdict};
use planner::routes::Prediction;
use serde::{Deserialize, Serialize};

pub mod agent;
pub mod forest;
pub mod measuring;

/// Probes of a pair at most.
pub const PROBES_MAX: u32 = 512;
/// Pairs that an answer has at most; of larger pools it has none.
pub const PAIRS_MAX: usize = 3_000;

/// `[plan]` of the cluster file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanSettings {
    /// Probes that a machine sends per second at most, 1 to 10,000.
    pub probes_per_s: u32,
    /// Probes of each ordered pair of machines, 20 to [`PROBES_MAX`].
    pub probes: u32,
    /// Between two plans that are made and applied without being asked for, like `10m`; empty: none are.
    pub every: String,
    /// How often the tree may be changed by chance alone, 0.0001 to 0.5.
    pub alpha: f64,
    /// Least gain for which it is changed, percent of what the present one takes.
    pub least_gain_percent: f64,
    /// Candidates that TreeBuilder's selection looks at for each parent (K).
    pub candidates: u32,
}

impl Default for PlanSettings {
    fn default() -> Self {
        PlanSettings {
            probes_per_s: 500,
            probes: 200,
            every: String::new(),
            alpha: Rule::DEFAULT.alpha,
            least_gain_percent: 100.0 * Rule::DEFAULT.least,
            candidates: 8,
        }
    }
}

impl PlanSettings {
    /// What is wrong with which key, if anything is.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: &str, what: &str| Err((format!("plan.{key}"), what.to_string()));
        if !(1..=10_000).contains(&self.probes_per_s) {
            return wrong("probes_per_s", "1 to 10000");
        }
        if !(20..=PROBES_MAX).contains(&self.probes) {
            return wrong("probes", "20 to 512");
        }
        if !(0.0001..=0.5).contains(&self.alpha) {
            return wrong("alpha", "0.0001 to 0.5");
        }
        if !(0.0..=100.0).contains(&self.least_gain_percent) {
            return wrong("least_gain_percent", "0 to 100");
        }
        if !(1..=1_000).contains(&self.candidates) {
            return wrong("candidates", "1 to 1000");
        }
        if !self.every.is_empty() && interval(&self.every).is_none() {
            return wrong("every", "a time of 10 s to a week, like 10m");
        }
        Ok(())
    }

    /// Between two plans that are applied without being asked for.
    pub fn every(&self) -> Option<Duration> {
        interval(&self.every)
    }
}

/// `30s`, `10m`, `2h`, `1d`: of 10 s to a week.
fn interval(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| plain)?;
    let all = count.checked_mul(seconds).filter(|all| (10..=604_800).contains(all))?;
    Some(Duration::from_secs(all))
}

/// What a machine is to measure: whom to send probes to, and whose to expect.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProbeOrder {
    /// Number of the job, drawn.
    pub job: u64,
    /// Probes to each.
    pub probes: u32,
    /// Between two probes of a machine, us.
    pub gap_us: u64,
    /// Until the first one, us.
    pub after_us: u64,
    /// Until the end, when what was heard is told, ms.
    pub length_ms: u64,
    /// Machines to probe, each with the key of its probes, hexadecimal.
    pub to: Vec<(u16, String)>,
    /// Machines whose probes are expected, each with their key.
    pub from: Vec<(u16, String)>,
}

/// What a machine heard, some of it at a time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Probed {
    /// Number of the job.
    pub job: u64,
    /// Largest error that its clock claimed meanwhile, ns.
    pub bound_ns: u64,
    /// Probes that it sent to each.
    pub sent: u32,
    /// By machine that sent: delays in the order of sending, ns; null for one that did not come.
    pub heard: Vec<(u16, Vec<Option<i64>>)>,
    /// There is no more to tell.
    pub over: bool,
}

/// What an operator wants planned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanRequest {
    /// Probes of each pair; 0: as the file says.
    pub probes: u32,
    /// Fixes all draws.
    pub seed: u64,
    /// Only places at and below this proxy may change; empty: all may.
    pub subtree: String,
    /// Make it the next epoch.
    pub apply: bool,
    /// This strategy's tree, whatever the verdict; empty: the best one, if its gain counts.
    pub strategy: String,
}

/// Delays from one machine to another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PairLine {
    /// Who sent.
    pub from: String,
    /// Who heard.
    pub to: String,
    /// Percentiles of the delays, ns.
    pub p50_ns: f64,
    /// See `p50_ns`.
    pub p90_ns: f64,
    /// See `p50_ns`.
    pub p99_ns: f64,
    /// Share of probes that were lost.
    pub loss: f64,
    /// The two clocks differ by so much at most, ns.
    pub uncertainty_ns: u64,
}

/// A tree that there could be.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TreeLine {
    /// How it was made.
    pub strategy: String,
    /// Hops from the root to an edge.
    pub depth: usize,
    /// Children of a proxy.
    pub fanout: usize,
    /// Machines of the proxies, by place; `new-N` for one that there is not yet.
    pub proxies: Vec<String>,
    /// Machines that there are not yet.
    pub new: usize,
    /// Places that get another machine.
    pub moves: usize,
    /// Predicted OML (to the last arrival), ns.
    pub predicted: Predicted,
    /// Why it can't be the next epoch; empty: it can.
    pub obstacle: String,
}

/// A predicted OML, ns.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Predicted {
    /// The median.
    pub p50_ns: f64,
    /// 90th percentile.
    pub p90_ns: f64,
    /// The median that is measured is between these: with 95 % by the probes, and whatever the clocks
    /// of the root and the edges are off by.
    pub low_ns: f64,
    /// See `low_ns`.
    pub high_ns: f64,
    /// Share of datagrams that miss an edge at first.
    pub incomplete: f64,
}

impl Predicted {
    /// By probes, with what the nodes themselves take, and what clocks leave open.
    fn of(by: &Prediction, nodes_ns: f64, uncertainty_ns: f64) -> Predicted {
        Predicted {
            p50_ns: (by.p50_ns + nodes_ns).max(0.0),
            p90_ns: (by.p90_ns + nodes_ns).max(0.0),
            low_ns: by.low_ns + nodes_ns - uncertainty_ns,
            high_ns: by.high_ns + nodes_ns + uncertainty_ns,
            incomplete: by.incomplete,
        }
    }
}

/// Whether a time, ns, is none: of a datagram that never arrives it is the largest that there is, to which other
/// times may have been added.
pub fn is_never(ns: f64) -> bool {
    ns.abs() >= planner::routes::LOST as f64 / 2.0
}

/// OML as the observer measured it, ns.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Datagrams of the last ten seconds.
    pub messages: u64,
    /// Median of the time to the last arrival.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Median of the time to the first arrival.
    #[serde(default)]
    pub first_ns: u64,
    /// Median of the time to the last arrival in the quarter of the span in which it was shortest: without what a machine
    /// had to do for a few seconds beside the tree.
    #[serde(default)]
    pub calm_ns: u64,
}

/// A comparison of the best tree with the present one.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct VerdictLine {
    /// The best one's strategy.
    pub strategy: String,
    /// Median gain, ns.
    pub gain_ns: f64,
    /// The same as a share of what the present tree takes.
    pub share: f64,
    /// How often chance alone gains so much.
    pub p: f64,
    /// It is more than noise, and enough.
    pub counts: bool,
}

impl VerdictLine {
    /// Of a tree.
    fn of(strategy: &str, verdict: &Verdict) -> VerdictLine {
        VerdictLine {
            strategy: strategy.to_string(),
            gain_ns: verdict.gain_ns,
            share: verdict.share,
            p: verdict.p,
            counts: verdict.counts,
        }
    }
}

/// A tree that became the next epoch.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AppliedLine {
    /// Its strategy.
    pub strategy: String,
    /// Its epoch.
    pub epoch: u32,
    /// Steps that the log took.
    pub steps: usize,
    /// What was predicted.
    pub predicted: Predicted,
    /// What the observer measured with the tree before, if it measured enough.
    pub before: Option<Measured>,
    /// What it measures with this one, once it did so for its ten seconds.
    pub after: Option<Measured>,
}

/// A plan.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlanReport {
    /// When it was made, ns since 1970 on the clock of the replica that leads.
    pub at_ns: u64,
    /// How long it took, ms.
    pub took_ms: u64,
    /// Epoch of the tree that was present then.
    pub epoch: u32,
    /// Fixes all draws.
    pub seed: u64,
    /// Probes that were sent.
    pub probes: u64,
    /// Machines that took part: the root that leads, the pool, the edges.
    pub root: String,
    /// See `root`.
    pub pool: Vec<String>,
    /// See `root`.
    pub edges: Vec<String>,
    /// Machines that should have, and did not, each with the reason.
    pub absent: Vec<(String, String)>,
    /// Delays; none of pools with more than [`PAIRS_MAX`] pairs.
    pub pairs: Vec<PairLine>,
    /// Trees, the one that is predicted to be quickest first.
    pub trees: Vec<TreeLine>,
    /// What nodes take for a hop beyond what probes do, ns: measured with the present tree in calm seconds less what its
    /// probes say, below 0 where probes, which load the machines, take longer than datagrams. Where repairs are
    /// much quicker than the tree the same to the first arrival; 0 where nothing was measured.
    pub node_ns: f64,
    /// The best tree that can be the next epoch, beside the present one.
    pub verdict: VerdictLine,
    /// The tree that became the next epoch.
    pub applied: Option<AppliedLine>,
    /// Why none did although one was wanted.
    pub kept: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_and_times_are_read() {
        assert_eq!(PlanSettings::default().check(), Ok(()));
        for (text, seconds) in [("10s", 10), ("10m", 600), ("2h", 7_200), ("7d", 604_800)] {
            assert_eq!(interval(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "m", "9s", "8d", "10", "-5m", "+5m", "1.5h", "ten m", "99999999999999999999d", "é"]
        {
            assert_eq!(interval(text), None, "{text}");
        }
        let wrong = |change: &dyn Fn(&mut PlanSettings)| {
            let mut settings = PlanSettings::default();
            change(&mut settings);
            settings.check().expect_err("wrong").0
        };
        assert_eq!(wrong(&|of| of.probes_per_s = 0), "plan.probes_per_s");
        assert_eq!(wrong(&|of| of.probes = 513), "plan.probes");
        assert_eq!(wrong(&|of| of.alpha = f64::NAN), "plan.alpha");
        assert_eq!(wrong(&|of| of.least_gain_percent = -1.0), "plan.least_gain_percent");
        assert_eq!(wrong(&|of| of.every = "soon".to_string()), "plan.every");
        assert_eq!(wrong(&|of| of.candidates = 0), "plan.candidates");
    }
}
