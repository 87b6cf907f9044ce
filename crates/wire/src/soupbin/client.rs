//! The client's end of a session, across its connections.
//!
//! One `ClientSession` outlives its connections: it counts sequenced messages, and every
//! [`ClientSession::connect`] asks for the one after the last it got, in the session it got it
//! from. Sequenced messages are therefore reported once each, in order, unless the server answers
//! a login with another number or session than was asked for, which the event shows.

use types::Nanos;

use super::{
    ANY_SESSION, CLIENT_PACKET_MAX, ClientPacket, Framer, HEARTBEAT_NS, LoginRequest, RejectCode,
    SILENCE_NS, SendError, ServerPacket, SessionName, Violation,
};

/// What a client hears from the server, or notices about the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientEvent<'a> {
    /// The server accepted the login; messages follow.
    Accepted {
        /// Name of the session that was joined, padded as the server sent it.
        session: SessionName,
        /// Sequence number of the next sequenced message, from 1.
        seq: u64,
    },
    /// The login was refused: the connection is over, close the stream.
    Rejected(RejectCode),
    /// A message of the stream.
    Sequenced {
        /// Sequence number of the message.
        seq: u64,
        /// Contents of the message, without the packet's header.
        message: &'a [u8],
    },
    /// A message outside the stream.
    Unsequenced(&'a [u8]),
    /// Nothing will follow in this session, on this connection or another; close the stream.
    EndOfSession,
    /// The server broke the protocol: the connection is over, close the stream.
    Violation(Violation),
    /// The server has been silent too long: the connection is over, close the stream.
    Dead,
}

/// User name longer than 6 or password longer than 10 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadCredentials;

impl std::fmt::Display for BadCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("user name of more than 6 or password of more than 10 bytes")
    }
}

impl std::error::Error for BadCredentials {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection, or one that is over.
    Offline,
    AwaitingAnswer,
    Active,
}

/// A client's session; see the module's contract.
#[derive(Clone, Debug)]
pub struct ClientSession {
    state: State,
    framer: Framer,
    username: [u8; 6],
    password: [u8; 10],
    session: SessionName,
    next_seq: u64,
    last_received: Nanos,
    last_sent: Nanos,
}

impl ClientSession {
    /// A session that wants the server's current stream from its first message on.
    pub fn new(username: &str, password: &str) -> Result<ClientSession, BadCredentials> {
        Ok(ClientSession {
            state: State::Offline,
            framer: Framer::new(CLIENT_PACKET_MAX),
            username: padded(username)?,
            password: padded(password)?,
            session: ANY_SESSION,
            next_seq: 1,
            last_received: Nanos(0),
            last_sent: Nanos(0),
        })
    }

    /// Asks, at the next connect, for `session` from message `next_seq` on (0: from now on).
    pub fn resume_from(&mut self, session: SessionName, next_seq: u64) {
        self.session = session;
        self.next_seq = next_seq;
    }

    /// Whether the client is logged in.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Whether no connection is in use; an open stream has then to be closed.
    pub fn is_offline(&self) -> bool {
        self.state == State::Offline
    }

    /// Sequence number of the next sequenced message.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Session that was joined last.
    pub fn session(&self) -> SessionName {
        self.session
    }

    /// Begins a connection on a new stream and appends the login; bytes of an earlier stream are
    /// dropped.
    pub fn connect(&mut self, now: Nanos, out: &mut Vec<u8>) -> Result<(), SendError> {
        self.framer.clear();
        let login = LoginRequest {
            username: self.username,
            password: self.password,
            session: self.session,
            sequence: self.next_seq,
        };
        ClientPacket::Login(login).encode(out)?;
        self.state = State::AwaitingAnswer;
        (self.last_received, self.last_sent) = (now, now);
        Ok(())
    }

    /// The stream was closed; [`ClientSession::connect`] may follow.
    pub fn handle_close(&mut self) {
        self.state = State::Offline;
    }

