//! A venue in a network in a box: a process of `fairbell node` in each host, listeners beside the
//! edges, and what is asked of the roots.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emulator::{Disk, Network};
use exchange::{ExchangeConfig, Role};
use net::{Clock, Directory, Loop, LoopConfig, WaitStrategy};
use rustix::process::{Pid, Signal, kill_process};
use types::{Channel, NodeId, ShardId, SplitMix64};

use host::clock_agent::Wrong;
use host::config::{Config, ShardEntry, Shards};
use host::deployment;
use host::failure::{Failure, on};
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, DAYS, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port, settled};
use host::fleet::messages::{Health, Operation};
use host::fleet::scale::ScaleSettings;
use host::fleet::shards::ShardNodes;
use host::sockets::io;

/// Where a listener waits for the feed of the edge beside it, UDP.
const LISTENER_PORT: u16 = 7_200;
/// Feed positions between two comparisons of books.
const CHECKPOINT_EVERY: u64 = 128;
/// Listener of the first edge for its loop; the others follow.
const LISTENERS: NodeId = NodeId(50_000);
/// How long all nodes may take to be in.
const UP_MAX: Duration = Duration::from_secs(60);
/// How long a node that is told to may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);
/// What a machine's clock jumps ahead by when it is told to, us.
const JUMP_US: u64 = 5_000;
/// Zones that hosts are in, by turns: each has one of three roots, and some of the others.
pub const ZONES: usize = 3;
/// Room on a root's disk, where it has one of its own: more than a run takes.
const DISK_BYTES: u64 = 2 << 30;
/// Positions of the log that a root may lack to be counted as back.
const BEHIND_MAX: u64 = 1_000;
/// How long roots may take to answer: machines share the cores of the box with whatever else runs there.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a venue in a box is.
pub struct Plan {
    /// Settings of the venue, TOML.
    pub venue: String,
    /// Replicas of the root, of each shard.
    pub roots: usize,
    /// Shards, which have the venue's instruments by turns, and all proxies and edges.
    pub shards: u16,
    /// Largest offset of a free-running clock, us, and largest drift, ppb.
    pub offset_us: u64,
    /// See `offset_us`.
    pub drift_ppb: u64,
    /// Of offsets and drifts.
    pub seed: u64,
    /// Addresses are of IPv6 (fd77::/64).
    pub ipv6: bool,
    /// The first edge has a web door, with a key for an account that nobody plays.
    pub web: bool,
    /// Roots have disks of their own, which fill and lose their power.
    pub disks: bool,
    /// Listeners may take snapshots in place of what they have not heard.
    pub snapshots: bool,
    /// The program that machines start with, and the one that an upgrade puts in its place.
    pub programs: [PathBuf; 2],
    /// Edges, the last ones, whose machines are not started with the others.
    pub idle: usize,
    /// How edges come and go.
    pub scale: ScaleSettings,
    /// By node: the host that it is on; empty: the first one on the first host, and so on.
    pub hosts: Vec<usize>,
}

/// The loop of listeners.
struct Listeners {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Vec<(NodeId, Role)>>>,
}

/// A running venue.
pub struct Site<'a> {
    /// The network that it is in.
    pub network: &'a Network,
    /// Who is where.
    pub file: ClusterFile,
    /// Settings of the venue.
    pub config: Config,
    dir: PathBuf,
    hosts: Vec<usize>,
    wrong: Vec<Wrong>,
    processes: Mutex<BTreeMap<usize, Child>>,
    /// By place.
    disks: BTreeMap<usize, Disk>,
    /// See [`Plan::snapshots`].
    pub snapshots: bool,
    /// Places of disks without power.
    dark: Mutex<BTreeSet<usize>>,
    programs: [PathBuf; 2],
    /// By place: which of the programs it is started with.
    running: Mutex<Vec<usize>>,
    listeners: Option<Listeners>,
    /// By shard.
    operators: Vec<Identity>,
}

/// Figures of one node at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Place in the file, from 0.
    pub place: usize,
    /// What it said.
    pub health: Health,
}

/// How a venue is.
pub struct Standing {
    /// Which replica leads, from 1; 0: nobody.
    pub leader: usize,
    /// Nodes that are up.
    pub up: Vec<Sample>,
    /// By place: what a node is, as `fairbell cluster status` says it.
    pub is: Vec<String>,
    /// By root: positions of the log that it lacks.
    pub behind: Vec<u64>,
}

