//! Statements day by day: what each account opened the day with, what it dealt, and what it closed with.
//!
//! A day of the venue is everything behind the end of the day before up to its own end: what comes between
//! two days, as orders that expire or trades that an operator breaks, belongs to the later one. So each day
//! opens with what the one before closed with, and every input is of one day ([`DayCount`]).
//!
//! What a day opens and closes with is the engine's; what was dealt is counted from the reports. Cash is
//! what was sold less what was bought, in price units times lots, from 0 on the first day; the venue charges
//! no fees. It is checked at the end of each day that opening, dealings and amendments make the
//! closing, that positions and cash of all accounts sum to nothing, and that reports, feed and engine agree
//! ([`reconcile`]).

use std::collections::BTreeMap;

use types::{AccountId, Command, CommandKind, ExecutionKind, Input, InstrumentId, Nanos, Side};

use crate::apply::{Applied, Engine};
use crate::output::{Moved, Output, Told};
use crate::statement::{Difference, Ledger, Statement, Tape, reconcile};

/// Counts the days of a log, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DayCount {
    ended: u32,
}

impl DayCount {
    /// The day that the next input is of.
    pub fn day(self) -> u32 {
        self.ended.saturating_add(1)
    }

    /// Takes an input and what became of it: whether the day ended with it.
    pub fn take(&mut self, command: &Command, applied: Applied) -> bool {
        let ends = command.kind == CommandKind::EndOfDay && applied == Applied::Done;
        self.ended = self.ended.saturating_add(u32::from(ends));
        ends
    }
}

/// One account's day in one instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DayLine {
    /// Lots held when the day began, by the engine.
    pub opening: i64,
    /// Cash when it began, price units times lots.
    pub opening_cash: i128,
    /// Lots bought and sold, as they were told.
    pub bought: u64,
    /// Lots sold.
    pub sold: u64,
    /// Value bought, price units times lots.
    pub bought_value: i128,
    /// Value sold.
    pub sold_value: i128,
    /// Lots that trades broken or corrected on this day changed the position by, and those that came or
    /// went with the instrument: it moved to or from another shard.
    pub amended: i64,
    /// Cash that they changed.
    pub amended_cash: i128,
    /// Lots held when the day ended, by the engine.
    pub closing: i64,
    /// Orders taken.
    pub orders: u64,
    /// Orders open when it ended.
    pub open_orders: u64,
    /// Their lots.
    pub open_lots: u64,
}

impl DayLine {
    /// The position that follows from the opening and what was told.
    fn due(&self) -> i64 {
        self.opening + (self.bought as i64) - (self.sold as i64) + self.amended
    }

    /// Cash when the day ended.
    pub fn closing_cash(&self) -> i128 {
        self.opening_cash + self.sold_value - self.bought_value + self.amended_cash
    }

    fn is_empty(&self) -> bool {
        *self == DayLine::default()
    }
}

/// What the days' statements do not tell alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DayDifference {
    /// Reports, feed and engine from the first day on.
    Story(Difference),
    /// The position that opening and dealings make, and the engine's at the end of the day.
    Closing(AccountId, InstrumentId, i64, i64),
    /// Lots of all accounts in an instrument, which must be nothing.
    Lots(InstrumentId, i64),
    /// Cash of all accounts in an instrument, which must be nothing.
    Cash(InstrumentId, i128),
}

/// One day.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DayStatement {
    /// Number of the day in the log, from 1.
    pub day: u32,
    /// Engine time at which it was opened; 0: the log has no beginning of it.
    pub began: Nanos,
    /// Engine time at which it ended; `None`: it has not.
    pub ended: Option<Nanos>,
    /// Inputs of the log up to its end, those of earlier days included.
    pub inputs: u64,
    /// Trades made.
    pub trades: u64,
    /// Accounts and instruments that had anything.
    pub lines: BTreeMap<(AccountId, InstrumentId), DayLine>,
    /// What does not hold; of a day that has not ended what holds at any time.
    pub differences: Vec<DayDifference>,
}

/// Draws up days while a log is replayed.
pub struct Daily {
    count: DayCount,
    ledger: Ledger,
    tape: Tape,
    /// Orders taken when the day began.
    orders: BTreeMap<(AccountId, InstrumentId), u64>,
    trades: u64,
    current: DayStatement,
    done: Vec<DayStatement>,
}

impl Daily {
    /// Before the first input of a log.
    pub fn new() -> Daily {
        Daily {
            count: DayCount::default(),
            ledger: Ledger::default(),
            tape: Tape::default(),
            orders: BTreeMap::new(),
            trades: 0,
            current: DayStatement { day: 1, ..DayStatement::default() },
            done: Vec::new(),
        }
    }

