//! The exchange that is drilled: replicas as processes of their own, everything else here.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Role, deploy};
use net::{
    Clock, Directory, LeaderEndpoint, Loop, LoopConfig, LoopHandle, Timekeeper, WaitStrategy,
    peer_addr,
};
use participant::load::{Load, LoadConfig, LoadPhase};
use probe::entropy;
use types::{Channel, ClockReading, Nanos, NodeId, Peer};

use super::relay::Relay;
use fairbell::replica::SOCKET;
use host::config::Config;
use host::failure::{Failure, on};
use host::replica::cluster::{Cluster, ReplicaAddresses};
use host::replica::node::{self, Sockets, Status};
use host::replica::{certificates, claims};
use host::sockets::{io, v4};

/// The clients' node.
pub const CLIENTS: NodeId = NodeId(60_001);
/// Listener of receiver 0; the others follow.
const LISTENERS: NodeId = NodeId(50_000);
/// Feed positions between two comparisons of books.
const CHECKPOINT_EVERY: u64 = 256;
const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
/// How often loops are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long replicas may take to answer, and to end when they are asked to.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn udp() -> Result<(UdpSocket, SocketAddrV4), Failure> {
    let socket = UdpSocket::bind(LOCAL).map_err(io)?;
    let at = v4(socket.local_addr().map_err(io)?)?;
    Ok((socket, at))
}

fn tcp() -> Result<(TcpListener, SocketAddrV4), Failure> {
    let door = TcpListener::bind(LOCAL).map_err(io)?;
    let at = v4(door.local_addr().map_err(io)?)?;
    Ok((door, at))
}

/// Places of replicas that come later: bound all at once, and let go. They are on a loopback address
/// drawn for them alone, each on one of its own, or a port could be another process's, or one of ours, or
/// that of a stream of another replica, until its replica comes, or comes back.
pub fn places(count: usize) -> Result<Vec<ReplicaAddresses>, Failure> {
    let [a, b, c, ..] = entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
    let free = |number: usize| {
        let last = (usize::from(c) + number) % 254 + 1;
        let at = SocketAddrV4::new(Ipv4Addr::new(127, a.clamp(1, 254), b, last as u8), 0);
        ReplicaAddresses { overlay: at, feed: at, link: at, status: at }
    };
    let held = (0..count).map(|number| Sockets::bind(&free(number)));
    let held = held.collect::<Result<Vec<_>, _>>()?;
    held.iter().map(Sockets::place).collect()
}

/// A clock that is ahead: whoever has it finds every way long.
#[derive(Debug)]
struct Ahead;

/// How far, ns: less than the rounds of the all-reduce that are believed, more than any
/// `hold.cap_ms` here.
const AHEAD_NS: u64 = 40 * Nanos::MILLI;

impl Timekeeper for Ahead {
    fn reading(&self, process: Nanos) -> ClockReading {
        ClockReading { now: process + AHEAD_NS, bound_ns: 0 }
    }
}

/// A replica's process.
pub struct Process {
    child: Option<Child>,
    number: usize,
}

type Nodes<N> = JoinHandle<std::io::Result<Vec<(NodeId, N)>>>;

