//! Strategies that are programs of their own: they are told news and answer with actions, wherever they run.

use feed::Level;
use types::{Instrument, InstrumentId, Nanos, Price, Side, TimeInForce};

use crate::report::{MarketTrade, Report};
use crate::strategy::{Desk, Order, Strategy};

/// Levels of a side that are told.
pub const DEPTH: usize = 10;

/// What a program is told.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// Before anything else.
    Start {
        /// What is traded.
        instruments: &'a [Instrument],
        /// A price unit is 10^-`price_decimals` of the quote currency.
        price_decimals: u8,
    },
    /// The displayed book of an instrument has changed.
    Book {
        /// When it was released.
        now: Nanos,
        /// The instrument.
        instrument: InstrumentId,
        /// Best bids, [`DEPTH`] at most, the program's own orders included.
        bids: &'a [Level],
        /// Best offers, likewise.
        asks: &'a [Level],
        /// Lots held; negative: short.
        held: i64,
        /// The program's orders that may still trade.
        orders: &'a [Order],
    },
    /// A trade of the market.
    Trade {
        /// When it was released.
        now: Nanos,
        /// The trade.
        trade: &'a MarketTrade,
    },
    /// What became of an order.
    Report {
        /// When it came.
        now: Nanos,
        /// The report.
        report: &'a Report,
    },
}

/// What a program answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A new order; orders are numbered from 1 in the order in which they are sent.
    Order {
        /// Instrument of the order.
        instrument: InstrumentId,
        /// Whether it buys or sells.
        side: Side,
        /// Lots of the order.
        qty: u32,
        /// Limit price of the order.
        price: Price,
        /// How long it lives.
        life: TimeInForce,
        /// It is refused rather than trade at once.
        rests: bool,
    },
    /// The order of this number is to go.
    Cancel {
        /// Its number.
        id: u32,
    },
}

/// A program that is told news.
pub trait Program {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Tells it; appends what it answers.
    ///
    /// # Errors
    /// Why it can't go on.
    fn tell(&mut self, news: &News<'_>, answer: &mut Vec<Action>) -> Result<(), String>;
}

/// A program as a strategy, within bounds of what it may ask for.
#[derive(Debug)]
pub struct Programmed<P> {
    program: P,
    actions_max: usize,
    unanswered_max: usize,
    instruments: Vec<InstrumentId>,
    failure: Option<String>,
    answer: Vec<Action>,
    sides: [Vec<Level>; 2],
    orders: Vec<Order>,
}

impl<P: Program> Programmed<P> {
    /// Starts a program, which may answer news with `actions_max` actions and have `unanswered_max` requests
    /// without an answer; one that does more is stopped.
    pub fn start(
        program: P,
        (instruments, price_decimals): (&[Instrument], u8),
        (actions_max, unanswered_max): (usize, usize),
    ) -> Programmed<P> {
        let mut started = Programmed {
            program,
            actions_max,
            unanswered_max,
            instruments: instruments.iter().map(|one| one.id).collect(),
            failure: None,
            answer: Vec::new(),
            sides: [Vec::new(), Vec::new()],
            orders: Vec::new(),
        };
        let news = News::Start { instruments, price_decimals };
        let told = started.program.tell(&news, &mut started.answer);
        started.failure = match told {
            Err(why) => Some(why),
            Ok(()) if started.answer.is_empty() => None,
            Ok(()) => Some("acted before there was any news".to_string()),
        };
        started
    }

    /// The program.
    pub fn program_mut(&mut self) -> &mut P {
        &mut self.program
    }

    fn tell(&mut self, news: &News<'_>, desk: &mut Desk<'_>) {
        if self.failure.is_some() {
            return;
        }
        let mut answer = std::mem::take(&mut self.answer);
        answer.clear();
        let told = self.program.tell(news, &mut answer);
        self.failure = told.and_then(|()| self.act(&answer, desk)).err();
        self.answer = answer;
    }

    fn act(&self, answer: &[Action], desk: &mut Desk<'_>) -> Result<(), String> {
        if answer.len() > self.actions_max {
            let most = self.actions_max;
            return Err(format!("answered with {} actions, above {most}", answer.len()));
        }
        for action in answer {
            match *action {
                Action::Cancel { id } => desk.cancel(id),
                Action::Order { instrument, side, qty, price, life, rests } => {
                    if !self.instruments.contains(&instrument) {
                        return Err(format!("ordered instrument {instrument}, which there is not"));
                    }
                    desk.send(instrument, side, (qty, price), life, rests);
                }
            }
        }
        let waiting = desk.unanswered();
        if waiting > self.unanswered_max {
            let most = self.unanswered_max;
            return Err(format!("{waiting} of its requests have no answer, above {most}"));
        }
        Ok(())
    }
}

impl<P: Program> Strategy for Programmed<P> {
    fn name(&self) -> &str {
        self.program.name()
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        let ([mut bids, mut asks], mut orders) =
            (std::mem::take(&mut self.sides), std::mem::take(&mut self.orders));
        for (levels, side) in [(&mut bids, Side::Buy), (&mut asks, Side::Sell)] {
            levels.clear();
            levels.extend(desk.depth(instrument, side).take(DEPTH));
        }
        orders.clear();
        orders.extend(desk.orders(instrument).copied());
        let (now, held) = (desk.now(), desk.lots(instrument));
        let (bids_told, asks_told) = (&bids[..], &asks[..]);
        let news =
            News::Book { now, instrument, bids: bids_told, asks: asks_told, held, orders: &orders };
        self.tell(&news, desk);
        (self.sides, self.orders) = ([bids, asks], orders);
    }

    fn on_report(&mut self, report: &Report, desk: &mut Desk<'_>) {
        self.tell(&News::Report { now: desk.now(), report }, desk);
    }

    fn on_trade(&mut self, trade: &MarketTrade, desk: &mut Desk<'_>) {
        self.tell(&News::Trade { now: desk.now(), trade }, desk);
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}
