//! `fairbell-lab attack flood`: one account writes orders as fast as it can over several connections,
//! while honest clients trade and an operator acts. The exchange is a process of its own, `fairbell
//! up` with everything as built in but for the accounts and without flow of its own.
//!
//! Honest clients are timed before, in quiet, and during the flood, each order waiting for the answer
//! to the one before; so what is compared is of the same run. Judged: no honest order without its
//! answer; their 99th percentile at most three times the quiet one; the exchange's memory; how long
//! an operator waits for halting, cancelling and killing; that nothing of the account is accepted
//! after its kill. The control (`--unlimited`) is the same with limits and fair shares switched off.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use telemetry::Recorder;
use types::{ClOrdId, Price, Qty, Side, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{self, NewOrder};
use wire::soupbin::{ClientPacket, Framer, LoginRequest};

use fairbell::options::duration;
use fairbell::report::numbers::{grouped, micros};
use host::admin::action::Action;
use host::admin::{ask, protocol::Request};
use host::failure::Failure;
use host::sockets::io;

/// Its name among the attacks.
pub const NAME: &str = "flood";
/// What is done.
pub const ABOUT: &str = "one account writes orders as fast as it can over several connections";

/// Options of the flood.
#[derive(Args, Clone, Debug)]
pub struct FloodArgs {
    /// Of flood: how long it lasts
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub lasting: Duration,
    /// Of flood: connections of the account
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub connections: u8,
    /// Of flood: accounts that the connections take turns in
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=64))]
    pub accounts: u8,
    /// Of flood: without limits and fair shares, which has to show
    #[arg(long)]
    pub unlimited: bool,
}

/// Honest clients.
const HONEST: u16 = 4;
/// Between the answer to an honest order and the next one.
const PACE: Duration = Duration::from_millis(2);
/// Patience for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Before anything is measured, and for what the kill leaves on its way.
const SETTLE: Duration = Duration::from_secs(1);
/// Orders in one write of the flood.
const BATCH: u32 = 1_000;
/// When neither end of a flooding connection takes anything, and between two connections.
const IDLE: Duration = Duration::from_micros(200);
/// Longest start of the exchange.
const START: Duration = Duration::from_secs(60);

/// What must hold.
const RATIO_MAX: f64 = 3.0;
const MEMORY_MAX: u64 = 64 << 20;
const ACT_MAX: Duration = Duration::from_millis(100);

/// One of the operator's commands under the flood.
#[derive(Clone, Debug)]
pub struct Act {
    /// As it is written.
    pub name: String,
    /// From asking to the answer.
    pub took: Duration,
    /// It was done.
    pub done: bool,
    /// What the exchange said.
    pub text: String,
}

/// What came of a flood.
pub struct Flooded {
    /// Order to acceptance of honest clients without the flood, and during it.
    pub quiet: Recorder,
    /// See `quiet`.
    pub flooded: Recorder,
    /// Honest orders without the answer that they wait for, or sessions that ended.
    pub errors: Vec<String>,
    /// Bytes the flood's connections wrote, and orders of it accepted and refused at the gateway.
    pub written: u64,
    /// See `written`.
    pub accepted: u64,
    /// See `written`.
    pub refused: u64,
    /// Of the accepted, those told more than a second after the kill.
    pub after_kill: u64,
    /// Connections of the flood that got in, and those refused or cut.
    pub logons: u64,
    /// See `logons`.
    pub ended: u64,
    /// Resident size of the exchange at the flood's beginning, and the largest until its end.
    pub resident: [u64; 2],
    /// What the operator did.
    pub acts: Vec<Act>,
    /// How long the flood lasted.
    pub lasted: Duration,
}

impl Flooded {
    /// How many times its quiet value the honest clients' 99th percentile is.
    pub fn ratio(&self) -> f64 {
        self.flooded.quantile(0.99) as f64 / self.quiet.quantile(0.99).max(1) as f64
    }

    /// What the exchange grew by, in bytes.
    pub fn growth(&self) -> u64 {
        self.resident[1].saturating_sub(self.resident[0])
    }

