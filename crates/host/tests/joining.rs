//! Machines that get their certificates with one-time tokens, over loopback: who gets one, once, and who
//! is told why not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::alarms::Alarms;
use host::authority::{Authority, End, Request, fresh_key, request};
use host::clock_agent::Wrong;
use host::failure::Failure;
use host::fleet::client::Identity;
use host::fleet::credentials::{self, Credentials, OPERATOR};
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use host::fleet::join::{Joining, Outcome};
use host::fleet::messages::Operation;
use host::fleet::node::{self, NodeOptions};
use host::fleet::token::{self, Token};
use net::Clock;
use serde_json::Value;

#[path = "common/ports.rs"]
mod ports;

use ports::free_ports;

const VENUE: &str = "[overlay]\ndepth = 1\nfanout = 1\nreceivers = 2\nhedge = 0\n\n[engine]\n\
                     open_orders_max = 1000\n\n[memory]\nrepair_mib = 1\n\n[journal]\nsegment_mib = \
                     2\n\n[day]\nauctions = false\n";
const PATIENCE: Duration = Duration::from_secs(40);
const HOUR: Duration = Duration::from_secs(3_600);

/// What ends a machine that runs, and its thread.
type Running = (Arc<AtomicBool>, JoinHandle<Result<(), Failure>>);

/// A venue of some roots and two edges, of which the operator's machine has no keys.
struct Venue {
    dir: PathBuf,
    file: ClusterFile,
    running: Vec<Running>,
    said: Arc<Mutex<Vec<String>>>,
}

