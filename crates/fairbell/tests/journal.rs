//! An exchange whose log is on disk: what it wrote is what it did, and after a kill it goes on.

mod common;

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
        let dir = path.join("journal");
        let text = format!(
            "[doors]\nplain = true\n[journal]\ndurability = \"local\"\ndir = \"{}\"\n",
            dir.display()
        );
        std::fs::write(path.join("local.toml"), text).expect("a file");
        Scratch(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fairbell(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        command
    }

    fn up(&self, args: &[&str]) -> Command {
        let mut command = self.fairbell();
        let common = ["up", "--json", "--quiet", "--rate", "2000", "--port-base", "0"];
        command.args(common).arg("--config").arg(self.at("local.toml"));
        command.arg("--out").arg(self.at("out")).args(args);
        command
    }

    fn journal(&self, what: &str, more: &[&Path]) -> Output {
        let mut command = self.fairbell();
        command.arg("journal").arg(what).arg(self.at("journal"));
        command.args(more).output().expect("the binary runs")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_journal_holds_the_log_and_the_next_start_goes_on_with_it() {
    let scratch = Scratch::new("journal-run");
    let run = document(&scratch.up(&["--duration", "1s"]).output().expect("the binary runs"));
    assert_eq!(run["books_equal"], Value::Bool(true));
    assert_eq!(number(&run, "orders_lost") + number(&run, "duplicates"), 0);
    let json = Path::new("--json");
    let verified = document(&scratch.journal("verify", &[json]));
    let last = number(&verified, "last");
    assert_eq!(number(&verified, "committed"), last);
    // Exactly the log that the run left behind.
    let exported = scratch.at("exported.log");
    let export = scratch.journal("export", &[Path::new("--out"), &exported]);
    assert_eq!(export.status.code(), Some(0), "{}", String::from_utf8_lossy(&export.stderr));
    let log = std::fs::read(scratch.at("out/exchange.log")).expect("a log");
    assert!(std::fs::read(&exported).expect("a log") == log, "the exported log differs");
    let replayed = document(&scratch.journal("replay", &[json]));
    assert_eq!(number(&replayed, "applied"), last - 1);
    let mut again = scratch.fairbell();
    let again = again.args(["log", "replay", "--json"]).arg(scratch.at("out/exchange.log"));
    let again = document(&again.output().expect("the binary runs"));
    assert_eq!(replayed["state_digest"], again["state_digest"]);
    assert_eq!(replayed["feed_digest"], again["feed_digest"]);
    // The next start has all of it, and more at its end.
    let next = document(&scratch.up(&["--once"]).output().expect("the binary runs"));
    assert!(number(&next, "feed_messages") >= number(&replayed, "feed_messages"));
    let verified = document(&scratch.journal("verify", &[json]));
    assert!(number(&verified, "last") > last);
    // What is whole is not mended.
    let refused = scratch.journal("mend", &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && stderr.contains("is whole"), "{stderr}");
    // A flipped bit is found, and nothing starts on it.
    let segment = scratch.at("journal/log-0000000000000001");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    bytes[9_000] ^= 4;
    std::fs::write(&segment, bytes).expect("written");
    for refused in
        [scratch.journal("verify", &[]), scratch.up(&["--once"]).output().expect("the binary runs")]
    {
        assert_eq!(refused.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(stderr.contains("log-0000000000000001, offset 8192"), "{stderr}");
    }
    // Nobody else has it, so it can't be mended.
    let refused = scratch.journal("mend", &[]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && stderr.contains("nobody else"), "{stderr}");
}

/// Whatever is taken out of the folder `verify` finds, in the start's words, and says what to do.
#[test]
fn what_a_start_would_refuse_is_found_by_who_only_looks() {
    let scratch = Scratch::new("journal-missing");
    let config = scratch.at("local.toml");
    let text = std::fs::read_to_string(&config).expect("a file");
    std::fs::write(&config, text + "segment_mib = 2\n").expect("a file");
    document(&scratch.up(&["--duration", "5s"]).output().expect("the binary runs"));
    let names = std::fs::read_dir(scratch.at("journal")).expect("a folder").flatten();
    let mut segments: Vec<String> =
        names.filter_map(|e| e.file_name().into_string().ok()).collect();
    segments.retain(|name| name.starts_with("log-"));
    segments.sort_unstable();
    assert!(segments.len() > 2, "{segments:?}");
    let complaint = |output: &Output, what: &str| {
        assert_eq!(output.status.code(), Some(1), "{what}");
        String::from_utf8_lossy(&output.stderr).trim().to_string()
    };
    let (first, last) = (segments[0].clone(), segments[segments.len() - 1].clone());
    for name in [first.as_str(), segments[1].as_str(), last.as_str(), "vote", "mark"] {
        let (there, away) = (scratch.at("journal").join(name), scratch.at("away"));
        std::fs::rename(&there, &away).expect("moved");
        let looked = complaint(&scratch.journal("verify", &[]), name);
        let start = scratch.up(&["--once"]).output().expect("the binary runs");
        assert_eq!(looked, complaint(&start, name), "{name}");
        let named = if name == first { segments[1].as_str() } else { name };
        assert!(looked.contains(named) && !looked.contains("open it again"), "{looked}");
        std::fs::rename(&away, &there).expect("moved");
    }
    assert!(scratch.journal("verify", &[]).status.success());
    // The vote of an exchange that stands alone holds nothing, and is made again.
    std::fs::remove_file(scratch.at("journal/vote")).expect("removed");
    let looked = complaint(&scratch.journal("verify", &[]), "vote");
    assert!(looked.contains("`fairbell journal mend` makes the file again"), "{looked}");
    assert!(scratch.journal("mend", &[]).status.success());
    assert!(scratch.journal("verify", &[]).status.success());
    readable_only(&scratch, &last);
}

/// A user who may not write the folder looks, and hears that a start would be refused.
fn readable_only(scratch: &Scratch, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = scratch.at("journal");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode(&scratch.0, 0o755);
    mode(&dir, 0o755);
    for entry in std::fs::read_dir(&dir).expect("a folder").flatten() {
        mode(&entry.path(), 0o644);
    }
    // Root may write anything, so somebody else looks; a copy of the binary that anybody can reach.
    let binary = scratch.at("fairbell");
    std::fs::copy(env!("CARGO_BIN_EXE_fairbell"), &binary).expect("copied");
    let mut command = Command::new(&binary);
    command.arg("journal").arg("verify").arg(&dir).current_dir(&scratch.0);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    } else {
        mode(&dir.join(name), 0o444);
    }
    let output = command.output().expect("the binary runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for word in ["records are whole", "a start here is refused", "Permission denied", "belong to"] {
        assert!(stderr.contains(word), "{word}: {stderr}");
    }
}

#[test]
fn after_a_kill_the_exchange_goes_on() {
    let scratch = Scratch::new("journal-kill");
    let mut command = scratch.up(&["--duration", "60s"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = Running(child.expect("the binary runs"));
    let (json, began) = (Path::new("--json"), Instant::now());
    // Until some thousand inputs are there.
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let look = scratch.journal("inspect", &[json]);
        let found = serde_json::from_slice::<Value>(&look.stdout).unwrap_or(Value::Null);
        if found["committed"].as_u64().is_some_and(|committed| committed > 3_000) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no orders: {found}");
    }
    // No farewell: SIGKILL.
    child.0.kill().expect("killed");
    child.0.wait().expect("gone");
    let before = document(&scratch.journal("verify", &[json]));
    assert!(number(&before, "last") > 3_000);
    let next = document(&scratch.up(&["--once"]).output().expect("the binary runs"));
    assert_eq!(next["books_equal"], Value::Bool(true), "{}", next["complaints"]);
    let after = document(&scratch.journal("verify", &[json]));
    assert!(number(&after, "last") > number(&before, "last"));
    assert_eq!((&after["tail"], number(&after, "damaged_copies")), (&Value::Null, 0));
}
