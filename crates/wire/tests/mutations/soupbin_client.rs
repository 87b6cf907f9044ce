//! Dialogues with a SoupBinTCP client session, against a model of what it has to report.

use types::Nanos;
use wire::soupbin::{ClientEvent, ClientSession, SILENCE_NS};

use super::{ROUNDS, faults::*, ouch_messages, soupbin::number};

/// What a session reports, without what it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Accepted(u64),
    Rejected,
    /// Number and length.
    Sequenced(u64, usize),
    Unsequenced(usize),
    End,
    Violation,
}

fn said(event: &ClientEvent<'_>) -> Said {
    match event {
        ClientEvent::Accepted { seq, .. } => Said::Accepted(*seq),
        ClientEvent::Rejected(_) => Said::Rejected,
        ClientEvent::Sequenced { seq, message } => Said::Sequenced(*seq, message.len()),
        ClientEvent::Unsequenced(message) => Said::Unsequenced(message.len()),
        ClientEvent::EndOfSession => Said::End,
        ClientEvent::Violation(_) | ClientEvent::Dead => Said::Violation,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Offline,
    Asked,
    Active,
}

/// What the specification has a client do.
#[derive(Clone, Copy, Debug)]
struct Model {
    state: State,
    next: u64,
}

impl Model {
    /// What it reports of one packet (type and body), and whether the packet itself is in order.
    fn expect(&mut self, packet: &[u8]) -> (Option<Said>, bool) {
        if self.state == State::Offline {
            return (None, false);
        }
        let active = self.state == State::Active;
        let (kind, body) = packet.split_first().unwrap_or((&0, &[]));
        let accepted = match body {
            _ if *kind != b'A' || body.len() != 30 => None,
            _ => number(&body[10..]),
        };
        let rejected = *kind == b'J' && matches!(body, [b'A' | b'S']);
        let said = match kind {
            b'+' => return (None, true),
            b'H' if body.is_empty() => return (None, true),
            b'Z' if body.is_empty() => Said::End,
            b'A' if accepted.is_some() && !active => Said::Accepted(accepted.unwrap_or(0)),
            b'J' if rejected && !active => Said::Rejected,
            b'S' if active && self.next < u64::MAX => Said::Sequenced(self.next, body.len()),
            b'U' if active => Said::Unsequenced(body.len()),
            _ => Said::Violation,
        };
        match said {
            Said::Accepted(next) => *self = Model { state: State::Active, next },
            Said::Sequenced(..) => self.next += 1,
            Said::Unsequenced(_) => {}
            Said::Rejected | Said::End | Said::Violation => self.state = State::Offline,
        }
        let framed =
            said != Said::Violation || b"SU".contains(kind) || accepted.is_some() || rejected;
        (Some(said), framed)
    }
}

fn packet(state: State, faults: &mut Faults) -> Vec<u8> {
    let mut bytes = match faults.below(if state == State::Active { 24 } else { 6 }) {
        0 if faults.chance(3) => b"Z".to_vec(),
        0 => b"JA".to_vec(),
        1 => b"H".to_vec(),
        2 => b"+a word".to_vec(),
        3 | 4 => {
            let numbers = ["1", "1", "0", "77", "", "18446744073709551615", "18446744073709551614"];
            format!("ASESSION001{:>20}", faults.pick(&numbers)).into_bytes()
        }
        5 => [b"U".to_vec(), ouch_messages::message(ouch_messages::OUTBOUND, faults)].concat(),
        _ => [b"S".to_vec(), ouch_messages::message(ouch_messages::OUTBOUND, faults)].concat(),
    };
    if faults.chance(20) {
        faults.spoil(&mut bytes);
    }
    if faults.chance(30) {
        faults.spoil_length(&mut bytes);
    }
    bytes
}

/// Writes some packets, cut anyhow, and compares what is reported.
fn write(seed: u64, at: Nanos, faults: &mut Faults, world: &mut (ClientSession, Model, Tally)) {
    let (session, model, tally) = world;
    let (mut stream, mut expected, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1 + faults.below(6) {
        let bytes = packet(model.state, faults);
        tally.sent += 1;
        let length = if faults.chance(60) { 0 } else { bytes.len() as u16 };
        stream.extend(length.to_be_bytes());
        stream.extend(&bytes);
        if model.state == State::Offline {
            continue;
        }
        if length == 0 {
            model.state = State::Offline;
            expected.push(Said::Violation);
            continue;
        }
        let (said, framed) = model.expect(&bytes);
        tally.framed += u64::from(framed);
        expected.extend(said);
    }
    let mut rest = stream.as_slice();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(1 + faults.below(rest.len()));
        session.handle_bytes(at, piece, |event| found.push(said(&event)));
        rest = behind;
    }
    assert_eq!(found, expected, "seed {seed}");
    tally.judged += found.len() as u64;
    assert_eq!(session.is_offline(), model.state == State::Offline, "seed {seed}");
    assert_eq!(session.is_active(), model.state == State::Active, "seed {seed}");
    assert_eq!(session.next_seq(), model.next, "seed {seed}");
}

#[test]
fn soupbin_client_sessions_report_what_they_have_to() {
    let target = Target { name: "SoupBinTCP client session", slice: 100_000, grown_max: GROWN_MAX };
    mutate(&target, |seed| {
        let mut faults = Faults::new(seed);
        let (mut now, mut out) = (Nanos(1_000), Vec::new());
        let session = ClientSession::new("GUEST", "welcome").expect("short");
        let model = Model { state: State::Offline, next: 1 };
        let mut world = (session, model, Tally::default());
        while world.2.sent < ROUNDS as u64 {
            if world.1.state == State::Offline {
                out.clear();
                world.0.connect(now, &mut out).expect("short");
                let asked = format!("{:>20}", world.1.next);
                assert!(out.ends_with(asked.as_bytes()), "seed {seed}: it asks for the next");
                world.1.state = State::Asked;
            }
            write(seed, now, &mut faults, &mut world);
            let before = now;
            now = now.after(faults.pick(&[1_000, Nanos::MILLI, 1_500 * Nanos::MILLI]));
            if faults.chance(100) {
                now = now.after(SILENCE_NS);
            }
            out.clear();
            if world.0.handle_timeout(now, &mut out).is_some() {
                assert!(now.since(before) >= SILENCE_NS, "seed {seed}");
                world.1.state = State::Offline;
            }
            assert!(out.is_empty() || out == b"\0\x01R", "seed {seed}");
            world.2.peak = world.2.peak.max(counting::live_bytes());
        }
        world.2
    });
}

/// A packet that is not whole yet is kept: how long it is, chance decides.
const GROWN_MAX: i64 = 4 << 10;

#[test]
fn the_model_tells_right_from_wrong() {
    let judged = |state: State, next: u64, packet: &[u8]| Model { state, next }.expect(packet);
    let accepted = b"ASESSION001                   7";
    assert_eq!(judged(State::Asked, 1, accepted), (Some(Said::Accepted(7)), true));
    assert_eq!(judged(State::Active, 1, accepted), (Some(Said::Violation), true));
    assert_eq!(judged(State::Asked, 1, &accepted[..30]), (Some(Said::Violation), false));
    assert_eq!(judged(State::Active, 9, b"Sabc"), (Some(Said::Sequenced(9, 3)), true));
    assert_eq!(judged(State::Active, u64::MAX, b"S"), (Some(Said::Violation), true));
    assert_eq!(judged(State::Asked, 9, b"S"), (Some(Said::Violation), true));
    assert_eq!(judged(State::Active, 9, b"R"), (Some(Said::Violation), false));
    assert_eq!(judged(State::Offline, 9, b"S"), (None, false));
}
