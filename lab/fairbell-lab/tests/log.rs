//! Logs written, replayed from the start and from a snapshot, explained and accounted for; and the
//! golden log of the present rules.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn fairbell(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairbell-lab"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(args)
        .output()
        .expect("the binary runs")
}

fn json(args: &[&str]) -> Value {
    let output = fairbell(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// A folder of this test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of plain characters")
}

/// What must be the same of two replays.
const SAME: [&str; 6] = [
    "state_digest",
    "executions_digest",
    "feed_digest",
    "executions",
    "feed_messages",
    "feed_next",
];

fn same(of: &Value) -> Vec<&Value> {
    SAME.iter().map(|key| &of[key]).collect()
}

#[test]
fn a_replay_from_a_snapshot_ends_as_one_from_the_start() {
    let folder = folder("replay");
    let (log, snapshot) = (folder.join("log"), folder.join("snapshot"));
    let (log, snapshot) = (text(&log), text(&snapshot));
    let args = ["--commands", "50000", "--snapshot-at", "25000", "--snapshot", snapshot];
    let written = json(&[&["log", "write", "--json", "--out", log][..], &args].concat());
    let start = json(&["log", "replay", log, "--from", "25000", "--json"]);
    let middle = json(&["log", "replay", log, "--snapshot", snapshot, "--json"]);
    assert_eq!(same(&start), same(&middle));
    assert_eq!(start["state_digest"], written["state_digest"]);
    assert_eq!((&start["commands"], &middle["commands"]), (&50_000.into(), &25_000.into()));
    for key in ["trades", "executions", "feed_messages"] {
        assert!(start[key].as_u64().is_some_and(|n| n > 1_000), "{key}: {}", start[key]);
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn statements_reconcile_and_every_order_has_its_story() {
    let folder = folder("statement");
    let (log, trades) = (folder.join("log"), folder.join("trades.csv"));
    let (log, trades) = (text(&log), text(&trades));
    json(&["log", "write", "--commands", "30000", "--seed", "5", "--out", log, "--json"]);
    let all = json(&["statement", "--log", log, "--trades", trades, "--json"]);
    assert_eq!(all["reconciled"], Value::Bool(true), "{}", all["first_differences"]);
    let lines = std::fs::read_to_string(trades).expect("the trade file").lines().count() as u64;
    assert_eq!(all["trades"].as_u64(), Some(lines - 1));
    assert!(lines > 1_000);
    let one = json(&["statement", "--log", log, "--participant", "3", "--json"]);
    let of = |document: &Value| document["statements"].as_array().expect("a list").len();
    assert!(of(&one) > 0 && of(&one) < of(&all));

    // The first trade's buyer: its story has the request, the acceptance, the trade and a tick.
    let csv = std::fs::read_to_string(trades).expect("the trade file");
    let fields: Vec<&str> = csv.lines().nth(1).expect("a trade").split(',').collect();
    let order = format!("{}:{}", fields[7], fields[8]);
    let story = json(&["explain", &order, "--log", log, "--json"]);
    let steps = story["story"].as_array().expect("a list");
    assert_eq!(steps[0]["kind"], "NewOrder");
    for (key, value) in [("report", "Accepted"), ("report", "Executed")] {
        assert!(steps.iter().any(|step| step[key] == value), "{order}: no {value}");
    }
    assert!(steps.iter().any(|step| step["feed"].as_u64().is_some()), "{order}: no tick");
    let number = steps.iter().find_map(|step| step["order_ref"].as_u64()).expect("a reference");
    let by_reference = json(&["explain", &number.to_string(), "--log", log, "--json"]);
    assert_eq!(by_reference["story"], story["story"]);

    let unknown = fairbell(&["explain", "8:999999", "--log", log]);
    assert_eq!(unknown.status.code(), Some(1));
    let no_order = fairbell(&["explain", "x", "--log", log]);
    assert_eq!(no_order.status.code(), Some(2));
    let dry = fairbell(&["log", "dry-run", log, "kill", "--account", "3"]);
    assert_eq!(dry.status.code(), Some(0), "{}", String::from_utf8_lossy(&dry.stderr));
    let _ = std::fs::remove_dir_all(folder);
}

/// Negative controls: a record that says something else, a log cut short, one of other rules.
#[test]
fn a_log_that_was_tampered_with_is_told_or_gives_another_digest() {
    let folder = folder("damage");
    let path = folder.join("log");
    let log = text(&path);
    json(&["log", "write", "--commands", "3000", "--out", log, "--json"]);
    let whole = json(&["log", "replay", log, "--json"]);
    let bytes = std::fs::read(&path).expect("the log");
    let spoilt = |at: usize, bit: u8| {
        let mut bytes = bytes.clone();
        bytes[at] ^= bit;
        std::fs::write(&path, bytes).expect("a folder to write to");
    };
    // The quantity of the thousandth record, in its command.
    spoilt(32 + 999 * 128 + 48 + 24, 1);
    let other = json(&["log", "replay", log, "--json"]);
    assert_ne!(whole["state_digest"], other["state_digest"]);
    assert_ne!(whole["executions_digest"], other["executions_digest"]);
    let refused = |what: &str| {
        let output = fairbell(&["log", "replay", log]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{what}: {stderr}");
        stderr
    };
    // The kind of the command: no such one.
    spoilt(32 + 999 * 128 + 48, 0x80);
    let place = 32 + 999 * 128;
    assert!(refused("damage").contains(&place.to_string()));
    spoilt(12, 0x40);
    assert!(refused("rules").contains("rules version"));
    spoilt(16, 1);
    assert!(refused("configuration").contains("configuration"));
    std::fs::write(&path, &bytes[..bytes.len() - 5]).expect("a folder to write to");
    assert!(refused("cut").contains("byte"));
    let _ = std::fs::remove_dir_all(folder);
}

/// The rules of a version never change: whoever changes what an input leads to raises
/// `engine::RULES_VERSION` and writes the golden log anew (`scripts/golden-log.sh`).
#[test]
fn the_golden_log_of_these_rules_still_gives_its_digests() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let version = engine::RULES_VERSION;
    let log = format!("{folder}/rules-{version}.log");
    let expected = std::fs::read_to_string(format!("{folder}/rules-{version}.json"))
        .expect("a golden log of this version of the rules");
    let expected: Value = serde_json::from_str(&expected).expect("JSON");
    let found = json(&["log", "replay", &log, "--json"]);
    assert_eq!(
        same(&found),
        same(&expected),
        "the same inputs lead to something else: raise engine::RULES_VERSION, then \
         scripts/golden-log.sh"
    );
    let size = std::fs::metadata(&log).expect("the golden log").len();
    assert!(size <= 64 << 10, "{size} bytes");
}
