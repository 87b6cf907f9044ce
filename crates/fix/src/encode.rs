//! Messages written into a byte vector that the caller keeps: no allocation once it has grown.
//!
//! BodyLength is patched when the message is finished; it is assumed to have three digits, and the
//! body moves by a byte where it has not.

use types::{Nanos, Price};

use crate::digits;
use crate::frame::SOH;
use crate::scan::checksum;
use crate::tag::Tag;
use crate::value::{self, Places, StampWriter};

/// A message that has begun in some vector.
#[derive(Debug)]
pub struct Started {
    start: usize,
    body: usize,
}

/// Begins a message: BeginString and room for BodyLength.
#[inline]
pub fn begin(out: &mut Vec<u8>, begin_string: &str) -> Started {
    let start = out.len();
    out.reserve(512);
    out.extend_from_slice(b"8=");
    out.extend_from_slice(begin_string.as_bytes());
    out.extend_from_slice(b"\x019=000\x01");
    Started { start, body: out.len() }
}

/// Ends the message: BodyLength and CheckSum.
#[inline]
pub fn finish(out: &mut Vec<u8>, started: Started) {
    let Started { start, mut body } = started;
    let length = out.len() - body;
    let digits = |value: usize| b'0' + (value % 10) as u8;
    let three = [digits(length / 100), digits(length / 10), digits(length)];
    if (100..1_000).contains(&length) {
        if let Some(place) = out.get_mut(body - 4..body - 1) {
            place.copy_from_slice(&three);
        }
    } else {
        body = resize_length(out, body, length);
    }
    debug_assert!(body >= start);
    let sum = u32::from(checksum(out.get(start..).unwrap_or(&[])));
    // Three digits behind a zero, which `=` takes the place of.
    let sum = u64::from(digits::four(sum)) + (digits::ZEROS & 0xffff_ff00);
    put8(out, u64::from_le_bytes(*b"10=\0\0\0\x01\0") | (sum >> 8) << 24, 7);
}

/// Writes a length that has not three digits, moving the body; returns where it is now.
#[cold]
fn resize_length(out: &mut Vec<u8>, body: usize, length: usize) -> usize {
    let mut text = Vec::with_capacity(8);
    value::push_uint(&mut text, length as u64);
    out.splice(body - 4..body - 1, text.iter().copied());
    body + text.len() - 3
}

/// Appends the first `length` bytes of a word, lowest first.
#[inline(always)]
fn put8(out: &mut Vec<u8>, word: u64, length: usize) {
    let start = out.len();
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(start + length);
}

/// [`put8`] of twice as many.
#[inline(always)]
fn put16(out: &mut Vec<u8>, word: u128, length: usize) {
    let start = out.len();
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(start + length);
}

const END: u64 = SOH as u64;

/// Bytes that are appended again and again: in one piece if they are few.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    few: [u8; 32],
    all: Vec<u8>,
}

impl Piece {
    pub(crate) fn new(all: Vec<u8>) -> Piece {
        let mut few = [0; 32];
        for (place, byte) in few.iter_mut().zip(&all) {
            *place = *byte;
        }
        Piece { few, all }
    }

    #[inline(always)]
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        if self.all.len() > self.few.len() {
            return out.extend_from_slice(&self.all);
        }
        out.extend_from_slice(&self.few);
        out.truncate(out.len() - self.few.len() + self.all.len());
    }
}

/// What [`begin`] writes, with the name of MsgType behind it.
pub(crate) fn beginning(begin_string: &str) -> Piece {
    Piece::new(format!("8={begin_string}\x019=000\x0135=").into_bytes())
}

/// [`begin`] by its [`beginning`], with MsgType and MsgSeqNum.
#[inline(always)]
pub(crate) fn begin_by(out: &mut Vec<u8>, beginning: &Piece, msg_type: &[u8], seq: u32) -> Started {
    let start = out.len();
    out.reserve(512);
    beginning.put(out);
    let body = out.len() - 3;
    match (digits::short(msg_type), msg_type.len()) {
        (Some(word), length @ 1..=3) => {
            let rest = END | u64::from_le_bytes(*b"\x0034=\0\0\0\0");
            put8(out, word | rest << (8 * length), length + 4);
        }
        _ => {
            out.extend_from_slice(msg_type);
            out.extend_from_slice(b"\x0134=");
        }
    }
    number(out, u64::from(seq));
    Started { start, body }
}

