//! Attacks on the web door of an exchange of our own, while honest clients trade through it and over OUCH.
//!
//! In every attack: each honest order is accepted, nothing is answered with another code than the
//! documented one, and memory grows by less than [`GROWN_MAX`]. Where the door has a bound, a control takes
//! it away and the attack has to be found out.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use host::failure::Failure;
use host::sockets::io;
use serde_json::{Value, json};
use telemetry::Recorder;
use types::{Price, Side, SplitMix64};
use web::auth::sign;

use super::client::{Socket, auth, now_ms, rest};
use super::venue::{PASSWORD, SECRET, Terms, Venue};
use crate::attack::line::{Line, Login, Ouch, open};
use crate::resident::resident;
use fairbell::report::numbers::{grouped, micros};

/// Options of `fairbell-lab web attack`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab web attack                       every attack, one after the other\n  \
    fairbell-lab web attack idle --idle 10000     ten thousand connections that say nothing\n  \
    fairbell-lab web attack --control             without the door's bounds: has to be found out")]
pub struct WebAttackArgs {
    /// Name of an attack, or `all`
    #[arg(default_value = "all")]
    pub name: String,
    /// Connections that say nothing
    #[arg(long, value_name = "N", default_value_t = 2_000,
          value_parser = clap::value_parser!(u32).range(10..=20_000))]
    pub idle: u32,
    /// Orders of honest clients before the attack, and as many while it goes on
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub orders: u32,
    /// Seed of what is malformed
    #[arg(long, value_name = "N", default_value_t = 28)]
    pub seed: u64,
    /// Take the bounds away that there are
    #[arg(long)]
    pub control: bool,
}

const HONEST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Bytes by which the process may grow during an attack, attackers included.
pub const GROWN_MAX: u64 = 96 << 20;
/// Connections of the door, and of one address.
const CONNECTIONS: usize = 256;
const SHARE: usize = 128;
/// Credits a second of a key.
const CREDITS: u32 = 100;
/// Between two honest orders.
const PACE: Duration = Duration::from_millis(1);

/// What an attacker has.
struct Tools<'a> {
    door: SocketAddr,
    args: &'a WebAttackArgs,
    stop: &'a AtomicBool,
}

/// What an attacker saw: attempts, and answers by status and code.
#[derive(Default)]
pub struct Seen {
    /// Requests or connections that the attacker tried.
    pub attempts: u64,
    /// Answers by their codes; with `http ` before those without one.
    pub told: BTreeMap<String, u64>,
}

impl Seen {
    fn note(&mut self, answer: Option<(u16, Value)>) {
        self.attempts += 1;
        let told = match answer {
            None => "closed".to_string(),
            Some((status, body)) => match body["error"]["code"].as_str() {
                Some(code) => code.to_string(),
                None => format!("http {status}"),
            },
        };
        *self.told.entry(told).or_default() += 1;
    }

    /// Answers that are none of these.
    fn but(&self, expected: &[&str]) -> Vec<String> {
        let others = self.told.iter().filter(|(told, _)| !expected.contains(&told.as_str()));
        others.map(|(told, count)| format!("{count} answered with {told:?}")).collect()
    }

    fn count(&self, told: &str) -> u64 {
        self.told.get(told).copied().unwrap_or(0)
    }
}

