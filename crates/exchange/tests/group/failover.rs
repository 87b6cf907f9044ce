//! A leader goes, another leads.

use exchange::{ExchangeConfig, Role};
use overlay::frame::{FrameKind, HopHeader};
use types::{CommandKind, Nanos, Side};

use crate::{
    common::MS,
    plain, sealed,
    world::{CALM, Group, Links, MEMBERS, ROUGH},
};

const EVERY: u64 = 2 * MS;

fn begun(config: &ExchangeConfig, links: Links, seed: u64) -> Group {
    let mut group = Group::new(config, links, seed);
    assert!(group.leader().is_some(), "seed {seed}: somebody leads");
    group.login_all();
    group
}

/// The leader takes orders that the others do not hear of.
fn orders_nobody_commits(group: &mut Group) -> usize {
    let leader = group.leader().expect("a leader");
    group.alone[leader] = true;
    for _ in 0..20 {
        for n in 0..group.clients.len() {
            group.order(n, if n == 0 { Side::Sell } else { Side::Buy }, 100);
        }
        group.run(MS);
    }
    assert!(group.root(leader).waiting() > 10, "inputs that are not committed");
    leader
}

#[test]
fn three_members_are_equal_and_one_speaks() {
    for (config, links) in [(plain(), CALM), (sealed(), ROUGH)] {
        let mut group = begun(&config, links, 1);
        let before = group.led;
        group.trade(400 * MS, EVERY);
        group.run(1_000 * MS);
        group.check("calm");
        assert_eq!(group.led, before, "nobody else has led");
        let of_others = group.spoken.iter().filter(|(term, ..)| *term != before.0).count();
        assert_eq!(of_others, 0);
        for machine in &group.machines {
            let counts = machine.member().expect("it runs").replica().counts();
            assert!(
                counts.compared > 5 && machine.differs == 0,
                "digests were compared: {counts:?}"
            );
        }
        let traded = group.root(0).engine().counters();
        assert!(traded.accepted > 400, "{traded:?}");
    }
}

#[test]
fn a_leader_that_vanishes_with_uncommitted_inputs_is_followed_by_another() {
    for seed in 0..6 {
        let (config, links) = match seed % 3 {
            0 => (plain(), CALM),
            1 => (plain(), ROUGH),
            _ => (sealed(), ROUGH),
        };
        let mut group = begun(&config, links, seed);
        group.trade(100 * MS, EVERY);
        let old = orders_nobody_commits(&mut group);
        group.kill(old);
        group.run(1_500 * MS);
        assert_ne!(group.leader().expect("another"), old, "seed {seed}");
        assert!(group.clients.iter().all(|client| !client.closed), "sessions go on: seed {seed}");
        group.trade(100 * MS, EVERY);
        group.run(1_000 * MS);
        group.check(&format!("seed {seed}, with two"));
        // From its journal.
        group.alone = [false; MEMBERS];
        group.start(old).expect("its own journal");
        group.trade(100 * MS, EVERY);
        group.run(1_500 * MS);
        group.check(&format!("seed {seed}, all three"));
    }
}

#[test]
fn an_old_leader_that_was_paused_takes_back_what_nobody_committed() {
    for seed in 0..6 {
        let (config, links) = if seed % 2 == 0 { (plain(), CALM) } else { (sealed(), ROUGH) };
        let mut group = begun(&config, links, seed);
        group.trade(100 * MS, EVERY);
        let old = orders_nobody_commits(&mut group);
        group.sleep(old, 1_200 * MS);
        group.run(1_000 * MS);
        assert_ne!(group.leader().filter(|n| *n != old), None, "seed {seed}: another leads");
        group.trade(100 * MS, EVERY);
        // It wakes, and says what it has to say before it knows.
        group.alone[old] = false;
        group.run(400 * MS);
        assert_eq!(group.machines[old].leading(), None, "seed {seed}");
        group.trade(100 * MS, EVERY);
        group.run(1_500 * MS);
        assert!(group.clients.iter().all(|client| !client.closed), "seed {seed}");
        group.check(&format!("seed {seed}"));
        // And it can lead again.
        group.member(old, |member, now, out| member.campaign(now, out));
        group.run(500 * MS);
        group.trade(100 * MS, EVERY);
        group.run(1_500 * MS);
        assert!(group.clients.iter().all(|client| !client.closed), "seed {seed}");
        group.check(&format!("seed {seed}, again"));
    }
}

#[test]
fn what_an_old_leader_said_changes_nothing_later() {
    for (config, seed) in [(plain(), 1), (sealed(), 2)] {
        let mut group = begun(&config, CALM, seed);
        group.trade(100 * MS, EVERY);
        // What it sends now is late: nobody has it before another leads.
        let (old, from) = (group.leader().expect("a leader"), group.spoken.len());
        group.mute = true;
        group.trade(60 * MS, EVERY);
        let late: Vec<_> = group.spoken.split_off(from);
        group.kill(old);
        group.mute = false;
        group.run(1_000 * MS);
        group.trade(100 * MS, EVERY);
        group.run(500 * MS);
        let (released, refused) = (group.released.clone(), refused(&group));
        let mut data = 0;
        for (term, to, bytes) in &late {
            assert!(*term < group.led.0);
            let is_data = HopHeader::read(bytes).is_ok_and(|(h, _)| h.kind == FrameKind::Data);
            let said = group.inject(*to, bytes);
            let sealed = config.options.secret.is_some();
            assert!(said == 0 || !is_data && !sealed, "market data of an earlier term goes on");
            data += u32::from(is_data || sealed);
        }
        assert!(data > 20, "{data} of {}", late.len());
        assert_eq!(group.released, released);
        if config.options.secret.is_some() {
            assert_eq!(self::refused(&group), refused + late.len() as u64, "every single one");
        }
        group.trade(50 * MS, EVERY);
        group.run(1_000 * MS);
        assert!(group.clients.iter().all(|client| !client.closed));
        group.check("after all that");
    }
}

