//! Which slot holds the order of a key: one table for all books. Where identifiers are unique, a second one
//! says which slot holds the order of an identifier.
//!
//! A bucket is one cache line: twelve slots, a byte of each key's hash, and the number of keys that
//! passed the bucket because it was full. A search looks at all bytes of a bucket at once and goes
//! on to the next bucket only when some key has passed, so it ends in the first line nearly always,
//! and a removal leaves nothing behind. A few consecutive keys share a bucket: clients count
//! upwards, and their next order and the cancels of neighbouring ones find the line loaded. The
//! hash is seeded at random, so that nobody can choose keys that collide; the table is never
//! iterated, so the seed shows nowhere.
//!
//! Memory is reserved for as many keys as there may be, but keys are spread over no more buckets
//! than the most keys there ever were need, since lines that are not used need no cache. When they
//! become too many, each bucket in turn shares its keys with a new one (linear hashing), one with
//! every key that comes in: none waits for all others to be moved.
//!
//! The key that came last stays outside the table until the next one comes: many orders are cancelled
//! or changed before any other order rests, and such a key is found by one comparison and never
//! written to a bucket.

use std::hash::{BuildHasher, RandomState};

use types::ClOrdId;

use crate::order::{NIL, Order};
use crate::slab::Slab;

/// Consecutive keys that share a bucket, as a power of two.
const NEIGHBOURS: u32 = 1;

/// Number of entries per bucket.
const WIDTH: usize = 12;

/// Keys per bucket, on average, when the books are full, at most.
const LOAD: usize = 5;

/// Keys per bucket, on average, that begin a round in which each bucket shares its keys with a new
/// one. The more, the fewer cache lines; see [`Index::split`] for the bound.
const SHARE: u32 = 6;

const _: () =
    assert!(2 * SHARE as usize <= WIDTH, "a search for what moves ends before the new bucket");

/// Buckets in use from the start.
const FIRST: usize = 64;

/// Buckets in use of an index that fills a part of a cache of one or two megabytes.
const LARGE: usize = 1 << 12;

/// A random odd number, for the salt of an index.
pub fn random_odd() -> u64 {
    RandomState::new().hash_one(0u64) | 1
}

/// A product of 128 bits folded to 64.
#[inline(always)]
pub fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// What an [`Index`] finds orders by.
pub(crate) trait Key: Copy + Eq {
    /// Some key, before there is any.
    const SOME: Self;

    /// The order's key.
    fn of(order: &Order) -> Self;

    /// The hash of an order's key. The low bits name a bucket, the high byte tells the keys of a bucket apart and
    /// is not 0.
    fn hash_of(order: &Order, seeds: [u64; 2]) -> u64;
}

/// What an order's identifier is found by, see [`crate::Books::hash_identifier`]; 0: by nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdHash(pub(crate) u64);

/// In the high byte of each hash.
const NOT_ZERO: u64 = 1 << 59;

/// Names an order among all open ones.
impl Key for u64 {
    const SOME: u64 = 0;

    #[inline(always)]
    fn of(order: &Order) -> u64 {
        order.key
    }

    #[inline(always)]
    fn hash_of(order: &Order, seeds: [u64; 2]) -> u64 {
        hash_key(order.key, seeds)
    }
}

#[inline(always)]
fn hash_key(key: u64, seeds: [u64; 2]) -> u64 {
    // The low bits of the key tell neighbours apart at once.
    (fold_multiply((key >> NEIGHBOURS) ^ seeds[0], seeds[1]) ^ key << 62) | NOT_ZERO
}

/// A participant's identifier of an order, and whose it is: bits 32 to 47 of the order's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identifier {
    low: u64,
    high: u64,
}

