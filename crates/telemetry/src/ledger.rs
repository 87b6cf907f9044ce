//! Puts the traces of one message together, whoever's come first.
//!
//! A ring per stream holds the last overlay ids. A message leaves it when the publisher and
//! every receiver alive have reported it, or, incomplete, when its place is needed; traces that
//! come later still are counted as stale. Ids are dense from 1 in each stream, so a place is the id
//! modulo the length of the ring.

use types::{Nanos, NodeId, TRACE_ID_BITS, Trace, TracePoint};

use crate::measure::{Lateness, Measure, MessageOutcome};
use crate::series::Series;
use crate::{Delivery, ReceiverMeasure, Recorder, WindowPoint};

/// Bounds and definitions of a ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LedgerConfig {
    /// Receivers that are expected to report every message.
    pub receivers: Vec<NodeId>,
    /// Releases of one message at most this far apart are simultaneous: 1 us and twice the
    /// clocks' error bound (corner 14), in nanoseconds.
    pub fair_window_ns: u64,
    /// Messages that may wait for reports, shared out to the streams; each takes 24 bytes per
    /// receiver.
    pub messages_max: usize,
    /// Streams there are; messages of others are strangers' and counted as stale.
    pub streams: usize,
    /// Interval of the series of delivery windows, in nanoseconds.
    pub series_interval_ns: u64,
    /// Most points of the series.
    pub series_points_max: usize,
}

impl LedgerConfig {
    /// The usual bounds: 16,384 messages, one stream, 100 ms, an hour of points.
    pub fn new(receivers: Vec<NodeId>, fair_window_ns: u64) -> LedgerConfig {
        LedgerConfig {
            receivers,
            fair_window_ns,
            messages_max: 16_384,
            streams: 1,
            series_interval_ns: 100 * Nanos::MILLI,
            series_points_max: 36_000,
        }
    }
}

/// Counts of traces and messages, beside those in [`Delivery`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TraceCounts {
    /// Messages the publisher reported.
    pub published: u64,
    /// Messages given up: a report was missing when their place was needed or at the end.
    pub incomplete: u64,
    /// Complete messages sent before [`DeliveryLedger::measure_from`]: in no figure.
    pub before_measure: u64,
    /// Reports of the same thing again, the first one counts.
    pub duplicates: u64,
    /// Reports of messages whose place had been given away.
    pub stale: u64,
    /// Reports of nodes that are no receivers.
    pub strangers: u64,
}

/// Report of one receiver on one message.
#[derive(Clone, Copy)]
struct Report {
    arrived: Option<Nanos>,
    released: Option<Nanos>,
    late: Lateness,
}

const NO_REPORT: Report = Report { arrived: None, released: None, late: Lateness::None };

/// A message waiting for reports; id 0: free.
#[derive(Clone, Copy, Default)]
struct Pending {
    id: u64,
    published: Option<Nanos>,
    has_deadline: bool,
    done: bool,
    reports: u32,
}

/// Delivery figures of a feed; see the module's contract.
pub struct DeliveryLedger {
    fair_window_ns: u64,
    pending: Vec<Pending>,
    /// Number of messages of one stream that are kept open.
    ring: usize,
    /// Receiver by receiver for each place.
    reports: Vec<Report>,
    /// Measures of receivers, sorted by node.
    receivers: Vec<ReceiverMeasure>,
    alive: usize,
    measure_from: Nanos,
    counts: TraceCounts,
    total: Measure,
    /// The second being filled and the last full one, with their starts.
    seconds: [(Nanos, Measure); 2],
    series: Series,
    /// Figures of messages by when they were sent: where each part begins, in order.
    parts: Vec<(Nanos, Measure)>,
}

/// Most parts that figures are kept of.
const PARTS_MAX: usize = 16;

impl DeliveryLedger {
    /// A ledger; a receiver named twice counts once.
    pub fn new(config: &LedgerConfig) -> DeliveryLedger {
        let mut nodes = config.receivers.clone();
        nodes.sort_unstable();
        nodes.dedup();
        let streams = config.streams.max(1);
        let ring = config.messages_max.div_ceil(streams).max(1);
        let messages_max = ring * streams;
        DeliveryLedger {
            fair_window_ns: config.fair_window_ns,
            ring,
            pending: vec![Pending::default(); messages_max],
            reports: vec![NO_REPORT; messages_max * nodes.len()],
            alive: nodes.len(),
            receivers: nodes.into_iter().map(ReceiverMeasure::new).collect(),
            measure_from: Nanos(0),
            counts: TraceCounts::default(),
            total: Measure::new(Recorder::new),
            seconds: [(); 2].map(|()| (Nanos(0), Measure::new(Recorder::coarse))),
            series: Series::new(config.series_interval_ns, config.series_points_max),
            parts: Vec::new(),
        }
    }

