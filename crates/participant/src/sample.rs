//! The recorded venue sample: `orders.csv.gz` and `trades.csv` to order flow.
//!
//! The venue's file holds reports, not requests; this module turns it back into what participants
//! asked for (decisions.md, "Real data"). Every row is either sent or counted with its reason:
//! - a created row is a limit order, good till cancelled; *post-only* when its own delete carries
//!   the same exchange time and volume (the venue refused it because it would have traded);
//! - a deleted row with volume is a cancel; changed rows and deletes with volume 0 report fills;
//! - created at 999999999 with volume 0 is a market buy for what `trades.csv` says it traded, and
//!   created asks at price 0 are market sells for their volume;
//! - bids at price 0 and two stale snapshot rows are dropped; quantities over 32 bits cannot be
//!   said in OUCH and are not sent, nor are the cancels of anything not sent;
//! - the synthetic deletes that close the file are not played.
//!
//! File order is exchange order; timestamps are never used to sort.

use std::{fs::File, io, path::Path};

use flate2::read::GzDecoder;
use types::{InstrumentId, OrderType, Price, Qty, Side, TimeInForce, limits};

use crate::{
    decimal::{DecimalError, parse_scaled},
    flow::{Action, FlowMessage, PARTICIPANTS, participant_of},
    rows::{Kind, Row, read_orders, read_trades},
    special::Special,
    venue::VenueTrades,
};

/// Rows (counted from 0) of the sample's snapshot that the venue's own trades prove stale.
pub const STALE_SNAPSHOT_ROWS: [usize; 2] = [2_786, 2_813];
/// The venue's way to write "any price" for a market buy.
const MARKET_BUY_PRICE: i64 = 999_999_999 * Price::ONE;

/// Why a sample could not be loaded.
#[derive(Debug)]
pub enum SampleError {
    /// A file could not be read.
    Io(io::Error),
    /// A file is not CSV, or a row has other columns than expected.
    Csv(csv::Error),
    /// A column of a row (counted from 0, header excluded) has no usable value.
    Row {
        /// Number of the row.
        row: usize,
        /// Name of the column.
        column: &'static str,
        /// Error, when the column is a number.
        reason: Option<DecimalError>,
    },
    /// More than four million rows.
    TooLong,
}

impl std::fmt::Display for SampleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SampleError::Io(error) => write!(f, "sample: {error}"),
            SampleError::Csv(error) => write!(f, "sample: {error}"),
            SampleError::Row { row, column, reason: Some(reason) } => {
                write!(f, "sample row {row}, {column}: {reason}")
            }
            SampleError::Row { row, column, reason: None } => {
                write!(f, "sample row {row}, {column}: not a known value")
            }
            SampleError::TooLong => f.write_str("sample: too many rows"),
        }
    }
}

impl std::error::Error for SampleError {}

impl From<io::Error> for SampleError {
    fn from(error: io::Error) -> Self {
        SampleError::Io(error)
    }
}

impl From<csv::Error> for SampleError {
    fn from(error: csv::Error) -> Self {
        SampleError::Csv(error)
    }
}

/// What became of every row. `opening + live + ` all reasons not to send `= rows`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SampleCounts {
    /// Number of rows of `orders.csv.gz`.
    pub rows: u64,
    /// Rows of the leading snapshot.
    pub snapshot_rows: u64,
    /// Rows of the closing synthetic deletes, which are not played.
    pub end_rows: u64,
    /// Messages that load the opening book.
    pub opening: u64,
    /// Messages of the timed part.
    pub live: u64,
    /// New orders among `live`.
    pub live_orders: u64,
    /// Cancels among `live`.
    pub live_cancels: u64,
    /// Post-only orders among `live_orders`.
    pub post_only: u64,
    /// Among `live_orders`: market buys (written as price 999999999, volume 0).
    pub market_buys: u64,
    /// Among `live_orders`: market sells (written as asks at price 0).
    pub market_sells: u64,
    /// Sent although their limit price exceeds a 32-bit Price(4): the exchange refuses them.
    pub price_above_max: u64,
    /// Not sent: changed rows and deletes with volume 0, which report fills.
    pub fills_reported: u64,
    /// Deletes of ids that were never created; not sent.
    pub unknown_deletes: u64,
    /// Not sent: deletes of orders that were not sent for one of the reasons below.
    pub unsent_deletes: u64,
    /// Bids at price 0; not sent.
    pub price_zero_bids: u64,
    /// Snapshot rows in [`STALE_SNAPSHOT_ROWS`]; not sent.
    pub stale_rows: u64,
    /// Rows with a quantity over 32 bits, which OUCH can't express; not sent.
    pub quantity_too_large: u64,
    /// Not sent: volume 0 without a trade that would give the quantity.
    pub no_quantity: u64,
}

