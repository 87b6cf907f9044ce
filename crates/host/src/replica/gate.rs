//! A door of a replica: whoever connects first proves to know the deployment's secret, then begins
//! TLS.
//!
//! The side that accepted sends 32 random bytes; the side that connected answers with its number (2
//! bytes, little-endian, 0 for an operator) and an HMAC-SHA256 over both and the door's number, under
//! the key of its number ([`key_of`]).
//! Nothing recorded is of use for another connection, and nobody without the secret gets as far as
//! TLS, a thread or a buffer: until then a connection costs a descriptor and 33 bytes, has a place
//! for two seconds at most, and gives it up to newer ones when places are short ([`Admission`]). Those from
//! addresses of the group's own machines have places of their own. Afterwards, the whole handshake has a
//! deadline, and its places are shared out in the same way.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use probe::{Key, Nonces, entropy};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use types::{Address, Admission, AdmissionConfig, Nanos, Yields};

/// How long a stranger may take to prove to know the secret.
const PROOF: Duration = Duration::from_secs(2);
/// How long the whole TLS handshake may take then.
pub const HANDSHAKE: Duration = Duration::from_secs(2);
/// Handshakes under way, and of one address.
const HANDSHAKES: usize = 64;
/// See [`HANDSHAKES`].
const HANDSHAKES_PER_SOURCE: usize = 32;
/// Connections accepted in a row while others wait to be read.
const ACCEPTS_PER_TURN: usize = 16;
/// Where some had to give up their places for them: until the next are accepted. So everybody who is in
/// has some 20 ms, however fast others come.
const BREATH: Duration = Duration::from_millis(4);
/// How often it is looked whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const NONCE: usize = 32;
const TAG: usize = 32;
const ANSWER: usize = 2 + TAG;

/// Whose door it is, and what it takes to be let in.
pub struct Gate {
    /// Derived from the deployment's secret, for this purpose; see [`key_of`].
    pub key: Key,
    /// Number of the replica.
    pub own: u16,
    /// Addresses of the group's machines.
    pub known: Vec<IpAddr>,
    /// How places of strangers are shared out.
    pub limits: Limits,
    /// Those who have answered, and proved nothing.
    pub refused: Arc<AtomicU64>,
}

impl Gate {
    /// What a connection counts as, and whether it is of the group. Machines of one network may have
    /// addresses of one /64, which is a single stranger's at most ([`Address::source`]): each of the group
    /// counts by itself, under its place in the list, as which nobody can connect (0.0.0.0/8, RFC 1122).
    fn source(&self, from: IpAddr) -> (Address, bool) {
        match self.known.iter().position(|known| *known == from) {
            Some(place) if from.is_ipv6() => (Address::v4(place as u32), true),
            Some(_) => (net::address_of(from), true),
            None => (net::address_of(from), false),
        }
    }
}

/// Places of connections that have proved nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From addresses of the group.
    known: usize,
    /// From all others, and from one of them.
    others: usize,
    others_per_source: usize,
    patience_ns: u64,
    yields: Yields,
}

impl Limits {
    /// As they are to be.
    pub const FAIR: Limits = Limits {
        known: 128,
        others: 192,
        others_per_source: 96,
        patience_ns: PROOF.as_nanos() as u64,
        yields: Yields::Oldest,
    };
    /// Few places, and the first who come keep them: what drills show the harm of.
    pub const FIRST_COME: Limits = Limits {
        known: 32,
        others: 32,
        others_per_source: 32,
        patience_ns: u64::MAX,
        yields: Yields::Newest,
    };
}

/// The key that `number` proves itself with where doors are kept by `key`; it tells nothing of
/// another number's.
pub fn key_of(key: &Key, number: u16) -> Key {
    key.derive(LABEL, &[&number.to_le_bytes()])
}

/// What such a key is derived with: the 32 bytes are the HMAC of it and the number.
pub const LABEL: &[u8] = b"fairbell gate of ";

fn signed<'a>(nonce: &'a [u8], ends: &'a [[u8; 2]; 2]) -> [&'a [u8]; 4] {
    [b"fairbell gate 2 ", nonce, &ends[0], &ends[1]]
}

