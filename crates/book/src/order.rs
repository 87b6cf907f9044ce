//! An order as the books hold it: two cache lines, the first with all that matching and cancelling
//! touch.

use types::{
    ClOrdId, Nanos, NewOrder, OrderFacts, OrderRef, OrderType, Price, SelfTrade, Side, TimeInForce,
};

use crate::index::IdHash;

/// Structure in which an order lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Home {
    /// In no place: the slot is free.
    Free = 0,
    /// In none: not placed yet, or taken out for a moment.
    Loose = 1,
    /// In the displayed queue of a level.
    Shown = 2,
    /// In the hidden queue of a level.
    Hidden = 3,
    /// In the market queue of its side.
    Market = 4,
    /// In the stop list of its side.
    Stop = 5,
    /// Waits for the closing call to begin.
    Waiting = 6,
    /// Parked: a peg without a price to peg to.
    Parked = 7,
}

/// An order in the books. All quantities in lots, prices in ten-thousandths.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Order {
    pub(crate) key: u64,
    pub(crate) order_ref: u64,
    pub(crate) price: i64,
    pub(crate) open: u32,
    pub(crate) shown: u32,
    pub(crate) traded: u32,
    /// Neighbours in the queue it is in; in a free slot `next` is the next free one.
    pub(crate) prev: u32,
    pub(crate) next: u32,
    /// Slot of its price level, if it is in one.
    pub(crate) place: u32,
    pub(crate) book: u16,
    pub(crate) group: u16,
    pub(crate) side: Side,
    pub(crate) order_type: OrderType,
    pub(crate) time_in_force: TimeInForce,
    pub(crate) flags: u8,
    pub(crate) self_trade: SelfTrade,
    pub(crate) home: Home,
    // Second line from here on.
    pub(crate) stop_price: i64,
    /// Limit of a peg, 0 for none.
    pub(crate) limit: i64,
    /// Stop price in force, see [`Order::trigger_price`].
    pub(crate) trigger: i64,
    pub(crate) expire_at: u64,
    pub(crate) cl_ord_id: ClOrdId,
    pub(crate) session: u16,
    pub(crate) display_qty: u32,
    pub(crate) min_qty: u32,
    /// The hash of its identifier; that of none without [`crate::Books::keep_identifiers`].
    pub(crate) id_hash: IdHash,
}

const _: () = assert!(size_of::<Order>() == 128 && std::mem::offset_of!(Order, stop_price) == 64);

/// The slot that holds no order.
pub(crate) const NIL: u32 = 0;
/// Marks that there is no place, page or queue.
pub(crate) const NOWHERE: u32 = u32::MAX;

impl Order {
    /// A loose order with these terms.
    #[inline(always)]
    pub(crate) fn new(book: u16, order_ref: u64, terms: &NewOrder, id_hash: IdHash) -> Order {
        let peg = terms.order_type.peg();
        Order {
            key: terms.key,
            order_ref,
            price: if peg { 0 } else { terms.price.0 },
            open: terms.qty,
            shown: 0,
            traded: terms.traded,
            prev: NIL,
            next: NIL,
            place: NOWHERE,
            book,
            group: terms.group,
            side: terms.side,
            order_type: terms.order_type,
            time_in_force: terms.time_in_force,
            flags: terms.flags,
            self_trade: terms.self_trade,
            home: Home::Loose,
            stop_price: terms.stop_price.0,
            limit: if peg { terms.price.0 } else { 0 },
            trigger: 0,
            expire_at: terms.expire_at.0,
            cl_ord_id: terms.cl_ord_id,
            session: terms.session,
            display_qty: terms.display_qty,
            min_qty: terms.min_qty,
            id_hash,
        }
    }

    /// Names the order among all open ones.
    #[inline]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Public reference of the order; 0: none.
    #[inline]
    pub fn order_ref(&self) -> OrderRef {
        OrderRef(self.order_ref)
    }

    /// Number of the book that the order is in.
    #[inline]
    pub fn book(&self) -> u16 {
        self.book
    }

    /// Whether the order buys or sells.
    #[inline]
    pub fn side(&self) -> Side {
        self.side
    }

    /// Its type now: a triggered stop is a market or limit order.
    #[inline]
    pub fn order_type(&self) -> OrderType {
        self.order_type
    }

