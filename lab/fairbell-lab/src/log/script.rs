//! A made-up trading day after the other, as inputs of a log: all kinds of orders and commands.
//!
//! Everything follows from the seed. Participants ask through gateways with transport numbers (some
//! requests come twice, over the same gateway or another); the exchange's own commands move the
//! instruments through calls, halts and batch auctions, set limits, kill and release accounts, cancel in bulk,
//! break and correct trades, and end the day. Nothing here knows what became of an order: some
//! requests come too late, as in the field.

use types::{
    AccountId, ClOrdId, Command, CommandKind, GatewayId, Incarnation, Instrument, InstrumentId,
    InstrumentParam, LimitKind, Nanos, ORDER_HIDDEN, ORDER_POST_ONLY, ORDER_POST_ONLY_SLIDE,
    OrderType, Phase, Price, Qty, SelfTrade, ShardId, Side, Source, SplitMix64, TimeInForce,
    UserRefNum,
};

/// Inputs of one day.
const DAY: u64 = 200_000;
/// Gateways that requests come through.
pub const GATEWAYS: u16 = 3;
/// Accounts that ask.
pub const ACCOUNTS: u16 = 8;
/// Own orders that a cancel or replace may name, per instrument.
const REMEMBERED: usize = 512;
/// Time between two inputs on average.
const STEP_NS: u64 = 20 * Nanos::MICRO;
/// Ten in the morning of some day.
const START: Nanos = Nanos(1_767_261_600 * Nanos::SECOND);
/// In calls and batches, most inputs between two publications or uncrossings.
const CALL_STEP_MAX: u64 = 100;

/// One input before it has its place in the log; `t_in` is in `at`, too.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// When it reaches the log.
    pub at: Nanos,
    /// Where it comes from.
    pub source: Source,
    /// What is asked; a participant's request still goes through its wire format.
    pub command: Command,
}

/// An order that was asked for.
#[derive(Clone, Copy)]
struct Own {
    account: u16,
    user_ref: UserRefNum,
    side: Side,
    price: Price,
    qty: u64,
}

/// The inputs, without end.
pub struct Script {
    rng: SplitMix64,
    instruments: Vec<Instrument>,
    /// By instrument: a reference in ticks that walks, and orders that were asked for.
    markets: Vec<(i64, Vec<Own>)>,
    at: Nanos,
    /// Inputs made so far, and of the present day.
    made: u64,
    of_day: u64,
    /// Inputs of one day.
    day: u64,
    next_ref: [u32; ACCOUNTS as usize],
    next_seq: [u64; GATEWAYS as usize],
    last: Option<Step>,
    killed: u16,
}

impl Script {
    /// Days of so many inputs at most, `total` of them in all, on these instruments.
    pub fn new(seed: u64, total: u64, instruments: &[Instrument]) -> Script {
        let market = |instrument: &Instrument| {
            ((Price::from_whole(100).0 / instrument.tick.0.max(1)).max(10), Vec::new())
        };
        Script {
            rng: SplitMix64::new(seed),
            markets: instruments.iter().map(market).collect(),
            instruments: instruments.to_vec(),
            at: START,
            made: 0,
            of_day: 0,
            day: (total / 2).clamp(400, DAY),
            next_ref: [1; ACCOUNTS as usize],
            next_seq: [1; GATEWAYS as usize],
            last: None,
            killed: 0,
        }
    }

    /// The next input.
    pub fn next_step(&mut self) -> Step {
        self.at = self.at.after(1 + self.rng.below(2 * STEP_NS));
        let gateways = u64::from(GATEWAYS);
        if self.made < gateways {
            self.made += 1;
            return self.grant(self.made as u16);
        }
        self.made += 1;
        let place = self.of_day;
        self.of_day = (place + 1) % self.day;
        if self.of_day == 0 {
            // A night between two days.
            self.at = self.at.after(57_600 * Nanos::SECOND);
        }
        let step = match self.by_plan(place) {
            Some(command) => Step { at: self.at, source: Source::default(), command },
            None => self.request(),
        };
        self.last = Some(step);
        step
    }

    fn grant(&self, gateway: u16) -> Step {
        let mut command = Command::new(CommandKind::GrantIncarnation);
        command.user_ref = UserRefNum(1_000 + u32::from(gateway));
        let source = Source { gateway: GatewayId(gateway), ..Source::default() };
        Step { at: self.at, source, command }
    }

