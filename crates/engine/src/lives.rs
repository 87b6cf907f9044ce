//! Starts of a process, counted: each boot nonce is one life, and no life is given twice.

use types::Digest;

use crate::codec::{Reader, SnapshotError, Writer};

/// Boot nonces remembered, so that one which was long on its way does not look like another start.
const NONCES: usize = 8;

const _: () = assert!(NONCES.is_power_of_two(), "places stay apart when numbers wrap");

/// The lives of one gateway, or of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lives {
    /// The present one; 0: none yet.
    newest: u32,
    /// Nonce of life `n` at `n % NONCES`, for the last few.
    nonces: [u32; NONCES],
}

impl Lives {
    /// The present life; 0: none yet.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// The life that a boot nonce was given, if that is among the last eight.
    pub(crate) fn of(&self, nonce: u32) -> Option<u32> {
        let oldest = self.newest.saturating_sub(NONCES as u32 - 1).max(1);
        (oldest..=self.newest).rev().find(|life| self.nonces[*life as usize % NONCES] == nonce)
    }

    /// The next life, of a nonce that has none; `None` when they are used up.
    pub(crate) fn begin(&mut self, nonce: u32) -> Option<u32> {
        let life = self.newest.checked_add(1)?;
        assert!(life > 0 && life > self.newest, "a new life is later than all before");
        self.newest = life;
        self.nonces[life as usize % NONCES] = nonce;
        Some(life)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.newest);
        self.nonces.iter().for_each(|nonce| out.u32(*nonce));
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Lives, SnapshotError> {
        let mut lives = Lives { newest: from.u32()?, ..Lives::default() };
        for nonce in &mut lives.nonces {
            *nonce = from.u32()?;
        }
        Ok(lives)
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        digest.fold(u64::from(self.newest));
        self.nonces.iter().for_each(|nonce| digest.fold(u64::from(*nonce)));
    }
}
