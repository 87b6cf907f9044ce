//! Seeded random commands, biased so that orders meet: few prices, few lots, few groups, little
//! room, and phases that change.
//!
//! A [`Flow`] looks at the model it drives, so that cancels name open orders and replaces name
//! fitting terms; nearly everything a generator without eyes would send is also sent, only less
//! often. The same seed gives the same commands.

mod terms;

use types::{
    Allocation, Nanos, NewOrder, ORDER_HIDDEN, OrderType, Phase, Price, SelfTrade, Side,
    SplitMix64, TickTable, TimeInForce, Trigger,
};

use crate::kind::Kind;
use crate::model::{Capacity, Config, Model, Order};

/// Which orders a mass cancel is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// All orders of the book.
    All,
    /// Orders of one side.
    Side(Side),
    /// Orders of one account, which is the upper half of the key.
    Account(u32),
    /// Orders that came through one gateway.
    Session(u16),
}

impl Filter {
    /// Whether the filter matches this order.
    pub fn wants(&self, key: u64, side: Side, session: u16) -> bool {
        match *self {
            Filter::All => true,
            Filter::Side(wanted) => side == wanted,
            Filter::Account(account) => key >> 32 == u64::from(account),
            Filter::Session(wanted) => session == wanted,
        }
    }
}

/// One command to the books.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Enters a new order.
    Submit {
        /// Number of the book that is meant.
        book: u16,
        /// Terms of the new order.
        order: NewOrder,
    },
    /// Replaces an open order.
    Replace {
        /// Key of the order that is replaced.
        old_key: u64,
        /// Terms of the order that takes its place.
        order: NewOrder,
        /// Whether the new order may keep the place in the queue.
        may_keep_place: bool,
    },
    /// Cancels an open order.
    Cancel {
        /// Key of the order that is meant.
        key: u64,
    },
    /// Reduces an open order.
    Reduce {
        /// Key of the order that is meant.
        key: u64,
        /// Lots to be left open.
        open: u32,
    },
    /// Cancels all orders that a filter matches.
    CancelWhere {
        /// Number of the book that is meant.
        book: u16,
        /// Filter that the orders have to match.
        filter: Filter,
    },
    /// Good-till-date orders of all books end.
    Expire {
        /// Orders whose end is not after this time end.
        now: Nanos,
    },
    /// Sets the phase of a book.
    SetPhase {
        /// Number of the book that is meant.
        book: u16,
        /// The phase that begins.
        phase: Phase,
    },
    /// Uncrosses a book, as at the end of a batch interval.
    Uncross {
        /// Number of the book that is meant.
        book: u16,
    },
    /// Sets the reference price of a book.
    SetReference {
        /// Number of the book that is meant.
        book: u16,
        /// The reference price; 0: none.
        price: Price,
    },
    /// Sets the dynamic collar of a book.
    SetCollar {
        /// Number of the book that is meant.
        book: u16,
        /// Lowest and highest price; `None`: no collar.
        collar: Option<(Price, Price)>,
    },
}

/// What a run is mainly about; everything else happens as well, less often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// All kinds of orders alike.
    Mixed,
    /// Orders that trade at once.
    Taking,
    /// Calls and what is kept for them.
    Auctions,
    /// Stop orders and what triggers them.
    Stops,
    /// Pegs and other orders that are not displayed.
    Pegs,
    /// Room that is always short.
    Crowded,
    /// Trading within a narrow dynamic collar.
    Collar,
    /// Orders at prices close to zero.
    Pennies,
    /// Orders with terms that do not fit, in all phases alike.
    Terms,
    /// What only continuous trading takes, and what becomes of it in other phases.
    Lasting,
}

impl Theme {
    /// The themes of seeds; those that reach many rare cells more often.
    const DRAWN: [Theme; 19] = [
        Theme::Mixed,
        Theme::Taking,
        Theme::Auctions,
        Theme::Auctions,
        Theme::Auctions,
        Theme::Stops,
        Theme::Pegs,
        Theme::Crowded,
        Theme::Collar,
        Theme::Pennies,
        Theme::Terms,
        Theme::Terms,
        Theme::Lasting,
        Theme::Lasting,
        Theme::Lasting,
        Theme::Lasting,
        Theme::Lasting,
        Theme::Lasting,
        Theme::Lasting,
    ];
}

