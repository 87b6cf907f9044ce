//! What an exchange may use of the overlay beyond the plain tree; everything is off by default.

use overlay::{
    aes_gcm::KeySource,
    answers::{Token, TokenMaker},
    estimator::Estimator,
    frame::{DataBody, HopHeader},
    hedger::HedgeMode,
    hedging::{HedgePolicy, Hedging},
    key_ring::KeyRing,
    lives::Life,
    membership::RollCallConfig,
    repair_cache::CacheConfig,
    seal,
    sealed_link::{Fleet, SealedLink},
    upstream_queue::{Pace, UpstreamConfig},
};
use types::{NodeId, ShardId, limits::DATAGRAM_BUILT_MAX};

/// Depth and fan-out of a tree of the same receivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeShape {
    /// Hops from the root to a receiver (D).
    pub depth: usize,
    /// Children per proxy (F).
    pub fanout: usize,
}

/// The secret of a deployment in one key epoch, known to its roots only: it makes the key ring of
/// each node. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// A fresh one; `None` when the machine has no randomness.
    pub fn random() -> Option<Secret> {
        overlay::aes_gcm::random_secret().map(Secret)
    }

    /// The key ring of `node`: the secrets of the links that it is an end of, and of what it reads.
    pub fn ring(&self, node: NodeId, fleet: &Fleet) -> KeyRing {
        self.keys().ring(node, fleet)
    }

    /// The link of `node` in a life that was never lived before, with the node's key ring.
    /// `queues`: its orders may leave later than in the call that brought them. `None` when the
    /// cipher can't be set up.
    pub fn link(
        &self,
        node: NodeId,
        fleet: &Fleet,
        life: Life,
        queues: bool,
    ) -> Option<SealedLink<KeyRing>> {
        SealedLink::new(node, fleet.clone(), life, queues, self.ring(node, fleet))
    }

    /// That of a shard of the venue: each has keys of its own. The first shard's is this one.
    pub fn of_shard(&self, shard: ShardId) -> Secret {
        match shard {
            ShardId(0) => self.clone(),
            ShardId(number) => {
                Secret(self.keys().tag(&[b"shard", &number.to_le_bytes()[..]].concat()))
            }
        }
    }

    /// What proves datagrams between the roots of shards.
    pub(crate) fn between_shards(&self) -> KeySource {
        KeySource::new(&self.keys().tag(b"between shards"))
    }

    /// Where all rings come from; by itself it opens what any two nodes say, for taps.
    pub fn keys(&self) -> KeySource {
        KeySource::new(&self.0)
    }
}

/// What the planes of the tree (`Hedging::planes`) are used for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Spread {
    /// One stream; its messages take turns in the planes.
    #[default]
    Messages,
    /// Each plane is the tree of a stream of its own, which carries some of the instruments: the
    /// plane of each, from 0 and in their order, or `None` for its turn by position.
    Symbols(Vec<Option<u16>>),
}

/// The options of one exchange; all its nodes agree on them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OverlayOptions {
    /// Datagrams between nodes are sealed under keys of this secret; `None`: in clear.
    pub secret: Option<Secret>,
    /// The root watches its proxies, routes around dead ones and can change the tree.
    pub roll_call: Option<RollCallConfig>,
    /// Shapes that the tree may change to, so that there are proxies enough.
    pub shapes: Vec<TreeShape>,
    /// Proxies that stand by, to take the place of one that turns out to be slow.
    pub standby: u16,
    /// A proxy that has been silent for so long is replaced by one that stands by, ns; 0: none is by
    /// itself.
    pub replace_after_ns: u64,
    /// Who sends further copies.
    pub hedging: Hedging,
    /// What its planes are used for.
    pub spread: Spread,
    /// Copies of an order that a gateway sends at a time, each by another candidate parent; 0 is
    /// 1, and more than there are candidates are as many as these.
    pub order_ways: usize,
    /// Which messages are hedged.
    pub hedge_mode: HedgeMode,
    /// How delays become deadlines.
    pub estimator: Estimator,
    /// Sampled messages per round of the delay all-reduce; some estimators and the adaptive hedge
    /// need them.
    pub samples: usize,
    /// Slow children are served first.
    pub slowest_first: bool,
    /// Orders of a million that may be late; the sequencer's window is what it takes. 0: it stays.
    pub late_ppm: u32,
    /// Orders whose times are no further apart leave the sequencer in an order that is drawn, ns; 0:
    /// none do.
    pub tie_ns: u64,
    /// Orders wait at proxies in a queue and leave at a pace; `None`: they pass straight through.
    pub upstream: Option<UpstreamConfig>,
    /// A parity datagram for every so many; 0: none.
    pub parity: u16,
    /// What proxies above receivers keep for repairs; `None`: nothing.
    pub cache: Option<CacheConfig>,
    /// The feed is released as it comes: no hold-and-release.
    pub release_at_once: bool,
    /// Edges with a larger clock bound are in quarantine: nobody waits for them, and they say so; 0:
    /// none is, in ns.
    pub quarantine_ns: u64,
    /// Makes the tokens by which an address proves to the public retransmission server that it hears
    /// the answers, each root's own; `None`: none can.
    pub tokens: Option<Secret>,
}

