//! The server's end of one connection.
//!
//! States: waiting for the login, waiting for the caller's answer to it, active, over. The caller
//! answers a [`ServerEvent::Login`] with [`ServerSession::accept_login`] or
//! [`ServerSession::reject_login`], at once or later; a client that sends data before it was
//! answered breaks the protocol. Every method takes the caller's clock reading, which never runs
//! backwards, and appends what is to be written to `out`.

use types::Nanos;

use super::packet::trimmed;
use super::{
    ClientPacket, Framer, HEARTBEAT_NS, LOGIN_NS, RejectCode, SERVER_PACKET_MAX, SILENCE_NS,
    SendError, ServerPacket, SessionName, Violation,
};

/// What a server hears from a client, or notices about the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEvent<'a> {
    /// The client asks to log in and waits for the answer. Texts are without padding and may hold
    /// any bytes.
    Login {
        /// User name, 0 to 6 bytes.
        username: &'a [u8],
        /// Password, 0 to 10 bytes.
        password: &'a [u8],
        /// Session wanted, 0 to 10 bytes; empty for the current one.
        session: &'a [u8],
        /// First message wanted; 0 for what comes from now on.
        sequence: u64,
    },
    /// A message of the client, without the packet's header.
    Unsequenced(&'a [u8]),
    /// A logout: the session is over, close the connection.
    LogoutRequest,
    /// A violation of the protocol: the session is over, close the connection.
    Violation(Violation),
    /// The client has been silent too long: the session is over, close the stream.
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    AwaitingLogin,
    AwaitingAnswer,
    Active,
    Over,
}

/// One connection of one client; see the module's contract.
#[derive(Clone, Debug)]
pub struct ServerSession {
    state: State,
    framer: Framer,
    login_by: Nanos,
    last_received: Nanos,
    last_sent: Nanos,
    next_seq: u64,
}

impl ServerSession {
    /// A connection accepted at `now`.
    pub fn new(now: Nanos) -> ServerSession {
        ServerSession {
            state: State::AwaitingLogin,
            framer: Framer::new(SERVER_PACKET_MAX),
            login_by: now.after(LOGIN_NS),
            last_received: now,
            last_sent: now,
            next_seq: 0,
        }
    }

