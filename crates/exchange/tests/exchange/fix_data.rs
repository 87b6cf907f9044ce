//! Market data over FIX: at every message the book of who subscribed is the one that is public at
//! that moment at its edge, however slowly it reads.

use types::{
    Channel, Command, CommandKind, InstrumentId, MatchNumber, Node, Outbox, Peer, Phase, Qty,
};
use wire::itch;
use wire::moldudp::{PacketBuilder, Session};

use crate::common::MS;
use crate::fix_world::{World, fix_config};

/// The client that subscribes.
const DATA: usize = 3;

fn ask(world: &mut World, id: &str, subscription: u8, depth: usize, kind: u8) {
    let now = world.now.now;
    let what = "267=3|269=0|269=1|269=2|146=1|55=BTCUSD|";
    let body = format!("262={id}|263={subscription}|264={depth}|265={kind}|{what}");
    world.clients[DATA].book.depth = if depth == 0 { 500 } else { depth };
    world.clients[DATA].send(now, "V", &body);
    world.run(2 * MS);
}

/// Both participants add and take, on several levels.
fn trade(world: &mut World, step: u64) {
    let now = world.now.now;
    let price = 90 + world.rng.next_u64() % 12;
    world.clients[0].order(now, &format!("b{step}"), '1', 1 + step % 5, price);
    let price = 99 + world.rng.next_u64() % 12;
    world.clients[1].order(now, &format!("s{step}"), '2', 1 + step % 4, price);
    // A door takes only so many that it has to refuse itself.
    if step % 20 == 2 {
        world.clients[0].cancel(now, &format!("c{step}"), &format!("b{}", step - 2), '1');
    }
    let pause = world.rng.next_u64() % (2 * MS);
    world.run(pause);
}

fn world(seed: u64) -> World {
    let mut world = World::new(1, seed);
    for client in [0, 1, DATA] {
        world.logon(client, 1);
    }
    world
}

#[test]
fn the_book_is_the_public_one_at_every_message() {
    for (seed, depth, kind) in [(1, 0, 1), (2, 1, 1), (3, 3, 1), (4, 0, 0), (5, 2, 0)] {
        let mut world = world(seed);
        (0..20).for_each(|step| trade(&mut world, step));
        ask(&mut world, "m", 1, depth, kind);
        (20..200).for_each(|step| trade(&mut world, step));
        world.run(100 * MS);
        let book = &world.clients[DATA].book;
        assert!(book.compared > 50, "seed {seed}: {}", book.compared);
        let updates = book.messages.get("X").copied().unwrap_or(0);
        assert_eq!(updates > 0, kind == 1, "seed {seed}");
        if kind == 1 {
            let trades = world.root.engine().books().last_match_number();
            let told: Vec<&str> = book.prints.iter().map(|(id, _, _)| id.as_str()).collect();
            assert_eq!(told.last().copied(), Some(trades.0.to_string().as_str()), "seed {seed}");
            // One after the other from the subscription on; a snapshot has the one before.
            let numbers = told.iter().filter_map(|id| id.parse::<u64>().ok());
            assert!(numbers.clone().zip(numbers.skip(1)).all(|(a, b)| b == a + 1), "seed {seed}");
        }
        assert_eq!(world.clients[DATA].violations, Vec::<String>::new());
        ask(&mut world, "m", 2, 0, 1);
        let before = world.clients[DATA].book.compared;
        (200..220).for_each(|step| trade(&mut world, step));
        assert_eq!(world.clients[DATA].book.compared, before, "no longer");
    }
}

/// The books of market-data sessions come from what the receiver beside them releases, within one
/// process: no socket takes the feed.
#[test]
fn forged_packets_at_the_sockets_of_an_edge_are_in_no_book() {
    let mut world = world(9);
    (0..20).for_each(|step| trade(&mut world, step));
    ask(&mut world, "m", 1, 0, 1);
    let (before, now) = (world.clients[DATA].book.compared, world.now);
    let edge = world.edges[0].as_mut().expect("it lives");
    let (known, next) = (edge.malformed(), edge.receiver().watermark().0 + 1);
    let mut out = Outbox::default();
    for channel in [Channel::FEED, Channel::OVERLAY] {
        for seq in next..next + 8 {
            let mut packet = PacketBuilder::new(Session(*b"FAIRBELL01"), seq, 1_392);
            let mut order = [0; 36];
            (order[0], order[2], order[18], order[19]) = (b'A', 1, seq as u8, b'B');
            (order[23], order[35]) = (1, 100);
            assert!(itch::parse(&order).is_ok() && packet.push(&order));
            edge.handle_datagram(now, channel, Peer::Addr(66), packet.bytes(), &mut out);
        }
    }
    assert!(out.is_empty() && edge.malformed() == known + 16);
    // Each message compares the session's book with what was released.
    (20..60).for_each(|step| trade(&mut world, step));
    assert!(world.clients[DATA].book.compared > before + 20);
    assert_eq!(world.clients[DATA].violations, Vec::<String>::new());
}

#[test]
fn a_session_without_a_stream_is_no_stranger() {
    let mut config = fix_config(1);
    config.access.logon_wait_ns = 500 * MS;
    let mut world = World::of(&config, 3);
    for client in [0, 1, DATA] {
        world.logon(client, 1);
    }
    world.run(2_000 * MS);
    ask(&mut world, "m", 1, 0, 1);
    (0..20).for_each(|step| trade(&mut world, step));
    assert!(world.clients[DATA].book.compared > 10, "it is still told");
}

