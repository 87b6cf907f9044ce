//! What a log amounts to: statements per account and instrument, the trade file, closing prices;
//! and the proof that reports, feed and engine tell of the same trades.
//!
//! [`Ledger`] is fed from execution reports alone and [`Tape`] from market events alone. Neither
//! knows the other, nor the engine: [`reconcile`] holds all three against each other and names each
//! difference. A corrected trade is told by the feed as broken and printed again under its number.

use std::collections::{BTreeMap, BTreeSet};

use types::{
    AccountId, ExecutionKind, ExecutionReport, Input, InstrumentId, Liquidity, MarketEvent,
    MatchNumber, Nanos, Price, Qty, Side, UserRefNum,
};

use crate::apply::Engine;
use crate::config::Config;
use crate::output::{Moved, Output, Told};
use crate::replay::replay;

/// One account's dealings in one instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statement {
    /// Orders taken.
    pub orders: u64,
    /// Lots bought.
    pub bought: u64,
    /// Lots sold.
    pub sold: u64,
    /// Value bought, in price units times lots.
    pub bought_value: i128,
    /// Value sold.
    pub sold_value: i128,
    /// Orders open at the end.
    pub open_orders: u64,
    /// Lots open at the end.
    pub open_lots: u64,
    /// Lots that came from other shards with the instrument, less those that went.
    pub moved: i64,
}

impl Statement {
    /// Lots bought less lots sold, with those that came with the instrument.
    pub fn position(&self) -> i64 {
        self.bought as i64 - self.sold as i64 + self.moved
    }

    /// Adds what the same account has in the same instrument by another shard's log.
    pub fn add(&mut self, other: &Statement) {
        self.orders += other.orders;
        self.bought = self.bought.wrapping_add(other.bought);
        self.sold = self.sold.wrapping_add(other.sold);
        self.bought_value += other.bought_value;
        self.sold_value += other.sold_value;
        self.open_orders += other.open_orders;
        self.open_lots += other.open_lots;
        self.moved += other.moved;
    }

    /// Value bought and sold.
    pub fn notional(&self) -> i128 {
        self.bought_value + self.sold_value
    }

    fn deal(&mut self, side: Side, lots: u64, price: Price, sign: i128) {
        let (count, value) = match side {
            Side::Buy => (&mut self.bought, &mut self.bought_value),
            Side::Sell => (&mut self.sold, &mut self.sold_value),
        };
        *value += sign * i128::from(lots) * i128::from(price.0);
        *count = if sign < 0 { count.wrapping_sub(lots) } else { count.wrapping_add(lots) };
    }
}

/// One line of the trade file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TradeLine {
    /// Its number.
    pub match_number: MatchNumber,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Price, as corrected.
    pub price: Price,
    /// Lots, as corrected.
    pub qty: Qty,
    /// Lots, as traded.
    pub traded_qty: Qty,
    /// Engine time of the trade.
    pub t_seq: Nanos,
    /// Whether it was part of an auction.
    pub auction: bool,
    /// Whether it was broken.
    pub broken: bool,
    /// The buyer's account and order.
    pub buy: (AccountId, UserRefNum),
    /// The seller's account and order.
    pub sell: (AccountId, UserRefNum),
}

/// Everything that execution reports amount to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    statements: BTreeMap<(AccountId, InstrumentId), Statement>,
    trades: BTreeMap<MatchNumber, TradeLine>,
    open: BTreeMap<(AccountId, UserRefNum), (InstrumentId, u64)>,
}

impl Ledger {
    /// Takes all reports of an input, and what moved with it.
    pub fn take_all(&mut self, out: &Output) {
        out.in_order().for_each(|told| match told {
            Told::Report(report) => self.take(report),
            Told::Moved(moved) => self.take_moved(moved),
        });
    }

    /// Takes what came with an instrument, or went.
    pub fn take_moved(&mut self, moved: &Moved) {
        match moved {
            Moved::Order { came, report } => {
                let key = (report.account, report.user_ref);
                match came {
                    true => self.open.insert(key, (report.instrument, report.leaves.0)),
                    false => self.open.remove(&key),
                };
            }
            Moved::Position { account, instrument, lots, .. } => {
                self.statements.entry((*account, *instrument)).or_default().moved += lots;
            }
        }
    }

    /// Takes the next report.
    pub fn take(&mut self, report: &ExecutionReport) {
        let key = (report.account, report.user_ref);
        match report.kind {
            ExecutionKind::Accepted => {
                self.statement(report).orders += 1;
                self.open.insert(key, (report.instrument, report.leaves.0));
            }
            ExecutionKind::Replaced => {
                self.open.remove(&(report.account, report.orig_user_ref));
                self.open.insert(key, (report.instrument, report.leaves.0));
            }
            ExecutionKind::Executed => {
                let (qty, price, side) = (report.qty.0, report.price, report.side);
                self.statement(report).deal(side, qty, price, 1);
                self.leave(report);
                self.trade(report);
            }
            ExecutionKind::Canceled => self.leave(report),
            ExecutionKind::TradeBroken => self.amend(report, Qty(0)),
            ExecutionKind::TradeCorrected => self.amend(report, report.qty),
            ExecutionKind::Rejected
            | ExecutionKind::CancelRejected
            | ExecutionKind::Restated
            | ExecutionKind::Triggered
            | ExecutionKind::MassCanceled
            | ExecutionKind::SessionSlot
            | ExecutionKind::StreamReference => {}
        }
    }

