//! The one configuration of a run: plain values with defaults, read from TOML, overridden by
//! options of the command line.
//!
//! [`keys`] says what each key may be; `fairbell.toml` in the repository carries every key with its default, and a test
//! keeps the three in step. [`Loaded`] remembers where each value came from, so that every complaint names file, line and key.

mod calendar;
mod clock;
pub mod doors;
mod engine_section;
mod fix;
mod journal;
pub mod keys;
mod load;
pub mod loops;
mod memory;
mod overlay;
mod price_text;
mod retransmission;
pub mod shards;
mod snapshot;
mod store;
pub mod strategies;
pub mod telemetry;
mod throttles;

#[cfg(test)]
mod tests;

use engine::InstrumentRules;
use exchange::Spread;
use serde::{Deserialize, Serialize};
use types::limits::{PRICE_MAX, QTY_MAX};
use types::{Allocation, Instrument, InstrumentId, LimitKind, Nanos, Price, Qty, Symbol, Trigger};

pub use self::calendar::Calendar;
pub use self::clock::Clocks;
pub use self::engine_section::Engine;
pub use self::journal::Journal;
pub use self::store::{Store, shown_address};
pub use self::telemetry::Telemetry;
pub use doors::Doors;
pub use load::{CONFIG_FILE, ConfigError, Loaded, read, read_with_doors};
pub use loops::Loops;
pub use memory::Memory;
pub use overlay::Overlay;
pub use retransmission::Retransmission;
pub use shards::{ShardEntry, Shards};
pub use snapshot::Snapshot;
pub use strategies::{Enclaves, Strategies, StrategyEntry};
pub use throttles::throttle;

/// Everything that can be set.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// `[overlay]`
    pub overlay: Overlay,
    /// `[hold]`
    pub hold: Hold,
    /// `[clock]`
    pub clock: Clocks,
    /// `[sequencer]`
    pub sequencer: Sequencer,
    /// `[engine]`
    pub engine: Engine,
    /// `[loops]`
    pub loops: Loops,
    /// `[memory]`
    pub memory: Memory,
    /// `[journal]`
    pub journal: Journal,
    /// `[store]`
    pub store: Store,
    /// `[enclaves]`
    pub enclaves: Enclaves,
    /// `[telemetry]`
    pub telemetry: Telemetry,
    /// `[gateway]`
    pub gateway: Gateway,
    /// `[admin]`
    pub admin: Admin,
    /// `[doors]`
    pub doors: Doors,
    /// `[retransmission]`
    pub retransmission: Retransmission,
    /// `[snapshot]`
    pub snapshot: Snapshot,
    /// `[ports]`
    pub ports: Ports,
    /// `[flow]`
    pub flow: Flow,
    /// `[day]`
    pub day: Day,
    /// `[calendar]`
    pub calendar: Calendar,
    /// `[limits]`
    pub limits: RiskLimits,
    /// `[[instrument]]`, the sample's first.
    #[serde(rename = "instrument")]
    pub instruments: Instruments,
    /// `[[account]]`, those of the built-in participants first.
    #[serde(rename = "account")]
    pub accounts: Accounts,
    /// `[[shard]]`; none: one with all instruments.
    #[serde(rename = "shard")]
    pub shards: Shards,
    /// `[[strategy]]`; none by default.
    #[serde(rename = "strategy")]
    pub strategies: Strategies,
    /// Which shard it is read for, from 0: no key, each engine and log has its own.
    #[serde(skip)]
    pub of_shard: u16,
}

/// Hold-and-release.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Hold {
    /// Off: receivers release the feed as it comes.
    pub enabled: bool,
    /// Length of a round of the delay all-reduce, milliseconds.
    pub round_ms: u64,
    /// One-way delays that a receiver's estimate is taken from.
    pub window_messages: u32,
    /// Percentile of these delays that it reports.
    pub percentile: f64,
    /// How the fleet's delay is estimated.
    pub estimator: String,
    /// Share of datagrams that the estimators other than the paper's aim at, percent.
    pub target_percent: f64,
    /// Sampled messages per round; 0: none, or 32 where an option needs them.
    pub samples: u32,
    /// Largest delay that the root believes, milliseconds.
    pub cap_ms: u64,
    /// Largest error of a node's clock, nanoseconds.
    pub clock_bound_ns: u64,
    /// One of so many datagrams is observed at all edges of a fleet; 0: none.
    pub observe_every: u64,
}

