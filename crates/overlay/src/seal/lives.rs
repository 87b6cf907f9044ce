//! Lives: what a process draws anew each time it starts, and how the two ends of a link come to
//! know each other's (corners 18 and 19).
//!
//! A [`Life`] is 128 random bits. The key of a link follows from the link secret of its ends and the
//! lives of both its ends, so no folder that is set back, no copy of one and no clock can bring a
//! key back: whoever starts again has keys that were never used, and what was sent to or by a former
//! life opens nowhere.
//!
//! Lives are told in a [`Hello`]: the sender's own, a challenge where it wants to know the other's, and
//! an answer to the other's challenge, authenticated under the link secret. It is not
//! encrypted, so it needs no nonce. A life is believed when its hello answers a challenge of one's
//! own: challenges are (own life, running number), so a recorded hello answers none. A life that
//! another one has followed is over, and is not believed again.
//!
//! ```text
//! A → B   life a, challenge n
//! B → A   life b, answer (a, n), challenge m     A knows b
//! A → B   life a, answer (b, m)                  B knows a
//! ```
//!
//! A peer is asked at the start where that is wanted, when there is something to send to it whose
//! life is not known, and when something comes from it that does not open. A challenge without answer
//! is repeated after 2 ms, then after twice that and so on, a few times; after that only when there
//! is need again. Answers are as long as challenges, and are
//! given at most [`ANSWERS`] at a time and one a millisecond to each peer.

use std::collections::VecDeque;

use types::{Nanos, NodeId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::seal::{Aead, Origin, ReplayWindow, SealError, Sealer};

/// First byte of a hello datagram.
pub const HELLO_VERSION: u8 = 0x83;
/// Length of a hello datagram, bytes.
pub const HELLO_LEN: usize = size_of::<Hello>();
/// Answers that a peer gets at a time.
pub const ANSWERS: u64 = 8;
/// An answer more after this, ns.
const ANSWER_EVERY_NS: u64 = Nanos::MILLI;
/// A challenge is repeated after this at first, ns.
const AGAIN_NS: u64 = 2 * Nanos::MILLI;
/// Challenges that are repeated without further need; the last after 128 times [`AGAIN_NS`].
const TRIES: u32 = 8;
/// Datagrams that wait for a peer's life; more are not sent.
pub const HELD_MAX: usize = 32;
/// They wait so long at most, ns: what is older would say that the way is slow.
pub const HELD_NS: u64 = 20 * Nanos::MILLI;
/// Former lives of a peer that are remembered.
const FORMER_MAX: usize = 8;

/// One life of a node: its process from start to end.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
)]
#[repr(C)]
pub struct Life(pub [u8; 16]);

impl Life {
    /// A life that follows from a number: for simulations and tests, where nothing is random.
    pub fn of(number: u64) -> Life {
        let [low, high] = [number, !number].map(|half| types::SplitMix64::mix(half).to_le_bytes());
        let mut life = [0; 16];
        life[..8].copy_from_slice(&low);
        life[8..].copy_from_slice(&high);
        Life(life)
    }

    /// What tells it from others in a header; not secret, and alone no proof of anything.
    pub fn tag(self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_le_bytes([a, b, c, d])
    }
}

/// Kind of traffic that a node seals for more than one other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Shared {
    /// Market data of the root or a proxy, for all nodes.
    Market,
    /// Orders of an edge, for the root and the proxies.
    Orders,
}

impl Shared {
    /// The first bytes of the names of its secrets and keys.
    pub fn tag(self) -> [u8; 4] {
        match self {
            Shared::Market => *b"mark",
            Shared::Orders => *b"ordr",
        }
    }
}

/// Scope of a long-term secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// All that two nodes prove and seal to each other alone, whichever is named first.
    Link(NodeId, NodeId),
    /// Traffic that this node seals for several others.
    Shared(Shared, NodeId),
}

