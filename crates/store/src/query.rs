//! Asking a store, also while it is fed.
//!
//! The text of every question is put together from constant pieces; what a person typed goes in as
//! a bound parameter, always.

use std::collections::BTreeMap;

use crate::db::{Columns, Db, Intent, Value};
use crate::error::StoreError;
use crate::feeder::Progress;
use crate::place::Place;
use crate::store::{check_schema, int, progress};

/// Words of the column `state` of orders.
pub const ORDER_STATES: [&str; 5] = ["open", "filled", "cancelled", "replaced", "rejected"];
/// Words of the column `state` of trades.
pub const TRADE_STATES: [&str; 3] = ["made", "corrected", "broken"];

/// Which rows are asked for; what is not said matches all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Only of this account: number, login, CompID or firm.
    pub participant: Option<String>,
    /// On this instrument: symbol or number.
    pub instrument: Option<String>,
    /// Only in this state.
    pub state: Option<String>,
    /// Not before this time, ns since the epoch.
    pub since: Option<u64>,
    /// Before, ns since the epoch.
    pub until: Option<u64>,
    /// Of this day of the venue, from 1.
    pub day: Option<u32>,
    /// At most so many, the last ones; `None`: all.
    pub limit: Option<u64>,
}

/// One row of the orders, with the names of now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OrderLine {
    /// Id of the order: [`crate::Order::id`].
    pub id: i64,
    /// Place of its request in the log.
    pub seq: i64,
    /// First of its chain of replacements.
    pub root: i64,
    /// The order it replaced.
    pub replaces: Option<i64>,
    /// Number of the account.
    pub account: i64,
    /// Login of the account.
    pub participant: String,
    /// Firm of the account.
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
    /// Type of the order.
    pub order_type: String,
    /// Time in force.
    pub time_in_force: String,
    /// Price, 1/10000 of the currency.
    pub price: i64,
    /// Stop price, distance or offset, 1/10000; 0: none.
    pub stop_price: i64,
    /// Lots open when it began.
    pub qty: i64,
    /// Traded quantity, lots.
    pub filled: i64,
    /// Cancelled quantity, lots.
    pub cancelled: i64,
    /// Open quantity, lots.
    pub leaves: i64,
    /// State: one of [`ORDER_STATES`].
    pub state: String,
    /// Why it was refused, or lots of it cancelled last.
    pub reason: Option<String>,
    /// Public reference.
    pub order_ref: i64,
    /// The gateway it came through.
    pub gateway: i64,
    /// When that received it, ns.
    pub t_in: i64,
    /// When it began, engine time, ns.
    pub t_ns: i64,
    /// When it changed last, ns.
    pub t_last: i64,
    /// Number of the venue's day on which it began.
    pub day: i64,
}

/// One side of a trade.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartyLine {
    /// Number of the account.
    pub account: i64,
    /// Login of the account.
    pub participant: String,
    /// Firm of the account.
    pub firm: String,
    /// Id of the order: [`crate::Order::id`].
    pub order: Option<i64>,
    /// The order's number.
    pub user_ref: i64,
    /// The participant's own identifier.
    pub cl_ord_id: String,
}

/// One row of the trades, with the names of now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TradeLine {
    /// Match number.
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
    /// Price at which it was traded.
    pub traded_price: i64,
    /// Quantity that was traded, lots.
    pub traded_qty: i64,
    /// State: one of [`TRADE_STATES`].
    pub state: String,
    /// Continuous trading, or which auction.
    pub kind: String,
    /// Side that came in; none in auctions.
    pub aggressor: Option<String>,
    /// Feed position that prints it.
    pub feed_position: i64,
    /// The buyer.
    pub buy: PartyLine,
    /// The seller.
    pub sell: PartyLine,
    /// Number of the venue's day.
    pub day: i64,
}

/// Counts of an account in an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Orders taken, replacements not counted.
    pub orders: i64,
    /// Number of open orders.
    pub open_orders: i64,
    /// Open quantity of these, lots.
    pub open_lots: i64,
}

const ORDERS: &str = "SELECT o.id, o.seq, o.root, o.replaces, o.account, \
    coalesce(a.name, ''), coalesce(a.firm, ''), coalesce(i.symbol, ''), \
    coalesce(i.lot_decimals, 0), o.user_ref, o.cl_ord_id, o.side, o.order_type, o.time_in_force, \
    o.price, o.stop_price, o.qty, o.filled, o.cancelled, o.leaves, o.state, o.reason, \
    o.order_ref, o.gateway, o.t_in, o.t_ns, o.t_last, o.day \
    FROM orders o LEFT JOIN accounts a ON a.id = o.account \
    LEFT JOIN instruments i ON i.id = o.instrument WHERE 1 = 1";
