//! What the FIX door does with what its sessions are sent: credentials, orders, market data.

use fix::app::{Refusal, Symbols, Wanted};
use fix::session::{Application, Port, Proof, Store};
use fix::{Message, tag};
use types::{ClockReading, ConnId, Nanos, Outbox, UserRefNum};

use crate::access::Verdict;
use crate::context::GatewayContext;
use crate::fix::market::ReleasedMarket;
use crate::fix::session_state::{FixSessionState, Progress};

/// What happened at FIX doors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FixCounters {
    /// Logons answered.
    pub logons: u64,
    /// Logons with a wrong user name or password.
    pub wrong_credentials: u64,
    /// Logons of CompIDs or versions nobody has.
    pub unknown_sessions: u64,
    /// Logons of sessions that are live, here or at another gateway.
    pub second_logons: u64,
    /// Connections that began with something else, or with nothing in time.
    pub no_logons: u64,
    /// Logons that were wrong in themselves: malformed, late clock, numbers that do not fit.
    pub bad_logons: u64,
    /// Sessions ended because they caused too many messages without a record in the stream.
    pub floods: u64,
    /// Sessions ended because they went on far above their rate.
    pub over_rate: u64,
    /// Messages of a session that an earlier gateway had dealt with.
    pub repeated: u64,
    /// Slots that were an earlier gateway's.
    pub foreign_slots: u64,
}

/// The application behind the door, while one connection is served.
pub(crate) struct DoorApplication<'a> {
    pub(crate) now: ClockReading,
    pub(crate) conn: ConnId,
    pub(crate) states: &'a mut [FixSessionState],
    pub(crate) symbols: &'a Symbols,
    pub(crate) context: &'a mut GatewayContext,
    pub(crate) counters: &'a mut FixCounters,
    pub(crate) market: Option<&'a ReleasedMarket>,
    pub(crate) out: &'a mut Outbox,
    /// A session that has to get its stream first.
    pub(crate) wants_in: Option<usize>,
}

impl Application for DoorApplication<'_> {
    fn logon(&mut self, session: usize, message: &Message<'_>) -> Proof {
        let Some(state) = self.states.get(session) else { return Proof::Wrong };
        // It was asked when the Logon came; now the account's stream has been read.
        if state.progress == Progress::Ready && state.conn == Some(self.conn) {
            return Proof::Right;
        }
        let name = message.get(tag::USERNAME.number);
        let password = message.get(tag::PASSWORD.number).unwrap_or(&[]);
        // The name has to be right only if there is one.
        let account = name.is_none_or(|name| name == state.username).then_some(state.account);
        let name = name.unwrap_or(&state.username);
        match self.context.access.attempt(self.now.now, self.conn, (name, account), password) {
            Verdict::In => Proof::Right,
            Verdict::Out(_) => Proof::Wrong,
            Verdict::Later => Proof::Later,
        }
    }

    fn ready(&mut self, session: usize) -> bool {
        let ready = self.states.get(session).is_some_and(|state| state.progress == Progress::Ready);
        if ready {
            self.counters.logons += 1;
            // A market-data session has no stream to wait for: it is in.
            self.context.access.enter(self.conn);
        } else {
            self.wants_in = Some(session);
        }
        ready
    }

    fn message<S: Store>(
        &mut self,
        session: usize,
        now: Nanos,
        message: &Message<'_>,
        port: &mut Port<'_, S>,
    ) {
        let Some(state) = self.states.get_mut(session) else { return };
        state.tally.messages_in += 1;
        let request = matches!(message.msg_type(), b"D" | b"F" | b"G" | b"q");
        if request && state.market.is_none() && port.received() <= state.received {
            // Another gateway brought it to the log; its answer is in the stream.
            self.counters.repeated += 1;
            return;
        }
        state.application.ledger.skip_to(UserRefNum(port.received()));
        match state.application.handle(now, message, self.symbols, port) {
            Wanted::Nothing => {}
            Wanted::Command(mut command) => {
                command.account = state.account;
                command.session_seq = port.received();
                if self.context.suspended {
                    // Its slot waits for the log, so these are bounded as those above the rate are.
                    self.context.counters.requests_refused += 1;
                    self.context.counters.suspended += 1;
                    let paid = self.context.throttles.take_refusal(self.now.now, state.account);
                    state.note_refusal(paid);
                    state.application.take_back(now, message, &command, &Refusal::SUSPENDED, port);
                } else if !self.context.admits(self.now.now, state.account, command.kind) {
                    let paid = self.context.throttles.take_refusal(self.now.now, state.account);
                    state.note_refusal(paid);
                    state.application.take_back(now, message, &command, &Refusal::RATE, port);
                } else if !self.context.submit(self.now, command, self.out) {
                    self.context.counters.requests_refused += 1;
                    state.application.take_back(now, message, &command, &Refusal::BUSY, port);
                }
            }
            other => match (&mut state.market, other, self.market) {
                (Some(told), Wanted::MarketData(request), market) => {
                    told.request(&request, market, self.symbols, port);
                }
                (Some(told), Wanted::TradingStatus(id, wanted), Some(market)) => {
                    told.state((id, None, wanted), market, self.symbols, port);
                }
                (Some(told), Wanted::SecurityStatus(id, name, wanted), Some(market)) => {
                    told.state((id, Some(name), wanted), market, self.symbols, port);
                }
                _ => state.application.unavailable(now, message, port),
            },
        }
    }

    fn heartbeat(&mut self, session: usize, test_req_id: &[u8]) {
        if let Some(told) = self.states.get_mut(session).and_then(|state| state.market.as_mut()) {
            told.heartbeat(test_req_id);
        }
    }
}
