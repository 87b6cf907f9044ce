//! A market that opens with an auction, out of DBN: nothing trades that did not, and with the
//! implied calls taken away (which no product path can do) the comparison says so.

use dbn::{FlagSet, MboMsg, Schema, UNDEF_PRICE};
use types::{Qty, SplitMix64};

use super::*;
use crate::dbn::read_dbn;
use crate::dbn::tests::{file, mbo};
use crate::equality::Shares;
use strategy::{Desk, Idle};

const LAST: u8 = dbn::flags::LAST;
const SNAPSHOT: u8 = dbn::flags::SNAPSHOT;

/// A venue that writes what it does.
struct Writer {
    messages: Vec<MboMsg>,
    /// Number, side, ticks, lots; first of a price first.
    live: Vec<(u64, u8, i64, u32)>,
    last: u64,
    time: u64,
    /// Lots traded in continuous trading and, counted once, in auctions.
    traded: (u64, u64),
}

fn price(ticks: i64) -> i64 {
    ticks * 250_000_000
}

impl Writer {
    fn say(&mut self, action: u8, side: u8, order: u64, ticks: Option<i64>, size: u32, flags: u8) {
        let price = ticks.map_or(UNDEF_PRICE, price);
        let mut message = mbo(action, side, order, price, size, self.time);
        message.flags = FlagSet::new(flags);
        self.messages.push(message);
    }

    fn add(&mut self, side: u8, ticks: i64, size: u32, flags: u8) {
        self.last += 1;
        self.say(b'A', side, self.last, Some(ticks), size, flags);
        self.live.push((self.last, side, ticks, size));
    }

    fn best(&self, side: u8) -> Option<usize> {
        let sign = if side == b'B' { -1 } else { 1 };
        let own = (0..self.live.len()).filter(|&slot| self.live[slot].1 == side);
        own.min_by_key(|&slot| (self.live[slot].2 * sign, slot))
    }

    /// Best orders of both sides trade at one price until nothing is crossed; then cancels follow.
    fn uncross(&mut self, ticks: i64) {
        let (mut fills, mut total) = (Vec::new(), 0);
        while let (Some(bid), Some(ask)) = (self.best(b'B'), self.best(b'A')) {
            if self.live[bid].2 < self.live[ask].2 {
                break;
            }
            let lots = self.live[bid].3.min(self.live[ask].3);
            total += lots;
            for slot in [bid, ask] {
                self.live[slot].3 -= lots;
                fills.push((self.live[slot].0, self.live[slot].1, self.live[slot].2, lots));
            }
            self.live.retain(|order| order.3 > 0);
        }
        self.say(b'T', b'N', 0, Some(ticks), total, 0);
        for &(order, _, _, lots) in &fills {
            self.say(b'F', b'N', order, Some(ticks), lots, 0);
        }
        for (number, &(order, side, own, lots)) in fills.iter().enumerate() {
            let flags = if number + 1 == fills.len() { LAST } else { 0 };
            self.say(b'C', side, order, Some(own), lots, flags);
        }
        self.traded.1 += u64::from(total);
    }

    /// Somebody comes and takes lots of the best price of a side.
    fn take(&mut self, side: u8, lots: u32) {
        let Some(slot) = self.best(side) else { return };
        let (order, _, ticks, left) = self.live[slot];
        let lots = lots.min(left);
        let comer = if side == b'B' { b'A' } else { b'B' };
        self.say(b'T', comer, 0, Some(ticks), lots, 0);
        self.say(b'F', side, order, Some(ticks), lots, 0);
        self.say(b'C', side, order, Some(ticks), lots, LAST);
        self.live[slot].3 -= lots;
        self.live.retain(|order| order.3 > 0);
        self.traded.0 += u64::from(lots);
    }
}

/// A snapshot, a pre-open with crossed orders, an auction, trading, and once more.
fn day(seed: u64) -> Writer {
    let mut random = SplitMix64::new(seed);
    let (messages, live) = (Vec::new(), Vec::new());
    let mut writer = Writer { messages, live, last: 0, time: 1_000, traded: (0, 0) };
    writer.say(b'R', b'N', 0, None, 0, SNAPSHOT);
    for depth in 0..20 {
        let flags = if depth == 19 { SNAPSHOT | LAST } else { SNAPSHOT };
        writer.add(b'B', 19_190 - depth, 5, SNAPSHOT);
        writer.add(b'A', 19_210 + depth, 5, flags);
    }
    for _ in 0..2 {
        for _ in 0..60 {
            writer.time += 1_000;
            let side = if random.permille(500) { b'B' } else { b'A' };
            let ticks = 19_195 + random.below(12) as i64;
            writer.add(side, ticks, 1 + random.below(9) as u32, LAST);
        }
        writer.time += 1_000;
        writer.uncross(19_200);
        for _ in 0..400 {
            writer.time += 1_000;
            let side = if random.permille(500) { b'B' } else { b'A' };
            match random.below(4) {
                0 => {
                    let slot = random.below(writer.live.len() as u64) as usize;
                    let (order, side, ticks, lots) = writer.live.remove(slot);
                    writer.say(b'C', side, order, Some(ticks), lots, LAST);
                }
                1 => writer.take(side, 1 + random.below(6) as u32),
                _ => {
                    let other = if side == b'B' { b'A' } else { b'B' };
                    let best = writer.best(other).map_or(19_200, |slot| writer.live[slot].2);
                    let away = 1 + random.below(9) as i64;
                    let ticks = if side == b'B' { best - away } else { best + away };
                    writer.add(side, ticks, 1 + random.below(9) as u32, LAST);
                }
            }
        }
    }
    writer
}

