//! The inbound sequencer: undoes the network's reordering within a window (corner 5).
//!
//! Contract: an order waits until the clock reads `t_in + window` and leaves in the order of
//! (`t_in`, gateway, number). With a window of 0 orders leave at once, as they came. Either way an
//! order never leaves before the one it depends on (corner 3): it is parked until that one has
//! left, whatever their `t_in` say. Parked and waiting orders share one slab of `capacity` slots;
//! at most half of it is for parked ones, so that the order they all wait for still finds room.
//!
//! While more is due than the log takes, sessions take turns: one of which `quantum` orders have
//! left since the last time when nothing was due lets everything go first that is due now (deficit
//! round robin; each order costs one). Its own orders keep their order, what was set back so is
//! flagged [`INPUT_DEFERRED`]. Where all that is due leaves at once, that changes no session's
//! place that has no more than a quantum in it.
//!
//! A `t_in` further than `t_in_cap` from the clock is ordered by the nearest time within the cap
//! and flagged [`INPUT_T_IN_CAPPED`]. An order that leaves after one with a later time is flagged
//! [`INPUT_LATE`]; it leaves at once, for its time has passed.
//!
//! With a share of late orders to aim at ([`SequencerConfig::late_ppm`]) the window follows it by
//! stochastic approximation (Robbins and Monro): a late order widens it by 1/8 of itself, one in time
//! narrows it by so much less that it rests where that share is late. Orders that were sent again,
//! parked, deferred or capped say nothing of the way up and move nothing.
//!
//! With a tie ([`SequencerConfig::tie_ns`]) orders whose times are no further apart than the clocks can
//! tell, in a chain one after the other, leave gateway by gateway in an order that is drawn; no clock that
//! is ahead within its error wins by that. An order waits for as long as the tie more.
//!
//! Timer-driven, hence outside the deterministic core: the log records what came out. Not
//! guaranteed: that `t_in` is ordered beyond the window. Nothing allocates after construction.

use std::{cmp::Reverse, collections::BinaryHeap};

use types::{
    ClockReading, GatewayId, INPUT_LATE, INPUT_T_IN_CAPPED, Nanos, Source, SplitMix64,
    limits::SEQUENCER_MAX,
};

use crate::{
    orders::payload::Payload,
    orders::release_policy::{INPUT_DEFERRED, Marks, ReleasePolicy},
};

/// How long to wait and how much to hold; times in nanoseconds.
#[derive(Clone, Debug)]
pub struct SequencerConfig {
    /// Resequencing window; 0 turns it off.
    pub window_ns: u64,
    /// Largest believable distance between `t_in` and the root's clock.
    pub t_in_cap_ns: u64,
    /// Orders held, parked ones included; 2 to [`SEQUENCER_MAX`].
    pub capacity: usize,
    /// Policy that decides the order of release.
    pub policy: ReleasePolicy,
    /// Orders of a session that leave before it is another one's turn; 0: no turns are taken.
    pub quantum: u32,
    /// Orders of a million that may be late, 1 to 500,000; the window is what it takes, between
    /// [`WINDOW_LEAST_NS`] and `window_max_ns`. 0: it stays what it is.
    pub late_ppm: u32,
    /// Longest window that is ever chosen.
    pub window_max_ns: u64,
    /// Times no further apart are a tie; 0: none is.
    pub tie_ns: u64,
    /// What ties are drawn from.
    pub tie_seed: u64,
}

/// Shortest window that is chosen for a share of late orders, in ns.
pub const WINDOW_LEAST_NS: u64 = Nanos::MICRO;

impl Default for SequencerConfig {
    /// A window of half a millisecond, a cap of one second, the full capacity.
    fn default() -> Self {
        SequencerConfig {
            window_ns: Nanos::MILLI / 2,
            t_in_cap_ns: Nanos::SECOND,
            capacity: SEQUENCER_MAX,
            policy: ReleasePolicy::Fair,
            quantum: QUANTUM,
            late_ppm: 0,
            window_max_ns: 5 * Nanos::MILLI,
            tie_ns: 0,
            tie_seed: 0,
        }
    }
}

