//! The store in a file of SQLite's: opening, and one batch a transaction.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Statement, Transaction, TransactionBehavior, params};
use types::{ClOrdId, Instrument, Side};

use crate::error::StoreError;
use crate::feeder::{Batch, Progress};
use crate::names;
use crate::rows::{Order, Party};
use crate::schema::{self, APPLICATION, SCHEMA};

/// How long a lock of somebody else is waited for.
const BUSY: Duration = Duration::from_secs(5);
/// Pages kept in memory, KiB.
const CACHE_KIB: i64 = 32 << 10;
/// Size that the write-ahead log is cut back to, bytes.
const WAL_BYTES: i64 = 64 << 20;

/// Which log a store is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Version of the rules.
    pub rules_version: u32,
    /// Digest of the engine's configuration.
    pub config_digest: u64,
    /// Name of the log: of its journal.
    pub log: u64,
    /// MoldUDP64 and SoupBinTCP session.
    pub session: String,
    /// Midnight that times of the wire count from, ns since the epoch.
    pub midnight: u64,
}

/// Who an account is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Its number.
    pub id: u16,
    /// Its login.
    pub name: String,
    /// Its CompID; empty: none.
    pub comp_id: String,
    /// Its firm; empty: none.
    pub firm: String,
}

/// A store, open for writing.
pub struct Store {
    db: Connection,
}

/// A whole number as SQLite has them.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A number that may be missing.
fn known(value: u64) -> Option<i64> {
    Some(int(value)).filter(|value| *value != 0)
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    }
}

/// A participant's identifier without its padding.
fn text(id: &ClOrdId) -> String {
    String::from_utf8_lossy(&id.0).trim_end_matches([' ', '\0']).to_string()
}

/// Checks whose file it is. `None`: nobody's, it is empty.
pub(crate) fn check_schema(db: &Connection) -> Result<Option<()>, StoreError> {
    let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (application, found) = (number("application_id")?, number("user_version")?);
    if application == 0 && found == 0 {
        let tables = "SELECT count(*) FROM sqlite_schema";
        let count: i64 = db.query_row(tables, [], |row| row.get(0))?;
        return if count == 0 { Ok(None) } else { Err(StoreError::Foreign) };
    }
    if application != APPLICATION {
        return Err(StoreError::Foreign);
    }
    if found != SCHEMA {
        return Err(StoreError::Schema { found });
    }
    Ok(Some(()))
}

impl Store {
    /// Opens the store in a file for feeding it with this log, or makes an empty one.
    ///
    /// # Errors
    /// [`StoreError`]: another program's file, another schema, another log, or SQLite's.
    pub fn open(
        path: &Path,
        origin: &Origin,
        accounts: &[Account],
        instruments: &[Instrument],
    ) -> Result<Store, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY)?;
        let made = check_schema(&db)?;
        // Readers don't wait for the writer. A crash of the machine may lose transactions, whole
        // ones: the log has them.
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -CACHE_KIB)?;
        db.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Somebody else may have made it meanwhile.
        if made.is_none() && check_schema(&change)?.is_none() {
            create(&change, origin)?;
        }
        check_origin(&change, origin)?;
        name(&change, accounts, instruments)?;
        change.commit()?;
        Ok(Store { db })
    }

    /// Up to where it holds.
    ///
    /// # Errors
    /// SQLite's.
    pub fn progress(&self) -> Result<Progress, StoreError> {
        progress(&self.db)
    }

    /// Writes less carefully, for a file that counts only once it is whole: a crash of the machine
    /// may destroy it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn hurry(&self) -> Result<(), StoreError> {
        Ok(self.db.pragma_update(None, "synchronous", "OFF")?)
    }

    /// Writes a batch that begins after `from` and ends at `to`: all of it or nothing.
    ///
    /// # Errors
    /// [`StoreError::Moved`] when the store is not at `from`; [`StoreError::Row`] when a row to be
    /// changed is not there; SQLite's. Nothing has changed.
    pub fn commit(
        &mut self,
        from: &Progress,
        batch: &Batch,
        to: &Progress,
    ) -> Result<(), StoreError> {
        let change = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let moved = change.execute(
            schema::UPDATE_STATE,
            params![
                int(from.applied),
                int(to.applied),
                int(to.t_last),
                int(to.reports),
                to.reports_digest as i64,
                int(to.feed_next),
                int(to.strangers),
            ],
        )?;
        if moved != 1 {
            return Err(StoreError::Moved(from.applied));
        }
        put_orders(&change, batch)?;
        put_trades(&change, batch)?;
        put_changes(&change, batch)?;
        Ok(change.commit()?)
    }

    /// Moves everything into the file itself and closes it: nothing else belongs to it then.
    ///
    /// # Errors
    /// SQLite's.
    pub fn close(self) -> Result<(), StoreError> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.db.query_row(checkpoint, [], |_| Ok(()))?;
        self.db.close().map_err(|(_, error)| StoreError::Sqlite(error))
    }
}

