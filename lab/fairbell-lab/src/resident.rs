//! Memory of processes.

use host::failure::Failure;

/// Bytes of this process in memory, anonymous ones only.
///
/// # Errors
/// `/proc` does not say.
pub fn resident() -> Result<u64, Failure> {
    resident_of("self").ok_or_else(|| Failure::Run("/proc/self/status has no RssAnon".to_string()))
}

/// The same of a process, by its number; none of one that is gone.
pub fn resident_of(process: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_size_and_one_that_is_not_there_has_none() {
        assert!(resident().expect("Linux") > 100_000);
        assert_eq!(resident_of("0"), None);
    }
}
