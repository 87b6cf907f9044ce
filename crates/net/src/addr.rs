//! Who is where: peers as addresses of sockets and back.
//!
//! An address has one name among nodes ([`Peer::at`]), whichever socket saw it: one that hears both
//! versions of IP sees IPv4 mapped into IPv6. A [`Peer::Node`] is looked up in the [`Directory`],
//! which the composer fills after binding every node's overlay socket and before the first loop
//! starts. A node may be at one of several places: the root of a group, whose [`LeaderEndpoint`] says
//! where it is now. When machines come back with other addresses the loop is given another directory
//! ([`LoopHandle::set_directory`](crate::LoopHandle::set_directory)).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use types::{Address, Channel, NodeId, Peer};

/// The peer behind an address that is no node of the deployment.
pub fn peer_addr(addr: impl Into<SocketAddr>) -> Peer {
    Peer::from(addr.into())
}

/// An address as nodes know it; one of IPv4 mapped into IPv6 is that of IPv4.
pub fn address_of(ip: IpAddr) -> Address {
    Address::from(ip)
}

/// The address of whoever is no node; `None` for a node and for a value that no address packs to.
pub fn socket_addr(peer: Peer) -> Option<SocketAddr> {
    peer.socket_addr()
}

/// A node that is at one of several places, at a later one in each later term. What comes from one
/// of its places is its own only while it is there. All copies are of one endpoint.
#[derive(Clone, Debug)]
pub struct LeaderEndpoint {
    node: NodeId,
    places: Arc<[Peer]>,
    /// Term, and place in the low byte.
    held: Arc<AtomicU64>,
}

/// Bits of [`LeaderEndpoint::held`] that say which place.
const PLACE_BITS: u32 = 8;

impl LeaderEndpoint {
    /// Places that it has at most.
    pub const PLACES_MAX: usize = 1 << PLACE_BITS;

    /// The endpoint of `node`, at the first of `places` in term 0; `None` for no place or too many.
    pub fn new(node: NodeId, places: &[SocketAddr]) -> Option<LeaderEndpoint> {
        let known = (1..=LeaderEndpoint::PLACES_MAX).contains(&places.len());
        known.then(|| LeaderEndpoint {
            node,
            places: places.iter().map(|at| Peer::from(*at)).collect(),
            held: Arc::new(AtomicU64::new(0)),
        })
    }

    /// The same endpoint with other addresses of its places, as many as before; `None` for another number.
    /// Which of them it is at both know.
    pub fn moved(&self, places: &[SocketAddr]) -> Option<LeaderEndpoint> {
        (places.len() == self.places.len()).then(|| LeaderEndpoint {
            node: self.node,
            places: places.iter().map(|at| Peer::from(*at)).collect(),
            held: Arc::clone(&self.held),
        })
    }

    /// In `term` the node is at this place, from 0; false when it is known of that term, or of a
    /// later one, already, and for no place.
    pub fn take(&self, term: u64, place: usize) -> bool {
        let held = term << PLACE_BITS | place as u64;
        let named = place < self.places.len() && term < 1 << (u64::BITS - PLACE_BITS);
        // Two of one term can't be: the first one stays.
        let newer = |now: u64| (named && now >> PLACE_BITS < term).then_some(held);
        self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, newer).is_ok()
    }

    /// The newest term and the place in it, from 0.
    pub fn held(&self) -> (u64, usize) {
        let held = self.held.load(Ordering::Acquire);
        (held >> PLACE_BITS, (held & (LeaderEndpoint::PLACES_MAX as u64 - 1)) as usize)
    }

    fn addr(&self) -> Option<SocketAddr> {
        self.places.get(self.held().1)?.socket_addr()
    }

    /// Who sends from `addr`, if it is one of the places.
    fn peer(&self, addr: Peer) -> Option<Peer> {
        let place = self.places.iter().position(|known| *known == addr)?;
        let here = place == self.held().1;
        Some(if here { Peer::Node(self.node) } else { addr })
    }
}

