//! Topics, and a book whose instrument moves to another shard.

use feed::ListenerConfig;
use types::MarketEvent::{AddOrder, Directory, SystemEvent, TradingAction};
use types::{
    Channel, ClockReading, InstrumentId, MarketEvent, Nanos, Node, OrderRef, Outbox, Peer, Qty,
    Symbol, SystemEventCode, TradingState, limits,
};
use wire::itch::Encoder;

use super::*;

const ONE: InstrumentId = InstrumentId(1);
const BEGIN: MarketEvent = SystemEvent { code: SystemEventCode::StartOfMessages };

fn instruments() -> Vec<Instrument> {
    let instrument = |(id, name)| Instrument {
        id: InstrumentId(id),
        symbol: Symbol::new(name).expect("a symbol"),
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 0,
    };
    [(1, "AAA"), (2, "BBB")].map(instrument).to_vec()
}

/// A subscriber of two streams, and how far each is.
struct Ear {
    heard: Subscriber,
    encoder: Encoder,
    next: [u64; 2],
}

impl Ear {
    fn new() -> Ear {
        let streams = Ear::STREAMS.map(|name| (Session(*name), Vec::new()));
        let settings = ListenerConfig::new(Session(*Ear::STREAMS[0]), Vec::new(), Vec::new());
        Ear {
            heard: Subscriber::new(&settings, streams),
            encoder: Encoder::new(&instruments(), Nanos(0)),
            next: [1; 2],
        }
    }

    const STREAMS: [&'static [u8; 10]; 2] = [b"FAIRBELL01", b"FAIRBELL02"];

    fn hear(&mut self, stream: usize, events: &[MarketEvent]) {
        let mut bytes = Ear::STREAMS[stream].to_vec();
        bytes.extend(self.next[stream].to_be_bytes());
        bytes.extend((events.len() as u16).to_be_bytes());
        for event in events {
            let mut message = Vec::new();
            self.encoder.encode(event, Nanos(1), &mut message).expect("encodable");
            bytes.extend((message.len() as u16).to_be_bytes());
            bytes.extend(message);
        }
        self.next[stream] += events.len() as u64;
        let now = ClockReading { now: Nanos(1), bound_ns: 0 };
        let (feed, mut out) = (Channel::FEED, Outbox::default());
        self.heard.handle_datagram(now, feed, Peer::Addr(1), &bytes, &mut out);
    }
}

fn bid(order: u64, price: i64) -> MarketEvent {
    let (order_ref, price) = (OrderRef(order), Price::from_whole(price));
    AddOrder { instrument: ONE, order_ref, side: Side::Buy, qty: Qty(7), price }
}

#[test]
fn a_book_follows_its_instrument_to_another_shard() {
    let market = Market::new(Instruments(instruments()));
    let (mut ear, mut batches) = (Ear::new(), market.batches.subscribe());
    let mailbox = Arc::default();
    market.hub().subscribe((0, Topic::Book), &mailbox);
    let trading = TradingAction { instrument: ONE, state: TradingState::Trading };
    ear.hear(1, &[BEGIN, Directory { instrument: InstrumentId(2) }]);
    ear.hear(0, &[BEGIN, Directory { instrument: ONE }, trading, bid(1, 9), bid(2, 8)]);
    let book = |ear: &Ear| {
        market.follow(&ear.heard, &[]);
        let (_, told) = market.snapshot(0, Topic::Book, 5).expect("a book");
        let best = told["bids"][0][0].as_str().map(str::to_string);
        (told["session"].as_str().expect("a text").to_string(), best, told["seq"].clone())
    };
    let there = |session: &str, price: &str, seq: u64| {
        (session.to_string(), Some(price.to_string()), Value::from(seq))
    };
    assert_eq!(book(&ear), there("FAIRBELL01", "9", 5));
    // The day of the old shard begins, and the instrument is not there; it is in no directory yet.
    ear.hear(0, &[BEGIN]);
    assert_eq!(book(&ear).0, "FAIRBELL01");
    ear.hear(1, &[Directory { instrument: ONE }, trading]);
    ear.hear(1, &[bid(1, 9)]);
    assert_eq!(book(&ear), there("FAIRBELL02", "9", 5));
    // Who follows the book is told how it stands there, with the numbers of that stream.
    let mut told = Vec::new();
    while let Ok(batch) = batches.try_recv() {
        told.extend(batch.iter().map(|event| event.text().to_string()));
    }
    let last: Value = serde_json::from_str(told.last().expect("updates")).expect("JSON");
    assert_eq!((&last["type"], &last["seq"]), (&"snapshot".into(), &5.into()));
    // What the old stream says is not of it any more.
    ear.hear(0, &[BEGIN, BEGIN]);
    ear.hear(1, &[bid(3, 11)]);
    assert_eq!(book(&ear), there("FAIRBELL02", "11", 6));
    assert_eq!(market.since(0, Topic::Book, 5).map(|updates| updates.len()), Some(1));
}

#[test]
fn channels_have_names() {
    for topic in Topic::ALL {
        assert_eq!(Topic::named(topic.name()), Some(topic));
    }
    assert_eq!(Topic::named("orders"), None);
}
