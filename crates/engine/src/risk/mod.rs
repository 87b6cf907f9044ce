//! Pre-trade risk: what each account has open and holds, and whether one more order is allowed.
//!
//! Every figure is kept up by the book's events, so that a check is a few comparisons on one
//! account's state (two cache lines) and one row per instrument. How the figures are counted:
//!
//! - *Open value*: open lots times limit price. Orders without a fixed limit price (market, stop,
//!   pegs, market-to-limit before it rests) are valued when they come, at the last price, and not
//!   while they are open.
//! - *Position value*: lots held either way times the price of the account's own last trade in the
//!   instrument.
//! - *Exposure*, held against the credit limit: open value and position values together.
//! - *Worst position*: the position with all open orders of a side counted as traded.
//! - *Message rate*: a bucket of one second's messages that refills with `t_in` (that of an input
//!   whose `t_in` was capped counts as engine time). Cancels take from it but are never refused.

mod allotments;
mod rows;

pub(crate) use allotments::Directive;
pub use allotments::{AllotFault, AllotTotals, AllotWant};
pub(crate) use rows::{Row, Rows};

use types::{AccountId, Digest, LimitKind, Price, RejectReason, SelfTrade, Side, limits::QTY_MAX};

use self::allotments::Allotments;
use crate::codec::{Reader, SnapshotError, Writer};
use crate::config::{Config, Limits, ORDERS_MAX};

/// Nanoseconds of one second.
const SECOND: u64 = types::Nanos::SECOND;

/// One account's limits and sums.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Account {
    pub(crate) limits: Limits,
    /// When the message bucket is full again.
    bucket_full_at: u64,
    /// Open value and position values.
    pub(crate) exposure: i128,
    pub(crate) open_orders: u32,
    /// Self-trade group.
    pub(crate) group: u16,
    /// For orders that say `Allow`.
    pub(crate) self_trade: SelfTrade,
    pub(crate) killed: bool,
    /// Bit per kind of limit that was set for this account and does not follow the default.
    own: u8,
}

const _: () = assert!(size_of::<Account>() == 128, "two cache lines");
const _: () = assert!(LimitKind::ALL.len() <= u8::BITS as usize, "a bit of `own` per kind");
// Open lots of one account and side: those of all orders that there may be, in 64 bits.
const _: () = assert!(ORDERS_MAX as u64 <= u64::MAX / QTY_MAX);

/// What is to be added to the book.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proposal {
    pub(crate) account: AccountId,
    pub(crate) slot: usize,
    pub(crate) side: Side,
    /// Lots of the whole order, what has traded included.
    pub(crate) total: u64,
    /// Lots that will be open.
    pub(crate) open: u64,
    /// The limit price; 0: none.
    pub(crate) limit_price: Price,
    /// What the order is valued at.
    pub(crate) value_price: Price,
    /// Price that limit prices are compared with; 0: none.
    pub(crate) market: Price,
    /// Open lots and their price of the order that goes.
    pub(crate) instead_of: Option<(u64, Price)>,
}

/// Lots of an order that are not open any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Less {
    pub(crate) account: AccountId,
    pub(crate) slot: usize,
    pub(crate) side: Side,
    pub(crate) lots: u32,
    /// The price at which they counted.
    pub(crate) price: Price,
    /// They were its last.
    pub(crate) last: bool,
}

/// All accounts of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Risk {
    accounts: Vec<Account>,
    pub(crate) rows: Rows,
    pub(crate) defaults: Limits,
    pub(crate) all_killed: bool,
    /// Parts of limits that span shards; `None` in a venue of one shard.
    shared: Option<Allotments>,
}

impl Risk {
    pub(crate) fn new(config: &Config) -> Risk {
        let account = |index: usize| Account {
            limits: config.limits,
            bucket_full_at: 0,
            exposure: 0,
            open_orders: 0,
            group: config.groups.get(index).copied().unwrap_or(index as u16 + 1),
            self_trade: config.self_trade.get(index).copied().unwrap_or(SelfTrade::Allow),
            killed: false,
            own: 0,
        };
        let mut risk = Risk {
            accounts: (0..config.accounts_max).map(account).collect(),
            rows: Rows::new(config.accounts_max, config.instruments.len()),
            defaults: config.limits,
            all_killed: false,
            shared: Allotments::new(config),
        };
        risk.share_out();
        risk
    }

