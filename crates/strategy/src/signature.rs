//! Whose a module is: an Ed25519 signature of its account and its SHA-256.
//!
//! A signature is for one account's module: what is signed names both, so that nobody runs another account's
//! module under its own name, or a changed one. Keys and signatures are written as hexadecimal text.

use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// What every signed text begins with.
const WHAT: &str = "fairbell strategy 1";
/// Bytes of a public key.
const KEY_LEN: usize = 32;
/// Bytes of a signature.
const SIGNATURE_LEN: usize = 64;

/// Why there is no signature, or not a right one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignatureError {
    /// The key is not 64 hexadecimal digits.
    Key,
    /// The signature is not 128 hexadecimal digits.
    Text,
    /// It is of another module, for another account, or by another key.
    Wrong,
    /// The private key is no Ed25519 key in PKCS#8.
    PrivateKey,
    /// The system gives no randomness.
    Randomness,
}

impl std::fmt::Display for SignatureError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SignatureError::Key => "a key has 64 hexadecimal digits",
            SignatureError::Text => "a signature has 128 hexadecimal digits",
            SignatureError::Wrong => {
                "the signature is of another module, for another account, or by another key"
            }
            SignatureError::PrivateKey => "no private key: Ed25519 in PKCS#8, as hexadecimal text",
            SignatureError::Randomness => "the system gives no randomness",
        })
    }
}

impl std::error::Error for SignatureError {}

/// Bytes as hexadecimal text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// SHA-256 of a module, as hexadecimal text.
pub fn digest(module: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, module).as_ref())
}

fn text(account: &str, module: &[u8]) -> Vec<u8> {
    format!("{WHAT}\n{account}\n{}\n", digest(module)).into_bytes()
}

/// A new private key, and its public key, both as text.
///
/// # Errors
/// The system gives no randomness.
pub fn new_key() -> Result<(String, String), SignatureError> {
    let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    let private = made.map_err(|_| SignatureError::Randomness)?;
    let private = hex(private.as_ref());
    let public = public_key(&private)?;
    Ok((private, public))
}

fn pair(private: &str) -> Result<Ed25519KeyPair, SignatureError> {
    let bytes = unhex(private).ok_or(SignatureError::PrivateKey)?;
    Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| SignatureError::PrivateKey)
}

/// The public key of a private one.
///
/// # Errors
/// It is none.
pub fn public_key(private: &str) -> Result<String, SignatureError> {
    Ok(hex(pair(private)?.public_key().as_ref()))
}

/// Whether a text is a public key.
pub fn is_key(key: &str) -> bool {
    unhex(key).is_some_and(|bytes| bytes.len() == KEY_LEN)
}

/// Signs a module for an account.
///
/// # Errors
/// The private key is none.
pub fn sign(private: &str, account: &str, module: &[u8]) -> Result<String, SignatureError> {
    Ok(hex(pair(private)?.sign(&text(account, module)).as_ref()))
}

/// Checks that the holder of `key` has signed this module for this account.
///
/// # Errors
/// What is wrong.
pub fn check(
    key: &str,
    signature: &str,
    account: &str,
    module: &[u8],
) -> Result<(), SignatureError> {
    let key = unhex(key).filter(|bytes| bytes.len() == KEY_LEN).ok_or(SignatureError::Key)?;
    let signature = unhex(signature).filter(|bytes| bytes.len() == SIGNATURE_LEN);
    let signature = signature.ok_or(SignatureError::Text)?;
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(&text(account, module), &signature).map_err(|_| SignatureError::Wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_for_one_account_and_one_module() {
        let (private, public) = new_key().expect("randomness");
        let module = b"a module";
        let signed = sign(&private, "P1", module).expect("a key");
        assert_eq!(check(&public, &signed, "P1", module), Ok(()));
        assert_eq!(check(&public, &format!("{signed}\n"), "P1", module), Ok(()));
        let wrong = Err(SignatureError::Wrong);
        assert_eq!(check(&public, &signed, "P2", module), wrong);
        assert_eq!(check(&public, &signed, "P1", b"a modulf"), wrong);
        let (_, other) = new_key().expect("randomness");
        assert_eq!(check(&other, &signed, "P1", module), wrong);
        assert_eq!(check(&public[2..], &signed, "P1", module), Err(SignatureError::Key));
        assert_eq!(check(&public, &signed[2..], "P1", module), Err(SignatureError::Text));
        assert_eq!(check(&public, "é", "P1", module), Err(SignatureError::Text));
        assert_eq!(sign(&public, "P1", module), Err(SignatureError::PrivateKey));
        assert!(is_key(&public) && !is_key(&private) && !is_key("xyz"));
    }
}
