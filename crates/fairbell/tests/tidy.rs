//! Rules of the whole repository that the compiler does not check: layering, file headers, banned
//! words, file size, where `unsafe`, clocks and hash maps may stand. Each rule is a function from
//! text to complaints, with negative controls below.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of crates: what a venue runs, what proves and measures it, stand-ins for others' crates.
const ROOMS: &[&str] = &["crates", "lab", "vendor"];

/// Layers; a crate may depend on crates of lower layers only.
const LAYERS: &[(&str, u8)] = &[
    ("counting", 0),
    ("types", 0),
    ("book", 1),
    ("book-model", 1),
    ("wire", 1),
    ("fix", 1),
    ("fast", 1),
    ("overlay", 1),
    ("clock", 1),
    ("telemetry", 1),
    ("monitoring", 1),
    ("protobuf", 0),
    ("raft-proto", 1),
    ("planner", 1),
    ("engine", 2),
    ("journal", 2),
    ("probe", 2),
    ("book-capi", 2),
    ("book-agreement", 2),
    ("feed", 3),
    ("gateway", 3),
    ("participant", 3),
    ("net", 3),
    ("store", 3),
    ("replication", 3),
    ("exchange", 4),
    ("ticks", 4),
    ("strategy", 4),
    ("web", 4),
    ("sim", 5),
    ("emulator", 5),
    ("backtest", 5),
    ("certify", 5),
    ("host", 5),
    ("fairbell", 6),
    ("fairbell-lab", 7),
];

/// Second opinions that their own layer is compared with, in tests or behind a feature.
const MODELS: &[&str] = &["book-model"];

/// Crates whose workspace dependencies are limited further, and to what.
const ONLY: &[(&str, &[&str])] = &[
    ("wire", &["types"]),
    ("fix", &["types"]),
    ("fast", &[]),
    ("overlay", &["types"]),
    ("clock", &["types"]),
    ("net", &["types"]),
    ("telemetry", &["types"]),
    ("monitoring", &[]),
    ("planner", &["types"]),
    ("probe", &["types", "planner"]),
    ("book", &["types"]),
    ("book-model", &["types"]),
    ("book-capi", &["types", "book"]),
    ("book-agreement", &["types", "book", "book-model"]),
    ("engine", &["types", "book"]),
    ("journal", &["types"]),
    ("store", &["types", "engine", "book"]),
    ("protobuf", &[]),
    ("raft-proto", &["protobuf"]),
    ("replication", &["types", "journal"]),
    ("feed", &["types", "wire", "fast"]),
    ("gateway", &["types", "wire", "overlay", "fix"]),
    ("participant", &["types", "wire", "fix", "telemetry"]),
    ("certify", &["types", "wire", "fix"]),
    ("strategy", &["types", "wire", "feed"]),
    ("backtest", &["types", "wire", "book", "engine", "feed", "strategy"]),
    ("emulator", &["types", "telemetry"]),
];

/// Sans-I/O crates: time, randomness and threads come in as arguments, and no order of iteration
/// depends on a random hash.
const PURE: &[&str] = &[
    "types",
    "book",
    "book-model",
    "wire",
    "fix",
    "fast",
    "overlay",
    "planner",
    "probe",
    "clock",
    "engine",
    "replication",
    "feed",
    "gateway",
    "participant",
    "exchange",
    "sim",
    "certify",
    "strategy",
    "backtest",
];

/// Words that a pure crate's sources must not contain; unit tests may.
const IMPURE: &[&str] =
    &["Instant", "SystemTime", "std::thread", "std::net", "std::fs", "RandomState"];
/// Hash tables: only in files that give them a fixed hasher, so that every run is the same.
const HASHED: &[&str] = &["HashMap", "HashSet"];
const FIXED_HASHER: &str = "BuildHasherDefault";

/// Words that a file may contain nevertheless, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("lab/sim/src/seeds.rs", "std::thread", "seeds run side by side, each world within one thread"),
    (
        "lab/sim/src/cloud/seeds.rs",
        "std::thread",
        "seeds run side by side, each cloud within one thread",
    ),
    (
        "crates/book/src/index.rs",
        "RandomState",
        "nobody shall choose keys that collide; the table is never iterated",
    ),
];

