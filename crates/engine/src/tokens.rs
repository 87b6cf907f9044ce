//! One-time tokens by which machines of a venue get their certificates, as the log knows them.
//!
//! A node has one at most: the digest of its secret, until when it is good, and the digest of the public
//! key that it was used for. It is good for one key alone, so whoever asks again for the same key, of
//! another leader even, gets the same certificate's generation, and nobody else gets one.

use types::{Command, CommandKind, Digest, Nanos, NodeAction, Price, Qty, UserRefNum};

use crate::codec::{Reader, SnapshotError, Writer};

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JoinToken {
    /// Of its secret: 16 bytes that nobody can find another secret for.
    pub digest: [u64; 2],
    /// It is good before this time, ns since 1970.
    pub ends: Nanos,
    /// Of the public key that it was used for; zeros: it was not used.
    pub key: [u64; 2],
}

impl JoinToken {
    /// The command that gives node `number` a token.
    pub fn grant(number: u32, digest: [u64; 2], ends: Nanos) -> Command {
        Command {
            param: NodeAction::GrantToken as u8,
            orig_user_ref: UserRefNum(number),
            qty: Qty(digest[0]),
            price: Price(digest[1] as i64),
            expire_at: ends,
            ..Command::new(CommandKind::SetNode)
        }
    }

    /// The command that uses node `number`'s token up for a public key. `generation`: the newest
    /// certificate that is known otherwise.
    pub fn use_up(number: u32, digest: [u64; 2], key: [u64; 2], generation: u32) -> Command {
        Command {
            param: NodeAction::UseToken as u8,
            orig_user_ref: UserRefNum(number),
            user_ref: UserRefNum(generation),
            qty: Qty(digest[0]),
            price: Price(digest[1] as i64),
            stop_price: Price(key[0] as i64),
            expire_at: Nanos(key[1]),
            ..Command::new(CommandKind::SetNode)
        }
    }

    /// Whether it was used.
    pub fn is_used(&self) -> bool {
        self.key != [0; 2]
    }

    /// The token that a command gives, unless it is over already or none.
    pub(crate) fn granted(command: &Command, now: Nanos) -> Option<JoinToken> {
        let digest = [command.qty.0, command.price.0 as u64];
        let good = digest != [0; 2] && command.expire_at > now;
        good.then_some(JoinToken { digest, ends: command.expire_at, key: [0; 2] })
    }

    /// As it is after a command that uses it up, if it is the one that is meant, and good.
    pub(crate) fn used(self, command: &Command, now: Nanos) -> Option<JoinToken> {
        let digest = [command.qty.0, command.price.0 as u64];
        let key = [command.stop_price.0 as u64, command.expire_at.0];
        let good = digest == self.digest && key != [0; 2] && now < self.ends && !self.is_used();
        good.then_some(JoinToken { key, ..self })
    }

    fn words(&self) -> [u64; 5] {
        [self.digest[0], self.digest[1], self.ends.0, self.key[0], self.key[1]]
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.words().into_iter().for_each(|word| out.u64(word));
    }

    pub(crate) fn read(from: &mut Reader) -> Result<JoinToken, SnapshotError> {
        let digest = [from.u64()?, from.u64()?];
        Ok(JoinToken { digest, ends: Nanos(from.u64()?), key: [from.u64()?, from.u64()?] })
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        self.words().into_iter().for_each(|word| digest.fold(word));
    }
}