impl<'a> Site<'a> {
    /// Makes the venue's files in `dir`, and starts a process in each host but the last, which is the
    /// participants'.
    ///
    /// # Errors
    /// What can't be made or started; a venue that does not come up.
    pub fn start(network: &'a Network, plan: &Plan, dir: &Path) -> Result<Site<'a>, Failure> {
        host::files::folder(dir)?;
        let venue = dir.join("venue.toml");
        std::fs::write(&venue, &plan.venue).map_err(|error| on(&venue, error))?;
        let config = settled(host::config::read(Some(&venue))?, plan.roots);
        let proxies = deployment::proxies(&config) as usize;
        let edges = config.overlay.receivers as usize;
        let mut nodes = Vec::new();
        let roles = [
            (NodeRole::Root, "root", plan.roots * usize::from(plan.shards)),
            (NodeRole::Proxy, "proxy", proxies),
            (NodeRole::Edge, "edge", edges),
            (NodeRole::Standby, "standby", config.overlay.standby as usize),
        ];
        for (role, word, count) in roles {
            for number in 1..=count {
                let host =
                    network.host(plan.hosts.get(nodes.len()).copied().unwrap_or(nodes.len()));
                let address = match plan.ipv6 {
                    true => IpAddr::V6(host.v6()),
                    false => IpAddr::V4(host.v4()),
                };
                let subscriber = SocketAddr::from((address, LISTENER_PORT));
                let roles = match role {
                    NodeRole::Edge if number <= 2 => vec![role, NodeRole::Snapshot],
                    _ => vec![role],
                };
                let has_web = plan.web && role == NodeRole::Edge && number == 1;
                nodes.push(NodeEntry {
                    web: has_web.then(|| super::web_client::KEYS.into()),
                    zone: format!("zone-{}", (number - 1) % ZONES + 1),
                    subscribers: if role == NodeRole::Edge { vec![subscriber] } else { Vec::new() },
                    ..NodeEntry::new(format!("{word}-{number}"), address.to_string(), roles)
                });
            }
        }
        if nodes.len() >= network.hosts().len() {
            let (nodes, hosts) = (nodes.len() + 1, network.hosts().len());
            return Err(Failure::Usage(format!("{nodes} hosts are needed, not {hosts}")));
        }
        if plan.web {
            super::web_client::write_keys(dir)?;
        }
        let path = dir.join("cluster.toml");
        let shards = shards(plan, &config);
        let now = Clock::start(0).now();
        let mut file = ClusterFile::with_shards(&path, "box", now, (nodes, shards))?;
        file.scale = plan.scale.clone();
        let config = file.venue()?;
        let text = file.text()?;
        std::fs::write(&path, text).map_err(|error| on(&path, error))?;
        credentials::found(&file)?;
        for name in file.nodes.iter().map(|node| &node.name[..]).chain([OPERATOR]) {
            credentials::issue(&file, name, DAYS)?;
        }
        let mut random = SplitMix64::new(plan.seed);
        let mut within = |most: u64| (random.next_u64() % (2 * most + 1)) as i64 - most as i64;
        // Whatever becomes of processes, the clocks of their machines go on.
        let origin = Clock::start(0).now().0;
        let wrong = (0..file.nodes.len()).map(|place| match place {
            // The others follow it: it stands for the truth.
            0 => Wrong::default(),
            _ => Wrong {
                offset_ns: 1_000 * within(plan.offset_us),
                drift_ppb: within(plan.drift_ppb),
                origin,
            },
        });
        let wrong = wrong.collect();
        let own = Credentials::read(&file, &Credentials::folder(&file, OPERATOR), OPERATOR)?;
        let operator = |of: ClusterFile| Identity::new(&of, &config, own.clone(), (OPERATOR, 0));
        let operators = file.all_shards().map(operator).collect::<Result<_, _>>()?;
        let mut site = Site {
            network,
            config,
            dir: dir.to_path_buf(),
            hosts: plan.hosts.clone(),
            wrong,
            processes: Mutex::default(),
            disks: BTreeMap::new(),
            snapshots: plan.snapshots,
            dark: Mutex::default(),
            programs: plan.programs.clone(),
            running: Mutex::new(vec![0; file.nodes.len()]),
            listeners: None,
            operators,
            file,
        };
        if plan.disks {
            site.make_disks()?;
        }
        site.listen()?;
        let mut idle = site.places(NodeRole::Edge);
        idle.drain(..idle.len().saturating_sub(plan.idle));
        let there = |place: &usize| !idle.contains(place);
        (0..site.file.nodes.len()).filter(there).try_for_each(|place| site.revive(place))?;
        site.wait_up(idle.len())?;
        Ok(site)
    }

    /// Places of the nodes with a role, in the order of the file, from 0.
    pub fn places(&self, role: NodeRole) -> Vec<usize> {
        self.file.of(role).map(|(number, _)| usize::from(number) - 1).collect()
    }

    /// Host of a node.
    pub fn host(&self, place: usize) -> &emulator::Host {
        self.network.host(self.hosts.get(place).copied().unwrap_or(place))
    }

    /// Host of the participants.
    pub fn participants(&self) -> &emulator::Host {
        self.network.host(self.network.hosts().len() - 1)
    }

    /// A node's folder.
    pub fn folder(&self, place: usize) -> PathBuf {
        self.dir.join(&self.file.nodes[place].name)
    }

    /// Process of a node that runs.
    pub fn process(&self, place: usize) -> Option<u32> {
        self.processes().get(&place).map(Child::id)
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<usize, Child>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Places of the nodes of a zone.
    pub fn zone(&self, zone: &str) -> Vec<usize> {
        let nodes = self.file.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.zone == zone).map(|(place, _)| place).collect()
    }

    /// A disk for each root's journal.
    fn make_disks(&mut self) -> Result<(), Failure> {
        for place in self.places(NodeRole::Root) {
            let at = self.folder(place).join("journal");
            let image = self.dir.join(format!("{}.disk", self.file.nodes[place].name));
            let disk = Disk::make(&image, &at, DISK_BYTES).map_err(|error| {
                Failure::Unavailable(format!(
                    "a disk for a root: {error}; it needs root, mkfs.ext4 and loop devices"
                ))
            })?;
            self.disks.insert(place, disk);
        }
        Ok(())
    }

    /// The disk of a node.
    ///
    /// # Errors
    /// It has none of its own.
    pub fn disk(&self, place: usize) -> Result<&Disk, Failure> {
        let name = &self.file.nodes[place].name;
        self.disks
            .get(&place)
            .ok_or_else(|| Failure::Usage(format!("{name} has no disk of its own")))
    }

    fn dark(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.dark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the power of machines at once: processes end, and what they have not synced is lost where
    /// there is something to lose, on the disks of roots.
    ///
    /// # Errors
    /// The system's.
    pub fn cut_power(&self, places: &[usize]) -> Result<(), Failure> {
        for child in places.iter().filter_map(|place| self.process(*place)) {
            let _ = emulator::kill(child);
        }
        for place in places {
            self.kill(*place);
            if let Some(disk) = self.disks.get(place) {
                disk.power_off().map_err(io)?;
                self.dark().insert(*place);
            }
        }
        Ok(())
    }

    /// Has a machine started with the other program from now on.
    pub fn exchange_program(&self, place: usize) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running[place] = 1 - running[place];
    }

    /// Where a root's journal lies as it was when trading began.
    pub fn old_journal(&self, place: usize) -> PathBuf {
        self.dir.join(format!("{}-old-journal", self.file.nodes[place].name))
    }

    /// Copies all roots' journals as they are now, torn or not, as a disk's image would be.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_journals(&self) -> Result<(), Failure> {
        let copy = |place: usize| {
            super::folders::copy_folder(
                &self.folder(place).join("journal"),
                &self.old_journal(place),
            )
        };
        self.places(NodeRole::Root).into_iter().try_for_each(copy)
    }

