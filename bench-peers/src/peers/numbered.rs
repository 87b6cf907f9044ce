//! Books that number orders themselves.

use std::collections::HashMap;

use book_model::tape::{Tape, TapeCommand, TapeKind, TradeSum};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use types::Side;

use super::Plain;

/// Tape ids and a book's own, both ways; a table where ids are dense, a map where they are not.
struct Numbers {
    own: HashMap<u64, u64>,
    own_of_dense: Vec<u64>,
    tape: Vec<u64>,
}

impl Numbers {
    fn new(tape: &Tape) -> Numbers {
        let dense = tape.commands.iter().all(|command| command.id <= tape.checks.max_id);
        let own_of_dense = vec![0; if dense { tape.checks.max_id as usize + 1 } else { 0 }];
        let orders = tape.commands.len() * 2;
        Numbers { own: HashMap::new(), own_of_dense, tape: vec![0; orders] }
    }

    fn set(&mut self, tape: u64, own: u64) {
        match self.own_of_dense.get_mut(tape as usize) {
            Some(entry) => *entry = own,
            None => {
                self.own.insert(tape, own);
            }
        }
        if let Some(entry) = self.tape.get_mut(own as usize) {
            *entry = tape;
        }
    }

    fn own(&self, tape: u64) -> u64 {
        match self.own_of_dense.get(tape as usize) {
            Some(&own) => own,
            None => self.own.get(&tape).copied().unwrap_or(u64::MAX),
        }
    }

    fn tape(&self, own: u64) -> u64 {
        self.tape.get(own as usize).copied().unwrap_or(0)
    }
}

/// limitbook: decimal prices and quantities, no immediate-or-cancel.
pub struct Limitbook {
    book: limitbook::OrderBook,
    numbers: Numbers,
}

impl Limitbook {
    /// Empty, with a tick of one.
    pub fn new(tape: &Tape) -> Limitbook {
        let book = limitbook::OrderBook::new(Decimal::ONE).expect("a tick of one");
        Limitbook { book, numbers: Numbers::new(tape) }
    }
}

impl Plain for Limitbook {
    fn limit(&mut self, command: &TapeCommand, sum: &mut TradeSum) -> bool {
        let side = match command.side {
            Side::Buy => limitbook::OrderSide::Buy,
            Side::Sell => limitbook::OrderSide::Sell,
        };
        let (price, qty) = (Decimal::from(command.price), Decimal::from(command.qty));
        let Ok((own, fills)) = self.book.add_limit_order(side, price, qty) else { return true };
        self.numbers.set(command.id, own);
        for fill in fills {
            let maker = self.numbers.tape(fill.maker_order_id);
            let price = fill.price.to_i64().unwrap_or(0);
            sum.add(command.id, maker, price, fill.quantity.to_u32().unwrap_or(0));
        }
        true
    }

    fn cancel(&mut self, id: u64) {
        let _ = self.book.cancel_limit_order(self.numbers.own(id));
    }
}

/// matchcore: an order's id is the number of the command that brought it.
pub struct Matchcore {
    book: matchcore::OrderBook,
    numbers: Numbers,
    /// Of the next command; the book wants them from 0 without gaps.
    sequence: u64,
}

impl Matchcore {
    /// Empty.
    pub fn new(tape: &Tape) -> Matchcore {
        let book = matchcore::OrderBook::new("TAPE");
        Matchcore { book, numbers: Numbers::new(tape), sequence: 0 }
    }

    fn execute(&mut self, kind: matchcore::CommandKind) -> matchcore::CommandOutcome {
        let meta = matchcore::CommandMeta {
            sequence_number: matchcore::SequenceNumber(self.sequence),
            timestamp: matchcore::Timestamp(1),
        };
        self.sequence += 1;
        self.book.execute(&matchcore::Command { meta, kind })
    }
}

impl Plain for Matchcore {
    fn limit(&mut self, command: &TapeCommand, sum: &mut TradeSum) -> bool {
        use matchcore::{
            CommandKind, LimitOrder, NewOrder, OrderFlags, Price, Quantity, QuantityPolicy,
            SubmitCmd, TimeInForce,
        };
        let side = match command.side {
            Side::Buy => matchcore::Side::Buy,
            Side::Sell => matchcore::Side::Sell,
        };
        let life = match command.kind {
            TapeKind::ImmediateOrCancel => TimeInForce::Ioc,
            _ => TimeInForce::Gtc,
        };
        let order = NewOrder::Limit(LimitOrder::new(
            Price(command.price as u64),
            QuantityPolicy::Standard { quantity: Quantity(u64::from(command.qty)) },
            OrderFlags::new(side, false, life),
        ));
        let own = self.sequence;
        let outcome = self.execute(CommandKind::Submit(SubmitCmd { order }));
        self.numbers.set(command.id, own);
        let matchcore::CommandOutcome::Applied(matchcore::CommandReport::Submit(effects)) = outcome
        else {
            return false;
        };
        let Some(result) = effects.target_order().match_result() else { return false };
        for trade in result.trades() {
            let maker = self.numbers.tape(trade.maker_order_id().0);
            sum.add(command.id, maker, trade.price().0 as i64, trade.quantity().0 as u32);
        }
        false
    }

    fn cancel(&mut self, id: u64) {
        let order_id = matchcore::OrderId(self.numbers.own(id));
        let order_kind = matchcore::OrderKind::Limit;
        let cancel = matchcore::CancelCmd { order_id, order_kind };
        self.execute(matchcore::CommandKind::Cancel(cancel));
    }
}
