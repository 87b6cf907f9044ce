//! Values that several commands take as options: times, seeds, switches.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ValueEnum};
use host::failure::Failure;

/// A flag that Ctrl-C and SIGTERM set.
///
/// # Errors
/// The system's.
pub fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))
            .map_err(|error| Failure::Run(format!("handling Ctrl-C: {error}")))?;
    }
    Ok(flag)
}

/// How a client speaks TLS with a door.
#[derive(Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Speak TLS 1.3
    #[arg(long, requires = "ca")]
    pub tls: bool,
    /// Authorities of the door's certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub ca: Option<String>,
    /// Our certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls", requires = "key")]
    pub cert: Option<String>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<String>,
    /// Name the door's certificate is of [default: the host of the first address]
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub server_name: Option<String>,
}

impl TlsArgs {
    /// TLS for doors like the one at `address`; `None`: they are plain.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn client(&self, address: &str) -> Result<Option<net::ClientTls>, Failure> {
        let Some(authorities) = self.ca.as_ref().filter(|_| self.tls) else { return Ok(None) };
        let own = self.cert.as_deref().zip(self.key.as_deref());
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        // An IPv6 address stands in brackets before a port, and without them in a certificate.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = self.server_name.as_deref().unwrap_or(host);
        host::tls::client(authorities, own, name).map(Some)
    }
}

/// On or off.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Done, as `--option on` says.
    On,
    /// Left out, as `--option off` says.
    Off,
}

/// `30s`, `500ms`, `250us`, `2m`, `1h`: a whole number above zero and a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let complaint =
        "write a whole number above zero and a unit (us, ms, s, m or h), like 30s, 500ms or 2m";
    let number: u64 = number.parse().map_err(|_| complaint.to_string())?;
    let micros_each = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return Err(complaint.to_string()),
    };
    match number.checked_mul(micros_each) {
        Some(micros) if micros > 0 => Ok(Duration::from_micros(micros)),
        _ => Err(complaint.to_string()),
    }
}

/// A text as one word of a shell's command line, in quotes where it needs them.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_string();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A seed alone: any number that another one follows.
pub fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse().ok().filter(|seed| *seed < u64::MAX);
    seed.ok_or_else(|| format!("write a whole number from 0 to {}", u64::MAX - 1))
}

/// `0..1000`: the first seed and the one after the last.
pub fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text
        .split_once("..")
        .and_then(|(first, last)| Some(first.parse().ok()?..last.parse().ok()?))
        .filter(|range: &Range<u64>| !range.is_empty());
    range.ok_or_else(|| "write the first seed and the one after the last, like 0..1000".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in
            ["", "s", "30", "-1s", "1.5s", "0s", "1d", "99999999999999999999s", "9999999999h"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_word_for_the_shell_is_in_quotes_where_it_needs_them() {
        assert_eq!(shell_word("scenarios/a-1.toml"), "scenarios/a-1.toml");
        assert_eq!(shell_word("l 1.toml"), "'l 1.toml'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_seed_is_followed_by_another_number() {
        assert_eq!(seed("18446744073709551614"), Ok(u64::MAX - 1));
        for bad in ["18446744073709551615", "18446744073709551616", "-1", "", "1x"] {
            assert!(seed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!(seeds("0..1000"), Ok(0..1000));
        for bad in ["", "5", "5..5", "9..1", "a..b", "0..", "..3", "0..=3"] {
            assert!(seeds(bad).is_err(), "{bad}");
        }
    }
}
