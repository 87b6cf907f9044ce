//! Risk figures worked out from scratch: from all that was ever told and from the orders that are
//! open, with no running sums. Also says whether a request should have been refused.

use std::collections::BTreeMap;

use engine::{Engine, Limits};
use types::{
    AccountId, Command, CommandKind, ExecutionKind, ExecutionReport, Input, InstrumentId,
    LimitKind, OrderType, Price, RejectReason, Side,
};

use crate::flow::ACCOUNTS;

#[derive(Default)]
pub struct RiskModel {
    /// Every execution so far, and what became of it.
    deals: Vec<Deal>,
    limits: BTreeMap<(u16, u8), u64>,
    defaults: BTreeMap<u8, u64>,
    killed: [bool; ACCOUNTS as usize + 1],
}

struct Deal {
    account: u16,
    instrument: InstrumentId,
    side: Side,
    match_number: u64,
    lots: i64,
    /// What the account's last trade price was made by this deal.
    price: Price,
}

/// Figures of one account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    pub open_orders: u32,
    pub exposure: i128,
    /// By instrument: position, open lots to buy and to sell.
    pub rows: [(i64, u64, u64); 2],
}

impl RiskModel {
    /// Takes a command that was carried out, with its reports.
    pub fn follow(&mut self, command: &Command, reports: &[ExecutionReport]) {
        match command.kind {
            CommandKind::SetLimit if command.account.0 == 0 => {
                self.defaults.insert(command.param, command.qty.0);
            }
            CommandKind::SetLimit => {
                self.limits.insert((command.account.0, command.param), command.qty.0);
            }
            CommandKind::Kill => {
                self.killed[usize::from(command.account.0)] = command.param == 1;
            }
            _ => {}
        }
        for report in reports {
            match report.kind {
                ExecutionKind::Executed => self.deals.push(Deal {
                    account: report.account.0,
                    instrument: report.instrument,
                    side: report.side,
                    match_number: report.match_number.0,
                    lots: report.qty.0 as i64,
                    price: report.price,
                }),
                ExecutionKind::TradeBroken => self.amend(report, 0),
                ExecutionKind::TradeCorrected => self.amend(report, report.qty.0 as i64),
                _ => {}
            }
        }
    }

    fn amend(&mut self, report: &ExecutionReport, lots: i64) {
        let (account, side) = (report.account.0, report.side);
        let deal = self.deals.iter_mut().find(|deal| {
            (deal.match_number, deal.account, deal.side) == (report.match_number.0, account, side)
        });
        deal.expect("a deal that was told").lots = lots;
    }

    /// Whether a kill switch holds for an account.
    pub fn is_killed(&self, account: AccountId) -> bool {
        self.killed[0] || self.killed[usize::from(account.0)]
    }

    pub fn limit(&self, account: AccountId, kind: LimitKind) -> u64 {
        let own = self.limits.get(&(account.0, kind as u8));
        let set = own.or_else(|| self.defaults.get(&(kind as u8)));
        set.copied().unwrap_or(Limits::UNLIMITED)
    }

    /// An account's figures, from all deals and from the open orders of the books.
    pub fn figures(&self, account: AccountId, engine: &Engine) -> Figures {
        let mut figures = Figures::default();
        for slot in 0..2u16 {
            let mine = |deal: &&Deal| deal.account == account.0 && deal.instrument.0 == slot + 1;
            let signed = |deal: &Deal| if deal.side == Side::Buy { deal.lots } else { -deal.lots };
            let position: i64 = self.deals.iter().filter(mine).map(signed).sum();
            let mark = self.deals.iter().rfind(mine).map_or(0, |deal| deal.price.0);
            figures.exposure += i128::from(position.abs()) * i128::from(mark);
            let row = &mut figures.rows[usize::from(slot)];
            row.0 = position;
            let orders = engine.books().all_orders(slot);
            for order in orders.filter(|order| order.key() >> 32 == u64::from(account.0)) {
                figures.open_orders += 1;
                match order.side() {
                    Side::Buy => row.1 += u64::from(order.open()),
                    Side::Sell => row.2 += u64::from(order.open()),
                }
                let fixed = matches!(order.order_type(), OrderType::Limit | OrderType::StopLimit);
                if fixed {
                    figures.exposure += i128::from(order.open()) * i128::from(order.price().0);
                }
            }
        }
        figures
    }

    /// What the engine says the figures are.
    pub fn engine_figures(account: AccountId, engine: &Engine) -> Figures {
        let standing = engine.standing(account).expect("an account that exists");
        let row = |id| {
            let position = engine.position(account, InstrumentId(id));
            (position.lots, position.open_buy.0, position.open_sell.0)
        };
        Figures {
            open_orders: standing.open_orders,
            exposure: standing.exposure,
            rows: [row(1), row(2)],
        }
    }

    /// Which limits a new order is against, in whatever order they are checked; `before` is the
    /// engine before the order.
    pub fn against(&self, input: &Input, before: &Engine) -> Vec<RejectReason> {
        let c = &input.command;
        let mut found = Vec::new();
        let figures = self.figures(c.account, before);
        let mut over = |kind, value: i128, reason| {
            let limit = self.limit(c.account, kind);
            if limit != Limits::UNLIMITED && value > i128::from(limit) {
                found.push(reason);
            }
        };
        let last = before.last_price(c.instrument);
        let market = if last.0 != 0 { last.0 } else { before.reference_price(c.instrument).0 };
        let price = match c.order_type {
            _ if c.price.0 != 0 => c.price.0,
            OrderType::Stop => c.stop_price.0,
            _ => market,
        };
        let qty = i128::from(c.qty.0);
        let value = qty * i128::from(price);
        over(LimitKind::OrderQuantity, qty, RejectReason::OrderQuantityLimit);
        over(LimitKind::OrderNotional, value, RejectReason::OrderNotionalLimit);
        let orders = i128::from(figures.open_orders) + 1;
        over(LimitKind::OpenOrders, orders, RejectReason::OpenOrdersLimit);
        let (position, buys, sells) = figures.rows[usize::from(c.instrument.0) - 1];
        let worst = match c.side {
            Side::Buy => i128::from(position) + i128::from(buys),
            Side::Sell => i128::from(sells) - i128::from(position),
        };
        over(LimitKind::Position, worst + qty, RejectReason::PositionLimit);
        over(LimitKind::Credit, figures.exposure + value, RejectReason::CreditLimit);
        if market != 0 && c.price.0 != 0 {
            // Rounded up: more than the limit by anything is more.
            let distance = i128::from((c.price.0 - market).abs()) * 10_000;
            let bp = (distance + i128::from(market) - 1) / i128::from(market);
            over(LimitKind::FatFinger, bp, RejectReason::FatFinger);
        }
        found
    }
}
