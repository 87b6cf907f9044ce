//! One member's part in a job: what it sends when to whom, and what it heard.

use planner::campaign::{Heard, JobKind};
use planner::stats::{Summary, deviations, quantiles};
use types::{Channel, Nanos, Outbox, Peer};

use crate::link::Key;
use crate::message::Order;
use crate::packet::Probe;

/// Value in a series of delays for a probe that did not arrive.
pub const LOST: i32 = i32::MIN;
/// Most probes sent in one call after a delay; the rest follow in the next call.
const BURST: u64 = 32;
/// Time after the last probe during which arrivals still count, ns.
pub const DRAIN_NS: u64 = 100 * Nanos::MILLI;
/// Number of points of a distribution that are reported.
const QUANTILES: usize = 50;
/// Number of slices of a series whose deviations are reported.
const SLICES: usize = 30;

/// A member's part in a job.
#[derive(Debug)]
pub struct Part {
    order: Order,
    key: Key,
    /// Number of probes that this member has to send, and has sent.
    probes: u64,
    sent: u64,
    /// Delays by probe number, of each member; empty for members that it does not listen to.
    series: Vec<Vec<i32>>,
    /// One bit for each probe of a tree that it has passed on.
    passed: Vec<u64>,
}

impl Part {
    /// The part that a checked order gives.
    pub fn new(order: Order, key: Key) -> Part {
        let probes = if sends(&order) { order.probes() } else { 0 };
        let series = (0..order.members.len()).map(|from| vec![LOST; expected(&order, from)]);
        let inner = order.kind == JobKind::Mcast && order.place > 0 && !is_leaf(&order);
        let numbers = if inner { order.probes() } else { 0 };
        let passed = vec![0; numbers.div_ceil(64) as usize];
        Part { series: series.collect(), passed, key, probes, sent: 0, order }
    }

    /// The order that the part carries out.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Time after which arrivals no longer count.
    pub fn end(&self) -> Nanos {
        self.order.end().after(DRAIN_NS)
    }

    /// Time at which the next probe is due, or the end of the part.
    pub fn next_timeout(&self) -> Nanos {
        if self.sent < self.probes { self.due(self.sent) } else { self.end() }
    }

    fn due(&self, number: u64) -> Nanos {
        let after = u128::from(number) * u128::from(Nanos::SECOND) / u128::from(self.order.rate);
        Nanos(self.order.start_ns).after(after.try_into().unwrap_or(u64::MAX))
    }

    /// Sends the probes that are due.
    pub fn send_due(&mut self, now: Nanos, out: &mut Outbox) {
        for _ in 0..BURST {
            if self.sent >= self.probes || self.due(self.sent) > now {
                return;
            }
            let number = self.sent;
            self.sent += 1;
            match self.order.kind {
                JobKind::Parent => self.copies(1..self.order.members.len(), number, now, out),
                JobKind::Mcast => self.copies(self.children(), number, now, out),
                JobKind::Lemon => {
                    let to = (self.order.place + 1 + turn(&self.order, number))
                        % self.order.members.len();
                    self.copies(to..to + 1, number, now, out);
                }
            }
        }
    }

    fn children(&self) -> std::ops::Range<usize> {
        let first = self.order.fanout * self.order.place + 1;
        let members = self.order.members.len();
        first.min(members)..(first + self.order.fanout).min(members)
    }

    fn copies(&self, to: std::ops::Range<usize>, number: u64, sent: Nanos, out: &mut Outbox) {
        let probe = Probe {
            job: self.order.job,
            sender: self.order.place as u16,
            number: number as u32,
            sent_ns: sent.0,
        };
        let bytes = out.store(&probe.encode(&self.key));
        for peer in self.order.members.get(to).unwrap_or(&[]) {
            out.datagram(Channel::OVERLAY, Peer::from(*peer), bytes);
        }
    }

    /// A datagram that may be a probe of this job for this member.
    pub fn decode(&self, bytes: &[u8]) -> Option<Probe> {
        Probe::decode(bytes, &self.key).filter(|probe| {
            probe.job == self.order.job
                && usize::from(probe.sender) < self.order.members.len()
                && usize::from(probe.sender) != self.order.place
                && u64::from(probe.number) < self.order.probes()
        })
    }

