//! A message held against its dictionaries.
//!
//! The first fault counts: fields out of order, then missing ones (ascending by tag, header first),
//! then field by field. Work is linear in the message; memory is that of the tables, kept. Most
//! messages are valid and simple, which [`super::table`] sees in one pass.

use super::table::Marks;
use super::{Block, Dictionary, FieldDef, Kind, Rules};
use crate::view::Message;

/// Why a message is refused at session level: SessionRejectReason(373).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum RejectReason {
    /// No dictionary of the session defines the tag.
    InvalidTag = 0,
    /// A field that the message type requires is missing.
    RequiredTagMissing = 1,
    /// The field exists, but not in this message type.
    TagNotDefined = 2,
    /// The field has an empty value.
    NoValue = 4,
    /// The value is not in the list of values of its field.
    ValueIncorrect = 5,
    /// The value does not have the form of its field's type.
    DataFormat = 6,
    /// SenderCompID or TargetCompID is not the session's.
    CompId = 9,
    /// SendingTime is too far from the exchange's clock, or before OrigSendingTime.
    SendingTime = 10,
    /// The message type does not exist in the dictionary.
    InvalidMsgType = 11,
    /// The field occurs twice where it may occur once.
    TagTwice = 13,
    /// A header field after the body has begun, or a body field after the trailer has.
    OutOfOrder = 14,
    /// An instance of a group does not begin with the group's first field.
    GroupOrder = 15,
    /// The number of instances of a group differs from the count that was given.
    GroupCount = 16,
    /// The application version is not the one agreed for the session.
    ApplicationVersion = 18,
    /// Another reason; Text(58) tells it.
    Other = 99,
}

impl RejectReason {
    /// Text(58) that is sent with the reason.
    pub const fn text(self) -> &'static str {
        match self {
            RejectReason::InvalidTag => "Invalid tag number",
            RejectReason::RequiredTagMissing => "Required tag missing",
            RejectReason::TagNotDefined => "Tag not defined for this message type",
            RejectReason::NoValue => "Tag specified without a value",
            RejectReason::ValueIncorrect => "Value is incorrect (out of range) for this tag",
            RejectReason::DataFormat => "Incorrect data format for value",
            RejectReason::CompId => "CompID problem",
            RejectReason::SendingTime => "SendingTime accuracy problem",
            RejectReason::InvalidMsgType => "Invalid MsgType",
            RejectReason::TagTwice => "Tag appears more than once",
            RejectReason::OutOfOrder => "Tag specified out of required order",
            RejectReason::GroupOrder => "Repeating group fields out of order",
            RejectReason::GroupCount => "Incorrect NumInGroup count for repeating group",
            RejectReason::ApplicationVersion => "Unsupported application version",
            RejectReason::Other => "Message refused",
        }
    }
}

/// The first error that was found in a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Reason of the refusal: SessionRejectReason(373).
    pub reason: RejectReason,
    /// Tag of the field at fault: RefTagID(371); `None`: no single field is at fault.
    pub tag: Option<i32>,
}

/// What happens to tags of 5000 and above that the dictionary does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CustomTags {
    /// They are refused like any unknown tag.
    #[default]
    Refused,
    /// They are accepted; the exchange does not read them.
    Tolerated,
}

/// Lowest tag that is free for bilateral use.
const CUSTOM_FROM: u32 = 5_000;

/// Checks messages against dictionaries; keeps its tables from message to message.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    seen: Seen,
    met: Seen,
    marks: Marks,
}

/// Which tags have occurred in the message, and which words of the bit table have to be cleared.
#[derive(Clone, Debug, Default)]
struct Seen {
    words: Vec<u64>,
    dirty: Vec<u16>,
}

impl Seen {
    fn clear(&mut self) {
        for &word in &self.dirty {
            if let Some(word) = self.words.get_mut(usize::from(word)) {
                *word = 0;
            }
        }
        self.dirty.clear();
    }

    /// Marks `tag`; returns whether it was marked before. Tags that no dictionary can have are not
    /// marked.
    #[inline]
    fn mark(&mut self, tag: u32) -> bool {
        if tag > super::TAG_MAX {
            return false;
        }
        let index = tag as usize / 64;
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let Some(word) = self.words.get_mut(index) else { return false };
        let bit = 1u64 << (tag % 64);
        let before = *word & bit != 0;
        if *word == 0 {
            self.dirty.push(index as u16);
        }
        *word |= bit;
        before
    }

