//! A program's end of the stream to its host: attestation, the keys of released data, sealed frames.
//!
//! The host's end is in the exchange, and so is what the frames look like.

use std::io::{Error, Read, Result, Write};

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;

const PURPOSE: &[u8] = b"fairbell enclave 1";
const KEY_LEN: usize = 32;
const FRAME_MAX: usize = 1 << 20;

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

    fn place(&mut self) -> Nonce {
        let mut place = [0; 12];
        place[4..].copy_from_slice(&self.next.to_be_bytes());
        self.next += 1;
        Nonce::assume_unique_for_key(place)
    }
}

fn failed(what: &str) -> Error {
    Error::other(what.to_string())
}

/// A stream to the host, once it has given the keys.
pub struct Link<S> {
    stream: S,
    down: Seal,
    up: Seal,
    frame: Vec<u8>,
}

impl<S: Read + Write> Link<S> {
    /// Answers the host's nonce by the document that `attest` gives for it and a public key, and takes the keys.
    ///
    /// # Errors
    /// The stream ends, as it does when the host does not believe the document.
    pub fn open(
        mut stream: S,
        attest: impl FnOnce(&[u8], &[u8]) -> Result<Vec<u8>>,
    ) -> Result<Link<S>> {
        let mut frame = Vec::new();
        read(&mut stream, &mut frame)?;
        let nonce = frame.clone();
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
        let private = private.map_err(|_| failed("no randomness"))?;
        let public = private.compute_public_key().map_err(|_| failed("no key"))?;
        let document = attest(&nonce, public.as_ref())?;
        write(&mut stream, &mut frame, &document)?;

        read(&mut stream, &mut frame)?;
        let (theirs, keys) =
            frame.split_at_mut_checked(KEY_LEN).ok_or_else(|| failed("no keys"))?;
        let info = [PURPOSE, public.as_ref(), theirs];
        let wrap = |shared: &[u8]| -> Option<Seal> {
            let mut key = [0; KEY_LEN];
            let derived = Salt::new(HKDF_SHA256, &nonce).extract(shared);
            derived.expand(&info, HKDF_SHA256).ok()?.fill(&mut key).ok()?;
            Seal::new(&key)
        };
        let wrap = agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, &*theirs), wrap);
        let mut wrap = wrap.ok().flatten().ok_or_else(|| failed("no agreement"))?;
        let place = wrap.place();
        let keys = wrap.key.open_in_place(place, Aad::empty(), keys);
        let keys = keys.map_err(|_| failed("keys for somebody else"))?;
        let (down, up) = keys.split_at_checked(KEY_LEN).ok_or_else(|| failed("no keys"))?;
        let (down, up) = (Seal::new(down), Seal::new(up));
        let (down, up) =
            (down.ok_or_else(|| failed("no key"))?, up.ok_or_else(|| failed("no key"))?);
        Ok(Link { stream, down, up, frame })
    }

    /// What the host sent next.
    ///
    /// # Errors
    /// The stream ends, or the host has not sealed it.
    pub fn receive(&mut self) -> Result<&[u8]> {
        read(&mut self.stream, &mut self.frame)?;
        let place = self.down.place();
        let opened = self.down.key.open_in_place(place, Aad::empty(), &mut self.frame);
        opened.map(|plain| &*plain).map_err(|_| failed("a forged frame"))
    }

    /// Sends bytes to the host, sealed.
    ///
    /// # Errors
    /// The stream ends.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.frame.clear();
        self.frame.extend_from_slice(&[0; 4]);
        self.frame.extend_from_slice(bytes);
        let place = self.up.place();
        let plain = &mut self.frame[4..];
        let tag = self.up.key.seal_in_place_separate_tag(place, Aad::empty(), plain);
        let tag = tag.map_err(|_| failed("too long"))?;
        self.frame.extend_from_slice(tag.as_ref());
        let len = (self.frame.len() - 4) as u32;
        self.frame[..4].copy_from_slice(&len.to_le_bytes());
        self.stream.write_all(&self.frame)
    }
}

/// Writes a frame as it is.
///
/// # Errors
/// The stream ends.
pub fn write(to: &mut impl Write, frame: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    frame.clear();
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    to.write_all(frame)
}

/// Reads a frame as it is.
///
/// # Errors
/// The stream ends, or the frame is too long.
pub fn read(from: &mut impl Read, frame: &mut Vec<u8>) -> Result<()> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len) as usize;
    if len > FRAME_MAX {
        return Err(failed("a frame that is too long"));
    }
    frame.resize(len, 0);
    from.read_exact(frame)
}
