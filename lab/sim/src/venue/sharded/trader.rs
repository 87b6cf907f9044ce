//! A participant of a venue of several shards: it orders, replaces and cancels in all instruments through
//! whatever gateway it happens to be at, leaves and comes back, sends again what has no answer, and
//! keeps every message of its stream by its number.

use std::collections::BTreeMap;

use types::{
    ClOrdId, ClockReading, ConnId, Instrument, Nanos, Node, Outbox, Peer, Price, Qty, RejectReason,
    Side, SplitMix64, TimeInForce, UserRefNum,
};
use wire::ouch::{self, NewOrder, Outbound, ReplaceRequest};
use wire::soupbin::{ClientEvent, ClientSession};

/// Requests of a trader.
const REQUESTS_MAX: u32 = 60;
/// Between two requests at most.
const PACE_NS: u64 = 40 * Nanos::MILLI;
/// From the end of a connection to the next one.
const AGAIN_NS: u64 = 20 * Nanos::MILLI;
/// A login that has no answer is given up.
const LOGIN_NS: u64 = 3 * Nanos::SECOND;
/// Cancels are repeated so often in the end.
const CLOSE_EVERY_NS: u64 = 100 * Nanos::MILLI;

/// What a trader does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Trades, and changes gateways.
    Trade,
    /// Cancels what is open.
    Close,
    /// Only listens.
    Listen,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Down(Nanos),
    Connecting,
    LoggingIn(Nanos),
    Up,
}

#[derive(Clone, Debug)]
struct Order {
    /// The request, to be sent again.
    message: Vec<u8>,
    answers: u32,
    /// Refused by a gateway, which is in no stream.
    refused: bool,
    open: u64,
}

/// A participant: orders, cancels and mass-cancels, changes gateways, keeps what it is told.
pub(super) struct Trader {
    name: String,
    password: String,
    gateways: Vec<Peer>,
    instruments: Vec<Instrument>,
    rng: SplitMix64,
    soup: ClientSession,
    conn: Option<ConnId>,
    next_conn: u32,
    link: Link,
    task: Task,
    /// The stream, by number less one.
    pub(super) heard: Vec<Vec<u8>>,
    orders: BTreeMap<u32, Order>,
    next_ref: u32,
    act_at: Nanos,
    leave_at: Nanos,
    pub(super) wrong: Vec<String>,
    /// Logins accepted; orders refused for lack of a shard's part.
    pub(super) logins: u64,
    pub(super) short: u64,
    pub(super) refused: u64,
    pub(super) asked: u64,
    written: Vec<u8>,
}

impl Trader {
    pub(super) fn new(
        (name, password): (&str, &str),
        gateways: Vec<Peer>,
        instruments: Vec<Instrument>,
        seed: u64,
        begin: Nanos,
    ) -> Trader {
        let mut rng = SplitMix64::new(seed);
        let act_at = begin.after(rng.below(PACE_NS));
        Trader {
            soup: session(name, password),
            name: name.to_string(),
            password: password.to_string(),
            gateways,
            instruments,
            conn: None,
            next_conn: 1,
            link: Link::Down(begin),
            task: Task::Trade,
            heard: Vec::new(),
            orders: BTreeMap::new(),
            next_ref: 1,
            act_at,
            leave_at: begin.after((100 + rng.below(900)) * Nanos::MILLI),
            wrong: Vec::new(),
            logins: 0,
            short: 0,
            refused: 0,
            asked: 0,
            written: Vec::new(),
            rng,
        }
    }

    /// From now on it cancels what is open, and stays where it is.
    pub(super) fn close(&mut self, now: Nanos) {
        (self.task, self.act_at, self.leave_at) = (Task::Close, now, Nanos::NEVER);
    }

    /// Whether each order has an answer and none is open.
    pub(super) fn is_done(&self) -> bool {
        self.orders.values().all(|order| (order.answers > 0 || order.refused) && order.open == 0)
    }

    /// What is not done, for a report.
    pub(super) fn left(&self) -> Vec<(u32, u32, u64)> {
        let left = self
            .orders
            .iter()
            .filter(|(_, order)| (order.answers == 0 && !order.refused) || order.open > 0);
        left.map(|(number, order)| (*number, order.answers, order.open)).collect()
    }

    /// Listens to the whole stream anew at one gateway; gives what it has heard so far.
    pub(super) fn listen(&mut self, now: Nanos, gateway: Peer, out: &mut Outbox) -> Vec<Vec<u8>> {
        self.hang_up(now, out);
        self.task = Task::Listen;
        (self.act_at, self.leave_at) = (Nanos::NEVER, Nanos::NEVER);
        self.gateways = vec![gateway];
        self.soup = session(&self.name, &self.password);
        std::mem::take(&mut self.heard)
    }

    fn hang_up(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(conn) = self.conn.take() {
            out.close(conn);
        }
        self.down(now);
    }

