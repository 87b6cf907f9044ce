//! Who may have the feed sent where, with which words others are refused, and when it ends.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use gateway::{
    EdgeLoad, GatewayConfig, Refusal, SUBSCRIPTION_DOOR, SubscriptionEvent, SubscriptionRefusal,
    SubscriptionTerms,
};
use proptest::collection::vec;
use proptest::prelude::*;
use types::{Address, ConnId, Peer, Remote};
use wire::soupbin::ClientSession;
use wire::subscription::{Answer, NOWHERE, Request, Ring, Subscribed, Way};

use crate::bench::{Bench, MS, SECOND, SESSION, config, packets};

const HERE: u32 = 0x0A00_0001;
const GROUP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(239, 1, 1, 3)), 7_100);
const PER_ACCOUNT: usize = 3;

fn door(n: u32) -> u32 {
    u32::from(SUBSCRIPTION_DOOR) << ConnId::DOOR_SHIFT | n
}

fn at(ip: u32, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(ip), port))
}

fn terms() -> SubscriptionTerms {
    SubscriptionTerms {
        groups: vec![GROUP],
        per_account: PER_ACCOUNT,
        from: at(0, 7_009),
        from_for_groups: vec![at(HERE + 9, 7_009)],
        repair: vec![at(HERE + 1, 7_001)],
        snapshots: vec![at(HERE + 9, 7_012)],
        ring: None,
    }
}

fn bench() -> Bench {
    let mut bench = Bench::with(GatewayConfig { connections_max: 200, ..config() });
    bench.gateway.offer_subscriptions(terms());
    bench
}

/// Connects from `HERE` and logs on; the types of what came back.
fn log_on(bench: &mut Bench, n: u32, user: &str, password: &str) -> String {
    log_on_from(bench, Address::v4(HERE), n, (user, password))
}

fn log_on_from(bench: &mut Bench, from: Address, n: u32, (user, password): (&str, &str)) -> String {
    let remote = Remote { address: Some(from), certificate: None };
    let soup = ClientSession::new(user, password).expect("short");
    bench.connect_from(door(n), soup, &remote);
    bench.ask_in(door(n))
}

fn ask(bench: &mut Bench, n: u32, request: Request) -> Vec<SubscriptionEvent> {
    let mut message = Vec::new();
    request.encode(&mut message);
    bench.write(door(n), &packets(&[message]));
    events(bench)
}

fn events(bench: &mut Bench) -> Vec<SubscriptionEvent> {
    std::iter::from_fn(|| bench.gateway.take_subscription()).collect()
}

/// The receiver's owner has room, or none; the answer.
fn answer(bench: &mut Bench, n: u32, has_room: bool) -> Answer {
    let streams = has_room.then(|| vec![(SESSION, 17)]);
    bench.answer_subscription(door(n), streams);
    heard(bench, n)
}

/// The last thing that a client was told.
fn heard(bench: &Bench, n: u32) -> Answer {
    let last = bench.client(door(n)).heard.last().expect("something");
    Answer::parse(last.strip_prefix(b"U").expect("unsequenced")).expect("an answer")
}

fn unicast(port: u16) -> Request {
    Request::Subscribe { way: Way::Unicast, to: at(HERE, port) }
}

fn peer(port: u16) -> Peer {
    Peer::v4(HERE, port)
}

/// Logs on and has the feed sent to a port.
fn subscribe(bench: &mut Bench, n: u32, account: u32, port: u16) {
    let (user, password) = (format!("USER{account}"), format!("secret{account}"));
    assert_eq!(log_on(bench, n, &user, &password), "AU");
    assert_eq!(
        ask(bench, n, unicast(port)),
        [SubscriptionEvent::Wanted(ConnId(door(n)), peer(port))]
    );
    assert!(matches!(answer(bench, n, true), Answer::Subscribed(_)));
}

