//! All books of a shard, and what may be asked of them.

use types::{
    Allocation, CancelReason, ClOrdId, Indicative, MatchNumber, Nanos, NewOrder, OrderEvent,
    OrderRef, Phase, Price, RejectReason, TickTable, Trigger,
};

use crate::book_ops::BookOps;
use crate::expiry::Expiries;
use crate::index::{Found, IdHash, Identifier, Index, Vacancy};
use crate::market::Market;
use crate::order::Order;
use crate::slab::Slab;

/// Bounds of the books; reaching one is a refusal ([`RejectReason::CapacityReached`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Most open orders of all books together.
    pub orders: u32,
    /// Prices of one side of one book.
    pub levels: u32,
    /// Most stop orders of one book that wait.
    pub stops: u32,
    /// Most pegged orders of one book.
    pub pegs: u32,
}

/// Settings of one instrument's book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BookConfig {
    /// Price steps of the instrument.
    pub ticks: TickTable,
    /// How a price's orders share an incoming one.
    pub allocation: Allocation,
    /// Which price triggers stop orders.
    pub trigger: Trigger,
}

/// Is told what happens, in order.
pub trait Sink {
    /// `order` is as it is after the event; `other` is the other party of a trade.
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>);
}

/// A receiver of events that ignores all of them.
pub(crate) struct Silence;

impl Sink for Silence {
    fn tell(&mut self, _event: OrderEvent, _order: &Order, _other: Option<&Order>) {}
}

/// The state that all books share: slab, index, expiries.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) slab: Slab,
    pub(crate) index: Index,
    /// By identifier, where these are kept; blank ones are not.
    pub(crate) ids: Option<Index<Identifier>>,
    pub(crate) expiries: Expiries,
    /// The reference and the match number given last.
    pub(crate) last_ref: u64,
    pub(crate) last_match: u64,
    pub(crate) capacity: Capacity,
    pub(crate) tally: Tally,
}

/// Lots that came in and where they went, each trade counted once per side (debug builds only):
/// in = resting + traded + gone.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    pub(crate) lots_in: u64,
    pub(crate) traded: u64,
    pub(crate) gone: u64,
}

impl Tally {
    #[inline(always)]
    pub(crate) fn came(&mut self, lots: u32) {
        if cfg!(debug_assertions) {
            self.lots_in = self.lots_in.wrapping_add(lots.into());
        }
    }

    #[inline(always)]
    pub(crate) fn traded(&mut self, lots: u32) {
        if cfg!(debug_assertions) {
            self.traded = self.traded.wrapping_add(2 * u64::from(lots));
        }
    }

    #[inline(always)]
    pub(crate) fn went(&mut self, lots: u32) {
        if cfg!(debug_assertions) {
            self.gone = self.gone.wrapping_add(lots.into());
        }
    }
}

impl Shared {
    /// Where a key goes that no open order has.
    #[inline(always)]
    pub(crate) fn vacancy(&self, key: u64) -> Vacancy {
        debug_assert!(self.index.find(key, &self.slab).is_none(), "two orders have one key");
        self.index.vacancy(key)
    }

    /// An order that was loose so far can be found from now on, under a key that no other has.
    #[inline(always)]
    pub(crate) fn enlist(&mut self, vacancy: Vacancy, slot: u32) {
        self.index.put(vacancy, slot, &self.slab);
        self.enlist_id(slot);
    }

    /// The same of an order that had another key, or another identifier, before.
    pub(crate) fn enlist_again(&mut self, slot: u32) {
        self.enlist(self.index.home_of(slot, &self.slab), slot);
    }

    /// The order is not found any more.
    #[inline(always)]
    pub(crate) fn delist(&mut self, slot: u32) {
        self.index.remove(slot, &self.slab);
        self.delist_id(slot);
    }

    /// The order can be found by its identifier from now on, if that has a hash.
    #[inline(always)]
    pub(crate) fn enlist_id(&mut self, slot: u32) {
        let hash = self.slab[slot].id_hash;
        if let Some(ids) = &mut self.ids
            && hash.0 != 0
        {
            ids.put(ids.home(hash.0), slot, &self.slab);
        }
    }

    /// The order is not found by its identifier any more.
    #[inline(always)]
    pub(crate) fn delist_id(&mut self, slot: u32) {
        if let Some(ids) = &mut self.ids
            && self.slab[slot].id_hash.0 != 0
        {
            ids.remove(slot, &self.slab);
        }
    }

    /// Fetches where an order is to be taken out of the indexes.
    #[inline(always)]
    pub(crate) fn prefetch(&self, order: &Order) {
        self.index.prefetch_key(order.key);
        self.prefetch_id(order.id_hash);
    }

