//! The store against a naive one, spilled, bounded, packed and taken up.

use super::*;
use types::{MemorySpill, SplitMix64};

/// Appends at random, and reads all of it back in runs of random lengths.
fn compare(mut store: RecordStore, records: u64, seed: u64) -> RecordStore {
    let mut rng = SplitMix64::new(seed);
    let mut model = vec![Vec::new(); 3];
    for n in 0..records {
        let stream = rng.below(3) as usize;
        model[stream].push(n);
        let position = store.append(stream, &n.to_le_bytes());
        assert_eq!(position, Some(model[stream].len() as u64), "seed {seed}");
    }
    for (stream, records) in model.iter().enumerate() {
        assert_eq!(store.next(stream), records.len() as u64 + 1);
        let mut position = 1;
        while position < store.next(stream) {
            let run = store.fetch(stream, position, 1 + rng.below(100)).expect("no disk");
            assert!(!run.is_empty(), "seed {seed}");
            for bytes in run.chunks_exact(8) {
                let expected = records[position as usize - 1].to_le_bytes();
                assert_eq!(bytes, expected, "seed {seed}");
                position += 1;
            }
        }
    }
    store
}

#[test]
fn agrees_with_plain_vectors() {
    let mut store = compare(RecordStore::new(3, 8, 20_000), 20_000, 1);
    assert_eq!(store.append(0, &[0; 8]), None, "full");
}

#[test]
fn with_a_spill_memory_is_bounded_and_all_is_read_back() {
    let records = 100_000;
    let mut store = RecordStore::new(3, 8, u64::MAX);
    assert!(store.spill_to(Box::new(MemorySpill::default()), 1_000));
    let store = compare(store, records, 2);
    // 15 full chunks and one of each stream that fills.
    assert!(store.in_memory() <= 1_000 + 3 * CHUNK_RECORDS, "{}", store.in_memory());
    assert!(store.run(0, 1, 1).is_empty(), "it is in the spill store");
    let runs = store.streams.iter().map(|stream| stream.runs.len()).max();
    assert!(runs <= Some(3), "{runs:?}: of 128, 256 and 512 chunks");
    let without = compare(RecordStore::new(3, 8, u64::MAX), records, 2);
    assert!(without.in_memory() >= records, "without a spill store all of it is in memory");
}

#[test]
fn whoever_does_not_ask_for_room_waits_for_the_disk() {
    let mut store = RecordStore::new(1, 8, u64::MAX);
    let busy = Busy { spill: MemorySpill::default(), waits: 0 };
    assert!(store.spill_to(Box::new(busy), 64));
    for n in 0..1_000_000u64 {
        store.append(0, &n.to_le_bytes()).expect("room");
    }
    let most = (2 * WAITING_MAX as u64 + 3) * CHUNK_RECORDS;
    assert!(store.in_memory() <= most, "{}", store.in_memory());
    assert_eq!(store.fetch(0, 1, 1), Some(&0u64.to_le_bytes()[..]));
}

#[test]
fn what_the_spill_does_not_take_stays_in_memory() {
    let mut store = RecordStore::new(3, 8, u64::MAX);
    let runs = 3 * SEGMENT_CHUNKS;
    let room = runs * CHUNK_RECORDS as usize * 8;
    assert!(store.spill_to(Box::new(MemorySpill::with_max(room)), 1_000));
    let store = compare(store, 50_000, 3);
    assert!(store.in_memory() > 50_000 - (runs as u64 + 1) * CHUNK_RECORDS);
}

/// Takes ten chunks, and no more before it was waited for.
struct Busy {
    spill: MemorySpill,
    waits: u32,
}

impl SpillStore for Busy {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.waits += 1;
        self.waits <= 10 && self.spill.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.spill.get(at, into)
    }

    fn flush(&mut self) -> bool {
        self.waits = 0;
        true
    }
}

/// A spill store that two stores can have, one after the other.
#[derive(Clone, Default)]
struct Shared(std::sync::Arc<std::sync::Mutex<MemorySpill>>);