#[test]
fn a_subscriber_is_told_all_that_it_needs() {
    let mut bench = bench();
    assert_eq!(log_on(&mut bench, 1, "USER1", "secret1"), "AU", "the list of edges comes along");
    assert_eq!(heard(&bench, 1), Answer::Edges(u16::MAX, vec![]), "nothing is known of edges");
    let wanted = ask(&mut bench, 1, unicast(7_100));
    assert_eq!(wanted, [SubscriptionEvent::Wanted(ConnId(door(1)), peer(7_100))]);
    let Answer::Subscribed(subscribed) = answer(&mut bench, 1, true) else { panic!("refused") };
    let terms = terms();
    assert_eq!(
        subscribed,
        Subscribed {
            way: Way::Unicast,
            to: at(HERE, 7_100),
            from: terms.from,
            midnight_ns: config().midnight.0,
            streams: vec![(SESSION, 17)],
            repair: terms.repair,
            snapshots: terms.snapshots,
            ring: None,
        }
    );
    // An account subscribes and trades at the same time.
    bench.login(1, 1);
    assert_eq!((bench.gateway.subscribers(), bench.gateway.connections()), (1, 2));
    assert_eq!(bench.gateway.logged_on().len(), 1);
}

#[test]
fn over_ipv6_the_feed_goes_to_the_own_address_alone_and_servers_are_of_that_version() {
    let six = |n: u16, port| SocketAddr::from((Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, n), port));
    let local = |n: u16, port| SocketAddr::from((Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, n), port));
    let group = SocketAddr::from((Ipv6Addr::new(0xFF15, 0, 0, 0, 0, 0, 0, 3), 7_100));
    let mut bench = Bench::with(GatewayConfig { connections_max: 200, ..config() });
    bench.gateway.offer_subscriptions(SubscriptionTerms {
        groups: vec![GROUP, group],
        from_for_groups: vec![at(HERE + 9, 7_009), six(9, 7_009)],
        repair: vec![at(HERE + 1, 7_001), six(1, 7_001)],
        snapshots: vec![six(9, 7_012), at(HERE + 9, 7_012)],
        ..terms()
    });
    let login = ("USER1", "secret1");
    assert_eq!(log_on_from(&mut bench, six(5, 0).ip().into(), 1, login), "AU");
    let unicast = |to| Request::Subscribe { way: Way::Unicast, to };
    // A neighbour of the same /64, the same address of IPv4's version, and no port.
    for to in [six(6, 7_100), at(5, 7_100), six(5, 0)] {
        assert_eq!(ask(&mut bench, 1, unicast(to)), [], "{to}");
        assert_eq!(heard(&bench, 1), Answer::Refused(SubscriptionRefusal::NotYours), "{to}");
    }
    let wanted = ask(&mut bench, 1, unicast(six(5, 7_100)));
    assert_eq!(wanted, [SubscriptionEvent::Wanted(ConnId(door(1)), Peer::from(six(5, 7_100)))]);
    let Answer::Subscribed(told) = answer(&mut bench, 1, true) else { panic!("refused") };
    assert_eq!((told.to, told.from), (six(5, 7_100), "[::]:7009".parse().expect("an address")));
    assert_eq!((told.repair, told.snapshots), (vec![six(1, 7_001)], vec![six(9, 7_012)]));
    // A group, and where it is sent from.
    assert_eq!(log_on_from(&mut bench, six(5, 0).ip().into(), 2, login), "AU");
    let wanted = ask(&mut bench, 2, Request::Subscribe { way: Way::Group, to: group });
    assert_eq!(wanted, [SubscriptionEvent::Wanted(ConnId(door(2)), Peer::from(group))]);
    let Answer::Subscribed(told) = answer(&mut bench, 2, true) else { panic!("refused") };
    assert_eq!((told.to, told.from), (group, six(9, 7_009)));
    // A link-local address can't be sent to without the segment, even if it is one's own.
    assert_eq!(log_on_from(&mut bench, local(5, 0).ip().into(), 3, login), "AU");
    assert_eq!(ask(&mut bench, 3, unicast(local(5, 7_100))), []);
    assert_eq!(heard(&bench, 3), Answer::Refused(SubscriptionRefusal::NotYours));
}

#[test]
fn wrong_words_are_refused_as_at_any_door_and_count_there() {
    let mut bench = bench();
    for n in 1..=5 {
        assert_eq!(log_on(&mut bench, n, "USER1", "wrong"), "J");
        assert_eq!(bench.client(door(n)).heard[0], b"JA");
    }
    assert_eq!(log_on(&mut bench, 6, "USER1", "secret1"), "J", "guessed too often from here");
    let refusals = bench.gateway.refusals();
    let counts = [Refusal::WrongPassword, Refusal::Throttled].map(|why| refusals.count(why));
    assert_eq!(counts, [5, 1]);
    assert_eq!(log_on(&mut bench, 7, "USER9", "secret9"), "J");
    assert_eq!(log_on(&mut bench, 8, "", ""), "J");
    assert_eq!(bench.gateway.connections(), 0);
    // The order door counts the same guesses.
    let remote = Remote { address: Some(Address::v4(HERE)), certificate: None };
    bench.connect_from(9, ClientSession::new("USER1", "secret1").expect("short"), &remote);
    assert_eq!(bench.ask_in(9), "J");
}

