//! The node behind the door: a listener of the public feed, and the accounts' sessions.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use feed::Subscriber;
use feed::plant::{Kind, Update};
use serde_json::{Value, json};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Price, Qty, Side};

use crate::account::ledger::near;
use crate::account::{Account, Ask, ReplyTo, Resting, Stamps};
use crate::decimal::lots_text;
use crate::error::ApiError;
use crate::market::{Market, Print};

/// The node's name in its loop.
pub const WEB_NODE: NodeId = NodeId(60_003);
/// Between two looks at the books: what changes within is one update.
const FOLLOW_NS: u64 = 10 * Nanos::MILLI;
/// Connections of accounts are numbered from here; below are the listener's.
const CONNS: u32 = 1 << 30;
/// Requests that wait for the node.
const INBOX_MAX: usize = 16_384;
/// Messages of the feed whose way is remembered.
const HEARD_MAX: usize = 1_000;

/// Requests of HTTP's thread on their way to the node, in their order.
#[derive(Default)]
pub struct Inbox(Mutex<VecDeque<(usize, Ask, ReplyTo)>>);

impl Inbox {
    /// Puts requests of an account behind the others; whether the node has to be told. What finds no place
    /// is answered so.
    pub fn put(&self, account: usize, asks: impl IntoIterator<Item = (Ask, ReplyTo)>) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = waiting.is_empty();
        for (ask, reply) in asks {
            if waiting.len() < INBOX_MAX {
                waiting.push_back((account, ask, reply));
            } else {
                let busy = ApiError::new("busy", "the door has too much to do: try again");
                reply.send(Err(busy));
            }
        }
        was_empty && !waiting.is_empty()
    }

    /// Takes all.
    pub fn take(&self) -> VecDeque<(usize, Ask, ReplyTo)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Listener and accounts.
pub struct WebNode {
    feed: Subscriber,
    market: Arc<Market>,
    accounts: Vec<Account>,
    ticks: Vec<Update>,
    /// When the books are looked at next; [`Nanos::NEVER`] while nothing has come.
    follow_at: Nanos,
    next_conn: u32,
    /// First midnight of the exchange's log.
    midnight: Nanos,
    /// Of the last messages: from the exchange's time to here, ns.
    delays: VecDeque<i64>,
    bound_ns: u64,
    /// Takes when requests were where, with the place of their account from 1.
    stamps: Option<Box<dyn FnMut(u16, Stamps) + Send>>,
}

impl WebNode {
    /// A node that hears the feed by `feed` and writes it to `market`.
    pub fn new(mut feed: Subscriber, market: Arc<Market>, accounts: Vec<Account>) -> WebNode {
        feed.tell_ticks();
        WebNode {
            feed,
            market,
            accounts,
            ticks: Vec::new(),
            follow_at: Nanos::NEVER,
            next_conn: CONNS,
            midnight: Nanos(0),
            delays: VecDeque::new(),
            bound_ns: 0,
            stamps: None,
        }
    }

    /// The exchange's times count from the last midnight, of which this was the first.
    pub fn set_midnight(&mut self, midnight: Nanos) {
        self.midnight = midnight;
        self.accounts.iter_mut().for_each(|account| account.set_midnight(midnight));
    }

    /// Smallest quantities of orders, lots, in the order of the instruments; one lot each unless they are set.
    pub fn set_qty_min(&mut self, lots: &[Qty]) {
        self.market.set_qty_min(lots);
        self.accounts.iter_mut().for_each(|account| account.set_qty_min(lots));
    }

    /// From now on `to` is told of each request that the exchange has answered, with the place of its
    /// account from 1.
    pub fn tell_stamps(&mut self, to: impl FnMut(u16, Stamps) + Send + 'static) {
        self.stamps = Some(Box::new(to));
    }

    /// Passes on what accounts have answered.
    fn settle(&mut self) {
        for (place, account) in (1..).zip(&mut self.accounts) {
            account.place_replies(|of| ahead(&self.feed, of));
            for stamps in account.take_stamps() {
                if let Some(to) = &mut self.stamps {
                    to(place, stamps);
                }
            }
        }
    }

    /// The listener.
    pub fn feed(&self) -> &Subscriber {
        &self.feed
    }

    /// From now on the feed comes from there.
    pub fn set_sources(&mut self, sources: Vec<Peer>) {
        self.feed.set_sources(sources);
    }

    /// The accounts.
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Asks accounts for what is in an inbox.
    pub fn serve(&mut self, now: ClockReading, inbox: &Inbox, out: &mut Outbox) {
        for (account, ask, reply) in inbox.take() {
            let Some(account) = self.accounts.get_mut(account) else { continue };
            let ask = match ask {
                Ask::Order(of, None) => {
                    let resting = account.resting(of);
                    Ask::Order(of, resting.and_then(|of| ahead(&self.feed, &of)))
                }
                ask => ask,
            };
            account.ask(now.now, ask, reply, out);
        }
        self.settle();
    }

