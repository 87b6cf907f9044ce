//! What an account's stream amounts to: orders by number and by name, fills, positions; and how they are told.

use std::sync::Arc;

use serde_json::{Value, json};
use types::{ClOrdId, Nanos, Price, Side, TimeInForce};
use wire::ouch;

use super::{Account, CLOSED_MAX, FILLS_MAX, OwnEvent, Reply, Unanswered, Wants};
use crate::decimal::{lots_text, position_text, value_text};
use crate::error::ApiError;
use crate::request::{side_name, time_in_force_name};

/// Nanoseconds of a day.
const DAY_NS: u64 = 86_400 * Nanos::SECOND;

/// State of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Sent, not answered.
    Pending,
    Open,
    Filled,
    Cancelled,
    Rejected,
    Replaced,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Open => "open",
            State::Filled => "filled",
            State::Cancelled => "cancelled",
            State::Rejected => "rejected",
            State::Replaced => "replaced",
        }
    }

    pub(super) fn is_over(self) -> bool {
        !matches!(self, State::Pending | State::Open)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) user_ref: u32,
    pub(super) client_id: ClOrdId,
    pub(super) instrument: usize,
    pub(super) side: Side,
    /// Lots in total.
    pub(super) qty: u64,
    pub(super) filled: u64,
    pub(super) leaves: u64,
    /// `None`: a market order.
    pub(super) price: Option<Price>,
    pub(super) time_in_force: TimeInForce,
    pub(super) post_only: bool,
    pub(super) state: State,
    pub(super) reason: Option<String>,
    pub(super) order_ref: u64,
    /// The order it replaced.
    pub(super) replaces: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) user_ref: u32,
    pub(super) match_number: u64,
    pub(super) instrument: usize,
    pub(super) side: Side,
    pub(super) lots: u64,
    pub(super) price: Price,
    /// ns since the midnight that times of the session count from.
    pub(super) time: u64,
    /// The same since the epoch, where its day is known.
    pub(super) at: Option<Nanos>,
    /// Place in the account's stream.
    pub(super) seq: u64,
}

/// How long an accepted order was under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trip {
    /// From here to the exchange's log, ns: below 0 where the two clocks differ by more.
    pub(super) in_ns: i64,
    /// From here to the answer, ns.
    pub(super) round_ns: u64,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Holding {
    pub(super) bought: u64,
    pub(super) sold: u64,
    /// Value sold less value bought, price units times lots.
    pub(super) cash: i128,
}

impl Holding {
    pub(super) fn deal(&mut self, fill: &Fill, sign: i128) {
        let (lots, value) = (fill.lots, i128::from(fill.lots) * i128::from(fill.price.0));
        let count = if fill.side == Side::Buy { &mut self.bought } else { &mut self.sold };
        *count = if sign > 0 { count.saturating_add(lots) } else { count.saturating_sub(lots) };
        self.cash += if fill.side == Side::Buy { -sign * value } else { sign * value };
    }
}

impl Account {
    pub(super) fn found(&self, of: ClOrdId) -> Result<&Order, ApiError> {
        let order = self.by_client.get(&of).and_then(|user_ref| self.orders.get(user_ref));
        order.ok_or_else(|| ApiError::new("not_found", format!("no order {}", name_of(&of))))
    }

    /// What a cancel is answered with, of an order of which nothing is left: success only if nothing took its
    /// place either.
    pub(super) fn told_cancelled(&self, order: &Order) -> Reply {
        match order.state {
            State::Cancelled => Ok(self.order_json(order)),
            state => Err(ApiError::new("not_open", format!("the order is {}", state.name()))),
        }
    }

    pub(super) fn place_of(&self, symbol: [u8; 8]) -> Option<usize> {
        self.instruments.0.iter().position(|one| one.symbol.0 == symbol)
    }

    pub(super) fn put(&mut self, order: Order) {
        let number = order.user_ref;
        self.by_client.insert(order.client_id, number);
        self.orders.insert(number, order);
        self.tell(number);
    }

    pub(super) fn change(&mut self, number: u32, change: impl FnOnce(&mut Order)) {
        let Some(order) = self.orders.get_mut(&number) else { return };
        let was_over = order.state.is_over();
        change(order);
        let ends = order.state.is_over() && !was_over;
        if ends {
            self.closed.push_back(number);
            self.forget();
        }
        self.tell(number);
        if ends && self.settling.iter().any(|(_, of)| *of == number) {
            self.settling.retain(|(_, of)| *of != number);
            self.answered(number, Wants::Settled);
        }
    }

