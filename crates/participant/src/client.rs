//! One participant's order-entry session: OUCH 5.0 over SoupBinTCP, across connections.
//!
//! Requests go into the [`Ledger`] first and on the wire when the session is up; while it is down
//! they wait. When a connection ends (closed, refused, silent) the client waits a little, connects
//! to the next gateway of its list and logs in for the next message of its stream, so that what it
//! missed is replayed. After a grace time for that replay it re-sends, in the order they were
//! asked, all requests still without an answer, new orders and replaces under their old
//! UserRefNum: the exchange knows them by it (corner 1) and answers each once.

use types::{
    CancelReason, ClOrdId, ConnId, Instrument, Liquidity, MatchNumber, Nanos, OrderType, Outbox,
    Peer, Price, Qty, RejectReason, TimeInForce, UserRefNum, limits,
};
use wire::{
    SymbolTable,
    ouch::{self, NewOrder, Outbound, ReplaceRequest},
    soupbin::{BadCredentials, ClientEvent, ClientSession},
};

use crate::{
    flow::{Action, FlowMessage},
    ledger::{Ask, FirstAnswer, Ledger, NotAsked, RequestKind},
    tape::{Latency, Sighting, Tape},
};

/// Settings of one participant's client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// SoupBinTCP user name, at most 6 bytes.
    pub username: String,
    /// SoupBinTCP password, at most 10 bytes.
    pub password: String,
    /// Gateways, first choice first; taken in turn.
    pub gateways: Vec<Peer>,
    /// From the end of a connection to the next attempt.
    pub reconnect_delay_ns: u64,
    /// From a login that was not the first to the re-sending of unanswered requests.
    pub resend_grace_ns: u64,
    /// New orders and replaces the ledger has room for.
    pub orders_max: usize,
}

impl ClientConfig {
    /// A client with delays that suit one machine.
    pub fn new(username: &str, password: &str, gateways: Vec<Peer>) -> ClientConfig {
        ClientConfig {
            username: username.into(),
            password: password.into(),
            gateways,
            reconnect_delay_ns: 100 * Nanos::MILLI,
            resend_grace_ns: 300 * Nanos::MILLI,
            orders_max: 1 << 20,
        }
    }
}

/// Counters of a client's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientCounters {
    /// Connections attempted.
    pub connects: u64,
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused.
    pub logins_rejected: u64,
    /// Connections that ended without our wish.
    pub lost_connections: u64,
    /// Sequenced messages.
    pub messages: u64,
    /// Messages that are no OUCH message, and breaches of SoupBinTCP.
    pub malformed: u64,
    /// Logins at which the server's next number was not the one asked for.
    pub stream_jumps: u64,
    /// Requests that could not be put on the wire (a fault of ours).
    pub not_sent: u64,
}

impl ClientCounters {
    /// Adds the counts of another client.
    pub fn add(&mut self, other: &ClientCounters) {
        self.connects += other.connects;
        self.logins += other.logins;
        self.logins_rejected += other.logins_rejected;
        self.lost_connections += other.lost_connections;
        self.messages += other.messages;
        self.malformed += other.malformed;
        self.stream_jumps += other.stream_jumps;
        self.not_sent += other.not_sent;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// Not connected; next attempt at this time ([`Nanos::NEVER`]: none).
    Down(Nanos),
    Connecting,
    LoggingIn,
    /// Logged in; unanswered requests are re-sent at this time, new ones wait until then.
    Replaying(Nanos),
    Up,
}

/// An OUCH client: session, reconnection and ledger.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    symbols: SymbolTable,
    index: u8,
    session: ClientSession,
    ledger: Ledger,
    counters: ClientCounters,
    link: Link,
    conn: Option<ConnId>,
    /// Index into [`ClientConfig::gateways`] of the gateway to try next.
    gateway: usize,
    expected_seq: u64,
    /// By shard: the last execution, to notice a repeated one.
    last_execution: [(MatchNumber, UserRefNum); limits::SHARDS_MAX],
    /// Bytes of this call, written to the stream in one piece.
    pending: Vec<u8>,
    scratch: Vec<u8>,
    asks: Vec<Ask>,
}