impl SampleCounts {
    /// Rows that were not turned into a message, whatever the reason.
    pub fn not_sent(&self) -> u64 {
        self.end_rows
            + self.fills_reported
            + self.unknown_deletes
            + self.unsent_deletes
            + self.price_zero_bids
            + self.stale_rows
            + self.quantity_too_large
            + self.no_quantity
    }
}

/// A loaded sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Orders of the snapshot, in file order.
    pub opening: Vec<FlowMessage>,
    /// The timed part, in file order.
    pub live: Vec<FlowMessage>,
    /// Counts of rows by how they are used.
    pub counts: SampleCounts,
    /// The venue's own trades.
    pub venue: VenueTrades,
}

/// Loads `orders.csv.gz` and `trades.csv` of `folder` as flow on `instrument`, spread over
/// [`PARTICIPANTS`] participants.
///
/// # Errors
/// See [`SampleError`].
pub fn load(folder: &Path, instrument: InstrumentId) -> Result<Sample, SampleError> {
    let orders = GzDecoder::new(io::BufReader::new(File::open(folder.join("orders.csv.gz"))?));
    let trades = io::BufReader::new(File::open(folder.join("trades.csv"))?);
    read(orders, trades, instrument)
}

/// As [`load`], from the unpacked text of both files.
///
/// # Errors
/// See [`SampleError`].
pub fn read(
    orders: impl io::Read,
    trades: impl io::Read,
    instrument: InstrumentId,
) -> Result<Sample, SampleError> {
    let venue = read_trades(trades)?;
    let rows = read_orders(orders)?;
    Ok(Mapper::new(&rows, venue, instrument).run(&rows))
}

/// State of an id while rows are mapped.
#[derive(Clone, Copy)]
struct Known {
    created: bool,
    sent: bool,
    /// Exchange time and quantity of its delete, found by looking ahead.
    deleted: Option<(u64, u64)>,
}

struct Mapper {
    known: std::collections::BTreeMap<u64, Known>,
    snapshot_end: usize,
    play_end: usize,
    sample: Sample,
    instrument: InstrumentId,
}

impl Mapper {
    fn new(rows: &[Row], venue: VenueTrades, instrument: InstrumentId) -> Mapper {
        let first = rows.first().map_or(0, |row| row.exchange_ms);
        let snapshot_end = rows
            .iter()
            .position(|row| row.kind != Kind::Created || row.exchange_ms != first)
            .unwrap_or(rows.len());
        // The recorder's own closing deletes carry its clock in both columns.
        let last = rows.last().map_or(0, |row| row.exchange_ms);
        let synthetic = |row: &&Row| {
            row.kind == Kind::Deleted && row.exchange_ms == last && row.local_ms == last
        };
        let play_end = rows.len() - rows.iter().rev().take_while(synthetic).count();
        let mut known = std::collections::BTreeMap::new();
        for row in rows.get(..play_end).unwrap_or(rows) {
            if row.kind == Kind::Deleted {
                let deleted = Some((row.exchange_ms, row.lots));
                known.entry(row.id).or_insert(Known { created: false, sent: false, deleted });
            }
        }
        let counts = SampleCounts {
            rows: rows.len() as u64,
            snapshot_rows: snapshot_end as u64,
            end_rows: (rows.len() - play_end) as u64,
            ..SampleCounts::default()
        };
        let sample = Sample { opening: Vec::new(), live: Vec::new(), counts, venue };
        Mapper { known, snapshot_end, play_end, sample, instrument }
    }

