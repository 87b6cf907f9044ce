//! Many WebSockets at once, each asking and hearing at its own rate, beside one OUCH session of the same run.
//!
//! Clients live in one loop. Every message has a time at which it is due and a name; its answer is timed
//! from that time, so that a door that falls behind shows. Orders are limit orders far from one another,
//! each cancelled by the next message of its client; the other messages are pings. Each client follows the
//! book, which the OUCH session changes, and counts updates that are missing by their `prev_seq`.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use host::failure::Failure;
use host::sockets::io;
use net::{Directory, Loop, LoopConfig, peer_addr};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use telemetry::Recorder;
use types::{ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Price, Side};

use super::client::{UPGRADE, auth, first_frame, frame, rest};
use super::venue::{DOOR_THREAD, EXCHANGE_THREAD, NODE_THREAD, PASSWORD, Terms, Venue, named};
use crate::attack::line::{Line, Login, Ouch};
use crate::resident::resident;
use fairbell::report::numbers::{grouped, micros};

/// Options of `fairbell-lab web load`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab web load                                 1,000 clients, a message a second each\n  \
    fairbell-lab web load --clients 1000 --total-rate 200  as many of all together\n  \
    fairbell-lab web load --clients 1000 --rate 200 --seconds 30\n  \
    fairbell-lab web load --clients 50 --control          loses updates and keeps what it hears: has to be found out\n  \
    fairbell-lab web load --clients 50 --rate 20 --orders 2 --json")]
pub struct LoadArgs {
    /// WebSockets
    #[arg(long, value_name = "N", default_value_t = 1_000,
          value_parser = clap::value_parser!(u32).range(1..=1_500))]
    pub clients: u32,
    /// Messages of each in a second
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rate: u32,
    /// Messages of all of them together in a second, instead of --rate
    #[arg(long, value_name = "N", conflicts_with = "rate",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub total_rate: Option<u32>,
    /// Every so manieth message is an order, the one after it its cancel; 0: none
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub orders: u32,
    /// Seconds
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Have the door skip updates, and keep memory for each message heard: both have to be found out
    #[arg(long)]
    pub control: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl LoadArgs {
    /// Between two messages of a client, ns.
    fn period_ns(&self) -> u64 {
        match self.total_rate {
            Some(all) => Nanos::SECOND * u64::from(self.clients) / u64::from(all),
            None => Nanos::SECOND / u64::from(self.rate),
        }
    }
}

const CLIENTS: NodeId = NodeId(1);
/// Accounts that the clients share.
const ACCOUNTS: u16 = 8;
/// Connections opened in a step, and between two steps.
const STEP: u32 = 20;
const STEP_NS: u64 = 20 * Nanos::MILLI;
/// For what is under way at the end, after the last answer.
const REST: Duration = Duration::from_secs(10);
/// Bytes by which the process may grow, clients included, however many messages there are.
pub const GROWN_MAX: u64 = 64 << 20;
/// Bytes beyond that for each request in the engine's log: the log itself, the orders of its account.
const GROWN_PER_REQUEST: u64 = 2_048;
/// Bytes that the control keeps of each message heard.
const CONTROL_KEEPS: usize = 8 << 10;
/// Between two orders of the OUCH session.
const PACE: Duration = Duration::from_millis(5);

/// How far a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Connecting,
    Upgrading,
    Proving,
    Up,
    Gone,
}

struct Client {
    stage: Stage,
    heard: Vec<u8>,
    /// When its next message is due.
    due: Nanos,
    /// Messages sent.
    sent: u64,
    /// Its order that rests.
    order: Option<u64>,
    /// Messages without an answer: when they were due.
    asked: HashMap<u64, Nanos>,
    /// Where its book stands.
    book: Option<u64>,
}

/// What of a message from the door matters here.
#[derive(Deserialize)]
struct Told<'a> {
    channel: &'a str,
    id: Option<u64>,
    seq: Option<u64>,
    prev_seq: Option<u64>,
    error: Option<IgnoredAny>,
}

/// What was seen, by all clients together.
#[derive(Default)]
pub struct Seen {
    /// Messages sent.
    pub sent: u64,
    /// Requests that were answered before the end of the run.
    pub answered: u64,
    /// Answers that were refusals.
    pub refused: u64,
    /// The first of them.
    pub refusal: Option<String>,
    /// Updates, heartbeats and others that nobody asked for.
    pub told: u64,
    /// Updates of the book among them.
    pub updates: u64,
    /// Times that an update was missing before one, or that a client was told to be too slow.
    pub gaps: u64,
    /// Connections that ended.
    pub gone: u64,
}

