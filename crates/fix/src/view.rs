//! A checked, zero-copy view of one message.
//!
//! [`FieldIndex::parse`] accepts exactly the messages that are not garbled in the sense of the
//! session protocol: BeginString, BodyLength and MsgType come first and in this order, BodyLength
//! and CheckSum are right, every field is `number=value`. Everything else (unknown tags, empty
//! values, missing fields, order) is for the dictionary to judge, since such a message uses its
//! sequence number. Values of data fields may hold any byte; the length field before them says
//! where they end. The index is reused: no allocation once it has grown, at most [`FIELDS_MAX`].

use crate::frame::SOH;
use crate::tag;

/// Most fields of a message; one with more is garbled.
pub const FIELDS_MAX: usize = 4_096;

/// Why a message is garbled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Garbled {
    /// The first three fields are not BeginString, BodyLength and MsgType.
    FirstFields,
    /// BodyLength is no number, or not the length of the body.
    BodyLength,
    /// CheckSum is not three digits at the end, or wrong.
    CheckSum,
    /// A field does not begin with a number and `=`.
    Tag,
    /// A data field does not have the length that was said, or is missing.
    DataLength,
    /// More than [`FIELDS_MAX`] fields.
    TooManyFields,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Entry {
    tag: i32,
    start: u32,
    end: u32,
}

/// Where the fields of a message are.
#[derive(Clone, Debug, Default)]
pub struct FieldIndex {
    /// As many as any message had; the rest of a shorter one's are old.
    slots: Vec<Entry>,
}

/// One field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field<'a> {
    /// Its number; may be zero or negative, which no dictionary knows.
    pub tag: i32,
    /// Its value, possibly empty.
    pub value: &'a [u8],
}

/// One message that is not garbled.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    /// All fields but the trailing CheckSum.
    entries: &'a [Entry],
}

/// Sum of all bytes modulo 256, as CheckSum(10) wants it.
#[inline]
pub fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte))
}

/// The data field whose length `tag` states, if it states one.
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
    pub fn parse<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Message<'a>, Garbled> {
        let body_end = body_end(bytes)?;
        // A field has at least three bytes: `1=` and the separator.
        let most = (body_end / 3 + 1).min(FIELDS_MAX);
        if self.slots.len() < most {
            self.slots.resize(most, Entry::default());
        }
        let count = scan(bytes, body_end, &mut self.slots)?;
        let entries = self.slots.get(..count).unwrap_or(&[]);
        let [begin, length, msg_type, ..] = entries else {
            return Err(Garbled::FirstFields);
        };
        if (begin.tag, length.tag, msg_type.tag) != (8, 9, 35) {
            return Err(Garbled::FirstFields);
        }
        let stated = bytes.get(length.start as usize..length.end as usize);
        let stated = stated.and_then(crate::value::uint);
        if stated != Some((body_end - length.end as usize - 1) as u64) {
            return Err(Garbled::BodyLength);
        }
        Ok(Message { bytes, entries })
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The high bit of every byte of `word` that is the separator, and perhaps of a zero byte right
/// after one ("Hacker's Delight" 6-1).
#[inline(always)]
fn separators(word: u64) -> u64 {
    let flipped = word ^ ONES;
    flipped.wrapping_sub(ONES) & !flipped & HIGHS
}

/// Finds the fields of `bytes[..body_end]`, and says how many they are. Separators are found eight
/// bytes at a time; the seven bytes of the trailer make sure that the last of the body lies in a
/// whole word, and that eight bytes can be read where any field begins.
fn scan(bytes: &[u8], body_end: usize, slots: &mut [Entry]) -> Result<usize, Garbled> {
    let (words, _) = bytes.as_chunks::<8>();
    let (mut start, mut count) = (0, 0);
    for (number, word) in words.iter().enumerate() {
        let mut found = separators(u64::from_le_bytes(*word));
        while found != 0 {
            let end = number * 8 + (found.trailing_zeros() / 8) as usize;
            found &= found - 1;
            // Within a data field, the trailer, or no separator after all.
            if end < start || end >= body_end || bytes.get(end) != Some(&SOH) {
                continue;
            }
            let (tag, offset) = tag_at(bytes, start, end)?;
            put(slots, &mut count, Entry { tag, start: (start + offset) as u32, end: end as u32 })?;
            let from = start + offset;
            start = end + 1;
            if tag >= 90
                && let Some(entry) = data_after(bytes, body_end, tag, from..end)?
            {
                start = entry.end as usize + 1;
                put(slots, &mut count, entry)?;
            }
        }
    }
    Ok(count)
}

#[inline(always)]
fn put(slots: &mut [Entry], count: &mut usize, entry: Entry) -> Result<(), Garbled> {
    *slots.get_mut(*count).ok_or(Garbled::TooManyFields)? = entry;
    *count += 1;
    Ok(())
}