/// An attack.
pub struct Case {
    /// Its name.
    pub name: &'static str,
    about: &'static str,
    /// Takes the bound away that the control lacks.
    weaken: Option<fn(&mut Terms)>,
    run: fn(&Tools<'_>) -> Seen,
    /// Why it did not hold; the attacker's orders in the log, and how long it went on.
    judge: fn(&Seen, u64, Duration) -> Vec<String>,
}

/// All there are.
pub const CASES: [Case; 7] = [
    Case {
        name: "signatures",
        about: "wrong signatures, unknown keys, scopes that a key lacks, late and replayed requests",
        weaken: None,
        run: signatures,
        judge: |seen, logged, _| {
            let due = [
                "bad_signature",
                "unknown_key",
                "wrong_scope",
                "late_timestamp",
                "replayed",
                "not_found",
            ];
            let mut wrong = seen.but(&due);
            let lacking = due.iter().filter(|code| seen.count(code) == 0);
            wrong.extend(lacking.map(|code| format!("nothing was answered with {code}")));
            wrong.extend((logged > 0).then(|| format!("{logged} orders of it in the log")));
            wrong
        },
    },
    Case {
        name: "malformed",
        about: "bodies and messages with random changes, rightly signed",
        weaken: None,
        run: malformed,
        judge: |seen, _, _| {
            let good =
                ["bad_json", "missing_field", "bad_field", "not_found", "http 200", "rejected"];
            let more =
                ["client_order_id_used", "missing_header", "too_many_requests", "closed", "pong"];
            let mut wrong = seen.but(&[good.as_slice(), &more].concat());
            wrong.extend(
                (seen.count("bad_json") < 10).then(|| "hardly anything was malformed".to_string()),
            );
            wrong
        },
    },
    Case {
        name: "large",
        about: "bodies and WebSocket messages of 1 MiB",
        weaken: None,
        run: large,
        judge: |seen, _, _| {
            let mut wrong = seen.but(&["too_large", "closed"]);
            wrong.extend((seen.count("too_large") == 0).then(|| "no body was refused".to_string()));
            wrong
        },
    },
    Case {
        name: "slow-readers",
        about: "subscribers of everything, and requests by the thousand, that never read",
        weaken: None,
        run: slow_readers,
        judge: |seen, _, _| seen.but(&["http 101"]),
    },
    Case {
        name: "idle",
        about: "connections that say nothing, as many as it gets",
        // Its control is a test of the door's own.
        weaken: None,
        run: idle,
        judge: |seen, _, _| seen.but(&["connected", "no connection"]),
    },
    Case {
        name: "burst",
        about: "orders over a WebSocket as fast as it takes them",
        weaken: Some(|terms| terms.credits_per_s = 1_000_000),
        run: burst,
        judge: |seen, logged, lasted| {
            let most = u64::from(CREDITS) * (3 + lasted.as_secs());
            let mut wrong = seen.but(&["http 200", "too_many_requests", "rejected", "busy"]);
            wrong.extend(
                (logged > most)
                    .then(|| format!("{logged} orders of it in the log, {most} allowed")),
            );
            wrong.extend((logged == 0).then(|| "none of its orders came through".to_string()));
            wrong
        },
    },
    Case {
        name: "cross-site",
        about: "requests of pages of other sites",
        weaken: Some(|terms| terms.settings.origins.push("https://evil.example".to_string())),
        run: cross_site,
        judge: |seen, _, _| seen.but(&["cross_site"]),
    },
];

/// Statuses of a raw request.
fn raw(door: SocketAddr, request: &[u8]) -> Option<(u16, Value)> {
    let mut stream = open(ATTACKER, door).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    // A door that refuses what is too large may close before all of it is written.
    let _ = stream.write_all(request);
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4_096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase().lines().find_map(|line| {
                line.strip_prefix("content-length: ").and_then(|length| length.parse().ok())
            });
            if body.len() >= length.unwrap_or(0) {
                let status = head.split(' ').nth(1)?.parse().ok()?;
                return Some((status, serde_json::from_str(body).unwrap_or_default()));
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(buffer.get(..count)?),
        }
    }
}

fn goes_on(tools: &Tools<'_>, seen: &Seen) -> bool {
    !tools.stop.load(Ordering::Relaxed) || seen.attempts < 50
}

/// A request with these parts of a signature.
fn signed(key: &str, at_ms: u64, nonce: &str, secret: &str) -> Vec<u8> {
    signed_for("/v1/orders/none", (key, at_ms), nonce, secret)
}

fn signed_for(path: &str, (key, at_ms): (&str, u64), nonce: &str, secret: &str) -> Vec<u8> {
    let at = at_ms.to_string();
    let signature = sign(secret, &at, nonce, ("GET", path, b""));
    format!(
        "GET {path} HTTP/1.1\r\nhost: door\r\nfb-key: {key}\r\nfb-timestamp: {at}\r\nfb-nonce: {nonce}\r\n\
         fb-sign: {signature}\r\n\r\n"
    )
    .into_bytes()
}

