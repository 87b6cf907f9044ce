//! The order-book workloads: tapes of millions of commands whose trades and final book are known.
//!
//! A tape depends on the book (best prices, which orders still rest), so the generator keeps a
//! plain price-time book of its own and writes down what it drew; players then need no random
//! numbers and no generator inside their timed region. Integer arithmetic only: a seed gives the
//! same tape on every machine. W1 and W2 have check values from an independent calculation
//! ([`W1_CHECKS`], [`W2_CHECKS`]); those of the other tapes come from this generator.

use std::collections::BTreeMap;

use types::{Side, SplitMix64};

/// Commands after the prefill of W1 and W2.
pub const TIMED_COMMANDS: usize = 2_000_000;

/// What a record of a tape asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TapeKind {
    /// A limit order, good till cancelled.
    New = 0,
    /// A limit order; what does not trade at once is cancelled.
    ImmediateOrCancel = 1,
    /// The order leaves its queue and comes in again at another price and quantity.
    Replace = 2,
    /// The order with this id is cancelled.
    Cancel = 3,
}

/// One record of a tape, 24 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct TapeCommand {
    /// Id of the order.
    pub id: u64,
    /// Limit price; of a cancel 0.
    pub price: i64,
    /// Lots; of a cancel 0.
    pub qty: u32,
    /// Kind of the command.
    pub kind: TapeKind,
    /// Side of the order, also of one replaced or cancelled.
    pub side: Side,
}

const _: () = assert!(size_of::<TapeCommand>() == 24);

/// How the ids of orders are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ids {
    /// The ids are 1, 2, 3 and so on.
    Dense,
    /// The same numbers spread over 64 bits by [`permuted`].
    Permuted,
}

/// Where a dense id goes among all 64-bit numbers: a bijection, and no id goes to 0.
pub fn permuted(id: u64) -> u64 {
    SplitMix64::mix(id)
}

/// Trades folded into three numbers, the way the check values count them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TradeSum {
    /// Number of trades.
    pub trades: u64,
    /// Quantity of all trades, lots.
    pub volume: u64,
    /// Of taker id, maker id, price and quantity of each.
    pub hash: u64,
}

impl TradeSum {
    /// Adds one trade to the sums.
    #[inline(always)]
    pub fn add(&mut self, taker: u64, maker: u64, price: i64, qty: u32) {
        self.trades += 1;
        self.volume += u64::from(qty);
        for word in [taker, maker, price as u64, u64::from(qty)] {
            let mixed = self.hash.rotate_left(5) ^ word;
            self.hash = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
}

/// What a player must arrive at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// Sums over all trades of the tape.
    pub sum: TradeSum,
    /// Orders resting at the end.
    pub resting: usize,
    /// Open quantity of the resting orders, lots.
    pub resting_qty: u64,
    /// Number of price levels at the end: bids, asks.
    pub levels: [usize; 2],
    /// Best prices: bid, ask; 0 when a side is empty.
    pub best: [i64; 2],
    /// The last number given to an order, before any permutation.
    pub max_id: u64,
}

/// Check values of W1 with dense ids.
pub const W1_CHECKS: Checks = Checks {
    sum: TradeSum { trades: 426_410, volume: 10_984_362, hash: 0x8bd6_05b9_43d7_8b5d },
    resting: 9_998,
    resting_qty: 504_252,
    levels: [190, 181],
    best: [10_142, 10_143],
    max_id: 1_132_144,
};

/// Check values of W2 with dense ids.
pub const W2_CHECKS: Checks = Checks {
    sum: TradeSum { trades: 277_950, volume: 7_344_413, hash: 0x741f_a9c5_3b2a_cbf8 },
    resting: 1_000_000,
    resting_qty: 50_423_160,
    levels: [9_136, 9_095],
    best: [20_205, 20_237],
    max_id: 2_059_622,
};

/// How far from the middle passive orders are priced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Distance {
    /// Each further tick with 31 chances in 32.
    Geometric,
    /// The lesser of two uniform draws.
    LesserOfTwo,
}

/// How the middle moves, every 64 commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Drift {
    /// One tick down, none or one up, within this of where it began.
    Walk { within: i64 },
    /// To and fro over `within` either way, 1 to `step` ticks at a time.
    Swing { within: i64, step: u64 },
}

/// The parameters of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Orders of the prefill, and about how many rest from then on.
    pub target: usize,
    /// Number of commands after the prefill.
    pub commands: usize,
    mid: i64,
    distance_max: u64,
    distance: Distance,
    drift: Drift,
}

