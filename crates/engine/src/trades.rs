//! The last trades, kept so that the exchange can break or correct them by match number.
//!
//! A ring by match number: the memory is bounded by `Config::trades_kept`, and finding a trade is
//! one look. Match numbers of crosses leave gaps in it.

use types::{
    AccountId, CancelReason, ClOrdId, Digest, ExecutionKind, ExecutionReport, FeedSeq,
    InstrumentId, Liquidity, MatchNumber, Nanos, OrderRef, OrderTerms, OrderType, Price, Qty,
    RejectReason, Side, TimeInForce, UserRefNum,
};

use crate::codec::{Reader, SnapshotError, Writer};

/// One side of a kept trade, 48 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Party {
    pub(crate) key: u64,
    pub(crate) order_ref: OrderRef,
    pub(crate) cl_ord_id: ClOrdId,
    pub(crate) order_type: OrderType,
    pub(crate) time_in_force: TimeInForce,
    pub(crate) flags: u8,
}

impl Party {
    pub(crate) fn of(order: &book::Order) -> Party {
        Party {
            key: order.key(),
            order_ref: order.order_ref(),
            cl_ord_id: *order.cl_ord_id(),
            order_type: order.order_type(),
            time_in_force: order.time_in_force(),
            flags: order.flags(),
        }
    }

    const NOBODY: Party = Party {
        key: 0,
        order_ref: OrderRef(0),
        cl_ord_id: ClOrdId([0; 14]),
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: 0,
    };

    pub(crate) fn account(&self) -> AccountId {
        AccountId((self.key >> 32) as u16)
    }

    fn words(&self) -> [u64; 5] {
        let mut id = [0; 16];
        id[..14].copy_from_slice(&self.cl_ord_id.0);
        let id = u128::from_le_bytes(id);
        let kinds = u64::from(self.order_type as u8) << 16
            | u64::from(self.time_in_force as u8) << 8
            | u64::from(self.flags);
        [self.key, self.order_ref.0, id as u64, (id >> 64) as u64, kinds]
    }

    fn read(bytes: &mut Reader) -> Result<Party, SnapshotError> {
        let (key, order_ref) = (bytes.u64()?, OrderRef(bytes.u64()?));
        let mut id = [0; 16];
        id.copy_from_slice(bytes.raw(16)?);
        let mut cl_ord_id = [0; 14];
        cl_ord_id.copy_from_slice(&id[..14]);
        let kinds = bytes.u64()?;
        Ok(Party {
            key,
            order_ref,
            cl_ord_id: ClOrdId(cl_ord_id),
            order_type: order_type((kinds >> 16) as u8).ok_or(bytes.damaged())?,
            time_in_force: time_in_force((kinds >> 8) as u8).ok_or(bytes.damaged())?,
            flags: kinds as u8,
        })
    }
}

fn order_type(code: u8) -> Option<OrderType> {
    zerocopy::TryFromBytes::try_read_from_bytes(&[code]).ok()
}

fn time_in_force(code: u8) -> Option<TimeInForce> {
    zerocopy::TryFromBytes::try_read_from_bytes(&[code]).ok()
}

/// A kept trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trade {
    pub(crate) match_number: MatchNumber,
    pub(crate) price: Price,
    pub(crate) qty: u32,
    /// Lots before any correction.
    pub(crate) made_of: u32,
    pub(crate) slot: u16,
    pub(crate) buy: Party,
    pub(crate) sell: Party,
}

impl Trade {
    const NONE: Trade = Trade {
        match_number: MatchNumber(0),
        price: Price(0),
        qty: 0,
        made_of: 0,
        slot: 0,
        buy: Party::NOBODY,
        sell: Party::NOBODY,
    };

    pub(crate) fn party(&self, side: Side) -> &Party {
        match side {
            Side::Buy => &self.buy,
            Side::Sell => &self.sell,
        }
    }

    /// What one side is told of a change of the trade.
    pub(crate) fn report(
        &self,
        kind: ExecutionKind,
        side: Side,
        public_after: FeedSeq,
        t_seq: Nanos,
    ) -> ExecutionReport {
        let party = self.party(side);
        ExecutionReport {
            kind,
            side,
            order_type: party.order_type,
            time_in_force: party.time_in_force,
            flags: party.flags,
            reject: RejectReason::None,
            cancel_reason: CancelReason::None,
            liquidity: Liquidity::None,
            account: party.account(),
            instrument: InstrumentId(self.slot + 1),
            user_ref: UserRefNum(party.key as u32),
            orig_user_ref: UserRefNum(0),
            session_seq: 0,
            qty: Qty(u64::from(self.qty)),
            leaves: Qty(0),
            price: self.price,
            order_ref: party.order_ref,
            match_number: self.match_number,
            public_after,
            t_seq,
            cl_ord_id: party.cl_ord_id,
            reserved2: [0; 2],
            terms: OrderTerms::default(),
        }
    }
}

