//! The packets of both sides, typed, with their bytes.

use super::{CLIENT_PACKET_MAX, SendError, SessionName};

/// Why a frame is not a packet of the side it came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketError {
    /// The packet has no bytes, so no type.
    Empty,
    /// That side sends no packets of this type.
    UnknownType(u8),
    /// The wrong number of bytes for the type.
    Length {
        /// Type byte of the packet.
        kind: u8,
        /// Number of bytes behind the type.
        len: usize,
    },
    /// A sequence number is not a decimal number of 64 bits.
    Sequence,
    /// A login reject has no known reason.
    Reason(u8),
}

impl std::fmt::Display for PacketError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            PacketError::Empty => f.write_str("empty SoupBinTCP packet"),
            PacketError::UnknownType(kind) => write!(f, "unknown SoupBinTCP type {kind:#04x}"),
            PacketError::Length { kind, len } => {
                write!(f, "SoupBinTCP '{}' with {len} bytes", kind.escape_ascii())
            }
            PacketError::Sequence => f.write_str("SoupBinTCP sequence number is not a number"),
            PacketError::Reason(code) => write!(f, "unknown login reject reason {code:#04x}"),
        }
    }
}

/// Why a login was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RejectCode {
    /// Wrong user name or password.
    NotAuthorized = b'A',
    /// The requested session is not served here, or not now.
    SessionNotAvailable = b'S',
}

/// Login: user, password, session and the next sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginRequest {
    /// User name, padded with spaces on the right.
    pub username: [u8; 6],
    /// Password, padded with spaces on the right.
    pub password: [u8; 10],
    /// Session wanted; all spaces for the current one.
    pub session: SessionName,
    /// First message wanted; 0 for what comes from now on.
    pub sequence: u64,
}

