//! The gateway's FIX door: sessions of accounts on one side, their streams on the other.
//!
//! MsgSeqNum of what goes out is the position in the account's private stream, so any gateway
//! serves a resend (corner 2). A message that is no record of the stream (session messages,
//! refusals, answers to questions) asks the log for a slot and leaves when that comes back; what
//! was received is known from the numbers that reports and slots carry. Nothing here survives its
//! session, and nothing has to.
//!
//! The caller passes on bytes, attachments and records, and closes what is said to have ended.

use fix::app::Symbols;
use fix::session::{Ending, MemoryStore, SessionConfig};
use fix::{Acceptor, Limits, dictionary};
use types::{
    AccountId, ClockReading, Command, CommandKind, ConnId, ExecutionKind, ExecutionReport, Nanos,
    Outbox, Qty, SESSION_RESET,
};

use crate::access::Refusal;
use crate::config::{FixRole, GatewayConfig};
use crate::context::{Ahead, Desk};
use crate::fix::application::{DoorApplication, FixCounters};
use crate::fix::market::Market;
use crate::fix::slot::{Progress, Seat};
use crate::hold::{Release, Watermarks};
use crate::operate::SessionInfo;

/// Messages and bytes of a live session that a resend finds here.
const RESEND_MESSAGES_MAX: usize = 65_536;
const RESEND_BYTES_MAX: usize = 24 << 20;
/// A slice of a long resend follows the one before after this: 13 MB a second.
const RESEND_PACE_NS: u64 = 5 * Nanos::MILLI;

/// What the caller has to do for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing.
    Stays,
    /// Get it this account's stream from the first record on.
    WantsIn(AccountId),
    /// Close it.
    Ends(Ending),
}

/// See the module.
pub(crate) struct FixDoor {
    acceptor: Acceptor<MemoryStore>,
    seats: Vec<Seat>,
    /// By account number.
    seat_of: Vec<Option<usize>>,
    /// Accounts whose records wait for their tick, in order.
    holding: Vec<AccountId>,
    symbols: Symbols,
    /// By account number: user names, which copies of reports are told with.
    names: Vec<Vec<u8>>,
    written: Vec<u8>,
    /// Room for a list of connections.
    conns: Vec<ConnId>,
    /// The feed, for market-data sessions.
    pub(crate) market: Option<Market>,
    /// No timer before this; may be early.
    due: Nanos,
    pub(crate) counters: FixCounters,
}

impl FixDoor {
    /// A door for the accounts whose login is a FIX session.
    pub(crate) fn new(config: &GatewayConfig) -> FixDoor {
        let (mut sessions, mut seats) = (Vec::new(), Vec::new());
        let mut seat_of = vec![None; config.accounts_max() + 1];
        for login in &config.logins {
            let Some(session) = &login.fix else { continue };
            // The exchange's own dictionaries are fit to be read, which a test of theirs shows.
            let own = || dictionary::builtin(session.version).ok();
            let Some(rules) = session.rules.clone().or_else(own) else { continue };
            let mut agreed = SessionConfig::new(&config.fix_comp_id, &session.comp_id, rules);
            agreed.custom_tags = session.custom_tags;
            agreed.reset_on_logon = session.role == FixRole::MarketData;
            // Where nothing outlives the exchange, whoever was told of it before has to begin anew.
            agreed.tells_reset = agreed.reset_on_logon || !config.durable;
            // What is lost of market data is old.
            let store = match agreed.reset_on_logon {
                true => MemoryStore::new(0, 0),
                false => MemoryStore::new(RESEND_MESSAGES_MAX, RESEND_BYTES_MAX),
            };
            sessions.push((agreed, store));
            if let Some(place) = seat_of.get_mut(usize::from(login.account.0)) {
                *place = Some(seats.len());
            }
            let salt = u64::from(config.boot_nonce) << 16 | u64::from(login.account.0);
            seats.push(Seat::new(login, session, salt));
        }
        let mut names = vec![Vec::new(); config.accounts_max() + 1];
        for login in &config.logins {
            if let Some(name) = names.get_mut(usize::from(login.account.0)) {
                name.clone_from(&login.username);
            }
        }
        let mut acceptor = Acceptor::new(sessions, Limits::default());
        for (place, seat) in seats.iter().enumerate() {
            let session = acceptor.session(place).filter(|_| seat.market.is_none());
            if let Some(session) = session {
                session.outbound().number_by_stream();
            }
        }
        FixDoor {
            acceptor,
            seats,
            seat_of,
            holding: Vec::new(),
            symbols: Symbols::new(&config.instruments),
            names,
            written: Vec::new(),
            conns: Vec::new(),
            market: None,
            due: Nanos::NEVER,
            counters: FixCounters::default(),
        }
    }

