//! A gateway with clients on one side and a root on the other that is as clever as tests need.
//!
//! The root loses nothing: it grants, attaches, logs each order once and sends records. What
//! it should not do a test switches off.

use std::collections::BTreeMap;

use gateway::{
    AccessConfig, CANCEL_GRACE_NS, Gateway, GatewayConfig, Login, LoginTerms, OUTSTANDING,
    ShardPath, Throttle,
};
use overlay::{
    frame::{
        self, AttachBody, AttachReplyBody, FrameKind, GrantBody, HelloBody, HopHeader, OrderBody,
        PrivateAckBody, PrivateBody,
    },
    order_ack::{Progress, order_ack},
};
use types::{
    AccountId, CancelReason, ClOrdId, ClockReading, Command, ConnId, ExecutionKind,
    ExecutionReport, FeedSeq, GatewayId, Incarnation, Instrument, InstrumentId, Liquidity,
    MatchNumber, Nanos, NodeId, Op, OrderRef, OrderTerms, OrderType, Outbox, Price, Qty,
    RejectReason, Remote, Seen, SeqWindow, Side, Symbol, TimeInForce, UserRefNum, limits,
};
use wire::{
    ouch::{self, CancelOrder, NewOrder},
    soupbin::{ClientEvent, ClientPacket, ClientSession, Framer},
};
use zerocopy::{Immutable, IntoBytes, TryFromBytes};

pub const MS: u64 = Nanos::MILLI;
pub const SECOND: u64 = Nanos::SECOND;
pub const SESSION: [u8; 10] = *b"FAIRBELL01";
/// Longest hold of [`config`].
pub const HOLD_NS: u64 = 50 * MS;
pub const CONNECTIONS: usize = 4;
const START: Nanos = Nanos(1_767_261_600 * SECOND);
const GATEWAY: GatewayId = GatewayId(2);
const ROOT: NodeId = NodeId(0);
const NODE: NodeId = NodeId(4);
const LIFE: Incarnation = Incarnation(3);
const EPOCH: u32 = 7;
/// Records that fit a datagram.
const RECORDS: u64 = 11;

/// Accounts 1 to 3 are `USER1` to `USER3`, with passwords `secret1` to `secret3`.
pub fn config() -> GatewayConfig {
    let login = |n: u16| Login {
        account: AccountId(n),
        username: format!("USER{n}").into_bytes(),
        password: format!("secret{n}").into_bytes(),
        terms: LoginTerms::default(),
        cancel_on_disconnect: false,
        throttle: Throttle::UNLIMITED,
        fix: None,
    };
    GatewayConfig {
        gateway: GATEWAY,
        shards: vec![ShardPath {
            node: NODE,
            root: ROOT,
            epoch: EPOCH,
            candidates: vec![NodeId(1), NodeId(2)],
        }],
        shard_of: Vec::new(),
        ways: 1,
        stream_of: Vec::new(),
        streams: 1,
        boot_nonce: 99,
        session: SESSION,
        instruments: vec![Instrument {
            id: InstrumentId(1),
            symbol: symbol(),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 8,
        }],
        fix_comp_id: "FAIRBELL".to_string(),
        midnight: Nanos(START.0 / (86_400 * SECOND) * (86_400 * SECOND)),
        logins: (1..=3).map(login).collect(),
        hold_max_ns: HOLD_NS,
        cancel_grace_ns: CANCEL_GRACE_NS,
        durable: true,
        outstanding: OUTSTANDING as usize,
        connections_max: CONNECTIONS,
        access: AccessConfig::default(),
    }
}

pub fn symbol() -> Symbol {
    Symbol::new("BTCUSD").expect("valid")
}

/// A new order in OUCH.
pub fn enter(user_ref: u32, symbol: Symbol) -> Vec<u8> {
    let order = NewOrder {
        user_ref: UserRefNum(user_ref),
        side: Side::Buy,
        qty: Qty(5),
        symbol,
        price: Some(Price::from_whole(100)),
        time_in_force: TimeInForce::Day,
        post_only: false,
        cl_ord_id: ClOrdId(*b"my own order 1"),
    };
    let mut message = Vec::new();
    ouch::encode_enter_order(&order, &mut message).expect("encodes");
    message
}

