//! Orders that go with their session: when, once, and when not.

use gateway::CANCEL_GRACE_NS;
use types::{AccountId, CommandKind};

use crate::bench::{Bench, MS, SECOND, config, report};

const UNANSWERED: u16 = 0;
const ATTACHED: u16 = 1;
const REFUSED: u16 = 2;
const DETACHED: u16 = 3;

/// A gateway whose account 1 wants its orders cancelled, and account 2 does not.
fn bench() -> Bench {
    let mut config = config();
    config.logins[0].cancel_on_disconnect = true;
    let mut bench = Bench::waiting(config);
    bench.root.grants = true;
    bench.run(SECOND);
    bench
}

/// Accounts whose orders were cancelled.
fn canceled(bench: &Bench) -> Vec<u16> {
    let commands = bench.root.orders.iter().map(|(_, command)| command);
    let mass = commands.filter(|command| command.kind == CommandKind::MassCancel);
    mass.map(|command| command.account.0).collect()
}

#[test]
fn a_broken_connection_cancels_once_after_the_grace() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.order(1, 7);
    bench.close(1);
    let closed_at = bench.now.now;
    bench.run(CANCEL_GRACE_NS - 1);
    assert!(canceled(&bench).is_empty());
    bench.run(1);
    assert_eq!(canceled(&bench), [1]);
    let (body, command) = bench.root.orders[1];
    assert_eq!(body.t_in, closed_at.after(CANCEL_GRACE_NS));
    assert_eq!((body.source.seq, body.depends_on), (2, 1), "after the account's own requests");
    let mut expected = types::Command::new(CommandKind::MassCancel);
    expected.account = AccountId(1);
    expected.reserved = 1;
    assert_eq!(command, expected);
    bench.run(60 * SECOND);
    assert_eq!(canceled(&bench), [1]);
    assert!(!bench.root.attached.contains_key(&AccountId(1)), "the stream is free again");
    assert_eq!(bench.gateway.counters().disconnect_cancels, 1);
    // A later session starts from anew.
    bench.login(2, 1);
    bench.run(2 * CANCEL_GRACE_NS);
    assert_eq!(canceled(&bench), [1]);
    bench.close(2);
    bench.run(2 * CANCEL_GRACE_NS);
    assert_eq!(canceled(&bench), [1, 1]);
}

#[test]
fn every_way_to_leave_counts() {
    let logout = b"\0\x01O".as_slice();
    for (name, bytes) in [("logout", logout), ("violation", b"\0\x01?"), ("silence", b"")] {
        let mut bench = bench();
        bench.login(1, 1);
        bench.write(1, bytes);
        if bytes.is_empty() {
            bench.run(15 * SECOND + MS);
        }
        assert!(bench.client(1).closed, "{name}");
        bench.run(2 * CANCEL_GRACE_NS);
        assert_eq!(canceled(&bench), [1], "{name}");
    }
}

#[test]
fn accounts_that_did_not_ask_for_it_keep_their_orders() {
    let mut bench = bench();
    bench.login(1, 2);
    bench.order(1, 1);
    bench.close(1);
    // Nor does who never got in.
    bench.root.attach = UNANSWERED;
    bench.connect(2, "USER1", "secret1");
    bench.ask_in(2);
    bench.close(2);
    bench.connect(3, "USER1", "wrong");
    bench.ask_in(3);
    bench.root.attach = ATTACHED;
    bench.run(10 * SECOND);
    assert!(canceled(&bench).is_empty());
}

#[test]
fn who_comes_back_within_the_grace_keeps_its_orders() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.client_mut(1).alive = true;
    for conn in 2..6 {
        bench.close(conn - 1);
        bench.run(CANCEL_GRACE_NS - MS);
        bench.login(conn, 1);
        bench.client_mut(conn).alive = true;
    }
    bench.run(10 * SECOND);
    assert!(canceled(&bench).is_empty());
    bench.root.tell(report(1, 1, 0));
    bench.settle();
    assert_eq!(bench.client(5).user_refs(), [1], "and its stream");
}

