//! The last datagrams that went through a proxy, for receivers that miss one (corner 13).
//!
//! A proxy right above the receivers can repair a loss on its last hop a network away sooner than
//! the root, and many losses at once without anybody else noticing. Requests and answers are those
//! of the retransmission server; what is not here is not answered, the receiver goes on to the next
//! parent and at last to the root. No storms: the same datagram goes to the same receiver once per
//! `quiet_ns`, and so many repairs go out per millisecond at most, whoever asks. Memory is fixed.

use std::collections::VecDeque;

use types::{Nanos, NodeId, Outbox};

use crate::{
    emit,
    feed::mold::Packet,
    feed::retransmission::REPAIR_DATAGRAMS_MAX,
    frame::{DataBody, FrameKind, HopHeader, RepairRequestBody},
};

/// Bounds of a repair cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Number of datagrams that are kept.
    pub datagrams: usize,
    /// Least time between two copies of one datagram to one receiver, in ns.
    pub quiet_ns: u64,
    /// Most datagrams sent again per millisecond.
    pub per_ms: u32,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig { datagrams: 1_024, quiet_ns: Nanos::MILLI / 2, per_ms: 256 }
    }
}

/// What a repair cache has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Number of requests received.
    pub requests: u64,
    /// Number of datagrams sent again.
    pub repaired: u64,
    /// Number of datagrams asked for but not sent, because they had just been sent or the rate was
    /// used up.
    pub suppressed: u64,
    /// Requests for something that is not here.
    pub unknown: u64,
}

struct Entry {
    seq: u64,
    end: u64,
    body: DataBody,
    /// To whom it last went, and when.
    sent: [(NodeId, Nanos); 2],
    packet: Vec<u8>,
}

/// The last datagrams of a proxy, to answer receivers' repair requests from.
pub struct RepairCache {
    config: CacheConfig,
    entries: Vec<Entry>,
    /// (first message, entry) by first message.
    order: VecDeque<(u64, u32)>,
    /// Repairs that may still go out until the time.
    budget: (u32, Nanos),
    stats: CacheStats,
}

impl RepairCache {
    /// A cache without datagrams.
    pub fn new(config: CacheConfig) -> RepairCache {
        let datagrams = config.datagrams.max(1);
        RepairCache {
            config: CacheConfig { datagrams, ..config },
            entries: Vec::with_capacity(datagrams),
            order: VecDeque::with_capacity(datagrams + 1),
            budget: (0, Nanos(0)),
            stats: CacheStats::default(),
        }
    }

    /// What was counted since the start.
    pub fn stats(&self) -> CacheStats {
        self.stats
    }

    /// Keeps a first copy; the datagram earliest in the feed makes room. Packets that carry no
    /// message, or what is here already, are not kept.
    pub fn keep(&mut self, body: &DataBody, bytes: &[u8]) {
        let Some(packet) = Packet::parse(bytes).filter(|packet| packet.messages() > 0) else {
            return;
        };
        let (seq, end) = (packet.header.seq, packet.end());
        let place = self.order.partition_point(|(other, _)| *other < seq);
        if self.order.get(place).is_some_and(|(other, _)| *other == seq) {
            return;
        }
        let sent = [(NodeId(0), Nanos(0)); 2];
        let full = self.order.len() == self.config.datagrams;
        if full && place == 0 {
            return;
        }
        let freed = if full { self.order.pop_front() } else { None };
        let place = place - usize::from(full);
        let index = match freed {
            Some((_, index)) => {
                let entry = &mut self.entries[index as usize];
                (entry.seq, entry.end, entry.body, entry.sent) = (seq, end, *body, sent);
                entry.packet.clear();
                entry.packet.extend_from_slice(bytes);
                index
            }
            None => {
                let packet = bytes.to_vec();
                self.entries.push(Entry { seq, end, body: *body, sent, packet });
                self.entries.len() as u32 - 1
            }
        };
        self.order.insert(place, (seq, index));
    }

