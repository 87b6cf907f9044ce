//! One machine of a venue: everything that `cluster.toml` gives a name.
//!
//! A machine that is no root asks the group for its keys first, waits until its clock has a bound, and
//! then runs its proxies and edges (`super::overlay`). A root runs its replica and the door of the others.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use ::overlay::sealed_link::Fleet;
use exchange::{Role, Secret};
use net::{Directory, LeaderEndpoint, LoopConfig, LoopHandle, ServerTls};
use types::{Channel, Nanos, NodeId, ShardId};

use super::client::Identity;
use super::clock::{ClockHandle, NodeClock};
use super::connection::Connection;
use super::credentials::{Credentials, RootSecret};
use super::file::{ClusterFile, NodeEntry, Port, venue_digest};
use super::keys::Own;
use super::messages::{Health, Keys};
use super::names::{self, Neighbours};
use super::overlay;
use super::plan::agent::Prober;
use super::server::{Issuing, Server, Venue};
use super::subscriptions;
use super::terms::Terms;
use super::traces::{Sampled, Traces};
use crate::admin::door::Door;
use crate::alarms::Alarms;
use crate::clock_agent::Wrong;
use crate::config::Config;
use crate::failure::Failure;
use crate::feed_ring;
use crate::journal::reader;
use crate::nodes::{self, EdgeEnds};
use crate::replica::checkpoints::Begin;
use crate::replica::claims::Groups;
use crate::replica::cluster::Cluster;
use crate::replica::gate::Limits;
use crate::replica::line::RootLine;
use crate::replica::node::{Host, Sockets};
use crate::sockets;
use crate::telemetry::Telemetry;

/// Between two looks whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a root that was just started waits for its clock: without the one that all follow there is none.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// Alarms of a machine that its roots are told of at most.
const ALARMS_MAX: usize = 8;

/// What a machine is started with.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Its name in the cluster file.
    pub name: String,
    /// Folder of its journal, log and traces.
    pub dir: PathBuf,
    /// Folder of its keys.
    pub keys: PathBuf,
    /// On trial: how wrong its free-running clock is.
    pub wrong: Wrong,
    /// On trial: set when that clock is to jump ahead by so much, us.
    pub jump: Option<(Arc<AtomicBool>, u64)>,
    /// On trial: other roots, by number, whose streams are reached elsewhere than the file says.
    pub links: Vec<(u8, SocketAddr)>,
    /// On trial: places at a root's doors go to the first who come.
    pub first_come: bool,
    /// Write each datagram's release to `traces.bin` in its folder.
    pub traces: bool,
    /// Its alarms, those of whatever else its process does among them.
    pub alarms: Alarms,
    /// Who tells others' tools of its nodes, if anybody.
    pub telemetry: Option<Telemetry>,
}

/// Where a root with this folder has its journal.
pub fn journal_dir(dir: &Path) -> PathBuf {
    dir.join(reader::OF_NODE)
}

/// A shard of the venue, as a machine has it.
pub(super) struct Part {
    /// The file as this shard has it.
    pub file: ClusterFile,
    /// The venue's settings, read for it.
    pub config: Config,
    /// Its overlay nodes but the root, wherever they are.
    pub overlay: Vec<(NodeId, u16, Port)>,
    /// The epoch of its keys that the machine's overlay nodes seal with, or where there are none its root.
    pub epoch: AtomicU32,
}

impl Part {
    /// The shards of a file, in order.
    fn all(file: &ClusterFile) -> Result<Vec<Part>, Failure> {
        let of = |file: ClusterFile| {
            let config = file.venue()?;
            let overlay = file.overlay(&config)?;
            // None yet.
            Ok(Part { file, config, overlay, epoch: AtomicU32::new(u32::MAX) })
        };
        file.all_shards().map(of).collect()
    }

    /// Its overlay nodes on a machine, and their ports.
    pub fn own(&self, number: u16) -> impl Iterator<Item = (NodeId, Port)> + '_ {
        let here = self.overlay.iter().filter(move |(_, machine, _)| *machine == number);
        here.map(|(node, _, port)| (*node, *port))
    }

    /// Whether a machine has anything of it.
    fn concerns(&self, number: u16) -> bool {
        self.own(number).next().is_some() || self.file.replica(number).is_some()
    }
}

