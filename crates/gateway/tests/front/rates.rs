//! Requests above an account's rate: refused at the door, never numbered, and cancels get through.

use gateway::{GatewayConfig, OUTSTANDING, Rate, Throttle};
use types::{AccountId, CommandKind, ConnId, UserRefNum};
use wire::ouch::{self, Outbound};

use crate::bench::{Bench, MS, SECOND, cancel, config, enter, packets, symbol};

/// Account 1 may send 100 orders a second, 50 at once.
fn bench() -> Bench {
    let mut config = config();
    config.logins[0].throttle = Throttle::new(Rate { per_s: 100, burst: 50 });
    let mut bench = Bench::waiting(config);
    bench.root.grants = true;
    bench.run(SECOND);
    bench.login(1, 1);
    bench
}

/// What the gateway itself answered on a connection: number and reason; 0 for a cancel.
fn refusals(bench: &Bench, conn: u32) -> Vec<(u32, u16)> {
    let unsequenced = bench.client(conn).heard.iter().filter(|packet| packet[0] == b'U');
    let refusal = |packet: &Vec<u8>| match ouch::parse_outbound(&packet[1..]) {
        Ok(Outbound::OrderRejected(m, _)) => (m.user_ref.get(), m.reason.get()),
        Ok(Outbound::CancelReject(m, _)) => (m.user_ref.get(), 0),
        other => panic!("{other:?}"),
    };
    unsequenced.map(refusal).collect()
}

#[test]
fn what_is_above_the_rate_is_refused_and_never_numbered() {
    let mut bench = bench();
    let orders: Vec<Vec<u8>> = (1..=80).map(|n| enter(n, symbol())).collect();
    bench.write(1, &packets(&orders));
    assert_eq!(bench.root.orders.len(), 50);
    let expected: Vec<(u32, u16)> = (51..=80).map(|n| (n, 0x29)).collect();
    assert_eq!(refusals(&bench, 1), expected, "each gets its one answer");
    let counters = bench.gateway.counters();
    assert_eq!((counters.requests, counters.orders_over_rate), (50, 30));
    assert_eq!((counters.requests_refused, counters.cancels_over_rate), (30, 0));
    // The number of a refused order is unused, and time fills the bucket again.
    bench.run(SECOND / 10);
    bench.order(1, 51);
    assert_eq!(bench.root.orders.len(), 51);
    let (last, command) = bench.root.orders[50];
    assert_eq!((last.source.seq, command.user_ref), (51, UserRefNum(51)), "no number was wasted");
}

#[test]
fn the_door_stays_open_for_cancels_at_twice_the_peak_rate() {
    let mut bench = bench();
    bench.client_mut(1).alive = true;
    let mut cancels = 0;
    // Ten times the orders allowed, and twice as many cancels as orders are allowed, for 3 s.
    for step in 0..300u32 {
        let mut messages: Vec<Vec<u8>> =
            (0..10).map(|n| enter(1 + step * 10 + n, symbol())).collect();
        messages.extend([cancel(1), cancel(2)]);
        cancels += 2;
        bench.write(1, &packets(&messages));
        bench.run(SECOND / 100);
    }
    let up = |kind| bench.root.orders.iter().filter(|(_, c)| c.kind == kind).count();
    assert_eq!(up(CommandKind::Cancel), cancels, "every cancel gets through");
    assert_eq!(up(CommandKind::NewOrder), 50 + 299, "a burst, then the rate");
    let counters = bench.gateway.counters();
    assert_eq!(counters.cancels_over_rate, 0);
    assert_eq!(counters.orders_over_rate, 3_000 - 349);
    // Control: cancels have a bound, too.
    bench.write(1, &packets(&vec![cancel(1); 150]));
    assert!(bench.gateway.counters().cancels_over_rate >= 40);
    assert_eq!(refusals(&bench, 1).last(), Some(&(1, 0)), "told by a cancel reject");
}

