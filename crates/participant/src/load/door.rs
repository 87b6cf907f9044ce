//! The two protocols behind one face.

use types::{Instrument, Nanos};

use super::Version;
use super::fix::FixDoor;
use super::ouch::OuchDoor;
use super::requests::{Answer, Request};

/// Which door, and what it wants to know of a client besides its credentials.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// OUCH 5.0 over SoupBinTCP.
    Ouch,
    /// FIX.
    Fix {
        /// Version.
        version: Version,
        /// Our SenderCompID(49).
        sender: String,
        /// Our TargetCompID(56).
        target: String,
    },
}

/// Login of one client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// Protocol.
    pub protocol: Protocol,
    /// User name; may be empty for FIX.
    pub username: String,
    /// Password; may be empty for FIX.
    pub password: String,
}

/// Message of the exchange, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    LoggedIn,
    /// The login is refused.
    Refused {
        /// Whether another attempt would be refused, too.
        is_final: bool,
    },
    Answer {
        order: u32,
        answer: Answer,
    },
    Executed {
        order: u32,
        lots: u64,
    },
    /// An order of before this run has this number.
    Before {
        order: u32,
    },
    /// Something that belongs to no request.
    Stray,
    /// The connection has ended.
    Over,
}

/// One client's session.
#[derive(Debug)]
pub(super) enum Door {
    Ouch(Box<OuchDoor>),
    Fix(Box<FixDoor>),
}

impl Door {
    /// `None`: the credentials do not fit the protocol.
    pub fn new(login: &Login, instrument: &Instrument, run: &str) -> Option<Door> {
        Some(match &login.protocol {
            Protocol::Ouch => Door::Ouch(Box::new(OuchDoor::new(login, instrument)?)),
            Protocol::Fix { version, sender, target } => {
                let names = (sender.as_str(), target.as_str());
                Door::Fix(Box::new(FixDoor::new(*version, names, login, instrument, run)))
            }
        })
    }

    /// The stream is open: the login.
    pub fn connect(&mut self, now: Nanos, out: &mut Vec<u8>) {
        match self {
            Door::Ouch(door) => door.connect(now, out),
            Door::Fix(door) => door.connect(now, out),
        }
    }

    /// Why the last login was refused, as the other side said.
    pub fn refusal(&self) -> &str {
        match self {
            Door::Ouch(door) => door.refusal(),
            Door::Fix(door) => door.refusal(),
        }
    }

    /// Sends a logout.
    pub fn logout(&mut self, now: Nanos, out: &mut Vec<u8>) {
        match self {
            Door::Ouch(door) => door.logout(out),
            Door::Fix(door) => door.logout(now, out),
        }
    }

    pub fn handle_close(&mut self) {
        match self {
            Door::Ouch(door) => door.handle_close(),
            Door::Fix(door) => door.handle_close(),
        }
    }

    /// Takes bytes of the stream; what has to be said at once is appended to `out`.
    pub fn handle_bytes(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        out: &mut Vec<u8>,
        on: impl FnMut(Heard),
    ) {
        match self {
            Door::Ouch(door) => door.handle_bytes(now, bytes, on),
            Door::Fix(door) => door.handle_bytes(now, bytes, out, on),
        }
    }

    /// False: the request has no wire format, or there is no session.
    pub fn send(&mut self, now: Nanos, request: &Request, again: bool, out: &mut Vec<u8>) -> bool {
        match self {
            Door::Ouch(door) => door.send(now, request, out),
            Door::Fix(door) => door.send(now, request, again, out),
        }
    }

    /// Heartbeats; false: the other side has fallen silent.
    pub fn handle_timeout(&mut self, now: Nanos, out: &mut Vec<u8>) -> bool {
        match self {
            Door::Ouch(door) => door.handle_timeout(now, out),
            Door::Fix(door) => door.handle_timeout(now, out),
        }
    }

    pub fn next_timeout(&self) -> Nanos {
        match self {
            Door::Ouch(door) => door.next_timeout(),
            Door::Fix(door) => door.next_timeout(),
        }
    }
}
