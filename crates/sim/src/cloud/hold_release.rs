//! Hold-and-release in one cloud. One pass over the messages serves every
//! estimator: arrivals don't depend on deadlines.

use super::{
    deadline::{Estimator, Kind, WINDOW},
    flow::{Flow, LOST},
    link::{Cloud, Profile},
    stats::{median, percentile},
    table1,
};

/// Time between messages: 5,000 a second, as in the paper.
pub const INTERVAL_NS: u64 = 200_000;
/// What a receiver waits after it saw that a message is missing, before it asks for it.
const GAP_WAIT_NS: u64 = 200_000;
/// From asking to having it, at the speed of the cloud's hops: up and down, twice a hop's median.
const REPAIR_NS: u64 = 60_000;
/// Hand-offs this close count as simultaneous on real clocks.
const SIMULTANEOUS_NS: u64 = 1_000;

/// One run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Cloud.
    pub profile: Profile,
    /// Layer sizes, the receivers last.
    pub layers: Vec<usize>,
    /// H.
    pub hedge: usize,
    /// Whether parents change with every message.
    pub dynamic: bool,
    /// Messages, those before the first deadline included.
    pub messages: usize,
    /// Seed.
    pub seed: u64,
}

impl Setup {
    /// The standard cloud, depth by the paper's rule, F = 10, dynamic parents.
    pub fn standard(receivers: usize, hedge: usize, messages: usize, seed: u64) -> Setup {
        let layers = table1::layers(receivers, table1::rule_depth(receivers), 10);
        let profile = Profile::standard();
        Setup { profile, layers, hedge, dynamic: true, messages, seed }
    }
}

/// What one estimator achieved in one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Which.
    pub kind: Kind,
    /// Share of messages that no receiver got too late, by its own clock.
    pub p_on_time: f64,
    /// Share of messages handed on everywhere within 1 us plus the clocks' error.
    pub p_fair: f64,
    /// Median delivery window by the receivers' clocks, in ns: 0 when none is late.
    pub dws_ns: f64,
    /// 99th percentile of it.
    pub dws_p99_ns: f64,
    /// Median delivery window in true time.
    pub dws_true_ns: f64,
    /// Median time from sending to the last release.
    pub oml_release_ns: f64,
    /// Mean time a receiver holds a message.
    pub hold_ns: f64,
    /// OML of each message, for distributions.
    pub omls: Vec<u64>,
    /// Delivery window of each message by own clocks.
    pub windows: Vec<u64>,
}

/// What all estimators of a run have in common.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Median OML without hold-and-release.
    pub oml_ns: f64,
    /// Widest difference between two receivers' clocks.
    pub clocks_ns: u64,
    /// Messages that some receiver had to have repaired.
    pub repaired: u64,
}

/// What the root can know of one message, and what truly happened.
struct Message {
    /// The last receiver had it, and all before it, this long after sending by its own clock.
    needed_ns: u64,
    /// Mean over receivers of the same.
    mean_ns: u64,
    /// Last arrival, true time since sending.
    oml_ns: u64,
}

/// Passes messages of one cloud through hold-and-release with each estimator.
pub fn run(setup: &Setup, kinds: &[Kind]) -> (Arrivals, Vec<Outcome>) {
    let tree = table1::tree(&setup.layers, setup.hedge, setup.dynamic);
    let run_ns = setup.messages as u64 * INTERVAL_NS;
    let cloud = Cloud::new(&setup.profile, setup.seed, tree.topology.layers(), run_ns);
    let receivers = tree.topology.receivers();
    let first = tree.topology.nodes() - receivers;
    let clocks: Vec<i64> = (first..first + receivers).map(|node| cloud.clock_ns(node)).collect();
    let spread = (clocks.iter().max().unwrap_or(&0) - clocks.iter().min().unwrap_or(&0)) as u64;
    let slowest_clock = clocks.iter().map(|clock| -clock).max().unwrap_or(0);
    let mut flow = Flow::new(tree, cloud);
    let mut receivers = Receivers::new(clocks);
    let mut estimators: Vec<(Estimator, Tally)> =
        kinds.iter().map(|kind| (Estimator::new(*kind), Tally::default())).collect();
    let (mut omls, mut maxima) = (Vec::new(), Vec::with_capacity(WINDOW));
    for id in 1..=setup.messages as u64 {
        let sent_at = id * INTERVAL_NS;
        let message = receivers.take(sent_at, flow.send(id, sent_at, setup.hedge));
        omls.push(message.oml_ns);
        for (estimator, tally) in &mut estimators {
            if let Some(delay_ns) = estimator.delay_ns() {
                tally.add(delay_ns, &message, slowest_clock, spread);
            }
            estimator.learn(message.needed_ns);
        }
        maxima.push(message.needed_ns);
        if maxima.len() == WINDOW {
            let mut percentiles = |share| receivers.max_of_percentiles(share);
            for (estimator, _) in &mut estimators {
                estimator.close_window(&mut percentiles, &mut maxima);
            }
            maxima.clear();
            receivers.clear();
        }
    }
    let arrivals = Arrivals {
        oml_ns: median(&mut omls) as f64,
        clocks_ns: spread,
        repaired: receivers.repaired,
    };
    let outcome = |(estimator, tally): (Estimator, Tally)| tally.outcome(estimator.kind(), spread);
    (arrivals, estimators.into_iter().map(outcome).collect())
}

