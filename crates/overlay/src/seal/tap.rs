//! Opens the sealed datagrams of all nodes, for simulators and tests that hold the secret. A tap
//! learns lives from hellos as they pass, and checks that no pair of key and nonce seals two
//! different texts. It is not part of an exchange.

use std::collections::{BTreeMap, BTreeSet};

use types::{NodeId, limits::DATAGRAM_MAX};

use crate::{
    seal::lives::{HELLO_VERSION, Hello, Keys, Life, of_pair, of_shared},
    seal::sealed_link::{Class, Fleet, classify, kind_of_shared},
    seal::{SealError, TAG_LEN, append_body, open_hop, read_header},
};

/// A key, and the number that pairs are counted under.
struct Known<K> {
    key: K,
    number: u32,
    /// Epoch of the keys.
    epoch: usize,
    /// Lives of the two nodes of a pair, the lower node's first.
    lives: [Life; 2],
}

/// Opens the datagrams of a fleet, given in the order in which they are sent; its memory grows with
/// their number.
pub struct Tap<S: Keys> {
    fleet: Fleet,
    /// The ciphers, by key epoch.
    keys: Vec<S>,
    /// Key epochs and lives that each node has told others of, in the order in which it told them.
    lives: BTreeMap<NodeId, Vec<(usize, Life)>>,
    /// By both nodes, the lower first, and the tag.
    pairs: BTreeMap<(NodeId, NodeId, u32), Known<S::Key>>,
    /// The shared keys, by source and the source's life.
    shared: BTreeMap<(NodeId, u32), Known<S::Key>>,
    numbers: u32,
    /// Hop parts: key, who sealed, number.
    hops: BTreeSet<(u32, NodeId, u64)>,
    /// End-to-end parts: key, stream, number, and the tag that came of it.
    parts: BTreeMap<(u32, u16, u64), [u8; TAG_LEN]>,
    repeated: u64,
    /// By sender and key epoch: its life when it last sealed something under these keys, and to whom
    /// it has sealed in that one.
    reached: BTreeMap<(NodeId, usize), (Life, BTreeSet<NodeId>)>,
    /// By sender: the key epoch in which it last sealed something.
    last: BTreeMap<NodeId, usize>,
    received: Vec<u8>,
    clear: Vec<u8>,
}

impl<S: Keys> Tap<S> {
    /// A tap that has heard nothing yet.
    pub fn new(fleet: Fleet, keys: S) -> Tap<S> {
        Tap {
            fleet,
            keys: vec![keys],
            lives: BTreeMap::new(),
            pairs: BTreeMap::new(),
            shared: BTreeMap::new(),
            numbers: 0,
            hops: BTreeSet::new(),
            parts: BTreeMap::new(),
            repeated: 0,
            reached: BTreeMap::new(),
            last: BTreeMap::new(),
            received: Vec::with_capacity(DATAGRAM_MAX),
            clear: Vec::with_capacity(DATAGRAM_MAX),
        }
    }

    /// Nodes may go over to these keys, too, from now on.
    pub fn add_epoch(&mut self, keys: S) {
        self.keys.push(keys);
    }

    /// Parts sealed under a key and nonce that sealed another text before.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Pairs of key and nonce seen so far.
    pub fn pairs(&self) -> u64 {
        (self.hops.len() + self.parts.len()) as u64
    }

    /// Lives that a node told of so far.
    pub fn lives(&self, node: NodeId) -> usize {
        self.lives.get(&node).map_or(0, Vec::len)
    }

    /// The clear datagram of the last call of [`Tap::open`] that had one.
    pub fn clear(&self) -> &[u8] {
        &self.clear
    }

    /// To whom a node has sealed anything in its present life: it knows their lives.
    pub fn reached(&self, from: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let last = self.last.get(&from).and_then(|epoch| self.reached.get(&(from, *epoch)));
        last.into_iter().flat_map(|(_, nodes)| nodes).copied()
    }

