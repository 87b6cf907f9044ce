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

/// Words that the column `state` of orders may have.
pub const ORDER_STATES: [&str; 6] =
    ["open", "filled", "cancelled", "replaced", "rejected", "moved"];
/// Words that the column `state` of trades may have.
pub const TRADE_STATES: [&str; 3] = ["made", "corrected", "broken"];

/// Conditions on the rows asked for; a condition that is `None` matches every row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// Only rows of this account: number, login, CompID or firm.
    pub participant: Option<String>,
    /// Only rows of this instrument: symbol or number.
    pub instrument: Option<String>,
    /// Only rows in this state, a word of [`ORDER_STATES`] or [`TRADE_STATES`].
    pub state: Option<String>,
    /// Only rows from this time on, ns since the epoch.
    pub since: Option<u64>,
    /// Only rows before this time, ns since the epoch.
    pub until: Option<u64>,
    /// Only rows of this day of the venue, from 1.
    pub day: Option<u32>,
    /// At most so many rows, the last ones; `None`: all.
    pub limit: Option<u64>,
}

/// One order as the store has it, with today's names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OrderLine {
    /// Id of the order: [`crate::Order::id`].
    pub id: i64,
    /// Position in the log of the request that made the order.
    pub seq: i64,
    /// Id of the first order of the chain of replacements that this one is in.
    pub root: i64,
    /// Id of the order that this one replaced; `None`: none.
    pub replaces: Option<i64>,
    /// Number of the account.
    pub account: i64,
    /// Login of the account.
    pub participant: String,
    /// Firm of the account.
    pub firm: String,
    /// The instrument's symbol.
    pub symbol: String,
    /// Decimal places of one lot, for display.
    pub lot_decimals: u8,
    /// Participant's number of the order (UserRefNum).
    pub user_ref: i64,
    /// The participant's own identifier, without padding.
    pub cl_ord_id: String,
    /// `buy` or `sell`.
    pub side: String,
    /// Type of the order, as a word.
    pub order_type: String,
    /// Time in force of the order, as a word.
    pub time_in_force: String,
    /// Limit price at present, 1/10000 of the currency; 0: none.
    pub price: i64,
    /// Stop price, trail distance or peg offset, 1/10000 of the currency; 0: none.
    pub stop_price: i64,
    /// Open quantity when the order began, lots.
    pub qty: i64,
    /// Traded quantity, lots.
    pub filled: i64,
    /// Cancelled quantity, lots.
    pub cancelled: i64,
    /// Open quantity, lots.
    pub leaves: i64,
    /// State: one of [`ORDER_STATES`].
    pub state: String,
    /// Why the order was refused, or why lots of it were cancelled last; `None`: neither.
    pub reason: Option<String>,
    /// Public reference of the order; 0: none.
    pub order_ref: i64,
    /// Number of the gateway that the request came through.
    pub gateway: i64,
    /// When the gateway received the request, ns since the epoch.
    pub t_in: i64,
    /// Engine time at which the order began, ns since the epoch.
    pub t_ns: i64,
    /// Engine time of the order's last change, ns since the epoch.
    pub t_last: i64,
    /// Number of the venue's day on which it began.
    pub day: i64,
}

/// The buyer or the seller of a trade.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartyLine {
    /// Number of the account.
    pub account: i64,
    /// Login of the account.
    pub participant: String,
    /// Firm of the account.
    pub firm: String,
    /// Id of the order ([`crate::Order::id`]); `None`: the store has no such order.
    pub order: Option<i64>,
    /// Participant's number of the order (UserRefNum).
    pub user_ref: i64,
    /// The participant's own identifier, without padding.
    pub cl_ord_id: String,
}

/// One trade as the store has it, with today's names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TradeLine {
    /// Match number of the trade.
    pub match_number: i64,
    /// Position in the log of the input that made the trade.
    pub seq: i64,
    /// Engine time of the trade, ns since the epoch.
    pub t_ns: i64,
    /// The instrument's symbol.
    pub symbol: String,
    /// Number of the instrument, from 1.
    pub instrument: i64,
    /// Decimal places of one lot, for display.
    pub lot_decimals: u8,
    /// Price at present, after corrections, 1/10000 of the currency.
    pub price: i64,
    /// Quantity at present, after corrections, lots; 0 when broken.
    pub qty: i64,
    /// Price at which the trade was made, 1/10000 of the currency.
    pub traded_price: i64,
    /// Quantity with which the trade was made, lots.
    pub traded_qty: i64,
    /// State: one of [`TRADE_STATES`].
    pub state: String,
    /// `continuous`, or the auction, as a word.
    pub kind: String,
    /// Side of the order that came in, `buy` or `sell`; `None` in auctions.
    pub aggressor: Option<String>,
    /// Feed position of the message that prints the trade.
    pub feed_position: i64,
    /// The side that bought.
    pub buy: PartyLine,
    /// The side that sold.
    pub sell: PartyLine,
    /// Number of the venue's day, from 1.
    pub day: i64,
}

/// Totals of an account in an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of orders accepted, replacements not counted.
    pub orders: i64,
    /// Number of open orders.
    pub open_orders: i64,
    /// Open quantity of all open orders, lots.
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

/// A store that is open for reading.
pub struct Query {
    pub(crate) db: Db,
}

/// A question that is being composed: text and bound values.
struct Question {
    text: String,
    values: Vec<Value>,
}

impl Question {
    /// Appends text, in which every `{}` stands for the value.
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

    /// Appends the conditions and the order that both questions have, and asks.
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

/// One of the tables that are made from the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Table of orders, one row each.
    Orders,
    /// Table of trades, one row each.
    Trades,
    /// Table of cancels: open lots that went away without trading.
    Cancels,
    /// Table of trades that were broken or corrected.
    Amendments,
    /// Table of cancels and mass cancels that were refused.
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
