//! A table of instruments by symbol and by number, without hashing.

use types::{Instrument, InstrumentId, Symbol};

/// A fixed set of instruments: name to number by binary search, number to name by index.
///
/// Memory is bounded by the 16-bit instrument number. Of two instruments with one name or one
/// number the first given is found.
#[derive(Clone, Debug, Default)]
pub struct SymbolTable {
    by_name: Vec<(Symbol, InstrumentId)>,
    by_id: Vec<Option<Symbol>>,
}

impl SymbolTable {
    /// A table of the symbols and numbers of `instruments`.
    pub fn new(instruments: &[Instrument]) -> SymbolTable {
        let mut table = SymbolTable::default();
        for instrument in instruments {
            let slot = usize::from(instrument.id.0);
            if table.by_id.len() <= slot {
                table.by_id.resize(slot + 1, None);
            }
            if let Some(name @ None) = table.by_id.get_mut(slot) {
                *name = Some(instrument.symbol);
            }
            table.by_name.push((instrument.symbol, instrument.id));
        }
        table.by_name.sort_by_key(|&(symbol, _)| symbol);
        table.by_name.dedup_by_key(|&mut (symbol, _)| symbol);
        table
    }

    /// The number of the instrument called `symbol`.
    #[inline]
    pub fn id(&self, symbol: Symbol) -> Option<InstrumentId> {
        let found = self.by_name.binary_search_by_key(&symbol, |&(name, _)| name).ok()?;
        self.by_name.get(found).map(|&(_, id)| id)
    }

    /// The name of instrument `id`.
    #[inline]
    pub fn symbol(&self, id: InstrumentId) -> Option<Symbol> {
        self.by_id.get(usize::from(id.0)).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::SymbolTable;
    use types::{Instrument, InstrumentId, Price, Qty, Symbol};

    fn instrument(id: u16, name: &str) -> Instrument {
        Instrument {
            id: InstrumentId(id),
            symbol: Symbol::new(name).unwrap(),
            tick: Price(1),
            price_max: Price(1_000),
            qty_max: Qty(1_000),
            lot_decimals: 0,
        }
    }

    #[test]
    fn finds_both_ways_and_the_first_of_doubles() {
        let table = SymbolTable::new(&[
            instrument(3, "ZED"),
            instrument(1, "ABC"),
            instrument(7, "ABC"),
            instrument(1, "XYZ"),
        ]);
        let symbol = |name| Symbol::new(name).unwrap();
        assert_eq!(table.id(symbol("ABC")), Some(InstrumentId(1)));
        assert_eq!(table.id(symbol("ZED")), Some(InstrumentId(3)));
        assert_eq!(table.id(symbol("NONE")), None);
        assert_eq!(table.symbol(InstrumentId(1)), Some(symbol("ABC")));
        assert_eq!(table.symbol(InstrumentId(2)), None);
        assert_eq!(table.symbol(InstrumentId(u16::MAX)), None);
    }
}
