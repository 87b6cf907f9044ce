//! Subscriptions at an edge: on which terms, and which edge is least loaded.
//!
//! Each machine tells the root that leads how it is. The root tells edges once a second which of them
//! take participants, least loaded first, and an edge tells that to those who subscribe. A list says
//! how old it is; edges that are drained, revoked, in quarantine or not heard of are not on it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use exchange::{EdgeLoad, SubscriptionTerms};
use rustix::net::sockopt::{
    set_ip_multicast_if, set_ip_multicast_ttl, set_ipv6_multicast_hops, set_ipv6_multicast_if,
};
use wire::subscription::{EDGES_MAX, SERVERS_MAX};

use super::file::{ClusterFile, NodeEntry, NodeRole, Port};
use super::messages::EdgeHint;
use crate::config::Config;
use crate::failure::Failure;
use crate::sockets::interface_of;

/// Of an edge that said nothing for so long nothing is told.
pub const HEARD: Duration = Duration::from_secs(3);
/// Between two lists.
pub const EVERY: Duration = Duration::from_secs(1);

/// What an edge grants and tells those who subscribe.
///
/// # Errors
/// Names without an address.
pub fn terms(
    file: &ClusterFile,
    config: &Config,
    own: &NodeEntry,
) -> Result<SubscriptionTerms, Failure> {
    let mut snapshots: Vec<_> = file.of(NodeRole::Snapshot).map(|(_, node)| node).collect();
    snapshots.sort_by_key(|node| node.name != own.name);
    // Participants may have a version of IP that the edge does not speak to a root.
    let all = |nodes: Vec<&NodeEntry>, port| {
        let places = nodes.into_iter().map(|node| file.places(node, port));
        Ok::<_, Failure>(places.collect::<Result<Vec<_>, _>>()?.concat())
    };
    // One that is not there at present is left out.
    let there = |node: &&NodeEntry| file.places(node, Port::Snapshot).is_ok();
    let snapshots = snapshots.into_iter().filter(there).take(SERVERS_MAX).collect();
    // Each answers for the streams of its own shard.
    let mut roots: Vec<_> = file.nodes.iter().filter(|node| node.keeps_log()).collect();
    roots.sort_by_key(|node| (!node.is(NodeRole::Root), !node.is(NodeRole::Learner)));
    let mut from_for_groups = Vec::new();
    for group in &own.groups {
        let ip = segment(file, own, group.is_ipv6())?;
        from_for_groups.push(SocketAddr::new(ip, file.number(own, Port::Release)));
    }
    from_for_groups.dedup();
    let servers = (all(roots, Port::Retransmission)?, all(snapshots, Port::Snapshot)?);
    Ok(SubscriptionTerms {
        groups: own.groups.clone(),
        from_for_groups,
        ..crate::nodes::terms(config, file.bound(own, Port::Release), servers)
    })
}

/// The address, of one version of IP, by which a node is on its segment.
fn segment(file: &ClusterFile, own: &NodeEntry, is_v6: bool) -> Result<IpAddr, Failure> {
    let bound = own.bind.filter(|ip| ip.is_ipv6() == is_v6 && !ip.is_unspecified());
    let at = |places: Vec<SocketAddr>| places.into_iter().find(|at| at.is_ipv6() == is_v6);
    let known = match bound {
        Some(ip) => Some(ip),
        None => at(file.places(own, Port::Release)?).map(|at| at.ip()),
    };
    known.ok_or_else(|| {
        let version = if is_v6 { "IPv6" } else { "IPv4" };
        let why = format!("groups of {version} need an address of it: `address`, `also` or `bind`");
        Failure::Usage(format!("{}: {}: {why}", file.path.display(), own.name))
    })
}

/// Groups get what is sent from `release` on the node's own segment and no further.
///
/// # Errors
/// The node's address is none of this machine.
pub fn confine(file: &ClusterFile, own: &NodeEntry, release: &UdpSocket) -> Result<(), Failure> {
    let fixed = own.subscribers.iter().filter(|to| to.ip().is_multicast());
    for group in own.groups.iter().chain(fixed) {
        let segment = segment(file, own, group.is_ipv6())?;
        let set = match segment {
            IpAddr::V4(ip) => set_ip_multicast_ttl(release, 1)
                .and_then(|()| set_ip_multicast_if(release, &ip))
                .map_err(std::io::Error::from),
            IpAddr::V6(ip) => interface_of(ip).and_then(|interface| {
                set_ipv6_multicast_hops(release, 1)?;
                Ok(set_ipv6_multicast_if(release, interface)?)
            }),
        };
        set.map_err(|error| {
            let why = "groups need `bind`, the machine's own address on the segment";
            let at = file.path.display();
            Failure::Run(format!("{at}: {}: {segment}: {error}: {why}", own.name))
        })?;
    }
    Ok(())
}

