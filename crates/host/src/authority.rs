//! An authority and the certificates that it signs. Keys are ECDSA on P-256.

use std::io::Write as _;
use std::path::Path;

use jiff::civil::Date;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, PublicKeyData,
};

use crate::failure::{Failure, on};

/// A certificate and its key, in PEM.
pub struct Pair {
    /// X.509 certificate, PEM text with one block.
    pub certificate: String,
    /// Its private key, PKCS #8, PEM text.
    pub key: String,
}

/// At which end of a connection a certificate may be shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Where connections are accepted.
    Server,
    /// Where they are opened.
    Client,
    /// At either.
    Both,
}

/// Who signs.
pub struct Authority {
    /// Its own certificate and key.
    pub pair: Pair,
    issuer: Issuer<'static, KeyPair>,
}

fn failed(error: rcgen::Error) -> Failure {
    Failure::Run(format!("certificates: {error}"))
}

impl Authority {
    /// A fresh one of this name.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn new(name: &str) -> Result<Authority, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = authority(name)?;
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        Ok(Authority { pair, issuer: Issuer::new(params, key) })
    }

    /// One made earlier, by [`Authority::new`] under this name.
    ///
    /// # Errors
    /// When the key is none.
    pub fn again(name: &str, pair: Pair) -> Result<Authority, Failure> {
        let key = KeyPair::from_pem(&pair.key).map_err(failed)?;
        Ok(Authority { pair, issuer: Issuer::new(authority(name)?, key) })
    }

    /// A certificate of `name`, for these host names or addresses.
    ///
    /// # Errors
    /// When a host name is none.
    pub fn sign(&self, name: &str, hosts: &[String], end: End) -> Result<Pair, Failure> {
        self.signed(name, hosts, end, None)
    }

    /// As [`Authority::sign`]; the certificate holds from yesterday for so many days from today.
    ///
    /// # Errors
    /// As there.
    pub fn sign_for(
        &self,
        name: &str,
        hosts: &[String],
        end: End,
        days: u16,
    ) -> Result<Pair, Failure> {
        self.signed(name, hosts, end, Some(holds(days)?))
    }

    /// The certificate of a key that signs certificates in place of this authority, for so many days:
    /// those of nodes and nobody who signs further, and for no host name that is, or ends with, one of `never`.
    ///
    /// # Errors
    /// As [`Authority::sign_for`].
    pub fn deputy(&self, name: &str, never: &[String], days: u16) -> Result<Pair, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = authority(name)?;
        hold(&mut params, holds(days)?);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: Vec::new(),
            excluded_subtrees: never.iter().cloned().map(GeneralSubtree::DnsName).collect(),
        });
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }

    /// The certificate of the key of a request, for these names and so many days; what the request asks
    /// for besides counts nothing.
    ///
    /// # Errors
    /// When a host name is none.
    pub fn sign_request(
        &self,
        request: &Request,
        name: &str,
        hosts: &[String],
        days: u16,
    ) -> Result<String, Failure> {
        let params = params(name, hosts, End::Both, Some(holds(days)?))?;
        let Request(CertificateSigningRequestParams { public_key, .. }) = request;
        Ok(params.signed_by(public_key, &self.issuer).map_err(failed)?.pem())
    }

    fn signed(
        &self,
        name: &str,
        hosts: &[String],
        end: End,
        holds: Option<(Date, Date)>,
    ) -> Result<Pair, Failure> {
        let key = KeyPair::generate().map_err(failed)?;
        let params = params(name, hosts, end, holds)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        Ok(Pair { certificate, key: key.serialize_pem() })
    }
}

/// A request for a certificate, whose sender has proved to have the key.
pub struct Request(CertificateSigningRequestParams);

impl Request {
    /// Reads one (PKCS #10, PEM) and checks its signature.
    ///
    /// # Errors
    /// What is none.
    pub fn read(pem: &str) -> Result<Request, Failure> {
        let read = CertificateSigningRequestParams::from_pem(pem);
        read.map(Request).map_err(|error| Failure::Usage(format!("certificate request: {error}")))
    }

    /// The public key.
    pub fn key(&self) -> &[u8] {
        self.0.public_key.der_bytes()
    }
}

/// A fresh key (PKCS #8, PEM).
///
/// # Errors
/// When the machine has no randomness.
pub fn fresh_key() -> Result<String, Failure> {
    Ok(KeyPair::generate().map_err(failed)?.serialize_pem())
}

/// The request for a certificate of a key (PEM) under a name, signed with that key: PEM.
///
/// # Errors
/// When the key is none.
pub fn request(key: &str, name: &str) -> Result<String, Failure> {
    let key = KeyPair::from_pem(key).map_err(failed)?;
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.serialize_request(&key).and_then(|request| request.pem()).map_err(failed)
}

/// From yesterday for so many days from today.
fn holds(days: u16) -> Result<(Date, Date), Failure> {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let ends = [-1, i64::from(days)].map(|days| today.checked_add(jiff::Span::new().days(days)));
    match ends {
        [Ok(from), Ok(to)] => Ok((from, to)),
        _ => Err(Failure::Run("certificates: no such day".to_string())),
    }
}

/// It holds from one day to another.
fn hold(params: &mut CertificateParams, (from, to): (Date, Date)) {
    let at =
        |date: Date| rcgen::date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8);
    (params.not_before, params.not_after) = (at(from), at(to));
}

fn params(
    name: &str,
    hosts: &[String],
    end: End,
    holds: Option<(Date, Date)>,
) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(hosts.to_vec()).map_err(failed)?;
    if let Some(days) = holds {
        hold(&mut params, days);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let (server, client) =
        (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
    params.extended_key_usages = match end {
        End::Server => vec![server],
        End::Client => vec![client],
        End::Both => vec![server, client],
    };
    Ok(params)
}

fn authority(name: &str) -> Result<CertificateParams, Failure> {
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Writes a certificate and its key, which is for its owner's eyes only.
///
/// # Errors
/// Files that are there already, or can't be written.
pub fn keep(certificate: &Path, key: &Path, pair: &Pair) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    for (path, text, mode) in [(certificate, &pair.certificate, 0o644), (key, &pair.key, 0o600)] {
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(path);
        let mut file = file.map_err(|error| on(path, error))?;
        file.write_all(text.as_bytes()).map_err(|error| on(path, error))?;
    }
    Ok(())
}
