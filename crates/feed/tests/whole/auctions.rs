//! The image through calls, crosses, hidden trades and breaks.

use crate::common::{Stream, ids};
use feed::{BookImage, FeedError, ImageError};
use types::{
    CrossKind, ImbalanceSide, InstrumentId, MarketEvent, MatchNumber, Nanos, OrderRef, Price, Qty,
    Side, TradingState,
};
use wire::itch::State;

const ONE: InstrumentId = InstrumentId(1);
const TWO: InstrumentId = InstrumentId(2);

fn digests(image: &BookImage) -> Vec<u64> {
    ids().into_iter().map(|id| image.digest(id)).collect()
}

fn apply(stream: &Stream, image: &mut BookImage, event: MarketEvent) -> Result<(), FeedError> {
    let mut bytes = Vec::new();
    stream.encoder.encode(&event, Nanos(1), &mut bytes).expect("encodable");
    image.apply(&bytes).map(|_| ())
}

/// An image that has seen everything of a stream.
fn caught_up(stream: &Stream) -> BookImage {
    let mut image = BookImage::new(4_096);
    for message in &stream.messages {
        image.apply(message).expect("valid");
    }
    image
}

#[test]
fn books_cross_in_a_call_and_agree_with_the_model_after_the_cross() {
    for seed in 0..20 {
        let mut stream = Stream::new(seed);
        for round in 0..5 {
            (0..60).for_each(|_| stream.step());
            let before = caught_up(&stream).stats(TWO);
            let (volume, price) = stream.auction(TWO);
            let image = caught_up(&stream);
            assert_eq!(digests(&image), stream.digests(), "seed {seed} round {round}");
            let stats = image.stats(TWO);
            assert_eq!(stats.crosses, before.crosses + 1, "seed {seed}");
            assert_eq!(stats.cross_volume, before.cross_volume + volume, "seed {seed}");
            assert_eq!(stats.volume, before.volume + volume, "pieces do not print: seed {seed}");
            assert_eq!((stats.trades, stats.last_price), (stream.trades[2], price), "seed {seed}");
            assert_eq!(image.imbalance(TWO).map(|i| i.paired_shares.get()), Some(volume));
        }
    }
}

#[test]
fn a_crossed_book_is_shown_as_it_is() {
    let mut stream = Stream::new(3);
    stream.auction(ONE);
    let mut image = BookImage::new(4_096);
    let mut crossed = 0;
    for message in &stream.messages {
        image.apply(message).expect("valid");
        let best = |side| image.best(ONE, side).map(|level| level.price);
        if let (Some(bid), Some(ask)) = (best(Side::Buy), best(Side::Sell)) {
            let calling = image.state(ONE) == Some(State::QuotationOnly);
            assert!(bid < ask || calling, "crossed while trading");
            crossed += u64::from(bid >= ask);
        }
    }
    assert!(crossed > 0, "the call crossed nothing");
}

#[test]
fn states_imbalances_and_collars_are_the_last_ones() {
    let stream = Stream::new(0);
    let mut image = caught_up(&stream);
    let states = [
        (TradingState::Halted, State::Halted),
        (TradingState::Paused, State::Paused),
        (TradingState::QuotationOnly, State::QuotationOnly),
    ];
    for (state, seen) in states {
        let event = MarketEvent::TradingAction { instrument: TWO, state };
        apply(&stream, &mut image, event).expect("valid");
        assert_eq!((image.state(TWO), image.state(ONE)), (Some(seen), Some(State::Trading)));
    }
    let before = digests(&image);
    for n in 1..=2 {
        let imbalance = MarketEvent::Imbalance {
            instrument: TWO,
            paired: Qty(10 * n),
            imbalance: Qty(n),
            side: ImbalanceSide::Buy,
            far: Price(7),
            near: Price(7),
            reference: Price(6),
            kind: CrossKind::Closing,
        };
        apply(&stream, &mut image, imbalance).expect("valid");
        let (upper, lower, extension) = (Price(12), Price(8), n as u32);
        let reference = Price(10);
        let collar = MarketEvent::Collar { instrument: TWO, reference, upper, lower, extension };
        apply(&stream, &mut image, collar).expect("valid");
        let imbalance = image.imbalance(TWO).expect("heard");
        assert_eq!((imbalance.paired_shares.get(), imbalance.imbalance_shares.get()), (10 * n, n));
        let collar = image.collar(TWO).expect("heard");
        assert_eq!((collar.upper_price.get(), collar.extension.get()), (12, extension));
    }
    assert_eq!((image.imbalance(ONE), image.collar(ONE)), (None, None));
    assert_eq!(digests(&image), before, "no order changed");
    assert_eq!(image.stats(TWO).trades, 0);
}

