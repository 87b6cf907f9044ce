//! Stop-bit entities, nullable or not, and presence maps (FAST 1.1, §10.2 to §10.7).
//!
//! A [`Reader`] never reads outside its bytes and never loops longer than they are. When strict it
//! refuses overlong encodings (R6, R9), otherwise it notes them.

use crate::error::Code;
use crate::value::Type;

const STOP: u8 = 0x80;

/// Reads stop-bit entities from a slice of bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    strict: bool,
    /// Reportable errors that were passed over, one bit per code number.
    noted: u64,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    pub fn new(bytes: &'a [u8], strict: bool) -> Reader<'a> {
        Reader { bytes, at: 0, strict, noted: 0 }
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// Removes and returns the reportable errors that were passed over since the last call.
    pub fn take_noted(&mut self) -> impl Iterator<Item = Code> + use<> {
        let noted = std::mem::take(&mut self.noted);
        Code::ALL.iter().copied().filter(move |&code| noted >> code as u8 & 1 == 1)
    }

    /// Returns a reportable error as an error when strict; otherwise notes it.
    pub fn report(&mut self, code: Code) -> Result<(), Code> {
        if self.strict {
            return Err(code);
        }
        self.noted |= 1 << code as u8;
        Ok(())
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, Code> {
        let byte = *self.bytes.get(self.at).ok_or(Code::Truncated)?;
        self.at += 1;
        Ok(byte)
    }

    /// An unsigned integer of up to 65 bits; `None` is NULL.
    #[inline(always)]
    pub fn unsigned(&mut self, nullable: bool) -> Result<Option<u64>, Code> {
        let first = self.byte()?;
        if first & STOP != 0 {
            let value = u64::from(first & !STOP);
            return Ok(if nullable { value.checked_sub(1) } else { Some(value) });
        }
        self.long_unsigned(first, nullable)
    }

    fn long_unsigned(&mut self, first: u8, nullable: bool) -> Result<Option<u64>, Code> {
        let mut value = u128::from(first);
        loop {
            let byte = self.byte()?;
            if value >> 80 != 0 {
                return Err(Code::D2);
            }
            value = value << 7 | u128::from(byte & !STOP);
            if byte & STOP != 0 {
                break;
            }
        }
        if first == 0 {
            self.report(Code::R6)?;
        }
        if nullable {
            if value == 0 {
                return Ok(None);
            }
            value -= 1;
        }
        u64::try_from(value).map(Some).map_err(|_| Code::D2)
    }

    /// A signed integer of up to 70 bits; `None` is NULL.
    #[inline(always)]
    pub fn signed(&mut self, nullable: bool) -> Result<Option<i128>, Code> {
        let first = self.byte()?;
        let mut value = i128::from(((first << 1) as i8) >> 1);
        if first & STOP == 0 {
            value = self.long_signed(first, value)?;
        }
        Ok(match value {
            0 if nullable => None,
            1.. if nullable => Some(value - 1),
            _ => Some(value),
        })
    }

    fn long_signed(&mut self, first: u8, start: i128) -> Result<i128, Code> {
        let mut value = start;
        let mut second = None;
        loop {
            let byte = self.byte()?;
            second.get_or_insert(byte);
            // More than 70 bits fit no type and no delta.
            if value.unsigned_abs() >> 80 != 0 {
                return Err(Code::D2);
            }
            value = value << 7 | i128::from(byte & !STOP);
            if byte & STOP != 0 {
                break;
            }
        }
        let sign = second.is_some_and(|byte| byte & 0x40 != 0);
        if first == 0 && !sign || first == 0x7F && sign {
            self.report(Code::R6)?;
        }
        Ok(value)
    }

    /// An integer of type `ty` as 64 bits; D2 outside its bounds.
    #[inline(always)]
    pub fn integer(&mut self, ty: Type, nullable: bool) -> Result<Option<u64>, Code> {
        match ty {
            Type::U32 => match self.unsigned(nullable)? {
                Some(value) if value > u64::from(u32::MAX) => Err(Code::D2),
                value => Ok(value),
            },
            Type::U64 => self.unsigned(nullable),
            _ => match self.signed(nullable)? {
                Some(value) => {
                    let (low, high) = ty.bounds();
                    if (low..=high).contains(&value) {
                        Ok(Some(value as u64))
                    } else {
                        Err(Code::D2)
                    }
                }
                None => Ok(None),
            },
        }
    }

    /// An ASCII string into `out`, which is cleared; false is NULL.
    pub fn ascii(&mut self, nullable: bool, out: &mut Vec<u8>) -> Result<bool, Code> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let last = rest.iter().position(|byte| byte & STOP != 0).ok_or(Code::Truncated)?;
        let (mut entity, _) = rest.split_at(last + 1);
        self.at += last + 1;
        let zero = |byte: &u8| byte & !STOP == 0;
        out.clear();
        let mut overlong = false;
        if nullable && zero(&entity[0]) {
            entity = &entity[1..];
            match entity.first() {
                None => return Ok(false),
                Some(byte) => overlong = !zero(byte),
            }
        }
        if zero(&entity[0]) && !overlong {
            entity = &entity[1..];
            overlong = entity.first().is_some_and(|byte| !zero(byte));
        }
        if overlong {
            self.report(Code::R9)?;
        }
        out.extend(entity.iter().map(|byte| byte & !STOP));
        Ok(true)
    }

    /// A byte vector; `None` is NULL.
    pub fn vector(&mut self, nullable: bool) -> Result<Option<&'a [u8]>, Code> {
        let Some(len) = self.integer(Type::U32, nullable)? else { return Ok(None) };
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let bytes = rest.get(..len as usize).ok_or(Code::Truncated)?;
        self.at += bytes.len();
        Ok(Some(bytes))
    }

    /// The size of a block, which may be overlong (§10).
    ///
    /// # Errors
    /// D12 for zero.
    pub fn block_size(&mut self) -> Result<u64, Code> {
        let mut value = 0_u64;
        loop {
            let byte = self.byte()?;
            if value >> 57 != 0 {
                return Err(Code::Limit);
            }
            value = value << 7 | u64::from(byte & !STOP);
            if byte & STOP != 0 {
                return if value == 0 { Err(Code::D12) } else { Ok(value) };
            }
        }
    }

    /// A presence map.
    ///
    /// # Errors
    /// R7, when strict, for one that is overlong.
    #[inline]
    pub fn presence_map(&mut self) -> Result<PresenceMap<'a>, Code> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let last = rest.iter().position(|byte| byte & STOP != 0).ok_or(Code::Truncated)?;
        self.at += last + 1;
        let (entity, _) = rest.split_at(last + 1);
        if last > 0 && entity[last] == STOP {
            self.report(Code::R7)?;
        }
        let mut map = PresenceMap { rest: entity, word: 0, left: 0 };
        map.refill();
        Ok(map)
    }
}