    /// Takes a datagram as it is sent to `to`: the clear one, or `None` for a hello.
    ///
    /// # Errors
    /// It opens nowhere.
    pub fn open(&mut self, to: NodeId, bytes: &[u8]) -> Result<Option<&[u8]>, SealError> {
        if bytes.first() == Some(&HELLO_VERSION) {
            let hello = Hello::read(bytes).ok_or(SealError::Format)?;
            // The latest first: mostly it is those.
            let epoch = self.keys.iter().rposition(|keys| hello.is_authentic(keys));
            let life = (epoch.ok_or(SealError::HopTag)?, hello.life);
            let lives = self.lives.entry(hello.from).or_default();
            if !lives.contains(&life) {
                lives.push(life);
            }
            return Ok(None);
        }
        self.received.clear();
        self.received.extend_from_slice(bytes);
        let header = read_header(bytes).ok_or(SealError::Format)?;
        let pair = (header.hop.min(to), header.hop.max(to), header.link);
        self.meet(pair);
        let known = self.pairs.get(&pair).ok_or(SealError::Life)?;
        let opened = open_hop(&known.key, &mut self.received)?;
        let (origin, pair) = (opened.origin, known.number);
        self.repeated += u64::from(!self.hops.insert((pair, header.hop, opened.number)));
        let life = known.lives[usize::from(header.hop > to)];
        let reached = self.reached.entry((header.hop, known.epoch)).or_default();
        if reached.0 != life {
            *reached = (life, BTreeSet::new());
        }
        reached.1.insert(to);
        self.last.insert(header.hop, known.epoch);
        let class = classify(&self.fleet, (header.hop, to), origin.stream, opened.header);
        let known = match class.ok_or(SealError::Forbidden)? {
            Class::Pair => known,
            Class::Market | Class::Orders(_) => {
                let source = NodeId(origin.stream);
                let lives = self.lives.get(&source).into_iter().flatten().rev();
                let life = lives.copied().find(|(_, life)| life.tag() == origin.life);
                let (epoch, life) = life.ok_or(SealError::Life)?;
                let (kind, keys) = (kind_of_shared(&self.fleet, source), &self.keys[epoch]);
                let bytes = of_shared(keys, kind, (source, life)).ok_or(SealError::Stranger)?;
                if !self.shared.contains_key(&(source, origin.life)) {
                    let key = keys.key(&bytes).ok_or(SealError::Stranger)?;
                    self.numbers += 1;
                    let number = self.numbers;
                    let lives = [life; 2];
                    self.shared.insert((source, origin.life), Known { key, number, epoch, lives });
                }
                self.shared.get(&(source, origin.life)).ok_or(SealError::Life)?
            }
        };
        self.clear.clear();
        self.clear.extend_from_slice(opened.header);
        append_body(&known.key, &opened, &mut self.clear)?;
        let tag = *opened.sealed.last_chunk::<TAG_LEN>().ok_or(SealError::Format)?;
        let before = self.parts.insert((known.number, origin.stream, origin.number), tag);
        // What proxies pass on comes again as it is.
        self.repeated += u64::from(before.is_some_and(|before| before != tag));
        Ok(Some(&self.clear))
    }

    /// Finds the lives of which a pair's key is.
    fn meet(&mut self, pair: (NodeId, NodeId, u32)) {
        if self.pairs.contains_key(&pair) {
            return;
        }
        let (a, b, tag) = pair;
        // The latest first: mostly it is those.
        let of = |node: NodeId| self.lives.get(&node).into_iter().flatten().rev().copied();
        let all = of(a).flat_map(|one| of(b).map(move |other| (one, other)));
        for ((epoch, one), (_, other)) in all.filter(|(one, other)| one.0 == other.0) {
            let keys = &self.keys[epoch];
            let pair_of = of_pair(keys, (a, one), (b, other));
            let key = pair_of.filter(|(_, this)| *this == tag);
            if let Some(key) = key.and_then(|(bytes, _)| keys.key(&bytes)) {
                self.numbers += 1;
                let lives = [one, other];
                self.pairs.insert(pair, Known { key, number: self.numbers, epoch, lives });
                return;
            }
        }
    }
}
