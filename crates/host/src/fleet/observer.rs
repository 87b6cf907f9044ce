//! How fair the venue is, live: what all machines saw of sampled datagrams of the feed, and the order
//! in which orders were handled, each with what the clocks leave open.
//!
//! Machines send [`Observation`]s of every so many-th datagram to the replica that leads. A datagram
//! counts once all receivers that are expected have released it. Of the last [`SPAN_NS`] come: the time
//! from publication to the last arrival and the last release (OML), the time between the first and
//! the last release (DWS), and the share of datagrams released everywhere within a window (P(F)).
//! Clocks of two machines may differ by the sum of their bounds, so P(F) is an interval: datagrams that
//! were surely within the window, and those that may have been.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use types::{Input, Nanos, Trace, TracePoint};

use super::plan::Measured;

/// Time that the figures are of, ns.
pub const SPAN_NS: u64 = 10 * Nanos::SECOND;
/// A datagram that is not released everywhere after so long counts as incomplete, ns.
const COMPLETE_NS: u64 = 2 * Nanos::SECOND;
/// Datagrams that are waited for, and those that figures are of, at most.
const MESSAGES_MAX: usize = 8_192;
/// Receivers of a venue, and accounts, at most.
const RECEIVERS_MAX: usize = 256;
/// Orders of the last span at most.
const ORDERS_MAX: usize = 65_536;

/// What one machine saw of a datagram: point (0 published, 1 arrived, 2 released), overlay node, id,
/// and when, ns on its clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Observation(pub u8, pub u16, pub u64, pub u64);

impl Observation {
    /// What a trace says.
    pub fn of(trace: &Trace) -> Observation {
        let point = match trace.point {
            TracePoint::Published => 0,
            TracePoint::Arrived => 1,
            TracePoint::Released | TracePoint::ReleasedLate | TracePoint::ReleasedBlocked => 2,
        };
        Observation(point, trace.node.0, trace.id, trace.at.0)
    }
}

/// Quantiles of times, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Spread {
    /// The median.
    pub p50: u64,
    /// 99 of 100 are not above.
    pub p99: u64,
}

impl Spread {
    fn of(mut values: Vec<u64>) -> Spread {
        values.sort_unstable();
        let at = |permille: usize| {
            let rank = (values.len() * permille).div_ceil(1_000).max(1);
            values.get(rank - 1).copied().unwrap_or(0)
        };
        Spread { p50: at(500), p99: at(990) }
    }
}

/// Fairness of the last span.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Fairness {
    /// Datagrams that all expected receivers released.
    pub messages: u64,
    /// Those that some did not.
    pub incomplete: u64,
    /// From publication to the first arrival.
    pub first_arrival_ns: Spread,
    /// From publication to the last arrival.
    pub oml_arrival_ns: Spread,
    /// From publication to the last release.
    pub oml_release_ns: Spread,
    /// From the first release to the last.
    pub dws_ns: Spread,
    /// Two clocks differ by so much at most, ns.
    pub uncertainty_ns: u64,
    /// Window of the following, ns.
    pub window_ns: u64,
    /// Share of datagrams released everywhere within the window: surely, and perhaps.
    pub p_fair: (f64, f64),
    /// By receiver: how much later than the first one it released.
    pub behind_first: BTreeMap<u16, Spread>,
    /// Orders handled in the last span.
    pub orders: Inbound,
}

/// Orders in the order in which they were handled, by their times at the gateways.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Inbound {
    /// Orders of the last span, counted.
    pub orders: u64,
    /// Those handled after one that had come to a gateway later.
    pub inverted: u64,
    /// Those for which that is so whatever the clocks' errors.
    pub surely_inverted: u64,
    /// From the gateway to the log.
    pub way_ns: Spread,
    /// By account: orders, those inverted, and their way.
    pub accounts: BTreeMap<u16, (u64, u64, Spread)>,
}