    /// What did not hold, whatever the machine.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = self.errors.clone();
        let undone = self.acts.iter().filter(|act| !act.done);
        wrong.extend(undone.map(|act| format!("admin {}: {}", act.name, act.text)));
        if self.after_kill > 0 {
            wrong.push(format!("{} orders accepted after the kill", self.after_kill));
        }
        if self.accepted == 0 {
            wrong.push("the flood got nothing in: nothing was shown".to_string());
        }
        wrong
    }

    /// What did not hold, times and memory included.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = self.wrong();
        if self.ratio() > RATIO_MAX {
            complaints.push(format!("honest p99 {:.1} times the quiet one", self.ratio()));
        }
        if self.growth() > MEMORY_MAX {
            complaints.push(format!("memory grew by {} MiB", self.growth() >> 20));
        }
        let slow = self.acts.iter().filter(|act| act.took > ACT_MAX);
        complaints.extend(slow.map(|act| format!("admin {} took {:?}", act.name, act.took)));
        complaints
    }
}

/// What all threads share.
struct Shared {
    /// 0: not measured, 1: quiet, 2: flood.
    phase: AtomicU8,
    /// Honest clients end; the flood ends.
    over: AtomicBool,
    calm: AtomicBool,
    /// The next number of an order of the flood.
    number: AtomicU32,
    written: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    logons: AtomicU64,
    ended: AtomicU64,
}