#[test]
fn a_hashed_password_is_looked_at_beside_the_loop_and_the_locked_stay_out() {
    let mut config = GatewayConfig { connections_max: 200, ..config() };
    config.logins[2].terms.password_hash = Some("the hash".to_string());
    let mut bench = Bench::with(config);
    bench.gateway.offer_subscriptions(terms());
    assert_eq!(log_on(&mut bench, 4, "USER3", "secret9"), "");
    bench.work(false);
    assert_eq!(bench.client(door(4)).kinds(), "J");
    assert_eq!(log_on(&mut bench, 1, "USER3", "secret3"), "");
    bench.work(true);
    assert_eq!(bench.client(door(1)).kinds(), "AU");
    assert_eq!(log_on(&mut bench, 2, "USER3", "secret9"), "J", "the right one is known now");
    assert!(bench.gateway.lock(types::AccountId(1), true));
    assert_eq!(log_on(&mut bench, 3, "USER1", "secret1"), "J");
}

#[test]
fn nobody_aims_the_feed_at_others() {
    let mut bench = bench();
    assert_eq!(log_on(&mut bench, 1, "USER1", "secret1"), "AU");
    let other = |way, to| Request::Subscribe { way, to };
    let foreign = [
        (other(Way::Unicast, at(HERE + 1, 7_100)), SubscriptionRefusal::NotYours),
        (other(Way::Unicast, at(HERE, 0)), SubscriptionRefusal::NotYours),
        (other(Way::Unicast, GROUP), SubscriptionRefusal::NotYours),
        (other(Way::Group, at(HERE, 7_100)), SubscriptionRefusal::Group),
        (other(Way::Group, SocketAddr::new(GROUP.ip(), 7_101)), SubscriptionRefusal::Group),
    ];
    for (request, why) in foreign {
        assert_eq!(ask(&mut bench, 1, request), [], "{request:?}");
        assert_eq!(heard(&bench, 1), Answer::Refused(why), "{request:?}");
    }
    assert_eq!(bench.gateway.subscription_counters().refused, foreign.len() as u64);
    // It may try again; whose address nobody knows may not.
    assert_eq!(ask(&mut bench, 1, other(Way::Group, GROUP)).len(), 1);
    let soup = ClientSession::new("USER2", "secret2").expect("short");
    bench.connect_from(door(2), soup, &Remote::default());
    bench.ask_in(door(2));
    assert_eq!(ask(&mut bench, 2, unicast(7_100)), []);
    assert_eq!(heard(&bench, 2), Answer::Refused(SubscriptionRefusal::NotYours));
}

#[test]
fn one_subscription_a_connection_and_so_many_connections_an_account() {
    let mut bench = bench();
    for n in 1..=PER_ACCOUNT as u32 {
        subscribe(&mut bench, n, 1, 7_100 + n as u16);
    }
    assert_eq!(ask(&mut bench, 1, unicast(7_999)), []);
    assert_eq!(heard(&bench, 1), Answer::Refused(SubscriptionRefusal::Twice));
    assert_eq!(log_on(&mut bench, 9, "USER1", "secret1"), "+J");
    let told = bench.client(door(9)).heard[0].clone();
    assert!(told.ends_with(b"as many subscription connections here as it may"), "{told:?}");
    assert_eq!(bench.client(door(9)).heard[1], b"JS");
    assert_eq!(bench.gateway.refusals().count(Refusal::Crowded), 1);
    assert_eq!(bench.gateway.subscription_counters().crowded, 1);
    // Another account has room, and so has this one when a connection has gone.
    subscribe(&mut bench, 10, 2, 7_200);
    bench.close(door(2));
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(peer(7_102))]);
    subscribe(&mut bench, 11, 1, 7_103);
}