/// A cancel in OUCH.
pub fn cancel(user_ref: u32) -> Vec<u8> {
    let message =
        CancelOrder { kind: CancelOrder::KIND, user_ref: user_ref.into(), quantity: 0.into() };
    message.as_bytes().to_vec()
}

/// OUCH messages as the bytes a client writes.
pub fn packets(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        ClientPacket::Unsequenced(message).encode(&mut bytes).expect("fits");
    }
    bytes
}

/// A record of an account's stream. `public_after` 0 makes it an acceptance, else an execution.
pub fn report(account: u16, user_ref: u32, public_after: u64) -> ExecutionReport {
    let kind = if public_after == 0 { ExecutionKind::Accepted } else { ExecutionKind::Executed };
    ExecutionReport {
        kind,
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: 0,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: if public_after == 0 { Liquidity::None } else { Liquidity::Added },
        account: AccountId(account),
        instrument: InstrumentId(1),
        user_ref: UserRefNum(user_ref),
        orig_user_ref: UserRefNum(0),
        session_seq: 0,
        qty: Qty(5),
        leaves: Qty(5),
        price: Price::from_whole(100),
        order_ref: OrderRef(1),
        match_number: MatchNumber(public_after),
        public_after: FeedSeq(public_after),
        t_seq: START,
        cl_ord_id: ClOrdId::default(),
        reserved2: [0; 2],
        terms: OrderTerms::default(),
    }
}

/// The user reference numbers in the stream's messages.
pub fn user_ref(message: &[u8]) -> u32 {
    match ouch::parse_outbound(message).expect("an answer") {
        ouch::Outbound::OrderAccepted(m, _) => m.user_ref.get(),
        ouch::Outbound::OrderExecuted(m, _) => m.user_ref.get(),
        other => panic!("{other:?}"),
    }
}

pub struct Attached {
    pub token: u32,
    sent: u64,
}

pub struct Root {
    pub grants: bool,
    pub acks: bool,
    /// Status that attach requests are answered with; 0: not at all.
    pub attach: u16,
    /// First copies of orders as they came.
    pub orders: Vec<(OrderBody, Command)>,
    pub attaches: Vec<AttachBody>,
    pub records: BTreeMap<AccountId, Vec<ExecutionReport>>,
    pub attached: BTreeMap<AccountId, Attached>,
    pub private_acks: Vec<PrivateAckBody>,
    received: SeqWindow,
    replies: Vec<Vec<u8>>,
}

impl Root {
    pub fn say<B: IntoBytes + Immutable>(&mut self, kind: FrameKind, body: &B, payload: &[u8]) {
        let mut bytes = Vec::new();
        frame::encode(&mut bytes, HopHeader::new(kind, ROOT, EPOCH), body, payload);
        self.replies.push(bytes);
    }

    pub fn say_status(&mut self, account: AccountId, token: u32, status: u16, from: u64) {
        let next = self.records.get(&account).map_or(0, Vec::len) as u64 + 1;
        let from = if from == 0 { next } else { from.min(next) };
        let reply = AttachReplyBody { account, status, token, from, next };
        self.say(FrameKind::AttachReply, &reply, &[]);
        if status == 1 {
            self.attached.insert(account, Attached { token, sent: from });
        } else {
            self.attached.remove(&account);
        }
    }

    pub fn tell(&mut self, report: ExecutionReport) {
        self.records.entry(report.account).or_default().push(report);
    }

    pub fn acknowledge(&mut self) {
        let (to, incarnation) = (NODE, LIFE);
        let progress = Progress { to, incarnation, logged: &self.received, arrivals: None };
        let ack = order_ack(&progress, 0);
        self.say(FrameKind::OrderAck, &ack, &[]);
    }

