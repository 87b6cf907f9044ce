//! `fairbell plan` with agents on this machine: results, a dead agent, refusals before anything
//! starts. Lenient about time: other tests run beside it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXPERIMENT: &str = "\
[tree]\ndepth = 2\nfanout = 2\n\
[probes]\nrate = 300\nduration_ms = 300\nevaluation_ms = 400\nwarmup_ms = 50\ngather_ms = 3000\n\
[local]\nvms = 10\n\
[[runs]]\nname = \"BEST\"\nkind = \"BEST\"\nstrategy = \"p50 + 100 * loss\"\n\
[[runs]]\nname = \"LEMON\"\nkind = \"LEMON\"\ngoal = \"worst-leaf\"\n";

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn plan(folder: &Path, text: &str, options: &[&str]) -> Output {
    let file = folder.join("experiment.toml");
    std::fs::write(&file, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .args(["plan", file.to_str().unwrap(), "--out", folder.join("out").to_str().unwrap()])
        .args(options)
        .output()
        .unwrap()
}

#[test]
fn trees_are_built_and_evaluated_by_real_probes() {
    let folder = folder("plan-whole");
    let output = plan(&folder, EXPERIMENT, &["--json"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for run in 0..2 {
        let evaluation = &results["runs"][run]["evaluations"][0];
        assert_eq!(evaluation["leaves"].as_array().unwrap().len(), 4, "{results}");
        assert!(evaluation["messages"]["oml"]["received"].as_u64().unwrap() > 0, "{results}");
    }
    for name in ["results.json", "report.md", "report.html", "worst-leaves.svg", "oml.svg"] {
        assert!(folder.join("out").join(name).exists(), "{name}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_agent_killed_on_the_way_is_named_and_the_run_goes_on() {
    let folder = folder("plan-kill");
    let slow = EXPERIMENT.replace("duration_ms = 300", "duration_ms = 1500");
    let output = plan(&folder, &slow, &["--local", "10", "--kill", "0", "--after", "700ms"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("stopped answering: vm-00"), "{text}");
    assert!(text.contains("LEMON"), "{text}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_can_not_be_run_is_refused_in_one_line() {
    let folder = folder("plan-refused");
    for (from, to) in [
        ("vms = 10", "vms = 6"),
        ("p50 + 100 * loss", "system(1)"),
        ("rate = 300", "rate = 0"),
        ("kind = \"LEMON\"", "kind = \"SHELL\""),
        ("[tree]", "command = \"id\"\n[tree]"),
    ] {
        let output = plan(&folder, &EXPERIMENT.replacen(from, to, 1), &[]);
        assert_eq!(output.status.code(), Some(2), "{to}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1, "{to}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
