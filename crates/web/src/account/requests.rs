//! Requests of an account on their way out: what is checked here, what is remembered, what is sent.

use serde_json::json;
use types::{ClOrdId, Instrument, Nanos, Outbox, Price, Qty, RejectReason, Symbol, UserRefNum};
use wire::ouch::{self, NewOrder, ReplaceRequest};

use super::ledger::{Order, State, name_of};
use super::{Account, Reply, ReplyTo, Wants};
use crate::decimal::lots_text;
use crate::error::ApiError;
use crate::request::{New, Replace, bad_qty, client_id};

/// Names that the door tries for an order; they have 13 digits at most.
const NAMES_MAX: u64 = 1 << 20;

impl Account {
    pub(super) fn enter(
        &mut self,
        now: Nanos,
        new: &New,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        if let Some(late) = late(now, new.handling.deadline_ms) {
            return Some((reply, Err(late)));
        }
        if let Some(of) = new.client_id
            && let Ok(order) = self.found(of)
        {
            let instrument = self.instruments.0.get(order.instrument).map(|one| one.id);
            let (was, is) = (order.replaces.is_none(), Some(new.instrument.id));
            let same = was
                && instrument == is
                && (order.side, order.qty, order.price) == (new.side, new.qty.0, new.price)
                && (order.time_in_force, order.post_only) == (new.time_in_force, new.post_only);
            let answer = match same {
                true if order.state == State::Pending => {
                    return self.wait(order.user_ref, Wants::Entered, reply);
                }
                true if self.settling.iter().any(|(_, number)| *number == order.user_ref) => {
                    return self.wait(order.user_ref, Wants::Settled, reply);
                }
                true => Ok(self.order_json(order)),
                false => {
                    let why = format!("an order of other terms is {}", name_of(&of));
                    Err(ApiError::new("client_order_id_used", why))
                }
            };
            return Some((reply, answer));
        }
        if let Err(refused) = fits(&new.instrument, new.qty, new.price) {
            return Some((reply, Err(refused)));
        }
        let place = self.instruments.0.iter().position(|one| one.id == new.instrument.id)?;
        if new.handling.validate_only {
            return Some((reply, self.checked(place, new.qty)));
        }
        let Some(client_id) = new.client_id.or_else(|| self.own_name()) else {
            return Some((reply, Err(ApiError::new("busy", "no name is left: give one"))));
        };
        let number = self.next_number();
        let order = NewOrder {
            user_ref: UserRefNum(number),
            side: new.side,
            qty: new.qty,
            symbol: new.instrument.symbol,
            price: new.price,
            time_in_force: new.time_in_force,
            post_only: new.post_only,
            cl_ord_id: client_id,
        };
        let mut message = Vec::new();
        if ouch::encode_enter_order(&order, &mut message).is_err() {
            let why = "price or quantity is out of the range of the exchange";
            return Some((reply, Err(ApiError::new("bad_field", why))));
        }
        let refused = self.request(now, (number, Wants::Entered), message, reply, out);
        if refused.is_none() {
            let order = Order {
                user_ref: number,
                client_id,
                instrument: place,
                side: new.side,
                qty: new.qty.0,
                filled: 0,
                leaves: new.qty.0,
                price: new.price,
                time_in_force: new.time_in_force,
                post_only: new.post_only,
                state: State::Pending,
                reason: None,
                order_ref: 0,
                replaces: None,
            };
            self.by_client.insert(client_id, number);
            self.orders.insert(number, order);
        }
        refused
    }

    /// A name for an order whose client gives none: its number, and if an order that is known has that name the
    /// number with something before it. The same orders make the same name.
    fn own_name(&self) -> Option<ClOrdId> {
        let number = u64::from(self.next_ref);
        let mut names = (0..NAMES_MAX).filter_map(|before| {
            let digits = (before << u32::BITS) | number;
            client_id(&format!("W{digits:010x}")).ok()
        });
        names.find(|name| !self.by_client.contains_key(name))
    }

