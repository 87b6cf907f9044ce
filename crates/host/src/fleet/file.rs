//! `cluster.toml`: who is in a venue and where; the same file on every machine.
//!
//! `[cluster]` names the venue and the file of its settings, each `[[node]]` a machine: its name, the
//! address that the others reach it at, and what it does. What is of one machine alone (the address
//! it binds, its folder) stands in that node's entry and nobody else uses it.
//!
//! Addresses are DNS names or IP addresses ([`super::addresses`]); names are resolved when a process starts
//! and whenever it connects again. A node's number is its place in the file, from 1: new nodes come last.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use net::plane::PlaneKind;
use replication::VOTERS_MAX;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use types::{Nanos, NodeId, ShardId};

use super::addresses::{IpVersion, is_plain, names_of, wrong};
use super::plan::PlanSettings;
use super::scale::ScaleSettings;
use super::shards::ShardNodes;
use crate::config::Config;
use crate::failure::{Failure, on};

/// Nodes of a file at most: of the numbers that the log knows, the last is the operator's.
pub const NODES_MAX: usize = engine::NODES_MAX - 1;
/// Ports of a node behind its first one.
pub const PORTS: u16 = 16;
/// First port of nodes that name none.
pub const FIRST_PORT: u16 = 7_000;
/// Groups of an edge that participants may subscribe to at most.
const GROUPS_MAX: usize = 16;

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeRole {
    /// A replica of the root, which is the control plane, too.
    Root,
    /// Keeps the roots' log without a vote: a copy elsewhere, which operators may let vote.
    Learner,
    /// A root that is not in the group yet: `fairbell admin replicas` has it take another one's place.
    Reserve,
    /// Passes market data down and orders up.
    Proxy,
    /// A proxy that stands by to take the place of another one.
    Standby,
    /// Receiver and gateway: participants connect here.
    Edge,
    /// Beside an edge: snapshots of the books for listeners that are too far behind the feed.
    Snapshot,
}

/// A node's port for one purpose: so far behind its first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Port {
    /// Overlay of a root (also one in reserve), UDP.
    Root = 0,
    /// Retransmission of the feed, UDP.
    Retransmission = 1,
    /// Streams of other roots, TCP.
    Link = 2,
    /// Datagrams between the roots of shards, UDP.
    Shards = 3,
    /// Control connections, TCP.
    Control = 4,
    /// Where leaders say that they lead, UDP.
    Claims = 5,
    /// Probes of clock agents, UDP.
    Clock = 6,
    /// Overlay of a proxy or of one that stands by, UDP.
    Proxy = 7,
    /// Overlay of an edge, UDP.
    Edge = 8,
    /// Where an edge sends the feed from, UDP.
    Release = 9,
    /// OUCH over SoupBinTCP, TCP.
    Ouch = 10,
    /// FIX, TCP.
    Fix = 11,
    /// Snapshots of the books over SoupBinTCP (GLIMPSE 5.0), TCP.
    Snapshot = 12,
    /// Where the snapshot server hears the feed of the edge beside it, UDP.
    SnapshotFeed = 13,
    /// Subscriptions to the feed over SoupBinTCP, TCP.
    Subscriptions = 14,
    /// Probes of the planner's agents, UDP.
    Probe = 15,
    /// REST and WebSocket of an edge, TCP, on the number that `SnapshotFeed` has of UDP.
    Web = 16,
}

