//! One edge with all that its ring holds can be nobody else, and reads nothing that others say to
//! each other; and no key and nonce come twice, whoever starts how often.

#![cfg(feature = "aead")]

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use overlay::{
    aes_gcm::{AesGcm, KeySource, random_life},
    control::ControlKind,
    frame::FrameKind,
    key_ring::KeyRing,
    lives::{HELLO_VERSION, Hello, Keys, Life, Scope, Shared, of_pair, of_shared},
    seal::{Aead, NONCE_LEN, Origin, SealError, SealHeader, Sealer, TAG_LEN, open_hop},
    sealed_link::{Fleet, SealedLink},
    topology::ROOT,
};
use types::{NodeId, SplitMix64};
use zerocopy::{FromBytes, IntoBytes};

use crate::fleet::{self, KINDS, Links, clear};

fn source() -> KeySource {
    KeySource::new(&[0x5E; 32])
}

/// Lives are told in clear: whoever listens knows them.
fn life(node: NodeId) -> Life {
    Life::of(u64::from(node.0) + 1)
}

/// Takes one of a ring's secrets for that of whatever scope it is asked for.
struct Stolen<'a> {
    ring: &'a KeyRing,
    scope: Scope,
}

impl Keys for Stolen<'_> {
    type Key = AesGcm;

    fn derive(&self, _: Scope, name: &[u8]) -> Option<[u8; 32]> {
        self.ring.derive(self.scope, name)
    }

    fn key(&self, bytes: &[u8; 16]) -> Option<AesGcm> {
        self.ring.key(bytes)
    }
}

/// A hello of `from` that asks, and says that it answers.
fn hello(keys: &impl Keys, from: NodeId, to: NodeId) -> Vec<u8> {
    let mut hello = Hello {
        version: HELLO_VERSION,
        reserved: 0,
        from,
        to,
        reserved2: 0,
        life: Life::of(666),
        asks: 1,
        of: life(to),
        answers: 1,
        tag: [0; 16],
    };
    hello.tag = hello.proof(keys).expect("some secret");
    hello.as_bytes().to_vec()
}

/// What seals of two nodes: the link's key, and the keys of what the first seals for many.
struct Forger<'a, K: Keys> {
    keys: &'a K,
    /// The two nodes whose key it has.
    ends: (NodeId, NodeId),
    /// What the header says of that key, as any listener hears it.
    tag: u32,
}

impl<K: Keys> Forger<'_, K> {
    /// A datagram from the first to the second end, whose end-to-end part is said to be sealed by
    /// `source`: under the key of what that one seals for many or, with `None`, of the two.
    fn seal(&self, text: &[u8], source: NodeId, part: Option<Shared>) -> Vec<u8> {
        self.numbered(text, source, part, NUMBER)
    }

    /// The same with a number of its own.
    fn numbered(&self, text: &[u8], source: NodeId, part: Option<Shared>, number: u64) -> Vec<u8> {
        let Forger { keys, ends: (from, to), tag } = *self;
        let (pair, _) = of_pair(keys, (from, life(from)), (to, life(to))).expect("some secret");
        let pair = keys.key(&pair).expect("a cipher");
        let shared = part.and_then(|kind| of_shared(keys, kind, (source, life(source))));
        let shared = shared.map(|bytes| keys.key(&bytes).expect("a cipher"));
        let key = shared.as_ref().unwrap_or(&pair);
        let mut sealer = Sealer::new(from, tag);
        let (hop, body) = text.split_at(16);
        let origin = Origin { stream: source.0, life: life(source).tag(), number };
        let mut out = Vec::new();
        for _ in 0..number {
            out.clear();
            assert!(sealer.seal((&pair, key), origin, (hop, body), &mut out));
        }
        out
    }
}

/// More datagrams than a node has sealed for another one.
const NUMBER: u64 = 40;

/// The links of the tree, and what was heard on the wire between its nodes.
struct Wire {
    links: Links<KeyRing>,
    fleet: Fleet,
    /// Sealed datagrams by sender and receiver.
    heard: BTreeMap<(NodeId, NodeId), Vec<Vec<u8>>>,
}

