//! What an enclave's attestation document says, and whether it is to be believed.
//!
//! A document has the form of AWS Nitro's (AWS Nitro Enclaves user guide, "Verifying the root of trust"): COSE_Sign1
//! (RFC 9052, ES384) over a CBOR map with the measurements, a certificate of the key that signed, the chain to a root,
//! and what the enclave had put in: a public key and the verifier's nonce. [`read`] checks signature and chain;
//! [`Challenges`] gives nonces out and takes each once, in time, from the code that is expected. One code path: what the
//! root is decides whether documents are Amazon's or a local attestor's.

use std::collections::VecDeque;

use ciborium::Value;
use coset::iana::Algorithm;
use coset::{CborSerializable, CoseSign1, RegisteredLabelWithPrivate};
use pki_types::{CertificateDer, UnixTime};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};
use types::Nanos;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::signature::hex;

/// The root of all real Nitro enclaves: "AWS Nitro Enclaves Root-G1", DER.
pub const NITRO_ROOT: &[u8] = include_bytes!("nitro-root-g1.der");
/// Bytes of a measurement, SHA-384.
pub const MEASUREMENT_LEN: usize = 48;
/// Bytes of a nonce.
pub const NONCE_LEN: usize = 32;
/// Largest document; Nitro's have 16 KiB at most.
pub const DOCUMENT_MAX: usize = 16 << 10;
/// How long a nonce may be answered, ns.
pub const FRESH_NS: u64 = 10 * Nanos::SECOND;
/// How far the attestor's clock may be from the verifier's, ns.
const SKEW_NS: u64 = 5 * Nanos::SECOND;
/// Nonces that are remembered.
const CHALLENGES_MAX: usize = 1_024;
/// Certificates between a document's own and its root, the root included, at most.
const CHAIN_MAX: usize = 8;
/// What stands before the 97 bytes of a P-384 point in a key's SubjectPublicKeyInfo (RFC 5480).
const P384_HEAD: [u8; 23] = [
    0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b,
    0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
];

/// SHA-384 of what an enclave runs: PCR0.
pub type Measurement = [u8; MEASUREMENT_LEN];
/// What makes a document the answer to one question.
pub type Nonce = [u8; NONCE_LEN];

/// Why a document is not believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is no document; what is wrong with it.
    Malformed(&'static str),
    /// Its certificate does not lead to the root; why.
    Signer(String),
    /// A certificate is no longer valid: since, s since the epoch.
    Expired(u64),
    /// A certificate is not valid yet: before, s since the epoch.
    NotYet(u64),
    /// The key of its certificate has not signed it.
    Signature,
    /// Its nonce was never given out, or so long ago that it is forgotten.
    Nonce,
    /// A document with this nonce came before.
    Replayed,
    /// Its nonce was given out so long ago, ms.
    Stale(u64),
    /// The attestor's clock is so far from ours, ms.
    Clock(u64),
    /// It is about a debugged enclave, whose memory others read.
    Debug,
    /// It is about other code: what it measured, and what was expected.
    Measurement(Box<(Measurement, Measurement)>),
    /// There is no public key to give anything to.
    PublicKey,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("attestation refused: ")?;
        match self {
            Refused::Malformed(why) => write!(f, "no attestation document: {why}"),
            Refused::Signer(why) => write!(f, "wrong signer: no chain to the root ({why})"),
            Refused::Expired(since) => {
                write!(f, "expired certificate: not valid after {since} s of the Unix epoch")
            }
            Refused::NotYet(before) => {
                write!(f, "a certificate is not valid before {before} s of the Unix epoch")
            }
            Refused::Signature => f.write_str("wrong signature: not of its certificate's key"),
            Refused::Nonce => f.write_str("unknown nonce: the answer to no question of ours"),
            Refused::Replayed => f.write_str("replayed: its nonce was answered before"),
            Refused::Stale(ms) => {
                let most = FRESH_NS / Nanos::MILLI;
                write!(f, "stale nonce: given out {ms} ms ago, above {most}")
            }
            Refused::Clock(ms) => write!(f, "the attestor's clock is {ms} ms from ours"),
            Refused::Debug => f.write_str("the enclave is debugged: its measurement is zero"),
            Refused::Measurement(of) => {
                write!(f, "wrong measurement: {}, expected {}", hex(&of.0), hex(&of.1))
            }
            Refused::PublicKey => f.write_str("no public key of 32 bytes in it"),
        }
    }
}

