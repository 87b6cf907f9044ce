//! The examples of FAST 1.1, appendix 3, decoded and encoded.
//!
//! Where the printed hexadecimal contradicts the binary beside it or the normative text, the text
//! is followed: -8193 begins with 7F (3.1.1 example 6, 3.1.5 example 8), an optional byte vector of
//! three bytes has the length 84 (3.1.4 example 1), and the mantissa of an optional decimal with
//! operators of its parts is mandatory (§10.5.1, against the first line of 3.2.6 example 3).

use std::sync::Arc;

use fast::convert::from_string;
use fast::{Code, Decoder, Encoder, Item, Record, Recorder, Templates, Type};

/// One field with its history: values as text (`None` is absent), presence bits, content.
type Step<'a> = (Option<&'a str>, &'a str, &'a [u8]);

fn templates(field: &str) -> Arc<Templates> {
    let text = format!(
        "<template xmlns='http://www.fixprotocol.org/ns/fast/td/1.1' name='t' id='1'>{field}</template>"
    );
    Arc::new(Templates::from_xml(&text).unwrap())
}

/// Template identifier in the first message only.
fn message(first: bool, bits: &str, content: &[u8]) -> Vec<u8> {
    let mut map = if first { 0x40 } else { 0 };
    for (at, bit) in bits.bytes().enumerate() {
        map |= if bit == b'1' { 0x20 >> at } else { 0 };
    }
    let id: &[u8] = if first { &[0x81] } else { &[] };
    [&[map | 0x80], id, content].concat()
}