impl SpillStore for Shared {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.0.lock().expect("whole").put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.lock().expect("whole").get(at, into)
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        self.0.lock().expect("whole").free(at, len)
    }
}

fn on(spill: &Shared) -> RecordStore {
    let mut store = RecordStore::new(3, 8, 1 << 20);
    assert!(store.spill_to(Box::new(spill.clone()), 1_000));
    store
}

fn packed(store: &RecordStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(store.pack(&mut Packer::new(&mut bytes)));
    bytes
}

#[test]
fn what_was_packed_goes_on_as_if_nothing_had_been() {
    for (seed, before) in [(1, 0), (2, 63), (3, 64), (4, 5_000), (5, 30_000)] {
        let (spill, mut rng) = (Shared::default(), SplitMix64::new(seed));
        let mut first = on(&spill);
        let mut all = vec![Vec::new(); 3];
        let mut append = |store: &mut RecordStore, n: u64| {
            // The last stream is seldom used.
            let stream = (rng.below(9) / 4) as usize;
            all[stream].push(n);
            assert_eq!(store.append(stream, &n.to_le_bytes()), Some(all[stream].len() as u64));
        };
        (0..before).for_each(|n| append(&mut first, n));
        let bytes = packed(&first);
        let mut second = on(&spill);
        let mut from = Unpacker::new(&bytes);
        assert_eq!(second.unpack(&mut from).and_then(|()| from.end()), Some(()), "seed {seed}");
        assert_eq!(packed(&second), bytes);
        // What the first one does after that is done again by the second.
        (before..before + 9_000).for_each(|n| append(&mut second, n));
        for (stream, records) in all.iter().enumerate() {
            for (n, position) in records.iter().zip(1..) {
                assert_eq!(
                    second.fetch(stream, position, 1),
                    Some(&n.to_le_bytes()[..]),
                    "seed {seed}"
                );
            }
            assert_eq!(second.fetch(stream, records.len() as u64 + 1, 1), Some(&[][..]));
        }
    }
}

#[test]
fn what_no_store_packs_is_not_taken_up() {
    let spill = Shared::default();
    let mut store = on(&spill);
    (0..40_000u64).for_each(|n| {
        let stream = (n % 3) as usize;
        store.append(stream, &n.to_le_bytes()).expect("room");
    });
    let bytes = packed(&store);
    let taken = |bytes: &[u8]| {
        let mut from = Unpacker::new(bytes);
        on(&spill).unpack(&mut from).and_then(|()| from.end()).is_some()
    };
    assert!(taken(&bytes));
    for len in 0..bytes.len() {
        assert!(!taken(&bytes[..len]), "{len} bytes");
    }
    // Number of streams, places used, and of the first stream its length, its runs, and where.
    for (at, what) in [(0, "streams"), (8, "used"), (17, "length"), (24, "runs"), (32, "run")] {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x40;
        assert!(!taken(&wrong), "{what}");
    }
    let mut twice = bytes.clone();
    twice[32] = 128;
    assert!(!taken(&twice), "two streams on one run");
    let mut without = Vec::new();
    let plain = RecordStore::new(3, 8, 100);
    assert!(!plain.pack(&mut Packer::new(&mut without)), "nothing is spilled");
}

#[test]
fn every_chunk_has_a_place_of_its_own_however_long_its_stream() {
    let mut expected = (0, 0);
    for chunk in 0..100_000 {
        assert_eq!(place(chunk), expected, "{chunk}");
        expected.1 += 1;
        if expected.1 == run_len(expected.0) {
            expected = (expected.0 + 1, 0);
        }
    }
    assert!(place(u64::MAX / 200 / CHUNK_RECORDS).0 < 64);
    let runs: Vec<u64> = vec![0; RUNS_MAX];
    assert_eq!(offset(&runs, 1 << 57, 1), None);
}