impl Wire {
    /// Every node has said everything that it may say to every other one.
    fn new() -> Wire {
        let topology = fleet::tree();
        let fleet = Fleet::of(&topology);
        let ring = |node| source().ring(node, &fleet);
        let mut links = Links::new(&topology, ring, life);
        let mut heard: BTreeMap<_, Vec<Vec<u8>>> = BTreeMap::new();
        for (from, to) in fleet.nodes().flat_map(|a| fleet.nodes().map(move |b| (a, b))) {
            for (number, kind) in (0..).zip(KINDS) {
                // Each is another text, so that none is taken for one that came before.
                let mut text = clear(kind, from, from);
                text.extend([from.0 as u8, to.0 as u8, number]);
                let Some(bytes) = links.seal(from, to, &text) else { continue };
                let opens = links.open(to, &bytes);
                assert!(opens, "{kind:?} of {from:?} to {to:?}");
                heard.entry((from, to)).or_default().push(bytes);
            }
        }
        Wire { links, fleet, heard }
    }

    /// The tag of two nodes' key, as it stands in every datagram between them.
    fn tag(&self, a: NodeId, b: NodeId) -> Option<u32> {
        let any = self.heard.get(&(a, b)).or_else(|| self.heard.get(&(b, a)))?.first()?;
        SealHeader::read_from_prefix(any).ok().map(|(header, _)| header.link)
    }

    /// Whether a node lets something in, and by how much its counts of forged and of forbidden
    /// datagrams grew.
    fn try_on(&mut self, to: NodeId, bytes: &[u8]) -> (bool, u64, u64) {
        let (now, link) = (self.links.now, &mut self.links.all[usize::from(to.0)]);
        let before = link.stats();
        let taken = link.open(now, bytes).is_ok();
        let after = link.stats();
        (taken, after.forged - before.forged, after.forbidden - before.forbidden)
    }
}

/// Which of a node's keys end-to-end parts of a kind have.
fn part_of(kind: Result<FrameKind, ControlKind>) -> Option<Shared> {
    match kind {
        Ok(FrameKind::Data | FrameKind::Repair) => Some(Shared::Market),
        Ok(FrameKind::Order) => Some(Shared::Orders),
        _ => None,
    }
}

#[test]
fn an_edge_can_be_nobody_else_and_reads_no_link_but_its_own() {
    let mut wire = Wire::new();
    let edges: Vec<NodeId> = fleet::tree().receiver_ids().collect();
    let attacker = edges[1];
    let ring = source().ring(attacker, &wire.fleet);
    let secrets: Vec<Stolen<'_>> =
        ring.scopes().map(|scope| Stolen { ring: &ring, scope }).collect();
    assert_eq!(secrets.len(), 8 + 8 + 1, "links, market data, its own orders");
    let pairs: Vec<(NodeId, NodeId)> =
        wire.fleet.nodes().flat_map(|a| wire.fleet.nodes().map(move |b| (a, b))).collect();
    let (mut links, mut hellos, mut datagrams, mut recorded) = (0, 0, 0, 0);
    for (from, to) in pairs.into_iter().filter(|(from, to)| from != to) {
        if from == attacker || to == attacker {
            continue;
        }
        links += 1;
        // Two edges have no link: whatever tag one invents.
        let tag = wire.tag(from, to).unwrap_or(0x1234_5678);
        for secret in &secrets {
            let (taken, forged, _) = wire.try_on(to, &hello(secret, from, to));
            assert!(!taken && forged == 1, "a hello of {from:?} to {to:?} by {:?}", secret.scope);
            hellos += 1;
            let forger = Forger { keys: secret, ends: (from, to), tag };
            for kind in KINDS {
                for part in [None, part_of(kind)] {
                    let bytes = forger.seal(&clear(kind, from, from), from, part);
                    let (taken, forged, _) = wire.try_on(to, &bytes);
                    assert!(!taken && forged == 1, "{kind:?} of {from:?} to {to:?}");
                    datagrams += 1;
                }
            }
            for bytes in wire.heard.get(&(from, to)).into_iter().flatten() {
                let (pair, _) =
                    of_pair(secret, (from, life(from)), (to, life(to))).expect("a secret");
                let key = secret.key(&pair).expect("a cipher");
                let opened = open_hop(&key, &mut bytes.clone()).map(|_| ());
                assert_eq!(opened, Err(SealError::HopTag), "{from:?} to {to:?}");
                recorded += 1;
            }
        }
        let listened = wire.heard.get(&(from, to)).cloned().unwrap_or_default();
        for bytes in listened {
            assert!(!wire.try_on(attacker, &bytes).0, "its own link opens it");
        }
    }
    println!("{links} links: {hellos} hellos, {datagrams} datagrams, {recorded} recorded ones");
    assert!(links > 100 && datagrams > 50_000 && recorded > 5_000);

    // Under its own links in others' names, with the market keys of all that publish.
    let mut named = 0;
    for to in wire.fleet.nodes().filter(|to| *to != attacker) {
        let tag = wire.tag(attacker, to).unwrap_or(1);
        let permitted = wire.fleet.nodes().filter(|node| *node != attacker);
        for name in permitted {
            let forger = Forger { keys: &ring, ends: (attacker, to), tag };
            if edges.contains(&to) {
                // There is no key at all.
                assert!(of_pair(&ring, (attacker, life(attacker)), (to, life(to))).is_none());
                continue;
            }
            for kind in KINDS {
                let part = part_of(kind)
                    .filter(|part| of_shared(&ring, *part, (name, life(name))).is_some());
                // It says who it is and passes on another's part, or says that it is the other.
                for sender in [attacker, name] {
                    let bytes = forger.seal(&clear(kind, sender, name), name, part);
                    let (taken, forged, forbidden) = wire.try_on(to, &bytes);
                    assert!(!taken && forged + forbidden == 1, "{kind:?} as {name:?} to {to:?}");
                    named += 1;
                }
            }
        }
        // What only a root or a proxy says, as itself.
        let only = [
            Ok(FrameKind::Data),
            Ok(FrameKind::Repair),
            Ok(FrameKind::OrderAck),
            Ok(FrameKind::Grant),
            Ok(FrameKind::AttachReply),
            Ok(FrameKind::Private),
            Err(ControlKind::HopReport),
            Err(ControlKind::Detour),
            Err(ControlKind::Tree),
        ];
        for kind in only.into_iter().filter(|_| !edges.contains(&to)) {
            let forger = Forger { keys: &ring, ends: (attacker, to), tag };
            let bytes = forger.seal(&clear(kind, attacker, attacker), attacker, None);
            let (taken, _, forbidden) = wire.try_on(to, &bytes);
            assert!(!taken && forbidden == 1, "{kind:?} to {to:?}");
        }
    }
    println!("{named} datagrams in others' names under its own links");
    assert!(named > 2_000, "{named}");
}

