//! `fairbell certify`: a scripted conformance dialogue against a participant's own client.
//!
//! A small exchange with one test instrument runs in this process: root and edge in one loop, and in
//! front of the edge the certifier (crate `certify`), whose door is the only one that is told. The
//! prompts go to standard error, the report to standard output and, with `--out`, to a file.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ::certify::{Certifier, CertifierConfig, Protocol, Report, Status, Step, StepReport};
use clap::Args;
use exchange::{Account, ExchangeConfig, FixLogin, FixRole, LoginTerms, Role, Throttle, deploy};
use net::{
    Clients, Clock, Directory, Identity, Loop, LoopConfig, LoopHandle, ServerTls, peer_addr,
};
use types::{
    AccountId, Channel, ClOrdId, ClockReading, Command, ConnId, Instrument, InstrumentId, Nanos,
    Node, NodeId, Outbox, Peer, Phase, Price, Qty, Symbol, limits,
};

use crate::load::{FixName, ProtocolName};
use crate::options::duration;
use host::config::Config;
use host::deployment::exchange_config;
use host::failure::Failure;
use host::sockets::io;

/// Options of `fairbell certify`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell certify --protocol fix            door on port 27900; connect your client there\n  \
    fairbell certify --protocol ouch --user TEST01 --password secret --out report.md\n  \
    fairbell certify --protocol fix --json --skip logout --skip trigger\n  \
    fairbell certify --protocol fix --tls door.pem --tls-key door.key.pem\n\n\
    Prints what the client has to do, step by step, and judges what it does. A step that the client\n\
    does not do in time ends the dialogue, unless --keep-going. The exit code is 1 when a step\n\
    fails.")]
pub struct CertifyArgs {
    /// What the client speaks
    #[arg(long, value_enum)]
    pub protocol: ProtocolName,
    /// Where the client connects to
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:27900")]
    pub listen: SocketAddr,
    /// The client's user name, 1 to 6 characters
    #[arg(long, value_name = "TEXT", default_value = "CLIENT")]
    pub user: String,
    /// The client's password, 1 to 10 characters
    #[arg(long, value_name = "TEXT", default_value = "certify")]
    pub password: String,
    /// The client's SenderCompID, FIX only
    #[arg(long, value_name = "TEXT", default_value = "CLIENT")]
    pub comp_id: String,
    /// Our CompID, FIX only
    #[arg(long, value_name = "TEXT", default_value = "FAIRBELL")]
    pub target: String,
    /// FIX version
    #[arg(long, value_enum, default_value_t = FixName::Fix44)]
    pub fix: FixName,
    /// Patience with the client in each step
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub patience: Duration,
    /// Go on after a step that the client did not do in time
    #[arg(long)]
    pub keep_going: bool,
    /// The door speaks TLS 1.3 with this certificate (PEM, with those of its authorities)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls: Option<String>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tls_key: Option<String>,
    /// The client must have a certificate of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tls_client_ca: Option<String>,
    /// Leave a step out; again for further ones
    #[arg(long, value_name = "STEP", value_parser = step)]
    pub skip: Vec<Step>,
    /// Write the report to FILE, as Markdown
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn step(name: &str) -> Result<Step, String> {
    let names = || Step::ALL.map(Step::name).join(", ");
    Step::named(name).ok_or_else(|| format!("steps are {}", names()))
}

/// The test instrument.
const SYMBOL: &str = "CERTA";
/// The certifier's own login and place.
const OWN: (&str, &str) = ("CERT", "certify");
const CERTIFIER: NodeId = NodeId(60_002);
const ROOT: NodeId = NodeId(0);
/// Name of its commands in the log.
const NAME: ClOrdId = ClOrdId(*b"CERTIFY       ");
/// The phase in which a client's order trades by auction.
const CALL: Phase = Phase::VolatilityCall;
/// How often the outcome is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The nodes of this process.
enum Host {
    Exchange(Box<Role>),
    Certifier(Box<Certifier>),
}

macro_rules! each {
    ($host:expr, $node:ident => $call:expr) => {
        match $host {
            Host::Exchange($node) => $call,
            Host::Certifier($node) => $call,
        }
    };
}

impl Node for Host {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        each!(self, node => node.handle_datagram(now, channel, from, bytes, out))
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        each!(self, node => node.handle_timeout(now, out))
    }

