//! Sessions and the connections that have them: the whole door but its sockets.
//!
//! A connection belongs to nobody until its first message, which must be the Logon of a session
//! that is not live. A Logon of CompIDs that no session has is answered with a Logout that says so,
//! and one that is wrong in itself with a Logout that names the fault, once its credentials are right.
//! Others are disconnected without a word. Before a Logon a connection costs one message of memory.
//!
//! Where an account's stream gives a session's numbers, a Logon may have to wait for what came
//! before it ([`Acceptor::resume`]), and a connection ends once its last messages have theirs
//! ([`Acceptor::slot`]).

use std::collections::BTreeMap;

use types::{ConnId, Nanos};

use crate::frame::{Frame, Framer};
use crate::session::logon::{Refused, refuse};
use crate::session::{Application, Ending, Entry, Session, SessionConfig, Slot, Store};
use crate::tag;
use crate::view::{FieldIndex, Message};

/// Bounds that an [`Acceptor`] holds each of its connections to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest message taken from a counterparty, bytes.
    pub message_max: usize,
    /// Longest time from the connection to a complete Logon, ns.
    pub logon_wait_ns: u64,
    /// Most bytes kept of one connection while a resend keeps it from being read.
    pub backlog_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let logon_wait_ns = 10 * Nanos::SECOND;
        Limits { message_max: 16 << 10, logon_wait_ns, backlog_max: 256 << 10 }
    }
}

#[derive(Debug)]
struct Connection {
    framer: Framer,
    session: Option<usize>,
    opened_at: Nanos,
    /// Bytes received and not handled yet, because a resend is going out.
    backlog: Vec<u8>,
    held: Option<Held>,
}

/// Why nothing is read from a connection.
#[derive(Debug)]
enum Held {
    /// The credentials of the Logon held here are being checked.
    Proof(Vec<u8>),
    /// The Logon held here waits for the session at this index to be ready.
    Logon(usize, Vec<u8>),
    /// The connection ends when the session's last messages have left, or at this time.
    Ending(usize, Ending, Nanos),
}

impl Connection {
    /// Index of the session that the connection has, or is about to have, or whose last messages it
    /// waits for.
    fn concerns(&self) -> Option<usize> {
        match &self.held {
            Some(Held::Logon(session, _) | Held::Ending(session, ..)) => Some(*session),
            Some(Held::Proof(_)) | None => self.session,
        }
    }
}

/// What the acceptor has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of Logons that were accepted.
    pub logons: u64,
    /// Number of connections that ended before a Logon was accepted.
    pub refused: u64,
    /// Number of garbled messages that were ignored on live sessions.
    pub garbled: u64,
    /// Number of complete messages that were handled.
    pub messages: u64,
}

/// The acceptor of a FIX door: its sessions and the connections that have them.
#[derive(Debug)]
pub struct Acceptor<S> {
    sessions: Vec<Session<S>>,
    /// The connection that each session has, by the session's index; `None`: the session is not
    /// live.
    live: Vec<Option<ConnId>>,
    connections: BTreeMap<ConnId, Connection>,
    limits: Limits,
    index: FieldIndex,
    ahead: Option<Ahead>,
    refused: Option<RefusedLogon>,
    /// What has been counted since the start, for the operator.
    pub counters: Counters,
}

/// A counterparty's Logon says that it knows of a message that this side never sent: the log may be older
/// than what was told from it. (A ResendRequest beyond what was sent is its sender's error alone.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    /// Index of the session.
    pub session: usize,
    /// MsgSeqNum(34) that the counterparty named.
    pub asked: u32,
    /// MsgSeqNum(34) of the next message that this side will send.
    pub next: u32,
}

/// A Logon that was refused for its contents, with credentials that were right or that belong to no
/// session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedLogon {
    /// Index of the session that the Logon names; `None`: there is no such session.
    pub session: Option<usize>,
    /// What was wrong, in the words told to the sender.
    pub why: String,
}

/// Most bytes of an unknown CompID that are shown to operators.
const NAME_KEPT: usize = 24;

impl<S: Store> Acceptor<S> {
    /// An acceptor of these sessions, each with its store; the application knows a session by its
    /// index in the list.
    pub fn new(sessions: Vec<(SessionConfig, S)>, limits: Limits) -> Acceptor<S> {
        let session = |(index, (config, store))| Session::new(index, config, store);
        Acceptor {
            live: vec![None; sessions.len()],
            sessions: sessions.into_iter().enumerate().map(session).collect(),
            connections: BTreeMap::new(),
            limits,
            index: FieldIndex::default(),
            ahead: None,
            refused: None,
            counters: Counters::default(),
        }
    }

    /// Removes and returns the last [`Ahead`] since the previous call.
    pub fn take_ahead(&mut self) -> Option<Ahead> {
        self.ahead.take()
    }

