//! The reports' way from the matching thread to the publishing one: a single-producer,
//! single-consumer ring.
//!
//! A record is half a cache line, against a whole one of [`Report`]: an ack says which order came
//! in, and the trades that follow it need not repeat that. Records become visible in groups, so
//! that the two threads share the position's cache line once per group; [`Producer::publish`]
//! shows what is left, and the end of a batch and a flush call it. Words are atomics without
//! ordering, so that nothing here needs `unsafe`; what orders them is the position, stored after
//! the words and loaded before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::abi::{CANCEL_REJECT, Report, TRADE};

/// Records that become visible together.
const GROUP: usize = 64;
/// Pauses of a consumer that found nothing, so that it does not take the position's line from the
/// producer at every turn.
const PAUSES: u32 = 64;

/// Records ahead of the one being written whose memory is fetched: eight cache lines.
const AHEAD: usize = 16;

/// A record, never on two cache lines.
#[derive(Default)]
#[repr(align(32))]
struct Slot([AtomicU64; 4]);

/// Alone on its cache lines (two, as they are fetched in pairs).
#[repr(align(128))]
struct Alone<T>(T);

/// The shared part. One producer and one consumer at a time.
pub(crate) struct Ring {
    slots: Box<[Slot]>,
    /// Number of records ever made visible to the consumer.
    tail: Alone<AtomicUsize>,
    /// Number of records ever taken out by the consumer.
    head: Alone<AtomicUsize>,
    /// The consumer's own: the order that trades are about.
    taker: AtomicU64,
}

impl Ring {
    /// Room for at least `capacity` records, touched once so that no page is missing later.
    pub(crate) fn new(capacity: u32) -> Ring {
        let size = (capacity as usize).max(2 * GROUP).next_power_of_two();
        let slots: Box<[Slot]> = (0..size).map(|_| Default::default()).collect();
        for slot in &slots {
            slot.0[0].store(u64::MAX, Ordering::Relaxed);
        }
        Ring {
            slots,
            tail: Alone(AtomicUsize::new(0)),
            head: Alone(AtomicUsize::new(0)),
            taker: AtomicU64::new(0),
        }
    }

    /// Takes out up to `max` reports, told one by one with their place; says how many.
    pub(crate) fn drain(&self, max: usize, mut tell: impl FnMut(usize, Report)) -> usize {
        let head = self.head.0.load(Ordering::Relaxed);
        let count = max.min(self.tail.0.load(Ordering::Acquire).wrapping_sub(head));
        if count == 0 {
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
            return 0;
        }
        let mut taker = self.taker.load(Ordering::Relaxed);
        for place in 0..count {
            let slot = &self.slots[head.wrapping_add(place) & (self.slots.len() - 1)];
            tell(place, unpack(slot, &mut taker));
        }
        self.taker.store(taker, Ordering::Relaxed);
        self.head.0.store(head.wrapping_add(count), Ordering::Release);
        count
    }
}

fn unpack(slot: &Slot, taker: &mut u64) -> Report {
    let [first, sequence_number, order_id, price] =
        [0, 1, 2, 3].map(|word: usize| slot.0[word].load(Ordering::Relaxed));
    let kind = first as u8;
    let mut report = Report {
        kind,
        side: (first >> 8) as u8,
        sequence_number,
        order_id,
        price_ticks: price as i64,
        quantity: (first >> 32) as u32,
        ..Report::default()
    };
    if kind == TRADE {
        report.maker_order_id = order_id;
        report.taker_order_id = *taker;
    } else if kind < CANCEL_REJECT {
        *taker = order_id;
    }
    report
}

/// The writing end of the ring; there is one.
pub(crate) struct Producer {
    ring: Arc<Ring>,
    /// Number of records ever written.
    next: usize,
    /// Number of those that the consumer can see.
    published: usize,
    /// Where the ring is full, as far as known.
    limit: usize,
}

