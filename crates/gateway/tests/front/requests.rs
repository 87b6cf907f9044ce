//! What goes up, what is answered here, and what ends a session.

use overlay::private_receiver::first_token;
use types::{
    ClOrdId, CommandKind, Incarnation, Nanos, ORDER_HIDDEN, Price, Qty, Side, Symbol, TimeInForce,
    UserRefNum,
    limits::{SEQ_WINDOW, UPLINK_WINDOW},
};
use wire::{
    ouch::{self, NewOrder, Outbound, Terms},
    soupbin::{ClientPacket, LoginRequest},
};

use crate::bench::{Bench, MS, SECOND, config, enter, packets, report, symbol};

fn modify(user_ref: u32) -> Vec<u8> {
    let mut message = vec![b'M'];
    message.extend_from_slice(&user_ref.to_be_bytes());
    message.push(b'B');
    message.extend_from_slice(&9u32.to_be_bytes());
    message
}

fn cancel(user_ref: u32) -> Vec<u8> {
    let mut message = Vec::new();
    ouch::encode_cancel(UserRefNum(user_ref), Qty(0), &mut message).expect("encodes");
    message
}

/// The session ended with a reason in words, and the account is free again.
fn ended_for_a_violation(bench: &Bench, name: &str) {
    let client = bench.client(1);
    let last = client.heard.last().unwrap_or_else(|| panic!("{name}: not a word"));
    assert!(last[0] == b'+' && last.len() > 10, "{name}: {last:?}");
    assert!(client.closed, "{name}");
    let counters = bench.gateway.counters();
    assert_eq!((counters.violations, bench.gateway.connections()), (1, 0), "{name}");
    assert!(bench.root.attached.is_empty(), "{name}");
}

#[test]
fn broken_packets_and_messages_end_the_session() {
    let order = || packets(&[enter(2, symbol())]);
    let mut long_order = enter(3, symbol());
    long_order.push(0);
    let second_login = {
        let (username, password) = (*b"USER1 ", *b"secret1   ");
        let login = LoginRequest { username, password, session: [b' '; 10], sequence: 1 };
        let mut bytes = Vec::new();
        ClientPacket::Login(login).encode(&mut bytes).expect("fits");
        bytes
    };
    let cases = [
        ("unknown packet type", b"\0\x01?".to_vec()),
        ("a server's packet", b"\0\x02Sx".to_vec()),
        ("empty packet", b"\0\0".to_vec()),
        ("packet too long", b"\xff\xff".to_vec()),
        ("heartbeat with a body", b"\0\x02Rx".to_vec()),
        ("second login", second_login),
        ("empty message", packets(&[vec![]])),
        ("unknown message type", packets(&[b"?".to_vec()])),
        ("message too short", packets(&[enter(2, symbol())[..20].to_vec()])),
        ("message too long", packets(&[long_order])),
        ("bad message, then a logout", [packets(&[b"?".to_vec()]), b"\0\x01O".to_vec()].concat()),
    ];
    for (name, bytes) in cases {
        let mut bench = Bench::new();
        bench.login(1, 1);
        // What came before it in the same read counts, what comes after it does not.
        let read = [packets(&[enter(1, symbol())]), bytes, order()].concat();
        bench.write(1, &read);
        ended_for_a_violation(&bench, name);
        let refs: Vec<u32> = bench.root.orders.iter().map(|(_, o)| o.user_ref.0).collect();
        assert_eq!(refs, [1], "{name}");
        bench.write(1, &order());
        bench.login(2, 1);
        assert_eq!(bench.gateway.counters().requests, 1, "{name}");
    }
}

