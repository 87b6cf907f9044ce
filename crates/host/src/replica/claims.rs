//! Who leads: a leader says so again and again to every process with nodes, which sends
//! there what is for the root. Claims carry the term and a tag under a key that the process shares with
//! the replicas alone; one of a term that is no newer changes nothing, so that an earlier leader
//! can't take the place back.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use net::LeaderEndpoint;
use probe::Key;

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
pub fn tell(
    socket: &UdpSocket,
    to: &[(SocketAddr, Key)],
    place: u8,
    leading: &AtomicU64,
    stop: &AtomicBool,
) {
    let (mut known, mut since, mut told) = (0, Instant::now(), None::<Instant>);
    while !stop.load(Ordering::Relaxed) {
        let term = leading.load(Ordering::Acquire);
        if term != known {
            (known, since, told) = (term, Instant::now(), None);
        }
        let every = if since.elapsed() < NEW { EVERY } else { LATER_EVERY };
        if term > 0 && told.is_none_or(|at| at.elapsed() >= every) {
            told = Some(Instant::now());
            for (to, key) in to {
                // Lost ones are followed by others.
                let _ = socket.send_to(&encode(key, term, place), to);
            }
        }
        std::thread::sleep(EVERY);
    }
}

/// Sends what is for the root where claims say that it is.
pub fn hear(socket: &UdpSocket, key: &Key, leader: &LeaderEndpoint, stop: &AtomicBool) {
    let _ = socket.set_read_timeout(Some(PATIENCE));
    let mut bytes = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        let Ok(len) = socket.recv(&mut bytes) else { continue };
        if let Some((term, place)) = decode(key, bytes.get(..len).unwrap_or(&[])) {
            // One that is no newer changes nothing.
            let _ = leader.take(term, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replica::cluster::tests::cluster;

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