#[test]
fn where_there_is_no_room_another_may_be_tried() {
    let mut bench = bench();
    log_on(&mut bench, 1, "USER1", "secret1");
    ask(&mut bench, 1, unicast(7_100));
    assert_eq!(answer(&mut bench, 1, false), Answer::Refused(SubscriptionRefusal::Full));
    bench.close(door(1));
    assert_eq!(events(&mut bench), [], "nothing was sent there");
}

#[test]
fn a_subscription_ends_with_its_connection_however_that_ends() {
    let mut bench = bench();
    for n in 1..=3 {
        subscribe(&mut bench, n, n, 7_100 + n as u16);
    }
    // Cut; unread; ended by the operator.
    bench.close(door(1));
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(peer(7_101))]);
    bench.unread(door(2));
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(peer(7_102))]);
    assert!(bench.client(door(2)).closed && bench.disconnect(3));
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(peer(7_103))]);
    assert!(bench.client(door(3)).heard.last().expect("a word").ends_with(b"by the operator"));
    // Silent; one that sends heartbeats stays.
    subscribe(&mut bench, 4, 1, 7_104);
    subscribe(&mut bench, 5, 2, 7_105);
    bench.client_mut(door(5)).alive = true;
    bench.run(16 * SECOND);
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(peer(7_104))]);
    assert_eq!((bench.gateway.subscribers(), bench.client(door(5)).heartbeats > 10), (1, true));
    // Logged out.
    let mut bytes = Vec::new();
    bench.client_mut(door(5)).soup.logout(&mut bytes).expect("active");
    bench.write(door(5), &bytes);
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(peer(7_105))]);
    assert_eq!(bench.gateway.connections(), 0);
}

#[test]
fn whoever_asks_for_nothing_goes_and_so_does_whoever_asks_too_much() {
    let mut bench = bench();
    log_on(&mut bench, 1, "USER1", "secret1");
    bench.client_mut(door(1)).alive = true;
    bench.run(15 * SECOND);
    assert!(bench.client(door(1)).heard.last().expect("a word").starts_with(b"+no subscription"));
    log_on(&mut bench, 2, "USER1", "secret1");
    bench.write(door(2), &packets(&vec![b"E".to_vec(); 40]));
    let told = bench.client(door(2));
    assert!(told.closed && told.heard.last().expect("a word").ends_with(b"session ended"));
    assert!(told.heard.len() <= 2 + 32 + 1, "{}", told.heard.len());
    log_on(&mut bench, 3, "USER1", "secret1");
    bench.write(door(3), &packets(&[b"garbage".to_vec()]));
    assert!(bench.client(door(3)).closed);
    // Before the login there is nothing to say.
    let soup = ClientSession::new("USER1", "secret1").expect("short");
    bench.connect_again(door(4), soup);
    bench.write(door(4), &packets(&[b"E".to_vec()]));
    assert!(bench.client(door(4)).closed);
    assert_eq!((bench.gateway.counters().violations, bench.gateway.connections()), (3, 0));
}

#[test]
fn two_that_share_a_group_get_it_once_and_until_both_have_gone() {
    let mut bench = bench();
    let group = Request::Subscribe { way: Way::Group, to: GROUP };
    for n in 1..=2 {
        log_on(&mut bench, n, &format!("USER{n}"), &format!("secret{n}"));
        assert_eq!(ask(&mut bench, n, group).len(), 1);
        let Answer::Subscribed(told) = answer(&mut bench, n, true) else { panic!("refused") };
        assert_eq!((told.way, told.from), (Way::Group, terms().from_for_groups[0]));
    }
    bench.close(door(1));
    assert_eq!(events(&mut bench), []);
    bench.close(door(2));
    let over = Peer::from(GROUP);
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(over)]);
}