/// The bits of a presence map, in order; behind the last one there are only zeros.
#[derive(Clone, Debug)]
pub struct PresenceMap<'a> {
    /// Bytes that are not in `word` yet.
    rest: &'a [u8],
    /// The next bits, the first one in the highest place.
    word: u64,
    left: u32,
}

impl PresenceMap<'_> {
    fn refill(&mut self) {
        let (now, later) = self.rest.split_at(self.rest.len().min(9));
        let bits = |word: u64, byte: &u8| word << 7 | u64::from(byte & !STOP);
        let used = 7 * now.len() as u32;
        self.word = if used == 0 { 0 } else { now.iter().fold(0, bits) << (64 - used) };
        self.left = if used == 0 { u32::MAX } else { used };
        self.rest = later;
    }

    /// Takes the next bit; false behind the last one.
    #[inline(always)]
    pub fn take(&mut self) -> bool {
        let bit = self.word >> 63 == 1;
        self.word <<= 1;
        self.left -= 1;
        if self.left == 0 {
            self.refill();
        }
        bit
    }

    /// Takes the next `count` bits at once when none of them is set; false, and takes none, when one is, or
    /// when they are not all at hand.
    #[inline(always)]
    pub fn take_zeros(&mut self, count: u32) -> bool {
        let zeros = count < 64 && count < self.left && self.word.leading_zeros() >= count;
        if zeros {
            self.word <<= count;
            self.left -= count;
        }
        zeros
    }

    /// Whether a set bit is left that no instruction has taken (R8).
    pub fn has_more(&self) -> bool {
        self.word != 0 || self.rest.iter().any(|byte| byte & !STOP != 0)
    }
}

