//! The store against a model that reads all reports of a log from the front, with lists and no
//! batches; and against the statements drawn up by the engine's own code.

use engine::statement::Ledger;
use engine::{Engine, Output};
use store::{Filter, Found, Query, disagreements};
use types::{ExecutionKind, ExecutionReport, Input, MarketEvent, SystemEventCode};

use crate::{Kind, Scratch, flow, log, on_both, whole};

/// What the model knows of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known {
    id: i64,
    root: i64,
    replaces: Option<i64>,
    account: i64,
    user_ref: i64,
    lots: [i64; 4],
    state: &'static str,
    day: i64,
}

#[derive(Default)]
struct Model {
    reports: i64,
    orders: Vec<Known>,
    cancels: u64,
    amendments: u64,
    refusals: u64,
    /// Days that have ended.
    ended: i64,
    /// By day, from 1: trades.
    trades: std::collections::BTreeMap<i64, u64>,
}

impl Model {
    fn open(&mut self, account: u16, user_ref: u32) -> Option<&mut Known> {
        let named = |order: &&mut Known| {
            let key = (i64::from(account), i64::from(user_ref));
            order.state == "open" && (order.account, order.user_ref) == key
        };
        self.orders.iter_mut().rev().find(named)
    }

    fn begin(&mut self, report: &ExecutionReport, state: &'static str) {
        let (id, account) = (self.reports, report.account.0);
        let former = match report.orig_user_ref.0 {
            0 => None,
            user_ref => self.open(account, user_ref).map(|order| (order.id, order.root)),
        };
        self.orders.push(Known {
            id,
            root: former.map_or(id, |(_, root)| root),
            replaces: former.map(|(id, _)| id),
            account: i64::from(account),
            user_ref: i64::from(report.user_ref.0),
            lots: [report.qty.0 as i64, 0, 0, report.leaves.0 as i64],
            state,
            day: self.ended + 1,
        });
    }

    fn take(&mut self, report: &ExecutionReport) {
        self.reports += 1;
        let (account, leaves) = (report.account.0, report.leaves.0 as i64);
        match report.kind {
            ExecutionKind::Accepted => self.begin(report, "open"),
            ExecutionKind::Rejected => self.begin(report, "rejected"),
            ExecutionKind::Replaced => {
                self.begin(report, "new");
                if let Some(old) = self.open(account, report.orig_user_ref.0) {
                    (old.state, old.lots[3]) = ("replaced", 0);
                }
                self.orders.last_mut().expect("begun").state = "open";
            }
            ExecutionKind::Executed | ExecutionKind::Canceled => {
                let traded = report.kind == ExecutionKind::Executed;
                self.cancels += u64::from(!traded);
                if traded && report.side == types::Side::Buy {
                    *self.trades.entry(self.ended + 1).or_default() += 1;
                }
                let order = self.open(account, report.user_ref.0).expect("an open order");
                order.lots[if traded { 1 } else { 2 }] += report.qty.0 as i64;
                order.lots[3] = leaves;
                if leaves == 0 {
                    order.state = if traded { "filled" } else { "cancelled" };
                }
            }
            ExecutionKind::TradeBroken | ExecutionKind::TradeCorrected => {
                self.amendments += u64::from(report.side == types::Side::Buy);
            }
            ExecutionKind::CancelRejected => self.refusals += 1,
            ExecutionKind::Restated
            | ExecutionKind::Triggered
            | ExecutionKind::MassCanceled
            | ExecutionKind::SessionSlot
            | ExecutionKind::StreamReference => {}
        }
    }
}

fn run(seed: u64, inputs: &[Input]) -> (Model, Ledger) {
    let (mut model, mut ledger) = (Model::default(), Ledger::default());
    let (mut engine, mut out) = (Engine::new(flow::config(seed)), Output::default());
    for input in inputs {
        out.clear();
        let _ = engine.apply(input, &mut out);
        out.executions.iter().for_each(|report| {
            model.take(report);
            ledger.take(report);
        });
        let ends = MarketEvent::SystemEvent { code: SystemEventCode::EndOfMessages };
        model.ended += out.market.iter().filter(|(_, event)| *event == ends).count() as i64;
    }
    (model, ledger)
}

on_both!(its_rows_are_those_of_a_naive_model);

fn its_rows_are_those_of_a_naive_model(kind: Kind) {
    let scratch = Scratch::new("model", kind);
    let (mut seen, mut days) = (std::collections::BTreeMap::<String, u64>::new(), 0);
    for seed in 100..140 {
        let inputs = log(seed, 500);
        let path = scratch.at(&format!("of_{seed}"));
        whole(&path, seed, &inputs);
        let query = Query::open(&path).expect("a store");
        let (model, ledger) = run(seed, &inputs);
        let mut found = Vec::new();
        let all = Filter::default();
        let take = |line: store::OrderLine| {
            *seen.entry(line.state.clone()).or_default() += 1;
            let state = store::ORDER_STATES.into_iter().find(|state| *state == line.state);
            found.push(Known {
                id: line.id,
                root: line.root,
                replaces: line.replaces,
                account: line.account,
                user_ref: line.user_ref,
                lots: [line.qty, line.filled, line.cancelled, line.leaves],
                state: state.expect("a known state"),
                day: line.day,
            });
        };
        assert_eq!(query.orders(&all, take).expect("rows"), model.orders.len(), "seed {seed}");
        for (found, due) in found.iter().zip(&model.orders) {
            assert_eq!(found, due, "seed {seed}");
            let [qty, filled, cancelled, leaves] = found.lots;
            let moved = ["replaced", "rejected"].contains(&found.state);
            assert!(moved || qty == filled + cancelled + leaves, "seed {seed}: {found:?}");
        }
        let mut trades = std::collections::BTreeMap::new();
        let count = |line: store::TradeLine| *trades.entry(line.day).or_default() += 1;
        query.trades(&all, count).expect("rows");
        assert_eq!(trades, model.trades, "seed {seed}");
        days += model.ended;
        let counts = [store::Table::Cancels, store::Table::Amendments, store::Table::Refusals]
            .map(|table| query.count(table).expect("rows"));
        assert_eq!(counts, [model.cancels, model.amendments, model.refusals], "seed {seed}");
        *seen.entry("amended".to_string()).or_default() += model.amendments;
        assert_eq!(query.progress().expect("a row").reports as i64, model.reports);
        let mut differing = Found::keeping(5);
        disagreements(&ledger, &query, &mut differing).expect("rows");
        assert_eq!(differing.count, 0, "seed {seed}: {:?}", differing.first);
        *seen.entry("compared".to_string()).or_default() += differing.rows;
    }
    // A check that never met a case proves nothing about it.
    assert!(days > 20 && seen.len() == 7 && seen.values().all(|&count| count > 100), "{seen:?}");
}
