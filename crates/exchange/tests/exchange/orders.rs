//! Orders from a participant into the log and back.

use engine::log::InputLog;
use overlay::frame::{self, FrameKind, HopHeader, OrderBody};
use types::{
    AccountId, Command, CommandKind, ExecutionKind, GatewayId, Incarnation, InstrumentId, Nanos,
    Node, Price, Qty, ShardId, Side, Source, UserRefNum,
};
use zerocopy::IntoBytes;

use crate::{
    bench::Exchange,
    common::{EDGE, MS, config},
};

/// An order frame from a life of a gateway.
pub fn frame_of(source: Source, payload: &[u8]) -> Vec<u8> {
    let body = OrderBody { source, depends_on: 0, t_in: Nanos(1) };
    let mut bytes = Vec::new();
    frame::encode(&mut bytes, HopHeader::new(FrameKind::Order, EDGE, 1), &body, payload);
    bytes
}

pub fn source(gateway: u16, incarnation: u32, seq: u64) -> Source {
    let (gateway, incarnation) = (GatewayId(gateway), Incarnation(incarnation));
    Source { gateway, shard: ShardId(0), incarnation, seq }
}

pub fn new_order(user_ref: u32) -> Command {
    let mut command = Command::new(CommandKind::NewOrder);
    (command.account, command.instrument) = (AccountId(1), InstrumentId(1));
    (command.qty, command.price) = (Qty(1), Price::from_whole(50));
    command.user_ref = UserRefNum(user_ref);
    command
}

fn kinds(log: &InputLog) -> Vec<CommandKind> {
    log.iter().map(|input| input.command.kind).collect()
}

#[test]
fn an_order_is_logged_and_accepted() {
    let mut exchange = Exchange::new(&config(), 1);
    assert!(exchange.pair.edge.gateway().wants_stream());
    exchange.login(1);
    let sent_at = exchange.pair.now.now;
    exchange.order(1, 1, Side::Sell, 100, 5);
    assert_eq!(exchange.answers(1), "A");
    let log = exchange.pair.root.log();
    use CommandKind::{GrantIncarnation, NewOrder, StartOfDay};
    assert_eq!(kinds(log), [StartOfDay, GrantIncarnation, NewOrder]);
    let input = log.iter().last().expect("an order");
    assert_eq!((input.t_in, input.flags, input.command.account), (sent_at, 0, AccountId(1)));
    assert_eq!(exchange.pair.edge.gateway().uplink().in_flight(), 0, "acknowledged");
    assert_eq!(exchange.pair.root.engine().open_orders(), 1);
    let heard = exchange.world.ears[0].listener.channels()[0].next_seq();
    assert_eq!(heard, exchange.pair.root.engine().feed_next());
}

#[test]
fn a_trade_is_private_until_its_tick_is_released() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    exchange.login(2);
    exchange.order(1, 1, Side::Sell, 100, 5);
    exchange.world.keep_feed = true;
    exchange.order(2, 1, Side::Buy, 100, 2);
    exchange.run(20 * MS);
    assert_eq!(exchange.pair.root.engine().counters().accepted, 2);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("A".into(), "A".into()));
    exchange.give_feed();
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AE".into(), "AE".into()));
    for _ in 0..10 {
        let n = exchange.answers(2).len() as u32 / 2 + 1;
        exchange.order(1, n, Side::Sell, 100, 1);
        exchange.order(2, n, Side::Buy, 100, 1);
    }
    assert_eq!(exchange.pair.edge.gateway().counters().overdue, 0);
    let mut executions = 0;
    for &(conn, position, released) in &exchange.world.told {
        let report = exchange.record(conn, position);
        let public = report.public_after.0;
        assert!(public <= released[0], "{conn:?} {position}: {public} not yet at {released:?}");
        executions += u32::from(report.kind == ExecutionKind::Executed && public > 0);
    }
    assert_eq!(executions, 22);
}

#[test]
fn a_tick_that_does_not_come_holds_a_trade_however_long_it_takes() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    exchange.login(2);
    exchange.order(1, 1, Side::Sell, 100, 5);
    exchange.world.keep_feed = true;
    exchange.order(2, 1, Side::Buy, 100, 2);
    exchange.run(500 * MS);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("A".into(), "A".into()));
    exchange.give_feed();
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AE".into(), "AE".into()));
    assert_eq!(exchange.pair.edge.gateway().counters().overdue, 0);
}

#[test]
fn repeated_order_frames_are_logged_once_and_acknowledged_again() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    (1..=10).for_each(|n| exchange.order(1, n, Side::Buy, 100, 1));
    let (logged, state) =
        (exchange.pair.root.log().len(), exchange.pair.root.engine().state_digest());
    let (orders, acks) = (exchange.frames(FrameKind::Order), exchange.count(FrameKind::OrderAck));
    assert_eq!(orders.len(), 10);
    for (n, order) in (1..).zip(orders.iter().rev()) {
        exchange.give_root(order);
        exchange.run(10 * MS);
        assert_eq!(exchange.count(FrameKind::OrderAck), acks + n);
    }
    assert_eq!(exchange.pair.root.log().len(), logged);
    assert_eq!(exchange.pair.root.engine().state_digest(), state);
    assert_eq!(exchange.pair.root.ingress().counters().duplicates, 10);
    assert_eq!(exchange.answers(1), "A".repeat(10));
}