impl Venue {
    fn new(name: &str, roots: usize) -> Venue {
        let dir = format!("fairbell-joining-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(dir);
        let _ = std::fs::remove_dir_all(&dir);
        host::files::folder(&dir).expect("a folder");
        std::fs::write(dir.join("venue.toml"), VENUE).expect("written");
        let first = free_ports(96);
        let names = (1..=roots).map(|number| (format!("root-{number}"), NodeRole::Root));
        let edges = (1..=2).map(|number| (format!("edge-{number}"), NodeRole::Edge));
        let nodes = names.chain(edges).zip((first..).step_by(16)).map(|((name, role), port)| {
            NodeEntry { port: Some(port), ..NodeEntry::new(name, "127.0.0.1", vec![role]) }
        });
        let path = dir.join("cluster.toml");
        let file = ClusterFile::new(&path, "lab", Clock::start(0).now(), nodes.collect());
        let file = file.expect("a cluster");
        std::fs::write(&path, file.text().expect("text")).expect("written");
        credentials::found(&file).expect("an authority");
        let own = file.of(NodeRole::Root).map(|(_, node)| node.name.clone());
        for name in own.chain([OPERATOR.to_string()]) {
            credentials::issue(&file, &name, 30).expect("keys");
        }
        Venue { dir, file, running: Vec::new(), said: Arc::default() }
    }

    /// Starts a machine with its own copy of the files.
    fn start(&mut self, file: &ClusterFile, name: &str) {
        let options = NodeOptions {
            name: name.to_string(),
            dir: self.dir.join(format!("data-{name}")),
            keys: Credentials::folder(file, name),
            wrong: Wrong::default(),
            jump: None,
            links: Vec::new(),
            first_come: false,
            traces: false,
            alarms: Alarms::default(),
            telemetry: None,
        };
        let (stop, file) = (Arc::new(AtomicBool::new(false)), file.clone());
        let (over, said, own) = (Arc::clone(&stop), Arc::clone(&self.said), name.to_string());
        let thread = std::thread::spawn(move || {
            let told = |line: &str| said.lock().expect("unpoisoned").push(format!("{own}: {line}"));
            node::run(&file, &options, &over, told)
        });
        self.running.push((stop, thread));
    }

    fn start_roots(&mut self) {
        let file = self.file.clone();
        for (_, root) in self.file.clone().of(NodeRole::Root) {
            self.start(&file, &root.name);
        }
        self.wait("root-1", "up");
    }

    /// Waits until the machine that was started last has ended by itself; why.
    fn ended(&mut self) -> Result<(), Failure> {
        let (_, thread) = self.running.pop().expect("started");
        let since = Instant::now();
        while !thread.is_finished() {
            assert!(since.elapsed() < PATIENCE, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
        thread.join().expect("no panic")
    }

    fn operator(&self) -> Identity {
        let folder = Credentials::folder(&self.file, OPERATOR);
        let own = Credentials::read(&self.file, &folder, OPERATOR).expect("keys");
        let config = self.file.venue().expect("settings");
        Identity::new(&self.file, &config, own, (OPERATOR, 0)).expect("an identity")
    }

    fn operate(&self, operation: &Operation) -> Value {
        self.operator().operate(operation, PATIENCE).expect("done").1
    }

    fn status(&self) -> Value {
        self.operate(&Operation::Status)
    }

    fn row(&self, name: &str) -> Value {
        let status = self.status();
        let rows = status["nodes"].as_array().expect("rows").iter();
        rows.clone().find(|row| row["node"] == name).expect("a row").clone()
    }

    fn wait(&self, name: &str, is: &str) {
        let since = Instant::now();
        while self.row(name)["is"] != is {
            let said = self.said.lock().expect("unpoisoned").clone();
            assert!(since.elapsed() < PATIENCE, "{name} is not {is}: {said:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn token(&self, name: &str, valid: Duration) -> Token {
        token::grant(&self.operator(), name, valid, PATIENCE).expect("a token").0
    }

    /// An empty machine that has the cluster file and nothing else.
    fn machine(&self, folder: &str) -> ClusterFile {
        let dir = self.dir.join(folder);
        host::files::folder(&dir).expect("a folder");
        let path = dir.join("cluster.toml");
        std::fs::copy(&self.file.path, &path).expect("copied");
        ClusterFile::read(&path).expect("the file")
    }

    fn refused(&self, file: &ClusterFile, name: &str, token: &Token) -> String {
        let why = match join(file, name, token, false) {
            Ok(_) => panic!("{name} has joined"),
            Err(why) => why,
        };
        assert!(matches!(why, Failure::Refused(_)), "{why}");
        let text = why.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        let keys = Credentials::folder(file, name);
        assert!(!keys.join(format!("{name}.pem")).exists(), "nothing is half there");
        text
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        self.running.iter().for_each(|(stop, _)| stop.store(true, Ordering::Relaxed));
        self.running.drain(..).for_each(|(_, thread)| drop(thread.join()));
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn join(file: &ClusterFile, name: &str, token: &Token, replace: bool) -> Result<Outcome, Failure> {
    let keys = Credentials::folder(file, name);
    let joining = Joining { file, name, token, keys: &keys, replace };
    joining.run(PATIENCE)
}

#[test]
fn a_machine_joins_once_whoever_leads_and_is_a_node_like_others() {
    let mut venue = Venue::new("once", 3);
    venue.start_roots();
    let token = venue.token("edge-1", HOUR);
    assert_eq!(venue.row("edge-1")["token"]["used"], false);
    let token = Token::parse(&token.text()).expect("it is a line of text");

    let here = venue.machine("here");
    let done = join(&here, "edge-1", &token, false).expect("joined");
    assert_eq!((done.generation, &done.notes[..]), (2, &[][..]));
    for name in ["authority.pem", "venue.toml"] {
        let read = |dir: &Path| std::fs::read(dir.join(name)).expect(name);
        assert_eq!(read(&venue.dir), read(&venue.dir.join("here")), "{name}");
    }
    assert_eq!(venue.row("edge-1")["token"]["used"], true);
    venue.start(&here, "edge-1");
    venue.wait("edge-1", "up");

    // Somebody else has the token, too: at this leader, and at the next one.
    let there = venue.machine("there");
    assert!(venue.refused(&there, "edge-1", &token).contains("used already"));
    let leader = venue.status()["leader"].as_u64().expect("a number");
    let next = format!("root-{}", leader % 3 + 1);
    venue.operate(&Operation::Lead { node: next });
    assert_ne!(venue.status()["leader"].as_u64(), Some(leader));
    assert!(venue.refused(&there, "edge-1", &token).contains("used already"));
    assert!(venue.status()["joins"]["refused"].as_u64().is_some_and(|count| count == 1));

    // The machine whose answer was lost asks again, with its key, and gets the same once more.
    let keys = Credentials::folder(&here, "edge-1");
    std::fs::rename(keys.join("edge-1.key.pem"), keys.join("joining.key.pem")).expect("renamed");
    let why = join(&here, "edge-1", &token, false).err().expect("it is there").to_string();
    assert!(why.contains("is there already"), "{why}");
    let again = join(&here, "edge-1", &token, true).expect("joined");
    assert_eq!((again.generation, venue.row("edge-1")["issued"].as_u64()), (2, Some(2)));

    // Revoked by an operator whose files know nothing of it, it is out all the same.
    venue.operate(&Operation::Revoke { node: "edge-1".to_string(), generation: 1 });
    assert_eq!(venue.row("edge-1")["revoked"], 2);
    venue.wait("edge-1", "revoked");
    // Its ports are the next one's.
    let why = venue.ended().expect_err("it is revoked");
    assert!(matches!(&why, Failure::Refused(text) if text.contains("revoked")), "{why}");
    assert!(venue.refused(&there, "edge-1", &token).contains("no token was given"));
    let another = venue.token("edge-1", HOUR);
    assert_eq!(join(&there, "edge-1", &another, false).expect("joined").generation, 3);
    venue.start(&there, "edge-1");
    venue.wait("edge-1", "up");
}

#[test]
fn whoever_may_not_join_is_told_why_and_the_token_stays_good() {
    let mut venue = Venue::new("not", 1);
    venue.start_roots();
    let usage = |of: Result<Outcome, Failure>| match of {
        Err(Failure::Usage(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("joined"),
    };
    let token = venue.token("edge-2", HOUR);
    let here = venue.machine("here");
    let why = usage(join(&here, "edge-1", &token, false));
    assert!(why.contains("it is for edge-2, and this is edge-1"), "{why}");

    // By a file in which the names have changed places: the roots know better.
    let text = std::fs::read_to_string(&here.path).expect("read");
    let swapped = text.replace("edge-1", "edge-x").replace("edge-2", "edge-1");
    let swapped = ClusterFile::parse(&here.path, &swapped.replace("edge-x", "edge-2"));
    let swapped = swapped.expect("a file");
    let why = venue.refused(&swapped, "edge-1", &token);
    assert!(why.contains("the token is for edge-2, and it calls itself \"edge-1\""), "{why}");

    let other = text.replace(&format!("{:016x}", venue.file.id), "00000000000000a7");
    let other = ClusterFile::parse(&here.path, &other).expect("a file");
    let why = join(&other, "edge-2", &Token { ..token.clone() }, false).err().expect("no");
    assert!(why.to_string().contains("no root has answered"), "it is no root of that: {why}");

    let first = venue.token("edge-2", HOUR);
    assert!(
        venue.refused(&here, "edge-2", &token).contains("not the one that was given for it last")
    );
    let wrong = Token { secret: [0; 16], ..first.clone() };
    assert!(venue.refused(&here, "edge-2", &wrong).contains("not the one"));
    let elsewhere = Token { authority: [7; 32], ..first.clone() };
    let why = venue.refused(&here, "edge-2", &elsewhere);
    assert!(why.contains("is not believed"), "{why}");
    let stranger = Token { gate: [7; 32], ..first.clone() };
    let keys = Credentials::folder(&here, "edge-2");
    let joining =
        Joining { file: &here, name: "edge-2", token: &stranger, keys: &keys, replace: false };
    let why = joining.run(Duration::from_millis(300)).err().expect("no").to_string();
    assert!(why.contains("shows the door"), "{why}");
    assert!(venue.status()["joins"]["strangers"].as_u64().is_some_and(|count| count > 0));

    std::fs::write(here.authority_path(), "-----BEGIN NOTHING-----\n").expect("written");
    let why = join(&here, "edge-2", &first, false).err().expect("no").to_string();
    assert!(why.contains("is of another authority"), "{why}");
    std::fs::remove_file(here.authority_path()).expect("removed");

    std::fs::write(here.venue_path(), VENUE.replace("hedge = 0", "hedge = 1")).expect("written");
    assert!(venue.refused(&here, "edge-2", &first).contains("compare venue.toml"));
    std::fs::remove_file(here.venue_path()).expect("removed");

    let none = token::grant(&venue.operator(), "root-1", HOUR, PATIENCE).expect_err("a root");
    assert!(none.to_string().contains("cluster issue"), "{none}");
    let none = token::grant(&venue.operator(), "nobody", HOUR, PATIENCE).expect_err("nobody");
    assert!(none.to_string().contains("no node nobody"), "{none}");

    // All that has changed nothing: it is good, and then it ends.
    join(&here, "edge-2", &first, false).expect("joined");
    let short = venue.token("edge-1", Duration::from_secs(1));
    let ends = venue.row("edge-1")["token"]["ends_ns"].as_u64().expect("a time");
    while Clock::start(0).now().0 < ends + 200_000_000 {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(venue.refused(&here, "edge-1", &short).contains("the token is over"));
    venue.alarm("somebody with a token for edge-1 is refused");
}

/// Hands a connection on, and keeps what the side that opened it says.
fn tap(at: TcpListener, to: std::net::SocketAddr, seen: &Mutex<Vec<u8>>) {
    let (near, _) = at.accept().expect("a connection");
    let far = TcpStream::connect(to).expect("connected");
    let pass = |mut from: &TcpStream, mut to: &TcpStream, seen: Option<&Mutex<Vec<u8>>>| {
        let mut buffer = [0; 4_096];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            if let Some(seen) = seen {
                seen.lock().expect("unpoisoned").extend_from_slice(&buffer[..len]);
            }
            if to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&far, &near, None));
        pass(&near, &far, Some(seen));
    });
}

#[test]
fn a_recorded_join_is_of_no_use_and_has_no_secret_in_it() {
    let mut venue = Venue::new("tap", 1);
    venue.start_roots();
    let token = venue.token("edge-1", HOUR);
    let (_, root) = venue.file.node("root-1").expect("there");
    let door = venue.file.at(root, Port::Control).expect("an address");
    let relay = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = relay.local_addr().expect("an address").port() - Port::Control as u16;
    let mut here = venue.machine("here");
    here.nodes[0].port = Some(port);
    let seen = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| tap(relay, door, &seen));
        join(&here, "edge-1", &token, false).expect("joined");
    });
    let seen = seen.into_inner().expect("unpoisoned");
    let has = |part: &[u8]| seen.windows(part.len()).any(|window| window == part);
    assert!(seen.len() > 500 && !has(&token.secret) && !has(b"CERTIFICATE REQUEST"));
    let before = venue.status();
    let mut again = TcpStream::connect(door).expect("connected");
    again.set_read_timeout(Some(PATIENCE)).expect("set");
    again.write_all(&seen).expect("sent");
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    assert_eq!(answer.len(), 32, "the gate's challenge, and no more");
    let after = venue.status();
    assert_eq!(after["joins"]["signed"], before["joins"]["signed"]);
    let strangers = |of: &Value| of["joins"]["strangers"].as_u64().expect("a count");
    assert_eq!(strangers(&after), strangers(&before) + 1);
}

#[test]
fn ten_thousand_wrong_tokens_are_counted_and_keep_nobody_out() {
    const AT_GATE: u64 = 9_000;
    const IN_TLS: u64 = 1_000;
    let mut venue = Venue::new("crowd", 1);
    venue.start_roots();
    let (wrong, good) = (venue.token("edge-2", HOUR), venue.token("edge-1", HOUR));
    let (_, root) = venue.file.node("root-1").expect("there");
    let door = venue.file.at(root, Port::Control).expect("an address");
    let crowds = [venue.machine("crowd-1"), venue.machine("crowd-2")];
    let here = venue.machine("here");
    let wrong = Token { secret: [1; 16], ..wrong };
    let (at_gate, in_tls) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for crowd in &crowds {
            scope.spawn(|| {
                while at_gate.fetch_add(1, Ordering::Relaxed) < AT_GATE {
                    let mut stream = TcpStream::connect(door).expect("connected");
                    let mut nonce = [0; 32];
                    // Some have to give up their places for others: they come again.
                    while stream.read_exact(&mut nonce).is_err()
                        || stream.write_all(&[9; 34]).is_err()
                    {
                        stream = TcpStream::connect(door).expect("connected");
                    }
                    let _ = stream.read(&mut nonce);
                }
            });
            let (in_tls, wrong) = (&in_tls, &wrong);
            scope.spawn(move || {
                while in_tls.fetch_add(1, Ordering::Relaxed) < IN_TLS {
                    let why = join(crowd, "edge-2", wrong, false).err().expect("a wrong token");
                    assert!(why.to_string().contains("not the one"), "{why}");
                }
            });
        }
        while at_gate.load(Ordering::Relaxed) < AT_GATE / 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        join(&here, "edge-1", &good, false).expect("joined");
        venue.start(&here, "edge-1");
        venue.wait("edge-1", "up");
    });
    let joins = venue.status()["joins"].clone();
    assert_eq!((joins["signed"].as_u64(), joins["refused"].as_u64()), (Some(1), Some(IN_TLS)));
    // Whoever had to go before his answer was read was not counted.
    assert!(joins["strangers"].as_u64().is_some_and(|count| count > AT_GATE * 9 / 10), "{joins}");
    assert_eq!((venue.is_up("root-1"), venue.is_up("edge-1")), (true, true));
    assert_eq!(venue.alarm("edge-2 is refused"), 1, "one alarm for all of them");
}

impl Venue {
    /// Waits until an alarm at the root has some text; how many have it.
    fn alarm(&self, text: &str) -> usize {
        let since = Instant::now();
        loop {
            let row = self.row("root-1");
            let all = row["health"]["alarms"].as_array().cloned().unwrap_or_default();
            let with = |one: &&Value| one.as_str().is_some_and(|one| one.contains(text));
            match all.iter().filter(with).count() {
                0 => assert!(since.elapsed() < PATIENCE, "no alarm {text}: {all:?}"),
                some => return some,
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn is_up(&self, name: &str) -> bool {
        self.row(name)["is"] == "up"
    }
}

/// Whether a client that trusts `authority` believes who shows this to be `name`; how many certificates
/// were shown.
fn is_believed(authority: &Authority, (chain, key): (&str, &str), name: &str) -> Option<usize> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let at = listener.local_addr().expect("an address");
    let own = net::Identity { chain: chain.as_bytes(), key: key.as_bytes() };
    let server = net::ServerTls::new(own, net::Clients::Any).expect("TLS");
    let client = net::ClientTls::new(authority.pair.certificate.as_bytes(), name, None);
    let (client, until) = (client.expect("TLS"), Instant::now() + PATIENCE);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (stream, _) = listener.accept().expect("a connection");
            let _ = server.accept(Arc::new(stream), until);
        });
        let stream = TcpStream::connect(at).expect("connected");
        let sealed = client.connect(Arc::new(stream), until).ok()?;
        Some(sealed.certificates_shown())
    })
}