/// Appends an unsigned integer as a stop-bit entity, in the fewest bytes.
pub fn put_unsigned(out: &mut Vec<u8>, value: u128) {
    let groups = (128 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let stop = if group == 0 { STOP } else { 0 };
        out.push((value >> (7 * group)) as u8 & !STOP | stop);
    }
}

/// Appends a signed integer as a stop-bit entity, in the fewest bytes.
pub fn put_signed(out: &mut Vec<u8>, value: i128) {
    let significant = 128 - if value < 0 { value.leading_ones() } else { value.leading_zeros() };
    // One more for the sign.
    let groups = (significant + 1).div_ceil(7);
    for group in (0..groups).rev() {
        let stop = if group == 0 { STOP } else { 0 };
        out.push((value >> (7 * group)) as u8 & !STOP | stop);
    }
}

/// Appends an integer of any type, or NULL.
pub fn put_integer(out: &mut Vec<u8>, ty: Type, nullable: bool, value: Option<i128>) {
    let Some(value) = value else { return out.push(STOP) };
    let value = if nullable && value >= 0 { value + 1 } else { value };
    match ty {
        Type::U32 | Type::U64 => put_unsigned(out, value.unsigned_abs()),
        _ => put_signed(out, value),
    }
}

/// Appends an ASCII string, or NULL.
///
/// # Errors
/// R3 for bytes above 127.
pub fn put_ascii(out: &mut Vec<u8>, nullable: bool, value: Option<&[u8]>) -> Result<(), Code> {
    let Some(text) = value else {
        out.push(STOP);
        return Ok(());
    };
    if !text.is_ascii() {
        return Err(Code::R3);
    }
    // A zero in front must not be taken for a preamble, nor the empty string for NULL.
    if text.first().is_none_or(|&first| first == 0) {
        out.extend_from_slice(if nullable { &[0, 0] } else { &[0] });
    }
    out.extend_from_slice(text);
    if let Some(last) = out.last_mut() {
        *last |= STOP;
    }
    Ok(())
}

/// Appends a byte vector, or NULL.
pub fn put_vector(out: &mut Vec<u8>, nullable: bool, value: Option<&[u8]>) {
    put_integer(out, Type::U32, nullable, value.map(|bytes| bytes.len() as i128));
    out.extend_from_slice(value.unwrap_or(&[]));
}

