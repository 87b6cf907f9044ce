//! Groups that give up the oldest messages of their private streams: every replica the same ones, over
//! failovers and starts behind checkpoints.

use overlay::private_sender::PrivateStreams;
use types::{AccountId, ExecutionReport};

use crate::common::MS;
use crate::plain;
use crate::world::{CALM, Group, Links, MEMBERS, ROUGH};

/// Chunks of 64 messages that are kept.
const CHUNKS: u64 = 70;

fn group(links: Links, seed: u64, chunks: [u64; MEMBERS]) -> Group {
    let block = PrivateStreams::spill_block(size_of::<ExecutionReport>()) as u64;
    let mut group = Group::new(&plain(), links, seed);
    for (n, chunks) in chunks.into_iter().enumerate() {
        group.kill(n);
        group.machines[n].checkpoint_every = 150;
        group.machines[n].streams_max = Some(chunks * block);
        group.start(n).expect("a sound disk");
    }
    group.run(1_500 * MS);
    group.login_all();
    group
}

/// The first message of each account that can be had, by member.
fn firsts(group: &Group) -> Vec<Vec<u64>> {
    let accounts = 1..=group.clients.len() as u16;
    let of = |n: usize| {
        let private = group.root(n).private();
        accounts.clone().map(|of| private.first_position(AccountId(of))).collect()
    };
    (0..MEMBERS).map(of).collect()
}

fn check_alike(group: &Group, what: &str) {
    let digests: Vec<u64> = (0..MEMBERS).map(|n| group.root(n).state_digest()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{what}: {digests:x?}");
    let firsts = firsts(group);
    assert!(firsts.iter().all(|of| *of == firsts[0]), "{what}: {firsts:?}");
    let unreadable = |n: usize| group.root(n).private().counters().unreadable;
    assert!((0..MEMBERS).all(|n| unreadable(n) == 0), "{what}: a message can't be read");
}

#[test]
fn every_replica_gives_up_the_same_messages_over_failovers_and_starts() {
    let most = CHUNKS * 2 * PrivateStreams::spill_block(size_of::<ExecutionReport>()) as u64;
    for (seed, links) in [(1, CALM), (2, CALM), (3, ROUGH)] {
        let mut group = group(links, seed, [CHUNKS; MEMBERS]);
        for round in 0..6 {
            group.trade(120 * MS, MS / 4);
            let leader = group.leader().expect("one leads");
            group.kill(leader);
            group.trade(400 * MS, 4 * MS);
            group.start(leader).expect("a sound disk");
            group.run(1_500 * MS);
            assert!(round == 0 || group.machines[leader].restored > 0, "seed {seed}, {round}");
            check_alike(&group, &format!("seed {seed}, round {round}"));
            let spilled = group.root(leader).fill().streams.0;
            assert!(spilled <= most, "seed {seed}, round {round}: {spilled} bytes");
        }
        assert!(firsts(&group)[0].iter().any(|first| *first > 1), "seed {seed}: nothing went");
        // All at once, from what they have.
        (0..MEMBERS).for_each(|n| group.kill(n));
        group.run(20 * MS);
        (0..MEMBERS).for_each(|n| group.start(n).expect("a sound disk"));
        group.run(1_500 * MS);
        group.trade(50 * MS, MS);
        group.run(1_500 * MS);
        check_alike(&group, &format!("seed {seed}, all at once"));
        // By all inputs, and with all of it in memory, for whoever compares logs and answers.
        (0..MEMBERS).for_each(|n| group.kill(n));
        group.run(20 * MS);
        for n in 0..MEMBERS {
            group.machines[n].checkpoint_every = 0;
            group.start(n).expect("a sound disk");
        }
        group.run(2_500 * MS);
        group.check(&format!("seed {seed}"));
    }
}

/// Control: a member with a smaller bound than the others is found out by the comparison.
#[test]
#[should_panic(expected = "narrow")]
fn a_replica_that_keeps_less_than_the_others_is_seen() {
    let mut group = group(CALM, 4, [CHUNKS + 60, CHUNKS, CHUNKS + 60]);
    for _ in 0..5 {
        group.trade(300 * MS, MS / 4);
    }
    group.run(1_500 * MS);
    check_alike(&group, "narrow");
}
