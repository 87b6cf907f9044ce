//! Drives an implementation of the rules and the model with the same commands and compares all
//! that is told, all results and the whole book after every command (now and then all books).
//!
//! Compared: every event with the facts of its orders, the answer to each command, and of a book
//! the phase, prices, indicative auction, levels of both sides and every open order with its terms
//! in the order of a mass cancel. Not compared: how either side keeps its books.

use std::fmt;
use std::panic::{self, AssertUnwindSafe, catch_unwind};

use types::{
    CancelReason, ClOrdId, Indicative, Nanos, NewOrder, OrderFacts, OrderType, Phase, Price, Qty,
    RejectReason, SelfTrade, Side, TimeInForce,
};

use crate::coverage::Coverage;
use crate::flow::{Filter, Flow, Profile, Step};
use crate::model::{Capacity, Config, Model, Order, Place, Told};

/// An implementation of the rules under comparison. All methods mean what those of [`Model`] do and
/// append what is told to `told`.
pub trait SystemUnderTest {
    /// A new order.
    ///
    /// # Errors
    /// Why it was refused.
    fn submit(
        &mut self,
        book: u16,
        order: &NewOrder,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason>;
    /// A replace.
    ///
    /// # Errors
    /// Why it was refused.
    fn replace(
        &mut self,
        old_key: u64,
        order: &NewOrder,
        may_keep_place: bool,
        told: &mut Vec<Told>,
    ) -> Result<(), RejectReason>;
    /// A cancel.
    ///
    /// # Errors
    /// `UnknownOrder`.
    fn cancel(&mut self, key: u64, told: &mut Vec<Told>) -> Result<(), RejectReason>;
    /// A reduction to `open` lots.
    ///
    /// # Errors
    /// `UnknownOrder`.
    fn reduce(&mut self, key: u64, open: u32, told: &mut Vec<Told>) -> Result<(), RejectReason>;
    /// A mass cancel; how many orders.
    fn cancel_where(
        &mut self,
        book: u16,
        reason: CancelReason,
        filter: &Filter,
        told: &mut Vec<Told>,
    ) -> u64;
    /// Ends the good-till-date orders whose end is not after `now`; returns how many.
    fn expire(&mut self, now: Nanos, told: &mut Vec<Told>) -> u64;
    /// Sets the phase of a book.
    fn set_phase(&mut self, book: u16, phase: Phase, told: &mut Vec<Told>);
    /// Uncrosses a book in the batch phase, as at the end of an interval.
    fn uncross(&mut self, book: u16, told: &mut Vec<Told>);
    /// Sets the reference price of a book; 0: none.
    fn set_reference(&mut self, book: u16, price: Price);
    /// Sets the dynamic collar of a book: lowest and highest price; `None`: none.
    fn set_collar(&mut self, book: u16, collar: Option<(Price, Price)>);
    /// State of a book, as far as it can be looked at.
    fn view(&self, book: u16) -> BookView;
    /// Its own invariants.
    ///
    /// # Errors
    /// Which one does not hold.
    fn check(&self) -> Result<(), String>;
}

/// A price level of one side of a book.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelView {
    /// Price of the level.
    pub price: Price,
    /// Open quantity at the price, hidden orders included, lots.
    pub open: u64,
    /// Displayed quantity at the price, lots.
    pub shown: u64,
    /// Number of orders at the price.
    pub orders: u64,
}

/// An open order with all of its terms, for comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderView {
    /// What events say of it.
    pub facts: OrderFacts,
    /// How long the order lives.
    pub time_in_force: TimeInForce,
    /// Flags of the order, as in [`types::Command::flags`].
    pub flags: u8,
    /// What happens instead of a trade with an order of the same group.
    pub self_trade: SelfTrade,
    /// Self-trade group of the order; 0: none.
    pub group: u16,
    /// Number of the gateway that the order came through.
    pub session: u16,
    /// Lots displayed at a time.
    pub display_qty: u32,
    /// Lots that must trade on entry; 0: none.
    pub min_qty: u32,
    /// Stop price, distance or offset, as given; 0 for types without one, such as triggered stops.
    pub stop_price: Price,
    /// The price a stop in the list waits for; `None` for all others and as long as there is none.
    pub waits_for: Option<Price>,
    /// End of a good-till-date order, ns since the epoch; 0: none.
    pub expire_at: Nanos,
    /// The participant's own identifier of the order.
    pub cl_ord_id: ClOrdId,
}

