//! One participant-side VM: the receiver and the gateway beside it, as one node.
//!
//! They share the VM's socket and its clock. What the receiver has released tells the gateway
//! which executions are public (corner 16); nothing else passes between them.

use gateway::Gateway;
use overlay::{
    frame::{FrameKind, HopHeader},
    receiver::Receiver,
};
use types::{Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer};

/// Receiver and gateway of one VM.
pub struct Edge {
    receiver: Receiver,
    gateway: Gateway,
    malformed: u64,
}

impl Edge {
    /// Puts the two on one VM.
    pub fn new(receiver: Receiver, gateway: Gateway) -> Edge {
        Edge { receiver, gateway, malformed: 0 }
    }

    /// The receiver, for its totals.
    pub fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// The gateway, for its totals.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Hands everything the receiver releases on to `peer` as well.
    pub fn copy_feed_to(&mut self, peer: Peer) {
        self.receiver.copy_feed_to(peer);
    }

    /// Datagrams that were unreadable.
    pub fn malformed(&self) -> u64 {
        self.malformed
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
        // Nothing is expected on the socket the feed is released from.
        let Some((header, rest)) =
            Some(channel).filter(|c| *c == Channel::OVERLAY).and(HopHeader::read(bytes).ok())
        else {
            self.malformed += 1;
            return;
        };
        if matches!(header.kind, FrameKind::Data | FrameKind::Repair) {
            self.receiver.handle_frame(now, &header, rest, out);
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
