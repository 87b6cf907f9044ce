//! Messages as `fairbell feed decode` shows them: a line of fields for people, or an object of JSON.
//!
//! In JSON, integers beyond 2^53, which many readers of JSON would round, are texts, and so are
//! decimals.

use std::fmt::Write as _;

use fast::itch::Message;
use fast::layout::Shown;
use fast::opra::{Best, Event, Header, Price, Series};
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

/// A message that is put together field by field, in either form.
struct Fields {
    form: Form,
    line: String,
    object: Object,
}

impl Fields {
    /// A message of that name.
    fn new(form: Form, name: &str) -> Fields {
        let mut fields = Fields { form, line: name.to_string(), object: Object::default() };
        fields.object.open();
        fields
    }

    /// A field of which both forms are given: for people, and as JSON.
    fn put(&mut self, name: &str, text: impl std::fmt::Display, json: impl FnOnce() -> String) {
        match self.form {
            // Writing to a string cannot fail.
            Form::Text => _ = write!(self.line, " {name}={text}"),
            Form::Json => self.object.raw(name, &json()),
        }
    }

    fn number(&mut self, name: &str, value: u64) {
        self.put(name, value, || integer(value.into()));
    }

    /// A number that is written out, a text in JSON.
    fn decimal(&mut self, name: &str, units: i128, decimals: i32) {
        let value = decimal(units, -decimals);
        self.put(name, &value, || Value::from(value.as_str()).to_string());
    }

    fn time(&mut self, name: &str, ns: u64) {
        self.put(name, time_of_day(ns), || integer(ns.into()));
    }

    fn letter(&mut self, name: &str, byte: u8) {
        let shown = match byte.is_ascii_graphic() {
            true => char::from(byte).to_string(),
            false => format!("'{}'", byte.escape_ascii()),
        };
        self.put(name, shown, || latin(&[byte]));
    }

    /// Padded text.
    fn text(&mut self, name: &str, bytes: &[u8]) {
        let bytes = bytes.trim_ascii_end();
        self.put(name, format_args!("\"{}\"", bytes.escape_ascii()), || latin(bytes));
    }

    fn told(mut self) -> String {
        self.object.close();
        match self.form {
            Form::Text => self.line,
            Form::Json => self.object.text,
        }
    }
}

/// Bytes as a text of JSON, each a character of Latin-1.
fn latin(bytes: &[u8]) -> String {
    Value::from(bytes.iter().map(|&byte| char::from(byte)).collect::<String>()).to_string()
}

/// A message of ITCH by the names of its description.
pub fn itch(form: Form, message: &Message<'_>) -> String {
    let mut fields = Fields::new(form, message.name());
    if form == Form::Json {
        fields.object.raw("type", &latin(&[message.kind()]));
        fields.object.text("name", message.name());
    }
    message.shown(|name, field| match field {
        Shown::Number(value) => fields.number(name, value),
        Shown::Letter(byte) => fields.letter(name, byte),
        Shown::Text(bytes) => fields.text(name, bytes),
        Shown::Decimal { units, decimals } => fields.decimal(name, units.into(), decimals.into()),
        Shown::Time(ns) => fields.time(name, ns),
    });
    fields.told()
}

/// A message of OPRA, of a kind that the caller names.
pub fn opra(form: Form, event: &Event<'_>) -> String {
    let mut fields = Fields::new(form, "");
    match event {
        Event::Quote(header, quote) => {
            fields.header(header);
            fields.series(&quote.series);
            fields.price("bid", quote.bid);
            fields.number("bid_size", quote.bid_size.into());
            fields.price("offer", quote.offer);
            fields.number("offer_size", quote.offer_size.into());
            fields.letter("session", quote.session);
            fields.letter("bbo", quote.bbo);
            fields.best("best_bid", quote.best_bid);
            fields.best("best_offer", quote.best_offer);
        }
        Event::LastSale(header, sale) => {
            fields.header(header);
            fields.series(&sale.series);
            fields.number("volume", sale.volume.into());
            fields.price("price", sale.price);
            fields.letter("session", sale.session);
        }
        Event::OpenInterest(header, series, contracts) => {
            fields.header(header);
            fields.series(series);
            fields.number("open_interest", (*contracts).into());
        }
        Event::Summary(header, summary) => {
            fields.header(header);
            fields.series(&summary.series);
            fields.number("volume", summary.volume.into());
            fields.number("open_interest", summary.open_interest.into());
            let prices = [
                ("open", summary.open),
                ("high", summary.high),
                ("low", summary.low),
                ("last", summary.last),
                ("net_change", summary.net_change),
                ("underlying", summary.underlying),
                ("bid", summary.bid),
                ("offer", summary.offer),
            ];
            prices.into_iter().for_each(|(name, price)| fields.price(name, price));
        }
        Event::Underlying(header, spot) => {
            fields.header(header);
            let values: Vec<String> = spot.values.iter().map(u64::to_string).collect();
            let json = || Value::from(values.clone()).to_string();
            fields.put("values", values.join(","), json);
        }
        Event::Admin(header, text) | Event::Control(header, text) => {
            fields.header(header);
            fields.number("text_length", text.text_len.into());
            let hash = format!("{:016x}", text.text_hash);
            fields.put("text_hash", &hash, || Value::from(hash.as_str()).to_string());
        }
        Event::Unknown(category) => fields.letter("category", *category),
    }
    fields.told().trim_start().to_string()
}

impl Fields {
    fn header(&mut self, header: &Header) {
        self.letter("type", header.kind);
        self.letter("participant", header.participant);
        self.letter("retransmission", header.retransmission);
        self.number("sequence", header.sequence);
        self.number("time", header.time);
    }

