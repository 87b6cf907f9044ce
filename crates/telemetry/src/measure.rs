//! Figures over many delivered messages, and per receiver.

use types::NodeId;

use crate::{LatencySummary, Recorder};

/// What a set of delivered messages was worth. Only complete messages are in it: handed on by
/// every receiver that is alive.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Delivery {
    /// Number of messages that every receiver reported.
    pub messages: u64,
    /// Of these, sent before there was a deadline: they count in both `oml_*` figures only.
    pub without_deadline: u64,
    /// Messages with a deadline that no receiver handed on late, by the receivers' own clocks.
    pub on_time: u64,
    /// Messages with a deadline that all receivers handed on within the window of fairness.
    pub fair: u64,
    /// `on_time` as a fraction of messages with a deadline; `None` when there are none.
    pub p_on_time: Option<f64>,
    /// `fair` as a fraction of messages with a deadline; `None` when there are none.
    pub p_fair: Option<f64>,
    /// Overlay multicast latency to arrival: from sending to the last receiver's first copy.
    pub oml_arrival_ns: LatencySummary,
    /// From sending to the last receiver's release.
    pub oml_release_ns: LatencySummary,
    /// Delivery window: from the first receiver's release to the last one's.
    pub dws_ns: LatencySummary,
    /// Mean time a receiver held a message back, from arrival to release.
    pub hold_ns_mean: f64,
    /// Releases after the deadline because the message itself came late.
    pub late_self: u64,
    /// Releases after the deadline because an earlier message was missing (corner 13).
    pub late_blocked: u64,
}

/// Why a release was late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lateness {
    None,
    Own,
    Blocked,
}

/// One complete message, as the ledger found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageOutcome {
    pub has_deadline: bool,
    /// `None` when a receiver's arrival trace was lost.
    pub oml_arrival_ns: Option<u64>,
    pub oml_release_ns: u64,
    pub dws_ns: u64,
    pub fair: bool,
    pub late_self: u64,
    pub late_blocked: u64,
    pub hold_ns_sum: u64,
    pub holds: u64,
}

/// Accumulates outcomes of messages.
pub(crate) struct Measure {
    counts: Delivery,
    oml_arrival: Recorder,
    oml_release: Recorder,
    dws: Recorder,
    hold_ns_sum: u128,
    holds: u64,
}

impl Measure {
    pub fn new(recorder: fn() -> Recorder) -> Measure {
        Measure {
            counts: Delivery::default(),
            oml_arrival: recorder(),
            oml_release: recorder(),
            dws: recorder(),
            hold_ns_sum: 0,
            holds: 0,
        }
    }

    pub fn add(&mut self, outcome: &MessageOutcome) {
        self.counts.messages += 1;
        if let Some(ns) = outcome.oml_arrival_ns {
            self.oml_arrival.record(ns);
        }
        self.oml_release.record(outcome.oml_release_ns);
        if !outcome.has_deadline {
            self.counts.without_deadline += 1;
            return;
        }
        self.dws.record(outcome.dws_ns);
        self.counts.on_time += u64::from(outcome.late_self + outcome.late_blocked == 0);
        self.counts.fair += u64::from(outcome.fair);
        self.counts.late_self += outcome.late_self;
        self.counts.late_blocked += outcome.late_blocked;
        self.hold_ns_sum += u128::from(outcome.hold_ns_sum);
        self.holds += outcome.holds;
    }

    pub fn clear(&mut self) {
        self.counts = Delivery::default();
        self.oml_arrival.clear();
        self.oml_release.clear();
        self.dws.clear();
        (self.hold_ns_sum, self.holds) = (0, 0);
    }

    pub fn delivery(&self) -> Delivery {
        let counts = self.counts;
        let with_deadline = counts.messages - counts.without_deadline;
        let fraction = |n: u64| (with_deadline > 0).then(|| n as f64 / with_deadline as f64);
        Delivery {
            p_on_time: fraction(counts.on_time),
            p_fair: fraction(counts.fair),
            oml_arrival_ns: self.oml_arrival.summary(),
            oml_release_ns: self.oml_release.summary(),
            dws_ns: self.dws.summary(),
            hold_ns_mean: self.hold_ns_sum as f64 / self.holds.max(1) as f64,
            ..counts
        }
    }

    pub fn distributions(&self) -> [&Recorder; 3] {
        [&self.oml_arrival, &self.oml_release, &self.dws]
    }
}

/// Measures of one receiver over the complete messages.
pub struct ReceiverMeasure {
    /// Node of the receiver.
    pub node: NodeId,
    /// Whether the receiver was declared dead and is no longer waited for.
    pub gone: bool,
    /// From sending to its first copy.
    pub arrival: Recorder,
    /// From sending to its release.
    pub release: Recorder,
    /// Releases of messages with a deadline that arrived after it.
    pub late_self: u64,
    /// Releases after the deadline because an earlier message was missing.
    pub late_blocked: u64,
}

impl ReceiverMeasure {
    pub(crate) fn new(node: NodeId) -> ReceiverMeasure {
        ReceiverMeasure {
            node,
            gone: false,
            arrival: Recorder::coarse(),
            release: Recorder::coarse(),
            late_self: 0,
            late_blocked: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.arrival.clear();
        self.release.clear();
        (self.late_self, self.late_blocked) = (0, 0);
    }
}
