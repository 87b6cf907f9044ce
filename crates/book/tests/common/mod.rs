//! Counts allocations: an allocator that wraps the system's.
//!
//! The one `unsafe` here is what Rust asks of any global allocator; each call is passed on as it
//! came. The counter is per thread, so that tests that run side by side do not disturb each other.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every method hands its arguments unchanged to the system allocator, whose contract is
// the one our callers keep; counting touches no memory that could be allocated.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn an_allocation_is_counted() {
    let before = allocations();
    drop(std::hint::black_box(Box::new(1u64)));
    assert_eq!(allocations() - before, 1);
}
