//! Looking at the books: levels, orders, digests.

use types::{ClOrdId, Digest, OrderRef, Price, Qty, Side};

use crate::books::Books;
use crate::index::{Identifier, Trace};
use crate::ladder::Ladder;
use crate::order::{Home, NIL, Order};
use crate::slab::Slab;

/// A price level of one side, as it can be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depth {
    /// Price of the orders of the level.
    pub price: Price,
    /// Open quantity at the price, hidden orders included, lots.
    pub qty: Qty,
    /// Displayed quantity at the price, lots.
    pub shown: Qty,
    /// Number of orders, hidden ones included.
    pub orders: u32,
}

impl Ladder {
    fn depth(&self, place: u32) -> Depth {
        let level = self.level(place);
        Depth {
            price: Price(self.price_at(place)),
            qty: Qty(level.open),
            shown: Qty(level.shown),
            orders: level.orders,
        }
    }

    fn places(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.best(), |&place| self.worse(place))
    }
}

/// Slots of the orders of a queue, in order of time.
pub(crate) fn queue_slots(slab: &Slab, head: u32) -> impl Iterator<Item = u32> + '_ {
    let some = |slot: u32| (slot != NIL).then_some(slot);
    std::iter::successors(some(head), move |&slot| some(slab[slot].next))
}

impl Books {
    /// The best level of a side, hidden orders included.
    #[inline]
    pub fn best(&self, book: u16, side: Side) -> Option<Depth> {
        let ladder = self.market(book)?.own(side);
        Some(ladder.depth(ladder.best()?))
    }

    /// The best level of a side that displays lots.
    pub fn best_displayed(&self, book: u16, side: Side) -> Option<Depth> {
        let ladder = self.market(book)?.own(side);
        Some(ladder.depth(ladder.best_displayed()?))
    }

    /// The level at a price, found without a walk.
    pub fn level(&self, book: u16, side: Side, price: Price) -> Option<Depth> {
        let ladder = self.market(book)?.own(side);
        // What is no price of a level has no key of its own.
        let near = price.0.clamp(1, types::limits::PRICE_MAX);
        let depth = ladder.depth(ladder.find(ladder.key(near))?);
        (depth.price == price).then_some(depth)
    }

    /// The levels of a side, best first.
    pub fn depth(&self, book: u16, side: Side) -> impl Iterator<Item = Depth> + '_ {
        let ladder = self.market(book).map(|market| market.own(side));
        ladder.into_iter().flat_map(|ladder| ladder.places().map(|place| ladder.depth(place)))
    }

    /// The orders in the levels of a side: best level first, displayed before hidden.
    pub fn orders(&self, book: u16, side: Side) -> impl Iterator<Item = &Order> + '_ {
        self.level_slots(book, side).map(|slot| &self.shared.slab[slot])
    }

    pub(crate) fn level_slots(&self, book: u16, side: Side) -> impl Iterator<Item = u32> + '_ {
        let slab = &self.shared.slab;
        let ladder = self.market(book).map(|market| market.own(side));
        let places = ladder.into_iter().flat_map(|l| l.places().map(move |place| (l, place)));
        places.flat_map(move |(ladder, place)| {
            let heads = [ladder.level(place).queue.head, ladder.hidden(place).head];
            heads.into_iter().flat_map(move |head| queue_slots(slab, head))
        })
    }

    /// All orders of a book in the order of a mass cancel.
    pub fn all_orders(&self, book: u16) -> impl Iterator<Item = &Order> + '_ {
        self.all_slots(book).map(|slot| &self.shared.slab[slot])
    }

    pub(crate) fn all_slots(&self, book: u16) -> impl Iterator<Item = u32> + '_ {
        let slab = &self.shared.slab;
        let levels = [Side::Buy, Side::Sell].into_iter();
        let levels = levels.flat_map(move |side| self.level_slots(book, side));
        let others = self.market(book).into_iter().flat_map(move |market| {
            let parked = move |&slot: &u32| slab[slot].home == Home::Parked;
            let queues = market.queues.iter().flat_map(move |q| queue_slots(slab, q.head));
            queues
                .chain(market.stops.iter().flat_map(|stops| stops.slots()))
                .chain(market.pegs.slots().filter(parked))
                .chain(queue_slots(slab, market.waiting.head))
        });
        levels.chain(others)
    }

    /// Digest of the displayed book, as every reader of the feed works it out.
    pub fn displayed_digest(&self, book: u16) -> u64 {
        types::displayed_book(self.displayed(book, Side::Buy), self.displayed(book, Side::Sell))
    }

    /// The displayed orders of a side, best price first and in queue order within a price.
    pub fn displayed(
        &self,
        book: u16,
        side: Side,
    ) -> impl Iterator<Item = (OrderRef, Price, Qty)> + '_ {
        let displayed = self.orders(book, side).filter(|order| order.shown > 0);
        displayed
            .map(|order| (OrderRef(order.order_ref), Price(order.price), Qty(order.shown.into())))
    }

    /// Folds everything that can ever be observed of the books into a digest.
    pub fn fold(&self, digest: &mut Digest) {
        self.write_all(digest);
    }

    /// Says that this key will be used in about ten commands: the index's memory is fetched
    /// meanwhile. Changes nothing that can be observed.
    #[inline]
    pub fn prefetch(&self, key: u64) -> Trace {
        self.shared.index.prefetch_key(key)
    }

    /// The same of an identifier, as [`Books::has_identifier`] wants it.
    #[inline]
    pub fn prefetch_identifier(&self, key: u64, id: &ClOrdId) {
        if let Some(ids) = self.shared.far_ids() {
            ids.prefetch(ids.hash(Identifier::new(key, id)).0);
        }
    }

    /// Says that the order of this trace will be used in about five commands: its memory is fetched
    /// meanwhile, and its trace goes on. If no order of the key is open, that of some other one is.
    #[inline]
    pub fn prefetch_order(&self, trace: &mut Trace) {
        let slot = self.shared.index.glimpse(*trace);
        let order = &self.shared.slab[slot];
        crate::huge::prefetch(order);
        crate::huge::prefetch(&order.stop_price);
        trace.0 = u64::from(slot);
    }

    /// Says that the order of this trace, told to [`Books::prefetch_order`] before, will leave its
    /// queue in two or three commands: its neighbours' memory is fetched meanwhile. Returns the
    /// order, or one that looks like it from afar.
    #[inline]
    pub fn prefetch_neighbours(&self, trace: &Trace) {
        let order = &self.shared.slab[trace.0 as u32];
        crate::huge::prefetch(&self.shared.slab[order.prev]);
        crate::huge::prefetch(&self.shared.slab[order.next]);
        self.shared.prefetch_id(order.id_hash);
    }
}
