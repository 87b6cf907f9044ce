//! Answers say what was asked for, and say it alike whichever gateway tells them: the record of an
//! account's stream has all of it, so nothing is lost with the gateway that took the request.

use types::{ClOrdId, ConnId, Nanos, OrderType, Price, Qty, Side, TimeInForce, UserRefNum};
use wire::ouch::{
    NewOrder, Outbound, ReplaceRequest, Terms, encode_enter_order_with, encode_replace_with,
    parse_outbound, tag,
};
use wire::soupbin::{ClientEvent, ClientSession};

use crate::common::{MS, START, symbol};
use crate::fix_world::{World, fix_config};

const CONN: ConnId = ConnId(7);

/// Account 3 at the OUCH door of the gateway at `place`.
struct Member {
    soup: ClientSession,
    place: usize,
    answers: Vec<Vec<u8>>,
}

impl Member {
    /// Logs in and asks for its whole stream.
    fn at(world: &mut World, place: usize) -> Member {
        let soup = ClientSession::new("USER3", "secret3").expect("short");
        let mut member = Member { soup, place, answers: Vec::new() };
        world.heard.insert((place, CONN), Vec::new());
        world.with(place, |node, now, out| node.handle_connect(now, CONN, out));
        let mut bytes = Vec::new();
        member.soup.connect(world.now.now, &mut bytes).expect("a login");
        member.write(world, &bytes);
        member.listen(world, 50 * MS);
        assert!(member.soup.is_active());
        member
    }

    fn write(&self, world: &mut World, bytes: &[u8]) {
        world.with(self.place, |node, now, out| node.handle_stream(now, CONN, bytes, out));
    }

    fn say(&mut self, world: &mut World, message: &[u8]) {
        let mut bytes = Vec::new();
        self.soup.send_unsequenced(world.now.now, message, &mut bytes).expect("logged in");
        self.write(world, &bytes);
    }

    fn listen(&mut self, world: &mut World, ns: u64) {
        world.run(ns);
        let heard = world.heard.get_mut(&(self.place, CONN)).map(std::mem::take);
        self.soup.handle_bytes(world.now.now, &heard.unwrap_or_default(), |event| {
            if let ClientEvent::Sequenced { message, .. } = event {
                self.answers.push(message.to_vec());
            }
        });
    }
}

/// Orders with terms that only some have, one of each kind that the engine has.
fn asked() -> Vec<(NewOrder, Terms)> {
    let order = |price: Option<i64>, time_in_force| NewOrder {
        user_ref: UserRefNum(0),
        side: Side::Buy,
        qty: Qty(100),
        symbol: symbol(),
        price: price.map(Price::from_whole),
        time_in_force,
        post_only: false,
        cl_ord_id: ClOrdId(*b"terms         "),
    };
    let (day, date) = (TimeInForce::Day, TimeInForce::GoodTillDate);
    let terms = Terms::default();
    let at = |whole| Price::from_whole(whole);
    let mut orders = vec![
        (order(Some(100), day), Terms { min_qty: 0, display_qty: 10, ..terms }),
        (order(Some(100), day), Terms { min_qty: 7, ..terms }),
        (order(Some(100), date), Terms { live_s: 90, display_qty: 5, ..terms }),
        (order(Some(100), date), Terms { expire_at: START.after(86_400 * Nanos::SECOND), ..terms }),
    ];
    for (order_type, price, stop) in [
        (OrderType::PegPrimary, Some(150), 2),
        (OrderType::PegMid, None, 0),
        (OrderType::Stop, None, 300),
        (OrderType::StopLimit, Some(301), 300),
        (OrderType::TrailingStop, None, 3),
    ] {
        orders.push((order(price, day), Terms { order_type, stop_price: at(stop), ..terms }));
    }
    for (number, (order, _)) in (1..).zip(&mut orders) {
        order.user_ref = UserRefNum(number);
    }
    orders
}

