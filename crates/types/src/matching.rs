//! Types of the matching core's interface: orders that the book takes, events that it reports, and
//! the phases of a market. docs/matching.md has the rules.

use crate::{
    CancelReason, ClOrdId, MatchNumber, Nanos, OrderRef, OrderType, Price, Qty, SelfTrade, Side,
    TimeInForce,
};

/// Phase of an instrument's market.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Phase {
    /// No trading: orders are refused, cancels are not.
    Closed = 0,
    /// Orders are collected; no indicative price is published.
    PreOpen = 1,
    /// The opening call: orders are collected, the indicative price is published.
    OpeningCall = 2,
    /// Orders trade as they come.
    Continuous = 3,
    /// Trading is halted: cancels are accepted, new orders are refused.
    Halt = 4,
    /// A call after prices moved too fast.
    VolatilityCall = 5,
    /// The closing call: orders are collected, the indicative price is published.
    ClosingCall = 6,
    /// Frequent batch auctions: a call that is uncrossed at every interval.
    Batch = 7,
}

impl Phase {
    /// All eight phases, in ascending order of their codes (0..=7).
    pub const ALL: [Phase; 8] = [
        Phase::Closed,
        Phase::PreOpen,
        Phase::OpeningCall,
        Phase::Continuous,
        Phase::Halt,
        Phase::VolatilityCall,
        Phase::ClosingCall,
        Phase::Batch,
    ];

    /// The phase with the code `code`; `None` for a code above 7.
    pub fn from_code(code: u8) -> Option<Phase> {
        Phase::ALL.get(usize::from(code)).copied()
    }

    /// Whether orders are collected in this phase without trading.
    pub fn is_call(self) -> bool {
        matches!(
            self,
            Phase::PreOpen
                | Phase::OpeningCall
                | Phase::VolatilityCall
                | Phase::ClosingCall
                | Phase::Batch
        )
    }
}

/// A limit that risk checks hold an account to; see `CommandKind::SetLimit`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum LimitKind {
    /// Largest quantity of one order, lots.
    OrderQuantity = 0,
    /// Price times quantity of one order, in price units times lots.
    OrderNotional = 1,
    /// Orders open at a time.
    OpenOrders = 2,
    /// Position in one instrument either way, in lots, with all open orders counted as traded.
    Position = 3,
    /// Value of all open orders and positions, in price units times lots.
    Credit = 4,
    /// New orders, replaces and cancels per second of `t_in`.
    MessageRate = 5,
    /// Distance of a limit price from the last price, in hundredths of a percent.
    FatFinger = 6,
}

impl LimitKind {
    /// All seven limits, in ascending order of their codes (0..=6).
    pub const ALL: [LimitKind; 7] = [
        LimitKind::OrderQuantity,
        LimitKind::OrderNotional,
        LimitKind::OpenOrders,
        LimitKind::Position,
        LimitKind::Credit,
        LimitKind::MessageRate,
        LimitKind::FatFinger,
    ];

    /// Kinds that are sums over instruments: in a venue of several shards each shard has a part of
    /// them. The others are of one order or one instrument, and each shard knows all that it needs.
    pub const SHARED: [LimitKind; 3] =
        [LimitKind::OpenOrders, LimitKind::Credit, LimitKind::MessageRate];

    /// Index of the limit in [`LimitKind::SHARED`]; `None` for a limit that is not shared.
    pub fn shared(self) -> Option<usize> {
        LimitKind::SHARED.iter().position(|kind| *kind == self)
    }

    /// The limit with the code `code`; `None` for a code above 6.
    pub fn from_code(code: u8) -> Option<LimitKind> {
        LimitKind::ALL.get(usize::from(code)).copied()
    }
}