    /// An account that exists.
    #[inline(always)]
    pub(crate) fn account(&self, account: AccountId) -> &Account {
        &self.accounts[usize::from(account.0) - 1]
    }

    #[inline(always)]
    pub(crate) fn account_mut(&mut self, account: AccountId) -> &mut Account {
        &mut self.accounts[usize::from(account.0) - 1]
    }

    pub(crate) fn get(&self, account: AccountId) -> Option<&Account> {
        self.accounts.get(usize::from(account.0).checked_sub(1)?)
    }

    /// Takes a message from the account's bucket; false when there is none.
    #[inline(always)]
    pub(crate) fn take_message(&mut self, account: AccountId, at: u64) -> bool {
        let account = self.account_mut(account);
        let limit = account.limits.get(LimitKind::MessageRate);
        if limit == Limits::UNLIMITED {
            return true;
        }
        let Some(per_message) = SECOND.checked_div(limit) else { return false };
        let full_at = account.bucket_full_at.max(at).saturating_add(per_message);
        assert!(full_at >= at, "a bucket is full again now or later");
        if full_at - at > SECOND {
            return false;
        }
        account.bucket_full_at = full_at;
        true
    }

    /// Whether the account may have this order; the first limit in the way is the reason.
    #[inline(always)]
    pub(crate) fn check(&self, order: &Proposal) -> Result<(), RejectReason> {
        let row = self.rows.row(order.account, order.slot);
        let account = self.account(order.account);
        let limits = &account.limits;
        if order.total > limits.get(LimitKind::OrderQuantity) {
            return Err(RejectReason::OrderQuantityLimit);
        }
        // Both are at most 2^32.
        let notional = order.total.saturating_mul(order.value_price.0.unsigned_abs());
        if notional > limits.get(LimitKind::OrderNotional) {
            return Err(RejectReason::OrderNotionalLimit);
        }
        fat_finger(order, limits.get(LimitKind::FatFinger))?;
        let (gone, gone_value) = order
            .instead_of
            .map_or((0, 0), |(open, price)| (open, i128::from(open) * i128::from(price.0)));
        let replaced = u64::from(order.instead_of.is_some());
        let others = u64::from(account.open_orders).checked_sub(replaced);
        let others = others.expect("the order that goes is counted");
        if others >= limits.get(LimitKind::OpenOrders) {
            return Err(RejectReason::OpenOrdersLimit);
        }
        let position_limit = limits.get(LimitKind::Position);
        if position_limit != Limits::UNLIMITED {
            let worst = row.worst(order.side) + i128::from(order.open) - i128::from(gone);
            if worst > i128::from(position_limit) {
                return Err(RejectReason::PositionLimit);
            }
        }
        let credit = limits.get(LimitKind::Credit);
        if credit != Limits::UNLIMITED {
            let value = i128::from(order.open) * i128::from(order.value_price.0);
            if account.exposure - gone_value + value > i128::from(credit) {
                return Err(RejectReason::CreditLimit);
            }
        }
        Ok(())
    }

    /// An order with `open` lots is open from now on.
    #[inline(always)]
    pub(crate) fn opened(
        &mut self,
        account: AccountId,
        slot: usize,
        side: Side,
        open: u32,
        price: Price,
    ) {
        self.rows.row_mut(account, slot).open[side as usize] += u64::from(open);
        let account = self.account_mut(account);
        account.open_orders += 1;
        account.exposure += value(open, price);
    }

    /// Lots are not open any more.
    #[inline(always)]
    pub(crate) fn closed(&mut self, less: &Less) {
        let row = self.rows.row_mut(less.account, less.slot);
        row.release(less.side, less.lots);
        self.release(less, -value(less.lots, less.price));
    }

    /// The other half of [`Risk::opened`]: what is released was reserved.
    #[inline]
    fn release(&mut self, less: &Less, gained: i128) {
        let account = self.account_mut(less.account);
        let orders = account.open_orders.checked_sub(u32::from(less.last));
        account.open_orders = orders.expect("no more orders end than were opened");
        account.exposure += gained;
        assert!(account.exposure >= 0, "more value was released than reserved");
        if account.open_orders == 0 {
            self.assert_nothing_open(less);
        }
    }

    /// An account without orders has no lots open.
    #[cold]
    fn assert_nothing_open(&self, less: &Less) {
        let Row { open: [buy, sell], .. } = self.rows.row(less.account, less.slot);
        assert!(buy | sell == 0, "lots are open of no order");
    }

