//! When a proxy may send the next order upwards (Jasper §7.1; decisions on pacing).
//!
//! [`Pacer`] is the paper's rule on its own quantum, the least time between two packets: +20 us when
//! the median one-way delay of the last 50 ms is at least T + 10 us, -10 us when it is at most
//! T - 10 us, never below 0. Updated every millisecond over a sliding window, as every 50 ms from a
//! zero quantum is too late to prevent losses; a lost packet counts as infinitely delayed, which a
//! median of arrivals would not see.
//!
//! [`Credits`] is the parent's side of the other way: it tells each child how far it may go. The
//! credits out never exceed the places free, so nothing is dropped here whatever the children do
//! at once; the next millisecond's share follows what children say they have waiting.

use std::collections::VecDeque;

use types::{Nanos, NodeId};

/// Delays the pacer's window holds at most.
const DELAYS_MAX: usize = 4_096;
/// Packets a child may send to a parent that has not spoken yet.
pub const CREDIT_FIRST: u16 = 4;
/// Children that a parent tells apart; further ones are not granted anything.
const CHILDREN_MAX: usize = 4_096;
/// A child silent for so long has no say in the distribution.
const IDLE_NS: u64 = 50 * Nanos::MILLI;

/// Settings of the pacing rule of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacerConfig {
    /// Queueing delay that is aimed at (the paper's T), ns.
    pub threshold_ns: u64,
    /// Distance from T that changes nothing, in ns.
    pub cushion_ns: u64,
    /// Added to the quantum at a time, in ns.
    pub up_ns: u64,
    /// Taken off at a time, in ns.
    pub down_ns: u64,
    /// Delays of so long count, in ns.
    pub window_ns: u64,
    /// Time between two updates of the quantum, ns.
    pub update_ns: u64,
    /// Largest quantum, ns.
    pub quantum_max_ns: u64,
    /// Quantum to begin with (the paper's P0), in ns.
    pub quantum_first_ns: u64,
}

impl Default for PacerConfig {
    fn default() -> Self {
        PacerConfig {
            threshold_ns: 100 * Nanos::MICRO,
            cushion_ns: 10 * Nanos::MICRO,
            up_ns: 20 * Nanos::MICRO,
            down_ns: 10 * Nanos::MICRO,
            window_ns: 50 * Nanos::MILLI,
            update_ns: Nanos::MILLI,
            quantum_max_ns: 10 * Nanos::MILLI,
            quantum_first_ns: 0,
        }
    }
}

/// The pacing state of one sender: its quantum.
#[derive(Clone, Debug)]
pub struct Pacer {
    config: PacerConfig,
    quantum_ns: u64,
    /// (when heard, delay), oldest first; lost: the largest number.
    delays: VecDeque<(Nanos, u64)>,
    scratch: Vec<u64>,
    update_at: Nanos,
}

impl Pacer {
    /// The first quantum and no delay known.
    pub fn new(config: PacerConfig) -> Pacer {
        Pacer {
            config,
            quantum_ns: config.quantum_first_ns.min(config.quantum_max_ns),
            delays: VecDeque::with_capacity(DELAYS_MAX),
            scratch: Vec::with_capacity(DELAYS_MAX),
            update_at: Nanos(0),
        }
    }

    /// A packet took so long; `None`: it is lost.
    pub fn heard(&mut self, now: Nanos, owd_ns: Option<u64>) {
        if self.delays.len() == DELAYS_MAX {
            self.delays.pop_front();
        }
        self.delays.push_back((now, owd_ns.unwrap_or(u64::MAX)));
    }

    /// The present quantum in ns; updates it when that is due.
    pub fn quantum_ns(&mut self, now: Nanos) -> u64 {
        if now >= self.update_at {
            self.update_at = now + self.config.update_ns.max(1);
            if let Some(median) = self.median(now) {
                let PacerConfig { threshold_ns, cushion_ns, up_ns, down_ns, .. } = self.config;
                if median >= threshold_ns.saturating_add(cushion_ns) {
                    let quantum = self.quantum_ns.saturating_add(up_ns);
                    self.quantum_ns = quantum.min(self.config.quantum_max_ns);
                } else if median.saturating_add(cushion_ns) <= threshold_ns {
                    self.quantum_ns = self.quantum_ns.saturating_sub(down_ns);
                }
            }
        }
        self.quantum_ns
    }

