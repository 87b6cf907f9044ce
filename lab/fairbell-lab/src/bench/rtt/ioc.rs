//! Orders that are immediate or cancel through the FIX door, each stamped on its way there and back.
//!
//! Nothing rests in the book, so every order is accepted and cancelled at once: the commonest request of a
//! currency market. All stamps are of one machine's clock. The client's are its own, those
//! between are of the exchange's log: when the gateway had the request, and when the engine took it.
//! The floor is a bare echo over TCP with the bytes of these messages, in the same run.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use exchange::{Role, Timetable};
use fix::encode::{Pen, Writer};
use fix::value::Places;
use fix::{FieldIndex, Frame, Framer, tag};
use host::config::Config;
use host::deployment::{exchange_config, overlay_options};
use host::failure::Failure;
use host::sockets::io;
use net::{Clock, Directory, Loop, LoopConfig};
use types::{ClockReading, CommandKind, ConnId, Nanos, Node, NodeId, Outbox, Peer, Price};

use super::system::System;
use super::{CLIENT, RttArgs, RttPath, floor_slice, panicked, wait_for, wait_strategy};
use fairbell::load::ProtocolName;
use fairbell::options::Switch;

/// What is played.
#[derive(Clone, Copy, Debug)]
pub struct IocFlow {
    /// Orders a second, all clients together, open loop; at least 1.
    pub rate: u64,
    /// How long they are played, ns.
    pub duration_ns: u64,
    /// FIX sessions; 1 to 900.
    pub clients: usize,
    /// Bytes of an order, about: its text is as long as that takes; 0: no text.
    pub bytes: usize,
    /// Time that the exchange's thread takes more for each order, ns.
    pub matching_delay_ns: u64,
    /// The exchange has the first core that this process may use for itself, the clients have the second, where
    /// there are two.
    pub pinned: bool,
}

impl IocFlow {
    /// Why nothing would be measured, if it is so.
    pub fn lack(&self) -> Option<String> {
        let (rate, second) = (u128::from(self.rate.max(1)), u128::from(Nanos::SECOND));
        let planned = rate * u128::from(self.duration_ns) / second;
        if planned < self.clients as u128 {
            return Some(format!("{planned} orders are fewer than {} clients", self.clients));
        }
        let warm_up = warm_up_ns(self.duration_ns);
        let last_due = planned.saturating_sub(1) * second / rate;
        (last_due < u128::from(warm_up)).then(|| {
            let ms = warm_up / Nanos::MILLI;
            format!("the last order is due within the first {ms} ms, which are not measured")
        })
    }

    /// So many orders a second by eight clients.
    pub const fn of(rate: u64, duration_ns: u64) -> IocFlow {
        IocFlow { rate, duration_ns, clients: 8, bytes: 0, matching_delay_ns: 0, pinned: false }
    }
}

/// Stamps of a request, ns of the same clock.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stamps {
    /// When the timetable wanted it to go.
    pub due: u64,
    /// Written by the client.
    pub sent: u64,
    /// At the gateway.
    pub at_gateway: u64,
    /// Taken by the engine.
    pub at_engine: u64,
    /// The bytes of its last report at the client.
    pub heard: u64,
    /// Told to the client's program: cancelled.
    pub completed: u64,
}

impl Stamps {
    /// From the timetable to the end, ns.
    pub fn total(&self) -> u64 {
        self.completed.saturating_sub(self.due)
    }

    /// The five stages, ns: waiting for the sender, to the gateway, to the engine, back, reading.
    pub fn stages(&self) -> [u64; 5] {
        let all =
            [self.due, self.sent, self.at_gateway, self.at_engine, self.heard, self.completed];
        std::array::from_fn(|at| all[at + 1].saturating_sub(all[at]))
    }
}

/// What came of it.
pub struct IocFound {
    /// Of every order after the warm-up.
    pub stamps: Vec<Stamps>,
    /// Round trips of the floor, ns, sorted.
    pub floor: Vec<u64>,
    /// Mean bytes of a request, and of all that answers it.
    pub bytes: [usize; 2],
}

