//! An account's ordinary OUCH session behind the door, and what its stream tells: orders, positions, fills.
//!
//! Sans I/O. Everything it knows comes out of the account's stream, which a new start reads from its first
//! message on; so client order ids are known again, too. Requests that have no answer when a connection
//! ends are sent again on the next one, once its replay is over, under the same UserRefNum: the exchange
//! counts each once. Replies go to whoever asked, if that still waits.

mod ledger;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot};
use types::{ClOrdId, ConnId, Nanos, Outbox, Peer, Price, Qty, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{self, NewOrder, Outbound, ReplaceRequest, tag};
use wire::soupbin::{BadCredentials, ClientEvent, ClientSession};

use crate::error::ApiError;
use crate::request::{Instruments, New, Replace, client_id};
use ledger::{Fill, Holding, Order, State, name_of, words};

/// From a login, and from each message of a replay, to the first request.
const GRACE_NS: u64 = 250 * Nanos::MILLI;
/// Between two attempts to connect.
const RETRY_NS: u64 = 500 * Nanos::MILLI;
/// Orders that are not open any more and are still known, with their client order ids.
const CLOSED_MAX: usize = 100_000;
/// Fills that are still known one by one.
const FILLS_MAX: usize = 100_000;
/// Requests that wait for their answers.
const WAITING_MAX: usize = 1_024;
/// Events that a private channel may be behind.
const EVENTS: usize = 4_096;

/// What a request is answered with.
pub type Reply = Result<Value, ApiError>;
/// Where a reply goes.
pub type ReplyTo = oneshot::Sender<Reply>;

/// What the door asks of an account.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Enter an order.
    New(New),
    /// Replace the order of this name.
    Replace(ClOrdId, Replace),
    /// Cancel the order of this name.
    Cancel(ClOrdId),
    /// Cancel all orders, of all symbols or one.
    MassCancel(Option<Symbol>),
    /// The open orders.
    OpenOrders,
    /// The order of this name, whatever became of it.
    Order(ClOrdId),
    /// Positions of all symbols ever traded.
    Positions,
    /// The last fills, so many at most.
    Fills(usize),
    /// Cancel all orders unless this is asked for again within so many ms; 0: never.
    CancelAfter(u64),
}

/// What a waiting reply waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Entered,
    Cancelled,
    MassCancelled,
}

/// How the account's session stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Link {
    /// Nobody has asked for anything yet.
    Idle,
    /// Connects at this time.
    Down(Nanos),
    Connecting,
    LoggingIn,
    /// Logged in; requests go from this time on.
    Replaying(Nanos),
    Up,
}

/// Name, password and gateways of an account.
#[derive(Clone, Debug)]
pub struct Login {
    /// User name, at most 6 bytes.
    pub username: String,
    /// Password, at most 10 bytes.
    pub password: String,
    /// Gateways in the order in which they are tried.
    pub gateways: Vec<Peer>,
}

/// What an account tells those who listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnEvent {
    /// The private channel that it is of.
    pub channel: &'static str,
    /// The message, JSON.
    pub text: String,
}

/// One account.
pub struct Account {
    login: Login,
    instruments: Instruments,
    soup: ClientSession,
    link: Link,
    conn: Option<ConnId>,
    gateway: usize,
    /// Why it is not up.
    why: String,
    next_ref: u32,
    orders: HashMap<u32, Order>,
    by_client: HashMap<ClOrdId, u32>,
    closed: VecDeque<u32>,
    fills: VecDeque<Fill>,
    /// By place of the instrument.
    holdings: BTreeMap<usize, Holding>,
    waiting: Vec<(u32, Wants, ReplyTo)>,
    /// Bytes of requests without an answer, in the order asked.
    unanswered: VecDeque<(u32, Wants, Vec<u8>)>,
    /// Requests that wait for the session.
    queued: VecDeque<(Ask, ReplyTo)>,
    dead_man: Option<Nanos>,
    events: broadcast::Sender<Arc<OwnEvent>>,
    /// Number of the stream's message being read.
    seq: u64,
    scratch: Vec<u8>,
}

impl Account {
    /// Not connected before somebody asks for something.
    ///
    /// # Errors
    /// The login does not fit SoupBinTCP.
    pub fn new(login: Login, instruments: Instruments) -> Result<Account, BadCredentials> {
        Ok(Account {
            soup: ClientSession::new(&login.username, &login.password)?,
            login,
            instruments,
            link: Link::Idle,
            conn: None,
            gateway: 0,
            why: "it is being opened".to_string(),
            next_ref: 1,
            orders: HashMap::new(),
            by_client: HashMap::new(),
            closed: VecDeque::new(),
            fills: VecDeque::new(),
            holdings: BTreeMap::new(),
            waiting: Vec::new(),
            unanswered: VecDeque::new(),
            queued: VecDeque::new(),
            dead_man: None,
            events: broadcast::channel(EVENTS).0,
            seq: 0,
            scratch: Vec::new(),
        })
    }