    fn has(&self, tag: u32) -> bool {
        let word = self.words.get(tag as usize / 64).copied().unwrap_or(0);
        word >> (tag % 64) & 1 == 1
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Body,
    Trailer,
}

fn fault<T>(reason: RejectReason, tag: i32) -> Result<T, Fault> {
    Err(Fault { reason, tag: Some(tag) })
}

impl Checker {
    /// Checks a message against the dictionaries of a session.
    #[inline]
    pub fn check(
        &mut self,
        rules: &Rules,
        custom: CustomTags,
        message: &Message<'_>,
    ) -> Result<(), Fault> {
        if rules.tables.valid(&mut self.marks, message) {
            return Ok(());
        }
        self.judge(rules, custom, message)
    }

    /// Checks a message that the fast check could not accept, and says what is wrong with it.
    fn judge(
        &mut self,
        rules: &Rules,
        custom: CustomTags,
        message: &Message<'_>,
    ) -> Result<(), Fault> {
        let Some((dictionary, definition)) = rules.message(message.msg_type()) else {
            return Err(Fault { reason: RejectReason::InvalidMsgType, tag: None });
        };
        let transport = &*rules.transport;
        let run = Run { transport, dictionary, body: &definition.body, custom, message };
        self.seen.clear();
        let twice = run.structure(&mut self.seen)?;
        for block in [&transport.header, &definition.body, &transport.trailer] {
            // CheckSum is not in the view; that it is there has been checked.
            let missing = block.required().iter().find(|&&tag| tag != 10 && !self.seen.has(tag));
            if let Some(&tag) = missing {
                return fault(RejectReason::RequiredTagMissing, tag as i32);
            }
        }
        self.met.clear();
        run.fields(twice, &mut self.met)
    }
}

struct Run<'a> {
    transport: &'a Dictionary,
    dictionary: &'a Dictionary,
    body: &'a Block,
    custom: CustomTags,
    message: &'a Message<'a>,
}

