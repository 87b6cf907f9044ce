//! The image against a slow model, against contradictions, and against flipped bytes.

use crate::common::{INSTRUMENTS, Stream, ids};
use feed::{BookImage, FeedError, ImageError, StreamDigest};
use proptest::prelude::*;
use types::{InstrumentId, MarketEvent, MatchNumber, Nanos, OrderRef, Price, Qty, Side};

fn digests(image: &BookImage) -> Vec<u64> {
    ids().into_iter().map(|id| image.digest(id)).collect()
}

#[test]
fn agrees_with_a_slow_model_after_every_message() {
    for seed in 0..20 {
        let (mut stream, mut image) = (Stream::new(seed), BookImage::new(4_096));
        let mut applied = 0;
        for step in 0..600 {
            stream.step();
            if step % 200 == 100 {
                stream.auction(InstrumentId(2));
            }
            for message in &stream.messages[applied..] {
                image.apply(message).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            applied = stream.messages.len();
            assert_eq!(digests(&image), stream.digests(), "seed {seed} step {step}");
        }
        assert_eq!(image.resting(), stream.resting.len());
        for id in ids() {
            assert_eq!(image.stats(id).trades, stream.trades[usize::from(id.0)]);
            for side in [Side::Buy, Side::Sell] {
                let orders = stream.side(id, side);
                let levels: Vec<_> = image.depth(id, side).collect();
                let total: u64 = levels.iter().map(|level| level.qty.0).sum();
                assert_eq!(total, orders.iter().map(|order| order.2.0).sum::<u64>());
                let count: u32 = levels.iter().map(|level| level.orders).sum();
                assert_eq!(count as usize, orders.len());
                let best = image.best(id, side).map(|level| level.price);
                assert_eq!(best, orders.first().map(|order| order.1));
            }
        }
    }
}

/// An image with one order, reference 1, 10 lots at 100 on instrument 1.
fn one_order() -> (Stream, BookImage) {
    let (stream, mut image) = (Stream::new(0), BookImage::new(2));
    for message in &stream.messages {
        image.apply(message).expect("the day starts");
    }
    apply(&stream, &mut image, add(1, 1)).expect("an order");
    (stream, image)
}

fn add(instrument: u16, order_ref: u64) -> MarketEvent {
    let (instrument, order_ref) = (InstrumentId(instrument), OrderRef(order_ref));
    MarketEvent::AddOrder {
        instrument,
        order_ref,
        side: Side::Buy,
        qty: Qty(10),
        price: Price(100),
    }
}

fn apply(stream: &Stream, image: &mut BookImage, event: MarketEvent) -> Result<(), FeedError> {
    let mut bytes = Vec::new();
    stream.encoder.encode(&event, Nanos(1), &mut bytes).expect("encodable");
    image.apply(&bytes).map(|_| ())
}

#[test]
fn contradictions_are_typed_and_change_nothing() {
    let (stream, mut image) = one_order();
    let before = digests(&image);
    let (first, second) = (InstrumentId(1), InstrumentId(2));
    let (known, unknown) = (OrderRef(1), OrderRef(9));
    let execute = |instrument, order_ref, qty| {
        let (qty, match_number) = (Qty(qty), MatchNumber(1));
        MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number }
    };
    let replace = |old_ref, new_ref, qty| {
        let (qty, price) = (Qty(qty), Price(101));
        MarketEvent::OrderReplace { instrument: first, old_ref, new_ref, qty, price }
    };
    let too_much = ImageError::TooMuchTaken { order_ref: known, open: Qty(10), taken: Qty(11) };
    let cases = [
        (execute(first, unknown, 1), ImageError::UnknownOrder(unknown)),
        (execute(second, known, 1), ImageError::WrongInstrument(known)),
        (execute(first, known, 11), too_much),
        (execute(first, known, 0), ImageError::ZeroQuantity(known)),
        (MarketEvent::OrderCancel { instrument: first, order_ref: known, qty: Qty(11) }, too_much),
        (
            MarketEvent::OrderDelete { instrument: first, order_ref: unknown },
            ImageError::UnknownOrder(unknown),
        ),
        (replace(unknown, OrderRef(10), 1), ImageError::UnknownOrder(unknown)),
        (replace(known, known, 1), ImageError::DuplicateOrder(known)),
        (replace(known, unknown, 0), ImageError::ZeroQuantity(unknown)),
        (add(1, 1), ImageError::DuplicateOrder(known)),
    ];
    for (event, expected) in cases {
        let result = apply(&stream, &mut image, event);
        assert_eq!(result, Err(FeedError::Image(expected)), "{event:?}");
        assert_eq!(digests(&image), before, "{event:?}");
    }
    apply(&stream, &mut image, add(1, 2)).expect("room for two");
    let full = apply(&stream, &mut image, add(1, 3));
    assert_eq!(full, Err(FeedError::Image(ImageError::Full)));
}

