//! The laboratory's commands as processes.

use std::process::{Command, Output};

use serde_json::Value;

fn fairbell(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairbell-lab")).args(args).output().unwrap()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_string).collect()
}

#[test]
fn help_is_a_result() {
    for args in [&["--help"][..], &["bench", "rtt", "--help"], &["check", "book", "--help"]] {
        let output = fairbell(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn groups_of_replicas_are_simulated_and_their_faults_counted() {
    let output = fairbell(&["sim", "replicas", "--seeds", "0..4", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", lines(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["seeds"], 4);
    assert_eq!(document["failed"], 0);
    for fault in ["crashes", "partitions", "lost", "slow"] {
        assert!(document["faults"][fault].as_u64() > Some(0), "{fault}");
    }
    assert!(document["sums"]["answered"].as_u64() > Some(500));
    let output = fairbell(&["sim", "replicas", "--seed", "2", "--replicas", "5"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", lines(&output.stderr));
    assert_eq!(lines(&output.stdout)[0], "1 seeds, 0 failed");
    let output = fairbell(&["sim", "replicas", "--seed", "2", "--replicas", "4"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_group_that_fails_names_checker_seed_and_the_command_that_shows_it_again() {
    let bug = ["--bug", "ack-before-copy"];
    let output = fairbell(&[&["sim", "replicas", "--seeds", "0..30"][..], &bug].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(lines(&output.stderr)[0].contains(" of 30 seeds failed"));
    let printed = lines(&output.stdout);
    let failed = printed.iter().position(|line| line.contains("failed; again: ")).unwrap();
    assert!(printed[failed + 1].starts_with("  AcknowledgedPresent: "), "{printed:?}");
    let again: Vec<&str> =
        printed[failed].split("again: fairbell-lab ").last().unwrap().split(' ').collect();
    let output = fairbell(&again);
    assert_eq!(output.status.code(), Some(1), "{again:?}");
    assert!(lines(&output.stdout)[0].starts_with("1 seeds, 1 failed"));
}

#[test]
fn days_without_a_restart_are_settled_each() {
    let output =
        fairbell(&["sim", "days", "--days", "3", "--seed", "5", "--requests", "150", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{:?}", lines(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["verdict"], "PASS");
    let days = document["days"].as_array().unwrap();
    let sessions: Vec<_> = days.iter().filter_map(|day| day["session"].as_str()).collect();
    assert_eq!(sessions, ["FAIRBELL01", "FBIRBELL01", "FCIRBELL01"]);
    for day in days {
        assert!(day["trades"].as_u64() > Some(0) && day["store_rows_equal"].as_u64() > Some(0));
    }
    let bug = ["sim", "days", "--days", "2", "--seed", "5", "--requests", "150", "--bug"];
    let output = fairbell(&[&bug[..], &["forget-fill"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(lines(&output.stderr)[0].contains("its ledger"), "{:?}", lines(&output.stderr));
}

/// The table of durabilities has a row for each, beside its floor.
#[test]
fn every_durability_is_measured_beside_its_floor() {
    let scratch = std::env::temp_dir().join(format!("fairbell-durability-{}", std::process::id()));
    let bench = |duration: &str| {
        let dir = scratch.display().to_string();
        let rate = ["--rate", "100", "--rounds", "1", "--duration", duration, "--json"];
        fairbell(&[&["bench", "durability", "--dir", dir.as_str()][..], &rate].concat())
    };
    assert_eq!(bench("500ms").status.code(), Some(2), "too short to say anything");
    let measured = bench("1s");
    let told = String::from_utf8_lossy(&measured.stderr);
    assert_eq!(measured.status.code(), Some(0), "{told}");
    let table: Value = serde_json::from_slice(&measured.stdout).expect("one JSON document");
    let rows = table["rows"].as_array().expect("a list");
    let names: Vec<&str> = rows.iter().flat_map(|row| row["durability"].as_str()).collect();
    assert_eq!(names, ["none", "local", "replicated"]);
    for row in rows {
        for side in ["system_ns", "floor_ns"] {
            let of = ["p50", "p99", "p999"]
                .map(|quantile| row[side][quantile].as_u64().expect("a count"));
            assert!(of.is_sorted() && of[0] > 0, "{row:#}");
            assert!(row[side]["count"].as_u64() >= Some(10), "{row:#}");
        }
    }
    let left = std::fs::read_dir(&scratch).expect("its folder").count();
    assert_eq!(left, 0, "what it made is removed");
    std::fs::remove_dir(&scratch).expect("empty");
}

#[test]
fn a_file_that_is_none_is_no_workload_and_a_warm_up_ends_before_its_soak() {
    let file = std::env::temp_dir().join(format!("fairbell-orders-{}.toml", std::process::id()));
    std::fs::write(&file, "rate = 10\n").unwrap();
    let output = fairbell(&["bench", "orders", &file.to_string_lossy()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(output.status.code(), Some(2), "{:?}", lines(&output.stderr));
    let output = fairbell(&["cloud", "soak", "--for", "1m", "--warm-up", "2m"]);
    assert_eq!(output.status.code(), Some(2), "{:?}", lines(&output.stderr));
}
