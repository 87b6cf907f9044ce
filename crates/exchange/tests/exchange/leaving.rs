//! Orders that go with their session: when the line breaks, when the gateway dies, and those that
//! came through another gateway; and participants too slow to be told anything.

use types::{CancelReason, CommandKind, ExecutionKind, Input, Nanos};

use crate::common::MS;
use crate::fix_world::{World, fix_config};

/// Session `ONE` wants its orders cancelled 300 ms after it is gone, session `TWO` does not.
fn world(edges: usize, seed: u64) -> World {
    let mut config = fix_config(edges);
    config.accounts[0].cancel_on_disconnect = true;
    config.cancel_grace_ns = 300 * MS;
    let mut world = World::of(&config, seed);
    world.logon(0, 1);
    world.logon(1, edges);
    world
}

fn rest(world: &mut World, client: usize, id: &str) {
    let now = world.now.now;
    let (side, price) = if client == 0 { ('1', 100) } else { ('2', 200) };
    world.clients[client].order(now, id, side, 5, price);
    world.run(20 * MS);
}

fn open_orders(world: &World) -> u64 {
    world.root.engine().open_orders() as u64
}

fn mass_cancels(world: &World) -> Vec<Input> {
    let mass = |input: &&Input| input.command.kind == CommandKind::MassCancel;
    world.root.log().iter().filter(mass).copied().collect()
}

#[test]
fn a_gateway_that_dies_takes_the_orders_with_it_after_lease_and_grace() {
    let mut world = world(2, 1);
    rest(&mut world, 0, "mine");
    rest(&mut world, 1, "other");
    world.kill(1);
    world.run(650 * MS);
    assert_eq!(open_orders(&world), 2, "half a second of lease, then the grace");
    world.run(350 * MS);
    assert_eq!(open_orders(&world), 1);
    let cancels = mass_cancels(&world);
    assert_eq!((cancels.len(), cancels[0].source.gateway.0), (1, 0), "by the exchange itself");
    world.run(5_000 * MS);
    assert_eq!(mass_cancels(&world).len(), 1, "once");
    assert_eq!(world.root.counters().lost_cancels, 1);
    let last = world.records(0).into_iter().rfind(|r| r.kind == ExecutionKind::Canceled);
    assert_eq!(last.expect("told").cancel_reason, CancelReason::Disconnect);
    world.logon(0, 2);
    world.run(100 * MS);
    assert_eq!(world.clients[0].orders["mine"].leaves, 0);
    world.check(0, 1);
    world.check(1, 1);
    // The log says it all: a replay ends in the same state.
    let inputs: Vec<Input> = world.root.log().iter().copied().collect();
    let mut engine = engine::Engine::new(world.root.engine().config().clone());
    let mut output = engine::Output::default();
    for input in &inputs {
        output.clear();
        engine.apply(input, &mut output);
    }
    assert_eq!(engine.state_digest(), world.root.engine().state_digest());
}

/// Its session has ended and given the stream back: nobody has it attached, and nobody else knows.
#[test]
fn a_gateway_that_dies_after_its_session_takes_the_orders_with_it_too() {
    let mut world = world(2, 4);
    rest(&mut world, 0, "mine");
    rest(&mut world, 1, "other");
    world.hang_up(0);
    world.run(100 * MS);
    world.kill(1);
    world.run(500 * MS);
    assert_eq!(open_orders(&world), 2, "half a second of lease, then the grace");
    world.run(500 * MS);
    assert_eq!(open_orders(&world), 1);
    world.run(5_000 * MS);
    let cancels = mass_cancels(&world);
    assert_eq!(
        (cancels.len(), cancels[0].source.gateway.0),
        (1, 0),
        "once, by the exchange itself"
    );
    // One whose gateway has cancelled what there was leaves nothing to do.
    world.logon(0, 2);
    rest(&mut world, 0, "again");
    world.hang_up(0);
    world.run(5_000 * MS);
    let cancels = mass_cancels(&world);
    assert_eq!((cancels.len(), cancels[1].source.gateway.0), (2, 2), "by its gateway");
}

#[test]
fn who_is_back_in_time_at_another_gateway_keeps_its_orders() {
    let mut world = world(2, 2);
    rest(&mut world, 0, "mine");
    world.kill(1);
    world.run(520 * MS);
    world.logon(0, 2);
    world.run(3_000 * MS);
    assert_eq!((open_orders(&world), mass_cancels(&world).len()), (1, 0));
    // And when it leaves there, what came through the dead gateway goes, too.
    rest(&mut world, 0, "second");
    world.hang_up(0);
    world.run(250 * MS);
    assert_eq!(open_orders(&world), 2, "the grace");
    world.run(150 * MS);
    assert_eq!((open_orders(&world), mass_cancels(&world).len()), (0, 1));
    assert_eq!(mass_cancels(&world)[0].source.gateway.0, 2, "by its gateway");
}

#[test]
fn lines_that_lose_much_cancel_nobody_who_is_there() {
    for seed in 0..5 {
        let mut world = world(2, seed);
        rest(&mut world, 0, "mine");
        world.lost_permille = 200;
        world.run(10 * Nanos::SECOND);
        assert_eq!(mass_cancels(&world).len(), 0, "seed {seed}");
    }
}

#[test]
fn a_fix_session_that_reads_too_slowly_is_logged_out_with_the_reason() {
    let mut world = world(1, 3);
    rest(&mut world, 1, "other");
    world.unread(0);
    world.run(20 * MS);
    assert_eq!(world.clients[0].logouts, ["Too much left unread"]);
    let gateway = |world: &World| world.edges[0].as_ref().expect("alive").gateway().counters();
    assert_eq!(gateway(&world).slow_consumers, 1);
    // What comes meanwhile keeps its number; nobody answers the Logout, so the line is cut.
    world.unread(0);
    world.run(2_100 * MS);
    assert_eq!((gateway(&world).slow_consumers, world.at[0]), (1, None));
    rest(&mut world, 1, "more");
    world.logon(0, 1);
    rest(&mut world, 0, "back");
    world.check(0, 3);
    world.check(1, 3);
}
