//! A control channel: frames over a byte stream, authenticated both ways with a shared key.
//!
//! The side that accepted sends 32 random bytes; the side that connected answers with 32 of its own
//! and a proof that it knows the key (HMAC-SHA256 over a label and both nonces); the acceptor
//! proves the same. Every frame then carries an HMAC over direction, running number, length and payload
//! under a key derived from the shared one and both nonces, so nothing can be forged, altered,
//! replayed, reordered or reflected. Frames are not encrypted: delays are no secret.
//!
//! Bytes before the proof are bounded by its length, frames by [`FRAME_MAX`]. After an error the
//! link is dead and its caller closes the stream.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Longest payload of a frame, bytes.
pub const FRAME_MAX: usize = 4 << 20;
const NONCE: usize = 32;
const PROOF: usize = 32;
const TAG: usize = 16;
const HEADER: usize = 4 + TAG;

/// The key that controller and agents share.
#[derive(Clone)]
pub struct Key(hmac::Key);

/// The secret for a key was shorter than 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyError;

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the shared key must have at least 16 bytes")
    }
}

impl std::error::Error for KeyError {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// From secret bytes that cannot be guessed.
    ///
    /// # Errors
    /// [`KeyError`] below 16 bytes.
    pub fn new(secret: &[u8]) -> Result<Key, KeyError> {
        if secret.len() < 16 {
            return Err(KeyError);
        }
        Ok(Key(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// A key for one purpose, told by its label and context.
    pub fn derive(&self, label: &[u8], context: &[&[u8]]) -> Key {
        let mut mac = hmac::Context::with_key(&self.0);
        mac.update(label);
        context.iter().for_each(|part| mac.update(part));
        Key(hmac::Key::new(hmac::HMAC_SHA256, mac.sign().as_ref()))
    }

    /// The first bytes of a message's HMAC.
    pub fn tag<const N: usize>(&self, parts: &[&[u8]]) -> [u8; N] {
        let mut mac = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| mac.update(part));
        let mut tag = [0; N];
        for (to, from) in tag.iter_mut().zip(mac.sign().as_ref()) {
            *to = *from;
        }
        tag
    }

    /// Compares a tag without telling by time where it differs.
    pub fn verify(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        let expected: [u8; 32] = self.tag(parts);
        let Some(expected) = expected.get(..tag.len()) else { return false };
        let differ = expected.iter().zip(tag).fold(0, |sum, (a, b)| sum | (a ^ b));
        !tag.is_empty() && std::hint::black_box(differ) == 0
    }
}

/// 32 bytes of the operating system's randomness; `None` when it has none.
pub fn entropy() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Nonces of one node: as unguessable as the seed, never the same twice.
#[derive(Debug)]
pub struct Nonces {
    key: Key,
    next: u64,
}

impl Nonces {
    /// From 32 bytes of the operating system's randomness, fresh for each life of a node.
    pub fn new(entropy: [u8; 32]) -> Nonces {
        Nonces { key: Key(hmac::Key::new(hmac::HMAC_SHA256, &entropy)), next: 0 }
    }

    /// The next nonce: 32 bytes that nobody can guess.
    pub fn draw(&mut self) -> [u8; NONCE] {
        self.next += 1;
        self.key.tag(&[&self.next.to_be_bytes()])
    }

    /// A number that nobody can guess.
    pub fn draw_u64(&mut self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.draw();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Why a link was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkError {
    /// The other side has not proved to know the key.
    Unauthenticated,
    /// A frame was altered, replayed or comes from somebody else.
    Forged,
    /// A frame is longer than [`FRAME_MAX`].
    TooLong,
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkError::Unauthenticated => "the other side does not know the shared key",
            LinkError::Forged => "a frame does not carry a valid tag",
            LinkError::TooLong => "a frame is too long",
        })
    }
}

impl std::error::Error for LinkError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// This end connected; the acceptor's nonce comes first.
    AwaitsNonce,
    /// This end accepted; the other end's nonce and proof come next.
    AwaitsProof,
    /// This end connected and has sent its proof; the acceptor's proof comes next.
    AwaitsAnswer,
    Open,
    Dead,
}

/// One end of a control channel.
#[derive(Debug)]
pub struct Link {
    shared: Key,
    session: Option<Key>,
    state: State,
    accepted: bool,
    nonce: [u8; NONCE],
    other: [u8; NONCE],
    sent: u64,
    taken: u64,
    bytes: Vec<u8>,
}

