//! The root as a group of replicas in the process of a host: each has a loop, a journal and its
//! streams to the others, as a root of a venue on many machines has.
//!
//! The names and keys of the group lie beside the journals, as those of any venue do (`cluster.toml`,
//! `authority.pem`, `keys/`), so that the next start goes on with them; ports are others at each start. When
//! a run has ended, the replicas' logs and states are compared, and their disks with the leader's
//! log.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Role};
use net::plane::PlaneKind;
use net::{Clock, Directory, LeaderEndpoint, LoopHandle, TraceReceiver, trace_channel};
use probe::Key;
use replication::ReplicaId;
use serde::Serialize;
use types::NodeId;

use crate::alarms::Alarms;
use crate::config::Config;
use crate::deployment::{TRACE_BATCH, TRACE_BATCHES, bind_tcp, bind_udp};
use crate::failure::{Failure, on};
use crate::fleet::credentials::{self, Credentials, DAYS, KEYS, RootSecret};
use crate::fleet::file::{ClusterFile, FIRST_PORT, NodeEntry, NodeRole, PORTS};
use crate::nodes;
use crate::replica::checkpoints::Begin;
use crate::replica::claims;
use crate::replica::cluster::Cluster;
use crate::replica::line::RootLine;
use crate::replica::node::{DiskInputs, Host, Sockets};
use crate::sockets::io;
use crate::telemetry::{Place, Telemetry};

/// The names of the group, in the folder of its journals.
const NAMES: &str = "cluster.toml";
/// What an earlier version wrote instead.
const OLD_NAMES: &str = "cluster.json";
/// Its first line.
const HEAD: &str =
    "# The root's replicas of `fairbell up`; their ports are others at each start.\n";
/// The name of every such venue.
const VENUE: &str = "up";
/// How long replicas may take to stand at the same input.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Terms that a report lists.
const TERMS_MAX: usize = 1_000;

/// Where the group's names are.
pub fn names(config: &Config) -> PathBuf {
    Path::new(&config.journal.dir).join(NAMES)
}

/// The folder of a replica's journal.
pub fn folder(config: &Config, number: usize) -> PathBuf {
    Path::new(&config.journal.dir).join(format!("replica-{number}"))
}

/// Whether a group was made in the configured folder before.
pub fn was_made(config: &Config) -> bool {
    config.journal.is_replicated() && names(config).exists()
}

/// What a group is told of the rest of the exchange.
pub struct Rest {
    /// The overlay socket and the retransmission server of the first replica.
    pub first: (UdpSocket, UdpSocket),
    /// Overlay sockets of all nodes but the root.
    pub nodes: Vec<(NodeId, SocketAddr)>,
    /// The replicas' clock.
    pub clock: Clock,
}

/// A group about to run.
pub struct Group {
    hosts: Vec<Host>,
    leader: LeaderEndpoint,
    claims: (UdpSocket, Key),
    directory: Directory,
    loops: Vec<LoopHandle<Role>>,
    /// Retransmission servers of all replicas, those in reserve last.
    pub retransmission: Vec<SocketAddr>,
    /// UDP ports of all replicas.
    pub udp_ports: Vec<u16>,
    /// What there is to say of it.
    pub notice: Option<String>,
}

impl Group {
    /// Makes the replicas, and gives the exchange their names: new ones, or those in the folder.
    ///
    /// # Errors
    /// Sockets and folders that can't be had; journals of another exchange, and damaged ones.
    pub fn new(
        config: &Config,
        exchange: &mut ExchangeConfig,
        Rest { first, nodes, clock }: Rest,
    ) -> Result<Group, Failure> {
        let on = first.0.local_addr().map_err(io)?.ip();
        let (count, mut first) = (config.journal.replicas as usize, Some(first));
        let mut sockets = Vec::new();
        for _ in 0..count + config.journal.reserve as usize {
            let (overlay, feed) = match first.take() {
                Some(first) => first,
                None => (bind_udp(on, 0, 0)?, bind_udp(on, 0, 0)?),
            };
            let link = bind_tcp(on, 0, 0)?;
            sockets.push(Sockets { overlay, feed, link, shards: None });
        }
        let claims = bind_udp(on, 0, 0)?;
        let begun = was_made(config);
        let file = file(config, clock)?;
        let keys = |node: &NodeEntry| Credentials::folder(&file, &node.name);
        let secret = RootSecret::read(&names(config).with_file_name(KEYS))?.epoch(0)?;
        let mut places =
            sockets.iter().map(Sockets::place).collect::<Result<Vec<_>, _>>()?.into_iter();
        let first = file.nodes.first();
        let first = first.ok_or_else(|| Failure::Run("a group of no replicas".to_string()))?;
        let cluster = Cluster {
            nodes: nodes.iter().map(|(node, at)| (node.0, *at)).collect(),
            replicas: places.by_ref().take(count).collect(),
            reserve: places.collect(),
            claims: vec![claims.local_addr().map_err(io)?],
            ..Cluster::of((&file, first), &[], secret, Path::new(""))?
        };
        cluster.settle(exchange);
        let mut hosts = Vec::new();
        for ((sockets, number), (_, node)) in sockets.into_iter().zip(1..).zip(file.replicated()) {
            let (id, dir) = (number as u8, folder(config, number));
            let own = Cluster { keys: keys(node), ..cluster.clone() };
            hosts.push(Host::with(sockets, (config, &own), (id, &dir), clock, Begin::Inputs)?);
        }
        can_reach(config, &hosts)?;
        let inputs = hosts.iter().map(|host| host.recovered).max().unwrap_or(0);
        let dir = &config.journal.dir;
        let notice =
            begun.then(|| format!("{dir}: {count} replicas go on after {inputs} committed inputs"));
        let leader = cluster.leader()?;
        let directory = cluster.directory()?.with_leader(leader.clone());
        Ok(Group {
            loops: hosts.iter_mut().map(|host| host.event_loop().handle()).collect(),
            udp_ports: hosts.iter_mut().flat_map(|host| host.event_loop().udp_ports()).collect(),
            claims: (claims, cluster.claim_key(0)?),
            directory: directory.map_err(|error| Failure::Run(error.to_string()))?,
            retransmission: cluster.retransmission().collect(),
            hosts,
            leader,
            notice,
        })
    }