#[derive(Clone, Debug, Default)]
struct Seen {
    /// When it was first heard of.
    since: u64,
    sent: Option<u64>,
    arrived: BTreeMap<u16, u64>,
    released: BTreeMap<u16, u64>,
}

#[derive(Clone, Debug)]
struct Outcome {
    sent: u64,
    first_arrival: u64,
    last_arrival: u64,
    released: BTreeMap<u16, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    at: u64,
    account: u16,
    way_ns: u64,
    /// How much later than this one an order handled before it had come to a gateway.
    inverted_ns: u64,
}

/// What the replica that leads makes of observations.
#[derive(Debug, Default)]
pub struct Observer {
    waiting: BTreeMap<u64, Seen>,
    outcomes: VecDeque<Outcome>,
    /// When each datagram of the last span was given up.
    incomplete: VecDeque<u64>,
    orders: VecDeque<Order>,
    /// When it was last settled.
    now: u64,
    /// The latest time at a gateway of all orders handled.
    latest: u64,
    /// Inputs of the log looked at.
    inputs: u64,
}

impl Observer {
    /// A machine has seen something. Times of a thing seen twice are the first ones.
    pub fn observe(&mut self, seen: Observation) {
        let Observation(point, node, id, at) = seen;
        if !self.waiting.contains_key(&id) && self.waiting.len() >= MESSAGES_MAX {
            return;
        }
        let since = self.now;
        let one = self.waiting.entry(id).or_insert_with(|| Seen { since, ..Seen::default() });
        let times = match point {
            0 => {
                one.sent.get_or_insert(at);
                return;
            }
            1 => &mut one.arrived,
            _ => &mut one.released,
        };
        if times.len() < RECEIVERS_MAX {
            times.entry(node).or_insert(at);
        }
    }

    /// When it was last settled, ns of the root's clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Settles what is complete at `now`, of the receivers that are expected.
    pub fn settle(&mut self, now: Nanos, expected: &BTreeSet<u16>) {
        let (outcomes, incomplete) = (&mut self.outcomes, &mut self.incomplete);
        self.now = now.0;
        self.waiting.retain(|_, seen| {
            let over = now.0.saturating_sub(seen.since) >= COMPLETE_NS;
            // One of before this replica led, or whose publication is on its way.
            let Some(sent) = seen.sent else { return !over };
            let all = |of: &BTreeMap<u16, u64>| expected.iter().all(|node| of.contains_key(node));
            if all(&seen.released) && all(&seen.arrived) && !expected.is_empty() {
                let first_arrival = seen.arrived.values().min().copied().unwrap_or(sent);
                let last_arrival = seen.arrived.values().max().copied().unwrap_or(sent);
                let released = std::mem::take(&mut seen.released);
                outcomes.push_back(Outcome { sent, first_arrival, last_arrival, released });
                return false;
            }
            if over && !expected.is_empty() {
                incomplete.push_back(sent);
            }
            !over
        });
        let old = now.0.saturating_sub(SPAN_NS);
        while outcomes.len() > MESSAGES_MAX || outcomes.front().is_some_and(|of| of.sent < old) {
            outcomes.pop_front();
        }
        while incomplete.len() > MESSAGES_MAX || incomplete.front().is_some_and(|at| *at < old) {
            incomplete.pop_front();
        }
        while self.orders.len() > ORDERS_MAX || self.orders.front().is_some_and(|of| of.at < old) {
            self.orders.pop_front();
        }
    }

    /// Inputs of the log looked at so far.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// The next inputs of the log, in their order.
    pub fn handle(&mut self, inputs: impl IntoIterator<Item = Input>) {
        for input in inputs {
            self.inputs = input.seq.0;
            if input.source.gateway.0 == 0 {
                continue;
            }
            let inverted_ns = self.latest.saturating_sub(input.t_in.0);
            self.latest = self.latest.max(input.t_in.0);
            let way_ns = input.t_seq.since(input.t_in);
            let account = input.command.account.0;
            self.orders.push_back(Order { at: input.t_seq.0, account, way_ns, inverted_ns });
            if self.orders.len() > ORDERS_MAX {
                self.orders.pop_front();
            }
        }
    }

