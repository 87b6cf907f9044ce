//! The shards of a cluster file: which machines are the roots and the proxies of each.
//!
//! A file is read as the first shard has it, and [`ClusterFile::of_shard`] is the same file as another one
//! does: nodes and their numbers are the same, but roots, learners, those in reserve, proxies and those
//! that stand by are those of that shard alone, and so are replicas' numbers and the ports of proxies and
//! edges. Without `[[shard]]` there is one, which has all.

use std::collections::BTreeSet;
use std::path::Path;

use net::plane::PlaneKind;
use serde::{Deserialize, Serialize};
use types::ShardId;
use types::limits::SHARDS_MAX;

use super::file::{ClusterFile, NodeEntry, NodeRole, PORTS, Port};
use crate::config::Config;
use crate::config::shards::{self, NAMES, ShardEntry, Shards};
use crate::failure::Failure;

/// `[[shard]]` of a cluster file.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardNodes {
    /// Its name: letters, digits, `-`, 1 to 32 bytes.
    pub name: String,
    /// Symbols of its instruments; none where the venue's settings say them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<String>,
    /// Nodes that keep its log: one root, or a group of 3, 5, 7 or 9; learners and those in reserve.
    pub roots: Vec<String>,
    /// Its proxies; without them all nodes with that role, each of which then is one of several shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxies: Option<Vec<String>>,
    /// Who stands by for its proxies; without them all nodes with that role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<Vec<String>>,
}

impl ShardNodes {
    /// Whether a node has a role in this shard.
    fn has(&self, node: &NodeEntry, role: NodeRole) -> bool {
        let named = |list: &Option<Vec<String>>| {
            list.as_ref().is_none_or(|names| names.contains(&node.name))
        };
        node.is(role)
            && match role {
                NodeRole::Root | NodeRole::Learner | NodeRole::Reserve => {
                    self.roots.contains(&node.name)
                }
                NodeRole::Proxy => named(&self.proxies),
                NodeRole::Standby => named(&self.standby),
                NodeRole::Edge | NodeRole::Snapshot => true,
            }
    }
}

