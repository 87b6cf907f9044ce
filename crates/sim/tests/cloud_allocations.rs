//! The cloud's simulator allocates nothing per event once its tables have grown.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
};

use sim::cloud::{nodes, table1};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are those `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

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