    fn hear(&mut self, bytes: &[u8]) {
        let (header, rest) = HopHeader::read(bytes).expect("a frame");
        assert_eq!((header.sender, header.epoch), (NODE, EPOCH));
        match header.kind {
            FrameKind::Hello if self.grants => {
                let (hello, _) = frame::body::<HelloBody>(rest).expect("a hello");
                let HelloBody { gateway, boot_nonce, .. } = hello;
                let grant = GrantBody { gateway, reserved: 0, boot_nonce, incarnation: LIFE };
                self.say(FrameKind::Grant, &grant, &[]);
            }
            FrameKind::Hello => {}
            FrameKind::Attach => {
                let (body, _) = frame::body::<AttachBody>(rest).expect("a request");
                self.attaches.push(body);
                match (body.attach, self.attach) {
                    (_, 0) => {}
                    (0, _) => self.say_status(body.account, body.token, 3, 0),
                    (_, status) => self.say_status(body.account, body.token, status, body.from),
                }
            }
            FrameKind::Order => {
                let (body, payload) = frame::body::<OrderBody>(rest).expect("an order");
                let command = Command::try_read_from_bytes(payload).expect("a command");
                if self.received.record(body.source.seq) == Seen::New {
                    self.orders.push((body, command));
                }
                if self.acks {
                    self.acknowledge();
                }
            }
            FrameKind::PrivateAck => {
                let (ack, _) = frame::body::<PrivateAckBody>(rest).expect("an answer");
                let attached = self.attached.get_mut(&ack.account);
                if let Some(held) = attached.filter(|held| held.token == ack.token && ack.gap == 1)
                {
                    held.sent = ack.next;
                }
                self.private_acks.push(ack);
            }
            other => panic!("{other:?} is not for a root"),
        }
    }

    fn send_records(&mut self) {
        let mut frames = Vec::new();
        for (account, held) in &mut self.attached {
            let records = self.records.get(account).map_or(&[][..], Vec::as_slice);
            while held.sent <= records.len() as u64 {
                let rest = &records[held.sent as usize - 1..];
                let part = &rest[..rest.len().min(RECORDS as usize)];
                let (count, token) = (part.len() as u16, held.token);
                let body = PrivateBody { account: *account, count, token, first: held.sent };
                frames.push((body, part.as_bytes().to_vec()));
                held.sent += part.len() as u64;
            }
        }
        for (body, records) in frames {
            self.say(FrameKind::Private, &body, &records);
        }
    }
}

/// One participant's connection as it sees it.
pub struct Client {
    pub soup: ClientSession,
    framer: Framer,
    /// Everything that came but heartbeats: type byte and body.
    pub heard: Vec<Vec<u8>>,
    pub heartbeats: u64,
    pub sequenced: Vec<(u64, Vec<u8>)>,
    pub closed: bool,
    /// Sends heartbeats.
    pub alive: bool,
}

impl Client {
    fn hear(&mut self, now: Nanos, mut bytes: &[u8]) {
        assert!(!self.closed, "bytes after the close");
        let sequenced = &mut self.sequenced;
        self.soup.handle_bytes(now, bytes, |event| match event {
            ClientEvent::Sequenced { seq, message } => sequenced.push((seq, message.to_vec())),
            ClientEvent::Violation(violation) => panic!("the gateway misbehaves: {violation}"),
            _ => {}
        });
        while let Some(packet) = self.framer.next(&mut bytes).expect("packets") {
            match packet {
                b"H" => self.heartbeats += 1,
                packet => self.heard.push(packet.to_vec()),
            }
        }
    }

    /// Type bytes of what came, heartbeats left out.
    pub fn kinds(&self) -> String {
        self.heard.iter().map(|packet| char::from(packet[0])).collect()
    }

    /// Numbers of the requests that the stream's messages are about.
    pub fn user_refs(&self) -> Vec<u32> {
        self.sequenced.iter().map(|(_, message)| user_ref(message)).collect()
    }
}

