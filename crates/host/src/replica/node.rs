//! One replica: its loop, its disk, its streams to the others, its claims, and how it stands.

use std::collections::VecDeque;
use std::fmt::{Display, Formatter};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use exchange::{ExchangeConfig, Member, Role};
use journal::{Folder, Journal, JournalError};
use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy};
use replication::{Action, ReplicaId, Waits};
use serde::{Deserialize, Serialize};
use types::{Channel, Input};

use super::certificates::Credentials;
use super::checkpoints::{self, Begin, Begun, Cost, Files};
use super::claims;
use super::cluster::{Cluster, ReplicaAddresses};
use super::gate::{self, Gate, Limits};
use super::links::{self, Way};
use super::places::Places;
use super::shut::Shut;
use super::writer::{self, Job};
use crate::alarms::Alarms;
use crate::config::Config;
use crate::failure::{Failure, on};
use crate::journal::health::Health;
use crate::journal::kept::{Genesis, input_of};
use crate::sockets::{ANYWHERE, io, udp_anywhere};

/// What the records of a replica's journal are.
pub const LABEL: [u8; 32] = *b"fairbell: replicas, one genesis ";
/// Positions between two comparisons of digests: one costs a walk over all open orders.
const DIGEST_EVERY: u64 = 16_384;
/// Longest answer of its loop.
const ANSWER: Duration = Duration::from_millis(500);
/// What the keys of its door are derived for.
const LINKS: &[u8] = b"links";
/// How often the loop is looked at.
const OBSERVE_EVERY: Duration = Duration::from_millis(20);

/// How a replica stands.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq, Eq, Debug)]
pub struct Status {
    /// Its number.
    pub replica: u8,
    /// The newest term it knows.
    pub term: u64,
    /// It leads, and serves.
    pub leading: bool,
    /// Inputs in its log that are committed and applied.
    pub inputs: u64,
    /// Positions of the group's log that are committed, as far as it knows.
    pub committed: u64,
    /// The position before the first that its log holds: what is up to there is in a snapshot.
    #[serde(default)]
    pub log_before: u64,
    /// Digest of its state.
    pub state_digest: String,
    /// Digests that most replicas had in common.
    pub digests_compared: u64,
    /// It elects nobody before it has a record of a later term than this; 0: it does.
    pub doubt_term: u64,
    /// The newest version of the replicas' messages that it speaks.
    #[serde(default)]
    pub version: u8,
    /// The newest that all speak of whom it has heard lately; a leader hears of everybody.
    #[serde(default)]
    pub agreed_version: u8,
    /// Snapshots that it got from others since it was started.
    #[serde(default)]
    pub installed: u64,
    /// Inputs that its start took from a checkpoint; 0 when it applied all of them.
    #[serde(default)]
    pub restored: u64,
    /// Checkpoints written since it was started.
    #[serde(default)]
    pub checkpoints: u64,
    /// The longest that its loop took to write one down, us.
    #[serde(default)]
    pub checkpoint_us: u64,
    /// Length of the newest one, bytes.
    #[serde(default)]
    pub checkpoint_bytes: u64,
    /// Who is in the group, as far as it knows.
    #[serde(default)]
    pub members: Vec<u8>,
    /// After so many changes.
    #[serde(default)]
    pub changes: u64,
    /// Why it elects nobody for now.
    #[serde(default)]
    pub waits: Option<String>,
    /// Why it takes part in nothing any more.
    pub stopped: Option<String>,
}

impl Display for Status {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Status { replica, term, leading, inputs, committed, waits, stopped, .. } = self;
        let role = if *leading { "leads" } else { "follows" };
        write!(
            f,
            "replica {replica} {role} in term {term}, {inputs} inputs applied, {committed} positions \
             committed"
        )?;
        waits.iter().chain(stopped).try_for_each(|why| write!(f, ", {why}"))
    }
}

/// Whoever asks how a replica stands has this.
#[derive(Clone)]
pub struct StatusHandle {
    id: u8,
    restored: u64,
    cost: Arc<Cost>,
    root: LoopHandle<Role>,
}

impl StatusHandle {
    /// How the replica stands; `None` when its loop does not answer in half a second.
    pub fn status(&self) -> Option<Status> {
        let (to, from) = sync_channel(1);
        let own = self.clone();
        let asked = self.root.call(ExchangeConfig::ROOT, move |role, _, _| {
            if let Some(member) = role.as_member() {
                let _ = to.try_send(status((own.id, own.restored, &own.cost), member));
            }
        });
        asked.ok().and_then(|()| from.recv_timeout(ANSWER).ok())
    }
}

