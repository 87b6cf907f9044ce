//! A venue of processes on loopback with a learner: a machine that keeps the roots' log without a vote.

#[path = "common/mod.rs"]
mod common;
#[path = "../../host/tests/common/ports.rs"]
mod ports;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::failure::Failure;
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use host::fleet::messages::Operation;
use net::Clock;
use serde_json::Value;
use store::Query;

use common::{Running, document, number};
use ports::free_ports;

const LEARNER: &str = "learner-1";
const EDGE: &str = "edge-1";
const NAMES: [(&str, NodeRole); 5] = [
    ("root-1", NodeRole::Root),
    ("root-2", NodeRole::Root),
    ("root-3", NodeRole::Root),
    (EDGE, NodeRole::Edge),
    (LEARNER, NodeRole::Learner),
];
/// Its number among the replicas.
const NUMBER: usize = 4;
const VENUE: &str = "[overlay]\ndepth = 1\nfanout = 1\nreceivers = 1\nhedge = 0\n\
                     change_tree_at_percent = 0\n\n[engine]\nopen_orders_max = 1000\n\n\
                     [memory]\nrepair_mib = 1\n\n[journal]\ndurability = \"replicated\"\n\
                     segment_mib = 2\nsnapshot_every = 300\n\n[store]\nfollow = true\n\
                     poll_ms = 20\n\n[day]\nauctions = false\nhalt_instrument = 0\n\n\
                     [flow]\nsample = \"none\"\ngenerated_rate = 0\nparticipants = 1\n\n\
                     [[account]]\nname = \"nobody\"\nusername = \"FLOW01\"\npassword = \"flow\"\n\n\
                     [[account]]\nname = \"one\"\nusername = \"C001\"\npassword = \"secret\"\n";
const PATIENCE: Duration = Duration::from_secs(40);
/// Records that a learner may be behind and count as having the log.
const NEAR: u64 = 16;

/// A folder for one test; gone with it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Venue {
    running: Vec<(&'static str, Running)>,
    file: ClusterFile,
    scratch: Scratch,
}

impl Venue {
    fn new(name: &str) -> Venue {
        let name = format!("fairbell-learner-{name}-{}", std::process::id());
        let scratch = Scratch(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&scratch.0);
        std::fs::create_dir_all(&scratch.0).expect("a folder");
        std::fs::write(scratch.0.join("venue.toml"), VENUE).expect("written");
        let node = |((name, role), port): ((&str, NodeRole), u16)| NodeEntry {
            port: Some(port),
            ..NodeEntry::new(name, "127.0.0.1", vec![role])
        };
        let nodes = NAMES.into_iter().zip((free_ports(80)..).step_by(16)).map(node).collect();
        let path = scratch.0.join("cluster.toml");
        let file = ClusterFile::new(&path, "lab", Clock::start(0).now(), nodes);
        let file = file.expect("a cluster");
        std::fs::write(&path, file.text().expect("text")).expect("written");
        credentials::found(&file).expect("an authority");
        for name in NAMES.into_iter().map(|(name, _)| name).chain([OPERATOR]) {
            credentials::issue(&file, name, 30).expect("keys");
        }
        Venue { running: Vec::new(), file, scratch }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.0.join(format!("of-{name}"))
    }

    /// `fairbell node` of a machine, with a cluster file of that name.
    fn node(&self, name: &str, file: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.args(["node", "--name", name, "--cluster"]).arg(self.scratch.0.join(file));
        command.arg("--dir").arg(self.folder(name)).stdout(Stdio::null());
        command
    }

    fn start(&mut self, name: &'static str) {
        let child = self.node(name, "cluster.toml").stderr(Stdio::null()).spawn();
        self.running.push((name, Running(child.expect("the binary runs"))));
    }

