//! When a snapshot beats repair, and the client that fetches one.
//!
//! The client is a SoupBinTCP session: it connects to one server after the other, one attempt at a
//! time, each limited in time, with growing waits between them; a snapshot is handed over only when
//! it came whole. What comes is bounded by [`Loading`] and the framer.

use types::{ConnId, FeedSeq, Nanos, Outbox, Peer};
use wire::soupbin::{ClientEvent, ClientSession, SessionName};

use crate::snapshot::Loading;

/// Bytes of a snapshot per displayed order: an Add Order (36) with the header of a SoupBinTCP
/// packet (3).
pub const ORDER_BYTES: u64 = 39;

/// Assumed speeds of the two ways to catch up: repair and snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatchUpRule {
    /// Messages per second that the retransmission server gives.
    pub repair_per_s: u64,
    /// Bytes per second that a snapshot server gives.
    pub snapshot_bytes_per_s: u64,
    /// Time to connect to a snapshot server and log in, ns.
    pub snapshot_setup_ns: u64,
    /// Requests in a row without any answer after which the retransmission server is taken not to
    /// have what is missing.
    pub unanswered_max: u32,
}

impl Default for CatchUpRule {
    fn default() -> Self {
        CatchUpRule {
            repair_per_s: 50_000,
            snapshot_bytes_per_s: 16 << 20,
            snapshot_setup_ns: 20 * Nanos::MILLI,
            unanswered_max: 8,
        }
    }
}

/// How far a listener is behind the feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Behind {
    /// Number of messages missing, up to the last one known to exist.
    pub missing: u64,
    /// Whether the retransmission server no longer has the first of them.
    pub gone: bool,
    /// Number of orders that are thought to rest in the books.
    pub orders: u64,
}

impl CatchUpRule {
    /// Time that repair takes, in ns: messages / repair rate.
    pub fn repair_ns(&self, missing: u64) -> u64 {
        ratio_ns(missing, self.repair_per_s)
    }

    /// Time that a snapshot takes, in ns: login, then bytes of the books / rate of the stream.
    pub fn snapshot_ns(&self, orders: u64) -> u64 {
        let bytes = orders.saturating_mul(ORDER_BYTES);
        self.snapshot_setup_ns.saturating_add(ratio_ns(bytes, self.snapshot_bytes_per_s))
    }

    /// Whether to fetch a snapshot: always when what is missing can't be had otherwise, else when
    /// repair is thought to take longer. What is published meanwhile comes by itself either way.
    pub fn snapshot_wins(&self, behind: &Behind) -> bool {
        behind.gone || self.repair_ns(behind.missing) > self.snapshot_ns(behind.orders)
    }
}