    fn run(mut self, rows: &[Row]) -> Sample {
        for (index, row) in rows.iter().enumerate().take(self.play_end) {
            let action = match row.kind {
                Kind::Created => self.created(index, row),
                Kind::Changed => self.not_sent(|counts| &mut counts.fills_reported),
                Kind::Deleted if row.lots == 0 => {
                    self.not_sent(|counts| &mut counts.fills_reported)
                }
                Kind::Deleted => self.deleted(row),
            };
            let Some(action) = action else { continue };
            let participant = participant_of(row.id, PARTICIPANTS);
            let instrument = self.instrument;
            let special = Special::None;
            let message = FlowMessage { id: row.id, participant, instrument, action, special };
            if index < self.snapshot_end {
                self.sample.opening.push(message);
            } else {
                self.sample.live.push(message);
            }
        }
        let counts = &mut self.sample.counts;
        counts.opening = self.sample.opening.len() as u64;
        counts.live = self.sample.live.len() as u64;
        self.sample
    }

    fn not_sent(&mut self, reason: impl Fn(&mut SampleCounts) -> &mut u64) -> Option<Action> {
        *reason(&mut self.sample.counts) += 1;
        None
    }

    fn created(&mut self, index: usize, row: &Row) -> Option<Action> {
        let fresh = Known { created: true, sent: false, deleted: None };
        let known = self.known.entry(row.id).or_insert(fresh);
        known.created = true;
        let deleted = known.deleted;
        if index < self.snapshot_end && STALE_SNAPSHOT_ROWS.contains(&index) {
            return self.not_sent(|counts| &mut counts.stale_rows);
        }
        let price_zero = row.price.0 == 0;
        if price_zero && row.side == Side::Buy {
            return self.not_sent(|counts| &mut counts.price_zero_bids);
        }
        let market_buy = row.price.0 == MARKET_BUY_PRICE && row.lots == 0;
        let market = price_zero || market_buy;
        let lots = if market_buy { self.sample.venue.traded(row.id).0 } else { row.lots };
        if lots == 0 {
            return self.not_sent(|counts| &mut counts.no_quantity);
        }
        if lots > limits::QTY_MAX {
            return self.not_sent(|counts| &mut counts.quantity_too_large);
        }
        let post_only = !market && deleted == Some((row.exchange_ms, row.lots));
        let counts = &mut self.sample.counts;
        counts.live_orders += u64::from(index >= self.snapshot_end);
        counts.post_only += u64::from(post_only);
        counts.market_buys += u64::from(market_buy);
        counts.market_sells += u64::from(price_zero);
        counts.price_above_max += u64::from(!market && row.price.0 > limits::PRICE_MAX);
        if let Some(known) = self.known.get_mut(&row.id) {
            known.sent = true;
        }
        Some(Action::New {
            side: row.side,
            qty: Qty(lots),
            price: if market { Price(0) } else { row.price },
            order_type: if market { OrderType::Market } else { OrderType::Limit },
            post_only,
            time_in_force: if market {
                TimeInForce::ImmediateOrCancel
            } else {
                TimeInForce::GoodTillCancelled
            },
        })
    }

    fn deleted(&mut self, row: &Row) -> Option<Action> {
        match self.known.get(&row.id) {
            Some(Known { sent: true, .. }) => {
                self.sample.counts.live_cancels += 1;
                Some(Action::Cancel)
            }
            Some(Known { created: true, .. }) => self.not_sent(|counts| &mut counts.unsent_deletes),
            _ => self.not_sent(|counts| &mut counts.unknown_deletes),
        }
    }
}

/// A price column in [`Price`] units.
pub(crate) fn price(text: &str) -> Result<Price, DecimalError> {
    let scaled = parse_scaled(text, 4)?;
    i64::try_from(scaled).map(Price).map_err(|_| DecimalError::Overflow)
}

/// A volume column in lots of 1e-8.
pub(crate) fn lots(text: &str) -> Result<u64, DecimalError> {
    parse_scaled(text, 8)
}
