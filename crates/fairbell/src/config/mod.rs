//! The one configuration of a run: plain values with defaults, read from TOML, overridden by
//! options of the command line.
//!
//! [`keys`] says what each key may be; `fairbell.toml` in the repository carries every key with its
//! default, and a test keeps the three in step. [`Loaded`] remembers where each value came from, so
//! that every complaint names file, line and key.

pub mod keys;
mod load;
mod price_text;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use types::limits::{PRICE_MAX, QTY_MAX};
use types::{Instrument, InstrumentId, Nanos, Price, Qty, Symbol};

pub use load::{ConfigError, Loaded};

/// Everything that can be set.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// `[overlay]`
    pub overlay: Overlay,
    /// `[hold]`
    pub hold: Hold,
    /// `[sequencer]`
    pub sequencer: Sequencer,
    /// `[engine]`
    pub engine: Engine,
    /// `[gateway]`
    pub gateway: Gateway,
    /// `[ports]`
    pub ports: Ports,
    /// `[flow]`
    pub flow: Flow,
    /// `[[instrument]]`, the sample's first.
    #[serde(rename = "instrument")]
    pub instruments: Instruments,
    /// `[[account]]`, those of the built-in participants first.
    #[serde(rename = "account")]
    pub accounts: Accounts,
}

/// The tree of proxies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlay {
    /// Hops from the root to a receiver (D).
    pub depth: u32,
    /// Children of a node (F).
    pub fanout: u32,
    /// Receiver VMs, each with a gateway (N).
    pub receivers: u32,
    /// Siblings whose children a node also sends to (H).
    pub hedge: u32,
    /// Parents change with every message.
    pub dynamic_parents: bool,
    /// Longest time a market-data message waits for company in its datagram, microseconds.
    pub linger_us: u64,
}

/// Hold-and-release.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Hold {
    /// Length of a round of the delay all-reduce, milliseconds.
    pub round_ms: u64,
    /// One-way delays that a receiver's estimate is taken from.
    pub window_messages: u32,
    /// Percentile of these delays that it reports.
    pub percentile: f64,
    /// Largest delay that the root believes, milliseconds.
    pub cap_ms: u64,
    /// Largest error of a node's clock, nanoseconds.
    pub clock_bound_ns: u64,
}

/// The inbound sequencer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Sequencer {
    /// Orders are put in the order of their arrival times at the gateways.
    pub enabled: bool,
    /// How long an order may be waited for, microseconds.
    pub window_us: u64,
}

/// The matching engine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Engine {
    /// Inputs that the log holds (112 bytes each).
    pub log_capacity: u64,
    /// Orders that may be open at one time.
    pub open_orders_max: u32,
}

/// The order-entry gateways.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// Longest time an execution waits for its public tick, milliseconds.
    pub max_hold_ms: u64,
}

/// Where sockets listen.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// First port; 0 takes whatever is free.
    pub base: u32,
}

/// The built-in participants and what they play.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Client messages of the sample per second.
    pub rate: u64,
    /// Client messages per second on each instrument with generated flow.
    pub generated_rate: u64,
    /// Built-in participants: they log in with the first accounts.
    pub participants: u32,
    /// Seed of all randomness.
    pub seed: u64,
    /// Folder of the sample files.
    pub sample: String,
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
}

/// One account and the login of its sessions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AccountEntry {
    /// Who it is, for people.
    pub name: String,
    /// SoupBinTCP user name.
    pub username: String,
    /// SoupBinTCP password; never written out.
    #[serde(skip_serializing)]
    pub password: String,
}

/// The instruments, in order of their ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Instruments(pub Vec<InstrumentEntry>);

/// The accounts, in order of their ids.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Accounts(pub Vec<AccountEntry>);

impl Default for Overlay {
    fn default() -> Self {
        Overlay { depth: 2, fanout: 3, receivers: 9, hedge: 1, dynamic_parents: true, linger_us: 0 }
    }
}

impl Default for Hold {
    fn default() -> Self {
        Hold {
            round_ms: 50,
            window_messages: 1_000,
            percentile: 99.0,
            cap_ms: 20,
            clock_bound_ns: 100,
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
        Sequencer { enabled: true, window_us: 500 }
    }
}

impl Sequencer {
    /// Length of the window, 0 when the sequencer is off.
    pub fn window_ns(&self) -> u64 {
        if self.enabled { self.window_us * Nanos::MICRO } else { 0 }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Engine { log_capacity: 2_000_000, open_orders_max: 200_000 }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Gateway { max_hold_ms: 100 }
    }
}

impl Default for Ports {
    fn default() -> Self {
        Ports { base: 26_400 }
    }
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            rate: 10_000,
            generated_rate: 500,
            participants: 8,
            seed: 1,
            sample: ".cache/ob-analytics-0.1.0".to_string(),
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
        });
        let guest = AccountEntry {
            name: "guest, for your own client".to_string(),
            username: "GUEST".to_string(),
            password: "welcome".to_string(),
        };
        Accounts(built_in.chain([guest]).collect())
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

fn lot_decimals_default() -> u8 {
    0
}

impl Config {
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
}