fn create(change: &Transaction<'_>, origin: &Origin) -> Result<(), StoreError> {
    change.execute_batch(schema::CREATE)?;
    change.pragma_update(None, "application_id", APPLICATION)?;
    change.pragma_update(None, "user_version", SCHEMA)?;
    let (config, log) = words(origin);
    change.execute(
        schema::INSERT_STATE,
        params![origin.rules_version, config, log, origin.session, int(origin.midnight)],
    )?;
    Ok(())
}

fn words(origin: &Origin) -> (String, String) {
    (format!("{:016x}", origin.config_digest), format!("{:016x}", origin.log))
}

fn check_origin(db: &Connection, origin: &Origin) -> Result<(), StoreError> {
    type Found = (u32, String, String, String, i64);
    let found: Found = db.query_row(schema::SELECT_ORIGIN, [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    let (config, log) = words(origin);
    let differs = [
        (found.0 != origin.rules_version, "rules version"),
        (found.1 != config, "configuration"),
        (found.2 != log, "name"),
        (found.3 != origin.session, "session"),
        (found.4 != int(origin.midnight), "day"),
    ];
    match differs.into_iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(StoreError::Origin(what)),
        None => Ok(()),
    }
}

/// Names are the configuration's, not the log's: those of now.
fn name(
    change: &Transaction<'_>,
    accounts: &[Account],
    instruments: &[Instrument],
) -> Result<(), StoreError> {
    let mut put = change.prepare(schema::PUT_ACCOUNT)?;
    for account in accounts {
        put.execute(params![account.id, account.name, account.comp_id, account.firm])?;
    }
    let mut put = change.prepare(schema::PUT_INSTRUMENT)?;
    for one in instruments {
        put.execute(params![one.id.0, one.symbol.to_string(), one.tick.0, one.lot_decimals])?;
    }
    Ok(())
}

pub(crate) fn progress(db: &Connection) -> Result<Progress, StoreError> {
    Ok(db.query_row(schema::SELECT_PROGRESS, [], |row| {
        let word = |at: usize| row.get::<_, i64>(at).map(|value| value as u64);
        Ok(Progress {
            applied: word(0)?,
            t_last: word(1)?,
            reports: word(2)?,
            reports_digest: word(3)?,
            feed_next: word(4)?,
            strangers: word(5)?,
        })
    })?)
}

/// One row changed, as it must.
fn one(table: &'static str, changed: rusqlite::Result<usize>) -> Result<(), StoreError> {
    if changed? == 1 { Ok(()) } else { Err(StoreError::Row(table)) }
}

fn put_orders(change: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
    let mut insert = change.prepare(schema::INSERT_ORDER)?;
    let mut update = change.prepare(schema::UPDATE_ORDER)?;
    for order in &batch.orders {
        if order.stored {
            let written = update.execute(params![
                int(order.id),
                order.price.0,
                int(order.filled),
                int(order.cancelled),
                int(order.leaves.0),
                order.state.name(),
                reason(order),
                int(order.t_last.0),
            ]);
            one("orders", written)?;
        } else {
            one("orders", insert_order(&mut insert, order))?;
        }
    }
    Ok(())
}

/// Why it was refused, or why lots of it were cancelled last.
fn reason(order: &Order) -> Option<&'static str> {
    if order.reject != types::RejectReason::None {
        return Some(names::reject_reason(order.reject));
    }
    let cancelled = order.cancel != types::CancelReason::None;
    cancelled.then(|| names::cancel_reason(order.cancel))
}