/// Parameter that `CommandKind::SetInstrument` sets, and the field that has its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum InstrumentParam {
    /// Reference price of the instrument, in `price`.
    Reference = 0,
    /// Half width of the static collar around the reference price, in hundredths of a percent:
    /// `qty`, 0 for none.
    StaticCollar = 1,
    /// Half width of the dynamic collar around the last price, in hundredths of a percent: `qty`, 0
    /// for none.
    DynamicCollar = 2,
    /// Smallest quantity of one order, in `qty`, lots.
    QtyMin = 3,
    /// Largest quantity of one order, in `qty`, lots.
    QtyMax = 4,
    /// Price step, the same at all prices, from the next roll of the day on: `price`.
    Tick = 5,
    /// Whether the instrument is traded, from the next roll of the day on: `qty`, 1 or 0.
    Listed = 6,
    /// The shard that trades it from the next roll of the day on: `qty`, its number from 0. A command for all
    /// shards of a venue of several.
    Shard = 7,
    /// It is traded by the shard `qty`, as the command for all shards numbered `price` wanted. Given by the
    /// first shard when that one has taken it up; a command for all shards.
    Placed = 8,
}

impl InstrumentParam {
    /// The parameter with the code `code`; `None` for a code above 6.
    pub fn from_code(code: u8) -> Option<InstrumentParam> {
        [
            InstrumentParam::Reference,
            InstrumentParam::StaticCollar,
            InstrumentParam::DynamicCollar,
            InstrumentParam::QtyMin,
            InstrumentParam::QtyMax,
            InstrumentParam::Tick,
            InstrumentParam::Listed,
            InstrumentParam::Shard,
            InstrumentParam::Placed,
        ]
        .get(usize::from(code))
        .copied()
    }
}

/// How an incoming order's lots are shared among the orders of one price.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// The order that came first at the price trades first.
    PriceTime,
    /// In proportion to the displayed lots.
    ProRata {
        /// Whether the first order of the queue is served in full before the others share.
        top_order: bool,
        /// Shares below this many lots are not given (they go to the front of the queue).
        min_allocation: u32,
    },
}

/// Price that triggers stop orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// The price of the last trade.
    LastTrade,
    /// The best displayed price: the ask for buy stops, the bid for sell stops.
    Touch,
}

/// Price steps that grow with the price: up to four bands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TickTable {
    /// Lowest price of each band and its tick, ascending, the first from 0; unused bands repeat
    /// the last.
    bands: [(Price, Price); 4],
}

impl TickTable {
    /// One tick for all prices; at least 1.
    pub fn uniform(tick: Price) -> TickTable {
        TickTable { bands: [(Price(0), Price(tick.0.max(1))); 4] }
    }

    /// A table of one to four bands: (lowest price, tick). `None` unless the first begins at 0,
    /// they ascend, ticks are positive, and each band begins at a multiple of its own tick.
    pub fn new(bands: &[(Price, Price)]) -> Option<TickTable> {
        let (first, last) = (bands.first()?, bands.last()?);
        let ascending = bands.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let sound = bands.iter().all(|(from, tick)| tick.0 > 0 && from.0 % tick.0 == 0);
        if bands.len() > 4 || first.0 != Price(0) || !ascending || !sound {
            return None;
        }
        let mut table = [*last; 4];
        table[..bands.len()].copy_from_slice(bands);
        Some(TickTable { bands: table })
    }

    /// The bands, ascending; the last may be repeated.
    pub fn bands(&self) -> &[(Price, Price); 4] {
        &self.bands
    }

    /// The tick at a price: that of the band that the price is in, of the first band below 0.
    pub fn tick_at(&self, price: Price) -> Price {
        let band = self.bands.iter().rev().find(|(from, _)| price >= *from);
        band.unwrap_or(&self.bands[0]).1
    }

    /// Whether a price is a multiple of the tick there.
    pub fn fits(&self, price: Price) -> bool {
        price.0 % self.tick_at(price).0 == 0
    }

