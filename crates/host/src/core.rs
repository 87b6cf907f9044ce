//! A loop's thread on a core of its own, and its habits there.

use net::{LoopConfig, WaitStrategy};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use types::Nanos;

use crate::failure::Failure;
use crate::sockets::io;

/// Before a deadline no datagram is begun that might still be under way then: opening a sealed one and keeping
/// it takes some 5 us.
const GUARD_NS: u64 = 10 * Nanos::MICRO;

/// Habits of a loop with a core of its own: it never sleeps.
pub fn own() -> LoopConfig {
    let wait = WaitStrategy { spin_ns: u64::MAX, timer_spin_ns: 0 };
    LoopConfig { wait, timer_guard_ns: GUARD_NS, ..LoopConfig::default() }
}

/// Habits of a loop that shares its core: it sleeps until there is something to do.
pub fn shared() -> LoopConfig {
    let wait = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
    LoopConfig { wait, ..LoopConfig::default() }
}

/// Cores that this process may use, ascending.
///
/// # Errors
/// The system does not say.
pub fn allowed() -> Result<Vec<usize>, Failure> {
    let allowed = sched_getaffinity(None).map_err(|error| io(error.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Whether a thread of this process may run on that core; `of`: whose core it is to be.
///
/// # Errors
/// It may not; the cores on which it may.
pub fn check(of: &str, core: u16) -> Result<(), Failure> {
    let allowed = allowed()?;
    if !allowed.contains(&usize::from(core)) {
        let all: Vec<String> = allowed.iter().map(usize::to_string).collect();
        let all = all.join(", ");
        return Err(Failure::Usage(format!("{of}: core {core}: this process may use {all}")));
    }
    Ok(())
}

/// The calling thread runs on that core alone from now on; `of`: whose core it is.
///
/// # Errors
/// As [`check`].
pub fn take(of: &str, core: u16) -> Result<(), Failure> {
    check(of, core)?;
    let mut only = CpuSet::new();
    only.set(usize::from(core));
    sched_setaffinity(None, &only).map_err(|error| io(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_takes_a_core_and_others_are_refused_with_those_there_are() {
        let taken = std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).expect("known");
            let core = (0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).expect("one");
            take("edge-1", core as u16).expect("its own");
            let now = sched_getaffinity(None).expect("known");
            (
                now.count(),
                now.is_set(core),
                take("edge-1", u16::MAX).map_err(|error| error.to_string()),
            )
        });
        let (count, set, refused) = taken.join().expect("no panic");
        assert_eq!((count, set), (1, true));
        let why = refused.expect_err("no such core");
        assert!(why.contains("edge-1: core 65535: this process may use "), "{why}");
    }
}
