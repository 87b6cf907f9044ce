//! A displayed book built from market events alone: what a perfect reader of the feed holds.
//!
//! It is the audit's second opinion on the engine, so it shares no code with `book`: plain ordered
//! maps, one entry per order. It allocates and is not for the hot path.

use std::collections::BTreeMap;

use types::{MarketEvent, OrderRef, Price, Qty, Side, displayed_book};

/// An event that does not fit what is displayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageError {
    /// Names an order that is not displayed.
    UnknownOrder(OrderRef),
    /// Adds an order that is displayed already.
    KnownOrder(OrderRef),
    /// Takes more than is displayed.
    TooMuch(OrderRef),
}

impl std::fmt::Display for ImageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ImageError::UnknownOrder(order) => write!(f, "order {order} is not displayed"),
            ImageError::KnownOrder(order) => write!(f, "order {order} is displayed already"),
            ImageError::TooMuch(order) => write!(f, "order {order} has less than was taken"),
        }
    }
}

impl std::error::Error for ImageError {}

/// Price (the better the smaller, so negative for bids), then arrival.
type Rank = (i64, u64);

/// The displayed book of one instrument.
#[derive(Clone, Debug, Default)]
pub struct DisplayedBook {
    orders: BTreeMap<OrderRef, (Side, Rank)>,
    bids: BTreeMap<Rank, (OrderRef, Qty)>,
    asks: BTreeMap<Rank, (OrderRef, Qty)>,
    arrivals: u64,
}

impl DisplayedBook {
    /// What an engine's book, by its place, displays now.
    pub(crate) fn of(books: &book::Books, place: u16) -> DisplayedBook {
        let mut image = DisplayedBook::default();
        for side in [Side::Buy, Side::Sell] {
            for (order_ref, price, qty) in books.displayed(place, side) {
                // Each order is displayed once.
                let _ = image.add(order_ref, side, qty, price);
            }
        }
        image
    }

    /// Applies an event of this book's instrument; events that concern no order change nothing.
    ///
    /// # Errors
    /// [`ImageError`], with nothing changed.
    pub fn apply(&mut self, event: &MarketEvent) -> Result<(), ImageError> {
        match *event {
            MarketEvent::SystemEvent { .. }
            | MarketEvent::Directory { .. }
            | MarketEvent::TradingAction { .. }
            | MarketEvent::Trade { .. }
            | MarketEvent::CrossTrade { .. }
            | MarketEvent::BrokenTrade { .. }
            | MarketEvent::Imbalance { .. }
            | MarketEvent::Collar { .. } => Ok(()),
            MarketEvent::AddOrder { order_ref, side, qty, price, .. } => {
                self.add(order_ref, side, qty, price)
            }
            MarketEvent::OrderExecuted { order_ref, qty, .. }
            | MarketEvent::OrderExecutedWithPrice { order_ref, qty, .. }
            | MarketEvent::OrderCancel { order_ref, qty, .. } => self.take(order_ref, qty),
            MarketEvent::OrderDelete { order_ref, .. } => self.remove(order_ref).map(|_| ()),
            MarketEvent::OrderReplace { old_ref, new_ref, qty, price, .. } => {
                if self.orders.contains_key(&new_ref) {
                    return Err(ImageError::KnownOrder(new_ref));
                }
                let side = self.remove(old_ref)?;
                self.add(new_ref, side, qty, price)
            }
        }
    }

    /// Its digest; see [`types::displayed_book`].
    pub fn digest(&self) -> u64 {
        displayed_book(self.side(Side::Buy), self.side(Side::Sell))
    }

