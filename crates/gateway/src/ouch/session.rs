//! One participant's connection: SoupBinTCP session, OUCH requests in, held reports out.

use overlay::payload::ORDER_PAYLOAD_MAX;
use types::{AccountId, ClockReading, Command, CommandKind, ConnId, Nanos, Outbox, RejectReason};
use wire::{
    ouch::{self, CancelOrder, RefusedRequest},
    soupbin::{RejectCode, ServerEvent, ServerPacket, ServerSession},
};

use crate::{
    access::{Refusal, Verdict},
    context::GatewayContext,
    hold::{HoldQueue, Release, Watermarks},
    operate::Tally,
    session::{self, Left, Outcome},
    streams::Streams,
};

const _: () = assert!(size_of::<Command>() <= ORDER_PAYLOAD_MAX, "an order fits its frame");

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not logged in.
    Stranger,
    /// Credentials are right; the root has not yet given us the stream.
    Attaching(AccountId),
    /// Logged in.
    Live(AccountId),
}

/// Why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// Wrong credentials.
    NotAuthorized,
    /// Another session was wanted, or the account is live on another connection or at another
    /// gateway.
    Unavailable,
    /// It wants messages that were never sent.
    Ahead {
        /// The first that it wants.
        asked: u64,
        /// The next that there will be.
        next: u64,
    },
    /// The client broke a protocol.
    Violation,
    /// Another gateway took the stream over.
    TakenOver,
    /// The client leaves too much unread.
    Slow,
    /// The operator wants it.
    Operator,
    /// The client left or fell silent.
    Left,
}

/// A connection.
pub(crate) struct OuchSession {
    soup: ServerSession,
    pub(crate) state: State,
    pub(crate) hold: HoldQueue,
    pub(crate) tally: Tally,
    paused: bool,
    /// The first message it wanted at its login.
    pub(crate) asked_from: u64,
    /// Credentials that access control has yet to find right or wrong.
    asked: Option<Asked>,
    scratch: Vec<u8>,
}

/// A login that waits.
struct Asked {
    account: AccountId,
    name: Vec<u8>,
    sequence: u64,
    /// It is for the session that is.
    ours: bool,
}

impl OuchSession {
    /// A fresh connection.
    pub(crate) fn new(now: Nanos) -> OuchSession {
        OuchSession {
            soup: ServerSession::new(now),
            state: State::Stranger,
            hold: HoldQueue::default(),
            tally: Tally::default(),
            paused: false,
            asked_from: 0,
            asked: None,
            scratch: Vec::new(),
        }
    }

    /// Takes bytes; passes requests on; says whether it wants in and whether it ends. The first
    /// reason to end it counts, whatever else was in the same read.
    pub(crate) fn handle_bytes(
        &mut self,
        now: ClockReading,
        bytes: &[u8],
        context: &mut GatewayContext,
        conn: ConnId,
        out: &mut Outbox,
    ) -> Outcome {
        let (mut wants_in, mut ending, state) = (None, None, self.state);
        let (asked, refusals) = (&mut self.asked, &mut self.scratch);
        let tally = &mut self.tally;
        refusals.clear();
        self.soup.handle_bytes(now.now, bytes, |event| match event {
            ServerEvent::Login { username, password, session, sequence } => {
                let ours = session.is_empty() || trim(&context.config.session) == trim(session);
                let account = context.config.account_of(username);
                let verdict = context.access.attempt(now.now, conn, (username, account), password);
                match (verdict, account) {
                    (Verdict::In, Some(account)) if ours => wants_in = Some((account, sequence)),
                    (Verdict::In, Some(_)) => ending = Some(Ending::Unavailable),
                    (Verdict::Later, Some(account)) => {
                        *asked = Some(Asked { account, name: username.to_vec(), sequence, ours });
                    }
                    _ => ending = Some(Ending::NotAuthorized),
                }
            }
            ServerEvent::Unsequenced(message) => {
                let State::Live(account) = state else { return };
                tally.messages_in += 1;
                if ending.is_none() && !request(now, message, account, context, refusals, out) {
                    ending = Some(Ending::Violation);
                }
            }
            ServerEvent::LogoutRequest | ServerEvent::Dead => {
                ending.get_or_insert(Ending::Left);
            }
            ServerEvent::Violation(_) => {
                ending.get_or_insert(Ending::Violation);
            }
        });
        if !self.scratch.is_empty() {
            let bytes = out.store(&self.scratch);
            out.stream(conn, bytes);
        }
        Outcome { wants_in, ending: ending.map(session::Ending::Ouch) }
    }

    /// Access control knows about the credentials that waited.
    pub(crate) fn handle_answer(
        &mut self,
        now: Nanos,
        conn: ConnId,
        context: &mut GatewayContext,
    ) -> Outcome {
        let Some(asked) = self.asked.take() else { return Outcome::default() };
        let Asked { account, name, sequence, ours } = asked;
        let ending = match context.access.attempt(now, conn, (&name, Some(account)), b"") {
            Verdict::In if ours => {
                return Outcome { wants_in: Some((account, sequence)), ending: None };
            }
            Verdict::In => Ending::Unavailable,
            _ => Ending::NotAuthorized,
        };
        Outcome { wants_in: None, ending: Some(session::Ending::Ouch(ending)) }
    }

