//! The load against a small exchange over OUCH, and against a FIX door that accepts everything:
//! exactly-once accounting, its negative controls, connections that end, accounts with a past.

mod common;
mod fix_door;

use common::{MS, Resting, World, instruments};
use fix_door::FixWorld;
use participant::load::{Load, LoadConfig, LoadError, LoadPhase, Login, Protocol, Seen, Version};
use proptest::prelude::*;
use types::{ClockReading, ConnId, Nanos, Node, Op, Outbox, Peer, Price, TimeInForce};
use wire::soupbin::ServerSession;

fn config(protocol: impl Fn(usize) -> Protocol) -> LoadConfig {
    let login = |index: usize| Login {
        protocol: protocol(index),
        username: format!("P{index}"),
        password: "secret".to_string(),
    };
    LoadConfig {
        logins: (0..8).map(login).collect(),
        gateways: vec![Peer::Addr(1), Peer::Addr(2)],
        instrument: instruments()[0],
        middle: Price::from_whole(1_000),
        rate: 5_000,
        duration_ns: 1_000 * MS,
        warmup_ns: 100 * MS,
        login_timeout_ns: 20_000 * MS,
        drain_timeout_ns: 2_000 * MS,
        expiring: 0,
        seed: 1,
        run: "T".to_string(),
    }
}

fn ouch() -> LoadConfig {
    config(|_| Protocol::Ouch)
}

fn fix(version: Version) -> LoadConfig {
    config(|index| Protocol::Fix {
        version,
        sender: format!("CL{index}"),
        target: "FAIR".to_string(),
    })
}

fn done(load: &Load) -> bool {
    load.phase() == LoadPhase::Done
}

fn finish(world: &mut World<Load>) {
    assert!(world.run(60_000 * MS, done), "stuck: {:?}", world.driver.counts());
}

fn flawless(load: &Load) {
    let counts = load.counts();
    assert_eq!((counts.asked, counts.answered), (5_000, 5_000), "{counts:?}");
    assert_eq!((counts.lost, counts.duplicates, counts.stray), (0, 0, 0), "{counts:?}");
    assert_eq!((counts.unsendable, counts.logins_refused), (0, 0), "{counts:?}");
    assert!(counts.accepted > 1_000 && counts.replaced > 100 && counts.canceled > 1_000);
}

#[test]
fn over_ouch_every_request_has_its_answer() {
    let mut world = World::new(Load::new(ouch()).unwrap());
    finish(&mut world);
    flawless(&world.driver);
    let counts = world.driver.counts();
    assert!(counts.executions > 100 && counts.executions.is_multiple_of(2), "{counts:?}");
    let all = world.driver.timings().all().summary();
    assert_eq!(all.count, 4_500, "the warm-up gives no latency");
    assert!(all.min >= 200_000, "two delays are the least: {}", all.min);
    let seconds = world.driver.timings().seconds();
    assert_eq!(seconds.iter().map(|point| point.count).sum::<u64>(), 4_500);
    assert_eq!(world.driver.lateness_max_ns(), 0);
}

#[test]
fn orders_with_a_time_to_end_end_and_never_trade_after() {
    let mut world = World::new(Load::new(LoadConfig { expiring: 500, ..ouch() }).unwrap());
    finish(&mut world);
    flawless(&world.driver);
    let counts = world.driver.counts();
    assert!(counts.expired > 20 && counts.executed_expired == 0, "{counts:?}");
}

#[test]
fn ends_that_are_told_late_are_waited_for() {
    let config = LoadConfig { expiring: 500, drain_timeout_ns: 20_000 * MS, ..ouch() };
    let mut world = World::new(Load::new(config).unwrap());
    world.exchange.ends_late_ns = 5 * Nanos::SECOND;
    finish(&mut world);
    flawless(&world.driver);
    let ends = |order: &&Resting| order.command.time_in_force == TimeInForce::GoodTillDate;
    let (counts, ending) =
        (world.driver.counts(), world.exchange.resting.iter().filter(ends).count());
    assert!(counts.expired > 20 && ending == 0, "{ending} {counts:?}");
}

#[test]
fn a_later_run_begins_behind_the_numbers_of_the_earlier_one() {
    let mut world = World::new(Load::new(ouch()).unwrap());
    finish(&mut world);
    let mut again = Load::new(ouch()).unwrap();
    std::mem::swap(&mut world.driver, &mut again);
    world.cut();
    finish(&mut world);
    flawless(&world.driver);
}

#[test]
fn connections_that_end_cost_no_answer() {
    let mut world = World::new(Load::new(ouch()).unwrap());
    world.driver.watch();
    for _ in 0..3 {
        let asked = world.driver.counts().asked;
        assert!(world.run(60_000 * MS, |load| load.counts().asked >= asked + 600));
        world.cut();
    }
    finish(&mut world);
    flawless(&world.driver);
    assert_eq!(world.driver.counts().connections_lost, 24);
    assert!(world.driver.counts().resent > 0, "what was under way went again");
    let mut answered = 0;
    for seen in world.driver.seen() {
        assert!(seen.is_sorted_by_key(|(at, _)| *at));
        let count = |of| seen.iter().filter(|(_, what)| *what == of).count();
        assert_eq!((count(Seen::LoggedIn), count(Seen::Ended)), (4, 3));
        let waited = |(at, what): &(Nanos, Seen)| match what {
            Seen::Answered { due, .. } => Some(at.since(*due)),
            _ => None,
        };
        answered += seen.iter().filter_map(waited).count();
        // Whatever is due while it is away waits until it is back.
        assert!(seen.iter().filter_map(waited).max().unwrap_or(0) > 500 * MS);
    }
    assert_eq!(answered, 5_000, "each once");
}

