//! Who may do what: keys, signatures, timestamps, scopes, credits.
//!
//! The signature is the hexadecimal HMAC-SHA256, under the key's secret, of
//! `timestamp + nonce + method + path + body`: timestamp in milliseconds since the epoch as in
//! FB-TIMESTAMP, nonce as in FB-NONCE (empty without it), method in capitals, path with its query. A
//! request counts once: what has the same signature as one of the last ten seconds is refused.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::credits::{Bucket, SAVED_S};
use crate::error::ApiError;

/// How far a timestamp may be off, ms.
pub const WINDOW_MS: u64 = 5_000;
/// Signatures of a key that are remembered at a time.
const SEEN_MAX: usize = 16_384;
/// Longest nonce, bytes.
const NONCE_MAX: usize = 64;
/// How long a WebSocket token counts, ms.
pub const TOKEN_MS: u64 = 30_000;
/// Tokens of a key that are not used yet, at most.
const TOKENS_MAX: usize = 64;

/// What a key may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Ask for the account's own orders, positions and fills.
    Read,
    /// Enter, replace and cancel orders.
    Trade,
    /// Ask a sandbox for faults.
    Sandbox,
    /// Steer the exchange, as its operators do.
    Operate,
}

/// An API key, as configured.
#[derive(Clone, Debug)]
pub struct Key {
    /// What names it.
    pub name: String,
    /// The secret of its signatures.
    pub secret: String,
    /// Which account it is of: place in the node's list.
    pub account: usize,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Addresses it may be used from; empty: any.
    pub addresses: Vec<IpAddr>,
    /// When it ends, ms since the epoch; 0: never.
    pub expires_ms: u64,
    /// Credits that come back in a second; a request costs one.
    pub credits_per_s: u32,
}

/// The signed parts of a request.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// FB-KEY.
    pub key: &'a str,
    /// FB-TIMESTAMP.
    pub timestamp: &'a str,
    /// FB-NONCE; empty without it.
    pub nonce: &'a str,
    /// FB-SIGN.
    pub signature: &'a str,
    /// The method in capitals.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// Whom a request is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// The key.
    pub key: Arc<str>,
    /// Place of the account in the node's list.
    pub account: usize,
    /// What the key has left.
    pub credits: Credits,
    /// It may trade.
    pub trades: bool,
}

/// Credits of a key: requests that it may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Credits {
    /// Left now.
    pub left: u32,
    /// At most.
    pub limit: u32,
    /// That come back in a second.
    pub per_s: u32,
}

struct Known {
    key: Key,
    hmac: hmac::Key,
    /// Signatures and when they came, oldest first.
    seen: VecDeque<(u64, [u8; 32])>,
    /// The same signatures.
    seen_set: HashSet<[u8; 32]>,
    credits: Bucket,
    /// WebSocket tokens that are not used yet, and until when they count.
    tokens: VecDeque<([u8; 32], u64)>,
}

impl Known {
    /// Takes credits for a request, if there are as many.
    fn charge(&mut self, now_ms: u64, cost: u32) -> Result<Credits, ApiError> {
        let taken = self.credits.take(self.key.credits_per_s, now_ms, cost);
        taken.map(|left| self.told(left)).map_err(|left| {
            let credits @ Credits { left, per_s, .. } = self.told(left);
            let why = format!(
                "the key has {left} credits left and this costs {cost}; {per_s} come back in a second"
            );
            ApiError::new("too_many_requests", why).of_key(credits)
        })
    }

    /// What it has left now.
    fn left(&self, now_ms: u64) -> Credits {
        self.told(self.credits.thousandths(self.key.credits_per_s, now_ms))
    }

    /// Its credits where so many thousandths of one are left.
    fn told(&self, thousandths: i64) -> Credits {
        let per_s = self.key.credits_per_s;
        let left = u32::try_from(thousandths.max(0) / 1_000).unwrap_or(u32::MAX);
        let limit = u32::try_from(u64::from(per_s) * SAVED_S).unwrap_or(u32::MAX);
        Credits { left, limit, per_s }
    }

    /// Whether the key may be used now, from there, for this.
    fn may(&self, now_ms: u64, from: IpAddr, scope: Scope) -> Result<(), ApiError> {
        let key = &self.key;
        if key.expires_ms != 0 && now_ms >= key.expires_ms {
            return Err(ApiError::new("key_expired", "the key is past its end"));
        }
        if !key.addresses.is_empty() && !key.addresses.contains(&from.to_canonical()) {
            let why = format!("the key may not be used from {from}");
            return Err(ApiError::new("wrong_address", why));
        }
        if !key.scopes.contains(&scope) {
            let why = format!("the key lacks the scope {scope:?}").to_lowercase();
            return Err(ApiError::new("wrong_scope", why));
        }
        Ok(())
    }

