//! Instruments that move between shards: by what is left of them at one position of one log, taken
//! up at one position of the other (corner 11).
//!
//! [`CommandKind::DetachInstrument`](types::CommandKind::DetachInstrument) takes an instrument out
//! of this shard: readers of its feed see its displayed orders deleted and the instrument halted,
//! and its bytes are kept for [`Engine::detached`]. [`Engine::stage`] hands the bytes to the other
//! shard, whose [`CommandKind::AttachInstrument`](types::CommandKind::AttachInstrument) names their
//! digest: the bytes lie beside that shard's log, and a replay stages them again. The other shard
//! tells its readers of the instrument and of each displayed order.
//!
//! What moves: the book in the order of its queues, phase, prices, collars, the accounts' positions
//! in the instrument, and which request numbers the accounts have used (a request that was answered
//! here is a duplicate there). What does not: order references and match numbers, which are each
//! shard's own; limits; trades that can be broken.
//!
//! These two commands are the bare means. In a venue of several shards an operator says where an
//! instrument is to be, and the logs say the rest: module `moves`.

use types::{
    AccountId, Command, ExecutionKind, InstrumentId, MarketEvent, Phase, Side, TradingState,
};

use crate::apply::{Applied, Engine};
use crate::codec::{Reader, SnapshotError, Writer, digest_of};
use crate::engine_events::open_price;
use crate::output::{Moved, Output, about_order, account_of};
use crate::phases::trading_state;
use crate::risk::{Less, Row};
use crate::sources::Accounts;

const MAGIC: &[u8; 8] = b"FBELINS2";

impl Engine {
    /// The instrument that was detached last and its bytes, until the next one.
    pub fn detached(&self) -> Option<(InstrumentId, &[u8])> {
        self.detached.as_ref().map(|(id, bytes)| (*id, bytes.as_slice()))
    }

    /// Keeps the bytes of an instrument for the command that attaches it, and says what their
    /// digest is. No part of the state: it has no effect by itself.
    pub fn stage(&mut self, bytes: Vec<u8>) -> u64 {
        let digest = digest_of(&bytes);
        self.staged = bytes;
        digest
    }

    pub(crate) fn detach(&mut self, command: &Command, out: &mut Output) -> Applied {
        let Some(slot) = self.slot(command.instrument) else { return Applied::Refused };
        let bytes = self.take_out(slot, out);
        self.detached = Some((command.instrument, bytes));
        Applied::Done
    }

    /// Takes an instrument that this shard has out of it: its bytes.
    pub(crate) fn take_out(&mut self, slot: usize, out: &mut Output) -> Vec<u8> {
        let instrument = InstrumentId(slot as u16 + 1);
        let mut bytes = Vec::new();
        self.write_instrument(slot, &mut bytes);
        for side in [Side::Buy, Side::Sell] {
            let shown = self.books.orders(slot as u16, side).filter(|order| order.shown() > 0);
            for order in shown {
                let order_ref = order.order_ref();
                self.feed.publish(MarketEvent::OrderDelete { instrument, order_ref }, out);
            }
        }
        let state = TradingState::Halted;
        self.feed.publish(MarketEvent::TradingAction { instrument, state }, out);
        self.tell_moved(slot, false, out);
        self.take_off_sums(slot);
        self.books.remove_book(slot as u16);
        self.trades.forget(slot);
        self.markets[slot].held = false;
        assert_eq!(self.books.len_of(slot as u16), 0, "nobody has orders in it any more");
        bytes
    }

    /// The accounts' orders and positions in an instrument count here no longer.
    fn take_off_sums(&mut self, slot: usize) {
        for order in self.books.all_orders(slot as u16) {
            let account = account_of(order.key());
            self.risk.closed(&Less {
                account,
                slot,
                side: order.side(),
                lots: order.open(),
                price: open_price(order),
                last: true,
            });
        }
        for account in self.risk.accounts() {
            let row = self.risk.rows.row(account, slot);
            assert_eq!(row.open, [0; 2], "all that was reserved is released");
            if *row != Row::default() {
                self.risk.account_mut(account).exposure -= row.value();
                *self.risk.rows.row_mut(account, slot) = Row::default();
            }
        }
    }

