//! One line sent twice: the first copy of each packet wins.
//!
//! An [`Arbiter`] takes packets of the sides (A and B) of one line and gives their messages in
//! sequence, each once. A packet ahead of what is expected is held while the other side may still
//! bring what is missing; after [`ArbiterConfig::wait`] it is asked for where the protocol has
//! retransmissions, again and again, and after [`ArbiterConfig::give_up`] more, or where it has none,
//! the gap is reported and the line goes on behind it. Nothing is skipped without a report. Held
//! packets are bounded: when there is no room the gap is reported early.
//!
//! Each side has statistics, and an alarm when it is silent while another is not. Time comes in as
//! an argument and must not go backwards.

use std::collections::BTreeMap;

use types::Nanos;

use crate::sides::Sides;

/// Sides of a line at most.
pub const SIDES: usize = 2;

/// How long to wait for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArbiterConfig {
    /// For the other side's copy, from when a gap is seen. Longer than the sides are ever apart.
    pub wait: Nanos,
    /// For a retransmission after that; `None` where the protocol has none.
    pub give_up: Option<Nanos>,
    /// Between two requests for the same, because requests and answers get lost, too.
    pub again: Nanos,
    /// Silence of a side after which it is called dead, while another is heard.
    pub stale: Nanos,
    /// Packets held at most.
    pub held_max: usize,
}

impl Default for ArbiterConfig {
    fn default() -> ArbiterConfig {
        ArbiterConfig {
            wait: Nanos(10_000_000),
            give_up: None,
            again: Nanos(1_000_000),
            stale: Nanos(1_000_000_000),
            held_max: 4_096,
        }
    }
}

/// Messages of a packet as the line brings them: those not delivered before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery<'a> {
    /// Number of the packet's first message.
    pub first: u64,
    /// Messages at its front that have been delivered already.
    pub skip: u32,
    /// The packet.
    pub bytes: &'a [u8],
}

/// What becomes known about a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// These messages are missing; ask for a retransmission.
    Request {
        /// First one missing.
        from: u64,
        /// First one not missing.
        until: u64,
    },
    /// These messages are lost.
    Gap {
        /// First one lost.
        from: u64,
        /// First one not lost.
        until: u64,
    },
    /// A side is silent.
    Stale {
        /// Which one.
        side: usize,
    },
    /// A silent side is heard again.
    Alive {
        /// Which one.
        side: usize,
    },
}

/// Where messages and notices go.
pub trait LineSink {
    /// The next packet in sequence.
    fn deliver(&mut self, delivery: Delivery<'_>);
    /// Something happened.
    fn notice(&mut self, notice: Notice);
}

/// Health of a side.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SideStats {
    /// Packets heard.
    pub packets: u64,
    /// Packets that were the first copy.
    pub first: u64,
    /// Messages that this side skipped, seen by its own numbers.
    pub missing: u64,
    /// Packets with numbers before those of an earlier one.
    pub reordered: u64,
    /// Sum of how much later than the first copy its second copies came, in nanoseconds.
    pub behind_sum: u64,
    /// Second copies in that sum.
    pub behind_count: u64,
    /// Times it was called dead.
    pub stale: u64,
}

/// What became of a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LineStats {
    /// Messages delivered.
    pub delivered: u64,
    /// Messages reported lost.
    pub lost: u64,
    /// Gaps reported.
    pub gaps: u64,
    /// Packets that brought nothing new.
    pub duplicates: u64,
    /// Retransmissions asked for.
    pub requests: u64,
    /// Most packets held at one time.
    pub held_most: u64,
}

#[derive(Debug)]
struct Held {
    count: u32,
    bytes: Vec<u8>,
    since: Nanos,
}

/// One line.
#[derive(Debug)]
pub struct Arbiter {
    config: ArbiterConfig,
    expected: Option<u64>,
    held: BTreeMap<u64, Held>,
    /// Memory of packets that are no longer held.
    spare: Vec<Vec<u8>>,
    /// When the first missing message was asked for: first and last time.
    requested: Option<(Nanos, Nanos)>,
    sides: Sides,
    stats: LineStats,
}

impl Arbiter {
    /// A line of which nothing has been heard; it begins with the first packet.
    pub fn new(config: ArbiterConfig) -> Arbiter {
        Arbiter {
            config,
            expected: None,
            held: BTreeMap::new(),
            spare: Vec::new(),
            requested: None,
            sides: Sides::new(),
            stats: LineStats::default(),
        }
    }

    /// A line whose first message has this number.
    pub fn starting_at(config: ArbiterConfig, first: u64) -> Arbiter {
        Arbiter { expected: Some(first), ..Arbiter::new(config) }
    }

    /// What became of the line so far.
    pub fn stats(&self) -> LineStats {
        self.stats
    }

    /// Health of a side; of one that does not exist, nothing heard.
    pub fn side(&self, side: usize) -> SideStats {
        self.sides.stats(side)
    }