    /// Whether a request of this signature, which is right, may do this now; then it costs a credit.
    fn judge(
        &mut self,
        now_ms: u64,
        from: IpAddr,
        (timestamp, tag): (&str, [u8; 32]),
        scope: Scope,
    ) -> Result<Admitted, ApiError> {
        let at_ms: Option<u64> = timestamp.parse().ok();
        let off = at_ms.is_none_or(|at| at.abs_diff(now_ms) > WINDOW_MS);
        if off {
            let why = format!("FB-TIMESTAMP is not within {WINDOW_MS} ms of {now_ms}");
            return Err(ApiError::new("late_timestamp", why));
        }
        self.may(now_ms, from, scope)?;
        // A signature is late by itself after twice the window.
        while self.seen.front().is_some_and(|(at, _)| now_ms.abs_diff(*at) > 2 * WINDOW_MS) {
            let Some((_, seen)) = self.seen.pop_front() else { break };
            self.seen_set.remove(&seen);
        }
        if self.seen_set.contains(&tag) {
            return Err(ApiError::new("replayed", "this very request has come before"));
        }
        if self.seen.len() >= SEEN_MAX {
            let why = "more requests within ten seconds than are remembered";
            return Err(ApiError::new("too_many_requests", why));
        }
        let credits = self.charge(now_ms, 1)?;
        self.seen.push_back((now_ms, tag));
        self.seen_set.insert(tag);
        Ok(self.admitted(credits))
    }

    fn admitted(&self, credits: Credits) -> Admitted {
        Admitted {
            key: self.key.name.as_str().into(),
            account: self.key.account,
            credits,
            trades: self.key.scopes.contains(&Scope::Trade),
        }
    }
}

/// All keys.
pub struct Keys {
    known: HashMap<String, Known>,
}

impl Keys {
    /// These keys; of two with one name the last counts.
    pub fn new(keys: Vec<Key>) -> Keys {
        let known = keys.into_iter().map(|key| {
            let hmac = hmac::Key::new(hmac::HMAC_SHA256, key.secret.as_bytes());
            let credits = Bucket::full(key.credits_per_s, 0);
            let (seen, tokens) = (VecDeque::new(), VecDeque::new());
            let known = Known { key, hmac, seen, seen_set: HashSet::new(), credits, tokens };
            (known.key.name.clone(), known)
        });
        Keys { known: known.collect() }
    }

    /// Whether a request is who it says and may do this; it costs a credit if its signature is right.
    ///
    /// # Errors
    /// The refusal. Wrong keys and signatures cost nobody anything.
    pub fn check(
        &mut self,
        now_ms: u64,
        from: IpAddr,
        signed: &Signed<'_>,
        scope: Scope,
    ) -> Result<Admitted, ApiError> {
        let unknown = || ApiError::new("unknown_key", "there is no such key");
        let known = self.known.get_mut(signed.key).ok_or_else(unknown)?;
        if signed.nonce.len() > NONCE_MAX {
            return Err(ApiError::new("bad_field", format!("FB-NONCE: at most {NONCE_MAX} bytes")));
        }
        let wrong = || {
            let form = "HMAC-SHA256 of timestamp + nonce + method + path + body, in hexadecimal";
            ApiError::new("bad_signature", format!("the signature is not the {form}"))
        };
        let tag = unhex(signed.signature).ok_or_else(wrong)?;
        let mut text = [signed.timestamp, signed.nonce, signed.method, signed.path].concat();
        // Nothing of the body has to be text.
        let mut signed_bytes = std::mem::take(&mut text).into_bytes();
        signed_bytes.extend_from_slice(signed.body);
        hmac::verify(&known.hmac, &signed_bytes, &tag).map_err(|_| wrong())?;
        // From here on it is the key that asks: refusals tell what it has left.
        let judged = known.judge(now_ms, from, (signed.timestamp, tag), scope);
        judged.map_err(|refused| refused.of_key(known.left(now_ms)))
    }

    /// What a key has left after a request that is not signed by itself, as those of a WebSocket.
    ///
    /// # Errors
    /// The key may not trade any more, or not so much now.
    pub fn charge(
        &mut self,
        now_ms: u64,
        (key, from): (&str, IpAddr),
        (scope, cost): (Scope, u32),
    ) -> Result<Credits, ApiError> {
        let unknown = || ApiError::new("unknown_key", "there is no such key");
        let known = self.known.get_mut(key).ok_or_else(unknown)?;
        known.may(now_ms, from, scope)?;
        known.charge(now_ms, cost)
    }

