//! Keys are exchanged while traffic goes on: nothing is lost, and who gets no new ones is out.

#![cfg(feature = "aead")]

use overlay::{
    aes_gcm::KeySource,
    epochs::{EPOCHS_MAX, GRACE_NS, SWITCH_NS},
    frame::FrameKind,
    key_ring::KeyRing,
    lives::Life,
    seal::SealError,
    sealed_link::{Fleet, SealedLink},
    topology::{ROOT, Topology},
};
use types::{Nanos, NodeId, SplitMix64};

use crate::fleet::{self, Links, clear};

const MS: u64 = Nanos::MILLI;
/// Nodes get their new keys at times that differ by this at most, ns.
const SPREAD_NS: u64 = 500 * MS;

fn source(epoch: u64) -> KeySource {
    let mut secret = [9; 32];
    secret[..8].copy_from_slice(&epoch.to_le_bytes());
    KeySource::new(&secret)
}

fn life(epoch: u64, node: NodeId) -> Life {
    Life::of(epoch << 16 | u64::from(node.0))
}

/// A tree whose nodes speak all the time.
struct Talk {
    topology: Topology,
    links: Links<KeyRing>,
    /// By number of epoch: nodes that have not got its keys yet, and when they do.
    due: Vec<(u64, NodeId, Nanos)>,
    sent: u64,
    lost: u64,
    /// Who is left out, and what was lost that neither came from it nor went to it.
    left_out: Option<NodeId>,
    lost_elsewhere: u64,
}

impl Talk {
    fn new() -> Talk {
        let topology = fleet::tree();
        let fleet = Fleet::of(&topology);
        let ring = |node| source(0).ring(node, &fleet);
        let links = Links::new(&topology, ring, |node| life(0, node));
        let due = Vec::new();
        Talk { topology, links, due, sent: 0, lost: 0, left_out: None, lost_elsewhere: 0 }
    }

    fn fleet(&self) -> Fleet {
        Fleet::of(&self.topology)
    }

    fn link(&mut self, node: NodeId) -> &mut SealedLink<KeyRing> {
        &mut self.links.all[usize::from(node.0)]
    }

    /// All nodes get the keys of an epoch, each a while after now.
    fn plan(&mut self, epoch: u64, rng: &mut SplitMix64) {
        let (now, skip) = (self.links.now, self.left_out);
        let nodes: Vec<NodeId> = self.fleet().nodes().filter(|node| Some(*node) != skip).collect();
        for node in nodes {
            self.due.push((epoch, node, now.after(rng.below(SPREAD_NS))));
        }
    }

    /// One datagram from a node to another; whether it is taken.
    fn hop(&mut self, kind: FrameKind, (from, to): (NodeId, NodeId), source: NodeId) -> bool {
        let taken = self.links.send(from, to, &clear(Ok(kind), from, source));
        self.sent += 1;
        self.lost += u64::from(!taken);
        let concerned = self.left_out.is_some_and(|node| node == from || node == to);
        self.lost_elsewhere += u64::from(!taken && !concerned);
        taken
    }

    /// Everything that may be said, each once: market data down and orders up both planes, and what
    /// goes straight from one to another.
    fn round(&mut self) {
        let topology = self.topology;
        let edges: Vec<NodeId> = topology.receiver_ids().collect();
        let proxies: Vec<NodeId> = topology.proxy_ids().collect();
        let (upper, lower) = (&proxies[..2], &proxies[2..6]);
        for edge in &edges {
            for (top, bottom) in upper.iter().zip([lower[0], lower[3]]) {
                let down = [(ROOT, *top), (*top, bottom), (bottom, *edge)];
                // What is not taken goes no further.
                let _ = down.into_iter().all(|hop| self.hop(FrameKind::Data, hop, ROOT));
                let up = [(*edge, bottom), (bottom, *top), (*top, ROOT)];
                let _ = up.into_iter().all(|hop| self.hop(FrameKind::Order, hop, *edge));
                self.hop(FrameKind::Repair, (bottom, *edge), bottom);
            }
            self.hop(FrameKind::Private, (ROOT, *edge), ROOT);
            self.hop(FrameKind::PrivateAck, (*edge, ROOT), ROOT);
        }
        for (one, other) in proxies.iter().zip(proxies.iter().skip(1)) {
            self.hop(FrameKind::Delay, (*one, *other), ROOT);
        }
    }

