//! Sockets, nodes and loops of a whole exchange on the loopback address.
//!
//! All sockets are bound before anything starts, so that every node's address is known to all. A
//! thread per node would saturate two cores, so nodes share loops: the root with the proxies, the
//! edges (receivers and gateways), and the outside world (participants and listeners).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use exchange::{Account, ExchangeConfig, Life, OverlayOptions, Role, Secret, Timetable, deploy};
use feed::ListenerConfig;
use journal::{Folder, Journal};
use net::{
    ClientTls, Clock, Directory, JobReceiver, Loop, LoopConfig, Mailbox, TraceReceiver,
    trace_channel,
};
use overlay::retransmission::StoreConfig;
use overlay::topology::{Topology, Tree};
use participant::Driver;
use types::{AccountId, Channel, Nanos, NodeId, Peer};

use crate::config::loops::{LOOPS, LoopHabit, Loops};
use crate::config::{Config, doors};
use crate::failure::Failure;
use crate::feed_ring;
use crate::group::{Group, Rest};
use crate::journal::kept::{Inputs, Kept};
use crate::nodes::{self, EdgeEnds};
use crate::sockets::{self, io};
use crate::spill;

/// The input log's file, in its folder.
pub const LOG_FILE: &str = "exchange.log";
/// Names of the outside world's nodes for loop handles; no overlay node has them.
pub const DRIVER: NodeId = NodeId(60_000);
/// Listener of receiver 0; the others follow.
pub const LISTENERS: NodeId = NodeId(50_000);
/// Feed positions between two comparisons of books.
pub const CHECKPOINT_EVERY: u64 = 256;
/// Offsets from the first port.
const FEED_PORT: u16 = 0;
const ENTRY_PORTS: u16 = 1;
const LISTEN_PORTS: u16 = 301;
const RELEASE_PORT: u16 = 298;
const SNAPSHOT_PORT: u16 = 299;
const COPY_PORT: u16 = 300;
const FIX_PORTS: u16 = 601;
const SUBSCRIPTION_PORTS: u16 = 901;
/// Traces on their way to the collector.
pub const TRACE_BATCHES: usize = 256;
/// Traces that travel together.
pub const TRACE_BATCH: usize = 1_024;
/// A journal that is about to be written.
pub struct Writing {
    /// The journal.
    pub journal: Journal<Folder>,
    /// Where the root's loop puts what is to be written.
    pub mailbox: Arc<Mailbox>,
    /// What there is to say of it.
    pub notices: Vec<String>,
}

/// Where users connect.
pub struct Addresses {
    /// OUCH over SoupBinTCP, one gateway per receiver.
    pub gateways: Vec<SocketAddr>,
    /// FIX, one gateway per receiver.
    pub fix: Vec<SocketAddr>,
    /// Subscriptions to the feed over SoupBinTCP, one gateway per receiver.
    pub subscriptions: Vec<SocketAddr>,
    /// MoldUDP64 retransmission servers: each replica's.
    pub retransmission: Vec<SocketAddr>,
    /// Snapshots of the books over SoupBinTCP.
    pub snapshots: SocketAddr,
    /// Where receiver 1 sends a copy of what it releases, for whoever listens there.
    pub feed_copy: SocketAddr,
    /// Where it sends it from: what comes from elsewhere is not the feed.
    pub feed_from: SocketAddr,
}

/// What whoever builds an exchange wants otherwise than usual.
#[derive(Clone, Copy)]
pub struct PlanOptions<'a> {
    /// The log's file, if it is written as it grows.
    pub log: &'a Path,
    /// Accounts from the first on that are played from within and held to no rate but their own.
    pub players: usize,
    /// Settings of the listener at each receiver, by place.
    pub listener: &'a dyn Fn(usize, &mut ListenerConfig),
    /// Between receiver 1 and its listener: from where its feed comes, and where to.
    pub divert: &'a dyn Fn(&mut Peer, &mut Peer) -> Result<(), Failure>,
    /// What stands around the nodes, given in order of their numbers.
    pub around: &'a dyn Fn(Vec<Role>) -> Vec<Role>,
}

