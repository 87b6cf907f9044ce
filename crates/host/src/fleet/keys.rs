//! The keys of a node in a key epoch: how the roots make them, and how the node takes them.
//!
//! A node gets a key ring for each overlay node on its machine, which holds the secrets of the links
//! that node is an end of and no others, and one for its clock agent. A life is of (epoch, node,
//! start), and starts are counted in the log, so none is ever given twice.

use exchange::{ExchangeConfig, Life};
use overlay::{aes_gcm::KeySource, key_ring::KeyRing, sealed_pair::SealedPair};
use types::{NodeId, ShardId};

use super::credentials::{RootSecret, bytes_of};
use super::messages::{Keys, Ring};
use super::server::Venue;
use crate::failure::Failure;

/// The keys of the machine with this number in an epoch, at this start of it.
///
/// # Errors
/// Never for secrets of the right length.
pub fn of(
    venue: &Venue,
    secret: &RootSecret,
    number: u16,
    epoch: u32,
    start: u32,
) -> Result<Keys, Failure> {
    let of_epoch = secret.epoch(epoch)?.of_shard(venue.file.shard());
    let life = |kind: u8, node: u16| {
        let mut name = vec![kind];
        name.extend_from_slice(&epoch.to_le_bytes());
        name.extend_from_slice(&node.to_le_bytes());
        name.extend_from_slice(&start.to_le_bytes());
        let life = secret.derive(b"life", &name)?;
        Ok::<_, Failure>(crate::tls::hex(&life[..16]))
    };
    let here = venue.overlay.iter().filter(|(_, machine, _)| *machine == number);
    let rings =
        here.map(|(node, ..)| Ring::new(&of_epoch.ring(*node, &venue.fleet), life(0, node.0)?));
    let rings = rings.collect::<Result<Vec<_>, _>>()?;
    let clock = clock_ring(venue, secret, number, epoch)?;
    let clock = clock.map(|clock| Ring::new(&clock, life(1, number)?)).transpose()?;
    Ok(Keys { epoch, rings, clock })
}

/// The ring of a machine's clock agent: it speaks with those of all other machines. The roots of the
/// first shard give it, as they say whose clock all follow; `None` for those of others.
fn clock_ring(
    venue: &Venue,
    secret: &RootSecret,
    number: u16,
    epoch: u32,
) -> Result<Option<KeyRing>, Failure> {
    if venue.file.shard() != ShardId(0) {
        return Ok(None);
    }
    let members: Vec<NodeId> = (1..).map(NodeId).take(venue.file.nodes.len()).collect();
    let source = KeySource::new(&secret.derive(b"clock", &epoch.to_le_bytes())?);
    Ok(Some(source.mesh(NodeId(number), &members)))
}

/// The keys of a root and of the clock agent beside it, in an epoch. Their lives are drawn: a root lives
/// anew with each of its starts and terms.
///
/// # Errors
/// The system has no randomness.
pub fn of_root(
    venue: &Venue,
    secret: &RootSecret,
    number: u16,
    epoch: u32,
) -> Result<Keys, Failure> {
    let drawn = || crate::deployment::life().map(|Life(bytes)| crate::tls::hex(&bytes));
    let root = secret.epoch(epoch)?.of_shard(venue.file.shard()).ring(ROOT, &venue.fleet);
    let clock = clock_ring(venue, secret, number, epoch)?;
    let clock = clock.map(|clock| Ring::new(&clock, drawn()?)).transpose()?;
    Ok(Keys { epoch, rings: vec![Ring::new(&root, drawn()?)?], clock })
}

/// A node's own keys, read.
pub struct Own {
    /// The overlay node, or clock agent, that the keys are of.
    pub node: NodeId,
    /// The secrets of its links.
    pub ring: KeyRing,
    /// Its life.
    pub life: Life,
}

impl Ring {
    /// The message of a ring and a life, 32 hexadecimal digits.
    ///
    /// # Errors
    /// A ring of more nodes than one can be of.
    fn new(ring: &KeyRing, life: String) -> Result<Ring, Failure> {
        let mut bytes = Vec::new();
        ring.encode(&mut bytes).map_err(|error| Failure::Run(error.to_string()))?;
        Ok(Ring { node: ring.node().0, ring: crate::tls::hex(&bytes), life })
    }

    /// The keys that it says.
    ///
    /// # Errors
    /// Digits that are none.
    pub fn read(&self) -> Result<Own, Failure> {
        let wrong = || Failure::Run(format!("keys of node {} can't be read", self.node));
        let ring = bytes_of(&self.ring).and_then(|bytes| KeyRing::decode(&bytes).ok());
        let ring = ring.filter(|ring| ring.node().0 == self.node);
        let life = bytes_of(&self.life).and_then(|bytes| bytes.try_into().ok());
        Ok(Own {
            node: NodeId(self.node),
            ring: ring.ok_or_else(wrong)?,
            life: Life(life.ok_or_else(wrong)?),
        })
    }

    /// The guard of a clock agent among `members`.
    ///
    /// # Errors
    /// As [`Ring::read`].
    pub fn guard(&self, members: &[NodeId]) -> Result<SealedPair<KeyRing>, Failure> {
        let Own { node, ring, life } = self.read()?;
        Ok(SealedPair::new(node, members, life, ring))
    }
}

/// The overlay id of a root.
pub const ROOT: NodeId = ExchangeConfig::ROOT;
