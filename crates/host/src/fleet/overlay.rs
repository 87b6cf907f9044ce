//! The proxies and edges of one machine of a venue, of all its shards.
//!
//! Edges are in the overlay of every shard and live in one loop with the first shard's proxies; those of
//! each further shard have a loop of their own, because their numbers are those of that shard. Each
//! shard's roots give keys for its links. A machine begins when the first shard has let it in and the others
//! have or are away: the links of a shard that is away have keys that nobody else knows until it comes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Role, Sealed, Secret};
use net::{Directory, LeaderEndpoint, Loop, LoopHandle};
use overlay::key_ring::KeyRing;
use overlay::sealed_link::SealedLink;
use probe::Key;
use types::{Channel, Nanos, NodeId, Peer, ShardId};

use super::clock::ClockHandle;
use super::credentials::bytes_of;
use super::file::{NodeRole, Port};
use super::keys::Own;
use super::messages::{EdgeHint, FromRoot, Health, Keys};
use super::names::{self, Neighbours};
use super::node::{Machine, bind, edge_ends, lock, observe, panicked};
use super::subscriptions;
use super::traces::Traces;
use crate::failure::Failure;
use crate::nodes::{self, PlanesSeen};
use crate::replica::cluster::Cluster;
use crate::sockets::io;
use crate::strategies;

/// The snapshot server for its loop: no overlay node has this id.
const SNAPSHOTS: NodeId = NodeId(50_000);
/// How often a node's figures are looked at.
const OBSERVE_EVERY: Duration = Duration::from_millis(100);
/// Between two looks whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two words that the group is waited for.
const REMIND_EVERY: Duration = Duration::from_secs(5);
/// How long shards behind the first may take to let a machine in that the first one has let in, before it
/// begins without them.
const OTHERS_MAX: Duration = Duration::from_secs(3);
/// Longest answer of the loop.
const ANSWER: Duration = Duration::from_millis(500);
/// How long sessions that are told to end may take.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What roots say, with their shard.
pub(super) type Messages = Receiver<(ShardId, FromRoot)>;

/// What a node is told when a shard's roots let it in.
pub(super) struct Welcome {
    leader: u8,
    term: u64,
    claims: String,
    keys: Keys,
}

impl Welcome {
    /// Which root leads: the first one is known already, and perhaps a later one.
    fn take(&self, endpoint: &LeaderEndpoint) {
        let _ = endpoint.take(self.term, usize::from(self.leader).saturating_sub(1));
    }
}