struct Clients {
    door: Peer,
    clients: Vec<Client>,
    opened: u32,
    next_open: Nanos,
    period_ns: u64,
    orders: u32,
    symbol: String,
    /// From when on messages go; nobody is up before.
    begin: Nanos,
    end: Nanos,
    /// The earliest of what is due, as of the last look.
    next_due: Nanos,
    seen: Seen,
    way: Recorder,
    buffer: Vec<u8>,
    /// What the control keeps; `None`: it is none.
    kept: Option<Vec<Vec<u8>>>,
}

fn key(client: u32) -> String {
    let (account, key) = (client % u32::from(ACCOUNTS) + 2, client / u32::from(ACCOUNTS) + 1);
    if key == 1 { format!("K{account}") } else { format!("K{account}.{key}") }
}

impl Clients {
    fn ask(&mut self, conn: ConnId, out: &mut Outbox) {
        let (orders, symbol) = (u64::from(self.orders), self.symbol.clone());
        let Some(client) = self.clients.get_mut(conn.0 as usize) else { return };
        let number = client.sent;
        client.sent += 1;
        let name = |number: u64| format!("{}-{number}", conn.0);
        let message = match client.order.take() {
            Some(order) => json!({ "op": "cancel", "id": number, "order": name(order) }),
            None if orders > 0 && number.is_multiple_of(orders) => {
                client.order = Some(number);
                // Buyers below and sellers above, so that nothing trades.
                let (side, price) = match conn.0 % 2 {
                    0 => ("buy", 10 + conn.0),
                    _ => ("sell", 100_000 + conn.0),
                };
                json!({
                    "op": "new", "id": number, "client_order_id": name(number), "symbol": symbol,
                    "side": side, "price": price.to_string(), "qty": "1",
                })
            }
            None => json!({ "op": "ping", "id": number }),
        };
        client.asked.insert(number, client.due);
        client.due = Nanos(client.due.0 + self.period_ns);
        self.seen.sent += 1;
        let span = out.store(&frame(message.to_string().as_bytes()));
        out.stream(conn, span);
    }

    fn told(&mut self, now: Nanos, conn: ConnId, text: &[u8], out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(conn.0 as usize) else { return };
        let Ok(told) = serde_json::from_slice::<Told<'_>>(text) else { return };
        if client.stage == Stage::Proving && told.channel == "ok" {
            client.stage = Stage::Up;
            let wants = json!({
                "op": "subscribe", "channels": ["book", "ticker"], "symbols": [self.symbol],
            });
            let span = out.store(&frame(wants.to_string().as_bytes()));
            out.stream(conn, span);
            return;
        }
        if let Some(kept) = &mut self.kept {
            kept.push(vec![1; CONTROL_KEEPS]);
        }
        if let Some(due) = told.id.and_then(|id| client.asked.remove(&id)) {
            self.seen.answered += 1;
            self.way.record(now.0.saturating_sub(due.0));
            if told.error.is_some() {
                self.seen.refused += 1;
                let text = || String::from_utf8_lossy(text).into_owned();
                self.seen.refusal.get_or_insert_with(text);
            }
            return;
        }
        self.seen.told += 1;
        match (told.channel, told.prev_seq) {
            ("book", None) => client.book = told.seq,
            // One that the snapshot has already is passed over.
            ("book", Some(before)) if told.seq > client.book => {
                self.seen.updates += 1;
                self.seen.gaps += u64::from(client.book != Some(before));
                client.book = told.seq;
            }
            ("resync_required", _) => self.seen.gaps += 1,
            _ => {}
        }
    }

    fn are_up(&self) -> bool {
        self.clients.iter().all(|client| client.stage == Stage::Up)
    }

    fn unanswered(&self) -> u64 {
        self.clients.iter().map(|client| client.asked.len() as u64).sum()
    }

    /// Messages without an answer, and clients that have more to send.
    fn under_way(&self) -> u64 {
        let more = |client: &&Client| client.stage == Stage::Up && client.due < self.end;
        self.unanswered() + self.clients.iter().filter(more).count() as u64
    }
}

