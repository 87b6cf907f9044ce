//! One measurement: real trees of the overlay's nodes over sockets on loopback, fed at one rate.
//!
//! Each tree has three threads: one for its root, one for its proxies, one for its receivers. They wait
//! in the kernel when they have nothing to do. What a node costs is the CPU time of its thread over
//! the measured part, which other work on the machine changes little; whether a rate is carried is
//! what came through in time, which it changes much.
//!
//! A machine of two cores cannot do the work of the hundred of a large tree. So of one only a slice
//! runs: the root, one proxy and a few of its receivers, each with all the copies it has to send. The
//! other nodes agree on keys with these like any; then nobody reads their sockets any more.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use host::failure::Failure;
use host::sockets::io;
use net::{Clock, Directory, Loop, kernel_drops};
use overlay::{
    aes_gcm::KeySource,
    lives::Life,
    proxy::{Proxy, ProxyConfig},
    publisher::{Publisher, PublisherConfig},
    receiver::{Receiver, ReceiverConfig},
    sealed_link::{Fleet, SealedLink},
    topology::{ROOT, Topology, Tree},
};
use rustix::time::{ClockId, clock_gettime};
use types::{Channel, Nanos, NodeId, Peer};

use super::station::{Kind, Progress, Source, Station};

const SESSION: [u8; 10] = *b"RATE000001";
/// Least time between two datagrams that are not full, as in `fairbell.toml`.
const LINGER_NS: u64 = 200 * Nanos::MICRO;
/// Messages are held for so long after they were sent at most: what is measured is what comes through, and
/// a hold that grows with the queues of a busy machine would be taken for a backlog.
const HOLD_MAX_NS: u64 = 5 * Nanos::MILLI;
/// How often a loop says how far it is.
const TELL: Duration = Duration::from_millis(1);
/// How long all receivers may take to hear their tree.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long after its last message a measurement is given up.
const GIVE_UP: Duration = Duration::from_secs(2);
/// How much longer than planned publishing may take, as a part of it.
const LATE: f64 = 0.02;
/// How much longer it may take in any case, and the rest to come through, ns.
const SETTLE_LEAST_NS: f64 = 20e6;
/// The rest has to come through within this part of the measured time.
const SETTLE: f64 = 0.1;
/// Packets that sockets may drop, as a part of those sent.
const DROPPED: f64 = 0.001;

/// What is measured.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    /// Nodes by layer: proxies, then receivers.
    pub(super) layers: Vec<usize>,
    /// H.
    pub(super) hedge: usize,
    /// Trees, each below a root of its own, all fed at the same rate.
    pub(super) trees: usize,
    /// A datagram for each message instead of packets filled.
    pub(super) single: bool,
    /// Datagrams are encrypted and authenticated.
    pub(super) sealed: bool,
    /// Only the root, one proxy and [`SLICE`] receivers below it go on after the beginning; parents are
    /// the same for all messages then.
    pub(super) slice: bool,
    /// Each tree's threads stay on one core, the trees on the cores in turn.
    pub(super) one_core: bool,
    /// How long one receiver of the first tree is busy with each message.
    pub(super) slowed: Duration,
    /// How long messages are published.
    pub(super) time: Duration,
}

impl Setup {
    /// A slice of one tree like the paper's: N=100, F=10.
    pub(super) fn paper(hedge: usize, single: bool) -> Setup {
        Setup {
            layers: sim::cloud::throughput::PAPER.to_vec(),
            hedge,
            trees: 1,
            single,
            sealed: true,
            slice: true,
            one_core: false,
            slowed: Duration::ZERO,
            time: Duration::from_millis(400),
        }
    }

    fn tree(&self) -> Result<Tree, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Run(format!("no such tree: {error}"));
        let topology = Topology::from_layers(&self.layers).map_err(|error| failed(&error))?;
        let round_ns = 50 * Nanos::MILLI;
        let (hedge, dynamic) = (self.hedge, !self.slice);
        Ok(Tree { topology, hedge, dynamic, epoch: 1, stream: 0, round_ns })
    }
}

/// Receivers of a slice.
pub(super) const SLICE: usize = 2;

/// CPU time of each kind of node, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Cpu {
    pub(super) root: u64,
    pub(super) proxies: u64,
    pub(super) receivers: u64,
}

/// What one rate gave.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Found {
    /// Messages a second that were asked for, over all trees.
    pub(super) rate: f64,
    /// Messages published, over all trees.
    pub(super) messages: u64,
    /// Datagrams they filled.
    pub(super) datagrams: u64,
    /// Time that publishing took over what was planned, at the tree that took longest, ns.
    pub(super) late_ns: f64,
    /// Time from the last message published to its release by the last receiver, of the slowest tree,
    /// ns; infinite when that did not come.
    pub(super) settle_ns: f64,
    /// Planned time of publishing, ns.
    pub(super) time_ns: f64,
    /// Copies that root and proxies sent.
    pub(super) copies: u64,
    /// Packets of the network that they and what receivers said took, and those that a socket dropped.
    pub(super) packets: u64,
    pub(super) dropped: u64,
    /// Of the whole measurement.
    pub(super) cpu: Cpu,
}

