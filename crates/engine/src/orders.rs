//! New orders, cancels and replaces: one answer each, then the trades, then what is left.
//!
//! A request is first claimed by its business identity, then checked (terms, then the book, then
//! capacity), and only then changes anything: a refused replace leaves its order as it was. An
//! order whose remainder would find no room is refused as a whole, before it trades.

use book::{Full, Order, Owner, Terms};
use types::{
    CancelReason, Command, ExecutionKind, InstrumentId, Liquidity, MarketEvent, OrderRef,
    OrderType, Price, Qty, RejectReason, TimeInForce,
};

use crate::apply::{Applied, Engine, Phase};
use crate::index::Place;
use crate::output::{Output, about_order, refusal};
use crate::terms;

/// How an order that comes to rest is told to the public.
#[derive(Clone, Copy)]
enum Announce {
    Add,
    /// In the place of another order, still displayed.
    InsteadOf(OrderRef),
}

impl Engine {
    pub(crate) fn new_order(&mut self, command: &Command, out: &mut Output) -> Applied {
        if let Err(ended) = self.claim(command, out) {
            return ended;
        }
        let slot = match self.check_new(command) {
            Ok(slot) => slot,
            Err(reason) => return self.reject(command, reason, out),
        };
        let price = match command.order_type {
            OrderType::Limit => command.price,
            OrderType::Market => Price(0),
        };
        let order_ref = self.numbers.next_order_ref();
        let mut order = Order::new(order_ref, command.side, price, command.qty);
        order.order_type = command.order_type;
        order.owner = owner(command);
        order.time_in_force = command.time_in_force;
        order.flags = command.flags;

        let id = command.instrument;
        let mut report = about_order(ExecutionKind::Accepted, id, &order, self.now);
        report.qty = order.open();
        out.executions.push(report);
        self.counters.accepted += 1;
        self.execute(slot, order, Announce::Add, out);
        Applied::Done
    }

    pub(crate) fn cancel(&mut self, command: &Command, out: &mut Output) -> Applied {
        if !self.accounts.exists(command.account) {
            return Applied::Refused;
        }
        if self.phase != Phase::Open {
            return self.reject_cancel(command, RejectReason::MarketClosed, out);
        }
        let Some(place) = self.index.get(command.account, command.user_ref) else {
            self.counters.cancels_too_late += 1;
            return self.reject_cancel(command, RejectReason::UnknownOrder, out);
        };
        let before = self.order(place);
        let open = Qty(command.qty.0.saturating_sub(before.traded().0));
        // A cancel may only take away.
        if open >= before.open() {
            return self.reject_cancel(command, RejectReason::InvalidQuantity, out);
        }
        let instrument = self.config.instruments[place.book].id;
        let order_ref = before.order_ref;
        let removed = Qty(before.open().0 - open.0);
        let book = &mut self.books[place.book];
        let (mut after, event) = if open.0 == 0 {
            self.index.remove(command.account, command.user_ref);
            let order = book.cancel(place.handle);
            (order, MarketEvent::OrderDelete { instrument, order_ref })
        } else {
            let order = book.reduce(place.handle, open);
            (order, MarketEvent::OrderCancel { instrument, order_ref, qty: removed })
        };
        let order = after.take().expect("an order of the index rests in its book");
        self.counters.canceled += 1;
        let mut report = about_order(ExecutionKind::Canceled, instrument, &order, self.now);
        report.cancel_reason = CancelReason::Requested;
        report.qty = removed;
        report.leaves = open;
        out.executions.push(report);
        self.numbers.publish(event, out);
        Applied::Done
    }

    pub(crate) fn replace(&mut self, command: &Command, out: &mut Output) -> Applied {
        if let Err(ended) = self.claim(command, out) {
            return ended;
        }
        let (place, before) = match self.check_replace(command) {
            Ok(found) => found,
            Err(reason) => return self.reject(command, reason, out),
        };
        let open = Qty(command.qty.0 - before.traded().0);
        let stays =
            command.price == before.price && open <= before.open() && terms::may_rest(command);
        self.index.remove(command.account, command.orig_user_ref);
        self.counters.replaced += 1;
        if stays {
            self.amend(place, &before, open, command, out);
        } else {
            self.requote(place, &before, open, command, out);
        }
        Applied::Done
    }