impl Link {
    fn new(shared: &Key, nonce: [u8; NONCE], accepted: bool) -> Link {
        Link {
            shared: shared.clone(),
            session: None,
            state: if accepted { State::AwaitsProof } else { State::AwaitsNonce },
            accepted,
            nonce,
            other: [0; NONCE],
            sent: 0,
            taken: 0,
            bytes: Vec::new(),
        }
    }

    /// The end that accepted; `out` gets its first bytes.
    pub fn accept(shared: &Key, nonce: [u8; NONCE], out: &mut Vec<u8>) -> Link {
        out.extend_from_slice(&nonce);
        Link::new(shared, nonce, true)
    }

    /// The connecting end of a link.
    pub fn connect(shared: &Key, nonce: [u8; NONCE]) -> Link {
        Link::new(shared, nonce, false)
    }

    /// Whether both ends have proved themselves.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Takes bytes of the stream; `out` gets what the handshake answers. Frames are then taken
    /// with [`Link::next_frame`] until there is none, before more bytes are given.
    ///
    /// # Errors
    /// [`LinkError`]; the link is dead then.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), LinkError> {
        self.bytes.extend_from_slice(bytes);
        let taken = self.shake_hands(out);
        if taken.is_err() {
            self.state = State::Dead;
            self.bytes = Vec::new();
        }
        taken
    }

    fn shake_hands(&mut self, out: &mut Vec<u8>) -> Result<(), LinkError> {
        loop {
            match self.state {
                State::AwaitsNonce => {
                    let Some(other) = self.split::<NONCE>() else { return Ok(()) };
                    self.other = other;
                    out.extend_from_slice(&self.nonce);
                    out.extend_from_slice(&self.proof(b"connector"));
                    self.state = State::AwaitsAnswer;
                }
                State::AwaitsProof => {
                    // Whoever has not proved anything may not make us keep more than the proof.
                    if self.bytes.len() < NONCE + PROOF {
                        return Ok(());
                    }
                    let Some(other) = self.split::<NONCE>() else { return Ok(()) };
                    self.other = other;
                    self.check_proof(b"connector")?;
                    out.extend_from_slice(&self.proof(b"acceptor"));
                }
                State::AwaitsAnswer => {
                    if self.bytes.len() < PROOF {
                        return Ok(());
                    }
                    self.check_proof(b"acceptor")?;
                }
                State::Open => return Ok(()),
                State::Dead => return Err(LinkError::Unauthenticated),
            }
        }
    }

    /// The nonces in the order in which they were sent.
    fn nonces(&self) -> [&[u8]; 2] {
        if self.accepted { [&self.nonce, &self.other] } else { [&self.other, &self.nonce] }
    }

    fn proof(&self, label: &[u8]) -> [u8; PROOF] {
        let [first, second] = self.nonces();
        self.shared.tag(&[b"fairbell probe 1 ", label, first, second])
    }

    fn check_proof(&mut self, label: &[u8]) -> Result<(), LinkError> {
        let Some(proof) = self.split::<PROOF>() else { return Ok(()) };
        let [first, second] = self.nonces();
        if !self.shared.verify(&[b"fairbell probe 1 ", label, first, second], &proof) {
            return Err(LinkError::Unauthenticated);
        }
        self.session = Some(self.shared.derive(b"fairbell probe session ", &self.nonces()));
        self.state = State::Open;
        Ok(())
    }

    fn split<const N: usize>(&mut self) -> Option<[u8; N]> {
        let first = *self.bytes.first_chunk::<N>()?;
        self.bytes.drain(..N);
        Some(first)
    }

    /// The payload of the next whole frame.
    ///
    /// # Errors
    /// [`LinkError`]; the link is dead then.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let frame = self.unpack();
        if frame.is_err() {
            self.state = State::Dead;
            self.bytes = Vec::new();
        }
        frame
    }

    fn unpack(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        let (State::Open, Some(session)) = (self.state, &self.session) else { return Ok(None) };
        let Some(length) =
            self.bytes.first_chunk::<4>().map(|len| u32::from_be_bytes(*len) as usize)
        else {
            return Ok(None);
        };
        if length > FRAME_MAX {
            return Err(LinkError::TooLong);
        }
        let Some(payload) = self.bytes.get(HEADER..HEADER + length) else { return Ok(None) };
        let tag = self.bytes.get(4..HEADER).unwrap_or(&[]);
        let head = head(!self.accepted, self.taken, length);
        if !session.verify(&[&head, payload], tag) {
            return Err(LinkError::Forged);
        }
        let payload = payload.to_vec();
        self.taken += 1;
        self.bytes.drain(..HEADER + length);
        Ok(Some(payload))
    }

    /// Appends a payload as a frame; `false`, and nothing, when the link is not open or the payload
    /// too long.
    pub fn send(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let (State::Open, Some(session)) = (self.state, &self.session) else { return false };
        if payload.len() > FRAME_MAX {
            return false;
        }
        let tag: [u8; TAG] =
            session.tag(&[&head(self.accepted, self.sent, payload.len()), payload]);
        self.sent += 1;
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        out.extend_from_slice(&tag);
        out.extend_from_slice(payload);
        true
    }
}

