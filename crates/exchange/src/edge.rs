//! One participant-side VM: the receiver and the gateway beside it, as one node.
//!
//! They share the VM's clock, and the socket of each shard. There is a receiver for each stream of the
//! feed. What
//! they have released tells the gateway which executions are public (corner 16); nothing else
//! passes between them.

use crate::market::{FeedBooks, Passing};
use gateway::{Gateway, SubscriptionEvent, SubscriptionTerms};
use overlay::{
    control::{self, ControlHeader, ControlKind},
    frame::{self, DataBody, FrameKind, HopHeader},
    receiver::Receiver,
    topology::ROOT,
};
use std::ops::Range;
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Remote, ShardId};

/// An edge's place in the overlay of one shard.
#[derive(Clone, Debug)]
struct EdgeShard {
    node: NodeId,
    /// What its datagrams come and go by.
    channel: Channel,
    /// Its receivers.
    streams: Range<usize>,
}

/// Receivers and gateway of one VM.
pub struct Edge {
    shards: Vec<EdgeShard>,
    /// By stream, those of all shards in one row.
    receivers: Vec<Receiver>,
    gateway: Gateway,
    malformed: u64,
    /// By stream: messages that the receiver had jumped over when the gateway was last told.
    skipped: Vec<u64>,
    told_unheard: u64,
    /// If the gateway has sessions for market data.
    passing: Option<Passing>,
    /// Whom the feed goes to because participants want it; others stay whatever participants do.
    wanted: Vec<Peer>,
}

impl Edge {
    /// Puts them on the VM that is `node` of the overlay; the receivers, at least one, in order of
    /// their streams.
    pub fn new(node: NodeId, receivers: Vec<Receiver>, gateway: Gateway) -> Edge {
        Edge::of_shards(vec![(node, receivers)], gateway)
    }

    /// Puts them on a VM that is in the overlay of several shards, in each under a number of its own;
    /// each shard's receivers, at least one, in order of their streams.
    pub fn of_shards(of: Vec<(NodeId, Vec<Receiver>)>, gateway: Gateway) -> Edge {
        let (mut shards, mut receivers) = (Vec::with_capacity(of.len()), Vec::new());
        for (shard, (node, of_shard)) in (0..).map(ShardId).zip(of) {
            let from = receivers.len();
            receivers.extend(of_shard);
            let streams = from..receivers.len();
            shards.push(EdgeShard { node, channel: Channel::of_shard(shard), streams });
        }
        let skipped = vec![0; receivers.len()];
        let (malformed, told_unheard, passing, wanted) = (0, 0, None, Vec::new());
        Edge { shards, receivers, gateway, malformed, skipped, told_unheard, passing, wanted }
    }

    /// What the receivers release builds books for the gateway's market-data sessions, if it has
    /// any; each stream's with room for so many resting orders, times counted from `midnight`.
    pub(crate) fn with_books(mut self, orders_max: usize, midnight: Nanos) -> Edge {
        if self.gateway.wants_market() {
            let streams = self.receivers.len();
            self.gateway.set_market(Box::new(FeedBooks::new((streams, orders_max), midnight)));
            self.passing = Some(Passing::new(streams));
        }
        self
    }

    /// The gateway gets what a receiver has released into `out` since there were `from` ops.
    fn pass_on(&mut self, now: ClockReading, stream: usize, from: usize, out: &mut Outbox) {
        if let Some(passing) = &mut self.passing {
            passing.pass((now, stream), from, &mut self.gateway, out);
        }
    }

    /// From now on the venue's clock is so far ahead of this node's, ns; see [`crate::Root::go_ahead`].
    pub fn go_ahead(&mut self, ahead_ns: u64) {
        self.gateway.go_ahead(ahead_ns);
    }

    /// The receiver of the first stream.
    pub fn receiver(&self) -> &Receiver {
        &self.receivers[0]
    }

    /// The receivers, one per stream, those of all shards in one row, for their totals.
    pub fn receivers(&self) -> &[Receiver] {
        &self.receivers
    }

    /// Whether what its receivers release is new: they have heard their feeds, and miss nothing of them.
    /// `waited`: it was waited for long enough, and a feed that was never heard may be of a shard that is away.
    pub fn is_level(&self, waited: bool) -> bool {
        self.receivers.iter().all(|of| !of.has_gap() && (waited || of.has_heard()))
    }

