//! A venue in a network in a box: a process of `fairbell node` in each host, listeners beside the
//! edges, and what is asked of the roots.

use std::collections::BTreeMap;
use std::net::{SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emulator::Network;
use exchange::{ExchangeConfig, Role};
use net::{Clock, Directory, Loop, LoopConfig, WaitStrategy};
use rustix::process::{Pid, Signal, kill_process};
use types::{Channel, NodeId, SplitMix64};

use host::clock_agent::Wrong;
use host::config::Config;
use host::deployment;
use host::failure::{Failure, on};
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, DAYS, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port, settled};
use host::fleet::messages::{Health, Operation};
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
/// How long a root may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a venue in a box is.
pub struct Plan {
    /// Settings of the venue, TOML.
    pub venue: String,
    /// Replicas of the root.
    pub roots: usize,
    /// Largest offset of a free-running clock, us, and largest drift, ppb.
    pub offset_us: u64,
    /// See `offset_us`.
    pub drift_ppb: u64,
    /// Of offsets and drifts.
    pub seed: u64,
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
    wrong: Vec<Wrong>,
    processes: Mutex<BTreeMap<usize, Child>>,
    listeners: Option<Listeners>,
    operator: Identity,
}

/// Figures of one node at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Place in the file, from 0.
    pub place: usize,
    /// What it said.
    pub health: Health,
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
            (NodeRole::Root, "root", plan.roots),
            (NodeRole::Proxy, "proxy", proxies),
            (NodeRole::Edge, "edge", edges),
            (NodeRole::Standby, "standby", config.overlay.standby as usize),
        ];
        for (role, word, count) in roles {
            for number in 1..=count {
                let address = network.host(nodes.len()).v4();
                let subscriber = SocketAddrV4::new(address, LISTENER_PORT);
                nodes.push(NodeEntry {
                    name: format!("{word}-{number}"),
                    address: address.to_string(),
                    roles: match role {
                        NodeRole::Edge if number == 1 => vec![role, NodeRole::Snapshot],
                        _ => vec![role],
                    },
                    zone: String::new(),
                    port: None,
                    bind: None,
                    dir: None,
                    subscribers: if role == NodeRole::Edge { vec![subscriber] } else { Vec::new() },
                    groups: Vec::new(),
                    public: None,
                });
            }
        }
        if nodes.len() >= network.hosts().len() {
            let (nodes, hosts) = (nodes.len() + 1, network.hosts().len());
            return Err(Failure::Usage(format!("{nodes} hosts are needed, not {hosts}")));
        }
        let path = dir.join("cluster.toml");
        let file = ClusterFile::new(&path, "box", Clock::start(0).now(), nodes)?;
        let text = file.text()?;
        std::fs::write(&path, text).map_err(|error| on(&path, error))?;
        credentials::found(&file)?;
        for name in file.nodes.iter().map(|node| &node.name[..]).chain([OPERATOR]) {
            credentials::issue(&file, name, DAYS)?;
        }
        let mut random = SplitMix64::new(plan.seed);
        let mut within = |most: u64| (random.next_u64() % (2 * most + 1)) as i64 - most as i64;
        let wrong = (0..file.nodes.len()).map(|place| match place {
            // The others follow it: it stands for the truth.
            0 => Wrong::default(),
            _ => Wrong {
                offset_ns: 1_000 * within(plan.offset_us),
                drift_ppb: within(plan.drift_ppb),
                ..Wrong::default()
            },
        });
        let wrong = wrong.collect();
        let own = Credentials::read(&file, &Credentials::folder(&file, OPERATOR), OPERATOR)?;
        let operator = Identity::new(&file, &config, own, (OPERATOR, 0))?;
        let mut site = Site {
            network,
            config,
            dir: dir.to_path_buf(),
            wrong,
            processes: Mutex::default(),
            listeners: None,
            operator,
            file,
        };
        site.listen()?;
        (0..site.file.nodes.len()).try_for_each(|place| site.revive(place))?;
        site.wait_up()?;
        Ok(site)
    }

    /// Places of the nodes with a role, in the order of the file, from 0.
    pub fn places(&self, role: NodeRole) -> Vec<usize> {
        self.file.of(role).map(|(number, _)| usize::from(number) - 1).collect()
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
            copy_folder(&self.folder(place).join("journal"), &self.old_journal(place))
        };
        self.places(NodeRole::Root).into_iter().try_for_each(copy)
    }

    /// Starts a node's process.
    ///
    /// # Errors
    /// The system's.
    pub fn revive(&self, place: usize) -> Result<(), Failure> {
        let (name, wrong) = (self.file.nodes[place].name.clone(), self.wrong[place]);
        let path = self.dir.join(format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let log = log.map_err(|error| on(&path, error))?;
        let mut command = Command::new(std::env::current_exe().map_err(io)?);
        command.args(["node", "--traces", "--name", &name, "--cluster"]).arg(&self.file.path);
        command.arg("--dir").arg(self.folder(place));
        command.arg(format!("--virtual-offset-us={}", wrong.offset_ns / 1_000));
        command.arg(format!("--virtual-jump-us={JUMP_US}"));
        command.arg(format!("--virtual-drift-ppb={}", wrong.drift_ppb));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = self.network.host(place).spawn(&mut command);
        self.processes().insert(place, child.map_err(io)?);
        Ok(())
    }

    /// Kills a node's process as a power cut does, and waits until it is gone.
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
        while since.elapsed() < patience {
            let up =
                self.status().is_ok_and(|(_, samples)| samples.iter().any(|s| s.place == place));
            if up {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let (name, dir) = (&self.file.nodes[place].name, self.dir.display());
        Err(Failure::Run(format!("{name} does not come back: see {dir}/{name}.log")))
    }

    /// Listeners beside the edges, with the books they build.
    fn listen(&mut self) -> Result<(), Failure> {
        let exchange = self.exchange()?;
        let servers: Vec<_> = self
            .places(NodeRole::Root)
            .into_iter()
            .map(|place| {
                self.file.at(&self.file.nodes[place], Port::Retransmission).map(net::peer_addr)
            })
            .collect::<Result<_, _>>()?;
        let first = self.places(NodeRole::Edge).first().map(|place| &self.file.nodes[*place]);
        let snapshots = first.map(|node| self.file.at(node, Port::Snapshot)).transpose()?;
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
            if let Some(server) = snapshots {
                settings.catch_up = Some(self.config.snapshot.catch_up(net::peer_addr(server)));
            }
            let socket = self
                .network
                .host(place)
                .enter(|| UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, LISTENER_PORT)));
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
        let done = self.participants().enter(|| self.operator.operate(operation, PATIENCE));
        Ok(done.map_err(io)??.1)
    }

    /// How all nodes are, and which replica leads, from 1.
    ///
    /// # Errors
    /// No root answers.
    pub fn status(&self) -> Result<(u64, Vec<Sample>), Failure> {
        let data = self.operate(&Operation::Status)?;
        let rows = data["nodes"].as_array().map_or(&[][..], Vec::as_slice);
        let sample = |(place, row): (usize, &serde_json::Value)| {
            let up = row["is"] == "up";
            let health = serde_json::from_value(row["health"].clone()).ok()?;
            up.then_some(Sample { place, health })
        };
        let samples = rows.iter().enumerate().filter_map(sample).collect();
        Ok((data["leader"].as_u64().unwrap_or(0), samples))
    }

    fn wait_up(&self) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            let up = self.status().map_or(0, |(_, samples)| samples.len());
            if up == self.file.nodes.len() {
                return Ok(());
            }
            if since.elapsed() > UP_MAX {
                let all = self.file.nodes.len();
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

/// Copies a folder and what is in it.
///
/// # Errors
/// The system's.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), Failure> {
    host::files::folder(to)?;
    for entry in std::fs::read_dir(from).map_err(|error| on(from, error))? {
        let entry = entry.map_err(|error| on(from, error))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().map_err(|error| on(&source, error))?.is_dir() {
            true => copy_folder(&source, &target)?,
            false => drop(std::fs::copy(&source, &target).map_err(|error| on(&source, error))?),
        }
    }
    Ok(())
}
