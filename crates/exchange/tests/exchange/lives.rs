//! A gateway's lives are granted through the log, one per start.

use overlay::frame::{self, FrameKind, GrantBody, HelloBody, HopHeader};
use types::{CommandKind, GatewayId, Side};
use zerocopy::IntoBytes;

use crate::{
    bench::Exchange,
    common::{EDGE, MS, config},
    orders::{frame_of, new_order, source},
};

/// A gateway's call for a life.
pub fn hello(gateway: u16, boot_nonce: u32) -> Vec<u8> {
    let body = HelloBody { gateway: GatewayId(gateway), reserved: 0, boot_nonce };
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, HopHeader::new(FrameKind::Hello, EDGE, 1), &body, &[]);
    bytes
}

/// Inputs of the log that grant a life.
fn grants(exchange: &Exchange) -> usize {
    let log = exchange.pair.root.log();
    log.iter().filter(|input| input.command.kind == CommandKind::GrantIncarnation).count()
}

fn last_grant(exchange: &Exchange) -> GrantBody {
    let frames = exchange.frames(FrameKind::Grant);
    let bytes = frames.last().expect("a grant");
    let (_, rest) = HopHeader::read(bytes).expect("a frame");
    frame::body(rest).expect("a grant").0
}

/// Sends an order straight to the root; says whether the log has it then.
fn logs(exchange: &mut Exchange, life: u32, seq: u64, user_ref: u32) -> bool {
    let before = exchange.pair.root.log().len();
    exchange.give_root(&frame_of(source(1, life, seq), new_order(user_ref).as_bytes()));
    exchange.run(2 * MS);
    exchange.pair.root.log().len() > before
}

#[test]
fn a_repeated_hello_is_granted_once_and_answered_every_time() {
    let mut exchange = Exchange::new(&config(), 0);
    let (first, answered) = (exchange.frames(FrameKind::Hello), exchange.count(FrameKind::Grant));
    assert_eq!((first.len(), answered, grants(&exchange)), (1, 1, 1));
    let given = last_grant(&exchange);
    for n in 1..=3 {
        exchange.give_root(&first[0]);
        assert_eq!(exchange.count(FrameKind::Grant), answered + n);
        assert_eq!(last_grant(&exchange), given);
    }
    assert_eq!((grants(&exchange), exchange.life()), (1, given.incarnation.0));
}

#[test]
fn a_new_start_is_a_new_life_and_the_old_ones_orders_are_stale() {
    let mut exchange = Exchange::new(&config(), 0);
    let old = exchange.life();
    assert!(logs(&mut exchange, old, 1, 1));
    exchange.give_root(&hello(1, 77));
    let new = exchange.life();
    assert_eq!((new, grants(&exchange)), (old + 1, 2));
    assert_eq!(last_grant(&exchange).incarnation.0, new);
    let refused = exchange.pair.root.ingress().counters().refused;
    assert!(!logs(&mut exchange, old, 1, 1) && !logs(&mut exchange, old, 2, 2));
    assert_eq!(exchange.pair.root.ingress().counters().refused, refused + 2);
    assert!(logs(&mut exchange, new, 1, 3), "numbers begin again");
    assert_eq!(exchange.pair.root.engine().open_orders(), 2);
}

/// A Hello that was long on its way must not end the life that came after it.
#[test]
fn a_late_hello_changes_nothing() {
    let mut exchange = Exchange::new(&config(), 0);
    let late = exchange.frames(FrameKind::Hello).remove(0);
    exchange.give_root(&hello(1, 77));
    let life = exchange.life();
    assert!(logs(&mut exchange, life, 1, 1));
    for n in 0..3 {
        exchange.give_root(&late);
        assert_eq!(exchange.life(), life);
        assert!(logs(&mut exchange, life, 2 + n, 2 + n as u32), "after {n} more");
    }
    assert!(!logs(&mut exchange, life, 1, 1), "and what was seen stays seen");
    exchange.give_root(&hello(1, 77));
    assert_eq!(last_grant(&exchange).incarnation.0, life);
    assert!(logs(&mut exchange, life, 5, 5));
}

#[test]
fn only_gateways_of_the_deployment_get_a_life() {
    let mut exchange = Exchange::new(&config(), 0);
    let answered = exchange.count(FrameKind::Grant);
    for gateway in [0, 2, u16::MAX] {
        exchange.give_root(&hello(gateway, 5));
    }
    let mut long = hello(1, 5);
    long.push(0);
    exchange.give_root(&long);
    exchange.give_root(&hello(1, 5)[..20]);
    assert_eq!(exchange.pair.root.counters().malformed, 5);
    assert_eq!((grants(&exchange), exchange.count(FrameKind::Grant)), (1, answered));
}

#[test]
fn an_edge_ignores_grants_of_other_starts() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.give_root(&hello(1, 77));
    let uplink = exchange.pair.edge.gateway().uplink();
    assert_eq!(uplink.counters().ignored, 1);
    // The edge lives on in the former life, so its orders are not taken: two gateways under one
    // number are a mistake of the operator's that the newer start wins.
    exchange.login(1);
    exchange.order(1, 1, Side::Buy, 100, 1);
    exchange.run(50 * MS);
    assert_eq!(exchange.answers(1), "");
    assert_eq!(exchange.pair.edge.gateway().uplink().in_flight(), 1);
}
