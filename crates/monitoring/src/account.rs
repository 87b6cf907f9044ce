//! What a reader has of a stream, by the stream's own numbers: records got, missing, and told twice.

use serde::{Deserialize, Serialize};

/// Lives without an end that are remembered.
pub const CUT_MAX: usize = 64;

/// How far a reader is in a stream, and what it has counted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// The life of the producer that was heard last: when it began, ms since 1970.
    pub life: u64,
    /// The number of that life that is expected next.
    pub next: u64,
    /// Records got.
    pub got: u64,
    /// Numbers that were passed over: nobody will tell them any more.
    pub missing: u64,
    /// Records that were told again, and left.
    pub again: u64,
    /// Lives heard.
    pub lives: u64,
    /// The life heard last has said that it ended, and had no records since.
    #[serde(default = "unknown")]
    pub ended: bool,
    /// Earlier lives that never said so, the newest [`CUT_MAX`] of them: what they had behind their last record is
    /// not in `missing`.
    #[serde(default)]
    pub cut: Vec<u64>,
}

/// Whether a life had ended was not written down once; nothing is said of those.
fn unknown() -> bool {
    true
}

impl Account {
    /// Records `first` and so on, `count` of them, have come from a life; how many of them to leave because
    /// they are known. None at all: everything before `first` of that life has been told.
    pub fn take(&mut self, life: u64, first: u64, count: u64) -> u64 {
        if life < self.life || first == 0 {
            self.again = self.again.saturating_add(count);
            return count;
        }
        if life > self.life {
            if self.lives > 0 && !self.ended {
                let over = (self.cut.len() + 1).saturating_sub(CUT_MAX);
                self.cut.drain(..over);
                self.cut.push(self.life);
            }
            (self.life, self.ended) = (life, false);
            self.next = 1;
            self.lives += 1;
        }
        self.missing = self.missing.saturating_add(first.saturating_sub(self.next));
        let known = self.next.saturating_sub(first).min(count);
        self.again = self.again.saturating_add(known);
        self.got = self.got.saturating_add(count - known);
        self.next = self.next.max(first.saturating_add(count));
        self.ended = (self.ended || count == 0) && known == count;
        known
    }

    /// The lives that had records and did not end in order, as far as is known: more than `missing` may be. The
    /// last one may go on.
    pub fn unended(&self) -> Vec<u64> {
        let last = Some(self.life).filter(|_| self.lives > 0 && !self.ended);
        self.cut.iter().copied().chain(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_are_missing_and_what_comes_again_is_left() {
        let mut of = Account::default();
        assert_eq!(of.take(10, 3, 2), 0, "1 and 2 are gone");
        assert_eq!(of.take(10, 3, 4), 2, "3 and 4 are known");
        assert_eq!((of.got, of.missing, of.again, of.next), (4, 2, 2, 7));
        assert_eq!(of.take(10, 10, 0), 0, "an end");
        assert_eq!((of.missing, of.next), (5, 10));
        assert_eq!(of.take(9, 1, 5), 5, "an earlier life");
        assert_eq!(of.take(11, 1, 1), 0, "a later one");
        assert_eq!((of.lives, of.got, of.missing, of.again), (2, 5, 5, 7));
        assert_eq!(of.take(11, u64::MAX, u64::MAX), 0, "nonsense overflows nothing");
    }

    #[test]
    fn a_life_without_an_end_is_told() {
        let mut of = Account::default();
        assert!(of.unended().is_empty());
        of.take(10, 1, 4);
        assert_eq!(of.unended(), [10], "it goes on, or was cut");
        of.take(11, 1, 2);
        of.take(11, 3, 0);
        assert_eq!((of.unended(), of.missing), (vec![10], 0), "the second one ended");
        of.take(11, 1, 2);
        assert_eq!(of.unended(), [10], "what is read again says nothing new");
        of.take(12, 1, 1);
        of.take(13, 1, 1);
        assert_eq!(of.unended(), [10, 12, 13]);
        for life in 14..1_000 {
            of.take(life, 1, 1);
        }
        let newest: Vec<u64> = (999 - CUT_MAX as u64..1_000).collect();
        assert_eq!(of.unended(), newest, "as many are kept");
        let old = r#"{"life":10,"next":5,"got":4,"missing":0,"again":0,"lives":1}"#;
        let mut old: Account = serde_json::from_str(old).expect("as it was written once");
        old.take(11, 1, 1);
        assert_eq!(old.unended(), [11], "of the first nothing is known");
    }

    proptest! {
        /// Whatever of 200 records is lost in between and in whatever pieces the rest comes, some of it twice:
        /// got and missing are all, and nothing is got twice.
        #[test]
        fn got_and_missing_are_all(lost in proptest::collection::vec(any::<bool>(), 200), seed: u64) {
            let mut random = seed | 1;
            let mut draw = |most: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % most
            };
            let mut of = Account::default();
            let mut at = 1_u64;
            while at <= 200 {
                let kept = |number: u64| !lost[number as usize - 1];
                if !kept(at) {
                    at += 1;
                    continue;
                }
                let run = (at..=200).take_while(|number| kept(*number)).count() as u64;
                let count = 1 + draw(run);
                of.take(1, at, count);
                if draw(3) == 0 {
                    of.take(1, at, count);
                }
                at += count;
            }
            of.take(1, 201, 0);
            let gone = lost.iter().filter(|lost| **lost).count() as u64;
            prop_assert_eq!((of.missing, of.got), (gone, 200 - gone));
        }
    }
}
