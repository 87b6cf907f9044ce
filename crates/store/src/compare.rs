//! Comparisons of a store: row by row with another store, and with the statements that other code
//! draws up from the same log.

use std::collections::BTreeMap;

use engine::statement::Ledger;

use crate::db::{Db, Value};
use crate::error::StoreError;
use crate::query::{Counts, Filter, Query};
use crate::schema::{TABLES, columns_of};

/// A difference between a store and what it must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Difference {
    /// A row is missing: its table and key.
    Missing(&'static str, i64),
    /// A row is there that must not be: its table and key.
    Surplus(&'static str, i64),
    /// A column has the wrong value: table, key, column, due value, value found.
    Column(&'static str, i64, String, String, String),
    /// Counts of an account in an instrument differ: account, instrument, counts of the statements,
    /// counts of the store.
    Counts(u16, u16, Counts, Counts),
    /// A trade differs: match number, then price-and-lots pairs of the statements and of the store.
    Trade(u64, (u64, i64), (u64, i64)),
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Difference::Missing(table, key) => write!(f, "{table}: row {key} is missing"),
            Difference::Surplus(table, key) => write!(f, "{table}: row {key} is too many"),
            Difference::Column(table, key, column, due, found) => {
                write!(f, "{table}: row {key}: {column} is {found}, must be {due}")
            }
            Difference::Counts(account, instrument, due, found) => {
                write!(f, "account {account}, instrument {instrument}: {found:?}, must be {due:?}")
            }
            Difference::Trade(number, due, found) => write!(
                f,
                "trade {number}: {} lots at {}, must be {} at {}",
                found.0, found.1, due.0, due.1
            ),
        }
    }
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Number of rows compared.
    pub rows: u64,
    /// Number of differences.
    pub count: u64,
    /// The first differences that were found.
    pub first: Vec<Difference>,
    most: usize,
}

impl Found {
    /// An empty result that keeps the first `most` differences.
    pub fn keeping(most: usize) -> Found {
        Found { most, ..Found::default() }
    }

    fn note(&mut self, difference: Difference) {
        self.count += 1;
        if self.first.len() < self.most {
            self.first.push(difference);
        }
    }
}

/// Compares every row of the tables made from the log, with as much memory as two rows take.
///
/// # Errors
/// The database's.
pub fn differences(due: &Query, found: &Query, into: &mut Found) -> Result<(), StoreError> {
    for (table, key) in TABLES {
        let columns = columns_of(table);
        let (mut left, mut right) =
            (Rows::of(&due.db, table, key), Rows::of(&found.db, table, key));
        let (mut a, mut b) = (left.next()?, right.next()?);
        loop {
            let key = |row: &Option<Vec<Value>>| match row.as_deref() {
                Some([Value::Int(key), ..]) => Some(*key),
                _ => None,
            };
            let (due, is) = (key(&a), key(&b));
            into.rows += 1;
            match (due, is) {
                (None, None) => {
                    into.rows -= 1;
                    break;
                }
                (Some(due), is) if is.is_none_or(|is| due < is) => {
                    into.note(Difference::Missing(table, due));
                    a = left.next()?;
                }
                (due, Some(is)) if due.is_none_or(|due| is < due) => {
                    into.note(Difference::Surplus(table, is));
                    b = right.next()?;
                }
                _ => {
                    let rows = a.iter().flatten().zip(b.iter().flatten()).zip(&columns);
                    for ((due, is), (column, _)) in rows.filter(|((due, is), _)| due != is) {
                        let key = key(&a).unwrap_or(0);
                        let (due, is) = (format!("{due:?}"), format!("{is:?}"));
                        into.note(Difference::Column(table, key, column.to_string(), due, is));
                    }
                    (a, b) = (left.next()?, right.next()?);
                }
            }
        }
    }
    Ok(())
}

/// Rows of a table in the order of their keys, read page by page.
struct Rows<'a> {
    db: &'a Db,
    text: String,
    page: std::vec::IntoIter<Vec<Value>>,
    /// Key of the last row of the page.
    last: i64,
    over: bool,
}

/// Rows that are read at a time.
const PAGE: usize = 2_000;

impl<'a> Rows<'a> {
    fn of(db: &'a Db, table: &str, key: &str) -> Rows<'a> {
        // All from constants.
        let text = format!("SELECT * FROM {table} WHERE {key} > ?1 ORDER BY {key} LIMIT {PAGE}");
        Rows { db, text, page: Vec::new().into_iter(), last: i64::MIN, over: false }
    }

    fn next(&mut self) -> Result<Option<Vec<Value>>, StoreError> {
        if self.page.len() == 0 && !self.over {
            let mut page: Vec<Vec<Value>> = Vec::new();
            self.db.each(&self.text, &[self.last.into()], &mut |row| {
                page.push(row.to_vec());
                Ok(())
            })?;
            self.over = page.len() < PAGE;
            if let Some([Value::Int(key), ..]) = page.last().map(Vec::as_slice) {
                self.last = *key;
            }
            self.page = page.into_iter();
        }
        Ok(self.page.next())
    }
}

/// Compares a store with the statements of the same log, which know nothing of its rows.
///
/// # Errors
/// The database's.
pub fn disagreements(ledger: &Ledger, store: &Query, into: &mut Found) -> Result<(), StoreError> {
    let mut due: BTreeMap<(u16, u16), Counts> = BTreeMap::new();
    for ((account, instrument), statement) in ledger.statements() {
        let counts = Counts {
            orders: statement.orders as i64,
            open_orders: statement.open_orders as i64,
            open_lots: statement.open_lots as i64,
        };
        due.insert((account.0, instrument.0), counts);
    }
    let mut found = store.counts()?;
    for key in
        due.keys().chain(found.clone().keys()).copied().collect::<std::collections::BTreeSet<_>>()
    {
        let (due, is) =
            (due.remove(&key).unwrap_or_default(), found.remove(&key).unwrap_or_default());
        into.rows += 1;
        if due != is {
            into.note(Difference::Counts(key.0, key.1, due, is));
        }
    }
    let told = |line: &engine::statement::TradeLine| {
        (if line.broken { 0 } else { line.qty.0 }, line.price.0)
    };
    let mut lines = ledger.trades().peekable();
    store.trades(&Filter::default(), |row| {
        let number = row.match_number as u64;
        while let Some(line) = lines.next_if(|line| line.match_number.0 < number) {
            into.rows += 1;
            into.note(Difference::Trade(line.match_number.0, told(line), (0, 0)));
        }
        let line = lines.next_if(|line| line.match_number.0 == number);
        let due = line.map_or((0, 0), told);
        let parties = line.is_some_and(|line| {
            let told = [line.buy, line.sell].map(|(account, user_ref)| (account.0, user_ref.0));
            let is = [&row.buy, &row.sell].map(|party| (party.account, party.user_ref));
            told.map(|(account, user_ref)| (i64::from(account), i64::from(user_ref))) == is
        });
        let is = (row.qty as u64, row.price);
        into.rows += 1;
        if due != is || !parties {
            into.note(Difference::Trade(number, due, is));
        }
    })?;
    for line in lines {
        into.rows += 1;
        into.note(Difference::Trade(line.match_number.0, told(line), (0, 0)));
    }
    Ok(())
}
