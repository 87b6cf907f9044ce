//! Who gets in, who is turned away with which words, and how sessions end.

use types::AccountId;
use wire::soupbin::{ClientPacket, LoginRequest};

use crate::bench::{Bench, CONNECTIONS, MS, SECOND, SESSION, enter, packets, report, symbol};

const ATTACHED: u16 = 1;
const REFUSED: u16 = 2;
const DETACHED: u16 = 3;

#[test]
fn the_right_words_open_the_stream_at_its_first_message() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    assert_eq!((bench.client(1).soup.session(), bench.client(1).soup.next_seq()), (SESSION, 1));
    bench.order(1, 7);
    let (body, command) = bench.root.orders[0];
    assert_eq!((command.account, command.user_ref.0), (AccountId(1), 7));
    assert_eq!((body.source.seq, body.depends_on, body.t_in), (1, 0, bench.now.now));
    let counters = bench.gateway.counters();
    assert_eq!((counters.logins, counters.requests, bench.gateway.connections()), (1, 1, 1));
}

#[test]
fn wrong_words_are_refused_and_never_reach_the_root() {
    let mut bench = Bench::new();
    let strangers = [
        ("USER1", "secret2"),
        ("USER1", "secret"),
        ("USER1", "secret12"),
        ("USER1", ""),
        ("USER9", "secret1"),
        ("", ""),
        ("user1", "secret1"),
    ];
    for (conn, (user, password)) in (1..).zip(strangers) {
        bench.connect(conn, user, password);
        assert_eq!(bench.ask_in(conn), "J", "{user} {password}");
        assert_eq!(bench.client(conn).heard[0], b"JA");
        assert!(bench.client(conn).closed);
    }
    assert_eq!(bench.gateway.counters().logins_refused, strangers.len() as u64);
    assert_eq!((bench.gateway.counters().violations, bench.gateway.connections()), (0, 0));
    assert!(bench.root.attaches.is_empty());
}

#[test]
fn another_session_is_not_available() {
    let mut bench = Bench::new();
    bench.connect(1, "USER1", "secret1");
    bench.client_mut(1).soup.resume_from(*b"YESTERDAY ", 1);
    assert_eq!(bench.ask_in(1), "J");
    assert_eq!(bench.client(1).heard[0], b"JS");
    assert!(bench.client(1).closed && bench.root.attaches.is_empty());
    // Wrong words come first: who does not know them learns nothing of sessions.
    bench.connect(2, "USER1", "wrong");
    bench.client_mut(2).soup.resume_from(*b"YESTERDAY ", 1);
    bench.ask_in(2);
    assert_eq!(bench.client(2).heard[0], b"JA");
    assert_eq!(bench.gateway.counters().logins_refused, 2);
}

#[test]
fn a_second_login_is_refused_and_the_first_goes_on() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.connect(2, "USER1", "secret1");
    assert_eq!(bench.ask_in(2), "J");
    assert_eq!(bench.client(2).heard[0], b"JS");
    assert!(bench.client(2).closed && !bench.client(1).closed);
    bench.order(1, 1);
    bench.root.tell(report(1, 1, 0));
    bench.settle();
    assert_eq!((bench.root.orders.len(), bench.client(1).user_refs()), (1, vec![1]));
    bench.close(1);
    bench.login(3, 1);
    assert_eq!(bench.gateway.counters().logins_refused, 1);
}

#[test]
fn the_roots_refusal_is_passed_on() {
    let mut bench = Bench::new();
    bench.root.attach = REFUSED;
    bench.connect(1, "USER1", "secret1");
    assert_eq!(bench.ask_in(1), "J");
    assert_eq!(bench.client(1).heard[0], b"JS");
    assert!(bench.client(1).closed);
    assert_eq!(bench.gateway.counters().logins_refused, 1);
    bench.root.attach = ATTACHED;
    bench.login(2, 1);
}

