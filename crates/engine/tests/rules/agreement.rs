//! Engine and model, driven by the same inputs, say the same and hold the same after each.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use engine::{Applied, DisplayedBook, Engine, Output};
use types::{
    CancelReason, Command, CommandKind, ExecutionReport, InstrumentId, MarketEvent, RejectReason,
    Side, SystemEventCode,
};

use crate::flow::{Flow, config, instruments, room};
use crate::ledger::Ledger;
use crate::model::{Model, Outcome, Resting};

const SEEDS: u64 = 1_500;
const INPUTS: usize = 300;

/// How often each thing that matters happened, over all seeds.
#[derive(Default, Debug)]
struct Seen {
    trades: u64,
    duplicate_requests: u64,
    duplicate_transports: u64,
    stale: u64,
    too_late: u64,
    expired: u64,
    invalid_expiry: u64,
    by_reason: [u64; 11],
}

#[test]
fn engine_and_model_agree_on_every_event_and_book() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let run = AssertUnwindSafe(|| run(seed, &mut seen));
        if let Err(panic) = catch_unwind(run) {
            eprintln!("failing seed: {seed}");
            resume_unwind(panic);
        }
    }
    // A check that never met a case proves nothing about it.
    assert!(seen.trades > 10_000 && seen.duplicate_requests > 1_000, "{seen:?}");
    assert!(seen.duplicate_transports > 1_000 && seen.stale > 1_000, "{seen:?}");
    assert!(seen.too_late > 1_000 && seen.expired > 5_000, "{seen:?}");
    assert!(seen.invalid_expiry > 1_000, "{seen:?}");
    assert!(seen.by_reason[1..].iter().all(|&count| count > 300), "{seen:?}");
}

fn run(seed: u64, seen: &mut Seen) {
    let room = room(seed);
    let mut flow = Flow::new(seed);
    let mut engine = Engine::new(config(room));
    let mut model = Model::new(instruments(), room);
    let mut images = [DisplayedBook::default(), DisplayedBook::default()];
    let mut ledger = Ledger::default();
    let mut out = Output::default();
    for step in 0..INPUTS {
        let input = flow.next_input();
        out.clear();
        let applied = outcome(engine.apply(&input, &mut out));
        seen.stale += u64::from(applied == Outcome::Stale);
        let expected = model.apply(&input);
        assert_eq!(applied, expected, "step {step}: {input:?}");
        assert_eq!(out.executions, model.executions, "step {step}: {input:?}");
        assert_eq!(out.market, model.market, "step {step}: {input:?}");
        let ended = |report: &&ExecutionReport| report.cancel_reason == CancelReason::Expired;
        seen.expired += out.executions.iter().filter(ended).count() as u64;
        if applied == Outcome::Done {
            ledger.follow(&input.command, &out.executions);
        } else {
            let all = out.executions.iter().all(|report| ended(&report));
            assert!(all, "step {step}: output without an answer");
            ledger.follow(&Command::new(CommandKind::ExpireOrders), &out.executions);
        }
        for (_, event) in &out.market {
            if *event == (MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages }) {
                images = [DisplayedBook::default(), DisplayedBook::default()];
            }
            if let Some(slot) = slot(event) {
                images[slot].apply(event).expect("events fit the displayed book");
            }
        }
        compare_books(&engine, &model, &images, &ledger);
    }
    count(&engine, seen);
}

/// Which book an event changes.
fn slot(event: &MarketEvent) -> Option<usize> {
    match *event {
        MarketEvent::AddOrder { instrument, .. }
        | MarketEvent::OrderExecuted { instrument, .. }
        | MarketEvent::OrderCancel { instrument, .. }
        | MarketEvent::OrderDelete { instrument, .. }
        | MarketEvent::OrderReplace { instrument, .. } => Some(usize::from(instrument.0) - 1),
        _ => None,
    }
}

