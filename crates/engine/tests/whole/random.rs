//! Long random flows of everything: after each input the feed's image is the engine's book, the
//! risk figures are those of the plain model, each request has one answer; and at the end reports,
//! feed and engine reconcile to the last lot.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use engine::statement::{Ledger, Tape, reconcile};
use engine::{Applied, DisplayedBook, Engine, Output};
use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind, ExecutionReport, Input,
    InstrumentId, MarketEvent, Nanos, RejectReason, Source, SystemEventCode, TimeInForce,
    UserRefNum,
};

use crate::flow::{ACCOUNTS, Flow, config};
use crate::risk_model::RiskModel;

const SEEDS: u64 = 400;
const INPUTS: usize = 300;

/// How often each thing that matters happened.
#[derive(Default, Debug)]
struct Seen {
    kinds: [u64; 12],
    cancels: [u64; 15],
    rejects: [u64; 28],
    crosses: u64,
    hidden: u64,
    broken: u64,
    paused: u64,
    imbalances: u64,
    collars: u64,
}

#[test]
fn everything_at_once_keeps_every_book_in_step() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let run = AssertUnwindSafe(|| run(seed, &mut seen));
        if let Err(panic) = catch_unwind(run) {
            eprintln!("failing seed: {seed}");
            resume_unwind(panic);
        }
    }
    // A check that never met a case proves nothing about it.
    let kinds = &seen.kinds[1..];
    assert!(kinds.iter().all(|&count| count > 20), "{seen:?}");
    let never = [CancelReason::None, CancelReason::Disconnect, CancelReason::Delisted];
    let never = never.map(|reason| reason as usize);
    let cancels = seen.cancels.iter().enumerate().filter(|(at, _)| !never.contains(at));
    assert!(cancels.map(|(_, count)| *count).all(|count| count >= 5), "{seen:?}");
    let never = [
        RejectReason::None,
        RejectReason::UnknownInstrument,
        RejectReason::InvalidQuantity,
        RejectReason::InvalidPrice,
        RejectReason::PriceTooHigh,
        RejectReason::InvalidStopPrice,
        RejectReason::DuplicateOrder,
        RejectReason::ShardAllotment,
    ]
    .map(|reason| reason as usize);
    let rejects = seen.rejects.iter().enumerate().filter(|(at, _)| !never.contains(at));
    assert!(rejects.map(|(_, count)| *count).all(|count| count > 5), "{seen:?}");
    let prints = [seen.crosses, seen.hidden, seen.broken, seen.paused, seen.imbalances];
    assert!(prints.into_iter().chain([seen.collars]).all(|count| count > 100), "{seen:?}");
}

fn run(seed: u64, seen: &mut Seen) {
    let mut flow = Flow::new(seed);
    let mut engine = Engine::new(config(seed));
    let mut model = RiskModel::default();
    let mut images = [DisplayedBook::default(), DisplayedBook::default()];
    let (mut ledger, mut tape) = (Ledger::default(), Tape::default());
    let mut out = Output::default();
    let mut next = None;
    for step in 0..INPUTS {
        let matches = engine.books().last_match_number().0;
        // What is due ends by a command of its own, so that what follows is the input's alone.
        let input = next.take().unwrap_or_else(|| flow.next_input(matches));
        let due = due(&engine, input.t_seq);
        let ends = !due.is_empty() && input.command.kind != CommandKind::ExpireOrders;
        let input = if ends { expiry_before(&input, &mut next) } else { input };
        let new_order = input.command.kind == CommandKind::NewOrder;
        let against = if new_order { model.against(&input, &engine) } else { Vec::new() };
        out.clear();
        let applied = engine.apply(&input, &mut out);
        assert_eq!(ended(&out), due, "step {step}: {input:?}");
        if applied != Applied::Done {
            assert_eq!(out, Output::default(), "step {step}: output of {applied:?}");
            continue;
        }
        model.follow(&input.command, &out.executions);
        check_answers(&input.command, &out.executions);
        if new_order {
            check_refusal(&out.executions[0], &against, step);
            let taken = out.executions[0].kind == ExecutionKind::Accepted;
            assert!(!taken || !model.is_killed(input.command.account), "step {step}: {input:?}");
        }
        for (_, event) in &out.market {
            note(event, seen);
            if *event == (MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages }) {
                images = [DisplayedBook::default(), DisplayedBook::default()];
            }
            for (image, id) in images.iter_mut().zip([1, 2]) {
                if instrument(event) == Some(InstrumentId(id)) {
                    image.apply(event).expect("events fit the displayed book");
                }
            }
        }
        out.executions.iter().for_each(|report| ledger.take(report));
        out.market.iter().for_each(|(_, event)| tape.take(event));
        note_reports(&out.executions, seen);
        for (image, id) in images.iter().zip([1, 2]) {
            let shown = engine.displayed_digest(InstrumentId(id));
            let told = shown == image.digest() || engine.is_between_days();
            assert!(told, "step {step}: {input:?} {out:?}");
        }
        for account in 1..=ACCOUNTS {
            let account = AccountId(account);
            let (ours, theirs) =
                (model.figures(account, &engine), RiskModel::engine_figures(account, &engine));
            assert_eq!(ours, theirs, "step {step}, account {account}: {input:?} {out:?}");
        }
    }
    assert_eq!(reconcile(&ledger, &tape, &engine), [], "to the last lot");
}

