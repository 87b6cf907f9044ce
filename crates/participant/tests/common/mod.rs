//! A whole exchange small enough to read, and a world with delays that runs a node against it.
//!
//! The book is a list searched from the front: slow, and independent of the real engine. Answers
//! can be swallowed or doubled and all connections cut, to see that the participants notice.

use std::collections::{BTreeMap, BTreeSet};

use types::{
    CancelReason, ClOrdId, ClockReading, Command, CommandKind, ConnId, ExecutionKind,
    ExecutionReport, FeedSeq, Instrument, InstrumentId, Liquidity, MatchNumber, Nanos, Node, Op,
    OrderRef, OrderType, Outbox, Price, Qty, RejectReason, Side, SplitMix64, Symbol, TimeInForce,
    UserRefNum, limits,
};
use wire::{
    ouch::{self, Encoder},
    soupbin::{RejectCode, ServerEvent, ServerSession},
};

pub const MS: u64 = Nanos::MILLI;
const DELAY_NS: u64 = 100_000;
/// Kinds of reports that answer no request.
pub const NOTICES: [ExecutionKind; 5] = [
    ExecutionKind::Restated,
    ExecutionKind::Triggered,
    ExecutionKind::TradeBroken,
    ExecutionKind::TradeCorrected,
    ExecutionKind::MassCanceled,
];
const SESSION: [u8; 10] = *b"TODAY     ";

pub fn instruments() -> Vec<Instrument> {
    (1..=2)
        .map(|id| Instrument {
            id: InstrumentId(id),
            symbol: Symbol::new(&format!("TEST{id}")).expect("valid"),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 8,
        })
        .collect()
}

#[derive(Clone, Copy)]
pub struct Resting {
    account: String6,
    pub command: Command,
    open: u64,
}

type String6 = [u8; 6];
type Key = (String6, u32);

/// Sessions, streams and the book.
pub struct Exchange {
    encoder: Encoder,
    sessions: BTreeMap<ConnId, (ServerSession, Option<String6>)>,
    streams: BTreeMap<String6, Vec<Vec<u8>>>,
    known: BTreeSet<Key>,
    pub resting: Vec<Resting>,
    matches: u64,
    /// Answers to these requests are not sent.
    pub swallow: BTreeSet<u32>,
    /// Answers to these requests are sent twice.
    pub double: BTreeSet<u32>,
    /// Every accepted order is followed by all kinds of messages that answer nothing.
    pub notices: bool,
    /// Ends of good-till-date orders are told so late, ns.
    pub ends_late_ns: u64,
    /// Requests received, repeated ones included.
    pub requests: u64,
    /// Answers to logins, to go out before anything else.
    extra: Vec<(ConnId, Vec<u8>)>,
}

impl Exchange {
    fn new() -> Exchange {
        Exchange {
            encoder: Encoder::new(&instruments(), Nanos(0)),
            sessions: BTreeMap::new(),
            streams: BTreeMap::new(),
            known: BTreeSet::new(),
            resting: Vec::new(),
            matches: 0,
            swallow: BTreeSet::new(),
            double: BTreeSet::new(),
            notices: false,
            ends_late_ns: 0,
            requests: 0,
            extra: Vec::new(),
        }
    }

    fn handle(&mut self, now: Nanos, conn: ConnId, bytes: &[u8]) {
        let Some((mut session, mut account)) = self.sessions.remove(&conn) else { return };
        let (mut requests, mut login) = (Vec::new(), None);
        session.handle_bytes(now, bytes, |event| match event {
            ServerEvent::Login { username, password, sequence, .. } => {
                let mut name = [b' '; 6];
                name[..username.len()].copy_from_slice(username);
                login = Some((name, password == b"secret", sequence));
            }
            ServerEvent::Unsequenced(message) => requests.push(message.to_vec()),
            other => panic!("client misbehaves: {other:?}"),
        });
        let mut out = Vec::new();
        if let Some((name, good, sequence)) = login {
            if good {
                let next = sequence.max(1);
                session.accept_login(now, SESSION, next, &mut out).expect("awaiting");
                account = Some(name);
            } else {
                session.reject_login(RejectCode::NotAuthorized, &mut out).expect("awaiting");
            }
        }
        self.sessions.insert(conn, (session, account));
        self.extra.push((conn, out));
        self.expire(now);
        for request in requests {
            self.request(account.expect("logged in"), &request);
        }
    }