    fn down(&mut self, now: Nanos) {
        self.soup.handle_close();
        self.conn = None;
        self.written.clear();
        self.link = Link::Down(now.after(AGAIN_NS));
    }

    fn send(&mut self, now: Nanos, message: &[u8]) {
        if self.link == Link::Up {
            let sent = self.soup.send_unsequenced(now, message, &mut self.written);
            sent.expect("a session that is up");
        }
    }

    fn flush(&mut self, out: &mut Outbox) {
        if let Some(conn) = self.conn.filter(|_| !self.written.is_empty()) {
            let bytes = out.store(&self.written);
            out.stream(conn, bytes);
        }
        self.written.clear();
    }

    /// One request.
    fn act(&mut self, now: Nanos) {
        let open: Vec<u32> =
            self.orders.iter().filter(|(_, o)| o.open > 0).map(|(number, _)| *number).collect();
        if self.task == Task::Close {
            self.act_at = now.after(CLOSE_EVERY_NS);
            open.iter().for_each(|number| self.cancel(now, *number));
            return;
        }
        self.act_at = now.after(1 + self.rng.below(PACE_NS));
        if self.link != Link::Up || self.next_ref > REQUESTS_MAX {
            return;
        }
        let any = |rng: &mut SplitMix64| open[rng.below(open.len() as u64) as usize];
        match self.rng.below(20) {
            0..4 if !open.is_empty() => {
                let number = any(&mut self.rng);
                self.cancel(now, number);
            }
            4..7 if !open.is_empty() => {
                let number = any(&mut self.rng);
                self.replace(now, number);
            }
            7 if self.rng.below(3) == 0 => {
                let (number, mut message) = (self.take_ref(), Vec::new());
                let some = self.rng.below(2) == 0;
                let symbol = some.then(|| self.instrument().symbol);
                ouch::encode_mass_cancel(UserRefNum(number), symbol, None, &mut message);
                self.send(now, &message);
            }
            _ => self.order(now),
        }
    }

    fn take_ref(&mut self) -> u32 {
        self.next_ref += 1;
        self.asked += 1;
        self.next_ref - 1
    }

    fn instrument(&mut self) -> Instrument {
        self.instruments[self.rng.below(self.instruments.len() as u64) as usize]
    }

    fn ask(&mut self, now: Nanos, number: u32, message: Vec<u8>) {
        self.send(now, &message);
        let order = Order { message, answers: 0, refused: false, open: 0 };
        self.orders.insert(number, order);
    }

    fn order(&mut self, now: Nanos) {
        let (number, instrument, mut message) = (self.take_ref(), self.instrument(), Vec::new());
        let order = NewOrder {
            user_ref: UserRefNum(number),
            side: if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell },
            qty: Qty(1 + self.rng.below(6)),
            symbol: instrument.symbol,
            price: Some(Price(98 + self.rng.below(5) as i64)),
            time_in_force: self.life(),
            post_only: false,
            cl_ord_id: ClOrdId::default(),
        };
        ouch::encode_enter_order(&order, &mut message).expect("an order");
        self.ask(now, number, message);
    }

    /// Every third order ends with the day.
    fn life(&mut self) -> TimeInForce {
        if self.rng.below(3) == 0 { TimeInForce::Day } else { TimeInForce::GoodTillCancelled }
    }

    fn replace(&mut self, now: Nanos, orig: u32) {
        let (number, mut message) = (self.take_ref(), Vec::new());
        let request = ReplaceRequest {
            orig_user_ref: UserRefNum(orig),
            user_ref: UserRefNum(number),
            qty: Qty(1 + self.rng.below(6)),
            price: Price(98 + self.rng.below(5) as i64),
            time_in_force: self.life(),
            post_only: false,
            cl_ord_id: ClOrdId::default(),
        };
        ouch::encode_replace(&request, &mut message).expect("a replace");
        self.ask(now, number, message);
    }

    fn cancel(&mut self, now: Nanos, number: u32) {
        let mut message = Vec::new();
        ouch::encode_cancel(UserRefNum(number), Qty(0), &mut message).expect("a cancel");
        self.send(now, &message);
    }

    /// It is in: what has no answer goes out again, in order.
    fn begin(&mut self, now: Nanos, seq: u64) {
        self.logins += 1;
        self.link = Link::Up;
        if seq != self.heard.len() as u64 + 1 {
            self.wrong.push(format!("let in at {seq} after {} messages", self.heard.len()));
        }
        let unanswered: Vec<Vec<u8>> = self
            .orders
            .values()
            .filter(|order| order.answers == 0 && !order.refused)
            .map(|order| order.message.clone())
            .collect();
        unanswered.iter().for_each(|message| self.send(now, message));
    }

    fn message(&mut self, seq: u64, message: &[u8]) {
        if seq != self.heard.len() as u64 + 1 {
            self.wrong.push(format!("message {seq} after {}", self.heard.len()));
        }
        self.heard.push(message.to_vec());
        if self.task == Task::Listen {
            return;
        }
        let told = ouch::parse_outbound(message);
        let (number, what) = match &told {
            Ok(Outbound::OrderAccepted(m, _)) => {
                (m.user_ref.get(), Told::Open(m.quantity.get().into()))
            }
            Ok(Outbound::OrderReplaced(m, _)) => {
                if let Some(former) = self.orders.get_mut(&m.orig_user_ref.get()) {
                    former.open = 0;
                }
                (m.user_ref.get(), Told::Open(m.quantity.get().into()))
            }
            Ok(Outbound::OrderRejected(m, _)) => {
                let reason = ouch::reject_reason(m.reason.get());
                self.short += u64::from(reason == Some(RejectReason::ShardAllotment));
                if reason == Some(RejectReason::UnknownInstrument) {
                    self.wrong.push(format!("order {} was at another shard", m.user_ref.get()));
                }
                (m.user_ref.get(), Told::Rejected)
            }
            Ok(Outbound::OrderExecuted(m, _)) => {
                (m.user_ref.get(), Told::Gone(m.quantity.get().into()))
            }
            Ok(Outbound::OrderCanceled(m, _)) => {
                (m.user_ref.get(), Told::Gone(m.quantity.get().into()))
            }
            _ => return,
        };
        let Some(order) = self.orders.get_mut(&number) else {
            self.wrong.push(format!("told of order {number}, which it has not"));
            return;
        };
        match what {
            Told::Open(open) => (order.answers, order.open) = (order.answers + 1, open),
            Told::Rejected => order.answers += 1,
            Told::Gone(lots) => order.open = order.open.saturating_sub(lots),
        }
        if order.answers != 1 || order.refused {
            self.wrong.push(format!("order {number} has {} answers", order.answers));
        }
    }

    /// A gateway refuses what it could not pass on.
    fn refusal(&mut self, message: &[u8]) {
        if let Ok(Outbound::OrderRejected(m, _)) = ouch::parse_outbound(message)
            && let Some(order) = self.orders.get_mut(&m.user_ref.get())
        {
            order.refused = true;
            self.refused += 1;
        }
    }
}

