//! Where the nodes of a cluster file are: names to addresses, of both versions of IP.
//!
//! A node's `address` is a name or an IP address; one that is an IP address may have a second one of the
//! other version, `also`. Two machines use a version that both have, `[cluster] prefer` where that
//! is both of them: so each expects the other's datagrams from the address that they come from. Machines
//! that have none in common can't be in one venue, unless both are edges, which say nothing to each
//! other.
//!
//! Link-local addresses (fe80::/10) are not used: they need the name of an interface, which is another
//! one on every machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Serialize};

use super::file::{ClusterFile, NodeEntry, NodeRole, Port};
use crate::failure::Failure;
use crate::replica::cluster::ReplicaAddresses;

/// Of a machine whose name has no address at present: nothing is sent there, and nothing comes from there.
pub const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A version of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpVersion {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl IpVersion {
    /// Which one an address is of.
    pub fn of(ip: IpAddr) -> IpVersion {
        if ip.is_ipv6() { IpVersion::Ipv6 } else { IpVersion::Ipv4 }
    }

    /// Whether it is the usual one.
    pub(super) fn is_usual(&self) -> bool {
        *self == IpVersion::default()
    }
}

impl std::fmt::Display for IpVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == IpVersion::Ipv4 { "IPv4" } else { "IPv6" })
    }
}

/// Names and addresses that a node is reached by.
pub(super) fn names_of(node: &NodeEntry) -> impl Iterator<Item = &String> {
    std::iter::once(&node.address).chain(&node.also)
}

/// The key of a node whose address can't be one, and why, as far as it can be seen from the text.
pub(super) fn wrong(node: &NodeEntry) -> Option<(&'static str, String)> {
    let bind = node.bind.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    let texts =
        [("address", Some(&node.address)), ("also", node.also.as_ref()), ("bind", bind.as_ref())];
    for (key, text) in texts {
        if let Some(why) = text.and_then(|text| wrong_text(text)) {
            return Some((key, why));
        }
    }
    let why = "addresses and ports like \"10.0.0.9:7100\" or \"[fd00::9]:7100\"; no link-local ones, no \
               zones";
    (!node.subscribers.iter().all(is_plain)).then(|| ("subscribers", why.to_string()))
}

fn wrong_text(text: &str) -> Option<String> {
    if text.contains(['[', ']', '%']) {
        return Some(format!("{text}: an IPv6 address stands without brackets and without a zone"));
    }
    let ip = text.parse::<IpAddr>().ok()?.to_canonical();
    if is_link_local(ip) {
        return Some(format!("{text}: {LINK_LOCAL}"));
    }
    let unusable = ip.is_unspecified() || ip.is_multicast();
    unusable.then(|| format!("{text}: no address of a machine"))
}

/// Whether datagrams can be sent to an address and port without knowing more than that.
pub(super) fn is_plain(at: &SocketAddr) -> bool {
    let zone = matches!(at, SocketAddr::V6(at) if at.scope_id() != 0);
    at.port() > 0 && !at.ip().is_unspecified() && !is_link_local(at.ip()) && !zone
}

/// Addresses of a name in a file of hosts: an address and its names on each line, `#` begins a comment.
fn named(hosts: &str, name: &str) -> Vec<IpAddr> {
    let line = |line: &str| {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let ip = words.next()?.parse::<IpAddr>().ok()?;
        words.any(|word| word == name).then_some(ip)
    };
    hosts.lines().filter_map(line).collect()
}

const LINK_LOCAL: &str = "a link-local address means another machine on every segment: use a unique \
                          local (fd00::/8) or a global one";

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether machines with these roles say anything to each other but over control connections.
fn talk(one: &NodeEntry, other: &NodeEntry) -> bool {
    let inner =
        [NodeRole::Root, NodeRole::Learner, NodeRole::Reserve, NodeRole::Proxy, NodeRole::Standby];
    inner.iter().any(|role| one.is(*role) || other.is(*role))
}

