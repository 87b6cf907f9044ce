//! What a run in a box came to: clocks against the truth, deliveries in true time, books.
//!
//! All processes of the machine read CLOCK_MONOTONIC. A clock is right when it reads what the
//! reference's does at the same instant, whichever root is the reference then.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use exchange::{Past, Role, Root, audit_with};
use feed::Listener;
use host::failure::Failure;
use host::fleet::file::NodeRole;
use host::fleet::traces;
use host::replica::node::DiskInputs;
use net::Clock;
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
    claims: Vec<Claim>,
    /// References, in the order of their appointments: epoch, place, CLOCK_MONOTONIC when it was first
    /// seen to be followed by itself.
    references: Vec<(u64, usize, i128)>,
    /// The system's clock less CLOCK_MONOTONIC, ns.
    base: i128,
}

/// What a clock read at an instant, and how wrong it claimed to be.
struct Claim {
    place: usize,
    monotonic: i128,
    offset: i128,
    bound_ns: u64,
}

impl Clocks {
    /// Looks at the clocks of a site until `stop`.
    pub fn watch(site: &Site<'_>, stop: &AtomicBool) -> Clocks {
        let clock = Clock::start(0);
        let now = clock.now();
        let base = i128::from(now.0) - i128::from(clock.monotonic(now));
        let mut clocks = Clocks { base, ..Clocks::default() };
        while !stop.load(Ordering::Relaxed) {
            if let Ok((_, samples)) = site.status() {
                samples.iter().for_each(|sample| clocks.take(sample));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        clocks
    }

    fn take(&mut self, Sample { place, health }: &Sample) {
        let monotonic = i128::from(health.monotonic_ns);
        let offset = i128::from(health.clock_now_ns) - monotonic;
        let known = self.offsets.entry(*place).or_default();
        if known.last().is_some_and(|(last, _)| *last >= health.clock_now_ns) {
            return;
        }
        known.push((health.clock_now_ns, offset));
        let bound_ns = health.clock_bound_ns;
        self.claims.push(Claim { place: *place, monotonic, offset, bound_ns });
        let epoch = health.follows.epoch;
        let is_own = usize::from(health.follows.number) == place + 1;
        if is_own && self.references.last().is_none_or(|(last, ..)| *last < epoch) {
            self.references.push((epoch, *place, monotonic));
        }
    }

    /// Place of the reference at a time; the first root where nobody keeps the clocks.
    fn reference(&self, monotonic: i128) -> usize {
        let after = self.references.partition_point(|(.., since)| *since <= monotonic);
        self.references.get(after.saturating_sub(1)).map_or(0, |(_, place, _)| *place)
    }

    /// What the clock of a place read at a time, less that: changes evenly between two looks, and
    /// before the first and after the last.
    fn offset(&self, place: usize, monotonic: i128) -> Option<i128> {
        let known = self.offsets.get(&place)?;
        let at = |(clock, offset): &(u64, i128)| i128::from(*clock) - offset;
        let after = known.partition_point(|one| at(one) <= monotonic);
        let last = after.clamp(1, known.len().saturating_sub(1).max(1));
        let first = known.get(last - 1)?;
        let Some(second) = known.get(last) else { return Some(first.1) };
        let (t0, t1) = (at(first), at(second).max(at(first) + 1));
        Some(first.1 + (second.1 - first.1) * (monotonic - t0) / (t1 - t0))
    }

    /// Error of a reading, ns, and what it may be: its own bound and that of the reference, which is in
    /// doubt for a while after another one was followed. `None` for the reference's own.
    fn error(&self, claim: &Claim) -> Option<(u64, u64)> {
        let reference = self.reference(claim.monotonic);
        if reference == claim.place {
            return None;
        }
        let truth = self.offset(reference, claim.monotonic)?;
        let own = self.claims.iter().rev().filter(|of| of.place == reference);
        let doubt = own.filter(|of| of.monotonic <= claim.monotonic).map(|of| of.bound_ns).next();
        let error = (claim.offset - truth).unsigned_abs().min(u64::MAX.into()) as u64;
        Some((error, claim.bound_ns.saturating_add(doubt.unwrap_or(0))))
    }

    /// Errors of all readings of those who follow, ns, and how many were beyond what they claimed.
    pub fn errors(&self) -> (Vec<u64>, u64) {
        let of = self.claims.iter().filter_map(|claim| self.error(claim));
        let (mut errors, mut beyond) = (Vec::new(), 0);
        for (error, most) in of {
            beyond += u64::from(error > most);
            errors.push(error);
        }
        (errors, beyond)
    }

    /// Claimed bounds of those who follow, ns.
    pub fn bounds(&self) -> Vec<u64> {
        let follows = |claim: &&Claim| self.reference(claim.monotonic) != claim.place;
        self.claims.iter().filter(follows).map(|claim| claim.bound_ns).collect()
    }

    /// How many references there were.
    pub fn references(&self) -> usize {
        self.references.len()
    }

    /// The system's time when the clock of a place read `at`.
    fn correct(&self, place: usize, at: Nanos) -> Option<Nanos> {
        let about = i128::from(at.0) - self.offsets.get(&place)?.first()?.1;
        // Clocks drift by 10^-4 at most: the second look is at the right moment.
        let monotonic = i128::from(at.0) - self.offset(place, about)?;
        u64::try_from(monotonic + self.base).ok().map(Nanos)
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
