//! Where the replay of an account's stream ends: by its number, not by silence.

use types::{ConnId, Nanos};
use web::account::{Ask, Fault};
use wire::soupbin::{RejectCode, ServerPacket};

use crate::account::{Bench, accepted, buy, cancelled, done, executed, id, number_of};

const MS: u64 = Nanos::MILLI;

/// An order of another session, message after message: taken, then traded lot by lot.
fn history(number: u32, name: &str, messages: u32) -> Vec<Vec<u8>> {
    let trades = (1..messages).map(|n| executed(number, 1, 1_000_000, (number * 1_000 + n).into()));
    [accepted(number, 1_000, name)].into_iter().chain(trades).collect()
}

/// As the loop does: what is due is done in time, whatever else comes.
fn run(bench: &mut Bench, until: Nanos) {
    loop {
        let due = bench.account.next_timeout();
        let next = due.min(until);
        bench.now = bench.now.max(next);
        if due > until {
            return;
        }
        bench.pass(0);
    }
}

/// Lets time go by, with a message every 50 ms and no end.
fn busy(bench: &mut Bench, ms: u64) {
    for _ in 0..ms / 50 {
        let next = bench.now.after(50 * MS);
        run(bench, next);
        bench.stream(&executed(900, 1, 1_000_000, bench.now.0));
    }
}

/// How long after its last login an account begins with what waits, ms; with or without traffic.
fn ready_ms(traffic: bool) -> u64 {
    let mut bench = Bench::new();
    let mut waits = bench.ask(Ask::Positions);
    let order = bench.ask(buy("a", 5));
    bench.pass(0);
    let replay = history(900, "old", 40);
    assert_eq!(bench.enter(41), 1);
    let since = bench.now;
    replay.iter().for_each(|message| bench.stream(message));
    while bench.sent.is_empty() && bench.now.since(since) < 60_000 * MS {
        match traffic {
            true => busy(&mut bench, 50),
            false => {
                let next = bench.now.after(50 * MS);
                run(&mut bench, next);
            }
        }
    }
    drop(order);
    assert!(done(&mut waits).is_ok());
    bench.now.since(since) / MS
}

#[test]
fn an_account_to_which_something_always_comes_becomes_ready() {
    let quiet = ready_ms(false);
    assert!((200..=300).contains(&quiet), "control: {quiet} ms");
    let traffic = ready_ms(true);
    assert!((200..=300).contains(&traffic), "{traffic} ms");
}

#[test]
fn silence_within_a_replay_is_not_its_end() {
    let mut bench = Bench::new();
    drop(bench.ask(buy("a", 5)));
    bench.pass(0);
    assert_eq!(bench.enter(4), 1);
    for message in [accepted(41, 5, "x"), executed(41, 5, 1_000_000, 1)] {
        bench.stream(&message);
        heartbeats(&mut bench);
        assert!(bench.sent.is_empty(), "before the end of what was");
    }
    bench.stream(&accepted(42, 5, "y"));
    assert_eq!(bench.sent.len(), 1);
    assert_eq!(number_of(&bench.sent[0]), 43, "no number twice");
}

/// Ten seconds of heartbeats.
fn heartbeats(bench: &mut Bench) {
    for _ in 0..10 {
        let next = bench.now.after(1_000 * MS);
        run(bench, next);
        bench.told(&[ServerPacket::Heartbeat]);
    }
}

#[test]
fn what_is_under_way_at_a_disconnect_goes_again_once_whatever_comes_meanwhile() {
    let mut bench = Bench::new();
    let mut first = bench.ask(buy("a", 5));
    let mut second = bench.ask(buy("b", 5));
    bench.log_in(1, &history(900, "old", 1));
    busy(&mut bench, 1_000);
    assert_eq!(bench.sent.len(), 2);
    let sent = std::mem::take(&mut bench.sent);
    let had = 1 + 20;
    bench.account.handle_close(bench.now);
    let next = bench.now.after(600 * MS);
    run(&mut bench, next);
    // The first was taken while the connection was away, and something was told besides.
    let missed = [executed(900, 1, 1_000_000, 7), accepted(number_of(&sent[0]), 5, "a")];
    assert_eq!(bench.enter(had + 1 + missed.len() as u64), had + 1);
    let mut third = bench.ask(Ask::Cancel(id("b")));
    bench.stream(&missed[0]);
    busy_before(&mut bench, &missed[1]);
    assert_eq!(done(&mut first).expect("taken")["state"], "open");
    busy(&mut bench, 10_000);
    let again: Vec<&Vec<u8>> = bench.sent.iter().filter(|message| message[0] == b'O').collect();
    assert_eq!(again, [&sent[1]], "the same bytes, once");
    assert!(second.try_recv().is_err());
    // What was asked for meanwhile comes behind it.
    assert_eq!((bench.sent.len(), bench.sent[1][0]), (2, b'X'));
    bench.stream(&accepted(number_of(&sent[1]), 5, "b"));
    bench.stream(&cancelled(number_of(&sent[1]), 5));
    assert_eq!(done(&mut second).expect("taken")["client_order_id"], "b");
    assert_eq!(done(&mut third).expect("done")["state"], "cancelled");
    busy(&mut bench, 5_000);
    assert_eq!(bench.sent.len(), 2);
}

