//! Every kind of message that the exchange sends, of every version: what the door itself writes when
//! it is asked, told and provoked. To be held against dictionaries, the crate's own and others'.

#![allow(dead_code, reason = "each user takes what it needs")]

use fix::app::market::{self, Level, MarketDataRefusal, Print, Refresh, Update};
use fix::app::{
    FixApplication, LedgerLimits, MARKET_DATA_INCREMENTAL, MARKET_DATA_REQUEST_REJECT,
    MARKET_DATA_SNAPSHOT, Refusal, SECURITY_STATUS, Symbols, TRADING_SESSION_STATUS, Wanted,
    report,
};
use fix::dictionary::builtin;
use fix::encode::Writer;
use fix::session::{
    Application, MemoryStore, MsgType, Outbound, Port, Proof, SessionConfig, Store,
};
use fix::value::StampWriter;
use fix::{Acceptor, FieldIndex, Frame, Framer, Limits, Message, Version};
use types::{
    CancelReason, ClOrdId, Command, ConnId, ExecutionKind, ExecutionReport, InstrumentId,
    Liquidity, MatchNumber, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE, OrderRef,
    OrderTerms, OrderType, Price, Qty, REFUSED_MASS_CANCEL, RejectReason, Side, TimeInForce,
    TradingState, UserRefNum,
};

use crate::sample;

/// A message of the exchange.
pub struct Sample {
    pub version: Version,
    /// One of [`KINDS`].
    pub kind: &'static str,
    /// As on the wire.
    pub wire: Vec<u8>,
}

/// What there must be, and whether FIX 4.2 has it, too.
pub const KINDS: &[(&str, bool)] = &[
    ("order taken", true),
    ("order refused by the engine", true),
    ("order refused by the door", true),
    ("partial fill", true),
    ("fill", true),
    ("auction fill", true),
    ("stop triggered", true),
    ("peg priced anew", true),
    ("trade corrected", true),
    ("trade broken", true),
    ("replaced", true),
    ("canceled", true),
    ("canceled unasked", true),
    ("expired", true),
    ("part canceled", true),
    ("order status", true),
    ("order status of nothing", true),
    ("cancel refused by the engine", true),
    ("cancel refused by the door", true),
    ("replace refused by the engine", true),
    ("replace refused by the door", true),
    ("mass cancel done", false),
    ("mass cancel refused by the engine", false),
    ("request refused by the door", true),
    ("unsupported message", true),
    ("drop copy", true),
    ("drop copy of a refused cancel", true),
    ("market data snapshot", true),
    ("market data refresh", true),
    ("market data refused", true),
    ("security status", true),
    ("trading session status", true),
    ("security list", false),
    ("logon", true),
    ("logon that resets", true),
    ("logon with the number expected", false),
    ("heartbeat", true),
    ("test request", true),
    ("resend request", true),
    ("reject", true),
    ("gap fill", true),
    ("resent report", true),
    ("logout", true),
];

/// Whether `version` has the kind.
pub fn has(version: Version, (_, old): (&str, bool)) -> bool {
    old || version != Version::Fix42
}

/// Everything, of all versions.
pub fn all() -> Vec<Sample> {
    Version::ALL.into_iter().flat_map(of).collect()
}

/// Everything of one version.
pub fn of(version: Version) -> Vec<Sample> {
    let mut house = House::new(version);
    house.sessions();
    house.orders();
    house.refused_by_the_engine();
    house.refused_by_the_door();
    house.copies_of_others();
    house.market_data();
    house.samples
}

const CONN: ConnId = ConnId(1);

const LIVES: [TimeInForce; 7] = [
    TimeInForce::Day,
    TimeInForce::GoodTillCancelled,
    TimeInForce::ImmediateOrCancel,
    TimeInForce::FillOrKill,
    TimeInForce::GoodTillDate,
    TimeInForce::AtTheOpen,
    TimeInForce::AtTheClose,
];

const ORDER_TYPES: [OrderType; 8] = [
    OrderType::Limit,
    OrderType::Market,
    OrderType::MarketToLimit,
    OrderType::Stop,
    OrderType::StopLimit,
    OrderType::TrailingStop,
    OrderType::PegPrimary,
    OrderType::PegMid,
];

