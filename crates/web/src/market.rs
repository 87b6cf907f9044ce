//! Books, trades, best prices and states as the public may see them, and what changed since.
//!
//! The node that hears the feed writes here ([`Market::follow`]); HTTP threads read. Each instrument's book
//! has the number of the feed's message it stands after, `seq`. An update says absolute quantities, 0 where
//! a level is gone, and the number of the update before it, `prev_seq`; a snapshot and the updates behind
//! its `seq` give the book at every later one. Whoever has fallen so far behind that an update is no longer
//! there gets a snapshot and is told so. A book's levels beyond [`DEPTH`] are not told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use feed::Subscriber;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use types::{Instrument, Price, Side};

use crate::decimal::lots_text;
use crate::request::Instruments;

/// Levels of a side that are told.
pub const DEPTH: usize = 500;
/// Levels of a side that the checksum covers.
pub const CHECKED: usize = 10;
/// Trades of an instrument that are still told to who asks.
const TRADES_MAX: usize = 1_000;
/// Updates that a WebSocket may be behind.
const EVENTS: usize = 4_096;

/// Price and lots, best first.
type Levels = Vec<(Price, u64)>;

/// What an update is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    /// Levels of a book.
    Book,
    /// A trade, or that one was broken.
    Trades,
    /// Best prices and the last trade.
    Ticker,
    /// State of trading.
    Status,
}

impl Topic {
    /// By the channel's name.
    pub fn named(name: &str) -> Option<Topic> {
        let all = [Topic::Book, Topic::Trades, Topic::Ticker, Topic::Status];
        all.into_iter().find(|topic| topic.name() == name)
    }

    /// The channel's name.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Book => "book",
            Topic::Trades => "trades",
            Topic::Ticker => "ticker",
            Topic::Status => "status",
        }
    }
}

/// An update as it goes to every subscriber.
#[derive(Clone, Debug)]
pub struct Event {
    /// Place of the instrument.
    pub instrument: usize,
    /// What it is about.
    pub topic: Topic,
    /// Number of the feed's message that it stands after.
    pub seq: u64,
    /// The message.
    pub text: Arc<str>,
}

#[derive(Clone, Default)]
struct Line {
    seq: u64,
    sides: [Levels; 2],
    trades: VecDeque<Value>,
    ticker: Value,
    status: &'static str,
}

/// A trade, or a break of one, as the feed told of it.
#[derive(Clone, Copy, Debug)]
pub struct Print {
    /// Number of the feed's message.
    pub seq: u64,
    /// Number of the match.
    pub match_number: u64,
    /// Price; of a break 0.
    pub price: Price,
    /// Lots; of a break 0.
    pub lots: u64,
    /// Side of the order that took; `None` in an auction.
    pub aggressor: Option<Side>,
    /// ns since the midnight that the feed's times count from.
    pub time: u64,
    /// It was broken.
    pub broken: bool,
}

/// The public state of all instruments.
pub struct Market {
    instruments: Instruments,
    lines: Mutex<Vec<Line>>,
    events: broadcast::Sender<Event>,
}

const SIDES: [Side; 2] = [Side::Buy, Side::Sell];

impl Market {
    /// Empty books.
    pub fn new(instruments: Instruments) -> Market {
        let line = Line { status: "unknown", ..Line::default() };
        let lines = Mutex::new(vec![line; instruments.0.len()]);
        Market { instruments, lines, events: broadcast::channel(EVENTS).0 }
    }