    fn median(&mut self, now: Nanos) -> Option<u64> {
        let since = now.0.saturating_sub(self.config.window_ns);
        while self.delays.front().is_some_and(|(at, _)| at.0 < since) {
            self.delays.pop_front();
        }
        self.scratch.clear();
        self.scratch.extend(self.delays.iter().map(|(_, owd_ns)| *owd_ns));
        let middle = self.scratch.len().checked_sub(1)? / 2;
        Some(*self.scratch.select_nth_unstable(middle).1)
    }
}

/// A parent's grants to the children that send to it.
#[derive(Clone, Debug)]
pub struct Credits {
    /// Most packets of one distribution.
    rate: u32,
    children: Vec<Child>,
}

#[derive(Clone, Copy, Debug)]
struct Child {
    node: NodeId,
    /// Highest number heard, and the number it may go to.
    highest: u16,
    limit: u16,
    /// Backlog that the node reported, messages.
    backlog: u32,
    heard_at: Nanos,
    grant: u32,
}

impl Credits {
    /// At most `rate` packets are granted per distribution, all children together.
    pub fn new(rate: u32) -> Credits {
        Credits { rate, children: Vec::new() }
    }

    /// A child's packet came, with its number and what it says still waits.
    pub fn heard(&mut self, now: Nanos, node: NodeId, number: u16, backlog: u32) {
        let place = self.children.binary_search_by_key(&node, |child| child.node);
        let child = match place {
            Ok(place) => &mut self.children[place],
            Err(_) if self.children.len() >= CHILDREN_MAX => return,
            Err(place) => {
                let limit = number.wrapping_sub(1).wrapping_add(CREDIT_FIRST);
                let highest = number.wrapping_sub(1);
                let fresh = Child { node, highest, limit, backlog, heard_at: now, grant: 0 };
                self.children.insert(place, fresh);
                &mut self.children[place]
            }
        };
        let ahead = number.wrapping_sub(child.highest);
        if ahead > 0 && ahead < 1 << 15 {
            child.highest = number;
            // It went further than it was told, after a restart or for want of news: follow it.
            if child.limit.wrapping_sub(number) >= 1 << 15 {
                child.limit = number;
            }
        } else if ahead > 1 << 10 && ahead < u16::MAX - (1 << 10) {
            // Far behind: it began anew.
            (child.highest, child.limit) = (number, number);
        }
        child.backlog = backlog;
        child.heard_at = now;
    }

    /// Shares out what fits into `room` places; what is out already counts. Call every millisecond.
    pub fn distribute(&mut self, now: Nanos, room: usize) {
        let out: usize = self
            .children
            .iter()
            .map(|child| usize::from(child.limit.wrapping_sub(child.highest)))
            .sum();
        let mut left = (room.saturating_sub(out) as u32).min(self.rate);
        let wants = |child: &Child| {
            let idle = now - child.heard_at > IDLE_NS;
            let ahead = u32::from(child.limit.wrapping_sub(child.highest));
            // An idle child may begin with a few at once; one that waits gets what it has.
            let wanted = if idle {
                u32::from(CREDIT_FIRST)
            } else {
                child.backlog + u32::from(CREDIT_FIRST)
            };
            wanted.saturating_sub(ahead + child.grant)
        };
        self.children.iter_mut().for_each(|child| child.grant = 0);
        for _ in 0..4 {
            let waiting = self.children.iter().filter(|child| wants(child) > 0).count() as u32;
            if waiting == 0 || left == 0 {
                break;
            }
            let share = (left / waiting).max(1);
            for child in &mut self.children {
                let given = wants(child).min(share).min(left);
                child.grant += given;
                left -= given;
            }
        }
        for child in &mut self.children {
            child.limit = child.limit.wrapping_add(child.grant.min(1 << 14) as u16);
        }
    }

