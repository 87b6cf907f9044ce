//! A checked, zero-copy view of one message.
//!
//! [`FieldIndex::parse`] accepts exactly the messages that are not garbled in the sense of the
//! session protocol: BeginString, BodyLength and MsgType come first and in this order, BodyLength
//! and CheckSum are right, every field is `number=value`. Everything else (unknown tags, empty
//! values, missing fields, order) is for the dictionary to judge, since such a message uses its
//! sequence number. Values of data fields may hold any byte; the length field before them says
//! where they end. The index is reused: no allocation once it has grown, at most [`FIELDS_MAX`].

use crate::digits::ZEROS;
use crate::frame::SOH;
use crate::scan::{BLOCK, checksum, look, look_last};
use crate::tag;

/// Most fields of a message; one with more is garbled.
pub const FIELDS_MAX: usize = 4_096;

/// Why bytes are not a message (garbled, in the words of the session protocol).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Garbled {
    /// The first three fields are not BeginString(8), BodyLength(9) and MsgType(35).
    FirstFields,
    /// BodyLength(9) is not a number, or not the length of the body.
    BodyLength,
    /// CheckSum(10) is not three digits at the end of the message, or is wrong.
    CheckSum,
    /// A field does not begin with a number and `=`.
    Tag,
    /// A data field does not have the length that the field before it states, or is missing.
    DataLength,
    /// The message has more than [`FIELDS_MAX`] fields.
    TooManyFields,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Entry {
    tag: i32,
    start: u32,
    end: u32,
}

/// Positions of the fields of one message; kept from message to message.
#[derive(Clone, Debug, Default)]
pub struct FieldIndex {
    /// One entry per field, as many as the longest message so far had; of a shorter one the rest is
    /// stale.
    slots: Vec<Entry>,
}

/// One field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// Tag of the field; may be zero or negative, which no dictionary defines.
    pub tag: i32,
    /// Value of the field, without its separator; may be empty.
    pub value: &'a [u8],
}

/// A message whose framing, checksum and fields have been checked.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    /// All fields in order, without the CheckSum at the end.
    entries: &'a [Entry],
}

/// The data field whose length the field `tag` states; `None` for other tags.
pub const fn data_tag(tag: i32) -> Option<i32> {
    Some(match tag {
        93 => 89,
        90 | 95 | 348 | 350 | 352 | 354 | 356 | 358 | 360 | 362 | 364 | 212 | 445 | 618 | 621 => {
            tag + 1
        }
        1184 | 1277 | 1280 | 1282 | 1397 | 1468 | 1620 => tag + 1,
        1401 => 1402,
        1403 => 1404,
        _ => return None,
    })
}

impl FieldIndex {
    /// Checks `bytes`, one whole message as [`crate::Framer`] cuts it, and finds its fields.
    #[inline]
    pub fn parse<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Message<'a>, Garbled> {
        let (body, stated) = trailer(bytes)?;
        // A field has more than two bytes.
        let most = (body.len() / 2).min(FIELDS_MAX);
        if self.slots.len() < most {
            self.slots.resize(most, Entry::default());
        }
        let count = match scan(bytes, body, &mut self.slots) {
            Some((count, sum)) if sum == stated => count,
            Some(_) => return Err(Garbled::CheckSum),
            None => split(bytes, body, stated, &mut self.slots)?,
        };
        let entries = self.slots.get(..count).unwrap_or(&[]);
        let [begin, length, msg_type, ..] = entries else {
            return Err(Garbled::FirstFields);
        };
        if (begin.tag, length.tag, msg_type.tag) != (8, 9, 35) {
            return Err(Garbled::FirstFields);
        }
        let stated = bytes.get(length.start as usize..length.end as usize);
        let stated = stated.and_then(crate::value::uint);
        if stated != Some((body.len() - length.end as usize - 1) as u64) {
            return Err(Garbled::BodyLength);
        }
        Ok(Message { bytes, entries })
    }
}