#[test]
fn nobody_orders_before_the_login_is_answered() {
    let mut bench = Bench::new();
    bench.connect(1, "USER1", "secret1");
    bench.order(1, 1);
    ended_for_a_violation(&bench, "no login at all");

    let mut bench = Bench::new();
    bench.root.attach = 0;
    bench.connect(1, "USER1", "secret1");
    bench.ask_in(1);
    bench.order(1, 1);
    ended_for_a_violation(&bench, "login not answered yet");
    // The answer comes too late and must not open anything.
    let token = bench.root.attaches[0].token;
    bench.root.say_status(types::AccountId(1), token, 1, 1);
    bench.settle();
    assert_eq!((bench.gateway.counters().logins, bench.gateway.counters().requests), (0, 0));
    assert!(bench.root.orders.is_empty());
    bench.root.attach = 1;
    bench.login(2, 1);
}

#[test]
fn what_the_gateway_refuses_is_answered_once_outside_the_stream() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    let other = Symbol::new("OTHER").expect("valid");
    bench.write(1, &packets(&[enter(1, other), modify(2), enter(3, symbol()), b"Q".to_vec()]));
    bench.run(2 * SECOND);
    assert_eq!(bench.client(1).kinds(), "AUUU");
    let answers: Vec<(u32, u16, [u8; 14])> = bench.client(1).heard[1..]
        .iter()
        .map(|packet| match ouch::parse_outbound(&packet[1..]) {
            Ok(Outbound::OrderRejected(m, _)) => (m.user_ref.get(), m.reason.get(), m.cl_ord_id),
            other => panic!("{other:?}"),
        })
        .collect();
    let blank = [b' '; 14];
    assert_eq!(answers, [(1, 0x17, *b"my own order 1"), (2, 0x0F, blank), (0, 0x0F, blank)]);
    assert_eq!(bench.root.orders.len(), 1, "only the good one went up");
    assert_eq!((bench.root.orders[0].1.user_ref.0, bench.root.orders[0].0.source.seq), (3, 1));
    let counters = bench.gateway.counters();
    assert_eq!((counters.requests, counters.requests_refused), (1, 3));
    assert_eq!((counters.unencodable, counters.violations, counters.reports), (0, 0, 0));
    // The stream's numbers do not move.
    bench.root.tell(report(1, 3, 0));
    bench.settle();
    assert_eq!(bench.client(1).sequenced[0].0, 1);
}

#[test]
fn a_cancel_with_a_term_not_served_gets_a_cancel_reject() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    let mut message = cancel(8);
    // Appendage: 5 bytes, one element: length 2, tag 12 (post only), a value that is none.
    message.extend_from_slice(&[0, 3, 2, 12, b'?']);
    bench.write(1, &packets(&[message]));
    assert_eq!(bench.client(1).kinds(), "AU");
    match ouch::parse_outbound(&bench.client(1).heard[1][1..]) {
        Ok(Outbound::CancelReject(m, _)) => assert_eq!(m.user_ref.get(), 8),
        other => panic!("{other:?}"),
    }
    assert!(bench.root.orders.is_empty());
}

