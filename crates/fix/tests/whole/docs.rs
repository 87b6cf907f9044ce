//! docs/fix.md says what the dictionaries and the code say: its tables are written from them.
//! `FAIRBELL_FIX_DOCS=write` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fix::Version;
use fix::app::report;
use fix::dictionary::{Block, Dictionary, RejectReason, Rules, builtin};
use types::RejectReason as EngineReason;

const BEGIN: &str = "<!-- written from the dictionaries: ";
const END: &str = "<!-- end -->";

const REASONS: [RejectReason; 15] = [
    RejectReason::InvalidTag,
    RejectReason::RequiredTagMissing,
    RejectReason::TagNotDefined,
    RejectReason::NoValue,
    RejectReason::ValueIncorrect,
    RejectReason::DataFormat,
    RejectReason::CompId,
    RejectReason::SendingTime,
    RejectReason::InvalidMsgType,
    RejectReason::TagTwice,
    RejectReason::OutOfOrder,
    RejectReason::GroupOrder,
    RejectReason::GroupCount,
    RejectReason::ApplicationVersion,
    RejectReason::Other,
];

/// One line of a message's table.
#[derive(Default)]
struct Row {
    depth: usize,
    name: String,
    kind: &'static str,
    /// By version: required, optional, absent.
    presence: [&'static str; 3],
    values: String,
    note: String,
}

/// The versions' dictionaries for a message type, or for the header.
fn rows(parts: &[Option<(&Dictionary, &Block)>; 3]) -> Vec<(u32, Row)> {
    let mut rows = Vec::new();
    // The newest version's order leads; what only older ones have comes after it.
    for at in [2, 1, 0] {
        if let Some((dictionary, block)) = parts[at] {
            collect(dictionary, block, at, 0, &mut rows);
        }
    }
    rows
}

fn collect(
    dictionary: &Dictionary,
    block: &Block,
    version: usize,
    depth: usize,
    rows: &mut Vec<(u32, Row)>,
) {
    for member in &block.members {
        let field = dictionary.field(member.tag).unwrap();
        let known = rows.iter().position(|(tag, row)| (*tag, row.depth) == (member.tag, depth));
        let at = known.unwrap_or_else(|| {
            let values = field.values.iter().map(|(code, meaning)| format!("{code} {meaning}"));
            let row = Row {
                depth,
                name: field.name.clone(),
                kind: field.kind.name(),
                presence: ["", "", ""],
                values: values.collect::<Vec<_>>().join(", "),
                note: member.note.clone(),
            };
            rows.push((member.tag, row));
            rows.len() - 1
        });
        rows[at].1.presence[version] = if member.required { "R" } else { "o" };
        if let Some(group) = block.groups.get(&member.tag) {
            collect(dictionary, group, version, depth + 1, rows);
        }
    }
}

fn table(rows: &[(u32, Row)]) -> String {
    let mut text = String::from("| tag | field | type | 4.2 | 4.4 | 5.0 SP2 | values, remarks |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for (tag, row) in rows {
        let indent = "- ".repeat(row.depth);
        let [old, mid, new] = row.presence;
        let remarks = match (row.values.as_str(), row.note.as_str()) {
            ("", note) => note.to_string(),
            (values, "") => values.to_string(),
            (values, note) => format!("{values}; {note}"),
        };
        writeln!(
            text,
            "| {tag} | {indent}{} | {} | {old} | {mid} | {new} | {remarks} |",
            row.name, row.kind
        )
        .unwrap();
    }
    text
}

fn message(rules: &[Rules; 3], msg_type: &str) -> String {
    let found = [0, 1, 2].map(|at| rules[at].message(msg_type.as_bytes()));
    let name = found.iter().flatten().next_back().unwrap().1.name.clone();
    let parts = found.map(|found| found.map(|(dictionary, message)| (dictionary, &message.body)));
    format!("### {name} ({msg_type})\n\n{}", table(&rows(&parts)))
}

/// The generated parts by name.
fn parts() -> BTreeMap<&'static str, String> {
    let rules = Version::ALL.map(|version| builtin(version).unwrap());
    let of = |types: &[&str]| {
        let texts: Vec<String> = types.iter().map(|t| message(&rules, t)).collect();
        texts.join("\n")
    };
    let frame = |block: fn(&Dictionary) -> &Block| {
        let parts = [0, 1, 2].map(|at| {
            let dictionary = &*rules[at].transport;
            Some((dictionary, block(dictionary)))
        });
        table(&rows(&parts))
    };
    let mut reasons = String::from("| 373 | 58 | in 4.2 |\n|---|---|---|\n");
    for reason in REASONS {
        let code = reason as u16;
        let old = if code <= Version::Fix42.largest_reject_reason() { "yes" } else { "58 only" };
        writeln!(reasons, "| {code} | {} | {old} |", reason.text()).unwrap();
    }
    let mut refusals = String::from("| 58 | 103 | 103 in 4.2 |\n|---|---|---|\n");
    for reason in EngineReason::ALL {
        let code = |version| report::order_reject_reason(version, reason);
        let (new, old) = (code(Version::Fix44), code(Version::Fix42));
        writeln!(refusals, "| {} | {new} | {old} |", report::reject_text(reason)).unwrap();
    }
    BTreeMap::from([
        ("header", frame(|dictionary| &dictionary.header)),
        ("trailer", frame(|dictionary| &dictionary.trailer)),
        ("session", of(&["A", "0", "1", "2", "3", "4", "5"])),
        ("in", of(&["D", "F", "G", "q", "H", "V", "x", "e", "g"])),
        ("out", of(&["8", "9", "r", "j", "W", "X", "Y", "y", "f", "h"])),
        ("reasons", reasons),
        ("refusals", refusals),
    ])
}

