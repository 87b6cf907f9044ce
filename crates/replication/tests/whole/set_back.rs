//! Disks that are set back to older copies: nothing acknowledged is lost, or nobody leads and says why.

use std::collections::BTreeMap;

use crate::common::{Group, State, config};
use journal::{Journal, SimDisk, TERMS_UNHEARD, begin_in_doubt, yield_to};
use replication::{Action, Config, Entry, OLDEST, Stop, VERSION, Waits};

/// The numbers of all records.
struct Fold(u64, Vec<u64>);

impl State for Fold {
    fn new() -> Fold {
        Fold(0, Vec::new())
    }

    fn apply(&mut self, entry: &Entry) {
        self.0 = entry.position;
        if let Some(bytes) = entry.record.first_chunk::<8>() {
            self.1.push(u64::from_le_bytes(*bytes));
        }
    }

    fn digest(&self) -> u64 {
        self.1.iter().fold(self.0, |digest, number| digest.rotate_left(7) ^ number)
    }
}

fn records(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    numbers.map(|number| number.to_le_bytes().to_vec()).collect()
}

/// A disk as it is now, of a machine that may run.
fn copy(group: &mut Group<Fold>, id: u8) -> SimDisk {
    let place = usize::from(id) - 1;
    let mut disk = match &mut group.nodes[place] {
        Some(node) => node.journal.storage_mut().clone(),
        None => group.disks[place].clone().expect("a disk"),
    };
    disk.restart();
    disk
}

fn disk(group: &mut Group<Fold>, id: u8) -> &mut SimDisk {
    group.disks[usize::from(id) - 1].as_mut().expect("killed")
}

fn set_back(group: &mut Group<Fold>, id: u8, older: &SimDisk) {
    disk(group, id).set_back(older);
}

/// Who began to lead in which term: in none two, and none twice.
fn leaders(group: &Group<Fold>, known: &mut BTreeMap<u64, u8>) {
    for (id, node) in (1..).zip(&group.nodes) {
        for action in node.iter().flat_map(|node| &node.said) {
            if let Action::Lead { term } = action {
                assert_eq!(*known.entry(*term).or_insert(id), id, "term {term} has two leaders");
            }
        }
    }
}

fn all_have(group: &mut Group<Fold>, count: u64) {
    let all: Vec<u64> = (0..count).collect();
    for id in 1..=3 {
        assert_eq!(group.node(id).state.1, all, "replica {id}");
        assert_eq!(group.node(id).replica.waits(), None, "replica {id}");
    }
}

/// Whose disk is set back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Leader,
    Follower,
    RejoinedLeader,
}

/// Leader A and follower B acknowledge while C is down; both die, and the disk of one is an older copy. With C
/// alone it elects nobody; with the other one, which is whole, nothing is lost, and all are one group
/// again in which it elects.
fn one_is_set_back(who: Who, quiet: bool) {
    let mut group: Group<Fold> = Group::new(config(3));
    let mut terms = BTreeMap::new();
    let mut leader = group.elect();
    group.propose(leader, records(0..10)).unwrap();
    group.pass(5);
    let mut next = 10;
    let first = leader;
    if who == Who::RejoinedLeader {
        group.kill(first);
        leader = group.elect();
        group.start(first);
        group.pass(200);
        group.propose(leader, records(next..next + 5)).unwrap();
        next += 5;
        group.pass(5);
    }
    let victim = match who {
        Who::Leader => leader,
        Who::Follower => leader % 3 + 1,
        Who::RejoinedLeader => first,
    };
    let whole = if victim == leader { leader % 3 + 1 } else { leader };
    let behind = (1..=3).find(|id| *id != victim && *id != whole).expect("three of them");
    let older = copy(&mut group, victim);
    leaders(&group, &mut terms);
    group.kill(behind);
    group.propose(leader, records(next..next + 10)).unwrap();
    next += 10;
    group.pass(if quiet { 100 } else { 0 });
    let acknowledged = group.node(leader).state.1.len() as u64;
    assert_eq!(acknowledged, next, "two of three have it");
    leaders(&group, &mut terms);
    group.kill(victim);
    group.kill(whole);
    set_back(&mut group, victim, &older);
    for id in [victim, behind] {
        group.start(id);
    }
    group.pass(600);
    assert_eq!(group.leader(), None, "{who:?}: {behind} lacks what was acknowledged");
    let waits = group.node(victim).replica.waits().expect("it is a copy");
    assert_eq!(waits, Waits::SetBack { sure: 1, needed: 2 });
    assert!(waits.to_string().contains("older copy"), "{waits}");

    group.start(whole);
    let leads = group.elect();
    assert_eq!(leads, whole, "{who:?}");
    group.pass(100);
    all_have(&mut group, next);
    leaders(&group, &mut terms);
    // It is one of them again: without the one that was whole.
    group.kill(whole);
    let leads = group.elect();
    group.propose(leads, records(next..next + 1)).unwrap();
    next += 1;
    group.pass(5);
    group.start(whole);
    group.pass(200);
    all_have(&mut group, next);
    leaders(&group, &mut terms);
}