/// An order as it comes in.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Transport key of the order.
    pub source: Source,
    /// Arrival time that the gateway claims.
    pub t_in: Nanos,
    /// Number (same gateway and life) of the order that must leave first; `None` when there is
    /// none or it has left.
    pub waits_for: Option<u64>,
    /// Payload of the order, which the sequencer does not interpret.
    pub payload: &'a [u8],
    /// Facts about the order beyond its own fields.
    pub marks: Marks,
}

/// Why an order was not taken. Nothing is remembered of it: the gateway sends it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferError {
    /// No slot is free, or none for an order that must be parked.
    Full,
    /// The payload is longer than [`crate::payload::ORDER_PAYLOAD_MAX`].
    TooLong,
}

/// An order on its way into the log.
#[derive(Clone, Copy, Debug)]
pub struct Sequenced {
    /// Transport key of the order.
    pub source: Source,
    /// Time of arrival that the gateway claimed, unchanged.
    pub t_in: Nanos,
    /// Bits of [`types::Input::flags`] that the sequencer sets.
    pub flags: u64,
    /// Attempt of the copy that was taken.
    pub attempt: u8,
    /// It was parked: how long it was here says nothing of the way up.
    pub waited: bool,
    /// Payload of the order, which the sequencer does not interpret.
    pub payload: Payload,
}

/// What the sequencer has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SequencerCounters {
    /// Number of orders that were released.
    pub released: u64,
    /// Orders that were released after one with a later arrival time.
    pub late: u64,
    /// Of them, after one with a later time because a queue on the way had deferred them.
    pub deferred: u64,
    /// Orders whose `t_in` was beyond the cap.
    pub capped: u64,
    /// Orders that had to be parked.
    pub parked: u64,
    /// Orders refused because no slot was free.
    pub full: u64,
    /// Orders of a former life of their gateway, thrown away.
    pub forgotten: u64,
}

/// Quantum of most sources ([`SequencerConfig::quantum`]).
const QUANTUM: u32 = 64;
/// Orders of one tie at most.
const TIED_MAX: usize = 64;
/// Fraction bits of a window that is steered, and by what part of it a late order widens it.
const FRACTION: u32 = 16;
const STEP: u64 = 8;
const MILLION: u64 = 1_000_000;
/// Index that stands for no slot.
const NIL: u32 = u32::MAX;

struct Slot {
    source: Source,
    waits_for: u64,
    t_in: Nanos,
    /// Arrival time after the cap was applied.
    order_time: Nanos,
    flags: u64,
    attempt: u8,
    deferred: bool,
    /// Orders of its session that left before it in a row, and in which backlog.
    run: u32,
    backlog: u32,
    /// Next free slot, or next parked one of the same bucket.
    next: u32,
    parked: bool,
    payload: Payload,
}

const VACANT: Slot = Slot {
    source: Source {
        gateway: GatewayId(0),
        shard: types::ShardId(0),
        incarnation: types::Incarnation(0),
        seq: 0,
    },
    waits_for: 0,
    t_in: Nanos(0),
    order_time: Nanos(0),
    flags: 0,
    attempt: 0,
    deferred: false,
    run: 0,
    backlog: 0,
    next: NIL,
    parked: false,
    payload: Payload::EMPTY,
};

/// How far a session's turn has come with an order that leaves.
#[derive(Clone, Copy)]
struct Turn {
    /// Orders of it that left in a row.
    run: u32,
    /// Whether the source was set back in this backlog.
    behind: bool,
}

/// Order of release. The first field is `order_time`, or with the window off the arrival number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    time: u64,
    /// 0; of those set back, when that was, counted.
    turn: u64,
    gateway: u16,
    seq: u64,
    slot: u32,
}