    /// What the exchange itself does at this place of the day.
    fn by_plan(&mut self, place: u64) -> Option<Command> {
        let unit = self.day / 100;
        let step = unit.min(CALL_STEP_MAX);
        let count = self.instruments.len() as u64;
        let (part, within) = (place / unit, place % unit);
        let all = InstrumentId(0);
        let one = |n: u64| InstrumentId((n % count) as u16 + 1);
        let phase = |instrument, phase: Phase| {
            Some(Command { instrument, param: phase as u8, ..Command::new(CommandKind::SetPhase) })
        };
        if part == 0 {
            return self.morning(within);
        }
        match (part, within) {
            (4, 0) => phase(all, Phase::OpeningCall),
            (8, 0) => phase(all, Phase::Continuous),
            (30, 0) => phase(one(1), Phase::Halt),
            (33, 0) => phase(one(1), Phase::VolatilityCall),
            (36, 0) => phase(one(1), Phase::Continuous),
            (45, 0) => phase(one(2), Phase::Batch),
            (60, 0) => phase(one(2), Phase::Continuous),
            (65, 0) => Some(self.kill(true)),
            (66, 0) => Some(self.kill(false)),
            (70, 0) => Some(Command { param: 1, instrument: one(0), ..operator_cancel() }),
            (94, 0) => phase(all, Phase::ClosingCall),
            (98, 0) => phase(all, Phase::Closed),
            (99, 1) => Some(Command::new(CommandKind::EndOfDay)),
            (45..60, _) if place.is_multiple_of(step) => {
                Some(Command { instrument: all, ..Command::new(CommandKind::Uncross) })
            }
            (4..8 | 33..36 | 94..98, _) if place.is_multiple_of(step) => {
                Some(Command::new(CommandKind::PublishIndicative))
            }
            (_, 2) if part % 10 == 5 => Some(Command::new(CommandKind::ExpireOrders)),
            (75..80, 3) => Some(self.mend_trade()),
            _ => None,
        }
    }

    /// The first inputs of a day: begin it, then reference prices and limits.
    fn morning(&mut self, within: u64) -> Option<Command> {
        let count = self.instruments.len() as u64;
        let place = within as usize % self.instruments.len();
        let tick = self.instruments.get(place)?.tick.0;
        let (reference, id) = (self.markets.get(place)?.0, InstrumentId(place as u16 + 1));
        let set = |param: InstrumentParam| Command {
            instrument: id,
            param: param as u8,
            ..Command::new(CommandKind::SetInstrument)
        };
        let limit = |kind: LimitKind, qty: u64| Command {
            account: AccountId(1),
            param: kind as u8,
            qty: Qty(qty),
            ..Command::new(CommandKind::SetLimit)
        };
        match within {
            0 => Some(Command { param: 1, ..Command::new(CommandKind::StartOfDay) }),
            n if n <= count => {
                // Where prices have bands, the larger tick is five of the smaller one.
                let price = Price(reference / 5 * 5 * tick);
                Some(Command { price, ..set(InstrumentParam::Reference) })
            }
            n if n <= 2 * count => {
                Some(Command { qty: Qty(5_000), ..set(InstrumentParam::StaticCollar) })
            }
            _ => match within - 2 * count {
                1 => Some(limit(LimitKind::OrderQuantity, 900)),
                2 => Some(limit(LimitKind::OpenOrders, 400)),
                _ => None,
            },
        }
    }

    fn kill(&mut self, on: bool) -> Command {
        if on {
            self.killed = 1 + self.rng.below(u64::from(ACCOUNTS)) as u16;
        }
        Command {
            account: AccountId(self.killed),
            param: u8::from(on),
            cl_ord_id: operator_name(),
            ..Command::new(CommandKind::Kill)
        }
    }

    /// Breaks or corrects some trade, whether there is one of that number or not.
    fn mend_trade(&mut self) -> Command {
        let number = Qty(1 + self.rng.below(self.made.max(8) / 8));
        let kind = match self.rng.below(2) {
            0 => CommandKind::BustTrade,
            _ => CommandKind::CorrectTrade,
        };
        let mut command = Command { qty: number, cl_ord_id: operator_name(), ..Command::new(kind) };
        if kind == CommandKind::CorrectTrade {
            (command.price, command.min_qty) = (Price::from_whole(100), 1);
        }
        command
    }