#[test]
fn hidden_trades_print_and_breaks_are_counted() {
    let stream = Stream::new(0);
    let mut image = caught_up(&stream);
    let (instrument, side, match_number) = (ONE, Side::Sell, MatchNumber(4));
    let (qty, price) = (Qty(3), Price(50));
    let trade = MarketEvent::Trade { instrument, side, qty, price, match_number };
    apply(&stream, &mut image, trade).expect("valid");
    apply(&stream, &mut image, MarketEvent::BrokenTrade { instrument, match_number })
        .expect("valid");
    let stats = image.stats(ONE);
    assert_eq!((stats.trades, stats.volume, stats.broken, stats.crosses), (1, 3, 1, 0));
    assert_eq!((stats.last_price, stats.last_match), (price, match_number));
}

#[test]
fn executions_at_another_price_reduce_and_print_when_they_say_so() {
    let stream = Stream::new(0);
    let mut image = caught_up(&stream);
    let (instrument, order_ref, side) = (ONE, OrderRef(900), Side::Buy);
    let (qty, price) = (Qty(10), Price(100));
    let add = MarketEvent::AddOrder { instrument, order_ref, side, qty, price };
    apply(&stream, &mut image, add).expect("valid");
    let executed = |qty, printable| MarketEvent::OrderExecutedWithPrice {
        instrument,
        order_ref,
        qty: Qty(qty),
        match_number: MatchNumber(1),
        printable,
        price: Price(99),
    };
    apply(&stream, &mut image, executed(4, true)).expect("valid");
    let level = image.best(ONE, Side::Buy).expect("a level");
    assert_eq!((level.price, level.qty), (price, Qty(6)));
    apply(&stream, &mut image, executed(6, false)).expect("valid");
    assert_eq!(image.best(ONE, Side::Buy), None);
    let stats = image.stats(ONE);
    assert_eq!((stats.trades, stats.volume, stats.last_price), (1, 4, Price(99)));
    let gone = apply(&stream, &mut image, executed(1, false));
    assert_eq!(gone, Err(FeedError::Image(ImageError::UnknownOrder(order_ref))));
}

#[test]
fn messages_of_unknown_instruments_are_contradictions() {
    let stream = Stream::new(0);
    let mut image = BookImage::new(8);
    let unknown = Err(FeedError::Image(ImageError::UnknownInstrument(ONE)));
    let (instrument, match_number) = (ONE, MatchNumber(1));
    let (qty, price, side) = (Qty(1), Price(1), Side::Buy);
    let events = [
        MarketEvent::BrokenTrade { instrument, match_number },
        MarketEvent::Trade { instrument, side, qty, price, match_number },
        MarketEvent::CrossTrade { instrument, qty, price, match_number, kind: CrossKind::Opening },
        MarketEvent::Imbalance {
            instrument,
            paired: qty,
            imbalance: qty,
            side: ImbalanceSide::Sell,
            far: price,
            near: price,
            reference: price,
            kind: CrossKind::Opening,
        },
        MarketEvent::Collar {
            instrument,
            reference: price,
            upper: price,
            lower: price,
            extension: 0,
        },
    ];
    for event in events {
        assert_eq!(apply(&stream, &mut image, event), unknown, "{event:?}");
    }
}