/// A number and the separator behind it.
#[inline(always)]
fn number(out: &mut Vec<u8>, number: u64) {
    if number < 10_000_000 {
        let (text, length) = digits::uint(number as u32);
        put8(out, text | END << (8 * length), length as usize + 1);
    } else {
        value::push_uint(out, number);
        out.push(SOH);
    }
}

/// Appends fields to a message.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    stamps: &'a mut StampWriter,
}

impl<'a> Writer<'a> {
    /// A writer at the end of `out`.
    #[inline(always)]
    pub fn new(out: &'a mut Vec<u8>, stamps: &'a mut StampWriter) -> Writer<'a> {
        Writer { out, stamps }
    }

    /// A field whose value and separator lie in a word, `length` bytes of it.
    #[inline(always)]
    fn word(&mut self, tag: Tag, word: u64, length: usize) {
        let name = tag.text.len();
        put16(self.out, u128::from(tag.word) | u128::from(word) << (8 * name), name + length);
    }

    /// Text; the caller vouches for its bytes: no separator in it, and it is not empty.
    #[inline(always)]
    pub fn text(&mut self, tag: Tag, text: &[u8]) {
        debug_assert!(!text.is_empty() && !text.contains(&SOH), "{} {text:?}", tag.number);
        if let (Some(word), length @ 1..=7) = (digits::short(text), text.len()) {
            return self.word(tag, word | END << (8 * length), length + 1);
        }
        self.out.extend_from_slice(tag.text);
        self.out.extend_from_slice(text);
        self.out.push(SOH);
    }

    /// Somebody else's identifier, at most fifteen bytes with blanks behind it, or `NONE`; control
    /// characters become `?`.
    #[inline(always)]
    pub fn padded<const N: usize>(&mut self, tag: Tag, text: &[u8; N]) {
        const BLANKS: u128 = u128::from_le_bytes([b' '; 16]);
        const HIGHS: u128 = u128::from_le_bytes([0x80; 16]);
        const { assert!(N < 16) };
        let mut wide = [b' '; 16];
        if let Some(place) = wide.first_chunk_mut::<N>() {
            *place = *text;
        }
        let word = u128::from_le_bytes(wide);
        // Some byte is below a blank; or all are blanks.
        if word.wrapping_sub(BLANKS) & !word & HIGHS != 0 || word == BLANKS {
            return self.odd(tag, wide);
        }
        let length = 16 - (word ^ BLANKS).leading_zeros() as usize / 8;
        // The blank behind the text becomes a separator.
        let text = word ^ u128::from(b' ' ^ SOH) << (8 * length);
        let name = tag.text.len();
        if name + length < 16 {
            let word = u128::from(tag.word) | text << (8 * name);
            return put16(self.out, word, name + length + 1);
        }
        put8(self.out, tag.word, name);
        put16(self.out, text, length + 1);
    }

    /// An identifier that is none, or has control characters in it.
    #[cold]
    #[inline(never)]
    fn odd(&mut self, tag: Tag, wide: [u8; 16]) {
        let text = wide.trim_ascii_end();
        self.foreign(tag, if text.is_empty() { b"NONE" } else { text });
    }

    /// Bytes of somebody else: separators and other control characters become `?`; nothing is
    /// written when they are none.
    pub fn foreign(&mut self, tag: Tag, text: &[u8]) {
        if !text.is_empty() {
            self.out.extend_from_slice(tag.text);
            let start = self.out.len();
            self.out.extend_from_slice(text);
            if text.iter().any(|&byte| byte < 32) {
                let written = self.out.get_mut(start..).unwrap_or(&mut []);
                written.iter_mut().filter(|byte| **byte < 32).for_each(|byte| *byte = b'?');
            }
            self.out.push(SOH);
        }
    }

    /// One character.
    #[inline(always)]
    pub fn char(&mut self, tag: Tag, char: u8) {
        let name = tag.text.len();
        put8(self.out, tag.word | (u64::from(char) | END << 8) << (8 * name), name + 2);
    }

    /// Y or N.
    #[inline(always)]
    pub fn flag(&mut self, tag: Tag, set: bool) {
        self.char(tag, if set { b'Y' } else { b'N' });
    }

    /// A number.
    #[inline(always)]
    pub fn uint(&mut self, tag: Tag, number: u64) {
        if number < 10_000_000 {
            let (text, length) = digits::uint(number as u32);
            return self.word(tag, text | END << (8 * length), length as usize + 1);
        }
        self.large(tag, number);
    }

    #[cold]
    #[inline(never)]
    fn large(&mut self, tag: Tag, number: u64) {
        self.out.extend_from_slice(tag.text);
        value::push_uint(self.out, number);
        self.out.push(SOH);
    }

    /// A number that may be negative.
    pub fn int(&mut self, tag: Tag, number: i64) {
        self.out.extend_from_slice(tag.text);
        value::push_int(self.out, number);
        self.out.push(SOH);
    }

    /// A price.
    #[inline(always)]
    pub fn price(&mut self, tag: Tag, price: Price) {
        self.decimal(tag, price.0, Places::Four);
    }

    /// `value` × 10^-`places`.
    #[inline(always)]
    pub fn decimal(&mut self, tag: Tag, value: i64, places: Places) {
        const WHOLES: u64 = 100_000_000;
        let (whole, part) = (value as u64 / 10_000, value as u64 % 10_000);
        // Negative numbers are large ones here.
        if places != Places::Four || whole >= WHOLES {
            return self.wide(tag, value, places);
        }
        let (text, length) = digits::uint(whole as u32);
        self.word(tag, text, length as usize);
        let decimals = digits::four(part as u32);
        let kept = 4 - decimals.leading_zeros() / 8;
        // The separator comes behind the last decimal that is not zero, without any at once.
        let point = u64::from(b'.') | u64::from(decimals + digits::ZEROS as u32) << 8;
        let ends = (8 * kept + 8) * u32::from(kept > 0);
        let kept_bits = (1u64 << ends) - 1;
        put8(self.out, point & kept_bits | END << ends, ends as usize / 8 + 1);
    }

    #[cold]
    #[inline(never)]
    fn wide(&mut self, tag: Tag, value: i64, places: Places) {
        self.out.extend_from_slice(tag.text);
        value::push_decimal(self.out, value, places);
        self.out.push(SOH);
    }

    /// A UTC time stamp with milliseconds.
    #[inline(always)]
    pub fn stamp(&mut self, tag: Tag, at: Nanos) {
        put8(self.out, tag.word, tag.text.len());
        self.stamp_value(at);
    }

    /// The value of a stamp and its separator.
    #[inline(always)]
    pub(crate) fn stamp_value(&mut self, at: Nanos) {
        let (head, tail) = self.stamps.words(at);
        put16(self.out, head, 16);
        put8(self.out, tail, 6);
    }

    /// A letter and a number, as identifiers are made.
    #[inline(always)]
    pub fn id(&mut self, tag: Tag, letter: u8, number: u64, suffix: &[u8]) {
        if number < 1_000_000 && suffix.len() < 2 {
            let (text, length) = digits::uint(number as u32);
            let end = suffix.first().map_or(END, |&suffix| u64::from(suffix) | END << 8);
            let name = tag.text.len();
            let word = u128::from(tag.word | u64::from(letter) << (8 * name))
                | u128::from(text | end << (8 * length)) << (8 * name + 8);
            return put16(self.out, word, name + 1 + length as usize + suffix.len() + 1);
        }
        self.out.extend_from_slice(tag.text);
        self.out.push(letter);
        value::push_uint(self.out, number);
        self.out.extend_from_slice(suffix);
        self.out.push(SOH);
    }

    /// Whole fields, each ended by a separator, as they are.
    #[inline(always)]
    pub fn raw(&mut self, fields: &[u8]) {
        self.out.extend_from_slice(fields);
    }

    #[inline(always)]
    pub(crate) fn piece(&mut self, piece: &Piece) {
        piece.put(self.out);
    }
}
