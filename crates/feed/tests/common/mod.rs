//! A seeded stream of valid market events with the books it must lead to, kept the slow way.

use types::{
    CrossKind, ImbalanceSide, Instrument, InstrumentId, MarketEvent, MatchNumber, Nanos, OrderRef,
    Price, Qty, Side, SplitMix64, Symbol, SystemEventCode, TradingState, displayed_book, limits,
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

    /// A call and its uncrossing on one instrument: quotation only, orders that cross, the
    /// imbalance, then all that crosses traded in pieces at one price, and trading again.
    /// Gives the lots and the price of the cross.
    pub fn auction(&mut self, instrument: InstrumentId) -> (u64, Price) {
        self.push(MarketEvent::TradingAction { instrument, state: TradingState::QuotationOnly });
        for n in 0..6 {
            let side = if n % 2 == 0 { Side::Buy } else { Side::Sell };
            let mut order = self.order(instrument, side);
            // Buys above all asks of the stream; more to sell, so that no such buy is left.
            match side {
                Side::Buy => order.price = Price(1_020),
                Side::Sell => (order.price, order.qty) = (Price(1_000), Qty(10_000)),
            }
            self.resting.push(order);
            let Order { order_ref, qty, price, .. } = order;
            self.push(MarketEvent::AddOrder { instrument, order_ref, side, qty, price });
        }
        let price = Price(1_000);
        let crossing = |side| {
            let better = move |(_, limit, _): &(OrderRef, Price, Qty)| match side {
                Side::Buy => *limit >= price,
                Side::Sell => *limit <= price,
            };
            self.side(instrument, side).into_iter().filter(better).collect::<Vec<_>>()
        };
        let (bids, asks) = (crossing(Side::Buy), crossing(Side::Sell));
        let total = |side: &[(OrderRef, Price, Qty)]| side.iter().map(|order| order.2.0).sum();
        let (demand, supply): (u64, u64) = (total(&bids), total(&asks));
        let volume = demand.min(supply);
        self.push(MarketEvent::Imbalance {
            instrument,
            paired: Qty(volume),
            imbalance: Qty(demand.abs_diff(supply)),
            side: if demand > supply { ImbalanceSide::Buy } else { ImbalanceSide::Sell },
            far: price,
            near: price,
            reference: Price(995),
            kind: CrossKind::Resuming,
        });
        for side in [bids, asks] {
            let mut left = volume;
            for (order_ref, _, qty) in side {
                let traded = Qty(left.min(qty.0));
                if traded.0 > 0 {
                    self.execute_at(instrument, order_ref, traded, price);
                }
                left -= traded.0;
            }
        }
        let (qty, match_number) = (Qty(volume), MatchNumber(self.next_match));
        self.next_match += 1;
        self.trades[usize::from(instrument.0)] += 1;
        let kind = CrossKind::Resuming;
        self.push(MarketEvent::CrossTrade { instrument, qty, price, match_number, kind });
        self.push(MarketEvent::TradingAction { instrument, state: TradingState::Trading });
        (volume, price)
    }

    fn execute_at(
        &mut self,
        instrument: InstrumentId,
        order_ref: OrderRef,
        qty: Qty,
        price: Price,
    ) {
        let match_number = MatchNumber(self.next_match);
        self.next_match += 1;
        for order in &mut self.resting {
            if order.order_ref == order_ref {
                order.qty.0 -= qty.0;
            }
        }
        self.resting.retain(|order| order.qty.0 > 0);
        self.push(MarketEvent::OrderExecutedWithPrice {
            instrument,
            order_ref,
            qty,
            match_number,
            printable: false,
            price,
        });
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