/// Overlay address of every node, both ways.
#[derive(Clone, Default, Debug)]
pub struct Directory {
    by_node: Vec<(NodeId, SocketAddr)>,
    by_addr: Vec<(Peer, NodeId)>,
    leaders: Vec<LeaderEndpoint>,
    /// Of channels that have nodes of their own: those of a venue's other shards, and between its roots.
    others: Vec<(Channel, Directory)>,
}

/// Why a directory was refused: a node or an address is named twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DuplicateEntry {
    /// The node of one of the two entries.
    pub node: NodeId,
    /// Its address.
    pub addr: SocketAddr,
}

impl fmt::Display for DuplicateEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} or address {} is named twice", self.node, self.addr)
    }
}

impl std::error::Error for DuplicateEntry {}

impl Directory {
    /// A directory of these entries.
    ///
    /// # Errors
    /// [`DuplicateEntry`] when a node or an address occurs twice.
    pub fn new(entries: &[(NodeId, SocketAddr)]) -> Result<Directory, DuplicateEntry> {
        let mut by_node = entries.to_vec();
        by_node.sort_unstable_by_key(|&(node, _)| node);
        let mut by_addr: Vec<_> =
            entries.iter().map(|&(node, addr)| (Peer::from(addr), node)).collect();
        by_addr.sort_unstable();
        let twice = by_node.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(&[(node, addr), _]) = twice {
            return Err(DuplicateEntry { node, addr });
        }
        let twice = by_addr.windows(2).find(|pair| pair[0].0 == pair[1].0);
        if let Some(&[(_, node), _]) = twice
            && let Some(&(_, addr)) = entries.iter().find(|(of, _)| *of == node)
        {
            return Err(DuplicateEntry { node, addr });
        }
        Ok(Directory { by_node, by_addr, leaders: Vec::new(), others: Vec::new() })
    }

    /// The same with a node that is at one of several places, none of which is another's.
    ///
    /// # Errors
    /// [`DuplicateEntry`] when the node or one of the places is there already.
    pub fn with_leader(mut self, leader: LeaderEndpoint) -> Result<Directory, DuplicateEntry> {
        let twice = |addr: &&Peer| {
            let known = self.leaders.iter().flat_map(|leader| leader.places.iter());
            self.addr(leader.node).is_some()
                || self.by_addr.iter().map(|(key, _)| key).chain(known).any(|key| key == *addr)
        };
        if let Some(addr) = leader.places.iter().find(twice).and_then(|at| at.socket_addr()) {
            return Err(DuplicateEntry { node: leader.node, addr });
        }
        self.leaders.push(leader);
        Ok(self)
    }

    /// The same with the nodes of another channel, which have numbers of their own there; a later one
    /// of the same channel takes the place of an earlier one.
    pub fn with_channel(mut self, channel: Channel, of: Directory) -> Directory {
        self.others.retain(|(known, _)| *known != channel);
        self.others.push((channel, of));
        self
    }

    /// The nodes that a channel leads to: its own ones, or those of all channels that have none.
    #[inline]
    pub fn of(&self, channel: Channel) -> &Directory {
        let own = self.others.iter().find(|(known, _)| *known == channel);
        own.map_or(self, |(_, of)| of)
    }

