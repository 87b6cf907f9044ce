//! Whole messages as values: the input of an encoder, and the result of a [`Recorder`]. Fields are
//! found by name, so that a message of one template can be encoded with another.

use std::sync::Arc;

use crate::program::Templates;
use crate::sink::Sink;
use crate::value::{Owned, Value};

/// What a field of a message holds.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A value of a primitive field.
    Value(Owned),
    /// The fields of a group.
    Group(Record),
    /// The elements of a sequence, each with its fields.
    Sequence(Vec<Record>),
}

/// The fields of a message, a group, or an element of a sequence.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Record {
    /// Index of the template in [`Templates::templates`]; used for messages only.
    pub template: u32,
    /// Fields that are present, by index in [`Templates::names`], in the order they were set.
    pub fields: Vec<(u32, Item)>,
    /// Segments that dynamic references lead to, in the order of the template.
    pub parts: Vec<Record>,
}

impl Record {
    /// A message of a template, without fields.
    pub fn of(template: u32) -> Record {
        Record { template, ..Record::default() }
    }

    /// Sets a field; a name that no template has is ignored, because nothing could send it.
    pub fn set(mut self, templates: &Templates, name: &str, value: Owned) -> Record {
        if let Some(name) = templates.name(name) {
            self.fields.push((name, Item::Value(value)));
        }
        self
    }

    /// The field with this index in [`Templates::names`]; `None`: absent.
    pub fn get(&self, name: u32) -> Option<&Item> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, item)| item)
    }
}

/// A sink that keeps whole messages.
#[derive(Debug)]
pub struct Recorder {
    templates: Arc<Templates>,
    /// Complete messages in the order in which they were decoded.
    pub messages: Vec<Record>,
    open: Vec<Open>,
}

#[derive(Debug)]
enum Open {
    Record(Record),
    Group(u32, Record),
    Sequence(u32, Vec<Record>),
}

impl Recorder {
    /// A recorder without messages.
    pub fn new(templates: Arc<Templates>) -> Recorder {
        Recorder { templates, messages: Vec::new(), open: Vec::new() }
    }

    /// Drops the message that has not ended, after an error in it.
    pub fn abandon(&mut self) {
        self.open.clear();
    }

    fn name(&self, field: u32) -> u32 {
        self.templates.fields.get(field as usize).map_or(u32::MAX, |field| field.name_index)
    }

    /// The record that fields are added to at present.
    fn current(&mut self) -> Option<&mut Record> {
        match self.open.last_mut()? {
            Open::Record(record) | Open::Group(_, record) => Some(record),
            Open::Sequence(_, records) => records.last_mut(),
        }
    }

    fn put(&mut self, name: u32, item: Item) {
        if let Some(record) = self.current() {
            record.fields.push((name, item));
        }
    }
}

impl Sink for Recorder {
    fn begin(&mut self, template: u32) {
        self.open.push(Open::Record(Record::of(template)));
    }

    fn end(&mut self) {
        let Some(Open::Record(record)) = self.open.pop() else { return };
        match self.current() {
            Some(outer) => outer.parts.push(record),
            None => self.messages.push(record),
        }
    }

    fn field(&mut self, field: u32, value: Value<'_>) {
        let name = self.name(field);
        self.put(name, Item::Value(value.to_owned()));
    }

    fn begin_group(&mut self, field: u32) {
        let name = self.name(field);
        self.open.push(Open::Group(name, Record::default()));
    }

    fn end_group(&mut self) {
        if let Some(Open::Group(name, record)) = self.open.pop() {
            self.put(name, Item::Group(record));
        }
    }

    fn begin_sequence(&mut self, field: u32, _length: u32) {
        let name = self.name(field);
        self.open.push(Open::Sequence(name, Vec::new()));
    }

    fn element(&mut self) {
        if let Some(Open::Sequence(_, records)) = self.open.last_mut() {
            records.push(Record::default());
        }
    }

    fn end_sequence(&mut self) {
        if let Some(Open::Sequence(name, records)) = self.open.pop() {
            self.put(name, Item::Sequence(records));
        }
    }
}
