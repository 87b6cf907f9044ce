//! What the engine knows of one instrument beside its book: rules in force, reference and closing
//! price, collars.

use types::{Digest, InstrumentParam, Price, Qty, TickTable};

use crate::codec::{Reader, SnapshotError, Writer};
use crate::config::{COLLAR_MAX_BP, InstrumentRules};

/// One instrument's market.
#[derive(Clone, Debug)]
pub(crate) struct Market {
    /// Bounds of limit prices by the static collar; all prices without one.
    pub(crate) low: Price,
    pub(crate) high: Price,
    pub(crate) price_max: Price,
    pub(crate) qty_min: Qty,
    pub(crate) qty_max: Qty,
    /// The last price the dynamic collar was laid around; 0: none yet.
    pub(crate) last: Price,
    pub(crate) dynamic_bp: u32,
    pub(crate) static_bp: u32,
    pub(crate) reference: Price,
    /// Price at the end of the last day; 0: none.
    pub(crate) closing: Price,
    /// Volatility interruptions of the day.
    pub(crate) extensions: u32,
    /// Whether this shard has it.
    pub(crate) held: bool,
    pub(crate) ticks: TickTable,
    /// A tick that took the place of the configured table at a roll; 0: none has.
    own_tick: Price,
    /// What the next roll brings: the tick; 0: the one there is.
    pub(crate) next_tick: Price,
    /// And whether it is traded then; `None`: as it is.
    pub(crate) next_listed: Option<bool>,
    /// The tick, when it is the same at all prices and fits 32 bits; otherwise 0.
    tick: u32,
}

impl Market {
    pub(crate) fn new(rules: &InstrumentRules) -> Market {
        let mut market = Market {
            low: Price(0),
            high: rules.price_max,
            price_max: rules.price_max,
            qty_min: rules.qty_min,
            qty_max: rules.qty_max,
            last: Price(0),
            dynamic_bp: rules.dynamic_collar_bp,
            static_bp: rules.static_collar_bp,
            reference: rules.reference,
            closing: Price(0),
            extensions: 0,
            held: rules.held,
            ticks: rules.ticks,
            own_tick: Price(0),
            next_tick: Price(0),
            next_listed: None,
            tick: one_tick(&rules.ticks),
        };
        market.collar();
        market
    }

    /// The price that an order's value and distance are judged by: the last, else the reference.
    #[inline]
    pub(crate) fn price(&self) -> Price {
        if self.last.0 != 0 { self.last } else { self.reference }
    }

    /// Whether a price within the instrument's range is a multiple of its tick.
    #[inline(always)]
    pub(crate) fn fits(&self, price: Price) -> bool {
        self.tick == 1 || self.fits_ticks(price)
    }

    #[inline(never)]
    fn fits_ticks(&self, price: Price) -> bool {
        match (self.tick, u32::try_from(price.0)) {
            (tick, Ok(price)) if tick != 0 => price.is_multiple_of(tick),
            _ => self.ticks.fits(price),
        }
    }

    /// One tick for all prices takes the place of what there was.
    pub(crate) fn set_tick(&mut self, tick: Price) {
        assert!(tick.0 > 0, "a tick is positive");
        (self.own_tick, self.ticks) = (tick, TickTable::uniform(tick));
        self.tick = one_tick(&self.ticks);
    }

    /// The reference price is one that an order could have, the next one below where it is none:
    /// an auction may trade at it. The last price of pegs to the middle may be none, and with a new
    /// tick any price.
    pub(crate) fn refer_to(&mut self, price: Price) {
        self.reference = self.ticks.below(Price(price.0 + 1));
        self.collar();
    }

    /// Lays the static collar around the reference price.
    pub(crate) fn collar(&mut self) {
        (self.low, self.high) = match around(self.reference, self.static_bp) {
            Some((low, high)) => (low, high.min(self.price_max)),
            None => (Price(0), self.price_max),
        };
    }

    /// The dynamic collar around a price; `None` when there is none.
    pub(crate) fn dynamic_collar(&self, price: Price) -> Option<(Price, Price)> {
        around(price, self.dynamic_bp)
    }

    /// Sets a parameter; false when the value is not one it may have.
    pub(crate) fn set(&mut self, param: InstrumentParam, price: Price, qty: Qty) -> bool {
        match param {
            InstrumentParam::Reference => {
                let valid = (0..=self.price_max.0).contains(&price.0) && self.fits(price);
                if valid {
                    self.reference = price;
                }
                valid
            }
            InstrumentParam::StaticCollar => set_collar(&mut self.static_bp, qty),
            InstrumentParam::DynamicCollar => set_collar(&mut self.dynamic_bp, qty),
            InstrumentParam::QtyMin => {
                let valid = (1..=self.qty_max.0).contains(&qty.0);
                if valid {
                    self.qty_min = qty;
                }
                valid
            }
            InstrumentParam::QtyMax => {
                let most = types::limits::QTY_MAX;
                let valid = (self.qty_min.0..=most).contains(&qty.0);
                if valid {
                    self.qty_max = qty;
                }
                valid
            }
            InstrumentParam::Tick => {
                let valid = (1..=self.price_max.0).contains(&price.0);
                if valid {
                    self.next_tick = price;
                }
                valid
            }
            InstrumentParam::Listed => {
                if qty.0 <= 1 {
                    self.next_listed = Some(qty.0 == 1);
                }
                qty.0 <= 1
            }
            // Of the venue, not of a market: module `moves`.
            InstrumentParam::Shard | InstrumentParam::Placed => false,
        }
    }

