//! What an engine is made for: its instruments with their rules, its accounts and every capacity.

use book::{BookConfig, Capacity};
use types::limits::{ACCOUNTS_MAX, GATEWAYS_MAX, INSTRUMENTS_MAX, PRICE_MAX, QTY_MAX, SHARDS_MAX};
use types::{
    AccountId, Allocation, Digest, Instrument, LimitKind, Price, Qty, SelfTrade, ShardId,
    TickTable, Trigger,
};

/// Largest collar, in hundredths of a percent: a price may double or go to nothing.
pub const COLLAR_MAX_BP: u32 = 10_000;

/// Most orders, levels, stops or pegs of all books together.
pub(crate) const ORDERS_MAX: usize = 1 << 30;

const _: () = assert!(ORDERS_MAX < u32::MAX as usize, "places in the books are 32 bits");
const _: () = assert!(ACCOUNTS_MAX <= u16::MAX as usize);
const _: () = assert!(GATEWAYS_MAX <= u16::MAX as usize);
const _: () = assert!(INSTRUMENTS_MAX < u16::MAX as usize, "numbers are places plus one");
const _: () = assert!(PRICE_MAX <= i64::MAX / 2, "twice a price, for a collar's upper end");
const _: () = assert!(QTY_MAX <= u32::MAX as u64, "lots of an order in the books");

/// How one instrument is traded. Times and phases are not here: they come as commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstrumentRules {
    /// Price steps.
    pub ticks: TickTable,
    /// Smallest order in lots.
    pub qty_min: Qty,
    /// Largest order in lots.
    pub qty_max: Qty,
    /// Largest limit price.
    pub price_max: Price,
    /// Half width of the static collar around the reference price, in hundredths of a percent;
    /// 0: none.
    pub static_collar_bp: u32,
    /// Half width of the dynamic collar around the last price, likewise.
    pub dynamic_collar_bp: u32,
    /// Reference price of the first day; 0: none.
    pub reference: Price,
    /// Quote currency (ISO 4217), for statements.
    pub currency: [u8; 3],
    /// Decimal exponent of one price unit: -4 for ten-thousandths of the currency.
    pub price_exponent: i8,
    /// How lots are shared among the orders of a price.
    pub allocation: Allocation,
    /// What makes stops active.
    pub trigger: Trigger,
    /// Whether this shard has the instrument from the start; otherwise it can be attached.
    pub held: bool,
}

impl InstrumentRules {
    /// The plain rules of an instrument: one tick, no collars, price-time, stops by last trade.
    pub fn of(instrument: &Instrument) -> InstrumentRules {
        InstrumentRules {
            ticks: TickTable::uniform(instrument.tick),
            qty_min: Qty(1),
            qty_max: instrument.qty_max,
            price_max: instrument.price_max,
            static_collar_bp: 0,
            dynamic_collar_bp: 0,
            reference: Price(0),
            currency: *b"USD",
            price_exponent: -4,
            allocation: Allocation::PriceTime,
            trigger: Trigger::LastTrade,
            held: true,
        }
    }

    /// Whether an engine can trade by them.
    fn sound(&self) -> bool {
        (1..=PRICE_MAX).contains(&self.price_max.0)
            && (1..=QTY_MAX).contains(&self.qty_max.0)
            && (1..=self.qty_max.0).contains(&self.qty_min.0)
            && (0..=self.price_max.0).contains(&self.reference.0)
            && self.ticks.fits(self.reference)
            && self.static_collar_bp <= COLLAR_MAX_BP
            && self.dynamic_collar_bp <= COLLAR_MAX_BP
    }

    fn fold(&self, digest: &mut Digest) {
        for (from, tick) in self.ticks.bands() {
            digest.fold(from.0 as u64);
            digest.fold(tick.0 as u64);
        }
        let allocation = match self.allocation {
            Allocation::PriceTime => 0,
            Allocation::ProRata { top_order, min_allocation } => {
                1 << 40 | u64::from(top_order) << 32 | u64::from(min_allocation)
            }
        };
        let [a, b, c] = self.currency;
        let words = [
            self.qty_min.0,
            self.qty_max.0,
            self.price_max.0 as u64,
            u64::from(self.static_collar_bp) << 32 | u64::from(self.dynamic_collar_bp),
            self.reference.0 as u64,
            u64::from_le_bytes([a, b, c, self.price_exponent as u8, 0, 0, 0, 0]),
            allocation,
            u64::from(self.trigger == Trigger::Touch) << 1 | u64::from(self.held),
        ];
        words.into_iter().for_each(|word| digest.fold(word));
    }
}

/// Values of all kinds of limit; see [`LimitKind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    values: [u64; LimitKind::ALL.len()],
}