    /// The oldest of the orders that are over go.
    pub(super) fn forget(&mut self) {
        while self.closed.len() > CLOSED_MAX {
            let Some(oldest) = self.closed.pop_front() else { return };
            if let Some(order) = self.orders.remove(&oldest)
                && self.by_client.get(&order.client_id) == Some(&oldest)
            {
                self.by_client.remove(&order.client_id);
            }
        }
    }

    /// A time of the exchange since the epoch: near now for what is heard as it happens; of what a replay
    /// tells it is known only while the exchange has not seen a second midnight.
    pub(super) fn dated(&self, time: u64) -> Option<Nanos> {
        let midnight = self.midnight?;
        if self.link == super::Link::Up {
            return Some(near(self.now, midnight, time));
        }
        (self.now.0 < midnight.0.saturating_add(DAY_NS)).then(|| midnight.after(time))
    }

    /// The exchange took a request of this number at this time of its day.
    pub(super) fn arrived(&mut self, number: u32, time: u64) {
        let of = |of: &&Unanswered| (of.number, of.wants) == (number, Wants::Entered);
        let sent = self.unanswered.iter().find(of).map(|of| of.sent);
        let Some((sent, midnight)) = sent.zip(self.midnight) else { return };
        let at = near(self.now, midnight, time);
        if self.trips.len() >= super::TRIPS_MAX {
            self.trips.pop_front();
        }
        self.trips.push_back(Trip {
            in_ns: at.0.cast_signed().saturating_sub(sent.0.cast_signed()),
            round_ns: self.now.0.saturating_sub(sent.0),
        });
    }

    /// How long the last accepted orders were under way, ns at the median, the 99th percentile and most.
    pub(super) fn last_trips(&self) -> Value {
        let told = |mut all: Vec<i64>| {
            all.sort_unstable();
            let at =
                |part: usize| all.get((all.len() * part / 100).min(all.len().saturating_sub(1)));
            json!({ "p50_ns": at(50), "p99_ns": at(99), "max_ns": all.last() })
        };
        let inbound = self.trips.iter().map(|trip| trip.in_ns).collect();
        let round = self.trips.iter().map(|trip| trip.round_ns.cast_signed()).collect();
        json!({ "orders": self.trips.len(), "inbound": told(inbound), "round_trip": told(round) })
    }

    pub(super) fn fill(&mut self, m: &ouch::OrderExecuted) {
        let number = m.user_ref.get();
        let lots = u64::from(m.quantity.get());
        let Some(order) = self.orders.get(&number) else { return };
        let fill = Fill {
            user_ref: number,
            match_number: m.match_number.get(),
            instrument: order.instrument,
            side: order.side,
            lots,
            price: Price(m.price.get() as i64),
            time: m.time.get(),
            at: self.dated(m.time.get()),
            seq: self.seq,
        };
        self.holdings.entry(fill.instrument).or_default().deal(&fill, 1);
        if self.fills.len() >= FILLS_MAX {
            self.fills.pop_front();
        }
        self.fills.push_back(fill);
        self.change(number, |order| {
            order.filled += lots;
            order.leaves = order.leaves.saturating_sub(lots);
            if order.leaves == 0 {
                order.state = State::Filled;
            }
        });
        self.publish("fills", || json!({ "fill": self.fill_json(&fill) }));
    }

    /// A trade is broken, or corrected to these lots and this price.
    pub(super) fn broken(&mut self, match_number: u64, number: u32, right: Option<(u64, Price)>) {
        let of = |fill: &Fill| fill.match_number == match_number && fill.user_ref == number;
        let Some(place) = self.fills.iter().position(of) else { return };
        let Some(fill) = self.fills.remove(place) else { return };
        let holding = self.holdings.entry(fill.instrument).or_default();
        holding.deal(&fill, -1);
        let corrected = right.map(|(lots, price)| Fill { lots, price, ..fill });
        if let Some(fill) = corrected {
            holding.deal(&fill, 1);
            self.fills.insert(place, fill);
        }
        self.publish("fills", || {
            json!({
                "broken": match_number.to_string(),
                "corrected": corrected.map(|fill| self.fill_json(&fill)),
            })
        });
    }

    pub(super) fn tell(&self, number: u32) {
        if let Some(order) = self.orders.get(&number) {
            self.publish("orders", || json!({ "order": self.order_json(order) }));
        }
    }

