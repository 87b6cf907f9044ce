//! AES-128-GCM through aws-lc-rs, about 0.1 us for a small datagram.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use types::limits::DATAGRAM_MAX;

use crate::seal::{Aead, NONCE_LEN, TAG_LEN};

/// One key.
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
        let mut sealed = [0; DATAGRAM_MAX];
        let Some(sealed) = sealed.get_mut(..bytes.len()) else { return false };
        sealed.copy_from_slice(bytes);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let aad = Aad::from(associated);
        self.key.open_separate_gather(nonce, aad, sealed, tag, bytes).is_ok()
    }
}
