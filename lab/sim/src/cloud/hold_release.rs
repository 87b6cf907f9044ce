//! Hold-and-release in one cloud. One pass over the messages serves every
//! estimator: arrivals don't depend on deadlines.

use std::{collections::BTreeSet, sync::Arc};

use overlay::{
    delay::{OwdEstimator, PERMILLE},
    hedging::{HedgePolicy, Hedging},
    samples::Sample,
    topology::{ROOT, Tree},
};
use types::NodeId;

use super::{
    clock_errors::ClockErrors,
    deadline::{Estimator, Kind, Rounds, WINDOW},
    flow::{Flow, LOST},
    link::{Cloud, Profile},
    stats::{median, percentile},
    table1,
};

/// Time between messages: 5,000 a second, as in the paper.
pub const INTERVAL_NS: u64 = 200_000;
/// Messages of a round of the all-reduce, which lasts 50 ms.
const ROUND: usize = 250;
/// Messages sent from the beginning of a round until the root has its reports: receivers spread
/// theirs over an eighth of the round, and then they climb.
const CLIMB: usize = 33;
/// Messages before anything is measured: all estimators have all they need by then.
pub const WARM_UP: usize = 4_000;
/// What a receiver waits after it saw that a message is missing, before it asks for it.
const GAP_WAIT_NS: u64 = 200_000;
/// From asking to having it, at the speed of the cloud's hops: up and down, twice a hop's median.
const REPAIR_NS: u64 = 60_000;
/// Hand-offs this close count as simultaneous on real clocks.
const SIMULTANEOUS_NS: u64 = 1_000;

/// More VMs than proxies that [`Techniques::placed`] rents, in parts of a hundred, and probes of each.
const MORE_PERCENT: usize = 10;
const PROBES: u64 = 200;

/// What is done besides the paper's tree; each has its setting in a deployment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Techniques {
    /// `overlay.slowest_first`: a node serves those children first that report the longest delays.
    pub slowest_first: bool,
    /// `overlay.hedging = "path-disjoint"`: further copies come by parents that have other parents.
    pub path_disjoint: bool,
    /// Proxies are the quickest of a tenth more VMs, by probes from the root (`cluster plan`).
    pub placed: bool,
    /// So many of a thousand receivers, the slowest by what they reported when measuring began, are
    /// openly left out: they get every message and nobody waits for them.
    pub left_out_permille: usize,
}

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
    /// Messages, the first [`WARM_UP`] of which are not measured.
    pub messages: usize,
    /// Seed.
    pub seed: u64,
    /// Clocks of the receivers; `None`: as the cloud has them.
    pub clock_errors: Option<Arc<ClockErrors>>,
    /// What is done besides.
    pub techniques: Techniques,
}

impl Setup {
    /// The standard cloud, depth by the paper's rule, F = 10, dynamic parents.
    pub fn standard(receivers: usize, hedge: usize, messages: usize, seed: u64) -> Setup {
        let layers = table1::layers(receivers, table1::rule_depth(receivers), 10);
        let profile = Profile::standard();
        let techniques = Techniques::default();
        Setup {
            profile,
            layers,
            hedge,
            dynamic: true,
            messages,
            seed,
            clock_errors: None,
            techniques,
        }
    }
}

/// What one estimator achieved in one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The estimator.
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
    /// By measured message: the least delay, in ns, with which it is released everywhere at once within
    /// the clocks' error.
    pub least_ns: Vec<u64>,
}

/// What the root can know of one message, and what truly happened.
struct Message {
    /// The last receiver had it, and all before it, this long after sending by its own clock.
    needed_ns: u64,
    /// The last receiver had it this long after sending by its own clock.
    owd_ns: u64,
    /// Mean over receivers of the same.
    mean_ns: u64,
    /// Last arrival, true time since sending.
    oml_ns: u64,
}