/// How the commands of one seed are drawn.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Theme that most commands belong to.
    pub theme: Theme,
    /// Settings of each book.
    pub books: Vec<Config>,
    /// Bounds of the books.
    pub capacity: Capacity,
    /// Number of commands of the run.
    pub length: usize,
    /// Valid prices in use, ascending.
    prices: Vec<Price>,
    most_lots: u64,
    groups: u64,
    /// Phase changes in a thousand commands.
    phase_permille: u64,
    /// Commands in a thousand that open a closed market.
    open_permille: u64,
    /// New orders in a thousand commands.
    submit_permille: u64,
    /// Orders whose terms do not fit, in a thousand.
    broken_permille: u64,
}

impl Profile {
    /// The profile of a seed.
    pub fn of_seed(seed: u64) -> Profile {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed));
        let theme = pick(&mut rng, &Theme::DRAWN);
        let uniform = rng.permille(600);
        let tick = Price([1, 2, 100][rng.below(3) as usize]);
        let ticks = if uniform { TickTable::uniform(tick) } else { banded() };
        let config = |rng: &mut SplitMix64| Config {
            ticks,
            allocation: allocation(rng),
            trigger: if rng.permille(500) { Trigger::LastTrade } else { Trigger::Touch },
        };
        let count = 1 + rng.below(3);
        let books = (0..count).map(|_| config(&mut rng)).collect();
        let mut price = match theme {
            Theme::Pennies => Price(0),
            _ if uniform => Price(50 * tick.0),
            _ => Price(90 + rng.below(8) as i64),
        };
        let prices = (0..3 + rng.below(6)).map(|_| {
            price = ticks.above(price);
            price
        });
        Profile {
            theme,
            books,
            prices: prices.collect(),
            capacity: capacity(&mut rng, theme),
            length: 60 + rng.below(141) as usize,
            most_lots: [3, 10, 40][rng.below(3) as usize],
            groups: rng.below(4),
            phase_permille: match theme {
                Theme::Auctions => 100,
                Theme::Terms => 60,
                _ => 20 + rng.below(40),
            },
            open_permille: if matches!(theme, Theme::Terms | Theme::Lasting) { 120 } else { 400 },
            submit_permille: match theme {
                Theme::Lasting | Theme::Auctions => 600,
                Theme::Terms => 850,
                _ => 750,
            },
            broken_permille: if theme == Theme::Terms { 700 } else { 10 + rng.below(30) },
        }
    }
}

fn banded() -> TickTable {
    let bands = [(Price(0), Price(1)), (Price(95), Price(5)), (Price(120), Price(20))];
    TickTable::new(&bands).expect("the bands ascend and begin at multiples of their ticks")
}

fn allocation(rng: &mut SplitMix64) -> Allocation {
    if rng.permille(500) {
        return Allocation::PriceTime;
    }
    Allocation::ProRata { top_order: rng.permille(500), min_allocation: rng.below(4) as u32 }
}

fn capacity(rng: &mut SplitMix64, theme: Theme) -> Capacity {
    let tight = theme == Theme::Crowded || rng.permille(200);
    let mut among = |least: u64, more: u64, roomy: u32| {
        if tight && rng.permille(600) { (least + rng.below(more)) as u32 } else { roomy }
    };
    Capacity {
        orders: among(3, 10, 64),
        levels: among(1, 3, 16),
        stops: among(1, 3, 16),
        pegs: among(1, 3, 16),
    }
}

fn pick<T: Copy>(rng: &mut SplitMix64, from: &[T]) -> T {
    from[rng.below(from.len() as u64) as usize]
}

/// The commands of one seed.
#[derive(Clone, Debug)]
pub struct Flow {
    rng: SplitMix64,
    profile: Profile,
    next_ref: u32,
    now: u64,
}