#[test]
fn logging_in_again_buys_nothing_and_others_pay_nothing() {
    let mut bench = bench();
    let orders: Vec<Vec<u8>> = (1..=60).map(|n| enter(n, symbol())).collect();
    bench.write(1, &packets(&orders));
    bench.close(1);
    bench.login(2, 1);
    bench.write(2, &packets(&orders));
    assert_eq!(bench.root.orders.len(), 50);
    bench.login(3, 2);
    bench.write(3, &packets(&orders));
    let others = bench.root.orders.iter().filter(|(_, c)| c.account == AccountId(2)).count();
    assert_eq!(others, 60, "no limit for account 2");
}

/// Writes one order after the other for a session as long as it is read; how many.
fn fill(bench: &mut Bench, conn: u32) -> u32 {
    (1..10_000)
        .find(|n| {
            bench.order(conn, *n);
            !bench.gateway.wants_stream_of(ConnId(conn))
        })
        .expect("a bound")
}

#[test]
fn a_session_with_much_on_its_way_waits_and_the_others_do_not() {
    let mut bench = Bench::new();
    (1..=3).for_each(|n| bench.login(n, n as u16));
    bench.root.acks = false;
    assert_eq!(fill(&mut bench, 1), OUTSTANDING, "its own bound");
    assert!(bench.gateway.wants_stream() && bench.gateway.wants_stream_of(ConnId(2)));
    // The second finds as much left as it has taken, less the reserve; and so on.
    let second = fill(&mut bench, 2);
    assert!((900..=OUTSTANDING).contains(&second), "{second}");
    let third = fill(&mut bench, 3);
    assert!((400..second).contains(&third), "{third}");
    assert_eq!(bench.gateway.counters().spilled, 0);
    // All is logged: all are read again.
    bench.root.acks = true;
    bench.root.acknowledge();
    bench.run(SECOND);
    assert!((1..=3).all(|n| bench.gateway.wants_stream_of(ConnId(n))));
    // Control: without fair shares one session takes everything.
    let mut bench = Bench::with(GatewayConfig { outstanding: 0, ..config() });
    (1..=2).for_each(|n| bench.login(n, n as u16));
    bench.root.acks = false;
    assert!(fill(&mut bench, 1) > 3 * OUTSTANDING);
    assert!(!bench.gateway.wants_stream_of(ConnId(2)), "the other one has to wait with it");
}

#[test]
fn who_is_not_read_is_not_taken_for_silent() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.root.acks = false;
    assert_eq!(fill(&mut bench, 1), OUTSTANDING);
    bench.run(40 * SECOND);
    assert!(!bench.client_mut(1).closed, "nobody has looked whether it said something");
    // Read again, it has the usual time.
    bench.root.acks = true;
    bench.root.acknowledge();
    bench.run(10 * SECOND);
    assert!(bench.gateway.wants_stream_of(ConnId(1)) && !bench.client_mut(1).closed);
    bench.run(10 * SECOND);
    assert!(bench.client_mut(1).closed, "control: it is read, and silent");
}

#[test]
fn who_goes_on_above_the_rate_rests_and_others_are_read() {
    let mut bench = bench();
    bench.login(2, 2);
    let orders: Vec<Vec<u8>> = (1..=200).map(|n| enter(n, symbol())).collect();
    bench.write(1, &packets(&orders));
    assert_eq!(refusals(&bench, 1).len(), 150, "each gets its one answer");
    assert!(!bench.gateway.wants_stream_of(ConnId(1)), "its next ones wait in its socket");
    assert!(bench.gateway.wants_stream_of(ConnId(2)));
    bench.run(20 * MS);
    assert!(bench.gateway.wants_stream_of(ConnId(1)), "for a moment only");
    // However fast it goes on, few are refused in a second.
    let mut read = 0;
    for _ in 0..1_000 {
        if bench.gateway.wants_stream_of(ConnId(1)) {
            bench.write(1, &packets(&orders[..10]));
            read += 10;
        }
        bench.run(MS);
    }
    assert!((200..3_000).contains(&read), "{read} of 10,000");
    // What is wrong in itself is refused likewise.
    let mut bench = self::bench();
    let unknown = vec![enter(1, types::Symbol::new("NOSUCH").expect("valid")); 200];
    bench.write(1, &packets(&unknown));
    assert!(!bench.gateway.wants_stream_of(ConnId(1)));
}
