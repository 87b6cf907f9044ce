//! Strategies that are built in.

use types::{InstrumentId, Price, Side, TimeInForce};

use crate::report::{Report, ReportKind};
use crate::strategy::{Desk, Order, Strategy};

/// Does nothing: what remains is the recorded market alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle;

impl Strategy for Idle {
    fn name(&self) -> &str {
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
    fn name(&self) -> &str {
        "maker"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        for side in [Side::Buy, Side::Sell] {
            self.quote(instrument, side, desk);
        }
    }

    fn on_report(&mut self, report: &Report, desk: &mut Desk<'_>) {
        // After a fill the other side, or the same one, may be due.
        if report.kind == ReportKind::Executed {
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
    fn name(&self) -> &str {
        "taker"
    }

    fn on_book(&mut self, instrument: InstrumentId, desk: &mut Desk<'_>) {
        let Taker(config) = *self;
        let best = |side| desk.best(instrument, side);
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
