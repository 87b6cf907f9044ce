//! AES-128-GCM through ring, about 0.1 us for a small datagram.

use ring::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use types::NodeId;

use crate::{
    seal::key_ring::KeyRing,
    seal::lives::{Keys, Life, Scope},
    seal::sealed_link::Fleet,
    seal::{Aead, NONCE_LEN, TAG_LEN},
};

/// The cipher AES-GCM with one key.
pub struct AesGcm {
    key: LessSafeKey,
}

impl AesGcm {
    /// A key from 16 bytes that nobody else can guess; `None` when the cipher can't be set up.
    pub fn new(key: &[u8; 16]) -> Option<AesGcm> {
        let key = UnboundKey::new(&AES_128_GCM, key).ok()?;
        Some(AesGcm { key: LessSafeKey::new(key) })
    }
}

impl Aead for AesGcm {
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(associated), bytes);
        let mut tag = [0; TAG_LEN];
        match sealed {
            Ok(made) => tag.copy_from_slice(made.as_ref()),
            // Only beyond 64 GiB. Nothing may leave in clear.
            Err(_) => bytes.fill(0),
        }
        tag
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(associated));
        self.key.open_in_place_separate_tag(nonce, aad, (*tag).into(), bytes, 0..).is_ok()
    }

    fn open_into(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        (bytes, tag): (&[u8], &[u8; TAG_LEN]),
        into: &mut [u8],
    ) -> bool {
        into.copy_from_slice(bytes);
        self.open(nonce, associated, into, tag)
    }
}

/// Where the keys of a deployment come from: HMAC-SHA256 of what a key is for, under the secret of
/// the deployment. Nobody finds one key from another.
#[derive(Clone)]
pub struct KeySource {
    secret: hmac::Key,
}

impl KeySource {
    /// Keys under `secret`, 32 bytes that nobody else can guess.
    pub fn new(secret: &[u8; 32]) -> KeySource {
        KeySource { secret: hmac::Key::new(hmac::HMAC_SHA256, secret) }
    }

    /// What only the holder of the secret can make of `bytes`: their HMAC-SHA256.
    pub fn tag(&self, bytes: &[u8]) -> [u8; 32] {
        let mut tag = [0; 32];
        tag.copy_from_slice(hmac::sign(&self.secret, bytes).as_ref());
        tag
    }

    /// The ring of a node: what it holds of the secrets that follow from this one.
    pub fn ring(&self, node: NodeId, fleet: &Fleet) -> KeyRing {
        KeyRing::new(node, fleet, |scope| self.secret_of(scope))
    }

    /// The ring of a node among others that all speak with each other: clock agents.
    pub fn mesh(&self, node: NodeId, members: &[NodeId]) -> KeyRing {
        KeyRing::mesh(node, members, |scope| self.secret_of(scope))
    }

    fn secret_of(&self, scope: Scope) -> [u8; 32] {
        self.tag(scope.name(&mut [0; 8]))
    }
}

/// The keys of all nodes, for taps; what a node runs with is its ring.
impl Keys for KeySource {
    type Key = AesGcm;

    fn derive(&self, scope: Scope, name: &[u8]) -> Option<[u8; 32]> {
        Some(KeySource::new(&self.secret_of(scope)).tag(name))
    }

    fn key(&self, bytes: &[u8; 16]) -> Option<AesGcm> {
        AesGcm::new(bytes)
    }
}

impl Keys for KeyRing {
    type Key = AesGcm;

    fn derive(&self, scope: Scope, name: &[u8]) -> Option<[u8; 32]> {
        self.secret(scope).map(|secret| KeySource::new(secret).tag(name))
    }

    fn key(&self, bytes: &[u8; 16]) -> Option<AesGcm> {
        AesGcm::new(bytes)
    }
}

/// A life that was never lived before; `None` when the machine has no randomness.
pub fn random_life() -> Option<Life> {
    let mut life = Life::default();
    SystemRandom::new().fill(&mut life.0).ok()?;
    Some(life)
}

/// 32 bytes that nobody can guess; `None` when the machine has no randomness.
pub fn random_secret() -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).ok()?;
    Some(secret)
}
