//! The root and one edge joined by a hop that loses nothing and takes no time.

use exchange::{
    AccessConfig, Account, Edge, ExchangeConfig, LoginTerms, OverlayOptions, Role, Root, Throttle,
    Timetable, deploy,
};
use types::{
    AccountId, Channel, ClOrdId, ClockReading, ConnId, Instrument, InstrumentId, Nanos, Node,
    NodeId, Op, Outbox, Peer, Price, Qty, Side, Symbol, TimeInForce, UserRefNum, limits,
};
use wire::ouch::{self, NewOrder, Terms};

pub const MS: u64 = Nanos::MILLI;
/// Ten in the morning, UTC.
pub const START: Nanos = Nanos(1_767_261_600 * Nanos::SECOND);
/// The edge's place in the overlay.
pub const EDGE: NodeId = NodeId(1);
/// Where the edge releases the feed to.
pub const LISTENERS: Peer = Peer::Addr(1);

/// Direct unicast to one receiver; accounts 1 to 3 are `USER1` to `USER3`, with passwords
/// `secret1` to `secret3`.
pub fn config() -> ExchangeConfig {
    let account = |n: u16| Account {
        firm: String::new(),
        id: AccountId(n),
        username: format!("USER{n}"),
        password: format!("secret{n}"),
        terms: LoginTerms::default(),
        cancel_on_disconnect: false,
        throttle: Throttle::UNLIMITED,
        fix: None,
    };
    ExchangeConfig {
        depth: 1,
        fanout: 1,
        receivers: 1,
        hedge: 0,
        dynamic_parents: true,
        round_ns: 50 * MS,
        delay_window: 200,
        delay_permille: 950,
        delay_cap_ns: 5 * MS,
        sequencer_window_ns: 100 * Nanos::MICRO,
        linger_ns: 0,
        execution_hold_max_ns: 100 * MS,
        cancel_grace_ns: Nanos::SECOND,
        durable: true,
        outstanding: 1_024,
        connections_max: 8,
        access: AccessConfig::default(),
        store: overlay::retransmission::StoreConfig::default(),
        log_capacity: 1 << 14,
        open_orders_max: 1 << 10,
        unique_ids: false,
        levels_max: 1 << 16,
        trades_kept: 1 << 16,
        instruments: vec![Instrument {
            id: InstrumentId(1),
            symbol: symbol(),
            tick: Price(100),
            price_max: Price(limits::PRICE_MAX),
            qty_max: Qty(limits::QTY_MAX),
            lot_decimals: 8,
        }],
        rules: Vec::new(),
        limits: engine::Limits::NONE,
        self_trade: Vec::new(),
        timetable: Timetable::open_at_once(),
        accounts: (1..=3).map(account).collect(),
        shard: Default::default(),
        fix_comp_id: "FAIRBELL".to_string(),
        session: *b"FAIRBELL01",
        midnight: Nanos(START.0 / (86_400 * Nanos::SECOND) * (86_400 * Nanos::SECOND)),
        seed: 1,
        options: OverlayOptions {
            tokens: Some(exchange::Secret([9; 32])),
            ..OverlayOptions::default()
        },
    }
}

pub fn symbol() -> Symbol {
    Symbol::new("BTCUSD").expect("valid")
}

/// Appends a limit day order in OUCH.
pub fn enter(user_ref: u32, side: Side, price: i64, qty: u64, out: &mut Vec<u8>) {
    enter_for(symbol(), (user_ref, side, price, qty), out);
}

/// The same for another symbol.
pub fn enter_for(
    symbol: Symbol,
    (user_ref, side, price, qty): (u32, Side, i64, u64),
    out: &mut Vec<u8>,
) {
    let order = limit(symbol, (user_ref, side, price, qty), TimeInForce::Day);
    ouch::encode_enter_order(&order, out).expect("encodes");
}

/// Appends a limit order in OUCH that is good until then.
pub fn enter_until(
    symbol: Symbol,
    (user_ref, side, price, qty): (u32, Side, i64, u64),
    expire_at: Nanos,
    out: &mut Vec<u8>,
) {
    let order = limit(symbol, (user_ref, side, price, qty), TimeInForce::GoodTillDate);
    let terms = Terms { expire_at, ..Terms::default() };
    ouch::encode_enter_order_with(&order, &terms, out).expect("encodes");
}

