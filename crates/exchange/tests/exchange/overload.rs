//! Bounds of the FIX door filled by one participant, while another one trades on.

use types::Nanos;

use crate::common::MS;
use crate::fix_world::World;

fn honest(world: &mut World, id: &str) {
    let now = world.now.now;
    world.clients[1].order(now, id, '2', 1, 200);
    world.run(20 * MS);
    assert_eq!(world.clients[1].orders[id].accepted, 1, "others go on");
}

#[test]
fn a_fix_message_too_long_is_ignored_and_uses_no_number() {
    let mut world = World::new(1, 1);
    world.logon(0, 1);
    world.logon(1, 1);
    // More than 16 KiB by its own word, then what never is a message; a good one after each.
    let mut long = b"8=FIX.4.4\x019=20000\x0135=D\x01".to_vec();
    long.extend(vec![b'x'; 20_000]);
    long.extend(b"\x0110=000\x01");
    let endless = vec![b'y'; 1 << 20];
    for (n, bytes) in [long, endless].into_iter().enumerate() {
        world.clients[0].out.extend(bytes);
        world.run(10 * MS);
        let now = world.now.now;
        world.clients[0].order(now, &format!("o{n}"), '1', 1, 100);
        world.run(20 * MS);
        assert_eq!(world.clients[0].orders[&format!("o{n}")].accepted, 1, "case {n}");
        honest(&mut world, &format!("h{n}"));
    }
    assert!(world.clients[0].refused.is_empty() && world.clients[0].logouts.is_empty());
    world.check(0, 1);
    world.check(1, 1);
}

#[test]
fn who_connects_to_the_fix_door_and_says_nothing_is_disconnected() {
    let mut world = World::new(1, 2);
    world.logon(1, 1);
    world.connect(0, 1);
    world.run(10 * Nanos::SECOND - MS);
    assert!(world.at[0].is_some());
    honest(&mut world, "meanwhile");
    world.run(10 * MS);
    assert_eq!(world.at[0], None);
    let gateway = world.edges[0].as_ref().expect("alive").gateway();
    assert_eq!((gateway.fix_counters().no_logons, gateway.connections()), (1, 1));
    honest(&mut world, "after");
}