    #[inline(always)]
    pub(crate) fn prefetch_id(&self, hash: IdHash) {
        if let Some(ids) = self.far_ids() {
            ids.prefetch(hash.0);
        }
    }

    /// The index of identifiers, if there is one and it is too large to stay in the cache: otherwise a fetch
    /// costs more than it saves.
    #[inline(always)]
    pub(crate) fn far_ids(&self) -> Option<&Index<Identifier>> {
        self.ids.as_ref().filter(|ids| ids.is_large())
    }

    #[inline(always)]
    pub(crate) fn hash_id(&self, key: u64, id: &ClOrdId) -> IdHash {
        self.ids.as_ref().map_or(IdHash(0), |ids| ids.hash(Identifier::new(key, id)))
    }

    #[inline(always)]
    pub(crate) fn next_ref(&mut self) -> u64 {
        self.last_ref += 1;
        self.last_ref
    }

    #[inline(always)]
    pub(crate) fn next_match(&mut self) -> MatchNumber {
        self.last_match += 1;
        MatchNumber(self.last_match)
    }
}

/// All order books of a shard; see the crate's contract. Books are numbered from 0 in the order of
/// their configuration; all begin in [`Phase::Closed`].
#[derive(Debug)]
pub struct Books {
    pub(crate) shared: Shared,
    pub(crate) markets: Vec<Market>,
}

impl Books {
    /// Reserves everything.
    ///
    /// # Panics
    /// With more than 65,536 books, 2^32 - 3 orders or 2^25 levels a side.
    pub fn new(books: &[BookConfig], capacity: Capacity) -> Books {
        assert!(books.len() <= 1 << 16, "books are numbered with 16 bits");
        let market = |(number, config)| Market::new(number as u16, config, &capacity);
        Books {
            shared: Shared {
                slab: Slab::new(capacity.orders),
                index: Index::new(capacity.orders.saturating_add(1)),
                ids: None,
                expiries: Expiries::new(capacity.orders),
                last_ref: 0,
                last_match: 0,
                capacity,
                tally: Tally::default(),
            },
            markets: books.iter().enumerate().map(market).collect(),
        }
    }

    /// Finds orders by their accounts' identifiers, too, from now on.
    pub fn keep_identifiers(&mut self) {
        let ids = Index::new(self.shared.capacity.orders.saturating_add(1));
        self.shared.ids = Some(ids);
        for book in 0..self.markets.len() {
            let slots: Vec<u32> = self.all_slots(book as u16).collect();
            for slot in slots {
                let Order { key, cl_ord_id, .. } = self.shared.slab[slot];
                self.shared.slab[slot].id_hash = self.shared.hash_id(key, &cl_ord_id);
                self.shared.enlist_id(slot);
            }
        }
    }

    /// What an identifier of the account that bits 32 to 47 of this key name is found by. Worked out once for
    /// what follows: an identifier is looked for and then given to an order.
    #[inline(always)]
    pub fn hash_identifier(&self, key: u64, id: &ClOrdId) -> IdHash {
        self.shared.hash_id(key, id)
    }

    /// Whether the account of this key has an open order with this identifier, `hash` being that of both. Never of
    /// a blank identifier, nor before [`Books::keep_identifiers`].
    #[inline(always)]
    pub fn has_identifier(&self, key: u64, id: &ClOrdId, hash: IdHash) -> bool {
        let ids = self.shared.ids.as_ref().filter(|_| hash.0 != 0);
        let id = Identifier::new(key, id);
        ids.is_some_and(|ids| ids.look_for(id, hash.0, &self.shared.slab).is_ok())
    }

