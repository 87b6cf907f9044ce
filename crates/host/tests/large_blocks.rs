//! Large blocks of memory go back to the system: a test of its own process, whose only thread it is.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

/// Resident memory, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Blocks of 4 MiB with something small between them, which lives on; the large ones are freed.
fn round() -> Vec<Box<[u8]>> {
    let pairs: Vec<(Vec<u8>, Box<[u8]>)> =
        (0..16).map(|n| (vec![n; 4 << 20], vec![n; 4_096].into())).collect();
    pairs.into_iter().map(|(_, small)| small).collect()
}

#[test]
fn what_lives_between_large_blocks_keeps_none_of_their_memory() {
    host::limits::prepare();
    let before = resident_kib();
    // The second round is where an allocator as shipped would take them from its heap.
    let kept: Vec<_> = (0..3).map(|_| round()).collect();
    let grown = resident_kib() - before;
    assert!(grown < 4_096, "{grown} KiB more, {} small blocks", kept.len() * 16);
}
