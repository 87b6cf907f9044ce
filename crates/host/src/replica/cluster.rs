//! The group of replicas that an exchange's root is, as its processes have it: names, places and secret,
//! made of `cluster.toml` and of what the roots keep for themselves.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use exchange::{ExchangeConfig, Secret};
use net::{Directory, LeaderEndpoint};
use probe::Key;
use types::{Nanos, NodeId};

use crate::failure::Failure;
use crate::fleet::addresses::NOWHERE;
use crate::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};

/// Where one replica is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaAddresses {
    /// Its overlay socket, UDP: where the root is while this one leads.
    pub overlay: SocketAddr,
    /// Its retransmission server, UDP.
    pub feed: SocketAddr,
    /// Where other replicas connect, TCP.
    pub link: SocketAddr,
}

/// A group, and where the other nodes are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Name of the group; another one for every venue.
    pub group: u64,
    /// MoldUDP64 and SoupBinTCP session, ten characters.
    pub session: String,
    /// Midnight that ITCH and OUCH times count from, ns since 1970.
    pub midnight_ns: u64,
    /// What the key rings of all nodes follow from in the first key epoch, and the keys of claims and of
    /// replicas' doors. Whoever knows it may speak for a node; for a replica only with that one's key, too.
    /// Zeros where no replica is.
    pub secret: Secret,
    /// Overlay sockets of all nodes but the root; [`NOWHERE`] where a name has no address at present.
    pub nodes: Vec<(u16, SocketAddr)>,
    /// Places of the replicas that the group is made with; the first is number 1.
    pub replicas: Vec<ReplicaAddresses>,
    /// Places of those that may come later (`fairbell admin replicas`), numbered on from there.
    pub reserve: Vec<ReplicaAddresses>,
    /// Where leaders say that they lead, UDP: one for every process with nodes. [`NOWHERE`] as above.
    pub claims: Vec<SocketAddr>,
    /// Certificate of the venue's authority, PEM.
    pub authority: String,
    /// Folder of the certificates and keys of the replicas that are here.
    pub keys: PathBuf,
}

impl Cluster {
    /// The group of a file as the node `own` of it reaches it; `overlay`: see [`ClusterFile::overlay`], none
    /// where those nodes are elsewhere than the file says.
    ///
    /// # Errors
    /// Names without an address; the authority's certificate can't be read.
    pub fn of(
        (file, own): (&ClusterFile, &NodeEntry),
        overlay: &[(NodeId, u16, Port)],
        secret: Secret,
        keys: &Path,
    ) -> Result<Cluster, Failure> {
        let mut nodes = Vec::new();
        for (id, number, port) in overlay {
            let node = file.numbered(*number).map(|node| file.known(own, node, *port));
            nodes.extend(node.transpose()?.map(|at| (id.0, at)));
        }
        let mut reserve = file.replicas(own, NodeRole::Learner)?;
        reserve.extend(file.replicas(own, NodeRole::Reserve)?);
        let claims = file.nodes.iter().map(|node| file.known(own, node, Port::Claims));
        let authority = crate::tls::read(&file.authority_path().display().to_string())?;
        Ok(Cluster {
            group: file.group(),
            session: file.session.clone(),
            midnight_ns: file.midnight_ns,
            secret,
            nodes,
            replicas: file.replicas(own, NodeRole::Root)?,
            reserve,
            claims: claims.collect::<Result<_, _>>()?,
            authority: String::from_utf8_lossy(&authority).into_owned(),
            keys: keys.to_path_buf(),
        })
    }

    /// Places of all replicas that there are or may be, by number from 1.
    pub fn places(&self) -> impl Iterator<Item = (u8, &ReplicaAddresses)> {
        (1..=u8::MAX).zip(self.replicas.iter().chain(&self.reserve))
    }

    /// Retransmission servers of the feed, one for each place.
    pub fn retransmission(&self) -> impl Iterator<Item = SocketAddr> {
        self.places().map(|(_, place)| place.feed)
    }