    /// The instruments.
    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// All updates from now on.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        // A panic of a reader leaves the lines as they were.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the listener has heard since the last time; `prints` by place of their instrument.
    pub fn follow(&self, heard: &Subscriber, prints: &[(usize, Print)]) {
        let mut lines = self.lines();
        for (place, print) in prints {
            if let (Some(line), Some(of)) = (lines.get_mut(*place), self.instruments.0.get(*place))
            {
                let trade = trade_json(of, print);
                if line.trades.len() >= TRADES_MAX {
                    line.trades.pop_front();
                }
                line.trades.push_back(trade.clone());
                self.tell(*place, Topic::Trades, print.seq, || json!({
                    "channel": "trades", "symbol": of.symbol.to_string(), "seq": print.seq, "trade": trade,
                }));
            }
        }
        for ((place, of), line) in self.instruments.0.iter().enumerate().zip(lines.iter_mut()) {
            let carries = |channel: &&feed::Listener| channel.instruments().contains(&of.id);
            let channels = heard.channels();
            let Some(channel) = channels.iter().find(carries).or(channels.first()) else {
                continue;
            };
            let seq = channel.next_seq().0.saturating_sub(1);
            if seq == line.seq {
                continue;
            }
            let image = channel.image();
            let now = SIDES.map(|side| -> Levels {
                image
                    .depth(of.id, side)
                    .take(DEPTH)
                    .map(|level| (level.price, level.qty.0))
                    .collect()
            });
            if now != line.sides {
                let changed = |side: usize| -> Vec<Value> {
                    let changes = changes(&line.sides[side], &now[side]);
                    changes.iter().map(|level| level_json(of, *level)).collect()
                };
                self.tell(place, Topic::Book, seq, || {
                    json!({
                        "channel": "book", "type": "update", "symbol": of.symbol.to_string(),
                        "prev_seq": line.seq, "seq": seq,
                        "bids": changed(0), "asks": changed(1), "checksum": checksum(of, &now),
                    })
                });
                line.sides = now;
                // The book has stood so since `seq`; what changed nothing in it needs no update.
                line.seq = seq;
            }
            let stats = image.stats(of.id);
            let best = |side: usize| line.sides[side].first().map(|level| level_json(of, *level));
            let ticker = json!({
                "symbol": of.symbol.to_string(),
                "bid": best(0), "ask": best(1),
                "last": (stats.last_price.0 > 0).then(|| stats.last_price.to_string()),
                "volume": lots_text(stats.volume, of.lot_decimals), "trades": stats.trades,
            });
            if ticker != line.ticker {
                self.tell(
                    place,
                    Topic::Ticker,
                    seq,
                    || json!({ "channel": "ticker", "seq": seq, "ticker": ticker }),
                );
                line.ticker = ticker;
            }
            let status = image.state(of.id).map_or("unknown", state_name);
            if status != line.status {
                line.status = status;
                self.tell(place, Topic::Status, seq, || json!({
                    "channel": "status", "symbol": of.symbol.to_string(), "seq": seq, "status": status,
                }));
            }
        }
    }

    /// Tells whoever listens; nothing is written for nobody.
    fn tell(&self, instrument: usize, topic: Topic, seq: u64, text: impl FnOnce() -> Value) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let text = text();
        let _ = self.events.send(Event { instrument, topic, seq, text: text.to_string().into() });
    }

    /// How things stand now on a topic, and after which message; `depth` levels a side at most.
    pub fn snapshot(&self, place: usize, topic: Topic, depth: usize) -> Option<(u64, Value)> {
        let lines = self.lines();
        let (line, of) = (lines.get(place)?, self.instruments.0.get(place)?);
        let symbol = of.symbol.to_string();
        let value = match topic {
            Topic::Book => {
                let side = |side: usize| -> Vec<Value> {
                    let levels = line.sides[side].iter().take(depth);
                    levels.map(|level| level_json(of, *level)).collect()
                };
                json!({
                    "channel": "book", "type": "snapshot", "symbol": symbol, "seq": line.seq,
                    "bids": side(0), "asks": side(1), "checksum": checksum(of, &line.sides),
                })
            }
            Topic::Trades => {
                let trades: Vec<&Value> = line.trades.iter().rev().take(depth).collect();
                json!({ "channel": "trades", "type": "snapshot", "symbol": symbol, "trades": trades })
            }
            Topic::Ticker => {
                json!({ "channel": "ticker", "type": "snapshot", "symbol": symbol, "ticker": line.ticker })
            }
            Topic::Status => json!({
                "channel": "status", "type": "snapshot", "symbol": symbol, "status": line.status,
            }),
        };
        Some((line.seq, value))
    }
}

