//! What the system lets the process have: descriptors, the length of files, locked memory.
//!
//! At the start of every command the limit of open files is raised as far as it may be, a file that grows beyond
//! `ulimit -f` becomes an error of the write instead of a silent death, and large blocks of memory go back to the
//! system when they are freed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::failure::Failure;

/// Descriptors kept for files that are opened while it runs: segments, snapshots, reports, sockets of
/// operators.
const KEPT: u64 = 64;
/// Connections that every gateway must be able to hold.
const LEAST_CONNECTIONS: u64 = 16;
/// From this size on a block of memory is a mapping of its own, bytes.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Prepares the process; what can't be had is told where it is needed.
pub fn prepare() {
    // Nobody reads the flag: without a handler the signal would end the process, with one the write fails.
    let nobody = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(Signal::XFSZ.as_raw(), nobody);
    let known = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: known.maximum, maximum: known.maximum });
    large_blocks_go_back();
}

/// Has the C library give large blocks back when they are freed. As shipped it raises its threshold to the size of what was
/// freed, up to 32 MiB: later blocks come from a heap, which grows by the holes between them (mallopt(3), `M_MMAP_THRESHOLD`).
#[allow(unsafe_code)]
fn large_blocks_go_back() {
    // SAFETY: it changes a setting of the allocator, before there are other threads.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
    }
}

/// Locks the memory that the process has and will have (`[memory] lock`): a page is there when it is asked for, not when it is
/// first written to, and is never paged out.
///
/// # Errors
/// [`Failure::Unavailable`] where the process may not lock all of it: at a limit that is met later it would end.
pub fn lock_memory() -> Result<(), Failure> {
    let known = getrlimit(Resource::Memlock);
    let set = |current| match current == known.current {
        true => Ok(()),
        false => setrlimit(Resource::Memlock, Rlimit { current, maximum: known.maximum }),
    };
    // With none allowed only CAP_IPC_LOCK, which no limit holds for, lets it lock any.
    let asked = known.maximum.map(|_| 0);
    let locked = set(asked).and_then(|()| mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE));
    if asked.is_some() {
        let _ = setrlimit(Resource::Memlock, known);
    }
    locked.map_err(|error| {
        let limit = known.maximum.map_or("all".to_string(), |most| format!("{most} bytes"));
        Failure::Unavailable(format!(
            "memory.lock = true needs the right to lock all memory, and this process may lock {limit} ({error}): \
             LimitMEMLOCK=infinity of systemd, `ulimit -l unlimited`, CAP_IPC_LOCK, or memory.lock = false"
        ))
    })
}

/// Descriptors that the process may have open.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Connections that each of so many gateways may hold, at most `wanted`, when the rest of the process
/// needs `own` descriptors.
///
/// # Errors
/// When the limit is too low for this configuration.
pub fn connections(own: u64, gateways: u64, wanted: u64) -> Result<u64, Failure> {
    shares(descriptors(), own, gateways, wanted).map_err(Failure::Run)
}

fn shares(limit: u64, own: u64, gateways: u64, wanted: u64) -> Result<u64, String> {
    let kept = own.saturating_add(KEPT);
    let each = limit.saturating_sub(kept) / gateways.max(1);
    if each >= LEAST_CONNECTIONS.min(wanted) {
        return Ok(each.min(wanted));
    }
    let least = kept + LEAST_CONNECTIONS.min(wanted) * gateways;
    Err(format!(
        "the limit of open files is {limit}, and this configuration needs {least} at least: raise the \
         hard limit (ulimit -Hn, LimitNOFILE)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_share_what_the_rest_leaves_and_too_little_is_refused() {
        assert_eq!(shares(1 << 20, 200, 9, 1_024), Ok(1_024));
        assert_eq!(shares(4_096, 200, 9, 1_024), Ok((4_096 - 264) / 9));
        assert_eq!(shares(264 + 9 * 16, 200, 9, 1_024), Ok(16));
        let refused = shares(264 + 9 * 16 - 1, 200, 9, 1_024).expect_err("too few");
        assert!(refused.contains("408") && refused.lines().count() == 1, "{refused}");
        assert!(shares(64, 200, 1, 1_024).is_err());
        assert_eq!(shares(u64::MAX, 200, 0, 1_024), Ok(1_024));
    }
}