    /// Takes an input that `engine` has just applied, with what became of it.
    pub fn take(&mut self, input: &Input, applied: Applied, out: &Output, engine: &Engine) {
        out.market.iter().for_each(|(_, event)| self.tape.take(event));
        for told in out.in_order() {
            let report = match told {
                Told::Report(report) => report,
                Told::Moved(moved) => {
                    self.take_moved(moved);
                    continue;
                }
            };
            let key = (report.account, report.instrument);
            let before = self.ledger.dealt(key);
            self.ledger.take(report);
            let after = self.ledger.dealt(key);
            match report.kind {
                ExecutionKind::Executed => {
                    let line = self.current.lines.entry(key).or_default();
                    let value = i128::from(report.qty.0) * i128::from(report.price.0);
                    let (lots, worth) = match report.side {
                        Side::Buy => (&mut line.bought, &mut line.bought_value),
                        Side::Sell => (&mut line.sold, &mut line.sold_value),
                    };
                    (*lots, *worth) = (lots.wrapping_add(report.qty.0), *worth + value);
                }
                ExecutionKind::TradeBroken | ExecutionKind::TradeCorrected => {
                    let line = self.current.lines.entry(key).or_default();
                    line.amended += after.position() - before.position();
                    line.amended_cash += after.cash() - before.cash();
                }
                _ => {}
            }
        }
        self.current.inputs = input.seq.0;
        let done = applied == Applied::Done;
        if done && input.command.kind == CommandKind::StartOfDay {
            self.current.began = input.t_seq;
        }
        if self.count.take(&input.command, applied) {
            self.close(Some(input.t_seq), engine);
        }
    }

    fn take_moved(&mut self, moved: &Moved) {
        self.ledger.take_moved(moved);
        if let Moved::Position { account, instrument, lots, .. } = *moved {
            self.current.lines.entry((account, instrument)).or_default().amended += lots;
        }
    }

    /// The day so far becomes a statement, and the next one opens with what it closes with.
    fn close(&mut self, ended: Option<Nanos>, engine: &Engine) {
        let statements = self.ledger.statements();
        let made = self.ledger.trades().count() as u64;
        let mut day = std::mem::take(&mut self.current);
        day.ended = ended;
        day.trades = made - std::mem::replace(&mut self.trades, made);
        for (key, statement) in &statements {
            let line = day.lines.entry(*key).or_default();
            let taken = self.orders.insert(*key, statement.orders).unwrap_or(0);
            line.orders = statement.orders - taken;
            (line.open_orders, line.open_lots) = (statement.open_orders, statement.open_lots);
        }
        let mut next =
            DayStatement { day: self.count.day(), inputs: day.inputs, ..DayStatement::default() };
        let (mut lots, mut cash) = (BTreeMap::new(), BTreeMap::new());
        for (&key, line) in &mut day.lines {
            let (account, instrument) = key;
            line.closing = engine.position(account, instrument).lots;
            if line.due() != line.closing {
                let of = DayDifference::Closing(account, instrument, line.due(), line.closing);
                day.differences.push(of);
            }
            *lots.entry(instrument).or_insert(0i64) += line.closing;
            *cash.entry(instrument).or_insert(0i128) += line.closing_cash();
            let opening = DayLine {
                opening: line.closing,
                opening_cash: line.closing_cash(),
                ..DayLine::default()
            };
            if !opening.is_empty() {
                next.lines.insert(key, opening);
            }
        }
        let sums = lots.into_iter().filter(|(_, sum)| *sum != 0);
        day.differences.extend(sums.map(|(id, sum)| DayDifference::Lots(id, sum)));
        let sums = cash.into_iter().filter(|(_, sum)| *sum != 0);
        day.differences.extend(sums.map(|(id, sum)| DayDifference::Cash(id, sum)));
        let story = reconcile(&self.ledger, &self.tape, engine);
        day.differences.extend(story.into_iter().map(DayDifference::Story));
        day.lines.retain(|_, line| !line.is_empty());
        self.done.push(day);
        self.current = next;
    }

    /// The days of the log, and whatever it has behind the end of the last one as a day that has not ended;
    /// and the ledger of all of it, whose trades are those of the days in their order.
    pub fn finish(mut self, engine: &Engine) -> (Vec<DayStatement>, Ledger) {
        let closed = self.done.last().map_or(0, |day| day.inputs);
        if self.current.inputs > closed {
            self.close(None, engine);
        }
        (self.done, self.ledger)
    }
}

impl Default for Daily {
    fn default() -> Daily {
        Daily::new()
    }
}

impl Statement {
    /// Value sold less value bought, price units times lots.
    pub fn cash(&self) -> i128 {
        self.sold_value - self.bought_value
    }
}
