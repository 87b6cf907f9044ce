//! SoupBinTCP sessions: both ends against each other, their timers, and hostile bytes.

use proptest::prelude::*;
use types::{Nanos, SplitMix64};
use wire::soupbin::{
    ANY_SESSION, ClientEvent, ClientPacket, ClientSession, FrameError, HEARTBEAT_NS, LOGIN_NS,
    LoginRequest, PacketError, RejectCode, SERVER_PACKET_MAX, SILENCE_NS, SendError, ServerEvent,
    ServerPacket, ServerSession, SessionName, Violation,
};

const SESSION: SessionName = *b"FAIRBELL01";
const START: Nanos = Nanos(1_000 * Nanos::SECOND);

fn client() -> ClientSession {
    ClientSession::new("TRDR01", "secret").unwrap()
}

/// What the server reports, as text: events borrow.
fn serve(server: &mut ServerSession, now: Nanos, bytes: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    server.handle_bytes(now, bytes, |event| events.push(format!("{event:?}")));
    events
}

fn take(client: &mut ClientSession, now: Nanos, bytes: &[u8]) -> Vec<String> {
    let mut events = Vec::new();
    client.handle_bytes(now, bytes, |event| events.push(format!("{event:?}")));
    events
}

fn server_says(event: ServerEvent<'_>) -> Vec<String> {
    vec![format!("{event:?}")]
}

fn client_says(event: ClientEvent<'_>) -> Vec<String> {
    vec![format!("{event:?}")]
}

/// Both ends logged in, the next message being number `next_seq`.
fn logged_in(client: &mut ClientSession, next_seq: u64) -> ServerSession {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut server = ServerSession::new(START);
    client.connect(START, &mut up).unwrap();
    assert_eq!(serve(&mut server, START, &up).len(), 1);
    server.accept_login(START, SESSION, next_seq, &mut down).unwrap();
    let accepted = ClientEvent::Accepted { session: SESSION, seq: next_seq };
    assert_eq!(take(client, START, &down), client_says(accepted));
    assert!(server.is_active() && client.is_active());
    server
}

#[test]
fn login_messages_and_reconnect_with_the_next_number() {
    let mut client = client();
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut server = ServerSession::new(START);
    client.connect(START, &mut up).unwrap();
    let login = |session, sequence| ServerEvent::Login {
        username: b"TRDR01",
        password: b"secret",
        session,
        sequence,
    };
    assert_eq!(serve(&mut server, START, &up), server_says(login(b"", 1)));
    server.accept_login(START, SESSION, 1, &mut down).unwrap();
    assert_eq!(server.send_sequenced(START, b"one", &mut down), Ok(1));
    server.send_unsequenced(START, b"aside", &mut down).unwrap();
    assert_eq!(server.send_sequenced(START, b"two", &mut down), Ok(2));
    assert_eq!(server.next_seq(), 3);
    let expected = [
        ClientEvent::Accepted { session: SESSION, seq: 1 },
        ClientEvent::Sequenced { seq: 1, message: b"one" },
        ClientEvent::Unsequenced(b"aside"),
        ClientEvent::Sequenced { seq: 2, message: b"two" },
    ];
    assert_eq!(take(&mut client, START, &down), expected.map(|event| format!("{event:?}")));
    up.clear();
    client.send_unsequenced(START, b"order", &mut up).unwrap();
    assert_eq!(serve(&mut server, START, &up), server_says(ServerEvent::Unsequenced(b"order")));

    // The stream breaks in the middle of a packet; the next one asks for number 3.
    assert!(take(&mut client, START, &[0, 9, b'S']).is_empty());
    client.handle_close();
    assert_eq!(client.send_unsequenced(START, b"x", &mut up), Err(SendError::NotActive));
    let mut server = ServerSession::new(START);
    up.clear();
    client.connect(START, &mut up).unwrap();
    assert_eq!(serve(&mut server, START, &up), server_says(login(&SESSION, 3)));
    down.clear();
    server.accept_login(START, SESSION, 3, &mut down).unwrap();
    server.send_sequenced(START, b"three", &mut down).unwrap();
    take(&mut client, START, &down);
    assert_eq!((client.next_seq(), client.session()), (4, SESSION));
}