impl Identifier {
    #[inline(always)]
    pub(crate) fn new(key: u64, id: &ClOrdId) -> Identifier {
        // In parts that do not overlap: identifiers are often looked at right after they were written.
        let (low, rest) = id.0.split_first_chunk().expect("eight of 14 bytes");
        let (middle, rest) = rest.split_first_chunk().expect("four of six bytes");
        let top = rest.first_chunk().expect("two of two bytes");
        let high = u64::from(u32::from_le_bytes(*middle))
            | u64::from(u16::from_le_bytes(*top)) << 32
            | (key >> 32) << 48;
        Identifier { low: u64::from_le_bytes(*low), high }
    }

    /// Whether there is none.
    #[inline(always)]
    fn is_blank(self) -> bool {
        const BLANK: u64 = u64::from_le_bytes([b' '; 8]);
        (self.low == BLANK) & (self.high << 16 == BLANK << 16)
    }
}

impl Key for Identifier {
    const SOME: Identifier = Identifier { low: 0, high: 0 };

    #[inline(always)]
    fn of(order: &Order) -> Identifier {
        Identifier::new(order.key, &order.cl_ord_id)
    }

    /// Worked out once, and kept with the order.
    #[inline(always)]
    fn hash_of(order: &Order, _seeds: [u64; 2]) -> u64 {
        order.id_hash.0
    }
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// One byte of each entry's hash; 0 for a free entry.
    bytes: [u8; WIDTH],
    /// Number of keys that went past this bucket to a later one.
    passed: u32,
    slots: [u32; WIDTH],
}

const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket { bytes: [0; WIDTH], passed: 0, slots: [NIL; WIDTH] };

impl Bucket {
    /// The entries whose byte is `byte`, one bit each.
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    #[inline(always)]
    fn matches(&self, byte: u8) -> u32 {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi8};
        // SAFETY: a bucket is 64 readable bytes on a boundary of 64, of which this loads the first
        // 16; every x86-64 processor has SSE2, which is all the instructions ask for.
        let equal = unsafe {
            let head = _mm_load_si128(std::ptr::from_ref(self).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(head, _mm_set1_epi8(byte as i8)))
        };
        equal as u32 & ((1 << WIDTH) - 1)
    }

    /// The entries whose byte is `byte`, one bit each.
    #[cfg(not(target_arch = "x86_64"))]
    fn matches(&self, byte: u8) -> u32 {
        (0..WIDTH).fold(0, |mask, at| mask | u32::from(self.bytes[at] == byte) << at)
    }

    /// The entry of a key among those of its byte, and its slot.
    #[inline(always)]
    fn find<K: Key>(&self, byte: u8, key: K, orders: &Slab) -> Option<(u32, u32)> {
        let mut matches = self.matches(byte);
        while matches != 0 {
            let entry = matches.trailing_zeros();
            let slot = self.slots[entry as usize % 16];
            if K::of(&orders[slot]) == key {
                return Some((entry, slot));
            }
            matches &= matches - 1;
        }
        None
    }
}

#[derive(Debug)]
pub(crate) struct Index<K = u64> {
    buckets: Vec<Bucket>,
    /// Of a search that goes on from bucket to bucket: all of them, also those not in use yet.
    mask: usize,
    seeds: [u64; 2],
    /// Buckets in use: keys have their home there.
    used: usize,
    /// One less than the power of two that is `used` or, during a round, the next above it.
    wide: usize,
    /// More keys than this need another bucket.
    enough: u32,
    newest: Newest<K>,
}

/// The key that was put in last, while it is in no bucket.
#[derive(Clone, Copy, Debug)]
struct Newest<K> {
    key: K,
    /// Slot of its order; [`NIL`]: all keys are in buckets.
    slot: u32,
    vacancy: Vacancy,
}

/// Stands for the bucket of a key that is in none.
const OUTSIDE: u32 = u32::MAX;

/// Where a key that is not there would go; valid until the next change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacancy {
    home: usize,
    byte: u8,
}

/// What is known of a key while looking ahead: first its bucket and, in the low eight bits, its byte; then
/// the slot that probably is its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trace(pub(crate) u64);

