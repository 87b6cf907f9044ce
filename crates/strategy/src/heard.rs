//! The record of what a strategy was told and asked for, and its replay.
//!
//! Records follow each other, each a letter, the length of what follows (16 bits) and that; numbers are
//! little-endian. `S` begins: version, decimals of prices, streams of the feed, room for orders, first midnight;
//! `I` is an instrument, `M` a message of the feed with its stream, `R` a report, `T` the time at which the
//! strategy was told what came since the last one, `O` and `C` an order and a cancel that it then asked for, `F` why it was
//! stopped. A replay gives another strategy the same, and compares what it asks for.

use feed::StreamDigest;
use types::{Instrument, InstrumentId, Nanos, Price, Qty, Side, Symbol, TimeInForce};

use crate::report::{Report, ReportKind};
use crate::seat::{Request, Seat};
use crate::strategy::Strategy;

/// What every record of a strategy's hearing begins with.
pub const MAGIC: &[u8; 8] = b"FBHEARD1";
/// Bytes of a report.
const REPORT_LEN: usize = 41;
/// Bytes of an order.
const ORDER_LEN: usize = 21;
/// Bytes of an instrument.
const INSTRUMENT_LEN: usize = 19;
/// Most streams of a feed.
pub const STREAMS_MAX: u8 = 16;
/// Most orders that there is room for.
const ORDERS_MAX: u32 = 1 << 24;

/// What a record begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opening {
    /// A price unit is 10^-`price_decimals` of the quote currency.
    pub price_decimals: u8,
    /// Streams of the feed.
    pub streams: u8,
    /// Orders that the books of a stream have room for.
    pub orders_max: u32,
    /// First midnight that times of the feed count from.
    pub midnight: Nanos,
    /// Of each stream, how many of its first messages were sent before the strategy began.
    pub history: [u64; STREAMS_MAX as usize],
}

impl Opening {
    /// The history of the streams that there are.
    pub fn history(&self) -> &[u64] {
        &self.history[..usize::from(self.streams.min(STREAMS_MAX))]
    }
}

/// Why a record can't be replayed, at which byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeardError {
    /// Place of the record that is wrong.
    pub at: usize,
    /// What is wrong with it.
    pub why: String,
}

impl std::fmt::Display for HeardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}: {}", self.at, self.why)
    }
}

impl std::error::Error for HeardError {}

fn put(to: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    // Messages of the feed are shorter than a datagram.
    let Ok(len) = u16::try_from(len) else { return };
    to.push(kind);
    to.extend_from_slice(&len.to_le_bytes());
    parts.iter().for_each(|part| to.extend_from_slice(part));
}

/// Appends the beginning of a record.
pub fn begin(to: &mut Vec<u8>, opening: &Opening, instruments: &[Instrument]) {
    to.extend_from_slice(MAGIC);
    let Opening { price_decimals, streams, orders_max, midnight, .. } = *opening;
    let head = [2, price_decimals, streams];
    let history: Vec<u8> = opening.history().iter().flat_map(|of| of.to_le_bytes()).collect();
    put(to, b'S', &[&head, &orders_max.to_le_bytes(), &midnight.0.to_le_bytes(), &history]);
    for one in instruments {
        let (id, tick) = (one.id.0.to_le_bytes(), one.tick.0.to_le_bytes());
        put(to, b'I', &[&id, &tick, &[one.lot_decimals], &one.symbol.0]);
    }
}

/// Appends a message of the feed.
pub fn message(to: &mut Vec<u8>, stream: usize, bytes: &[u8]) {
    put(to, b'M', &[&[stream as u8], bytes]);
}

/// Appends a report.
pub fn report(to: &mut Vec<u8>, report: &Report) {
    let Report { kind, happened, id, instrument, side, price, qty, left, rested } = *report;
    let codes = [kind as u8, side as u8, u8::from(rested)];
    put(
        to,
        b'R',
        &[
            &codes,
            &happened.0.to_le_bytes(),
            &id.to_le_bytes(),
            &instrument.0.to_le_bytes(),
            &price.0.to_le_bytes(),
            &qty.0.to_le_bytes(),
            &left.0.to_le_bytes(),
        ],
    );
}

/// Appends the time at which the strategy was told.
pub fn told(to: &mut Vec<u8>, now: Nanos) {
    put(to, b'T', &[&now.0.to_le_bytes()]);
}

/// Appends a request.
pub fn request(to: &mut Vec<u8>, request: &Request) {
    match *request {
        Request::Cancel { id } => put(to, b'C', &[&id.to_le_bytes()]),
        Request::Order { id, instrument, side, qty, price, life, rests } => put(
            to,
            b'O',
            &[
                &id.to_le_bytes(),
                &instrument.0.to_le_bytes(),
                &qty.to_le_bytes(),
                &price.0.to_le_bytes(),
                &[side as u8, life as u8, u8::from(rests)],
            ],
        ),
    }
}

