//! Section 7.1: pacing of what proxies send upwards, against losses by incast.
//!
//! Ten proxies send to one root, whose queue is bounded. Without pacing a burst overflows it. The
//! paper's rule widens the gap between a proxy's packets by the delays it hears of; credits let the
//! root say how many packets each proxy may send in the next millisecond.

use std::collections::VecDeque;

use types::SplitMix64;

use super::{
    link::exponential,
    report::{Check, Curve, Figure, Report, Row, Run},
    stats::percentile,
};

const PROXIES: usize = 10;
/// The root takes a packet every so often: 200,000 a second.
const SERVICE_NS: u64 = 5_000;
/// Packets its queue holds.
const ROOM: usize = 512;
/// One way, without queue.
const HOP_NS: u64 = 26_000;
/// A proxy's packets are at least this far apart.
const SEND_NS: u64 = 3_280;
/// T of the rule.
const TARGET_NS: u64 = 100_000;
const WINDOW_NS: u64 = 50_000_000;
const RUN_NS: u64 = 600_000_000;
const MILLI: u64 = 1_000_000;

/// How the senders are paced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    /// Not.
    None,
    /// The paper's rule, applied every so many ns to the median delay of the last 50 ms.
    Rule(u64),
    /// Credits.
    Credits,
}

#[derive(Clone, Copy)]
enum Scenario {
    /// Bursts of 40 ms at 2.5 times what the root takes, every 120 ms.
    Bursts,
    /// 1.3 times what the root takes, for half of the run.
    Sustained,
}

struct Proxy {
    /// Packets generated but not sent: times.
    waiting: VecDeque<u64>,
    next_packet: f64,
    free_at: u64,
    quantum_ns: u64,
    /// (heard at, delay); lost packets count as infinitely late.
    heard: VecDeque<(u64, u64)>,
    /// Packets it may still send in this millisecond.
    credits: u64,
    rng: SplitMix64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Outcome {
    sent: u64,
    dropped: u64,
    median_ns: u64,
    p99_ns: u64,
}

fn load(scenario: Scenario, at: f64) -> f64 {
    match scenario {
        Scenario::Bursts if at as u64 % (120 * MILLI) < 40 * MILLI => 2.5,
        Scenario::Bursts => 0.2,
        Scenario::Sustained if (at as u64) < RUN_NS / 2 => 1.3,
        Scenario::Sustained => 0.2,
    }
}

impl Proxy {
    fn new(seed: u64, index: usize) -> Proxy {
        Proxy {
            waiting: VecDeque::new(),
            next_packet: 0.0,
            free_at: 0,
            quantum_ns: 0,
            heard: VecDeque::new(),
            credits: 0,
            rng: SplitMix64::new(SplitMix64::mix(seed * 64 + index as u64)),
        }
    }

    fn generate(&mut self, scenario: Scenario, until: u64) {
        while self.next_packet <= until as f64 {
            if self.next_packet > 0.0 {
                self.waiting.push_back(self.next_packet as u64);
            }
            let rate = load(scenario, self.next_packet) / PROXIES as f64;
            self.next_packet += exponential(SERVICE_NS as f64 / rate, &mut self.rng);
        }
    }

