//! The displayed books of a feed that is spread over several streams.

use types::InstrumentId;
use wire::itch::{self, Message};

use crate::image::{BookImage, FeedError, ImageError};

/// An image for each stream. Each stream begins its days by itself, and what it tells then is nothing to the
/// books of the others. An instrument's book is in the stream whose directory had it last: it may move to another
/// shard between two days.
#[derive(Debug)]
pub struct StreamBooks {
    images: Vec<BookImage>,
    /// By stock locate: the stream that carries it.
    carried: Vec<Option<usize>>,
}

impl StreamBooks {
    /// Empty books of so many streams, at least one, each with room for `orders_max` resting orders.
    pub fn new(streams: usize, orders_max: usize) -> StreamBooks {
        let images = (0..streams.max(1)).map(|_| BookImage::new(orders_max)).collect();
        StreamBooks { images, carried: Vec::new() }
    }

    /// Applies the next message of a stream; gives back the typed view of what was applied.
    ///
    /// # Errors
    /// There is no such stream, the bytes are no message, or it contradicts the stream's image. Nothing is changed
    /// then.
    pub fn apply<'a>(&mut self, stream: usize, bytes: &'a [u8]) -> Result<Message<'a>, FeedError> {
        let message = itch::parse(bytes)?;
        self.apply_message(stream, &message)?;
        Ok(message)
    }

    /// Applies one message of a stream.
    ///
    /// # Errors
    /// There is no such stream, or it contradicts the stream's image. Nothing is changed then.
    pub fn apply_message(
        &mut self,
        stream: usize,
        message: &Message<'_>,
    ) -> Result<(), ImageError> {
        let image = self.images.get_mut(stream).ok_or(ImageError::UnknownStream(stream))?;
        image.apply_message(message)?;
        if matches!(message, Message::StockDirectory(_)) {
            // The image has seen to it that it is the number of an instrument.
            let place = usize::from(message.header().locate.get());
            if self.carried.len() <= place {
                self.carried.resize(place + 1, None);
            }
            if let Some(carried) = self.carried.get_mut(place) {
                *carried = Some(stream);
            }
        }
        Ok(())
    }

    /// The image of a stream.
    pub fn image(&self, stream: usize) -> Option<&BookImage> {
        self.images.get(stream)
    }

    /// The stream that carries an instrument; `None`: no directory had it.
    pub fn stream_of(&self, instrument: InstrumentId) -> Option<usize> {
        self.carried.get(usize::from(instrument.0)).copied().flatten()
    }

    /// The image that has an instrument's book; `None`: no directory had it.
    pub fn of(&self, instrument: InstrumentId) -> Option<&BookImage> {
        self.image(self.stream_of(instrument)?)
    }
}

#[cfg(test)]
mod tests {
    use types::{
        Instrument, MarketEvent, Nanos, OrderRef, Price, Qty, Side, Symbol, SystemEventCode,
    };
    use wire::itch::Encoder;

    use super::*;

    const A: InstrumentId = InstrumentId(1);
    const B: InstrumentId = InstrumentId(2);

    fn encoder() -> Encoder {
        let instrument = |id, symbol| Instrument {
            id,
            symbol: Symbol(symbol),
            tick: Price(1),
            price_max: Price(1 << 20),
            qty_max: Qty(100),
            lot_decimals: 0,
        };
        Encoder::new(&[instrument(A, *b"AAA     "), instrument(B, *b"BBB     ")], Nanos(0))
    }

    fn begin() -> MarketEvent {
        MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages }
    }

    fn order(instrument: InstrumentId, order_ref: u64) -> MarketEvent {
        let (side, qty, price) = (Side::Buy, Qty(5), Price(100));
        MarketEvent::AddOrder { instrument, order_ref: OrderRef(order_ref), side, qty, price }
    }

    fn play(books: &mut StreamBooks, told: &[(usize, MarketEvent)]) {
        let encoder = encoder();
        for (stream, event) in told {
            let mut bytes = Vec::new();
            encoder.encode(event, Nanos(1), &mut bytes).expect("valid");
            books.apply(*stream, &bytes).unwrap_or_else(|why| panic!("{event:?}: {why}"));
        }
    }

    fn bids(books: &StreamBooks, of: InstrumentId) -> usize {
        books.of(of).map_or(0, |image| image.orders(of, Side::Buy).count())
    }

    #[test]
    fn a_day_that_one_stream_begins_leaves_the_books_of_the_others() {
        let directory = |instrument| MarketEvent::Directory { instrument };
        let mut books = StreamBooks::new(2, 8);
        play(&mut books, &[(0, begin()), (0, directory(A)), (0, order(A, 1))]);
        play(&mut books, &[(1, begin()), (1, directory(B)), (1, order(B, 2)), (0, order(A, 3))]);
        assert_eq!([bids(&books, A), bids(&books, B)], [2, 1]);
        play(&mut books, &[(0, begin()), (0, directory(A))]);
        assert_eq!([bids(&books, A), bids(&books, B)], [0, 1]);
    }

    #[test]
    fn an_instrument_is_where_a_directory_had_it_last() {
        let directory = |instrument| MarketEvent::Directory { instrument };
        let mut books = StreamBooks::new(2, 8);
        assert!(books.of(A).is_none());
        play(&mut books, &[(0, begin()), (0, directory(A)), (0, order(A, 1)), (1, begin())]);
        play(&mut books, &[(1, directory(A)), (1, order(A, 2)), (1, order(A, 3))]);
        assert_eq!((books.stream_of(A), bids(&books, A)), (Some(1), 2));
        // The stream that it left says no more of it in its next day.
        play(&mut books, &[(0, begin())]);
        assert_eq!((books.stream_of(A), bids(&books, A)), (Some(1), 2));
        let mut bytes = Vec::new();
        encoder().encode(&begin(), Nanos(1), &mut bytes).expect("valid");
        let refused = books.apply(2, &bytes).expect_err("there are two");
        assert_eq!(refused, FeedError::Image(ImageError::UnknownStream(2)));
    }
}
