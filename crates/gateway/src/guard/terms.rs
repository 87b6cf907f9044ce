//! What a login is bound to, and the limits of those who are not logged on.

use types::{AddressRange, Nanos, Remote};

use crate::bucket::Rate;

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
pub struct GuardKey(pub [u8; 32]);

impl std::fmt::Debug for GuardKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GuardKey(..)")
    }
}

/// Limits of those who are not logged on. A source is an IPv4 address or a /64 of IPv6; where
/// addresses are unknown, limits by source do not exist. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuardConfig {
    /// Connections that are not logged on, from everywhere; the oldest makes room.
    pub strangers_max: usize,
    /// The same, from one source.
    pub strangers_per_source_max: usize,
    /// How long a connection may take to log on.
    pub logon_wait_ns: u64,
    /// Attempts with wrong or not yet known passwords, from one source.
    pub tries_per_source: Rate,
    /// Passwords given to the worker, from everywhere.
    pub checks: Rate,
    /// Failures within [`GuardConfig::lockout_ns`] after which an identity is locked; 0: never.
    pub failures_of_identity: u32,
    /// The same for a source.
    pub failures_of_source: u32,
    /// Length of a lockout.
    pub lockout_ns: u64,
    /// Fresh at every start, known to nobody.
    pub key: GuardKey,
}

impl Default for GuardConfig {
    fn default() -> Self {
        GuardConfig {
            strangers_max: 768,
            strangers_per_source_max: 384,
            logon_wait_ns: 15 * Nanos::SECOND,
            tries_per_source: Rate { burst: 64, per_s: 4 },
            checks: Rate { burst: 40, per_s: 20 },
            failures_of_identity: 10,
            failures_of_source: 40,
            lockout_ns: 30 * Nanos::SECOND,
            key: GuardKey([0; 32]),
        }
    }
}
