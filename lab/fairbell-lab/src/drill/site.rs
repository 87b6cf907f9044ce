//! The exchange that is drilled: replicas as processes of their own, everything else here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Role, deploy};
use net::{
    Clock, Directory, LeaderEndpoint, Loop, LoopConfig, LoopHandle, Timekeeper, WaitStrategy,
    peer_addr,
};
use participant::load::{Load, LoadConfig, LoadPhase, UNREAD_MAX};
use types::{Channel, ClockReading, Nanos, NodeId, Peer};

use super::relay::Relay;
use super::roots::Roots;
use host::failure::{Failure, on};
use host::fleet::file::Port;
use host::fleet::node::{bind, edge_ends};
use host::nodes;
use host::replica::claims;
use host::replica::cluster::Cluster;
use host::replica::node::Status;
use host::sockets::io;

/// The clients' node.
pub const CLIENTS: NodeId = NodeId(60_001);
/// Listener of receiver 0; the others follow.
const LISTENERS: NodeId = NodeId(50_000);
/// Feed positions between two comparisons of books.
const CHECKPOINT_EVERY: u64 = 256;
const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How often loops are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long replicas may take to answer, and to end when they are asked to.
const PATIENCE: Duration = Duration::from_secs(20);

fn udp() -> Result<(UdpSocket, SocketAddr), Failure> {
    let socket = UdpSocket::bind(LOCAL).map_err(io)?;
    let at = socket.local_addr().map_err(io)?;
    Ok((socket, at))
}

/// A clock that is ahead: whoever has it finds every way long.
#[derive(Debug)]
struct Ahead;

/// How far, ns: less than the rounds of the all-reduce that are believed, more than any
/// `hold.cap_ms` here.
const AHEAD_NS: u64 = 120 * Nanos::MILLI;

impl Timekeeper for Ahead {
    fn reading(&self, process: Nanos) -> ClockReading {
        ClockReading { now: process + AHEAD_NS, bound_ns: 0 }
    }
}

type Nodes<N> = JoinHandle<std::io::Result<Vec<(NodeId, N)>>>;

/// Everything that runs.
pub struct Site {
    /// The clock of everything here.
    pub clock: Clock,
    /// The root's replicas.
    pub roots: Roots,
    /// Where the root is.
    pub seat: LeaderEndpoint,
    /// The clients' loop.
    pub clients: LoopHandle<Load>,
    exchange: ExchangeConfig,
    dir: PathBuf,
    /// Those of the group, from 0.
    members: Vec<usize>,
    relays: Vec<Relay>,
    relaying: Vec<JoinHandle<()>>,
    edges: LoopHandle<Role>,
    dead: Vec<u16>,
    stop: Arc<AtomicBool>,
    load_over: Arc<AtomicBool>,
    nodes: Vec<Nodes<Role>>,
    load: Nodes<Load>,
    claims: JoinHandle<()>,
}

/// What is left when all has ended.
pub struct Artifacts {
    /// Proxies, receivers with gateways, listeners.
    pub nodes: Vec<(NodeId, Role)>,
    /// The clients.
    pub load: Load,
    /// What the replicas last said of themselves.
    pub statuses: Vec<Option<Status>>,
    /// Replicas of the group at the end, from 0.
    pub members: Vec<usize>,
    /// The deployment.
    pub cluster: Cluster,
    /// Its folder.
    pub dir: PathBuf,
    /// Clock of everything.
    pub clock: Clock,
    /// Receivers that were killed, from 0: nobody hears their listeners' feed to its end.
    pub dead: Vec<u16>,
}

impl Artifacts {
    /// Listeners of receivers that live.
    pub fn listeners(&self) -> impl Iterator<Item = &feed::Subscriber> {
        let lives = |id: &NodeId| !self.dead.iter().any(|index| LISTENERS.0 + index == id.0);
        let nodes = self.nodes.iter().filter(move |(id, _)| lives(id));
        nodes.filter_map(|(_, role)| role.as_listener())
    }
}

