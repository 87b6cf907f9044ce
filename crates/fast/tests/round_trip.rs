//! Random templates with random messages: what is encoded is decoded as it was, to the last byte, by
//! a strict decoder, message by message and as a block.
//!
//! A document has up to four templates with all types, operators, dictionaries and keys, groups,
//! sequences, static and dynamic references and resets. Keys belong to one type, so that fields share
//! previous values without D4.

use std::fmt::Write;
use std::sync::Arc;

use fast::opra::stream::Random;
use fast::{Code, Decimal, Decoder, Encoder, Item, Owned, Record, Recorder, Templates, Type};
use proptest::prelude::*;

const TYPES: [(Type, &str, &str); 8] = [
    (Type::U32, "uInt32", ""),
    (Type::I32, "int32", ""),
    (Type::U64, "uInt64", ""),
    (Type::I64, "int64", ""),
    (Type::Decimal, "decimal", ""),
    (Type::Ascii, "string", ""),
    (Type::Unicode, "string", " charset='unicode'"),
    (Type::Bytes, "byteVector", ""),
];

/// A field, and what its values have to keep to.
enum Node {
    Value { name: String, ty: Type, optional: bool, fixed: Option<Owned>, exponent: Option<i32> },
    Group { name: String, optional: bool, inside: Vec<Node> },
    Sequence { name: String, optional: bool, fixed: Option<u64>, inside: Vec<Node> },
    Static(usize),
    Dynamic,
}

struct Document {
    random: Random,
    xml: String,
    names: u32,
    templates: Vec<Vec<Node>>,
    /// Templates that nothing refers to statically yet.
    free: Vec<usize>,
}

