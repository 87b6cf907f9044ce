//! A hash index from keys to places in a slab, by open addressing with linear probing.
//!
//! It keeps places only: the keys lie in the slab, and the caller says which key a place has. It
//! grows by doubling and never shrinks, so that it allocates nothing once it has been as large as
//! it gets. Keys are mixed with a salt of the owner's, because participants choose some of them.

/// Value that marks a free entry of the table.
const NONE: u32 = u32::MAX;

/// The index of a slab of records, by keys that the slab holds.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Table of places in the slab, a power of two of them, at most half of them in use; empty
    /// before the first key.
    places: Vec<u32>,
    used: usize,
    salt: u64,
}

impl Index {
    pub(super) fn new(salt: u64) -> Index {
        Index { places: Vec::new(), used: 0, salt }
    }

    /// Entry of the table at which the search for a key begins.
    #[inline]
    fn home(&self, key: u128) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let (low, high) = (key as u64 ^ self.salt, (key >> 64) as u64 ^ ODD);
        let once = fold(low, high | 1);
        fold(once ^ self.salt, ODD) as usize & self.mask()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    /// Entry of the table that holds a key; `key_of` returns the key at a place of the slab.
    #[inline]
    fn find(&self, key: u128, key_of: impl Fn(u32) -> Option<u128>) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let mut at = self.home(key);
        loop {
            match self.places.get(at).copied() {
                None | Some(NONE) => return None,
                Some(place) if key_of(place) == Some(key) => return Some(at),
                Some(_) => at = (at + 1) & self.mask(),
            }
        }
    }

    /// Place of a key in the slab; `None`: the key is not there.
    #[inline]
    pub(super) fn get(&self, key: u128, key_of: impl Fn(u32) -> Option<u128>) -> Option<u32> {
        self.places.get(self.find(key, key_of)?).copied()
    }

    /// Sets the place of a key, known or new; doubles the table when half of it is in use.
    pub(super) fn put(&mut self, key: u128, place: u32, key_of: impl Fn(u32) -> Option<u128>) {
        if let Some(at) = self.find(key, &key_of) {
            if let Some(known) = self.places.get_mut(at) {
                *known = place;
            }
            return;
        }
        if (self.used + 1) * 2 > self.places.len() {
            self.grow(self.places.len() * 2, &key_of);
        }
        self.lay(key, place);
        self.used += 1;
    }

    /// Puts a place into the first free entry from its key's home on; the caller has made sure that
    /// one is free.
    fn lay(&mut self, key: u128, place: u32) {
        let mut at = self.home(key);
        while self.places.get(at).is_some_and(|&taken| taken != NONE) {
            at = (at + 1) & self.mask();
        }
        if let Some(free) = self.places.get_mut(at) {
            *free = place;
        }
    }

    /// Reserves the memory for `most` keys.
    pub(super) fn prepare(&mut self, most: usize, key_of: impl Fn(u32) -> Option<u128>) {
        let wanted = most.saturating_mul(2).next_power_of_two();
        if wanted > self.places.len() {
            self.grow(wanted, &key_of);
        }
    }

    fn grow(&mut self, more: usize, key_of: &impl Fn(u32) -> Option<u128>) {
        let more = more.max(16);
        let before = std::mem::replace(&mut self.places, vec![NONE; more]);
        for place in before.into_iter().filter(|&place| place != NONE) {
            if let Some(key) = key_of(place) {
                self.lay(key, place);
            }
        }
    }

    /// Removes a key and closes the gap that it leaves; `key_of` has to know the key still.
    pub(super) fn remove(&mut self, key: u128, key_of: impl Fn(u32) -> Option<u128>) {
        let Some(mut hole) = self.find(key, &key_of) else { return };
        self.used -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let place = self.places.get(at).copied().unwrap_or(NONE);
            if place == NONE {
                break;
            }
            let home = key_of(place).map_or(at, |key| self.home(key));
            // It may move into the hole unless its own search begins behind that.
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(hole) & self.mask() {
                if let Some(free) = self.places.get_mut(hole) {
                    *free = place;
                }
                hole = at;
            }
        }
        if let Some(free) = self.places.get_mut(hole) {
            *free = NONE;
        }
    }
}

/// XOR of both halves of the 128-bit product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::SplitMix64;

    use super::*;

    #[test]
    fn agrees_with_a_map() {
        for seed in 0..20 {
            let mut rng = SplitMix64::new(seed);
            let (mut index, mut keys) = (Index::new(seed), Vec::new());
            let mut map = BTreeMap::new();
            for _ in 0..4_000 {
                let key = u128::from(rng.next_u64() % 300) << 60;
                if rng.next_u64() % 5 < 2 {
                    index.remove(key, |place| keys.get(place as usize).copied());
                    map.remove(&key);
                } else {
                    keys.push(key);
                    let place = keys.len() as u32 - 1;
                    index.put(key, place, |place| keys.get(place as usize).copied());
                    map.insert(key, place);
                }
                let key = u128::from(rng.next_u64() % 300) << 60;
                let found = index.get(key, |place| keys.get(place as usize).copied());
                assert_eq!(found, map.get(&key).copied(), "seed {seed}");
            }
            assert_eq!(index.used, map.len());
            assert!(index.places.len() <= 1_024, "{}", index.places.len());
        }
    }
}
