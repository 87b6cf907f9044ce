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
    Outbox, Qty, SESSION_RESET, ShardId,
};

use crate::access::Refusal;
use crate::config::{FixRole, GatewayConfig};
use crate::context::{Ahead, GatewayContext};
use crate::fix::application::{DoorApplication, FixCounters};
use crate::fix::market::ReleasedMarket;
use crate::fix::session_state::{FixSessionState, Progress};
use crate::hold::{Release, Watermarks};
use crate::operate::SessionInfo;
use crate::session::{self, Outcome};

/// Messages and bytes of a live session that a resend finds here.
const RESEND_MESSAGES_MAX: usize = 65_536;
const RESEND_BYTES_MAX: usize = 24 << 20;
/// A slice of a long resend follows the one before after this: 13 MB a second.
const RESEND_PACE_NS: u64 = 5 * Nanos::MILLI;

/// All FIX connections and sessions of a gateway.
pub(crate) struct FixDoor {
    acceptor: Acceptor<MemoryStore>,
    states: Vec<FixSessionState>,
    /// By account number.
    place_of: Vec<Option<usize>>,
    /// Accounts whose records wait for their tick, in order.
    holding: Vec<AccountId>,
    symbols: Symbols,
    /// By account number: user names, which copies of reports are told with.
    names: Vec<Vec<u8>>,
    written: Vec<u8>,
    /// Room for a list of connections.
    conns: Vec<ConnId>,
    /// The feed, for market-data sessions.
    pub(crate) market: Option<ReleasedMarket>,
    /// No timer before this; may be early.
    due: Nanos,
    pub(crate) counters: FixCounters,
}

impl FixDoor {
    /// A door for the accounts whose login is a FIX session.
    pub(crate) fn new(config: &GatewayConfig) -> FixDoor {
        let (mut sessions, mut states) = (Vec::new(), Vec::new());
        let mut place_of = vec![None; config.accounts_max() + 1];
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
            if let Some(place) = place_of.get_mut(usize::from(login.account.0)) {
                *place = Some(states.len());
            }
            let salt = u64::from(config.boot_nonce) << 16 | u64::from(login.account.0);
            states.push(FixSessionState::new(login, session, salt));
        }
        let mut names = vec![Vec::new(); config.accounts_max() + 1];
        for login in &config.logins {
            if let Some(name) = names.get_mut(usize::from(login.account.0)) {
                name.clone_from(&login.username);
            }
        }
        let mut acceptor = Acceptor::new(sessions, Limits::default());
        for (place, state) in states.iter().enumerate() {
            let session = acceptor.session(place).filter(|_| state.market.is_none());
            if let Some(session) = session {
                session.outbound().number_by_stream();
            }
        }
        FixDoor {
            acceptor,
            states,
            place_of,
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
        let state = self.states.get(self.acceptor.place_of(conn)?)?;
        (state.conn == Some(conn)).then_some(state.account)
    }

