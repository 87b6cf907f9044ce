//! Dialogues with a SoupBinTCP server session, against a model of what it has to say.

use types::Nanos;
use wire::soupbin::{
    RejectCode, SERVER_PACKET_MAX, SILENCE_NS, ServerEvent, ServerPacket, ServerSession, Violation,
};

use super::{ROUNDS, faults::*, ouch_messages};

/// What a session reports, without what it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Login(u64),
    Message(usize),
    Logout,
    Violation,
    Dead,
}

fn said(event: &ServerEvent<'_>) -> Said {
    match event {
        ServerEvent::Login { sequence, .. } => Said::Login(*sequence),
        ServerEvent::Unsequenced(message) => Said::Message(message.len()),
        ServerEvent::LogoutRequest => Said::Logout,
        ServerEvent::Violation(_) => Said::Violation,
        ServerEvent::Dead => Said::Dead,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Login,
    Answer,
    Active,
    Over,
}

/// The number in a login's last field, or none.
fn sequence(login: &[u8]) -> Option<u64> {
    number(login.get(26..46)?)
}

/// A number with spaces around it.
pub fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches(' ');
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// What the specification has a server say to one packet (type and body), and whether the packet
/// itself is in order.
fn expect(state: &mut State, packet: &[u8]) -> (Option<Said>, bool) {
    let body = packet.get(1..).unwrap_or(&[]);
    let (said, fine) = match (packet.first(), *state) {
        (_, State::Over) => return (None, false),
        (Some(b'+'), _) => (None, true),
        (Some(b'R'), _) if body.is_empty() => (None, true),
        (Some(b'O'), _) if body.is_empty() => (Some(Said::Logout), true),
        (Some(b'U'), State::Active) => (Some(Said::Message(body.len())), true),
        (Some(b'U'), _) => (Some(Said::Violation), true),
        (Some(b'L'), state) if matches!(body.len(), 46 | 51) => match sequence(body) {
            Some(number) if state == State::Login => (Some(Said::Login(number)), true),
            Some(_) => (Some(Said::Violation), true),
            None => (Some(Said::Violation), false),
        },
        _ => (Some(Said::Violation), false),
    };
    match said {
        Some(Said::Login(_)) => *state = State::Answer,
        Some(Said::Logout | Said::Violation | Said::Dead) => *state = State::Over,
        Some(Said::Message(_)) | None => {}
    }
    (said, fine)
}

fn packet(state: State, faults: &mut Faults) -> Vec<u8> {
    let mut bytes = match faults.below(if state == State::Active { 16 } else { 4 }) {
        0 if faults.chance(3) => b"O".to_vec(),
        0 | 1 => b"R".to_vec(),
        2 => b"+a word".to_vec(),
        3 if state != State::Active || faults.chance(10) => {
            let number = faults.pick(&["1", "0", "77", "", "18446744073709551615"]);
            let mut login = format!("LGUEST welcome   {:10}{number:>20}", "").into_bytes();
            if faults.chance(4) {
                login.extend(b"15000");
            }
            login
        }
        _ => [b"U".to_vec(), ouch_messages::message(ouch_messages::INBOUND, faults)].concat(),
    };
    if faults.chance(12) {
        faults.spoil(&mut bytes);
    }
    if faults.chance(30) {
        faults.spoil_length(&mut bytes);
    }
    if faults.chance(100) {
        bytes.resize(faults.pick(&[SERVER_PACKET_MAX, SERVER_PACKET_MAX + 1]), b'x');
    }
    bytes
}

/// One connection after the other; each seed is a life of the server's end.
struct Life {
    seed: u64,
    faults: Faults,
    now: Nanos,
    session: ServerSession,
    state: State,
    expected: Vec<Said>,
    tally: Tally,
}

impl Life {
    fn new(seed: u64) -> Life {
        let now = Nanos(1_000);
        let session = ServerSession::new(now);
        let (faults, state) = (Faults::new(seed), State::Login);
        Life { seed, faults, now, session, state, expected: vec![], tally: Tally::default() }
    }

    /// Writes some packets, cut anyhow, and compares what is reported.
    fn write(&mut self) {
        let mut stream = Vec::new();
        let (mut state, mut lost) = (self.state, false);
        for _ in 0..1 + self.faults.below(4) {
            let bytes = packet(state, &mut self.faults);
            self.tally.sent += 1;
            let mut length = bytes.len() as u16;
            if self.faults.chance(60) {
                length = self.faults.pick(&[0, SERVER_PACKET_MAX as u16 + 1, 0xFFFF]);
            }
            stream.extend(length.to_be_bytes());
            stream.extend(&bytes);
            if lost || state == State::Over {
                continue;
            }
            if length == 0 || usize::from(length) > SERVER_PACKET_MAX {
                (lost, state) = (true, State::Over);
                self.expected.push(Said::Violation);
                continue;
            }
            let (said, fine) = expect(&mut state, &bytes);
            self.tally.framed += u64::from(fine);
            self.expected.extend(said);
            if state == State::Answer {
                // The server answers before it reads on.
                break;
            }
        }
        let mut found = Vec::new();
        let mut rest = stream.as_slice();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + self.faults.below(rest.len()));
            let note = |event: ServerEvent<'_>| found.push(said(&event));
            self.session.handle_bytes(self.now, piece, note);
            rest = behind;
        }
        assert_eq!(found, self.expected, "seed {}", self.seed);
        self.tally.judged += found.len() as u64;
        self.expected.clear();
        self.state = state;
    }

    /// The server's own part: answers a login, sends, and lets time pass.
    fn serve(&mut self) {
        let (mut out, now) = (Vec::new(), self.now);
        if self.state == State::Answer && !self.faults.chance(20) {
            if self.faults.chance(10) {
                let code = RejectCode::NotAuthorized;
                self.session.reject_login(code, &mut out).expect("it asked");
                self.state = State::Over;
            } else {
                self.session.accept_login(now, *b"SESSION001", 5, &mut out).expect("it asked");
                self.state = State::Active;
            }
            assert!(!out.is_empty());
        }
        out.clear();
        let active = self.state == State::Active;
        let sent = self.session.send_sequenced(now, b"hello", &mut out);
        assert_eq!(sent.is_ok(), active, "seed {}", self.seed);
        assert_eq!(out == b"\0\x06Shello", active, "seed {}", self.seed);
        self.now = now.after(self.faults.pick(&[1_000, Nanos::MILLI, 1_500 * Nanos::MILLI]));
        if self.faults.chance(100) {
            self.now = self.now.after(SILENCE_NS);
        }
        out.clear();
        let ended = self.session.handle_timeout(self.now, &mut out);
        if let Some(event) = ended {
            assert!(self.now.since(now) >= SILENCE_NS || self.state == State::Login);
            let timeout = ServerEvent::Violation(Violation::LoginTimeout);
            assert!(event == timeout || event == ServerEvent::Dead, "seed {}", self.seed);
            self.state = State::Over;
        }
        let heartbeat = ServerPacket::Heartbeat;
        let mut whole = Vec::new();
        heartbeat.encode(&mut whole).expect("short");
        assert!(out.is_empty() || out == whole, "seed {}", self.seed);
    }
}

