//! The public feed on its way past a gateway: what the receivers of one VM release also builds the
//! books that the market-data sessions there are told of.

use feed::BookImage;
use gateway::{Books, Gateway, Level, News, Print};
use types::{
    Channel, ClockReading, InstrumentId, MarketEvent, MatchNumber, Op, Outbox, Qty, Side,
    TradingState,
};
use wire::itch::{self, Message};
use wire::moldudp::Packet;

/// Books of the displayed orders.
pub(crate) struct FeedBooks {
    image: BookImage,
    /// By instrument number.
    states: Vec<Option<TradingState>>,
}

impl FeedBooks {
    /// Empty books with room for so many resting orders.
    pub(crate) fn new(orders_max: usize) -> FeedBooks {
        FeedBooks { image: BookImage::new(orders_max), states: Vec::new() }
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
    fn apply(&mut self, message: &[u8]) -> Option<News> {
        let message = itch::parse(message).ok()?;
        let instrument = InstrumentId(message.header().locate.get());
        let before = self.image.stats(instrument);
        self.image.apply_message(&message).ok()?;
        let after = self.image.stats(instrument);
        if let Some(MarketEvent::TradingAction { state, .. }) = message.to_event() {
            self.note_state(instrument, state);
        }
        let print = match &message {
            Message::BrokenTrade(broken) => {
                let match_number = MatchNumber(broken.match_number.get());
                let (price, qty) = (after.last_price, Qty(0));
                Some(Print { match_number, price, qty, broken: true })
            }
            _ if after.trades > before.trades => Some(Print {
                match_number: after.last_match,
                price: after.last_price,
                qty: Qty(after.volume - before.volume),
                broken: false,
            }),
            _ => None,
        };
        Some(News { instrument, print })
    }

    fn levels(&self, instrument: InstrumentId, side: Side, most: usize, into: &mut Vec<Level>) {
        let level = |level: feed::Level| {
            let feed::Level { price, qty, orders } = level;
            Level { side, price, qty, orders }
        };
        into.extend(self.image.depth(instrument, side).take(most).map(level));
    }

    fn state(&self, instrument: InstrumentId) -> Option<TradingState> {
        self.states.get(usize::from(instrument.0)).copied().flatten()
    }
}

/// How far each stream has gone past.
#[derive(Debug)]
pub(crate) struct Passing {
    /// By stream: the next message.
    next: Vec<u64>,
}

impl Passing {
    pub(crate) fn new(streams: usize) -> Passing {
        Passing { next: vec![1; streams] }
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
        let Some(next) = self.next.get_mut(stream) else { return };
        let before = *next;
        for op in out.ops().get(from..).unwrap_or(&[]) {
            let Op::Datagram { channel: Channel::FEED, bytes, .. } = op else { continue };
            let Ok(packet) = Packet::parse(out.bytes(*bytes)) else { continue };
            // There may be a copy for somebody else.
            if packet.is_end_of_session() || packet.next_seq() <= *next {
                continue;
            }
            let new = packet.messages().skip(next.saturating_sub(packet.seq()) as usize);
            let whole = packet.seq() <= *next;
            gateway.handle_released(whole.then_some(new));
            *next = packet.next_seq();
        }
        if *next > before {
            gateway.refresh_market(now, out);
        }
    }
}