    /// Where it tells of orders and fills.
    pub fn events(&self) -> broadcast::Sender<Arc<OwnEvent>> {
        self.events.clone()
    }

    /// Its connection.
    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// When it wants [`Account::handle_timeout`].
    pub fn next_timeout(&self) -> Nanos {
        let link = match self.link {
            Link::Idle | Link::Connecting | Link::Up | Link::LoggingIn => Nanos::NEVER,
            Link::Down(at) | Link::Replaying(at) => at,
        };
        link.min(self.soup.next_timeout()).min(self.dead_man.unwrap_or(Nanos::NEVER))
    }

    /// Timers; `next_conn` names a connection that it may open. True: it did.
    pub fn handle_timeout(&mut self, now: Nanos, next_conn: ConnId, out: &mut Outbox) -> bool {
        if self.dead_man.is_some_and(|at| at <= now) {
            self.dead_man = None;
            let (reply, _) = oneshot::channel();
            self.ask(now, Ask::MassCancel(None), reply, out);
        }
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        let dead = self.soup.handle_timeout(now, &mut bytes).is_some();
        self.write(&bytes, out);
        self.scratch = bytes;
        if dead {
            self.drop_connection(now, "the gateway is silent", out);
        }
        match self.link {
            Link::Down(at) if at <= now => {
                let to = self.login.gateways.get(self.gateway).copied().unwrap_or(Peer::NOBODY);
                out.connect(next_conn, to);
                (self.conn, self.link) = (Some(next_conn), Link::Connecting);
                true
            }
            Link::Replaying(at) if at <= now => {
                self.link = Link::Up;
                self.begin(now, out);
                false
            }
            _ => false,
        }
    }

    /// Its connection is open.
    pub fn handle_connect(&mut self, now: Nanos, out: &mut Outbox) {
        let mut bytes = Vec::new();
        if self.soup.connect(now, &mut bytes).is_ok() {
            self.link = Link::LoggingIn;
        }
        self.write(&bytes, out);
    }

    /// Its connection is gone.
    pub fn handle_close(&mut self, now: Nanos) {
        let why = "the gateway has ended the connection, or can not be reached";
        if self.link != Link::Idle {
            self.close(now, why);
        }
    }

    fn close(&mut self, now: Nanos, why: &str) {
        self.soup.handle_close();
        self.conn = None;
        self.gateway = (self.gateway + 1) % self.login.gateways.len().max(1);
        self.link = Link::Down(now.after(RETRY_NS));
        self.why = why.to_string();
        // Nothing of it was sent: whoever asked may ask again.
        for (_, reply) in std::mem::take(&mut self.queued) {
            let _ = reply.send(Err(ApiError::new("session_down", why)));
        }
    }

    fn drop_connection(&mut self, now: Nanos, why: &str, out: &mut Outbox) {
        if let Some(conn) = self.conn {
            out.close(conn);
        }
        self.close(now, why);
    }

    fn write(&self, bytes: &[u8], out: &mut Outbox) {
        if let (Some(conn), false) = (self.conn, bytes.is_empty()) {
            let span = out.store(bytes);
            out.stream(conn, span);
        }
    }

    /// The replay is over: what has no answer goes again, then what waited.
    fn begin(&mut self, now: Nanos, out: &mut Outbox) {
        let again: Vec<Vec<u8>> =
            self.unanswered.iter().map(|(_, _, message)| message.clone()).collect();
        again.iter().for_each(|message| self.send(now, message, out));
        for (ask, reply) in std::mem::take(&mut self.queued) {
            self.ask(now, ask, reply, out);
        }
    }

    fn send(&mut self, now: Nanos, message: &[u8], out: &mut Outbox) {
        let mut bytes = Vec::new();
        // Not active: it goes again with the next login.
        if self.soup.send_unsequenced(now, message, &mut bytes).is_ok() {
            self.write(&bytes, out);
        }
    }