#[test]
fn the_oldest_part_of_the_longest_stream_goes_first_and_others_keep_all() {
    let spill = Shared::default();
    let mut store = RecordStore::new(3, 8, u64::MAX);
    assert!(store.spill_to(Box::new(spill.clone()), 1_000));
    let most = 400 * RecordStore::chunk_len(8) as u64;
    store.bound_spill(most, true);
    let (records, mut seldom) = (400_000u64, 0);
    for n in 0..records {
        let stream = if n % 50 == 0 { 2 } else { (n % 2) as usize };
        seldom += u64::from(stream == 2);
        assert!(store.has_room() && store.append(stream, &n.to_le_bytes()).is_some());
        assert!(store.in_spill_store() <= most, "{} bytes", store.in_spill_store());
    }
    assert_eq!((store.first(2), store.next(2)), (1, seldom + 1), "the quiet one has it all");
    let first = store.first(0);
    assert!(first > 100_000 && store.fetch(0, first - 1, 1) == Some(&[]), "{first}");
    assert_eq!(store.fetch(0, first, 1).map(<[u8]>::len), Some(8));
    assert_eq!(store.fetch(2, 1, 1), Some(&0u64.to_le_bytes()[..]));
    let used = spill.0.lock().expect("whole").used();
    assert!(used <= most + 2 * 4_096 * 6, "{used} bytes used");
}

#[test]
fn of_many_short_streams_none_loses_its_newest_messages() {
    let (streams, each) = (100, 40 * CHUNK_RECORDS);
    let mut store = RecordStore::new(streams, 8, u64::MAX);
    assert!(store.spill_to(Box::new(MemorySpill::default()), 1_000));
    store.bound_spill(1_000 * RecordStore::chunk_len(8) as u64, true);
    for n in 0..each {
        for stream in 0..streams {
            assert!(store.has_room() && store.append(stream, &n.to_le_bytes()).is_some());
            // A subscriber that missed some of the last messages asks for them again.
            let missed = store.next(stream).saturating_sub(CHUNK_RECORDS).max(1);
            assert!(store.first(stream) <= missed, "{stream} at {n}: {}", store.first(stream));
        }
    }
    assert!((0..streams).all(|stream| store.first(stream) > 1), "a control: all gave some up");
}

/// A spill store that gives no room back.
struct Stubborn(MemorySpill);

impl SpillStore for Stubborn {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.0.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.get(at, into)
    }
}

/// A spill store that gives room back every so often only, as a disk that is busy.
struct Slow {
    spill: MemorySpill,
    asked: u32,
}

impl SpillStore for Slow {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.spill.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.spill.get(at, into)
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        self.asked += 1;
        self.asked.is_multiple_of(3) && self.spill.free(at, len)
    }
}

#[test]
fn room_that_a_spill_store_did_not_give_back_at_once_is_asked_for_again() {
    let mut store = RecordStore::new(1, 8, u64::MAX);
    let slow = Slow { spill: MemorySpill::default(), asked: 0 };
    assert!(store.spill_to(Box::new(slow), 64));
    let most = 400 * RecordStore::chunk_len(8) as u64;
    store.bound_spill(most, true);
    let mut held_back = 0;
    for n in 0..400_000u64 {
        while !store.has_room() {
            held_back += 1;
            assert!(held_back < 100_000, "for good, after {n} records");
        }
        assert!(store.append(0, &n.to_le_bytes()).is_some());
        let slack = 4 * RecordStore::chunk_len(8) as u64;
        assert!(store.in_spill_store() <= most + slack, "{} bytes", store.in_spill_store());
    }
    assert!(held_back > 10 && store.first(0) > 300_000, "{held_back}, {}", store.first(0));
}