    /// What a participant asks, or asks again.
    fn request(&mut self) -> Step {
        let draw = self.rng.below(1_000);
        let again = self.last.filter(|last| draw < 10 && last.source.gateway.0 > 0);
        if let Some(last) = again.filter(|_| draw < 5) {
            return Step { at: self.at, ..last };
        }
        let command = match again {
            Some(last) => last.command,
            None => self.command(),
        };
        let gateway = self.rng.below(u64::from(GATEWAYS)) as usize;
        let source = Source {
            gateway: GatewayId(gateway as u16 + 1),
            shard: ShardId(0),
            incarnation: Incarnation(1),
            seq: self.next_seq[gateway],
        };
        self.next_seq[gateway] += 1;
        Step { at: self.at, source, command }
    }

    fn command(&mut self) -> Command {
        let market = self.rng.below(self.markets.len() as u64) as usize;
        let reference = &mut self.markets[market].0;
        if self.rng.below(8) == 0 {
            let up = self.rng.below(2) == 0;
            *reference = (*reference + if up { 1 } else { -1 }).max(10);
        }
        match self.rng.below(100) {
            0..50 => self.new_order(market),
            50..56 => self.special(market),
            56..80 => self.cancel(market).unwrap_or_else(|| self.new_order(market)),
            80..99 => self.replace(market).unwrap_or_else(|| self.new_order(market)),
            _ => self.mass_cancel(market),
        }
    }

    fn enter(&mut self, market: usize) -> (Command, u16) {
        let account = self.rng.below(u64::from(ACCOUNTS)) as u16;
        let mut command = Command::new(CommandKind::NewOrder);
        command.account = AccountId(account + 1);
        command.instrument = InstrumentId(market as u16 + 1);
        command.user_ref = self.take_ref(account);
        command.cl_ord_id = name(b'O', u64::from(command.user_ref.0));
        command.side = if self.rng.below(2) == 0 { Side::Buy } else { Side::Sell };
        command.qty = Qty(1 + self.rng.below(1_000));
        (command, account)
    }

    fn take_ref(&mut self, account: u16) -> UserRefNum {
        let next = &mut self.next_ref[usize::from(account)];
        *next += 1;
        UserRefNum(*next - 1)
    }

    /// A price at this many ticks on the passive side of the reference.
    fn price(&self, market: usize, side: Side, ticks: i64) -> Price {
        let tick = self.instruments[market].tick.0;
        let signed = if side == Side::Buy { -ticks } else { ticks };
        Price((self.markets[market].0 + signed).max(1) * tick)
    }

    fn new_order(&mut self, market: usize) -> Command {
        let (mut command, account) = self.enter(market);
        let away = self.rng.below(24) as i64 - 4;
        command.price = self.price(market, command.side, away);
        command.time_in_force = match self.rng.below(20) {
            0..10 => TimeInForce::Day,
            10..16 => TimeInForce::GoodTillCancelled,
            16 => TimeInForce::ImmediateOrCancel,
            17 => TimeInForce::FillOrKill,
            18 => TimeInForce::GoodTillDate,
            _ => {
                if self.of_day < self.day / 12 {
                    TimeInForce::AtTheOpen
                } else {
                    TimeInForce::AtTheClose
                }
            }
        };
        if command.time_in_force == TimeInForce::GoodTillDate {
            command.expire_at = self.far_second();
        }
        let resting = matches!(
            command.time_in_force,
            TimeInForce::Day | TimeInForce::GoodTillCancelled | TimeInForce::GoodTillDate
        );
        match self.rng.below(20) {
            0 if resting => command.flags = ORDER_POST_ONLY,
            1 if resting => command.flags = ORDER_POST_ONLY_SLIDE,
            2 if resting => command.flags = ORDER_HIDDEN,
            3 | 4 if resting => command.display_qty = 1 + self.rng.below(command.qty.0) as u32,
            5 if command.time_in_force == TimeInForce::ImmediateOrCancel => {
                command.min_qty = 1 + self.rng.below(command.qty.0) as u32;
            }
            _ => {}
        }
        command.self_trade = [
            SelfTrade::Allow,
            SelfTrade::CancelNewest,
            SelfTrade::CancelOldest,
            SelfTrade::CancelBoth,
            SelfTrade::Decrement,
        ][self.rng.below(5) as usize];
        self.remember(market, account, &command);
        command
    }

