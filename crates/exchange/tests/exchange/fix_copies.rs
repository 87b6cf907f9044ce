//! Drop copies: the reports of a firm's accounts, in the engine's order, whatever happens to the
//! session or its gateway.

use engine::{Engine, Output};
use types::{AccountId, ExecutionKind, ExecutionReport, REFUSED_MASS_CANCEL, Seq};

use crate::common::MS;
use crate::fix_world::{World, fix_config};

/// The client that listens.
const COPY: usize = 2;

/// What it has to be told, by a replay of the log.
fn expected(world: &World) -> Vec<(String, String, String)> {
    let mut engine = Engine::new(fix_config(world.edges.len()).engine());
    let (mut told, mut positions) = (Vec::new(), [0; 5]);
    let mut output = Output::default();
    engine.apply_all(world.root.log().after(Seq(0)), &mut output, |_, _, _, output| {
        for report in &output.executions {
            positions[usize::from(report.account.0)] += 1;
            let position = positions[usize::from(report.account.0)];
            if report.account <= AccountId(2)
                && let Some((id, what)) = words(report, position)
            {
                told.push((id, format!("USER{}", report.account.0), what.to_string()));
            }
        }
        output.clear();
    });
    told
}

fn words(report: &ExecutionReport, position: u64) -> Option<(String, &'static str)> {
    let id = format!("E{position}-{}", report.account.0);
    let named = String::from_utf8_lossy(&report.cl_ord_id.0).trim().to_string();
    Some(match report.kind {
        ExecutionKind::Accepted => (id, "0"),
        ExecutionKind::Executed => {
            let side = if report.side == types::Side::Buy { 'B' } else { 'S' };
            (format!("T{}{side}", report.match_number.0), "F")
        }
        ExecutionKind::Canceled => (id, "4"),
        ExecutionKind::Replaced => (id, "5"),
        ExecutionKind::Rejected => (id, "8"),
        ExecutionKind::CancelRejected if report.flags & REFUSED_MASS_CANCEL == 0 => (named, "9"),
        _ => return None,
    })
}

fn check(world: &World, seed: u64) -> usize {
    let (expected, client) = (expected(world), &world.clients[COPY]);
    assert_eq!(client.violations, Vec::<String>::new(), "seed {seed}");
    assert_eq!(client.told, expected, "seed {seed}");
    expected.len()
}

/// Both accounts trade a little.
fn trade(world: &mut World, step: u64) {
    let now = world.now.now;
    world.clients[0].order(now, &format!("b{step}"), '1', 3, 100);
    world.clients[1].order(now, &format!("s{step}"), '2', 2, 100);
    if step % 3 == 2 {
        world.clients[0].cancel(now, &format!("c{step}"), &format!("b{}", step - 1), '1');
    }
    world.run(3 * MS);
}

#[test]
fn a_firm_hears_of_all_its_accounts_in_the_order_of_the_log() {
    let mut world = World::new(2, 5);
    world.logon(0, 1);
    world.logon(1, 2);
    world.logon(COPY, 1);
    (0..20).for_each(|step| trade(&mut world, step));
    world.run(100 * MS);
    assert!(check(&world, 5) > 60);
    // What happens while it is away is there by resend.
    world.hang_up(COPY);
    world.run(10 * MS);
    (20..60).for_each(|step| trade(&mut world, step));
    world.logon(COPY, 2);
    world.run(200 * MS);
    assert!(world.clients[COPY].repeated > 100);
    assert!(check(&world, 5) > 180);
    world.check(0, 5);
    world.check(1, 5);
}

#[test]
fn it_survives_its_gateway_over_lossy_lines() {
    for seed in 0..6 {
        let mut world = World::new(2, seed);
        world.lost_permille = 30;
        world.logon(0, 1);
        world.logon(1, 2);
        world.logon(COPY, 1);
        for step in 0..30 {
            if step == 5 + 3 * seed {
                world.kill(1);
            }
            for client in [0, COPY] {
                if world.at[client].is_none() && step > 10 + 3 * seed {
                    world.logon(client, 2);
                }
            }
            trade(&mut world, step);
        }
        for client in [0, COPY] {
            if world.at[client].is_none() {
                world.logon(client, 2);
            }
        }
        world.lost_permille = 0;
        world.run(2_000 * MS);
        check(&world, seed);
    }
}

#[test]
fn it_takes_no_requests() {
    let mut world = World::new(1, 9);
    world.logon(0, 1);
    world.logon(COPY, 1);
    trade(&mut world, 1);
    let now = world.now.now;
    let before = world.root.engine().counters().accepted;
    world.clients[COPY].order(now, "mine", '1', 5, 100);
    world.clients[COPY].cancel(now, "c", "b1", '1');
    world.clients[COPY].send(now, "q", "11=q|530=7|60=20260101-10:00:00|");
    world.run(100 * MS);
    let refused: Vec<_> = world.clients[COPY].refused.iter().map(|(_, why)| why).collect();
    assert_eq!(refused, ["A drop-copy session takes no requests"; 3]);
    assert_eq!(world.root.engine().counters().accepted, before);
    assert_eq!(world.root.engine().open_orders(), 1, "the other's order is as it was");
}