impl Scope {
    /// Writes what names it under the secret of a deployment, and gives the bytes written: `"link"`
    /// and both nodes, the lower first, or the kind's tag and the node.
    pub fn name(self, name: &mut [u8; 8]) -> &[u8] {
        match self {
            Scope::Link(a, b) => {
                name[..4].copy_from_slice(b"link");
                name[4..6].copy_from_slice(&a.min(b).0.to_le_bytes());
                name[6..].copy_from_slice(&a.max(b).0.to_le_bytes());
                name
            }
            Scope::Shared(kind, node) => {
                name[..4].copy_from_slice(&kind.tag());
                name[4..6].copy_from_slice(&node.0.to_le_bytes());
                &name[..6]
            }
        }
    }
}

/// Source of keys: the long-term secrets of some scopes.
pub trait Keys {
    /// The cipher with one key.
    type Key: Aead;

    /// A key for `name` under the scope's secret, which looks random to everyone without that
    /// secret; `None`: the secret is not held.
    fn derive(&self, scope: Scope, name: &[u8]) -> Option<[u8; 32]>;

    /// The cipher under these bytes; `None` when it can't be set up.
    fn key(&self, bytes: &[u8; 16]) -> Option<Self::Key>;
}

/// Tells who lives, asks who lives, answers that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Hello {
    /// [`HELLO_VERSION`], else it is no hello.
    pub version: u8,
    /// Must be zero, else it is no hello.
    pub reserved: u8,
    /// The node that says it, by the secret of the link of the two.
    pub from: NodeId,
    /// The only node that may take it.
    pub to: NodeId,
    /// Must be zero, else it is no hello.
    pub reserved2: u16,
    /// Life of the process that sent it.
    pub life: Life,
    /// The sender's challenge, from 1; 0: it asks nothing.
    pub asks: u64,
    /// The life whose challenge is answered.
    pub of: Life,
    /// The challenge that is answered; 0: none.
    pub answers: u64,
    /// Authentication tag over all fields before it.
    pub tag: [u8; 16],
}

const _: () = assert!(size_of::<Hello>() == 72);
const TAGGED: usize = size_of::<Hello>() - 16;

impl Hello {
    /// The hello that `bytes` are; `None` for anything else, authentic or not.
    pub fn read(bytes: &[u8]) -> Option<Hello> {
        let hello = Hello::read_from_bytes(bytes).ok()?;
        let known = hello.version == HELLO_VERSION && hello.reserved == 0 && hello.reserved2 == 0;
        known.then_some(hello)
    }

    /// Whether a holder of the secret of the link made it; `false` when `keys` do not hold that.
    pub fn is_authentic<S: Keys>(&self, keys: &S) -> bool {
        let Some(proof) = self.proof(keys) else { return false };
        let differ = proof.iter().zip(self.tag).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differ) == 0
    }

    /// What its tag has to be; `None` when `keys` do not hold the secret of the link.
    pub fn proof<S: Keys>(&self, keys: &S) -> Option<[u8; 16]> {
        let mut name = *b"helo                                                        ";
        const { assert!(TAGGED + 4 == 60) };
        name[4..].copy_from_slice(&self.as_bytes()[..TAGGED]);
        let mut proof = [0; 16];
        proof.copy_from_slice(&keys.derive(Scope::Link(self.from, self.to), &name)?[..16]);
        Some(proof)
    }
}

/// The keys that the lives of two nodes share.
pub struct Session<K> {
    /// The key of the two alone.
    pub key: K,
    /// Which one that is, for headers.
    pub tag: u32,
    /// Number of the other node's life, for headers.
    pub life: u32,
    /// The key of what the other one seals for many.
    pub shared: Option<K>,
}

/// Key and tag of two nodes' lives, whichever is named first; `None` when `keys` do not hold the
/// secret of their link.
pub fn of_pair<S: Keys>(
    keys: &S,
    one: (NodeId, Life),
    other: (NodeId, Life),
) -> Option<([u8; 16], u32)> {
    let ((a, of_a), (b, of_b)) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let mut name = [0; 40];
    name[..4].copy_from_slice(b"pair");
    name[4..6].copy_from_slice(&a.0.to_le_bytes());
    name[6..8].copy_from_slice(&b.0.to_le_bytes());
    name[8..24].copy_from_slice(&of_a.0);
    name[24..].copy_from_slice(&of_b.0);
    keys.derive(Scope::Link(a, b), &name).map(split)
}