    /// Answers a receiver under `header`, a repair frame of this proxy.
    pub fn handle_request(
        &mut self,
        now: Nanos,
        receiver: NodeId,
        request: &RepairRequestBody,
        header: HopHeader,
        out: &mut Outbox,
    ) {
        self.stats.requests += 1;
        if now >= self.budget.1 {
            self.budget = (self.config.per_ms, now + Nanos::MILLI);
        }
        let (from, end) = (request.from.0, request.from.0.saturating_add(request.count.into()));
        let entries = &self.entries;
        let first = self.order.partition_point(|(_, at)| entries[*at as usize].end <= from);
        let mut found = false;
        for place in (first..self.order.len()).take(REPAIR_DATAGRAMS_MAX) {
            let (seq, index) = self.order[place];
            if seq >= end {
                break;
            }
            found = true;
            let entry = &mut self.entries[index as usize];
            let recent = entry.sent.iter().any(|(node, at)| {
                *node == receiver && *at != Nanos(0) && now - *at < self.config.quiet_ns
            });
            if recent || self.budget.0 == 0 {
                self.stats.suppressed += 1;
                continue;
            }
            self.budget.0 -= 1;
            entry.sent = [(receiver, now), entry.sent[0]];
            emit::send(out, receiver, header, &entry.body, &entry.packet);
            self.stats.repaired += 1;
        }
        self.stats.unknown += u64::from(!found);
    }

    /// Header of a datagram that is sent as a repair.
    pub fn header(node: NodeId, epoch: u32) -> HopHeader {
        HopHeader::new(FrameKind::Repair, node, epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::mold::Header;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use types::FeedSeq;

    fn packet(seq: u64) -> Vec<u8> {
        let mut bytes = Header { session: *b"FAIRBELL01", seq, count: 2 }.bytes().to_vec();
        bytes.extend_from_slice(&[0, 1, b'x', 0, 1, b'y']);
        bytes
    }

    fn keep(cache: &mut RepairCache, id: u64) {
        let (t_sent, deadline) = (Nanos(1), Nanos(2));
        let body = DataBody { id, t_sent, deadline, bound_ns: 0, stream: 0, hedge: 0, flags: 0 };
        cache.keep(&body, &packet(2 * id - 1));
    }

    fn ask(cache: &mut RepairCache, now: u64, node: u16, from: u64, count: u32) -> usize {
        let mut out = Outbox::default();
        let request = RepairRequestBody { from: FeedSeq(from), count, stream: 0, reserved: 0 };
        let header = RepairCache::header(NodeId(9), 1);
        cache.handle_request(Nanos(now), NodeId(node), &request, header, &mut out);
        out.ops().len()
    }

    #[test]
    fn answers_once_in_a_while_and_within_its_budget() {
        let config = CacheConfig { datagrams: 100, quiet_ns: 1_000, per_ms: 5 };
        let mut cache = RepairCache::new(config);
        (1..=100).for_each(|id| keep(&mut cache, id));
        assert_eq!(ask(&mut cache, 10, 1, 4, 2), 2, "messages 4 and 5 are in two datagrams");
        assert_eq!(ask(&mut cache, 20, 1, 4, 2), 0, "just sent");
        assert_eq!(ask(&mut cache, 20, 2, 4, 2), 2, "to another one");
        assert_eq!(ask(&mut cache, 30, 3, 1, 100), 1, "five per millisecond");
        assert_eq!(ask(&mut cache, 10 + Nanos::MILLI, 3, 1, u32::MAX), 5);
        assert_eq!(ask(&mut cache, 5 * Nanos::MILLI, 3, 201, 9), 0);
        assert_eq!((cache.stats().unknown, cache.stats().requests), (1, 6));
    }

    proptest! {
        #[test]
        fn keeps_the_latest_and_gives_what_it_keeps(
            ids in prop::collection::vec(1u64..60, 1..200), from in 1u64..130, count in 0u32..20,
        ) {
            let config = CacheConfig { datagrams: 16, quiet_ns: 0, per_ms: 1_000 };
            let mut cache = RepairCache::new(config);
            let mut kept = BTreeSet::new();
            for id in ids {
                keep(&mut cache, id);
                if kept.len() < 16 || kept.first().is_some_and(|first| *first < id) {
                    kept.insert(id);
                }
                if kept.len() > 16 {
                    kept.pop_first();
                }
            }
            let end = from + u64::from(count);
            let wanted = kept.iter().filter(|id| **id * 2 + 1 > from && **id * 2 - 1 < end).count();
            prop_assert_eq!(ask(&mut cache, 1, 1, from, count), wanted);
        }
    }
}
