//! A venue of seven hosts in a network in a box: what CI runs of `fairbell-lab cloud`.
//!
//! Where network namespaces are refused these say so and pass; with the environment variable `CI`
//! they fail there.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Exit code where the machine lacks what is needed.
const UNAVAILABLE: i32 = 3;

/// Two boxes at a time would share two cores.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a box in which trees are planned.
fn planned(name: &str, args: &[&str]) -> Option<(serde_json::Value, i32, String)> {
    document(name, &[&["cloud", "plan", "--json"], args].concat())
}

/// Runs a box; its document, exit code and what it said, or `None` where there can't be one.
fn cloud(name: &str, args: &[&str]) -> Option<(serde_json::Value, i32, String)> {
    let usual = ["cloud", "--json", "--hosts", "7", "--depth", "2", "--rate", "300"];
    document(name, &[&usual[..], args].concat())
}

fn document(name: &str, args: &[&str]) -> Option<(serde_json::Value, i32, String)> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let out: PathBuf = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new(env!("CARGO_BIN_EXE_fairbell-lab"))
        .args(args)
        .arg("--out")
        .arg(&out)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code().unwrap_or(-1);
    if code == UNAVAILABLE {
        assert!(std::env::var_os("CI").is_none(), "in CI it must run: {said}");
        eprintln!("skipped: {said}");
        return None;
    }
    let document = serde_json::from_slice(&output.stdout);
    let document = document.unwrap_or_else(|error| panic!("{error}: {said}"));
    let _ = std::fs::remove_dir_all(out);
    Some((document, code, said))
}

/// The program of Prometheus, which scripts/with-monitoring.sh installs; without one a test says so and ends, and
/// fails where `CI` is set.
fn prometheus() -> Option<String> {
    let found = std::env::var("FAIRBELL_PROMETHEUS").ok();
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no FAIRBELL_PROMETHEUS");
    if found.is_none() {
        println!("external suites: 0 run, 1 absent");
    }
    found
}

/// Alerts that fired, each with its machine.
fn fired(document: &serde_json::Value) -> Vec<(&str, &str)> {
    let all = document["prometheus"]["alerts"].as_array().expect("alerts").iter();
    all.map(|one| {
        (one["alert"].as_str().expect("a name"), one["machine"].as_str().expect("a name"))
    })
    .collect()
}

#[test]
fn prometheus_reads_every_machine_has_data_for_every_query_and_a_fault_raises_its_alert() {
    let Some(program) = prometheus() else { return };
    let fault = ["--fault", "kill:edge-2@5s+4s", "--alert", "FairbellDown"];
    let args = [&["--duration", "11s", "--prometheus", &program][..], &fault].concat();
    let Some((document, _, said)) = cloud("prometheus", &args) else { return };
    exactly_once(&document);
    let seen = &document["prometheus"];
    assert!(seen["queries"].as_u64().is_some_and(|queries| queries > 90), "{seen}");
    assert_eq!(seen["machines"], 6, "{seen}");
    // The web door on the first edge is traded at, and read, too.
    assert_eq!(document["web_orders"]["unanswered"], 0, "{document}");
    assert!(document["web_orders"]["accepted"].as_u64().is_some_and(|orders| orders > 0));
    // Alerts that are due fire after the fault and not before, and every query has data.
    for found in ["prometheus", "alert", "web door", "told"] {
        assert!(!said.contains(&format!("main: {found}: ")), "{found}: {said}");
    }
    // Control: of the five machines that nothing is done to none is said to be down.
    let down: Vec<_> = fired(&document).into_iter().filter(|of| of.0 == "FairbellDown").collect();
    assert_eq!(down, [("FairbellDown", "edge-2")], "{seen}");
}

fn exactly_once(document: &serde_json::Value) {
    assert!(document["requests_sent"].as_u64().is_some_and(|sent| sent > 1_000), "{document}");
    assert_eq!(document["requests_sent"], document["requests_answered"], "{document}");
    assert_eq!(document["requests_lost"], 0, "{document}");
    assert_eq!(document["answered_twice"], 0, "{document}");
    assert_eq!(document["books_equal"], true, "{document}");
    assert!(
        document["books_compared"].as_u64().is_some_and(|compared| compared > 10),
        "{document}"
    );
}

