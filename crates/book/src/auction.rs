//! Uncrossing: its price and its trades (8).

use types::{CancelReason, Indicative, OrderEvent, OrderType, Price, Qty, Side, TimeInForce};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::ladder::Queue;
use crate::market::Market;
use crate::order::{Home, NIL, Order};
use crate::slab::Slab;

/// A price at which lots would trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Candidate {
    price: i64,
    demand: u64,
    supply: u64,
}

impl Candidate {
    fn volume(&self) -> u64 {
        self.demand.min(self.supply)
    }

    fn surplus(&self) -> u64 {
        self.demand.abs_diff(self.supply)
    }
}

/// The best candidates so far: those of greatest volume and, of these, smallest surplus.
#[derive(Default)]
struct Choice {
    /// Lowest and highest price, and the one nearest to the reference price.
    lowest: Option<Candidate>,
    highest: Option<Candidate>,
    nearest: Option<Candidate>,
    /// Whether all candidates have a surplus on the buy side.
    all_buy: bool,
    all_sell: bool,
}

impl Choice {
    /// Considers a candidate; they come in ascending order of price.
    fn consider(&mut self, candidate: Candidate, reference: i64) {
        if candidate.volume() == 0 {
            return;
        }
        let (buy, sell) =
            (candidate.demand > candidate.supply, candidate.demand < candidate.supply);
        let rank = |c: &Candidate| (c.volume(), std::cmp::Reverse(c.surplus()));
        match self.lowest.map(|best| rank(&candidate).cmp(&rank(&best))) {
            Some(std::cmp::Ordering::Less) => return,
            Some(std::cmp::Ordering::Equal) => {
                self.all_buy &= buy;
                self.all_sell &= sell;
            }
            _ => {
                *self = Choice { lowest: Some(candidate), all_buy: buy, all_sell: sell, ..*self };
                self.nearest = None;
            }
        }
        self.highest = Some(candidate);
        let distance = |c: &Candidate| c.price.abs_diff(reference);
        if self.nearest.is_none_or(|nearest| distance(&candidate) <= distance(&nearest)) {
            self.nearest = Some(candidate);
        }
    }

    /// Chooses the price by rules 8.2.3 and 8.2.4; `None`: nothing would trade.
    fn decide(&self, reference: i64) -> Option<Candidate> {
        if self.all_buy {
            self.highest
        } else if self.all_sell || reference == 0 {
            self.lowest
        } else {
            self.nearest
        }
    }
}

/// Sum of the open quantities of a queue, lots.
fn queued(slab: &Slab, queue: Queue) -> u64 {
    let (mut sum, mut slot) = (0, queue.head);
    while slot != NIL {
        sum += u64::from(slab[slot].open);
        slot = slab[slot].next;
    }
    sum
}

/// The price of an uncrossing now (8.2): one pass over both sides in ascending order of price.
fn determine(market: &Market, slab: &Slab) -> Option<Candidate> {
    let [bids, asks] = &market.ladders;
    let mut demand = queued(slab, market.queues[Side::Buy as usize]);
    let mut supply = queued(slab, market.queues[Side::Sell as usize]);
    let mut bid = bids.best();
    while let Some(place) = bid {
        demand += bids.level(place).open;
        bid = bids.worse(place);
    }
    let reference = market.reference;
    let (mut choice, mut bid, mut ask) = (Choice::default(), bids.worst(), asks.best());
    let mut reference_left = (reference > 0).then_some(reference);
    loop {
        let bid_price = bid.map(|place| bids.price_at(place));
        let ask_price = ask.map(|place| asks.price_at(place));
        let next = [bid_price, ask_price, reference_left].into_iter().flatten().min();
        let Some(price) = next else { return choice.decide(reference) };
        if let Some(place) = ask.filter(|_| ask_price == next) {
            supply += asks.level(place).open;
            ask = asks.worse(place);
        }
        choice.consider(Candidate { price, demand, supply }, reference);
        if let Some(place) = bid.filter(|_| bid_price == next) {
            demand -= bids.level(place).open;
            bid = bids.better(place);
        }
        reference_left = reference_left.filter(|_| reference_left != next);
    }
}

