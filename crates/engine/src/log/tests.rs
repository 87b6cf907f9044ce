//! The log in memory, with a spill store, cut, packed and bounded.

use super::*;
use types::{CommandKind, MemorySpill};

fn draft(t_in: u64) -> Draft {
    Draft {
        t_in: Nanos(t_in),
        source: Source::default(),
        flags: 0,
        command: Command::new(CommandKind::Cancel),
    }
}

#[test]
fn positions_are_dense_and_time_never_runs_back() {
    let capacity = CHUNK + 3;
    let mut log = InputLog::new(capacity);
    for n in 0..capacity as u64 {
        let now = if n % 2 == 0 { 1_000 + n } else { 500 };
        let input = log.append(Nanos(now), draft(n)).expect("room");
        assert_eq!(input.seq, Seq(n + 1));
    }
    assert_eq!(log.append(Nanos(9_999), draft(0)), Err(LogFull { capacity }));
    assert_eq!((log.len(), log.room()), (capacity, Some(0)));
    assert!(log.iter().map(|input| input.t_seq).is_sorted());
    assert!(log.iter().enumerate().all(|(i, input)| input.t_in == Nanos(i as u64)));
    assert_eq!(log.get(Seq(CHUNK as u64 + 1)).map(|input| input.seq.0), Some(4_097));
    assert_eq!(log.get(Seq(0)), None);
    assert_eq!(log.get(Seq(capacity as u64 + 1)), None);
    assert_eq!(log.in_memory(), capacity, "without a spill store all of it");
    assert!(log.records().eq(log.iter().copied()));
}

const MANY: u64 = 3 * InputLog::MEMORY_MIN as u64 + 77;

fn spilled(spill: MemorySpill) -> InputLog {
    let mut log = InputLog::new(usize::MAX);
    assert!(log.spill_to(Box::new(spill), 0));
    log
}

#[test]
fn with_a_spill_memory_is_bounded_and_nothing_is_lost() {
    let mut log = spilled(MemorySpill::default());
    let most = InputLog::MEMORY_MIN + 2 * CHUNK;
    for n in 0..MANY {
        log.append(Nanos(n), draft(n)).expect("room");
        assert!(log.in_memory() <= most && log.chunks.len() <= most / CHUNK);
    }
    assert!(log.in_memory() >= InputLog::MEMORY_MIN && log.len() as u64 == MANY);
    let expected = || (0..MANY).map(Nanos);
    assert!(log.records().map(|input| input.t_in).eq(expected()));
    let last = Seq(MANY - 1);
    assert!(log.after(last).map(|input| input.seq).eq([Seq(MANY)]));
    assert!(log.get(Seq(1)).is_none() && log.get(last).is_some());
    log.finish().expect("room");
    let spilled = log.spilled.as_ref().expect("it is");
    assert_eq!(spilled.len as u64, MANY);
    let mut bytes = [0; RECORD];
    assert!(spilled.spill.get((MANY - 1) * RECORD as u64, &mut bytes));
    assert_eq!(Input::try_read_from_bytes(&bytes).expect("an input").seq, Seq(MANY));
    assert!(!log.spill_to(Box::new(MemorySpill::default()), 0), "it has begun");
}

#[test]
fn what_was_cut_off_is_written_anew() {
    for (keep, spill) in [(0, false), (BLOCK, true), (CHUNK, true), (CHUNK + 70, false)] {
        let mut log = InputLog::new(usize::MAX);
        assert!(!spill || log.spill_to(Box::new(MemorySpill::default()), 0));
        for n in 0..2 * CHUNK as u64 + 5 {
            log.append(Nanos(100 + n), draft(n)).expect("room");
        }
        assert!(log.cut(usize::MAX) && log.cut(keep));
        assert_eq!((log.len(), log.in_memory()), (keep, keep));
        for n in keep as u64..3 * CHUNK as u64 {
            // Time goes on from what was kept.
            let input = log.append(Nanos(100 + n), draft(7 * n)).expect("room");
            assert_eq!((input.seq, input.t_seq), (Seq(n + 1), Nanos(100 + n)));
        }
        let expected = |n: u64| if n < keep as u64 { n } else { 7 * n };
        let all = (0..3 * CHUNK as u64).map(|n| Nanos(expected(n)));
        assert!(log.iter().map(|input| input.t_in).eq(all));
        log.finish().expect("room");
        assert!(log.records().eq(log.iter().copied()));
    }
    let mut log = spilled(MemorySpill::default());
    (0..MANY).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
    assert!(!log.cut(3) && log.len() as u64 == MANY, "that has left memory");
}