impl Run<'_> {
    fn part(&self, tag: i32) -> Part {
        let Ok(tag) = u32::try_from(tag) else { return Part::Body };
        if self.transport.header.has(tag) {
            Part::Header
        } else if self.transport.trailer.has(tag) {
            Part::Trailer
        } else {
            Part::Body
        }
    }

    /// Checks that header, body and trailer follow in this order. Marks the tags that occur;
    /// returns whether a tag occurs twice, in a group or not.
    fn structure(&self, seen: &mut Seen) -> Result<bool, Fault> {
        let (mut reached, mut twice) = (Part::Header, false);
        for field in self.message.fields() {
            let part = self.part(field.tag);
            match (reached, part) {
                (Part::Header, _) | (Part::Body, Part::Trailer) => reached = part,
                (Part::Body, Part::Header) | (Part::Trailer, Part::Header | Part::Body) => {
                    return fault(RejectReason::OutOfOrder, field.tag);
                }
                (Part::Body, Part::Body) | (Part::Trailer, Part::Trailer) => {}
            }
            if let Ok(tag) = u32::try_from(field.tag) {
                twice |= seen.mark(tag);
            }
        }
        Ok(twice)
    }

    /// Checks field by field; `twice`: some tag occurs more than once, so that repetitions have to
    /// be looked for.
    fn fields(&self, twice: bool, met: &mut Seen) -> Result<(), Fault> {
        let mut at = 0;
        while let Some(field) = self.message.field(at) {
            let (dictionary, block) = match self.part(field.tag) {
                Part::Header => (self.transport, &self.transport.header),
                Part::Trailer => (self.transport, &self.transport.trailer),
                Part::Body => (self.dictionary, self.body),
            };
            if twice && u32::try_from(field.tag).is_ok_and(|tag| met.mark(tag)) {
                return fault(RejectReason::TagTwice, field.tag);
            }
            at = self.member(dictionary, block, at)?;
        }
        Ok(())
    }

    /// Checks the field at `at` as a member of `block`, with the group's instances if it is the
    /// count of a group; returns the index of the field after it.
    #[inline]
    fn member(&self, dictionary: &Dictionary, block: &Block, at: usize) -> Result<usize, Fault> {
        let Some(field) = self.message.field(at) else { return Ok(at) };
        let known = u32::try_from(field.tag).ok().and_then(|tag| dictionary.field(tag));
        let Some(known) = known else {
            let custom = u32::try_from(field.tag).is_ok_and(|tag| tag >= CUSTOM_FROM);
            return if custom && self.custom == CustomTags::Tolerated {
                Ok(at + 1)
            } else {
                fault(RejectReason::InvalidTag, field.tag)
            };
        };
        if field.value.is_empty() {
            return fault(RejectReason::NoValue, field.tag);
        }
        if !known.kind.admits(field.value) {
            return fault(RejectReason::DataFormat, field.tag);
        }
        // Unknown message types have been refused by their own reason.
        if known.tag != 35 && !is_listed(known, field.value) {
            return fault(RejectReason::ValueIncorrect, field.tag);
        }
        if !block.has(known.tag) {
            return fault(RejectReason::TagNotDefined, field.tag);
        }
        if let Some(group) = block.groups.get(&known.tag) {
            // Old dictionaries give some counts the type int.
            let Some(stated) = crate::value::uint(field.value) else {
                return fault(RejectReason::DataFormat, field.tag);
            };
            return self.group(dictionary, group, field.tag, stated, at + 1);
        }
        Ok(at + 1)
    }

    fn tag_at(&self, at: usize) -> Option<u32> {
        self.message.field(at).and_then(|field| u32::try_from(field.tag).ok())
    }

    /// Number of instances of a group that begin at `at`, and index of the field after them. The
    /// number is checked before the contents of the instances.
    fn extent(&self, group: &Block, mut at: usize) -> (u64, usize) {
        let delimiter = group.delimiter();
        let mut found = 0;
        while self.tag_at(at) == Some(delimiter) {
            found += 1;
            let mut first = true;
            while let Some(tag) = self.tag_at(at).filter(|&tag| group.has(tag)) {
                if tag == delimiter && !first {
                    break;
                }
                first = false;
                at += 1;
                if let Some(nested) = group.groups.get(&tag) {
                    at = self.extent(nested, at).1;
                }
            }
        }
        (found, at)
    }

    /// Checks the instances of a group, the first of which begins at `at`. Recursion is as deep as
    /// the dictionary nests.
    fn group(
        &self,
        dictionary: &Dictionary,
        group: &Block,
        count: i32,
        stated: u64,
        mut at: usize,
    ) -> Result<usize, Fault> {
        let (found, end) = self.extent(group, at);
        if found == 0
            && stated > 0
            && let Some(first) = self.tag_at(at).filter(|&tag| group.has(tag))
        {
            return fault(RejectReason::GroupOrder, first as i32);
        }
        if found != stated {
            return fault(RejectReason::GroupCount, count);
        }
        let delimiter = group.delimiter();
        while at < end {
            let start = at;
            at = self.member(dictionary, group, at)?;
            while let Some(tag) = self.tag_at(at).filter(|&tag| tag != delimiter && at < end) {
                let before = (start..at).any(|earlier| self.tag_at(earlier) == Some(tag));
                if before {
                    return fault(RejectReason::TagTwice, tag as i32);
                }
                at = self.member(dictionary, group, at)?;
            }
            let missing = group
                .required()
                .iter()
                .find(|&&tag| !(start..at).any(|index| self.tag_at(index) == Some(tag)));
            if let Some(&tag) = missing {
                return fault(RejectReason::RequiredTagMissing, tag as i32);
            }
        }
        Ok(at)
    }
}

/// Whether the value is one of those listed; true when the field has no list.
#[inline]
fn is_listed(field: &FieldDef, value: &[u8]) -> bool {
    let listed = |value: &[u8]| {
        field.values.binary_search_by(|(code, _)| code.as_bytes().cmp(value)).is_ok()
    };
    field.values.is_empty()
        || match field.kind {
            Kind::Words => value.split(|&byte| byte == b' ').all(listed),
            _ => listed(value),
        }
}

#[cfg(test)]
mod tests {
    use super::super::builtin;
    use super::*;
    use crate::{FieldIndex, Version};
    use types::SplitMix64;

    /// Values that some field takes and most do not.
    const VALUES: [&str; 24] = [
        "1",
        "2",
        "0",
        "Y",
        "N",
        "D",
        "a",
        "6",
        "99",
        "10",
        "-1",
        "12.5",
        "-.5",
        "1.2.3",
        ".",
        "",
        "20261122-09:30:00",
        "20261122-09:30:00.250",
        "20261122-09:30:00.25x",
        "20261322-09:30:00",
        "20261122",
        "09:30:00",
        "6 M",
        "\u{e9}",
    ];

    fn pick<T: Copy>(seed: &mut SplitMix64, from: &[T]) -> T {
        from[(seed.next_u64() % from.len() as u64) as usize]
    }