/// A session of market data begins at 1 with every Logon; a client that goes on is told so.
#[test]
fn who_comes_back_with_the_numbers_of_before_is_in_at_once() {
    let mut world = world(4);
    for round in 0..3 {
        (round * 20..round * 20 + 20).for_each(|step| trade(&mut world, step));
        ask(&mut world, "m", 1, 0, 1);
        (0..10).for_each(|step| trade(&mut world, 1_000 + round * 20 + step));
        let client = &world.clients[DATA];
        assert!(client.next_in > 5 && client.next_out > 1, "numbers go on");
        world.hang_up(DATA);
        world.logon(DATA, 1);
        let client = &world.clients[DATA];
        assert_eq!((client.next_in, client.next_out), (2, 1), "round {round}");
    }
    ask(&mut world, "m", 1, 0, 1);
    let before = world.clients[DATA].book.compared;
    (500..520).for_each(|step| trade(&mut world, step));
    assert!(world.clients[DATA].book.compared > before + 10, "it is told");
    assert_eq!(world.clients[DATA].violations, Vec::<String>::new());
    assert_eq!(world.clients[DATA].logouts, Vec::<String>::new());
}

#[test]
fn who_does_not_read_is_told_less_and_then_how_it_is() {
    let mut world = world(7);
    (0..20).for_each(|step| trade(&mut world, step));
    ask(&mut world, "m", 1, 0, 0);
    world.slow = Some(DATA);
    (20..1_500).for_each(|step| trade(&mut world, step));
    let sent = world.unread.len();
    assert!(sent < 600 << 10, "{sent} bytes lie before somebody who does not read");
    assert!(sent > 256 << 10, "{sent} bytes: the test is too short");
    // It reads on, and gets what it missed in one refresh.
    world.read_on();
    let before = world.clients[DATA].book.compared;
    world.run(20 * MS);
    assert_eq!(world.clients[DATA].book.compared, before + 1);
    // Room for new orders.
    for client in [0, 1] {
        let now = world.now.now;
        world.clients[client].send(now, "q", "11=all|530=7|60=20260101-10:00:00|");
    }
    world.run(20 * MS);
    (1_500..1_550).for_each(|step| trade(&mut world, step));
    let after = world.clients[DATA].book.compared;
    assert!(after > before + 20, "{}", after - before);
    assert_eq!(world.clients[DATA].violations, Vec::<String>::new());
}

#[test]
fn requests_that_cannot_be_are_refused_with_the_reason() {
    let mut world = world(8);
    let refused = |world: &mut World, kind: &str, body: &str| {
        let now = world.now.now;
        world.clients[DATA].book.texts.clear();
        world.clients[DATA].refused.clear();
        world.clients[DATA].send(now, kind, body);
        world.run(5 * MS);
        let client = &world.clients[DATA];
        let last = client.refused.last().map(|(_, text)| text.clone());
        client.book.texts.last().cloned().or(last).unwrap_or_default()
    };
    let good = "262=m|263=1|264=1|265=1|267=1|269=0|146=1|55=BTCUSD|";
    assert_eq!(refused(&mut world, "V", good), "");
    let cases = [
        (good.to_string(), "MDReqID in use"),
        (good.replace("BTCUSD", "NOTHING").replace("=m|", "=n|"), "Unknown symbol"),
        (good.replace("265=1", "266=N").replace("=m|", "=n|"), "Only price levels are available"),
        (good.replace("263=1", "263=2").replace("=m|", "=n|"), "Unknown MDReqID"),
    ];
    for (body, text) in cases {
        assert_eq!(refused(&mut world, "V", &body), text, "{body}");
    }
    for n in 0..63 {
        assert_eq!(refused(&mut world, "V", &good.replace("=m|", &format!("=x{n}|"))), "");
    }
    assert_eq!(refused(&mut world, "V", &good.replace("=m|", "=y|")), "Too much at a time");
    let order = "11=a|55=BTCUSD|54=1|60=20260101-10:00:00|38=1|40=2|44=1|";
    assert_eq!(refused(&mut world, "D", order), "A market-data session takes no orders");
}

#[test]
fn states_of_trading_are_told_and_their_changes() {
    let mut world = world(9);
    let now = world.now.now;
    world.clients[DATA].send(now, "g", "335=t|263=1|");
    world.clients[DATA].send(now, "e", "324=s|55=BTCUSD|263=0|");
    world.clients[DATA].send(now, "e", "324=u|55=NOTHING|263=0|");
    world.run(5 * MS);
    let instruments = world.clients[DATA].book.messages.get("h").copied();
    assert!(instruments >= Some(1));
    let texts = std::mem::take(&mut world.clients[DATA].book.texts);
    assert_eq!(texts.last().map(String::as_str), Some("Not traded"));
    assert_eq!(texts.iter().filter(|text| *text == "Trading").count(), texts.len() - 1);
    let halt = Command {
        instrument: InstrumentId(1),
        param: Phase::Halt as u8,
        ..Command::new(CommandKind::SetPhase)
    };
    world.operate(halt);
    world.run(100 * MS);
    assert_eq!(world.clients[DATA].book.texts, ["Halted"]);
}

#[test]
fn a_broken_trade_is_taken_back() {
    let mut world = world(10);
    ask(&mut world, "m", 1, 0, 1);
    (0..20).for_each(|step| trade(&mut world, step));
    world.run(50 * MS);
    let number = world.root.engine().books().last_match_number();
    assert_ne!(number, MatchNumber(0));
    world.operate(Command { qty: Qty(number.0), ..Command::new(CommandKind::BustTrade) });
    world.run(100 * MS);
    assert_eq!(world.clients[DATA].book.broken, [number.0.to_string()]);
}
