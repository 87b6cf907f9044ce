//! Orders upwards through a queue and a pace instead of straight through: what a proxy with
//! [`UpstreamConfig`] does, and the half of whoever is above it ([`PacingFeedback`]), the root too.
//!
//! Every paced order carries a number of its hop and when it was sent; once a millisecond the
//! parent tells each child how they arrived, and with credits how far it may go. A parent that does
//! not report within [`PATIENCE_NS`] is taken for one that does not know how: it is sent to freely
//! until it is heard. A child whose credits seem lost sends one order per patience, so that lost
//! reports stop nobody.
//!
//! Re-sends that take another way than the first one are not held up by the first one's gate. What
//! the queue sheds is counted and comes again from the gateway. Nothing allocates once warm.

use std::collections::VecDeque;

use types::{Nanos, NodeId, Outbox};
use zerocopy::IntoBytes;

use crate::{
    control::{self, ARRIVALS_MAX, ControlHeader, ControlKind, HopArrival, HopReportBody},
    frame::{HopHeader, ORDER_DEFERRED, ORDER_PACED, OrderBody},
    orders::egress::{EgressQueue, QueueConfig, QueueStats},
    orders::order_facts,
    orders::pacing::{CREDIT_FIRST, Credits, Pacer, PacerConfig},
};

/// Silence of a parent after which it is not waited for, in ns.
pub const PATIENCE_NS: u64 = 20 * Nanos::MILLI;
/// Time between reports to children, in ns.
pub const REPORT_NS: u64 = Nanos::MILLI;
/// A packet not reported so long after a later one was is lost, in ns.
const LOST_NS: u64 = 5 * Nanos::MILLI;
/// A child not heard for so long gets no reports, in ns.
const IDLE_NS: u64 = 50 * Nanos::MILLI;
/// Packets whose arrival is awaited, per parent.
const AWAITED_MAX: usize = 4_096;

/// Rule that decides when the next order may leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// Orders leave at a distance of `gap_ns`, without further rules.
    #[default]
    Free,
    /// The pacing rule of the paper.
    Paper(PacerConfig),
    /// Orders leave as the parent has granted credits.
    Credits {
        /// Orders that this node grants its own children per millisecond, all together.
        rate: u32,
    },
}

/// Settings of a queue towards the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UpstreamConfig {
    /// Settings of the queue: capacity and order.
    pub queue: QueueConfig,
    /// Rule that decides when the next order may leave.
    pub pace: Pace,
    /// Least time between two orders in any case, in ns: what the egress can do.
    pub gap_ns: u64,
}

/// Counters of a queue towards the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UpstreamStats {
    /// What the queue itself has counted.
    pub queue: QueueStats,
    /// Number of packets whose arrival parents never reported.
    pub lost: u64,
    /// Orders sent without leave because a parent was silent.
    pub impatient: u64,
    /// Number of reports sent to children.
    pub reports: u64,
}

/// State of the way to one parent.
struct Gate {
    parent: NodeId,
    sent: u16,
    limit: u16,
    /// Has ever reported; and when last, or since when it is waited for.
    reports: bool,
    since: Nanos,
    /// (number, when sent) of packets not reported yet.
    awaited: VecDeque<(u16, Nanos)>,
}

impl Gate {
    fn new(parent: NodeId, now: Nanos) -> Gate {
        let (limit, awaited) = (CREDIT_FIRST, VecDeque::with_capacity(64));
        Gate { parent, sent: 0, limit, reports: false, since: now, awaited }
    }

    fn has_credit(&self) -> bool {
        self.limit.wrapping_sub(self.sent.wrapping_add(1)) < 1 << 15
    }
}

/// The queue and pace of one proxy.
pub struct UpstreamQueue {
    config: UpstreamConfig,
    queue: EgressQueue,
    pacer: Option<Pacer>,
    gates: Vec<Gate>,
    /// Earliest time of the next order.
    free_at: Nanos,
    /// When the last order left.
    sent_at: Nanos,
    /// When something may go that can't now.
    wake: Nanos,
    feedback: PacingFeedback,
    stats: UpstreamStats,
}