const TRADES: &str = "SELECT o.match_number, o.seq, o.t_ns, coalesce(i.symbol, ''), \
    o.instrument, coalesce(i.lot_decimals, 0), o.price, o.qty, o.traded_price, o.traded_qty, \
    o.state, o.kind, o.aggressor, o.feed_position, o.buy_account, coalesce(b.name, ''), \
    coalesce(b.firm, ''), o.buy_order, o.buy_user_ref, o.buy_cl_ord_id, o.sell_account, \
    coalesce(s.name, ''), coalesce(s.firm, ''), o.sell_order, o.sell_user_ref, o.sell_cl_ord_id, \
    o.day \
    FROM trades o LEFT JOIN accounts b ON b.id = o.buy_account \
    LEFT JOIN accounts s ON s.id = o.sell_account \
    LEFT JOIN instruments i ON i.id = o.instrument WHERE 1 = 1";
/// Numbers of the accounts and of the instruments that a name means: `{}` stands for its placeholder.
const ACCOUNTS: &str = "SELECT id FROM accounts WHERE name = {} OR comp_id = {} \
    OR firm = {} OR CAST(id AS TEXT) = {}";
const INSTRUMENTS: &str = "SELECT id FROM instruments WHERE symbol = {} OR CAST(id AS TEXT) = {}";
const COUNTS: &str = "SELECT account, instrument, \
    sum(CASE WHEN replaces IS NULL THEN 1 ELSE 0 END), \
    sum(CASE WHEN state = 'open' THEN 1 ELSE 0 END), CAST(sum(leaves) AS BIGINT) \
    FROM orders WHERE state <> 'rejected' GROUP BY account, instrument ORDER BY 1, 2";

/// A store, open for reading only.
pub struct Query {
    pub(crate) db: Db,
}

/// A question that is being put together.
struct Question {
    text: String,
    values: Vec<Value>,
}

impl Question {
    /// Adds a piece, whose `{}` stand for a value.
    fn with(&mut self, text: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.text.push_str(&text.replace("{}", &format!("?{}", self.values.len())));
    }
}

impl Query {
    /// Opens a store for asking; somebody else may be feeding it.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Foreign`], [`StoreError::Schema`], the database's.
    pub fn open(place: impl Into<Place>) -> Result<Query, StoreError> {
        let db = Db::reading(&place.into())?;
        check_schema(&db)?.ok_or(StoreError::Missing)?;
        Ok(Query { db })
    }

    /// Up to where the store holds.
    ///
    /// # Errors
    /// The database's.
    pub fn progress(&self) -> Result<Progress, StoreError> {
        progress(&self.db)
    }

    /// From now on all answers are about this moment, however much is fed meanwhile. Up to where
    /// the store holds then. While it is open the write-ahead log grows: not for long.
    ///
    /// # Errors
    /// The database's.
    pub fn freeze(&self) -> Result<Progress, StoreError> {
        self.db.begin(Intent::Read)?;
        self.progress()
    }

    /// Midnight of the log's day, ns since the epoch.
    ///
    /// # Errors
    /// The database's.
    pub fn midnight(&self) -> Result<u64, StoreError> {
        self.db.row("SELECT midnight FROM state", |row| Ok(row.int()? as u64))
    }

    /// Numbers of the accounts that a participant's name means.
    ///
    /// # Errors
    /// The database's.
    pub fn accounts(&self, participant: &str) -> Result<Vec<i64>, StoreError> {
        self.numbers(ACCOUNTS, participant)
    }

    /// Numbers of the instruments that a name means.
    ///
    /// # Errors
    /// The database's.
    pub fn instruments(&self, name: &str) -> Result<Vec<i64>, StoreError> {
        self.numbers(INSTRUMENTS, name)
    }