/// A root that the others' door gives other keys.
struct RootKeys<'a> {
    clock: &'a ClockHandle,
    of: LoopHandle<Role>,
    epoch: &'a AtomicU32,
}

impl RootKeys<'_> {
    /// It, and the clock agent beside it, seal with other keys from now on.
    fn rekey(&self, keys: &Keys) -> Result<(), Failure> {
        if let Some(ring) = &keys.clock {
            self.clock.rekey(ring)?;
        }
        for ring in &keys.rings {
            let Own { node, ring, life } = ring.read()?;
            let call = self.of.call(node, move |role: &mut Role, now, _| {
                role.rekey(now, ring, life);
            });
            call.map_err(|error| Failure::Run(format!("keys: {error}")))?;
        }
        self.epoch.store(keys.epoch, Ordering::Relaxed);
        Ok(())
    }
}

/// A machine as its file, settings and keys have it.
pub(super) struct Machine<'a> {
    /// As the first shard has it.
    pub file: &'a ClusterFile,
    pub options: &'a NodeOptions,
    pub number: u16,
    pub entry: &'a NodeEntry,
    pub config: Config,
    pub credentials: Credentials,
    /// The nodes of any shard: their trees have the same shape.
    pub fleet: Fleet,
    /// By shard.
    pub parts: Vec<Part>,
    pub alarms: Alarms,
    /// By shard.
    pub sampled: Arc<[Sampled]>,
    /// Who says here which root leads.
    pub leaders: Groups,
}

/// Runs a machine until `stop`, the group's refusal, or until it can't go on; `told` hears lines about it.
///
/// # Errors
/// What is wrong with its file, settings, keys or sockets; [`Failure::Refused`].
pub fn run(
    file: &ClusterFile,
    options: &NodeOptions,
    stop: &AtomicBool,
    told: impl Fn(&str) + Sync,
) -> Result<(), Failure> {
    let file = &file.of_shard(ShardId(0));
    let (number, entry) = file.node(&options.name)?;
    file.check_ways(entry)?;
    let config = file.venue()?;
    crate::files::folder(&options.dir)?;
    let credentials = Credentials::read(file, &options.keys, &options.name)?;
    let parts = Part::all(file)?;
    let every = config.hold.observe_every;
    let machine = Machine {
        file,
        options,
        number,
        entry,
        fleet: Fleet::of(&crate::deployment::topology(&config)?),
        config,
        credentials,
        sampled: parts.iter().map(|_| Sampled::new(every)).collect(),
        parts,
        alarms: options.alarms.clone(),
        leaders: Groups::default(),
    };
    let clock = NodeClock::new(file, &machine.config, number, options.wrong)?;
    let handle = clock.handle();
    // The first shard's roots keep the clocks of all.
    let concerned = |(at, part): &(usize, &Part)| *at == 0 || part.concerns(number);
    let identity = |(at, part): (usize, &Part)| {
        let who = (&options.name[..], number);
        let own = machine.credentials.clone();
        Ok((at, Identity::new(&part.file, &part.config, own, who)?))
    };
    let parts = machine.parts.iter().enumerate().filter(concerned);
    let identities = parts.map(identity).collect::<Result<Vec<_>, Failure>>()?;
    let shards = identities.iter().map(|(at, _)| *at).collect::<Vec<_>>();
    let claims = machine.hears_claims().then(|| machine.bind(Port::Claims)).transpose()?;
    let (health, over) = (Mutex::new(None::<Health>), AtomicBool::new(false));
    let (trouble, probes_for) = (Mutex::new(String::new()), AtomicU16::new(0));
    let (sender, messages) = channel();
    let (prober, probing) = Prober::new(file, (number, entry), handle.clock)?;
    thread::scope(|scope| {
        let (machine, told, over, handle, health) = (&machine, &told, &over, &handle, &health);
        let (trouble, prober, probes_for) = (&trouble, &prober, &probes_for);
        scope.spawn(move || prober.run(probing, over));
        scope.spawn(move || machine.alarms.tell(over, told));
        scope.spawn(move || machine.jump_when_told(handle, over));
        scope.spawn(move || handle.find(machine.file, number, over));
        if let Some(claims) = claims {
            scope.spawn(move || machine.leaders.hear(&claims, over));
        }
        clock.run(scope, over);
        // Whichever ends first ends the others.
        let ended = move |outcome| {
            stop.store(true, Ordering::Relaxed);
            outcome
        };
        let keep = |(at, identity): (usize, Identity)| {
            let mut connected = Connection {
                clock: handle,
                health,
                trouble,
                shard: ShardId(at as u16),
                sender: sender.clone(),
                sampled: &machine.sampled[at],
                epoch: &machine.parts[at].epoch,
                prober,
                probes_for,
                plan: None,
            };
            scope.spawn(move || ended(identity.keep(stop, &mut connected)))
        };
        let kept: Vec<_> = identities.into_iter().map(keep).collect();
        drop(sender);
        let root = entry
            .keeps_log()
            .then(|| scope.spawn(move || ended(machine.run_root(handle, health, stop, told))));
        let outcome = match machine.has_nodes() {
            true => {
                let waiting = || {
                    let why = lock(trouble).clone();
                    told(&format!("waits for a root that leads: {why}"));
                };
                let welcomes = overlay::wait_for_welcomes(&messages, &shards, stop, waiting);
                machine.run_overlay(handle, welcomes, &messages, health, stop, told)
            }
            false => machine.wait_for_drain(handle, &messages, stop, told),
        };
        stop.store(true, Ordering::Relaxed);
        let joined = |thread: Option<ScopedJoinHandle<'_, Result<(), Failure>>>| {
            thread.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(panicked())))
        };
        let kept = kept.into_iter().map(|thread| joined(Some(thread)));
        let kept = kept.fold(Ok(()), Result::and);
        let root = joined(root);
        over.store(true, Ordering::Relaxed);
        kept.and(root).and(outcome)
    })
}

