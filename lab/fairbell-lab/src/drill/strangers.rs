//! `fairbell-lab drill strangers`: people without a key at every listening port of a group, idle or dripping
//! bytes, while it starts, while its leaders are killed, and while honest clients want snapshots.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use feed::{ListenerConfig, SnapshotServer, SnapshotServerConfig, Subscriber};
use net::{Clock, LeaderEndpoint, Loop, LoopConfig, WaitStrategy};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use types::{
    AdmissionConfig, Channel, ClockReading, MarketEvent, Nanos, Node, NodeId, OrderRef, Outbox,
    Peer, Price, Qty, Side, Yields,
};
use wire::itch::Encoder;
use wire::moldudp::{PacketBuilder, Session};
use wire::soupbin::{ClientEvent, ClientSession};

use super::Times;
use super::roots::Roots;
use host::failure::Failure;
use host::fleet::file::Port;
use host::fleet::node::bind;
use host::replica::claims;
use host::sockets::{connect_from, io};

/// How long a group may take to have a leader.
const LEADER: Duration = Duration::from_secs(5);
/// After that it is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a client waits for its snapshot.
const SNAPSHOT: Duration = Duration::from_secs(5);
/// Orders in the books whose snapshots are served.
const ORDERS: u64 = 2_000;
/// How long an address may take to answer a stranger.
const CONNECT: Duration = Duration::from_millis(20);
/// Between two bytes of one who drips.
const DRIP: Duration = Duration::from_millis(150);
/// Where half of them come from.
const STRANGE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The ports that they come from.
const PORTS: std::ops::Range<u16> = 1_100..28_700;
/// Between two steps of a crowd.
const STEP: Duration = Duration::from_millis(5);
/// What a crowd of this size and the group want of descriptors.
const DESCRIPTORS: u64 = 8_192;

/// Options of `fairbell-lab drill strangers`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab drill strangers                   20 cold starts, 20 kills, 20 snapshots\n  \
    fairbell-lab drill strangers --times 3 --json\n  \
    fairbell-lab drill strangers --times 1 --first-come   the control: doors as they must not be\n\n\
    Replicas are processes; strangers are this one, half of them from the replicas' address. Who is\n\
    sent away comes back at once. The exit code is 1 when a leader took longer than 5 s or a client\n\
    got no snapshot.")]
pub struct StrangersArgs {
    /// Cold starts, kills of leaders, and clients who want snapshots
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub times: u32,
    /// Strangers at each port
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u32).range(0..=500))]
    pub strangers: u32,
    /// Places go to the first who come: what it must not be like
    #[arg(long)]
    pub first_come: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// What came of it.
#[derive(Serialize, Clone, Debug)]
struct Report {
    drill: &'static str,
    strangers_per_port: u32,
    ports: usize,
    first_come: bool,
    times: u32,
    /// Connections that strangers opened.
    opened: u64,
    /// Starts of all replicas after which one led within 5 s, and the time.
    cold_starts_led: u32,
    cold_start_ns: Times,
    /// Kills of leaders after which another led within 5 s, and the time.
    kills_led: u32,
    kill_ns: Times,
    /// Questions how a replica stands that were answered.
    statuses_answered: u32,
    statuses_asked: u32,
    /// Whole snapshots.
    snapshots: u32,
    holds: bool,
}

/// Runs it and tells of it.
///
/// # Errors
/// When it does not hold, or can't be played.
pub fn run(args: &StrangersArgs) -> Result<(), Failure> {
    let dir = std::env::temp_dir().join(format!("fairbell-strangers-{}", std::process::id()));
    host::files::folder(&dir)?;
    let report = descriptors().and_then(|()| play(args, &dir));
    let _ = std::fs::remove_dir_all(&dir);
    let report = report?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default()),
        false => print(&report),
    }
    match report.holds {
        true => Ok(()),
        false => Err(Failure::Run("strangers kept somebody out".to_string())),
    }
}

