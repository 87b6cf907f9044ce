//! Memory of this process.

use host::failure::Failure;

/// Bytes of this process in memory, anonymous ones only.
///
/// # Errors
/// `/proc` does not say.
pub fn resident() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| Failure::Run(format!("/proc/self/status: {error}")))?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| Failure::Run("/proc/self/status has no RssAnon".to_string()))
}
