//! The key ring of one node: the secrets of the links that it is an end of, and of what it may read.
//!
//! Who holds the secret of a deployment makes the rings (`aes_gcm::KeySource::ring`); a
//! node gets its own and can make nobody else's: each secret in it is an HMAC-SHA256 under the one
//! that it never sees. A ring has for each peer a link secret, under which hellos are proved and
//! the keys of pairs of lives derived; the market secrets of the root and of every proxy, because
//! all nodes read market data; and orders secrets, of an edge its own, of the root and of proxies
//! those of all edges.
//!
//! A ring is plain data. Encoded it is a [`RingHeader`] and the three lists, each in ascending
//! order of nodes, 34 bytes an entry; whoever hands it out does so over a channel that is secret.

use types::NodeId;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    seal::lives::{Scope, Shared},
    seal::sealed_link::Fleet,
};

/// First byte of an encoded ring.
pub const RING_VERSION: u8 = 1;
/// Most entries of each of a ring's three lists.
pub const RING_ENTRIES_MAX: usize = 16_384;
/// Most bytes of an encoded ring.
pub const RING_BYTES_MAX: usize =
    size_of::<RingHeader>() + 3 * RING_ENTRIES_MAX * size_of::<Entry>();

const _: () = assert!(types::limits::GATEWAYS_MAX < RING_ENTRIES_MAX, "and proxies fit");

/// Header of an encoded key ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RingHeader {
    /// Version of the layout: [`RING_VERSION`].
    pub version: u8,
    /// Must be zero, else it is no ring.
    pub reserved: u8,
    /// Node that the ring belongs to.
    pub node: NodeId,
    /// Link secrets, at most [`RING_ENTRIES_MAX`] as the others.
    pub links: u16,
    /// Number of secrets for the market data scope.
    pub market: u16,
    /// Number of secrets for the orders scope.
    pub orders: u16,
}

/// One secret: of the link with a node, or of what a node seals for many.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Entry {
    node: NodeId,
    secret: [u8; 32],
}

const _: () = assert!(size_of::<RingHeader>() == 10 && size_of::<Entry>() == 34);

/// Why bytes are refused as a key ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// The version is not [`RING_VERSION`], or a reserved byte is not zero.
    Version,
    /// Fewer or more bytes than the lists need, or a list of more than [`RING_ENTRIES_MAX`].
    Length,
    /// A list names a node twice, or not in ascending order.
    Order,
    /// A link of the node with itself.
    Itself,
}

impl std::fmt::Display for RingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RingError::Version => "a key ring of another version",
            RingError::Length => "a key ring that is cut short, or longer than it says",
            RingError::Order => "a key ring whose nodes are not in order",
            RingError::Itself => "a key ring with a link from a node to itself",
        })
    }
}

impl std::error::Error for RingError {}

/// The secrets that one node holds in one key epoch. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRing {
    node: NodeId,
    links: Vec<Entry>,
    market: Vec<Entry>,
    orders: Vec<Entry>,
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let KeyRing { node, links, market, orders } = self;
        let counts = [links.len(), market.len(), orders.len()];
        write!(f, "KeyRing(of {}, {counts:?} secrets)", node.0)
    }
}

impl KeyRing {
    /// The ring of `node` in a fleet; `secret_of` makes the 32 bytes of each scope.
    pub fn new(node: NodeId, fleet: &Fleet, secret_of: impl Fn(Scope) -> [u8; 32]) -> KeyRing {
        let shared = |kind: Shared| {
            let all = fleet.nodes().filter(move |of| fleet.reads(node, kind, *of));
            all.map(|of| Entry { node: of, secret: secret_of(Scope::Shared(kind, of)) }).collect()
        };
        let peers = fleet.peers(node).map(|(peer, _)| peer);
        KeyRing {
            node,
            links: links(node, peers, &secret_of),
            market: shared(Shared::Market),
            orders: shared(Shared::Orders),
        }
    }

    /// The ring of `node` among `members` that all speak with each other and seal nothing for many.
    pub fn mesh(
        node: NodeId,
        members: &[NodeId],
        secret_of: impl Fn(Scope) -> [u8; 32],
    ) -> KeyRing {
        let mut peers = members.to_vec();
        peers.sort_unstable();
        peers.dedup();
        let links = links(node, peers.into_iter(), &secret_of);
        KeyRing { node, links, market: Vec::new(), orders: Vec::new() }
    }

