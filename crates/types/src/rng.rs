//! The one source of randomness: a seeded generator small enough to state in a line.

/// SplitMix64 (Steele, Lea, Flood 2014): one 64-bit state, full period, good enough for order flow,
/// fault schedules and spreading identifiers; not for secrets.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A generator whose sequence is fixed by `seed`.
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64 { state: seed }
    }

    /// The finaliser alone: a bijective mixing of `value`, as used by `splitmix64(id) mod n`.
    pub fn mix(value: u64) -> u64 {
        SplitMix64::new(value).next_u64()
    }

    /// Next 64 bits of the sequence.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 when `n` is 0), from the upper 32 bits by multiplication.
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next_u64() >> 32) * n) >> 32
    }

    /// True in `permille` of a thousand draws.
    pub fn permille(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A number in [0, 1) with 53 random bits; for the simulator's link models only.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn matches_the_published_sequence_for_seed_zero() {
        let mut rng = SplitMix64::new(0);
        assert_eq!(rng.next_u64(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(rng.next_u64(), 0x6E78_9E6A_A1B9_65F4);
    }
}