pub struct Bench {
    pub gateway: Gateway,
    pub root: Root,
    pub clients: BTreeMap<ConnId, Client>,
    pub now: ClockReading,
    /// What the worker was given and has not answered.
    pub jobs: Vec<(u64, Vec<u8>)>,
    out: Outbox,
}

impl Bench {
    /// A gateway that has its incarnation.
    pub fn new() -> Bench {
        Bench::with(config())
    }

    /// The same, of another configuration.
    pub fn with(config: GatewayConfig) -> Bench {
        let mut bench = Bench::waiting(config);
        bench.root.grants = true;
        bench.run(SECOND);
        assert!(bench.gateway.wants_stream());
        bench
    }

    /// A gateway that the root does not answer yet.
    pub fn waiting(config: GatewayConfig) -> Bench {
        let root = Root {
            grants: false,
            acks: true,
            attach: 1,
            orders: Vec::new(),
            attaches: Vec::new(),
            records: BTreeMap::new(),
            attached: BTreeMap::new(),
            private_acks: Vec::new(),
            received: SeqWindow::default(),
            replies: Vec::new(),
        };
        let now = ClockReading { now: START, bound_ns: 0 };
        let gateway = Gateway::new(config);
        let (clients, jobs) = (BTreeMap::new(), Vec::new());
        Bench { gateway, root, clients, now, jobs, out: Outbox::default() }
    }

    /// Opens a connection and says nothing.
    pub fn connect(&mut self, conn: u32, user: &str, password: &str) {
        let soup = ClientSession::new(user, password).expect("short");
        self.connect_again(conn, soup);
    }

    /// Opens a connection for a session that was somewhere before.
    pub fn connect_again(&mut self, conn: u32, soup: ClientSession) {
        self.connect_from(conn, soup, &Remote::default());
    }

    /// Opens a connection from somewhere.
    pub fn connect_from(&mut self, conn: u32, soup: ClientSession, remote: &Remote) {
        let client = Client {
            soup,
            framer: Framer::new(1_024),
            heard: Vec::new(),
            heartbeats: 0,
            sequenced: Vec::new(),
            closed: false,
            alive: false,
        };
        self.clients.insert(ConnId(conn), client);
        self.gateway.handle_accept(self.now, ConnId(conn), remote, &mut self.out);
        self.settle();
    }

    /// Sends the login of an open connection; returns the types of what came back.
    pub fn ask_in(&mut self, conn: u32) -> String {
        let mut bytes = Vec::new();
        let now = self.now.now;
        self.client_mut(conn).soup.connect(now, &mut bytes).expect("a login");
        self.write(conn, &bytes);
        self.client(conn).kinds()
    }

    /// The worker answers its oldest job; true for a right password.
    pub fn work(&mut self, right: bool) {
        let (ticket, _) = self.jobs.remove(0);
        self.gateway.handle_work(self.now, ticket, &[right.into()], &mut self.out);
        self.settle();
    }

    /// Connects and logs account `account` in.
    pub fn login(&mut self, conn: u32, account: u16) {
        self.connect(conn, &format!("USER{account}"), &format!("secret{account}"));
        assert!(self.ask_in(conn).starts_with('A'), "account {account} gets in");
    }

    pub fn write(&mut self, conn: u32, bytes: &[u8]) {
        self.gateway.handle_stream(self.now, ConnId(conn), bytes, &mut self.out);
        self.settle();
    }

    pub fn order(&mut self, conn: u32, user_ref: u32) {
        self.write(conn, &packets(&[enter(user_ref, symbol())]));
    }

    /// The connection breaks.
    pub fn close(&mut self, conn: u32) {
        self.gateway.handle_close(self.now, ConnId(conn), &mut self.out);
        self.client_mut(conn).closed = true;
        self.settle();
    }

    /// A client leaves too much unread.
    pub fn unread(&mut self, conn: u32) {
        self.gateway.handle_unread(self.now, ConnId(conn), &mut self.out);
        self.settle();
    }

    /// The operator wants an account's session ended.
    pub fn disconnect(&mut self, account: u16) -> bool {
        let done = self.gateway.disconnect(self.now, AccountId(account), &mut self.out);
        self.settle();
        done
    }

