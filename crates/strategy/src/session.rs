//! A strategy's ordinary OUCH session at the gateway of its edge.
//!
//! Requests keep their UserRefNum: those without an answer when a connection ends are sent again on the next
//! one, once its replay is over, and the exchange counts each once. Numbers of the strategy's orders, from 1,
//! stand behind the highest one that the account has used before.

use std::collections::VecDeque;

use types::limits::PRICE_MARKET;
use types::{
    ClOrdId, ConnId, Instrument, Nanos, Outbox, Peer, Price, Qty, TimeInForce, UserRefNum,
};
use wire::SymbolTable;
use wire::ouch::{self, NewOrder, Outbound};
use wire::soupbin::{BadCredentials, ClientEvent, ClientSession};

use crate::seat::Request;

/// From a login, and from each message of a replay, to the first request.
const GRACE_NS: u64 = 250 * Nanos::MILLI;
/// Between two attempts to connect.
const RETRY_NS: u64 = 250 * Nanos::MILLI;

/// How an account logs in.
#[derive(Clone, Debug)]
pub struct Login {
    /// User name, at most 6 bytes.
    pub username: String,
    /// Password, at most 10 bytes.
    pub password: String,
    /// Gateways in the order in which they are tried.
    pub gateways: Vec<Peer>,
}

/// What a session has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionCounters {
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused.
    pub logins_refused: u64,
    /// Requests sent again.
    pub resent: u64,
    /// Requests that no message of the protocol can carry.
    pub not_encodable: u64,
    /// Messages that were none.
    pub malformed: u64,
}

/// What the exchange says of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Accepted { qty: Qty, price: Price },
    Executed { qty: Qty, price: Price, rested: bool },
    Cancelled { qty: Qty },
    Rejected,
    CancelRejected,
    Changed,
}

/// A message about an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// Number of the order, as the strategy counts them.
    pub id: u32,
    /// Time of the event, ns since midnight.
    pub time: u64,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// Not connected; the next attempt at this time.
    Down(Nanos),
    Connecting,
    LoggingIn,
    /// Logged in; requests go from this time on.
    Replaying(Nanos),
    Up,
}

pub(crate) struct Session {
    login: Login,
    symbols: SymbolTable,
    soup: ClientSession,
    link: Link,
    conn: Option<ConnId>,
    gateway: usize,
    /// Highest number that the account had used before this session's first request, once that is known.
    base: Option<u32>,
    highest: u32,
    /// Requests without an answer, in the order asked.
    unanswered: VecDeque<Request>,
    counters: SessionCounters,
    scratch: Vec<u8>,
    message: Vec<u8>,
}

impl Session {
    pub fn new(login: Login, instruments: &[Instrument]) -> Result<Session, BadCredentials> {
        Ok(Session {
            soup: ClientSession::new(&login.username, &login.password)?,
            symbols: SymbolTable::new(instruments),
            login,
            link: Link::Down(Nanos(0)),
            conn: None,
            gateway: 0,
            base: None,
            highest: 0,
            unanswered: VecDeque::new(),
            counters: SessionCounters::default(),
            scratch: Vec::new(),
            message: Vec::new(),
        })
    }

    pub fn counters(&self) -> SessionCounters {
        self.counters
    }

    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    pub fn next_timeout(&self) -> Nanos {
        match self.link {
            Link::Down(at) => at,
            Link::Connecting => Nanos::NEVER,
            Link::Replaying(at) => at.min(self.soup.next_timeout()),
            Link::LoggingIn | Link::Up => self.soup.next_timeout(),
        }
    }

    /// Timers; `next_conn` names a connection that it may open. True: it did.
    pub fn handle_timeout(&mut self, now: Nanos, next_conn: ConnId, out: &mut Outbox) -> bool {
        match self.link {
            Link::Down(at) if at <= now => {
                let to = self.login.gateways.get(self.gateway).copied().unwrap_or(Peer::NOBODY);
                (self.conn, self.link) = (Some(next_conn), Link::Connecting);
                out.connect(next_conn, to);
                return true;
            }
            Link::Down(_) | Link::Connecting => return false,
            Link::Replaying(at) if at <= now => {
                self.link = Link::Up;
                let first = self.base.is_none();
                self.base.get_or_insert(self.highest);
                let waiting = std::mem::take(&mut self.unanswered);
                for request in waiting {
                    self.counters.resent += u64::from(!first);
                    self.ask(now, request);
                }
            }
            _ => {}
        }
        if self.soup.handle_timeout(now, &mut self.scratch).is_some() {
            self.hang_up(now, out);
        }
        self.flush(out);
        false
    }

    pub fn handle_connect(&mut self, now: Nanos, out: &mut Outbox) {
        if self.link != Link::Connecting {
            return;
        }
        self.link = Link::LoggingIn;
        if self.soup.connect(now, &mut self.scratch).is_err() {
            self.hang_up(now, out);
        }
        self.flush(out);
    }

    pub fn handle_close(&mut self, now: Nanos) {
        self.soup.handle_close();
        self.conn = None;
        self.scratch.clear();
        self.gateway = (self.gateway + 1) % self.login.gateways.len().max(1);
        self.link = Link::Down(now.after(RETRY_NS));
    }

    fn hang_up(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(conn) = self.conn {
            out.close(conn);
        }
        self.handle_close(now);
    }

