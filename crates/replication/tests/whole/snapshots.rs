//! A replica that is further behind than any log reaches: whatever is lost and whoever stops on the
//! way, it gets a snapshot, then the log behind it.

use crate::common::{Group, State, config};
use replication::{Action, Config, Entry, kept};
use types::{Digest, SplitMix64};

/// All numbers that were applied, and some ballast, so that a snapshot takes several parts.
#[derive(PartialEq, Debug)]
struct Numbers(u64, Vec<u64>);

impl State for Numbers {
    fn new() -> Numbers {
        Numbers(0, Vec::new())
    }

    fn apply(&mut self, entry: &Entry) {
        assert_eq!(entry.position, self.0 + 1, "in order, each once");
        self.0 = entry.position;
        if let Some(bytes) = entry.record.first_chunk::<8>() {
            self.1.push(u64::from_le_bytes(*bytes));
        }
    }

    fn digest(&self) -> u64 {
        let mut digest = Digest(self.0);
        self.1.iter().for_each(|number| digest.fold(*number));
        digest.0
    }

    fn save(&self) -> Vec<u8> {
        let words = [self.0].into_iter().chain(self.1.iter().copied());
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    fn load(bytes: &[u8]) -> Numbers {
        let (words, _) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        Numbers(words.next().expect("whole"), words.collect())
    }
}

fn small_parts(replicas: u8) -> Config {
    Config { part_bytes: 100, sending_ticks: 50, ..config(replicas) }
}

fn propose(group: &mut Group<Numbers>, leader: u8, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let record = number.to_le_bytes().repeat(60);
        group.propose(leader, vec![record]).expect("it leads");
    }
    group.pass(3);
}

/// Takes a snapshot of all that was applied, and gives up the log up to there.
fn snapshot(group: &mut Group<Numbers>, id: u8) {
    group.with(id, |node, out| {
        let position = node.replica.applied();
        node.journal.commit_to(position);
        node.journal.write_snapshot(position, &node.state.save()).expect("room");
        node.journal.retain(position).expect("a disk that works");
        let kept = kept(&node.journal);
        node.replica.handle_kept(&kept, out);
    });
    group.deliver();
}

/// Every replica that runs takes a snapshot and gives up its log.
fn snapshots(group: &mut Group<Numbers>) {
    for id in 1..=group.nodes.len() as u8 {
        if group.nodes[usize::from(id) - 1].is_some() {
            snapshot(group, id);
        }
    }
}

/// A group whose leader's log begins behind what another replica has, which is stopped: both.
fn one_far_behind(replicas: u8) -> (Group<Numbers>, u8, u8) {
    let mut group: Group<Numbers> = Group::new(small_parts(replicas));
    let leader = group.elect();
    propose(&mut group, leader, 0..10);
    let away = leader % replicas + 1;
    group.kill(away);
    propose(&mut group, leader, 10..90);
    snapshots(&mut group);
    propose(&mut group, leader, 90..100);
    assert!(group.node(leader).journal.first() > 20, "{}", group.node(leader).journal.first());
    (group, leader, away)
}

fn assert_equal(group: &mut Group<Numbers>, count: u64) {
    let all: Vec<u64> = (0..count).collect();
    for id in 1..=group.nodes.len() as u8 {
        assert_eq!(group.node(id).state.1, all, "replica {id}");
        assert_eq!(group.node(id).replica.stopped(), None, "replica {id}");
    }
    let chains: Vec<u64> = (1..=3).map(|id| group.node(id).journal.chain()).collect();
    assert!(chains.windows(2).all(|pair| pair[0] == pair[1]), "{chains:?}");
}

/// One of so many messages, without a pattern.
fn one_of(number: u64, many: u64) -> bool {
    SplitMix64::mix(number).is_multiple_of(many)
}

/// Which kind of message it is.
fn kind(bytes: &[u8]) -> u8 {
    bytes[5]
}

#[test]
fn it_gets_a_snapshot_then_the_log_behind_it() {
    for replicas in [3, 5] {
        let (mut group, leader, away) = one_far_behind(replicas);
        group.start(away);
        group.pass(60);
        propose(&mut group, leader, 100..105);
        assert_equal(&mut group, 105);
        let counts = group.node(away).replica.counts();
        assert_eq!((counts.transfers, counts.installed), (1, 1), "{counts:?}");
        let parts = group.node(leader).replica.counts().parts_sent;
        assert!(parts >= 7, "{parts} parts");
        // It goes on from it by itself, as a leader too.
        group.kill(away);
        group.kill(leader);
        group.start(away);
        group.start(leader);
        let next = group.elect();
        propose(&mut group, next, 105..110);
        assert_equal(&mut group, 110);
    }
}