impl std::error::Error for Refused {}

/// A document whose signature and chain are right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    /// Name of the module that attested.
    pub module: String,
    /// When, by the attestor's clock.
    pub time: Nanos,
    /// PCR0: what runs in the enclave.
    pub measurement: Measurement,
    /// What the enclave has put in, to be given keys.
    pub public_key: Vec<u8>,
    /// The verifier's nonce that the enclave has put in.
    pub nonce: Vec<u8>,
}

/// Reads a document whose chain leads to `root` (DER) at a time.
///
/// # Errors
/// It is none, its chain does not lead to the root or is not valid at that time, or its signature is wrong.
pub fn read(bytes: &[u8], root: &[u8], now: Nanos) -> Result<Document, Refused> {
    let malformed = Refused::Malformed;
    if bytes.len() > DOCUMENT_MAX {
        return Err(malformed("too long"));
    }
    let signed = CoseSign1::from_slice(bytes).map_err(|_| malformed("no COSE_Sign1"))?;
    let es384 = RegisteredLabelWithPrivate::Assigned(Algorithm::ES384);
    if signed.protected.header.alg != Some(es384) {
        return Err(malformed("its signature is not ES384"));
    }
    let payload = signed.payload.as_deref().ok_or(malformed("no payload"))?;
    let map: Value = ciborium::from_reader(payload).map_err(|_| malformed("no CBOR"))?;
    let map = map.as_map().ok_or(malformed("no map"))?;
    let field = |name: &str| {
        let named = |(key, value)| (Value::as_text(key) == Some(name)).then_some(value);
        map.iter().map(|(key, value)| (key, value)).find_map(named)
    };
    let bytes_of = |name: &str| field(name).and_then(Value::as_bytes);

    let certificate = bytes_of("certificate").ok_or(malformed("no certificate"))?;
    let bundle = field("cabundle").and_then(Value::as_array).ok_or(malformed("no cabundle"))?;
    if bundle.len() > CHAIN_MAX {
        return Err(malformed("too many certificates"));
    }
    let chain: Option<Vec<_>> =
        bundle.iter().map(|one| Some(CertificateDer::from(one.as_bytes()?.as_slice()))).collect();
    let chain = chain.ok_or(malformed("cabundle"))?;
    let key = key_of(certificate, &chain, (root, now))?;
    let key = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, key);
    let right = signed.verify_signature(b"", |signature, text| key.verify(text, signature));
    right.map_err(|_| Refused::Signature)?;

    if field("digest").and_then(Value::as_text) != Some("SHA384") {
        return Err(malformed("its measurements are not SHA384"));
    }
    let number = |value: &Value| value.as_integer().and_then(|number| u64::try_from(number).ok());
    let time = field("timestamp").and_then(number).ok_or(malformed("no timestamp"))?;
    let pcrs = field("pcrs").and_then(Value::as_map).ok_or(malformed("no pcrs"))?;
    let first = pcrs.iter().find(|(index, _)| number(index) == Some(0));
    let measured = first.and_then(|(_, value)| value.as_bytes()?.as_slice().try_into().ok());
    let given = |name| bytes_of(name).cloned().unwrap_or_default();
    Ok(Document {
        module: field("module_id").and_then(Value::as_text).unwrap_or_default().to_string(),
        time: Nanos(time.checked_mul(Nanos::MILLI).ok_or(malformed("timestamp"))?),
        measurement: measured.ok_or(malformed("no PCR0"))?,
        public_key: given("public_key"),
        nonce: given("nonce"),
    })
}