/// Levels that differ: those of `is` that `was` has not, and with 0 lots those that are gone.
fn changes(was: &Levels, is: &Levels) -> Levels {
    let of = |levels: &Levels| levels.iter().copied().collect::<std::collections::BTreeMap<_, _>>();
    let (before, after) = (of(was), of(is));
    let new = is.iter().filter(|(price, lots)| before.get(price) != Some(lots)).copied();
    let gone =
        was.iter().filter(|(price, _)| !after.contains_key(price)).map(|(price, _)| (*price, 0));
    new.chain(gone).collect()
}

fn level_json(of: &Instrument, (price, lots): (Price, u64)) -> Value {
    json!([price.to_string(), lots_text(lots, of.lot_decimals)])
}

fn trade_json(of: &Instrument, print: &Print) -> Value {
    json!({
        "trade_id": print.match_number.to_string(),
        "price": print.price.to_string(),
        "qty": lots_text(print.lots, of.lot_decimals),
        "aggressor": print.aggressor.map(crate::request::side_name),
        "time_ns": print.time.to_string(),
        "broken": print.broken,
    })
}

/// The CRC32 of the ten best levels: asks from the best, then bids from the best; of each its price, then
/// its quantity, as they are written but without the point and without zeros in front.
fn checksum(of: &Instrument, sides: &[Levels; 2]) -> u32 {
    let mut text = String::new();
    for (price, lots) in sides.iter().rev().flat_map(|levels| levels.iter().take(CHECKED)) {
        for number in [price.to_string(), lots_text(*lots, of.lot_decimals)] {
            let digits: String = number.chars().filter(|letter| *letter != '.').collect();
            text.push_str(digits.trim_start_matches('0'));
        }
    }
    crc32fast::hash(text.as_bytes())
}

fn state_name(state: wire::itch::State) -> &'static str {
    match state {
        wire::itch::State::Trading => "trading",
        wire::itch::State::Halted => "halted",
        wire::itch::State::Paused => "paused",
        wire::itch::State::QuotationOnly => "quotation",
    }
}

#[cfg(test)]
mod tests {
    use types::{InstrumentId, Qty, SplitMix64, Symbol, limits};

    use super::*;

    fn instrument(lot_decimals: u8) -> Instrument {
        Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("AAA").expect("a symbol"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals,
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_written_digits() {
        let sides =
            [vec![(Price(999_900), 50)], vec![(Price(1_000_000), 1), (Price(1_000_500), 20)]];
        // 100 and 0.1, 100.0500 and 2, then 99.9900 and 5: without points and zeros in front.
        let due = crc32fast::hash(b"1001100050029999005");
        assert_eq!(checksum(&instrument(1), &sides), due);
        let other = [vec![(Price(999_900), 51)], sides[1].clone()];
        assert_ne!(checksum(&instrument(1), &other), checksum(&instrument(1), &sides));
    }

    #[test]
    fn changes_make_the_new_book_out_of_the_old() {
        println!("seed 28");
        let mut rng = SplitMix64::new(28);
        let mut was: Levels = Vec::new();
        let mut book = std::collections::BTreeMap::new();
        for _ in 0..500 {
            let mut is = std::collections::BTreeMap::new();
            for _ in 0..rng.below(12) {
                is.insert(Price(rng.below(15) as i64), 1 + rng.below(3));
            }
            let is: Levels = is.into_iter().rev().collect();
            for (price, lots) in changes(&was, &is) {
                if lots == 0 {
                    assert!(book.remove(&price).is_some(), "only what was there goes");
                } else {
                    book.insert(price, lots);
                }
            }
            assert_eq!(book.iter().rev().map(|(p, q)| (*p, *q)).collect::<Levels>(), is);
            was = is;
        }
    }

    #[test]
    fn channels_have_names() {
        for topic in [Topic::Book, Topic::Trades, Topic::Ticker, Topic::Status] {
            assert_eq!(Topic::named(topic.name()), Some(topic));
        }
        assert_eq!(Topic::named("orders"), None);
    }
}