    /// A message that its dictionary allows, or nearly: what must be there, some of the rest, and
    /// in every other message one fault or two.
    fn text(seed: &mut SplitMix64, rules: &Rules, msg_type: &str) -> String {
        let (dictionary, message) = rules.message(msg_type.as_bytes()).unwrap();
        let faults = [0, 0, 1, 2][(seed.next_u64() % 4) as usize];
        let mut fields: Vec<(u32, &Dictionary)> = Vec::new();
        let transport = &*rules.transport;
        let parts = [(&transport.header, transport), (&message.body, dictionary)];
        for (block, dictionary) in parts {
            for member in block.members.iter().filter(|member| !matches!(member.tag, 8 | 9 | 35)) {
                let group = block.groups.contains_key(&member.tag);
                let wanted = member.required || seed.next_u64().is_multiple_of(4);
                if wanted && (!group || seed.next_u64().is_multiple_of(8)) {
                    fields.push((member.tag, dictionary));
                }
            }
        }
        for _ in 0..faults {
            let at = (seed.next_u64() % (fields.len() as u64 + 1)) as usize;
            match seed.next_u64() % 5 {
                0 => fields.insert(at, (pick(seed, &[7, 89, 1_000, 5_001, 65_536]), dictionary)),
                1 => fields.insert(at, (54, dictionary)),
                2 => fields.truncate(at),
                3 => {
                    let length = fields.len().max(1);
                    fields.rotate_left(at % length);
                }
                _ => {}
            }
        }
        let mut text = format!("8={}|9=0|35={msg_type}|", rules.version.begin_string());
        for (tag, dictionary) in fields {
            let known = dictionary.field(tag);
            let fits = |value: &&&str| {
                known.is_none_or(|field| {
                    !value.is_empty()
                        && field.kind.admits(value.as_bytes())
                        && is_listed(field, value.as_bytes())
                })
            };
            let fitting: Vec<&str> = VALUES.iter().filter(fits).copied().collect();
            let odd = faults > 0 && seed.next_u64().is_multiple_of(16);
            let value = match known {
                Some(field) if !odd && !field.values.is_empty() => {
                    let at = seed.next_u64() % field.values.len() as u64;
                    field.values[at as usize].0.as_str()
                }
                _ if odd || fitting.is_empty() => pick(seed, &VALUES),
                _ => pick(seed, &fitting),
            };
            text.push_str(&format!("{tag}={value}|"));
        }
        text
    }

    #[test]
    fn the_tables_call_valid_what_the_judgement_does() {
        let mut seed = SplitMix64::new(21);
        let (mut quick, mut valid, mut faulty) = (0, 0, 0);
        for version in Version::ALL {
            let rules = builtin(version).unwrap();
            let transport = rules.transport.messages().filter(|message| message.admin);
            let all: Vec<&str> = transport
                .chain(rules.application.messages())
                .map(|message| message.msg_type.as_str())
                .collect();
            let (mut checker, mut index) = (Checker::default(), FieldIndex::default());
            for round in 0..12_000 {
                let msg_type = pick(&mut seed, &all);
                let text = text(&mut seed, &rules, msg_type);
                let bytes = framed(&text);
                // Lengths without their data are no message.
                let Ok(message) = index.parse(&bytes) else { continue };
                let custom = pick(&mut seed, &[CustomTags::Refused, CustomTags::Tolerated]);
                let judged = Checker::default().judge(&rules, custom, &message);
                let simple = rules.tables.valid(&mut checker.marks, &message);
                assert!(!simple || judged.is_ok(), "{version:?} {round} {text} {judged:?}");
                assert_eq!(checker.check(&rules, custom, &message), judged, "{round} {text}");
                // Nothing but what is left out on purpose is left to the judgement.
                let plain = text.split('|').all(|field| {
                    let (tag, value) = field.split_once('=').unwrap_or(("8", "x"));
                    let tag: u32 = tag.parse().unwrap();
                    let known = rules.application.field(tag).or(rules.transport.field(tag));
                    known.is_some_and(|known| {
                        known.kind != Kind::NumInGroup
                            && (known.values.is_empty() || tag == 35 || value.len() == 1)
                    })
                });
                assert!(simple || judged.is_err() || !plain, "{version:?} {round} {text}");
                quick += usize::from(simple);
                valid += usize::from(judged.is_ok());
                faulty += usize::from(judged.is_err());
            }
        }
        assert!(quick > 8_000 && valid > quick && faulty > 8_000, "{quick} {valid} {faulty}");
    }

    /// `text` as a message with length and sum.
    fn framed(text: &str) -> Vec<u8> {
        let (begin, body) = text.split_once("9=0|").unwrap();
        let body = body.replace('|', "\u{1}");
        let head = format!("{}9={}\u{1}{body}", begin.replace('|', "\u{1}"), body.len());
        let sum = crate::checksum(head.as_bytes());
        format!("{head}10={sum:03}\u{1}").into_bytes()
    }
}