#[test]
fn one_disk_that_is_set_back_elects_nobody_before_it_has_what_it_had() {
    for who in [Who::Leader, Who::Follower, Who::RejoinedLeader] {
        for quiet in [false, true] {
            one_is_set_back(who, quiet);
        }
    }
}

/// What all that prevents: a copy that nobody takes for one loses what was acknowledged.
#[test]
fn a_copy_that_is_not_found_out_would_lose_what_was_acknowledged() {
    let (mut group, [_, victim, behind], older) = acknowledged_by_two();
    disk(&mut group, victim).set_back_unseen(&older);
    group.start(victim);
    group.start(behind);
    let leader = group.elect();
    assert_eq!(group.node(leader).state.1.len(), 10, "of 20");
}

/// Leader and follower have 20 records, the third has 10, and all are down; the follower's disk with 10.
fn acknowledged_by_two() -> (Group<Fold>, [u8; 3], SimDisk) {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..10)).unwrap();
    group.pass(50);
    let (victim, behind) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let older = copy(&mut group, victim);
    group.kill(behind);
    group.propose(leader, records(10..20)).unwrap();
    group.pass(50);
    for id in [victim, leader] {
        // As a disk that is idle for a moment does.
        let node = group.node(id);
        node.journal.commit_to(node.replica.applied());
        group.kill(id);
    }
    (group, [leader, victim, behind], older)
}

/// Below the file system nothing tells a copy from what was there; whoever knows more tells it, also after
/// a start of its own.
#[test]
fn whoever_knows_more_of_a_disk_tells_it() {
    let (mut group, [leader, victim, behind], older) = acknowledged_by_two();
    disk(&mut group, victim).set_back_unseen(&older);
    // Without the leader's log: the two others would elect one another.
    for id in [leader, victim, behind] {
        group.start(id);
    }
    group.pass(2);
    assert_eq!(group.node(victim).replica.counts().set_back, 1);
    group.elect();
    group.pass(200);
    all_have(&mut group, 20);
    // What it knows has to be on its disk: otherwise it knows nothing after a start.
    let (mut group, [leader, victim, behind], older) = acknowledged_by_two();
    disk(&mut group, victim).set_back_unseen(&older);
    disk(&mut group, leader).take("peers");
    for id in [leader, victim, behind] {
        group.start(id);
    }
    group.pass(20);
    assert_eq!(group.node(victim).replica.counts().set_back, 0);
}

/// Two of three: the one that is whole can't know what it lacks. Nobody leads, and they say so; by an
/// operator's word its log counts.
#[test]
fn two_that_are_set_back_elect_nobody_until_an_operator_says_whose_log_counts() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..10)).unwrap();
    group.pass(5);
    let older = [1, 2, 3].map(|id| copy(&mut group, id));
    group.propose(leader, records(10..20)).unwrap();
    group.pass(50);
    (1..=3).for_each(|id| group.kill(id));
    let whole = leader;
    let back: Vec<u8> = (1..=3).filter(|id| *id != whole).collect();
    for id in &back {
        set_back(&mut group, *id, &older[usize::from(*id) - 1]);
    }
    (1..=3).for_each(|id| group.start(id));
    group.pass(600);
    assert_eq!(group.leader(), None);
    for id in &back {
        let waits = group.node(*id).replica.waits();
        assert_eq!(waits, Some(Waits::SetBack { sure: 1, needed: 2 }), "replica {id}");
    }
    group.kill(back[0]);
    let done = yield_to(disk(&mut group, back[0]), (back[0].into(), whole.into())).expect("whole");
    assert!(done.set_back && done.held >= 10, "{done:?}");
    group.start(back[0]);
    assert_eq!(group.elect(), whole);
    group.pass(200);
    all_have(&mut group, 20);
}

