//! What a version allows: fields, their types and values, and which stand in which message.
//!
//! A [`Dictionary`] comes from an XML file in QuickFIX's format ([`Dictionary::from_xml`]) or from
//! the compact text this crate carries ([`Dictionary::compact`], docs/fix.md describes the format);
//! displayed it is such an XML file again. [`builtin`] has the ones the exchange's own doors use. FIXT 1.1 splits a version in two, a
//! [`Rules`] is therefore a pair: transport (header, trailer, session messages) and application.
//! A [`Checker`] judges a message by them and answers with the exact SessionRejectReason(373).

mod check;
mod compact;
mod kind;
mod table;
mod write;
mod xml;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::version::Version;

pub use check::{Checker, CustomTags, Fault, RejectReason};
pub use kind::Kind;

/// Deepest nesting of groups and components that is read.
const DEPTH_MAX: usize = 64;
/// Largest tag that a dictionary may define.
const TAG_MAX: u32 = 65_535;

/// An error in the text of a dictionary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DictionaryError {
    /// Line of the text, from 1; 0 when it is about the whole.
    pub line: usize,
    /// The error in words.
    pub what: String,
}

impl std::fmt::Display for DictionaryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "dictionary line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for DictionaryError {}

/// The definition of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldDef {
    /// Tag number of the field, at most 65,535.
    pub tag: u32,
    /// Name of the field in the specification.
    pub name: String,
    /// Data type that decides the form of the field's values.
    pub kind: Kind,
    /// Name of the data type in the dictionary; several names have one form.
    pub type_name: String,
    /// Values that the field may have, sorted, each with its meaning; empty: any value of the right
    /// form.
    pub values: Vec<(String, String)>,
}

/// A member of a message or group, in the order of the definition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Tag of the member's field.
    pub tag: u32,
    /// Whether the field must be there.
    pub required: bool,
    /// A remark about the member, for the documents; empty: none.
    pub note: String,
}

/// The fields of a header, message, trailer or group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// Members in the order of the definition.
    pub members: Vec<Member>,
    /// Groups of the block, by the tag of their count.
    pub groups: BTreeMap<u32, Arc<Block>>,
    /// Bit set of the members' tags.
    bits: Vec<u64>,
    /// Tags that must be there, in ascending order.
    required: Vec<u32>,
}

impl Block {
    fn add(&mut self, member: Member) {
        if self.has(member.tag) {
            return;
        }
        let word = member.tag as usize / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        if let Some(bits) = self.bits.get_mut(word) {
            *bits |= 1 << (member.tag % 64);
        }
        if member.required
            && let Err(at) = self.required.binary_search(&member.tag)
        {
            self.required.insert(at, member.tag);
        }
        self.members.push(member);
    }

    /// Whether `tag` is one of the block's members; counts of groups are members.
    #[inline]
    pub fn has(&self, tag: u32) -> bool {
        let word = self.bits.get(tag as usize / 64).copied().unwrap_or(0);
        word >> (tag % 64) & 1 == 1
    }

    /// Tag of the field that begins each instance of this group.
    pub fn delimiter(&self) -> u32 {
        self.members.first().map_or(0, |member| member.tag)
    }

    /// Tags that must be there, in ascending order.
    pub fn required(&self) -> &[u32] {
        &self.required
    }
}

/// The definition of a message type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageDef {
    /// MsgType(35) of the messages.
    pub msg_type: String,
    /// Name of the message in the specification.
    pub name: String,
    /// Whether it belongs to the session layer.
    pub admin: bool,
    /// A remark about the message type, for the documents; empty: none.
    pub note: String,
    /// Fields between header and trailer.
    pub body: Block,
}

/// The fields and messages that one dictionary text defines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dictionary {
    /// BeginString(8) of its messages, as `FIX.4.4`; for an application dictionary the name of its
    /// version.
    pub name: String,
    fields: BTreeMap<u32, FieldDef>,
    messages: BTreeMap<Vec<u8>, MessageDef>,
    /// Fields of the standard header.
    pub header: Block,
    /// Fields of the standard trailer.
    pub trailer: Block,
    /// Index in `quick` plus one, by tag; 0: the tag is not defined.
    lookup: Vec<u16>,
    quick: Vec<FieldDef>,
}

impl Dictionary {
    /// Reads a dictionary in QuickFIX's XML format. Entities and document types are refused.
    pub fn from_xml(text: &str) -> Result<Dictionary, DictionaryError> {
        xml::read(text)
    }

