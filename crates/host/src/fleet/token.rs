//! A one-time token: what a machine needs to ask the roots for its certificate, as a line of text.
//!
//! It has the number of the node, the fingerprint of the cluster's authority, so that nobody else is
//! believed, what opens the roots' doors for a request of that number and nothing else, and a secret. The
//! roots' log has the digest of the secret alone ([`engine::JoinToken`]).
//!
//! ```text
//! fairbell-join-1-HEX     number 2 bytes, fingerprint 32, gate's key 32, secret 16, check 4
//! ```

use std::time::Duration;

use probe::Key;

use super::client::Identity;
use super::credentials::bytes_of;
use super::messages::Operation;
use crate::failure::Failure;

/// What a token begins with.
const HEAD: &str = "fairbell-join-1-";
/// Bytes of a token.
const LEN: usize = 2 + 32 + 32 + 16 + 4;
/// At the gate a machine that asks for its certificate has its number and this; numbers of nodes are below.
pub const JOINING: u16 = 0x8000;

const _: () = assert!(engine::NODES_MAX < JOINING as usize, "no node has such a number");

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Number of the node that it is for.
    pub number: u16,
    /// SHA-256 of the authority's certificate (DER).
    pub authority: [u8; 32],
    /// What [`JOINING`] and the number prove themselves with at the roots' doors.
    pub gate: [u8; 32],
    /// What nobody else knows.
    pub secret: [u8; 16],
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Token({}, ..)", self.number)
    }
}

/// The first bytes of a HMAC-SHA256 whose key everybody knows: a digest for one purpose.
fn digest<const N: usize>(purpose: &[u8], of: &[u8]) -> [u8; N] {
    let key = Key::new(b"fairbell join token").expect("it is long enough");
    key.tag(&[purpose, of])
}

fn words(bytes: [u8; 16]) -> [u64; 2] {
    let word = |at: usize| bytes.iter().skip(at).take(8).fold(0, |sum, b| sum << 8 | u64::from(*b));
    [word(0), word(8)]
}

/// What the log has of a secret.
pub fn secret_digest(secret: &[u8; 16]) -> [u64; 2] {
    words(digest(b"secret ", secret))
}

/// What the log has of the public key that a token was used for.
pub fn key_digest(public: &[u8]) -> [u64; 2] {
    words(digest(b"key ", public))
}

/// Has the roots give a node a token that is good for so long; the token, and until when, ns since 1970.
/// The secret is drawn here: the roots hear of its digest until the token is used.
///
/// # Errors
/// Why the roots don't; no root answers within `patience`.
pub fn grant(
    operator: &Identity,
    node: &str,
    valid: Duration,
    patience: Duration,
) -> Result<(Token, u64), Failure> {
    let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
    let secret: [u8; 16] = *random.first_chunk().expect("32 bytes have 16");
    let digest: Vec<u8> =
        secret_digest(&secret).iter().flat_map(|word| word.to_be_bytes()).collect();
    let (node, digest) = (node.to_string(), crate::tls::hex(&digest));
    let operation = Operation::Token { node, digest, valid_s: valid.as_secs() };
    let (_, data) = operator.operate(&operation, patience)?;
    let strange = || Failure::Run("the roots answer strangely".to_string());
    let number = data["number"].as_u64().and_then(|number| u16::try_from(number).ok());
    let gate = data["gate"].as_str().and_then(bytes_of).and_then(|gate| gate.try_into().ok());
    let authority = net::Identity::fingerprint(operator.credentials.authority().as_bytes());
    let authority = authority.map_err(|error| Failure::Usage(error.to_string()))?;
    let (number, gate) = number.zip(gate).ok_or_else(strange)?;
    let ends = data["ends_ns"].as_u64().ok_or_else(strange)?;
    Ok((Token { number, authority, gate, secret }, ends))
}

