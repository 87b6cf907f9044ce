//! The state of one book besides its orders.

use types::{Allocation, Phase, Side, TickTable, Trigger};

use crate::books::{BookConfig, Capacity};
use crate::ladder::{Ladder, Queue};
use crate::pegs::Pegs;
use crate::stops::Stops;

#[derive(Debug)]
pub(crate) struct Market {
    /// Price levels of bids and asks.
    pub(crate) ladders: [Ladder; 2],
    /// Whether a plain limit order needs nothing but [`crate::take`]: continuous, first come first
    /// served, no collar, no stops, no pegs. See [`Market::settle_fast`].
    pub(crate) fast: bool,
    pub(crate) phase: Phase,
    pub(crate) number: u16,
    /// Number of open orders of this book.
    pub(crate) len: u32,
    /// Price of the last trade, and below it the reference price; 0: none.
    pub(crate) last: i64,
    pub(crate) reference: i64,
    pub(crate) collar: Option<(i64, i64)>,
    pub(crate) allocation: Allocation,
    pub(crate) trigger: Trigger,
    pub(crate) ticks: TickTable,
    /// Market orders of a call: buys, sells.
    pub(crate) queues: [Queue; 2],
    /// Orders that wait for the closing call.
    pub(crate) waiting: Queue,
    /// Stop orders to buy and to sell.
    pub(crate) stops: [Stops; 2],
    pub(crate) pegs: Pegs,
    pub(crate) stop_capacity: u32,
}

impl Market {
    pub(crate) fn new(number: u16, config: &BookConfig, capacity: &Capacity) -> Market {
        let ladder = |side| Ladder::new(side, &config.ticks, capacity.levels);
        let mut market = Market {
            ladders: [ladder(Side::Buy), ladder(Side::Sell)],
            fast: false,
            phase: Phase::Closed,
            number,
            len: 0,
            last: 0,
            reference: 0,
            collar: None,
            allocation: config.allocation,
            trigger: config.trigger,
            ticks: config.ticks,
            queues: [Queue::EMPTY; 2],
            waiting: Queue::EMPTY,
            stops: [Stops::new(Side::Buy, capacity.stops), Stops::new(Side::Sell, capacity.stops)],
            pegs: Pegs::new(capacity.pegs),
            stop_capacity: capacity.stops,
        };
        market.settle_fast();
        market
    }

    /// Works out [`Market::fast`] anew; called whenever something it depends on has changed.
    pub(crate) fn settle_fast(&mut self) {
        self.fast = self.phase == Phase::Continuous
            && self.collar.is_none()
            && self.allocation == Allocation::PriceTime
            && self.stops.iter().all(Stops::is_empty)
            && self.pegs.is_empty();
    }

    #[inline(always)]
    pub(crate) fn own(&self, side: Side) -> &Ladder {
        &self.ladders[side as usize]
    }

    #[inline(always)]
    pub(crate) fn own_mut(&mut self, side: Side) -> &mut Ladder {
        &mut self.ladders[side as usize]
    }

    #[inline(always)]
    pub(crate) fn opposite(&self, side: Side) -> &Ladder {
        &self.ladders[1 - side as usize]
    }

    /// The key at which the opposite side is at `price`; 1, any price at all, for price 0.
    #[inline(always)]
    pub(crate) fn limit_key(&self, side: Side, price: i64) -> u64 {
        if price == 0 { 1 } else { self.opposite(side).key(price) }
    }

    /// Whether the best opposite level is at `price` (0: any) or better.
    #[inline(always)]
    pub(crate) fn crosses(&self, side: Side, price: i64) -> bool {
        self.opposite(side).best_key >= self.limit_key(side, price)
    }

    /// The best displayed price of a side, 0 for none.
    pub(crate) fn displayed(&self, side: Side) -> i64 {
        let ladder = self.own(side);
        ladder.best_displayed().map_or(0, |place| ladder.price_at(place))
    }

    /// Stops of both sides together have reached their bound.
    pub(crate) fn stops_full(&self) -> bool {
        self.stops[0].len() + self.stops[1].len() >= self.stop_capacity as usize
    }
}