#[test]
fn a_stream_taken_over_ends_the_session_with_a_word() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.login(2, 2);
    let token = bench.root.attached[&AccountId(1)].token;
    bench.root.say_status(AccountId(1), token - 1, DETACHED, 0);
    bench.settle();
    assert!(!bench.client(1).closed, "an earlier attachment's end is none");
    bench.root.say_status(AccountId(1), token, DETACHED, 0);
    bench.settle();
    assert_eq!(bench.client(1).kinds(), "A+");
    assert!(bench.client(1).heard[1].ends_with(b"another gateway"));
    assert!(bench.client(1).closed && !bench.client(2).closed);
    let asked = bench.root.attaches.len();
    bench.run(3 * SECOND);
    assert_eq!(bench.root.attaches.len(), asked, "nothing is left to give back");
    assert_eq!((bench.gateway.counters().taken_over, bench.gateway.connections()), (1, 1));
    bench.login(3, 1);
}

#[test]
fn a_stream_lost_before_the_login_was_answered_is_a_refusal() {
    let mut bench = Bench::new();
    bench.root.attach = 0;
    bench.connect(1, "USER1", "secret1");
    assert_eq!(bench.ask_in(1), "");
    let token = bench.root.attaches[0].token;
    bench.root.say_status(AccountId(1), token, DETACHED, 0);
    bench.settle();
    assert_eq!(bench.client(1).heard, [b"JS"]);
    assert!(bench.client(1).closed);
    assert_eq!(bench.gateway.counters().logins_refused, 1);
}

#[test]
fn one_connection_too_many_is_closed_at_once() {
    let mut bench = Bench::new();
    for conn in 1..=CONNECTIONS as u32 {
        bench.connect(conn, "USER1", "secret1");
    }
    bench.connect(99, "USER1", "secret1");
    assert!(bench.client(99).closed && bench.client(99).heard.is_empty());
    assert_eq!(bench.gateway.connections(), CONNECTIONS);
    assert_eq!(bench.gateway.counters().connections_refused, 1);
    bench.write(99, b"\0\x01R");
    bench.close(2);
    bench.login(5, 1);
}

#[test]
fn a_logout_closes_and_gives_the_stream_back_once() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    let mut bytes = Vec::new();
    bench.client_mut(1).soup.logout(&mut bytes).expect("active");
    bench.write(1, &bytes);
    // No end of session: the account's stream goes on.
    assert_eq!(bench.client(1).kinds(), "A");
    assert!(bench.client(1).closed);
    bench.run(3 * SECOND);
    let asked: Vec<u16> = bench.root.attaches.iter().map(|body| body.attach).collect();
    assert_eq!(asked, [1, 0], "an answered request is not repeated");
    assert_eq!(bench.gateway.private().counters().ignored, 0);
    assert_eq!(bench.gateway.counters().violations, 0);
    bench.login(2, 1);
}

#[test]
fn a_client_that_comes_back_gets_exactly_what_it_missed() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    (1..=20).for_each(|n| bench.root.tell(report(1, n, 0)));
    bench.settle();
    assert_eq!(bench.client(1).user_refs(), (1..=20).collect::<Vec<_>>());
    bench.close(1);
    (21..=57).for_each(|n| bench.root.tell(report(1, n, 0)));
    bench.run(SECOND);
    let soup = bench.client(1).soup.clone();
    bench.connect_again(2, soup);
    assert!(bench.ask_in(2).starts_with('A'));
    assert_eq!(bench.client(2).user_refs(), (21..=57).collect::<Vec<_>>());
    assert!((21..).zip(&bench.client(2).sequenced).all(|(n, (seq, _))| *seq == n));
    // From the start and from now on.
    bench.close(2);
    bench.login(3, 1);
    assert_eq!(bench.client(3).sequenced.len(), 57);
    bench.close(3);
    bench.connect(4, "USER1", "secret1");
    bench.client_mut(4).soup.resume_from(SESSION, 0);
    bench.ask_in(4);
    assert_eq!((bench.client(4).kinds().as_str(), bench.client(4).soup.next_seq()), ("A", 58));
    bench.root.tell(report(1, 58, 0));
    bench.settle();
    assert_eq!(bench.client(4).user_refs(), [58]);
    assert_eq!(bench.gateway.counters().reports, 20 + 37 + 57 + 1);
}

