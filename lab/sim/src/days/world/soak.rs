//! Whole days of trading with a fault every minute, bounded as a venue's memory is: does anything get lost, does
//! anything grow?
//!
//! The root keeps its newest inputs and reports in memory, the older ones in a spill store whose oldest part goes, as
//! with `memory.when_full = "recycle"`. Every hour, or when there are many, the new inputs go through an engine of the check's own, which
//! must be in the state of the live one; at the end of each day everybody's books are the engine's and every request
//! has its answer. Whoever runs it looks at the memory of the process every ten minutes of trading.

use engine::Output;
use engine::schedule::DayTimes;
use exchange::{ExchangeConfig, Life, Role, Snapshots, Timetable, overlay_node};
use types::{Channel, Input, MemorySpill, Nanos, NodeId, Outbox, SpillStore, SplitMix64};

use super::{Actor, DAY, OPENS, Options, RECEIVERS, Run, SECOND, START, Trader, config, schedule};
use crate::world::{Fault, address};

const MINUTE: u64 = 60 * SECOND;
/// Trading of a day begins in this minute of it.
const FIRST: u64 = 3;
/// Most minutes of trading of a day.
pub const MINUTES_MAX: u32 = 1_430;
/// Minutes of trading between two looks of whoever runs it.
const LOOK_EVERY: u64 = 10;
/// Most inputs, and so many reports, that the root has in memory.
const IN_MEMORY_MAX: u64 = 8_192;
/// Bytes of reports that it has in its spill store for each input that it has in the other one.
const REPORT_BYTES: u64 = 128;
/// When the first day begins: half a minute behind its midnight.
const BEGINS: u64 = MINUTE / 2;