#[test]
fn an_edge_killed_and_keys_changed_lose_nothing_and_clocks_keep_their_word() {
    let faults = ["--fault", "kill:edge-1@4s", "--fault", "rotate@9s"];
    let args = [&["--duration", "14s"][..], &faults].concat();
    let Some((document, code, said)) = cloud("kill", &args) else { return };
    exactly_once(&document);
    assert_eq!(document["clock_bound_held"], true, "{document}");
    assert_eq!(code, 0, "{said}");
    let faults = document["faults"].as_array().expect("faults");
    assert_eq!(faults.len(), 2);
    assert!(!faults[0]["reconnects_ns"].as_array().expect("sessions").is_empty(), "{document}");
    assert!(faults[0]["longest_wait_ns"].as_u64().is_some_and(|ns| ns > 100_000_000), "{document}");
    let releases = &document["releases"];
    assert_eq!(releases["early"], 0, "{document}");
    assert!(releases["releases"].as_u64().is_some_and(|all| all > 500), "{document}");
    // What `fairbell cluster status` said, and what only the box knows.
    let live = &document["live"];
    assert!(live["messages"].as_u64().is_some_and(|messages| messages > 5), "{live}");
    assert!(live["orders"]["orders"].as_u64().is_some_and(|orders| orders > 100), "{live}");
    let share = |at: usize| live["p_fair"][at].as_f64().unwrap_or(-1.0);
    assert!(0.0 <= share(0) && share(0) <= share(1) && share(1) <= 1.0, "{live}");
    let medians = [&live["oml_release_ns"]["p50"], &document["oml_release_ns"]["p50"]];
    let [said, truth] = medians.map(|ns| ns.as_f64().unwrap_or(0.0));
    assert!(said > truth / 4.0 && said < truth * 4.0, "{said} {truth}");
    assert!(document["relay_ks_distance"].as_f64().is_some_and(|ks| ks < 0.2), "{document}");
}