    /// Whether the connection came in here.
    pub(crate) fn has(&self, conn: ConnId) -> bool {
        self.acceptor.has(conn)
    }

    /// Connections now open.
    pub(crate) fn connections(&self) -> usize {
        self.acceptor.connections()
    }

    /// Whether bytes of the connection are taken.
    pub(crate) fn wants_input(&self, conn: ConnId) -> bool {
        self.acceptor.wants_input(conn)
    }

    /// Whose session is logged on, or logging on, by this connection.
    pub(crate) fn account_of(&self, conn: ConnId) -> Option<AccountId> {
        let seat = self.seats.get(self.acceptor.place_of(conn)?)?;
        (seat.conn == Some(conn)).then_some(seat.account)
    }

    /// Whether the account's session is logged on here, its Logon answered or about to be.
    pub(crate) fn is_live(&self, account: AccountId) -> bool {
        self.seat(account).is_some_and(|place| {
            self.seats.get(place).is_some_and(|seat| seat.progress == Progress::Ready)
        })
    }

    /// A connection has come.
    pub(crate) fn connect(&mut self, now: Nanos, conn: ConnId) {
        self.acceptor.handle_connect(now, conn);
        self.due = self.due.min(self.acceptor.next_timeout(conn));
    }

    /// Bytes of a connection.
    pub(crate) fn handle_bytes(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        bytes: &[u8],
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Outcome {
        let ending = self.call((now, conn), desk, out, |acceptor, app, written| {
            acceptor.handle_bytes(now.now, conn, bytes, app, written)
        });
        self.after(now, conn, ending, desk, out)
    }

    /// The guard knows about the credentials of a Logon that waits.
    pub(crate) fn try_again(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Outcome {
        let ending = self.call((now, conn), desk, out, |acceptor, app, written| {
            acceptor.try_again(now.now, conn, app, written)
        });
        self.after(now, conn, ending, desk, out)
    }

    /// The stream of `account` is ours, from its first record on; `next` is the position of the
    /// next one there will be.
    pub(crate) fn attached(
        &mut self,
        now: ClockReading,
        account: AccountId,
        next: u64,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(seat) = self.seat(account).and_then(|place| self.seats.get_mut(place)) else {
            return Outcome::Stays;
        };
        seat.progress = Progress::Reading(next);
        seat.desk.ledger.prepare();
        if let Some(session) = self.seat(account).and_then(|place| self.acceptor.session(place)) {
            session.prepare();
        }
        self.go_on(now, account, desk, out)
    }

    /// The next record of an account's stream.
    pub(crate) fn push(&mut self, now: Nanos, account: AccountId, report: ExecutionReport) {
        if let Some(seat) = self.seat(account).and_then(|place| self.seats.get_mut(place)) {
            seat.hold.push(now, report);
            if let Err(place) = self.holding.binary_search(&account) {
                self.holding.insert(place, account);
            }
        }
    }

    /// The first account after another whose records wait for their tick.
    pub(crate) fn holding_after(&self, account: AccountId) -> Option<AccountId> {
        let place = self.holding.partition_point(|holding| *holding <= account);
        self.holding.get(place).copied()
    }

    fn note_empty(&mut self, account: AccountId) {
        if let Ok(place) = self.holding.binary_search(&account) {
            self.holding.remove(place);
        }
    }

    /// Whether the stream is to be paused.
    pub(crate) fn settle_pause(&mut self, account: AccountId) -> bool {
        let Some(seat) = self.seat(account).and_then(|place| self.seats.get_mut(place)) else {
            return false;
        };
        seat.paused = seat.hold.wants_pause(seat.paused);
        seat.paused
    }

    /// Deals with the records of an account that may be told of with the feed public up to
    /// `watermarks`.
    pub(crate) fn release(
        &mut self,
        now: ClockReading,
        account: AccountId,
        watermarks: &Watermarks,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(place) = self.seat(account) else { return Outcome::Stays };
        self.written.clear();
        let mut ending = None;
        while let Some(seat) = self.seats.get_mut(place) {
            let popped = seat.hold.pop(now.now, watermarks, desk.config.hold_max_ns);
            let Some((release, report)) = popped else { break };
            desk.counters.overdue += u64::from(release == Release::Overdue);
            desk.counters.reports += 1;
            ending = ending.or(self.record(now.now, place, &report));
        }
        if self.seats.get(place).is_some_and(|seat| seat.hold.is_empty()) {
            self.note_empty(account);
        }
        if let Some(seat) = self.seats.get(place)
            && let Some(conn) = seat.conn
        {
            send(conn, &self.written, out);
            if let Some(ending) = ending {
                return Outcome::Ends(ending);
            }
            self.due = self.due.min(seat.hold.next_timeout(desk.config.hold_max_ns));
            return self.go_on(now, account, desk, out);
        }
        Outcome::Stays
    }

    /// One record of a stream, in its turn.
    fn record(&mut self, now: Nanos, place: usize, report: &ExecutionReport) -> Option<Ending> {
        let seat = self.seats.get_mut(place)?;
        let position = seat.position;
        seat.position += 1;
        seat.tally.messages_out += 1;
        let session = self.acceptor.session(place)?;
        // Of a copy it says something else, see `ExecutionReport::session_seq`.
        let copy = report.account != seat.account;
        if report.session_seq > 0 && !copy {
            seat.received = seat.received.max(report.session_seq);
            session.note_received(report.session_seq);
        }
        if report.kind != ExecutionKind::SessionSlot {
            // When a record of before was sent first nobody here knows; the engine's time is near.
            let reading = matches!(seat.progress, Progress::Reading(_));
            let at = if reading { report.t_seq } else { now };
            let outbound = session.outbound();
            let (written, symbols) = (&mut self.written, &self.symbols);
            if copy {
                let owner = self.names.get(usize::from(report.account.0));
                let owner = owner.map_or(&[][..], Vec::as_slice);
                let told = (report, u64::from(report.session_seq));
                seat.desk.copy(at, told, owner, symbols, outbound, written);
            } else {
                seat.desk.report(at, report, position, symbols, outbound, written);
            }
            return None;
        }
        let reset = report.flags & SESSION_RESET != 0;
        if reset {
            seat.before = report.session_seq.saturating_sub(1);
        }
        let ticket = report.qty.0;
        self.counters.foreign_slots += u64::from(!session.outbound().awaits(ticket));
        self.acceptor.slot(now, place, ticket, reset, &mut self.written)
    }

    /// Lets a Logon in that waited for its stream, once that is read.
    fn go_on(
        &mut self,
        now: ClockReading,
        account: AccountId,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(place) = self.seat(account) else { return Outcome::Stays };
        let Some(seat) = self.seats.get_mut(place) else { return Outcome::Stays };
        let Some(conn) = seat.conn else { return Outcome::Stays };
        let read = matches!(seat.progress, Progress::Reading(until) if seat.position >= until);
        if !read {
            self.wake(now.now, conn);
            return Outcome::Stays;
        }
        seat.progress = Progress::Ready;
        seat.tally.since = now.now;
        let (before, received) = (seat.before, seat.received);
        if let Some(session) = self.acceptor.session(place) {
            session.restore(before, received);
        }
        let ending = self.call((now, conn), desk, out, |acceptor, app, written| {
            acceptor.resume(now.now, conn, app, written)
        });
        self.after(now, conn, ending, desk, out)
    }

    /// Timers of all connections; those that end.
    pub(crate) fn handle_timeout(
        &mut self,
        now: ClockReading,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Vec<(ConnId, Ending)> {
        let mut over = Vec::new();
        if now.now < self.due {
            return over;
        }
        self.due = Nanos::NEVER;
        let mut conns = std::mem::take(&mut self.conns);
        conns.extend(self.acceptor.conns());
        for conn in conns.drain(..) {
            if self.acceptor.next_timeout(conn) <= now.now {
                let read = self.account_of(conn).is_none_or(|account| desk.wants(account));
                self.acceptor.note_reading(now.now, conn, read);
                let ending = self.call((now, conn), desk, out, |acceptor, app, written| {
                    acceptor.handle_timeout(now.now, conn, app, written)
                });
                if let Outcome::Ends(ending) = self.after(now, conn, ending, desk, out) {
                    over.push((conn, ending));
                    continue;
                }
            }
            self.wake(now.now, conn);
        }
        self.conns = conns;
        self.refresh_market(now.now, out);
        let holding =
            self.holding.iter().filter_map(|account| self.seats.get(self.seat(*account)?));
        let held = holding.map(|seat| seat.hold.next_timeout(desk.config.hold_max_ns));
        self.due = held.min().unwrap_or(Nanos::NEVER).min(self.due);
        over
    }

    /// When [`FixDoor::handle_timeout`] is wanted next.
    pub(crate) fn next_timeout(&self) -> Nanos {
        self.due
    }

    /// Logs a session out with the reason; false when it is not logged on, or leaves already.
    pub(crate) fn log_out(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        why: &str,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> bool {
        let Some(place) = self.acceptor.place_of(conn) else { return false };
        let ready = self.seats.get(place).is_some_and(|seat| {
            seat.conn == Some(conn) && seat.progress == Progress::Ready && !seat.flooded
        });
        let Some(session) = self.acceptor.session(place).filter(|_| ready) else { return false };
        self.written.clear();
        session.logout(now.now, why, &mut self.written);
        if let Some(seat) = self.seats.get_mut(place) {
            // Nothing but this Logout asks for a slot any more.
            seat.flooded = true;
        }
        self.after(now, conn, None, desk, out);
        true
    }

    /// Sessions that are logged on.
    pub(crate) fn logged_on(&self) -> impl Iterator<Item = SessionInfo> {
        self.seats.iter().filter_map(Seat::info)
    }

    /// The connection is gone, or being closed; whose session it was, and whether that was live.
    pub(crate) fn close(&mut self, conn: ConnId) -> Option<(AccountId, bool)> {
        self.acceptor.handle_close(conn);
        let place = self.seats.iter().position(|seat| seat.conn == Some(conn))?;
        if let Some(session) = self.acceptor.session(place) {
            session.forget();
        }
        let seat = self.seats.get_mut(place)?;
        let live = seat.progress == Progress::Ready;
        let account = seat.account;
        seat.leave();
        self.note_empty(account);
        Some((account, live))
    }

    /// Counts why a connection ends.
    pub(crate) fn count(&mut self, ending: Ending) {
        let counters = &mut self.counters;
        match ending {
            Ending::Garbled | Ending::NotLogon | Ending::LogonTimeout => counters.no_logons += 1,
            Ending::UnknownSession => counters.unknown_sessions += 1,
            Ending::AlreadyLoggedOn => counters.second_logons += 1,
            Ending::BadLogon | Ending::SequenceTooLow => counters.bad_logons += 1,
            Ending::NotAuthorized => counters.wrong_credentials += 1,
            Ending::LoggedOut
            | Ending::LogoutTimeout
            | Ending::Silent
            | Ending::Overrun
            | Ending::Renumbered => {}
        }
    }

    /// Tells market-data sessions what has changed, those it is time for.
    pub(crate) fn refresh_market(&mut self, now: Nanos, out: &mut Outbox) {
        let FixDoor { acceptor, seats, symbols, written, market, due, .. } = self;
        let Some(market) = market else { return };
        for (place, seat) in seats.iter_mut().enumerate() {
            let (Some(told), Some(conn)) = (&mut seat.market, seat.conn) else { continue };
            let Some(session) = acceptor.session(place) else { continue };
            written.clear();
            if market.lost {
                session.logout(now, "Market data lost at this gateway", written);
            } else {
                *due = told.refresh(now, market, symbols, session, written).min(*due);
            }
            send(conn, written, out);
        }
    }

    /// A connection has timers.
    fn wake(&mut self, now: Nanos, conn: ConnId) {
        let next = self.acceptor.next_timeout(conn);
        // A resend that goes on is due at once; the other side has to keep up with it.
        let paced = if next == Nanos(0) { now.after(RESEND_PACE_NS) } else { next };
        self.due = self.due.min(paced);
    }

    fn seat(&self, account: AccountId) -> Option<usize> {
        self.seat_of.get(usize::from(account.0)).copied().flatten()
    }

    /// Calls the acceptor; what it writes is left in `written`.
    fn call(
        &mut self,
        (now, conn): (ClockReading, ConnId),
        desk: &mut Desk,
        out: &mut Outbox,
        call: impl FnOnce(
            &mut Acceptor<MemoryStore>,
            &mut DoorApplication<'_>,
            &mut Vec<u8>,
        ) -> Option<Ending>,
    ) -> Option<Ending> {
        self.written.clear();
        let FixDoor { acceptor, seats, symbols, written, counters, market, .. } = self;
        let market = market.as_ref();
        let mut app = DoorApplication {
            now,
            conn,
            seats,
            symbols,
            desk,
            counters,
            market,
            out,
            wants_in: None,
        };
        let ending = call(acceptor, &mut app, written);
        if let Some(place) = app.wants_in
            && let Some(seat) = self.seats.get_mut(place)
        {
            seat.progress = Progress::Attaching;
        }
        ending
    }

    /// Sends what was written, asks for slots, and says what is left to do.
    fn after(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        ending: Option<Ending>,
        desk: &mut Desk,
        out: &mut Outbox,
    ) -> Outcome {
        if let Some(fix::Ahead { session, asked, next }) = self.acceptor.take_ahead()
            && let Some(seat) = self.seats.get(session)
        {
            let (asked, next) = (u64::from(asked), u64::from(next));
            desk.note_ahead(Ahead { account: seat.account, asked, next });
        }
        if let Some(fix::RefusedLogon { session, why }) = self.acceptor.take_refused() {
            let account = session.and_then(|place| self.seats.get(place)).map(|seat| seat.account);
            match account {
                Some(account) => {
                    desk.guard.refuse(now.now, conn, account, Refusal::BadLogon, &why);
                }
                None => desk.guard.refuse_unknown(now.now, conn, &why),
            }
        }
        send(conn, &self.written, out);
        if let Some(place) = self.acceptor.place_of(conn) {
            self.ask_slots(now, place, desk, out);
            if let Some(seat) = self.seats.get_mut(place)
                && seat.progress == Progress::Attaching
                && seat.conn.is_none()
            {
                seat.conn = Some(conn);
                return ending.map_or(Outcome::WantsIn(seat.account), Outcome::Ends);
            }
            if let Some(seat) = self.seats.get_mut(place).filter(|seat| seat.market.is_some()) {
                seat.conn = Some(conn);
                self.due = self.due.min(now.now);
            }
        }
        self.wake(now.now, conn);
        ending.map_or(Outcome::Stays, Outcome::Ends)
    }

    /// Asks the log for the slots that a session's waiting messages need.
    fn ask_slots(&mut self, now: ClockReading, place: usize, desk: &mut Desk, out: &mut Outbox) {
        let (Some(session), Some(seat)) = (self.acceptor.session(place), self.seats.get_mut(place))
        else {
            return;
        };
        if seat.over_rate && !seat.flooded {
            // Every request so far has its answer; what follows is asked for at the next Logon.
            seat.flooded = true;
            self.counters.over_rate += 1;
            session.logout(
                now.now,
                "Far above the request rate of this session",
                &mut self.written,
            );
        }
        loop {
            if !seat.flooded && session.outbound().is_asking() && !seat.allows_slot(now.now) {
                seat.flooded = true;
                self.counters.floods += 1;
                session.outbound().drop_unasked();
                let why = "Too many messages that need an answer of their own";
                // It waits for a slot, which is the last one asked for.
                session.logout(now.now, why, &mut self.written);
            }
            if !session.outbound().is_asking() {
                return;
            }
            let ticket = desk.next_ticket();
            let Some(reset) = session.outbound().ask_slot(ticket) else { return };
            let mut command = Command::new(CommandKind::SessionSlot);
            command.account = seat.account;
            command.session_seq = session.received();
            command.qty = Qty(ticket);
            command.flags = if reset { SESSION_RESET } else { 0 };
            // Without room even to wait the message is not sent, as if the line had been cut.
            if !desk.submit(now, command, out) {
                session.outbound().drop_asked(ticket);
            }
        }
    }
}

fn send(conn: ConnId, written: &[u8], out: &mut Outbox) {
    if !written.is_empty() {
        let bytes = out.store(written);
        out.stream(conn, bytes);
    }
}