const CANCELS: [CancelReason; 12] = [
    CancelReason::Requested,
    CancelReason::ImmediateOrCancel,
    CancelReason::EndOfDay,
    CancelReason::NotEnough,
    CancelReason::SelfTrade,
    CancelReason::MassCancel,
    CancelReason::Disconnect,
    CancelReason::Expired,
    CancelReason::AuctionOver,
    CancelReason::Killed,
    CancelReason::Collar,
    CancelReason::Capacity,
];

const CROSSES: [Liquidity; 4] = [
    Liquidity::OpeningCross,
    Liquidity::ClosingCross,
    Liquidity::ResumingCross,
    Liquidity::IntradayCross,
];

const REFUSALS: [Refusal; 34] = [
    Refusal::IDENTIFIER,
    Refusal::SYMBOL,
    Refusal::NO_QUANTITY,
    Refusal::QUANTITY,
    Refusal::PRICE,
    Refusal::PRICE_TOO_HIGH,
    Refusal::PRICE_TOO_LOW,
    Refusal::STOP_TOO_HIGH,
    Refusal::OFFSET_TOO_LARGE,
    Refusal::NO_SYMBOL,
    Refusal::SYMBOL_UNWANTED,
    Refusal::UNDER_WAY,
    Refusal::NO_PRICE,
    Refusal::PRICE_UNWANTED,
    Refusal::NO_STOP,
    Refusal::STOP_UNWANTED,
    Refusal::NO_OFFSET,
    Refusal::OFFSET_UNWANTED,
    Refusal::MID_OFFSET,
    Refusal::PEG_OFFSET,
    Refusal::TRAIL_OFFSET,
    Refusal::EXPIRY,
    Refusal::EXEC_INST,
    Refusal::CODE,
    Refusal::DUPLICATE,
    Refusal::UNKNOWN_ORDER,
    Refusal::TOO_LATE,
    Refusal::MISMATCH,
    Refusal::UNAVAILABLE,
    Refusal::READ_ONLY,
    Refusal::MARKET_DATA_ONLY,
    Refusal::BUSY,
    Refusal::RATE,
    Refusal::SUSPENDED,
];

/// The application of the door: what gets as far as the engine goes no further.
struct App {
    application: FixApplication,
    symbols: Symbols,
    commands: Vec<Command>,
}

impl Application for App {
    fn logon(&mut self, _: usize, _: &Message<'_>) -> Proof {
        Proof::Right
    }

    fn message<S: Store>(
        &mut self,
        _: usize,
        now: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        match self.application.handle(now, message, &self.symbols, port) {
            Wanted::Nothing => {}
            Wanted::Command(command) => self.commands.push(command),
            _ => self.application.unavailable(now, message, port),
        }
    }
}

/// One session of an account, and one that gets its copies.
struct House {
    version: Version,
    acceptor: Acceptor<MemoryStore>,
    app: App,
    copies: (FixApplication, Outbound<MemoryStore>),
    now: Nanos,
    seq: u32,
    position: u64,
    samples: Vec<Sample>,
}

impl House {
    fn new(version: Version) -> House {
        let config = SessionConfig::new("FAIR", "MEM7", builtin(version).unwrap());
        let store = || MemoryStore::new(10_000, 10 << 20);
        let app = App {
            application: FixApplication::new(version, LedgerLimits::default()),
            symbols: Symbols::new(&[sample::instrument()]),
            commands: Vec::new(),
        };
        let mut outbound = Outbound::new(version, "FAIR", "COPY", store(), 64 << 10);
        outbound.connect();
        let copies = (FixApplication::drop_copy(version, LedgerLimits::default()), outbound);
        let acceptor = Acceptor::new(vec![(config, store())], Limits::default());
        let (now, samples) = (sample::now(), Vec::new());
        let mut house = House { version, acceptor, app, copies, now, seq: 1, position: 0, samples };
        house.acceptor.handle_connect(now, CONN);
        house
    }