#[test]
fn a_mass_cancel_goes_up_under_its_own_number() {
    let mut bench = Bench::new();
    bench.login(1, 2);
    let request = |user_ref, symbol, side| {
        let mut message = Vec::new();
        ouch::encode_mass_cancel(UserRefNum(user_ref), symbol, side, &mut message);
        message
    };
    let other = Symbol::new("OTHER").expect("valid");
    let all = request(5, None, None);
    let sells = request(6, Some(symbol()), Some(Side::Sell));
    bench.write(1, &packets(&[all, sells, request(7, Some(other), None)]));
    let asked: Vec<_> = bench
        .root
        .orders
        .iter()
        .map(|(_, c)| (c.kind, c.account.0, c.user_ref.0, c.instrument.0, c.param, c.reserved))
        .collect();
    let kind = CommandKind::MassCancel;
    assert_eq!(asked, [(kind, 2, 5, 0, 0, 0), (kind, 2, 6, 1, 2, 0)]);
    assert!(bench.root.orders.iter().all(|(_, c)| c.orig_user_ref.0 == 0), "of all gateways");
    assert_eq!(bench.client(1).kinds(), "AU");
    match ouch::parse_outbound(&bench.client(1).heard[1][1..]) {
        Ok(Outbound::OrderRejected(m, _)) => {
            assert_eq!((m.user_ref.get(), m.reason.get()), (7, 0x17));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn seconds_to_live_count_from_the_read() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    let order = NewOrder {
        user_ref: UserRefNum(1),
        side: Side::Sell,
        qty: Qty(9),
        symbol: symbol(),
        price: Some(Price::from_whole(100)),
        time_in_force: TimeInForce::GoodTillDate,
        post_only: false,
        cl_ord_id: ClOrdId::default(),
    };
    let terms = Terms { live_s: 60, hidden: true, ..Terms::default() };
    let mut message = Vec::new();
    ouch::encode_enter_order_with(&order, &terms, &mut message).expect("encodes");
    bench.write(1, &packets(&[message]));
    let (body, command) = bench.root.orders[0];
    assert_eq!((command.flags, command.time_in_force), (ORDER_HIDDEN, order.time_in_force));
    assert_eq!((body.t_in, command.expire_at), (bench.now.now, bench.now.now + 60 * SECOND));
}

#[test]
fn a_request_came_in_when_the_machine_had_its_bytes_and_the_next_when_it_is_read() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    let read_at = bench.now.now;
    let came = Nanos(read_at.0 - 70_000);
    // Told for this read alone; what is said to come later than it is read came then.
    bench.gateway.expect_arrival(came);
    bench.write(1, &packets(&[enter(1, symbol()), enter(2, symbol())]));
    bench.order(1, 3);
    bench.gateway.expect_arrival(read_at.after(SECOND));
    bench.order(1, 4);
    // One for a connection that is gone is for no other.
    bench.gateway.expect_arrival(came);
    bench.write(9, b"nobody");
    bench.order(1, 5);
    let seen: Vec<_> = bench.root.orders.iter().map(|(body, _)| body.t_in).collect();
    assert_eq!(seen, [came, came, read_at, read_at, read_at]);
}

#[test]
fn requests_of_a_session_name_the_one_before() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.login(2, 2);
    bench.order(1, 1);
    bench.order(2, 1);
    bench.write(1, &packets(&[cancel(1)]));
    let seen: Vec<_> =
        bench.root.orders.iter().map(|(b, _)| (b.source.seq, b.depends_on)).collect();
    assert_eq!(seen, [(1, 0), (2, 0), (3, 1)]);
    assert_eq!(bench.root.orders[2].1.kind, CommandKind::Cancel);
}

#[test]
fn a_full_window_stops_reading_and_loses_nothing() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.acks = false;
    let mut sent = 0u32;
    while bench.gateway.wants_stream() {
        sent += 1;
        bench.order(1, sent);
        assert!(sent as usize <= UPLINK_WINDOW, "the window never fills");
    }
    assert_eq!(bench.gateway.counters().spilled, 0, "one read still fits");
    // A last read brings more than there is room for.
    let more: Vec<Vec<u8>> = (sent + 1..=6_000).map(|n| enter(n, symbol())).collect();
    let read_at = bench.now.now;
    bench.write(1, &packets(&more));
    assert_eq!(bench.root.orders.len(), UPLINK_WINDOW);
    assert_eq!(bench.gateway.counters().spilled, 6_000 - UPLINK_WINDOW as u64);
    assert!(!bench.gateway.wants_stream());
    bench.run(500 * MS);
    assert_eq!(bench.root.orders.len(), UPLINK_WINDOW);
    // Its participant leaves; what it asked for before stays asked.
    bench.close(1);
    bench.root.acks = true;
    bench.run(2 * SECOND);
    let refs: Vec<u32> = bench.root.orders.iter().map(|(_, o)| o.user_ref.0).collect();
    assert_eq!(refs, (1..=6_000).collect::<Vec<_>>());
    assert!((1..).zip(&bench.root.orders).all(|(n, (body, _))| body.source.seq == n));
    assert_eq!(bench.root.orders[5_999].0.t_in, read_at, "the time of the read, not of the way up");
    assert!(bench.gateway.wants_stream());
    assert_eq!(bench.gateway.uplink().in_flight(), 0);
    assert_eq!(bench.gateway.counters().requests, 6_000);
}