    /// Whether the client is logged in and the session is not over.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Whether the session is over and the connection is to be closed.
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// The number the next sequenced message will have; meaningless before the login.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Takes bytes of the stream, cut anyhow, and reports what they say, in order.
    pub fn handle_bytes(
        &mut self,
        now: Nanos,
        mut bytes: &[u8],
        mut on_event: impl FnMut(ServerEvent<'_>),
    ) {
        while self.state != State::Over {
            let packet = match self.framer.next(&mut bytes) {
                Ok(Some(frame)) => ClientPacket::parse(frame).map_err(Violation::Packet),
                Ok(None) => return,
                Err(error) => Err(Violation::Frame(error)),
            };
            self.last_received = now;
            match packet.and_then(|packet| accept(&mut self.state, packet)) {
                Ok(Some(Accepted::Login(login))) => on_event(ServerEvent::Login {
                    username: trimmed(&login.username),
                    password: trimmed(&login.password),
                    session: trimmed(&login.session),
                    sequence: login.sequence,
                }),
                Ok(Some(Accepted::Message(message))) => on_event(ServerEvent::Unsequenced(message)),
                Ok(Some(Accepted::Logout)) => on_event(ServerEvent::LogoutRequest),
                Ok(None) => {}
                Err(violation) => {
                    self.state = State::Over;
                    on_event(ServerEvent::Violation(violation));
                }
            }
        }
    }

    /// Lets the client in: the next sequenced message will be number `next_seq` of `session`.
    pub fn accept_login(
        &mut self,
        now: Nanos,
        session: SessionName,
        next_seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        if self.state != State::AwaitingAnswer {
            return Err(SendError::NotActive);
        }
        ServerPacket::LoginAccepted { session, sequence: next_seq }.encode(out)?;
        self.state = State::Active;
        self.next_seq = next_seq;
        self.last_sent = now;
        self.last_received = now;
        Ok(())
    }

    /// Turns the client away; the session is over.
    pub fn reject_login(&mut self, code: RejectCode, out: &mut Vec<u8>) -> Result<(), SendError> {
        if self.state != State::AwaitingAnswer {
            return Err(SendError::NotActive);
        }
        self.state = State::Over;
        ServerPacket::LoginRejected(code).encode(out)
    }

    /// Sends the next message of the stream and returns its number.
    pub fn send_sequenced(
        &mut self,
        now: Nanos,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, SendError> {
        self.send(now, ServerPacket::Sequenced(message), out)?;
        let seq = self.next_seq;
        // 2^64 messages are out of reach.
        self.next_seq = seq.saturating_add(1);
        Ok(seq)
    }

    /// Sends a message outside the stream.
    pub fn send_unsequenced(
        &mut self,
        now: Nanos,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.send(now, ServerPacket::Unsequenced(message), out)
    }

    /// Says that nothing will follow in this session; it is over.
    pub fn end_session(&mut self, now: Nanos, out: &mut Vec<u8>) -> Result<(), SendError> {
        self.send(now, ServerPacket::EndOfSession, out)?;
        self.state = State::Over;
        Ok(())
    }

    /// Restarts the measurement of the client's silence at `now`: the caller is not reading its
    /// bytes at present.
    pub fn excuse_silence(&mut self, now: Nanos) {
        self.last_received = now;
    }

    /// Sends a heartbeat when one is due; reports a client that did not log in in time or is dead.
    pub fn handle_timeout(
        &mut self,
        now: Nanos,
        out: &mut Vec<u8>,
    ) -> Option<ServerEvent<'static>> {
        let ended = match self.state {
            State::Over => return None,
            State::AwaitingLogin if now >= self.login_by => {
                Some(ServerEvent::Violation(Violation::LoginTimeout))
            }
            _ if now.since(self.last_received) >= SILENCE_NS => Some(ServerEvent::Dead),
            _ => None,
        };
        if ended.is_some() {
            self.state = State::Over;
        } else if self.is_active() && now.since(self.last_sent) >= HEARTBEAT_NS {
            // Cannot fail: the session is active and the packet short.
            let _ = self.send(now, ServerPacket::Heartbeat, out);
        }
        ended
    }

    /// When [`ServerSession::handle_timeout`] is next due.
    pub fn next_timeout(&self) -> Nanos {
        let silence = self.last_received.after(SILENCE_NS);
        match self.state {
            State::Over => Nanos::NEVER,
            State::AwaitingLogin => silence.min(self.login_by),
            State::AwaitingAnswer => silence,
            State::Active => silence.min(self.last_sent.after(HEARTBEAT_NS)),
        }
    }

    fn send(
        &mut self,
        now: Nanos,
        packet: ServerPacket<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        if self.state != State::Active {
            return Err(SendError::NotActive);
        }
        packet.encode(out)?;
        self.last_sent = now;
        Ok(())
    }
}

/// The content of a packet that is still to be reported once the session's state has changed.
enum Accepted<'a> {
    Login(super::LoginRequest),
    Message(&'a [u8]),
    Logout,
}

/// Checks a packet against the state. Not a method, because the packet may lie in the session's own
/// framer.
fn accept<'a>(
    state: &mut State,
    packet: ClientPacket<'a>,
) -> Result<Option<Accepted<'a>>, Violation> {
    match (packet, *state) {
        (ClientPacket::Login(login), State::AwaitingLogin) => {
            *state = State::AwaitingAnswer;
            Ok(Some(Accepted::Login(login)))
        }
        (ClientPacket::Login(_), _) => Err(Violation::SecondLogin),
        (ClientPacket::Unsequenced(message), State::Active) => Ok(Some(Accepted::Message(message))),
        (ClientPacket::Unsequenced(_), _) => Err(Violation::NotLoggedIn),
        (ClientPacket::Logout, _) => {
            *state = State::Over;
            Ok(Some(Accepted::Logout))
        }
        (ClientPacket::Heartbeat | ClientPacket::Debug(_), _) => Ok(None),
    }
}