    /// Starts a node's process.
    ///
    /// # Errors
    /// The system's.
    pub fn revive(&self, place: usize) -> Result<(), Failure> {
        let (name, wrong) = (self.file.nodes[place].name.clone(), self.wrong[place]);
        if let Some(disk) = self.disks.get(&place).filter(|_| self.dark().remove(&place)) {
            disk.power_on().map_err(io)?;
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner)[place];
        let path = self.dir.join(format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let log = log.map_err(|error| on(&path, error))?;
        let mut command = Command::new(&self.programs[running]);
        command.args(["node", "--traces", "--name", &name, "--cluster"]).arg(&self.file.path);
        command.arg("--dir").arg(self.folder(place));
        command.arg(format!("--virtual-offset-us={}", wrong.offset_ns / 1_000));
        command.arg(format!("--virtual-jump-us={JUMP_US}"));
        command.arg(format!("--virtual-drift-ppb={}", wrong.drift_ppb));
        command.arg(format!("--virtual-origin-ns={}", wrong.origin));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = self.host(place).spawn(&mut command);
        self.processes().insert(place, child.map_err(io)?);
        Ok(())
    }

    /// Kills a node's process, and waits until it is gone.
    pub fn kill(&self, place: usize) {
        let child = self.processes().remove(&place);
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Tells a node to stop, and waits until it has; its exit code.
    ///
    /// # Errors
    /// It does not stop.
    pub fn stop(&self, place: usize) -> Result<Option<i32>, Failure> {
        if let Some(child) = self.processes().get(&place) {
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        self.ended(place, STOP_MAX)
    }

    /// Waits until a node has ended by itself; its exit code, or none where a signal ended it.
    ///
    /// # Errors
    /// It goes on.
    pub fn ended(&self, place: usize, patience: Duration) -> Result<Option<i32>, Failure> {
        let Some(mut child) = self.processes().remove(&place) else { return Ok(None) };
        let since = Instant::now();
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Ok(status.code());
            }
            if since.elapsed() > patience {
                let _ = child.kill();
                let _ = child.wait();
                let name = &self.file.nodes[place].name;
                return Err(Failure::Run(format!("{name} does not end when it is to")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a node is up.
    ///
    /// # Errors
    /// It is not.
    pub fn wait_for(&self, place: usize, patience: Duration) -> Result<(), Failure> {
        let since = Instant::now();
        // The shard whose log it keeps, and which of its roots it is, from 0.
        let of = self.file.of_node(&self.file.nodes[place]);
        let root = of.replica(place as u16 + 1).map(|replica| usize::from(replica) - 1);
        let mut last = "no root answers".to_string();
        while since.elapsed() < patience {
            match self.standing_of(of.shard()) {
                Ok(Standing { up, behind, is, .. }) => {
                    let lacks = root.map_or(0, |root| behind[root]);
                    if lacks <= BEHIND_MAX && up.iter().any(|sample| sample.place == place) {
                        return Ok(());
                    }
                    let is = is.get(place).map_or("", |is| &is[..]);
                    last = match root {
                        Some(_) => format!("{is}, lacks {lacks} positions of the log"),
                        None => is.to_string(),
                    };
                }
                Err(why) => last = why.to_string(),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let (name, dir) = (&self.file.nodes[place].name, self.dir.display());
        let seconds = patience.as_secs();
        Err(Failure::Run(format!(
            "{name} does not come back within {seconds} s ({last}): see {dir}/{name}.log"
        )))
    }

    /// Places of the roots of a shard, in the order of their numbers.
    pub fn roots_of(&self, shard: ShardId) -> Vec<usize> {
        let of = self.file.of_shard(shard);
        of.of(NodeRole::Root).map(|(number, _)| usize::from(number) - 1).collect()
    }

    /// Listeners beside the edges, with the books they build.
    fn listen(&mut self) -> Result<(), Failure> {
        let exchange = self.exchange()?;
        let servers: Vec<_> = self
            .file
            .shard_ids()
            .flat_map(|shard| self.roots_of(shard))
            .map(|place| {
                self.file.at(&self.file.nodes[place], Port::Retransmission).map(net::peer_addr)
            })
            .collect::<Result<_, _>>()?;
        let first = self.places(NodeRole::Edge).first().map(|place| &self.file.nodes[*place]);
        let server = first.map(|node| self.file.at(node, Port::Snapshot)).transpose()?;
        let habits = LoopConfig {
            wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
            ..LoopConfig::default()
        };
        let mut of: Loop<Role> =
            Loop::new(Clock::start(0), Arc::new(Directory::default()), habits).map_err(io)?;
        for (id, place) in (LISTENERS.0..).zip(self.places(NodeRole::Edge)) {
            let node = &self.file.nodes[place];
            let mut settings = exchange::listener(&exchange, servers.clone());
            let release = self.file.at(node, Port::Release)?;
            settings.sources = Some(vec![net::peer_addr(release)]);
            settings.checkpoint_every = CHECKPOINT_EVERY;
            settings.catch_up = server
                .filter(|_| self.snapshots)
                .map(|server| self.config.snapshot.catch_up(vec![net::peer_addr(server)]));
            let socket = self
                .host(place)
                .enter(|| host::sockets::udp(SocketAddr::new(release.ip(), LISTENER_PORT)));
            let socket = socket.and_then(|socket| socket).map_err(io)?;
            let role = Role::Listener(Box::new(exchange::subscriber(&exchange, &settings)));
            of.add_node(NodeId(id), role, vec![(Channel::FEED, socket)], None).map_err(io)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || of.run(&over, Duration::from_secs(1), |_, _| ()));
        self.listeners = Some(Listeners { stop, thread });
        Ok(())
    }

    /// A listener of the last edge that hears nothing: for controls.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn deaf_listener(&self) -> Result<Role, Failure> {
        let exchange = self.exchange()?;
        let settings = exchange::listener(&exchange, Vec::new());
        Ok(Role::Listener(Box::new(exchange::subscriber(&exchange, &settings))))
    }

    /// The exchange as its nodes have it.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn exchange(&self) -> Result<ExchangeConfig, Failure> {
        let mut exchange = deployment::exchange(&self.config, &Clock::start(0))?;
        exchange.session.copy_from_slice(&self.file.session.as_bytes()[..10]);
        exchange.midnight = types::Nanos(self.file.midnight_ns);
        Ok(exchange)
    }

    /// Has an operation done by the roots.
    ///
    /// # Errors
    /// Why it is not done.
    pub fn operate(&self, operation: &Operation) -> Result<serde_json::Value, Failure> {
        self.operate_within(operation, PATIENCE)
    }

    /// The same of one that takes longer.
    ///
    /// # Errors
    /// Why it is not done.
    pub fn operate_within(
        &self,
        operation: &Operation,
        patience: Duration,
    ) -> Result<serde_json::Value, Failure> {
        self.operate_shard((ShardId(0), operation), patience)
    }

    /// The same by the roots of a shard.
    fn operate_shard(
        &self,
        (shard, operation): (ShardId, &Operation),
        patience: Duration,
    ) -> Result<serde_json::Value, Failure> {
        let operator = &self.operators[usize::from(shard.0)];
        let done = self.participants().enter(|| operator.operate(operation, patience));
        Ok(done.map_err(io)??.1)
    }

    /// How all nodes are.
    ///
    /// # Errors
    /// No root answers.
    pub fn standing(&self) -> Result<Standing, Failure> {
        self.standing_of(ShardId(0))
    }

    /// How the nodes are that have something of a shard, as its roots say; of the first all nodes.
    ///
    /// # Errors
    /// None of its roots answers.
    pub fn standing_of(&self, shard: ShardId) -> Result<Standing, Failure> {
        let data = self.operate_shard((shard, &Operation::Status), PATIENCE)?;
        let list = |of: &serde_json::Value| of.as_array().cloned().unwrap_or_default();
        let place = |row: &serde_json::Value| {
            let name = row["node"].as_str().unwrap_or_default();
            self.file.nodes.iter().position(|node| node.name == name)
        };
        let sample = |row: serde_json::Value| {
            let (place, up) = (place(&row)?, row["is"] == "up");
            let health = serde_json::from_value(row["health"].clone()).ok()?;
            up.then_some(Sample { place, health })
        };
        let lacks = |of: &serde_json::Value| of.as_u64().unwrap_or(u64::MAX);
        let mut behind: Vec<u64> = list(&data["behind"]).iter().map(lacks).collect();
        // An older program does not say.
        behind.resize(self.roots_of(shard).len(), 0);
        let mut is = vec![String::new(); self.file.nodes.len()];
        for row in list(&data["nodes"]) {
            if let Some(place) = place(&row) {
                is[place] = row["is"].as_str().unwrap_or_default().to_string();
            }
        }
        Ok(Standing {
            is,
            leader: usize::try_from(data["leader"].as_u64().unwrap_or(0)).unwrap_or(0),
            up: list(&data["nodes"]).into_iter().filter_map(sample).collect(),
            behind,
        })
    }

    /// The place of the root that leads.
    ///
    /// # Errors
    /// No root answers.
    pub fn leader(&self) -> Result<usize, Failure> {
        self.leader_of(ShardId(0))
    }

    /// The same of a shard.
    ///
    /// # Errors
    /// No root answers.
    pub fn leader_of(&self, shard: ShardId) -> Result<usize, Failure> {
        let leader = self.standing_of(shard)?.leader.checked_sub(1);
        let place = leader.and_then(|leader| self.roots_of(shard).get(leader).copied());
        place.ok_or_else(|| Failure::Run("nobody leads".to_string()))
    }

    /// The place of the root whose clock all follow: not always the leader, for it stays while leaders change.
    ///
    /// # Errors
    /// No root answers, or nobody follows any yet.
    pub fn reference(&self) -> Result<usize, Failure> {
        let standing = self.standing_of(ShardId(0))?;
        let newest =
            standing.up.iter().map(|sample| sample.health.follows).max_by_key(|of| of.epoch);
        let place = newest.and_then(|of| usize::from(of.number).checked_sub(1));
        place.ok_or_else(|| Failure::Run("the clocks have no reference".to_string()))
    }

    /// Waits until all nodes are up, and no root lacks much.
    ///
    /// # Errors
    /// Some are not.
    pub fn wait_all(&self, patience: Duration) -> Result<(), Failure> {
        let until = Instant::now() + patience;
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        (0..self.file.nodes.len())
            .try_for_each(|place| self.wait_for(place, left(until).max(PATIENCE)))
    }

    fn wait_up(&self, idle: usize) -> Result<(), Failure> {
        let since = Instant::now();
        let all_of = |shard| {
            let of = self.file.of_shard(shard);
            let numbers = 1..=self.file.nodes.len() as u16;
            numbers.filter(|number| shard == ShardId(0) || of.concerns(*number)).count()
        };
        let all = self.file.shard_ids().map(all_of).sum::<usize>().saturating_sub(idle);
        loop {
            let up = |shard| self.standing_of(shard).map_or(0, |standing| standing.up.len());
            let up: usize = self.file.shard_ids().map(up).sum();
            if up == all {
                return Ok(());
            }
            if since.elapsed() > UP_MAX {
                let dir = self.dir.display();
                return Err(Failure::Run(format!("{up} of {all} nodes are up: see {dir}/*.log")));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Ends everything; the listeners are left, in the order of the edges.
    ///
    /// # Errors
    /// A node that does not stop when it is told to.
    pub fn end(&mut self) -> Result<Vec<Role>, Failure> {
        let places: Vec<usize> = self.processes().keys().rev().copied().collect();
        let stopped: Result<Vec<_>, _> = places.into_iter().map(|place| self.stop(place)).collect();
        let mut roles = Vec::new();
        if let Some(Listeners { stop, thread }) = self.listeners.take() {
            stop.store(true, Ordering::Relaxed);
            let nodes =
                thread.join().map_err(|_| Failure::Run("listeners panicked".to_string()))?;
            roles = nodes.map_err(io)?.into_iter().map(|(_, role)| role).collect();
        }
        stopped?;
        Ok(roles)
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        let places: Vec<usize> = self.processes().keys().copied().collect();
        places.into_iter().for_each(|place| self.kill(place));
        if let Some(Listeners { stop, .. }) = &self.listeners {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// The shards of a plan: its roots in order, instruments by turns.
fn shards(plan: &Plan, config: &Config) -> Vec<ShardNodes> {
    if plan.shards == 1 {
        return Vec::new();
    }
    let of = |(at, entry): (usize, ShardEntry)| ShardNodes {
        name: entry.name,
        symbols: entry.symbols,
        roots: (1..=plan.roots).map(|root| format!("root-{}", at * plan.roots + root)).collect(),
        proxies: None,
        standby: None,
    };
    Shards::spread(plan.shards, config).0.into_iter().enumerate().map(of).collect()
}
