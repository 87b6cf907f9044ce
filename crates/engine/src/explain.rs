//! The whole story of one order, told from the log: when its requests came and were sequenced, each
//! report its account got, and each message of the feed that was about it, under whatever number
//! and public reference it went.
//!
//! The log is replayed twice: first for the numbers the order had through its replaces, then for
//! the story. Linear in the log; not for the hot path.

use std::collections::BTreeSet;

use types::{
    AccountId, ExecutionKind, ExecutionReport, FeedSeq, Input, MarketEvent, MatchNumber, OrderRef,
    UserRefNum,
};

use crate::apply::{Applied, Engine};
use crate::config::Config;
use crate::output::{Output, key_of};
use crate::replay::replay;

/// Which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// By a number it had.
    Request(AccountId, UserRefNum),
    /// By a public reference that it had.
    Reference(OrderRef),
}

/// One line of the story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainedEvent {
    /// An input that was about the order, or changed it: with its times and place in the log.
    Input {
        /// The record.
        input: Input,
        /// What became of it.
        applied: Applied,
    },
    /// What the account was told.
    Report(ExecutionReport),
    /// What the public was told.
    Tick {
        /// Its position in the feed.
        position: FeedSeq,
        /// What was published.
        event: MarketEvent,
    },
}

/// Tells the story of an order from the inputs of a log (the iterator is used twice). Empty when
/// the log does not know it. An order number that came again on a later day tells of all days.
///
/// # Panics
/// As [`Engine::new`] when the configuration makes no engine.
pub fn explain<'a, I>(config: &Config, inputs: I, which: Which) -> Vec<ExplainedEvent>
where
    I: IntoIterator<Item = &'a Input> + Clone,
{
    let keys = numbers_of(config, inputs.clone(), which);
    let mut explainer = Explainer { keys, refs: BTreeSet::new(), lines: Vec::new() };
    if explainer.keys.is_empty() {
        return explainer.lines;
    }
    replay(config.clone(), inputs, |engine, input, applied, out| {
        explainer.follow(engine, input, applied, out);
    });
    explainer.lines
}

/// All keys that the order had.
fn numbers_of<'a>(
    config: &Config,
    inputs: impl IntoIterator<Item = &'a Input>,
    which: Which,
) -> BTreeSet<u64> {
    let mut keys = BTreeSet::new();
    if let Which::Request(account, user_ref) = which {
        keys.insert(key_of(account, user_ref));
    }
    let mut replaces: Vec<(u64, u64)> = Vec::new();
    replay(config.clone(), inputs, |_, _, _, out| {
        for report in &out.executions {
            let key = key_of(report.account, report.user_ref);
            if which == Which::Reference(report.order_ref) && report.order_ref.0 != 0 {
                keys.insert(key);
            }
            if report.kind == ExecutionKind::Replaced {
                replaces.push((key_of(report.account, report.orig_user_ref), key));
            }
        }
    });
    // Back to the first number, then forward to the last.
    for &(old, new) in replaces.iter().rev() {
        if keys.contains(&new) {
            keys.insert(old);
        }
    }
    for &(old, new) in &replaces {
        if keys.contains(&old) {
            keys.insert(new);
        }
    }
    keys
}

struct Explainer {
    keys: BTreeSet<u64>,
    refs: BTreeSet<OrderRef>,
    lines: Vec<ExplainedEvent>,
}

impl Explainer {
    fn follow(&mut self, engine: &Engine, input: &Input, applied: Applied, out: &Output) {
        let about = |report: &&ExecutionReport| {
            self.keys.contains(&key_of(report.account, report.user_ref))
        };
        let reports: Vec<ExecutionReport> = out.executions.iter().filter(about).copied().collect();
        let told = reports.iter().map(|report| report.order_ref);
        self.refs.extend(told.filter(|order_ref| order_ref.0 != 0));
        // An iceberg may have been replenished after its last report.
        let open = self.keys.iter().filter_map(|&key| engine.books().get(key));
        self.refs.extend(open.map(book::Order::order_ref));
        let matches: BTreeSet<MatchNumber> =
            reports.iter().map(|report| report.match_number).filter(|n| n.0 != 0).collect();
        let prints: BTreeSet<FeedSeq> = reports.iter().map(|report| report.public_after).collect();
        let ticks: Vec<(FeedSeq, MarketEvent)> = out
            .market
            .iter()
            .filter(|(at, event)| {
                prints.contains(at) || names(event, &self.refs) || prints_one(event, &matches)
            })
            .copied()
            .collect();
        let c = &input.command;
        let asked = [c.user_ref, c.orig_user_ref]
            .iter()
            .any(|&user_ref| user_ref.0 != 0 && self.keys.contains(&key_of(c.account, user_ref)));
        if !asked && reports.is_empty() && ticks.is_empty() {
            return;
        }
        self.lines.push(ExplainedEvent::Input { input: *input, applied });
        self.lines.extend(reports.into_iter().map(ExplainedEvent::Report));
        let ticks =
            ticks.into_iter().map(|(position, event)| ExplainedEvent::Tick { position, event });
        self.lines.extend(ticks);
    }
}

/// Whether an event names one of the references.
fn names(event: &MarketEvent, refs: &BTreeSet<OrderRef>) -> bool {
    match *event {
        MarketEvent::AddOrder { order_ref, .. }
        | MarketEvent::OrderExecuted { order_ref, .. }
        | MarketEvent::OrderExecutedWithPrice { order_ref, .. }
        | MarketEvent::OrderCancel { order_ref, .. }
        | MarketEvent::OrderDelete { order_ref, .. } => refs.contains(&order_ref),
        MarketEvent::OrderReplace { old_ref, new_ref, .. } => {
            refs.contains(&old_ref) || refs.contains(&new_ref)
        }
        _ => false,
    }
}

/// Whether an event prints or breaks one of the trades.
fn prints_one(event: &MarketEvent, matches: &BTreeSet<MatchNumber>) -> bool {
    match *event {
        MarketEvent::OrderExecuted { match_number, .. }
        | MarketEvent::OrderExecutedWithPrice { match_number, .. }
        | MarketEvent::Trade { match_number, .. }
        | MarketEvent::BrokenTrade { match_number, .. } => matches.contains(&match_number),
        _ => false,
    }
}
