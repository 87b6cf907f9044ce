//! What an event of the books means to everybody: reports to the accounts, messages on the feed,
//! the risk sums, the counters and the trades that can be broken.
//!
//! The public is told of displayed lots only (corner 17). A report of an execution names the feed
//! position of the message that prints it (corner 16): of an auction's trades that is the
//! `CrossTrade`, whose position is known only after them and is filled in then.

use book::{Order, Sink};
use types::{
    CancelReason, ClOrdId, CrossKind, ExecutionKind, FeedSeq, InstrumentId, Liquidity, MarketEvent,
    MatchNumber, Nanos, OrderEvent, OrderRef, OrderType, Price, Qty, Side, TradingState,
    UserRefNum,
};

use crate::counters::Counters;
use crate::output::{Feed, Output, about_order, account_of};
use crate::risk::{Less, Risk};
use crate::trades::{Party, Trade, Trades};

/// An order that a replace takes out of the book: what has to be taken off the risk sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacedOrder {
    pub(crate) open: u32,
    pub(crate) price: Price,
}

/// Takes the events of one call of the books.
pub(crate) struct EngineEvents<'a> {
    pub(crate) out: &'a mut Output,
    pub(crate) feed: &'a mut Feed,
    pub(crate) risk: &'a mut Risk,
    pub(crate) counters: &'a mut Counters,
    pub(crate) trades: &'a mut Trades,
    pub(crate) slot: usize,
    pub(crate) now: Nanos,
    /// What an uncrossing is called on the feed. Only a call about the phase uncrosses, and sets this.
    pub(crate) crosses: CrossKind,
    /// The order a replace is about.
    pub(crate) replaced: Option<ReplacedOrder>,
    /// Key of an incoming market-to-limit order, which gets its price when it rests; 0: none.
    pub(crate) prices_late: u64,
    /// Identifier of the cancel under way; blank: it has none. `None`: none is.
    pub(crate) asked_as: Option<&'a ClOrdId>,
    /// First report of the uncrossing under way.
    pub(crate) auction_from: usize,
    /// Whether the dynamic collar stopped trading.
    pub(crate) interrupted: bool,
}

/// The price at which an order's open lots count as open value; see [`crate::risk`].
#[inline]
pub(crate) fn open_price(order: &Order) -> Price {
    match order.order_type() {
        OrderType::Limit | OrderType::StopLimit => order.price(),
        _ => Price(0),
    }
}

/// What the risk sums lose by `lots` of an order, told after they are gone.
#[inline]
fn less(order: &Order, slot: usize, lots: u32) -> Less {
    Less {
        account: account_of(order.key()),
        slot,
        side: order.side(),
        lots,
        price: open_price(order),
        last: order.open() == 0,
    }
}