impl Workload {
    /// 10,000 orders close to the middle of a narrow range.
    pub const W1: Workload = Workload {
        seed: 1,
        target: 10_000,
        commands: TIMED_COMMANDS,
        mid: 10_000,
        distance_max: 499,
        distance: Distance::Geometric,
        drift: Drift::Walk { within: 500 },
    };

    /// A million orders on eighteen thousand levels.
    pub const W2: Workload = Workload {
        seed: 2,
        target: 1_000_000,
        commands: TIMED_COMMANDS,
        mid: 20_000,
        distance_max: 9_499,
        distance: Distance::LesserOfTwo,
        drift: Drift::Walk { within: 500 },
    };

    /// 10,000 orders around a middle that swings over 600,000 ticks, six times over.
    pub const SWING: Workload = Workload {
        seed: 3,
        target: 10_000,
        commands: TIMED_COMMANDS,
        mid: 400_000,
        distance_max: 9_499,
        distance: Distance::LesserOfTwo,
        drift: Drift::Swing { within: 300_000, step: 256 },
    };

    /// The same of another length, for tests.
    pub fn sized(self, target: usize, commands: usize) -> Workload {
        Workload { target, commands, ..self }
    }

    /// The workload called `w1`, `w2` or `swing`.
    pub fn by_name(name: &str) -> Option<Workload> {
        match name {
            "w1" => Some(Workload::W1),
            "w2" => Some(Workload::W2),
            "swing" => Some(Workload::SWING),
            _ => None,
        }
    }

    /// The independent check values of W1 and W2.
    pub fn published_checks(&self) -> Option<Checks> {
        match *self {
            Workload::W1 => Some(W1_CHECKS),
            Workload::W2 => Some(W2_CHECKS),
            _ => None,
        }
    }

    /// Draws the tape: `target` orders of prefill, then `commands` commands.
    pub fn tape(&self, ids: Ids) -> Tape {
        let mut generator = Generator::new(*self, ids);
        let total = self.target + self.commands;
        for i in 0..total {
            generator.step(i);
        }
        let checks = generator.checks();
        Tape { commands: generator.commands, prefill: self.target, checks }
    }
}

/// A tape and what it leads to.
pub struct Tape {
    /// The commands of the tape, those of the prefill first.
    pub commands: Vec<TapeCommand>,
    /// Number of commands of the prefill.
    pub prefill: usize,
    /// What a player must arrive at; trades hashed with the ids on the tape.
    pub checks: Checks,
}

/// Draws commands and plays them in a plain price-time book.
struct Generator {
    workload: Workload,
    ids: Ids,
    rng: SplitMix64,
    mid: i64,
    /// Of a swing: up or down.
    direction: i64,
    /// Numbers of resting orders; a removed one's place is taken by the last.
    live: Vec<u32>,
    /// Orders by their dense number, from 1.
    orders: Vec<Resting>,
    /// Bids, asks: first and last order of each price.
    levels: [BTreeMap<i64, (u32, u32)>; 2],
    sum: TradeSum,
    commands: Vec<TapeCommand>,
}

/// A resting order, linked to its neighbours in the queue of its price.
#[derive(Clone, Copy)]
struct Resting {
    price: i64,
    qty: u32,
    side: Side,
    /// Index of the order in [`Generator::live`].
    place: u32,
    before: u32,
    after: u32,
}

const NONE: u32 = 0;

impl Generator {
    fn new(workload: Workload, ids: Ids) -> Generator {
        let nobody =
            Resting { price: 0, qty: 0, side: Side::Buy, place: 0, before: NONE, after: NONE };
        Generator {
            ids,
            rng: SplitMix64::new(workload.seed),
            mid: workload.mid,
            direction: 1,
            live: Vec::with_capacity(workload.target * 2),
            orders: vec![nobody],
            levels: [BTreeMap::new(), BTreeMap::new()],
            sum: TradeSum::default(),
            commands: Vec::with_capacity(workload.target + workload.commands),
            workload,
        }
    }

    /// Command number `i`; draws strictly in the order the workloads are defined in.
    fn step(&mut self, i: usize) {
        let target = self.workload.target;
        if i >= target && (i - target).is_multiple_of(64) {
            self.drift();
        }
        if i < target {
            return self.new_order();
        }
        let r = self.rng.below(100);
        if r < 10 {
            self.aggressive();
        } else if r < 20 {
            if self.live.is_empty() { self.new_order() } else { self.replace() }
        } else {
            let arrivals = if self.live.len() < target { 50 } else { 30 };
            if self.rng.below(80) < arrivals || self.live.is_empty() {
                self.new_order();
            } else {
                self.cancel();
            }
        }
    }