    /// The paper's rule, clamped at zero.
    fn apply_rule(&mut self, now: u64) {
        while self.heard.front().is_some_and(|(at, _)| *at + WINDOW_NS < now) {
            self.heard.pop_front();
        }
        let known = self.heard.iter().take_while(|(at, _)| *at <= now);
        let mut delays: Vec<u64> = known.map(|(_, delay)| *delay).collect();
        if delays.is_empty() {
            return;
        }
        let e = percentile(&mut delays, 0.5);
        if e >= TARGET_NS + 10_000 {
            self.quantum_ns += 20_000;
        } else if e.saturating_add(10_000) <= TARGET_NS {
            self.quantum_ns = self.quantum_ns.saturating_sub(10_000);
        }
    }
}

/// Shares what the root can take in a millisecond by who has how much waiting, so that the sum
/// never exceeds it; who has nothing keeps one packet.
fn grant(proxies: &mut [Proxy], queued: usize) {
    let room = (MILLI / SERVICE_NS).min((ROOM - queued.min(ROOM)) as u64);
    let mut left = room.saturating_sub(PROXIES as u64);
    proxies.iter_mut().for_each(|proxy| proxy.credits = room.min(PROXIES as u64) / PROXIES as u64);
    let mut open: Vec<usize> = (0..proxies.len()).collect();
    open.sort_by_key(|index| proxies[*index].waiting.len());
    for (done, index) in open.iter().enumerate() {
        let share = left / (open.len() - done) as u64;
        let wanted = (proxies[*index].waiting.len() as u64).min(share);
        proxies[*index].credits += wanted;
        left -= wanted;
    }
}

fn measure(policy: Policy, scenario: Scenario, seed: u64) -> (Outcome, Vec<(f64, f64)>) {
    const STEP_NS: u64 = 1_000;
    let mut proxies: Vec<Proxy> = (0..PROXIES).map(|index| Proxy::new(seed, index)).collect();
    let mut outcome = Outcome::default();
    // Packets on their way (arrival, generated, proxy, sent), and those in the root's queue.
    let mut flying: VecDeque<(u64, u64, usize, u64)> = VecDeque::new();
    let mut queue: VecDeque<(u64, usize, u64)> = VecDeque::new();
    let mut root_free = 0;
    let (mut latencies, mut drops) = (Vec::new(), vec![0u32; (RUN_NS / (10 * MILLI)) as usize]);
    for now in (0..RUN_NS).step_by(STEP_NS as usize) {
        if policy == Policy::Credits && now % MILLI == 0 {
            grant(&mut proxies, queue.len() + flying.len());
        }
        for (index, proxy) in proxies.iter_mut().enumerate() {
            proxy.generate(scenario, now);
            if let Policy::Rule(every) = policy
                && now % every == 0
                && now > 0
            {
                proxy.apply_rule(now);
            }
            while proxy.free_at <= now
                && (policy != Policy::Credits || proxy.credits > 0)
                && let Some(generated) = proxy.waiting.pop_front()
            {
                proxy.credits = proxy.credits.saturating_sub(1);
                proxy.free_at = proxy.free_at.max(now) + SEND_NS.max(proxy.quantum_ns);
                outcome.sent += 1;
                flying.push_back((now + HOP_NS, generated, index, now));
            }
        }
        while let Some((at, generated, index, sent)) = flying.pop_front_if(|(at, ..)| *at <= now) {
            if queue.len() < ROOM {
                queue.push_back((generated, index, sent));
            } else {
                outcome.dropped += 1;
                drops[(at / (10 * MILLI)) as usize] += 1;
                proxies[index].heard.push_back((at + HOP_NS, u64::MAX));
            }
        }
        while root_free <= now
            && let Some((generated, index, sent)) = queue.pop_front()
        {
            root_free = root_free.max(now) + SERVICE_NS;
            latencies.push(now - generated);
            proxies[index].heard.push_back((now + HOP_NS, now - sent));
        }
    }
    outcome.median_ns = percentile(&mut latencies, 0.5);
    outcome.p99_ns = percentile(&mut latencies, 0.99);
    let point = |(step, drops): (usize, &u32)| (step as f64 * 10.0, f64::from(*drops));
    (outcome, drops.iter().enumerate().map(point).collect())
}

/// The experiment.
pub fn run(run: &mut Run) -> Report {
    let policies = [
        ("no pacing", Policy::None),
        ("paper's rule every 50 ms", Policy::Rule(50 * MILLI)),
        ("paper's rule every 1 ms", Policy::Rule(MILLI)),
        ("credits", Policy::Credits),
    ];
    let scenarios = [("bursts", Scenario::Bursts), ("sustained", Scenario::Sustained)];
    let (mut rows, mut figures, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    for (done, (place, scenario)) in scenarios.into_iter().enumerate() {
        let (mut curves, mut unpaced) = (Vec::new(), Vec::new());
        for (name, policy) in policies {
            let runs: Vec<_> = (0..run.seeds).map(|seed| measure(policy, scenario, seed)).collect();
            let values = |field: fn(&Outcome) -> f64| -> Vec<f64> {
                runs.iter().map(|(outcome, _)| field(outcome)).collect()
            };
            let dropped = values(|o| o.dropped as f64);
            let mut row = |what: &str, unit, published, values: &[f64]| {
                rows.push(Row::new(format!("{place}, {name}: {what}"), unit, published, values));
            };
            row("packets dropped", "packets", None, &dropped);
            let share = values(|o| o.dropped as f64 / o.sent.max(1) as f64 * 100.0);
            row("share of packets dropped", "%", None, &share);
            row("median time to the engine", "ns", None, &values(|o| o.median_ns as f64));
            row("p99 time to the engine", "ns", None, &values(|o| o.p99_ns as f64));
            match policy {
                Policy::None => unpaced = dropped,
                Policy::Rule(_) => {
                    let fewer: Vec<f64> =
                        unpaced.iter().zip(&dropped).map(|(a, b)| a / b.max(1.0)).collect();
                    row("drops fall by a factor of (paper: more than)", "x", Some(10.0), &fewer);
                }
                Policy::Credits => {
                    let worst = dropped.iter().copied().fold(0.0, f64::max);
                    checks.push(Check::new(
                        format!("{place}: drops with credits"),
                        worst,
                        0.0,
                        0.0,
                    ));
                }
            }
            let points = runs.into_iter().next().map(|(_, points)| points).unwrap_or_default();
            curves.push(Curve { name: name.into(), points });
        }
        figures.push(Figure {
            file: if done == 0 { "pacing-bursts" } else { "pacing-sustained" },
            title: format!("Packets dropped over time, {place} (seed 0)"),
            x: "time (ms)",
            y: "packets dropped in 10 ms",
            curves,
        });
        (run.progress)((done + 1) as f64 / 2.0);
    }
    Report {
        name: "pacing",
        title: "Section 7.1: losses by incast, the paper's pacing rule and credits",
        model: format!(
            "{PROXIES} proxies to a root that takes a packet every {} us and holds {ROOM}; bursts: \
             2.5 times that for 40 of every 120 ms; sustained: 1.3 times that for half of {} ms; \
             T={} us, quantum from zero, clamped at zero, median of the last 50 ms, a lost packet \
             counts as infinitely late",
            SERVICE_NS / 1_000,
            RUN_NS / MILLI,
            TARGET_NS / 1_000
        ),
        seeds: run.seeds,
        rows,
        checks,
        figures,
        notes: vec![
            "The paper says that losses fall by more than an order of magnitude in large bursts and \
             gives neither the interval of the rule nor T. With an update every 50 ms from a zero \
             quantum a burst is over before the rule has taken hold; the rule needs losses or \
             delays to happen before it reacts at all. Credits need neither: their sum never \
             exceeds what the root can take."
                .into(),
        ],
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_lose_nothing_where_unpaced_senders_do() {
        for scenario in [Scenario::Bursts, Scenario::Sustained] {
            let dropped = |policy| measure(policy, scenario, 1).0.dropped;
            let none = dropped(Policy::None);
            assert!(none > 1_000, "{none}");
            assert_eq!(dropped(Policy::Credits), 0);
            assert!(dropped(Policy::Rule(MILLI)) < none);
        }
    }

    #[test]
    fn credits_cost_little_throughput() {
        let (outcome, _) = measure(Policy::Credits, Scenario::Sustained, 1);
        let (unpaced, _) = measure(Policy::None, Scenario::Sustained, 1);
        assert!(outcome.sent * 100 > (unpaced.sent - unpaced.dropped) * 97, "{outcome:?}");
    }
}
