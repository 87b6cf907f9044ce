//! What operators see and do at a gateway.

use types::{AccountId, ConnId};

use gateway::Ahead;

use crate::bench::{Bench, SECOND, SESSION, report};

/// Status of an attachment that a root does not know.
const UNKNOWN: u16 = 4;

#[test]
fn sessions_are_listed_with_what_they_sent_and_were_told() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    let since = bench.now.now;
    bench.run(SECOND);
    bench.login(2, 2);
    bench.order(1, 1);
    bench.order(1, 2);
    bench.root.tell(report(1, 1, 0));
    bench.root.tell(report(1, 1, 9));
    bench.settle();
    let sessions = bench.gateway.logged_on();
    assert_eq!(sessions.len(), 2);
    let first = sessions[0];
    assert_eq!((first.account, first.conn, first.since), (AccountId(1), ConnId(1), since));
    assert_eq!((first.messages_in, first.messages_out, first.waiting), (2, 1, 1));
    assert_eq!((sessions[1].account, sessions[1].messages_in), (AccountId(2), 0));
    bench.close(1);
    assert_eq!(bench.gateway.logged_on().len(), 1);
}

#[test]
fn a_session_is_ended_with_the_reason_and_may_come_back() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.login(2, 2);
    assert!(!bench.disconnect(3), "not logged on");
    assert!(bench.disconnect(1));
    assert!(bench.client(1).closed && !bench.client(2).closed);
    let last = bench.client(1).heard.last().expect("last words");
    assert_eq!(last.as_slice(), b"+session ended by the operator");
    assert_eq!(bench.gateway.counters().disconnected, 1);
    bench.login(3, 1);
}

#[test]
fn while_the_log_stands_still_requests_are_refused_and_those_before_wait() {
    let mut bench = Bench::new();
    bench.root.acks = false;
    bench.login(1, 1);
    bench.connect(2, "USER2", "secret2");
    bench.order(1, 1);
    bench.suspend(true);
    bench.suspend(true);
    assert!(bench.gateway.is_suspended());
    assert_eq!(bench.client(1).kinds(), "A+", "told once");
    assert!(bench.client(1).heard[1].ends_with(b"refused until it goes on"));
    assert_eq!(bench.client(2).kinds(), "", "who is not logged in is told nothing");
    bench.order(1, 2);
    bench.cancel(1, 1);
    assert_eq!(bench.client(1).kinds(), "A+UU", "an unsequenced answer to each");
    assert_eq!(bench.client(1).heard[2][1], b'J');
    assert_eq!(bench.client(1).heard[3][1], b'I');
    bench.run(SECOND);
    assert_eq!(bench.root.orders.len(), 1, "nothing of them goes up");
    let counters = bench.gateway.counters();
    assert_eq!((counters.requests, counters.suspended, counters.requests_refused), (1, 2, 2));
    bench.suspend(false);
    assert_eq!(bench.client(1).kinds(), "A+UU+");
    // The one before is not lost, and what was refused may come again.
    bench.root.acks = true;
    bench.root.acknowledge();
    bench.order(1, 2);
    let refs: Vec<u32> = bench.root.orders.iter().map(|(_, order)| order.user_ref.0).collect();
    assert_eq!(refs, [1, 2]);
}

/// Full of requests that wait for the log a gateway still answers, without limit and memory.
#[test]
fn a_full_gateway_refuses_while_the_log_stands_still() {
    let mut bench = Bench::new();
    bench.root.acks = false;
    bench.login(1, 1);
    let mut sent = 0;
    while bench.gateway.wants_stream_of(ConnId(1)) {
        sent += 1;
        bench.order(1, sent);
        assert!(sent < 100_000, "there is a bound");
    }
    bench.suspend(true);
    assert!(bench.gateway.wants_stream_of(ConnId(1)), "read on, to be refused");
    let (passed, waiting) = (bench.gateway.counters().requests, bench.gateway.requests_waiting());
    for user_ref in sent + 1..sent + 1_001 {
        bench.order(1, user_ref);
    }
    assert_eq!(bench.gateway.counters().suspended, 1_000);
    assert_eq!(bench.gateway.counters().requests, passed);
    assert_eq!(bench.gateway.requests_waiting(), waiting, "nothing more waits");
    bench.suspend(false);
    assert!(!bench.gateway.wants_stream_of(ConnId(1)), "full as before");
}

#[test]
fn who_wants_messages_never_sent_is_refused_with_the_reason_and_told_of() {
    let mut bench = Bench::new();
    bench.root.tell(report(1, 1, 0));
    bench.root.tell(report(1, 2, 0));
    for (conn, wanted, in_time) in [(1, 3, true), (2, 4, false), (3, 9_000, false), (4, 3, true)] {
        bench.connect(conn, "USER1", "secret1");
        bench.client_mut(conn).soup.resume_from(SESSION, wanted);
        let heard = bench.ask_in(conn);
        if in_time {
            assert_eq!(heard, "A", "the next one there will be");
            bench.close(conn);
            assert_eq!(bench.gateway.take_ahead(), []);
            continue;
        }
        assert_eq!(heard, "+J", "{wanted}");
        let client = bench.client(conn);
        let text = String::from_utf8_lossy(&client.heard[0]).into_owned();
        assert!(text.contains(&format!("message {wanted} was never sent: the next one is 3")));
        assert!(client.heard[1] == b"JS" && client.closed);
        let ahead = Ahead { account: AccountId(1), asked: wanted, next: 3 };
        assert_eq!(bench.gateway.take_ahead(), [ahead]);
        bench.run(SECOND);
    }
    assert_eq!(bench.gateway.counters().ahead, 2);
}

/// Another root serves, and lacks what was told: nothing more is told of that stream.
#[test]
fn a_session_that_was_told_more_than_the_root_has_ends_with_the_reason() {
    for known in 0..=3 {
        let mut bench = Bench::new();
        (1..=3).for_each(|user_ref| bench.root.tell(report(1, user_ref, 0)));
        bench.login(1, 1);
        assert_eq!(bench.client(1).sequenced.len(), 3);
        bench.root.records.get_mut(&AccountId(1)).expect("records").truncate(known);
        bench.root.say_status(AccountId(0), 0, UNKNOWN, 0);
        bench.settle();
        bench.run(SECOND);
        let client = bench.client(1);
        assert_eq!(client.closed, known < 3, "{known} known");
        let next = known as u64 + 1;
        let ahead = Ahead { account: AccountId(1), asked: 4, next };
        let expected = if known < 3 { vec![ahead] } else { Vec::new() };
        assert_eq!(bench.gateway.take_ahead(), expected);
        if known == 3 {
            continue;
        }
        let client = bench.client(1);
        let last = String::from_utf8_lossy(client.heard.last().expect("last words"));
        assert!(last.starts_with(&format!("+message 4 was never sent: the next one is {next}")));
        bench.login(2, 1);
    }
}

#[test]
fn a_locked_account_gets_in_nowhere_until_it_is_unlocked() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    assert!(bench.gateway.lock(AccountId(1), true) && bench.gateway.is_locked(AccountId(1)));
    assert!(!bench.gateway.lock(AccountId(9), true) && !bench.gateway.lock(AccountId(0), true));
    bench.order(1, 1);
    assert_eq!(bench.root.orders.len(), 1, "the session that is there stays");
    bench.close(1);
    bench.connect(2, "USER1", "secret1");
    assert_eq!(bench.ask_in(2), "J");
    assert_eq!(bench.client(2).heard[0], b"JA");
    bench.login(3, 2);
    assert!(bench.gateway.lock(AccountId(1), false));
    bench.login(4, 1);
}