    pub(super) fn replace(
        &mut self,
        now: Nanos,
        of: ClOrdId,
        replace: &Replace,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        if let Some(late) = late(now, replace.handling.deadline_ms) {
            return Some((reply, Err(late)));
        }
        let order = match self.found(of) {
            Ok(order) => order.clone(),
            Err(refused) => return Some((reply, Err(refused))),
        };
        if let Ok(known) = self.found(replace.client_id) {
            // Asked for again: its answer is known, or on its way.
            let instrument = self.instruments.0.get(known.instrument);
            let qty = instrument.and_then(|of| replace.qty.lots(of)).map(|qty| qty.0);
            let same = known.replaces == Some(order.user_ref)
                && (qty, replace.price) == (Some(known.qty), known.price.unwrap_or_default());
            return match (same, known.state) {
                (true, State::Pending) => self.wait(known.user_ref, Wants::Entered, reply),
                (true, _) => Some((reply, Ok(self.order_json(known)))),
                (false, _) => {
                    let name = name_of(&replace.client_id);
                    let why = format!("another order, or one of other terms, is {name}");
                    Some((reply, Err(ApiError::new("client_order_id_used", why))))
                }
            };
        }
        let instrument = self.instruments.0.get(order.instrument)?;
        // One that is under way is there when this reaches the exchange behind it, or the exchange refuses this.
        let refused = order.state.is_over().then(|| {
            let why = format!("the order is {}", order.state.name());
            ApiError::new("not_open", why)
        });
        let lots = replace.qty.lots(instrument).filter(|qty| qty.0 > 0);
        let (Some(qty), None) = (lots, &refused) else {
            return Some((reply, Err(refused.unwrap_or_else(|| bad_qty(instrument)))));
        };
        if let Err(refused) = fits(instrument, qty, Some(replace.price)) {
            return Some((reply, Err(refused)));
        }
        if replace.handling.validate_only {
            return Some((reply, self.checked(order.instrument, qty)));
        }
        let number = self.next_number();
        let request = ReplaceRequest {
            orig_user_ref: UserRefNum(order.user_ref),
            user_ref: UserRefNum(number),
            qty,
            price: replace.price,
            time_in_force: order.time_in_force,
            post_only: false,
            cl_ord_id: replace.client_id,
        };
        let mut message = Vec::new();
        if ouch::encode_replace(&request, &mut message).is_err() {
            let why = "price or quantity is out of the range of the exchange";
            return Some((reply, Err(ApiError::new("bad_field", why))));
        }
        let refused = self.request(now, (number, Wants::Entered), message, reply, out);
        if refused.is_none() {
            let replacement = Order {
                user_ref: number,
                client_id: replace.client_id,
                qty: qty.0,
                leaves: qty.0.saturating_sub(order.filled),
                price: Some(replace.price),
                post_only: false,
                state: State::Pending,
                reason: None,
                // Nothing of it is in a book yet.
                order_ref: 0,
                replaces: Some(order.user_ref),
                ..order
            };
            self.by_client.insert(replace.client_id, number);
            self.orders.insert(number, replacement);
        }
        refused
    }

    /// What a request that is only checked is answered with, if all else of it is right: the exchange refuses
    /// what is below the smallest quantity.
    fn checked(&self, place: usize, qty: Qty) -> Reply {
        let least = self.qty_min.get(place).filter(|least| qty < **least);
        let Some((least, of)) = least.zip(self.instruments.0.get(place)) else {
            return Ok(json!({ "state": "valid" }));
        };
        let code = ouch::reject_code(RejectReason::InvalidQuantity).unwrap_or_default();
        let why = super::ledger::words(&format!("{:?}", RejectReason::InvalidQuantity));
        let least = lots_text(least.0, of.lot_decimals);
        Err(ApiError::new("rejected", format!("0x{code:04X} {why}: qty: {least} at least")))
    }

    pub(super) fn cancel(
        &mut self,
        now: Nanos,
        of: ClOrdId,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        let order = match self.found(of) {
            Ok(order) => order,
            Err(refused) => return Some((reply, Err(refused))),
        };
        if order.state.is_over() {
            // A cancel that is repeated finds what it did.
            return Some((reply, self.told_cancelled(order)));
        }
        let number = order.user_ref;
        let mut message = Vec::new();
        // A quantity of 0 has a place in the message.
        let _ = ouch::encode_cancel(UserRefNum(number), Qty(0), &mut message);
        self.request(now, (number, Wants::Cancelled), message, reply, out)
    }

    pub(super) fn mass_cancel(
        &mut self,
        now: Nanos,
        symbol: Option<Symbol>,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        let number = self.next_number();
        let mut message = Vec::new();
        ouch::encode_mass_cancel(UserRefNum(number), symbol, None, &mut message);
        self.request(now, (number, Wants::MassCancelled), message, reply, out)
    }
}

/// Refuses what comes after the client's own deadline.
fn late(now: Nanos, deadline_ms: Option<u64>) -> Option<ApiError> {
    let now_ms = now.0 / Nanos::MILLI;
    let late = deadline_ms.filter(|at| *at < now_ms)?;
    let why = format!("deadline_ms {late} is past: it is {now_ms}; nothing was sent");
    Some(ApiError::new("deadline_passed", why))
}

/// Whether an instrument has this price and quantity.
fn fits(of: &Instrument, qty: Qty, price: Option<Price>) -> Result<(), ApiError> {
    let bad = |why: String| Err(ApiError::new("bad_field", why));
    if qty > of.qty_max {
        let most = lots_text(of.qty_max.0, of.lot_decimals);
        return bad(format!("qty: {most} at most"));
    }
    match price {
        Some(price) if price > of.price_max => bad(format!("price: {} at most", of.price_max)),
        Some(price) if of.tick.0 > 0 && price.0 % of.tick.0 != 0 => {
            bad(format!("price: a multiple of the tick, {}", of.tick))
        }
        _ => Ok(()),
    }
}
