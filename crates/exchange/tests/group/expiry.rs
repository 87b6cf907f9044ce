//! Orders with an end, whoever leads when it comes and whatever a member began from.

use types::{CancelReason, CommandKind, ExecutionReport, Nanos, Side};
use zerocopy::TryFromBytes;

use crate::common::MS;
use crate::plain;
use crate::world::{CALM, Group, MEMBERS, ROUGH};

/// Participant 0 has a bid that ends at this time.
fn dated(group: &mut Group, end: Nanos) {
    group.order_until(0, Side::Buy, 50, Some(end));
    group.run(100 * MS);
    let lead = group.leader().expect("one leads");
    assert_eq!(group.root(lead).engine().next_expiry(), end);
}

/// When the bid ended by a member's log.
fn ended(group: &Group, n: usize) -> Nanos {
    let (root, account) = (group.root(n), group.config.accounts[0].id);
    assert_eq!(root.engine().next_expiry(), Nanos::NEVER);
    let last = root.private().next_position(account) - 1;
    let bytes = root.private().record(account, last).expect("a record");
    let report = ExecutionReport::try_read_from_bytes(bytes).expect("a report");
    assert_eq!(report.cancel_reason, CancelReason::Expired);
    report.t_seq
}

#[test]
fn the_leader_ends_an_order_and_all_members_alike() {
    let mut group = Group::new(&plain(), CALM, 1);
    group.login_all();
    let end = Nanos(group.now + 400 * MS);
    dated(&mut group, end);
    group.run(400 * MS);
    for n in 0..MEMBERS {
        let at = ended(&group, n);
        assert!(at >= end && at <= end.after(MS), "{} ns late", at.since(end));
        let commands =
            group.root(n).log().iter().filter(|i| i.command.kind == CommandKind::ExpireOrders);
        assert_eq!(commands.count(), 1, "one leads, and it says so once");
    }
    group.check("calm");
}

#[test]
fn an_order_ends_though_its_leader_died_and_another_began_behind_a_checkpoint() {
    for (seed, links) in [(1, CALM), (2, ROUGH), (3, CALM), (4, ROUGH)] {
        let mut group = Group::new(&plain(), links, seed);
        group.machines.iter_mut().for_each(|machine| machine.checkpoint_every = 5);
        group.login_all();
        // Longer than it takes until another leads, or within that time.
        let live = if seed % 2 == 1 { 2_500 } else { 300 };
        let end = Nanos(group.now + live * MS);
        dated(&mut group, end);
        let old = group.leader().expect("one leads");
        group.kill(old);
        group.run(1_200 * MS);
        assert_ne!(group.leader().expect("another"), old, "seed {seed}");
        group.start(old).expect("its own disk");
        group.run(2_000 * MS);
        let lead = group.leader().expect("one leads");
        let at = ended(&group, lead);
        assert!(at >= end, "seed {seed}: {} ns early", end.since(at));
        assert!(seed % 2 == 0 || at <= end.after(MS), "seed {seed}: {} ns late", at.since(end));
        (0..MEMBERS).for_each(|n| assert_eq!(ended(&group, n), at, "seed {seed}, member {n}"));
        group.check(&format!("seed {seed}"));
    }
}