    /// This replica has begun to lead, or what it looked at is not to be had any more.
    pub fn begin(&mut self, inputs: u64) {
        *self = Observer { inputs, ..Observer::default() };
    }

    /// Figures of the last span, where two clocks differ by `uncertainty_ns` at most, with P(F) within
    /// `window_ns`.
    pub fn fairness(&self, uncertainty_ns: u64, window_ns: u64) -> Fairness {
        let all = || self.outcomes.iter();
        let ends = |of: &Outcome| {
            let (first, last) = (of.released.values().min(), of.released.values().max());
            (first.copied().unwrap_or(0), last.copied().unwrap_or(0))
        };
        let dws: Vec<u64> = all().map(|of| ends(of).1 - ends(of).0).collect();
        let share = |within: &dyn Fn(u64) -> bool| {
            dws.iter().filter(|ns| within(**ns)).count() as f64 / dws.len().max(1) as f64
        };
        let sure = share(&|ns| ns.saturating_add(uncertainty_ns) <= window_ns);
        let perhaps = share(&|ns| ns <= window_ns.saturating_add(uncertainty_ns));
        let mut behind: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for of in all() {
            let first = ends(of).0;
            for (node, at) in &of.released {
                behind.entry(*node).or_default().push(at - first);
            }
        }
        Fairness {
            messages: dws.len() as u64,
            incomplete: self.incomplete.len() as u64,
            first_arrival_ns: Spread::of(
                all().map(|of| of.first_arrival.saturating_sub(of.sent)).collect(),
            ),
            oml_arrival_ns: Spread::of(
                all().map(|of| of.last_arrival.saturating_sub(of.sent)).collect(),
            ),
            oml_release_ns: Spread::of(
                all().map(|of| ends(of).1.saturating_sub(of.sent)).collect(),
            ),
            dws_ns: Spread::of(dws),
            uncertainty_ns,
            window_ns,
            p_fair: (sure, perhaps),
            behind_first: behind.into_iter().map(|(node, ns)| (node, Spread::of(ns))).collect(),
            orders: self.inbound(uncertainty_ns),
        }
    }

    /// What datagrams of the last span took to arrive that were not sent in a span `without`, ns of the
    /// observer's clock ([`Observer::now`]).
    pub fn ways(&self, without: &[Range<u64>]) -> Measured {
        let sent_outside = |of: &&Outcome| !without.iter().any(|span| span.contains(&of.sent));
        let all = || self.outcomes.iter().filter(sent_outside);
        let first = Spread::of(all().map(|of| of.first_arrival.saturating_sub(of.sent)).collect());
        let last = Spread::of(all().map(|of| of.last_arrival.saturating_sub(of.sent)).collect());
        Measured {
            messages: all().count() as u64,
            p50_ns: last.p50,
            p99_ns: last.p99,
            first_ns: first.p50,
            calm_ns: calm(all().map(|of| of.last_arrival.saturating_sub(of.sent)).collect()),
        }
    }

    fn inbound(&self, uncertainty_ns: u64) -> Inbound {
        let inverted = |of: &&Order| of.inverted_ns > 0;
        let surely = |of: &&Order| of.inverted_ns > uncertainty_ns;
        let mut accounts: BTreeMap<u16, (u64, u64, Vec<u64>)> = BTreeMap::new();
        for order in &self.orders {
            let (orders, turned, ways) = accounts.entry(order.account).or_default();
            *orders += 1;
            *turned += u64::from(order.inverted_ns > 0);
            ways.push(order.way_ns);
        }
        Inbound {
            orders: self.orders.len() as u64,
            inverted: self.orders.iter().filter(inverted).count() as u64,
            surely_inverted: self.orders.iter().filter(surely).count() as u64,
            way_ns: Spread::of(self.orders.iter().map(|of| of.way_ns).collect()),
            accounts: accounts
                .into_iter()
                .map(|(account, (orders, turned, ways))| {
                    (account, (orders, turned, Spread::of(ways)))
                })
                .collect(),
        }
    }
}