/// `text` with its generated parts written anew.
fn rewritten(text: &str, parts: &BTreeMap<&'static str, String>) -> String {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->").expect("a name");
        let (_, after) = after.split_once(END).expect("an end");
        let part = parts.get(name).unwrap_or_else(|| panic!("no part {name}"));
        write!(done, "{before}{BEGIN}{name} -->\n\n{part}\n{END}").unwrap();
        rest = after;
    }
    done + rest
}

#[test]
fn the_document_says_what_the_dictionaries_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fix.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let parts = parts();
    for name in parts.keys() {
        assert!(text.contains(&format!("{BEGIN}{name} -->")), "docs/fix.md has no part {name}");
    }
    let right = rewritten(&text, &parts);
    if std::env::var("FAIRBELL_FIX_DOCS").as_deref() == Ok("write") {
        std::fs::write(&path, right).unwrap();
        return;
    }
    let different = text.lines().zip(right.lines()).find(|(is, should)| is != should);
    assert!(text == right, "docs/fix.md differs, FAIRBELL_FIX_DOCS=write mends it: {different:?}");
}

#[test]
fn control_a_change_in_either_is_seen() {
    let mut parts = parts();
    let text = format!("a\n{BEGIN}reasons -->\n\n{}\n{END}\nb", parts["reasons"]);
    assert_eq!(rewritten(&text, &parts), text);
    let wrong = text.replace("CompID problem", "CompID");
    assert_ne!(rewritten(&wrong, &parts), wrong);
    parts.insert("reasons", String::new());
    assert_ne!(rewritten(&text, &parts), text);
}

#[test]
fn every_message_is_in_the_document() {
    let all = parts();
    let text = ["session", "in", "out"].map(|part| all[part].clone()).concat();
    for version in Version::ALL {
        let rules = builtin(version).unwrap();
        let messages = rules.transport.messages().chain(rules.application.messages());
        for message in messages {
            let title = format!("### {} ({})\n", message.name, message.msg_type);
            assert!(text.contains(&title), "{title}");
        }
    }
}
