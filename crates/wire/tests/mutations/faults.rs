//! Faults in bytes, and what a run over millions of them adds up; used by the mutation tests of
//! several crates.
//!
//! `FAIRBELL_MUTATIONS` says how many mutations a decoder gets (scripts/mutations takes ten
//! million), `FAIRBELL_MUTATION_SEED` the first seed.

use types::SplitMix64;

/// Values that have hurt decoders before, as one, two, four and eight bytes.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF_FFFF,
    0x8000_0000,
    0x7FFF_FFFF_FFFF_FFFF,
    0xFFFF_FFFF_FFFF_FFFF,
];

/// A seeded source of faults.
pub struct Faults {
    rng: SplitMix64,
}

impl Faults {
    pub fn new(seed: u64) -> Faults {
        Faults { rng: SplitMix64::new(SplitMix64::mix(seed)) }
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    pub fn next(&mut self) -> u64 {
        self.rng.next_u64()
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// One fault that leaves the length as it is.
    pub fn spoil(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.below(bytes.len());
        match self.below(5) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.next() as u8,
            2 => bytes[at] = self.pick(b" \0AZBSNY09\xFF"),
            _ => {
                let width = self.pick(&[1, 2, 4, 8]).min(bytes.len() - at);
                let edge = self.pick(&EDGES).to_be_bytes();
                let field = &mut bytes[at..at + width];
                field.copy_from_slice(&edge[8 - width..]);
                // The exchange's own datagrams have their lowest byte first.
                if self.chance(3) {
                    field.reverse();
                }
            }
        }
    }

    /// One fault that may change the length.
    pub fn spoil_length(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.next() as u8),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let piece = bytes[at..(at + self.below(12)).min(bytes.len())].to_vec();
                bytes.extend(piece);
            }
        }
    }
}

/// What came of one run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Messages, packets or datagrams given to the decoder.
    pub sent: u64,
    /// Of them, those whose framing was in order: they reached what is behind the decoder.
    pub framed: u64,
    /// Answers or effects that were judged.
    pub judged: u64,
    /// Most bytes in use at any look.
    pub peak: i64,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.sent += other.sent;
        self.framed += other.framed;
        self.judged += other.judged;
        self.peak = self.peak.max(other.peak);
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What is fed with faults.
pub struct Target {
    pub name: &'static str,
    /// Mutations when nobody says how many.
    pub slice: u64,
    /// By how many bytes the rest of a run may need more than its first tenth did, because chance
    /// decides which seed fills its buffers most. Zero where nothing may grow at all.
    pub grown_max: i64,
}

/// Runs seeds until so many mutations were made: the first tenth shows how much memory that takes,
/// the rest may not take more. Prints a line, for whoever runs this with `--nocapture`.
pub fn mutate(target: &Target, mut run: impl FnMut(u64) -> Tally) {
    let Target { name: decoder, slice, grown_max } = *target;
    let count = number("FAIRBELL_MUTATIONS", slice);
    let mut seed = number("FAIRBELL_MUTATION_SEED", 1);
    let floor = counting::live_bytes();
    let mut play = |until: u64| {
        let mut sum = Tally::default();
        while sum.sent < until {
            let mut tally = run(seed);
            tally.peak -= floor;
            sum.add(tally);
            seed += 1;
        }
        (sum, counting::live_bytes() - floor)
    };
    let (tenth, _) = play(count / 10);
    let (rest, left) = play(count - count / 10);
    let grown = rest.peak - tenth.peak;
    assert!(grown <= grown_max, "{decoder}: {grown} bytes more in use than in the first tenth");
    assert!(left == 0, "{decoder}: {left} bytes are left over");
    let mut all = tenth;
    all.add(rest);
    let share = all.framed * 100 / all.sent;
    assert!(share >= 30, "{decoder}: only {share} % pass framing");
    assert!(all.judged > 0, "{decoder}: nothing to judge");
    println!(
        "{decoder}: {} mutations, {} ({share} %) passed framing, {} answers and effects judged, \
         {} bytes in use at most, {grown} more than in the first tenth, {left} left over",
        all.sent, all.framed, all.judged, all.peak
    );
}
