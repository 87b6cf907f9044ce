//! W1 and W2 through the whole engine, sixteen accounts, every check on: the published values, and
//! no allocation in all their commands.

use std::collections::HashMap;

use book::Capacity;
use book_model::tape::{Ids, TapeCommand, TapeKind, TradeSum, Workload};
use engine::{Config, Engine, Limits, Output};
use types::{
    AccountId, Command, CommandKind, ExecutionKind, Input, Instrument, InstrumentId, LimitKind,
    Liquidity, Nanos, Price, Qty, Seq, Source, Symbol, TimeInForce, UserRefNum,
};

use counting::allocations;

const ACCOUNTS: u64 = 16;
const ONE: InstrumentId = InstrumentId(1);

fn engine(workload: &Workload) -> Engine {
    let instrument = Instrument {
        id: ONE,
        symbol: Symbol::new("ONE").expect("a valid symbol"),
        tick: Price(1),
        price_max: Price(1 << 20),
        qty_max: Qty(1_000),
        lot_decimals: 0,
    };
    let mut limits = Limits::NONE;
    LimitKind::ALL.into_iter().for_each(|kind| limits.set(kind, u64::MAX / 2));
    let orders = (workload.target + workload.target / 8) as u32;
    let mut engine = Engine::new(Config {
        accounts_max: ACCOUNTS as usize,
        book: Capacity { orders, levels: 40_000, stops: 64, pegs: 64 },
        limits,
        ..Config::new(vec![instrument])
    });
    let start = Command::new(CommandKind::StartOfDay);
    engine.apply(&input(start, 0), &mut Output::default());
    engine
}

fn input(command: Command, at: u64) -> Input {
    let (seq, t, source) = (Seq(at), Nanos(at), Source::default());
    Input { seq, t_in: t, t_seq: t, source, flags: 0, command }
}

/// What is known of an order of the tape.
#[derive(Clone, Copy, Default)]
struct Known {
    user_ref: u32,
    open: u64,
    traded: u64,
    price: i64,
}

/// Says in the engine's words what the tape says in its own.
struct Clerk {
    known: Vec<Known>,
    user_refs: [u32; ACCOUNTS as usize],
    ids: HashMap<(AccountId, UserRefNum), u64>,
    sum: TradeSum,
}

impl Clerk {
    fn new(orders: usize) -> Clerk {
        let known = vec![Known::default(); orders + 1];
        Clerk { known, user_refs: [0; 16], ids: HashMap::new(), sum: TradeSum::default() }
    }

    fn named(&mut self, kind: CommandKind, record: &TapeCommand) -> Command {
        let account = record.id % ACCOUNTS;
        let mut command = Command::new(kind);
        (command.instrument, command.side) = (ONE, record.side);
        command.account = AccountId(account as u16 + 1);
        command.user_ref = UserRefNum(self.known[record.id as usize].user_ref);
        if kind != CommandKind::Cancel {
            let last = &mut self.user_refs[account as usize];
            *last += 1;
            command.orig_user_ref = command.user_ref;
            command.user_ref = UserRefNum(*last);
            command.time_in_force = TimeInForce::GoodTillCancelled;
            (command.price, command.qty) = (Price(record.price), Qty(record.qty.into()));
            self.ids.insert((command.account, command.user_ref), record.id);
        }
        command
    }

    /// One command, or two: a replace by the same price and no more lots would keep its place in
    /// the engine and must not on the tape.
    fn commands(&mut self, record: &TapeCommand) -> [Option<Command>; 2] {
        let known = self.known[record.id as usize];
        match record.kind {
            TapeKind::Cancel => [Some(self.named(CommandKind::Cancel, record)), None],
            TapeKind::New => [Some(self.named(CommandKind::NewOrder, record)), None],
            TapeKind::ImmediateOrCancel => {
                let mut command = self.named(CommandKind::NewOrder, record);
                command.time_in_force = TimeInForce::ImmediateOrCancel;
                [Some(command), None]
            }
            TapeKind::Replace
                if record.price == known.price && u64::from(record.qty) <= known.open =>
            {
                let cancel = self.named(CommandKind::Cancel, record);
                [Some(cancel), Some(self.named(CommandKind::NewOrder, record))]
            }
            TapeKind::Replace => {
                let mut command = self.named(CommandKind::Replace, record);
                command.qty.0 += known.traded;
                [Some(command), None]
            }
        }
    }

    fn follow(&mut self, out: &Output) {
        let mut maker = 0;
        for report in &out.executions {
            let id = self.ids[&(report.account, report.user_ref)];
            let known = &mut self.known[id as usize];
            known.open = report.leaves.0;
            match report.kind {
                ExecutionKind::Accepted => {
                    (known.user_ref, known.price) = (report.user_ref.0, report.price.0);
                    known.traded = 0;
                }
                ExecutionKind::Replaced => {
                    (known.user_ref, known.price) = (report.user_ref.0, report.price.0);
                }
                ExecutionKind::Executed => {
                    known.traded += report.qty.0;
                    if report.liquidity == Liquidity::Added {
                        maker = id;
                    } else {
                        self.sum.add(id, maker, report.price.0, report.qty.0 as u32);
                    }
                }
                ExecutionKind::Canceled => {}
                other => panic!("{other:?} does not come of the tape: {report:?}"),
            }
        }
    }
}

fn play(workload: &Workload) {
    let tape = workload.tape(Ids::Dense);
    let mut engine = engine(workload);
    let mut out = Output::with_capacity(10_000, 10_000);
    let mut clerk = Clerk::new(tape.checks.max_id as usize);
    let (mut allocated, mut at) = (0, 0);
    for (index, record) in tape.commands.iter().enumerate() {
        for command in clerk.commands(record).into_iter().flatten() {
            at += 1;
            out.clear();
            let before = allocations();
            engine.apply(&input(command, at), &mut out);
            if index >= tape.prefill {
                allocated += allocations() - before;
            }
            clerk.follow(&out);
        }
    }
    assert_eq!(clerk.sum, tape.checks.sum);
    assert_eq!(engine.open_orders(), tape.checks.resting);
    let lots = |side| engine.depth(ONE, side).map(|depth| depth.qty.0).sum::<u64>();
    assert_eq!(lots(types::Side::Buy) + lots(types::Side::Sell), tape.checks.resting_qty);
    assert_eq!(allocated, 0, "allocations after the prefill");
}

#[test]
fn w1_gives_its_values_and_allocates_nothing() {
    play(&Workload::W1);
}

#[test]
fn w2_gives_its_values_and_allocates_nothing() {
    play(&Workload::W2);
}