#[test]
fn a_login_before_the_grant_waits_for_it() {
    let mut bench = Bench::waiting(config());
    assert_eq!(bench.gateway.next_timeout(), Nanos(0));
    bench.run(10 * MS);
    assert!(!bench.gateway.wants_stream());
    bench.connect(1, "USER1", "secret1");
    assert_eq!(bench.ask_in(1), "");
    bench.run(300 * MS);
    assert!(bench.root.attaches.is_empty(), "no attachment has a name yet");
    bench.root.grants = true;
    bench.run(SECOND);
    assert_eq!(bench.client(1).kinds(), "A");
    assert_eq!(bench.root.attaches[0].token, first_token(Incarnation(3)));
    assert!(bench.gateway.wants_stream());
}

#[test]
fn orders_beyond_the_window_wait_in_order() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.acks = false;
    let window = UPLINK_WINDOW as u32;
    let all: Vec<Vec<u8>> = (1..=window + 3).map(cancel).collect();
    bench.write(1, &packets(&all));
    let asked_at = bench.now.now;
    bench.run(300 * MS);
    assert_eq!(bench.root.orders.len(), UPLINK_WINDOW);
    assert!(!bench.gateway.wants_stream());
    bench.root.acks = true;
    bench.run(SECOND);
    let seen = bench.root.orders.iter().map(|(body, order)| (order.user_ref.0, body.t_in));
    assert!(seen.eq((1..=window + 3).map(|n| (n, asked_at))));
    assert!(bench.gateway.wants_stream());
    assert_eq!(bench.gateway.counters().spilled, 3);
}

#[test]
fn a_read_beyond_all_room_is_answered_not_forgotten() {
    const WAIT_MAX: u32 = 65_536;
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.acks = false;
    let room = UPLINK_WINDOW as u32 + WAIT_MAX;
    let all: Vec<Vec<u8>> = (1..=room + 10).map(cancel).collect();
    bench.write(1, &packets(&all));
    assert_eq!(bench.client(1).kinds(), format!("A{}", "U".repeat(10)));
    let counters = bench.gateway.counters();
    assert_eq!((counters.requests, counters.requests_refused), (u64::from(room), 10));
    bench.root.acks = true;
    bench.run(SECOND);
    assert_eq!(bench.root.orders.len(), room as usize);
    const { assert!(SEQ_WINDOW < WAIT_MAX as usize) };
    assert!((1..).zip(&bench.root.orders).all(|(n, (_, command))| command.user_ref.0 == n));
}

#[test]
fn where_orders_find_no_room_to_wait_cancels_still_do() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.acks = false;
    let room = UPLINK_WINDOW as u32 + 65_536 - 4_096;
    let orders: Vec<Vec<u8>> = (1..=room + 5).map(|n| enter(n, symbol())).collect();
    bench.write(1, &packets(&orders));
    assert_eq!(bench.client(1).kinds(), format!("A{}", "U".repeat(5)), "five are refused");
    let cancels: Vec<Vec<u8>> = (1..=4_096).map(cancel).collect();
    bench.write(1, &packets(&cancels));
    assert_eq!(bench.gateway.counters().requests_refused, 5);
    assert_eq!(bench.gateway.counters().requests, u64::from(room) + 4_096);
    bench.write(1, &packets(&[cancel(9)]));
    assert_eq!(bench.gateway.counters().requests_refused, 6, "their room has an end, too");
}
