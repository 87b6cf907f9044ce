//! Uncrossing (8) and phases (9).

use types::{
    CancelReason, Indicative, OrderEvent, OrderType, Phase, Price, Qty, Side, TimeInForce,
};

use super::{Market, Model, Order, Place};

/// What would change hands at a price (8.2).
#[derive(Clone, Copy)]
struct Candidate {
    price: Price,
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

impl Market {
    /// 8.2: the candidate the ladder leaves.
    fn auction(&self) -> Option<Candidate> {
        let mut prices = self.prices(Side::Buy);
        prices.extend(self.prices(Side::Sell));
        prices.extend(Some(self.reference).filter(|price| *price != Price(0)));
        prices.sort();
        prices.dedup();
        let mut left: Vec<Candidate> = prices.iter().map(|price| self.candidate(*price)).collect();
        left.retain(|c| c.volume() > 0);
        let volume = left.iter().map(Candidate::volume).max()?;
        left.retain(|c| c.volume() == volume); // 8.2.1
        let surplus = left.iter().map(Candidate::surplus).min()?;
        left.retain(|c| c.surplus() == surplus); // 8.2.2
        // 8.2.3; the prices ascend.
        if left.iter().all(|c| c.demand > c.supply) {
            return left.last().copied();
        }
        if left.iter().all(|c| c.demand < c.supply) || self.reference == Price(0) {
            return left.first().copied();
        }
        // 8.2.4: of two equally near the later, higher one.
        let distance = |c: &Candidate| c.price.0.abs_diff(self.reference.0);
        left.reverse();
        left.into_iter().min_by_key(distance)
    }

    fn candidate(&self, price: Price) -> Candidate {
        let lots = |side: Side| -> u64 {
            let takes_part = |o: &&Order| {
                let willing = o.place == Place::MarketQueue || o.in_level() && o.takes(price);
                o.side() == side && willing
            };
            self.orders.iter().filter(takes_part).map(|o| u64::from(o.open)).sum()
        };
        Candidate { price, demand: lots(Side::Buy), supply: lots(Side::Sell) }
    }

    /// 8.3: a side in the order in which it is served.
    fn served(&self, side: Side) -> Vec<Order> {
        let mut served = self.queue(side, Place::MarketQueue);
        served.extend(self.resting(side));
        served
    }
}

impl Model {
    /// 8.6: what an uncrossing would give now.
    pub fn indicative(&self, book: u16) -> Indicative {
        let Some(auction) = self.market(book).auction() else {
            return Indicative { price: None, volume: Qty(0), surplus: None };
        };
        let side = if auction.demand > auction.supply { Side::Buy } else { Side::Sell };
        let surplus = Some((side, Qty(auction.surplus()))).filter(|_| auction.surplus() > 0);
        Indicative { price: Some(auction.price), volume: Qty(auction.volume()), surplus }
    }

    /// Ends an interval of a batch auction (9.2); in other phases nothing happens.
    pub fn uncross(&mut self, book: u16) {
        let book = usize::from(book);
        if self.markets[book].phase == Phase::Batch {
            self.uncross_market(book);
        }
    }

    /// 9: the phase from now on.
    pub fn set_phase(&mut self, book: u16, phase: Phase) {
        let book = usize::from(book);
        let left = self.markets[book].phase;
        if left == phase {
            return; // 9.6
        }
        if matches!(phase, Phase::Continuous | Phase::Closed) || left == Phase::Batch {
            self.uncross_market(book); // 9.1, 9.2
        }
        self.enter_phase(book, phase);
        self.after_command(book); // 9.5
    }

    /// Changes the phase by the rules of section 9, without uncrossing the book.
    pub(super) fn enter_phase(&mut self, book: usize, phase: Phase) {
        self.markets[book].phase = phase;
        self.markets[book].pegs_saw = None;
        if phase != Phase::Continuous {
            self.park_pegs(book); // 7.4
        }
        // 9.3
        for order in self.markets[book].waiting() {
            match phase {
                Phase::ClosingCall => {
                    let order = self.markets[book].remove(order.key());
                    self.rest(book, order, None);
                }
                Phase::Closed => {
                    let order = self.markets[book].remove(order.key());
                    self.tell_canceled(book, order, CancelReason::AuctionOver);
                }
                _ => {}
            }
        }
    }

    /// Uncrosses a book by rules 8.2 to 8.5.
    fn uncross_market(&mut self, book: usize) {
        if let Some(auction) = self.markets[book].auction() {
            self.trade_auction(book, &auction);
        }
        for order in self.markets[book].all_orders() {
            let takes_part = order.in_level() || order.place == Place::MarketQueue;
            if takes_part && had_its_auction(&order) {
                self.markets[book].remove(order.key());
                self.tell_canceled(book, order, CancelReason::AuctionOver); // 8.5
            }
        }
    }

    /// Carries out the trades of an uncrossing by rules 8.3 and 8.4.
    fn trade_auction(&mut self, book: usize, auction: &Candidate) {
        let price = auction.price;
        let mut buys = self.markets[book].served(Side::Buy);
        let mut sells = self.markets[book].served(Side::Sell);
        let mut left = auction.volume();
        let mut last_buy = None;
        while left > 0 {
            let (buy, sell) = (&mut buys[0], &mut sells[0]);
            let qty = u64::from(buy.open.min(sell.open)).min(left) as u32;
            let (shown, other_shown) = (buy.consume(qty), sell.consume(qty));
            buy.traded += qty;
            sell.traded += qty;
            left -= u64::from(qty);
            let (buy, sell) = (*buy, *sell);
            let match_number = self.take_match_number();
            let event =
                OrderEvent::Traded { qty, price, match_number, shown, other_shown, auction: true };
            self.tell_trade(book, event, &buy, &sell);
            last_buy = Some(buy);
            for (order, queue) in [(buy, &mut buys), (sell, &mut sells)] {
                *self.markets[book].find_mut(order.key()) = order;
                if order.open == 0 {
                    self.markets[book].remove(order.key());
                    queue.remove(0);
                }
            }
        }
        self.markets[book].last_price = price;
        let match_number = self.take_match_number();
        if let Some(buy) = last_buy {
            self.tell(
                book,
                OrderEvent::Uncrossed { price, qty: auction.volume(), match_number },
                &buy,
            );
        }
        for side in [Side::Buy, Side::Sell] {
            for order in self.markets[book].resting(side) {
                self.replenish(book, order.key());
            }
        }
    }
}

/// 8.5: whether an order that took part has had its auction.
fn had_its_auction(order: &Order) -> bool {
    use TimeInForce::{AtTheClose, AtTheOpen, ImmediateOrCancel};
    let life = order.terms.time_in_force;
    order.order_type == OrderType::Market
        || matches!(life, ImmediateOrCancel | AtTheOpen | AtTheClose)
}