/// The last trades of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Trades {
    /// The trade with number `n` is at `n % kept`, unless a later one took its place.
    ring: Vec<Trade>,
    /// Of the last trade since this engine was made. No part of the state.
    last: MatchNumber,
}

impl Trades {
    pub(crate) fn new(kept: usize) -> Trades {
        Trades { ring: vec![Trade::NONE; kept], last: MatchNumber(0) }
    }

    /// Keeps a trade that was made just now.
    #[inline]
    pub(crate) fn push(&mut self, trade: Trade) {
        assert!(trade.qty > 0, "a trade is of some lots");
        assert!(trade.match_number > self.last, "match numbers ascend");
        self.last = trade.match_number;
        self.put(trade);
    }

    #[inline]
    fn put(&mut self, trade: Trade) {
        let at = self.place(trade.match_number);
        self.ring[at] = trade;
    }

    pub(crate) fn get_mut(&mut self, match_number: MatchNumber) -> Option<&mut Trade> {
        let at = self.place(match_number);
        let trade = &mut self.ring[at];
        let found = match_number.0 != 0 && trade.match_number == match_number;
        assert!(!found || trade.qty > 0, "a kept trade is of some lots");
        found.then_some(trade)
    }

    /// Takes a trade out: it can't be broken twice.
    pub(crate) fn remove(&mut self, match_number: MatchNumber) -> Option<Trade> {
        self.get_mut(match_number).map(|trade| std::mem::replace(trade, Trade::NONE))
    }

    /// The trades of an instrument that leaves are not this shard's any more.
    pub(crate) fn forget(&mut self, slot: usize) {
        let of_slot = |trade: &&mut Trade| usize::from(trade.slot) == slot;
        self.ring.iter_mut().filter(of_slot).for_each(|trade| *trade = Trade::NONE);
    }

    fn place(&self, match_number: MatchNumber) -> usize {
        (match_number.0 % self.ring.len() as u64) as usize
    }

    fn kept(&self) -> impl Iterator<Item = &Trade> {
        self.ring.iter().filter(|trade| trade.match_number.0 != 0)
    }

    pub(crate) fn fold(&self, digest: &mut Digest) {
        for trade in self.kept() {
            digest.fold(trade.match_number.0);
            digest.fold(trade.price.0 as u64);
            digest.fold(u64::from(trade.made_of) << 32 | u64::from(trade.qty));
            digest.fold(u64::from(trade.slot));
            let words = trade.buy.words().into_iter().chain(trade.sell.words());
            words.for_each(|word| digest.fold(word));
        }
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.kept().count() as u64);
        for trade in self.kept() {
            out.u64(trade.match_number.0);
            out.i64(trade.price.0);
            out.u64(u64::from(trade.made_of) << 32 | u64::from(trade.qty));
            out.u64(u64::from(trade.slot));
            let words = trade.buy.words().into_iter().chain(trade.sell.words());
            words.for_each(|word| out.u64(word));
        }
    }

    pub(crate) fn read(
        &mut self,
        bytes: &mut Reader,
        slots: usize,
        accounts: usize,
    ) -> Result<(), SnapshotError> {
        for _ in 0..bytes.count(self.ring.len())? {
            let (match_number, price) = (MatchNumber(bytes.u64()?), Price(bytes.i64()?));
            let lots = bytes.u64()?;
            let (qty, made_of) = (lots as u32, (lots >> 32) as u32);
            let slot = u16::try_from(bytes.u64()?).map_err(|_| bytes.damaged())?;
            let (buy, sell) = (Party::read(bytes)?, Party::read(bytes)?);
            let known = |party: &Party| (1..=accounts as u64).contains(&(party.key >> 32));
            let made = match_number.0 > 0 && (1..=made_of).contains(&qty);
            if usize::from(slot) >= slots || !known(&buy) || !known(&sell) || !made {
                return Err(bytes.damaged());
            }
            self.put(Trade { match_number, price, qty, made_of, slot, buy, sell });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trade(number: u64, qty: u32) -> Trade {
        Trade { match_number: MatchNumber(number), qty, made_of: qty, ..Trade::NONE }
    }

    #[test]
    fn a_trade_is_kept_until_a_later_one_takes_its_place() {
        let mut trades = Trades::new(4);
        (1..=5).for_each(|number| trades.push(trade(number, 1)));
        assert_eq!(trades.remove(MatchNumber(1)), None);
        assert_eq!(trades.remove(MatchNumber(2)), Some(trade(2, 1)));
        assert_eq!(trades.remove(MatchNumber(2)), None, "it is broken once");
    }

    #[test]
    #[should_panic(expected = "match numbers ascend")]
    fn control_a_match_number_is_given_once() {
        let mut trades = Trades::new(4);
        trades.push(trade(3, 1));
        trades.push(trade(3, 1));
    }

    #[test]
    #[should_panic(expected = "a trade is of some lots")]
    fn control_nothing_is_no_trade() {
        Trades::new(4).push(trade(1, 0));
    }
}
