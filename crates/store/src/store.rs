//! A store that is open for writing: it checks whose log it holds and writes one batch per
//! transaction.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use types::{ClOrdId, Instrument, Side};

use crate::db::{Columns, Db, Value};
use crate::error::StoreError;
use crate::feeder::{Batch, Progress};
use crate::names;
use crate::place::Place;
use crate::rows::{Order, Party, Trade};
use crate::schema::{self, SCHEMA};

/// Identity of the log that a store is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Version of the matching rules.
    pub rules_version: u32,
    /// Digest of the engine's configuration.
    pub config_digest: u64,
    /// Name of the log's journal.
    pub log: u64,
    /// Session name that the log's MoldUDP64 and SoupBinTCP streams have.
    pub session: String,
    /// Midnight that times of the wire count from, ns since the epoch.
    pub midnight: u64,
}

/// The names of an account, for queries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Number of the account, from 1.
    pub id: u16,
    /// Login of the account.
    pub name: String,
    /// CompID of the account; empty: none.
    pub comp_id: String,
    /// Firm of the account; empty: none.
    pub firm: String,
}

/// A store that is open for writing.
pub struct Store {
    db: Db,
    /// The file, and its device and number.
    file: Option<(PathBuf, (u64, u64))>,
}

/// Device and number of the file with this name.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// A number as the signed 64 bits of a database column.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A number as a column; `None` for 0, which stands for unknown.
fn known(value: u64) -> Option<i64> {
    Some(int(value)).filter(|value| *value != 0)
}

fn side(side: Side) -> &'static str {
    match side {
        Side::Buy => "buy",
        Side::Sell => "sell",
    }
}

/// A participant's identifier, without its padding.
fn text(id: &ClOrdId) -> String {
    String::from_utf8_lossy(&id.0).trim_end_matches([' ', '\0']).to_string()
}

/// Checks that the tables are this program's and of this schema; `None`: there are no tables.
pub(crate) fn check_schema(db: &Db) -> Result<Option<()>, StoreError> {
    match db.version()? {
        None => Ok(None),
        Some(SCHEMA) => Ok(Some(())),
        Some(found) => Err(StoreError::Schema { found }),
    }
}

impl Store {
    /// Opens the store in a place for feeding it with this log, or makes an empty one.
    ///
    /// # Errors
    /// [`StoreError`]: another program's tables, another schema, another log, or the database's.
    pub fn open(
        place: impl Into<Place>,
        origin: &Origin,
        accounts: &[Account],
        instruments: &[Instrument],
    ) -> Result<Store, StoreError> {
        let place = place.into();
        let db = Db::writing(&place)?;
        let file = place.file().and_then(|path| Some((path.to_path_buf(), file_id(path)?)));
        check_schema(&db)?;
        db.change(|db| {
            // Somebody else may have made it meanwhile.
            if check_schema(db)?.is_none() {
                create(db, origin)?;
            }
            check_origin(db, origin)?;
            name(db, accounts, instruments)
        })?;
        Ok(Store { db, file })
    }

    /// Whether the file that it writes to has gone from its place, or another one is there: what is written now
    /// nobody finds.
    pub fn is_replaced(&self) -> bool {
        self.file.as_ref().is_some_and(|(path, id)| file_id(path) != Some(*id))
    }

    /// Becomes the only one who feeds it, until it is closed or this process ends; false when somebody else
    /// is. Of a file anybody may feed it: whoever comes second is told by [`Store::commit`].
    ///
    /// # Errors
    /// The database's.
    pub fn claim(&self) -> Result<bool, StoreError> {
        self.db.claim()
    }

    /// Up to where it holds.
    ///
    /// # Errors
    /// The database's.
    pub fn progress(&self) -> Result<Progress, StoreError> {
        progress(&self.db)
    }

    /// Writes less carefully, for what counts only once it is whole: a crash of the machine
    /// may destroy it.
    ///
    /// # Errors
    /// The database's.
    pub fn hurry(&self) -> Result<(), StoreError> {
        self.db.hurry()
    }