/// The inbound sequencer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Sequencer {
    /// Orders are put in the order of their arrival times at the gateways.
    pub enabled: bool,
    /// How long an order may be waited for, microseconds.
    pub window_us: u64,
    /// Orders of a million that may be late, and the window is what it takes; 0: it stays.
    pub late_ppm: u32,
    /// Orders whose times are no further apart go in an order that is drawn, microseconds; 0: none.
    pub tie_us: u64,
}

/// The order-entry gateways.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// Longest time an execution waits for its public tick, milliseconds.
    pub max_hold_ms: u64,
    /// The exchange's CompID in FIX sessions.
    pub fix_comp_id: String,
    /// Orders and replaces per second of a session; 0: no limit.
    pub orders_per_s: u64,
    /// Of them at once; 0: a second's worth.
    pub orders_burst: u64,
    /// Cancels per second of a session; 0: twice the orders.
    pub cancels_per_s: u64,
    /// Requests of a session on their way to the log; 0: any number, no fair shares.
    pub outstanding: u32,
    /// From the end of a session to the cancelling of its orders, milliseconds.
    pub cancel_grace_ms: u64,
}

/// Where operators speak to a running exchange.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Admin {
    /// Unix-domain socket, relative to the folder of the report; `off`: none.
    pub socket: String,
}

/// Where sockets listen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// First port; 0 takes whatever is free.
    pub base: u32,
    /// Folder of the rings in shared memory that edges write the feed into, or `none`.
    pub ring: String,
}

/// The built-in participants and what they play.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Client messages per second of the sample, or without it of the first instrument's flow.
    pub rate: u64,
    /// Client messages per second on each other instrument; 0: none of it, and none without sample.
    pub generated_rate: u64,
    /// Of a thousand generated messages, orders with less usual terms: icebergs, hidden orders,
    /// stops, pegs and so on.
    pub special_permille: u64,
    /// Built-in participants: they log in with the first accounts.
    pub participants: u32,
    /// Seed of all randomness.
    pub seed: u64,
    /// Folder of the sample files.
    pub sample: String,
}

impl Flow {
    /// Client messages per second on the instrument at a place, from 0. Where there is no sample the
    /// first one's flow is generated, too, as fast as the sample would have been played.
    pub fn rate_of(&self, place: usize, recorded: bool) -> u64 {
        match (place, self.generated_rate) {
            (0, _) if recorded => self.rate,
            (_, 0) => 0,
            (0, _) => self.rate,
            (_, each) => each,
        }
    }

    /// The same of so many instruments together.
    pub fn rate_of_all(&self, instruments: usize, recorded: bool) -> u64 {
        (0..instruments).map(|place| self.rate_of(place, recorded)).sum()
    }
}

/// The trading day of `fairbell up`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Day {
    /// The day has an opening and a closing auction; otherwise orders trade from the first moment.
    pub auctions: bool,
    /// Between two publications of the indicative price of a call, milliseconds.
    pub indicative_ms: u64,
    /// Length of the opening call, milliseconds; 0: until participants that play from within are
    /// ready, or an operator ends it.
    pub opening_call_ms: u64,
    /// Length of the closing call, milliseconds.
    pub closing_call_ms: u64,
    /// Number of the instrument that is halted once during play, from 1; 0, or one that does
    /// not exist: none.
    pub halt_instrument: u32,
    /// When it is halted, in percent of the play.
    pub halt_at_percent: u32,
    /// Length of the halt, in percent of the play.
    pub halt_percent: u32,
    /// Length of the call after it, in percent of the play.
    pub resume_percent: u32,
}

/// Limits of every account, 0 for none; operators change them for one account or all.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RiskLimits {
    /// Lots of one order.
    pub order_lots: u64,
    /// Price times lots of one order, in 1/10000 of the quote currency times lots.
    pub order_value: u64,
    /// Orders open at a time.
    pub open_orders: u64,
    /// Position in one instrument either way, open orders counted as traded, in lots.
    pub position_lots: u64,
    /// Value of open orders and positions, as `order_value`.
    pub credit: u64,
    /// Requests per second.
    pub messages_per_s: u64,
    /// Distance of a limit price from the last price, in hundredths of a percent.
    pub fat_finger_bp: u64,
}

