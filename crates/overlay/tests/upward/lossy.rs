//! A seeded network of datagrams with loss, duplication and reordering.

use std::{cmp::Reverse, collections::BinaryHeap};

use types::{ClockReading, Nanos, NodeId, Op, Outbox, Peer, SplitMix64};

/// What the network does to each copy, in thousandths, and how long a copy travels.
#[derive(Clone, Copy)]
pub struct Faults {
    pub drop_permille: u64,
    pub duplicate_permille: u64,
    pub delay_ns: u64,
    pub jitter_ns: u64,
}

impl Faults {
    pub const NONE: Faults =
        Faults { drop_permille: 0, duplicate_permille: 0, delay_ns: 50_000, jitter_ns: 0 };

    /// Between 5 % and 20 % loss, duplication, and a jitter that reorders.
    pub fn drawn(rng: &mut SplitMix64) -> Faults {
        Faults {
            drop_permille: 50 + rng.below(151),
            duplicate_permille: rng.below(150),
            delay_ns: 20_000 + rng.below(80_000),
            jitter_ns: rng.below(2_000_000),
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Copy {
    at: u64,
    tie: u64,
    to: NodeId,
    bytes: Vec<u8>,
}

/// Datagrams in flight. Nodes in `dead` neither send nor receive.
pub struct Lossy {
    pub faults: Faults,
    pub dead: Vec<NodeId>,
    pub now: u64,
    pub dropped: u64,
    rng: SplitMix64,
    queue: BinaryHeap<Reverse<Copy>>,
    tie: u64,
}

impl Lossy {
    pub fn new(seed: u64, faults: Faults) -> Lossy {
        let rng = SplitMix64::new(SplitMix64::mix(seed));
        // A day in 2026, so that nothing relies on clocks that start at zero.
        let now = 1_790_000_000_000_000_000;
        Lossy { faults, dead: vec![], now, dropped: 0, rng, queue: BinaryHeap::new(), tie: 0 }
    }

    pub fn clock(&self) -> ClockReading {
        ClockReading { now: Nanos(self.now), bound_ns: 0 }
    }

    /// Takes everything `from` wants sent and clears its outbox.
    pub fn send_all(&mut self, from: NodeId, out: &mut Outbox) {
        for op in out.ops() {
            let Op::Datagram { to: Peer::Node(to), bytes, .. } = *op else {
                panic!("only datagrams to nodes are expected, not {op:?}");
            };
            self.send(from, to, out.bytes(bytes));
        }
        out.clear();
    }

    pub fn send(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        let mut copies = 1 + u64::from(self.rng.permille(self.faults.duplicate_permille));
        if self.rng.permille(self.faults.drop_permille) {
            copies -= 1;
            self.dropped += 1;
        }
        if self.dead.contains(&from) || self.dead.contains(&to) {
            copies = 0;
        }
        for _ in 0..copies {
            let at = self.now + self.faults.delay_ns + self.rng.below(self.faults.jitter_ns + 1);
            self.tie += 1;
            self.queue.push(Reverse(Copy { at, tie: self.tie, to, bytes: bytes.to_vec() }));
        }
    }

    /// When the next copy arrives.
    pub fn next_arrival(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse(copy)| copy.at)
    }

    /// The next copy that has arrived by `now`, unless its receiver is dead.
    pub fn arrived(&mut self) -> Option<(NodeId, Vec<u8>)> {
        while self.next_arrival().is_some_and(|at| at <= self.now) {
            let Reverse(copy) = self.queue.pop()?;
            if !self.dead.contains(&copy.to) {
                return Some((copy.to, copy.bytes));
            }
        }
        None
    }
}