/// How a client learns where a replay ends.
#[test]
fn whoever_asked_where_the_stream_ends_logs_in_again_at_once_for_all_of_it() {
    let mut bench = Bench::new();
    (1..=30).for_each(|n| bench.root.tell(report(1, n, 0)));
    bench.connect(1, "USER1", "secret1");
    bench.client_mut(1).soup.resume_from(SESSION, 0);
    assert_eq!(bench.ask_in(1), "A");
    assert_eq!(bench.client(1).soup.next_seq(), 31);
    // The root has not answered to the end of that session yet.
    bench.root.attach = 0;
    let mut bytes = Vec::new();
    bench.client_mut(1).soup.logout(&mut bytes).expect("active");
    bench.write(1, &bytes);
    assert!(bench.client(1).closed);
    bench.root.attach = ATTACHED;
    bench.root.tell(report(1, 31, 0));
    bench.login(2, 1);
    assert_eq!(bench.client(2).user_refs(), (1..=31).collect::<Vec<_>>());
    bench.run(3 * SECOND);
    assert!(!bench.client(2).closed, "the end of the first session is none of the second's");
    assert_eq!(bench.gateway.counters().logins_refused, 0);
}

#[test]
fn heartbeats_come_every_second_of_silence() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.client_mut(1).alive = true;
    bench.run(10 * SECOND + MS);
    assert_eq!(bench.client(1).heartbeats, 10);
    bench.run(SECOND / 2);
    bench.root.tell(report(1, 1, 0));
    bench.settle();
    bench.run(SECOND - 2 * MS);
    assert_eq!(bench.client(1).heartbeats, 10, "a message is a sign of life");
    bench.run(2 * MS);
    assert_eq!(bench.client(1).heartbeats, 11);
    bench.run(60 * SECOND);
    assert!(!bench.client(1).closed);
}

#[test]
fn the_silent_are_dropped_after_fifteen_seconds() {
    let mut bench = Bench::new();
    bench.login(1, 1);
    bench.connect(2, "USER2", "secret2");
    bench.run(14 * SECOND);
    bench.write(1, b"\0\x01R");
    bench.run(SECOND - MS);
    assert!(!bench.client(1).closed && !bench.client(2).closed);
    bench.run(MS);
    assert!(!bench.client(1).closed);
    assert!(bench.client(2).closed, "who never logged in");
    assert_eq!(bench.client(2).kinds(), "+");
    bench.run(14 * SECOND - MS);
    assert!(!bench.client(1).closed);
    bench.run(MS);
    assert!(bench.client(1).closed);
    assert_eq!(bench.client(1).kinds(), "A");
    assert_eq!((bench.gateway.counters().violations, bench.gateway.connections()), (1, 0));
    let given_back = bench.root.attaches.iter().filter(|body| body.attach == 0).count();
    assert_eq!(given_back, 1);
}

#[test]
fn a_login_that_leaves_in_the_same_breath_holds_nothing() {
    let mut bench = Bench::new();
    let login = LoginRequest {
        username: *b"USER1 ",
        password: *b"secret1   ",
        session: [b' '; 10],
        sequence: 1,
    };
    let mut bytes = Vec::new();
    ClientPacket::Login(login).encode(&mut bytes).expect("fits");
    ClientPacket::Logout.encode(&mut bytes).expect("fits");
    bench.connect(1, "USER1", "secret1");
    bench.write(1, &bytes);
    assert!(bench.client(1).closed);
    assert_eq!((bench.gateway.connections(), bench.gateway.counters().logins), (0, 0));
    bench.login(2, 1);
    // Whatever follows a wrong login, the login is answered.
    let mut bytes = Vec::new();
    ClientPacket::Login(LoginRequest { password: [b'?'; 10], ..login })
        .encode(&mut bytes)
        .expect("fits");
    bytes.extend_from_slice(&packets(&[enter(1, symbol())]));
    bench.connect(3, "USER1", "secret1");
    bench.write(3, &bytes);
    assert_eq!(bench.client(3).heard, [b"JA"]);
    let counters = bench.gateway.counters();
    assert_eq!((counters.logins_refused, counters.violations), (1, 0));
}