/// Appends why the strategy was stopped.
pub fn failed(to: &mut Vec<u8>, why: &str) {
    put(to, b'F', &[why.as_bytes()]);
}

/// What a replay came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Messages of the feed.
    pub messages: u64,
    /// Reports of its orders.
    pub reports: u64,
    /// Times at which the strategy was told something.
    pub told: u64,
    /// Orders asked for, now.
    pub orders: u64,
    /// Cancels asked for, now.
    pub cancels: u64,
    /// Requests of the record.
    pub recorded: u64,
    /// Requests that are the record's, bit for bit and at the same place.
    pub equal: u64,
    /// The first place at which they are not: byte of the record, the record's request and the one now.
    pub first_difference: Option<(usize, String, String)>,
    /// The record's end is missing: byte at which something begins that is not whole, and how many of
    /// its bytes there are; none where the telling of what was heard last is missing.
    pub cut: Option<(usize, usize)>,
    /// Digest of the requests now.
    pub digest: u64,
    /// Why the strategy was stopped, then.
    pub failed_then: Option<String>,
    /// Why it was stopped, now.
    pub failed_now: Option<String>,
}

impl Replayed {
    /// Whether the record is whole, all requests were the record's, and there were no others.
    pub fn is_equal(&self) -> bool {
        self.first_difference.is_none()
            && self.cut.is_none()
            && self.equal == self.recorded
            && self.equal == self.orders + self.cancels
            && self.failed_then == self.failed_now
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, why: &str) -> HeardError {
        HeardError { at: self.at, why: why.to_string() }
    }

    /// The next record: where it begins, its letter and what follows. A record that was cut short ends it.
    fn next(&mut self) -> Option<(usize, u8, &'a [u8])> {
        let (&[kind, a, b], rest) = self.bytes.split_first_chunk::<3>()?;
        let body = rest.get(..usize::from(u16::from_le_bytes([a, b])))?;
        let at = self.at;
        self.bytes = rest.get(body.len()..).unwrap_or(&[]);
        self.at += 3 + body.len();
        Some((at, kind, body))
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|part| part.try_into().ok()).map_or(0, u16::from_le_bytes)
}

fn side_of(code: u8) -> Option<Side> {
    [Side::Buy, Side::Sell].get(usize::from(code)).copied()
}

fn read_report(body: &[u8]) -> Option<Report> {
    let &[kind, side, rested, ..] = body else { return None };
    (body.len() == REPORT_LEN).then_some(())?;
    Some(Report {
        kind: *ReportKind::ALL.get(usize::from(kind))?,
        happened: Nanos(u64_at(body, 3)),
        id: u32_at(body, 11),
        instrument: InstrumentId(u16_at(body, 15)),
        side: side_of(side)?,
        price: Price(u64_at(body, 17).cast_signed()),
        qty: Qty(u64_at(body, 25)),
        left: Qty(u64_at(body, 33)),
        rested: rested != 0,
    })
}

fn read_request(kind: u8, body: &[u8]) -> Option<Request> {
    match (kind, body.len()) {
        (b'C', 4) => Some(Request::Cancel { id: u32_at(body, 0) }),
        (b'O', ORDER_LEN) => Some(Request::Order {
            id: u32_at(body, 0),
            instrument: InstrumentId(u16_at(body, 4)),
            qty: u32_at(body, 6),
            price: Price(u64_at(body, 10).cast_signed()),
            side: side_of(body[18])?,
            life: match body[19] {
                code if code == TimeInForce::ImmediateOrCancel as u8 => {
                    TimeInForce::ImmediateOrCancel
                }
                _ => TimeInForce::Day,
            },
            rests: body[20] != 0,
        }),
        _ => None,
    }
}

/// The opening of version 1, all of whose messages are news, or 2.
fn read_opening(kind: u8, body: &[u8]) -> Option<Opening> {
    let (&[version, price_decimals, streams], _) = body.split_first_chunk()?;
    let streams_here = if version == 1 { 0 } else { usize::from(streams) };
    let is_one = kind == b'S' && matches!(version, 1 | 2) && body.len() == 15 + 8 * streams_here;
    is_one.then(|| Opening {
        price_decimals,
        streams,
        orders_max: u32_at(body, 3),
        midnight: Nanos(u64_at(body, 7)),
        history: std::array::from_fn(|stream| u64_at(body, 15 + 8 * stream)),
    })
}

