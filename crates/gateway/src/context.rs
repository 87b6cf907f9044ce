//! What all connections of a gateway share: the way up, the encoder, the counters.
//!
//! Apart from the connections, so that one connection's bytes can be handled in place.

use std::collections::VecDeque;

use overlay::uplink::{SubmitError, Uplink};
use types::{
    AccountId, ClockReading, Command, CommandKind, ConnId, Nanos, Outbox, REQUEST_SENT_AGAIN,
    VenueClock,
};
use wire::ouch;
use zerocopy::IntoBytes;

use crate::access::throttle::Throttles;
use crate::access::{AccessControl, Refusal};
use crate::config::GatewayConfig;
use crate::routes::{Route, Routes};

/// Requests that found no room upward and wait here, all sessions together. Reading stops while any
/// do; one read of every connection still fits.
const SPILL_MAX: usize = 65_536;
/// Of these places, those kept for cancels.
const SPILL_FOR_CANCELS: usize = 4_096;

/// Requests for orders of which it is not known yet in which shard they are: of all sessions, of one.
const HELD_MAX: usize = 8_192;
const HELD_MAX_OF_ONE: usize = 256;

/// What a gateway did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GatewayCounters {
    /// Logins accepted.
    pub logins: u64,
    /// Logins refused: wrong credentials, wrong session, or live elsewhere.
    pub logins_refused: u64,
    /// Connections closed at once because there were too many.
    pub connections_refused: u64,
    /// Requests passed on.
    pub requests: u64,
    /// Requests refused here, outside the numbered stream.
    pub requests_refused: u64,
    /// Of them, orders above their account's rate.
    pub orders_over_rate: u64,
    /// Of them, cancels above their account's rate.
    pub cancels_over_rate: u64,
    /// Of them, those that came while nothing could be logged.
    pub suspended: u64,
    /// Logons and resume requests that named messages never sent.
    pub ahead: u64,
    /// Sessions ended because the client broke a protocol.
    pub violations: u64,
    /// Sessions ended because the client left too much unread.
    pub slow_consumers: u64,
    /// Sessions ended by the operator.
    pub disconnected: u64,
    /// Sessions ended because another gateway took the stream over.
    pub taken_over: u64,
    /// Mass cancels sent because a session had ended.
    pub disconnect_cancels: u64,
    /// Messages sent to participants.
    pub reports: u64,
    /// Messages sent before their tick was public, after the maximum hold.
    pub overdue: u64,
    /// Messages that could not be encoded; never above zero unless limits are wrong.
    pub unencodable: u64,
    /// Orders that waited here for room upward.
    pub spilled: u64,
    /// Requests without an answer sent to the shard that their instrument has moved to.
    pub sent_again: u64,
    /// Datagrams that were unreadable or not for a gateway.
    pub malformed: u64,
}

/// In a venue of several shards one that has not answered for so long is away: sessions are read on for
/// the others' sake, and orders for it that find no room are refused.
const AWAY_NS: u64 = 400 * Nanos::MILLI;

/// The way to one shard.
pub(crate) struct WayUp {
    pub(crate) uplink: Uplink,
    /// What waits for room there.
    pub(crate) spill: VecDeque<(Nanos, Command)>,
    /// When it was heard of last, or nothing waited for it.
    pub(crate) heard: Nanos,
    /// See [`AWAY_NS`]; never the only one.
    pub(crate) away: bool,
}

/// What the sessions of a gateway share; every call that serves one gets it.
pub(crate) struct GatewayContext {
    pub(crate) config: GatewayConfig,
    pub(crate) access: AccessControl,
    /// By shard.
    pub(crate) ways: Vec<WayUp>,
    pub(crate) routes: Routes,
    /// Requests that wait until it is known where they go, with the times they came.
    pub(crate) held: VecDeque<(Nanos, Command)>,
    pub(crate) encoder: ouch::Encoder,
    pub(crate) counters: GatewayCounters,
    pub(crate) throttles: Throttles,
    /// Slots asked for so far, all sessions together.
    pub(crate) tickets: u32,
    /// When the bytes that are handled came to the machine, as far as that is known.
    pub(crate) came: Option<Nanos>,
    /// Nothing can be logged just now: requests are refused.
    pub(crate) suspended: bool,
    /// Who named messages never sent, not taken yet; the newest of each account.
    pub(crate) ahead: Vec<Ahead>,
    /// Times of orders are read by it.
    pub(crate) venue_clock: VenueClock,
}

