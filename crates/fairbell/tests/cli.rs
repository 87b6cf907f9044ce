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
        &["bench", "rtt", "--help"],
        &["log", "--help"],
        &["log", "dry-run", "--help"],
        &["explain", "--help"],
        &["statement", "--help"],
        &["check", "book", "--help"],
        &["--version"],
    ];
    for args in commands {
        let output = fairbell(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
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
