//! A venue of processes on loopback, wholly over IPv6 and with both versions of IP in one venue: it
//! trades while the root that leads is killed, and tells its feed.

mod common;
#[path = "../../host/tests/common/ports.rs"]
mod ports;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Running, document, number};
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use host::fleet::messages::Operation;
use host::subscriber::Session;
use net::Clock;
use ports::free_ports;
use serde_json::Value;
use wire::subscription::Way;

const VENUE: &str = "[overlay]\ndepth = 2\nfanout = 2\nreceivers = 2\nhedge = 0\n\n[engine]\n\
                     open_orders_max = 1000\n\n[memory]\nrepair_mib = 1\n\n[journal]\n\
                     durability = \"replicated\"\nsegment_mib = 2\n\n[day]\nauctions = false\n\
                     halt_instrument = 0\n\n[flow]\nsample = \"none\"\ngenerated_rate = 0\n\
                     participants = 1\n\n[[account]]\nname = \"nobody\"\nusername = \"FLOW01\"\n\
                     password = \"flow\"\n\n[[account]]\nname = \"one\"\nusername = \"C001\"\n\
                     password = \"secret\"\n\n[[account]]\nname = \"two\"\nusername = \"C002\"\n\
                     password = \"secret\"\n";
const PATIENCE: Duration = Duration::from_secs(40);
const V4: &str = "127.0.0.1";
const V6: &str = "::1";

struct Venue {
    dir: PathBuf,
    file: ClusterFile,
    running: Vec<(String, Running)>,
}

impl Venue {
    /// Three roots, a proxy and two edges, each where it is said to be, and perhaps by a second address.
    fn new(name: &str, inner: (&str, Option<&str>), edges: [&str; 2]) -> Venue {
        let dir = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a folder");
        std::fs::write(dir.join("venue.toml"), VENUE).expect("written");
        let node = |name: &str, role| NodeEntry {
            also: inner.1.map(str::to_string),
            ..NodeEntry::new(name, inner.0, vec![role])
        };
        let edge =
            |name: &str, at| NodeEntry::new(name, at, vec![NodeRole::Edge, NodeRole::Snapshot]);
        let mut nodes = vec![
            node("root-1", NodeRole::Root),
            node("root-2", NodeRole::Root),
            node("root-3", NodeRole::Root),
            node("proxy-1", NodeRole::Proxy),
            edge("edge-1", edges[0]),
            edge("edge-2", edges[1]),
        ];
        for (node, port) in nodes.iter_mut().zip((free_ports(128)..).step_by(16)) {
            node.port = Some(port);
        }
        // The loopback interface has no route to groups of IPv6.
        if edges[0] == V4 {
            nodes[4].groups = vec!["239.7.7.9:17113".parse().expect("a group")];
        }
        let path = dir.join("cluster.toml");
        let file = ClusterFile::new(&path, "lab", Clock::start(0).now(), nodes);
        let file = file.expect("a cluster");
        std::fs::write(&path, file.text().expect("text")).expect("written");
        credentials::found(&file).expect("an authority");
        for name in file.nodes.iter().map(|node| &node.name[..]).chain([OPERATOR]) {
            credentials::issue(&file, name, 30).expect("keys");
        }
        Venue { dir, file, running: Vec::new() }
    }

    fn fairbell(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.args(args);
        command
    }

    fn start_all(&mut self) {
        for name in self.file.nodes.iter().map(|node| node.name.clone()) {
            let mut command = self.fairbell(&["node", "--name", &name, "--cluster"]);
            command.arg(self.dir.join("cluster.toml")).arg("--dir").arg(self.dir.join(&name));
            let log = std::fs::File::create(self.dir.join(format!("{name}.log"))).expect("a file");
            let child = command.stdout(Stdio::null()).stderr(log).spawn();
            self.running.push((name, Running(child.expect("the binary runs"))));
        }
        for name in ["edge-1", "edge-2"] {
            self.wait_for(name);
        }
    }

