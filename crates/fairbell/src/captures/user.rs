//! Streams decoded by the user's own templates of FAST 1.1.
//!
//! A template file says what messages are, not how datagrams hold them: that is a [`Framing`], told
//! from the bytes where it shows. Previous values begin anew with every datagram unless the user says
//! otherwise, since a datagram that was lost would make those after it wrong.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use fast::opra::checksum::{self, OFFSET};
use fast::opra::{V2, by_hand};
use fast::slots::{Description, packet_header};
use fast::xml::TEXT_MAX;
use fast::{Code, Decoder, FastError, Sink, Templates, Value};
use host::failure::Failure;

use super::shown::{self, Form, Object, TEXT};

/// How datagrams are decoded by templates of the user.
#[derive(Args, Clone, Debug, Default)]
pub struct UserArgs {
    /// Decode FAST by the templates of this XML file (FAST 1.1)
    #[arg(long, value_name = "FILE")]
    pub templates: Option<PathBuf>,
    /// How a datagram holds messages of these templates
    #[arg(long, value_name = "FRAMING", default_value = "auto", requires = "templates")]
    pub framing: Framing,
    /// Bytes at the front of each datagram that are no FAST, like a channel's own header
    #[arg(long, value_name = "N", default_value_t = 0, requires = "templates",
          value_parser = clap::value_parser!(u16).range(0..=256))]
    pub preamble: u16,
    /// Keep previous values from one datagram to the next
    #[arg(long, requires = "templates")]
    pub keep: bool,
    /// Field with the number of a message, to count those that are missing
    #[arg(long, value_name = "NAME", requires = "templates")]
    pub number: Option<String>,
}

/// How a datagram holds messages.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Framing {
    /// OPRA's where it shows, else messages
    #[default]
    Auto,
    /// One message after the other
    Messages,
    /// One block after the other, each with its size in front
    Blocks,
    /// OPRA's version 2: a header, and each message behind a byte with its length
    Opra,
}

/// What a message was.
pub struct Told<'a> {
    /// Name of its template.
    pub template: &'a str,
    /// Its fields in the form that was asked for, cut off where they are endless; else empty.
    pub text: &'a str,
}

/// Slot of OPRA's long text.
const LONG: usize = 48;

/// Collects one message after the other.
struct Collect {
    /// Slot of each field by its auxiliary identifier; 64 for those that have none.
    slots: Vec<usize>,
    values: [u64; 65],
    /// Number of each field's name.
    marks: Vec<u64>,
    names: Vec<String>,
    /// Names of the templates.
    templates: Vec<String>,
    /// Fields that number messages: the name of one, in each template that has it.
    number_fields: Vec<bool>,
    number: Option<u64>,
    form: Option<Form>,
    text: String,
    object: Object,
    /// Of the template and all fields of the message, by name.
    sum: u64,
    depth: u32,
    template: u32,
}

impl Collect {
    fn clear(&mut self) {
        self.text.clear();
        if self.form == Some(Form::Json) {
            self.object.open();
        }
        (self.sum, self.depth, self.number) = (OFFSET, 0, None);
    }

    fn put(&mut self, args: std::fmt::Arguments<'_>) {
        if self.form == Some(Form::Text) && self.text.len() < TEXT {
            let _ = self.text.write_fmt(args);
            if self.text.len() >= TEXT {
                self.text.push('…');
            }
        }
    }

    fn named(&mut self, field: u32, open: &str) {
        if self.form == Some(Form::Text) {
            let name = self.names.get(field as usize).cloned().unwrap_or_default();
            let space = if self.text.is_empty() { "" } else { " " };
            self.put(format_args!("{space}{name}{open}"));
        }
    }

    /// The object of JSON and the field's name, where an object is wanted.
    fn object(&mut self, field: u32) -> Option<(&mut Object, &str)> {
        let wanted = self.form == Some(Form::Json);
        let name = self.names.get(field as usize).map_or("", String::as_str);
        wanted.then_some((&mut self.object, name))
    }

    /// What is told of the message.
    fn told(&mut self) -> &str {
        match self.form {
            Some(Form::Json) => {
                self.object.close();
                &self.object.text
            }
            _ => &self.text,
        }
    }