fn status((id, restored, cost): (u8, u64, &Cost), member: &Member) -> Status {
    let root = member.role().as_root();
    let standing = member.replica().standing();
    Status {
        replica: id,
        term: standing.term,
        leading: member.leading().is_some(),
        inputs: root.map_or(0, |root| root.engine().applied()),
        committed: member.replica().committed(),
        log_before: member.replica().before(),
        state_digest: format!("{:016x}", root.map_or(0, exchange::Root::state_digest)),
        digests_compared: member.replica().counts().compared,
        doubt_term: member.replica().doubt(),
        version: member.replica().config().newest,
        agreed_version: member.replica().agreed_version(),
        installed: member.replica().counts().installed,
        restored,
        checkpoints: cost.written.load(Ordering::Relaxed),
        checkpoint_us: cost.longest_ns.load(Ordering::Relaxed) / 1_000,
        checkpoint_bytes: cost.bytes.load(Ordering::Relaxed),
        members: member.replica().membership().members().map(|(id, _)| id.0).collect(),
        changes: member.replica().membership().number,
        waits: member.replica().waits().map(|waits| waits.to_string()),
        stopped: member.stopped().map(ToString::to_string),
    }
}

/// The other ends of what a member wants done.
struct Ends {
    job: Sender<Job>,
    jobs: Receiver<Job>,
    posts: Vec<(ReplicaId, Receiver<Vec<u8>>)>,
    /// The term in which it leads, or 0.
    leading: Arc<AtomicU64>,
    trouble: Arc<Mutex<Option<String>>>,
}

/// What does a member's actions, and the other ends of that.
fn wires(own: u8, cluster: &Cluster, shut: Arc<Shut>) -> (impl FnMut(Action) + Send + use<>, Ends) {
    let (job, jobs) = channel();
    let (mut senders, mut posts) = (Vec::new(), Vec::new());
    let others = cluster.places().map(|(id, _)| id).filter(|id| *id != own);
    for to in others.map(ReplicaId) {
        let (sender, messages) = sync_channel(links::WAITING_MAX);
        senders.push((to, sender));
        posts.push((to, messages));
    }
    let (leading, trouble) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(None)));
    let ends = Ends {
        job: job.clone(),
        jobs,
        posts,
        leading: Arc::clone(&leading),
        trouble: Arc::clone(&trouble),
    };
    let act = move |action: Action| match action {
        Action::Send { to, .. } if shut.is(to) => {}
        Action::Send { to, bytes } => {
            if let Some((_, sender)) = senders.iter().find(|(id, _)| *id == to) {
                // Consensus sends again what matters.
                let _ = sender.try_send(bytes);
            }
        }
        // Nobody does them only when all is over.
        Action::Write { number, write } => drop(job.send(Job::Write { number, write })),
        Action::Fetch(wanted) => drop(job.send(Job::Fetch(wanted))),
        Action::ReadSnapshot(wanted) => drop(job.send(Job::ReadSnapshot(wanted))),
        Action::TakeSnapshot => drop(job.send(Job::TakeSnapshot)),
        Action::Lead { term } => leading.store(term, Ordering::Release),
        Action::Follow { .. } => leading.store(0, Ordering::Release),
        Action::Differs { who, position } => {
            eprintln!("{who} differs from most at position {position}; it stops");
        }
        Action::Stop(why) => {
            leading.store(0, Ordering::Release);
            if let Ok(mut trouble) = trouble.lock() {
                trouble.get_or_insert_with(|| why.to_string());
            }
        }
        // The member's own.
        Action::Apply(_) | Action::Restore(_) | Action::Notice(_) | Action::Confirmed(_) => {}
    };
    (act, ends)
}

/// A replica's sockets.
pub struct Sockets {
    /// Its overlay socket: the root's while it leads.
    pub overlay: UdpSocket,
    /// Its retransmission server.
    pub feed: UdpSocket,
    /// Where other replicas connect.
    pub link: TcpListener,
    /// Of a venue of several shards: where it speaks with the roots of the others, and where these are,
    /// each under the number of its shard.
    pub shards: Option<(UdpSocket, Directory)>,
}