/// Key of what a node's life seals for many; `None` when `keys` do not hold that secret.
pub fn of_shared<S: Keys>(
    keys: &S,
    kind: Shared,
    (node, life): (NodeId, Life),
) -> Option<[u8; 16]> {
    let mut name = [0; 22];
    name[..4].copy_from_slice(&kind.tag());
    name[4..6].copy_from_slice(&node.0.to_le_bytes());
    name[6..].copy_from_slice(&life.0);
    keys.derive(Scope::Shared(kind, node), &name).map(|bytes| split(bytes).0)
}

fn split(bytes: [u8; 32]) -> ([u8; 16], u32) {
    let mut key = [0; 16];
    key.copy_from_slice(&bytes[..16]);
    (key, u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]))
}

/// State of the link with one peer.
pub(crate) struct Link<K> {
    peer: NodeId,
    shared: Option<Shared>,
    life: Option<Life>,
    former: Vec<Life>,
    pub(crate) session: Option<Session<K>>,
    /// Seals what is sent there; goes on from session to session.
    pub(crate) sealer: Sealer,
    /// Replay window of what came from there in this session.
    pub(crate) window: ReplayWindow,
    /// The challenge that is not answered yet; 0: none.
    open: u64,
    tries: u32,
    again_at: Nanos,
    /// Answers up to now are paid for until then.
    paid_to: Nanos,
    /// Datagrams that wait until the peer's life is known, oldest first.
    held: VecDeque<Held>,
}

/// A datagram that waits until the life of its receiver is known.
pub(crate) struct Held {
    since: Nanos,
    /// The datagram after it was opened.
    pub(crate) clear: Vec<u8>,
    /// End-to-end part, where that is sealed for several others.
    pub(crate) part: Option<(Origin, Vec<u8>)>,
}

/// Links with all peers of a node.
pub(crate) struct Links<S: Keys> {
    me: NodeId,
    life: Life,
    keys: S,
    links: Vec<Link<S::Key>>,
    /// Number of challenges sent so far.
    asked: u64,
    /// Peers that are asked again by time.
    waiting: Vec<NodeId>,
    due: Nanos,
    out: Vec<(NodeId, Hello)>,
    /// Peers whose life became known while something waited for it.
    met: Vec<NodeId>,
}

impl<S: Keys> Links<S> {
    /// The links of `me` in this life, which was never lived before, with those peers that `keys`
    /// hold the link secret of. Of each peer, what it seals for many.
    pub(crate) fn new(
        (me, life): (NodeId, Life),
        keys: S,
        peers: impl Iterator<Item = (NodeId, Option<Shared>)>,
    ) -> Links<S> {
        let link = |(peer, shared)| Link {
            peer,
            shared,
            life: None,
            former: Vec::new(),
            session: None,
            sealer: Sealer::new(me, 0),
            window: ReplayWindow::default(),
            open: 0,
            tries: 0,
            again_at: Nanos(0),
            paid_to: Nanos(0),
            held: VecDeque::new(),
        };
        let permitted = |peer: NodeId| keys.derive(Scope::Link(me, peer), b"").is_some();
        let peers = peers.filter(|(peer, _)| *peer != me && permitted(*peer));
        let mut links: Vec<_> = peers.map(link).collect();
        links.sort_unstable_by_key(|link| link.peer);
        links.dedup_by_key(|link| link.peer);
        let (waiting, due) = (Vec::with_capacity(links.len()), Nanos::NEVER);
        let (asked, out, met) = (0, Vec::new(), Vec::new());
        Links { me, life, keys, links, asked, waiting, due, out, met }
    }

    pub(crate) fn life(&self) -> Life {
        self.life
    }

    /// A key of what this life seals for many.
    pub(crate) fn own(&self, kind: Shared) -> Option<S::Key> {
        self.keys.key(&of_shared(&self.keys, kind, (self.me, self.life))?)
    }

    /// Whether these are links of the same node in the same life, or under the same secret.
    pub(crate) fn is_alike(&self, other: &Links<S>) -> bool {
        let secret_of = |keys: &S, peer| keys.derive(Scope::Link(self.me, peer), b"alike");
        let common = other.links.iter().find(|link| self.at(link.peer).is_some());
        let same = common.is_some_and(|link| {
            secret_of(&self.keys, link.peer) == secret_of(&other.keys, link.peer)
        });
        self.life == other.life || same
    }