#[test]
fn control_with_the_whole_secret_the_same_forgeries_are_let_in() {
    let mut wire = Wire::new();
    let (all, edges) = (source(), fleet::tree().receiver_ids().collect::<Vec<NodeId>>());
    let mut taken = 0;
    for to in wire.fleet.nodes().filter(|to| *to != ROOT).collect::<Vec<_>>() {
        let tag = wire.tag(ROOT, to).expect("a link");
        let forger = Forger { keys: &all, ends: (ROOT, to), tag };
        let mut kinds = vec![Ok(FrameKind::Data), Ok(FrameKind::Repair), Err(ControlKind::Tree)];
        if edges.contains(&to) {
            kinds.extend([
                Ok(FrameKind::OrderAck),
                Ok(FrameKind::Grant),
                Ok(FrameKind::AttachReply),
                Ok(FrameKind::Private),
            ]);
        }
        // One number each: they are let in once.
        for (kind, skip) in kinds.into_iter().zip(0..) {
            let text = clear(kind, ROOT, ROOT);
            let bytes = forger.numbered(&text, ROOT, part_of(kind), NUMBER + skip);
            assert!(wire.try_on(to, &bytes).0, "{kind:?} to {to:?}");
            taken += 1;
        }
        assert!(wire.try_on(to, &hello(&all, ROOT, to)).0, "a hello to {to:?}");
        // And what others say is read.
        for bytes in wire.heard.get(&(ROOT, to)).into_iter().flatten() {
            let (pair, _) = of_pair(&all, (ROOT, life(ROOT)), (to, life(to))).expect("all keys");
            let key = all.key(&pair).expect("a cipher");
            assert!(open_hop(&key, &mut bytes.clone()).is_ok());
        }
    }
    println!("{taken} forged datagrams were let in");
    assert!(taken > 40);
}

/// Pairs of key and nonce that sealed something, and how many did so again.
#[derive(Default)]
struct Seals {
    pairs: BTreeSet<([u8; 16], [u8; NONCE_LEN])>,
    repeated: u64,
}

/// A ring whose ciphers note what they seal with.
struct Counted {
    ring: KeyRing,
    seals: Rc<RefCell<Seals>>,
}