fn signatures(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    for n in 0u64.. {
        if !goes_on(tools, &seen) {
            break;
        }
        let nonce = n.to_string();
        let request = match n % 5 {
            0 => signed("K2", now_ms(), &nonce, "another secret!!"),
            1 => signed("nobody", now_ms(), &nonce, SECRET),
            2 => signed("K2", now_ms() - 6_000, &nonce, SECRET),
            // No key of an account may operate the exchange.
            3 => signed_for("/v1/operator", ("K2", now_ms()), &nonce, SECRET),
            _ => {
                let good = signed("K2", now_ms(), &nonce, SECRET);
                seen.note(raw(tools.door, &good));
                good
            }
        };
        seen.note(raw(tools.door, &request));
    }
    seen
}

/// A text with some bytes changed, lost or doubled.
fn mutated(rng: &mut SplitMix64, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            break;
        }
        let place = rng.below(bytes.len() as u64) as usize;
        match rng.below(3) {
            0 => bytes[place] = rng.next_u64() as u8,
            1 => drop(bytes.remove(place)),
            _ => bytes.insert(place, bytes[place]),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn malformed(tools: &Tools<'_>) -> Seen {
    let (mut seen, mut rng) = (Seen::default(), SplitMix64::new(tools.args.seed));
    let order = r#"{"op":"new","symbol":"BTCUSD","side":"buy","qty":"1","price":"2.5","client_order_id":"x"}"#;
    let batch =
        r#"{"op":"batch","requests":[{"op":"cancel","order":"x"},{"op":"cancel","order":"y"}]}"#;
    let subscribe = r#"{"op":"subscribe","channels":["book","l3"],"symbols":["BTCUSD"],"since":1}"#;
    let mut socket = None;
    while goes_on(tools, &seen) {
        let body = mutated(&mut rng, order);
        let from = (ATTACKER, tools.door);
        let path = ["/v1/orders", "/v1/batch", "/v1/cancel_after"][rng.below(3) as usize];
        seen.note(rest(from, "K2", ("POST", path), &body));
        let proved = socket.take().or_else(|| Socket::proved(ATTACKER, tools.door, "K2").ok());
        let Some(mut of) = proved else { continue };
        let kind = rng.below(3) as usize;
        let text = mutated(&mut rng, [order, batch, subscribe][kind]);
        // Behind the message a ping: whatever comes before its pong belongs to the message.
        if of.send(&text) && of.send(r#"{"op":"ping","id":"end"}"#) {
            let mut first = None;
            let ended = loop {
                match of.next_text() {
                    Some(told) if told["id"] == "end" && told["channel"] == "pong" => break false,
                    Some(told) if told["channel"] == "error" || told["channel"] == "answer" => {
                        first = first.or(Some(told));
                    }
                    Some(_) => {}
                    None => break true,
                }
            };
            if !ended {
                seen.note(first.map_or(Some((200, Value::Null)), |told| Some((200, told))));
                socket = Some(of);
            }
        }
    }
    seen
}

fn large(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    let head = "POST /v1/orders HTTP/1.1\r\nhost: door\r\ncontent-length: 1048576\r\n\r\n";
    let mut body = head.as_bytes().to_vec();
    body.resize(body.len() + (1 << 20), b'x');
    while goes_on(tools, &seen) {
        seen.note(raw(tools.door, &body));
        if let Ok(mut socket) = Socket::open(ATTACKER, tools.door) {
            let _ = socket.send(&"x".repeat(1 << 20));
            let told = socket.next_text().map(|told| (200, told));
            seen.note(told);
        }
    }
    seen
}

fn slow_readers(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    let mut held: Vec<(Option<Socket>, Option<TcpStream>)> = Vec::new();
    while goes_on(tools, &seen) {
        if held.len() < SHARE / 2 {
            let mut socket = Socket::open(ATTACKER, tools.door).ok();
            if let Some(socket) = &mut socket {
                let all = r#"{"op":"subscribe","channels":["book","l3","trades","ticker"],"symbols":["BTCUSD"]}"#;
                (0..50).for_each(|_| _ = socket.send(all));
            }
            let mut stream = open(ATTACKER, tools.door).ok();
            if let Some(stream) = &mut stream {
                let _ = stream.set_nonblocking(true);
                let ask = "GET /v1/book/BTCUSD?depth=500 HTTP/1.1\r\nhost: door\r\n\r\n";
                let _ = stream.write_all(ask.repeat(1_000).as_bytes());
            }
            seen.note(Some((101, Value::Null)));
            held.push((socket, stream));
        } else {
            seen.attempts += 1;
            thread::sleep(Duration::from_millis(5));
        }
    }
    seen
}

fn idle(tools: &Tools<'_>) -> Seen {
    let (mut seen, mut held) = (Seen::default(), Vec::new());
    for _ in 0..tools.args.idle {
        let told = match open(ATTACKER, tools.door) {
            Ok(stream) => {
                held.push(stream);
                "connected"
            }
            Err(_) => "no connection",
        };
        seen.attempts += 1;
        *seen.told.entry(told.to_string()).or_default() += 1;
    }
    while !tools.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
    }
    seen
}