impl<'a> PlanOptions<'a> {
    /// The usual exchange, with its log in this file.
    pub fn new(log: &'a Path) -> PlanOptions<'a> {
        PlanOptions {
            log,
            players: 0,
            listener: &|_, _| {},
            divert: &|_, _| Ok(()),
            around: &|nodes| nodes,
        }
    }
}

/// Sockets that are known to somebody, bound before anything starts.
struct Bound {
    /// Where all but the doors are: on the loopback interface, with the doors' version of IP, so that the feed
    /// gets to whoever comes from there.
    inside: IpAddr,
    /// By node.
    overlay: Vec<UdpSocket>,
    /// The retransmission server.
    feed: UdpSocket,
    /// By listener.
    listening: Vec<UdpSocket>,
    /// By edge: where it releases the feed from, since whoever listens on another one's word takes nothing
    /// else; and its doors.
    edges: Vec<(UdpSocket, [TcpListener; 3])>,
    snapshots: TcpListener,
}

impl Bound {
    fn new(config: &Config, nodes: usize, receivers: usize) -> Result<Bound, Failure> {
        let base = config.ports.base;
        let on = config.doors.address().unwrap_or(Ipv4Addr::LOCALHOST.into());
        let inside: IpAddr = match on {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        // Doors open to both versions have the feed sent from a socket of both.
        let release_on = if on == IpAddr::from(Ipv6Addr::UNSPECIFIED) { on } else { inside };
        let edge = |n| {
            let release = match n {
                0 => bind_udp(release_on, base, RELEASE_PORT),
                _ => bind_udp(release_on, 0, 0),
            };
            let door = |first| bind_tcp(on, base, first + n);
            Ok((release?, [door(ENTRY_PORTS)?, door(FIX_PORTS)?, door(SUBSCRIPTION_PORTS)?]))
        };
        Ok(Bound {
            inside,
            overlay: many(nodes, |_| bind_udp(inside, 0, 0))?,
            feed: bind_udp(inside, base, FEED_PORT)?,
            listening: many(receivers, |n| bind_udp(inside, base, LISTEN_PORTS + n))?,
            edges: many(receivers, edge)?,
            snapshots: bind_tcp(inside, base, SNAPSHOT_PORT)?,
        })
    }

    /// Where what a socket sends to the loopback interface comes from.
    fn seen(&self, socket: &UdpSocket) -> Result<SocketAddr, Failure> {
        Ok(SocketAddr::new(self.inside, socket.local_addr().map_err(io)?.port()))
    }

    fn addresses(&self, config: &Config) -> Result<Addresses, Failure> {
        let base = config.ports.base;
        let place = |entry: &TcpListener| entry.local_addr().map_err(io);
        let doors = |of: usize| {
            let all = self.edges.iter().map(|(_, doors)| place(&doors[of]));
            all.collect::<Result<Vec<_>, _>>()
        };
        Ok(Addresses {
            gateways: doors(0)?,
            fix: doors(1)?,
            subscriptions: doors(2)?,
            retransmission: vec![self.feed.local_addr().map_err(io)?],
            snapshots: place(&self.snapshots)?,
            feed_from: match self.edges.first() {
                Some((release, _)) => self.seen(release)?,
                None => address(self.inside, base, RELEASE_PORT),
            },
            feed_copy: match base {
                // Bound and let go: a free port for a listener that may come later.
                0 => bind_udp(self.inside, 0, 0)?.local_addr().map_err(io)?,
                // Perhaps somebody listens there already.
                _ => address(self.inside, base, COPY_PORT),
            },
        })
    }
}

/// Everything built, nothing running.
pub struct Plan {
    /// Root and proxies; edges; participants and listeners.
    pub loops: [Loop<Role>; LOOPS],
    /// Which of them the edges are in: 1, or 0 where they share the root's.
    pub edges_in: usize,
    /// The cores that these have to themselves: their threads take them.
    pub cores: [Option<u16>; LOOPS],
    /// Traces of the first two, and of the root's replicas.
    pub traces: Vec<TraceReceiver>,
    /// For users.
    pub addresses: Addresses,
    /// Receivers, in order.
    pub receivers: Vec<NodeId>,
    /// Proxies, in order.
    pub proxies: Vec<NodeId>,
    /// Nodes of each layer.
    pub layers: Vec<u32>,
    /// Streams of the feed.
    pub streams: usize,
    /// What takes the gateways too long.
    pub jobs: JobReceiver,
    /// The journal, if there is one.
    pub writing: Option<Writing>,
    /// The root, where it is a group and in none of the loops.
    pub group: Option<Group>,
    /// What there is to say of it.
    pub notices: Vec<String>,
}

/// User names by account, from the first.
pub fn names(config: &Config) -> Vec<String> {
    config.accounts.0.iter().map(|account| account.username.clone()).collect()
}

/// The exchange's own configuration.
pub fn exchange_config(config: &Config, clock: &Clock) -> ExchangeConfig {
    let day_ns = 86_400 * Nanos::SECOND;
    let now = clock.now();
    let accounts = config.accounts.0.iter().enumerate().map(|(index, account)| Account {
        id: AccountId(index as u16 + 1),
        username: account.username.clone(),
        password: account.password.clone(),
        // Checked when the configuration was read.
        terms: account.terms().unwrap_or_default(),
        cancel_on_disconnect: account.cancel_on_disconnect,
        throttle: crate::config::throttle(&config.gateway, account),
        fix: account.fix(),
        firm: account.firm.clone(),
    });
    let mut exchange = ExchangeConfig {
        depth: config.overlay.depth as usize,
        fanout: config.overlay.fanout as usize,
        receivers: config.overlay.receivers as usize,
        hedge: config.overlay.hedge as usize,
        dynamic_parents: config.overlay.dynamic_parents,
        round_ns: config.hold.round_ms * Nanos::MILLI,
        delay_window: config.hold.window_messages as usize,
        delay_permille: config.hold.percentile_permille(),
        delay_cap_ns: config.hold.cap_ms * Nanos::MILLI,
        sequencer_window_ns: config.sequencer.window_ns(),
        linger_ns: config.overlay.linger_us * Nanos::MICRO,
        execution_hold_max_ns: config.gateway.max_hold_ms * Nanos::MILLI,
        cancel_grace_ns: config.gateway.cancel_grace_ms * Nanos::MILLI,
        outstanding: config.gateway.outstanding as usize,
        connections_max: 1_024,
        // Without randomness it only says that a password was right before.
        access: config.doors.guard(Secret::random().map_or([0; 32], |secret| secret.0)),
        store: StoreConfig { answers: config.retransmission.answers(), ..config.memory.store() },
        log_capacity: config.engine.log_capacity as usize,
        open_orders_max: config.engine.open_orders_max as usize,
        unique_ids: config.engine.unique_ids,
        levels_max: 1 << 16,
        trades_kept: 1 << 16,
        instruments: config.instruments(),
        rules: config.rules(),
        limits: config.limits.values(),
        self_trade: Vec::new(),
        timetable: Timetable::empty(),
        accounts: accounts.collect(),
        durable: config.journal.is_local() || config.journal.is_replicated(),
        shard: config.shard_place(),
        fix_comp_id: config.gateway.fix_comp_id.clone(),
        session: session_name(now),
        midnight: Nanos(now.0 - now.0 % day_ns),
        seed: config.flow.seed,
        options: OverlayOptions::default(),
    };
    crate::day::plan(config, now, &mut exchange);
    exchange
}

/// What the configuration uses of the overlay beyond the plain tree, sealed under a fresh secret; and
/// another one for the tokens of the retransmission server.
pub fn overlay_options(config: &Config) -> Result<OverlayOptions, Failure> {
    let fresh = || {
        let none = || Failure::Run("no randomness for keys".to_string());
        Secret::random().ok_or_else(none)
    };
    let secret = config.overlay.sealed.then(fresh).transpose()?;
    let (spread, tokens) = (config.spread(), Some(fresh()?));
    let quarantine_ns = config.clock.quarantine_us * Nanos::MICRO;
    let options = config.overlay.options(&config.hold, secret);
    let (late_ppm, tie_ns) = (config.sequencer.late_ppm, config.sequencer.tie_us * Nanos::MICRO);
    Ok(OverlayOptions { spread, tokens, quarantine_ns, late_ppm, tie_ns, ..options })
}

/// The exchange's own configuration with what it uses of the overlay.
///
/// # Errors
/// The system has no randomness for secrets.
pub fn exchange(config: &Config, clock: &Clock) -> Result<ExchangeConfig, Failure> {
    Ok(ExchangeConfig { options: overlay_options(config)?, ..exchange_config(config, clock) })
}

/// The numbers of the tree's nodes.
///
/// # Errors
/// A tree that can't be.
pub fn topology(config: &Config) -> Result<Topology, Failure> {
    Ok(tree(config)?.topology)
}

/// The tree that market data comes by at the start.
///
/// # Errors
/// A tree that can't be.
pub fn tree(config: &Config) -> Result<Tree, Failure> {
    let tree = exchange(config, &Clock::start(0))?.tree();
    tree.map_err(|error| Failure::Usage(error.to_string()))
}

/// The life of this process: no other one has it.
pub fn life() -> Result<Life, Failure> {
    exchange::random_life().ok_or_else(|| Failure::Run("no randomness for a life".to_string()))
}

/// What the engine of this configuration is made of.
pub fn engine_config(config: &Config) -> engine::Config {
    exchange_config(config, &clock(config)).engine()
}

/// The same of each shard.
pub fn engine_configs(config: &Config) -> Vec<engine::Config> {
    let exchange = exchange_config(config, &clock(config));
    exchange.all_shards().map(|of| of.engine()).collect()
}

/// Which of these configurations a log was written under, by its header's rules version and digest; of another
/// number of gateways, too ([`engine::Config::with_digest`]).
///
/// # Errors
/// None of them, or other rules.
pub fn written_under(
    known: &[engine::Config],
    (rules_version, digest): (u32, u64),
) -> Result<engine::Config, String> {
    if rules_version != engine::RULES_VERSION {
        let ours = engine::RULES_VERSION;
        return Err(format!("written under rules version {rules_version}, this is {ours}"));
    }
    let exact = known.iter().find(|config| config.digest() == digest).cloned();
    let found = exact.or_else(|| known.iter().find_map(|config| config.with_digest(digest)));
    found.ok_or_else(|| {
        "written under another configuration of instruments, accounts or limits; name it with --config"
            .to_string()
    })
}

/// A clock for this process; all nodes share it, so their error against each other is the
/// configured bound at most.
pub fn clock(config: &Config) -> Clock {
    debug_assert!(config.hold.clock_bound_ns < Nanos::SECOND);
    Clock::start(config.hold.clock_bound_ns)
}

/// Proxies with a place in the tree at the start.
pub fn proxies(config: &Config) -> u32 {
    let tree = exchange_config(config, &Clock::start(0)).tree();
    let layers = tree.map_or(Vec::new(), |tree| tree.topology.layers().to_vec());
    layers.split_last().map_or(0, |(_, proxies)| proxies.iter().sum())
}

/// Nodes of each layer; proxies that are idle at first count to the layer above the receivers.
fn layers(tree: &Tree) -> Vec<u32> {
    let topology = &tree.topology;
    let mut layers = topology.layers().to_vec();
    let placed = topology.proxy_ids().filter(|node| topology.locate(*node).is_some()).count();
    let idle = topology.proxy_ids().count() - placed;
    if let [.., proxies, _] = &mut layers[..] {
        *proxies += idle as u32;
    }
    layers
}

/// Ten characters that differ from start to start, because every start numbers from 1: the last
/// digits of the second since 1970.
fn session_name(now: Nanos) -> [u8; 10] {
    let mut name = *b"FB        ";
    let second = format!("{:08}", now.0 / Nanos::SECOND % 100_000_000);
    name[2..].copy_from_slice(&second.as_bytes()[..8]);
    name
}

/// Binds all sockets and makes all nodes; `driver` gets the gateways' addresses and makes the
/// participants that play from within, if any do.
pub fn plan(
    config: &Config,
    clocks: [Clock; LOOPS],
    options: PlanOptions<'_>,
    mut kept: Option<Kept>,
    driver: impl FnOnce(&[Peer]) -> Result<Option<Driver>, Failure>,
) -> Result<Plan, Failure> {
    if config.shards.count() > 1 {
        let why = "[[shard]]: one process runs one shard; several are machines of their own: `fairbell cluster \
                   init --shards N`, then `fairbell node`";
        return Err(Failure::Usage(why.to_string()));
    }
    // The root's is the one that the others follow.
    let clock = clocks[0];
    let mut exchange = exchange(config, &clock)?;
    let players = exchange.accounts.iter_mut().zip(&config.accounts.0).take(options.players);
    for (account, _) in players.filter(|(_, entry)| entry.orders_per_s == 0) {
        account.throttle = exchange::Throttle::UNLIMITED;
    }
    if let Some(kept) = &mut kept {
        kept.settle(Path::new(&config.journal.dir), &mut exchange)?;
        crate::day::plan(config, clock.now(), &mut exchange);
    }
    let tree = exchange.tree().map_err(|error| Failure::Usage(error.to_string()))?;
    let layers = layers(&tree);
    let receivers: Vec<NodeId> = tree.topology.receiver_ids().collect();
    let proxies: Vec<NodeId> = tree.topology.proxy_ids().collect();
    // Before any of them is opened.
    let (own, wanted) = (own_descriptors(&tree, config), LoopConfig::default().accepted_max);
    let each = crate::limits::connections(own, receivers.len() as u64, wanted as u64)?;
    let bound = Bound::new(config, tree.topology.id_end(), receivers.len())?;
    let mut addresses = bound.addresses(config)?;
    let releases = bound.edges.iter().map(|(own, _)| bound.seen(own).map(net::peer_addr));
    let mut sources: Vec<Peer> = releases.collect::<Result<_, _>>()?;
    let Bound { overlay, feed, listening, edges, snapshots, .. } = bound;
    let tls = crate::tls::doors(&config.doors)?;
    let mut feed_of: Vec<Peer> = listening.iter().map(peer).collect::<Result<_, _>>()?;
    if let ([to, ..], [from, ..]) = (&mut feed_of[..], &mut sources[..]) {
        (options.divert)(from, to)?;
    }
    let gateways: Vec<Peer> = addresses.gateways.iter().map(|addr| net::peer_addr(*addr)).collect();

    let entry = |(index, socket): (usize, &UdpSocket)| {
        socket.local_addr().map_err(io).map(|addr| (NodeId(index as u16), addr))
    };
    let known = overlay.iter().enumerate().map(entry).collect::<Result<Vec<_>, _>>()?;
    let (mut overlay, mut feed) = (overlay.into_iter().enumerate(), Some(feed));
    let mut group = None;
    if config.journal.is_replicated()
        && let Some(first) = overlay.next().map(|(_, socket)| socket).zip(feed.take())
    {
        let nodes = known.iter().skip(1).copied().collect();
        let made = Group::new(config, &mut exchange, Rest { first, nodes, clock })?;
        addresses.retransmission.clone_from(&made.retransmission);
        group = Some(made);
    }
    let directory = match &group {
        Some(group) => group.directory(),
        None => {
            Directory::new(&known).map_err(|error| Failure::Run(format!("sockets: {error}")))?
        }
    };
    let mut loops = loops(config, clocks, Arc::new(directory), each as usize)?;
    let edges_in = config.loops.edges_in();
    let jobs = nodes::worker(&mut loops[edges_in]);

    let mut nodes = deploy(&exchange, life()?, |index| feed_of[index])
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if group.is_none() {
        if edges_in == 0 {
            exchange::share_loop(&mut nodes);
        }
        // Replicas' journals are their logs.
        spill::attach(&config.memory, options.log, &mut nodes)?;
    }
    let (nodes, writing) = resume(config, &clock, kept, nodes, &mut loops[0])?;
    let nodes = (options.around)(nodes);
    let mut edges = edges.into_iter().enumerate();
    // A group's root is elsewhere.
    let skipped = usize::from(group.is_some());
    for (role, (index, socket)) in nodes.into_iter().skip(skipped).zip(overlay) {
        let id = NodeId(index as u16);
        match role.plain() {
            Role::Root(_) => {
                let feed = feed.take().map(|feed| (Channel::FEED, feed));
                let sockets = [(Channel::OVERLAY, socket)].into_iter().chain(feed).collect();
                loops[0].add_node(id, role, sockets, None).map_err(io)?;
            }
            Role::Edge(_) => {
                let ends = edges.next().map(|(place, (release, doors))| {
                    let from = release.local_addr().map_err(io)?;
                    let copy = (place == 0).then(|| net::peer_addr(addresses.feed_copy));
                    let servers = (addresses.retransmission.clone(), vec![addresses.snapshots]);
                    // Nobody else is on the loopback interface: no groups.
                    let terms = nodes::terms(config, from, servers);
                    let tls = tls.as_ref().map(|(server, _)| server.clone());
                    let subscribers = copy.into_iter().collect();
                    let ring = match &config.ports.ring {
                        none if none == doors::NONE => None,
                        folder => {
                            let name = format!("edge-{}", place + 1);
                            Some(feed_ring::create(Path::new(folder), &name, None)?)
                        }
                    };
                    let shards = Vec::new();
                    Ok::<_, Failure>(EdgeEnds {
                        shards,
                        release,
                        doors,
                        tls,
                        terms,
                        subscribers,
                        ring,
                    })
                });
                nodes::host(&mut loops[edges_in], (id, role), socket, ends.transpose()?)?;
            }
            _ => nodes::host(&mut loops[0], (id, role), socket, None)?,
        }
    }
    let servers: Vec<_> = addresses.retransmission.iter().map(|at| net::peer_addr(*at)).collect();
    let mut serving = Some(snapshots);
    for (index, socket) in listening.into_iter().enumerate() {
        let mut settings = exchange::listener(&exchange, servers.clone());
        settings.sources = Some(sources.get(index).copied().into_iter().collect());
        settings.checkpoint_every = CHECKPOINT_EVERY;
        (options.listener)(index, &mut settings);
        let accepts = serving.take();
        let node = listener(config, &exchange, settings, accepts.is_some(), &addresses);
        let id = NodeId(LISTENERS.0 + index as u16);
        loops[2].add_node(id, node, vec![(Channel::FEED, socket)], accepts).map_err(io)?;
    }
    if let Some(driver) = driver(&gateways)? {
        let driver = Role::Driver(Box::new(driver));
        loops[2].add_node(DRIVER, driver, Vec::new(), None).map_err(io)?;
        if let Some((_, client)) = &tls {
            loops[2].secure_outgoing(DRIVER, ClientTls::clone(client));
        }
    }
    let (planes, mut notices) = (config.overlay.data_planes(), Vec::new());
    // Each socket has the same to say.
    let mut told = |line: &str| {
        if notices.last().is_none_or(|last| last != line) {
            notices.push(line.to_string());
        }
    };
    for of in loops.iter_mut().take(2) {
        nodes::use_planes(of, &planes, &mut told)?;
    }
    if config.overlay.duplicate_filter {
        told(
            "filter of duplicates: it is for nodes on machines of their own (docs/data-planes.md)",
        );
    }
    if let Some(group) = &mut group {
        group.use_planes(&planes, &mut told)?;
    }
    let mut traces = group.as_mut().map_or_else(Vec::new, Group::traces);
    for of in loops.iter_mut().take(2) {
        let (sender, receiver) = trace_channel(TRACE_BATCHES, TRACE_BATCH);
        of.send_traces(sender);
        traces.push(receiver);
    }
    let streams = exchange.options.streams().into();
    Ok(Plan {
        loops,
        edges_in,
        cores: config.loops.habits().map(LoopHabit::core),
        traces,
        addresses,
        receivers,
        proxies,
        layers,
        streams,
        jobs,
        writing,
        group,
        notices,
    })
}

/// The root takes up what the journal holds, and from now on nothing leaves it before it is there.
fn resume(
    config: &Config,
    clock: &Clock,
    kept: Option<Kept>,
    mut nodes: Vec<Role>,
    root_loop: &mut Loop<Role>,
) -> Result<(Vec<Role>, Option<Writing>), Failure> {
    let Some(Kept { mut journal, inputs: resumed, recovery, .. }) = kept else {
        return Ok((nodes, None));
    };
    let now = clock.reading();
    let mut root = nodes.iter_mut();
    let last = journal.durable();
    let mut inputs = Inputs::new(&mut journal, 2, last);
    let outcome = root.find_map(|role| {
        role.with_root(&mut types::Outbox::default(), |root, _| {
            root.resume(now, inputs.by_ref()).map(|()| root.keep_durably())
        })
    });
    let dir = &config.journal.dir;
    if let Some(error) = inputs.failed {
        return Err(Failure::Run(format!("{dir}: {error}")));
    }
    match outcome {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(Failure::Run(format!("{dir}: {error}"))),
        None => return Err(Failure::Run("no root to keep a journal for".to_string())),
    }
    let mailbox = Arc::new(Mailbox::default());
    root_loop.send_journal(Arc::clone(&mailbox));
    let mut notices = Vec::new();
    if resumed > 0 {
        notices.push(format!("{dir}: goes on after {resumed} inputs"));
    }
    if let Some(tail) = recovery.tail {
        notices.push(format!(
            "{dir}: a write cut short in {} at offset {} was removed ({} bytes)",
            crate::journal::file_of(tail.segment),
            tail.offset,
            tail.bytes
        ));
    }
    Ok((nodes, Some(Writing { journal, mailbox, notices })))
}

/// The first listener serves snapshots, the others ask it for them.
fn listener(
    config: &Config,
    exchange: &ExchangeConfig,
    mut settings: ListenerConfig,
    serves: bool,
    addresses: &Addresses,
) -> Role {
    if serves {
        return nodes::snapshot_server(config, exchange, &settings);
    }
    settings.catch_up = Some(config.snapshot.catch_up(vec![net::peer_addr(addresses.snapshots)]));
    Role::Listener(Box::new(exchange::subscriber(exchange, &settings)))
}

fn loops(
    config: &Config,
    clocks: [Clock; LOOPS],
    directory: Arc<Directory>,
    accepted_max: usize,
) -> Result<[Loop<Role>; LOOPS], Failure> {
    // Looking again and again takes from the other loops what it gives to one, unless each has a
    // core to itself.
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let usual = |habit: LoopHabit| {
        let wait = habit.wait(config.loops.spin_us, cores);
        nodes::habits(config, LoopConfig { wait, ..LoopConfig::default() })
    };
    let [of_root, of_edges, of_outside] = config.loops.habits();
    for (key, core) in config.loops.cores() {
        crate::core::check(key, core)?;
    }
    let with_doors = |habit| LoopConfig { accepted_max, ..Loops::of_edges(habit, usual(habit)) };
    let of_root = match config.loops.edges_in() {
        0 => LoopConfig { local_delivery: true, ..with_doors(of_root) },
        _ => usual(of_root),
    };
    let one = |clock, habits| Loop::new(clock, Arc::clone(&directory), habits).map_err(io);
    let [root, edges, outside] = clocks;
    Ok([one(root, of_root)?, one(edges, with_doors(of_edges))?, one(outside, usual(of_outside))?])
}

/// Descriptors that an exchange needs beside its gateways' connections: a socket of each node, three doors
/// of each gateway, its listener, both ends of built-in participants, snapshots being served, and the
/// sockets and segments of its journals.
fn own_descriptors(tree: &Tree, config: &Config) -> u64 {
    let nodes = tree.topology.id_end() as u64;
    let edges = u64::from(config.overlay.receivers) * 5;
    let clients = u64::from(config.flow.participants) + u64::from(config.snapshot.connections) * 2;
    let replicas = u64::from(config.journal.replicas + config.journal.reserve);
    let replicas = if config.journal.is_replicated() { replicas * (replicas + 16) } else { 16 };
    nodes + edges + clients + replicas
}

fn many<T>(count: usize, make: impl Fn(u16) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
    (0..count).map(|index| make(index as u16)).collect()
}

fn address(on: IpAddr, base: u32, offset: u16) -> SocketAddr {
    SocketAddr::new(on, if base == 0 { 0 } else { base as u16 + offset })
}

/// Binds a port of an address so far from the first one, or a free one.
pub fn bind_udp(on: IpAddr, base: u32, offset: u16) -> Result<UdpSocket, Failure> {
    let addr = address(on, base, offset);
    sockets::udp(addr).map_err(|error| in_use("UDP", addr, &error))
}

/// As [`bind_udp`], for TCP.
pub fn bind_tcp(on: IpAddr, base: u32, offset: u16) -> Result<TcpListener, Failure> {
    let addr = address(on, base, offset);
    sockets::listener(addr).map_err(|error| in_use("TCP", addr, &error))
}

fn in_use(kind: &str, addr: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::Run(format!("{kind} {addr}: {error}; choose other ports with --port-base (0: free)"))
}

fn peer(socket: &UdpSocket) -> Result<Peer, Failure> {
    socket.local_addr().map_err(io).map(net::peer_addr)
}