impl Flow {
    /// The flow of a seed and its profile.
    pub fn new(seed: u64, profile: Profile) -> Flow {
        Flow { rng: SplitMix64::new(seed ^ 0x0b00_c0de), profile, next_ref: 0, now: 0 }
    }

    /// The next command, as the books are in `model`.
    pub fn next_step(&mut self, model: &Model) -> Step {
        let book = self.rng.below(self.profile.books.len() as u64) as u16;
        let market = model.market(book);
        if market.phase() == Phase::Closed && self.rng.permille(self.profile.open_permille) {
            return Step::SetPhase { book, phase: self.phase() };
        }
        let lasting = self.profile.theme == Theme::Lasting;
        let phase_permille = match market.phase() {
            Phase::Continuous if lasting => 80,
            _ if lasting => 170,
            _ => self.profile.phase_permille,
        };
        if self.rng.permille(phase_permille) {
            return self.phase_step(book, model);
        }
        let submits = match (self.profile.theme, market.phase()) {
            (Theme::Lasting, Phase::Closed | Phase::Halt) => 30,
            (Theme::Lasting, phase) if phase.is_call() => 350,
            _ => self.profile.submit_permille,
        };
        if market.open_orders().is_empty() || self.rng.permille(submits) {
            return Step::Submit { book, order: self.new_order(book, model) };
        }
        match self.rng.below(100) {
            _ if lasting && market.phase() != Phase::Continuous && self.rng.permille(150) => {
                self.cancel_where(book)
            }
            0..=41 => self.replace(book, model),
            42..=61 => Step::Cancel { key: self.key(book, model) },
            62..=79 => self.reduce(book, model),
            80..=88 => self.cancel_where(book),
            89..=92 => Step::SetReference { book, price: self.reference() },
            _ => Step::SetCollar { book, collar: self.collar() },
        }
    }

    fn phase_step(&mut self, book: u16, model: &Model) -> Step {
        if model.market(book).phase() == Phase::Batch && self.rng.permille(600) {
            return Step::Uncross { book };
        }
        if self.rng.permille(30) {
            return Step::Uncross { book };
        }
        // A call that is broken off, or goes on as another.
        let call = model.market(book).phase().is_call();
        if call && self.profile.theme == Theme::Lasting && self.rng.permille(250) {
            return Step::SetPhase { book, phase: Phase::Halt };
        }
        if call && self.profile.theme == Theme::Auctions && self.rng.permille(300) {
            use Phase::{Batch, ClosingCall, Halt, OpeningCall, PreOpen, VolatilityCall};
            let others = [Halt, PreOpen, OpeningCall, VolatilityCall, Batch, ClosingCall];
            return Step::SetPhase { book, phase: pick(&mut self.rng, &others) };
        }
        Step::SetPhase { book, phase: self.phase() }
    }

    fn phase(&mut self) -> Phase {
        let calm = match self.profile.theme {
            Theme::Auctions => 150,
            Theme::Terms => 50,
            Theme::Lasting => 450,
            _ => 600,
        };
        if self.rng.permille(calm) { Phase::Continuous } else { pick(&mut self.rng, &Phase::ALL) }
    }

    fn key(&mut self, book: u16, model: &Model) -> u64 {
        let orders = model.market(book).open_orders();
        if orders.is_empty() || self.rng.permille(30) {
            return u64::from(self.next_ref / 2 + 1) | 1 << 32;
        }
        pick(&mut self.rng, orders).key()
    }

    fn reduce(&mut self, book: u16, model: &Model) -> Step {
        let order = pick(&mut self.rng, model.market(book).open_orders());
        if order.open == 1 {
            return Step::Cancel { key: order.key() };
        }
        let open = 1 + self.rng.below(u64::from(order.open) - 1) as u32;
        Step::Reduce { key: order.key(), open }
    }

    fn cancel_where(&mut self, book: u16) -> Step {
        let filter = match self.rng.below(12) {
            0 => Filter::All,
            1 | 2 => Filter::Side(self.side()),
            3 | 4 => Filter::Account(1 + self.rng.below(4) as u32),
            5 | 6 => Filter::Session(self.rng.below(3) as u16),
            _ => {
                self.now += self.rng.below(40);
                return Step::Expire { now: Nanos(self.now) };
            }
        };
        Step::CancelWhere { book, filter }
    }

