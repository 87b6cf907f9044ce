//! Who is where in a deployment whose root is a group of replicas: one file, the same on all
//! machines.

use std::net::{IpAddr, SocketAddrV4};
use std::path::{Path, PathBuf};

use exchange::{ExchangeConfig, Secret};
use net::{Clock, Directory, LeaderEndpoint};
use probe::{Key, entropy};
use serde::{Deserialize, Serialize};
use types::{Nanos, NodeId};

use super::certificates;
use crate::failure::{Failure, on};

/// Where one replica is.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaAddresses {
    /// Its overlay socket, UDP: where the root is while this one leads.
    pub overlay: SocketAddrV4,
    /// Its retransmission server, UDP.
    pub feed: SocketAddrV4,
    /// Where other replicas connect, TCP.
    pub link: SocketAddrV4,
    /// Where it says how it stands, TCP.
    pub status: SocketAddrV4,
}

/// A deployment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Cluster {
    /// Name of the group; another one for every deployment.
    pub group: u64,
    /// MoldUDP64 and SoupBinTCP session, ten characters.
    pub session: String,
    /// Midnight that ITCH and OUCH times count from, ns since 1970.
    pub midnight_ns: u64,
    /// The deployment's secret, 64 hexadecimal digits. Whoever knows it may speak for a node; for a
    /// replica only with that one's key, too. The key rings of all nodes follow from it, and keys of
    /// sealed datagrams from these and from what each process draws when it starts.
    pub secret: String,
    /// Overlay sockets of all nodes but the root.
    pub nodes: Vec<(u16, SocketAddrV4)>,
    /// Places of the replicas that the group is made with; the first is number 1.
    pub replicas: Vec<ReplicaAddresses>,
    /// Places of those that may come later (`fairbell admin replicas`), numbered on from there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserve: Vec<ReplicaAddresses>,
    /// Where leaders say that they lead, UDP: one for every process with nodes.
    pub claims: Vec<SocketAddrV4>,
    /// Certificate of the group's authority, PEM; empty until [`certificates::issue`] made one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub authority: String,
    /// Folder of the replicas' certificates and keys, beside the file.
    #[serde(skip)]
    pub keys: PathBuf,
}