    /// Where all nodes are, in order of their numbers; the one that is at one of several places first. Not
    /// those of other channels.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let places = self.leaders.iter().flat_map(|leader| leader.places.iter());
        let places = places.filter_map(|at| at.socket_addr());
        places.chain(self.by_node.iter().map(|(_, at)| *at))
    }

    /// Where a node's overlay socket is.
    pub fn addr(&self, node: NodeId) -> Option<SocketAddr> {
        // Nodes are numbered densely from 0 in most deployments: look there first.
        if let Some(&(id, addr)) = self.by_node.get(usize::from(node.0))
            && id == node
        {
            return Some(addr);
        }
        if let Some(leader) = self.leaders.iter().find(|leader| leader.node == node) {
            return leader.addr();
        }
        let at = self.by_node.binary_search_by_key(&node, |&(id, _)| id).ok()?;
        self.by_node.get(at).map(|&(_, addr)| addr)
    }

    /// Where datagrams to `peer` go.
    pub fn resolve(&self, peer: Peer) -> Option<SocketAddr> {
        match peer {
            Peer::Node(node) => self.addr(node),
            Peer::Addr(_) | Peer::V6 { .. } => peer.socket_addr(),
        }
    }

    /// Who sends from `addr`, as a node knows it.
    pub fn peer(&self, addr: SocketAddr) -> Peer {
        let addr = Peer::from(addr);
        if let Some(peer) = self.leaders.iter().find_map(|leader| leader.peer(addr)) {
            return peer;
        }
        match self.by_addr.binary_search_by(|(key, _)| key.cmp(&addr)) {
            Ok(at) => self.by_addr.get(at).map_or(addr, |&(_, id)| Peer::Node(id)),
            Err(_) => addr,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    fn at6(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, port))
    }

    fn mapped(port: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), port))
    }

    #[test]
    fn both_versions_are_found_and_a_mapped_address_is_the_one_of_ipv4() {
        let directory = Directory::new(&[(NodeId(0), at(10)), (NodeId(1), at6(10))]);
        let directory = directory.expect("two addresses");
        assert_eq!(directory.resolve(Peer::Node(NodeId(1))), Some(at6(10)));
        assert_eq!(directory.peer(at6(10)), Peer::Node(NodeId(1)));
        assert_eq!(directory.peer(mapped(10)), Peer::Node(NodeId(0)));
        assert_eq!(directory.peer(at6(11)), peer_addr(at6(11)));
        // Control: the address that IPv4 was once mapped to (RFC 4291, 2.5.5.1) is another one.
        let compatible = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0x7F00, 1], 10));
        assert_eq!(directory.peer(compatible), peer_addr(compatible));
        assert!(Directory::new(&[(NodeId(0), at(10)), (NodeId(1), mapped(10))]).is_err());
        let leader = LeaderEndpoint::new(NodeId(7), &[at6(20), mapped(20)]).expect("two places");
        let directory = directory.with_leader(leader.clone()).expect("no duplicates");
        assert_eq!(directory.peer(at6(20)), Peer::Node(NodeId(7)));
        assert_eq!(directory.peer(at(20)), peer_addr(at(20)));
        assert!(leader.take(1, 1));
        assert_eq!(directory.peer(at(20)), Peer::Node(NodeId(7)));
        assert_eq!(directory.resolve(Peer::Node(NodeId(7))), Some(at(20)));
    }

    #[test]
    fn finds_nodes_both_ways_dense_or_sparse() {
        let directory =
            Directory::new(&[(NodeId(1), at(11)), (NodeId(0), at(10)), (NodeId(500), at(12))])
                .expect("no duplicates");
        assert_eq!(directory.resolve(Peer::Node(NodeId(1))), Some(at(11)));
        assert_eq!(directory.resolve(Peer::Node(NodeId(500))), Some(at(12)));
        assert_eq!(directory.resolve(Peer::Node(NodeId(2))), None);
        assert_eq!(directory.peer(at(12)), Peer::Node(NodeId(500)));
        assert_eq!(directory.peer(at(13)), peer_addr(at(13)));
    }

    #[test]
    fn a_seat_is_where_the_newest_term_has_it_and_nothing_else_comes_from_there() {
        let (places, root) = ([at(20), at(21), at(22)], NodeId(0));
        let leader = LeaderEndpoint::new(root, &places).expect("three places");
        let directory = Directory::new(&[(NodeId(1), at(11))]).expect("no duplicates");
        let directory = directory.with_leader(leader.clone()).expect("no duplicates");
        assert_eq!(directory.resolve(Peer::Node(root)), Some(at(20)));
        assert!(
            leader.take(3, 2) && !leader.take(3, 1) && !leader.take(2, 0) && !leader.take(9, 3)
        );
        assert_eq!((leader.held(), directory.resolve(Peer::Node(root))), ((3, 2), Some(at(22))));
        assert_eq!(directory.peer(at(22)), Peer::Node(root));
        assert_eq!(directory.peer(at(20)), peer_addr(at(20)), "an earlier leader");
        assert_eq!(directory.peer(at(11)), Peer::Node(NodeId(1)));
        let taken = Directory::new(&[(NodeId(1), at(21))]).expect("no duplicates");
        assert!(taken.with_leader(leader).is_err() && LeaderEndpoint::new(root, &[]).is_none());
    }

    #[test]
    fn an_endpoint_whose_places_move_is_where_it_was_among_them() {
        let root = LeaderEndpoint::new(NodeId(0), &[at(20), at(21)]).expect("two places");
        assert!(root.take(2, 1));
        let moved = root.moved(&[at(20), at(31)]).expect("two places");
        let directory = Directory::default().with_leader(moved.clone()).expect("no duplicates");
        assert_eq!(directory.resolve(Peer::Node(NodeId(0))), Some(at(31)));
        assert_eq!(directory.peer(at(21)), peer_addr(at(21)), "it is there no more");
        // What one hears the other knows.
        assert!(root.take(3, 0));
        assert_eq!((moved.held(), directory.peer(at(20))), ((3, 0), Peer::Node(NodeId(0))));
        assert!(root.moved(&[at(20)]).is_none());
    }

    #[test]
    fn a_channel_may_have_nodes_of_its_own_and_others_have_those_of_all() {
        let own = Directory::new(&[(NodeId(1), at(11)), (NodeId(2), at(12))]).expect("two");
        let root = LeaderEndpoint::new(NodeId(0), &[at(30), at(31)]).expect("two places");
        let other = Directory::new(&[(NodeId(1), at(21))]).expect("one");
        let other = other.with_leader(root.clone()).expect("no duplicates");
        let both = own.with_channel(Channel(130), other);
        let to = |channel, node| both.of(channel).resolve(Peer::Node(NodeId(node)));
        assert_eq!(to(Channel::OVERLAY, 1), Some(at(11)));
        assert_eq!((to(Channel(130), 1), to(Channel(130), 2)), (Some(at(21)), None));
        assert_eq!(to(Channel(131), 1), Some(at(11)), "one without nodes of its own");
        assert_eq!(to(Channel(130), 0), Some(at(30)));
        assert!(root.take(1, 1));
        assert_eq!(to(Channel(130), 0), Some(at(31)));
        assert_eq!(both.of(Channel(130)).peer(at(21)), Peer::Node(NodeId(1)));
        assert_eq!(both.of(Channel::OVERLAY).peer(at(21)), peer_addr(at(21)));
    }

    #[test]
    fn refuses_duplicates() {
        assert!(Directory::new(&[(NodeId(1), at(11)), (NodeId(1), at(12))]).is_err());
        assert!(Directory::new(&[(NodeId(1), at(11)), (NodeId(2), at(11))]).is_err());
    }

    proptest! {
        #[test]
        fn packing_round_trips_and_never_panics(ip: u32, ip6: u128, port: u16, any: u64) {
            let addr = SocketAddr::from((Ipv4Addr::from_bits(ip), port));
            prop_assert_eq!(socket_addr(peer_addr(addr)), Some(addr));
            let addr6 = SocketAddr::from((Ipv6Addr::from_bits(ip6), port));
            prop_assert_eq!(socket_addr(peer_addr(addr6)), Some(addr6));
            let seen = SocketAddr::from((Ipv4Addr::from_bits(ip).to_ipv6_mapped(), port));
            prop_assert_eq!(socket_addr(peer_addr(seen)), Some(addr));
            if let Some(back) = socket_addr(Peer::Addr(any)) {
                prop_assert_eq!(peer_addr(back), Peer::Addr(any));
            }
        }
    }
}
