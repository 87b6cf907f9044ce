//! An instrument that moves to another shard is traded there as if it had never moved.

use engine::{Applied, Config, Engine, InstrumentRules, Output};
use types::{
    ClOrdId, Command, CommandKind, ExecutionKind, ExecutionReport, Input, InstrumentId,
    MarketEvent, Nanos, OrderRef, Phase, Price, Qty, RejectReason, Seq, ShardId, Side, Source,
};

use crate::bench::{Bench, ONE, TWO, buy, cancel, config, sell};
use crate::flow::{Flow, config as flow_config};

/// Shard 1, which has none of the instruments at first.
fn other_shard(config: Config) -> Engine {
    let rules = (0..2).map(|slot| InstrumentRules { held: false, ..config.rules_of(slot) });
    let rules = rules.collect();
    Engine::new(Config { shard: ShardId(1), rules, ..config })
}

fn apply(engine: &mut Engine, now: Nanos, command: Command, out: &mut Output) -> Applied {
    let source = Source { shard: engine.config().shard, ..Source::default() };
    let input = Input { seq: Seq(0), t_in: now, t_seq: now, source, flags: 0, command };
    out.clear();
    engine.apply(&input, out)
}

fn about(kind: CommandKind, instrument: InstrumentId) -> Command {
    Command { instrument, ..Command::new(kind) }
}

/// Moves an instrument; gives the events of both shards.
fn carry(from: &mut Engine, to: &mut Engine, id: InstrumentId) -> [Vec<MarketEvent>; 2] {
    let (now, mut out) = (from.now(), Output::default());
    let events = |out: &Output| out.market.iter().map(|(_, event)| *event).collect();
    assert_eq!(apply(from, now, about(CommandKind::DetachInstrument, id), &mut out), Applied::Done);
    let left = events(&out);
    let (detached, bytes) = from.detached().expect("the instrument's bytes");
    assert_eq!(detached, id);
    let digest = to.stage(bytes.to_vec());
    let wrong = Command { qty: Qty(digest ^ 1), ..about(CommandKind::AttachInstrument, id) };
    assert_eq!(apply(to, now, wrong, &mut out), Applied::Refused);
    let attach = Command { qty: Qty(digest), ..about(CommandKind::AttachInstrument, id) };
    assert_eq!(apply(to, now, attach, &mut out), Applied::Done);
    assert_eq!(apply(to, now, attach, &mut out.clone()), Applied::Refused, "it is here already");
    [left, events(&out)]
}

#[test]
fn readers_of_both_feeds_see_it_go_and_come() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(Command { display_qty: 2, ..sell(2, 1, 8, 110) });
    bench.taken(Command { instrument: TWO, ..buy(1, 2, 5, 100) });
    bench.taken(buy(3, 1, 1, 110));
    let mut other = other_shard(config());
    let mut out = Output::default();
    let start = Command::new(CommandKind::StartOfDay);
    assert_eq!(apply(&mut other, Nanos(0), start, &mut out), Applied::Done);
    assert_eq!(apply(&mut other, Nanos(1), buy(1, 9, 5, 100), &mut out), Applied::Done);
    assert_eq!(out.executions[0].reject, RejectReason::UnknownInstrument);

    let [left, joined] = carry(&mut bench.engine, &mut other, ONE);
    let gone = |e: &&MarketEvent| matches!(e, MarketEvent::OrderDelete { .. });
    assert_eq!(left.iter().filter(gone).count(), 2);
    let come = |e: &&MarketEvent| matches!(e, MarketEvent::AddOrder { .. });
    assert_eq!(joined.iter().filter(come).count(), 2);
    assert_eq!(bench.refused(buy(1, 3, 5, 100)), RejectReason::UnknownInstrument);
    assert_eq!(bench.engine.open_orders(), 1);
    assert_eq!(other.phase(ONE), Some(Phase::Continuous));
    let account = |id| types::AccountId(id);
    assert_eq!(other.position(account(3), ONE).lots, 1, "positions go with it");
    let sums = |engine: &Engine| engine.standing(account(1)).map(|s| (s.open_orders, s.exposure));
    assert_eq!((sums(&bench.engine), sums(&other)), (Some((1, 500)), Some((1, 500))));
    // A request that was answered on the old shard is a duplicate on the new one.
    let again = apply(&mut other, Nanos(2_000), buy(3, 1, 1, 110), &mut out);
    assert_eq!(again, Applied::DuplicateRequest);
    // And the limits that span shards are allotted by command.
    let limit = |c: &mut Command| {
        c.account = account(1);
        (c.param, c.qty) = (types::LimitKind::OpenOrders as u8, Qty(1));
    };
    let mut command = Command::new(CommandKind::SetLimit);
    limit(&mut command);
    assert_eq!(apply(&mut other, Nanos(2_000), command, &mut out), Applied::Done);
    assert_eq!(apply(&mut other, Nanos(2_000), buy(1, 10, 5, 100), &mut out), Applied::Done);
    assert_eq!(out.executions[0].reject, RejectReason::OpenOrdersLimit);
    bench.taken(Command { instrument: TWO, ..buy(1, 11, 5, 100) });
}

