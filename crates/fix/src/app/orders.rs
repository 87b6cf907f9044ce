//! The orders a ledger knows: a slab with two ways in, by number and by identifier.
//!
//! Orders of several accounts may lie side by side: the account is part of both keys. Memory grows
//! to the largest number of orders known at one time and is used again: nothing is allocated after
//! that. Of two orders with one identifier the later one is found by it.

use types::{
    AccountId, ClOrdId, InstrumentId, Nanos, OrderRef, OrderTerms, OrderType, Price, Side,
    TimeInForce,
};

use super::index::Index;
use super::ledger::Status;

/// An order as a ledger knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// Key of the order, made by [`key`] from account and UserRefNum.
    pub(super) key: u64,
    pub(super) cl_ord_id: ClOrdId,
    /// The order's ClOrdID before the last replace; `None`: it was not replaced.
    pub(super) original: Option<ClOrdId>,
    pub(super) instrument: InstrumentId,
    pub(super) side: Side,
    pub(super) order_type: OrderType,
    pub(super) time_in_force: TimeInForce,
    /// Flags of the order, as in [`types::Command::flags`].
    pub(super) flags: u8,
    pub(super) terms: OrderTerms,
    pub(super) order_ref: OrderRef,
    /// Quantity in total, lots.
    pub(super) qty: u64,
    /// Open quantity, lots.
    pub(super) leaves: u64,
    /// Quantity that has traded, lots.
    pub(super) cum: u64,
    /// Sum of price × lots over all trades.
    pub(super) value: i128,
    pub(super) price: Price,
    pub(super) status: Status,
    /// Whether the order is in the ledger's list of done orders.
    pub(super) retired: bool,
    /// UserRefNum of the order that replaced this one; 0: it has not been replaced.
    pub(super) successor: u32,
    /// UserRefNum of a replace of this order that is under way; 0: there is none.
    pub(super) replaced_by: u32,
    /// Not 0: this is no order yet but a replace that is under way, and this is the UserRefNum of the
    /// order that it is about, where that is another replace the order that the chain begins with.
    pub(super) root: u32,
    pub(super) at: Nanos,
}

/// The key of an order: its account and its UserRefNum.
#[inline]
pub(super) fn key(account: AccountId, user_ref: u32) -> u64 {
    u64::from(account.0) << 32 | u64::from(user_ref)
}

/// The key of an order in the index by identifier: account and ClOrdID.
#[inline]
fn id_key(account: AccountId, id: &ClOrdId) -> u128 {
    let mut bytes = [0; 16];
    if let Some((name, rest)) = bytes.split_first_chunk_mut::<14>() {
        *name = id.0;
        rest.copy_from_slice(&account.0.to_le_bytes());
    }
    u128::from_le_bytes(bytes)
}

/// The account that a key names.
pub(super) fn account_of(key: u64) -> AccountId {
    AccountId((key >> 32) as u16)
}

impl Order {
    fn id_key(&self) -> u128 {
        id_key(account_of(self.key), &self.cl_ord_id)
    }
}

/// The slab of orders, with an index by key and one by ClOrdID.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    /// Orders; a removed one stays here until its place is used again.
    slab: Vec<Order>,
    free: Vec<u32>,
    by_key: Index,
    by_id: Index,
}

fn key_at(slab: &[Order], place: u32) -> Option<u128> {
    slab.get(place as usize).map(|order| u128::from(order.key))
}

fn id_at(slab: &[Order], place: u32) -> Option<u128> {
    slab.get(place as usize).map(Order::id_key)
}

impl Orders {
    pub(super) fn new(salt: u64) -> Orders {
        let (by_key, by_id) = (Index::new(salt), Index::new(!salt));
        Orders { slab: Vec::new(), free: Vec::new(), by_key, by_id }
    }