impl Default for RiskLimits {
    /// No one account can fill what all share; nothing else is limited.
    fn default() -> Self {
        RiskLimits { open_orders: 20_000, messages_per_s: 20_000, ..RiskLimits::NONE }
    }
}

impl RiskLimits {
    /// No limit at all.
    pub const NONE: RiskLimits = RiskLimits {
        order_lots: 0,
        order_value: 0,
        open_orders: 0,
        position_lots: 0,
        credit: 0,
        messages_per_s: 0,
        fat_finger_bp: 0,
    };

    /// As the engine takes them.
    pub fn values(&self) -> engine::Limits {
        let values = [
            (LimitKind::OrderQuantity, self.order_lots),
            (LimitKind::OrderNotional, self.order_value),
            (LimitKind::OpenOrders, self.open_orders),
            (LimitKind::Position, self.position_lots),
            (LimitKind::Credit, self.credit),
            (LimitKind::MessageRate, self.messages_per_s),
            (LimitKind::FatFinger, self.fat_finger_bp),
        ];
        let set = values.into_iter().filter(|(_, value)| *value > 0);
        set.fold(engine::Limits::NONE, |limits, (kind, value)| limits.with(kind, value))
    }
}

/// One traded instrument.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InstrumentEntry {
    /// Name on every wire.
    pub symbol: String,
    /// Smallest price step.
    #[serde(with = "price_text", default = "tick_default")]
    pub tick: Price,
    /// Largest limit price.
    #[serde(with = "price_text", default = "price_max_default")]
    pub price_max: Price,
    /// Largest order quantity, lots.
    #[serde(default = "qty_max_default")]
    pub qty_max: u64,
    /// Decimal places of one lot.
    #[serde(default = "lot_decimals_default")]
    pub lot_decimals: u8,
    /// Smallest order quantity, lots.
    #[serde(default = "qty_min_default")]
    pub qty_min: u64,
    /// Reference price of the first day; 0: none.
    #[serde(with = "price_text", default)]
    pub reference: Price,
    /// Half width of the static collar around the reference price, hundredths of a percent.
    #[serde(default)]
    pub static_collar_bp: u32,
    /// Half width of the dynamic collar around the last price, hundredths of a percent.
    #[serde(default)]
    pub dynamic_collar_bp: u32,
    /// How the orders of a price share a trade.
    #[serde(default = "allocation_default")]
    pub allocation: String,
    /// What makes stop orders active.
    #[serde(default = "trigger_default")]
    pub trigger: String,
    /// Interval of batch auctions in place of continuous trading, milliseconds; 0: none.
    #[serde(default)]
    pub batch_ms: u64,
    /// Its tree where trees are by symbol, from 1; 0: by its position in the list.
    #[serde(default)]
    pub tree: u32,
    /// Whether it is traded from the first day on; otherwise from the roll after an operator's
    /// `set-instrument SYMBOL listed 1`.
    #[serde(default = "listed_default")]
    pub listed: bool,
}

fn listed_default() -> bool {
    true
}

impl InstrumentEntry {
    /// The rules it is traded by.
    pub fn rules(&self, instrument: &Instrument) -> InstrumentRules {
        InstrumentRules {
            qty_min: Qty(self.qty_min.min(self.qty_max)),
            reference: self.reference,
            static_collar_bp: self.static_collar_bp,
            dynamic_collar_bp: self.dynamic_collar_bp,
            allocation: match self.allocation.as_str() {
                "pro-rata" => Allocation::ProRata { top_order: false, min_allocation: 0 },
                "pro-rata-top" => Allocation::ProRata { top_order: true, min_allocation: 0 },
                _ => Allocation::PriceTime,
            },
            trigger: match self.trigger.as_str() {
                "touch" => Trigger::Touch,
                _ => Trigger::LastTrade,
            },
            held: self.listed,
            ..InstrumentRules::of(instrument)
        }
    }
}

