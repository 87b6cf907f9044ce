//! Room for what grows: at the bound of a spill store, on a full disk and with the oldest part
//! given up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Engine, log::InputLog};
use exchange::{ExchangeConfig, Past, Snapshots};
use types::{
    AccountId, Command, CommandKind, Input, InstrumentId, MemorySpill, Nanos, Node, Phase, Side,
    SpillStore,
};

use crate::bench::Exchange;
use crate::common::{MS, config};

/// A spill store that takes nothing while it is told to, as a full disk.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(MemorySpill, bool)>>);

impl Disk {
    fn fill(&self, full: bool) {
        self.0.lock().expect("whole").1 = full;
    }
}

impl SpillStore for Disk {
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

/// A spill store that gives nothing back while it is told to, as a disk that is busy.
struct Busy(Disk, Arc<AtomicBool>);

impl SpillStore for Busy {
    fn put(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.0.put(at, bytes)
    }

    fn get(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.get(at, into)
    }

    fn free(&mut self, at: u64, len: u64) -> bool {
        !self.1.load(Ordering::Relaxed) && self.0.free(at, len)
    }
}

/// What was put at which place.
type Puts = Vec<(u64, Vec<u8>)>;

/// Snapshots in memory, by the inputs that they stand for.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Puts>>);

impl Snapshots for Kept {
    fn keep(&mut self, applied: u64, snapshot: &[u8]) -> bool {
        self.0.lock().expect("whole").push((applied, snapshot.to_vec()));
        true
    }

