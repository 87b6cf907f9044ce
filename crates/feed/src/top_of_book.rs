//! Best prices of every option series, from OPRA's quotes.
//!
//! The exchange's processor says with every quote what it does to the best bid and offer: nothing,
//! this quote is the best one now, the best one is appended, or there is none any more. So the best
//! prices follow without keeping the quotes of all exchanges.

use std::collections::BTreeMap;

use fast::opra::{Best, Quote, Series};

/// Best bid and offer of a series over all exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Top {
    /// Best bid; `None`: there is none.
    pub bid: Option<Best>,
    /// Best offer; `None`: there is none.
    pub offer: Option<Best>,
    /// Number of quotes heard.
    pub quotes: u64,
}

/// Key of a series, in an order: symbol, year, month code, day, strike code, strike.
type Key = (u64, u8, u8, u8, u8, i64);

fn key(series: &Series) -> Key {
    let Series { symbol, month, day, year, strike_code, strike } = *series;
    (symbol, year, month, day, strike_code, strike.0)
}

/// What a quote does to the best price of one side.
enum Change {
    None,
    Quote,
    Appended,
    Gone,
}

/// Bid and offer by the indicator's letter: four by four, in the order of the alphabet.
fn changes(indicator: u8) -> (Change, Change) {
    let at = indicator.wrapping_sub(b'A');
    if at > 15 {
        return (Change::None, Change::None);
    }
    let bid = match at / 4 {
        0 => Change::None,
        1 => Change::Quote,
        2 => Change::Gone,
        _ => Change::Appended,
    };
    let offer = match at % 4 {
        0 => Change::None,
        1 => Change::Quote,
        2 => Change::Appended,
        _ => Change::Gone,
    };
    (bid, offer)
}

/// Best prices of all series that were heard of.
#[derive(Clone, Debug)]
pub struct TopOfBook {
    tops: BTreeMap<Key, Top>,
    series_max: usize,
    ignored: u64,
}

impl TopOfBook {
    /// Nothing heard; quotes of further series are counted only once there are `series_max`.
    pub fn new(series_max: usize) -> TopOfBook {
        TopOfBook { tops: BTreeMap::new(), series_max, ignored: 0 }
    }

    /// Takes a quote of `participant`; the best prices after it, unless there was no room.
    pub fn quote(&mut self, participant: u8, quote: &Quote) -> Option<Top> {
        let key = key(&quote.series);
        if self.tops.len() >= self.series_max && !self.tops.contains_key(&key) {
            self.ignored += 1;
            return None;
        }
        let top = self.tops.entry(key).or_default();
        top.quotes += 1;
        let (bid, offer) = changes(quote.bbo);
        let side = |change, now: &mut Option<Best>, own, appended| match change {
            Change::None => {}
            Change::Quote => *now = Some(own),
            Change::Appended => *now = appended,
            Change::Gone => *now = None,
        };
        let own = Best { participant, price: quote.bid, size: quote.bid_size };
        side(bid, &mut top.bid, own, quote.best_bid);
        let own = Best { participant, price: quote.offer, size: quote.offer_size };
        side(offer, &mut top.offer, own, quote.best_offer);
        Some(*top)
    }

    /// Best prices of a series; `None`: not heard of.
    pub fn get(&self, series: &Series) -> Option<&Top> {
        self.tops.get(&key(series))
    }

    /// Number of series heard of.
    pub fn len(&self) -> usize {
        self.tops.len()
    }

    /// Whether no series was heard of.
    pub fn is_empty(&self) -> bool {
        self.tops.is_empty()
    }

    /// Number of quotes for which there was no room.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fast::opra::Price;

    #[test]
    fn the_indicator_decides() {
        let mut book = TopOfBook::new(1);
        let best = |participant, price, size| Best { participant, price: Price(price), size };
        let quote = |bbo, bid, offer| Quote {
            bid: Price(bid),
            bid_size: 1,
            offer: Price(offer),
            offer_size: 2,
            bbo,
            best_bid: Some(best(b'P', 90, 7)),
            best_offer: Some(best(b'Q', 99, 8)),
            ..Quote::default()
        };
        let mut tell = |bbo, bid, offer| {
            book.quote(b'C', &quote(bbo, bid, offer));
            let top = book.get(&Series::default()).unwrap();
            (top.bid, top.offer)
        };
        let (own_bid, own_offer) = (Some(best(b'C', 10, 1)), Some(best(b'C', 12, 2)));
        assert_eq!(tell(b'F', 10, 12), (own_bid, own_offer));
        assert_eq!(tell(b'A', 11, 11), (own_bid, own_offer));
        assert_eq!(tell(b'C', 11, 11), (own_bid, Some(best(b'Q', 99, 8))));
        assert_eq!(tell(b'P', 11, 11), (Some(best(b'P', 90, 7)), None));
        assert_eq!(tell(b' ', 11, 11), (Some(best(b'P', 90, 7)), None));
        assert_eq!(tell(b'J', 11, 12), (None, own_offer));
        let other =
            Quote { series: Series { symbol: 1, ..Series::default() }, ..quote(b'F', 1, 2) };
        book.quote(b'C', &other);
        assert_eq!((book.len(), book.ignored(), book.get(&other.series)), (1, 1, None));
    }
}