impl Site {
    /// Binds and starts everything in `dir`, but for replicas in reserve; `load` makes the clients,
    /// given the gateways. With `capped` the last receiver's clock is ahead, so that every datagram is
    /// held for `hold.cap_ms`.
    pub fn start(
        mut roots: Roots,
        (dir, capped): (&Path, bool),
        load: impl FnOnce(Vec<Peer>) -> LoadConfig,
    ) -> Result<Site, Failure> {
        let clock = Clock::start(0);
        let mut exchange = host::deployment::exchange(&roots.config, &clock)?;
        roots.cluster.settle(&mut exchange);
        let (claims, key) = roots.claims()?;
        let seat = roots.cluster.leader()?;
        let directory = roots.cluster.directory()?.with_leader(seat.clone());
        let directory = Arc::new(directory.map_err(|error| Failure::Run(error.to_string()))?);
        let stop = Arc::new(AtomicBool::new(false));
        let (relays, relaying) = relays(&mut roots, &stop)?;
        let built = Built::new(&exchange, (&roots, capped), (clock, &directory))?;
        let edges = built.loops[0].handle();
        let nodes = built.loops.into_iter().map(|of| run(of, &stop, |_| {})).collect();
        let load = Load::new(load(built.gateways)).map_err(|e| Failure::Usage(e.to_string()))?;
        let mut of = Loop::new(clock, Arc::default(), habits(UNREAD_MAX)).map_err(io)?;
        of.add_node(CLIENTS, load, Vec::new(), None).map_err(io)?;
        let (clients, load_over) = (of.handle(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&load_over);
        let (moved, ended) = (seat.clone(), Arc::clone(&stop));
        let mut site = Site {
            clock,
            seat,
            clients,
            exchange,
            relays,
            relaying,
            edges,
            dead: Vec::new(),
            dir: dir.to_path_buf(),
            members: (0..roots.cluster.replicas.len()).collect(),
            load: run(of, &stop, move |of| {
                let done = of.nodes().all(|(_, load)| load.phase() == LoadPhase::Done);
                over.store(done, Ordering::Relaxed);
            }),
            load_over,
            nodes,
            claims: std::thread::spawn(move || {
                claims::hear(&claims, &key, &moved, &ended);
            }),
            stop,
            roots,
        };
        site.revive_all()?;
        Ok(site)
    }

    /// The session of the feed, the midnight that its times begin at, and the clock here.
    pub fn feed(&self) -> ([u8; 10], Nanos, Clock) {
        (self.exchange.session_of(0), self.exchange.midnight, self.clock)
    }

    /// Cuts a replica's streams with all others, or mends them.
    pub fn cut(&self, number: usize, cut: bool) -> bool {
        let of = |relay: &&Relay| relay.ends.0 == number || relay.ends.1 == number;
        self.relays.iter().filter(of).for_each(|relay| relay.cut(cut));
        self.relays.iter().any(|relay| of(&relay))
    }

    /// Kills all replicas' processes, one right after the other.
    pub fn kill_all(&mut self) -> bool {
        let members = self.members.clone();
        members.into_iter().map(|number| self.roots.kill(number)).fold(true, |all, one| all & one)
    }

    /// Starts all replicas of the group that do not run.
    pub fn revive_all(&mut self) -> Result<(), Failure> {
        self.members.clone().into_iter().try_for_each(|number| self.roots.revive(number))
    }

    /// The leader's number, from 0, once one serves in a later term than `after`.
    pub fn leader_after(&self, after: u64, patience: Duration) -> Option<(u64, usize)> {
        let from = Instant::now();
        while from.elapsed() < patience {
            let (term, place) = self.seat.held();
            if term > after {
                return Some((term, place));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Waits until all replicas answer, all take part in elections, and none is more than so many
    /// inputs behind.
    pub fn all_within(&self, inputs: u64, patience: Duration) -> bool {
        let from = Instant::now();
        while from.elapsed() < patience {
            // What is applied: a snapshot counts as committed while it is still being written.
            let applied = |one: &Option<Status>| {
                one.as_ref().filter(|one| one.waits.is_none()).map(|one| one.inputs)
            };
            let applied: Option<Vec<u64>> = self.statuses().iter().map(applied).collect();
            let ends = applied.and_then(|all| Some((*all.iter().min()?, *all.iter().max()?)));
            if ends.is_some_and(|(least, most)| most - least <= inputs) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Waits until the logs of all that answer begin after so many inputs, and what a dead one may have had
    /// beyond them.
    pub fn others_begin_after(&self, inputs: u64, patience: Duration) -> bool {
        const BEYOND: u64 = 512;
        let from = Instant::now();
        while from.elapsed() < patience {
            let cut = |one: &Status| one.log_before > inputs + BEYOND;
            if self.statuses().iter().flatten().all(cut) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// What all replicas say.
    pub fn statuses(&self) -> Vec<Option<Status>> {
        self.members.iter().map(|number| self.roots.status(*number)).collect()
    }

    /// Replicas of the group, from 0.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// A replica's disk is lost with it: one of the reserve is started on an empty one and, by an
    /// operator's command to whoever leads, takes its place. Which.
    pub fn replace(&mut self, old: usize, patience: Duration) -> Result<usize, Failure> {
        // Numbers are never used again: whoever has the highest came last.
        let new = self.members.iter().max().map_or(0, |last| last + 1);
        if new >= self.roots.count() {
            return Err(Failure::Run("no replica is left in reserve".to_string()));
        }
        self.roots.kill(old);
        let lost = self.roots.folder(old);
        std::fs::remove_dir_all(&lost).map_err(|error| on(&lost, error))?;
        self.roots.revive(new)?;
        let program = std::env::current_exe().map_err(io)?;
        let (from, numbers) = (Instant::now(), [old, new].map(|number| (number + 1).to_string()));
        loop {
            let socket =
                self.roots.folder(self.seat.held().1).join(&self.roots.config.admin.socket);
            let asked = Command::new(&program)
                .args(["admin", "--as", "drill", "--socket"])
                .arg(&socket)
                .args(["replicas", "replace", &numbers[0], "--by", &numbers[1]])
                .output()
                .map_err(io)?;
            if asked.status.success() {
                break;
            }
            if from.elapsed() > patience {
                let why = String::from_utf8_lossy(&asked.stderr);
                return Err(Failure::Run(format!(
                    "replica {} by {}: {why}",
                    numbers[0], numbers[1]
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.members.retain(|number| *number != old);
        self.members.push(new);
        Ok(new)
    }

    /// Whether the load has ended.
    pub fn is_over(&self) -> bool {
        self.load_over.load(Ordering::Relaxed)
    }

    /// Kills the next gateway with its receiver, as if its machine had died; one always stays.
    pub fn kill_gateway(&mut self) -> bool {
        let index = self.dead.len();
        let nodes = self.exchange.tree().map(|tree| tree.topology.receiver_ids().collect());
        let nodes: Vec<NodeId> = nodes.unwrap_or_default();
        let left = nodes.len().saturating_sub(1);
        let victim = nodes.get(index).filter(|_| index < left);
        let killed = victim.is_some_and(|node| self.edges.kill(*node).is_ok());
        if killed {
            self.dead.push(index as u16);
        }
        killed
    }

    /// Ends everything, the replicas when all of them stand at the same input.
    pub fn end(mut self) -> Result<Artifacts, Failure> {
        let from = Instant::now();
        let mut statuses = self.statuses();
        let level = |statuses: &[Option<Status>]| {
            let first = statuses.first().and_then(Option::as_ref).map(|status| status.inputs);
            let all = |status: &Option<Status>| status.as_ref().map(|of| of.inputs) == first;
            first.is_some() && statuses.iter().all(all)
        };
        while !level(&statuses) && from.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
            statuses = self.statuses();
        }
        // The last ticks reach the listeners.
        std::thread::sleep(Duration::from_millis(300));
        self.roots.end();
        self.stop.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::Run("a thread panicked".to_string());
        let mut nodes = Vec::new();
        for of in self.nodes {
            nodes.extend(of.join().map_err(panicked)?.map_err(io)?);
        }
        self.claims.join().map_err(panicked)?;
        for relaying in self.relaying {
            relaying.join().map_err(panicked)?;
        }
        let load = self.load.join().map_err(panicked)?.map_err(io)?;
        let load = load.into_iter().map(|(_, load)| load).next();
        let load = load.ok_or_else(|| Failure::Run("the clients' loop lost them".to_string()))?;
        let (clock, dir, dead) = (self.clock, self.dir, self.dead);
        let cluster = self.roots.cluster.clone();
        let members = self.members;
        Ok(Artifacts { nodes, load, statuses, members, cluster, dir, clock, dead })
    }
}

/// A relay for each direction between two replicas; none where some are in reserve: there the network is
/// whole.
fn relays(
    roots: &mut Roots,
    stop: &Arc<AtomicBool>,
) -> Result<(Vec<Relay>, Vec<JoinHandle<()>>), Failure> {
    let (mut relays, mut threads) = (Vec::new(), Vec::new());
    if !roots.cluster.reserve.is_empty() {
        return Ok((relays, threads));
    }
    for from in 0..roots.count() {
        for (to, place) in roots.cluster.replicas.clone().iter().enumerate() {
            if to == from {
                continue;
            }
            let (relay, thread) = Relay::start((from, to), place.link, stop).map_err(io)?;
            roots.link(from, to as u8 + 1, relay.at);
            relays.push(relay);
            threads.push(thread);
        }
    }
    Ok((relays, threads))
}

fn habits(unread_max: usize) -> LoopConfig {
    LoopConfig {
        wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
        unread_max,
        opened_max: 4_096,
        ..LoopConfig::default()
    }
}

fn run<N: types::Node + Send + 'static>(
    of: Loop<N>,
    stop: &Arc<AtomicBool>,
    look: impl Fn(&Loop<N>) + Send + 'static,
) -> Nodes<N> {
    let stop = Arc::clone(stop);
    std::thread::spawn(move || of.run(&stop, LOOK_EVERY, |of, _| look(of)))
}

/// Loops with all nodes but the root and the clients.
struct Built {
    loops: [Loop<Role>; 3],
    gateways: Vec<Peer>,
}

impl Built {
    fn new(
        exchange: &ExchangeConfig,
        (roots, capped): (&Roots, bool),
        (clock, directory): (Clock, &Arc<Directory>),
    ) -> Result<Built, Failure> {
        let habits = habits(LoopConfig::default().unread_max);
        let one = || Loop::new(clock, Arc::clone(directory), habits).map_err(io);
        let late = if capped { clock.kept_by(&Ahead) } else { clock };
        let third = Loop::new(late, Arc::clone(directory), habits).map_err(io)?;
        let mut loops = [one()?, one()?, third];
        let listening: Vec<_> = (0..exchange.receivers).map(|_| udp()).collect::<Result<_, _>>()?;
        let nodes =
            deploy(exchange, host::deployment::life()?, |index| peer_addr(listening[index].1))
                .map_err(|error| Failure::Usage(error.to_string()))?;
        let (mut gateways, mut sources, ids) = (Vec::new(), Vec::new(), nodes.len());
        for (role, (id, node, port)) in nodes.into_iter().skip(1).zip(roots.overlay()?) {
            let ends = role.as_edge().map(|_| {
                let (file, config) = (&roots.file, &roots.config);
                let ends = edge_ends((file, node, config), None)?;
                sources.push(peer_addr(file.bound(node, Port::Release)));
                gateways.push(peer_addr(file.bound(node, Port::Ouch)));
                Ok::<_, Failure>(ends)
            });
            let last = capped && usize::from(id.0) + 1 == ids;
            let of = &mut loops[if last { 2 } else { 0 }];
            nodes::host(of, (id, role), bind(&roots.file, node, port)?, ends.transpose()?)?;
        }
        let servers: Vec<Peer> = roots.cluster.retransmission().map(peer_addr).collect();
        for ((socket, _), index) in listening.into_iter().zip(0u16..) {
            let mut settings = exchange::listener(exchange, servers.clone());
            let source = sources.get(usize::from(index)).copied();
            settings.sources = Some(source.into_iter().collect());
            settings.checkpoint_every = CHECKPOINT_EVERY;
            let listener = Role::Listener(Box::new(exchange::subscriber(exchange, &settings)));
            let id = NodeId(LISTENERS.0 + index);
            loops[1].add_node(id, listener, vec![(Channel::FEED, socket)], None).map_err(io)?;
        }
        Ok(Built { loops, gateways })
    }
}
