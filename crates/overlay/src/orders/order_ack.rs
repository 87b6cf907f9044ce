//! Telling gateways which of their orders are in the log.
//!
//! Acknowledgements are cumulative and idempotent, so one lost or repeated does no harm and any
//! number of orders costs each gateway at most one datagram per flush. Beside what is in the log,
//! which is all that counts, they say what a sender needs to re-send well: which orders wait here
//! for others, which copy of a recent one was taken, and how many re-sends were of use.

use types::{
    GatewayId, Incarnation, Nanos, NodeId, Outbox, SeqWindow, Source, limits::GATEWAYS_MAX,
};

use crate::{
    emit::send,
    frame::{self, FrameKind, HopHeader, OrderAckBody},
    orders::ingress::Arrivals,
    orders::sequencer::Sequenced,
};

/// Orders after the contiguous part that one acknowledgement speaks of.
pub const ACK_REACH: usize = 256;

/// Parts of the acknowledgement that a gateway is sent.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Node of the gateway that is answered.
    pub to: NodeId,
    /// Incarnation of the gateway at present.
    pub incarnation: Incarnation,
    /// The life's orders in the log.
    pub logged: &'a SeqWindow,
    /// What has come of it; that of another life is not spoken of.
    pub arrivals: Option<Arrivals<'a>>,
}

/// The acknowledgement of a gateway's life by a root that stands alone; `echo` as in
/// [`OrderAckBody`].
pub fn order_ack(progress: &Progress<'_>, echo: u32) -> OrderAckBody {
    let Progress { incarnation, logged, .. } = *progress;
    let arrivals = progress.arrivals.filter(|arrivals| arrivals.incarnation == incarnation);
    let contiguous = logged.contiguous();
    let after =
        |window: &SeqWindow| [0, 64, 128, 192].map(|off| window.bitmap_after(contiguous + off));
    let selective = after(logged);
    let received = arrivals.map_or(selective, |arrivals| after(arrivals.received));
    OrderAckBody {
        contiguous,
        selective,
        held: std::array::from_fn(|word| received[word] & !selective[word]),
        incarnation,
        echo,
        useful: arrivals.map_or(0, |arrivals| arrivals.useful),
        term: 0,
    }
}

/// How long acknowledgements wait for more: far below any gateway's timeout, long enough to save
/// most of the datagrams.
const DELAY_NS: u64 = 2 * Nanos::MILLI;

