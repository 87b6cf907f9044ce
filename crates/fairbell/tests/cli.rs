//! The command as a process: exit codes, which stream carries what, one line for a mistake.

use std::process::{Command, Output};

fn fairbell(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairbell")).args(args).output().unwrap()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_string).collect()
}

#[test]
fn help_is_a_result() {
    let commands = [
        &["--help"][..],
        &["up", "--help"],
        &["log", "--help"],
        &["log", "dry-run", "--help"],
        &["explain", "--help"],
        &["statement", "--help"],
        &["check", "config", "--help"],
        &["fix", "dictionary", "--help"],
        &["--version"],
    ];
    for args in commands {
        let output = fairbell(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn help_that_nobody_reads_to_the_end_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
    let output = command.args(["feed", "serve", "--help"]).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(lines(&output.stderr), Vec::<String>::new());
}

#[test]
fn an_export_of_no_records_says_so() {
    let folder = std::env::temp_dir().join(format!("fairbell-none-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name).to_str().unwrap().to_string();
    let from = folder.to_str().unwrap();
    let output = fairbell(&["telemetry", "export", "--from", from, "--to", &at("tables")]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = lines(&output.stderr).pop().unwrap();
    assert!(said.contains(from) && said.contains("no files of records"), "{said}");
}

#[test]
fn fix_dictionaries_are_written_for_each_version() {
    let folder = std::env::temp_dir().join(format!("fairbell-spec-{}", std::process::id()));
    let out = folder.to_str().unwrap();
    let names = |output: &Output| -> Vec<String> {
        let bare = |line: String| line.rsplit('/').next().unwrap_or("").to_string();
        lines(&output.stdout).into_iter().map(bare).collect()
    };
    let all = fairbell(&["fix", "dictionary", "--out", out]);
    assert_eq!(names(&all), ["FIX42.xml", "FIX44.xml", "FIXT11.xml", "FIX50SP2.xml"]);
    let pair = fairbell(&["fix", "dictionary", "--version", "5.0SP2", "--out", out]);
    assert_eq!(names(&pair), ["FIXT11.xml", "FIX50SP2.xml"]);
    let versions = [("4.2", "FIX42"), ("4.4", "FIX44"), ("T1.1", "FIXT11"), ("5.0SP2", "FIX50SP2")];
    for (version, name) in versions {
        let printed = fairbell(&["fix", "dictionary", "--version", version]).stdout;
        assert_eq!(printed, std::fs::read(folder.join(format!("{name}.xml"))).unwrap(), "{name}");
        let text = String::from_utf8(printed).unwrap();
        let read = fix::dictionary::Dictionary::from_xml(&text).unwrap();
        assert_eq!(read.name.replace('.', ""), name);
    }
    assert_eq!(fairbell(&["fix", "dictionary"]).status.code(), Some(2));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_venue_that_is_refused_leaves_nothing_and_the_help_says_which_are_taken() {
    let folder = std::env::temp_dir().join(format!("fairbell-init-{}", std::process::id()));
    let out = folder.join("new/cluster");
    let init = |roots: usize| {
        let (roots, out) = (roots.to_string(), out.to_str().unwrap());
        let words = ["cluster", "init", "--name", "x", "--edges", "1", "--standby", "0"];
        fairbell(&[&words[..], &["--depth", "1", "--roots", &roots, "--out", out]].concat())
    };
    let help = lines(&fairbell(&["cluster", "init", "--help"]).stdout).join("\n");
    assert!(help.contains("1, 3, 5, 7 or 9"), "{help}");
    for roots in 0..=10 {
        let output = init(roots);
        let taken = [1, 3, 5, 7, 9].contains(&roots);
        assert_eq!(output.status.code(), Some(if taken { 0 } else { 2 }), "{roots}: {output:?}");
        assert_eq!(folder.exists(), taken, "{roots}");
        let _ = std::fs::remove_dir_all(&folder);
    }
    // What was there before is there after.
    std::fs::create_dir_all(&out).unwrap();
    assert_eq!(init(2).status.code(), Some(2));
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
    std::fs::write(out.join("venue.toml"), "# mine\n").unwrap();
    assert_eq!(init(2).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(out.join("venue.toml")).unwrap(), "# mine\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn who_stops_reading_sees_no_panic() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let command = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .args(["fix", "dictionary", "--version", "4.2"])
        .stdout(writer)
        .output();
    let output = command.unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(lines(&output.stderr), [""; 0]);
}

#[test]
fn a_bad_option_is_one_line_and_two() {
    for args in [&["up", "--rate", "x"][..], &["up", "--fanout", "0"], &["fly"], &[]] {
        let output = fairbell(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert_eq!(lines(&output.stderr).len(), 1, "{args:?}");
    }
}

#[test]
fn a_bad_configuration_names_file_line_and_key() {
    let path = std::env::temp_dir().join(format!("fairbell-bad-{}.toml", std::process::id()));
    std::fs::write(&path, "# comment\n[overlay]\nfanout = 0\n").unwrap();
    let output = fairbell(&["up", "--config", path.to_str().unwrap()]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("fairbell: {}:3: overlay.fanout: must be 1..=64, is 0", path.display());
    assert_eq!(lines(&output.stderr), [expected]);
    let output = fairbell(&["up", "--config", "no-such-file.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(lines(&output.stderr)[0].contains("no-such-file.toml: cannot be read"));
}