impl UpstreamQueue {
    /// A queue without orders.
    pub fn new(config: UpstreamConfig) -> UpstreamQueue {
        let (pacer, rate) = match config.pace {
            Pace::Free => (None, None),
            Pace::Paper(config) => (Some(Pacer::new(config)), None),
            Pace::Credits { rate } => (None, Some(rate)),
        };
        UpstreamQueue {
            config,
            queue: EgressQueue::new(config.queue),
            pacer,
            gates: Vec::new(),
            free_at: Nanos(0),
            sent_at: Nanos(0),
            wake: Nanos::NEVER,
            feedback: PacingFeedback::new(rate),
            stats: UpstreamStats::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> UpstreamStats {
        let reports = self.feedback.reports;
        UpstreamStats { queue: self.queue.stats(), reports, ..self.stats }
    }

    /// Number of orders that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// An order from below: `rest` is `order` and its payload as they came.
    pub fn take(&mut self, now: Nanos, header: &HopHeader, order: &OrderBody, rest: &[u8]) {
        self.feedback.heard(now, header);
        let payload = rest.get(size_of::<OrderBody>()..).unwrap_or(&[]);
        let marks = (header.attempt, header.flags & ORDER_DEFERRED != 0);
        // What is shed is counted by the queue; its gateway still has it.
        let _ = self.queue.push(now, order.t_in, order_facts::read(payload), marks, rest);
    }

    /// Sends what may go. `hop` is the frame header of this node's orders, `way` gives the next node
    /// for an attempt.
    pub fn pump(
        &mut self,
        now: Nanos,
        hop: HopHeader,
        way: impl Fn(u8) -> Option<NodeId>,
        out: &mut Outbox,
    ) {
        let Some(first) = way(0) else { return };
        while !self.queue.is_empty() && self.may_send(now, first) {
            let behind = self.queue.len() - 1;
            let Some(served) = self.queue.pop(now) else { break };
            let parent = way(served.attempt).unwrap_or(first);
            let (attempt, deferred) = (served.attempt, served.deferred);
            let place = gate_of(&mut self.gates, parent, now);
            let gate = &mut self.gates[place];
            gate.sent = gate.sent.wrapping_add(1);
            if self.config.pace != Pace::Free {
                if gate.awaited.len() == AWAITED_MAX {
                    gate.awaited.pop_front();
                }
                gate.awaited.push_back((gate.sent, now));
            }
            let mut header = HopHeader { attempt, flags: u8::from(deferred), ..hop };
            let bytes = out.write(|buffer| {
                let start = buffer.len();
                buffer.resize(start + size_of::<HopHeader>(), 0);
                buffer.extend_from_slice(served.bytes);
                if self.config.pace != Pace::Free {
                    header.hop_number = gate.sent;
                    header.hop_sent = now.0 as u32;
                    header.flags = HopHeader::paced_flags(deferred, behind);
                }
                let end = start + size_of::<HopHeader>();
                buffer[start..end].copy_from_slice(header.as_bytes());
            });
            out.datagram(types::Channel::OVERLAY, types::Peer::Node(parent), bytes);
            self.sent_at = now;
            self.free_at = now + self.config.gap_ns;
        }
        self.wake = match self.queue.is_empty() {
            true => Nanos::NEVER,
            // Held up by the pace, or by a parent, whose report will come before that.
            false if now < self.free_at => self.free_at,
            false => now + REPORT_NS,
        };
    }

    /// A report of a parent; `rest` is what follows the control header.
    pub fn handle_report(&mut self, now: Nanos, parent: NodeId, rest: &[u8]) {
        let Some((body, arrivals)) = control::hop_report(rest) else { return };
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.parent == parent) else { return };
        gate.reports = true;
        gate.since = now;
        let forward = body.limit.wrapping_sub(gate.limit) < 1 << 15;
        if body.credits == 1 && forward {
            gate.limit = body.limit;
        }
        for arrival in arrivals {
            let place = gate.awaited.iter().position(|(number, _)| *number == arrival.number);
            if let Some(place) = place {
                gate.awaited.remove(place);
                if let Some(pacer) = &mut self.pacer {
                    pacer.heard(now, Some(u64::from(arrival.owd_ns)));
                }
            }
        }
        while let Some((number, sent)) = gate.awaited.front().copied() {
            let passed = body.highest.wrapping_sub(number) < 1 << 15;
            if !passed || now - sent < LOST_NS {
                break;
            }
            gate.awaited.pop_front();
            self.stats.lost += 1;
            if let Some(pacer) = &mut self.pacer {
                pacer.heard(now, None);
            }
        }
    }

    /// Tells the children how their orders arrived, when that is due.
    pub fn handle_timeout(&mut self, now: Nanos, header: ControlHeader, out: &mut Outbox) {
        self.feedback.handle_timeout(now, self.queue.room(), header, out);
    }

    /// Next time at which something may be due.
    pub fn next_timeout(&self) -> Nanos {
        self.wake.min(self.feedback.next_timeout())
    }

    fn may_send(&mut self, now: Nanos, parent: NodeId) -> bool {
        if now < self.free_at {
            return false;
        }
        if let Some(pacer) = &mut self.pacer {
            let quantum_ns = pacer.quantum_ns(now);
            self.free_at = self.free_at.max(self.sent_at + quantum_ns);
            return now >= self.free_at;
        }
        if !matches!(self.config.pace, Pace::Credits { .. }) {
            return true;
        }
        let place = gate_of(&mut self.gates, parent, now);
        let gate = &mut self.gates[place];
        if gate.has_credit() {
            return true;
        }
        if now - gate.since < PATIENCE_NS {
            return false;
        }
        // One order per patience to a parent that reports; freely to one that never did.
        if gate.reports {
            gate.since = now;
        }
        self.stats.impatient += 1;
        true
    }
}

fn gate_of(gates: &mut Vec<Gate>, parent: NodeId, now: Nanos) -> usize {
    gates.iter().position(|gate| gate.parent == parent).unwrap_or_else(|| {
        gates.push(Gate::new(parent, now));
        gates.len() - 1
    })
}

/// The parent's half of a paced hop.
pub struct PacingFeedback {
    credits: Option<Credits>,
    children: Vec<Heard>,
    report_at: Nanos,
    reports: u64,
}

struct Heard {
    node: NodeId,
    highest: u16,
    heard_at: Nanos,
    arrivals: Vec<HopArrival>,
}

impl PacingFeedback {
    /// Reports arrivals, and grants `credits` per millisecond if given.
    pub fn new(credits: Option<u32>) -> PacingFeedback {
        let (children, report_at) = (Vec::new(), Nanos::NEVER);
        PacingFeedback { credits: credits.map(Credits::new), children, report_at, reports: 0 }
    }