    /// A probe arrived at `at`: forwards it or notes its delay. False: it came before, and nothing was
    /// done. An inner member of a tree passes each number on once, whoever repeats it; the root
    /// passes on nothing that it hears.
    pub fn arrive(&mut self, probe: &Probe, at: Nanos, out: &mut Outbox) -> bool {
        let number = u64::from(probe.number);
        if self.order.kind == JobKind::Mcast && !self.children().is_empty() {
            let word = self.passed.get_mut(probe.number as usize / 64);
            let Some(word) = word.filter(|word| **word & 1 << (number % 64) == 0) else {
                return false;
            };
            *word |= 1 << (number % 64);
            self.copies(self.children(), number, Nanos(probe.sent_ns), out);
            return true;
        }
        // A tree's leaf hears the root, whoever passed it on.
        let from = match self.order.kind {
            JobKind::Mcast => 0,
            _ => usize::from(probe.sender),
        };
        let Some(index) = index(&self.order, from, number) else { return true };
        let delay = i128::from(at.0) - i128::from(probe.sent_ns);
        let delay = delay.clamp(i128::from(i32::MIN + 1), i128::from(i32::MAX)) as i32;
        // The first copy counts.
        let entry = self.series.get_mut(from).and_then(|series| series.get_mut(index));
        let Some(entry) = entry.filter(|entry| **entry == LOST) else { return false };
        *entry = delay;
        true
    }