    /// Takes a batch of traces.
    pub fn record_all(&mut self, traces: &[Trace]) {
        traces.iter().for_each(|trace| self.record(trace));
    }

    /// Records one trace.
    pub fn record(&mut self, trace: &Trace) {
        if trace.point == TracePoint::Published {
            let Some(place) = self.place(trace.id) else { return };
            let Some(pending) = self.pending.get_mut(place) else { return };
            if pending.published.is_some() {
                self.counts.duplicates += 1;
                return;
            }
            pending.published = Some(trace.at);
            pending.has_deadline = trace.value != 0;
            self.counts.published += 1;
            self.settle_if_complete(place);
            return;
        }
        let Ok(who) = self.receivers.binary_search_by_key(&trace.node, |known| known.node) else {
            self.counts.strangers += 1;
            return;
        };
        let Some(place) = self.place(trace.id) else { return };
        let Some(report) = self.reports.get_mut(place * self.receivers.len() + who) else { return };
        let (seen, late) = match trace.point {
            TracePoint::Arrived => (&mut report.arrived, None),
            TracePoint::ReleasedLate => (&mut report.released, Some(Lateness::Own)),
            TracePoint::ReleasedBlocked => (&mut report.released, Some(Lateness::Blocked)),
            TracePoint::Released | TracePoint::Published => (&mut report.released, None),
        };
        if seen.is_some() {
            self.counts.duplicates += 1;
            return;
        }
        *seen = Some(trace.at);
        report.late = late.unwrap_or(report.late);
        if let Some(pending) = self.pending.get_mut(place) {
            pending.reports += 1;
        }
        self.settle_if_complete(place);
    }

    /// A receiver has died: messages no longer wait for it, figures from here on leave it out.
    /// What it reported of messages already complete stays.
    pub fn receiver_gone(&mut self, node: NodeId) {
        if let Ok(who) = self.receivers.binary_search_by_key(&node, |known| known.node)
            && let Some(receiver) = self.receivers.get_mut(who)
            && !receiver.gone
        {
            receiver.gone = true;
            self.alive -= 1;
            (0..self.pending.len()).for_each(|place| self.settle_if_complete(place));
        }
    }

    /// Forgets all figures; messages sent before `at` do not count from here on. For the end of a
    /// warm-up.
    pub fn measure_from(&mut self, at: Nanos) {
        self.measure_from = at;
        self.counts = TraceCounts::default();
        self.total.clear();
        for (start, second) in &mut self.seconds {
            *start = Nanos(0);
            second.clear();
        }
        self.series.clear();
        self.receivers.iter_mut().for_each(ReceiverMeasure::clear);
    }

    /// Messages sent from `at` on have figures of their own, too, until the next part begins; for
    /// what changes in the middle of a run. False: there are too many parts, or a later one.
    pub fn begin_part(&mut self, at: Nanos) -> bool {
        let fits = self.parts.len() < PARTS_MAX;
        let fits = fits && self.parts.last().is_none_or(|(last, _)| *last < at);
        if fits {
            self.parts.push((at, Measure::new(Recorder::new)));
        }
        fits
    }

    /// When each part began, and its figures.
    pub fn parts(&self) -> impl Iterator<Item = (Nanos, Delivery)> {
        self.parts.iter().map(|(at, measure)| (*at, measure.delivery()))
    }

    /// Gives up whatever is still waiting. Call it once all traces are in.
    pub fn finish(&mut self) {
        (0..self.pending.len()).for_each(|place| self.vacate(place));
    }

    /// Figures since the start, or since [`DeliveryLedger::measure_from`].
    pub fn delivery(&self) -> Delivery {
        self.total.delivery()
    }

    /// Figures of the messages sent in the last full second, and when it began (by the traces'
    /// time: 0 before there was one, long ago when nothing is sent).
    pub fn last_second(&self) -> (Nanos, Delivery) {
        let [_, (start, second)] = &self.seconds;
        (*start, second.delivery())
    }

    /// Counts of traces and messages.
    pub fn counts(&self) -> TraceCounts {
        self.counts
    }

    /// Messages that wait for reports now.
    pub fn waiting(&self) -> usize {
        self.pending.iter().filter(|pending| pending.id != 0 && !pending.done).count()
    }

    /// Each receiver's own figures, in order of node.
    pub fn receivers(&self) -> &[ReceiverMeasure] {
        &self.receivers
    }

    /// Delivery windows over time, of messages with a deadline.
    pub fn series(&self) -> impl Iterator<Item = WindowPoint> {
        self.series.points()
    }

    /// Whole distributions: to the last arrival, to the last release, and the delivery window.
    pub fn distributions(&self) -> [&Recorder; 3] {
        self.total.distributions()
    }