/// Bytes that a frame's tag covers beside the payload.
fn head(from_acceptor: bool, number: u64, length: usize) -> [u8; 13] {
    let mut head = [0; 13];
    head[0] = u8::from(from_acceptor);
    head[1..9].copy_from_slice(&number.to_be_bytes());
    head[9..].copy_from_slice(&(length as u32).to_be_bytes());
    head
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::*;

    fn key(byte: u8) -> Key {
        Key::new(&[byte; 16]).unwrap()
    }

    /// Both ends, after the handshake.
    fn pair(ours: u8, theirs: u8) -> Result<(Link, Link), LinkError> {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut accepted = Link::accept(&key(ours), [1; 32], &mut a);
        let mut connected = Link::connect(&key(theirs), [2; 32]);
        connected.take(&a, &mut b)?;
        a.clear();
        accepted.take(&b, &mut a)?;
        connected.take(&a, &mut Vec::new())?;
        Ok((accepted, connected))
    }

    #[test]
    fn frames_pass_both_ways_in_any_cut() {
        let (mut accepted, mut connected) = pair(7, 7).unwrap();
        for (from, to) in [(0, 1), (1, 0)] {
            let ends = [&mut accepted, &mut connected];
            let [a, b] = ends;
            let (sender, taker) = if from < to { (a, b) } else { (b, a) };
            let mut wire = Vec::new();
            assert!(sender.send(b"one", &mut wire) && sender.send(b"", &mut wire));
            let mut frames = Vec::new();
            for byte in wire {
                taker.take(&[byte], &mut Vec::new()).unwrap();
                frames.extend(taker.next_frame().unwrap());
            }
            assert_eq!(frames, [b"one".to_vec(), b"".to_vec()]);
        }
    }

    #[test]
    fn who_does_not_know_the_key_gets_nowhere() {
        assert_eq!(pair(7, 8).err(), Some(LinkError::Unauthenticated));
        assert_eq!(Key::new(&[1; 15]).err(), Some(KeyError));
        // Not even by echoing what was received.
        let mut first = Vec::new();
        let mut accepted = Link::accept(&key(1), [1; 32], &mut first);
        let echo = [first.clone(), first].concat();
        assert_eq!(accepted.take(&echo, &mut Vec::new()), Err(LinkError::Unauthenticated));
        assert!(!accepted.send(b"x", &mut Vec::new()));
    }

    #[test]
    fn altered_repeated_reflected_and_endless_frames_are_refused() {
        let mut wire = Vec::new();
        let (mut accepted, mut connected) = pair(7, 7).unwrap();
        connected.send(b"payload", &mut wire);
        let refused = |link: &mut Link, wire: &[u8]| {
            link.take(wire, &mut Vec::new()).unwrap();
            link.next_frame()
        };
        // Its own frame comes back.
        assert_eq!(refused(&mut connected, &wire), Err(LinkError::Forged));
        assert_eq!(refused(&mut accepted, &wire), Ok(Some(b"payload".to_vec())));
        assert_eq!(refused(&mut accepted, &wire), Err(LinkError::Forged));
        let (mut accepted, _) = pair(7, 7).unwrap();
        let mut altered = wire.clone();
        *altered.last_mut().unwrap() ^= 1;
        assert_eq!(refused(&mut accepted, &altered), Err(LinkError::Forged));
        let (mut accepted, _) = pair(7, 7).unwrap();
        assert_eq!(refused(&mut accepted, &[0xFF; 4]), Err(LinkError::TooLong));
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..10),
            open in any::<bool>(),
        ) {
            let mut link = match open {
                true => pair(7, 7).unwrap().0,
                false => Link::accept(&key(7), [1; 32], &mut Vec::new()),
            };
            for chunk in chunks {
                if link.take(&chunk, &mut Vec::new()).is_err() {
                    break;
                }
                while let Ok(Some(_)) = link.next_frame() {}
            }
        }
    }
}