    /// Runs a machine that ends by itself: its exit code and what it said.
    fn refused(&self, name: &str, file: &str) -> (Option<i32>, String) {
        let child = self.node(name, file).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let mut running = Running(child);
        let since = Instant::now();
        let code = loop {
            if let Some(status) = running.0.try_wait().expect("ours") {
                break status.code();
            }
            assert!(since.elapsed() < PATIENCE, "{name} goes on");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        let mut stderr = running.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
        (code, said)
    }

    /// Kills a machine's process as `kill -9` does.
    fn kill(&mut self, name: &str) {
        self.running.retain(|(running, _)| *running != name);
    }

    /// Asks all to end, and waits until they have.
    fn end(&mut self) {
        for (_, Running(child)) in &mut self.running {
            let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).expect("a process");
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        }
        let since = Instant::now();
        for (name, Running(child)) in &mut self.running {
            while child.try_wait().expect("ours").is_none() {
                assert!(since.elapsed() < PATIENCE, "{name} goes on");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.running.clear();
    }

    fn operate(&self, operation: &Operation, patience: Duration) -> Result<Value, Failure> {
        let folder = Credentials::folder(&self.file, OPERATOR);
        let own = Credentials::read(&self.file, &folder, OPERATOR).expect("keys");
        let config = self.file.venue().expect("settings");
        let identity = Identity::new(&self.file, &config, own, (OPERATOR, 0));
        identity.expect("an identity").operate(operation, patience).map(|(_, data)| data)
    }

    fn status(&self) -> Value {
        self.operate(&Operation::Status, PATIENCE).expect("somebody leads")
    }

    /// Waits until what the roots say is as wanted.
    fn wait(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status();
            if is(&status) {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "not {what}: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn wait_up(&self, name: &str) {
        let of = |status: &Value, name: &str| {
            let rows = status["nodes"].as_array().expect("rows").iter();
            rows.clone().any(|row| row["node"] == name && row["is"] == "up")
        };
        self.wait(&format!("{name} up"), |status| of(status, name));
    }

    /// Waits until the learner has the log, and is what it is to be.
    fn wait_learner(&self, is: &str) {
        self.wait(&format!("a learner that {is} and has the log"), |status| {
            let row = &status["replicas"][NUMBER - 1];
            row["is"] == is && row["behind"].as_u64().is_some_and(|behind| behind <= NEAR)
        });
    }

    fn leader(&self) -> usize {
        number(&self.status(), "leader") as usize
    }

    /// Orders at the edge's door, for a while; each is answered.
    fn trade(&self, seed: &str) {
        let (_, edge) = self.file.node(EDGE).expect("there");
        let door = self.file.at(edge, Port::Ouch).expect("an address").to_string();
        let authority = self.file.authority_path().display().to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_fairbell"))
            .args(["load", "--protocol", "ouch", "--login", "C{nnn}:secret", "--clients", "1"])
            .args(["--address", &door, "--tls", "--ca", &authority, "--server-name", EDGE])
            .args(["--symbol", "BTCUSD", "--price", "78000", "--rate", "300", "--seed", seed])
            .args(["--duration", "3s", "--warmup", "1s", "--patience", "30s", "--json"])
            .output()
            .expect("the binary runs");
        assert!(number(&document(&output), "answered") > 500);
    }

    /// `fairbell admin replicas` at the root that leads, again when that has changed meanwhile.
    fn replicas(&self, args: &[&str]) {
        let since = Instant::now();
        loop {
            let (_, leader) = self.file.replicated().nth(self.leader() - 1).expect("a replica");
            let done = Command::new(env!("CARGO_BIN_EXE_fairbell"))
                .args(["admin", "--socket"])
                .arg(self.folder(&leader.name).join("admin.sock"))
                .arg("replicas")
                .args(args)
                .output()
                .expect("the binary runs");
            if done.status.success() {
                return;
            }
            let why = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(since.elapsed() < PATIENCE, "{args:?}: {why}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn held(&self, name: &str) -> u64 {
        let store = self.folder(name).join("out/store.db");
        Query::open(&store).and_then(|query| query.freeze()).map_or(0, |held| held.applied)
    }

    /// First and last position of the log on a machine's disk.
    fn positions(&self, name: &str) -> (u64, u64) {
        let output = Command::new(env!("CARGO_BIN_EXE_fairbell"))
            .args(["journal", "inspect", "--json"])
            .arg(self.folder(name).join("journal"))
            .output()
            .expect("the binary runs");
        let of = document(&output);
        (number(&of, "first"), number(&of, "last"))
    }

    /// State and inputs of the log on a machine's disk.
    fn replayed(&self, name: &str) -> (String, u64) {
        let output = Command::new(env!("CARGO_BIN_EXE_fairbell"))
            .args(["journal", "replay", "--json", "--config"])
            .arg(self.file.venue_path())
            .arg(self.folder(name).join("journal"))
            .output()
            .expect("the binary runs");
        let of = document(&output);
        (of["state_digest"].to_string(), number(&of, "applied"))
    }
}

#[test]
fn a_learner_follows_the_log_never_makes_a_majority_and_may_be_made_to_vote() {
    let mut venue = Venue::new("life");
    for (name, _) in NAMES.into_iter().filter(|(name, _)| *name != LEARNER) {
        venue.start(name);
    }
    venue.wait_up(EDGE);
    venue.trade("1");
    venue.start(LEARNER);
    venue.wait_learner("listens");
    venue.wait_up(LEARNER);
    venue.trade("2");
    venue.wait_learner("listens");
    let since = Instant::now();
    while venue.held(LEARNER) < venue.held("root-1") || venue.held("root-1") < 1_000 {
        assert!(since.elapsed() < PATIENCE, "the learner's store stays behind");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Its loss stops nobody, and it comes back although others have given up the log that it lacks.
    venue.kill(LEARNER);
    let (has, since) = (venue.positions(LEARNER).1, Instant::now());
    while venue.positions("root-1").0 <= has + 1 {
        assert!(since.elapsed() < PATIENCE, "the others keep all inputs after its {has}");
        venue.trade("3");
    }
    venue.start(LEARNER);
    venue.wait_learner("listens");

    // Two of three roots are dead: with the learner it would be two of four.
    let leader = venue.leader();
    let dead: Vec<&str> = (1..=3).filter(|of| *of != leader).map(|of| NAMES[of - 1].0).collect();
    dead.iter().for_each(|name| venue.kill(name));
    // A leader that hears of too few steps down within two elections.
    std::thread::sleep(Duration::from_secs(2));
    let why = venue.operate(&Operation::Status, Duration::from_secs(3)).expect_err("no majority");
    assert!(why.to_string().contains("no root"), "{why}");
    for (name, _) in NAMES.into_iter().filter(|(name, _)| dead.contains(name)) {
        venue.start(name);
    }
    venue.wait_learner("listens");
    venue.trade("6");

    // No operator has it lead while it does not vote.
    let lead = Operation::Lead { node: LEARNER.to_string() };
    assert!(venue.operate(&lead, PATIENCE).is_err());
    venue.replicas(&["add", "4"]);
    let since = Instant::now();
    // Another election may come between, where cores are shared.
    while venue.operate(&lead, PATIENCE).map_or(Value::Null, |data| data["leader"].clone()) != 4 {
        assert!(since.elapsed() < PATIENCE, "it does not lead although it votes");
    }
    venue.trade("7");
    // One root less: three are left, of which one may fail.
    venue.replicas(&["remove", "1"]);
    venue.kill("root-1");
    venue.kill("root-2");
    venue.trade("8");
    venue.start("root-2");
    venue.wait("root-2 level", |status| {
        status["replicas"][1]["behind"].as_u64().is_some_and(|behind| behind <= NEAR)
    });
    std::thread::sleep(Duration::from_millis(500));
    venue.end();
    let logs: Vec<_> = ["root-2", "root-3", LEARNER].map(|name| venue.replayed(name)).into();
    assert!(logs[0].1 > 4_000 && logs.iter().all(|log| *log == logs[0]), "{logs:?}");
}

#[test]
fn a_learner_of_other_settings_with_another_role_or_revoked_is_let_in_nowhere() {
    let mut venue = Venue::new("strange");
    for (name, _) in NAMES {
        venue.start(name);
    }
    venue.wait_up(EDGE);
    venue.wait_learner("listens");
    // Revoked: its process ends, the log goes on without it, and another certificate lets it in.
    let node = || LEARNER.to_string();
    let revoke = Operation::Revoke { node: node(), generation: 1 };
    venue.operate(&revoke, PATIENCE).expect("revoked");
    let since = Instant::now();
    let (_, Running(child)) =
        venue.running.iter_mut().find(|(name, _)| *name == LEARNER).expect("started");
    let code = loop {
        if let Some(status) = child.try_wait().expect("ours") {
            break status.code();
        }
        assert!(since.elapsed() < PATIENCE, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(4));
    venue.kill(LEARNER);
    let before = venue.replayed(LEARNER);
    venue.trade("1");
    let (code, said) = venue.refused(LEARNER, "cluster.toml");
    assert!(code == Some(4) && said.contains("revoked"), "{said}");
    assert_eq!(venue.replayed(LEARNER), before, "nobody tells it anything");
    let lag = venue.status()["replicas"][NUMBER - 1]["behind"].as_u64();
    assert!(lag.is_some_and(|lag| lag > 500), "{lag:?}");

    // Whoever calls itself a voter has another file, and no certificate of such a replica.
    let mut other = venue.file.clone();
    other.nodes[2].roles = vec![NodeRole::Learner];
    other.nodes[4].roles = vec![NodeRole::Root];
    let path = venue.scratch.0.join("voter.toml");
    std::fs::write(&path, other.text().expect("text")).expect("written");
    let (code, said) = venue.refused(LEARNER, "voter.toml");
    assert!(matches!(code, Some(1 | 2 | 4)), "{code:?} {said}");
    assert!(said.contains("replica-3") || said.contains("refuses"), "{said}");
    credentials::issue(&venue.file, LEARNER, 30).expect("another certificate");
    std::fs::write(venue.scratch.0.join("settings.toml"), format!("{VENUE}\n[hold]\ncap_ms = 7\n"))
        .expect("written");
    let text = venue.file.text().expect("text").replace("venue.toml", "settings.toml");
    std::fs::write(venue.scratch.0.join("other.toml"), text).expect("written");
    let (code, said) = venue.refused(LEARNER, "other.toml");
    assert!(code == Some(4) && said.contains("compare"), "{said}");

    // Control: with the right file and an unrevoked certificate it has all of it.
    venue.start(LEARNER);
    venue.wait_learner("listens");
    // An older copy of its folder is found out, and gets again what it lacks.
    venue.kill(LEARNER);
    let (own, copy) = (venue.folder(LEARNER), venue.scratch.0.join("copy"));
    let copied = Command::new("cp").args(["-r"]).arg(&own).arg(&copy).status();
    assert!(copied.expect("cp").success());
    venue.start(LEARNER);
    venue.trade("2");
    venue.wait_learner("listens");
    venue.kill(LEARNER);
    std::fs::remove_dir_all(&own).expect("removed");
    let copied = Command::new("cp").args(["-r"]).arg(&copy).arg(&own).status();
    assert!(copied.expect("cp").success());
    venue.start(LEARNER);
    // What the leader knew of it before says nothing now.
    let (since, due) = (Instant::now(), venue.positions("root-2").1);
    while venue.positions(LEARNER).1 < due {
        assert!(since.elapsed() < PATIENCE, "it stays an older copy");
        std::thread::sleep(Duration::from_millis(100));
    }
    venue.wait_learner("listens");
    std::thread::sleep(Duration::from_millis(500));
    venue.end();
    assert_eq!(venue.replayed(LEARNER), venue.replayed("root-2"));
}