    /// The receiver's owner says what came of a subscription.
    pub fn answer_subscription(&mut self, conn: u32, streams: Option<Vec<([u8; 10], u64)>>) {
        self.gateway.answer_subscription(self.now, ConnId(conn), streams, &mut self.out);
        self.settle();
    }

    pub fn suspend(&mut self, suspended: bool) {
        self.gateway.suspend(self.now, suspended, &mut self.out);
        self.settle();
    }

    pub fn cancel(&mut self, conn: u32, user_ref: u32) {
        self.write(conn, &packets(&[cancel(user_ref)]));
    }

    pub fn watermark(&mut self, watermark: u64) {
        self.gateway.set_watermark(self.now, 0, FeedSeq(watermark), &mut self.out);
        self.settle();
    }

    /// Others were free to hand the feed on so far.
    pub fn public(&mut self, watermark: u64) {
        self.gateway.set_public(0, FeedSeq(watermark));
    }

    /// A frame comes in.
    pub fn frame(&mut self, bytes: &[u8]) {
        if let Ok((header, rest)) = HopHeader::read(bytes) {
            self.gateway.handle_frame(self.now, (types::ShardId(0), &header), rest, &mut self.out);
        }
    }

    pub fn client(&self, conn: u32) -> &Client {
        &self.clients[&ConnId(conn)]
    }

    pub fn client_mut(&mut self, conn: u32) -> &mut Client {
        self.clients.get_mut(&ConnId(conn)).expect("connected")
    }

    /// Delivers everything, and the answers to it, until all is quiet.
    pub fn settle(&mut self) {
        loop {
            let mut out = std::mem::take(&mut self.out);
            for op in out.ops() {
                match *op {
                    Op::Datagram { bytes, .. } => self.root.hear(out.bytes(bytes)),
                    Op::Stream { conn, bytes } => {
                        let client = self.clients.get_mut(&conn).expect("a connection");
                        client.hear(self.now.now, out.bytes(bytes));
                    }
                    Op::Close { conn } => {
                        let client = self.clients.get_mut(&conn).expect("a connection");
                        assert!(!std::mem::replace(&mut client.closed, true), "closed twice");
                    }
                    Op::Connect { .. } => panic!("a gateway calls nobody"),
                    Op::Work { ticket, bytes } => {
                        self.jobs.push((ticket, out.bytes(bytes).to_vec()));
                    }
                }
            }
            out.clear();
            self.out = out;
            self.root.send_records();
            let replies = std::mem::take(&mut self.root.replies);
            if replies.is_empty() {
                return;
            }
            for reply in replies {
                self.frame(&reply);
            }
        }
    }

    /// Lets time pass, with all timers of the gateway and of clients that are alive.
    pub fn run(&mut self, ns: u64) {
        let end = self.now.now.after(ns);
        for _ in 0..100_000 {
            let clients = self.clients.values().filter(|client| client.alive && !client.closed);
            let timers = clients.map(|client| client.soup.next_timeout());
            let due = timers.min().unwrap_or(Nanos::NEVER).min(self.gateway.next_timeout());
            if due > end {
                self.now.now = end;
                return;
            }
            self.now.now = self.now.now.max(due);
            let mut written = Vec::new();
            for (conn, client) in &mut self.clients {
                let mut bytes = Vec::new();
                if client.alive && !client.closed {
                    let event = client.soup.handle_timeout(self.now.now, &mut bytes);
                    assert_eq!(event, None, "connection {conn:?}");
                    written.push((conn.0, bytes));
                }
            }
            written.retain(|(_, bytes)| !bytes.is_empty());
            written.iter().for_each(|(conn, bytes)| self.write(*conn, bytes));
            if self.gateway.next_timeout() <= self.now.now {
                self.gateway.handle_timeout(self.now, &mut self.out);
            }
            self.settle();
        }
        panic!("a timer spins at {:?}", self.now.now);
    }
}
