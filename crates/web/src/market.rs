//! Books, trades, best prices, auctions and states as the public may see them, and what changed since.
//!
//! The node that hears the feed writes here ([`Market::follow`]); HTTP threads read. Each instrument's book
//! has the number of the feed's message it stands after, `seq`. An update says absolute quantities, 0 where
//! a level is gone, and the number of the update before it, `prev_seq`; a snapshot and the updates behind
//! its `seq` give the book at every later one. The last updates are kept, so that whoever comes back soon
//! gets what it missed. What one look at the feed found goes to the connections' thread at once, and is
//! written for all subscribers together. A book's levels beyond [`DEPTH`] are not told.

mod book;
mod candles;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::extract::ws::Utf8Bytes;
use feed::{BookImage, Subscriber};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use types::{Instrument, Price, Qty, Side};
use wire::itch::NetOrderImbalance;
use wire::moldudp::Session;

use crate::decimal::lots_text;
use crate::hub::Hub;
use crate::request::Instruments;
use book::{Levels, Moves, Queue};
use candles::Candles;
pub use candles::SPANS;

/// Levels of a side that are told.
pub const DEPTH: usize = 500;
/// Levels of a side that the checksum covers.
pub const CHECKED: usize = 10;
/// Orders a side in a snapshot of single orders.
const QUEUE: usize = 5_000;
/// Trades of an instrument that are still told to who asks.
const TRADES_MAX: usize = 1_000;
/// Looks at the feed that the connections' thread may be behind.
const BATCHES: usize = 1_024;
/// Updates of a book that are kept for who comes back.
const KEPT_MAX: usize = 1_024;
/// Levels and orders in them, all together.
const KEPT_ENTRIES: usize = 65_536;

/// What an update is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    /// Levels of a book.
    Book,
    /// Orders of a book.
    Queue,
    /// A trade, or that one was broken.
    Trades,
    /// Best prices and the last trade.
    Ticker,
    /// What an auction would come to.
    Auctions,
    /// Trades by the minute.
    Candles,
    /// State of trading.
    Status,
}

impl Topic {
    /// Every topic, in the order of their declaration.
    pub const ALL: [Topic; 7] = [
        Topic::Book,
        Topic::Queue,
        Topic::Trades,
        Topic::Ticker,
        Topic::Auctions,
        Topic::Candles,
        Topic::Status,
    ];

    /// By the channel's name.
    pub fn named(name: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// The channel's name.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Book => "book",
            Topic::Queue => "l3",
            Topic::Trades => "trades",
            Topic::Ticker => "ticker",
            Topic::Auctions => "auctions",
            Topic::Candles => "candles",
            Topic::Status => "status",
        }
    }
}

/// What an update says.
#[derive(Debug)]
enum Made {
    Levels { changes: [Levels; 2], top: [Levels; 2], time: u64 },
    Orders { moves: [Moves; 2], checksum: u32 },
    Told(Value),
}

/// An update as it goes to every subscriber.
#[derive(Debug)]
pub struct Event {
    /// Place of the instrument.
    pub instrument: usize,
    /// What it is about.
    pub topic: Topic,
    /// Number of the feed's message that it stands after.
    pub seq: u64,
    /// Of a book: number of the update before it.
    pub prev_seq: u64,
    of: Instrument,
    made: Made,
    /// Written when the first subscriber needs it, for all of them.
    text: OnceLock<Utf8Bytes>,
}

/// What one look at the feed found.
pub(crate) type Batch = Arc<[Arc<Event>]>;

impl Event {
    /// An update that says this.
    pub(crate) fn told(
        instrument: usize,
        topic: Topic,
        seq: u64,
        (of, told): (Instrument, Value),
    ) -> Event {
        let (made, text) = (Made::Told(told), OnceLock::new());
        Event { instrument, topic, seq, prev_seq: seq, of, made, text }
    }

