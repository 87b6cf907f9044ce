//! An exchange, the certifier in front of it, and a client, in one place with a delay between them.

use std::collections::BTreeMap;

use certify::{Certifier, CertifierConfig, Protocol, Report};
use exchange::{
    AccessConfig, Account, ExchangeConfig, FixLogin, FixRole, LoginTerms, OverlayOptions, Role,
    Throttle, Timetable, deploy,
};
use fix::{Frame, Framer, Version};
use participant::load::{Load, LoadConfig, Login};
use types::{
    AccountId, Channel, ClockReading, ConnId, Instrument, InstrumentId, Nanos, Node, NodeId, Op,
    Outbox, Peer, Phase, Price, Qty, Symbol, limits,
};

const START: Nanos = Nanos(1_767_261_600 * Nanos::SECOND);
const DELAY_NS: u64 = 100_000;
/// The edge's doors and the certifier's, as peers.
const OUCH: Peer = Peer::Addr(1);
const FIX: Peer = Peer::Addr(2);
const CERTIFIER: Peer = Peer::Addr(3);

/// What a client does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Nothing,
    /// FIX: heartbeats where a resend has to be asked for.
    IgnoresGaps,
    /// FIX: heartbeats without the identifier of the test.
    ForgetsTest,
    /// OUCH: always logs in for the whole stream.
    AsksForAll,
    /// Says nothing while heartbeats are looked at.
    FallsSilent,
    /// Wrong password.
    WrongPassword,
    /// FIX: enters no stop order when one is asked for.
    HasNoStops,
}

fn exchange(fix: bool) -> ExchangeConfig {
    let account = |id: u16, username: &str, fix| Account {
        id: AccountId(id),
        username: username.to_string(),
        password: "secret".to_string(),
        cancel_on_disconnect: id == 1,
        terms: LoginTerms::default(),
        throttle: Throttle::default(),
        firm: String::new(),
        fix,
    };
    let login = FixLogin::new("CLIENT", Version::Fix44, FixRole::Orders);
    ExchangeConfig {
        depth: 1,
        fanout: 1,
        receivers: 1,
        hedge: 0,
        dynamic_parents: true,
        round_ns: 50 * Nanos::MILLI,
        delay_window: 200,
        delay_permille: 950,
        delay_cap_ns: 5 * Nanos::MILLI,
        sequencer_window_ns: 0,
        linger_ns: 0,
        execution_hold_max_ns: 100 * Nanos::MILLI,
        cancel_grace_ns: Nanos::SECOND,
        durable: true,
        outstanding: 1_024,
        connections_max: 8,
        access: AccessConfig::default(),
        store: overlay::retransmission::StoreConfig::default(),
        log_capacity: 1 << 16,
        open_orders_max: 1 << 12,
        unique_ids: false,
        levels_max: 1 << 16,
        trades_kept: 1 << 16,
        instruments: vec![instrument()],
        rules: Vec::new(),
        limits: engine::Limits::NONE,
        self_trade: Vec::new(),
        timetable: Timetable::open_at_once(),
        accounts: vec![account(1, "CLIENT", fix.then_some(login)), account(2, "CERT", None)],
        shard: Default::default(),
        fix_comp_id: "FAIRBELL".to_string(),
        session: *b"CERTIFY001",
        midnight: Nanos(START.0 / (86_400 * Nanos::SECOND) * (86_400 * Nanos::SECOND)),
        seed: 1,
        options: OverlayOptions::default(),
    }
}

fn instrument() -> Instrument {
    Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new("CERTA").expect("short"),
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 0,
    }
}

fn load(protocol: Protocol, fault: Fault, seconds: u64) -> Load {
    let password = if fault == Fault::WrongPassword { "guess" } else { "secret" };
    let login = Login {
        protocol: match protocol {
            Protocol::Ouch => participant::load::Protocol::Ouch,
            Protocol::Fix => participant::load::Protocol::Fix {
                version: Version::Fix44,
                sender: "CLIENT".to_string(),
                target: "FAIRBELL".to_string(),
            },
        },
        username: "CLIENT".to_string(),
        password: password.to_string(),
    };
    Load::new(LoadConfig {
        logins: vec![login],
        gateways: vec![CERTIFIER],
        instrument: instrument(),
        middle: Price::from_whole(100),
        rate: 20,
        duration_ns: seconds * Nanos::SECOND,
        warmup_ns: 0,
        login_timeout_ns: 30 * Nanos::SECOND,
        drain_timeout_ns: Nanos::SECOND,
        expiring: 300,
        seed: 7,
        run: "C".to_string(),
    })
    .expect("a possible load")
}

