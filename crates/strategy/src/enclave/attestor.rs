//! A local attestor: signs documents about enclaves that this machine has started itself, for development.
//!
//! Its documents have the form of Nitro's and are checked by the same code, against the attestor's own root. They prove no more than that
//! the machine's software says so: whoever has the key can attest anything.

use ciborium::Value;
use coset::iana::Algorithm;
use coset::{CborSerializable, CoseSign1Builder, HeaderBuilder};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384,
};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use time::OffsetDateTime;
use types::Nanos;

use super::attestation::Measurement;

/// A certificate is valid so long before and after its document, s; Nitro's are for three hours.
const VALID_S: (u64, u64) = (60, 3 * 3_600);
/// A root is valid so long, s: ten years.
const ROOT_S: u64 = 10 * 365 * 86_400;

/// A root and its key.
pub struct Attestor {
    issuer: Issuer<'static, KeyPair>,
    root: Vec<u8>,
}

/// Why there is no attestor, or no document of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttestorError(String);

impl std::fmt::Display for AttestorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "attestor: {}", self.0)
    }
}

impl std::error::Error for AttestorError {}

fn failed(error: impl std::fmt::Display) -> AttestorError {
    AttestorError(error.to_string())
}

fn moment(seconds: u64) -> Result<OffsetDateTime, AttestorError> {
    OffsetDateTime::from_unix_timestamp(seconds.cast_signed()).map_err(failed)
}

/// What an enclave asks to have attested.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// What the attestor has measured; the enclave has no say in it.
    pub measurement: &'a Measurement,
    /// The enclave's public key.
    pub public_key: &'a [u8],
    /// The verifier's nonce.
    pub nonce: &'a [u8],
}

impl Attestor {
    /// A new root: its private key and its certificate, both as PEM.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn root(now: Nanos) -> Result<(String, String), AttestorError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).map_err(failed)?;
        let seconds = now.0 / Nanos::SECOND;
        let mut of = params("fairbell local attestor", (seconds - VALID_S.0, seconds + ROOT_S))?;
        of.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        of.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = of.self_signed(&key).map_err(failed)?;
        Ok((key.serialize_pem(), certificate.pem()))
    }

    /// The attestor of a root.
    ///
    /// # Errors
    /// Either text is none.
    pub fn new(key: &str, certificate: &str) -> Result<Attestor, AttestorError> {
        let key = KeyPair::from_pem(key).map_err(failed)?;
        let root = super::certificate_of(certificate).ok_or_else(|| failed("no certificate"))?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(failed)?;
        Ok(Attestor { issuer, root })
    }

    /// Its root's certificate, DER: what documents of it are checked against.
    pub fn certificate(&self) -> &[u8] {
        &self.root
    }

    /// A document about an enclave, signed by a key of its own that lives three hours.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn attest(&self, claim: &Claim<'_>, now: Nanos) -> Result<Vec<u8>, AttestorError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).map_err(failed)?;
        let seconds = now.0 / Nanos::SECOND;
        let mut of = params("fairbell enclave", (seconds - VALID_S.0, seconds + VALID_S.1))?;
        of.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = of.signed_by(&key, &self.issuer).map_err(failed)?;
        let text = |text: &str| Value::Text(text.to_string());
        let bytes = |bytes: &[u8]| Value::Bytes(bytes.to_vec());
        let payload = Value::Map(vec![
            (text("module_id"), text("fairbell-local")),
            (text("digest"), text("SHA384")),
            (text("timestamp"), Value::from(now.0 / Nanos::MILLI)),
            (text("pcrs"), Value::Map(vec![(Value::from(0), bytes(claim.measurement))])),
            (text("certificate"), bytes(certificate.der())),
            (text("cabundle"), Value::Array(vec![bytes(&self.root)])),
            (text("public_key"), bytes(claim.public_key)),
            (text("user_data"), Value::Null),
            (text("nonce"), bytes(claim.nonce)),
        ]);
        let mut written = Vec::new();
        ciborium::into_writer(&payload, &mut written).map_err(failed)?;
        let random = SystemRandom::new();
        let pkcs8 = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &pkcs8, &random);
        let pair = pair.map_err(failed)?;
        let sign = |message: &[u8]| {
            pair.sign(&random, message).map(|signature| signature.as_ref().to_vec())
        };
        let signed = CoseSign1Builder::new()
            .protected(HeaderBuilder::new().algorithm(Algorithm::ES384).build())
            .payload(written)
            .try_create_signature(b"", sign)
            .map_err(failed)?;
        signed.build().to_vec().map_err(failed)
    }
}

fn params(name: &str, (from, to): (u64, u64)) -> Result<CertificateParams, AttestorError> {
    let mut of = CertificateParams::new(Vec::new()).map_err(failed)?;
    of.distinguished_name.push(DnType::CommonName, name);
    (of.not_before, of.not_after) = (moment(from)?, moment(to)?);
    Ok(of)
}