enum Told {
    Open(u64),
    Rejected,
    Gone(u64),
}

fn session(name: &str, password: &str) -> ClientSession {
    ClientSession::new(name, password).expect("names fit SoupBinTCP")
}

impl Node for Trader {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        let now = now.now;
        match self.link {
            Link::Down(at) if at <= now && !self.gateways.is_empty() => {
                let gateway = self.rng.below(self.gateways.len() as u64) as usize;
                let conn = ConnId(self.next_conn);
                self.next_conn += 1;
                (self.conn, self.link) = (Some(conn), Link::Connecting);
                out.connect(conn, self.gateways[gateway]);
            }
            Link::LoggingIn(until) if until <= now => self.hang_up(now, out),
            _ => {}
        }
        if self.leave_at <= now {
            self.leave_at = now.after((50 + self.rng.below(900)) * Nanos::MILLI);
            if self.link == Link::Up {
                self.hang_up(now, out);
            }
        }
        if self.act_at <= now {
            self.act(now);
        }
        if self.soup.handle_timeout(now, &mut self.written).is_some() {
            self.hang_up(now, out);
        }
        self.flush(out);
    }

    fn next_timeout(&self) -> Nanos {
        let link = match self.link {
            Link::Down(at) => at,
            Link::Connecting => Nanos::NEVER,
            Link::LoggingIn(until) => until.min(self.soup.next_timeout()),
            Link::Up => self.soup.next_timeout(),
        };
        link.min(self.act_at).min(self.leave_at)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.conn == Some(conn) && self.link == Link::Connecting {
            self.link = Link::LoggingIn(now.now.after(LOGIN_NS));
            self.soup.connect(now.now, &mut self.written).expect("a login");
            self.flush(out);
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if self.conn != Some(conn) {
            return;
        }
        let mut events = Vec::new();
        self.soup.handle_bytes(now.now, bytes, |event| {
            events.push(match event {
                ClientEvent::Accepted { seq, .. } => (0, seq, Vec::new()),
                ClientEvent::Sequenced { seq, message } => (1, seq, message.to_vec()),
                ClientEvent::Unsequenced(message) => (2, 0, message.to_vec()),
                ClientEvent::Violation(_) => (4, 0, Vec::new()),
                _ => (3, 0, Vec::new()),
            });
        });
        for (what, seq, message) in events {
            match what {
                0 => self.begin(now.now, seq),
                1 => self.message(seq, &message),
                2 => self.refusal(&message),
                _ => {
                    if what == 4 {
                        self.wrong.push("a gateway broke SoupBinTCP".to_string());
                    }
                    self.hang_up(now.now, out);
                    return;
                }
            }
        }
        self.flush(out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        if self.conn == Some(conn) {
            self.down(now.now);
        }
    }
}
