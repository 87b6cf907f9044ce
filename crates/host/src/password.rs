//! Passwords and their hashes: Argon2id (RFC 9106) in the PHC string format.
//!
//! A hash costs milliseconds and megabytes by design, so no loop computes one: `fairbell up` has a
//! thread for it. What one may cost is bounded, because a configuration is read before it is known
//! to be sound.

use std::cell::RefCell;

use argon2::password_hash::{Output, PasswordHash, PasswordHasher, Salt, SaltString};
use argon2::{Algorithm, Argon2, Block, Params, Version};

use crate::failure::Failure;

/// Memory of a hash we make, KiB, and passes over it: the second choice of RFC 9106 with less
/// memory, as common guidance for servers has it (19 MiB, 2 passes, 1 lane).
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
/// Most that a hash in a configuration may cost.
const MEMORY_KIB_MAX: u32 = 262_144;
const PASSES_MAX: u32 = 10;
/// Longest password of SoupBinTCP; FIX has none, and is held to the same.
pub const PASSWORD_MAX: usize = 10;

/// Whether a hash is one that we verify; else why not.
///
/// # Errors
/// What is wrong, for people.
pub fn parse(hash: &str) -> Result<PasswordHash<'_>, String> {
    let bad = |why: String| format!("{why}; make one with fairbell hash-password");
    let parsed = PasswordHash::new(hash).map_err(|error| bad(format!("is no hash ({error})")))?;
    if Algorithm::try_from(parsed.algorithm) != Ok(Algorithm::Argon2id) {
        return Err(bad(format!("must be argon2id, is {}", parsed.algorithm)));
    }
    let params = Params::try_from(&parsed).map_err(|error| bad(error.to_string()))?;
    if parsed.hash.is_none() || parsed.salt.is_none() {
        return Err(bad("has no salt or no hash".to_string()));
    }
    let dear = params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX;
    if dear || params.p_cost() > 4 {
        let most = format!("m={MEMORY_KIB_MAX}, t={PASSES_MAX}, p=4");
        return Err(bad(format!("costs more than {most}")));
    }
    Ok(parsed)
}

thread_local! {
    /// Memory that hashes of this thread are computed in, kept: fresh megabytes for every guess of a
    /// stranger would cost page faults and leave the heap in pieces.
    static BLOCKS: RefCell<Vec<Block>> = const { RefCell::new(Vec::new()) };
}

/// Whether `password` is what `hash` was made of.
pub fn verify(hash: &str, password: &[u8]) -> bool {
    parse(hash)
        .is_ok_and(|parsed| compute(&parsed, password).is_some_and(|it| Some(it) == parsed.hash))
}

/// The hash of `password` with the salt and the price of another one; equality of the two takes the
/// same time whatever they are.
fn compute(like: &PasswordHash<'_>, password: &[u8]) -> Option<Output> {
    let mut salt = [0; Salt::MAX_LENGTH];
    let salt = like.salt?.decode_b64(&mut salt).ok()?;
    let version = like.version.map_or(Ok(Version::V0x13), Version::try_from).ok()?;
    let params = Params::try_from(like).ok()?;
    let blocks = params.block_count();
    let argon2 = Argon2::new(Algorithm::Argon2id, version, params);
    Output::init_with(like.hash?.len(), |out| {
        BLOCKS.with_borrow_mut(|memory| {
            memory.resize(blocks, Block::default());
            let computed = argon2.hash_password_into_with_memory(password, salt, out, memory);
            Ok(computed?)
        })
    })
    .ok()
}

/// A hash of `password` with a fresh salt.
///
/// # Errors
/// When the machine has no randomness.
pub fn hash(password: &[u8]) -> Result<String, Failure> {
    let failed = |why: String| Failure::Run(format!("hashing: {why}"));
    let secret = exchange::Secret::random().ok_or_else(|| failed("no randomness".to_string()))?;
    let salt = SaltString::encode_b64(secret.0.get(..16).unwrap_or(&[]));
    let salt = salt.map_err(|error| failed(error.to_string()))?;
    let params = Params::new(MEMORY_KIB, PASSES, 1, None);
    let params = params.map_err(|error| failed(error.to_string()))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password(password, &salt).map_err(|error| failed(error.to_string()))?;
    Ok(hash.to_string())
}

/// A gateway's job answered: see [`exchange::decode_work`].
pub fn work(job: &[u8]) -> Vec<u8> {
    let right = exchange::decode_work(job).is_some_and(|(hash, password)| {
        std::str::from_utf8(hash).is_ok_and(|hash| verify(hash, password))
    });
    vec![right.into()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hash_knows_its_password_alone_and_no_two_are_alike() {
        let (one, two) = (hash(b"secret").expect("hashed"), hash(b"secret").expect("hashed"));
        assert!(one != two && one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        assert!(verify(&one, b"secret") && verify(&two, b"secret"));
        assert!(!verify(&one, b"Secret") && !verify(&one, b""));
        let mut job = (one.len() as u16).to_be_bytes().to_vec();
        job.extend_from_slice(one.as_bytes());
        assert_eq!((work(&[&job[..], b"secret"].concat()), work(&job)), (vec![1], vec![0]));
    }

    #[test]
    fn hashes_of_another_kind_or_price_are_refused_with_the_reason() {
        let salt_and_hash = "$c29tZXNhbHRzb21lc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let cases = [
            ("secret".to_string(), "is no hash"),
            (format!("$argon2i$v=19$m=19456,t=2,p=1{salt_and_hash}"), "must be argon2id"),
            (format!("$argon2id$v=19$m=4000000,t=2,p=1{salt_and_hash}"), "costs more"),
            (format!("$argon2id$v=19$m=19456,t=99,p=1{salt_and_hash}"), "costs more"),
            ("$argon2id$v=19$m=19456,t=2,p=1".to_string(), "no salt"),
        ];
        for (hash, expected) in cases {
            let complaint = parse(&hash).expect_err(&hash);
            assert!(complaint.contains(expected), "{hash}: {complaint}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_hashes_and_jobs_never_panic(text in ".{0,80}", job: Vec<u8>) {
            let _ = parse(&text);
            prop_assert_eq!(work(&job).len(), 1);
        }
    }
}