#[test]
fn endings() {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut client = client();
    let mut server = logged_in(&mut client, 1);
    server.end_session(START, &mut down).unwrap();
    assert!(server.is_over() && server.next_timeout() == Nanos::NEVER);
    assert_eq!(take(&mut client, START, &down), client_says(ClientEvent::EndOfSession));
    assert!(client.is_offline());
    assert_eq!(server.send_sequenced(START, b"late", &mut down), Err(SendError::NotActive));

    let mut server = logged_in(&mut client, 5);
    client.logout(&mut up).unwrap();
    up.extend_from_slice(b"\0\x02Ux");
    assert_eq!(serve(&mut server, START, &up), server_says(ServerEvent::LogoutRequest));
    assert!(server.is_over() && client.is_offline());

    let mut server = ServerSession::new(START);
    (up, down) = (Vec::new(), Vec::new());
    client.connect(START, &mut up).unwrap();
    serve(&mut server, START, &up);
    server.reject_login(RejectCode::SessionNotAvailable, &mut down).unwrap();
    let rejected = ClientEvent::Rejected(RejectCode::SessionNotAvailable);
    assert_eq!(take(&mut client, START, &down), client_says(rejected));
    assert!(server.is_over() && client.is_offline());
    assert_eq!(
        server.reject_login(RejectCode::NotAuthorized, &mut down),
        Err(SendError::NotActive)
    );
}

#[test]
fn violations_end_a_server_session() {
    let mut login = Vec::new();
    client().connect(START, &mut login).unwrap();
    let too_long = FrameError::TooLong(SERVER_PACKET_MAX as u16 + 1);
    let cases: [(&[u8], Violation); 7] = [
        (b"\0\x02Ux", Violation::NotLoggedIn),
        (b"\0\0", Violation::Frame(FrameError::Empty)),
        (b"\x04\x01", Violation::Frame(too_long)),
        (b"\0\x01Z", Violation::Packet(PacketError::UnknownType(b'Z'))),
        (b"\0\x02R?", Violation::Packet(PacketError::Length { kind: b'R', len: 1 })),
        (b"\0\x02L?", Violation::Packet(PacketError::Length { kind: b'L', len: 1 })),
        (&[login.as_slice(), &login].concat(), Violation::SecondLogin),
    ];
    for (bytes, violation) in cases {
        let mut server = ServerSession::new(START);
        let events = serve(&mut server, START, bytes);
        assert_eq!(events.last(), Some(&format!("{:?}", ServerEvent::Violation(violation))));
        assert!(server.is_over());
        assert!(serve(&mut server, START, &login).is_empty());
        assert_eq!(
            server.accept_login(START, SESSION, 1, &mut Vec::new()),
            Err(SendError::NotActive)
        );
    }
    // Data may not overtake the answer to the login.
    let mut server = ServerSession::new(START);
    login.extend_from_slice(b"\0\x02Ux");
    let events = serve(&mut server, START, &login);
    assert_eq!(events[1], format!("{:?}", ServerEvent::Violation(Violation::NotLoggedIn)));
}

#[test]
fn violations_end_a_clients_connection() {
    let mut accepted = Vec::new();
    let packet = ServerPacket::LoginAccepted { session: SESSION, sequence: u64::MAX };
    packet.encode(&mut accepted).unwrap();
    let twice = [accepted.as_slice(), &accepted].concat();
    let overflow = [accepted.as_slice(), b"\0\x02Sx"].concat();
    let cases: [(&[u8], Violation); 5] = [
        (b"\0\x02Sx", Violation::NotLoggedIn),
        (b"\0\x01L", Violation::Packet(PacketError::UnknownType(b'L'))),
        (b"\0\x02JX", Violation::Packet(PacketError::Reason(b'X'))),
        (&twice, Violation::UnexpectedAnswer),
        (&overflow, Violation::SequenceOverflow),
    ];
    for (bytes, violation) in cases {
        let mut client = client();
        client.connect(START, &mut Vec::new()).unwrap();
        let events = take(&mut client, START, bytes);
        assert_eq!(events.last(), Some(&format!("{:?}", ClientEvent::Violation(violation))));
        assert!(client.is_offline());
        assert!(take(&mut client, START, &accepted).is_empty());
    }
}

#[test]
fn heartbeats_only_when_nothing_else_was_sent() {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut client = client();
    let mut server = logged_in(&mut client, 1);
    let due = START + HEARTBEAT_NS;
    assert_eq!((server.next_timeout(), client.next_timeout()), (due, due));
    let early = Nanos(due.0 - 1);
    assert_eq!(server.handle_timeout(early, &mut down), None);
    assert_eq!(client.handle_timeout(early, &mut up), None);
    assert!(up.is_empty() && down.is_empty());
    server.send_sequenced(early, b"m", &mut down).unwrap();
    client.send_unsequenced(early, b"m", &mut up).unwrap();
    (up, down) = (Vec::new(), Vec::new());
    assert_eq!(server.next_timeout(), early + HEARTBEAT_NS);
    server.handle_timeout(early + HEARTBEAT_NS, &mut down);
    client.handle_timeout(early + HEARTBEAT_NS, &mut up);
    assert_eq!((up.as_slice(), down.as_slice()), (b"\0\x01R".as_slice(), b"\0\x01H".as_slice()));
    assert!(serve(&mut server, due, &up).is_empty() && take(&mut client, due, &down).is_empty());
}

