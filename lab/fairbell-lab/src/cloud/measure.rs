//! What a run in a box came to: clocks against the truth, deliveries in true time, books.
//!
//! The truth is CLOCK_MONOTONIC, which all processes of the machine read. The first root's clock is
//! right by definition; every other one is as wrong as it differs from that at the same instant.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use exchange::{Past, Role, Root, audit_with};
use feed::Listener;
use host::failure::Failure;
use host::fleet::file::NodeRole;
use host::fleet::traces;
use host::replica::node::DiskInputs;
use telemetry::{Delivery, DeliveryLedger, LedgerConfig};
use types::{ClockReading, Input, Nanos, Trace, TracePoint};

use super::site::{Sample, Site};

/// Between two looks at the clocks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Messages of which not all releases are known yet, at most.
const MESSAGES_MAX: usize = 1 << 16;

/// What was seen of the clocks of a run.
#[derive(Default)]
pub struct Clocks {
    /// By place: (clock, clock less CLOCK_MONOTONIC), ns, in order of time.
    offsets: BTreeMap<usize, Vec<(u64, i128)>>,
    /// By place: as `offsets`, with the bound that was claimed, ns.
    claims: Vec<(usize, i128, u64)>,
}

impl Clocks {
    /// Looks at the clocks of a site until `stop`.
    pub fn watch(site: &Site<'_>, stop: &AtomicBool) -> Clocks {
        let mut clocks = Clocks::default();
        while !stop.load(Ordering::Relaxed) {
            if let Ok((_, samples)) = site.status() {
                samples.iter().for_each(|sample| clocks.take(sample));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        clocks
    }

    fn take(&mut self, Sample { place, health }: &Sample) {
        let offset = i128::from(health.clock_now_ns) - i128::from(health.monotonic_ns);
        let known = self.offsets.entry(*place).or_default();
        if known.last().is_none_or(|(last, _)| *last < health.clock_now_ns) {
            known.push((health.clock_now_ns, offset));
            self.claims.push((*place, offset, health.clock_bound_ns));
        }
    }

    /// The first root's clock less CLOCK_MONOTONIC, ns.
    fn truth(&self) -> Option<i128> {
        self.offsets.get(&0).and_then(|known| known.first()).map(|(_, offset)| *offset)
    }

    /// Errors of all readings of the others, ns, and how many were beyond what they claimed.
    pub fn errors(&self) -> (Vec<u64>, u64) {
        let Some(truth) = self.truth() else { return (Vec::new(), 0) };
        let others = self.claims.iter().filter(|(place, ..)| *place != 0);
        let (mut errors, mut beyond) = (Vec::new(), 0);
        for (_, offset, bound) in others {
            let error = (offset - truth).unsigned_abs().min(u64::MAX.into()) as u64;
            beyond += u64::from(error > *bound);
            errors.push(error);
        }
        (errors, beyond)
    }

    /// Claimed bounds of the others, ns.
    pub fn bounds(&self) -> Vec<u64> {
        let others = self.claims.iter().filter(|(place, ..)| *place != 0);
        others.map(|(.., bound)| *bound).collect()
    }

    /// The true time, on the first root's clock, when the clock of a place read `at`: between two looks
    /// the error is taken to change evenly.
    fn correct(&self, place: usize, at: Nanos) -> Option<Nanos> {
        let (known, truth) = (self.offsets.get(&place)?, self.truth()?);
        let after = known.partition_point(|(time, _)| *time <= at.0);
        let offset = match (after.checked_sub(1).and_then(|at| known.get(at)), known.get(after)) {
            (Some((t0, o0)), Some((t1, o1))) if t1 > t0 => {
                o0 + (o1 - o0) * i128::from(at.0 - t0) / i128::from(t1 - t0)
            }
            (Some((_, offset)), _) | (None, Some((_, offset))) => *offset,
            (None, None) => return None,
        };
        let true_at = i128::from(at.0) - (offset - truth);
        u64::try_from(true_at).ok().map(Nanos)
    }
}

/// Deliveries of the messages sent in a span of true time.
pub struct Deliveries {
    /// All together.
    pub delivery: Delivery,
    /// Share of messages released everywhere within the window that was asked for.
    pub window_ns: u64,
}

/// Reads the traces of all nodes, and puts them on one clock.
///
/// # Errors
/// Traces that can't be read.
pub fn deliveries(
    site: &Site<'_>,
    clocks: &Clocks,
    from: Nanos,
    window_ns: u64,
) -> Result<Deliveries, Failure> {
    let overlay = site.file.overlay(&site.config)?;
    let mut all: Vec<Trace> = Vec::new();
    let mut receivers = Vec::new();
    for (place, node) in site.file.nodes.iter().enumerate() {
        if !(node.is(NodeRole::Root) || node.is(NodeRole::Edge)) {
            continue;
        }
        let number = place as u16 + 1;
        let own = overlay.iter().find(|(_, machine, _)| *machine == number).map(|(id, ..)| *id);
        receivers.extend(own);
        let traces = traces::read(&site.folder(place))?.into_iter();
        all.extend(traces.filter_map(|trace| {
            let at = clocks.correct(place, trace.at)?;
            Some(Trace { at, ..trace })
        }));
    }
    all.sort_by_key(|trace| (trace.at, trace.point != TracePoint::Published));
    let mut ledger = DeliveryLedger::new(&LedgerConfig {
        messages_max: MESSAGES_MAX,
        ..LedgerConfig::new(receivers, window_ns)
    });
    ledger.measure_from(from);
    ledger.record_all(&all);
    ledger.finish();
    Ok(Deliveries { delivery: ledger.delivery(), window_ns })
}

/// How the books of all edges compare with the log.
pub struct Books {
    /// All are equal at every position compared.
    pub equal: bool,
    /// Positions compared.
    pub positions: u64,
    /// What is wrong.
    pub problems: Vec<String>,
}

/// Replays the log on the disk of a replica, and compares its books with those that listeners built from
/// the released feed.
///
/// # Errors
/// A journal that can't be read.
pub fn books(site: &Site<'_>, place: usize, listeners: &[Role]) -> Result<Books, Failure> {
    let exchange = site.exchange()?;
    let journal = site.folder(place).join("journal");
    let group = site.file.id;
    let trees = exchange.trees().map_err(|error| Failure::Run(error.to_string()))?;
    let root = Root::new(&exchange, &trees).map_err(|error| Failure::Run(error.to_string()));
    let mut root = root?;
    let now = ClockReading { now: Nanos(site.file.midnight_ns), bound_ns: 0 };
    let resumed = root.resume(now, DiskInputs::open(&journal, group)?);
    resumed.map_err(|error| Failure::Run(error.to_string()))?;
    let inputs = || -> Box<dyn Iterator<Item = Input>> {
        Box::new(DiskInputs::open(&journal, group).into_iter().flatten())
    };
    let channels = listeners.iter().filter_map(Role::as_listener).map(|one| one.channels());
    let channels: Vec<&[Listener]> = channels.collect();
    let audit = audit_with(&root, &Past { start: None, inputs: &inputs }, channels);
    let mut problems = audit.problems;
    problems.extend(audit.unequal.iter().map(|unequal| format!("{unequal:?}")));
    Ok(Books { equal: audit.books_equal, positions: audit.positions, problems })
}