/// Finds the fields of `body`, all of `bytes` but the trailer, and says how many they are and what
/// the sum of the body is; `None` when one is a data field, has a tag out of the ordinary or is
/// wrong. First where fields end, then tag by tag: two loops that live in registers.
#[inline]
fn scan(bytes: &[u8], body: &[u8], slots: &mut [Entry]) -> Option<(usize, u8)> {
    let (blocks, rest) = body.as_chunks::<BLOCK>();
    let all = slots.len();
    let mut free = slots.iter_mut();
    let mut total = 0u8;
    for number in 0..blocks.len() + 1 {
        let (mut found, sum) = match blocks.get(number) {
            Some(block) => look(block),
            None => look_last(body, rest.len()),
        };
        total = total.wrapping_add(sum);
        while found != 0 {
            free.next()?.end = (number * BLOCK) as u32 | found.trailing_zeros();
            found &= found - 1;
        }
    }
    let count = all - free.len();
    tags(bytes, slots.get_mut(..count)?).then_some((count, total))
}

/// Reads the tags of fields whose ends are known; false as soon as one is out of the ordinary. A
/// separator is no digit, so nothing beyond the end of a field is taken for its tag.
#[inline]
fn tags(bytes: &[u8], entries: &mut [Entry]) -> bool {
    let mut start = 0;
    let Some(last) = bytes.len().checked_sub(8) else { return false };
    for entry in entries {
        // One comparison instead of two.
        if start > last {
            return false;
        }
        let Some(head) = bytes.get(start..start + 8).and_then(<[u8]>::first_chunk) else {
            return false;
        };
        let head = u64::from_le_bytes(*head);
        // Digits as numbers and `=` as zero, or bits outside the mask.
        let two = head as u32 ^ u32::from_le_bytes(*b"00=\0");
        let one = head as u16 ^ u16::from_le_bytes(*b"0=");
        let (tag, length) = if (two | two.wrapping_add(0x0606)) & 0x00ff_f0f0 == 0 {
            (two.wrapping_mul(0x0a01) >> 8 & 0xff, 3)
        } else if one <= 9 {
            (u32::from(one), 2)
        } else {
            let found = tag_of(head);
            (found >> 8, (found & 0xff) as usize)
        };
        if tag >= 90 && (states_length(tag) || length == 0) {
            return false;
        }
        entry.tag = tag as i32;
        entry.start = (start + length) as u32;
        start = entry.end as usize + 1;
    }
    true
}

/// Whether `tag` states the length of a data field; the table has one bit for each tag.
#[inline(always)]
fn states_length(tag: u32) -> bool {
    const WORDS: usize = 26;
    static BITS: [u64; WORDS] = {
        let mut bits = [0; WORDS];
        let mut tag = 0;
        while tag < 64 * WORDS {
            if data_tag(tag as i32).is_some() {
                bits[tag / 64] |= 1 << (tag % 64);
            }
            tag += 1;
        }
        bits
    };
    BITS.get(tag as usize / 64).is_some_and(|bits| bits >> (tag % 64) & 1 == 1)
}

