//! The tables. Whatever changes here, or in the words of their columns, is another [`SCHEMA`].

/// Version of the schema; kept in the file's `user_version`.
pub const SCHEMA: i64 = 1;
/// Tells the file from other programs' databases: "FBST".
pub(crate) const APPLICATION: i64 = 0x4642_5354;

/// Tables made from the log, and the column that names a row.
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
  t_ns INTEGER NOT NULL, t_last INTEGER NOT NULL
) STRICT;
CREATE TABLE trades (
  match_number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, t_ns INTEGER NOT NULL,
  instrument INTEGER NOT NULL, price INTEGER NOT NULL, qty INTEGER NOT NULL,
  traded_price INTEGER NOT NULL, traded_qty INTEGER NOT NULL, state TEXT NOT NULL,
  kind TEXT NOT NULL, aggressor TEXT, feed_position INTEGER NOT NULL,
  buy_account INTEGER NOT NULL, buy_order INTEGER, buy_user_ref INTEGER NOT NULL,
  buy_cl_ord_id TEXT NOT NULL,
  sell_account INTEGER NOT NULL, sell_order INTEGER, sell_user_ref INTEGER NOT NULL,
  sell_cl_ord_id TEXT NOT NULL
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
CREATE VIEW fills AS
  SELECT match_number, t_ns, instrument, 'buy' AS side, buy_account AS account,
         buy_order AS order_id, buy_user_ref AS user_ref, buy_cl_ord_id AS cl_ord_id, price, qty,
         state, kind
    FROM trades
  UNION ALL
  SELECT match_number, t_ns, instrument, 'sell', sell_account, sell_order, sell_user_ref,
         sell_cl_ord_id, price, qty, state, kind
    FROM trades;
";

pub(crate) const INSERT_ORDER: &str = "INSERT INTO orders VALUES \
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, \
     ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28)";
pub(crate) const UPDATE_ORDER: &str = "UPDATE orders SET price = ?2, filled = ?3, cancelled = ?4, \
    leaves = ?5, state = ?6, reason = ?7, t_last = ?8 WHERE id = ?1";
pub(crate) const INSERT_TRADE: &str = "INSERT INTO trades VALUES \
    (?1, ?2, ?3, ?4, ?5, ?6, ?5, ?6, 'made', ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
pub(crate) const INSERT_CANCEL: &str =
    "INSERT INTO cancels VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
/// Before the trade itself is changed: what it was is taken from there.
pub(crate) const INSERT_AMENDMENT: &str = "INSERT INTO amendments \
    SELECT ?1, ?2, match_number, ?4, price, qty, ?5, ?6, ?7, ?8 FROM trades \
    WHERE match_number = ?3";
pub(crate) const UPDATE_TRADE: &str =
    "UPDATE trades SET state = ?2, price = ?3, qty = ?4 WHERE match_number = ?1";
pub(crate) const INSERT_REFUSAL: &str =
    "INSERT INTO refusals VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
pub(crate) const INSERT_STATE: &str =
    "INSERT INTO state VALUES (1, ?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, 0, 0)";
pub(crate) const SELECT_ORIGIN: &str =
    "SELECT rules_version, config_digest, log, session, midnight FROM state";
pub(crate) const SELECT_PROGRESS: &str =
    "SELECT applied, t_last, reports, reports_digest, feed_next, strangers FROM state";
/// Only from where the batch begins: what was fed twice changes nothing.
pub(crate) const UPDATE_STATE: &str = "UPDATE state SET applied = ?2, t_last = ?3, reports = ?4, \
    reports_digest = ?5, feed_next = ?6, strangers = ?7 WHERE applied = ?1";
pub(crate) const PUT_ACCOUNT: &str = "INSERT OR REPLACE INTO accounts VALUES (?1, ?2, ?3, ?4)";
pub(crate) const PUT_INSTRUMENT: &str =
    "INSERT OR REPLACE INTO instruments VALUES (?1, ?2, ?3, ?4)";