impl Found {
    /// Whether the rate was carried: published in time, released everywhere soon after, hardly a
    /// packet dropped.
    pub(super) fn carried(&self) -> bool {
        self.late_ns <= (LATE * self.time_ns).max(SETTLE_LEAST_NS)
            && self.settle_ns <= (SETTLE * self.time_ns).max(SETTLE_LEAST_NS)
            && self.dropped as f64 <= DROPPED * self.packets as f64
    }
}

/// What a loop and the measurement tell each other while it runs.
#[derive(Default)]
struct Told {
    /// All its nodes have heard the tree.
    ready: AtomicBool,
    /// It is to read nothing more, and does not.
    freeze: AtomicBool,
    frozen: AtomicBool,
    /// Messages that all its receivers have released.
    released: AtomicU64,
    /// When all had released everything, by the loops' clock; 0: not yet.
    finished: AtomicU64,
    /// CPU time of its thread, ns.
    cpu: AtomicU64,
}

/// Loops of a tree.
const LOOPS: usize = 4;
/// The one of nodes that are not of the slice.
const OTHERS: usize = 3;
/// From when all have heard the tree until everybody has agreed on keys with everybody.
const AGREED: Duration = Duration::from_millis(100);

/// One tree on its way.
struct Running {
    progress: Arc<Progress>,
    /// Root, proxies, receivers, and those that are not of the slice.
    told: [Arc<Told>; LOOPS],
    loops: Vec<Loop<Station>>,
    ports: Vec<u16>,
}

/// CPU time of the thread that asks, ns.
fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn build(setup: &Setup, clock: Clock, rate: f64) -> Result<Running, Failure> {
    let tree = setup.tree()?;
    let nodes: Vec<NodeId> = [ROOT]
        .into_iter()
        .chain(tree.topology.proxy_ids())
        .chain(tree.topology.receiver_ids())
        .collect();
    let bind = |_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let mut sockets = nodes.iter().map(bind).collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    let places = sockets.iter().map(UdpSocket::local_addr);
    let places = places.collect::<std::io::Result<Vec<SocketAddr>>>().map_err(io)?;
    let entries: Vec<_> = nodes.iter().copied().zip(places).collect();
    let directory = Directory::new(&entries).map_err(|_| Failure::Run("a node twice".into()))?;
    let directory = Arc::new(directory);
    let (fleet, keys) = (Fleet::of(&tree.topology), KeySource::new(&[7; 32]));
    let link = |node| {
        setup.sealed.then(|| {
            let ring = keys.ring(node, &fleet);
            SealedLink::new(node, fleet.clone(), Life::of(1), false, ring)
        })
    };
    let habits = host::core::shared();
    let mut loops = Vec::new();
    for _ in 0..LOOPS {
        loops.push(Loop::new(clock, Arc::clone(&directory), habits).map_err(io)?);
    }
    let progress = Arc::new(Progress::default());
    let messages = (rate * setup.time.as_secs_f64()).ceil().max(1.0) as u64;
    let mut slowed = setup.slowed;
    let proxy = tree.topology.proxy_ids().next().unwrap_or_default();
    let below = tree.topology.children(proxy, 1, 0, tree.dynamic).take(SLICE);
    let slice: Vec<NodeId> = [ROOT, proxy].into_iter().chain(below).collect();
    for (node, socket) in nodes.into_iter().zip(sockets.drain(..)) {
        let (place, kind) = if node == ROOT {
            let linger_ns = if setup.single { 0 } else { LINGER_NS };
            let mut config = PublisherConfig { linger_ns, ..PublisherConfig::new(SESSION) };
            config.delay.owd_max_ns = HOLD_MAX_NS;
            let publisher = Publisher::new(tree, config);
            let progress = Arc::clone(&progress);
            let source = Source::new(publisher, (rate, messages), setup.single, progress);
            (0, Kind::Source(Box::new(source)))
        } else if tree.topology.is_receiver(node) {
            let receiver = Receiver::new(tree, node, ReceiverConfig::new(SESSION, Peer::NOBODY));
            (2, Kind::Receiver(Box::new(receiver), std::mem::take(&mut slowed)))
        } else {
            let proxy = Proxy::new(tree, node, ProxyConfig::default());
            (1, Kind::Proxy(Box::new(proxy)))
        };
        let place = if setup.slice && !slice.contains(&node) { OTHERS } else { place };
        let link = match link(node) {
            Some(None) => return Err(Failure::Run("no cipher".into())),
            Some(link) => link,
            None => None,
        };
        let station = Station::new(kind, link);
        if let Some(of) = loops.get_mut(place) {
            of.add_node(node, station, vec![(Channel::OVERLAY, socket)], None).map_err(io)?;
        }
    }
    // Of what nobody reads nobody expects that it is kept.
    let ports = loops.iter().take(OTHERS).flat_map(Loop::udp_ports).collect();
    Ok(Running { progress, told: Default::default(), loops, ports })
}

