//! Clock agents and their like: no key and nonce twice whoever starts how often, and nothing of an
//! earlier life is taken.

#![cfg(feature = "aead")]

use std::collections::BTreeSet;

use overlay::{
    aes_gcm::{KeySource, random_life},
    key_ring::KeyRing,
    lives::{Life, of_pair},
    seal::SealHeader,
    sealed_pair::SealedPair,
};
use types::{Nanos, NodeId};
use zerocopy::FromBytes;

const SECRET: [u8; 32] = [5; 32];
const NODES: [NodeId; 2] = [NodeId(0), NodeId(1)];
const NOW: Nanos = Nanos(1_000_000);

type Agent = SealedPair<KeyRing>;

fn agent(node: usize, life: Life) -> Agent {
    let ring = KeySource::new(&SECRET).mesh(NODES[node], &NODES);
    SealedPair::new(NODES[node], &NODES, life, ring)
}

/// Carries hellos between two nodes until there are none; all that was carried, and to whom.
fn meet(nodes: &mut [Agent; 2], now: Nanos) -> Vec<(usize, Vec<u8>)> {
    let mut all = Vec::new();
    loop {
        let mut round = Vec::new();
        for (at, other) in [(0, 1), (1, 0)] {
            nodes[at].handle_timeout(now);
            nodes[at].take_hellos(|_, bytes| round.push((other, bytes.to_vec())));
        }
        if round.is_empty() {
            return all;
        }
        for (to, bytes) in &round {
            assert_eq!(nodes[*to].open(now, bytes), Ok(None));
        }
        all.extend(round);
    }
}

/// Node `at` seals something to the other one; `None` when it does not know that one's life.
fn seal(nodes: &mut [Agent; 2], at: usize, text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    nodes[at].seal(NOW, NODES[1 - at], text, &mut bytes).then_some(bytes)
}

/// Both nodes, who have met.
fn pair(lives: [Life; 2]) -> [Agent; 2] {
    let mut nodes = [agent(0, lives[0]), agent(1, lives[1])];
    assert_eq!(seal(&mut nodes, 0, b"not met yet"), None);
    meet(&mut nodes, NOW);
    nodes
}

/// So many starts of two nodes out of one folder, in turns: how many pairs of key and nonce sealed
/// something, and how many of those did so again.
fn starts(count: usize, mut life: impl FnMut() -> Life) -> (usize, usize) {
    let keys = KeySource::new(&SECRET);
    let (mut pairs, mut repeated) = (BTreeSet::new(), 0);
    let mut lives = [life(), life()];
    let mut nodes = pair(lives);
    for start in 0..count {
        let at = start % 2;
        lives[at] = life();
        nodes[at] = agent(at, lives[at]);
        assert_eq!(seal(&mut nodes, at, b"not met yet"), None);
        meet(&mut nodes, NOW);
        let ends = [0, 1].map(|at| (NODES[at], lives[at]));
        let (key, tag) = of_pair(&keys, ends[0], ends[1]).expect("all keys");
        for number in 0..20 {
            for at in 0..2 {
                let bytes = seal(&mut nodes, at, &[number]).expect("they have met");
                let (header, _) = SealHeader::read_from_prefix(&bytes).expect("a header");
                assert_eq!(header.link, tag, "start {start}");
                // Both parts of a datagram, under one key: their nonces differ by what they are.
                for nonce in [(false, header.hop_number), (true, header.number)] {
                    repeated += usize::from(!pairs.insert((key, header.hop, nonce)));
                }
            }
        }
    }
    (pairs.len(), repeated)
}

#[test]
fn a_thousand_starts_of_agents_repeat_no_key_and_nonce() {
    let fresh = || random_life().expect("randomness");
    assert_eq!(starts(1_000, fresh), (80_000, 0));
    // The control: lives that come again, as a clock set back would bring them.
    let mut numbers = (0..3).cycle();
    let (_, repeated) = starts(1_000, || Life::of(numbers.next().expect("endless")));
    assert!(repeated > 1_000, "{repeated}");
}

#[test]
fn what_was_recorded_of_an_earlier_life_is_void_whoever_starts_again() {
    let lives = [Life::of(1), Life::of(2)];
    let record = || {
        let mut nodes = [agent(0, lives[0]), agent(1, lives[1])];
        seal(&mut nodes, 0, b"");
        let mut all = meet(&mut nodes, NOW);
        for at in 0..2 {
            all.push((1 - at, seal(&mut nodes, at, b"a correction").expect("they have met")));
        }
        all
    };
    for again in 0..2 {
        let mut now = lives;
        now[again] = Life::of(3);
        let mut nodes = pair(now);
        for (to, bytes) in record() {
            let opened = nodes[to].open(NOW, &bytes).map(|opened| opened.is_some());
            // A hello may ask, and is answered; nothing is taken.
            assert_ne!(opened, Ok(true), "node {again} has started again");
        }
        // And what is said now is heard, as before.
        meet(&mut nodes, NOW);
        for at in 0..2 {
            let bytes = seal(&mut nodes, at, b"now").expect("they have met");
            assert_eq!(nodes[1 - at].open(NOW, &bytes), Ok(Some((NODES[at], &b"now"[..]))));
        }
    }
    // The control: in the lives in which it was recorded it is taken.
    let mut nodes = pair(lives);
    let taken = record()
        .into_iter()
        .filter(|(to, bytes)| nodes[*to].open(NOW, bytes).is_ok_and(|opened| opened.is_some()));
    assert_eq!(taken.count(), 2);
}