impl Machine<'_> {
    /// Whether it has overlay nodes, of any shard.
    pub fn has_nodes(&self) -> bool {
        self.parts.iter().any(|part| part.own(self.number).next().is_some())
    }

    /// Whether it is to know who leads: whoever has overlay nodes, and roots of one shard those of others.
    fn hears_claims(&self) -> bool {
        self.has_nodes() || (self.parts.len() > 1 && self.entry.keeps_log())
    }

    /// The shard whose log it keeps.
    pub fn part_of_root(&self) -> Option<usize> {
        self.parts.iter().position(|part| part.file.replica(self.number).is_some())
    }

    fn jump_when_told(&self, clock: &ClockHandle, over: &AtomicBool) {
        let Some((told, us)) = &self.options.jump else { return };
        while !over.load(Ordering::Relaxed) {
            if told.swap(false, Ordering::Relaxed) {
                clock.jump(us * Nanos::MICRO);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// The group of a shard's roots.
    pub fn cluster(&self, shard: usize, secret: Secret) -> Result<Cluster, Failure> {
        let Part { file, overlay, .. } = &self.parts[shard];
        let mut cluster = Cluster::of((file, self.entry), overlay, secret, &self.options.keys)?;
        for (replica, through) in &self.options.links {
            let mut places = cluster.replicas.iter_mut().chain(&mut cluster.reserve);
            let place = usize::from(*replica).checked_sub(1).and_then(|place| places.nth(place));
            let place = place.ok_or_else(|| Failure::Usage(format!("no root {replica}")))?;
            place.link = *through;
        }
        Ok(cluster)
    }

    /// Alarms that stand here, in a line each.
    pub fn standing(&self) -> Vec<String> {
        let all = self.alarms.standing().into_iter().take(ALARMS_MAX);
        all.map(|alarm| format!("{}: {}", alarm.key, alarm.text)).collect()
    }

    pub fn bind(&self, port: Port) -> Result<UdpSocket, Failure> {
        bind(self.file, self.entry, port)
    }

    pub fn listen(&self, port: Port) -> Result<TcpListener, Failure> {
        listen(self.file, self.entry, port)
    }

    /// Where a root finds those of the venue's other shards, by shard; none where there are no others.
    fn between(
        &self,
        own: usize,
        secret: &RootSecret,
    ) -> Result<Vec<(usize, LeaderEndpoint)>, Failure> {
        let mut all = Vec::new();
        for at in (0..self.parts.len()).filter(|at| *at != own) {
            let leader = LeaderEndpoint::new(NodeId(at as u16), &self.roots_of(at)?);
            let leader =
                leader.ok_or_else(|| Failure::Usage("a shard without roots".to_string()))?;
            let cluster = self.cluster(at, secret.epoch(0)?)?;
            self.leaders.add(cluster.claim_key(usize::from(self.number) - 1)?, leader.clone());
            all.push((at, leader));
        }
        Ok(all)
    }

    /// Where the roots of a shard hear those of others.
    fn roots_of(&self, shard: usize) -> Result<Vec<SocketAddr>, Failure> {
        let file = &self.parts[shard].file;
        let places =
            file.replicated().map(|(_, node)| file.between(self.entry, node, Port::Shards));
        places.collect()
    }

    /// Where a root finds all others, once some have moved: its own shard's nodes, and other shards' roots.
    fn moved(
        &self,
        cluster: &Cluster,
        others: &[(usize, LeaderEndpoint)],
    ) -> Result<Directory, Failure> {
        let own = cluster.directory()?;
        if others.is_empty() {
            return Ok(own);
        }
        let mut all = Vec::new();
        for (at, leader) in others {
            all.extend(leader.moved(&self.roots_of(*at)?));
        }
        Ok(own.with_channel(Channel::SHARDS, with_leaders(all)?))
    }

    pub fn habits(&self) -> LoopConfig {
        let usual = self.entry.core.map_or(crate::core::shared(), |_| crate::core::own());
        nodes::habits(&self.config, usual)
    }

    /// Runs the replica of the root that this machine is, with a vote or, as a learner, without.
    fn run_root(
        &self,
        clock: &ClockHandle,
        health: &Mutex<Option<Health>>,
        stop: &AtomicBool,
        told: &(impl Fn(&str) + Sync),
    ) -> Result<(), Failure> {
        let secret = RootSecret::read(&self.options.keys)?;
        let none = || Failure::Run("no replica".to_string());
        let shard = self.part_of_root().ok_or_else(none)?;
        let Part { file, config, overlay, epoch } = &self.parts[shard];
        let id = file.replica(self.number).ok_or_else(none)?;
        // The root seals with the first epoch's keys until it knows of a later one.
        let cluster = self.cluster(shard, secret.epoch(0)?)?;
        let venue = Venue {
            file: file.clone(),
            digest: venue_digest(file, config)?,
            overlay: overlay.clone(),
            fleet: self.fleet.clone(),
            // Those of the first shard say whose clock all follow.
            keeps_clocks: config.clock.source == "huygens" && shard == 0,
            accounts: crate::deployment::names(config),
        };
        let dir = journal_dir(&self.options.dir);
        crate::files::folder(&dir)?;
        let mut neighbours = Neighbours::of(self)?;
        let others = self.between(shard, &secret)?;
        let sockets = Sockets {
            overlay: self.bind(Port::Root)?,
            feed: self.bind(Port::Retransmission)?,
            link: self.listen(Port::Link)?,
            shards: match others.is_empty() {
                true => None,
                false => {
                    let leaders = others.iter().map(|(_, leader)| leader.clone());
                    Some((self.bind(Port::Shards)?, with_leaders(leaders)?))
                }
            },
        };
        let door = self.listen(Port::Control)?;
        let limits = if self.options.first_come { Limits::FIRST_COME } else { Limits::FAIR };
        let (tls, issuing) = Issuing::open(&cluster, id, &self.credentials)?;
        let which = (config, &cluster);
        let mut host = Host::with(sockets, which, (id, &dir), clock.clock, Begin::Checkpoint)?;
        host.use_alarms(&self.alarms);
        if let Some(core) = self.entry.root_core {
            host.use_core(&self.entry.name, core);
        }
        if self.options.first_come {
            told("strangers can keep others from its doors (--first-come)");
            host.first_come();
        }
        told(&format!(
            "root replica {id}: {} inputs recovered, {} of them by a checkpoint; {} files of its log are \
             read from now on",
            host.recovered,
            host.restored,
            host.unread()
        ));
        nodes::use_planes(host.event_loop(), &self.entry.data_planes(config), told)?;
        let handle = host.handle();
        let line = RootLine::one_of(cluster.places().count() as u8, handle.clone());
        let claim = |place| cluster.claim_secret(place);
        let secrets = (0..self.file.nodes.len()).map(claim).collect::<Result<Vec<_>, _>>()?;
        let (admin, actions) = Door::open(config, &self.options.dir, &self.alarms)?;
        let steered = (line.clone(), handle.clone());
        let answers = (line, host.status());
        let server = Server::new(venue, secret.clone(), secrets, answers, self.alarms.clone());
        let server = server.shutting(&host.shut).with_issuing(issuing);
        let told_by = (&self.sampled, ShardId(shard as u16));
        let traces = Traces::open(self.options, told_by, host.event_loop())?;
        let telemetry = self.options.telemetry.as_ref();
        let figures = telemetry.map(|of| {
            of.record_orders(host.event_loop(), "orders");
            of.place("root", shard as u16, host.handle())
        });
        let recovered = host.root().map_or(0, |root| root.engine().nodes().key_epoch());
        let root_epoch = AtomicU32::new(recovered);
        let keyed = RootKeys { clock, of: handle, epoch: &root_epoch };
        keyed.rekey(&server.own_keys(self.number, recovered)?)?;
        let (over, halt) = (&AtomicBool::new(false), &AtomicBool::new(false));
        thread::scope(|scope| {
            let server = &server;
            scope.spawn(move || {
                server.wait_to_retire(id, stop, over).into_iter().for_each(|line| told(&line));
                halt.store(true, Ordering::Relaxed);
            });
            scope.spawn(move || traces.map_or(Ok(()), Traces::pass_on));
            scope.spawn(move || server.watch(over));
            if let Some(telemetry) = telemetry {
                scope.spawn(move || server.tell_fairness(telemetry, over));
            }
            scope.spawn(move || server.keep_planned(over));
            scope.spawn(move || server.keep_scaled(over));
            let (places, root) = (host.places(), host.handle());
            scope.spawn(move || {
                let set = |clusters: &[Cluster]| {
                    let Some(cluster) = clusters.get(shard) else { return Ok(()) };
                    places.set(cluster)?;
                    let set = root.set_directory(self.moved(cluster, &others)?);
                    set.map_err(|error| Failure::Run(error.to_string()))
                };
                names::watch(self.file, over, || {
                    if neighbours.look(self, set) {
                        told(names::MOVED);
                    }
                });
            });
            // Gateways are on machines of their own: what is asked of them is not to be had here.
            scope.spawn(move || admin.serve(config, steered, Vec::new(), over));
            scope.spawn(move || actions.iter().for_each(|line| told(&line)));
            let serving = scope.spawn(move || server.serve(id, (&door, limits), &tls, over));
            let number = self.number;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let known = keyed.epoch.load(Ordering::Relaxed);
                    if let Some(newest) = server.key_epoch().filter(|newest| *newest != known) {
                        // What fails is tried again.
                        let keys = server.own_keys(number, newest);
                        let _ = keys.and_then(|keys| keyed.rekey(&keys));
                    }
                    thread::sleep(LOOK_EVERY);
                }
            });
            let has_others = self.has_nodes();
            let terms = Mutex::new(Terms::default());
            let watch = |role: &Role| {
                if let Some(member) = role.as_member() {
                    let stands = (member.replica().standing().term, member.leading().is_some());
                    let line = lock(&terms).look(Instant::now(), stands, &self.alarms);
                    line.into_iter().for_each(|line| told(&line));
                }
                if let Some(figures) = &figures {
                    figures.look_at_replica(id, role, clock.clock.reading());
                }
                // Where there are others on the machine they say how it is.
                if !has_others {
                    let roles = std::iter::once(role);
                    epoch.store(root_epoch.load(Ordering::Relaxed), Ordering::Relaxed);
                    let seen = observe(roles, clock, epoch.load(Ordering::Relaxed));
                    *lock(health) = Some(Health { alarms: self.standing(), ..seen });
                }
            };
            // One that leads before it knows the time has everybody hold its feed for as long as it may be wrong.
            clock.settle_within(SETTLE_MAX, stop);
            let outcome = host.run_watched(halt, watch).map(drop);
            over.store(true, Ordering::Relaxed);
            let served = serving.join().unwrap_or(Ok(()));
            outcome.and(served)
        })
    }
}