/// Answers to what was due within this time after the start are not counted.
const WARM_UP_NS: u64 = 200 * Nanos::MILLI;

/// As much of so long a run is not counted.
fn warm_up_ns(duration_ns: u64) -> u64 {
    WARM_UP_NS.min(duration_ns / 4)
}

/// How long logins may take, on a machine with other work, too.
const LOGIN: Duration = Duration::from_secs(60);
/// Clients of which the default accounts are too few: so many more.
pub(crate) const CLIENTS_MAX: usize = 900;

/// Names of a session.
#[derive(Clone)]
struct Login {
    sender: String,
    target: String,
    username: String,
    password: String,
}

struct Session {
    login: Login,
    framer: Framer,
    next_out: u64,
    logged_on: bool,
    sent: Vec<u32>,
}

/// All clients: one node.
struct Clients {
    flow: IocFlow,
    clock: Clock,
    door: Peer,
    sessions: Vec<Session>,
    symbol: Vec<u8>,
    begun: bool,
    start: Option<Nanos>,
    next: u64,
    /// By order.
    stamps: Vec<Stamps>,
    open: u64,
    refused: u64,
    /// What the first refusal said.
    why: Option<String>,
    bytes: [u64; 2],
    /// Text of the orders, as long as they lack bytes.
    text: Vec<u8>,
    pen: Pen,
    index: FieldIndex,
    scratch: Vec<u8>,
}

impl Clients {
    fn new(flow: IocFlow, clock: Clock, door: Peer, logins: Vec<Login>, symbol: &[u8]) -> Clients {
        let planned = flow.rate * flow.duration_ns / Nanos::SECOND;
        let session = |login| Session {
            login,
            framer: Framer::new(16 << 10),
            next_out: 1,
            logged_on: false,
            sent: Vec::new(),
        };
        Clients {
            flow,
            clock,
            door,
            sessions: logins.into_iter().map(session).collect(),
            symbol: symbol.to_vec(),
            begun: false,
            start: None,
            next: 0,
            stamps: vec![Stamps::default(); planned as usize],
            open: 0,
            refused: 0,
            why: None,
            bytes: [0; 2],
            text: Vec::new(),
            pen: Pen::default(),
            index: FieldIndex::default(),
            scratch: Vec::new(),
        }
    }

    fn planned(&self) -> u64 {
        self.stamps.len() as u64
    }

    fn is_done(&self) -> bool {
        self.start.is_some() && self.next == self.planned() && self.open == 0
    }

    fn due(&self) -> Nanos {
        match self.start {
            Some(start) if self.next < self.planned() => {
                start.after(self.next * Nanos::SECOND / self.flow.rate.max(1))
            }
            _ => Nanos::NEVER,
        }
    }