    /// An open order now has a limit price at which its lots count.
    pub(crate) fn priced(&mut self, account: AccountId, open: u32, price: Price) {
        self.account_mut(account).exposure += value(open, price);
    }

    /// Lots are not open any more because they traded at a price.
    #[inline(always)]
    pub(crate) fn traded(&mut self, less: &Less, at: Price) {
        let row = self.rows.row_mut(less.account, less.slot);
        row.release(less.side, less.lots);
        let gained = row.trade(less.side, i64::from(less.lots), at);
        self.release(less, gained - value(less.lots, less.price));
    }

    /// A trade has `lots` more (negative: fewer) after the fact; the price of the account's last
    /// trade stays.
    pub(crate) fn corrected(&mut self, account: AccountId, slot: usize, side: Side, lots: i64) {
        let row = self.rows.row_mut(account, slot);
        let gained = row.trade(side, lots, row.mark);
        let account = self.account_mut(account);
        account.exposure += gained;
        assert!(account.exposure >= 0, "positions are worth nothing or more");
    }

    /// Sets a limit of an account, or the default of those that have none of their own.
    pub(crate) fn set_limit(&mut self, account: AccountId, kind: LimitKind, value: u64) {
        let bit = 1 << kind as u8;
        if account.0 != 0 {
            let account = self.account_mut(account);
            account.limits.set(kind, value);
            account.own |= bit;
            return;
        }
        self.defaults.set(kind, value);
        for account in self.accounts.iter_mut().filter(|account| account.own & bit == 0) {
            account.limits.set(kind, value);
        }
    }

    pub(crate) fn accounts(&self) -> impl Iterator<Item = AccountId> + use<> {
        (1..=self.accounts.len() as u16).map(AccountId)
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        digest.fold(u64::from(self.all_killed));
        LimitKind::ALL.iter().for_each(|&kind| digest.fold(self.defaults.get(kind)));
        for account in &self.accounts {
            LimitKind::ALL.iter().for_each(|&kind| digest.fold(account.limits.get(kind)));
            digest.fold(account.bucket_full_at);
            digest.fold(account.exposure as u64);
            digest.fold((account.exposure >> 64) as u64);
            let flags = u64::from(account.own) << 8 | u64::from(account.killed);
            digest.fold(u64::from(account.open_orders) << 32 | flags);
        }
        for account in self.accounts() {
            for (slot, row) in self.rows.of(account) {
                digest.fold(u64::from(account.0) << 32 | slot as u64);
                row.words().into_iter().for_each(|word| digest.fold(word));
            }
        }
        if let Some(shared) = &self.shared {
            shared.fold(digest);
        }
    }

    /// What does not follow from the open orders.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u8(u8::from(self.all_killed));
        LimitKind::ALL.iter().for_each(|&kind| out.u64(self.defaults.get(kind)));
        for account in &self.accounts {
            LimitKind::ALL.iter().for_each(|&kind| out.u64(account.limits.get(kind)));
            out.u64(account.bucket_full_at);
            out.u8(u8::from(account.killed));
            out.u8(account.own);
        }
        for account in self.accounts() {
            let held = self.rows.of(account).filter(|(_, row)| row.is_held());
            out.u32(held.clone().count() as u32);
            for (slot, row) in held {
                out.u32(slot as u32);
                row.write(out);
            }
        }
        if let Some(shared) = &self.shared {
            shared.write(out);
        }
    }

    /// Takes up what [`Risk::write`] wrote; group and self-trade rule are the configuration's, and
    /// the open orders are counted again.
    pub(crate) fn read(&mut self, bytes: &mut Reader, slots: usize) -> Result<(), SnapshotError> {
        self.all_killed = bytes.bool()?;
        for kind in LimitKind::ALL {
            self.defaults.set(kind, bytes.u64()?);
        }
        for account in &mut self.accounts {
            for kind in LimitKind::ALL {
                account.limits.set(kind, bytes.u64()?);
            }
            account.bucket_full_at = bytes.u64()?;
            account.killed = bytes.bool()?;
            account.own = bytes.u8()?;
        }
        for account in self.accounts() {
            for _ in 0..bytes.u32()? {
                let slot = bytes.u32()? as usize;
                if slot >= slots {
                    return Err(bytes.damaged());
                }
                self.hold(account, slot, bytes)?;
            }
        }
        if let Some(shared) = &mut self.shared {
            shared.read(bytes)?;
        }
        if self.parts_fit() { Ok(()) } else { Err(bytes.damaged()) }
    }

    /// Takes up a position that was written.
    pub(crate) fn hold(
        &mut self,
        account: AccountId,
        slot: usize,
        bytes: &mut Reader,
    ) -> Result<(), SnapshotError> {
        let row = self.rows.row_mut(account, slot);
        row.read(bytes)?;
        let value = row.value();
        self.account_mut(account).exposure += value;
        Ok(())
    }
}

