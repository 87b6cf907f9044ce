//! Books as levels and as orders: what changed between two of them, checksums, and how they are written.

use std::collections::{BTreeMap, BTreeSet};

use feed::BookImage;
use serde_json::{Value, json};
use types::{Instrument, OrderRef, Price, Side};

use super::{CHECKED, DEPTH, SIDES};
use crate::decimal::lots_text;

/// Price and lots, best first.
pub(super) type Levels = Vec<(Price, u64)>;
/// An order's name in the feed, its price and lots.
pub(super) type Placed = (OrderRef, Price, u64);
/// Orders of a side, best level first, each level from first to last.
pub(super) type Queue = Vec<Placed>;

/// Orders of a side that are told: those of whole levels, the best level whatever it has.
pub const ORDERS_MAX: usize = 5_000;

/// The best levels of both sides.
pub(super) fn levels(image: &BookImage, of: &Instrument) -> [Levels; 2] {
    SIDES.map(|side| {
        let levels = image.depth(of.id, side).take(DEPTH);
        levels.map(|level| (level.price, level.qty.0)).collect()
    })
}

/// The orders of the best levels of both sides.
pub(super) fn queues(image: &BookImage, of: &Instrument) -> [Queue; 2] {
    SIDES.map(|side| {
        let (mut orders, mut levels) = (0, 0);
        let fits = |level: &feed::Level| {
            orders += level.orders as usize;
            levels += 1;
            levels == 1 || (levels <= DEPTH && orders <= ORDERS_MAX)
        };
        let worst = image.depth(of.id, side).take_while(fits).last().map(|level| level.price);
        let Some(worst) = worst else { return Queue::new() };
        let within = |price: Price| match side {
            Side::Buy => price >= worst,
            Side::Sell => price <= worst,
        };
        let orders = image.orders(of.id, side).take_while(|(_, price, _)| within(*price));
        orders.map(|(order, price, qty)| (order, price, qty.0)).collect()
    })
}

/// Levels that differ: those of `is` that `was` has not, and with 0 lots those that are gone.
pub(super) fn changes(was: &Levels, is: &Levels) -> Levels {
    let of = |levels: &Levels| levels.iter().copied().collect::<BTreeMap<_, _>>();
    let (before, after) = (of(was), of(is));
    let new = is.iter().filter(|(price, lots)| before.get(price) != Some(lots)).copied();
    let gone =
        was.iter().filter(|(price, _)| !after.contains_key(price)).map(|(price, _)| (*price, 0));
    new.chain(gone).collect()
}

/// How the orders of a side changed: first these go, then these have other lots and keep their places,
/// then these come, each behind all others at its price.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Moves {
    pub gone: Vec<OrderRef>,
    pub changed: Vec<(OrderRef, u64)>,
    pub come: Vec<Placed>,
}

/// What makes `is` out of `was`. An order that has lost its place goes and comes.
pub(super) fn moves(was: &Queue, is: &Queue) -> Moves {
    let places: BTreeMap<OrderRef, (usize, Price, u64)> = was
        .iter()
        .enumerate()
        .map(|(place, (order, price, lots))| (*order, (place, *price, *lots)))
        .collect();
    let (mut moves, mut kept) = (Moves::default(), BTreeSet::new());
    let (mut level, mut last, mut behind) = (None, 0, false);
    for &(order, price, lots) in is {
        if level != Some(price) {
            (level, last, behind) = (Some(price), 0, false);
        }
        match places.get(&order) {
            // Behind the one before it, as it was; and nothing that comes is before it.
            Some(&(place, at, had)) if at == price && !behind && place + 1 > last => {
                last = place + 1;
                kept.insert(order);
                if had != lots {
                    moves.changed.push((order, lots));
                }
            }
            _ => {
                behind = true;
                moves.come.push((order, price, lots));
            }
        }
    }
    moves.gone = was.iter().map(|(order, ..)| *order).filter(|of| !kept.contains(of)).collect();
    moves
}

pub(super) fn level_json(of: &Instrument, (price, lots): (Price, u64)) -> Value {
    json!([price.to_string(), lots_text(lots, of.lot_decimals)])
}

pub(super) fn order_json(of: &Instrument, (order, price, lots): Placed) -> Value {
    json!([order.0.to_string(), price.to_string(), lots_text(lots, of.lot_decimals)])
}

pub(super) fn moves_json(of: &Instrument, moves: &Moves) -> Value {
    let changed = moves
        .changed
        .iter()
        .map(|(order, lots)| json!([order.0.to_string(), lots_text(*lots, of.lot_decimals)]));
    json!({
        "gone": moves.gone.iter().map(|order| order.0.to_string()).collect::<Vec<_>>(),
        "changed": changed.collect::<Vec<_>>(),
        "come": moves.come.iter().map(|placed| order_json(of, *placed)).collect::<Vec<_>>(),
    })
}

/// Appends a number's digits without its point and without zeros in front.
fn put(text: &mut String, number: &str) {
    let digits: String = number.chars().filter(|letter| *letter != '.').collect();
    text.push_str(digits.trim_start_matches('0'));
}