/// What a report says but for numbers that are each shard's own.
fn plain(report: &ExecutionReport) -> ExecutionReport {
    let mut plain = *report;
    plain.order_ref = OrderRef(0);
    plain.match_number.0 = 0;
    plain.public_after.0 = 0;
    plain
}

fn displayed(engine: &Engine, id: InstrumentId) -> Vec<(Side, Price, u32)> {
    let orders = [Side::Buy, Side::Sell].into_iter();
    orders
        .flat_map(|side| engine.books().orders(id.0 - 1, side))
        .filter(|order| order.shown() > 0)
        .map(|order| (order.side(), order.price(), order.shown()))
        .collect()
}

#[test]
fn two_shards_and_a_move_answer_like_one_that_never_moved() {
    let mut accepted = 0;
    for seed in 5_000..5_060 {
        // Identifiers and room are looked after by each shard for itself.
        let room = book::Capacity { orders: 200, ..flow_config(seed).book };
        let config = Config { unique_cl_ord_id: false, book: room, ..flow_config(seed) };
        let mut one = Engine::new(config.clone());
        let mut two = [Engine::new(config.clone()), other_shard(config)];
        let mut flow = Flow::new(seed);
        let mut home = 0;
        for step in 0..300 {
            if step == 150 {
                let [first, second] = &mut two;
                carry(first, second, TWO);
                home = 1;
            }
            let input = flow.next_input(0);
            // Limits that span instruments are allotted: here there are none.
            if input.command.kind == CommandKind::SetLimit {
                continue;
            }
            end_orders(&mut one, &mut two, &input);
            let at = match instrument_of(&one, &input.command) {
                Some(TWO) => home..home + 1,
                Some(_) => 0..1,
                None => 0..2,
            };
            let to_one = at.len() == 1;
            let mut out = Output::default();
            one.apply(&input, &mut out);
            let mut both = Output::default();
            for shard in &mut two[at] {
                let source = Source { shard: shard.config().shard, ..input.source };
                shard.apply(&Input { source, ..input }, &mut both);
            }
            let plain = |out: &Output| -> Vec<ExecutionReport> {
                let told = out.executions.iter().filter(|report| to_one || is_event(report));
                let mut told: Vec<ExecutionReport> = told.map(plain).collect();
                // Shards tell of their instruments one after the other.
                told.sort_by_key(|report| report.instrument);
                told
            };
            assert_eq!(plain(&both), plain(&out), "seed {seed}, step {step}: {input:?}");
            for (id, shard) in [(ONE, &two[0]), (TWO, &two[home])] {
                let (ours, theirs) = (displayed(shard, id), displayed(&one, id));
                assert_eq!(ours, theirs, "seed {seed}, step {step}: {input:?}");
            }
        }
        accepted += one.counters().accepted;
    }
    assert!(accepted > 2_000, "{accepted} orders taken");
}

/// Orders whose time has come end with an input, wherever it is for: each shard is told of the time.
fn end_orders(one: &mut Engine, two: &mut [Engine], input: &Input) {
    if one.next_expiry() > input.t_seq {
        return;
    }
    let command = Command::new(CommandKind::ExpireOrders);
    let source = Source { shard: one.config().shard, ..Source::default() };
    let input = Input { source, command, ..*input };
    let (mut out, mut both) = (Output::default(), Output::default());
    one.apply(&input, &mut out);
    for shard in two {
        let source = Source { shard: shard.config().shard, ..source };
        shard.apply(&Input { source, ..input }, &mut both);
    }
    let plain = |out: &Output| out.executions.iter().map(plain).collect::<Vec<_>>();
    assert!(!out.executions.is_empty());
    assert_eq!(plain(&both), plain(&out), "{input:?}");
}

