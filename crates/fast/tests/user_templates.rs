//! Templates as a stranger's file: refused with a line, bounded in memory and work, and as good as any
//! other when they are right. A slice of the broken ones; more with `FAIRBELL_MUTATIONS`.

use std::sync::Arc;
use std::time::Instant;

use fast::opra::stream::Random;
use fast::opra::{V2, fast_templates};
use fast::slots::Description;
use fast::xml::{NAMESPACE, TEXT_MAX};
use fast::{Code, Decoder, FastError, Sink, Templates, Value};

fn document(inside: &str) -> String {
    format!("<templates xmlns='{NAMESPACE}'>\n{inside}\n</templates>\n")
}

fn refused(text: &str) -> (Code, u32, String) {
    let error = Templates::from_user_xml(text).expect_err("refused");
    (error.code, error.line, error.detail)
}

/// Counts what it is told.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn field(&mut self, _field: u32, _value: Value<'_>) {
        self.0 += 1;
    }

    fn absent(&mut self, _field: u32) {
        self.0 += 1;
    }
}

#[test]
fn every_complaint_has_the_line_of_what_it_is_about() {
    let good = "<template name='a' id='1'>\n <uInt32 name='n'><copy/></uInt32>\n</template>";
    assert!(Templates::from_user_xml(&document(good)).is_ok(), "a control");
    let cases = [
        ("<template name='a' id='1'>\n\n <uint32 name='n'/>\n</template>", Code::S1, 4),
        ("<template name='a' id='1'>\n <uInt32 name='n' width='4'/></template>", Code::S1, 3),
        ("<template name='a' id='1'>\n <uInt32 name='n'><tail/></uInt32></template>", Code::S2, 3),
        (
            "<template name='a' id='1'>\n\n\n <uInt32 name='n'>\n  <constant value='-1'/></uInt32></template>",
            Code::S3,
            6,
        ),
        (
            "<template name='a' id='1'>\n <uInt32 name='n'><constant/></uInt32></template>",
            Code::S4,
            3,
        ),
        (
            "<template name='a' id='1'>\n <uInt32 name='n'><default/></uInt32></template>",
            Code::S5,
            3,
        ),
        ("<template name='a' id='1'>\n <templateRef name='b'/></template>", Code::D8, 3),
        ("<template name='a' id='1'>\n <x:field xmlns:x='' name='n'/></template>", Code::S1, 3),
        ("<template name='a' id='1'>\n <field xmlns='' name='n'/></template>", Code::S1, 3),
        ("<template name='a' id='1'/>\n<template name='b' id='1'/>", Code::S1, 3),
        ("<template name='a' id='1'/>\n\n<template name='a' id='2'/>", Code::S1, 4),
        ("<template name='a'/>", Code::S1, 1),
        ("<template name='a' id='1'>\n<group name='g'></template>", Code::S1, 3),
    ];
    for (inside, code, line) in cases {
        let (of, at, detail) = refused(&document(inside));
        assert_eq!((of, at), (code, line), "{inside}: {detail}");
    }
    let (code, _, detail) = refused("<templates/>");
    assert_eq!(code, Code::S1);
    assert!(detail.contains(NAMESPACE), "{detail}");
    let (code, line, _) = refused(&format!("<!DOCTYPE t [<!ENTITY a 'b'>]>\n{}", document(good)));
    assert_eq!((code, line), (Code::S1, 1));
}

#[test]
fn a_reference_is_looked_for_in_the_namespace_of_its_template() {
    let inside = "<template templateNs='urn:a' name='a' id='1'><templateRef name='b'/></template>\
                  <template templateNs='NS' name='b'><uInt32 name='n'/></template>";
    assert!(Templates::from_user_xml(&document(&inside.replace("NS", "urn:a"))).is_ok());
    assert_eq!(refused(&document(&inside.replace("NS", "urn:b"))).0, Code::D8);
}

#[test]
fn hostile_documents_are_refused_before_they_cost_anything() {
    let started = Instant::now();
    let long = "x".repeat(TEXT_MAX);
    assert_eq!(refused(&document(&format!("<!--{long}-->"))).0, Code::Limit);
    let deep = "<group name='g'>".repeat(100_000);
    let deep = document(&format!("<template name='a' id='1'>{deep}</template>"));
    assert_eq!(refused(&deep).0, Code::Limit, "too many elements");
    let depth = 40;
    let (open, close) = ("<group name='g'>".repeat(depth), "</group>".repeat(depth));
    let nested =
        |inside: &str| format!("<template name='a' id='1'>{open}{inside}{close}</template>");
    assert_eq!(refused(&document(&nested(""))).0, Code::Limit);
    // Groups of one template around references to others with groups: deep only when written out.
    let mut chain = String::new();
    for at in 0..20 {
        chain += &format!(
            "<template name='t{at}' id='{at}'><group name='a'><group name='b'><group name='c'>\
             <templateRef name='t{}'/></group></group></group></template>\n",
            at + 1
        );
    }
    chain += "<template name='t20'><uInt32 name='n'/></template>";
    let (code, line, detail) = refused(&document(&chain));
    assert_eq!((code, line), (Code::Limit, 2), "{detail}");
    // One long constant, referred to many times.
    let constant = "y".repeat(1 << 20);
    let mut many = format!(
        "<template name='c'><string name='s'><constant value='{constant}'/></string></template>\n"
    );
    many += &format!(
        "<template name='a' id='1'>{}</template>",
        "<templateRef name='c'/>".repeat(60_000)
    );
    assert_eq!(refused(&document(&many)).0, Code::Limit);
    // A namespace that every field would repeat.
    let heavy = format!(
        "<template name='a' id='1' ns='{}'>{}</template>",
        "n".repeat(1 << 20),
        (0..10_000).map(|at| format!("<uInt32 name='f{at}'/>")).collect::<String>()
    );
    assert_eq!(refused(&document(&heavy)).0, Code::Limit);
    let crowd = "<template name='a'/>".repeat(100_000);
    assert_eq!(refused(&document(&crowd)).0, Code::Limit);
    let many: String =
        (0..30_000).map(|at| format!("<template name='t{at}' id='{at}'/>")).collect();
    assert!(Templates::from_user_xml(&document(&many)).is_ok(), "a control: many, but well within");
    // No assertion of time: this is for whoever looks at a slow run.
    println!("{:?}", started.elapsed());
}