/// What is soaked.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Days of trading, one after another.
    pub days: u32,
    /// Minutes of trading each day, at most [`MINUTES_MAX`]; each has a fault.
    pub minutes: u32,
    /// Requests of a minute.
    pub per_minute: u32,
    /// A trader with so many open orders cancels one before it enters another: what rests in the books is bounded, too.
    pub open_max: u32,
    /// The acceptance of an order never reaches its trader: a seeded bug.
    pub loses: bool,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SoakReport {
    /// What did not hold, the first few.
    pub failures: Vec<String>,
    /// Days that came to their end.
    pub days: u32,
    /// Requests, and those with an answer.
    pub requests: (u64, u64),
    /// Faults by kind.
    pub faults: Vec<(&'static str, u64)>,
    /// Inputs of the log, and those before the first that is left.
    pub inputs: (u64, u64),
    /// Orders that were open at the end of each day.
    pub open_orders: Vec<u64>,
    /// Messages of the feed.
    pub messages: u64,
    /// Logins of the traders.
    pub logins: u64,
    /// Times that the log gave the live engine's state.
    pub settled: u64,
    /// Events of the simulator.
    pub events: u64,
}

/// What is done, by turns.
const FAULTS: [&str; 8] = [
    "proxy cut off for 3 s",
    "all connections of an edge cut",
    "edge cut off for 2 s",
    "proxy stands still for 2 s",
    "a connection cut",
    "proxy killed, back after 5 s",
    "edge stands still for 1 s",
    "root stands still for 1 s",
];

/// Nobody needs the snapshots: what is checked every hour is still in the log.
struct Unkept;

impl Snapshots for Unkept {
    fn keep(&mut self, _applied: u64, _snapshot: &[u8]) -> bool {
        true
    }

    fn forget_before(&mut self, _applied: u64) {}
}

fn times(minutes: u64) -> DayTimes {
    let closes = FIRST + minutes;
    DayTimes {
        pre_open: MINUTE,
        opening_call: 2 * MINUTE,
        open: FIRST * MINUTE,
        closing_call: closes * MINUTE,
        close: (closes + 1) * MINUTE,
        end: (closes + 2) * MINUTE,
        indicative_every_ns: 10 * SECOND,
    }
}

fn venue(seed: u64, minutes: u64, start: Nanos) -> ExchangeConfig {
    let own = config(seed);
    ExchangeConfig {
        // What is bounded is bounded by the spill stores.
        log_capacity: 0,
        round_ns: SECOND,
        timetable: Timetable::empty().with_schedule(schedule(&times(minutes), start)),
        ..own
    }
}

/// Inputs that the root has in memory, for so many requests a day.
fn in_memory(day: u64) -> u64 {
    (day / 8).clamp(64, IN_MEMORY_MAX)
}

/// Bounds what roots keep, so that the first day, of so many requests, fills it.
fn bounded(nodes: &mut [Role], day: u64) {
    let in_memory = in_memory(day);
    let spilled = in_memory * 6;
    for role in nodes {
        role.with_root(&mut Outbox::default(), |root, _| {
            let store = || -> Box<dyn SpillStore> { Box::new(MemorySpill::default()) };
            let spills = root.spill_to((store(), in_memory as usize), (store(), in_memory));
            assert!(spills, "a new root spills");
            root.bound_spills(spilled as usize, spilled * REPORT_BYTES, Some(Box::new(Unkept)));
        });
    }
}

/// Runs it; `look` is called every ten minutes of trading with their number so far.
///
/// # Panics
/// When the built-in venue makes no exchange, which a test would find.
pub fn soak(seed: u64, soak: &Soak, look: &mut dyn FnMut(u64)) -> SoakReport {
    let minutes = u64::from(soak.minutes.clamp(1, MINUTES_MAX));
    let start = Nanos(START.0 - OPENS + SECOND / 2 + BEGINS);
    let options = Options::default();
    let venue = venue(seed, minutes, start);
    let per_day = minutes * u64::from(soak.per_minute);
    let mut run = Run::new(seed, (&options, venue, start), |nodes| bounded(nodes, per_day));
    if soak.loses {
        let trader = run.first_trader;
        if let Some(Actor::Trader(trader)) = run.world.node_mut(trader) {
            trader.loses = 5;
        }
    }
    let mut report =
        SoakReport { faults: FAULTS.map(|name| (name, 0)).to_vec(), ..SoakReport::default() };
    for day in 0..u64::from(soak.days) {
        run.day = day;
        if !run.soaked_day((minutes, soak), &mut report, look) {
            break;
        }
        report.days += 1;
        // Nothing happens until the next morning.
        let (now, morning) = (run.world.now(), run.at(DAY + BEGINS));
        run.world.skip(morning.since(now));
    }
    report.failures = std::mem::take(&mut run.report.failures);
    let root = run.root();
    report.inputs = (root.log().len() as u64, root.log().given_up() as u64);
    report.messages = root.engine().feed_next().0 - 1;
    report.events = run.world.stats().events;
    for trader in run.traders() {
        let (asked, answered) = trader.requests();
        report.requests.0 += asked;
        report.requests.1 += answered;
        report.logins += trader.counts().2;
    }
    report
}

impl Run<'_> {
    /// A day of trading; false when it can't go on.
    fn soaked_day(
        &mut self,
        (minutes, soak): (u64, &Soak),
        report: &mut SoakReport,
        look: &mut dyn FnMut(u64),
    ) -> bool {
        self.run_to(MINUTE + SECOND);
        if !self.until("the beginning of the day", |run| run.root().engine().is_open()) {
            return false;
        }
        for minute in FIRST..FIRST + minutes {
            let begins = minute * MINUTE;
            self.run_to(begins);
            let number = self.day * minutes + minute - FIRST;
            self.minute_fault(number, report);
            let per_minute = u64::from(soak.per_minute);
            for n in 0..per_minute {
                self.run_to(begins + n * MINUTE / per_minute);
                self.request(soak.open_max as usize);
            }
            if (number + 1).is_multiple_of(LOOK_EVERY) {
                look(number + 1);
            }
            let hour = (number + 1).is_multiple_of(60) || minute + 1 == FIRST + minutes;
            let unsettled = self.root().engine().applied() - self.engine.applied();
            if hour || unsettled >= in_memory(minutes * per_minute) {
                self.settle();
                report.settled += 1;
            }
        }
        self.run_to((FIRST + minutes + 2) * MINUTE + SECOND);
        let ended = self.until("the end of the day", |run| run.root().engine().is_between_days());
        let quiet = |run: &Run<'_>| run.traders().all(Trader::is_quiet) && run.all_heard();
        if !ended || !self.until("quiet after the day", quiet) {
            return false;
        }
        report.open_orders.push(self.root().engine().open_orders() as u64);
        self.compare_books("at the end");
        self.check_counters();
        self.settle();
        let wrong: u64 = self.traders().map(Trader::malformed).sum();
        if wrong > 0 {
            self.fail(format!("traders were told {wrong} times what they did not ask for"));
        }
        self.report.failures.is_empty()
    }

    /// The fault of a minute, ten seconds into it.
    fn minute_fault(&mut self, number: u64, report: &mut SoakReport) {
        let kind = (number % FAULTS.len() as u64) as usize;
        let at = self.world.now().after(10 * SECOND);
        let now = self.world.now();
        self.world.links_mut().forget_blocks_before(now);
        let proxy = 1 + self.rng.below(self.first_edge as u64 - 1) as usize;
        let edge = self.first_edge + self.rng.below(RECEIVERS as u64) as usize;
        let pick = self.rng.next_u64();
        match kind {
            0 => self.world.links_mut().isolate(proxy, at, at.after(3 * SECOND)),
            1 => self.world.fault(at, Fault::CutStreams(edge)),
            2 => self.world.links_mut().isolate(edge, at, at.after(2 * SECOND)),
            3 => self.world.fault(at, Fault::Pause(proxy, 2 * SECOND)),
            4 => self.world.fault(at, Fault::CutStream(edge, pick)),
            5 => {
                let (config, nobody) =
                    (self.config.clone(), address(self.first_listener, Channel::FEED));
                let build = move |now: Nanos| {
                    let life = Life::of(SplitMix64::mix(pick ^ now.0));
                    let node = overlay_node(&config, NodeId(proxy as u16), life, nobody);
                    Actor::Role(Box::new(node.expect("it was deployed once")))
                };
                self.world.fault(at, Fault::Kill(proxy));
                self.world.fault(at.after(5 * SECOND), Fault::Restart(proxy, Box::new(build)));
            }
            6 => self.world.fault(at, Fault::Pause(edge, SECOND)),
            _ => self.world.fault(at, Fault::Pause(0, SECOND)),
        }
        if let Some((_, count)) = report.faults.get_mut(kind) {
            *count += 1;
        }
    }

    /// Applies what is new in the log to the check's engine, which must be in the live one's state then.
    fn settle(&mut self) {
        let (since, until) = (self.engine.applied(), self.root().engine().applied());
        let new = |input: &Input| (since + 1..=until).contains(&input.seq.0);
        let log: Vec<Input> = self.root().log().records().filter(new).collect();
        let mut out = Output::default();
        for input in &log {
            out.clear();
            let _ = self.engine.apply(input, &mut out);
        }
        if log.len() as u64 != until - since {
            self.fail(format!(
                "the log has {} inputs after {since}, not {}",
                log.len(),
                until - since
            ));
        } else if self.engine.state_digest() != self.root().engine().state_digest() {
            self.fail("the log does not give the live engine");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::TRADERS;
    use super::*;

    /// Printed with a failure.
    const SEED: u64 = 30;

    #[test]
    fn days_with_a_fault_a_minute_lose_nothing_and_the_log_is_bounded() {
        println!("seed {SEED}");
        let short = Soak { days: 2, minutes: 16, per_minute: 20, open_max: 2, loses: false };
        let mut looks = Vec::new();
        let report = soak(SEED, &short, &mut |minute| looks.push(minute));
        assert_eq!(report.failures, Vec::<String>::new());
        assert_eq!((report.days, looks), (2, vec![10, 20, 30]));
        let (asked, answered) = report.requests;
        assert!(asked == answered && asked > 400, "{report:?}");
        assert!(report.faults.iter().all(|(_, count)| *count == 4), "{report:?}");
        assert!(report.inputs.1 > 0, "the log is bounded: {report:?}");
        assert!(report.logins > 8 && report.settled >= 2, "{report:?}");
        assert!(report.open_orders.iter().all(|open| *open <= 2 * TRADERS as u64), "{report:?}");
        let again = soak(SEED, &short, &mut |_| ());
        assert_eq!(again, report, "the same again");
        let unbounded = soak(SEED, &Soak { open_max: u32::MAX, ..short }, &mut |_| ());
        let open = unbounded.open_orders.iter().max();
        assert!(open.is_some_and(|open| *open > 2 * TRADERS as u64), "control: {unbounded:?}");
    }

    #[test]
    fn control_an_answer_that_is_lost_is_found() {
        println!("seed {SEED}");
        let soaked = Soak { days: 1, minutes: 3, per_minute: 60, open_max: 50, loses: true };
        let report = soak(SEED, &soaked, &mut |_| ());
        assert!(report.failures.iter().any(|why| why.contains("quiet")), "{report:?}");
        let (asked, answered) = report.requests;
        assert_eq!(asked - answered, 1, "{report:?}");
    }
}