impl EngineEvents<'_> {
    fn instrument(&self) -> InstrumentId {
        InstrumentId(self.slot as u16 + 1)
    }

    #[inline]
    fn publish(&mut self, event: MarketEvent) -> FeedSeq {
        self.feed.publish(event, self.out)
    }

    #[inline(always)]
    fn accepted(&mut self, order: &Order) {
        // First the report: what has just been written of the order is then still at hand.
        let kind = ExecutionKind::Accepted;
        let mut report = about_order(kind, self.instrument(), order, self.now);
        report.qty = report.leaves;
        report.price = order.limit();
        self.out.report(report, order.cl_ord_id());
        self.counters.accepted += 1;
        let account = account_of(order.key());
        self.risk.opened(account, self.slot, order.side(), order.open(), open_price(order));
    }

    #[inline(never)]
    fn replaced(&mut self, order: &Order, old_key: u64, kept: bool, shown_less: u32) {
        self.counters.replaced += 1;
        let (account, side) = (account_of(order.key()), order.side());
        assert!(self.replaced.is_some(), "only a replace that was asked for is told of, once");
        if let Some(old) = self.replaced.take() {
            self.risk.closed(&Less {
                account,
                slot: self.slot,
                side,
                lots: old.open,
                price: old.price,
                last: true,
            });
            self.risk.opened(account, self.slot, side, order.open(), open_price(order));
        }
        let instrument = self.instrument();
        let mut report = about_order(ExecutionKind::Replaced, instrument, order, self.now);
        report.orig_user_ref = UserRefNum(old_key as u32);
        report.qty = report.leaves;
        report.price = order.limit();
        self.out.report(report, order.cl_ord_id());
        if kept && shown_less > 0 {
            let (order_ref, qty) = (order.order_ref(), lots(shown_less));
            self.publish(MarketEvent::OrderCancel { instrument, order_ref, qty });
        }
    }

    #[inline(always)]
    fn added(&mut self, order: &Order, instead_of: OrderRef) {
        if order.key() == self.prices_late && order.order_type() == OrderType::Limit {
            self.risk.priced(account_of(order.key()), order.open(), order.price());
            self.prices_late = 0;
        }
        if order.shown() == 0 {
            return;
        }
        assert!(order.shown() <= order.open(), "an order shows no more than it has open");
        let instrument = self.instrument();
        let (qty, price) = (lots(order.shown()), order.price());
        let order_ref = order.order_ref();
        self.publish(if instead_of.0 == 0 {
            let side = order.side();
            MarketEvent::AddOrder { instrument, order_ref, side, qty, price }
        } else {
            let (old_ref, new_ref) = (instead_of, order_ref);
            MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price }
        });
    }

    #[inline(never)]
    fn traded(&mut self, trade: &Fill, order: &Order, other: &Order) {
        assert!(order.side() != other.side(), "a trade has two sides");
        assert!(trade.shown <= trade.qty && trade.other_shown <= trade.qty);
        let instrument = self.instrument();
        let (qty, price, match_number) = (lots(trade.qty), trade.price, trade.match_number);
        let counts = &mut self.counters.instruments[self.slot];
        counts.trades += 1;
        counts.volume += qty.0;
        let order_ref = order.order_ref();
        let public_after = if trade.auction {
            for (order, shown) in [(order, trade.shown), (other, trade.other_shown)] {
                self.print_shown(order, shown, trade);
            }
            FeedSeq(0)
        } else if trade.shown > 0 {
            self.publish(MarketEvent::OrderExecuted { instrument, order_ref, qty, match_number })
        } else {
            let side = order.side();
            self.publish(MarketEvent::Trade { instrument, side, qty, price, match_number })
        };
        let (rested, came) = match trade.auction {
            true => [Liquidity::from(self.crosses); 2].into(),
            false => (Liquidity::Added, Liquidity::Removed),
        };
        self.executed(trade, order, rested, public_after);
        self.executed(trade, other, came, public_after);
        let (buy, sell) = if order.side() == Side::Buy { (order, other) } else { (other, order) };
        let (buy, sell) = (Party::of(buy), Party::of(sell));
        let slot = self.slot as u16;
        let (qty, made_of) = (trade.qty, trade.qty);
        self.trades.push(Trade { match_number, price, qty, made_of, slot, buy, sell });
    }

    /// One side of a trade is told, and its sums are kept up.
    #[inline(always)]
    fn executed(
        &mut self,
        trade: &Fill,
        party: &Order,
        liquidity: Liquidity,
        public_after: FeedSeq,
    ) {
        let kind = ExecutionKind::Executed;
        let mut report = about_order(kind, self.instrument(), party, self.now);
        report.liquidity = liquidity;
        report.qty = lots(trade.qty);
        report.price = trade.price;
        report.match_number = trade.match_number;
        report.public_after = public_after;
        self.out.report(report, party.cl_ord_id());
        self.risk.traded(&less(party, self.slot, trade.qty), trade.price);
    }

    /// The displayed part of one side of an auction trade.
    #[cold]
    fn print_shown(&mut self, order: &Order, shown: u32, trade: &Fill) {
        if shown > 0 {
            self.publish(MarketEvent::OrderExecutedWithPrice {
                instrument: self.instrument(),
                order_ref: order.order_ref(),
                qty: lots(shown),
                match_number: trade.match_number,
                printable: false,
                price: trade.price,
            });
        }
    }

    #[cold]
    fn uncrossed(&mut self, price: Price, qty: u64, match_number: MatchNumber) {
        let (instrument, kind) = (self.instrument(), self.crosses);
        let qty = Qty(qty);
        let event = MarketEvent::CrossTrade { instrument, qty, price, match_number, kind };
        let position = self.publish(event);
        assert!(self.auction_from <= self.out.executions.len());
        for report in &mut self.out.executions[self.auction_from..] {
            if report.kind == ExecutionKind::Executed && report.public_after.0 == 0 {
                report.public_after = position;
            }
        }
        self.auction_from = self.out.executions.len();
    }

    /// Open lots went away without trading; the order goes on when it has any left.
    #[inline(never)]
    fn shrunk(&mut self, order: &Order, qty: u32, shown: u32, reason: CancelReason) {
        assert!(shown <= qty, "no more is taken off the display than off the order");
        let instrument = self.instrument();
        let kind = ExecutionKind::Canceled;
        let mut report = about_order(kind, instrument, order, self.now);
        report.cancel_reason = reason;
        report.qty = lots(qty);
        let named =
            self.asked_as.filter(|id| reason == CancelReason::Requested && **id != ClOrdId::BLANK);
        self.out.report(report, named.unwrap_or(order.cl_ord_id()));
        let mut less = less(order, self.slot, qty);
        if order.key() == self.prices_late {
            // It had got its price, and found no room there.
            less.price = Price(0);
        }
        self.risk.closed(&less);
        let order_ref = order.order_ref();
        if shown > 0 && order.shown() == 0 {
            self.publish(MarketEvent::OrderDelete { instrument, order_ref });
        } else if shown > 0 {
            let qty = lots(shown);
            self.publish(MarketEvent::OrderCancel { instrument, order_ref, qty });
        }
    }

    #[cold]
    fn interrupt(&mut self) {
        self.interrupted = true;
        let (instrument, state) = (self.instrument(), TradingState::Paused);
        self.publish(MarketEvent::TradingAction { instrument, state });
    }

    #[cold]
    fn restated(&mut self, kind: ExecutionKind, order: &Order) {
        let mut report = about_order(kind, self.instrument(), order, self.now);
        report.qty = report.leaves;
        self.out.report(report, order.cl_ord_id());
    }
}