/// Marks of unfinished work, and debugging left behind. Split so that this file passes.
const BANNED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("TO", "DO"),
    concat!("db", "g!("),
    concat!("#[", "ignore"),
];

/// Folders that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/tm", "p/")];

/// Files of other crates that may contain `unsafe`, each with its proof in a comment just above.
const PROVEN: &[&str] = &[
    "crates/host/src/enclave.rs",
    "crates/host/src/limits.rs",
    "crates/host/src/phc.rs",
    "lab/emulator/src/sys.rs",
    "lab/fairbell-lab/src/bench/release/stamps.rs",
];
/// A proof of safety begins at most this many lines above.
const PROOF_LINES: usize = 8;

/// Most lines of a file: beyond it there is a second idea in it.
const LINES_MAX: usize = 700;
/// Files that may be longer, and why.
const LONG: &[(&str, &str)] = &[
    ("crates/net/tests/loopback.rs", "one fixture under all tests of a loop over real sockets"),
    ("crates/overlay/src/feed/publisher.rs", "one state machine, its succession and its snapshot"),
    ("crates/overlay/src/feed/receiver.rs", "one state machine, jumps over lost messages included"),
    ("crates/engine/src/schedule.rs", "a calendar's rules beside the days that they are tried on"),
    ("crates/fairbell/src/up.rs", "a run from its start to its verdict, watched by one thread"),
];
/// Most lines of a file's `//!` header.
const HEADER_MAX: usize = 30;

/// A source file relative to the repository, like `crates/book/src/lib.rs`.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn krate(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or("")
    }

    fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/benches/")
            || self.path.ends_with("/tests.rs")
    }

    /// The lines before the inline unit tests, which are last in a file by house rule; a test
    /// module in a file of its own hides nothing of this one.
    fn code(&self) -> Vec<(usize, &str)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let inline = |pair: &[&str]| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].contains('{')
        };
        let end = lines.windows(2).position(inline).unwrap_or(lines.len());
        let end = if self.is_test() { 0 } else { end };
        (1..).zip(lines.into_iter().take(end)).collect()
    }
}

/// The part of a line before a comment; good enough because no source has `//` inside a string
/// that also holds a searched word.
fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// Whether `word` stands in `text` with nothing word-like around it.
fn has_word(text: &str, word: &str) -> bool {
    let wordy = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !wordy(text[..at].chars().next_back()) && !wordy(text[at + word.len()..].chars().next())
    })
}

/// Complaints about the workspace dependencies in one crate's manifest, the test ones included.
fn layering(krate: &str, manifest: &str) -> Vec<String> {
    let rank = |name: &str| LAYERS.iter().find(|(known, _)| *known == name).map(|(_, rank)| *rank);
    let Some(own) = rank(krate) else {
        return vec![format!("{krate}: has no layer")];
    };
    let manifest: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return vec![format!("{krate}: {error}")],
    };
    let mut complaints = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let table = manifest.get(section).and_then(toml::Value::as_table);
        for (name, how) in table.into_iter().flatten() {
            let Some(other) = rank(name) else { continue };
            let tested = section == "dev-dependencies";
            let optional = how.get("optional").and_then(toml::Value::as_bool) == Some(true);
            let compared = MODELS.contains(&name.as_str()) && (tested || optional);
            // A crate may switch features of its own on for its tests.
            if compared && other <= own || tested && name == krate {
                continue;
            }
            if other >= own {
                complaints.push(format!("{krate} (layer {own}) uses {name} (layer {other})"));
            }
            let limit = ONLY.iter().find(|(limited, _)| *limited == krate);
            if limit.is_some_and(|(_, only)| {
                section == "dependencies" && !only.contains(&name.as_str())
            }) {
                complaints.push(format!("{krate} must not know {name}"));
            }
        }
    }
    complaints
}

/// Complaints about what a crate needs of the laboratory's other than for tests.
fn of_the_lab(krate: &str, manifest: &str, lab: &[String]) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let needed = ["dependencies", "build-dependencies"].into_iter().filter_map(|section| {
        manifest.get(section).and_then(toml::Value::as_table).map(toml::Table::keys)
    });
    let forbidden = needed.flatten().filter(|name| lab.contains(name));
    forbidden.map(|name| format!("{krate} needs {name} of lab/")).collect()
}