    /// What was written, message by message; session messages have kinds of their own.
    fn keep(&mut self, kind: &'static str, out: &[u8]) {
        let (mut framer, mut index) = (Framer::new(1 << 20), FieldIndex::default());
        let mut rest = out;
        while !rest.is_empty() {
            rest = &rest[framer.push(rest)..];
            while let Some(frame) = framer.next_frame() {
                let Frame::Message(bytes) = frame else { panic!("{kind}: no message") };
                let message = index.parse(bytes).unwrap();
                let kind = match message.msg_type() {
                    b"A" if message.get(141).is_some() => "logon that resets",
                    b"A" if message.get(789).is_some() => "logon with the number expected",
                    b"A" => "logon",
                    b"0" => "heartbeat",
                    b"1" => "test request",
                    b"2" => "resend request",
                    b"3" => "reject",
                    b"4" => "gap fill",
                    b"5" => "logout",
                    _ if message.get(43).is_some() => "resent report",
                    _ => kind,
                };
                self.samples.push(Sample { version: self.version, kind, wire: bytes.to_vec() });
            }
        }
    }

    /// A message to the door.
    fn send(&mut self, kind: &'static str, msg_type: &str, body: &str) {
        let seq = self.seq;
        self.seq += 1;
        let stamp = *StampWriter::default().text(self.now);
        let stamp = String::from_utf8_lossy(&stamp);
        let begin = self.version.begin_string();
        let head = format!("8={begin}|9=0|35={msg_type}|34={seq}|49=MEM7|52={stamp}|56=FAIR|");
        let wire = sample::wire(&sample::repaired(&format!("{head}{body}")));
        let mut out = Vec::new();
        self.acceptor.handle_bytes(self.now, CONN, &wire, &mut self.app, &mut out);
        self.keep(kind, &out);
    }

    fn wait(&mut self, seconds: u64) {
        self.now = self.now.after(seconds * Nanos::SECOND);
        let mut out = Vec::new();
        self.acceptor.handle_timeout(self.now, CONN, &mut self.app, &mut out);
        self.keep("heartbeat", &out);
    }

    fn logon(&mut self, fields: &str) {
        let version = if self.version == Version::Fix50Sp2 { "1137=9|" } else { "" };
        self.acceptor.handle_close(CONN);
        self.acceptor.handle_connect(self.now, CONN);
        self.send("logon", "A", &format!("98=0|108=30|{fields}{version}"));
    }

    /// What the session layer says by itself.
    fn sessions(&mut self) {
        self.logon("");
        self.send("heartbeat", "1", "112=there?|");
        self.wait(31);
        self.wait(6);
        self.seq += 2;
        self.send("resend request", "0", "");
        self.seq -= 3;
        self.send("", "4", &format!("123=Y|36={}|", self.seq + 3));
        self.seq += 2;
        let route = "115=HOUSE|116=DESK|128=FAR|129=SUB|144=A|145=B|";
        let order = "11=a1|21=1|55=BTCUSD|54=1|60=20261122-09:30:00|38=100|40=2|44=78350.5|";
        let faulty = [
            ("D", format!("{order}7=1|")),
            ("D", format!("{order}9999=1|")),
            ("D", format!("{order}0=1|")),
            ("D", format!("{order}-4=1|")),
            ("D", format!("{order}99=|")),
            ("D", format!("{order}11=twice|")),
            ("D", order.replace("11=a1|", "")),
            ("D", order.replace("54=1", "54=9")),
            ("D", order.replace("38=100", "38=many")),
            ("D", format!("{route}{}", order.replace("54=1", "54=9"))),
            ("D", format!("{order}34=1|")),
            ("V", "262=m|263=0|264=0|267=2|269=0|146=1|55=BTCUSD|".into()),
            ("V", "262=m|263=0|264=0|267=1|55=BTCUSD|269=0|146=1|55=BTCUSD|".into()),
            ("Zz", order.into()),
            ("A", "98=0|108=30|1137=9|".into()),
            ("2", "7=9|16=5|".into()),
        ];
        for (msg_type, body) in faulty {
            self.send("reject", msg_type, &body);
        }
        let wanted = self.next_out().saturating_sub(2).max(1);
        self.logon(&format!("789={wanted}|"));
        self.send("gap fill", "2", "7=1|16=0|");
        self.send("logout", "5", "58=bye|");
        self.seq = 1;
        self.logon("");
        self.logon("141=Y|");
        // Later ones would be too far ahead of the reports' own times.
        self.now = sample::now();
        self.seq = 1;
        self.logon("141=Y|");
    }

