//! Messages as `fairbell feed decode` shows them: a line of fields for people, or an object of JSON.
//!
//! In JSON, integers beyond 2^53, which many readers of JSON would round, are texts, and so are
//! decimals.

use std::fmt::{Debug, Write as _};

use fast::itch::Message;
use fast::layout::Shown;
use serde_json::Value;

/// In which form a message is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One line for people.
    Text,
    /// A value of JSON.
    Json,
}

/// Largest integer that every reader of JSON has exactly.
const EXACT: u128 = 1 << 53;

/// What has no names for its fields, by its debug text.
pub fn debug(form: Form, message: &dyn Debug) -> String {
    text(form, &format!("{message:?}"))
}

/// A text alone.
pub fn text(form: Form, text: &str) -> String {
    match form {
        Form::Text => text.to_string(),
        Form::Json => Value::from(text).to_string(),
    }
}

/// An integer of JSON.
pub fn integer(value: i128) -> String {
    match value.unsigned_abs() <= EXACT {
        true => value.to_string(),
        false => format!("\"{value}\""),
    }
}

/// `mantissa * 10^exponent`, written out.
pub fn decimal(mantissa: i128, exponent: i32) -> String {
    let sign = if mantissa < 0 { "-" } else { "" };
    let digits = mantissa.unsigned_abs().to_string();
    // Exponents of valid decimals are 63 at most.
    let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(0);
    if exponent >= 0 {
        let zeros = if mantissa == 0 { 0 } else { places };
        return format!("{sign}{digits}{}", "0".repeat(zeros));
    }
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, part) = padded.split_at(padded.len() - places);
    format!("{sign}{whole}.{part}")
}