/// A tag of one to seven digits, shifted by a byte, and the length of it with its `=` in that
/// byte; or a number that is no tag's, with the length 0.
#[inline(never)]
fn tag_of(head: u64) -> u32 {
    const NONE: u32 = u32::MAX << 8;
    let three = head as u32 ^ u32::from_le_bytes(*b"000=");
    if (three | three.wrapping_add(0x06_0606)) & 0xfff0_f0f0 == 0 {
        let tag = (three & 0xff) * 100 + (three >> 8 & 0xff) * 10 + (three >> 16);
        return tag << 8 | 4;
    }
    // The first byte that is `=`: exact up to there ("Hacker's Delight" 6-1).
    let equals = head ^ u64::from_le_bytes(*b"========");
    let bits = (equals.wrapping_sub(ONES) & !equals & HIGHS).trailing_zeros() & !7;
    let digits = (head ^ ZEROS).wrapping_shl(64 - bits);
    if !(8..64).contains(&bits) || (digits | digits.wrapping_add(SIXES)) & NIBBLES != 0 {
        return NONE;
    }
    // Digits, pairs and fours side by side; the first has the lowest place in the word.
    let pairs = (digits.wrapping_mul(0x0a01) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(0x0064_0001) >> 16) & 0x0000_ffff_0000_ffff;
    let tag = fours.wrapping_mul(0x2710_0000_0001) >> 32;
    (tag as u32) << 8 | (bits / 8 + 1)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
const SIXES: u64 = 0x0606_0606_0606_0606;
const NIBBLES: u64 = 0xf0f0_f0f0_f0f0_f0f0;

/// Finds the fields of `body` one after the other, whatever they are, or says what is wrong with
/// the message whose sum should be `stated`.
#[cold]
fn split(bytes: &[u8], body: &[u8], stated: u8, slots: &mut [Entry]) -> Result<usize, Garbled> {
    // The sum comes first, whatever else is wrong.
    if checksum(body) != stated {
        return Err(Garbled::CheckSum);
    }
    let mut free = slots.iter_mut().take(FIELDS_MAX);
    let (mut start, mut count) = (0, 0);
    let mut data = None;
    while start < body.len() {
        let (tag, from) = match (tag_at(body, start), data) {
            (Ok(found), _) => found,
            (Err(_), Some(_)) => return Err(Garbled::DataLength),
            (Err(garbled), None) => return Err(garbled),
        };
        let end = match data {
            // The field before said what comes and how long it is.
            Some((wanted, length)) => from
                .checked_add(length)
                .filter(|&end| tag == wanted && body.get(end) == Some(&SOH))
                .ok_or(Garbled::DataLength)?,
            None => start + separator(body.get(start..)).ok_or(Garbled::Tag)?,
        };
        *free.next().ok_or(Garbled::TooManyFields)? =
            Entry { tag, start: from as u32, end: end as u32 };
        count += 1;
        start = end + 1;
        data = match data_tag(tag).filter(|_| data.is_none()) {
            Some(wanted) => {
                let length = bytes.get(from..end).and_then(crate::value::uint);
                let length = length.and_then(|length| usize::try_from(length).ok());
                Some((wanted, length.ok_or(Garbled::DataLength)?))
            }
            None => None,
        };
    }
    if data.is_some() { Err(Garbled::DataLength) } else { Ok(count) }
}

fn separator(bytes: Option<&[u8]>) -> Option<usize> {
    bytes?.iter().position(|&byte| byte == SOH)
}

/// The tag that begins at `start`, of at most nine digits and perhaps negative, and where its
/// value begins.
fn tag_at(body: &[u8], start: usize) -> Result<(i32, usize), Garbled> {
    let field = body.get(start..).unwrap_or(&[]);
    let length = field.iter().take(11).position(|&byte| byte == b'=').ok_or(Garbled::Tag)?;
    let (negative, digits) = match field.get(..length).unwrap_or(&[]) {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let tag = crate::value::uint(digits).filter(|_| digits.len() <= 9).ok_or(Garbled::Tag)?;
    let tag = i32::try_from(tag).map_err(|_| Garbled::Tag)?;
    Ok((if negative { -tag } else { tag }, start + length + 1))
}

/// The body and the sum that the trailer states; an error when the trailer has another form.
#[inline(always)]
fn trailer(bytes: &[u8]) -> Result<(&[u8], u8), Garbled> {
    let last = bytes.last_chunk::<8>().ok_or(Garbled::CheckSum)?;
    // Zero but for the three digits, which are numbers from 0 to 9.
    let form = u64::from_le_bytes(*last) ^ u64::from_le_bytes(*b"\x0110=000\x01");
    if (form | form.wrapping_add(0x0006_0606_0000_0000)) & 0xfff0_f0f0_ffff_ffff != 0 {
        return Err(Garbled::CheckSum);
    }
    let digit = |at: u32| (form >> (8 * at)) as u32 & 0xff;
    let stated = digit(4) * 100 + digit(5) * 10 + digit(6);
    let stated = u8::try_from(stated).map_err(|_| Garbled::CheckSum)?;
    Ok((bytes.get(..bytes.len() - 7).unwrap_or(&[]), stated))
}

impl<'a> Message<'a> {
    /// All bytes of the message, header to trailer.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    #[inline]
    fn field_of(&self, entry: Entry) -> Field<'a> {
        let value = self.bytes.get(entry.start as usize..entry.end as usize).unwrap_or(&[]);
        Field { tag: entry.tag, value }
    }

    /// Number of fields, without CheckSum(10).
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Always false: the first three fields are always there.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The field with this index, from 0; `None` behind the last one.
    #[inline]
    pub fn field(&self, index: usize) -> Option<Field<'a>> {
        self.entries.get(index).map(|&entry| self.field_of(entry))
    }

    /// All fields in order, without CheckSum(10).
    #[inline]
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let message = *self;
        self.entries.iter().map(move |&entry| message.field_of(entry))
    }

    /// Value of the first field with this tag; `None`: there is none.
    #[inline]
    pub fn get(&self, tag: u32) -> Option<&'a [u8]> {
        let tag = i32::try_from(tag).ok()?;
        let entry = self.entries.iter().find(|entry| entry.tag == tag)?;
        Some(self.field_of(*entry).value)
    }

    /// Value of BeginString(8), the first field.
    pub fn begin_string(&self) -> &'a [u8] {
        self.field(0).map_or(&[], |field| field.value)
    }

    /// Value of MsgType(35), the third field.
    #[inline]
    pub fn msg_type(&self) -> &'a [u8] {
        self.field(2).map_or(&[], |field| field.value)
    }

    /// MsgSeqNum(34), if it is there and a number of at most 32 bits.
    pub fn seq_num(&self) -> Option<u32> {
        self.get(tag::MSG_SEQ_NUM.number).and_then(crate::value::uint)?.try_into().ok()
    }

    /// Whether the field `tag` is there and has the value `Y`.
    pub fn flag(&self, tag: u32) -> bool {
        self.get(tag) == Some(b"Y")
    }

    /// The instances of the repeating group that the field `count` announces and whose first
    /// field is `delimiter`: each instance's fields up to the next delimiter, for a group that is
    /// followed by nothing that belongs to it. At most as many as announced.
    pub fn group(&self, count: u32, delimiter: u32) -> Group<'a> {
        let (count, delimiter) = (count as i32, delimiter as i32);
        let at = self.entries.iter().position(|entry| entry.tag == count);
        let stated = at.and_then(|at| self.field(at)).and_then(|f| crate::value::uint(f.value));
        let entries = at.and_then(|at| self.entries.get(at + 1..)).unwrap_or(&[]);
        let left = stated.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        Group { bytes: self.bytes, entries, delimiter, left }
    }
}

/// Iterator over the instances of a group; each is a [`Message`] of the fields that are left.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    bytes: &'a [u8],
    entries: &'a [Entry],
    delimiter: i32,
    left: usize,
}

impl<'a> Iterator for Group<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let first = self.entries.first().filter(|entry| entry.tag == self.delimiter);
        if self.left == 0 || first.is_none() {
            return None;
        }
        self.left -= 1;
        let next = self.entries.iter().skip(1).position(|entry| entry.tag == self.delimiter);
        let length = next.map_or(self.entries.len(), |at| at + 1);
        let (instance, rest) = self.entries.split_at_checked(length)?;
        self.entries = rest;
        Some(Message { bytes: self.bytes, entries: instance })
    }
}