    /// The replicas send by the first of these data planes that can be had, as [`nodes::use_planes`].
    ///
    /// # Errors
    /// As there.
    pub fn use_planes(
        &mut self,
        planes: &[PlaneKind],
        mut told: impl FnMut(&str),
    ) -> Result<(), Failure> {
        let hosts = &mut self.hosts;
        hosts
            .iter_mut()
            .try_for_each(|host| nodes::use_planes(host.event_loop(), planes, &mut told))
    }

    /// All nodes, the root where it leads.
    pub fn directory(&self) -> Directory {
        self.directory.clone()
    }

    /// The way to the root.
    pub fn line(&self) -> RootLine {
        RootLine::group(self.leader.clone(), self.loops.clone())
    }

    /// Who leads, from now on.
    pub fn leaders(&self) -> Leaders {
        Leaders { leader: self.leader.clone(), since: Instant::now(), seen: Vec::new() }
    }

    /// Where the replicas' traces come from.
    pub fn traces(&mut self) -> Vec<TraceReceiver> {
        let traces = |host: &mut Host| {
            let (sender, receiver) = trace_channel(TRACE_BATCHES, TRACE_BATCH);
            host.event_loop().send_traces(sender);
            receiver
        };
        self.hosts.iter_mut().map(traces).collect()
    }

    /// The replicas' orders and figures are told to others' tools; their places, by replica.
    pub fn tell(&mut self, telemetry: &Telemetry) -> Vec<Arc<Place>> {
        let hosts = (1..).zip(&mut self.hosts);
        let place = |(id, host): (u8, &mut Host)| {
            telemetry.record_orders(host.event_loop(), &format!("orders-{id}"));
            telemetry.place(&format!("replica-{id}"), 0, host.handle())
        };
        hosts.map(place).collect()
    }

    /// Runs all replicas; `observe` is given each now and then, with its place.
    pub fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        observe: impl Fn(usize, &Role) + Clone + Send + 'scope,
        alarms: &Alarms,
    ) -> Running<'scope> {
        let over = Arc::new(AtomicBool::new(false));
        let ((socket, key), leader) = (self.claims, self.leader);
        let all = Arc::clone(&over);
        scope.spawn(move || claims::hear(&socket, &key, &leader, &all));
        let (mut stops, mut threads) = (vec![over], Vec::new());
        for (place, mut host) in self.hosts.into_iter().enumerate() {
            host.use_alarms(alarms);
            // One that can't go on stops itself; the others serve on.
            let stop = Arc::new(AtomicBool::new(false));
            stops.push(Arc::clone(&stop));
            let observe = observe.clone();
            threads.push(scope.spawn(move || host.run_watched(&stop, |role| observe(place, role))));
        }
        Running { stops, threads }
    }
}