/// A time of day, `09:30:00.000000001`.
fn time_of_day(ns: u64) -> String {
    let (s, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
    format!("{:02}:{:02}:{:02}.{part:09}", s / 3_600, s / 60 % 60, s % 60)
}

/// A message of ITCH by the names of its description.
pub fn itch(form: Form, message: &Message<'_>) -> String {
    match form {
        Form::Text => itch_text(message),
        Form::Json => itch_object(message),
    }
}

fn itch_text(message: &Message<'_>) -> String {
    let mut line = message.name().to_string();
    message.shown(|name, field| {
        let value = match field {
            Shown::Number(value) => value.to_string(),
            Shown::Letter(byte) if byte.is_ascii_graphic() => char::from(byte).to_string(),
            Shown::Letter(byte) => format!("'{}'", byte.escape_ascii()),
            Shown::Text(bytes) => format!("\"{}\"", bytes.trim_ascii_end().escape_ascii()),
            Shown::Decimal { units, decimals } => decimal(units.into(), -i32::from(decimals)),
            Shown::Time(ns) => time_of_day(ns),
        };
        // Writing to a string cannot fail.
        let _ = write!(line, " {name}={value}");
    });
    line
}

fn itch_object(message: &Message<'_>) -> String {
    let mut object = Object::default();
    let texts = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect::<String>();
    object.open();
    object.text("type", &texts(&[message.kind()]));
    object.text("name", message.name());
    message.shown(|name, field| match field {
        Shown::Number(value) | Shown::Time(value) => object.raw(name, &integer(value.into())),
        Shown::Letter(byte) => object.text(name, &texts(&[byte])),
        Shown::Text(bytes) => object.text(name, &texts(bytes.trim_ascii_end())),
        Shown::Decimal { units, decimals } => {
            object.text(name, &decimal(units.into(), -i32::from(decimals)));
        }
    });
    object.close();
    object.text
}

/// Bytes of a message's text.
pub const TEXT: usize = 1 << 20;

/// An object of JSON, written in the order of its fields. What comes after [`TEXT`] bytes is left out,
/// and the object says so.
#[derive(Default, Debug)]
pub struct Object {
    /// What is written.
    pub text: String,
    /// What is open: how it ends, and whether it is written at all.
    open: Vec<(char, bool)>,
    /// Something is in front of the next field.
    comma: bool,
    cut: bool,
}

impl Object {
    /// Begins anew.
    pub fn open(&mut self) {
        self.text.clear();
        self.open.clear();
        self.text.push('{');
        self.open.push(('}', true));
        (self.comma, self.cut) = (false, false);
    }

    /// Ends all that is open.
    pub fn close(&mut self) {
        while self.open.len() > 1 {
            self.end();
        }
        if self.cut {
            self.key("cut");
            self.text.push_str("true");
        }
        self.end();
    }

    fn key(&mut self, name: &str) {
        if self.comma {
            self.text.push(',');
        }
        self.text.push_str(&Value::from(name).to_string());
        self.text.push(':');
        self.comma = true;
    }

    /// Whether another field is written; if not, the object says that something is left out.
    pub fn has_room(&mut self) -> bool {
        let room = self.text.len() < TEXT && self.open.last().is_some_and(|(_, written)| *written);
        self.cut |= !room;
        room
    }

    /// A field that is JSON already.
    pub fn raw(&mut self, name: &str, value: &str) {
        if self.has_room() {
            self.key(name);
            self.text.push_str(value);
        }
    }

    /// A field with a text.
    pub fn text(&mut self, name: &str, value: &str) {
        self.raw(name, &Value::from(value).to_string());
    }

    /// Begins a group, whose fields follow.
    pub fn group(&mut self, name: &str) {
        self.begin(Some(name), ('{', '}'));
    }

    /// Begins a sequence, whose elements follow.
    pub fn sequence(&mut self, name: &str) {
        self.begin(Some(name), ('[', ']'));
    }

    /// Begins the next element of a sequence.
    pub fn element(&mut self) {
        if self.open.last().is_some_and(|(end, _)| *end == '}') {
            self.end();
        }
        self.begin(None, ('{', '}'));
    }

    /// Ends a sequence and its last element.
    pub fn end_sequence(&mut self) {
        if self.open.last().is_some_and(|(end, _)| *end == '}') {
            self.end();
        }
        self.end();
    }

    fn begin(&mut self, name: Option<&str>, (begin, end): (char, char)) {
        let room = self.has_room();
        if room {
            match name {
                Some(name) => self.key(name),
                None if self.comma => self.text.push(','),
                None => {}
            }
            self.text.push(begin);
            self.comma = false;
        }
        self.open.push((end, room));
    }

    /// Ends a group.
    pub fn end(&mut self) {
        if let Some((end, true)) = self.open.pop() {
            self.text.push(end);
            self.comma = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_out() {
        let cases = [
            ((12_345, -3), "12.345"),
            ((-1, -2), "-0.01"),
            ((0, -2), "0.00"),
            ((0, 5), "0"),
            ((7, 2), "700"),
            ((i128::from(i64::MIN), 0), "-9223372036854775808"),
        ];
        for ((mantissa, exponent), text) in cases {
            assert_eq!(decimal(mantissa, exponent), text);
        }
        assert_eq!(integer(1 << 53), "9007199254740992");
        assert_eq!(integer(-(1 << 53) - 1), "\"-9007199254740993\"");
    }

    #[test]
    fn an_object_is_whole_also_where_it_is_cut() {
        let mut object = Object::default();
        let mut write = |count: usize| {
            object.open();
            object.raw("a", "1");
            object.sequence("list");
            for _ in 0..count {
                object.element();
                object.text("t", "é\"\n");
                object.group("g");
                object.raw("b", "2");
                object.end();
            }
            object.end_sequence();
            object.sequence("none");
            object.end_sequence();
            object.close();
            let value: Value = serde_json::from_str(&object.text).expect("JSON");
            (value, object.text.len())
        };
        let element = serde_json::json!({"t": "é\"\n", "g": {"b": 2}});
        let whole = serde_json::json!({"a": 1, "list": [element, element], "none": []});
        assert_eq!(write(2).0, whole);
        let (cut, length) = write(200_000);
        assert_eq!(cut["cut"], true);
        assert!((TEXT..TEXT + 100).contains(&length), "{length}");
    }
}
