//! Streams like those that OPRA's lines carried, from a seed.
//!
//! The figures aimed at are those published for a gigabyte of real traffic (IBM Research, Streaming
//! Low-latency Communication in On-line Trading Systems, §2.1): packets of 400 bytes with 19
//! messages, messages of 10 to 50 bytes and 21 on average, 99 % of them equity and index quotes,
//! presence maps of mostly five bytes, more than 80 % of the integers in one byte.

use super::formats::Opra;
use crate::slots::{Contents, SlotEncoder};

/// Bytes of the published traffic's packets, on average.
const PACKET: usize = 400;
/// Half a message: a packet is ended once it has no room for more than that below its size.
const HALF_MESSAGE: usize = 9;
/// Letters of the exchanges that messages are from.
const PARTICIPANTS: &[u8] = b"ABCIMNPQWXZ";

/// Seeded random generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose sequence is fixed by `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits of the sequence.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next_bits() >> 32) * n) >> 32
    }

    fn chance(&mut self, of_thousand: u64) -> bool {
        self.below(1_000) < of_thousand
    }

    fn one_of(&mut self, all: &[u8]) -> u64 {
        let at = self.below(all.len() as u64) as usize;
        all.get(at).copied().unwrap_or(b' ').into()
    }
}

/// Packets one after the other, and where each ends.
#[derive(Clone, Default, Debug)]
pub struct Stream {
    /// Bytes of all packets, one after the other.
    pub bytes: Vec<u8>,
    /// Offset in `bytes` of the end of each packet.
    pub ends: Vec<usize>,
    /// Number of messages in all packets.
    pub messages: u64,
    /// Number of messages by category.
    pub categories: Vec<(u8, u64)>,
}

impl Stream {
    /// The packets in order, each as its bytes.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.bytes.get(start..end).unwrap_or(&[]))
    }
}

/// Figures of a stream to be generated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Seed of the random generator; equal seeds give equal streams.
    pub seed: u64,
    /// Smallest length of the stream, bytes.
    pub bytes: usize,
    /// Number of underlying symbols.
    pub symbols: u64,
    /// Most repetitions of underlying values in a message.
    pub repeated_max: u64,
    /// Size of a packet on average, bytes; a packet has one message at least.
    pub packet: usize,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { seed: 1, bytes: 1 << 20, symbols: 2_400, repeated_max: 1, packet: PACKET }
    }
}

/// A generator of the messages of one OPRA line.
#[derive(Debug)]
pub struct Line<F> {
    random: Random,
    shape: Shape,
    values: [u64; 64],
    repeated: Vec<u64>,
    text: Vec<u8>,
    sequence: u64,
    encoder: SlotEncoder<F>,
}

/// Symbols of one to five letters: the one with an index.
pub fn symbol(index: u64) -> u64 {
    let (mut rest, mut text) = (index, 0);
    let mut shift = 0;
    loop {
        text |= (u64::from(b'A') + rest % 26) << shift;
        shift += 8;
        rest /= 26;
        if rest == 0 {
            return text;
        }
        rest -= 1;
    }
}

fn digits(number: u64, width: u32) -> u64 {
    let digit = |at: u32| u64::from(b'0') + number / 10_u64.pow(at) % 10;
    (0..width).fold(0, |text, at| text | digit(at) << (8 * at))
}

impl<F: Opra> Line<F> {
    /// The line `shape` describes, at the opening of the market.
    pub fn new(shape: Shape) -> Line<F> {
        let mut line = Line {
            random: Random::new(shape.seed),
            shape,
            values: [0; 64],
            repeated: Vec::new(),
            text: Vec::new(),
            sequence: 0,
            encoder: SlotEncoder::default(),
        };
        let names = F::NAMES;
        let start = [
            (names.kind, b' '.into()),
            (names.participant, b'C'.into()),
            (names.retransmission, b' '.into()),
            (names.time, 93_000_000),
            (names.symbol, symbol(0)),
            (names.month, b'A'.into()),
            (names.day, 18),
            (names.year, 10),
            (names.strike_denominator, b'I'.into()),
            (names.strike, 40),
            (names.premium_denominator, b'B'.into()),
            (names.net_change_indicator, b'+'.into()),
            (names.underlying_denominator, b'B'.into()),
            (names.session, b' '.into()),
            (names.bbo, b'A'.into()),
            (names.best_bid_participant, b'C'.into()),
            (names.best_bid_denominator, b'B'.into()),
            (names.best_offer_participant, b'C'.into()),
            (names.best_offer_denominator, b'B'.into()),
        ];
        for (slot, value) in start {
            line.set(slot, value);
        }
        line
    }