impl Sockets {
    /// Binds those of a place.
    ///
    /// # Errors
    /// Addresses in use.
    pub fn bind(place: &ReplicaAddresses) -> Result<Sockets, Failure> {
        Ok(Sockets {
            overlay: UdpSocket::bind(place.overlay).map_err(io)?,
            feed: UdpSocket::bind(place.feed).map_err(io)?,
            link: TcpListener::bind(place.link).map_err(io)?,
            shards: None,
        })
    }

    /// Where they are.
    ///
    /// # Errors
    /// The kernel's.
    pub fn place(&self) -> Result<ReplicaAddresses, Failure> {
        Ok(ReplicaAddresses {
            overlay: self.overlay.local_addr().map_err(io)?,
            feed: self.feed.local_addr().map_err(io)?,
            link: self.link.local_addr().map_err(io)?,
        })
    }
}

/// Everything bound and recovered, nothing running.
pub struct Host {
    id: u8,
    of: Loop<Role>,
    journal: Journal<Folder>,
    job: Sender<Job>,
    jobs: Receiver<Job>,
    posts: Vec<(ReplicaId, Receiver<Vec<u8>>)>,
    leading: Arc<AtomicU64>,
    trouble: Arc<Mutex<Option<String>>>,
    link: TcpListener,
    claims: UdpSocket,
    places: Places,
    /// None: it is not to run.
    credentials: Option<Credentials>,
    limits: Limits,
    cluster: Cluster,
    files: Option<Files>,
    cost: Arc<Cost>,
    dir: PathBuf,
    alarms: Alarms,
    /// Whom it hears no more.
    pub shut: Arc<Shut>,
    /// The core that its loop takes, and the machine's name.
    core: Option<(String, u16)>,
    /// Inputs found in the journal.
    pub recovered: u64,
    /// Of them, those that a checkpoint stood for.
    pub restored: u64,
}

impl Host {
    /// Binds the sockets of replica `id`, from 1, and makes its state of what its journal in `dir`
    /// knows to be committed, or as `begin` says: the last records of a group that has ended may be
    /// on all disks before any of them has heard that they are committed.
    ///
    /// # Errors
    /// Addresses in use; a journal of another exchange or a damaged one.
    pub fn new(
        (config, cluster): (&Config, &Cluster),
        (id, dir): (u8, &Path),
        clock: Clock,
        begin: Begin,
    ) -> Result<Host, Failure> {
        let Some(place) = cluster.place(id) else {
            let most = cluster.places().count();
            return Err(Failure::Usage(format!("--id: must be 1..={most}, is {id}")));
        };
        Host::with(Sockets::bind(place)?, (config, cluster), (id, dir), clock, begin)
    }