/// The orders that end by a time, the plain way: by book, end and reference.
fn due(engine: &Engine, now: Nanos) -> Vec<(AccountId, UserRefNum)> {
    let mut due: Vec<&book::Order> = (0..2).flat_map(|n| engine.books().all_orders(n)).collect();
    due.retain(|order| {
        order.time_in_force() == TimeInForce::GoodTillDate && order.expire_at() <= now
    });
    due.sort_by_key(|order| (order.book(), order.expire_at(), order.order_ref()));
    let named = |key: u64| (AccountId((key >> 32) as u16), UserRefNum(key as u32));
    due.iter().map(|order| named(order.key())).collect()
}

/// The orders that ended by their date, as they were told of.
fn ended(out: &Output) -> Vec<(AccountId, UserRefNum)> {
    let expired = |r: &&ExecutionReport| r.cancel_reason == CancelReason::Expired;
    out.executions.iter().filter(expired).map(|r| (r.account, r.user_ref)).collect()
}

/// A command that ends orders at the time of an input, which is the next one then.
fn expiry_before(input: &Input, next: &mut Option<Input>) -> Input {
    *next = Some(*input);
    let source = Source { shard: input.source.shard, ..Source::default() };
    Input { source, command: Command::new(CommandKind::ExpireOrders), ..*input }
}

/// An input ends what is due exactly as a command right before it does, and whatever it is itself.
#[test]
fn an_input_ends_orders_as_a_command_before_it_would() {
    let (mut ended_by, mut refused) = (0, 0);
    for seed in 60_000..60_200 {
        let mut flow = Flow::new(seed);
        let (mut alone, mut told) = (Engine::new(config(seed)), Engine::new(config(seed)));
        for step in 0..INPUTS {
            let input = flow.next_input(alone.books().last_match_number().0);
            let due = due(&alone, input.t_seq);
            let (mut ours, mut theirs) = (Output::default(), Output::default());
            let applied = alone.apply(&input, &mut ours);
            if !due.is_empty() {
                told.apply(&expiry_before(&input, &mut None), &mut theirs);
                ended_by += 1;
                refused += u64::from(applied != Applied::Done);
            }
            assert_eq!(told.apply(&input, &mut theirs), applied, "seed {seed}, step {step}");
            assert_eq!(ours, theirs, "seed {seed}, step {step}: {input:?}");
            assert_eq!(ended(&ours), due, "seed {seed}, step {step}: {input:?}");
            assert!(alone.next_expiry() > input.t_seq);
        }
    }
    assert!(ended_by > 500 && refused > 20, "{ended_by} inputs, {refused} of them refused");
}

/// One answer per request, first; then executions name where they are printed.
fn check_answers(command: &types::Command, reports: &[ExecutionReport]) {
    let answers = reports.iter().filter(|report| {
        let own = (report.account, report.user_ref) == (command.account, command.user_ref);
        own && match report.kind {
            ExecutionKind::Accepted
            | ExecutionKind::Rejected
            | ExecutionKind::Replaced
            | ExecutionKind::CancelRejected
            | ExecutionKind::MassCanceled => true,
            ExecutionKind::Canceled => report.cancel_reason == CancelReason::Requested,
            _ => false,
        }
    });
    let asked = command.user_ref.0 != 0
        && matches!(
            command.kind,
            CommandKind::NewOrder
                | CommandKind::Cancel
                | CommandKind::Replace
                | CommandKind::MassCancel
        );
    assert!(!asked || answers.count() == 1, "{command:?}: {reports:?}");
    for report in reports {
        let printed = report.kind == ExecutionKind::Executed;
        assert!(!printed || report.public_after.0 > 0, "never printed: {report:?}");
    }
}

/// A limit in the way refuses the order, and nothing else gives its reason.
fn check_refusal(answer: &ExecutionReport, against: &[RejectReason], step: usize) {
    use RejectReason::*;
    let limits = [
        OrderQuantityLimit,
        OrderNotionalLimit,
        OpenOrdersLimit,
        PositionLimit,
        CreditLimit,
        FatFinger,
    ];
    if limits.contains(&answer.reject) {
        assert!(against.contains(&answer.reject), "step {step}: {answer:?} but {against:?}");
    }
    if answer.kind == ExecutionKind::Accepted {
        assert_eq!(against, [], "step {step}: {answer:?}");
    }
}