enum Event {
    Connected(usize, ConnId),
    Bytes(usize, ConnId, Vec<u8>),
    Closed(usize, ConnId),
    Datagram(usize, NodeId, Vec<u8>),
}

/// Root, edge, certifier, client: by place.
pub struct World {
    root: Role,
    edge: Role,
    certifier: Certifier,
    client: Load,
    fault: Fault,
    now: u64,
    count: u64,
    events: BTreeMap<(u64, u64), Event>,
    /// The other end of each open connection.
    ends: BTreeMap<(usize, ConnId), (usize, ConnId)>,
    out: Outbox,
    in_call: bool,
}

const CLIENT: usize = 3;

impl World {
    pub fn new(protocol: Protocol, fault: Fault, seconds: u64) -> World {
        let fix = protocol == Protocol::Fix;
        let nodes = deploy(&exchange(fix), exchange::Life::of(1_000), |_| Peer::Addr(99))
            .expect("possible");
        let [root, edge] = <[Role; 2]>::try_from(nodes).ok().expect("root and edge");
        let config = CertifierConfig {
            protocol,
            gateway: if fix { FIX } else { OUCH },
            counter_door: OUCH,
            counter_login: ("CERT".to_string(), "secret".to_string()),
            symbol: instrument().symbol,
            skip: Vec::new(),
            patience_ns: 30 * Nanos::SECOND,
            keep_going: false,
        };
        World {
            root,
            edge,
            certifier: Certifier::new(config).expect("short"),
            client: load(protocol, fault, seconds),
            fault,
            now: START.0,
            count: 0,
            events: BTreeMap::new(),
            ends: BTreeMap::new(),
            out: Outbox::default(),
            in_call: false,
        }
    }

    /// Until the certifier is done.
    pub fn certify(mut self) -> Report {
        for _ in 0..5_000_000 {
            if self.certifier.is_done() {
                return self.certifier.report();
            }
            self.step();
        }
        panic!("stuck in {:?}: {:?}", self.certifier.current(), self.certifier.finished());
    }

    fn node(&mut self, place: usize) -> &mut dyn Node {
        match place {
            0 => &mut self.root,
            1 => &mut self.edge,
            2 => &mut self.certifier,
            _ => &mut self.client,
        }
    }

    fn step(&mut self) {
        if self.certifier.current() == Some(certify::Step::Logout) {
            self.client.stop();
        }
        let timers: Vec<u64> = (0..4).map(|place| self.node(place).next_timeout().0).collect();
        let (place, timer) = timers.iter().enumerate().min_by_key(|(_, at)| **at).expect("four");
        let due = self.events.first_key_value().map_or(u64::MAX, |(&(at, _), _)| at);
        self.now = self.now.max((*timer).min(due));
        let now = ClockReading { now: Nanos(self.now), bound_ns: 0 };
        let mut out = std::mem::take(&mut self.out);
        if self.certifier.wants_call() != self.in_call {
            self.in_call = !self.in_call;
            let phase = if self.in_call { Phase::VolatilityCall } else { Phase::Continuous };
            let command = exchange::set_phase(InstrumentId(0), phase);
            self.root.with_root(&mut out, |root, out| root.operator(now, command, out));
            self.carry_out(0, &out);
            out.clear();
        }
        let event = self.events.first_entry().filter(|_| due <= *timer).map(|entry| entry.remove());
        let place = match event {
            None => {
                self.node(place).handle_timeout(now, &mut out);
                place
            }
            Some(Event::Connected(place, conn)) => {
                self.node(place).handle_connect(now, conn, &mut out);
                place
            }
            Some(Event::Bytes(place, conn, bytes)) => {
                if self.ends.contains_key(&(place, conn)) {
                    self.node(place).handle_stream(now, conn, &bytes, &mut out);
                }
                place
            }
            Some(Event::Closed(place, conn)) => {
                if self.ends.remove(&(place, conn)).is_some() {
                    self.node(place).handle_close(now, conn, &mut out);
                }
                place
            }
            Some(Event::Datagram(place, from, bytes)) => {
                let from = Peer::Node(from);
                self.node(place).handle_datagram(now, Channel::OVERLAY, from, &bytes, &mut out);
                place
            }
        };
        self.carry_out(place, &out);
        out.clear();
        self.out = out;
    }