    fn drift(&mut self) {
        let start = self.workload.mid;
        match self.workload.drift {
            Drift::Walk { within } => {
                let step = self.rng.below(3) as i64 - 1;
                self.mid = (self.mid + step).clamp(start - within, start + within);
            }
            Drift::Swing { within, step } => {
                let step = 1 + self.rng.below(step) as i64;
                self.mid += self.direction * step;
                if (self.mid - start).abs() >= within {
                    self.direction = -self.direction;
                }
                self.mid = self.mid.clamp(start - within, start + within);
            }
        }
    }

    fn new_order(&mut self) {
        let side = self.side();
        let price = self.passive(side);
        let qty = self.lots();
        self.enter(TapeKind::New, side, price, qty);
    }

    fn aggressive(&mut self) {
        let side = self.side();
        let k = self.rng.below(4) as i64;
        let best = self.best(side.opposite());
        let price = match side {
            Side::Buy => best.map_or(self.mid - 1, |best| best + k),
            Side::Sell => best.map_or(self.mid + 1, |best| best - k),
        };
        let qty = self.lots();
        let kind = if self.rng.below(2) == 0 { TapeKind::ImmediateOrCancel } else { TapeKind::New };
        self.enter(kind, side, price, qty);
    }

    fn enter(&mut self, kind: TapeKind, side: Side, price: i64, qty: u32) {
        let number = self.orders.len() as u32;
        self.orders.push(self.orders[0]);
        self.record(kind, number, side, price, qty);
        self.submit(number, side, price, qty, kind == TapeKind::New);
    }

    fn replace(&mut self) {
        let number = self.pick();
        let side = self.orders[number as usize].side;
        let price = self.passive(side);
        let qty = self.lots();
        self.record(TapeKind::Replace, number, side, price, qty);
        self.remove(number);
        self.submit(number, side, price, qty, true);
    }

    fn cancel(&mut self) {
        let number = self.pick();
        let side = self.orders[number as usize].side;
        self.record(TapeKind::Cancel, number, side, 0, 0);
        self.remove(number);
    }

    fn record(&mut self, kind: TapeKind, number: u32, side: Side, price: i64, qty: u32) {
        let id = self.id(number);
        self.commands.push(TapeCommand { id, price, qty, kind, side });
    }

    fn id(&self, number: u32) -> u64 {
        match self.ids {
            Ids::Dense => u64::from(number),
            Ids::Permuted => permuted(u64::from(number)),
        }
    }