fn check(field: &str, ty: Type, steps: &[Step<'_>]) {
    let templates = templates(field);
    let mut decoder = Decoder::new(Arc::clone(&templates)).strict();
    let mut encoder = Encoder::new(Arc::clone(&templates));
    for (at, (value, bits, content)) in steps.iter().enumerate() {
        let bytes = message(at == 0, bits, content);
        let value = value.map(|text| from_string(text, ty).unwrap());
        let mut recorder = Recorder::new(Arc::clone(&templates));
        assert_eq!(decoder.message(&bytes, &mut recorder), Ok(bytes.len()), "{field} step {at}");
        let got = recorder.messages[0].get(0).map(|item| match item {
            Item::Value(value) => value.clone(),
            other => panic!("{other:?}"),
        });
        assert_eq!(got, value, "{field} step {at}");
        let mut record = Record::of(0);
        record.fields.extend(value.map(|value| (0, Item::Value(value))));
        let mut encoded = Vec::new();
        encoder.message(&record, &mut encoded).unwrap();
        assert_eq!(encoded, bytes, "{field} step {at}");
    }
}

/// Each value in a stream of its own.
fn each(field: &str, ty: Type, steps: &[Step<'_>]) {
    for step in steps {
        check(field, ty, &[*step]);
    }
}

#[test]
fn signed_integers() {
    let optional = "<int32 id='1' presence='optional' name='Value'/>";
    let mandatory = "<int32 id='1' presence='mandatory' name='Value'/>";
    each(
        optional,
        Type::I32,
        &[(Some("942755"), "", &[0x39, 0x45, 0xA4]), (Some("-942755"), "", &[0x46, 0x3A, 0xDD])],
    );
    each(
        mandatory,
        Type::I32,
        &[
            (Some("942755"), "", &[0x39, 0x45, 0xA3]),
            (Some("-7942755"), "", &[0x7C, 0x1B, 0x1B, 0x9D]),
            (Some("8193"), "", &[0x00, 0x40, 0x81]),
            (Some("-8193"), "", &[0x7F, 0x3F, 0xFF]),
        ],
    );
}

#[test]
fn unsigned_integers() {
    each(
        "<uInt32 id='1' presence='optional' name='Value'/>",
        Type::U32,
        &[
            (None, "", &[0x80]),
            (Some("0"), "", &[0x81]),
            (Some("1"), "", &[0x82]),
            (Some("942755"), "", &[0x39, 0x45, 0xA4]),
            // §10.6.1, note.
            (Some("4294967295"), "", &[0x10, 0, 0, 0, 0x80]),
        ],
    );
    each(
        "<uInt32 id='1' presence='mandatory' name='Value'/>",
        Type::U32,
        &[
            (Some("0"), "", &[0x80]),
            (Some("1"), "", &[0x81]),
            (Some("942755"), "", &[0x39, 0x45, 0xA3]),
        ],
    );
}

#[test]
fn strings_and_byte_vectors() {
    let abc = Some("ABC");
    each(
        "<string id='1' presence='optional' name='Value'/>",
        Type::Ascii,
        &[(None, "", &[0x80]), (abc, "", &[0x41, 0x42, 0xC3]), (Some(""), "", &[0, 0x80])],
    );
    each(
        "<string id='1' presence='mandatory' name='Value'/>",
        Type::Ascii,
        &[(abc, "", &[0x41, 0x42, 0xC3]), (Some(""), "", &[0x80])],
    );
    let abc = Some("414243");
    each(
        "<byteVector id='1' presence='optional' name='Value'/>",
        Type::Bytes,
        &[(None, "", &[0x80]), (abc, "", &[0x84, 0x41, 0x42, 0x43]), (Some(""), "", &[0x81])],
    );
    each(
        "<byteVector id='1' presence='mandatory' name='Value'><length name='n'/></byteVector>",
        Type::Bytes,
        &[(abc, "", &[0x83, 0x41, 0x42, 0x43]), (Some(""), "", &[0x80])],
    );
}

#[test]
fn decimals() {
    let scaled = |field: &str, exponent: i32, mantissa: i64, content: &[u8]| {
        let templates = templates(field);
        let bits = if field.contains("copy") { "1" } else { "" };
        let bytes = message(true, bits, content);
        let mut recorder = Recorder::new(Arc::clone(&templates));
        let mut decoder = Decoder::new(Arc::clone(&templates)).strict();
        assert_eq!(decoder.message(&bytes, &mut recorder), Ok(bytes.len()));
        let value = fast::Owned::Decimal(fast::Decimal { exponent, mantissa });
        assert_eq!(recorder.messages[0].get(0), Some(&Item::Value(value)));
        let mut encoded = Vec::new();
        Encoder::new(templates).message(&recorder.messages[0], &mut encoded).unwrap();
        assert_eq!(encoded, bytes);
    };
    let mandatory = "<decimal id='1' presence='mandatory' name='Value'/>";
    let optional = "<decimal id='1' presence='optional' name='Value'/>";
    scaled(mandatory, 2, 942_755, &[0x82, 0x39, 0x45, 0xA3]);
    scaled(mandatory, 1, 9_427_550, &[0x81, 0x04, 0x3F, 0x34, 0xDE]);
    scaled(optional, 2, 942_755, &[0x83, 0x39, 0x45, 0xA3]);
    scaled(mandatory, -2, 942_755, &[0xFE, 0x39, 0x45, 0xA3]);
    scaled(optional, -2, -942_755, &[0xFE, 0x46, 0x3A, 0xDD]);
    scaled(optional, -3, -8_193, &[0xFD, 0x7F, 0x3F, 0xFF]);
    let copy = "<decimal id='1' presence='optional' name='Value'><copy/></decimal>";
    scaled(copy, -2, 942_755, &[0xFE, 0x39, 0x45, 0xA3]);
    let parts = "<decimal id='1' presence='optional' name='Value'>\
                 <exponent><copy/></exponent><mantissa><delta/></mantissa></decimal>";
    scaled(parts, -2, 942_755, &[0xFE, 0x39, 0x45, 0xA3]);
}

#[test]
fn constant_and_default() {
    let constant = "<uInt32 id='1' presence='mandatory' name='Flag'><constant value='0'/></uInt32>";
    check(constant, Type::U32, &[(Some("0"), "", &[])]);
    let templates = templates(constant);
    let mut encoder = Encoder::new(Arc::clone(&templates));
    let record = Record::of(0).set(&templates, "Flag", fast::Owned::U32(99));
    let refused = encoder.message(&record, &mut Vec::new()).unwrap_err();
    assert_eq!(refused.code, Code::Unencodable);
    let optional = "<uInt32 id='1' presence='optional' name='Flag'><constant value='0'/></uInt32>";
    check(optional, Type::U32, &[(Some("0"), "1", &[]), (None, "0", &[])]);
    let default = "<uInt32 id='1' presence='mandatory' name='Flag'><default value='0'/></uInt32>";
    check(default, Type::U32, &[(Some("0"), "0", &[]), (Some("1"), "1", &[0x81])]);
    let optional = "<uInt32 id='1' presence='optional' name='Flag'><default/></uInt32>";
    check(optional, Type::U32, &[(None, "0", &[])]);
}

#[test]
fn copy_and_increment() {
    let copy = "<string id='1' presence='mandatory' name='Flag'><copy/></string>";
    let (cme, ise) = ([0x43, 0x4D, 0xC5], [0x49, 0x53, 0xC5]);
    check(
        copy,
        Type::Ascii,
        &[(Some("CME"), "1", &cme), (Some("CME"), "0", &[]), (Some("ISE"), "1", &ise)],
    );
    let optional = "<string id='1' presence='optional' name='Flag'><copy/></string>";
    check(
        optional,
        Type::Ascii,
        &[(None, "1", &[0x80]), (None, "0", &[]), (Some("CME"), "1", &cme)],
    );
    let increment =
        "<uInt32 id='1' presence='mandatory' name='Flag'><increment value='1'/></uInt32>";
    check(
        increment,
        Type::U32,
        &[
            (Some("1"), "0", &[]),
            (Some("2"), "0", &[]),
            (Some("4"), "1", &[0x84]),
            (Some("5"), "0", &[]),
        ],
    );
}

#[test]
fn delta() {
    let integer = "<int32 id='1' presence='mandatory' name='Price'><delta/></int32>";
    check(
        integer,
        Type::I32,
        &[
            (Some("942755"), "", &[0x39, 0x45, 0xA3]),
            (Some("942750"), "", &[0xFB]),
            (Some("942745"), "", &[0xFB]),
            (Some("942745"), "", &[0x80]),
        ],
    );
    let decimal = "<decimal id='1' presence='mandatory' name='Price'><delta/></decimal>";
    check(
        decimal,
        Type::Decimal,
        &[
            (Some("9427.55"), "", &[0xFE, 0x39, 0x45, 0xA3]),
            (Some("9427.51"), "", &[0x80, 0xFC]),
            (Some("9427.46"), "", &[0x80, 0xFB]),
        ],
    );
    let text = "<string id='1' presence='mandatory' name='Security'><delta/></string>";
    check(
        text,
        Type::Ascii,
        &[
            (Some("GEH6"), "", &[0x80, 0x47, 0x45, 0x48, 0xB6]),
            (Some("GEM6"), "", &[0x82, 0x4D, 0xB6]),
            (Some("ESM6"), "", &[0xFD, 0x45, 0xD3]),
            (Some("RSESM6"), "", &[0xFF, 0x52, 0xD3]),
        ],
    );
}

#[test]
fn delta_of_a_decimal_with_an_initial_value() {
    let field =
        "<decimal id='1' presence='mandatory' name='Price'><delta value='12000'/></decimal>";
    let templates = templates(field);
    let mut decoder = Decoder::new(Arc::clone(&templates)).strict();
    let mut encoder = Encoder::new(Arc::clone(&templates));
    // 12 thousand is 12 * 10^3 when normalized.
    let steps: [(i32, i64, &[u8]); 3] =
        [(1, 1_210, &[0xFE, 0x09, 0xAE]), (1, 1_215, &[0x80, 0x85]), (1, 1_220, &[0x80, 0x85])];
    for (at, (exponent, mantissa, content)) in steps.into_iter().enumerate() {
        let bytes = message(at == 0, "", content);
        let mut recorder = Recorder::new(Arc::clone(&templates));
        assert_eq!(decoder.message(&bytes, &mut recorder), Ok(bytes.len()));
        let value = fast::Owned::Decimal(fast::Decimal { exponent, mantissa });
        assert_eq!(recorder.messages[0].get(0), Some(&Item::Value(value)));
        let mut encoded = Vec::new();
        encoder.message(&recorder.messages[0], &mut encoded).unwrap();
        assert_eq!(encoded, bytes);
    }
}

#[test]
fn extended_example() {
    let field = "<decimal id='1' presence='optional' name='Value'>\
                 <exponent><copy/></exponent><mantissa><copy/></mantissa></decimal>";
    check(
        field,
        Type::Decimal,
        &[
            (Some("9427.55"), "11", &[0xFE, 0x39, 0x45, 0xA3]),
            (Some("9427.60"), "01", &[0x39, 0x45, 0xA8]),
            (None, "1", &[0x80]),
        ],
    );
}
