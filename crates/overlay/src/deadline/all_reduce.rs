//! The maximum of all receivers' delay estimates, carried up the tree round by round
//! (Jasper appendix E; corner 15).
//!
//! Reports may carry [`Sample`]s, which are merged alike and given to the root's [`Estimator`].
//!
//! Rounds are numbered by the exchange clock. In round r a node reports to its own parent for
//! message r. A [`RoundTable`] merges the reports of the own children and gives the result when all
//! came, or at the latest a quarter of a round per layer below after the round began: silent
//! children are not waited for. Repeated reports, those of other nodes and those of distant rounds
//! are dropped and counted; values are cut to a maximum, so that no receiver can delay everybody
//! at will.
//!
//! At the root a [`DelayReducer`] turns results into the delay that deadlines use. A round that
//! speaks for every receiver is taken as it is; one that does not, or a round nobody reported in,
//! may raise the value at once but lower it by 1/16 only, because the report that is missing may be
//! the slowest receiver's. After `expiry_rounds` of silence there is no estimate any more.

use types::{Nanos, NodeId};

use crate::{
    deadline::estimator::{Estimator, EstimatorState},
    deadline::samples::{self, Sample, SampleSet},
    frame::DelayBody,
    tree::topology::Tree,
};

/// Rounds that may be under way at one time.
const OPEN_ROUNDS: usize = 4;
/// Largest distance of a report's round from the present one.
const ROUND_REACH: u64 = 2;
/// An incomplete round lowers the root's values by 1 / 2^this at most.
const FALL_SHIFT: u32 = 4;

/// Bounds on the values that the all-reduce believes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayLimits {
    /// No delay counts for more, in ns.
    pub owd_max_ns: u64,
    /// No clock bound counts for more, in ns.
    pub bound_max_ns: u64,
    /// Silent rounds after which the root has no estimate.
    pub expiry_rounds: u64,
    /// Sampled messages per round, at most [`crate::samples::SAMPLES_MAX`]; 0: none. As the
    /// receivers', and needed by some [`Estimator`]s.
    pub samples: usize,
}

impl Default for DelayLimits {
    fn default() -> Self {
        DelayLimits {
            owd_max_ns: 50 * Nanos::MILLI,
            bound_max_ns: 10 * Nanos::MILLI,
            expiry_rounds: 64,
            samples: 0,
        }
    }
}

/// Maximum over a set of receivers: delay, clock bound, and how many receivers are in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelayValue {
    /// Largest delay estimate of the receivers below, ns.
    pub owd_ns: u64,
    /// Largest clock bound of the receivers below, ns.
    pub bound_ns: u64,
    /// Number of receivers that the value speaks for.
    pub receivers: u32,
}

/// What a [`RoundTable`] has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReduceStats {
    /// Number of reports that were merged.
    pub merged: u64,
    /// Reports refused: repeated, after the result was given, from other nodes or distant rounds.
    pub refused: u64,
    /// Values that were cut to the maximum.
    pub cut: u64,
    /// Number of results that were given without some child's report.
    pub incomplete: u64,
}

struct Round {
    number: u64,
    /// Reports are awaited; when false the result was given, or there never was one.
    open: bool,
    due: Nanos,
    value: DelayValue,
    samples: SampleSet,
    reported: Vec<u64>,
    count: usize,
}

/// Merges the reports of one node's own children.
pub struct RoundTable {
    tree: Tree,
    node: NodeId,
    limits: DelayLimits,
    layers_below: u64,
    rounds: [Round; OPEN_ROUNDS],
    stats: ReduceStats,
}

