//! Commands of operators: limits, kill switches, mass cancels, broken and corrected trades.

use types::{
    AccountId, CancelReason, Command, ExecutionKind, Input, InstrumentId, LimitKind, MarketEvent,
    MatchNumber, Nanos, Qty, REQUEST_SENT_AGAIN, RejectReason, Side,
};

use crate::apply::{Applied, Day, Engine};
use crate::orders::received_at;
use crate::output::{Output, account_of, refusal};

impl Engine {
    pub(crate) fn set_limit(&mut self, command: &Command) -> Applied {
        let account = command.account;
        let known = account.0 == 0 || self.accounts.exists(account);
        match LimitKind::from_code(command.param).filter(|_| known) {
            Some(kind) => {
                if !self.risk.set_shared(account, kind, command.qty.0, self.now.0) {
                    self.risk.set_limit(account, kind, command.qty.0);
                }
                Applied::Done
            }
            None => Applied::Refused,
        }
    }

    pub(crate) fn kill(&mut self, command: &Command, out: &mut Output) -> Applied {
        let account = command.account;
        if command.param > 1 || (account.0 != 0 && !self.accounts.exists(account)) {
            return Applied::Refused;
        }
        let on = command.param == 1;
        match account {
            AccountId(0) => self.risk.all_killed = on,
            account => self.risk.account_mut(account).killed = on,
        }
        if on {
            self.cancel_of_coming(command);
            let wanted = |order: &book::Order| account.0 == 0 || account_of(order.key()) == account;
            for slot in self.slots(InstrumentId(0)).unwrap_or_default() {
                self.cancel_where(slot, CancelReason::Killed, wanted, out);
            }
        }
        Applied::Done
    }

    /// By a participant (its own account and a request number: it gets an answer), by its gateway
    /// (its own account, no number), or by the exchange.
    pub(crate) fn mass_cancel(&mut self, input: &Input, out: &mut Output) -> Applied {
        let command = &input.command;
        let account = command.account;
        let asked = account.0 != 0 && command.user_ref.0 != 0;
        // Another shard, which got the same, answers.
        let quiet = command.reserved == 2;
        if account.0 == 0 && input.source.gateway.0 != 0 {
            return Applied::Refused;
        }
        if account.0 != 0 && !self.accounts.exists(account) {
            return Applied::Refused;
        }
        if asked {
            if let Err(ended) = self.claim(input, out) {
                return ended;
            }
            if !quiet {
                self.risk.take_message(account, received_at(input));
            }
        }
        let asked = asked && !quiet;
        let slots = match self.check_mass_cancel(command) {
            Ok(slots) => slots,
            Err(reason) if asked => return self.reject_cancel(command, reason, out),
            Err(_) => return Applied::Refused,
        };
        self.cancel_of_coming(command);
        let answer = out.executions.len();
        if asked {
            let kind = ExecutionKind::MassCanceled;
            out.executions.push(refusal(kind, command, RejectReason::None, self.now));
        }
        let gone = self.cancel_all(command, &slots, out);
        if asked && let Some(answer) = out.executions.get_mut(answer) {
            answer.qty = Qty(gone);
        }
        Applied::Done
    }

    fn check_mass_cancel(&self, command: &Command) -> Result<Vec<usize>, RejectReason> {
        if self.day != Day::Open {
            return Err(RejectReason::MarketClosed);
        }
        if command.param > 2 || command.reserved > REQUEST_SENT_AGAIN {
            return Err(RejectReason::Unsupported);
        }
        self.slots(command.instrument).ok_or(RejectReason::UnknownInstrument)
    }

    pub(crate) fn cancel_all(
        &mut self,
        command: &Command,
        slots: &[usize],
        out: &mut Output,
    ) -> u64 {
        let account = command.account;
        let session = command.orig_user_ref.0;
        let side = match command.param {
            0 => None,
            1 => Some(Side::Buy),
            _ => Some(Side::Sell),
        };
        let wanted = |order: &book::Order| {
            (account.0 == 0 || account_of(order.key()) == account)
                && side.is_none_or(|side| order.side() == side)
                && (session == 0 || u32::from(order.session()) == session)
        };
        let lost = command.reserved == 1;
        let reason = if lost { CancelReason::Disconnect } else { CancelReason::MassCancel };
        slots.iter().map(|&slot| self.cancel_where(slot, reason, wanted, out)).sum()
    }

