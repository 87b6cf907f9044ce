//! Who leads: a leader says so again and again to every process with nodes, which sends
//! there what is for the root. Claims carry the term and a tag under a key that the process shares with
//! the replicas alone; one of a term that is no newer changes nothing, so that an earlier leader
//! can't take the place back.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use net::LeaderEndpoint;
use probe::Key;

use super::places::Places;

/// How often a leader says so while it is new.
const EVERY: Duration = Duration::from_millis(5);
/// So long it is new: processes that started later hear of it within [`LATER_EVERY`].
const NEW: Duration = Duration::from_millis(500);
/// How often it says so then.
const LATER_EVERY: Duration = Duration::from_millis(50);
/// How long a reader waits before it looks whether all is over.
const PATIENCE: Duration = Duration::from_millis(50);
const TAG: usize = 16;
const LEN: usize = 9 + TAG;

fn encode(key: &Key, term: u64, place: u8) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..8].copy_from_slice(&term.to_be_bytes());
    bytes[8] = place;
    let tag: [u8; TAG] = key.tag(&[&bytes[..9]]);
    bytes[9..].copy_from_slice(&tag);
    bytes
}

/// Term and place of a claim; `None` for anything else.
fn decode(key: &Key, bytes: &[u8]) -> Option<(u64, usize)> {
    let (body, tag) = bytes.split_at_checked(9)?;
    let known = tag.len() == TAG && key.verify(&[body], tag);
    let term = u64::from_be_bytes(*body.first_chunk()?);
    known.then_some((term, usize::from(*body.last()?)))
}

/// Says that the replica at `place`, from 0, leads, while `leading` holds a term that is not 0.
pub fn tell(socket: &UdpSocket, to: &Places, place: u8, leading: &AtomicU64, stop: &AtomicBool) {
    let (mut known, mut since, mut told) = (0, Instant::now(), None::<Instant>);
    while !stop.load(Ordering::Relaxed) {
        let term = leading.load(Ordering::Acquire);
        if term != known {
            (known, since, told) = (term, Instant::now(), None);
        }
        let every = if since.elapsed() < NEW { EVERY } else { LATER_EVERY };
        if term > 0 && told.is_none_or(|at| at.elapsed() >= every) {
            told = Some(Instant::now());
            to.each_claim(|(to, key)| {
                // Lost ones are followed by others.
                let _ = socket.send_to(&encode(key, term, place), to);
            });
        }
        std::thread::sleep(EVERY);
    }
}

/// Sends what is for the root where claims say that it is.
pub fn hear(socket: &UdpSocket, key: &Key, leader: &LeaderEndpoint, stop: &AtomicBool) {
    let groups = Groups::default();
    groups.add(key.clone(), leader.clone());
    groups.hear(socket, stop);
}

/// Groups of roots whose claims a machine hears at one socket, each under a key of its own: those of a
/// venue's shards.
#[derive(Default)]
pub struct Groups(Mutex<Vec<(Key, LeaderEndpoint)>>);

impl Groups {
    fn all(&self) -> MutexGuard<'_, Vec<(Key, LeaderEndpoint)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on claims under this key say where the endpoint is.
    pub fn add(&self, key: Key, leader: LeaderEndpoint) {
        self.all().push((key, leader));
    }

    /// Takes a claim; which changes nothing when it is nobody's, or not a newer one.
    fn take(&self, bytes: &[u8]) {
        for (key, leader) in self.all().iter() {
            if let Some((term, place)) = decode(key, bytes) {
                let _ = leader.take(term, place);
            }
        }
    }

    /// Hears claims until `stop`.
    pub fn hear(&self, socket: &UdpSocket, stop: &AtomicBool) {
        let _ = socket.set_read_timeout(Some(PATIENCE));
        let mut bytes = [0; 64];
        while !stop.load(Ordering::Relaxed) {
            let Ok(len) = socket.recv(&mut bytes) else { continue };
            self.take(bytes.get(..len).unwrap_or(&[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::replica::cluster::tests::cluster;

    #[test]
    fn a_claim_moves_the_endpoints_of_its_own_group_alone() {
        let keys = [&b"claims"[..], b"others"].map(|of| cluster(3).key(of).expect("a key"));
        let places = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let endpoint = || LeaderEndpoint::new(types::NodeId(0), &places).expect("places");
        let (groups, ends) = (Groups::default(), [endpoint(), endpoint(), endpoint()]);
        // Two endpoints of the first group: its overlay, and its root to other shards' roots.
        for (key, end) in [0, 0, 1].into_iter().zip(&ends) {
            groups.add(keys[key].clone(), end.clone());
        }
        groups.take(&encode(&keys[0], 7, 2));
        groups.take(&encode(&keys[1], 3, 1));
        groups.take(&encode(&cluster(3).key(b"nobody").expect("a key"), 9, 0));
        assert_eq!(ends.map(|end| end.held()), [(7, 2), (7, 2), (3, 1)]);
    }

    proptest! {
        #[test]
        fn claims_are_read_back_and_nothing_else_is_one(
            term in 1u64..1 << 50, place in 0u8..9, at in 0usize..LEN, bit in 0u8..8,
            junk in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let key = cluster(3).key(b"claims").expect("a key");
            let mut bytes = encode(&key, term, place);
            prop_assert_eq!(decode(&key, &bytes), Some((term, usize::from(place))));
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(decode(&key, &bytes), None);
            prop_assert_eq!(decode(&key, &junk), None);
            let other = cluster(3).key(b"links").expect("a key");
            prop_assert_eq!(decode(&other, &encode(&key, term, place)), None);
        }
    }
}