/// All that can be seen of a book.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookView {
    /// Phase of the book's market.
    pub phase: Phase,
    /// Price of the last trade.
    pub last_price: Price,
    /// Reference price of the book; 0: none.
    pub reference: Price,
    /// Result that an uncrossing would have at this moment.
    pub indicative: Indicative,
    /// Best displayed bid and ask.
    pub displayed: [Option<Price>; 2],
    /// Levels of bids and asks, best first.
    pub levels: [Vec<LevelView>; 2],
    /// Orders in the levels of bids and asks, best first, displayed before hidden.
    pub resting: [Vec<u64>; 2],
    /// All open orders in the order of a mass cancel.
    pub orders: Vec<OrderView>,
    /// Digest of what is displayed.
    pub digest: u64,
}

impl BookView {
    /// The first field in which two views differ, with both values.
    pub fn difference(&self, other: &BookView) -> Option<String> {
        let BookView { phase, last_price, reference, indicative, .. } = self;
        let BookView { displayed, levels, resting, orders, digest, .. } = self;
        let pairs = [
            differ("phase", phase, &other.phase),
            differ("last price", last_price, &other.last_price),
            differ("reference price", reference, &other.reference),
            differ("orders", orders, &other.orders),
            differ("levels", levels, &other.levels),
            differ("queues", resting, &other.resting),
            differ("best displayed", displayed, &other.displayed),
            differ("indicative", indicative, &other.indicative),
            differ("displayed digest", digest, &other.digest),
        ];
        pairs.into_iter().flatten().next()
    }
}

fn differ<T: PartialEq + fmt::Debug>(what: &str, subject: &T, model: &T) -> Option<String> {
    (subject != model).then(|| format!("{what}\n    subject: {subject:?}\n    model:   {model:?}"))
}

impl OrderView {
    /// `stop_price` if orders of this type have one, otherwise 0.
    pub fn stop_price_of(order_type: OrderType, stop_price: Price) -> Price {
        match order_type {
            OrderType::Limit | OrderType::Market | OrderType::MarketToLimit => Price(0),
            _ => stop_price,
        }
    }
}

fn order_view(order: &Order) -> OrderView {
    let terms = &order.terms;
    OrderView {
        facts: order.facts(),
        time_in_force: terms.time_in_force,
        flags: terms.flags,
        self_trade: terms.self_trade,
        group: terms.group,
        session: terms.session,
        display_qty: terms.display_qty,
        min_qty: terms.min_qty,
        stop_price: OrderView::stop_price_of(order.order_type, terms.stop_price),
        waits_for: order.effective_stop.filter(|_| order.place == Place::StopList),
        expire_at: terms.expire_at,
        cl_ord_id: terms.cl_ord_id,
    }
}

/// All that can be seen of a book of the model.
pub fn model_view(model: &Model, book: u16) -> BookView {
    let market = model.market(book);
    let orders = market.all_orders();
    let both = [Side::Buy, Side::Sell];
    let resting = both.map(|side| -> Vec<Order> {
        orders.iter().filter(|o| o.side() == side && o.in_level()).copied().collect()
    });
    let displayed = |side: usize| {
        let displayed = resting[side].iter().filter(|o| o.place == Place::Displayed);
        displayed.map(|o| (o.order_ref, o.price, Qty(u64::from(o.shown))))
    };
    BookView {
        phase: market.phase(),
        last_price: market.last_price(),
        reference: market.reference(),
        indicative: model.indicative(book),
        displayed: both.map(|side| market.best_displayed(side)),
        levels: [levels(&resting[0]), levels(&resting[1])],
        digest: types::displayed_book(displayed(0), displayed(1)),
        resting: resting.map(|orders| orders.iter().map(Order::key).collect()),
        orders: orders.iter().map(order_view).collect(),
    }
}

/// The levels of orders that are sorted by price.
fn levels(resting: &[Order]) -> Vec<LevelView> {
    let mut levels: Vec<LevelView> = Vec::new();
    for order in resting {
        if levels.last().is_none_or(|level| level.price != order.price) {
            levels.push(LevelView { price: order.price, ..LevelView::default() });
        }
        if let Some(level) = levels.last_mut() {
            level.open += u64::from(order.open);
            level.shown += u64::from(order.shown);
            level.orders += 1;
        }
    }
    levels
}

/// Totals of a run of commands against subject and model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Number of commands given to both subject and model.
    pub commands: u64,
    /// Number of events that were compared.
    pub events: u64,
    /// Lots of trades among them.
    pub trades: u64,
}

impl RunStats {
    /// Adds the totals of another run.
    pub fn add(&mut self, other: &RunStats) {
        self.commands += other.commands;
        self.events += other.events;
        self.trades += other.trades;
    }
}

