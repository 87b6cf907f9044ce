//! An account's ordinary OUCH session behind the door, and what its stream tells: orders, positions, fills.
//!
//! Sans I/O. Everything it knows comes out of the account's stream, which a new start reads from its first
//! message on; so client order ids are known again, too. Requests that have no answer when a connection
//! ends are sent again on the next one, once its replay is over, under the same UserRefNum: the exchange
//! counts each once. Replies go to whoever asked, if that still waits.

pub(crate) mod ledger;
mod link;
mod requests;
mod stream;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot};
use types::{
    ClOrdId, CommandKind, ConnId, InstrumentId, Nanos, OrderRef, Outbox, Peer, Price, Qty, Side,
    Symbol,
};
use wire::soupbin::{BadCredentials, ClientSession};

use crate::error::ApiError;
use crate::request::{Instruments, New, Replace, client_id};
use ledger::{Fill, Holding, Order, Trip};
use link::Link;

/// Orders that are not open any more and are still known, with their client order ids.
const CLOSED_MAX: usize = 100_000;
/// Fills that are still known one by one.
const FILLS_MAX: usize = 100_000;
/// Requests that wait for their answers.
const WAITING_MAX: usize = 1_024;
/// Events that a private channel may be behind.
const EVENTS: usize = 4_096;
/// How long an answer waits for the end of an order that does not rest, after it was taken.
const SETTLE_NS: u64 = 500 * Nanos::MILLI;
/// Accepted orders whose way is remembered.
const TRIPS_MAX: usize = 1_000;
/// Requests that a fault of the sandbox may be about.
const FAULTS_MAX: u32 = 1_000;

/// What a request is answered with.
pub type Reply = Result<Value, ApiError>;
/// Where a reply goes, and when what it answers came to the door.
#[derive(Debug)]
pub struct ReplyTo {
    to: oneshot::Sender<Reply>,
    came: Nanos,
}

impl ReplyTo {
    /// For a request that came at this time of the door's clock; and where its reply comes.
    pub fn new(came: Nanos) -> (ReplyTo, oneshot::Receiver<Reply>) {
        let (to, from) = oneshot::channel();
        (ReplyTo { to, came }, from)
    }

    /// Nobody may wait any more: whoever asked may ask again.
    pub(crate) fn send(self, reply: Reply) {
        let _ = self.to.send(reply);
    }

    fn is_closed(&self) -> bool {
        self.to.is_closed()
    }
}

/// When a request to trade was where, told when the exchange has answered it. All times are of the door's
/// clock, but that of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// Its UserRefNum; of a cancel, that of the order.
    pub number: u32,
    /// What it asked for.
    pub command: CommandKind,
    /// When the door had it from its client.
    pub came: Nanos,
    /// When it went to the gateway for the first time.
    pub sent: Nanos,
    /// The time that the exchange's log gave it, where the answer says.
    pub logged: Option<Nanos>,
    /// When the answer came.
    pub answered: Nanos,
    /// The exchange refused it.
    pub refused: bool,
}

/// A request that the exchange has not answered.
struct Unanswered {
    number: u32,
    wants: Wants,
    message: Vec<u8>,
    came: Nanos,
    sent: Nanos,
}

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
    /// The order of this name, whatever became of it, and its place in its queue if it is known.
    Order(ClOrdId, Option<Value>),
    /// Positions of all symbols ever traded.
    Positions,
    /// The last fills, so many at most, and none up to this place of the account's stream.
    Fills(usize, u64),
    /// Cancel all orders unless this is asked for again within so many ms; 0: never.
    CancelAfter(u64),
    /// How long own orders were under way lately.
    Trips,
    /// Of a sandbox: what goes wrong with the next requests.
    Fault(Fault),
}

impl Ask {
    /// Whether the exchange is asked for something.
    pub fn trades(&self) -> bool {
        matches!(self, Ask::New(_) | Ask::Replace(..) | Ask::Cancel(_) | Ask::MassCancel(_))
    }
}

/// What goes wrong on purpose with an account's next requests to trade, for tests of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// So many are refused and do not reach the exchange.
    Reject(u32),
    /// So many are held back, each for so many ms, in their order.
    Delay(u32, u64),
}

/// Where an order stands in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resting {
    /// The instrument.
    pub instrument: InstrumentId,
    /// Side of the order.
    pub side: Side,
    /// Its price.
    pub price: Price,
    /// Its name in the public feed.
    pub order_ref: OrderRef,
    /// Decimals of a lot.
    pub lot_decimals: u8,
}

/// What a waiting reply waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Entered,
    /// The end of an order that does not rest.
    Settled,
    Cancelled,
    MassCancelled,
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
    /// Its place in the account's stream; `None`: a gateway's refusal, which is outside of the stream.
    pub seq: Option<u64>,
    /// The message, JSON.
    pub text: String,
}

