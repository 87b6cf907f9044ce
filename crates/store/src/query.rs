//! Asking a store, also while it is fed.
//!
//! The text of every question is put together from constant pieces; what a person typed goes in as
//! a bound parameter, always.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Row, ToSql};

use crate::error::StoreError;
use crate::feeder::Progress;
use crate::sqlite::{check_schema, int, progress};

/// Words of the column `state` of orders.
pub const ORDER_STATES: [&str; 5] = ["open", "filled", "cancelled", "replaced", "rejected"];
/// Words of the column `state` of trades.
pub const TRADE_STATES: [&str; 3] = ["made", "corrected", "broken"];

/// How long a lock of somebody else is waited for.
const BUSY: Duration = Duration::from_secs(5);

/// Which rows are asked for; what is not said matches all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Of this account: its number, login, CompID, or its firm.
    pub participant: Option<String>,
    /// On this instrument: symbol or number.
    pub instrument: Option<String>,
    /// In this state.
    pub state: Option<String>,
    /// Not before, ns since the epoch.
    pub since: Option<u64>,
    /// Before, ns since the epoch.
    pub until: Option<u64>,
    /// At most so many, the last ones; `None`: all.
    pub limit: Option<u64>,
}

/// One row of the orders, with the names of now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OrderLine {
    /// [`crate::Order::id`].
    pub id: i64,
    /// Place of its request in the log.
    pub seq: i64,
    /// First of its chain of replacements.
    pub root: i64,
    /// The order it replaced.
    pub replaces: Option<i64>,
    /// Whose: number, login and firm.
    pub account: i64,
    /// Its login.
    pub participant: String,
    /// Its firm.
    pub firm: String,
    /// The instrument's symbol.
    pub symbol: String,
    /// Decimal places of a lot.
    pub lot_decimals: u8,
    /// The order's number.
    pub user_ref: i64,
    /// The participant's own identifier.
    pub cl_ord_id: String,
    /// `buy` or `sell`.
    pub side: String,
    /// How it is priced.
    pub order_type: String,
    /// How long it lives.
    pub time_in_force: String,
    /// Price, 1/10000.
    pub price: i64,
    /// Stop price, distance or offset, 1/10000; 0: none.
    pub stop_price: i64,
    /// Lots open when it began.
    pub qty: i64,
    /// Lots traded.
    pub filled: i64,
    /// Lots cancelled.
    pub cancelled: i64,
    /// Lots open.
    pub leaves: i64,
    /// One of [`ORDER_STATES`].
    pub state: String,
    /// Why it was refused, or lots of it cancelled last.
    pub reason: Option<String>,
    /// Its public reference.
    pub order_ref: i64,
    /// The gateway it came through.
    pub gateway: i64,
    /// When that received it, ns.
    pub t_in: i64,
    /// When it began, engine time, ns.
    pub t_ns: i64,
    /// When it changed last, ns.
    pub t_last: i64,
}

/// One side of a trade.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartyLine {
    /// Its number.
    pub account: i64,
    /// Its login.
    pub participant: String,
    /// Its firm.
    pub firm: String,
    /// [`crate::Order::id`].
    pub order: Option<i64>,
    /// The order's number.
    pub user_ref: i64,
    /// The participant's own identifier.
    pub cl_ord_id: String,
}

/// One row of the trades, with the names of now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TradeLine {
    /// Its number.
    pub match_number: i64,
    /// Place of the input that made it.
    pub seq: i64,
    /// Engine time, ns.
    pub t_ns: i64,
    /// The instrument's symbol.
    pub symbol: String,
    /// The instrument's number.
    pub instrument: i64,
    /// Decimal places of a lot.
    pub lot_decimals: u8,
    /// Price as it stands, 1/10000.
    pub price: i64,
    /// Lots as they stand; 0 when broken.
    pub qty: i64,
    /// Price as traded.
    pub traded_price: i64,
    /// Lots as traded.
    pub traded_qty: i64,
    /// One of [`TRADE_STATES`].
    pub state: String,
    /// Continuous trading, or which auction.
    pub kind: String,
    /// Side that came in; none in auctions.
    pub aggressor: Option<String>,
    /// Feed position that prints it.
    pub feed_position: i64,
    /// Who bought.
    pub buy: PartyLine,
    /// Who sold.
    pub sell: PartyLine,
}

/// What an account has in an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Orders taken, replacements not counted.
    pub orders: i64,
    /// Orders open.
    pub open_orders: i64,
    /// Lots of them.
    pub open_lots: i64,
}

const ORDERS: &str = "SELECT o.id, o.seq, o.root, o.replaces, o.account, \
    coalesce(a.name, ''), coalesce(a.firm, ''), coalesce(i.symbol, ''), \
    coalesce(i.lot_decimals, 0), o.user_ref, o.cl_ord_id, o.side, o.order_type, o.time_in_force, \
    o.price, o.stop_price, o.qty, o.filled, o.cancelled, o.leaves, o.state, o.reason, \
    o.order_ref, o.gateway, o.t_in, o.t_ns, o.t_last \
    FROM orders o LEFT JOIN accounts a ON a.id = o.account \
    LEFT JOIN instruments i ON i.id = o.instrument WHERE 1 = 1";
