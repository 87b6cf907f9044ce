//! P3a: order to acceptance through gateway and engine alone, beside a bare TCP echo.
//!
//! Floor and system take turns in slices of up to 10 s, so that both meet the same machine. Both
//! have the same connections, rate, sizes, wait strategy and open-loop timetable, and a latency
//! counts from when the request was due, so a late sender charges its delay to the system. The
//! system is the exchange's own root and edge in one loop with their datagrams handed over in
//! memory, sealed as `fairbell up` seals them unless asked not to: no tree, no sequencing window,
//! no hold, no disk.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use net::{Clock, Directory, Loop, LoopConfig, WaitStrategy, floor, peer_addr};
use participant::{
    ClientConfig, Driver, DriverConfig, Generator, GeneratorConfig, Phase, RequestKind, Schedule,
    Source,
};
use roles::{ExchangeConfig, Role, deploy};
use telemetry::Recorder;
use types::{
    AccountId, CancelReason, Channel, ClOrdId, ExecutionKind, ExecutionReport, FeedSeq, Instrument,
    InstrumentId, Liquidity, MatchNumber, Nanos, NodeId, OrderRef, OrderType, Peer, Price, Qty,
    RejectReason, Side, TimeInForce, UserRefNum,
};
use wire::ouch::{self, NewOrder};

use super::echo::{EchoClient, EchoConfig};
use crate::Failure;
use crate::cli::{RttArgs, Switch};
use crate::config::Config;
use crate::report::numbers;
use crate::up::{exchange_config, options, report_quantiles};

/// Longest slice.
const SLICE_NS: u64 = 10 * Nanos::SECOND;
/// Participants, and connections of the floor.
const CONNECTIONS: u32 = 8;
/// Bytes that SoupBinTCP puts before a message.
const SOUP_HEADER: usize = 3;
/// What P3a asks of the ratios to the floor: p50, p99.
const BARS: [f64; 2] = [2.5, 3.0];
/// The participants' node.
const CLIENT: NodeId = NodeId(60_000);

/// Measures and prints.
pub fn run(args: &RttArgs) -> Result<(), Failure> {
    let total_ns = u64::try_from(args.duration.as_nanos()).unwrap_or(u64::MAX);
    let pairs = total_ns.div_ceil(2 * SLICE_NS).max(1);
    let slice_ns = total_ns / (2 * pairs);
    if slice_ns < Nanos::SECOND / 2 {
        return Err(Failure::Usage("--duration: at least 1s is needed".to_string()));
    }
    let config = bench_config(args.sealed == Switch::On);
    let sizes = sizes(&config)?;
    let (mut floors, mut systems) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        if !args.json {
            eprintln!("slice {} of {}: floor, then system", pair + 1, pairs);
        }
        floors.push(floor_slice(args.rate, slice_ns, sizes)?);
        systems.push(system_slice(&config, args.rate, slice_ns, pair)?);
    }
    print(args, slice_ns, sizes, &floors, &systems);
    Ok(())
}

fn bench_config(sealed: bool) -> Config {
    let mut config = Config::default();
    config.overlay.sealed = sealed;
    config.overlay.depth = 1;
    config.overlay.receivers = 1;
    config.overlay.hedge = 0;
    config.sequencer.enabled = false;
    config
}

/// Bytes of an order and of its acceptance on the wire, packet headers included.
fn sizes(config: &Config) -> Result<[usize; 2], Failure> {
    let instruments = config.instruments();
    let Some(instrument) = instruments.first() else {
        return Err(Failure::Run("no instrument is configured".to_string()));
    };
    let (mut order, mut acceptance) = (Vec::new(), Vec::new());
    let unwritable = |error| Failure::Run(format!("a message has no wire format: {error}"));
    let new = NewOrder {
        user_ref: UserRefNum(1),
        side: Side::Buy,
        qty: Qty(1),
        symbol: instrument.symbol,
        price: Some(instrument.tick),
        time_in_force: TimeInForce::Day,
        post_only: false,
        cl_ord_id: ClOrdId::default(),
    };
    ouch::encode_enter_order(&new, &mut order).map_err(unwritable)?;
    ouch::Encoder::new(&instruments, Nanos(0))
        .encode_report(&accepted(instrument), &mut acceptance)
        .map_err(unwritable)?;
    Ok([order.len() + SOUP_HEADER, acceptance.len() + SOUP_HEADER])
}

fn accepted(instrument: &Instrument) -> ExecutionReport {
    ExecutionReport {
        kind: ExecutionKind::Accepted,
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: 0,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: AccountId(1),
        instrument: instrument.id,
        user_ref: UserRefNum(1),
        orig_user_ref: UserRefNum(0),
        session_seq: 0,
        qty: Qty(1),
        leaves: Qty(1),
        price: instrument.tick,
        order_ref: OrderRef(1),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq: Nanos(0),
        cl_ord_id: ClOrdId::default(),
        reserved2: [0; 2],
    }
}