/// Datagrams that links did not let in.
fn refused(group: &Group) -> u64 {
    let links = group.nodes.iter().flatten().filter_map(Role::link);
    links.map(|stats| stats.refused() + stats.other_life).sum()
}

#[test]
fn orders_go_when_gateway_and_leader_die_together() {
    for (gateway_too, restarts) in [(true, false), (true, true), (false, false)] {
        let mut config = plain();
        config.cancel_grace_ns = 300 * MS;
        config.accounts[0].cancel_on_disconnect = true;
        config.accounts[1].cancel_on_disconnect = true;
        let mut group = begun(&config, CALM, 5);
        group.order(0, Side::Buy, 90);
        group.order(1, Side::Buy, 91);
        group.order(2, Side::Buy, 92);
        group.run(50 * MS);
        let old = group.leader().expect("a leader");
        // Of accounts that nobody had when the first leader began.
        let before = mass_cancels(&group, old);
        group.kill(old);
        if gateway_too {
            group.kill_edge(0);
        }
        group.run(500 * MS);
        let leader = group.leader().expect("another");
        assert_eq!(group.root(leader).engine().open_orders(), 3, "lease and grace");
        if restarts {
            group.alone = [false; MEMBERS];
            group.start(old).expect("its journal");
        }
        group.run(1_500 * MS);
        let open = if gateway_too { 2 } else { 3 };
        let leader = group.leader().expect("a leader");
        assert_eq!(group.root(leader).engine().open_orders(), open);
        let cancels = mass_cancels(&group, leader) - before;
        assert_eq!(cancels, usize::from(gateway_too), "once");
        assert!(group.clients[1..].iter().all(|client| !client.closed));
    }
}

/// Who has been heard of since the new leader began has its whole grace when it leaves.
#[test]
fn grace_after_a_failover_is_as_long_as_ever() {
    let mut config = plain();
    config.cancel_grace_ns = 400 * MS;
    config.accounts[0].cancel_on_disconnect = true;
    let mut group = begun(&config, CALM, 6);
    group.order(0, Side::Buy, 90);
    group.run(50 * MS);
    let old = group.leader().expect("a leader");
    let before = mass_cancels(&group, old);
    group.kill(old);
    // Long after.
    group.run(3_000 * MS);
    let leader = group.leader().expect("another");
    assert!(!group.clients[0].closed);
    group.hang_up(0);
    group.run(250 * MS);
    assert_eq!(group.root(leader).engine().open_orders(), 1, "the grace");
    group.run(1_000 * MS);
    assert_eq!(group.root(leader).engine().open_orders(), 0);
    assert_eq!(mass_cancels(&group, leader) - before, 1, "once");
}

fn mass_cancels(group: &Group, n: usize) -> usize {
    let cancels = |input: &&types::Input| input.command.kind == CommandKind::MassCancel;
    group.root(n).log().iter().filter(cancels).count()
}

#[test]
fn a_member_of_another_exchange_is_refused() {
    let mut group = Group::with(&plain(), CALM, 7, 0..2);
    group.login_all();
    group.trade(50 * MS, EVERY);
    group.run(200 * MS);
    // With an empty journal it finds out from what the others tell it, and is nobody's concern.
    let other = 2;
    group.machines[other].genesis = b"another exchange".to_vec();
    group.start(other).expect("an empty folder");
    group.run(500 * MS);
    let why = group.machines[other].stopped().expect("it stopped").to_string();
    assert!(why.contains("of another exchange"), "{why}");
    group.trade(50 * MS, EVERY);
    group.run(1_000 * MS);
    group.kill(other);
    group.check("the other two");
    // With the group's journal, and told that it is another exchange, it does not even start.
    let follower = 1 - group.leader().expect("a leader");
    group.kill(follower);
    group.machines[follower].genesis = b"another exchange".to_vec();
    let refused = group.start(follower);
    assert!(matches!(refused, Err(exchange::MemberError::Genesis)), "{:?}", refused.err());
}

/// A follower is asked for what it has, and for nothing else.
#[test]
fn nobody_gets_a_follower_to_speak() {
    let mut config = plain();
    config.linger_ns = 50 * MS;
    let mut group = begun(&config, CALM, 8);
    group.trade(60 * MS, EVERY);
    let leader = group.leader().expect("a leader");
    for n in (0..MEMBERS).filter(|n| *n != leader) {
        // The world asserts that nothing comes of it.
        for _ in 0..5 {
            group.on_root(n, |root, now, out| {
                let halt = types::Command::new(CommandKind::EndOfDay);
                assert_eq!(root.operator(now, halt, out), None);
                let told = root.replace_proxy(now, types::NodeId(1), None, out);
                assert!(told.is_err());
            });
            group.run(Nanos::MILLI);
        }
    }
    group.run(1_000 * MS);
    group.check("after all that");
}