    fn next_out(&mut self) -> u32 {
        self.acceptor.session(0).unwrap().numbers().1
    }

    fn base(&mut self, user_ref: u32) -> ExecutionReport {
        let mut id = [b' '; 14];
        let text = format!("o{user_ref}");
        id[..text.len()].copy_from_slice(text.as_bytes());
        let report = sample::told(ExecutionKind::Accepted, user_ref, &id);
        ExecutionReport { price: Price(783_505_000), ..report }
    }

    /// A record of the account's stream, told to its owner and as a copy.
    fn tell(&mut self, kind: &'static str, report: &ExecutionReport) {
        self.position += 1;
        let now = sample::now();
        let mut out = Vec::new();
        let outbound = self.acceptor.session(0).unwrap().outbound();
        self.app.application.report(
            now,
            report,
            self.position,
            &self.app.symbols,
            outbound,
            &mut out,
        );
        self.keep(kind, &out);
        let mass = report.kind == ExecutionKind::MassCanceled
            || report.flags & REFUSED_MASS_CANCEL != 0
                && report.kind == ExecutionKind::CancelRejected;
        if mass {
            return;
        }
        out.clear();
        let (application, outbound) = &mut self.copies;
        let told = (report, self.position);
        application.copy(now, told, b"MEMBER", &self.app.symbols, outbound, &mut out);
        let cancel = kind.starts_with("cancel refused") || kind.starts_with("replace refused");
        self.keep(if cancel { "drop copy of a refused cancel" } else { "drop copy" }, &out);
    }

    fn status(&mut self, report: &ExecutionReport) {
        let id = String::from_utf8_lossy(&report.cl_ord_id.0).trim_end().to_owned();
        self.send("order status", "H", &format!("11={id}|55=BTCUSD|54=1|"));
    }

    /// Orders of every type, side and life, from taken to done.
    fn orders(&mut self) {
        let mut number = 0;
        for order_type in ORDER_TYPES {
            for side in [Side::Buy, Side::Sell] {
                for (turn, reason) in (0usize..).zip(CANCELS) {
                    number += 10;
                    let mut order = self.base(number);
                    (order.order_type, order.side) = (order_type, side);
                    order.time_in_force = LIVES[turn % LIVES.len()];
                    order.flags =
                        [0, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE][turn % 4];
                    order.terms = OrderTerms {
                        display_qty: [0, 20][turn % 2],
                        min_qty: [0, 10, 0][turn % 3],
                        stop_price: Price(20_000),
                        expire_at: sample::now().after(86_400 * Nanos::SECOND),
                    };
                    if order_type == OrderType::Market {
                        order.price = Price(0);
                    }
                    self.order(&order, reason);
                }
            }
        }
    }