    /// What is not the configuration's, as words.
    fn words(&self) -> [u64; 11] {
        [
            self.qty_min.0,
            self.qty_max.0,
            self.last.0 as u64,
            u64::from(self.static_bp) << 32 | u64::from(self.dynamic_bp),
            self.reference.0 as u64,
            self.closing.0 as u64,
            u64::from(self.extensions),
            u64::from(self.held),
            self.own_tick.0 as u64,
            self.next_tick.0 as u64,
            self.next_listed.map_or(0, |listed| 1 + u64::from(listed)),
        ]
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        self.words().into_iter().for_each(|word| digest.fold(word));
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.words().into_iter().for_each(|word| out.u64(word));
    }

    /// Takes up what [`Market::write`] wrote.
    pub(crate) fn read(&mut self, bytes: &mut Reader) -> Result<(), SnapshotError> {
        (self.qty_min, self.qty_max) = (Qty(bytes.u64()?), Qty(bytes.u64()?));
        self.last = Price(bytes.i64()?);
        let collars = bytes.u64()?;
        (self.static_bp, self.dynamic_bp) = ((collars >> 32) as u32, collars as u32);
        (self.reference, self.closing) = (Price(bytes.i64()?), Price(bytes.i64()?));
        self.extensions = u32::try_from(bytes.u64()?).map_err(|_| bytes.damaged())?;
        self.held = match bytes.u64()? {
            0 => false,
            1 => true,
            _ => return Err(bytes.damaged()),
        };
        let (own, next) = (Price(bytes.i64()?), Price(bytes.i64()?));
        self.next_listed = match bytes.u64()? {
            0 => None,
            listed @ 1..=2 => Some(listed == 2),
            _ => return Err(bytes.damaged()),
        };
        if !(0..=self.price_max.0).contains(&own.0) || !(0..=self.price_max.0).contains(&next.0) {
            return Err(bytes.damaged());
        }
        self.next_tick = next;
        if own.0 != 0 {
            self.set_tick(own);
        }
        let prices = [self.last, self.reference, self.closing];
        let sound = prices.iter().all(|price| (0..=types::limits::PRICE_MAX).contains(&price.0))
            && self.static_bp.max(self.dynamic_bp) <= COLLAR_MAX_BP
            && (1..=self.qty_max.0).contains(&self.qty_min.0)
            && self.qty_max.0 <= types::limits::QTY_MAX
            && self.fits(self.reference);
        if !sound {
            return Err(bytes.damaged());
        }
        self.collar();
        Ok(())
    }
}

fn one_tick(ticks: &TickTable) -> u32 {
    let [first, others @ ..] = ticks.bands();
    let same = others.iter().all(|band| band.1 == first.1);
    if same { u32::try_from(first.1.0).unwrap_or(0) } else { 0 }
}

fn set_collar(bp: &mut u32, value: Qty) -> bool {
    match u32::try_from(value.0).ok().filter(|&value| value <= COLLAR_MAX_BP) {
        Some(value) => {
            *bp = value;
            true
        }
        None => false,
    }
}

/// The prices within `bp` hundredths of a percent of a price, both ends included; `None` without
/// a price or a width.
fn around(price: Price, bp: u32) -> Option<(Price, Price)> {
    if price.0 == 0 || bp == 0 {
        return None;
    }
    let half = i128::from(price.0) * i128::from(bp) / i128::from(COLLAR_MAX_BP);
    // The width is at most the price itself.
    let half = half as i64;
    Some((Price(price.0.saturating_sub(half)), Price(price.0.saturating_add(half))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Instrument, InstrumentId, Symbol};

    fn market(ticks: TickTable) -> Market {
        let instrument = Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("A").expect("a valid symbol"),
            tick: Price(1),
            price_max: Price(100_000),
            qty_max: Qty(100),
            lot_decimals: 0,
        };
        Market::new(&InstrumentRules { ticks, ..InstrumentRules::of(&instrument) })
    }

    #[test]
    fn the_short_way_to_the_tick_is_the_tables() {
        let bands = [(Price(0), Price(1)), (Price(100), Price(5)), (Price(1_000), Price(50))];
        let banded = TickTable::new(&bands).expect("a sound table");
        let tables = [
            banded,
            TickTable::uniform(Price(1)),
            TickTable::uniform(Price(7)),
            TickTable::uniform(Price(1 << 40)),
        ];
        for ticks in tables {
            let market = market(ticks);
            for price in (1..3_000).map(Price) {
                assert_eq!(market.fits(price), ticks.fits(price), "{price} of {ticks:?}");
            }
        }
    }

    #[test]
    fn collars_lie_around_their_price() {
        assert_eq!(around(Price(1_000), 500), Some((Price(950), Price(1_050))));
        assert_eq!(around(Price(999), 1), Some((Price(999), Price(999))), "rounded down");
        assert_eq!(around(Price(0), 500), None);
        assert_eq!(around(Price(1_000), 0), None);
        let most = Price(types::limits::PRICE_MAX);
        assert_eq!(around(most, COLLAR_MAX_BP), Some((Price(0), Price(2 * most.0))));
    }
}
