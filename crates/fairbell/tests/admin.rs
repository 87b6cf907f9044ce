//! A running exchange steered over its admin socket, by the binary itself: what operators do shows,
//! is written down, and replays.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_fairbell");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// An exchange that plays until it is told to stop, with further options, and its folder.
fn start(name: &str, options: &[&str]) -> (Child, PathBuf) {
    let out = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
    let child = Command::new(BINARY)
        .current_dir(ROOT)
        .args(["up", "--json", "--quiet", "--rate", "500", "--port-base", "0"])
        .args(options)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    (child, out)
}

/// An operator's command; its exit code, its JSON, and what it complained about.
fn admin(out: &Path, action: &[&str]) -> (i32, Value, String) {
    let output = Command::new(BINARY)
        .args(["admin", "--json", "--as", "alice", "--socket"])
        .arg(out.join("admin.sock"))
        .args(action)
        .output()
        .expect("the binary runs");
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_string();
    (output.status.code().unwrap_or(-1), answer, complaint)
}

fn done(out: &Path, action: &[&str]) -> Value {
    let (code, answer, complaint) = admin(out, action);
    assert_eq!((code, complaint.as_str()), (0, ""), "{action:?}: {answer}");
    answer["data"].clone()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

fn sessions(out: &Path) -> Vec<String> {
    let list = done(out, &["sessions"]);
    let names = list.as_array().expect("a list").iter();
    names.filter_map(|session| session["account"].as_str().map(str::to_string)).collect()
}

#[test]
fn an_exchange_is_steered_and_its_log_replays() {
    let (child, out) = start("admin", &[]);
    until("the socket answers", || admin(&out, &["status"]).0 == 0);
    until("trading", || {
        let status = done(&out, &["status"]);
        let continuous = |of: &Value| of["phase"] == "continuous";
        status["instruments"].as_array().expect("a list").iter().all(continuous)
    });
    assert_eq!(sessions(&out).len(), 8, "the built-in participants");
    let first = done(&out, &["sessions"])[0].clone();
    assert!(first["messages_in"].as_u64() > Some(0) && first["messages_out"].as_u64() > Some(0));
    // Kill switch: everything goes, nothing more comes in, until it is revived.
    let killed = done(&out, &["kill", "FLOW01"]);
    assert_eq!(killed["open_orders_after"], 0, "{killed}");
    assert_eq!(done(&out, &["status"])["killed"][0], "FLOW01");
    assert_eq!(done(&out, &["mass-cancel", "--account", "FLOW01"])["open_orders_before"], 0);
    done(&out, &["revive", "FLOW01"]);
    assert_eq!(done(&out, &["status"])["killed"], serde_json::json!([]));
    // Halt and resume.
    let phase = |place: usize| done(&out, &["status"])["instruments"][place]["phase"].clone();
    done(&out, &["halt", "GENA"]);
    assert_eq!(phase(1), "halt");
    done(&out, &["resume", "GENA"]);
    assert_eq!(phase(1), "continuous");
    // A locked account is gone when disconnected, and back once it may.
    done(&out, &["lock", "FLOW02"]);
    assert_eq!(done(&out, &["status"])["locked"][0], "FLOW02");
    done(&out, &["disconnect", "FLOW02"]);
    assert_eq!(sessions(&out).iter().filter(|name| *name == "FLOW02").count(), 0);
    done(&out, &["unlock", "FLOW02"]);
    until("it is back", || sessions(&out).iter().any(|name| name == "FLOW02"));
    done(&out, &["set-limit", "GUEST", "open-orders", "5"]);
    done(&out, &["set-instrument", "GENB", "qty-min", "1"]);
    // What can't be is refused, and says why.
    let (code, answer, complaint) = admin(&out, &["bust-trade", "999999999"]);
    assert_eq!((code, &answer["ok"]), (1, &Value::Bool(false)));
    assert!(complaint.contains("the engine refused it"), "{complaint}");
    assert_eq!(admin(&out, &["kill", "NOBODY"]).0, 1);
    assert_eq!(admin(&out, &["dance"]).0, 2, "no such action");

    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process"), rustix::process::Signal::TERM)
        .expect("it still runs");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "books and state equal the replay's: {stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let notices = report["notices"].to_string();
    assert!(notices.contains("admin: ") && notices.contains("as alice"), "{notices}");
    assert!(!out.join("admin.sock").exists(), "the socket is gone");
    audited(&out);
    replays(&out);
    let _ = std::fs::remove_dir_all(out);
}

/// Every action has its two lines, with who and what came of it.
fn audited(out: &Path) {
    let text = std::fs::read_to_string(out.join("admin-audit.jsonl")).expect("an audit file");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    // What the exchange itself notes on a busy machine is there, too.
    let lines: Vec<Value> = lines.filter(|line| line["stage"] != "noted").collect();
    let stages: Vec<&str> = lines.iter().filter_map(|line| line["stage"].as_str()).collect();
    for pair in stages.chunks(2) {
        assert!(matches!(pair, ["asked", "done" | "refused"]), "{pair:?}");
    }
    assert!(lines.iter().all(|line| line["as"] == "alice" && line["uid"].is_u64()));
    assert_eq!(stages.iter().filter(|stage| **stage == "refused").count(), 2);
    assert!(lines.len() >= 24, "{}", lines.len());
}

/// The log names the operator, and gives one digest however often it is played.
fn replays(out: &Path) {
    let log = out.join("exchange.log");
    let bytes = std::fs::read(&log).expect("a log");
    let named = bytes.windows(14).filter(|window| *window == b"alice         ").count();
    assert!(named >= 7, "{named} commands by the operator");
    let digest = || {
        let replay = Command::new(BINARY)
            .current_dir(ROOT)
            .args(["log", "replay", "--json"])
            .arg(&log)
            .output()
            .expect("the binary runs");
        assert_eq!(replay.status.code(), Some(0));
        let said: Value = serde_json::from_slice(&replay.stdout).expect("one JSON document");
        ["state_digest", "feed_digest", "executions_digest"].map(|of| said[of].to_string())
    };
    let first = digest();
    assert!(first.iter().all(|digest| digest.len() > 8), "{first:?}");
    assert_eq!(first, digest());
}

#[test]
fn with_a_journal_what_the_engine_refuses_is_not_done() {
    let place =
        |what| std::env::temp_dir().join(format!("fb-journal-{}{what}", std::process::id()));
    let (config, journal) = (place(".toml"), place(""));
    let text = format!(
        "[doors]\nplain = true\n[journal]\ndurability = \"local\"\ndir = \"{}\"\n",
        journal.display()
    );
    std::fs::write(&config, text).expect("written");
    let (mut child, out) =
        start("admin-journal", &["--config", config.to_str().expect("plain letters")]);
    until("trading", || {
        let status = admin(&out, &["status"]).1;
        status["data"]["instruments"][1]["phase"] == "continuous"
    });
    let refused = |action: &[&str], rule: &str| {
        let (code, answer, complaint) = admin(&out, action);
        assert_eq!((code, &answer["ok"]), (1, &Value::Bool(false)), "{action:?}");
        assert!(complaint.contains("the engine refused it: Refused, input"), "{complaint}");
        assert!(complaint.contains(rule), "{action:?}: {complaint}");
    };
    refused(&["bust-trade", "999999999"], "no such trade, or it is broken already");
    refused(&["correct-trade", "999999999", "1.00", "5"], "no such trade, or it is broken");
    refused(&["set-instrument", "GENB", "tick", "0"], "a tick is above 0");
    refused(&["start-of-day"], "the day is open already");
    refused(&["uncross", "GENB"], "in no batch auctions now");
    // What no trade can be is not even logged.
    let (code, _, complaint) = admin(&out, &["correct-trade", "1", "500000", "5"]);
    assert!(code == 1 && complaint.contains("the largest price_max"), "{complaint}");
    let (code, _, complaint) = admin(&out, &["set-instrument", "GENB", "reference", "100.0001"]);
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("a reference price is a multiple of the tick"), "{complaint}");
    // Control: what can be is done all the same, one command and several, whatever orders follow into the log.
    for _ in 0..20 {
        done(&out, &["set-instrument", "GENB", "qty-min", "1"]);
    }
    done(&out, &["halt", "all"]);
    done(&out, &["resume", "all"]);
    let audit = std::fs::read_to_string(out.join("admin-audit.jsonl")).expect("it is written down");
    let stages = |stage: &str| audit.matches(&format!("\"{stage}\"")).count();
    assert_eq!((stages("refused"), stages("done")), (7, 22), "{audit}");
    // A trade is broken once.
    until("a trade is broken", || admin(&out, &["bust-trade", "1"]).0 == 0);
    refused(&["bust-trade", "1"], "broken already");
    refused(&["correct-trade", "1", "1.00", "5"], "it is broken");
    // A day that is over ends no second time, and phases don't change in none.
    done(&out, &["end-of-day"]);
    refused(&["end-of-day"], "the day is not open");
    refused(&["resume", "GENB"], "phases change while the day is open");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    std::fs::remove_file(&config).expect("removed");
    for folder in [&out, &journal] {
        std::fs::remove_dir_all(folder).expect("removed");
    }
}

#[test]
fn nobody_there_is_said_in_one_line() {
    let nowhere = std::env::temp_dir().join(format!("fb-nowhere-{}", std::process::id()));
    let (code, _, complaint) = admin(&nowhere, &["status"]);
    assert_eq!((code, complaint.lines().count()), (1, 1), "{complaint}");
    for name in ["two words", "\u{c5}lice"] {
        let refused = Command::new(BINARY).args(["admin", "--as", name, "status"]).output();
        let refused = refused.expect("the binary runs");
        let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), complaint.lines().count()), (Some(2), 1), "{complaint}");
        assert!(complaint.contains(&format!("(--as): {name:?}: a name is")), "{complaint}");
    }
}
