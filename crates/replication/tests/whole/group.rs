//! What a group promises, one promise at a time; many at once are in the simulator.

use crate::common::{Group, State, config, journal_config};
use journal::{Journal, SimDisk};
use proptest::prelude::*;
use replication::{Action, Config, Entry, ProposeError, Replica, ReplicaId, Stop, Write, perform};
use types::{Digest, Nanos};

struct Fold(Digest, Vec<u64>);

impl State for Fold {
    fn new() -> Fold {
        Fold(Digest::default(), Vec::new())
    }

    fn apply(&mut self, entry: &Entry) {
        self.0.fold(entry.position);
        if let Some(bytes) = entry.record.first_chunk::<8>() {
            self.0.fold(u64::from_le_bytes(*bytes));
            self.1.push(u64::from_le_bytes(*bytes));
        }
    }

    fn digest(&self) -> u64 {
        self.0.0
    }
}

fn record(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(4)
}

fn records(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(record).collect()
}

#[test]
fn what_the_leader_takes_everybody_applies_in_order() {
    for replicas in [1, 3, 5] {
        let mut group: Group<Fold> = Group::new(config(replicas));
        let leader = group.elect();
        for first in [0, 10, 20] {
            group.propose(leader, records(first..first + 10)).unwrap();
        }
        group.pass(5);
        let all: Vec<u64> = (0..30).collect();
        for id in 1..=replicas {
            assert_eq!(group.node(id).state.1, all, "replica {id} of {replicas}");
        }
        let counts = group.node(leader).replica.counts();
        assert!(replicas == 1 || counts.compared > 0, "{counts:?}");
    }
}

#[test]
fn only_the_leader_takes_records_and_says_who_it_is() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.pass(5);
    let other = leader % 3 + 1;
    let refused = ProposeError::NotLeading(Some(ReplicaId(leader)));
    assert_eq!(group.propose(other, records(0..1)), Err(refused));
    assert_eq!(group.propose(leader, vec![vec![]]), Err(ProposeError::Record));
    let long = vec![0; 1 + config(3).message_bytes as usize];
    assert_eq!(group.propose(leader, vec![long]), Err(ProposeError::Record));
}

/// A leader that is cut off commits nothing, steps down, and takes back what it had.
#[test]
fn a_leader_cut_off_is_fenced_and_takes_its_tail_back() {
    let mut group: Group<Fold> = Group::new(config(3));
    let old = group.elect();
    group.propose(old, records(0..3)).unwrap();
    group.cut = vec![old];
    group.propose(old, records(100..104)).unwrap();
    assert!(group.node(old).state.1.iter().all(|number| *number < 100), "nothing was applied");
    let term = group.node(old).replica.standing().term;
    group.pass(60);
    assert_eq!(group.node(old).replica.serving(), None, "check-quorum");
    let new = group.leader().expect("a successor");
    assert_ne!(new, old);
    assert!(group.node(new).replica.serving() > Some(term), "under a later term");
    group.propose(new, records(3..6)).unwrap();
    group.cut.clear();
    group.pass(60);
    for id in 1..=3 {
        assert_eq!(group.node(id).state.1, (0..6).collect::<Vec<u64>>(), "replica {id}");
    }
    let chains: Vec<u64> = (1..=3).map(|id| group.node(id).journal.chain()).collect();
    assert!(chains.windows(2).all(|pair| pair[0] == pair[1]), "{chains:?}");
    let took_back =
        |action: &Action| matches!(action, Action::Write { write, .. } if write.kept.is_some());
    assert!(group.node(old).said.iter().any(took_back));
}

/// Pre-vote: one that was away does not depose the leader when it comes back.
#[test]
fn a_leader_whose_disk_does_nothing_any_more_is_followed_by_another() {
    for waits in [1, 3] {
        let mut group: Group<Fold> = Group::new(config(3));
        let leader = group.elect();
        group.hung = vec![leader];
        for number in 0..waits {
            group.propose(leader, records(number..number + 1)).unwrap();
        }
        // A disk that stops for a moment changes nothing.
        group.pass(20);
        assert_eq!(group.node(leader).replica.serving(), Some(1), "{waits} writes");
        group.pass(100);
        assert_ne!(group.leader(), Some(leader), "{waits} writes");
        let next = group.elect();
        group.propose(next, records(10..11)).unwrap();
        group.pass(5);
        assert_eq!(group.node(next).state.1.last(), Some(&10));
    }
}

#[test]
fn one_that_comes_back_disturbs_nobody() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    let away = leader % 3 + 1;
    group.cut = vec![away];
    group.pass(300);
    let term = group.node(leader).replica.standing().term;
    group.cut.clear();
    group.pass(100);
    assert_eq!((group.leader(), group.node(leader).replica.serving()), (Some(leader), Some(term)));
}