impl Producer {
    /// The writing end of a ring that nobody has written to.
    pub(crate) fn new(ring: Arc<Ring>) -> Producer {
        let limit = ring.slots.len();
        Producer { ring, next: 0, published: 0, limit }
    }

    /// Writes one record; waits while the ring is full.
    #[inline(always)]
    pub(crate) fn write(&mut self, words: [u64; 4]) {
        if self.next == self.limit {
            self.wait();
        }
        let ring = &*self.ring;
        let slot = &ring.slots[self.next & (ring.slots.len() - 1)];
        for (place, word) in slot.0.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        fetch_to_write(std::ptr::from_ref(slot).wrapping_add(AHEAD));
        self.next = self.next.wrapping_add(1);
    }

    /// Makes what was written visible when it is a group.
    #[inline(always)]
    pub(crate) fn publish_group(&mut self) {
        if self.next.wrapping_sub(self.published) >= GROUP {
            self.publish();
        }
    }

    /// Makes all records written so far visible to the consumer.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        self.ring.tail.0.store(self.next, Ordering::Release);
        self.published = self.next;
    }

    #[cold]
    #[inline(never)]
    fn wait(&mut self) {
        self.publish();
        loop {
            let head = self.ring.head.0.load(Ordering::Acquire);
            self.limit = head.wrapping_add(self.ring.slots.len());
            if self.limit != self.next {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

/// Starts to fetch a slot for writing, wherever it is: the consumer read it last, and a store that waits for its
/// line holds up all those behind it. Changes nothing.
#[inline(always)]
fn fetch_to_write(slot: *const Slot) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect but on the cache, whatever the address; processors that do not know
    // this one skip it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) slot, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = slot;
}

/// The first word of a record.
#[inline(always)]
pub(crate) fn first_word(kind: u8, side: u8, quantity: u32) -> u64 {
    u64::from(kind) | u64::from(side) << 8 | u64::from(quantity) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{CANCEL_ACK, ORDER_ACK};

    fn drained(ring: &Ring, max: usize) -> Vec<Report> {
        let mut reports = Vec::new();
        ring.drain(max, |_, report| reports.push(report));
        reports
    }

    #[test]
    fn trades_name_the_order_that_was_acked_before() {
        let ring = Arc::new(Ring::new(4));
        let mut producer = Producer::new(Arc::clone(&ring));
        producer.write([first_word(ORDER_ACK, 1, 9), 5, 77, 100]);
        producer.write([first_word(TRADE, 0, 4), 5, 33, 99]);
        assert_eq!(drained(&ring, 9), [], "nothing is visible before it is published");
        producer.publish();
        let ack = drained(&ring, 1);
        assert_eq!((ack[0].order_id, ack[0].side, ack[0].quantity), (77, 1, 9));
        let trade = drained(&ring, 9);
        assert_eq!(trade.len(), 1);
        assert_eq!((trade[0].maker_order_id, trade[0].taker_order_id), (33, 77));
        assert_eq!((trade[0].price_ticks, trade[0].quantity), (99, 4));
    }

    #[test]
    fn nothing_is_lost_or_doubled_between_two_threads() {
        const RECORDS: u64 = 300_000;
        let ring = Arc::new(Ring::new(256));
        let mut producer = Producer::new(Arc::clone(&ring));
        let writer = std::thread::spawn(move || {
            for n in 0..RECORDS {
                producer.write([first_word(CANCEL_ACK, 0, n as u32), n, n ^ 5, n + 1]);
                producer.publish_group();
            }
            producer.publish();
        });
        let mut expected = 0;
        while expected < RECORDS {
            ring.drain(100, |_, report| {
                assert_eq!(report.sequence_number, expected);
                assert_eq!(report.order_id, expected ^ 5);
                assert_eq!(report.price_ticks as u64, expected + 1);
                expected += 1;
            });
        }
        writer.join().expect("the writer ends");
        assert_eq!(drained(&ring, 9), []);
    }
}
