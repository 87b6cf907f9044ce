//! Each book behind the same small trait: play these commands, hash the trades.
//!
//! Replaces are a cancel and a new order under the same id where a book has nothing of its own that
//! loses the place in the queue and keeps the id. Books that number orders themselves get two plain
//! tables from tape ids to theirs and back; that is theirs to pay, as it would be for a user.

mod fairbell;
mod numbered;
mod plain;

use book_model::tape::{Tape, TapeCommand, TapeKind, TradeSum};

/// A book that plays commands.
pub trait Peer {
    /// Plays the commands and counts their trades.
    fn play(&mut self, commands: &[TapeCommand], sum: &mut TradeSum);
}

/// A book that knows limit orders and cancels only: a replace is a cancel and a new order, and what
/// an immediate-or-cancel order leaves is cancelled.
trait Plain {
    /// Enters an order; false when nothing of it can be left that has to be cancelled.
    fn limit(&mut self, command: &TapeCommand, sum: &mut TradeSum) -> bool;
    /// An order that is not there shows in the trades.
    fn cancel(&mut self, id: u64);
}

impl<T: Plain> Peer for T {
    fn play(&mut self, commands: &[TapeCommand], sum: &mut TradeSum) {
        for command in commands {
            if matches!(command.kind, TapeKind::Replace | TapeKind::Cancel) {
                self.cancel(command.id);
            }
            if command.kind != TapeKind::Cancel {
                let left = self.limit(command, sum);
                if command.kind == TapeKind::ImmediateOrCancel && left {
                    self.cancel(command.id);
                }
            }
        }
    }
}

/// How the table calls ours.
pub const OURS: &str = "fairbell";

/// Makes an empty book for a tape.
pub type Make = fn(&Tape) -> Box<dyn Peer>;

/// All of them, ours first.
pub const ALL: &[(&str, Make)] = &[
    (OURS, |tape| Box::new(fairbell::Ours::new(tape))),
    ("lobster 0.7.0", |tape| Box::new(plain::Lobster::new(tape))),
    ("rust_ob 2.5.3", |_| Box::new(plain::RustOb::new())),
    ("orderbook-rs 0.15.3", |_| Box::new(plain::OrderbookRs::new())),
    ("limitbook 0.1.0", |tape| Box::new(numbered::Limitbook::new(tape))),
    ("matchcore 0.4.0", |tape| Box::new(numbered::Matchcore::new(tape))),
];