    /// As [`Host::new`], on sockets that are bound.
    ///
    /// # Errors
    /// A journal of another exchange or a damaged one.
    pub fn with(
        Sockets { overlay, feed, link, shards }: Sockets,
        (config, cluster): (&Config, &Cluster),
        (id, dir): (u8, &Path),
        clock: Clock,
        begin: Begin,
    ) -> Result<Host, Failure> {
        let mut exchange = crate::deployment::exchange(config, &clock)?;
        cluster.settle(&mut exchange);
        crate::day::plan(config, clock.now(), &mut exchange);
        let claims = udp_anywhere().map_err(io)?;
        let places = Places::of(cluster)?;
        // Those of a group that has ended are looked at alone.
        let runs = begin != Begin::Ended;
        let credentials = runs.then(|| Credentials::read(cluster, id)).transpose()?;

        let begin = match begin {
            Begin::Checkpoint if config.journal.checkpoint_every == 0 => Begin::Inputs,
            other => other,
        };
        let folder = config.journal.folder(dir)?;
        // What is durable in one place is not committed for that.
        let settings = journal::Config {
            alone: begin == Begin::Ended,
            read_later: begin == Begin::Checkpoint,
            server: if runs { id.into() } else { 0 },
            ..config.journal.settings(cluster.group, LABEL)
        };
        let mut journal = open_journal(folder, dir, &settings)?;
        let replicas = cluster.replicas.len() as u8;
        let [a, b, c, d, e, f, g, h, ..] =
            probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        let group = replication::Config {
            start: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            digest_every: DIGEST_EVERY,
            ..replication::Config::new(cluster.group, ReplicaId(id), replicas)
        };
        let shut = Arc::<Shut>::default();
        let (mut act, ends) = wires(id, cluster, Arc::clone(&shut));
        let genesis = Genesis::of(&exchange).bytes().to_vec();
        let begun =
            checkpoints::begin(begin, (dir, &config.memory), &exchange, &genesis, &mut journal)?;
        let Begun { root, reguard, position, files } = begun;
        let restored = root.engine().applied();
        let parts = (clock.reading(), reguard);
        let mut member = Member::open_behind(position, root, group, genesis, &mut journal, parts)
            .map_err(|error| on(dir, error))?;
        member.take_snapshots_every(config.journal.snapshot_every);
        let (cost, job) = (Arc::new(Cost::default()), ends.job);
        if files.is_some() {
            let placing = job.clone();
            // Nobody takes it only when all is over.
            let send = move |taken| drop(placing.send(Job::Place(taken)));
            let keep = checkpoints::keep(&cost, send);
            member.write_checkpoints_every(config.journal.checkpoint_every, keep);
        }
        let recovered = member.role().as_root().map_or(0, |root| root.engine().applied());
        let habits = LoopConfig {
            wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
            ..LoopConfig::default()
        };
        let mut directory = cluster.directory()?;
        let mut channels = vec![(Channel::OVERLAY, overlay), (Channel::FEED, feed)];
        if let Some((socket, others)) = shards {
            directory = directory.with_channel(Channel::SHARDS, others);
            channels.push((Channel::SHARDS, socket));
        }
        let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
        of.add_node(ExchangeConfig::ROOT, Role::Member(Box::new(member)), channels, None)
            .map_err(io)?;
        of.after_each_call(move |role| {
            if let Some(member) = role.as_member_mut() {
                member.take_actions().for_each(&mut act);
            }
        });
        let Ends { jobs, posts, leading, trouble, .. } = ends;
        let cluster = cluster.clone();
        Ok(Host {
            id,
            of,
            journal,
            job,
            jobs,
            posts,
            leading,
            trouble,
            link,
            claims,
            places,
            credentials,
            limits: Limits::FAIR,
            cluster,
            files,
            cost,
            dir: dir.to_path_buf(),
            alarms: Alarms::default(),
            shut,
            core: None,
            recovered,
            restored,
        })
    }

    /// The root as it was recovered.
    pub fn root(&self) -> Option<&exchange::Root> {
        self.of.nodes().find_map(|(_, role)| role.as_root())
    }

    /// Files of its log that the start did not read: their records are held by its checkpoint.
    pub fn unread(&self) -> usize {
        self.journal.unread()
    }

    /// Its loop, for whoever steers it, counts for it or takes its traces.
    pub fn event_loop(&mut self) -> &mut Loop<Role> {
        &mut self.of
    }

    /// Who is in the group, as far as its journal knew that to be committed.
    pub fn members(&self) -> Option<&replication::Membership> {
        let member = self.of.nodes().find_map(|(_, role)| role.as_member());
        member.map(|member| member.replica().membership())
    }

    /// Its alarms.
    pub fn alarms(&self) -> Alarms {
        self.alarms.clone()
    }

    /// Raises alarms with these from now on.
    pub fn use_alarms(&mut self, alarms: &Alarms) {
        self.alarms = alarms.clone();
    }

    /// The way to its loop.
    pub fn handle(&self) -> LoopHandle<Role> {
        self.of.handle()
    }

    /// For whoever asks how it stands.
    pub fn status(&self) -> StatusHandle {
        let (id, restored, cost) = (self.id, self.restored, Arc::clone(&self.cost));
        StatusHandle { id, restored, cost, root: self.handle() }
    }

    /// Its loop has a core to itself and never sleeps there; `node` is the name of the machine.
    pub fn use_core(&mut self, node: &str, core: u16) {
        self.of.set_wait(crate::core::own().wait);
        self.core = Some((node.to_string(), core));
    }

    /// Where its neighbours are, for whoever hears that they have moved.
    pub fn places(&self) -> Places {
        self.places.clone()
    }

    /// Gives places at its door to the first who come, for a drill to show what that does.
    pub fn first_come(&mut self) {
        self.limits = Limits::FIRST_COME;
    }

    /// Runs until `stop`, or until the replica can't go on; gives its role back.
    ///
    /// # Errors
    /// A damaged disk, a divergence.
    pub fn run(self, stop: &AtomicBool) -> Result<Role, Failure> {
        self.run_watched(stop, |_| {})
    }

