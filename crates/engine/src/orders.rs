//! New orders, cancels and replaces: one answer each, then what follows from it.
//!
//! A request is first claimed by its business identity, then checked (day, kill switch, message
//! rate, terms, limits, and last by the book), and only then changes anything: a refused replace
//! leaves its order as it was.

use types::{
    Command, CommandKind, ExecutionKind, INPUT_T_IN_CAPPED, Input, InstrumentId, NewOrder,
    OrderType, Price, REFUSED_MASS_CANCEL, RejectReason, SelfTrade,
};

use crate::apply::{Applied, Day, Engine};
use crate::engine_events::{ReplacedOrder, open_price};
use crate::output::{Output, key_of, refusal};
use crate::risk::Proposal;
use crate::terms;

impl Engine {
    #[inline(never)]
    pub(crate) fn new_order(&mut self, input: &Input, out: &mut Output) -> Applied {
        if let Err(ended) = self.claim(input, out) {
            return ended;
        }
        match self.enter(input, out) {
            Ok(()) => Applied::Done,
            Err(reason) => self.reject(&input.command, reason, out),
        }
    }

    #[inline(never)]
    pub(crate) fn replace(&mut self, input: &Input, out: &mut Output) -> Applied {
        if let Err(ended) = self.claim(input, out) {
            return ended;
        }
        match self.exchange(input, out) {
            Ok(()) => Applied::Done,
            Err(reason) => self.reject(&input.command, reason, out),
        }
    }

    #[inline(never)]
    pub(crate) fn cancel(&mut self, input: &Input, out: &mut Output) -> Applied {
        let command = &input.command;
        if !self.accounts.exists(command.account) {
            return Applied::Refused;
        }
        if self.day != Day::Open {
            return self.reject_cancel(command, RejectReason::MarketClosed, out);
        }
        if command.is_sent_again()
            && let Some(reason) = self.check_sent_again(input)
        {
            let reason = reason.unwrap_or(RejectReason::Halted);
            return self.reject_cancel(command, reason, out);
        }
        // Counts as a message, but taking away is never refused.
        self.risk.take_message(command.account, received_at(input));
        let key = key_of(command.account, command.user_ref);
        let Some(found) = self.books.look(key) else {
            self.counters.cancels_too_late += 1;
            let reason = self.not_here(command, RejectReason::UnknownOrder);
            return self.reject_cancel(command, reason, out);
        };
        let order = self.books.found(&found);
        let (slot, open) = (usize::from(order.book()), order.open());
        let left = command.qty.0.saturating_sub(u64::from(order.traded()));
        // A cancel may only take away.
        if left >= u64::from(open) {
            return self.reject_cancel(command, RejectReason::InvalidQuantity, out);
        }
        self.counters.canceled += 1;
        let (books, mut events) = self.events(slot, out);
        events.asked_as = Some(&command.cl_ord_id);
        let done = match left as u32 {
            0 => {
                books.cancel_found(found, &mut events);
                Ok(())
            }
            left => books.reduce(key, left, &mut events),
        };
        let interrupted = events.interrupted;
        if let Err(reason) = done {
            return self.reject_cancel(command, reason, out);
        }
        self.settle(slot, interrupted, out);
        Applied::Done
    }

    /// Takes a new order, or says why not.
    #[inline(always)]
    fn enter(&mut self, input: &Input, out: &mut Output) -> Result<(), RejectReason> {
        let command = &input.command;
        self.check_account(input)?;
        let slot = self.slot(command.instrument).ok_or(RejectReason::UnknownInstrument);
        let slot = slot.map_err(|unknown| self.not_here(command, unknown))?;
        let market = &self.markets[slot];
        let price = terms::check(command, command.order_type, market, self.now)?;
        let key = key_of(command.account, command.user_ref);
        let id_hash = self.books.hash_identifier(key, &command.cl_ord_id);
        if self.books.has_identifier(key, &command.cl_ord_id, id_hash) {
            return Err(RejectReason::DuplicateClOrdId);
        }
        let market_price = market.price();
        self.risk.allow(&Proposal {
            account: command.account,
            slot,
            side: command.side,
            total: command.qty.0,
            open: command.qty.0,
            limit_price: price,
            value_price: value_price(command, command.order_type, price, market_price),
            market: market_price,
            instead_of: None,
        })?;
        let order = self.order(input, price);
        let (books, mut events) = self.events(slot, out);
        if order.order_type == OrderType::MarketToLimit {
            events.prices_late = order.key;
        }
        books.submit_new(slot as u16, &order, id_hash, &mut events)?;
        let interrupted = events.interrupted;
        self.settle(slot, interrupted, out);
        Ok(())
    }

