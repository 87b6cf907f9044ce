//! The driver against a small exchange: the phases, the exactly-once ledger and its negative
//! controls, reconnects with replay, and hostile bytes.

mod common;

use common::{MS, NOTICES, World, instruments};
use participant::{
    Action, ClientConfig, Driver, DriverConfig, FlowMessage, Generator, GeneratorConfig, Phase,
    Schedule, Source, Special, Status, Trade,
};
use proptest::prelude::*;
use types::{
    ClockReading, ConnId, InstrumentId, Nanos, Node, Op, OrderType, Outbox, Peer, Price, Qty, Side,
    SplitMix64, TimeInForce,
};

fn config() -> DriverConfig {
    let clients = (0..8).map(|index| {
        let gateways = vec![Peer::Addr(index), Peer::Addr(index + 1)];
        ClientConfig::new(&format!("P{index}"), "secret", gateways)
    });
    DriverConfig::new(instruments(), clients.collect())
}

fn driver(seed: u64, messages: u64) -> Driver {
    let mut schedule = Schedule::default();
    let mut opening = Vec::new();
    for instrument in instruments() {
        let config = GeneratorConfig::new(instrument, Price::from_whole(1_000), seed);
        let mut flow = Generator::new(config);
        opening.extend(flow.opening(300));
        schedule.add(Source::Generated { flow: Box::new(flow), left: messages }, 5_000);
    }
    Driver::new(config(), opening, schedule).expect("credentials fit")
}

fn idle(driver: &Driver) -> bool {
    driver.phase() == Phase::Idle
}

fn finish(world: &mut World<Driver>) -> Status {
    assert!(world.run(60_000 * MS, idle), "stuck: {:?}", world.driver.status());
    world.driver.status()
}

fn flawless(status: &Status) {
    let ledger = status.ledger;
    assert_eq!((ledger.lost(), ledger.duplicates, ledger.violations), (0, 0, 0), "{status:?}");
    assert_eq!((status.not_asked, status.timed_out), (0, false));
    let connections = status.connections;
    assert_eq!((connections.malformed, connections.stream_jumps, connections.not_sent), (0, 0, 0));
}

#[test]
fn plays_everything_and_every_request_is_answered_once() {
    let mut world = World::new(driver(1, 2_000));
    let status = finish(&mut world);
    flawless(&status);
    assert_eq!((status.ledger.asked, status.timed), (4_600, 4_000));
    assert_eq!((status.connections.logins, status.clients_up), (8, 8));
    let ledger = status.ledger;
    assert!(ledger.replaced > 0 && ledger.canceled > 0 && ledger.cancels_late > 0);
    let trades = world.driver.tape().trades().len() as u64;
    assert!(trades > 0 && ledger.executions == 2 * trades, "{trades} {ledger:?}");
    assert_eq!((world.driver.tape().unmatched(), world.driver.tape().mismatched()), (0, 0));
    let of = |id| world.driver.trades(InstrumentId(id)).count() as u64;
    assert_eq!(of(1) + of(2), trades);
    let mut latencies = Vec::new();
    world.driver.tape().drain_latencies(|latency| latencies.push(latency.ns));
    assert_eq!(latencies.len(), 4_000, "one for each timed request, none for the opening");
    assert!(latencies.iter().all(|&ns| ns >= 200_000), "two delays are the least");
    let mut sightings = 0;
    world.driver.tape().drain_sightings(|_| sightings += 1);
    assert_eq!(sightings, ledger.executions);
    // Idle means connected: heartbeats keep the sessions alive.
    assert!(!world.run(40_000 * MS, |driver| driver.status().clients_up < 8));
    assert_eq!(world.driver.status().connections.lost_connections, 0);
}

#[test]
fn messages_that_answer_nothing_are_counted_and_disturb_nothing() {
    let mut quiet = World::new(driver(1, 500));
    let without = finish(&mut quiet).ledger;
    let mut world = World::new(driver(1, 500));
    world.exchange.notices = true;
    let status = finish(&mut world);
    flawless(&status);
    let with = status.ledger;
    let (all, taken) = (NOTICES.len() as u64, with.accepted + with.replaced);
    assert!(taken > 0 && with.notices == all * taken, "{with:?}");
    assert_eq!(without.notices, 0);
    assert_eq!((with.asked, with.executions), (without.asked, without.executions));
}