    /// Takes bytes of the stream, cut anyhow, and reports what they say, in order.
    pub fn handle_bytes(
        &mut self,
        now: Nanos,
        mut bytes: &[u8],
        mut on_event: impl FnMut(ClientEvent<'_>),
    ) {
        while self.state != State::Offline {
            let packet = match self.framer.next(&mut bytes) {
                Ok(Some(frame)) => ServerPacket::parse(frame).map_err(Violation::Packet),
                Ok(None) => return,
                Err(error) => Err(Violation::Frame(error)),
            };
            self.last_received = now;
            let progress = Progress {
                state: &mut self.state,
                session: &mut self.session,
                next_seq: &mut self.next_seq,
            };
            match packet.and_then(|packet| progress.accept(packet)) {
                Ok(Some(event)) => on_event(event),
                Ok(None) => {}
                Err(violation) => {
                    self.state = State::Offline;
                    on_event(ClientEvent::Violation(violation));
                }
            }
        }
    }

    /// Appends an unsequenced message to `out`; an error when not logged in or too long.
    pub fn send_unsequenced(
        &mut self,
        now: Nanos,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        if self.state != State::Active {
            return Err(SendError::NotActive);
        }
        ClientPacket::Unsequenced(message).encode(out)?;
        self.last_sent = now;
        Ok(())
    }

    /// Appends a logout; the connection is over then.
    pub fn logout(&mut self, out: &mut Vec<u8>) -> Result<(), SendError> {
        if self.state == State::Offline {
            return Err(SendError::NotActive);
        }
        self.state = State::Offline;
        ClientPacket::Logout.encode(out)
    }

    /// Sends a heartbeat when one is due; reports a server that is dead.
    pub fn handle_timeout(
        &mut self,
        now: Nanos,
        out: &mut Vec<u8>,
    ) -> Option<ClientEvent<'static>> {
        if self.state == State::Offline {
            return None;
        }
        if now.since(self.last_received) >= SILENCE_NS {
            self.state = State::Offline;
            return Some(ClientEvent::Dead);
        }
        if now.since(self.last_sent) >= HEARTBEAT_NS && ClientPacket::Heartbeat.encode(out).is_ok()
        {
            self.last_sent = now;
        }
        None
    }

    /// When [`ClientSession::handle_timeout`] is next due.
    pub fn next_timeout(&self) -> Nanos {
        match self.state {
            State::Offline => Nanos::NEVER,
            _ => self.last_received.after(SILENCE_NS).min(self.last_sent.after(HEARTBEAT_NS)),
        }
    }
}

/// The fields a packet may change, apart from the framer that may hold its bytes.
struct Progress<'s> {
    state: &'s mut State,
    session: &'s mut SessionName,
    next_seq: &'s mut u64,
}

impl Progress<'_> {
    fn accept<'a>(self, packet: ServerPacket<'a>) -> Result<Option<ClientEvent<'a>>, Violation> {
        let active = *self.state == State::Active;
        Ok(Some(match packet {
            ServerPacket::LoginAccepted { .. } | ServerPacket::LoginRejected(_) if active => {
                return Err(Violation::UnexpectedAnswer);
            }
            ServerPacket::Sequenced(_) | ServerPacket::Unsequenced(_) if !active => {
                return Err(Violation::NotLoggedIn);
            }
            ServerPacket::LoginAccepted { session, sequence } => {
                *self.state = State::Active;
                *self.session = session;
                *self.next_seq = sequence;
                ClientEvent::Accepted { session, seq: sequence }
            }
            ServerPacket::LoginRejected(code) => {
                *self.state = State::Offline;
                ClientEvent::Rejected(code)
            }
            ServerPacket::Sequenced(message) => {
                let seq = *self.next_seq;
                *self.next_seq = seq.checked_add(1).ok_or(Violation::SequenceOverflow)?;
                ClientEvent::Sequenced { seq, message }
            }
            ServerPacket::Unsequenced(message) => ClientEvent::Unsequenced(message),
            ServerPacket::EndOfSession => {
                *self.state = State::Offline;
                ClientEvent::EndOfSession
            }
            ServerPacket::Heartbeat | ServerPacket::Debug(_) => return Ok(None),
        }))
    }
}

fn padded<const N: usize>(text: &str) -> Result<[u8; N], BadCredentials> {
    let mut field = [b' '; N];
    field.get_mut(..text.len()).ok_or(BadCredentials)?.copy_from_slice(text.as_bytes());
    Ok(field)
}