/// The edges that take participants, least loaded first, at most [`EDGES_MAX`]: by requests per second
/// up to a factor of two, then by sessions, then in the order of the file.
pub fn least_loaded(mut edges: Vec<EdgeHint>) -> Vec<EdgeHint> {
    edges.sort_by_key(|edge| {
        let rate = edge.requests_per_s.checked_next_power_of_two().unwrap_or(u64::MAX);
        (rate, edge.sessions, edge.node)
    });
    edges.truncate(EDGES_MAX);
    edges
}

/// A root's list as participants are told it.
pub fn named(file: &ClusterFile, edges: &[EdgeHint]) -> Vec<EdgeLoad> {
    let most = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let named = |edge: &EdgeHint| {
        let node = file.numbered(edge.node)?;
        let ports = [Port::Ouch, Port::Fix, Port::Subscriptions];
        Some(EdgeLoad {
            host: node.public().to_string(),
            ports: ports.map(|port| file.number(node, port)),
            sessions: most(edge.sessions),
            requests_per_s: most(edge.requests_per_s),
        })
    };
    edges.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::{
        ip_multicast_if, ip_multicast_ttl, ipv6_multicast_hops, ipv6_multicast_if,
    };

    use super::*;

    #[test]
    fn groups_go_no_further_than_the_segment_of_the_node_s_own_address() {
        let file = |rest: &str| {
            let text = format!(
                "[cluster]\nname = \"lab\"\nid = \"00000000000000a7\"\nsession = \"FB12345678\"\n\
                 midnight = \"2026-11-25\"\nvenue = \"venue.toml\"\nauthority = \"a.pem\"\n\n[[node]]\n\
                 name = \"all\"\nroles = [\"root\", \"edge\"]\n{rest}\n"
            );
            ClusterFile::parse(std::path::Path::new("x.toml"), &text).expect("good")
        };
        let both = "groups = [\"239.1.1.3:7100\", \"[ff15::3]:7100\"]";
        let confined = |file: &ClusterFile| {
            let release =
                crate::sockets::udp("[::]:0".parse().expect("an address")).expect("a port");
            confine(file, &file.nodes[0], &release).map(|()| release)
        };
        let all = file(&format!("address = \"127.0.0.1\"\nalso = \"::1\"\n{both}"));
        let release = confined(&all).expect("confined");
        let interface =
            interface_of(std::net::Ipv6Addr::LOCALHOST).expect("the loopback interface");
        assert_eq!(ipv6_multicast_hops(&release).expect("set"), 1);
        assert_eq!(ipv6_multicast_if(&release).expect("set"), interface);
        assert_eq!(ip_multicast_ttl(&release).expect("set"), 1);
        assert_eq!(ip_multicast_if(&release).expect("set"), std::net::Ipv4Addr::LOCALHOST);
        // Control: an address of one version, and one that is no machine's here.
        let why =
            confined(&file(&format!("address = \"127.0.0.1\"\n{both}"))).expect_err("no IPv6");
        assert!(why.to_string().contains("groups of IPv6 need an address of it"), "{why}");
        let foreign = file("address = \"2001:db8::1\"\ngroups = [\"[ff15::3]:7100\"]");
        let why = confined(&foreign).expect_err("an address of documentation").to_string();
        assert!(why.contains("2001:db8::1: no interface of this machine"), "{why}");
    }

    fn edge(node: u16, requests_per_s: u64, sessions: u64) -> EdgeHint {
        EdgeHint { node, sessions, requests_per_s }
    }

    #[test]
    fn the_least_loaded_come_first_and_the_list_has_a_bound() {
        let order = |edges: &[EdgeHint]| -> Vec<u16> {
            least_loaded(edges.to_vec()).iter().map(|edge| edge.node).collect()
        };
        assert_eq!(order(&[edge(1, 900, 0), edge(2, 10, 90), edge(3, 0, 99)]), [3, 2, 1]);
        // 600 and 1000 are alike; then sessions count, then the file.
        let alike = [edge(4, 600, 7), edge(5, 1_000, 3), edge(6, 1_000, 3)];
        assert_eq!(order(&alike), [5, 6, 4]);
        let many: Vec<EdgeHint> = (1..=100).map(|node| edge(node, 0, node.into())).collect();
        assert_eq!(order(&many), (1..=EDGES_MAX as u16).collect::<Vec<_>>());
        assert_eq!(order(&[edge(1, u64::MAX, 0), edge(2, 0, 0)]), [2, 1]);
    }
}
