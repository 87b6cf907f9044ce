//! For tests that a warm path allocates nothing: an allocator that counts and passes everything on
//! to the system's.
//!
//! A test binary makes it its own with
//! `#[global_allocator] static ALLOCATOR: counting::Counting = counting::Counting;`. Counts are per
//! thread, so that tests side by side, and the test harness, do not disturb each other.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// The allocator.
#[derive(Debug)]
pub struct Counting;

fn note(allocations: u64, bytes: i64) {
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
    LIVE.set(LIVE.get() + bytes);
}

// SAFETY: every method hands its arguments unchanged to the system allocator, whose contract is
// the one our callers keep. The counters are constant-initialised thread locals without destructor,
// so touching them never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(1, size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(0, -(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Allocations and reallocations of this thread so far.
///
/// # Panics
/// When [`Counting`] is not the binary's allocator: a count that stays 0 would prove nothing.
pub fn allocations() -> u64 {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(0u8)));
    assert!(ALLOCATIONS.get() > before, "the binary's allocator is not `counting::Counting`");
    ALLOCATIONS.set(before);
    before
}

/// Bytes that this thread has allocated and not freed.
///
/// # Panics
/// As [`allocations`].
pub fn live_bytes() -> i64 {
    allocations();
    LIVE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn allocations_and_bytes_are_counted() {
        let before = (allocations(), live_bytes());
        let mut kept = std::hint::black_box(vec![0u8; 10]);
        assert_eq!((allocations() - before.0, live_bytes() - before.1), (1, 10));
        kept.reserve_exact(90);
        assert_eq!((allocations() - before.0, live_bytes() - before.1), (2, 100));
        drop(kept);
        assert_eq!((allocations() - before.0, live_bytes() - before.1), (2, 0));
    }
}
