//! Good-till-date orders end at their time, whether anything else happens or not, and their
//! participants are told why.

use types::{CommandKind, Nanos, Node, Side};
use wire::ouch::{Outbound, parse_outbound};

use crate::bench::Exchange;
use crate::common::{MS, config, enter_until, symbol};
use crate::fix_world::World;

/// Account `n` orders with an end so long after now.
fn order_until(exchange: &mut Exchange, (n, user_ref): (u32, u32), side: Side, live_ns: u64) {
    let (end, mut message) = (exchange.pair.now.now.after(live_ns), Vec::new());
    enter_until(symbol(), (user_ref, side, 100, 5), end, &mut message);
    exchange.say(n, &message);
}

/// Inputs of this kind in the log.
fn logged(exchange: &Exchange, kind: CommandKind) -> Vec<Nanos> {
    let inputs = exchange.pair.root.log().iter().filter(|input| input.command.kind == kind);
    inputs.map(|input| input.t_seq).collect()
}

fn cancel_reason(message: &[u8]) -> Option<u8> {
    match parse_outbound(message) {
        Ok(Outbound::OrderCanceled(canceled, _)) => Some(canceled.reason),
        _ => None,
    }
}

#[test]
fn an_order_ends_at_its_time_though_nothing_else_happens() {
    let mut exchange = Exchange::new(&config(), 1);
    exchange.login(1);
    exchange.login(2);
    let end = exchange.pair.now.now.after(50 * MS);
    order_until(&mut exchange, (1, 1), Side::Sell, 50 * MS);
    exchange.run(end.since(exchange.pair.now.now) - MS);
    assert_eq!(exchange.answers(1), "A");
    exchange.run(12 * MS);
    assert_eq!(exchange.answers(1), "AC");
    let message = exchange.client(1).sequenced.last().expect("two");
    assert_eq!(cancel_reason(message), Some(b'x'), "{}", message.escape_ascii());
    let [at] = logged(&exchange, CommandKind::ExpireOrders)[..] else { panic!("one command") };
    assert!(at >= end && at <= end.after(MS), "{} ns late", at.since(end));
    // A later aggressor finds nothing.
    exchange.order(2, 1, Side::Buy, 100, 5);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AC".into(), "A".into()));
    // What was never due costs nothing.
    exchange.run(500 * MS);
    assert_eq!(logged(&exchange, CommandKind::ExpireOrders).len(), 1);
    let replayed =
        engine::replay(config().engine(), exchange.pair.root.log().iter(), |_, _, _, _| {});
    assert_eq!(replayed.state_digest(), exchange.pair.root.engine().state_digest());
}

/// An input that is logged after the end needs no timer; many ends share a command.
#[test]
fn a_command_is_logged_only_where_nothing_else_is() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    let end = exchange.pair.now.now.after(900 * MS);
    for n in 1..=40 {
        let left = end.since(exchange.pair.now.now);
        order_until(&mut exchange, (1, n), Side::Sell, left + u64::from(n) * 20_000);
    }
    assert_eq!(exchange.pair.root.engine().open_orders(), 40);
    exchange.run(end.since(exchange.pair.now.now) + 30 * MS);
    assert_eq!(exchange.pair.root.engine().open_orders(), 0);
    let commands = logged(&exchange, CommandKind::ExpireOrders);
    assert!(commands.len() <= 2, "within a millisecond: {commands:?}");
    assert_eq!(exchange.pair.root.engine().next_expiry(), Nanos::NEVER);
}

/// While inputs wait for their write, the command is given once.
#[test]
fn an_expiry_is_logged_once_while_its_write_takes_time() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    order_until(&mut exchange, (1, 1), Side::Sell, 30 * MS);
    exchange.pair.root.keep_durably();
    exchange.run(100 * MS);
    assert_eq!(exchange.answers(1), "A", "nothing leaves before it is durable");
    assert_eq!(logged(&exchange, CommandKind::ExpireOrders).len(), 1);
    let pair = &mut exchange.pair;
    assert!(pair.root.next_timeout() > pair.now.now, "it does not spin");
    pair.root.handle_durable(pair.now, u64::MAX, &mut pair.root_out);
    exchange.settle();
    exchange.run(20 * MS);
    assert_eq!(exchange.answers(1), "AC");
}

#[test]
fn an_order_that_comes_after_its_end_is_refused() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    order_until(&mut exchange, (1, 1), Side::Sell, 0);
    assert_eq!(exchange.answers(1), "J");
}

#[test]
fn a_fix_session_is_told_that_its_order_expired() {
    let mut world = World::new(1, 1);
    world.logon(0, 1);
    let now = world.now.now;
    world.clients[0].order_until(now, "dated", 5, now.after(100 * MS));
    world.run(50 * MS);
    assert_eq!(world.clients[0].orders["dated"].status, b'0');
    world.run(100 * MS);
    let order = &world.clients[0].orders["dated"];
    assert_eq!((order.status, order.leaves), (b'C', 0));
    assert_eq!(order.last, (b'C', "Expired".to_string()));
    world.check(0, 1);
}