    /// Ends good-till-date orders that are over.
    fn expire(&mut self, now: Nanos) {
        let late = self.ends_late_ns;
        let over = |order: &Resting| {
            order.command.time_in_force == TimeInForce::GoodTillDate
                && order.command.expire_at.after(late) <= now
        };
        while let Some(index) = self.resting.iter().position(over) {
            let order = self.resting.remove(index);
            let mut report = report(ExecutionKind::Canceled, &order.command);
            report.qty = Qty(order.open);
            report.cancel_reason = CancelReason::Expired;
            self.tell(order.account, report);
        }
    }

    fn request(&mut self, account: String6, bytes: &[u8]) {
        self.requests += 1;
        let inbound = ouch::parse_inbound(bytes).expect("a request");
        let command = ouch::to_command(&inbound, self.encoder.symbols(), Nanos(0)).expect("served");
        let user_ref = command.user_ref.0;
        if command.kind != CommandKind::Cancel && !self.known.insert((account, user_ref)) {
            return;
        }
        match command.kind {
            CommandKind::NewOrder => self.enter(account, command, ExecutionKind::Accepted),
            CommandKind::Cancel => self.cancel(account, command),
            CommandKind::Replace => self.replace(account, command),
            other => panic!("not a client's command: {other:?}"),
        }
    }

    fn find(&self, account: String6, user_ref: UserRefNum) -> Option<usize> {
        let is = |order: &Resting| order.account == account && order.command.user_ref == user_ref;
        self.resting.iter().position(is)
    }

    fn cancel(&mut self, account: String6, command: Command) {
        match self.find(account, command.user_ref) {
            Some(index) => {
                let order = self.resting.remove(index);
                let mut report = report(ExecutionKind::Canceled, &order.command);
                report.qty = Qty(order.open);
                report.cancel_reason = CancelReason::Requested;
                self.tell(account, report);
            }
            None => self.tell(account, report(ExecutionKind::CancelRejected, &command)),
        }
    }

    fn replace(&mut self, account: String6, mut command: Command) {
        let Some(index) = self.find(account, command.orig_user_ref) else {
            return self.reject(account, command, RejectReason::UnknownOrder);
        };
        let old = self.resting.remove(index);
        command.side = old.command.side;
        command.instrument = old.command.instrument;
        self.enter(account, command, ExecutionKind::Replaced);
    }

    fn reject(&mut self, account: String6, command: Command, reason: RejectReason) {
        let mut report = report(ExecutionKind::Rejected, &command);
        report.reject = reason;
        self.tell(account, report);
    }

    fn best(&self, command: &Command) -> Option<usize> {
        let market = command.order_type == OrderType::Market;
        let crosses = |order: &Resting| {
            order.command.instrument == command.instrument
                && order.command.side != command.side
                && (market
                    || match command.side {
                        Side::Buy => order.command.price <= command.price,
                        Side::Sell => order.command.price >= command.price,
                    })
        };
        let rank = |index: &usize| {
            let price = self.resting[*index].command.price.0;
            if command.side == Side::Buy { price } else { -price }
        };
        (0..self.resting.len()).filter(|&index| crosses(&self.resting[index])).min_by_key(rank)
    }

