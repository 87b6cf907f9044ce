//! One order as the book keeps it, and the handle that names it.

use types::{
    AccountId, ClOrdId, OrderRef, OrderType, Price, Qty, Side, TimeInForce, UserRefNum,
    limits::QTY_MAX,
};

/// Names a resting order. A handle of an order that is gone names nothing, also after its slot has
/// been given to another order (until the slot has been reused 2^31 times).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Handle {
    /// The handle as one word, for callers that keep it in a table.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// The inverse of [`Handle::to_bits`]. Any word is safe: a handle that was never given out
    /// names no order.
    pub fn from_bits(bits: u64) -> Handle {
        Handle { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Whose order it is: carried for the events, never read by the book.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The request's number within the account.
    pub user_ref: UserRefNum,
    /// The account.
    pub account: AccountId,
    /// The participant's identifier, echoed.
    pub cl_ord_id: ClOrdId,
}

/// What a replace that keeps its place may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// New owner fields.
    pub owner: Owner,
    /// New life.
    pub time_in_force: TimeInForce,
    /// New command flags.
    pub flags: u8,
    /// New open quantity, above zero and at most the present one.
    pub open: Qty,
}

/// An order, resting or on its way in.
///
/// Quantities are kept in 32 bits (what ITCH and OUCH can carry), so that an order and its links
/// fill one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Its public reference.
    pub order_ref: OrderRef,
    /// Its limit; zero for a market order, which never rests.
    pub price: Price,
    open: u32,
    traded: u32,
    /// Whose it is.
    pub owner: Owner,
    /// Buy or sell.
    pub side: Side,
    /// Limit or market.
    pub order_type: OrderType,
    /// How long it lives; kept for reports and for the end of the day.
    pub time_in_force: TimeInForce,
    /// Command flags, kept for reports.
    pub flags: u8,
}

impl Order {
    /// A limit, day order of nobody; set what differs.
    ///
    /// # Panics
    /// When `open` is above [`QTY_MAX`]: the engine has checked it.
    pub fn new(order_ref: OrderRef, side: Side, price: Price, open: Qty) -> Order {
        Order {
            order_ref,
            price,
            open: lots(open),
            traded: 0,
            owner: Owner::default(),
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            flags: 0,
        }
    }

    /// The order with `traded` lots already done, as for one that goes on after a replace.
    ///
    /// # Panics
    /// When `traded` is above [`QTY_MAX`].
    pub fn with_traded(mut self, traded: Qty) -> Order {
        self.traded = lots(traded);
        self
    }

    /// Lots still open.
    pub fn open(&self) -> Qty {
        Qty(u64::from(self.open))
    }

    /// Lots traded so far, over all replaces.
    pub fn traded(&self) -> Qty {
        Qty(u64::from(self.traded))
    }

    /// Moves `qty` lots from open to traded.
    ///
    /// # Panics
    /// When that many are not open.
    pub fn fill(&mut self, qty: Qty) {
        let lots = lots(qty);
        assert!(lots <= self.open, "a fill exceeds what is open");
        self.open -= lots;
        self.traded += lots;
    }

    pub(crate) fn set_open(&mut self, open: Qty) {
        self.open = lots(open);
    }
}

fn lots(qty: Qty) -> u32 {
    assert!(qty.0 <= QTY_MAX, "a quantity exceeds 32 bits");
    qty.0 as u32
}