impl Document {
    fn new(seed: u64) -> Document {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4) as usize;
        let xml = "<templates xmlns='http://www.fixprotocol.org/ns/fast/td/1.1' \
                   xmlns:scp='http://www.fixprotocol.org/ns/fast/scp/1.1'>"
            .to_string();
        let free = (1..count).collect();
        let mut document = Document { random, xml, names: 0, templates: Vec::new(), free };
        for at in 0..count {
            document.template(at, count);
        }
        document.xml += "</templates>";
        document
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.random.below(all.len() as u64) as usize]
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("f{}", self.names)
    }

    fn template(&mut self, at: usize, count: usize) {
        let id = if self.one_in(4) { 5_000 + at } else { at };
        let reset = if self.one_in(5) { " scp:reset='yes'" } else { "" };
        let dictionary = *self.pick(&["", " dictionary='template'", " dictionary='type'"]);
        let _ = write!(self.xml, "<template name='t{at}' id='{id}'{reset}{dictionary}>");
        if self.one_in(2) {
            let ty = self.random.below(2);
            let _ = write!(self.xml, "<typeRef name='T{ty}'/>");
        }
        let last = at + 1 == count;
        let nodes = self.body(at, if last { 0 } else { 2 }, last);
        self.xml += "</template>";
        self.templates.push(nodes);
    }

    /// Instructions of template `at`; those of the last one refer to nothing.
    fn body(&mut self, at: usize, depth: u32, last: bool) -> Vec<Node> {
        let mut nodes = Vec::new();
        for _ in 0..1 + self.random.below(7) {
            let node = match self.random.below(14) {
                0 | 1 if depth > 0 => self.group(at, depth, last),
                2 | 3 if depth > 0 => self.sequence(at, depth, last),
                4 if !last => {
                    // Later templates only, each once: its fields are part of this record.
                    match self.free.iter().position(|&free| free > at) {
                        None => continue,
                        Some(place) => {
                            let to = self.free.remove(place);
                            let _ = write!(self.xml, "<templateRef name='t{to}'/>");
                            Node::Static(to)
                        }
                    }
                }
                5 if !last => {
                    self.xml += "<templateRef/>";
                    Node::Dynamic
                }
                6 | 7 => self.parts(),
                _ => self.value(),
            };
            nodes.push(node);
        }
        nodes
    }

    fn presence(&mut self) -> (bool, &'static str) {
        if self.one_in(2) { (true, " presence='optional'") } else { (false, "") }
    }

    fn group(&mut self, at: usize, depth: u32, last: bool) -> Node {
        let (name, (optional, presence)) = (self.name(), self.presence());
        let _ = write!(self.xml, "<group name='{name}'{presence}>");
        let inside = self.body(at, depth - 1, last);
        self.xml += "</group>";
        Node::Group { name, optional, inside }
    }

    fn sequence(&mut self, at: usize, depth: u32, last: bool) -> Node {
        let (name, (optional, presence)) = (self.name(), self.presence());
        let _ = write!(self.xml, "<sequence name='{name}'{presence}>");
        let mut fixed = None;
        if self.one_in(2) {
            let length = if self.one_in(2) { format!(" name='{name}n'") } else { String::new() };
            let _ = write!(self.xml, "<length{length}>");
            let constant = self.operator(Type::U32, optional, Owned::U32(2));
            fixed = constant.map(|_| 2);
            self.xml += "</length>";
        }
        let inside = self.body(at, depth - 1, last);
        self.xml += "</sequence>";
        Node::Sequence { name, optional, fixed, inside }
    }

    fn value(&mut self) -> Node {
        let &(ty, element, more) = self.pick(&TYPES);
        let (name, (optional, presence)) = (self.name(), self.presence());
        let _ = write!(self.xml, "<{element} name='{name}'{more}{presence}>");
        let initial = self.initial(ty);
        let fixed = self.operator(ty, optional, initial);
        let _ = write!(self.xml, "</{element}>");
        Node::Value { name, ty, optional, fixed, exponent: None }
    }

    /// A decimal whose parts have operators.
    fn parts(&mut self) -> Node {
        let (name, (optional, presence)) = (self.name(), self.presence());
        let _ = write!(self.xml, "<decimal name='{name}'{presence}><exponent>");
        let constant = self.operator(Type::I32, optional, Owned::I32(-3));
        self.xml += "</exponent><mantissa>";
        let mantissa = self.operator(Type::I64, false, Owned::I64(77));
        self.xml += "</mantissa></decimal>";
        let exponent = constant.map(|_| -3);
        let fixed = mantissa.map(|_| Owned::I64(77));
        Node::Value { name, ty: Type::Decimal, optional, fixed, exponent }
    }

    fn initial(&mut self, ty: Type) -> Owned {
        match ty {
            Type::U32 => Owned::U32(7),
            Type::I32 => Owned::I32(-7),
            Type::U64 => Owned::U64(u64::MAX),
            Type::I64 => Owned::I64(i64::MIN),
            Type::Decimal => Owned::Decimal(Decimal { exponent: -2, mantissa: 125 }),
            Type::Ascii => Owned::Ascii(b"abc".to_vec()),
            Type::Unicode => Owned::Unicode("abc".to_string()),
            Type::Bytes => Owned::Bytes(vec![0xAB, 0xC0]),
        }
    }

    /// Writes an operator or none; what a constant one holds.
    fn operator(&mut self, ty: Type, optional: bool, initial: Owned) -> Option<Owned> {
        let text = match &initial {
            Owned::Decimal(_) => "1.25".to_string(),
            Owned::Ascii(_) | Owned::Unicode(_) => "abc".to_string(),
            Owned::Bytes(_) => "abc0".to_string(),
            number => number.as_value().integer().unwrap().to_string(),
        };
        let value = format!(" value='{text}'");
        let kind = match self.random.below(9) {
            0 => return None,
            1 => {
                let _ = write!(self.xml, "<constant{value}/>");
                return Some(initial);
            }
            2 => {
                let value = if optional && self.one_in(2) { "" } else { value.as_str() };
                let _ = write!(self.xml, "<default{value}/>");
                return None;
            }
            3 | 4 if ty.is_integer() => "increment",
            3 | 4 if ty.is_text() => "tail",
            5 | 6 => "delta",
            _ => "copy",
        };
        let value = if self.one_in(2) { value.as_str() } else { "" };
        let key = match self.one_in(2) {
            true => format!(" key='{ty:?}{}'", self.random.below(2)),
            false => String::new(),
        };
        let all = [
            "",
            " dictionary='template'",
            " dictionary='type'",
            " dictionary='global'",
            " dictionary='x'",
        ];
        let dictionary = *self.pick(&all);
        let _ = write!(self.xml, "<{kind}{value}{key}{dictionary}/>");
        None
    }
}

/// Draws messages of a document's templates.
struct Author<'d> {
    document: &'d Document,
    templates: Arc<Templates>,
    random: Random,
}