/// The instrument that a request of a participant is about; `None` for what all shards are told.
fn instrument_of(engine: &Engine, c: &Command) -> Option<InstrumentId> {
    let key = |user_ref: types::UserRefNum| u64::from(c.account.0) << 32 | u64::from(user_ref.0);
    let holds = |key| engine.books().book_of(key).map_or(ONE, |book| InstrumentId(book + 1));
    match c.kind {
        CommandKind::NewOrder => Some(c.instrument),
        CommandKind::Cancel => Some(holds(key(c.user_ref))),
        CommandKind::Replace => Some(holds(key(c.orig_user_ref))),
        _ => None,
    }
}

/// What happened to orders; how many each shard cancelled is its own answer.
fn is_event(report: &ExecutionReport) -> bool {
    !matches!(report.kind, ExecutionKind::CancelRejected | ExecutionKind::MassCanceled)
}

#[test]
fn bytes_that_do_not_fit_change_nothing() {
    let mut bench = Bench::new();
    bench.taken(buy(1, 1, 5, 100));
    bench.taken(sell(2, 1, 5, 110));
    let mut out = Output::default();
    apply(&mut bench.engine, Nanos(0), about(CommandKind::DetachInstrument, ONE), &mut out);
    let bytes = bench.engine.detached().expect("bytes").1.to_vec();
    let mut other = other_shard(config());
    for (at, step) in (0..bytes.len()).rev().step_by(97).zip(1u8..) {
        let mut wrong = bytes.clone();
        wrong[at] = wrong[at].wrapping_add(step);
        let digest = other.stage(wrong);
        let before = other.displayed_digest(ONE);
        let attach = Command { qty: Qty(digest), ..about(CommandKind::AttachInstrument, ONE) };
        let mut copy = other.clone();
        if apply(&mut copy, Nanos(0), attach, &mut out) == Applied::Refused {
            assert_eq!(copy.displayed_digest(ONE), before);
            assert_eq!(copy.phase(ONE), None);
        }
    }
    let short = other.stage(bytes[..bytes.len() - 1].to_vec());
    let attach = Command { qty: Qty(short), ..about(CommandKind::AttachInstrument, ONE) };
    assert_eq!(apply(&mut other, Nanos(0), attach, &mut out), Applied::Refused);
    let digest = other.stage(bytes);
    let elsewhere = Command { qty: Qty(digest), ..about(CommandKind::AttachInstrument, TWO) };
    assert_eq!(apply(&mut other, Nanos(0), elsewhere, &mut out), Applied::Refused);
}

/// Each shard looks after identifiers by itself, so an instrument may bring one that is open there already.
#[test]
fn an_identifier_that_two_open_orders_have_is_taken_until_both_have_ended() {
    let config = Config { unique_cl_ord_id: true, ..config() };
    let named = |command: Command| Command { cl_ord_id: ClOrdId(*b"one of two    "), ..command };
    let mut first = Bench::with(config.clone());
    first.taken(named(buy(1, 1, 5, 100)));
    let (mut other, mut out) = (other_shard(config.clone()), Output::default());
    apply(&mut other, Nanos(0), Command::new(CommandKind::StartOfDay), &mut out);
    carry(&mut first.engine, &mut other, TWO);
    let mut answer = |engine: &mut Engine, command: Command| {
        let now = engine.now();
        assert_eq!(apply(engine, now, command, &mut out), Applied::Done, "{command:?}");
        (out.executions[0].kind, out.executions[0].reject)
    };
    let taken = (ExecutionKind::Accepted, RejectReason::None);
    let in_two = |number| Command { instrument: TWO, ..named(buy(1, number, 5, 100)) };
    assert_eq!(answer(&mut other, in_two(2)), taken);
    carry(&mut first.engine, &mut other, ONE);
    assert_eq!(answer(&mut other, cancel(1, 2)).0, ExecutionKind::Canceled);
    let mut bytes = Vec::new();
    other.write_snapshot(&mut bytes);
    let other_config = other.config().clone();
    let mut restored = Engine::read_snapshot(other_config, &bytes).expect("a good snapshot");
    for engine in [&mut other, &mut restored] {
        let refused = (ExecutionKind::Rejected, RejectReason::DuplicateClOrdId);
        assert_eq!(answer(engine, in_two(3)), refused, "the one that came is open");
        assert_eq!(answer(engine, cancel(1, 1)).0, ExecutionKind::Canceled);
        assert_eq!(answer(engine, in_two(4)), taken);
    }
    assert_eq!(restored.state_digest(), other.state_digest());
}