    /// Removes and returns the last [`RefusedLogon`] since the previous call.
    pub fn take_refused(&mut self) -> Option<RefusedLogon> {
        self.refused.take()
    }

    /// The session with this index.
    pub fn session(&mut self, session: usize) -> Option<&mut Session<S>> {
        self.sessions.get_mut(session)
    }

    /// Index of the session that `conn` has; `None` before its Logon is accepted.
    pub fn session_of(&self, conn: ConnId) -> Option<usize> {
        self.connections.get(&conn).and_then(|connection| connection.session)
    }

    /// Index of the session that `conn` has, whose Logon waits there, or whose last messages it
    /// waits for.
    pub fn place_of(&self, conn: ConnId) -> Option<usize> {
        self.connections.get(&conn).and_then(Connection::concerns)
    }

    /// Numbers of all open connections, in ascending order.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> {
        self.connections.keys().copied()
    }

    /// Whether `conn` is an open connection of this door.
    pub fn has(&self, conn: ConnId) -> bool {
        self.connections.contains_key(&conn)
    }

    /// Number of open connections, with or without a session.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The connection that has `session`; `None` when the session is not live.
    pub fn connection_of(&self, session: usize) -> Option<ConnId> {
        self.live.get(session).copied().flatten()
    }

    /// Begins a connection, at `now`; it has no session until its Logon.
    pub fn handle_connect(&mut self, now: Nanos, conn: ConnId) {
        let framer = Framer::new(self.limits.message_max);
        let backlog = Vec::new();
        let connection = Connection { framer, session: None, opened_at: now, backlog, held: None };
        self.connections.insert(conn, connection);
    }

    /// Ends a connection that the counterparty has closed or the caller is about to close.
    pub fn handle_close(&mut self, conn: ConnId) {
        let connection = self.connections.remove(&conn);
        let refused = connection.as_ref().is_none_or(|connection| connection.session.is_none());
        self.counters.refused += u64::from(refused);
        if let Some(index) = connection.and_then(|connection| connection.concerns()) {
            if let Some(session) = self.sessions.get_mut(index) {
                session.disconnect();
            }
            if let Some(live) = self.live.get_mut(index) {
                *live = None;
            }
        }
    }

    /// Whether bytes of `conn` are welcome; false while a resend goes out to it, while its Logon
    /// waits, and when it is about to end.
    pub fn wants_input(&self, conn: ConnId) -> bool {
        if self.connections.get(&conn).is_some_and(|connection| connection.held.is_some()) {
            return false;
        }
        let session = self.session_of(conn).and_then(|session| self.sessions.get(session));
        session.is_none_or(|session| !session.is_resending())
    }

    /// Handles bytes from `conn` and appends what is to be sent back to `out`. `Some`: the caller
    /// writes `out`, closes the connection and calls [`Acceptor::handle_close`].
    pub fn handle_bytes<A: Application>(
        &mut self,
        now: Nanos,
        conn: ConnId,
        bytes: &[u8],
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let connection = self.connections.get_mut(&conn)?;
        let mut index = std::mem::take(&mut self.index);
        let mut door = Door {
            now,
            sessions: &mut self.sessions,
            counters: &mut self.counters,
            index: &mut index,
            ahead: &mut self.ahead,
            refused: &mut self.refused,
            app,
            out,
        };
        let ending = door.take_in(connection, bytes, self.limits.backlog_max);
        self.index = index;
        if let Some(live) = connection.concerns().and_then(|session| self.live.get_mut(session)) {
            *live = Some(conn);
        }
        ending
    }

    /// The check of the credentials of `conn` has finished; goes on as [`Acceptor::handle_bytes`].
    pub fn try_again<A: Application>(
        &mut self,
        now: Nanos,
        conn: ConnId,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let connection = self.connections.get_mut(&conn)?;
        let Some(Held::Proof(bytes)) =
            connection.held.take_if(|held| matches!(held, Held::Proof(_)))
        else {
            return None;
        };
        self.go_on(now, conn, &bytes, app, out)
    }

    /// The session that the Logon of `conn` waited for is ready: goes on as
    /// [`Acceptor::handle_bytes`].
    pub fn resume<A: Application>(
        &mut self,
        now: Nanos,
        conn: ConnId,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let connection = self.connections.get_mut(&conn)?;
        let Some(Held::Logon(session, bytes)) = connection.held.take() else { return None };
        self.sessions.get_mut(session)?.claim(false);
        self.go_on(now, conn, &bytes, app, out)
    }

    /// Handles the message that was held, then the bytes that came behind it.
    fn go_on<A: Application>(
        &mut self,
        now: Nanos,
        conn: ConnId,
        held: &[u8],
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let connection = self.connections.get_mut(&conn)?;
        let mut index = std::mem::take(&mut self.index);
        let mut door = Door {
            now,
            sessions: &mut self.sessions,
            counters: &mut self.counters,
            index: &mut index,
            ahead: &mut self.ahead,
            refused: &mut self.refused,
            app,
            out,
        };
        let ending = door.frame(&mut connection.session, &mut connection.held, held);
        self.index = index;
        match ending {
            None => self.handle_bytes(now, conn, &[], app, out),
            ended => ended,
        }
    }

    /// The account's stream has come to a slot of `session`, which gives a waiting message its
    /// number; see [`crate::session::Outbound::slot`].
    pub fn slot(
        &mut self,
        now: Nanos,
        session: usize,
        ticket: u64,
        reset: bool,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let owner = self.connection_of(session);
        let outbound = self.sessions.get_mut(session)?.outbound();
        if outbound.slot(now, ticket, reset, out) == Slot::Broken {
            return Some(Ending::Renumbered);
        }
        let connection = self.connections.get(&owner?)?;
        match connection.held {
            Some(Held::Ending(_, ending, _)) if outbound.waiting() == 0 => Some(ending),
            _ => None,
        }
    }

    /// Next time at which [`Acceptor::handle_timeout`] has something to do for `conn`; 0 while a
    /// resend goes on, as soon as there is room for its output.
    pub fn next_timeout(&self, conn: ConnId) -> Nanos {
        let Some(connection) = self.connections.get(&conn) else { return Nanos::NEVER };
        if let Some(Held::Ending(_, _, until)) = connection.held {
            return until;
        }
        match connection.session.and_then(|session| self.sessions.get(session)) {
            Some(session) => session.next_timeout(),
            None => connection.opened_at.after(self.limits.logon_wait_ns),
        }
    }

    /// Tells whether bytes of `conn` are read at present; while they are not, the counterparty
    /// cannot be found silent.
    pub fn note_reading(&mut self, now: Nanos, conn: ConnId, read: bool) {
        let session = self.session_of(conn).filter(|_| !read);
        if let Some(session) = session.and_then(|index| self.sessions.get_mut(index)) {
            session.last_received = now;
        }
    }

    /// Handles timers of `conn` that are due; `out` and the result are as in
    /// [`Acceptor::handle_bytes`].
    pub fn handle_timeout<A: Application>(
        &mut self,
        now: Nanos,
        conn: ConnId,
        app: &mut A,
        out: &mut Vec<u8>,
    ) -> Option<Ending> {
        let connection = self.connections.get_mut(&conn)?;
        if let Some(Held::Ending(_, ending, until)) = connection.held {
            return (now >= until).then_some(ending);
        }
        let Some(index) = connection.session else {
            let late = now >= connection.opened_at.after(self.limits.logon_wait_ns);
            return late.then_some(Ending::LogonTimeout);
        };
        let session = self.sessions.get_mut(index)?;
        let resending = session.is_resending();
        let ending = session.handle_timeout(now, out);
        if resending && !session.is_resending() && ending.is_none() {
            return self.handle_bytes(now, conn, &[], app, out);
        }
        ending
    }
}