    /// The message.
    pub fn text(&self) -> Utf8Bytes {
        let text = || {
            let of = &self.of;
            let head = |channel: &str| {
                json!({
                    "channel": channel, "type": "update", "symbol": of.symbol.to_string(),
                    "prev_seq": self.prev_seq, "seq": self.seq,
                })
            };
            match &self.made {
                Made::Told(value) => value.to_string().into(),
                Made::Levels { changes, top, time } => {
                    let side = |side: usize| -> Value {
                        changes[side].iter().map(|level| book::level_json(of, *level)).collect()
                    };
                    let mut told = head("book");
                    told["time_ns"] = time.to_string().into();
                    (told["bids"], told["asks"]) = (side(0), side(1));
                    told["checksum"] = book::checksum(of, top).into();
                    told.to_string().into()
                }
                Made::Orders { moves, checksum } => {
                    let mut told = head("l3");
                    told["bids"] = book::moves_json(of, &moves[0]);
                    told["asks"] = book::moves_json(of, &moves[1]);
                    told["checksum"] = (*checksum).into();
                    told.to_string().into()
                }
            }
        };
        self.text.get_or_init(text).clone()
    }

    /// Levels and orders in it.
    fn entries(&self) -> usize {
        match &self.made {
            Made::Levels { changes, top, .. } => {
                changes.iter().chain(top).map(Vec::len).sum::<usize>()
            }
            Made::Orders { moves, .. } => moves
                .iter()
                .map(|of| of.gone.len() + of.changed.len() + of.come.len())
                .sum::<usize>(),
            Made::Told(_) => 1,
        }
    }
}

/// The last updates of a book, each with the number of the one before it.
#[derive(Clone, Default)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    entries: usize,
}

impl Kept {
    fn push(&mut self, event: Arc<Event>) {
        self.entries += event.entries();
        self.events.push_back(event);
        while self.events.len() > KEPT_MAX || self.entries > KEPT_ENTRIES {
            let Some(first) = self.events.pop_front() else { return };
            self.entries -= first.entries();
        }
    }

    /// The updates behind `since`; `None`: something before them is not known any more, or `since` is of
    /// no update.
    fn since(&self, since: u64) -> Option<Vec<Arc<Event>>> {
        let place = self.events.iter().position(|event| event.prev_seq == since)?;
        Some(self.events.range(place..).cloned().collect())
    }
}

/// Orders of an instrument, while somebody wants them.
#[derive(Clone, Default)]
struct Orders {
    seq: u64,
    sides: [Queue; 2],
    kept: Kept,
}

#[derive(Clone, Default)]
struct Line {
    seq: u64,
    /// Time of the last message heard, ns since the midnight that the feed's times count from.
    time: u64,
    /// Session of the feed that the last message was of.
    session: String,
    /// First session of the stream that carries the instrument; `None`: nothing was heard.
    stream: Option<Session>,
    sides: [Levels; 2],
    kept: Kept,
    orders: Option<Orders>,
    trades: VecDeque<(u64, Value)>,
    candles: Candles,
    ticker: Value,
    auction: Value,
    status: &'static str,
    /// By topic: how things stand, as [`Market::snapshot_text`] has written it since the last change.
    written: [Option<Utf8Bytes>; Topic::ALL.len()],
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
    /// The same, ms since the epoch.
    pub time_ms: u64,
    /// It was broken.
    pub broken: bool,
}

/// The public state of all instruments.
pub struct Market {
    instruments: Instruments,
    lines: Mutex<Vec<Line>>,
    batches: broadcast::Sender<Batch>,
    hub: Hub,
    /// By place: who wants single orders.
    wanted: Vec<AtomicUsize>,
    /// By place: smallest quantities, once they are set.
    qty_min: OnceLock<Vec<Qty>>,
}

const SIDES: [Side; 2] = [Side::Buy, Side::Sell];

