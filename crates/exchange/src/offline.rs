//! The sample in file order through the engine alone: no session, no network, no clock.

use engine::{
    Engine, Limits, Output,
    log::{Draft, InputLog, LogFull},
};
use participant::{Action, Comparison, FlowMessage, Sample, Trade};
use std::collections::BTreeMap;
use types::{
    AccountId, Command, CommandKind, ExecutionKind, InstrumentId, Liquidity, Nanos,
    ORDER_POST_ONLY, Price, Qty, RejectReason, Side, Source, UserRefNum,
};

/// What the offline replay gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offline {
    /// Against the venue's trades.
    pub comparison: Comparison,
    /// Orders resting at the end.
    pub resting: u64,
    /// Best bid at the end.
    pub best_bid: Option<Price>,
    /// Best ask at the end.
    pub best_ask: Option<Price>,
    /// Post-only orders refused because they would have traded.
    pub post_only_rejects: u64,
    /// Orders refused because their price does not fit.
    pub price_rejects: u64,
    /// Cancels that came too late.
    pub cancels_too_late: u64,
    /// Messages played.
    pub messages: u64,
}

/// Plays opening and live messages of `sample` through a fresh engine of `config`.
///
/// # Errors
/// [`LogFull`] when there are more messages than a log can number; practically never.
pub fn offline(config: engine::Config, sample: &Sample) -> Result<Offline, LogFull> {
    let messages = sample.opening.len() + sample.live.len();
    let mut log = InputLog::new(messages + 1);
    // Without limits: one account enters all of it, at no time at all.
    let mut engine = Engine::new(engine::Config { limits: Limits::NONE, ..config });
    let mut output = Output::default();
    let mut book = Clerk::default();
    let mut trades = Vec::new();
    let mut apply = |command, trades: &mut Vec<Trade>| -> Result<(), LogFull> {
        let draft = Draft { t_in: Nanos(0), source: Source::default(), flags: 0, command };
        output.clear();
        let _ = engine.apply(&log.append(Nanos(0), draft)?, &mut output);
        trades.extend(joined(&output));
        Ok(())
    };
    apply(Command::new(CommandKind::StartOfDay), &mut trades)?;
    for message in sample.opening.iter().chain(&sample.live) {
        if let Some(command) = book.command(message) {
            apply(command, &mut trades)?;
        }
    }
    let by_id = trades.iter().map(|trade| Trade {
        buy: book.ids.get(trade.buy as usize).copied().unwrap_or(0),
        sell: book.ids.get(trade.sell as usize).copied().unwrap_or(0),
        ..*trade
    });
    let instrument = sample.opening.first().map_or(InstrumentId(1), |first| first.instrument);
    let counters = engine.counters();
    Ok(Offline {
        comparison: sample.venue.compare(by_id),
        resting: engine.open_orders() as u64,
        best_bid: engine.best(instrument, Side::Buy).map(|level| level.price),
        best_ask: engine.best(instrument, Side::Sell).map(|level| level.price),
        post_only_rejects: counters.rejects(RejectReason::PostOnlyWouldTrade),
        price_rejects: counters.rejects(RejectReason::PriceTooHigh),
        cancels_too_late: counters.cancels_too_late,
        messages: messages as u64,
    })
}

/// Names orders for the engine: UserRefNums of one account count the orders of the file.
#[derive(Default)]
struct Clerk {
    /// Flow id of each UserRefNum.
    ids: Vec<u64>,
    user_refs: BTreeMap<u64, UserRefNum>,
}

impl Clerk {
    /// All orders go through account 1, whose numbers then name them; who asks does not matter
    /// for matching. `None` for what the sample never asks: replaces, and cancels of the unknown.
    fn command(&mut self, message: &FlowMessage) -> Option<Command> {
        if self.ids.is_empty() {
            self.ids.push(0);
        }
        let mut command = match message.action {
            Action::New { side, qty, price, order_type, post_only, time_in_force } => {
                let user_ref = UserRefNum(self.ids.len() as u32);
                self.ids.push(message.id);
                self.user_refs.insert(message.id, user_ref);
                let mut command = Command::new(CommandKind::NewOrder);
                (command.side, command.qty, command.price) = (side, qty, price);
                (command.order_type, command.time_in_force) = (order_type, time_in_force);
                command.flags = if post_only { ORDER_POST_ONLY } else { 0 };
                command.user_ref = user_ref;
                command
            }
            Action::Cancel => {
                let mut command = Command::new(CommandKind::Cancel);
                command.user_ref = *self.user_refs.get(&message.id)?;
                command
            }
            Action::Replace { .. } => return None,
        };
        command.account = AccountId(1);
        command.instrument = message.instrument;
        Some(command)
    }
}

/// The trades of one input, by UserRefNum: executions come in pairs, maker and taker.
fn joined(output: &Output) -> impl Iterator<Item = Trade> + '_ {
    let executed = |report: &&types::ExecutionReport| report.kind == ExecutionKind::Executed;
    let of = move |liquidity| {
        output.executions.iter().filter(executed).filter(move |r| r.liquidity == liquidity)
    };
    of(Liquidity::Added).zip(of(Liquidity::Removed)).map(|(maker, taker)| {
        let (buy, sell) = match maker.side {
            Side::Buy => (maker, taker),
            Side::Sell => (taker, maker),
        };
        Trade {
            buy: u64::from(buy.user_ref.0),
            sell: u64::from(sell.user_ref.0),
            price: maker.price,
            qty: Qty(maker.qty.0),
        }
    })
}
