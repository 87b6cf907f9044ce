//! A strategy that begins while its feed is under way: what was sent before makes books, and is no news.

mod common;

use std::sync::{Arc, Mutex};

use feed::{ListenerConfig, Subscriber};
use strategy::heard::{self, Opening};
use strategy::{Desk, Login, MarketTrade, Strategy, StrategyNode, StrategySettings};
use types::{
    Channel, ClockReading, Instrument, InstrumentId, MarketEvent, MatchNumber, Nanos, Node,
    OrderRef, Outbox, Peer, Price, Qty, Side,
};
use wire::moldudp::{PacketBuilder, Session};

use common::{ONE, instruments};

const SESSION: Session = Session(*b"SESSION001");

/// Notes what it is told: of books the best bid, of trades the price.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Strategy for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        let best = desk.best(instrument, Side::Buy).map(|level| level.price.0);
        self.0.lock().expect("one thread").push(format!("book {best:?}"));
    }

    fn on_trade(&mut self, trade: &MarketTrade, _desk: &mut Desk<'_>) {
        self.0.lock().expect("one thread").push(format!("trade {}", trade.price.0));
    }
}

/// A directory entry, then bids that rise, each of which trades a lot: messages 1, 2 and 3, 4 and 5, ...
fn messages(bids: u64) -> Vec<Vec<u8>> {
    let encoder = wire::itch::Encoder::new(&instruments(), Nanos(0));
    let events = (1..=bids).flat_map(|at| {
        let order_ref = OrderRef(at);
        let price = Price(10_000 + 100 * at.cast_signed());
        let add = MarketEvent::AddOrder {
            instrument: ONE,
            order_ref,
            side: Side::Buy,
            qty: Qty(5),
            price,
        };
        let match_number = MatchNumber(at);
        [add, MarketEvent::OrderExecuted { instrument: ONE, order_ref, qty: Qty(1), match_number }]
    });
    let all = std::iter::once(MarketEvent::Directory { instrument: ONE }).chain(events);
    let encoded = all.zip(1..).map(|(event, at)| {
        let mut bytes = Vec::new();
        encoder.encode(&event, Nanos(at), &mut bytes).expect("a message");
        bytes
    });
    encoded.collect()
}

/// What a strategy is told of six bids that come in datagrams of so many messages, and the record of it.
fn told(history: u64, per_datagram: usize) -> (Vec<String>, Vec<u8>) {
    let (notes, record) = (Notes::default(), Arc::new(Mutex::new(Vec::new())));
    let mut settings = ListenerConfig::new(SESSION, Vec::new(), vec![ONE]);
    settings.orders_max = 64;
    let feed = Subscriber::new(&settings, [(SESSION, vec![ONE])]);
    let into = Arc::clone(&record);
    let opening = Opening {
        price_decimals: 4,
        streams: 1,
        orders_max: 64,
        midnight: Nanos(0),
        history: std::array::from_fn(|stream| if stream == 0 { history } else { 0 }),
    };
    let settings = StrategySettings {
        login: Login {
            username: "ONE".to_string(),
            password: "p".to_string(),
            gateways: Vec::new(),
        },
        instruments: instruments(),
        opening,
        record: Some(Box::new(move |bytes: &[u8]| {
            into.lock().expect("one thread").extend_from_slice(bytes);
        })),
    };
    let mut node = StrategyNode::new(feed, Box::new(notes.clone()), settings).expect("a login");
    let (mut out, mut packet) = (Outbox::default(), PacketBuilder::new(SESSION, 1, 1_400));
    for (at, datagram) in (1..).zip(messages(6).chunks(per_datagram)) {
        datagram.iter().for_each(|message| assert!(packet.push(message)));
        let now = ClockReading { now: Nanos(100 * at), bound_ns: 0 };
        node.handle_datagram(now, Channel::FEED, Peer::v4(1, 9), packet.bytes(), &mut out);
        packet.advance();
    }
    let record = record.lock().expect("one thread").clone();
    let notes = notes.0.lock().expect("one thread").clone();
    (notes, record)
}

#[test]
fn what_was_sent_before_it_began_makes_books_and_is_no_news() {
    // The news are the last bid and its trade: messages 12 and 13.
    for per_datagram in [1, 2, 5, 13] {
        let (notes, record) = told(11, per_datagram);
        let trades: Vec<_> = notes.iter().filter(|of| of.starts_with("trade")).collect();
        assert_eq!(trades, ["trade 10600"], "{per_datagram}: {notes:?}");
        // Its first look at the book is at the one of then, with what came in the same datagram.
        let first = notes.iter().find(|of| of.starts_with("book")).expect("told");
        let last_of_history =
            if per_datagram == 1 { "book Some(10500)" } else { "book Some(10600)" };
        assert_eq!(first, last_of_history, "{per_datagram}: {notes:?}");
        // The record says what was history: told again, it is the same.
        let again = Notes::default();
        let start = |_: &[Instrument], _| Ok(Box::new(again.clone()) as Box<dyn Strategy>);
        assert!(heard::replay(&record, start).expect("a record").is_equal());
        assert_eq!(*again.0.lock().expect("one thread"), notes);
    }
    // Control: where all is news it is told of all six trades, of prices that are no more.
    let (notes, _) = told(0, 2);
    assert_eq!(notes.iter().filter(|of| of.starts_with("trade")).count(), 6, "{notes:?}");
}

#[test]
fn a_record_that_ends_before_the_history_was_heard_is_whole() {
    let start = |_: &[Instrument], _| Ok(Box::new(Notes::default()) as Box<dyn Strategy>);
    let (notes, record) = told(14, 2);
    assert!(notes.is_empty(), "{notes:?}");
    let replayed = heard::replay(&record, start).expect("a record");
    assert!(replayed.is_equal() && replayed.messages == 13, "{replayed:?}");
    // Control: one whose last telling is missing is not.
    let (_, record) = told(11, 1);
    let cut = &record[..record.len() - 11];
    assert!(heard::replay(cut, start).expect("a record").cut.is_some());
}