/// All receivers of a run.
struct Receivers {
    clocks: Vec<i64>,
    /// When everything so far had arrived, true time: delivery is in sequence.
    ready: Vec<u64>,
    /// Delays of the window by own clock, a row of [`WINDOW`] per receiver.
    delays: Vec<u32>,
    filled: usize,
    repaired: u64,
}

impl Receivers {
    fn new(clocks: Vec<i64>) -> Receivers {
        let count = clocks.len();
        let delays = vec![0; count * WINDOW];
        Receivers { clocks, ready: vec![0; count], delays, filled: 0, repaired: 0 }
    }

    fn take(&mut self, sent_at: u64, arrivals: &[u64]) -> Message {
        let (mut needed_ns, mut sum, mut oml_ns, mut missing) = (0, 0, 0, false);
        for (index, arrival) in arrivals.iter().enumerate() {
            let lost = *arrival == LOST;
            missing |= lost;
            // The next message shows the gap.
            let arrival = match lost {
                true => sent_at + INTERVAL_NS + GAP_WAIT_NS + REPAIR_NS,
                false => *arrival,
            };
            oml_ns = oml_ns.max(arrival - sent_at);
            let own = |at: u64| (at - sent_at).saturating_add_signed(self.clocks[index]);
            // Repairs are no measure of the tree's delay: a receiver does not report them.
            let delay = if lost { 0 } else { own(arrival) };
            self.delays[index * WINDOW + self.filled] = delay.min(u64::from(u32::MAX)) as u32;
            self.ready[index] = self.ready[index].max(arrival);
            let needed = own(self.ready[index]);
            needed_ns = needed_ns.max(needed);
            sum += needed;
        }
        self.filled += 1;
        self.repaired += u64::from(missing);
        Message { needed_ns, mean_ns: sum / arrivals.len().max(1) as u64, oml_ns }
    }

    fn max_of_percentiles(&mut self, share: f64) -> u64 {
        let rank = (self.filled as f64 * share).ceil().max(1.0) as usize;
        let rank = rank.min(self.filled) - 1;
        let rows = self.delays.chunks_exact_mut(WINDOW);
        let one = |row: &mut [u32]| *row[..self.filled].select_nth_unstable(rank).1;
        rows.map(one).map(u64::from).max().unwrap_or(0)
    }

    fn clear(&mut self) {
        self.filled = 0;
    }
}

/// Sums of one estimator over a run.
#[derive(Default)]
struct Tally {
    on_time: u64,
    fair: u64,
    hold_ns: u64,
    omls: Vec<u64>,
    windows: Vec<u64>,
}

impl Tally {
    fn add(&mut self, delay_ns: u64, message: &Message, slowest_clock: i64, spread: u64) {
        let late = message.needed_ns.saturating_sub(delay_ns);
        self.on_time += u64::from(late == 0);
        self.fair += u64::from(late <= SIMULTANEOUS_NS + spread);
        self.hold_ns += delay_ns.saturating_sub(message.mean_ns);
        // The receiver whose clock is furthest behind releases last when nobody is late.
        let release = delay_ns.saturating_add_signed(slowest_clock).max(message.needed_ns);
        self.omls.push(release);
        self.windows.push(late);
    }

    fn outcome(mut self, kind: Kind, spread: u64) -> Outcome {
        let count = self.omls.len().max(1) as f64;
        let dws_ns = median(&mut self.windows) as f64;
        Outcome {
            kind,
            p_on_time: self.on_time as f64 / count,
            p_fair: self.fair as f64 / count,
            dws_ns,
            dws_p99_ns: percentile(&mut self.windows, 0.99) as f64,
            dws_true_ns: dws_ns + spread as f64,
            oml_release_ns: median(&mut self.omls) as f64,
            hold_ns: self.hold_ns as f64 / count,
            omls: self.omls,
            windows: self.windows,
        }
    }
}
