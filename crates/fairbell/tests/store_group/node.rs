//! A venue of processes on loopback: each root feeds a store of its own, also over a failover.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use host::fleet::messages::Operation;
use net::Clock;
use store::Query;

use super::Scratch;
use super::common::{Running, document, number};
use super::ports::free_ports;

const ROOTS: [&str; 3] = ["root-1", "root-2", "root-3"];
const EDGE: &str = "edge-1";
const VENUE: &str = "[overlay]\ndepth = 1\nfanout = 1\nreceivers = 1\nhedge = 0\n\
                     change_tree_at_percent = 0\n\n[engine]\nopen_orders_max = 1000\n\n\
                     [memory]\nrepair_mib = 1\n\n[journal]\ndurability = \"replicated\"\n\
                     segment_mib = 2\nsnapshot_every = 300\n\n[store]\nfollow = true\n\
                     poll_ms = 20\n\n[day]\nauctions = false\nhalt_instrument = 0\n\n\
                     [flow]\nsample = \"none\"\ngenerated_rate = 0\nparticipants = 1\n\n\
                     [[account]]\nname = \"nobody\"\nusername = \"FLOW01\"\npassword = \"flow\"\n\n\
                     [[account]]\nname = \"one\"\nusername = \"C001\"\npassword = \"secret\"\n";
const PATIENCE: Duration = Duration::from_secs(40);

struct Venue {
    scratch: Scratch,
    file: ClusterFile,
    running: Vec<(&'static str, Running)>,
}

impl Venue {
    fn new(name: &str) -> Venue {
        let scratch = Scratch::new(name);
        std::fs::write(scratch.at("venue.toml"), VENUE).expect("written");
        let node = |(name, port): (&str, u16)| {
            let role = if name == EDGE { NodeRole::Edge } else { NodeRole::Root };
            NodeEntry { port: Some(port), ..NodeEntry::new(name, "127.0.0.1", vec![role]) }
        };
        let names = ROOTS.into_iter().chain([EDGE]);
        let nodes = names.zip((free_ports(64)..).step_by(16)).map(node).collect();
        let path = scratch.at("cluster.toml");
        let file = ClusterFile::new(&path, "lab", Clock::start(0).now(), nodes);
        let file = file.expect("a cluster");
        std::fs::write(&path, file.text().expect("text")).expect("written");
        credentials::found(&file).expect("an authority");
        for name in ROOTS.into_iter().chain([EDGE, OPERATOR]) {
            credentials::issue(&file, name, 30).expect("keys");
        }
        Venue { scratch, file, running: Vec::new() }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.scratch.at(&format!("of-{name}"))
    }

    fn store(&self, name: &str) -> PathBuf {
        self.folder(name).join("out/store.db")
    }

    fn start(&mut self, name: &'static str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.args(["node", "--name", name, "--cluster"]).arg(self.scratch.at("cluster.toml"));
        command.arg("--dir").arg(self.folder(name)).stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push((name, Running(command.spawn().expect("the binary runs"))));
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

    /// What the roots say; whoever leads answers.
    fn status(&self) -> serde_json::Value {
        let own =
            Credentials::read(&self.file, &Credentials::folder(&self.file, OPERATOR), OPERATOR);
        let config = self.file.venue().expect("settings");
        let identity = Identity::new(&self.file, &config, own.expect("keys"), (OPERATOR, 0));
        identity.expect("an identity").operate(&Operation::Status, PATIENCE).expect("done").1
    }

    fn wait_for(&self, name: &str) {
        let since = Instant::now();
        loop {
            let status = self.status();
            let rows = status["nodes"].as_array().expect("rows");
            if rows.iter().any(|row| row["node"] == name && row["is"] == "up") {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{name} is not up: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Orders at the edge's door, for a while; each is answered.
    fn trade(&self, seed: &str) -> Output {
        let (_, edge) = self.file.node(EDGE).expect("there");
        let door = self.file.at(edge, Port::Ouch).expect("an address").to_string();
        let authority = self.file.authority_path().display().to_string();
        Command::new(env!("CARGO_BIN_EXE_fairbell"))
            .args(["load", "--protocol", "ouch", "--login", "C{nnn}:secret", "--clients", "1"])
            .args(["--address", &door, "--tls", "--ca", &authority, "--server-name", EDGE])
            .args(["--symbol", "BTCUSD", "--price", "78000", "--rate", "200", "--seed", seed])
            .args(["--duration", "3s", "--warmup", "1s", "--patience", "30s", "--json"])
            .output()
            .expect("the binary runs")
    }
}

#[test]
fn each_root_of_a_venue_feeds_a_store_over_a_failover() {
    let mut venue = Venue::new("store-node");
    ROOTS.into_iter().chain([EDGE]).for_each(|name| venue.start(name));
    venue.wait_for(EDGE);
    assert!(number(&document(&venue.trade("1")), "answered") > 300);
    // All that a store holds before is in it after, of every root.
    let held = |venue: &Venue, name: &str| {
        Query::open(&venue.store(name)).and_then(|query| query.freeze()).expect("a store").applied
    };
    let leader = venue.status()["leader"].as_u64().expect("a number") as usize - 1;
    let before = ROOTS.map(|name| held(&venue, name));
    assert!(before.iter().all(|inputs| *inputs > 100), "{before:?}");
    venue.kill(ROOTS[leader]);
    assert!(number(&document(&venue.trade("2")), "answered") > 300);
    assert!(held(&venue, ROOTS[leader]) >= before[leader], "it can be asked all the same");
    venue.start(ROOTS[leader]);
    venue.wait_for(ROOTS[leader]);
    let since = Instant::now();
    let level = || {
        let all = ROOTS.map(|name| held(&venue, name));
        all.iter().all(|one| *one == all[0] && *one > before[leader] + 300)
    };
    while !level() {
        assert!(since.elapsed() < PATIENCE, "{:?}", ROOTS.map(|name| held(&venue, name)));
        std::thread::sleep(Duration::from_millis(50));
    }
    venue.end();
    for name in ROOTS {
        let (rows, count) = super::differ(&venue.store(ROOTS[0]), &venue.store(name));
        assert!(rows > 300 && count == 0, "{name}: {count} of {rows} differ");
        let reconciled = Command::new(env!("CARGO_BIN_EXE_fairbell"))
            .args(["store", "reconcile", "--json", "--config"])
            .arg(venue.file.venue_path())
            .arg("--journal")
            .arg(venue.folder(name))
            .arg("--file")
            .arg(venue.store(name))
            .output()
            .expect("the binary runs");
        assert_eq!(number(&document(&reconciled), "differences"), 0, "{name}");
    }
}
