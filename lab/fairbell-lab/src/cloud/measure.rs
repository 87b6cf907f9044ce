//! What a run in a box came to: clocks against the truth, deliveries in true time, books.
//!
//! The truth is CLOCK_MONOTONIC, which all processes of the machine read. The first root's clock is
//! right by definition; every other one is as wrong as it differs from that at the same instant.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use exchange::{Past, Role, Root, audit_with};
use feed::{Joined, Listener};
use host::failure::Failure;
use host::fleet::file::NodeRole;
use host::fleet::traces;
use host::journal::reader::InputReader;
use host::replica::node::DiskInputs;
use net::Clock;
use serde::Serialize;
use telemetry::{Delivery, DeliveryLedger, LedgerConfig};
use types::{AccountId, ClockReading, FeedSeq, Input, Nanos, ShardId, Trace, TracePoint};

use super::site::{Sample, Site};
use crate::drill::Told;

/// Between two looks at the clocks.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A log without anything new for so long stands still; how long that is waited for at most.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_MAX: Duration = Duration::from_secs(15);
/// What a clock's error may differ from an even change between two looks, ns.
const BETWEEN_LOOKS_NS: u64 = 50 * Nanos::MICRO;
/// Messages of which not all releases are known yet, at most.
const MESSAGES_MAX: usize = 1 << 16;

/// A clock at one time.
#[derive(Clone, Copy)]
struct Look {
    /// What it read, ns.
    clock: u64,
    /// That less CLOCK_MONOTONIC, ns.
    offset: i128,
    /// What it claimed its error to be at most, ns.
    bound: u64,
}

impl Look {
    /// CLOCK_MONOTONIC then, ns.
    fn monotonic(&self) -> i128 {
        i128::from(self.clock) - self.offset
    }

    /// How far it is from the truth, ns.
    fn error(&self, truth: i128) -> u64 {
        (self.offset - truth).unsigned_abs().min(u64::MAX.into()) as u64
    }
}

/// A root while its clock was the one that all followed.
struct Reference {
    epoch: u64,
    place: usize,
    /// CLOCK_MONOTONIC when it was first seen to follow itself, ns.
    since: i128,
    /// Its clock as long as it was seen to: a process that was started again is none any more.
    looks: Vec<Look>,
}

/// What was seen of the clocks of a run.
#[derive(Default)]
pub struct Clocks {
    /// By place, in order of time.
    looks: BTreeMap<usize, Vec<Look>>,
    /// In the order of their appointments.
    references: Vec<Reference>,
    /// The system's clock less CLOCK_MONOTONIC, ns.
    base: i128,
}