impl Market {
    /// Empty books.
    pub fn new(instruments: Instruments) -> Market {
        let line = Line { status: "unknown", ..Line::default() };
        let lines = Mutex::new(vec![line; instruments.0.len()]);
        let wanted = instruments.0.iter().map(|_| AtomicUsize::new(0)).collect();
        let batches = broadcast::channel(BATCHES).0;
        let (hub, qty_min) = (Hub::default(), OnceLock::new());
        Market { instruments, lines, batches, hub, wanted, qty_min }
    }

    /// Smallest quantities of orders, by place. They are set once.
    pub(crate) fn set_qty_min(&self, lots: &[Qty]) {
        let _ = self.qty_min.set(lots.to_vec());
    }

    /// The smallest quantity of an order; one lot unless it is known.
    pub(crate) fn qty_min(&self, place: usize) -> Qty {
        self.qty_min.get().and_then(|all| all.get(place)).copied().unwrap_or(Qty(1))
    }

    /// The instruments.
    pub fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    /// Who is subscribed to what.
    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Puts updates into the queues of those who are subscribed to them, as long as it is polled.
    pub(crate) async fn distribute(&self) {
        let mut batches = self.batches.subscribe();
        loop {
            match batches.recv().await {
                Ok(batch) => self.hub.deliver(&batch),
                Err(RecvError::Lagged(_)) => self.hub.lose(),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Single orders of an instrument are followed until [`Market::unwant`]; [`Market::look`] has them.
    pub fn want(&self, place: usize) {
        if let Some(wanted) = self.wanted.get(place) {
            wanted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One less wants single orders.
    pub fn unwant(&self, place: usize) {
        if let Some(wanted) = self.wanted.get(place) {
            wanted.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        // A panic of a reader leaves the lines as they were.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the single orders of an instrument as the listener has them now.
    pub fn look(&self, heard: &Subscriber, place: usize) {
        let mut lines = self.lines();
        let (Some(line), Some(of)) = (lines.get_mut(place), self.instruments.0.get(place)) else {
            return;
        };
        let channel = heard.carrying(of.id, line.stream);
        if let (Some(channel), None) = (channel, &line.orders) {
            let seq = channel.next_seq().0.saturating_sub(1);
            let sides = book::queues(channel.image(), of);
            line.orders = Some(Orders { seq, sides, kept: Kept::default() });
            line.written = Default::default();
        }
    }

    /// Takes what the listener has heard since the last time; `prints` by place of their instrument.
    pub fn follow(&self, heard: &Subscriber, prints: &[(usize, Print)]) {
        let (mut lines, mut batch) = (self.lines(), Vec::new());
        for (place, print) in prints {
            if let (Some(line), Some(of)) = (lines.get_mut(*place), self.instruments.0.get(*place))
            {
                line.written = Default::default();
                self.print((*place, of), line, print, &mut batch);
            }
        }
        for ((place, of), line) in self.instruments.0.iter().enumerate().zip(lines.iter_mut()) {
            let before = line.stream;
            let Some(channel) = heard.carrying(of.id, before) else { continue };
            let (seq, stream) = (channel.next_seq().0.saturating_sub(1), channel.first_session());
            let moved = line.stream.is_some_and(|was| was != stream);
            if seq == line.seq && !moved {
                continue;
            }
            line.stream = Some(stream);
            line.written = Default::default();
            line.session = String::from_utf8_lossy(&channel.session().0).trim().to_string();
            match moved {
                true => self.begin_anew((place, of), (seq, channel.image()), line, &mut batch),
                false => self.follow_book((place, of), (seq, channel.image()), line, &mut batch),
            }
            self.follow_state((place, of), (seq, channel.image()), line, &mut batch);
        }
        if !batch.is_empty() {
            // Nobody serves connections: nobody is subscribed.
            let _ = self.batches.send(batch.into());
        }
    }

    fn print(
        &self,
        (place, of): (usize, &Instrument),
        line: &mut Line,
        print: &Print,
        batch: &mut Vec<Arc<Event>>,
    ) {
        let trade = trade_json(of, print);
        if line.trades.len() >= TRADES_MAX {
            line.trades.pop_front();
        }
        line.trades.push_back((print.seq, trade.clone()));
        let symbol = of.symbol.to_string();
        self.tell(
            (place, of),
            (Topic::Trades, print.seq),
            batch,
            || json!({ "channel": "trades", "symbol": symbol, "seq": print.seq, "trade": trade }),
        );
        if !print.broken {
            let minute = line.candles.trade(print.time_ms, print.price, print.lots);
            self.tell((place, of), (Topic::Candles, print.seq), batch, || {
                json!({
                    "channel": "candles", "symbol": symbol, "interval": "1m", "seq": print.seq,
                    "candle": minute.json(of),
                })
            });
        }
    }

    /// The instrument is in another stream now, whose messages have numbers of their own: who follows its
    /// books is told how they stand there.
    fn begin_anew(
        &self,
        (place, of): (usize, &Instrument),
        (seq, image): (u64, &BookImage),
        line: &mut Line,
        batch: &mut Vec<Arc<Event>>,
    ) {
        line.time = image.time().map_or(0, |time| time.get());
        (line.sides, line.seq, line.kept) = (book::levels(image, of), seq, Kept::default());
        if let Some(orders) = &mut line.orders {
            let sides = book::queues(image, of);
            *orders = Orders { seq, sides, kept: Kept::default() };
        }
        for (topic, most) in [(Topic::Book, DEPTH), (Topic::Queue, QUEUE)] {
            if let Some(stand) = Market::stand(line, of, topic, most) {
                self.tell((place, of), (topic, seq), batch, || stand);
            }
        }
    }

    fn follow_book(
        &self,
        (place, of): (usize, &Instrument),
        (seq, image): (u64, &BookImage),
        line: &mut Line,
        batch: &mut Vec<Arc<Event>>,
    ) {
        let event = |topic, prev_seq, made| {
            let (of, text) = (*of, OnceLock::new());
            Arc::new(Event { instrument: place, topic, seq, prev_seq, of, made, text })
        };
        line.time = image.time().map_or(0, |time| time.get());
        let now = book::levels(image, of);
        if now != line.sides {
            let changes = [0, 1].map(|side| book::changes(&line.sides[side], &now[side]));
            let top = [0, 1].map(|side| now[side].iter().take(CHECKED).copied().collect());
            let event =
                event(Topic::Book, line.seq, Made::Levels { changes, top, time: line.time });
            line.kept.push(Arc::clone(&event));
            batch.push(event);
            line.sides = now;
            // The book has stood so since `seq`; what changed nothing in it needs no update.
            line.seq = seq;
        }
        if self.wanted.get(place).is_none_or(|wanted| wanted.load(Ordering::Relaxed) == 0) {
            line.orders = None;
        }
        let Some(orders) = &mut line.orders else { return };
        let now = book::queues(image, of);
        if now != orders.sides {
            let moves = [0, 1].map(|side| book::moves(&orders.sides[side], &now[side]));
            let checksum = book::queue_checksum(of, &now);
            let event = event(Topic::Queue, orders.seq, Made::Orders { moves, checksum });
            orders.kept.push(Arc::clone(&event));
            batch.push(event);
            (orders.sides, orders.seq) = (now, seq);
        }
    }

    fn follow_state(
        &self,
        (place, of): (usize, &Instrument),
        (seq, image): (u64, &BookImage),
        line: &mut Line,
        batch: &mut Vec<Arc<Event>>,
    ) {
        let symbol = of.symbol.to_string();
        let stats = image.stats(of.id);
        let best = |side: usize| line.sides[side].first().map(|at| book::level_json(of, *at));
        let ticker = json!({
            "symbol": symbol,
            "bid": best(0), "ask": best(1),
            "last": (stats.last_price.0 > 0).then(|| stats.last_price.to_string()),
            "volume": lots_text(stats.volume, of.lot_decimals), "trades": stats.trades,
        });
        if ticker != line.ticker {
            self.tell(
                (place, of),
                (Topic::Ticker, seq),
                batch,
                || json!({ "channel": "ticker", "seq": seq, "ticker": ticker }),
            );
            line.ticker = ticker;
        }
        let auction = image.imbalance(of.id).map_or(Value::Null, |of_it| auction_json(of, &of_it));
        if auction != line.auction {
            self.tell((place, of), (Topic::Auctions, seq), batch, || {
                json!({ "channel": "auctions", "symbol": symbol, "seq": seq, "auction": auction })
            });
            line.auction = auction;
        }
        let status = image.state(of.id).map_or("unknown", state_name);
        if status != line.status {
            line.status = status;
            self.tell(
                (place, of),
                (Topic::Status, seq),
                batch,
                || json!({ "channel": "status", "symbol": symbol, "seq": seq, "status": status }),
            );
        }
    }

    /// Tells whoever is subscribed; nothing is written for nobody.
    fn tell(
        &self,
        (instrument, of): (usize, &Instrument),
        (topic, seq): (Topic, u64),
        batch: &mut Vec<Arc<Event>>,
        told: impl FnOnce() -> Value,
    ) {
        if self.hub.wants((instrument, topic)) {
            batch.push(Arc::new(Event::told(instrument, topic, seq, (*of, told()))));
        }
    }

    /// What came on a topic after `since`, for who had everything up to there; `None`: that is not known
    /// any more, or of a topic whose last message says everything.
    pub fn since(&self, place: usize, topic: Topic, since: u64) -> Option<Vec<Utf8Bytes>> {
        let lines = self.lines();
        let (line, of) = (lines.get(place)?, self.instruments.0.get(place)?);
        let kept = |seq: u64, kept: &Kept| match since == seq {
            true => Some(Vec::new()),
            false => Some(kept.since(since)?.iter().map(|event| event.text()).collect()),
        };
        match topic {
            Topic::Book => kept(line.seq, &line.kept),
            Topic::Queue => line.orders.as_ref().and_then(|of| kept(of.seq, &of.kept)),
            Topic::Trades => {
                let full = line.trades.len() >= TRADES_MAX;
                if full && line.trades.front().is_some_and(|(seq, _)| *seq > since) {
                    return None;
                }
                let later = line.trades.iter().filter(|(seq, _)| *seq > since);
                let told = later.map(|(seq, trade)| {
                    let symbol = of.symbol.to_string();
                    json!({ "channel": "trades", "symbol": symbol, "seq": seq, "trade": trade })
                });
                Some(told.map(|told| told.to_string().into()).collect())
            }
            _ => None,
        }
    }

    /// How things stand now on a topic, for whoever subscribes: written once for all until something changes.
    pub fn snapshot_text(&self, place: usize, topic: Topic) -> Option<Utf8Bytes> {
        let mut lines = self.lines();
        let (line, of) = (lines.get_mut(place)?, self.instruments.0.get(place)?);
        if let Some(text) = &line.written[topic as usize] {
            return Some(text.clone());
        }
        let most = if topic == Topic::Queue { QUEUE } else { DEPTH };
        let text: Utf8Bytes = Market::stand(line, of, topic, most)?.to_string().into();
        line.written[topic as usize] = Some(text.clone());
        Some(text)
    }

    /// How things stand now on a topic, and after which message; `depth` levels a side, orders a side,
    /// trades or candles at most.
    pub fn snapshot(&self, place: usize, topic: Topic, depth: usize) -> Option<(u64, Value)> {
        let lines = self.lines();
        let (line, of) = (lines.get(place)?, self.instruments.0.get(place)?);
        Some((line.seq, Market::stand(line, of, topic, depth)?))
    }

    fn stand(line: &Line, of: &Instrument, topic: Topic, depth: usize) -> Option<Value> {
        let mut value = json!({
            "channel": topic.name(), "type": "snapshot", "symbol": of.symbol.to_string(),
            "session": line.session,
        });
        match topic {
            Topic::Book => {
                let side = |side: usize| -> Value {
                    let levels = line.sides[side].iter().take(depth);
                    levels.map(|level| book::level_json(of, *level)).collect()
                };
                value["seq"] = line.seq.into();
                value["time_ns"] = line.time.to_string().into();
                (value["bids"], value["asks"]) = (side(0), side(1));
                value["checksum"] = book::checksum(of, &line.sides).into();
            }
            Topic::Queue => {
                let orders = line.orders.as_ref()?;
                let side = |side: usize| -> Value {
                    let orders = orders.sides[side].iter().take(depth);
                    orders.map(|order| book::order_json(of, *order)).collect()
                };
                value["seq"] = orders.seq.into();
                (value["bids"], value["asks"]) = (side(0), side(1));
                value["checksum"] = book::queue_checksum(of, &orders.sides).into();
            }
            Topic::Trades => {
                let trades = line.trades.iter().rev().take(depth).map(|(_, trade)| trade.clone());
                value["trades"] = trades.collect();
            }
            Topic::Candles => {
                value["interval"] = "1m".into();
                let candles = line.candles.last(SPANS[0].1, depth);
                value["candles"] = candles.iter().map(|candle| candle.json(of)).collect();
            }
            Topic::Ticker => value["ticker"] = line.ticker.clone(),
            Topic::Auctions => value["auction"] = line.auction.clone(),
            Topic::Status => value["status"] = line.status.into(),
        }
        Some(value)
    }

    /// The last trades with a `seq` above `since`, newest first.
    pub fn trades(&self, place: usize, since: u64, most: usize) -> Value {
        let lines = self.lines();
        let Some(line) = lines.get(place) else { return Value::Null };
        let later = line.trades.iter().rev().take_while(|(seq, _)| *seq > since);
        later.take(most).map(|(_, trade)| trade.clone()).collect()
    }

    /// The last candles of a span, newest first.
    pub fn candles(&self, place: usize, span_ms: u64, most: usize) -> Value {
        let lines = self.lines();
        let (Some(line), Some(of)) = (lines.get(place), self.instruments.0.get(place)) else {
            return Value::Null;
        };
        line.candles.last(span_ms, most).iter().map(|candle| candle.json(of)).collect()
    }
}

fn trade_json(of: &Instrument, print: &Print) -> Value {
    json!({
        "trade_id": print.match_number.to_string(),
        "price": print.price.to_string(),
        "qty": lots_text(print.lots, of.lot_decimals),
        "aggressor": print.aggressor.map(crate::request::side_name),
        "time_ns": print.time.to_string(),
        "time_ms": print.time_ms,
        "seq": print.seq,
        "broken": print.broken,
    })
}

/// What the feed said last of an auction: it stays when the auction is over.
fn auction_json(of: &Instrument, told: &NetOrderImbalance) -> Value {
    let price = |units: u32| (units > 0).then(|| Price(units.into()).to_string());
    let side = match told.direction {
        b'B' => Some("buy"),
        b'S' => Some("sell"),
        _ => None,
    };
    let kind = match told.cross_type {
        b'O' => "open",
        b'C' => "close",
        b'H' => "halt",
        b'I' => "intraday",
        _ => "other",
    };
    json!({
        "kind": kind,
        "paired": lots_text(told.paired_shares.get(), of.lot_decimals),
        "imbalance": lots_text(told.imbalance_shares.get(), of.lot_decimals),
        "imbalance_side": side,
        "reference_price": price(told.reference_price.get()),
        "near_price": price(told.near_price.get()),
        "far_price": price(told.far_price.get()),
    })
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
mod tests;
