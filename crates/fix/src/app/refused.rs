//! Requests for orders that the engine refused, so that the answer to a request that followed one of
//! them at once can name it and say how the order stands that it was about.
//!
//! A table with one place for each number, counted around: it holds an account's last requests, and of
//! a ledger of several accounts most of the last ones. What is forgotten is answered as unknown.

use types::ClOrdId;

use super::orders::{account_of, key};

/// Most places of a table.
const PLACES_MAX: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Key that the order would have had; [`NONE`]: the place is free.
    key: u64,
    /// UserRefNum of the order that it was to replace, itself no refused one; 0: there is none.
    of: u32,
    cl_ord_id: ClOrdId,
}

/// No order's key: accounts have 16 bits.
const NONE: u64 = u64::MAX;

/// Refused requests by the key that their orders would have had.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    places: Vec<Entry>,
    most: usize,
}

impl Refused {
    /// A table of about `most` places, which takes memory when it is prepared or first used.
    pub(super) fn new(most: usize) -> Refused {
        let most = most.clamp(1, PLACES_MAX).next_power_of_two();
        Refused { places: Vec::new(), most }
    }

    /// Reserves the memory.
    pub(super) fn prepare(&mut self) {
        let free = Entry { key: NONE, of: 0, cl_ord_id: ClOrdId::default() };
        self.places.resize(self.most, free);
    }

    fn place(&self, key: u64) -> usize {
        (key ^ (key >> 32).wrapping_mul(0x9e37_79b9)) as usize & (self.most - 1)
    }

    fn find(&self, key: u64) -> Option<&Entry> {
        self.places.get(self.place(key)).filter(|entry| entry.key == key)
    }

    /// A refused order and the key of the one that it was to replace; that one has no order's key, if
    /// it was to replace none.
    pub(super) fn get(&self, key_of: u64) -> Option<(ClOrdId, u64)> {
        let entry = self.find(key_of)?;
        let of = if entry.of == 0 { NONE } else { key(account_of(key_of), entry.of) };
        Some((entry.cl_ord_id, of))
    }

    /// A new order was refused.
    pub(super) fn put(&mut self, key: u64, cl_ord_id: ClOrdId) {
        self.enter(Entry { key, of: 0, cl_ord_id });
    }

    /// A replace of `original` was refused, which is a known order or one that was perhaps refused, too.
    pub(super) fn put_replace(
        &mut self,
        key: u64,
        cl_ord_id: ClOrdId,
        (original, known): (u64, bool),
    ) {
        let refused = self.find(original).filter(|_| !known);
        let of = refused.map_or(original as u32, |refused| refused.of);
        self.enter(Entry { key, of, cl_ord_id });
    }

    fn enter(&mut self, entry: Entry) {
        if self.places.is_empty() {
            self.prepare();
        }
        let place = self.place(entry.key);
        if let Some(free) = self.places.get_mut(place) {
            *free = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use types::AccountId;

    use super::*;

    #[test]
    fn a_chain_of_refused_replaces_is_about_the_order_that_it_began_with() {
        let of = |number| key(AccountId(7), number);
        let id = |letter| ClOrdId([letter; 14]);
        let mut refused = Refused::new(5);
        assert_eq!(refused.get(of(1)), None);
        refused.put_replace(of(2), id(b'b'), (of(1), true));
        refused.put_replace(of(3), id(b'c'), (of(2), false));
        refused.put(of(4), id(b'd'));
        refused.put_replace(of(5), id(b'e'), (of(4), false));
        refused.put_replace(of(6), id(b'f'), (of(4), true));
        assert_eq!(refused.get(of(2)), Some((id(b'b'), of(1))));
        assert_eq!(refused.get(of(3)), Some((id(b'c'), of(1))));
        assert_eq!(refused.get(of(4)), Some((id(b'd'), NONE)));
        assert_eq!(refused.get(of(5)), Some((id(b'e'), NONE)), "nothing is behind it");
        assert_eq!(
            refused.get(of(6)),
            Some((id(b'f'), of(4))),
            "a number that was refused once more"
        );
        assert_eq!(refused.get(key(AccountId(8), 3)), None, "another account's");
        // Eight places: the last numbers are known.
        (7..1_000).for_each(|number| refused.put(of(number), id(b'x')));
        assert_eq!((992..1_000).filter(|number| refused.get(of(*number)).is_some()).count(), 8);
        assert_eq!((refused.get(of(991)), refused.places.len()), (None, 8));
    }
}
