//! Random inputs of every kind for small books: all order types and lives, replaces, phases,
//! auctions, limits, kill switches, mass cancels, broken trades, days. Determined by a seed.

use engine::{Config, InstrumentRules};
use types::{
    AccountId, Allocation, ClOrdId, Command, CommandKind, GatewayId, Incarnation, Input,
    InstrumentId, InstrumentParam, LimitKind, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY,
    ORDER_POST_ONLY_SLIDE, OrderType, Phase, Price, Qty, SelfTrade, Seq, Side, Source, SplitMix64,
    TimeInForce, Trigger, UserRefNum,
};

use crate::bench;

pub const ACCOUNTS: u16 = 4;

/// A configuration for a seed: every rule an instrument may have comes up.
pub fn config(seed: u64) -> Config {
    let mut rng = SplitMix64::new(!seed);
    let mut rules: Vec<InstrumentRules> = Vec::new();
    for instrument in bench::instruments() {
        let mut rule = InstrumentRules::of(&instrument);
        if rng.below(3) == 0 {
            let (top_order, min_allocation) = (rng.below(2) == 0, rng.below(3) as u32);
            rule.allocation = Allocation::ProRata { top_order, min_allocation };
        }
        if rng.below(2) == 0 {
            rule.trigger = Trigger::Touch;
        }
        rule.reference = Price(if rng.below(2) == 0 { 200 } else { 0 });
        rule.static_collar_bp = if rng.below(3) == 0 { 1_500 } else { 0 };
        rule.dynamic_collar_bp = if rng.below(2) == 0 { 500 } else { 0 };
        rules.push(rule);
    }
    let tight = rng.below(3) == 0;
    let orders = if tight { 12 } else { 64 };
    Config {
        accounts_max: usize::from(ACCOUNTS),
        book: book::Capacity { orders, levels: 12, stops: 6, pegs: 4 },
        rules,
        groups: if rng.below(2) == 0 { vec![1, 1, 2, 2] } else { Vec::new() },
        self_trade: vec![SelfTrade::Allow, SelfTrade::CancelOldest],
        unique_cl_ord_id: rng.below(3) == 0,
        trades_kept: 16,
        ..bench::config()
    }
}

pub struct Flow {
    rng: SplitMix64,
    seq: u64,
    now: u64,
    sent: u64,
    last: [u32; ACCOUNTS as usize + 1],
    matches: u64,
}

impl Flow {
    pub fn new(seed: u64) -> Flow {
        let last = [0; ACCOUNTS as usize + 1];
        Flow { rng: SplitMix64::new(seed), seq: 0, now: 1_000, sent: 0, last, matches: 0 }
    }

    /// The next input; `matches` is about how many trades there were.
    pub fn next_input(&mut self, matches: u64) -> Input {
        self.matches = matches;
        self.seq += 1;
        self.now += self.rng.below(100_000_000);
        let mut source = Source::default();
        let command = match self.seq {
            1 => {
                let param = self.rng.below(2) as u8;
                Command { param, ..Command::new(CommandKind::StartOfDay) }
            }
            2 => {
                source.gateway = GatewayId(1);
                Command::new(CommandKind::GrantIncarnation)
            }
            _ => match self.rng.below(1_000) {
                0..130 => self.operate(),
                _ => {
                    self.sent += 1;
                    let (gateway, incarnation) = (GatewayId(1), Incarnation(1));
                    source = Source { gateway, incarnation, seq: self.sent, ..source };
                    self.request()
                }
            },
        };
        let (seq, t) = (Seq(self.seq), Nanos(self.now));
        let back = self.rng.below(1_000);
        Input { seq, t_in: Nanos(t.0 - back), t_seq: t, source, flags: 0, command }
    }

    fn operate(&mut self) -> Command {
        let rng = &mut self.rng;
        let kind = match rng.below(100) {
            0..45 => CommandKind::SetPhase,
            45..53 => CommandKind::Uncross,
            53..58 => CommandKind::PublishIndicative,
            58..62 => CommandKind::ExpireOrders,
            62..72 => CommandKind::SetLimit,
            72..76 => CommandKind::Kill,
            76..81 => CommandKind::SetInstrument,
            81..87 => CommandKind::BustTrade,
            87..92 => CommandKind::CorrectTrade,
            92..95 => CommandKind::MassCancel,
            95..97 => CommandKind::EndOfDay,
            _ => CommandKind::StartOfDay,
        };
        let mut c = Command::new(kind);
        c.instrument = InstrumentId(rng.below(3) as u16);
        match kind {
            CommandKind::SetPhase => {
                let phase = match rng.below(20) {
                    0..9 => Phase::Continuous,
                    n => Phase::ALL[n as usize % 8],
                };
                c.param = phase as u8;
            }
            CommandKind::SetLimit => {
                c.account = AccountId(rng.below(u64::from(ACCOUNTS) + 1) as u16);
                let kind = LimitKind::ALL[rng.below(7) as usize];
                c.param = kind as u8;
                let ample = [36, 7_500, 20, 120, 40_000, 12, 3_000];
                let value = ample[kind as usize] / (1 + rng.below(3));
                c.qty = Qty(if rng.below(2) == 0 { u64::MAX } else { value });
            }
            CommandKind::Kill => {
                c.account = AccountId(rng.below(u64::from(ACCOUNTS) + 1) as u16);
                c.param = u8::from(rng.below(3) == 0);
            }
            CommandKind::SetInstrument => {
                c.param = rng.below(6) as u8;
                c.price = Price(180 + 5 * rng.below(9) as i64);
                if c.param == InstrumentParam::Tick as u8 {
                    c.price = Price([5, 1, 0, 10][rng.below(4) as usize]);
                }
                c.qty = Qty([0, 1_000, 1, 500, 2_000][rng.below(5) as usize]);
                if c.param == InstrumentParam::Reference as u8 && c.qty >= Qty(500) {
                    c.price.0 += 2;
                }
            }
            CommandKind::BustTrade | CommandKind::CorrectTrade => {
                c.qty = Qty(self.matches.saturating_sub(rng.below(8)));
                c.price = Price(180 + rng.below(40) as i64);
                c.min_qty = rng.below(10) as u32;
            }
            CommandKind::MassCancel => c.param = rng.below(3) as u8,
            CommandKind::EndOfDay => c.param = rng.below(2) as u8,
            _ => c.param = rng.below(2) as u8,
        }
        c
    }

