//! A trading day: what the timetable and operators say is logged, heard and replayed like orders.

use engine::Applied;
use exchange::{Timetable, audit, set_phase};
use types::{
    AccountId, Command, CommandKind, CrossKind, InstrumentId, Nanos, Phase, Side, UserRefNum,
};
use zerocopy::IntoBytes;

use crate::{
    bench::Exchange,
    common::{MS, START, config},
    orders::{frame_of, source},
};

const ONE: InstrumentId = InstrumentId(1);

fn at(ms: u64) -> Nanos {
    START.after(ms * MS)
}

/// A day with auctions, planned ahead; orders come in between.
fn day() -> Exchange {
    let mut config = config();
    let all = InstrumentId(0);
    config.timetable = Timetable::open_with_a_call()
        .at(at(400), set_phase(all, Phase::Continuous))
        .at(at(600), set_phase(ONE, Phase::Halt))
        .at(at(700), set_phase(ONE, Phase::VolatilityCall))
        .at(at(800), set_phase(ONE, Phase::Continuous))
        .at(at(900), set_phase(all, Phase::ClosingCall))
        .at(at(1_000), set_phase(all, Phase::Closed))
        .at(at(1_000), Command::new(CommandKind::EndOfDay))
        .every(50 * MS, Command::new(CommandKind::PublishIndicative));
    Exchange::new(&config, 2)
}

fn until(exchange: &mut Exchange, ms: u64) {
    let now = exchange.pair.now.now;
    exchange.run(at(ms).since(now));
}

#[test]
fn auctions_and_a_halt_by_the_clock() {
    let mut exchange = day();
    exchange.login(1);
    exchange.login(2);
    exchange.order(1, 1, Side::Sell, 100, 5);
    exchange.order(2, 1, Side::Buy, 102, 3);
    assert_eq!(exchange.answers(1), "A", "nothing trades in a call");
    until(&mut exchange, 450);
    assert_eq!((exchange.answers(1), exchange.answers(2)), ("AE".into(), "AE".into()));
    until(&mut exchange, 620);
    exchange.order(2, 2, Side::Buy, 101, 1);
    assert_eq!(exchange.answers(2), "AEJ", "halted");
    until(&mut exchange, 720);
    exchange.order(2, 3, Side::Buy, 101, 1);
    until(&mut exchange, 820);
    assert_eq!(exchange.answers(2), "AEJAE", "the call after the halt is uncrossed");
    until(&mut exchange, 1_100);
    let root = &exchange.pair.root;
    let kinds: Vec<CrossKind> = root.day().auctions().iter().map(|auction| auction.kind).collect();
    assert_eq!(kinds, [CrossKind::Opening, CrossKind::Resuming]);
    assert_eq!(root.day().auctions()[0].qty.0, 3);
    let [halt] = root.day().halts() else { panic!("one halt: {:?}", root.day().halts()) };
    assert_eq!((halt.instrument, halt.to.since(halt.from)), (ONE, 100 * MS));
    assert!(!root.engine().is_open());
    assert_eq!(exchange.answers(1), "AEEC", "a day order ends with its day");
    let published =
        root.log().iter().filter(|input| input.command.kind == CommandKind::PublishIndicative);
    let count = published.count();
    assert!((8..=14).contains(&count), "{count} indicative prices: in calls only");
    let listeners = exchange.world.ears.iter().map(|ear| ear.listener.channels());
    let audit = audit(root, listeners);
    assert!(audit.books_equal, "{audit:?}");
}

#[test]
fn an_operator_speaks_through_the_log() {
    let mut exchange = Exchange::new(&config(), 1);
    exchange.login(1);
    exchange.order(1, 1, Side::Sell, 100, 5);
    let kill = |param| Command { account: AccountId(1), param, ..Command::new(CommandKind::Kill) };
    let operator = |exchange: &mut Exchange, command| {
        let pair = &mut exchange.pair;
        let applied = pair.root.operator(pair.now, command, &mut pair.root_out);
        exchange.settle();
        exchange.run(10 * MS);
        applied
    };
    let logged = exchange.pair.root.log().len();
    assert_eq!(operator(&mut exchange, kill(1)), Some(Applied::Done));
    assert_eq!(exchange.answers(1), "AC");
    exchange.order(1, 2, Side::Sell, 100, 5);
    assert_eq!(exchange.answers(1), "ACJ");
    assert_eq!(operator(&mut exchange, kill(0)), Some(Applied::Done));
    exchange.order(1, 3, Side::Sell, 100, 5);
    assert_eq!(exchange.answers(1), "ACJA");
    assert_eq!(exchange.pair.root.log().len(), logged + 4);
    // Orders are the participants', incarnations the gateways'.
    for kind in [CommandKind::NewOrder, CommandKind::Cancel, CommandKind::GrantIncarnation] {
        assert_eq!(operator(&mut exchange, Command::new(kind)), None);
    }
    assert_eq!(exchange.pair.root.log().len(), logged + 4);
}

#[test]
fn a_gateway_may_cancel_for_its_account_and_no_more() {
    let mut exchange = Exchange::new(&config(), 1);
    exchange.login(1);
    exchange.order(1, 1, Side::Sell, 100, 5);
    let life = exchange.life();
    let logged = exchange.pair.root.log().len();
    let send = |exchange: &mut Exchange, seq, command: Command| {
        exchange.give_root(&frame_of(source(1, life, seq), command.as_bytes()));
        exchange.run(10 * MS);
        exchange.pair.root.log().len() - logged
    };
    let mass = Command::new(CommandKind::MassCancel);
    assert_eq!(send(&mut exchange, 2, mass), 0, "of everybody");
    for kind in [CommandKind::Kill, CommandKind::SetPhase, CommandKind::EndOfDay] {
        let command = Command { account: AccountId(1), ..Command::new(kind) };
        assert_eq!(send(&mut exchange, 2, command), 0, "{kind:?}");
    }
    assert_eq!(exchange.pair.root.counters().not_an_order, 4);
    let own = Command { account: AccountId(1), user_ref: UserRefNum(7), ..mass };
    assert_eq!(send(&mut exchange, 2, own), 1);
    assert_eq!(exchange.pair.root.engine().open_orders(), 0);
}
