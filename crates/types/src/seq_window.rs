//! A bounded sliding bitmap of sequence numbers already seen (corner 1).
//!
//! It remembers exactly which of the last [`SEQ_WINDOW`] numbers came, in any order. A number that
//! fell out of the window is reported as [`Seen::TooOld`], never mistaken for a new one; a number
//! too far ahead is refused, so that one forged huge number cannot slide the window away.

use crate::limits::SEQ_WINDOW;

/// Verdict of the window on a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// The number is new and now recorded.
    New,
    /// The number was recorded before.
    Duplicate,
    /// Below the window: came before, or is hopelessly late; never treat as new.
    TooOld,
    /// Further ahead of the first missing number than the window is wide, or zero: refused.
    TooFar,
}

const WORDS: usize = SEQ_WINDOW / 64;

/// The window itself; numbers start at 1.
#[derive(Clone, Debug)]
pub struct SeqWindow {
    /// Every number up to and including this one has been seen.
    contiguous: u64,
    /// Bit `n % SEQ_WINDOW` for numbers in `contiguous + 1 ..= contiguous + SEQ_WINDOW`.
    bits: Box<[u64; WORDS]>,
}

impl Default for SeqWindow {
    fn default() -> Self {
        SeqWindow { contiguous: 0, bits: Box::new([0; WORDS]) }
    }
}

impl SeqWindow {
    /// The window that has seen everything up to `contiguous` and, of the numbers after it, those
    /// whose bits are set in `words` (as [`SeqWindow::bitmap_after`] gives them, 64 at a time).
    pub fn restored(contiguous: u64, words: &[u64]) -> SeqWindow {
        let mut window = SeqWindow { contiguous, ..SeqWindow::default() };
        for (offset, word) in (0..).zip(words.iter().take(WORDS)) {
            let set = (0..64).filter(|bit| word >> bit & 1 == 1);
            set.for_each(|bit| window.set(contiguous.saturating_add(offset * 64 + bit + 1), true));
        }
        window
    }

    /// Every number up to and including this one has been seen.
    pub fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Whether `seq` was recorded (numbers at or below [`SeqWindow::contiguous`] were).
    pub fn contains(&self, seq: u64) -> bool {
        seq <= self.contiguous || (seq - self.contiguous <= SEQ_WINDOW as u64 && self.bit(seq))
    }

    /// Says what `seq` is and records it when it is new.
    #[inline]
    pub fn record(&mut self, seq: u64) -> Seen {
        // What nearly always comes: the next number, and none after it yet.
        if seq == self.contiguous + 1 && !self.bit(seq + 1) {
            self.contiguous = seq;
            return Seen::New;
        }
        self.record_other(seq)
    }

    fn record_other(&mut self, seq: u64) -> Seen {
        if seq == 0 {
            return Seen::TooFar;
        }
        if seq <= self.contiguous {
            let reach = self.contiguous.saturating_sub(SEQ_WINDOW as u64);
            return if seq > reach { Seen::Duplicate } else { Seen::TooOld };
        }
        if seq - self.contiguous > SEQ_WINDOW as u64 {
            return Seen::TooFar;
        }
        if self.bit(seq) {
            return Seen::Duplicate;
        }
        self.set(seq, true);
        while self.bit(self.contiguous + 1) {
            self.contiguous += 1;
            self.set(self.contiguous, false);
        }
        Seen::New
    }

    /// The 64 numbers after `base` as bits (bit 0 is `base + 1`), for selective acknowledgements.
    pub fn bitmap_after(&self, base: u64) -> u64 {
        let ahead = base.wrapping_sub(self.contiguous);
        if ahead > SEQ_WINDOW as u64 - 64 {
            return (0..64).fold(0, |word, i| word | (u64::from(self.contains(base + 1 + i)) << i));
        }
        // All of them lie in the window, in one of its words or two.
        let slot = (base + 1) as usize % SEQ_WINDOW;
        let (word, shift) = (slot / 64, slot % 64);
        let above = self.bits[(word + 1) % WORDS].checked_shl(64 - shift as u32).unwrap_or(0);
        self.bits[word] >> shift | above
    }

    fn bit(&self, seq: u64) -> bool {
        let slot = seq as usize % SEQ_WINDOW;
        self.bits[slot / 64] >> (slot % 64) & 1 == 1
    }

    fn set(&mut self, seq: u64, on: bool) {
        let slot = seq as usize % SEQ_WINDOW;
        let mask = 1u64 << (slot % 64);
        if on {
            self.bits[slot / 64] |= mask;
        } else {
            self.bits[slot / 64] &= !mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Seen, SeqWindow};
    use crate::limits::SEQ_WINDOW;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_outside_the_window_are_never_new() {
        let mut window = SeqWindow::default();
        assert_eq!(window.record(0), Seen::TooFar);
        assert_eq!(window.record(SEQ_WINDOW as u64 + 1), Seen::TooFar);
        for seq in 1..=2 * SEQ_WINDOW as u64 {
            assert_eq!(window.record(seq), Seen::New);
        }
        assert_eq!(window.record(1), Seen::TooOld);
        assert_eq!(window.record(2 * SEQ_WINDOW as u64), Seen::Duplicate);
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((0u64..200, any::<bool>()), 1..300)) {
            let (mut window, mut model, mut base) = (SeqWindow::default(), HashSet::new(), 1u64);
            for (ahead, advance) in steps {
                let seq = base + ahead;
                let expect = if model.insert(seq) { Seen::New } else { Seen::Duplicate };
                prop_assert_eq!(window.record(seq), expect);
                if advance {
                    while model.contains(&base) {
                        base += 1;
                    }
                }
                prop_assert!(window.contains(seq));
                let far = window.contiguous() + SEQ_WINDOW as u64;
                for base in [seq.saturating_sub(30), seq, far - 70, far - 64, far - 30, far] {
                    let bits = window.bitmap_after(base);
                    let same = |i| bits >> i & 1 == u64::from(window.contains(base + 1 + i));
                    prop_assert!((0..64).all(same), "after {}", base);
                }
                let (at, words) = (window.contiguous(), 0..SEQ_WINDOW as u64 / 64);
                let words: Vec<u64> = words.map(|w| window.bitmap_after(at + w * 64)).collect();
                let copy = SeqWindow::restored(at, &words);
                prop_assert_eq!(copy.contiguous(), at);
                prop_assert_eq!(copy.contains(seq + 1), window.contains(seq + 1));
                prop_assert!(copy.contains(seq));
                prop_assert_eq!(window.contains(seq + 1), model.contains(&(seq + 1)));
            }
        }
    }
}