fn idle(recording: &Recording, turns: &[Turn]) -> Outcome {
    play(recording, Config::default(), &mut Idle, &mut Unobserved, turns).unwrap()
}

fn all_equal(shares: Shares) -> bool {
    [shares.price, shares.size, shares.levels] == [shares.events; 3]
}

#[test]
fn an_auction_trades_as_recorded_and_books_recover_after_it() {
    for seed in 0..4 {
        let writer = day(seed);
        let bytes = file(Schema::Mbo, &writer.messages);
        let recording = read_dbn(bytes.as_slice(), &[], 100_000).unwrap();
        let turns = implied(&recording);
        assert_eq!(turns.first().map(|turn| (turn.index, turn.begins)), Some((0, true)));
        let outcome = idle(&recording, &turns);
        let (equality, market) = (outcome.equality, outcome.market);
        assert_eq!((market.crossed, market.out_of_turn, outcome.missing.1), (0, 0, 0), "{seed}");
        assert_eq!((market.traded, market.called), (writer.traded.0, 2 * writer.traded.1));
        assert_eq!(market.calls_implied, 2);
        assert!(all_equal(equality.calls) && all_equal(equality.outside), "{equality:?}");
        // The event of an auction itself is part of its call.
        assert_eq!(equality.excluded, [41, 0, 0]);
        assert!((110..=122).contains(&equality.calls.events), "{equality:?}");
        assert!(equality.outside.events > 700, "{equality:?}");

        // Control: without the calls lots trade that did not, and books differ.
        let ignored = idle(&recording, &[]);
        assert!(ignored.market.crossed > 0, "{:?}", ignored.market);
        assert!(!all_equal(ignored.equality.outside), "{:?}", ignored.equality);
        let at_least = ignored.equality.outside;
        assert!(at_least.price * 100 < at_least.events * 99, "{at_least:?}");
    }
}

#[test]
fn what_the_data_says_of_its_state_holds_and_what_it_lost_is_not_compared() {
    let mut writer = day(1);
    let torn = writer.messages.len() - 50;
    for message in &mut writer.messages[torn..torn + 3] {
        message.flags = FlagSet::new(message.flags.raw() | dbn::flags::MAYBE_BAD_BOOK);
    }
    let bytes = file(Schema::Mbo, &writer.messages);
    let recording = read_dbn(bytes.as_slice(), &[], 100_000).unwrap();
    let outcome = idle(&recording, &implied(&recording));
    assert!(outcome.equality.excluded[1] > 20, "{:?}", outcome.equality);
    assert!(all_equal(outcome.equality.outside));

    // Stated: nothing trades while the state says so, although the book is not crossed.
    let mut closed = Recording::new(4);
    let id = closed.instrument(types::Symbol::new("A").unwrap()).unwrap();
    let (order, side, qty, price) = (1, Side::Buy, 5, 100);
    let printed = crate::record::Printed::AtLimit;
    let events = [
        What::Trading(false),
        What::Add { order, side, qty, price },
        What::Execute { order, qty: 2, printed },
        What::Trading(true),
        What::Execute { order, qty: 1, printed },
    ];
    for (time, what) in (10..).zip(events) {
        closed.push(Record { time: Nanos(time), instrument: id, what }, 100).unwrap();
    }
    let market = idle(&closed, &implied(&closed)).market;
    assert_eq!((market.called, market.traded, market.states), (2, 1, 2));
}

/// Buys at the best ask twice, first to rest below, then through its own order.
struct Selfish(u32);

impl Strategy for Selfish {
    fn name(&self) -> &str {
        "selfish"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        let terms = |price| (5, types::Price(price));
        let day = types::TimeInForce::Day;
        if self.0 == 0 {
            desk.send(instrument, Side::Sell, terms(105), day, true);
        } else if self.0 == 1 && desk.orders(instrument).any(|order| order.working) {
            desk.send(instrument, Side::Buy, terms(110), day, false);
        } else {
            return;
        }
        self.0 += 1;
    }
}

#[test]
fn the_strategy_never_trades_with_itself() {
    let mut recording = Recording::new(4);
    let id = recording.instrument(types::Symbol::new("A").unwrap()).unwrap();
    for order in 1..6 {
        let (side, price) = if order % 2 == 0 { (Side::Buy, 90) } else { (Side::Sell, 110) };
        let what = What::Add { order, side, qty: 5, price };
        let record = Record { time: Nanos(order * Nanos::SECOND), instrument: id, what };
        recording.push(record, 100).unwrap();
    }
    let run = |self_trade| {
        let config = Config { self_trade, ..Config::default() };
        run(&recording, config, &mut Selfish(0)).unwrap()
    };
    let newest = run(SelfTrade::CancelNewest);
    assert!(newest.fills.is_empty(), "{:?}", newest.fills);
    let oldest = run(SelfTrade::CancelOldest);
    let fills: Vec<_> = oldest.fills.iter().map(|fill| (fill.price.0, fill.qty)).collect();
    assert_eq!(fills, [(110, Qty(5))]);
    // Control: where it is allowed, it does.
    let allowed = run(SelfTrade::Allow);
    assert_eq!(allowed.fills.iter().filter(|fill| fill.price.0 == 105).count(), 2);
}