/// The first difference found between subject and model.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Seed of the run that shows the difference.
    pub seed: u64,
    /// Settings of the run: books and capacity.
    pub profile: Profile,
    /// The commands that lead to it, as few as were found; the last one shows it.
    pub steps: Vec<Step>,
    /// What differs at the last command, in words.
    pub detail: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: subject and model differ", self.seed)?;
        for (at, config) in self.profile.books.iter().enumerate() {
            writeln!(f, "  book {at}: {config:?}")?;
        }
        writeln!(f, "  room: {:?}", self.profile.capacity)?;
        for step in &self.steps {
            writeln!(f, "  {step:?}")?;
        }
        write!(f, "  {}", self.detail)
    }
}

impl std::error::Error for Difference {}

/// Runs the commands of a seed through a subject made by `build` and through the model; counts what
/// happened in `coverage`.
///
/// # Errors
/// The first difference, with few commands that show it.
pub fn run_seed<S: SystemUnderTest>(
    seed: u64,
    build: impl Fn(&[Config], Capacity) -> S,
    coverage: &mut Coverage,
) -> Result<RunStats, Box<Difference>> {
    let profile = Profile::of_seed(seed);
    let mut flow = Flow::new(seed, profile.clone());
    let mut pair = Pair::new(&profile, &build);
    let mut steps = Vec::new();
    let mut stats = RunStats::default();
    coverage.begin_run();
    for _ in 0..profile.length {
        let step = flow.next_step(&pair.model);
        let step = pair.fitting(&step).unwrap_or(step);
        steps.push(step);
        let phase = pair.phase_at(&step);
        match pair.apply(&step) {
            Ok(refused) => coverage.note(&step, phase, refused, &pair.model),
            Err(_) => return Err(Box::new(shrink(seed, profile, steps, &build))),
        }
        stats.commands += 1;
        stats.events += pair.model.told.len() as u64;
        let trade = |told: &&Told| matches!(told.event, types::OrderEvent::Traded { .. });
        stats.trades += pair.model.told.iter().filter(trade).count() as u64;
    }
    Ok(stats)
}

/// A subject and the model side by side.
struct Pair<S> {
    subject: S,
    model: Model,
    told: Vec<Told>,
    /// Number of commands so far.
    count: u64,
}

/// Books that a command is not about are compared after every so many commands.
const OTHERS_EVERY: u64 = 16;

impl<S: SystemUnderTest> Pair<S> {
    fn new(profile: &Profile, build: &impl Fn(&[Config], Capacity) -> S) -> Pair<S> {
        Pair {
            subject: build(&profile.books, profile.capacity),
            model: Model::new(&profile.books, profile.capacity),
            told: Vec::new(),
            count: 0,
        }
    }

    /// The book a command is for, if it names one or an open order.
    fn book_of(&self, step: &Step) -> Option<u16> {
        match *step {
            Step::Submit { book, .. }
            | Step::CancelWhere { book, .. }
            | Step::SetPhase { book, .. }
            | Step::Uncross { book }
            | Step::SetReference { book, .. }
            | Step::SetCollar { book, .. } => Some(book),
            Step::Expire { .. } => None,
            Step::Replace { old_key: key, .. }
            | Step::Cancel { key }
            | Step::Reduce { key, .. } => self.model.book_of(key),
        }
    }

    /// The phase of the market of a new order or replace.
    fn phase_at(&self, step: &Step) -> Option<Phase> {
        let enters = matches!(step, Step::Submit { .. } | Step::Replace { .. });
        let book = self.book_of(step).filter(|_| enters)?;
        Some(self.model.market(book).phase())
    }

    /// Gives a command to both; why it was refused, if so, or else what differs.
    fn apply(&mut self, step: &Step) -> Result<Option<RejectReason>, String> {
        self.told.clear();
        self.model.clear_told();
        let Some(step) = self.fitting(step) else { return Ok(None) };
        let touched = self.book_of(&step);
        let answers = catch_unwind(AssertUnwindSafe(|| self.both(&step)));
        let Ok((subject, model)) = answers else { return Err("one of the two panicked".into()) };
        let same_answer = subject == model;
        for at in 0..self.told.len().max(self.model.told.len()) {
            let (subject, model) = (self.told.get(at), self.model.told.get(at));
            if subject != model {
                return Err(differ("event", &subject, &model).unwrap_or_default());
            }
        }
        if !same_answer {
            return Err(differ("answer", &subject, &model).unwrap_or_default());
        }
        self.count += 1;
        for book in 0..self.model.books() {
            let other = touched.is_some_and(|touched| touched != book);
            if other && !self.count.is_multiple_of(OTHERS_EVERY) {
                continue;
            }
            let view = self.subject.view(book);
            if let Some(what) = view.difference(&model_view(&self.model, book)) {
                return Err(format!("book {book}: {what}"));
            }
        }
        self.subject.check().map_err(|fault| format!("the subject's own check: {fault}"))?;
        Ok(model.err())
    }

