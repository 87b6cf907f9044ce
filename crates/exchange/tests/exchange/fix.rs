//! FIX sessions on accounts' streams: what happens while a participant is away, or its gateway
//! dies, is told later, completely and once.

use exchange::Refusal;
use proptest::prelude::*;

use crate::common::MS;
use crate::fix_world::World;

/// A resting order of client 0, and `fills` trades against it by client 1 meanwhile.
fn trade(world: &mut World, id: &str, fills: u64) {
    for n in 0..fills {
        let now = world.now.now;
        world.clients[1].order(now, &format!("{id}-{n}"), '2', 1, 100);
        world.run(2 * MS);
    }
    world.run(50 * MS);
}

#[test]
fn what_happened_while_away_is_there_by_resend() {
    let mut world = World::new(1, 1);
    world.logon(0, 1);
    world.logon(1, 1);
    let now = world.now.now;
    world.clients[0].order(now, "rest", '1', 1_000, 100);
    world.run(20 * MS);
    assert_eq!(world.clients[0].orders["rest"].leaves, 1_000);
    world.hang_up(0);
    world.run(10 * MS);
    trade(&mut world, "away", 120);
    world.logon(0, 1);
    world.run(200 * MS);
    assert_eq!(world.clients[0].orders["rest"].cum, 120);
    assert!(world.clients[0].repeated >= 120, "resent with PossDupFlag");
    trade(&mut world, "back", 5);
    world.check(0, 1);
    world.check(1, 1);
}

/// Numbers of both sides go on behind a refused Logon, whatever it said.
#[test]
fn who_logs_on_with_a_fault_is_told_why_and_gets_in_without_it() {
    let mut world = World::new(1, 4);
    world.logon(0, 1);
    let now = world.now.now;
    world.clients[0].order(now, "rest", '1', 10, 100);
    world.run(20 * MS);
    for (times, (fault, why)) in (1..).zip([
        ("5001=x|", "Invalid tag number: tag 5001"),
        ("108=31|", "Tag appears more than once: tag 108"),
        ("925=new|", "Tag not defined for this message type: tag 925"),
    ]) {
        world.hang_up(0);
        world.connect(0, 1);
        let now = world.now.now;
        world.clients[0].logon(now, fault);
        world.run(100 * MS);
        assert!(!world.clients[0].logged_on && world.clients[0].closed, "{fault}");
        assert_eq!(world.clients[0].logouts.last().map(String::as_str), Some(why));
        let gateway = world.edges[0].as_ref().unwrap().gateway();
        let refused = gateway.refusals().last().last().cloned().unwrap();
        assert_eq!(refused.name, b"USER1", "{refused:?}");
        assert_eq!((refused.why, refused.detail.as_str()), (Refusal::BadLogon, why));
        assert_eq!(gateway.refusals().count(Refusal::BadLogon), times);
    }
    world.hang_up(0);
    world.logon(0, 1);
    world.run(100 * MS);
    let now = world.now.now;
    world.clients[0].cancel(now, "c1", "rest", '1');
    world.run(50 * MS);
    assert_eq!(world.clients[0].orders["rest"].status, b'4');
    world.check(0, 4);
    // A stranger costs no number, and hears nothing.
    world.hang_up(0);
    let (numbers, password) = (world.clients[0].next_in, world.clients[0].password.clone());
    world.clients[0].password = "guess".to_string();
    world.connect(0, 1);
    let now = world.now.now;
    world.clients[0].logon(now, "5001=x|");
    world.run(100 * MS);
    assert!(world.clients[0].closed);
    assert_eq!(world.clients[0].next_in, numbers);
    let gateway = world.edges[0].as_ref().unwrap().gateway();
    assert_eq!(gateway.refusals().last().last().map(|one| one.why), Some(Refusal::WrongPassword));
    world.clients[0].password = password;
    world.logon(0, 1);
    world.check(0, 4);
}

/// The door's own refusals are in no stream: the gateway that gave them has them again, others don't.
#[test]
fn what_the_door_refused_while_nobody_heard_comes_again_at_the_same_gateway() {
    for (back_at, times) in [(1, 1), (2, 0)] {
        let mut world = World::new(2, 5);
        world.logon(0, 1);
        let now = world.now.now;
        world.clients[0].order(now, "good", '1', 10, 100);
        world.run(20 * MS);
        world.clients[0].deaf = true;
        let now = world.now.now;
        let order = "11=bad|55=NOTHING|54=1|60=20260101-10:00:00|38=1|40=2|44=100|";
        world.clients[0].send(now, "D", order);
        world.run(20 * MS);
        // One whose slot is on its way when the line is cut.
        let now = world.now.now;
        world.clients[0].send(now, "D", &order.replace("bad", "late"));
        world.flush();
        world.hang_up(0);
        world.clients[0].deaf = false;
        world.run(50 * MS);
        world.logon(0, back_at);
        world.run(200 * MS);
        for id in ["bad", "late"] {
            let told = world.clients[0].refused.iter().filter(|(of, _)| of == id).count();
            assert_eq!(told, times, "{id} at gateway {back_at}: {:?}", world.clients[0].refused);
        }
        let now = world.now.now;
        world.clients[0].order(now, "next", '1', 10, 100);
        world.run(50 * MS);
        assert_eq!(world.clients[0].orders["next"].leaves, 10);
        assert_eq!(world.clients[0].violations, Vec::<String>::new());
    }
}

