//! Orders, fills, replaces and cancels of FIX sessions cost the edges no allocation once they have
//! been going on for a while: session, door, ledger, stream and way up.

use crate::common::MS;
use crate::fix_world::World;

/// A few requests of each kind, and what follows from them.
fn step(world: &mut World, step: u64) {
    let now = world.now.now;
    world.clients[0].order(now, &format!("b{step}"), '1', 3, 100);
    world.clients[0].order(now, &format!("n{step}"), '1', 3, 90);
    let body = "54=1|60=20260101-10:00:00|38=4|40=2|44=91|";
    world.clients[0].send(now, "G", &format!("41=n{step}|11=r{step}|55=BTCUSD|{body}"));
    world.clients[1].order(now, &format!("s{step}"), '2', 3, 100);
    world.run(MS);
    let now = world.now.now;
    world.clients[0].cancel(now, &format!("c{step}"), &format!("r{step}"), '1');
    if step.is_multiple_of(50) {
        // The door refuses it: the order is done.
        world.clients[0].cancel(now, &format!("d{step}"), &format!("b{step}"), '1');
    }
    world.run(MS);
}

#[test]
fn orders_and_reports_allocate_nothing_at_the_edges() {
    let mut world = World::new(2, 11);
    for (client, place) in [(0, 1), (1, 2), (2, 1)] {
        world.logon(client, place);
    }
    (0..400).for_each(|n| step(&mut world, n));
    let before = world.allocations;
    assert!(before > 0, "they are counted");
    let fills = world.clients[0].executions.len();
    (400..1_400).for_each(|n| step(&mut world, n));
    assert_eq!(world.allocations - before, 0);
    assert!(world.clients[0].executions.len() > fills + 3_500);
    assert!(world.clients[2].told.len() > 6_000, "copies cost none either");
}