#[test]
fn a_few_bytes_cannot_ask_for_endless_work() {
    let fields: String = (0..30_000)
        .map(|at| format!("<uInt32 name='f{at}'><constant value='1'/></uInt32>"))
        .collect();
    let inside =
        format!("<template name='a' id='1'><sequence name='s'>{fields}</sequence></template>");
    let templates = Arc::new(Templates::from_user_xml(&document(&inside)).expect("valid"));
    let mut decoder = Decoder::new(Arc::clone(&templates));
    let mut count = Count::default();
    // 100 elements are three million steps; 60,000 of them are within the bound of elements alone.
    let message = |length: u32| {
        let (high, low) = ((length >> 7) as u8 & 0x7F, 0x80 | (length & 0x7F) as u8);
        vec![0xC0, 0x81, (length >> 14) as u8, high, low]
    };
    assert!(decoder.message(&message(100), &mut count).is_ok(), "a control");
    assert_eq!(count.0, 3_000_000);
    let error = decoder.message(&message(60_000), &mut count).expect_err("too much");
    assert_eq!(error.code, Code::Limit);
    assert_eq!(count.0, 3_000_000, "before any of it was done");
}

#[test]
fn groups_within_groups_within_dynamic_references_fit_a_thread() {
    let depth = 28;
    let (open, close) =
        ("<group name='g' presence='optional'>".repeat(depth), "</group>".repeat(depth));
    let inside = format!("<template name='a' id='1'>{open}<templateRef/>{close}</template>");
    let templates = Arc::new(Templates::from_user_xml(&document(&inside)).expect("valid"));
    let run = move || -> Result<usize, FastError> {
        let mut decoder = Decoder::new(templates);
        let mut bytes = Vec::new();
        for _ in 0..1_000 {
            bytes.extend([0xE0, 0x81]);
            bytes.extend([0xC0; 27]);
        }
        decoder.message(&bytes, &mut Count::default())
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run).expect("a thread");
    assert_eq!(thread.join().expect("no overflow").expect_err("too deep").code, Code::Limit);
}

#[test]
fn broken_documents_are_refused_or_bounded() {
    let rounds: u64 =
        std::env::var("FAIRBELL_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
    let seed = 0x0DD5_EED5;
    println!("seed {seed:#x}, {rounds} rounds");
    let mut random = Random::new(seed);
    let right = fast_templates(&V2::FORMAT);
    let pieces = [
        "<templateRef/>",
        "<templateRef name='quote'/>",
        "<copy/>",
        "<delta/>",
        "<group name='g'>",
        "</group>",
        "<sequence name='s'>",
        "<length name='l'/>",
        "</sequence>",
        "</template>",
        "<tail/>",
        "presence='optional'",
        "value='9999999999999999999999'",
        "id='4294967295'",
        "<x/>",
        "&lt;",
        "\0",
        "<decimal name='d'><exponent><delta/></exponent><mantissa/></decimal>",
        "dictionary='type'",
    ];
    let (mut taken, mut told) = (0_u64, 0_u64);
    for _ in 0..rounds {
        let mut text: Vec<char> = right.chars().collect();
        for _ in 0..1 + random.below(3) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(5) {
                0 => text[at] = char::from(random.next_bits() as u8),
                1 => {
                    text.remove(at);
                }
                2 => {
                    text.drain(at..(at + random.below(80) as usize).min(text.len()));
                }
                3 => {
                    let piece = pieces[random.below(pieces.len() as u64) as usize];
                    text.splice(at..at, piece.chars());
                }
                _ => {
                    // Where an element ends, so that a good part stays well-formed.
                    let piece = pieces[random.below(pieces.len() as u64) as usize];
                    let end = text[at..]
                        .iter()
                        .position(|c| *c == '>')
                        .map_or(text.len(), |n| at + n + 1);
                    text.splice(end..end, piece.chars());
                }
            }
        }
        let text: String = text.into_iter().collect();
        let templates = match Templates::from_user_xml(&text) {
            Ok(templates) => Arc::new(templates),
            Err(error) => {
                assert!(error.line > 0, "{error}");
                told += 1;
                continue;
            }
        };
        taken += 1;
        let mut decoder = Decoder::new(templates);
        for _ in 0..20 {
            let length = random.below(200) as usize;
            let mut bytes: Vec<u8> = (0..length).map(|_| random.next_bits() as u8).collect();
            bytes.splice(0..0, [0xC0 | random.next_bits() as u8, 0x80 | random.next_bits() as u8]);
            let mut rest = bytes.as_slice();
            while let Ok(used) = decoder.message(rest, &mut Count::default()) {
                assert!(used > 0, "a message has bytes");
                rest = &rest[used..];
            }
        }
    }
    assert!(taken > rounds / 50 && told > rounds / 20, "{taken} taken, {told} refused");
}