/// The lower quartile of the medians of up to ten equal parts in a row, of 50 figures each at least: what figures are
/// like while a machine has little else to do.
fn calm(in_order: Vec<u64>) -> u64 {
    let parts = (in_order.len() / 50).clamp(1, 10);
    let part = |at: usize| at * in_order.len() / parts;
    let median = |at: usize| Spread::of(in_order[part(at)..part(at + 1)].to_vec()).p50;
    let mut medians: Vec<u64> = (0..parts).map(median).collect();
    medians.sort_unstable();
    medians[(parts - 1) / 4]
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use types::{AccountId, Command, CommandKind, GatewayId, Seq, Source};

    use super::*;

    const BASE: u64 = 1_000 * Nanos::SECOND;

    fn expected(nodes: &[u16]) -> BTreeSet<u16> {
        nodes.iter().copied().collect()
    }

    fn settled(observer: &mut Observer, after_ns: u64, nodes: &[u16]) -> Fairness {
        observer.settle(Nanos(BASE + after_ns), &expected(nodes));
        observer.fairness(20, 100)
    }

    /// A datagram sent at `at`, which each receiver gets 50 ns and releases so much later.
    fn deliver(observer: &mut Observer, id: u64, at: u64, released: &[(u16, u64)]) {
        observer.observe(Observation(0, 0, id, BASE + at));
        for (node, after) in released {
            observer.observe(Observation(1, *node, id, BASE + at + 50));
            observer.observe(Observation(2, *node, id, BASE + at + after));
        }
    }

    #[test]
    fn ways_are_those_of_datagrams_sent_outside_of_the_spans_left_out() {
        let mut observer = Observer::default();
        for (id, at) in [(1, 0), (2, 1_000), (3, 2_000)] {
            let way = if id == 2 { 700 } else { 50 };
            observer.observe(Observation(0, 0, id, BASE + at));
            for node in [7, 8] {
                observer.observe(Observation(1, node, id, BASE + at + way * u64::from(node - 6)));
                observer.observe(Observation(2, node, id, BASE + at + 5_000));
            }
        }
        settled(&mut observer, 9_000, &[7, 8]);
        assert_eq!(observer.now(), BASE + 9_000);
        let figures = |of: Measured| (of.messages, of.first_ns, of.p50_ns, of.p99_ns);
        assert_eq!(figures(observer.ways(&[])), (3, 50, 100, 1_400));
        let probed = BASE + 1_000..BASE + 2_000;
        assert_eq!(figures(observer.ways(std::slice::from_ref(&probed))), (2, 50, 100, 100));
        let all = [probed, 0..BASE + 1_000, BASE + 2_000..u64::MAX];
        assert_eq!(figures(observer.ways(&all)), (0, 0, 0, 0));
    }

    #[test]
    fn seconds_in_which_a_machine_is_busy_do_not_make_its_ways_longer() {
        assert_eq!((calm(Vec::new()), calm(vec![7]), calm(vec![5; 49])), (0, 7, 5));
        // Too few for parts: the median.
        assert_eq!(calm((1..=99).collect()), 50);
        // Busy for seven parts of ten; the plain median is of those.
        let busy = |at: u64| if at < 700 { 900 } else { 400 };
        assert_eq!(calm((0..1_000).map(busy).collect()), 400);
        assert_eq!(calm((0..1_000).map(|at| busy(at) + at % 7).collect()), 403);
        // Control: busy all the time.
        assert_eq!(calm(vec![900; 1_000]), 900);
    }

    #[test]
    fn a_window_is_kept_surely_perhaps_or_not() {
        let mut observer = Observer::default();
        // Within 60, 90, 110 and 130 ns; clocks may differ by 20, and the window is 100.
        for (id, apart) in (1..).zip([60, 90, 110, 130]) {
            deliver(&mut observer, id, id * 10, &[(7, 500), (8, 500 + apart)]);
        }
        let seen = settled(&mut observer, 1_000, &[7, 8]);
        assert_eq!((seen.messages, seen.incomplete, seen.p_fair), (4, 0, (0.25, 0.75)));
        assert_eq!((seen.dws_ns, seen.oml_arrival_ns.p50), (Spread { p50: 90, p99: 130 }, 50));
        assert_eq!(seen.first_arrival_ns, Spread { p50: 50, p99: 50 });
        assert_eq!(seen.oml_release_ns, Spread { p50: 590, p99: 630 });
        assert_eq!(seen.behind_first[&7], Spread { p50: 0, p99: 0 });
        assert_eq!(seen.behind_first[&8], Spread { p50: 90, p99: 130 });
    }

    #[test]
    fn a_datagram_counts_when_all_have_it_and_is_incomplete_after_two_seconds() {
        let mut observer = Observer::default();
        settled(&mut observer, 0, &[]);
        deliver(&mut observer, 1, 0, &[(7, 500)]);
        assert_eq!(settled(&mut observer, 1_000, &[7, 8]).messages, 0);
        // Whoever is not expected any more, being away or in quarantine, is not waited for.
        assert_eq!(settled(&mut observer, 1_000, &[7]).messages, 1);
        deliver(&mut observer, 2, 0, &[(7, 500)]);
        let late = settled(&mut observer, 3 * Nanos::SECOND, &[7, 8]);
        assert_eq!((late.messages, late.incomplete), (1, 1));
        let gone = settled(&mut observer, 11 * Nanos::SECOND, &[7, 8]);
        assert_eq!((gone.messages, gone.incomplete), (0, 0));
    }

    fn order(seq: u64, account: u16, t_in: u64) -> Input {
        let mut input = Input {
            seq: Seq(seq),
            t_in: Nanos(BASE + t_in),
            t_seq: Nanos(BASE + 1_000),
            source: Source { gateway: GatewayId(1), ..Source::default() },
            flags: 0,
            command: Command::new(CommandKind::NewOrder),
        };
        input.command.account = AccountId(account);
        input
    }

    #[test]
    fn orders_out_of_turn_are_counted_with_what_the_clocks_leave_open() {
        let mut observer = Observer::default();
        let inputs = [order(1, 1, 100), order(2, 2, 90), order(3, 1, 70), order(4, 2, 101)];
        observer.handle(inputs);
        let seen = observer.fairness(20, 100).orders;
        assert_eq!((seen.orders, seen.inverted, seen.surely_inverted), (4, 2, 1));
        assert_eq!(seen.accounts[&2], (2, 1, Spread { p50: 899, p99: 910 }));
        assert_eq!(observer.inputs(), 4);
    }

    proptest! {
        #[test]
        fn whatever_machines_say_memory_is_bounded(
            said in vec((any::<u8>(), any::<u16>(), 0u64..20_000, any::<u64>()), 0..3_000),
            now in any::<u64>(),
        ) {
            let mut observer = Observer::default();
            for (point, node, id, at) in said {
                observer.observe(Observation(point, node, id, at));
            }
            observer.settle(Nanos(now), &expected(&[1, 2]));
            prop_assert!(observer.waiting.len() <= MESSAGES_MAX);
            observer.settle(Nanos(now.saturating_add(3 * Nanos::SECOND)), &expected(&[1, 2]));
            prop_assert!(observer.waiting.is_empty() || now > u64::MAX - 3 * Nanos::SECOND);
            let _ = observer.fairness(u64::MAX, u64::MAX);
        }
    }
}
