//! The node behind the door: a listener of the public feed, and the accounts' sessions.

use std::sync::Arc;

use feed::Subscriber;
use feed::plant::{Kind, Update};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Price, Side};

use crate::account::{Account, Ask, ReplyTo};
use crate::market::{Market, Print};

/// The node's name in its loop.
pub const WEB_NODE: NodeId = NodeId(60_003);
/// Between two looks at the books: what changes within is one update.
const FOLLOW_NS: u64 = 10 * Nanos::MILLI;
/// Connections of accounts are numbered from here; below are the listener's.
const CONNS: u32 = 1 << 30;

/// Listener and accounts.
pub struct WebNode {
    feed: Subscriber,
    market: Arc<Market>,
    accounts: Vec<Account>,
    ticks: Vec<Update>,
    /// When the books are looked at next; [`Nanos::NEVER`] while nothing has come.
    follow_at: Nanos,
    next_conn: u32,
}

impl WebNode {
    /// A node that hears the feed by `feed` and writes it to `market`.
    pub fn new(mut feed: Subscriber, market: Arc<Market>, accounts: Vec<Account>) -> WebNode {
        feed.tell_ticks();
        let (ticks, follow_at) = (Vec::new(), Nanos::NEVER);
        WebNode { feed, market, accounts, ticks, follow_at, next_conn: CONNS }
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

    /// Asks an account for something.
    pub fn ask(
        &mut self,
        now: ClockReading,
        (account, ask): (usize, Ask),
        reply: ReplyTo,
        out: &mut Outbox,
    ) {
        if let Some(account) = self.accounts.get_mut(account) {
            account.ask(now.now, ask, reply, out);
        }
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
            Some(account) => account.handle_stream(now.now, bytes, out),
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
