//! The public feed on its way past a gateway: what the receivers of one VM release also builds the
//! books that the market-data sessions there are told of.

use feed::StreamBooks;
use gateway::{Books, Gateway, Level, News, Print};
use types::{
    Channel, ClockReading, InstrumentId, MarketEvent, MatchNumber, Nanos, Op, Outbox, Qty, Side,
    TradingState,
};
use wire::itch::{self, Message};
use wire::moldudp::Packet;

const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// Books of the displayed orders.
pub(crate) struct FeedBooks {
    books: StreamBooks,
    /// When the feed's days begin, ns after those of UTC (0..DAY_NS).
    day_begins_ns: u64,
    /// By instrument number.
    states: Vec<Option<TradingState>>,
}

impl FeedBooks {
    /// Empty books of so many streams, each with room for so many resting orders; times count from the last
    /// midnight, of which `midnight` is one.
    pub(crate) fn new((streams, orders_max): (usize, usize), midnight: Nanos) -> FeedBooks {
        let day_begins_ns = midnight.0 % DAY_NS;
        FeedBooks {
            books: StreamBooks::new(streams, orders_max),
            day_begins_ns,
            states: Vec::new(),
        }
    }

    /// The time, since the epoch, that the feed calls `ns` after midnight: within half a day of `now`.
    fn time(&self, now: Nanos, ns: u64) -> Nanos {
        let after_utc = ns % DAY_NS + self.day_begins_ns;
        // How far behind the time half a day before now.
        let behind = (after_utc + DAY_NS + DAY_NS / 2 - now.0 % DAY_NS) % DAY_NS;
        Nanos((now.0 + behind).saturating_sub(DAY_NS / 2))
    }

    fn note_state(&mut self, instrument: InstrumentId, state: TradingState) {
        let place = usize::from(instrument.0);
        if place > types::limits::INSTRUMENTS_MAX {
            return;
        }
        if self.states.len() <= place {
            self.states.resize(place + 1, None);
        }
        if let Some(known) = self.states.get_mut(place) {
            *known = Some(state);
        }
    }
}

impl Books for FeedBooks {
    fn apply(&mut self, now: Nanos, stream: usize, message: &[u8]) -> Option<News> {
        let message = itch::parse(message).ok()?;
        let header = message.header();
        let instrument = InstrumentId(header.locate.get());
        let at = self.time(now, header.time.get());
        let before = self.books.image(stream)?.stats(instrument);
        self.books.apply_message(stream, &message).ok()?;
        let after = self.books.image(stream)?.stats(instrument);
        if let Some(MarketEvent::TradingAction { state, .. }) = message.to_event()
            && self.books.stream_of(instrument) == Some(stream)
        {
            self.note_state(instrument, state);
        }
        let print = match &message {
            Message::BrokenTrade(broken) => {
                let match_number = MatchNumber(broken.match_number.get());
                let (price, qty) = (after.last_price, Qty(0));
                Some(Print { match_number, price, qty, at, aggressor: None, broken: true })
            }
            _ if after.trades > before.trades => Some(Print {
                match_number: after.last_match,
                price: after.last_price,
                qty: Qty(after.volume - before.volume),
                at,
                aggressor: after.last_aggressor,
                broken: false,
            }),
            _ => None,
        };
        Some(News { instrument, at, print })
    }

    fn levels(&self, instrument: InstrumentId, side: Side, most: usize, into: &mut Vec<Level>) {
        let level = |level: feed::Level| {
            let feed::Level { price, qty, orders } = level;
            Level { side, price, qty, orders }
        };
        let image = self.books.of(instrument);
        let depth = image.into_iter().flat_map(|image| image.depth(instrument, side));
        into.extend(depth.take(most).map(level));
    }

    fn state(&self, instrument: InstrumentId) -> Option<TradingState> {
        self.states.get(usize::from(instrument.0)).copied().flatten()
    }
}

/// How far each stream has gone past.
#[derive(Debug)]
pub(crate) struct Passing {
    /// By stream: the session and its next message.
    next: Vec<([u8; 10], u64)>,
}

impl Passing {
    pub(crate) fn new(streams: usize) -> Passing {
        Passing { next: vec![([0; 10], 1); streams] }
    }