impl Port {
    /// How far it is behind a node's first port, in a venue of one shard.
    pub(super) fn behind(self) -> u16 {
        match self {
            // All numbers are taken, and files give machines of one address ports so far apart.
            Port::Web => Port::SnapshotFeed as u16,
            other => other as u16,
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    cluster: Section,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<PlanSettings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scale: Option<ScaleSettings>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shard: Vec<ShardNodes>,
    #[serde(default)]
    node: Vec<NodeEntry>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    name: String,
    id: String,
    session: String,
    midnight: String,
    venue: PathBuf,
    authority: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(default, skip_serializing_if = "IpVersion::is_usual")]
    prefer: IpVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hosts: Option<PathBuf>,
}

/// One node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeEntry {
    /// Its name: letters, digits, `-`, 1 to 32 bytes.
    pub name: String,
    /// Where the others reach it: a DNS name or an IP address.
    pub address: String,
    /// A second name or IP address, of the version of IP that `address` has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// What it does.
    pub roles: Vec<NodeRole>,
    /// Which zone or data centre it is in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// First of its ports, if it isn't the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The address that it binds, if it isn't all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<IpAddr>,
    /// Its folder: journal, logs. Without it the one that the command line names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Whom its receiver hands the feed to: an address and port each, unicast or an IP multicast
    /// group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<SocketAddr>,
    /// IP multicast groups and ports on its segment that participants may subscribe to there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<SocketAddr>,
    /// Folder of the ring in shared memory that an edge writes the feed into, for processes on its
    /// machine; none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<PathBuf>,
    /// The group that may read the ring, by name or number; the process's own without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_group: Option<String>,
    /// The name or address that participants know an edge by, if it isn't `address`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<String>,
    /// The core that its proxies and edges have to themselves: their loop never sleeps there. Without
    /// one it sleeps until there is something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u16>,
    /// The core that its root has to itself: its loop never sleeps there. Without one it sleeps until there is
    /// something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_core: Option<u16>,
    /// How overlay datagrams leave it: the first of these data planes that can be had there. Without any
    /// it is as the venue's settings say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub data_plane: Vec<String>,
    /// Whether duplicates are dropped in front of its stack. Without a word it is as the venue's settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_filter: Option<bool>,
    /// File of the web door that an edge serves, with its keys; beside the cluster file unless it is absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<PathBuf>,
}

impl NodeEntry {
    /// A node that is reached at an address, with all else as it is by default.
    pub fn new(name: impl Into<String>, address: impl Into<String>, roles: Vec<NodeRole>) -> Self {
        NodeEntry {
            name: name.into(),
            address: address.into(),
            also: None,
            roles,
            zone: String::new(),
            port: None,
            bind: None,
            dir: None,
            subscribers: Vec::new(),
            groups: Vec::new(),
            ring: None,
            ring_group: None,
            public: None,
            core: None,
            root_core: None,
            data_plane: Vec::new(),
            duplicate_filter: None,
            web: None,
        }
    }

    /// Whether it has a role.
    pub fn is(&self, role: NodeRole) -> bool {
        self.roles.contains(&role)
    }

    /// Whether it keeps the log, as roots and learners do, and those in reserve once they are in the group.
    pub fn keeps_log(&self) -> bool {
        [NodeRole::Root, NodeRole::Learner, NodeRole::Reserve].iter().any(|role| self.is(*role))
    }

    /// The name or address that participants know it by.
    pub fn public(&self) -> &str {
        self.public.as_ref().unwrap_or(&self.address)
    }
}

/// The file, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct ClusterFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// Name of the venue.
    pub name: String,
    /// Its number: another one for every venue, and the name of the roots' group.
    pub id: u64,
    /// MoldUDP64 and SoupBinTCP session, ten characters.
    pub session: String,
    /// Midnight UTC that ITCH and OUCH times count from, ns since 1970.
    pub midnight_ns: u64,
    /// Which version of IP two machines use that have both.
    pub prefer: IpVersion,
    /// A file like /etc/hosts that is asked before the system is, on machines that have it.
    pub hosts: Option<PathBuf>,
    /// All nodes; the first has number 1.
    pub nodes: Vec<NodeEntry>,
    /// `[plan]`: how trees are planned.
    pub plan: PlanSettings,
    /// `[scale]`: how edges come and go.
    pub scale: ScaleSettings,
    /// `[[shard]]`; none: there is one, with all instruments and nodes.
    pub shards: Vec<ShardNodes>,
    /// Which of them the file is seen as ([`ClusterFile::of_shard`]).
    pub(super) shard: ShardId,
    venue: PathBuf,
    authority: PathBuf,
    port: u16,
}

