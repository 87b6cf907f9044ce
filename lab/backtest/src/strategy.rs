//! Strategies: what they see, what they can do, and the built-in ones.

use std::collections::BTreeMap;

use feed::{BookImage, Level};
use types::{
    Command, CommandKind, ExecutionKind, ExecutionReport, InstrumentId, Nanos, ORDER_POST_ONLY,
    Price, Qty, Side, TimeInForce, UserRefNum,
};

use crate::account::Account;
use crate::record::MarketTrade;
use crate::venue::STRATEGY;

/// Reacts to the market. Called at the time at which news reaches the strategy.
pub trait Strategy {
    /// Its name, for the report.
    fn name(&self) -> &'static str;
    /// The displayed book of an instrument has changed.
    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>);
    /// One of its own orders has something to tell; `desk` knows already.
    fn on_report(&mut self, report: &ExecutionReport, desk: &mut Desk<'_>) {
        let _ = (report, desk);
    }
    /// A trade of the recorded market. Trades of the strategy's own are told by
    /// [`Strategy::on_report`] alone.
    fn on_trade(&mut self, trade: &MarketTrade, desk: &mut Desk<'_>) {
        let _ = (trade, desk);
    }
    /// Whether it can't go on; the backtest ends then.
    fn has_failed(&self) -> bool {
        false
    }
}

/// An order of the strategy, as far as the strategy has heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Number of the order, given by the strategy.
    pub id: u32,
    /// Instrument that the order is for.
    pub instrument: InstrumentId,
    /// Whether the order buys or sells.
    pub side: Side,
    /// Limit price of the order.
    pub price: Price,
    /// Lots that may still trade.
    pub open: u64,
    /// The exchange has taken it.
    pub working: bool,
    /// A cancel is on its way.
    pub leaving: bool,
}

/// The strategy's orders by number, and the last number given out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blotter {
    pub orders: BTreeMap<u32, Order>,
    last: u32,
}

impl Blotter {
    /// Takes note of a report.
    pub fn heed(&mut self, report: &ExecutionReport) {
        let id = report.user_ref.0;
        match report.kind {
            // The order is in whatever state it is; its own report tells.
            ExecutionKind::CancelRejected => return,
            ExecutionKind::Rejected => {
                self.orders.remove(&id);
                return;
            }
            _ => {}
        }
        if let Some(order) = self.orders.get_mut(&id) {
            order.working = true;
            order.open = report.leaves.0;
            if order.open == 0 && report.kind != ExecutionKind::Accepted {
                self.orders.remove(&id);
            }
        }
    }
}

/// What a strategy sees and does.
#[derive(Debug)]
pub struct Desk<'a> {
    pub(crate) now: Nanos,
    pub(crate) image: &'a BookImage,
    pub(crate) account: &'a Account,
    pub(crate) blotter: &'a mut Blotter,
    pub(crate) requests: &'a mut Vec<Command>,
}

impl Desk<'_> {
    /// The time at which this is known.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The books, the strategy's own orders included.
    pub fn books(&self) -> &BookImage {
        self.image
    }

    /// The best level of a side without the strategy's own orders.
    pub fn others(&self, instrument: InstrumentId, side: Side) -> Option<Level> {
        self.image.depth(instrument, side).find_map(|mut level| {
            let at =
                |order: &&Order| order.working && order.side == side && order.price == level.price;
            let own = self.orders(instrument).filter(at);
            let (count, lots) = own.fold((0, 0), |(n, lots), order| (n + 1, lots + order.open));
            level.qty.0 = level.qty.0.saturating_sub(lots);
            level.orders = level.orders.saturating_sub(count);
            (level.qty.0 > 0).then_some(level)
        })
    }

    /// Quantity of the instrument held, lots; negative: short.
    pub fn lots(&self, instrument: InstrumentId) -> i64 {
        self.account.holding(instrument).lots
    }

    /// The strategy's orders that may still trade.
    pub fn orders(&self, instrument: InstrumentId) -> impl Iterator<Item = &Order> + '_ {
        self.blotter.orders.values().filter(move |order| order.instrument == instrument)
    }

    /// Sends an order; gives its number. `rests`: it is refused rather than trade at once.
    pub fn send(
        &mut self,
        instrument: InstrumentId,
        side: Side,
        (qty, price): (u32, Price),
        life: TimeInForce,
        rests: bool,
    ) -> u32 {
        self.blotter.last += 1;
        let id = self.blotter.last;
        let mut command = Command::new(CommandKind::NewOrder);
        (command.account, command.instrument) = (STRATEGY, instrument);
        (command.user_ref, command.side) = (UserRefNum(id), side);
        (command.qty, command.price) = (Qty(u64::from(qty)), price);
        command.time_in_force = life;
        command.flags = if rests { ORDER_POST_ONLY } else { 0 };
        self.requests.push(command);
        let open = u64::from(qty);
        let order = Order { id, instrument, side, price, open, working: false, leaving: false };
        self.blotter.orders.insert(id, order);
        id
    }

    /// Asks for an order to go; once is enough.
    pub fn cancel(&mut self, id: u32) {
        let Some(order) = self.blotter.orders.get_mut(&id).filter(|order| !order.leaving) else {
            return;
        };
        order.leaving = true;
        let mut command = Command::new(CommandKind::Cancel);
        (command.account, command.user_ref) = (STRATEGY, UserRefNum(id));
        self.requests.push(command);
    }
}