#[test]
fn a_learner_gets_one_too_and_stays_a_learner() {
    let config = Config { learners: 1, ..small_parts(3) };
    let mut group: Group<Numbers> = Group::new(config);
    let leader = group.elect();
    propose(&mut group, leader, 0..10);
    group.kill(4);
    propose(&mut group, leader, 10..90);
    snapshots(&mut group);
    propose(&mut group, leader, 90..100);
    group.start(4);
    group.pass(100);
    assert_equal(&mut group, 100);
    assert_eq!(group.node(4).replica.counts().installed, 1);
    // With it and one of three there is no majority, and it never asks for votes.
    let others: Vec<u8> = (1..=3).filter(|id| *id != leader).collect();
    group.kill(leader);
    group.kill(others[0]);
    group.pass(500);
    assert_eq!(group.leader(), None);
    // The type of a consensus message stands behind the envelope; 17 asks whether to ask for votes.
    let asks = |action: &Action| matches!(action, Action::Send { bytes, .. } if kind(bytes) == 1 && bytes[20] == 17);
    assert!(!group.node(4).said.iter().any(asks), "a learner asks for no votes");
    assert!(group.node(others[1]).said.iter().any(asks), "the one that is left does");
    group.start(leader);
    group.start(others[0]);
    let next = group.elect();
    propose(&mut group, next, 100..105);
    assert_equal(&mut group, 105);
}

#[test]
fn control_without_offers_it_stays_behind() {
    let (mut group, _, away) = one_far_behind(3);
    group.passes = |_, bytes| kind(bytes) != 3;
    group.start(away);
    group.pass(500);
    assert!(group.node(away).state.1.len() <= 10, "nothing else brings it what the logs lack");
}

#[test]
fn whatever_messages_are_lost_it_gets_there() {
    type Passes = fn(u64, &[u8]) -> bool;
    let losses: [Passes; 5] = [
        |number, _| !one_of(number, 3),
        |number, bytes| kind(bytes) < 3 || one_of(number, 2),
        |number, bytes| kind(bytes) != 5 || one_of(number, 4),
        |number, bytes| kind(bytes) != 4 || one_of(number, 5),
        // What the library hears of the installation is lost for long.
        |number, bytes| kind(bytes) != 1 || one_of(number, 2),
    ];
    for (n, passes) in losses.into_iter().enumerate() {
        let (mut group, _, away) = one_far_behind(3);
        group.start(away);
        group.passes = passes;
        group.pass(400);
        group.passes = |_, _| true;
        group.pass(200);
        assert_equal(&mut group, 100);
        assert!(group.node(away).replica.counts().installed > 0, "loss {n}");
    }
}

#[test]
fn whoever_stops_in_the_middle_it_begins_again() {
    for ticks in 1..12 {
        // Whoever collects.
        let (mut group, leader, away) = one_far_behind(3);
        group.start(away);
        group.passes = |number, bytes| kind(bytes) != 5 || one_of(number, 3);
        group.pass(ticks);
        group.kill(away);
        group.start(away);
        group.pass(200);
        assert_equal(&mut group, 100);
        // Whoever sends.
        let (mut group2, leader2, away2) = one_far_behind(3);
        assert_eq!((leader, away), (leader2, away2), "the same run");
        group2.start(away2);
        group2.passes = |number, bytes| kind(bytes) != 5 || one_of(number, 3);
        group2.pass(ticks);
        group2.kill(leader2);
        let next = group2.elect();
        propose(&mut group2, next, 100..110);
        group2.pass(200);
        group2.start(leader2);
        group2.pass(200);
        assert_equal(&mut group2, 110);
    }
}