#[test]
fn who_is_back_at_another_gateway_keeps_its_orders() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.close(1);
    bench.root.attach = REFUSED;
    bench.run(10 * SECOND);
    assert!(canceled(&bench).is_empty());
    // Nor does a session end whose stream another gateway took over.
    bench.root.attach = ATTACHED;
    bench.login(2, 1);
    let token = bench.root.attached[&AccountId(1)].token;
    bench.root.say_status(AccountId(1), token, DETACHED, 0);
    bench.settle();
    assert!(bench.client(2).closed);
    bench.run(10 * SECOND);
    assert!(canceled(&bench).is_empty());
}

#[test]
fn a_login_that_comes_to_nothing_does_not_save_the_orders() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.close(1);
    bench.root.attach = UNANSWERED;
    bench.connect(2, "USER1", "secret1");
    bench.ask_in(2);
    bench.run(2 * CANCEL_GRACE_NS);
    assert!(canceled(&bench).is_empty(), "it may still succeed");
    bench.close(2);
    bench.root.attach = ATTACHED;
    bench.run(2 * CANCEL_GRACE_NS);
    assert_eq!(canceled(&bench), [1]);
}

#[test]
fn a_login_while_the_root_is_being_asked_keeps_the_orders() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.close(1);
    bench.root.attach = UNANSWERED;
    bench.run(CANCEL_GRACE_NS + 500 * MS);
    let asked = bench.root.attaches.last().expect("asked for");
    assert_eq!((asked.account, asked.attach, asked.from), (AccountId(1), 1, 0));
    let token = asked.token;
    bench.root.attach = ATTACHED;
    bench.login(2, 1);
    bench.client_mut(2).alive = true;
    // The late answer to our own question changes nothing.
    bench.root.say_status(AccountId(1), token, REFUSED, 0);
    bench.settle();
    bench.run(10 * SECOND);
    assert!(canceled(&bench).is_empty());
    assert!(!bench.client(2).closed);
}

#[test]
fn a_root_that_is_slow_to_answer_is_asked_again() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.close(1);
    bench.root.attach = UNANSWERED;
    bench.run(5 * SECOND);
    assert!(canceled(&bench).is_empty());
    bench.root.attach = ATTACHED;
    bench.run(SECOND);
    assert_eq!(canceled(&bench), [1]);
}

#[test]
fn the_stream_is_kept_until_the_cancel_is_in_the_log() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.order(1, 1);
    bench.root.acks = false;
    bench.close(1);
    bench.run(2 * CANCEL_GRACE_NS);
    assert_eq!(canceled(&bench), [1]);
    assert!(bench.root.attached.contains_key(&AccountId(1)), "nobody else gets in before it");
    bench.root.acknowledge();
    bench.settle();
    bench.run(MS);
    assert!(!bench.root.attached.contains_key(&AccountId(1)));
    assert_eq!(canceled(&bench), [1]);
}

#[test]
fn who_comes_back_here_while_its_orders_are_cancelled_gets_in_behind_that() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.root.acks = false;
    bench.close(1);
    bench.run(CANCEL_GRACE_NS);
    assert_eq!(canceled(&bench), [1]);
    bench.login(2, 1);
    bench.client_mut(2).alive = true;
    bench.order(2, 1);
    let (body, command) = *bench.root.orders.last().expect("an order");
    assert_eq!((command.kind, body.depends_on), (CommandKind::NewOrder, body.source.seq - 1));
    bench.root.acknowledge();
    bench.root.acks = true;
    bench.settle();
    bench.run(10 * SECOND);
    assert_eq!(canceled(&bench), [1]);
    assert!(!bench.client(2).closed && bench.root.attached.contains_key(&AccountId(1)));
}

#[test]
fn a_reader_that_leaves_too_much_unread_is_told_and_leaves() {
    let mut bench = bench();
    bench.login(1, 1);
    bench.login(2, 2);
    bench.unread(1);
    assert!(bench.client(1).closed && !bench.client(2).closed);
    let last = bench.client(1).heard.last().expect("last words");
    assert_eq!(last.as_slice(), b"+too much left unread; session ended");
    assert_eq!(bench.gateway.counters().slow_consumers, 1);
    bench.run(2 * CANCEL_GRACE_NS);
    assert_eq!(canceled(&bench), [1], "as any other end of a session");
}