#[test]
fn instruments_must_be_announced_and_keep_their_symbol() {
    let stream = Stream::new(0);
    let mut image = BookImage::new(8);
    let unknown = FeedError::Image(ImageError::UnknownInstrument(InstrumentId(1)));
    assert_eq!(apply(&stream, &mut image, add(1, 1)), Err(unknown));
    for message in &stream.messages {
        image.apply(message).expect("the day starts");
    }
    let mut foreign = Vec::new();
    stream.encoder.encode(&add(2, 1), Nanos(1), &mut foreign).expect("encodable");
    foreign[2] = 1;
    let mismatch = FeedError::Image(ImageError::SymbolMismatch(InstrumentId(1)));
    assert_eq!(image.apply(&foreign).map(|_| ()), Err(mismatch));
    assert_eq!(image.instruments().count(), usize::from(INSTRUMENTS));
}

/// Bytes of a message that no book shows: tracking number and time, and what a trade says besides
/// order and lots.
fn invisible(kind: u8, byte: usize) -> bool {
    (3..11).contains(&byte) || (b"EC".contains(&kind) && byte >= 23) || b"SRHIQ".contains(&kind)
}

#[test]
fn a_flipped_byte_never_goes_unseen() {
    let mut stream = Stream::new(77);
    (0..250).for_each(|_| stream.step());
    stream.auction(InstrumentId(2));
    let mut rng = types::SplitMix64::new(1);
    let (mut errors, mut books, mut streams) = (0, 0, 0);
    for wrong in 0..stream.messages.len() {
        for byte in 0..stream.messages[wrong].len() {
            let (mut image, mut clean) = (BookImage::new(512), BookImage::new(512));
            let mut flipped = stream.messages[wrong].clone();
            flipped[byte] ^= 1 << rng.below(8);
            for message in &stream.messages[..wrong] {
                image.apply(message).expect("valid");
                clean.apply(message).expect("valid");
            }
            clean.apply(&stream.messages[wrong]).expect("valid");
            let kind = stream.messages[wrong][0];
            if image.apply(&flipped).is_err() {
                errors += 1;
            } else if digests(&image) != digests(&clean) {
                books += 1;
            } else {
                assert!(invisible(kind, byte), "message {wrong}, byte {byte}: not in the books");
                let digest = |bytes: &[u8]| {
                    let mut digest = StreamDigest::default();
                    digest.push(bytes);
                    digest.value()
                };
                assert_ne!(digest(&flipped), digest(&stream.messages[wrong]));
                streams += 1;
            }
        }
    }
    assert!(errors > 0 && books > 0 && streams > 0, "{errors} {books} {streams}");
}

proptest! {
    #[test]
    fn arbitrary_messages_never_panic(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..40),
    ) {
        let mut image = BookImage::new(16);
        for message in messages {
            let _ = image.apply(&message);
        }
    }

    #[test]
    fn mutated_streams_never_panic(
        seed in 0u64..1_000,
        flips in prop::collection::vec((any::<u16>(), any::<u8>(), any::<u8>()), 1..40),
    ) {
        let mut stream = Stream::new(seed);
        (0..200).for_each(|_| stream.step());
        for (message, byte, value) in flips {
            let count = stream.messages.len();
            let message = &mut stream.messages[usize::from(message) % count];
            let len = message.len();
            message[usize::from(byte) % len] = value;
        }
        let mut image = BookImage::new(64);
        for message in &stream.messages {
            let _ = image.apply(message);
        }
        for id in ids() {
            let _ = image.digest(id);
        }
    }
}
