//! What a client asks next: limit orders around a price, cancels and replacements of its own.

use std::collections::VecDeque;

use types::{Nanos, Price, Side, SplitMix64};

use super::requests::{Answer, Request, Requests};

/// Orders a client keeps open; with more the oldest is cancelled.
const OPEN_MAX: usize = 16;
/// Of a thousand requests: replacements, where something is open.
const REPLACES: u64 = 100;
/// Of a thousand new orders: those priced to trade.
const CROSSING: u64 = 200;
/// Farthest an order is priced from the middle, ticks.
const FAR: u64 = 20;
/// Largest order, lots.
const LOTS_MAX: u64 = 100;

/// See the module; deterministic from its seed and from what it hears.
#[derive(Debug)]
pub struct Flow {
    rng: SplitMix64,
    middle: i64,
    tick: i64,
    /// Orders thought open, oldest first, without those with a cancel on the way.
    open: VecDeque<u32>,
}

impl Flow {
    /// Around `middle`, in whole ticks of it.
    pub fn new(seed: u64, middle: Price, tick: Price) -> Flow {
        let tick = tick.0.max(1);
        let middle = middle.0 / tick * tick;
        Flow { rng: SplitMix64::new(seed), middle, tick, open: VecDeque::with_capacity(64) }
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
            && let Some((side, _, lots)) = requests.terms(original)
        {
            let price = self.price(side);
            let request = requests.add(original, (side, price, lots), due);
            self.open.push_back(request.order);
            return request;
        }
        let side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        let (price, lots) = (self.price(side), 1 + self.rng.below(LOTS_MAX) as u32);
        let request = requests.add(0, (side, price, lots), due);
        self.open.push_back(request.order);
        request
    }

    fn price(&mut self, side: Side) -> Price {
        let away = 1 + self.rng.below(FAR) as i64;
        let away = if self.rng.permille(CROSSING) { -away } else { away };
        let ticks = if side == Side::Buy { -away } else { away };
        Price((self.middle + ticks * self.tick).max(self.tick))
    }

    /// An answer: orders that are not there are not cancelled.
    pub fn heard(&mut self, order: u32, answer: Answer) {
        if matches!(answer, Answer::Rejected(_) | Answer::Removed | Answer::Canceled) {
            self.gone(order);
        }
    }

    /// The order is no longer open.
    pub fn gone(&mut self, order: u32) {
        self.open.retain(|open| *open != order);
    }
}
