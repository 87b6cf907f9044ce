//! The tables and statements. A change here, or in the words of their columns, needs another
//! version, [`SCHEMA`].

/// Version of the schema; kept in a file's `user_version`, or a server's table `store_version`.
pub const SCHEMA: i64 = 2;
/// SQLite `application_id` that marks the file as a store: "FBST".
pub(crate) const APPLICATION: i64 = 0x4642_5354;

/// Tables made from the log, each with the column that is its key.
pub const TABLES: [(&str, &str); 5] = [
    ("orders", "id"),
    ("trades", "match_number"),
    ("cancels", "id"),
    ("amendments", "id"),
    ("refusals", "id"),
];

/// Everything of an empty store. Times are ns since the epoch, prices 1/10000 of the quote
/// currency, quantities lots.
pub(crate) const CREATE: &str = "
CREATE TABLE state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  rules_version INTEGER NOT NULL, config_digest TEXT NOT NULL, log TEXT NOT NULL,
  session TEXT NOT NULL, midnight INTEGER NOT NULL,
  applied INTEGER NOT NULL, t_last INTEGER NOT NULL, reports INTEGER NOT NULL,
  reports_digest INTEGER NOT NULL, feed_next INTEGER NOT NULL, strangers INTEGER NOT NULL
) STRICT;
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, comp_id TEXT NOT NULL, firm TEXT NOT NULL
) STRICT;
CREATE TABLE instruments (
  id INTEGER PRIMARY KEY, symbol TEXT NOT NULL, tick INTEGER NOT NULL,
  lot_decimals INTEGER NOT NULL
) STRICT;
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, root INTEGER NOT NULL, replaces INTEGER,
  account INTEGER NOT NULL, instrument INTEGER NOT NULL, user_ref INTEGER NOT NULL,
  cl_ord_id TEXT NOT NULL, side TEXT NOT NULL, order_type TEXT NOT NULL,
  time_in_force TEXT NOT NULL, flags INTEGER NOT NULL, price INTEGER NOT NULL,
  stop_price INTEGER NOT NULL, display_qty INTEGER NOT NULL, min_qty INTEGER NOT NULL,
  expire_at INTEGER NOT NULL, qty INTEGER NOT NULL, filled INTEGER NOT NULL,
  cancelled INTEGER NOT NULL, leaves INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT,
  order_ref INTEGER NOT NULL, gateway INTEGER NOT NULL, t_in INTEGER NOT NULL,
  t_ns INTEGER NOT NULL, t_last INTEGER NOT NULL, day INTEGER NOT NULL
) STRICT;
CREATE TABLE trades (
  match_number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, t_ns INTEGER NOT NULL,
  instrument INTEGER NOT NULL, price INTEGER NOT NULL, qty INTEGER NOT NULL,
  traded_price INTEGER NOT NULL, traded_qty INTEGER NOT NULL, state TEXT NOT NULL,
  kind TEXT NOT NULL, aggressor TEXT, feed_position INTEGER NOT NULL,
  buy_account INTEGER NOT NULL, buy_order INTEGER, buy_user_ref INTEGER NOT NULL,
  buy_cl_ord_id TEXT NOT NULL,
  sell_account INTEGER NOT NULL, sell_order INTEGER, sell_user_ref INTEGER NOT NULL,
  sell_cl_ord_id TEXT NOT NULL, day INTEGER NOT NULL
) STRICT;
CREATE TABLE cancels (
  id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, order_id INTEGER, account INTEGER NOT NULL,
  instrument INTEGER NOT NULL, user_ref INTEGER NOT NULL, cl_ord_id TEXT NOT NULL,
  qty INTEGER NOT NULL, leaves INTEGER NOT NULL, reason TEXT NOT NULL, t_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE amendments (
  id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, match_number INTEGER NOT NULL, kind TEXT NOT NULL,
  price_before INTEGER NOT NULL, qty_before INTEGER NOT NULL, price INTEGER NOT NULL,
  qty INTEGER NOT NULL, operator TEXT NOT NULL, t_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE refusals (
  id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, account INTEGER NOT NULL,
  instrument INTEGER NOT NULL, user_ref INTEGER NOT NULL, cl_ord_id TEXT NOT NULL,
  kind TEXT NOT NULL, reason TEXT NOT NULL, t_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX orders_by_account ON orders (account, t_ns);
CREATE INDEX orders_by_time ON orders (t_ns);
CREATE INDEX orders_open ON orders (account) WHERE state = 'open';
CREATE INDEX trades_by_time ON trades (t_ns);
CREATE INDEX trades_by_buyer ON trades (buy_account, t_ns);
CREATE INDEX trades_by_seller ON trades (sell_account, t_ns);
CREATE INDEX orders_by_day ON orders (day);
CREATE INDEX trades_by_day ON trades (day);
CREATE VIEW fills AS
  SELECT match_number, day, t_ns, instrument, 'buy' AS side, buy_account AS account,
         buy_order AS order_id, buy_user_ref AS user_ref, buy_cl_ord_id AS cl_ord_id, price, qty,
         state, kind
    FROM trades
  UNION ALL
  SELECT match_number, day, t_ns, instrument, 'sell', sell_account, sell_order, sell_user_ref,
         sell_cl_ord_id, price, qty, state, kind
    FROM trades;
";

/// A statement that is executed for many rows.
pub(crate) struct Many {
    /// SQLite statement for one row, with a placeholder for each column.
    pub(crate) row: String,
    /// PostgreSQL statement for all rows at once, with one placeholder for each column.
    pub(crate) columns: String,
}

/// Columns of a table in their order, each with whether it is text.
pub(crate) fn columns_of(table: &str) -> Vec<(&'static str, bool)> {
    let begin = format!("CREATE TABLE {table} (");
    let body = CREATE.split(&begin).nth(1).and_then(|rest| rest.split(") STRICT;").next());
    let column = |column: &'static str| {
        let mut words = column.split_whitespace();
        Some((words.next()?, words.next()? == "TEXT"))
    };
    body.unwrap_or("").split(',').filter_map(column).collect()
}

/// PostgreSQL expression that turns one array per column into rows.
fn unnest(columns: &[(&str, bool)]) -> String {
    let one = |((_, text), at): (&(&str, bool), usize)| {
        format!("${at}::{}[]", if *text { "text" } else { "bigint" })
    };
    let all: Vec<String> = columns.iter().zip(1..).map(one).collect();
    format!("unnest({})", all.join(", "))
}

/// The statement that inserts rows with all their columns into a table.
pub(crate) fn insert(table: &str) -> Many {
    let columns = columns_of(table);
    let places: Vec<String> = (1..=columns.len()).map(|at| format!("?{at}")).collect();
    Many {
        row: format!("INSERT INTO {table} VALUES ({})", places.join(", ")),
        columns: format!("INSERT INTO {table} SELECT * FROM {}", unnest(&columns)),
    }
}

/// The statement that updates columns of rows of a table; the first value of a row is its key.
pub(crate) fn update(table: &str, key: &str, changed: &[&str]) -> Many {
    let known = columns_of(table);
    let named = |name: &str| known.iter().copied().find(|(known, _)| *known == name);
    let columns: Vec<(&str, bool)> =
        std::iter::once(&key).chain(changed).filter_map(|name| named(name)).collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let set = |one: &dyn Fn(&str, usize) -> String| -> String {
        let all: Vec<String> = changed.iter().zip(2..).map(|(name, at)| one(name, at)).collect();
        all.join(", ")
    };
    Many {
        row: format!(
            "UPDATE {table} SET {} WHERE {key} = ?1",
            set(&|name, at| format!("{name} = ?{at}"))
        ),
        columns: format!(
            "UPDATE {table} AS o SET {} FROM {} AS v ({}) WHERE o.{key} = v.{key}",
            set(&|name, _| format!("{name} = v.{name}")),
            unnest(&columns),
            names.join(", ")
        ),
    }
}

/// Columns of an order that may change after the order has begun.
pub(crate) const ORDER_CHANGES: [&str; 7] =
    ["price", "filled", "cancelled", "leaves", "state", "reason", "t_last"];

/// To be executed before the trade is updated, because the former values are taken from there.
pub(crate) const INSERT_AMENDMENT: &str = "INSERT INTO amendments \
    SELECT CAST(?1 AS BIGINT), CAST(?2 AS BIGINT), match_number, CAST(?4 AS TEXT), price, qty, \
    CAST(?5 AS BIGINT), CAST(?6 AS BIGINT), CAST(?7 AS TEXT), CAST(?8 AS BIGINT) FROM trades \
    WHERE match_number = ?3";
pub(crate) const UPDATE_TRADE: &str =
    "UPDATE trades SET state = ?2, price = ?3, qty = ?4 WHERE match_number = ?1";
pub(crate) const INSERT_STATE: &str =
    "INSERT INTO state VALUES (1, ?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, 0, 0)";
pub(crate) const SELECT_ORIGIN: &str =
    "SELECT rules_version, config_digest, log, session, midnight FROM state";
pub(crate) const SELECT_PROGRESS: &str =
    "SELECT applied, t_last, reports, reports_digest, feed_next, strangers FROM state";
/// Takes effect only at the position where the batch begins, so that a batch that is fed twice
/// changes nothing.
pub(crate) const UPDATE_STATE: &str = "UPDATE state SET applied = ?2, t_last = ?3, reports = ?4, \
    reports_digest = ?5, feed_next = ?6, strangers = ?7 WHERE applied = ?1";
pub(crate) const PUT_ACCOUNT: &str = "INSERT INTO accounts VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, comp_id = excluded.comp_id, \
    firm = excluded.firm";
pub(crate) const PUT_INSTRUMENT: &str = "INSERT INTO instruments VALUES (?1, ?2, ?3, ?4) \
    ON CONFLICT (id) DO UPDATE SET symbol = excluded.symbol, tick = excluded.tick, \
    lot_decimals = excluded.lot_decimals";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_made_of_the_tables() {
        assert_eq!(columns_of("orders").len(), 29);
        assert_eq!(columns_of("trades").len(), 21);
        let refusal = insert("refusals");
        assert_eq!(refusal.row, "INSERT INTO refusals VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
        assert!(refusal.columns.contains("$5::bigint[], $6::text[]"), "{}", refusal.columns);
        let change = update("orders", "id", &["price", "state"]);
        assert_eq!(change.row, "UPDATE orders SET price = ?2, state = ?3 WHERE id = ?1");
        assert_eq!(
            change.columns,
            "UPDATE orders AS o SET price = v.price, state = v.state FROM unnest($1::bigint[], \
             $2::bigint[], $3::text[]) AS v (id, price, state) WHERE o.id = v.id"
        );
    }
}
