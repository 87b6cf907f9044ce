//! The order-book workloads W1 and W2: millions of commands whose trades and final book are known
//! from an independent calculation.
//!
//! The tape depends on the book (best prices, which orders still rest), so it is generated while it
//! is played; the check values pin both down.

use book::{Book, Capacity, Handle, Order};
use types::{OrderRef, Price, Qty, Side, SplitMix64};

struct Workload {
    seed: u64,
    target: usize,
    mid: i64,
    distance_max: u64,
    /// W1: geometric distances; W2: the lesser of two uniform ones.
    geometric: bool,
}

const COMMANDS: usize = 2_000_000;

#[derive(Default, PartialEq, Eq, Debug)]
struct Checks {
    trades: u64,
    volume: u64,
    hash: u64,
    resting: usize,
    resting_qty: u64,
    levels: [usize; 2],
    best: [i64; 2],
    max_id: u64,
}

struct Player {
    workload: Workload,
    rng: SplitMix64,
    mid: i64,
    book: Book,
    /// Ids of resting orders; a removed one's place is taken by the last.
    live: Vec<u64>,
    /// By id: handle and place in `live`.
    orders: Vec<Option<(Handle, usize)>>,
    checks: Checks,
}

impl Player {
    fn new(workload: Workload) -> Player {
        let capacity = Capacity { orders: workload.target as u32 * 2, levels: 40_000 };
        Player {
            rng: SplitMix64::new(workload.seed),
            mid: workload.mid,
            book: Book::new(capacity),
            live: Vec::new(),
            orders: vec![None],
            checks: Checks::default(),
            workload,
        }
    }

    fn play(mut self) -> Checks {
        let prefill = self.workload.target;
        for i in 0..prefill + COMMANDS {
            if i >= prefill && (i - prefill).is_multiple_of(64) {
                let mid0 = self.workload.mid;
                let drift = self.rng.below(3) as i64 - 1;
                self.mid = (self.mid + drift).clamp(mid0 - 500, mid0 + 500);
            }
            if i < prefill {
                self.new_order();
            } else {
                self.command();
            }
        }
        self.book.check().expect("the book keeps its invariants");
        self.checks.resting = self.book.len();
        for (index, side) in [Side::Buy, Side::Sell].into_iter().enumerate() {
            self.checks.levels[index] = self.book.depth(side).count();
            self.checks.best[index] = self.book.best(side).map_or(0, |best| best.price.0);
            self.checks.resting_qty += self.book.depth(side).map(|level| level.qty.0).sum::<u64>();
        }
        self.checks.max_id = self.orders.len() as u64 - 1;
        self.checks
    }

    fn command(&mut self) {
        let r = self.rng.below(100);
        if r < 10 {
            return self.aggressive();
        }
        if r < 20 {
            return if self.live.is_empty() { self.new_order() } else { self.replace() };
        }
        let arrivals = if self.live.len() < self.workload.target { 50 } else { 30 };
        if self.rng.below(80) < arrivals || self.live.is_empty() {
            self.new_order();
        } else {
            let id = self.pick();
            self.cancel(id);
        }
    }

    fn new_order(&mut self) {
        let side = self.side();
        let price = self.passive(side);
        let qty = 1 + self.rng.below(100);
        let id = self.next_id();
        self.submit(id, side, price, qty, true);
    }

    fn aggressive(&mut self) {
        let side = self.side();
        let k = self.rng.below(4) as i64;
        let best = self.book.best(side.opposite()).map(|best| best.price.0);
        let price = match side {
            Side::Buy => best.map_or(self.mid - 1, |best| best + k),
            Side::Sell => best.map_or(self.mid + 1, |best| best - k),
        };
        let qty = 1 + self.rng.below(100);
        let rests = self.rng.below(2) != 0;
        let id = self.next_id();
        self.submit(id, side, price, qty, rests);
    }

    fn replace(&mut self) {
        let id = self.pick();
        let (handle, _) = self.orders[id as usize].expect("a live order");
        let side = self.book.get(handle).expect("a live order rests").side;
        let price = self.passive(side);
        let qty = 1 + self.rng.below(100);
        self.cancel(id);
        self.submit(id, side, price, qty, true);
    }

    fn cancel(&mut self, id: u64) {
        let (handle, _) = self.orders[id as usize].expect("a live order");
        assert!(self.book.cancel(handle).is_some() && self.book.cancel(handle).is_none());
        forget(&mut self.live, &mut self.orders, id);
    }

    fn submit(&mut self, id: u64, side: Side, price: i64, qty: u64, rests: bool) {
        let Player { book, live, orders, checks, .. } = self;
        let left = book.take(side, Some(Price(price)), Qty(qty), |fill| {
            checks.trades += 1;
            checks.volume += fill.qty.0;
            let maker = fill.maker.order_ref.0;
            for word in [id, maker, fill.maker.price.0 as u64, fill.qty.0] {
                let mixed = checks.hash.rotate_left(5) ^ word;
                checks.hash = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
            if fill.maker.open().0 == 0 {
                forget(live, orders, maker);
            }
        });
        if left.0 > 0 && rests {
            let order = Order::new(OrderRef(id), side, Price(price), left);
            let handle = book.rest(order).expect("room");
            orders[id as usize] = Some((handle, live.len()));
            live.push(id);
        }
    }

    fn next_id(&mut self) -> u64 {
        self.orders.push(None);
        self.orders.len() as u64 - 1
    }

    fn pick(&mut self) -> u64 {
        self.live[self.rng.below(self.live.len() as u64) as usize]
    }

    fn side(&mut self) -> Side {
        if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell }
    }

    fn passive(&mut self, side: Side) -> i64 {
        let most = self.workload.distance_max;
        let distance = if self.workload.geometric {
            let mut d = 0;
            while d < most && self.rng.below(32) != 0 {
                d += 1;
            }
            d
        } else {
            let (x, y) = (self.rng.below(most + 1), self.rng.below(most + 1));
            x.min(y)
        } as i64;
        match side {
            Side::Buy => self.mid - 1 - distance,
            Side::Sell => self.mid + 1 + distance,
        }
    }
}

fn forget(live: &mut Vec<u64>, orders: &mut [Option<(Handle, usize)>], id: u64) {
    let (_, place) = orders[id as usize].take().expect("a live order");
    live.swap_remove(place);
    if let Some(&moved) = live.get(place)
        && let Some(entry) = &mut orders[moved as usize]
    {
        entry.1 = place;
    }
}

#[test]
fn w1_gives_its_check_values() {
    let w1 = Workload { seed: 1, target: 10_000, mid: 10_000, distance_max: 499, geometric: true };
    let expected = Checks {
        trades: 426_410,
        volume: 10_984_362,
        hash: 0x8bd6_05b9_43d7_8b5d,
        resting: 9_998,
        resting_qty: 504_252,
        levels: [190, 181],
        best: [10_142, 10_143],
        max_id: 1_132_144,
    };
    assert_eq!(Player::new(w1).play(), expected);
}

#[test]
fn w2_gives_its_check_values() {
    let (mid, distance_max) = (20_000, 9_499);
    let w2 = Workload { seed: 2, target: 1_000_000, mid, distance_max, geometric: false };
    let expected = Checks {
        trades: 277_950,
        volume: 7_344_413,
        hash: 0x741f_a9c5_3b2a_cbf8,
        resting: 1_000_000,
        resting_qty: 50_423_160,
        levels: [9_136, 9_095],
        best: [20_205, 20_237],
        max_id: 2_059_622,
    };
    assert_eq!(Player::new(w2).play(), expected);
}
