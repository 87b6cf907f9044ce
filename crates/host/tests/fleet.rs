//! Machines of a venue in one process, over loopback: who is let in, and who is told why not.

use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::alarms::Alarms;
use host::clock_agent::Wrong;
use host::failure::Failure;
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use host::fleet::messages::{Followed, FromNode, FromRoot, Health, Operation, Reader, write};
use host::fleet::node::{self, NodeOptions};
use host::subscriber::Session;
use net::Clock;
use wire::subscription::Way;

#[path = "fleet/names.rs"]
mod names;
#[path = "common/ports.rs"]
mod ports;
#[path = "fleet/shards.rs"]
mod shards;

use ports::free_ports;

const VENUE: &str = "[overlay]\ndepth = 1\nfanout = 1\nreceivers = 2\nhedge = 0\n\n[engine]\n\
                     open_orders_max = 1000\n\n[memory]\nrepair_mib = 1\n\n[journal]\nsegment_mib = \
                     2\n\n[day]\nauctions = false\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// A venue, its files in a folder that goes with it.
struct Venue {
    dir: PathBuf,
    file: ClusterFile,
    running: Vec<Machine>,
}

struct Machine {
    name: String,
    stop: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Venue {
    /// One root and two edges.
    fn new(name: &str) -> Venue {
        let root = [("root-1", NodeRole::Root)];
        Venue::with(name, &root)
    }

    /// With these roots, and the edges behind them.
    fn with(name: &str, roots: &[(&str, NodeRole)]) -> Venue {
        let dir = format!("fairbell-fleet-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        let _ = std::fs::remove_dir_all(&dir);
        host::files::folder(&dir).expect("a folder");
        std::fs::write(dir.join("venue.toml"), VENUE).expect("written");
        let first = free_ports(96);
        let edges = [("edge-1", NodeRole::Edge), ("edge-2", NodeRole::Edge)];
        let names: Vec<_> = roots.iter().copied().chain(edges).collect();
        let nodes = names.iter().copied().zip((first..).step_by(16)).map(|((name, role), port)| {
            NodeEntry { port: Some(port), ..NodeEntry::new(name, "127.0.0.1", vec![role]) }
        });
        let path = dir.join("cluster.toml");
        let file = ClusterFile::new(&path, "lab", Clock::start(0).now(), nodes.collect());
        let file = file.expect("a cluster");
        std::fs::write(&path, file.text().expect("text")).expect("written");
        credentials::found(&file).expect("an authority");
        for name in names.iter().map(|(name, _)| *name).chain([OPERATOR]) {
            credentials::issue(&file, name, 30).expect("keys");
        }
        Venue { dir, file, running: Vec::new() }
    }

    fn options(&self, name: &str) -> NodeOptions {
        NodeOptions {
            name: name.to_string(),
            dir: self.dir.join(name),
            keys: Credentials::folder(&self.file, name),
            wrong: Wrong::default(),
            jump: None,
            links: Vec::new(),
            first_come: false,
            traces: false,
            alarms: Alarms::default(),
            telemetry: None,
        }
    }

    /// Starts a machine with a file of its own.
    fn start_with(&mut self, file: ClusterFile, name: &str) {
        let (options, stop) = (self.options(name), Arc::new(AtomicBool::new(false)));
        let (over, said) = (Arc::clone(&stop), Arc::new(Mutex::new(Vec::new())));
        let lines = Arc::clone(&said);
        let thread = std::thread::spawn(move || {
            let told = |line: &str| lines.lock().expect("unpoisoned").push(line.to_string());
            node::run(&file, &options, &over, told)
        });
        self.running.push(Machine { name: name.to_string(), stop, said, thread });
    }

    fn start(&mut self, name: &str) {
        self.start_with(self.file.clone(), name);
    }

    fn operator(&self) -> Identity {
        let own =
            Credentials::read(&self.file, &Credentials::folder(&self.file, OPERATOR), OPERATOR);
        let config = self.file.venue().expect("settings");
        let identity = Identity::new(&self.file, &config, own.expect("keys"), (OPERATOR, 0));
        identity.expect("an identity")
    }

    fn operate(&self, operation: &Operation) -> serde_json::Value {
        self.operator().operate(operation, PATIENCE).expect("done").1
    }

    fn is(&self, name: &str) -> String {
        let data = self.operate(&Operation::Status);
        let rows = data["nodes"].as_array().expect("rows").iter();
        let row = rows.clone().find(|row| row["node"] == name).expect("a row");
        row["is"].as_str().expect("a word").to_string()
    }

    fn wait(&self, name: &str, is: &str) {
        let since = Instant::now();
        while self.is(name) != is {
            assert!(since.elapsed() < PATIENCE, "{name} is not {is}: {:?}", self.said(name));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn said(&self, name: &str) -> Vec<String> {
        let machines = self.running.iter().filter(|machine| machine.name == name);
        machines.flat_map(|machine| machine.said.lock().expect("unpoisoned").clone()).collect()
    }

    /// Waits until the machine started last under a name has ended by itself; why.
    fn ended(&mut self, name: &str) -> Result<(), Failure> {
        let at = self.running.iter().rposition(|machine| machine.name == name).expect("started");
        let machine = self.running.remove(at);
        let since = Instant::now();
        while !machine.thread.is_finished() {
            assert!(since.elapsed() < PATIENCE, "{name} goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        machine.thread.join().expect("no panic")
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        self.running.iter().for_each(|machine| machine.stop.store(true, Ordering::Relaxed));
        self.running.drain(..).for_each(|machine| drop(machine.thread.join()));
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Venue {
    /// The subscription door of a machine.
    fn door(&self, name: &str) -> std::net::SocketAddr {
        let (_, node) = self.file.node(name).expect("there");
        self.file.at(node, Port::Subscriptions).expect("an address")
    }

    fn tls(&self) -> net::ClientTls {
        let authority = self.dir.join("authority.pem");
        host::tls::client(authority.to_str().expect("text"), None, "lab").expect("TLS")
    }

    fn subscribe(&self, name: &str, user: &str) -> Result<Session, Failure> {
        Session::open(self.door(name), (user, "flow"), Some(&self.tls()))
    }
}

/// A socket for the feed, and where it is.
fn ear() -> (UdpSocket, std::net::SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(3))).expect("set");
    let at = socket.local_addr().expect("an address");
    (socket, at)
}

/// The next packet: from where, of which session, its number and count of messages.
fn packet(of: &UdpSocket) -> Option<(std::net::SocketAddr, Vec<u8>)> {
    let mut bytes = [0; 2_048];
    let (len, from) = of.recv_from(&mut bytes).ok()?;
    Some((from, bytes[..len].to_vec()))
}

#[test]
fn a_root_says_how_it_stands_while_none_leads() {
    let (root, reserve) = (NodeRole::Root, NodeRole::Reserve);
    let names = [("root-1", root), ("spare", reserve), ("root-2", root), ("root-3", root)];
    let mut venue = Venue::with("roots", &names);
    venue.start("root-1");
    venue.start("spare");
    let operator = venue.operator();
    for replica in [1, 4] {
        let status = operator.replica(replica, PATIENCE).expect("it answers");
        assert_eq!((status.replica, status.leading), (replica, false));
        assert_eq!(status.members, [1, 2, 3], "the one in reserve is none of them");
    }
    // What the one that leads does nobody does, and one that does not run says nothing.
    let why = operator.operate(&Operation::Status, Duration::from_secs(1)).expect_err("none leads");
    assert!(why.to_string().contains("no root did it"), "{why}");
    assert!(operator.replica(2, Duration::from_millis(200)).is_err());
    assert!(operator.replica(5, Duration::from_millis(200)).is_err(), "no such root");
    venue.start("root-2");
    venue.operate(&Operation::Status);
    let leads = |replica| operator.replica(replica, PATIENCE).expect("it answers").leading;
    assert!(leads(1) ^ leads(2));
}

#[test]
fn participants_subscribe_at_their_edge_and_are_told_which_is_least_loaded() {
    let mut venue = Venue::new("subscribe");
    let group = "239.7.7.7:17107".parse().expect("a group");
    for node in &mut venue.file.nodes {
        node.groups = vec![group];
    }
    for name in ["root-1", "edge-1", "edge-2"] {
        venue.start(name);
    }
    ["root-1", "edge-1", "edge-2"].into_iter().for_each(|name| venue.wait(name, "up"));
    let why = |result: Result<Session, Failure>| result.err().expect("refused").to_string();
    let wrong = Session::open(venue.door("edge-1"), ("FLOW01", "wrong"), Some(&venue.tls()));
    assert!(why(wrong).contains("login is refused"));
    let mut session = venue.subscribe("edge-1", "FLOW01").expect("logged on");
    let (socket, to) = ear();
    let foreign = std::net::SocketAddr::new([127, 0, 0, 2].into(), to.port());
    let refused = session.subscribe(Way::Unicast, foreign).expect_err("another address");
    assert!(refused.to_string().contains("not the address"), "{refused}");
    let refused = session.subscribe(Way::Group, "239.7.7.8:17107".parse().expect("a group"));
    assert!(refused.expect_err("not permitted").to_string().contains("does not permit"));
    let told = session.subscribe(Way::Unicast, to).expect("granted");
    assert_eq!((told.to, told.streams.len(), told.repair.len()), (to, 1, 1));
    // Nobody trades; heartbeats go the same way, from where it was told, with the number it was told.
    let (from, bytes) = packet(&socket).expect("the feed");
    assert_eq!(from, told.from);
    let first = wire::moldudp::Packet::parse(&bytes).expect("a packet");
    assert_eq!((first.session().0, first.seq()), told.streams[0]);
    // The server that it was told of repairs what came before: a padded request needs no token.
    let name = wire::moldudp::Session(told.streams[0].0);
    let mut request = Vec::new();
    wire::moldudp::Request { session: name, seq: 1, count: 1 }.encode(&mut request);
    request.resize(600, 0);
    let (asking, _) = ear();
    asking.send_to(&request, told.repair[0]).expect("sent");
    let (_, repair) = packet(&asking).expect("message 1");
    assert_eq!(wire::moldudp::Packet::parse(&repair).expect("a packet").seq(), 1);
    // A second one, by the group, gets the same packets.
    let mut second = venue.subscribe("edge-1", "FLOW02").expect("logged on");
    let heard = host::subscriber::hear(to, Some(group), second.local()).expect("a group");
    heard.set_read_timeout(Some(Duration::from_secs(3))).expect("set");
    let told = second.subscribe(Way::Group, group).expect("granted");
    let (from, by_group) = packet(&heard).expect("the feed");
    assert_eq!(from, told.from);
    let same = || packet(&socket).is_some_and(|(_, bytes)| bytes == by_group);
    assert!((0..50).any(|_| same()), "the same bytes");
    // More than the account may have at once.
    let more: Vec<_> = (0..4).map(|_| venue.subscribe("edge-1", "FLOW02")).collect();
    assert!(more[..3].iter().all(Result::is_ok));
    assert!(why(more.into_iter().last().expect("four")).contains("as it may"));
    // Both edges are named, and one that is drained is not.
    let named = |session: &mut Session| -> Vec<u16> {
        session.ask_edges().expect("asked");
        session.edges().1.iter().map(|edge| edge.ports[2]).collect()
    };
    let doors = ["edge-1", "edge-2"].map(|name| venue.door(name).port());
    wait_for(|| {
        let mut named = named(&mut session);
        named.sort_unstable();
        named == doors
    });
    venue.operate(&Operation::Drain { node: "edge-2".to_string(), on: true });
    assert_eq!(venue.ended("edge-2"), Ok(()));
    wait_for(|| named(&mut session) == doors[..1]);
    // The connection is cut: packets stop. The other one's go on.
    drop(session);
    std::thread::sleep(Duration::from_millis(300));
    socket.set_nonblocking(true).expect("set");
    while packet(&socket).is_some() {}
    socket.set_nonblocking(false).expect("set");
    assert!(packet(&heard).is_some());
    assert_eq!(packet(&socket), None, "cut, and still fed");
    second.leave();
}

fn wait_for(mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "it takes too long");
        std::thread::sleep(Duration::from_millis(300));
    }
}

fn other_settings(venue: &Venue) -> ClusterFile {
    let dir = venue.dir.join("other");
    host::files::folder(&dir).expect("a folder");
    std::fs::write(dir.join("venue.toml"), format!("{VENUE}\n[hold]\ncap_ms = 7\n"))
        .expect("written");
    std::fs::copy(venue.dir.join("authority.pem"), dir.join("authority.pem")).expect("copied");
    let text = venue.file.text().expect("text");
    ClusterFile::parse(&dir.join("cluster.toml"), &text).expect("a file")
}

/// Tells the machine started last under a name to stop; what it said until it had.
fn stopped(venue: &mut Venue, name: &str) -> Vec<String> {
    let machine = venue.running.iter().rfind(|machine| machine.name == name).expect("started");
    machine.stop.store(true, Ordering::Relaxed);
    let said = Arc::clone(&machine.said);
    venue.ended(name).expect("it was told to");
    said.lock().expect("unpoisoned").clone()
}

#[test]
fn operators_who_ask_at_once_are_all_answered() {
    let mut venue = Venue::new("status");
    venue.start("root-1");
    venue.wait("root-1", "up");
    let operator = venue.operator();
    std::thread::scope(|scope| {
        let ask = || {
            let mut sealed = operator.open(1, Followed::default()).expect("it answers");
            let mut reader = Reader::default();
            for number in 0..3_000 {
                write(&mut sealed, &FromNode::Operate(Operation::Status)).expect("asked");
                let since = Instant::now();
                let answer = || reader.next::<FromRoot>(&mut sealed).expect("connected");
                let answered = std::iter::repeat_with(answer).find_map(|answer| {
                    (answer.is_some() || since.elapsed() > PATIENCE).then_some(answer.is_some())
                });
                assert_eq!(answered, Some(true), "question {number}");
            }
        };
        (0..4).for_each(|_| drop(scope.spawn(ask)));
    });
}

#[test]
fn a_root_that_leads_hands_over_before_it_stops_and_one_alone_just_stops() {
    let roots = ["root-1", "root-2", "root-3"];
    let mut venue = Venue::with("retire", &roots.map(|name| (name, NodeRole::Root)));
    roots.into_iter().for_each(|name| venue.start(name));
    roots.into_iter().for_each(|name| venue.wait(name, "up"));
    let leader = |venue: &Venue| {
        let status = venue.operate(&Operation::Status);
        let number = status["leader"].as_u64().expect("a number") as usize;
        (roots[number - 1], status["term"].as_u64().expect("a number"))
    };
    let (first, term) = leader(&venue);
    let follower = roots.into_iter().find(|name| *name != first).expect("three");
    let said = stopped(&mut venue, follower);
    assert!(!said.iter().any(|line| line.contains("stops")), "control, it did not lead: {said:?}");
    venue.start(follower);
    venue.wait(follower, "up");
    let (first, term) = if leader(&venue).0 == first { (first, term) } else { leader(&venue) };
    let said = stopped(&mut venue, first);
    assert!(said.iter().any(|line| line.contains("leads in its place after")), "{said:?}");
    let (next, later) = leader(&venue);
    assert!(next != first && later > term, "{next} in {later} after {first} in {term}");
    let mut alone = Venue::new("retire-alone");
    alone.start("root-1");
    alone.wait("root-1", "up");
    let said = stopped(&mut alone, "root-1");
    assert!(said.iter().any(|line| line.contains("there is no other root")), "{said:?}");
}

#[test]
fn machines_join_are_drained_revoked_and_come_back_with_other_keys() {
    let mut venue = Venue::new("life");
    for name in ["root-1", "edge-1", "edge-2"] {
        venue.start(name);
    }
    ["root-1", "edge-1", "edge-2"].into_iter().for_each(|name| venue.wait(name, "up"));
    // A second process of a node lives anew, and the log counts its lives.
    let lives = |venue: &Venue| venue.operate(&Operation::Status)["nodes"][1]["life"].clone();
    assert_eq!(lives(&venue), 1);
    assert_eq!(venue.operate(&Operation::Rotate)["key_epoch"], 1);
    assert!(
        venue.operate(&Operation::Status)["behind"][0].as_u64().is_some_and(|lacks| lacks < 100)
    );
    assert_eq!(venue.operate(&Operation::Lead { node: "root-1".to_string() })["leader"], 1);

    let node = || "edge-1".to_string();
    venue.operate(&Operation::Drain { node: node(), on: true });
    assert_eq!(venue.ended("edge-1"), Ok(()), "drained is a good end");
    venue.start("edge-1");
    let why = venue.ended("edge-1").expect_err("it is drained");
    assert!(matches!(&why, Failure::Refused(text) if text.contains("drained")), "{why}");
    venue.operate(&Operation::Drain { node: node(), on: false });
    venue.start("edge-1");
    venue.wait("edge-1", "up");
    assert_eq!(lives(&venue), 2, "no life is given to one that is refused");

    let revoked = venue.operate(&Operation::Revoke { node: node(), generation: 1 });
    assert_eq!(revoked["key_epoch"], 2, "all others have other keys");
    let why = venue.ended("edge-1").expect_err("revoked");
    assert!(matches!(&why, Failure::Refused(text) if text.contains("revoked")), "{why}");
    assert_eq!(venue.is("edge-2"), "up");
    credentials::issue(&venue.file, "edge-1", 30).expect("other keys");
    venue.start("edge-1");
    venue.wait("edge-1", "up");
}

#[test]
fn an_operators_certificate_that_was_revoked_is_refused_and_a_later_one_is_not() {
    let mut venue = Venue::new("operator");
    venue.start("root-1");
    venue.wait("root-1", "up");
    let (old, node) = (venue.operator(), OPERATOR.to_string());
    let revoked = venue.operate(&Operation::Revoke { node, generation: 1 });
    assert_eq!((&revoked["revoked"], &revoked["key_epoch"]), (&1.into(), &1.into()));
    let refused = |of: &Identity| {
        let why = of.operate(&Operation::Rotate, PATIENCE).expect_err("revoked").to_string();
        assert!(
            why.contains("generation 1, is revoked: `fairbell cluster issue operator`"),
            "{why}"
        );
    };
    refused(&old);
    assert!(old.replica(1, PATIENCE).is_err(), "it is told nothing either");
    credentials::issue(&venue.file, OPERATOR, 30).expect("keys");
    assert_eq!(venue.operate(&Operation::Status)["key_epoch"], 1, "what is refused does nothing");
    // Also by the root's log, after its restart.
    stopped(&mut venue, "root-1");
    venue.start("root-1");
    venue.wait("root-1", "up");
    refused(&old);
}

#[test]
fn whoever_is_of_another_venue_is_told_so_and_so_are_operators() {
    let mut venue = Venue::new("strangers");
    venue.start("root-1");
    venue.wait("root-1", "up");
    assert_eq!(venue.is("edge-1"), "unknown", "a root that has just begun to lead can't tell");
    let other = other_settings(&venue);
    venue.start_with(other, "edge-1");
    let why = venue.ended("edge-1").expect_err("other settings");
    assert!(matches!(&why, Failure::Refused(text) if text.contains("compare")), "{why}");
    let mut renamed = venue.file.clone();
    renamed.id ^= 1;
    venue.start_with(renamed, "edge-1");
    std::thread::sleep(Duration::from_millis(600));
    // Another cluster's certificates are not even looked at.
    venue.wait("edge-1", "away");
    venue.running.last().expect("started").stop.store(true, Ordering::Relaxed);
    // One node's keys under another one's name.
    let folder = Credentials::folder(&venue.file, "edge-2");
    let stolen = Credentials::folder(&venue.file, "edge-1");
    for end in ["pem", "key.pem"] {
        let (from, to) =
            (stolen.join(format!("edge-1.{end}")), folder.join(format!("edge-2.{end}")));
        std::fs::copy(from, to).expect("copied");
    }
    venue.start("edge-2");
    let why = venue.ended("edge-2").expect_err("another one's certificate");
    assert!(matches!(&why, Failure::Refused(_)), "{why}");
    let lines = venue.said("root-1").join("\n");
    assert!(lines.contains("ALARM: refused-2"), "operators are told: {lines}");
    assert!(ClusterFile::read(Path::new("no/such/file")).is_err());
}

/// As when the root stops in that moment: a refusal for good would end the machine.
#[test]
fn who_says_nothing_is_not_refused_for_good() {
    let mut venue = Venue::new("silent");
    venue.start("root-1");
    venue.wait("root-1", "up");
    let keys = Credentials::folder(&venue.file, "edge-1");
    let own = Credentials::read(&venue.file, &keys, "edge-1").expect("keys");
    let (number, _) = venue.file.node("edge-1").expect("there");
    let (_, root) = venue.file.node("root-1").expect("there");
    let stream = TcpStream::connect(venue.file.at(root, Port::Control).expect("an address"));
    let stream = Arc::new(stream.expect("a door"));
    let until = Instant::now() + PATIENCE;
    host::replica::gate::enter(&stream, (&own.gate, number, 1), until).expect("past the gate");
    let sealed = own.to_root(venue.file.group(), 1).expect("TLS");
    let mut sealed = sealed.connect(Arc::clone(&stream), until).expect("in");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let said = Reader::default().next::<FromRoot>(&mut sealed);
    assert!(said.is_err(), "the connection ends without a word: {said:?}");
    assert!(!venue.said("root-1").iter().any(|line| line.contains("not let in")));
}

/// As when its keys were copied.
#[test]
fn another_process_with_a_nodes_keys_is_told_with_both_addresses_until_it_ends() {
    let mut venue = Venue::new("doubled");
    venue.start("root-1");
    venue.start("edge-1");
    venue.wait("edge-1", "up");
    let keys = Credentials::folder(&venue.file, "edge-1");
    let own = Credentials::read(&venue.file, &keys, "edge-1").expect("keys");
    let (number, _) = venue.file.node("edge-1").expect("there");
    let config = venue.file.venue().expect("settings");
    let copy = Identity::new(&venue.file, &config, own, ("edge-1", number)).expect("an identity");
    let mut sealed = copy.open(1, Followed::default()).expect("in");
    let said = |venue: &Venue, what: &str| venue.said("root-1").join("\n").contains(what);
    let since = Instant::now();
    while !said(&venue, "ALARM: doubled-edge-1: two processes are edge-1, at 127.0.0.1:") {
        assert!(since.elapsed() < PATIENCE, "{:?}", venue.said("root-1"));
        write(&mut sealed, &FromNode::Health(Health::default())).expect("said");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(since.elapsed() > Duration::from_secs(1), "not before it is sure");
    drop(sealed);
    wait_for(|| said(&venue, "alarm over: doubled-edge-1"));
    // Control: one that is started again is one.
    stopped(&mut venue, "edge-1");
    venue.start("edge-1");
    venue.wait("edge-1", "up");
    std::thread::sleep(Duration::from_secs(4));
    let raised = venue.said("root-1").into_iter().filter(|line| line.contains("ALARM: doubled"));
    assert_eq!(raised.count(), 1);
}

#[test]
fn a_certificate_that_is_over_and_a_key_with_a_wrong_digit_let_nobody_in_and_both_ends_say_so() {
    let mut venue = Venue::new("expired");
    venue.start("root-1");
    venue.wait("root-1", "up");
    credentials::issue(&venue.file, "edge-1", 0).expect("one that ended this midnight");
    let gate = Credentials::folder(&venue.file, "edge-2").join("gate.key");
    let digits = std::fs::read_to_string(&gate).expect("digits");
    let flipped = if digits.starts_with('0') { "1" } else { "0" };
    std::fs::write(&gate, format!("{flipped}{}", &digits[1..])).expect("written");
    for name in ["edge-1", "edge-2"] {
        venue.start(name);
    }
    std::thread::sleep(Duration::from_secs(7));
    assert_eq!((venue.is("edge-1"), venue.is("edge-2")), ("away".to_string(), "away".to_string()));
    let (edge, root) = (venue.said("edge-1").join("\n"), venue.said("root-1").join("\n"));
    assert!(edge.contains("CertificateExpired"), "{edge}");
    assert!(root.contains("node 2 is not let in") && root.contains("expired"), "{root}");
    assert!(venue.said("edge-2").join("\n").contains("waits for a root"));
    // Control: with good ones they are in.
    for name in ["edge-1", "edge-2"] {
        let at = venue.running.iter().rposition(|machine| machine.name == name).expect("started");
        venue.running[at].stop.store(true, Ordering::Relaxed);
        assert_eq!(venue.ended(name), Ok(()));
        credentials::issue(&venue.file, name, 30).expect("good ones");
        venue.start(name);
        venue.wait(name, "up");
    }
}

#[test]
fn keys_that_let_a_machine_in_nowhere_end_it_at_once_with_the_files_name() {
    let mut venue = Venue::new("unusable");
    let of = |name: &str| Credentials::folder(&venue.file, name).join(format!("{name}.key.pem"));
    std::fs::write(of("edge-1"), "").expect("written");
    std::fs::copy(of("edge-2"), of("root-1")).expect("copied");
    for (name, wanted) in [("edge-1", "no private key in PEM"), ("root-1", "it is not the key of")]
    {
        venue.start(name);
        match venue.ended(name) {
            Err(Failure::Usage(why)) => {
                assert!(why.contains(&format!("{name}.key.pem: {wanted}")), "{why}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_root_refuses_the_folder_of_another_root_and_takes_its_own_again() {
    let roots = ["root-1", "root-2", "root-3"].map(|name| (name, NodeRole::Root));
    let mut venue = Venue::with("folders", &roots);
    let begin = |venue: &mut Venue, name: &str| {
        venue.start(name);
        wait_for(|| venue.said(name).iter().any(|line| line.contains("inputs recovered")));
        stopped(venue, name);
    };
    begin(&mut venue, "root-2");
    let [own, other] = ["root-2", "root-1"].map(|name| venue.dir.join(name));
    std::fs::rename(&own, &other).expect("moved");
    venue.start("root-1");
    match venue.ended("root-1") {
        Err(Failure::Usage(why)) => {
            assert!(
                why.contains("number 2 of the group") && why.contains("this is number 1"),
                "{why}"
            );
            assert!(why.contains(&other.display().to_string()), "{why}");
        }
        other => panic!("{other:?}"),
    }
    std::fs::rename(&other, &own).expect("moved");
    begin(&mut venue, "root-2");
}

#[test]
fn a_machine_has_the_core_that_is_its_own_and_one_that_there_is_not_ends_it() {
    let mut venue = Venue::new("core");
    let allowed = rustix::thread::sched_getaffinity(None).expect("known");
    let core = (0..1_024).rev().find(|core| allowed.is_set(*core)).expect("one");
    venue.file.nodes[1].core = Some(core as u16);
    venue.file.nodes[2].core = Some(u16::MAX);
    venue.start("root-1");
    venue.start("edge-1");
    venue.wait("edge-1", "up");
    venue.start("edge-2");
    let why = venue.ended("edge-2").expect_err("no such core").to_string();
    assert!(why.contains("edge-2: core 65535: this process may use "), "{why}");
    assert_eq!(venue.is("edge-1"), "up");
}

#[test]
fn a_machine_that_runs_already_is_said_to_with_the_port_that_it_has() {
    let mut venue = Venue::new("twice");
    let settings = format!("{VENUE}\n[clock]\nsource = \"huygens\"\n");
    std::fs::write(venue.dir.join("venue.toml"), settings).expect("written");
    let edge = venue.file.node("edge-1").expect("there").1.clone();
    for port in [Port::Clock, Port::Probe] {
        let at = venue.file.bound(&edge, port);
        let _taken = UdpSocket::bind(at).expect("a free port");
        venue.start("edge-1");
        let why = venue.ended("edge-1").expect_err("the port is taken").to_string();
        assert!(why.contains(&format!("UDP {at} ({port:?}): ")), "{why}");
        assert!(why.ends_with("; does edge-1 run already, or another program?"), "{why}");
    }
}

#[test]
fn a_machine_whose_source_of_time_is_not_there_says_which() {
    let mut venue = Venue::new("time");
    let settings = format!("{VENUE}\n[clock]\nsource = \"phc\"\nphc = \"/dev/null\"\n");
    std::fs::write(venue.dir.join("venue.toml"), settings).expect("written");
    venue.start("edge-1");
    let why = venue.ended("edge-1").expect_err("no clock").to_string();
    assert!(why.starts_with("clock.phc: /dev/null: "), "{why}");
}

#[test]
fn ten_thousand_strangers_keep_no_machine_out() {
    let mut venue = Venue::new("crowd");
    venue.start("root-1");
    venue.wait("root-1", "up");
    let (_, root) = venue.file.node("root-1").expect("there");
    let door = venue.file.at(root, Port::Control).expect("an address");
    let mut open = Vec::new();
    for number in 0..10_000 {
        let patience = Duration::from_millis(5);
        if let Ok(stream) = TcpStream::connect_timeout(&door, patience) {
            open.push(stream);
        }
        if open.len() > 300 {
            open.drain(..100);
        }
        if number == 5_000 {
            venue.start("edge-1");
        }
    }
    venue.wait("edge-1", "up");
    drop(open);
    assert_eq!(venue.is("root-1"), "up");
}