/// Time that `amount` takes at a rate of `per_s`, ns; at rate 0 [`u64::MAX`].
fn ratio_ns(amount: u64, per_s: u64) -> u64 {
    let ns = u128::from(amount) * u128::from(Nanos::SECOND);
    ns.checked_div(u128::from(per_s)).map_or(u64::MAX, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Where snapshots come from, and the times of attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatchUpConfig {
    /// Snapshot servers, asked in turn.
    pub servers: Vec<Peer>,
    /// When a snapshot is fetched instead of a repair.
    pub rule: CatchUpRule,
    /// Longest time of one attempt, ns.
    pub attempt_ns: u64,
    /// Wait after a failed attempt, ns; doubles with each failure.
    pub retry_ns: u64,
    /// Longest wait after a failed attempt, ns.
    pub retry_max_ns: u64,
    /// Which range of stream names is used, below 16: listeners that share a node use different ones.
    pub names: u32,
}

/// Number of ranges of stream names.
pub const NAME_RANGES: u32 = 16;
/// Stream names of a range; whoever accepts streams names them from above all ranges.
const NAMES: u32 = 1 << 16;

/// The range that a stream's name is of; `None` for streams that no listener opened.
pub(crate) fn range_of(conn: ConnId) -> Option<u32> {
    let range = conn.0.checked_sub(1)? / NAMES;
    (range < NAME_RANGES).then_some(range)
}

impl CatchUpConfig {
    /// The default settings for one snapshot server.
    pub fn new(server: Peer) -> CatchUpConfig {
        CatchUpConfig { servers: vec![server], ..CatchUpConfig::default() }
    }
}

impl Default for CatchUpConfig {
    /// Without a server: no snapshot is fetched.
    fn default() -> Self {
        CatchUpConfig {
            servers: Vec::new(),
            rule: CatchUpRule::default(),
            attempt_ns: 5 * Nanos::SECOND,
            retry_ns: 50 * Nanos::MILLI,
            retry_max_ns: 2 * Nanos::SECOND,
            names: 0,
        }
    }
}

/// What a snapshot client has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CatchUpCounters {
    /// Number of connections opened to a snapshot server.
    pub attempts: u64,
    /// Attempts that brought no snapshot: refused, cut, too slow, or not well-formed.
    pub failures: u64,
    /// Number of snapshots that were loaded.
    pub loaded: u64,
    /// Snapshots that came whole and were of no use: older than what the listener had meanwhile, or
    /// more than it has room for.
    pub useless: u64,
    /// Number of feed messages that were not heard because a snapshot contained them.
    pub skipped: u64,
}

impl std::ops::Add for CatchUpCounters {
    type Output = CatchUpCounters;

    fn add(self, other: CatchUpCounters) -> CatchUpCounters {
        CatchUpCounters {
            attempts: self.attempts + other.attempts,
            failures: self.failures + other.failures,
            loaded: self.loaded + other.loaded,
            useless: self.useless + other.useless,
            skipped: self.skipped + other.skipped,
        }
    }
}

/// An attempt that is going on.
#[derive(Debug)]
struct Attempt {
    conn: ConnId,
    give_up_at: Nanos,
    loading: Loading,
}

/// The snapshot client; its owner says when to start, and loads the snapshot.
#[derive(Debug)]
pub(crate) struct CatchUp {
    config: CatchUpConfig,
    orders_max: usize,
    /// Session of which the next attempt asks for a snapshot.
    next_session: SessionName,
    session: SessionName,
    client: ClientSession,
    attempt: Option<Attempt>,
    next_conn: u32,
    /// Time before which no attempt is made.
    retry_at: Nanos,
    wait_ns: u64,
    pub counters: CatchUpCounters,
}

/// What a call of the client led to.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The attempt goes on.
    Going,
    /// The attempt has failed.
    Failed,
    /// A snapshot came whole: books, session, and the message to follow the feed from.
    Came(Loading, SessionName, FeedSeq),
}

impl CatchUp {
    pub fn new(config: CatchUpConfig, session: SessionName, orders_max: usize) -> Option<CatchUp> {
        let client = ClientSession::new("", "").ok()?;
        let wait_ns = config.retry_ns;
        (!config.servers.is_empty()).then_some(CatchUp {
            config,
            orders_max,
            next_session: session,
            session,
            client,
            attempt: None,
            next_conn: 1,
            retry_at: Nanos(0),
            wait_ns,
            counters: CatchUpCounters::default(),
        })
    }

    /// Sets the session of which snapshots are asked for.
    pub fn follow(&mut self, session: SessionName) {
        self.next_session = session;
    }

    /// Number of the range of stream names that the client uses.
    pub fn names(&self) -> u32 {
        self.config.names
    }

    pub fn rule(&self) -> &CatchUpRule {
        &self.config.rule
    }

    /// Whether an attempt is going on.
    pub fn is_busy(&self) -> bool {
        self.attempt.is_some()
    }

    /// Time from which the next attempt may start.
    pub fn retry_at(&self) -> Nanos {
        self.retry_at
    }

    /// Starts an attempt, unless one is going on or it is too early.
    pub fn start(&mut self, now: Nanos, out: &mut Outbox) {
        let servers = self.config.servers.len().max(1) as u64;
        let turn = (self.counters.attempts % servers) as usize;
        let server = self.config.servers.get(turn).copied();
        if let (None, Some(server), true) = (&self.attempt, server, self.retry_at <= now) {
            let range = self.config.names.min(NAME_RANGES - 1);
            let conn = ConnId(range * NAMES + self.next_conn);
            self.next_conn = self.next_conn % NAMES + 1;
            let give_up_at = now.after(self.config.attempt_ns);
            let loading = Loading::new(self.orders_max);
            self.attempt = Some(Attempt { conn, give_up_at, loading });
            self.counters.attempts += 1;
            out.connect(conn, server);
        }
    }