    /// Writes a batch that begins after `from` and ends at `to`: all of it or nothing.
    ///
    /// # Errors
    /// [`StoreError::Moved`] when the store is not at `from`; [`StoreError::Row`] when a row to be
    /// changed is not there; the database's. Nothing has changed.
    pub fn commit(
        &mut self,
        from: &Progress,
        batch: &Batch,
        to: &Progress,
    ) -> Result<(), StoreError> {
        self.db.change(|db| {
            let place = [
                int(from.applied).into(),
                int(to.applied).into(),
                int(to.t_last).into(),
                int(to.reports).into(),
                (to.reports_digest as i64).into(),
                int(to.feed_next).into(),
                int(to.strangers).into(),
            ];
            if db.execute(schema::UPDATE_STATE, &place)? != 1 {
                return Err(StoreError::Moved(from.applied));
            }
            put_orders(db, batch)?;
            let trades: Vec<_> = batch.trades.iter().map(trade_row).collect();
            all("trades", trades.len(), db.put(&schema::insert("trades"), &trades))?;
            put_changes(db, batch)
        })
    }

    /// Closes it, with everything in the place itself: nothing else belongs to it then.
    ///
    /// # Errors
    /// The database's.
    pub fn close(self) -> Result<(), StoreError> {
        self.db.close()
    }
}

fn create(db: &Db, origin: &Origin) -> Result<(), StoreError> {
    db.create()?;
    let (config, log) = words(origin);
    let state = [
        Value::Int(origin.rules_version.into()),
        config.into(),
        log.into(),
        origin.session.clone().into(),
        int(origin.midnight).into(),
    ];
    db.execute(schema::INSERT_STATE, &state).map(drop)
}

fn words(origin: &Origin) -> (String, String) {
    (format!("{:016x}", origin.config_digest), format!("{:016x}", origin.log))
}