    fn next_timeout(&self) -> Nanos {
        each!(self, node => node.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        each!(self, node => node.handle_connect(now, conn, out))
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        each!(self, node => node.handle_stream(now, conn, bytes, out))
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        each!(self, node => node.handle_close(now, conn, out))
    }

    fn wants_stream(&self, conn: ConnId) -> bool {
        each!(self, node => node.wants_stream(conn))
    }
}

/// Certifies one client.
pub fn run(args: &CertifyArgs) -> Result<(), Failure> {
    let report = play(args)?;
    if let Some(path) = &args.out {
        std::fs::write(path, report.to_markdown())
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    match args.json {
        true => println!("{:#}", document(&report)),
        false => report.steps.iter().for_each(|step| println!("{}", line(step))),
    }
    match report.passed() {
        true if args.json => Ok(()),
        true => {
            println!("{}", report.verdict());
            Ok(())
        }
        false => Err(Failure::Run(report.verdict())),
    }
}

fn protocol(args: &CertifyArgs) -> Protocol {
    match args.protocol {
        ProtocolName::Ouch => Protocol::Ouch,
        ProtocolName::Fix => Protocol::Fix,
    }
}

/// An exchange with one instrument and two accounts.
fn exchange(args: &CertifyArgs, clock: &Clock) -> ExchangeConfig {
    let mut config = Config::default();
    (config.overlay.depth, config.overlay.receivers, config.overlay.hedge) = (1, 1, 0);
    config.sequencer.enabled = false;
    let mut exchange = exchange_config(&config, clock);
    let login = FixLogin::new(&args.comp_id, args.fix.version(), FixRole::Orders);
    let account = |id: u16, (user, password): (&str, &str)| Account {
        id: AccountId(id),
        username: user.to_string(),
        password: password.to_string(),
        cancel_on_disconnect: id == 1,
        terms: LoginTerms::default(),
        throttle: Throttle::default(),
        firm: String::new(),
        fix: (id == 1 && args.protocol == ProtocolName::Fix).then(|| login.clone()),
    };
    exchange.accounts = vec![account(1, (&args.user, &args.password)), account(2, OWN)];
    exchange.instruments = instrument().into_iter().collect();
    (exchange.rules, exchange.self_trade) = (Vec::new(), Vec::new());
    exchange.limits = engine::Limits::NONE;
    exchange.timetable = exchange::Timetable::open_at_once();
    exchange.fix_comp_id = args.target.clone();
    exchange
}

fn instrument() -> Option<Instrument> {
    Some(Instrument {
        id: InstrumentId(1),
        symbol: Symbol::new(SYMBOL)?,
        tick: Price(100),
        price_max: Price(limits::PRICE_MAX),
        qty_max: Qty(limits::QTY_MAX),
        lot_decimals: 0,
    })
}

fn play(args: &CertifyArgs) -> Result<Report, Failure> {
    let door = host::sockets::listener(args.listen)
        .map_err(|error| Failure::Run(format!("TCP {}: {error}", args.listen)))?;
    let client_door = door.local_addr().map_err(io)?;
    let of = host(args, door)?;
    let exchange = of.handle();
    eprintln!("{}", welcome(args, client_door));
    let interrupted = crate::options::interrupted()?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let seen: Mutex<(Option<Step>, Vec<StepReport>)> = Mutex::default();
    let nodes = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut in_call = false;
            of.run(&stop, LOOK, |of, _| {
                for (_, host) in of.nodes() {
                    let Host::Certifier(certifier) = host else { continue };
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    *seen = (certifier.current(), certifier.finished().to_vec());
                    over.store(certifier.is_done(), Ordering::Relaxed);
                    if certifier.wants_call() != in_call {
                        in_call = certifier.wants_call();
                        set_phase(&exchange, if in_call { CALL } else { Phase::Continuous });
                    }
                }
            })
        });
        let mut told = Told::default();
        while !running.is_finished() {
            let ended = over.load(Ordering::Relaxed) || interrupted.load(Ordering::Relaxed);
            let now = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
            told.tell(now.0, &now.1);
            if ended {
                break;
            }
            thread::sleep(LOOK);
        }
        stop.store(true, Ordering::Relaxed);
        running.join()
    });
    let nodes = nodes.map_err(|_| Failure::Run("the exchange's thread panicked".to_string()))?;
    let mut nodes = nodes.map_err(io)?.into_iter();
    let report = nodes.find_map(|(_, host)| match host {
        Host::Certifier(certifier) => Some(certifier.report()),
        Host::Exchange(_) => None,
    });
    report.ok_or_else(|| Failure::Run("the certifier is gone".to_string()))
}

/// What the root is asked for as by an operator.
fn set_phase(exchange: &LoopHandle<Host>, phase: Phase) {
    let command = Command { cl_ord_id: NAME, ..exchange::set_phase(InstrumentId(0), phase) };
    // Refused only when the loop is over, which shows elsewhere.
    let _ = exchange.call(ROOT, move |host, now, out| {
        if let Host::Exchange(role) = host {
            role.with_root(out, |root, out| root.operator(now, command, out));
        }
    });
}

/// What the operator has been told.
#[derive(Default)]
struct Told {
    steps: usize,
    current: Option<Step>,
}

impl Told {
    fn tell(&mut self, current: Option<Step>, done: &[StepReport]) {
        for step in done.iter().skip(self.steps) {
            eprintln!("   {} {}", step.status.word(), step.status.detail());
        }
        self.steps = done.len();
        if current != self.current
            && let Some(step) = current
        {
            eprintln!("{}: {}", step.name(), step.asked());
        }
        self.current = current;
    }
}