impl RoundTable {
    /// The table of `node` (a proxy or the root).
    pub fn new(tree: Tree, node: NodeId, limits: DelayLimits) -> RoundTable {
        let depth = tree.topology.depth();
        let layers_below = match tree.topology.locate(node) {
            Some((layer, _)) => depth - 1 - layer,
            None => depth,
        };
        let rounds = std::array::from_fn(|_| Round {
            number: 0,
            open: false,
            due: Nanos::NEVER,
            value: DelayValue::default(),
            samples: SampleSet::new(limits.samples),
            reported: Vec::new(),
            count: 0,
        });
        RoundTable {
            tree,
            node,
            limits,
            layers_below: layers_below as u64,
            rounds,
            stats: ReduceStats::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> ReduceStats {
        self.stats
    }

    /// Merges one report and the bytes of its samples; the round's number and result when it was the last one awaited.
    pub fn report(
        &mut self,
        now: Nanos,
        sender: NodeId,
        body: &DelayBody,
        samples: &[u8],
    ) -> Option<(u64, DelayValue)> {
        let admitted = samples::read(body.samples, samples)
            .and_then(|samples| Some((samples, self.admit(now, sender, body)?)));
        let Some((samples, (position, children))) = admitted else {
            self.stats.refused += 1;
            return None;
        };
        let round = &mut self.rounds[(body.round % OPEN_ROUNDS as u64) as usize];
        let limits = self.limits;
        self.stats.cut += u64::from(body.owd_ns > limits.owd_max_ns);
        self.stats.cut += u64::from(body.bound_ns > limits.bound_max_ns);
        round.value.owd_ns = round.value.owd_ns.max(body.owd_ns.min(limits.owd_max_ns));
        round.value.bound_ns = round.value.bound_ns.max(body.bound_ns.min(limits.bound_max_ns));
        round.value.receivers = round.value.receivers.saturating_add(body.receivers);
        for mut sample in samples {
            let cap = limits.owd_max_ns.min(u64::from(u32::MAX)) as u32;
            self.stats.cut += u64::from(sample.owd_ns > cap);
            sample.owd_ns = sample.owd_ns.min(cap);
            // Nobody speaks for more receivers by a sample than by the report.
            sample.receivers = u32::from(sample.receivers).min(body.receivers) as u16;
            round.samples.add(sample);
        }
        round.reported[position / 64] |= 1 << (position % 64);
        round.count += 1;
        self.stats.merged += 1;
        if round.count < children {
            return None;
        }
        round.open = false;
        Some((round.number, round.value))
    }

    /// The samples merged in a round that was reported in not long ago.
    pub fn samples(&self, round: u64) -> &[Sample] {
        let found = &self.rounds[(round % OPEN_ROUNDS as u64) as usize];
        if found.number == round { found.samples.as_slice() } else { &[] }
    }

    /// Time at which the result of an open round is due, with or without all reports;
    /// [`Nanos::NEVER`] while no round is open.
    pub fn next_timeout(&self) -> Nanos {
        let open = self.rounds.iter().filter(|round| round.open);
        open.map(|round| round.due).min().unwrap_or(Nanos::NEVER)
    }

    /// A result that is due; call until there is none.
    pub fn take_due(&mut self, now: Nanos) -> Option<(u64, DelayValue)> {
        let round = self.rounds.iter_mut().find(|round| round.open && round.due <= now)?;
        round.open = false;
        self.stats.incomplete += 1;
        Some((round.number, round.value))
    }

    /// Position of the sender among the children of that round, when its report is wanted; opens
    /// the round when it is the first.
    fn admit(&mut self, now: Nanos, sender: NodeId, body: &DelayBody) -> Option<(usize, usize)> {
        let round_ns = self.tree.round_ns.max(1);
        let present = now.0 / round_ns;
        if body.round.abs_diff(present) > ROUND_REACH || body.stream != self.tree.stream {
            return None;
        }
        let (topology, dynamic) = (&self.tree.topology, self.tree.dynamic);
        let found = topology.own_child(self.node, sender, body.round, dynamic)?;
        let round = &mut self.rounds[(body.round % OPEN_ROUNDS as u64) as usize];
        if body.round < round.number || (body.round == round.number && !round.open) {
            return None;
        }
        if body.round > round.number {
            let quarter = round_ns / 4;
            let scheduled =
                Nanos(body.round.saturating_mul(round_ns)) + quarter * self.layers_below;
            round.number = body.round;
            round.open = true;
            round.due = scheduled.max(now + quarter / 2);
            round.value = DelayValue::default();
            round.samples.clear();
            round.reported.clear();
            round.reported.resize(found.1.div_ceil(64), 0);
            round.count = 0;
        }
        let repeated = round.reported[found.0 / 64] >> (found.0 % 64) & 1 == 1;
        (!repeated).then_some(found)
    }
}

/// The root's end of the all-reduce: OWD_G and the fleet's largest clock bound.
pub struct DelayReducer {
    table: RoundTable,
    receivers: u32,
    round_ns: u64,
    limits: DelayLimits,
    last_round: u64,
    current: Option<DelayValue>,
    estimator: EstimatorState,
}

impl DelayReducer {
    /// The reducer of a tree's root.
    pub fn new(tree: Tree, limits: DelayLimits) -> DelayReducer {
        DelayReducer::with_estimator(tree, limits, Estimator::MaxOfPercentiles)
    }

    /// A reducer that takes the fleet's delay from reports in another way.
    pub fn with_estimator(tree: Tree, limits: DelayLimits, kind: Estimator) -> DelayReducer {
        DelayReducer {
            table: RoundTable::new(tree, crate::tree::topology::ROOT, limits),
            receivers: tree.topology.receivers() as u32,
            round_ns: tree.round_ns.max(1),
            limits,
            last_round: 0,
            current: None,
            estimator: EstimatorState::new(kind, limits.owd_max_ns),
        }
    }

    /// The estimator, for what it has counted.
    pub fn estimator(&self) -> &EstimatorState {
        &self.estimator
    }

    /// The samples of the last result's round.
    pub fn last_samples(&self) -> &[Sample] {
        self.table.samples(self.last_round)
    }

    /// Reports come through another tree from now on; the estimate stays until they do.
    pub fn change_tree(&mut self, tree: Tree) {
        let stats = self.table.stats();
        self.table = RoundTable::new(tree, crate::tree::topology::ROOT, self.limits);
        self.table.stats = stats;
        self.receivers = tree.topology.receivers() as u32;
        self.round_ns = tree.round_ns.max(1);
    }

    /// What was counted since the start.
    pub fn stats(&self) -> ReduceStats {
        self.table.stats()
    }

    /// A report from layer 0 and the bytes of its samples; whether there is a new result.
    pub fn handle_delay(
        &mut self,
        now: Nanos,
        sender: NodeId,
        body: &DelayBody,
        samples: &[u8],
    ) -> bool {
        let result = self.table.report(now, sender, body, samples);
        result.is_some_and(|(round, value)| self.settle(round, value))
    }

    /// Closes rounds that are due; whether there is a new result.
    pub fn handle_timeout(&mut self, now: Nanos) -> bool {
        let mut settled = false;
        while let Some((round, value)) = self.table.take_due(now) {
            settled |= self.settle(round, value);
        }
        settled
    }

    /// Time at which the next round is due.
    pub fn next_timeout(&self) -> Nanos {
        self.table.next_timeout()
    }

    /// OWD_G in ns; `None` before the first result and after the last one expired.
    pub fn owd_g(&self, now: Nanos) -> Option<u64> {
        self.aged(now).map(|value| value.owd_ns)
    }

    /// Largest clock bound of the fleet as last reported, ns; 0 while unknown. Missing reports
    /// lower the delay, so that a lost path delays no receiver, but they do not lower the bound.
    pub fn bound_ns(&self) -> u64 {
        self.current.map_or(0, |value| value.bound_ns)
    }

    /// Takes over the values of an earlier reducer, as if a round had just brought them; later
    /// rounds without reports lower them as slowly as its own values.
    pub fn go_on(&mut self, now: Nanos, owd_ns: u64, bound_ns: u64) {
        let DelayLimits { owd_max_ns, bound_max_ns, .. } = self.limits;
        let (owd_ns, bound_ns) = (owd_ns.min(owd_max_ns), bound_ns.min(bound_max_ns));
        self.current = Some(DelayValue { owd_ns, bound_ns, receivers: 0 });
        // The round under way is to be heard.
        self.last_round = (now.0 / self.round_ns).saturating_sub(1);
    }

    /// How many receivers the last result speaks for.
    pub fn receivers_heard(&self) -> u32 {
        self.current.map_or(0, |value| value.receivers)
    }

    /// The current value less what the silent rounds until `now` took off it.
    fn aged(&self, now: Nanos) -> Option<DelayValue> {
        // A round's result comes up to a quarter of a round per layer after its beginning.
        let under_way = 2 + self.table.layers_below / 4;
        let silent = (now.0 / self.round_ns).saturating_sub(self.last_round + under_way);
        if silent >= self.limits.expiry_rounds {
            return None;
        }
        let value = self.current?;
        Some((0..silent).fold(value, |value, _| lowered(value)))
    }

    fn settle(&mut self, round: u64, mut value: DelayValue) -> bool {
        if round <= self.last_round && self.current.is_some() {
            return false;
        }
        let samples = self.table.samples(round);
        value.owd_ns = self.estimator.round(value.owd_ns, value.receivers, samples);
        let complete = value.receivers >= self.receivers;
        let floor = match self.current {
            Some(current) if !complete => {
                let missed = round.saturating_sub(self.last_round).min(self.limits.expiry_rounds);
                (0..missed).fold(current, |value, _| lowered(value))
            }
            _ => DelayValue::default(),
        };
        self.current = Some(DelayValue {
            owd_ns: value.owd_ns.max(floor.owd_ns),
            bound_ns: value.bound_ns.max(floor.bound_ns),
            receivers: value.receivers.min(self.receivers),
        });
        self.last_round = round;
        true
    }
}

fn lowered(value: DelayValue) -> DelayValue {
    let less = |ns: u64| ns - (ns >> FALL_SHIFT);
    DelayValue { owd_ns: less(value.owd_ns), bound_ns: less(value.bound_ns), ..value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::topology::{ROOT, Topology};
    use proptest::prelude::*;

    const ROUND: u64 = 50 * Nanos::MILLI;

    fn tree(depth: usize, fanout: usize, receivers: usize) -> Tree {
        let topology = Topology::new(depth, fanout, receivers).unwrap();
        Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns: ROUND }
    }

    fn body(round: u64, owd_ns: u64, receivers: u32) -> DelayBody {
        DelayBody { round, owd_ns, bound_ns: 7, receivers, stream: 0, samples: 0 }
    }

    #[test]
    fn the_root_takes_the_maximum_when_all_children_reported() {
        let mut root = DelayReducer::new(tree(2, 3, 9), DelayLimits::default());
        let now = Nanos(10 * ROUND);
        assert_eq!(root.owd_g(now), None);
        root.handle_delay(now, NodeId(1), &body(10, 100, 3), &[]);
        root.handle_delay(now, NodeId(1), &body(10, 900, 3), &[]);
        root.handle_delay(now, NodeId(4), &body(10, 900, 3), &[]);
        root.handle_delay(now, NodeId(2), &body(10, 300, 3), &[]);
        assert_eq!(root.owd_g(now), None, "a repeated child and a foreign one count for nothing");
        root.handle_delay(now, NodeId(3), &body(10, 200, 3), &[]);
        assert_eq!((root.owd_g(now), root.bound_ns()), (Some(300), 7));
        assert_eq!((root.stats().merged, root.stats().refused), (3, 2));
        for node in 1..=3 {
            root.handle_delay(now + ROUND, NodeId(node), &body(11, 50, 3), &[]);
        }
        assert_eq!(root.owd_g(now + ROUND), Some(50), "a complete round is taken as it is");
    }

    #[test]
    fn silent_children_delay_nothing_and_lower_slowly() {
        let mut root = DelayReducer::new(tree(2, 3, 9), DelayLimits::default());
        let now = Nanos(10 * ROUND);
        for node in 1..=3 {
            root.handle_delay(now, NodeId(node), &body(10, 16_000, 3), &[]);
        }
        root.handle_delay(now + ROUND, NodeId(1), &body(11, 1_000, 3), &[]);
        let due = root.next_timeout();
        assert_eq!(due, now + ROUND + ROUND / 2);
        root.handle_timeout(due);
        assert_eq!((root.owd_g(due), root.stats().incomplete), (Some(15_000), 1));
        assert_eq!(root.receivers_heard(), 3);
        assert_eq!(root.next_timeout(), Nanos::NEVER);
        assert!(root.owd_g(due + 10 * ROUND).unwrap() < 15_000);
        assert_eq!(root.owd_g(due + 100 * ROUND), None);
    }

    #[test]
    fn silence_makes_no_clock_better() {
        let mut root = DelayReducer::new(tree(1, 1, 1), DelayLimits::default());
        let now = Nanos(10 * ROUND);
        let wrong = DelayBody { bound_ns: 20_000, ..body(10, 1_000_000, 1) };
        root.handle_delay(now, NodeId(1), &wrong, &[]);
        for (rounds, is_known) in [(1, true), (30, true), (100, false)] {
            let at = now + rounds * ROUND;
            assert_eq!((root.owd_g(at).is_some(), root.bound_ns()), (is_known, 20_000));
        }
        root.handle_delay(now + 100 * ROUND, NodeId(1), &body(110, 1_000_000, 1), &[]);
        assert_eq!(root.bound_ns(), 7, "a report that is complete says what it is now");
    }

    #[test]
    fn liars_are_cut_and_distant_rounds_refused() {
        let mut root = DelayReducer::new(tree(1, 1, 1), DelayLimits::default());
        let now = Nanos(10 * ROUND);
        root.handle_delay(now, NodeId(1), &body(u64::MAX, 5, 1), &[]);
        root.handle_delay(now, NodeId(1), &body(7, 5, 1), &[]);
        assert_eq!(root.stats().refused, 2);
        let liar = DelayBody { bound_ns: u64::MAX, ..body(10, u64::MAX, u32::MAX) };
        root.handle_delay(now, NodeId(1), &liar, &[]);
        let limits = DelayLimits::default();
        assert_eq!(root.owd_g(now), Some(limits.owd_max_ns));
        assert_eq!(root.bound_ns(), limits.bound_max_ns);
        assert_eq!((root.receivers_heard(), root.stats().cut), (1, 2));
    }

    #[test]
    fn a_proxy_gives_each_round_once() {
        let tree = tree(2, 3, 9);
        let mut table = RoundTable::new(tree, NodeId(1), DelayLimits::default());
        let now = Nanos(10 * ROUND);
        let children: Vec<_> = tree.topology.children(NodeId(1), 10, 0, true).collect();
        assert_eq!(table.report(now, children[0], &body(10, 3, 1), &[]), None);
        assert_eq!(table.report(now, children[1], &body(10, 5, 1), &[]), None);
        assert_eq!(table.next_timeout(), now + ROUND / 4);
        assert_eq!(table.take_due(now), None);
        let (round, value) = table.take_due(now + ROUND / 4).unwrap();
        assert_eq!((round, value.owd_ns, value.receivers), (10, 5, 2));
        assert_eq!(table.report(now, children[2], &body(10, 9, 1), &[]), None, "too late");
        assert_eq!(table.stats().refused, 1);
    }

    proptest! {
        #[test]
        fn arbitrary_reports_never_panic_or_exceed_the_limits(
            reports in prop::collection::vec(
                (0u64..14, 0u16..20, any::<u64>(), any::<u64>(), any::<u32>(), 0u64..5), 0..200),
        ) {
            let limits = DelayLimits::default();
            let mut root = DelayReducer::new(tree(1, 1, 9), limits);
            let mut now = Nanos(0);
            for (round, sender, owd_ns, bound_ns, receivers, pass) in reports {
                now = now + pass * ROUND / 4;
                let body = DelayBody { round, owd_ns, bound_ns, receivers, stream: 0, samples: 0 };
                root.handle_delay(now, NodeId(sender), &body, &[]);
                root.handle_timeout(now);
                prop_assert!(root.owd_g(now).unwrap_or(0) <= limits.owd_max_ns);
                prop_assert!(root.bound_ns() <= limits.bound_max_ns);
            }
            prop_assert_eq!(root.table.node, ROOT);
        }
    }
}