const TRADES: &str = "SELECT o.match_number, o.seq, o.t_ns, coalesce(i.symbol, ''), \
    o.instrument, coalesce(i.lot_decimals, 0), o.price, o.qty, o.traded_price, o.traded_qty, \
    o.state, o.kind, o.aggressor, o.feed_position, o.buy_account, coalesce(b.name, ''), \
    coalesce(b.firm, ''), o.buy_order, o.buy_user_ref, o.buy_cl_ord_id, o.sell_account, \
    coalesce(s.name, ''), coalesce(s.firm, ''), o.sell_order, o.sell_user_ref, o.sell_cl_ord_id \
    FROM trades o LEFT JOIN accounts b ON b.id = o.buy_account \
    LEFT JOIN accounts s ON s.id = o.sell_account \
    LEFT JOIN instruments i ON i.id = o.instrument WHERE 1 = 1";
const ACCOUNTS: &str = "SELECT id FROM accounts WHERE name = ? OR comp_id = ? \
    OR firm = ? OR CAST(id AS TEXT) = ?";
const INSTRUMENTS: &str = "SELECT id FROM instruments WHERE symbol = ? OR CAST(id AS TEXT) = ?";
const COUNTS: &str = "SELECT account, instrument, \
    sum(replaces IS NULL), sum(state = 'open'), sum(leaves) \
    FROM orders WHERE state <> 'rejected' GROUP BY account, instrument ORDER BY 1, 2";

/// A store, open for reading only.
pub struct Query {
    pub(crate) db: Connection,
}

/// A question that is being put together.
struct Question {
    text: String,
    values: Vec<Box<dyn ToSql>>,
}

impl Question {
    fn with(&mut self, text: &str, values: impl IntoIterator<Item = Box<dyn ToSql>>) {
        self.text.push_str(text);
        self.values.extend(values);
    }
}

/// The same value several times.
fn times<T: ToSql + Clone + 'static>(count: usize, value: &T) -> Vec<Box<dyn ToSql>> {
    (0..count).map(|_| Box::new(value.clone()) as Box<dyn ToSql>).collect()
}

impl Query {
    /// Opens a store for asking; somebody else may be feeding it.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Foreign`], [`StoreError::Schema`], SQLite's.
    pub fn open(path: &Path) -> Result<Query, StoreError> {
        if !path.exists() {
            return Err(StoreError::Missing);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY)?;
        check_schema(&db)?.ok_or(StoreError::Missing)?;
        Ok(Query { db })
    }

    /// Up to where the store holds.
    ///
    /// # Errors
    /// SQLite's.
    pub fn progress(&self) -> Result<Progress, StoreError> {
        progress(&self.db)
    }

    /// From now on all answers are about this moment, however much is fed meanwhile. Up to where
    /// the store holds then. While it is open the write-ahead log grows: not for long.
    ///
    /// # Errors
    /// SQLite's.
    pub fn freeze(&self) -> Result<Progress, StoreError> {
        self.db.execute_batch("BEGIN")?;
        self.progress()
    }

    /// Midnight of the log's day, ns since the epoch.
    ///
    /// # Errors
    /// SQLite's.
    pub fn midnight(&self) -> Result<u64, StoreError> {
        let read = |row: &Row<'_>| row.get::<_, i64>(0);
        Ok(self.db.query_row("SELECT midnight FROM state", [], read)? as u64)
    }

    /// Numbers of the accounts that a participant's name means.
    ///
    /// # Errors
    /// SQLite's.
    pub fn accounts(&self, participant: &str) -> Result<Vec<i64>, StoreError> {
        self.numbers(ACCOUNTS, &times(4, &participant.to_string()))
    }

    /// Numbers of the instruments that a name means.
    ///
    /// # Errors
    /// SQLite's.
    pub fn instruments(&self, name: &str) -> Result<Vec<i64>, StoreError> {
        self.numbers(INSTRUMENTS, &times(2, &name.to_string()))
    }