#[test]
fn silence_and_slow_logins_are_given_up() {
    let mut client = client();
    let mut server = logged_in(&mut client, 1);
    // Half a packet is no sign of life.
    let later = START + (SILENCE_NS - 1);
    serve(&mut server, later, b"\0");
    assert_eq!(server.handle_timeout(later, &mut Vec::new()), None);
    let at = START + SILENCE_NS;
    assert_eq!(server.handle_timeout(at, &mut Vec::new()), Some(ServerEvent::Dead));
    assert_eq!(client.handle_timeout(at, &mut Vec::new()), Some(ClientEvent::Dead));
    assert!(server.is_over() && client.is_offline());
    assert_eq!(server.handle_timeout(at, &mut Vec::new()), None);

    let mut server = ServerSession::new(START);
    assert_eq!(server.next_timeout(), START + LOGIN_NS);
    serve(&mut server, START + LOGIN_NS / 2, b"\0\x01R");
    assert_eq!(server.next_timeout(), START + LOGIN_NS, "heartbeats do not buy time");
    let gone = server.handle_timeout(START + LOGIN_NS, &mut Vec::new());
    assert_eq!(gone, Some(ServerEvent::Violation(Violation::LoginTimeout)));
}

#[test]
fn credentials_have_their_widths() {
    assert!(ClientSession::new("SEVENCH", "x").is_err());
    assert!(ClientSession::new("SIXCHR", "elevenchars").is_err());
    let mut client = ClientSession::new("", "tencharact").unwrap();
    client.resume_from(ANY_SESSION, 0);
    let mut out = Vec::new();
    client.connect(START, &mut out).unwrap();
    let login = LoginRequest {
        username: *b"      ",
        password: *b"tencharact",
        session: ANY_SESSION,
        sequence: 0,
    };
    assert_eq!(ClientPacket::parse(&out[2..]), Ok(ClientPacket::Login(login)));
}

proptest! {
    /// Connections break anywhere, any number of times: the client still gets every message once,
    /// in order.
    #[test]
    fn every_message_once_across_broken_connections(seed: u64) {
        let mut rng = SplitMix64::new(seed);
        let stream: Vec<Vec<u8>> =
            (0..40u64).map(|n| vec![n as u8; 1 + rng.below(20) as usize]).collect();
        let (mut client, mut got, mut now) = (client(), Vec::new(), START);
        while got.len() < stream.len() {
            now = now + rng.below(Nanos::SECOND);
            let (mut up, mut down) = (Vec::new(), Vec::new());
            let mut server = ServerSession::new(now);
            client.connect(now, &mut up).unwrap();
            let mut from = 0;
            for byte in up.chunks(1 + rng.below(50) as usize) {
                server.handle_bytes(now, byte, |event| {
                    if let ServerEvent::Login { sequence, .. } = event {
                        from = sequence;
                    }
                });
            }
            server.accept_login(now, SESSION, from, &mut down).unwrap();
            for message in &stream[from as usize - 1..] {
                server.send_sequenced(now, message, &mut down).unwrap();
            }
            down.truncate(rng.below(down.len() as u64 + 1) as usize);
            for piece in down.chunks(1 + rng.below(9) as usize) {
                client.handle_bytes(now, piece, |event| {
                    if let ClientEvent::Sequenced { seq, message } = event {
                        assert_eq!(seq, got.len() as u64 + 1);
                        got.push(message.to_vec());
                    }
                });
            }
            client.handle_close();
        }
        prop_assert_eq!(got, stream);
    }

    #[test]
    fn arbitrary_bytes_and_timers_never_panic(
        steps in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..40), 0..20 * Nanos::SECOND), 0..20,
        ),
        kinds in prop::collection::vec(prop::sample::select(b"+AJSUHZLRO".to_vec()), 20),
    ) {
        let (mut client, mut server, mut now) = (client(), ServerSession::new(START), START);
        let mut out = Vec::new();
        client.connect(now, &mut out).unwrap();
        server.handle_bytes(now, &out, |_| ());
        server.accept_login(now, SESSION, 1, &mut out).unwrap();
        for ((bytes, wait), kind) in steps.into_iter().zip(kinds) {
            let framed = [&[0, bytes.len() as u8 + 1, kind], bytes.as_slice()].concat();
            for piece in [framed.as_slice(), &bytes] {
                server.handle_bytes(now, piece, |_| ());
                client.handle_bytes(now, piece, |_| ());
            }
            now = now + wait;
            let _ = (server.handle_timeout(now, &mut out), client.handle_timeout(now, &mut out));
            prop_assert!(server.next_timeout() > now && client.next_timeout() > now);
        }
    }
}