    /// Tells whoever listens on a channel; nothing is written for nobody, nor while the stream is read for the
    /// first time.
    fn publish(&self, channel: &'static str, told: impl FnOnce() -> Value) {
        if self.events.receiver_count() == 0 || !self.caught_up {
            return;
        }
        let mut told = told();
        told["channel"] = channel.into();
        told["seq"] = self.seq.into();
        let (seq, text) = (self.sequenced.then_some(self.seq), told.to_string());
        let _ = self.events.send(Arc::new(OwnEvent { channel, seq, text }));
    }

    pub(super) fn of_instrument(&self, place: usize) -> (String, u8) {
        let known = self.instruments.0.get(place);
        known.map_or((String::new(), 0), |one| (one.symbol.to_string(), one.lot_decimals))
    }

    pub(super) fn order_json(&self, order: &Order) -> Value {
        let (symbol, decimals) = self.of_instrument(order.instrument);
        json!({
            "client_order_id": name_of(&order.client_id),
            "order_id": order.user_ref.to_string(),
            "order_ref": order.order_ref.to_string(),
            "symbol": symbol,
            "side": side_name(order.side),
            "type": if order.price.is_some() { "limit" } else { "market" },
            "qty": lots_text(order.qty, decimals),
            "filled": lots_text(order.filled, decimals),
            "open": lots_text(order.leaves, decimals),
            "price": order.price.map(|price| price.to_string()),
            "time_in_force": time_in_force_name(order.time_in_force),
            "state": order.state.name(),
            "reason": order.reason,
            "replaces": order.replaces.map(|number| number.to_string()),
        })
    }

    pub(super) fn fill_json(&self, fill: &Fill) -> Value {
        let (symbol, decimals) = self.of_instrument(fill.instrument);
        let id = self.orders.get(&fill.user_ref).map(|order| name_of(&order.client_id));
        json!({
            "trade_id": fill.match_number.to_string(),
            "order_id": fill.user_ref.to_string(),
            "client_order_id": id,
            "symbol": symbol,
            "side": side_name(fill.side),
            "qty": lots_text(fill.lots, decimals),
            "price": fill.price.to_string(),
            "time_ns": fill.time.to_string(),
            "time_ms": fill.at.map(|at| at.0 / Nanos::MILLI),
            "seq": fill.seq,
        })
    }

    pub(super) fn open_orders(&self) -> Value {
        let mut open: Vec<&Order> =
            self.orders.values().filter(|order| !order.state.is_over()).collect();
        open.sort_unstable_by_key(|order| order.user_ref);
        json!({ "seq": self.seq, "orders": open.iter().map(|of| self.order_json(of)).collect::<Vec<_>>() })
    }

    pub(super) fn positions(&self) -> Value {
        let line = |(place, held): (&usize, &Holding)| {
            let (symbol, decimals) = self.of_instrument(*place);
            json!({
                "symbol": symbol,
                "position": position_text(held.bought as i64 - held.sold as i64, decimals),
                "bought": lots_text(held.bought, decimals),
                "sold": lots_text(held.sold, decimals),
                "cash": value_text(held.cash, decimals),
            })
        };
        json!({ "seq": self.seq, "positions": self.holdings.iter().map(line).collect::<Vec<_>>() })
    }

    pub(super) fn last_fills(&self, most: usize, since: u64) -> Value {
        let fills = self
            .fills
            .iter()
            .rev()
            .take_while(|fill| fill.seq > since)
            .take(most)
            .map(|fill| self.fill_json(fill));
        json!({ "seq": self.seq, "fills": fills.collect::<Vec<_>>() })
    }
}

/// The time, since the epoch, that is `ns` after a midnight and within half a day of `now`.
pub(crate) fn near(now: Nanos, midnight: Nanos, ns: u64) -> Nanos {
    let after_utc = ns % DAY_NS + midnight.0 % DAY_NS;
    let behind = (after_utc + DAY_NS + DAY_NS / 2 - now.0 % DAY_NS) % DAY_NS;
    Nanos((now.0 + behind).saturating_sub(DAY_NS / 2))
}

/// A client order id without its padding.
pub(super) fn name_of(id: &ClOrdId) -> String {
    String::from_utf8_lossy(&id.0).trim_end_matches([' ', '\0']).to_string()
}

/// `CapacityReached` as `capacity reached`.
pub(super) fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}