/// The acceptor's parts while it handles one connection.
struct Door<'a, S, A> {
    now: Nanos,
    sessions: &'a mut [Session<S>],
    counters: &'a mut Counters,
    index: &'a mut FieldIndex,
    ahead: &'a mut Option<Ahead>,
    refused: &'a mut Option<RefusedLogon>,
    app: &'a mut A,
    out: &'a mut Vec<u8>,
}

impl<S: Store, A: Application> Door<'_, S, A> {
    /// Handles all of `bytes`, unless a resend begins: then the rest waits.
    fn take_in(
        &mut self,
        connection: &mut Connection,
        bytes: &[u8],
        backlog_max: usize,
    ) -> Option<Ending> {
        if let Some(Held::Ending(..)) = connection.held {
            return None;
        }
        let mut waiting = std::mem::take(&mut connection.backlog);
        let joined = !waiting.is_empty();
        if joined {
            waiting.extend_from_slice(bytes);
        }
        let mut rest = if joined { waiting.as_slice() } else { bytes };
        loop {
            while !self.is_busy(connection) {
                let Some(frame) = connection.framer.next_frame() else { break };
                let ending = match frame {
                    Frame::Message(bytes) => {
                        self.frame(&mut connection.session, &mut connection.held, bytes)
                    }
                    Frame::Garbled => self.garbled(connection.session),
                };
                if ending.is_some() {
                    return ending;
                }
            }
            if rest.is_empty() || self.is_busy(connection) {
                break;
            }
            let taken = connection.framer.push(rest);
            rest = rest.get(taken..).unwrap_or(&[]);
        }
        if rest.len() > backlog_max {
            return Some(Ending::Overrun);
        }
        connection.backlog.extend_from_slice(rest);
        None
    }

    fn is_busy(&self, connection: &Connection) -> bool {
        let session = connection.session.and_then(|session| self.sessions.get(session));
        connection.held.is_some() || session.is_some_and(Session::is_resending)
    }

    fn garbled(&mut self, session: Option<usize>) -> Option<Ending> {
        if session.is_none() {
            return Some(Ending::Garbled);
        }
        self.counters.garbled += 1;
        None
    }

    fn frame(
        &mut self,
        session: &mut Option<usize>,
        held: &mut Option<Held>,
        bytes: &[u8],
    ) -> Option<Ending> {
        let Ok(message) = self.index.parse(bytes) else { return self.garbled(*session) };
        self.counters.messages += 1;
        if let Some(index) = *session {
            let live = self.sessions.get_mut(index)?;
            let ending = live.handle_message(self.now, &message, self.app, self.out);
            if let Some((asked, next)) = live.take_ahead() {
                *self.ahead = Some(Ahead { session: index, asked, next });
            }
            let ending = ending?;
            return hold_ending(self.now, live, index, held, ending);
        }
        let found = match lookup(self.sessions, &message) {
            Ok(found) => found,
            Err(ending) => {
                if ending == Ending::UnknownSession {
                    let why = unknown(self.sessions, &message);
                    refuse(self.now, &message, &why, self.out);
                    let name = message.get(tag::SENDER_COMP_ID.number).unwrap_or(&[]);
                    let name = name.get(..NAME_KEPT).unwrap_or(name).escape_ascii();
                    let why = format!("{why} (of {name})");
                    *self.refused = Some(RefusedLogon { session: None, why });
                }
                return Some(ending);
            }
        };
        let wanted = self.sessions.get_mut(found)?;
        let entered = wanted.handle_logon(self.now, &message, self.app, self.out);
        if let Some((asked, next)) = wanted.take_ahead() {
            *self.ahead = Some(Ahead { session: found, asked, next });
        }
        match entered {
            Ok(Entry::Done) => {
                *session = Some(found);
                self.counters.logons += 1;
                None
            }
            Ok(Entry::Later) => {
                wanted.claim(true);
                *held = Some(Held::Logon(found, bytes.to_vec()));
                None
            }
            Ok(Entry::Unproved) => {
                *held = Some(Held::Proof(bytes.to_vec()));
                None
            }
            Err(Refused { ending, why }) => {
                if !why.is_empty() {
                    *self.refused = Some(RefusedLogon { session: Some(found), why });
                }
                hold_ending(self.now, wanted, found, held, ending)
            }
        }
    }
}