/// A time, ns since 1970, as people write it: to the second, UTC.
pub fn time_text(ns: u64) -> String {
    let seconds = i64::try_from(ns / types::Nanos::SECOND).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "?".to_string(), |at| at.to_string())
}

impl Token {
    /// As a line of text.
    pub fn text(&self) -> String {
        let mut bytes = self.number.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.authority);
        bytes.extend_from_slice(&self.gate);
        bytes.extend_from_slice(&self.secret);
        let check: [u8; 4] = digest(b"check ", &bytes);
        bytes.extend_from_slice(&check);
        HEAD.to_string() + &crate::tls::hex(&bytes)
    }

    /// The token that a line of text is; white space around it counts nothing.
    ///
    /// # Errors
    /// What is none, and what may have become of it.
    pub fn parse(text: &str) -> Result<Token, Failure> {
        let wrong = |why: &str| Failure::Usage(format!("--token: {why}"));
        let digits = text.trim().strip_prefix(HEAD);
        let digits = digits.ok_or_else(|| wrong("a token begins with fairbell-join-1-"))?;
        let bytes = bytes_of(digits).and_then(|bytes| <[u8; LEN]>::try_from(bytes).ok());
        let cut = "letters are missing or changed: copy the whole line again";
        let bytes = bytes.ok_or_else(|| wrong(cut))?;
        let (body, check) = bytes.split_at(LEN - 4);
        if digest::<4>(b"check ", body) != *check {
            return Err(wrong(cut));
        }
        let mut token = Token { number: 0, authority: [0; 32], gate: [0; 32], secret: [0; 16] };
        let mut number = [0; 2];
        let mut rest = body;
        for part in [&mut number[..], &mut token.authority, &mut token.gate, &mut token.secret] {
            let (own, others) = rest.split_at(part.len());
            part.copy_from_slice(own);
            rest = others;
        }
        token.number = u16::from_be_bytes(number);
        match usize::from(token.number) {
            1..=engine::NODES_MAX => Ok(token),
            _ => Err(wrong("it is for no node that can be")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn token() -> Token {
        Token { number: 3, authority: [7; 32], gate: [9; 32], secret: [0xA5; 16] }
    }

    #[test]
    fn a_token_is_read_as_written_and_a_changed_one_is_refused() {
        let text = token().text();
        assert_eq!(text.len(), HEAD.len() + 2 * LEN);
        assert_eq!(Token::parse(&format!("  {text}\n")).expect("a token"), token());
        assert!(!format!("{:?}", token()).contains("165"), "its secret is not printed");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).expect("ASCII");
            let why = Token::parse(&changed).expect_err("changed").to_string();
            assert!(why.starts_with("--token: ") && why.lines().count() == 1, "{why}");
            assert!(Token::parse(&text[..at]).is_err(), "{at}");
        }
        for number in [0, 1_025, JOINING] {
            assert!(Token::parse(&Token { number, ..token() }.text()).is_err(), "{number}");
        }
    }

    #[test]
    fn digests_are_of_all_bytes_and_of_one_purpose() {
        let secret = token().secret;
        assert_ne!(secret_digest(&secret), key_digest(&secret));
        for at in 0..16 {
            let mut other = secret;
            other[at] ^= 1;
            assert_ne!(secret_digest(&secret), secret_digest(&other), "{at}");
        }
        assert_eq!(
            words([0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 4]),
            [258, 0x300_0000_0000_0004]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_read_and_never_panics(
            changes in vec((0usize..200, any::<char>()), 0..6), keep in 0usize..200,
        ) {
            let mut text: Vec<char> = token().text().chars().collect();
            for (at, to) in changes {
                if let Some(place) = text.get_mut(at) {
                    *place = to;
                }
            }
            text.truncate(keep);
            let text: String = text.into_iter().collect();
            let read = Token::parse(&text);
            prop_assert!(read.is_err() || read.ok() == Some(token()));
        }
    }
}
