//! One order of the model, and what is told about it.

use types::{
    Nanos, NewOrder, OrderEvent, OrderFacts, OrderRef, OrderType, Phase, Price, SelfTrade, Side,
    TimeInForce,
};

/// Where an open order is. Orders of one place are ordered by [`Order::turn`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// In the displayed queue of the level of its price.
    Displayed,
    /// In the hidden queue of the level of its price.
    Hidden,
    /// In the market queue of its side (3.1).
    MarketQueue,
    /// In the stop list (6.1).
    StopList,
    /// A peg without a price (7.2).
    Parked,
    /// Waiting for the close (3.1, 3.2).
    Waiting,
    /// On its way in: in no queue.
    Incoming,
}

/// An open order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its terms as accepted (of a replace that kept its place: the new ones).
    pub terms: NewOrder,
    /// Public reference of the order.
    pub order_ref: OrderRef,
    /// Its type now: a triggered stop or a market-to-limit order that rests is something else.
    pub order_type: OrderType,
    /// Its limit or the present price of a peg; 0: none.
    pub price: Price,
    /// Open quantity, lots.
    pub open: u32,
    /// Displayed quantity, lots; 0: hidden.
    pub shown: u32,
    /// Quantity traded over all replaces, lots.
    pub traded: u32,
    /// Queue or list that the order is in.
    pub place: Place,
    /// When it came to the end of its present queue: the smaller, the further in front.
    pub turn: u64,
    /// When it was accepted; orders stops, pegs and waiting orders.
    pub arrival: u64,
    /// What a stop waits for (6.2, 6.3); `None` for a trailing stop that has seen no trigger price.
    pub effective_stop: Option<Price>,
}

impl Order {
    /// Whether it is good till a date that is not after `now` (5.6).
    pub(super) fn ends_by(&self, now: Nanos) -> bool {
        self.terms.time_in_force == TimeInForce::GoodTillDate && self.terms.expire_at <= now
    }

    /// An accepted order that is in no queue yet.
    pub(super) fn incoming(terms: NewOrder, order_ref: OrderRef) -> Order {
        let peg = matches!(terms.order_type, OrderType::PegPrimary | OrderType::PegMid);
        Order {
            terms,
            order_ref,
            order_type: terms.order_type,
            price: if peg { Price(0) } else { terms.price },
            open: terms.qty,
            shown: 0,
            traded: terms.traded,
            place: Place::Incoming,
            turn: 0,
            arrival: order_ref.0,
            effective_stop: None,
        }
    }

    /// Key of the order.
    pub fn key(&self) -> u64 {
        self.terms.key
    }

    /// Side that the order is on.
    pub fn side(&self) -> Side {
        self.terms.side
    }

    /// Whether it lies in a price level.
    pub fn in_level(&self) -> bool {
        matches!(self.place, Place::Displayed | Place::Hidden)
    }

    /// Whether it is a peg, priced or parked.
    pub fn is_peg(&self) -> bool {
        matches!(self.order_type, OrderType::PegPrimary | OrderType::PegMid)
    }

    /// Whether it may trade at a price (4.1): it has no limit, or the price is at or better.
    pub(super) fn takes(&self, price: Price) -> bool {
        match (self.order_type, self.side()) {
            (OrderType::Market | OrderType::MarketToLimit, _) => true,
            (_, Side::Buy) => price <= self.price,
            (_, Side::Sell) => price >= self.price,
        }
    }

    /// Whether a trade with `resting` is prevented because this order comes in (4.5).
    pub(super) fn prevents(&self, resting: &Order) -> bool {
        self.terms.self_trade != SelfTrade::Allow
            && self.terms.group != 0
            && self.terms.group == resting.terms.group
    }

    /// Whether its life ends with its entry in continuous trading (3.2).
    pub(super) fn immediate(&self) -> bool {
        matches!(self.terms.time_in_force, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// Whether it waits for the close when it is entered in this phase (3.1, 3.2).
    pub(super) fn waits_in(&self, phase: Phase) -> bool {
        self.terms.time_in_force == TimeInForce::AtTheClose && phase != Phase::ClosingCall
    }

    /// Lots it displays when it comes to the end of a displayed queue (1.3, 4.3).
    pub(super) fn displays(&self) -> u32 {
        let (display_qty, qty) = (self.terms.display_qty, self.terms.qty);
        if display_qty > 0 && display_qty < qty { display_qty.min(self.open) } else { self.open }
    }

    /// What can be compared of it.
    pub fn facts(&self) -> OrderFacts {
        OrderFacts {
            key: self.key(),
            order_ref: self.order_ref,
            side: self.side(),
            order_type: self.order_type,
            price: self.price,
            open: self.open,
            shown: self.shown,
            traded: self.traded,
        }
    }

    /// Takes lots away: those not displayed first, then shown ones (5.2). Returns the shown ones.
    pub(super) fn shrink_to(&mut self, open: u32) -> u32 {
        let shown = self.shown.min(open);
        let shown_less = self.shown - shown;
        self.open = open;
        self.shown = shown;
        shown_less
    }

    /// Takes lots away, shown ones first, as a trade does (4.2, 8.3). Returns the shown ones.
    pub(super) fn consume(&mut self, lots: u32) -> u32 {
        let shown = lots.min(self.shown);
        self.shown -= shown;
        self.open -= lots;
        shown
    }
}

/// One thing told: the event, the order after it and, for a trade, the other order after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The event that is told.
    pub event: OrderEvent,
    /// The order that the event is about, as it is after the event.
    pub order: OrderFacts,
    /// The other order of a trade, after the event; `None`: the event is no trade.
    pub other: Option<OrderFacts>,
}