    /// As [`Host::run`]; `watch` sees the member every 20 ms.
    ///
    /// # Errors
    /// As there.
    pub fn run_watched(self, stop: &AtomicBool, watch: impl Fn(&Role)) -> Result<Role, Failure> {
        let Host { id, of, journal, jobs, posts, leading, trouble, link, claims, .. } = self;
        let (cluster, files, cost) = (self.cluster, self.files, self.cost);
        let (dir, alarms, places, job) = (self.dir, self.alarms, self.places, self.job);
        let core = self.core;
        let root = of.handle();
        let health = Health::new(&alarms, &format!("replica-{id}-journal"));
        let Some(credentials) = self.credentials else {
            return Err(Failure::Run("a replica that has ended does not run".to_string()));
        };
        let (key, known, refused) = (cluster.key(LINKS)?, cluster.machines(), Arc::default());
        let gate = &Gate { key, own: id.into(), known, limits: self.limits, refused };
        let (tls, group) = (credentials.door()?, cluster.group);
        let own = cluster.place(id).map_or(ANYWHERE.ip(), |own| own.link.ip());
        let ways = posts.into_iter().filter_map(|(to, messages)| {
            let (at, key) = (places.link(to.0)?.clone(), cluster.key(LINKS));
            let key = key.map(|key| gate::key_of(&key, id.into()));
            let way = key.and_then(|key| {
                Ok(Way { to: (at, to.0), own: id, from: own, key, tls: credentials.to(to.0)? })
            });
            Some(way.map(|way| (way, messages)))
        });
        let ways = ways.collect::<Result<Vec<_>, _>>()?;
        let failed = |why: String| {
            if let Ok(mut trouble) = trouble.lock() {
                trouble.get_or_insert(why);
            }
            stop.store(true, Ordering::Relaxed);
        };
        let nodes = thread::scope(|scope| {
            scope.spawn(|| claims::tell(&claims, &places, id - 1, &leading, stop));
            for (way, messages) in ways {
                scope.spawn(move || links::send(&way, &messages, stop));
            }
            let inbound = root.clone();
            // A loop with too much to do is waited for, and then the other side waits, too.
            let shut = self.shut;
            let inbound = move |from: u8, message: Vec<u8>| {
                if shut.is(ReplicaId(from)) {
                    return;
                }
                writer::tell(&inbound, move |member, now, out| {
                    member.handle_message(now, &message, out);
                });
            };
            scope.spawn(|| {
                if let Err(error) = links::receive((gate, &link), (&tls, group), stop, inbound) {
                    failed(format!("streams of other replicas: {error}"));
                }
            });
            let disk = root.clone();
            let health = &health;
            let failed = &failed;
            let (placed, checkpoints) = channel();
            if let Some(files) = &files {
                let cost = &cost;
                scope.spawn(move || checkpoints::serve(files, &checkpoints, cost));
            }
            scope.spawn(move || {
                let watched = (stop, health);
                if let Err(error) = writer::serve(journal, &jobs, &disk, &placed, watched) {
                    health.failed(&error);
                    failed(format!("the journal: {}", advice(&error)));
                }
            });
            let told = AtomicU64::new(0);
            let look = |of: &Loop<Role>| {
                // A slow disk is told of; the group does without it meanwhile.
                health.look();
                let member = of.nodes().find_map(|(_, role)| role.as_member());
                // Its writes are before that in the queue. Without it a quiet group's last commits
                // would be on no disk.
                let applied = member.map_or(0, |member| member.replica().applied());
                if told.swap(applied, Ordering::Relaxed) < applied {
                    // Nobody does it only when all is over.
                    let _ = job.send(Job::Commit(applied));
                }
                of.nodes().for_each(|(_, role)| watch(role));
                alarm(&alarms, id, member.and_then(|member| member.replica().waits()));
                if let Some(why) = member.and_then(Member::stopped) {
                    failed(why.to_string());
                }
                let root = member.and_then(|member| member.role().as_root());
                if files.is_some() && root.is_some_and(|r| r.private().counters().unreadable > 0) {
                    Files::give_up(&dir);
                    failed(checkpoints::DAMAGED.to_string());
                }
            };
            // Last of all: threads that are begun from here on would share the core.
            let taken = core.map_or(Ok(()), |(node, core)| crate::core::take(&node, core));
            let nodes = match &taken {
                Ok(()) => of.run(stop, OBSERVE_EVERY, |of, _| look(of)),
                Err(_) => Ok(Vec::new()),
            };
            stop.store(true, Ordering::Relaxed);
            if let Err(refused) = taken {
                failed(refused.to_string());
            }
            nodes.map(|nodes| nodes.into_iter().map(|(_, role)| role).next())
        });
        if let Some(why) = trouble.lock().ok().and_then(|mut trouble| trouble.take()) {
            return Err(Failure::Run(format!("replica {id}: {why}")));
        }
        nodes.map_err(io)?.ok_or_else(|| Failure::Run("the replica's loop lost it".to_string()))
    }
}