fn note_reports(reports: &[ExecutionReport], seen: &mut Seen) {
    for report in reports {
        seen.kinds[report.kind as usize] += 1;
        seen.cancels[report.cancel_reason as usize] += 1;
        seen.rejects[report.reject as usize] += 1;
    }
}

fn note(event: &MarketEvent, seen: &mut Seen) {
    match event {
        MarketEvent::CrossTrade { .. } => seen.crosses += 1,
        MarketEvent::Trade { .. } => seen.hidden += 1,
        MarketEvent::BrokenTrade { .. } => seen.broken += 1,
        MarketEvent::TradingAction { state: types::TradingState::Paused, .. } => seen.paused += 1,
        MarketEvent::Imbalance { .. } => seen.imbalances += 1,
        MarketEvent::Collar { .. } => seen.collars += 1,
        _ => {}
    }
}

fn instrument(event: &MarketEvent) -> Option<InstrumentId> {
    match *event {
        MarketEvent::AddOrder { instrument, .. }
        | MarketEvent::OrderExecuted { instrument, .. }
        | MarketEvent::OrderExecutedWithPrice { instrument, .. }
        | MarketEvent::OrderCancel { instrument, .. }
        | MarketEvent::OrderDelete { instrument, .. }
        | MarketEvent::OrderReplace { instrument, .. } => Some(instrument),
        _ => None,
    }
}

/// The control of the checks above: one event or one deal less, and they would not hold.
#[test]
fn a_lost_event_or_deal_is_noticed() {
    let (mut flow, mut engine) = (Flow::new(3), Engine::new(config(3)));
    let (mut whole, mut partial) = (RiskModel::default(), RiskModel::default());
    let (mut image, mut poor) = (DisplayedBook::default(), DisplayedBook::default());
    let (mut lost, mut noticed) = (false, [0, 0]);
    for _ in 0..INPUTS {
        let mut out = Output::default();
        let input = flow.next_input(0);
        if engine.apply(&input, &mut out) != Applied::Done {
            continue;
        }
        whole.follow(&input.command, &out.executions);
        // The first execution of all is kept from this one.
        let executed = |r: &ExecutionReport| r.kind == ExecutionKind::Executed;
        let mut told = out.executions.clone();
        if let Some(at) = told.iter().position(executed).filter(|_| !lost) {
            told.remove(at);
            lost = true;
        }
        told.retain(|r| {
            !matches!(r.kind, ExecutionKind::TradeBroken | ExecutionKind::TradeCorrected)
        });
        partial.follow(&input.command, &told);
        for (_, event) in &out.market {
            if *event == (MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages }) {
                (image, poor) = (DisplayedBook::default(), DisplayedBook::default());
            }
            if instrument(event) == Some(InstrumentId(1)) {
                image.apply(event).expect("events fit the displayed book");
                let added = matches!(event, MarketEvent::AddOrder { .. });
                if !added || image.len() != 3 {
                    let _ = poor.apply(event);
                }
            }
        }
        noticed[0] += u64::from(image.digest() != poor.digest());
        for account in (1..=ACCOUNTS).map(AccountId) {
            let engine_says = RiskModel::engine_figures(account, &engine);
            assert_eq!(whole.figures(account, &engine), engine_says);
            noticed[1] += u64::from(partial.figures(account, &engine) != engine_says);
        }
    }
    assert!(noticed.iter().all(|&count| count > 0), "{noticed:?}");
}

/// A recorded result of every kind of input: when it changes, the rules have changed, and with them
/// `RULES_VERSION`.
#[test]
fn the_rules_are_those_of_the_recorded_digest() {
    let mut digest = types::Digest::default();
    for seed in 77_000..77_010 {
        let (mut flow, mut engine) = (Flow::new(seed), Engine::new(config(seed)));
        for _ in 0..INPUTS {
            let mut out = Output::default();
            let matches = engine.books().last_match_number().0;
            let applied = engine.apply(&flow.next_input(matches), &mut out);
            // The recorded digest is older than what moves.
            let (executions, market) = (&out.executions, &out.market);
            let text =
                format!("{applied:?} Output {{ executions: {executions:?}, market: {market:?} }}");
            text.bytes().for_each(|byte| digest.fold(u64::from(byte)));
        }
    }
    assert_eq!(
        (engine::RULES_VERSION, digest.0),
        (10, 0xc531_db29_3f4c_0c5c),
        "{:#018x}",
        digest.0
    );
}
