//! One number over all values of all messages, the same for every decoder of a stream.
//!
//! Of a message: the sum, modulo 2^64, of each value it has times the weight of its slot, short
//! texts as the number of their characters (first one highest), long ones as FNV-1a of 64 bits.
//! Repeated values count like this for their last repetition, the earlier ones by position, too. Of
//! a stream: for each message the sum so far, xor that of the message, times a prime.

use super::event::Event;
use crate::slots::{Message, SlotSink};

/// Prime of the 64-bit FNV-1a hash, which is used for mixing here, too.
pub const PRIME: u64 = 0x0100_0000_01B3;
/// Start value (offset basis) of the 64-bit FNV-1a hash.
pub const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;

/// The weight of each slot: odd numbers, from its number plus one by the golden ratio.
pub const WEIGHTS: [u64; 64] = {
    let mut all = [0; 64];
    let mut at = 0;
    while at < 64 {
        all[at] = (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        at += 1;
    }
    all
};

/// Sum of a message's values; `slots` has slot 0 in the highest bit.
#[inline(always)]
pub fn of_values(slots: u64, values: &[u64; 64]) -> u64 {
    let mut left = slots;
    let mut sum = 0_u64;
    while left != 0 {
        let slot = (left.leading_zeros() & 63) as usize;
        left ^= 1 << 63 >> slot;
        sum = sum.wrapping_add(values[slot].wrapping_mul(WEIGHTS[slot]));
    }
    sum
}

/// Slots of the quote category, which most messages are of.
const QUOTE: [usize; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 25, 26, 27, 28, 29, 30];
const QUOTE_SET: u64 = {
    let (mut set, mut at) = (0, 0);
    while at < QUOTE.len() {
        set |= 1 << 63 >> QUOTE[at];
        at += 1;
    }
    set
};

/// As [`of_values`], written out for quotes of version 2.
#[inline(always)]
fn of_quote(slots: u64, values: &[u64; 64]) -> u64 {
    if slots & QUOTE_SET != QUOTE_SET {
        return of_values(slots, values);
    }
    let term = |&slot: &usize| values[slot].wrapping_mul(WEIGHTS[slot]);
    let quote = QUOTE.iter().map(term).fold(0, u64::wrapping_add);
    quote.wrapping_add(of_values(slots & !QUOTE_SET, values))
}

/// Mixes a message's sum into the stream's.
#[inline(always)]
pub fn mix(sum: u64, message: u64) -> u64 {
    (sum ^ message).wrapping_mul(PRIME)
}

/// FNV-1a hash of a text, 64 bits.
pub fn hash(text: impl Iterator<Item = u8>) -> u64 {
    text.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// A sink that sums every value of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// Checksum of all messages so far.
    pub sum: u64,
    /// Number of messages so far.
    pub messages: u64,
    /// Set of the slots that hold long texts, slot 0 in the highest bit.
    longs: u64,
}

impl Checksum {
    /// A sum of no messages, for a format whose long texts are in these slots.
    pub fn new(long_slots: &[usize]) -> Checksum {
        let longs = long_slots.iter().fold(0, |all, slot| all | 1 << 63 >> slot);
        Checksum { sum: 0, messages: 0, longs }
    }

    #[inline(never)]
    fn rare(&self, message: Message<'_>) -> u64 {
        let mut sum = of_values(message.slots & !self.longs, message.values);
        let mut longs = message.slots & self.longs;
        while longs != 0 {
            let slot = longs.leading_zeros() as usize;
            longs ^= 1 << 63 >> slot;
            sum = sum.wrapping_add(hash(message.long(slot)).wrapping_mul(WEIGHTS[slot]));
        }
        let width = message.repeated_slots.len();
        let earlier = message.repeated.len().saturating_sub(width);
        for (at, value) in (1..).zip(message.repeated.iter().take(earlier)) {
            sum = sum.wrapping_add(value.wrapping_mul(at));
        }
        sum
    }
}

impl SlotSink for Checksum {
    #[inline(always)]
    fn message(&mut self, message: &Message<'_>) {
        let plain = message.slots & self.longs == 0 && message.repeated_slots.is_empty();
        let sum = if plain { of_quote(message.slots, message.values) } else { self.rare(*message) };
        self.sum = mix(self.sum, sum);
        self.messages += 1;
    }
}

/// Sum of an event's fields, so that none of them is left out by the optimiser.
#[inline(always)]
pub fn of_event(event: &Event<'_>) -> u64 {
    let mut sum = 0_u64;
    let mut at = 0;
    let mut add = |value: u64| {
        at += 1;
        sum = sum.wrapping_add(value.wrapping_mul(WEIGHTS[at & 63]));
    };
    if let Event::Quote(header, quote) = event {
        let series = &quote.series;
        for value in [header.kind, header.participant, header.retransmission] {
            add(value.into());
        }
        for value in [series.month, series.day, series.year, quote.session, quote.bbo] {
            add(value.into());
        }
        for value in [header.sequence, header.time, series.symbol, series.strike.0 as u64] {
            add(value);
        }
        for value in [quote.bid, quote.offer] {
            add(value.0 as u64);
        }
        for value in [quote.bid_size, quote.offer_size] {
            add(value.into());
        }
        for best in [quote.best_bid, quote.best_offer].into_iter().flatten() {
            add(best.participant.into());
            add(best.price.0 as u64);
            add(best.size.into());
        }
        return sum;
    }
    let header = match event {
        Event::Quote(header, _)
        | Event::LastSale(header, _)
        | Event::OpenInterest(header, ..)
        | Event::Summary(header, _)
        | Event::Underlying(header, _)
        | Event::Admin(header, _)
        | Event::Control(header, _) => header,
        Event::Unknown(category) => return u64::from(*category),
    };
    add(header.sequence);
    add(header.time);
    match event {
        Event::LastSale(_, sale) => add(sale.price.0 as u64),
        Event::OpenInterest(_, series, contracts) => {
            add(series.symbol);
            add((*contracts).into());
        }
        Event::Summary(_, summary) => add(summary.last.0 as u64),
        Event::Underlying(_, spot) => spot.values.iter().for_each(|&value| add(value)),
        Event::Admin(_, control) | Event::Control(_, control) => add(control.text_hash),
        Event::Quote(..) | Event::Unknown(_) => {}
    }
    sum
}