impl Client {
    /// Client number `index` of its driver, not yet connected.
    ///
    /// # Errors
    /// User name or password do not fit SoupBinTCP.
    pub fn new(
        index: u8,
        config: ClientConfig,
        instruments: &[Instrument],
    ) -> Result<Client, BadCredentials> {
        Ok(Client {
            session: ClientSession::new(&config.username, &config.password)?,
            ledger: Ledger::new(config.orders_max),
            index,
            counters: ClientCounters::default(),
            link: Link::Down(Nanos(0)),
            conn: None,
            gateway: 0,
            expected_seq: 1,
            last_execution: [(MatchNumber(0), UserRefNum(0)); limits::SHARDS_MAX],
            symbols: SymbolTable::new(instruments),
            pending: Vec::new(),
            scratch: Vec::new(),
            asks: Vec::new(),
            config,
        })
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Counters of the connections.
    pub fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// Logged in, nothing waiting to be re-sent.
    pub fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// Connection in use.
    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// When [`Client::handle_timeout`] wants to be called.
    pub fn next_timeout(&self) -> Nanos {
        match self.link {
            Link::Down(at) => at,
            Link::Connecting => Nanos::NEVER,
            Link::Replaying(at) => at.min(self.session.next_timeout()),
            Link::LoggingIn | Link::Up => self.session.next_timeout(),
        }
    }

    /// Connects, re-sends or sends a heartbeat when one of them is due. A new stream gets the name
    /// `next_conn`; true says that it was used.
    pub fn handle_timeout(&mut self, now: Nanos, next_conn: ConnId, out: &mut Outbox) -> bool {
        match self.link {
            Link::Down(at) if at <= now => {
                let Some(&gateway) = self.config.gateways.get(self.gateway) else {
                    self.link = Link::Down(Nanos::NEVER);
                    return false;
                };
                self.gateway = (self.gateway + 1) % self.config.gateways.len();
                self.conn = Some(next_conn);
                self.link = Link::Connecting;
                self.counters.connects += 1;
                out.connect(next_conn, gateway);
                return true;
            }
            Link::Down(_) | Link::Connecting => return false,
            Link::Replaying(at) if at <= now => self.resend(now),
            _ => {}
        }
        if self.session.handle_timeout(now, &mut self.pending).is_some() {
            self.hang_up(now, out);
        }
        self.flush(out);
        false
    }

    /// The stream asked for is open.
    pub fn handle_connect(&mut self, now: Nanos, out: &mut Outbox) {
        if self.link != Link::Connecting {
            return;
        }
        self.expected_seq = self.session.next_seq();
        self.link = Link::LoggingIn;
        if self.session.connect(now, &mut self.pending).is_err() {
            self.hang_up(now, out);
        }
        self.flush(out);
    }

    /// The stream was closed by the other side, or could not be opened.
    pub fn handle_close(&mut self, now: Nanos) {
        self.session.handle_close();
        self.conn = None;
        self.pending.clear();
        self.counters.lost_connections += 1;
        self.link = Link::Down(now.after(self.config.reconnect_delay_ns));
    }

    fn hang_up(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(conn) = self.conn {
            out.close(conn);
        }
        self.handle_close(now);
    }

    /// Handles bytes from the connection.
    pub fn handle_stream(&mut self, now: Nanos, bytes: &[u8], tape: &mut Tape, out: &mut Outbox) {
        if !matches!(self.link, Link::LoggingIn | Link::Replaying(_) | Link::Up) {
            return;
        }
        let mut answers = Answers {
            now,
            index: self.index,
            ledger: &mut self.ledger,
            counters: &mut self.counters,
            last_execution: &mut self.last_execution,
            tape,
            logged_in: None,
            over: false,
            ended: false,
        };
        self.session.handle_bytes(now, bytes, |event| answers.event(event));
        let (logged_in, over, ended) = (answers.logged_in, answers.over, answers.ended);
        if let Some(seq) = logged_in {
            self.counters.stream_jumps += u64::from(seq != self.expected_seq);
            self.counters.logins += 1;
            let first = self.counters.logins == 1;
            let wait = if first { 0 } else { self.config.resend_grace_ns };
            self.link = Link::Replaying(now.after(wait));
            if first {
                self.resend(now);
            }
        }
        if over || ended {
            self.hang_up(now, out);
        }
        if ended {
            self.link = Link::Down(Nanos::NEVER);
        }
        self.flush(out);
    }

    /// Asks for something that should have been sent at `scheduled` (`None`: not timed). Call
    /// [`Client::flush`] after the last one of a batch.
    ///
    /// # Errors
    /// See [`NotAsked`].
    pub fn submit(
        &mut self,
        now: Nanos,
        message: FlowMessage,
        scheduled: Option<Nanos>,
    ) -> Result<(), NotAsked> {
        let (qty, price) = match message.action {
            Action::New { qty, price, .. } | Action::Replace { qty, price, .. } => (qty, price),
            Action::Cancel => (Qty(0), Price(0)),
        };
        let known = self.symbols.symbol(message.instrument).is_some();
        if !known || qty.0 > limits::QTY_MAX || price.0 < 0 {
            return Err(NotAsked::NotEncodable);
        }
        let ask = self.ledger.ask(message, scheduled)?;
        if self.link == Link::Up {
            self.send(now, ask);
        }
        Ok(())
    }

    /// Writes what is pending to the stream.
    pub fn flush(&mut self, out: &mut Outbox) {
        if let Some(conn) = self.conn
            && !self.pending.is_empty()
        {
            let span = out.store(&self.pending);
            out.stream(conn, span);
        }
        self.pending.clear();
    }

    /// Sends everything that has no answer, in the order it was asked, and goes on.
    fn resend(&mut self, now: Nanos) {
        let mut asks = std::mem::take(&mut self.asks);
        self.ledger.unanswered(&mut asks);
        asks.iter().for_each(|&ask| self.send(now, ask));
        self.asks = asks;
        self.link = Link::Up;
    }

    fn send(&mut self, now: Nanos, ask: Ask) {
        self.scratch.clear();
        let encoded = self.encode(now, ask);
        let sent = encoded.is_some_and(|()| {
            self.session.send_unsequenced(now, &self.scratch, &mut self.pending).is_ok()
        });
        if sent {
            self.ledger.sent(ask);
        } else {
            self.counters.not_sent += 1;
        }
    }

    fn encode(&mut self, now: Nanos, ask: Ask) -> Option<()> {
        let Ask { kind, user_ref } = ask;
        let message = self.ledger.order(user_ref)?.message;
        if kind == RequestKind::Cancel {
            return ouch::encode_cancel(user_ref, Qty(0), &mut self.scratch).ok();
        }
        let cl_ord_id = flow_cl_ord_id(message.id);
        match message.action {
            Action::New { side, qty, price, order_type, post_only, time_in_force } => {
                let symbol = self.symbols.symbol(message.instrument)?;
                let price = (order_type == OrderType::Limit).then_some(price);
                let mut order = NewOrder {
                    user_ref,
                    side,
                    qty,
                    symbol,
                    price,
                    time_in_force,
                    post_only,
                    cl_ord_id,
                };
                let terms = message.special.terms(&mut order, now);
                ouch::encode_enter_order_with(&order, &terms, &mut self.scratch).ok()
            }
            Action::Replace { orig, qty, price } => {
                let request = ReplaceRequest {
                    orig_user_ref: self.ledger.find(message.instrument, orig)?,
                    user_ref,
                    qty,
                    price,
                    time_in_force: TimeInForce::Day,
                    post_only: false,
                    cl_ord_id,
                };
                ouch::encode_replace(&request, &mut self.scratch).ok()
            }
            Action::Cancel => None,
        }
    }
}

/// The flow id in base 36, upper case, padded with spaces: readable in the exchange's records.
fn flow_cl_ord_id(mut id: u64) -> ClOrdId {
    let mut text = ClOrdId::default();
    // 36^13 > 2^64: thirteen digits hold every id.
    for byte in text.0.iter_mut().take(13).rev() {
        let digit = (id % 36) as u8;
        *byte = if digit < 10 { b'0' + digit } else { b'A' + digit - 10 };
        id /= 36;
    }
    text
}

/// Reads the server's events into the ledger and the tape.
struct Answers<'c> {
    now: Nanos,
    index: u8,
    ledger: &'c mut Ledger,
    counters: &'c mut ClientCounters,
    last_execution: &'c mut [(MatchNumber, UserRefNum); limits::SHARDS_MAX],
    tape: &'c mut Tape,
    /// The server's next number, when a login was accepted.
    logged_in: Option<u64>,
    /// The connection is over: close it.
    over: bool,
    /// As `over`, and nothing will come on another one either.
    ended: bool,
}