#[test]
fn the_ring_is_told_to_those_who_want_it_where_there_is_one() {
    let mut bench = bench();
    let in_ring = Request::Subscribe { way: Way::Ring, to: NOWHERE };
    log_on(&mut bench, 1, "USER1", "secret1");
    assert_eq!(ask(&mut bench, 1, in_ring), [], "control: there is none");
    assert_eq!(heard(&bench, 1), Answer::Refused(SubscriptionRefusal::Ring));
    let ring = Ring { generation: 77, path: "/dev/shm/edge/feed.ring".to_string() };
    bench.gateway.offer_subscriptions(SubscriptionTerms { ring: Some(ring.clone()), ..terms() });
    // Of whom nobody knows the address may have it, too: what it reads is on the machine.
    bench.connect_from(
        door(2),
        ClientSession::new("USER2", "secret2").expect("short"),
        &Remote::default(),
    );
    bench.ask_in(door(2));
    for n in 1..=2 {
        let wanted = ask(&mut bench, n, in_ring);
        assert_eq!(wanted, [SubscriptionEvent::Wanted(ConnId(door(n)), Peer::RING)]);
        let Answer::Subscribed(told) = answer(&mut bench, n, true) else { panic!("refused") };
        assert_eq!((told.way, told.to, told.ring.as_ref()), (Way::Ring, NOWHERE, Some(&ring)));
    }
    subscribe(&mut bench, 3, 3, 7_103);
    bench.close(door(1));
    assert_eq!(events(&mut bench), []);
    bench.close(door(2));
    assert_eq!(events(&mut bench), [SubscriptionEvent::Over(Peer::RING)]);
    let Answer::Subscribed(told) = heard(&bench, 3) else { panic!("refused") };
    assert_eq!(told.ring, None, "it is not told to those who did not ask");
}

#[test]
fn edges_are_named_while_their_list_is_fresh() {
    let mut bench = bench();
    let edge = EdgeLoad {
        host: "edge-2".to_string(),
        ports: [7_010, 7_011, 7_014],
        sessions: 3,
        requests_per_s: 40,
    };
    let now = bench.now.now;
    bench.gateway.set_edges(now, 700 * MS, vec![edge.clone()]);
    log_on(&mut bench, 1, "USER1", "secret1");
    assert_eq!(heard(&bench, 1), Answer::Edges(700, vec![edge.clone()]));
    bench.run(4 * SECOND);
    ask(&mut bench, 1, Request::Edges);
    assert_eq!(heard(&bench, 1), Answer::Edges(4_700, vec![edge]));
    bench.run(SECOND);
    ask(&mut bench, 1, Request::Edges);
    assert_eq!(heard(&bench, 1), Answer::Edges(u16::MAX, vec![]), "too old to be true");
}

#[test]
fn without_terms_nobody_is_let_in() {
    let mut bench = Bench::with(config());
    assert_eq!(log_on(&mut bench, 1, "USER1", "secret1"), "J");
    assert_eq!(bench.gateway.connections(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever clients say, the feed goes to exactly those places that a live connection holds, and
    /// only to their own address or the group.
    #[test]
    fn garbage_never_panics_and_the_feed_goes_where_it_is_wanted(
        steps in vec((0u32..5, 0u8..8, vec(any::<u8>(), 0..60), 0u16..3), 1..60),
    ) {
        let mut bench = bench();
        let mut served = BTreeSet::new();
        for (n, what, noise, port) in steps {
            let known = bench.clients.get(&ConnId(door(n)));
            let closed = known.is_none_or(|client| client.closed);
            let place = Request::Subscribe {
                way: if noise.len() % 3 == 0 { Way::Group } else { Way::Unicast },
                to: if noise.len() % 3 == 0 { GROUP } else { at(HERE, 7_000 + port) },
            };
            match what {
                0 | 1 if closed => drop(log_on(&mut bench, n, "USER1", "secret1")),
                _ if closed => {}
                2 => bench.close(door(n)),
                3 => bench.write(door(n), &noise),
                4 => bench.write(door(n), &packets(&[noise])),
                5 => bench.run(u64::from(port) * 6 * SECOND),
                _ => {
                    let mut message = Vec::new();
                    place.encode(&mut message);
                    message.extend(noise.iter().take(usize::from(what == 6)));
                    bench.write(door(n), &packets(&[message]));
                }
            }
            for event in events(&mut bench) {
                match event {
                    SubscriptionEvent::Wanted(conn, to) => {
                        served.insert(to);
                        bench.answer_subscription(conn.0, Some(vec![(SESSION, 1)]));
                    }
                    SubscriptionEvent::Over(to) => prop_assert!(served.remove(&to)),
                }
            }
            let allowed = |to: &Peer| {
                (0..3).any(|port| *to == peer(7_000 + port))
                    || *to == Peer::from(GROUP)
            };
            prop_assert!(served.iter().all(allowed), "{served:?}");
            prop_assert!(served.len() <= bench.gateway.subscribers());
            prop_assert_eq!(served.is_empty(), bench.gateway.subscribers() == 0);
            prop_assert!(bench.gateway.connections() <= PER_ACCOUNT.max(5));
        }
    }
}
