//! What each configuration key may be: the single table behind validation and documentation.

use super::calendar::DAYS;
use super::clock::SOURCES;
use super::doors::CLIENT_CERTIFICATES;
use super::journal::{DURABILITIES, SYNCINGS};
use super::memory::WHEN_FULL;
use super::overlay::{DATA_PLANES, ESTIMATORS, MODES, PACES, PLANE_USES, POLICIES, QUEUES};
use super::store::ENGINES;
use super::telemetry::RECORDS;

/// What a key takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number within bounds, both included.
    Whole {
        /// Smallest.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A number within bounds, both included.
    Decimal {
        /// Smallest.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// Text of 1 to this many bytes.
    Text {
        /// Longest.
        max: usize,
    },
    /// Printable ASCII without spaces, 1 to this many bytes: a field of a wire format.
    Token {
        /// Longest.
        max: usize,
    },
    /// A price above zero as text, at most what 32 bits of 1/10000 hold.
    Price,
    /// The same, or zero for none.
    PriceOrNone,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of some of these words, at least one.
    Choices(&'static [&'static str]),
    /// A list of at least one text, each as [`Kind::Token`].
    Tokens {
        /// Longest of one.
        max: usize,
    },
}

/// A key and what it takes.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// `section.key`, for entries of a list without their index.
    pub path: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// An entry of the list must name it.
    pub required: bool,
}

/// Lists: `[[name]]`, and the most entries.
pub const LISTS: &[(&str, usize)] = &[
    ("instrument", types::limits::INSTRUMENTS_MAX),
    ("account", types::limits::ACCOUNTS_MAX),
    ("shard", types::limits::SHARDS_MAX),
    ("strategy", STRATEGIES_MAX),
];

/// Most strategies of a configuration: each is a thread of its own.
const STRATEGIES_MAX: usize = 64;

/// How the orders of a price share a trade.
pub const ALLOCATIONS: &[&str] = &["price-time", "pro-rata", "pro-rata-top"];
/// What makes stop orders active.
pub const TRIGGERS: &[&str] = &["trade", "touch"];
/// Versions of FIX.
pub const FIX_VERSIONS: &[&str] = &["4.4", "4.2", "5.0SP2"];
/// What FIX sessions are for.
pub const FIX_ROLES: &[&str] = &["orders", "drop-copy", "market-data"];
/// What happens to tags of 5000 and above that a session's dictionary does not have.
pub const CUSTOM_TAGS: &[&str] = &["refused", "tolerated"];