    fn write_instrument(&self, slot: usize, out: &mut Vec<u8>) {
        let mut to = Writer { bytes: out };
        to.raw(MAGIC);
        to.u32(crate::RULES_VERSION);
        to.u32(slot as u32 + 1);
        to.u64(self.now.0);
        self.markets[slot].write(&mut to);
        let rows = self.risk.accounts().map(|account| (account, self.risk.rows.row(account, slot)));
        let held: Vec<(AccountId, &Row)> = rows.filter(|(_, row)| row.is_held()).collect();
        to.u32(held.len() as u32);
        for (account, row) in held {
            to.u32(u32::from(account.0));
            row.write(&mut to);
        }
        self.seen_by_all().write_seen(&mut to);
        to.section(|bytes| self.books.write_book(slot as u16, bytes));
    }

    pub(crate) fn attach(&mut self, command: &Command, out: &mut Output) -> Applied {
        let slot = usize::from(command.instrument.0).wrapping_sub(1);
        let absent = self.markets.get(slot).is_some_and(|market| !market.held);
        if !absent || digest_of(&self.staged) != command.qty.0 {
            return Applied::Refused;
        }
        let bytes = std::mem::take(&mut self.staged);
        // Taken up by a copy first: bytes that do not fit change nothing.
        let mut next = self.clone();
        let Ok((_, seen)) = next.read_instrument(slot, &bytes) else { return Applied::Refused };
        next.accounts.unite(&seen);
        assert!(next.markets[slot].held && next.applied == self.applied && next.now >= self.now);
        *self = next;
        self.tell_moved(slot, true, out);
        self.announce(slot, out);
        Applied::Done
    }

    /// What accounts have in an instrument that came, or is about to go.
    pub(crate) fn tell_moved(&self, slot: usize, came: bool, out: &mut Output) {
        let instrument = InstrumentId(slot as u16 + 1);
        for order in self.books.all_orders(slot as u16) {
            let mut report = about_order(ExecutionKind::Accepted, instrument, order, self.now);
            (report.qty, report.price) = (report.leaves, order.limit());
            report.cl_ord_id = *order.cl_ord_id();
            out.tell_moved(Moved::Order { came, report });
        }
        for account in self.risk.accounts() {
            let row = self.risk.rows.row(account, slot);
            if row.is_held() {
                let (lots, mark) = match came {
                    true => (row.position, row.mark),
                    false => (-row.position, types::Price(0)),
                };
                out.tell_moved(Moved::Position { account, instrument, lots, mark });
            }
        }
    }

    /// Takes up what [`Engine::take_out`] gave: engine time of the shard that it was taken out of, and the
    /// numbers of requests seen there.
    pub(crate) fn read_instrument(
        &mut self,
        slot: usize,
        bytes: &[u8],
    ) -> Result<(types::Nanos, Accounts), SnapshotError> {
        let mut from = Reader::new(bytes);
        if from.raw(MAGIC.len())? != MAGIC {
            return Err(SnapshotError::Magic);
        }
        let rules = from.u32()?;
        if rules != crate::RULES_VERSION {
            return Err(SnapshotError::Rules(rules));
        }
        if from.u32()? as usize != slot + 1 {
            return Err(from.damaged());
        }
        let theirs = types::Nanos(from.u64()?);
        self.now = self.now.max(theirs);
        self.markets[slot].read(&mut from)?;
        self.markets[slot].held = true;
        self.books.set_ticks(slot as u16, self.markets[slot].ticks);
        for _ in 0..from.u32()? {
            let account = u16::try_from(from.u32()?).map(AccountId).map_err(|_| from.damaged())?;
            if !self.accounts.exists(account) {
                return Err(from.damaged());
            }
            self.risk.hold(account, slot, &mut from)?;
        }
        let seen = Accounts::read_seen(&mut from, self.config.accounts_max)?;
        let section = from.section()?;
        from.end()?;
        self.books.read_book(slot as u16, section).map_err(SnapshotError::Book)?;
        self.count_orders(slot).ok_or(from.damaged())?;
        self.carried_over = true;
        self.refer(slot);
        Ok((theirs, seen))
    }

    /// Tells this shard's readers of an instrument that has joined it.
    pub(crate) fn announce(&mut self, slot: usize, out: &mut Output) {
        let instrument = InstrumentId(slot as u16 + 1);
        self.feed.publish(MarketEvent::Directory { instrument }, out);
        let phase: Phase = self.books.phase(slot as u16);
        let state = trading_state(phase);
        self.feed.publish(MarketEvent::TradingAction { instrument, state }, out);
        self.publish_collar(slot, out);
        self.announce_orders(slot, out);
    }
}