    fn numbers(&self, text: &str, name: &str) -> Result<Vec<i64>, StoreError> {
        let mut found = Vec::new();
        self.db.each(&text.replace("{}", "?1"), &[name.into()], &mut |row| {
            found.push(Columns::of(row).int()?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Rows of a table.
    ///
    /// # Errors
    /// The database's.
    pub fn count(&self, table: Table) -> Result<u64, StoreError> {
        let text = match table {
            Table::Orders => "SELECT count(*) FROM orders",
            Table::Trades => "SELECT count(*) FROM trades",
            Table::Cancels => "SELECT count(*) FROM cancels",
            Table::Amendments => "SELECT count(*) FROM amendments",
            Table::Refusals => "SELECT count(*) FROM refusals",
        };
        self.db.row(text, |row| Ok(row.int()? as u64))
    }

    /// Shows `visit` the orders asked for, in the order in which they began; says how many.
    ///
    /// # Errors
    /// The database's.
    pub fn orders(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(OrderLine),
    ) -> Result<usize, StoreError> {
        let mut question = Question { text: ORDERS.to_string(), values: Vec::new() };
        if let Some(name) = &filter.participant {
            question.with(&format!(" AND o.account IN ({ACCOUNTS})"), name.as_str());
        }
        self.ask(question, filter, "id", |row| {
            visit(order_line(row)?);
            Ok(())
        })
    }

    /// Shows `visit` the trades asked for, by number; says how many.
    ///
    /// # Errors
    /// The database's.
    pub fn trades(
        &self,
        filter: &Filter,
        mut visit: impl FnMut(TradeLine),
    ) -> Result<usize, StoreError> {
        let mut question = Question { text: TRADES.to_string(), values: Vec::new() };
        if let Some(name) = &filter.participant {
            let either = [" AND (o.buy_account IN (", ") OR o.sell_account IN (", "))"];
            question.with(&either.join(ACCOUNTS), name.as_str());
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
        mut visit: impl FnMut(&mut Columns<'_>) -> Result<(), StoreError>,
    ) -> Result<usize, StoreError> {
        if let Some(name) = &filter.instrument {
            question.with(&format!(" AND o.instrument IN ({INSTRUMENTS})"), name.as_str());
        }
        if let Some(state) = &filter.state {
            question.with(" AND o.state = {}", state.as_str());
        }
        if let Some(since) = filter.since {
            question.with(" AND o.t_ns >= {}", int(since));
        }
        if let Some(until) = filter.until {
            question.with(" AND o.t_ns < {}", int(until));
        }
        if let Some(day) = filter.day {
            question.with(" AND o.day = {}", i64::from(day));
        }
        match filter.limit {
            // The last ones, in order.
            Some(limit) => {
                question.with(" ORDER BY 1 DESC LIMIT {}", int(limit));
                question.text = format!("SELECT * FROM ({}) AS last ORDER BY {key}", question.text);
            }
            None => question.text.push_str(" ORDER BY 1"),
        }
        let mut count = 0;
        self.db.each(&question.text, &question.values, &mut |row| {
            count += 1;
            visit(&mut Columns::of(row))
        })?;
        Ok(count)
    }

    /// What each account has in each instrument, by their numbers.
    ///
    /// # Errors
    /// The database's.
    pub fn counts(&self) -> Result<BTreeMap<(u16, u16), Counts>, StoreError> {
        let mut found = BTreeMap::new();
        self.db.each(COUNTS, &[], &mut |row| {
            let mut row = Columns::of(row);
            let key = (row.small()?, row.small()?);
            let (orders, open_orders, open_lots) = (row.int()?, row.int()?, row.int()?);
            found.insert(key, Counts { orders, open_orders, open_lots });
            Ok(())
        })?;
        Ok(found)
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
    /// Trades that were broken or corrected.
    Amendments,
    /// Refused cancels.
    Refusals,
}

fn order_line(row: &mut Columns<'_>) -> Result<OrderLine, StoreError> {
    Ok(OrderLine {
        id: row.int()?,
        seq: row.int()?,
        root: row.int()?,
        replaces: row.known()?,
        account: row.int()?,
        participant: row.text()?,
        firm: row.text()?,
        symbol: row.text()?,
        lot_decimals: row.small()?,
        user_ref: row.int()?,
        cl_ord_id: row.text()?,
        side: row.text()?,
        order_type: row.text()?,
        time_in_force: row.text()?,
        price: row.int()?,
        stop_price: row.int()?,
        qty: row.int()?,
        filled: row.int()?,
        cancelled: row.int()?,
        leaves: row.int()?,
        state: row.text()?,
        reason: row.said()?,
        order_ref: row.int()?,
        gateway: row.int()?,
        t_in: row.int()?,
        t_ns: row.int()?,
        t_last: row.int()?,
        day: row.int()?,
    })
}

fn party_line(row: &mut Columns<'_>) -> Result<PartyLine, StoreError> {
    Ok(PartyLine {
        account: row.int()?,
        participant: row.text()?,
        firm: row.text()?,
        order: row.known()?,
        user_ref: row.int()?,
        cl_ord_id: row.text()?,
    })
}

fn trade_line(row: &mut Columns<'_>) -> Result<TradeLine, StoreError> {
    Ok(TradeLine {
        match_number: row.int()?,
        seq: row.int()?,
        t_ns: row.int()?,
        symbol: row.text()?,
        instrument: row.int()?,
        lot_decimals: row.small()?,
        price: row.int()?,
        qty: row.int()?,
        traded_price: row.int()?,
        traded_qty: row.int()?,
        state: row.text()?,
        kind: row.text()?,
        aggressor: row.said()?,
        feed_position: row.int()?,
        buy: party_line(row)?,
        sell: party_line(row)?,
        day: row.int()?,
    })
}