    fn request(&mut self) -> Command {
        let account = 1 + self.rng.below(u64::from(ACCOUNTS)) as u16;
        let kind = match self.rng.below(100) {
            0..62 => CommandKind::NewOrder,
            62..82 => CommandKind::Replace,
            82..98 => CommandKind::Cancel,
            _ => CommandKind::MassCancel,
        };
        let mut c = Command::new(kind);
        c.account = AccountId(account);
        let recent = self.last[usize::from(account)].saturating_sub(self.rng.below(12) as u32);
        c.qty = Qty(1 + self.rng.below(20));
        if kind == CommandKind::Cancel {
            c.user_ref = UserRefNum(recent);
            c.qty = Qty(if self.rng.below(2) == 0 { 0 } else { c.qty.0 / 2 });
            return c;
        }
        self.last[usize::from(account)] += 1;
        c.user_ref = UserRefNum(self.last[usize::from(account)]);
        if kind == CommandKind::MassCancel {
            (c.qty, c.param) = (Qty(0), self.rng.below(3) as u8);
            c.instrument = InstrumentId(self.rng.below(3) as u16);
            return c;
        }
        c.orig_user_ref = UserRefNum(if kind == CommandKind::Replace { recent } else { 0 });
        c.instrument = InstrumentId(1 + self.rng.below(2) as u16);
        if self.rng.below(2) == 0 {
            c.cl_ord_id = ClOrdId([b'a' + self.rng.below(26) as u8; 14]);
        }
        self.terms(&mut c);
        c
    }

    fn terms(&mut self, c: &mut Command) {
        let rng = &mut self.rng;
        c.side = if rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        c.price = Price(180 + 5 * rng.below(9) as i64);
        c.order_type = match rng.below(30) {
            0 | 1 => OrderType::Market,
            2 => OrderType::MarketToLimit,
            3 => OrderType::Stop,
            4 => OrderType::StopLimit,
            5 => OrderType::TrailingStop,
            6 => OrderType::PegPrimary,
            7 => OrderType::PegMid,
            _ => OrderType::Limit,
        };
        c.time_in_force = match rng.below(20) {
            0..3 => TimeInForce::ImmediateOrCancel,
            3 => TimeInForce::FillOrKill,
            4 => TimeInForce::AtTheOpen,
            5 => TimeInForce::AtTheClose,
            6 | 7 => TimeInForce::GoodTillDate,
            8..14 => TimeInForce::Day,
            _ => TimeInForce::GoodTillCancelled,
        };
        if c.time_in_force == TimeInForce::GoodTillDate {
            let ahead = 1 + rng.below(2_000_000_000);
            let past = rng.below(20) == 0;
            c.expire_at = Nanos(if past { self.now } else { self.now + ahead });
        }
        match c.order_type {
            OrderType::Limit => {}
            OrderType::StopLimit => c.stop_price = Price(180 + 5 * rng.below(9) as i64),
            OrderType::Stop => {
                (c.price, c.stop_price) = (Price(0), Price(180 + 5 * rng.below(9) as i64));
            }
            OrderType::TrailingStop => {
                (c.price, c.stop_price) = (Price(0), Price(1 + rng.below(20) as i64));
            }
            OrderType::PegPrimary => c.stop_price = Price(5 * rng.below(3) as i64),
            OrderType::Market | OrderType::MarketToLimit => c.price = Price(0),
            OrderType::PegMid => c.price = if rng.below(2) == 0 { Price(0) } else { c.price },
        }
        c.flags = match rng.below(14) {
            0 => ORDER_POST_ONLY,
            1 => ORDER_POST_ONLY_SLIDE,
            2 => ORDER_HIDDEN,
            _ => 0,
        };
        match rng.below(10) {
            0 | 1 if c.flags & ORDER_HIDDEN == 0 => c.display_qty = 1 + rng.below(8) as u32,
            2 => c.min_qty = 1 + rng.below(8) as u32,
            _ => {}
        }
        c.self_trade = match rng.below(10) {
            0 => SelfTrade::CancelNewest,
            1 => SelfTrade::CancelOldest,
            2 => SelfTrade::CancelBoth,
            3 | 4 => SelfTrade::Decrement,
            _ => SelfTrade::Allow,
        };
    }
}