#[test]
fn an_order_frame_carries_orders_only() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    let (life, logged) = (exchange.life(), exchange.pair.root.log().len());
    let forbidden = [CommandKind::GrantIncarnation, CommandKind::StartOfDay, CommandKind::EndOfDay];
    for kind in forbidden {
        exchange.give_root(&frame_of(source(1, life, 1), Command::new(kind).as_bytes()));
    }
    let mut unknown = new_order(1).as_bytes().to_vec();
    unknown[0] = 99;
    exchange.give_root(&frame_of(source(1, life, 1), &unknown));
    exchange.give_root(&frame_of(source(1, life, 1), &new_order(1).as_bytes()[..63]));
    exchange.give_root(&frame_of(source(1, life, 1), &[new_order(1).as_bytes(), &[0]].concat()));
    exchange.run(5 * MS);
    assert_eq!(exchange.pair.root.log().len(), logged);
    assert_eq!(exchange.pair.root.counters().not_an_order, 6);
    assert_eq!(exchange.life(), life);
    assert!(exchange.pair.root.engine().is_open());
    // They have not used up the number either.
    exchange.order(1, 1, Side::Buy, 100, 1);
    assert_eq!(exchange.answers(1), "A");
}

#[test]
fn nobody_speaks_for_the_exchange_itself() {
    let mut exchange = Exchange::new(&config(), 0);
    exchange.login(1);
    let (life, logged) = (exchange.life(), exchange.pair.root.log().len());
    let acks = exchange.count(FrameKind::OrderAck);
    let order = new_order(1);
    let wrong_shard = Source { shard: ShardId(1), ..source(1, life, 1) };
    let sources = [
        source(0, 0, 1),
        source(0, 0, 0),
        source(0, life, 1),
        source(2, life, 1),
        source(u16::MAX, life, 1),
        source(1, 0, 1),
        source(1, life + 1, 1),
        source(1, life, 0),
        source(1, life, u64::MAX),
        wrong_shard,
    ];
    for source in sources {
        exchange.give_root(&frame_of(source, order.as_bytes()));
        exchange.run(10 * MS);
        assert_eq!(exchange.pair.root.log().len(), logged, "{source:?}");
    }
    assert_eq!(exchange.pair.root.ingress().counters().refused, sources.len() as u64);
    assert_eq!(exchange.count(FrameKind::OrderAck), acks, "and nobody is told");
}

#[test]
fn a_request_without_a_number_is_refused_and_the_log_replays() {
    let mut exchange = Exchange::new(&config(), 1);
    exchange.login(1);
    exchange.order(1, 0, Side::Buy, 100, 1);
    exchange.order(1, 0, Side::Buy, 100, 1);
    exchange.order(1, 1, Side::Buy, 100, 1);
    exchange.order(1, 1, Side::Buy, 101, 1);
    assert_eq!(exchange.answers(1), "JJA", "a number used twice has its answer already");
    let ears = exchange.world.ears.iter().map(|ear| ear.listener.channels());
    let audit = exchange::audit(&exchange.pair.root, ears);
    assert!(audit.books_equal, "{audit:?}");
}

#[test]
fn a_full_log_takes_nothing_and_says_nothing() {
    let mut config = config();
    config.log_capacity = 10;
    let mut exchange = Exchange::new(&config, 1);
    exchange.login(1);
    exchange.login(2);
    for n in 1..=6 {
        exchange.order(1, n, Side::Buy, 100 - i64::from(n), 1);
        exchange.order(2, n, Side::Sell, 100 + i64::from(n), 1);
    }
    exchange.run(Nanos::SECOND);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AAAA".into(), "AAAA".into()));
    let root = &exchange.pair.root;
    assert_eq!((root.log().len(), root.counters().log_full), (10, 0));
    assert!(root.fill().held_back && root.counters().held_back == 1, "and it says so");
    assert_eq!(root.engine().open_orders(), 8);
    assert_eq!(root.counters().unencodable, 0);
    let uplink = exchange.pair.edge.gateway().uplink();
    assert_eq!((uplink.in_flight(), uplink.counters().acked), (4, 8), "kept, not acknowledged");
    assert!(uplink.counters().resent > 4, "and tried again");
    // A restarted gateway gets no life, since that could not be logged.
    let grants = exchange.count(FrameKind::Grant);
    exchange.give_root(&crate::lives::hello(1, 77));
    assert_eq!(exchange.count(FrameKind::Grant), grants);
    let ears = exchange.world.ears.iter().map(|ear| ear.listener.channels());
    let audit = exchange::audit(&exchange.pair.root, ears);
    assert!(audit.books_equal, "{audit:?}");
}

#[test]
fn orders_that_come_at_once_are_answered_together_and_the_same() {
    let answer = |together: bool| {
        let mut exchange = Exchange::new(&config(), 1);
        exchange.login(1);
        let before = exchange.count(FrameKind::Private);
        if together {
            exchange.pair.root.expect_more();
        }
        (1..=20).for_each(|n| exchange.order(1, n, Side::Buy, 100, 1));
        if together {
            assert_eq!(exchange.answers(1), "", "nothing is due before all are in");
            assert_eq!(exchange.pair.root.next_timeout(), Nanos::NEVER);
            let pair = &mut exchange.pair;
            pair.root.handle_batch(pair.now, &mut pair.root_out);
            exchange.settle();
        }
        exchange.run(20 * MS);
        assert_eq!(exchange.answers(1), "A".repeat(20));
        (exchange.pair.root.engine().open_orders(), exchange.count(FrameKind::Private) - before)
    };
    let ((apart, frames), (together, fewer)) = (answer(false), answer(true));
    assert_eq!(apart, together);
    assert!(fewer * 5 <= frames, "{fewer} datagrams of reports instead of {frames}");
}
