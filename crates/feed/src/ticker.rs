//! Ticks of our own feed: an [`Update`] for each trade, and for each change of an instrument's best
//! prices.

use fast::opra::{Best, Price, Series};
use types::{InstrumentId, Nanos, Side};
use wire::itch::{Message, Printable};

use crate::image::BookImage;
use crate::ladder::Level;
use crate::plant::{Kind, Update};

/// Best bid level and best offer level of an instrument.
type Tops = [Option<Level>; 2];

/// Turns messages that the books have taken into updates.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// Number of the line that the updates are of.
    line: u8,
    /// Best levels that were told last, by stock locate.
    told: Vec<Tops>,
    /// Updates that the owner has not taken yet.
    updates: Vec<Update>,
}

/// Units of 10^-8 in one price unit of ITCH (10^-4).
const UNITS: i64 = 10_000;

fn price(price: types::Price) -> Price {
    Price(price.0.saturating_mul(UNITS))
}

impl Ticker {
    pub fn new(line: u8) -> Ticker {
        Ticker { line, told: Vec::new(), updates: Vec::new() }
    }

    /// Moves the new updates to the end of `to`.
    pub fn take(&mut self, to: &mut Vec<Update>) {
        to.append(&mut self.updates);
    }

    /// The books have taken a message, the one with number `seq`.
    pub fn applied(&mut self, now: Nanos, seq: u64, message: &Message<'_>, image: &BookImage) {
        let head = message.header();
        let (instrument, time) = (InstrumentId(head.locate.get()), head.time.get());
        let Some(symbol) = image.symbol(instrument) else { return };
        let about = |kind| Update {
            sequence: seq,
            time,
            series: Series { symbol, ..Series::default() },
            ..Update::of_line(kind, self.line, now)
        };
        let traded = match message {
            Message::OrderExecuted(m) => Some(u64::from(m.shares.get())),
            Message::OrderExecutedWithPrice(m) if m.printable == Printable::Yes => {
                Some(u64::from(m.shares.get()))
            }
            Message::Trade(m) => Some(u64::from(m.shares.get())),
            Message::CrossTrade(m) => Some(m.shares.get()),
            Message::BrokenTrade(m) => {
                let number = Price(m.match_number.get() as i64);
                self.updates.push(Update { offer: number, ..about(Kind::Broken) });
                None
            }
            _ => None,
        };
        if let Some(lots) = traded {
            let stats = image.stats(instrument);
            let took = stats.last_aggressor.map_or(0, |side| match side {
                Side::Buy => b'B',
                Side::Sell => b'S',
            });
            self.updates.push(Update {
                bid: price(stats.last_price),
                bid_size: lots,
                offer: Price(stats.last_match.0 as i64),
                bbo: took,
                ..about(Kind::Trade)
            });
        }
        let quote = about(Kind::Quote);
        self.quote(instrument, quote, image);
    }

    /// The books are those of a snapshot: messages from `from` up to `until` were never heard.
    pub fn joined(&mut self, now: Nanos, (from, until): (u64, u64), image: &BookImage) {
        let gap = Update::of_line(Kind::Gap, self.line, now);
        self.updates.push(Update { sequence: from, time: until, ..gap });
        let time = image.time().map_or(0, |time| time.get());
        for (instrument, _) in image.instruments() {
            let Some(symbol) = image.symbol(instrument) else { continue };
            let quote = Update {
                sequence: until.saturating_sub(1),
                time,
                series: Series { symbol, ..Series::default() },
                ..Update::of_line(Kind::Quote, self.line, now)
            };
            self.quote(instrument, quote, image);
        }
    }

    /// Tells the best prices of an instrument unless they are what was told last.
    fn quote(&mut self, instrument: InstrumentId, about: Update, image: &BookImage) {
        let tops = [Side::Buy, Side::Sell].map(|side| image.best(instrument, side));
        let place = usize::from(instrument.0);
        if self.told.len() <= place {
            self.told.resize(place + 1, [None; 2]);
        }
        let Some(told) = self.told.get_mut(place).filter(|told| **told != tops) else { return };
        *told = tops;
        let best = |level: Level| Best {
            participant: 0,
            price: price(level.price),
            // Exact in the sizes of the quote itself.
            size: u32::try_from(level.qty.0).unwrap_or(u32::MAX),
        };
        let [bid, offer] = tops;
        self.updates.push(Update {
            bid: bid.map_or(Price(0), |level| price(level.price)),
            bid_size: bid.map_or(0, |level| level.qty.0),
            offer: offer.map_or(Price(0), |level| price(level.price)),
            offer_size: offer.map_or(0, |level| level.qty.0),
            best_bid: bid.map(best),
            best_offer: offer.map(best),
            ..about
        });
    }
}