    /// The numbers of what is sent go on from those of another epoch.
    pub(crate) fn go_on_from(&mut self, former: &Links<S>) {
        for link in &mut self.links {
            if let Some(before) = former.get(link.peer) {
                link.sealer = before.sealer.clone();
            }
        }
    }

    fn at(&self, peer: NodeId) -> Option<usize> {
        self.links.binary_search_by_key(&peer, |link| link.peer).ok()
    }

    pub(crate) fn get(&self, peer: NodeId) -> Option<&Link<S::Key>> {
        self.links.get(self.at(peer)?)
    }

    pub(crate) fn get_mut(&mut self, peer: NodeId) -> Option<&mut Link<S::Key>> {
        let at = self.at(peer)?;
        self.links.get_mut(at)
    }

    /// Greets a peer at the next timeout, whether there is need or not.
    pub(crate) fn greet(&mut self, peer: NodeId) {
        if self.open(peer).is_some() {
            self.due = Nanos(0);
        }
    }

    /// A challenge to a peer is open from now on; its link.
    fn open(&mut self, peer: NodeId) -> Option<&mut Link<S::Key>> {
        let at = self.at(peer)?;
        let link = &mut self.links[at];
        if link.open == 0 {
            self.asked += 1;
            link.open = self.asked;
            link.tries = 0;
            if !self.waiting.contains(&peer) {
                self.waiting.push(peer);
            }
        }
        Some(link)
    }

    /// A peer's life is needed, or the one known is doubtful: asks, if it was not asked just now.
    pub(crate) fn want(&mut self, now: Nanos, peer: NodeId) {
        let Some(link) = self.open(peer) else { return };
        let again_at = link.again_at;
        if now >= again_at {
            self.ask(now, peer);
        } else {
            self.due = self.due.min(again_at);
        }
    }

    fn ask(&mut self, now: Nanos, peer: NodeId) {
        let Some(link) = self.get_mut(peer) else { return };
        let asks = link.open;
        link.tries += 1;
        link.again_at = now.after(AGAIN_NS << (link.tries - 1).min(TRIES - 1));
        let again_at = link.again_at;
        self.due = self.due.min(again_at);
        self.say(peer, asks, (Life::default(), 0));
    }

    fn say(&mut self, to: NodeId, asks: u64, (of, answers): (Life, u64)) {
        let mut hello = Hello {
            version: HELLO_VERSION,
            reserved: 0,
            from: self.me,
            to,
            reserved2: 0,
            life: self.life,
            asks,
            of,
            answers,
            tag: [0; 16],
        };
        // Whoever has a link has its secret.
        let Some(tag) = hello.proof(&self.keys) else { return };
        hello.tag = tag;
        self.out.push((to, hello));
    }

    pub(crate) fn next_timeout(&self) -> Nanos {
        self.due
    }

