//! docs/ouch.md and docs/itch.md say where every field lies: their tables are written from the
//! definitions that the codecs use. `FAIRBELL_WIRE_DOCS=write` writes them anew.

use std::fmt::Write as _;
use std::path::Path;

use wire::itch::Message;
use wire::ouch::{Inbound, Outbound};
use wire::soupbin::{ClientPacket, LoginRequest, ServerPacket};
use wire::{FieldLayout, Layout};

const BEGIN: &str = "<!-- written from the layouts: ";
const END: &str = "<!-- end -->";

/// `OrderAccepted` as `Order Accepted`, `user_ref` as `User ref`.
fn words(name: &str) -> String {
    let mut text = String::new();
    for (at, char) in name.chars().enumerate() {
        match char {
            '_' => text.push(' '),
            _ if at == 0 => text.extend(char.to_uppercase()),
            _ if char.is_uppercase() => text.extend([' ', char]),
            _ => text.push(char),
        }
    }
    text
}

fn kind(field: &FieldLayout) -> &'static str {
    match field.kind {
        "U16" | "U32" | "U64" | "Time" => "unsigned",
        "u8" | "Side" | "EventCode" | "State" | "Printable" => "code",
        _ => "text",
    }
}

/// One message's section; `header`: what lies between type and fields.
fn section(layout: &Layout, header: &[(usize, usize, &str, &str)]) -> String {
    let Layout { name, kind: letter, len, doc, fields } = layout;
    let letter = char::from(*letter);
    let mut text = format!("### {} (`{letter}`, {len} bytes)\n\n{}\n\n", words(name), doc.trim());
    text.push_str("| offset | length | field | type | meaning |\n|---|---|---|---|---|\n");
    writeln!(text, "| 0 | 1 | Message type | code | `{letter}` |").unwrap();
    for (offset, len, name, meaning) in header {
        writeln!(text, "| {offset} | {len} | {name} | unsigned | {meaning} |").unwrap();
    }
    for field in *fields {
        let (FieldLayout { offset, len, name, doc, .. }, kind) = (field, kind(field));
        let (name, doc) = (words(name), doc.trim());
        writeln!(text, "| {offset} | {len} | {name} | {kind} | {doc} |").unwrap();
    }
    text
}

fn sections(layouts: &[Layout], header: &[(usize, usize, &str, &str)]) -> String {
    let all: Vec<String> = layouts.iter().map(|layout| section(layout, header)).collect();
    all.join("\n")
}

fn written(part: &str) -> String {
    let header = [
        (1, 2, "Stock locate", "the instrument, 0 for messages about none"),
        (3, 2, "Tracking number", "0"),
        (5, 6, "Timestamp", "nanoseconds since midnight"),
    ];
    match part {
        "ouch in" => sections(Inbound::LAYOUTS, &[]),
        "ouch out" => sections(Outbound::LAYOUTS, &[]),
        "itch" => sections(Message::LAYOUTS, &header),
        other => panic!("no part {other}"),
    }
}

/// The page with every part written anew.
fn renewed(page: &str) -> String {
    let (mut out, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (part, behind) = after.split_once(" -->").expect("a part's name");
        let (_, behind) = behind.split_once(END).expect("a part's end");
        write!(out, "{before}{BEGIN}{part} -->\n\n{}\n{END}", written(part)).unwrap();
        rest = behind;
    }
    out + rest
}

#[test]
fn the_pages_say_what_the_code_does() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, parts) in [("ouch.md", 2), ("itch.md", 1)] {
        let path = docs.join(name);
        let mut page = std::fs::read_to_string(&path).unwrap();
        assert_eq!(page.matches(BEGIN).count(), parts, "{name}");
        let renewed = renewed(&page);
        if std::env::var("FAIRBELL_WIRE_DOCS").as_deref() == Ok("write") {
            std::fs::write(&path, &renewed).unwrap();
            page.clone_from(&renewed);
        }
        let wrong = page.lines().zip(renewed.lines()).find(|(is, should)| is != should);
        assert_eq!(wrong, None, "{name} is not what FAIRBELL_WIRE_DOCS=write writes");
        assert_eq!(page.len(), renewed.len(), "{name}");
        // A field that lies elsewhere must be noticed.
        let moved = page.replacen("| 0 | 1 | Message type", "| 0 | 2 | Message type", 1);
        assert!(moved != page && differs(&moved), "{name}");
    }
}

fn differs(page: &str) -> bool {
    renewed(page) != page
}

/// Fields follow each other without a hole and end where the message does.
#[test]
fn layouts_have_no_holes() {
    let itch = Message::LAYOUTS.iter().map(|layout| (layout, 11));
    let ouch = Inbound::LAYOUTS.iter().chain(Outbound::LAYOUTS).map(|layout| (layout, 1));
    for (layout, first) in itch.chain(ouch) {
        let mut next = first;
        for field in layout.fields {
            assert_eq!(field.offset, next, "{}.{}", layout.name, field.name);
            next += field.len;
        }
        assert_eq!(next, layout.len, "{}", layout.name);
    }
}

/// The table of SoupBinTCP packets in docs/ouch.md is written by hand; this is what it says.
#[test]
fn packets_lie_as_the_page_says() {
    let login = LoginRequest {
        username: *b"USER01",
        password: *b"password10",
        session: *b"SESSION001",
        sequence: 42,
    };
    let mut bytes = Vec::new();
    ClientPacket::Login(login).encode(&mut bytes).unwrap();
    assert_eq!((bytes.len(), &bytes[..3]), (49, b"\0\x2fL".as_slice()));
    assert_eq!(&bytes[3..9], b"USER01");
    assert_eq!(&bytes[9..19], b"password10");
    assert_eq!(&bytes[19..29], b"SESSION001");
    assert_eq!(&bytes[29..49], b"                  42");
    bytes.clear();
    let accepted = ServerPacket::LoginAccepted { session: *b"SESSION001", sequence: 7 };
    accepted.encode(&mut bytes).unwrap();
    assert_eq!((&bytes[..3], &bytes[3..13]), (b"\0\x1fA".as_slice(), b"SESSION001".as_slice()));
    assert_eq!(&bytes[13..], b"                   7");
}
