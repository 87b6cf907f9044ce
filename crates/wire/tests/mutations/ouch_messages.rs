//! OUCH messages of both sides, from layouts written down here once more; used by the mutation tests
//! of several crates.

use super::faults::Faults;

/// Fields behind the type byte, a letter each; see [`field`].
pub const INBOUND: &[(u8, &str)] = &[
    (b'O', "nsqSpldcwxI"),
    (b'U', "nnqpldwI"),
    (b'X', "nq"),
    (b'M', "nsq"),
    (b'C', "nFS"),
    (b'D', "nF"),
    (b'E', "nF"),
    (b'Q', ""),
];
#[allow(dead_code, reason = "some of the binaries that share this take requests only")]
pub const OUTBOUND: &[(u8, &str)] = &[
    (b'S', "Te"),
    (b'A', "TnsqSpldrcwxvI"),
    (b'U', "TnnsqSpldrcwxvI"),
    (b'C', "Tnqv"),
    (b'D', "Tnqvqpvv"),
    (b'E', "Tnqpvr"),
    (b'B', "TnrvI"),
    (b'J', "TnjI"),
    (b'P', "Tn"),
    (b'I', "Tn"),
    (b'T', "Tnpdr"),
    (b'M', "Tnsq"),
    (b'R', "Tnv"),
    (b'X', "TnFS"),
    (b'G', "TnF"),
    (b'K', "TnF"),
    (b'Q', "Tn"),
];
/// Tags with the lengths of their values; 200 is nobody's.
const TAGS: &[(u8, usize)] = &[
    (1, 8),
    (2, 4),
    (3, 4),
    (5, 4),
    (6, 1),
    (7, 4),
    (9, 8),
    (10, 1),
    (11, 4),
    (12, 1),
    (13, 4),
    (15, 4),
    (17, 1),
    (23, 8),
    (27, 1),
    (28, 1),
    (200, 3),
    (224, 1),
    (225, 8),
    (226, 1),
    (227, 1),
    (228, 8),
    (229, 1),
    (230, 4),
    (231, 4),
    (232, 8),
];

pub fn field(letter: u8, faults: &mut Faults, out: &mut Vec<u8>) {
    match letter {
        b'n' => out.extend((1 + faults.below(50) as u32).to_be_bytes()),
        b'q' => out.extend((faults.below(300) as u32).to_be_bytes()),
        b'p' => {
            let price = 100 * faults.below(2_000) as u64;
            out.extend(if faults.chance(8) { i64::MAX as u64 } else { price }.to_be_bytes());
        }
        b'S' => out.extend(faults.pick(&[b"BTCUSD  ", b"GENA    ", b"        ", b"NOBODY  "])),
        b'F' => out.extend(faults.pick(&[b"    ", b"FIRM"])),
        b'I' => out.extend(b"an-order      "),
        b's' => out.push(faults.pick(b"BSBSBSTE")),
        b'l' => out.push(faults.pick(b"0356E1F")),
        b'd' => out.push(faults.pick(b"YYNA")),
        b'c' => out.push(faults.pick(b"APRO")),
        b'w' => out.push(faults.pick(b"YN")),
        b'x' => out.push(faults.pick(b"NNNOCH")),
        b'e' => out.push(faults.pick(b"SE")),
        b'v' => out.push(faults.pick(b"LDURPSAJk")),
        b'j' => out.extend((faults.below(40) as u16).to_be_bytes()),
        // Times and references.
        _ => out.extend((faults.next() >> 20).to_be_bytes()),
    }
}

fn appendage(faults: &mut Faults, out: &mut Vec<u8>) {
    let mut elements = Vec::new();
    let mut tag = faults.below(4);
    while tag < TAGS.len() && !faults.chance(3) {
        let (number, len) = TAGS[tag];
        elements.extend([1 + len as u8, number]);
        match len {
            1 => elements.push(faults.pick(b"LRMPSNYTOBAD\0 ")),
            _ => (0..len).for_each(|at| {
                elements.push(if at + 2 < len { 0 } else { faults.next() as u8 });
            }),
        }
        tag += 1 + faults.below(6);
    }
    if faults.chance(8) {
        faults.spoil(&mut elements);
    }
    if faults.chance(16) {
        faults.spoil_length(&mut elements);
    }
    out.extend((elements.len() as u16).to_be_bytes());
    out.extend(elements);
}

/// A message with or without faults; the appendage's length says the truth, mostly.
pub fn message(layouts: &[(u8, &str)], faults: &mut Faults) -> Vec<u8> {
    let (kind, letters) = faults.pick(layouts);
    let mut bytes = vec![kind];
    letters.bytes().for_each(|letter| field(letter, faults, &mut bytes));
    for _ in 0..faults.below(3) {
        faults.spoil(&mut bytes[1..]);
    }
    // System events have none.
    if kind != b'S' && (b"AUOER".contains(&kind) || faults.chance(3)) {
        appendage(faults, &mut bytes);
    }
    if faults.chance(20) {
        faults.spoil_length(&mut bytes);
    }
    if faults.chance(20) {
        faults.spoil(&mut bytes);
    }
    bytes
}