/// The names of the group: those in its folder, with places for as many in reserve as are wanted now, or
/// new ones; and the keys of all its replicas.
fn file(config: &Config, clock: Clock) -> Result<ClusterFile, Failure> {
    let (path, journal) = (names(config), &config.journal);
    let (count, reserve) = (journal.replicas as u16, journal.reserve as u16);
    if path.with_file_name(OLD_NAMES).exists() {
        return Err(Failure::Usage(format!(
            "{}: {OLD_NAMES} is of an earlier version: finish with that version, or name another folder \
             (journal.dir)",
            journal.dir
        )));
    }
    let node = |(role, word, number): (NodeRole, &str, u16)| NodeEntry {
        port: Some(FIRST_PORT + PORTS * number),
        ..NodeEntry::new(format!("{word}-{number}"), Ipv4Addr::LOCALHOST.to_string(), vec![role])
    };
    let roots = (1..=count).map(|number| (NodeRole::Root, "root", number));
    let spares = (count + 1..=count + reserve).map(|number| (NodeRole::Reserve, "reserve", number));
    let nodes = roots.chain(spares).map(node).collect();
    let file = match was_made(config) {
        true => {
            let mut made = ClusterFile::read(&path)?;
            let there = made.of(NodeRole::Root).count();
            if there != usize::from(count) {
                return Err(Failure::Usage(format!(
                    "journal.replicas: the group in {} has {there} replicas, not {count}",
                    journal.dir
                )));
            }
            made.nodes = nodes;
            made
        }
        false => ClusterFile::new(&path, VENUE, clock.now(), nodes)?,
    };
    crate::files::folder(Path::new(&journal.dir))?;
    let text = HEAD.to_string() + &file.text()?;
    crate::files::replace(&path, text.as_bytes()).map_err(|error| on(&path, error))?;
    // They are the last that founding writes.
    if RootSecret::read(&path.with_file_name(KEYS)).is_err() {
        credentials::found(&file)?;
    }
    for (_, node) in file.replicated() {
        if credentials::generation(&Credentials::folder(&file, &node.name))? == 0 {
            credentials::issue(&file, &node.name, DAYS)?;
        }
    }
    Ok(file)
}

/// Whether there are places for all who came into the group in earlier runs.
fn can_reach(config: &Config, hosts: &[Host]) -> Result<(), Failure> {
    let members = hosts.iter().filter_map(Host::members).max_by_key(|members| members.number);
    let most = members.and_then(|members| members.members().map(|(id, _)| id.0).max());
    match most.map(usize::from).filter(|most| *most > hosts.len()) {
        None => Ok(()),
        Some(most) => Err(Failure::Usage(format!(
            "journal.reserve: replica {most} is in the group in {}: at least {}",
            config.journal.dir,
            most - config.journal.replicas as usize
        ))),
    }
}

/// Replicas that run.
pub struct Running<'scope> {
    stops: Vec<Arc<AtomicBool>>,
    threads: Vec<ScopedJoinHandle<'scope, Result<Role, Failure>>>,
}

impl Running<'_> {
    /// Ends the replicas, once they stand at the same input (`level`) or have had time to; in order,
    /// what is left of each or why nothing is.
    pub fn end(self, level: impl Fn() -> bool) -> Vec<Result<Role, String>> {
        let from = Instant::now();
        while !level() && from.elapsed() < PATIENCE {
            thread::sleep(LOOK_EVERY);
        }
        self.stops.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
        let ended = |thread: ScopedJoinHandle<'_, Result<Role, Failure>>| match thread.join() {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err("a replica's thread panicked".to_string()),
        };
        self.threads.into_iter().map(ended).collect()
    }
}

/// How far a replica is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Level {
    /// Inputs applied.
    applied: u64,
    /// Inputs that wait for their commit.
    waiting: u64,
}

/// How far each replica of a group is, by its place from 0.
#[derive(Clone, Default, Debug)]
pub struct Levels(BTreeMap<usize, Level>);

impl Levels {
    /// Takes down how far the replica at a place is; whether it leads.
    pub fn observe(&mut self, place: usize, role: &Role) -> bool {
        let Some((root, member)) = role.as_root().zip(role.as_member()) else { return false };
        let members = member.replica().membership();
        let counts = |place: &usize| {
            u8::try_from(place + 1).is_ok_and(|id| members.get(ReplicaId(id)).is_some())
        };
        if counts(&place) {
            let (applied, waiting) = (root.engine().applied(), root.waiting());
            self.0.insert(place, Level { applied, waiting });
        }
        let leads = member.leading().is_some();
        if leads {
            // Nobody waits for those that were removed.
            self.0.retain(|place, _| counts(place));
        }
        leads
    }

    /// All, if there are any, have applied the same, and nothing waits.
    pub fn are_level(&self) -> bool {
        let first = self.0.values().next();
        self.0.values().all(|level| Some(level) == first && level.waiting == 0)
    }
}

/// A term in which somebody led.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Term {
    /// Its number.
    pub term: u64,
    /// Who led, from 1.
    pub leader: u8,
    /// Time since the start at which that was seen, ns.
    pub after_ns: u64,
}

/// Who led, term by term.
pub struct Leaders {
    leader: LeaderEndpoint,
    since: Instant,
    /// Terms so far.
    pub seen: Vec<Term>,
}

impl Leaders {
    /// Looks who leads; a line about it when it is another term.
    pub fn look(&mut self) -> Option<String> {
        let (term, place) = self.leader.held();
        if self.seen.last().map_or(0, |last| last.term) >= term || self.seen.len() >= TERMS_MAX {
            return None;
        }
        let leader = place as u8 + 1;
        self.seen.push(Term {
            term,
            leader,
            after_ns: u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX),
        });
        Some(format!("replica {leader} leads in term {term}"))
    }

    /// The inputs on the disk of the replica that led last; for whoever replays them.
    pub fn on_disk(config: &Config, leader: u8) -> Result<DiskInputs, Failure> {
        let group = ClusterFile::read(&names(config))?.id;
        DiskInputs::open(&folder(config, leader.into()), group)
    }
}