/// The P-384 point of a certificate that a chain leads to from the root.
fn key_of(
    certificate: &[u8],
    chain: &[CertificateDer<'_>],
    (root, now): (&[u8], Nanos),
) -> Result<Vec<u8>, Refused> {
    let signer = |why: String| Refused::Signer(why);
    let root = CertificateDer::from(root);
    let anchor = anchor_from_trusted_cert(&root);
    let anchors = [anchor.map_err(|error| signer(format!("root: {error}")))?];
    let certificate = CertificateDer::from(certificate);
    let leaf = EndEntityCert::try_from(&certificate);
    let leaf = leaf.map_err(|_| Refused::Malformed("certificate"))?;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_nanos(now.0));
    let algorithms = [webpki::ring::ECDSA_P384_SHA384];
    // Attestors' certificates name no extended usage, which is then any.
    let usage = KeyUsage::client_auth();
    let verified =
        leaf.verify_for_usage(&algorithms, &anchors, chain, now, usage, None, None).map(drop);
    verified.map_err(|error| match error {
        webpki::Error::CertExpired { not_after, .. } => Refused::Expired(not_after.as_secs()),
        webpki::Error::CertNotValidYet { not_before, .. } => Refused::NotYet(not_before.as_secs()),
        other => signer(other.to_string()),
    })?;
    let key = leaf.subject_public_key_info();
    let point = key.as_ref().strip_prefix(&P384_HEAD[..]).filter(|point| point.len() == 97);
    point.map(<[u8]>::to_vec).ok_or(Refused::Malformed("its key is not P-384"))
}

/// A nonce that nobody has had before; `None`: the system gives no randomness.
pub fn nonce() -> Option<Nonce> {
    let mut nonce = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut nonce).ok()?;
    Some(nonce)
}

/// Nonces that were given out, and what became of each.
#[derive(Debug, Default)]
pub struct Challenges {
    issued: VecDeque<(Nonce, Nanos, bool)>,
}

impl Challenges {
    /// Gives a nonce out, which nobody has had before.
    pub fn issue(&mut self, nonce: Nonce, now: Nanos) {
        // What can only be refused is forgotten: it is refused as unknown then.
        let forgotten = |issued: Nanos| now.since(issued) > 60 * FRESH_NS;
        while self.issued.front().is_some_and(|(_, issued, _)| forgotten(*issued))
            || self.issued.len() >= CHALLENGES_MAX
        {
            self.issued.pop_front();
        }
        self.issued.push_back((nonce, now, false));
    }

    /// Takes a document as the answer to a nonce of ours, about code of this measurement.
    ///
    /// # Errors
    /// Why it is not believed; nothing may be given to its enclave then.
    pub fn admit(
        &mut self,
        bytes: &[u8],
        (root, expected): (&[u8], &Measurement),
        now: Nanos,
    ) -> Result<Document, Refused> {
        let document = read(bytes, root, now)?;
        let known = self.issued.iter_mut().find(|(nonce, ..)| document.nonce == nonce);
        let (_, issued, answered) = known.ok_or(Refused::Nonce)?;
        if std::mem::replace(answered, true) {
            return Err(Refused::Replayed);
        }
        let age = now.since(*issued);
        if age > FRESH_NS {
            return Err(Refused::Stale(age / Nanos::MILLI));
        }
        let apart = document.time.0.abs_diff(now.0);
        if apart > FRESH_NS + SKEW_NS {
            return Err(Refused::Clock(apart / Nanos::MILLI));
        }
        if document.measurement == [0; MEASUREMENT_LEN] {
            return Err(Refused::Debug);
        }
        if document.measurement != *expected {
            return Err(Refused::Measurement(Box::new((document.measurement, *expected))));
        }
        if document.public_key.len() != 32 {
            return Err(Refused::PublicKey);
        }
        Ok(document)
    }
}

/// The measurement of a program, as Nitro measures an image: SHA-384 of 48 zeros and of the SHA-384 of its bytes.
pub fn measure(program: &[u8]) -> Measurement {
    let sha384 = |bytes: &[u8]| ring::digest::digest(&ring::digest::SHA384, bytes);
    let mut extended = [0; 2 * MEASUREMENT_LEN];
    extended[MEASUREMENT_LEN..].copy_from_slice(sha384(program).as_ref());
    let mut measured = [0; MEASUREMENT_LEN];
    measured.copy_from_slice(sha384(&extended).as_ref());
    measured
}

/// Reads a measurement's hexadecimal text.
pub fn measurement(text: &str) -> Option<Measurement> {
    crate::signature::unhex(text)?.try_into().ok()
}
