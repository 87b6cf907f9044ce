//! The program with three replicas and a store that follows.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use store::Query;

use super::Scratch;
use super::common::{Running, document, number};

fn command(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
    command.args(args).arg("--json").arg("--config").arg(scratch.at("group.toml"));
    command
}

fn fairbell(scratch: &Scratch, args: &[&str]) -> Output {
    command(scratch, args).output().expect("the binary runs")
}

fn configured(name: &str, journal: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let text = format!(
        "[doors]\nplain = true\n[overlay]\ndepth = 2\nfanout = 2\nreceivers = 2\n\
         change_tree_at_percent = 0\n[journal]\ndurability = \"replicated\"\ndir = \"{}\"\n{journal}\
         [store]\nfollow = true\nfile = \"{}\"\npoll_ms = 20\n\
         [flow]\nsample = \"none\"\nrate = 60\ngenerated_rate = 60\n",
        scratch.at("journal").display(),
        scratch.at("store.db").display()
    );
    std::fs::write(scratch.at("group.toml"), text).expect("a file");
    scratch
}

fn up(scratch: &Scratch, duration: &str) -> Output {
    let out = scratch.at("out").display().to_string();
    fairbell(scratch, &["up", "--quiet", "--port-base", "0", "--duration", duration, "--out", &out])
}

/// The store has every input of the run, and reconciles.
fn holds_all(scratch: &Scratch, run: &Value) {
    let replicas = run["replication"]["replicas"].as_array().expect("a list");
    let store = &run["store"];
    assert_eq!(number(store, "inputs"), number(&replicas[0], "inputs"), "{store:#}");
    assert!(number(store, "orders") > 100 && number(store, "behind") == 0, "{store:#}");
    let reconciled = document(&fairbell(scratch, &["store", "reconcile"]));
    assert_eq!(number(&reconciled, "differences"), 0, "{reconciled:#}");
}

#[test]
fn a_run_with_three_replicas_is_in_the_store() {
    let scratch = configured("store-group-run", "snapshot_every = 150\nsegment_mib = 2\n");
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| document(&up(&scratch, "5s")));
        // A process of its own beside it, on one replica's folder; killed in the middle, and gone on.
        let (folder, own) = (scratch.at("journal/replica-3"), scratch.at("own.db"));
        let (folder, own) = (folder.display().to_string(), own.display().to_string());
        let args = ["store", "follow", "--journal", &folder, "--file", &own];
        let mut beside = command(&scratch, &args);
        let beside = beside.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let beside = Running(beside.expect("the binary runs"));
        let holds = || Query::open(Path::new(&own)).and_then(|query| query.freeze());
        let some = (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            holds().is_ok_and(|held| held.applied > 10)
        });
        assert!(some, "it was fed with too little");
        drop(beside);
        let once = [&args[..], &["--once"]].concat();
        let beside = document(&fairbell(&scratch, &once));
        assert!(number(&beside, "inputs") > 10, "{beside:#}");
        run.join().expect("no panic")
    });
    holds_all(&scratch, &run);
    // The next run goes on with it.
    let next = document(&up(&scratch, "1s"));
    holds_all(&scratch, &next);
    // Another file, from one replica's folder and from all, is the same.
    for (number, folder) in ["journal/replica-2", "journal"].iter().enumerate() {
        let (folder, file) = (scratch.at(folder), scratch.at(&format!("again-{number}.db")));
        let places = [folder.display().to_string(), file.display().to_string()];
        let args = ["store", "rebuild", "--journal", &places[0], "--file", &places[1]];
        document(&fairbell(&scratch, &args));
        let (rows, count) = super::differ(&scratch.at("store.db"), &file);
        assert!(rows > 100 && count == 0, "{}: {count} of {rows} differ", folder.display());
    }
}

/// The replica whose folder feeds the store is replaced in mid-flow.
#[test]
fn the_store_goes_on_with_another_replica() {
    let scratch = configured("store-group-turn", "reserve = 1\n");
    let socket = scratch.at("out/admin.sock").display().to_string();
    let ask = |args: &[&str]| {
        let common = ["admin", "--json", "--as", "alice", "--socket", &socket, "replicas"];
        let output = Command::new(env!("CARGO_BIN_EXE_fairbell"))
            .args(common)
            .args(args)
            .output()
            .expect("the binary runs");
        output.status.success()
    };
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| document(&up(&scratch, "9s")));
        let answers = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            ask(&["list"])
        });
        assert!(answers, "nobody leads");
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(ask(&["replace", "1", "--by", "4"]));
        run.join().expect("no panic")
    });
    let turned = run["store"]["turned"].as_array().expect("a list");
    assert!(!turned.is_empty(), "{}", run["store"]);
    assert_eq!(number(&run, "orders_sent"), number(&run, "orders_acknowledged"));
    holds_all(&scratch, &run);
}