/// Two damaged logs are mended, and the third holds everything: nobody leads until an operator says that its
/// log counts.
#[test]
fn two_mended_ones_elect_the_third_by_an_operators_word() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    group.propose(leader, records(0..20)).unwrap();
    group.pass(50);
    (1..=3).for_each(|id| group.kill(id));
    let damaged: Vec<u8> = (1..=3).filter(|id| *id != leader).collect();
    for id in &damaged {
        journal::mend(disk(&mut group, *id)).expect("its vote is whole");
    }
    (1..=3).for_each(|id| group.start(id));
    group.pass(600);
    assert_eq!(group.leader(), None);
    let waits = group.node(damaged[0]).replica.waits().expect("it was mended");
    assert!(waits.to_string().contains("replica recover"), "{waits}");
    for id in &damaged {
        group.kill(*id);
        let done = yield_to(disk(&mut group, *id), ((*id).into(), leader.into())).expect("whole");
        assert!(done.held >= 19, "{done:?}");
        group.start(*id);
    }
    assert_eq!(group.elect(), leader);
    group.pass(100);
    all_have(&mut group, 20);
}

/// Two disks are gone for good: begun anew they elect the third by an operator's word, and nobody without
/// it. Empty ones elect one another, and what was acknowledged is lost: they are never to be started.
#[test]
fn two_disks_that_are_gone_are_begun_anew_and_elect_the_third_alone() {
    let begun = |word: bool| {
        let mut group: Group<Fold> = Group::new(config(3));
        let leader = group.elect();
        group.propose(leader, records(0..20)).unwrap();
        group.pass(50);
        (1..=3).for_each(|id| group.kill(id));
        let gone: Vec<u8> = (1..=3).filter(|id| *id != leader).collect();
        for own in &gone {
            *disk(&mut group, *own) = SimDisk::new(90 + u64::from(*own));
            if word {
                let ends = (leader.into(), 1_000_000);
                let done = begin_in_doubt(disk(&mut group, *own), 5, ends).expect("empty");
                assert_eq!(done.doubt, 1_000_000 + TERMS_UNHEARD);
                let again = begin_in_doubt(disk(&mut group, *own), 5, ends);
                assert!(again.is_err(), "it has a journal now");
            }
            group.start(*own);
        }
        group.pass(600);
        (group, leader)
    };
    let (mut group, leader) = begun(true);
    assert_eq!(group.leader(), None, "they elect nobody else");
    group.start(leader);
    assert_eq!(group.elect(), leader);
    group.pass(200);
    all_have(&mut group, 20);
    // Whole again, they go on without it.
    group.kill(leader);
    assert_ne!(group.elect(), leader);
    let (group, leader) = begun(false);
    assert!(group.leader().is_some_and(|other| other != leader), "as a new group would");
}

/// The operator's word was wrong: somebody holds more, and comes back. It stops and says so; its records
/// are taken for nobody's.
#[test]
fn one_that_holds_what_a_recovered_group_lacks_stops_and_says_so() {
    let (mut group, [leader, victim, behind], older) = acknowledged_by_two();
    set_back(&mut group, victim, &older);
    yield_to(disk(&mut group, victim), (victim.into(), behind.into())).expect("its vote is whole");
    group.start(victim);
    group.start(behind);
    assert_eq!(group.elect(), behind);
    group.propose(behind, records(100..103)).unwrap();
    group.start(leader);
    group.pass(300);
    let stopped = group.node(leader).replica.stopped();
    assert!(matches!(stopped, Some(Stop::Overruled { position: 12.. })), "{stopped:?}");
    assert_eq!(group.leader(), Some(behind), "the others go on");
    assert_eq!(group.node(victim).state.1.len(), 13);
}

/// A vote that was forgotten is not given again in the same term, although only its candidate knew of it.
#[test]
fn terms_in_which_a_disk_that_was_set_back_may_have_voted_are_passed_over() {
    let mut group: Group<Fold> = Group::new(config(3));
    let leader = group.elect();
    let victim = leader % 3 + 1;
    group.propose(leader, records(0..10)).unwrap();
    group.pass(5);
    let older = copy(&mut group, victim);
    let before = group.node(leader).replica.standing().term;
    group.kill(victim);
    set_back(&mut group, victim, &older);
    group.start(victim);
    group.pass(100);
    let term = group.node(victim).replica.standing().term;
    assert!(term > before + journal::TERMS_UNHEARD, "{before}, {term}");
    all_have(&mut group, 10);
}