    /// Asks for something; the reply comes when the exchange has answered, or at once.
    pub fn ask(&mut self, now: Nanos, ask: Ask, reply: ReplyTo, out: &mut Outbox) {
        if self.link == Link::Idle {
            self.link = Link::Down(now);
        }
        if self.link != Link::Up {
            let refusal = match self.link {
                Link::Down(at) if at > now => Some(("session_down", self.why.clone())),
                _ if self.queued.len() >= WAITING_MAX => {
                    Some(("busy", "too much waits".to_string()))
                }
                _ => None,
            };
            match refusal {
                Some((code, why)) => drop(reply.send(Err(ApiError::new(code, why)))),
                None => self.queued.push_back((ask, reply)),
            }
            return;
        }
        let answer = match ask {
            Ask::New(new) => self.enter(now, &new, reply, out),
            Ask::Replace(of, replace) => self.replace(now, of, &replace, reply, out),
            Ask::Cancel(of) => self.cancel(now, of, reply, out),
            Ask::MassCancel(symbol) => self.mass_cancel(now, symbol, reply, out),
            Ask::OpenOrders => Some((reply, Ok(self.open_orders()))),
            Ask::Order(of) => Some((reply, self.found(of).map(|order| self.order_json(order)))),
            Ask::Positions => Some((reply, Ok(self.positions()))),
            Ask::Fills(most) => Some((reply, Ok(self.last_fills(most)))),
            Ask::CancelAfter(ms) => {
                self.dead_man = (ms > 0).then(|| now.after(ms * Nanos::MILLI));
                Some((reply, Ok(json!({ "timeout_ms": ms }))))
            }
        };
        if let Some((reply, answer)) = answer {
            // Nobody waits any more: it may ask again.
            let _ = reply.send(answer);
        }
    }

    /// Remembers a request until it is answered, and sends it. What comes back is refused.
    fn request(
        &mut self,
        now: Nanos,
        (number, wants): (u32, Wants),
        message: Vec<u8>,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        if self.unanswered.len() >= WAITING_MAX || self.waiting.len() >= WAITING_MAX {
            return Some((reply, Err(ApiError::new("busy", "too many requests wait for answers"))));
        }
        self.send(now, &message, out);
        self.unanswered.push_back((number, wants, message));
        self.waiting.push((number, wants, reply));
        None
    }

    fn next_number(&mut self) -> u32 {
        let number = self.next_ref;
        self.next_ref = self.next_ref.saturating_add(1);
        number
    }