#[test]
fn one_that_lags_gets_what_is_only_in_the_journal() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    let away = leader % 3 + 1;
    group.kill(away);
    for first in (0..400).step_by(20) {
        group.propose(leader, records(first..first + 20)).unwrap();
    }
    group.start(away);
    group.pass(40);
    assert_eq!(group.node(away).state.1, (0..400).collect::<Vec<u64>>());
    assert!(group.node(leader).fetched > 0, "the window of 16 has not enough");
}

#[test]
fn one_that_lags_far_catches_up_with_the_only_other_one() {
    let bounds = Config { message_bytes: 2_048, uncommitted_bytes: 64 << 10, ..config(3) };
    for (window, count) in [(16, 2_000), (16, 200), (400, 2_000), (4_000, 2_000)] {
        let mut group: Group<Fold> = Group::new(Config { window, ..bounds.clone() });
        let leader = group.elect();
        let (away, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        group.kill(away);
        for first in (0..count).step_by(20) {
            group.propose(leader, records(first..first + 20)).unwrap();
        }
        group.kill(third);
        group.kill(leader);
        [away, leader].into_iter().for_each(|id| group.start(id));
        assert_eq!(group.elect(), leader, "window of {window}, {count} records");
        group.pass(5);
        assert_eq!(group.node(away).state.1, (0..count).collect::<Vec<u64>>());
    }
}

#[test]
fn a_group_that_was_off_goes_on() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..50)).unwrap();
    (1..=3).for_each(|id| group.kill(id));
    (1..=3).for_each(|id| group.start(id));
    let leader = group.elect();
    group.propose(leader, records(50..51)).unwrap();
    group.pass(5);
    for id in 1..=3 {
        assert_eq!(group.node(id).state.1, (0..51).collect::<Vec<u64>>(), "replica {id}");
    }
}

#[test]
fn a_replica_whose_state_differs_stops_and_others_say_so() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    let odd = leader % 3 + 1;
    group.node(odd).state.0.fold(1);
    group.propose(leader, records(0..20)).unwrap();
    group.pass(5);
    assert_eq!(group.node(odd).replica.stopped(), Some(Stop::Diverged { position: 8 }));
    let differs = Action::Differs { who: ReplicaId(odd), position: 8 };
    assert!(group.node(leader).said.contains(&differs));
    assert_eq!(group.propose(leader, records(20..21)), Ok(()));
    group.pass(5);
    assert_eq!(group.node(leader).state.1.len(), 21, "two of three go on");
    assert!(group.node(odd).state.1.len() < 21, "and it applies nothing more");
}

#[test]
fn a_replica_whose_disk_was_wiped_gets_all_again_before_it_elects_anybody() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..20)).unwrap();
    group.pass(5);
    let wiped = leader % 3 + 1;
    group.kill(wiped);
    group.disks[usize::from(wiped) - 1] = Some(SimDisk::new(99));
    group.start(wiped);
    group.pass(2);
    assert_eq!(group.node(wiped).replica.counts().set_back, 1, "the others know");
    group.pass(200);
    let leader = group.leader().expect("two of three are whole");
    assert_ne!(leader, wiped);
    assert_eq!(group.node(wiped).replica.waits(), None);
    assert_eq!(group.node(wiped).state.1.len(), 20);
}

#[test]
fn writes_that_follow_one_another_share_a_sync() {
    let entry =
        |position| Entry { position, term: 1, record: record(position).into(), group: Vec::new() };
    let write = |positions: std::ops::Range<u64>| Write {
        entries: positions.map(entry).collect(),
        ..Write::default()
    };
    let mut first = write(1..3);
    assert_eq!(first.join(write(3..6)), Ok(()));
    assert_eq!(first.join(write(7..8)), Err(write(7..8)), "a gap");
    let back = Write { kept: Some(5), ..write(6..7) };
    assert_eq!(first.join(back.clone()), Err(back));
    let (mut journal, _) = Journal::open(SimDisk::new(1), &journal_config()).unwrap();
    perform(&mut journal, &first).unwrap();
    assert_eq!((journal.durable(), journal.stats().batches), (5, 1));
}

/// A write that found no room is tried again, whole, and is there once.
#[test]
fn a_full_disk_is_tried_again() {
    let small =
        journal::Config { segment_bytes: 16 << 10, batch_bytes: 4 << 10, ..journal_config() };
    let entry =
        |position| Entry { position, term: 1, record: record(position).into(), group: Vec::new() };
    let (mut journal, _) = Journal::open(SimDisk::new(1), &small).unwrap();
    let first = Write { entries: (1..=200).map(entry).collect(), ..Write::default() };
    perform(&mut journal, &first).unwrap();
    let full = journal::DiskFaults { room: 1, ..<_>::default() };
    journal.storage_mut().set_faults(full);
    let newer = |position| Entry { term: 2, ..entry(position) };
    let entries = (150..=400).map(newer).collect();
    let again = Write { kept: Some(149), entries, ..Write::default() };
    for _ in 0..3 {
        assert!(matches!(perform(&mut journal, &again), Err(journal::JournalError::Full(_))));
    }
    journal.storage_mut().set_faults(Default::default());
    perform(&mut journal, &again).unwrap();
    let mut terms = Vec::new();
    journal.read(1, 400, |record| terms.push((record.position, record.term))).unwrap();
    let expected: Vec<(u64, u64)> =
        (1..=400).map(|position| (position, 1 + u64::from(position >= 150))).collect();
    assert_eq!(terms, expected);
}