    fn forget_before(&mut self, applied: u64) {
        self.0.lock().expect("whole").retain(|(of, _)| *of >= applied);
    }
}

fn endless() -> ExchangeConfig {
    ExchangeConfig { log_capacity: 0, ..config() }
}

/// An exchange whose root has not begun when it is given its spill stores.
fn with_spills(log: &Disk, streams: &Disk) -> Exchange {
    Exchange::prepared(&endless(), 1, |root| {
        assert!(root.spill_to((Box::new(log.clone()), 0), (Box::new(streams.clone()), 1_024)));
    })
}

fn operator(exchange: &mut Exchange, command: Command) -> bool {
    let pair = &mut exchange.pair;
    let applied = pair.root.operator(pair.now, command, &mut pair.root_out);
    exchange.settle();
    exchange.run(10 * MS);
    applied.is_some()
}

fn kill(account: u16) -> Command {
    Command { account: AccountId(account), param: 1, ..Command::new(CommandKind::Kill) }
}

fn phase(phase: Phase) -> Command {
    let instrument = InstrumentId(1);
    Command { instrument, param: phase as u8, ..Command::new(CommandKind::SetPhase) }
}

/// Sends orders until one has no answer; how many had one.
fn until_held_back(exchange: &mut Exchange, from: u32) -> u32 {
    (from..from + 1_000)
        .find(|n| {
            let before = exchange.answers(1).len();
            exchange.order(1, *n, Side::Buy, 40, 1);
            exchange.run(10 * MS);
            exchange.answers(1).len() == before
        })
        .expect("orders are held back")
}

#[test]
fn on_a_full_disk_orders_wait_operators_are_heard_and_all_goes_on_when_there_is_room() {
    let (log, streams) = (Disk::default(), Disk::default());
    let mut exchange = with_spills(&log, &streams);
    exchange.login(1);
    exchange.login(2);
    exchange.order(1, 1, Side::Buy, 50, 1);
    exchange.order(2, 1, Side::Sell, 60, 1);
    log.fill(true);
    let waits = until_held_back(&mut exchange, 2);
    let root = &exchange.pair.root;
    assert!(root.fill().held_back && root.counters().log_full == 0);
    assert!(root.next_timeout() > exchange.pair.now.now, "it does not spin");
    // Each of them is logged, applied and told to whom it concerns.
    let logged = exchange.pair.root.log().len();
    assert!(operator(&mut exchange, phase(Phase::Halt)));
    assert!(operator(&mut exchange, kill(2)));
    assert_eq!(exchange.answers(2), "AC");
    assert!(operator(&mut exchange, phase(Phase::Continuous)));
    assert_eq!(exchange.pair.root.log().len(), logged + 3);
    for n in waits + 1..waits + 50 {
        exchange.order(1, n, Side::Buy, 40, 1);
    }
    exchange.run(Nanos::SECOND);
    assert_eq!(exchange.pair.root.log().len(), logged + 3, "and none of the participants");
    log.fill(false);
    exchange.run(2 * Nanos::SECOND);
    assert!(!exchange.pair.root.fill().held_back);
    assert_eq!(exchange.answers(1).matches('A').count(), waits as usize + 49, "each once");
    assert!(operator(&mut exchange, Command::new(CommandKind::EndOfDay)));
    let ears = exchange.world.ears.iter().map(|ear| ear.listener.channels());
    let audit = exchange::audit(&exchange.pair.root, ears);
    assert!(audit.books_equal, "{audit:?}");
}

#[test]
fn at_the_bound_of_the_log_those_who_steer_have_a_reserve_and_no_more() {
    let (log, streams) = (Disk::default(), Disk::default());
    let mut exchange = Exchange::prepared(&endless(), 1, |root| {
        assert!(root.spill_to((Box::new(log), 0), (Box::new(streams), 1_024)));
        root.bound_spills(128, u64::MAX, None);
    });
    exchange.login(1);
    until_held_back(&mut exchange, 1);
    assert_eq!(exchange.pair.root.fill().log, (128 * 128, 128 * 128));
    let heard = (0..).take_while(|n| operator(&mut exchange, kill(1 + n % 3))).count();
    assert_eq!(heard, InputLog::RESERVE);
    assert_eq!(exchange.pair.root.counters().log_full, 1, "which fails the run");
}

#[test]
fn at_the_bound_of_private_streams_orders_wait_and_operators_are_heard() {
    let (log, streams) = (Disk::default(), Disk::default());
    let mut exchange = Exchange::prepared(&endless(), 1, |root| {
        assert!(root.spill_to((Box::new(log), 0), (Box::new(streams), 64)));
        root.bound_spills(usize::MAX, 0, None);
    });
    exchange.login(1);
    // The least that a store is bounded to: 64 chunks of 64.
    let mut asked = 0;
    while !exchange.pair.root.fill().held_back && asked < 10_000 {
        asked += 1;
        exchange.order(1, asked, Side::Buy, 40, 1);
        exchange.order(1, asked, Side::Buy, 40, 1);
    }
    exchange.run(Nanos::SECOND);
    let fill = exchange.pair.root.fill();
    assert!(fill.held_back && fill.streams.0 > 0, "{fill:?} after {asked}");
    assert!(operator(&mut exchange, kill(1)));
    assert!(exchange.answers(1).contains('C'));
}

#[test]
fn a_root_that_recycles_goes_on_and_what_is_left_of_its_log_is_audited() {
    let (log, streams, kept) = (Disk::default(), Disk::default(), Kept::default());
    let mut exchange = Exchange::prepared(&endless(), 1, |root| {
        assert!(root.spill_to((Box::new(log.clone()), 0), (Box::new(streams.clone()), 1_024)));
        root.bound_spills(1_024, 1 << 20, Some(Box::new(kept.clone())));
    });
    exchange.login(1);
    exchange.login(2);
    for n in 1..=3_000u32 {
        let (side, price) = if n % 2 == 0 { (Side::Buy, 50) } else { (Side::Sell, 49) };
        exchange.order(1 + n % 2, n.div_ceil(2), side, price, 1);
        assert!(!exchange.pair.root.fill().held_back, "order {n}");
    }
    exchange.run(Nanos::SECOND);
    let root = &exchange.pair.root;
    let (lacks, inputs) = (root.fill().given_up, root.log().len() as u64);
    assert!(lacks > 1_500 && inputs > 3_000, "{lacks} of {inputs} inputs were given up");
    let used = log.0.lock().expect("whole").0.used();
    assert!(used <= 1_024 * 128 + 8_192, "{used} bytes of the log");
    let (applied, bytes) = kept.0.lock().expect("whole").first().cloned().expect("a snapshot");
    assert!(applied >= lacks && kept.0.lock().expect("whole").len() <= 5);
    let engine = |bytes: &[u8]| Engine::read_snapshot(root.engine().config().clone(), bytes);
    let start = engine(&bytes).expect("whole");
    let behind = |input: &Input| input.seq.0 > applied;
    let inputs =
        || Box::new(root.log().records().filter(behind)) as Box<dyn Iterator<Item = Input>>;
    let past = Past { start: Some(start), inputs: &inputs };
    let ears = || exchange.world.ears.iter().map(|ear| ear.listener.channels());
    let audit = exchange::audit_with(root, &past, ears());
    assert!(audit.books_equal && audit.since == applied, "{audit:?}");
    // Controls: with another start, or an input less, it is not.
    let other = exchange::audit_with(root, &Past { start: None, inputs: &inputs }, ears());
    assert!(!other.books_equal);
    let less = || Box::new(inputs().skip(1)) as Box<dyn Iterator<Item = Input>>;
    let start = engine(&bytes).ok();
    assert!(!exchange::audit_with(root, &Past { start, inputs: &less }, ears()).books_equal);
}

#[test]
fn a_root_whose_disk_gave_nothing_back_for_a_while_recycles_when_it_does() {
    let (log, streams, kept) = (Disk::default(), Disk::default(), Kept::default());
    let busy = Arc::new(AtomicBool::new(true));
    let mut exchange = Exchange::prepared(&endless(), 1, |root| {
        let log = Busy(log, Arc::clone(&busy));
        assert!(root.spill_to((Box::new(log), 0), (Box::new(streams), 1_024)));
        root.bound_spills(1_024, 1 << 20, Some(Box::new(kept)));
    });
    exchange.login(1);
    let waits = (1..=3_000).find(|n| {
        exchange.order(1, *n, Side::Buy, 40, 1);
        exchange.pair.root.fill().held_back
    });
    let waits = waits.expect("nothing goes, so orders are held back");
    busy.store(false, Ordering::Relaxed);
    exchange.run(100 * MS);
    assert!(!exchange.pair.root.fill().held_back, "after {waits} orders");
    assert!(exchange.pair.root.fill().given_up > 0);
    assert_eq!(exchange.answers(1).matches('A').count(), waits as usize, "each once");
}