/// Tells operators of a disk that may lack what was acknowledged, and that this is over.
fn alarm(alarms: &Alarms, id: u8, waits: Option<Waits>) {
    let key = format!("replica-{id}-doubt");
    match waits {
        Some(Waits::Asks { .. }) => {}
        Some(waits) => alarms.raise(&key, format!("replica {id}: {waits}")),
        None => alarms.clear(&key, format!("replica {id} has again what it had")),
    }
}

fn open_journal(
    folder: Folder,
    dir: &Path,
    settings: &journal::Config,
) -> Result<Journal<Folder>, Failure> {
    let opened = Journal::open(folder, settings).map_err(|error| {
        match (&error, on(dir, advice(&error))) {
            (JournalError::Server { .. }, Failure::Run(why)) => Failure::Usage(why),
            (_, failure) => failure,
        }
    })?;
    Ok(opened.0)
}

/// What a replica's journal complains of, and what to do.
fn advice(error: &JournalError) -> String {
    crate::journal::advice(Some(LABEL), error)
}

/// Inputs on the disk of a replica whose group has ended, in order: those of its newest snapshot,
/// then those of the log behind it. Few of them are in memory at a time.
pub struct DiskInputs {
    journal: Journal<Folder>,
    /// The newest snapshot, and the byte of it to go on with.
    snapshot: Option<(u64, u64)>,
    /// Positions of the log to read.
    next: u64,
    last: u64,
    batch: VecDeque<Input>,
    /// Why it ended before the last.
    pub failed: Option<String>,
}

/// Inputs, or positions, read at a time.
const BATCH: u64 = 4_096;

impl DiskInputs {
    /// Those in a folder, of a group.
    ///
    /// # Errors
    /// A damaged journal, or another group's.
    pub fn open(dir: &Path, group: u64) -> Result<DiskInputs, Failure> {
        let folder = crate::config::Journal::default().folder(dir)?;
        // Whoever compares disks makes nothing committed by that.
        let settings = journal::Config { alone: false, ..journal::Config::new(group, LABEL) };
        let mut journal = open_journal(folder, dir, &settings)?;
        let (mut snapshot, mut next) = (None, journal.first());
        if let Some(info) = replication::kept(&journal).snapshot {
            let head = journal.read_snapshot_part(info.position, 0, BATCH as usize);
            let head = head.map_err(|error| on(dir, error))?;
            let from = exchange::compacted_from(&head)
                .ok_or_else(|| on(dir, format!("the snapshot at {} is none", info.position)))?;
            (snapshot, next) = (Some((info.position, from)), info.position + 1);
        }
        let last = journal.durable();
        Ok(DiskInputs { journal, snapshot, next, last, batch: VecDeque::new(), failed: None })
    }

    fn read(&mut self) -> Result<(), JournalError> {
        if let Some((position, at)) = self.snapshot {
            let most = BATCH as usize * size_of::<Input>();
            let part = self.journal.read_snapshot_part(position, at, most)?;
            self.batch.extend(part.chunks(size_of::<Input>()).filter_map(input_of));
            self.snapshot = Some((position, at + part.len() as u64)).filter(|_| !part.is_empty());
            return Ok(());
        }
        let (from, to) = (self.next, self.last.min(self.next.saturating_add(BATCH - 1)));
        self.next = to + 1;
        // Leaders begin with an empty record, and the group with its genesis.
        let batch = &mut self.batch;
        self.journal.read(from, to, |record| batch.extend(input_of(record.bytes)))
    }
}

impl Iterator for DiskInputs {
    type Item = Input;

    fn next(&mut self) -> Option<Input> {
        while self.batch.is_empty()
            && self.failed.is_none()
            && (self.snapshot.is_some() || self.next <= self.last)
        {
            self.failed = self.read().err().map(|error| error.to_string());
        }
        self.batch.pop_front()
    }
}