/// Result that an uncrossing would have now.
pub(crate) fn indicative(market: &Market, slab: &Slab) -> Indicative {
    let Some(found) = determine(market, slab) else {
        return Indicative { price: None, volume: Qty(0), surplus: None };
    };
    let side = if found.demand > found.supply { Side::Buy } else { Side::Sell };
    let surplus = (found.surplus() > 0).then_some((side, Qty(found.surplus())));
    Indicative { price: Some(Price(found.price)), volume: Qty(found.volume()), surplus }
}

impl<S: Sink> BookOps<'_, S> {
    /// Uncrosses the book and cancels what has had its auction (8.3 to 8.5).
    pub(crate) fn uncross(&mut self) {
        if let Some(found) = determine(self.market, &self.shared.slab) {
            self.execute(found.price, found.volume());
        }
        self.cancel_where(CancelReason::AuctionOver, |order| {
            order.home == Home::Market
                || (matches!(order.home, Home::Shown | Home::Hidden) && auction_only(order))
        });
    }

    /// The first order of a side that is still to be served.
    fn first_in_auction(&self, side: Side) -> u32 {
        match self.market.queues[side as usize].head {
            NIL => {
                let ladder = self.market.own(side);
                ladder.best().map_or(NIL, |place| ladder.first(place))
            }
            head => head,
        }
    }

    /// Trades `volume` lots at one price (8.3, 8.4).
    fn execute(&mut self, price: i64, volume: u64) {
        let mut left = volume;
        let (mut buy, mut sell) = (NIL, NIL);
        while left > 0 {
            buy = self.first_in_auction(Side::Buy);
            sell = self.first_in_auction(Side::Sell);
            debug_assert!(buy != NIL && sell != NIL, "an auction has both sides");
            let most = left.min(u64::from(u32::MAX)) as u32;
            let qty = self.order(buy).open.min(self.order(sell).open).min(most);
            self.trade_in_auction(buy, sell, qty, price);
            left -= u64::from(qty);
        }
        self.market.last = price;
        let match_number = self.shared.next_match();
        let event = OrderEvent::Uncrossed { price: Price(price), qty: Qty(volume).0, match_number };
        // The slot of an order that traded in full has not been taken again yet.
        self.tell(buy, event);
        for slot in [buy, sell] {
            let order = self.order(slot);
            if order.home == Home::Shown && order.shown == 0 {
                self.replenish(slot);
            }
        }
    }

    fn trade_in_auction(&mut self, buy: u32, sell: u32, qty: u32, price: i64) {
        let match_number = self.shared.next_match();
        let [shown, other_shown] = [buy, sell].map(|slot| {
            let shown = self.order(slot).shown.min(qty);
            self.lose(slot, qty, shown);
            self.order_mut(slot).traded = self.order(slot).traded.wrapping_add(qty);
            shown
        });
        self.shared.tally.traded(qty);
        let price = Price(price);
        let event =
            OrderEvent::Traded { qty, price, match_number, shown, other_shown, auction: true };
        let slab = &self.shared.slab;
        self.sink.tell(event, &slab[buy], Some(&slab[sell]));
        for slot in [buy, sell] {
            if self.order(slot).open == 0 {
                self.take_out(slot);
                self.forget(slot);
            }
        }
    }
}

/// Whether a limit order in a level has its last chance in an auction.
fn auction_only(order: &Order) -> bool {
    use TimeInForce::{AtTheClose, AtTheOpen, ImmediateOrCancel};
    order.order_type == OrderType::Limit
        && matches!(order.time_in_force, AtTheClose | AtTheOpen | ImmediateOrCancel)
}