    /// Reads dictionaries in the compact format; of two definitions of a field the later one
    /// counts.
    pub fn compact(texts: &[&str]) -> Result<Dictionary, DictionaryError> {
        compact::read(texts)
    }

    /// The definition of the field `tag`; `None`: the tag is not defined.
    #[inline]
    pub fn field(&self, tag: u32) -> Option<&FieldDef> {
        let at = self.lookup.get(tag as usize).copied().filter(|&at| at > 0)?;
        self.quick.get(usize::from(at) - 1)
    }

    /// The definition of a message type; `None`: it is not defined.
    pub fn message(&self, msg_type: &[u8]) -> Option<&MessageDef> {
        self.messages.get(msg_type)
    }

    /// All message types in the order of MsgType(35).
    pub fn messages(&self) -> impl Iterator<Item = &MessageDef> {
        self.messages.values()
    }

    /// All fields in ascending order of their tags.
    pub fn fields(&self) -> impl Iterator<Item = &FieldDef> {
        self.quick.iter()
    }

    /// Builds the tables that lookups use; an error when a tag or the number of fields is too large.
    fn index(mut self) -> Result<Dictionary, DictionaryError> {
        let fields = std::mem::take(&mut self.fields);
        let largest = fields.keys().next_back().copied().unwrap_or(0);
        if largest > TAG_MAX || fields.len() >= usize::from(u16::MAX) {
            return Err(DictionaryError { line: 0, what: format!("tag {largest} is too large") });
        }
        self.lookup = vec![0; largest as usize + 1];
        for (tag, mut field) in fields {
            field.values.sort();
            self.quick.push(field);
            if let Some(place) = self.lookup.get_mut(tag as usize) {
                *place = self.quick.len() as u16;
            }
        }
        Ok(self)
    }
}

/// The dictionaries of a session and the tables made from them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rules {
    /// FIX version that the dictionaries are for.
    pub version: Version,
    /// Dictionary of header, trailer and session messages.
    pub transport: Arc<Dictionary>,
    /// Dictionary of the application messages; before FIXT 1.1 the same as `transport`.
    pub application: Arc<Dictionary>,
    /// Tables for the fast check of valid messages.
    tables: Arc<table::Tables>,
}

impl Rules {
    /// Rules of a version that has one dictionary (FIX 4.2, 4.4).
    pub fn single(version: Version, dictionary: Dictionary) -> Rules {
        let transport = Arc::new(dictionary);
        Rules::new(version, Arc::clone(&transport), transport)
    }

    /// Rules of a version with a transport and an application dictionary (FIX 5.0 SP2 over FIXT
    /// 1.1).
    pub fn split(version: Version, transport: Dictionary, application: Dictionary) -> Rules {
        Rules::new(version, Arc::new(transport), Arc::new(application))
    }

    fn new(version: Version, transport: Arc<Dictionary>, application: Arc<Dictionary>) -> Rules {
        let tables = Arc::new(table::Tables::new(&transport, &application));
        Rules { version, transport, application, tables }
    }

    /// The dictionary that defines a message type, and the definition; `None`: neither does.
    pub fn message(&self, msg_type: &[u8]) -> Option<(&Dictionary, &MessageDef)> {
        let admin = self.transport.message(msg_type).filter(|message| message.admin);
        match admin {
            Some(message) => Some((&self.transport, message)),
            None => self.application.message(msg_type).map(|message| (&*self.application, message)),
        }
    }
}

const FIELDS: &str = include_str!("../../dictionaries/fields.dict");
const SESSION: &str = include_str!("../../dictionaries/session.dict");
const FIX42: &str = include_str!("../../dictionaries/fix42.dict");
const FIX44: &str = include_str!("../../dictionaries/fix44.dict");
const FIXT11: &str = include_str!("../../dictionaries/fixt11.dict");
const FIX50SP2: &str = include_str!("../../dictionaries/fix50sp2.dict");

/// The exchange's own rules for a version: the messages that it takes and sends, and no others.
pub fn builtin(version: Version) -> Result<Rules, DictionaryError> {
    Ok(match version {
        Version::Fix42 => Rules::single(version, Dictionary::compact(&[FIELDS, SESSION, FIX42])?),
        Version::Fix44 => Rules::single(version, Dictionary::compact(&[FIELDS, SESSION, FIX44])?),
        Version::Fix50Sp2 => Rules::split(
            version,
            Dictionary::compact(&[FIELDS, SESSION, FIXT11])?,
            Dictionary::compact(&[FIELDS, FIX50SP2])?,
        ),
    })
}
