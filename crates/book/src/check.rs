//! The books' invariants, checked in full: by tests after every step, and by debug builds as long
//! as the books are small.

use types::{Phase, Side};

use crate::books::Books;
use crate::ladder::Queue;
use crate::market::Market;
use crate::order::{Home, Kind, NIL, Order};

/// Books that have never held more orders than this are checked after every command in debug
/// builds; larger ones would make every debug run quadratic.
const SMALL: usize = 16;

/// An invariant that does not hold, and the book in which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The best bid is not below the best ask in continuous trading.
    Crossed(u16),
    /// Pages, directory, links and best level of a side do not agree.
    Ladder(u16, Side),
    /// A level's quantities or number of orders are not the sums over its queues.
    Totals(u16, Side),
    /// A queue's links do not run forth and back through the same orders.
    Links(u16),
    /// An order is not where it should be, or says so wrongly.
    Misplaced(u16),
    /// The stops of a side are not in their order.
    Stops(u16, Side),
    /// The list of pegs is not in its order, or not of the pegs.
    Pegs(u16),
    /// The number of orders is wrong.
    Count(u16),
    /// The index does not find an order, or finds another.
    Index,
    /// A used slot belongs to no book, or a free one to some.
    Dangling,
    /// What is known of when orders end is not what the orders say.
    Expiries,
    /// A quantity does not add up: lots appeared or vanished.
    Lots,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "order book invariant broken: {self:?}")
    }
}

impl std::error::Error for Fault {}

/// Sums over the orders of a queue.
#[derive(Default)]
struct Sums {
    orders: u32,
    open: u64,
    shown: u64,
}

impl Books {
    /// Checks every invariant; linear in the size of the books.
    ///
    /// # Errors
    /// The first [`Fault`] found.
    pub fn check(&self) -> Result<(), Fault> {
        let mut orders = 0;
        for market in &self.markets {
            self.check_market(market)?;
            orders += market.len;
        }
        let used = self.shared.slab.slots().iter().filter(|order| order.home != Home::Free);
        if orders != self.shared.slab.live() || used.clone().count() != orders as usize {
            return Err(Fault::Dangling);
        }
        if !self.shared.expiries.is_sound(&self.shared.slab) {
            return Err(Fault::Expiries);
        }
        let tally = &self.shared.tally;
        let resting: u64 = used.map(|order| u64::from(order.open)).sum();
        let out = resting.wrapping_add(tally.traded).wrapping_add(tally.gone);
        if cfg!(debug_assertions) && tally.lots_in != out {
            return Err(Fault::Lots);
        }
        Ok(())
    }

    fn check_market(&self, market: &Market) -> Result<(), Fault> {
        let number = market.number;
        let [bids, asks] = &market.ladders;
        let both = bids.best_key != 0 && asks.best_key != 0;
        if market.phase == Phase::Continuous && both && bids.best_price >= asks.best_price {
            return Err(Fault::Crossed(number));
        }
        let mut count = 0;
        for side in [Side::Buy, Side::Sell] {
            count += self.check_levels(market, side)?;
            let at = |order: &Order| order.home == Home::Market && order.side == side;
            count += self.walk(market, market.queues[side as usize], at)?.orders;
            let stops = &market.stops[side as usize];
            let slab = &self.shared.slab;
            let facts = |slot: u32| (slab[slot].trigger, slab[slot].order_ref);
            let placed = stops.slots().all(|slot| {
                let order = &slab[slot];
                order.home == Home::Stop && order.side == side && self.is_indexed(slot)
            });
            if !placed || !stops.is_sound(facts) {
                return Err(Fault::Stops(number, side));
            }
            count += stops.len() as u32;
        }
        let waits = |order: &Order| order.home == Home::Waiting;
        count += self.walk(market, market.waiting, waits)?.orders;
        count += self.check_pegs(market)?;
        if count != market.len {
            return Err(Fault::Count(number));
        }
        Ok(())
    }

