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

/// Most sides of a line.
pub const SIDES: usize = 2;

/// Waiting times and bounds of an [`Arbiter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArbiterConfig {
    /// Wait for the other side's copy from when a gap is seen; longer than the sides are ever
    /// apart.
    pub wait: Nanos,
    /// Further wait for a retransmission; `None`: the protocol has none.
    pub give_up: Option<Nanos>,
    /// Time between two requests for the same messages, since requests and answers may be lost.
    pub again: Nanos,
    /// Silence of a side after which it counts as dead, while another side is heard.
    pub stale: Nanos,
    /// Most packets held at one time.
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

/// A packet of the line in sequence, with how much of it has been delivered before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery<'a> {
    /// Sequence number of the packet's first message.
    pub first: u64,
    /// Number of messages at its front that were delivered already.
    pub skip: u32,
    /// Bytes of the packet, as they were received.
    pub bytes: &'a [u8],
}

/// An event of a line, beside its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// Messages are missing; a retransmission has to be asked for.
    Request {
        /// Sequence number of the first message missing.
        from: u64,
        /// Sequence number behind the last message missing.
        until: u64,
    },
    /// Messages are lost; the line goes on behind them.
    Gap {
        /// Sequence number of the first message lost.
        from: u64,
        /// Sequence number behind the last message lost.
        until: u64,
    },
    /// A side has become silent while another one is heard.
    Stale {
        /// Index of the side: 0 for A, 1 for B.
        side: usize,
    },
    /// A side that was silent is heard again.
    Alive {
        /// Index of the side: 0 for A, 1 for B.
        side: usize,
    },
}

/// Receives the messages and events of a line.
pub trait LineSink {
    /// The next packet in sequence.
    fn deliver(&mut self, delivery: Delivery<'_>);
    /// An event of the line, in order with the packets.
    fn notice(&mut self, notice: Notice);
}

/// Figures about the health of one side.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SideStats {
    /// Number of packets heard from the side.
    pub packets: u64,
    /// Number of packets of which the side brought the first copy.
    pub first: u64,
    /// Number of messages that the side skipped, by its own sequence numbers.
    pub missing: u64,
    /// Number of packets with lower sequence numbers than an earlier one of the side.
    pub reordered: u64,
    /// Sum of how much later than the first copy its second copies came, in nanoseconds.
    pub behind_sum: u64,
    /// Number of second copies that are in the sum.
    pub behind_count: u64,
    /// How often the side was declared dead.
    pub stale: u64,
}

/// Totals of a line.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LineStats {
    /// Number of messages delivered.
    pub delivered: u64,
    /// Number of messages reported as lost.
    pub lost: u64,
    /// Number of gaps reported.
    pub gaps: u64,
    /// Number of packets that brought nothing new.
    pub duplicates: u64,
    /// Number of requests for a retransmission.
    pub requests: u64,
    /// Largest number of packets held at one time.
    pub held_most: u64,
}

#[derive(Debug)]
struct Held {
    count: u32,
    bytes: Vec<u8>,
    since: Nanos,
}

/// Arbitrates the two sides of one line.
#[derive(Debug)]
pub struct Arbiter {
    config: ArbiterConfig,
    expected: Option<u64>,
    held: BTreeMap<u64, Held>,
    /// Buffers of packets that are no longer held, to be used again.
    spare: Vec<Vec<u8>>,
    /// First and last time at which the first missing message was asked for; `None`: not yet.
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

    /// Totals of the line so far.
    pub fn stats(&self) -> LineStats {
        self.stats
    }

    /// Health of a side; of one that does not exist, nothing heard.
    pub fn side(&self, side: usize) -> SideStats {
        self.sides.stats(side)
    }

    /// Sequence number of the next message; `None` before the first packet.
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

    /// Handles what has become due at `now`: waits that are over, and sides that are silent.
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

    /// Delivers the packets held that have become next in sequence.
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