/// Remembers which gateways are owed an acknowledgement.
pub struct AckScheduler {
    node: NodeId,
    epoch: u32,
    term: u32,
    owed: Vec<bool>,
    /// By gateway: the first copy named since its last acknowledgement, which had to wait longest.
    echo: Vec<u32>,
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
            term: 0,
            owed: vec![false; gateways + 1],
            echo: vec![0; gateways + 1],
            order: Vec::with_capacity(gateways + 1),
            due: Nanos::NEVER,
        }
    }

    /// As [`AckScheduler::flush`], but has acknowledgements wait a little for more.
    pub fn flush_due<'a>(
        &mut self,
        now: Nanos,
        lookup: impl FnMut(GatewayId) -> Option<Progress<'a>>,
        out: &mut Outbox,
    ) {
        if self.due <= now {
            self.flush(lookup, out);
        } else if self.due == Nanos::NEVER && !self.order.is_empty() {
            self.due = now + DELAY_NS;
        }
    }

    /// Next time at which [`AckScheduler::flush_due`] has something to do.
    pub fn next_timeout(&self) -> Nanos {
        self.due
    }

    /// The root leads its group in this term from now on; all gateways are owed an acknowledgement,
    /// by which they know.
    pub fn begin_term(&mut self, term: u64) {
        self.term = u32::try_from(term).unwrap_or(u32::MAX);
        (1..self.owed.len()).for_each(|number| self.mark(GatewayId(number as u16)));
    }

    /// The root lives in this epoch from now on.
    pub fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// An order reached the log; see [`Sequenced`].
    pub fn mark_logged(&mut self, order: &Sequenced) {
        let Source { gateway, seq, .. } = order.source;
        self.mark(gateway);
        if let Some(echo) = self.echo.get_mut(usize::from(gateway.0))
            && *echo == 0
            && !order.waited
        {
            *echo = frame::echo(seq, order.attempt);
        }
    }

    /// An order of the gateway came to wait, or came again.
    pub fn mark(&mut self, gateway: GatewayId) {
        if let Some(owed) = self.owed.get_mut(usize::from(gateway.0)).filter(|owed| !**owed) {
            *owed = true;
            self.order.push(gateway);
        }
    }

    /// Sends each marked gateway one acknowledgement, made of what `lookup` gives; gateways it does
    /// not know get nothing.
    pub fn flush<'a>(
        &mut self,
        mut lookup: impl FnMut(GatewayId) -> Option<Progress<'a>>,
        out: &mut Outbox,
    ) {
        self.due = Nanos::NEVER;
        for gateway in self.order.drain(..) {
            self.owed[usize::from(gateway.0)] = false;
            let echo = std::mem::take(&mut self.echo[usize::from(gateway.0)]);
            if let Some(progress) = lookup(gateway) {
                let header = HopHeader::new(FrameKind::OrderAck, self.node, self.epoch);
                let ack = OrderAckBody { term: self.term, ..order_ack(&progress, echo) };
                send(out, progress.to, header, &ack, &[]);
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
        let mut received = logged.clone();
        for seq in [4, 7, 67, 131, 259, 300] {
            received.record(seq);
        }
        let (to, incarnation) = (NodeId(9), Incarnation(7));
        let arrivals = Some(Arrivals { incarnation, received: &received, useful: 5 });
        let progress = Progress { to, incarnation, logged: &logged, arrivals };
        let ack = order_ack(&progress, 77);
        assert_eq!((ack.contiguous, ack.incarnation), (3, Incarnation(7)));
        assert_eq!((ack.echo, ack.useful), (77, 5));
        for seq in 4..4 + 256u64 {
            let (word, bit) = ((seq - 4) / 64, (seq - 4) % 64);
            let said = ack.selective[word as usize] >> bit & 1 == 1;
            assert_eq!(said, logged.contains(seq), "number {seq}");
            let waits = ack.held[word as usize] >> bit & 1 == 1;
            assert_eq!(waits, received.contains(seq) && !said, "number {seq}");
        }
        let other = Some(Arrivals { incarnation: Incarnation(6), received: &received, useful: 5 });
        let ack = order_ack(&Progress { arrivals: other, ..progress }, 0);
        assert_eq!((ack.held, ack.useful), ([0; 4], 0), "that of a former life");
    }

    #[test]
    fn a_new_term_is_told_to_every_gateway() {
        let logged = SeqWindow::default();
        let mut acks = AckScheduler::new(NodeId(0), 1, 2);
        acks.begin_term(7);
        let (incarnation, arrivals) = (Incarnation(1), None);
        let lookup = |gateway: GatewayId| {
            Some(Progress { to: NodeId(gateway.0), incarnation, logged: &logged, arrivals })
        };
        let mut out = Outbox::default();
        acks.flush(lookup, &mut out);
        let terms: Vec<_> = out
            .ops()
            .iter()
            .map(|op| match op {
                Op::Datagram { to: Peer::Node(node), bytes, .. } => {
                    let rest = &out.bytes(*bytes)[size_of::<HopHeader>()..];
                    (node.0, frame::body::<OrderAckBody>(rest).unwrap().0.term)
                }
                other => panic!("unexpected {other:?}"),
            })
            .collect();
        assert_eq!(terms, [(1, 7), (2, 7)]);
    }

    #[test]
    fn one_acknowledgement_per_gateway_and_flush() {
        let logged = SeqWindow::default();
        let mut acks = AckScheduler::new(NodeId(0), 1, 3);
        for gateway in [2, 1, 2, 9, 2, 1, 3] {
            acks.mark(GatewayId(gateway));
        }
        let lookup = |gateway: GatewayId| {
            let to = NodeId(100 + gateway.0);
            let incarnation = Incarnation(1);
            (gateway.0 != 3).then_some(Progress {
                to,
                incarnation,
                logged: &logged,
                arrivals: None,
            })
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
