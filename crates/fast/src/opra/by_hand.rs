//! FAST for OPRA, version 2, decoded by hand, field by field, for streams known to be right.
//!
//! It does what any decoder must (length, presence map, stop bits, previous values, the checksum
//! over all values of a message) and nothing else: no check of framing, ranges, or fields
//! missing, no events. It is no lower bound: the generated decoder is quicker. Only for measuring
//! beside it in the same run.

use super::checksum::{self, WEIGHTS};

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline(always)]
    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0x80);
        self.at += 1;
        byte
    }

    #[inline(always)]
    fn number(&mut self) -> u64 {
        let mut value = 0;
        loop {
            let byte = self.byte();
            value = value << 7 | u64::from(byte & 0x7F);
            if byte & 0x80 != 0 {
                return value;
            }
        }
    }

    #[inline(always)]
    fn short(&mut self) -> u64 {
        let mut value = 0;
        loop {
            let byte = self.byte();
            value = value << 8 | u64::from(byte & 0x7F);
            if byte & 0x80 != 0 {
                return value;
            }
        }
    }

    fn long(&mut self) -> u64 {
        let mut value = checksum::OFFSET;
        loop {
            let byte = self.byte();
            value = (value ^ u64::from(byte & 0x7F)).wrapping_mul(checksum::PRIME);
            if byte & 0x80 != 0 {
                return value;
            }
        }
    }
}

/// Reads the listed slots in order and sums them.
macro_rules! read {
    ($cursor:ident, $map:ident, $values:ident, $sum:ident: $($slot:literal)*) => {{$(
        if $map << $slot >> 63 == 1 {
            $values[$slot] = $cursor.number();
        }
        $sum = $sum.wrapping_add($values[$slot].wrapping_mul(WEIGHTS[$slot]));
    )*}};
}

macro_rules! read_short {
    ($cursor:ident, $map:ident, $values:ident, $sum:ident: $($slot:literal)*) => {{$(
        if $map << $slot >> 63 == 1 {
            $values[$slot] = $cursor.short();
        }
        $sum = $sum.wrapping_add($values[$slot].wrapping_mul(WEIGHTS[$slot]));
    )*}};
}

/// Mixes all messages of a packet into the checksum; returns how many messages there were.
pub fn packet(bytes: &[u8], sum: &mut u64) -> u64 {
    let mut values = [0_u64; 64];
    let mut cursor = Cursor { bytes, at: 15 };
    let mut messages = 0;
    while cursor.at + 1 < bytes.len() {
        cursor.at += 1;
        *sum = checksum::mix(*sum, message(&mut cursor, &mut values));
        messages += 1;
    }
    messages
}

#[inline(always)]
fn message(cursor: &mut Cursor<'_>, values: &mut [u64; 64]) -> u64 {
    let (mut map, mut bits) = (0_u64, 0);
    loop {
        let byte = cursor.byte();
        map = map << 7 | u64::from(byte & 0x7F);
        bits += 7;
        if byte & 0x80 != 0 {
            break;
        }
    }
    map <<= 64 - bits;
    let mut s = 0_u64;
    read!(cursor, map, values, s: 0 1 2 3);
    if map << 4 >> 63 == 1 {
        values[4] = cursor.number();
    } else {
        values[4] += 1;
    }
    s = s.wrapping_add(values[4].wrapping_mul(WEIGHTS[4]));
    read!(cursor, map, values, s: 5);
    let category = values[0] as u8;
    if category == b'k' {
        return quote(cursor, map, values, s);
    }
    match category {
        b'C' | b'H' => {
            if map << 48 >> 63 == 1 {
                values[48] = cursor.long();
            }
            return s.wrapping_add(values[48].wrapping_mul(WEIGHTS[48]));
        }
        b'Y' => {
            read!(cursor, map, values, s: 39);
            read_short!(cursor, map, values, s: 41 42);
            return s;
        }
        _ => {}
    }
    read_short!(cursor, map, values, s: 6);
    match category {
        b'F' | b'O' | b'U' => read!(cursor, map, values, s: 8 12),
        _ => read!(cursor, map, values, s: 7 8 9 10 11 12),
    }
    match category {
        b'a' => read!(cursor, map, values, s: 13 15 16 29),
        b'd' => read!(cursor, map, values, s: 14),
        b'f' => read!(cursor, map, values, s: 13 14 15 17 18 19 20 21 22 23 24 25 27),
        b'F' => read!(cursor, map, values, s: 13 14 17 18 19 20 21 22 24),
        b'O' => read!(cursor, map, values, s: 13 16),
        _ => read!(cursor, map, values, s: 25 27),
    }
    s
}

#[inline(always)]
fn quote(cursor: &mut Cursor<'_>, map: u64, values: &mut [u64; 64], sum: u64) -> u64 {
    let mut s = sum;
    read_short!(cursor, map, values, s: 6);
    read!(cursor, map, values, s: 7 8 9 10 11 12 15 25 26 27 28 29 30);
    let bbo = values[30] as u8;
    if matches!(bbo, b'M' | b'N' | b'P' | b'O') {
        read!(cursor, map, values, s: 31 32 33 34);
    }
    if matches!(bbo, b'C' | b'G' | b'K' | b'O') {
        read!(cursor, map, values, s: 35 36 37 38);
    }
    s
}

/// Category of a message in its own bytes, for decoders that keep only what is in fields.
pub fn category(message: &[u8]) -> Option<u8> {
    let last = message.iter().position(|byte| byte & 0x80 != 0)?;
    let told = message.first()? & 0x40 != 0;
    told.then(|| message.get(last + 1).map(|byte| byte & 0x7F))?
}

/// The slots that a message has, by its category and values; slot 0 in the highest bit.
pub fn slots(category: u8, values: &[u64; 64]) -> u64 {
    const fn set(slots: &[u8]) -> u64 {
        let (mut all, mut at) = (0, 0);
        while at < slots.len() {
            all |= 1 << 63 >> slots[at];
            at += 1;
        }
        all
    }
    const HEAD: u64 = set(&[0, 1, 2, 3, 4, 5]);
    const SERIES: u64 = HEAD | set(&[6, 7, 8, 9, 10, 11, 12]);
    const CURRENCY: u64 = HEAD | set(&[6, 8, 12]);
    match category {
        b'k' => {
            let best = match values[30] as u8 {
                b'M' | b'N' | b'P' => set(&[31, 32, 33, 34]),
                b'C' | b'G' | b'K' => set(&[35, 36, 37, 38]),
                b'O' => set(&[31, 32, 33, 34, 35, 36, 37, 38]),
                _ => 0,
            };
            SERIES | set(&[15, 25, 26, 27, 28, 29, 30]) | best
        }
        b'a' => SERIES | set(&[13, 15, 16, 29]),
        b'd' => SERIES | set(&[14]),
        b'f' => SERIES | set(&[13, 14, 15, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27]),
        b'F' => CURRENCY | set(&[13, 14, 17, 18, 19, 20, 21, 22, 24]),
        b'O' => CURRENCY | set(&[13, 16]),
        b'U' => CURRENCY | set(&[25, 27]),
        b'Y' => HEAD | set(&[39, 41, 42]),
        _ => HEAD | set(&[48]),
    }
}