#[test]
fn another_gateway_takes_over() {
    let mut world = World::new(2, 2);
    world.logon(0, 1);
    world.logon(1, 2);
    let now = world.now.now;
    world.clients[0].order(now, "rest", '1', 1_000, 100);
    world.run(20 * MS);
    trade(&mut world, "before", 3);
    world.kill(1);
    trade(&mut world, "away", 110);
    world.logon(0, 2);
    world.run(200 * MS);
    assert_eq!(world.clients[0].orders["rest"].cum, 113);
    let now = world.now.now;
    world.clients[0].cancel(now, "c1", "rest", '1');
    world.run(50 * MS);
    let order = &world.clients[0].orders["rest"];
    assert_eq!((order.leaves, order.status), (0, b'4'));
    world.check(0, 2);
    world.check(1, 2);
}

#[test]
fn a_cancel_that_one_gateway_took_is_told_by_another_as_what_it_was() {
    let mut world = World::new(2, 3);
    world.logon(0, 1);
    let now = world.now.now;
    world.clients[0].order(now, "rest", '1', 10, 100);
    world.run(20 * MS);
    let now = world.now.now;
    world.clients[0].deaf = true;
    world.clients[0].cancel(now, "c1", "rest", '1');
    world.run(10 * MS);
    assert_eq!(world.root.engine().open_orders(), 0);
    world.kill(1);
    world.clients[0].deaf = false;
    world.logon(0, 2);
    world.run(200 * MS);
    assert_eq!(world.clients[0].canceled, [("c1".to_string(), "rest".to_string())]);
    world.check(0, 3);
}

/// A gateway dies at some moment of a busy session over lossy lines: no order is lost or entered
/// twice, and no report either.
#[test]
fn a_gateway_may_die_at_any_moment() {
    for seed in 0..40 {
        let mut world = World::new(2, seed);
        world.lost_permille = 30;
        world.logon(0, 1);
        world.logon(1, 2);
        let moment = world.rng.next_u64() % 120;
        for step in 0..160u64 {
            if step == moment {
                world.kill(1);
            }
            if world.at[0].is_none() && step > moment + 10 {
                world.logon(0, 2);
            }
            let now = world.now.now;
            // What is said into a dead line is said, too: it has its number.
            match world.rng.next_u64() % 8 {
                0 => world.clients[0].send(now, "1", "112=are you there|"),
                1 => world.clients[0].cancel(
                    now,
                    &format!("c{step}"),
                    &format!("b{}", step / 2),
                    '1',
                ),
                2 => world.clients[0].order(now, "longer than fourteen", '1', 5, 100),
                _ => world.clients[0].order(now, &format!("b{step}"), '1', 3, 100),
            }
            world.clients[1].order(now, &format!("s{step}"), '2', 2, 100);
            let pause = world.rng.next_u64() % (3 * MS);
            world.run(pause);
        }
        if world.at[0].is_none() {
            world.logon(0, 2);
        }
        world.lost_permille = 0;
        world.run(2_000 * MS);
        // A refusal that only the dead gateway knew of is asked for.
        world.clients[0].orders.remove("longer than fourteen");
        world.check(0, seed);
        world.check(1, seed);
    }
}

#[test]
fn numbers_begin_again_when_that_is_asked_for() {
    let mut world = World::new(2, 3);
    world.logon(0, 1);
    world.logon(1, 2);
    let now = world.now.now;
    world.clients[0].order(now, "first", '1', 10, 100);
    world.run(20 * MS);
    world.hang_up(0);
    world.run(10 * MS);
    world.connect(0, 1);
    let now = world.now.now;
    world.clients[0].logon(now, "141=Y|");
    world.run(50 * MS);
    assert!(world.clients[0].logged_on);
    assert_eq!((world.clients[0].next_in, world.clients[0].next_out), (2, 2));
    let now = world.now.now;
    world.clients[0].order(now, "second", '1', 10, 99);
    world.run(20 * MS);
    world.kill(1);
    trade(&mut world, "away", 10);
    world.logon(0, 2);
    world.run(100 * MS);
    assert_eq!(world.clients[0].orders["first"].cum, 10);
    assert_eq!(world.clients[0].orders["second"].accepted, 1);
    world.check(0, 3);
}