impl Node for Clients {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.next_open <= now.now && (self.opened as usize) < self.clients.len() {
            let until = (self.opened + STEP).min(self.clients.len() as u32);
            (self.opened..until).for_each(|conn| out.connect(ConnId(conn), self.door));
            self.opened = until;
            self.next_open = now.now.after(STEP_NS);
        }
        if self.next_due > now.now {
            return;
        }
        for conn in 0..self.clients.len() as u32 {
            while self.clients.get(conn as usize).is_some_and(|client| {
                client.stage == Stage::Up && client.due <= now.now && client.due < self.end
            }) {
                self.ask(ConnId(conn), out);
            }
        }
        let due = self.clients.iter().filter(|of| of.stage == Stage::Up && of.due < self.end);
        self.next_due = due.map(|client| client.due).min().unwrap_or(Nanos::NEVER);
    }

    fn next_timeout(&self) -> Nanos {
        let opening = (self.opened as usize) < self.clients.len();
        let open = if opening { self.next_open } else { Nanos::NEVER };
        open.min(self.next_due)
    }

    fn handle_connect(&mut self, _: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(client) = self.clients.get_mut(conn.0 as usize) {
            client.stage = Stage::Upgrading;
            let span = out.store(UPGRADE.as_bytes());
            out.stream(conn, span);
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(conn.0 as usize) else { return };
        client.heard.extend_from_slice(bytes);
        if client.stage == Stage::Upgrading {
            let Some(end) = client.heard.windows(4).position(|part| part == b"\r\n\r\n") else {
                return;
            };
            client.heard.drain(..end + 4);
            client.stage = Stage::Proving;
            let span = out.store(&frame(auth(&key(conn.0), &conn.0.to_string()).as_bytes()));
            out.stream(conn, span);
        }
        let mut heard = std::mem::take(&mut self.buffer);
        std::mem::swap(&mut heard, &mut client.heard);
        let mut taken = 0;
        while let Some((kind, payload, length)) = heard.get(taken..).and_then(first_frame) {
            taken += length;
            if kind == 1 {
                self.told(now.now, conn, payload, out);
            }
        }
        heard.drain(..taken);
        if let Some(client) = self.clients.get_mut(conn.0 as usize) {
            std::mem::swap(&mut heard, &mut client.heard);
        }
        heard.clear();
        self.buffer = heard;
    }

    fn handle_close(&mut self, _: ClockReading, conn: ConnId, _: &mut Outbox) {
        if let Some(client) = self.clients.get_mut(conn.0 as usize) {
            client.stage = Stage::Gone;
            self.seen.gone += 1;
        }
    }
}

/// What came of it.
pub struct Loaded {
    /// Counts of the clients.
    pub seen: Seen,
    /// Messages without an answer at the end.
    pub unanswered: u64,
    /// From the time that a message was due to its answer.
    pub web: Recorder,
    /// Order to acceptance of the OUCH session.
    pub ouch: Recorder,
    /// Orders of the OUCH session that were not accepted.
    pub ouch_lost: u64,
    /// Resident bytes of the process, clients included: when the last client was up, and at the end.
    pub resident: [u64; 2],
    /// Cancels and orders in the engine's log.
    pub logged: u64,
    /// Processor time while messages were sent and answered, ns, by thread: see [`THREADS`].
    pub worked: [u64; 4],
}

/// Threads whose processor time is told: connections of the door, the node behind it, the exchange, the
/// clients.
pub const THREADS: [&str; 4] = [DOOR_THREAD, NODE_THREAD, EXCHANGE_THREAD, CLIENT_THREAD];
const CLIENT_THREAD: &str = "web-clients";

/// Processor time of the threads so far, ns; 0 of one that there is not.
fn worked() -> Result<[u64; 4], Failure> {
    let of = |error| Failure::Run(format!("/proc/self/task: {error}"));
    let mut worked = [0; 4];
    for task in std::fs::read_dir("/proc/self/task").map_err(of)? {
        let task = task.map_err(of)?.path();
        // A thread may end meanwhile.
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let Some(place) = THREADS.iter().position(|of| *of == name.trim()) else { continue };
        let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let ns = text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
        worked[place] += ns.unwrap_or(0);
    }
    Ok(worked)
}

