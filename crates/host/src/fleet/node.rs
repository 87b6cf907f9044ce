//! One machine of a venue: everything that `cluster.toml` gives a name.
//!
//! A machine that is no root asks the group for its keys first, waits until its clock has a bound, and
//! then runs its proxies and edges in one loop. A root runs its replica and the door of the others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use exchange::{Role, Sealed, Secret};
use net::{Directory, LeaderEndpoint, Loop, LoopConfig, LoopHandle, ServerTls};
use overlay::sealed_link::{Fleet, SealedLink};
use probe::Key;
use types::{Channel, Nanos, NodeId, Peer};

use super::client::Identity;
use super::clock::{ClockHandle, NodeClock};
use super::connection::Connection;
use super::credentials::{Credentials, RootSecret, bytes_of};
use super::file::{ClusterFile, NodeEntry, NodeRole, Port, venue_digest};
use super::keys::Own;
use super::messages::{EdgeHint, FromRoot, Health, Keys};
use super::plan::agent::Prober;
use super::server::{Issuing, Server, Venue};
use super::subscriptions;
use super::traces::{Sampled, Traces};
use crate::admin::door::Door;
use crate::alarms::Alarms;
use crate::clock_agent::Wrong;
use crate::config::Config;
use crate::failure::Failure;
use crate::feed_ring;
use crate::journal::reader;
use crate::nodes::{self, EdgeEnds, PlanesSeen};
use crate::replica::checkpoints::Begin;
use crate::replica::claims;
use crate::replica::cluster::Cluster;
use crate::replica::gate::Limits;
use crate::replica::line::RootLine;
use crate::replica::node::{Host, Sockets};
use crate::sockets::{self, io};

/// The snapshot server for its loop: no overlay node has this id.
const SNAPSHOTS: NodeId = NodeId(50_000);
/// How often a node's figures are looked at.
const OBSERVE_EVERY: Duration = Duration::from_millis(100);
/// Between two looks whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a root that was just started waits for its clock: without the one that all follow there is none.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// Between two words that the group is waited for.
const REMIND_EVERY: Duration = Duration::from_secs(5);
/// Longest answer of the loop.
const ANSWER: Duration = Duration::from_millis(500);
/// Alarms of a machine that its roots are told of at most.
const ALARMS_MAX: usize = 8;
/// How long sessions that are told to end may take.
const DRAIN_MAX: Duration = Duration::from_secs(10);

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
}

/// Where a root with this folder has its journal.
pub fn journal_dir(dir: &Path) -> PathBuf {
    dir.join(reader::OF_NODE)
}

/// A machine as its file, settings and keys have it.
struct Machine<'a> {
    file: &'a ClusterFile,
    options: &'a NodeOptions,
    number: u16,
    entry: &'a NodeEntry,
    config: Config,
    credentials: Credentials,
    fleet: Fleet,
    overlay: Vec<(NodeId, u16, Port)>,
    alarms: Alarms,
    sampled: Arc<Sampled>,
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
    let (number, entry) = file.node(&options.name)?;
    file.check_ways(entry)?;
    let config = file.venue()?;
    crate::files::folder(&options.dir)?;
    let credentials = Credentials::read(file, &options.keys, &options.name)?;
    let overlay = file.overlay(&config)?;
    let every = config.hold.observe_every;
    let machine = Machine {
        file,
        options,
        number,
        entry,
        fleet: Fleet::of(&crate::deployment::topology(&config)?),
        config,
        credentials,
        overlay,
        alarms: options.alarms.clone(),
        sampled: Arc::new(Sampled::new(every)),
    };
    let clock = NodeClock::new(file, &machine.config, number, options.wrong)?;
    let handle = clock.handle();
    let who = (&options.name[..], number);
    let identity = Identity::new(file, &machine.config, machine.credentials.clone(), who)?;
    let (health, over) = (Mutex::new(None::<Health>), AtomicBool::new(false));
    let trouble = Mutex::new(String::new());
    let (sender, messages) = channel();
    let (prober, probing) = Prober::new(file, (number, entry), handle.clock)?;
    thread::scope(|scope| {
        let (machine, told, over, handle, health) = (&machine, &told, &over, &handle, &health);
        let (trouble, sampled, prober) = (&trouble, &*machine.sampled, &prober);
        scope.spawn(move || prober.run(probing, over));
        scope.spawn(move || machine.alarms.tell(over, told));
        scope.spawn(move || machine.jump_when_told(handle, over));
        clock.run(scope, over);
        // Whichever ends first ends the others.
        let ended = move |outcome| {
            stop.store(true, Ordering::Relaxed);
            outcome
        };
        let mut connected =
            Connection { clock: handle, health, trouble, sender, sampled, prober, plan: None };
        let kept = scope.spawn(move || ended(identity.keep(stop, &mut connected)));
        let root = entry
            .keeps_log()
            .then(|| scope.spawn(move || ended(machine.run_root(handle, health, stop, told))));
        let outcome = match machine.own().next() {
            Some(_) => {
                let waiting = || {
                    let why = lock(trouble).clone();
                    told(&format!("waits for a root that leads: {why}"));
                };
                let welcome = wait_for_welcome(&messages, stop, waiting);
                machine.run_overlay(handle, welcome, &messages, health, stop, told)
            }
            None => wait_for_drain(&messages, stop, told),
        };
        stop.store(true, Ordering::Relaxed);
        let joined = |thread: Option<ScopedJoinHandle<'_, Result<(), Failure>>>| {
            thread.map_or(Ok(()), |thread| thread.join().unwrap_or_else(|_| Err(panicked())))
        };
        let (kept, root) = (joined(Some(kept)), joined(root));
        over.store(true, Ordering::Relaxed);
        kept.and(root).and(outcome)
    })
}