/// One account and the login of its sessions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AccountEntry {
    /// Who it is, for people.
    pub name: String,
    /// SoupBinTCP user name.
    pub username: String,
    /// SoupBinTCP password; never written out. Empty: there is a hash.
    #[serde(skip_serializing, default)]
    pub password: String,
    /// Hash of the password; empty: there is the password.
    #[serde(skip_serializing, default)]
    pub password_hash: String,
    /// Certificates that its clients must have; empty: none.
    #[serde(default)]
    pub certificate: String,
    /// Addresses that its clients must come from; empty: any.
    #[serde(default)]
    pub addresses: String,
    /// Its orders are cancelled when its session has been gone for the grace time.
    #[serde(default)]
    pub cancel_on_disconnect: bool,
    /// Its own rate of orders, with its burst and twice as many cancels; 0: the gateway's.
    #[serde(default)]
    pub orders_per_s: u64,
    /// Of them at once; 0: a second's worth.
    #[serde(default)]
    pub orders_burst: u64,
    /// Its own rate of cancels; 0: twice the orders' if it has a rate, else the gateway's.
    #[serde(default)]
    pub cancels_per_s: u64,
    /// Its CompID: it is served over FIX, and not over OUCH; empty: it has none.
    #[serde(default)]
    pub fix_comp_id: String,
    /// Version of its FIX session.
    #[serde(default = "fix::version_default")]
    pub fix_version: String,
    /// What its FIX session is for.
    #[serde(default = "fix::role_default")]
    pub fix_role: String,
    /// What happens to tags of 5000 and above that its dictionary does not have.
    #[serde(default = "fix::custom_tags_default")]
    pub fix_custom_tags: String,
    /// File of its dictionary in QuickFIX's XML format; empty: the exchange's own.
    #[serde(default)]
    pub fix_dictionary: String,
    /// The same of FIXT 1.1 under FIX 5.0 SP2.
    #[serde(default)]
    pub fix_transport_dictionary: String,
    /// Its firm, whose drop-copy sessions get copies of its reports; empty: it has none.
    #[serde(default)]
    pub firm: String,
}

/// The instruments, in order of their ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instruments(pub Vec<InstrumentEntry>);

/// The accounts, in order of their ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Accounts(pub Vec<AccountEntry>);

impl Default for Hold {
    fn default() -> Self {
        Hold {
            enabled: true,
            round_ms: 50,
            window_messages: 1_000,
            percentile: 99.0,
            estimator: overlay::ESTIMATORS[0].to_string(),
            target_percent: 99.0,
            samples: 0,
            cap_ms: 20,
            clock_bound_ns: 100,
            observe_every: 16,
        }
    }
}

impl Hold {
    /// The percentile in thousandths of the whole, as the overlay takes it.
    pub fn percentile_permille(&self) -> u32 {
        (self.percentile * 10.0).round() as u32
    }
}

impl Default for Sequencer {
    fn default() -> Self {
        Sequencer { enabled: true, window_us: 500, late_ppm: 0, tie_us: 0 }
    }
}

impl Sequencer {
    /// Length of the window, 0 when the sequencer is off.
    pub fn window_ns(&self) -> u64 {
        if self.enabled { self.window_us * Nanos::MICRO } else { 0 }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Gateway {
            max_hold_ms: 100,
            fix_comp_id: "FAIRBELL".to_string(),
            orders_per_s: 5_000,
            orders_burst: 1_000,
            cancels_per_s: 0,
            outstanding: exchange::OUTSTANDING,
            cancel_grace_ms: 1_000,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Admin { socket: "admin.sock".to_string() }
    }
}

impl Default for Ports {
    fn default() -> Self {
        Ports { base: 26_400, ring: doors::NONE.to_string() }
    }
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            rate: 10_000,
            generated_rate: 500,
            special_permille: 60,
            participants: 8,
            seed: 1,
            sample: ".cache/ob-analytics-0.1.0".to_string(),
        }
    }
}

impl Default for Day {
    fn default() -> Self {
        Day {
            auctions: true,
            indicative_ms: 100,
            opening_call_ms: 0,
            closing_call_ms: 500,
            halt_instrument: 3,
            halt_at_percent: 40,
            halt_percent: 5,
            resume_percent: 5,
        }
    }
}

impl Default for Instruments {
    fn default() -> Self {
        let of = |symbol: &str, tick, lot_decimals| InstrumentEntry {
            symbol: symbol.to_string(),
            tick,
            price_max: price_max_default(),
            qty_max: qty_max_default(),
            lot_decimals,
            qty_min: qty_min_default(),
            reference: Price(0),
            static_collar_bp: 0,
            dynamic_collar_bp: 0,
            allocation: allocation_default(),
            trigger: trigger_default(),
            batch_ms: 0,
            tree: 0,
            listed: listed_default(),
        };
        Instruments(vec![
            of("BTCUSD", Price::from_whole(1), 8),
            of("GENA", Price(100), 0),
            of("GENB", Price(100), 0),
        ])
    }
}