/// Root, edge and certifier on one loop.
fn host(args: &CertifyArgs, door: TcpListener) -> Result<Loop<Host>, Failure> {
    let clock = Clock::start(0);
    let exchange = exchange(args, &clock);
    let udp = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io);
    let (sockets, sink) = ([udp()?, udp()?], udp()?);
    let mut known = Vec::new();
    for (index, socket) in (0..).zip(&sockets) {
        known.push((NodeId(index), socket.local_addr().map_err(io)?));
    }
    let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
    let habits = LoopConfig { local_delivery: true, ..LoopConfig::default() };
    let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
    let tcp = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io);
    let doors = [tcp()?, tcp()?];
    let [ouch, fix] = [
        peer_addr(doors[0].local_addr().map_err(io)?),
        peer_addr(doors[1].local_addr().map_err(io)?),
    ];
    // Nobody reads what is released; the socket stays open.
    let feed = peer_addr(sink.local_addr().map_err(io)?);
    let mut nodes = deploy(&exchange, host::deployment::life()?, |_| feed)
        .map_err(|e| Failure::Usage(e.to_string()))?;
    exchange::share_loop(&mut nodes);
    let mut doors = Some(doors);
    for ((index, role), socket) in (0..).zip(nodes).zip(sockets) {
        let mut own = vec![(Channel::OVERLAY, socket)];
        let mut entries = Vec::new();
        if role.as_edge().is_some() {
            own.push((Channel::FEED, sink.try_clone().map_err(io)?));
            entries.extend(doors.take().into_iter().flatten());
        }
        of.add_node(NodeId(index), Host::Exchange(Box::new(role)), own, entries).map_err(io)?;
    }
    let symbol = exchange.instruments.first().map(|instrument| instrument.symbol);
    let symbol = symbol.ok_or_else(|| Failure::Run("no instrument".to_string()))?;
    let protocol = protocol(args);
    let certifier = Certifier::new(CertifierConfig {
        protocol,
        gateway: if protocol == Protocol::Fix { fix } else { ouch },
        counter_door: ouch,
        counter_login: (OWN.0.to_string(), OWN.1.to_string()),
        symbol,
        skip: args.skip.clone(),
        patience_ns: u64::try_from(args.patience.as_nanos()).unwrap_or(u64::MAX),
        keep_going: args.keep_going,
    });
    let certifier = certifier.ok_or_else(|| Failure::Run("a login is too long".to_string()))?;
    let node = Host::Certifier(Box::new(certifier));
    of.add_node(CERTIFIER, node, Vec::new(), Some(door)).map_err(io)?;
    if let Some(tls) = tls(args)? {
        of.secure_door(CERTIFIER, 0, tls);
    }
    Ok(of)
}

/// TLS of the client's door, if it is asked for.
fn tls(args: &CertifyArgs) -> Result<Option<ServerTls>, Failure> {
    let (Some(chain), Some(key)) = (&args.tls, &args.tls_key) else { return Ok(None) };
    let authorities = args.tls_client_ca.as_ref().map(|file| host::tls::read(file)).transpose()?;
    let clients = authorities.as_ref().map_or(Clients::Any, |pem| Clients::Required(pem));
    let (chain, key) = (host::tls::read(chain)?, host::tls::read(key)?);
    let tls = ServerTls::new(Identity { chain: &chain, key: &key }, clients);
    tls.map(Some).map_err(|error| Failure::Usage(format!("--tls: {error}")))
}

fn welcome(args: &CertifyArgs, door: SocketAddr) -> String {
    let tls = if args.tls.is_some() { "TLS 1.3, " } else { "" };
    let terms = format!("{tls}instrument {SYMBOL}, tick 0.01, any price, whole lots");
    match args.protocol {
        ProtocolName::Ouch => format!(
            "OUCH 5.0 over SoupBinTCP: {door}, user {} password {}; {terms}",
            args.user, args.password
        ),
        ProtocolName::Fix => format!(
            "FIX {}: {door}, sender {} target {} password {}; {terms}",
            args.fix.text(),
            args.comp_id,
            args.target,
            args.password
        ),
    }
}

fn line(step: &StepReport) -> String {
    let (word, detail) = (step.status.word(), step.status.detail());
    format!("{:<21} {word:<12} {:>6.1} s  {detail}", step.name, step.took_ns as f64 / 1e9)
}

fn document(report: &Report) -> serde_json::Value {
    let step = |step: &StepReport| {
        serde_json::json!({
            "step": step.name,
            "asked": step.asked,
            "status": step.status.word().to_lowercase(),
            "detail": step.status.detail(),
            "took_ns": step.took_ns,
        })
    };
    serde_json::json!({
        "protocol": report.protocol_name(),
        "passed": report.passed(),
        "failed_steps": report
            .steps
            .iter()
            .filter(|step| matches!(step.status, Status::Failed(_) | Status::NotReached))
            .map(|step| step.name)
            .collect::<Vec<_>>(),
        "steps": report.steps.iter().map(step).collect::<Vec<_>>(),
    })
}