    fn enter(&mut self, account: String6, command: Command, kind: ExecutionKind) {
        if command.price.0 > limits::PRICE_MAX {
            return self.reject(account, command, RejectReason::PriceTooHigh);
        }
        if command.post_only() && self.best(&command).is_some() {
            return self.reject(account, command, RejectReason::PostOnlyWouldTrade);
        }
        self.tell(account, report(kind, &command));
        if self.notices {
            for kind in NOTICES {
                self.tell(account, report(kind, &command));
            }
        }
        let mut open = command.qty.0;
        while open > 0
            && let Some(index) = self.best(&command)
        {
            let maker = &mut self.resting[index];
            let qty = open.min(maker.open);
            open -= qty;
            maker.open -= qty;
            let maker = *maker;
            if maker.open == 0 {
                self.resting.remove(index);
            }
            self.matches += 1;
            for (side, liquidity) in [
                (&maker, Liquidity::Added),
                (&Resting { account, command, open }, Liquidity::Removed),
            ] {
                let mut report = report(ExecutionKind::Executed, &side.command);
                report.qty = Qty(qty);
                report.price = maker.command.price;
                report.liquidity = liquidity;
                report.match_number = MatchNumber(self.matches);
                self.tell(side.account, report);
            }
        }
        if open == 0 {
            return;
        }
        if command.time_in_force == TimeInForce::ImmediateOrCancel {
            let mut report = report(ExecutionKind::Canceled, &command);
            report.qty = Qty(open);
            report.cancel_reason = CancelReason::ImmediateOrCancel;
            self.tell(account, report);
        } else {
            self.resting.push(Resting { account, command, open });
        }
    }

    fn tell(&mut self, account: String6, report: ExecutionReport) {
        let mut message = Vec::new();
        self.encoder.encode_report(&report, &mut message).expect("encodable");
        let answers = report.kind == ExecutionKind::Accepted;
        let copies = match report.user_ref.0 {
            user_ref if answers && self.swallow.remove(&user_ref) => 0,
            user_ref if answers && self.double.remove(&user_ref) => 2,
            _ => 1,
        };
        let stream = self.streams.entry(account).or_default();
        (0..copies).for_each(|_| stream.push(message.clone()));
    }

    /// What is to be sent on each connection now.
    fn outgoing(&mut self, now: Nanos) -> Vec<(ConnId, Vec<u8>)> {
        let mut outgoing = std::mem::take(&mut self.extra);
        for (&conn, (session, account)) in &mut self.sessions {
            let mut out = Vec::new();
            session.handle_timeout(now, &mut out);
            let stream = account.and_then(|account| self.streams.get(&account));
            while session.is_active()
                && let Some(message) =
                    stream.and_then(|stream| stream.get(session.next_seq() as usize - 1))
            {
                session.send_sequenced(now, message, &mut out).expect("active");
            }
            outgoing.push((conn, out));
        }
        outgoing.retain(|(_, bytes)| !bytes.is_empty());
        outgoing
    }
}

fn report(kind: ExecutionKind, command: &Command) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: command.side,
        order_type: command.order_type,
        time_in_force: command.time_in_force,
        flags: command.flags,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: command.account,
        instrument: command.instrument,
        user_ref: command.user_ref,
        orig_user_ref: command.orig_user_ref,
        session_seq: 0,
        qty: command.qty,
        leaves: command.qty,
        price: command.price,
        order_ref: OrderRef(u64::from(command.user_ref.0)),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq: Nanos(1),
        cl_ord_id: ClOrdId::default(),
        reserved2: [0; 2],
        terms: command.terms(),
    }
}

enum Event {
    Connect(ConnId),
    Connected(ConnId),
    ToExchange(ConnId, Vec<u8>),
    ToDriver(ConnId, Vec<u8>),
    Closed(ConnId),
}

/// A driver, or another node that plays orders, and the exchange, with a delay between them.
pub struct World<N> {
    pub driver: N,
    pub exchange: Exchange,
    pub now: u64,
    /// Requests take this much longer at most, ns, each its own time; those of one connection stay in order.
    pub jitter_ns: u64,
    /// What the jitter is drawn from.
    pub rng: SplitMix64,
    events: BTreeMap<(u64, u64), Event>,
    /// When the last request of a connection arrives.
    last_at: BTreeMap<ConnId, u64>,
    count: u64,
    out: Outbox,
}

