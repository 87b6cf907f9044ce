//! What the gateway sends an account: its stream, read into the ledger, and answers to whoever waits.

use serde_json::{Value, json};
use types::{ClOrdId, CommandKind, Nanos, Outbox, Price, TimeInForce};
use wire::ouch::{self, Outbound, tag};
use wire::soupbin::ClientEvent;

use super::ledger::{Order, State, words};
use super::{Account, Reply, ReplyTo, Stamps, Unanswered, Wants};
use crate::error::ApiError;

impl Account {
    /// Bytes of its connection.
    pub fn handle_stream(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) {
        self.now = now;
        // What is told of one call goes through in order; messages are copied because they change this.
        let (mut messages, mut over) = (Vec::new(), None);
        let mut accepted = None;
        self.soup.handle_bytes(now, bytes, |event| match event {
            ClientEvent::Accepted { seq, .. } => accepted = Some(seq),
            ClientEvent::Sequenced { seq, message } => messages.push((seq, message.to_vec())),
            ClientEvent::Unsequenced(message) => messages.push((0, message.to_vec())),
            ClientEvent::Rejected(_) => {
                over =
                    Some("its login is refused: another session is live, or the password is wrong");
            }
            ClientEvent::EndOfSession => over = Some("the session is over"),
            ClientEvent::Violation(_) | ClientEvent::Dead => over = Some("the gateway broke off"),
        });
        // In a login's answer nothing comes before the word that it is accepted.
        let counts = accepted.is_none_or(|next| self.logged_in(now, next, out));
        for (seq, message) in messages.into_iter().filter(|_| counts) {
            (self.seq, self.sequenced) = (seq.max(self.seq), seq > 0);
            self.take(&message);
        }
        match over {
            Some(why) => self.drop_connection(now, why, out),
            None => self.begin_if_over(now, out),
        }
    }

    fn take(&mut self, message: &[u8]) {
        let Ok(read) = ouch::parse_outbound(message) else { return };
        // Every message has its time behind its type.
        let time = message.get(1..).and_then(<[u8]>::first_chunk::<8>);
        self.told_at = time.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        match read {
            Outbound::OrderAccepted(m, appendage) => {
                let (number, price) = (m.user_ref.get(), m.price.get());
                self.next_ref = self.next_ref.max(number.saturating_add(1));
                let Some(instrument) = self.place_of(m.symbol) else { return };
                let qty = u64::from(m.quantity.get());
                let known = self.orders.get(&number);
                let order = Order {
                    user_ref: number,
                    client_id: ClOrdId(m.cl_ord_id),
                    instrument,
                    side: m.side.into(),
                    qty,
                    filled: 0,
                    leaves: qty,
                    price: Some(Price(price as i64))
                        .filter(|_| price != types::limits::PRICE_MARKET),
                    time_in_force: ouch::time_in_force(m.time_in_force)
                        .or(known.map(|order| order.time_in_force))
                        .unwrap_or(TimeInForce::Day),
                    post_only: appendage.post_only() || known.is_some_and(|order| order.post_only),
                    state: State::Open,
                    reason: None,
                    order_ref: m.order_ref.get(),
                    replaces: None,
                };
                let rests = order.price.is_some() && !immediate(order.time_in_force);
                self.put(order);
                self.arrived(number, m.time.get());
                self.taken(number, rests);
            }
            Outbound::OrderReplaced(m, appendage) => {
                let (number, orig) = (m.user_ref.get(), m.orig_user_ref.get());
                self.next_ref = self.next_ref.max(number.saturating_add(1));
                let Some(instrument) = self.place_of(m.symbol) else { return };
                let filled = self.orders.get(&orig).map_or(0, |order| order.filled);
                let leaves = u64::from(m.quantity.get());
                let of = self.orders.get(&orig).map(|order| order.time_in_force);
                let order = Order {
                    user_ref: number,
                    client_id: ClOrdId(m.cl_ord_id),
                    instrument,
                    side: m.side.into(),
                    qty: filled + leaves,
                    filled,
                    leaves,
                    price: Some(Price(m.price.get() as i64)),
                    time_in_force: of
                        .or_else(|| ouch::time_in_force(m.time_in_force))
                        .unwrap_or(TimeInForce::Day),
                    post_only: appendage.post_only(),
                    state: State::Open,
                    reason: None,
                    order_ref: m.order_ref.get(),
                    replaces: Some(orig),
                };
                self.change(orig, |order| (order.state, order.leaves) = (State::Replaced, 0));
                self.put(order);
                self.arrived(number, m.time.get());
                self.answered(orig, Wants::Cancelled);
                self.answered(number, Wants::Entered);
            }
            Outbound::OrderExecuted(m, _) => self.fill(m),
            Outbound::OrderCanceled(m, _) => {
                let why = ouch::cancel_reason(m.reason).map(|why| words(&format!("{why:?}")));
                self.cancelled(m.user_ref.get(), m.quantity.get().into(), why);
            }
            Outbound::AiqCanceled(m, _) => {
                let why = Some("self trade".to_string());
                self.cancelled(m.user_ref.get(), m.quantity.get().into(), why);
            }
            Outbound::OrderRejected(m, _) => {
                let number = m.user_ref.get();
                let code = m.reason.get();
                let name = ouch::reject_reason(code).map(|why| words(&format!("{why:?}")));
                let why = format!("0x{code:04X} {}", name.unwrap_or_default());
                self.next_ref = self.next_ref.max(number.saturating_add(1));
                self.change(number, |order| {
                    // A replacement was to take over what the order has traded that it did not replace.
                    (order.state, order.filled, order.leaves) = (State::Rejected, 0, 0);
                    order.reason = Some(why.trim_end().to_string());
                });
                self.answered(number, Wants::Entered);
                let refused = || ApiError::new("rejected", why.trim_end());
                self.reply(number, Wants::MassCancelled, |_| Err(refused()));
            }
            Outbound::CancelReject(m, _) => {
                let number = m.user_ref.get();
                let refused = || ApiError::new("cancel_rejected", "nothing to cancel there");
                self.reply(number, Wants::Cancelled, |_| Err(refused()));
                self.reply(number, Wants::MassCancelled, |_| Err(refused()));
            }
            Outbound::MassCancelResponse(m, appendage) => {
                let number = m.user_ref.get();
                self.next_ref = self.next_ref.max(number.saturating_add(1));
                let orders = appendage
                    .iter()
                    .find(|element| element.tag == tag::ORDERS)
                    .and_then(|element| element.value.first_chunk::<4>())
                    .map_or(0, |bytes| u32::from_be_bytes(*bytes));
                self.reply(number, Wants::MassCancelled, |_| Ok(json!({ "cancelled": orders })));
            }
            Outbound::BrokenTrade(m, appendage) => {
                let of = |tag: u8| appendage.iter().find(|element| element.tag == tag);
                let lots = of(tag::RIGHT_QUANTITY).and_then(|of| of.value.first_chunk::<4>());
                let price = of(tag::RIGHT_PRICE).and_then(|of| of.value.first_chunk::<8>());
                let right = lots.zip(price).map(|(lots, price)| {
                    (u32::from_be_bytes(*lots).into(), Price(u64::from_be_bytes(*price) as i64))
                });
                self.broken(m.match_number.get(), m.user_ref.get(), right);
            }
            _ => {}
        }
    }

