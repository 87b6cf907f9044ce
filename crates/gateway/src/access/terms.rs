//! What a login is bound to, and the limits of those who are not logged on.

use types::{AddressRange, Nanos, Remote};

use super::guesses::HOMES_MAX;
use crate::access::bucket::Rate;

/// Who a certificate has to be of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateRule {
    /// This very certificate: SHA-256 of its DER encoding.
    Fingerprint([u8; 32]),
    /// Any of our authorities' certificates for this common name.
    Name(Vec<u8>),
}

/// What a login needs beside its password. Nothing by default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoginTerms {
    /// Hash of the password, for whoever does the gateway's work; then the plain one counts for
    /// nothing.
    pub password_hash: Option<String>,
    /// One of these certificates, if there are any.
    pub certificates: Vec<CertificateRule>,
    /// An address in one of these ranges, if there are any.
    pub addresses: Vec<AddressRange>,
}

impl LoginTerms {
    /// Bound to certificates, and not to one of these.
    pub(crate) fn lacks_certificate(&self, remote: &Remote) -> bool {
        let fits = |rule: &CertificateRule| {
            remote.certificate.as_ref().is_some_and(|shown| match rule {
                CertificateRule::Fingerprint(bytes) => shown.fingerprint == *bytes,
                CertificateRule::Name(name) => shown.name == *name,
            })
        };
        !self.certificates.is_empty() && !self.certificates.iter().any(fits)
    }

    /// Bound to addresses, and it comes from none of them.
    pub(crate) fn lacks_address(&self, remote: &Remote) -> bool {
        let inside = |range: &AddressRange| remote.address.is_some_and(|from| range.contains(from));
        !self.addresses.is_empty() && !self.addresses.iter().any(inside)
    }
}

/// The secret under which verified passwords are remembered. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AccessKey(pub [u8; 32]);

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessKey(..)")
    }
}

/// Limits of those who are not logged on. A source is an IPv4 address or a /64 of IPv6; where
/// addresses are unknown, limits by source do not exist. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessConfig {
    /// Connections that are not logged on, from everywhere; the oldest makes room.
    pub strangers_max: usize,
    /// The same, from one source.
    pub strangers_per_source_max: usize,
    /// How long a connection may take to log on.
    pub logon_wait_ns: u64,
    /// Passwords given to the worker, from one source.
    pub tries_per_source: Rate,
    /// The same, from everywhere.
    pub checks: Rate,
    /// Wrong passwords for one identity from one source before it has to wait.
    pub guesses_free: u32,
    /// The first wait; each further wrong password doubles it.
    pub guess_wait_ns: u64,
    /// The longest wait, and the time in which one wrong password is forgotten.
    pub guess_wait_max_ns: u64,
    /// Wrong passwords for one identity at once, from all sources that it has not logged on from.
    pub new_address_guesses: u64,
    /// Time in which one more is allowed; 0: any number is.
    pub new_address_every_ns: u64,
    /// Fresh at every start, known to nobody.
    pub key: AccessKey,
}

impl Default for AccessConfig {
    fn default() -> Self {
        AccessConfig {
            strangers_max: 768,
            strangers_per_source_max: 384,
            logon_wait_ns: 15 * Nanos::SECOND,
            tries_per_source: Rate { burst: 64, per_s: 4 },
            checks: Rate { burst: 40, per_s: 20 },
            guesses_free: 5,
            guess_wait_ns: Nanos::SECOND,
            guess_wait_max_ns: 300 * Nanos::SECOND,
            new_address_guesses: 1_000,
            new_address_every_ns: 120 * Nanos::SECOND,
            key: AccessKey([0; 32]),
        }
    }
}

impl AccessConfig {
    /// Most passwords for one identity that one gateway looks at in a day, from all addresses
    /// together: those of its homes, and those from anywhere else.
    pub fn guesses_per_day(&self) -> u64 {
        const DAY: u64 = 86_400 * Nanos::SECOND;
        let doublings = self.guess_wait_max_ns.max(1).div_ceil(self.guess_wait_ns.max(1));
        let steps = u64::from(doublings.next_power_of_two().trailing_zeros());
        let free = u64::from(self.guesses_free.max(1));
        let home = free + steps + DAY / self.guess_wait_max_ns.max(1) + 1;
        let more = DAY.checked_div(self.new_address_every_ns).unwrap_or(u64::MAX);
        let elsewhere = self.new_address_guesses.saturating_add(more).saturating_add(1);
        elsewhere.saturating_add(home.saturating_mul(HOMES_MAX as u64))
    }
}