/// Passes messages of one cloud through hold-and-release with each estimator.
pub fn run(setup: &Setup, kinds: &[Kind]) -> (Arrivals, Vec<Outcome>) {
    let techniques = setup.techniques;
    let mut tree = table1::tree(&setup.layers, setup.hedge, setup.dynamic);
    if techniques.path_disjoint {
        let hedging = Hedging { policy: HedgePolicy::PathDisjoint, ..Hedging::default() };
        tree.topology = tree.topology.with_hedging(hedging).unwrap_or(tree.topology);
    }
    let run_ns = setup.messages as u64 * INTERVAL_NS;
    let mut cloud = Cloud::new(&setup.profile, setup.seed, tree.topology.layers(), run_ns);
    let receivers = tree.topology.receivers();
    let first = tree.topology.nodes() - receivers;
    if techniques.placed {
        let more = ((first - 1) * MORE_PERCENT).div_ceil(100);
        cloud.place(1..first, more, PROBES, setup.seed);
    }
    let assumed = || Arc::new(ClockErrors::assumed(&cloud, first..first + receivers));
    let errors = setup.clock_errors.clone().unwrap_or_else(assumed);
    let mut flow = Flow::new(tree, cloud);
    if techniques.slowest_first {
        flow.serve_slowest_first();
    }
    let mut rounds = Rounds::new(receivers);
    let mut receivers = Receivers::new(errors, receivers);
    let mut estimators: Vec<(Estimator, Tally)> =
        kinds.iter().map(|kind| (Estimator::new(*kind, ROUND), Tally::default())).collect();
    let permilles: BTreeSet<u32> = kinds.iter().map(Kind::permille).collect();
    let (mut omls, mut widest, mut least_ns) = (Vec::new(), 0, Vec::new());
    let mut due: Option<Vec<Sample>> = None;
    for (index, id) in (1..=setup.messages as u64).enumerate() {
        if index % ROUND == 0 && index > 0 {
            due = Some(rounds.begin().1.to_vec());
        }
        if index % ROUND == CLIMB
            && let Some(samples) = due.take()
        {
            let count = receivers.clocks.len() as u32;
            if techniques.slowest_first {
                receivers.report(&mut flow, (index / ROUND) as u64);
            }
            for permille in &permilles {
                let owd_ns = receivers.max_of_percentiles(*permille);
                let concerned = estimators.iter_mut().map(|(estimator, _)| estimator);
                concerned
                    .filter(|estimator| estimator.kind().permille() == *permille)
                    .for_each(|estimator| estimator.reports(owd_ns, count, &samples));
            }
        }
        if index == WARM_UP {
            receivers.leave_out(techniques.left_out_permille);
        }
        let sent_at = id * INTERVAL_NS;
        receivers.read_clocks(sent_at);
        let (slowest_clock, spread) = receivers.clocks_range();
        widest = widest.max(spread);
        let message = receivers.take(sent_at, flow.send(id, sent_at, setup.hedge));
        rounds.arrived(id, message.owd_ns);
        let measured = index >= WARM_UP;
        if measured {
            omls.push(message.oml_ns);
            least_ns.push(message.needed_ns.saturating_sub(SIMULTANEOUS_NS + spread));
        }
        for (estimator, tally) in &mut estimators {
            if let Some(delay_ns) = estimator.delay_ns().filter(|_| measured) {
                tally.add(delay_ns, &message, slowest_clock, spread);
            }
            estimator.saw(id, message.needed_ns);
        }
    }
    let arrivals = Arrivals {
        oml_ns: median(&mut omls) as f64,
        clocks_ns: widest,
        repaired: receivers.repaired,
        least_ns,
    };
    let outcome = |(estimator, tally): (Estimator, Tally)| tally.outcome(estimator.kind());
    (arrivals, estimators.into_iter().map(outcome).collect())
}

/// All receivers of a run.
struct Receivers {
    errors: Arc<ClockErrors>,
    /// Their clocks' errors at the last look, and when that was.
    clocks: Vec<i64>,
    look: Option<u64>,
    /// When everything so far had arrived, true time: delivery is in sequence.
    ready: Vec<u64>,
    /// What each keeps of its delays by its own clock.
    delays: Vec<OwdEstimator>,
    /// Those that nobody waits for.
    out: Vec<bool>,
    repaired: u64,
}

impl Receivers {
    fn new(errors: Arc<ClockErrors>, count: usize) -> Receivers {
        let delays = (0..count).map(|_| OwdEstimator::new(WINDOW, PERMILLE)).collect();
        let (clocks, ready, out) = (vec![0; count], vec![0; count], vec![false; count]);
        Receivers { errors, clocks, look: None, ready, delays, out, repaired: 0 }
    }