/// Where a key is; valid until the next change of the books. 16 bytes, so that it travels in registers.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Slot of the order in the slab.
    pub(crate) slot: u32,
    /// Buckets: where it belongs, and where it is.
    home: u32,
    at: u32,
    entry: u32,
}

const _: () = assert!(size_of::<Found>() == 16);

impl<K: Key> Index<K> {
    /// An empty index with room for `capacity` keys.
    pub(crate) fn new(capacity: u32) -> Index<K> {
        Index::with_seeds(capacity, [random_odd(), random_odd()])
    }

    fn with_seeds(capacity: u32, seeds: [u64; 2]) -> Index<K> {
        let size = (capacity as usize / LOAD + 1).next_power_of_two();
        assert!(size < OUTSIDE as usize, "buckets are numbered with 32 bits");
        let mut buckets = crate::huge::with_capacity(size);
        buckets.resize(size, EMPTY);
        let used = size.min(FIRST);
        let newest = Newest { key: K::SOME, slot: NIL, vacancy: Vacancy { home: 0, byte: 0 } };
        let (mask, wide) = (size - 1, used - 1);
        let mut index = Index { buckets, mask, seeds, used, wide, enough: 0, newest };
        index.set_enough();
        index
    }

    /// A round that has begun goes on with every key, so that it soon ends; the next one waits.
    fn set_enough(&mut self) {
        self.enough = match self.used {
            used if used == self.buckets.len() => u32::MAX,
            used if used > self.wide => used as u32 * SHARE,
            _ => 0,
        };
    }

    #[inline(always)]
    pub(crate) fn home(&self, hash: u64) -> Vacancy {
        let at = hash as usize & self.wide;
        let home = if at < self.used { at } else { self.lower_half(at) };
        Vacancy { home, byte: (hash >> 56) as u8 }
    }

    #[inline(always)]
    pub(crate) fn home_of(&self, slot: u32, orders: &Slab) -> Vacancy {
        self.home(K::hash_of(&orders[slot], self.seeds))
    }

    /// The home of keys whose bucket is not in use yet; only while a round lasts.
    #[cold]
    fn lower_half(&self, at: usize) -> usize {
        at & self.wide >> 1
    }