    /// One order's life; it ends for `reason`.
    fn order(&mut self, order: &ExecutionReport, reason: CancelReason) {
        self.tell("order taken", order);
        self.status(order);
        let triggers = matches!(
            order.order_type,
            OrderType::Stop | OrderType::StopLimit | OrderType::TrailingStop
        );
        if triggers {
            let triggered = ExecutionReport { kind: ExecutionKind::Triggered, ..*order };
            self.tell("stop triggered", &triggered);
        }
        if matches!(order.order_type, OrderType::PegPrimary | OrderType::PegMid) {
            let restated = ExecutionReport { kind: ExecutionKind::Restated, ..*order };
            self.tell("peg priced anew", &restated);
        }
        let mut leaves = 100;
        let mut fill = ExecutionReport { kind: ExecutionKind::Executed, ..*order };
        fill.price = Price(783_501_234);
        let fills = [Liquidity::None, Liquidity::Added, Liquidity::Removed];
        for liquidity in fills.into_iter().chain(CROSSES) {
            leaves -= 5;
            (fill.qty, fill.leaves, fill.liquidity) = (Qty(5), Qty(leaves), liquidity);
            fill.match_number = MatchNumber(u64::from(order.user_ref.0) * 10 + leaves);
            let cross = CROSSES.contains(&liquidity);
            self.tell(if cross { "auction fill" } else { "partial fill" }, &fill);
        }
        fill.kind = ExecutionKind::TradeCorrected;
        self.tell("trade corrected", &fill);
        fill.kind = ExecutionKind::TradeBroken;
        self.tell("trade broken", &fill);
        self.status(order);
        let mut part = ExecutionReport { kind: ExecutionKind::Canceled, ..*order };
        (part.cancel_reason, part.qty, part.leaves) = (CancelReason::SelfTrade, Qty(5), Qty(60));
        self.tell("part canceled", &part);
        let mut replaced = self.base(order.user_ref.0 + 1);
        (replaced.kind, replaced.orig_user_ref) = (ExecutionKind::Replaced, order.user_ref);
        (replaced.order_type, replaced.side) = (order.order_type, order.side);
        (replaced.time_in_force, replaced.terms) = (order.time_in_force, order.terms);
        (replaced.qty, replaced.leaves) = (Qty(50), Qty(50));
        self.tell("replaced", &replaced);
        self.status(&replaced);
        let mut gone = ExecutionReport { kind: ExecutionKind::Canceled, ..replaced };
        (gone.cancel_reason, gone.leaves) = (reason, Qty(0));
        let kind = match reason {
            CancelReason::Requested => "canceled",
            CancelReason::EndOfDay | CancelReason::Expired | CancelReason::AuctionOver => "expired",
            _ => "canceled unasked",
        };
        if reason == CancelReason::Requested {
            gone.cl_ord_id = ClOrdId(*b"c-of-a-cancel ");
        }
        self.tell(kind, &gone);
        self.status(&replaced);
        let mut other = self.base(order.user_ref.0 + 2);
        other.side = order.side;
        self.tell("order taken", &other);
        let mut fill = ExecutionReport { kind: ExecutionKind::Executed, ..other };
        (fill.leaves, fill.liquidity) = (Qty(0), Liquidity::Removed);
        fill.match_number = MatchNumber(u64::from(order.user_ref.0) * 10 + 3);
        self.tell("fill", &fill);
        self.status(&other);
    }

    /// Each reason, for a new order, a replace, a cancel and a mass cancel, of orders that are known
    /// and of others.
    fn refused_by_the_engine(&mut self) {
        let known = self.base(9_000);
        self.tell("order taken", &known);
        for (number, reason) in (9_010..).step_by(10).zip(RejectReason::ALL) {
            let mut refused = self.base(number);
            (refused.kind, refused.reject) = (ExecutionKind::Rejected, reason);
            (refused.order_ref, refused.leaves) = (OrderRef(0), Qty(0));
            self.tell("order refused by the engine", &refused);
            for original in [9_000, 1] {
                refused.orig_user_ref = UserRefNum(original);
                self.tell("replace refused by the engine", &refused);
            }
            let mut cancel = self.base(9_000);
            (cancel.kind, cancel.reject) = (ExecutionKind::CancelRejected, reason);
            (cancel.instrument, cancel.order_ref) = (InstrumentId(0), OrderRef(0));
            self.tell("cancel refused by the engine", &cancel);
            // Over another door without identifiers, of an order that is not known any more.
            (cancel.user_ref, cancel.cl_ord_id) = (UserRefNum(2), ClOrdId::default());
            self.tell("cancel refused by the engine", &cancel);
            let mut mass = ExecutionReport { user_ref: UserRefNum(number + 1), ..cancel };
            mass.flags = REFUSED_MASS_CANCEL;
            self.tell("mass cancel refused by the engine", &mass);
        }
        for (number, instrument) in [(9_500, 0), (9_510, 1)] {
            let mut mass = self.base(number);
            (mass.kind, mass.instrument) = (ExecutionKind::MassCanceled, InstrumentId(instrument));
            (mass.order_ref, mass.qty, mass.leaves) = (OrderRef(0), Qty(3), Qty(0));
            self.tell("mass cancel done", &mass);
        }
    }