    /// Goes on for so long, in steps of 5 ms; `rekey` gives a node its keys.
    fn run(&mut self, ns: u64, rekey: impl Fn(&mut Talk, u64, NodeId)) {
        let end = self.links.now.after(ns);
        while self.links.now < end {
            self.links.now = self.links.now.after(5 * MS);
            let now = self.links.now;
            let ready: Vec<_> = self.due.extract_if(.., |(_, _, at)| *at <= now).collect();
            for (epoch, node, _) in ready {
                rekey(self, epoch, node);
            }
            self.links.settle();
            self.round();
            self.links.settle();
        }
    }
}

/// The node goes on with the keys of an epoch beside those it has.
fn rekeyed(talk: &mut Talk, epoch: u64, node: NodeId) {
    let (now, fleet) = (talk.links.now, talk.fleet());
    let ring = source(epoch).ring(node, &fleet);
    assert!(talk.link(node).rekey(now, ring, life(epoch, node)), "epoch {epoch}, {node:?}");
}

/// The control: the node has no keys but those of this epoch from now on.
fn replaced(talk: &mut Talk, epoch: u64, node: NodeId) {
    let ring = source(epoch).ring(node, &talk.fleet());
    let link = SealedLink::new(node, talk.fleet(), life(epoch, node), false, ring);
    *talk.link(node) = link.expect("a cipher");
}

#[test]
fn nothing_is_lost_while_nodes_get_new_keys_at_different_times() {
    for seed in 0..12 {
        let (mut rng, mut talk) = (SplitMix64::new(seed), Talk::new());
        // The second exchange comes while the former keys of the first are still good.
        let pauses = [GRACE_NS + 700 * MS, SPREAD_NS + SWITCH_NS + 300 * MS, GRACE_NS + 700 * MS];
        for (epoch, pause) in (1..).zip(pauses) {
            talk.plan(epoch, &mut rng);
            talk.run(pause, rekeyed);
        }
        let stats = talk.links.stats();
        assert_eq!(talk.lost, 0, "seed {seed}: of {}, {stats:?}", talk.sent);
        assert!(talk.sent > 60_000, "{}", talk.sent);
        assert_eq!((stats.early, stats.other_life, stats.unsent), (0, 0, 0), "seed {seed}");
        assert_eq!((stats.clear, stats.forbidden, stats.replayed), (0, 0, 0), "seed {seed}");
        assert_eq!(stats.forged, stats.unproven, "but for hellos that came before their keys");
        assert!(stats.unproven > 0);
    }
    // The control: without the former session much is.
    let (mut rng, mut talk) = (SplitMix64::new(0), Talk::new());
    talk.plan(1, &mut rng);
    talk.run(GRACE_NS, replaced);
    assert!(talk.lost > 1_000, "{} of {}", talk.lost, talk.sent);
}

#[test]
fn exchanges_that_follow_fast_keep_no_more_epochs_than_are_allowed() {
    let (mut rng, mut talk) = (SplitMix64::new(1), Talk::new());
    for epoch in 1..=3 * EPOCHS_MAX as u64 {
        talk.plan(epoch, &mut rng);
        talk.run(SPREAD_NS + 10 * MS, rekeyed);
    }
    // It may lose something, as it ends keys that are in use; it goes on.
    talk.run(GRACE_NS, rekeyed);
    (talk.sent, talk.lost) = (0, 0);
    talk.run(SWITCH_NS, rekeyed);
    assert_eq!(talk.lost, 0, "of {}", talk.sent);
}