#[test]
fn a_missing_answer_is_lost_and_a_second_one_a_duplicate() {
    let mut world = World::new(Load::new(ouch()).unwrap());
    world.exchange.swallow.insert(90);
    world.exchange.double.insert(91);
    finish(&mut world);
    let counts = world.driver.counts();
    assert_eq!((counts.lost, counts.duplicates), (1, 1), "{counts:?}");
    let mut world = FixWorld::new(Load::new(fix(Version::Fix44)).unwrap(), Version::Fix44);
    world.swallow = Some(90);
    world.double = Some(91);
    world.finish();
    let counts = world.load.counts();
    assert_eq!((counts.lost, counts.duplicates), (1, 1), "{counts:?}");
}

#[test]
fn over_fix_every_request_has_its_answer() {
    for version in [Version::Fix42, Version::Fix44, Version::Fix50Sp2] {
        let mut world = FixWorld::new(Load::new(fix(version)).unwrap(), version);
        world.finish();
        flawless(&world.load);
    }
}

#[test]
fn over_fix_connections_that_end_cost_no_answer() {
    let mut world = FixWorld::new(Load::new(fix(Version::Fix44)).unwrap(), Version::Fix44);
    for _ in 0..3 {
        let asked = world.load.counts().asked;
        assert!(world.run(60_000 * MS, |load| load.counts().asked >= asked + 600));
        world.cut();
    }
    world.finish();
    flawless(&world.load);
    assert_eq!(world.load.counts().connections_lost, 24);
}

#[test]
fn refused_logins_end_the_load_soon() {
    let mut config = ouch();
    config.logins[3].password = "wrong".to_string();
    let mut world = World::new(Load::new(config).unwrap());
    assert!(world.run(5_000 * MS, done));
    let counts = world.driver.counts();
    assert_eq!((counts.logins_refused, counts.asked), (1, 0), "another try would lock its address");
    assert!(counts.refusals.keys().all(|why| why.contains("password")), "{counts:?}");
}

#[test]
fn what_cannot_be_played_is_refused() {
    let none = LoadConfig { logins: Vec::new(), ..ouch() };
    assert_eq!(Load::new(none).err(), Some(LoadError::Clients));
    let idle = LoadConfig { rate: 0, ..ouch() };
    assert_eq!(Load::new(idle).err(), Some(LoadError::Rate));
    let mut long = ouch();
    long.logins[0].username = "seven77".to_string();
    assert_eq!(Load::new(long).err(), Some(LoadError::Credentials));
}

/// When the first request goes out, ms behind the login, to a server that says something this often.
fn first_request_ms(every_ms: u64) -> u64 {
    let mut load =
        Load::new(LoadConfig { logins: vec![ouch().logins[0].clone()], ..ouch() }).unwrap();
    let (mut out, conn) = (Outbox::default(), ConnId(1));
    let at = |ms: u64| ClockReading { now: Nanos((1_000 + ms) * MS), bound_ns: 0 };
    load.handle_timeout(at(0), &mut out);
    load.handle_connect(at(0), conn, &mut out);
    let (mut server, mut said) = (ServerSession::new(at(0).now), Vec::new());
    for op in out.ops() {
        if let Op::Stream { bytes, .. } = *op {
            server.handle_bytes(at(0).now, out.bytes(bytes), |_| ());
        }
    }
    server.accept_login(at(0).now, *b"TODAY     ", 1, &mut said).expect("it has logged in");
    load.handle_stream(at(0), conn, &said, &mut out);
    for ms in 1..20_000_u64 {
        if ms.is_multiple_of(every_ms) {
            said.clear();
            server.send_sequenced(at(ms).now, b"S12345678Q", &mut said).expect("room");
            load.handle_stream(at(ms), conn, &said, &mut out);
        }
        load.handle_timeout(at(ms), &mut out);
        out.clear();
        if load.counts().asked > 0 {
            return ms;
        }
    }
    20_000
}

#[test]
fn one_to_whom_something_always_comes_is_up_all_the_same() {
    let quiet = first_request_ms(900);
    assert!((500..1_000).contains(&quiet), "control: {quiet} ms");
    let busy = first_request_ms(100);
    assert!((2_000..4_000).contains(&busy), "{busy} ms");
}

proptest! {
    #[test]
    fn hostile_bytes_never_panic(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20),
        over_fix in any::<bool>(),
    ) {
        let config = if over_fix { fix(Version::Fix44) } else { ouch() };
        let mut load = Load::new(config).unwrap();
        let mut out = Outbox::default();
        let at = |ms: u64| ClockReading { now: Nanos((1_000 + ms) * MS), bound_ns: 0 };
        load.handle_timeout(at(0), &mut out);
        load.handle_connect(at(1), ConnId(1), &mut out);
        for (ms, piece) in (2..).zip(&pieces) {
            load.handle_stream(at(ms), ConnId(1), piece, &mut out);
            load.handle_timeout(at(ms), &mut out);
            out.clear();
        }
    }
}