    fn message(
        &mut self,
        at: usize,
        now: Nanos,
        kind: &[u8],
        out: &mut Outbox,
        build: impl FnOnce(&mut Writer<'_>, &[u8], &Login),
    ) {
        let Clients { sessions, symbol, pen, scratch, .. } = self;
        let Some(session) = sessions.get_mut(at) else { return };
        scratch.clear();
        let mut writer = Writer::message(scratch, pen, "FIX.4.4", kind);
        writer.uint(tag::MSG_SEQ_NUM, session.next_out);
        writer.foreign(tag::SENDER_COMP_ID, session.login.sender.as_bytes());
        writer.stamp(tag::SENDING_TIME, now);
        writer.foreign(tag::TARGET_COMP_ID, session.login.target.as_bytes());
        build(&mut writer, symbol, &session.login);
        writer.finish();
        session.next_out += 1;
        let bytes = out.store(scratch);
        out.stream(ConnId(at as u32), bytes);
    }

    fn order(&mut self, now: Nanos, due: Nanos, out: &mut Outbox) {
        let number = self.next;
        self.next += 1;
        let at = (number % self.sessions.len() as u64) as usize;
        let text = std::mem::take(&mut self.text);
        self.message(at, now, b"D", out, |writer, symbol, _| {
            writer.text(tag::CL_ORD_ID, format!("I{number}").as_bytes());
            writer.text(tag::SYMBOL, symbol);
            // Both sides, apart from each other: nothing ever trades.
            let (side, price) =
                if number.is_multiple_of(2) { (b'1', 9_999) } else { (b'2', 10_001) };
            writer.char(tag::SIDE, side);
            writer.stamp(tag::TRANSACT_TIME, now);
            writer.uint(tag::ORDER_QTY, 1);
            writer.char(tag::ORD_TYPE, b'2');
            writer.decimal(tag::PRICE, Price::from_whole(price).0, Places::Four);
            writer.char(tag::TIME_IN_FORCE, b'3');
            if !text.is_empty() {
                writer.text(tag::TEXT, &text);
            }
        });
        self.text = text;
        if number == 0 {
            // Of the first one, which has no text, the others know what they lack: `58=`, it and its end.
            let lacking = self.flow.bytes.saturating_sub(self.scratch.len() + 4);
            self.text = vec![b'x'; lacking];
        }
        self.bytes[0] += self.scratch.len() as u64;
        self.open += 1;
        if let Some(session) = self.sessions.get_mut(at) {
            session.sent.push(number as u32);
        }
        let sent = self.clock.now().0;
        if let Some(stamps) = self.stamps.get_mut(number as usize) {
            (stamps.due, stamps.sent) = (due.0, sent);
        }
    }

    /// A whole message of a session.
    fn take(&mut self, at: usize, heard: Nanos, message: &[u8], out: &mut Outbox) {
        let mut index = std::mem::take(&mut self.index);
        let mut beat = None;
        if let Ok(message) = index.parse(message) {
            let exec = message.get(tag::EXEC_TYPE.number);
            let number = message.get(tag::CL_ORD_ID.number).and_then(|id| id.strip_prefix(b"I"));
            let number = number.and_then(fix::value::uint);
            match message.msg_type() {
                b"A" => {
                    if let Some(session) = self.sessions.get_mut(at) {
                        session.logged_on = true;
                    }
                }
                b"1" => beat = message.get(tag::TEST_REQ_ID.number).map(<[u8]>::to_vec),
                b"8" if exec == Some(b"4") || exec == Some(b"C") || exec == Some(b"8") => {
                    let done = self.clock.now().0;
                    let stamps = number.and_then(|number| self.stamps.get_mut(number as usize));
                    if let Some(stamps) = stamps.filter(|stamps| stamps.completed == 0) {
                        (stamps.heard, stamps.completed) = (heard.0, done);
                        self.open -= 1;
                        if exec == Some(b"8") {
                            self.refused += 1;
                            let text = message.get(tag::TEXT.number).unwrap_or(b"without a reason");
                            let text = || String::from_utf8_lossy(text).into_owned();
                            self.why.get_or_insert_with(text);
                        }
                    }
                }
                _ => {}
            }
        }
        self.index = index;
        if let Some(id) = beat {
            self.message(at, heard, b"0", out, |writer, _, _| {
                writer.foreign(tag::TEST_REQ_ID, &id)
            });
        }
        if self.start.is_none() && self.sessions.iter().all(|session| session.logged_on) {
            self.start = Some(heard.after(100 * Nanos::MILLI));
        }
    }
}

impl Node for Clients {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.begun {
            self.begun = true;
            (0..self.sessions.len()).for_each(|at| out.connect(ConnId(at as u32), self.door));
        }
        while self.due() <= now.now {
            let due = self.due();
            self.order(now.now, due, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        if self.begun { self.due() } else { Nanos(0) }
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.message(conn.0 as usize, now.now, b"A", out, |writer, _, login| {
            writer.uint(tag::ENCRYPT_METHOD, 0);
            writer.uint(tag::HEART_BT_INT, 60);
            writer.flag(tag::RESET_SEQ_NUM_FLAG, true);
            writer.foreign(tag::USERNAME, login.username.as_bytes());
            writer.foreign(tag::PASSWORD, login.password.as_bytes());
        });
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let at = conn.0 as usize;
        if self.start.is_some() {
            self.bytes[1] += bytes.len() as u64;
        }
        let Some(session) = self.sessions.get_mut(at) else { return };
        let mut framer = std::mem::replace(&mut session.framer, Framer::new(0));
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = framer.push(rest);
            rest = rest.get(taken..).unwrap_or(&[]);
            let mut whole = Vec::new();
            while let Some(frame) = framer.next_frame() {
                if let Frame::Message(message) = frame {
                    whole.push(message.to_vec());
                }
            }
            whole.iter().for_each(|message| self.take(at, now.now, message, out));
            if taken == 0 {
                break;
            }
        }
        if let Some(session) = self.sessions.get_mut(at) {
            session.framer = framer;
        }
    }
}

/// The accounts of so many clients, and room for all of them at once: they log in together, from one address.
fn accounts(config: &mut Config, clients: usize) -> Result<(), Failure> {
    let doors = &mut config.doors;
    let room = clients as u64;
    doors.half_open = doors.half_open.max(room);
    doors.half_open_per_address = doors.half_open_per_address.max(room);
    let all = &mut config.accounts.0;
    let model = all.first().cloned().filter(|_| (1..=CLIENTS_MAX).contains(&clients));
    let model = model.ok_or_else(|| Failure::Usage(format!("1 to {CLIENTS_MAX} clients")))?;
    while all.len() < clients {
        let number = all.len() + 1;
        let (name, username) = (format!("lab client {number}"), format!("LC{number:04}"));
        all.push(host::config::AccountEntry { name, username, ..model.clone() });
    }
    for (number, account) in all.iter_mut().enumerate() {
        account.fix_comp_id = format!("CLIENT{:04}", number + 1);
    }
    Ok(())
}

/// Plays a flow through gateway and engine, then its floor.
///
/// # Errors
/// Sockets; a login that is refused; orders without their answer.
pub fn measure(flow: IocFlow) -> Result<IocFound, Failure> {
    let (args, mut found) = without_floor(flow)?;
    let floor_ns = flow.duration_ns.min(10 * Nanos::SECOND);
    let floor = floor_slice(&args, floor_ns, found.bytes, 0)?;
    found.floor = (0..=1_000).map(|part| floor.quantile(f64::from(part) / 1e3)).collect();
    Ok(found)
}

/// Plays a flow through gateway and engine alone; [`IocFound::floor`] stays empty.
///
/// # Errors
/// As [`measure`].
pub fn without_floor(flow: IocFlow) -> Result<(RttArgs, IocFound), Failure> {
    let args = RttArgs {
        duration: Duration::from_nanos(flow.duration_ns),
        rate: flow.rate,
        protocol: ProtocolName::Fix,
        path: RttPath::Engine,
        sealed: Switch::On,
        no_bar: true,
        strict: false,
        json: true,
    };
    let mut system = System::new(&args);
    accounts(system.config_mut(), flow.clients)?;
    let (stamps, bytes) = play(&system, flow)?;
    Ok((args, IocFound { stamps, floor: Vec::new(), bytes }))
}

/// Has the calling thread run on the n-th core of those it may, if there are two.
fn stay_on(pinned: bool, n: usize) {
    let cores = host::core::allowed().unwrap_or_default();
    if let Some(core) = cores.get(n).filter(|_| pinned && cores.len() > 1) {
        let _ = host::core::take("a thread of the measurement", *core as u16);
    }
}

fn play(system: &System, flow: IocFlow) -> Result<(Vec<Stamps>, [usize; 2]), Failure> {
    let config = system.config();
    let clock = Clock::start(config.hold.clock_bound_ns);
    let mut exchange = exchange_config(config, &clock);
    exchange.options.secret = overlay_options(config)?.secret;
    // Nothing is immediate in an opening auction.
    exchange.timetable = Timetable::open_at_once();
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
    let (mut inside, entries) = system.exchange(clock, &exchange, &sink)?;
    let door = entries.first().copied().ok_or_else(|| Failure::Run("no door".to_string()))?;
    if flow.matching_delay_ns > 0 {
        delay(&mut inside, Duration::from_nanos(flow.matching_delay_ns));
    }
    let login = |account: &host::config::AccountEntry| Login {
        sender: account.fix_comp_id.clone(),
        target: config.gateway.fix_comp_id.clone(),
        username: account.username.clone(),
        password: account.password.clone(),
    };
    let logins = config.accounts.0.iter().take(flow.clients).map(login).collect();
    let symbol = config.instruments().first().map(|of| of.symbol.0.trim_ascii_end().to_vec());
    let symbol = symbol.ok_or_else(|| Failure::Run("no instrument is configured".to_string()))?;
    let clients = Clients::new(flow, clock, door, logins, &symbol);
    let habits = LoopConfig { wait: wait_strategy(RttPath::Engine), ..LoopConfig::default() };
    let mut outside = Loop::new(clock, Arc::new(Directory::default()), habits).map_err(io)?;
    outside.add_node(CLIENT, clients, Vec::new(), None).map_err(io)?;
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (nodes, clients) = thread::scope(|scope| {
        let inside: Vec<_> = inside
            .into_iter()
            .map(|of| {
                scope.spawn(|| {
                    stay_on(flow.pinned, 0);
                    of.run(&stop, Duration::from_secs(1), |_, _| ())
                })
            })
            .collect();
        let outside = scope.spawn(|| {
            stay_on(flow.pinned, 1);
            let begun = Instant::now();
            outside.run(&stop, Duration::from_millis(20), |of, _| {
                let over = of.nodes().all(|(_, clients)| {
                    clients.is_done() || clients.start.is_none() && begun.elapsed() > LOGIN
                });
                done.store(over, Ordering::Relaxed);
            })
        });
        wait_for(&done, flow.duration_ns);
        stop.store(true, Ordering::Relaxed);
        let mut nodes = Vec::new();
        for of in inside {
            nodes.extend(of.join().map_err(|_| panicked())?.map_err(io)?);
        }
        let clients = outside.join().map_err(|_| panicked())?.map_err(io)?;
        Ok::<_, Failure>((nodes, clients))
    })?;
    let clients = clients.into_iter().next().ok_or_else(panicked)?.1;
    if !clients.is_done() || clients.refused > 0 {
        let on = clients.sessions.iter().filter(|session| session.logged_on).count();
        return Err(Failure::Run(format!(
            "{} of {} orders without their answer, {} refused{}, {on} of {} sessions logged on",
            clients.planned() - clients.next + clients.open,
            clients.planned(),
            clients.refused,
            clients.why.as_ref().map_or(String::new(), |why| format!(" ({why})")),
            clients.sessions.len()
        )));
    }
    let mean = |bytes: u64| (bytes / clients.planned().max(1)) as usize;
    let bytes = clients.bytes.map(mean);
    let stamps = joined(clients, &nodes)?;
    let warm = stamps.first().map_or(0, |first| first.due + warm_up_ns(flow.duration_ns));
    Ok((stamps.into_iter().filter(|stamps| stamps.due >= warm).collect(), bytes))
}

/// Has the exchange's loops spin for so long after each order that was logged.
fn delay(loops: &mut [Loop<Role>], by: Duration) {
    for of in loops {
        let mut known = 0;
        of.after_each_call(move |role| {
            let Some(root) = role.as_root() else { return };
            let logged = root.log().len();
            let begun = Instant::now();
            let more = u32::try_from(logged.saturating_sub(known)).unwrap_or(u32::MAX);
            while begun.elapsed() < by.saturating_mul(more) {
                std::hint::spin_loop();
            }
            known = logged;
        });
    }
}

/// The client's stamps with those of the log: the n-th order of an account there is the n-th of its client.
fn joined(clients: Clients, nodes: &[(NodeId, Role)]) -> Result<Vec<Stamps>, Failure> {
    let root = nodes.iter().find_map(|(_, role)| role.as_root());
    let root = root.ok_or_else(|| Failure::Run("no root".to_string()))?;
    let mut logged: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
    for input in root.log().iter().filter(|of| of.command.kind == CommandKind::NewOrder) {
        let times = (input.t_in.0, input.t_seq.0);
        logged.entry(input.command.account.0).or_default().push(times);
    }
    let mut stamps = clients.stamps;
    for (session, times) in clients.sessions.iter().zip(logged.values()) {
        if session.sent.len() != times.len() {
            return Err(Failure::Run(format!(
                "a client sent {} orders, the log has {}",
                session.sent.len(),
                times.len()
            )));
        }
        for (number, (gateway, engine)) in session.sent.iter().zip(times) {
            if let Some(stamps) = stamps.get_mut(*number as usize) {
                (stamps.at_gateway, stamps.at_engine) = (*gateway, *engine);
            }
        }
    }
    match logged.len() == clients.sessions.len() {
        true => Ok(stamps),
        false => Err(Failure::Run("not every client is in the log".to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn median(found: &IocFound) -> u64 {
        let mut all: Vec<u64> = found.stamps.iter().map(Stamps::total).collect();
        all.sort_unstable();
        all[all.len() / 2]
    }

    #[test]
    fn every_order_has_all_its_stamps_in_order_and_a_slower_engine_shows() {
        let flow = IocFlow { clients: 3, ..IocFlow::of(500, 800 * Nanos::MILLI) };
        let found = measure(flow).expect("sockets");
        assert_eq!(found.stamps.len() as u64, flow.rate * 600 / 1_000);
        for of in &found.stamps {
            let order = [of.due, of.sent, of.at_gateway, of.at_engine, of.heard, of.completed];
            assert!(order.is_sorted() && of.due > 0, "{of:?}");
            assert_eq!(of.stages().iter().sum::<u64>(), of.total());
        }
        assert!(found.bytes[0] > 100 && found.bytes[1] > 200, "{:?}", found.bytes);
        // Each order is logged behind a millisecond of spinning: that is in its own stamps, or in the next one's.
        let slow = IocFlow { matching_delay_ns: 10_000_000, ..flow };
        let slow = IocFlow { rate: 50, ..slow };
        let slowed = measure(slow).expect("sockets");
        assert!(median(&slowed) > 5_000_000, "{} {}", median(&slowed), median(&found));
    }

    #[test]
    fn orders_are_as_long_as_they_are_to_be_and_pinning_changes_nothing_else() {
        let usual = IocFlow::of(500, 400 * Nanos::MILLI);
        let long = IocFlow { bytes: 400, pinned: true, ..usual };
        let (_, found) = without_floor(long).expect("sockets");
        assert!((395..=405).contains(&found.bytes[0]), "{:?}", found.bytes);
        assert!(found.floor.is_empty() && found.stamps.iter().all(|of| of.completed > of.due));
        let (_, short) = without_floor(usual).expect("sockets");
        assert!(short.bytes[0] < 200, "control: without a text {:?}", short.bytes);
    }

    #[test]
    fn no_client_and_too_many_are_refused() {
        let flow = IocFlow { clients: 0, ..IocFlow::of(10, 1) };
        assert!(matches!(measure(flow), Err(Failure::Usage(_))));
        let many = IocFlow { clients: CLIENTS_MAX + 1, ..flow };
        assert!(matches!(measure(many), Err(Failure::Usage(_))));
    }
}