    /// Bytes of the connection; `told` gets what they say of the strategy's orders.
    pub fn handle_stream(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        out: &mut Outbox,
        mut told: impl FnMut(Answer),
    ) {
        let (mut accepted, mut over, mut heard) = (false, false, false);
        let (base, counters) = (self.base, &mut self.counters);
        let (highest, unanswered) = (&mut self.highest, &mut self.unanswered);
        self.soup.handle_bytes(now, bytes, |event| match event {
            ClientEvent::Accepted { .. } => accepted = true,
            ClientEvent::Sequenced { message, .. } | ClientEvent::Unsequenced(message) => {
                heard = true;
                let Ok(message) = ouch::parse_outbound(message) else {
                    counters.malformed += 1;
                    return;
                };
                let Some((number, time, what)) = read(&message) else { return };
                *highest = number.max(*highest);
                // What came before this session's first request is of an earlier life.
                let id = base.and_then(|base| number.checked_sub(base)).filter(|id| *id > 0);
                let Some(id) = id else { return };
                settle(unanswered, id, what);
                told(Answer { id, time, what });
            }
            ClientEvent::Rejected(_) => {
                counters.logins_refused += 1;
                over = true;
            }
            ClientEvent::EndOfSession | ClientEvent::Violation(_) | ClientEvent::Dead => {
                over = true;
            }
        });
        if accepted {
            self.counters.logins += 1;
            self.link = Link::Replaying(now.after(GRACE_NS));
        } else if heard && let Link::Replaying(at) = &mut self.link {
            *at = now.after(GRACE_NS);
        }
        if over {
            self.hang_up(now, out);
        }
        self.flush(out);
    }

    /// Asks for something, now or once the session is up. Call [`Session::flush`] after the last one.
    pub fn ask(&mut self, now: Nanos, request: Request) {
        self.message.clear();
        let Some(base) = self.base.filter(|_| self.link == Link::Up) else {
            self.unanswered.push_back(request);
            return;
        };
        if encode(&self.symbols, base, &request, &mut self.message).is_none() {
            self.counters.not_encodable += 1;
            return;
        }
        self.unanswered.push_back(request);
        // Where that fails the connection is over, and it goes again on the next one.
        let _ = self.soup.send_unsequenced(now, &self.message, &mut self.scratch);
    }

    /// Writes what was asked for to the connection.
    pub fn flush(&mut self, out: &mut Outbox) {
        if let Some(conn) = self.conn.filter(|_| !self.scratch.is_empty()) {
            let span = out.store(&self.scratch);
            out.stream(conn, span);
        }
        self.scratch.clear();
    }
}

/// Removes the request that an answer answers.
fn settle(unanswered: &mut VecDeque<Request>, id: u32, what: What) {
    let answers = |request: &Request| match (*request, what) {
        (Request::Order { id: of, .. }, What::Accepted { .. } | What::Rejected) => of == id,
        (Request::Cancel { id: of }, What::Cancelled { .. } | What::CancelRejected) => of == id,
        _ => false,
    };
    if let Some(place) = unanswered.iter().position(answers) {
        unanswered.remove(place);
    }
}

/// What a message says of which order, and when.
fn read(message: &Outbound<'_>) -> Option<(u32, u64, What)> {
    Some(match message {
        Outbound::OrderAccepted(m, _) => {
            let (qty, price) = (Qty(m.quantity.get().into()), m.price.get());
            let price = if price == PRICE_MARKET { Price(0) } else { Price(price as i64) };
            (m.user_ref.get(), m.time.get(), What::Accepted { qty, price })
        }
        Outbound::OrderExecuted(m, _) => {
            let (qty, price) = (Qty(m.quantity.get().into()), Price(m.price.get() as i64));
            let rested = matches!(m.liquidity, b'A' | b'J' | b'k');
            (m.user_ref.get(), m.time.get(), What::Executed { qty, price, rested })
        }
        Outbound::OrderCanceled(m, _) => {
            let qty = Qty(m.quantity.get().into());
            (m.user_ref.get(), m.time.get(), What::Cancelled { qty })
        }
        Outbound::AiqCanceled(m, _) => {
            let qty = Qty(m.quantity.get().into());
            (m.user_ref.get(), m.time.get(), What::Cancelled { qty })
        }
        Outbound::OrderRejected(m, _) => (m.user_ref.get(), m.time.get(), What::Rejected),
        Outbound::CancelReject(m, _) => (m.user_ref.get(), m.time.get(), What::CancelRejected),
        Outbound::OrderRestated(m, _) => (m.user_ref.get(), m.time.get(), What::Changed),
        // Of other requests than a strategy can make, but numbers of the account.
        Outbound::OrderReplaced(m, _) => (m.user_ref.get(), m.time.get(), What::Changed),
        _ => return None,
    })
}

/// Appends a request's message; `None`: none can carry it.
fn encode(symbols: &SymbolTable, base: u32, request: &Request, to: &mut Vec<u8>) -> Option<()> {
    match *request {
        Request::Cancel { id } => {
            let user_ref = UserRefNum(base.checked_add(id)?);
            ouch::encode_cancel(user_ref, Qty(0), to).ok()
        }
        Request::Order { id, instrument, side, qty, price, life, rests } => {
            let order = NewOrder {
                user_ref: UserRefNum(base.checked_add(id)?),
                side,
                qty: Qty(qty.into()),
                symbol: symbols.symbol(instrument)?,
                price: Some(price),
                time_in_force: match life {
                    TimeInForce::ImmediateOrCancel => life,
                    _ => TimeInForce::Day,
                },
                post_only: rests,
                cl_ord_id: ClOrdId::default(),
            };
            ouch::encode_enter_order(&order, to).ok()
        }
    }
}
