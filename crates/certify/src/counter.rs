//! The certifier's own participant: an OUCH session that trades against the client's orders.

use types::{ClOrdId, Nanos, Price, Qty, Side, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{NewOrder, Outbound, encode_cancel, encode_enter_order, parse_outbound};
use wire::soupbin::{ClientEvent, ClientSession};

use crate::facts::Open;

/// The certifier's own participant, which is the other side of the client's trades.
#[derive(Debug)]
pub struct Counter {
    session: ClientSession,
    symbol: Symbol,
    number: u32,
    executions: u64,
    /// Number of its own order that may rest in the book; `None`: there is none.
    resting: Option<u32>,
    scratch: Vec<u8>,
}

impl Counter {
    /// `None` when the credentials do not fit SoupBinTCP.
    pub fn new(username: &str, password: &str, symbol: Symbol) -> Option<Counter> {
        let session = ClientSession::new(username, password).ok()?;
        Some(Counter {
            session,
            symbol,
            number: 0,
            executions: 0,
            resting: None,
            scratch: Vec::new(),
        })
    }

    pub fn connect(&mut self, now: Nanos, out: &mut Vec<u8>) {
        // A login always fits.
        let _ = self.session.connect(now, out);
    }

    pub fn is_active(&self) -> bool {
        self.session.is_active()
    }

    pub fn handle_bytes(&mut self, now: Nanos, bytes: &[u8]) {
        let executions = &mut self.executions;
        self.session.handle_bytes(now, bytes, |event| {
            if let ClientEvent::Sequenced { message, .. } = event
                && matches!(parse_outbound(message), Ok(Outbound::OrderExecuted(..)))
            {
                *executions += 1;
            }
        });
    }

    /// Number of its own executions so far.
    pub fn executions(&self) -> u64 {
        self.executions
    }

    pub fn handle_close(&mut self) {
        self.session.handle_close();
    }

    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let _ = self.session.handle_timeout(now, out);
    }

    /// Takes one lot of an order of the client, at its price; nothing is left in the book.
    pub fn take_one(&mut self, now: Nanos, of: &Open, out: &mut Vec<u8>) {
        self.enter(now, (of.side.opposite(), of.price), TimeInForce::ImmediateOrCancel, out);
    }

    /// An order of one lot against one of the client, which rests in a call.
    pub fn rest_against(&mut self, now: Nanos, of: &Open, out: &mut Vec<u8>) {
        self.enter(now, (of.side.opposite(), of.price), TimeInForce::Day, out);
        self.resting = Some(self.number);
    }

    /// One lot traded at a price, with itself if nobody else has it there; nothing is left in the
    /// book.
    pub fn trade_at(&mut self, now: Nanos, price: Price, out: &mut Vec<u8>) {
        self.enter(now, (Side::Buy, price), TimeInForce::Day, out);
        self.resting = Some(self.number);
        self.enter(now, (Side::Sell, price), TimeInForce::ImmediateOrCancel, out);
        self.withdraw(now, out);
    }

    /// Cancels its order that may rest, if it has one.
    pub fn withdraw(&mut self, now: Nanos, out: &mut Vec<u8>) {
        let Some(number) = self.resting.take() else { return };
        self.scratch.clear();
        if encode_cancel(UserRefNum(number), Qty(0), &mut self.scratch).is_ok() {
            let _ = self.session.send_unsequenced(now, &self.scratch, out);
        }
    }

    fn enter(
        &mut self,
        now: Nanos,
        (side, price): (Side, Price),
        time_in_force: TimeInForce,
        out: &mut Vec<u8>,
    ) {
        self.number += 1;
        self.scratch.clear();
        let order = NewOrder {
            user_ref: UserRefNum(self.number),
            side,
            qty: Qty(1),
            symbol: self.symbol,
            price: Some(price),
            time_in_force,
            post_only: false,
            cl_ord_id: ClOrdId::default(),
        };
        if encode_enter_order(&order, &mut self.scratch).is_ok() {
            let _ = self.session.send_unsequenced(now, &self.scratch, out);
        }
    }
}
