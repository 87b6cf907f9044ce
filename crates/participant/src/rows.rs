//! The two CSV files of the sample, row by row, with every column checked.

use std::io;

use csv::{ReaderBuilder, StringRecord};
use types::{Price, Qty, Side};

use crate::{
    decimal::DecimalError,
    sample::{SampleError, lots, price},
    venue::{Trade, VenueTrades},
};

/// Most rows a file may have.
pub const ROWS_MAX: usize = 4_000_000;
/// Most bytes of unpacked text that are read: a compressed file must not fill the memory.
const TEXT_MAX: u64 = 1 << 30;

/// Kind of a row of `orders.csv.gz`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The order appeared.
    Created,
    /// The quantity of the order changed (a fill).
    Changed,
    /// The order was removed.
    Deleted,
}

/// One row of `orders.csv.gz`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The venue's order id.
    pub id: u64,
    /// Time by the recorder's clock, ms.
    pub local_ms: u64,
    /// Time by the venue's clock, ms.
    pub exchange_ms: u64,
    /// Limit price.
    pub price: Price,
    /// Open quantity, lots of 1e-8.
    pub lots: u64,
    /// Kind of the row.
    pub kind: Kind,
    /// The order's side.
    pub side: Side,
}

/// Reads `id,timestamp,exchange_timestamp,price,volume,action,direction`.
pub(crate) fn read_orders(source: impl io::Read) -> Result<Vec<Row>, SampleError> {
    let mut reader = ReaderBuilder::new().from_reader(source.take(TEXT_MAX));
    let mut record = StringRecord::new();
    let mut rows = Vec::new();
    while reader.read_record(&mut record)? {
        let row = rows.len();
        if row >= ROWS_MAX {
            return Err(SampleError::TooLong);
        }
        rows.push(Row {
            id: whole(&record, 0, row, "id")?,
            local_ms: whole(&record, 1, row, "timestamp")?,
            exchange_ms: whole(&record, 2, row, "exchange_timestamp")?,
            price: number(&record, 3, row, "price", price)?,
            lots: number(&record, 4, row, "volume", lots)?,
            kind: match record.get(5) {
                Some("created") => Kind::Created,
                Some("changed") => Kind::Changed,
                Some("deleted") => Kind::Deleted,
                _ => return Err(SampleError::Row { row, column: "action", reason: None }),
            },
            side: match record.get(6) {
                Some("bid") => Side::Buy,
                Some("ask") => Side::Sell,
                _ => return Err(SampleError::Row { row, column: "direction", reason: None }),
            },
        });
    }
    Ok(rows)
}

/// Reads `trade_id,timestamp,exchange_timestamp,price,amount,buy_order_id,sell_order_id,side`.
pub(crate) fn read_trades(source: impl io::Read) -> Result<VenueTrades, SampleError> {
    let mut reader = ReaderBuilder::new().from_reader(source.take(TEXT_MAX));
    let mut record = StringRecord::new();
    let mut venue = VenueTrades::default();
    let mut row = 0;
    while reader.read_record(&mut record)? {
        if row >= ROWS_MAX {
            return Err(SampleError::TooLong);
        }
        venue.push(Trade {
            price: number(&record, 3, row, "price", price)?,
            qty: Qty(number(&record, 4, row, "amount", lots)?),
            buy: whole(&record, 5, row, "buy_order_id")?,
            sell: whole(&record, 6, row, "sell_order_id")?,
        });
        row += 1;
    }
    Ok(venue)
}

fn whole(
    record: &StringRecord,
    index: usize,
    row: usize,
    column: &'static str,
) -> Result<u64, SampleError> {
    let text = record.get(index).unwrap_or("");
    text.parse().map_err(|_| SampleError::Row { row, column, reason: None })
}

fn number<T>(
    record: &StringRecord,
    index: usize,
    row: usize,
    column: &'static str,
    parse: impl Fn(&str) -> Result<T, DecimalError>,
) -> Result<T, SampleError> {
    parse(record.get(index).unwrap_or("")).map_err(|reason| SampleError::Row {
        row,
        column,
        reason: Some(reason),
    })
}