/// Samples of a round where an option needs them and none are asked for.
const SAMPLES: usize = 32;
/// Bytes that a parity block adds to the packets it mixes.
const PARITY_BYTES: usize = 30;

impl OverlayOptions {
    /// Samples per round, as many as the other options need at least.
    pub fn samples(&self) -> usize {
        let adaptive = matches!(self.hedge_mode, HedgeMode::Adaptive { .. });
        let needed = self.estimator.samples() || adaptive;
        if needed && self.samples == 0 { SAMPLES } else { self.samples }
    }

    /// What makes those tokens, and what nobody else can guess either.
    pub(crate) fn token_maker(&self) -> Option<(u64, TokenMaker)> {
        let source = KeySource::new(&self.tokens.as_ref()?.0);
        let salt =
            source.tag(b"places").first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let maker = move |bytes: &[u8]| {
            let mut token = Token::default();
            token.iter_mut().zip(source.tag(bytes)).for_each(|(to, byte)| *to = byte);
            token
        };
        Some((salt, Box::new(maker)))
    }

    /// What the sequencer draws ties from: nobody else can know it where there are secrets.
    pub(crate) fn tie_seed(&self) -> u64 {
        let tag = self.tokens.as_ref().map(|secret| KeySource::new(&secret.0).tag(b"ties"));
        tag.and_then(|tag| tag.first_chunk().copied()).map_or(0, u64::from_be_bytes)
    }

    /// Streams that the feed is spread over.
    pub fn streams(&self) -> u16 {
        match self.spread {
            Spread::Messages => 1,
            Spread::Symbols(_) => self.hedging.planes.max(1),
        }
    }

    /// The stream that carries the instrument at `place` of the list, from 0.
    pub fn stream_of(&self, place: usize) -> u16 {
        let streams = usize::from(self.streams());
        match &self.spread {
            Spread::Messages => 0,
            Spread::Symbols(chosen) => match chosen.get(place).copied().flatten() {
                Some(stream) => stream,
                None => (place % streams) as u16,
            },
        }
    }

    /// Longest clear datagram.
    pub(crate) fn datagram_max(&self) -> usize {
        DATAGRAM_BUILT_MAX - if self.secret.is_some() { seal::OVERHEAD } else { 0 }
    }

    /// Longest MoldUDP64 packet, so that it fits a datagram with whatever is added.
    pub(crate) fn packet_max(&self) -> usize {
        let parity = if self.parity > 0 { PARITY_BYTES } else { 0 };
        self.datagram_max() - size_of::<HopHeader>() - size_of::<DataBody>() - parity
    }

    /// Credits that the root grants its children per millisecond, where that is what paces them.
    pub(crate) fn credits(&self) -> Option<u32> {
        match self.upstream?.pace {
            Pace::Credits { rate } => Some(rate),
            Pace::Free | Pace::Paper(_) => None,
        }
    }

    /// Whether the number of nodes depends on more than depth, fan-out and planes.
    pub(crate) fn has_spares(&self) -> bool {
        self.hedging.policy == HedgePolicy::ExtraFanout && self.hedging.spares > 0
    }
}