#[test]
fn messages_go_out_on_time() {
    let mut world = World::new(driver(2, 500));
    let status = finish(&mut world);
    let (start, end) = (status.started_at.expect("played"), status.finished_at.expect("ended"));
    assert_eq!(status.lateness_max_ns, 0);
    // 500 messages at 5,000 per second, and the way there and back for the last.
    let expected = 499 * 200_000;
    assert!((expected..expected + MS).contains(&end.since(start)), "{}", end.since(start));
}

/// Trades of a script of 400 requests, 5 ms apart, whose connections delay each by up to 20 ms.
fn scripted(in_turn: bool, delays: u64) -> Vec<Trade> {
    let mut flow = Generator::new(GeneratorConfig::new(instruments()[0], Price::from_whole(10), 9));
    let list = (0..400).map(|place| (place * 5 * MS, flow.next_message())).collect();
    let mut schedule = Schedule::default();
    schedule.add(Source::Scripted(list), 1);
    let config = DriverConfig { in_turn, ..config() };
    let driver = Driver::new(config, Vec::new(), schedule).expect("credentials fit");
    let mut world = World::new(driver);
    (world.jitter_ns, world.rng) = (20 * MS, SplitMix64::new(delays));
    flawless(&finish(&mut world));
    world.driver.trades(instruments()[0].id).collect()
}

#[test]
fn a_script_in_turn_trades_the_same_whatever_delays_its_connections() {
    println!("delays of seeds 0 to 9");
    let first = scripted(true, 0);
    assert!(first.len() > 20, "{}", first.len());
    (1..10).for_each(|delays| assert_eq!(first, scripted(true, delays), "delays of seed {delays}"));
    let same = |delays| scripted(false, 0) == scripted(false, delays);
    assert!(!(1..10).all(same), "requests that don't wait overtake one another");
}

#[test]
fn a_script_in_turn_goes_on_when_a_connection_is_cut() {
    let mut flow = Generator::new(GeneratorConfig::new(instruments()[0], Price::from_whole(10), 9));
    let list = (0..400).map(|place| (place * 5 * MS, flow.next_message())).collect();
    let mut schedule = Schedule::default();
    schedule.add(Source::Scripted(list), 1);
    let config = DriverConfig { in_turn: true, ..config() };
    let driver = Driver::new(config, Vec::new(), schedule).expect("credentials fit");
    let mut world = World::new(driver);
    for cut_ms in [300, 700, 400] {
        world.run(cut_ms * MS, idle);
        world.cut();
    }
    let status = finish(&mut world);
    flawless(&status);
    assert_eq!(status.timed, 400);
}

#[test]
fn a_duration_and_a_stop_end_the_play() {
    let mut timed = driver(3, 1_000_000);
    assert!(!idle(&timed));
    timed.stop();
    let mut world = World::new(timed);
    assert_eq!(finish(&mut world).ledger.asked, 0, "stopped before it began");
    let mut schedule = Schedule::default();
    let generator = GeneratorConfig::new(instruments()[0], Price::from_whole(10), 1);
    let flow = Box::new(Generator::new(generator));
    schedule.add(Source::Generated { flow, left: u64::MAX }, 1_000);
    let config = DriverConfig { duration_ns: Some(250 * MS), ..config() };
    let driver = Driver::new(config, Vec::new(), schedule).expect("credentials fit");
    let mut world = World::new(driver);
    let status = finish(&mut world);
    flawless(&status);
    assert_eq!(status.timed, 250);
}

#[test]
fn a_dropped_answer_is_one_lost() {
    let mut world = World::new(driver(4, 300));
    assert!(world.run(5_000 * MS, |driver| driver.phase() == Phase::Playing));
    // The next new order with this number is never answered.
    world.exchange.swallow.insert(90);
    let status = finish(&mut world);
    assert_eq!(status.ledger.lost(), 1, "{status:?}");
    assert!(status.timed_out);
}

#[test]
fn a_doubled_answer_is_one_duplicate() {
    let mut world = World::new(driver(5, 300));
    world.exchange.double.insert(3);
    let status = finish(&mut world);
    assert_eq!((status.ledger.lost(), status.ledger.duplicates), (0, 1), "{status:?}");
}