    fn later(&mut self, event: Event) {
        self.count += 1;
        self.events.insert((self.now + DELAY_NS, self.count), event);
    }

    fn carry_out(&mut self, place: usize, out: &Outbox) {
        for op in out.ops() {
            match *op {
                Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(to), bytes } => {
                    let (to, from) = (usize::from(to.0), NodeId(place as u16));
                    self.later(Event::Datagram(to, from, out.bytes(bytes).to_vec()));
                }
                Op::Datagram { .. } | Op::Work { .. } => {}
                Op::Stream { conn, bytes } => {
                    let Some(&(to, name)) = self.ends.get(&(place, conn)) else { continue };
                    let bytes = self.spoiled(place, out.bytes(bytes));
                    self.later(Event::Bytes(to, name, bytes));
                }
                Op::Connect { conn, to } => {
                    let (other, door) = match to {
                        OUCH => (1, 0u32),
                        FIX => (1, 1),
                        _ => (2, 0),
                    };
                    self.count += 1;
                    let name = ConnId(1 << 31 | door << ConnId::DOOR_SHIFT | self.count as u32);
                    self.ends.insert((place, conn), (other, name));
                    self.ends.insert((other, name), (place, conn));
                    self.later(Event::Connected(other, name));
                    self.later(Event::Connected(place, conn));
                }
                Op::Close { conn } => {
                    if let Some((to, name)) = self.ends.remove(&(place, conn)) {
                        self.later(Event::Closed(to, name));
                    }
                }
            }
        }
    }

    /// What the client says, with its fault.
    fn spoiled(&self, place: usize, bytes: &[u8]) -> Vec<u8> {
        let step = self.certifier.current();
        if place != CLIENT {
            return bytes.to_vec();
        }
        if step == Some(certify::Step::Trigger) && self.fault != Fault::HasNoStops {
            return altered(bytes, "35=D", stop);
        }
        let silent = step == Some(certify::Step::Heartbeats);
        match self.fault {
            Fault::FallsSilent if silent => Vec::new(),
            Fault::AsksForAll if bytes.get(2) == Some(&b'L') => {
                let mut login = bytes.to_vec();
                login[29..49].copy_from_slice(b"                   1");
                login
            }
            Fault::IgnoresGaps => altered(bytes, "35=2", heartbeat),
            Fault::ForgetsTest => altered(bytes, "35=0", heartbeat),
            _ => bytes.to_vec(),
        }
    }
}

/// The fields of a heartbeat in place of another message.
fn heartbeat(fields: &[&str]) -> Vec<String> {
    let kept = |field: &&&str| ["34=", "49=", "52=", "56="].iter().any(|t| field.starts_with(t));
    let kept = fields.iter().filter(kept).map(ToString::to_string);
    std::iter::once("35=0".to_string()).chain(kept).collect()
}

/// The fields of a stop order in place of a limit order: its price is the stop price.
fn stop(fields: &[&str]) -> Vec<String> {
    let field = |field: &&str| match *field {
        "40=2" => "40=3".to_string(),
        price => price.strip_prefix("44=").map_or(price.to_string(), |at| format!("99={at}")),
    };
    fields.iter().map(field).collect()
}

/// The messages, those of a type with other fields between length and sum.
fn altered(bytes: &[u8], kind: &str, with: impl Fn(&[&str]) -> Vec<String>) -> Vec<u8> {
    let mut framer = Framer::new(1 << 16);
    framer.push(bytes);
    let mut all = Vec::new();
    while let Some(Frame::Message(message)) = framer.next_frame() {
        let text = String::from_utf8_lossy(message).into_owned();
        let fields: Vec<&str> = text.split_terminator('\x01').collect();
        if !fields.contains(&kind) {
            all.extend_from_slice(message);
            continue;
        }
        let body = with(&fields[2..fields.len() - 1]).join("\x01") + "\x01";
        let mut whole = format!("{}\x019={}\x01{body}", fields[0], body.len());
        let sum = whole.bytes().fold(0u8, |sum, byte| sum.wrapping_add(byte));
        whole.push_str(&format!("10={sum:03}\x01"));
        all.extend(whole.bytes());
    }
    all
}
