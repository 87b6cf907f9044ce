//! The gateways' doors: where they listen, what they speak, what strangers may do.

use std::net::{IpAddr, Ipv4Addr};

use exchange::{AccessConfig, AccessKey, CertificateRule, LoginTerms, Rate};
use serde::{Deserialize, Serialize};
use types::{AddressRange, Nanos};

use super::{AccountEntry, Config};

/// Whether clients must show a certificate.
pub const CLIENT_CERTIFICATES: &[&str] = &["required", "optional"];

/// `[doors]`
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Doors {
    /// Doors without TLS, on a loopback address only; a file must say so itself.
    pub plain: bool,
    /// Address that the doors listen on.
    pub listen: String,
    /// Certificate chain of the doors, PEM; with it they speak TLS 1.3. "none": they don't.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Certificates of the authorities whose clients are let in.
    pub authorities: String,
    /// Whether clients must have one.
    pub client_certificates: String,
    /// Certificate and key of the built-in participants, when doors speak TLS.
    pub own_certificate: String,
    /// See `own_certificate`.
    pub own_key: String,
    /// Name in the doors' certificate that the built-in participants expect.
    pub server_name: String,
    /// How long a TLS handshake may take, milliseconds.
    pub handshake_ms: u64,
    /// How long a connection may take to log on, milliseconds.
    pub logon_ms: u64,
    /// Connections not logged on, at one gateway.
    pub half_open: u64,
    /// The same from one address.
    pub half_open_per_address: u64,
    /// Connections of an account that may subscribe to the feed at one edge.
    pub subscriptions: u32,
    /// Hashed passwords looked at for one address, at once.
    pub tries: u32,
    /// The same, per second.
    pub tries_per_s: u32,
    /// Hashed passwords looked at by one gateway, per second.
    pub checks_per_s: u32,
    /// Wrong passwords for one account from one address before it has to wait.
    pub guesses_free: u32,
    /// The longest that it has to wait then, seconds; one is forgotten in each such time.
    pub guess_wait_max_s: u64,
    /// Wrong passwords for one account from all addresses that it has not logged on from, at once.
    pub new_address_guesses: u64,
    /// Time in which one more of those is allowed, seconds.
    pub new_address_guess_s: u64,
}

/// What says that there is no such file.
pub const NONE: &str = "none";

impl Default for Doors {
    fn default() -> Self {
        let none = || NONE.to_string();
        Doors {
            plain: true,
            listen: Ipv4Addr::LOCALHOST.to_string(),
            certificate: none(),
            key: none(),
            authorities: none(),
            client_certificates: CLIENT_CERTIFICATES[0].to_string(),
            own_certificate: none(),
            own_key: none(),
            server_name: "localhost".to_string(),
            handshake_ms: 3_000,
            logon_ms: 10_000,
            half_open: 768,
            half_open_per_address: 384,
            subscriptions: 4,
            tries: 64,
            tries_per_s: 4,
            checks_per_s: 20,
            guesses_free: 5,
            guess_wait_max_s: 300,
            new_address_guesses: 1_000,
            new_address_guess_s: 120,
        }
    }
}

impl Doors {
    /// Whether they speak TLS.
    pub fn tls(&self) -> bool {
        self.certificate != NONE
    }

    /// Whether clients without a certificate are turned away.
    pub fn certificates_required(&self) -> bool {
        self.client_certificates == CLIENT_CERTIFICATES[0]
    }

    /// The address they listen on, of either version of IP; `::` is all addresses of both.
    pub fn address(&self) -> Option<IpAddr> {
        let parsed = self.listen.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
        parsed.filter(|ip| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()))
    }

    /// Limits of strangers, with a key that nobody else knows.
    pub fn guard(&self, key: [u8; 32]) -> AccessConfig {
        let rate = |burst: u32, per_s: u32| Rate { burst: burst.into(), per_s: per_s.into() };
        AccessConfig {
            strangers_max: self.half_open as usize,
            strangers_per_source_max: self.half_open_per_address as usize,
            logon_wait_ns: self.logon_ms * Nanos::MILLI,
            tries_per_source: rate(self.tries, self.tries_per_s),
            checks: rate(self.checks_per_s * 2, self.checks_per_s),
            guesses_free: self.guesses_free,
            guess_wait_ns: Nanos::SECOND,
            guess_wait_max_ns: self.guess_wait_max_s * Nanos::SECOND,
            new_address_guesses: self.new_address_guesses,
            new_address_every_ns: self.new_address_guess_s * Nanos::SECOND,
            key: AccessKey(key),
        }
    }
}

impl AccountEntry {
    /// What it takes to log on beside the password.
    ///
    /// # Errors
    /// The key to blame and what is wrong with it.
    pub fn terms(&self) -> Result<LoginTerms, (&'static str, String)> {
        let mut terms = LoginTerms::default();
        if !self.password_hash.is_empty() {
            crate::password::parse(&self.password_hash).map_err(|why| ("password_hash", why))?;
            terms.password_hash = Some(self.password_hash.clone());
        }
        for text in items(&self.certificate) {
            terms.certificates.push(rule(text).map_err(|why| ("certificate", why))?);
        }
        for text in items(&self.addresses) {
            terms.addresses.push(range(text).map_err(|why| ("addresses", why))?);
        }
        Ok(terms)
    }
}

pub(super) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|text| !text.is_empty())
}

