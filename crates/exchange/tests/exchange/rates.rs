//! FIX sessions above their rate: each request has one answer, at whatever gateway, and cancels
//! get through.

use exchange::{Edge, Rate, Throttle};
use types::CommandKind;

use crate::common::MS;
use crate::fix_world::{World, fix_config};

const ABOVE: &str = "Above the request rate of this session";

/// Session `ONE` may send 100 orders a second, 20 at once; session `TWO` anything.
fn world(edges: usize, seed: u64) -> World {
    let mut config = fix_config(edges);
    config.accounts[0].throttle = Throttle::new(Rate { per_s: 100, burst: 20 });
    World::of(&config, seed)
}

fn edge(world: &World, place: usize) -> &Edge {
    world.edges[place - 1].as_ref().expect("alive")
}

/// Orders of account 1 in the log.
fn logged(world: &World, kind: CommandKind) -> usize {
    let own = |input: &&types::Input| input.command.account.0 == 1 && input.command.kind == kind;
    world.root.log().iter().filter(own).count()
}

#[test]
fn what_is_above_the_rate_gets_one_answer_and_cancels_get_through() {
    let mut world = world(1, 1);
    world.logon(0, 1);
    let now = world.now.now;
    for n in 0..50 {
        world.clients[0].order(now, &format!("o{n}"), '1', 5, 100);
    }
    for n in 0..20 {
        world.clients[0].cancel(now, &format!("c{n}"), &format!("o{n}"), '1');
    }
    world.run(50 * MS);
    let client = &world.clients[0];
    let refused: Vec<_> = (20..50).map(|n| (format!("o{n}"), ABOVE.to_string())).collect();
    assert_eq!(client.refused, refused);
    assert!(client.logged_on && client.logouts.is_empty());
    assert_eq!(client.orders.len(), 20);
    assert!(client.orders.values().all(|order| order.status == b'4'), "all are cancelled");
    assert_eq!(
        (logged(&world, CommandKind::NewOrder), logged(&world, CommandKind::Cancel)),
        (20, 20)
    );
    assert_eq!(edge(&world, 1).gateway().counters().orders_over_rate, 30);
    // A refused order may come again once there is room.
    world.run(300 * MS);
    let now = world.now.now;
    world.clients[0].order(now, "o30", '1', 5, 100);
    world.run(50 * MS);
    assert_eq!(world.clients[0].orders["o30"].accepted, 1);
    world.check(0, 1);
}

#[test]
fn while_the_log_stands_still_a_request_gets_one_refusal_and_may_come_again() {
    let mut world = world(1, 5);
    world.logon(0, 1);
    let now = world.now.now;
    world.clients[0].order(now, "before", '1', 5, 100);
    world.run(50 * MS);
    let suspend = |world: &mut World, suspended| {
        let edge = world.edges[0].as_mut().expect("alive");
        edge.gateway_mut().suspend(world.now, suspended, &mut types::Outbox::default());
    };
    suspend(&mut world, true);
    let now = world.now.now;
    world.clients[0].order(now, "during", '1', 5, 100);
    world.clients[0].cancel(now, "cancel", "before", '1');
    world.run(50 * MS);
    let refused: Vec<&str> = world.clients[0].refused.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(refused, ["during", "cancel"]);
    assert!(world.clients[0].refused.iter().all(|(_, why)| why.contains("stands still")));
    assert_eq!(edge(&world, 1).gateway().counters().suspended, 2);
    assert_eq!(logged(&world, CommandKind::NewOrder), 1);
    assert_eq!(logged(&world, CommandKind::Cancel), 0);
    suspend(&mut world, false);
    let now = world.now.now;
    world.clients[0].order(now, "during", '1', 5, 100);
    world.run(50 * MS);
    assert_eq!(world.clients[0].orders["during"].accepted, 1);
    world.check(0, 5);
}

/// A session that knows of messages never sent: the log is older than what was told from it.
#[test]
fn a_logon_that_expects_more_than_was_ever_sent_is_told() {
    let mut world = world(1, 6);
    world.connect(0, 1);
    let now = world.now.now;
    world.clients[0].logon(now, "789=500|");
    world.run(100 * MS);
    assert!(!world.clients[0].logged_on);
    assert!(world.clients[0].logouts[0].contains("500"), "{:?}", world.clients[0].logouts);
    let edge = world.edges[0].as_mut().expect("alive");
    let ahead = edge.gateway_mut().take_ahead();
    assert_eq!(ahead.len(), 1);
    assert_eq!((ahead[0].account.0, ahead[0].asked), (1, 500));
}

#[test]
fn what_was_refused_stays_refused_at_another_gateway() {
    for seed in 0..20 {
        let mut world = world(2, seed);
        world.lost_permille = 30;
        world.logon(0, 1);
        let now = world.now.now;
        for n in 0..60 {
            world.clients[0].order(now, &format!("o{n}"), '1', 5, 100);
        }
        let pause = world.rng.next_u64() % (20 * MS);
        world.run(pause);
        world.kill(1);
        world.logon(0, 2);
        world.lost_permille = 0;
        world.run(3_000 * MS);
        // The next gateway has buckets of its own: what the first one refused it does not take, and
        // what the first one never dealt with it judges.
        let client = &mut world.clients[0];
        let refused: Vec<String> = client.refused.iter().map(|(id, _)| id.clone()).collect();
        let known: Vec<String> = client.orders.keys().cloned().collect();
        assert!(known.iter().all(|id| !refused.contains(id)), "seed {seed}: one answer each");
        let slots = logged(&world, CommandKind::SessionSlot);
        assert!(slots >= refused.len(), "seed {seed}: a refusal has its number in the log");
        // Refusals that only the dead gateway knew of are gap-filled: their orders are open
        // questions for the client, and not in the log.
        let taken: Vec<String> = world
            .root
            .log()
            .iter()
            .filter(|input| input.command.kind == CommandKind::NewOrder)
            .map(|input| String::from_utf8_lossy(&input.command.cl_ord_id.0).trim().to_string())
            .collect();
        assert!(refused.iter().all(|id| !taken.contains(id)), "seed {seed}: refused and taken");
        world.clients[0].orders.retain(|id, _| taken.contains(id));
        world.check(0, seed);
    }
}

#[test]
fn who_goes_on_far_above_the_rate_is_logged_out_with_the_reason() {
    let mut world = world(1, 3);
    world.logon(0, 1);
    world.logon(1, 1);
    let now = world.now.now;
    for n in 0..200 {
        world.clients[0].order(now, &format!("o{n}"), '1', 5, 100);
    }
    let now = world.now.now;
    world.clients[1].order(now, "honest", '2', 1, 200);
    world.run(50 * MS);
    let client = &world.clients[0];
    assert_eq!(client.logouts, ["Far above the request rate of this session"]);
    // 20 are taken; the others are refused, each once, the read in which it ended included.
    assert_eq!((client.orders.len(), client.refused.len()), (20, 180));
    assert_eq!(edge(&world, 1).gateway().fix_counters().over_rate, 1);
    assert_eq!(world.clients[1].orders["honest"].accepted, 1, "others go on");
    world.run(3_000 * MS);
    assert_eq!(world.at[0], None, "disconnected");
    world.logon(0, 1);
    let now = world.now.now;
    world.clients[0].order(now, "later", '1', 5, 100);
    world.run(50 * MS);
    assert_eq!(world.clients[0].orders["later"].accepted, 1);
    world.check(0, 3);
    world.check(1, 3);
}