    /// A command as it may be given now: a shortened run may have changed the order it is about.
    fn fitting(&self, step: &Step) -> Option<Step> {
        match *step {
            Step::Reduce { key, open } => {
                let fits = self.model.get(key).is_none_or(|order| open < order.open);
                fits.then_some(*step)
            }
            Step::Replace { old_key, order, may_keep_place } => {
                let mut order = order;
                if let Some(old) = self.model.get(old_key) {
                    order.side = old.side();
                    order.order_type = old.order_type;
                    order.traded = old.traded;
                }
                Some(Step::Replace { old_key, order, may_keep_place })
            }
            _ => Some(*step),
        }
    }

    fn both(&mut self, step: &Step) -> (Result<u64, RejectReason>, Result<u64, RejectReason>) {
        let Pair { subject, model, told, .. } = self;
        match *step {
            Step::Submit { book, order } => (
                subject.submit(book, &order, told).map(|()| 0),
                model.submit(book, &order).map(|()| 0),
            ),
            Step::Replace { old_key, order, may_keep_place } => (
                subject.replace(old_key, &order, may_keep_place, told).map(|()| 0),
                model.replace(old_key, &order, may_keep_place).map(|()| 0),
            ),
            Step::Cancel { key } => {
                (subject.cancel(key, told).map(|()| 0), model.cancel(key).map(|()| 0))
            }
            Step::Reduce { key, open } => {
                (subject.reduce(key, open, told).map(|()| 0), model.reduce(key, open).map(|()| 0))
            }
            Step::CancelWhere { book, filter } => {
                let reason = CancelReason::MassCancel;
                let wants = |o: &Order| filter.wants(o.key(), o.side(), o.terms.session);
                let counted = subject.cancel_where(book, reason, &filter, told);
                (Ok(counted), Ok(model.cancel_where(book, reason, wants)))
            }
            Step::Expire { now } => (Ok(subject.expire(now, told)), Ok(model.expire(now))),
            Step::SetPhase { book, phase } => {
                subject.set_phase(book, phase, told);
                model.set_phase(book, phase);
                (Ok(0), Ok(0))
            }
            Step::Uncross { book } => {
                subject.uncross(book, told);
                model.uncross(book);
                (Ok(0), Ok(0))
            }
            Step::SetReference { book, price } => {
                subject.set_reference(book, price);
                model.set_reference(book, price);
                (Ok(0), Ok(0))
            }
            Step::SetCollar { book, collar } => {
                subject.set_collar(book, collar);
                model.set_collar(book, collar);
                (Ok(0), Ok(0))
            }
        }
    }
}

/// Where the first difference shows when these commands are run: how many it took, and what.
fn replay<S: SystemUnderTest>(
    profile: &Profile,
    steps: &[Step],
    build: &impl Fn(&[Config], Capacity) -> S,
) -> Option<(usize, String)> {
    let mut pair = Pair::new(profile, build);
    steps.iter().enumerate().find_map(|(at, step)| Some((at + 1, pair.apply(step).err()?)))
}

/// [`shorten`], without the message of every panic on the way.
fn shrink<S: SystemUnderTest>(
    seed: u64,
    profile: Profile,
    steps: Vec<Step>,
    build: &impl Fn(&[Config], Capacity) -> S,
) -> Difference {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let difference = shorten(seed, profile, steps, build);
    panic::set_hook(hook);
    difference
}

/// Leaves out commands, in blocks and then one by one, as long as a difference remains.
fn shorten<S: SystemUnderTest>(
    seed: u64,
    profile: Profile,
    mut steps: Vec<Step>,
    build: &impl Fn(&[Config], Capacity) -> S,
) -> Difference {
    let mut detail = String::new();
    let mut block = steps.len();
    while block > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + block).min(steps.len()));
            match replay(&profile, &fewer, build) {
                Some((count, what)) => {
                    fewer.truncate(count);
                    (steps, detail) = (fewer, what);
                }
                None => at += block,
            }
        }
        block /= 2;
    }
    if let Some((count, what)) = replay(&profile, &steps, build) {
        steps.truncate(count);
        detail = what;
    }
    Difference { seed, profile, steps, detail }
}
