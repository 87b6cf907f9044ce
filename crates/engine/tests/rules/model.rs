//! The rules again, as plainly as they can be said: one vector of resting orders in order of
//! arrival, searched from the front for everything. Knows `types` only.

use std::collections::{HashMap, HashSet};

use types::{
    AccountId, CancelReason, Command, CommandKind, ExecutionKind, ExecutionReport, FeedSeq,
    GatewayId, Incarnation, Input, Instrument, InstrumentId, Liquidity, MarketEvent, MatchNumber,
    Nanos, ORDER_POST_ONLY, OrderRef, OrderType, Price, Qty, RejectReason, Side, SystemEventCode,
    TimeInForce, TradingState, UserRefNum,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Done,
    DuplicateTransport,
    DuplicateRequest,
    Granted(u32),
    Stale,
    Refused,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resting {
    pub instrument: InstrumentId,
    pub order_ref: OrderRef,
    pub price: Price,
    pub open: u64,
    pub traded: u64,
    /// The command that entered it, or the one that replaced it last (with the side of the first).
    pub command: Command,
}

/// Capacities, as the engine's configuration has them.
#[derive(Clone, Copy)]
pub struct Room {
    pub accounts: u16,
    pub gateways: u16,
    pub orders: usize,
    pub levels: usize,
}

pub struct Model {
    instruments: Vec<Instrument>,
    room: Room,
    open: bool,
    silent: bool,
    days: u32,
    now: Nanos,
    pub resting: Vec<Resting>,
    seen_transport: HashSet<(GatewayId, Incarnation, u64)>,
    nonces: HashMap<GatewayId, Vec<u32>>,
    seen_requests: HashMap<AccountId, HashSet<u32>>,
    next_order: u64,
    next_match: u64,
    next_feed: u64,
    pub executions: Vec<ExecutionReport>,
    pub market: Vec<(FeedSeq, MarketEvent)>,
}

type Check<T> = Result<T, RejectReason>;

impl Model {
    pub fn new(instruments: Vec<Instrument>, room: Room) -> Model {
        Model {
            instruments,
            room,
            open: false,
            silent: false,
            days: 0,
            now: Nanos(0),
            resting: Vec::new(),
            seen_transport: HashSet::new(),
            nonces: HashMap::new(),
            seen_requests: HashMap::new(),
            next_order: 1,
            next_match: 1,
            next_feed: 1,
            executions: Vec::new(),
            market: Vec::new(),
        }
    }

    /// Applies one input; what follows is in `executions` and `market` until the next call.
    pub fn apply(&mut self, input: &Input) -> Outcome {
        self.executions.clear();
        self.market.clear();
        self.now = self.now.max(input.t_seq);
        self.expire();
        let (source, c) = (&input.source, &input.command);
        if source.shard.0 != 0 {
            return Outcome::Refused;
        }
        if c.kind == CommandKind::GrantIncarnation {
            return self.grant(source.gateway, c.user_ref.0);
        }
        if source.gateway.0 != 0 {
            if matches!(c.kind, CommandKind::StartOfDay | CommandKind::EndOfDay) {
                return Outcome::Refused;
            }
            let lives = self.nonces.get(&source.gateway).map_or(0, Vec::len);
            if lives == 0 || source.incarnation.0 as usize != lives {
                return Outcome::Stale;
            }
            let key = (source.gateway, source.incarnation, source.seq);
            if !self.seen_transport.insert(key) {
                return Outcome::DuplicateTransport;
            }
        }
        match c.kind {
            CommandKind::StartOfDay if !self.open => self.start_of_day(),
            CommandKind::EndOfDay if self.open => self.end_of_day(),
            CommandKind::StartOfDay | CommandKind::EndOfDay => Outcome::Refused,
            _ if c.account.0 == 0 || c.account.0 > self.room.accounts => Outcome::Refused,
            CommandKind::Cancel => self.cancel(c),
            _ => self.request(c),
        }
    }

    /// The orders of one side of one book, best price first, then by arrival.
    pub fn side(&self, instrument: InstrumentId, side: Side) -> Vec<Resting> {
        let of_side = |r: &&Resting| r.instrument == instrument && r.command.side == side;
        let mut orders: Vec<Resting> = self.resting.iter().filter(of_side).copied().collect();
        orders.sort_by_key(|r| if side == Side::Buy { -r.price.0 } else { r.price.0 });
        orders
    }

    fn grant(&mut self, gateway: GatewayId, nonce: u32) -> Outcome {
        if gateway.0 == 0 || gateway.0 > self.room.gateways {
            return Outcome::Refused;
        }
        let nonces = self.nonces.entry(gateway).or_default();
        let life = nonces.iter().position(|&n| n == nonce).unwrap_or_else(|| {
            nonces.push(nonce);
            nonces.len() - 1
        });
        Outcome::Granted(life as u32 + 1)
    }

    fn start_of_day(&mut self) -> Outcome {
        if self.days > 0 {
            self.seen_requests.clear();
        }
        self.days += 1;
        (self.open, self.silent) = (true, false);
        self.publish(MarketEvent::SystemEvent { code: SystemEventCode::StartOfMessages });
        self.publish(MarketEvent::SystemEvent { code: SystemEventCode::StartOfSystemHours });
        for i in self.instruments.clone() {
            self.publish(MarketEvent::Directory { instrument: i.id });
        }
        for i in self.instruments.clone() {
            let state = TradingState::Trading;
            self.publish(MarketEvent::TradingAction { instrument: i.id, state });
        }
        for i in self.instruments.clone() {
            for side in [Side::Buy, Side::Sell] {
                for order in self.side(i.id, side) {
                    let (instrument, order_ref) = (i.id, order.order_ref);
                    let (qty, price) = (Qty(order.open), order.price);
                    let told = MarketEvent::AddOrder { instrument, order_ref, side, qty, price };
                    self.publish(told);
                }
            }
        }
        self.publish(MarketEvent::SystemEvent { code: SystemEventCode::StartOfMarketHours });
        Outcome::Done
    }

    fn end_of_day(&mut self) -> Outcome {
        for i in self.instruments.clone() {
            let state = TradingState::Halted;
            self.publish(MarketEvent::TradingAction { instrument: i.id, state });
            for side in [Side::Buy, Side::Sell] {
                for order in self.side(i.id, side) {
                    if order.command.time_in_force == TimeInForce::Day {
                        self.resting.retain(|r| r.order_ref != order.order_ref);
                        self.canceled(&order, order.open, 0, CancelReason::EndOfDay);
                        self.publish(MarketEvent::OrderDelete {
                            instrument: i.id,
                            order_ref: order.order_ref,
                        });
                    }
                }
            }
        }
        self.open = false;
        self.publish(MarketEvent::SystemEvent { code: SystemEventCode::EndOfMarketHours });
        self.publish(MarketEvent::SystemEvent { code: SystemEventCode::EndOfSystemHours });
        self.publish(MarketEvent::SystemEvent { code: SystemEventCode::EndOfMessages });
        self.silent = true;
        Outcome::Done
    }

    /// Orders with an end that is not after now: book by book, by end and arrival.
    fn expire(&mut self) {
        let ends = |r: &Resting| {
            r.command.time_in_force == TimeInForce::GoodTillDate && r.command.expire_at <= self.now
        };
        let (mut ended, rest): (Vec<_>, Vec<_>) = self.resting.iter().partition(|r| ends(r));
        self.resting = rest;
        ended.sort_by_key(|r| (r.instrument, r.command.expire_at, r.order_ref));
        for order in ended {
            let (instrument, order_ref) = (order.instrument, order.order_ref);
            self.canceled(&order, order.open, 0, CancelReason::Expired);
            self.publish(MarketEvent::OrderDelete { instrument, order_ref });
        }
    }

    fn request(&mut self, c: &Command) -> Outcome {
        if c.user_ref.0 == 0 {
            return self.refuse(ExecutionKind::Rejected, c, RejectReason::Unsupported);
        }
        let seen = self.seen_requests.entry(c.account).or_default();
        let highest = seen.iter().copied().max().unwrap_or(0);
        let forgotten = u64::from(c.user_ref.0) + 65_536 <= u64::from(highest);
        let known = forgotten || !seen.insert(c.user_ref.0);
        if known || self.find(c.account, c.user_ref).is_some() {
            return Outcome::DuplicateRequest;
        }
        let done = if c.kind == CommandKind::NewOrder { self.enter(c) } else { self.replace(c) };
        match done {
            Ok(()) => Outcome::Done,
            Err(reason) => self.refuse(ExecutionKind::Rejected, c, reason),
        }
    }

    fn enter(&mut self, c: &Command) -> Check<()> {
        if !self.open {
            return Err(RejectReason::MarketClosed);
        }
        let instrument = self.instruments.iter().find(|i| i.id == c.instrument).copied();
        let instrument = instrument.ok_or(RejectReason::UnknownInstrument)?;
        check_terms(c, &instrument, self.now)?;
        let mut order = Resting {
            instrument: instrument.id,
            order_ref: OrderRef(self.next_order),
            price: if c.order_type == OrderType::Market { Price(0) } else { c.price },
            open: c.qty.0,
            traded: 0,
            command: *c,
        };
        self.check_book(&order, None)?;
        self.next_order += 1;
        self.report(ExecutionKind::Accepted, &order, order.open);
        self.trade(&mut order);
        if self.settle(&order) {
            self.publish(MarketEvent::AddOrder {
                instrument: order.instrument,
                order_ref: order.order_ref,
                side: order.command.side,
                qty: Qty(order.open),
                price: order.price,
            });
        }
        Ok(())
    }

    fn replace(&mut self, c: &Command) -> Check<()> {
        if !self.open {
            return Err(RejectReason::MarketClosed);
        }
        let at = self.find(c.account, c.orig_user_ref).ok_or(RejectReason::UnknownOrder)?;
        let old = self.resting[at];
        if c.order_type == OrderType::Market {
            return Err(RejectReason::Unsupported);
        }
        let instrument = self.instruments.iter().find(|i| i.id == old.instrument).copied();
        check_terms(c, &instrument.expect("an order is on an instrument"), self.now)?;
        if c.qty.0 <= old.traded {
            return Err(RejectReason::NothingLeft);
        }
        let mut order = Resting {
            price: c.price,
            open: c.qty.0 - old.traded,
            command: Command { side: old.command.side, ..*c },
            ..old
        };
        self.check_book(&order, Some(&old))?;
        let ioc = c.time_in_force == TimeInForce::ImmediateOrCancel;
        let post_only = c.flags & ORDER_POST_ONLY != 0;
        if order.price == old.price && order.open <= old.open && !ioc && !post_only {
            self.resting[at] = order;
            self.report(ExecutionKind::Replaced, &order, order.open);
            if order.open < old.open {
                self.publish(MarketEvent::OrderCancel {
                    instrument: order.instrument,
                    order_ref: order.order_ref,
                    qty: Qty(old.open - order.open),
                });
            }
            return Ok(());
        }
        self.resting.remove(at);
        order.order_ref = OrderRef(self.next_order);
        self.next_order += 1;
        self.report(ExecutionKind::Replaced, &order, order.open);
        let instrument = order.instrument;
        self.trade(&mut order);
        let (old_ref, new_ref) = (old.order_ref, order.order_ref);
        let (qty, price) = (Qty(order.open), order.price);
        let rests = self.settle(&order);
        self.publish(if rests {
            MarketEvent::OrderReplace { instrument, old_ref, new_ref, qty, price }
        } else {
            MarketEvent::OrderDelete { instrument, order_ref: old_ref }
        });
        Ok(())
    }

    fn cancel(&mut self, c: &Command) -> Outcome {
        let kind = ExecutionKind::CancelRejected;
        if !self.open {
            return self.refuse(kind, c, RejectReason::MarketClosed);
        }
        let Some(at) = self.find(c.account, c.user_ref) else {
            return self.refuse(kind, c, RejectReason::UnknownOrder);
        };
        let order = self.resting[at];
        let (instrument, order_ref) = (order.instrument, order.order_ref);
        if c.qty.0 >= order.traded + order.open {
            return self.refuse(kind, c, RejectReason::InvalidQuantity);
        }
        if c.qty.0 <= order.traded {
            self.resting.remove(at);
            self.canceled_by(c, &order, order.open, 0);
            self.publish(MarketEvent::OrderDelete { instrument, order_ref });
        } else {
            let left = c.qty.0 - order.traded;
            let gone = order.open - left;
            self.resting[at].open = left;
            self.canceled_by(c, &order, gone, left);
            self.publish(MarketEvent::OrderCancel { instrument, order_ref, qty: Qty(gone) });
        }
        Outcome::Done
    }

    /// Post-only and capacity; `leaving` is the order a replace takes out.
    fn check_book(&self, order: &Resting, leaving: Option<&Resting>) -> Check<()> {
        let c = order.command;
        check_together(&c)?;
        let never_rests =
            c.order_type == OrderType::Market || c.time_in_force == TimeInForce::ImmediateOrCancel;
        if never_rests {
            return Ok(());
        }
        if c.flags & ORDER_POST_ONLY != 0 && self.best_match(order).is_some() {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        // Try it on a copy: what rests in the end must fit.
        let mut after = Model::new(self.instruments.clone(), self.room);
        after.resting = self.resting.clone();
        after.resting.retain(|r| leaving.is_none_or(|l| l.order_ref != r.order_ref));
        let mut order = *order;
        after.trade(&mut order);
        if !after.settle(&order) {
            return Ok(());
        }
        let in_book = after.resting.iter().filter(|r| r.instrument == order.instrument);
        let of_side = in_book.filter(|r| r.command.side == c.side);
        let prices: HashSet<Price> = of_side.map(|r| r.price).collect();
        let fits = after.resting.len() <= self.room.orders && prices.len() <= self.room.levels;
        if fits { Ok(()) } else { Err(RejectReason::CapacityReached) }
    }

    /// The resting order this one would trade with first.
    fn best_match(&self, order: &Resting) -> Option<usize> {
        let best = *self.side(order.instrument, order.command.side.opposite()).first()?;
        let trades = order.command.order_type == OrderType::Market
            || match order.command.side {
                Side::Buy => best.price <= order.price,
                Side::Sell => best.price >= order.price,
            };
        let at = self.resting.iter().position(|r| r.order_ref == best.order_ref);
        if trades { at } else { None }
    }

    fn trade(&mut self, order: &mut Resting) {
        while order.open > 0 {
            let Some(at) = self.best_match(order) else { return };
            let qty = order.open.min(self.resting[at].open);
            for side in [&mut self.resting[at], &mut *order] {
                side.open -= qty;
                side.traded += qty;
            }
            let maker = self.resting[at];
            let match_number = MatchNumber(self.next_match);
            self.next_match += 1;
            let public_after = self.publish(MarketEvent::OrderExecuted {
                instrument: maker.instrument,
                order_ref: maker.order_ref,
                qty: Qty(qty),
                match_number,
            });
            for (side, liquidity) in [(maker, Liquidity::Added), (*order, Liquidity::Removed)] {
                let report = self.report(ExecutionKind::Executed, &side, qty);
                report.liquidity = liquidity;
                report.price = maker.price;
                report.match_number = match_number;
                report.public_after = public_after;
            }
            if maker.open == 0 {
                self.resting.remove(at);
            }
        }
    }

    /// Rests or cancels what is left; says whether it rests.
    fn settle(&mut self, order: &Resting) -> bool {
        if order.open == 0 {
            return false;
        }
        let c = &order.command;
        if c.order_type == OrderType::Market || c.time_in_force == TimeInForce::ImmediateOrCancel {
            self.canceled(order, order.open, 0, CancelReason::ImmediateOrCancel);
            return false;
        }
        self.resting.push(*order);
        true
    }

    fn find(&self, account: AccountId, user_ref: UserRefNum) -> Option<usize> {
        let wanted = (account, user_ref);
        self.resting.iter().position(|r| (r.command.account, r.command.user_ref) == wanted)
    }

    fn publish(&mut self, event: MarketEvent) -> FeedSeq {
        if self.silent {
            return FeedSeq(self.next_feed - 1);
        }
        self.market.push((FeedSeq(self.next_feed), event));
        self.next_feed += 1;
        FeedSeq(self.next_feed - 1)
    }

    fn canceled(&mut self, order: &Resting, qty: u64, leaves: u64, reason: CancelReason) {
        let report = self.report(ExecutionKind::Canceled, order, qty);
        report.leaves = Qty(leaves);
        report.cancel_reason = reason;
    }

    /// By a request, whose identifier is told if it has one.
    fn canceled_by(&mut self, c: &Command, order: &Resting, qty: u64, leaves: u64) {
        self.canceled(order, qty, leaves, CancelReason::Requested);
        let report = self.executions.last_mut().expect("just pushed");
        if c.cl_ord_id.0 != [b' '; 14] {
            report.cl_ord_id = c.cl_ord_id;
        }
    }

    fn report(&mut self, kind: ExecutionKind, order: &Resting, qty: u64) -> &mut ExecutionReport {
        let c = &order.command;
        let replaced = kind == ExecutionKind::Replaced;
        self.executions.push(ExecutionReport {
            instrument: order.instrument,
            orig_user_ref: if replaced { c.orig_user_ref } else { UserRefNum(0) },
            qty: Qty(qty),
            leaves: Qty(order.open),
            price: order.price,
            order_ref: order.order_ref,
            ..blank(kind, c, self.now)
        });
        self.executions.last_mut().expect("just pushed")
    }

    fn refuse(&mut self, kind: ExecutionKind, c: &Command, reject: RejectReason) -> Outcome {
        let mut report = ExecutionReport { reject, ..blank(kind, c, self.now) };
        if kind == ExecutionKind::CancelRejected {
            report.instrument = InstrumentId(0);
            report.flags = 0;
        }
        self.executions.push(report);
        Outcome::Done
    }
}

fn check_terms(c: &Command, instrument: &Instrument, now: Nanos) -> Check<()> {
    let market = c.order_type == OrderType::Market;
    if c.flags > ORDER_POST_ONLY {
        return Err(RejectReason::Unsupported);
    }
    if c.qty.0 == 0 || c.qty.0 > instrument.qty_max.0 {
        return Err(RejectReason::InvalidQuantity);
    }
    if !market && c.price.0 > instrument.price_max.0 {
        return Err(RejectReason::PriceTooHigh);
    }
    if !market && (c.price.0 < 1 || c.price.0 % instrument.tick.0 != 0) {
        return Err(RejectReason::InvalidPrice);
    }
    let dated = c.time_in_force == TimeInForce::GoodTillDate;
    if dated != (c.expire_at.0 != 0) || (dated && c.expire_at <= now) {
        return Err(RejectReason::InvalidExpiry);
    }
    Ok(())
}

/// What can't be together; asked of an order, or of a replace that is possible otherwise.
fn check_together(c: &Command) -> Check<()> {
    let never_rests =
        c.time_in_force == TimeInForce::ImmediateOrCancel || c.order_type == OrderType::Market;
    let dated = c.time_in_force == TimeInForce::GoodTillDate;
    let dated_market = dated && c.order_type == OrderType::Market;
    if dated_market || (c.flags == ORDER_POST_ONLY && never_rests) {
        return Err(RejectReason::Unsupported);
    }
    Ok(())
}

/// The command's own fields, and nothing done.
fn blank(kind: ExecutionKind, c: &Command, t_seq: Nanos) -> ExecutionReport {
    ExecutionReport {
        kind,
        side: c.side,
        order_type: c.order_type,
        time_in_force: c.time_in_force,
        flags: c.flags,
        reject: RejectReason::None,
        cancel_reason: CancelReason::None,
        liquidity: Liquidity::None,
        account: c.account,
        instrument: c.instrument,
        user_ref: c.user_ref,
        orig_user_ref: c.orig_user_ref,
        session_seq: 0,
        qty: c.qty,
        leaves: Qty(0),
        price: c.price,
        order_ref: OrderRef(0),
        match_number: MatchNumber(0),
        public_after: FeedSeq(0),
        t_seq,
        cl_ord_id: c.cl_ord_id,
        reserved2: [0; 2],
        terms: c.terms(),
    }
}