    /// The gateway, for its totals.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The gateway, for its operators.
    pub fn gateway_mut(&mut self) -> &mut Gateway {
        &mut self.gateway
    }

    /// Hands everything the receivers release on to `peer` as well; false where too many have it.
    pub fn subscribe(&mut self, peer: Peer) -> bool {
        let mut lists = self.receivers.iter_mut().map(Receiver::subscribers);
        lists.all(|list| list.add(peer))
    }

    /// Hands nothing on to `peer` any more; false where it had nothing.
    pub fn unsubscribe(&mut self, peer: Peer) -> bool {
        let lists = self.receivers.iter_mut().map(Receiver::subscribers);
        // Of all of them, whatever the first one says.
        lists.filter_map(|list| list.remove(peer).then_some(())).count() > 0
    }

    /// From now on participants may subscribe here, on these terms.
    pub fn offer_subscriptions(&mut self, terms: SubscriptionTerms) {
        self.gateway.offer_subscriptions(terms);
    }

    /// Ends all subscriptions of participants; how many there were.
    pub fn end_subscriptions(&mut self, now: ClockReading, out: &mut Outbox) -> usize {
        let ended = self.gateway.end_subscriptions(now, None, out);
        self.serve_subscriptions(now, out);
        ended
    }

    /// Sees to what participants want: the answer goes out before the first packet.
    fn serve_subscriptions(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some(event) = self.gateway.take_subscription() {
            match event {
                SubscriptionEvent::Wanted(conn, to) => {
                    let known =
                        self.receivers.first_mut().is_some_and(|of| of.subscribers().has(to));
                    let granted = self.subscribe(to);
                    if granted && !known {
                        self.wanted.push(to);
                    }
                    let stream = |of: &Receiver| (of.session(), of.session_next());
                    let streams = || self.receivers.iter().map(stream).collect();
                    let streams = granted.then(streams);
                    self.gateway.answer_subscription(now, conn, streams, out);
                }
                SubscriptionEvent::Over(to) => {
                    if let Some(at) = self.wanted.iter().position(|of| *of == to) {
                        self.wanted.swap_remove(at);
                        self.unsubscribe(to);
                    }
                }
            }
        }
    }

    /// Datagrams that were unreadable.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Reports that went to clients at a moment when the receiver jumped over messages of the feed:
    /// their ticks are public, but may be among those never handed on here.
    pub fn told_unheard(&self) -> u64 {
        self.told_unheard
    }

    /// The root's call: the tree that is, or the one that comes.
    fn handle_control(&mut self, shard: ShardId, bytes: &[u8], out: &mut Outbox) {
        let Some(EdgeShard { node, channel, streams }) = self.shards.get(usize::from(shard.0))
        else {
            self.malformed += 1;
            return;
        };
        let told = ControlHeader::read(bytes).and_then(|(header, rest)| {
            let ours = header.kind == ControlKind::Tree && header.sender == ROOT;
            let of_shard = self.receivers.get_mut(streams.clone())?;
            let receiver = of_shard.get_mut(usize::from(header.stream))?;
            Some((control::told_tree(rest, header.stream).filter(|_| ours)?, receiver))
        });
        let Some((tree, receiver)) = told else {
            self.malformed += 1;
            return;
        };
        receiver.prepare(tree);
        let (status, stream) = (receiver.status(), tree.stream);
        let header = ControlHeader::new(ControlKind::Status, *node, status.present, stream);
        control::send_by((out, *channel), ROOT, header, &status, &[]);
    }

    /// Orders go up the tree that the receiver of a shard's first stream lives in.
    fn follow_tree(&mut self, shard: ShardId, before: u32) {
        let Some(EdgeShard { node, streams, .. }) = self.shards.get(usize::from(shard.0)) else {
            return;
        };
        let Some(tree) = self.receivers.get(streams.start).map(Receiver::tree) else { return };
        if tree.epoch != before {
            let topology = &tree.topology;
            let candidates = topology.up_candidates(*node, tree.hedge, tree.epoch).collect();
            self.gateway.set_candidates(shard, tree.epoch, candidates);
        }
    }

