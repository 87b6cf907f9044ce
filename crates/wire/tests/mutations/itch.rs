//! ITCH messages of all 23 types: lengths right, mostly, and every field anything.

use wire::itch::{Encoder, Message, parse};

use super::{MIDNIGHT, ROUNDS, faults::*, instruments};

/// Bytes that coded fields like, so that enough messages pass.
const CODES: &[u8] = b"BSYNHPTQOMEC LFIKRA123";

fn message(faults: &mut Faults) -> Vec<u8> {
    let (kind, len) = faults.pick(Message::LENGTHS);
    let mut bytes = vec![0; len];
    bytes[0] = kind;
    // Locate, tracking, time: small.
    bytes[2] = faults.below(4) as u8;
    bytes[5..11].copy_from_slice(&faults.next().to_be_bytes()[2..]);
    for byte in &mut bytes[11..] {
        *byte = if faults.chance(3) { faults.next() as u8 } else { faults.pick(CODES) };
    }
    // Where the types have their coded fields.
    match kind {
        b'S' => bytes[11] = faults.pick(b"OSQMEC"),
        b'H' => bytes[19] = faults.pick(b"HPQT"),
        b'A' | b'F' | b'P' => bytes[19] = faults.pick(b"BS"),
        b'C' => bytes[31] = faults.pick(b"YN"),
        b'I' => {
            bytes[27] = faults.pick(b"BSNOP");
            bytes[48] = faults.pick(b"OCHI");
        }
        _ => {}
    }
    for _ in 0..faults.below(3) {
        faults.spoil(&mut bytes[1..]);
    }
    if faults.chance(12) {
        faults.spoil_length(&mut bytes);
    }
    if faults.chance(20) {
        faults.spoil(&mut bytes);
    }
    bytes
}

#[test]
fn itch_messages_are_read_as_they_are_or_refused() {
    let encoder = Encoder::new(&instruments(), MIDNIGHT);
    mutate(&Target { name: "ITCH messages", slice: 100_000, grown_max: 512 }, |seed| {
        let (mut faults, mut tally) = (Faults::new(seed), Tally::default());
        let mut again = Vec::new();
        for _ in 0..ROUNDS {
            let bytes = message(&mut faults);
            tally.sent += 1;
            tally.peak = tally.peak.max(counting::live_bytes());
            let Ok(view) = parse(&bytes) else { continue };
            tally.framed += 1;
            assert_eq!(view.as_bytes(), bytes, "seed {seed}");
            let Some(event) = view.to_event() else { continue };
            again.clear();
            let at = MIDNIGHT.after(view.header().time.get());
            if encoder.encode(&event, at, &mut again).is_ok() {
                // What we can say ourselves says the same again.
                let event_again = parse(&again).ok().and_then(|view| view.to_event());
                assert_eq!(event_again, Some(event), "seed {seed}");
                tally.judged += 1;
            }
        }
        tally
    });
}