    fn side(&mut self) -> Side {
        if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell }
    }

    fn lots(&mut self) -> u32 {
        1 + self.rng.below(100) as u32
    }

    fn pick(&mut self) -> u32 {
        self.live[self.rng.below(self.live.len() as u64) as usize]
    }

    fn passive(&mut self, side: Side) -> i64 {
        let most = self.workload.distance_max;
        let distance = match self.workload.distance {
            Distance::Geometric => {
                let mut d = 0;
                while d < most && self.rng.below(32) != 0 {
                    d += 1;
                }
                d
            }
            Distance::LesserOfTwo => {
                let (x, y) = (self.rng.below(most + 1), self.rng.below(most + 1));
                x.min(y)
            }
        } as i64;
        match side {
            Side::Buy => self.mid - 1 - distance,
            Side::Sell => self.mid + 1 + distance,
        }
    }

    fn best(&self, side: Side) -> Option<i64> {
        let levels = &self.levels[side as usize];
        match side {
            Side::Buy => levels.last_key_value(),
            Side::Sell => levels.first_key_value(),
        }
        .map(|(price, _)| *price)
    }

    fn submit(&mut self, taker: u32, side: Side, price: i64, qty: u32, rests: bool) {
        let mut left = qty;
        while left > 0
            && let Some(best) = self.best(side.opposite())
            && match side {
                Side::Buy => best <= price,
                Side::Sell => best >= price,
            }
        {
            let (maker, _) = self.levels[side.opposite() as usize][&best];
            let lots = left.min(self.orders[maker as usize].qty);
            self.sum.add(self.id(taker), self.id(maker), best, lots);
            left -= lots;
            self.orders[maker as usize].qty -= lots;
            if self.orders[maker as usize].qty == 0 {
                self.remove(maker);
            }
        }
        if left > 0 && rests {
            self.rest(taker, side, price, left);
        }
    }

    fn rest(&mut self, number: u32, side: Side, price: i64, qty: u32) {
        let place = self.live.len() as u32;
        self.live.push(number);
        let (first, last) = self.levels[side as usize].entry(price).or_insert((number, NONE));
        let before = *last;
        *last = number;
        if before == NONE {
            *first = number;
        } else {
            self.orders[before as usize].after = number;
        }
        self.orders[number as usize] = Resting { price, qty, side, place, before, after: NONE };
    }

    fn remove(&mut self, number: u32) {
        let Resting { price, side, place, before, after, .. } = self.orders[number as usize];
        if before != NONE {
            self.orders[before as usize].after = after;
        }
        if after != NONE {
            self.orders[after as usize].before = before;
        }
        let levels = &mut self.levels[side as usize];
        if before == NONE && after == NONE {
            levels.remove(&price);
        } else if let Some((first, last)) = levels.get_mut(&price) {
            if before == NONE {
                *first = after;
            }
            if after == NONE {
                *last = before;
            }
        }
        self.live.swap_remove(place as usize);
        if let Some(&moved) = self.live.get(place as usize) {
            self.orders[moved as usize].place = place;
        }
    }

    fn checks(&self) -> Checks {
        let lots = |number: &u32| u64::from(self.orders[*number as usize].qty);
        Checks {
            sum: self.sum,
            resting: self.live.len(),
            resting_qty: self.live.iter().map(lots).sum(),
            levels: [self.levels[0].len(), self.levels[1].len()],
            best: [Side::Buy, Side::Sell].map(|side| self.best(side).unwrap_or(0)),
            max_id: self.orders.len() as u64 - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tape: &Tape, index: usize) -> (u64, i64, u32, TapeKind, Side) {
        let TapeCommand { id, price, qty, kind, side } = tape.commands[index];
        (id, price, qty, kind, side)
    }

    #[test]
    fn w1_has_its_first_records_and_check_values() {
        let tape = Workload::W1.tape(Ids::Dense);
        assert_eq!(record(&tape, 0), (1, 10_067, 57, TapeKind::New, Side::Sell));
        assert_eq!(record(&tape, 1), (2, 9_971, 31, TapeKind::New, Side::Buy));
        assert_eq!(record(&tape, 10_000), (10_001, 9_951, 50, TapeKind::New, Side::Buy));
        let cancel = tape.commands[10_001];
        assert_eq!((cancel.id, cancel.kind), (1_956, TapeKind::Cancel));
        assert_eq!(tape.commands.len(), 2_010_000);
        assert_eq!(tape.checks, W1_CHECKS);
    }

    #[test]
    fn w2_has_its_first_record_and_check_values() {
        let tape = Workload::W2.tape(Ids::Dense);
        assert_eq!(record(&tape, 0), (1, 25_659, 77, TapeKind::New, Side::Sell));
        assert_eq!(tape.checks, W2_CHECKS);
    }

    #[test]
    fn the_swing_tape_covers_hundreds_of_thousands_of_ticks() {
        let tape = Workload::SWING.tape(Ids::Dense);
        let prices = tape.commands.iter().filter(|command| command.price != 0);
        let (low, high) = prices.fold((i64::MAX, 0), |(low, high), command| {
            (low.min(command.price), high.max(command.price))
        });
        assert!(low > 0 && high - low > 500_000, "{low} to {high}");
        assert!(tape.checks.sum.trades > 100_000, "{:?}", tape.checks);
    }

    #[test]
    fn permuting_ids_changes_nothing_but_ids() {
        let short = Workload::W1.sized(10_000, 20_000);
        let (dense, spread) = (short.tape(Ids::Dense), short.tape(Ids::Permuted));
        for (a, b) in dense.commands.iter().zip(&spread.commands) {
            assert_eq!(*b, TapeCommand { id: permuted(a.id), ..*a });
        }
        assert_eq!(dense.checks.sum.trades, spread.checks.sum.trades);
        assert_ne!(dense.checks.sum.hash, spread.checks.sum.hash);
    }

    #[test]
    fn another_seed_gives_other_check_values() {
        let other = Workload { seed: 9, ..Workload::W1 };
        assert_eq!(other.published_checks(), None);
        assert_ne!(other.tape(Ids::Dense).checks, W1_CHECKS);
    }
}