fn print(report: &Report) {
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "strangers: {} at each of {} ports, {} connections in all{}",
        report.strangers_per_port,
        report.ports,
        report.opened,
        if report.first_come { "; places go to the first who come" } else { "" }
    );
    for (what, led, times) in [
        ("cold starts", report.cold_starts_led, &report.cold_start_ns),
        ("kills of the leader", report.kills_led, &report.kill_ns),
    ] {
        println!(
            "  {what}: a leader within 5 s after {led} of {}, p50 {:.0} ms, max {:.0} ms",
            report.times,
            ms(times.p50),
            ms(times.max)
        );
    }
    println!(
        "  questions how a replica stands: {} of {} answered",
        report.statuses_answered, report.statuses_asked
    );
    println!("  snapshots: {} of {} clients got theirs", report.snapshots, report.times);
    println!("  {}", if report.holds { "PASS" } else { "FAIL" });
}

/// As many as the system lets this process have, up to what is needed.
fn descriptors() -> Result<(), Failure> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = DESCRIPTORS.min(limit.maximum.unwrap_or(DESCRIPTORS));
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| Failure::Run(error.to_string()))
}

fn play(args: &StrangersArgs, dir: &Path) -> Result<Report, Failure> {
    let stop = AtomicBool::new(false);
    let mut group = Group::new(dir, args.first_come)?;
    let (server, snapshots) = snapshot_server(args.first_come)?;
    let mut ports: Vec<SocketAddr> =
        group.roots.cluster.places().map(|(_, place)| place.link).collect();
    for (_, root) in group.roots.file.replicated() {
        ports.push(group.roots.file.at(root, Port::Control)?);
    }
    ports.push(snapshots);
    let opened = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _over = Over(&stop);
        let (stop, opened) = (&stop, &opened);
        let (claims, key) = group.roots.claims()?;
        let seat = group.seat.clone();
        scope.spawn(move || claims::hear(&claims, &key, &seat, stop));
        scope.spawn(move || server.run(stop, STEP, |_, _| ()).map(|_| ()));
        for at in &ports {
            scope.spawn(move || {
                let mut crowd = Crowd::new(vec![*at], args.strangers as usize);
                while !stop.load(Ordering::Relaxed) {
                    crowd.turn();
                    std::thread::sleep(STEP);
                }
                opened.fetch_add(crowd.opened, Ordering::Relaxed);
            });
        }
        // Those of the snapshot server are all there by then.
        std::thread::sleep(Duration::from_millis(500));
        let served = (0..args.times).filter(|_| fetch(snapshots).unwrap_or(false)).count() as u32;
        let (mut starts, mut kills) = (Vec::new(), Vec::new());
        for number in 0..args.times {
            if !args.json {
                eprint!("\r{} of {} cold starts", number + 1, args.times);
            }
            group.roots.kill_all();
            starts.push(group.start()?);
        }
        for number in 0..args.times {
            if !args.json {
                eprint!("\r{} of {} kills          ", number + 1, args.times);
            }
            // Where nobody leads there is no leader to kill.
            let nobody = starts.iter().chain(&kills).any(|ns| *ns == u64::MAX);
            kills.push(if nobody { u64::MAX } else { group.kill_leader()? });
        }
        if !args.json {
            eprintln!();
        }
        group.roots.kill_all();
        stop.store(true, Ordering::Relaxed);
        let led = |all: &[u64]| {
            all.iter().filter(|ns| u128::from(**ns) <= LEADER.as_nanos()).count() as u32
        };
        let (cold_starts_led, kills_led) = (led(&starts), led(&kills));
        Ok(Report {
            drill: "strangers",
            strangers_per_port: args.strangers,
            ports: ports.len(),
            first_come: args.first_come,
            times: args.times,
            opened: 0,
            cold_starts_led,
            cold_start_ns: Times::of(starts),
            kills_led,
            kill_ns: Times::of(kills),
            statuses_answered: group.answered,
            statuses_asked: group.asked,
            snapshots: served,
            holds: [cold_starts_led, kills_led, served].iter().all(|n| *n == args.times)
                && group.answered == group.asked,
        })
    })
    .map(|report| Report { opened: opened.load(Ordering::Relaxed), ..report })
}

/// Ends the threads whatever becomes of the drill.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Three replicas, each a process.
struct Group {
    roots: Roots,
    seat: LeaderEndpoint,
    /// Where nodes would be: nobody listens.
    _nodes: Vec<UdpSocket>,
    answered: u32,
    asked: u32,
}