impl ClusterFile {
    /// Where a port of a node is reached, as its names resolve now: one address of each version of IP at
    /// most, the preferred version first.
    ///
    /// # Errors
    /// A name that has no address.
    pub fn places(&self, node: &NodeEntry, port: Port) -> Result<Vec<SocketAddr>, Failure> {
        let failed = |name: &str, why: &str| {
            let at = self.path.display();
            Failure::Run(format!("{at}: {}: {name}: {why}", node.name))
        };
        let mut found: Vec<SocketAddr> = Vec::new();
        for name in names_of(node) {
            let places = self.resolve(name, self.number(node, port));
            let places = places.map_err(|error| failed(name, &error.to_string()))?;
            let before = found.len();
            for at in
                places.into_iter().map(|at| SocketAddr::new(at.ip().to_canonical(), at.port()))
            {
                let new = found.iter().all(|known| known.is_ipv6() != at.is_ipv6());
                if new && !is_link_local(at.ip()) {
                    found.push(at);
                }
            }
            if found.len() == before {
                let why = if before == 0 { LINK_LOCAL } else { "adds no other version of IP" };
                return Err(failed(name, why));
            }
        }
        found.sort_by_key(|at| IpVersion::of(at.ip()) != self.prefer);
        Ok(found)
    }

    /// Addresses of a name: those of the file of hosts, else those that the system knows.
    fn resolve(&self, name: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        let known = match (&self.hosts, name.parse::<IpAddr>()) {
            (Some(path), Err(_)) => named(&std::fs::read_to_string(path)?, name),
            _ => Vec::new(),
        };
        match known.is_empty() {
            true => Ok((name, port).to_socket_addrs()?.collect()),
            false => Ok(known.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()),
        }
    }

    /// Where a port of a node is reached, by the preferred version of IP if it has that.
    ///
    /// # Errors
    /// As [`ClusterFile::places`].
    pub fn at(&self, node: &NodeEntry, port: Port) -> Result<SocketAddr, Failure> {
        let places = self.places(node, port)?;
        let none = || Failure::Run(format!("{}: no address", node.name));
        places.first().copied().ok_or_else(none)
    }

    /// Where the machine `own` reaches a port of another one, in the order of preference.
    ///
    /// # Errors
    /// As [`ClusterFile::places`]; they have no version of IP in common.
    pub fn ways(
        &self,
        own: &NodeEntry,
        other: &NodeEntry,
        port: Port,
    ) -> Result<Vec<SocketAddr>, Failure> {
        let mut there = self.places(other, port)?;
        if own.name == other.name {
            return Ok(there);
        }
        let here = self.places(own, port)?;
        let versions = |of: &[SocketAddr]| {
            of.iter().map(|at| IpVersion::of(at.ip()).to_string()).collect::<Vec<_>>().join(", ")
        };
        let (has, wants) = (versions(&here), versions(&there));
        there.retain(|at| here.iter().any(|own| own.is_ipv6() == at.is_ipv6()));
        if there.is_empty() {
            return Err(Failure::Usage(format!(
                "{}: {} has {has} and {} {wants}: they can't reach each other; give one of them \
                 the other version, by `also` or a name with both",
                self.path.display(),
                own.name,
                other.name
            )));
        }
        Ok(there)
    }

    /// Where the machine `own` sends what is for a port of another one, and expects what comes from
    /// there.
    ///
    /// # Errors
    /// As [`ClusterFile::ways`].
    pub fn between(
        &self,
        own: &NodeEntry,
        other: &NodeEntry,
        port: Port,
    ) -> Result<SocketAddr, Failure> {
        let ways = self.ways(own, other, port)?;
        ways.first().copied().ok_or_else(|| Failure::Run(format!("{}: no address", other.name)))
    }

    /// As [`ClusterFile::between`]; where two machines have nothing to say to each other and no version
    /// in common, an address of the other one that nothing is sent to. [`NOWHERE`] for a machine whose
    /// name has no address at present, unless it keeps the log.
    ///
    /// # Errors
    /// As there.
    pub fn known(
        &self,
        own: &NodeEntry,
        other: &NodeEntry,
        port: Port,
    ) -> Result<SocketAddr, Failure> {
        if self.is_nowhere(other) {
            return Ok(NOWHERE);
        }
        match talk(own, other) {
            true => self.between(own, other, port),
            false => self.between(own, other, port).or_else(|_| self.at(other, port)),
        }
    }

    /// Whether a machine is not there yet, or any more: its name has no address. Roots have to have one.
    fn is_nowhere(&self, node: &NodeEntry) -> bool {
        !node.keeps_log() && matches!(self.places(node, Port::Control), Err(Failure::Run(_)))
    }