impl ClusterFile {
    /// Numbers of the shards.
    pub fn shard_ids(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards.len().max(1) as u16).map(ShardId)
    }

    /// How many there are.
    pub fn shard_count(&self) -> u16 {
        self.shards.len().max(1) as u16
    }

    /// Which one this file is seen as.
    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// What people call the shard that it is seen as.
    pub fn shard_name(&self) -> String {
        let known = self.shards.get(usize::from(self.shard.0)).map(|of| of.name.clone());
        known.unwrap_or_else(|| format!("shard-{}", self.shard.0 + 1))
    }

    /// The same file as a shard has it.
    #[must_use]
    pub fn of_shard(&self, shard: ShardId) -> ClusterFile {
        let mut of = self.clone();
        of.shard = shard;
        of
    }

    /// The same file as each of the shards has it, in order.
    pub fn all_shards(&self) -> impl Iterator<Item = ClusterFile> + '_ {
        self.shard_ids().map(|shard| self.of_shard(shard))
    }

    /// The same file as the shard has it whose log a node keeps; as the first one does where it keeps
    /// none.
    #[must_use]
    pub fn of_node(&self, node: &NodeEntry) -> ClusterFile {
        let own = self.shards.iter().position(|of| of.roots.contains(&node.name));
        self.of_shard(ShardId(own.unwrap_or(0) as u16))
    }

    /// The same file as the shard of a name, or of a number from 1, has it.
    ///
    /// # Errors
    /// No such shard; those that there are.
    pub fn named_shard(&self, text: &str) -> Result<ClusterFile, Failure> {
        let names: Vec<String> = self.all_shards().map(|of| of.shard_name()).collect();
        let named = names.iter().position(|name| name == text);
        let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        match named.or(number.filter(|at| *at < names.len())) {
            Some(at) => Ok(self.of_shard(ShardId(at as u16))),
            None => Err(Failure::Usage(format!(
                "{}: no shard {text}: {}",
                self.path.display(),
                names.join(", ")
            ))),
        }
    }

    /// Whether a node has a role in the shard that the file is seen as.
    pub(super) fn has(&self, node: &NodeEntry, role: NodeRole) -> bool {
        match self.shards.get(usize::from(self.shard.0)) {
            Some(of) => of.has(node, role),
            None => node.is(role),
        }
    }

    /// Whether a node has anything of the shard that the file is seen as.
    pub fn concerns(&self, number: u16) -> bool {
        let roles = [
            NodeRole::Root,
            NodeRole::Learner,
            NodeRole::Reserve,
            NodeRole::Proxy,
            NodeRole::Standby,
            NodeRole::Edge,
        ];
        let node = self.numbered(number);
        node.is_some_and(|node| roles.into_iter().any(|role| self.has(node, role)))
    }

    /// Number of the group of roots of this shard: the venue's for the first one.
    pub fn group(&self) -> u64 {
        match self.shard.0 {
            0 => self.id,
            shard => engine::digest_of(format!("{:016x} shard {shard}", self.id).as_bytes()).max(1),
        }
    }

    /// Ports of a node behind its first one: each shard behind the first has two more.
    pub fn ports(&self) -> u16 {
        PORTS + 2 * (self.shard_count() - 1)
    }

    /// How far a port is behind a node's first one.
    pub(super) fn offset(&self, port: Port) -> u16 {
        match (self.shard.0, port) {
            (0, port) => port.behind(),
            (shard, Port::Proxy) => PORTS + 2 * (shard - 1),
            (shard, Port::Edge) => PORTS + 2 * (shard - 1) + 1,
            (_, port) => port.behind(),
        }
    }

    /// Gives the venue's settings the shards of this file.
    ///
    /// # Errors
    /// What does not fit: file and key.
    pub(super) fn place_shards(&self, config: &mut Config) -> Result<(), Failure> {
        let wrong = |key: &str, why: String| {
            Failure::Usage(format!("{}: shard{key}: {why}", self.path.display()))
        };
        if self.shards.is_empty() {
            let named = config.shards.0.len();
            if named > 1 {
                let why = format!(
                    "{} has {named}, and this file says of none which machines are its roots",
                    self.venue_path().display()
                );
                return Err(wrong("", why));
            }
            return Ok(());
        }
        let settings = std::mem::take(&mut config.shards);
        let mut placed = Vec::new();
        for (at, of) in self.shards.iter().enumerate() {
            let known = settings.0.iter().find(|entry| entry.name == of.name);
            let symbols = match (&of.symbols[..], known) {
                ([], Some(known)) => known.symbols.clone(),
                (own, Some(known)) if own != known.symbols => {
                    let path = self.venue_path();
                    let why = format!("not those that {} says: {own:?}", path.display());
                    return Err(wrong(&format!("[{at}].symbols"), why));
                }
                (own, _) => own.to_vec(),
            };
            placed.push(ShardEntry { name: of.name.clone(), symbols });
        }
        if let Some(other) =
            settings.0.iter().find(|entry| !placed.iter().any(|of| of.name == entry.name))
        {
            let path = self.venue_path();
            let why =
                format!("{} has {:?}, which is none of this file", path.display(), other.name);
            return Err(wrong("", why));
        }
        config.shards = Shards(placed);
        config.of_shard = self.shard.0;
        shards::check(config).map_err(|(key, why)| wrong(&key, why))
    }

    /// What is wrong with the shards: key and why.
    pub(super) fn check_shards(&self) -> Result<(), (String, String)> {
        if self.shards.len() > SHARDS_MAX {
            return Err(("shard".to_string(), format!("at most {SHARDS_MAX}")));
        }
        let mut names = BTreeSet::new();
        for (at, of) in self.shards.iter().enumerate() {
            let key = |name: &str| format!("shard[{at}].{name}");
            if !shards::is_name(&of.name) {
                return Err((key("name"), NAMES.to_string()));
            }
            if !names.insert(&of.name) {
                return Err((key("name"), format!("{} is named twice", of.name)));
            }
            let lists = [
                (
                    "roots",
                    Some(&of.roots),
                    &[NodeRole::Root, NodeRole::Learner, NodeRole::Reserve][..],
                ),
                ("proxies", of.proxies.as_ref(), &[NodeRole::Proxy]),
                ("standby", of.standby.as_ref(), &[NodeRole::Standby]),
            ];
            for (name, list, roles) in lists {
                let mut once = BTreeSet::new();
                for node in list.into_iter().flatten() {
                    let known = self.nodes.iter().find(|known| known.name == *node);
                    let why = match known {
                        None => format!("{node} is no [[node]]"),
                        Some(known) if !roles.iter().any(|role| known.is(*role)) => {
                            format!("{node} has not the role {:?}", roles[0])
                        }
                        Some(_) if !once.insert(node) => format!("{node} is named twice"),
                        Some(_) => continue,
                    };
                    return Err((key(name), why));
                }
            }
            for root in &of.roots {
                let other = self.shards.iter().take(at).find(|other| other.roots.contains(root));
                if let Some(other) = other {
                    let why = format!(
                        "{root} is a root of {} already, and a process is one of one shard only: give the \
                         machine a second [[node]] with another `port`",
                        other.name
                    );
                    return Err((key("roots"), why));
                }
            }
        }
        if self.shards.is_empty() {
            return Ok(());
        }
        let roles = [
            (NodeRole::Root, "roots"),
            (NodeRole::Learner, "roots"),
            (NodeRole::Reserve, "roots"),
            (NodeRole::Proxy, "proxies"),
            (NodeRole::Standby, "standby"),
        ];
        for (at, node) in self.nodes.iter().enumerate() {
            for (role, list) in roles {
                if node.is(role) && !self.shards.iter().any(|of| of.has(node, role)) {
                    let why = format!(
                        "{} has the role {role:?} in no shard: name it in the {list} of one",
                        node.name
                    );
                    return Err((format!("node[{at}].roles"), why));
                }
            }
        }
        Ok(())
    }

    /// What two machines have to agree on of the shards; empty where there are none.
    pub(super) fn shards_text(&self) -> String {
        let mut text = String::new();
        for ShardNodes { name, roots, proxies, standby, .. } in &self.shards {
            text += &format!("\nshard {name} {roots:?} {proxies:?} {standby:?}");
        }
        text
    }
}