struct CountedKey {
    key: AesGcm,
    bytes: [u8; 16],
    seals: Rc<RefCell<Seals>>,
}

impl Keys for Counted {
    type Key = CountedKey;

    fn derive(&self, scope: Scope, name: &[u8]) -> Option<[u8; 32]> {
        self.ring.derive(scope, name)
    }

    fn key(&self, bytes: &[u8; 16]) -> Option<CountedKey> {
        let (key, seals) = (AesGcm::new(bytes)?, Rc::clone(&self.seals));
        Some(CountedKey { key, bytes: *bytes, seals })
    }
}

impl Aead for CountedKey {
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let mut seals = self.seals.borrow_mut();
        let fresh = seals.pairs.insert((self.bytes, nonce));
        seals.repeated += u64::from(!fresh);
        self.key.seal(nonce, associated, bytes)
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        bytes: &mut [u8],
        tag: &[u8; TAG_LEN],
    ) -> bool {
        self.key.open(nonce, associated, bytes, tag)
    }
}

/// A proxy that speaks with all others starts so often: from its disk, from an old copy of it, or
/// as a copy that runs beside it; every hundredth time all others get new keys. `life` of each start.
fn starts(count: u64, mut life: impl FnMut() -> Life) -> Rc<RefCell<Seals>> {
    let seals = Rc::new(RefCell::new(Seals::default()));
    let (topology, mut rng) = (fleet::tree(), SplitMix64::new(3));
    let fleet = Fleet::of(&topology);
    let secret = |epoch: u64| KeySource::new(&[epoch as u8 + 1; 32]);
    let ring = |epoch, node| {
        // Through the bytes that lie on a disk.
        let mut bytes = Vec::new();
        secret(epoch).ring(node, &fleet).encode(&mut bytes).expect("bounded");
        let ring = KeyRing::decode(&bytes).expect("a ring");
        Counted { ring, seals: Rc::clone(&seals) }
    };
    let lives = RefCell::new(&mut life);
    let draw = |_: NodeId| (lives.borrow_mut())();
    let mut links = Links::new(&topology, |node| ring(0, node), draw);
    let proxy = topology.proxy_ids().next().expect("a proxy");
    let peers: Vec<NodeId> = fleet.nodes().filter(|node| *node != proxy).collect();
    let mut epoch = 0;
    for start in 0..count {
        links.now = links.now.after(20_000_000);
        if start % 100 == 99 {
            epoch += 1;
            for node in &peers {
                let (now, link) = (links.now, &mut links.all[usize::from(node.0)]);
                let _ = link.rekey(now, ring(epoch, *node), draw(*node));
            }
        }
        // An old copy of a disk has the ring of an earlier epoch.
        let of = if rng.below(4) == 0 { epoch.saturating_sub(1) } else { epoch };
        let begin = |of| {
            SealedLink::new(proxy, fleet.clone(), draw(proxy), false, ring(of, proxy))
                .expect("a cipher")
        };
        let mut clone = begin(of);
        let place = usize::from(proxy.0);
        if rng.below(2) == 0 {
            links.all[place] = begin(of);
        }
        for turn in 0..4 {
            // The two take turns in the same place.
            if turn % 2 == 0 {
                std::mem::swap(&mut links.all[place], &mut clone);
            }
            links.settle();
            for peer in &peers {
                let there = clear(Ok(FrameKind::Repair), proxy, proxy);
                let _ = links.send(proxy, *peer, &there);
                let back = clear(Ok(FrameKind::Delay), *peer, *peer);
                let _ = links.send(*peer, proxy, &back);
            }
            links.now = links.now.after(3_000_000);
        }
    }
    drop(links);
    seals
}

#[test]
fn a_thousand_restarts_restores_and_clones_repeat_no_key_and_nonce() {
    let seals = starts(1_000, || random_life().expect("randomness"));
    let seals = seals.borrow();
    println!("{} pairs of key and nonce, {} repeated", seals.pairs.len(), seals.repeated);
    assert!(seals.pairs.len() > 50_000, "{}", seals.pairs.len());
    assert_eq!(seals.repeated, 0);
    // The control: lives that come again.
    let mut numbers = (0..50).cycle();
    let fixed = starts(200, || Life::of(numbers.next().expect("endless")));
    println!("with lives that come again {} repeated", fixed.borrow().repeated);
    assert!(fixed.borrow().repeated > 100, "{}", fixed.borrow().repeated);
}