/// Complaints about header and size.
fn shape(source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    let header = source.text.lines().take_while(|line| line.starts_with("//!")).count();
    if !(1..HEADER_MAX).contains(&header) {
        complaints
            .push(format!("{}: a `//!` header has 1 to 29 lines, this {header}", source.path));
    }
    let lines = source.text.lines().count();
    if lines > LINES_MAX && !LONG.iter().any(|(path, _)| *path == source.path) {
        complaints.push(format!("{}: {lines} lines, at most {LINES_MAX}", source.path));
    }
    complaints
}

/// Complaints about words that may stand in no tracked text.
fn words(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for word in BANNED.iter().chain(MACHINE_PATHS) {
            if line.contains(word) {
                complaints.push(format!("{path}:{number}: contains {word:?}"));
            }
        }
    }
    complaints
}

/// Complaints about `unsafe` outside `net`, the C boundary, the tests' allocator, and tests; in `book`,
/// `fast` and `journal`, and in the files of [`PROVEN`], it needs its proof in a comment just above.
fn safety(source: &Source) -> Vec<String> {
    if ["net", "book-capi", "counting"].contains(&source.krate()) || source.is_test() {
        return Vec::new();
    }
    let lines: Vec<&str> = source.text.lines().collect();
    let hit = |line: &str| has_word(without_comment(line), concat!("uns", "afe"));
    let proven = |number: usize| {
        let above = lines.iter().take(number).rev().take(PROOF_LINES);
        (["book", "fast", "journal"].contains(&source.krate())
            || PROVEN.contains(&source.path.as_str()))
            && above.into_iter().any(|line| line.contains("// SAFETY: "))
    };
    source
        .code()
        .into_iter()
        .filter(|(number, line)| hit(line) && !proven(*number))
        .map(|(number, _)| format!("{}:{number}: unsafe", source.path))
        .collect()
}

/// Complaints about clocks, threads, sockets, files and hash maps in sans-I/O crates.
fn purity(source: &Source) -> Vec<String> {
    if !PURE.contains(&source.krate()) {
        return Vec::new();
    }
    let fixed = has_word(&source.text, FIXED_HASHER);
    let excepted = |word: &str| {
        EXCEPTIONS.iter().any(|(path, allowed, _)| *path == source.path && *allowed == word)
    };
    let mut complaints = Vec::new();
    for (number, line) in source.code() {
        let hashed = if fixed { &[] } else { HASHED };
        let found = IMPURE.iter().chain(hashed).filter(|w| has_word(without_comment(line), w));
        for word in found.filter(|word| !excepted(word)) {
            complaints.push(format!("{}:{number}: {word} in a sans-I/O crate", source.path));
        }
    }
    complaints
}

fn manifest_of(krate: &Path) -> String {
    fs::read_to_string(krate.join("Cargo.toml")).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file below the repository's root but build products, version control and caches.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        // In a second work tree `.git` is a file, which names a folder of this machine.
        if [".git", "target", ".cache", "out", "__pycache__"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

fn texts() -> Vec<Source> {
    let mut found = Vec::new();
    files(&root(), &mut found);
    let text = |path: &PathBuf| {
        let name = path.strip_prefix(root()).ok()?.to_str()?.to_string();
        Some(Source { path: name, text: fs::read_to_string(path).ok()? })
    };
    found.iter().filter_map(text).collect()
}

fn sources() -> Vec<Source> {
    let in_a_room = |path: &str| ROOMS.iter().any(|room| path.starts_with(&format!("{room}/")));
    let rust = |source: &Source| in_a_room(&source.path) && source.path.ends_with(".rs");
    texts().into_iter().filter(rust).collect()
}

/// Folders of a room's crates.
fn crates_of(room: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join(room)).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|path| path.join("Cargo.toml").exists()).collect()
}