    /// What the door refuses by itself.
    fn refused_by_the_door(&mut self) {
        let version = self.version;
        let order = "11=a1|21=1|55=BTCUSD|54=1|60=20261122-09:30:00|38=100|40=2|44=78350.5|";
        let cancel = "41=o9000|11=c1|55=BTCUSD|54=1|60=20261122-09:30:00|";
        let replace = format!("41=zz|{order}");
        let status = "11=zz|55=BTCUSD|54=1|";
        let mass = "11=c1|530=1|55=NO|60=20261122-09:30:00|";
        let data = "262=m|263=0|264=0|267=1|269=0|146=1|55=BTCUSD|";
        let mut asked = vec![
            ("D", order.to_string(), "order refused by the door"),
            ("F", cancel.to_string(), "cancel refused by the door"),
            ("G", replace.clone(), "replace refused by the door"),
            ("H", status.to_string(), "order status of nothing"),
            ("V", data.to_string(), "request refused by the door"),
            ("e", "324=s|55=BTCUSD|263=0|".to_string(), "request refused by the door"),
            ("g", "335=t|263=0|".to_string(), "request refused by the door"),
        ];
        if version != Version::Fix42 {
            asked.push(("q", mass.to_string(), "request refused by the door"));
        }
        for (msg_type, body, kind) in &asked {
            for refusal in REFUSALS {
                let begin = version.begin_string();
                let head =
                    format!("8={begin}|9=0|35={msg_type}|34=7|49=MEM7|52=20261122-09:30:00|");
                let wire = sample::wire(&sample::repaired(&format!("{head}56=FAIR|{body}")));
                let mut index = FieldIndex::default();
                let message = index.parse(&wire).unwrap();
                self.write(kind, report::refusal_type(&message), |writer| {
                    let now = sample::now();
                    report::write_refusal(version, &message, &refusal, None, now, writer);
                });
            }
        }
        // And as it happens.
        let order = |from: &str, to: &str| order.replace(from, to);
        for (from, to) in [
            ("11=a1", "11=a-very-long-identifier"),
            ("BTCUSD", "NOTHING"),
            ("38=100", "38=1.5"),
            ("44=78350.5|", ""),
            ("40=2", "40=P|18=R|211=x"),
            ("40=2|44=78350.5", "40=P|18=R|211=0.5"),
            ("40=2", "40=2|59=6"),
        ] {
            self.send("order refused by the door", "D", &order(from, to));
        }
        for (from, to) in [("41=o9000", "41=zz"), ("54=1", "54=2"), ("11=c1", "11=c 1")] {
            self.send("cancel refused by the door", "F", &cancel.replace(from, to));
        }
        for done in ["o11", "o12", "o10"] {
            let cancel = cancel.replace("o9000", done);
            self.send("cancel refused by the door", "F", &cancel);
            let replace = replace.replace("zz", done);
            self.send("replace refused by the door", "G", &replace);
        }
        let replace = replace.replace("zz", "o9000");
        self.send("replace refused by the door", "G", &replace.replace("54=1", "54=2"));
        self.send("replace refused by the door", "G", &replace.replace("11=a1", "11=o9000"));
        self.send("replace refused by the door", "G", &replace.replace("38=100", "38=1.5"));
        self.send("order status of nothing", "H", status);
        for (msg_type, body, kind) in &asked[4..] {
            self.send(kind, msg_type, body);
        }
        let own = "37=1|17=1|20=0|150=0|39=0|55=A|54=1|151=0|14=0|6=0|";
        let own = if version == Version::Fix42 { own.into() } else { own.replace("20=0|", "") };
        self.send("unsupported message", "8", &own);
        self.send("unsupported message", "7", "2=ad|5=N|");
        self.send("resent report", "2", "7=1|16=40|");
    }