    /// Market data or a repair, for the receiver of its stream; the first one counts what is of
    /// no stream.
    fn handle_feed(
        &mut self,
        now: ClockReading,
        (shard, header): (ShardId, &HopHeader),
        rest: &[u8],
        out: &mut Outbox,
    ) {
        let Some(of_shard) = self.shards.get(usize::from(shard.0)) else { return };
        let streams = of_shard.streams.clone();
        let named = match streams.len() {
            1 => 0,
            _ => frame::body::<DataBody>(rest).map_or(0, |(body, _)| usize::from(body.stream)),
        };
        let stream = streams.start + if named < streams.len() { named } else { 0 };
        let Some(receiver) = self.receivers.get_mut(stream) else { return };
        let (epoch, from) = (receiver.tree().epoch, out.ops().len());
        receiver.handle_frame(now, header, rest, out);
        self.pass_on(now, stream, from, out);
        if stream == streams.start {
            self.follow_tree(shard, epoch);
        }
        self.tell_watermark(now, stream, out);
    }

    /// A copy of the first shard's market data was dropped in front of the edge.
    pub(crate) fn note_copy(&mut self, came: Nanos, header: &HopHeader, body: &DataBody) {
        let Some(streams) = self.shards.first().map(|shard| shard.streams.clone()) else { return };
        let at = streams.start + usize::from(body.stream);
        if let Some(receiver) = self.receivers.get_mut(at).filter(|_| at < streams.end) {
            receiver.note_copy(came, header, body);
        }
    }

    /// Tells the gateway how far a stream is public.
    fn tell_watermark(&mut self, now: ClockReading, stream: usize, out: &mut Outbox) {
        let (Some(receiver), Some(known)) =
            (self.receivers.get(stream), self.skipped.get_mut(stream))
        else {
            return;
        };
        let (watermark, skipped) = (receiver.watermark(), receiver.skipped());
        let jumped = std::mem::replace(known, skipped) != skipped;
        let before = if jumped { self.gateway.counters().reports } else { 0 };
        self.gateway.set_watermark(now, stream as u16, watermark, out);
        if jumped {
            self.told_unheard += self.gateway.counters().reports - before;
        }
    }
}

impl Node for Edge {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        _from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        // Nothing is expected on the socket the feed is released from.
        let shard = channel.shard().filter(|shard| usize::from(shard.0) < self.shards.len());
        if let Some(shard) = shard.filter(|_| ControlHeader::is_control(bytes)) {
            self.handle_control(shard, bytes, out);
            return;
        }
        let Some((shard, (header, rest))) = shard.zip(HopHeader::read(bytes).ok()) else {
            self.malformed += 1;
            return;
        };
        if matches!(header.kind, FrameKind::Data | FrameKind::Repair) {
            self.handle_feed(now, (shard, &header), rest, out);
        } else {
            self.gateway.handle_frame(now, (shard, &header), rest, out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        for stream in 0..self.receivers.len() {
            let due = self.receivers.get_mut(stream).filter(|of| of.next_timeout() <= now.now);
            if let Some(receiver) = due {
                let from = out.ops().len();
                receiver.handle_timeout(now, out);
                self.pass_on(now, stream, from, out);
                self.tell_watermark(now, stream, out);
            }
        }
        if self.gateway.next_timeout() <= now.now {
            for (receiver, stream) in self.receivers.iter().zip(0u16..) {
                self.gateway.set_public(stream, receiver.public(now.now));
            }
            self.gateway.handle_timeout(now, out);
            self.serve_subscriptions(now, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let feed = self.receivers.iter().map(Receiver::next_timeout).min();
        feed.unwrap_or(Nanos::NEVER).min(self.gateway.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.gateway.handle_connect(now, conn, out);
    }

    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        self.gateway.handle_accept(now, conn, remote, out);
        self.serve_subscriptions(now, out);
    }

    fn handle_work(&mut self, now: ClockReading, ticket: u64, answer: &[u8], out: &mut Outbox) {
        self.gateway.handle_work(now, ticket, answer, out);
        self.serve_subscriptions(now, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.gateway.handle_stream(now, conn, bytes, out);
        self.serve_subscriptions(now, out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.gateway.handle_close(now, conn, out);
        self.serve_subscriptions(now, out);
    }

    fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.gateway.handle_unread(now, conn, out);
        self.serve_subscriptions(now, out);
    }

    fn expect_arrival(&mut self, came: Nanos) {
        self.gateway.expect_arrival(came);
    }

    fn wants_stream(&self, conn: ConnId) -> bool {
        self.gateway.wants_stream_of(conn)
    }
}
