//! Telling gateways which of their orders are in the log.
//!
//! Acknowledgements are cumulative and idempotent, so one lost or repeated does no harm and any
//! number of orders costs each gateway at most one datagram per flush.

use types::{GatewayId, Incarnation, Nanos, NodeId, Outbox, SeqWindow, limits::GATEWAYS_MAX};

use crate::{
    emit::send,
    frame::{FrameKind, HopHeader, OrderAckBody},
};

/// Orders after the contiguous part that one acknowledgement speaks of.
pub const ACK_REACH: usize = 256;

/// The acknowledgement of a gateway's life whose orders in the log are `logged`.
pub fn order_ack(incarnation: Incarnation, logged: &SeqWindow) -> OrderAckBody {
    let contiguous = logged.contiguous();
    OrderAckBody {
        contiguous,
        selective: std::array::from_fn(|word| logged.bitmap_after(contiguous + 64 * word as u64)),
        incarnation,
        reserved: 0,
    }
}

/// How long acknowledgements wait for more: far below any gateway's timeout, long enough to save
/// most of the datagrams.
const DELAY_NS: u64 = 2 * Nanos::MILLI;

/// Remembers which gateways are owed an acknowledgement.
pub struct AckScheduler {
    node: NodeId,
    epoch: u32,
    owed: Vec<bool>,
    order: Vec<GatewayId>,
    /// When the acknowledgements owed go out; [`Nanos::NEVER`] while none is.
    due: Nanos,
}

impl AckScheduler {
    /// For gateways numbered up to `gateways`; `node` and `epoch` go into headers.
    pub fn new(node: NodeId, epoch: u32, gateways: usize) -> AckScheduler {
        let gateways = gateways.min(GATEWAYS_MAX);
        AckScheduler {
            node,
            epoch,
            owed: vec![false; gateways + 1],
            order: Vec::with_capacity(gateways + 1),
            due: Nanos::NEVER,
        }
    }

    /// As [`AckScheduler::flush`], but has acknowledgements wait a little for more.
    pub fn flush_due<'a>(
        &mut self,
        now: Nanos,
        lookup: impl FnMut(GatewayId) -> Option<(NodeId, Incarnation, &'a SeqWindow)>,
        out: &mut Outbox,
    ) {
        if self.due <= now {
            self.flush(lookup, out);
        } else if self.due == Nanos::NEVER && !self.order.is_empty() {
            self.due = now + DELAY_NS;
        }
    }

    /// When [`AckScheduler::flush_due`] is wanted next.
    pub fn next_timeout(&self) -> Nanos {
        self.due
    }

    /// The root lives in this epoch from now on.
    pub fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// An order of the gateway reached the log, or came again.
    pub fn mark(&mut self, gateway: GatewayId) {
        if let Some(owed) = self.owed.get_mut(usize::from(gateway.0)).filter(|owed| !**owed) {
            *owed = true;
            self.order.push(gateway);
        }
    }

    /// Sends each marked gateway one acknowledgement. `lookup` gives its node, its present life and
    /// the log's window of it; gateways it does not know get nothing.
    pub fn flush<'a>(
        &mut self,
        mut lookup: impl FnMut(GatewayId) -> Option<(NodeId, Incarnation, &'a SeqWindow)>,
        out: &mut Outbox,
    ) {
        self.due = Nanos::NEVER;
        for gateway in self.order.drain(..) {
            self.owed[usize::from(gateway.0)] = false;
            if let Some((to, incarnation, logged)) = lookup(gateway) {
                let header = HopHeader::new(FrameKind::OrderAck, self.node, self.epoch);
                send(out, to, header, &order_ack(incarnation, logged), &[]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Op, Peer};

    #[test]
    fn says_exactly_what_the_window_has() {
        let mut logged = SeqWindow::default();
        for seq in [1, 2, 3, 5, 68, 69, 259, 260] {
            logged.record(seq);
        }
        let ack = order_ack(Incarnation(7), &logged);
        assert_eq!((ack.contiguous, ack.incarnation), (3, Incarnation(7)));
        for seq in 4..4 + 256u64 {
            let (word, bit) = ((seq - 4) / 64, (seq - 4) % 64);
            let said = ack.selective[word as usize] >> bit & 1 == 1;
            assert_eq!(said, logged.contains(seq), "number {seq}");
        }
    }

    #[test]
    fn one_acknowledgement_per_gateway_and_flush() {
        let logged = SeqWindow::default();
        let mut acks = AckScheduler::new(NodeId(0), 1, 3);
        for gateway in [2, 1, 2, 9, 2, 1, 3] {
            acks.mark(GatewayId(gateway));
        }
        let lookup = |gateway: GatewayId| {
            (gateway.0 != 3).then_some((NodeId(100 + gateway.0), Incarnation(1), &logged))
        };
        let mut out = Outbox::default();
        acks.flush(lookup, &mut out);
        let sent: Vec<_> = out
            .ops()
            .iter()
            .map(|op| match op {
                Op::Datagram { to: Peer::Node(node), .. } => node.0,
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(sent, [102, 101], "in the order they were marked");
        out.clear();
        acks.flush(lookup, &mut out);
        assert!(out.is_empty());
    }
}