    /// A stream's receiver has put what it releases behind the first `from` ops; the gateway gets
    /// the same bytes, and its market-data sessions are told.
    pub(crate) fn pass(
        &mut self,
        (now, stream): (ClockReading, usize),
        from: usize,
        gateway: &mut Gateway,
        out: &mut Outbox,
    ) {
        let Some((session, next)) = self.next.get_mut(stream) else { return };
        let mut news = false;
        for op in out.ops().get(from..).unwrap_or(&[]) {
            let Op::Datagram { channel: Channel::FEED, bytes, .. } = op else { continue };
            let Ok(packet) = Packet::parse(out.bytes(*bytes)) else { continue };
            if packet.session().0 != *session {
                // The first one, or a new day's: receivers hand on one after the other.
                (*session, *next) = (packet.session().0, 1);
            }
            // There may be a copy for somebody else.
            if packet.is_end_of_session() || packet.next_seq() <= *next {
                continue;
            }
            let new = packet.messages().skip(next.saturating_sub(packet.seq()) as usize);
            let whole = packet.seq() <= *next;
            let at = gateway.venue_clock().at(now.now);
            gateway.handle_released((at, stream), whole.then_some(new));
            *next = packet.next_seq();
            news = true;
        }
        if news {
            gateway.refresh_market(now, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{CrossKind, Instrument, OrderRef, Price, Symbol};

    use super::*;

    #[test]
    fn times_of_the_feed_are_those_nearest_to_now() {
        for midnight in [0, 7 * DAY_NS, 7 * DAY_NS + 3_600 * Nanos::SECOND] {
            let books = FeedBooks::new((1, 1), Nanos(midnight));
            for published in [20 * DAY_NS, 20 * DAY_NS + 5, 21 * DAY_NS - 1] {
                let told = (published - midnight) % DAY_NS;
                for apart in [0, 1, 3_600 * Nanos::SECOND, DAY_NS / 2 - 1] {
                    for now in [published - apart, published + apart] {
                        assert_eq!(books.time(Nanos(now), told), Nanos(published), "{now}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_day_that_one_stream_begins_leaves_what_another_has_told() {
        let [one, other] = [InstrumentId(1), InstrumentId(2)];
        let instrument = |id, symbol| Instrument {
            id,
            symbol: Symbol(symbol),
            tick: Price(1),
            price_max: Price(1 << 20),
            qty_max: Qty(100),
            lot_decimals: 0,
        };
        let instruments = [instrument(one, *b"AAA     "), instrument(other, *b"BBB     ")];
        let encoder = itch::Encoder::new(&instruments, Nanos(0));
        let mut books = FeedBooks::new((2, 8), Nanos(0));
        let begin = MarketEvent::SystemEvent { code: types::SystemEventCode::StartOfMessages };
        let directory = |instrument| MarketEvent::Directory { instrument };
        let state = |instrument, state| MarketEvent::TradingAction { instrument, state };
        let order = |instrument, order_ref| {
            let (order_ref, side) = (OrderRef(order_ref), Side::Buy);
            let (qty, price) = (Qty(5), Price(100));
            MarketEvent::AddOrder { instrument, order_ref, side, qty, price }
        };
        let tell = |books: &mut FeedBooks, stream, event: MarketEvent| {
            let mut bytes = Vec::new();
            encoder.encode(&event, Nanos(1), &mut bytes).expect("valid");
            let news = books.apply(Nanos(1), stream, &bytes);
            assert!(news.is_some(), "stream {stream}, {event:?}");
        };
        let bids = |books: &FeedBooks, of| {
            let mut levels = Vec::new();
            books.levels(of, Side::Buy, 10, &mut levels);
            levels.iter().map(|level| level.orders).sum::<u32>()
        };
        for event in [begin, directory(one), state(one, TradingState::Trading), order(one, 1)] {
            tell(&mut books, 0, event);
        }
        // Streams begin their days one after the other.
        for event in [begin, directory(other), order(other, 2)] {
            tell(&mut books, 1, event);
        }
        tell(&mut books, 0, order(one, 3));
        assert_eq!([one, other].map(|of| bids(&books, of)), [2, 1]);
        // An instrument moves to another shard: what the old one says after that is not of it any more.
        for event in [begin, directory(one), state(one, TradingState::Trading), order(one, 4)] {
            tell(&mut books, 1, event);
        }
        tell(&mut books, 0, state(one, TradingState::Halted));
        assert_eq!((bids(&books, one), books.state(one)), (1, Some(TradingState::Trading)));
    }

    #[test]
    fn trades_tell_their_time_and_who_took() {
        let instrument = InstrumentId(1);
        let (qty, match_number) = (Qty(5), MatchNumber(3));
        let price = Price(10_000);
        let order = |order_ref, side| MarketEvent::AddOrder {
            instrument,
            order_ref: OrderRef(order_ref),
            side,
            qty,
            price,
        };
        let executed = |order_ref| MarketEvent::OrderExecuted {
            instrument,
            order_ref: OrderRef(order_ref),
            qty,
            match_number,
        };
        let hidden = |side| MarketEvent::Trade { instrument, side, qty, price, match_number };
        let kind = CrossKind::Opening;
        let cross = MarketEvent::CrossTrade { instrument, qty, price, match_number, kind };
        let told = [
            (order(1, Side::Buy), None),
            (executed(1), Some(Some(Side::Sell))),
            (order(2, Side::Sell), None),
            (executed(2), Some(Some(Side::Buy))),
            (hidden(Side::Buy), Some(Some(Side::Sell))),
            (hidden(Side::Sell), Some(Some(Side::Buy))),
            (cross, Some(None)),
        ];
        let midnight = Nanos(20 * DAY_NS);
        let instruments = [Instrument {
            id: instrument,
            symbol: Symbol(*b"BTCUSD  "),
            tick: Price(1),
            price_max: Price(1 << 20),
            qty_max: Qty(100),
            lot_decimals: 0,
        }];
        let encoder = itch::Encoder::new(&instruments, midnight);
        let mut books = FeedBooks::new((1, 8), midnight);
        let mut apply = |event: &MarketEvent, at| {
            let mut bytes = Vec::new();
            encoder.encode(event, at, &mut bytes).expect("valid");
            books.apply(at.after(Nanos::MILLI), 0, &bytes).expect("in sequence").print
        };
        apply(&MarketEvent::Directory { instrument }, midnight);
        for ((event, aggressor), second) in told.iter().zip(1..) {
            let at = midnight.after(DAY_NS + second * Nanos::SECOND);
            let print = apply(event, at);
            assert_eq!(print.map(|print| print.aggressor), *aggressor, "{event:?}");
            assert!(print.is_none_or(|print| print.at == at), "{print:?}");
        }
    }
}
