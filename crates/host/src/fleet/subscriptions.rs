//! Subscriptions at an edge: on which terms, and which edge is least loaded.
//!
//! Each machine tells the root that leads how it is. The root tells edges once a second which of them
//! take participants, least loaded first, and an edge tells that to those who subscribe. A list says
//! how old it is; edges that are drained, revoked, in quarantine or not heard of are not on it.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use exchange::{EdgeLoad, SubscriptionTerms};
use rustix::net::sockopt::{set_ip_multicast_if, set_ip_multicast_ttl};
use wire::subscription::{EDGES_MAX, SERVERS_MAX};

use super::file::{ClusterFile, NodeEntry, NodeRole, Port};
use super::messages::EdgeHint;
use crate::config::Config;
use crate::failure::Failure;

/// Of an edge that said nothing for so long nothing is told.
pub const HEARD: Duration = Duration::from_secs(3);
/// Between two lists.
pub const EVERY: Duration = Duration::from_secs(1);

/// What an edge grants and tells those who subscribe; `repair`: the retransmission servers.
///
/// # Errors
/// Names without an address.
pub fn terms(
    file: &ClusterFile,
    config: &Config,
    own: &NodeEntry,
    repair: impl Iterator<Item = SocketAddrV4>,
) -> Result<SubscriptionTerms, Failure> {
    let mut snapshots: Vec<_> = file.of(NodeRole::Snapshot).map(|(_, node)| node).collect();
    snapshots.sort_by_key(|node| node.name != own.name);
    let snapshots = snapshots.into_iter().take(SERVERS_MAX);
    let snapshots = snapshots.map(|node| file.at(node, Port::Snapshot));
    let port = file.number(own, Port::Release);
    let bound = match own.bind {
        Some(IpAddr::V4(ip)) => ip,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    Ok(SubscriptionTerms {
        groups: own.groups.clone(),
        per_account: config.doors.subscriptions as usize,
        from: SocketAddrV4::new(bound, port),
        from_for_groups: SocketAddrV4::new(segment(file, own)?, port),
        repair: repair.collect(),
        snapshots: snapshots.collect::<Result<_, _>>()?,
        ring: None,
    })
}

/// The address by which a node is on its segment.
fn segment(file: &ClusterFile, own: &NodeEntry) -> Result<Ipv4Addr, Failure> {
    match own.bind {
        Some(IpAddr::V4(ip)) if !ip.is_unspecified() => Ok(ip),
        _ => Ok(*file.at(own, Port::Release)?.ip()),
    }
}

/// Groups get what is sent from `release` on the node's own segment and no further.
///
/// # Errors
/// The node's address is none of this machine.
pub fn confine(file: &ClusterFile, own: &NodeEntry, release: &UdpSocket) -> Result<(), Failure> {
    let groups = own.subscribers.iter().any(|to| to.ip().is_multicast());
    if own.groups.is_empty() && !groups {
        return Ok(());
    }
    let segment = segment(file, own)?;
    let set =
        set_ip_multicast_ttl(release, 1).and_then(|()| set_ip_multicast_if(release, &segment));
    set.map_err(|error| {
        let why = "groups need `bind`, the machine's own address on the segment";
        Failure::Run(format!("{}: {}: {segment}: {error}: {why}", file.path.display(), own.name))
    })
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
    use super::*;

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