impl Group {
    fn new(dir: &Path, first_come: bool) -> Result<Group, Failure> {
        let mut roots = Roots::found(dir, CONFIG, (3, 0))?;
        roots.first_come = first_come;
        let seat = roots.cluster.leader()?;
        let nodes = roots.overlay()?;
        let nodes = nodes.into_iter().map(|(_, node, port)| bind(&roots.file, node, port));
        let nodes = nodes.collect::<Result<_, _>>()?;
        Ok(Group { roots, seat, _nodes: nodes, answered: 0, asked: 0 })
    }

    /// Waits for a leader of a later term than `after`; how long that took from `since`, or no end.
    fn led(&mut self, after: u64, since: Instant) -> u64 {
        while since.elapsed() < PATIENCE {
            if self.seat.held().0 > after {
                return since.elapsed().as_nanos() as u64;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        u64::MAX
    }

    /// Starts all; the time until one leads.
    fn start(&mut self) -> Result<u64, Failure> {
        let (term, since) = (self.seat.held().0, Instant::now());
        (0..self.roots.count()).try_for_each(|number| self.roots.revive(number))?;
        let took = self.led(term, since);
        self.roots.all_run()?;
        if took < u64::MAX {
            self.ask_all();
        }
        Ok(took)
    }

    /// Kills the leader; the time until another one leads. It is back, and follows, when this returns.
    fn kill_leader(&mut self) -> Result<u64, Failure> {
        let (term, leader) = self.seat.held();
        self.roots.kill(leader);
        let took = self.led(term, Instant::now());
        self.roots.all_run()?;
        self.roots.revive(leader)?;
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            let status = self.roots.status(leader);
            if status.is_some_and(|status| status.term > term && status.doubt_term == 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.ask_all();
        Ok(took)
    }

    fn ask_all(&mut self) {
        for number in 0..self.roots.count() {
            self.asked += 1;
            let since = Instant::now();
            // One that led nobody may still be starting.
            let mut status = self.roots.status(number);
            while status.is_none() && since.elapsed() < LEADER {
                std::thread::sleep(Duration::from_millis(20));
                status = self.roots.status(number);
            }
            self.answered += u32::from(status.is_some());
        }
    }
}

/// An exchange without clients.
const CONFIG: &str = "[doors]\nplain = true\n\n[overlay]\ndepth = 2\nfanout = 2\nreceivers = 2\n\
    hedge = 1\nchange_tree_at_percent = 0\n\n[day]\nauctions = false\nhalt_instrument = 0\n\n\
    [flow]\nsample = \"none\"\ngenerated_rate = 0\nparticipants = 1\n\n\
    [[account]]\nname = \"nobody\"\nusername = \"FLOW01\"\npassword = \"flow\"\n";

/// A snapshot server whose books hold some orders, and where it is.
fn snapshot_server(first_come: bool) -> Result<(Loop<SnapshotServer>, SocketAddr), Failure> {
    let session = Session(*b"FBSTRANGER");
    let limits = SnapshotServerConfig::default();
    let first = AdmissionConfig {
        places: 16,
        places_per_source: 16,
        patience_ns: u64::MAX,
        yields: Yields::Newest,
    };
    let strangers = if first_come { first } else { limits.strangers };
    let limits = SnapshotServerConfig { strangers, ..limits };
    let instrument = host::config::Config::default().instruments().into_iter().next();
    let instrument = instrument.ok_or_else(|| Failure::Usage("no instrument".to_string()))?;
    let settings = ListenerConfig::new(session, vec![Peer::Addr(1)], vec![instrument.id]);
    let mut server = SnapshotServer::new(Subscriber::new(&settings, []), limits);
    let encoder = Encoder::new(&[instrument], Nanos(0));
    let order = |number: u64| MarketEvent::AddOrder {
        instrument: instrument.id,
        order_ref: OrderRef(number),
        side: Side::Buy,
        qty: Qty(1),
        price: Price(instrument.tick.0 * (1 + number as i64 % 50)),
    };
    let directory = MarketEvent::Directory { instrument: instrument.id };
    let events = std::iter::once(directory).chain((1..=ORDERS).map(order));
    for (event, seq) in events.zip(1u64..) {
        let mut message = Vec::new();
        let encoded = encoder.encode(&event, Nanos(seq), &mut message);
        encoded.map_err(|error| Failure::Run(format!("{error:?}")))?;
        let mut packet = PacketBuilder::new(session, seq, 1_392);
        packet.push(&message);
        let (now, from) = (ClockReading { now: Nanos(1), bound_ns: 0 }, Peer::Addr(1));
        let mut out = Outbox::default();
        server.handle_datagram(now, Channel::FEED, from, packet.bytes(), &mut out);
    }
    let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
    let at = door.local_addr().map_err(io)?;
    let wait = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
    let habits = LoopConfig { wait, ..LoopConfig::default() };
    let mut of = Loop::new(Clock::start(0), Arc::default(), habits).map_err(io)?;
    of.add_node(NodeId(1), server, Vec::new(), [door]).map_err(io)?;
    Ok((of, at))
}

/// An honest client, who wants a snapshot: whether it has all of it.
fn fetch(at: SocketAddr) -> std::io::Result<bool> {
    let since = Instant::now();
    let mut stream = TcpStream::connect_timeout(&at, SNAPSHOT)?;
    let (mut client, mut login) = (ClientSession::new("", ""), Vec::new());
    let Ok(client) = &mut client else { return Ok(false) };
    if client.connect(Nanos(0), &mut login).is_err() {
        return Ok(false);
    }
    stream.write_all(&login)?;
    let (mut buffer, mut orders, mut ended) = (vec![0; 1 << 16], 0, false);
    while !ended {
        let left = SNAPSHOT.saturating_sub(since.elapsed()).max(Duration::from_nanos(1));
        stream.set_read_timeout(Some(left))?;
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(false);
        }
        client.handle_bytes(Nanos(0), buffer.get(..len).unwrap_or(&[]), |event| match event {
            ClientEvent::Sequenced { message, .. } => {
                orders += u64::from(message.first() == Some(&b'A'));
            }
            ClientEvent::EndOfSession => ended = true,
            _ => {}
        });
    }
    Ok(orders == ORDERS)
}

/// One of them: idle, or saying a byte now and then.
struct Stranger {
    at: SocketAddr,
    from: SocketAddr,
    drips: bool,
    stream: Option<TcpStream>,
    said: Instant,
}

impl Stranger {
    fn turn(&mut self) -> bool {
        let Some(stream) = &mut self.stream else {
            // Never a port that the system gives out, as to a replica that is away.
            let next = self.from.port() + 1;
            self.from.set_port(if next < PORTS.end { next } else { PORTS.start });
            let opened = connect_from(self.from, self.at, CONNECT);
            self.stream = opened.and_then(|one| one.set_nonblocking(true).map(|()| one)).ok();
            return self.stream.is_some();
        };
        let gone = match stream.read(&mut [0; 256]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        let drips = self.drips && self.said.elapsed() >= DRIP;
        if drips {
            self.said = Instant::now();
        }
        if gone || (drips && stream.write(b"\x02").is_err()) {
            self.stream = None;
        }
        false
    }
}

/// Strangers, so many at each address; every other one drips, half of them come from the very address they
/// want in at, as those do who belong there. Who is sent away comes back at once.
pub struct Crowd {
    strangers: Vec<Stranger>,
    /// Connections that were opened so far.
    pub opened: u64,
}

impl Crowd {
    /// Nobody has come yet.
    pub fn new(addresses: Vec<SocketAddr>, each: usize) -> Crowd {
        let strangers = (0..each).flat_map(|number| {
            let one = move |at: &SocketAddr| Stranger {
                at: *at,
                from: SocketAddr::new(
                    if number / 2 % 2 == 0 { at.ip() } else { STRANGE },
                    PORTS.start + (number * 55) as u16,
                ),
                drips: number % 2 == 1,
                stream: None,
                said: Instant::now(),
            };
            addresses.iter().map(one).collect::<Vec<_>>()
        });
        Crowd { strangers: strangers.collect(), opened: 0 }
    }

    /// Everybody's next step.
    pub fn turn(&mut self) {
        self.opened += self.strangers.iter_mut().map(|one| u64::from(one.turn())).sum::<u64>();
    }

    /// Connections that are open, as far as they know.
    pub fn open(&self) -> usize {
        self.strangers.iter().filter(|one| one.stream.is_some()).count()
    }
}
