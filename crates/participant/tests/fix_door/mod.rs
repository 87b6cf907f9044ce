//! A FIX door that accepts every order, replaces and cancels what is open, and trades nothing; and
//! a world with a delay that runs a load against it.

use std::collections::{BTreeMap, BTreeSet};

use fix::app::{FixApplication, LedgerLimits, Symbols, Wanted};
use fix::dictionary::builtin;
use fix::session::{Application, MemoryStore, Port, Proof, SessionConfig, Store};
use fix::{Acceptor, Limits, Message, Version};
use participant::load::{Load, LoadPhase};
use types::{
    AccountId, CancelReason, ClockReading, Command, CommandKind, ConnId, ExecutionKind,
    ExecutionReport, FeedSeq, Liquidity, MatchNumber, Nanos, Node, Op, OrderRef, Outbox, Qty,
    RejectReason,
};

use crate::common::{MS, instruments};

const DELAY_NS: u64 = 100_000;
const CLIENTS: usize = 8;

/// What the sessions ask for.
struct App {
    applications: Vec<FixApplication>,
    symbols: Symbols,
    commands: Vec<(usize, Command)>,
}

impl Application for App {
    fn logon(&mut self, session: usize, message: &Message<'_>) -> Proof {
        let right = message.get(553) == Some(format!("P{session}").as_bytes())
            && message.get(554) == Some(b"secret");
        right.into()
    }

    fn message<S: Store>(
        &mut self,
        session: usize,
        now: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        match self.applications[session].handle(now, message, &self.symbols, port) {
            Wanted::Nothing => {}
            Wanted::Command(command) => self.commands.push((session, command)),
            other => panic!("a load asks for orders only: {other:?}"),
        }
    }
}

enum Event {
    Connected(ConnId),
    ToDoor(ConnId, Vec<u8>),
    ToLoad(ConnId, Vec<u8>),
    Closed(ConnId),
}

/// Load and door with a delay between them.
pub struct FixWorld {
    pub load: Load,
    acceptor: Acceptor<MemoryStore>,
    app: App,
    open: Vec<BTreeSet<u32>>,
    /// Orders of the engine's numbering whose acceptance is left out, or told twice.
    pub swallow: Option<u32>,
    pub double: Option<u32>,
    position: u64,
    live: BTreeSet<ConnId>,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    out: Outbox,
}

impl FixWorld {
    pub fn new(load: Load, version: Version) -> FixWorld {
        let session = |index: usize| {
            let them = format!("CL{index}");
            let config = SessionConfig::new("FAIR", &them, builtin(version).unwrap());
            (config, MemoryStore::new(100_000, 1 << 26))
        };
        let application = |_| FixApplication::new(version, LedgerLimits::default());
        FixWorld {
            load,
            acceptor: Acceptor::new((0..CLIENTS).map(session).collect(), Limits::default()),
            app: App {
                applications: (0..CLIENTS).map(application).collect(),
                symbols: Symbols::new(&instruments()),
                commands: Vec::new(),
            },
            open: vec![BTreeSet::new(); CLIENTS],
            swallow: None,
            double: None,
            position: 0,
            live: BTreeSet::new(),
            now: 1_000 * MS,
            events: BTreeMap::new(),
            count: 0,
            out: Outbox::default(),
        }
    }

    fn later(&mut self, event: Event) {
        self.count += 1;
        self.events.insert((self.now + DELAY_NS, self.count), event);
    }

    /// Cuts all connections; whatever is under way is lost.
    pub fn cut(&mut self) {
        self.events.clear();
        for conn in std::mem::take(&mut self.live) {
            self.acceptor.handle_close(conn);
            self.later(Event::Closed(conn));
        }
    }

    pub fn finish(&mut self) {
        let over = self.run(60_000 * MS, |load| load.phase() == LoadPhase::Done);
        assert!(over, "stuck: {:?}", self.load.counts());
    }

    /// Runs until `stop` says so or the time is over; true in the first case.
    pub fn run(&mut self, for_ns: u64, stop: impl Fn(&Load) -> bool) -> bool {
        let end = self.now + for_ns;
        while !stop(&self.load) {
            let timer = self.load.next_timeout().0.max(self.now);
            let event = self.events.first_key_value().map_or(u64::MAX, |(&(at, _), _)| at);
            if timer.min(event) > end {
                return false;
            }
            self.now = timer.min(event);
            let now = ClockReading { now: Nanos(self.now), bound_ns: 0 };
            match self.events.first_entry().filter(|entry| entry.key().0 <= timer) {
                Some(entry) => match entry.remove() {
                    Event::Connected(conn) => self.load.handle_connect(now, conn, &mut self.out),
                    Event::ToDoor(conn, bytes) => self.at_door(conn, &bytes),
                    Event::ToLoad(conn, bytes) => {
                        let (first, second) = bytes.split_at(bytes.len() / 3);
                        self.load.handle_stream(now, conn, first, &mut self.out);
                        self.load.handle_stream(now, conn, second, &mut self.out);
                    }
                    Event::Closed(conn) => self.load.handle_close(now, conn, &mut self.out),
                },
                None => self.load.handle_timeout(now, &mut self.out),
            }
            self.carry_out();
        }
        true
    }