#[test]
fn soupbin_server_sessions_say_what_they_have_to() {
    mutate(
        &Target { name: "SoupBinTCP server session", slice: 100_000, grown_max: 4 << 10 },
        |seed| {
            let mut life = Life::new(seed);
            while life.tally.sent < ROUNDS as u64 {
                life.write();
                life.serve();
                assert_eq!(life.session.is_over(), life.state == State::Over, "seed {seed}");
                assert_eq!(life.session.is_active(), life.state == State::Active, "seed {seed}");
                life.tally.peak = life.tally.peak.max(counting::live_bytes());
                if life.state == State::Over {
                    life.session = ServerSession::new(life.now);
                    life.state = State::Login;
                }
            }
            life.tally
        },
    );
}

#[test]
fn the_model_tells_right_from_wrong() {
    let judged = |state: State, packet: &[u8]| expect(&mut { state }, packet);
    assert_eq!(judged(State::Login, b"U"), (Some(Said::Violation), true));
    assert_eq!(judged(State::Active, b"Uabc"), (Some(Said::Message(3)), true));
    assert_eq!(judged(State::Active, b"Rx"), (Some(Said::Violation), false));
    assert_eq!(judged(State::Active, b"?"), (Some(Said::Violation), false));
    let login = [b"L".as_slice(), &[b' '; 45], b"7"].concat();
    assert_eq!(judged(State::Login, &login), (Some(Said::Login(7)), true));
    assert_eq!(judged(State::Active, &login), (Some(Said::Violation), true));
}
