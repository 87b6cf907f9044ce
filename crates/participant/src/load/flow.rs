//! What a client asks next: limit orders around a price, cancels and replacements of its own.

use std::collections::VecDeque;

use types::{Nanos, Price, Side, SplitMix64};

use super::requests::{Answer, LimitOrder, Request, Requests};

/// Orders a client keeps open; with more the oldest is cancelled.
const OPEN_MAX: usize = 16;
/// Share of replacements among requests, where an order is open, permille.
const REPLACES: u64 = 100;
/// Share of new orders that are priced to trade, permille.
const CROSSING: u64 = 200;
/// Farthest an order is priced from the middle, ticks.
const FAR: u64 = 20;
/// Largest order, lots.
const LOTS_MAX: u64 = 100;
/// An order with a time to end lives a millisecond, doubled less often than this: 2 s at most.
const LIVE_DOUBLED: u64 = 12;

/// See the module; deterministic from its seed and from what it hears.
#[derive(Debug)]
pub struct Flow {
    rng: SplitMix64,
    middle: i64,
    tick: i64,
    /// Share of new orders with an expiry, permille.
    expiring: u64,
    /// Orders thought open, oldest first, without those with a cancel on the way.
    open: VecDeque<u32>,
}

impl Flow {
    /// Around `middle`, in whole ticks of it; `expiring` of a thousand new orders have a time to end.
    pub fn new(seed: u64, middle: Price, tick: Price, expiring: u64) -> Flow {
        let tick = tick.0.max(1);
        let middle = middle.0 / tick * tick;
        let (rng, open) = (SplitMix64::new(seed), VecDeque::with_capacity(64));
        Flow { rng, middle, tick, expiring, open }
    }

    /// The next request, entered into `requests`.
    pub fn next(&mut self, requests: &mut Requests, due: Nanos) -> Request {
        if self.open.len() >= OPEN_MAX
            && let Some(request) = self.open.pop_front().and_then(|o| requests.cancel(o, due))
        {
            return request;
        }
        if self.rng.permille(REPLACES)
            && let Some(original) = self.open.pop_front()
            && let Some(terms) = requests.terms(original)
        {
            let price = self.price(terms.side);
            let request = requests.add(original, LimitOrder { price, ..terms }, due);
            self.open.push_back(request.order);
            return request;
        }
        let side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        let (price, lots) = (self.price(side), 1 + self.rng.below(LOTS_MAX) as u32);
        let expires = self.expiring > 0 && self.rng.permille(self.expiring);
        let expire_at = expires.then(|| self.end(due));
        let request = requests.add(0, LimitOrder { side, price, lots, expire_at }, due);
        self.open.push_back(request.order);
        request
    }

    fn end(&mut self, due: Nanos) -> Nanos {
        let at = due.after(Nanos::MILLI << self.rng.below(LIVE_DOUBLED));
        Nanos(at.0 - at.0 % Nanos::MILLI)
    }

    fn price(&mut self, side: Side) -> Price {
        let away = 1 + self.rng.below(FAR) as i64;
        let away = if self.rng.permille(CROSSING) { -away } else { away };
        let ticks = if side == Side::Buy { -away } else { away };
        Price((self.middle + ticks * self.tick).max(self.tick))
    }

    /// An answer: orders that are not there are not cancelled.
    pub fn heard(&mut self, order: u32, answer: Answer) {
        if matches!(
            answer,
            Answer::Rejected(_) | Answer::Removed | Answer::Expired | Answer::Canceled
        ) {
            self.gone(order);
        }
    }

    /// The order is no longer open.
    pub fn gone(&mut self, order: u32) {
        self.open.retain(|open| *open != order);
    }
}