/// Why no session matches a Logon, in words for its sender.
fn unknown<S: Store>(sessions: &[Session<S>], message: &Message<'_>) -> String {
    let is = |tag: tag::Tag, name: &str| message.get(tag.number) == Some(name.as_bytes());
    let theirs = |session: &&Session<S>| is(tag::SENDER_COMP_ID, &session.config.their_comp_id);
    match sessions.iter().find(theirs) {
        None => "Unknown SenderCompID".to_string(),
        Some(session) if !is(tag::TARGET_COMP_ID, &session.config.own_comp_id) => {
            "Unknown TargetCompID".to_string()
        }
        Some(session) => {
            format!(
                "BeginString of this session is {}",
                session.config.rules.version.begin_string()
            )
        }
    }
}

/// Delays the end of a connection until its session's last messages have their numbers, where the
/// account's stream gives the numbers.
fn hold_ending<S: Store>(
    now: Nanos,
    session: &mut Session<S>,
    index: usize,
    held: &mut Option<Held>,
    ending: Ending,
) -> Option<Ending> {
    if session.outbound().waiting() == 0 {
        return Some(ending);
    }
    session.claim(true);
    *held = Some(Held::Ending(index, ending, now.after(session.config.logout_wait_ns)));
    None
}

/// Index of the session that the first message of a connection names.
fn lookup<S: Store>(sessions: &[Session<S>], message: &Message<'_>) -> Result<usize, Ending> {
    if message.msg_type() != b"A" {
        return Err(Ending::NotLogon);
    }
    let their = message.get(tag::SENDER_COMP_ID.number).ok_or(Ending::UnknownSession)?;
    let own = message.get(tag::TARGET_COMP_ID.number).ok_or(Ending::UnknownSession)?;
    let wanted = |session: &Session<S>| {
        let config = &session.config;
        config.rules.version.begin_string().as_bytes() == message.begin_string()
            && config.their_comp_id.as_bytes() == their
            && config.own_comp_id.as_bytes() == own
    };
    let found = sessions.iter().position(wanted).ok_or(Ending::UnknownSession)?;
    match sessions.get(found) {
        Some(session) if session.is_live() => Err(Ending::AlreadyLoggedOn),
        _ => Ok(found),
    }
}