fn name_of(krate: &Path) -> String {
    krate.file_name().and_then(|name| name.to_str()).unwrap().to_string()
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn dependencies_point_strictly_downwards() {
    let crates: Vec<PathBuf> = ROOMS.iter().flat_map(|room| crates_of(room)).collect();
    assert!(crates.len() > 20, "few crates found");
    let check = |path: &PathBuf| layering(&name_of(path), &manifest_of(path));
    assert_none(crates.iter().flat_map(check).collect());
}

#[test]
fn what_a_venue_runs_needs_nothing_of_the_laboratory() {
    let lab: Vec<String> = crates_of("lab").iter().map(|path| name_of(path)).collect();
    assert!(!lab.is_empty());
    let check = |path: &PathBuf| of_the_lab(&name_of(path), &manifest_of(path), &lab);
    assert_none(crates_of("crates").iter().flat_map(check).collect());
    // Control.
    let needed = "[dependencies]\ncounting.workspace = true\n";
    assert_eq!(of_the_lab("book", needed, &lab), ["book needs counting of lab/"]);
    let tested = "[dev-dependencies]\ncounting.workspace = true\n";
    assert!(of_the_lab("book", tested, &lab).is_empty());
}

#[test]
fn every_file_has_a_header_and_one_idea() {
    assert_none(sources().iter().flat_map(shape).collect());
}

#[test]
fn nothing_unfinished_and_no_machine_paths() {
    // Lock file and licence are other people's text.
    let own = |source: &&Source| !["Cargo.lock", "LICENSE"].contains(&source.path.as_str());
    let texts = texts();
    assert_none(texts.iter().filter(own).flat_map(|s| words(&s.path, &s.text)).collect());
}

#[test]
fn code_that_could_break_memory_stays_in_its_room() {
    assert_none(sources().iter().flat_map(safety).collect());
}

#[test]
fn sans_io_crates_ask_no_clock_and_iterate_in_a_fixed_order() {
    assert_none(sources().iter().flat_map(purity).collect());
}

/// Files named in backticks in a text.
fn named_files(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.starts_with("crates/") || word.starts_with("lab/")).collect()
}

/// Complaints about files of a text that are not there.
fn missing_files(text: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
    let gone = named_files(text).into_iter().filter(|path| !is_there(path));
    gone.map(|path| format!("{path}: is not there")).collect()
}

/// Complaints about walks that enter a file twice: numbered lists, each behind a line with a colon.
fn walks_back(text: &str) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut complaints = Vec::new();
    for line in text.lines() {
        let step = line.split_once(". `").filter(|(number, _)| number.parse::<u32>().is_ok());
        let Some((_, rest)) = step else {
            if line.ends_with(':') {
                seen.clear();
            }
            continue;
        };
        let file = rest.split('`').next().unwrap_or("");
        if seen.contains(&file) {
            complaints.push(format!("{file}: entered twice"));
        }
        seen.push(file);
    }
    complaints
}

#[test]
fn the_glossary_and_the_map_name_files_that_are_there() {
    let is_there = |path: &str| root().join(path).exists();
    let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    assert!(named_files(&glossary).len() >= 25, "25 behaviours and more");
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert_none([missing_files(&glossary, is_there), missing_files(&map, is_there)].concat());
    let walks = map.split("### Three walks").nth(1).unwrap().split("\n## ").next().unwrap();
    assert!(named_files(walks).len() >= 25, "the walks are not found any more");
    assert_none(walks_back(walks));
    // Controls.
    let gone = missing_files("a | `crates/a.rs` |\n`crates/b.rs`", |path| path.contains("b.rs"));
    assert_eq!(gone, ["crates/a.rs: is not there"]);
    let walk = "In:\n\n1. `a`: x\n2. `b`: y\n\nOut:\n\n1. `a`: z\n2. `c`: y\n3. `a`: x\n";
    assert_eq!(walks_back(walk), ["a: entered twice"]);
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_string(), text: text.to_string() }
}

#[test]
fn control_layering_sees_upward_sideways_and_forbidden_edges() {
    let manifest = |name: &str| format!("[dependencies]\n{name}.workspace = true\n");
    assert!(layering("engine", &manifest("book")).is_empty());
    assert!(layering("engine", &manifest("serde")).is_empty());
    let upward = layering("wire", &manifest("engine"));
    assert_eq!(upward, ["wire (layer 1) uses engine (layer 2)", "wire must not know engine"]);
    assert_eq!(layering("feed", &manifest("net")).len(), 2);
    assert_eq!(layering("gateway", &manifest("engine")), ["gateway must not know engine"]);
    assert_eq!(layering("net", &manifest("overlay")), ["net must not know overlay"]);
    assert_eq!(layering("misc", ""), ["misc: has no layer"]);
    let tested = "[dev-dependencies]\nsim = { path = \"../sim\" }\n";
    assert_eq!(layering("exchange", tested), ["exchange (layer 4) uses sim (layer 5)"]);
    let compared = "[dev-dependencies]\nbook-model.workspace = true\n";
    assert!(layering("book", compared).is_empty());
    let behind_a_feature = "[dependencies]\nbook-model = { path = \"x\", optional = true }\n";
    assert!(layering("book", behind_a_feature).is_empty());
    assert_eq!(layering("book", &manifest("book-model")).len(), 2);
    assert!(layering("book", "[dev-dependencies]\nbook = { path = \".\" }\n").is_empty());
    assert!(layering("participant", "[dev-dependencies]\nengine.workspace = true\n").is_empty());
}

