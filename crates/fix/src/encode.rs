//! Messages written into a byte vector that the caller keeps: no allocation once it has grown.
//!
//! BodyLength is patched when the message is finished; it is assumed to have three digits, and the
//! body moves by a byte where it has not.

use types::{Nanos, Price};

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
    let sum = checksum(out.get(start..).unwrap_or(&[]));
    let sum = usize::from(sum);
    out.extend_from_slice(b"10=");
    out.extend_from_slice(&[digits(sum / 100), digits(sum / 10), digits(sum), SOH]);
}

/// Writes a length that has not three digits, moving the body; returns where it is now.
#[cold]
fn resize_length(out: &mut Vec<u8>, body: usize, length: usize) -> usize {
    let mut text = Vec::with_capacity(8);
    value::push_uint(&mut text, length as u64);
    out.splice(body - 4..body - 1, text.iter().copied());
    body + text.len() - 3
}

/// Appends fields to a message.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    stamps: &'a mut StampWriter,
}

impl<'a> Writer<'a> {
    /// A writer at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, stamps: &'a mut StampWriter) -> Writer<'a> {
        Writer { out, stamps }
    }

    /// Text; the caller vouches for its bytes: no separator in it, and it is not empty.
    #[inline(always)]
    pub fn text(&mut self, tag: Tag, text: &[u8]) {
        debug_assert!(!text.is_empty() && !text.contains(&SOH), "{} {text:?}", tag.number);
        self.out.extend_from_slice(tag.text);
        self.out.extend_from_slice(text);
        self.out.push(SOH);
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
        self.out.extend_from_slice(tag.text);
        self.out.extend_from_slice(&[char, SOH]);
    }

    /// Y or N.
    #[inline(always)]
    pub fn flag(&mut self, tag: Tag, set: bool) {
        self.char(tag, if set { b'Y' } else { b'N' });
    }

    /// A number.
    #[inline(always)]
    pub fn uint(&mut self, tag: Tag, number: u64) {
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
        self.out.extend_from_slice(tag.text);
        value::push_price(self.out, price);
        self.out.push(SOH);
    }

    /// `value` × 10^-`places`.
    #[inline(always)]
    pub fn decimal(&mut self, tag: Tag, value: i64, places: Places) {
        self.out.extend_from_slice(tag.text);
        value::push_decimal(self.out, value, places);
        self.out.push(SOH);
    }

    /// A UTC time stamp with milliseconds.
    #[inline(always)]
    pub fn stamp(&mut self, tag: Tag, at: Nanos) {
        self.out.extend_from_slice(tag.text);
        self.out.extend_from_slice(self.stamps.text(at));
        self.out.push(SOH);
    }

    /// A letter and a number, as identifiers are made.
    #[inline(always)]
    pub fn id(&mut self, tag: Tag, letter: u8, number: u64, suffix: &[u8]) {
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
}
