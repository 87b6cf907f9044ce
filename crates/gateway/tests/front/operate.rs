//! What operators see and do at a gateway.

use types::{AccountId, ConnId};

use crate::bench::{Bench, SECOND, report};

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