    pub(crate) fn handle_timeout(&mut self, now: Nanos) {
        if now < self.due {
            return;
        }
        self.due = Nanos::NEVER;
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|peer| {
            let Some(link) = self.get(*peer).filter(|link| link.open > 0) else { return false };
            let (again_at, tries) = (link.again_at, link.tries);
            if now >= again_at && tries < TRIES {
                self.ask(now, *peer);
            } else if tries < TRIES {
                self.due = self.due.min(again_at);
            }
            tries < TRIES
        });
        self.waiting = waiting;
    }

    /// Whether [`Links::take`] or [`Links::take_held`] may have something.
    pub(crate) fn has_news(&self) -> bool {
        !self.out.is_empty() || !self.met.is_empty()
    }

    /// Takes the hellos that wait to be sent: `send` gets each, and to whom.
    pub(crate) fn take(&mut self, mut send: impl FnMut(NodeId, &[u8])) {
        self.out.drain(..).for_each(|(to, hello)| send(to, hello.as_bytes()));
    }

    /// Takes a hello, and answers it if it asks.
    pub(crate) fn hear(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), SealError> {
        let hello = Hello::read(bytes).ok_or(SealError::Format)?;
        let authentic = hello.to == self.me && hello.is_authentic(&self.keys);
        let at = self.at(hello.from).filter(|_| authentic);
        let at = at.ok_or(SealError::Stranger)?;
        let link = &mut self.links[at];
        if link.former.contains(&hello.life) {
            return Err(SealError::Life);
        }
        let fresh = hello.of == self.life && hello.answers > 0 && hello.answers == link.open;
        if fresh {
            link.open = 0;
            link.tries = 0;
            // What was sent to the former life and comes now is no reason to ask again.
            link.again_at = now.after(AGAIN_NS);
            if link.life != Some(hello.life) {
                self.meet(at, hello.life);
            }
        }
        if hello.asks == 0 {
            return Ok(());
        }
        let link = &mut self.links[at];
        let paid_to = link.paid_to.max(now);
        if paid_to.since(now) >= ANSWERS * ANSWER_EVERY_NS {
            return Ok(());
        }
        link.paid_to = paid_to.after(ANSWER_EVERY_NS);
        let known = link.life == Some(hello.life);
        // Its own challenge rides on the answer.
        let asks = if known { 0 } else { self.open(hello.from).map_or(0, |link| link.open) };
        if let Some(link) = self.links.get_mut(at).filter(|_| !known) {
            link.tries = link.tries.max(1);
            link.again_at = link.again_at.max(now.after(AGAIN_NS));
            self.due = self.due.min(self.links[at].again_at);
        }
        self.say(hello.from, asks, (hello.life, hello.asks));
        Ok(())
    }

    /// A peer's life is known from now on; the one before is over.
    fn meet(&mut self, at: usize, life: Life) {
        let Some(link) = self.links.get(at) else { return };
        let (one, other) = ((self.me, self.life), (link.peer, life));
        let Some((pair, tag)) = of_pair(&self.keys, one, other) else { return };
        let shared = link.shared.and_then(|kind| of_shared(&self.keys, kind, other));
        let shared = shared.and_then(|bytes| self.keys.key(&bytes));
        let Some(key) = self.keys.key(&pair) else { return };
        let link = &mut self.links[at];
        if let Some(over) = link.life.replace(life) {
            if link.former.len() == FORMER_MAX {
                link.former.remove(0);
            }
            link.former.push(over);
        }
        link.session = Some(Session { key, tag, life: life.tag(), shared });
        link.sealer.relink(tag);
        link.window = ReplayWindow::default();
        if !link.held.is_empty() {
            self.met.push(link.peer);
        }
    }

    /// What waits for a peer may go, though its life is not known here.
    pub(crate) fn release(&mut self, peer: NodeId) {
        let waits = self.get(peer).is_some_and(|link| !link.held.is_empty());
        if waits && !self.met.contains(&peer) {
            self.met.push(peer);
        }
    }

    /// Keeps a datagram until the life of a peer is known. False: it is lost, or another one that
    /// waited too long is.
    pub(crate) fn hold(
        &mut self,
        now: Nanos,
        peer: NodeId,
        (clear, part): (&[u8], Option<(Origin, &[u8])>),
    ) -> bool {
        let Some(link) = self.get_mut(peer) else { return false };
        let fresh = link.held.iter().position(|held| now.since(held.since) <= HELD_NS);
        let stale = link.held.drain(..fresh.unwrap_or(link.held.len())).count();
        let room = link.held.len() < HELD_MAX;
        if room {
            let part = part.map(|(origin, part)| (origin, part.to_vec()));
            link.held.push_back(Held { since: now, clear: clear.to_vec(), part });
        }
        room && stale == 0
    }

    /// Datagrams that waited for a life that is known now, not too long, and to whom they go.
    pub(crate) fn take_held(&mut self, now: Nanos) -> Vec<(NodeId, Held)> {
        let mut taken = Vec::new();
        for peer in std::mem::take(&mut self.met) {
            let Some(link) = self.get_mut(peer) else { continue };
            let held = std::mem::take(&mut link.held).into_iter();
            let fresh = held.filter(|held| now.since(held.since) <= HELD_NS);
            taken.extend(fresh.map(|held| (peer, held)));
        }
        taken
    }
}