    /// How far a child may go; `None` for one never heard.
    pub fn limit(&self, node: NodeId) -> Option<u16> {
        let place = self.children.binary_search_by_key(&node, |child| child.node).ok()?;
        Some(self.children[place].limit)
    }

    /// Number of packets that may still come.
    pub fn outstanding(&self) -> usize {
        let ahead = |child: &Child| usize::from(child.limit.wrapping_sub(child.highest));
        self.children.iter().map(ahead).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: u64 = Nanos::MICRO;

    #[test]
    fn the_quantum_follows_the_papers_rule() {
        let mut pacer = Pacer::new(PacerConfig::default());
        let mut now = Nanos(Nanos::SECOND);
        let mut step = |pacer: &mut Pacer, owd_ns| {
            now = now + Nanos::MILLI;
            (0..200).for_each(|_| pacer.heard(now, owd_ns));
            pacer.quantum_ns(now) / US
        };
        assert_eq!(step(&mut pacer, Some(100 * US)), 0);
        let rising: Vec<u64> = (0..60).map(|_| step(&mut pacer, Some(110 * US))).collect();
        assert_eq!((rising[0], rising[1], rising[59]), (0, 20, 1_180));
        let falling: Vec<u64> = (0..100).map(|_| step(&mut pacer, Some(90 * US))).collect();
        assert_eq!(falling[99] + 10, falling[98]);
        let far: u64 = (0..300).map(|_| step(&mut pacer, Some(90 * US))).min().unwrap();
        assert_eq!(far, 0, "never below zero");
        let lost: Vec<u64> = (0..60).map(|_| step(&mut pacer, None)).collect();
        assert!(lost[59] > 500, "losses are infinite delays: {}", lost[59]);
    }

    #[test]
    fn without_news_the_quantum_stays() {
        let mut pacer = Pacer::new(PacerConfig::default());
        (0..3).for_each(|_| pacer.heard(Nanos(1), None));
        assert_eq!(pacer.quantum_ns(Nanos(1)), 20 * US);
        assert_eq!(pacer.quantum_ns(Nanos(2)), 20 * US, "one step per update");
        assert_eq!(pacer.quantum_ns(Nanos(Nanos::SECOND)), 20 * US);
    }

    #[test]
    fn credits_go_where_the_need_is() {
        let mut credits = Credits::new(1_000);
        credits.heard(Nanos(1), NodeId(1), 1, 100);
        credits.heard(Nanos(1), NodeId(2), 1, 0);
        credits.distribute(Nanos(2), 60);
        assert_eq!(credits.outstanding(), 60);
        let ahead = |node| credits.limit(NodeId(node)).unwrap() - 1;
        assert!(ahead(1) >= 50 && (3..=4).contains(&ahead(2)), "{} {}", ahead(1), ahead(2));
        assert_eq!(credits.limit(NodeId(3)), None);
    }

    proptest! {
        #[test]
        fn credits_out_never_exceed_the_room(
            steps in prop::collection::vec((1u16..6, 0u16..9, 0u32..50), 1..300),
            capacity in 40usize..200,
        ) {
            // Children that go as far as they may, a queue that drains now and then.
            let mut credits = Credits::new(64);
            let (mut queued, mut sent) = (0usize, [0u16; 6]);
            for (turn, (node, wish, backlog)) in steps.into_iter().enumerate() {
                let now = Nanos(turn as u64 * Nanos::MILLI);
                let own = usize::from(node);
                let limit = credits.limit(NodeId(node)).unwrap_or(CREDIT_FIRST);
                for _ in 0..wish.min(limit.wrapping_sub(sent[own])) {
                    sent[own] += 1;
                    queued += 1;
                    credits.heard(now, NodeId(node), sent[own], backlog);
                }
                queued = queued.saturating_sub(turn % 7);
                credits.distribute(now, capacity - queued.min(capacity));
                let unheard = (1..6).filter(|n| credits.limit(NodeId(*n)).is_none()).count();
                prop_assert!(
                    credits.outstanding() + queued + 4 * unheard <= capacity.max(40) + 20,
                    "first credits of five children are the only surplus"
                );
            }
        }
    }
}