/// A participant named a message of its stream that was never sent, as far as the log knows: the log
/// is older than what was told from it, or the participant is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// Whose stream.
    pub account: AccountId,
    /// The number it named.
    pub asked: u64,
    /// The number that the next message has.
    pub next: u64,
}

impl GatewayContext {
    /// The name of the next slot, as no other gateway or life of this one has it.
    pub(crate) fn next_ticket(&mut self) -> u64 {
        self.tickets = self.tickets.wrapping_add(1);
        let life = u64::from(self.config.boot_nonce) ^ u64::from(self.config.gateway.0) << 24;
        life << 32 | u64::from(self.tickets)
    }

    /// Whether a request is within its account's rate; counts it when it is not.
    #[inline]
    #[must_use]
    pub(crate) fn admits(&mut self, now: Nanos, account: AccountId, kind: CommandKind) -> bool {
        let admitted = self.throttles.take(now, account, kind);
        if !admitted {
            self.counters.requests_refused += 1;
            match is_cancel(kind) {
                true => self.counters.cancels_over_rate += 1,
                false => self.counters.orders_over_rate += 1,
            }
        }
        admitted
    }

    /// Notes who named a message never sent.
    pub(crate) fn note_ahead(&mut self, ahead: Ahead) {
        self.counters.ahead += 1;
        self.ahead.retain(|known| known.account != ahead.account);
        self.ahead.push(ahead);
    }

    /// Refuses the logon of whoever named a message never sent.
    pub(crate) fn refuse_ahead(&mut self, now: Nanos, conn: ConnId, ahead: Ahead) {
        let Ahead { account, asked, next } = ahead;
        let detail = format!("message {asked} asked for, {next} is the next one");
        self.access.refuse(now, conn, account, Refusal::Ahead, &detail);
        self.note_ahead(ahead);
    }

    /// Whether bytes of those who are not logged on are taken: there is room upward.
    pub(crate) fn reads_strangers(&self) -> bool {
        self.all_ways(|way| way.spill.is_empty() && way.uplink.has_room())
    }

    /// Whether a session's bytes are taken: there is room upward for one that has so much on its
    /// way, and it has not been refused more than it may be.
    pub(crate) fn wants(&self, account: AccountId) -> bool {
        self.all_ways(|way| way.spill.is_empty() && way.uplink.has_room_for(account))
            && !self.throttles.rests(account)
    }

    /// Whether something holds of the ways to all shards that are there.
    fn all_ways(&self, holds: impl Fn(&WayUp) -> bool) -> bool {
        self.ways.iter().all(|way| way.away || holds(way))
    }

    /// Passes a request up, or keeps it until there is room. False when there is none to keep it
    /// either, which takes a read larger than any driver's, or its shard is away and has no room.
    #[must_use]
    pub(crate) fn submit(
        &mut self,
        now: ClockReading,
        mut command: Command,
        out: &mut Outbox,
    ) -> bool {
        let t_in = self.came.map_or(now.now, |came| came.min(now.now));
        if self.routes.has_moved() {
            // What came before goes before.
            self.send_moved(now, out);
        }
        let taken = match self.routes.route(&mut command) {
            Route::To(shard) => {
                let way = self.ways.get_mut(shard);
                let taken = way
                    .is_some_and(|way| way.submit((now, t_in), command, &mut self.counters, out));
                if taken {
                    self.routes.note_sent(t_in, &command);
                }
                taken
            }
            Route::All => {
                let home = self.routes.home(command.account);
                self.ways.iter_mut().enumerate().fold(true, |all, (shard, way)| {
                    // One of them answers.
                    let quiet = shard != home && command.reserved == 0;
                    let reserved = if quiet { 2 } else { command.reserved };
                    let command = Command { reserved, ..command };
                    way.submit((now, t_in), command, &mut self.counters, out) && all
                })
            }
            Route::Unknown => self.hold(now.now, command),
        };
        self.counters.requests += u64::from(taken);
        taken
    }

    /// Keeps a request until it is known where its order is; false without room.
    fn hold(&mut self, now: Nanos, command: Command) -> bool {
        let own = self.held.iter().filter(|(_, held)| held.account == command.account).count();
        let room = own < HELD_MAX_OF_ONE && self.held.len() < HELD_MAX;
        if room {
            self.held.push_back((now, command));
        }
        room
    }

    /// Forgets what an account's session asked for and was not passed on: nobody reads the streams that
    /// would say where it goes, nor those that would answer what was.
    pub(crate) fn drop_held(&mut self, account: AccountId) {
        self.routes.end(account);
        self.held.retain(|(_, command)| command.account != account);
    }