/// What an acceptance or a replacement says of the terms of an order, as they were asked for.
fn echoed(answer: &[u8], asked: &Terms) -> Terms {
    let (Outbound::OrderAccepted(_, more) | Outbound::OrderReplaced(_, more)) =
        parse_outbound(answer).expect("OUCH")
    else {
        panic!("{}", answer.escape_ascii());
    };
    let number = |tag| more.number(tag).unwrap_or(0);
    let order_type = match (more.get(tag::PRICE_TYPE), more.get(tag::STOP_TYPE)) {
        (Some(b"R"), None) => OrderType::PegPrimary,
        (Some(b"M"), None) => OrderType::PegMid,
        (None, Some(b"S")) => OrderType::Stop,
        (None, Some(b"L")) => OrderType::StopLimit,
        (None, Some(b"T")) => OrderType::TrailingStop,
        _ => OrderType::Limit,
    };
    // The end of an order is said both ways.
    let in_seconds = asked.live_s != 0;
    Terms {
        order_type,
        min_qty: number(tag::MIN_QTY) as u32,
        display_qty: number(tag::MAX_FLOOR) as u32,
        stop_price: Price((number(tag::PEG_OFFSET) + number(tag::STOP_PRICE)) as i64),
        live_s: if in_seconds { number(tag::EXPIRE_TIME) as u32 } else { 0 },
        expire_at: Nanos(if in_seconds { 0 } else { number(tag::EXPIRE_AT) }),
        ..Terms::default()
    }
}

#[test]
fn answers_echo_what_was_asked_and_the_next_gateway_repeats_them() {
    let mut world = World::of(&fix_config(2), 1);
    let mut first = Member::at(&mut world, 1);
    let orders = asked();
    let say = |member: &mut Member, world: &mut World, (order, terms): &(NewOrder, Terms)| {
        let mut message = Vec::new();
        encode_enter_order_with(order, terms, &mut message).expect("fits");
        member.say(world, &message);
    };
    let (last, before) = orders.split_last().expect("some");
    for order in before {
        say(&mut first, &mut world, order);
        first.listen(&mut world, 20 * MS);
    }
    // The last one's answer finds its gateway dead.
    say(&mut first, &mut world, last);
    world.run(MS);
    world.kill(1);
    world.run(700 * MS);

    let mut second = Member::at(&mut world, 2);
    second.listen(&mut world, 200 * MS);
    let told = |user_ref: u32| {
        let answer = |of: &&Vec<u8>| {
            matches!(parse_outbound(of), Ok(Outbound::OrderAccepted(accepted, _))
                if accepted.user_ref.get() == user_ref)
        };
        second.answers.iter().find(answer).expect("accepted")
    };
    for (order, terms) in &orders {
        assert_eq!(echoed(told(order.user_ref.0), terms), *terms, "{order:?}");
    }
    let Ok(Outbound::OrderAccepted(peg, _)) = parse_outbound(told(5)) else { panic!("a peg") };
    assert_eq!(peg.price.get(), 1_500_000, "its limit");
    assert!(first.answers.len() >= before.len());
    assert_eq!(first.answers, second.answers[..first.answers.len()], "to the byte");

    // And a replace says its own.
    let replace = ReplaceRequest {
        orig_user_ref: UserRefNum(1),
        user_ref: UserRefNum(100),
        qty: Qty(80),
        price: Price::from_whole(99),
        time_in_force: TimeInForce::Day,
        post_only: false,
        cl_ord_id: ClOrdId(*b"replaced      "),
    };
    let terms = Terms { min_qty: 0, display_qty: 20, ..Terms::default() };
    let mut message = Vec::new();
    encode_replace_with(&replace, &terms, &mut message).expect("fits");
    second.say(&mut world, &message);
    second.listen(&mut world, 50 * MS);
    let answer = second.answers.last().expect("an answer");
    assert_eq!(echoed(answer, &terms), terms);
}

#[test]
fn an_identifier_of_an_open_order_is_refused_where_that_is_configured() {
    for unique_ids in [false, true] {
        let config = exchange::ExchangeConfig { unique_ids, ..fix_config(2) };
        let mut world = World::of(&config, 1);
        let mut member = Member::at(&mut world, 1);
        for (number, (mut order, _)) in (1..).zip(asked().into_iter().take(2)) {
            order.user_ref = UserRefNum(number);
            let mut message = Vec::new();
            encode_enter_order_with(&order, &Terms::default(), &mut message).expect("fits");
            member.say(&mut world, &message);
            member.listen(&mut world, 20 * MS);
        }
        let kinds: Vec<u8> = member.answers.iter().map(|answer| answer[0]).collect();
        assert_eq!(kinds, if unique_ids { *b"AJ" } else { *b"AA" });
        if unique_ids {
            let Ok(Outbound::OrderRejected(refused, _)) = parse_outbound(&member.answers[1]) else {
                panic!("{:?}", member.answers)
            };
            assert_eq!(refused.reason.get(), 0x4607);
        }
    }
}