fn insert_order(insert: &mut Statement<'_>, order: &Order) -> rusqlite::Result<usize> {
    let terms = &order.terms;
    insert.execute(params![
        int(order.id),
        int(order.seq),
        int(order.root),
        known(order.replaces),
        order.account.0,
        order.instrument.0,
        order.user_ref.0,
        text(&order.cl_ord_id),
        side(order.side),
        names::order_type(terms.order_type),
        names::time_in_force(terms.time_in_force),
        terms.flags,
        order.price.0,
        terms.stop_price.0,
        terms.display_qty,
        terms.min_qty,
        int(terms.expire_at.0),
        int(order.qty.0),
        int(order.filled),
        int(order.cancelled),
        int(order.leaves.0),
        order.state.name(),
        reason(order),
        int(order.order_ref.0),
        order.gateway,
        int(order.t_in.0),
        int(order.t_seq.0),
        int(order.t_last.0),
    ])
}

fn put_trades(change: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
    let mut insert = change.prepare(schema::INSERT_TRADE)?;
    for trade in &batch.trades {
        let party = |party: &Party| (known(party.order), text(&party.cl_ord_id));
        let ((buy, buy_id), (sell, sell_id)) = (party(&trade.buy), party(&trade.sell));
        insert.execute(params![
            int(trade.match_number.0),
            int(trade.seq),
            int(trade.t_seq.0),
            trade.instrument.0,
            trade.price.0,
            int(trade.qty.0),
            names::trade_kind(trade.liquidity),
            trade.aggressor.map(side),
            int(trade.public_after),
            trade.buy.account.0,
            buy,
            trade.buy.user_ref.0,
            buy_id,
            trade.sell.account.0,
            sell,
            trade.sell.user_ref.0,
            sell_id,
        ])?;
    }
    Ok(())
}

fn put_changes(change: &Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
    let mut insert = change.prepare(schema::INSERT_CANCEL)?;
    for cancel in &batch.cancels {
        insert.execute(params![
            int(cancel.id),
            int(cancel.seq),
            known(cancel.order),
            cancel.account.0,
            cancel.instrument.0,
            cancel.user_ref.0,
            text(&cancel.cl_ord_id),
            int(cancel.qty.0),
            int(cancel.leaves.0),
            names::cancel_reason(cancel.reason),
            int(cancel.t_seq.0),
        ])?;
    }
    let mut insert = change.prepare(schema::INSERT_AMENDMENT)?;
    let mut update = change.prepare(schema::UPDATE_TRADE)?;
    for amendment in &batch.amendments {
        let (number, price) = (int(amendment.match_number.0), amendment.price.0);
        let (kind, qty) = (if amendment.broken { "broken" } else { "corrected" }, amendment.qty.0);
        let (id, seq, at) = (int(amendment.id), int(amendment.seq), int(amendment.t_seq.0));
        let operator = text(&amendment.operator);
        let row = params![id, seq, number, kind, price, int(qty), operator, at];
        one("trades", insert.execute(row))?;
        one("trades", update.execute(params![number, kind, price, int(qty)]))?;
    }
    let mut insert = change.prepare(schema::INSERT_REFUSAL)?;
    for refusal in &batch.refusals {
        insert.execute(params![
            int(refusal.id),
            int(refusal.seq),
            refusal.account.0,
            refusal.instrument.0,
            refusal.user_ref.0,
            text(&refusal.cl_ord_id),
            if refusal.mass { "mass-cancel" } else { "cancel" },
            names::reject_reason(refusal.reason),
            int(refusal.t_seq.0),
        ])?;
    }
    Ok(())
}