    fn set(&mut self, slot: usize, value: u64) {
        if let Some(place) = self.values.get_mut(slot) {
            *place = value;
        }
    }

    /// Appends the next packet to `out`; `seen` is told the category of each message.
    pub fn packet(&mut self, out: &mut Vec<u8>, mut seen: impl FnMut(u8)) {
        let first = self.sequence + 1;
        let target = self.shape.packet.saturating_sub(HALF_MESSAGE);
        while self.encoder.is_empty() || self.encoder.len() < target {
            let category = self.next_message();
            let contents =
                Contents { values: &self.values, text: &self.text, repeated: &self.repeated };
            // Every message made here is small and follows the description.
            if self.encoder.message(category, &contents, first).is_err() {
                self.sequence -= 1;
                break;
            }
            seen(category);
        }
        self.encoder.finish(out);
    }

    /// Draws the next message into the values.
    fn next_message(&mut self) -> u8 {
        let names = F::NAMES;
        self.sequence += 1;
        self.set(names.sequence, self.sequence);
        if self.random.chance(380) {
            self.tick();
        }
        let category = match self.random.below(10_000) {
            0..9_900 => b'k',
            9_900..9_940 => b'a',
            9_940..9_955 => b'd',
            9_955..9_970 => b'f',
            9_970..9_985 => b'Y',
            9_985..9_988 => b'O',
            9_988..9_992 => b'U',
            9_992..9_994 => b'F',
            9_994..9_997 => b'C',
            _ => b'H',
        };
        self.values[names.category] = category.into();
        let kind = if category == b'k' { self.random.one_of(b"  AFR") } else { b' '.into() };
        self.set(names.kind, kind);
        if self.random.chance(960) {
            let participant = self.random.one_of(PARTICIPANTS);
            self.set(names.participant, participant);
        }
        match category {
            b'Y' => self.underlying(),
            b'C' | b'H' => {
                let len = 8 + self.random.below(40);
                let letter = |random: &mut Random| b' ' + random.below(94) as u8;
                self.text = (0..len).map(|_| letter(&mut self.random)).collect();
            }
            _ => self.option(category),
        }
        category
    }

    /// Advances the time of the messages by one to three milliseconds.
    fn tick(&mut self) {
        let time = self.values[F::NAMES.time] + 1 + self.random.below(3);
        let milliseconds = time % 1_000;
        // Seconds and minutes carry at 60 as on a clock.
        let mut clock = time / 1_000;
        if clock % 100 >= 60 {
            clock += 40;
        }
        if clock / 100 % 100 >= 60 {
            clock += 4_000;
        }
        self.set(F::NAMES.time, clock * 1_000 + milliseconds);
    }

    fn underlying(&mut self) {
        let times = 1 + self.random.below(self.shape.repeated_max.max(1));
        self.repeated.clear();
        for _ in 0..times {
            let index = self.random.below(300);
            self.repeated.push(symbol(index));
            let value = self.random.below(10_000_000);
            self.repeated.push(digits(value, 8));
        }
    }

    fn price(&mut self) -> u64 {
        let cheap = self.random.chance(620);
        if cheap { self.random.below(128) } else { 128 + self.random.below(3_000) }
    }

    fn size(&mut self) -> u64 {
        if self.random.chance(900) { 1 + self.random.below(127) } else { self.random.below(2_000) }
    }