/// Cores that this process may use.
pub(super) fn cores() -> Vec<usize> {
    host::core::allowed().unwrap_or_default()
}

/// Runs a loop on this thread until it is told to stop.
fn host_loop(
    of: Loop<Station>,
    core: Option<usize>,
    told: &Told,
    messages: u64,
    stop: &AtomicBool,
) -> std::io::Result<Vec<(NodeId, Station)>> {
    if let Some(core) = core {
        let taken = host::core::take("a tree", core as u16);
        taken.map_err(|error| std::io::Error::other(error.to_string()))?;
    }
    let nodes = of.run(stop, TELL, |of, now| {
        told.cpu.store(thread_cpu(), Relaxed);
        if !told.ready.load(Relaxed) {
            told.ready.store(of.nodes().all(|(_, station)| station.hears()), Relaxed);
        }
        let released = of.nodes().map(|(_, station)| station.released()).min().unwrap_or(0);
        told.released.store(released, Relaxed);
        if released >= messages && told.finished.load(Relaxed) == 0 {
            told.finished.store(now.now.0, Relaxed);
        }
        while told.freeze.load(Relaxed) && !stop.load(Relaxed) {
            told.frozen.store(true, Relaxed);
            thread::sleep(TELL);
        }
    });
    told.cpu.store(thread_cpu(), Relaxed);
    nodes
}

fn wait_until(patience: Duration, mut over: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + patience;
    while !over() {
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_micros(500));
    }
    true
}

/// Feeds the trees of a setup at `rate` messages a second over all of them.
///
/// # Errors
/// The system's; receivers that do not hear their tree at all.
pub(super) fn feed(setup: &Setup, rate: f64) -> Result<Found, Failure> {
    let clock = Clock::start(0);
    let each = rate / setup.trees.max(1) as f64;
    let messages = (each * setup.time.as_secs_f64()).ceil().max(1.0) as u64;
    let trees = (0..setup.trees.max(1)).map(|_| build(setup, clock, each));
    let mut trees = trees.collect::<Result<Vec<_>, _>>()?;
    let ports: Vec<u16> = trees.iter().flat_map(|tree| tree.ports.clone()).collect();
    let cores = cores();
    let stop = AtomicBool::new(false);
    let mut found = Found {
        rate,
        messages: 0,
        datagrams: 0,
        late_ns: f64::INFINITY,
        settle_ns: f64::INFINITY,
        time_ns: setup.time.as_secs_f64() * 1e9,
        copies: 0,
        packets: 0,
        dropped: 0,
        cpu: Cpu::default(),
    };
    let mut handles = Vec::new();
    let ended = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, tree) in trees.iter_mut().enumerate() {
            let core = setup.one_core.then(|| cores.get(number % cores.len().max(1)).copied());
            for (of, told) in tree.loops.drain(..).zip(&tree.told) {
                handles.push(of.handle());
                let (told, stop) = (Arc::clone(told), &stop);
                let core = core.flatten();
                threads.push(scope.spawn(move || host_loop(of, core, &told, messages, stop)));
            }
        }
        let all = |what: &dyn Fn(&Running) -> bool| trees.iter().all(what);
        let told = |tree: &Running, place: usize| Arc::clone(&tree.told[place]);
        let hear = |tree: &Running| tree.told.iter().all(|told| told.ready.load(Relaxed));
        let mut ready = wait_until(PATIENCE, || all(&hear));
        if setup.slice {
            thread::sleep(AGREED);
            for tree in &trees {
                told(tree, OTHERS).freeze.store(true, Relaxed);
            }
            ready &= wait_until(PATIENCE, || all(&|tree| told(tree, OTHERS).frozen.load(Relaxed)));
        }
        let before = cpu(&trees);
        let drops = kernel_drops(&ports).unwrap_or(0);
        let sent_before: u64 = handles.iter().map(|handle| handle.counters().datagrams_out).sum();
        for tree in trees.iter().filter(|_| ready) {
            tree.progress.go.store(1, Relaxed);
        }
        let published = ready
            && wait_until(setup.time + GIVE_UP, || {
                all(&|tree| tree.progress.ended.load(Relaxed) > 0)
            });
        let _ = published
            && wait_until(GIVE_UP, || all(&|tree| told(tree, 2).finished.load(Relaxed) > 0));
        found.dropped = kernel_drops(&ports).unwrap_or(0) - drops;
        for counters in handles.iter().map(|handle| handle.counters()) {
            found.packets += counters.datagrams_out;
            found.dropped += counters.datagrams_blocked;
        }
        found.packets -= sent_before;
        stop.store(true, Relaxed);
        let mut nodes = Vec::new();
        for (number, thread) in threads.into_iter().enumerate() {
            let gone = |_| Failure::Run("a thread of the measurement panicked".to_string());
            let ended = thread.join().map_err(gone)?.map_err(io)?;
            nodes.extend(ended.into_iter().map(|(_, station)| (number % LOOPS, station)));
        }
        let after = cpu(&trees);
        found.cpu = Cpu {
            root: after.root - before.root,
            proxies: after.proxies - before.proxies,
            receivers: after.receivers - before.receivers,
        };
        if ready {
            Ok(nodes)
        } else {
            Err(Failure::Run("receivers hear nothing of their tree".into()))
        }
    })?;
    for (place, station) in ended {
        if place < OTHERS {
            found.copies += station.copies;
        }
        if let Kind::Source(source) = station.kind {
            let stats = source.publisher.stats();
            found.messages += stats.messages;
            found.datagrams += stats.datagrams;
        }
    }
    let span = |from: &AtomicU64, to: &AtomicU64| {
        let (from, to) = (from.load(Relaxed), to.load(Relaxed));
        if from == 0 || to == 0 { f64::INFINITY } else { to.saturating_sub(from) as f64 }
    };
    let most = |spans: &mut dyn Iterator<Item = f64>| spans.fold(0.0, f64::max);
    let took = &mut trees.iter().map(|tree| span(&tree.progress.began, &tree.progress.ended));
    found.late_ns = most(took) - found.time_ns;
    let rest = &mut trees.iter().map(|tree| span(&tree.progress.ended, &tree.told[2].finished));
    found.settle_ns = most(rest);
    Ok(found)
}