/// One account.
pub struct Account {
    login: Login,
    instruments: Instruments,
    /// Smallest quantities of orders, lots, by place of the instrument; one lot where none is known.
    qty_min: Vec<Qty>,
    soup: ClientSession,
    link: Link,
    /// Number of the stream's next message when it was asked for on this way in; `None`: not yet.
    end: Option<u64>,
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
    /// In the order asked.
    unanswered: VecDeque<Unanswered>,
    /// Requests that have been answered since [`Account::take_stamps`].
    stamps: Vec<Stamps>,
    /// Time of the exchange's day in the message that is read; 0: it has none.
    told_at: u64,
    /// Requests that wait for the session.
    queued: VecDeque<(Ask, ReplyTo)>,
    /// Orders whose answers wait for their end, until these times.
    settling: VecDeque<(Nanos, u32)>,
    dead_man: Option<Nanos>,
    /// Requests that a fault rejects.
    rejects: u32,
    /// Requests that a fault holds back, and for how long.
    delays: (u32, u64),
    /// Held back until these times.
    delayed: VecDeque<(Nanos, Ask, ReplyTo)>,
    /// First midnight of the exchange's log, by which its times are dated.
    midnight: Option<Nanos>,
    trips: VecDeque<Trip>,
    /// Time of the input that is dealt with.
    now: Nanos,
    events: broadcast::Sender<Arc<OwnEvent>>,
    /// Answers to requests that entered an order: they go when its place in its queue is known.
    entered: Vec<(ReplyTo, Value, Resting)>,
    /// Number of the stream's message being read, or of the last one.
    seq: u64,
    /// The message being read is one of the stream.
    sequenced: bool,
    /// The stream has been read to its end once. Nobody has a snapshot before, and nobody is told of anything.
    caught_up: bool,
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
            qty_min: Vec::new(),
            link: Link::Idle,
            end: None,
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
            stamps: Vec::new(),
            told_at: 0,
            queued: VecDeque::new(),
            settling: VecDeque::new(),
            dead_man: None,
            rejects: 0,
            delays: (0, 0),
            delayed: VecDeque::new(),
            midnight: None,
            trips: VecDeque::new(),
            now: Nanos(0),
            events: broadcast::channel(EVENTS).0,
            entered: Vec::new(),
            seq: 0,
            sequenced: false,
            caught_up: false,
            scratch: Vec::new(),
        })
    }

    /// The exchange's times count from the last midnight, of which this was the first.
    pub fn set_midnight(&mut self, midnight: Nanos) {
        self.midnight = Some(midnight);
    }

    /// Smallest quantities of orders, lots, by place of the instrument.
    pub fn set_qty_min(&mut self, lots: &[Qty]) {
        self.qty_min = lots.to_vec();
    }

    /// The order of this name, if it is open and has a price: where to look for it in the public book.
    pub fn resting(&self, of: ClOrdId) -> Option<Resting> {
        let order = self.found(of).ok().filter(|order| order.state == ledger::State::Open)?;
        let instrument = self.instruments.0.get(order.instrument)?;
        Some(Resting {
            instrument: instrument.id,
            side: order.side,
            price: order.price?,
            order_ref: OrderRef(order.order_ref),
            lot_decimals: instrument.lot_decimals,
        })
    }

    /// Sends the answers that wait for the place of an order in its queue.
    pub fn place_replies(&mut self, ahead: impl Fn(&Resting) -> Option<Value>) {
        for (reply, mut told, resting) in self.entered.drain(..) {
            told["queue"] = ahead(&resting).unwrap_or_default();
            reply.send(Ok(told));
        }
    }

    /// Sends an answer to a request to enter an order, or keeps it for [`Account::place_replies`].
    fn reply_entered(&mut self, reply: ReplyTo, answer: Reply) {
        let name = answer.as_ref().ok().and_then(|told| told["client_order_id"].as_str());
        let resting = name.and_then(|name| client_id(name).ok()).and_then(|id| self.resting(id));
        match (answer, resting) {
            (Ok(told), Some(resting)) => self.entered.push((reply, told, resting)),
            (answer, _) => reply.send(answer),
        }
    }

    /// Requests that have been answered since the last time.
    pub fn take_stamps(&mut self) -> impl Iterator<Item = Stamps> + '_ {
        self.stamps.drain(..)
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
        let settle = self.settling.front().map_or(Nanos::NEVER, |(at, _)| *at);
        let delayed = self.delayed.front().map_or(Nanos::NEVER, |(at, ..)| *at);
        let asks = match self.link {
            Link::Up => delayed.min(self.dead_man.unwrap_or(Nanos::NEVER)),
            _ => Nanos::NEVER,
        };
        let own = settle.min(asks);
        self.link_timeout().min(self.soup.next_timeout()).min(own)
    }

    /// Timers; `next_conn` names a connection that it may open. True: it did.
    pub fn handle_timeout(&mut self, now: Nanos, next_conn: ConnId, out: &mut Outbox) -> bool {
        // While the session is down neither is lost, nor sent into a replay and then again behind it.
        let is_up = self.link == Link::Up;
        if is_up && self.dead_man.is_some_and(|at| at <= now) {
            self.dead_man = None;
            let (reply, _) = ReplyTo::new(now);
            // Whatever a fault holds back.
            self.carry_out(now, Ask::MassCancel(None), reply, out);
        }
        while self.settling.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, number)) = self.settling.pop_front() else { break };
            self.answered(number, Wants::Settled);
        }
        while is_up && self.delayed.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, ask, reply)) = self.delayed.pop_front() else { break };
            self.carry_out(now, ask, reply, out);
        }
        self.serve_link(now, next_conn, out)
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
                Some((code, why)) => reply.send(Err(ApiError::new(code, why))),
                None => self.queued.push_back((ask, reply)),
            }
            return;
        }
        if let Some(reply) = self.fault(now, &ask, reply) {
            // Behind what is held back, so that requests keep their order.
            match self.delayed.back() {
                Some((at, ..)) if ask.trades() => match self.delayed.len() < WAITING_MAX {
                    true => self.delayed.push_back((*at, ask, reply)),
                    false => reply.send(Err(ApiError::new("busy", "too much is held back"))),
                },
                _ => self.carry_out(now, ask, reply, out),
            }
        }
    }

    /// What a fault makes of a request; the reply that is left, if it is carried out now.
    fn fault(&mut self, now: Nanos, ask: &Ask, reply: ReplyTo) -> Option<ReplyTo> {
        if !ask.trades() {
            return Some(reply);
        }
        if self.rejects > 0 {
            self.rejects -= 1;
            let why = "a fault of the sandbox: it was not sent to the exchange";
            reply.send(Err(ApiError::new("rejected", why)));
            return None;
        }
        let (count, ns) = self.delays;
        if count > 0 && self.delayed.len() < WAITING_MAX {
            self.delays.0 = count - 1;
            let behind = self.delayed.back().map_or(now, |(at, ..)| *at);
            self.delayed.push_back((now.after(ns).max(behind), ask.clone(), reply));
            return None;
        }
        Some(reply)
    }

    fn carry_out(&mut self, now: Nanos, ask: Ask, reply: ReplyTo, out: &mut Outbox) {
        self.now = now;
        let enters = matches!(ask, Ask::New(_) | Ask::Replace(..));
        let answer = match ask {
            Ask::New(new) => self.enter(now, &new, reply, out),
            Ask::Replace(of, replace) => self.replace(now, of, &replace, reply, out),
            Ask::Cancel(of) => self.cancel(now, of, reply, out),
            Ask::MassCancel(symbol) => self.mass_cancel(now, symbol, reply, out),
            Ask::OpenOrders => Some((reply, Ok(self.open_orders()))),
            Ask::Order(of, queue) => {
                let told = self.found(of).map(|order| {
                    let mut told = self.order_json(order);
                    told["queue"] = queue.unwrap_or_default();
                    told
                });
                Some((reply, told))
            }
            Ask::Positions => Some((reply, Ok(self.positions()))),
            Ask::Fills(most, since) => Some((reply, Ok(self.last_fills(most, since)))),
            Ask::Trips => Some((reply, Ok(self.last_trips()))),
            Ask::Fault(fault) => {
                match fault {
                    Fault::Reject(count) => self.rejects = count.min(FAULTS_MAX),
                    Fault::Delay(count, ms) => {
                        self.delays = (count.min(FAULTS_MAX), ms.saturating_mul(Nanos::MILLI));
                    }
                }
                Some((reply, Ok(json!({ "state": "set" }))))
            }
            Ask::CancelAfter(ms) => {
                self.dead_man = (ms > 0).then(|| now.after(ms * Nanos::MILLI));
                Some((reply, Ok(json!({ "timeout_ms": ms }))))
            }
        };
        match answer {
            Some((reply, answer)) if enters => self.reply_entered(reply, answer),
            Some((reply, answer)) => reply.send(answer),
            None => {}
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
        let came = reply.came;
        self.unanswered.push_back(Unanswered { number, wants, message, came, sent: now });
        self.waiting.push((number, wants, reply));
        None
    }

    /// Waits for the answer to a request that was sent before. What comes back is refused.
    fn wait(&mut self, number: u32, wants: Wants, reply: ReplyTo) -> Option<(ReplyTo, Reply)> {
        if self.waiting.len() >= WAITING_MAX {
            return Some((reply, Err(ApiError::new("busy", "too many requests wait for answers"))));
        }
        self.waiting.push((number, wants, reply));
        None
    }

    fn next_number(&mut self) -> u32 {
        let number = self.next_ref;
        self.next_ref = self.next_ref.saturating_add(1);
        number
    }
}