    /// A token with which a WebSocket may prove a key once, and until when, ms since the epoch.
    ///
    /// # Errors
    /// Too many of its tokens are not used yet, or there is no randomness.
    pub fn token(&mut self, now_ms: u64, key: &str) -> Result<(String, u64), ApiError> {
        let unknown = || ApiError::new("unknown_key", "there is no such key");
        let known = self.known.get_mut(key).ok_or_else(unknown)?;
        while known.tokens.front().is_some_and(|(_, until)| *until <= now_ms) {
            known.tokens.pop_front();
        }
        if known.tokens.len() >= TOKENS_MAX {
            let why = format!("{TOKENS_MAX} tokens of the key are not used yet");
            return Err(ApiError::new("too_many_requests", why));
        }
        let mut token = [0; 32];
        let none = |_| ApiError::new("busy", "there is no randomness for a token");
        SystemRandom::new().fill(&mut token).map_err(none)?;
        let until = now_ms.saturating_add(TOKEN_MS);
        known.tokens.push_back((token, until));
        // The name of the key goes along, so that finding it needs no search of all tokens.
        Ok((format!("{}.{key}", hex(&token)), until))
    }

    /// Takes a token of [`Keys::token`].
    ///
    /// # Errors
    /// It is none, was used, is late, or its key may not be used from there.
    pub fn redeem(&mut self, now_ms: u64, from: IpAddr, token: &str) -> Result<Admitted, ApiError> {
        let wrong =
            || ApiError::new("bad_token", "no token of POST /v1/ws_token that is still good");
        let (secret, key) = token.split_once('.').ok_or_else(wrong)?;
        let known = self.known.get_mut(key).ok_or_else(wrong)?;
        let secret = unhex(secret).ok_or_else(wrong)?;
        // 256 random bits, used once: how long the comparison takes helps nobody.
        let place = known.tokens.iter().position(|(own, _)| *own == secret).ok_or_else(wrong)?;
        let (_, until) = known.tokens.remove(place).ok_or_else(wrong)?;
        if until <= now_ms {
            return Err(wrong());
        }
        known.may(now_ms, from, Scope::Read)?;
        let credits = known.charge(now_ms, 0)?;
        Ok(known.admitted(credits))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 64 hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let digit = |of: u8| char::from(of).to_digit(16);
        *byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    }
    Some(bytes)
}