    /// What was heard of each sender, and the series of a tree's leaf.
    pub fn result(&self) -> (Vec<Heard>, Vec<i32>) {
        let heard = self.series.iter().enumerate().filter(|(_, series)| !series.is_empty());
        let heard = heard.map(|(from, series)| {
            // A mesh has too many pairs to draw each.
            summarise(from, series, self.order.kind != JobKind::Lemon)
        });
        let series = match self.order.kind {
            JobKind::Mcast => self.series.first().cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        (heard.collect(), series)
    }
}

/// A series as delays, lost ones without.
pub fn options(series: &[i32]) -> Vec<Option<i64>> {
    series.iter().map(|delay| (*delay != LOST).then_some(i64::from(*delay))).collect()
}

fn summarise(from: usize, series: &[i32], drawn: bool) -> Heard {
    let series = options(series);
    let mut arrived: Vec<i64> = series.iter().flatten().copied().collect();
    let summary = Summary::of(&mut arrived, series.len() as u64);
    let (quantiles_ns, deviations_ns) = match drawn {
        true => {
            (quantiles(&arrived, QUANTILES), deviations(&series, series.len().div_ceil(SLICES)))
        }
        false => (Vec::new(), Vec::new()),
    };
    Heard { from, summary, quantiles_ns, deviations_ns }
}

/// Whether the receiver of an order sends probes of its own.
fn sends(order: &Order) -> bool {
    order.kind == JobKind::Lemon || order.place == 0
}

/// Whose turn it is in a mesh: how many places on, less one.
fn turn(order: &Order, number: u64) -> usize {
    (number % (order.members.len() as u64 - 1)) as usize
}

/// How many probes are counted that the receiver of an order hears from a member.
fn expected(order: &Order, from: usize) -> usize {
    let counted = |number: u64| index(order, from, number).is_some();
    match order.kind {
        // The first number that is counted has index 0, and numbers of one sender to one receiver
        // come at equal steps.
        JobKind::Lemon if from != order.place => {
            let others = order.members.len() as u64 - 1;
            let last = (0..others)
                .filter_map(|back| order.probes().checked_sub(1 + back))
                .find(|number| counted(*number));
            last.and_then(|number| index(order, from, number)).map_or(0, |index| index + 1)
        }
        JobKind::Parent if from == 0 && order.place > 0 => span(order),
        JobKind::Mcast if from == 0 && is_leaf(order) => span(order),
        _ => 0,
    }
}

fn span(order: &Order) -> usize {
    order.probes().saturating_sub(order.uncounted()) as usize
}

fn is_leaf(order: &Order) -> bool {
    order.fanout * order.place + 1 >= order.members.len()
}

/// Where a probe stands in the series of its sender; `None` in the warm-up and for others.
fn index(order: &Order, from: usize, number: u64) -> Option<usize> {
    let first = order.uncounted();
    let counted = number.checked_sub(first)? as usize;
    if order.kind != JobKind::Lemon {
        return Some(counted);
    }
    let members = order.members.len();
    let wanted = (order.place + members - from - 1) % members;
    if turn(order, number) != wanted {
        return None;
    }
    let others = members - 1;
    // Numbers for us: wanted, wanted + others ...; the first at or after the warm-up is index 0.
    let skipped = (first as usize).saturating_sub(wanted).div_ceil(others);
    ((number as usize - wanted) / others).checked_sub(skipped)
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use super::*;
    use types::Op;

    fn key() -> Key {
        Key::new(&[1; 16]).unwrap()
    }

    fn order(kind: JobKind, place: usize, members: u64) -> Order {
        Order {
            job: 1,
            kind,
            place,
            members: (1..=members)
                .map(|host| SocketAddr::from(([127, 0, 0, host as u8], 9_000)))
                .collect(),
            vms: (0..members as usize).collect(),
            fanout: if kind == JobKind::Mcast { 2 } else { 0 },
            rate: 1_000,
            duration_ns: 97 * Nanos::MILLI,
            warmup_ns: 10 * Nanos::MILLI,
            start_ns: 1_000,
            gather_ns: 1,
        }
    }

    /// Carries a job out with a delay of `place` microseconds to every member.
    fn carry_out(kind: JobKind, members: u64) -> Vec<Part> {
        let mut parts: Vec<Part> = (0..members as usize)
            .map(|place| Part::new(order(kind, place, members), key()))
            .collect();
        let mut now = Nanos(0);
        while now < parts[0].end() {
            for place in 0..parts.len() {
                let mut out = Outbox::default();
                parts[place].send_due(now, &mut out);
                let mut flying = all(&parts, &out);
                while !flying.is_empty() {
                    // Forwarded copies go on at once.
                    let mut next = Outbox::default();
                    for (to, probe) in flying {
                        parts[to].arrive(&probe, now.after(1_000 * to as u64), &mut next);
                    }
                    flying = all(&parts, &next);
                }
            }
            now = now.after(100_000);
        }
        parts
    }

    fn all(parts: &[Part], out: &Outbox) -> Vec<(usize, Probe)> {
        let one = |op: &Op| match op {
            Op::Datagram { to, bytes, .. } => {
                let place = parts[0].order.members.iter().position(|at| Peer::from(*at) == *to)?;
                Some((place, parts[place].decode(out.bytes(*bytes))?))
            }
            _ => None,
        };
        out.ops().iter().filter_map(one).collect()
    }

    #[test]
    fn every_candidate_hears_the_parent() {
        let parts = carry_out(JobKind::Parent, 5);
        assert!(parts[0].result().0.is_empty());
        for (place, part) in parts.iter().enumerate().skip(1) {
            let (heard, _) = part.result();
            assert_eq!((heard.len(), heard[0].from), (1, 0));
            assert_eq!((heard[0].summary.received, heard[0].summary.lost), (87, 0));
            assert_eq!(heard[0].summary.p50_ns, 1_000.0 * place as f64);
        }
    }

    #[test]
    fn leaves_hear_the_root_through_the_tree() {
        let parts = carry_out(JobKind::Mcast, 7);
        for (place, part) in parts.iter().enumerate() {
            let (heard, series) = part.result();
            assert_eq!(heard.len(), usize::from(place >= 3));
            assert_eq!(series.len(), if place >= 3 { 87 } else { 0 });
            assert!(series.iter().all(|delay| *delay == 1_000 * place as i32));
        }
    }

    #[test]
    fn in_a_mesh_everybody_hears_everybody_and_nothing_is_lost() {
        for members in [2, 3, 8] {
            let parts = carry_out(JobKind::Lemon, members);
            let mut counted = 0;
            for (place, part) in parts.iter().enumerate() {
                let (heard, _) = part.result();
                assert_eq!(heard.len() as u64, members - 1);
                assert!(heard.iter().all(|heard| heard.from != place && heard.summary.lost == 0));
                counted += heard.iter().map(|heard| heard.summary.received).sum::<u64>();
            }
            assert_eq!(counted, 87 * members, "{members}");
        }
    }

    #[test]
    fn a_recorded_probe_that_is_repeated_is_passed_on_once() {
        let mut inner = Part::new(order(JobKind::Mcast, 1, 7), key());
        let mut leaf = Part::new(order(JobKind::Mcast, 3, 7), key());
        let mut root = Part::new(order(JobKind::Mcast, 0, 7), key());
        let probe = |number| Probe { job: 1, sender: 2, number, sent_ns: 5 };
        let mut out = Outbox::default();
        for number in [0, 63, 64, 96] {
            let first = out.ops().len();
            assert!(inner.arrive(&probe(number), Nanos(9), &mut out));
            assert_eq!(out.ops().len(), first + 2, "one for each child");
            assert!((0..10).all(|_| !inner.arrive(&probe(number), Nanos(9), &mut out)));
            assert_eq!(out.ops().len(), first + 2, "and no more, number {number}");
        }
        assert!(!root.arrive(&probe(7), Nanos(9), &mut out));
        assert_eq!(out.ops().len(), 8);
        assert!(leaf.arrive(&probe(50), Nanos(9), &mut out));
        assert!(!leaf.arrive(&probe(50), Nanos(99), &mut out), "the first copy counts");
    }

    #[test]
    fn a_late_call_sends_what_was_missed_in_bounded_bursts() {
        let mut part = Part::new(order(JobKind::Parent, 0, 3), key());
        let mut out = Outbox::default();
        part.send_due(part.end(), &mut out);
        assert_eq!(out.ops().len() as u64, 2 * BURST);
        assert!(part.next_timeout() < part.end());
        // Probes that nobody can have sent are none.
        let probe = Probe { job: 1, sender: 9, number: 0, sent_ns: 0 };
        assert_eq!(part.decode(&probe.encode(&key())), None);
        let probe = Probe { job: 1, sender: 1, number: 97, sent_ns: 0 };
        assert_eq!(part.decode(&probe.encode(&key())), None);
    }
}
