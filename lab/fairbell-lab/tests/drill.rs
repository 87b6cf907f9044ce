//! Real processes, real kills: short drills.

use std::process::Command;

use serde_json::Value;

fn drill(kind: &str, more: &[&str]) -> (bool, Value, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"))
        .args(["drill", kind, "--clients", "2", "--json"])
        .args(if more.contains(&"--every") { &[][..] } else { &["--every", "2s"] })
        .args(if more.contains(&"--rate") { &[][..] } else { &["--rate", "500"] })
        .args(more)
        .output()
        .expect("the binary runs");
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let report = serde_json::from_slice(&out.stdout).unwrap_or(Value::Null);
    (out.status.success(), report, errors)
}

fn holds(kind: &str, more: &[&str]) -> Value {
    let (passed, report, errors) = drill(kind, more);
    assert!(passed, "{kind}: {errors}\n{report:#}");
    for zero in
        ["acknowledged_lost", "duplicates", "unanswered", "connections_lost", "stray", "off_time"]
    {
        assert_eq!(report[zero], 0, "{kind}: {zero}: {report:#}");
    }
    assert_eq!((&report["replicas_equal"], &report["books_equal"]), (&true.into(), &true.into()));
    let asked = report["asked"].as_u64().unwrap_or(0);
    assert!(asked > 1_000 && report["answered"].as_u64() == Some(asked), "{report:#}");
    assert!(report["log"]["expired"].as_u64() > Some(10), "{report:#}");
    report
}

#[test]
fn nothing_acknowledged_is_lost_when_leaders_are_killed() {
    holds("failover", &["--times", "2"]);
}

/// Each replica feeds a store; all are asked, and journals read on their disks, while leaders die.
#[test]
fn stores_beside_replicas_answer_while_leaders_are_killed_and_by_what_is_committed() {
    let report = holds("failover", &["--times", "3", "--snapshot-every", "500", "--stores"]);
    let stores = &report["stores"];
    for zero in ["failed", "uncommitted", "went_back", "differences"] {
        assert_eq!(stores[zero], 0, "{zero}: {stores:#}");
    }
    for (key, least) in [("asked", 300), ("positions", 30), ("exports", 3), ("rows", 3_000)] {
        assert!(stores[key].as_u64() > Some(least), "{key}: {stores:#}");
    }
}

/// At every port of three replicas, and of a snapshot server.
#[test]
fn strangers_at_every_port_keep_no_leader_from_leading_and_no_client_from_a_snapshot() {
    let run = |more: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"))
            .args(["drill", "strangers", "--json", "--strangers", "100"])
            .args(more)
            .output()
            .expect("the binary runs");
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        let report: Value = serde_json::from_slice(&out.stdout).expect(&errors);
        (out.status.success(), report)
    };
    let (_, report) = run(&["--times", "2"]);
    // Somebody led each time, and everybody was answered: how soon is for quieter machines to say.
    for key in ["cold_start_ns", "kill_ns"] {
        let times = report[key]["all"].as_array().expect("a list");
        let led = times.iter().filter(|ns| ns.as_u64().is_some_and(|ns| ns < u64::MAX));
        assert_eq!(led.count(), 2, "{report:#}");
    }
    assert_eq!(report["snapshots"], 2, "{report:#}");
    let (passed, control) = run(&["--first-come", "--times", "1"]);
    assert!(!passed && control["snapshots"] == 0, "{control:#}");
}

#[test]
fn a_leader_that_was_paused_or_cut_off_comes_back_as_a_follower() {
    holds("pause", &["--times", "1"]);
    holds("partition", &["--times", "1"]);
}

/// Mounts small disks, so it needs what network namespaces need: root.
#[test]
fn a_leader_whose_disk_is_full_lets_another_lead_and_comes_back() {
    holds("full-disk", &["--times", "1"]);
}

/// The others take snapshots and give up their logs while it is away; without snapshots it gets all
/// from a log.
#[test]
fn a_replica_that_was_away_for_long_gets_a_snapshot() {
    // Long enough for most of the log to be of that time: the last but one snapshot holds the rest.
    let away = ["--times", "1", "--rate", "2000", "--away", "8s"];
    let report = holds("failover", &[&away[..], &["--snapshot-every", "300"]].concat());
    assert!(report["snapshots_installed"].as_u64() >= Some(1), "{report:#}");
    let report = holds("failover", &away);
    assert_eq!(report["snapshots_installed"], 0, "{report:#}");
}