    /// An order that has no limit price, or waits for one.
    fn special(&mut self, market: usize) -> Command {
        let (mut command, account) = self.enter(market);
        let tick = self.instruments[market].tick.0;
        let away = 1 + self.rng.below(12) as i64;
        command.order_type = [
            OrderType::Market,
            OrderType::MarketToLimit,
            OrderType::Stop,
            OrderType::StopLimit,
            OrderType::TrailingStop,
            OrderType::PegPrimary,
            OrderType::PegMid,
        ][self.rng.below(7) as usize];
        // A stop lies on the far side: above the market for a buy.
        let stop = self.price(market, command.side, -away);
        match command.order_type {
            OrderType::Market => command.time_in_force = TimeInForce::ImmediateOrCancel,
            OrderType::Stop => command.stop_price = stop,
            OrderType::StopLimit => {
                (command.stop_price, command.price) =
                    (stop, self.price(market, command.side, -away - 2));
            }
            OrderType::TrailingStop => command.stop_price = Price(away * tick),
            OrderType::PegPrimary => command.stop_price = Price(away / 4 * tick),
            OrderType::PegMid | OrderType::MarketToLimit | OrderType::Limit => {}
        }
        self.remember(market, account, &command);
        command
    }

    /// Some minutes or days from now, on a second.
    fn far_second(&mut self) -> Nanos {
        let ahead = 1 + self.rng.below(4_000);
        Nanos((self.at.0 / Nanos::SECOND + ahead) * Nanos::SECOND)
    }

    fn remember(&mut self, market: usize, account: u16, command: &Command) {
        let own = Own {
            account,
            user_ref: command.user_ref,
            side: command.side,
            price: command.price,
            qty: command.qty.0,
        };
        let place = self.rng.below(REMEMBERED as u64) as usize;
        let kept = &mut self.markets[market].1;
        if kept.len() < REMEMBERED {
            kept.push(own);
        } else if let Some(slot) = kept.get_mut(place) {
            *slot = own;
        }
    }

    fn pick(&mut self, market: usize) -> Option<Own> {
        let len = self.markets[market].1.len() as u64;
        if len == 0 {
            return None;
        }
        let place = self.rng.below(len) as usize;
        Some(self.markets[market].1.swap_remove(place))
    }

    fn cancel(&mut self, market: usize) -> Option<Command> {
        let own = self.pick(market)?;
        let mut command = Command::new(CommandKind::Cancel);
        command.account = AccountId(own.account + 1);
        command.user_ref = own.user_ref;
        // One in eight only makes the order smaller.
        command.qty = Qty(if self.rng.below(8) == 0 { own.qty / 2 } else { 0 });
        Some(command)
    }

    fn replace(&mut self, market: usize) -> Option<Command> {
        let own = self.pick(market).filter(|own| own.price.0 > 0)?;
        let mut command = Command::new(CommandKind::Replace);
        command.account = AccountId(own.account + 1);
        command.orig_user_ref = own.user_ref;
        command.user_ref = self.take_ref(own.account);
        command.cl_ord_id = name(b'R', u64::from(command.user_ref.0));
        let keep = self.rng.below(2) == 0;
        command.qty = Qty(if keep { (own.qty / 2).max(1) } else { 1 + self.rng.below(1_000) });
        let away = self.rng.below(20) as i64 - 2;
        command.price = if keep { own.price } else { self.price(market, own.side, away) };
        let next =
            Own { user_ref: command.user_ref, price: command.price, qty: command.qty.0, ..own };
        self.markets[market].1.push(next);
        Some(command)
    }

    fn mass_cancel(&mut self, market: usize) -> Command {
        if self.rng.below(20) > 0 {
            return self.new_order(market);
        }
        let account = self.rng.below(u64::from(ACCOUNTS)) as u16;
        let mut command = Command::new(CommandKind::MassCancel);
        command.account = AccountId(account + 1);
        command.user_ref = self.take_ref(account);
        command.instrument = InstrumentId(market as u16 + 1);
        command.param = self.rng.below(3) as u8;
        command
    }
}

/// An operator takes one side of one instrument out of the market.
fn operator_cancel() -> Command {
    Command { cl_ord_id: operator_name(), ..Command::new(CommandKind::MassCancel) }
}

fn operator_name() -> ClOrdId {
    ClOrdId(*b"OPERATOR ONE  ")
}

/// A letter and a number, padded with spaces.
fn name(letter: u8, number: u64) -> ClOrdId {
    let mut text = ClOrdId::default();
    text.0[0] = letter;
    let mut rest = number;
    for byte in text.0[1..11].iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}