    /// Node that the ring belongs to.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The nodes that it has a link secret for, in ascending order.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.links.iter().map(|entry| entry.node)
    }

    /// All scopes that it has a secret for.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> + '_ {
        let shared = |kind| move |entry: &Entry| Scope::Shared(kind, entry.node);
        let links = self.links.iter().map(|entry| Scope::Link(self.node, entry.node));
        let market = self.market.iter().map(shared(Shared::Market));
        links.chain(market).chain(self.orders.iter().map(shared(Shared::Orders)))
    }

    /// The key ring without the secrets shared with `peer`, which is no longer permitted.
    #[must_use]
    pub fn without(mut self, peer: NodeId) -> KeyRing {
        for list in [&mut self.links, &mut self.market, &mut self.orders] {
            list.retain(|entry| entry.node != peer);
        }
        self
    }

    /// The secret of a scope; `None` when the node does not hold it.
    #[cfg(feature = "aead")]
    pub(crate) fn secret(&self, scope: Scope) -> Option<&[u8; 32]> {
        let (list, node) = match scope {
            Scope::Link(a, b) if a == self.node => (&self.links, b),
            Scope::Link(a, b) if b == self.node => (&self.links, a),
            Scope::Link(..) => return None,
            Scope::Shared(Shared::Market, node) => (&self.market, node),
            Scope::Shared(Shared::Orders, node) => (&self.orders, node),
        };
        let at = list.binary_search_by_key(&node, |entry| entry.node).ok()?;
        list.get(at).map(|entry| &entry.secret)
    }

    /// Appends the ring, at most [`RING_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`RingError::Length`], with nothing appended, when a list has more than [`RING_ENTRIES_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RingError> {
        let lists = [&self.links, &self.market, &self.orders];
        if lists.iter().any(|list| list.len() > RING_ENTRIES_MAX) {
            return Err(RingError::Length);
        }
        let [links, market, orders] = lists.map(|list| list.len() as u16);
        let (version, node) = (RING_VERSION, self.node);
        let header = RingHeader { version, reserved: 0, node, links, market, orders };
        out.extend_from_slice(header.as_bytes());
        lists.iter().for_each(|list| out.extend_from_slice(list.as_slice().as_bytes()));
        Ok(())
    }

    /// The ring that `bytes` are, all of them.
    ///
    /// # Errors
    /// [`RingError`] for anything that [`KeyRing::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<KeyRing, RingError> {
        let (header, mut rest) =
            RingHeader::read_from_prefix(bytes).map_err(|_| RingError::Length)?;
        let RingHeader { version, reserved, node, .. } = header;
        if version != RING_VERSION || reserved != 0 {
            return Err(RingError::Version);
        }
        let mut take = |count: u16| {
            let count = usize::from(count);
            let cut = rest.split_at_checked(count * size_of::<Entry>());
            let (list, behind) =
                cut.filter(|_| count <= RING_ENTRIES_MAX).ok_or(RingError::Length)?;
            rest = behind;
            let read = |bytes: &[u8]| Entry::read_from_bytes(bytes).ok();
            let list: Vec<Entry> = list.chunks(size_of::<Entry>()).filter_map(read).collect();
            let ascending = list.array_windows().all(|[a, b]| a.node < b.node);
            if ascending { Ok(list) } else { Err(RingError::Order) }
        };
        let (links, market) = (take(header.links)?, take(header.market)?);
        let orders = take(header.orders)?;
        if !rest.is_empty() {
            return Err(RingError::Length);
        }
        if links.iter().any(|entry| entry.node == node) {
            return Err(RingError::Itself);
        }
        Ok(KeyRing { node, links, market, orders })
    }
}

fn links(
    node: NodeId,
    peers: impl Iterator<Item = NodeId>,
    secret_of: impl Fn(Scope) -> [u8; 32],
) -> Vec<Entry> {
    let peers = peers.filter(|peer| *peer != node);
    peers.map(|peer| Entry { node: peer, secret: secret_of(Scope::Link(node, peer)) }).collect()
}