impl<N: Node> World<N> {
    pub fn new(driver: N) -> World<N> {
        let (events, out) = (BTreeMap::new(), Outbox::default());
        World {
            driver,
            exchange: Exchange::new(),
            now: 1_000 * MS,
            jitter_ns: 0,
            rng: SplitMix64::new(0),
            events,
            last_at: BTreeMap::new(),
            count: 0,
            out,
        }
    }

    fn later(&mut self, event: Event) {
        self.count += 1;
        let mut at = self.now + DELAY_NS;
        if let Event::ToExchange(conn, _) = event {
            let last = self.last_at.entry(conn).or_default();
            at = (at + self.rng.below(self.jitter_ns + 1)).max(*last);
            *last = at;
        }
        self.events.insert((at, self.count), event);
    }

    /// Cuts all connections; whatever is under way is lost.
    pub fn cut(&mut self) {
        self.events.clear();
        self.exchange.extra.clear();
        let sessions = std::mem::take(&mut self.exchange.sessions);
        sessions.into_keys().for_each(|conn| self.later(Event::Closed(conn)));
    }

    /// Runs until `stop` says so or the time is over; true in the first case.
    pub fn run(&mut self, for_ns: u64, stop: impl Fn(&N) -> bool) -> bool {
        let end = self.now + for_ns;
        let mut steps = 0u64;
        while !stop(&self.driver) {
            steps += 1;
            assert!(steps < 5_000_000, "the driver spins at {}", self.now);
            let timer = self.driver.next_timeout().0.max(self.now);
            let event = self.events.first_key_value().map_or(u64::MAX, |(&(at, _), _)| at);
            if timer.min(event) > end {
                self.now = end;
                return false;
            }
            self.now = timer.min(event);
            let now = ClockReading { now: Nanos(self.now), bound_ns: 0 };
            if event <= timer {
                let (_, event) = self.events.pop_first().expect("peeked");
                self.handle(now, event);
            } else {
                self.driver.handle_timeout(now, &mut self.out);
            }
            self.carry_out();
            for (conn, bytes) in self.exchange.outgoing(now.now) {
                self.later(Event::ToDriver(conn, bytes));
            }
        }
        true
    }

    fn handle(&mut self, now: ClockReading, event: Event) {
        match event {
            Event::Connect(conn) => {
                self.exchange.sessions.insert(conn, (ServerSession::new(now.now), None));
                self.later(Event::Connected(conn));
            }
            Event::Connected(conn) => self.driver.handle_connect(now, conn, &mut self.out),
            Event::ToExchange(conn, bytes) => self.exchange.handle(now.now, conn, &bytes),
            Event::ToDriver(conn, bytes) => {
                // Cut anyhow, as streams are.
                let (first, second) = bytes.split_at(bytes.len() / 3);
                self.driver.handle_stream(now, conn, first, &mut self.out);
                self.driver.handle_stream(now, conn, second, &mut self.out);
            }
            Event::Closed(conn) => self.driver.handle_close(now, conn, &mut self.out),
        }
    }

    fn carry_out(&mut self) {
        let out = std::mem::take(&mut self.out);
        for op in out.ops() {
            match *op {
                Op::Connect { conn, .. } => self.later(Event::Connect(conn)),
                Op::Stream { conn, bytes } => {
                    self.later(Event::ToExchange(conn, out.bytes(bytes).to_vec()));
                }
                Op::Close { conn } => drop(self.exchange.sessions.remove(&conn)),
                Op::Datagram { .. } | Op::Work { .. } => panic!("a driver sends no datagrams"),
            }
        }
        self.out = out;
        self.out.clear();
    }
}