/// The CRC32 of the ten best levels: asks from the best, then bids from the best; of each its price, then
/// its quantity, as they are written but without the point and without zeros in front.
pub(super) fn checksum(of: &Instrument, sides: &[Levels; 2]) -> u32 {
    let mut text = String::new();
    for (price, lots) in sides.iter().rev().flat_map(|levels| levels.iter().take(CHECKED)) {
        put(&mut text, &price.to_string());
        put(&mut text, &lots_text(*lots, of.lot_decimals));
    }
    crc32fast::hash(text.as_bytes())
}

/// As [`checksum`], of the orders of the ten best levels in the order of their queues; of each its number,
/// price and quantity.
pub(super) fn queue_checksum(of: &Instrument, sides: &[Queue; 2]) -> u32 {
    let mut text = String::new();
    for queue in sides.iter().rev() {
        let (mut levels, mut last) = (0, None);
        for (order, price, lots) in queue {
            levels += usize::from(last != Some(*price));
            last = Some(*price);
            if levels > CHECKED {
                break;
            }
            text.push_str(&order.0.to_string());
            put(&mut text, &price.to_string());
            put(&mut text, &lots_text(*lots, of.lot_decimals));
        }
    }
    crc32fast::hash(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use types::{InstrumentId, Qty, SplitMix64, Symbol, limits};

    use super::*;

    fn instrument(lot_decimals: u8) -> Instrument {
        Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("AAA").expect("a symbol"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals,
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_written_digits() {
        let sides =
            [vec![(Price(999_900), 50)], vec![(Price(1_000_000), 1), (Price(1_000_500), 20)]];
        // 100 and 0.1, 100.0500 and 2, then 99.9900 and 5: without points and zeros in front.
        let due = crc32fast::hash(b"1001100050029999005");
        assert_eq!(checksum(&instrument(1), &sides), due);
        let other = [vec![(Price(999_900), 51)], sides[1].clone()];
        assert_ne!(checksum(&instrument(1), &other), checksum(&instrument(1), &sides));
    }

    #[test]
    fn the_checksum_of_orders_knows_their_places() {
        let placed = |order, lots| (OrderRef(order), Price(1_000_000), lots);
        let sides = [vec![placed(7, 5), placed(9, 10)], vec![]];
        // 7 at 100 for 0.5, then 9 for 1.
        assert_eq!(queue_checksum(&instrument(1), &sides), crc32fast::hash(b"7100591001"));
        let swapped = [vec![placed(9, 10), placed(7, 5)], vec![]];
        assert_ne!(
            queue_checksum(&instrument(1), &sides),
            queue_checksum(&instrument(1), &swapped)
        );
    }

    #[test]
    fn changes_make_the_new_book_out_of_the_old() {
        println!("seed 28");
        let mut rng = SplitMix64::new(28);
        let mut was: Levels = Vec::new();
        let mut book = BTreeMap::new();
        for _ in 0..500 {
            let mut is = BTreeMap::new();
            for _ in 0..rng.below(12) {
                is.insert(Price(rng.below(15) as i64), 1 + rng.below(3));
            }
            let is: Levels = is.into_iter().rev().collect();
            for (price, lots) in changes(&was, &is) {
                if lots == 0 {
                    assert!(book.remove(&price).is_some(), "only what was there goes");
                } else {
                    book.insert(price, lots);
                }
            }
            assert_eq!(book.iter().rev().map(|(p, q)| (*p, *q)).collect::<Levels>(), is);
            was = is;
        }
    }

    /// What a client makes of moves.
    fn play(queue: &mut Queue, moves: &Moves) {
        for gone in &moves.gone {
            let place = queue.iter().position(|(order, ..)| order == gone).expect("it was there");
            queue.remove(place);
        }
        for (changed, lots) in &moves.changed {
            let of = queue.iter_mut().find(|(order, ..)| order == changed);
            of.expect("it is there").2 = *lots;
        }
        for placed in &moves.come {
            let place = queue.iter().position(|(_, price, _)| *price > placed.1);
            queue.insert(place.unwrap_or(queue.len()), *placed);
        }
    }

    #[test]
    fn moves_make_the_new_queues_out_of_the_old() {
        println!("seed 29");
        let mut rng = SplitMix64::new(29);
        let (mut was, mut client) = (Queue::new(), Queue::new());
        let (mut kept, mut all) = (0, 0);
        for round in 0..2_000 {
            let mut is = was.clone();
            for _ in 0..rng.below(4) {
                let any = rng.below(is.len().max(1) as u64) as usize;
                match rng.below(5) {
                    0 if !is.is_empty() => drop(is.remove(any)),
                    1 if !is.is_empty() => is[any].2 = 1 + rng.below(9),
                    // Whatever else might be: another order, another price.
                    2 if !is.is_empty() => is.swap(any, 0),
                    3 if !is.is_empty() => is[any].1 = Price(rng.below(6) as i64),
                    _ => is.push((OrderRef(round), Price(rng.below(6) as i64), 1 + rng.below(9))),
                }
            }
            is.sort_by_key(|(_, price, _)| *price);
            let mut seen = BTreeSet::new();
            is.retain(|(order, ..)| seen.insert(*order));
            let told = moves(&was, &is);
            assert_eq!(told == Moves::default(), was == is);
            (kept, all) = (kept + was.len() - told.gone.len(), all + was.len());
            play(&mut client, &told);
            assert_eq!(client, is, "{told:?}");
            was = is;
        }
        assert!(kept * 2 > all, "most keep their places: {kept} of {all}");
    }
}
