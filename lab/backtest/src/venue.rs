//! The engine with one gateway: requests in, what they caused out.

use std::collections::BTreeMap;

use engine::{Applied, Engine, Output};
use types::{
    AccountId, Command, CommandKind, ExecutionReport, GatewayId, Incarnation, Input, InstrumentId,
    MarketEvent, Nanos, Phase, Seq, ShardId, Source, UserRefNum,
};

use strategy::MarketTrade;

/// Account of the recorded market's resting orders.
pub(crate) const RECORDED: AccountId = AccountId(1);
/// Account of the orders that make the recorded trades happen.
pub(crate) const COMERS: AccountId = AccountId(2);
/// Account of the strategy's orders.
pub(crate) const STRATEGY: AccountId = AccountId(3);

const GATEWAY: GatewayId = GatewayId(1);

/// What the strategy hears of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// An event of the feed.
    Market(MarketEvent),
    /// A report of its own.
    Report(ExecutionReport),
    /// A trade of the record.
    Trade(MarketTrade),
}

/// What the data says of an instrument's state; by default it is open.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    stated_closed: bool,
    implied_call: bool,
}

/// The exchange, with the recorded market, the strategy and their gateway.
#[derive(Debug)]
pub(crate) struct Venue {
    pub engine: Engine,
    /// What the strategy is to hear, until somebody takes it.
    pub told: Vec<Told>,
    /// Reports of the recorded market's orders, likewise.
    pub recorded: Vec<ExecutionReport>,
    out: Output,
    seq: u64,
    requests: u64,
    incarnation: Incarnation,
    comers: u32,
    states: BTreeMap<InstrumentId, State>,
}

impl Venue {
    /// An exchange whose day begins at `now`, with continuous trading.
    pub fn new(config: engine::Config, now: Nanos) -> Venue {
        let mut venue = Venue {
            engine: Engine::new(config),
            told: Vec::new(),
            recorded: Vec::new(),
            out: Output::default(),
            seq: 0,
            requests: 0,
            incarnation: Incarnation(0),
            comers: 0,
            states: BTreeMap::new(),
        };
        let mut grant = Command::new(CommandKind::GrantIncarnation);
        grant.user_ref = UserRefNum(1);
        if let Applied::Granted(incarnation) = venue.apply(now, GATEWAY, 0, &grant) {
            venue.incarnation = incarnation;
        }
        venue.operate(now, &Command::new(CommandKind::StartOfDay));
        venue
    }

    fn apply(&mut self, now: Nanos, gateway: GatewayId, seq: u64, command: &Command) -> Applied {
        let incarnation = if gateway == GATEWAY { self.incarnation } else { Incarnation(0) };
        let source = Source { gateway, shard: ShardId(0), incarnation, seq };
        self.seq += 1;
        self.out.clear();
        let seq = Seq(self.seq);
        let input = Input { seq, t_in: now, t_seq: now, source, flags: 0, command: *command };
        let applied = self.engine.apply(&input, &mut self.out);
        // A trade is public before its parties hear of it (corner 16).
        self.told.extend(self.out.market.iter().map(|(_, event)| Told::Market(*event)));
        for report in &self.out.executions {
            match report.account {
                STRATEGY => self.told.push(Told::Report(*report)),
                RECORDED => self.recorded.push(*report),
                _ => {}
            }
        }
        applied
    }

    /// Applies a request of the strategy at `now`.
    pub fn request(&mut self, now: Nanos, command: &Command) -> Applied {
        self.requests += 1;
        self.apply(now, GATEWAY, self.requests, command)
    }

    /// A command of the exchange.
    pub fn operate(&mut self, now: Nanos, command: &Command) -> Applied {
        self.apply(now, GatewayId(0), 0, command)
    }

    /// The strategy's orders in an instrument end, as orders that live for a day do at its end.
    pub fn end_orders(&mut self, now: Nanos, instrument: InstrumentId) {
        let mut command = Command::new(CommandKind::MassCancel);
        (command.account, command.instrument) = (STRATEGY, instrument);
        self.operate(now, &command);
    }

    /// The next number of a comer's order.
    pub fn next_comer(&mut self) -> UserRefNum {
        self.comers += 1;
        UserRefNum(self.comers)
    }

    /// The data states that orders trade as they come from now on, or that they don't.
    pub fn trading(&mut self, now: Nanos, instrument: InstrumentId, open: bool) {
        self.states.entry(instrument).or_default().stated_closed = !open;
        self.enter(now, instrument);
    }

    /// The data implies that orders are collected from now on, or no longer.
    pub fn call(&mut self, now: Nanos, instrument: InstrumentId, begins: bool) {
        self.states.entry(instrument).or_default().implied_call = begins;
        self.enter(now, instrument);
    }

    /// Sets the phase that follows from what is stated and implied.
    fn enter(&mut self, now: Nanos, instrument: InstrumentId) {
        let state = self.states.get(&instrument).copied().unwrap_or_default();
        let open = !state.stated_closed && !state.implied_call;
        if self.is_trading(instrument) != open {
            let mut command = Command::new(CommandKind::SetPhase);
            command.instrument = instrument;
            command.param = if open { Phase::Continuous } else { Phase::PreOpen } as u8;
            self.operate(now, &command);
        }
    }

    /// Whether orders trade as they come.
    pub fn is_trading(&self, instrument: InstrumentId) -> bool {
        self.engine.phase(instrument) == Some(Phase::Continuous)
    }
}