    /// Whether its lines leave the cache of a processor's core before they are needed again.
    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.used > LARGE
    }

    /// Fetches the bucket of a key with this hash, and says which it is.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) -> Trace {
        let vacancy = self.home(hash);
        crate::huge::prefetch(&self.buckets[vacancy.home]);
        Trace((vacancy.home as u64) << 8 | u64::from(vacancy.byte))
    }

    /// The slot that probably is the key's, without looking at the order; of a key that is not there any
    /// slot of its bucket. Without a branch: what commands are about cannot be foreseen.
    #[inline(always)]
    pub(crate) fn glimpse(&self, trace: Trace) -> u32 {
        let bucket = &self.buckets[(trace.0 >> 8) as usize];
        let entry = (bucket.matches(trace.0 as u8) | 1 << (WIDTH - 1)).trailing_zeros() as usize;
        bucket.slots[entry % 16]
    }

    /// Where a key with this hash is, or where to put it.
    #[inline(always)]
    pub(crate) fn look_for(&self, key: K, hash: u64, orders: &Slab) -> Result<Found, Vacancy> {
        if key == self.newest.key && self.newest.slot != NIL {
            return Ok(Found { slot: self.newest.slot, home: 0, at: OUTSIDE, entry: 0 });
        }
        let vacancy @ Vacancy { home, byte } = self.home(hash);
        let bucket = &self.buckets[home];
        if let Some((entry, slot)) = bucket.find(byte, key, orders) {
            return Ok(Found { slot, home: home as u32, at: home as u32, entry });
        }
        if bucket.passed == 0 {
            return Err(vacancy);
        }
        let further = self.look_further(key, vacancy, orders);
        if further.slot == NIL { Err(vacancy) } else { Ok(further) }
    }

    /// Slot [`NIL`]: it is not there.
    #[cold]
    fn look_further(&self, key: K, vacancy: Vacancy, orders: &Slab) -> Found {
        let Vacancy { home, byte } = vacancy;
        // In a table of few buckets some key may have passed each of them.
        for distance in 1..=self.mask {
            let at = (home + distance) & self.mask;
            if let Some((entry, slot)) = self.buckets[at].find(byte, key, orders) {
                return Found { slot, home: home as u32, at: at as u32, entry };
            }
            if self.buckets[at].passed == 0 {
                break;
            }
        }
        Found { slot: NIL, home: 0, at: 0, entry: 0 }
    }

    /// Puts in a key that is not there; its order is in its slot already.
    #[inline(always)]
    pub(crate) fn put(&mut self, vacancy: Vacancy, slot: u32, orders: &Slab) {
        if self.newest.slot != NIL {
            self.place(self.newest.vacancy, self.newest.slot);
        }
        self.newest = Newest { key: K::of(&orders[slot]), slot, vacancy };
        if orders.live() > self.enough {
            self.split(orders);
        }
    }

    /// Takes one more bucket into use and moves there what has its home there from now on.
    ///
    /// That all comes from one bucket, the lower half, and those it has overflowed into. No key is
    /// as far from its home as the new bucket is: all buckets between were full once, which takes
    /// [`WIDTH`] keys each, and there never were more than [`SHARE`], half as many, for each bucket in use,
    /// of which there are fewer than twice those between.
    #[cold]
    fn split(&mut self, orders: &Slab) {
        let (from, to) = (self.used & self.wide >> 1, self.used);
        if to > self.wide {
            return self.widen(orders);
        }
        self.used += 1;
        self.set_enough();
        self.newest.vacancy = self.home_of(self.newest.slot, orders);
        let mut at = from;
        while at != to {
            for entry in 0..WIDTH {
                let (byte, slot) = (self.buckets[at].bytes[entry], self.buckets[at].slots[entry]);
                if byte != 0 && self.home_of(slot, orders).home == to {
                    let (home, at, entry) = (from as u32, at as u32, entry as u32);
                    self.clear(Found { slot, home, at, entry });
                    self.place(Vacancy { home: to, byte }, slot);
                }
            }
            if self.buckets[at].passed == 0 {
                break;
            }
            at = (at + 1) & self.mask;
        }
    }

    /// All buckets of a power of two have shared their keys: the next round begins.
    fn widen(&mut self, orders: &Slab) {
        self.wide = self.wide << 1 | 1;
        self.split(orders);
    }

    #[inline(always)]
    fn place(&mut self, vacancy: Vacancy, slot: u32) {
        let mut at = vacancy.home;
        loop {
            let bucket = &mut self.buckets[at];
            let free = bucket.matches(0).trailing_zeros() as usize;
            if free < WIDTH {
                bucket.bytes[free] = vacancy.byte;
                bucket.slots[free] = slot;
                return;
            }
            bucket.passed += 1;
            at = (at + 1) & self.mask;
        }
    }

    /// Takes out the key of the order in a slot, which is there.
    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: u32, orders: &Slab) {
        if slot == self.newest.slot {
            self.newest.slot = NIL;
            return;
        }
        self.remove_placed(self.home_of(slot, orders), slot);
    }

    #[inline(never)]
    fn remove_placed(&mut self, Vacancy { home, byte }: Vacancy, slot: u32) {
        let mut at = home;
        loop {
            let mut matches = self.buckets[at].matches(byte);
            while matches != 0 {
                let entry = matches.trailing_zeros();
                if self.buckets[at].slots[entry as usize % 16] == slot {
                    return self.clear(Found { slot, home: home as u32, at: at as u32, entry });
                }
                matches &= matches - 1;
            }
            debug_assert!(self.buckets[at].passed != 0, "a key is not in the index");
            at = (at + 1) & self.mask;
        }
    }

    /// Takes out a key that was just found.
    #[inline(always)]
    pub(crate) fn clear(&mut self, found: Found) {
        if found.at == OUTSIDE {
            self.newest.slot = NIL;
            return;
        }
        let (at, entry) = (found.at as usize, found.entry as usize % 16);
        let bucket = &mut self.buckets[at];
        bucket.bytes[entry] = 0;
        bucket.slots[entry] = NIL;
        let mut passed = found.home as usize;
        while passed != at {
            self.buckets[passed].passed -= 1;
            passed = (passed + 1) & self.mask;
        }
    }
}

