//! The participants' own identifiers of open orders, for venues that want them unique: an
//! open-addressing set of fixed size, at most three quarters full, removal by shifting back.

use types::{AccountId, ClOrdId};

/// Account and identifier in one word, never zero because account 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word(u128);

impl Word {
    const FREE: Word = Word(0);

    #[inline(always)]
    fn new(account: AccountId, id: &ClOrdId) -> Word {
        // In parts that do not overlap: identifiers are often looked at right after they were written.
        let (low, rest) = id.0.split_first_chunk().expect("eight of 14 bytes");
        let (middle, rest) = rest.split_first_chunk().expect("four of six bytes");
        let top = rest.first_chunk().expect("two of two bytes");
        let high = u64::from(u32::from_le_bytes(*middle))
            | u64::from(u16::from_le_bytes(*top)) << 32
            | u64::from(account.0) << 48;
        let low = u64::from_le_bytes(*low);
        Word(u128::from(high) << 64 | u128::from(low))
    }
}

/// Where an identifier goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdPlace(usize);

impl IdPlace {
    /// Of a blank identifier, which is not kept.
    const NOWHERE: IdPlace = IdPlace(usize::MAX);
}

/// The identifiers of open orders; blank ones are not kept. Derived from the books: it is no part
/// of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct OpenIds {
    words: Vec<Word>,
    /// Words that are free, at least one.
    free: usize,
    /// Drawn anew in every process, so that no participant can choose identifiers that collide.
    /// Nothing that can be observed depends on them.
    seeds: [u64; 2],
}

impl OpenIds {
    /// For at most `orders` open orders.
    pub(crate) fn new(orders: usize) -> OpenIds {
        // One order more: a replace adds before it removes.
        let size = (orders / 3 * 4 + 4).next_power_of_two();
        let seeds = [book::random_odd(), book::random_odd()];
        assert!(size > orders + 1, "a search ends at a free word");
        OpenIds { words: vec![Word::FREE; size], free: size, seeds }
    }

    /// Fetches the place of an identifier.
    #[inline]
    pub(crate) fn prefetch(&self, account: AccountId, id: &ClOrdId) {
        book::prefetch(&self.words[self.home(Word::new(account, id))]);
    }

    pub(crate) fn contains(&self, account: AccountId, id: &ClOrdId) -> bool {
        *id != ClOrdId::default() && self.find(Word::new(account, id)).is_some()
    }

    /// Where an identifier would be kept; `None` when an open order of the account has it. Valid until
    /// the next change.
    #[inline(always)]
    pub(crate) fn look(&self, account: AccountId, id: &ClOrdId) -> Option<IdPlace> {
        if *id == ClOrdId::default() {
            return Some(IdPlace::NOWHERE);
        }
        let word = Word::new(account, id);
        let mut at = self.home(word);
        while self.words[at] != Word::FREE {
            if self.words[at] == word {
                return None;
            }
            at = self.after(at);
        }
        Some(IdPlace(at))
    }

    /// Keeps an identifier at the place that was found for it.
    #[inline(always)]
    pub(crate) fn put(&mut self, place: IdPlace, account: AccountId, id: &ClOrdId) {
        if place == IdPlace::NOWHERE {
            return;
        }
        self.free -= 1;
        assert!(self.free > 0, "a search ends at a free word");
        let word = &mut self.words[place.0];
        assert!(*word == Word::FREE, "the place was found just now");
        *word = Word::new(account, id);
    }

    pub(crate) fn insert(&mut self, account: AccountId, id: &ClOrdId) {
        if *id == ClOrdId::default() {
            return;
        }
        let word = Word::new(account, id);
        let mut at = self.home(word);
        while self.words[at] != Word::FREE {
            if self.words[at] == word {
                return;
            }
            at = self.after(at);
        }
        self.free -= 1;
        assert!(self.free > 0, "a search ends at a free word");
        self.words[at] = word;
    }

    pub(crate) fn remove(&mut self, account: AccountId, id: &ClOrdId) {
        let Some(mut hole) = self.find(Word::new(account, id)) else { return };
        let mask = self.words.len() - 1;
        let mut at = self.after(hole);
        while self.words[at] != Word::FREE {
            // A word may move into the hole unless its home lies behind the hole (cyclically).
            let home = self.home(self.words[at]);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.words[hole] = self.words[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.free += 1;
        self.words[hole] = Word::FREE;
    }

    #[inline(always)]
    fn find(&self, word: Word) -> Option<usize> {
        let mut at = self.home(word);
        loop {
            match self.words[at] {
                Word::FREE => return None,
                found if found == word => return Some(at),
                _ => at = self.after(at),
            }
        }
    }

    #[inline(always)]
    fn home(&self, word: Word) -> usize {
        let (low, high) = (word.0 as u64 ^ self.seeds[0], (word.0 >> 64) as u64 ^ self.seeds[1]);
        book::fold_multiply(low, high) as usize & (self.words.len() - 1)
    }

    #[inline(always)]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.words.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn a_word_is_all_bytes_of_the_identifier_and_the_account() {
        let word = Word::new(AccountId(0x5453), &ClOrdId(*b"abcdefghijklmn"));
        assert_eq!(word.0.to_le_bytes(), *b"abcdefghijklmnST");
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(steps in prop::collection::vec((1u16..3, 0u8..12), 1..400)) {
            let (mut ids, mut model) = (OpenIds::new(16), HashSet::new());
            for (account, letter) in steps {
                let (account, id) = (AccountId(account), ClOrdId([b'a' + letter; 14]));
                if model.remove(&(account, id)) {
                    ids.remove(account, &id);
                } else if model.len() < 16 {
                    match ids.look(account, &id) {
                        Some(place) if letter % 2 == 0 => ids.put(place, account, &id),
                        _ => ids.insert(account, &id),
                    }
                    prop_assert!(ids.look(account, &id).is_none());
                    model.insert((account, id));
                }
                for a in 1..3 {
                    for l in 0..12 {
                        let (a, i) = (AccountId(a), ClOrdId([b'a' + l; 14]));
                        prop_assert_eq!(ids.contains(a, &i), model.contains(&(a, i)));
                    }
                }
            }
        }
    }
}