/// Plays it.
///
/// # Errors
/// The exchange can't be started, or clients don't get in.
pub fn load(args: &LoadArgs) -> Result<Loaded, Failure> {
    host::limits::prepare();
    let keys = args.clients.div_ceil(u32::from(ACCOUNTS));
    let mut terms = Terms {
        accounts: ACCOUNTS + 1,
        web_from: 2,
        keys: u16::try_from(keys).unwrap_or(u16::MAX),
        ..Terms::default()
    };
    terms.settings.connections_per_address = terms.settings.connections_max;
    let venue = Venue::start(&terms)?;
    let client = || Client {
        stage: Stage::Connecting,
        heard: Vec::new(),
        due: Nanos::NEVER,
        sent: 0,
        order: None,
        asked: HashMap::new(),
        book: None,
    };
    let node = Clients {
        door: peer_addr(venue.web),
        clients: (0..args.clients).map(|_| client()).collect(),
        opened: 0,
        next_open: Nanos(0),
        period_ns: args.period_ns(),
        orders: args.orders,
        symbol: venue.symbol().as_str().to_string(),
        begin: Nanos::NEVER,
        end: Nanos(0),
        next_due: Nanos::NEVER,
        seen: Seen::default(),
        way: Recorder::new(),
        buffer: Vec::new(),
        kept: args.control.then(Vec::new),
    };
    let mut of = Loop::new(venue.clock, Arc::new(Directory::default()), LoopConfig::default())
        .map_err(io)?;
    of.add_node(CLIENTS, node, Vec::new(), Vec::new()).map_err(io)?;
    let (handle, stop) = (of.handle(), Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop);
    let run = move || of.run(&flag, Duration::from_secs(3_600), |_, _| {});
    let running = named(CLIENT_THREAD, run)?;
    let ask = |what: fn(&Clients) -> u64| -> u64 {
        let (to, from) = std::sync::mpsc::sync_channel(1);
        let _ = handle.call(CLIENTS, move |node: &mut Clients, _, _| {
            let _ = to.send(what(node));
        });
        from.recv_timeout(REST).unwrap_or(u64::MAX)
    };
    let until = Instant::now() + Duration::from_secs(60);
    while ask(|node| u64::from(node.are_up())) != 1 && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
    }
    if args.control {
        let fault = json!({ "fault": "skip", "count": 100 }).to_string();
        let path = ("POST", "/v1/sandbox/faults");
        let told = rest((Ipv4Addr::LOCALHOST, venue.web), "K2", path, &fault);
        told.filter(|(status, _)| *status == 200)
            .ok_or_else(|| Failure::Run("the door sets no fault".to_string()))?;
    }
    let (before, idle) = (resident()?, worked()?);
    let (period, play) = (args.period_ns(), args.seconds * Nanos::SECOND);
    let _ = handle.call(CLIENTS, move |node: &mut Clients, now, _| {
        node.begin = now.now.after(100 * Nanos::MILLI);
        node.end = node.begin.after(play);
        node.next_due = node.begin;
        let count = node.clients.len() as u64;
        for (place, client) in (0u64..).zip(&mut node.clients) {
            // Spread over a period, as clients that know nothing of one another are.
            client.due = node.begin.after(period * place / count.max(1));
        }
    });
    let (ouch, ouch_lost) = trade(&venue, Duration::from_secs(args.seconds))?;
    let (mut left, mut rest) = (u64::MAX, Instant::now() + REST);
    while left > 0 && Instant::now() < rest {
        thread::sleep(Duration::from_millis(50));
        let now = ask(Clients::under_way);
        if now < left {
            (left, rest) = (now, Instant::now() + REST);
        }
    }
    let (resident, busy) = ([before, resident()?], worked()?);
    let worked = std::array::from_fn(|of| busy[of].saturating_sub(idle[of]));
    stop.store(true, Ordering::Relaxed);
    let panicked = |_| Failure::Run("the clients' thread panicked".to_string());
    let nodes = running.join().map_err(panicked)?.map_err(io)?;
    let logged = venue.end()?.iter().filter(|input| input.command.account.0 > 1).count() as u64;
    let node = nodes.into_iter().next().map(|(_, node)| node);
    let node = node.ok_or_else(|| Failure::Run("the clients are gone".to_string()))?;
    let unanswered = node.unanswered();
    let (seen, web) = (node.seen, node.way);
    Ok(Loaded { unanswered, seen, web, ouch, ouch_lost, resident, logged, worked })
}