    /// How long the order lives.
    #[inline]
    pub fn time_in_force(&self) -> TimeInForce {
        self.time_in_force
    }

    /// `ORDER_POST_ONLY` and the other flags of a command.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.flags
    }

    /// What happens instead of a trade with an order of its own group.
    #[inline]
    pub fn self_trade(&self) -> SelfTrade {
        self.self_trade
    }

    /// Self-trade group of the order; 0: none.
    #[inline]
    pub fn group(&self) -> u16 {
        self.group
    }

    /// Gateway through which it was entered.
    #[inline]
    pub fn session(&self) -> u16 {
        self.session
    }

    /// Its price now, 0 for none (market orders, stops without limit, parked pegs).
    #[inline]
    pub fn price(&self) -> Price {
        Price(self.price)
    }

    /// The limit price it was given, 0 for none; a peg's price never passes it.
    #[inline]
    pub fn limit(&self) -> Price {
        if self.order_type.peg() { Price(self.limit) } else { self.price() }
    }

    /// Open quantity of the order, lots.
    #[inline]
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Lots displayed: part of the open ones.
    #[inline]
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Lots traded, including those before replaces.
    #[inline]
    pub fn traded(&self) -> u32 {
        self.traded
    }

    /// Lots displayed at a time; 0: all.
    #[inline]
    pub fn display_qty(&self) -> u32 {
        self.display_qty
    }

    /// Lots that had to trade on entry.
    #[inline]
    pub fn min_qty(&self) -> u32 {
        self.min_qty
    }

    /// Stop price, distance of a trailing stop, offset of a peg: as given.
    #[inline]
    pub fn stop_price(&self) -> Price {
        Price(self.stop_price)
    }

    /// The price at which a stop in the stop list becomes active; `None` when it is in none, or
    /// trails a trigger price that does not exist yet.
    pub fn trigger_price(&self) -> Option<Price> {
        (self.home == Home::Stop && self.trigger != no_trigger(self.side))
            .then_some(Price(self.trigger))
    }

    /// End of a good-till-date order, ns since the epoch; 0 for others.
    #[inline]
    pub fn expire_at(&self) -> Nanos {
        Nanos(self.expire_at)
    }

    /// The participant's own identifier of the order.
    #[inline]
    pub fn cl_ord_id(&self) -> &ClOrdId {
        &self.cl_ord_id
    }

    /// Fields that tests compare at an event.
    pub fn facts(&self) -> OrderFacts {
        OrderFacts {
            key: self.key,
            order_ref: OrderRef(self.order_ref),
            side: self.side,
            order_type: self.order_type,
            price: Price(self.price),
            open: self.open,
            shown: self.shown,
            traded: self.traded,
        }
    }

    pub(crate) fn hidden(&self) -> bool {
        self.flags & types::ORDER_HIDDEN != 0 || self.order_type.peg()
    }

    /// Whether what does not trade at once may not stay, in continuous trading.
    pub(crate) fn immediate(&self) -> bool {
        immediate(self.order_type, self.time_in_force)
    }

    /// Lots to display of an order that rests displayed.
    #[inline(always)]
    pub(crate) fn portion(&self) -> u32 {
        if self.display_qty == 0 { self.open } else { self.open.min(self.display_qty) }
    }
}

/// Whether what does not trade at once of such an order is cancelled in continuous trading.
pub(crate) fn immediate(order_type: OrderType, life: TimeInForce) -> bool {
    order_type == OrderType::Market
        || matches!(life, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
}

/// Stands for "no stop price yet" of a trailing stop: last in the order of its list.
pub(crate) fn no_trigger(side: Side) -> i64 {
    match side {
        Side::Buy => i64::MAX,
        Side::Sell => i64::MIN,
    }
}

/// Properties of a type of order that matching asks for.
pub(crate) trait Kind {
    fn peg(self) -> bool;
    fn stop(self) -> bool;
}

impl Kind for OrderType {
    #[inline(always)]
    fn peg(self) -> bool {
        matches!(self, OrderType::PegPrimary | OrderType::PegMid)
    }

    #[inline(always)]
    fn stop(self) -> bool {
        matches!(self, OrderType::Stop | OrderType::StopLimit | OrderType::TrailingStop)
    }
}
