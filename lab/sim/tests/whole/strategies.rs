//! Programs of participants in the simulated exchange.

use sim::strategies::{Options, instruments, run_seed};
use strategy::{Cage, Limits, Module, Programmed, Strategy, heard};

const MAKER: &[u8] = include_bytes!("../../../../crates/strategy/tests/guests/maker.wasm");
const TAKER: &[u8] = include_bytes!("../../../../crates/strategy/tests/guests/taker.wasm");
const MISBEHAVE: &[u8] = include_bytes!("../../../../crates/strategy/tests/guests/misbehave.wasm");

fn caged(bytes: &[u8], settings: &str) -> Programmed<Cage> {
    let limits = Limits::default();
    let module = Module::new("it", bytes, &limits).expect("a module");
    let cage = Cage::new(&module, settings, &limits).expect("it starts");
    Programmed::start(cage, (&instruments(), 4), (limits.actions, limits.unanswered))
}

fn again(bytes: &[u8], heard: &[u8], settings: &str) -> heard::Replayed {
    let start =
        |_: &[types::Instrument], _| Ok(Box::new(caged(bytes, settings)) as Box<dyn Strategy>);
    heard::replay(heard, start).expect("a record")
}

#[test]
fn a_module_trades_by_what_was_released_alone_and_a_replay_agrees() {
    for (seed, module, settings) in
        [(7, MAKER, "lots=300 most=3000"), (8, TAKER, "lots=100 most=1000 threshold=700")]
    {
        let report = run_seed(seed, &Options::default(), Box::new(caged(module, settings)));
        let status = &report.status;
        assert!(report.failures.is_empty(), "seed {seed}: {:?}, {status:?}", report.failures);
        assert_eq!((status.messages, status.failure.as_deref()), (report.messages, None));
        assert!(report.releases > 500 && report.repairs > 0, "seed {seed}: {report:?}");
        assert!(status.orders > 10 && status.reports > 10, "seed {seed}: {status:?}");
        let replayed = again(module, &report.heard, settings);
        assert!(replayed.is_equal(), "seed {seed}: {replayed:?}");
        assert_eq!(replayed.orders + replayed.cancels, status.orders + status.cancels);
        // The same seed gives the same record, another one does not.
        let same = run_seed(seed, &Options::default(), Box::new(caged(module, settings)));
        assert_eq!(same.heard, report.heard, "seed {seed}");
        let other = run_seed(seed + 10, &Options::default(), Box::new(caged(module, settings)));
        assert_ne!(other.heard, report.heard, "seed {seed}");
    }
}

#[test]
fn a_release_before_the_deadline_is_found() {
    let options = Options { ahead_ns: 300_000, orders: 300, ..Options::default() };
    let report = run_seed(7, &options, Box::new(caged(MAKER, "lots=300 most=3000")));
    assert!(report.failures.iter().any(|why| why.contains("early")), "{:?}", report.failures);
}

#[test]
fn one_that_is_stopped_leaves_no_order_behind() {
    let options = Options { orders: 300, ..Options::default() };
    for settings in ["loop at=50", "flood at=50"] {
        let report = run_seed(9, &options, Box::new(caged(MISBEHAVE, settings)));
        let status = &report.status;
        assert!(report.failures.is_empty(), "{settings}: {:?}, {status:?}", report.failures);
        assert!(status.failure.is_some() && status.messages == report.messages, "{status:?}");
        assert_eq!((status.open, status.unanswered), (0, 0), "{settings}: {status:?}");
        assert_eq!(status.orders > 0, settings.starts_with("flood"), "{status:?}");
        assert_eq!(status.orders, status.cancels);
    }
}