#[test]
fn a_log_goes_on_behind_a_record_that_was_packed() {
    let mut log = InputLog::new(CHUNK * 2);
    (0..CHUNK as u64 + 9).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
    let packed = |log: &InputLog, at| {
        let mut bytes = Vec::new();
        log.pack(Seq(at), &mut Packer::new(&mut bytes)).then_some(bytes)
    };
    let last = CHUNK as u64 + 3;
    let bytes = packed(&log, last).expect("it is there");
    assert_eq!((packed(&log, 0), packed(&log, CHUNK as u64 + 10)), (None, None));
    let mut other = InputLog::new(CHUNK * 2);
    assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), Some(()));
    assert_eq!((other.len(), other.lacks(), other.in_memory()), (last as usize, CHUNK + 2, 1));
    assert!(other.cut(last as usize) && other.append(Nanos(1), draft(7)).is_ok());
    let input = other.get(Seq(last + 1)).expect("appended");
    assert_eq!((input.t_in, input.t_seq), (Nanos(7), Nanos(last - 1)), "time goes on");
    assert!(other.cut(last as usize), "as far as it was taken up");
    (last..2 * CHUNK as u64).for_each(|n| assert!(other.append(Nanos(n), draft(n)).is_ok()));
    assert!(other.after(Seq(last)).eq(log.after(Seq(last)).chain(other.after(Seq(last + 6)))));
    assert_eq!(other.append(Nanos(0), draft(0)), Err(LogFull { capacity: 2 * CHUNK }));
    // What is cut, is no input, or does not fit.
    assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), None, "it has begun");
    let unpack = |capacity, bytes: &[u8]| InputLog::new(capacity).unpack(&mut Unpacker::new(bytes));
    assert_eq!(unpack(CHUNK, &bytes), None);
    assert_eq!(unpack(CHUNK * 2, &bytes[1..]), None);
    assert_eq!(unpack(CHUNK * 2, &[0; RECORD]), None);
    assert_eq!(spilled(MemorySpill::default()).unpack(&mut Unpacker::new(&bytes)), None);
    assert_eq!(packed(&spilled(MemorySpill::default()), 1), None);
}

#[test]
fn a_log_that_was_taken_up_anywhere_has_all_that_comes_after() {
    for last in [1, 2, 63, 64, 65, CHUNK as u64 - 1, CHUNK as u64, CHUNK as u64 + 1] {
        let mut log = InputLog::new(CHUNK * 5);
        (0..last).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
        let mut bytes = Vec::new();
        assert!(log.pack(Seq(last), &mut Packer::new(&mut bytes)));
        let mut other = InputLog::new(CHUNK * 5);
        assert_eq!(other.unpack(&mut Unpacker::new(&bytes)), Some(()));
        (last..4 * CHUNK as u64).for_each(|n| {
            assert_eq!(other.append(Nanos(n), draft(n)), log.append(Nanos(n), draft(n)));
        });
        assert!(other.after(Seq(last - 1)).eq(log.after(Seq(last - 1))), "behind {last}");
        let cut = 3 * CHUNK + 100;
        assert!(other.cut(cut) && log.cut(cut));
        assert_eq!(other.get(Seq(cut as u64)), log.get(Seq(cut as u64)));
        assert!(other.append(Nanos(0), draft(0)).is_ok());
        assert_eq!((other.get(Seq(cut as u64 + 2)), other.len()), (None, cut + 1));
    }
}

#[test]
fn what_the_spill_does_not_take_is_not_logged() {
    let room = 10 * BLOCK;
    let mut log = spilled(MemorySpill::with_max(room * RECORD));
    let mut taken = 0;
    while log.has_room() {
        log.append(Nanos(taken), draft(taken)).expect("room");
        taken += 1;
    }
    // A block more than there is room for: it is found out when it is full.
    assert_eq!(taken as usize, room + BLOCK);
    // Who steers the market is heard for longer, and then not either.
    let others = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
    assert_eq!(others, InputLog::RESERVE);
    assert!(!log.has_room() && log.finish().is_err());
    assert_eq!(log.len(), room + BLOCK + InputLog::RESERVE);
}

/// A spill store that takes nothing while it is told to.
#[derive(Clone, Default)]
struct Sometimes(std::sync::Arc<std::sync::Mutex<(MemorySpill, bool)>>);

impl SpillStore for Sometimes {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        let mut held = self.0.lock().expect("whole");
        !held.1 && held.0.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.lock().expect("whole").0.get(at, into)
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        self.0.lock().expect("whole").0.free(at, len)
    }
}

#[test]
fn a_log_goes_on_when_its_spill_takes_something_again_and_lacks_nothing() {
    let spill = Sometimes::default();
    let mut log = InputLog::new(0);
    assert!(log.spill_to(Box::new(spill.clone()), 0));
    let mut appended = 0;
    for round in 0..40 {
        let fails = round % 2 == 1;
        spill.0.lock().expect("whole").1 = fails;
        for _ in 0..if fails { InputLog::RESERVE } else { 3 * CHUNK + 17 } {
            log.append(Nanos(appended), draft(appended)).expect("room in the reserve");
            appended += 1;
        }
        assert_eq!(log.has_room(), !fails, "round {round}");
        let most = InputLog::MEMORY_MIN + InputLog::RESERVE + 3 * CHUNK;
        assert!(log.in_memory() <= most, "{} in memory", log.in_memory());
    }
    spill.0.lock().expect("whole").1 = false;
    log.finish().expect("room");
    assert!(log.records().map(|input| input.t_in).eq((0..appended).map(Nanos)));
}