#[test]
fn control_shape_sees_missing_and_endless_headers_and_long_files() {
    assert!(shape(&source("crates/a/src/a.rs", "//! What it is.\n")).is_empty());
    assert_eq!(shape(&source("crates/a/src/a.rs", "fn a() {}\n")).len(), 1);
    assert_eq!(shape(&source("crates/a/src/a.rs", &"//! x\n".repeat(30))).len(), 1);
    let long = format!("//! x\n{}", "\n".repeat(700));
    assert_eq!(shape(&source("crates/a/src/a.rs", &long)).len(), 1);
}

#[test]
fn control_words_sees_each_banned_word() {
    for word in BANNED.iter().chain(MACHINE_PATHS) {
        assert_eq!(words("a", &format!("x\n{word} y\n")).len(), 1, "{word}");
    }
    assert!(words("a", "relative/path and a method\n").is_empty());
}

#[test]
fn control_safety_and_purity_see_code_but_not_comments_or_tests() {
    let word = concat!("uns", "afe");
    let code = format!("//! x\n{word} {{ }}\n");
    assert_eq!(safety(&source("crates/book/src/a.rs", &code)), ["crates/book/src/a.rs:2: unsafe"]);
    assert!(safety(&source("crates/net/src/a.rs", &code)).is_empty());
    let proven = format!("// SAFETY: because\n{word} {{ }}\n");
    assert!(safety(&source("crates/book/src/a.rs", &proven)).is_empty());
    assert_eq!(safety(&source("crates/engine/src/a.rs", &proven)).len(), 1);
    assert!(safety(&source(PROVEN[0], &proven)).is_empty());
    assert_eq!(safety(&source(PROVEN[0], &code)).len(), 1);
    assert_eq!(safety(&source("lab/emulator/src/a.rs", &proven)).len(), 1);
    assert!(safety(&source("crates/book/tests/a.rs", &code)).is_empty());
    assert!(safety(&source("crates/book/src/a.rs", &format!("// no {word} here\n"))).is_empty());
    assert!(safety(&source("crates/book/src/a.rs", &format!("fn {word}ly() {{}}\n"))).is_empty());

    let clock = "//! x\nlet t = std::time::Instant::now();\n";
    assert_eq!(purity(&source("crates/overlay/src/a.rs", clock)).len(), 1);
    assert!(purity(&source("crates/net/src/a.rs", clock)).is_empty());
    let map = "//! x\nuse std::collections::HashMap;\n";
    assert_eq!(purity(&source("crates/engine/src/a.rs", map)).len(), 1);
    let fixed = "//! x\ntype Map = HashMap<u64, u32, BuildHasherDefault<Mix>>;\n";
    assert!(purity(&source("crates/engine/src/a.rs", fixed)).is_empty());
    let thread = "//! x\nstd::thread::scope(|_| ());\n";
    assert_eq!(purity(&source("lab/sim/src/world.rs", thread)).len(), 1);
    assert!(purity(&source(EXCEPTIONS[0].0, thread)).is_empty());
    let tested = "//! x\n#[cfg(test)]\nmod tests { use std::collections::HashMap; }\n";
    assert!(purity(&source("crates/engine/src/a.rs", tested)).is_empty());
    let aside = "//! x\n#[cfg(test)]\nmod tests;\nuse std::collections::HashMap;\n";
    assert_eq!(purity(&source("crates/engine/src/a.rs", aside)).len(), 1);
    assert!(purity(&source("crates/engine/src/a.rs", "fn instantiate() { Instantly }")).is_empty());
}
