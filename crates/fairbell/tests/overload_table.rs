//! The operator's table of bounds names a test for each of its rows, and these tests are there.

use std::fs;
use std::path::{Path, PathBuf};

const GUIDE: &str = include_str!("../../../docs/operator.md");
/// Heading of the table, and the head of its last column.
const HEADING: &str = "## Bounds";
const COLUMN: &str = "tests";

/// Rows of the table behind the heading: cells without the bars around them.
fn rows(guide: &str) -> Vec<Vec<String>> {
    let section = guide.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let row = |line: &str| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(cells.split(" | ").map(|cell| cell.trim().to_string()).collect())
    };
    section.lines().filter(|line| !line.starts_with("|--")).filter_map(row).collect()
}

/// `crate: name`, several of them apart by commas, each in backticks.
fn tests(cell: &str) -> Vec<(String, String)> {
    let named = cell.split('`').skip(1).step_by(2);
    named
        .filter_map(|test| test.split_once(": "))
        .map(|(krate, name)| (krate.to_string(), name.to_string()))
        .collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => files(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Whether a text has a test of this name: a function right behind its attribute.
fn has_test(text: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let attribute = |line: &&str| line.starts_with("#[test]");
    lines.iter().enumerate().any(|(at, line)| {
        line.starts_with(&function) && lines[..at].iter().rev().take(2).any(attribute)
    })
}

fn complaints(guide: &str, is_there: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let rows = rows(guide);
    let Some((head, rows)) = rows.split_first() else { return vec!["no table".to_string()] };
    if head.last().map(String::as_str) != Some(COLUMN) {
        return vec![format!("the last column is not {COLUMN:?}")];
    }
    let mut found = Vec::new();
    for row in rows {
        let named =
            row.last().filter(|_| row.len() == head.len()).map_or_else(Vec::new, |c| tests(c));
        if named.is_empty() {
            found.push(format!("{}: names no test", row[0]));
        }
        for (krate, name) in named.iter().filter(|(krate, name)| !is_there(krate, name)) {
            found.push(format!("{}: {krate} has no test {name}", row[0]));
        }
    }
    found
}

#[test]
fn every_bound_names_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_there = |krate: &str, name: &str| {
        let mut sources = Vec::new();
        for room in ["crates", "lab"].map(|room| root.join(room).join(krate)) {
            files(&room, &mut sources);
        }
        let texts = sources.iter().filter_map(|path| fs::read_to_string(path).ok());
        texts.into_iter().any(|text| has_test(&text, name))
    };
    let found = complaints(GUIDE, is_there);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    assert!(rows(GUIDE).len() > 30, "the table is not found any more");
}

#[test]
fn control_rows_without_a_test_or_with_a_wrong_one_are_seen() {
    let table = |rows: &str| {
        format!("## Bounds\n\n| queue | bound | tests |\n|---|---|---|\n{rows}\n## Other\n| a |\n")
    };
    let there = |krate: &str, name: &str| (krate, name) == ("net", "is_there");
    assert_eq!(complaints(&table("| x | 1 | `net: is_there` |"), there), [""; 0]);
    assert_eq!(complaints(&table("| x | 1 | |"), there), ["x: names no test"]);
    assert_eq!(complaints(&table("| x | `net: is_there` |"), there), ["x: names no test"]);
    let two = "| x | 1 | `net: is_there`, `net: gone` |";
    assert_eq!(complaints(&table(two), there), ["x: net has no test gone"]);
    assert_eq!(complaints("nothing", there), ["no table"]);
    assert!(has_test("#[test]\nfn a() {\n", "a") && !has_test("fn a() {\n", "a"));
    assert!(!has_test("#[test]\nfn ab() {\n", "a"));
}
