//! The post-trade store of the binary: fed while the exchange runs and is killed, asked, made anew,
//! reconciled; and what was changed in it is found.

mod common;
mod days;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Running, document, number};
use serde_json::Value;

/// A folder for one test; gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        let (dir, file) = (path.join("journal"), path.join("store.db"));
        let text = format!(
            "[doors]\nplain = true\n[journal]\ndurability = \"local\"\ndir = \"{}\"\n\
             [store]\nfollow = true\nfile = \"{}\"\npoll_ms = 20\n",
            dir.display(),
            file.display()
        );
        std::fs::write(path.join("store.toml"), text).expect("a file");
        Scratch(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fairbell(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        command.args(args).arg("--config").arg(self.at("store.toml")).arg("--json");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.fairbell(args).output().expect("the binary runs")
    }

    fn up(&self, duration: &str) -> Command {
        let args = ["up", "--quiet", "--rate", "2000", "--port-base", "0", "--duration", duration];
        let mut command = self.fairbell(&args);
        command.arg("--out").arg(self.at("out"));
        command
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Changes the store behind everybody's back.
fn tamper(file: &Path, text: &str) {
    let changed = rusqlite::Connection::open(file).and_then(|db| db.execute(text, []));
    assert_eq!(changed.expect("a store"), 1, "{text}");
}

/// Flips a bit in a message in the middle of a capture: behind the headers of pcap, Ethernet, IPv4,
/// UDP and MoldUDP64, and the message's length.
fn flip(capture: &Path) {
    let mut bytes = std::fs::read(capture).expect("a capture");
    let mut at = 24;
    let length = |at: usize| u32::from_le_bytes(bytes[at + 8..at + 12].try_into().expect("four"));
    while at < bytes.len() / 2 || length(at) < 42 + 40 {
        at += 16 + length(at) as usize;
    }
    bytes[at + 16 + 42 + 20 + 2 + 6] ^= 1;
    std::fs::write(capture, bytes).expect("written");
}

#[test]
fn a_run_is_in_the_store_and_log_store_and_feed_reconcile() {
    let scratch = Scratch::new("store-run");
    let capture = scratch.at("feed.pcap");
    let run = document(&scratch.up("1s").arg("--capture").arg(&capture).output().expect("runs"));
    let store = &run["store"];
    assert!(number(store, "orders") > 1_000 && number(store, "behind") == 0, "{store}");
    // What the participants were told, the store has.
    let reports: u64 = run["instruments"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| number(one, "trades"))
        .sum();
    assert_eq!(number(store, "trades"), reports);
    let asked = document(&scratch.run(&["query", "trades", "--limit", "0"]));
    assert_eq!(number(&asked, "count"), reports);
    let orders =
        document(&scratch.run(&["query", "orders", "--participant", "FLOW01", "--limit", "7"]));
    let rows = orders["rows"].as_array().expect("a list");
    assert!(rows.len() == 7 && rows.iter().all(|row| row["participant"] == "FLOW01"));
    let wrong = scratch.run(&["query", "orders", "--participant", "nobody"]);
    assert_eq!(wrong.status.code(), Some(2));
    // Made anew it is the same, and all of it agrees.
    let again = document(&scratch.run(&["store", "rebuild"]));
    assert_eq!(number(&again, "orders"), number(store, "orders"));
    let feed = capture.display().to_string();
    let reconciled = document(&scratch.run(&["store", "reconcile", "--feed", &feed]));
    assert_eq!(reconciled["reconciled"], Value::Bool(true), "{reconciled:#}");
    let comparisons = reconciled["comparisons"].as_array().expect("a list");
    assert_eq!(comparisons.len(), 5);
    assert!(comparisons.iter().all(|one| number(one, "compared") > 0), "{reconciled:#}");
    // A row that is gone is missed, by two of them, and so is a byte of the feed.
    let file = scratch.at("store.db");
    tamper(&file, "DELETE FROM trades WHERE match_number = (SELECT min(match_number) FROM trades)");
    flip(&capture);
    let missed = scratch.run(&["store", "reconcile", "--feed", &feed]);
    assert_eq!(missed.status.code(), Some(1), "{}", String::from_utf8_lossy(&missed.stderr));
    let missed: Value = serde_json::from_slice(&missed.stdout).expect("a document");
    let differences = |what: &str| {
        let lines = missed["comparisons"].as_array().into_iter().flatten();
        lines.filter(|line| line["what"] == what).map(|line| number(line, "differences")).sum()
    };
    let found: [u64; 3] =
        ["log and store: rows", "statements and store", "log and recorded feed: messages"]
            .map(differences);
    assert!(found[0] == 1 && found[1] == 1 && found[2] > 0, "{missed:#}");
    let again = document(&scratch.run(&["store", "rebuild"]));
    assert_eq!(number(&again, "trades"), reports);
}

/// A journal that was set back to an older copy: the store was fed with more, and says so.
#[test]
fn a_journal_that_ends_before_its_store_is_an_older_copy() {
    let scratch = Scratch::new("store-older");
    document(&scratch.up("300ms").output().expect("runs"));
    let (journal, old) = (scratch.at("journal"), scratch.at("old"));
    std::fs::create_dir(&old).expect("a folder");
    for entry in std::fs::read_dir(&journal).expect("a folder").flatten() {
        std::fs::copy(entry.path(), old.join(entry.file_name())).expect("copied");
    }
    // Of its own store it is no older copy.
    document(&scratch.run(&["store", "follow", "--once"]));
    document(&scratch.up("300ms").output().expect("runs"));
    let fed = document(&scratch.run(&["store", "follow", "--once"]));
    let old = old.display().to_string();
    let refused = scratch.run(&["store", "follow", "--once", "--journal", &old]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    let inputs = format!("was fed up to input {}", number(&fed, "inputs"));
    assert!(stderr.contains(&inputs) && stderr.contains("an older copy"), "{stderr}");
    // The exchange that goes on from it starts, with the alarm: by then it may hold as many inputs, and
    // other ones.
    std::fs::remove_dir_all(&journal).expect("removed");
    std::fs::rename(&old, &journal).expect("moved");
    let run = scratch.up("300ms").output().expect("runs");
    let report: Value = serde_json::from_slice(&run.stdout).expect("one JSON document");
    let told = format!("{} {}", report["complaints"], report["notices"]);
    assert!(told.contains("ALARM: store-failed"), "{told}");
    assert_eq!(run.status.code(), Some(1));
}

#[test]
fn a_follower_that_is_killed_goes_on_where_it_was() {
    let scratch = Scratch::new("store-kill");
    let text = std::fs::read_to_string(scratch.at("store.toml")).expect("a file");
    std::fs::write(scratch.at("store.toml"), text.replace("follow = true", "follow = false"))
        .expect("a file");
    let run = scratch.up("4s").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut run = Running(run.expect("the binary runs"));
    let (mut kills, mut before) = (0, 0);
    let began = Instant::now();
    // Followers beside the exchange, each killed with SIGKILL wherever it is.
    while run.0.try_wait().expect("a child").is_none() {
        assert!(began.elapsed() < Duration::from_secs(90), "the exchange does not end");
        let follow = scratch
            .fairbell(&["store", "follow"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut follow = Running(follow.expect("the binary runs"));
        std::thread::sleep(Duration::from_millis(300 + 70 * kills));
        follow.0.kill().expect("killed");
        follow.0.wait().expect("gone");
        kills += 1;
        let asked = scratch.run(&["query", "orders", "--limit", "1"]);
        if let Ok(asked) = serde_json::from_slice::<Value>(&asked.stdout) {
            assert!(number(&asked, "up_to_input") >= before, "it went back");
            before = number(&asked, "up_to_input");
        }
    }
    assert!(kills > 2, "{kills} kills");
    let done = document(&scratch.run(&["store", "follow", "--once"]));
    assert!(number(&done, "inputs") > 1_000 && number(&done, "behind") == 0, "{done}");
    let reconciled = document(&scratch.run(&["store", "reconcile"]));
    assert_eq!(number(&reconciled, "differences"), 0, "{reconciled:#}");
}

/// Made anew, or removed, while an exchange feeds it: the exchange goes on with what is in its place.
#[test]
fn a_store_that_is_made_anew_while_it_is_fed_is_fed_on() {
    let scratch = Scratch::new("store-anew");
    let run = scratch.up("4s").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut run = run.expect("the binary runs");
    let since = Instant::now();
    while !scratch.run(&["store", "rebuild"]).status.success() {
        assert!(since.elapsed() < Duration::from_secs(60), "there is no log");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(run.try_wait().expect("a child").is_none(), "it is fed at the moment");
    let report = document(&run.wait_with_output().expect("it ends"));
    let store = &report["store"];
    assert!(store["turned"].to_string().contains("opened anew"), "{store}");
    assert_eq!(number(store, "behind"), 0);
    let again = document(&scratch.run(&["store", "follow", "--once"]));
    assert_eq!(number(&again, "rows_written"), 0, "nothing was missing: {again}");
    let reconciled = document(&scratch.run(&["store", "reconcile"]));
    assert_eq!(number(&reconciled, "differences"), 0, "{reconciled:#}");
}
