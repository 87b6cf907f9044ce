//! Replicas of two versions in one group: upgraded and put back one at a time, under load.

use crate::common::{Group, State, config};
use replication::{Config, Entry, OLDEST, VERSION};

struct Count(u64);

impl State for Count {
    fn new() -> Count {
        Count(0)
    }

    fn apply(&mut self, entry: &Entry) {
        self.0 += u64::from(!entry.record.is_empty());
    }

    fn digest(&self) -> u64 {
        self.0
    }
}

/// What the leader knows.
fn agreed(group: &mut Group<Count>) -> u8 {
    let leader = group.leader().expect("one leads");
    group.node(leader).replica.agreed_version()
}

/// Ten records through whoever leads.
fn work(group: &mut Group<Count>) {
    let leader = group.leader().expect("one leads");
    for record in 0..10u8 {
        group.propose(leader, vec![vec![record + 1; 9]]).expect("it serves");
    }
    group.pass(30);
}

/// Stops a replica and starts it as another version.
fn change(group: &mut Group<Count>, id: u8, newest: u8) {
    group.kill(id);
    group.newest[usize::from(id) - 1] = newest;
    group.start(id);
    // Until a leader is elected, if it was that, and everybody has been greeted.
    group.pass(80);
}

#[test]
fn a_group_is_upgraded_and_put_back_one_replica_at_a_time() {
    let mut group: Group<Count> = Group::new(Config { newest: OLDEST, ..config(3) });
    group.elect();
    work(&mut group);
    assert_eq!(agreed(&mut group), OLDEST);
    let mut done = 10;
    for (newest, agreed_after) in [(VERSION, [OLDEST, OLDEST, VERSION]), (OLDEST, [OLDEST; 3])] {
        for (id, expected) in (1..=3).zip(agreed_after) {
            change(&mut group, id, newest);
            work(&mut group);
            done += 10;
            assert_eq!(agreed(&mut group), expected, "replica {id} to version {newest}");
            for id in 1..=3 {
                assert_eq!(group.node(id).state.0, done, "replica {id}");
                assert_eq!(group.node(id).replica.stopped(), None);
            }
        }
    }
}

#[test]
fn one_that_is_away_counts_when_it_is_back() {
    let mut group: Group<Count> = Group::new(config(3));
    group.elect();
    group.pass(80);
    assert_eq!(agreed(&mut group), VERSION);
    let leader = group.leader().expect("one leads");
    let away = leader % 3 + 1;
    group.kill(away);
    group.pass(80);
    assert_eq!(agreed(&mut group), VERSION);
    group.newest[usize::from(away) - 1] = OLDEST;
    group.start(away);
    group.pass(80);
    assert_eq!(agreed(&mut group), OLDEST);
    // One that hears of nobody knows nothing.
    group.cut = vec![leader];
    group.pass(80);
    assert_eq!(group.node(leader).replica.agreed_version(), OLDEST);
}

/// One that asks for no votes says nothing by itself: learners do not.
#[test]
fn a_learner_that_is_put_back_while_it_is_away_is_understood_again() {
    let mut group: Group<Count> = Group::new(Config { learners: 1, ..config(3) });
    group.elect();
    group.pass(80);
    work(&mut group);
    group.kill(4);
    work(&mut group);
    group.newest[3] = OLDEST;
    group.start(4);
    group.pass(120);
    assert_eq!(group.node(4).state.0, 20);
}

#[test]
fn control_the_newest_version_is_refused_by_the_oldest() {
    let mut group: Group<Count> = Group::new(Config { newest: OLDEST, ..config(3) });
    let leader = group.elect();
    let other = leader % 3 + 1;
    // What would come without the rule that the oldest is spoken until others are known.
    let newest: Vec<Vec<u8>> = group.delivered.iter().map(|(_, bytes)| newer(bytes)).collect();
    let before = group.node(other).replica.counts().refused;
    let mut nobody = Vec::new();
    for bytes in &newest {
        group.node(other).replica.handle_message(bytes, &mut nobody);
    }
    let refused = group.node(other).replica.counts().refused - before;
    assert_eq!(refused, newest.len() as u64);
}

/// A message as the next version would write it.
fn newer(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[4] += 1;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..8]);
    hasher.update(&bytes[12..]);
    let crc = hasher.finalize().to_le_bytes();
    bytes[8..12].copy_from_slice(&crc);
    bytes
}