#[test]
fn at_the_bound_of_a_spill_that_keeps_all_there_is_no_room_and_nothing_is_lost() {
    let mut store = RecordStore::new(1, 8, u64::MAX);
    assert!(store.spill_to(Box::new(MemorySpill::default()), 1_000));
    store.bound_spill(100 * RecordStore::chunk_len(8) as u64, false);
    let mut records = 0u64;
    while store.has_room() {
        assert_eq!(store.append(0, &records.to_le_bytes()), Some(records + 1));
        records += 1;
    }
    assert_eq!(records, 100 * CHUNK_RECORDS);
    // What follows from those who steer is kept all the same.
    (0..10_000).for_each(|n: u64| assert!(store.append(0, &n.to_le_bytes()).is_some()));
    assert_eq!(store.fetch(0, 1, 1), Some(&0u64.to_le_bytes()[..]));
    assert_eq!(store.first(0), 1);
    // A spill store that gives no room back is as one that was not asked to.
    let mut store = RecordStore::new(1, 8, u64::MAX);
    assert!(store.spill_to(Box::new(Stubborn(MemorySpill::default())), 64));
    store.bound_spill(100 * RecordStore::chunk_len(8) as u64, true);
    let full = (0..100_000u64).find(|n| {
        assert!(store.append(0, &n.to_le_bytes()).is_some());
        !store.has_room()
    });
    assert!(full.is_some_and(|full| full < 110 * CHUNK_RECORDS), "{full:?}");
}

#[test]
fn too_much_that_waits_for_the_spill_is_no_room() {
    let mut store = RecordStore::new(1, 8, u64::MAX);
    assert!(store.spill_to(Box::new(MemorySpill::with_max(0)), 64));
    let full = (0..1_000_000u64).find(|n| {
        assert!(store.append(0, &n.to_le_bytes()).is_some());
        !store.has_room()
    });
    let most = (WAITING_MAX as u64 + 2) * CHUNK_RECORDS;
    assert!(full.is_some_and(|full| full < most), "{full:?}");
}

#[test]
fn out_of_range_is_empty_and_refused() {
    let mut store = RecordStore::new(1, 4, 10);
    assert_eq!(store.append(1, &[0; 4]), None);
    assert_eq!(store.append(0, &[0; 3]), None);
    assert_eq!(store.append(0, &[1; 4]), Some(1));
    for (stream, position) in [(0, 0), (0, 2), (0, u64::MAX), (1, 1)] {
        assert!(store.run(stream, position, 9).is_empty());
        assert_eq!(store.fetch(stream, position, 9), Some(&[][..]));
    }
    assert_eq!(store.run(0, 1, 0), &[] as &[u8]);
    assert!(!store.spill_to(Box::new(MemorySpill::default()), 1), "it has begun");
}

/// Chunks of the bounded stores below.
const MOST: u64 = 200;

fn bounded(spill: Box<dyn SpillStore>) -> RecordStore {
    let mut store = RecordStore::new(3, 8, u64::MAX);
    assert!(store.spill_to(spill, 1_000));
    store.bound_spill(MOST * RecordStore::chunk_len(8) as u64, true);
    store
}

fn firsts(store: &RecordStore) -> [u64; 3] {
    [0, 1, 2].map(|stream| store.first(stream))
}

/// The stream and the bytes of record `n`.
fn record(n: u64) -> (usize, [u8; 8]) {
    let draw = SplitMix64::new(n).below(20);
    (if draw == 0 { 2 } else { (draw % 2) as usize }, n.to_le_bytes())
}

#[test]
fn what_is_given_up_follows_from_the_records_and_not_from_the_disk() {
    let mut quick = bounded(Box::new(MemorySpill::default()));
    let mut slow = bounded(Box::new(Slow { spill: MemorySpill::default(), asked: 0 }));
    let mut never = bounded(Box::new(Stubborn(MemorySpill::default())));
    let mut busy = bounded(Box::new(Busy { spill: MemorySpill::default(), waits: 0 }));
    for n in 0..60_000 {
        let (stream, bytes) = record(n);
        let all = [&mut quick, &mut slow, &mut never, &mut busy];
        let told = all.map(|store| (store.append(stream, &bytes), firsts(store)));
        assert!(told.iter().all(|one| *one == told[0]), "record {n}: {told:?}");
    }
    assert!(quick.first(0) > 10_000 && quick.first(1) > 10_000 && quick.first(2) == 1);
}

