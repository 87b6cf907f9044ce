//! The book against a plain vector of orders, every operation, with the invariants checked after
//! each.

use book::{Book, Capacity, Full, Handle, Order, Owner, Terms};
use proptest::prelude::*;
use types::{AccountId, OrderRef, Price, Qty, Side, TimeInForce};

const CAPACITY: Capacity = Capacity { orders: 8, levels: 3 };

#[derive(Clone, Debug)]
enum Step {
    /// Trade up to a limit (or any price), then rest what is left.
    Submit {
        side: Side,
        price: Option<i64>,
        qty: u64,
    },
    Cancel {
        pick: usize,
    },
    Reduce {
        pick: usize,
        open: u64,
        amend: bool,
    },
    /// Take out the orders with even references.
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop_oneof![Just(Side::Buy), Just(Side::Sell)];
    let price = prop_oneof![9 => (1i64..7).prop_map(Some), 1 => Just(None)];
    prop_oneof![
        12 => (side(), price, 1u64..9)
            .prop_map(|(side, price, qty)| Step::Submit { side, price, qty }),
        5 => (0usize..40).prop_map(|pick| Step::Cancel { pick }),
        4 => (0usize..40, 0u64..9, any::<bool>())
            .prop_map(|(pick, open, amend)| Step::Reduce { pick, open, amend }),
        1 => Just(Step::Sweep),
    ]
}

/// Orders in order of arrival.
#[derive(Default)]
struct Model {
    orders: Vec<Order>,
}

impl Model {
    fn side(&self, side: Side) -> Vec<Order> {
        let mut orders: Vec<Order> =
            self.orders.iter().filter(|o| o.side == side).copied().collect();
        orders.sort_by_key(|o| if side == Side::Buy { -o.price.0 } else { o.price.0 });
        orders
    }

    /// The trades as (maker, price, lots, what the maker has left), and what is left to trade.
    fn take(&mut self, side: Side, limit: Option<i64>, mut qty: u64) -> (Vec<[u64; 4]>, u64) {
        let mut trades = Vec::new();
        while let Some(best) = self.side(side.opposite()).first().copied() {
            let good = limit.is_none_or(|limit| match side {
                Side::Buy => best.price.0 <= limit,
                Side::Sell => best.price.0 >= limit,
            });
            if qty == 0 || !good {
                break;
            }
            let lots = qty.min(best.open().0);
            qty -= lots;
            let at = self.position(best.order_ref).expect("the best order rests");
            self.orders[at].fill(Qty(lots));
            let left = self.orders[at].open().0;
            if left == 0 {
                self.orders.remove(at);
            }
            trades.push([best.order_ref.0, best.price.0 as u64, lots, left]);
        }
        (trades, qty)
    }

    fn fits(&self, side: Side, price: i64) -> Result<(), Full> {
        if self.orders.len() == CAPACITY.orders as usize {
            return Err(Full::Orders);
        }
        let mut prices: Vec<i64> = self.side(side).iter().map(|o| o.price.0).collect();
        prices.dedup();
        let known = prices.contains(&price) || prices.len() < CAPACITY.levels as usize;
        if known { Ok(()) } else { Err(Full::Levels) }
    }

    fn position(&self, order_ref: OrderRef) -> Option<usize> {
        self.orders.iter().position(|o| o.order_ref == order_ref)
    }
}

/// Both, and every handle ever given out.
struct Pair {
    book: Book,
    model: Model,
    handles: Vec<(Handle, OrderRef)>,
    next_ref: u64,
}

