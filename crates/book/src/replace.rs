//! Replacing an order (5.3, 5.4).

use types::{
    NewOrder, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderEvent, OrderRef, Phase,
    RejectReason, TimeInForce,
};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::index::{Found, IdHash};
use crate::order::{Home, Kind, Order};
use crate::terms;

impl<S: Sink> BookOps<'_, S> {
    /// Replaces the order that was found by one whose key no other has.
    #[inline(always)]
    pub(crate) fn replace(
        &mut self,
        found: Found,
        terms: &NewOrder,
        id_hash: IdHash,
        may_keep_place: bool,
    ) -> Result<(), RejectReason> {
        let slot = found.slot;
        let old = self.order(slot);
        let mut order = *terms;
        (order.side, order.order_type, order.traded) = (old.side, old.order_type, old.traded);
        let old_key = old.key;
        let vacancy = (order.key != old_key).then(|| self.shared.vacancy(order.key));
        let units = self.plain_units(&order);
        let Some(units) = units.filter(|_| old.home == Home::Shown) else {
            // Copies, here and below, so that terms which take the plain path need not lie in memory.
            let order = order;
            return self.replace_rare(slot, &order, id_hash, may_keep_place);
        };
        if may_keep_place && keeps_place(old, &order) {
            let order = order;
            self.replace_in_place(slot, &order, id_hash);
            return Ok(());
        }
        let at_once = order.time_in_force == TimeInForce::ImmediateOrCancel;
        if !at_once && self.lacks_level(order.side, order.price.0, order.qty, Some(old)) {
            return Err(RejectReason::CapacityReached);
        }
        let limit = self.market.opposite(order.side).key_of(units);
        let meets = self.market.opposite(order.side).best_key >= limit;
        self.unlink_shown(slot);
        self.shared.delist_id(slot);
        let (number, order_ref) = (self.market.number, self.shared.next_ref());
        let stored = &mut self.shared.slab[slot];
        let (old_ref, old_open) = (OrderRef(stored.order_ref), stored.open);
        let old_life = stored.time_in_force;
        *stored = Order::new(number, order_ref, &terms::plain(&order), id_hash);
        self.shared.note_end_after(slot, old_life);
        match vacancy {
            // Where the new key goes does not depend on where the old one was.
            Some(_) => self.shared.index.clear(found),
            None => self.shared.enlist_id(slot),
        }
        let event = OrderEvent::Replaced { old_key, old_ref, kept: false, shown_less: 0 };
        self.tell(slot, event);
        self.shared.tally.went(old_open);
        self.shared.tally.came(order.qty);
        if meets || at_once {
            self.match_plain(slot, units, limit, old_ref, vacancy);
        } else {
            if let Some(vacancy) = vacancy {
                self.shared.enlist(vacancy, slot);
            }
            self.rest_new(slot, order.side, order.qty, units, old_ref);
        }
        Ok(())
    }

    #[inline(never)]
    fn replace_rare(
        &mut self,
        slot: u32,
        order: &NewOrder,
        id_hash: IdHash,
        may_keep_place: bool,
    ) -> Result<(), RejectReason> {
        let price = self.admit(order)?;
        let old = self.order(slot);
        let keeps = may_keep_place && keeps_place(old, order);
        if self.market.phase == Phase::Halt && !keeps {
            return Err(RejectReason::Halted);
        }
        if keeps {
            self.replace_in_place(slot, order, id_hash);
        } else {
            self.check_room(order, price, Some(old))?;
            let instead_of = self.exchange(slot, order, id_hash, price);
            self.enter(slot, instead_of);
        }
        self.settle();
        Ok(())
    }

    /// Puts the new order, loose, into the old one's slot and tells of it. Returns the displayed
    /// reference of the old one, 0 if it was not displayed.
    fn exchange(&mut self, slot: u32, order: &NewOrder, id_hash: IdHash, price: i64) -> OrderRef {
        self.take_out(slot);
        self.shared.delist(slot);
        let old = self.order(slot);
        let (old_key, old_ref, old_open) = (old.key, OrderRef(old.order_ref), old.open);
        let (displayed, old_life) = (old.shown > 0, old.time_in_force);
        if old.order_type.peg() {
            self.market.pegs.remove(old_ref.0);
            self.market.settle_fast();
        }
        let order_ref = self.shared.next_ref();
        *self.order_mut(slot) = Order::new(self.market.number, order_ref, order, id_hash);
        if !order.order_type.peg() {
            self.order_mut(slot).price = price;
        }
        self.shared.note_end_after(slot, old_life);
        self.shared.enlist_again(slot);
        self.shared.tally.went(old_open);
        self.shared.tally.came(order.qty);
        self.tell(slot, OrderEvent::Replaced { old_key, old_ref, kept: false, shown_less: 0 });
        if displayed { old_ref } else { OrderRef(0) }
    }

    #[inline(never)]
    fn replace_in_place(&mut self, slot: u32, order: &NewOrder, id_hash: IdHash) {
        let less = self.order(slot).open - order.qty;
        let shown_less = self.shrink(slot, less);
        self.shared.tally.went(less);
        self.shared.delist(slot);
        let old = self.order_mut(slot);
        let (old_key, old_ref) = (old.key, OrderRef(old.order_ref));
        let old_life = old.time_in_force;
        old.key = order.key;
        old.group = order.group;
        old.session = order.session;
        old.time_in_force = order.time_in_force;
        old.flags = order.flags;
        old.self_trade = order.self_trade;
        old.min_qty = order.min_qty;
        old.expire_at = order.expire_at.0;
        old.cl_ord_id = order.cl_ord_id;
        old.id_hash = id_hash;
        self.shared.note_end_after(slot, old_life);
        self.shared.enlist_again(slot);
        self.tell(slot, OrderEvent::Replaced { old_key, old_ref, kept: true, shown_less });
    }
}

/// Whether an order keeps its place under new terms (5.3).
#[inline(always)]
fn keeps_place(old: &Order, order: &NewOrder) -> bool {
    use TimeInForce::{AtTheClose, AtTheOpen, FillOrKill, ImmediateOrCancel};
    let placed = matches!(old.home, Home::Shown | Home::Hidden | Home::Market);
    let life = match order.time_in_force {
        ImmediateOrCancel | FillOrKill => false,
        life @ (AtTheOpen | AtTheClose) => life == old.time_in_force,
        _ => true,
    };
    placed
        && !old.order_type.peg()
        && life
        && order.price.0 == old.price
        && order.qty <= old.open
        && (order.flags ^ old.flags) & ORDER_HIDDEN == 0
        && order.flags & (ORDER_POST_ONLY | ORDER_POST_ONLY_SLIDE) == 0
        && order.display_qty == old.display_qty
}