    fn statement(&mut self, report: &ExecutionReport) -> &mut Statement {
        self.statements.entry((report.account, report.instrument)).or_default()
    }

    /// What an account has dealt in an instrument so far; open orders are not in it.
    pub(crate) fn dealt(&self, key: (AccountId, InstrumentId)) -> Statement {
        self.statements.get(&key).copied().unwrap_or_default()
    }

    fn leave(&mut self, report: &ExecutionReport) {
        let key = (report.account, report.user_ref);
        if report.leaves.0 == 0 {
            self.open.remove(&key);
        } else if let Some((_, open)) = self.open.get_mut(&key) {
            *open = report.leaves.0;
        }
    }

    fn trade(&mut self, report: &ExecutionReport) {
        let line = self.trades.entry(report.match_number).or_insert(TradeLine {
            match_number: report.match_number,
            instrument: report.instrument,
            price: report.price,
            qty: report.qty,
            traded_qty: report.qty,
            t_seq: report.t_seq,
            auction: true,
            broken: false,
            buy: (AccountId(0), UserRefNum(0)),
            sell: (AccountId(0), UserRefNum(0)),
        });
        line.auction &= !matches!(report.liquidity, Liquidity::Added | Liquidity::Removed);
        match report.side {
            Side::Buy => line.buy = (report.account, report.user_ref),
            Side::Sell => line.sell = (report.account, report.user_ref),
        }
    }

    /// One side of a trade is told that it now has `qty` lots at the report's price.
    fn amend(&mut self, report: &ExecutionReport, qty: Qty) {
        let Some(line) = self.trades.get(&report.match_number).copied() else { return };
        let was = if line.broken { Qty(0) } else { line.qty };
        let statement = self.statement(report);
        statement.deal(report.side, was.0, line.price, -1);
        statement.deal(report.side, qty.0, report.price, 1);
        // Both sides are told, the seller last; until then the line says what was.
        if report.side == Side::Sell
            && let Some(line) = self.trades.get_mut(&report.match_number)
        {
            line.broken = qty.0 == 0;
            if !line.broken {
                (line.price, line.qty) = (report.price, qty);
            }
        }
    }

    /// The statements, by account and instrument; open orders are those of now.
    pub fn statements(&self) -> BTreeMap<(AccountId, InstrumentId), Statement> {
        let mut statements = self.statements.clone();
        for ((account, _), (instrument, open)) in &self.open {
            let statement = statements.entry((*account, *instrument)).or_default();
            statement.open_orders += 1;
            statement.open_lots += open;
        }
        statements
    }

    /// The trade file, by match number.
    pub fn trades(&self) -> impl Iterator<Item = &TradeLine> {
        self.trades.values()
    }
}

/// Everything that market events say of trades.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tape {
    /// Lots of each trade printed by itself, as corrected; 0: broken.
    prints: BTreeMap<MatchNumber, (InstrumentId, u64)>,
    /// Instrument and lots of each cross.
    crosses: BTreeMap<MatchNumber, (InstrumentId, u64)>,
    /// Numbers broken that were not printed by themselves: trades of an auction.
    broken: BTreeSet<MatchNumber>,
}

impl Tape {
    /// Takes the next event.
    pub fn take(&mut self, event: &MarketEvent) {
        match *event {
            MarketEvent::OrderExecuted { instrument, qty, match_number, .. }
            | MarketEvent::Trade { instrument, qty, match_number, .. } => {
                self.broken.remove(&match_number);
                self.prints.insert(match_number, (instrument, qty.0));
            }
            MarketEvent::CrossTrade { instrument, qty, match_number, .. } => {
                self.crosses.insert(match_number, (instrument, qty.0));
            }
            MarketEvent::BrokenTrade { match_number, .. } => {
                match self.prints.get_mut(&match_number) {
                    Some((_, qty)) => *qty = 0,
                    None => {
                        self.broken.insert(match_number);
                    }
                }
            }
            _ => {}
        }
    }
}

/// What two of the three do not tell alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// Lots of this trade by reports and by the feed.
    Trade(MatchNumber, u64, u64),
    /// Lots of this cross by the trades before it and by the feed.
    Cross(MatchNumber, u64, u64),
    /// A trade whose two sides were not both told.
    OneSided(MatchNumber),
    /// Bought less sold of all accounts in an instrument, which must be nothing.
    Unbalanced(InstrumentId, i64),
    /// An account's position by its reports and by the engine.
    Position(AccountId, InstrumentId, i64, i64),
    /// An account's open lots by its reports and by the engine.
    Open(AccountId, InstrumentId, u64, u64),
    /// Lots traded in an instrument by the trade file and by the engine's counters.
    Volume(InstrumentId, u64, u64),
}