fn compare_books(engine: &Engine, model: &Model, images: &[DisplayedBook; 2], ledger: &Ledger) {
    engine.books().check().expect("the books keep their invariants");
    for (image, instrument) in images.iter().zip(instruments()) {
        for side in [Side::Buy, Side::Sell] {
            let expected = model.side(instrument.id, side);
            assert_eq!(
                held(engine.books(), instrument.id, side),
                expected.iter().map(plain).collect::<Vec<_>>()
            );
            let mut levels: Vec<(i64, u64, u32)> = Vec::new();
            for order in &expected {
                match levels.last_mut().filter(|level| level.0 == order.price.0) {
                    Some(level) => (level.1, level.2) = (level.1 + order.open, level.2 + 1),
                    None => levels.push((order.price.0, order.open, 1)),
                }
            }
            let depth = engine.depth(instrument.id, side);
            let depth: Vec<_> = depth.map(|d| (d.price.0, d.qty.0, d.orders)).collect();
            assert_eq!(depth, levels);
        }
        if !engine.is_between_days() {
            assert_eq!(engine.displayed_digest(instrument.id), image.digest());
        }
    }
    assert_eq!(engine.open_orders(), model.resting.len());
    assert_eq!(ledger.len(), model.resting.len());
    for order in &model.resting {
        let (account, user_ref) = (order.command.account, order.command.user_ref);
        assert_eq!(ledger.open(account, user_ref), order.open);
    }
}

type Plain = (u16, u64, i64, u64, u64, u16, u32, u8, u8, [u8; 14]);

fn held(books: &book::Books, instrument: InstrumentId, side: Side) -> Vec<Plain> {
    let plain = |order: &book::Order| {
        (
            instrument.0,
            order.order_ref().0,
            order.price().0,
            u64::from(order.open()),
            u64::from(order.traded()),
            (order.key() >> 32) as u16,
            order.key() as u32,
            order.time_in_force() as u8,
            order.flags(),
            order.cl_ord_id().0,
        )
    };
    books.orders(instrument.0 - 1, side).map(plain).collect()
}

fn plain(order: &Resting) -> Plain {
    let c = &order.command;
    (
        order.instrument.0,
        order.order_ref.0,
        order.price.0,
        order.open,
        order.traded,
        c.account.0,
        c.user_ref.0,
        c.time_in_force as u8,
        c.flags,
        c.cl_ord_id.0,
    )
}

fn outcome(applied: Applied) -> Outcome {
    match applied {
        Applied::Done => Outcome::Done,
        Applied::DuplicateTransport => Outcome::DuplicateTransport,
        Applied::DuplicateRequest => Outcome::DuplicateRequest,
        Applied::Granted(life) => Outcome::Granted(life.0),
        Applied::StaleIncarnation => Outcome::Stale,
        Applied::Refused => Outcome::Refused,
        Applied::TooFarAhead => panic!("the flow stays within the window"),
    }
}

fn count(engine: &Engine, seen: &mut Seen) {
    let counters = engine.counters();
    for instrument in instruments() {
        let counts = engine.instrument_counters(instrument.id).expect("counts per instrument");
        seen.trades += counts.trades;
    }
    seen.duplicate_requests += counters.duplicate_request;
    seen.duplicate_transports += counters.duplicate_transport;
    seen.too_late += counters.cancels_too_late;
    seen.invalid_expiry += counters.rejects(RejectReason::InvalidExpiry);
    let reasons = [
        RejectReason::None,
        RejectReason::UnknownInstrument,
        RejectReason::InvalidQuantity,
        RejectReason::InvalidPrice,
        RejectReason::PriceTooHigh,
        RejectReason::PostOnlyWouldTrade,
        RejectReason::UnknownOrder,
        RejectReason::MarketClosed,
        RejectReason::CapacityReached,
        RejectReason::NothingLeft,
        RejectReason::Unsupported,
    ];
    for reason in reasons {
        seen.by_reason[reason as usize] += counters.rejects(reason);
    }
}