/// The tag of the field `bytes[start..end]`, and where its value begins. Two digits are the rule
/// and are read as one word; a separator is no digit, so nothing beyond `end` is taken for a tag.
#[inline(always)]
fn tag_at(bytes: &[u8], start: usize, end: usize) -> Result<(i32, usize), Garbled> {
    let Some(head) = bytes.get(start..).and_then(<[u8]>::first_chunk::<4>) else {
        return Err(Garbled::Tag);
    };
    let [a, b, c, d] = head.map(|byte| u32::from(byte.wrapping_sub(b'0')));
    // What `=` is after the subtraction.
    const EQUALS: u32 = (b'=' - b'0') as u32;
    if c == EQUALS && a <= 9 && b <= 9 {
        Ok(((a * 10 + b) as i32, 3))
    } else if b == EQUALS && a <= 9 {
        Ok((a as i32, 2))
    } else if d == EQUALS && a <= 9 && b <= 9 && c <= 9 {
        Ok(((a * 100 + b * 10 + c) as i32, 4))
    } else {
        long_tag(bytes.get(start..end).unwrap_or(&[]))
    }
}

/// Tags of four and more digits, and negative ones.
#[inline(never)]
fn long_tag(field: &[u8]) -> Result<(i32, usize), Garbled> {
    let length = field.iter().take(11).position(|&byte| byte == b'=').ok_or(Garbled::Tag)?;
    let text = field.get(..length).unwrap_or(&[]);
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let tag = crate::value::uint(digits).filter(|_| digits.len() <= 9).ok_or(Garbled::Tag)?;
    let tag = i32::try_from(tag).map_err(|_| Garbled::Tag)?;
    Ok((if negative { -tag } else { tag }, length + 1))
}

/// The data field after the field `tag` with the value `bytes[stated]`, if that is a length.
#[inline(never)]
fn data_after(
    bytes: &[u8],
    body_end: usize,
    tag: i32,
    stated: std::ops::Range<usize>,
) -> Result<Option<Entry>, Garbled> {
    let Some(wanted) = data_tag(tag) else { return Ok(None) };
    let start = stated.end + 1;
    let length = bytes.get(stated).and_then(crate::value::uint);
    let length = length.and_then(|length| usize::try_from(length).ok());
    let length = length.ok_or(Garbled::DataLength)?;
    let (tag, offset) = tag_at(bytes, start, body_end).map_err(|_| Garbled::DataLength)?;
    let from = start + offset;
    let end = from.checked_add(length).filter(|&end| end < body_end);
    let end = end.ok_or(Garbled::DataLength)?;
    if tag != wanted || bytes.get(end) != Some(&SOH) {
        return Err(Garbled::DataLength);
    }
    Ok(Some(Entry { tag, start: from as u32, end: end as u32 }))
}

/// Where the trailer begins; checks its form and the sum.
fn body_end(bytes: &[u8]) -> Result<usize, Garbled> {
    let (body, trailer) = bytes.split_last_chunk::<7>().ok_or(Garbled::CheckSum)?;
    let [b'1', b'0', b'=', a, b, c, SOH] = *trailer else { return Err(Garbled::CheckSum) };
    let stated = crate::value::uint(&[a, b, c]).ok_or(Garbled::CheckSum)?;
    if stated != u64::from(checksum(body)) || body.last() != Some(&SOH) {
        return Err(Garbled::CheckSum);
    }
    Ok(body.len())
}

impl<'a> Message<'a> {
    /// The whole message.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn field_of(&self, entry: Entry) -> Field<'a> {
        let value = self.bytes.get(entry.start as usize..entry.end as usize).unwrap_or(&[]);
        Field { tag: entry.tag, value }
    }

    /// How many fields there are, CheckSum not counted.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never: the first three fields are always there.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The field at `index`.
    #[inline]
    pub fn field(&self, index: usize) -> Option<Field<'a>> {
        self.entries.get(index).map(|&entry| self.field_of(entry))
    }

    /// All fields but CheckSum, in order.
    #[inline]
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let message = *self;
        self.entries.iter().map(move |&entry| message.field_of(entry))
    }

    /// The first field `tag`.
    pub fn get(&self, tag: u32) -> Option<&'a [u8]> {
        let tag = i32::try_from(tag).ok()?;
        let entry = self.entries.iter().find(|entry| entry.tag == tag)?;
        Some(self.field_of(*entry).value)
    }

    /// BeginString(8).
    pub fn begin_string(&self) -> &'a [u8] {
        self.field(0).map_or(&[], |field| field.value)
    }

    /// MsgType(35).
    pub fn msg_type(&self) -> &'a [u8] {
        self.field(2).map_or(&[], |field| field.value)
    }

    /// MsgSeqNum(34), if it is there and a number of at most 32 bits.
    pub fn seq_num(&self) -> Option<u32> {
        self.get(tag::MSG_SEQ_NUM.number).and_then(crate::value::uint)?.try_into().ok()
    }

    /// Whether the flag `tag` is there and Y.
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
