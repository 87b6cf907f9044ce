//! Messages written into a byte vector that the caller keeps: no allocation once it has grown.
//!
//! Fields are put on a page of fixed size, whole words at a place that is held in a register, and
//! leave it with the message; a message longer than the page leaves it in pieces. BodyLength is
//! filled in at the end; it is assumed to have three digits, and the body moves by a byte where it
//! has not.

use types::{Nanos, Price};

use crate::digits;
use crate::frame::SOH;
use crate::scan::checksum;
use crate::tag::Tag;
use crate::value::{self, Places, StampWriter};

/// Bytes of a page: about three times those of an ExecutionReport.
const PAGE: usize = 1_024;

/// Buffers for the encoding of messages, kept from message to message.
#[derive(Clone, Debug)]
pub struct Pen {
    stamps: StampWriter,
    page: Box<[u8; PAGE]>,
}

impl Default for Pen {
    fn default() -> Pen {
        Pen { stamps: StampWriter::default(), page: Box::new([0; PAGE]) }
    }
}

const END: u64 = SOH as u64;

/// A short text that is appended often; up to a fixed length it is appended in one operation.
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
}

/// The beginning of every message: BeginString(8), room for BodyLength(9), and the tag of
/// MsgType(35).
pub(crate) fn beginning(begin_string: &str) -> Piece {
    Piece::new(format!("8={begin_string}\x019=000\x0135=").into_bytes())
}

/// Appends fields. A message that was begun must be ended by [`Writer::finish`].
#[derive(Debug)]
pub struct Writer<'a> {
    page: &'a mut [u8; PAGE],
    /// Number of bytes written to the page.
    at: usize,
    out: &'a mut Vec<u8>,
    stamps: &'a mut StampWriter,
    /// Length of `out` when the first field was written.
    start: usize,
    /// Offset of the body, counted from the first field.
    body: usize,
}

/// Moves the contents of the page to the end of `out`; returns the new length of the page's
/// contents, 0.
#[cold]
#[inline(never)]
fn turn(page: &[u8; PAGE], at: usize, out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(page.get(..at).unwrap_or(page));
    0
}

impl Drop for Writer<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.at > 0 {
            self.out.extend_from_slice(self.page.get(..self.at).unwrap_or(&[]));
        }
    }
}

