//! Books that take the caller's order ids.

use book_model::tape::{Tape, TapeCommand, TradeSum};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use types::Side;

use super::Plain;

/// lobster: ids of 128 bits, no immediate-or-cancel.
pub struct Lobster(lobster::OrderBook);

impl Lobster {
    /// Its own memory sized for the tape, its statistics off.
    pub fn new(tape: &Tape) -> Lobster {
        Lobster(lobster::OrderBook::new(tape.prefill * 2, 64, false))
    }
}

impl Plain for Lobster {
    fn limit(&mut self, command: &TapeCommand, sum: &mut TradeSum) -> bool {
        let side = match command.side {
            Side::Buy => lobster::Side::Bid,
            Side::Sell => lobster::Side::Ask,
        };
        let event = self.0.execute(lobster::OrderType::Limit {
            id: u128::from(command.id),
            side,
            qty: u64::from(command.qty),
            price: command.price as u64,
        });
        let (fills, full) = match event {
            lobster::OrderEvent::Filled { fills, .. } => (fills, true),
            lobster::OrderEvent::PartiallyFilled { fills, .. } => (fills, false),
            _ => return true,
        };
        for fill in fills {
            sum.add(fill.order_1 as u64, fill.order_2 as u64, fill.price as i64, fill.qty as u32);
        }
        !full
    }

    fn cancel(&mut self, id: u64) {
        self.0.execute(lobster::OrderType::Cancel { id: u128::from(id) });
    }
}

/// rust_ob: decimal prices and quantities, no immediate-or-cancel.
pub struct RustOb(rust_ob::OrderBook<u64>);

impl RustOb {
    /// Empty.
    pub fn new() -> RustOb {
        RustOb(rust_ob::OrderBook::new())
    }
}

impl Plain for RustOb {
    fn limit(&mut self, command: &TapeCommand, sum: &mut TradeSum) -> bool {
        let side = match command.side {
            Side::Buy => rust_ob::Side::Buy,
            Side::Sell => rust_ob::Side::Sell,
        };
        let (price, qty) = (Decimal::from(command.price), Decimal::from(command.qty));
        let matches = self.0.process_limit_order(command.id, side, price, qty);
        let Ok(matches) = matches else { return true };
        // The last is the order's own.
        for found in matches.iter().take(matches.len().saturating_sub(1)) {
            let qty = found.quantity.to_u32().unwrap_or(0);
            let cost = found.cost.to_i64().unwrap_or(0).abs();
            sum.add(command.id, found.order, cost / i64::from(qty.max(1)), qty);
        }
        true
    }

    fn cancel(&mut self, id: u64) {
        let _ = self.0.cancel_order(id);
    }
}

/// orderbook-rs: made for many threads, used here from one.
pub struct OrderbookRs(orderbook_rs::OrderBook);

impl OrderbookRs {
    /// Empty.
    pub fn new() -> OrderbookRs {
        OrderbookRs(orderbook_rs::OrderBook::new("TAPE"))
    }
}

impl Plain for OrderbookRs {
    fn limit(&mut self, command: &TapeCommand, sum: &mut TradeSum) -> bool {
        let side = match command.side {
            Side::Buy => orderbook_rs::Side::Buy,
            Side::Sell => orderbook_rs::Side::Sell,
        };
        let result = self.0.add_limit_order_with_result(
            orderbook_rs::Id::from_u64(command.id),
            command.price as u128,
            u64::from(command.qty),
            side,
            orderbook_rs::TimeInForce::Gtc,
            None,
        );
        let Ok((_, Some(result))) = result else { return true };
        for trade in result.match_result.trades().as_vec() {
            let maker = match trade.maker_order_id() {
                orderbook_rs::Id::Sequential(id) => id,
                _ => 0,
            };
            let (price, qty) = (trade.price().as_u128(), trade.quantity().as_u64());
            sum.add(command.id, maker, price as i64, qty as u32);
        }
        true
    }

    fn cancel(&mut self, id: u64) {
        let _ = self.0.cancel_order(orderbook_rs::Id::from_u64(id));
    }
}