    /// A replace that keeps its place: same reference, same price, no more than before.
    fn amend(
        &mut self,
        place: Place,
        before: &Order,
        open: Qty,
        command: &Command,
        out: &mut Output,
    ) {
        let terms = Terms {
            owner: owner(command),
            time_in_force: command.time_in_force,
            flags: command.flags,
            open,
        };
        let after = self.books[place.book].amend(place.handle, terms);
        let order = after.expect("an order of the index rests in its book");
        self.index.insert(command.account, command.user_ref, place);
        self.report_replaced(place.book, &order, command, out);
        let removed = Qty(before.open().0 - open.0);
        if removed.0 > 0 {
            let instrument = self.config.instruments[place.book].id;
            let order_ref = order.order_ref;
            let event = MarketEvent::OrderCancel { instrument, order_ref, qty: removed };
            self.numbers.publish(event, out);
        }
    }

    /// A replace that moves: the old order goes, the new one is matched and rests last.
    fn requote(
        &mut self,
        place: Place,
        before: &Order,
        open: Qty,
        command: &Command,
        out: &mut Output,
    ) {
        let order_ref = self.numbers.next_order_ref();
        let order = Order::new(order_ref, before.side, command.price, open);
        let mut order = order.with_traded(before.traded());
        order.owner = owner(command);
        order.time_in_force = command.time_in_force;
        order.flags = command.flags;
        self.report_replaced(place.book, &order, command, out);

        let book = &mut self.books[place.book];
        book.cancel(place.handle).expect("an order of the index rests in its book");
        let rests_at_once = terms::may_rest(command) && !book.would_trade(order.side, order.price);
        let announce = if rests_at_once {
            Announce::InsteadOf(before.order_ref)
        } else {
            let instrument = self.config.instruments[place.book].id;
            let gone = MarketEvent::OrderDelete { instrument, order_ref: before.order_ref };
            self.numbers.publish(gone, out);
            Announce::Add
        };
        self.execute(place.book, order, announce, out);
    }

    /// Business identity: a request number counts once a day, and while an order lives under it.
    fn claim(&mut self, command: &Command, out: &mut Output) -> Result<(), Applied> {
        if !self.accounts.exists(command.account) {
            return Err(Applied::Refused);
        }
        if command.user_ref.0 == 0 {
            return Err(self.reject(command, RejectReason::Unsupported, out));
        }
        let new = self.accounts.record(command.account, command.user_ref);
        if !new || self.index.get(command.account, command.user_ref).is_some() {
            self.counters.duplicate_request += 1;
            return Err(Applied::DuplicateRequest);
        }
        Ok(())
    }

