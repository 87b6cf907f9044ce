//! Stop orders: their order, the trigger price, trailing (6).

use types::{OrderEvent, OrderRef, OrderType, Side, Trigger};

use crate::book_ops::BookOps;
use crate::books::Sink;
use crate::order::{Home, no_trigger};

/// A stop in the list of its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The stop price, negated for sells: the smallest is due first.
    rank: i64,
    /// References are given in order of arrival.
    order_ref: u64,
    slot: u32,
}

/// The stop orders of one side, sorted with the first at the end.
#[derive(Debug)]
pub(crate) struct Stops {
    side: Side,
    list: Vec<Entry>,
    /// Number of trailing stops among the orders.
    trailing: u32,
    /// The trigger price all trailing ones have seen; 0 when some has not seen any since it came.
    followed: i64,
}

impl Stops {
    pub(crate) fn new(side: Side, capacity: u32) -> Stops {
        Stops { side, list: Vec::with_capacity(capacity as usize), trailing: 0, followed: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    fn rank(&self, trigger: i64) -> i64 {
        match self.side {
            Side::Buy => trigger,
            Side::Sell => trigger.checked_neg().unwrap_or(i64::MAX),
        }
    }

    fn position(&self, trigger: i64, order_ref: u64) -> usize {
        let wanted = (self.rank(trigger), order_ref);
        self.list.partition_point(|entry| (entry.rank, entry.order_ref) > wanted)
    }

    fn insert(&mut self, trigger: i64, order_ref: u64, slot: u32, trails: bool) {
        if trails {
            self.trailing += 1;
            self.followed = 0;
        }
        let at = self.position(trigger, order_ref);
        let rank = self.rank(trigger);
        self.list.insert(at, Entry { rank, order_ref, slot });
    }

    pub(crate) fn remove(&mut self, trigger: i64, order_ref: u64, trails: bool) {
        self.trailing -= u32::from(trails);
        let at = self.position(trigger, order_ref);
        debug_assert_eq!(self.list[at].order_ref, order_ref, "a stop is not in its list");
        self.list.remove(at);
    }

    /// Slots of the book's stop orders, in their order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().rev().map(|entry| entry.slot)
    }

    /// The first after (`trigger`, `order_ref`) in the order.
    pub(crate) fn after(&self, trigger: i64, order_ref: u64) -> Option<u32> {
        let at = self.position(trigger, order_ref);
        at.checked_sub(1).map(|at| self.list[at].slot)
    }

    /// Whether the list is strictly sorted and says of each slot what `facts_of` does.
    pub(crate) fn is_sound(&self, facts_of: impl Fn(u32) -> (i64, u64)) -> bool {
        let sorted = self.list.is_sorted_by(|a, b| (a.rank, a.order_ref) > (b.rank, b.order_ref));
        sorted
            && self.list.iter().all(|entry| {
                let (trigger, order_ref) = facts_of(entry.slot);
                (self.rank(trigger), order_ref) == (entry.rank, entry.order_ref)
            })
    }
}

/// The stop price of a stop that trails `trigger` at `distance`.
fn trailed(side: Side, trigger: i64, distance: i64) -> i64 {
    match side {
        Side::Buy => trigger.saturating_add(distance),
        Side::Sell => trigger.saturating_sub(distance),
    }
}

impl<S: Sink> BookOps<'_, S> {
    /// The price that makes stops of a side active, 0 for none.
    fn trigger_price(&self, side: Side) -> i64 {
        match self.market.trigger {
            Trigger::LastTrade => self.market.last,
            Trigger::Touch => self.market.displayed(side.opposite()),
        }
    }

    /// Puts a loose stop order into the list of its side.
    pub(crate) fn add_stop(&mut self, slot: u32) {
        let order = *self.order(slot);
        let now = self.trigger_price(order.side);
        let trigger = match order.order_type {
            OrderType::TrailingStop if now == 0 => no_trigger(order.side),
            OrderType::TrailingStop => trailed(order.side, now, order.stop_price),
            _ => order.stop_price,
        };
        self.list_stop(slot, trigger);
        self.tell(slot, OrderEvent::Added { instead_of: OrderRef(0) });
    }

    /// Puts a loose stop order with its stop price in force into the list.
    pub(crate) fn list_stop(&mut self, slot: u32, trigger: i64) {
        let order = &mut self.shared.slab[slot];
        (order.home, order.trigger) = (Home::Stop, trigger);
        let stops = &mut self.market.stops[order.side as usize];
        let trails = order.order_type == OrderType::TrailingStop;
        stops.insert(trigger, order.order_ref, slot, trails);
        self.market.settle_fast();
    }

    /// Trailing stops follow the trigger price.
    pub(crate) fn follow_trigger(&mut self) {
        for side in [Side::Buy, Side::Sell] {
            let now = self.trigger_price(side);
            let stops = &mut self.market.stops[side as usize];
            let nothing_new = stops.followed != 0
                && match side {
                    Side::Buy => now >= stops.followed,
                    Side::Sell => now <= stops.followed,
                };
            if stops.trailing == 0 || now == 0 || nothing_new {
                continue;
            }
            stops.followed = now;
            for at in 0..stops.list.len() {
                let order = &mut self.shared.slab[stops.list[at].slot];
                if order.order_type != OrderType::TrailingStop {
                    continue;
                }
                let trigger = trailed(side, now, order.stop_price);
                if stops.rank(trigger) < stops.list[at].rank {
                    order.trigger = trigger;
                    stops.list[at].rank = stops.rank(trigger);
                }
            }
            stops.list.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Takes the stop that becomes active next out of its list (6.4).
    pub(crate) fn next_due_stop(&mut self) -> Option<u32> {
        for side in [Side::Buy, Side::Sell] {
            let now = self.trigger_price(side);
            let stops = &self.market.stops[side as usize];
            let Some(first) = stops.list.last().filter(|_| now != 0) else { continue };
            if first.rank <= stops.rank(now) {
                let slot = first.slot;
                self.take_out(slot);
                return Some(slot);
            }
        }
        None
    }

    /// Makes a stop that is out of its list an active order.
    pub(crate) fn activate(&mut self, slot: u32) {
        let order = self.order_mut(slot);
        order.order_type = match order.order_type {
            OrderType::StopLimit => OrderType::Limit,
            _ => OrderType::Market,
        };
        order.trigger = 0;
        self.tell(slot, OrderEvent::Triggered);
        self.enter(slot, OrderRef(0));
    }
}