/// Everything that runs.
pub struct Site {
    /// The clock of everything here.
    pub clock: Clock,
    /// Its names and places.
    pub cluster: Cluster,
    /// Where the root is.
    pub seat: LeaderEndpoint,
    /// The clients' loop.
    pub clients: LoopHandle<Load>,
    exchange: ExchangeConfig,
    dir: PathBuf,
    processes: Vec<Process>,
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
        (config, file): (&Config, &Path),
        (replicas, reserve): (usize, usize),
        (dir, capped): (&Path, bool),
        load: impl FnOnce(Vec<Peer>) -> LoadConfig,
    ) -> Result<Site, Failure> {
        let clock = Clock::start(0);
        let mut exchange = host::deployment::exchange(config, &clock)?;
        let tree = exchange.tree().map_err(|error| Failure::Usage(error.to_string()))?;
        // The first is the root's, which is elsewhere.
        let overlay: Vec<_> =
            (1..tree.topology.id_end()).map(|_| udp()).collect::<Result<_, _>>()?;
        let nodes = overlay.iter().zip(1u16..).map(|((_, at), node)| (node, *at)).collect();
        let (claims, claims_at) = udp()?;
        let mut places = places(replicas + reserve)?.into_iter();
        let mut cluster = Cluster {
            nodes,
            replicas: places.by_ref().take(replicas).collect(),
            reserve: places.collect(),
            claims: vec![claims_at],
            keys: dir.join(certificates::FOLDER),
            ..Cluster::fresh(&exchange, clock)?
        };
        certificates::issue(&mut cluster)?;
        cluster.settle(&mut exchange);
        cluster.write(&dir.join("cluster.json"))?;
        std::fs::copy(file, dir.join("drill.toml")).map_err(|error| on(file, error))?;
        let seat = cluster.leader()?;
        let directory = cluster.directory()?.with_leader(seat.clone());
        let directory = Arc::new(directory.map_err(|error| Failure::Run(error.to_string()))?);
        let stop = Arc::new(AtomicBool::new(false));
        let (relays, relaying) = relays(&cluster, dir, &stop)?;
        let built = Built::new(&exchange, (&cluster, capped), (clock, &directory), overlay)?;
        let edges = built.loops[0].handle();
        let nodes = built.loops.into_iter().map(|of| run(of, &stop, |_| {})).collect();
        let load = Load::new(load(built.gateways)).map_err(|e| Failure::Usage(e.to_string()))?;
        let mut of = Loop::new(clock, Arc::default(), habits(1 << 30)).map_err(io)?;
        of.add_node(CLIENTS, load, Vec::new(), None).map_err(io)?;
        let (clients, load_over) = (of.handle(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&load_over);
        let (key, moved, ended) = (cluster.claim_key(0)?, seat.clone(), Arc::clone(&stop));
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
            processes: (0..replicas + reserve)
                .map(|number| Process { child: None, number })
                .collect(),
            members: (0..replicas).collect(),
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
            cluster,
        };
        site.revive_all()?;
        Ok(site)
    }

    /// Starts a replica's process, number from 0, unless it runs.
    pub fn revive(&mut self, number: usize) -> Result<(), Failure> {
        let log = self.log(number);
        let Some(process) = self.processes.get_mut(number) else { return Ok(()) };
        if process.child.is_some() {
            return Ok(());
        }
        let program = std::env::current_exe().map_err(io)?;
        let options = std::fs::OpenOptions::new().create(true).append(true).open(&log);
        let log = options.map_err(|error| on(&log, error))?;
        let child = Command::new(program)
            .arg("replica")
            .arg("--config")
            .arg(self.dir.join("drill.toml"))
            .arg("--cluster")
            .arg(seen_by(&self.dir, number))
            .arg("--id")
            .arg((number + 1).to_string())
            .arg("--dir")
            .arg(folder(&self.dir, number))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        process.child = Some(child.map_err(|error| Failure::Run(format!("a replica: {error}")))?);
        Ok(())
    }

    /// A replica's folder.
    pub fn folder(&self, number: usize) -> PathBuf {
        folder(&self.dir, number)
    }

    /// The last line of a replica whose process is to end by itself, with a failure.
    pub fn last_words(&mut self, number: usize, patience: Duration) -> Result<String, Failure> {
        let failed = |why: &str| Failure::Run(format!("replica {}: {why}", number + 1));
        let Some(process) = self.processes.get_mut(number) else { return Err(failed("none")) };
        let Some(mut child) = process.child.take() else { return Err(failed("does not run")) };
        let from = Instant::now();
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                _ if from.elapsed() > patience => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(failed("runs on a damaged disk"));
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if ended.success() {
            return Err(failed("ended as if nothing were wrong with its disk"));
        }
        self.said(number)
    }

    /// The session of the feed, the midnight that its times begin at, and the clock here.
    pub fn feed(&self) -> ([u8; 10], Nanos, Clock) {
        (self.exchange.session_of(0), self.exchange.midnight, self.clock)
    }

    /// The cluster file of one replica, and the configuration of all.
    pub fn files(&self, number: usize) -> [PathBuf; 2] {
        [seen_by(&self.dir, number), self.dir.join("drill.toml")]
    }

    /// What a replica's processes print.
    fn log(&self, number: usize) -> PathBuf {
        self.dir.join(format!("replica-{}.log", number + 1))
    }

    /// The last line of it.
    fn said(&self, number: usize) -> Result<String, Failure> {
        let log = self.log(number);
        let text = std::fs::read_to_string(&log).map_err(|error| on(&log, error))?;
        Ok(text.lines().last().unwrap_or_default().to_string())
    }

    /// Sets the damaged log of a replica that does not run aside, as an operator would.
    pub fn mend(&self, number: usize) -> Result<(), Failure> {
        let program = std::env::current_exe().map_err(io)?;
        let dir = self.folder(number);
        let done = Command::new(program).args(["journal", "mend", "--json"]).arg(&dir).output();
        let done = done.map_err(io)?;
        if done.status.success() {
            return Ok(());
        }
        Err(on(&dir, String::from_utf8_lossy(&done.stderr)))
    }

    /// Lets a replica in doubt that does not run elect another one, as an operator would who has been told
    /// what can't be proved. What he was told.
    pub fn recover(&self, number: usize, from: usize) -> Result<String, Failure> {
        let program = std::env::current_exe().map_err(io)?;
        let (dir, whole) = (self.folder(number), self.folder(from));
        let numbers = [number, from].map(|number| (number + 1).to_string());
        let recover = |more: &[&str]| {
            let mut command = Command::new(&program);
            command.args(["replica", "recover", "--id", &numbers[0], "--from", &numbers[1]]);
            command.arg("--dir").arg(&dir).arg("--compare").arg(&whole).args(more);
            command.output().map_err(io)
        };
        let told = recover(&[])?;
        if told.status.success() {
            return Err(on(&dir, "it was recovered without its operator's word"));
        }
        let done = recover(&["--accept-loss"])?;
        if !done.status.success() {
            return Err(on(&dir, String::from_utf8_lossy(&done.stderr)));
        }
        Ok(String::from_utf8_lossy(&told.stderr).into_owned())
    }

    /// What one replica says.
    pub fn status(&self, number: usize) -> Option<Status> {
        node::ask(&self.cluster, number as u8 + 1)
    }

    /// Cuts a replica's streams with all others, or mends them.
    pub fn cut(&self, number: usize, cut: bool) -> bool {
        let of = |relay: &&Relay| relay.ends.0 == number || relay.ends.1 == number;
        self.relays.iter().filter(of).for_each(|relay| relay.cut(cut));
        self.relays.iter().any(|relay| of(&relay))
    }

    /// Sends a signal to a replica's process; false when it does not run.
    pub fn signal(&self, number: usize, signal: rustix::process::Signal) -> bool {
        let child = self.processes.get(number).and_then(|process| process.child.as_ref());
        let pid = child.and_then(|child| rustix::process::Pid::from_raw(child.id().cast_signed()));
        pid.is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
    }

    /// Kills a replica's process at once, as `kill -9` does, and waits for its end.
    pub fn kill(&mut self, number: usize) -> bool {
        let Some(process) = self.processes.get_mut(number) else { return false };
        let Some(mut child) = process.child.take() else { return false };
        let killed = child.kill().is_ok();
        let _ = child.wait();
        killed
    }

    /// Kills all replicas' processes, one right after the other.
    pub fn kill_all(&mut self) -> bool {
        let members = self.members.clone();
        members.into_iter().map(|number| self.kill(number)).fold(true, |all, one| all & one)
    }

    /// Starts all replicas of the group that do not run.
    pub fn revive_all(&mut self) -> Result<(), Failure> {
        self.members.clone().into_iter().try_for_each(|number| self.revive(number))
    }

    /// That all processes that were started run.
    ///
    /// # Errors
    /// One has ended by itself: which, and what it said.
    pub fn all_run(&mut self) -> Result<(), Failure> {
        let ended = |process: &mut Process| {
            let child = process.child.as_mut()?;
            child.try_wait().ok().flatten().map(|_| process.number)
        };
        let Some(number) = self.processes.iter_mut().find_map(ended) else { return Ok(()) };
        let said = self.said(number)?;
        Err(Failure::Run(format!("replica {} ended by itself, and said: {said}", number + 1)))
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
        let members = self.members.iter();
        members.map(|number| node::ask(&self.cluster, *number as u8 + 1)).collect()
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
        if new >= self.processes.len() {
            return Err(Failure::Run("no replica is left in reserve".to_string()));
        }
        self.kill(old);
        let lost = self.folder(old);
        std::fs::remove_dir_all(&lost).map_err(|error| on(&lost, error))?;
        self.revive(new)?;
        let program = std::env::current_exe().map_err(io)?;
        let (from, numbers) = (Instant::now(), [old, new].map(|number| (number + 1).to_string()));
        loop {
            let socket = self.folder(self.seat.held().1).join(SOCKET);
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
        for number in 0..self.processes.len() {
            self.signal(number, rustix::process::Signal::TERM);
        }
        self.wait_for_replicas();
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
        let (clock, cluster, dir, dead) = (self.clock, self.cluster, self.dir, self.dead);
        let members = self.members;
        Ok(Artifacts { nodes, load, statuses, members, cluster, dir, clock, dead })
    }

    fn wait_for_replicas(&mut self) {
        let from = Instant::now();
        for process in &mut self.processes {
            let Some(child) = &mut process.child else { continue };
            while matches!(child.try_wait(), Ok(None)) && from.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The cluster as a replica sees it: others are behind relays.
fn seen_by(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("cluster-{}.json", number + 1))
}

/// A relay for each direction between two replicas, and a cluster file for each replica; none where
/// some are in reserve: there the network is whole.
fn relays(
    cluster: &Cluster,
    dir: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<(Vec<Relay>, Vec<JoinHandle<()>>), Failure> {
    let (mut relays, mut threads) = (Vec::new(), Vec::new());
    if !cluster.reserve.is_empty() {
        let numbers = 0..cluster.places().count();
        numbers.map(|number| seen_by(dir, number)).try_for_each(|path| cluster.write(&path))?;
        return Ok((relays, threads));
    }
    for from in 0..cluster.replicas.len() {
        let mut seen = cluster.clone();
        for (to, place) in seen.replicas.iter_mut().enumerate().filter(|(to, _)| *to != from) {
            let (relay, thread) = Relay::start((from, to), place.link, stop).map_err(io)?;
            place.link = relay.at;
            relays.push(relay);
            threads.push(thread);
        }
        seen.write(&seen_by(dir, from))?;
    }
    Ok((relays, threads))
}

/// A replica's folder.
pub fn folder(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("replica-{}", number + 1))
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
        (cluster, capped): (&Cluster, bool),
        (clock, directory): (Clock, &Arc<Directory>),
        overlay: Vec<(UdpSocket, SocketAddrV4)>,
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
        for ((role, (socket, _)), index) in nodes.into_iter().skip(1).zip(overlay).zip(1u16..) {
            let mut sockets = vec![(Channel::OVERLAY, socket)];
            let mut doors = Vec::new();
            if role.as_edge().is_some() {
                let (releasing, at) = udp()?;
                sockets.push((Channel::FEED, releasing));
                sources.push(peer_addr(at));
                let (ouch, at) = tcp()?;
                gateways.push(peer_addr(at));
                doors = vec![ouch, tcp()?.0];
            }
            let last = capped && usize::from(index) + 1 == ids;
            let of = &mut loops[if last { 2 } else { 0 }];
            of.add_node(NodeId(index), role, sockets, doors).map_err(io)?;
        }
        let servers: Vec<Peer> = cluster.retransmission().map(peer_addr).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_finds_its_ports_though_others_took_ports_meanwhile() {
        let places = places(3).expect("places");
        let taken = |at: SocketAddrV4| (Ipv4Addr::LOCALHOST, at.port());
        let _others: Vec<_> = places
            .iter()
            .map(|place| {
                let tcp = [place.link, place.status].map(|at| TcpListener::bind(taken(at)));
                (tcp, [place.overlay, place.feed].map(|at| UdpSocket::bind(taken(at))))
            })
            .collect();
        let bound: Result<Vec<_>, _> = places.iter().map(Sockets::bind).collect();
        assert_eq!(bound.map(|all| all.len()).map_err(|error| error.to_string()), Ok(3));
    }
}