/// A packet from client to server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientPacket<'a> {
    /// `+`: text for people, to be ignored by programs.
    Debug(&'a [u8]),
    /// `L`: the first packet of a client.
    Login(LoginRequest),
    /// `U`: a message to the server, lost when the connection is.
    Unsequenced(&'a [u8]),
    /// `R`: heartbeat of the client.
    Heartbeat,
    /// `O`: the client ends the session.
    Logout,
}

/// A packet from server to client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerPacket<'a> {
    /// `+`: text for people, to be ignored by programs.
    Debug(&'a [u8]),
    /// `A`: logged in; `sequence` is the number of the next sequenced packet.
    LoginAccepted {
        /// Name of the session that was joined.
        session: SessionName,
        /// Number of the next sequenced packet, from 1.
        sequence: u64,
    },
    /// `J`: refused; the connection will be closed.
    LoginRejected(RejectCode),
    /// `S`: a message of the stream; its number is not in it but counted.
    Sequenced(&'a [u8]),
    /// `U`: a message outside the stream, lost when the connection is.
    Unsequenced(&'a [u8]),
    /// `H`: heartbeat of the server.
    Heartbeat,
    /// `Z`: nothing will follow in this session, ever.
    EndOfSession,
}

impl<'a> ClientPacket<'a> {
    /// Reads one frame of [`super::Framer::next`] as a packet of a client.
    pub fn parse(frame: &'a [u8]) -> Result<ClientPacket<'a>, PacketError> {
        let (&kind, body) = frame.split_first().ok_or(PacketError::Empty)?;
        match kind {
            b'+' => Ok(ClientPacket::Debug(body)),
            b'L' => login(kind, body).map(ClientPacket::Login),
            b'U' => Ok(ClientPacket::Unsequenced(body)),
            b'R' => no_body(kind, body, ClientPacket::Heartbeat),
            b'O' => no_body(kind, body, ClientPacket::Logout),
            _ => Err(PacketError::UnknownType(kind)),
        }
    }

    /// Appends the packet with its length.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), SendError> {
        match self {
            ClientPacket::Debug(text) => put(b'+', &[text], out),
            ClientPacket::Login(login) => {
                let LoginRequest { username, password, session, sequence } = login;
                put(b'L', &[username, password, session, &decimal(*sequence)], out)
            }
            ClientPacket::Unsequenced(message) => put(b'U', &[message], out),
            ClientPacket::Heartbeat => put(b'R', &[], out),
            ClientPacket::Logout => put(b'O', &[], out),
        }
    }
}

impl<'a> ServerPacket<'a> {
    /// Reads one frame of [`super::Framer::next`] as a packet of a server.
    pub fn parse(frame: &'a [u8]) -> Result<ServerPacket<'a>, PacketError> {
        let (&kind, body) = frame.split_first().ok_or(PacketError::Empty)?;
        match kind {
            b'+' => Ok(ServerPacket::Debug(body)),
            b'A' => {
                let wrong = PacketError::Length { kind, len: body.len() };
                let (&session, number) = body.split_first_chunk().ok_or(wrong)?;
                let number: &[u8; 20] = number.try_into().map_err(|_| wrong)?;
                Ok(ServerPacket::LoginAccepted { session, sequence: parse_decimal(number)? })
            }
            b'J' => match *body {
                [b'A'] => Ok(ServerPacket::LoginRejected(RejectCode::NotAuthorized)),
                [b'S'] => Ok(ServerPacket::LoginRejected(RejectCode::SessionNotAvailable)),
                [code] => Err(PacketError::Reason(code)),
                _ => Err(PacketError::Length { kind, len: body.len() }),
            },
            b'S' => Ok(ServerPacket::Sequenced(body)),
            b'U' => Ok(ServerPacket::Unsequenced(body)),
            b'H' => no_body(kind, body, ServerPacket::Heartbeat),
            b'Z' => no_body(kind, body, ServerPacket::EndOfSession),
            _ => Err(PacketError::UnknownType(kind)),
        }
    }

    /// Appends the packet with its length.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), SendError> {
        match self {
            ServerPacket::Debug(text) => put(b'+', &[text], out),
            ServerPacket::LoginAccepted { session, sequence } => {
                put(b'A', &[session, &decimal(*sequence)], out)
            }
            ServerPacket::LoginRejected(code) => put(b'J', &[&[*code as u8]], out),
            ServerPacket::Sequenced(message) => put(b'S', &[message], out),
            ServerPacket::Unsequenced(message) => put(b'U', &[message], out),
            ServerPacket::Heartbeat => put(b'H', &[], out),
            ServerPacket::EndOfSession => put(b'Z', &[], out),
        }
    }
}

/// Text without the spaces around it.
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| byte != b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or(&[])
}

fn no_body<T>(kind: u8, body: &[u8], packet: T) -> Result<T, PacketError> {
    if body.is_empty() { Ok(packet) } else { Err(PacketError::Length { kind, len: body.len() }) }
}

fn login(kind: u8, body: &[u8]) -> Result<LoginRequest, PacketError> {
    /// Digits of the heartbeat timeout that some versions append.
    const TIMEOUT_LEN: usize = 5;
    let wrong = PacketError::Length { kind, len: body.len() };
    let (&username, rest) = body.split_first_chunk().ok_or(wrong)?;
    let (&password, rest) = rest.split_first_chunk().ok_or(wrong)?;
    let (&session, rest) = rest.split_first_chunk().ok_or(wrong)?;
    let (sequence, rest) = rest.split_first_chunk().ok_or(wrong)?;
    if !rest.is_empty() && rest.len() != TIMEOUT_LEN {
        return Err(wrong);
    }
    Ok(LoginRequest { username, password, session, sequence: parse_decimal(sequence)? })
}

/// A number as 20 digits, padded with spaces on the left.
fn decimal(mut number: u64) -> [u8; 20] {
    let mut digits = [b' '; 20];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits
}

/// Reads a number padded with spaces; also on the right, as some clients send it.
fn parse_decimal(digits: &[u8; 20]) -> Result<u64, PacketError> {
    let digits = trimmed(digits);
    if digits.is_empty() {
        return Err(PacketError::Sequence);
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&d| d < 10).ok_or(PacketError::Sequence)?;
        let shifted = number.checked_mul(10).ok_or(PacketError::Sequence)?;
        shifted.checked_add(u64::from(digit)).ok_or(PacketError::Sequence)
    })
}