impl Cluster {
    /// A new group of this exchange, without places yet.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn fresh(exchange: &ExchangeConfig, clock: Clock) -> Result<Cluster, Failure> {
        let random = entropy().ok_or_else(|| Failure::Run("no randomness".to_string()))?;
        Ok(Cluster {
            group: clock.now().0,
            session: String::from_utf8_lossy(&exchange.session).into_owned(),
            midnight_ns: exchange.midnight.0,
            secret: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            nodes: Vec::new(),
            replicas: Vec::new(),
            reserve: Vec::new(),
            claims: Vec::new(),
            authority: String::new(),
            keys: PathBuf::new(),
        })
    }

    /// Reads the file.
    pub fn read(path: &Path) -> Result<Cluster, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| on(path, error))?;
        let mut cluster: Cluster = serde_json::from_str(&text).map_err(|error| on(path, error))?;
        cluster.check().map_err(|why| on(path, why))?;
        cluster.keys = path.with_file_name(certificates::FOLDER);
        Ok(cluster)
    }

    /// Writes it, for its owner's eyes only: the secret is in it.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let text = serde_json::to_string_pretty(self).map_err(|error| on(path, error))?;
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| on(path, error))
    }

    fn check(&self) -> Result<(), String> {
        if self.session.len() != 10 || !self.session.is_ascii() {
            return Err("session: ten ASCII characters".to_string());
        }
        if self.bytes().is_none() {
            return Err("secret: 64 hexadecimal digits".to_string());
        }
        if self.replicas.len() + self.reserve.len() > usize::from(u8::MAX) {
            return Err(format!("reserve: at most {} places with those of replicas", u8::MAX));
        }
        match self.replicas.len() {
            1 | 3 | 5 | 7 | 9 => Ok(()),
            other => Err(format!("replicas: 1, 3, 5, 7 or 9, not {other}")),
        }
    }

    /// Places of all replicas that there are or may be, by number from 1.
    pub fn places(&self) -> impl Iterator<Item = (u8, &ReplicaAddresses)> {
        (1..=u8::MAX).zip(self.replicas.iter().chain(&self.reserve))
    }

    /// Retransmission servers of the feed, one for each place.
    pub fn retransmission(&self) -> impl Iterator<Item = SocketAddrV4> {
        self.places().map(|(_, place)| place.feed)
    }

    /// Where a number is.
    pub fn place(&self, id: u8) -> Option<&ReplicaAddresses> {
        self.places().find(|(number, _)| *number == id).map(|(_, place)| place)
    }

    fn bytes(&self) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        if self.secret.len() != 2 * bytes.len() || !self.secret.is_ascii() {
            return None;
        }
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(self.secret.get(at..at + 2)?, 16).ok()?;
        }
        Some(bytes)
    }

    /// The deployment's secret.
    pub fn secret(&self) -> Secret {
        Secret(self.bytes().unwrap_or([0; 32]))
    }

    /// The key under which a purpose's messages are authenticated.
    pub fn key(&self, purpose: &[u8]) -> Result<Key, Failure> {
        let key = Key::new(&self.secret().0).map_err(|error| Failure::Run(error.to_string()))?;
        Ok(key.derive(b"fairbell replicas ", &[purpose, &self.group.to_be_bytes()]))
    }

    /// The key of claims to the process at `place` of [`Cluster::claims`], from 0: 32 bytes that it
    /// shares with the replicas alone.
    ///
    /// # Errors
    /// The secret is none.
    pub fn claim_secret(&self, place: usize) -> Result<[u8; 32], Failure> {
        Ok(self.key(b"claims")?.tag(&[&(place as u64).to_le_bytes()]))
    }

    /// Where leaders say that they lead, and the key of that.
    ///
    /// # Errors
    /// The secret is none.
    pub fn claims_to(&self) -> Result<Vec<(SocketAddrV4, Key)>, Failure> {
        let one = |(place, at): (usize, &SocketAddrV4)| Ok((*at, self.claim_key(place)?));
        self.claims.iter().enumerate().map(one).collect()
    }

    /// The key of [`Cluster::claim_secret`].
    ///
    /// # Errors
    /// The secret is none.
    pub fn claim_key(&self, place: usize) -> Result<Key, Failure> {
        Key::new(&self.claim_secret(place)?).map_err(|error| Failure::Run(error.to_string()))
    }

    /// Addresses of the machines that replicas are on.
    pub fn machines(&self) -> Vec<IpAddr> {
        self.places().map(|(_, place)| IpAddr::V4(*place.link.ip())).collect()
    }

    /// Gives an exchange this deployment's names and secret.
    pub fn settle(&self, exchange: &mut ExchangeConfig) {
        exchange.session.copy_from_slice(&self.session.as_bytes()[..10]);
        exchange.midnight = Nanos(self.midnight_ns);
        if exchange.options.secret.is_some() {
            exchange.options.secret = Some(self.secret());
        }
    }

    /// All nodes but the root.
    pub fn directory(&self) -> Result<Directory, Failure> {
        let nodes: Vec<_> = self.nodes.iter().map(|(node, at)| (NodeId(*node), *at)).collect();
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
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let place = |n| {
            let port = 1_000 + 10 * n;
            ReplicaAddresses {
                overlay: at(port),
                feed: at(port + 1),
                link: at(port + 2),
                status: at(port + 3),
            }
        };
        Cluster {
            group: 7,
            session: "FB12345678".to_string(),
            midnight_ns: 86_400_000_000_000,
            secret: "0123456789abcdef".repeat(4),
            nodes: vec![(1, at(2_000)), (2, at(2_001))],
            replicas: (0..replicas).map(place).collect(),
            reserve: Vec::new(),
            claims: vec![at(3_000)],
            authority: String::new(),
            keys: PathBuf::new(),
        }
    }

    #[test]
    fn a_file_is_read_back_and_a_wrong_one_is_refused() {
        let dir = std::env::temp_dir().join(format!("fairbell-cluster-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a folder");
        let path = dir.join("cluster.json");
        let good = Cluster { keys: dir.join(certificates::FOLDER), ..cluster(3) };
        good.write(&path).expect("written");
        assert_eq!(Cluster::read(&path).expect("read"), good);
        let more = Cluster { reserve: cluster(2).replicas, ..good.clone() };
        more.write(&path).expect("written");
        assert_eq!(Cluster::read(&path).expect("read"), more);
        let numbers: Vec<u8> = more.places().map(|(number, _)| number).collect();
        assert_eq!((numbers, more.place(4)), (vec![1, 2, 3, 4, 5], more.reserve.first()));
        assert_eq!((more.place(0), more.place(6)), (None, None));
        let many = cluster(253).replicas;
        for (name, bad) in [
            ("reserve", Cluster { reserve: many, ..good.clone() }),
            ("secret", Cluster { secret: "xyz".repeat(20), ..good.clone() }),
            ("session", Cluster { session: "short".to_string(), ..good.clone() }),
            ("replicas", cluster(2)),
        ] {
            bad.write(&path).expect("written");
            let why = Cluster::read(&path).expect_err("refused").to_string();
            assert!(why.contains(name), "{why}");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