#[test]
fn configurations_that_make_no_group_are_refused() {
    let good = config(3);
    assert!(good.check().is_ok());
    for bad in [
        Config { replicas: 2, ..good.clone() },
        Config { replicas: 11, ..good.clone() },
        Config { id: ReplicaId(0), ..good.clone() },
        Config { tick_ns: 0, ..good.clone() },
        Config { election_ticks: 2, ..good.clone() },
        Config { uncommitted_bytes: 10, ..good.clone() },
    ] {
        assert!(Replica::new(bad.clone(), Default::default(), Nanos(0)).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_replica_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4),
    ) {
        let mut replica = Replica::new(config(3), Default::default(), Nanos(0)).unwrap();
        let mut other =
            Replica::new(Config { id: ReplicaId(2), ..config(3) }, Default::default(), Nanos(0))
                .unwrap();
        let (mut out, mut sent) = (Vec::new(), Vec::new());
        replica.handle_message(&bytes, &mut out);
        other.campaign(&mut sent);
        for action in sent {
            let Action::Send { mut bytes, .. } = action else { continue };
            for (place, bit) in &flips {
                let place = place.index(bytes.len());
                bytes[place] ^= 1 << bit;
            }
            replica.handle_message(&bytes, &mut out);
        }
        prop_assert!(replica.counts().refused > 0);
    }
}

/// Three replicas: the leader and another one have a record that the third has not; the leader is
/// down, and the other one's disk has lost some of it.
fn after_a_loss() -> (Group<Fold>, [u8; 3]) {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..20)).unwrap();
    group.pass(5);
    let [lost, behind] = [leader % 3 + 1, (leader + 1) % 3 + 1];
    group.cut = vec![behind];
    group.propose(leader, records(20..21)).unwrap();
    group.pass(5);
    assert_eq!(group.node(leader).state.1.last(), Some(&20), "most have it");
    group.kill(leader);
    group.kill(lost);
    group.cut.clear();
    (group, [leader, lost, behind])
}

#[test]
fn a_damaged_replica_comes_back_and_elects_nobody_before_it_has_what_it_had() {
    let (mut group, [leader, lost, behind]) = after_a_loss();
    let disk = group.disks[usize::from(lost) - 1].as_mut().expect("killed");
    assert!(disk.flip("log-0000000000000001", 8 * 600), "a bit of the first frame");
    let refused = Journal::open(disk.clone(), &journal_config()).err().expect("damaged");
    assert!(refused.to_string().contains("log-0000000000000001"), "{refused}");
    let mended = journal::mend(disk).expect("its vote is whole");
    assert_eq!(mended.aside.len(), 1);

    group.start(lost);
    assert!(group.node(lost).replica.doubt() > 0);
    group.pass(1_000);
    assert_eq!(group.leader(), None, "replica {behind} lacks a record that was committed");

    group.start(leader);
    let next = group.elect();
    assert_eq!(next, leader);
    group.pass(20);
    let all: Vec<u64> = (0..21).collect();
    for id in 1..=3 {
        assert_eq!(group.node(id).state.1, all, "replica {id}");
    }
    assert_eq!(group.node(lost).replica.doubt(), 0);

    // It is one of them again: with the third it elects, also after a start of its own.
    group.kill(lost);
    group.kill(leader);
    group.start(lost);
    let next = group.elect();
    group.propose(next, records(21..22)).unwrap();
    group.pass(5);
    assert_eq!(group.node(lost).state.1.len(), 22);
    assert_eq!(group.node(behind).state.1.len(), 22);
}

#[test]
fn a_replica_that_forgets_what_it_promised_would_lose_what_was_committed() {
    let (mut group, [leader, lost, _]) = after_a_loss();
    group.disks[usize::from(lost) - 1] = Some(SimDisk::new(99));
    group.start(lost);
    let other = group.elect();
    assert_ne!(other, leader);
    assert_eq!(group.node(other).state.1.last(), Some(&19), "what mending has to prevent");
}

#[test]
fn while_its_leader_lives_a_mended_replica_makes_it_begin_a_new_term() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..20)).unwrap();
    group.pass(5);
    let lost = leader % 3 + 1;
    group.kill(lost);
    journal::mend(group.disks[usize::from(lost) - 1].as_mut().expect("killed")).expect("whole");
    group.start(lost);
    group.pass(200);
    let next = group.leader().expect("most of them are whole");
    assert_ne!(next, lost);
    assert_eq!(group.node(lost).state.1.len(), 20);
    assert_eq!(group.node(lost).replica.doubt(), 0);
}