fn floor_slice(rate: u64, slice_ns: u64, sizes: [usize; 2]) -> Result<Recorder, Failure> {
    let listener = listen()?;
    let client = EchoClient::new(EchoConfig {
        server: address(&listener)?,
        connections: CONNECTIONS,
        rate,
        duration_ns: slice_ns,
        request_len: sizes[0],
        reply_len: sizes[1],
    });
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), LoopConfig::default())
        .map_err(io)?;
    of.add_node(CLIENT, client, Vec::new(), None).map_err(io)?;
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait = WaitStrategy::default();
    let nodes = thread::scope(|scope| {
        let server = scope.spawn(|| floor::tcp_echo(&listener, sizes[0], sizes[1], &wait, &stop));
        let client = scope.spawn(|| {
            of.run(&stop, Duration::from_millis(20), |of, _| {
                let over = of.nodes().all(|(_, client)| client.is_done());
                done.store(over, Ordering::Relaxed);
            })
        });
        wait_for(&done, slice_ns);
        stop.store(true, Ordering::Relaxed);
        let served = server.join();
        let nodes = client.join();
        served.map_err(|_| panicked())?.map_err(io)?;
        nodes.map_err(|_| panicked())?.map_err(io)
    })?;
    let mut recorder = Recorder::new();
    for (_, client) in &nodes {
        client.latencies().iter().for_each(|ns| recorder.record(*ns));
    }
    Ok(recorder)
}

fn system_slice(config: &Config, rate: u64, slice_ns: u64, seed: u64) -> Result<Recorder, Failure> {
    let clock = Clock::start(config.hold.clock_bound_ns);
    let mut exchange = exchange_config(config, &clock);
    exchange.options.secret = options(config)?.secret;
    let listener = listen()?;
    let entry = address(&listener)?;
    let inside = exchange_loop(clock, &exchange, listener)?;
    let mut outside =
        Loop::new(clock, Arc::new(Directory::default()), LoopConfig::default()).map_err(io)?;
    let driver = Role::Driver(Box::new(participants(config, entry, rate, slice_ns, seed)?));
    outside.add_node(CLIENT, driver, Vec::new(), None).map_err(io)?;
    let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let nodes = thread::scope(|scope| {
        let inside = scope.spawn(|| inside.run(&stop, Duration::from_secs(1), |_, _| {}));
        let outside = scope.spawn(|| {
            outside.run(&stop, Duration::from_millis(20), |of, _| {
                let over = of
                    .nodes()
                    .all(|(_, role)| role.as_driver().is_some_and(|d| d.phase() == Phase::Idle));
                done.store(over, Ordering::Relaxed);
            })
        });
        wait_for(&done, slice_ns);
        stop.store(true, Ordering::Relaxed);
        let (inside, outside) = (inside.join(), outside.join());
        inside.map_err(|_| panicked())?.map_err(io)?;
        outside.map_err(|_| panicked())?.map_err(io)
    })?;
    let mut recorder = Recorder::new();
    for (_, role) in nodes {
        let Role::Driver(mut driver) = role else { continue };
        let status = driver.status();
        if status.ledger.lost() > 0 || status.ledger.duplicates > 0 || status.not_asked > 0 {
            return Err(Failure::Run(format!(
                "{} orders lost, {} answered twice, {} not sent: no measurement",
                status.ledger.lost(),
                status.ledger.duplicates,
                status.not_asked
            )));
        }
        driver.tape().drain_latencies(|latency| {
            if latency.kind == RequestKind::New {
                recorder.record(latency.ns);
            }
        });
    }
    Ok(recorder)
}

/// Root and edge on one thread, datagrams between them in memory.
fn exchange_loop(
    clock: Clock,
    exchange: &ExchangeConfig,
    listener: TcpListener,
) -> Result<Loop<Role>, Failure> {
    let udp = || std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io);
    let (sockets, sink) = ([udp()?, udp()?], udp()?);
    let mut known = Vec::new();
    for (index, socket) in sockets.iter().enumerate() {
        known.push((NodeId(index as u16), v4(socket.local_addr().map_err(io)?)?));
    }
    let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
    let habits = LoopConfig { local_delivery: true, ..LoopConfig::default() };
    let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
    // Nobody reads what is released; the socket stays open so that sending costs the usual.
    let feed = peer_addr(v4(sink.local_addr().map_err(io)?)?);
    let nodes = deploy(exchange, 1, |_| feed).map_err(|e| Failure::Run(e.to_string()))?;
    let mut listener = Some(listener);
    for ((index, role), socket) in nodes.into_iter().enumerate().zip(sockets) {
        let mut own = vec![(Channel::OVERLAY, socket)];
        let mut entry = None;
        if role.as_edge().is_some() {
            own.push((Channel::FEED, sink.try_clone().map_err(io)?));
            entry = listener.take();
        }
        of.add_node(NodeId(index as u16), role, own, entry).map_err(io)?;
    }
    Ok(of)
}

