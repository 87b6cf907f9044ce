//! Where orders reach the root: identity, exactly once, causality, then the [`Sequencer`].
//!
//! Contract: of each gateway's life, every number is passed on at most once, and never before the
//! number it depends on (corners 1 and 3). Which numbers came is a sliding bitmap per gateway, never
//! a high-water mark. An order that finds no room is dropped, counted and not remembered; it is not
//! acknowledged either, so the gateway sends it again. Parking is shared fairly: an order far ahead
//! of what its gateway still misses is not parked, so that those at the front always find a place.
//!
//! What [`Ingress::pop_due`] gives must go into the log: here it already counts as received.
//! Acknowledgements are not built from this state but from the log's (see `order_ack`).

use types::{
    ClockReading, GatewayId, Incarnation, Nanos, SeqWindow, ShardId,
    limits::{GATEWAYS_MAX, SEQ_WINDOW},
};

use crate::{
    frame::{HopHeader, ORDER_DEFERRED, OrderBody},
    orders::order_ack::ACK_REACH,
    orders::payload::ORDER_PAYLOAD_MAX,
    orders::release_policy::Marks,
    orders::sequencer::{Offer, Sequenced, Sequencer, SequencerConfig},
};

/// Size and shard of an ingress.
#[derive(Clone, Debug)]
pub struct IngressConfig {
    /// The engine shard orders must be for.
    pub shard: ShardId,
    /// Highest gateway number, at most [`GATEWAYS_MAX`].
    pub gateways: usize,
    /// Settings of the sequencer behind the ingress.
    pub sequencer: SequencerConfig,
}

/// What became of an order that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was taken by the sequencer.
    Taken,
    /// Kept until the order it depends on has left the sequencer.
    Parked,
    /// Came before: acknowledge again, its acknowledgement may have been lost.
    Duplicate,
    /// No such gateway, or it has no life yet.
    UnknownGateway,
    /// It is of another incarnation than the gateway's present one.
    StaleIncarnation,
    /// Number zero, or too far ahead of what the gateway may have in flight.
    TooFar,
    /// Wrong shard, payload too long, or it depends on a number not below its own.
    Invalid,
    /// No room; it will come again.
    Full,
}

/// Counters of the ingress, by verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngressCounters {
    /// Orders taken, at once or after parking.
    pub taken: u64,
    /// Taken orders that were re-sent copies.
    pub taken_resent: u64,
    /// Copies of orders that had come before.
    pub duplicates: u64,
    /// Unknown gateway, stale life, number out of range or invalid.
    pub refused: u64,
    /// Number of orders dropped for want of room.
    pub full: u64,
}

struct Life {
    incarnation: Incarnation,
    received: SeqWindow,
    released: SeqWindow,
    /// Orders of which a re-sent copy was the first to come.
    useful: u32,
}

/// Orders of a gateway's incarnation that arrived, whether in the log already or not.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals<'a> {
    /// Incarnation of the gateway that the orders are of.
    pub incarnation: Incarnation,
    /// Numbers of its orders that arrived and were taken.
    pub received: &'a SeqWindow,
    /// Those of which a re-sent copy was the first to come; counts round.
    pub useful: u32,
}

/// The root's order entrance; see the module.
pub struct Ingress {
    shard: ShardId,
    /// How far ahead of a gateway's first missing number an order is parked.
    park_reach: u64,
    /// Present incarnation of each gateway, by gateway number.
    lives: Vec<Option<Life>>,
    sequencer: Sequencer,
    counters: IngressCounters,
}

impl Ingress {
    /// An ingress that knows no gateway yet.
    pub fn new(config: &IngressConfig) -> Ingress {
        let gateways = config.gateways.clamp(1, GATEWAYS_MAX);
        let mut lives = Vec::new();
        lives.resize_with(gateways + 1, || None);
        let sequencer = Sequencer::new(&config.sequencer);
        Ingress {
            shard: config.shard,
            park_reach: (sequencer.parked_max() / gateways).max(ACK_REACH) as u64,
            lives,
            sequencer,
            counters: IngressCounters::default(),
        }
    }

    /// Becomes as new, in the memory that it has: no gateway is known, no order held. Counters go on.
    pub fn clear(&mut self) {
        self.lives.fill_with(|| None);
        self.sequencer.clear();
    }

