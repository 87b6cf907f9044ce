//! A receiver of the feed: messages numbered through, in packets numbered per epoch.
//!
//! As in the overlay: packets of an earlier epoch than the newest are dropped, and within an epoch
//! what has been seen; gaps of messages are asked for again.

use std::collections::{BTreeMap, BTreeSet};

use super::ledger::Request;

/// One packet with one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Zero for a repair.
    pub(super) epoch: u64,
    /// Dense per epoch.
    pub(super) id: u64,
    pub(super) sequence: u64,
    pub(super) request: Request,
}

/// A receiver.
#[derive(Default)]
pub(super) struct Receiver {
    epoch: u64,
    seen: BTreeSet<u64>,
    pub(super) messages: BTreeMap<u64, Request>,
    pub(super) conflict: Option<u64>,
    pub(super) fenced: u64,
    pub(super) repeated: u64,
    pub(super) fresh: u64,
}

impl Receiver {
    pub(super) fn take(&mut self, packet: &Packet) {
        if packet.epoch > 0 {
            if packet.epoch < self.epoch {
                self.fenced += 1;
                return;
            }
            if packet.epoch > self.epoch {
                self.epoch = packet.epoch;
                self.seen.clear();
            }
            if !self.seen.insert(packet.id) {
                self.repeated += 1;
                return;
            }
            self.fresh += 1;
        }
        let known = self.messages.insert(packet.sequence, packet.request);
        if known.is_some_and(|known| known != packet.request) {
            self.conflict = Some(packet.sequence);
        }
    }

    /// The first sequence that is missing.
    pub(super) fn missing(&self) -> u64 {
        let mut next = 1;
        for sequence in self.messages.keys() {
            if *sequence != next {
                break;
            }
            next += 1;
        }
        next
    }
}