/// Every key there is.
pub const KEYS: &[Key] = &[
    whole("overlay.depth", 1, 6),
    whole("overlay.fanout", 1, 64),
    whole("overlay.receivers", 1, 256),
    whole("overlay.hedge", 0, 8),
    key("overlay.dynamic_parents", Kind::Switch),
    whole("overlay.linger_us", 0, 10_000),
    key("overlay.sealed", Kind::Switch),
    key("overlay.data_plane", Kind::Choices(DATA_PLANES)),
    key("overlay.duplicate_filter", Kind::Switch),
    key("overlay.kernel_stamps", Kind::Switch),
    whole("overlay.roll_call_ms", 0, 1_000),
    whole("overlay.change_tree_at_percent", 0, 95),
    whole("overlay.change_depth", 0, 6),
    whole("overlay.change_fanout", 0, 64),
    whole("overlay.standby", 0, 8),
    whole("overlay.replace_after_ms", 0, 60_000),
    whole("overlay.revise_at_percent", 0, 95),
    whole("overlay.revise_gain_us", 1, 10_000),
    key("overlay.hedging", Kind::Choice(POLICIES)),
    key("overlay.layer_hedges", Kind::Text { max: 32 }),
    key("overlay.hedge_mode", Kind::Choice(MODES)),
    whole("overlay.planes", 1, 4),
    key("overlay.plane_use", Kind::Choice(PLANE_USES)),
    whole("overlay.order_ways", 0, 4),
    key("overlay.slowest_first", Kind::Switch),
    whole("overlay.parity", 0, 32),
    whole("overlay.repair_cache", 0, 65_536),
    key("overlay.queue", Kind::Choice(QUEUES)),
    whole("overlay.queue_age_ms", 1, 1_000),
    whole("overlay.queue_gap_us", 0, 10_000),
    key("overlay.pacing", Kind::Choice(PACES)),
    whole("overlay.credits_per_ms", 1, 10_000),
    key("hold.enabled", Kind::Switch),
    whole("hold.round_ms", 1, 10_000),
    whole("hold.window_messages", 10, 100_000),
    key("hold.percentile", Kind::Decimal { min: 50.0, max: 99.9 }),
    key("hold.estimator", Kind::Choice(ESTIMATORS)),
    key("hold.target_percent", Kind::Decimal { min: 50.0, max: 99.9 }),
    whole("hold.samples", 0, 64),
    whole("hold.cap_ms", 1, 1_000),
    whole("hold.clock_bound_ns", 0, 1_000_000),
    whole("hold.observe_every", 0, 65_536),
    key("clock.source", Kind::Choice(SOURCES)),
    key("clock.phc", Kind::Text { max: 256 }),
    whole("clock.phc_ahead_s", 0, 100),
    whole("clock.asymmetry_us", 0, 10_000),
    whole("clock.wander_max_ppb", 1, 100_000),
    whole("clock.quarantine_us", 0, 1_000_000),
    whole("clock.neighbours", 1, 100),
    whole("clock.probe_every_ms", 1, 1_000),
    whole("clock.pure_us", 1, 1_000_000),
    whole("clock.virtual_offset_us", 0, 10_000),
    whole("clock.virtual_drift_ppb", 0, 100_000),
    key("sequencer.enabled", Kind::Switch),
    whole("sequencer.window_us", 1, 100_000),
    whole("sequencer.late_ppm", 0, 500_000),
    whole("sequencer.tie_us", 0, 1_000),
    whole("engine.log_capacity", 0, 20_000_000_000),
    whole("engine.open_orders_max", 1_000, 10_000_000),
    key("engine.unique_ids", Kind::Switch),
    key("loops.root", Kind::Text { max: 16 }),
    key("loops.edges", Kind::Text { max: 16 }),
    key("loops.outside", Kind::Text { max: 16 }),
    whole("loops.spin_us", 0, 1_000_000),
    whole("memory.inputs", 0, 50_000_000),
    whole("memory.reports", 0, 200_000_000),
    whole("memory.repair_mib", 1, 65_536),
    whole("memory.disk_mib", 0, 1_073_741_824),
    key("memory.when_full", Kind::Choice(WHEN_FULL)),
    key("memory.lock", Kind::Switch),
    key("journal.durability", Kind::Choice(DURABILITIES)),
    key("journal.dir", Kind::Text { max: 1_024 }),
    whole("journal.replicas", 3, 5),
    whole("journal.reserve", 0, 9),
    whole("journal.segment_mib", 2, 4_096),
    whole("journal.snapshot_every", 0, 1_000_000_000),
    key("journal.syncing", Kind::Choice(SYNCINGS)),
    whole("journal.checkpoint_every", 0, 1_000_000_000),
    key("store.follow", Kind::Switch),
    key("store.engine", Kind::Choice(ENGINES)),
    key("store.file", Kind::Text { max: 1_024 }),
    key("store.url", Kind::Text { max: 1_024 }),
    whole("store.poll_ms", 1, 60_000),
    key("enclaves.root", Kind::Text { max: 1_024 }),
    key("enclaves.attestor", Kind::Text { max: 1_024 }),
    whole("enclaves.boundary_us", 0, 100_000),
    key("telemetry.listen", Kind::Text { max: 64 }),
    key("telemetry.records", Kind::Choice(RECORDS)),
    key("telemetry.redis_url", Kind::Text { max: 1_024 }),
    key("telemetry.prefix", Kind::Token { max: 64 }),
    whole("telemetry.stream_entries", 1_000, 1_000_000_000),
    key("telemetry.dir", Kind::Text { max: 1_024 }),
    whole("telemetry.files_mib", 16, 1_048_576),
    whole("telemetry.queue_records", 1_024, 16_777_216),
    whole("gateway.max_hold_ms", 1, 10_000),
    whole("retransmission.kib_per_s", 1, 16_777_216),
    whole("retransmission.address_kib_per_s", 1, 16_777_216),
    whole("retransmission.unproven_kib_per_s", 1, 16_777_216),
    key("retransmission.known", Kind::Text { max: 256 }),
    whole("snapshot.connections", 1, 256),
    whole("snapshot.kib_per_ms", 1, 1_024),
    whole("snapshot.repair_per_s", 1, 100_000_000),
    whole("snapshot.stream_kib_per_s", 1, 16_777_216),
    whole("snapshot.setup_ms", 0, 10_000),
    key("gateway.fix_comp_id", Kind::Token { max: 24 }),
    whole("gateway.orders_per_s", 0, 1_000_000),
    whole("gateway.orders_burst", 0, 1_000_000),
    whole("gateway.cancels_per_s", 0, 2_000_000),
    whole("gateway.outstanding", 0, types::limits::UPLINK_WINDOW as u64),
    whole("gateway.cancel_grace_ms", 0, 3_600_000),
    key("admin.socket", Kind::Text { max: 100 }),
    key("doors.plain", Kind::Switch),
    key("doors.listen", Kind::Text { max: 64 }),
    key("doors.certificate", Kind::Text { max: 1_024 }),
    key("doors.key", Kind::Text { max: 1_024 }),
    key("doors.authorities", Kind::Text { max: 1_024 }),
    key("doors.client_certificates", Kind::Choice(CLIENT_CERTIFICATES)),
    key("doors.own_certificate", Kind::Text { max: 1_024 }),
    key("doors.own_key", Kind::Text { max: 1_024 }),
    key("doors.server_name", Kind::Text { max: 255 }),
    whole("doors.handshake_ms", 100, 60_000),
    whole("doors.logon_ms", 100, 15_000),
    whole("doors.half_open", 1, 1_000),
    whole("doors.half_open_per_address", 1, 1_000),
    whole("doors.subscriptions", 1, 64),
    whole("doors.tries", 1, 100_000),
    whole("doors.tries_per_s", 1, 10_000),
    whole("doors.checks_per_s", 1, 1_000),
    whole("doors.guesses_free", 1, 1_000),
    whole("doors.guess_wait_max_s", 1, 86_400),
    whole("doors.new_address_guesses", 1, 1_000_000),
    whole("doors.new_address_guess_s", 1, 86_400),
    whole("ports.base", 0, 60_000),
    key("ports.ring", Kind::Text { max: 150 }),
    whole("flow.rate", 1, 1_000_000),
    whole("flow.generated_rate", 0, 1_000_000),
    whole("flow.special_permille", 0, 500),
    whole("flow.participants", 1, 64),
    whole("flow.seed", 0, i64::MAX as u64),
    key("flow.sample", Kind::Text { max: 1_024 }),
    key("day.auctions", Kind::Switch),
    whole("day.indicative_ms", 1, 10_000),
    whole("day.opening_call_ms", 0, 60_000),
    whole("day.closing_call_ms", 0, 60_000),
    whole("day.halt_instrument", 0, types::limits::INSTRUMENTS_MAX as u64),
    whole("day.halt_at_percent", 1, 90),
    whole("day.halt_percent", 1, 50),
    whole("day.resume_percent", 1, 50),
    key("calendar.zone", Kind::Text { max: 64 }),
    key("calendar.days", Kind::Choice(DAYS)),
    key("calendar.weekdays", Kind::Text { max: 27 }),
    key("calendar.pre_open", Kind::Text { max: 8 }),
    key("calendar.opening_call", Kind::Text { max: 8 }),
    key("calendar.open", Kind::Text { max: 8 }),
    key("calendar.closing_call", Kind::Text { max: 8 }),
    key("calendar.close", Kind::Text { max: 8 }),
    key("calendar.end", Kind::Text { max: 8 }),
    key("calendar.halts", Kind::Text { max: 1_024 }),
    key("calendar.holidays", Kind::Text { max: 8_192 }),
    key("calendar.early_closes", Kind::Text { max: 8_192 }),
    whole("limits.order_lots", 0, i64::MAX as u64),
    whole("limits.order_value", 0, i64::MAX as u64),
    whole("limits.open_orders", 0, i64::MAX as u64),
    whole("limits.position_lots", 0, i64::MAX as u64),
    whole("limits.credit", 0, i64::MAX as u64),
    whole("limits.messages_per_s", 0, i64::MAX as u64),
    whole("limits.fat_finger_bp", 0, i64::MAX as u64),
    required("instrument.symbol", Kind::Token { max: 8 }),
    key("instrument.tick", Kind::Price),
    key("instrument.price_max", Kind::Price),
    whole("instrument.qty_max", 1, types::limits::QTY_MAX),
    whole("instrument.lot_decimals", 0, 8),
    whole("instrument.qty_min", 1, types::limits::QTY_MAX),
    key("instrument.reference", Kind::PriceOrNone),
    whole("instrument.static_collar_bp", 0, 10_000),
    whole("instrument.dynamic_collar_bp", 0, 10_000),
    key("instrument.allocation", Kind::Choice(ALLOCATIONS)),
    key("instrument.trigger", Kind::Choice(TRIGGERS)),
    whole("instrument.batch_ms", 0, 60_000),
    whole("instrument.tree", 0, 4),
    key("instrument.listed", Kind::Switch),
    required("account.name", Kind::Text { max: 64 }),
    required("account.username", Kind::Token { max: 6 }),
    key("account.password", Kind::Token { max: 10 }),
    key("account.password_hash", Kind::Text { max: 256 }),
    key("account.certificate", Kind::Text { max: 1_024 }),
    key("account.addresses", Kind::Text { max: 1_024 }),
    key("account.cancel_on_disconnect", Kind::Switch),
    whole("account.orders_per_s", 0, 1_000_000),
    whole("account.orders_burst", 0, 1_000_000),
    whole("account.cancels_per_s", 0, 2_000_000),
    key("account.fix_comp_id", Kind::Token { max: 24 }),
    key("account.fix_version", Kind::Choice(FIX_VERSIONS)),
    key("account.fix_role", Kind::Choice(FIX_ROLES)),
    key("account.fix_custom_tags", Kind::Choice(CUSTOM_TAGS)),
    key("account.fix_dictionary", Kind::Text { max: 1_024 }),
    key("account.fix_transport_dictionary", Kind::Text { max: 1_024 }),
    key("account.firm", Kind::Token { max: 24 }),
    required("shard.name", Kind::Text { max: 64 }),
    key("shard.symbols", Kind::Tokens { max: 8 }),
    required("strategy.account", Kind::Token { max: 6 }),
    required("strategy.module", Kind::Text { max: 1_024 }),
    required("strategy.key", Kind::Text { max: 1_024 }),
    key("strategy.signature", Kind::Text { max: 1_024 }),
    key("strategy.measurement", Kind::Text { max: 1_024 }),
    whole("strategy.answer_ms", 1, 10_000),
    key("strategy.settings", Kind::Text { max: 4_096 }),
    whole("strategy.edge", 1, 256),
    whole("strategy.fuel", 1_000, 1_000_000_000),
    whole("strategy.memory_kib", 64, 1 << 20),
    whole("strategy.actions", 1, 1_000),
    whole("strategy.unanswered", 1, 65_536),
    whole("strategy.module_kib", 1, 1 << 14),
    key("strategy.record", Kind::Text { max: 1_024 }),
];

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, required: false }
}