    fn json(&mut self, field: u32, value: Value<'_>) {
        let Some((object, name)) = self.object(field) else { return };
        if !object.has_room() {
            return;
        }
        match value {
            Value::Ascii(text) => object.text(name, &String::from_utf8_lossy(text)),
            Value::Unicode(text) => object.text(name, text),
            Value::Bytes(bytes) => {
                let shown = bytes.get(..bytes.len().min(TEXT)).unwrap_or(bytes);
                let digits = shown.iter().map(|byte| format!("{byte:02x}"));
                object.text(name, &digits.collect::<String>());
            }
            Value::Decimal(decimal) if decimal.is_valid() => {
                let text = shown::decimal(decimal.mantissa.into(), decimal.exponent);
                object.text(name, &text);
            }
            Value::Decimal(decimal) => {
                object.text(name, &format!("{}e{}", decimal.mantissa, decimal.exponent));
            }
            other => object.raw(name, &shown::integer(other.integer().unwrap_or(0))),
        }
    }

    fn add(&mut self, field: u32, value: u64) {
        let mark = self.marks.get(field as usize).copied().unwrap_or(0);
        self.sum = checksum::mix(checksum::mix(self.sum, mark), value);
    }
}

/// A value as a number: of texts, those up to eight bytes by their bytes, longer ones by FNV-1a.
fn as_number(value: Value<'_>) -> u64 {
    match value {
        Value::Ascii(text) | Value::Bytes(text) => text_number(text),
        Value::Unicode(text) => text_number(text.as_bytes()),
        Value::Decimal(decimal) => checksum::mix(decimal.mantissa as u64, decimal.exponent as u64),
        other => other.integer().unwrap_or(0) as u64,
    }
}

fn text_number(text: &[u8]) -> u64 {
    match text.len() {
        0..=8 => text.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        _ => checksum::hash(text.iter().copied()),
    }
}

impl Sink for Collect {
    fn begin(&mut self, template: u32) {
        if self.depth == 0 {
            self.template = template;
        } else if self.form == Some(Form::Json) {
            // What a dynamic reference leads to.
            let name = self.templates.get(template as usize).map_or("", String::as_str);
            self.object.group(name);
        }
        self.depth += 1;
        self.sum = checksum::mix(self.sum, template.into());
    }

    fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth > 0 && self.form == Some(Form::Json) {
            self.object.end();
        }
    }

    fn field(&mut self, field: u32, value: Value<'_>) {
        let number = as_number(value);
        self.add(field, number);
        if self.number.is_none() && self.number_fields.get(field as usize) == Some(&true) {
            self.number = value.integer().and_then(|value| value.try_into().ok());
        }
        let slot = self.slots.get(field as usize).copied().unwrap_or(64);
        let long = slot == LONG;
        let of_slot = match value {
            Value::Ascii(text) if long => checksum::hash(text.iter().copied()),
            _ => number,
        };
        if let Some(place) = self.values.get_mut(slot) {
            *place = of_slot;
        }
        match self.form {
            None => return,
            Some(Form::Json) => return self.json(field, value),
            Some(Form::Text) => self.named(field, "="),
        }
        match value {
            Value::Ascii(text) => self.put(format_args!("\"{}\"", text.escape_ascii())),
            Value::Unicode(text) => self.put(format_args!("{text:?}")),
            Value::Bytes(bytes) => {
                let shown = bytes.get(..bytes.len().min(1_024)).unwrap_or(bytes);
                shown.iter().for_each(|byte| self.put(format_args!("{byte:02x}")));
            }
            Value::Decimal(decimal) => {
                self.put(format_args!("{}e{}", decimal.mantissa, decimal.exponent));
            }
            other => self.put(format_args!("{}", other.integer().unwrap_or(0))),
        }
    }

    fn begin_group(&mut self, field: u32) {
        self.named(field, "{");
        if let Some((object, name)) = self.object(field) {
            object.group(name);
        }
    }

    fn end_group(&mut self) {
        self.put(format_args!(" }}"));
        if self.form == Some(Form::Json) {
            self.object.end();
        }
    }

    fn begin_sequence(&mut self, field: u32, length: u32) {
        self.add(field, length.into());
        self.named(field, "[");
        if let Some((object, name)) = self.object(field) {
            object.sequence(name);
        }
    }

    fn element(&mut self) {
        self.put(format_args!(" ;"));
        if self.form == Some(Form::Json) {
            self.object.element();
        }
    }

    fn end_sequence(&mut self) {
        self.put(format_args!(" ]"));
        if self.form == Some(Form::Json) {
            self.object.end_sequence();
        }
    }
}