#[test]
fn cut_connections_lose_and_repeat_nothing() {
    let mut resends = 0;
    for seed in 0..20 {
        let mut world = World::new(driver(seed, 6_000));
        assert!(world.run(5_000 * MS, |driver| driver.phase() == Phase::Playing));
        // Well into the play, during the replay after it, and when all is well again.
        for wait_ms in [150, 200, 500] {
            world.run(wait_ms * MS + seed * 7_000, idle);
            world.cut();
        }
        let status = finish(&mut world);
        flawless(&status);
        assert!(status.connections.lost_connections >= 16, "seed {seed}: {status:?}");
        assert_eq!(world.driver.tape().unmatched(), 0, "seed {seed}");
        resends += status.ledger.resends;
    }
    assert!(resends > 20, "only {resends} re-sent");
}

#[test]
fn a_refused_login_is_tried_again_elsewhere() {
    let mut config = config();
    config.clients[3].password = "wrong".into();
    let driver = Driver::new(config, Vec::new(), Schedule::default()).expect("credentials fit");
    let mut world = World::new(driver);
    assert!(!world.run(1_000 * MS, |driver| driver.phase() > Phase::Connecting));
    let status = world.driver.status();
    assert_eq!(status.clients_up, 7);
    assert!((8..=11).contains(&status.connections.logins_rejected), "{status:?}");
}

#[test]
fn the_opening_keeps_its_queue_order_across_participants() {
    let order = |id, participant| FlowMessage {
        id,
        participant,
        instrument: InstrumentId(1),
        action: Action::New {
            side: Side::Sell,
            qty: Qty(1),
            price: Price(500),
            order_type: OrderType::Limit,
            post_only: false,
            time_in_force: TimeInForce::GoodTillCancelled,
        },
        special: Special::None,
    };
    let taker = |id| FlowMessage {
        id,
        participant: 7,
        instrument: InstrumentId(1),
        action: Action::New {
            side: Side::Buy,
            qty: Qty(1),
            price: Price(0),
            order_type: OrderType::Market,
            post_only: false,
            time_in_force: TimeInForce::ImmediateOrCancel,
        },
        special: Special::None,
    };
    let opening = (1..=40).map(|id| order(id, (41 - id as u8) % 8)).collect();
    let mut schedule = Schedule::default();
    schedule.add(Source::Recorded((101..=140).map(taker).collect()), 1_000);
    let driver = Driver::new(config(), opening, schedule).expect("credentials fit");
    let mut world = World::new(driver);
    flawless(&finish(&mut world));
    let sellers: Vec<u64> = world.driver.trades(InstrumentId(1)).map(|trade| trade.sell).collect();
    assert_eq!(sellers, (1..=40).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_from_the_server_never_panic(
        login in any::<bool>(),
        packets in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..80)),
            0..40,
        ),
    ) {
        let mut driver = driver(1, 50);
        let mut out = Outbox::default();
        let mut now = 1_000 * MS;
        for (framed, bytes) in packets {
            now += 200 * MS;
            let clock = ClockReading { now: Nanos(now), bound_ns: 0 };
            driver.handle_timeout(clock, &mut out);
            let connects: Vec<ConnId> = out
                .ops()
                .iter()
                .filter_map(|op| if let Op::Connect { conn, .. } = op { Some(*conn) } else { None })
                .collect();
            out.clear();
            for conn in connects {
                driver.handle_connect(clock, conn, &mut out);
                if login {
                    let accepted = b"\x00\x1fASESSION   ".iter().chain(b"                   1");
                    let accepted: Vec<u8> = accepted.copied().collect();
                    let before = driver.status().connections.logins;
                    driver.handle_stream(clock, conn, &accepted, &mut out);
                    prop_assert_eq!(driver.status().connections.logins, before + 1);
                }
            }
            let clients = driver.clients().iter();
            let conns: Vec<_> = clients.filter_map(|client| client.conn()).collect();
            for conn in conns {
                if framed {
                    // A sequenced packet around it, so that it reaches the OUCH reader.
                    let len = (bytes.len() as u16 + 1).to_be_bytes();
                    let packet: Vec<u8> =
                        len.into_iter().chain([b'S']).chain(bytes.iter().copied()).collect();
                    driver.handle_stream(clock, conn, &packet, &mut out);
                } else {
                    driver.handle_stream(clock, conn, &bytes, &mut out);
                }
            }
        }
        let _ = driver.status();
    }
}