    /// Where a number is.
    pub fn place(&self, id: u8) -> Option<&ReplicaAddresses> {
        self.places().find(|(number, _)| *number == id).map(|(_, place)| place)
    }

    /// The key under which a purpose's messages are authenticated.
    pub fn key(&self, purpose: &[u8]) -> Result<Key, Failure> {
        let key = Key::new(&self.secret.0).map_err(|error| Failure::Run(error.to_string()))?;
        Ok(key.derive(b"fairbell replicas ", &[purpose, &self.group.to_be_bytes()]))
    }

    /// The key of claims to the process at `place` of [`Cluster::claims`], from 0: 32 bytes that it
    /// shares with the replicas alone.
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn claim_secret(&self, place: usize) -> Result<[u8; 32], Failure> {
        Ok(self.key(b"claims")?.tag(&[&(place as u64).to_le_bytes()]))
    }

    /// Where leaders say that they lead, and the key of that.
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn claims_to(&self) -> Result<Vec<(SocketAddr, Key)>, Failure> {
        let one = |(place, at): (usize, &SocketAddr)| Ok((*at, self.claim_key(place)?));
        let there = self.claims.iter().enumerate().filter(|(_, at)| **at != NOWHERE);
        there.map(one).collect()
    }

    /// The key of [`Cluster::claim_secret`].
    ///
    /// # Errors
    /// Never for 32 bytes.
    pub fn claim_key(&self, place: usize) -> Result<Key, Failure> {
        Key::new(&self.claim_secret(place)?).map_err(|error| Failure::Run(error.to_string()))
    }

    /// Addresses of the machines that replicas are on.
    pub fn machines(&self) -> Vec<IpAddr> {
        self.places().map(|(_, place)| place.link.ip()).collect()
    }

    /// Gives an exchange this deployment's names and secret.
    pub fn settle(&self, exchange: &mut ExchangeConfig) {
        exchange.session.copy_from_slice(&self.session.as_bytes()[..10]);
        exchange.midnight = Nanos(self.midnight_ns);
        if exchange.options.secret.is_some() {
            exchange.options.secret = Some(self.secret.clone());
        }
    }

    /// All nodes but the root, those left out that are nowhere at present.
    pub fn directory(&self) -> Result<Directory, Failure> {
        let there = self.nodes.iter().filter(|(_, at)| *at != NOWHERE);
        let nodes: Vec<_> = there.map(|(node, at)| (NodeId(*node), *at)).collect();
        Directory::new(&nodes).map_err(|error| Failure::Usage(error.to_string()))
    }

    /// Where what is for the root is sent: to the replica that leads.
    pub fn leader(&self) -> Result<LeaderEndpoint, Failure> {
        let places: Vec<_> = self.places().map(|(_, place)| place.overlay).collect();
        let leader = LeaderEndpoint::new(ExchangeConfig::ROOT, &places);
        leader.ok_or_else(|| Failure::Usage("no replicas".to_string()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    pub fn cluster(replicas: u16) -> Cluster {
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let place = |n| {
            let port = 1_000 + 10 * n;
            ReplicaAddresses { overlay: at(port), feed: at(port + 1), link: at(port + 2) }
        };
        Cluster {
            group: 7,
            session: "FB12345678".to_string(),
            midnight_ns: 86_400_000_000_000,
            secret: Secret([7; 32]),
            nodes: vec![(1, at(2_000)), (2, at(2_001))],
            replicas: (0..replicas).map(place).collect(),
            reserve: Vec::new(),
            claims: vec![at(3_000)],
            authority: String::new(),
            keys: PathBuf::new(),
        }
    }

    #[test]
    fn replicas_are_numbered_from_one_those_in_reserve_last() {
        let more = Cluster { reserve: cluster(2).replicas, ..cluster(3) };
        let numbers: Vec<u8> = more.places().map(|(number, _)| number).collect();
        assert_eq!((numbers, more.place(4)), (vec![1, 2, 3, 4, 5], more.reserve.first()));
        assert_eq!((more.place(0), more.place(6)), (None, None));
    }
}