    /// The log granted a gateway a life: everything of its former one is dropped. The life it
    /// already has, gateway 0 and numbers beyond the configured ones change nothing.
    pub fn set_incarnation(&mut self, gateway: GatewayId, incarnation: Incarnation) {
        let Some(life) = self.lives.get_mut(usize::from(gateway.0)) else { return };
        if gateway.0 == 0 || life.as_ref().is_some_and(|life| life.incarnation == incarnation) {
            return;
        }
        let (received, released) = (SeqWindow::default(), SeqWindow::default());
        let fresh = Life { incarnation, received, released, useful: 0 };
        if life.replace(fresh).is_some() {
            self.sequencer.forget(gateway);
        }
    }

    /// As [`Ingress::set_incarnation`] for a life of which the log has these numbers already: the
    /// root has started again and the gateway lives on.
    pub fn resume(&mut self, gateway: GatewayId, incarnation: Incarnation, logged: &SeqWindow) {
        self.set_incarnation(gateway, incarnation);
        if let Some(Some(life)) = self.lives.get_mut(usize::from(gateway.0)) {
            (life.received, life.released) = (logged.clone(), logged.clone());
        }
    }

    /// Judges one order frame and takes it when it is new.
    pub fn handle_order(
        &mut self,
        now: ClockReading,
        header: &HopHeader,
        order: &OrderBody,
        payload: &[u8],
    ) -> Verdict {
        let marks = Marks {
            attempt: header.attempt,
            deferred: header.flags & ORDER_DEFERRED != 0,
            delivery: None,
        };
        let verdict = self.judge(now, order, payload, marks);
        match verdict {
            Verdict::Taken | Verdict::Parked => {
                self.counters.taken += 1;
                self.counters.taken_resent += u64::from(header.attempt > 0);
            }
            Verdict::Duplicate => self.counters.duplicates += 1,
            Verdict::Full => self.counters.full += 1,
            _ => self.counters.refused += 1,
        }
        verdict
    }

    /// The next order for the log.
    pub fn pop_due(&mut self, now: ClockReading) -> Option<Sequenced> {
        let sequenced = self.sequencer.pop_due(now)?;
        let life = self.lives.get_mut(usize::from(sequenced.source.gateway.0));
        if let Some(Some(life)) = life {
            life.released.record(sequenced.source.seq);
        }
        Some(sequenced)
    }

    /// Next time at which [`Ingress::pop_due`] may return an order.
    pub fn next_timeout(&self) -> Nanos {
        self.sequencer.next_timeout()
    }

    /// Orders that arrived in a gateway's present incarnation.
    pub fn arrivals(&self, gateway: GatewayId) -> Option<Arrivals<'_>> {
        let life = self.lives.get(usize::from(gateway.0))?.as_ref()?;
        let Life { incarnation, received, useful, .. } = life;
        Some(Arrivals { incarnation: *incarnation, received, useful: *useful })
    }

    /// The sequencer, for its counters and fill.
    pub fn sequencer(&self) -> &Sequencer {
        &self.sequencer
    }

    /// What was counted since the start.
    pub fn counters(&self) -> IngressCounters {
        self.counters
    }

    fn judge(
        &mut self,
        now: ClockReading,
        order: &OrderBody,
        payload: &[u8],
        marks: Marks,
    ) -> Verdict {
        let source = order.source;
        let life = self.lives.get_mut(usize::from(source.gateway.0));
        let Some(Some(life)) = life else { return Verdict::UnknownGateway };
        if source.incarnation != life.incarnation {
            return Verdict::StaleIncarnation;
        }
        let payload_fits = payload.len() <= ORDER_PAYLOAD_MAX;
        if source.shard != self.shard || !payload_fits || order.depends_on >= source.seq.max(1) {
            return Verdict::Invalid;
        }
        // Released lags behind received, so what it can record the other can too.
        if source.seq == 0 || source.seq > life.released.contiguous() + SEQ_WINDOW as u64 {
            return Verdict::TooFar;
        }
        if life.received.contains(source.seq) {
            return Verdict::Duplicate;
        }
        let waits = order.depends_on != 0 && !life.released.contains(order.depends_on);
        if waits && source.seq > life.released.contiguous() + self.park_reach {
            return Verdict::Full;
        }
        let waits_for = waits.then_some(order.depends_on);
        let offer = Offer { source, t_in: order.t_in, waits_for, payload, marks };
        match self.sequencer.offer(now, &offer) {
            Err(_) => Verdict::Full,
            Ok(parked) => {
                life.received.record(source.seq);
                life.useful = life.useful.wrapping_add(u32::from(marks.attempt > 0));
                if parked { Verdict::Parked } else { Verdict::Taken }
            }
        }
    }
}