    /// Replaces an order, or says why not.
    #[inline(always)]
    fn exchange(&mut self, input: &Input, out: &mut Output) -> Result<(), RejectReason> {
        let command = &input.command;
        self.check_account(input)?;
        let old_key = key_of(command.account, command.orig_user_ref);
        let found = self.books.look(old_key).ok_or(RejectReason::UnknownOrder);
        let found = found.map_err(|unknown| self.not_here(command, unknown))?;
        let old = self.books.found(&found);
        let (slot, order_type) = (usize::from(old.book()), old.order_type());
        if command.order_type == OrderType::Market && order_type != OrderType::Market {
            return Err(RejectReason::Unsupported);
        }
        let market = &self.markets[slot];
        let price = terms::check(command, order_type, market, self.now)?;
        if command.qty.0 <= u64::from(old.traded()) {
            return Err(RejectReason::NothingLeft);
        }
        let open = command.qty.0 - u64::from(old.traded());
        assert!(old.open() > 0 && old.shown() <= old.open(), "an open order has lots");
        let id_hash = self.books.hash_identifier(old_key, &command.cl_ord_id);
        if command.cl_ord_id != *old.cl_ord_id()
            && self.books.has_identifier(old_key, &command.cl_ord_id, id_hash)
        {
            return Err(RejectReason::DuplicateClOrdId);
        }
        let market_price = market.price();
        self.risk.allow(&Proposal {
            account: command.account,
            slot,
            side: old.side(),
            total: command.qty.0,
            open,
            limit_price: price,
            value_price: value_price(command, order_type, price, market_price),
            market: market_price,
            instead_of: Some((u64::from(old.open()), open_price(old))),
        })?;
        let mut order = self.order(input, price);
        (order.side, order.order_type) = (old.side(), order_type);
        (order.qty, order.traded) = (open as u32, old.traded());
        let replaced = ReplacedOrder { open: old.open(), price: open_price(old) };
        let (books, mut events) = self.events(slot, out);
        events.replaced = Some(replaced);
        if order_type == OrderType::MarketToLimit {
            events.prices_late = order.key;
        }
        books.replace_found(found, &order, id_hash, true, &mut events)?;
        assert!(events.replaced.is_none(), "the old order was taken off the risk sums");
        let interrupted = events.interrupted;
        self.settle(slot, interrupted, out);
        Ok(())
    }

    /// What the book is asked to take.
    #[inline(always)]
    fn order(&self, input: &Input, price: Price) -> NewOrder {
        let command = &input.command;
        let account = self.risk.account(command.account);
        let self_trade = match command.self_trade {
            SelfTrade::Allow => account.self_trade,
            asked => asked,
        };
        NewOrder {
            key: key_of(command.account, command.user_ref),
            group: account.group,
            session: input.source.gateway.0,
            side: command.side,
            order_type: command.order_type,
            time_in_force: command.time_in_force,
            flags: command.flags,
            self_trade,
            qty: command.qty.0 as u32,
            traded: 0,
            display_qty: command.display_qty,
            min_qty: command.min_qty,
            price,
            stop_price: command.stop_price,
            expire_at: command.expire_at,
            cl_ord_id: command.cl_ord_id,
        }
    }

    /// Business identity: a request number counts once a day, and while an order lives under it.
    #[inline(always)]
    pub(crate) fn claim(&mut self, input: &Input, out: &mut Output) -> Result<(), Applied> {
        let command = &input.command;
        if !self.accounts.exists(command.account) {
            return Err(Applied::Refused);
        }
        if command.user_ref.0 == 0 {
            return Err(self.reject(command, RejectReason::Unsupported, out));
        }
        if command.is_sent_again()
            && let Some(ended) = self.check_sent_again(input)
        {
            return Err(match ended {
                Some(reason) if command.kind == CommandKind::MassCancel => {
                    self.reject_cancel(command, reason, out)
                }
                Some(reason) => self.reject(command, reason, out),
                None => Applied::DuplicateRequest,
            });
        }
        let new = self.accounts.record(command.account, command.user_ref)
            && !self.between.as_ref().is_some_and(|between| between.moves.has_seen(command));
        // Only an order of an earlier day can be open under a number that is new today.
        let lives = self.carried_over
            && self.books.get(key_of(command.account, command.user_ref)).is_some();
        if !new || lives {
            self.counters.duplicate_request += 1;
            return Err(Applied::DuplicateRequest);
        }
        Ok(())
    }

    /// Whether the account may send orders now.
    #[inline(always)]
    fn check_account(&mut self, input: &Input) -> Result<(), RejectReason> {
        if self.day != Day::Open {
            return Err(RejectReason::MarketClosed);
        }
        let account = input.command.account;
        if self.risk.all_killed || self.risk.account(account).killed {
            return Err(RejectReason::Killed);
        }
        let at = received_at(input);
        if !self.risk.take_message(account, at) {
            return Err(self.risk.no_message(account, at));
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn reject(&mut self, command: &Command, reason: RejectReason, out: &mut Output) -> Applied {
        self.counters.rejected(reason);
        out.executions.push(refusal(ExecutionKind::Rejected, command, reason, self.now));
        Applied::Done
    }

    #[inline(never)]
    pub(crate) fn reject_cancel(
        &self,
        command: &Command,
        reason: RejectReason,
        out: &mut Output,
    ) -> Applied {
        let mut report = refusal(ExecutionKind::CancelRejected, command, reason, self.now);
        report.instrument = InstrumentId(0);
        report.flags =
            if command.kind == CommandKind::MassCancel { REFUSED_MASS_CANCEL } else { 0 };
        out.executions.push(report);
        Applied::Done
    }
}

/// When the account's message counts: its gateway's time, unless that was not believed.
pub(crate) fn received_at(input: &Input) -> u64 {
    if input.flags & INPUT_T_IN_CAPPED != 0 { input.t_seq.0 } else { input.t_in.0 }
}

/// What an order is valued at on entry; see [`crate::risk`].
fn value_price(command: &Command, kind: OrderType, price: Price, market: Price) -> Price {
    match kind {
        _ if price.0 != 0 => price,
        OrderType::Stop => command.stop_price,
        _ => market,
    }
}
