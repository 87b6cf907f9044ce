//! Who is in a group changes while it works: one more, one less, another one in its place.

use crate::common::{Group, State, config};
use journal::SimDisk;
use replication::{Action, Change, Config, Entry, OLDEST, Refusal, ReplicaId, Stop};

/// The records, as a list of numbers.
struct List(Vec<u64>);

impl State for List {
    fn new() -> List {
        List(Vec::new())
    }

    fn apply(&mut self, entry: &Entry) {
        if let Some(bytes) = entry.record.first_chunk::<8>() {
            self.0.push(u64::from_le_bytes(*bytes));
        }
    }

    fn digest(&self) -> u64 {
        self.0.iter().fold(7, |digest, number| types::SplitMix64::mix(digest ^ number))
    }

    fn save(&self) -> Vec<u8> {
        self.0.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    fn load(bytes: &[u8]) -> List {
        let (words, _) = bytes.as_chunks::<8>();
        List(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }
}

fn group(replicas: u8) -> Group<List> {
    let mut group = Group::new(config(replicas));
    group.elect();
    // Until everybody has been greeted.
    group.pass(80);
    group
}

/// Asks whoever leads.
fn ask(group: &mut Group<List>, change: &Change) -> Result<u64, Refusal> {
    let leader = group.leader().expect("one leads");
    let mut asked = Ok(0);
    group.with(leader, |node, out| asked = node.replica.change(change, out));
    group.deliver();
    asked
}

/// Asks until it is made.
fn make(group: &mut Group<List>, change: &Change) {
    let mut last = Ok(0);
    for _ in 0..400 {
        let asked = if group.leader().is_some() { ask(group, change) } else { Ok(0) };
        if let Ok(position) = asked
            && position > 0
        {
            group.pass(3);
            return;
        }
        last = asked;
        group.pass(1);
    }
    panic!("{change:?} was not made: {last:?}");
}

fn add(id: u8) -> Change {
    Change::AddLearner { id: ReplicaId(id), place: vec![b'p', id] }
}

fn promote(id: u8) -> Change {
    Change::Promote(ReplicaId(id))
}

fn remove(id: u8) -> Change {
    Change::Remove(ReplicaId(id))
}

/// A machine with an empty disk.
fn fresh(group: &mut Group<List>, id: u8) {
    let place = usize::from(id);
    if group.nodes.len() < place {
        group.nodes.resize_with(place, || None);
        group.disks.resize_with(place, || None);
        group.newest.resize(place, replication::VERSION);
    }
    group.disks[place - 1] = Some(SimDisk::new(u64::from(id)));
    group.start(id);
}

fn work(group: &mut Group<List>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let leader = group.leader().expect("one leads");
        group.propose(leader, vec![number.to_le_bytes().to_vec()]).expect("it serves");
    }
}

fn voters(group: &mut Group<List>, id: u8) -> Vec<u8> {
    group.node(id).replica.membership().voters().map(|id| id.0).collect()
}

#[test]
fn a_machine_that_is_gone_is_replaced() {
    let mut group = group(3);
    work(&mut group, 0..40);
    let leader = group.leader().expect("one leads");
    let gone = leader % 3 + 1;
    group.kill(gone);
    fresh(&mut group, 4);
    group.pass(100);
    assert_eq!(group.node(4).state.0.len(), 0, "nobody knows it");
    make(&mut group, &add(4));
    work(&mut group, 40..60);
    make(&mut group, &promote(4));
    make(&mut group, &remove(gone));
    work(&mut group, 60..80);
    group.pass(20);
    for id in (1..=4).filter(|id| *id != gone) {
        assert_eq!(group.node(id).state.0, (0..80).collect::<Vec<u64>>(), "replica {id}");
        let member = group.node(id).replica.membership();
        assert_eq!(member.get(ReplicaId(4)).map(|m| &m.place[..]), Some(&b"p\x04"[..]));
        assert_eq!(member.quorum(), 2);
    }
    // The old leader may go now: the new one is counted.
    group.kill(leader);
    let next = group.elect();
    assert_ne!(next, leader);
    work(&mut group, 80..81);

    // The one that was gone comes back with what it had: it elects nobody, and is told.
    let term = group.node(next).replica.standing().term;
    group.start(gone);
    group.pass(60);
    assert!(matches!(group.node(gone).replica.stopped(), Some(Stop::Removed { .. })));
    assert_eq!((group.leader(), group.node(next).replica.standing().term), (Some(next), term));
    assert_eq!(ask(&mut group, &add(gone)), Err(Refusal::Used(ReplicaId(gone))));
}

#[test]
fn a_group_grows_to_five_and_shrinks_to_one() {
    let mut group = group(3);
    let mut sent = 0;
    for id in [4, 5] {
        fresh(&mut group, id);
        make(&mut group, &add(id));
        work(&mut group, sent..sent + 10);
        make(&mut group, &promote(id));
        sent += 10;
    }
    group.pass(10);
    assert_eq!(voters(&mut group, 1), [1, 2, 3, 4, 5]);
    // Two of five may be away.
    let leader = group.leader().expect("one leads");
    let away: Vec<u8> = (1..=5).filter(|id| *id != leader).take(2).collect();
    away.iter().for_each(|id| group.kill(*id));
    work(&mut group, sent..sent + 10);
    sent += 10;
    group.pass(5);
    assert_eq!(group.node(leader).state.0.len() as u64, sent);
    away.iter().for_each(|id| group.start(*id));
    group.pass(60);
    for id in 1..=4 {
        make(&mut group, &remove(id));
        group.pass(120);
        let leader = group.elect();
        work(&mut group, sent..sent + 5);
        sent += 5;
        assert_eq!(group.node(leader).state.0.len() as u64, sent, "without {id}");
        assert!(matches!(group.node(id).replica.stopped(), Some(Stop::Removed { .. })), "{id}");
    }
    assert_eq!(voters(&mut group, 5), [5]);
    assert_eq!(ask(&mut group, &remove(5)), Err(Refusal::Last));
}

#[test]
fn a_leader_that_is_to_go_lets_another_one_lead() {
    let mut group = group(3);
    work(&mut group, 0..10);
    let leader = group.leader().expect("one leads");
    let Err(Refusal::HandsOver(to)) = ask(&mut group, &remove(leader)) else { panic!("it leads") };
    group.pass(3);
    assert_eq!(group.leader(), Some(to.0), "at once, not after an election timeout");
    make(&mut group, &remove(leader));
    group.pass(40);
    assert!(matches!(group.node(leader).replica.stopped(), Some(Stop::Removed { .. })));
    work(&mut group, 10..20);
    group.pass(5);
    assert_eq!(group.node(to.0).state.0.len(), 20);
}

#[test]
fn a_leader_lets_whom_it_is_told_lead_and_nobody_else() {
    let mut group = group(3);
    work(&mut group, 0..10);
    let leader = group.leader().expect("one leads");
    let [to, other] = [leader % 3 + 1, (leader + 1) % 3 + 1];
    let hand = |group: &mut Group<List>, by: u8, to: u8| {
        let mut asked = Ok(());
        group.with(by, |node, out| asked = node.replica.hand_over(ReplicaId(to), out));
        group.deliver();
        asked
    };
    assert_eq!(hand(&mut group, other, to), Err(Refusal::NotLeading(Some(ReplicaId(leader)))));
    assert_eq!(hand(&mut group, leader, 9), Err(Refusal::Unknown(ReplicaId(9))));
    assert_eq!(hand(&mut group, leader, leader), Ok(()), "it does");
    assert_eq!(group.leader(), Some(leader));
    assert_eq!(hand(&mut group, leader, to), Ok(()));
    group.pass(3);
    assert_eq!(group.leader(), Some(to), "at once, not after an election timeout");
    work(&mut group, 10..20);
    group.pass(5);
    assert_eq!(group.node(leader).state.0.len(), 20);
    // One that is away is told nothing, and whoever leads goes on.
    group.kill(other);
    group.pass(60);
    assert_eq!(hand(&mut group, to, other), Err(Refusal::Silent(ReplicaId(other))));
    assert_eq!(group.leader(), Some(to));
}

#[test]
fn what_would_do_harm_is_refused() {
    let mut group = group(3);
    let leader = group.leader().expect("one leads");
    let [away, other] = [leader % 3 + 1, (leader + 1) % 3 + 1];
    let at_follower = {
        let mut asked = Ok(0);
        group.with(other, |node, out| asked = node.replica.change(&add(4), out));
        asked
    };
    assert_eq!(at_follower, Err(Refusal::NotLeading(Some(ReplicaId(leader)))));
    // A new one that does not run, or lacks the log, is not counted.
    make(&mut group, &add(4));
    assert_eq!(ask(&mut group, &promote(4)), Err(Refusal::Silent(ReplicaId(4))));
    work(&mut group, 0..200);
    group.pass(20);
    fresh(&mut group, 4);
    group.passes = |_, bytes| bytes.len() < 400;
    group.pass(60);
    let lags = ask(&mut group, &promote(4));
    assert!(matches!(lags, Err(Refusal::Lags(ReplicaId(4), ..))), "{lags:?}");
    group.passes = |_, _| true;
    make(&mut group, &remove(4));
    // Without one of three, nobody else can be spared.
    group.kill(away);
    group.pass(20);
    assert_eq!(ask(&mut group, &remove(other)), Err(Refusal::TooFew(1, 2)));
    assert_eq!(ask(&mut group, &add(away)), Err(Refusal::Known(ReplicaId(away))));
    // One at a time.
    group.cut = vec![other];
    assert!(ask(&mut group, &add(6)).is_ok());
    assert_eq!(ask(&mut group, &add(7)), Err(Refusal::Pending));
}

/// A change that a leader makes alone is nothing when another leads.
#[test]
fn a_change_that_is_taken_back_leaves_no_trace() {
    let mut group = group(3);
    work(&mut group, 0..5);
    let old = group.leader().expect("one leads");
    group.cut = vec![old];
    assert!(ask(&mut group, &remove(old % 3 + 1)).is_ok());
    assert_eq!(voters(&mut group, old), [1, 2, 3], "it is not committed");
    group.pass(100);
    let new = group.leader().expect("a successor");
    assert_ne!(new, old);
    work(&mut group, 5..10);
    group.cut.clear();
    group.pass(60);
    for id in 1..=3 {
        assert_eq!(voters(&mut group, id), [1, 2, 3], "replica {id}");
        assert_eq!(group.node(id).state.0, (0..10).collect::<Vec<u64>>());
        assert!(group.node(id).journal.groups().is_empty());
    }
    // And after a start, too.
    group.kill(old);
    group.start(old);
    assert_eq!(voters(&mut group, old), [1, 2, 3]);
}

/// The log is given up behind a snapshot that stands for the change.
#[test]
fn snapshots_say_who_is_in_the_group() {
    let mut group = group(3);
    work(&mut group, 0..10);
    make(&mut group, &remove(3));
    fresh(&mut group, 4);
    make(&mut group, &add(4));
    make(&mut group, &promote(4));
    group.pass(40);
    let leader = group.leader().expect("one leads");
    let away = if leader == 4 { 1 } else { 4 };
    group.kill(away);
    // So many that whole segments go behind it.
    work(&mut group, 10..400);
    for id in [1, 2, 4].into_iter().filter(|id| *id != away) {
        group.with(id, |node, out| {
            let position = node.replica.applied();
            node.journal.commit_to(position);
            node.journal.write_snapshot(position, &node.state.save()).expect("room");
            node.journal.retain(position).expect("room");
            assert!(node.journal.first() > 40);
            node.replica.handle_kept(&replication::kept(&node.journal), out);
        });
    }
    // Started again it knows it by the snapshot alone.
    let other = [1, 2, 4].into_iter().find(|id| ![leader, away].contains(id)).expect("three");
    group.kill(other);
    group.start(other);
    assert_eq!(voters(&mut group, other), [1, 2, 4]);
    // Whoever was away gets it with the snapshot; and so does a new one that it does not name.
    group.start(away);
    fresh(&mut group, 5);
    make(&mut group, &add(5));
    work(&mut group, 400..410);
    group.pass(100);
    for id in [1, 2, 4, 5] {
        assert_eq!(voters(&mut group, id), [1, 2, 4], "replica {id}");
        assert_eq!(group.node(id).state.0, (0..410).collect::<Vec<u64>>(), "replica {id}");
    }
    assert!(group.node(5).replica.counts().installed > 0);
    make(&mut group, &promote(5));
    for id in [1, 2, 4, 5] {
        group.pass(5);
        group.kill(id);
        group.start(id);
        group.pass(100);
        assert_eq!(voters(&mut group, id), [1, 2, 4, 5], "replica {id}");
    }
}

#[test]
fn nothing_changes_while_one_speaks_an_older_version() {
    let mut group: Group<List> = Group::new(config(3));
    group.elect();
    group.kill(2);
    group.newest[1] = OLDEST;
    group.start(2);
    group.pass(120);
    assert_eq!(ask(&mut group, &remove(1)), Err(Refusal::Version(OLDEST)));
    group.kill(2);
    group.newest[1] = replication::VERSION;
    group.start(2);
    group.pass(120);
    make(&mut group, &add(4));
}

/// Of a log that holds two changes the first is committed, whatever the watermark says: who has the
/// second knows it, and must not ask the members of before for votes.
#[test]
fn a_replica_goes_on_among_the_members_that_it_knew() {
    let mut group = group(3);
    make(&mut group, &add(4));
    make(&mut group, &add(5));
    group.pass(5);
    let id = 1;
    let mut disk = {
        group.kill(id);
        group.disks[0].clone().expect("killed")
    };
    // What a crash may leave: the watermark before both.
    let open =
        |disk: &SimDisk| journal::Journal::open(disk.clone(), &crate::common::journal_config());
    let (mut journal, _) = open(&disk).expect("a journal");
    let positions: Vec<u64> = journal.groups().iter().map(|(position, _)| *position).collect();
    assert_eq!(positions.len(), 2);
    let mut fresh =
        journal::Journal::open(SimDisk::new(8), &crate::common::journal_config()).unwrap().0;
    let (first, last) = (journal.first(), journal.last());
    journal
        .read(first, last, |record| {
            match record.group {
                [] => fresh.append(record.term, record.bytes),
                group => fresh.append_group(record.term, group),
            }
            .expect("room");
        })
        .expect("readable");
    fresh.flush().expect("room");
    fresh.set_vote(journal.vote()).expect("room");
    assert_eq!(fresh.committed(), 0);
    disk = fresh.into_storage();
    group.disks[0] = Some(disk);
    group.start(id);
    assert_eq!(group.node(id).replica.committed(), positions[0]);
    assert!(group.node(id).replica.membership().get(ReplicaId(4)).is_some());
    assert!(group.node(id).replica.membership().get(ReplicaId(5)).is_none());
}

/// A group of two: the one that shall go leads, and commits that it goes; the other has not heard.
#[test]
fn whoever_is_left_is_helped_by_the_one_that_goes() {
    let mut group = group(1);
    fresh(&mut group, 2);
    make(&mut group, &add(2));
    make(&mut group, &promote(2));
    work(&mut group, 0..5);
    // Replica 1 takes it, and both have it; what would tell replica 2 that it is committed is lost.
    group.cut = vec![];
    let leader = group.leader().expect("one leads");
    assert_eq!(leader, 1);
    let Err(Refusal::HandsOver(to)) = ask(&mut group, &remove(1)) else { panic!("it leads") };
    assert_eq!(to, ReplicaId(2));
    group.pass(5);
    assert_eq!(group.leader(), Some(2));
    make(&mut group, &remove(1));
    group.pass(60);
    assert!(matches!(group.node(1).replica.stopped(), Some(Stop::Removed { .. })));
    work(&mut group, 5..10);
    group.pass(5);
    assert_eq!(group.node(2).state.0.len(), 10);
}

/// Records that look like one of the group's own are the application's all the same.
#[test]
fn records_of_the_application_are_never_taken_for_changes() {
    let mut group = group(3);
    make(&mut group, &add(4));
    group.pass(3);
    let forged = group.node(1).journal.groups()[0].1.clone();
    let leader = group.leader().expect("one leads");
    group.propose(leader, vec![forged.clone()]).expect("it serves");
    group.pass(5);
    let node = group.node(leader);
    assert_eq!(node.replica.membership().number, 1);
    let applied = |action: &Action| matches!(action, Action::Apply(e) if *e.record == *forged);
    assert!(node.said.iter().any(applied));
    assert_eq!(node.journal.groups().len(), 1);
    assert_eq!(Config::new(1, ReplicaId(9), 3).check(), Ok(()), "one that waits to be added");
}

#[test]
fn a_change_is_counted_on_when_most_of_todays_voters_hold_a_record_after_it() {
    let mut group = group(3);
    let leader = group.leader().expect("one leads");
    assert!(group.node(leader).replica.is_settled(), "the founders need no record");
    let (removed, gone) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    assert!(!group.node(gone).replica.is_settled(), "only a leader says so");
    make(&mut group, &remove(removed));
    fresh(&mut group, 4);
    make(&mut group, &add(4));
    group.pass(40);
    let position = ask(&mut group, &promote(4)).expect("it has what the others have");
    assert!(group.node(leader).replica.membership().votes(ReplicaId(4)));
    assert!(!group.node(leader).replica.is_settled(), "nobody holds anything after {position}");
    group.pass(3);
    assert!(group.node(leader).replica.is_settled());
    // One of the two that were needed before is gone, the others start again.
    for id in [leader, gone, 4] {
        group.kill(id);
    }
    for id in [leader, 4] {
        group.start(id);
        assert_eq!(voters(&mut group, id).len(), 3, "from its log alone");
    }
    group.pass(400);
    assert!(group.leader().is_some_and(|leads| leads == leader || leads == 4));
}