    pub fn handle_connect(&mut self, now: Nanos, conn: ConnId, out: &mut Outbox) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.conn == conn) {
            let mut refused = false;
            self.session = self.next_session;
            self.client.resume_from(self.session, 1);
            let span = out.write(|buffer| refused = self.client.connect(now, buffer).is_err());
            if !refused {
                out.stream(conn, span);
            }
        }
    }

    pub fn handle_stream(
        &mut self,
        now: Nanos,
        conn: ConnId,
        bytes: &[u8],
        out: &mut Outbox,
    ) -> Progress {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.conn == conn) else {
            return Progress::Going;
        };
        let (loading, session) = (&mut attempt.loading, self.session);
        let (mut seq, mut failed) = (None, false);
        self.client.handle_bytes(now, bytes, |event| match event {
            _ if seq.is_some() || failed => {}
            ClientEvent::Accepted { session: named, seq } => {
                failed = named != session || seq != 1;
            }
            ClientEvent::Sequenced { message, .. } => match loading.take(message) {
                Ok(end) => seq = end,
                Err(_) => failed = true,
            },
            ClientEvent::Unsequenced(_) => {}
            ClientEvent::Rejected(_)
            | ClientEvent::EndOfSession
            | ClientEvent::Violation(_)
            | ClientEvent::Dead => failed = true,
        });
        match seq.filter(|_| !failed) {
            Some(seq) => {
                let mut said = false;
                let span = out.write(|buffer| said = self.client.logout(buffer).is_ok());
                if said {
                    out.stream(conn, span);
                }
                out.close(conn);
                self.client.handle_close();
                match self.attempt.take() {
                    Some(attempt) => Progress::Came(attempt.loading, session, seq),
                    None => Progress::Going,
                }
            }
            None if failed => self.fail(now, out),
            None => Progress::Going,
        }
    }

    pub fn handle_close(&mut self, now: Nanos, conn: ConnId) -> Progress {
        if self.attempt.take_if(|attempt| attempt.conn == conn).is_none() {
            return Progress::Going;
        }
        self.over(now);
        Progress::Failed
    }

    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Outbox) -> Progress {
        let Some(attempt) = &self.attempt else { return Progress::Going };
        if attempt.give_up_at <= now {
            return self.fail(now, out);
        }
        let (conn, mut dead) = (attempt.conn, false);
        let span = out.write(|buffer| dead = self.client.handle_timeout(now, buffer).is_some());
        if dead {
            return self.fail(now, out);
        }
        if !out.bytes(span).is_empty() {
            out.stream(conn, span);
        }
        Progress::Going
    }

    pub fn next_timeout(&self) -> Nanos {
        let attempt = self.attempt.as_ref();
        attempt.map_or(Nanos::NEVER, |a| a.give_up_at.min(self.client.next_timeout()))
    }

    /// Notes whether the snapshot was of use; if not, the next attempt has to wait.
    pub fn judged(&mut self, now: Nanos, useful: bool) {
        self.wait_ns = if useful { self.config.retry_ns } else { self.wait_ns };
        if useful {
            self.counters.loaded += 1;
            self.retry_at = now;
        } else {
            self.counters.useless += 1;
            self.back_off(now);
        }
    }

    fn fail(&mut self, now: Nanos, out: &mut Outbox) -> Progress {
        let attempt = self.attempt.take();
        attempt.into_iter().for_each(|attempt| out.close(attempt.conn));
        self.over(now);
        Progress::Failed
    }

    fn over(&mut self, now: Nanos) {
        self.client.handle_close();
        self.counters.failures += 1;
        self.back_off(now);
    }

    fn back_off(&mut self, now: Nanos) {
        self.retry_at = now.after(self.wait_ns);
        let longest = self.config.retry_max_ns.max(self.config.retry_ns);
        self.wait_ns = self.wait_ns.saturating_mul(2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_wins_where_the_two_times_cross() {
        let rule = CatchUpRule {
            repair_per_s: 1_000,
            snapshot_bytes_per_s: 39_000,
            snapshot_setup_ns: Nanos::SECOND,
            unanswered_max: 3,
        };
        let both = (rule.repair_ns(3_000), rule.snapshot_ns(2_000));
        assert_eq!(both, (3 * Nanos::SECOND, 3 * Nanos::SECOND));
        let wins = |missing, orders| rule.snapshot_wins(&Behind { missing, gone: false, orders });
        assert!(!wins(3_000, 2_000) && wins(3_001, 2_000));
        assert!(wins(3_000, 1_999) && !wins(1_000, 0) && wins(1_001, 0));
        assert!(rule.snapshot_wins(&Behind { missing: 1, gone: true, orders: 1 << 20 }));
        let never = CatchUpRule { snapshot_bytes_per_s: 0, ..rule };
        assert!(!never.snapshot_wins(&Behind { missing: 1 << 40, gone: false, orders: 1 }));
        let slow = CatchUpRule { repair_per_s: 0, ..rule };
        assert!(slow.snapshot_wins(&Behind { missing: 1, gone: false, orders: 1 << 20 }));
        assert_eq!(rule.repair_ns(u64::MAX), u64::MAX);
    }
}