    /// The root is asked for the account's stream, from this message on.
    pub(crate) fn attach(&mut self, account: AccountId, from: u64) {
        (self.state, self.asked_from) = (State::Attaching(account), from);
    }

    /// Who leaves with it.
    pub(crate) fn left(&self) -> Left {
        match self.state {
            State::Stranger => Left::default(),
            State::Attaching(account) => Left { account: Some(account), live: false },
            State::Live(account) => Left { account: Some(account), live: true },
        }
    }

    /// The stream is ours: the client is in, from position `from` on.
    pub(crate) fn accept(
        &mut self,
        now: Nanos,
        account: AccountId,
        from: u64,
        context: &mut GatewayContext,
        conn: ConnId,
        out: &mut Outbox,
    ) {
        self.scratch.clear();
        if self.soup.accept_login(now, context.config.session, from, &mut self.scratch).is_ok() {
            self.state = State::Live(account);
            self.tally.since = now;
            context.counters.logins += 1;
            let bytes = out.store(&self.scratch);
            out.stream(conn, bytes);
        }
    }

    /// Sends what may go out with the feed public up to `watermarks`.
    pub(crate) fn release(
        &mut self,
        now: Nanos,
        watermarks: &Watermarks,
        context: &mut GatewayContext,
        conn: ConnId,
        out: &mut Outbox,
    ) {
        let (soup, hold, scratch) = (&mut self.soup, &mut self.hold, &mut self.scratch);
        let mut sent = 0;
        let bytes = out.write(|buffer| {
            while let Some((release, report)) =
                hold.pop(now, watermarks, context.config.hold_max_ns)
            {
                context.counters.overdue += u64::from(release == Release::Overdue);
                scratch.clear();
                let encoded = context.encoder.encode_report(&report, scratch).is_ok();
                if encoded && soup.send_sequenced(now, scratch, buffer).is_ok() {
                    sent += 1;
                } else {
                    context.counters.unencodable += 1;
                }
            }
        });
        if sent > 0 {
            context.counters.reports += sent;
            self.tally.messages_out += sent;
            out.stream(conn, bytes);
        }
    }

    /// Pauses the stream upstream, or lets it go on, by what waits here now.
    pub(crate) fn settle_pause(&mut self, streams: &mut Streams) {
        if let State::Live(account) = self.state {
            self.paused = self.hold.wants_pause(self.paused);
            streams.set_paused(account, self.paused);
        }
    }

    /// Whether its bytes are taken now. While nothing can be logged they are: refusals need no room.
    pub(crate) fn is_read(&self, context: &GatewayContext) -> bool {
        match self.state {
            _ if context.suspended => true,
            State::Live(account) => context.wants(account),
            State::Stranger | State::Attaching(_) => context.reads_strangers(),
        }
    }

    /// A client whose bytes wait in its socket is not silent.
    pub(crate) fn note_reading(&mut self, now: Nanos, context: &GatewayContext) {
        if matches!(self.state, State::Live(_)) && !self.is_read(context) {
            self.soup.excuse_silence(now);
        }
    }