    /// Number of the next message.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Takes a packet of `count` messages, the first with number `first`. A count of zero says that
    /// `first` is the next number to come. Retransmitted packets come as those of any side.
    pub fn packet(
        &mut self,
        now: Nanos,
        side: usize,
        (first, count): (u64, u32),
        bytes: &[u8],
        sink: &mut impl LineSink,
    ) {
        self.sides.hear(now, side, (first, count), |notice| sink.notice(notice));
        let expected = *self.expected.get_or_insert(first);
        let Some(end) = first.checked_add(count.into()) else { return };
        if end <= expected || self.held.get(&first).is_some_and(|held| held.count >= count) {
            self.second(now, side, first, count);
        } else {
            self.sides.first(now, side, first);
            if first <= expected {
                self.deliver(first, count, bytes, sink);
                self.drain(sink);
            } else {
                // A heartbeat, too: it shows that something is missing.
                self.hold(now, first, count, bytes, sink);
            }
        }
        self.poll(now, sink);
    }

    /// Lets time pass.
    pub fn poll(&mut self, now: Nanos, sink: &mut impl LineSink) {
        self.sides.watch(self.config.stale, |notice| sink.notice(notice));
        while let Some((&until, held)) = self.held.first_key_value() {
            let from = self.expected.unwrap_or(until);
            let asked_at = held.since.0.saturating_add(self.config.wait.0);
            // Part of what was asked for may have come, and a later packet be the first one held.
            if self.requested.is_none() && now.0 < asked_at {
                return;
            }
            match (self.config.give_up, self.requested) {
                (Some(_), None) => self.request((now, now), from, until, sink),
                (Some(limit), Some((at, last))) if now.0 < at.0.saturating_add(limit.0) => {
                    if now.0 < last.0.saturating_add(self.config.again.0.max(1)) {
                        return;
                    }
                    self.request((at, now), from, until, sink);
                }
                _ => self.give_up(sink),
            }
        }
    }

    fn request(&mut self, when: (Nanos, Nanos), from: u64, until: u64, sink: &mut impl LineSink) {
        self.requested = Some(when);
        self.stats.requests += 1;
        sink.notice(Notice::Request { from, until });
    }

    /// When [`Arbiter::poll`] has something to do next; not for silence, which is looked at with
    /// every packet.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let (_, held) = self.held.first_key_value()?;
        let wait = held.since.0.saturating_add(self.config.wait.0);
        Some(match (self.requested, self.config.give_up) {
            (Some((at, last)), Some(limit)) => {
                let again = last.0.saturating_add(self.config.again.0.max(1));
                Nanos(again.min(at.0.saturating_add(limit.0)))
            }
            _ => Nanos(wait),
        })
    }

    fn second(&mut self, now: Nanos, side: usize, first: u64, count: u32) {
        if count == 0 {
            return;
        }
        self.stats.duplicates += 1;
        self.sides.second(now, side, first);
    }

    fn deliver(&mut self, first: u64, count: u32, bytes: &[u8], sink: &mut impl LineSink) {
        let expected = self.expected.unwrap_or(first);
        let skip = (expected - first) as u32;
        self.stats.delivered += u64::from(count - skip);
        self.expected = Some(first + u64::from(count));
        sink.deliver(Delivery { first, skip, bytes });
    }

    fn hold(&mut self, now: Nanos, first: u64, count: u32, bytes: &[u8], sink: &mut impl LineSink) {
        if self.held.len() >= self.config.held_max.max(1) {
            self.give_up(sink);
        }
        let mut memory = self.spare.pop().unwrap_or_default();
        memory.clear();
        memory.extend_from_slice(bytes);
        self.held.insert(first, Held { count, bytes: memory, since: now });
        self.stats.held_most = self.stats.held_most.max(self.held.len() as u64);
    }

    /// Delivers what is held and has become due.
    fn drain(&mut self, sink: &mut impl LineSink) {
        let before = self.expected;
        while let Some(entry) = self.held.first_entry() {
            let expected = self.expected.unwrap_or(0);
            if *entry.key() > expected {
                break;
            }
            let (first, held) = entry.remove_entry();
            if first + u64::from(held.count) > expected {
                self.deliver(first, held.count, &held.bytes, sink);
            }
            self.spare.push(held.bytes);
        }
        if self.held.is_empty() || before != self.expected {
            self.requested = None;
        }
    }

    /// Reports what is missing before the first packet held, and goes on with that.
    fn give_up(&mut self, sink: &mut impl LineSink) {
        let Some((&until, _)) = self.held.first_key_value() else { return };
        let from = self.expected.unwrap_or(until);
        if from < until {
            self.stats.lost += until - from;
            self.stats.gaps += 1;
            sink.notice(Notice::Gap { from, until });
        }
        self.expected = Some(until);
        self.requested = None;
        self.drain(sink);
    }
}
