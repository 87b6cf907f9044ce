//! The compact dictionaries: one definition a line, docs/fix.md has the format.
//!
//! ```text
//! dictionary FIX.4.4
//! field 54 Side CHAR 1=Buy 2=Sell
//! header | trailer
//! message D NewOrderSingle app | a remark
//!   54! Side | a remark on this field of this message
//!   453 NoPartyIDs {
//!     448! PartyID
//!   }
//! ```
//!
//! `!` marks a required field, `#` begins a comment, words after `|` are for the documents. The
//! name beside a tag must be the field's, so that a slip of the pen does not pass.

use std::sync::Arc;

use super::{Block, DEPTH_MAX, Dictionary, DictionaryError, FieldDef, Kind, Member, MessageDef};

/// Block that member lines are added to.
enum Target {
    Nowhere,
    Header,
    Trailer,
    Message(Vec<u8>),
}

struct Reader {
    dictionary: Dictionary,
    target: Target,
    /// Groups that are open: tag of the count, and the members read so far.
    open: Vec<(u32, Block)>,
}

pub(super) fn read(texts: &[&str]) -> Result<Dictionary, DictionaryError> {
    let mut reader =
        Reader { dictionary: Dictionary::default(), target: Target::Nowhere, open: Vec::new() };
    for text in texts {
        for (line, words) in (1..).zip(text.lines()) {
            reader.line(words).map_err(|what| DictionaryError { line, what })?;
        }
        if !reader.open.is_empty() {
            return Err(DictionaryError { line: 0, what: "a group is not closed".to_string() });
        }
    }
    reader.dictionary.index()
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let line = line.split('#').next().unwrap_or("");
        let (line, note) = line.split_once('|').unwrap_or((line, ""));
        let note = note.trim();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { return Ok(()) };
        let rest: Vec<&str> = words.collect();
        match (first, rest.as_slice()) {
            ("}", []) => self.close(),
            _ if first.starts_with(|c: char| c.is_ascii_digit()) => self.member(first, &rest, note),
            _ if !self.open.is_empty() => Err("a group is not closed".to_string()),
            ("dictionary", [name]) => {
                self.dictionary.name = (*name).to_string();
                Ok(())
            }
            ("header", []) => self.turn(Target::Header),
            ("trailer", []) => self.turn(Target::Trailer),
            ("field", [tag, name, kind, values @ ..]) => self.field(tag, name, kind, values),
            ("message", [msg_type, name, layer @ ("admin" | "app")]) => {
                let message = MessageDef {
                    msg_type: (*msg_type).to_string(),
                    name: (*name).to_string(),
                    admin: *layer == "admin",
                    note: note.to_string(),
                    body: Block::default(),
                };
                let key = msg_type.as_bytes().to_vec();
                if self.dictionary.messages.insert(key.clone(), message).is_some() {
                    return Err(format!("message {msg_type} twice"));
                }
                self.turn(Target::Message(key))
            }
            _ => Err(format!("not understood: {line}")),
        }
    }

    fn turn(&mut self, target: Target) -> Result<(), String> {
        self.target = target;
        Ok(())
    }

    fn field(&mut self, tag: &str, name: &str, kind: &str, values: &[&str]) -> Result<(), String> {
        let number = tag.parse::<u32>().ok().filter(|tag| (1..=super::TAG_MAX).contains(tag));
        let tag = number.ok_or_else(|| format!("{tag} is no tag"))?;
        let value = |word: &&str| {
            let (code, meaning) = word.split_once('=').ok_or(format!("{word} has no meaning"))?;
            Ok((code.to_string(), meaning.replace('_', " ")))
        };
        let values = values.iter().map(value).collect::<Result<Vec<_>, String>>()?;
        let (name, type_name) = (name.to_string(), kind.to_string());
        let field = FieldDef { tag, name, kind: Kind::of(kind), type_name, values };
        self.dictionary.fields.insert(tag, field);
        Ok(())
    }

    fn member(&mut self, tag: &str, rest: &[&str], note: &str) -> Result<(), String> {
        let (tag, required) = match tag.strip_suffix('!') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let number = tag.parse::<u32>().map_err(|_| format!("{tag} is no tag"))?;
        let (name, group) = match rest {
            [name] => (*name, false),
            [name, "{"] => (*name, true),
            _ => return Err(format!("tag {tag}: a name, and perhaps {{")),
        };
        match self.dictionary.fields.get(&number) {
            Some(field) if field.name == name => {}
            _ => return Err(format!("there is no field {number} called {name}")),
        }
        let block = self.block()?;
        if block.has(number) {
            return Err(format!("field {number} twice"));
        }
        block.add(Member { tag: number, required, note: note.to_string() });
        if group {
            if self.open.len() >= DEPTH_MAX {
                return Err("groups nested too deep".to_string());
            }
            self.open.push((number, Block::default()));
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let (tag, group) = self.open.pop().ok_or("no group is open")?;
        if group.members.is_empty() {
            return Err(format!("group {tag} is empty"));
        }
        self.block()?.groups.insert(tag, Arc::new(group));
        Ok(())
    }

    fn block(&mut self) -> Result<&mut Block, String> {
        if let Some((_, group)) = self.open.last_mut() {
            return Ok(group);
        }
        let dictionary = &mut self.dictionary;
        match &self.target {
            Target::Header => Ok(&mut dictionary.header),
            Target::Trailer => Ok(&mut dictionary.trailer),
            Target::Message(key) => match dictionary.messages.get_mut(key) {
                Some(message) => Ok(&mut message.body),
                None => Err("no message".to_string()),
            },
            Target::Nowhere => Err("a field outside of any message".to_string()),
        }
    }
}