impl<'a> Writer<'a> {
    /// A writer for fields without a message around them, at the end of `out`.
    #[inline(always)]
    pub fn fields(out: &'a mut Vec<u8>, pen: &'a mut Pen) -> Writer<'a> {
        let start = out.len();
        Writer { page: &mut pen.page, at: 0, out, stamps: &mut pen.stamps, start, body: 0 }
    }

    /// Begins a message at the end of `out`: BeginString, BodyLength, MsgType.
    pub fn message(
        out: &'a mut Vec<u8>,
        pen: &'a mut Pen,
        begin_string: &str,
        msg_type: &[u8],
    ) -> Writer<'a> {
        let mut writer = Writer::fields(out, pen);
        writer.begin(&beginning(begin_string));
        writer.raw(msg_type);
        writer.raw(&[SOH]);
        writer
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self, beginning: &Piece) {
        self.piece(beginning);
        self.body = self.written() - b"35=".len();
    }

    /// Writes the same fields with a copy of the writer that `build` owns, so that its position
    /// stays in a register.
    #[inline(always)]
    pub(crate) fn own(&mut self, build: impl FnOnce(&mut Writer<'_>)) {
        let mut own = Writer {
            page: &mut *self.page,
            at: self.at,
            out: &mut *self.out,
            stamps: &mut *self.stamps,
            start: self.start,
            body: self.body,
        };
        build(&mut own);
        (self.at, self.body) = (std::mem::take(&mut own.at), own.body);
    }

    /// Number of bytes written so far.
    #[inline(always)]
    pub(crate) fn written(&self) -> usize {
        self.out.len() - self.start + self.at
    }

    /// The bytes written since `from`, an earlier result of [`Writer::written`].
    #[inline(always)]
    pub(crate) fn since(&mut self, from: usize) -> &[u8] {
        if self.out.len() == self.start {
            return self.page.get(from..self.at).unwrap_or(&[]);
        }
        self.at = turn(self.page, self.at, self.out);
        self.out.get(self.start + from..).unwrap_or(&[])
    }

    /// Ends the message: fills in BodyLength(9) and appends CheckSum(10).
    #[inline]
    pub fn finish(mut self) {
        let length = self.written() - self.body;
        if self.out.len() != self.start || !(100..1_000).contains(&length) {
            return self.finish_long(length);
        }
        let digits = digits::four(length as u32) + digits::ZEROS as u32;
        // Four digits: the first is 0 and lies where `=` belongs.
        let digits = digits & 0xffff_ff00 | u32::from(b'=');
        let end = self.body - 1;
        if let Some(place) = self.page.get_mut(end - 4..end) {
            place.copy_from_slice(&digits.to_le_bytes());
        }
        let sum = checksum(self.page.get(..self.at).unwrap_or(&[]));
        self.trailer(sum);
    }

    #[inline(always)]
    fn trailer(&mut self, sum: u8) {
        // Three digits behind a zero, which `=` takes the place of.
        let sum = u64::from(digits::four(u32::from(sum))) + (digits::ZEROS & 0xffff_ff00);
        self.put8(u64::from_le_bytes(*b"10=\0\0\0\x01\0") | (sum >> 8) << 24, 7);
    }

    /// Ends a message that left its page, or whose length does not have three digits.
    #[cold]
    #[inline(never)]
    fn finish_long(&mut self, length: usize) {
        self.at = turn(self.page, self.at, self.out);
        let mut text = Vec::with_capacity(8);
        value::push_uint(&mut text, length as u64);
        let end = self.start + self.body - 1;
        self.out.splice(end - 3..end, text);
        let sum = checksum(self.out.get(self.start..).unwrap_or(&[]));
        self.trailer(sum);
    }

    /// Appends the first `length` bytes of a word, the lowest byte first.
    #[inline(always)]
    fn put8(&mut self, word: u64, length: usize) {
        self.put(word.to_le_bytes(), length);
    }

    /// Appends the first `length` bytes of a word of 16 bytes, the lowest byte first.
    #[inline(always)]
    fn put16(&mut self, word: u128, length: usize) {
        self.put(word.to_le_bytes(), length);
    }

    /// Appends the first `length` bytes of an array.
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N], length: usize) {
        debug_assert!(length <= N);
        if self.at > PAGE - N {
            self.at = turn(self.page, self.at, self.out);
        }
        if let Some(place) = self.page.get_mut(self.at..self.at + N) {
            place.copy_from_slice(&bytes);
        }
        self.at += length;
    }

    /// Appends the value of MsgType(35), and MsgSeqNum(34).
    #[inline(always)]
    pub(crate) fn type_and_number(&mut self, msg_type: &[u8], seq: u32) {
        match (digits::short(msg_type), msg_type.len()) {
            (Some(word), length @ 1..=3) => {
                let rest = END | u64::from_le_bytes(*b"\x0034=\0\0\0\0");
                self.put8(word | rest << (8 * length), length + 4);
            }
            _ => {
                self.raw(msg_type);
                self.raw(b"\x0134=");
            }
        }
        self.number(u64::from(seq));
    }

    /// Appends a number in decimal and the separator.
    #[inline(always)]
    fn number(&mut self, number: u64) {
        if number < 10_000_000 {
            let (text, length) = digits::uint(number as u32);
            return self.put8(text | END << (8 * length), length as usize + 1);
        }
        let (text, length) = value::uint_text(number);
        self.put(text, length);
        self.put([SOH], 1);
    }

    /// Appends a field whose value and separator lie in a word, `length` bytes of it.
    #[inline(always)]
    fn word(&mut self, tag: Tag, word: u64, length: usize) {
        let name = tag.text.len();
        self.put16(u128::from(tag.word) | u128::from(word) << (8 * name), name + length);
    }

    #[inline(always)]
    fn name(&mut self, tag: Tag) {
        self.put8(tag.word, tag.text.len());
    }

    /// Appends a text field. The caller makes sure that the text is not empty and has no separator
    /// in it.
    #[inline(always)]
    pub fn text(&mut self, tag: Tag, text: &[u8]) {
        debug_assert!(!text.is_empty() && !text.contains(&SOH), "{} {text:?}", tag.number);
        if let (Some(word), length @ 1..=7) = (digits::short(text), text.len()) {
            return self.word(tag, word | END << (8 * length), length + 1);
        }
        self.name(tag);
        self.raw(text);
        self.put([SOH], 1);
    }

    /// Appends an identifier from outside, at most fifteen bytes padded with blanks, or `NONE` if
    /// it is blank; control characters become `?`.
    #[inline(always)]
    pub fn padded<const N: usize>(&mut self, tag: Tag, text: &[u8; N]) {
        const BLANKS: u128 = u128::from_le_bytes([b' '; 16]);
        const HIGHS: u128 = u128::from_le_bytes([0x80; 16]);
        const { assert!(N < 16) };
        let mut wide = [b' '; 16];
        if let Some(place) = wide.first_chunk_mut::<N>() {
            *place = *text;
        }
        let mut word = u128::from_le_bytes(wide);
        // Some byte is below a blank; or all are blanks.
        if word.wrapping_sub(BLANKS) & !word & HIGHS != 0 || word == BLANKS {
            word = u128::from_le_bytes(mended(wide));
        }
        let length = 16 - (word ^ BLANKS).leading_zeros() as usize / 8;
        // The blank behind the text becomes a separator.
        let text = word ^ u128::from(b' ' ^ SOH) << (8 * length);
        let name = tag.text.len();
        if name + length < 16 {
            let word = u128::from(tag.word) | text << (8 * name);
            return self.put16(word, name + length + 1);
        }
        self.name(tag);
        self.put16(text, length + 1);
    }

    /// Appends bytes from outside: separators and other control characters become `?`; an empty
    /// value is left out.
    pub fn foreign(&mut self, tag: Tag, text: &[u8]) {
        if !text.is_empty() {
            self.name(tag);
            for &byte in text {
                self.put([if byte < b' ' { b'?' } else { byte }], 1);
            }
            self.put([SOH], 1);
        }
    }

    /// Appends a field with one character.
    #[inline(always)]
    pub fn char(&mut self, tag: Tag, char: u8) {
        let name = tag.text.len();
        self.put8(tag.word | (u64::from(char) | END << 8) << (8 * name), name + 2);
    }

    /// Appends a field with `Y` or `N`.
    #[inline(always)]
    pub fn flag(&mut self, tag: Tag, set: bool) {
        self.char(tag, if set { b'Y' } else { b'N' });
    }

    /// Appends a field with a number without a sign, in decimal.
    #[inline(always)]
    pub fn uint(&mut self, tag: Tag, number: u64) {
        if number < 10_000_000 {
            let (text, length) = digits::uint(number as u32);
            return self.word(tag, text | END << (8 * length), length as usize + 1);
        }
        self.name(tag);
        self.number(number);
    }

    /// Appends a field with a number that may be negative, in decimal.
    pub fn int(&mut self, tag: Tag, number: i64) {
        self.name(tag);
        if number < 0 {
            self.put([b'-'], 1);
        }
        self.number(number.unsigned_abs());
    }

    /// Appends a field with a price, in units of the quote currency with up to four decimals.
    #[inline(always)]
    pub fn price(&mut self, tag: Tag, price: Price) {
        self.figure(tag, &Figure::new(price));
    }

    /// [`Writer::price`] for a price that is written several times and converted once.
    #[inline(always)]
    pub(crate) fn figure(&mut self, tag: Tag, figure: &Figure) {
        self.name(tag);
        if figure.length == 0 {
            let (text, length) = value::decimal_text(figure.price.0, Places::Four);
            self.put(text, length);
            return self.put([SOH], 1);
        }
        self.put16(figure.text, figure.length);
    }

    /// Appends a field with the decimal number `value` × 10^-`places`.
    pub fn decimal(&mut self, tag: Tag, value: i64, places: Places) {
        let (text, length) = value::decimal_text(value, places);
        self.name(tag);
        self.put(text, length);
        self.put([SOH], 1);
    }

    /// Appends a field with a UTC time stamp in milliseconds.
    #[inline(always)]
    pub fn stamp(&mut self, tag: Tag, at: Nanos) {
        self.name(tag);
        self.stamp_value(at);
    }

    /// Appends the value of a time stamp, in milliseconds, and the separator.
    #[inline(always)]
    pub(crate) fn stamp_value(&mut self, at: Nanos) {
        let (head, tail) = self.stamps.words(at);
        self.put16(head, 16);
        self.put8(tail, 6);
    }

    /// Appends two fields, UTCDateOnly and UTCTimeOnly of a time, in milliseconds.
    pub fn date_and_time(&mut self, date: Tag, time: Tag, at: Nanos) {
        let stamp = *self.stamps.text(at);
        // `YYYYMMDD-HH:MM:SS.mmm`
        let (day, of_day) = stamp.split_at(8);
        self.text(date, day);
        self.text(time, of_day.split_at(1).1);
    }

    /// Appends a field with an identifier made of a letter, a number and a suffix.
    #[inline(always)]
    pub fn id(&mut self, tag: Tag, letter: u8, number: u64, suffix: &[u8]) {
        if number < 1_000_000 && suffix.len() < 2 {
            let (text, length) = digits::uint(number as u32);
            let end = suffix.first().map_or(END, |&suffix| u64::from(suffix) | END << 8);
            let name = tag.text.len();
            let word = u128::from(tag.word | u64::from(letter) << (8 * name))
                | u128::from(text | end << (8 * length)) << (8 * name + 8);
            return self.put16(word, name + 1 + length as usize + suffix.len() + 1);
        }
        self.name(tag);
        self.put([letter], 1);
        let (text, length) = value::uint_text(number);
        self.put(text, length);
        self.raw(suffix);
        self.put([SOH], 1);
    }

    /// Appends bytes that are whole fields, each with its separator.
    #[inline(always)]
    pub fn raw(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        match self.page.get_mut(self.at..end) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.at = end;
            }
            None => {
                self.at = turn(self.page, self.at, self.out);
                self.out.extend_from_slice(bytes);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn piece(&mut self, piece: &Piece) {
        if piece.all.len() > piece.few.len() {
            return self.raw(&piece.all);
        }
        self.put(piece.few, piece.all.len());
    }
}