/// One life after another: each begins behind one of the two newest checkpoints, and appends what
/// follows. All records that were not given up can be read, and they are those of a store that lived
/// once. `delay`: room is given back behind checkpoints. Whether all could be read.
fn lives(seed: u64, delay: bool) -> bool {
    let (spill, mut rng) = (Shared::default(), SplitMix64::new(seed));
    let block = RecordStore::chunk_len(8);
    let checked = || Box::new(types::Checked::new(spill.clone(), block));
    let mut whole = bounded(Box::new(MemorySpill::default()));
    let (mut known, mut known_firsts) = (Vec::<(u64, Vec<u8>)>::new(), Vec::new());
    for _ in 0..12 {
        let mut store = bounded(checked());
        if delay {
            store.free_behind_checkpoints();
        }
        let mut next = 0;
        if !known.is_empty() {
            // Those behind it are of a life that never was.
            known.truncate(known.len() - rng.below(2).min(known.len() as u64 - 1) as usize);
            let (at, bytes) = &known[known.len() - 1];
            let mut from = Unpacker::new(bytes);
            assert_eq!(store.unpack(&mut from).and_then(|()| from.end()), Some(()), "seed {seed}");
            next = *at;
        }
        let end = next + 1_000 + rng.below(20_000);
        let every = 500 + rng.below(6_000);
        while next < end {
            let (stream, bytes) = record(next);
            assert!(store.append(stream, &bytes).is_some());
            next += 1;
            if next > known_firsts.len() as u64 {
                assert!(whole.append(stream, &bytes).is_some());
                known_firsts.push(firsts(&whole));
            }
            assert_eq!(firsts(&store), known_firsts[next as usize - 1], "seed {seed}, {next}");
            if next.is_multiple_of(every) {
                let all = (0..3).all(|stream| readable(&mut store, stream));
                if !all {
                    return false;
                }
                known.push((next, packed(&store)));
                store.written_down();
                known.drain(..known.len().saturating_sub(2));
            }
        }
        let most = (MOST + 2 * (every + 20_000) / CHUNK_RECORDS) * block as u64;
        assert!(store.in_spill_store() <= most, "seed {seed}: {}", store.in_spill_store());
    }
    assert!(known_firsts.last().is_some_and(|last| last[0] > 5_000), "seed {seed}: too little");
    true
}

/// Whether a stream's records are there, from the first that was not given up.
fn readable(store: &mut RecordStore, stream: usize) -> bool {
    let (first, next) = (store.first(stream), store.next(stream));
    let ends = [first, first + CHUNK_RECORDS, (first + next) / 2];
    ends.into_iter().filter(|at| (first..next).contains(at)).all(|at| {
        let run = store.fetch(stream, at, 1).expect("no disk");
        let number = run.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        number.is_some_and(|number| record(number).0 == stream)
    })
}

#[test]
fn lives_behind_checkpoints_give_up_the_same_and_find_all_that_they_lean_on() {
    (0..20).for_each(|seed| assert!(lives(seed, true), "seed {seed}"));
    // Control: room that is given back at once is missed by whoever begins behind an older one.
    assert!((0..20).any(|seed| !lives(seed, false)), "nothing was missed");
}

#[test]
fn room_that_was_given_up_is_given_back_once_the_one_before_the_last_checkpoint_knows() {
    let spill = Shared::default();
    let mut store = bounded(Box::new(spill.clone()));
    store.free_behind_checkpoints();
    let used = || spill.0.lock().expect("whole").used();
    let chunk = RecordStore::chunk_len(8) as u64;
    (0..40_000).for_each(|n| assert!(store.append(record(n).0, &record(n).1).is_some()));
    let full = used();
    assert!(full > 500 * chunk && firsts(&store)[0] > 1, "{full}");
    assert!(store.has_room(), "it waits for checkpoints and not for the disk");
    store.written_down();
    assert_eq!(used(), full);
    store.written_down();
    assert!(used() < (MOST + 2 * BATCH) * chunk, "{}", used());
}