    /// Checks a new order; returns the index of its book.
    fn check_new(&self, command: &Command) -> Result<usize, RejectReason> {
        if self.phase != Phase::Open {
            return Err(RejectReason::MarketClosed);
        }
        let slot = self.slot(command.instrument).ok_or(RejectReason::UnknownInstrument)?;
        terms::check(command, &self.config.instruments[slot])?;
        if !terms::may_rest(command) {
            return Ok(slot);
        }
        let book = &self.books[slot];
        let trades = book.would_trade(command.side, command.price);
        if command.post_only() && trades {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        // As in the book: an order that trades and then rests has made room for itself.
        if self.index.is_full() && !trades {
            return Err(RejectReason::CapacityReached);
        }
        book.room(command.side, command.price, command.qty, None).map_err(capacity)?;
        Ok(slot)
    }

    /// Checks a replace; returns the order it is about.
    fn check_replace(&self, command: &Command) -> Result<(Place, Order), RejectReason> {
        if self.phase != Phase::Open {
            return Err(RejectReason::MarketClosed);
        }
        let place = self.index.get(command.account, command.orig_user_ref);
        let place = place.ok_or(RejectReason::UnknownOrder)?;
        let before = *self.order(place);
        if command.order_type == OrderType::Market {
            return Err(RejectReason::Unsupported);
        }
        terms::check(command, &self.config.instruments[place.book])?;
        if command.qty <= before.traded() {
            return Err(RejectReason::NothingLeft);
        }
        if !terms::may_rest(command) {
            return Ok((place, before));
        }
        let book = &self.books[place.book];
        if command.post_only() && book.would_trade(before.side, command.price) {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        let open = Qty(command.qty.0 - before.traded().0);
        book.room(before.side, command.price, open, Some(place.handle)).map_err(capacity)?;
        Ok((place, before))
    }

    /// Matches an order that has been answered for, then rests or cancels what is left.
    fn execute(&mut self, slot: usize, mut order: Order, announce: Announce, out: &mut Output) {
        let instrument = self.config.instruments[slot].id;
        let limit = (order.order_type == OrderType::Limit).then_some(order.price);
        let now = self.now;
        let Engine { books, index, numbers, counters, .. } = self;
        let traded = &mut counters.instruments[slot];
        books[slot].take(order.side, limit, order.open(), |fill| {
            order.fill(fill.qty);
            traded.trades += 1;
            traded.volume += fill.qty.0;
            let match_number = numbers.next_match();
            let order_ref = fill.maker.order_ref;
            let qty = fill.qty;
            let event = MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number };
            let public_after = numbers.publish(event, out);
            let sides = [(fill.maker, Liquidity::Added), (&order, Liquidity::Removed)];
            for (side, liquidity) in sides {
                let mut report = about_order(ExecutionKind::Executed, instrument, side, now);
                report.liquidity = liquidity;
                report.qty = qty;
                report.price = fill.maker.price;
                report.match_number = match_number;
                report.public_after = public_after;
                out.executions.push(report);
            }
            if fill.maker.open().0 == 0 {
                index.remove(fill.maker.owner.account, fill.maker.owner.user_ref);
            }
        });
        if order.open().0 == 0 {
            return;
        }
        let stays = order.order_type == OrderType::Limit
            && order.time_in_force != TimeInForce::ImmediateOrCancel;
        if stays {
            self.rest(slot, order, announce, out);
        } else {
            let mut report = about_order(ExecutionKind::Canceled, instrument, &order, now);
            report.cancel_reason = CancelReason::ImmediateOrCancel;
            report.qty = order.open();
            report.leaves = Qty(0);
            out.executions.push(report);
        }
    }

    fn rest(&mut self, slot: usize, order: Order, announce: Announce, out: &mut Output) {
        // Room was checked at the door, and trading can only have made more.
        let handle = self.books[slot].rest(order).expect("room was checked on entry");
        let place = Place { book: slot, handle };
        self.index.insert(order.owner.account, order.owner.user_ref, place);
        let instrument = self.config.instruments[slot].id;
        let (order_ref, side, qty, price) =
            (order.order_ref, order.side, order.open(), order.price);
        let event = match announce {
            Announce::Add => MarketEvent::AddOrder { instrument, order_ref, side, qty, price },
            Announce::InsteadOf(old_ref) => {
                MarketEvent::OrderReplace { instrument, old_ref, new_ref: order_ref, qty, price }
            }
        };
        self.numbers.publish(event, out);
    }

    fn report_replaced(&self, slot: usize, order: &Order, command: &Command, out: &mut Output) {
        let instrument = self.config.instruments[slot].id;
        let mut report = about_order(ExecutionKind::Replaced, instrument, order, self.now);
        report.orig_user_ref = command.orig_user_ref;
        report.qty = order.open();
        out.executions.push(report);
    }

    fn reject(&mut self, command: &Command, reason: RejectReason, out: &mut Output) -> Applied {
        self.counters.rejected(reason);
        out.executions.push(refusal(ExecutionKind::Rejected, command, reason, self.now));
        Applied::Done
    }

    fn reject_cancel(&self, command: &Command, reason: RejectReason, out: &mut Output) -> Applied {
        let mut report = refusal(ExecutionKind::CancelRejected, command, reason, self.now);
        report.instrument = InstrumentId(0);
        out.executions.push(report);
        Applied::Done
    }

    fn order(&self, place: Place) -> &Order {
        let order = self.books[place.book].get(place.handle);
        order.expect("an order of the index rests in its book")
    }
}

fn owner(command: &Command) -> Owner {
    Owner { user_ref: command.user_ref, account: command.account, cl_ord_id: command.cl_ord_id }
}

fn capacity(_: Full) -> RejectReason {
    RejectReason::CapacityReached
}