/// The text of a price, to be written several times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) price: Price,
    /// Digits and the separator behind them.
    text: u128,
    /// Length of text and separator; 0: the text does not fit `text`.
    length: usize,
}

impl Figure {
    /// Converts a price; the text fits if the price is not negative and has at most eight digits
    /// before the point.
    #[inline(always)]
    pub(crate) fn new(price: Price) -> Figure {
        const WHOLES: u64 = 100_000_000;
        let (whole, part) = (price.0 as u64 / 10_000, price.0 as u64 % 10_000);
        // Negative numbers are large ones here.
        if whole >= WHOLES {
            return Figure { price, text: 0, length: 0 };
        }
        let (text, wholes) = digits::uint(whole as u32);
        let decimals = digits::four(part as u32);
        let kept = 4 - decimals.leading_zeros() / 8;
        // The separator comes behind the last decimal that is not zero, without any at once.
        let point = u64::from(b'.') | u64::from(decimals + digits::ZEROS as u32) << 8;
        let ends = (8 * kept + 8) * u32::from(kept > 0);
        let kept_bits = (1u64 << ends) - 1;
        let rest = point & kept_bits | END << ends;
        let text = u128::from(text) | u128::from(rest) << (8 * wholes);
        Figure { price, text, length: (wholes + ends / 8 + 1) as usize }
    }
}