fn with_leaders(leaders: impl IntoIterator<Item = LeaderEndpoint>) -> Result<Directory, Failure> {
    let wrong = |error: net::DuplicateEntry| Failure::Usage(error.to_string());
    let add = |all: Directory, leader| all.with_leader(leader).map_err(wrong);
    leaders.into_iter().try_fold(Directory::default(), add)
}

/// Binds a UDP port of a machine.
///
/// # Errors
/// The kernel's, with the address.
pub fn bind(file: &ClusterFile, node: &NodeEntry, port: Port) -> Result<UdpSocket, Failure> {
    let at = file.bound(node, port);
    sockets::udp(at).map_err(|error| unbound(node, ("UDP", at, port), &error))
}

pub(super) fn listen(
    file: &ClusterFile,
    node: &NodeEntry,
    port: Port,
) -> Result<TcpListener, Failure> {
    let at = file.bound(node, port);
    sockets::listener(at).map_err(|error| unbound(node, ("TCP", at, port), &error))
}

/// Which port of a machine can't be had, and why.
fn unbound(
    node: &NodeEntry,
    (kind, at, port): (&str, SocketAddr, Port),
    error: &std::io::Error,
) -> Failure {
    let hint = match error.kind() {
        ErrorKind::AddrInUse => format!("; does {} run already, or another program?", node.name),
        _ => String::new(),
    };
    Failure::Run(format!("{kind} {at} ({port:?}): {error}{hint}"))
}

