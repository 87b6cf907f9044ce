//! What an engine is made for: its instruments and every capacity.

use book::Capacity;
use types::limits::{ACCOUNTS_MAX, GATEWAYS_MAX, INSTRUMENTS_MAX, PRICE_MAX, QTY_MAX};
use types::{Instrument, ShardId};

/// Configuration of one shard. The same log needs the same configuration to give the same result.
#[derive(Clone, Debug)]
pub struct Config {
    /// This shard's number; inputs for another are refused.
    pub shard: ShardId,
    /// What is traded: ids dense from 1, in order.
    pub instruments: Vec<Instrument>,
    /// Highest account number.
    pub accounts_max: usize,
    /// Highest gateway number.
    pub gateways_max: usize,
    /// Resting orders of all instruments together.
    pub open_orders_max: usize,
    /// Room of each instrument's book.
    pub book: Capacity,
}

/// Why a configuration makes no engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// No instrument, or more than [`INSTRUMENTS_MAX`].
    InstrumentCount(usize),
    /// The instrument at this index does not have the id `index + 1`.
    InstrumentId(usize),
    /// The instrument at this index has a tick, price or quantity limit outside the exchange's.
    InstrumentLimits(usize),
    /// A capacity is zero or above its limit in [`types::limits`].
    Capacity(&'static str),
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigError::InstrumentCount(count) => {
                write!(f, "{count} instruments; 1 to {INSTRUMENTS_MAX} are possible")
            }
            ConfigError::InstrumentId(index) => {
                write!(f, "instrument at index {index} must have id {}", index + 1)
            }
            ConfigError::InstrumentLimits(index) => {
                write!(f, "instrument {}: tick, price_max or qty_max out of range", index + 1)
            }
            ConfigError::Capacity(name) => write!(f, "{name} is zero or too large"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Shard 0 with the exchange's limits and room for a quarter of a million orders.
    pub fn new(instruments: Vec<Instrument>) -> Config {
        Config {
            shard: ShardId(0),
            instruments,
            accounts_max: ACCOUNTS_MAX,
            gateways_max: GATEWAYS_MAX,
            open_orders_max: 1 << 18,
            book: Capacity { orders: 1 << 18, levels: 1 << 16 },
        }
    }

    /// Says whether an engine can be made of it.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        let count = self.instruments.len();
        if count == 0 || count > INSTRUMENTS_MAX {
            return Err(ConfigError::InstrumentCount(count));
        }
        for (index, instrument) in self.instruments.iter().enumerate() {
            if usize::from(instrument.id.0) != index + 1 {
                return Err(ConfigError::InstrumentId(index));
            }
            let price_ok = (1..=PRICE_MAX).contains(&instrument.price_max.0);
            let qty_ok = (1..=QTY_MAX).contains(&instrument.qty_max.0);
            if instrument.tick.0 < 1 || !price_ok || !qty_ok {
                return Err(ConfigError::InstrumentLimits(index));
            }
        }
        let capacities = [
            ("accounts_max", self.accounts_max, ACCOUNTS_MAX),
            ("gateways_max", self.gateways_max, GATEWAYS_MAX),
            ("open_orders_max", self.open_orders_max, 1 << 30),
            ("book.orders", self.book.orders as usize, 1 << 30),
            ("book.levels", self.book.levels as usize, 1 << 30),
        ];
        match capacities.into_iter().find(|&(_, value, most)| value == 0 || value > most) {
            Some((name, ..)) => Err(ConfigError::Capacity(name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{InstrumentId, Price, Qty, Symbol};

    #[test]
    fn every_wrong_key_is_named() {
        let instrument = Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("A").expect("a valid symbol"),
            tick: Price(1),
            price_max: Price(PRICE_MAX),
            qty_max: Qty(QTY_MAX),
            lot_decimals: 0,
        };
        let good = Config::new(vec![instrument]);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(Config::new(vec![]).check(), Err(ConfigError::InstrumentCount(0)));
        let twice = Config::new(vec![instrument, instrument]);
        assert_eq!(twice.check(), Err(ConfigError::InstrumentId(1)));
        let wide = Instrument { price_max: Price(PRICE_MAX + 1), ..instrument };
        assert_eq!(Config::new(vec![wide]).check(), Err(ConfigError::InstrumentLimits(0)));
        let none = Config { gateways_max: 0, ..good };
        assert_eq!(none.check(), Err(ConfigError::Capacity("gateways_max")));
    }
}