fn check_origin(db: &Db, origin: &Origin) -> Result<(), StoreError> {
    let found = db.row(schema::SELECT_ORIGIN, |row| {
        Ok((row.small::<u32>()?, row.text()?, row.text()?, row.text()?, row.int()?))
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

/// Writes the names of accounts and instruments, which are those of the configuration at present.
fn name(db: &Db, accounts: &[Account], instruments: &[Instrument]) -> Result<(), StoreError> {
    for account in accounts {
        let Account { id, name, comp_id, firm } = account;
        let text = |text: &String| Value::from(text.as_str());
        let row = [Value::Int((*id).into()), text(name), text(comp_id), text(firm)];
        db.execute(schema::PUT_ACCOUNT, &row)?;
    }
    for one in instruments {
        let symbol = one.symbol.to_string();
        let (id, decimals) = (i64::from(one.id.0), i64::from(one.lot_decimals));
        let row = [id.into(), symbol.into(), one.tick.0.into(), decimals.into()];
        db.execute(schema::PUT_INSTRUMENT, &row)?;
    }
    Ok(())
}

pub(crate) fn progress(db: &Db) -> Result<Progress, StoreError> {
    let word = |row: &mut Columns<'_>| row.int().map(|value| value as u64);
    db.row(schema::SELECT_PROGRESS, |row| {
        Ok(Progress {
            applied: word(row)?,
            t_last: word(row)?,
            reports: word(row)?,
            reports_digest: word(row)?,
            feed_next: word(row)?,
            strangers: word(row)?,
        })
    })
}

/// Executes a statement for all rows, and checks that it changed each of them.
fn all(
    table: &'static str,
    due: usize,
    changed: Result<u64, StoreError>,
) -> Result<(), StoreError> {
    if changed? == due as u64 { Ok(()) } else { Err(StoreError::Row(table)) }
}

fn put_orders(db: &Db, batch: &Batch) -> Result<(), StoreError> {
    let of = |stored: bool| batch.orders.iter().filter(move |order| order.stored == stored);
    let new: Vec<_> = of(false).map(order_row).collect();
    all("orders", new.len(), db.put(&schema::insert("orders"), &new))?;
    let changed: Vec<_> = of(true).map(order_changes).collect();
    let update = schema::update("orders", "id", &schema::ORDER_CHANGES);
    all("orders", changed.len(), db.put(&update, &changed))
}

/// Why the order was refused, or why lots of it were cancelled last.
fn reason(order: &Order) -> Option<&'static str> {
    if order.reject != types::RejectReason::None {
        return Some(names::reject_reason(order.reject));
    }
    let cancelled = order.cancel != types::CancelReason::None;
    cancelled.then(|| names::cancel_reason(order.cancel))
}

/// The key of an order, then the values of the columns [`schema::ORDER_CHANGES`].
fn order_changes(order: &Order) -> Vec<Value> {
    vec![
        int(order.id).into(),
        order.price.0.into(),
        int(order.filled).into(),
        int(order.cancelled).into(),
        int(order.leaves.0).into(),
        Value::word(order.state.name()),
        reason(order).map_or(Value::Null, Value::word),
        int(order.t_last.0).into(),
    ]
}

/// A small number as a database value.
fn small(value: impl Into<i64>) -> Value {
    Value::Int(value.into())
}

fn order_row(order: &Order) -> Vec<Value> {
    let terms = &order.terms;
    vec![
        int(order.id).into(),
        int(order.seq).into(),
        int(order.root).into(),
        known(order.replaces).into(),
        small(order.account.0),
        small(order.instrument.0),
        small(order.user_ref.0),
        text(&order.cl_ord_id).into(),
        Value::word(side(order.side)),
        Value::word(names::order_type(terms.order_type)),
        Value::word(names::time_in_force(terms.time_in_force)),
        small(terms.flags),
        order.price.0.into(),
        terms.stop_price.0.into(),
        small(terms.display_qty),
        small(terms.min_qty),
        int(terms.expire_at.0).into(),
        int(order.qty.0).into(),
        int(order.filled).into(),
        int(order.cancelled).into(),
        int(order.leaves.0).into(),
        Value::word(order.state.name()),
        reason(order).map_or(Value::Null, Value::word),
        int(order.order_ref.0).into(),
        small(order.gateway),
        int(order.t_in.0).into(),
        int(order.t_seq.0).into(),
        int(order.t_last.0).into(),
        small(order.day),
    ]
}

fn trade_row(trade: &Trade) -> Vec<Value> {
    let (price, qty) = (trade.price.0, int(trade.qty.0));
    let mut row: Vec<Value> = vec![
        int(trade.match_number.0).into(),
        int(trade.seq).into(),
        int(trade.t_seq.0).into(),
        small(trade.instrument.0),
        // As it stands, and as it was made.
        price.into(),
        qty.into(),
        price.into(),
        qty.into(),
        Value::word("made"),
        Value::word(names::trade_kind(trade.liquidity)),
        trade.aggressor.map(side).map_or(Value::Null, Value::word),
        int(trade.public_after).into(),
    ];
    for Party { account, order, user_ref, cl_ord_id } in [&trade.buy, &trade.sell] {
        row.extend([
            small(account.0),
            known(*order).into(),
            small(user_ref.0),
            text(cl_ord_id).into(),
        ]);
    }
    row.push(small(trade.day));
    row
}

fn put_changes(db: &Db, batch: &Batch) -> Result<(), StoreError> {
    let cancel = |cancel: &crate::rows::Cancel| -> Vec<Value> {
        vec![
            int(cancel.id).into(),
            int(cancel.seq).into(),
            known(cancel.order).into(),
            small(cancel.account.0),
            small(cancel.instrument.0),
            small(cancel.user_ref.0),
            text(&cancel.cl_ord_id).into(),
            int(cancel.qty.0).into(),
            int(cancel.leaves.0).into(),
            Value::word(names::cancel_reason(cancel.reason)),
            int(cancel.t_seq.0).into(),
        ]
    };
    let cancels: Vec<_> = batch.cancels.iter().map(cancel).collect();
    all("cancels", cancels.len(), db.put(&schema::insert("cancels"), &cancels))?;
    // A trade may be amended again: one after the other.
    for amendment in &batch.amendments {
        let (number, price) = (int(amendment.match_number.0), amendment.price.0);
        let (kind, qty) = (if amendment.broken { "broken" } else { "corrected" }, amendment.qty.0);
        let (id, seq, at) = (int(amendment.id), int(amendment.seq), int(amendment.t_seq.0));
        let operator = text(&amendment.operator);
        let row: [Value; 8] = [
            id.into(),
            seq.into(),
            number.into(),
            Value::word(kind),
            price.into(),
            int(qty).into(),
            operator.into(),
            at.into(),
        ];
        all("trades", 1, db.execute(schema::INSERT_AMENDMENT, &row))?;
        let row = [number.into(), Value::word(kind), price.into(), int(qty).into()];
        all("trades", 1, db.execute(schema::UPDATE_TRADE, &row))?;
    }
    let refusal = |refusal: &crate::rows::Refusal| -> Vec<Value> {
        vec![
            int(refusal.id).into(),
            int(refusal.seq).into(),
            small(refusal.account.0),
            small(refusal.instrument.0),
            small(refusal.user_ref.0),
            text(&refusal.cl_ord_id).into(),
            Value::word(if refusal.mass { "mass-cancel" } else { "cancel" }),
            Value::word(names::reject_reason(refusal.reason)),
            int(refusal.t_seq.0).into(),
        ]
    };
    let refusals: Vec<_> = batch.refusals.iter().map(refusal).collect();
    all("refusals", refusals.len(), db.put(&schema::insert("refusals"), &refusals))
}