    /// The next valid price above `price`, which need not be valid itself.
    pub fn above(&self, price: Price) -> Price {
        let tick = self.tick_at(price).0;
        Price((price.0.div_euclid(tick) + 1) * tick)
    }

    /// The next valid price below `price`, which need not be valid itself.
    pub fn below(&self, price: Price) -> Price {
        let just_below = Price(price.0 - 1);
        let tick = self.tick_at(just_below).0;
        Price(just_below.0.div_euclid(tick) * tick)
    }

    /// The largest step of which every tick is a multiple.
    pub fn unit(&self) -> Price {
        fn gcd(a: i64, b: i64) -> i64 {
            if b == 0 { a } else { gcd(b, a % b) }
        }
        Price(self.bands.iter().fold(0, |unit, (_, tick)| gcd(unit, tick.0)))
    }
}

/// An order as the book is asked to take it. The engine has checked prices and quantities against
/// the instrument's limits; the book checks what depends on its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// Names the order from now on; unique among open orders, not zero.
    pub key: u64,
    /// Orders of one group do not trade with each other unless they allow it; 0: no group.
    pub group: u16,
    /// The gateway it came through, for mass cancels.
    pub session: u16,
    /// Whether the order buys or sells.
    pub side: Side,
    /// Type of the order: how its price is given.
    pub order_type: OrderType,
    /// How long the order lives.
    pub time_in_force: TimeInForce,
    /// `ORDER_POST_ONLY` and the other flags of a command.
    pub flags: u8,
    /// What happens instead of a trade with an order of the same `group`.
    pub self_trade: SelfTrade,
    /// Open quantity, lots; `traded` is not part of it.
    pub qty: u32,
    /// Lots that had traded before a replace.
    pub traded: u32,
    /// Lots displayed at a time; 0: all.
    pub display_qty: u32,
    /// Lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// Limit price; 0: an order without one.
    pub price: Price,
    /// Stop price, distance of a trailing stop, or offset of a peg; 0: none of these.
    pub stop_price: Price,
    /// End of a good-till-date order, ns since the epoch; otherwise 0.
    pub expire_at: Nanos,
    /// Participant's identifier, returned in reports.
    pub cl_ord_id: ClOrdId,
}

impl NewOrder {
    /// A displayed limit order, good till cancelled, of no group; set what differs.
    pub fn limit(key: u64, side: Side, price: Price, qty: u32) -> NewOrder {
        NewOrder {
            key,
            group: 0,
            session: 0,
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancelled,
            flags: 0,
            self_trade: SelfTrade::Allow,
            qty,
            traded: 0,
            display_qty: 0,
            min_qty: 0,
            price,
            stop_price: Price(0),
            expire_at: Nanos(0),
            cl_ord_id: ClOrdId::default(),
        }
    }
}