    /// An order came; those that are not paced are of no interest.
    pub fn heard(&mut self, now: Nanos, header: &HopHeader) {
        if header.flags & ORDER_PACED == 0 {
            return;
        }
        let (node, number) = (header.sender, header.hop_number);
        if let Some(credits) = &mut self.credits {
            credits.heard(now, node, number, header.backlog());
        }
        let place = match self.children.binary_search_by_key(&node, |child| child.node) {
            Ok(place) => place,
            Err(place) => {
                let arrivals = Vec::with_capacity(ARRIVALS_MAX);
                let fresh = Heard { node, highest: number, heard_at: now, arrivals };
                self.children.insert(place, fresh);
                place
            }
        };
        let child = &mut self.children[place];
        if number.wrapping_sub(child.highest) < 1 << 15 {
            child.highest = number;
        }
        child.heard_at = now;
        // A clock behind the child's shows as a negative delay.
        let owd_ns = match (now.0 as u32).wrapping_sub(header.hop_sent) {
            owd_ns if owd_ns < 1 << 31 => owd_ns,
            _ => 0,
        };
        if child.arrivals.len() < ARRIVALS_MAX {
            child.arrivals.push(HopArrival { number, reserved: 0, owd_ns });
        }
        self.report_at = match child.arrivals.len() {
            ARRIVALS_MAX => now,
            _ => self.report_at.min(now + REPORT_NS),
        };
    }

    /// Reports when due; credits are for `room` free places.
    pub fn handle_timeout(
        &mut self,
        now: Nanos,
        room: usize,
        header: ControlHeader,
        out: &mut Outbox,
    ) {
        if now < self.report_at {
            return;
        }
        if let Some(credits) = &mut self.credits {
            credits.distribute(now, room);
        }
        self.report_at = Nanos::NEVER;
        for child in self.children.iter_mut().filter(|child| now - child.heard_at <= IDLE_NS) {
            let granted = self.credits.as_ref().and_then(|credits| credits.limit(child.node));
            let body = HopReportBody {
                highest: child.highest,
                limit: granted.unwrap_or(0),
                count: child.arrivals.len() as u16,
                credits: u16::from(granted.is_some()),
            };
            let header = ControlHeader { kind: ControlKind::HopReport, ..header };
            control::send(out, child.node, header, &body, child.arrivals.as_bytes());
            child.arrivals.clear();
            self.reports += 1;
            self.report_at = now + REPORT_NS;
        }
    }

    /// Next time at which a report is due.
    pub fn next_timeout(&self) -> Nanos {
        self.report_at
    }
}