    /// The place of a message, made free for it if it is newer than what is there.
    fn place(&mut self, id: u64) -> Option<usize> {
        let (stream, number) = (id >> TRACE_ID_BITS, id & ((1 << TRACE_ID_BITS) - 1));
        let place = stream as usize * self.ring + (number % self.ring as u64) as usize;
        let held = self.pending.get(place).map_or(u64::MAX, |pending| pending.id);
        if number == 0 || held > id {
            self.counts.stale += 1;
            return None;
        }
        if held < id {
            self.vacate(place);
            let width = self.receivers.len();
            self.reports.get_mut(place * width..(place + 1) * width)?.fill(NO_REPORT);
            *self.pending.get_mut(place)? = Pending { id, ..Pending::default() };
        }
        Some(place)
    }

    /// Ends a message that will not get all its reports. If only arrivals are missing (a trace
    /// was dropped) the rest of it still counts.
    fn vacate(&mut self, place: usize) {
        let Some(pending) = self.pending.get_mut(place) else { return };
        if pending.id == 0 || pending.done {
            return;
        }
        pending.done = true;
        let pending = *pending;
        let released = self.alive_reports(place).all(|report| report.released.is_some());
        match pending.published {
            Some(sent) if released && self.alive > 0 => self.settle(place, sent, &pending),
            _ => self.counts.incomplete += 1,
        }
    }

    fn settle_if_complete(&mut self, place: usize) {
        let Some(pending) = self.pending.get(place).copied() else { return };
        let Some(sent) = pending.published.filter(|_| !pending.done && self.alive > 0) else {
            return;
        };
        // Reports of the dead may be among those counted: the exact look follows.
        if (pending.reports as usize) < 2 * self.alive {
            return;
        }
        let complete = |report: &Report| report.arrived.is_some() && report.released.is_some();
        if self.alive_reports(place).all(complete) {
            if let Some(pending) = self.pending.get_mut(place) {
                pending.done = true;
            }
            self.settle(place, sent, &pending);
        }
    }

    fn alive_reports(&self, place: usize) -> impl Iterator<Item = &Report> {
        let width = self.receivers.len();
        let reports = self.reports.get(place * width..(place + 1) * width).unwrap_or(&[]);
        self.receivers.iter().zip(reports).filter(|(who, _)| !who.gone).map(|(_, report)| report)
    }

    /// Takes a complete message into all figures.
    fn settle(&mut self, place: usize, sent: Nanos, pending: &Pending) {
        if sent < self.measure_from {
            self.counts.before_measure += 1;
            return;
        }
        let outcome = self.outcome(place, sent, pending.has_deadline);
        self.total.add(&outcome);
        if let Some((_, part)) = self.parts.iter_mut().rev().find(|(from, _)| *from <= sent) {
            part.add(&outcome);
        }
        let second = Nanos(sent.0 - sent.0 % Nanos::SECOND);
        if second > self.seconds[0].0 {
            self.seconds.swap(0, 1);
            self.seconds[0].0 = second;
            self.seconds[0].1.clear();
        }
        self.seconds[0].1.add(&outcome);
        if outcome.has_deadline {
            self.series.add(sent, outcome.dws_ns);
        }
        let width = self.receivers.len();
        let reports = self.reports.get(place * width..(place + 1) * width).unwrap_or(&[]);
        for (receiver, report) in self.receivers.iter_mut().zip(reports) {
            if receiver.gone {
                continue;
            }
            if let Some(at) = report.arrived {
                receiver.arrival.record(at - sent);
            }
            if let Some(at) = report.released {
                receiver.release.record(at - sent);
            }
            if pending.has_deadline {
                receiver.late_self += u64::from(report.late == Lateness::Own);
                receiver.late_blocked += u64::from(report.late == Lateness::Blocked);
            }
        }
    }

    fn outcome(&self, place: usize, sent: Nanos, has_deadline: bool) -> MessageOutcome {
        let (mut first, mut last) = (Nanos::NEVER, Nanos(0));
        let mut arrival = Some(Nanos(0));
        let mut outcome = MessageOutcome {
            has_deadline,
            oml_arrival_ns: None,
            oml_release_ns: 0,
            dws_ns: 0,
            fair: false,
            late_self: 0,
            late_blocked: 0,
            hold_ns_sum: 0,
            holds: 0,
        };
        for report in self.alive_reports(place) {
            let released = report.released.unwrap_or_default();
            (first, last) = (first.min(released), last.max(released));
            arrival = arrival.zip(report.arrived).map(|(latest, at)| latest.max(at));
            if let Some(at) = report.arrived {
                outcome.hold_ns_sum = outcome.hold_ns_sum.saturating_add(released - at);
                outcome.holds += 1;
            }
            outcome.late_self += u64::from(report.late == Lateness::Own);
            outcome.late_blocked += u64::from(report.late == Lateness::Blocked);
        }
        outcome.oml_arrival_ns = arrival.map(|at| at - sent);
        outcome.oml_release_ns = last - sent;
        outcome.dws_ns = last - first;
        outcome.fair = outcome.dws_ns <= self.fair_window_ns;
        outcome
    }
}