impl Limits {
    /// The value that stands for no limit.
    pub const UNLIMITED: u64 = u64::MAX;
    /// No limits.
    pub const NONE: Limits = Limits { values: [Limits::UNLIMITED; LimitKind::ALL.len()] };

    /// One limit; [`Limits::UNLIMITED`] for none.
    pub fn get(&self, kind: LimitKind) -> u64 {
        self.values[kind as usize]
    }

    /// Sets one limit.
    pub fn set(&mut self, kind: LimitKind, value: u64) {
        self.values[kind as usize] = value;
    }

    /// With one limit set.
    pub fn with(mut self, kind: LimitKind, value: u64) -> Limits {
        self.set(kind, value);
        self
    }
}

/// Configuration of one shard. The same log needs the same configuration to give the same result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// This shard's number; inputs for another are refused.
    pub shard: ShardId,
    /// What is traded: ids dense from 1, in order, the same list on every shard.
    pub instruments: Vec<Instrument>,
    /// Rules by instrument id less one; instruments beyond its end have [`InstrumentRules::of`].
    pub rules: Vec<InstrumentRules>,
    /// Highest account number.
    pub accounts_max: usize,
    /// Highest gateway number.
    pub gateways_max: usize,
    /// Room of all books together.
    pub book: Capacity,
    /// Shards of the venue; with more than one this shard has a part of the limits that span them.
    pub shards: u16,
    /// Limits of accounts for which none was set.
    pub limits: Limits,
    /// Self-trade group by account less one; accounts beyond its end are their own group.
    pub groups: Vec<u16>,
    /// Self-trade prevention by account less one for orders that say [`SelfTrade::Allow`].
    pub self_trade: Vec<SelfTrade>,
    /// Refuse an order whose identifier (unless blank) is that of an open order of its account.
    /// OUCH allows that, so it is off unless asked for.
    pub unique_cl_ord_id: bool,
    /// Last trades that can still be broken or corrected.
    pub trades_kept: usize,
}