    fn at_door(&mut self, conn: ConnId, bytes: &[u8]) {
        if !self.live.contains(&conn) {
            return;
        }
        let mut out = Vec::new();
        let now = Nanos(self.now);
        let ending = self.acceptor.handle_bytes(now, conn, bytes, &mut self.app, &mut out);
        for (session, command) in std::mem::take(&mut self.app.commands) {
            self.execute(session, &command, &mut out);
        }
        // A resend goes out in slices.
        while self.acceptor.next_timeout(conn) == Nanos(0) {
            self.acceptor.handle_timeout(now, conn, &mut self.app, &mut out);
            for (session, command) in std::mem::take(&mut self.app.commands) {
                self.execute(session, &command, &mut out);
            }
        }
        assert_eq!(ending, None);
        self.later(Event::ToLoad(conn, out));
    }

    fn execute(&mut self, session: usize, command: &Command, out: &mut Vec<u8>) {
        let (user_ref, open) = (command.user_ref.0, &mut self.open[session]);
        let kind = match command.kind {
            CommandKind::NewOrder => {
                open.insert(user_ref);
                ExecutionKind::Accepted
            }
            CommandKind::Replace if open.remove(&command.orig_user_ref.0) => {
                open.insert(user_ref);
                ExecutionKind::Replaced
            }
            CommandKind::Replace => ExecutionKind::Rejected,
            CommandKind::Cancel if open.remove(&user_ref) => ExecutionKind::Canceled,
            _ => ExecutionKind::CancelRejected,
        };
        let first = session == 0 && kind == ExecutionKind::Accepted;
        let swallowed = first && self.swallow.is_some_and(|at| at <= user_ref);
        let doubled = first && self.double.is_some_and(|at| at <= user_ref);
        if swallowed {
            self.swallow = None;
            return;
        }
        self.tell(session, command, kind, out);
        if doubled {
            self.double = None;
            self.tell(session, command, kind, out);
        }
    }

    fn tell(&mut self, session: usize, of: &Command, kind: ExecutionKind, out: &mut Vec<u8>) {
        self.position += 1;
        let report = ExecutionReport {
            kind,
            side: of.side,
            order_type: of.order_type,
            time_in_force: of.time_in_force,
            flags: of.flags,
            reject: match kind {
                ExecutionKind::Rejected => RejectReason::UnknownOrder,
                _ => RejectReason::None,
            },
            cancel_reason: match kind {
                ExecutionKind::Canceled => CancelReason::Requested,
                _ => CancelReason::None,
            },
            liquidity: Liquidity::None,
            account: AccountId(session as u16 + 1),
            instrument: of.instrument,
            user_ref: of.user_ref,
            orig_user_ref: of.orig_user_ref,
            session_seq: 0,
            qty: of.qty,
            leaves: if kind == ExecutionKind::Canceled { Qty(0) } else { of.qty },
            price: of.price,
            order_ref: OrderRef(u64::from(of.user_ref.0)),
            match_number: MatchNumber(0),
            public_after: FeedSeq(0),
            t_seq: Nanos(self.now),
            cl_ord_id: of.cl_ord_id,
            reserved2: [0; 2],
            terms: of.terms(),
        };
        let Some(live) = self.acceptor.session(session) else { return };
        let (application, symbols) = (&mut self.app.applications[session], &self.app.symbols);
        let now = Nanos(self.now);
        application.report(now, &report, self.position, symbols, live.outbound(), out);
    }

    fn carry_out(&mut self) {
        let out = std::mem::take(&mut self.out);
        for op in out.ops() {
            match *op {
                Op::Connect { conn, .. } => {
                    self.live.insert(conn);
                    self.acceptor.handle_connect(Nanos(self.now), conn);
                    self.later(Event::Connected(conn));
                }
                Op::Stream { conn, bytes } => {
                    self.later(Event::ToDoor(conn, out.bytes(bytes).to_vec()));
                }
                Op::Close { conn } => {
                    if self.live.remove(&conn) {
                        self.acceptor.handle_close(conn);
                    }
                }
                Op::Datagram { .. } | Op::Work { .. } => panic!("a load sends no datagrams"),
            }
        }
        self.out = out;
        self.out.clear();
    }
}