    /// Fills in the series of a message about an option: mostly one close to that of the message
    /// before.
    fn option(&mut self, category: u8) {
        let names = F::NAMES;
        if self.random.chance(520) {
            let index = self.random.below(self.shape.symbols.max(1));
            self.set(names.symbol, symbol(index));
        }
        if self.random.chance(800) {
            let month = self.random.one_of(b"ABCDEFGHIJKLMNOPQRSTUVWX");
            self.set(names.month, month);
        }
        if self.random.chance(600) {
            let day = 15 + self.random.below(7);
            self.set(names.day, day);
            let year = 10 + self.random.below(3);
            self.set(names.year, year);
        }
        if self.random.chance(950) {
            let strike = if self.random.chance(620) {
                1 + self.random.below(127)
            } else {
                128 + self.random.below(1_400)
            };
            self.set(names.strike, strike);
        }
        match category {
            b'k' => self.quote(),
            b'U' => {
                let (bid, spread) = (self.price(), self.random.below(20));
                self.set(names.bid, bid);
                self.set(names.offer, bid + spread);
            }
            _ => self.rest(),
        }
    }

    fn quote(&mut self) {
        let names = F::NAMES;
        if self.random.chance(930) {
            let (bid, spread) = (self.price(), 1 + self.random.below(20));
            self.set(names.bid, bid);
            self.set(names.offer, bid + spread);
        }
        if self.random.chance(930) {
            let (bid, offer) = (self.size(), self.size());
            self.set(names.bid_size, bid);
            self.set(names.offer_size, offer);
        }
        let bbo = match self.random.below(100) {
            0..35 => self.values[names.bbo],
            35..80 => self.random.one_of(b"ABDEFHIJL "),
            80..90 => self.random.one_of(b"MNP"),
            90..98 => self.random.one_of(b"CGK"),
            _ => b'O'.into(),
        };
        // An appendage is not repeated out of habit.
        let appends = b"MNPCGKO".iter().any(|&code| u64::from(code) == bbo);
        let bbo = if appends && bbo == self.values[names.bbo] { b'A'.into() } else { bbo };
        self.set(names.bbo, bbo);
        let participant = self.random.one_of(PARTICIPANTS);
        let (bid, offer) = (self.values[names.bid], self.values[names.offer]);
        let size = self.size();
        if b"MNPO".iter().any(|&code| u64::from(code) == bbo) {
            self.set(names.best_bid_participant, participant);
            self.set(names.best_bid, bid + 1);
            self.set(names.best_bid_size, size);
        }
        if b"CGKO".iter().any(|&code| u64::from(code) == bbo) {
            self.set(names.best_offer_participant, participant);
            self.set(names.best_offer, offer);
            self.set(names.best_offer_size, size);
        }
    }

    /// Fills in sales, open interest and summaries.
    fn rest(&mut self) {
        let names = F::NAMES;
        let (volume, interest, premium) = (self.size(), self.random.below(20_000), self.price());
        self.set(names.volume, volume);
        self.set(names.open_interest, interest);
        self.set(names.premium, premium);
        for slot in [names.open, names.high, names.low, names.last, names.net_change] {
            let price = self.price();
            self.set(slot, price);
        }
        let sign = self.random.one_of(b"+-");
        self.set(names.net_change_indicator, sign);
        let underlying = 1_000 + self.random.below(50_000);
        self.set(names.underlying, underlying);
    }
}

/// Generates packets of one line until there are at least as many bytes as wanted.
pub fn make<F: Opra>(shape: Shape) -> Stream {
    let mut line = Line::<F>::new(shape);
    let mut stream = Stream::default();
    let mut counts = [0_u64; 256];
    while stream.bytes.len() < shape.bytes {
        line.packet(&mut stream.bytes, |category| counts[usize::from(category)] += 1);
        stream.ends.push(stream.bytes.len());
    }
    stream.messages = counts.iter().sum();
    let seen = (0..=255).zip(counts).filter(|(_, count)| *count > 0);
    stream.categories = seen.collect();
    stream
}