    /// Heartbeat, or the end of a silent client.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Nanos,
        conn: ConnId,
        out: &mut Outbox,
    ) -> Option<Ending> {
        self.scratch.clear();
        let event = self.soup.handle_timeout(now, &mut self.scratch);
        if !self.scratch.is_empty() {
            let bytes = out.store(&self.scratch);
            out.stream(conn, bytes);
        }
        match event? {
            ServerEvent::Violation(_) => Some(Ending::Violation),
            _ => Some(Ending::Left),
        }
    }

    /// When this session next needs attention.
    pub(crate) fn next_timeout(&self, context: &GatewayContext) -> Nanos {
        self.soup.next_timeout().min(self.hold.next_timeout(context.config.hold_max_ns))
    }

    /// Tells a client that is logged in that requests are refused from now on, or no longer.
    pub(crate) fn tell_suspended(&mut self, suspended: bool, conn: ConnId, out: &mut Outbox) {
        if !matches!(self.state, State::Live(_)) {
            return;
        }
        let text: &[u8] = match suspended {
            true => b"the exchange's log stands still: requests are refused until it goes on",
            false => b"the exchange's log goes on: requests are taken again",
        };
        self.scratch.clear();
        if ServerPacket::Debug(text).encode(&mut self.scratch).is_ok() {
            let bytes = out.store(&self.scratch);
            out.stream(conn, bytes);
        }
    }

    /// Counts why it ends, tells access control and the client.
    pub(crate) fn end(
        &mut self,
        now: Nanos,
        ending: Ending,
        context: &mut GatewayContext,
        conn: ConnId,
        out: &mut Outbox,
    ) {
        if ending == Ending::Violation && self.state == State::Stranger {
            context.access.fail(now, conn, b"", Refusal::NoLogon);
        }
        match ending {
            Ending::NotAuthorized | Ending::Unavailable | Ending::Ahead { .. } => {
                context.counters.logins_refused += 1;
            }
            Ending::Violation => context.counters.violations += 1,
            Ending::TakenOver => context.counters.taken_over += 1,
            Ending::Slow => context.counters.slow_consumers += 1,
            Ending::Operator => context.counters.disconnected += 1,
            Ending::Left => {}
        }
        self.say_goodbye(ending, conn, out);
    }

    /// Tells the client why, where the protocol has words for it.
    fn say_goodbye(&mut self, ending: Ending, conn: ConnId, out: &mut Outbox) {
        self.scratch.clear();
        // An error here means the session has no such words in its state: nothing is said.
        let _ = match ending {
            // Not by way of the session: it may be over already, by what came after the login.
            Ending::Unavailable => ServerPacket::LoginRejected(RejectCode::SessionNotAvailable)
                .encode(&mut self.scratch),
            Ending::NotAuthorized => {
                ServerPacket::LoginRejected(RejectCode::NotAuthorized).encode(&mut self.scratch)
            }
            Ending::Ahead { asked, next } => {
                let text = format!(
                    "message {asked} was never sent: the next one is {next}. The exchange goes on \
                     from an older log, or the number is wrong; log in with {next} or less to go on"
                );
                let told = ServerPacket::Debug(text.as_bytes()).encode(&mut self.scratch);
                let refused = ServerPacket::LoginRejected(RejectCode::SessionNotAvailable);
                match self.state {
                    State::Live(_) => told,
                    _ => told.and_then(|()| refused.encode(&mut self.scratch)),
                }
            }
            Ending::Violation => {
                let text = b"message not understood; session ended";
                ServerPacket::Debug(text).encode(&mut self.scratch)
            }
            Ending::TakenOver => {
                let text = b"account logged in at another gateway";
                ServerPacket::Debug(text).encode(&mut self.scratch)
            }
            Ending::Operator => {
                let text = b"session ended by the operator";
                ServerPacket::Debug(text).encode(&mut self.scratch)
            }
            Ending::Slow => {
                let text = b"too much left unread; session ended";
                ServerPacket::Debug(text).encode(&mut self.scratch)
            }
            // The client has said its last word, or is gone.
            Ending::Left => Ok(()),
        };
        if !self.scratch.is_empty() {
            let bytes = out.store(&self.scratch);
            out.stream(conn, bytes);
        }
    }
}

/// Handles one OUCH message; false when it is none. Refusals are appended as unsequenced packets.
fn request(
    now: ClockReading,
    message: &[u8],
    account: AccountId,
    context: &mut GatewayContext,
    refusals: &mut Vec<u8>,
    out: &mut Outbox,
) -> bool {
    let (symbols, received) = (context.encoder.symbols(), context.venue_clock.at(now.now));
    let mut plain = Command::new(CommandKind::NewOrder);
    let command = if ouch::read_plain(message, symbols, received, &mut plain) {
        Ok(plain)
    } else {
        let Ok(inbound) = ouch::parse_inbound(message) else { return false };
        ouch::to_command(&inbound, symbols, received)
    };
    match command {
        Ok(mut command) => {
            command.account = account;
            let reason = if context.suspended {
                (context.counters.requests_refused, context.counters.suspended) =
                    (context.counters.requests_refused + 1, context.counters.suspended + 1);
                RejectReason::CapacityReached
            } else if !context.admits(now.now, account, command.kind) {
                RejectReason::MessageRate
            } else if !context.submit(now, command, out) {
                context.counters.requests_refused += 1;
                RejectReason::CapacityReached
            } else {
                return true;
            };
            let Command { user_ref, cl_ord_id, .. } = command;
            let refused = RefusedRequest { user_ref, cl_ord_id, reason };
            refuse(now.now, (message, account), &refused, context, refusals);
        }
        Err(refused) => {
            context.counters.requests_refused += 1;
            refuse(now.now, (message, account), &refused, context, refusals);
        }
    }
    true
}

/// A refusal by the gateway is outside the numbered stream: it is in no log.
fn refuse(
    now: Nanos,
    (message, account): (&[u8], AccountId),
    refused: &RefusedRequest,
    context: &mut GatewayContext,
    refusals: &mut Vec<u8>,
) {
    context.throttles.note_refusal(now, account);
    let RefusedRequest { user_ref, cl_ord_id, reason } = *refused;
    let now = context.venue_clock.at(now);
    let mut answer = Vec::new();
    let encoded = match message.first() {
        Some(&CancelOrder::KIND) => {
            context.encoder.encode_cancel_rejected(user_ref, now, &mut answer)
        }
        _ => context.encoder.encode_rejected(user_ref, reason, cl_ord_id, now, &mut answer),
    };
    debug_assert!(reason != RejectReason::None);
    let sent = encoded.is_ok() && ServerPacket::Unsequenced(&answer).encode(refusals).is_ok();
    context.counters.unencodable += u64::from(!sent);
}

fn trim(padded: &[u8]) -> &[u8] {
    padded.trim_ascii()
}