/// What happened to one order, or between two. Each event comes together with the order's state
/// *after* it and, for a trade, the state of the other order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderEvent {
    /// The order was taken; its price is the one at which it will be treated (a slide has
    /// happened).
    Accepted,
    /// The order goes on under its present key and reference in place of another.
    Replaced {
        /// Key of the order that was replaced.
        old_key: u64,
        /// Reference of the order that was replaced.
        old_ref: OrderRef,
        /// Whether it kept its place in the queue (and its reference).
        kept: bool,
        /// Lots the replace took from what was displayed, when it kept its place.
        shown_less: u32,
    },
    /// The order rests in the book from now on, last in its queue, with `shown` lots displayed (0:
    /// hidden).
    Added {
        /// Displayed reference of the order it replaces; 0: none.
        instead_of: OrderRef,
    },
    /// The displayed reference `order_ref` of an order that was replaced is gone, and nothing
    /// displayed comes in its place.
    Withdrawn {
        /// Displayed reference that the order had before the change.
        order_ref: OrderRef,
    },
    /// The order rested and traded with the other order.
    Traded {
        /// Quantity that traded, lots.
        qty: u32,
        /// Price at which the two orders traded.
        price: Price,
        /// Match number of the trade.
        match_number: MatchNumber,
        /// Lots of `qty` that this order had displayed.
        shown: u32,
        /// Lots of `qty` that the other order had displayed (auctions; otherwise 0).
        other_shown: u32,
        /// Whether the trade is part of an uncrossing; this order is then the buy.
        auction: bool,
    },
    /// The next lots of an iceberg are displayed, last in the queue, under a new reference.
    Replenished {
        /// Reference under which the order was displayed before.
        old_ref: OrderRef,
    },
    /// `qty` open lots are gone without trading and the order goes on.
    Reduced {
        /// Open quantity that is gone, lots.
        qty: u32,
        /// Lots of `qty` that were displayed.
        shown: u32,
        /// Reason told to the participant.
        reason: CancelReason,
    },
    /// The last `qty` open lots are gone without trading.
    Canceled {
        /// Open quantity that is gone, lots: all that was left.
        qty: u32,
        /// Lots of `qty` that were displayed.
        shown: u32,
        /// Reason told to the participant.
        reason: CancelReason,
    },
    /// A stop order became active.
    Triggered,
    /// A peg was priced anew (price 0: there is no price to peg to, and the order is parked).
    Repriced {
        /// Price before the change; 0: the order was parked.
        from: Price,
    },
    /// The market's phase changed by itself because a trade would have left the dynamic collar.
    /// The order is the one that would have traded.
    Interrupted {
        /// Price at which the order would have traded, outside the dynamic collar.
        price: Price,
    },
    /// An uncrossing ended. The order is one of those that traded.
    Uncrossed {
        /// Auction price, the same for all trades of the uncrossing.
        price: Price,
        /// Quantity that traded in the whole uncrossing, lots, each trade counted once.
        qty: u64,
        /// Match number of the cross.
        match_number: MatchNumber,
    },
}

/// Fields of an order that tests compare at an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderFacts {
    /// Key of the order ([`NewOrder::key`]).
    pub key: u64,
    /// Public reference of the order.
    pub order_ref: OrderRef,
    /// Side that the order is on.
    pub side: Side,
    /// Type of the order (a triggered stop is a market or limit order).
    pub order_type: OrderType,
    /// Price of the order; 0: none.
    pub price: Price,
    /// Open quantity, lots.
    pub open: u32,
    /// Displayed quantity, lots; 0: hidden.
    pub shown: u32,
    /// Quantity traded so far, lots.
    pub traded: u32,
}

/// Result of an uncrossing at this instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indicative {
    /// Price at which the uncrossing would take place; `None` when nothing would trade.
    pub price: Option<Price>,
    /// Quantity that would trade, lots.
    pub volume: Qty,
    /// Quantity that would be left over at that price, lots, and its side; `None` when nothing
    /// would.
    pub surplus: Option<(Side, Qty)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_change_at_the_edge_of_a_band() {
        let bands = [(Price(0), Price(1)), (Price(100), Price(5)), (Price(1_000), Price(50))];
        let table = TickTable::new(&bands).expect("a sound table");
        assert_eq!(table.above(Price(99)), Price(100));
        assert_eq!(table.above(Price(100)), Price(105));
        assert_eq!(table.below(Price(100)), Price(99));
        assert_eq!(table.below(Price(1_000)), Price(995));
        assert_eq!(table.below(Price(1_001)), Price(1_000));
        assert!(table.fits(Price(995)) && !table.fits(Price(101)) && !table.fits(Price(1_005)));
        assert_eq!(table.unit(), Price(1));
        assert_eq!(TickTable::uniform(Price(100)).unit(), Price(100));
        assert_eq!(TickTable::new(&[(Price(1), Price(1))]), None);
        assert_eq!(TickTable::new(&[(Price(0), Price(1)), (Price(7), Price(5))]), None);
        assert_eq!(TickTable::new(&[]), None);
    }
}