fn burst(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    let Ok(mut socket) = Socket::open(ATTACKER, tools.door) else { return seen };
    let _ = socket.send(&auth("K2", "burst"));
    if socket.next_of("ok").is_none() {
        return seen;
    }
    for n in 0u64.. {
        if !goes_on(tools, &seen) && n > 3_000 {
            break;
        }
        let order = json!({
            "op": "new", "id": n, "symbol": "BTCUSD", "side": "buy", "qty": "1", "price": "2",
            "client_order_id": format!("b{n}"),
        });
        if !socket.send(&order.to_string()) {
            break;
        }
        // Up to a hundred are under way.
        if n >= 100 {
            let told = loop {
                match socket.next_text() {
                    Some(told) if !told["id"].is_null() => break Some((200, told)),
                    Some(_) => {}
                    None => break None,
                }
            };
            seen.note(told);
        }
    }
    seen
}

fn cross_site(tools: &Tools<'_>) -> Seen {
    let mut seen = Seen::default();
    while goes_on(tools, &seen) {
        for (method, path) in
            [("GET", "/v1/book/BTCUSD"), ("POST", "/v1/orders"), ("OPTIONS", "/v1/orders")]
        {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nhost: door\r\norigin: https://evil.example\r\n\
                 content-length: 0\r\n\r\n"
            );
            seen.note(raw(tools.door, request.as_bytes()));
        }
        let upgrade =
            super::client::UPGRADE.replace("\r\n\r\n", "\r\norigin: https://evil.example\r\n\r\n");
        seen.note(raw(tools.door, upgrade.as_bytes()));
    }
    seen
}

/// Honest clients: one over REST, one over a WebSocket, one over OUCH.
struct Honest {
    door: SocketAddr,
    socket: Socket,
    ouch: Ouch,
    symbol: types::Symbol,
    entered: u32,
}

impl Honest {
    fn log_on(venue: &Venue) -> Result<Honest, Failure> {
        let socket = Socket::proved(HONEST, venue.web, "K3").map_err(io)?;
        let line = Line::open(HONEST, venue.ouch, None).map_err(io)?;
        let Login::In(ouch) = Ouch::login(line, venue.clock, ("A1", PASSWORD), 1) else {
            return Err(Failure::Run("the OUCH session is not let in".to_string()));
        };
        Ok(Honest { door: venue.web, socket, ouch, symbol: venue.symbol(), entered: 0 })
    }

    /// So many orders in turns; how many were accepted.
    fn trade(&mut self, orders: u32, way: &mut Recorder) -> u32 {
        let mut accepted = 0;
        for _ in 0..orders {
            self.entered += 1;
            let n = self.entered;
            let mut order = json!({
                "symbol": self.symbol.as_str(), "side": "sell", "qty": "1",
                "price": (1_000 + n).to_string(), "client_order_id": format!("h{n}"),
            });
            let asked = Instant::now();
            let good = match n % 3 {
                0 => self.ouch.order(n, Side::Sell, Price::from_whole(999), self.symbol),
                1 => {
                    order["op"] = "new".into();
                    let told = self.socket.ask(order);
                    told.is_some_and(|told| told["status"] == 200)
                }
                _ => {
                    let told =
                        rest((HONEST, self.door), "K4", ("POST", "/v1/orders"), &order.to_string());
                    told.is_some_and(|(status, _)| status == 200)
                }
            };
            way.record(u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX));
            accepted += u32::from(good);
            thread::sleep(PACE);
        }
        accepted
    }
}

