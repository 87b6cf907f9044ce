//! One participant-side VM: the receiver and the gateway beside it, as one node.
//!
//! They share the VM's socket and its clock. What the receiver has released tells the gateway
//! which executions are public (corner 16); nothing else passes between them.

use gateway::Gateway;
use overlay::{
    control::{self, ControlHeader, ControlKind, TreeBody},
    frame::{FrameKind, HopHeader},
    receiver::Receiver,
    topology::ROOT,
};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer};
use zerocopy::FromBytes;

/// Receiver and gateway of one VM.
pub struct Edge {
    node: NodeId,
    receiver: Receiver,
    gateway: Gateway,
    malformed: u64,
}

impl Edge {
    /// Puts the two on the VM that is `node` of the overlay.
    pub fn new(node: NodeId, receiver: Receiver, gateway: Gateway) -> Edge {
        Edge { node, receiver, gateway, malformed: 0 }
    }

    /// The receiver, for its totals.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The gateway, for its totals.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Deliberate faults, for tests of the checks that have to find them: see
    /// [`Receiver::release_early`] and `Uplink::lose_resends`.
    #[doc(hidden)]
    pub fn misbehave(&mut self, early_ns: u64, lose_resends: bool) {
        self.receiver.release_early(early_ns);
        if lose_resends {
            self.gateway.lose_resends();
        }
    }

    /// Hands everything the receiver releases on to `peer` as well.
    pub fn copy_feed_to(&mut self, peer: Peer) {
        self.receiver.copy_feed_to(peer);
    }

    /// Datagrams that were unreadable.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The root's call: the tree that is, or the one that comes.
    fn handle_control(&mut self, bytes: &[u8], out: &mut Outbox) {
        let stream = self.receiver.tree().stream;
        let told = ControlHeader::read(bytes).and_then(|(header, rest)| {
            let body = TreeBody::read_from_bytes(rest).ok()?;
            let ours = header.kind == ControlKind::Tree && header.sender == ROOT;
            body.tree(stream).filter(|_| ours && header.stream == stream)
        });
        let Some(tree) = told else {
            self.malformed += 1;
            return;
        };
        self.receiver.prepare(tree);
        let status = self.receiver.status();
        let header = ControlHeader::new(ControlKind::Status, self.node, status.present, stream);
        control::send(out, ROOT, header, &status, &[]);
    }

    /// Orders go up the tree that the receiver lives in.
    fn follow_tree(&mut self, before: u32) {
        let tree = self.receiver.tree();
        if tree.epoch != before {
            let topology = &tree.topology;
            let candidates = topology.up_candidates(self.node, tree.hedge, tree.epoch).collect();
            self.gateway.set_candidates(tree.epoch, candidates);
        }
    }

    fn tell_watermark(&mut self, now: ClockReading, out: &mut Outbox) {
        self.gateway.set_watermark(now, self.receiver.watermark(), out);
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
        if channel == Channel::OVERLAY && ControlHeader::is_control(bytes) {
            self.handle_control(bytes, out);
            return;
        }
        // Nothing is expected on the socket the feed is released from.
        let Some((header, rest)) =
            Some(channel).filter(|c| *c == Channel::OVERLAY).and(HopHeader::read(bytes).ok())
        else {
            self.malformed += 1;
            return;
        };
        if matches!(header.kind, FrameKind::Data | FrameKind::Repair) {
            let epoch = self.receiver.tree().epoch;
            self.receiver.handle_frame(now, &header, rest, out);
            self.follow_tree(epoch);
            self.tell_watermark(now, out);
        } else {
            self.gateway.handle_frame(now, &header, rest, out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.receiver.next_timeout() <= now.now {
            self.receiver.handle_timeout(now, out);
            self.tell_watermark(now, out);
        }
        if self.gateway.next_timeout() <= now.now {
            self.gateway.handle_timeout(now, out);
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.receiver.next_timeout().min(self.gateway.next_timeout())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.gateway.handle_connect(now, conn, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.gateway.handle_stream(now, conn, bytes, out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.gateway.handle_close(now, conn, out);
    }

    fn wants_stream(&self, _conn: ConnId) -> bool {
        self.gateway.wants_stream()
    }
}