/// Proves to the door of `to` that one knows the key of the number `from`: one's own, 0 for an operator.
///
/// # Errors
/// The stream's; the door says nothing before `until`.
pub fn enter(
    mut stream: &TcpStream,
    (key, from, to): (&Key, u16, u16),
    until: Instant,
) -> std::io::Result<()> {
    let mut nonce = [0; NONCE];
    net::read_until(stream, &mut nonce, until)?;
    let mut answer = [0; ANSWER];
    let (own, tag) = answer.split_at_mut(2);
    own.copy_from_slice(&from.to_le_bytes());
    let ends = [from, to].map(u16::to_le_bytes);
    tag.copy_from_slice(&key.tag::<TAG>(&signed(&nonce, &ends)));
    stream.write_all(&answer)
}

/// A connection that has proved nothing yet.
struct Visitor {
    stream: TcpStream,
    from: Address,
    nonce: [u8; NONCE],
    answer: [u8; ANSWER],
    len: usize,
}

impl Visitor {
    /// Reads on: `None` while more has to come, else the number it has proved to speak for, or
    /// nothing.
    fn read(&mut self, gate: &Gate) -> Option<Option<u16>> {
        let room = self.answer.get_mut(self.len..).unwrap_or(&mut []);
        match self.stream.read(room) {
            Ok(0) => return Some(None),
            Ok(len) => self.len += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted => return None,
            Err(_) => return Some(None),
        }
        let (number, tag) = self.answer.split_first_chunk::<2>().filter(|_| self.len == ANSWER)?;
        let ends = [*number, gate.own.to_le_bytes()];
        let number = u16::from_le_bytes(*number);
        let known = key_of(&gate.key, number).verify(&signed(&self.nonce, &ends), tag);
        if !known {
            gate.refused.fetch_add(1, Ordering::Relaxed);
        }
        Some(known.then_some(number))
    }
}

/// Those who have proved nothing.
struct Strangers {
    visitors: BTreeMap<u64, Visitor>,
    known: Admission<u64>,
    others: Admission<u64>,
}

impl Strangers {
    fn new(limits: &Limits) -> Strangers {
        let Limits { patience_ns, yields, .. } = *limits;
        let line = |places, places_per_source| {
            Admission::new(AdmissionConfig { places, places_per_source, patience_ns, yields })
        };
        Strangers {
            visitors: BTreeMap::new(),
            known: line(limits.known, limits.known),
            others: line(limits.others, limits.others_per_source),
        }
    }

    /// Whether somebody had to go for it.
    fn take(&mut self, now: Nanos, id: u64, (visitor, is_known): (Visitor, bool)) -> bool {
        let line = if is_known { &mut self.known } else { &mut self.others };
        let goes = line.arrive(now, id, Some(visitor.from));
        self.visitors.insert(id, visitor);
        goes.map(|id| self.visitors.remove(&id)).is_some()
    }

    fn leave(&mut self, id: u64) -> Option<Visitor> {
        // It is in one of them.
        let _ = self.known.leave(id) || self.others.leave(id);
        self.visitors.remove(&id)
    }

    fn expire(&mut self, now: Nanos) {
        while let Some(id) = self.known.expire(now).or_else(|| self.others.expire(now)) {
            self.visitors.remove(&id);
        }
    }
}

/// Handshakes under way.
struct Handshakes {
    line: Admission<u64>,
    streams: BTreeMap<u64, Arc<TcpStream>>,
}