/// One OUCH session's orders, one after the other.
fn trade(venue: &Venue, lasting: Duration) -> Result<(Recorder, u64), Failure> {
    let line = Line::open(Ipv4Addr::LOCALHOST, venue.ouch, None).map_err(io)?;
    let Login::In(mut ouch) = Ouch::login(line, venue.clock, ("A1", PASSWORD), 1) else {
        return Err(Failure::Run("the OUCH session is not let in".to_string()));
    };
    let (mut way, mut lost, until) = (Recorder::new(), 0, Instant::now() + lasting);
    for number in 1.. {
        if Instant::now() >= until {
            break;
        }
        let asked = Instant::now();
        let price = Price::from_whole(1);
        match ouch.order(number, Side::Buy, price, venue.symbol()) {
            true => way.record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            false => lost += 1,
        }
        thread::sleep(PACE);
    }
    Ok((way, lost))
}

impl Loaded {
    /// Bytes by which the process grew beyond what it may; 0: by less.
    fn grown_beyond(&self) -> u64 {
        let [before, after] = self.resident;
        let most = before + GROWN_MAX + self.logged * GROWN_PER_REQUEST;
        after.saturating_sub(most)
    }

    /// What must not be.
    pub fn complaints(&self) -> Vec<String> {
        let seen = &self.seen;
        [
            (seen.gone, "connections ended"),
            (self.unanswered, "messages without an answer"),
            (seen.refused, "messages refused"),
            (seen.gaps, "gaps between updates"),
            (u64::from(seen.updates == 0), "run without an update of the book"),
            (self.grown_beyond(), "bytes of memory more than may be"),
            (self.ouch_lost, "orders of the OUCH session not accepted"),
            (u64::from(seen.sent == 0), "run without a message"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }

    fn document(&self, args: &LoadArgs) -> Value {
        let of = |way: &Recorder| json!({ "p50_ns": way.quantile(0.5), "p99_ns": way.quantile(0.99), "count": way.summary().count });
        json!({
            "clients": args.clients, "period_ns": args.period_ns(), "seconds": args.seconds,
            "sent": self.seen.sent, "answered": self.seen.answered, "unanswered": self.unanswered,
            "refused": self.seen.refused, "first_refusal": self.seen.refusal, "told": self.seen.told,
            "updates": self.seen.updates, "gaps": self.seen.gaps, "worked_ns": self.worked,
            "connections_gone": self.seen.gone, "web": of(&self.web), "ouch": of(&self.ouch),
            "resident_bytes": self.resident, "logged": self.logged, "complaints": self.complaints(),
        })
    }
}

/// The command.
///
/// # Errors
/// Something was lost, or refused.
pub fn run(args: &LoadArgs) -> Result<(), Failure> {
    let loaded = load(args)?;
    if args.json {
        println!("{:#}", loaded.document(args));
    } else {
        let Loaded { seen, unanswered, web, ouch, resident, logged, worked, .. } = &loaded;
        let each = 1e9 / args.period_ns() as f64;
        println!("clients {}, {each:.1} messages/s each, {} s", args.clients, args.seconds);
        println!(
            "{} messages sent, {} answered, {unanswered} not; {} updates of the book, {} gaps, {} others heard; \
             {logged} in the engine's log",
            grouped(seen.sent),
            grouped(seen.answered),
            grouped(seen.updates),
            seen.gaps,
            grouped(seen.told - seen.updates)
        );
        let both = (seen.answered + seen.told).max(1);
        let threads = THREADS.iter().zip(worked);
        let threads =
            threads.map(|(name, ns)| format!("{name} {:.1}", *ns as f64 / both as f64 / 1e3));
        let threads = threads.collect::<Vec<_>>().join(", ");
        println!("processor time for each message to a client, us: {threads}");
        for (name, way) in [("web door", web), ("OUCH", ouch)] {
            let [p50, p99] = [0.5, 0.99].map(|of| micros(way.quantile(of)));
            println!("{name:10} due to answer, us: p50 {p50:>10} p99 {p99:>10}");
        }
        let [before, after] = resident.map(|bytes| grouped(bytes >> 10));
        println!("resident memory, exchange and clients: {before} KiB before, {after} KiB after");
        if let Some(refusal) = &seen.refusal {
            println!("first refusal: {refusal}");
        }
    }
    let found = loaded.complaints();
    if args.control {
        let both = [loaded.seen.gaps > 0, loaded.grown_beyond() > 0];
        let both = both == [true, true];
        let missed = || Failure::Run("the control was not found out".to_string());
        return if both { Ok(()) } else { Err(missed()) };
    }
    if found.is_empty() { Ok(()) } else { Err(Failure::Run(found.join("; "))) }
}