/// A log settled: what the accounts and the public were told, and the engine after it.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// From the reports.
    pub ledger: Ledger,
    /// From the feed.
    pub tape: Tape,
    /// Closing price by instrument id less one; 0: none.
    pub closing: Vec<Price>,
    /// The engine after the log.
    pub engine: Engine,
}

/// Replays a log and draws up what it amounts to.
///
/// # Panics
/// As [`Engine::new`] when the configuration makes no engine.
pub fn draw_up<'a>(config: Config, inputs: impl IntoIterator<Item = &'a Input>) -> Settlement {
    let (mut ledger, mut tape) = (Ledger::default(), Tape::default());
    let instruments = config.instruments.len() as u16;
    let engine = replay(config, inputs, |_, _, _, out| {
        ledger.take_all(out);
        out.market.iter().for_each(|(_, event)| tape.take(event));
    });
    let closing = (1..=instruments).map(|id| engine.closing_price(InstrumentId(id))).collect();
    Settlement { ledger, tape, closing, engine }
}

/// Holds reports, feed and engine against each other; empty when they agree to the last lot.
pub fn reconcile(ledger: &Ledger, tape: &Tape, engine: &Engine) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_trades(ledger, tape, &mut found);
    compare_crosses(ledger, tape, &mut found);
    compare_accounts(ledger, engine, &mut found);
    found
}

fn compare_trades(ledger: &Ledger, tape: &Tape, found: &mut Vec<Difference>) {
    for line in ledger.trades() {
        let number = line.match_number;
        if line.buy.0.0 == 0 || line.sell.0.0 == 0 {
            found.push(Difference::OneSided(number));
        }
        let told = if line.broken { 0 } else { line.qty.0 };
        let printed = match (tape.prints.get(&number), line.auction) {
            (Some((_, qty)), _) => *qty,
            // A trade of an auction is printed with its cross.
            (None, true) if tape.broken.contains(&number) => 0,
            (None, true) => line.qty.0,
            (None, false) => 0,
        };
        if told != printed {
            found.push(Difference::Trade(number, told, printed));
        }
    }
    for (number, (_, qty)) in &tape.prints {
        if !ledger.trades.contains_key(number) {
            found.push(Difference::Trade(*number, 0, *qty));
        }
    }
}

/// A cross has the number after those of its trades.
fn compare_crosses(ledger: &Ledger, tape: &Tape, found: &mut Vec<Difference>) {
    for (number, (instrument, qty)) in &tape.crosses {
        let (mut lots, mut due) = (0, number.0.saturating_sub(1));
        for (before, line) in ledger.trades.range(..number).rev() {
            let part = line.auction && line.instrument == *instrument && before.0 == due;
            if !part || lots >= *qty {
                break;
            }
            lots += line.traded_qty.0;
            due = due.saturating_sub(1);
        }
        if lots != *qty {
            found.push(Difference::Cross(*number, lots, *qty));
        }
    }
}

/// Every account and instrument that this shard has, whether or not anything was told of it.
fn compare_accounts(ledger: &Ledger, engine: &Engine, found: &mut Vec<Difference>) {
    let mut balance: BTreeMap<InstrumentId, i64> = BTreeMap::new();
    let statements = ledger.statements();
    let held = |id: &InstrumentId| engine.phase(*id).is_some();
    for instrument in engine.config().instruments.iter().map(|one| one.id).filter(held) {
        for account in (1..=engine.config().accounts_max as u16).map(AccountId) {
            let statement = statements.get(&(account, instrument)).copied().unwrap_or_default();
            *balance.entry(instrument).or_default() += statement.position();
            let position = engine.position(account, instrument);
            if statement.position() != position.lots {
                let (ours, theirs) = (statement.position(), position.lots);
                found.push(Difference::Position(account, instrument, ours, theirs));
            }
            let open = position.open_buy.0 + position.open_sell.0;
            if statement.open_lots != open {
                let ours = statement.open_lots;
                found.push(Difference::Open(account, instrument, ours, open));
            }
        }
    }
    let unbalanced = balance.iter().filter(|(_, lots)| **lots != 0);
    found.extend(unbalanced.map(|(id, lots)| Difference::Unbalanced(*id, *lots)));
    for instrument in engine.config().instruments.iter().filter(|one| held(&one.id)) {
        let of_instrument = |line: &&TradeLine| line.instrument == instrument.id && !line.broken;
        let traded: u64 = ledger.trades().filter(of_instrument).map(|line| line.qty.0).sum();
        let counted = engine.instrument_counters(instrument.id).unwrap_or_default().volume;
        if traded != counted {
            found.push(Difference::Volume(instrument.id, traded, counted));
        }
    }
}