#[test]
fn an_issuing_key_signs_for_nodes_and_neither_for_roots_nor_for_who_signs_further() {
    let authority = Authority::new("authority").expect("an authority");
    let deputy =
        authority.deputy("issuer", &["group-7.fairbell".to_string()], 30).expect("a deputy");
    let chain = deputy.certificate.clone();
    let issuer = Authority::again("issuer", deputy).expect("the same");
    let key = fresh_key().expect("a key");
    let asked = Request::read(&request(&key, "edge-1").expect("a request")).expect("a request");
    let signed = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
        issuer.sign_request(&asked, "edge-1", &hosts, 30).expect("signed") + &chain
    };
    let believed = |hosts: &[&str], name| is_believed(&authority, (&signed(hosts), &key), name);
    assert_eq!(believed(&["edge-1.example"], "edge-1.example"), Some(2));
    assert_eq!(believed(&["edge-1.example"], "edge-2.example"), None);
    assert_eq!(believed(&["replica-1.group-7.fairbell"], "replica-1.group-7.fairbell"), None);
    let own = authority.sign("r", &["replica-1.group-7.fairbell".to_string()], End::Both);
    let own = own.expect("signed");
    let direct = (&own.certificate[..], &own.key[..]);
    assert_eq!(is_believed(&authority, direct, "replica-1.group-7.fairbell"), Some(1));
    // Whoever was signed for signs nobody.
    let further = issuer.deputy("further", &["none.example".to_string()], 30).expect("made");
    let last = Authority::again("further", further).expect("the same");
    let last_chain = last.sign_request(&asked, "x", &["x.example".to_string()], 30);
    let all = last_chain.expect("signed") + &last.pair.certificate + &chain;
    assert_eq!(is_believed(&authority, (&all, &key), "x.example"), None);
}