impl ClusterFile {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it: file, line and key.
    pub fn read(path: &Path) -> Result<ClusterFile, Failure> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        ClusterFile::parse(path, &text)
    }

    /// The file that `text` is.
    ///
    /// # Errors
    /// As [`ClusterFile::read`].
    pub fn parse(path: &Path, text: &str) -> Result<ClusterFile, Failure> {
        let name = path.display();
        let parsed = toml::from_str::<FileText>(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
            let why = error.message().lines().collect::<Vec<_>>().join(", ");
            Failure::Usage(format!("{name}:{line}: {why}"))
        })?;
        let FileText { cluster: section, plan, scale, shard: shards, node: nodes } = parsed;
        let wrong = |key: &str, why: String| Failure::Usage(format!("{name}: {key}: {why}"));
        let id = u64::from_str_radix(&section.id, 16).ok().filter(|_| section.id.len() == 16);
        let id = id.ok_or_else(|| wrong("cluster.id", "16 hexadecimal digits".to_string()))?;
        if section.session.len() != 10 || !section.session.is_ascii() {
            return Err(wrong("cluster.session", "ten ASCII characters".to_string()));
        }
        let midnight = section.midnight.parse::<jiff::civil::Date>().ok();
        let midnight = midnight.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
        let midnight = midnight.and_then(|at| u64::try_from(at.timestamp().as_nanosecond()).ok());
        let midnight_ns = midnight
            .ok_or_else(|| wrong("cluster.midnight", "a date like 2026-11-25".to_string()))?;
        let file = ClusterFile {
            path: path.to_path_buf(),
            name: section.name,
            id,
            session: section.session,
            midnight_ns,
            nodes,
            plan: plan.unwrap_or_default(),
            scale: scale.unwrap_or_default(),
            shards,
            shard: ShardId(0),
            venue: section.venue,
            authority: section.authority,
            port: section.port.unwrap_or(FIRST_PORT),
            prefer: section.prefer,
            hosts: section.hosts.map(|hosts| path.with_file_name("").join(hosts)),
        };
        file.check().map_err(|(key, why)| wrong(&key, why))?;
        Ok(file)
    }

    /// The file as text.
    ///
    /// # Errors
    /// Nothing that a checked file has can't be written.
    pub fn text(&self) -> Result<String, Failure> {
        let date = jiff::Timestamp::from_nanosecond(self.midnight_ns.into())
            .map_err(|error| on(&self.path, error))?;
        let section = Section {
            name: self.name.clone(),
            id: format!("{:016x}", self.id),
            session: self.session.clone(),
            midnight: date.to_zoned(jiff::tz::TimeZone::UTC).date().to_string(),
            venue: self.venue.clone(),
            authority: self.authority.clone(),
            port: Some(self.port),
            prefer: self.prefer,
            hosts: self.hosts.clone(),
        };
        let plan = Some(self.plan.clone()).filter(|plan| *plan != PlanSettings::default());
        let scale = Some(self.scale.clone()).filter(|scale| *scale != ScaleSettings::default());
        let (shard, node) = (self.shards.clone(), self.nodes.clone());
        let text = FileText { cluster: section, plan, scale, shard, node };
        toml::to_string(&text).map_err(|error| on(&self.path, error))
    }

    /// A new venue's: id and session are drawn, its settings and authority lie beside it.
    ///
    /// # Errors
    /// The system has no randomness; what is wrong with a node.
    pub fn new(
        path: &Path,
        name: &str,
        now: Nanos,
        nodes: Vec<NodeEntry>,
    ) -> Result<ClusterFile, Failure> {
        ClusterFile::with_shards(path, name, now, (nodes, Vec::new()))
    }

    /// The same of a venue with these shards.
    ///
    /// # Errors
    /// As [`ClusterFile::new`].
    pub fn with_shards(
        path: &Path,
        name: &str,
        now: Nanos,
        (nodes, shards): (Vec<NodeEntry>, Vec<ShardNodes>),
    ) -> Result<ClusterFile, Failure> {
        let random = probe::entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        let id = random.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes)).max(1);
        let day_ns = 86_400 * Nanos::SECOND;
        let file = ClusterFile {
            path: path.to_path_buf(),
            name: name.to_string(),
            id,
            session: format!("FB{:08}", now.0 / Nanos::SECOND % 100_000_000),
            midnight_ns: now.0 - now.0 % day_ns,
            nodes,
            plan: PlanSettings::default(),
            scale: ScaleSettings::default(),
            shards,
            shard: ShardId(0),
            venue: PathBuf::from("venue.toml"),
            authority: PathBuf::from("authority.pem"),
            port: FIRST_PORT,
            prefer: IpVersion::default(),
            hosts: None,
        };
        let wrong = |(key, why)| Failure::Usage(format!("{}: {key}: {why}", path.display()));
        file.check().map_err(wrong)?;
        Ok(file)
    }

    fn check(&self) -> Result<(), (String, String)> {
        let key = |at: usize, key: &str| format!("node[{at}].{key}");
        if !is_name(&self.name) {
            return Err(("cluster.name".to_string(), NAMES.to_string()));
        }
        if self.nodes.len() > NODES_MAX {
            return Err(("node".to_string(), format!("at most {NODES_MAX}")));
        }
        self.plan.check()?;
        self.scale.check(self.nodes.iter().filter(|node| node.is(NodeRole::Edge)).count())?;
        let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
        for (at, node) in self.nodes.iter().enumerate() {
            if !is_name(&node.name) {
                return Err((key(at, "name"), NAMES.to_string()));
            }
            if !names.insert(&node.name) {
                return Err((key(at, "name"), format!("{} is named twice", node.name)));
            }
            if node.roles.is_empty() {
                return Err((key(at, "roles"), format!("{} has none", node.name)));
            }
            if node.roles.iter().collect::<BTreeSet<_>>().len() < node.roles.len() {
                return Err((key(at, "roles"), format!("{} has one twice", node.name)));
            }
            if node.is(NodeRole::Proxy) && node.is(NodeRole::Standby) {
                let why = format!("{}: one that stands by is no proxy yet", node.name);
                return Err((key(at, "roles"), why));
            }
            if node.is(NodeRole::Root) && node.is(NodeRole::Learner) {
                let why = format!("{}: a root votes, and a learner does not", node.name);
                return Err((key(at, "roles"), why));
            }
            if node.is(NodeRole::Reserve) && (node.is(NodeRole::Root) || node.is(NodeRole::Learner))
            {
                let why = format!("{}: one in reserve is not in the group yet", node.name);
                return Err((key(at, "roles"), why));
            }
            if node.is(NodeRole::Snapshot) && !node.is(NodeRole::Edge) {
                let why = format!("{}: a snapshot server stands beside an edge", node.name);
                return Err((key(at, "roles"), why));
            }
            if let Some((name, why)) = hosts::unfit(node).or_else(|| wrong(node)) {
                return Err((key(at, name), format!("{}: {why}", node.name)));
            }
            let usable = |at: &SocketAddr| at.ip().is_multicast() && is_plain(at);
            if node.groups.len() > GROUPS_MAX || !node.groups.iter().all(usable) {
                let why = format!(
                    "{}: at most {GROUPS_MAX} like \"239.1.1.3:7100\" or \"[ff15::3]:7100\"",
                    node.name
                );
                return Err((key(at, "groups"), why));
            }
            let unfit = node.ring.as_ref().and_then(|of| crate::feed_ring::unfit(of, &node.name));
            if let Some(why) = unfit {
                return Err((key(at, "ring"), why));
            }
            if node.ring.is_some() && !node.is(NodeRole::Edge) {
                return Err((key(at, "ring"), format!("{}: an edge has the feed", node.name)));
            }
            if node.ring_group.is_some() && node.ring.is_none() {
                return Err((key(at, "ring_group"), format!("{} has no ring", node.name)));
            }
            if node.web.is_some() && !node.is(NodeRole::Edge) {
                return Err((key(at, "web"), format!("{}: an edge has a web door", node.name)));
            }
            let planes = node.data_plane.iter().map(|name| name.parse::<PlaneKind>());
            if let Some(why) = planes.filter_map(Result::err).next() {
                return Err((key(at, "data_plane"), why));
            }
            let (port, ports) = (self.port_of(node), self.ports());
            if port == 0 || port > u16::MAX - ports {
                return Err((key(at, "port"), format!("1..={}", u16::MAX - ports)));
            }
            if (port.saturating_sub(ports - 1)..port + ports)
                .any(|port| names_of(node).any(|name| places.contains(&(name, port))))
            {
                let why = format!("{}: nodes of one address need ports {ports} apart", node.name);
                return Err((key(at, "port"), why));
            }
            places.extend(names_of(node).map(|name| (name, port)));
        }
        self.check_shards()?;
        self.all_shards().try_for_each(|of| of.check_replicas())
    }

    /// Whether the roots of a shard can be a group.
    fn check_replicas(&self) -> Result<(), (String, String)> {
        // Where there are shards, whose it is.
        let node = match self.shards.is_empty() {
            true => "node".to_string(),
            false => format!("shard[{}].roots", self.shard.0),
        };
        if self.of(NodeRole::Learner).count() > VOTERS_MAX {
            let why = format!("at most {VOTERS_MAX} with the role learner");
            return Err((node, why));
        }
        if self.replicated().count() > usize::from(u8::MAX) {
            let why = format!("at most {} with the roles root, learner and reserve", u8::MAX);
            return Err((node, why));
        }
        match self.of(NodeRole::Root).count() {
            1 | 3 | 5 | 7 | 9 => Ok(()),
            other => {
                let why = format!("1, 3, 5, 7 or 9 with the role root, not {other}");
                Err((node, why))
            }
        }
    }

    /// Nodes with a role, in the shard that the file is seen as, and their numbers, in the order of the
    /// file.
    pub fn of(&self, role: NodeRole) -> impl Iterator<Item = (u16, &NodeEntry)> {
        (1..).zip(&self.nodes).filter(move |(_, node)| self.has(node, role))
    }

    /// A node by its name, with its number.
    ///
    /// # Errors
    /// No such node; the names that there are.
    pub fn node(&self, name: &str) -> Result<(u16, &NodeEntry), Failure> {
        let known = || {
            let names: Vec<&str> = self.nodes.iter().map(|node| &node.name[..]).collect();
            format!("{}: no node {name}: {}", self.path.display(), names.join(", "))
        };
        (1..)
            .zip(&self.nodes)
            .find(|(_, node)| node.name == name)
            .ok_or_else(|| Failure::Usage(known()))
    }

    /// A node by its number.
    pub fn numbered(&self, number: u16) -> Option<&NodeEntry> {
        self.nodes.get(usize::from(number).checked_sub(1)?)
    }

    /// Nodes that keep the log and their numbers: roots, then learners, then those in reserve, each in the
    /// order of the file. In this order they are the group's replicas, from 1.
    pub fn replicated(&self) -> impl Iterator<Item = (u16, &NodeEntry)> {
        let of = |role| self.of(role);
        of(NodeRole::Root).chain(of(NodeRole::Learner)).chain(of(NodeRole::Reserve))
    }

    /// The number of a replica of the root, from 1, by that of its node.
    pub fn replica(&self, number: u16) -> Option<u8> {
        let place = self.replicated().position(|(of, _)| of == number)?;
        Some(place as u8 + 1)
    }

    fn port_of(&self, node: &NodeEntry) -> u16 {
        node.port.unwrap_or(self.port)
    }

    /// The number of a node's port for one purpose.
    pub fn number(&self, node: &NodeEntry, port: Port) -> u16 {
        self.port_of(node) + self.offset(port)
    }

    /// Overlay nodes but the root, by their ids: which node of the file each is on, and its port.
    ///
    /// # Errors
    /// The file has not as many of a role as the venue's tree.
    pub fn overlay(&self, config: &Config) -> Result<Vec<(NodeId, u16, Port)>, Failure> {
        let topology = crate::deployment::topology(config)?;
        let placed = |id: &NodeId| topology.locate(*id).is_some();
        let (proxies, spares): (Vec<_>, Vec<_>) = topology.proxy_ids().partition(placed);
        let receivers = topology.receiver_ids().collect();
        let roles: [(NodeRole, Vec<NodeId>, Port); 3] = [
            (NodeRole::Proxy, proxies, Port::Proxy),
            (NodeRole::Edge, receivers, Port::Edge),
            (NodeRole::Standby, spares, Port::Proxy),
        ];
        let mut overlay = Vec::new();
        for (role, ids, port) in roles {
            let nodes: Vec<u16> = self.of(role).map(|(number, _)| number).collect();
            if nodes.len() != ids.len() {
                let of = match self.shards.is_empty() {
                    true => String::new(),
                    false => format!(" in shard {}", self.shard_name()),
                };
                return Err(Failure::Usage(format!(
                    "{}: {} nodes with the role {role:?}{of}, and the tree of {} has {}",
                    self.path.display(),
                    nodes.len(),
                    self.venue_path().display(),
                    ids.len()
                )));
            }
            overlay.extend(ids.into_iter().zip(nodes).map(|(id, number)| (id, number, port)));
        }
        overlay.sort_by_key(|(id, ..)| *id);
        Ok(overlay)
    }

    /// The file of the venue's settings.
    pub fn venue_path(&self) -> PathBuf {
        self.path.with_file_name("").join(&self.venue)
    }

    /// The file with the certificate of the cluster's authority.
    pub fn authority_path(&self) -> PathBuf {
        self.path.with_file_name("").join(&self.authority)
    }

    /// The venue's settings as its machines have them: the log is on the disks of most roots, and
    /// nobody plays.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn venue(&self) -> Result<Config, Failure> {
        let config = crate::config::read(Some(&self.venue_path()))?;
        let mut config = settled(config, self.of(NodeRole::Root).count());
        config.journal.reserve = self.of(NodeRole::Reserve).count() as u32;
        self.place_shards(&mut config)?;
        Ok(config)
    }
}