    /// Copies of orders that came over another door, with names that FIX would not take.
    fn copies_of_others(&mut self) {
        let mut order = self.base(10_000);
        for id in [[b' '; 14], [0; 14], *b"a\x01b c\x7f d e=f|g"] {
            order.user_ref.0 += 10;
            (order.cl_ord_id, order.kind) = (ClOrdId(id), ExecutionKind::Accepted);
            self.tell("order taken", &order);
            let mut cancel = ExecutionReport { kind: ExecutionKind::CancelRejected, ..order };
            (cancel.instrument, cancel.reject) = (InstrumentId(0), RejectReason::UnknownOrder);
            cancel.cl_ord_id = ClOrdId::default();
            self.tell("cancel refused by the engine", &cancel);
            order.instrument = InstrumentId(9);
        }
    }

    fn write(
        &mut self,
        kind: &'static str,
        msg_type: MsgType,
        build: impl FnOnce(&mut Writer<'_>),
    ) {
        let mut out = Vec::new();
        let outbound = self.acceptor.session(0).unwrap().outbound();
        outbound.send(sample::now(), msg_type, &mut out, build);
        self.keep(kind, &out);
    }

    fn market_data(&mut self) {
        let version = self.version;
        let symbol = sample::instrument().symbol;
        let level = |side, price| Level { side, price: Price(price), qty: Qty(5), orders: 2 };
        let (match_number, price) = (MatchNumber(9), Price(25_000));
        let (at, aggressor) = (sample::now(), Some(Side::Buy));
        let print = Print { match_number, price, qty: Qty(7), at, aggressor, broken: false };
        let broken = Print { broken: true, ..print };
        let refresh = Refresh { version, id: b"m1", symbol: &symbol, at: Some(at), told: 9 };
        let levels =
            [level(Side::Buy, 20_000), level(Side::Buy, 10_000), level(Side::Sell, 30_000)];
        for (shown, last) in [(&levels[..], Some(&print)), (&levels[..2], None), (&[], None)] {
            self.write("market data snapshot", MARKET_DATA_SNAPSHOT, |writer| {
                market::write_snapshot(&refresh, shown, last, writer);
            });
        }
        let updates =
            [(Update::Delete, levels[0]), (Update::Change, levels[1]), (Update::New, levels[2])];
        for (prints, updates) in
            [(&[print, broken][..], &updates[..]), (&[print], &[]), (&[], &updates)]
        {
            self.write("market data refresh", MARKET_DATA_INCREMENTAL, |writer| {
                market::write_updates(&refresh, prints.iter(), updates, writer);
            });
        }
        use MarketDataRefusal::*;
        let refusals = [
            UnknownSymbol,
            DuplicateId,
            TooMuch,
            Unavailable,
            Subscription,
            Depth,
            UpdateType,
            Aggregation,
            EntryType,
            UnknownId,
            NoSymbols,
            NoEntryTypes,
        ];
        for refusal in refusals {
            self.write("market data refused", MARKET_DATA_REQUEST_REJECT, |writer| {
                market::write_refusal(b"m1", refusal, writer);
            });
        }
        let unknown = "262=m|263=0|264=0|267=1|269=0|146=1|55=NO|";
        self.send("market data refused", "V", unknown);
        let states = [
            TradingState::Halted,
            TradingState::Paused,
            TradingState::QuotationOnly,
            TradingState::Trading,
        ];
        for state in states.map(Some).into_iter().chain([None]) {
            self.write("security status", SECURITY_STATUS, |writer| {
                market::write_security_status(version, b"s", b"BTCUSD", state, writer);
            });
        }
        for state in states {
            for id in [None, Some(&b"t"[..])] {
                self.write("trading session status", TRADING_SESSION_STATUS, |writer| {
                    market::write_trading_status(version, id, &symbol, state, writer);
                });
            }
        }
        if version != Version::Fix42 {
            for asked in ["559=4|", "559=0|55=BTCUSD|", "559=0|55=NO|", "559=0|"] {
                self.send("security list", "x", &format!("320=s|{asked}"));
            }
        }
    }
}
