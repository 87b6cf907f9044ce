//! Questions about an engine's state, and its digest.

use book::{Books, Depth};
use types::{
    AccountId, Command, Digest, FeedSeq, GatewayId, Incarnation, Indicative, Input, InstrumentId,
    Nanos, Phase, Price, Qty, Seq, SeqWindow, Side, Source,
};

use crate::apply::{Applied, Day, Engine};
use crate::config::{Config, Limits};
use crate::counters::{Counters, InstrumentCounters};
use crate::nodes::Nodes;
use crate::output::Output;

/// What an account has in one instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Position {
    /// Lots bought less lots sold.
    pub lots: i64,
    /// Open lots to buy.
    pub open_buy: Qty,
    /// Open lots to sell.
    pub open_sell: Qty,
    /// Price of the account's last trade in it; 0: none.
    pub mark: Price,
}

/// What an account has all together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Orders open.
    pub open_orders: u32,
    /// Value of open orders and positions, in price units times lots.
    pub exposure: i128,
    /// Its limits; of those that span shards the part that this shard may use.
    pub limits: Limits,
    /// Whether its kill switch is on.
    pub killed: bool,
}

impl Engine {
    /// The present life of a gateway and which of its inputs were seen, for acknowledgements;
    /// incarnation 0 and an empty window for a gateway without a grant.
    pub fn received(&self, gateway: GatewayId) -> (Incarnation, &SeqWindow) {
        self.gateways.received(gateway)
    }

    /// The venue's nodes as the log knows them.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The configuration it was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the trading day has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.day == Day::Open
    }

    /// Whether a day has ended and the next one not begun: the feed is silent, whatever becomes of
    /// the books.
    pub fn is_between_days(&self) -> bool {
        self.day == Day::Closed
    }

    /// Position the next market event will have.
    pub fn feed_next(&self) -> FeedSeq {
        self.feed.next
    }

    /// Engine time: the largest `t_seq` applied.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Inputs applied, duplicates and refused ones included.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Open orders of all instruments.
    pub fn open_orders(&self) -> usize {
        self.books.len()
    }

    /// The shard's counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counts of one instrument; `None` for one that this shard has not.
    pub fn instrument_counters(&self, instrument: InstrumentId) -> Option<InstrumentCounters> {
        self.slot(instrument).map(|slot| self.counters.instruments[slot])
    }

    /// All books; that of instrument `n` has number `n - 1`.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// An instrument's phase; `None` for one that this shard has not.
    pub fn phase(&self, instrument: InstrumentId) -> Option<Phase> {
        self.slot(instrument).map(|slot| self.books.phase(slot as u16))
    }

    /// Price of an instrument's last trade; 0: none.
    pub fn last_price(&self, instrument: InstrumentId) -> Price {
        self.slot(instrument).map_or(Price(0), |slot| self.books.last_price(slot as u16))
    }

    /// An instrument's reference price; 0: none.
    pub fn reference_price(&self, instrument: InstrumentId) -> Price {
        self.slot(instrument).map_or(Price(0), |slot| self.markets[slot].reference)
    }

    /// Last price of the last day that ended here, also of an instrument that has gone since; 0: none.
    pub fn closing_price(&self, instrument: InstrumentId) -> Price {
        let slot = usize::from(instrument.0).wrapping_sub(1);
        self.markets.get(slot).map_or(Price(0), |market| market.closing)
    }

    /// What an uncrossing would give now.
    pub fn indicative(&self, instrument: InstrumentId) -> Option<Indicative> {
        self.slot(instrument).map(|slot| self.books.indicative(slot as u16))
    }

    /// What an account has in an instrument; nothing for those that don't exist.
    pub fn position(&self, account: AccountId, instrument: InstrumentId) -> Position {
        // Also in one that is no longer traded.
        let slot = usize::from(instrument.0).wrapping_sub(1);
        if slot >= self.markets.len() || !self.accounts.exists(account) {
            return Position::default();
        }
        let row = self.risk.rows.row(account, slot);
        Position {
            lots: row.position,
            open_buy: Qty(row.open[0]),
            open_sell: Qty(row.open[1]),
            mark: row.mark,
        }
    }

    /// What an account has all together; `None` for one that can't exist.
    pub fn standing(&self, account: AccountId) -> Option<Standing> {
        self.risk.get(account).map(|account| Standing {
            open_orders: account.open_orders,
            exposure: account.exposure,
            limits: account.limits,
            killed: account.killed,
        })
    }

    /// Whether the exchange-wide kill switch is on.
    pub fn is_killed(&self) -> bool {
        self.risk.all_killed
    }

    /// The best level of a side; `None` when it is empty or the instrument is not here.
    pub fn best(&self, instrument: InstrumentId, side: Side) -> Option<Depth> {
        self.slot(instrument).and_then(|slot| self.books.best(slot as u16, side))
    }

    /// The levels of a side, best first; none for an instrument that is not here.
    pub fn depth(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = Depth> {
        let slot = self.slot(instrument);
        slot.into_iter().flat_map(move |slot| self.books.depth(slot as u16, side))
    }

    /// Digest of the displayed book, to be compared with every reader of the feed; see
    /// [`types::displayed_book`]. An instrument that is not here has that of an empty book.
    pub fn displayed_digest(&self, instrument: InstrumentId) -> u64 {
        match self.slot(instrument) {
            Some(slot) => self.books.displayed_digest(slot as u16),
            None => types::displayed_book(std::iter::empty(), std::iter::empty()),
        }
    }

    /// What a command of the exchange or its operators would do now, and all that would follow,
    /// without doing it. Copies the engine: off the hot path.
    pub fn dry_run(&self, command: &Command) -> (Applied, Output) {
        let (mut copy, mut out) = (self.clone(), Output::default());
        let source = Source { shard: self.config.shard, ..Source::default() };
        let (seq, now) = (Seq(self.applied + 1), self.now);
        let input = Input { seq, t_in: now, t_seq: now, source, flags: 0, command: *command };
        let applied = copy.apply(&input, &mut out);
        (applied, out)
    }

    /// Digest of the whole state: two engines with equal digests answer every further input alike.
    /// Linear in the state; not for the hot path.
    pub fn state_digest(&self) -> u64 {
        let mut digest = Digest::default();
        digest.fold(self.day as u64);
        digest.fold(u64::from(self.market_hours) << 1 | u64::from(self.carried_over));
        digest.fold(self.now.0);
        digest.fold(self.applied);
        digest.fold(self.feed.next.0);
        self.counters.fold(&mut digest);
        self.gateways.fold(&mut digest);
        self.nodes.fold(&mut digest);
        self.accounts.fold(&mut digest);
        self.risk.fold(&mut digest);
        self.between.iter().for_each(|between| between.fold(&mut digest));
        self.trades.fold(&mut digest);
        self.markets.iter().for_each(|market| market.fold(&mut digest));
        self.books.fold(&mut digest);
        digest.0
    }
}