/// Waits until the first of `shards` has let the node in and the others have, or are away, with a word
/// now and then; by shard. `None` when it ends before.
pub(super) fn wait_for_welcomes(
    messages: &Messages,
    shards: &[usize],
    stop: &AtomicBool,
    waiting: impl Fn(),
) -> Option<Vec<Option<Welcome>>> {
    let last = shards.iter().copied().max().unwrap_or(0);
    let mut welcomes: Vec<Option<Welcome>> = (0..=last).map(|_| None).collect();
    let (mut reminded, mut first) = (Instant::now(), None::<Instant>);
    while !stop.load(Ordering::Relaxed) {
        match messages.recv_timeout(LOOK_EVERY) {
            Ok((shard, FromRoot::Welcome { leader, term, claims, keys, .. })) => {
                if let Some(of) = welcomes.get_mut(usize::from(shard.0)) {
                    *of = Some(Welcome { leader, term, claims, keys });
                }
                if shard == ShardId(0) {
                    first.get_or_insert_with(Instant::now);
                }
            }
            Ok((shard, FromRoot::Keys(keys))) => {
                let of = welcomes.get_mut(usize::from(shard.0)).and_then(Option::as_mut);
                if let Some(of) = of {
                    of.keys = keys;
                }
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if reminded.elapsed() > REMIND_EVERY => {
                reminded = Instant::now();
                waiting();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        let all = shards.iter().all(|shard| welcomes[*shard].is_some());
        if first.is_some_and(|first| all || first.elapsed() > OTHERS_MAX) {
            return Some(welcomes);
        }
    }
    None
}

/// Looped nodes that others may give other keys.
struct Keyed<'a> {
    clock: &'a ClockHandle,
    machine: &'a Machine<'a>,
    /// By shard; the first one's has the edges, too.
    loops: Vec<Option<LoopHandle<Role>>>,
}

impl Keyed<'_> {
    /// Takes the keys of a shard, unless they are those that are in use: a life is lived once.
    fn take(&self, shard: ShardId, keys: &Keys) -> Result<(), Failure> {
        let Some(part) = self.machine.parts.get(usize::from(shard.0)) else { return Ok(()) };
        match part.epoch.load(Ordering::Relaxed) == keys.epoch {
            true => Ok(()),
            false => self.rekey(shard, keys),
        }
    }

    /// Everything here seals with other keys of this shard from now on.
    fn rekey(&self, shard: ShardId, keys: &Keys) -> Result<(), Failure> {
        let part = &self.machine.parts[usize::from(shard.0)];
        if let Some(ring) = &keys.clock {
            self.clock.rekey(ring)?;
        }
        for ring in &keys.rings {
            let Own { node, ring, life } = ring.read()?;
            let own = part.own(self.machine.number).find(|(own, _)| *own == node);
            let is_edge = own.is_some_and(|(_, port)| port == Port::Edge);
            let first = &self.machine.parts[0];
            // In its loop an edge has the number that it has in the first shard.
            let edge = || first.own(self.machine.number).find(|(_, port)| *port == Port::Edge);
            let (at, id, channel) = match is_edge {
                true => (0, edge().map_or(node, |(id, _)| id), Channel::of_shard(shard)),
                false => (usize::from(shard.0), node, Channel::OVERLAY),
            };
            let Some(of) = self.loops.get(at).and_then(Option::as_ref) else { continue };
            let call = of.call(id, move |role: &mut Role, now, _| {
                role.rekey_channel(now, channel, ring, life);
            });
            call.map_err(|error| Failure::Run(format!("keys: {error}")))?;
        }
        part.epoch.store(keys.epoch, Ordering::Relaxed);
        Ok(())
    }
}

/// Loops of a machine, by shard: `None` where it has no proxy of a shard behind the first.
type Loops = Vec<Option<Loop<Role>>>;

impl Machine<'_> {
    /// A machine that has nothing to end waits until it is to stop. A root of a shard behind the first is
    /// given the keys of its clock by those of the first.
    pub(super) fn wait_for_drain(
        &self,
        clock: &ClockHandle,
        messages: &Messages,
        stop: &AtomicBool,
        told: &impl Fn(&str),
    ) -> Result<(), Failure> {
        while !stop.load(Ordering::Relaxed) {
            let keys = match messages.recv_timeout(LOOK_EVERY) {
                Ok((_, FromRoot::Drain)) => {
                    told("is drained: stops");
                    break;
                }
                Ok((ShardId(0), FromRoot::Welcome { keys, .. } | FromRoot::Keys(keys))) => keys,
                _ => continue,
            };
            let ring = keys.clock.filter(|_| self.part_of_root() != Some(0));
            // A life is lived once: another connection of the same process tells the same.
            let epoch = &self.parts[0].epoch;
            if let Some(ring) = ring.filter(|_| epoch.load(Ordering::Relaxed) != keys.epoch) {
                clock.rekey(&ring)?;
                epoch.store(keys.epoch, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Let in by the groups, runs the proxies and edges of this machine.
    pub(super) fn run_overlay(
        &self,
        clock: &ClockHandle,
        welcomes: Option<Vec<Option<Welcome>>>,
        messages: &Messages,
        health: &Mutex<Option<Health>>,
        stop: &AtomicBool,
        told: &(impl Fn(&str) + Sync),
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let Some(welcomes) = welcomes else { return Ok(()) };
        let first = welcomes.first().and_then(Option::as_ref);
        if let Some(ring) = first.and_then(|welcome| welcome.keys.clock.as_ref()) {
            clock.rekey(ring)?;
        }
        clock.settle(stop, told);
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let strategies = self.strategies(clock)?;
        let own: Vec<_> = strategies.iter().map(|one| (one.name(), one.status())).collect();
        let mut neighbours = Neighbours::of(self)?;
        let clusters = (0..self.parts.len()).map(|at| self.cluster(at, Secret([0; 32])));
        let clusters = clusters.collect::<Result<Vec<_>, _>>()?;
        let endpoints = clusters.iter().map(Cluster::leader).collect::<Result<Vec<_>, _>>()?;
        let mut claimed = vec![false; endpoints.len()];
        for (at, welcome) in welcomes.iter().enumerate() {
            let Some(welcome) = welcome else { continue };
            welcome.take(&endpoints[at]);
            self.hear_claims(at, &welcome.claims, (&endpoints[at], &mut claimed))?;
        }
        let mut loops = self.loops(clock, (&clusters, &endpoints))?;
        let main = loops.first_mut().and_then(Option::as_mut);
        let jobs = nodes::worker(main.ok_or_else(|| Failure::Run("no loop".to_string()))?);
        self.host_nodes(&mut loops, clock, &clusters, &welcomes)?;
        let (mut traces, mut figures) = (Vec::new(), Vec::new());
        for (at, of) in loops.iter_mut().enumerate() {
            let Some(of) = of else { continue };
            nodes::use_network(of, (self.entry, &self.config), told)?;
            traces.push(Traces::open(self.options, (&self.sampled, ShardId(at as u16)), of)?);
            let name = if at == 0 { "overlay".to_string() } else { format!("overlay-{}", at + 1) };
            let telemetry = self.options.telemetry.as_ref();
            figures.push((at, telemetry.map(|to| to.place(&name, at as u16, of.handle()))));
        }
        let bound = clock.clock.reading().bound_ns;
        told(&format!("in, after {} ms; clock within {bound} ns", begun.elapsed().as_millis()));
        for (part, at) in self.parts.iter().zip(0..).skip(1) {
            if part.own(self.number).next().is_some()
                && welcomes.get(at).is_none_or(Option::is_none)
            {
                told(&format!(
                    "begins without shard {}: none of its roots has answered",
                    part.file.shard_name()
                ));
            }
        }
        let handles: Vec<_> = loops.iter().map(|of| of.as_ref().map(Loop::handle)).collect();
        let handle = handles.first().cloned().flatten();
        let handle = handle.ok_or_else(|| Failure::Run("no loop".to_string()))?;
        let loops_of = handles.clone();
        let keyed = Keyed { clock, machine: self, loops: handles };
        let (over, seen) = (&AtomicBool::new(false), &PlanesSeen::default());
        // Strategies end first: those of a machine that is drained do not come again.
        let leave = &AtomicBool::new(false);
        // What the links of proxies in the other loops did.
        let others: Vec<Mutex<Health>> = loops.iter().map(|_| Mutex::default()).collect();
        let outcome = thread::scope(|scope| -> Result<(), Failure> {
            let (worker, others) = (handle.clone(), &others[..]);
            scope.spawn(move || jobs.serve(&worker, crate::password::work));
            for one in strategies {
                let of = handle.clone();
                scope.spawn(move || {
                    let name = format!("strategy {}", one.name());
                    let level = |waited| {
                        let mut own = self.parts[0].own(self.number);
                        own.all(|(node, _)| strategies::is_level(&of, node, waited))
                    };
                    if let Err(failure) = one.run(&self.alarms, leave, level) {
                        self.alarms.raise(&name, format!("{name}: {failure}"));
                    }
                });
            }
            let held = endpoints.clone();
            scope.spawn(move || {
                let set = |clusters: &[Cluster]| {
                    let moved = loops_of.iter().zip(moved(clusters, &held)?);
                    moved
                        .filter_map(|(of, to)| Some(of.as_ref()?.set_directory(to)))
                        .try_for_each(|set| set.map_err(|error| Failure::Run(error.to_string())))
                };
                names::watch(self.file, over, || {
                    if neighbours.look(self, set) {
                        told(names::MOVED);
                    }
                });
            });
            let written =
                traces.into_iter().flatten().map(|traces| scope.spawn(|| traces.pass_on()));
            let written: Vec<_> = written.collect();
            let mut running = Vec::new();
            for (at, of) in loops.into_iter().enumerate() {
                let Some(of) = of else { continue };
                let figures = figures.iter().find(|(of, _)| *of == at).cloned();
                let figures = figures.and_then(|(_, place)| place);
                running.push(scope.spawn(move || {
                    let look = |of: &Loop<Role>, reading| {
                        if let Some(figures) = &figures {
                            figures.look(of, reading);
                        }
                        let roles = of.nodes().map(|(_, role)| role);
                        let epoch = self.parts[at].epoch.load(Ordering::Relaxed);
                        let own = observe(roles, clock, epoch);
                        if at > 0 {
                            *lock(&others[at]) = own;
                            return;
                        }
                        seen.look(of);
                        let mut all = Health { alarms: self.standing(), ..seen.add_to(own) };
                        for other in others {
                            let Health { sealed, opened, refused, .. } = *lock(other);
                            all.sealed += sealed;
                            all.opened += opened;
                            all.refused += refused;
                        }
                        *lock(health) = Some(all);
                    };
                    if let Some(core) = self.entry.core.filter(|_| at == 0) {
                        crate::core::take(&self.entry.name, core)?;
                    }
                    of.run(over, OBSERVE_EVERY, look).map(drop).map_err(io)
                }));
            }
            let mut drained = None::<Instant>;
            let outcome = loop {
                if stop.load(Ordering::Relaxed) || running.iter().any(|of| of.is_finished()) {
                    break Ok(());
                }
                let taken = match messages.recv_timeout(LOOK_EVERY) {
                    Ok((shard, FromRoot::Welcome { keys, leader, term, claims, .. })) => {
                        let at = usize::from(shard.0);
                        let _ = endpoints[at].take(term, usize::from(leader).saturating_sub(1));
                        self.hear_claims(at, &claims, (&endpoints[at], &mut claimed))
                            .and_then(|()| keyed.take(shard, &keys))
                    }
                    Ok((shard, FromRoot::Keys(keys))) => keyed.take(shard, &keys),
                    Ok((ShardId(0), FromRoot::Edges { age_ms, edges })) => {
                        self.tell_edges(&handle, age_ms, &edges);
                        Ok(())
                    }
                    Ok((ShardId(0), FromRoot::Shed { sessions })) => {
                        self.shed_sessions(&handle, sessions);
                        Ok(())
                    }
                    Ok((_, FromRoot::Drain)) if drained.is_none() => {
                        drained = Some(Instant::now());
                        leave.store(true, Ordering::Relaxed);
                        told("is drained: ends its sessions and stops");
                        Ok(())
                    }
                    _ => Ok(()),
                };
                if taken.is_err() {
                    break taken;
                }
                let Some(since) = drained else { continue };
                let busy = self.end_sessions(&handle);
                if !busy || since.elapsed() > DRAIN_MAX {
                    stop.store(true, Ordering::Relaxed);
                }
            };
            [leave, over].iter().for_each(|one| one.store(true, Ordering::Relaxed));
            let ended: Vec<_> = running.into_iter().map(thread::ScopedJoinHandle::join).collect();
            let written: Vec<_> = written.into_iter().map(thread::ScopedJoinHandle::join).collect();
            seen.lines().iter().for_each(|line| told(line));
            outcome?;
            for ended in ended.into_iter().chain(written) {
                ended.map_err(|_| panicked())??;
            }
            Ok(())
        });
        own.iter().for_each(|(name, status)| told(&strategies::line(name, status)));
        outcome
    }

    /// The strategies of this machine's edge, which has the number of its place among those of the file.
    fn strategies(&self, clock: &ClockHandle) -> Result<Vec<strategies::Ready>, Failure> {
        let own = self.file.of(NodeRole::Edge).position(|(number, _)| number == self.number);
        let Some(own) = own.filter(|_| !self.config.strategies.0.is_empty()) else {
            return Ok(Vec::new());
        };
        let at = |port| self.file.at(self.entry, port);
        let doors = strategies::EdgeDoors {
            gateway: at(Port::Ouch)?,
            subscriptions: at(Port::Subscriptions)?,
        };
        let tls = match crate::tls::doors(&self.config.doors)? {
            Some((_, client)) => client,
            None => self.credentials.participant(self.file)?,
        };
        let place = strategies::Place {
            doors: &|number: u32| (number as usize == own + 1).then_some(doors),
            tls: Some(tls),
            out: &self.options.dir,
            clock: clock.clock,
        };
        strategies::Ready::all(&self.config, &place)
    }

    /// From now on it hears which root of a shard leads, once its key is known.
    fn hear_claims(
        &self,
        shard: usize,
        digits: &str,
        (leader, claimed): (&LeaderEndpoint, &mut [bool]),
    ) -> Result<(), Failure> {
        if !std::mem::replace(&mut claimed[shard], true) {
            let key = bytes_of(digits).and_then(|bytes| Key::new(&bytes).ok());
            let key = key.ok_or_else(|| Failure::Run("claims without a key".to_string()))?;
            self.leaders.add(key, leader.clone());
        }
        Ok(())
    }

    /// A loop for the edges and the first shard's proxies, and one for each other shard with a proxy here.
    fn loops(
        &self,
        clock: &ClockHandle,
        ends: (&[Cluster], &[LeaderEndpoint]),
    ) -> Result<Loops, Failure> {
        let one = |(at, directory): (usize, Directory)| {
            let proxies = self.parts[at].own(self.number).any(|(_, port)| port == Port::Proxy);
            let wanted = at == 0 || proxies;
            let new = || Loop::new(clock.clock, Arc::new(directory), self.habits()).map_err(io);
            wanted.then(new).transpose()
        };
        directories(ends)?.into_iter().enumerate().map(one).collect()
    }

    /// Puts the machine's nodes into their loops, with sockets, doors and keys.
    fn host_nodes(
        &self,
        loops: &mut [Option<Loop<Role>>],
        clock: &ClockHandle,
        clusters: &[Cluster],
        welcomes: &[Option<Welcome>],
    ) -> Result<(), Failure> {
        let mut exchange = crate::deployment::exchange(&self.config, &clock.clock)?;
        if let Some(cluster) = clusters.first() {
            cluster.settle(&mut exchange);
        }
        let usage = |error: exchange::ExchangeError| Failure::Usage(error.to_string());
        let topology = exchange.tree().map_err(usage)?.topology;
        for ((at, part), of) in self.parts.iter().enumerate().zip(loops) {
            let keys = |at: usize| welcomes.get(at).and_then(Option::as_ref).map(|of| &of.keys);
            // Whatever epoch a shard is in that is away now, its keys are others than these.
            part.epoch.store(keys(at).map_or(u32::MAX, |keys| keys.epoch), Ordering::Relaxed);
            for (node, port) in part.own(self.number) {
                let Some(of) = of else { continue };
                let life = crate::deployment::life()?;
                let mut role = match port {
                    Port::Edge if at > 0 => continue,
                    Port::Edge => {
                        let index = topology.receiver_ids().position(|id| id == node);
                        let index = index.unwrap_or(usize::MAX);
                        exchange::edge_in_clear(&exchange, index, life, Peer::NOBODY)
                    }
                    _ => {
                        let own = exchange.of_shard(ShardId(at as u16));
                        exchange::overlay_node(&own, node, life, Peer::NOBODY)
                    }
                }
                .map_err(usage)?;
                let mut others = Vec::new();
                let ends = match role.as_edge_mut() {
                    Some(edge) => {
                        if self.entry.is(NodeRole::Snapshot) {
                            self.host_snapshots(of, &exchange, clusters, edge)?;
                        }
                        others = self.edges_elsewhere();
                        let own = (self.file, self.entry, &self.config);
                        let mut ends = edge_ends(own, Some(self.door_tls()?))?;
                        for (at, _) in &others {
                            let channel = Channel::of_shard(ShardId(*at as u16));
                            let socket = bind(&self.parts[*at].file, self.entry, Port::Edge)?;
                            ends.shards.push((channel, socket));
                        }
                        Some(ends)
                    }
                    None => None,
                };
                let queues = exchange.options.upstream.is_some() && role.as_proxy().is_some();
                if exchange.options.secret.is_some() {
                    let link = self.link(node, queues, keys(at))?;
                    let of = |(at, node): (usize, NodeId)| {
                        let link = self.link(node, false, keys(at))?;
                        Ok((Channel::of_shard(ShardId(at as u16)), link))
                    };
                    let links = others.into_iter().map(of).collect::<Result<Vec<_>, Failure>>()?;
                    role = Role::Sealed(Box::new(Sealed::new(role, link).with_links(links)));
                }
                nodes::host(of, (node, role), bind(&part.file, self.entry, port)?, ends)?;
            }
        }
        Ok(())
    }

    /// The numbers of this machine's edge in the shards behind the first.
    fn edges_elsewhere(&self) -> Vec<(usize, NodeId)> {
        let edge = |(at, part): (usize, &super::node::Part)| {
            let own = part.own(self.number).find(|(_, port)| *port == Port::Edge);
            own.map(|(node, _)| (at, node))
        };
        self.parts.iter().enumerate().skip(1).filter_map(edge).collect()
    }

    /// A node's link in a shard, under the keys that its roots gave; without any, of a shard that is away,
    /// under some that nobody else knows.
    fn link(
        &self,
        node: NodeId,
        queues: bool,
        keys: Option<&Keys>,
    ) -> Result<SealedLink<KeyRing>, Failure> {
        let (ring, life) = match keys {
            Some(keys) => {
                let ring = keys.rings.iter().find(|ring| ring.node == node.0);
                let ring =
                    ring.ok_or_else(|| Failure::Run(format!("no keys for node {}", node.0)))?;
                let Own { ring, life, .. } = ring.read()?;
                (ring, life)
            }
            None => {
                let none = || Failure::Run("no randomness for keys".to_string());
                let secret = Secret::random().ok_or_else(none)?;
                (secret.ring(node, &self.fleet), crate::deployment::life()?)
            }
        };
        let link = SealedLink::new(node, self.fleet.clone(), life, queues, ring);
        link.ok_or_else(|| Failure::Run("the cipher is not there".to_string()))
    }

    /// Puts a snapshot server beside an edge, which hands it the feed. What the roots no longer have it fetches of the other
    /// snapshot servers.
    fn host_snapshots(
        &self,
        of: &mut Loop<Role>,
        exchange: &ExchangeConfig,
        clusters: &[Cluster],
        edge: &mut exchange::Edge,
    ) -> Result<(), Failure> {
        let servers = clusters.iter().flat_map(Cluster::retransmission).map(net::peer_addr);
        let here = |port| {
            let at = self.file.bound(self.entry, port);
            let ip = match at.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                own => own,
            };
            net::peer_addr(SocketAddr::new(ip, at.port()))
        };
        let mut settings = exchange::listener(exchange, servers.collect());
        settings.sources = Some(vec![here(Port::Release)]);
        let others =
            self.file.of(NodeRole::Snapshot).filter(|(_, node)| node.name != self.entry.name);
        // One that is not there at present is left out.
        let others =
            others.filter_map(|(_, node)| self.file.places(node, Port::Snapshot).ok()).flatten();
        settings.catch_up =
            Some(self.config.snapshot.catch_up(others.map(net::peer_addr).collect()));
        let _ = edge.subscribe(here(Port::SnapshotFeed));
        let role = nodes::snapshot_server(&self.config, exchange, &settings);
        let sockets = vec![(Channel::FEED, self.bind(Port::SnapshotFeed)?)];
        of.add_node(SNAPSHOTS, role, sockets, [self.listen(Port::Snapshot)?]).map_err(io)
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
        for (node, _) in self.parts[0].own(self.number) {
            let list = list.clone();
            // A loop that is behind hears the next one.
            let _ = of.call(node, move |role: &mut Role, now, _| {
                if let Some(edge) = role.as_edge_mut() {
                    edge.gateway_mut().set_edges(now.now, age_ns, list);
                }
            });
        }
    }

    /// Ends so many sessions of participants, those that were logged on last: others take them.
    fn shed_sessions(&self, of: &LoopHandle<Role>, sessions: u64) {
        for (node, _) in self.parts[0].own(self.number) {
            let _ = of.call(node, move |role: &mut Role, now, out| {
                role.with_edge(out, |edge, out| {
                    let gateway = edge.gateway_mut();
                    let all = gateway.logged_on();
                    let most = usize::try_from(sessions).unwrap_or(usize::MAX);
                    for session in all.iter().rev().take(most) {
                        gateway.disconnect(now, session.account, out);
                    }
                });
            });
        }
    }

    /// Ends the sessions of participants here; whether something is still on its way.
    fn end_sessions(&self, of: &LoopHandle<Role>) -> bool {
        let mut busy = false;
        for (node, _) in self.parts[0].own(self.number) {
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

/// Where all nodes are once some have moved; which root leads stays as it is known.
fn moved(clusters: &[Cluster], endpoints: &[LeaderEndpoint]) -> Result<Vec<Directory>, Failure> {
    let places = |cluster: &Cluster| {
        cluster.places().map(|(_, place)| place.overlay).collect::<Vec<SocketAddr>>()
    };
    let moved = clusters.iter().zip(endpoints).map(|(cluster, leader)| {
        let moved = leader.moved(&places(cluster));
        moved.ok_or_else(|| Failure::Run("another number of roots".to_string()))
    });
    directories((clusters, &moved.collect::<Result<Vec<_>, _>>()?))
}

/// Where all nodes are, by shard; the first shard's has what edges need to know of the others.
fn directories(
    (clusters, endpoints): (&[Cluster], &[LeaderEndpoint]),
) -> Result<Vec<Directory>, Failure> {
    let one = |(cluster, leader): (&Cluster, &LeaderEndpoint)| {
        let directory = cluster.directory()?.with_leader(leader.clone());
        directory.map_err(|error| Failure::Usage(error.to_string()))
    };
    let mut all = clusters.iter().zip(endpoints).map(one).collect::<Result<Vec<_>, Failure>>()?;
    let others: Vec<_> = (0..).map(ShardId).zip(all.iter().cloned()).skip(1).collect();
    for (shard, of) in others {
        let first = std::mem::take(&mut all[0]);
        all[0] = first.with_channel(Channel::of_shard(shard), of);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn welcome(leader: u8) -> FromRoot {
        let keys = Keys { epoch: 3, rings: Vec::new(), clock: None };
        FromRoot::Welcome { leader, term: 7, life: 1, claims: String::new(), keys }
    }

    #[test]
    fn the_first_shard_is_waited_for_and_others_no_longer_than_they_may_take() {
        let (sender, messages) = channel();
        let stop = AtomicBool::new(false);
        let leaders = |of: Vec<Option<Welcome>>| -> Vec<Option<u8>> {
            of.into_iter().map(|one| one.map(|one| one.leader)).collect()
        };
        sender.send((ShardId(2), welcome(5))).expect("sent");
        sender.send((ShardId(0), welcome(4))).expect("sent");
        let all = wait_for_welcomes(&messages, &[0, 2], &stop, || ()).expect("in");
        assert_eq!(leaders(all), [Some(4), None, Some(5)]);
        // One that is away.
        sender.send((ShardId(0), welcome(4))).expect("sent");
        let some = wait_for_welcomes(&messages, &[0, 1], &stop, || ()).expect("in");
        assert_eq!(leaders(some), [Some(4), None]);
        // Control: not without the first one.
        sender.send((ShardId(1), welcome(4))).expect("sent");
        drop(sender);
        assert!(wait_for_welcomes(&messages, &[0, 1], &stop, || ()).is_none());
    }
}
