//! The same orders for every transport, and the engine behind those that bring none.

use engine::log::{Draft, InputLog};
use engine::{Engine, Output};
use exchange::{ExchangeConfig, Timetable};
use types::{
    AccountId, Command, CommandKind, ExecutionKind, ExecutionReport, GatewayId, InstrumentId,
    Nanos, OrderType, Price, Qty, Side, Source, TimeInForce, UserRefNum,
};
use zerocopy::{IntoBytes, TryFromBytes};

use host::config::Config;
use host::deployment::exchange_config;
use host::failure::Failure;

/// Most requests of a slice.
pub const REQUESTS_MAX: u32 = 1_000_000;
/// Inputs of the log that are no requests.
const LOG_RESERVE: usize = 1_000;

/// The exchange that all transports lead to: one gateway, no tree, no window, in clear, trading from
/// the first moment on.
pub fn exchange(clock: &net::Clock, requests: u32) -> ExchangeConfig {
    let mut config = Config::default().unlimited();
    config.overlay.depth = 1;
    config.overlay.receivers = 1;
    config.overlay.hedge = 0;
    config.sequencer.enabled = false;
    // The options of the overlay stay as they are there: nothing sealed, no roll call.
    let mut exchange = exchange_config(&config, clock);
    exchange.log_capacity = requests as usize + LOG_RESERVE;
    exchange.timetable = Timetable::open_at_once();
    exchange
}

/// Request `number`, from 1: odd ones are orders that rest, even ones cancel the order before.
pub fn command(number: u32) -> Command {
    if number.is_multiple_of(2) {
        return of_account(CommandKind::Cancel, number - 1);
    }
    let mut command = of_account(CommandKind::NewOrder, number);
    command.side = if number % 4 == 1 { Side::Buy } else { Side::Sell };
    command.order_type = OrderType::Limit;
    command.time_in_force = TimeInForce::Day;
    let away = i64::from(1 + number % 50);
    let price = if command.side == Side::Buy { 10_000 - away } else { 10_000 + away };
    command.price = Price::from_whole(price);
    command.qty = Qty(1);
    command
}

fn of_account(kind: CommandKind, user_ref: u32) -> Command {
    let mut command = Command::new(kind);
    command.account = AccountId(1);
    command.user_ref = UserRefNum(user_ref);
    command.instrument = InstrumentId(1);
    command
}

/// The request that a report grants; none for a report that grants nothing.
pub fn answered(report: &[u8]) -> Option<u32> {
    let report = ExecutionReport::try_read_from_bytes(report).ok()?;
    match report.kind {
        ExecutionKind::Accepted => Some(report.user_ref.0),
        ExecutionKind::Canceled => report.user_ref.0.checked_add(1),
        _ => None,
    }
}

/// An engine with its log, one request at a time.
pub struct Host {
    engine: Engine,
    log: InputLog,
    output: Output,
    answer: Vec<u8>,
    seq: u64,
}

impl Host {
    /// An engine whose day has begun.
    ///
    /// # Errors
    /// A configuration that the engine does not take.
    pub fn new(config: &ExchangeConfig) -> Result<Host, Failure> {
        let engine_config = config.engine();
        engine_config.check().map_err(|error| Failure::Run(error.to_string()))?;
        let mut host = Host {
            engine: Engine::new(engine_config),
            log: InputLog::new(config.log_capacity),
            output: Output::with_capacity(256, 256),
            answer: Vec::new(),
            seq: 0,
        };
        let mut grant = Command::new(CommandKind::GrantIncarnation);
        grant.user_ref.0 = 1;
        host.enter(Nanos(1), Source { gateway: GatewayId(1), ..Source::default() }, grant);
        host.enter(Nanos(1), Source::default(), Command::new(CommandKind::StartOfDay));
        Ok(host)
    }

    fn enter(&mut self, now: Nanos, source: Source, command: Command) {
        self.output.clear();
        if let Ok(input) = self.log.append(now, Draft { t_in: now, source, flags: 0, command }) {
            self.engine.apply(&input, &mut self.output);
        }
    }

    /// The report that answers a request; empty for bytes that are none.
    pub fn handle(&mut self, now: Nanos, request: &[u8]) -> &[u8] {
        self.answer.clear();
        let Ok(command) = Command::try_read_from_bytes(request) else { return &self.answer };
        self.seq += 1;
        let (incarnation, _) = self.engine.received(GatewayId(1));
        let source =
            Source { gateway: GatewayId(1), incarnation, seq: self.seq, ..Source::default() };
        self.enter(now, source, command);
        if let Some(report) = self.output.executions.first() {
            self.answer.extend_from_slice(report.as_bytes());
        }
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_its_answer() {
        let clock = net::Clock::start(0);
        let mut host = Host::new(&exchange(&clock, 1_000)).unwrap();
        for number in 1..=1_000 {
            let answer = host.handle(Nanos(u64::from(number)), command(number).as_bytes()).to_vec();
            assert_eq!(answered(&answer), Some(number));
        }
        // What was cancelled cannot be cancelled again.
        let again = host.handle(Nanos(2_000), command(2).as_bytes()).to_vec();
        assert_eq!(answered(&again), None);
        assert!(host.handle(Nanos(2_000), b"no command").is_empty());
    }
}
