//! A line and its copy over two lossy ways, from a seed, into an [`Arbiter`].
//!
//! Packets of two messages leave at equal distances. Each way loses them one by one and in bursts,
//! delays them, lets them overtake each other, or dies; bursts may hit both ways at once. Where
//! there is retransmission, requests and answers get lost, too. What comes out is compared with what
//! went in: [`ArbitrationResult::unreported`] and [`ArbitrationResult::wrong`] have to be zero, whatever happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use types::{Nanos, SplitMix64};

use crate::arbiter::{
    Arbiter, ArbiterConfig, Delivery, LineSink, LineStats, Notice, SIDES, SideStats,
};

/// Number of messages in a packet.
pub const MESSAGES: u64 = 2;
/// Most alarms that are kept; there are few unless something is wrong.
const ALARMS_MAX: usize = 1_000;
/// Side number of answers to requests, which come from neither side.
const ANSWER: usize = SIDES;

/// Model of one side's network; times in ns, chances in a million.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Share of packets that are lost one by one, in a million.
    pub loss_ppm: u64,
    /// Share of packets at which a burst of losses begins, in a million.
    pub burst_ppm: u64,
    /// Number of packets lost in a burst.
    pub burst: u64,
    /// Smallest delay, ns.
    pub delay_ns: u64,
    /// Largest additional delay, uniform, ns; packets overtake each other when it exceeds their
    /// distance.
    pub jitter_ns: u64,
    /// Share of packets that are delayed by a spike, in a million.
    pub spike_ppm: u64,
    /// Largest delay of a spike, uniform, ns.
    pub spike_ns: u64,
    /// Number of the packet from which on the side is silent.
    pub dead_from: u64,
}

/// A good network: 50 µs of delay, 5 µs of jitter, no losses.
pub const GOOD: Way = Way {
    loss_ppm: 0,
    burst_ppm: 0,
    burst: 0,
    delay_ns: 50_000,
    jitter_ns: 5_000,
    spike_ppm: 0,
    spike_ns: 0,
    dead_from: u64::MAX,
};

/// Model of a protocol's retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repair {
    /// Time from a request to its first answer, ns.
    pub delay_ns: u64,
    /// Share of answers that are lost one by one, in a million.
    pub loss_ppm: u64,
}

/// Settings of a run: packets, networks, arbiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Play {
    /// Seed of everything random in the run.
    pub seed: u64,
    /// Number of packets sent.
    pub packets: u64,
    /// Time between two packets, ns.
    pub every_ns: u64,
    /// Networks of the two sides.
    pub ways: [Way; SIDES],
    /// Share of packets at which both sides begin a burst of losses, in a million, and its length
    /// in packets.
    pub common: (u64, u64),
    /// Waiting times of the arbiter.
    pub config: ArbiterConfig,
    /// Retransmission; `None`: the protocol has none. The arbiter's settings have to match.
    pub repair: Option<Repair>,
}

/// What an arbiter made of the two sides of a line in a run.
#[derive(Clone, Debug)]
pub struct ArbitrationResult {
    /// Totals that the arbiter counted.
    pub stats: LineStats,
    /// Figures that the arbiter has about each side.
    pub sides: [SideStats; SIDES],
    /// Number of messages sent.
    pub messages: u64,
    /// Number of packets that each side lost.
    pub lost_by: [u64; SIDES],
    /// Number of packets that both sides lost.
    pub lost_by_both: u64,
    /// Number of messages that are missing without a report.
    pub unreported: u64,
    /// Number of messages delivered twice, out of order, or with other bytes than were sent.
    pub wrong: u64,
    /// Notices that a side is dead or alive again.
    pub alarms: Vec<Notice>,
    /// Time from sending to delivery of each packet delivered, ns, in sequence.
    pub delays: Vec<u32>,
}

impl ArbitrationResult {
    /// Messages reported lost, in a million of those sent.
    pub fn lost_ppm(&self) -> f64 {
        self.stats.lost as f64 * 1e6 / self.messages.max(1) as f64
    }
}

/// Compares what the arbiter delivers and reports with what was sent.
struct Ledger {
    now: u64,
    every_ns: u64,
    /// Number of the next message to be delivered or reported.
    next: u64,
    unreported: u64,
    wrong: u64,
    requests: Vec<(u64, u64)>,
    alarms: Vec<Notice>,
    delays: Vec<u32>,
}

impl LineSink for Ledger {
    fn deliver(&mut self, delivery: Delivery<'_>) {
        let first = delivery.first + u64::from(delivery.skip);
        self.unreported += first.saturating_sub(self.next);
        self.wrong += u64::from(first < self.next);
        if delivery.bytes.is_empty() {
            return; // A heartbeat.
        }
        self.wrong += u64::from(delivery.bytes != content(delivery.first));
        let sent = (delivery.first - 1) / MESSAGES * self.every_ns;
        self.delays.push(u32::try_from(self.now.saturating_sub(sent)).unwrap_or(u32::MAX));
        self.next = delivery.first + MESSAGES;
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Gap { from, until } => {
                self.unreported += from.saturating_sub(self.next);
                self.wrong += u64::from(from < self.next);
                self.next = until;
            }
            Notice::Request { from, until } => self.requests.push((from, until)),
            Notice::Stale { .. } | Notice::Alive { .. } if self.alarms.len() < ALARMS_MAX => {
                self.alarms.push(notice);
            }
            _ => {}
        }
    }
}