    /// When the next good-till-date order ends; [`Nanos::NEVER`] when none is open. The first input
    /// at that time or later ends it, before anything else: where none comes, its owner logs a
    /// [`CommandKind::ExpireOrders`](types::CommandKind::ExpireOrders).
    #[inline(always)]
    pub fn next_expiry(&self) -> Nanos {
        self.books.next_expiry()
    }

    /// A deliberate fault, for tests of the checks that have to find it: no order ends.
    #[doc(hidden)]
    pub fn forget_expiry(&mut self) {
        self.keeps_expired = true;
    }

    /// Cancels the orders whose end is not after engine time.
    #[cold]
    pub(crate) fn expire_due(&mut self, out: &mut Output) {
        if self.keeps_expired {
            return;
        }
        while let Some(slot) = self.books.expiring(self.now).map(usize::from) {
            let (books, mut events) = self.events(slot, out);
            let ended = books.expire(slot as u16, &mut events);
            assert!(ended > 0, "a book that was named has orders to end");
            let interrupted = events.interrupted;
            self.settle(slot, interrupted, out);
        }
        let next = self.books.next_expiry();
        assert!(next > self.now || next == Nanos::NEVER, "nothing that was due is left");
    }

    /// Cancels the orders of one book that are wanted, and says how many.
    pub(crate) fn cancel_where(
        &mut self,
        slot: usize,
        reason: CancelReason,
        wanted: impl FnMut(&book::Order) -> bool,
        out: &mut Output,
    ) -> u64 {
        let (books, mut events) = self.events(slot, out);
        let open = books.len_of(slot as u16) as u64;
        let gone = books.cancel_where(slot as u16, reason, wanted, &mut events);
        let left = books.len_of(slot as u16) as u64;
        assert!(left + gone <= open, "those cancelled are gone, and perhaps others traded");
        let interrupted = events.interrupted;
        self.settle(slot, interrupted, out);
        gone
    }

    pub(crate) fn bust_trade(&mut self, command: &Command, out: &mut Output) -> Applied {
        let match_number = MatchNumber(command.qty.0);
        let Some(trade) = self.trades.remove(match_number) else { return Applied::Refused };
        let slot = usize::from(trade.slot);
        let counts = &mut self.counters.instruments[slot];
        counts.trades = counts.trades.saturating_sub(1);
        counts.volume = counts.volume.saturating_sub(u64::from(trade.qty));
        let instrument = InstrumentId(trade.slot + 1);
        let event = MarketEvent::BrokenTrade { instrument, match_number };
        let public_after = self.feed.publish_always(event, out);
        for side in [Side::Buy, Side::Sell] {
            let account = trade.party(side).account();
            self.risk.corrected(account, slot, side, -i64::from(trade.qty));
            let kind = ExecutionKind::TradeBroken;
            out.executions.push(trade.report(kind, side, public_after, self.now));
        }
        Applied::Done
    }

    /// The feed breaks the trade and tells it again as it should have been: at a price that an order could have,
    /// of at most the lots that it was made of, so that no order has traded more than it asked for.
    pub(crate) fn correct_trade(&mut self, command: &Command, out: &mut Output) -> Applied {
        let match_number = MatchNumber(command.qty.0);
        let (price, qty) = (command.price, command.min_qty);
        let Some(trade) = self.trades.get_mut(match_number) else { return Applied::Refused };
        let market = &self.markets[usize::from(trade.slot)];
        let in_range = price.0 > 0 && price <= market.price_max;
        // A trade in the middle of two prices may keep its own.
        let priced = price == trade.price || (in_range && market.fits(price));
        if qty == 0 || qty > trade.made_of || !priced {
            return Applied::Refused;
        }
        let more = i64::from(qty) - i64::from(trade.qty);
        (trade.price, trade.qty) = (price, qty);
        let trade = *trade;
        let slot = usize::from(trade.slot);
        let counts = &mut self.counters.instruments[slot];
        counts.volume = counts.volume.saturating_add_signed(more);
        let instrument = InstrumentId(trade.slot + 1);
        self.feed.publish_always(MarketEvent::BrokenTrade { instrument, match_number }, out);
        let (side, qty) = (Side::Buy, Qty(u64::from(qty)));
        let event = MarketEvent::Trade { instrument, side, qty, price, match_number };
        let public_after = self.feed.publish_always(event, out);
        for side in [Side::Buy, Side::Sell] {
            self.risk.corrected(trade.party(side).account(), slot, side, more);
            let kind = ExecutionKind::TradeCorrected;
            out.executions.push(trade.report(kind, side, public_after, self.now));
        }
        Applied::Done
    }
}