#[test]
fn the_oldest_part_of_a_spill_is_given_up_and_the_log_has_no_end() {
    let spill = Sometimes::default();
    let mut log = InputLog::new(0);
    assert!(log.spill_to(Box::new(spill.clone()), 0));
    let most = 20 * CHUNK;
    log.bound_spill(most);
    assert!(!log.give_up_before(Seq(2)), "that is not spilled");
    for n in 0..200 * CHUNK as u64 {
        if !log.has_room() {
            assert_eq!(log.in_spill_store(), (most, most), "at {n}");
            assert!(log.give_up_before(Seq(n - 15 * CHUNK as u64 + 1)), "at {n}");
            assert!(log.has_room() && log.lacks() > 0);
        }
        log.append(Nanos(n), draft(n)).expect("room");
    }
    let used = spill.0.lock().expect("whole").0.used();
    assert!(used <= (most * RECORD) as u64 + 8_192, "{used} bytes in the spill store");
    let first = log.lacks() as u64;
    assert_eq!(first, 180 * CHUNK as u64);
    assert!(log.records().map(|input| input.t_in).eq((first..log.len() as u64).map(Nanos)));
    assert!(!log.give_up_before(Seq(1)), "it went before");
    let (given_up, len) = (log.len() - 10, log.len());
    log.finish().expect("room");
    assert!(log.give_up_before(Seq(given_up as u64 + 1)) && log.in_memory() > 10);
    assert!(!log.cut(given_up - 1) && log.len() == len, "in memory yet, and given up");
    // Control: where nothing is given up, those who steer fill the reserve, and then it is
    // over.
    let mut log = spilled(MemorySpill::default());
    log.bound_spill(most);
    (0..most as u64).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
    assert!(!log.has_room());
    let others = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
    assert_eq!(others, InputLog::RESERVE);
}

#[test]
fn a_log_that_others_keep_holds_the_newest_alone() {
    let mut log = InputLog::new(0);
    log.keep_newest(0);
    for n in 0..MANY {
        assert!(log.has_room());
        log.append(Nanos(n), draft(n)).expect("room");
    }
    assert!(log.in_memory() <= InputLog::MEMORY_MIN + 2 * CHUNK, "{}", log.in_memory());
    let first = log.lacks() as u64;
    assert!(log.records().map(|input| input.t_in).eq((first..MANY).map(Nanos)));
    assert!(log.cut(MANY as usize - 70) && log.len() as u64 == MANY - 70);
    let mut bytes = Vec::new();
    assert!(log.pack(Seq(MANY - 71), &mut Packer::new(&mut bytes)));
    assert_eq!(log.room(), None);
}

#[test]
fn a_full_log_keeps_a_reserve_for_those_who_steer() {
    let mut log = InputLog::new(InputLog::RESERVE * 16);
    let mut taken = 0;
    while log.has_room() {
        log.append(Nanos(0), draft(0)).expect("room");
        taken += 1;
    }
    assert_eq!(taken, InputLog::RESERVE * 15);
    let others = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
    assert_eq!((others, log.room()), (InputLog::RESERVE, Some(0)));
}

#[test]
#[should_panic(expected = "only what was spilled leaves memory")]
fn control_a_record_that_is_nowhere_is_found() {
    let mut log = spilled(MemorySpill::default());
    (0..BLOCK as u64).for_each(|n| assert!(log.append(Nanos(n), draft(n)).is_ok()));
    log.gone = 1;
    log.assert_positions();
}

/// Takes ten blocks, and no more before it was waited for.
struct Busy {
    spill: MemorySpill,
    taken: u32,
    fails: bool,
}

impl SpillStore for Busy {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.taken += 1;
        self.taken <= 10 && self.spill.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.spill.get(at, into)
    }

    fn flush(&mut self) -> bool {
        self.taken = if self.fails { 100 } else { 0 };
        !self.fails
    }
}

#[test]
fn whoever_does_not_ask_for_room_waits_for_the_disk() {
    for fails in [false, true] {
        let mut log = InputLog::new(usize::MAX);
        let busy = Busy { spill: MemorySpill::default(), taken: 0, fails };
        assert!(log.spill_to(Box::new(busy), 0));
        let taken = (0..MANY).take_while(|n| log.append(Nanos(*n), draft(*n)).is_ok()).count();
        if fails {
            // Ten blocks, and what operators may have while the disk takes nothing.
            assert_eq!(taken, 11 * BLOCK + InputLog::RESERVE);
            continue;
        }
        assert_eq!(taken as u64, MANY);
        assert!(log.in_memory() <= InputLog::MEMORY_MIN + 2 * CHUNK + BLOCK + InputLog::RESERVE);
        assert!(log.records().map(|input| input.t_in).eq((0..MANY).map(Nanos)));
    }
}