impl Pair {
    fn new() -> Pair {
        let (book, model) = (Book::new(CAPACITY), Model::default());
        Pair { book, model, handles: Vec::new(), next_ref: 1 }
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Submit { side, price, qty } => self.submit(side, price, qty)?,
            Step::Cancel { pick } => {
                let Some((handle, at)) = self.pick(pick) else { return Ok(()) };
                let expected = at.map(|at| self.model.orders.remove(at));
                prop_assert_eq!(self.book.cancel(handle), expected);
            }
            Step::Reduce { pick, open, amend } => self.reduce(pick, open, amend)?,
            Step::Sweep => {
                let even = |order: &Order| order.order_ref.0.is_multiple_of(2);
                let mut expected = self.model.side(Side::Buy);
                expected.extend(self.model.side(Side::Sell));
                expected.retain(even);
                let mut removed = Vec::new();
                self.book.remove_where(even, |order| removed.push(*order));
                prop_assert_eq!(removed, expected);
                self.model.orders.retain(|order| !even(order));
            }
        }
        self.compare()
    }

    fn submit(&mut self, side: Side, price: Option<i64>, qty: u64) -> Result<(), TestCaseError> {
        let mut trades = Vec::new();
        let room = price.map(|price| self.book.room(side, Price(price), Qty(qty), None));
        let would = price.is_some_and(|price| self.book.would_trade(side, Price(price)));
        let left = self.book.take(side, price.map(Price), Qty(qty), |fill| {
            let maker = fill.maker;
            let (price, left) = (maker.price.0 as u64, maker.open().0);
            trades.push([maker.order_ref.0, price, fill.qty.0, left]);
        });
        let expected = self.model.take(side, price, qty);
        prop_assert!(price.is_none() || would != expected.0.is_empty());
        prop_assert_eq!((trades, left.0), expected);
        let (Some(price), true) = (price, left.0 > 0) else {
            prop_assert!(room.is_none_or(|room| left.0 > 0 || room.is_ok()), "nothing would rest");
            return Ok(());
        };
        let order = Order::new(OrderRef(self.next_ref), side, Price(price), left);
        let fits = self.model.fits(side, price);
        prop_assert_eq!(room, Some(fits), "room is known before the match");
        match self.book.rest(order) {
            Ok(handle) => {
                prop_assert_eq!(fits, Ok(()));
                self.handles.push((handle, order.order_ref));
                self.model.orders.push(order);
                self.next_ref += 1;
            }
            Err(full) => prop_assert_eq!(fits, Err(full)),
        }
        Ok(())
    }

    fn reduce(&mut self, pick: usize, open: u64, amend: bool) -> Result<(), TestCaseError> {
        let Some((handle, at)) = self.pick(pick) else { return Ok(()) };
        let owner = Owner { account: AccountId(9), ..Owner::default() };
        let time_in_force = TimeInForce::GoodTillCancelled;
        let found = if amend {
            self.book.amend(handle, Terms { owner, time_in_force, flags: 1, open: Qty(open) })
        } else {
            self.book.reduce(handle, Qty(open))
        };
        let at = at.filter(|&at| (1..=self.model.orders[at].open().0).contains(&open));
        let expected = at.map(|at| {
            let old = self.model.orders[at];
            let mut order = Order::new(old.order_ref, old.side, old.price, Qty(open));
            order = order.with_traded(old.traded());
            let terms = if amend {
                (owner, time_in_force, 1)
            } else {
                (old.owner, old.time_in_force, old.flags)
            };
            (order.owner, order.time_in_force, order.flags) = terms;
            self.model.orders[at] = order;
            order
        });
        prop_assert_eq!(found, expected);
        Ok(())
    }

    /// A handle, live or stale, and where its order is in the model.
    fn pick(&self, pick: usize) -> Option<(Handle, Option<usize>)> {
        let place = self.handles.len().checked_sub(1 + pick)?;
        let (handle, order_ref) = self.handles[place];
        Some((handle, self.model.position(order_ref)))
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.book.check(), Ok(()));
        prop_assert_eq!(self.book.len(), self.model.orders.len());
        for side in [Side::Buy, Side::Sell] {
            let orders: Vec<Order> = self.book.orders(side).copied().collect();
            prop_assert_eq!(orders, self.model.side(side));
        }
        for &(handle, order_ref) in &self.handles {
            let expected = self.model.position(order_ref).map(|at| &self.model.orders[at]);
            prop_assert_eq!(self.book.get(handle), expected, "a stale handle names nothing");
            prop_assert_eq!(Handle::from_bits(handle.to_bits()), handle);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_vector(steps in prop::collection::vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.play(step)?;
        }
    }
}

#[test]
fn room_counts_the_order_that_is_about_to_leave() {
    let mut book = Book::new(Capacity { orders: 2, levels: 2 });
    let order = |n, price| Order::new(OrderRef(n), Side::Buy, Price(price), Qty(1));
    let first = book.rest(order(1, 10)).expect("room");
    book.rest(order(2, 11)).expect("room");
    assert_eq!(book.room(Side::Buy, Price(10), Qty(1), None), Err(Full::Orders));
    assert_eq!(
        book.room(Side::Buy, Price(12), Qty(1), Some(first)),
        Ok(()),
        "its level goes with it"
    );
    assert_eq!(book.rest(order(3, 10)), Err(Full::Orders));
    book.cancel(first).expect("it rests");
    assert_eq!(
        book.room(Side::Buy, Price(12), Qty(1), Some(first)),
        Ok(()),
        "a stale handle is nobody"
    );
    assert_eq!(book.check(), Ok(()));
}

#[test]
fn a_level_shared_with_others_does_not_leave() {
    let mut book = Book::new(Capacity { orders: 4, levels: 1 });
    let order = |n| Order::new(OrderRef(n), Side::Sell, Price(10), Qty(1));
    let first = book.rest(order(1)).expect("room");
    book.rest(order(2)).expect("room");
    assert_eq!(book.room(Side::Sell, Price(12), Qty(1), Some(first)), Err(Full::Levels));
    assert_eq!(
        book.room(Side::Buy, Price(9), Qty(1), None),
        Ok(()),
        "each side has its own levels"
    );
}

#[test]
fn words_that_were_never_handles_name_nothing() {
    let mut book = Book::new(CAPACITY);
    book.rest(Order::new(OrderRef(1), Side::Buy, Price(1), Qty(1))).expect("room");
    for bits in [0, 2, 1 << 32 | 1, u64::MAX, 3 << 32] {
        assert_eq!(book.get(Handle::from_bits(bits)), None);
        assert_eq!(book.cancel(Handle::from_bits(bits)), None);
    }
}