    fn numbers(&self, text: &str, values: &[Box<dyn ToSql>]) -> Result<Vec<i64>, StoreError> {
        let mut select = self.db.prepare(text)?;
        let rows = select.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Rows of a table.
    ///
    /// # Errors
    /// SQLite's.
    pub fn count(&self, table: Table) -> Result<u64, StoreError> {
        let text = match table {
            Table::Orders => "SELECT count(*) FROM orders",
            Table::Trades => "SELECT count(*) FROM trades",
            Table::Cancels => "SELECT count(*) FROM cancels",
            Table::Amendments => "SELECT count(*) FROM amendments",
            Table::Refusals => "SELECT count(*) FROM refusals",
        };
        Ok(self.db.query_row(text, [], |row| row.get::<_, i64>(0))? as u64)
    }

    /// Shows `visit` the orders asked for, in the order in which they began; says how many.
    ///
    /// # Errors
    /// SQLite's.
    pub fn orders(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(OrderLine),
    ) -> Result<usize, StoreError> {
        let mut question = Question { text: ORDERS.to_string(), values: Vec::new() };
        if let Some(name) = &filter.participant {
            question.with(" AND o.account IN (", []);
            question.with(ACCOUNTS, times(4, name));
            question.with(")", []);
        }
        self.ask(question, filter, "id", |row| {
            visit(order_line(row)?);
            Ok(())
        })
    }

    /// Shows `visit` the trades asked for, by number; says how many.
    ///
    /// # Errors
    /// SQLite's.
    pub fn trades(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(TradeLine),
    ) -> Result<usize, StoreError> {
        let mut question = Question { text: TRADES.to_string(), values: Vec::new() };
        if let Some(name) = &filter.participant {
            question.with(" AND (o.buy_account IN (", []);
            question.with(ACCOUNTS, times(4, name));
            question.with(") OR o.sell_account IN (", []);
            question.with(ACCOUNTS, times(4, name));
            question.with("))", []);
        }
        self.ask(question, filter, "match_number", |row| {
            visit(trade_line(row)?);
            Ok(())
        })
    }

    /// Adds what both have in common, and asks.
    fn ask(
        &self,
        mut question: Question,
        filter: &Filter,
        key: &'static str,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<usize, StoreError> {
        if let Some(name) = &filter.instrument {
            question.with(" AND o.instrument IN (", []);
            question.with(INSTRUMENTS, times(2, name));
            question.with(")", []);
        }
        if let Some(state) = &filter.state {
            question.with(" AND o.state = ?", times(1, state));
        }
        if let Some(since) = filter.since {
            question.with(" AND o.t_ns >= ?", times(1, &int(since)));
        }
        if let Some(until) = filter.until {
            question.with(" AND o.t_ns < ?", times(1, &int(until)));
        }
        match filter.limit {
            // The last ones, in order.
            Some(limit) => {
                question.with(" ORDER BY 1 DESC LIMIT ?", times(1, &int(limit)));
                question.text = format!("SELECT * FROM ({}) ORDER BY {key}", question.text);
            }
            None => question.with(" ORDER BY 1", []),
        }
        let mut select = self.db.prepare(&question.text)?;
        let mut rows = select.query(rusqlite::params_from_iter(&question.values))?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            visit(row)?;
            count += 1;
        }
        Ok(count)
    }

    /// What each account has in each instrument, by their numbers.
    ///
    /// # Errors
    /// SQLite's.
    pub fn counts(&self) -> Result<BTreeMap<(u16, u16), Counts>, StoreError> {
        let mut select = self.db.prepare(COUNTS)?;
        let rows = select.query_map([], |row| {
            let (orders, open_orders, open_lots) = (row.get(2)?, row.get(3)?, row.get(4)?);
            Ok(((row.get(0)?, row.get(1)?), Counts { orders, open_orders, open_lots }))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A table made from the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Orders.
    Orders,
    /// Trades.
    Trades,
    /// Cancels.
    Cancels,
    /// Trades broken and corrected.
    Amendments,
    /// Refused cancels.
    Refusals,
}

fn order_line(row: &Row<'_>) -> rusqlite::Result<OrderLine> {
    Ok(OrderLine {
        id: row.get(0)?,
        seq: row.get(1)?,
        root: row.get(2)?,
        replaces: row.get(3)?,
        account: row.get(4)?,
        participant: row.get(5)?,
        firm: row.get(6)?,
        symbol: row.get(7)?,
        lot_decimals: row.get(8)?,
        user_ref: row.get(9)?,
        cl_ord_id: row.get(10)?,
        side: row.get(11)?,
        order_type: row.get(12)?,
        time_in_force: row.get(13)?,
        price: row.get(14)?,
        stop_price: row.get(15)?,
        qty: row.get(16)?,
        filled: row.get(17)?,
        cancelled: row.get(18)?,
        leaves: row.get(19)?,
        state: row.get(20)?,
        reason: row.get(21)?,
        order_ref: row.get(22)?,
        gateway: row.get(23)?,
        t_in: row.get(24)?,
        t_ns: row.get(25)?,
        t_last: row.get(26)?,
    })
}

fn trade_line(row: &Row<'_>) -> rusqlite::Result<TradeLine> {
    let party = |at: usize| -> rusqlite::Result<PartyLine> {
        Ok(PartyLine {
            account: row.get(at)?,
            participant: row.get(at + 1)?,
            firm: row.get(at + 2)?,
            order: row.get(at + 3)?,
            user_ref: row.get(at + 4)?,
            cl_ord_id: row.get(at + 5)?,
        })
    };
    Ok(TradeLine {
        match_number: row.get(0)?,
        seq: row.get(1)?,
        t_ns: row.get(2)?,
        symbol: row.get(3)?,
        instrument: row.get(4)?,
        lot_decimals: row.get(5)?,
        price: row.get(6)?,
        qty: row.get(7)?,
        traded_price: row.get(8)?,
        traded_qty: row.get(9)?,
        state: row.get(10)?,
        kind: row.get(11)?,
        aggressor: row.get(12)?,
        feed_position: row.get(13)?,
        buy: party(14)?,
        sell: party(20)?,
    })
}