/// A message of the replay that comes late: nothing goes out before it.
fn busy_before(bench: &mut Bench, late: &[u8]) {
    heartbeats(bench);
    assert!(bench.sent.is_empty(), "the replay is not over");
    bench.stream(late);
}

#[test]
fn one_login_is_enough_where_nothing_was_missed() {
    let mut bench = Bench::new();
    drop(bench.ask(buy("a", 5)));
    bench.log_in(1, &[]);
    assert_eq!((bench.asked.as_slice(), bench.sent.len()), (&[0][..], 1));
    bench.stream(&accepted(number_of(&bench.sent[0]), 5, "a"));
    bench.account.handle_close(bench.now);
    bench.log_in(2, &[]);
    assert_eq!(bench.asked, [0, 0]);
    // Control: with something missed it asks for that.
    bench.account.handle_close(bench.now);
    bench.log_in(2, &[cancelled(1, 5)]);
    assert_eq!(bench.asked, [0, 0, 0, 2]);
    let mut order = bench.ask(Ask::Order(id("a"), None));
    assert_eq!(done(&mut order).expect("known")["state"], "cancelled");
}

#[test]
fn what_comes_behind_the_answer_that_tells_the_end_is_read_once() {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Positions));
    bench.pass(0);
    let all = history(1, "a", 6);
    // The sixth message comes on the connection that only asks how many there were.
    assert_eq!(bench.answer(6, &all[5..]), 6);
    assert!(bench.left);
    bench.account.handle_close(bench.now);
    bench.pass(0);
    assert_eq!(bench.answer(7, &all), 1);
    bench.pass(1_000 * MS);
    let mut held = bench.ask(Ask::Positions);
    let held = done(&mut held).expect("known");
    assert_eq!((&held["seq"], &held["positions"][0]["bought"]), (&6.into(), &"0.5".into()));
}

#[test]
fn a_gateway_that_does_not_close_is_left() {
    let mut bench = Bench::new();
    let mut waits = bench.ask(Ask::Positions);
    bench.pass(0);
    bench.answer(2, &[]);
    assert!(bench.left && bench.account.conn().is_some());
    let next = bench.now.after(3_000 * MS);
    run(&mut bench, next);
    // It has been closed, and another one was opened.
    assert!(bench.account.conn().is_some_and(|conn| conn != ConnId(1)));
    assert_eq!(bench.answer(2, &history(1, "a", 1)), 1);
    bench.pass(1_000 * MS);
    assert_eq!(done(&mut waits).expect("known")["seq"], 1);
}

#[test]
fn an_exchange_that_knows_less_than_the_door_is_not_gone_on_with() {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Positions));
    bench.log_in(1, &history(1, "a", 4));
    bench.account.handle_close(bench.now);
    bench.pass(1_000 * MS);
    bench.answer(3, &[]);
    assert!(bench.left);
    bench.account.handle_close(bench.now);
    bench.pass(0);
    bench.account.handle_connect(bench.now, &mut bench.out);
    bench.drain();
    assert_eq!(bench.asked.last(), Some(&5), "the gateway refuses that, and says so");
    bench.told(&[ServerPacket::LoginRejected(RejectCode::SessionNotAvailable)]);
    let mut waits = bench.ask(Ask::Positions);
    assert_eq!(done(&mut waits).unwrap_err().code, "session_down");
}

#[test]
fn a_switch_that_is_due_while_the_session_is_down_goes_off_when_it_is_up() {
    let mut up = Bench::new();
    drop(up.ask(Ask::CancelAfter(700)));
    up.log_in(1, &[]);
    assert_eq!(up.sent, [] as [Vec<u8>; 0], "it is set when the session is up");
    let down = |bench: &mut Bench| {
        bench.account.handle_close(bench.now);
        let next = bench.now.after(5_000 * MS);
        run(bench, next);
        assert!(bench.sent.is_empty());
        assert_eq!(bench.answer(1, &[]), 1);
    };
    down(&mut up);
    busy(&mut up, 3_000);
    let kinds: Vec<u8> = up.sent.iter().map(|message| message[0]).collect();
    assert_eq!(kinds, [b'C'], "once");
    // Control: whoever asks again before it is up is in time.
    let mut again = Bench::new();
    drop(again.ask(Ask::CancelAfter(700)));
    again.log_in(1, &[]);
    down(&mut again);
    let mut reply = again.ask(Ask::CancelAfter(60_000));
    busy(&mut again, 3_000);
    assert!(done(&mut reply).is_ok() && again.sent.is_empty());
}

#[test]
fn what_a_fault_holds_back_until_a_replay_goes_once() {
    let mut bench = Bench::new();
    drop(bench.ask(Ask::Fault(Fault::Delay(1, 600))));
    bench.log_in(1, &[]);
    drop(bench.ask(buy("a", 5)));
    bench.account.handle_close(bench.now);
    let next = bench.now.after(550 * MS);
    run(&mut bench, next);
    assert_eq!(bench.answer(1, &[]), 1);
    // It is due in 50 ms, the session is up in 250 ms.
    busy(&mut bench, 3_000);
    assert_eq!(bench.sent.len(), 1);
}
