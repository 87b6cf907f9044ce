//! Which resting order a (account, user_ref) means: an open-addressing table of fixed size.
//!
//! Linear probing with at most half of the places used, removal by shifting back instead of
//! tombstones: no allocation, no rehash and no slow decay, whatever the history. The hash is fixed
//! (Fibonacci hashing), and the table is never iterated, so that its layout can't reach an output.

use book::Handle;
use types::{AccountId, UserRefNum};

/// Low bits of the first word: account and user_ref; the rest holds the book's index.
const KEY_BITS: u32 = 48;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;

/// Where a resting order is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Index of its book.
    pub(crate) book: usize,
    /// Its handle there.
    pub(crate) handle: Handle,
}

/// Entries are `[book << 48 | account << 32 | user_ref, handle]`; a first word of zero is free,
/// which no entry can be because account 0 is none.
#[derive(Clone, Debug)]
pub(crate) struct OrderIndex {
    entries: Vec<[u64; 2]>,
    len: usize,
    capacity: usize,
}

impl OrderIndex {
    pub(crate) fn new(capacity: usize) -> OrderIndex {
        let places = (2 * capacity).next_power_of_two().max(2);
        OrderIndex { entries: vec![[0; 2]; places], len: 0, capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.capacity
    }

    pub(crate) fn get(&self, account: AccountId, user_ref: UserRefNum) -> Option<Place> {
        let [word, bits] = self.entries[self.find(key(account, user_ref))?];
        Some(Place { book: (word >> KEY_BITS) as usize, handle: Handle::from_bits(bits) })
    }

    /// Adds an order that is not in the table; the caller has checked [`OrderIndex::is_full`].
    pub(crate) fn insert(&mut self, account: AccountId, user_ref: UserRefNum, place: Place) {
        assert!(!self.is_full() && account.0 != 0, "insert into a full index");
        let key = key(account, user_ref);
        let mut at = self.home(key);
        while self.entries[at][0] != 0 {
            debug_assert!(self.entries[at][0] & KEY_MASK != key, "an identity is live twice");
            at = self.after(at);
        }
        self.entries[at] = [(place.book as u64) << KEY_BITS | key, place.handle.to_bits()];
        self.len += 1;
    }

    /// Removes an order that is in the table.
    pub(crate) fn remove(&mut self, account: AccountId, user_ref: UserRefNum) {
        let mut hole = self.find(key(account, user_ref)).expect("a live order is in the index");
        self.len -= 1;
        let mut at = self.after(hole);
        while self.entries[at][0] != 0 {
            // An entry may move into the hole unless its home lies behind the hole (cyclically).
            let home = self.home(self.entries[at][0] & KEY_MASK);
            let mask = self.entries.len() - 1;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[at];
                hole = at;
            }
            at = self.after(at);
        }
        self.entries[hole] = [0; 2];
    }

    fn find(&self, key: u64) -> Option<usize> {
        let mut at = self.home(key);
        loop {
            match self.entries[at][0] {
                0 => return None,
                word if word & KEY_MASK == key => return Some(at),
                _ => at = self.after(at),
            }
        }
    }

    fn home(&self, key: u64) -> usize {
        let bits = self.entries.len().trailing_zeros();
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits)) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }
}

fn key(account: AccountId, user_ref: UserRefNum) -> u64 {
    u64::from(account.0) << 32 | u64::from(user_ref.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn agrees_with_a_map(
            steps in prop::collection::vec((1u16..3, 0u32..12, 0usize..4), 1..400),
        ) {
            let mut index = OrderIndex::new(16);
            let mut model = HashMap::new();
            for (step, (account, user_ref, book)) in steps.into_iter().enumerate() {
                let (account, user_ref) = (AccountId(account), UserRefNum(user_ref));
                let place = Place { book, handle: Handle::from_bits(step as u64) };
                if model.remove(&(account, user_ref)).is_some() {
                    index.remove(account, user_ref);
                } else if !index.is_full() {
                    index.insert(account, user_ref, place);
                    model.insert((account, user_ref), place);
                }
                prop_assert_eq!(index.len(), model.len());
                for a in 1..3 {
                    for u in 0..12 {
                        let (a, u) = (AccountId(a), UserRefNum(u));
                        prop_assert_eq!(index.get(a, u), model.get(&(a, u)).copied());
                    }
                }
            }
        }
    }
}
