//! How a receiver jumps over what it can't have any more; [`crate::skip`] says when.

use types::{Nanos, NodeId, Outbox};

use super::{AHEAD_MAX, Receiver};
use crate::{feed::mold::Packet, frame::DataBody, tree::topology::ROOT};

impl Receiver {
    /// Messages jumped over so far.
    pub fn skipped(&self) -> u64 {
        self.skip.stats().messages
    }

    /// The root says which message is the first it still has.
    pub(super) fn handle_oldest(
        &mut self,
        now: Nanos,
        sender: NodeId,
        body: &DataBody,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Some(header) = Packet::parse(bytes).map(|packet| packet.header).filter(|header| {
            let near = header.seq - self.next.min(header.seq) < AHEAD_MAX;
            sender == ROOT && near && header.session == self.config.session
        }) else {
            self.stats.malformed += 1;
            return;
        };
        let wait_ns = self.gap_wait_ns();
        self.gaps.learn(header.seq, now, wait_ns);
        self.skip.told(header.seq, self.fields(now, body).release_at);
        self.release(now, out);
    }

    /// Where to go on when what is next will not come, and when.
    pub(super) fn jump(&self) -> Option<(u64, Nanos)> {
        let held = self.hold.front().map(|front| (front.seq, front.release_at));
        self.skip.target(self.next, held)
    }

    /// Jumps over what will not come, if it is time; true when the first datagram that waits is
    /// next.
    pub(super) fn jump_over(&mut self, now: Nanos) -> bool {
        while let Some((to, _)) = self.jump().filter(|(_, at)| *at <= now) {
            self.skip.jumped(to - self.next);
            self.gaps.fill(self.next, to, now, 0);
            self.next = to;
            if self.hold.front().is_some_and(|front| front.seq <= to) {
                return true;
            }
        }
        false
    }
}