#[test]
fn a_newer_snapshot_takes_the_place_of_one_on_its_way() {
    let (mut group, leader, away) = one_far_behind(3);
    group.start(away);
    group.passes = |_, bytes| kind(bytes) != 5;
    group.pass(30);
    assert!(group.node(leader).replica.is_sending());
    let first = group.node(away).replica.collecting().expect("it asks for parts").0;
    propose(&mut group, leader, 100..160);
    snapshots(&mut group);
    group.passes = |_, _| true;
    group.pass(100);
    assert_equal(&mut group, 160);
    let counts = group.node(away).replica.counts();
    assert_eq!((counts.transfers, counts.transfers_ended, counts.installed), (2, 1, 1));
    assert!(group.node(away).journal.first() > first + 50);
    group.pass(60);
    assert!(!group.node(leader).replica.is_sending(), "nobody asks any more");
}

#[test]
fn what_is_repeated_much_later_changes_nothing() {
    let (mut group, leader, away) = one_far_behind(3);
    group.start(away);
    group.pass(60);
    propose(&mut group, leader, 100..150);
    snapshots(&mut group);
    let old: Vec<_> =
        group.delivered.iter().filter(|(_, bytes)| kind(bytes) > 2).cloned().collect();
    assert!(old.len() > 12);
    for (to, bytes) in old {
        group.with(to, |node, out| node.replica.handle_message(&bytes, out));
        group.deliver();
    }
    group.pass(60);
    propose(&mut group, leader, 150..155);
    assert_equal(&mut group, 155);
    assert_eq!(group.node(away).replica.counts().installed, 1);
}

#[test]
fn a_leader_whose_snapshot_is_of_no_use_takes_another_one() {
    // Its disk has changed a bit of it since.
    let (mut group, leader, away) = one_far_behind(3);
    let info = group.node(leader).journal.snapshots()[0];
    let name = format!("snap-{:016x}", info.position);
    assert!(group.node(leader).journal.storage_mut().flip(&name, 8 * 4_200));
    group.start(away);
    group.pass(100);
    assert_equal(&mut group, 100);
    let counts = group.node(away).replica.counts();
    assert_eq!((counts.transfers, counts.transfers_ended, counts.installed), (2, 1, 1));
    // It has none at all that is whole: after a start it knows.
    let (mut group, leader, away) = one_far_behind(3);
    group.with(leader, |node, out| {
        let none = replication::Kept { snapshot: None, ..kept(&node.journal) };
        node.replica.handle_kept(&none, out);
    });
    group.start(away);
    group.pass(100);
    assert_equal(&mut group, 100);
    let asked = group.node(leader).said.contains(&Action::TakeSnapshot);
    assert!(asked, "nobody asked for one");
}

#[test]
fn a_replica_with_a_log_of_its_own_gives_it_up() {
    // Behind the position, and with records that nobody else has.
    let mut group: Group<Numbers> = Group::new(small_parts(3));
    let old = group.elect();
    propose(&mut group, old, 0..10);
    group.cut = vec![old];
    for number in 500..520u64 {
        group.propose(old, vec![number.to_le_bytes().repeat(60)]).expect("it believes to lead");
    }
    group.pass(60);
    let next = group.elect();
    assert_ne!(next, old);
    propose(&mut group, next, 10..90);
    let third = (1..=3).find(|id| ![old, next].contains(id)).expect("three");
    snapshot(&mut group, next);
    snapshot(&mut group, third);
    propose(&mut group, next, 90..100);
    group.cut.clear();
    group.pass(100);
    assert_equal(&mut group, 100);
    assert_eq!(group.node(old).replica.counts().installed, 1);
}

#[test]
fn a_crash_inside_of_the_installation_leads_there_too() {
    let mut crashes = 0;
    for at in 0..60 {
        let (mut group, _, away) = one_far_behind(3);
        group.start(away);
        let disk = group.node(away).journal.storage_mut();
        disk.crash_at(at);
        group.pass(200);
        crashes += group.crashes;
        assert_equal(&mut group, 100);
    }
    assert!(crashes >= 10, "{crashes}");
}

#[test]
fn an_empty_disk_gets_everything_after_mending() {
    let (mut group, _, away) = one_far_behind(3);
    journal::mend(group.disks[usize::from(away) - 1].as_mut().expect("stopped")).expect("its vote");
    group.start(away);
    group.pass(100);
    let next = group.elect();
    propose(&mut group, next, 100..103);
    group.pass(20);
    assert_equal(&mut group, 103);
    assert_eq!(group.node(away).replica.doubt(), 0);
    assert_ne!(next, away);
}