#[test]
fn a_flipped_bit_is_found_and_the_replica_gets_its_log_from_the_others() {
    let report = holds("rot", &["--times", "2"]);
    let found = report["found"].as_array().expect("a list");
    assert_eq!(found.len(), 2, "{report:#}");
    let named = |said: &Value| {
        said.as_str().is_some_and(|said| said.contains("log-0000000000000001, offset "))
    };
    assert!(found.iter().all(named), "{report:#}");
}

/// The first three of nine arrangements; all of them: `fairbell-lab drill old-disk --times 9`.
#[test]
fn folders_that_are_set_back_elect_nobody_and_say_why() {
    let report = holds("old-disk", &["--times", "3"]);
    let found = report["found"].as_array().expect("a list");
    assert_eq!(found.len(), 3, "{report:#}");
    let named = |said: &Value| said.as_str().is_some_and(|said| said.contains("older copy"));
    assert!(found.iter().all(named), "{report:#}");
}

#[test]
fn a_group_that_was_killed_as_a_whole_goes_on_from_its_disks() {
    let report = holds("group", &["--times", "2", "--checkpoint-every", "400"]);
    let inputs: Vec<u64> =
        report["inputs"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    assert!(inputs.len() == 2 && 500 < inputs[0] && inputs[0] < inputs[1], "{report:#}");
    // Most of them began behind a checkpoint, and the drill has compared them with all inputs.
    let restored = |report: &Value| -> Vec<u64> {
        let replicas = report["checkpoints"].as_array().expect("a list").iter();
        replicas.filter_map(|of| of["restored"].as_u64()).collect()
    };
    let near = restored(&report).iter().filter(|from| **from + 900 > inputs[1]).count();
    assert!(near >= 2, "{report:#}");
    // Control: without checkpoints all inputs are applied.
    let report = holds("group", &["--times", "1", "--checkpoint-every", "0"]);
    assert_eq!(restored(&report), [0, 0, 0], "{report:#}");
}

#[test]
fn a_replica_whose_disk_is_lost_is_replaced_and_then_the_leader_dies() {
    let dir = std::env::temp_dir().join(format!("fairbell-replaced-{}", std::process::id()));
    let folder = dir.display().to_string();
    let report = holds("replace", &["--times", "3", "--keep", "--dir", &folder]);
    let replaced: Vec<&str> =
        report["replaced"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(replaced.len() == 3 && replaced[0].ends_with("by 4"), "{report:#}");
    // The second takes the place of the first that came; its number is not used again.
    assert!(replaced[1].ends_with("by 5") && replaced[2].ends_with("by 6"), "{report:#}");
    let disks = report["disks"].as_array().expect("a list");
    let members: Vec<u64> = disks.iter().filter_map(|disk| disk["replica"].as_u64()).collect();
    assert!(members.len() == 3 && members.contains(&6), "{report:#}");
    // Whoever led has written down who asked for what.
    let audit = |number: &u64| {
        let path = dir.join(format!("replica-{number}/admin-audit.jsonl"));
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let asked: String = (1..=6).map(|number| audit(&number)).collect();
    assert!(asked.contains(r#""as":"drill""#) && asked.contains(r#""stage":"done""#), "{asked}");
    std::fs::remove_dir_all(&dir).expect("removed");
}

#[test]
fn nothing_is_heard_before_its_release_of_any_replica_also_after_failovers() {
    let report = holds("early", &["--times", "2"]);
    let heard = &report["heard"];
    assert_eq!(heard["early"], 0, "{report:#}");
    let of = heard["of"].as_array().expect("a list");
    let all = of.iter().all(|of| of["messages"].as_u64() > Some(500));
    assert!(of.len() == 3 && all, "{report:#}");
    // Control: a follower that takes all for released, as all did once, is caught.
    let (passed, report, errors) = drill("early", &["--control", "--every", "4s"]);
    assert!(!passed && report["heard"]["early"].as_u64() > Some(0), "{errors}\n{report:#}");
}

#[test]
fn wrong_options_are_refused() {
    let (passed, _, errors) = drill("replace", &["--times", "101"]);
    assert!(!passed && errors.contains("at most"), "{errors}");
    let (passed, _, errors) = drill("failover", &["--replicas", "4"]);
    assert!(!passed && errors.contains("odd"), "{errors}");
    let (passed, _, errors) = drill("gateway", &["--times", "9"]);
    assert!(!passed && errors.contains("at most"), "{errors}");
}