/// Orders messages by time of arrival within a window; the module documentation has the rules.
pub struct Sequencer {
    window_ns: u64,
    /// What `window_ns` begins with.
    configured_ns: u64,
    /// Late orders of a million that are aimed at; 0: the window stays.
    late_ppm: u64,
    window_max_ns: u64,
    /// The window with [`FRACTION`] fraction bits.
    steered: u64,
    tie_ns: u64,
    tie_seed: u64,
    /// Orders of one tie that leave next, the next one last.
    tied: Vec<Key>,
    /// The latest time of them and of those that left with them.
    newest_tied: Nanos,
    t_in_cap_ns: u64,
    parked_max: usize,
    slots: Vec<Slot>,
    free: u32,
    due: BinaryHeap<Reverse<Key>>,
    /// Heads of the chains of parked orders, by hash of (gateway, waits_for).
    buckets: Vec<u32>,
    parked: usize,
    arrivals: u64,
    policy: ReleasePolicy,
    quantum: u32,
    /// Counts the times when nothing was due; counts round.
    backlog: u32,
    newest_released: Nanos,
    counters: SequencerCounters,
}

impl Sequencer {
    /// An empty sequencer with all its memory.
    pub fn new(config: &SequencerConfig) -> Sequencer {
        let capacity = config.capacity.clamp(2, SEQUENCER_MAX);
        let slots = (0..capacity as u32).map(|i| {
            let next = if i + 1 < capacity as u32 { i + 1 } else { NIL };
            Slot { next, ..VACANT }
        });
        // No window is none to steer, and longer ones than the fraction leaves room for are none.
        let window_max_ns = config.window_max_ns.clamp(WINDOW_LEAST_NS, u64::MAX >> (FRACTION + 1));
        Sequencer {
            window_ns: config.window_ns,
            configured_ns: config.window_ns,
            late_ppm: u64::from(config.late_ppm.min(500_000)) * u64::from(config.window_ns > 0),
            window_max_ns,
            steered: first_steered(config.window_ns, window_max_ns),
            tie_ns: config.tie_ns * u64::from(config.window_ns > 0),
            tie_seed: config.tie_seed,
            tied: Vec::with_capacity(TIED_MAX),
            newest_tied: Nanos(0),
            policy: config.policy,
            quantum: config.quantum,
            backlog: 0,
            t_in_cap_ns: config.t_in_cap_ns,
            parked_max: capacity / 2,
            slots: slots.collect(),
            free: 0,
            due: BinaryHeap::with_capacity(capacity),
            buckets: vec![NIL; capacity.next_power_of_two()],
            parked: 0,
            arrivals: 0,
            newest_released: Nanos(0),
            counters: SequencerCounters::default(),
        }
    }

    /// Takes an order; returns whether it waits for another one (is parked).
    pub fn offer(&mut self, now: ClockReading, offer: &Offer<'_>) -> Result<bool, OfferError> {
        let payload = Payload::new(offer.payload).ok_or(OfferError::TooLong)?;
        let parks = offer.waits_for.is_some();
        if self.free == NIL || (parks && self.parked >= self.parked_max) {
            self.counters.full += 1;
            return Err(OfferError::Full);
        }
        let earliest = Nanos(now.now.0.saturating_sub(self.t_in_cap_ns));
        let latest = now.now + self.t_in_cap_ns;
        let order_time = offer.t_in.clamp(earliest, latest);
        let capped = order_time != offer.t_in;
        let order_time = match (self.policy, offer.marks.delivery) {
            (ReleasePolicy::Delivery, Some(delivery)) => {
                delivery.order_time().clamp(earliest, latest)
            }
            _ => order_time,
        };
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        *slot = Slot {
            source: offer.source,
            waits_for: offer.waits_for.unwrap_or(0),
            t_in: offer.t_in,
            order_time,
            flags: if capped { INPUT_T_IN_CAPPED } else { 0 },
            attempt: offer.marks.attempt,
            deferred: offer.marks.deferred,
            run: 0,
            backlog: 0,
            next: NIL,
            parked: parks,
            payload,
        };
        if parks {
            self.park(index);
        } else {
            self.enqueue(index, None);
        }
        Ok(parks)
    }

