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
             [journal]\ndir = \"{}\"\n[flow]\nsample = \"none\"\nrate = 60\ngenerated_rate = 60\n",
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
    // Nobody else may read what it wrote; control: what the test itself wrote is open.
    for folder in ["journal", "out"] {
        assert_eq!(open_to_others(&scratch.0.join(folder)), Vec::<String>::new());
    }
    assert!(!open_to_others(&scratch.0).is_empty());
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
    assert!(read_by_all(&scratch, 2) > inputs / 2);
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

/// Files and folders under a path that others than their owner may read.
fn open_to_others(path: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).expect("a folder").flatten() {
        let about = entry.metadata().expect("there");
        if about.permissions().mode() & 0o077 != 0 {
            found.push(format!("{} {:o}", entry.path().display(), about.permissions().mode()));
        }
        if about.is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

/// Every reader takes a replica's journal, and finds in it what the run's own log holds, as far as the
/// replica knew it to be committed; how many inputs those are.
fn read_by_all(scratch: &Scratch, replica: u8) -> u64 {
    let folder = scratch.at(&format!("journal/replica-{replica}"));
    let (config, out) = (scratch.at("group.toml"), scratch.at("exported.log"));
    let export = scratch.fairbell(&["journal", "export", &folder, "--out", &out]);
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let exported = std::fs::read(&out).expect("a log");
    let log = std::fs::read(scratch.at("out/exchange.log")).expect("a log");
    assert!(log.starts_with(&exported), "replica {replica}: another log");
    let under = ["--json", "--config", &config];
    let read = |args: &[&str]| document(&scratch.fairbell(&[args, &under].concat()));
    let replayed = read(&["journal", "replay", &folder]);
    let applied = number(&replayed, "applied");
    for from in [&folder, &out] {
        let again = read(&["log", "replay", from]);
        assert_eq!(again["state_digest"], replayed["state_digest"], "{from}");
        assert_eq!(number(&again, "applied"), applied);
    }
    let statements = read(&["statement", "--log", &folder]);
    assert_eq!(statements, read(&["statement", "--log", &out]));
    let story = read(&["explain", "1:1", "--log", &folder]);
    assert_eq!(story, read(&["explain", "1:1", "--log", &out]));
    let store = scratch.at("store.db");
    let rebuilt = read(&["store", "rebuild", "--journal", &folder, "--file", &store]);
    assert_eq!(number(&rebuilt, "inputs"), applied);
    let reconciled = scratch.fairbell(
        &[&["store", "reconcile", "--journal", &folder, "--file", &store], &under[..]].concat(),
    );
    assert!(reconciled.status.success(), "{}", String::from_utf8_lossy(&reconciled.stderr));
    applied
}

/// Who is in the group, as an operator was told: how far their logs are changes all the time.
fn members(answer: &Value) -> Vec<u64> {
    let members = answer["data"]["members"].as_array().expect("a list");
    members.iter().map(|of| number(of, "replica")).collect()
}

/// An operator puts others in the place of a follower and of the leader while all goes on.
#[test]
fn an_operator_changes_who_the_replicas_are() {
    let scratch = Scratch::new("group-members");
    let path = scratch.at("group.toml");
    let text = std::fs::read_to_string(&path).expect("a file");
    let with = |reserve: u8| {
        let journal = format!("[journal]\nreserve = {reserve}\n");
        std::fs::write(&path, text.replace("[journal]\n", &journal)).expect("a file");
    };
    with(2);
    let socket = scratch.at("out/admin.sock");
    let ask = |args: &[&str]| {
        let common = ["admin", "--json", "--as", "alice", "--socket", socket.as_str(), "replicas"];
        let output = scratch.fairbell(&[&common[..], args].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.success(), answer)
    };
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| scratch.up(&["--replicas", "3", "--duration", "12s"]));
        let listed = (0..400).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let (done, answer) = ask(&["list"]);
            answer["data"]["leader"].as_u64().filter(|_| done)
        });
        let leader = listed.expect("one leads");
        for (args, why) in [
            (&["replace", "2", "--by", "9"][..], "has no place"),
            (&["replace", "9", "--by", "4"], "is not in the group"),
            (&["replace", "2", "--by", "2"], "its own place"),
            (&["remove", "9"], "is not in the group"),
        ] {
            let (done, answer) = ask(args);
            assert!(!done && answer["text"].to_string().contains(why), "{args:?}: {answer}");
        }
        let follower = (leader % 3 + 1).to_string();
        let (done, answer) = ask(&["replace", &follower, "--by", "4"]);
        assert!(done, "{answer:#}");
        // Again is no harm.
        let (done, again) = ask(&["replace", &follower, "--by", "4"]);
        assert!(done && members(&again) == members(&answer), "{again:#} after {answer:#}");
        let (done, answer) = ask(&["replace", &leader.to_string(), "--by", "5"]);
        assert!(done && answer["data"]["reserve"] == serde_json::json!([]), "{answer:#}");
        document(&run.join().expect("no panic"))
    });
    assert_eq!(number(&run, "orders_sent"), number(&run, "orders_acknowledged"));
    assert_eq!(number(&run, "orders_lost") + number(&run, "duplicates"), 0);
    let at_end = |run: &Value| -> Vec<u64> {
        let replicas = run["replication"]["replicas"].as_array().expect("a list");
        assert!(replicas.iter().all(|of| of["state_digest"] == replicas[0]["state_digest"]));
        replicas.iter().map(|of| number(of, "replica")).collect()
    };
    let now = at_end(&run);
    assert!(run["replication"]["equal"] == true && now.len() == 3, "{}", run["replication"]);
    assert!(now.contains(&4) && now.contains(&5), "{now:?}");
    let audit = std::fs::read_to_string(scratch.at("out/admin-audit.jsonl")).expect("a file");
    assert!(audit.contains("alice") && audit.contains(r#""stage":"done""#), "{audit}");
    // Their places have to be there at the next start, which goes on with them.
    with(0);
    let refused = scratch.up(&["--replicas", "3", "--once"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && stderr.contains("at least 2"), "{stderr}");
    with(2);
    let next = document(&scratch.up(&["--replicas", "3", "--once"]));
    assert_eq!((at_end(&next), &next["replication"]["equal"]), (now, &true.into()));
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
    // Readers find all of it.
    let folder = scratch.at("journal/replica-1");
    document(&scratch.fairbell(&["journal", "verify", "--json", &folder]));
    assert!(read_by_all(&scratch, 1) > after / 2);
}

/// Negative control: one bit on one replica's disk, and the run must not pass.
#[test]
fn a_replica_whose_disk_does_not_hold_the_log_fails_the_run() {
    let scratch = Scratch::new("group-flip");
    let run = scratch.up(&["--replicas", "3", "--duration", "1s", "--flip-replica", "2"]);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    if run.stdout.is_empty() {
        // That one led last: there is no log to make a report of.
        assert!(stderr.contains("replica-2: log-0000000000000001"), "{stderr}");
        return;
    }
    let report: Value = serde_json::from_slice(&run.stdout).expect("one JSON document");
    assert_eq!(
        (&report["verdict"], &report["replication"]["equal"]),
        (&"fail".into(), &false.into())
    );
    let failures = report["failures"].to_string();
    assert!(
        failures.contains("replica 2: ") && failures.contains("log-0000000000000001"),
        "{failures}"
    );
    // All else is as it should be.
    assert!(!failures.contains("replica 1: ") && !failures.contains("replica 3: "), "{failures}");
    assert_eq!(report["books_equal"], Value::Bool(true));
}