const fn whole(path: &'static str, min: u64, max: u64) -> Key {
    key(path, Kind::Whole { min, max })
}

const fn required(path: &'static str, kind: Kind) -> Key {
    Key { path, kind, required: true }
}

/// The key at `path`.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The known key most like `path`, when one is like it at all: one that goes on where it ends, as `redis_url`
/// does for `redis`, or one of three edits or fewer.
pub fn nearest(path: &str) -> Option<&'static str> {
    let goes_on =
        |key: &&Key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('_'));
    if let Some(key) = KEYS.iter().find(goes_on) {
        return Some(key.path);
    }
    let (distance, near) =
        KEYS.iter().map(|key| (edits(path, key.path), key.path)).min_by_key(|(d, _)| *d)?;
    (distance <= 3).then_some(near)
}

/// Levenshtein distance, one row at a time.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// A value as somebody wrote it.
#[derive(Clone, PartialEq, Debug)]
pub enum Given {
    /// A switch.
    Switch(bool),
    /// A whole number.
    Whole(i128),
    /// A number with a point or an exponent.
    Decimal(f64),
    /// Text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// Anything else, with its name.
    Other(&'static str),
}

impl Kind {
    /// What is wrong with `given`, or nothing.
    pub fn complaint(&self, given: &Given) -> Option<String> {
        let allowed = match (*self, given) {
            (Kind::Switch, Given::Switch(_)) => true,
            (Kind::Whole { min, max }, Given::Whole(n)) => {
                (i128::from(min)..=i128::from(max)).contains(n)
            }
            (Kind::Decimal { min, max }, Given::Whole(n)) => (min..=max).contains(&(*n as f64)),
            (Kind::Decimal { min, max }, Given::Decimal(x)) => (min..=max).contains(x),
            (Kind::Text { max }, Given::Text(text)) => (1..=max).contains(&text.len()),
            (Kind::Token { max }, Given::Text(text)) => {
                (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
            }
            (Kind::Tokens { max }, Given::Texts(texts)) => texts.iter().all(|text| {
                (1..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
            }),
            (Kind::Price, Given::Text(text)) => types::decimal::price(text)
                .is_some_and(|price| (1..=types::limits::PRICE_MAX).contains(&price.0)),
            (Kind::PriceOrNone, Given::Text(text)) => types::decimal::price(text)
                .is_some_and(|price| (0..=types::limits::PRICE_MAX).contains(&price.0)),
            (Kind::Choice(words), Given::Text(text)) => words.contains(&text.as_str()),
            (Kind::Choices(words), Given::Texts(texts)) => {
                !texts.is_empty() && texts.iter().all(|text| words.contains(&text.as_str()))
            }
            _ => false,
        };
        (!allowed).then(|| format!("must be {self}, is {given}"))
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Switch => f.write_str("true or false"),
            Kind::Whole { min, max } => write!(f, "{min}..={max}"),
            Kind::Decimal { min, max } => write!(f, "{min:.1}..={max:.1}"),
            Kind::Text { max } => write!(f, "text of 1 to {max} bytes"),
            Kind::Token { max } => write!(f, "1 to {max} ASCII characters without spaces"),
            Kind::Price => f.write_str("a price in quotes, \"0.0001\" to \"429496.7295\""),
            Kind::PriceOrNone => f.write_str("a price in quotes, \"0\" for none"),
            Kind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                f.write_str(&quoted.join(" or "))
            }
            Kind::Tokens { max } => {
                write!(f, "a list of 1 to {max} ASCII characters without spaces each")
            }
            Kind::Choices(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                write!(f, "a list of {}", quoted.join(", "))
            }
        }
    }
}

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Given::Switch(on) => write!(f, "{on}"),
            Given::Whole(n) => write!(f, "{n}"),
            Given::Decimal(x) => write!(f, "{x}"),
            Given::Text(text) => write!(f, "{text:?}"),
            Given::Texts(texts) => write!(f, "{texts:?}"),
            Given::Other(name) => write!(f, "{name}"),
        }
    }
}