/// `sha256:` and 64 hexadecimal digits, or `name:` and a common name.
fn rule(text: &str) -> Result<CertificateRule, String> {
    if let Some(name) = text.strip_prefix("name:").filter(|name| !name.is_empty()) {
        return Ok(CertificateRule::Name(name.as_bytes().to_vec()));
    }
    let digits = text.strip_prefix("sha256:").map(|digits| digits.replace(':', ""));
    let digits = digits.filter(|digits| digits.len() == 64 && digits.is_ascii());
    let bytes = digits.and_then(|digits| {
        let pair = |n: usize| u8::from_str_radix(digits.get(2 * n..2 * n + 2)?, 16).ok();
        (0..32).map(pair).collect::<Option<Vec<u8>>>()
    });
    match bytes.as_deref().and_then(<[u8]>::first_chunk) {
        Some(bytes) => Ok(CertificateRule::Fingerprint(*bytes)),
        None => Err(format!(
            "write sha256: and 64 hexadecimal digits, or name: and a common name, not {text:?}"
        )),
    }
}

/// `10.0.0.0/8`, `2001:db8::/32`, or one address.
pub(super) fn range(text: &str) -> Result<AddressRange, String> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let parsed = address.parse::<IpAddr>().ok().and_then(|address| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        AddressRange::new(net::address_of(address), bits)
    });
    parsed.ok_or_else(|| format!("write addresses like 10.0.0.0/8 or 2001:db8::1, not {text:?}"))
}

/// Relations of the doors' keys and of what accounts need to log on.
pub(super) fn relations(config: &Config, both: &mut super::load::Both<'_>) {
    let doors = &config.doors;
    let mut one = |path: &str, why: String| both((path, why.clone()), (path, why));
    let Some(address) = doors.address() else {
        let why = format!(
            "must be an IPv4 address, or an IPv6 address that is not link-local, is {:?}",
            doors.listen
        );
        return one("doors.listen", why);
    };
    let parts = [("key", &doors.key), ("authorities", &doors.authorities)];
    if doors.tls() {
        for (key, _) in parts.iter().filter(|(_, value)| *value == NONE) {
            one(&format!("doors.{key}"), "must be given with doors.certificate".to_string());
        }
        let own = [&doors.own_certificate, &doors.own_key];
        if doors.certificates_required() && own.contains(&&NONE.to_string()) {
            let why = "the built-in participants need own_certificate and own_key where \
                       client_certificates = \"required\"";
            one("doors.own_certificate", why.to_string());
        }
    } else if !doors.plain {
        let why = "must be true for doors without TLS on the loopback address; or give \
                   certificate, key and authorities";
        one("doors.plain", why.to_string());
    }
    if doors.tls() && doors.plain {
        let why = "doors that speak TLS are not plain: must be false with doors.certificate";
        one("doors.plain", why.to_string());
    }
    if !address.is_loopback() && !doors.tls() {
        let why = format!("{address} is no loopback address: doors there need TLS");
        one("doors.listen", why);
    }
    if doors.half_open_per_address > doors.half_open {
        let why = format!("must be at most half_open ({})", doors.half_open);
        one("doors.half_open_per_address", why);
    }
    accounts(config, address.is_loopback(), &mut one);
}

fn accounts(config: &Config, loopback: bool, one: &mut impl FnMut(&str, String)) {
    for (index, entry) in config.accounts.0.iter().enumerate() {
        let path = |key: &str| format!("account[{index}].{key}");
        if let Err((key, why)) = entry.terms() {
            one(&path(key), why);
        }
        let built_in = index < config.flow.participants as usize;
        match (entry.password.is_empty(), entry.password_hash.is_empty()) {
            (true, true) => one(&path("password"), "or password_hash is missing".to_string()),
            (false, false) if !built_in => {
                one(&path("password"), "and password_hash exclude each other".to_string());
            }
            (false, true) if !loopback => {
                let why = "is for trials on the loopback address; elsewhere give password_hash";
                one(&path("password"), why.to_string());
            }
            (true, false) if built_in => {
                let why = "a built-in participant needs it to log on, beside password_hash";
                one(&path("password"), why.to_string());
            }
            _ => {}
        }
        if !entry.certificate.is_empty() && !config.doors.tls() {
            let why = "needs doors that speak TLS: doors.certificate";
            one(&path("certificate"), why.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_ranges_are_read_or_explained() {
        let hex = "Ab".repeat(32);
        assert_eq!(rule(&format!("sha256:{hex}")), Ok(CertificateRule::Fingerprint([0xAB; 32])));
        let colons = vec!["AB"; 32].join(":");
        assert_eq!(rule(&format!("sha256:{colons}")), Ok(CertificateRule::Fingerprint([0xAB; 32])));
        assert_eq!(rule("name:a b"), Ok(CertificateRule::Name(b"a b".to_vec())));
        for bad in ["", "name:", "sha256:", "sha256:zz", "member1", &hex] {
            assert!(rule(bad).is_err(), "{bad}");
        }
        for good in ["10.0.0.0/8", "127.0.0.1", "2001:db8::/32", "::1", "0.0.0.0/0"] {
            assert!(range(good).is_ok(), "{good}");
        }
        for bad in ["10.0.0.0/33", "10.0.0/8", "::/129", "x", "10.0.0.1/", "/8"] {
            assert!(range(bad).is_err(), "{bad}");
        }
        assert_eq!(items(" a, b ,,c").collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