impl Default for Accounts {
    fn default() -> Self {
        let built_in = (1..=8).map(|n| AccountEntry {
            name: format!("built-in participant {n}"),
            username: format!("FLOW{n:02}"),
            password: "flow".to_string(),
            password_hash: String::new(),
            certificate: String::new(),
            addresses: String::new(),
            cancel_on_disconnect: false,
            orders_per_s: 0,
            orders_burst: 0,
            cancels_per_s: 0,
            fix_comp_id: String::new(),
            fix_version: fix::version_default(),
            fix_role: fix::role_default(),
            fix_custom_tags: fix::custom_tags_default(),
            fix_dictionary: String::new(),
            fix_transport_dictionary: String::new(),
            firm: String::new(),
        });
        let guest = AccountEntry {
            name: "guest, for your own client".to_string(),
            username: "GUEST".to_string(),
            password: "welcome".to_string(),
            password_hash: String::new(),
            certificate: String::new(),
            addresses: String::new(),
            cancel_on_disconnect: false,
            orders_per_s: 0,
            orders_burst: 0,
            cancels_per_s: 0,
            fix_comp_id: String::new(),
            fix_version: fix::version_default(),
            fix_role: fix::role_default(),
            fix_custom_tags: fix::custom_tags_default(),
            fix_dictionary: String::new(),
            fix_transport_dictionary: String::new(),
            firm: "GUESTS".to_string(),
        };
        let fix_guest = AccountEntry {
            name: "guest, for your own FIX client".to_string(),
            username: "FIXGST".to_string(),
            fix_comp_id: "GUEST".to_string(),
            ..guest.clone()
        };
        Accounts(built_in.chain([guest, fix_guest]).collect())
    }
}

fn tick_default() -> Price {
    Price(100)
}

fn price_max_default() -> Price {
    Price(PRICE_MAX)
}

fn qty_max_default() -> u64 {
    QTY_MAX
}

fn qty_min_default() -> u64 {
    1
}

fn allocation_default() -> String {
    keys::ALLOCATIONS[0].to_string()
}

fn trigger_default() -> String {
    keys::TRIGGERS[0].to_string()
}

fn lot_decimals_default() -> u8 {
    0
}

impl Config {
    /// Whether the day has auctions that no calendar holds.
    pub fn has_auctions(&self) -> bool {
        self.day.auctions && !self.calendar.is_on()
    }

    /// The instruments as the exchange knows them, ids dense from 1; entries whose symbol is not a
    /// valid one are left out (a checked configuration has none).
    pub fn instruments(&self) -> Vec<Instrument> {
        let of = |(index, entry): (usize, &InstrumentEntry)| {
            Some(Instrument {
                id: InstrumentId(index as u16 + 1),
                symbol: Symbol::new(&entry.symbol)?,
                tick: entry.tick,
                price_max: entry.price_max,
                qty_max: Qty(entry.qty_max),
                lot_decimals: entry.lot_decimals,
            })
        };
        self.instruments.0.iter().enumerate().filter_map(of).collect()
    }

    /// What the planes are used for, with the tree of each instrument.
    pub fn spread(&self) -> Spread {
        let entry = |of: &Instrument| {
            let found = self.instruments.0.iter().find(|entry| entry.symbol == of.symbol.as_str());
            found.and_then(|entry| entry.tree.checked_sub(1)).map(|tree| tree as u16)
        };
        match self.overlay.by_symbol() {
            true => Spread::Symbols(self.instruments().iter().map(entry).collect()),
            false => Spread::Messages,
        }
    }

    /// The rules of these instruments, in order.
    pub fn rules(&self) -> Vec<InstrumentRules> {
        let instruments = self.instruments();
        let entry = |of: &Instrument| {
            let found = self.instruments.0.iter().find(|entry| entry.symbol == of.symbol.as_str());
            found.map_or_else(|| InstrumentRules::of(of), |entry| entry.rules(of))
        };
        instruments.iter().map(entry).collect()
    }
}
