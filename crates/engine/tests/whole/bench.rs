//! An engine with two instruments, driven command by command.

use engine::{Applied, Config, Engine, Output};
use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind, ExecutionReport, Input,
    Instrument, InstrumentId, MarketEvent, Nanos, Phase, Price, Qty, RejectReason, Seq, Side,
    Source, Symbol, TimeInForce, UserRefNum,
};

pub const ONE: InstrumentId = InstrumentId(1);
pub const TWO: InstrumentId = InstrumentId(2);

pub fn instruments() -> Vec<Instrument> {
    let instrument = |id, name| Instrument {
        id,
        symbol: Symbol::new(name).expect("a valid symbol"),
        tick: Price(5),
        price_max: Price(10_000),
        qty_max: Qty(1_000),
        lot_decimals: 0,
    };
    vec![instrument(ONE, "ONE"), instrument(TWO, "TWO")]
}

/// Small enough to be copied often.
pub fn config() -> Config {
    Config {
        accounts_max: 8,
        gateways_max: 4,
        book: book::Capacity { orders: 256, levels: 64, stops: 32, pegs: 32 },
        trades_kept: 64,
        ..Config::new(instruments())
    }
}

pub struct Bench {
    pub engine: Engine,
    pub out: Output,
    /// Time of the next input.
    pub now: u64,
    /// Everything applied so far.
    pub log: Vec<Input>,
}

impl Bench {
    /// Not yet opened.
    pub fn closed(config: Config) -> Bench {
        let out = Output::default();
        Bench { engine: Engine::new(config), out, now: 1_000, log: Vec::new() }
    }

    /// In continuous trading.
    pub fn new() -> Bench {
        Bench::with(config())
    }

    pub fn with(config: Config) -> Bench {
        let mut bench = Bench::closed(config);
        bench.operate(CommandKind::StartOfDay, |_| {});
        bench
    }

    pub fn send_from(&mut self, source: Source, command: Command) -> Applied {
        self.out.clear();
        let (seq, t) = (Seq(self.engine.applied() + 1), Nanos(self.now));
        let input = Input { seq, t_in: t, t_seq: t, source, flags: 0, command };
        self.log.push(input);
        self.engine.apply(&input, &mut self.out)
    }

    pub fn send(&mut self, command: Command) -> Applied {
        self.send_from(Source::default(), command)
    }

    pub fn operate(&mut self, kind: CommandKind, change: impl FnOnce(&mut Command)) -> Applied {
        let mut command = Command::new(kind);
        change(&mut command);
        self.send(command)
    }

    pub fn phase(&mut self, phase: Phase) {
        let done = self.operate(CommandKind::SetPhase, |c| c.param = phase as u8);
        assert_eq!(done, Applied::Done);
    }

    pub fn limit(&mut self, account: u16, kind: types::LimitKind, value: u64) {
        let done = self.operate(CommandKind::SetLimit, |c| {
            c.account = AccountId(account);
            c.param = kind as u8;
            c.qty = Qty(value);
        });
        assert_eq!(done, Applied::Done);
    }

    /// Sends an order that must be taken, and gives its first report.
    pub fn taken(&mut self, command: Command) -> ExecutionReport {
        assert_eq!(self.send(command), Applied::Done);
        let report = self.out.executions[0];
        let taken = matches!(report.kind, ExecutionKind::Accepted | ExecutionKind::Replaced);
        assert!(taken, "{report:?}");
        report
    }

    /// Sends a request that must be refused, and says why it was.
    pub fn refused(&mut self, command: Command) -> RejectReason {
        assert_eq!(self.send(command), Applied::Done);
        let [report] = self.out.executions[..] else { panic!("one answer: {:?}", self.out) };
        assert_eq!(self.out.market, []);
        report.reject
    }

    /// Kind, account, quantity and leaves of each report of the last command.
    pub fn reports(&self) -> Vec<(ExecutionKind, u16, u64, u64)> {
        let plain = |r: &ExecutionReport| (r.kind, r.account.0, r.qty.0, r.leaves.0);
        self.out.executions.iter().map(plain).collect()
    }

    pub fn events(&self) -> Vec<MarketEvent> {
        self.out.market.iter().map(|&(_, event)| event).collect()
    }

    /// Account and reason of each cancel of the last command.
    pub fn cancels(&self) -> Vec<(u16, u32, CancelReason)> {
        let canceled = |r: &&ExecutionReport| r.kind == ExecutionKind::Canceled;
        let cancels = self.out.executions.iter().filter(canceled);
        cancels.map(|r| (r.account.0, r.user_ref.0, r.cancel_reason)).collect()
    }

    pub fn position(&self, account: u16) -> i64 {
        self.engine.position(AccountId(account), ONE).lots
    }
}

/// A limit order for the day on the first instrument.
pub fn order(account: u16, user_ref: u32, side: Side, qty: u64, price: i64) -> Command {
    let mut command = Command::new(CommandKind::NewOrder);
    command.account = AccountId(account);
    command.user_ref = UserRefNum(user_ref);
    command.instrument = ONE;
    command.side = side;
    command.qty = Qty(qty);
    command.price = Price(price);
    command.time_in_force = TimeInForce::Day;
    command
}

pub fn buy(account: u16, user_ref: u32, qty: u64, price: i64) -> Command {
    order(account, user_ref, Side::Buy, qty, price)
}

pub fn sell(account: u16, user_ref: u32, qty: u64, price: i64) -> Command {
    order(account, user_ref, Side::Sell, qty, price)
}

pub fn cancel(account: u16, user_ref: u32) -> Command {
    Command { kind: CommandKind::Cancel, qty: Qty(0), ..order(account, user_ref, Side::Buy, 0, 0) }
}

pub fn replace(account: u16, orig: u32, user_ref: u32, qty: u64, price: i64) -> Command {
    Command {
        kind: CommandKind::Replace,
        orig_user_ref: UserRefNum(orig),
        instrument: InstrumentId(0),
        ..order(account, user_ref, Side::Buy, qty, price)
    }
}