fn put(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<(), SendError> {
    let len = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let len = u16::try_from(len).map_err(|_| SendError::TooLong)?;
    const _: () = assert!(CLIENT_PACKET_MAX == u16::MAX as usize);
    out.extend_from_slice(&len.to_be_bytes());
    out.push(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOGIN: LoginRequest = LoginRequest {
        username: *b"TRDR01",
        password: *b"secret    ",
        session: *b"FAIRBELL01",
        sequence: 42,
    };

    #[test]
    fn golden_bytes_of_every_packet() {
        let accepted = ServerPacket::LoginAccepted { session: LOGIN.session, sequence: u64::MAX };
        let server: [(ServerPacket, &[u8]); 8] = [
            (ServerPacket::Debug(b"hi"), b"\0\x03+hi"),
            (accepted, b"\0\x1fAFAIRBELL0118446744073709551615"),
            (ServerPacket::LoginRejected(RejectCode::NotAuthorized), b"\0\x02JA"),
            (ServerPacket::LoginRejected(RejectCode::SessionNotAvailable), b"\0\x02JS"),
            (ServerPacket::Sequenced(b"m"), b"\0\x02Sm"),
            (ServerPacket::Unsequenced(b""), b"\0\x01U"),
            (ServerPacket::Heartbeat, b"\0\x01H"),
            (ServerPacket::EndOfSession, b"\0\x01Z"),
        ];
        for (packet, golden) in server {
            let mut out = Vec::new();
            packet.encode(&mut out).unwrap();
            assert_eq!(out, golden);
            assert_eq!(ServerPacket::parse(&golden[2..]), Ok(packet));
        }
        let client: [(ClientPacket, &[u8]); 5] = [
            (ClientPacket::Debug(b"hi"), b"\0\x03+hi"),
            (ClientPacket::Login(LOGIN), b"\0\x2fLTRDR01secret    FAIRBELL01                  42"),
            (ClientPacket::Unsequenced(b"m"), b"\0\x02Um"),
            (ClientPacket::Heartbeat, b"\0\x01R"),
            (ClientPacket::Logout, b"\0\x01O"),
        ];
        for (packet, golden) in client {
            let mut out = Vec::new();
            packet.encode(&mut out).unwrap();
            assert_eq!(out, golden);
            assert_eq!(ClientPacket::parse(&golden[2..]), Ok(packet));
        }
    }

    #[test]
    fn login_numbers_are_read_with_care() {
        let read = |number: &[u8; 20], tail: &[u8]| {
            let mut body = b"LTRDR01secret    FAIRBELL01".to_vec();
            body.extend_from_slice(number);
            body.extend_from_slice(tail);
            ClientPacket::parse(&body).map(|packet| match packet {
                ClientPacket::Login(login) => login.sequence,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(read(b"                   0", b""), Ok(0));
        assert_eq!(read(b"7                   ", b"15000"), Ok(7));
        assert_eq!(read(b"00000000000000000007", b""), Ok(7));
        assert_eq!(read(b"                    ", b""), Err(PacketError::Sequence));
        assert_eq!(read(b"18446744073709551616", b""), Err(PacketError::Sequence));
        assert_eq!(read(b"                  -1", b""), Err(PacketError::Sequence));
        assert_eq!(read(b"                 1 1", b""), Err(PacketError::Sequence));
        let wrong = PacketError::Length { kind: b'L', len: 47 };
        assert_eq!(read(b"                   0", b"1"), Err(wrong));
    }

    #[test]
    fn a_message_too_long_appends_nothing() {
        let mut out = Vec::new();
        let message = vec![0; CLIENT_PACKET_MAX];
        assert_eq!(ServerPacket::Sequenced(&message).encode(&mut out), Err(SendError::TooLong));
        assert!(out.is_empty());
        assert_eq!(ServerPacket::Sequenced(&message[1..]).encode(&mut out), Ok(()));
    }

    proptest! {
        #[test]
        fn logins_round_trip(
            username: [u8; 6], password: [u8; 10], session: [u8; 10], sequence: u64,
        ) {
            let login = LoginRequest { username, password, session, sequence };
            let mut out = Vec::new();
            ClientPacket::Login(login).encode(&mut out).unwrap();
            prop_assert_eq!(ClientPacket::parse(&out[2..]), Ok(ClientPacket::Login(login)));
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_parsed_ones_reencode(
            kind in prop::sample::select(b"+AJSUHZLRO?".to_vec()),
            body in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let frame = [&[kind], body.as_slice()].concat();
            let mut out = Vec::new();
            if let Ok(packet) = ServerPacket::parse(&frame) {
                packet.encode(&mut out).unwrap();
                prop_assert_eq!(ServerPacket::parse(&out[2..]), Ok(packet));
                out.clear();
            }
            if let Ok(packet) = ClientPacket::parse(&frame) {
                packet.encode(&mut out).unwrap();
                prop_assert_eq!(ClientPacket::parse(&out[2..]), Ok(packet));
            }
        }
    }
}