    /// A view of one book with the shared state, which performs its operations.
    #[inline(always)]
    pub(crate) fn ops<'a, S: Sink>(
        &'a mut self,
        book: u16,
        sink: &'a mut S,
    ) -> Option<BookOps<'a, S>> {
        let market = self.markets.get_mut(usize::from(book))?;
        Some(BookOps { shared: &mut self.shared, market, sink })
    }

    /// Takes a new order and enters it.
    ///
    /// # Errors
    /// The first rule of section 2 it breaks; `UnknownInstrument` for a book that does not exist.
    /// Nothing has changed then and nothing was told.
    #[inline]
    pub fn submit(
        &mut self,
        book: u16,
        order: &NewOrder,
        sink: &mut impl Sink,
    ) -> Result<(), RejectReason> {
        if self.market(book).is_none() {
            return Err(RejectReason::UnknownInstrument);
        }
        if self.look(order.key).is_some() {
            return Err(RejectReason::DuplicateOrder);
        }
        let hash = self.hash_identifier(order.key, &order.cl_ord_id);
        self.submit_new(book, order, hash, sink)
    }

    /// [`Books::submit`] of an order of which it is known that no open one has its key, and the hash of its
    /// identifier.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn submit_new(
        &mut self,
        book: u16,
        order: &NewOrder,
        id_hash: IdHash,
        sink: &mut impl Sink,
    ) -> Result<(), RejectReason> {
        let mut ops = self.ops(book, sink).ok_or(RejectReason::UnknownInstrument)?;
        ops.submit(order, id_hash)?;
        self.debug_check();
        Ok(())
    }

    /// Replaces an open order by other terms (5.3). Side, type and traded lots are those of the
    /// order; what `order` says of them is not looked at.
    ///
    /// # Errors
    /// `UnknownOrder`, or as [`Books::submit`].
    #[inline]
    pub fn replace(
        &mut self,
        old_key: u64,
        order: &NewOrder,
        may_keep_place: bool,
        sink: &mut impl Sink,
    ) -> Result<(), RejectReason> {
        let found = self.look(old_key).ok_or(RejectReason::UnknownOrder)?;
        if order.key != old_key && self.look(order.key).is_some() {
            return Err(RejectReason::DuplicateOrder);
        }
        let hash = self.hash_identifier(order.key, &order.cl_ord_id);
        self.replace_found(found, order, hash, may_keep_place, sink)
    }

    /// [`Books::replace`] of the order that [`Books::look`] found, nothing has changed since, by one of which it is
    /// known that no other open one has its key, and the hash of its identifier.
    ///
    /// # Errors
    /// As [`Books::submit`].
    #[inline]
    pub fn replace_found(
        &mut self,
        found: Found,
        order: &NewOrder,
        id_hash: IdHash,
        may_keep_place: bool,
        sink: &mut impl Sink,
    ) -> Result<(), RejectReason> {
        let book = self.found(&found).book;
        let mut ops = self.ops(book, sink).ok_or(RejectReason::UnknownOrder)?;
        ops.replace(found, order, id_hash, may_keep_place)?;
        self.debug_check();
        Ok(())
    }

    /// Cancels an open order.
    ///
    /// # Errors
    /// `UnknownOrder`.
    #[inline]
    pub fn cancel(&mut self, key: u64, sink: &mut impl Sink) -> Result<(), RejectReason> {
        let found = self.look(key).ok_or(RejectReason::UnknownOrder)?;
        self.cancel_found(found, sink);
        Ok(())
    }

    /// [`Books::cancel`] of the order that [`Books::look`] found; nothing has changed since.
    #[inline]
    pub fn cancel_found(&mut self, found: Found, sink: &mut impl Sink) {
        let book = self.found(&found).book;
        if let Some(mut ops) = self.ops(book, sink) {
            ops.cancel(found);
        }
        self.debug_check();
    }

    /// Reduces an open order to `open` lots; it keeps its place.
    ///
    /// # Errors
    /// `UnknownOrder`; `InvalidQuantity` unless 0 < `open` < the lots open now.
    #[inline]
    pub fn reduce(
        &mut self,
        key: u64,
        open: u32,
        sink: &mut impl Sink,
    ) -> Result<(), RejectReason> {
        let (slot, book) = self.find(key)?;
        let mut ops = self.ops(book, sink).ok_or(RejectReason::UnknownOrder)?;
        ops.reduce(slot, open)?;
        self.debug_check();
        Ok(())
    }

    /// Cancels every order of a book that `wanted` says yes to, in the order of a mass cancel
    /// (5.5). Returns how many.
    pub fn cancel_where(
        &mut self,
        book: u16,
        reason: CancelReason,
        wanted: impl FnMut(&Order) -> bool,
        sink: &mut impl Sink,
    ) -> u64 {
        let Some(mut ops) = self.ops(book, sink) else { return 0 };
        let canceled = ops.cancel_where(reason, wanted);
        ops.settle();
        self.debug_check();
        canceled
    }

    /// When the next good-till-date order ends; [`Nanos::NEVER`] when none is open.
    #[inline(always)]
    pub fn next_expiry(&self) -> Nanos {
        Nanos(self.shared.expiries.next())
    }

    /// A book with orders that end at `now` or before, which [`Books::expire`] then has to be
    /// called for before anything else is asked of the books; again until there is none.
    pub fn expiring(&mut self, now: Nanos) -> Option<u16> {
        self.shared.expiries.due(now, &self.shared.slab)
    }

    /// Ends the orders of the book that [`Books::expiring`] named (5.6). Returns how many.
    pub fn expire(&mut self, book: u16, sink: &mut impl Sink) -> u64 {
        let Some(mut ops) = self.ops(book, sink) else { return 0 };
        let mut ended = 0;
        while let Some(slot) = ops.shared.expiries.pop_due(book) {
            ops.cancel_rest(slot, CancelReason::Expired);
            ended += 1;
        }
        ops.settle();
        self.debug_check();
        ended
    }

    /// Changes the phase of a book, with all that this entails (9).
    pub fn set_phase(&mut self, book: u16, phase: Phase, sink: &mut impl Sink) {
        let Some(mut ops) = self.ops(book, sink) else { return };
        ops.set_phase(phase);
        ops.settle();
        self.debug_check();
    }

    /// Ends an interval of a batch auction; nothing in another phase.
    pub fn uncross(&mut self, book: u16, sink: &mut impl Sink) {
        let Some(mut ops) = self.ops(book, sink) else { return };
        if ops.market.phase == Phase::Batch {
            ops.uncross();
        }
        self.debug_check();
    }

    /// Sets the reference price of auctions; 0: none.
    pub fn set_reference(&mut self, book: u16, price: Price) {
        if let Some(market) = self.markets.get_mut(usize::from(book)) {
            market.reference = price.0.max(0);
        }
    }

    /// Sets the lowest and highest price at which continuous trading goes on.
    pub fn set_collar(&mut self, book: u16, collar: Option<(Price, Price)>) {
        if let Some(market) = self.markets.get_mut(usize::from(book)) {
            market.collar = collar.map(|(low, high)| (low.0, high.0));
            market.settle_fast();
        }
    }

    /// The phase of a book; closed if there is no such book.
    #[inline]
    pub fn phase(&self, book: u16) -> Phase {
        self.market(book).map_or(Phase::Closed, |market| market.phase)
    }

    /// The price of the last trade, 0 for none.
    #[inline]
    pub fn last_price(&self, book: u16) -> Price {
        Price(self.market(book).map_or(0, |market| market.last))
    }

    /// The reference price, 0 for none.
    pub fn reference(&self, book: u16) -> Price {
        Price(self.market(book).map_or(0, |market| market.reference))
    }

    /// Result that an uncrossing of a book would have now.
    pub fn indicative(&self, book: u16) -> Indicative {
        match self.market(book) {
            Some(market) => crate::auction::indicative(market, &self.shared.slab),
            None => Indicative { price: None, volume: types::Qty(0), surplus: None },
        }
    }

    /// The open order with this key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&Order> {
        let slot = self.shared.index.find(key, &self.shared.slab)?;
        Some(&self.shared.slab[slot])
    }

    /// Where the open order with this key is, for what is to be done with it next: the search for it is
    /// made once. Of no use after a change of the books.
    #[inline(always)]
    pub fn look(&self, key: u64) -> Option<Found> {
        self.shared.index.look(key, &self.shared.slab).ok()
    }

    /// The order that [`Books::look`] has found.
    #[inline(always)]
    pub fn found(&self, found: &Found) -> &Order {
        &self.shared.slab[found.slot]
    }

    /// The book an open order is in.
    #[inline]
    pub fn book_of(&self, key: u64) -> Option<u16> {
        self.get(key).map(Order::book)
    }

    /// Number of open orders of all books together.
    pub fn len(&self) -> usize {
        self.shared.slab.live() as usize
    }

    /// Whether no order is open in any book.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of open orders of one book.
    pub fn len_of(&self, book: u16) -> usize {
        self.market(book).map_or(0, |market| market.len as usize)
    }

    /// What of its bounds a book uses, the fuller side's levels; nothing for unknown books.
    pub fn used(&self, book: u16) -> Capacity {
        let none = Capacity { orders: 0, levels: 0, stops: 0, pegs: 0 };
        self.market(book).map_or(none, |market| Capacity {
            orders: market.len,
            levels: market.ladders.iter().map(|ladder| ladder.levels).max().unwrap_or(0),
            stops: market.stops.iter().map(|stops| stops.len() as u32).sum(),
            pegs: market.pegs.len() as u32,
        })
    }

    /// Orders and trades are numbered from the one after `number` on. Before the first of them.
    pub fn number_from(&mut self, number: u64) {
        (self.shared.last_ref, self.shared.last_match) = (number, number);
    }

    /// The reference given last; the next one is one higher.
    pub fn last_order_ref(&self) -> OrderRef {
        OrderRef(self.shared.last_ref)
    }

    /// The match number that was given out last.
    pub fn last_match_number(&self) -> MatchNumber {
        MatchNumber(self.shared.last_match)
    }

    pub(crate) fn market(&self, book: u16) -> Option<&Market> {
        self.markets.get(usize::from(book))
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Result<(u32, u16), RejectReason> {
        let slot = self.shared.index.find(key, &self.shared.slab);
        let slot = slot.ok_or(RejectReason::UnknownOrder)?;
        Ok((slot, self.shared.slab[slot].book))
    }
}