    /// The next order whose time has come. What leaves here must go into the log.
    pub fn pop_due(&mut self, now: ClockReading) -> Option<Sequenced> {
        if self.next_timeout() > now.now {
            self.backlog = self.backlog.wrapping_add(1);
            return None;
        }
        let key = self.take_next(now.now)?;
        let slot = &self.slots[key.slot as usize];
        let mut sequenced = Sequenced {
            source: slot.source,
            t_in: slot.t_in,
            flags: slot.flags,
            attempt: slot.attempt,
            waited: slot.waits_for != 0,
            payload: slot.payload,
        };
        let (order_time, deferred) = (slot.order_time, slot.deferred);
        let plain = slot.attempt == 0 && slot.waits_for == 0 && slot.flags == 0 && !deferred;
        let went_on = slot.backlog == self.backlog;
        let turn =
            Turn { run: if went_on { slot.run + 1 } else { 1 }, behind: went_on && deferred };
        if order_time < self.newest_released {
            // What a queue deferred on purpose is not late by the network's doing (corner 6).
            sequenced.flags |= if deferred { INPUT_DEFERRED } else { INPUT_LATE };
            self.counters.deferred += u64::from(deferred);
            self.counters.late += u64::from(!deferred);
        }
        match self.tie_ns {
            0 => self.newest_released = self.newest_released.max(order_time),
            // Nobody is late for having lost a draw.
            _ => self.newest_tied = self.newest_tied.max(order_time),
        }
        if self.late_ppm > 0 && plain {
            self.steer(order_time < self.newest_released);
        }
        self.counters.capped += u64::from(sequenced.flags & INPUT_T_IN_CAPPED != 0);
        self.counters.released += 1;
        self.release_slot(key.slot);
        self.unpark(now.now, &sequenced.source, turn);
        Some(sequenced)
    }

    /// When the next order may leave: at once, at its time, or [`Nanos::NEVER`].
    pub fn next_timeout(&self) -> Nanos {
        match self.due.peek() {
            _ if !self.tied.is_empty() => Nanos(0),
            None => Nanos::NEVER,
            Some(_) if self.window_ns == 0 => Nanos(0),
            Some(Reverse(key)) => Nanos(key.time) + self.window_ns + self.tie_ns,
        }
    }

    /// The next order by time; of a tie, the next by draw.
    fn take_next(&mut self, now: Nanos) -> Option<Key> {
        if self.tie_ns == 0 {
            return self.due.pop().map(|Reverse(key)| key);
        }
        if self.tied.is_empty() {
            self.newest_released = self.newest_released.max(self.newest_tied);
            let mut last = None;
            while self.tied.len() < TIED_MAX
                && let Some(Reverse(key)) = self.due.peek()
                && Nanos(key.time) + self.window_ns <= now
                && last.is_none_or(|last| key.time - last <= self.tie_ns)
            {
                last = Some(key.time);
                self.tied.extend(self.due.pop().map(|Reverse(key)| key));
            }
            let begin = self.tied.first().map_or(0, |key| key.time);
            let seed = SplitMix64::mix(self.tie_seed ^ begin);
            // What one gateway's clock has told apart keeps its order; the last one leaves first.
            let drawn = |key: &Key| SplitMix64::mix(seed ^ u64::from(key.gateway));
            self.tied.sort_unstable_by_key(|key| (drawn(key), Reverse(*key)));
        }
        self.tied.pop()
    }

    /// Widens the window for a late order, narrows it for one in time.
    fn steer(&mut self, late: bool) {
        let part = self.steered / (STEP * MILLION);
        self.steered = match late {
            true => self.steered + part * (MILLION - self.late_ppm),
            false => self.steered - part * self.late_ppm,
        };
        let most = self.window_max_ns << FRACTION;
        self.steered = self.steered.clamp(WINDOW_LEAST_NS << FRACTION, most);
        self.window_ns = self.steered >> FRACTION;
    }

