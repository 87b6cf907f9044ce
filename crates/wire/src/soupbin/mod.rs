//! SoupBinTCP 4.1: a sequenced stream of messages from server to client, unsequenced ones back,
//! over TCP. Sans-I/O: bytes and timers in, bytes appended to a caller's buffer out.
//!
//! [`Framer`] cuts a byte stream into packets, never longer than its bound; [`ServerPacket`] and
//! [`ClientPacket`] are the packets; [`ServerSession`] and [`ClientSession`] the two ends.
//!
//! The server owns no messages: the exchange's log does. Its session numbers them as they are
//! sent, from the number it was told when the login was accepted, so that sequence number n is
//! position n of the account's stream. A client that reconnects asks for the next number it
//! expects; 0 asks for what comes from now on.
//!
//! Both ends say something at least every [`HEARTBEAT_NS`] and give the other up after
//! [`SILENCE_NS`] without a whole packet. A server also gives up a client that has not logged in
//! [`LOGIN_NS`] after it connected. Errors and logouts end a session: whatever follows is ignored
//! and the caller closes the stream once its pending bytes are written.
//!
//! The login request is taken with or without the five-digit heartbeat timeout that some versions
//! append; its value is not used, since our heartbeats are at least as frequent as any it allows.

mod client;
mod framer;
mod packet;
mod server;

pub use client::{BadCredentials, ClientEvent, ClientSession};
pub use framer::{FrameError, Framer};
pub use packet::{ClientPacket, LoginRequest, PacketError, RejectCode, ServerPacket};
pub use server::{ServerEvent, ServerSession};

use types::Nanos;

/// Longest silence of one's own before a heartbeat, in nanoseconds.
pub const HEARTBEAT_NS: u64 = Nanos::SECOND;
/// Silence of the other side after which it counts as dead, in nanoseconds.
pub const SILENCE_NS: u64 = 15 * Nanos::SECOND;
/// Time a client has to log in, in nanoseconds.
pub const LOGIN_NS: u64 = 15 * Nanos::SECOND;
/// Longest packet a server takes, type byte included: all of OUCH 5.0 fits several times.
pub const SERVER_PACKET_MAX: usize = 1_024;
/// Longest packet a client takes: all that a two-byte length can say.
pub const CLIENT_PACKET_MAX: usize = 65_535;

const _: () = assert!(HEARTBEAT_NS * 2 < SILENCE_NS, "one lost second must not end a session");

/// The name of a session, ASCII padded with spaces; all spaces asks for the current one.
pub type SessionName = [u8; 10];

/// Any session: the name of ten spaces.
pub const ANY_SESSION: SessionName = [b' '; 10];

/// Violation of the protocol by the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// The bytes cannot be cut into packets.
    Frame(FrameError),
    /// A frame is not a packet that this side may send.
    Packet(PacketError),
    /// A message was sent before the login was accepted.
    NotLoggedIn,
    /// A second login on the same connection.
    SecondLogin,
    /// No login within [`LOGIN_NS`] of the connection.
    LoginTimeout,
    /// The server answered a login that the client had not sent.
    UnexpectedAnswer,
    /// The sequence number cannot grow further.
    SequenceOverflow,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Violation::Frame(error) => error.fmt(f),
            Violation::Packet(error) => error.fmt(f),
            Violation::NotLoggedIn => f.write_str("data before login"),
            Violation::SecondLogin => f.write_str("second login on one connection"),
            Violation::LoginTimeout => f.write_str("no login in time"),
            Violation::UnexpectedAnswer => f.write_str("login answered twice"),
            Violation::SequenceOverflow => f.write_str("sequence number overflows"),
        }
    }
}

/// Why a message was not sent; nothing was appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// The session is not logged in, or over.
    NotActive,
    /// The message does not fit a packet.
    TooLong,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SendError::NotActive => "SoupBinTCP session is not logged in",
            SendError::TooLong => "message does not fit a SoupBinTCP packet",
        })
    }
}

impl std::error::Error for SendError {}