/// Appends a presence map without the zeros at its end.
pub fn put_presence_map(out: &mut Vec<u8>, bits: &[bool]) {
    let used = bits.iter().rposition(|&bit| bit).map_or(1, |last| last + 1);
    let groups = used.div_ceil(7);
    for group in 0..groups {
        let bit = |at: usize| bits.get(group * 7 + at).copied().unwrap_or(false);
        let byte = (0..7).fold(0, |byte, at| byte << 1 | u8::from(bit(at)));
        out.push(byte | if group + 1 == groups { STOP } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presence_maps_of_every_length() {
        for len in 0..100_usize {
            let mut bits: Vec<bool> = (0..len).map(|at| at % 3 == 0 || at % 7 == 2).collect();
            let mut bytes = Vec::new();
            put_presence_map(&mut bytes, &bits);
            let mut reader = Reader::new(&bytes, true);
            let mut map = reader.presence_map().unwrap();
            assert!(reader.is_empty());
            bits.extend([false; 20]);
            let read: Vec<bool> = bits.iter().map(|_| map.take()).collect();
            assert_eq!(read, bits, "{len}");
            assert!(!map.has_more());
        }
    }

    #[test]
    fn zero_preambles_are_those_of_the_specification() {
        let read = |bytes: &[u8], nullable| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() |= STOP;
            let mut out = Vec::new();
            let mut reader = Reader::new(&bytes, false);
            let present = reader.ascii(nullable, &mut out).unwrap();
            let overlong = reader.take_noted().any(|code| code == Code::R9);
            (present.then_some(out), overlong)
        };
        let text = |text: &[u8]| Some(text.to_vec());
        assert_eq!(read(&[0], false), (text(b""), false));
        assert_eq!(read(&[0, 0], false), (text(b"\0"), false));
        assert_eq!(read(&[0, 0x41], false), (text(b"A"), true));
        assert_eq!(read(&[0], true), (None, false));
        assert_eq!(read(&[0, 0], true), (text(b""), false));
        assert_eq!(read(&[0, 0x41], true), (text(b"A"), true));
        assert_eq!(read(&[0, 0, 0], true), (text(b"\0"), false));
        assert_eq!(read(&[0, 0, 0x41], true), (text(b"A"), true));
        for value in [&b""[..], b"\0", b"A", b"\0A", b"A\0"] {
            for nullable in [false, true] {
                let mut bytes = Vec::new();
                put_ascii(&mut bytes, nullable, Some(value)).unwrap();
                assert_eq!(read(&bytes, nullable), (text(value), false));
            }
        }
    }

    #[test]
    fn integers_go_there_and_back() {
        let edges = [0, 1, 63, 64, 127, 128, 8191, 8192, u32::MAX as i128, u64::MAX as i128];
        for value in edges.into_iter().flat_map(|value| [value, -value, value - 1, !value]) {
            for nullable in [false, true] {
                let mut bytes = Vec::new();
                put_integer(&mut bytes, Type::I64, nullable, Some(value));
                assert_eq!(Reader::new(&bytes, true).signed(nullable), Ok(Some(value)));
                if let Ok(unsigned) = u64::try_from(value) {
                    bytes.clear();
                    put_integer(&mut bytes, Type::U64, nullable, Some(value));
                    let read = Reader::new(&bytes, true).unsigned(nullable);
                    assert_eq!(read, Ok(Some(unsigned)));
                }
            }
        }
    }

    #[test]
    fn overlong_and_oversized_are_seen() {
        assert_eq!(Reader::new(&[0, 0x81], true).unsigned(false), Err(Code::R6));
        assert_eq!(Reader::new(&[0, 0x81], false).unsigned(false), Ok(Some(1)));
        assert_eq!(Reader::new(&[0, 0xC0], true).signed(false), Ok(Some(64)));
        assert_eq!(Reader::new(&[0, 0xBF], true).signed(false), Err(Code::R6));
        assert_eq!(Reader::new(&[0x7F, 0xC0], true).signed(false), Err(Code::R6));
        assert_eq!(Reader::new(&[0x7F, 0xBF], true).signed(false), Ok(Some(-65)));
        assert_eq!(Reader::new(&[0x7F; 40], true).unsigned(false), Err(Code::D2));
        assert_eq!(Reader::new(&[0x40; 40], true).signed(false), Err(Code::D2));
        assert_eq!(Reader::new(&[0x7F; 4], true).unsigned(false), Err(Code::Truncated));
        assert_eq!(Reader::new(&[0x40, 0x80], true).presence_map().map(|_| ()), Err(Code::R7));
        assert_eq!(Reader::new(&[0, 0x80], true).block_size(), Err(Code::D12));
        assert_eq!(Reader::new(&[0, 0x85], true).block_size(), Ok(5));
    }
}