    /// Throws away everything of a gateway, whose life ended. Costs a pass over the slab.
    pub fn forget(&mut self, gateway: GatewayId) {
        self.drop_orders(|of| of == gateway);
    }

    /// Becomes as new, in the memory that it has: all orders are thrown away, the window is the configured
    /// one. Counters go on.
    pub fn clear(&mut self) {
        self.drop_orders(|_| true);
        self.window_ns = self.configured_ns;
        self.steered = first_steered(self.configured_ns, self.window_max_ns);
        (self.newest_tied, self.newest_released) = (Nanos(0), Nanos(0));
        (self.backlog, self.arrivals) = (0, 0);
    }

    /// Frees the places of the orders of these gateways, which count as forgotten.
    fn drop_orders(&mut self, of: impl Fn(GatewayId) -> bool) {
        if self.held() == 0 {
            return;
        }
        let keeps = |sequencer: &mut Sequencer, key: &Key| {
            let dropped = of(GatewayId(key.gateway));
            if dropped {
                sequencer.release_slot(key.slot);
                sequencer.counters.forgotten += 1;
            }
            !dropped
        };
        let (mut tied, mut due) = (std::mem::take(&mut self.tied), std::mem::take(&mut self.due));
        tied.retain(|key| keeps(self, key));
        due.retain(|Reverse(key)| keeps(self, key));
        (self.tied, self.due) = (tied, due);
        for bucket in 0..self.buckets.len() {
            self.take_parked(
                bucket,
                |slot| of(slot.source.gateway),
                |sequencer, index| {
                    sequencer.release_slot(index);
                    sequencer.counters.forgotten += 1;
                },
            );
        }
    }

    /// Number of orders held, parked ones included.
    pub fn held(&self) -> usize {
        self.due.len() + self.tied.len() + self.parked
    }

    /// Most orders that may be parked.
    pub fn parked_max(&self) -> usize {
        self.parked_max
    }

    /// Orders that wait for another one to leave.
    pub fn parked(&self) -> usize {
        self.parked
    }

    /// What was counted since the start.
    pub fn counters(&self) -> SequencerCounters {
        self.counters
    }

    /// Present length of the window, ns.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Puts an order among those that leave at their time, or behind all of a later one.
    fn enqueue(&mut self, index: u32, set_back: Option<Nanos>) {
        let slot = &mut self.slots[index as usize];
        slot.parked = false;
        let time = match self.window_ns {
            0 => self.arrivals,
            _ => set_back.unwrap_or(slot.order_time).0,
        };
        let Source { gateway, seq, .. } = slot.source;
        let turn = if set_back.is_some() { self.arrivals + 1 } else { 0 };
        self.due.push(Reverse(Key { time, turn, gateway: gateway.0, seq, slot: index }));
        self.arrivals += 1;
    }

    fn bucket(&self, gateway: GatewayId, waits_for: u64) -> usize {
        let hash = SplitMix64::mix(waits_for ^ (u64::from(gateway.0) << 48));
        hash as usize & (self.buckets.len() - 1)
    }

    fn park(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let bucket = self.bucket(slot.source.gateway, slot.waits_for);
        self.slots[index as usize].next = std::mem::replace(&mut self.buckets[bucket], index);
        self.parked += 1;
        self.counters.parked += 1;
    }

    /// What waited for `left` may leave from now on, at its own time; or, when its session has had
    /// its turn, after what is due.
    fn unpark(&mut self, now: Nanos, left: &Source, turn: Turn) {
        if self.parked == 0 {
            return;
        }
        let bucket = self.bucket(left.gateway, left.seq);
        let waited =
            |slot: &Slot| slot.source.gateway == left.gateway && slot.waits_for == left.seq;
        let due = Nanos(now.0.saturating_sub(self.window_ns));
        self.take_parked(bucket, waited, |sequencer, index| {
            let turn_over = sequencer.quantum > 0 && turn.run >= sequencer.quantum;
            let slot = &mut sequencer.slots[index as usize];
            slot.backlog = sequencer.backlog;
            slot.run = if turn_over { 0 } else { turn.run };
            let set_back = turn_over && slot.order_time < due;
            slot.deferred |= set_back || turn.behind;
            sequencer.enqueue(index, set_back.then_some(due));
        });
    }

