//! The cloud's simulator allocates nothing per event once its tables have grown.

use std::hint::black_box;

use counting::allocations;
use sim::cloud::{nodes, table1};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn steady_state_allocates_nothing_per_event() {
    let tree = table1::tree(&table1::layers(300, 3, 7), 2, true);
    let mut world = nodes::speed_world(tree, 1);
    let (interval_ns, quiet_ns) = (200_000, 1_000_000);
    world.run(0, 1_500, interval_ns, quiet_ns);
    let before = (allocations(), world.events());
    world.run(1_500 * interval_ns + quiet_ns, 500, interval_ns, quiet_ns);
    let (made, events) = (allocations() - before.0, world.events() - before.1);
    assert!(events > 500_000, "{events}");
    // A table may still double once or twice.
    assert!(made <= 8, "{made} allocations in {events} events");
    let before = allocations();
    drop(black_box(vec![1u8; 32]));
    assert_eq!(allocations() - before, 1, "control: the counter counts");
}