/// Settings of a venue as its machines have them, with so many replicas of the root.
pub fn settled(mut config: Config, roots: usize) -> Config {
    config.journal.durability = "replicated".to_string();
    config.journal.replicas = roots as u32;
    config.overlay.change_tree_at_percent = 0;
    config
}

const NAMES: &str = "1 to 32 letters, digits and -";

fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// What two machines have to agree on: a digest of the cluster file, but for what is of one machine alone
/// (`hosts`, `bind`, `dir`, `subscribers`, `groups`, `ring`, `ring_group`, `core`, `root_core`, `data_plane`, `duplicate_filter`, `web`) or of whoever leads (`[plan]`, `[scale]`), and of all settings of a venue but those of one machine alone (`[admin]`, `[ports]`, `[flow]`, `[store]`, `[loops]`, `[memory]`, `[journal]`, `[[strategy]]`, `[enclaves]`), and passwords: the digest
/// is told to people, and short passwords could be guessed from it. Settings that are as they are by
/// default don't count, or a version with one more key could not be put in place of an older one, machine by
/// machine; a version whose defaults are others speaks another version of the messages.
///
/// # Errors
/// Never for a configuration that was read.
pub fn venue_digest(file: &ClusterFile, config: &Config) -> Result<u64, Failure> {
    let local = "admin ports flow store telemetry loops memory journal strategy enclaves";
    let of = |config: &Config| {
        serde_json::to_value(config).map_err(|error| Failure::Run(error.to_string()))
    };
    let mut value = of(config)?;
    leave_out(&mut value, &of(&Config::default())?);
    if let Some(sections) = value.as_object_mut() {
        local.split(' ').for_each(|section| drop(sections.remove(section)));
    }
    let mut text = value.to_string();
    text += &format!("\n{} {} {} {}", file.name, file.id, file.session, file.midnight_ns);
    if !file.prefer.is_usual() {
        text += &format!(" {}", file.prefer);
    }
    for node in &file.nodes {
        let (NodeEntry { name, address, roles, zone, .. }, port) = (node, file.port_of(node));
        text += &format!("\n{name} {address} {roles:?} {zone} {port} {}", node.public());
        node.also.iter().for_each(|also| text += &format!(" also {also}"));
    }
    text += &file.shards_text();
    Ok(engine::digest_of(text.as_bytes()))
}

/// A digest of settings as people and `cluster status --json` have it.
pub fn digest_text(digest: u64) -> String {
    format!("{digest:016x}")
}

/// Takes out of settings what is as `usual`, sections of which nothing is left included.
fn leave_out(settings: &mut Value, usual: &Value) {
    let (Some(settings), Some(usual)) = (settings.as_object_mut(), usual.as_object()) else {
        return;
    };
    settings.retain(|key, value| {
        let usual = usual.get(key);
        if let Some(usual) = usual {
            leave_out(value, usual);
        }
        Some(&*value) != usual && value.as_object().is_none_or(|section| !section.is_empty())
    });
}

mod hosts;
#[cfg(test)]
mod tests;