fn limit(
    symbol: Symbol,
    (user_ref, side, price, qty): (u32, Side, i64, u64),
    time_in_force: TimeInForce,
) -> NewOrder {
    NewOrder {
        user_ref: UserRefNum(user_ref),
        side,
        qty: Qty(qty),
        symbol,
        price: Some(Price::from_whole(price)),
        time_in_force,
        post_only: false,
        cl_ord_id: ClOrdId::default(),
    }
}

/// Whoever stands around root and edge.
pub trait Outside {
    /// Sees a datagram from the edge to the root.
    fn to_root(&mut self, bytes: &[u8]);
    /// Sees a datagram from the root to the edge; false keeps it back.
    fn to_edge(&mut self, bytes: &[u8]) -> bool;
    /// Gets a datagram of the feed channel, released or as an answer.
    fn feed(&mut self, to: Peer, bytes: &[u8]);
    /// Gets bytes of a stream.
    fn stream(&mut self, conn: ConnId, bytes: &[u8]);
    /// Its stream is closed.
    fn closed(&mut self, conn: ConnId);
}

/// Root and edge.
pub struct Pair {
    pub root: Box<Root>,
    pub edge: Box<Edge>,
    pub root_out: Outbox,
    pub edge_out: Outbox,
    pub now: ClockReading,
    /// What the root wants to be durable.
    pub journal: Vec<u8>,
}

impl Pair {
    /// Both, before their first timeout.
    pub fn new(config: &ExchangeConfig) -> Pair {
        let nodes =
            deploy(config, exchange::Life::of(1_000), |_| LISTENERS).expect("a possible exchange");
        let mut nodes = nodes.into_iter();
        let (Some(Role::Root(root)), Some(Role::Edge(edge)), None) =
            (nodes.next(), nodes.next(), nodes.next())
        else {
            panic!("a root and an edge");
        };
        let now = ClockReading { now: START, bound_ns: 0 };
        let (root_out, edge_out) = (Outbox::default(), Outbox::default());
        Pair { root, edge, root_out, edge_out, now, journal: Vec::new() }
    }

    /// Delivers everything, and the answers to it, until all is quiet.
    pub fn settle(&mut self, outside: &mut impl Outside) {
        while !self.edge_out.is_empty() || !self.root_out.is_empty() {
            for op in self.edge_out.ops() {
                match *op {
                    Op::Datagram { channel: Channel::OVERLAY, bytes, .. } => {
                        let bytes = self.edge_out.bytes(bytes);
                        outside.to_root(bytes);
                        let (channel, from) = (Channel::OVERLAY, Peer::Node(EDGE));
                        let out = &mut self.root_out;
                        self.root.handle_datagram(self.now, channel, from, bytes, out);
                    }
                    Op::Datagram { to, bytes, .. } => outside.feed(to, self.edge_out.bytes(bytes)),
                    Op::Stream { conn, bytes } => outside.stream(conn, self.edge_out.bytes(bytes)),
                    Op::Close { conn } => outside.closed(conn),
                    Op::Connect { .. } => panic!("an edge calls nobody"),
                    Op::Work { .. } => {}
                }
            }
            self.edge_out.clear();
            for op in self.root_out.ops() {
                match *op {
                    Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(EDGE), bytes } => {
                        let bytes = self.root_out.bytes(bytes);
                        if outside.to_edge(bytes) {
                            let from = Peer::Node(ExchangeConfig::ROOT);
                            let (channel, out) = (Channel::OVERLAY, &mut self.edge_out);
                            self.edge.handle_datagram(self.now, channel, from, bytes, out);
                        }
                    }
                    Op::Datagram { channel: Channel::FEED, to, bytes } => {
                        outside.feed(to, self.root_out.bytes(bytes));
                    }
                    // To a node that only a forged datagram spoke of.
                    Op::Datagram { .. } => {}
                    _ => panic!("a root has no streams"),
                }
            }
            self.journal.extend_from_slice(self.root_out.journaled());
            self.root_out.clear();
        }
    }

    /// Runs the timers of both up to `end`.
    pub fn run(&mut self, end: Nanos, outside: &mut impl Outside) {
        for _ in 0..100_000 {
            let due = self.root.next_timeout().min(self.edge.next_timeout());
            if due > end {
                self.now.now = end;
                return;
            }
            self.now.now = self.now.now.max(due);
            if self.root.next_timeout() <= self.now.now {
                self.root.handle_timeout(self.now, &mut self.root_out);
            }
            if self.edge.next_timeout() <= self.now.now {
                self.edge.handle_timeout(self.now, &mut self.edge_out);
            }
            self.settle(outside);
        }
        panic!("a timer spins at {:?}", self.now.now);
    }
}