    /// An order was taken: whoever waits is told, or waits for its end if it does not rest.
    fn taken(&mut self, number: u32, rests: bool) {
        let entered = (number, Wants::Entered);
        if rests || !self.waiting.iter().any(|(of, what, _)| (*of, *what) == entered) {
            return self.answered(number, Wants::Entered);
        }
        self.stamp(entered, false);
        for (of, what, _) in &mut self.waiting {
            if (*of, *what) == entered {
                *what = Wants::Settled;
            }
        }
        self.settling.push_back((self.now.after(super::SETTLE_NS), number));
    }

    fn cancelled(&mut self, number: u32, lots: u64, why: Option<String>) {
        self.change(number, |order| {
            order.leaves = order.leaves.saturating_sub(lots);
            order.reason = why;
            if order.leaves == 0 {
                order.state = State::Cancelled;
            }
        });
        // Some of it went otherwise, as by a trade with the account's own orders: the rest is still asked for.
        if self.orders.get(&number).is_none_or(|order| order.state.is_over()) {
            self.answered(number, Wants::Cancelled);
        }
    }

    /// An order's state answers whoever waits for it.
    pub(super) fn answered(&mut self, number: u32, wants: Wants) {
        self.reply(number, wants, |account| match account.orders.get(&number) {
            Some(order) if order.state == State::Rejected && wants == Wants::Entered => {
                let why = order.reason.clone().unwrap_or_default();
                Err(ApiError::new("rejected", why))
            }
            Some(order) if wants == Wants::Cancelled => account.told_cancelled(order),
            Some(order) => Ok(account.order_json(order)),
            None => Ok(Value::Null),
        });
    }

    /// Requests that have their answer now are remembered no longer, and when they were where is told.
    fn stamp(&mut self, key: (u32, Wants), refused: bool) {
        let logged = self.dated(self.told_at).filter(|_| self.told_at > 0);
        let mut rest = std::mem::take(&mut self.unanswered);
        rest.retain(|of| {
            if (of.number, of.wants) != key {
                return true;
            }
            let replaces = || self.orders.get(&of.number).is_some_and(|of| of.replaces.is_some());
            let command = match of.wants {
                Wants::Cancelled => CommandKind::Cancel,
                Wants::MassCancelled => CommandKind::MassCancel,
                Wants::Entered | Wants::Settled if replaces() => CommandKind::Replace,
                Wants::Entered | Wants::Settled => CommandKind::NewOrder,
            };
            let (number, came, sent) = (of.number, of.came, of.sent);
            let answered = self.now;
            self.stamps.push(Stamps { number, command, came, sent, logged, answered, refused });
            false
        });
        self.unanswered = rest;
    }

    fn reply(&mut self, number: u32, wants: Wants, answer: impl Fn(&Account) -> Reply) {
        let key = (number, wants);
        let asked = |of: &Unanswered| (of.number, of.wants) == key;
        let waits = |(of, what, _): &(u32, Wants, ReplyTo)| (*of, *what) == key;
        if !self.unanswered.iter().any(asked) && !self.waiting.iter().any(waits) {
            return;
        }
        let answer = answer(self);
        self.stamp(key, answer.is_err());
        // Whoever does not wait any more is forgotten, too.
        let over = |(of, what, reply): &mut (u32, Wants, ReplyTo)| {
            (*of, *what) == key || reply.is_closed()
        };
        let over: Vec<_> = self.waiting.extract_if(.., over).collect();
        let due = over.into_iter().filter(waits);
        for (_, wants, reply) in due {
            match wants {
                Wants::Entered | Wants::Settled => self.reply_entered(reply, answer.clone()),
                _ => reply.send(answer.clone()),
            }
        }
    }
}

/// Whether an order of this time in force never rests.
fn immediate(of: TimeInForce) -> bool {
    matches!(of, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
}
