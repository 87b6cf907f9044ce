//! OUCH 5.0 over SoupBinTCP.
//!
//! The first login asks for the account's stream from its start: whatever it holds is of earlier
//! runs, and tells which order numbers are used. Ours begin behind them.

use types::{CancelReason, ClOrdId, Instrument, Nanos, Qty, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{self, NewOrder, Outbound, ReplaceRequest, Terms};
use wire::soupbin::{ClientEvent, ClientSession, RejectCode};

use super::door::{Heard, Login};
use super::requests::{Answer, Kind, Request};

/// An OUCH session of one client.
#[derive(Debug)]
pub struct OuchDoor {
    session: ClientSession,
    symbol: Symbol,
    /// Lowest number of ours; 0 until something has been sent.
    first: u32,
    refusal: &'static str,
    scratch: Vec<u8>,
}

impl OuchDoor {
    /// `None`: the credentials do not fit SoupBinTCP.
    pub fn new(login: &Login, instrument: &Instrument) -> Option<OuchDoor> {
        let session = ClientSession::new(&login.username, &login.password).ok()?;
        let symbol = instrument.symbol;
        let scratch = Vec::with_capacity(128);
        Some(OuchDoor { session, symbol, first: 0, refusal: "", scratch })
    }

    pub fn connect(&mut self, now: Nanos, out: &mut Vec<u8>) {
        // A login always fits.
        let _ = self.session.connect(now, out);
    }

    pub fn logout(&mut self, out: &mut Vec<u8>) {
        // Only a session that is over refuses, and then there is nobody to tell.
        let _ = self.session.logout(out);
    }

    pub fn handle_close(&mut self) {
        self.session.handle_close();
    }

    pub fn handle_bytes(&mut self, now: Nanos, bytes: &[u8], mut on: impl FnMut(Heard)) {
        let (first, mut refusal) = (self.first, self.refusal);
        self.session.handle_bytes(now, bytes, |event| match event {
            ClientEvent::Accepted { .. } => on(Heard::LoggedIn),
            ClientEvent::Rejected(RejectCode::NotAuthorized) => {
                refusal = "wrong user name or password, or locked (SoupBinTCP: A)";
                on(Heard::Refused { is_final: true });
            }
            ClientEvent::Rejected(RejectCode::SessionNotAvailable) => {
                refusal = "logged on elsewhere, or no such session (SoupBinTCP: S)";
                on(Heard::Refused { is_final: false });
            }
            ClientEvent::Sequenced { message, .. } | ClientEvent::Unsequenced(message) => {
                if let Some(heard) = heard(message, first) {
                    on(heard);
                }
            }
            ClientEvent::EndOfSession | ClientEvent::Violation(_) | ClientEvent::Dead => {
                on(Heard::Over);
            }
        });
        self.refusal = refusal;
    }

    pub fn refusal(&self) -> &str {
        self.refusal
    }

    pub fn send(&mut self, now: Nanos, request: &Request, out: &mut Vec<u8>) -> bool {
        let user_ref = UserRefNum(request.order);
        if self.first == 0 {
            self.first = request.order;
        }
        self.scratch.clear();
        let (qty, price) = (Qty(request.terms.lots.into()), request.terms.price);
        let cl_ord_id = ClOrdId::default();
        let time_in_force =
            request.terms.expire_at.map_or(TimeInForce::Day, |_| TimeInForce::GoodTillDate);
        let expire_at = request.terms.expire_at.unwrap_or(Nanos(0));
        let terms = Terms { expire_at, ..Terms::default() };
        let encoded = match request.kind {
            Kind::Cancel => ouch::encode_cancel(user_ref, Qty(0), &mut self.scratch),
            Kind::New => {
                let order = NewOrder {
                    user_ref,
                    side: request.terms.side,
                    qty,
                    symbol: self.symbol,
                    price: Some(price),
                    time_in_force,
                    post_only: false,
                    cl_ord_id,
                };
                ouch::encode_enter_order_with(&order, &terms, &mut self.scratch)
            }
            Kind::Replace => {
                let replace = ReplaceRequest {
                    orig_user_ref: UserRefNum(request.original),
                    user_ref,
                    qty,
                    price,
                    time_in_force,
                    post_only: false,
                    cl_ord_id,
                };
                ouch::encode_replace_with(&replace, &terms, &mut self.scratch)
            }
        };
        encoded.is_ok() && self.session.send_unsequenced(now, &self.scratch, out).is_ok()
    }

    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        self.session.handle_timeout(now, out).is_none()
    }

    pub fn next_timeout(&self) -> Nanos {
        self.session.next_timeout()
    }
}

/// Meaning of a message of the exchange; `None` if it does not count.
fn heard(message: &[u8], first: u32) -> Option<Heard> {
    let Ok(message) = ouch::parse_outbound(message) else { return Some(Heard::Stray) };
    let (order, answer) = match message {
        Outbound::OrderAccepted(m, _) => (m.user_ref.get(), Answer::Accepted),
        Outbound::OrderReplaced(m, _) => (m.user_ref.get(), Answer::Replaced),
        Outbound::OrderRejected(m, _) => (m.user_ref.get(), Answer::Rejected(m.reason.get())),
        Outbound::CancelReject(m, _) => (m.user_ref.get(), Answer::CancelRejected),
        Outbound::OrderCanceled(m, _) => {
            let answer = match ouch::cancel_reason(m.reason) {
                Some(CancelReason::Requested) => Answer::Canceled,
                Some(CancelReason::Expired) => Answer::Expired,
                _ => Answer::Removed,
            };
            (m.user_ref.get(), answer)
        }
        Outbound::OrderExecuted(m, _) => {
            let (order, lots) = (m.user_ref.get(), u64::from(m.quantity.get()));
            return Some(if first == 0 || order < first {
                Heard::Before { order }
            } else {
                Heard::Executed { order, lots }
            });
        }
        _ => return None,
    };
    let before = first == 0 || order < first;
    Some(if before { Heard::Before { order } } else { Heard::Answer { order, answer } })
}