#[test]
fn who_gets_no_new_keys_is_out_when_the_grace_is_over() {
    for (permitted, seed) in [(true, 0), (false, 1)] {
        let (mut rng, mut talk) = (SplitMix64::new(seed), Talk::new());
        let left_out = talk.topology.proxy_ids().next().expect("a proxy");
        talk.left_out = Some(left_out);
        talk.plan(1, &mut rng);
        let begun = talk.links.now;
        talk.run(SPREAD_NS, |talk, epoch, node| {
            let mut ring = source(epoch).ring(node, &talk.fleet());
            ring = if permitted { ring } else { ring.without(left_out) };
            let now = talk.links.now;
            assert!(talk.link(node).rekey(now, ring, life(epoch, node)));
        });
        let heard = |talk: &mut Talk| {
            talk.links.all.iter().map(|link| link.heard(left_out)).collect::<Vec<_>>()
        };
        let at_first = heard(&mut talk);
        talk.run(GRACE_NS, rekeyed);
        assert!(talk.links.now >= begun.after(GRACE_NS + SPREAD_NS));
        let at_last = heard(&mut talk);
        assert_ne!(at_first, at_last, "it was heard in the grace");
        // Until here what came by it in former lives could get lost two hops further.
        (talk.sent, talk.lost, talk.lost_elsewhere) = (0, 0, 0);
        talk.run(SWITCH_NS, rekeyed);
        assert_eq!(heard(&mut talk), at_last, "and never after it");
        // The others go on.
        assert!(talk.lost > 0 && talk.lost_elsewhere == 0, "{} elsewhere", talk.lost_elsewhere);
        assert!(talk.lost < talk.sent / 2, "{} of {}", talk.lost, talk.sent);
        let opened = |talk: &mut Talk| talk.link(left_out).stats().opened;
        let before = opened(&mut talk);
        talk.run(100 * MS, rekeyed);
        assert_eq!(opened(&mut talk), before, "nor does it hear anybody");
        // The control: with the whole secret it makes itself a ring, and is heard again if others
        // permit that.
        rekeyed(&mut talk, 1, left_out);
        talk.run(SWITCH_NS, rekeyed);
        assert_eq!(heard(&mut talk) != at_last, permitted);
    }
}

#[test]
fn what_was_recorded_before_an_exchange_is_refused_when_the_grace_is_over() {
    let mut talk = Talk::new();
    let edge = talk.topology.receiver_ids().next().expect("a receiver");
    let datagram = clear(Ok(FrameKind::Private), ROOT, ROOT);
    let recorded = [0, 1].map(|_| talk.links.seal(ROOT, edge, &datagram).expect("they have met"));
    rekeyed(&mut talk, 1, edge);
    rekeyed(&mut talk, 1, ROOT);
    let now = talk.links.now;
    talk.links.now = now.after(GRACE_NS - 1);
    assert!(talk.links.open(edge, &recorded[0]), "in the grace it is taken");
    assert!(!talk.links.open(edge, &recorded[0]), "once");
    talk.links.now = now.after(GRACE_NS);
    let now = talk.links.now;
    assert_eq!(talk.link(edge).open(now, &recorded[1]), Err(SealError::Life));
}

#[test]
fn a_life_or_a_secret_that_is_in_use_is_no_new_epoch() {
    let mut talk = Talk::new();
    let (fleet, now) = (talk.fleet(), talk.links.now);
    let edge = talk.topology.receiver_ids().next().expect("a receiver");
    let ring = |epoch: u64, node| source(epoch).ring(node, &fleet);
    assert!(!talk.link(edge).rekey(now, ring(1, edge), life(0, edge)), "its life");
    assert!(!talk.link(edge).rekey(now, ring(0, edge), life(1, edge)), "its secret");
    let fewer = ring(0, edge).without(NodeId(2));
    assert!(!talk.link(edge).rekey(now, fewer, life(1, edge)), "the same without a node");
    assert!(!talk.link(edge).rekey(now, ring(1, NodeId(1)).without(edge), life(1, edge)));
    assert!(talk.link(edge).rekey(now, ring(1, edge), life(1, edge)));
    assert!(!talk.link(edge).rekey(now, ring(1, edge), life(2, edge)), "handed out twice");
    assert!(!talk.link(edge).rekey(now, ring(2, edge), life(0, edge)), "its former life");
}