#[test]
fn who_has_no_business_here_is_refused_and_counted() {
    let mut world = World::new(2, 4);
    world.logon(0, 1);
    let refuse = |world: &mut World, comp_id: &str, password: &str, place: usize| {
        let (own, secret) = (world.clients[1].comp_id.clone(), world.clients[1].password.clone());
        world.clients[1].comp_id = comp_id.to_string();
        world.clients[1].password = password.to_string();
        world.connect(1, place);
        let now = world.now.now;
        world.clients[1].logon(now, "");
        world.run(50 * MS);
        assert!(world.clients[1].closed && !world.clients[1].logged_on, "{comp_id} {password}");
        (world.clients[1].comp_id, world.clients[1].password) = (own, secret);
        (world.clients[1].next_out, world.clients[1].next_in) = (1, 1);
    };
    refuse(&mut world, "TWO", "secret1", 1);
    refuse(&mut world, "TOO", "secret2", 1);
    refuse(&mut world, "ONE", "secret1", 1);
    refuse(&mut world, "ONE", "secret1", 2);
    let counters = |world: &World, place: usize| {
        let edge = world.edges[place - 1].as_ref().expect("alive");
        edge.gateway().fix_counters()
    };
    let here = counters(&world, 1);
    assert_eq!((here.wrong_credentials, here.unknown_sessions, here.second_logons), (1, 1, 1));
    assert_eq!(counters(&world, 2).second_logons, 1, "live at another gateway");
    assert!(world.clients[0].logged_on, "and who was in stays in");
    world.logon(1, 2);
}

#[test]
fn a_flood_of_questions_ends_the_session_with_the_reason() {
    let mut world = World::new(1, 5);
    world.logon(0, 1);
    world.logon(1, 1);
    let before = world.root.log().len();
    for _ in 0..2_000 {
        let now = world.now.now;
        world.clients[0].send(now, "1", "112=again|");
    }
    world.run(3_000 * MS);
    assert!(world.clients[0].closed);
    let why = world.clients[0].logouts.concat();
    assert!(why.contains("Too many messages"), "{why}");
    assert!(world.root.log().len() - before < 1_000, "the log is no place for that");
    let now = world.now.now;
    world.clients[1].order(now, "still", '1', 1, 100);
    world.run(20 * MS);
    assert_eq!(world.clients[1].orders["still"].leaves, 1, "others trade on");
}

/// What somebody may write into the door: noise, or messages with bytes changed.
fn scribble() -> impl Strategy<Value = (bool, u8, Vec<(usize, u8)>, Vec<u8>)> {
    let changes = prop::collection::vec((0usize..200, any::<u8>()), 0..3);
    let noise = prop::collection::vec(any::<u8>(), 0..300);
    (prop::bool::weighted(0.2), 0u8..8, changes, noise)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Nothing written into the door harms the exchange or those beside it.
    #[test]
    fn no_bytes_harm_the_door(
        logged_on in any::<bool>(),
        steps in prop::collection::vec(scribble(), 1..40),
    ) {
        let mut world = World::new(1, 6);
        world.logon(1, 1);
        let mut from = if logged_on { world.logon(0, 1); 2 } else { 1 };
        for (n, (noise, kind, changes, bytes)) in steps.into_iter().enumerate() {
            if world.at[0].is_none() {
                world.connect(0, 1);
                from = 1;
            }
            let now = world.now.now;
            let client = &mut world.clients[0];
            client.next_out = from + n as u64;
            match kind {
                0 => client.logon(now, "141=Y|"),
                1 => client.send(now, "2", "7=1|16=0|"),
                2 => client.send(now, "4", "36=9|"),
                3 => client.send(now, "x", "320=a|559=4|"),
                4 => client.send(now, "V", "262=m|263=0|264=0|267=1|269=0|146=1|55=BTCUSD|"),
                5 => client.cancel(now, &format!("c{n}"), "o1", '1'),
                _ => client.order(now, &format!("o{n}"), '1', 1, 90),
            }
            for (at, value) in changes {
                let length = client.out.len();
                client.out[at % length] = value;
            }
            if noise {
                client.out = bytes;
            }
            // Only what the exchange does counts, not whether this one follows it.
            world.clients[0].deaf = true;
            world.run(MS);
        }
        let now = world.now.now;
        world.clients[1].order(now, "honest", '1', 1, 100);
        world.run(50 * MS);
        prop_assert_eq!(world.clients[1].orders["honest"].accepted, 1);
        world.check(1, 6);
    }
}