/// A trade as the books tell it.
struct Fill {
    qty: u32,
    price: Price,
    match_number: MatchNumber,
    shown: u32,
    other_shown: u32,
    auction: bool,
}

fn lots(lots: u32) -> Qty {
    Qty(u64::from(lots))
}

impl Sink for EngineEvents<'_> {
    /// Inlined, so that where the books tell of something it is known what.
    #[inline(always)]
    fn tell(&mut self, event: OrderEvent, order: &Order, other: Option<&Order>) {
        let instrument = self.instrument();
        match event {
            OrderEvent::Accepted => self.accepted(order),
            OrderEvent::Replaced { old_key, kept, shown_less, .. } => {
                self.replaced(order, old_key, kept, shown_less);
            }
            OrderEvent::Added { instead_of } => self.added(order, instead_of),
            OrderEvent::Withdrawn { order_ref } => {
                self.publish(MarketEvent::OrderDelete { instrument, order_ref });
            }
            OrderEvent::Traded { qty, price, match_number, shown, other_shown, auction } => {
                let other = other.expect("a trade has two sides");
                let trade = Fill { qty, price, match_number, shown, other_shown, auction };
                self.traded(&trade, order, other);
            }
            OrderEvent::Replenished { .. } => self.added(order, OrderRef(0)),
            OrderEvent::Reduced { qty, shown, reason }
            | OrderEvent::Canceled { qty, shown, reason } => {
                self.shrunk(order, qty, shown, reason);
            }
            OrderEvent::Triggered => self.restated(ExecutionKind::Triggered, order),
            OrderEvent::Repriced { .. } => self.restated(ExecutionKind::Restated, order),
            OrderEvent::Interrupted { .. } => self.interrupt(),
            OrderEvent::Uncrossed { price, qty, match_number } => {
                self.uncrossed(price, qty, match_number);
            }
        }
    }
}