    /// Unlinks the parked orders of a bucket that `wanted` picks and hands each to `act`.
    fn take_parked(
        &mut self,
        bucket: usize,
        wanted: impl Fn(&Slot) -> bool,
        act: impl Fn(&mut Sequencer, u32),
    ) {
        let (mut before, mut at) = (NIL, self.buckets[bucket]);
        while at != NIL {
            let next = self.slots[at as usize].next;
            if wanted(&self.slots[at as usize]) {
                match before {
                    NIL => self.buckets[bucket] = next,
                    _ => self.slots[before as usize].next = next,
                }
                self.parked -= 1;
                act(self, at);
            } else {
                before = at;
            }
            at = next;
        }
    }

    fn release_slot(&mut self, index: u32) {
        self.slots[index as usize].next = std::mem::replace(&mut self.free, index);
    }
}

/// The window with [`FRACTION`] fraction bits, as it begins.
fn first_steered(window_ns: u64, window_max_ns: u64) -> u64 {
    window_ns.clamp(WINDOW_LEAST_NS, window_max_ns) << FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(sequencer: &mut Sequencer, now: u64, gateway: u16, seq: u64, t_in: u64) {
        let source = Source { gateway: GatewayId(gateway), seq, ..VACANT.source };
        let (marks, payload) = (Marks::default(), &seq.to_le_bytes()[..]);
        let offer = Offer { source, t_in: Nanos(t_in), waits_for: None, payload, marks };
        let now = ClockReading { now: Nanos(now), bound_ns: 0 };
        assert_eq!(sequencer.offer(now, &offer), Ok(false));
    }

    fn pop(sequencer: &mut Sequencer, now: u64) -> Option<Sequenced> {
        sequencer.pop_due(ClockReading { now: Nanos(now), bound_ns: 0 })
    }

    /// Window that orders with this spread of delays lead to, and the share of the last half that is late.
    fn steered(late_ppm: u32, spread_ns: u64) -> (u64, f64) {
        let (window_ns, window_max_ns) = (20_000, Nanos::MILLI);
        let capacity = 1_024;
        let config =
            SequencerConfig { window_ns, late_ppm, window_max_ns, capacity, ..Default::default() };
        let (mut sequencer, mut dice) = (Sequencer::new(&config), SplitMix64::new(7));
        let mut coming: BinaryHeap<Reverse<(u64, u64, u64)>> = BinaryHeap::new();
        let (count, mut middle) = (200_000, SequencerCounters::default());
        for seq in 1..=count {
            let t_in = Nanos::SECOND + seq * 5_000;
            coming.push(Reverse((t_in + dice.below(spread_ns), seq, t_in)));
            while let Some(&Reverse((at, seq, of))) = coming.peek()
                && at <= t_in
            {
                coming.pop();
                while pop(&mut sequencer, at).is_some() {}
                offer(&mut sequencer, at, 1 + (seq % 8) as u16, seq, of);
            }
            if seq == count / 2 {
                middle = sequencer.counters();
            }
        }
        let end = sequencer.counters();
        let released = end.released - middle.released;
        (sequencer.window_ns(), (end.late - middle.late) as f64 / released as f64)
    }

    #[test]
    fn the_window_follows_the_share_of_late_orders() {
        let (window_ns, late) = steered(10_000, 100_000);
        assert!((0.005..0.02).contains(&late), "{late}");
        assert!((60_000..110_000).contains(&window_ns), "{window_ns}");
        let (wider, _) = steered(10_000, 400_000);
        assert!(wider > 2 * window_ns, "{wider}");
        let (same, _) = steered(0, 400_000);
        assert_eq!(same, 20_000, "control: it stays");
        let most = steered(1, 4_000_000).0;
        assert!((990_000..=Nanos::MILLI).contains(&most), "never beyond the most: {most}");
    }

    /// Gateways of three orders 300 ns apart and one 5 us later, in the order in which they leave.
    fn left(tie_ns: u64, tie_seed: u64) -> Vec<u16> {
        let (window_ns, capacity) = (10_000, 64);
        let config =
            SequencerConfig { window_ns, capacity, tie_ns, tie_seed, ..Default::default() };
        let mut sequencer = Sequencer::new(&config);
        for (gateway, after) in [(3, 0), (1, 300), (2, 600), (4, 5_600)] {
            let t_in = Nanos::SECOND + after;
            offer(&mut sequencer, t_in + 1_000, gateway, 1, t_in);
        }
        assert!(pop(&mut sequencer, Nanos::SECOND + 9_999).is_none());
        assert_eq!(sequencer.next_timeout(), Nanos(Nanos::SECOND + 10_000 + tie_ns));
        let out =
            |_| pop(&mut sequencer, Nanos::SECOND + 30_000).map(|order| order.source.gateway.0);
        let order: Vec<u16> = (0..4).filter_map(out).collect();
        assert_eq!((sequencer.held(), sequencer.counters().late), (0, 0));
        order
    }

    #[test]
    fn what_clocks_cannot_tell_apart_is_drawn_and_nothing_else() {
        assert_eq!(left(0, 1), [3, 1, 2, 4], "control: by time");
        let mut first = [0; 5];
        for seed in 0..300 {
            let order = left(500, seed);
            assert_eq!(order[3], 4, "5 us later is no tie");
            first[usize::from(order[0])] += 1;
        }
        assert!(first[1..4].iter().all(|wins| (70..130).contains(wins)), "{first:?}");
    }

    #[test]
    fn a_draw_leaves_the_order_of_one_gateway_alone() {
        let config =
            SequencerConfig { window_ns: 10, tie_ns: 50, capacity: 8, ..Default::default() };
        let mut first = [0; 3];
        for tie_seed in 0..100 {
            let mut sequencer = Sequencer::new(&SequencerConfig { tie_seed, ..config });
            for (seq, gateway, after) in [(1, 1, 0), (1, 2, 10), (2, 1, 20), (3, 1, 20)] {
                offer(&mut sequencer, Nanos::SECOND, gateway, seq, Nanos::SECOND + after);
            }
            let out = |_| pop(&mut sequencer, Nanos::SECOND + 100).map(|order| order.source);
            let all: Vec<Source> = (0..4).filter_map(out).collect();
            let of_one = all.iter().filter(|source| source.gateway.0 == 1).map(|source| source.seq);
            assert_eq!(of_one.collect::<Vec<u64>>(), [1, 2, 3], "seed {tie_seed}");
            first[usize::from(all[0].gateway.0)] += 1;
        }
        // Control: between gateways it is drawn.
        assert!(first[1] > 30 && first[2] > 30, "{first:?}");
    }

    #[test]
    fn a_gateway_that_died_leaves_ties_too() {
        let config =
            SequencerConfig { window_ns: 10, tie_ns: 5, capacity: 8, ..Default::default() };
        let mut sequencer = Sequencer::new(&config);
        for gateway in 1..=3 {
            offer(&mut sequencer, Nanos::SECOND, gateway, 1, Nanos::SECOND);
        }
        let first = pop(&mut sequencer, Nanos::SECOND + 15).unwrap().source.gateway;
        let other = GatewayId(1 + first.0 % 3);
        sequencer.forget(other);
        assert_eq!((sequencer.held(), sequencer.counters().forgotten), (1, 1));
        let last = pop(&mut sequencer, Nanos::SECOND + 15).unwrap().source.gateway;
        assert!(last != first && last != other);
        assert!(pop(&mut sequencer, Nanos::SECOND + 15).is_none());
    }
}