impl Handshakes {
    fn cut(&mut self, id: u64) {
        if let Some(stream) = self.streams.remove(&id) {
            // Its thread finds out.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Whoever has proved to know the secret, on a thread of its own.
pub struct Entrant<'a> {
    /// To go on with; the deadline of the handshake.
    pub stream: Arc<TcpStream>,
    /// See `stream`.
    pub until: Instant,
    /// The number that it wants to speak for: who it is, only its certificate says.
    pub number: u16,
    id: u64,
    handshakes: &'a Mutex<Handshakes>,
}

impl Entrant<'_> {
    /// The handshake is over: nobody takes its place any more.
    pub fn settle(&self) {
        let mut handshakes = lock(self.handshakes);
        handshakes.line.leave(self.id);
        handshakes.streams.remove(&self.id);
    }
}

impl Drop for Entrant<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets in whoever may come in, until `stop`; each is handed to `entered` on a thread of its own.
///
/// # Errors
/// The system has no randomness, or refuses to wait.
pub fn serve(
    gate: &Gate,
    door: &TcpListener,
    stop: &AtomicBool,
    entered: impl Fn(Entrant<'_>) + Sync,
) -> std::io::Result<()> {
    door.set_nonblocking(true)?;
    let seed = entropy().ok_or_else(|| std::io::Error::other("no randomness"))?;
    let (mut nonces, begun) = (Nonces::new(seed), Instant::now());
    let handshakes = Mutex::new(Handshakes {
        line: Admission::new(AdmissionConfig {
            places: HANDSHAKES,
            places_per_source: HANDSHAKES_PER_SOURCE,
            patience_ns: HANDSHAKE.as_nanos() as u64,
            yields: Yields::Oldest,
        }),
        streams: BTreeMap::new(),
    });
    let (mut strangers, mut next) = (Strangers::new(&gate.limits), 0);
    let (handshakes, entered, mut accept_at) = (&handshakes, &entered, begun);
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let now = Nanos(begun.elapsed().as_nanos() as u64);
            strangers.expire(now);
            let pause = accept_at.saturating_duration_since(Instant::now());
            let (waits, ready) = wait((door, pause), &strangers.visitors)?;
            // Those who are in come before those who want in.
            for id in ready {
                let Some(visitor) = strangers.visitors.get_mut(&id) else { continue };
                let Some(proved) = visitor.read(gate) else { continue };
                let Some((visitor, number)) = strangers.leave(id).zip(proved) else { continue };
                let (stream, until) = (Arc::new(visitor.stream), Instant::now() + HANDSHAKE);
                if stream.set_nonblocking(false).is_err() {
                    continue;
                }
                let mut under_way = lock(handshakes);
                under_way.streams.insert(id, Arc::clone(&stream));
                let goes = under_way.line.arrive(now, id, Some(visitor.from));
                goes.into_iter().for_each(|id| under_way.cut(id));
                let entrant = Entrant { stream, until, number, id, handshakes };
                drop(under_way);
                scope.spawn(move || entered(entrant));
            }
            if !waits {
                continue;
            }
            for _ in 0..ACCEPTS_PER_TURN {
                match door.accept() {
                    Ok((stream, from)) => {
                        next += 1;
                        let (from, known) = gate.source(from.ip().to_canonical());
                        if let Some(visitor) = greet(stream, from, nonces.draw())
                            && strangers.take(now, next, (visitor, known))
                        {
                            accept_at = Instant::now() + BREATH;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // No descriptors, say: those who wait are asked later.
                        std::thread::sleep(LOOK_EVERY);
                        break;
                    }
                }
            }
        }
        Ok(())
    })
}

fn greet(stream: TcpStream, from: Address, nonce: [u8; NONCE]) -> Option<Visitor> {
    stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).ok()?;
    // A new stream has room for so little.
    let sent = (&stream).write(&nonce).ok()? == NONCE;
    sent.then_some(Visitor { stream, from, nonce, answer: [0; ANSWER], len: 0 })
}

/// Waits for news: whether somebody wants in, unless that is of no interest for a time yet, and who of
/// the strangers has said something.
fn wait(
    (door, pause): (&TcpListener, Duration),
    visitors: &BTreeMap<u64, Visitor>,
) -> std::io::Result<(bool, Vec<u64>)> {
    let (wanted, patience) = match pause.is_zero() {
        true => (PollFlags::IN, LOOK_EVERY),
        false => (PollFlags::empty(), pause),
    };
    let mut fds = vec![PollFd::from_borrowed_fd(door.as_fd(), wanted)];
    let streams = visitors.values().map(|one| one.stream.as_fd());
    fds.extend(streams.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    match poll(&mut fds, Some(&patience)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut news = fds.iter().map(|fd| !fd.revents().is_empty());
    let waits = news.next().unwrap_or(false);
    Ok((waits, visitors.keys().zip(news).filter(|(_, news)| *news).map(|(id, _)| *id).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_the_group_count_by_themselves_and_strangers_of_a_64_together() {
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        let known = ["fd00::1", "fd00::2", "10.0.0.1"].map(at).to_vec();
        let key = Key::new(&[7; 32]).expect("a key");
        let gate = Gate { key, own: 1, known, limits: Limits::FAIR, refused: Arc::default() };
        let source = |text: &str| {
            let (address, known) = gate.source(at(text));
            (address.source(), known)
        };
        assert_ne!(source("fd00::1"), source("fd00::2"));
        assert_ne!(source("fd00::1"), source("10.0.0.1"));
        assert!(["fd00::1", "fd00::2", "10.0.0.1"].iter().all(|known| source(known).1));
        assert_eq!(source("fd00::8"), source("fd00::9"), "strangers");
        assert_ne!(source("fd00:0:0:1::8"), source("fd00::9"));
        assert!(!source("fd00::8").1 && source("fd00::8") != source("fd00::1"));
    }
}