    /// Checks the levels of a side; the number of their orders.
    fn check_levels(&self, market: &Market, side: Side) -> Result<u32, Fault> {
        let (ladder, number) = (market.own(side), market.number);
        if !ladder.is_sound() {
            return Err(Fault::Ladder(number, side));
        }
        let (mut count, mut next) = (0, ladder.best());
        while let Some(place) = next {
            let level = ladder.level(place);
            let price = ladder.price_at(place);
            let fits = |order: &Order, home| {
                let dark = home == Home::Hidden;
                (order.home, order.place, order.price, order.side) == (home, place, price, side)
                    && order.hidden() == dark
                    && (order.shown > 0) != dark
            };
            let shown = self.walk(market, level.queue, |order| fits(order, Home::Shown))?;
            let hidden = self.walk(market, ladder.hidden(place), |o| fits(o, Home::Hidden))?;
            let open = shown.open + hidden.open;
            let orders = shown.orders + hidden.orders;
            if (level.open, level.shown, level.orders) != (open, shown.shown, orders)
                || orders == 0
                || ladder.is_displayed(place) != (shown.shown > 0)
            {
                return Err(Fault::Totals(number, side));
            }
            count += orders;
            next = ladder.worse(place);
        }
        Ok(count)
    }

    /// Checks the list of pegs; the number of those that are parked.
    fn check_pegs(&self, market: &Market) -> Result<u32, Fault> {
        let slab = &self.shared.slab;
        let fault = Err(Fault::Pegs(market.number));
        let mut parked = 0;
        for slot in market.pegs.slots() {
            let order = &slab[slot];
            let is_parked = order.home == Home::Parked && order.price == 0;
            let placed = is_parked || order.home == Home::Hidden;
            if !placed || !order.order_type.peg() || !self.is_indexed(slot) {
                return fault;
            }
            parked += u32::from(is_parked);
        }
        let pegs = slab.slots().iter().filter(|order| {
            let live = order.home != Home::Free && order.book == market.number;
            live && order.order_type.peg()
        });
        if pegs.count() != market.pegs.len() || !market.pegs.is_sound(|s| slab[s].order_ref) {
            return fault;
        }
        Ok(parked)
    }

    fn is_indexed(&self, slot: u32) -> bool {
        let order = &self.shared.slab[slot];
        // Two orders have the same identifier when one of them came from elsewhere.
        let named = self.has_identifier(order.key, &order.cl_ord_id, order.id_hash);
        self.shared.index.find(order.key, &self.shared.slab) == Some(slot)
            && (named || order.id_hash.0 == 0)
    }

    /// Walks a queue whose orders must all be as `fits` says.
    fn walk(
        &self,
        market: &Market,
        queue: Queue,
        fits: impl Fn(&Order) -> bool,
    ) -> Result<Sums, Fault> {
        let slab = &self.shared.slab;
        let (mut sums, mut slot, mut prev) = (Sums::default(), queue.head, NIL);
        while slot != NIL {
            let order = &slab[slot];
            if order.prev != prev || sums.orders > slab.live() {
                return Err(Fault::Links(market.number));
            }
            if !fits(order) || order.book != market.number || order.shown > order.open {
                return Err(Fault::Misplaced(market.number));
            }
            if order.open == 0 {
                return Err(Fault::Misplaced(market.number));
            }
            if !self.is_indexed(slot) {
                return Err(Fault::Index);
            }
            sums.orders += 1;
            sums.open += u64::from(order.open);
            sums.shown += u64::from(order.shown);
            (prev, slot) = (slot, order.next);
        }
        if queue.tail != prev {
            return Err(Fault::Links(market.number));
        }
        Ok(sums)
    }

    #[inline(always)]
    pub(crate) fn debug_check(&self) {
        if cfg!(debug_assertions) && self.shared.slab.slots().len() <= SMALL {
            self.check().expect("the books keep their invariants");
        }
    }
}