    fn status(&self) -> Value {
        let own =
            Credentials::read(&self.file, &Credentials::folder(&self.file, OPERATOR), OPERATOR);
        let config = self.file.venue().expect("settings");
        let identity = Identity::new(&self.file, &config, own.expect("keys"), (OPERATOR, 0));
        let done = identity.expect("an identity").operate(&Operation::Status, PATIENCE);
        done.unwrap_or_else(|why| panic!("{why}: {:?}", self.logs())).1
    }

    /// What the machines complained of.
    fn logs(&self) -> Vec<String> {
        let of = |node: &NodeEntry| {
            let said = std::fs::read_to_string(self.dir.join(format!("{}.log", node.name)));
            format!("{}: {}", node.name, said.unwrap_or_default())
        };
        self.file.nodes.iter().map(of).collect()
    }

    fn wait_for(&self, name: &str) {
        let since = Instant::now();
        loop {
            let status = self.status();
            let rows = status["nodes"].as_array().expect("rows");
            if rows.iter().any(|row| row["node"] == name && row["is"] == "up") {
                return;
            }
            let late = since.elapsed() > PATIENCE;
            assert!(!late, "{name} is not up: {status:#} {:?}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn at(&self, name: &str, port: Port) -> SocketAddr {
        let (_, node) = self.file.node(name).expect("there");
        self.file.at(node, port).expect("an address")
    }

    /// Orders at both edges; in the middle of it the root that leads is killed.
    fn trade_and_kill(&mut self) -> Output {
        let doors = ["edge-1", "edge-2"].map(|name| self.at(name, Port::Ouch).to_string());
        let authority = self.file.authority_path().display().to_string();
        let load = self
            .fairbell(&["load", "--protocol", "ouch", "--login", "C{nnn}:secret"])
            .args(["--clients", "2", "--address", &doors[0], "--address", &doors[1]])
            .args(["--tls", "--ca", &authority, "--server-name", "lab"])
            .args(["--symbol", "BTCUSD", "--price", "78000", "--tick", "1", "--seed", "7"])
            .args([
                "--rate",
                "200",
                "--duration",
                "4s",
                "--warmup",
                "1s",
                "--patience",
                "30s",
                "--json",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        std::thread::sleep(Duration::from_secs(3));
        let leader = self.status()["leader"].as_u64().expect("a number");
        self.running.retain(|(name, _)| *name != format!("root-{leader}"));
        load.wait_with_output().expect("it ends")
    }

    fn subscribe(&self, edge: &str) -> Session {
        let authority = self.dir.join("authority.pem");
        let tls = host::tls::client(authority.to_str().expect("text"), None, "lab").expect("TLS");
        let login = ("FLOW01", "flow");
        Session::open(self.at(edge, Port::Subscriptions), login, Some(&tls)).expect("logged on")
    }

    /// A subscriber at an edge hears the feed at its own address, repairs it, and by the edge's group
    /// if there is one.
    fn subscribes(&self, edge: &str) {
        let mut session = self.subscribe(edge);
        let ip = self.at(edge, Port::Release).ip();
        let (ear, to) = ear(ip);
        let told = session.subscribe(Way::Unicast, to).expect("granted");
        let (from, _) = packet(&ear).expect("the feed");
        assert_eq!((from, from.ip()), (told.from, ip));
        let servers = told.repair.iter().chain(&told.snapshots);
        assert!(servers.clone().all(|at| at.is_ipv6() == ip.is_ipv6()), "{told:?}");
        assert_eq!((told.repair.len(), told.snapshots.is_empty()), (3, false));
        let name = wire::moldudp::Session(told.streams[0].0);
        let mut request = Vec::new();
        wire::moldudp::Request { session: name, seq: 1, count: 1 }.encode(&mut request);
        request.resize(600, 0);
        let (asking, _) = self::ear(ip);
        let repaired = told
            .repair
            .iter()
            .any(|server| asking.send_to(&request, server).is_ok() && packet(&asking).is_some());
        assert!(repaired, "{:?}", told.repair);
        let (_, node) = self.file.node(edge).expect("there");
        for group in &node.groups {
            let heard = host::subscriber::hear(to, Some(*group), session.local()).expect("a group");
            heard.set_read_timeout(Some(Duration::from_secs(3))).expect("set");
            let mut session = self.subscribe(edge);
            let told = session.subscribe(Way::Group, *group).expect("granted");
            let (from, _) = packet(&heard).expect("the feed");
            assert_eq!(from, told.from);
        }
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        self.running.clear();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn ear(ip: IpAddr) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((ip, 0)).expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(3))).expect("set");
    let at = socket.local_addr().expect("an address");
    (socket, at)
}

fn packet(of: &UdpSocket) -> Option<(SocketAddr, Vec<u8>)> {
    let mut bytes = [0; 2_048];
    let (len, from) = of.recv_from(&mut bytes).ok()?;
    Some((from, bytes[..len].to_vec()))
}

fn trades_over_a_failover(mut venue: Venue) {
    venue.start_all();
    let traded = document(&venue.trade_and_kill());
    assert!(number(&traded, "answered") > 500, "{traded:#}");
    assert_eq!(number(&traded, "lost"), 0, "{traded:#}");
    for edge in ["edge-1", "edge-2"] {
        venue.subscribes(edge);
    }
    // A feed handler in a process of its own, at the second edge.
    let door = venue.at("edge-2", Port::Subscriptions).to_string();
    let authority = venue.file.authority_path().display().to_string();
    let heard = venue
        .fairbell(&["subscribe", "--address", &door, "--login", "FLOW01:flow", "--tls"])
        .args(["--ca", &authority, "--server-name", "lab", "--duration", "3s", "--json"])
        .output()
        .expect("the binary runs");
    assert_eq!(heard.status.code(), Some(0), "{}", String::from_utf8_lossy(&heard.stderr));
    let last = serde_json::Deserializer::from_slice(&heard.stdout).into_iter::<Value>().last();
    let last = last.expect("a document").expect("JSON");
    assert!(last["next"][0].as_u64() > Some(500) && number(&last, "foreign") == 0, "{last:#}");
    assert_eq!(number(&last, "parse_errors") + number(&last, "image_errors"), 0, "{last:#}");
    let doctor = venue.fairbell(&["cluster", "doctor", "edge-2", "--cluster"]);
    let mut doctor = doctor;
    let said = doctor.arg(venue.dir.join("cluster.toml")).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("by IPv6"), "{said}");
}

#[test]
fn a_venue_wholly_over_ipv6_trades_while_its_leader_is_killed() {
    trades_over_a_failover(Venue::new("ipv6", (V6, None), [V6, V6]));
}

#[test]
fn edges_of_either_version_trade_in_one_venue_whose_roots_have_both() {
    trades_over_a_failover(Venue::new("both-ips", (V4, Some(V6)), [V4, V6]));
}

#[test]
fn control_machines_without_a_version_in_common_are_told_so_by_the_doctor_and_at_the_start() {
    let venue = Venue::new("no-common-ip", (V4, None), [V4, V6]);
    let path = venue.dir.join("cluster.toml");
    let said = |args: &[&str]| {
        let output = venue.fairbell(args).arg("--cluster").arg(&path).output();
        let output = output.expect("the binary runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let why = "edge-2 has IPv6 and root-1 IPv4: they can't reach each other";
    let (code, text) = said(&["cluster", "doctor", "edge-2"]);
    assert!(code != Some(0) && text.contains(why), "{code:?} {text}");
    let dir = venue.dir.join("edge-2").display().to_string();
    let (code, text) = said(&["node", "--name", "edge-2", "--dir", &dir]);
    assert!(code == Some(2) && text.contains(why), "{code:?} {text}");
    // Two edges say nothing to each other: the other one is well.
    let (_, text) = said(&["cluster", "doctor", "edge-1"]);
    assert!(!text.contains("can't reach each other"), "{text}");
}