fn cpu(trees: &[Running]) -> Cpu {
    let sum = |place: usize| trees.iter().map(|tree| tree.told[place].cpu.load(Relaxed)).sum();
    Cpu { root: sum(0), proxies: sum(1), receivers: sum(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(single: bool, sealed: bool) -> Setup {
        let (time, slice) = (Duration::from_millis(50), false);
        Setup { layers: vec![2, 4], sealed, time, slice, ..Setup::paper(1, single) }
    }

    #[test]
    fn each_node_of_a_slice_sends_all_its_copies() {
        let time = Duration::from_millis(100);
        let setup = Setup { layers: vec![3, 9], time, ..Setup::paper(2, true) };
        let found = feed(&setup, 300.0).expect("sockets");
        assert_eq!(found.messages, 30);
        // Three of the root's and nine of the proxy's, for a message; heartbeats beside them.
        assert!(found.copies >= 30 * (3 + 9) && found.settle_ns.is_finite(), "{found:?}");
    }

    #[test]
    fn every_message_comes_through_by_every_way_and_nodes_cost_something() {
        for (single, sealed, trees) in [(true, true, 1), (false, true, 2), (true, false, 1)] {
            let setup = Setup { trees, one_core: trees > 1, ..small(single, sealed) };
            let found = feed(&setup, 2_000.0).expect("sockets");
            let context = format!("{setup:?} {found:?}");
            assert_eq!(found.messages, 100, "{context}");
            assert!(!single || found.datagrams >= 100, "{context}");
            assert!(found.settle_ns.is_finite() && found.packets > 0, "{context}");
            assert!(
                [found.cpu.root, found.cpu.proxies, found.cpu.receivers].iter().all(|ns| *ns > 0)
            );
        }
    }

    #[test]
    fn a_rate_is_carried_when_it_is_published_in_time_and_comes_through() {
        let cpu = Cpu::default();
        let fine = Found {
            rate: 1e3,
            messages: 1_000,
            datagrams: 1_000,
            late_ns: 0.0,
            settle_ns: 1e6,
            time_ns: 1e9,
            copies: 10_000,
            packets: 10_000,
            dropped: 10,
            cpu,
        };
        assert!(fine.carried());
        assert!(!Found { late_ns: 2.1e7, ..fine }.carried(), "published too late");
        assert!(!Found { settle_ns: 1.1e8, ..fine }.carried(), "a backlog");
        assert!(!Found { settle_ns: f64::INFINITY, ..fine }.carried(), "never came");
        assert!(!Found { dropped: 11, ..fine }.carried(), "lost");
    }
}