impl Index {
    /// Fetches the bucket of a key, and says which it is.
    #[inline(always)]
    pub(crate) fn prefetch_key(&self, key: u64) -> Trace {
        self.prefetch(hash_key(key, self.seeds))
    }

    /// Where a key goes that is not there.
    #[inline(always)]
    pub(crate) fn vacancy(&self, key: u64) -> Vacancy {
        self.home(hash_key(key, self.seeds))
    }

    /// The slot of the order with this key; `None`: no such order is open.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64, orders: &Slab) -> Option<u32> {
        self.look(key, orders).ok().map(|found| found.slot)
    }

    /// Where a key is, or where to put it.
    #[inline(always)]
    pub(crate) fn look(&self, key: u64, orders: &Slab) -> Result<Found, Vacancy> {
        self.look_for(key, hash_key(key, self.seeds), orders)
    }
}

impl Index<Identifier> {
    /// The hash of an identifier; that of a blank one finds nothing.
    #[inline(always)]
    pub(crate) fn hash(&self, id: Identifier) -> IdHash {
        let [low, high] = self.seeds;
        let hash = fold_multiply(id.low ^ low, id.high ^ high) | NOT_ZERO;
        // Without a branch: cancels have none, and nobody foresees what comes.
        IdHash(hash & u64::from(id.is_blank()).wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Order;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use types::{NewOrder, Price, Side};

    proptest! {
        #[test]
        fn agrees_with_a_map(
            steps in prop::collection::vec((0u64..96, 0u8..3, any::<bool>()), 1..600),
            seeds in any::<[u64; 2]>(),
            few_buckets: bool,
        ) {
            const CAPACITY: u32 = 60;
            let (mut slab, mut map) = (Slab::new(CAPACITY), HashMap::new());
            // Two buckets for up to twenty keys, or sixteen for sixty.
            let capacity = if few_buckets { 20 } else { CAPACITY };
            let mut index = Index::with_seeds(if few_buckets { 9 } else { CAPACITY }, seeds);
            for (low, high, insert) in steps {
                let key = low | u64::from(high) << 61;
                let found = index.look(key, &slab);
                let slot = found.ok().map(|found| found.slot);
                prop_assert_eq!(slot, map.get(&key).copied());
                match found {
                    Err(vacancy) if insert && map.len() < capacity as usize => {
                        let slot = slab.take();
                        let terms = NewOrder::limit(key, Side::Buy, Price(1), 1);
                        slab[slot] = Order::new(0, 1, &terms, IdHash::default());
                        index.put(vacancy, slot, &slab);
                        map.insert(key, slot);
                    }
                    Ok(found) if !insert => {
                        if low % 2 == 0 {
                            index.remove(found.slot, &slab);
                        } else {
                            index.clear(found);
                        }
                        slab.remove(found.slot);
                        map.remove(&key);
                    }
                    _ => {}
                }
                for (&key, &slot) in &map {
                    prop_assert_eq!(index.find(key, &slab), Some(slot));
                }
            }
            map.drain().for_each(|(_, slot)| index.remove(slot, &slab));
            let empty = |b: &Bucket| (b.bytes, b.passed, b.slots) == ([0; WIDTH], 0, [NIL; WIDTH]);
            prop_assert!(index.buckets.iter().all(empty));
        }
    }

    #[test]
    fn the_key_that_came_last_is_in_no_bucket_until_the_next_comes() {
        fn enter(index: &mut Index, slab: &mut Slab, key: u64) -> u32 {
            let vacancy = index.look(key, slab).expect_err("a new key");
            let slot = slab.take();
            slab[slot] =
                Order::new(0, 1, &NewOrder::limit(key, Side::Buy, Price(1), 1), IdHash::default());
            index.put(vacancy, slot, slab);
            slot
        }
        fn placed(index: &Index) -> usize {
            index.buckets.iter().flat_map(|b| b.bytes).filter(|&byte| byte != 0).count()
        }
        let (mut slab, mut index) = (Slab::new(8), Index::with_seeds(8, [3, 5]));
        let first = enter(&mut index, &mut slab, 0);
        assert_eq!((placed(&index), index.find(0, &slab)), (0, Some(first)), "key 0 is a key, too");
        let second = enter(&mut index, &mut slab, 7);
        assert_eq!((placed(&index), index.find(0, &slab)), (1, Some(first)));
        index.remove(second, &slab);
        slab.remove(second);
        assert_eq!((placed(&index), index.find(7, &slab)), (1, None), "it is gone");
        enter(&mut index, &mut slab, 9);
        assert_eq!(placed(&index), 1, "there was none to be placed");
        let found = index.look(9, &slab).expect("it is there");
        index.clear(found);
        assert_eq!((placed(&index), index.find(9, &slab)), (1, None));
        index.remove(first, &slab);
        assert_eq!((placed(&index), index.find(0, &slab)), (0, None), "from its bucket");
    }

    /// Keys that count upwards, as clients do, and keys from anywhere.
    fn many_keys(dense: bool) -> impl Iterator<Item = u64> {
        (1..6_000u64).map(move |n| if dense { n } else { fold_multiply(n, 0x9E37_79B9_7F4A_7C15) })
    }

    #[test]
    fn buckets_share_their_keys_as_these_grow_in_number() {
        for dense in [true, false] {
            let (mut slab, mut index) = (Slab::new(6_000), Index::with_seeds(6_000, [3, 5]));
            assert_eq!((index.used, index.buckets.len()), (FIRST, 2_048));
            let mut held = Vec::new();
            for (n, key) in many_keys(dense).enumerate() {
                let vacancy = index.look(key, &slab).expect_err("a new key");
                let slot = slab.take();
                slab[slot] = Order::new(
                    0,
                    1,
                    &NewOrder::limit(key, Side::Buy, Price(1), 1),
                    IdHash::default(),
                );
                index.put(vacancy, slot, &slab);
                held.push((key, slot));
                if n % 5 == 4 {
                    let (_, slot) = held.swap_remove(n / 2 % held.len());
                    index.remove(slot, &slab);
                    slab.remove(slot);
                }
                let wanted = (n / SHARE as usize).clamp(FIRST, 2_048);
                let room = index.used * SHARE as usize;
                assert!(index.used == 2_048 || held.len() <= room, "{n}: {}", index.used);
                assert!(index.used <= 2 * wanted, "{n}: {}", index.used);
                let (last, middle) = (held[held.len() - 1], held[held.len() / 2]);
                for (key, slot) in [last, middle, held[0]] {
                    assert_eq!(index.find(key, &slab), Some(slot), "after {n} keys");
                }
            }
            assert!(held.iter().all(|&(key, slot)| index.find(key, &slab) == Some(slot)));
            held.drain(..).for_each(|(_, slot)| index.remove(slot, &slab));
            assert!(index.buckets.iter().all(|b| b.passed == 0 && b.bytes == [0; WIDTH]));
        }
    }
}