/// What the edge of a machine has, with its sockets bound.
///
/// # Errors
/// Addresses in use; groups without an address of the machine's own.
pub fn edge_ends(
    (file, node, config): (&ClusterFile, &NodeEntry, &Config),
    tls: Option<ServerTls>,
) -> Result<EdgeEnds, Failure> {
    let release = bind(file, node, Port::Release)?;
    subscriptions::confine(file, node, &release)?;
    let door = |port| listen(file, node, port);
    let group = node.ring_group.as_deref();
    let ring = node.ring.as_ref().map(|folder| feed_ring::create(folder, &node.name, group));
    Ok(EdgeEnds {
        release,
        doors: [door(Port::Ouch)?, door(Port::Fix)?, door(Port::Subscriptions)?],
        tls,
        terms: subscriptions::terms(file, config, node)?,
        shards: Vec::new(),
        subscribers: node.subscribers.iter().map(|to| net::peer_addr(*to)).collect(),
        ring: ring.transpose()?,
    })
}

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn panicked() -> Failure {
    Failure::Run("a thread of the node panicked".to_string())
}

/// How nodes are.
pub(super) fn observe<'a>(
    roles: impl Iterator<Item = &'a Role>,
    clock: &ClockHandle,
    key_epoch: u32,
) -> Health {
    let (monotonic_ns, reading) = clock.look();
    let mut health = Health {
        monotonic_ns,
        clock_now_ns: reading.now.0,
        clock_bound_ns: reading.bound_ns,
        key_epoch,
        ..Health::default()
    };
    for role in roles {
        if let Some(link) = role.link() {
            health.sealed += link.sealed;
            health.opened += link.opened;
            health.refused += link.refused();
        }
        let Some(edge) = role.as_edge() else { continue };
        health.sessions += edge.gateway().logged_on().len() as u64;
        health.requests += edge.gateway().counters().requests;
        for receiver in edge.receivers() {
            let stats = receiver.stats();
            health.released += stats.released_messages;
            health.late += stats.late_self + stats.late_blocked;
            health.quarantined |= receiver.in_quarantine(reading);
        }
    }
    health
}