    /// Passes on what waited for word of where its order is.
    fn drain_held(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.routes.take_news() || self.held.is_empty() {
            return;
        }
        for (t_in, mut command) in std::mem::take(&mut self.held) {
            match self.routes.route(&mut command) {
                Route::To(shard) => {
                    self.ways[shard].submit_waited(now, t_in, command, &mut self.counters, out);
                    self.routes.note_sent(t_in, &command);
                }
                Route::Unknown | Route::All => self.held.push_back((t_in, command)),
            }
        }
    }

    /// Sends again to the new shard of an instrument what has no answer: the old one may have dropped it.
    #[cold]
    fn send_moved(&mut self, now: ClockReading, out: &mut Outbox) {
        for (t_in, mut command) in self.routes.take_moved() {
            if let Route::To(shard) = self.routes.route(&mut command)
                && let Some(way) = self.ways.get_mut(shard)
            {
                self.counters.sent_again += 1;
                command.reserved = REQUEST_SENT_AGAIN;
                way.submit_waited(now, t_in, command, &mut self.counters, out);
            }
        }
    }

    /// Whether requests of an account are not known to be in the log yet.
    pub(crate) fn is_pending(&self, account: AccountId) -> bool {
        self.held.iter().any(|(_, command)| command.account == account)
            || self.ways.iter().any(|way| {
                way.uplink.pending_of(account) > 0
                    || way.spill.iter().any(|(_, command)| command.account == account)
            })
    }

    pub(crate) fn drain_spill(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.routes.has_moved() {
            self.send_moved(now, out);
        }
        self.drain_held(now, out);
        self.ways.iter_mut().for_each(|way| way.drain_spill(now, out));
        if self.ways.len() > 1 {
            self.ways.iter_mut().for_each(|way| way.look(now.now));
        }
    }
}

impl WayUp {
    /// The way to a shard that has said nothing yet.
    pub(crate) fn new(uplink: Uplink) -> WayUp {
        WayUp { uplink, spill: VecDeque::new(), heard: Nanos(0), away: false }
    }

    /// Notes whether the shard answers: it is away when something has waited for it for long.
    fn look(&mut self, now: Nanos) {
        let waits = self.uplink.in_flight() > 0 || !self.uplink.ready();
        if !waits || self.heard == Nanos(0) {
            self.heard = now;
        }
        self.away = waits && now.since(self.heard) >= AWAY_NS;
    }

    fn submit(
        &mut self,
        (now, t_in): (ClockReading, Nanos),
        command: Command,
        counters: &mut GatewayCounters,
        out: &mut Outbox,
    ) -> bool {
        if !self.spill.is_empty() || !self.try_submit(now, t_in, &command, out) {
            let cancels = is_cancel(command.kind);
            let kept = if cancels { 0 } else { SPILL_FOR_CANCELS };
            if self.spill.len() >= SPILL_MAX - kept || (self.away && !cancels) {
                return false;
            }
            counters.spilled += 1;
            self.spill.push_back((t_in, command));
        }
        true
    }

    /// Passes on a request that came before, or keeps it.
    fn submit_waited(
        &mut self,
        now: ClockReading,
        t_in: Nanos,
        command: Command,
        counters: &mut GatewayCounters,
        out: &mut Outbox,
    ) {
        if !self.spill.is_empty() || !self.try_submit(now, t_in, &command, out) {
            counters.spilled += 1;
            self.spill.push_back((t_in, command));
        }
    }

    fn try_submit(
        &mut self,
        now: ClockReading,
        t_in: Nanos,
        command: &Command,
        out: &mut Outbox,
    ) -> bool {
        match self.uplink.submit(now, command.account, t_in, command.as_bytes(), out) {
            Ok(_) => true,
            Err(SubmitError::Full | SubmitError::NotReady) => false,
            // A command fits, and accounts come from the configuration.
            Err(SubmitError::TooLong | SubmitError::UnknownAccount) => true,
        }
    }

    fn drain_spill(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some((t_in, command)) = self.spill.front().copied() {
            if !self.try_submit(now, t_in, &command, out) {
                return;
            }
            self.spill.pop_front();
        }
    }
}

/// Whether a request only takes orders away: it has room of its own wherever there are bounds.
pub(crate) fn is_cancel(kind: CommandKind) -> bool {
    matches!(kind, CommandKind::Cancel | CommandKind::MassCancel)
}