/// A machine that has nothing to end waits until it is to stop.
fn wait_for_drain(
    messages: &Receiver<FromRoot>,
    stop: &AtomicBool,
    told: &impl Fn(&str),
) -> Result<(), Failure> {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(FromRoot::Drain) = messages.recv_timeout(LOOK_EVERY) {
            told("is drained: stops");
            break;
        }
    }
    Ok(())
}

/// Looped nodes that others may give other keys.
struct Keyed<'a> {
    clock: &'a ClockHandle,
    of: LoopHandle<Role>,
    epoch: &'a AtomicU32,
}

impl Keyed<'_> {
    /// Takes keys, unless they are those that are in use: a life is lived once.
    fn take(&self, keys: &Keys) -> Result<(), Failure> {
        match self.epoch.load(Ordering::Relaxed) == keys.epoch {
            true => Ok(()),
            false => self.rekey(keys),
        }
    }

    /// Everything here seals with other keys from now on.
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

impl Machine<'_> {
    /// Overlay nodes on this machine, and their ports.
    fn own(&self) -> impl Iterator<Item = (NodeId, Port)> + '_ {
        let here = self.overlay.iter().filter(|(_, number, _)| *number == self.number);
        here.map(|(node, _, port)| (*node, *port))
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

    fn cluster(&self, secret: Secret) -> Result<Cluster, Failure> {
        let mut cluster =
            Cluster::of((self.file, self.entry), &self.overlay, secret, &self.options.keys)?;
        for (replica, through) in &self.options.links {
            let mut places = cluster.replicas.iter_mut().chain(&mut cluster.reserve);
            let place = usize::from(*replica).checked_sub(1).and_then(|place| places.nth(place));
            let place = place.ok_or_else(|| Failure::Usage(format!("no root {replica}")))?;
            place.link = *through;
        }
        Ok(cluster)
    }

    /// Alarms that stand here, in a line each.
    fn standing(&self) -> Vec<String> {
        let all = self.alarms.standing().into_iter().take(ALARMS_MAX);
        all.map(|alarm| format!("{}: {}", alarm.key, alarm.text)).collect()
    }

    fn bind(&self, port: Port) -> Result<UdpSocket, Failure> {
        bind(self.file, self.entry, port)
    }

    fn listen(&self, port: Port) -> Result<TcpListener, Failure> {
        listen(self.file, self.entry, port)
    }

    fn directory(&self, cluster: &Cluster, leader: &LeaderEndpoint) -> Result<Directory, Failure> {
        let directory = cluster.directory()?.with_leader(leader.clone());
        directory.map_err(|error| Failure::Usage(error.to_string()))
    }

    fn habits(&self) -> LoopConfig {
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
        let id = self.file.replica(self.number);
        let id = id.ok_or_else(|| Failure::Run("no replica".to_string()))?;
        // The root seals with the first epoch's keys until it knows of a later one.
        let cluster = self.cluster(secret.epoch(0)?)?;
        let venue = Venue {
            file: self.file.clone(),
            digest: venue_digest(self.file, &self.config)?,
            overlay: self.overlay.clone(),
            fleet: self.fleet.clone(),
            keeps_clocks: self.config.clock.source == "huygens",
            accounts: crate::deployment::names(&self.config),
        };
        let dir = journal_dir(&self.options.dir);
        crate::files::folder(&dir)?;
        let sockets = Sockets {
            overlay: self.bind(Port::Root)?,
            feed: self.bind(Port::Retransmission)?,
            link: self.listen(Port::Link)?,
        };
        let door = self.listen(Port::Control)?;
        let limits = if self.options.first_come { Limits::FIRST_COME } else { Limits::FAIR };
        let (tls, issuing) = Issuing::open(&cluster, id, &self.credentials)?;
        let which = (&self.config, &cluster);
        let mut host = Host::with(sockets, which, (id, &dir), clock.clock, Begin::Checkpoint)?;
        host.use_alarms(&self.alarms);
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
        nodes::use_planes(host.event_loop(), &self.entry.data_planes(&self.config), told)?;
        let handle = host.handle();
        let line = RootLine::one_of(cluster.places().count() as u8, handle.clone());
        let claim = |place| cluster.claim_secret(place);
        let secrets = (0..self.file.nodes.len()).map(claim).collect::<Result<Vec<_>, _>>()?;
        let (admin, actions) = Door::open(&self.config, &self.options.dir, &self.alarms)?;
        let steered = (line.clone(), handle.clone());
        let answers = (line, host.status());
        let server = Server::new(venue, secret.clone(), secrets, answers, self.alarms.clone());
        let server = server.shutting(&host.shut).with_issuing(issuing);
        let traces = Traces::open(self.options, &self.sampled, host.event_loop())?;
        let recovered = host.root().map_or(0, |root| root.engine().nodes().key_epoch());
        let epoch = AtomicU32::new(recovered);
        let keyed = Keyed { clock, of: handle, epoch: &epoch };
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
            scope.spawn(move || server.keep_planned(over));
            // Gateways are on machines of their own: what is asked of them is not to be had here.
            scope.spawn(move || admin.serve(&self.config, steered, Vec::new(), over));
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
            let has_others = self.own().next().is_some();
            let watch = |role: &Role| {
                // Where there are others on the machine they say how it is.
                if !has_others {
                    let roles = std::iter::once(role);
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

    /// Let in by the group, runs the proxies and edges of this machine.
    fn run_overlay(
        &self,
        clock: &ClockHandle,
        welcome: Option<Welcome>,
        messages: &Receiver<FromRoot>,
        health: &Mutex<Option<Health>>,
        stop: &AtomicBool,
        told: &(impl Fn(&str) + Sync),
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let Some(welcome) = welcome else { return Ok(()) };
        if let Some(ring) = &welcome.keys.clock {
            clock.rekey(ring)?;
        }
        clock.settle(stop, told);
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let cluster = self.cluster(Secret([0; 32]))?;
        let endpoint = cluster.leader()?;
        welcome.take(&endpoint);
        let directory = Arc::new(self.directory(&cluster, &endpoint)?);
        let mut of = Loop::new(clock.clock, directory, self.habits()).map_err(io)?;
        let jobs = nodes::worker(&mut of);
        self.host_nodes(&mut of, clock, &cluster, &welcome.keys)?;
        nodes::use_planes(&mut of, &self.entry.data_planes(&self.config), told)?;
        let claim_key = bytes_of(&welcome.claims).and_then(|bytes| Key::new(&bytes).ok());
        let claim_key = claim_key.ok_or_else(|| Failure::Run("claims without a key".into()))?;
        let claims = self.bind(Port::Claims)?;
        let traces = Traces::open(self.options, &self.sampled, &mut of)?;
        let (bound, handle) = (clock.clock.reading().bound_ns, of.handle());
        told(&format!("in, after {} ms; clock within {bound} ns", begun.elapsed().as_millis()));
        let epoch = AtomicU32::new(welcome.keys.epoch);
        let keyed = Keyed { clock, of: handle.clone(), epoch: &epoch };
        let (over, planes) = (&AtomicBool::new(false), &PlanesSeen::default());
        thread::scope(|scope| {
            let (endpoint, worker, epoch) = (&endpoint, handle.clone(), &epoch);
            scope.spawn(move || claims::hear(&claims, &claim_key, endpoint, over));
            scope.spawn(move || jobs.serve(&worker, crate::password::work));
            let written = scope.spawn(move || traces.map_or(Ok(()), Traces::pass_on));
            let running = scope.spawn(move || {
                let look = |of: &Loop<Role>, _| {
                    planes.look(of);
                    let roles = of.nodes().map(|(_, role)| role);
                    let seen = observe(roles, clock, epoch.load(Ordering::Relaxed));
                    *lock(health) = Some(Health { alarms: self.standing(), ..seen });
                };
                if let Some(core) = self.entry.core {
                    crate::core::take(&self.entry.name, core)?;
                }
                of.run(over, OBSERVE_EVERY, look).map(drop).map_err(io)
            });
            let mut drained = None::<Instant>;
            while !stop.load(Ordering::Relaxed) && !running.is_finished() {
                match messages.recv_timeout(LOOK_EVERY) {
                    Ok(FromRoot::Welcome { keys, leader, term, .. }) => {
                        let _ = endpoint.take(term, usize::from(leader).saturating_sub(1));
                        keyed.take(&keys)?;
                    }
                    Ok(FromRoot::Keys(keys)) => keyed.take(&keys)?,
                    Ok(FromRoot::Edges { age_ms, edges }) => {
                        self.tell_edges(&handle, age_ms, &edges);
                    }
                    Ok(FromRoot::Drain) if drained.is_none() => {
                        drained = Some(Instant::now());
                        told("is drained: ends its sessions and stops");
                    }
                    _ => {}
                }
                let Some(since) = drained else { continue };
                let busy = self.end_sessions(&handle);
                if !busy || since.elapsed() > DRAIN_MAX {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            over.store(true, Ordering::Relaxed);
            let (ended, written) = (running.join(), written.join());
            planes.lines().iter().for_each(|line| told(line));
            ended.map_err(|_| panicked())??;
            written.map_err(|_| panicked())?
        })
    }

    /// Puts the machine's nodes into their loop, with sockets, doors and keys.
    fn host_nodes(
        &self,
        of: &mut Loop<Role>,
        clock: &ClockHandle,
        cluster: &Cluster,
        keys: &Keys,
    ) -> Result<(), Failure> {
        let mut exchange = crate::deployment::exchange(&self.config, &clock.clock)?;
        cluster.settle(&mut exchange);
        let life = crate::deployment::life()?;
        for (node, port) in self.own() {
            let role = exchange::overlay_node(&exchange, node, life, Peer::NOBODY);
            let mut role = role.map_err(|error| Failure::Usage(error.to_string()))?;
            if self.entry.is(NodeRole::Snapshot)
                && let Some(edge) = role.as_edge_mut()
            {
                self.host_snapshots(of, &exchange, cluster, edge)?;
            }
            let edge = role.as_edge().is_some();
            let ends = edge.then(|| {
                let of = (self.file, self.entry, &self.config);
                edge_ends(of, Some(self.door_tls()?))
            });
            let queues = exchange.options.upstream.is_some() && role.as_proxy().is_some();
            if exchange.options.secret.is_some() {
                role = self.seal(role, node, queues, keys)?;
            }
            nodes::host(of, (node, role), self.bind(port)?, ends.transpose()?)?;
        }
        Ok(())
    }

    /// Puts a snapshot server beside an edge, which hands it the feed.
    fn host_snapshots(
        &self,
        of: &mut Loop<Role>,
        exchange: &exchange::ExchangeConfig,
        cluster: &Cluster,
        edge: &mut exchange::Edge,
    ) -> Result<(), Failure> {
        let servers = cluster.retransmission().map(net::peer_addr).collect();
        let here = |port| {
            let at = self.file.bound(self.entry, port);
            let ip = match at.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                own => own,
            };
            net::peer_addr(SocketAddr::new(ip, at.port()))
        };
        let mut settings = exchange::listener(exchange, servers);
        settings.sources = Some(vec![here(Port::Release)]);
        let _ = edge.subscribe(here(Port::SnapshotFeed));
        let role = nodes::snapshot_server(&self.config, exchange, &settings);
        let sockets = vec![(Channel::FEED, self.bind(Port::SnapshotFeed)?)];
        of.add_node(SNAPSHOTS, role, sockets, [self.listen(Port::Snapshot)?]).map_err(io)
    }

    fn seal(&self, role: Role, node: NodeId, queues: bool, keys: &Keys) -> Result<Role, Failure> {
        let ring = keys.rings.iter().find(|ring| ring.node == node.0);
        let ring = ring.ok_or_else(|| Failure::Run(format!("no keys for node {}", node.0)))?;
        let Own { ring, life, .. } = ring.read()?;
        let link = SealedLink::new(node, self.fleet.clone(), life, queues, ring);
        let link = link.ok_or_else(|| Failure::Run("the cipher is not there".to_string()))?;
        Ok(Role::Sealed(Box::new(Sealed::new(role, link))))
    }

    /// TLS of an edge's doors: the certificate that the venue's settings name, or the node's own.
    fn door_tls(&self) -> Result<net::ServerTls, Failure> {
        if let Some((server, _)) = crate::tls::doors(&self.config.doors)? {
            return Ok(server);
        }
        self.credentials.doors(None)
    }

    /// Participants may be told which edges are least loaded.
    fn tell_edges(&self, of: &LoopHandle<Role>, age_ms: u64, edges: &[EdgeHint]) {
        let list = subscriptions::named(self.file, edges);
        let age_ns = age_ms.saturating_mul(Nanos::MILLI);
        for (node, _) in self.own() {
            let list = list.clone();
            // A loop that is behind hears the next one.
            let _ = of.call(node, move |role: &mut Role, now, _| {
                if let Some(edge) = role.as_edge_mut() {
                    edge.gateway_mut().set_edges(now.now, age_ns, list);
                }
            });
        }
    }

    /// Ends the sessions of participants here; whether something is still on its way.
    fn end_sessions(&self, of: &LoopHandle<Role>) -> bool {
        let mut busy = false;
        for (node, _) in self.own() {
            let (to, from) = sync_channel(1);
            let asked = of.call(node, move |role: &mut Role, now, out| {
                let left = role.with_edge(out, |edge, out| {
                    let gateway = edge.gateway_mut();
                    for session in gateway.logged_on() {
                        gateway.disconnect(now, session.account, out);
                    }
                    edge.end_subscriptions(now, out);
                    let gateway = edge.gateway();
                    gateway.connections() > 0 || gateway.requests_waiting() != (0, 0)
                });
                let _ = to.try_send(left.unwrap_or(false));
            });
            busy |= asked.is_ok() && from.recv_timeout(ANSWER).unwrap_or(true);
        }
        busy
    }
}

/// Binds a UDP port of a machine.
///
/// # Errors
/// The kernel's, with the address.
pub fn bind(file: &ClusterFile, node: &NodeEntry, port: Port) -> Result<UdpSocket, Failure> {
    let at = file.bound(node, port);
    sockets::udp(at).map_err(|error| Failure::Run(format!("UDP {at} ({port:?}): {error}")))
}

fn listen(file: &ClusterFile, node: &NodeEntry, port: Port) -> Result<TcpListener, Failure> {
    let at = file.bound(node, port);
    sockets::listener(at).map_err(|error| Failure::Run(format!("TCP {at} ({port:?}): {error}")))
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
        subscribers: node.subscribers.iter().map(|to| net::peer_addr(*to)).collect(),
        ring: ring.transpose()?,
    })
}

/// What a node is told when it is let in.
struct Welcome {
    leader: u8,
    term: u64,
    claims: String,
    keys: Keys,
}

impl Welcome {
    fn take(&self, endpoint: &LeaderEndpoint) {
        // The first one is known already, and perhaps a later one.
        let _ = endpoint.take(self.term, usize::from(self.leader).saturating_sub(1));
    }
}

/// Waits until the group lets the node in, with a word now and then; `None` when it ends before.
fn wait_for_welcome(
    messages: &Receiver<FromRoot>,
    stop: &AtomicBool,
    waiting: impl Fn(),
) -> Option<Welcome> {
    let mut reminded = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        match messages.recv_timeout(LOOK_EVERY) {
            Ok(FromRoot::Welcome { leader, term, claims, keys, .. }) => {
                return Some(Welcome { leader, term, claims, keys });
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if reminded.elapsed() > REMIND_EVERY => {
                reminded = Instant::now();
                waiting();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panicked() -> Failure {
    Failure::Run("a thread of the node panicked".to_string())
}

/// How nodes are.
fn observe<'a>(
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