/// Why a configuration makes no engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// No instrument, or more than [`INSTRUMENTS_MAX`].
    InstrumentCount(usize),
    /// The instrument at this index does not have the id `index + 1`.
    InstrumentId(usize),
    /// The instrument at this index has a tick, price, quantity or collar outside the exchange's.
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
                let id = index + 1;
                write!(f, "instrument {id}: tick, price, quantity or collar out of range")
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
            rules: Vec::new(),
            accounts_max: ACCOUNTS_MAX,
            gateways_max: GATEWAYS_MAX,
            book: Capacity { orders: 1 << 18, levels: 1 << 16, stops: 1 << 12, pegs: 1 << 12 },
            shards: 1,
            limits: Limits::NONE,
            groups: Vec::new(),
            self_trade: Vec::new(),
            unique_cl_ord_id: false,
            trades_kept: 1 << 16,
        }
    }

    /// The rules of the instrument at an index of [`Config::instruments`].
    ///
    /// # Panics
    /// When there is no such instrument.
    pub fn rules_of(&self, index: usize) -> InstrumentRules {
        let rules = self.rules.get(index).copied();
        rules.unwrap_or_else(|| InstrumentRules::of(&self.instruments[index]))
    }

    /// What the books are made of.
    pub(crate) fn books(&self) -> Vec<BookConfig> {
        let book = |rules: InstrumentRules| BookConfig {
            ticks: rules.ticks,
            allocation: rules.allocation,
            trigger: rules.trigger,
        };
        (0..self.instruments.len()).map(|index| book(self.rules_of(index))).collect()
    }

    /// The shard that owns the limits of an account.
    ///
    /// # Panics
    /// For account 0, which is nobody.
    pub fn home_of(&self, account: AccountId) -> ShardId {
        ShardId((account.0 - 1) % self.shards.max(1))
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
            if instrument.tick.0 < 1 || !self.rules_of(index).sound() {
                return Err(ConfigError::InstrumentLimits(index));
            }
        }
        if !(1..=SHARDS_MAX).contains(&usize::from(self.shards))
            || (self.shards > 1 && self.shard.0 >= self.shards)
        {
            return Err(ConfigError::Capacity("shards"));
        }
        let capacities = [
            ("accounts_max", self.accounts_max, ACCOUNTS_MAX),
            ("gateways_max", self.gateways_max, GATEWAYS_MAX),
            ("book.orders", self.book.orders as usize, ORDERS_MAX),
            ("book.levels", self.book.levels as usize, ORDERS_MAX),
            ("book.stops", self.book.stops as usize, ORDERS_MAX),
            ("book.pegs", self.book.pegs as usize, ORDERS_MAX),
            ("trades_kept", self.trades_kept, 1 << 24),
        ];
        match capacities.into_iter().find(|&(_, value, most)| value == 0 || value > most) {
            Some((name, ..)) => Err(ConfigError::Capacity(name)),
            None => Ok(()),
        }
    }

    /// Digest of everything in it: logs and snapshots carry it, so that they are not read by an
    /// engine that would give other results.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        digest.fold(u64::from(self.shard.0));
        digest.fold(self.instruments.len() as u64);
        for (index, instrument) in self.instruments.iter().enumerate() {
            digest.fold(u64::from_le_bytes(instrument.symbol.0));
            self.rules_of(index).fold(&mut digest);
        }
        let book = self.book;
        for capacity in [book.orders, book.levels, book.stops, book.pegs] {
            digest.fold(u64::from(capacity));
        }
        self.limits.values.into_iter().for_each(|value| digest.fold(value));
        digest.fold(self.accounts_max as u64);
        digest.fold(self.gateways_max as u64);
        digest.fold(self.groups.len() as u64);
        self.groups.iter().for_each(|&group| digest.fold(u64::from(group)));
        digest.fold(self.self_trade.len() as u64);
        self.self_trade.iter().for_each(|&way| digest.fold(way as u64));
        digest.fold(u64::from(self.unique_cl_ord_id));
        digest.fold(self.trades_kept as u64);
        if self.shards > 1 {
            digest.fold(u64::from(self.shards));
        }
        digest.0
    }

    /// This configuration with as many gateways as give it the digest `wanted`. A run may have more or fewer edges
    /// than its file says (options of the command), and a log's header has the digest alone. `None`: something else is
    /// different, too.
    pub fn with_digest(&self, wanted: u64) -> Option<Config> {
        let mut with = self.clone();
        for gateways_max in std::iter::once(self.gateways_max).chain(1..=GATEWAYS_MAX) {
            with.gateways_max = gateways_max;
            if with.digest() == wanted {
                return Some(with);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{InstrumentId, Symbol};

    fn instrument() -> Instrument {
        Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("A").expect("a valid symbol"),
            tick: Price(1),
            price_max: Price(PRICE_MAX),
            qty_max: Qty(QTY_MAX),
            lot_decimals: 0,
        }
    }

    #[test]
    fn every_wrong_key_is_named() {
        let instrument = instrument();
        let good = Config::new(vec![instrument]);
        assert_eq!(good.check(), Ok(()));
        assert_eq!(Config::new(vec![]).check(), Err(ConfigError::InstrumentCount(0)));
        let twice = Config::new(vec![instrument, instrument]);
        assert_eq!(twice.check(), Err(ConfigError::InstrumentId(1)));
        let wide = Instrument { price_max: Price(PRICE_MAX + 1), ..instrument };
        assert_eq!(Config::new(vec![wide]).check(), Err(ConfigError::InstrumentLimits(0)));
        for gateways_max in [1, 2, GATEWAYS_MAX] {
            let wanted = Config { gateways_max, ..good.clone() };
            let found = good.with_digest(wanted.digest()).expect("another number of gateways");
            assert_eq!(found.gateways_max, gateways_max);
        }
        let other = Config { accounts_max: good.accounts_max + 1, ..good.clone() };
        assert!(good.with_digest(other.digest()).is_none(), "not the gateways alone");
        let none = Config { gateways_max: 0, ..good.clone() };
        assert_eq!(none.check(), Err(ConfigError::Capacity("gateways_max")));
        let collar = InstrumentRules {
            static_collar_bp: COLLAR_MAX_BP + 1,
            ..InstrumentRules::of(&instrument)
        };
        let collared = Config { rules: vec![collar], ..good };
        assert_eq!(collared.check(), Err(ConfigError::InstrumentLimits(0)));
    }

    #[test]
    fn the_digest_tells_configurations_apart() {
        let plain = Config::new(vec![instrument()]);
        let rules = InstrumentRules::of(&instrument());
        let said = Config { rules: vec![rules], ..plain.clone() };
        assert_eq!(plain.digest(), said.digest(), "the default said aloud is the same");
        let pro_rata = Allocation::ProRata { top_order: false, min_allocation: 0 };
        let others = [
            Config { trades_kept: 5, ..plain.clone() },
            Config { groups: vec![7], ..plain.clone() },
            Config { unique_cl_ord_id: true, ..plain.clone() },
            Config { limits: Limits::NONE.with(LimitKind::Credit, 1), ..plain.clone() },
            Config {
                rules: vec![InstrumentRules { allocation: pro_rata, ..rules }],
                ..plain.clone()
            },
        ];
        assert!(others.iter().all(|other| other.digest() != plain.digest()));
    }
}