    /// Nobody waits any more for so many of a thousand, those with the longest delays.
    fn leave_out(&mut self, permille: usize) {
        let count = self.delays.len() * permille / 1_000;
        let slowness = |(index, delays): (usize, &mut OwdEstimator)| {
            (std::cmp::Reverse(delays.percentile_ns(PERMILLE)), index)
        };
        let mut all: Vec<_> = self.delays.iter_mut().enumerate().map(slowness).collect();
        all.sort_unstable();
        all.iter().take(count).for_each(|(_, index)| self.out[*index] = true);
    }

    /// All receivers report their delay up the tree, and each node the longest it heard of.
    fn report(&mut self, flow: &mut Flow, round: u64) {
        let tree: Tree = *flow.tree();
        let nodes = tree.topology.nodes();
        let first = nodes - self.delays.len();
        let mut heard = vec![0; nodes];
        for (index, delays) in self.delays.iter_mut().enumerate() {
            heard[first + index] = delays.percentile_ns(PERMILLE).unwrap_or(0);
        }
        for node in (1..nodes).rev() {
            let child = NodeId(node as u16);
            let parent = tree.reduce_parent(child, round).unwrap_or(ROOT);
            flow.report(parent, child, heard[node]);
            let above = usize::from(parent.0);
            heard[above] = heard[above].max(heard[node]);
        }
    }

    fn read_clocks(&mut self, at: u64) {
        let look = Some(ClockErrors::look(at));
        if self.look != look {
            self.look = look;
            for (receiver, clock) in self.clocks.iter_mut().enumerate() {
                *clock = self.errors.error_ns(receiver, at);
            }
        }
    }

    /// How far the slowest clock is behind, and how far it and the fastest are apart.
    fn clocks_range(&self) -> (i64, u64) {
        let (least, most) = (self.clocks.iter().min(), self.clocks.iter().max());
        let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
        (-least, (most - least) as u64)
    }

    fn take(&mut self, sent_at: u64, arrivals: &[u64]) -> Message {
        let (mut needed_ns, mut owd_ns, mut sum, mut oml_ns, mut missing) = (0, 0, 0, 0, false);
        let mut waited = 0;
        for (index, arrival) in arrivals.iter().enumerate() {
            if self.out[index] {
                continue;
            }
            let lost = *arrival == LOST;
            missing |= lost;
            // The next message shows the gap.
            let arrival = match lost {
                true => sent_at + INTERVAL_NS + GAP_WAIT_NS + REPAIR_NS,
                false => *arrival,
            };
            oml_ns = oml_ns.max(arrival - sent_at);
            let own = |at: u64| (at - sent_at).saturating_add_signed(self.clocks[index]);
            let delay = own(arrival);
            owd_ns = owd_ns.max(delay);
            if !lost {
                // Repairs are no measure of the tree's delay.
                self.delays[index].sample(delay);
            }
            self.ready[index] = self.ready[index].max(arrival);
            let needed = own(self.ready[index]);
            needed_ns = needed_ns.max(needed);
            sum += needed;
            waited += 1;
        }
        self.repaired += u64::from(missing);
        Message { needed_ns, owd_ns, mean_ns: sum / waited.max(1), oml_ns }
    }

    /// The maximum over receivers of a percentile of theirs.
    fn max_of_percentiles(&mut self, permille: u32) -> u64 {
        let waited = self.delays.iter_mut().zip(&self.out).filter(|(_, out)| !**out);
        let each = waited.filter_map(|(delays, _)| delays.percentile_ns(permille));
        each.max().unwrap_or(0)
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
    /// The same in true time.
    true_windows: Vec<u64>,
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
        self.true_windows.push(late + spread);
    }

    fn outcome(mut self, kind: Kind) -> Outcome {
        let count = self.omls.len().max(1) as f64;
        let dws_ns = median(&mut self.windows) as f64;
        Outcome {
            kind,
            p_on_time: self.on_time as f64 / count,
            p_fair: self.fair as f64 / count,
            dws_ns,
            dws_p99_ns: percentile(&mut self.windows, 0.99) as f64,
            dws_true_ns: median(&mut self.true_windows) as f64,
            oml_release_ns: median(&mut self.omls) as f64,
            hold_ns: self.hold_ns as f64 / count,
            omls: self.omls,
            windows: self.windows,
        }
    }
}