fn read_instrument(body: &[u8]) -> Option<Instrument> {
    (body.len() == INSTRUMENT_LEN).then_some(())?;
    let symbol = body.get(11..)?.try_into().ok().map(Symbol)?;
    Some(Instrument {
        id: InstrumentId(u16_at(body, 0)),
        symbol: Symbol::new(symbol.as_str())?,
        tick: Price(u64_at(body, 2).cast_signed()),
        price_max: Price(types::limits::PRICE_MAX),
        qty_max: Qty(types::limits::QTY_MAX),
        lot_decimals: body[10],
    })
}

/// Replays a record with a strategy that `start` makes for its instruments and decimals of prices.
///
/// # Errors
/// The bytes are no record, or the strategy can't be started. A record that ends in the middle of something is
/// replayed up to there, and [`Replayed::cut`] says where; so is one that ends before what was heard is told.
pub fn replay(
    bytes: &[u8],
    start: impl FnOnce(&[Instrument], u8) -> Result<Box<dyn Strategy>, String>,
) -> Result<Replayed, HeardError> {
    let mut reader = Reader { bytes, at: 0 };
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(reader.wrong("no record of what a strategy heard"));
    };
    (reader.bytes, reader.at) = (rest, MAGIC.len());
    let opening = reader.next().and_then(|(_, kind, body)| read_opening(kind, body));
    let opening = opening.ok_or_else(|| reader.wrong("no opening of version 1 or 2"))?;
    if opening.streams > STREAMS_MAX || opening.orders_max > ORDERS_MAX {
        return Err(reader.wrong("more streams or orders than there can be"));
    }
    let mut instruments = Vec::new();
    let mut ahead = reader.next();
    while let Some((at, b'I', body)) = ahead {
        let one = read_instrument(body);
        let why = || HeardError { at, why: "no instrument".to_string() };
        instruments.push(one.ok_or_else(why)?);
        ahead = reader.next();
    }
    let strategy = start(&instruments, opening.price_decimals);
    let mut strategy = strategy.map_err(|why| reader.wrong(&why))?;
    let (streams, orders_max) = (opening.streams.into(), opening.orders_max as usize);
    let seat = Seat::new(streams, orders_max, Some(opening.midnight));
    let mut seat = seat.behind(opening.history());
    let (mut replayed, mut digest) = (Replayed::default(), StreamDigest::default());
    let (mut asked, mut scratch) = (std::collections::VecDeque::new(), Vec::new());
    while let Some((at, kind, body)) = ahead {
        let wrong = |why: &str| HeardError { at, why: why.to_string() };
        if !matches!(kind, b'O' | b'C') {
            // What was asked for beyond the record.
            if let Some(now) = asked.pop_front() {
                asked.clear();
                replayed.differ(at, "nothing", &format!("{now:?}"));
            }
        }
        match kind {
            b'M' => {
                let (stream, message) = body.split_first().ok_or_else(|| wrong("no message"))?;
                seat.message(usize::from(*stream), message);
                replayed.messages += 1;
            }
            b'R' => {
                seat.report(read_report(body).ok_or_else(|| wrong("no report"))?);
                replayed.reports += 1;
            }
            b'T' if body.len() == 8 => {
                seat.tell(Nanos(u64_at(body, 0)), strategy.as_mut());
                replayed.told += 1;
                for request in seat.requests() {
                    scratch.clear();
                    self::request(&mut scratch, &request);
                    digest.push(&scratch);
                    let cancel = matches!(request, Request::Cancel { .. });
                    *if cancel { &mut replayed.cancels } else { &mut replayed.orders } += 1;
                    asked.push_back(request);
                }
            }
            b'O' | b'C' => {
                let then = read_request(kind, body).ok_or_else(|| wrong("no request"))?;
                replayed.recorded += 1;
                match asked.pop_front() {
                    Some(now) if now == then => replayed.equal += 1,
                    Some(now) => {
                        replayed.differ(at, &format!("{then:?}"), &format!("{now:?}"));
                    }
                    None => replayed.differ(at, &format!("{then:?}"), "nothing"),
                }
            }
            b'F' => replayed.failed_then = Some(String::from_utf8_lossy(body).into_owned()),
            _ => return Err(wrong("no such record")),
        }
        ahead = reader.next();
    }
    // What is heard is told at once, to whom is not stopped: a record does not end between the two.
    let stopped = strategy.failure().is_some() || replayed.failed_then.is_some();
    let untold = seat.has_news() && !stopped;
    replayed.cut = (untold || !reader.bytes.is_empty()).then_some((reader.at, reader.bytes.len()));
    if let Some(now) = asked.pop_front().filter(|_| replayed.cut.is_none()) {
        replayed.differ(reader.at, "nothing", &format!("{now:?}"));
    }
    replayed.digest = digest.value();
    replayed.failed_now = strategy.failure().map(str::to_string);
    Ok(replayed)
}

impl Replayed {
    fn differ(&mut self, at: usize, then: &str, now: &str) {
        self.first_difference.get_or_insert((at, then.to_string(), now.to_string()));
    }
}