    /// Takes the single orders of an instrument into the market.
    pub fn look(&self, place: usize) {
        self.market.look(&self.feed, place);
    }

    /// How long the last messages of the feed took from the exchange's time to here, and the clock's bound.
    pub fn evidence(&self) -> Value {
        let mut all: Vec<i64> = self.delays.iter().copied().collect();
        all.sort_unstable();
        let at = |part: usize| all.get((all.len() * part / 100).min(all.len().saturating_sub(1)));
        json!({
            "messages": all.len(), "p50_ns": at(50), "p99_ns": at(99), "max_ns": all.last(),
            "clock_bound_ns": self.bound_ns,
        })
    }

    /// Something may have come: the books are looked at soon.
    fn heard(&mut self, now: ClockReading) {
        self.follow_at = self.follow_at.min(now.now.after(FOLLOW_NS));
    }

    fn follow(&mut self) {
        self.follow_at = Nanos::NEVER;
        self.feed.take_ticks(&mut self.ticks);
        let instruments = &self.market.instruments().0;
        let place = |update: &Update| {
            instruments.iter().position(|one| {
                feed::plant::symbol(one.symbol.as_str()) == Some(update.series.symbol)
            })
        };
        let mut prints = Vec::new();
        for update in &self.ticks {
            if update.kind.is_tick() {
                let published = near(update.heard, self.midnight, update.time);
                if self.delays.len() >= HEARD_MAX {
                    self.delays.pop_front();
                }
                let way = update.heard.0.cast_signed().saturating_sub(published.0.cast_signed());
                self.delays.push_back(way);
            }
            let broken = match update.kind {
                Kind::Trade => false,
                Kind::Broken => true,
                _ => continue,
            };
            let Some(place) = place(update) else { continue };
            let aggressor = match update.bbo {
                b'B' => Some(Side::Buy),
                b'S' => Some(Side::Sell),
                _ => None,
            };
            let print = Print {
                seq: update.sequence,
                match_number: update.offer.0.unsigned_abs(),
                // Told in 10^-8.
                price: Price(update.bid.0 / 10_000),
                lots: update.bid_size,
                aggressor,
                time: update.time,
                time_ms: near(update.heard, self.midnight, update.time).0 / Nanos::MILLI,
                broken,
            };
            prints.push((place, print));
        }
        self.ticks.clear();
        self.market.follow(&self.feed, &prints);
    }

    fn of_conn(&mut self, conn: ConnId) -> Option<&mut Account> {
        self.accounts.iter_mut().find(|account| account.conn() == Some(conn))
    }
}

impl Node for WebNode {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.feed.handle_datagram(now, channel, from, bytes, out);
        self.bound_ns = now.bound_ns;
        self.heard(now);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.feed.next_timeout() <= now.now {
            self.feed.handle_timeout(now, out);
        }
        if self.follow_at <= now.now {
            self.follow();
        }
        for account in &mut self.accounts {
            if account.next_timeout() <= now.now
                && account.handle_timeout(now.now, ConnId(self.next_conn), out)
            {
                self.next_conn = CONNS + (self.next_conn - CONNS + 1) % (1 << 20);
            }
        }
        self.settle();
    }

    fn next_timeout(&self) -> Nanos {
        let accounts = self.accounts.iter().map(Account::next_timeout);
        accounts.chain([self.feed.next_timeout(), self.follow_at]).min().unwrap_or(Nanos::NEVER)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        match self.of_conn(conn) {
            Some(account) => account.handle_connect(now.now, out),
            None => self.feed.handle_connect(now, conn, out),
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        match self.of_conn(conn) {
            Some(account) => {
                account.handle_stream(now.now, bytes, out);
                self.settle();
            }
            None => {
                self.feed.handle_stream(now, conn, bytes, out);
                self.heard(now);
            }
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        match self.of_conn(conn) {
            Some(account) => account.handle_close(now.now),
            None => self.feed.handle_close(now, conn, out),
        }
    }
}

/// Where an order stands among those at its price: what is ahead of it as the feed has been heard. One that
/// the feed has not told of yet comes behind all that it has.
fn ahead(heard: &Subscriber, of: &Resting) -> Option<Value> {
    let channel = heard.carrying(of.instrument, None)?;
    let (mut orders, mut lots, mut seen) = (0u64, 0u64, false);
    for (order, price, qty) in channel.image().orders(of.instrument, of.side) {
        if order == of.order_ref {
            seen = true;
            break;
        }
        let worse = match of.side {
            Side::Buy => price < of.price,
            Side::Sell => price > of.price,
        };
        if worse {
            break;
        }
        if price == of.price {
            (orders, lots) = (orders + 1, lots + qty.0);
        }
    }
    Some(json!({
        "seq": channel.next_seq().0.saturating_sub(1), "seen": seen,
        "orders_ahead": orders, "qty_ahead": lots_text(lots, of.lot_decimals),
    }))
}