/// The signature of a request, for clients and tests.
pub fn sign(secret: &str, timestamp: &str, nonce: &str, rest: (&str, &str, &[u8])) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let (method, path, body) = rest;
    let mut text = [timestamp, nonce, method, path].concat().into_bytes();
    text.extend_from_slice(body);
    hex(hmac::sign(&key, &text).as_ref())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_790_000_000_000;
    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn keys() -> Keys {
        let key = Key {
            name: "k".into(),
            secret: "s".into(),
            account: 3,
            scopes: vec![Scope::Read],
            addresses: vec![],
            expires_ms: 0,
            credits_per_s: 2,
        };
        let bound = Key {
            name: "bound".into(),
            addresses: vec!["10.0.0.1".parse().expect("an address")],
            scopes: vec![Scope::Read, Scope::Trade],
            expires_ms: NOW + 1_000,
            ..key.clone()
        };
        Keys::new(vec![key, bound])
    }

    struct Case {
        key: &'static str,
        at: u64,
        nonce: String,
        body: &'static [u8],
        scope: Scope,
        from: IpAddr,
    }

    const PLAIN: Case = Case {
        key: "k",
        at: NOW,
        nonce: String::new(),
        body: b"{}",
        scope: Scope::Read,
        from: HOME,
    };

    fn checked(keys: &mut Keys, case: &Case, tamper: impl FnOnce(&mut String)) -> String {
        let timestamp = case.at.to_string();
        let mut signature = sign("s", &timestamp, &case.nonce, ("POST", "/v1/x?a=b", case.body));
        tamper(&mut signature);
        let signed = Signed {
            key: case.key,
            timestamp: &timestamp,
            nonce: &case.nonce,
            signature: &signature,
            method: "POST",
            path: "/v1/x?a=b",
            body: case.body,
        };
        match keys.check(NOW, case.from, &signed, case.scope) {
            Ok(admitted) => format!("account {}", admitted.account),
            Err(refused) => refused.code.to_string(),
        }
    }

    #[test]
    fn a_signed_request_is_admitted_once() {
        let mut keys = keys();
        assert_eq!(checked(&mut keys, &PLAIN, |_| ()), "account 3");
        assert_eq!(checked(&mut keys, &PLAIN, |_| ()), "replayed");
        let other = Case { nonce: "2".into(), ..PLAIN };
        assert_eq!(checked(&mut keys, &other, |_| ()), "account 3");
    }

    #[test]
    fn each_mistake_has_its_code() {
        let mut keys = keys();
        for (case, code) in [
            (Case { key: "x", ..PLAIN }, "unknown_key"),
            (Case { at: NOW - WINDOW_MS - 1, ..PLAIN }, "late_timestamp"),
            (Case { at: NOW + WINDOW_MS + 1, ..PLAIN }, "late_timestamp"),
            (Case { scope: Scope::Trade, ..PLAIN }, "wrong_scope"),
            (Case { key: "bound", ..PLAIN }, "wrong_address"),
            (Case { nonce: "n".repeat(65), ..PLAIN }, "bad_field"),
        ] {
            assert_eq!(checked(&mut keys, &case, |_| ()), code);
        }
        assert_eq!(checked(&mut keys, &PLAIN, |text| text.truncate(63)), "bad_signature");
        assert_eq!(
            checked(&mut keys, &PLAIN, |text| text.replace_range(0..1, "é")),
            "bad_signature"
        );
        let flip = |text: &mut String| {
            let first = if text.starts_with('0') { "1" } else { "0" };
            text.replace_range(0..1, first);
        };
        assert_eq!(checked(&mut keys, &PLAIN, flip), "bad_signature");
        let away = "10.0.0.1".parse().expect("an address");
        let bound = Case { key: "bound", from: away, scope: Scope::Trade, ..PLAIN };
        assert_eq!(checked(&mut keys, &bound, |_| ()), "account 3");
    }

    #[test]
    fn credits_come_back() {
        let mut keys = keys();
        let mut ask = |n: u32| checked(&mut keys, &Case { nonce: n.to_string(), ..PLAIN }, |_| ());
        assert!((0..4).all(|n| ask(n) == "account 3"));
        assert_eq!(ask(9), "too_many_requests");
        let timestamp = (NOW + 600).to_string();
        let signature = sign("s", &timestamp, "", ("GET", "/", b""));
        let signed = Signed {
            key: "k",
            timestamp: &timestamp,
            nonce: "",
            signature: &signature,
            method: "GET",
            path: "/",
            body: b"",
        };
        assert!(keys.check(NOW + 600, HOME, &signed, Scope::Read).is_ok());
    }

    #[test]
    fn a_token_counts_once_and_not_for_long() {
        let mut keys = keys();
        let (token, until) = keys.token(NOW, "k").expect("a token");
        assert_eq!(until, NOW + TOKEN_MS);
        let admitted = keys.redeem(NOW + 1, HOME, &token).expect("good");
        assert_eq!((admitted.account, &*admitted.key, admitted.trades), (3, "k", false));
        let code = |of: Result<Admitted, ApiError>| of.expect_err("refused").code;
        assert_eq!(code(keys.redeem(NOW + 1, HOME, &token)), "bad_token", "once");
        let (late, _) = keys.token(NOW, "k").expect("a token");
        assert_eq!(code(keys.redeem(NOW + TOKEN_MS, HOME, &late)), "bad_token");
        let (bound, _) = keys.token(NOW, "bound").expect("a token");
        assert_eq!(code(keys.redeem(NOW, HOME, &bound)), "wrong_address");
        let stolen = bound.replace(".bound", ".k");
        assert_eq!(code(keys.redeem(NOW, HOME, &stolen)), "bad_token");
        for nonsense in ["", ".", "k", "00.k", "é.k"] {
            assert_eq!(code(keys.redeem(NOW, HOME, nonsense)), "bad_token", "{nonsense}");
        }
        assert_eq!((0..99).filter(|_| keys.token(NOW, "k").is_ok()).count(), TOKENS_MAX);
        assert!(keys.token(NOW + TOKEN_MS, "k").is_ok(), "the old ones are forgotten");
    }

    #[test]
    fn what_is_not_signed_by_itself_costs_as_much() {
        let mut keys = keys();
        let mut charge = |at, cost| keys.charge(at, ("k", HOME), (Scope::Read, cost));
        let full = charge(NOW, 0).expect("free");
        assert_eq!(full, Credits { left: 4, limit: 4, per_s: 2 });
        assert_eq!(charge(NOW, 3).expect("enough").left, 1);
        assert_eq!(charge(NOW, 2).expect_err("too much").code, "too_many_requests");
        assert_eq!(charge(NOW + 500, 2).expect("one has come back").left, 0);
        assert_eq!(
            keys.charge(NOW, ("k", HOME), (Scope::Trade, 1)).unwrap_err().code,
            "wrong_scope"
        );
    }

    proptest! {
        #[test]
        fn whatever_comes_is_refused_without_a_panic(
            key in "[kx]", timestamp in ".{0,20}", nonce in ".{0,70}", signature in ".{0,70}",
            path in ".{0,30}", body in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let signed = Signed {
                key: &key, timestamp: &timestamp, nonce: &nonce, signature: &signature,
                method: "GET", path: &path, body: &body,
            };
            prop_assert!(keys().check(NOW, HOME, &signed, Scope::Read).is_err());
        }
    }
}