    /// Version 1 has one code of month and kind, which stands as the day's.
    fn series(&mut self, series: &Series) {
        let symbol = series.symbol.to_be_bytes();
        let first = symbol.iter().position(|byte| *byte != 0).unwrap_or(symbol.len());
        self.text("symbol", &symbol[first..]);
        match series.month {
            0 => {
                self.letter("month_code", series.day);
                self.number("year", series.year.into());
            }
            month => {
                // A to L are calls of January to December, M to X puts.
                let of = month.wrapping_sub(b'A');
                if of < 24 {
                    let right = if of < 12 { "call" } else { "put" };
                    self.put("right", right, || Value::from(right).to_string());
                    self.number("month", u64::from(of % 12) + 1);
                } else {
                    self.letter("month_code", month);
                }
                self.number("day", series.day.into());
                self.number("year", series.year.into());
            }
        }
        if series.strike_code != 0 {
            self.letter("strike_code", series.strike_code);
        }
        self.price("strike", series.strike);
    }

    fn price(&mut self, name: &str, price: Price) {
        let (mut units, mut decimals) = (i128::from(price.0), 8);
        // Two places as a rule, and as many more as it has.
        while decimals > 2 && units % 10 == 0 {
            (units, decimals) = (units / 10, decimals - 1);
        }
        self.decimal(name, units, decimals);
    }

    fn best(&mut self, name: &str, best: Option<Best>) {
        let Some(best) = best else { return };
        self.price(name, best.price);
        self.number(&format!("{name}_size"), best.size.into());
        self.letter(&format!("{name}_participant"), best.participant);
    }
}

/// A record of DBN, an object of JSON as its own library writes it, by names and values.
pub fn dbn(form: Form, object: &str) -> String {
    fn put(line: &mut String, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => {
                let inner = |of: &String| match name.is_empty() || name == "hd" {
                    true => of.clone(),
                    false => format!("{name}.{of}"),
                };
                fields.iter().for_each(|(of, value)| put(line, &inner(of), value));
            }
            Value::Array(list) => {
                list.iter()
                    .enumerate()
                    .for_each(|(at, value)| put(line, &format!("{name}[{at}]"), value));
            }
            Value::String(text) => _ = write!(line, " {name}={}", text.escape_default()),
            other => _ = write!(line, " {name}={other}"),
        }
    }
    match form {
        Form::Json => object.to_string(),
        Form::Text => {
            let mut line = String::new();
            put(&mut line, "", &serde_json::from_str(object).unwrap_or_default());
            line.trim_start().to_string()
        }
    }
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
    fn messages_of_opra_are_told_field_by_field_in_both_forms() {
        use fast::opra::{Control, Quote, Spot};
        let header =
            Header { kind: b' ', participant: b'C', retransmission: b' ', sequence: 7, time: 9 };
        let symbol = u64::from_be_bytes(*b"\0\0\0\0AMZN");
        let strike = Price(16_525_000_000);
        let put = Series { symbol, month: b'N', day: 19, year: 24, strike_code: 0, strike };
        let bid = Price(123_456_789);
        let best = Best { participant: b'P', price: bid, size: 3 };
        let quote = Quote {
            series: put,
            bid,
            bid_size: 2,
            session: b'a',
            best_bid: Some(best),
            ..Quote::default()
        };
        let quote = Event::Quote(header, quote);
        let text = opra(Form::Text, &quote);
        let start = "type=' ' participant=C retransmission=' ' sequence=7 time=9 symbol=\"AMZN\" right=put month=2 day=19 \
                     year=24 strike=165.25 bid=1.23456789 bid_size=2 offer=0.00 offer_size=0 session=a";
        assert!(text.starts_with(start), "{text}");
        assert!(
            text.ends_with("best_bid=1.23456789 best_bid_size=3 best_bid_participant=P"),
            "{text}"
        );
        let json: Value = serde_json::from_str(&opra(Form::Json, &quote)).expect("JSON");
        assert_eq!(
            (&json["symbol"], &json["right"], &json["bid"]),
            (&"AMZN".into(), &"put".into(), &"1.23456789".into())
        );
        assert_eq!((&json["month"], &json["best_offer"]), (&2.into(), &Value::Null));
        // Version 1 has one code of month and kind, and a code of the strike.
        let coded = Series { month: 0, day: b'M', strike_code: b'A', ..put };
        let text = opra(Form::Text, &Event::OpenInterest(header, coded, 5));
        assert!(
            text.contains("month_code=M year=24 strike_code=A strike=165.25 open_interest=5"),
            "{text}"
        );
        // Repeated values are a list, and an unknown category is named.
        let values = |values: &[u64]| opra(Form::Json, &Event::Underlying(header, Spot { values }));
        assert!(values(&[3, 4]).ends_with("\"values\":[\"3\",\"4\"]}"), "{}", values(&[3, 4]));
        let admin = Control { text_len: 0, text_hash: u64::MAX };
        assert!(
            opra(Form::Text, &Event::Admin(header, admin))
                .ends_with("text_length=0 text_hash=ffffffffffffffff")
        );
        assert_eq!(opra(Form::Json, &Event::Unknown(b'?')), "{\"category\":\"?\"}");
    }

    #[test]
    fn records_of_dbn_are_told_by_their_names() {
        let object = r#"{"hd":{"rtype":160},"price":"1.5","levels":[{"bid":"a\nb"}]}"#;
        assert_eq!(dbn(Form::Text, object), "rtype=160 levels[0].bid=a\\nb price=1.5");
        assert_eq!(dbn(Form::Json, object), object);
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