fn value(lots: u32, price: Price) -> i128 {
    i128::from(lots) * i128::from(price.0)
}

#[inline(always)]
fn fat_finger(order: &Proposal, most_bp: u64) -> Result<(), RejectReason> {
    if most_bp == Limits::UNLIMITED || order.market.0 == 0 || order.limit_price.0 == 0 {
        return Ok(());
    }
    let distance = u128::from(order.limit_price.0.abs_diff(order.market.0)) * 10_000;
    if distance > u128::from(order.market.0.unsigned_abs()) * u128::from(most_bp) {
        return Err(RejectReason::FatFinger);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Instrument, InstrumentId, Qty, Symbol};

    fn risk(kind: LimitKind, value: u64) -> Risk {
        let instrument = Instrument {
            id: InstrumentId(1),
            symbol: Symbol::new("A").expect("a valid symbol"),
            tick: Price(1),
            price_max: Price(1_000),
            qty_max: Qty(1_000),
            lot_decimals: 0,
        };
        let config = Config { accounts_max: 2, ..Config::new(vec![instrument]) };
        let mut risk = Risk::new(&config);
        risk.set_limit(AccountId(1), kind, value);
        risk
    }

    #[test]
    fn a_second_holds_as_many_messages_as_allowed() {
        for limit in [1, 3, 7, 1_000] {
            let mut risk = risk(LimitKind::MessageRate, limit);
            let mut taken =
                |at| (0..2 * limit).filter(|_| risk.take_message(AccountId(1), at)).count();
            assert_eq!(taken(5 * SECOND) as u64, limit);
            assert_eq!(taken(5 * SECOND), 0, "at the same time");
            assert_eq!(taken(SECOND), 0, "an earlier stamp opens nothing");
            assert_eq!(taken(6 * SECOND) as u64, limit, "a second later");
        }
        let mut none = risk(LimitKind::MessageRate, 0);
        assert!(!none.take_message(AccountId(1), SECOND));
        assert!(none.take_message(AccountId(2), SECOND), "the other account has no limit");
    }

    fn less(lots: u32, price: i64, last: bool) -> Less {
        Less { account: AccountId(1), slot: 0, side: Side::Buy, lots, price: Price(price), last }
    }

    fn opened(lots: u32, price: i64) -> Risk {
        let mut risk = risk(LimitKind::OpenOrders, 5);
        risk.opened(AccountId(1), 0, Side::Buy, lots, Price(price));
        risk
    }

    #[test]
    #[should_panic(expected = "no more lots are released than reserved")]
    fn control_lots_that_were_not_reserved_are_not_released() {
        opened(5, 10).closed(&less(6, 10, true));
    }

    #[test]
    #[should_panic(expected = "more value was released than reserved")]
    fn control_value_that_was_not_reserved_is_not_released() {
        opened(5, 10).closed(&less(5, 11, true));
    }

    #[test]
    #[should_panic(expected = "no more orders end than were opened")]
    fn control_an_order_ends_once() {
        let mut risk = opened(5, 10);
        risk.account_mut(AccountId(1)).open_orders = 0;
        risk.traded(&less(5, 10, true), Price(10));
    }

    #[test]
    #[should_panic(expected = "lots are open of no order")]
    fn control_lots_are_open_of_orders() {
        opened(5, 10).closed(&less(4, 10, true));
    }

    #[test]
    fn a_default_reaches_only_accounts_without_a_limit_of_their_own() {
        let mut risk = risk(LimitKind::OpenOrders, 5);
        risk.set_limit(AccountId(0), LimitKind::OpenOrders, 9);
        let limit = |account| risk.account(AccountId(account)).limits.get(LimitKind::OpenOrders);
        assert_eq!((limit(1), limit(2)), (5, 9));
    }
}
