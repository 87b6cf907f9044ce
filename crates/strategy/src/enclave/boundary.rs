//! The host's end of the stream to an enclave.
//!
//! A frame is its length (32 bits, little-endian) and that many bytes. The host sends a nonce; the enclave answers with an attestation
//! document that has the nonce and an X25519 public key of its own in it. Once the document is believed the host sends
//! its own public key and the two keys of released data, sealed by what both keys agree on (HKDF-SHA256, salted by the
//! nonce). Every later frame is sealed by AES-256-GCM under the key of its direction and its place, counted from 0.

use std::io::{ErrorKind, Read, Write};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce as Place, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use super::attestation::{Document, Nonce, Refused};

/// What the keys are for: part of what they are derived from.
const PURPOSE: &[u8] = b"fairbell enclave 1";
/// Bytes of a key.
const KEY_LEN: usize = 32;
/// Bytes by which a sealed frame is longer.
const TAG_LEN: usize = 16;
/// Longest frame.
pub(super) const FRAME_MAX: usize = 1 << 20;

/// Why nothing goes across a boundary any more.
#[derive(Debug)]
pub enum BoundaryError {
    /// The enclave's document is not believed.
    Refused(Refused),
    /// The stream ended.
    Ended,
    /// Nothing came for as long as it may take.
    Silent,
    /// The stream failed.
    Io(std::io::Error),
    /// A frame is too long, or was not sealed by the enclave at its place.
    Forged,
    /// The system gives no randomness.
    Randomness,
}

impl std::fmt::Display for BoundaryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BoundaryError::Refused(why) => write!(f, "{why}"),
            BoundaryError::Ended => f.write_str("the enclave ended"),
            BoundaryError::Silent => f.write_str("the enclave does not answer"),
            BoundaryError::Io(error) => write!(f, "boundary: {error}"),
            BoundaryError::Forged => {
                f.write_str("a frame is too long, or was not sealed by the enclave at its place")
            }
            BoundaryError::Randomness => f.write_str("the system gives no randomness"),
        }
    }
}

impl std::error::Error for BoundaryError {}

impl From<std::io::Error> for BoundaryError {
    fn from(error: std::io::Error) -> BoundaryError {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                BoundaryError::Ended
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => BoundaryError::Silent,
            _ => BoundaryError::Io(error),
        }
    }
}

/// A direction's key, and the place of its next frame.
struct Seal {
    key: LessSafeKey,
    next: u64,
}

impl Seal {
    fn new(key: &[u8]) -> Option<Seal> {
        let key = UnboundKey::new(&AES_256_GCM, key).ok()?;
        Some(Seal { key: LessSafeKey::new(key), next: 0 })
    }

    fn place(&mut self) -> Place {
        let mut place = [0; 12];
        place[4..].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        Place::assume_unique_for_key(place)
    }
}

/// A stream to an enclave that was attested.
pub struct Boundary<S> {
    stream: S,
    down: Seal,
    up: Seal,
    frame: Vec<u8>,
}

impl<S: Read + Write> Boundary<S> {
    /// Asks whoever is behind a stream to attest itself by a nonce, and gives it keys once `admit` believes it.
    ///
    /// # Errors
    /// It is not believed, or the stream ends: it has no key then.
    pub fn open(
        mut stream: S,
        nonce: &Nonce,
        admit: impl FnOnce(&[u8]) -> Result<Document, Refused>,
    ) -> Result<Boundary<S>, BoundaryError> {
        let mut frame = Vec::new();
        write(&mut stream, &mut frame, nonce)?;
        read(&mut stream, &mut frame)?;
        let document = admit(&frame).map_err(BoundaryError::Refused)?;

        let random = SystemRandom::new();
        let unspecified = |_| BoundaryError::Randomness;
        let private = EphemeralPrivateKey::generate(&X25519, &random).map_err(unspecified)?;
        let public = private.compute_public_key().map_err(unspecified)?;
        let mut keys = vec![0; 2 * KEY_LEN];
        random.fill(&mut keys).map_err(unspecified)?;
        let (down, up) = (Seal::new(&keys[..KEY_LEN]), Seal::new(&keys[KEY_LEN..]));
        let (down, up) = (down.ok_or(BoundaryError::Forged)?, up.ok_or(BoundaryError::Forged)?);
        let theirs = UnparsedPublicKey::new(&X25519, &document.public_key);
        let info = [PURPOSE, &document.public_key, public.as_ref()];
        let wrap = |shared: &[u8]| -> Option<Seal> {
            let mut key = [0; KEY_LEN];
            let derived = Salt::new(HKDF_SHA256, nonce).extract(shared);
            derived.expand(&info, HKDF_SHA256).ok()?.fill(&mut key).ok()?;
            Seal::new(&key)
        };
        // A key that agrees on nothing (RFC 7748, section 6.1) is none.
        let wrap = agree_ephemeral(private, &theirs, wrap).ok().flatten();
        let mut wrap = wrap.ok_or(BoundaryError::Refused(Refused::PublicKey))?;
        let place = wrap.place();
        let sealed = wrap.key.seal_in_place_append_tag(place, Aad::empty(), &mut keys);
        sealed.map_err(|_| BoundaryError::Forged)?;
        let given = [public.as_ref(), &keys].concat();
        write(&mut stream, &mut frame, &given)?;
        Ok(Boundary { stream, down, up, frame })
    }

    /// Sends bytes to the enclave, sealed.
    ///
    /// # Errors
    /// The stream ends.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), BoundaryError> {
        let len = (bytes.len() + TAG_LEN) as u32;
        self.frame.clear();
        self.frame.extend_from_slice(&len.to_le_bytes());
        self.frame.extend_from_slice(bytes);
        let place = self.down.place();
        let plain = &mut self.frame[4..];
        let tag = self.down.key.seal_in_place_separate_tag(place, Aad::empty(), plain);
        let tag = tag.map_err(|_| BoundaryError::Forged)?;
        self.frame.extend_from_slice(tag.as_ref());
        Ok(self.stream.write_all(&self.frame)?)
    }

    /// What the enclave sent next.
    ///
    /// # Errors
    /// Nothing comes, the stream ends, or the enclave has not sealed it.
    pub fn receive(&mut self) -> Result<&[u8], BoundaryError> {
        read(&mut self.stream, &mut self.frame)?;
        let place = self.up.place();
        let opened = self.up.key.open_in_place(place, Aad::empty(), &mut self.frame);
        opened.map(|plain| &*plain).map_err(|_| BoundaryError::Forged)
    }
}

fn write(to: &mut impl Write, frame: &mut Vec<u8>, bytes: &[u8]) -> Result<(), BoundaryError> {
    frame.clear();
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    Ok(to.write_all(frame)?)
}

fn read(from: &mut impl Read, frame: &mut Vec<u8>) -> Result<(), BoundaryError> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > FRAME_MAX {
        return Err(BoundaryError::Forged);
    }
    frame.resize(len, 0);
    Ok(from.read_exact(frame)?)
}