/// Bytes of the packet whose first message has this number.
fn content(first: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..].copy_from_slice(&SplitMix64::mix(first).to_be_bytes());
    bytes
}

struct World<'p> {
    play: &'p Play,
    rng: SplitMix64,
    /// Arrivals to come: time, side, packet; the earliest first.
    arrivals: BinaryHeap<Reverse<(u64, usize, u64)>>,
    bursts: [u64; SIDES],
    lost_by: [u64; SIDES],
    lost_by_both: u64,
}

impl World<'_> {
    /// Sends a packet over both ways.
    fn send(&mut self, packet: u64) {
        let (ppm, length) = self.play.common;
        let common = if self.rng.below(1_000_000) < ppm { length } else { 0 };
        let mut lost = 0;
        for (side, way) in self.play.ways.iter().enumerate() {
            let own = if self.rng.below(1_000_000) < way.burst_ppm { way.burst } else { 0 };
            let burst = self.bursts[side].max(own).max(common);
            self.bursts[side] = burst.saturating_sub(1);
            let drawn = self.rng.below(1_000_000) < way.loss_ppm;
            let jitter = self.rng.below(way.jitter_ns.max(1));
            let spiked = self.rng.below(1_000_000) < way.spike_ppm;
            let spike = self.rng.below(way.spike_ns.max(1));
            if burst > 0 || drawn || packet >= way.dead_from {
                self.lost_by[side] += 1;
                lost += 1;
                continue;
            }
            let delay = way.delay_ns + jitter + if spiked { spike } else { 0 };
            self.arrivals.push(Reverse((packet * self.play.every_ns + delay, side, packet)));
        }
        self.lost_by_both += u64::from(lost == SIDES);
    }

    fn answer(&mut self, now: u64, requests: &mut Vec<(u64, u64)>) {
        let Some(repair) = self.play.repair else { return requests.clear() };
        for (from, until) in requests.drain(..) {
            for packet in (from - 1) / MESSAGES..(until - 1).div_ceil(MESSAGES) {
                if self.rng.below(1_000_000) >= repair.loss_ppm {
                    self.arrivals.push(Reverse((now + repair.delay_ns, ANSWER, packet)));
                }
            }
        }
    }
}

/// Runs a play to its end.
pub fn play(play: &Play) -> ArbitrationResult {
    let mut world = World {
        play,
        rng: SplitMix64::new(play.seed),
        arrivals: BinaryHeap::new(),
        bursts: [0; SIDES],
        lost_by: [0; SIDES],
        lost_by_both: 0,
    };
    let mut arbiter = Arbiter::starting_at(play.config, 1);
    let mut ledger = Ledger {
        now: 0,
        every_ns: play.every_ns,
        next: 1,
        unreported: 0,
        wrong: 0,
        requests: Vec::new(),
        alarms: Vec::new(),
        delays: Vec::with_capacity(play.packets as usize),
    };
    let mut sent = 0;
    loop {
        // Nothing sent later can arrive before what is first in the heap now.
        while sent < play.packets
            && world.arrivals.peek().is_none_or(|Reverse(next)| next.0 >= sent * play.every_ns)
        {
            world.send(sent);
            sent += 1;
        }
        let arrival = world.arrivals.peek().map(|Reverse(arrival)| arrival.0);
        let due = arbiter.next_timeout().map(|due| due.0);
        match (arrival, due) {
            (at, Some(due)) if at.is_none_or(|at| due < at) => {
                ledger.now = due.max(ledger.now);
                arbiter.poll(Nanos(ledger.now), &mut ledger);
            }
            (Some(_), _) => {
                let Some(Reverse((at, side, packet))) = world.arrivals.pop() else { break };
                ledger.now = at;
                let first = packet * MESSAGES + 1;
                let head = (first, MESSAGES as u32);
                arbiter.packet(Nanos(at), side, head, &content(first), &mut ledger);
            }
            (None, _) if ledger.next <= play.packets * MESSAGES => {
                // A heartbeat on a line that lives shows that the end is missing.
                let side = usize::from(play.ways[0].dead_from != u64::MAX);
                let end = (play.packets * MESSAGES + 1, 0);
                ledger.now = ledger.now.max(play.packets * play.every_ns);
                arbiter.packet(Nanos(ledger.now), side, end, &[], &mut ledger);
            }
            (None, _) => break,
        }
        world.answer(ledger.now, &mut ledger.requests);
    }
    ArbitrationResult {
        stats: arbiter.stats(),
        sides: [arbiter.side(0), arbiter.side(1)],
        messages: play.packets * MESSAGES,
        lost_by: world.lost_by,
        lost_by_both: world.lost_by_both,
        unreported: ledger.unreported,
        wrong: ledger.wrong,
        alarms: ledger.alarms,
        delays: ledger.delays,
    }
}