/// One attack, and what became of it.
pub struct Attacked {
    /// Its name.
    pub name: &'static str,
    /// What the attacker saw.
    pub seen: Seen,
    quiet: Recorder,
    during: Recorder,
    grown: u64,
    /// Why it was not contained; empty when it was.
    pub complaints: Vec<String>,
}

/// Plays attacks, each against a fresh exchange.
///
/// # Errors
/// An exchange can't be started, or honest clients can't log on.
pub fn attacks(args: &WebAttackArgs) -> Result<Vec<Attacked>, Failure> {
    host::limits::prepare();
    let named = |case: &&Case| {
        (args.name == "all" || case.name == args.name) && (!args.control || case.weaken.is_some())
    };
    CASES.iter().filter(named).map(|case| attack(case, args)).collect()
}

fn attack(case: &Case, args: &WebAttackArgs) -> Result<Attacked, Failure> {
    let mut terms = Terms { accounts: 4, web_from: 2, credits_per_s: CREDITS, ..Terms::default() };
    terms.settings.connections_max = CONNECTIONS;
    terms.settings.connections_per_address = SHARE;
    if let (Some(weaken), true) = (case.weaken, args.control) {
        weaken(&mut terms);
    }
    let venue = Venue::start(&terms)?;
    let mut honest = Honest::log_on(&venue)?;
    let (mut quiet, mut during) = (Recorder::new(), Recorder::new());
    let mut accepted = honest.trade(args.orders, &mut quiet);
    let stop = AtomicBool::new(false);
    let tools = Tools { door: venue.web, args, stop: &stop };
    let (before, began) = (resident()?, Instant::now());
    let (seen, grown) = thread::scope(|scope| {
        let attacker = scope.spawn(|| (case.run)(&tools));
        thread::sleep(Duration::from_millis(200));
        accepted += honest.trade(args.orders, &mut during);
        stop.store(true, Ordering::Relaxed);
        let grown = resident().map(|after| after.saturating_sub(before));
        (attacker.join(), grown)
    });
    let lasted = began.elapsed();
    let seen = seen.map_err(|_| Failure::Run("the attacker's thread panicked".to_string()))?;
    let grown = grown?;
    let log = venue.end()?;
    let orders = log.iter().filter(|input| {
        input.command.account.0 == 2 && input.command.kind == types::CommandKind::NewOrder
    });
    let mut complaints = (case.judge)(&seen, orders.count() as u64, lasted);
    if accepted < 2 * args.orders {
        complaints.push(format!("{accepted} of {} honest orders were accepted", 2 * args.orders));
    }
    if grown >= GROWN_MAX {
        complaints.push(format!("memory grew by {} bytes", grouped(grown)));
    }
    Ok(Attacked { name: case.name, seen, quiet, during, grown, complaints })
}

/// The command.
///
/// # Errors
/// An attack was not contained; with `--control`, one was not found out.
pub fn run(args: &WebAttackArgs) -> Result<(), Failure> {
    if args.name != "all" && !CASES.iter().any(|case| case.name == args.name) {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        let names = names.join(", ");
        return Err(Failure::Usage(format!("no attack {:?}; there are: {names}", args.name)));
    }
    println!("seed {}", args.seed);
    let all = attacks(args)?;
    for one in &all {
        let about = CASES.iter().find(|case| case.name == one.name).map_or("", |case| case.about);
        println!("{}: {about}", one.name);
        let [a, b] =
            [&one.quiet, &one.during].map(|of| [0.5, 0.99].map(|q| micros(of.quantile(q))));
        println!(
            "  honest order to answer, us: before p50 {} p99 {}, during p50 {} p99 {}; memory grew by {} KiB",
            a[0],
            a[1],
            b[0],
            b[1],
            grouped(one.grown >> 10)
        );
        let told = one.seen.told.iter().map(|(told, count)| format!("{count} {told}"));
        println!("  {} attempts: {}", one.seen.attempts, told.collect::<Vec<_>>().join(", "));
        one.complaints.iter().for_each(|why| println!("  NOT CONTAINED: {why}"));
    }
    let wrong = all.iter().filter(|one| one.complaints.is_empty() == args.control);
    match wrong.map(|one| one.name).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        some => {
            let what = if args.control { "not found out" } else { "not contained" };
            Err(Failure::Run(format!("{what}: {}", some.join(", "))))
        }
    }
}