/// The settings of a venue as those read them who have its logs only: those of a file, or where that is a
/// venue's `cluster.toml` the ones that it names, with its shards.
///
/// # Errors
/// What is wrong with the file.
pub fn settings(path: Option<&Path>) -> Result<Config, Failure> {
    let is_cluster = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.trim() == "[cluster]")
    };
    match path.filter(|path| is_cluster(path)) {
        Some(path) => ClusterFile::read(path)?.venue(),
        None => Ok(crate::config::read(path)?),
    }
}

impl NodeEntry {
    /// How overlay datagrams leave it: as it says itself, or the venue's settings.
    pub fn data_planes(&self, config: &Config) -> Vec<PlaneKind> {
        if self.data_plane.is_empty() {
            return config.overlay.data_planes();
        }
        // Checked when the file was read.
        self.data_plane.iter().filter_map(|name| name.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shards: &str) -> String {
        let mut text = "[cluster]\nname = \"lab\"\nid = \"00000000000000a7\"\nsession = \
                        \"FB12345678\"\nmidnight = \"2026-11-25\"\nvenue = \"venue.toml\"\nauthority = \
                        \"authority.pem\"\n"
            .to_string();
        text += shards;
        for (name, role) in [
            ("a-1", "root"),
            ("a-2", "root"),
            ("a-3", "root"),
            ("b-1", "root"),
            ("p-1", "proxy"),
            ("p-2", "proxy"),
            ("e-1", "edge"),
        ] {
            text += &format!(
                "[[node]]\nname = \"{name}\"\naddress = \"{name}\"\nroles = [\"{role}\"]\n"
            );
        }
        text
    }

    fn read(shards: &str) -> Result<ClusterFile, String> {
        let file = ClusterFile::parse(Path::new("c.toml"), &text(shards));
        file.map_err(|why| why.to_string())
    }

    const TWO: &str = "[[shard]]\nname = \"a\"\nsymbols = [\"AAA\"]\nroots = [\"a-1\", \"a-2\", \"a-3\"]\n\
                       [[shard]]\nname = \"b\"\nsymbols = [\"BBB\"]\nroots = [\"b-1\"]\nproxies = [\"p-2\"]\n";

    #[test]
    fn a_shard_sees_its_own_roots_proxies_and_ports_and_all_edges() {
        let first = read(TWO).expect("good");
        assert_eq!(
            ClusterFile::parse(&first.path, &first.text().expect("text")).expect("again"),
            first
        );
        let second = first.named_shard("b").expect("there");
        let names =
            |file: &ClusterFile, role| file.of(role).map(|(number, _)| number).collect::<Vec<_>>();
        assert_eq!(
            (names(&first, NodeRole::Root), names(&second, NodeRole::Root)),
            (vec![1, 2, 3], vec![4])
        );
        assert_eq!(
            (names(&first, NodeRole::Proxy), names(&second, NodeRole::Proxy)),
            (vec![5, 6], vec![6])
        );
        assert_eq!(names(&second, NodeRole::Edge), [7]);
        assert_eq!((first.replica(4), second.replica(4)), (None, Some(1)));
        let (_, edge) = first.node("e-1").expect("there");
        let ports = [Port::Edge, Port::Proxy, Port::Ouch];
        assert_eq!(ports.map(|port| first.number(edge, port)), [7_008, 7_007, 7_010]);
        assert_eq!(ports.map(|port| second.number(edge, port)), [7_017, 7_016, 7_010]);
        assert_eq!((first.group(), first.ports()), (first.id, 18));
        assert_ne!(second.group(), first.group());
        assert_eq!(first.named_shard("2").expect("there").shard(), ShardId(1));
        let why = first.named_shard("c").expect_err("none").to_string();
        assert!(why.contains("no shard c: a, b"), "{why}");
        let (_, root) = first.node("b-1").expect("there");
        assert_eq!(first.of_node(root).shard(), ShardId(1));
        // Control: without shards there is one, and four roots are no group.
        let why = read("").expect_err("four roots");
        assert!(why.contains("1, 3, 5, 7 or 9 with the role root, not 4"), "{why}");
    }

    #[test]
    fn what_can_not_be_is_refused_with_the_key() {
        for (from, to, said) in [
            ("\"b-1\"]", "\"b-1\", \"a-1\"]", "shard[1].roots: a-1 is a root of a already"),
            ("\"b-1\"]", "\"b-1\", \"x-1\"]", "shard[1].roots: x-1 is no [[node]]"),
            ("\"b-1\"]", "\"b-1\", \"p-1\"]", "shard[1].roots: p-1 has not the role Root"),
            ("\"b-1\"]", "\"b-1\", \"b-1\"]", "shard[1].roots: b-1 is named twice"),
            ("\"a-2\", \"a-3\"", "\"a-2\"", "node[2].roles: a-3 has the role Root in no shard"),
            ("[\"p-2\"]", "[\"e-1\"]", "shard[1].proxies: e-1 has not the role Proxy"),
            ("name = \"b\"", "name = \"a\"", "shard[1].name: a is named twice"),
            ("name = \"b\"", "name = \"b c\"", "shard[1].name: 1 to 32"),
            ("roots = [\"b-1\"]", "roots = []", "node[3].roles: b-1 has the role Root in no shard"),
            ("name = \"b\"", "nam = \"b\"", "unknown field `nam`"),
        ] {
            assert!(TWO.contains(from));
            let why = read(&TWO.replacen(from, to, 1)).expect_err(to);
            assert!(why.contains(said) && why.starts_with("c.toml:"), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
    }
}