#[test]
fn when_the_root_whose_clock_all_follow_is_away_they_follow_another() {
    let args = ["--roots", "3", "--duration", "14s", "--fault", "kill:reference@3s+6s"];
    let Some((document, code, said)) = cloud("reference", &args) else { return };
    exactly_once(&document);
    assert!(document["clock_references"].as_u64().is_some_and(|of| of >= 2), "{document}");
    assert_eq!(document["clock_bound_held"], true, "{document}");
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_dead_proxy_is_replaced_by_one_that_stands_by_and_once_more_by_hand() {
    let hosts = ["--roots", "3", "--standby", "1", "--duration", "16s"];
    // It is back when the other one has its place, and takes it again.
    let faults = ["--fault", "kill:proxy-1@3s+4s", "--fault", "replace:standby-1@11s"];
    let Some((document, code, said)) = cloud("replace", &[&hosts[..], &faults].concat()) else {
        return;
    };
    exactly_once(&document);
    assert_eq!(document["tree_epoch"], 3, "{document}");
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_clock_that_jumps_is_seen_and_called_unfair() {
    let args = ["--duration", "6s", "--fault", "step:edge-2@3s"];
    let Some((document, code, said)) = cloud("step", &args) else { return };
    exactly_once(&document);
    assert_eq!(document["clock_bound_held"], false, "{document}");
    assert!(code == 1 && said.contains("UNFAIR"), "{said}");
    assert!(said.contains("early: "), "what it released by that clock was early: {said}");
}

#[test]
fn a_leader_without_power_or_room_and_machines_upgraded_lose_nothing() {
    let faults = ["--fault", "kill:leader@3s", "--fault", "disk-full:leader@8s"];
    let faults = [&faults[..], &["--fault", "lead:next@20s", "--fault", "upgrade@23s"]].concat();
    let args = [&["--duration", "45s"][..], &faults].concat();
    let Some((document, _, said)) = cloud("roots", &args) else { return };
    exactly_once(&document);
    // Clocks are the other tests': without the first root they are as good as they were, on busy cores.
    for found in ["lost", "twice", "told", "books", "gap", "early", "reconnect", "run"] {
        assert!(!said.contains(&format!("main: {found}: ")), "{found}: {said}");
    }
    let upgrade = &document["faults"][3];
    let ended = upgrade["reconnects_ns"].as_array().expect("sessions").iter();
    let ended: Vec<u64> = ended.map(|took| took.as_u64().expect("on again")).collect();
    assert!(!ended.is_empty() && ended.iter().all(|ns| *ns <= 1_000_000_000), "{ended:?}");
}

#[test]
fn each_checker_finds_what_is_done_for_it_to_find() {
    let controls = ["lost", "twice", "books", "gap"];
    let options = controls.iter().flat_map(|control| ["--control", control]);
    let args: Vec<&str> = ["--duration", "8s"].into_iter().chain(options).collect();
    let Some((document, code, said)) = cloud("controls", &args) else { return };
    assert_eq!((code, &document["requests_lost"]), (1, &1.into()), "{said}");
    assert_eq!(document["answered_twice"], 1, "{said}");
    for found in controls.into_iter().chain(["told"]) {
        assert!(said.contains(&format!("main: {found}: ")), "{found}: {said}");
    }
    assert!(!said.contains("early: ") && !said.contains("UNFAIR"), "{said}");
}

#[test]
fn plans_leave_equals_alone_move_a_straggler_away_and_are_known_to_the_root_that_leads_next() {
    let hosts = ["--hosts", "11", "--roots", "3"];
    let args = [&hosts[..], &["--null", "1", "--subtree", "1", "--seed", "5"]].concat();
    let Some((document, _, said)) = planned("plan", &args) else { return };
    exactly_once(&document);
    assert_eq!(document["remembered"], true, "{said}");
    let of = |key: &str| document[key].as_u64();
    assert_eq!((of("null_plans"), of("null_applied"), of("applied")), (Some(1), Some(0), Some(1)));
    let replaced = &document["subtree"];
    assert_eq!(
        (&replaced["leave"][0], &replaced["come"][0]),
        (&"proxy-1".into(), &"standby-1".into())
    );
    // Who came is the first in the tree, and slow from then on.
    assert_eq!(document["stragglers"][0], "standby-1");
    // Clocks and releases are the other tests': the straggler's clock is what its paths leave of it.
    for found in
        ["lost", "twice", "told", "books", "gap", "run", "stragglers", "gain", "noise", "subtree"]
    {
        assert!(!said.contains(&format!("{found}: ")), "{found}: {said}");
    }
    let applied = &document["plans"][0]["applied"];
    let p50 = |of: &str| applied[of]["p50_ns"].as_f64().unwrap_or(0.0);
    let all = ["before", "predicted", "after"].map(p50);
    assert!(all.iter().all(|p50| *p50 > 0.0), "{said}{document}");
    assert!(p50("after") < 0.85 * p50("before"), "{applied}");
}

#[test]
fn clocks_that_nobody_keeps_break_their_bound() {
    let Some((document, code, said)) = cloud("no-sync", &["--duration", "4s", "--no-sync"]) else {
        return;
    };
    assert_eq!(document["clock_bound_held"], false, "{document}");
    assert!(code == 1 && said.contains("UNFAIR"), "{said}");
}

#[test]
fn a_strategy_at_an_edge_of_a_fleet_trades_and_asks_for_the_same_once_more() {
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/strategy/tests/guests");
    let module = format!("{guests}/maker.wasm");
    let settings = ["--strategy-settings", "lots=1000 most=100000"];
    let args = [&["--duration", "5s", "--strategy", &module][..], &settings].concat();
    let Some((document, _, said)) = cloud("strategy", &args) else { return };
    exactly_once(&document);
    let (asked, log) = (&document["strategy"], &document["strategies"]);
    let of = |what: &serde_json::Value, key: &str| what[key].as_u64().expect("a number");
    assert_eq!((&asked["same"], &asked["stopped_now"]), (&true.into(), &().into()), "{asked}");
    assert!(of(asked, "messages") > 500 && of(asked, "reports") > 10, "{asked}");
    // What it asked for is in the log under its account, beside what the others asked for.
    assert!((10..=of(asked, "orders")).contains(&of(log, "accepted")), "{asked} {log}");
    assert_eq!(document["told"], document["logged"], "{document}");
    for found in ["strategy", "lost", "twice", "told", "books", "gap"] {
        assert!(!said.contains(&format!("main: {found}: ")), "{found}: {said}");
    }
}

#[test]
fn shards_whose_roots_die_lose_nothing() {
    let args = ["--roots", "1", "--times", "1", "--window", "3s", "--rate", "200", "--seed", "3"];
    let args = [&["cloud", "shards", "--json"][..], &args].concat();
    let Some((document, _, said)) = document("shards", &args) else { return };
    let shards = document["shards"].as_array().expect("shards");
    assert_eq!(shards.len(), 2, "{document}");
    for shard in shards {
        let of = |key: &str| shard[key].as_u64().expect("a number");
        assert!(of("requests_sent") > 500 && of("kills") == 1, "{shard}");
        assert_eq!(of("requests_sent"), of("requests_answered"), "{shard}");
        assert_eq!((of("requests_lost"), of("answered_twice")), (0, 0), "{shard}");
        assert!(shard["books_equal"] == true && of("books_compared") > 3, "{shard}");
        assert_eq!(shard["told"], shard["logged"], "{shard}");
        // Control: whose root was away for a second had no answers meanwhile.
        let own = shard["own_killed"]["killed_all_p99_ns"].as_u64().expect("a number");
        assert!(own > 500_000_000, "{shard}");
    }
    // Whether the others' answers took longer two windows don't say, on cores that all share.
    for found in ["lost", "twice", "told", "books", "run"] {
        assert!(!said.contains(&format!(": {found}: ")), "{found}: {said}");
    }
}

/// Runs a box in which edges come and go.
fn scaled(name: &str, args: &[&str]) -> Option<(serde_json::Value, i32, String)> {
    let usual = [
        "cloud",
        "scale",
        "--json",
        "--roots",
        "1",
        "--least",
        "1",
        "--most",
        "3",
        "--low",
        "60",
        "--high",
        "400",
        "--up-at",
        "150",
        "--down-at",
        "90",
        "--after",
        "1s",
        "--cool-down",
        "2s",
    ];
    document(name, &[&usual[..], args].concat())
}

#[test]
fn edges_come_with_the_load_and_go_with_it_and_nothing_is_lost() {
    let Some((document, _, said)) = scaled("scale", &["--peak", "14s", "--seed", "7"]) else {
        return;
    };
    exactly_once(&document);
    let of = |key: &str| document[key].as_u64().expect("a number");
    assert_eq!((of("edges_before"), of("edges_after")), (1, 1), "{said}");
    assert_eq!(of("edges_in_peak"), 3, "{said}");
    assert!(of("sessions_moved") >= 2, "{document}");
    assert_eq!(document["told"]["accepted"], document["logged"]["accepted"], "{document}");
    // How soon a session is served again says nothing on cores that all share: that it is.
    assert_eq!(document["reconnect_ns"]["count"], document["sessions_moved"], "{document}");
}

#[test]
fn edges_whose_machines_do_not_come_are_missed() {
    let args = ["--peak", "6s", "--seed", "8", "--control", "stuck"];
    let Some((document, code, said)) = scaled("scale-stuck", &args) else { return };
    assert_eq!((code, &document["edges_in_peak"]), (1, &serde_json::json!(1)), "{said}");
    assert!(said.contains("edges: 1 in the peak, no more than before"), "{said}");
    let started = document["started"].as_array().expect("a list");
    assert!(!started.is_empty(), "they were asked for: {document}");
}

#[test]
fn of_more_hosts_than_are_needed_the_slow_ones_are_given_back() {
    let args = [
        "cloud",
        "provision",
        "--json",
        "--hosts",
        "12",
        "--roots",
        "1",
        "--fanout",
        "2",
        "--edges",
        "4",
        "--standby",
        "0",
        "--slow",
        "3",
        "--probes",
        "100",
        "--duration",
        "4s",
        "--rate",
        "300",
        "--seed",
        "3",
    ];
    let Some((document, _, said)) = document("provision", &args) else { return };
    let len = |of: &serde_json::Value| of.as_array().expect("a list").len();
    let selected = &document["selected"];
    assert_eq!(
        (&selected["asked"], len(&selected["kept"]), len(&selected["released"])),
        (&12.into(), 7, 5)
    );
    assert_eq!((len(&document["slow"]), len(&document["slow_kept"])), (3, 0), "{said}");
    // Control: of the hosts as they came one is slow, and everybody waits for it.
    let slow = document["slow"].as_array().expect("a list").iter().filter_map(|name| name.as_str());
    let first = |name: &str| name.trim_start_matches("host-").parse::<u64>().is_ok_and(|n| n <= 7);
    assert!(slow.clone().any(first), "another seed: {document}");
    let p50 = |of: &str| document[of]["oml_arrival_ns"]["p50"].as_u64().expect("a number");
    assert!(p50("after") < p50("before"), "{said}");
    exactly_once(&document["after"]);
}

#[test]
fn what_makes_the_feed_fairer_is_switched_on_and_off_in_one_cloud() {
    let small = ["cloud", "fairness", "--json", "--hosts", "8", "--depth", "2", "--rate", "300"];
    let short = ["--seeds", "1", "--seed", "4", "--duration", "6s", "--warm-up", "3s"];
    let Some((document, _, said)) = document("fairness", &[&small[..], &short].concat()) else {
        return;
    };
    // Which turn is fairer a few seconds on busy cores don't say: that both are measured, and alike.
    let turns = document["turns"].as_array().expect("turns");
    assert_eq!(turns.len(), 2, "{said}");
    assert_eq!((&turns[0]["on"], &turns[1]["on"]), (&true.into(), &false.into()), "{said}");
    assert_eq!(turns[0]["window_ns"], turns[1]["window_ns"]);
    for turn in turns {
        exactly_once(turn);
        let of = |key: &str| turn[key].as_f64().expect("a number");
        assert!(of("messages") > 100.0 && of("window_ns") > 1_000.0, "{turn}");
        assert!((0.0..=100.0).contains(&of("fair_percent")), "{turn}");
        // Two hops over the relay take longer than its shortest delay, and a venue takes longer than they do.
        let [relay, venue] = ["relay_ns", "oml_arrival_ns"].map(|key| turn[key]["p50"].as_u64());
        assert!(relay > Some(20_000) && venue > relay, "{turn}");
    }
    assert!(document["floor_dws_ns"]["p50"].as_u64().is_some_and(|ns| ns > 0), "{document}");
}

#[test]
fn a_soak_strikes_one_fault_after_another_and_finds_the_answer_that_is_lost() {
    let args = ["cloud", "soak", "--json", "--for", "20s", "--warm-up", "5s", "--every", "4s"];
    let more = ["--rate", "300", "--look-every", "500ms", "--control", "lost"];
    let Some((document, code, said)) = document("soak", &[&args[..], &more].concat()) else {
        return;
    };
    let number = |key: &str| document[key].as_u64().unwrap_or(0);
    assert_eq!((code, number("requests_lost")), (1, 1), "the control: {said}");
    assert!(number("faults_struck") > 0 && number("requests_sent") > 1_000, "{document}");
    // A client that missed one counts one less: at its next login it may hear its last answer again.
    assert!(document["books_equal"] == true && number("answered_twice") <= 1, "{document}");
    // Roots and the machines of the first zone are never killed.
    let judged = document["memory"].as_array().expect("processes");
    let lived = |name: &str| judged.iter().any(|of| of["name"] == name);
    assert!(
        ["root-1", "root-2", "root-3", "proxy-1", "edge-1"].into_iter().all(lived),
        "{judged:?}"
    );
    assert!(
        judged.iter().all(|of| of["first_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20))
    );
}
