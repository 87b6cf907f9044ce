//! The day of a root that stands alone and is started again: what the log holds of it is not done
//! twice, and what it still lacks is done.

use engine::schedule::{DayTimes, Plan, Schedule, Zone};
use exchange::{Life, Role, Timetable, deploy, set_phase};
use types::{ClockReading, Command, CommandKind, Input, InstrumentId, Nanos, Node, Outbox, Phase};

use crate::common::{LISTENERS, config};

const SECOND: u64 = Nanos::SECOND;

fn at(seconds: u64) -> ClockReading {
    ClockReading { now: Nanos(seconds * SECOND), bound_ns: 0 }
}

/// A root of this timetable that takes up a log at a second.
fn start(timetable: Timetable, seconds: u64, log: &[Input]) -> Role {
    let mut config = config();
    config.timetable = timetable;
    let nodes = deploy(&config, Life::of(1), |_| LISTENERS).expect("a possible exchange");
    let mut role = nodes.into_iter().next().expect("a root");
    let resumed = role.with_root(&mut Outbox::default(), |root, _| {
        root.resume(at(seconds), log.iter().copied()).expect("the log goes on");
    });
    resumed.expect("a root");
    role
}

/// Lets a second come; what the log holds then.
fn tick(role: &mut Role, seconds: u64) -> Vec<Input> {
    role.handle_timeout(at(seconds), &mut Outbox::default());
    role.as_root().expect("a root").log().records().collect()
}

fn phase(role: &Role) -> Option<Phase> {
    role.as_root()?.engine().phase(InstrumentId(1))
}

/// Opens with a call that ends at a second.
fn called(until: u64) -> Timetable {
    let opens = set_phase(InstrumentId(0), Phase::Continuous);
    Timetable::open_with_a_call().at(Nanos(until * SECOND), opens)
}

#[test]
fn an_opening_call_that_a_start_cuts_short_is_ended_once() {
    let mut first = start(called(5), 1, &[]);
    let log = tick(&mut first, 1);
    assert_eq!((phase(&first), log.len()), (Some(Phase::OpeningCall), 2));

    let mut second = start(called(7), 2, &log);
    assert_eq!(tick(&mut second, 3), log, "the day has begun");
    assert_eq!(phase(&second), Some(Phase::OpeningCall));
    let log = tick(&mut second, 7);
    assert_eq!((phase(&second), log.len()), (Some(Phase::Continuous), 3));

    let mut third = start(called(13), 8, &log);
    assert_eq!(tick(&mut third, 20), log, "trading is not opened again");

    // A day that has ended is followed by the next one with the next start.
    third.with_root(&mut Outbox::default(), |root, out| {
        root.operator(at(20), Command::new(CommandKind::EndOfDay), out)
    });
    let log = tick(&mut third, 21);
    let mut fourth = start(called(40), 30, &log);
    let kinds: Vec<CommandKind> =
        tick(&mut fourth, 30)[log.len()..].iter().map(|input| input.command.kind).collect();
    assert_eq!(kinds, [CommandKind::StartOfDay, CommandKind::SetPhase]);
}

#[test]
fn a_calendar_goes_on_with_its_next_step_after_a_start() {
    let hour = 3_600;
    let table = || {
        let times = DayTimes {
            pre_open: 8 * hour * SECOND,
            opening_call: 9 * hour * SECOND,
            open: 10 * hour * SECOND,
            closing_call: 16 * hour * SECOND,
            close: 17 * hour * SECOND,
            end: 18 * hour * SECOND,
            indicative_every_ns: 0,
        };
        let plan = Plan { weekdays: Plan::ALL_DAYS, ..Plan::with_auctions(&times) };
        let days = Schedule::new(plan, Zone::utc(), Nanos(0)).expect("a sound plan");
        Timetable::empty().with_schedule(days)
    };
    let mut morning = start(table(), 7 * hour, &[]);
    assert_eq!(tick(&mut morning, 7 * hour).len(), 0);
    let log = tick(&mut morning, 9 * hour + 1);
    assert_eq!((phase(&morning), log.len()), (Some(Phase::OpeningCall), 3));

    // Away while it should have opened: it opens at once, and closes in time.
    let mut noon = start(table(), 12 * hour, &log);
    let log = tick(&mut noon, 12 * hour);
    assert_eq!((phase(&noon), log.len()), (Some(Phase::Continuous), 4));
    assert_eq!(tick(&mut noon, 15 * hour), log);
    let log = tick(&mut noon, 18 * hour);
    assert_eq!((phase(&noon), log.len()), (Some(Phase::Closed), 7));

    // The day is over, whoever starts then waits for the next morning.
    let mut night = start(table(), 20 * hour, &log);
    assert_eq!(tick(&mut night, 31 * hour), log);
    assert_eq!(tick(&mut night, 32 * hour).len(), 9);
}