    /// The orders of a side, best price first and in queue order within a price.
    pub fn side(&self, side: Side) -> impl Iterator<Item = (OrderRef, Price, Qty)> {
        let queue = match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        };
        queue.iter().map(|(rank, &(order_ref, qty))| (order_ref, Price(rank.0.abs()), qty))
    }

    /// Number of displayed orders.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Whether nothing is displayed.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    fn add(
        &mut self,
        order_ref: OrderRef,
        side: Side,
        qty: Qty,
        price: Price,
    ) -> Result<(), ImageError> {
        if self.orders.contains_key(&order_ref) {
            return Err(ImageError::KnownOrder(order_ref));
        }
        self.arrivals += 1;
        let rank = match side {
            Side::Buy => (-price.0, self.arrivals),
            Side::Sell => (price.0, self.arrivals),
        };
        self.orders.insert(order_ref, (side, rank));
        self.queue(side).insert(rank, (order_ref, qty));
        Ok(())
    }

    fn take(&mut self, order_ref: OrderRef, qty: Qty) -> Result<(), ImageError> {
        let unknown = ImageError::UnknownOrder(order_ref);
        let &(side, rank) = self.orders.get(&order_ref).ok_or(unknown)?;
        let entry = self.queue(side).get_mut(&rank).ok_or(unknown)?;
        let left = entry.1.0.checked_sub(qty.0).ok_or(ImageError::TooMuch(order_ref))?;
        entry.1 = Qty(left);
        if left == 0 {
            self.remove(order_ref)?;
        }
        Ok(())
    }

    fn remove(&mut self, order_ref: OrderRef) -> Result<Side, ImageError> {
        let removed = self.orders.remove(&order_ref);
        let (side, rank) = removed.ok_or(ImageError::UnknownOrder(order_ref))?;
        self.queue(side).remove(&rank);
        Ok(side)
    }

    fn queue(&mut self, side: Side) -> &mut BTreeMap<Rank, (OrderRef, Qty)> {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{InstrumentId, MatchNumber};

    const I: InstrumentId = InstrumentId(1);

    fn add(order: u64, side: Side, qty: u64, price: i64) -> MarketEvent {
        let (order_ref, qty, price) = (OrderRef(order), Qty(qty), Price(price));
        MarketEvent::AddOrder { instrument: I, order_ref, side, qty, price }
    }

    #[test]
    fn queues_follow_price_then_arrival() {
        let mut image = DisplayedBook::default();
        for event in [
            add(1, Side::Buy, 5, 100),
            add(2, Side::Buy, 5, 101),
            add(3, Side::Buy, 5, 101),
            add(4, Side::Sell, 5, 103),
            MarketEvent::OrderReplace {
                instrument: I,
                old_ref: OrderRef(2),
                new_ref: OrderRef(5),
                qty: Qty(7),
                price: Price(101),
            },
            MarketEvent::OrderExecuted {
                instrument: I,
                order_ref: OrderRef(3),
                qty: Qty(2),
                match_number: MatchNumber(1),
            },
            MarketEvent::OrderCancel { instrument: I, order_ref: OrderRef(4), qty: Qty(5) },
        ] {
            image.apply(&event).expect("a consistent feed");
        }
        let bids: Vec<_> = image.side(Side::Buy).map(|(o, p, q)| (o.0, p.0, q.0)).collect();
        assert_eq!(bids, [(3, 101, 3), (5, 101, 7), (1, 100, 5)]);
        assert_eq!(image.side(Side::Sell).count(), 0);
    }

    #[test]
    fn events_that_do_not_fit_are_named_and_change_nothing() {
        let mut image = DisplayedBook::default();
        image.apply(&add(1, Side::Buy, 5, 100)).expect("a first order");
        let digest = image.digest();
        let cancel = |order, qty| MarketEvent::OrderCancel {
            instrument: I,
            order_ref: OrderRef(order),
            qty: Qty(qty),
        };
        assert_eq!(image.apply(&cancel(1, 6)), Err(ImageError::TooMuch(OrderRef(1))));
        assert_eq!(image.apply(&cancel(2, 1)), Err(ImageError::UnknownOrder(OrderRef(2))));
        let again = add(1, Side::Sell, 1, 200);
        assert_eq!(image.apply(&again), Err(ImageError::KnownOrder(OrderRef(1))));
        assert_eq!(image.digest(), digest);
    }
}