/// Stops a replica and starts it in another version.
fn start_as(group: &mut Group<Fold>, id: u8, newest: u8) {
    if group.nodes[usize::from(id) - 1].is_some() {
        group.kill(id);
    }
    group.newest[usize::from(id) - 1] = newest;
    group.start(id);
}

/// Others that know no questions are heard all the same: a group is upgraded one by one.
#[test]
fn one_that_is_upgraded_first_takes_part_although_nobody_answers() {
    for before in OLDEST..VERSION {
        let mut group: Group<Fold> = Group::new(Config { newest: before, ..config(3) });
        let leader = group.elect();
        let first = leader % 3 + 1;
        start_as(&mut group, first, VERSION);
        group.pass(200);
        assert_eq!(group.node(first).replica.waits(), None, "version {before}");
        group.kill(leader);
        group.elect();
    }
}

/// The leader is not heard of, and this one is the first to ask for votes.
fn lead(group: &mut Group<Fold>, id: u8) {
    group.cut = group.leader().into_iter().collect();
    for _ in 0..100 {
        group.pass(1);
        group.with(id, |node, out| node.replica.campaign(out));
        group.deliver();
        if group.leader() == Some(id) {
            group.cut.clear();
            return group.pass(50);
        }
    }
    panic!("another one leads: {:?}", group.leader());
}

/// Of five, two others have to be heard, and followers of the oldest version say nothing by themselves while
/// somebody leads.
#[test]
fn five_are_upgraded_one_by_one_although_followers_are_silent() {
    for before in OLDEST..VERSION {
        let mut group: Group<Fold> = Group::new(Config { newest: before, ..config(5) });
        let leader = group.elect();
        // Whoever leads comes last; then an upgraded one leads silent ones, too.
        let ids: Vec<u8> = (1..=5).map(|step| (leader - 1 + step) % 5 + 1).collect();
        for (done, id) in ids.iter().enumerate() {
            start_as(&mut group, *id, VERSION);
            group.pass(200);
            let known = format!("version {before}, {done} upgraded before {id}");
            assert_eq!(group.node(*id).replica.waits(), None, "{known}");
            let leads = group.leader().expect("somebody leads");
            let term = group.node(leads).replica.standing().term;
            group.propose(leads, records(0..1)).unwrap();
            group.pass(5);
            assert_eq!(group.node(*id).state.1.len(), done + 1, "{known}");
            group.pass(100);
            assert_eq!(group.node(leads).replica.standing().term, term, "{known}");
            if done == 0 {
                lead(&mut group, *id);
            }
        }
    }
}

/// Nobody who knows no questions can say what one that is set back has promised: it waits until enough
/// of them are upgraded, and takes part then.
#[test]
fn one_that_is_set_back_waits_until_the_others_are_upgraded() {
    for before in OLDEST..VERSION {
        let mut group: Group<Fold> = Group::new(Config { newest: before, ..config(3) });
        let leader = group.elect();
        group.propose(leader, records(0..10)).unwrap();
        group.pass(5);
        let victim = leader % 3 + 1;
        let older = copy(&mut group, victim);
        group.propose(leader, records(10..20)).unwrap();
        group.pass(5);
        group.kill(victim);
        set_back(&mut group, victim, &older);
        start_as(&mut group, victim, VERSION);
        group.pass(300);
        let waits = group.node(victim).replica.waits();
        assert_eq!(waits, Some(Waits::SetBack { sure: 0, needed: 2 }), "version {before}");
        for id in (1..=3).filter(|id| *id != victim) {
            start_as(&mut group, id, VERSION);
            group.pass(300);
        }
        all_have(&mut group, 20);
    }
}

/// A whole group that starts from its disks leads as soon as most are there.
#[test]
fn whole_disks_elect_with_one_of_them_down_for_good() {
    let (mut group, [leader, follower, _], _) = acknowledged_by_two();
    group.start(leader);
    group.start(follower);
    group.elect();
    group.pass(5);
    assert_eq!(group.node(follower).state.1.len(), 20);
    // And a folder that opens without its group says nothing of that.
    let (journal, found) =
        Journal::open(SimDisk::new(3), &crate::common::journal_config()).expect("an empty folder");
    assert!(!found.set_back && journal.peers().is_empty());
}