/// Decodes datagrams by templates of the user.
pub struct User {
    decoder: Decoder,
    collect: Collect,
    framing: Framing,
    preamble: usize,
    keep: bool,
    /// Over all messages.
    pub checksum: u64,
    /// Numbers of the last datagram's messages: the first of some that follow each other, and how many.
    pub numbers: Vec<(u64, u32)>,
}

/// Reads and compiles a template file.
///
/// # Errors
/// It cannot be read or is none; with its name and the line.
pub fn compile(path: &Path) -> Result<Templates, Failure> {
    let named =
        |error: &dyn std::fmt::Display| Failure::Usage(format!("{}: {error}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| named(&error))?.len();
    if size > TEXT_MAX as u64 {
        return Err(named(&format!("{size} bytes; templates have {TEXT_MAX} at most")));
    }
    let bytes = std::fs::read(path).map_err(|error| named(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let before = bytes.get(..at).unwrap_or(&[]);
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let byte = bytes.get(at).copied().unwrap_or(0);
        let sixteen = matches!(bytes, [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..]);
        let (what, of) = if sixteen { ("is UTF-16", "UTF-16") } else { ("no UTF-8", "ISO-8859-1") };
        let path = path.display();
        Failure::Usage(format!(
            "{path}:{line}: {what} (byte 0x{byte:02x} at {at}): templates must be in UTF-8, like those that \
             `iconv -f {of} -t UTF-8` makes"
        ))
    })?;
    Templates::from_user_xml(&text).map_err(|error| {
        let line = error.line;
        Failure::Usage(format!("{}:{line}: {}: {}", path.display(), error.code, error.detail))
    })
}

impl User {
    /// By these options; `None` when they name no templates.
    ///
    /// # Errors
    /// Those of [`compile`], and a field for numbers that no template has.
    pub fn new(args: &UserArgs, form: Option<Form>) -> Result<Option<User>, Failure> {
        let Some(path) = &args.templates else { return Ok(None) };
        let templates = Arc::new(compile(path)?);
        let slot = |id: &Option<String>| {
            let slot: Option<usize> = id.as_ref().and_then(|id| id.parse().ok());
            slot.filter(|slot| *slot < 64).unwrap_or(64)
        };
        let fields = &templates.fields;
        let is_number = |name: &str| args.number.as_deref() == Some(name);
        let number_fields: Vec<bool> =
            fields.iter().map(|field| is_number(&field.name.local)).collect();
        if let Some(name) = args.number.as_ref().filter(|_| !number_fields.contains(&true)) {
            let path = path.display();
            return Err(Failure::Usage(format!("--number: {path}: no field {name:?}")));
        }
        let collect = Collect {
            slots: fields.iter().map(|field| slot(&field.id)).collect(),
            values: [0; 65],
            marks: fields.iter().map(|field| checksum::hash(field.name.local.bytes())).collect(),
            names: fields.iter().map(|field| field.name.local.replace(' ', "_")).collect(),
            templates: (templates.templates.iter())
                .map(|template| template.name.local.clone())
                .collect(),
            number_fields,
            number: None,
            form,
            text: String::new(),
            object: Object::default(),
            sum: OFFSET,
            depth: 0,
            template: 0,
        };
        let (framing, preamble, keep) = (args.framing, args.preamble.into(), args.keep);
        let decoder = Decoder::new(templates);
        let numbers = Vec::new();
        Ok(Some(User { decoder, collect, framing, preamble, keep, checksum: 0, numbers }))
    }

    /// Decodes a datagram, each message to `each`, and their numbers to [`User::numbers`].
    ///
    /// # Errors
    /// What is wrong; messages before it were decoded.
    pub fn datagram(&mut self, bytes: &[u8], mut each: impl FnMut(Told<'_>)) -> Result<(), String> {
        if !self.keep {
            self.decoder.reset();
        }
        self.numbers.clear();
        let bytes = bytes.get(self.preamble..).ok_or("shorter than its preamble")?;
        match self.framing {
            Framing::Opra => self.opra(bytes, each),
            Framing::Auto if packet_header::<V2>(bytes).is_ok() => self.opra(bytes, each),
            Framing::Auto | Framing::Messages => self.messages(bytes, &mut each),
            Framing::Blocks => self.blocks(bytes, each),
        }
    }

    fn message(&mut self, bytes: &[u8], each: &mut impl FnMut(Told<'_>)) -> Result<usize, String> {
        self.collect.clear();
        let outcome = self.decoder.message(bytes, &mut self.collect);
        let used = outcome.map_err(|error| self.complaint(error))?;
        let templates = self.decoder.templates();
        let template = templates.templates.get(self.collect.template as usize);
        let template = template.map_or("", |template| &template.name.local);
        each(Told { template, text: self.collect.told() });
        Ok(used)
    }

    /// Notes the number of the message that was decoded last.
    fn note_number(&mut self) {
        let Some(number) = self.collect.number else { return };
        match self.numbers.last_mut() {
            Some((first, count)) if first.checked_add((*count).into()) == Some(number) => {
                *count += 1;
            }
            _ => self.numbers.push((number, 1)),
        }
    }

    fn complaint(&self, error: FastError) -> String {
        let field = error.field.and_then(|field| self.collect.names.get(field as usize));
        match field {
            Some(field) => format!("{} in field {field}", error.code),
            None => error.code.to_string(),
        }
    }

    fn messages(
        &mut self,
        mut bytes: &[u8],
        each: &mut impl FnMut(Told<'_>),
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            let used = self.message(bytes, each)?;
            self.note_number();
            self.checksum = checksum::mix(self.checksum, self.collect.sum);
            bytes = bytes.get(used.max(1)..).unwrap_or(&[]);
        }
        Ok(())
    }

    fn blocks(&mut self, mut bytes: &[u8], mut each: impl FnMut(Told<'_>)) -> Result<(), String> {
        while !bytes.is_empty() {
            let mut reader = fast::Reader::new(bytes, false);
            let size = reader.block_size().map_err(|code| code.to_string())?;
            let (at, size) = (reader.position(), usize::try_from(size).unwrap_or(usize::MAX));
            let end = at.checked_add(size).filter(|end| *end <= bytes.len());
            let end = end.ok_or_else(|| Code::Truncated.to_string())?;
            let inside = bytes.get(at..end).unwrap_or(&[]);
            self.messages(inside, &mut each)?;
            bytes = bytes.get(end..).unwrap_or(&[]);
        }
        Ok(())
    }

    /// The checksum is the one of the built-in decoder: fields by slot, which is their identifier.
    fn opra(&mut self, bytes: &[u8], mut each: impl FnMut(Told<'_>)) -> Result<(), String> {
        let header = packet_header::<V2>(bytes).map_err(|code| code.to_string())?;
        let (mut at, end) = (V2::FORMAT.framing.header(), bytes.len() - 1);
        let (mut count, mut category) = (0, 0);
        while at < end {
            let length = bytes.get(at).copied().unwrap_or(0);
            // 255 says: up to the end.
            let until = if length == u8::MAX { end } else { at + 1 + usize::from(length) };
            let message = bytes.get(at + 1..until.min(end)).unwrap_or(&[]);
            self.message(message, &mut each)?;
            category = by_hand::category(message).unwrap_or(category);
            let mut all = self.collect.values.first_chunk::<64>().copied().unwrap_or([0; 64]);
            all[0] = category.into();
            let sum = checksum::of_values(by_hand::slots(category, &all), &all);
            self.checksum = checksum::mix(self.checksum, sum);
            count += 1;
            at = until;
        }
        if count != header.messages {
            return Err(format!("{count} messages where its header says {}", header.messages));
        }
        self.numbers.push((header.sequence, count));
        Ok(())
    }
}