    fn side(&mut self) -> Side {
        if self.rng.permille(500) { Side::Buy } else { Side::Sell }
    }

    fn price(&mut self) -> Price {
        pick(&mut self.rng, &self.profile.prices)
    }

    /// Mostly a price that rests: the lower half for buys.
    fn price_of(&mut self, side: Side) -> Price {
        let all = self.profile.prices.len() as u64;
        let at = self.rng.below(all);
        let far = self.rng.below(all);
        let at = match side {
            _ if self.rng.permille(350) => at,
            Side::Buy => at.min(far),
            Side::Sell => at.max(far),
        };
        self.profile.prices[at as usize]
    }

    fn lots(&mut self) -> u32 {
        1 + self.rng.below(self.profile.most_lots) as u32
    }

    fn reference(&mut self) -> Price {
        if self.rng.permille(250) { Price(0) } else { self.price() }
    }

    fn collar(&mut self) -> Option<(Price, Price)> {
        let (a, b) = (self.price(), self.price());
        let none = if self.profile.theme == Theme::Collar { 200 } else { 600 };
        (!self.rng.permille(none)).then_some((a.min(b), a.max(b)))
    }

    fn fresh_key(&mut self) -> u64 {
        self.next_ref += 1;
        (1 + self.rng.below(4)) << 32 | u64::from(self.next_ref)
    }

    /// Mostly small changes of an open order.
    fn replace(&mut self, book: u16, model: &Model) -> Step {
        let orders = model.market(book).open_orders();
        let mut old = pick(&mut self.rng, orders);
        let at_close = |o: &&Order| o.terms.time_in_force == TimeInForce::AtTheClose;
        if let Some(at_close) = orders.iter().find(at_close)
            && self.profile.theme == Theme::Auctions
            && self.rng.permille(300)
        {
            old = *at_close;
        }
        let key = match self.rng.below(100) {
            0..=19 => old.key(),
            20 => self.key(book, model),
            _ => self.fresh_key(),
        };
        let order = if self.rng.permille(700) {
            self.changed(&old, key)
        } else {
            self.other_terms(&old, key)
        };
        let old_key = if self.rng.permille(20) { key } else { old.key() };
        Step::Replace { old_key, order, may_keep_place: self.rng.permille(850) }
    }

    fn changed(&mut self, old: &Order, key: u64) -> NewOrder {
        let mut order = NewOrder { key, order_type: old.order_type, ..old.terms };
        if old.order_type != old.terms.order_type {
            order.stop_price = Price(0);
            order.price = old.price;
            order.min_qty = 0;
        }
        order.traded = old.traded;
        order.qty = old.open;
        match self.rng.below(5) {
            0 if old.order_type == OrderType::Limit => order.price = self.price(),
            1 => order.qty += self.lots(),
            2 => order.self_trade = SelfTrade::Allow,
            _ => order.qty = 1 + self.rng.below(u64::from(old.open)) as u32,
        }
        order.display_qty = order.display_qty.min(order.qty);
        if self.rng.permille(700) {
            order.flags &= ORDER_HIDDEN;
        }
        if self.rng.permille(700) {
            order.min_qty = 0;
        }
        order.min_qty = order.min_qty.min(order.qty);
        order
    }

    fn other_terms(&mut self, old: &Order, key: u64) -> NewOrder {
        let fitting: Vec<Kind> =
            Kind::ALL.into_iter().filter(|kind| kind.order_type() == old.order_type).collect();
        let kind = pick(&mut self.rng, &fitting);
        let mut order = self.order_of(kind, key, old.side());
        order.traded = old.traded;
        if old.price > Price(0) && order.price > Price(0) && self.rng.permille(500) {
            order.price = old.price;
            order.qty = order.qty.min(old.open);
            order.min_qty = order.min_qty.min(order.qty);
            order.display_qty = order.display_qty.min(order.qty);
        }
        if self.rng.permille(self.profile.broken_permille) {
            self.spoil(kind, &mut order);
        }
        order
    }
}