impl Answers<'_> {
    fn event(&mut self, event: ClientEvent<'_>) {
        match event {
            ClientEvent::Accepted { seq, .. } => self.logged_in = Some(seq),
            ClientEvent::Rejected(_) => {
                self.counters.logins_rejected += 1;
                self.over = true;
            }
            ClientEvent::Sequenced { message, .. } => {
                self.counters.messages += 1;
                match ouch::parse_outbound(message) {
                    Ok(answer) => self.answer(&answer),
                    Err(_) => self.counters.malformed += 1,
                }
            }
            ClientEvent::Unsequenced(_) => {}
            ClientEvent::EndOfSession => self.ended = true,
            ClientEvent::Violation(_) => {
                self.counters.malformed += 1;
                self.over = true;
            }
            ClientEvent::Dead => self.over = true,
        }
    }

    fn answer(&mut self, answer: &Outbound<'_>) {
        let (kind, first) = match answer {
            Outbound::OrderAccepted(m, _) => {
                let qty = Qty(m.quantity.get().into());
                (RequestKind::New, self.ledger.accepted(UserRefNum(m.user_ref.get()), qty))
            }
            Outbound::OrderReplaced(m, _) => {
                let (orig, new) = (m.orig_user_ref.get(), m.user_ref.get());
                let qty = Qty(m.quantity.get().into());
                let first = self.ledger.replaced(UserRefNum(orig), UserRefNum(new), qty);
                (RequestKind::Replace, first)
            }
            Outbound::OrderRejected(m, _) => {
                let reason = ouch::reject_reason(m.reason.get()).unwrap_or(RejectReason::None);
                let user_ref = UserRefNum(m.user_ref.get());
                (self.ledger.kind(user_ref), self.ledger.rejected(user_ref, reason))
            }
            Outbound::OrderCanceled(m, _) => {
                let asked = ouch::cancel_reason(m.reason) == Some(CancelReason::Requested);
                let qty = Qty(m.quantity.get().into());
                let first = self.ledger.canceled(UserRefNum(m.user_ref.get()), qty, asked);
                (RequestKind::Cancel, first)
            }
            Outbound::CancelReject(m, _) => {
                let first = self.ledger.cancel_rejected(UserRefNum(m.user_ref.get()));
                (RequestKind::Cancel, first)
            }
            Outbound::OrderExecuted(m, _) => return self.executed(m),
            Outbound::OrderRestated(m, _) => {
                return self.ledger.noticed(UserRefNum(m.user_ref.get()));
            }
            Outbound::BrokenTrade(m, _) => {
                return self.ledger.noticed(UserRefNum(m.user_ref.get()));
            }
            Outbound::MassCancelResponse(..) => return self.ledger.mass_canceled(),
            Outbound::SystemEvent(..) => return,
            // Nothing we ask for is answered by any other message.
            _ => return self.ledger.violation(),
        };
        let Some(FirstAnswer { scheduled: Some(scheduled) }) = first else { return };
        let ns = self.now.since(scheduled);
        self.tape.latency(Latency { client: self.index, kind, at: self.now, ns });
    }

    fn executed(&mut self, m: &ouch::OrderExecuted) {
        let user_ref = UserRefNum(m.user_ref.get());
        let match_number = MatchNumber(m.match_number.get());
        let (qty, price) = (Qty(m.quantity.get().into()), i64::try_from(m.price.get()));
        // One account's executions come in the order of each shard's trades, which it numbers from its
        // own number times 2^48 on; both sides of a trade with oneself share its number.
        let execution = (match_number, user_ref);
        let shard = usize::try_from(match_number.0 >> 48).unwrap_or(usize::MAX);
        match self.last_execution.get_mut(shard) {
            Some(last) => {
                let again = match_number < last.0 || execution == *last;
                *last = execution;
                if again {
                    self.ledger.violation();
                }
            }
            None => self.ledger.violation(),
        }
        let Some(order) = self.ledger.executed(user_ref, qty) else { return };
        let (FlowMessage { id, instrument, .. }, Ok(price)) = (order.message, price) else {
            return self.ledger.violation();
        };
        self.tape.sighting(Sighting {
            client: self.index,
            at: self.now,
            match_number,
            instrument,
            id,
            side: order.side,
            qty,
            price: Price(price),
            liquidity: ouch::liquidity(m.liquidity).unwrap_or(Liquidity::None),
        });
    }
}