    /// Whether the account's session is logged on here, its Logon answered or about to be.
    pub(crate) fn is_live(&self, account: AccountId) -> bool {
        self.place(account).is_some_and(|place| {
            self.states.get(place).is_some_and(|state| state.progress == Progress::Ready)
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
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        let ending = self.call((now, conn), context, out, |acceptor, app, written| {
            acceptor.handle_bytes(now.now, conn, bytes, app, written)
        });
        self.after(now, conn, ending, context, out)
    }

    /// Access control knows about the credentials of a Logon that waits.
    pub(crate) fn try_again(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        let ending = self.call((now, conn), context, out, |acceptor, app, written| {
            acceptor.try_again(now.now, conn, app, written)
        });
        self.after(now, conn, ending, context, out)
    }

    /// The stream of `account` is ours, from its first record on; `next` is the position of the
    /// next one there will be.
    pub(crate) fn attached(
        &mut self,
        now: ClockReading,
        account: AccountId,
        next: u64,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(state) = self.place(account).and_then(|place| self.states.get_mut(place)) else {
            return Outcome::default();
        };
        state.progress = Progress::Reading(next);
        state.application.ledger.prepare();
        if let Some(session) = self.place(account).and_then(|place| self.acceptor.session(place)) {
            session.prepare();
        }
        self.go_on(now, account, context, out)
    }

    /// The next record of an account's stream.
    pub(crate) fn push(
        &mut self,
        now: Nanos,
        account: AccountId,
        (shard, report): (ShardId, ExecutionReport),
    ) {
        if let Some(state) = self.place(account).and_then(|place| self.states.get_mut(place)) {
            state.hold.push(now, shard, report);
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
        let Some(state) = self.place(account).and_then(|place| self.states.get_mut(place)) else {
            return false;
        };
        state.paused = state.hold.wants_pause(state.paused);
        state.paused
    }

    /// Deals with the records of an account that may be told of with the feed public up to
    /// `watermarks`.
    pub(crate) fn release(
        &mut self,
        now: ClockReading,
        account: AccountId,
        watermarks: &Watermarks,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(place) = self.place(account) else { return Outcome::default() };
        self.written.clear();
        let mut ending = None;
        while let Some(state) = self.states.get_mut(place) {
            let popped = state.hold.pop(now.now, watermarks, context.config.hold_max_ns);
            let Some((release, report)) = popped else { break };
            context.counters.overdue += u64::from(release == Release::Overdue);
            context.counters.reports += 1;
            ending = ending.or(self.record(now.now, place, &report));
        }
        if self.states.get(place).is_some_and(|state| state.hold.is_empty()) {
            self.note_empty(account);
        }
        if let Some(state) = self.states.get(place)
            && let Some(conn) = state.conn
        {
            send(conn, &self.written, out);
            if let Some(ending) = ending {
                return ends(Some(ending));
            }
            self.due = self.due.min(state.hold.next_timeout(context.config.hold_max_ns));
            return self.go_on(now, account, context, out);
        }
        Outcome::default()
    }

    /// One record of a stream, in its turn.
    fn record(&mut self, now: Nanos, place: usize, report: &ExecutionReport) -> Option<Ending> {
        let state = self.states.get_mut(place)?;
        let position = state.position;
        state.position += 1;
        state.tally.messages_out += 1;
        let session = self.acceptor.session(place)?;
        // Of a copy it says something else, see `ExecutionReport::session_seq`.
        let copy = report.account != state.account;
        if report.session_seq > 0 && !copy {
            state.received = state.received.max(report.session_seq);
            session.note_received(report.session_seq);
        }
        if report.kind != ExecutionKind::SessionSlot {
            // When a record of before was sent first nobody here knows; the engine's time is near.
            let reading = matches!(state.progress, Progress::Reading(_));
            let at = if reading { report.t_seq } else { now };
            let outbound = session.outbound();
            let (written, symbols) = (&mut self.written, &self.symbols);
            if copy {
                let owner = self.names.get(usize::from(report.account.0));
                let owner = owner.map_or(&[][..], Vec::as_slice);
                let told = (report, u64::from(report.session_seq));
                state.application.copy(at, told, owner, symbols, outbound, written);
            } else {
                state.application.report(at, report, position, symbols, outbound, written);
            }
            return None;
        }
        let reset = report.flags & SESSION_RESET != 0;
        if reset {
            state.before = report.session_seq.saturating_sub(1);
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
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        let Some(place) = self.place(account) else { return Outcome::default() };
        let Some(state) = self.states.get_mut(place) else { return Outcome::default() };
        let Some(conn) = state.conn else { return Outcome::default() };
        let read = matches!(state.progress, Progress::Reading(until) if state.position >= until);
        if !read {
            self.wake(now.now, conn);
            return Outcome::default();
        }
        state.progress = Progress::Ready;
        state.tally.since = now.now;
        let (before, received) = (state.before, state.received);
        if let Some(session) = self.acceptor.session(place) {
            session.restore(before, received);
        }
        let ending = self.call((now, conn), context, out, |acceptor, app, written| {
            acceptor.resume(now.now, conn, app, written)
        });
        self.after(now, conn, ending, context, out)
    }

    /// Timers of all connections; those that end.
    pub(crate) fn handle_timeout(
        &mut self,
        now: ClockReading,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Vec<(ConnId, Outcome)> {
        let mut over = Vec::new();
        if now.now < self.due {
            return over;
        }
        self.due = Nanos::NEVER;
        let mut conns = std::mem::take(&mut self.conns);
        conns.extend(self.acceptor.conns());
        for conn in conns.drain(..) {
            if self.acceptor.next_timeout(conn) <= now.now {
                let read = self.account_of(conn).is_none_or(|account| context.wants(account));
                self.acceptor.note_reading(now.now, conn, read);
                let ending = self.call((now, conn), context, out, |acceptor, app, written| {
                    acceptor.handle_timeout(now.now, conn, app, written)
                });
                let outcome = self.after(now, conn, ending, context, out);
                if outcome.ending.is_some() {
                    over.push((conn, outcome));
                    continue;
                }
            }
            self.wake(now.now, conn);
        }
        self.conns = conns;
        self.refresh_market(now.now, out);
        let holding =
            self.holding.iter().filter_map(|account| self.states.get(self.place(*account)?));
        let held = holding.map(|state| state.hold.next_timeout(context.config.hold_max_ns));
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
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> bool {
        let Some(place) = self.acceptor.place_of(conn) else { return false };
        let ready = self.states.get(place).is_some_and(|state| {
            state.conn == Some(conn) && state.progress == Progress::Ready && !state.flooded
        });
        let Some(session) = self.acceptor.session(place).filter(|_| ready) else { return false };
        self.written.clear();
        session.logout(now.now, why, &mut self.written);
        if let Some(state) = self.states.get_mut(place) {
            // Nothing but this Logout asks for a slot any more.
            state.flooded = true;
        }
        self.after(now, conn, None, context, out);
        true
    }

    /// Sessions that are logged on.
    pub(crate) fn logged_on(&self) -> impl Iterator<Item = SessionInfo> {
        self.states.iter().filter_map(FixSessionState::info)
    }

    /// The connection is gone, or being closed; whose session it was, and whether that was live.
    pub(crate) fn close(&mut self, conn: ConnId) -> Option<(AccountId, bool)> {
        self.acceptor.handle_close(conn);
        let place = self.states.iter().position(|state| state.conn == Some(conn))?;
        if let Some(session) = self.acceptor.session(place) {
            session.forget();
        }
        let state = self.states.get_mut(place)?;
        let live = state.progress == Progress::Ready;
        let account = state.account;
        state.leave();
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

    /// Access control hears why a connection was not let in.
    pub(crate) fn note_refusal(
        &self,
        now: Nanos,
        conn: ConnId,
        ending: Ending,
        context: &mut GatewayContext,
    ) {
        let why = match ending {
            Ending::Garbled | Ending::NotLogon => Refusal::NoLogon,
            Ending::LogonTimeout => Refusal::TooSlow,
            Ending::AlreadyLoggedOn => Refusal::SecondLogon,
            // The door has said so already, or access control itself has refused it.
            _ => return,
        };
        if context.access.is_stranger(conn) {
            context.access.fail(now, conn, b"", why);
        }
    }

    /// Tells market-data sessions what has changed, those it is time for.
    pub(crate) fn refresh_market(&mut self, now: Nanos, out: &mut Outbox) {
        let FixDoor { acceptor, states, symbols, written, market, due, .. } = self;
        let Some(market) = market else { return };
        for (place, state) in states.iter_mut().enumerate() {
            let (Some(told), Some(conn)) = (&mut state.market, state.conn) else { continue };
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

    fn place(&self, account: AccountId) -> Option<usize> {
        self.place_of.get(usize::from(account.0)).copied().flatten()
    }

    /// Calls the acceptor; what it writes is left in `written`.
    fn call(
        &mut self,
        (now, conn): (ClockReading, ConnId),
        context: &mut GatewayContext,
        out: &mut Outbox,
        call: impl FnOnce(
            &mut Acceptor<MemoryStore>,
            &mut DoorApplication<'_>,
            &mut Vec<u8>,
        ) -> Option<Ending>,
    ) -> Option<Ending> {
        self.written.clear();
        let FixDoor { acceptor, states, symbols, written, counters, market, .. } = self;
        let market = market.as_ref();
        let mut app = DoorApplication {
            now,
            conn,
            states,
            symbols,
            context,
            counters,
            market,
            out,
            wants_in: None,
        };
        let ending = call(acceptor, &mut app, written);
        if let Some(place) = app.wants_in
            && let Some(state) = self.states.get_mut(place)
        {
            state.progress = Progress::Attaching;
        }
        ending
    }

    /// Sends what was written, asks for slots, and says what is left to do.
    fn after(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        ending: Option<Ending>,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) -> Outcome {
        if let Some(fix::Ahead { session, asked, next }) = self.acceptor.take_ahead()
            && let Some(state) = self.states.get(session)
        {
            let (asked, next) = (u64::from(asked), u64::from(next));
            context.note_ahead(Ahead { account: state.account, asked, next });
        }
        if let Some(fix::RefusedLogon { session, why }) = self.acceptor.take_refused() {
            let account =
                session.and_then(|place| self.states.get(place)).map(|state| state.account);
            match account {
                Some(account) => {
                    context.access.refuse(now.now, conn, account, Refusal::BadLogon, &why);
                }
                None => context.access.refuse_unknown(now.now, conn, &why),
            }
        }
        send(conn, &self.written, out);
        if let Some(place) = self.acceptor.place_of(conn) {
            self.ask_slots(now, place, context, out);
            if let Some(state) = self.states.get_mut(place)
                && state.progress == Progress::Attaching
                && state.conn.is_none()
            {
                state.conn = Some(conn);
                // The whole stream is read, which rebuilds the session.
                let wants_in = ending.is_none().then_some((state.account, 1));
                return Outcome { wants_in, ..ends(ending) };
            }
            if let Some(state) = self.states.get_mut(place).filter(|state| state.market.is_some()) {
                state.conn = Some(conn);
                self.due = self.due.min(now.now);
            }
        }
        self.wake(now.now, conn);
        ends(ending)
    }

    /// Asks the log for the slots that a session's waiting messages need.
    fn ask_slots(
        &mut self,
        now: ClockReading,
        place: usize,
        context: &mut GatewayContext,
        out: &mut Outbox,
    ) {
        let (Some(session), Some(state)) =
            (self.acceptor.session(place), self.states.get_mut(place))
        else {
            return;
        };
        if state.over_rate && !state.flooded {
            // Every request so far has its answer; what follows is asked for at the next Logon.
            state.flooded = true;
            self.counters.over_rate += 1;
            session.logout(
                now.now,
                "Far above the request rate of this session",
                &mut self.written,
            );
        }
        loop {
            if !state.flooded && session.outbound().is_asking() && !state.allows_slot(now.now) {
                state.flooded = true;
                self.counters.floods += 1;
                session.outbound().drop_unasked();
                let why = "Too many messages that need an answer of their own";
                // It waits for a slot, which is the last one asked for.
                session.logout(now.now, why, &mut self.written);
            }
            if !session.outbound().is_asking() {
                return;
            }
            let ticket = context.next_ticket();
            let Some(reset) = session.outbound().ask_slot(ticket) else { return };
            let mut command = Command::new(CommandKind::SessionSlot);
            command.account = state.account;
            command.session_seq = session.received();
            command.qty = Qty(ticket);
            command.flags = if reset { SESSION_RESET } else { 0 };
            // Without room even to wait the message is not sent, as if the line had been cut.
            if !context.submit(now, command, out) {
                session.outbound().drop_asked(ticket);
            }
        }
    }
}

fn ends(ending: Option<Ending>) -> Outcome {
    Outcome { wants_in: None, ending: ending.map(session::Ending::Fix) }
}

fn send(conn: ConnId, written: &[u8], out: &mut Outbox) {
    if !written.is_empty() {
        let bytes = out.store(written);
        out.stream(conn, bytes);
    }
}