impl Author<'_> {
    fn message(&mut self, template: usize, depth: u32) -> Record {
        let mut record = Record::of(template as u32);
        self.fill(&self.document.templates[template], &mut record, depth);
        record
    }

    fn fill(&mut self, nodes: &[Node], record: &mut Record, depth: u32) {
        for node in nodes {
            let set = match node {
                Node::Static(to) => {
                    self.fill(&self.document.templates[*to], record, depth);
                    continue;
                }
                Node::Dynamic => {
                    // The last template refers to nothing.
                    let count = self.document.templates.len();
                    let to = self.random.below(count as u64) as usize;
                    let to = if depth > 2 { count - 1 } else { to };
                    record.parts.push(self.message(to, depth + 1));
                    continue;
                }
                Node::Value { optional, .. }
                | Node::Group { optional, .. }
                | Node::Sequence { optional, .. } => !optional || self.random.below(3) > 0,
            };
            if !set {
                continue;
            }
            let (name, item) = match node {
                Node::Value { name, ty, fixed, exponent, .. } => {
                    (name, Item::Value(self.value(*ty, fixed.as_ref(), *exponent)))
                }
                Node::Group { name, inside, .. } => {
                    let mut group = Record::default();
                    self.fill(inside, &mut group, depth);
                    (name, Item::Group(group))
                }
                Node::Sequence { name, fixed, inside, .. } => {
                    let count = fixed.unwrap_or_else(|| self.random.below(4));
                    let element = |author: &mut Self| {
                        let mut element = Record::default();
                        author.fill(inside, &mut element, depth + 1);
                        element
                    };
                    (name, Item::Sequence((0..count).map(|_| element(self)).collect()))
                }
                Node::Static(_) | Node::Dynamic => continue,
            };
            record.fields.push((self.templates.name(name).unwrap(), item));
        }
    }

    /// Few different values, so that operators find them again, and the edges of the type.
    fn value(&mut self, ty: Type, fixed: Option<&Owned>, exponent: Option<i32>) -> Owned {
        if ty == Type::Decimal {
            if let Some(Owned::Decimal(whole)) = fixed {
                return Owned::Decimal(*whole);
            }
            let mantissa = match fixed {
                Some(Owned::I64(mantissa)) => *mantissa,
                _ => [0, 77, -5, i64::MAX, i64::MIN][self.random.below(5) as usize],
            };
            let drawn = [-63, -3, -2, 0, 63][self.random.below(5) as usize];
            return Owned::Decimal(Decimal { exponent: exponent.unwrap_or(drawn), mantissa });
        }
        if let Some(fixed) = fixed {
            return fixed.clone();
        }
        if ty.is_integer() {
            let (low, high) = ty.bounds();
            let near = i128::from(self.random.below(130));
            let value = [7, 8, near, near, low, high, low + near, high - near];
            return Owned::of_integer(ty, value[self.random.below(8) as usize]).unwrap();
        }
        let texts = ["", "abc", "abd", "abcdef", "zabc", "abcabcabc", "\0", "\0a", "b\0"];
        let text = texts[self.random.below(texts.len() as u64) as usize];
        match ty {
            Type::Ascii => Owned::Ascii(text.as_bytes().to_vec()),
            Type::Unicode => Owned::Unicode(text.replace('z', "\u{20ac}")),
            _ => Owned::Bytes(text.bytes().map(|byte| byte.wrapping_mul(3)).collect()),
        }
    }
}

/// Encodes and decodes a stream of a document; messages that went through, and those refused.
fn round_trip(seed: u64) -> (u32, u32) {
    let document = Document::new(seed);
    let templates = Templates::from_xml(&document.xml);
    let templates = Arc::new(templates.unwrap_or_else(|e| panic!("{e}\n{}", document.xml)));
    let random = Random::new(!seed);
    let mut author = Author { document: &document, templates: Arc::clone(&templates), random };
    let mut encoder = Encoder::new(Arc::clone(&templates));
    let mut decoder = Decoder::new(Arc::clone(&templates)).strict();
    let mut recorder = Recorder::new(Arc::clone(&templates));
    let (mut through, mut refused) = (0, 0);
    // Bytes and records since both sides began or were reset.
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let which = author.random.below(document.templates.len() as u64) as usize;
        let record = author.message(which, 0);
        let start = bytes.len();
        if let Err(error) = encoder.message(&record, &mut bytes) {
            // A tail cannot shorten, and a delta has no base when a shared previous value is empty.
            let known = [Code::Unencodable, Code::D3, Code::D6].contains(&error.code);
            assert!(known, "seed {seed}: {error}\n{}\n{record:?}", document.xml);
            refused += 1;
            encoder.reset();
            decoder.reset();
            bytes.clear();
            records.clear();
            continue;
        }
        let about = || format!("seed {seed}\n{}\n{record:?}\n{bytes:02x?}", document.xml);
        let used = decoder.message(&bytes[start..], &mut recorder);
        let used = used.unwrap_or_else(|error| panic!("{error}: {}", about()));
        assert_eq!(used, bytes.len() - start, "{}", about());
        assert_eq!(recorder.messages.pop().as_ref(), Some(&record), "{}", about());
        records.push(record);
        through += 1;
    }
    if !records.is_empty() {
        let mut block = Vec::new();
        Encoder::new(Arc::clone(&templates)).block(&records, &mut block).unwrap();
        let mut decoder = Decoder::new(Arc::clone(&templates)).strict();
        assert_eq!(decoder.block(&block, &mut recorder), Ok(block.len()), "seed {seed}");
        assert_eq!(recorder.messages, records, "seed {seed}");
        assert!(block.ends_with(&bytes), "seed {seed}");
    }
    (through, refused)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_encoded_is_decoded(seed in any::<u64>()) {
        round_trip(seed);
    }
}

#[test]
fn most_messages_go_through_and_some_are_refused() {
    let counts = (0..300).map(round_trip).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert!(counts.0 > 2_500 && counts.1 > 20, "{counts:?}");
}