impl Clocks {
    /// Looks at the clocks of a site until `stop`.
    pub fn watch(site: &Site<'_>, stop: &AtomicBool) -> Clocks {
        let clock = Clock::start(0);
        let now = clock.now();
        let base = i128::from(now.0) - i128::from(clock.monotonic(now));
        let mut clocks = Clocks { base, ..Clocks::default() };
        while !stop.load(Ordering::Relaxed) {
            if let Ok(standing) = site.standing() {
                standing.up.iter().for_each(|sample| clocks.take(sample));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        clocks
    }

    fn take(&mut self, Sample { place, health }: &Sample) {
        let monotonic = i128::from(health.monotonic_ns);
        let offset = i128::from(health.clock_now_ns) - monotonic;
        let known = self.looks.entry(*place).or_default();
        if known.last().is_some_and(|last| last.clock >= health.clock_now_ns) {
            return;
        }
        let (clock, bound) = (health.clock_now_ns, health.clock_bound_ns);
        let look = Look { clock, offset, bound };
        known.push(look);
        let (place, epoch) = (*place, health.follows.epoch);
        if usize::from(health.follows.number) != place + 1 {
            return;
        }
        if self.references.last().is_none_or(|last| last.epoch < epoch) {
            let looks = Vec::new();
            self.references.push(Reference { epoch, place, since: monotonic, looks });
        }
        if let Some(last) = self.references.last_mut().filter(|last| last.epoch == epoch) {
            last.looks.push(look);
        }
    }

    /// How many references there were.
    pub fn references(&self) -> usize {
        self.references.len()
    }

    /// Place of the reference at a time and the looks at it; the first root where nobody keeps the clocks.
    fn reference(&self, monotonic: i128) -> (usize, &[Look]) {
        let after = self.references.partition_point(|of| of.since <= monotonic);
        let of = self.references.get(after.saturating_sub(1));
        let first = || self.looks.get(&0).map_or(&[][..], Vec::as_slice);
        of.map_or_else(|| (0, first()), |of| (of.place, &of.looks))
    }

    /// What the reference's clock was ahead of CLOCK_MONOTONIC at a time, ns: it changes evenly between
    /// two looks, and before the first and after the last. And the error that it claimed itself, which is
    /// above zero for a while after another one was followed.
    fn truth(&self, monotonic: i128) -> Option<(i128, u64)> {
        let (_, known) = self.reference(monotonic);
        let after = known.partition_point(|look| look.monotonic() <= monotonic);
        let last = after.clamp(1, known.len().saturating_sub(1).max(1));
        let first = known.get(last - 1)?;
        let bound = known.get(after.saturating_sub(1)).map_or(0, |look| look.bound);
        let Some(second) = known.get(last) else { return Some((first.offset, bound)) };
        let (t0, t1) = (first.monotonic(), second.monotonic().max(first.monotonic() + 1));
        let gained = (second.offset - first.offset) * (monotonic - t0) / (t1 - t0);
        Some((first.offset + gained, bound))
    }

    /// Readings of those who follow: place, error, and what it may be, ns.
    fn judged(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        let all = self.looks.iter().flat_map(|(at, known)| known.iter().map(|look| (*at, look)));
        all.filter_map(|(place, look)| {
            let monotonic = look.monotonic();
            let (truth, doubt) =
                self.truth(monotonic).filter(|_| self.reference(monotonic).0 != place)?;
            Some((place, look.error(truth), look.bound.saturating_add(doubt)))
        })
    }

    /// Errors of all readings of those who follow, ns.
    pub fn errors(&self) -> Vec<u64> {
        self.judged().map(|(_, error, _)| error).collect()
    }

    /// Readings beyond what was claimed: place, error and claim, ns.
    pub fn beyond(&self) -> Vec<(usize, u64, u64)> {
        self.judged().filter(|(_, error, bound)| error > bound).collect()
    }

    /// Claimed bounds of those who follow, ns.
    pub fn bounds(&self) -> Vec<u64> {
        self.judged().map(|(.., bound)| bound).collect()
    }

    /// The looks at a clock before and after it read `at`.
    fn around(&self, place: usize, at: Nanos) -> (Option<&Look>, Option<&Look>) {
        let known = self.looks.get(&place).map_or(&[][..], Vec::as_slice);
        let after = known.partition_point(|look| look.clock <= at.0);
        (after.checked_sub(1).and_then(|before| known.get(before)), known.get(after))
    }

    /// The system's time when the clock of a place read `at`: between two looks the error is taken to
    /// change evenly.
    fn correct(&self, place: usize, at: Nanos) -> Option<Nanos> {
        let offset = match self.around(place, at) {
            (Some(from), Some(to)) if to.clock > from.clock => {
                let (part, whole) = (at.0 - from.clock, to.clock - from.clock);
                from.offset + (to.offset - from.offset) * i128::from(part) / i128::from(whole)
            }
            (Some(look), _) | (None, Some(look)) => look.offset,
            (None, None) => return None,
        };
        u64::try_from(i128::from(at.0) - offset + self.base).ok().map(Nanos)
    }

    /// The system's time when the reference of the system's time `near` read `at`.
    fn correct_common(&self, near: Nanos, at: Nanos) -> Option<Nanos> {
        let (truth, _) = self.truth(i128::from(near.0) - self.base)?;
        u64::try_from(i128::from(at.0) - truth + self.base).ok().map(Nanos)
    }

    /// The error that a place claimed around its time `at`, ns: the larger one of two looks.
    fn claimed(&self, place: usize, at: Nanos) -> Option<u64> {
        let (before, after) = self.around(place, at);
        before.into_iter().chain(after).map(|look| look.bound).max()
    }
}

/// What was released before its time.
#[derive(Serialize, Clone, Default, Debug)]
pub struct Early {
    /// Releases with a deadline that were looked at.
    pub releases: u64,
    /// Of those, earlier in true time than the deadline less the bounds of both clocks.
    pub early: u64,
    /// The earliest of them, ns before that.
    pub most_ns: u64,
}

impl Early {
    /// Takes a release at a true time, whose deadline counts `allowed_ns` before it at the earliest.
    fn take(&mut self, at: Nanos, deadline: Nanos, allowed_ns: u64) {
        self.releases += 1;
        let by = Nanos(deadline.0.saturating_sub(allowed_ns)).since(at);
        self.early += u64::from(by > 0);
        self.most_ns = self.most_ns.max(by);
    }
}

/// Compares the releases of all edges, as they noted them, with the deadlines in true time.
///
/// # Errors
/// Traces that can't be read.
pub fn early(site: &Site<'_>, clocks: &Clocks) -> Result<Early, Failure> {
    let (roots, mut found) = (site.places(NodeRole::Root), Early::default());
    for place in site.places(NodeRole::Edge) {
        for trace in traces::read(&site.folder(place))? {
            let released = !matches!(trace.point, TracePoint::Published | TracePoint::Arrived);
            let own = clocks.correct(place, trace.at).zip(clocks.claimed(place, trace.at));
            let Some((at, bound)) = own.filter(|_| released && trace.value > 0) else { continue };
            // Whichever root stamped it.
            let stamped = Nanos(trace.value);
            let theirs = roots.iter().filter_map(|root| clocks.claimed(*root, stamped)).max();
            let Some(deadline) = clocks.correct_common(at, stamped) else { continue };
            found.take(at, deadline, bound + theirs.unwrap_or(0) + BETWEEN_LOOKS_NS);
        }
    }
    Ok(found)
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

/// What the log on a disk says, and how the feed and the participants compare with it.
pub struct Log {
    /// Books are equal at every position compared.
    pub books_equal: bool,
    /// Positions compared.
    pub positions: u64,
    /// What is wrong.
    pub problems: Vec<String>,
    /// Listeners that did not hear each message of the feed, one line each.
    pub gaps: Vec<String>,
    /// What participants should have been told.
    pub told: Told,
    /// What strategies at edges should have been.
    pub strategies: Told,
}

/// Waits until the log on the disk of a replica has had nothing new for a while: strategies ask for more behind the
/// participants' last request, and what they cause has to reach all edges before these are stopped.
///
/// # Errors
/// A journal that can't be read.
pub fn quiet(site: &Site<'_>, place: usize) -> Result<(), Failure> {
    let mut log = InputReader::of(&site.folder(place).join("journal"), true);
    let begun = Instant::now();
    let mut last = begun;
    while last.elapsed() < QUIET && begun.elapsed() < QUIET_MAX {
        std::thread::sleep(LOOK_EVERY);
        if log.poll(usize::MAX, &mut |_| Ok(()))? > 0 {
            last = Instant::now();
        }
    }
    Ok(())
}

/// Replays the log on the disk of a replica, and compares its books with those that listeners built from
/// the released feed. `without` leaves out one input of the replay, as a control.
///
/// # Errors
/// A journal that can't be read.
pub fn log(
    site: &Site<'_>,
    place: usize,
    listeners: &[Role],
    without: Option<u64>,
) -> Result<Log, Failure> {
    log_of(site, (ShardId(0), place), listeners, without)
}

/// The same of a shard's root.
///
/// # Errors
/// As [`log`].
pub fn log_of(
    site: &Site<'_>,
    (shard, place): (ShardId, usize),
    listeners: &[Role],
    without: Option<u64>,
) -> Result<Log, Failure> {
    let exchange = site.exchange()?.of_shard(shard);
    let journal = site.folder(place).join("journal");
    let group = site.file.of_shard(shard).group();
    let trees = exchange.trees().map_err(|error| Failure::Run(error.to_string()))?;
    let root = Root::new(&exchange, &trees).map_err(|error| Failure::Run(error.to_string()));
    let mut root = root?;
    let now = ClockReading { now: Nanos(site.file.midnight_ns), bound_ns: 0 };
    let resumed = root.resume(now, DiskInputs::open(&journal, group)?);
    resumed.map_err(|error| Failure::Run(error.to_string()))?;
    let inputs = || -> Box<dyn Iterator<Item = Input>> {
        let all = DiskInputs::open(&journal, group).into_iter().flatten();
        Box::new(all.filter(move |input| without != Some(input.seq.0)))
    };
    let channels = listeners.iter().filter_map(Role::as_listener).map(|one| one.channels());
    // Those of the shard, among those of all in their order.
    let streams = usize::from(exchange.options.streams());
    let own = usize::from(shard.0) * streams;
    let channels: Vec<&[Listener]> =
        channels.filter_map(|all| all.get(own..own + streams)).collect();
    let gaps = channels.iter().zip(1..).flat_map(|(streams, number)| {
        let ends = root.router().next().iter();
        streams.iter().zip(ends).filter_map(move |(listener, end)| {
            let joined = listener.joined().filter(|_| !site.snapshots);
            gap(listener.next_seq(), *end, joined).map(|what| format!("listener {number} {what}"))
        })
    });
    let gaps = gaps.collect();
    let accounts = site.config.accounts.0.iter();
    let strategies: Vec<bool> = accounts
        .map(|of| site.config.strategies.0.iter().any(|one| one.account == of.username))
        .collect();
    let is_strategy =
        |of: AccountId| strategies.get(usize::from(of.0).wrapping_sub(1)).copied().unwrap_or(false);
    let config = || root.engine().config().clone();
    let (told, late) = Told::log(config(), inputs(), |account| !is_strategy(account));
    let strategies = match strategies.contains(&true) {
        true => Told::log(config(), inputs(), is_strategy).0,
        false => Told::default(),
    };
    let audit = audit_with(&root, &Past { start: None, inputs: &inputs }, channels);
    let mut problems = audit.problems;
    problems.extend(audit.unequal.iter().map(|unequal| format!("{unequal:?}")));
    problems.extend(late);
    let (books_equal, positions) = (audit.books_equal, audit.positions);
    Ok(Log { books_equal, positions, problems, gaps, told, strategies })
}

/// What a listener lacks of a feed whose next message is `end`.
fn gap(heard: FeedSeq, end: FeedSeq, joined: Option<Joined>) -> Option<String> {
    match joined {
        Some(Joined { last, .. }) => {
            Some(format!("took a snapshot at {last} for what is before it"))
        }
        None if heard != end => Some(format!("heard the feed up to {heard}, and it is at {end}")),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use host::fleet::messages::{Followed, Health};

    use super::*;

    fn look(clock: u64, offset: i128, bound: u64) -> Look {
        Look { clock, offset, bound }
    }

    fn seen(places: &[(usize, &[Look])]) -> Clocks {
        let looks = places.iter().map(|(place, looks)| (*place, looks.to_vec())).collect();
        Clocks { looks, ..Clocks::default() }
    }

    #[test]
    fn clocks_are_judged_by_the_reference_of_the_moment_and_what_it_doubts_itself() {
        let own = [look(1_000, 0, 0), look(2_000, 0, 0), look(2_900, 0, 0)];
        // The second one goes on 50 ahead from 3,000 on, drifts by 0.1, and says it may be 30 wrong.
        let next = [look(2_050, 50, 60), look(3_050, 50, 30), look(4_150, 150, 30)];
        let third = [look(2_500, 0, 5), look(3_580, 80, 5)];
        let mut clocks = seen(&[(0, &own), (1, &next), (2, &third)]);
        let of = |epoch, place, since, looks: &[Look]| Reference {
            epoch,
            place,
            since,
            looks: looks.to_vec(),
        };
        clocks.references = vec![of(7, 0, 500, &own), of(9, 1, 3_000, &next[1..])];
        // At 2,500 against the first, at 3,500 against the second, which is 100 ahead by then.
        let judged: Vec<_> = clocks.judged().filter(|(place, ..)| *place == 2).collect();
        assert_eq!(judged, [(2, 0, 5), (2, 20, 35)]);
        assert_eq!(clocks.beyond(), []);
        assert_eq!(clocks.correct_common(Nanos(3_500), Nanos(3_600)), Some(Nanos(3_500)));
    }

    #[test]
    fn a_reference_that_was_started_again_is_no_truth() {
        let mut clocks = Clocks::default();
        let say = |clocks: &mut Clocks,
                   place,
                   monotonic_ns: u64,
                   (ahead, clock_bound_ns),
                   (number, epoch)| {
            let clock_now_ns = monotonic_ns + ahead;
            let follows = Followed { number, epoch };
            let health =
                Health { monotonic_ns, clock_now_ns, clock_bound_ns, follows, ..Health::default() };
            clocks.take(&Sample { place, health });
        };
        for time in [1_000, 2_000] {
            say(&mut clocks, 0, time, (100, 0), (1, 7));
            say(&mut clocks, 1, time, (105, 10), (1, 7));
        }
        // Its free-running clock is 900 ahead, and nobody follows that.
        say(&mut clocks, 0, 3_000, (900, 5_000), (0, 0));
        say(&mut clocks, 1, 3_000, (108, 10), (1, 7));
        assert_eq!(clocks.beyond(), []);
        say(&mut clocks, 1, 4_000, (111, 10), (1, 7));
        assert_eq!(clocks.beyond(), [(1, 11, 10)]);
    }

    #[test]
    fn a_clock_beyond_its_bound_is_counted() {
        let mut clocks =
            seen(&[(0, &[look(1_000, 100, 0)]), (3, &[look(1_000, 110, 10), look(2_000, 90, 10)])]);
        assert_eq!((clocks.errors(), clocks.beyond()), (vec![10, 10], vec![]));
        clocks.looks.entry(3).or_default().push(look(3_000, 111, 10));
        assert_eq!(clocks.beyond(), [(3, 11, 10)]);
    }

    #[test]
    fn a_release_before_its_deadline_in_true_time_is_early() {
        // The clock is ahead by 500 at 2,000 and claims 20.
        let clocks =
            seen(&[(0, &[look(1_000, 0, 0)]), (3, &[look(1_000, 0, 20), look(3_000, 1_000, 10)])]);
        assert_eq!(clocks.correct(3, Nanos(2_000)), Some(Nanos(1_500)));
        assert_eq!(clocks.claimed(3, Nanos(2_000)), Some(20));
        let mut early = Early::default();
        early.take(Nanos(1_500), Nanos(1_520), 20);
        assert_eq!((early.releases, early.early), (1, 0));
        early.take(Nanos(1_500), Nanos(1_521), 20);
        assert_eq!((early.releases, early.early, early.most_ns), (2, 1, 1));
    }

    #[test]
    fn a_listener_that_lacks_a_message_has_a_gap() {
        assert_eq!(gap(FeedSeq(8), FeedSeq(8), None), None);
        assert!(gap(FeedSeq(7), FeedSeq(8), None).is_some());
        let joined = Joined { first: FeedSeq(2), last: FeedSeq(2), times: 1 };
        assert!(gap(FeedSeq(8), FeedSeq(8), Some(joined)).is_some());
    }
}