/// The participants with generated flow on the first instrument.
fn participants(
    config: &Config,
    entry: Peer,
    rate: u64,
    slice_ns: u64,
    seed: u64,
) -> Result<Driver, Failure> {
    let instruments = config.instruments();
    let clients = config.accounts.0.iter().take(CONNECTIONS as usize);
    let clients: Vec<ClientConfig> = clients
        .map(|account| ClientConfig::new(&account.username, &account.password, vec![entry]))
        .collect();
    let Some(instrument) = instruments.iter().find(|of| of.id == InstrumentId(1)) else {
        return Err(Failure::Run("no instrument is configured".to_string()));
    };
    let mut settings =
        GeneratorConfig::new(*instrument, Price::from_whole(10_000), config.flow.seed + seed);
    settings.participants = CONNECTIONS as u8;
    let mut flow = Generator::new(settings);
    let opening = flow.opening(500);
    let mut schedule = Schedule::default();
    let left = rate.saturating_mul(slice_ns) / Nanos::SECOND;
    schedule.add(Source::Generated { flow: Box::new(flow), left }, rate);
    Driver::new(DriverConfig::new(instruments, clients), opening, schedule)
        .map_err(|_| Failure::Run("a login does not fit SoupBinTCP".to_string()))
}

/// Until `done`, or far longer than the slice should take.
fn wait_for(done: &AtomicBool, slice_ns: u64) {
    let tries = (slice_ns + 30 * Nanos::SECOND) / (10 * Nanos::MILLI);
    for _ in 0..tries {
        if done.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn print(
    args: &RttArgs,
    slice_ns: u64,
    sizes: [usize; 2],
    floors: &[Recorder],
    systems: &[Recorder],
) {
    let merged = |slices: &[Recorder]| {
        let mut all = Recorder::new();
        slices.iter().for_each(|slice| all.merge(slice));
        report_quantiles(&all.summary())
    };
    let (floor, system) = (merged(floors), merged(systems));
    let ratio = |of: u64, to: u64| of as f64 / to.max(1) as f64;
    let ratios = [ratio(system.p50, floor.p50), ratio(system.p99, floor.p99)];
    let met = ratios.iter().zip(BARS).all(|(ratio, bar)| *ratio <= bar);
    let each = |slices: &[Recorder]| -> Vec<[u64; 2]> {
        slices.iter().map(|slice| [slice.quantile(0.5), slice.quantile(0.99)]).collect()
    };
    if args.json {
        let document = serde_json::json!({
            "seed": Config::default().flow.seed,
            "rate_per_s": args.rate,
            "connections": CONNECTIONS,
            "sealed": args.sealed == Switch::On,
            "slice_ns": slice_ns,
            "request_bytes": sizes[0],
            "reply_bytes": sizes[1],
            "floor_ns": floor,
            "system_ns": system,
            "floor_slices_p50_p99_ns": each(floors),
            "system_slices_p50_p99_ns": each(systems),
            "ratio_p50": ratios[0],
            "ratio_p99": ratios[1],
            "bar_ratio_p50": BARS[0],
            "bar_ratio_p99": BARS[1],
            "bar_met": met,
        });
        println!("{document:#}");
        return;
    }
    let row = |name: &str, of: &crate::report::Quantiles| {
        let [p50, p99, p999] = [of.p50, of.p99, of.p999].map(numbers::micros);
        println!("  {name:<28} {p50:>10} {p99:>10} {p999:>10} {:>10}", of.count);
    };
    println!("order to acceptance, us              p50        p99      p99.9      count");
    row("floor: bare TCP echo", &floor);
    let name = match args.sealed {
        Switch::On => "gateway + engine, sealed",
        Switch::Off => "gateway + engine, in clear",
    };
    row(name, &system);
    println!("  {:<28} {:>9.2}x {:>9.2}x", "ratio", ratios[0], ratios[1]);
    let verdict = if met { "met" } else { "not met" };
    println!("  {:<28} {:>9.2}x {:>9.2}x  {verdict}", "bar (P3a)", BARS[0], BARS[1]);
}

fn listen() -> Result<TcpListener, Failure> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)
}

fn address(listener: &TcpListener) -> Result<Peer, Failure> {
    v4(listener.local_addr().map_err(io)?).map(peer_addr)
}

fn v4(addr: SocketAddr) -> Result<SocketAddrV4, Failure> {
    match addr {
        SocketAddr::V4(addr) => Ok(addr),
        SocketAddr::V6(addr) => Err(Failure::Run(format!("{addr} is no IPv4 address"))),
    }
}

fn io(error: std::io::Error) -> Failure {
    Failure::Run(format!("sockets: {error}"))
}

fn panicked() -> Failure {
    Failure::Run("a thread of the measurement panicked".to_string())
}