    fn enter(
        &mut self,
        now: Nanos,
        new: &New,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        if let Some(of) = new.client_id
            && let Ok(order) = self.found(of)
        {
            let instrument = self.instruments.0.get(order.instrument).map(|one| one.id);
            let (was, is) = (order.replaces.is_none(), Some(new.instrument.id));
            let same = was
                && instrument == is
                && (order.side, order.qty, order.price, order.time_in_force)
                    == (new.side, new.qty.0, new.price, new.time_in_force);
            let answer = match same {
                true if order.state == State::Pending => {
                    self.waiting.push((order.user_ref, Wants::Entered, reply));
                    return None;
                }
                true => Ok(self.order_json(order)),
                false => {
                    let why = format!("an order of other terms is {}", name_of(&of));
                    Err(ApiError::new("client_order_id_used", why))
                }
            };
            return Some((reply, answer));
        }
        let place = self.instruments.0.iter().position(|one| one.id == new.instrument.id)?;
        let number = self.next_number();
        let own = || client_id(&format!("W{number:010x}")).unwrap_or(ClOrdId([b' '; 14]));
        let client_id = new.client_id.unwrap_or_else(own);
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

    fn replace(
        &mut self,
        now: Nanos,
        of: ClOrdId,
        replace: &Replace,
        reply: ReplyTo,
        out: &mut Outbox,
    ) -> Option<(ReplyTo, Reply)> {
        let order = match self.found(of) {
            Ok(order) => order.clone(),
            Err(refused) => return Some((reply, Err(refused))),
        };
        if let Ok(known) = self.found(replace.client_id) {
            // Asked for again: its answer is known, or on its way.
            let same = known.replaces == Some(order.user_ref);
            return match (same, known.state) {
                (true, State::Pending) => {
                    self.waiting.push((known.user_ref, Wants::Entered, reply));
                    None
                }
                (true, _) => Some((reply, Ok(self.order_json(known)))),
                (false, _) => {
                    let why = format!("another order is {}", name_of(&replace.client_id));
                    Some((reply, Err(ApiError::new("client_order_id_used", why))))
                }
            };
        }
        let instrument = self.instruments.0.get(order.instrument)?;
        let refused = if order.state != State::Open {
            let why = format!("the order is {}", order.state.name());
            Some(ApiError::new("not_open", why))
        } else {
            None
        };
        let lots = replace.qty.lots(instrument).filter(|qty| qty.0 > 0);
        let (Some(qty), None) = (lots, &refused) else {
            let why = format!("qty: above 0 with at most {} places", instrument.lot_decimals);
            let refused = refused.unwrap_or_else(|| ApiError::new("bad_field", why));
            return Some((reply, Err(refused)));
        };
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
                state: State::Pending,
                replaces: Some(order.user_ref),
                ..order
            };
            self.by_client.insert(replace.client_id, number);
            self.orders.insert(number, replacement);
        }
        refused
    }

    fn cancel(
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
            let answer = match order.state {
                State::Cancelled => Ok(self.order_json(order)),
                state => Err(ApiError::new("not_open", format!("the order is {}", state.name()))),
            };
            return Some((reply, answer));
        }
        let number = order.user_ref;
        let mut message = Vec::new();
        // A quantity of 0 has a place in the message.
        let _ = ouch::encode_cancel(UserRefNum(number), Qty(0), &mut message);
        self.request(now, (number, Wants::Cancelled), message, reply, out)
    }

    fn mass_cancel(
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

    /// Bytes of its connection.
    pub fn handle_stream(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) {
        // What is told of one call goes through in order; messages are copied because they change this.
        let (mut messages, mut over) = (Vec::new(), None);
        let mut accepted = false;
        self.soup.handle_bytes(now, bytes, |event| match event {
            ClientEvent::Accepted { .. } => accepted = true,
            ClientEvent::Sequenced { seq, message } => messages.push((seq, message.to_vec())),
            ClientEvent::Unsequenced(message) => messages.push((0, message.to_vec())),
            ClientEvent::Rejected(_) => {
                over =
                    Some("its login is refused: another session is live, or the password is wrong");
            }
            ClientEvent::EndOfSession => over = Some("the session is over"),
            ClientEvent::Violation(_) | ClientEvent::Dead => over = Some("the gateway broke off"),
        });
        if accepted {
            self.link = Link::Replaying(now.after(GRACE_NS));
        }
        for (seq, message) in messages {
            self.seq = seq.max(self.seq);
            self.take(&message);
            if let Link::Replaying(at) = &mut self.link {
                *at = now.after(GRACE_NS);
            }
        }
        if let Some(why) = over {
            self.drop_connection(now, why, out);
        }
    }

    fn take(&mut self, message: &[u8]) {
        let Ok(read) = ouch::parse_outbound(message) else { return };
        match read {
            Outbound::OrderAccepted(m, _) => {
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
                    state: State::Open,
                    reason: None,
                    order_ref: m.order_ref.get(),
                    replaces: None,
                };
                self.put(order);
                self.answered(number, Wants::Entered);
            }
            Outbound::OrderReplaced(m, _) => {
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
                    state: State::Open,
                    reason: None,
                    order_ref: m.order_ref.get(),
                    replaces: Some(orig),
                };
                self.change(orig, |order| (order.state, order.leaves) = (State::Replaced, 0));
                self.put(order);
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
                    (order.state, order.leaves) = (State::Rejected, 0);
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

    fn cancelled(&mut self, number: u32, lots: u64, why: Option<String>) {
        self.change(number, |order| {
            order.leaves = order.leaves.saturating_sub(lots);
            order.reason = why;
            if order.leaves == 0 {
                order.state = State::Cancelled;
            }
        });
        self.answered(number, Wants::Cancelled);
    }

    /// An order's state answers whoever waits for it.
    fn answered(&mut self, number: u32, wants: Wants) {
        self.reply(number, wants, |account| match account.orders.get(&number) {
            Some(order) if order.state == State::Rejected && wants == Wants::Entered => {
                let why = order.reason.clone().unwrap_or_default();
                Err(ApiError::new("rejected", why))
            }
            Some(order) => Ok(account.order_json(order)),
            None => Ok(Value::Null),
        });
    }

    fn reply(&mut self, number: u32, wants: Wants, answer: impl Fn(&Account) -> Reply) {
        self.unanswered.retain(|(of, what, _)| (*of, *what) != (number, wants));
        let waiting = std::mem::take(&mut self.waiting);
        let (due, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(of, what, _)| (*of, *what) == (number, wants));
        // Whoever does not wait any more is forgotten, too.
        self.waiting = rest.into_iter().filter(|(_, _, reply)| !reply.is_closed()).collect();
        for (_, _, reply) in due {
            let _ = reply.send(answer(self));
        }
    }
}
