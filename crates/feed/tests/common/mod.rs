//! A seeded stream of valid market events with the books it must lead to, kept the slow way.

use types::{
    Instrument, InstrumentId, MarketEvent, MatchNumber, Nanos, OrderRef, Price, Qty, Side,
    SplitMix64, Symbol, SystemEventCode, TradingState, displayed_book, limits,
};
use wire::itch::Encoder;

/// Instruments of the stream.
pub const INSTRUMENTS: u16 = 3;

/// One order of the model.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub instrument: InstrumentId,
    pub order_ref: OrderRef,
    pub side: Side,
    pub qty: Qty,
    pub price: Price,
}

/// Events, their bytes, and the model after each.
pub struct Stream {
    pub encoder: Encoder,
    pub messages: Vec<Vec<u8>>,
    /// Orders in the order in which they joined their queues.
    pub resting: Vec<Order>,
    pub trades: [u64; INSTRUMENTS as usize + 1],
    rng: SplitMix64,
    next_ref: u64,
    next_match: u64,
}

pub fn instruments() -> Vec<Instrument> {
    (1..=INSTRUMENTS)
        .map(|id| Instrument {
            id: InstrumentId(id),
            symbol: Symbol::new(&format!("TEST{id}")).expect("valid"),
            tick: Price(1),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 8,
        })
        .collect()
}

impl Stream {
    /// The start of a day.
    pub fn new(seed: u64) -> Stream {
        let mut stream = Stream {
            encoder: Encoder::new(&instruments(), Nanos(0)),
            messages: Vec::new(),
            resting: Vec::new(),
            trades: [0; INSTRUMENTS as usize + 1],
            rng: SplitMix64::new(seed),
            next_ref: 1,
            next_match: 1,
        };
        stream.push(MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages });
        for id in 1..=INSTRUMENTS {
            stream.push(MarketEvent::Directory { instrument: InstrumentId(id) });
        }
        for id in 1..=INSTRUMENTS {
            let (instrument, state) = (InstrumentId(id), TradingState::Trading);
            stream.push(MarketEvent::TradingAction { instrument, state });
        }
        stream
    }

    fn push(&mut self, event: MarketEvent) {
        let mut bytes = Vec::new();
        let at = Nanos(self.messages.len() as u64 * 1_000);
        self.encoder.encode(&event, at, &mut bytes).expect("encodable");
        self.messages.push(bytes);
    }

    /// One more random event.
    pub fn step(&mut self) {
        let draw = self.rng.below(100);
        if self.resting.is_empty() || draw < 45 {
            self.add();
            return;
        }
        let index = self.rng.below(self.resting.len() as u64) as usize;
        let Order { instrument, order_ref, side, qty, .. } = self.resting[index];
        if draw < 60 {
            self.resting.remove(index);
            self.push(MarketEvent::OrderDelete { instrument, order_ref });
        } else if draw < 75 {
            let new = self.order(instrument, side);
            self.resting.remove(index);
            self.resting.push(new);
            let (old_ref, new_ref, qty, price) = (order_ref, new.order_ref, new.qty, new.price);
            let event = MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price };
            self.push(event);
        } else if draw < 85 && qty.0 > 1 {
            let away = Qty(1 + self.rng.below(qty.0 - 1));
            self.resting[index].qty.0 -= away.0;
            self.push(MarketEvent::OrderCancel { instrument, order_ref, qty: away });
        } else {
            let traded = Qty(1 + self.rng.below(qty.0));
            let match_number = MatchNumber(self.next_match);
            self.next_match += 1;
            self.trades[usize::from(instrument.0)] += 1;
            self.resting[index].qty.0 -= traded.0;
            if traded == qty {
                self.resting.remove(index);
            }
            let event =
                MarketEvent::OrderExecuted { instrument, order_ref, qty: traded, match_number };
            self.push(event);
        }
    }

    fn add(&mut self) {
        let instrument = InstrumentId(1 + self.rng.below(INSTRUMENTS.into()) as u16);
        let side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        let order = self.order(instrument, side);
        self.resting.push(order);
        let Order { order_ref, qty, price, .. } = order;
        self.push(MarketEvent::AddOrder { instrument, order_ref, side, qty, price });
    }

    fn order(&mut self, instrument: InstrumentId, side: Side) -> Order {
        let order_ref = OrderRef(self.next_ref);
        self.next_ref += 1;
        let away = self.rng.below(8) as i64;
        let price = Price(if side == Side::Buy { 1_000 - away } else { 1_001 + away });
        Order { instrument, order_ref, side, qty: Qty(1 + self.rng.below(20)), price }
    }

    /// Orders of a side as the displayed book has them.
    pub fn side(&self, instrument: InstrumentId, side: Side) -> Vec<(OrderRef, Price, Qty)> {
        let mut orders: Vec<_> = self
            .resting
            .iter()
            .filter(|order| order.instrument == instrument && order.side == side)
            .map(|order| (order.order_ref, order.price, order.qty))
            .collect();
        // Stable: within a price the order of joining stays.
        orders.sort_by_key(|&(_, price, _)| if side == Side::Buy { -price.0 } else { price.0 });
        orders
    }

    /// Displayed-book digests of all instruments.
    pub fn digests(&self) -> Vec<u64> {
        (1..=INSTRUMENTS)
            .map(|id| {
                let side = |side| self.side(InstrumentId(id), side).into_iter();
                displayed_book(side(Side::Buy), side(Side::Sell))
            })
            .collect()
    }
}

/// Identifiers of all instruments of the stream.
pub fn ids() -> Vec<InstrumentId> {
    (1..=INSTRUMENTS).map(InstrumentId).collect()
}
