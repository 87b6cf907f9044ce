//! What was seen of a client and of what the exchange told it, independent of the protocol.

use std::collections::BTreeMap;

use types::{Nanos, Price, Side};

/// Most open orders that are remembered.
const OPEN_MAX: usize = 1 << 16;
/// Most faults that are kept, the first ones.
const FAULTS_MAX: usize = 64;

/// An open order, as its client was told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    pub side: Side,
    pub leaves: u64,
    pub price: Price,
}

/// The client's or the exchange's own name of an order.
pub type Key = Vec<u8>;

/// The facts about a dialogue that steps are judged by.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    /// Whether the client is logged in.
    pub logged_on: bool,
    /// Number of logins that the exchange accepted.
    pub logons: u64,
    /// Answers told to the client, each once: new orders, replaces, cancels asked for, orders that
    /// went away otherwise, refusals, executions.
    pub accepted: u64,
    pub replaced: u64,
    pub canceled: u64,
    pub removed: u64,
    /// Number of orders that ended because their time was over.
    pub expired: u64,
    /// Number of stop orders that became active.
    pub triggered: u64,
    pub rejected: u64,
    pub executed: u64,
    /// Number of executions after which the order stayed open.
    pub partial: u64,
    /// Number of whole messages that the client sent.
    pub messages: u64,
    /// Time of the client's last message; 0: none on this connection.
    pub last_message: Nanos,
    /// Longest silence of a client that is logged in since a step last asked, ns.
    pub silence_ns: u64,
    /// Number of logouts that the client sent.
    pub logouts: u64,
    /// Heartbeat interval of the client, ns; 0 before its login.
    pub heartbeat_ns: u64,
    /// Orders that the client has to believe open, by key.
    pub open: BTreeMap<Key, Open>,
    /// FIX: stop prices of orders that have not been triggered.
    pub stops: BTreeMap<Key, Price>,
    /// Sequence number of the next message that the client has not been told.
    pub next_told: u64,
    /// FIX: the exchange's last TestRequest, and whether it was answered.
    pub test: Option<(Vec<u8>, bool)>,
    /// FIX: the last ResendRequest of the client.
    pub asked_from: Option<u64>,
    /// FIX: the exchange's last ResendRequest, and whether the client did as asked.
    pub resend: Option<(u64, bool)>,
    /// Faults of the client, in words, the first ones.
    pub faults: Vec<String>,
}

impl Facts {
    /// Notes what the client did wrong.
    pub fn fault(&mut self, text: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(text);
        }
    }

    /// A whole message of the client came.
    pub fn heard(&mut self, now: Nanos) {
        self.messages += 1;
        self.look(now);
        self.last_message = now;
    }

    /// Brings the longest silence up to date.
    pub fn look(&mut self, now: Nanos) {
        if self.logged_on && self.last_message != Nanos(0) {
            self.silence_ns = self.silence_ns.max(now.since(self.last_message));
        }
    }

    /// Notes that the connection is gone; open orders stay open.
    pub fn disconnected(&mut self) {
        self.logged_on = false;
        self.last_message = Nanos(0);
    }

    /// Notes that an order is open with these terms.
    pub fn opened(&mut self, key: &[u8], open: Open) {
        if open.leaves == 0 {
            self.gone(key);
        } else if self.open.len() < OPEN_MAX {
            self.open.insert(key.to_vec(), open);
        }
    }

    /// Notes that an execution left `leaves` lots of an order open.
    pub fn traded(&mut self, key: &[u8], leaves: u64) {
        self.executed += 1;
        self.partial += u64::from(leaves > 0);
        self.left(key, leaves);
    }

    /// Records that this many lots of an order are left.
    pub fn left(&mut self, key: &[u8], leaves: u64) {
        if leaves == 0 {
            self.gone(key);
        } else if let Some(open) = self.open.get_mut(key) {
            open.leaves = leaves;
        }
    }

    /// Notes that an order is no longer open.
    pub fn gone(&mut self, key: &[u8]) {
        self.open.remove(key);
        self.stops.remove(key);
    }

    /// An open order of two lots or more that a counter order would trade with first.
    pub fn tradable(&self) -> Option<Open> {
        self.best(2)
    }

    /// An open order, with so many lots or more, that a counter order would trade with first: of
    /// the best bids or, without any, of the best offers.
    pub fn best(&self, lots: u64) -> Option<Open> {
        let booked = self.open.iter().filter(|(key, _)| !self.stops.contains_key(*key));
        let bids = booked.clone().map(|(_, open)| open).filter(|open| open.side == Side::Buy);
        let offers = booked.map(|(_, open)| open).filter(|open| open.side == Side::Sell);
        let bid = bids.max_by_key(|open| open.price);
        let offer = offers.min_by_key(|open| open.price);
        [bid, offer].into_iter().flatten().find(|open| open.leaves >= lots).copied()
    }
}