    /// Reserves the memory for `most` orders.
    pub(super) fn prepare(&mut self, most: usize) {
        self.slab.reserve(most.saturating_sub(self.slab.len()));
        self.free.reserve(most.saturating_sub(self.free.len()));
        let slab = &self.slab;
        self.by_key.prepare(most, |place| key_at(slab, place));
        self.by_id.prepare(most, |place| id_at(slab, place));
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len() - self.free.len()
    }

    #[inline]
    fn place(&self, key: u64) -> Option<u32> {
        self.by_key.get(u128::from(key), |place| key_at(&self.slab, place))
    }

    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<&Order> {
        self.slab.get(self.place(key)? as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut Order> {
        let place = self.place(key)?;
        self.slab.get_mut(place as usize)
    }

    /// The account's order with this ClOrdID; if two have it, the later one.
    #[inline]
    pub(super) fn by_id(&self, account: AccountId, id: &ClOrdId) -> Option<&Order> {
        let place = self.by_id.get(id_key(account, id), |place| id_at(&self.slab, place))?;
        self.slab.get(place as usize)
    }

    /// Adds an order, or overwrites the one with the same key.
    #[inline]
    pub(super) fn insert(&mut self, order: Order) {
        let known = self.place(order.key);
        if let Some(known) = known.and_then(|place| self.slab.get(place as usize)).copied() {
            if known.cl_ord_id == order.cl_ord_id {
                if let Some(same) = self.get_mut(order.key) {
                    *same = order;
                }
                return;
            }
            self.remove(order.key);
        }
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.slab.push(order);
                // None is free now; there is room to free all.
                self.free.reserve(self.slab.len());
                self.slab.len() as u32 - 1
            }
        };
        if let Some(free) = self.slab.get_mut(place as usize) {
            *free = order;
        }
        let slab = &self.slab;
        self.by_key.put(u128::from(order.key), place, |place| key_at(slab, place));
        self.by_id.put(order.id_key(), place, |place| id_at(slab, place));
    }

    /// Removes an order; its place is used again.
    pub(super) fn remove(&mut self, key: u64) {
        let Some(place) = self.place(key) else { return };
        let Some(id) = id_at(&self.slab, place) else { return };
        let slab = &self.slab;
        self.by_key.remove(u128::from(key), |place| key_at(slab, place));
        if self.by_id.get(id, |place| id_at(slab, place)) == Some(place) {
            self.by_id.remove(id, |place| id_at(slab, place));
        }
        self.free.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(key: u64, id: u8) -> Order {
        Order {
            key,
            cl_ord_id: ClOrdId([id; 14]),
            original: None,
            instrument: InstrumentId(1),
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            flags: 0,
            terms: OrderTerms::default(),
            order_ref: OrderRef(1),
            qty: 1,
            leaves: 1,
            cum: 0,
            value: 0,
            price: Price(1),
            status: Status::New,
            retired: false,
            successor: 0,
            replaced_by: 0,
            root: 0,
            at: Nanos(0),
        }
    }

    #[test]
    fn an_identifier_names_the_latest_order_of_its_account() {
        let (one, two) = (AccountId(1), AccountId(2));
        let mut orders = Orders::new(7);
        orders.insert(order(key(one, 1), b'a'));
        orders.insert(order(key(two, 1), b'a'));
        orders.insert(order(key(one, 2), b'a'));
        let found = |orders: &Orders, account| {
            orders.by_id(account, &ClOrdId([b'a'; 14])).map(|order| order.key)
        };
        assert_eq!(found(&orders, one), Some(key(one, 2)));
        assert_eq!(found(&orders, two), Some(key(two, 1)));
        orders.remove(key(one, 1));
        assert_eq!(found(&orders, one), Some(key(one, 2)), "not the one that went");
        orders.remove(key(one, 2));
        assert_eq!((found(&orders, one), orders.len()), (None, 1));
        orders.insert(order(key(two, 1), b'b'));
        assert_eq!((found(&orders, two), orders.len()), (None, 1), "renamed");
        assert_eq!(orders.get(key(two, 1)).map(|order| order.cl_ord_id.0[0]), Some(b'b'));
    }
}