/// Does nothing: what remains is the recorded market alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl Strategy for Idle {
    fn name(&self) -> &'static str {
        "none"
    }

    fn on_book(&mut self, _: InstrumentId, _: &mut Desk<'_>) {}
}

/// Settings of a [`Maker`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MakerConfig {
    /// Quantity of each quote, lots.
    pub qty: u32,
    /// Price units behind the best price of the others; negative: before it.
    pub offset: i64,
    /// Lots held at most, long or short.
    pub lots_max: u64,
}

/// Quotes both sides near the best prices of the others, and no side that would add to a holding
/// that is large enough.
#[derive(Clone, Copy, Debug)]
pub struct Maker(pub MakerConfig);

impl Maker {
    fn quote(&self, instrument: InstrumentId, side: Side, desk: &mut Desk<'_>) {
        let Maker(config) = *self;
        let held = match side {
            Side::Buy => desk.lots(instrument),
            Side::Sell => -desk.lots(instrument),
        };
        let best = desk.others(instrument, side);
        let target = best.filter(|_| held + i64::from(config.qty) <= config.lots_max as i64);
        let target = target.map(|level| match side {
            Side::Buy => Price(level.price.0 - config.offset),
            Side::Sell => Price(level.price.0 + config.offset),
        });
        let own = desk.orders(instrument).filter(|order| order.side == side && !order.leaving);
        let own: Vec<Order> = own.copied().collect();
        let mut quoted = false;
        for order in own {
            if Some(order.price) == target && !quoted {
                quoted = true;
            } else {
                desk.cancel(order.id);
            }
        }
        if let (false, Some(price)) = (quoted, target.filter(|price| price.0 > 0)) {
            let terms = (config.qty, price);
            desk.send(instrument, side, terms, TimeInForce::Day, true);
        }
    }
}

impl Strategy for Maker {
    fn name(&self) -> &'static str {
        "maker"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        for side in [Side::Buy, Side::Sell] {
            self.quote(instrument, side, desk);
        }
    }

    fn on_report(&mut self, report: &ExecutionReport, desk: &mut Desk<'_>) {
        // After a fill the other side, or the same one, may be due.
        if report.kind == ExecutionKind::Executed {
            self.on_book(report.instrument, desk);
        }
    }
}

/// Settings of a [`Taker`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakerConfig {
    /// Quantity of each order, lots.
    pub qty: u32,
    /// Lots held at most, long or short.
    pub lots_max: u64,
    /// Share of the best bid's lots in those of both best prices, in thousandths, from which on it
    /// buys; it sells at what is left to a thousand.
    pub threshold_permille: u64,
}

/// Buys where many bid and few offer, sells the other way round, and gives up what it holds when
/// the two are even again.
#[derive(Clone, Copy, Debug)]
pub struct Taker(pub TakerConfig);

impl Strategy for Taker {
    fn name(&self) -> &'static str {
        "taker"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        let Taker(config) = *self;
        let best = |side| desk.books().best(instrument, side);
        let (Some(bid), Some(offer)) = (best(Side::Buy), best(Side::Sell)) else { return };
        // One order at a time.
        if desk.orders(instrument).next().is_some() {
            return;
        }
        let share = bid.qty.0 * 1_000 / (bid.qty.0 + offer.qty.0).max(1);
        let held = desk.lots(instrument);
        let room = |held: i64| held + i64::from(config.qty) <= config.lots_max as i64;
        let (side, qty) = if share >= config.threshold_permille && room(held) {
            (Side::Buy, config.qty)
        } else if share <= 1_000 - config.threshold_permille.min(1_000) && room(-held) {
            (Side::Sell, config.qty)
        } else if held > 0 && share <= 500 {
            (Side::Sell, u32::try_from(held).unwrap_or(config.qty))
        } else if held < 0 && share >= 500 {
            (Side::Buy, u32::try_from(-held).unwrap_or(config.qty))
        } else {
            return;
        };
        let price = if side == Side::Buy { offer.price } else { bid.price };
        desk.send(instrument, side, (qty, price), TimeInForce::ImmediateOrCancel, false);
    }
}