    /// Whether the machine `own` reaches every one that it has to, by addresses that its `bind` covers.
    ///
    /// # Errors
    /// The first one that it does not reach, and why.
    pub fn check_ways(&self, own: &NodeEntry) -> Result<(), Failure> {
        for other in self.nodes.iter().filter(|other| other.name != own.name && talk(own, other)) {
            if self.is_nowhere(other) {
                continue;
            }
            let at = self.between(own, other, Port::Control)?;
            let covers = |ip: IpAddr| match ip {
                IpAddr::V6(ip) => ip.is_unspecified() || at.is_ipv6(),
                IpAddr::V4(_) => at.is_ipv4(),
            };
            if let Some(bind) = own.bind.filter(|bind| !covers(*bind)) {
                return Err(Failure::Usage(format!(
                    "{}: {}: it reaches {} at {}, and `bind` is {bind}: use \"::\", which is both \
                     versions of IP, or an address of that version",
                    self.path.display(),
                    own.name,
                    other.name,
                    at.ip()
                )));
            }
        }
        Ok(())
    }

    /// What a node binds for a port of its own: where it names no address to bind, all of the machine,
    /// those of IPv6 only if the node has one.
    pub fn bound(&self, node: &NodeEntry, port: Port) -> SocketAddr {
        let usual = || match self.places(node, port) {
            Ok(places) if places.iter().any(SocketAddr::is_ipv6) => Ipv6Addr::UNSPECIFIED.into(),
            _ => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        SocketAddr::new(node.bind.unwrap_or_else(usual), self.number(node, port))
    }

    /// Places of the replicas with a role, as the machine `own` reaches them: of those that the group was
    /// made with, or of learners.
    ///
    /// # Errors
    /// Names without an address; no version of IP in common.
    pub fn replicas(
        &self,
        own: &NodeEntry,
        role: NodeRole,
    ) -> Result<Vec<ReplicaAddresses>, Failure> {
        let place = |(_, node): (u16, &NodeEntry)| {
            Ok(ReplicaAddresses {
                overlay: self.between(own, node, Port::Root)?,
                feed: self.between(own, node, Port::Retransmission)?,
                link: self.between(own, node, Port::Link)?,
            })
        };
        self.of(role).map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// One root and two edges; what stands in the file of the cluster and of each.
    fn file(cluster: &str, root: &str, edges: [&str; 2]) -> Result<ClusterFile, Failure> {
        let mut text = format!(
            "[cluster]\nname = \"lab\"\nid = \"00000000000000a7\"\nsession = \"FB12345678\"\n\
             midnight = \"2026-11-25\"\nvenue = \"venue.toml\"\nauthority = \"authority.pem\"\n\
             {cluster}\n"
        );
        let nodes =
            [("root-1", "root", root), ("edge-1", "edge", edges[0]), ("edge-2", "edge", edges[1])];
        for ((name, role, rest), port) in nodes.into_iter().zip((7_000..).step_by(16)) {
            text += &format!(
                "[[node]]\nname = \"{name}\"\nroles = [\"{role}\"]\nport = {port}\n{rest}\n"
            );
        }
        let read = ClusterFile::parse(Path::new("some/cluster.toml"), &text)?;
        assert_eq!(ClusterFile::parse(&read.path, &read.text()?)?, read);
        Ok(read)
    }

    const BOTH: &str = "address = \"10.0.0.1\"\nalso = \"fd00::1\"";
    const V4: &str = "address = \"10.0.0.2\"";
    const V6: &str = "address = \"fd00::3\"";

    fn of<'a>(file: &'a ClusterFile, name: &str) -> &'a NodeEntry {
        file.node(name).expect("there").1
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn two_machines_use_a_version_that_both_have_and_the_same_one_at_both_ends() {
        let known = file("", BOTH, [V4, V6]).expect("good");
        let [root, v4, v6] = ["root-1", "edge-1", "edge-2"].map(|name| of(&known, name));
        let way = |own, other| known.between(own, other, Port::Root).expect("a way");
        assert_eq!((way(v4, root), way(v6, root)), (at("10.0.0.1:7000"), at("[fd00::1]:7000")));
        assert_eq!((way(root, v4), way(root, v6)), (at("10.0.0.2:7016"), at("[fd00::3]:7032")));
        assert_eq!(way(root, root), at("10.0.0.1:7000"));
        assert!([root, v4, v6].iter().all(|own| known.check_ways(own).is_ok()));
        let both = [at("10.0.0.1:7004"), at("[fd00::1]:7004")];
        assert_eq!(known.places(root, Port::Control).expect("two"), both);
        // Edges of two versions have nothing to say to each other.
        let why = known.between(v4, v6, Port::Clock).expect_err("no way").to_string();
        assert!(why.contains("edge-1 has IPv4 and edge-2 IPv6: they can't reach each other"));
        assert_eq!(known.known(v4, v6, Port::Claims).expect("known"), at("[fd00::3]:7037"));
        // Control: with an edge that passes things on they have.
        let known = file("", BOTH, [V4, "address = \"fd00::3\""]).expect("good");
        let mut known = known;
        known.nodes[2].roles.push(NodeRole::Proxy);
        let [v4, v6] = ["edge-1", "edge-2"].map(|name| of(&known, name));
        assert!(known.check_ways(v4).is_err() && known.check_ways(v6).is_err());
        assert!(known.known(v4, v6, Port::Claims).is_err());
    }

    #[test]
    fn a_machine_is_where_its_name_leads_now_and_nowhere_without_an_address() {
        let dir = std::env::temp_dir().join(format!("fairbell-names-{}", std::process::id()));
        crate::files::folder(&dir).expect("a folder");
        let path = dir.join("hosts");
        let names = ["edge-1.venue.invalid", "root-1.venue.invalid"];
        let [v4, root] = names.map(|name| format!("address = \"{name}\""));
        let hosts = format!("hosts = \"{}\"", path.display());
        let known = file(&hosts, &root, [&v4, "address = \"10.0.0.4\""]).expect("good");
        let [own, edge, other] = ["root-1", "edge-1", "edge-2"].map(|name| of(&known, name));
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("# nobody\n10.0.0.1 root-1.venue.invalid # edge-1.venue.invalid\n");
        assert_eq!(known.known(own, edge, Port::Edge).expect("not there yet"), NOWHERE);
        assert!(known.check_ways(own).is_ok(), "one that is not there yet is not waited for");
        write("10.0.0.1 root-1.venue.invalid\n10.0.0.2\tedge-1 edge-1.venue.invalid\n");
        assert_eq!(known.known(own, edge, Port::Edge).expect("there"), at("10.0.0.2:7024"));
        write("10.0.0.1 root-1.venue.invalid\n10.0.0.9 edge-1.venue.invalid\n");
        assert_eq!(known.known(own, edge, Port::Edge).expect("moved"), at("10.0.0.9:7024"));
        assert_eq!(known.known(own, other, Port::Edge).expect("an address"), at("10.0.0.4:7040"));
        // Control: a root has to have one.
        write("10.0.0.9 edge-1.venue.invalid\n");
        assert!(known.known(edge, own, Port::Root).is_err() && known.check_ways(edge).is_err());
        let _ = std::fs::remove_dir_all(dir);
    }

    #[test]
    fn a_file_may_prefer_ipv6_and_that_is_another_venue() {
        let usual = file("", BOTH, [BOTH_2, V6]).expect("good");
        let six = file("prefer = \"ipv6\"", BOTH, [BOTH_2, V6]).expect("good");
        for (known, to) in [(&usual, "10.0.0.2:7016"), (&six, "[fd00::2]:7016")] {
            let (root, edge) = (of(known, "root-1"), of(known, "edge-1"));
            assert_eq!(known.between(root, edge, Port::Root).expect("a way"), at(to));
        }
        let digest = |file| {
            super::super::file::venue_digest(file, &crate::config::Config::default()).expect("one")
        };
        assert_ne!(digest(&usual), digest(&six));
        let other = file("", BOTH, [BOTH_2.replace("fd00::2", "fd00::9").as_str(), V6]);
        assert_ne!(digest(&usual), digest(&other.expect("good")), "a second address counts");
        assert!(file("prefer = \"ipv5\"", BOTH, [V4, V6]).is_err());
    }

    const BOTH_2: &str = "address = \"10.0.0.2\"\nalso = \"fd00::2\"";

    #[test]
    fn a_node_binds_all_of_its_addresses_and_one_that_can_not_reach_others_is_told_so() {
        let known = file("", BOTH, [V4, V6]).expect("good");
        let bound = |name| known.bound(of(&known, name), Port::Edge);
        assert_eq!((bound("root-1"), bound("edge-1")), (at("[::]:7008"), at("0.0.0.0:7024")));
        assert_eq!(bound("edge-2"), at("[::]:7040"));
        let bind = |ip: &str| {
            let root = format!("{BOTH}\nbind = \"{ip}\"");
            let known = file("", &root, [V4, V6]).expect("good");
            known.check_ways(of(&known, "root-1"))
        };
        assert_eq!(bind("::"), Ok(()));
        for ip in ["0.0.0.0", "10.0.0.1", "fd00::1"] {
            let why = bind(ip).expect_err(ip).to_string();
            assert!(why.contains("root-1: it reaches edge-") && why.contains(ip), "{why}");
        }
    }

    #[test]
    fn addresses_that_are_no_machines_are_refused_with_file_and_key() {
        for (root, said) in [
            ("address = \"fe80::1\"", "node[0].address: root-1: fe80::1: a link-local address"),
            (
                "address = \"fe80::1%eth0\"",
                "node[0].address: root-1: fe80::1%eth0: an IPv6 address",
            ),
            (
                "address = \"[fd00::1]\"",
                "node[0].address: root-1: [fd00::1]: an IPv6 address stands",
            ),
            ("address = \"::\"", "node[0].address: root-1: ::: no address of a machine"),
            ("address = \"ff15::3\"", "node[0].address: root-1: ff15::3: no address of a machine"),
            ("address = \"10.0.0.1\"\nalso = \"fe80::1\"", "node[0].also: root-1: fe80::1: a link"),
            ("address = \"10.0.0.1\"\nbind = \"fe80::1\"", "node[0].bind: root-1: fe80::1: a link"),
            ("address = \"fd00::1\"\ngroups = [\"[fd00::2]:7100\"]", "node[0].groups: root-1: at"),
            (
                "address = \"fd00::1\"\ngroups = [\"[ff12::3%2]:7100\"]",
                "node[0].groups: root-1: at",
            ),
            ("address = \"fd00::1\"\nsubscribers = [\"[fe80::2]:7100\"]", "node[0].subscribers:"),
            ("address = \"fd00::1\"\nsubscribers = [\"[fd00::2]:0\"]", "node[0].subscribers:"),
        ] {
            let why = file("", root, [V4, V6]).expect_err(root).to_string();
            assert!(why.starts_with("some/cluster.toml: ") && why.contains(said), "{why}");
            assert_eq!(why.lines().count(), 1, "{why}");
        }
        // A second address of the same version says nothing; control: one of the other one.
        let same = file("", "address = \"10.0.0.1\"\nalso = \"10.0.0.9\"", [V4, V6]).expect("text");
        let why = same.places(of(&same, "root-1"), Port::Root).expect_err("the same").to_string();
        assert!(why.contains("root-1: 10.0.0.9: adds no other version of IP"), "{why}");
        let mapped = file("", "address = \"::ffff:10.0.0.1\"\nalso = \"fd00::1\"", [V4, V6]);
        let mapped = mapped.expect("good");
        let places = mapped.places(of(&mapped, "root-1"), Port::Root).expect("two");
        assert_eq!(places, [at("10.0.0.1:7000"), at("[fd00::1]:7000")]);
        // Nodes of one second address need ports apart as well; control: of another one they don't.
        let venue = |also: &str| {
            let also = Some(also.to_string());
            let root = NodeEntry { also, ..NodeEntry::new("r", "10.0.0.1", vec![NodeRole::Root]) };
            let edge = NodeEntry::new("e", "fd00::3", vec![NodeRole::Edge]);
            ClusterFile::new(Path::new("x"), "lab", types::Nanos(1), vec![root, edge])
        };
        let why = venue("fd00::3").expect_err("one address").to_string();
        assert!(why.contains("node[1].port: e: nodes of one address need ports 16 apart"), "{why}");
        assert!(venue("fd00::4").is_ok());
    }
}