/// Floods an exchange made for the purpose from `binary`.
///
/// # Errors
/// When it can't be started, or ends by itself.
pub fn flood(args: &FloodArgs, binary: &Path) -> Result<Flooded, Failure> {
    let folder = std::env::temp_dir().join(format!("fairbell-flood-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(io)?;
    let flooded = Exchange::start(args, binary, &folder).and_then(|exchange| play(args, &exchange));
    let _ = std::fs::remove_dir_all(&folder);
    flooded
}

fn play(args: &FloodArgs, exchange: &Exchange) -> Result<Flooded, Failure> {
    let shared = Shared {
        phase: AtomicU8::new(0),
        over: AtomicBool::new(false),
        calm: AtomicBool::new(false),
        number: AtomicU32::new(1),
        written: AtomicU64::new(0),
        accepted: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        logons: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let honest: Vec<_> = (0..HONEST)
            .map(|n| {
                // Two of them at the gateway that is flooded most.
                let door = exchange.doors[usize::from(n / 2) % exchange.doors.len()];
                let shared = &shared;
                scope.spawn(move || trade(door, &format!("HON{}", n + 1), shared))
            })
            .collect();
        thread::sleep(SETTLE);
        shared.phase.store(1, Ordering::Relaxed);
        thread::sleep((args.lasting / 4).clamp(SETTLE, 10 * SETTLE));
        shared.phase.store(0, Ordering::Relaxed);
        let begun = exchange.resident();
        for n in 0..args.connections {
            // Every other connection comes to the first gateway, the rest to the others.
            let doors = &exchange.doors;
            let door = if n % 2 == 0 { doors[0] } else { doors[usize::from(n) % doors.len()] };
            let (shared, user) = (&shared, format!("FLD{}", n % args.accounts + 1));
            scope.spawn(move || spam(door, &user, shared));
        }
        let start = Instant::now();
        shared.phase.store(2, Ordering::Relaxed);
        let (mut most, mut acts) = (begun, Vec::new());
        let mut plan = acts_of(args).into_iter();
        let steps = plan.len() as u32 + 1;
        for step in 1..=steps {
            while start.elapsed() < args.lasting * step / steps {
                thread::sleep(Duration::from_millis(50));
                most = most.max(exchange.resident());
            }
            acts.extend(plan.next().map(|action| exchange.act(action)));
        }
        // The flood goes on over the kills.
        acts.extend(kills(args).into_iter().map(|action| exchange.act(action)));
        let lasted = start.elapsed();
        thread::sleep(SETTLE);
        let told = shared.accepted.load(Ordering::Relaxed);
        thread::sleep(SETTLE);
        let after_kill = shared.accepted.load(Ordering::Relaxed) - told;
        most = most.max(exchange.resident());
        shared.phase.store(0, Ordering::Relaxed);
        shared.over.store(true, Ordering::Relaxed);
        let (mut quiet, mut flooded, mut errors) = (Recorder::new(), Recorder::new(), Vec::new());
        for client in honest {
            let traded =
                client.join().map_err(|_| Failure::Run("a client panicked".to_string()))?;
            quiet.merge(&traded.times[0]);
            flooded.merge(&traded.times[1]);
            errors.extend(traded.error);
        }
        acts.push(exchange.act(Action::EndOfDay));
        shared.calm.store(true, Ordering::Relaxed);
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Ok(Flooded {
            quiet,
            flooded,
            errors,
            written: count(&shared.written),
            accepted: count(&shared.accepted),
            refused: count(&shared.refused),
            after_kill,
            logons: count(&shared.logons),
            ended: count(&shared.ended),
            resident: [begun, most],
            acts,
            lasted,
        })
    })
}

/// What the operator does while the flood lasts, in equal distances.
fn acts_of(args: &FloodArgs) -> Vec<Action> {
    let instrument = || "GENB".to_string();
    let mut acts = vec![
        Action::Halt { instrument: instrument() },
        Action::Resume { instrument: instrument() },
    ];
    acts.extend((1..=args.accounts.min(args.connections)).map(|n| Action::MassCancel {
        account: format!("FLD{n}"),
        instrument: "all".to_string(),
        side: None,
    }));
    acts
}

fn kills(args: &FloodArgs) -> Vec<Action> {
    let accounts = 1..=args.accounts.min(args.connections);
    accounts.map(|n| Action::Kill { account: format!("FLD{n}") }).collect()
}

/// The exchange as a process.
struct Exchange {
    process: Child,
    doors: Vec<SocketAddr>,
    socket: PathBuf,
    /// Keeps its output flowing.
    _lines: Receiver<String>,
}

impl Exchange {
    fn start(args: &FloodArgs, binary: &Path, folder: &Path) -> Result<Exchange, Failure> {
        let (file, out) = (folder.join("flood.toml"), folder.join("out"));
        std::fs::write(&file, config(args)).map_err(io)?;
        let mut process = Process::new(binary)
            .args(["up", "--json", "--port-base", "0", "--config"])
            .arg(&file)
            .arg("--out")
            .arg(&out)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io)?;
        let stderr = process.stderr.take();
        let (to, lines) = channel();
        if let Some(stderr) = stderr {
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // Nobody may listen any more; the pipe has to be emptied all the same.
                    let _ = to.send(line);
                }
            });
        }
        let mut exchange =
            Exchange { process, doors: Vec::new(), socket: out.join("admin.sock"), _lines: lines };
        let (until, mut said) = (Instant::now() + START, Vec::new());
        while exchange.doors.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = exchange._lines.recv_timeout(left) else {
                return Err(Failure::Run(format!("no exchange: {}", said.join("; "))));
            };
            if line.starts_with("OUCH") {
                let words = line.split_whitespace();
                exchange.doors = words.filter_map(|word| word.parse().ok()).collect();
            }
            said.push(line);
        }
        Ok(exchange)
    }

    /// Bytes resident, as the kernel tells.
    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let kib = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = kib.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1_024
    }

    fn act(&self, action: Action) -> Act {
        let name = json!(action).to_string();
        let asked = Instant::now();
        let reply = ask(&self.socket, &Request { operator: None, action });
        let took = asked.elapsed();
        match reply {
            Ok(reply) => Act { name, took, done: reply.ok, text: reply.text },
            Err(failure) => Act { name, took, done: false, text: failure.to_string() },
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // It is ours, and what it would report nobody reads.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn config(args: &FloodArgs) -> String {
    let mut text = "[doors]\nplain = true\n\n[day]\nauctions = false\nhalt_instrument = 0\n\n\
                    [flow]\nsample = \"none\"\ngenerated_rate = 0\nparticipants = 1\n"
        .to_string();
    if args.unlimited {
        text += "\n[gateway]\norders_per_s = 0\norders_burst = 0\noutstanding = 0\n\n\
                 [limits]\nopen_orders = 0\nmessages_per_s = 0\n";
    }
    let honest = (1..=HONEST).map(|n| format!("HON{n}"));
    let flood = (1..=args.accounts).map(|n| format!("FLD{n}"));
    for user in ["FLOW01".to_string()].into_iter().chain(honest).chain(flood) {
        text += &format!(
            "\n[[account]]\nname = \"{user}\"\nusername = \"{user}\"\npassword = \"secret\"\n"
        );
    }
    text
}

/// What an honest client saw.
struct Traded {
    times: [Recorder; 2],
    error: Option<String>,
}

fn trade(door: SocketAddr, user: &str, shared: &Shared) -> Traded {
    let mut times = [Recorder::new(), Recorder::new()];
    let error = trade_on(door, user, shared, &mut times).err();
    Traded { times, error: error.map(|error| format!("{user}: {error}")) }
}

fn trade_on(
    door: SocketAddr,
    user: &str,
    shared: &Shared,
    times: &mut [Recorder; 2],
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut line = TcpStream::connect(door).map_err(text)?;
    line.set_nodelay(true).map_err(text)?;
    line.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    line.write_all(&login(user, 0)).map_err(text)?;
    let (mut framer, mut buffer) = (Framer::new(u16::MAX.into()), vec![0; 65_536]);
    let mut answers = Answers::default();
    let mut wait =
        |line: &mut TcpStream, answers: &mut Answers, done: &dyn Fn(&Answers) -> bool| {
            while !done(answers) {
                match line.read(&mut buffer) {
                    Ok(0) => return Err("the session ended".to_string()),
                    Ok(n) => answers.take(&mut framer, buffer.get(..n).unwrap_or(&[]))?,
                    Err(error) => return Err(format!("no answer: {error}")),
                }
            }
            Ok(())
        };
    wait(&mut line, &mut answers, &|answers| answers.logons > 0)?;
    for number in 1.. {
        if shared.over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let order = orders(number, 1);
        let asked = Instant::now();
        line.write_all(&order).map_err(text)?;
        wait(&mut line, &mut answers, &|answers| answers.accepted >= u64::from(number))?;
        let took = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        match shared.phase.load(Ordering::Relaxed) {
            1 => times[0].record(took),
            2 => times[1].record(took),
            _ => {}
        }
        if answers.refused > 0 {
            return Err(format!("order {number} was refused"));
        }
        thread::sleep(PACE);
    }
    Ok(())
}

/// One connection after the other, each written to as fast as it takes.
fn spam(door: SocketAddr, user: &str, shared: &Shared) {
    while !shared.calm.load(Ordering::Relaxed) {
        // It ends when it is refused or cut, which is what it is for.
        let _ = spam_once(door, user, shared);
        shared.ended.fetch_add(1, Ordering::Relaxed);
        thread::sleep(IDLE);
    }
}

fn spam_once(door: SocketAddr, user: &str, shared: &Shared) -> std::io::Result<()> {
    let mut line = TcpStream::connect(door)?;
    line.write_all(&login(user, 0))?;
    line.set_nonblocking(true)?;
    let (mut framer, mut buffer) = (Framer::new(u16::MAX.into()), vec![0; 65_536]);
    let (mut batch, mut sent) = (Vec::new(), 0);
    let mut before = Answers::default();
    let mut answers = Answers::default();
    while !shared.calm.load(Ordering::Relaxed) {
        let mut idle = true;
        match line.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                idle = false;
                let taken = answers.take(&mut framer, buffer.get(..n).unwrap_or(&[]));
                shared.accepted.fetch_add(answers.accepted - before.accepted, Ordering::Relaxed);
                shared.refused.fetch_add(answers.refused - before.refused, Ordering::Relaxed);
                shared.logons.fetch_add(answers.logons - before.logons, Ordering::Relaxed);
                before = answers;
                if taken.is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if answers.logons > 0 {
            if sent == batch.len() {
                batch = orders(shared.number.fetch_add(BATCH, Ordering::Relaxed), BATCH);
                sent = 0;
            }
            match line.write(batch.get(sent..).unwrap_or(&[])) {
                Ok(n) => {
                    idle = false;
                    sent += n;
                    shared.written.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if idle {
            thread::sleep(IDLE);
        }
    }
    Ok(())
}

/// What came on a connection so far.
#[derive(Clone, Copy, Default)]
struct Answers {
    logons: u64,
    accepted: u64,
    refused: u64,
}

impl Answers {
    /// Counts; an error when the login was refused or the packets are none.
    fn take(&mut self, framer: &mut Framer, mut bytes: &[u8]) -> Result<(), String> {
        while let Some(packet) = framer.next(&mut bytes).map_err(|error| error.to_string())? {
            match packet {
                [b'A', ..] => self.logons += 1,
                [b'J', ..] => return Err("the login was refused".to_string()),
                [b'S', b'A', ..] => self.accepted += 1,
                [b'S' | b'U', b'J', ..] => self.refused += 1,
                _ => {}
            }
        }
        Ok(())
    }
}

fn login(user: &str, sequence: u64) -> Vec<u8> {
    fn padded<const N: usize>(text: &str) -> [u8; N] {
        let mut field = [b' '; N];
        field.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
        field
    }
    let request = LoginRequest {
        username: padded(user),
        password: padded("secret"),
        session: padded(""),
        sequence,
    };
    let mut bytes = Vec::new();
    // The fields have their lengths.
    let _ = ClientPacket::Login(request).encode(&mut bytes);
    bytes
}

/// Orders that trade with nobody and leave at once, from a number on.
fn orders(first: u32, count: u32) -> Vec<u8> {
    let (mut bytes, mut message) = (Vec::new(), Vec::new());
    let Some(symbol) = Symbol::new("GENA") else { return bytes };
    for number in first..first.saturating_add(count) {
        message.clear();
        let order = NewOrder {
            user_ref: UserRefNum(number),
            side: Side::Buy,
            qty: Qty(1),
            symbol,
            price: Some(Price::from_whole(1)),
            time_in_force: TimeInForce::ImmediateOrCancel,
            post_only: false,
            cl_ord_id: ClOrdId(*b"flood         "),
        };
        let encoded = ouch::encode_enter_order(&order, &mut message).is_ok()
            && ClientPacket::Unsequenced(&message).encode(&mut bytes).is_ok();
        assert!(encoded, "an order of the flood is a possible one");
    }
    bytes
}

/// The command.
///
/// # Errors
/// When something did not hold.
pub fn run(args: &FloodArgs, as_json: bool) -> Result<(), Failure> {
    let binary = std::env::current_exe().map_err(io)?;
    let flooded = flood(args, &binary)?;
    let complaints = flooded.complaints();
    if as_json {
        println!("{:#}", document(args, &flooded, &complaints));
    } else {
        print(args, &flooded, &complaints);
    }
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("not contained: {}", complaints.join("; ")))),
    }
}

fn print(args: &FloodArgs, of: &Flooded, complaints: &[String]) {
    println!(
        "{} connections of {} account(s) for {:.1} s{}",
        args.connections,
        args.accounts,
        of.lasted.as_secs_f64(),
        if args.unlimited { ", no limits, no fair shares" } else { "" }
    );
    println!(
        "  flood: {} MiB written, {} orders accepted, {} refused at the gateway, {} logons, {} \
         connections ended",
        grouped(of.written >> 20),
        grouped(of.accepted),
        grouped(of.refused),
        grouped(of.logons),
        grouped(of.ended)
    );
    println!("honest clients' round trip, us     orders      p50      p99      max");
    for (name, times) in [("quiet", &of.quiet), ("flood", &of.flooded)] {
        let summary = times.summary();
        let [p50, p99] = [0.5, 0.99].map(|share| micros(times.quantile(share)));
        let (count, max) = (grouped(summary.count), micros(summary.max));
        println!("  {name:<28} {count:>10} {p50:>8} {p99:>8} {max:>8}");
    }
    println!(
        "  p99 {:.2} times the quiet one; {} without their answer",
        of.ratio(),
        of.errors.len()
    );
    println!("memory: {} MiB before, {} MiB at most", of.resident[0] >> 20, of.resident[1] >> 20);
    println!("operator, ms:");
    for act in &of.acts {
        println!("  {:>8.1}  {}: {}", act.took.as_secs_f64() * 1e3, act.name, act.text);
    }
    println!("  {} orders accepted later than a second after the kill", of.after_kill);
    complaints.iter().for_each(|complaint| println!("  NOT CONTAINED: {complaint}"));
}

fn document(args: &FloodArgs, of: &Flooded, complaints: &[String]) -> Value {
    let times = |times: &Recorder| {
        json!({
            "orders": times.summary().count, "p50_ns": times.quantile(0.5),
            "p99_ns": times.quantile(0.99), "max_ns": times.summary().max,
        })
    };
    let act = |act: &Act| {
        json!({
            "command": act.name, "ms": act.took.as_secs_f64() * 1e3, "done": act.done,
            "text": act.text,
        })
    };
    json!({
        "attack": NAME, "about": ABOUT, "connections": args.connections,
        "accounts": args.accounts, "unlimited": args.unlimited,
        "lasted_s": of.lasted.as_secs_f64(), "bytes_written": of.written,
        "accepted": of.accepted, "refused_at_gateway": of.refused, "logons": of.logons,
        "connections_ended": of.ended, "quiet": times(&of.quiet), "flood": times(&of.flooded),
        "p99_ratio": of.ratio(), "errors": of.errors, "resident_bytes": of.resident,
        "operator": of.acts.iter().map(act).collect::<Vec<_>>(),
        "accepted_after_kill": of.after_kill, "complaints": complaints,
        "contained": complaints.is_empty(),
    })
}