/// An identifier with `NONE` for blanks and `?` for control characters.
#[cold]
#[inline(never)]
fn mended(mut wide: [u8; 16]) -> [u8; 16] {
    if wide == [b' '; 16] {
        return *b"NONE            ";
    }
    wide.iter_mut().filter(|byte| **byte < b' ').for_each(|byte| *byte = b'?');
    wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag;

    /// A message that says `fill` texts and numbers, and what it is to be.
    fn message(fill: usize, pen: &mut Pen) -> (Vec<u8>, String) {
        let mut out = b"before".to_vec();
        let mut writer = Writer::message(&mut out, pen, "FIX.4.4", b"8");
        let mut body = String::from("35=8\x01");
        let mut seed = types::SplitMix64::new(fill as u64);
        for _ in 0..fill {
            let number = seed.next_u64() >> (seed.next_u64() % 64);
            let text = &"the quick brown fox jumps over the lazy dog"[..1 + number as usize % 42];
            writer.text(tag::TEXT, text.as_bytes());
            writer.uint(tag::ORDER_ID, number);
            writer.int(tag::CUM_QTY, -(number as i64 >> 1));
            writer.id(tag::EXEC_ID, b'E', number, &text.as_bytes()[..number as usize % 3]);
            body += &format!("58={text}\x0137={number}\x0114=-{}\x01", number as i64 >> 1);
            body = body.replace("=--", "=").replace("=-0\x01", "=0\x01");
            body += &format!("17=E{number}{}\x01", &text[..number as usize % 3]);
        }
        writer.finish();
        let whole = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
        let sum = whole.bytes().fold(0u8, u8::wrapping_add);
        (out, format!("before{whole}10={sum:03}\x01"))
    }

    #[test]
    fn messages_of_every_length_are_whole() {
        let mut pen = Pen::default();
        for fill in 0..200 {
            let (out, wanted) = message(fill, &mut pen);
            assert_eq!(String::from_utf8(out).unwrap(), wanted, "{fill}");
        }
    }

    #[test]
    fn what_is_written_can_be_read_back_on_either_side_of_the_page() {
        let mut pen = Pen::default();
        for size in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
            let mut out = b"before".to_vec();
            let mut writer = Writer::fields(&mut out, &mut pen);
            writer.char(tag::SIDE, b'1');
            let from = writer.written();
            writer.own(|writer| writer.raw(&vec![b'x'; size]));
            writer.char(tag::SIDE, b'2');
            let expected = [&vec![b'x'; size][..], b"54=2\x01"].concat();
            assert_eq!(writer.since(from), expected, "{size}");
            drop(writer);
            assert_eq!(out, [b"before54=1\x01", &expected[..]].concat(), "{size}");
        }
    }

    #[test]
    fn identifiers_of_others_are_mended() {
        let mut pen = Pen::default();
        let mut out = Vec::new();
        let mut writer = Writer::fields(&mut out, &mut pen);
        for text in [b"              ", b"a\x01b           ", b"ABCDEFGHIJKLMN"] {
            writer.padded(tag::MD_REQ_ID, text);
        }
        writer.foreign(tag::TEXT, b"a\x01\n");
        writer.foreign(tag::TEXT, b"");
        drop(writer);
        assert_eq!(out, b"262=NONE\x01262=a?b\x01262=ABCDEFGHIJKLMN\x0158=a??\x01");
    }
}
