//! `fairbell up` whose root is a group of replicas: what a run promises holds, its replicas end with
//! one log, and the next start goes on with it.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder for one test; gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        // Little enough for two busy cores.
        let text = format!(
            "[doors]\nplain = true\n[overlay]\ndepth = 2\nfanout = 2\nreceivers = 2\n\
             [journal]\ndir = \"{}\"\n[flow]\nsample = \"none\"\ngenerated_rate = 60\n",
            path.join("journal").display()
        );
        std::fs::write(path.join("group.toml"), text).expect("a file");
        Scratch(path)
    }

    fn fairbell(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.args(args).output().expect("the binary runs")
    }

    fn up(&self, args: &[&str]) -> Output {
        let (config, out) = (self.at("group.toml"), self.at("out"));
        let common = ["up", "--json", "--quiet", "--port-base", "0", "--config", config.as_str()];
        self.fairbell(&[&common[..], &["--out", out.as_str()][..], args].concat())
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a command printed that succeeded.
fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// A count in a document.
fn number(of: &Value, key: &str) -> u64 {
    of[key].as_u64().unwrap_or_else(|| panic!("{key} is {}", of[key]))
}

/// All replicas hold so many inputs, in memory and on disk, and one state.
fn one_log(report: &Value, inputs: u64) {
    let group = &report["replication"];
    assert_eq!(group["equal"], Value::Bool(true), "{group:#}");
    let replicas = group["replicas"].as_array().expect("a list");
    assert_eq!(replicas.len(), 3, "{group:#}");
    for replica in replicas {
        assert_eq!(
            (number(replica, "inputs"), number(replica, "inputs_on_disk")),
            (inputs, inputs)
        );
        assert_eq!(replica["state_digest"], replicas[0]["state_digest"], "{group:#}");
    }
    let last = group["terms"].as_array().and_then(|terms| terms.last()).expect("somebody led");
    assert_eq!((&last["term"], &last["leader"]), (&group["term"], &group["leader"]), "{group:#}");
    assert!((1..=3).contains(&number(group, "leader")), "{group:#}");
}

#[test]
fn three_replicas_answer_all_once_and_the_next_start_goes_on_with_their_log() {
    let scratch = Scratch::new("group");
    let run = document(&scratch.up(&["--replicas", "3", "--duration", "3s"]));
    assert!(number(&run, "orders_sent") > 500);
    assert_eq!(number(&run, "orders_sent"), number(&run, "orders_acknowledged"));
    assert_eq!(number(&run, "orders_lost") + number(&run, "duplicates"), 0);
    assert_eq!((&run["books_equal"], number(&run, "feed_messages_lost")), (&true.into(), 0));
    // The log that is left replays, as long as the replicas say, and has the whole day.
    let replay = scratch.fairbell(&[
        "log",
        "replay",
        "--json",
        "--config",
        &scratch.at("group.toml"),
        &scratch.at("out/exchange.log"),
    ]);
    let replay = document(&replay);
    let inputs = number(&replay, "applied");
    one_log(&run, inputs);
    let kinds = run["auctions"].as_array().expect("a list").iter().map(|auction| &auction["kind"]);
    assert!(kinds.filter(|kind| **kind == "closing").count() >= 2, "{}", run["auctions"]);
    // Another size of group is refused, the same one goes on.
    let refused = scratch.up(&["--replicas", "5", "--once"]);
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(stderr.contains("has 3 replicas, not 5"), "{stderr}");
    let next = document(&scratch.up(&["--replicas", "3", "--once"]));
    assert!(next["notices"].to_string().contains("3 replicas go on after"), "{}", next["notices"]);
    let after = number(&next["replication"]["replicas"][0], "inputs");
    one_log(&next, after);
    assert!(after > inputs, "{after} inputs after {inputs}");
    assert!(number(&next, "feed_messages") >= number(&run, "feed_messages"));
}

/// Disks that give up what a snapshot holds: they hold the leader's log all the same, and the next
/// start goes on from snapshots.
#[test]
fn replicas_that_take_snapshots_hold_the_whole_log_too() {
    let scratch = Scratch::new("group-snapshots");
    let path = scratch.at("group.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    let journal = "[journal]\nsnapshot_every = 100\nsegment_mib = 2\n";
    std::fs::write(&path, text.replace("[journal]\n", journal)).expect("a file");
    let run = document(&scratch.up(&["--replicas", "3", "--duration", "4s"]));
    let inputs = number(&run["replication"]["replicas"][0], "inputs");
    one_log(&run, inputs);
    let next = document(&scratch.up(&["--replicas", "3", "--once"]));
    let after = number(&next["replication"]["replicas"][0], "inputs");
    one_log(&next, after);
    assert!(after > inputs, "{after} inputs after {inputs}");
    for number in 1..=3 {
        let folder = std::path::Path::new(&scratch.at("journal")).join(format!("replica-{number}"));
        let names: Vec<String> = std::fs::read_dir(folder)
            .expect("a folder")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        assert!(names.iter().any(|name| name.starts_with("snap-")), "{names:?}");
    }
}

/// Negative control: one bit on one replica's disk, and the run must not pass.
#[test]
fn a_replica_whose_disk_does_not_hold_the_log_fails_the_run() {
    let scratch = Scratch::new("group-flip");
    let run = scratch.up(&["--replicas", "3", "--duration", "1s", "--flip-replica", "2"]);
    assert_eq!(run.status.code(), Some(1), "{}", String::from_utf8_lossy(&run.stderr));
    let report: Value = serde_json::from_slice(&run.stdout).expect("one JSON document");
    assert_eq!(
        (&report["verdict"], &report["replication"]["equal"]),
        (&"fail".into(), &false.into())
    );
    let failures = report["failures"].to_string();
    assert!(failures.contains("replica 2: ") && failures.contains("segment 1"), "{failures}");
    // All else is as it should be.
    assert!(!failures.contains("replica 1: ") && !failures.contains("replica 3: "), "{failures}");
    assert_eq!(report["books_equal"], Value::Bool(true));
}

/// The table of durabilities has a row for each, beside its floor.
#[test]
fn every_durability_is_measured_beside_its_floor() {
    let scratch = Scratch::new("durability");
    let bench = |duration: &str| {
        let dir = scratch.at("bench");
        let rate = ["--rate", "100", "--rounds", "1", "--duration", duration, "--json"];
        scratch.fairbell(&[&["bench", "durability", "--dir", dir.as_str()][..], &rate].concat())
    };
    assert_eq!(bench("500ms").status.code(), Some(2), "too short to say anything");
    let table = document(&bench("1s"));
    let rows = table["rows"].as_array().expect("a list");
    let names: Vec<&str> = rows.iter().flat_map(|row| row["durability"].as_str()).collect();
    assert_eq!(names, ["none", "local", "replicated"]);
    for row in rows {
        for side in ["system_ns", "floor_ns"] {
            let of = ["p50", "p99", "p999"].map(|quantile| number(&row[side], quantile));
            assert!(of.is_sorted() && of[0] > 0, "{row:#}");
            assert!(number(&row[side], "count") >= 10, "{row:#}");
        }
    }
    let left = std::fs::read_dir(scratch.at("bench")).expect("its folder").count();
    assert_eq!(left, 0, "what it made is removed");
}
