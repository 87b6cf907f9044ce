//! A venue of three processes on loopback: participants that subscribe to its feed have the same books,
//! also those whose edge dies while orders come; and all of it is restarted, machine by machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

#[allow(dead_code)]
mod common;
#[path = "../../host/tests/common/ports.rs"]
mod ports;
use common::{Running, number};
use ports::free_ports;

const PATIENCE: Duration = Duration::from_secs(30);
const NODES: [&str; 3] = ["root-1", "edge-1", "edge-2"];

/// A folder for one test; gone with it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

fn fairbell(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Makes the venue's files: all machines on loopback, 16 ports apart. The accounts' password.
fn found(scratch: &Scratch, first: u16) -> String {
    let out = scratch.at("cluster");
    let made = fairbell(&[
        "cluster", "init", "--name", "lab", "--roots", "1", "--edges", "2", "--depth", "1",
        "--fanout", "1", "--out", &out,
    ]);
    succeeded(made);
    let path = Path::new(&out).join("cluster.toml");
    let mut text = std::fs::read_to_string(&path).expect("a file");
    for (name, port) in NODES.iter().zip((first..).step_by(16)) {
        let mut own = format!("address = \"127.0.0.1\"\nport = {port}");
        if name.starts_with("edge") {
            own += &format!("\nring = \"{}\"", scratch.at("rings"));
        }
        text = text.replace(&format!("address = \"{name}\""), &own);
    }
    std::fs::write(&path, text).expect("written");
    let cluster = path.display().to_string();
    succeeded(fairbell(&["cluster", "issue", "--all", "--cluster", &cluster]));
    let venue = std::fs::read_to_string(path.with_file_name("venue.toml")).expect("a file");
    let line = venue.lines().find(|line| line.starts_with("password")).expect("a password");
    line.split('"').nth(1).expect("in quotes").to_string()
}

fn succeeded(mut command: Command) {
    let output = command.output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{command:?}: {stderr}");
}

fn start(mut command: Command) -> Running {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(piped.spawn().expect("it starts"))
}

/// The last document of a process that has to end by itself with 0.
fn last(running: &mut Running) -> Value {
    let (code, stdout, stderr) = ended(&mut running.0);
    assert_eq!(code, Some(0), "{stderr}");
    let line = stdout.lines().last().expect("a line").to_string();
    serde_json::from_str(&line).expect("a document")
}

fn ended(child: &mut Child) -> (Option<i32>, String, String) {
    use std::io::Read;
    let (mut stdout, mut stderr) = (String::new(), String::new());
    let code = child.wait().expect("it ends").code();
    let read = |from: Option<&mut dyn Read>, into: &mut String| {
        let _ = from.map(|from| from.read_to_string(into));
    };
    read(child.stdout.as_mut().map(|of| of as &mut dyn Read), &mut stdout);
    read(child.stderr.as_mut().map(|of| of as &mut dyn Read), &mut stderr);
    (code, stdout, stderr)
}

#[test]
fn subscribers_build_the_same_books_and_one_goes_on_when_its_edge_dies() {
    let name = format!("fairbell-subscribe-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&scratch.0).expect("a folder");
    let first = free_ports(49);
    let password = found(&scratch, first);
    let (cluster, ca) = (scratch.at("cluster/cluster.toml"), scratch.at("cluster/authority.pem"));
    let mut nodes: Vec<Running> = (NODES.iter())
        .map(|name| {
            let dir = scratch.at(name);
            std::fs::create_dir_all(&dir).expect("a folder");
            let mut node =
                fairbell(&["node", "--cluster", &cluster, "--name", name, "--dir", &dir]);
            node.stdout(Stdio::null()).stderr(Stdio::null());
            Running(node.spawn().expect("it starts"))
        })
        .collect();
    let at = |edge: u16, port: u16| format!("127.0.0.1:{}", first + 16 * edge + port);
    let doors = [at(1, 14), at(2, 14)];
    let tls = ["--tls", "--ca", &ca, "--server-name", "lab"];
    let login = |account: u32| format!("TEST0{account}:{password}");
    let subscribe = |account: u32, addresses: &[&str], more: &[&str]| {
        let login = login(account);
        let asked = addresses.iter().flat_map(|at| ["--address", at]);
        let args = ["subscribe", "--json", "--login", &login].into_iter().chain(asked);
        let args: Vec<&str> = args.chain(tls).chain(more.iter().copied()).collect();
        fairbell(&args)
    };
    // Both edges are up once each names both.
    let (since, mut at_door) = (Instant::now(), 0);
    while at_door < doors.len() {
        let output = subscribe(1, &[&doors[at_door]], &["--edges"]).output().expect("it runs");
        let named = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        if named["edges"].as_array().is_some_and(|edges| edges.len() == 2) {
            at_door += 1;
            continue;
        }
        assert!(since.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(300));
    }
    let refused = fairbell(
        &["subscribe", "--login", "TEST01:wrong", "--address", &doors[0]]
            .into_iter()
            .chain(tls)
            .collect::<Vec<_>>(),
    )
    .output()
    .expect("it runs");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && why.contains("login is refused"), "{why}");
    let load_login = format!("TEST0{{n}}:{password}");
    let play = |doors: &[&str], more: &[&str]| {
        let args = ["load", "--json", "--protocol", "ouch", "--login", &load_login];
        let args = args.into_iter().chain(tls).chain(doors.iter().copied());
        let market = ["--symbol", "BTCUSD", "--price", "78000", "--tick", "1", "--first", "5"];
        fairbell(&args.chain(market).chain(more.iter().copied()).collect::<Vec<_>>())
    };
    // Idle edges get as many clients each, whichever is asked; the first door is nobody's.
    let nobody = at(0, 14);
    let least = ["--least-loaded", &nobody, "--least-loaded", &doors[1]];
    let few = ["--clients", "4", "--rate", "100", "--duration", "1s", "--warmup", "1ms"];
    let output = play(&least, &few).output().expect("it runs");
    let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    let played: Value = serde_json::from_slice(stdout).unwrap_or_else(|_| panic!("{stderr}"));
    let begun = played["doors"].as_array().expect("doors").iter();
    let begun: Vec<(String, u64)> = begun
        .map(|of| (of["address"].as_str().expect("text").to_string(), number(of, "clients")))
        .collect();
    assert_eq!(begun, [(at(1, 10), 2), (at(2, 10), 2)], "{stderr}");
    let time = ["--duration", "10s"];
    let mut moving = start(subscribe(1, &[&doors[0], &doors[1]], &time));
    let mut staying = start(subscribe(2, &[&doors[1]], &time));
    let mut in_ring =
        start(subscribe(3, &[&doors[0], &doors[1]], &["--ring", "--duration", "10s"]));
    let entry = at(2, 10);
    let two = ["--clients", "2", "--rate", "200", "--duration", "5s"];
    let mut load = start(play(&["--address", &entry], &two));
    std::thread::sleep(Duration::from_secs(3));
    // Killed: nobody there says goodbye.
    drop(nodes.remove(1));
    let (code, _, stderr) = ended(&mut load.0);
    assert_eq!(code, Some(0), "{stderr}");
    // Its orders are told by participant.
    let status = fairbell(&["cluster", "status", "--json", "--cluster", &cluster]).output();
    let status: Value = serde_json::from_slice(&status.expect("it runs").stdout).expect("JSON");
    let accounts = status["fairness"]["orders"]["accounts"].as_array().expect("a list");
    let told: Vec<_> = accounts.iter().map(|of| (number(of, "account"), &of["name"])).collect();
    assert!(
        told.contains(&(5, &"TEST05".into())) && told.contains(&(6, &"TEST06".into())),
        "{told:?}"
    );
    assert!(accounts.iter().any(|of| number(of, "orders") > 100), "{accounts:?}");
    let (moved, stayed, read) = (last(&mut moving), last(&mut staying), last(&mut in_ring));
    assert_eq!((number(&moved, "subscriptions"), number(&stayed, "subscriptions")), (2, 1));
    let rings = ["subscriptions", "rings", "ring_lost"].map(|of| number(&read, of));
    assert!(rings == [2, 2, 0] && number(&read, "ring_packets") > 100, "{read}");
    assert_eq!((number(&moved, "rings"), number(&moved, "ring_packets")), (0, 0), "{moved}");
    assert_eq!(moved["edge"], Value::String(doors[1].clone()));
    assert!(number(&moved, "messages") > 500, "{moved}");
    for same in ["next", "books", "orders", "messages"] {
        assert_eq!(moved[same], stayed[same], "{same}: {moved} {stayed}");
        assert_eq!(read[same], stayed[same], "{same}: {read} {stayed}");
    }
    for none in ["image_errors", "parse_errors"] {
        let all = [&moved, &stayed, &read].map(|of| number(of, none));
        assert_eq!(all, [0; 3], "{none}");
    }
    assert!(number(&moved, "repaired") > number(&stayed, "repaired"), "{moved} {stayed}");
}

/// Processes whose ids are in files of a folder; they end with it.
struct Started<'a>(&'a Scratch);

impl Started<'_> {
    fn id(&self, name: &str) -> Option<i32> {
        let text = std::fs::read_to_string(self.0.at(&format!("{name}.pid"))).ok()?;
        text.trim().parse().ok()
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let ids = NODES.iter().filter_map(|name| self.id(name));
        for id in ids.filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::KILL);
        }
    }
}

#[test]
fn all_machines_are_restarted_one_after_another_and_one_that_stays_away_stops_that() {
    let name = format!("fairbell-upgrade-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&scratch.0).expect("a folder");
    found(&scratch, free_ports(49));
    let cluster = scratch.at("cluster/cluster.toml");
    let (program, dir) = (env!("CARGO_BIN_EXE_fairbell"), scratch.at("."));
    // Ends the process there was, and starts another one that outlives this shell.
    let script = format!(
        "cd {dir}\nif [ -f $1.pid ]; then kill $(cat $1.pid); while kill -0 $(cat $1.pid) 2>/dev/null; \
         do sleep 0.05; done; fi\n{program} node --cluster {cluster} --name $1 --dir $1 >>$1.log 2>&1 \
         </dev/null &\necho $! >$1.pid\n"
    );
    std::fs::write(scratch.at("again.sh"), script).expect("written");
    let again = scratch.at("again.sh");
    let started = Started(&scratch);
    for node in NODES {
        let done = Command::new("sh").args([&again, node]).status().expect("it runs");
        assert!(done.success());
    }
    let upgrade = |more: &[&str]| {
        let args = ["cluster", "upgrade", "--cluster", &cluster].into_iter();
        fairbell(&args.chain(more.iter().copied()).collect::<Vec<_>>()).output().expect("it runs")
    };
    let dry = upgrade(&["--dry-run", "--run", ""]);
    assert_eq!(String::from_utf8_lossy(&dry.stdout), "edge-1\nedge-2\nroot-1\n");
    let run = format!("sh {again} $NODE");
    let (since, before) = (Instant::now(), NODES.map(|node| started.id(node)));
    // Not before all are up.
    let done = loop {
        let output = upgrade(&["--run", &run]);
        if output.status.success() {
            break output;
        }
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(why.contains("is not up") || why.contains("no root did it"), "{why}");
        assert!(since.elapsed() < PATIENCE, "{why}");
        std::thread::sleep(Duration::from_millis(300));
    };
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let order: Vec<&str> = said.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(order, ["1/3 edge-1", "2/3 edge-2", "3/3 root-1"], "{said}");
    let after = NODES.map(|node| started.id(node));
    assert!(before.iter().zip(&after).all(|(old, new)| old != new), "{before:?} {after:?}");
    // Control: nothing was started again, and edge-2's turn does not come.
    let stuck = upgrade(&["--patience", "2s", "--run", "true"]);
    let why = String::from_utf8_lossy(&stuck.stderr).into_owned();
    assert!(!stuck.status.success() && why.contains("edge-1 is not up again after 2 s"), "{why}");
    let failing = upgrade(&["--run", "exit 7", "edge-2"]);
    let why = String::from_utf8_lossy(&failing.stderr).into_owned();
    assert!(!failing.status.success() && why.contains("edge-2: exit 7"), "{why}");
}

/// Rows that `fairbell query ticks` finds.
fn ticks(dir: &str, more: &[&str]) -> Value {
    let args = [&["query", "ticks", "--json", "--limit", "0", "--dir", dir], more].concat();
    common::document(&fairbell(&args).output().expect("it runs"))
}

#[test]
fn a_plant_hears_the_venue_from_two_edges_and_goes_on_without_one() {
    let name = format!("fairbell-plant-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    std::fs::create_dir_all(&scratch.0).expect("a folder");
    let first = free_ports(49);
    let password = found(&scratch, first);
    let (cluster, ca) = (scratch.at("cluster/cluster.toml"), scratch.at("cluster/authority.pem"));
    let node = |name: &str| {
        let dir = scratch.at(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        let mut node = fairbell(&["node", "--cluster", &cluster, "--name", name, "--dir", &dir]);
        node.stdout(Stdio::null()).stderr(Stdio::null());
        Running(node.spawn().expect("it starts"))
    };
    let mut nodes: Vec<Running> = NODES.iter().map(|name| node(name)).collect();
    let at = |edge: u16, port: u16| format!("127.0.0.1:{}", first + 16 * edge + port);
    let doors = [at(1, 14), at(2, 14)];
    let tls = ["--tls", "--ca", &ca, "--server-name", "lab"];
    let login = |account: u32| format!("TEST0{account}:{password}");
    let since = Instant::now();
    loop {
        let own = login(1);
        let asked = ["subscribe", "--json", "--login", &own, "--address", &doors[0], "--edges"];
        let output = fairbell(&[&asked[..], &tls].concat()).output().expect("it runs");
        let named = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
        if named["edges"].as_array().is_some_and(|edges| edges.len() == 2) {
            break;
        }
        assert!(since.elapsed() < 4 * PATIENCE, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(300));
    }
    let (ring, dir, killed) = (scratch.at("ring"), scratch.at("ticks"), scratch.at("killed"));
    let desk = format!("127.0.0.1:{}", first + 48);
    let own = login(1);
    let serve =
        ["feed", "serve", "--json", "--login", &own, "--venue", &doors[0], "--venue", &doors[1]];
    let plant = |more: &[&str]| fairbell(&[&serve[..], &tls, more].concat());
    let wrong =
        ["feed", "serve", "--venue", &doors[0], "--login", "TEST01:wrong", "--desk", "127.0.0.1:0"];
    let refused = fairbell(&[&wrong[..], &tls].concat()).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let mut whole =
        start(plant(&["--desk", &desk, "--ring", &ring, "--ticks", &dir, "--seconds", "14"]));
    let mut short = start(plant(&["--desk", "127.0.0.1:0", "--ticks", &killed]));
    let other = login(2);
    let alone =
        ["subscribe", "--json", "--login", &other, "--address", &doors[1], "--duration", "13s"];
    let mut alone = start(fairbell(&[&alone[..], &tls].concat()));
    let since = Instant::now();
    while !Path::new(&ring).exists() {
        let ended = whole.0.try_wait().expect("a process").is_some();
        assert!(!ended, "the plant: {:?}", last(&mut whole));
        assert!(since.elapsed() < PATIENCE, "the plant makes no ring");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut reader = start(fairbell(&[
        "feed",
        "subscribe",
        "--json",
        "--count",
        "--seconds",
        "12",
        "--ring",
        &ring,
    ]));
    let (load_login, entry) = (format!("TEST0{{n}}:{password}"), at(2, 10));
    let flow = [
        "load",
        "--json",
        "--protocol",
        "ouch",
        "--address",
        &entry,
        "--login",
        &load_login,
        "--first",
        "5",
        "--clients",
        "2",
        "--symbol",
        "BTCUSD",
        "--price",
        "78000",
        "--tick",
        "1",
        "--rate",
        "200",
        "--duration",
        "6s",
    ];
    let mut load = start(fairbell(&[&flow[..], &tls].concat()));
    std::thread::sleep(Duration::from_secs(3));
    // Killed, like the edge that is side A.
    let _ = short.0.kill();
    let _ = short.0.wait();
    drop(nodes.remove(1));
    let (code, _, stderr) = ended(&mut load.0);
    assert_eq!(code, Some(0), "{stderr}");
    let read = last(&mut reader);
    let stayed = last(&mut alone);
    let (code, stdout, stderr) = ended(&mut whole.0);
    assert_eq!(code, Some(0), "{stderr}");
    let told: Value = serde_json::from_str(&stdout).expect("a document");
    let stream = &told["streams"][0];
    assert_eq!(
        (stream["messages"].clone(), stream["next"].clone()),
        (stayed["messages"].clone(), stayed["next"][0].clone()),
        "{told} {stayed}"
    );
    assert!(number(stream, "messages") > 500, "{told}");
    for none in ["image_errors", "parse_errors", "malformed"] {
        assert_eq!(number(stream, none), 0, "{none}: {told}");
    }
    assert!(
        number(&stream["a"], "packets") > 100 && number(&stream["b"], "packets") > 100,
        "{told}"
    );
    let best = |of: &Value| -> Vec<Value> {
        let books = of["books"].as_array().expect("books").iter();
        books.map(|book| serde_json::json!([book["symbol"], book["bid"], book["offer"]])).collect()
    };
    assert_eq!(best(&told), best(&stayed));
    // What was told is in the ring, in the files, and the last quote is the book's.
    let updates = number(&told, "updates");
    assert_eq!(
        (number(&told, "ring_records"), number(&told["ticks"], "written")),
        (updates, updates)
    );
    assert!(
        number(&read, "trades") > 20 && read["lost"] == 0 && read["out_of_order"] == 0,
        "{read}"
    );
    let found = ticks(&dir, &[]);
    assert_eq!(number(&found, "found"), updates);
    let dead = ticks(&dir, &["--kind", "side_dead"]);
    assert_eq!(
        (number(&dead, "found"), &dead["rows"][0]["participant"]),
        (1, &Value::from("A")),
        "{dead}"
    );
    let quotes = ticks(&dir, &["--kind", "quote", "--symbol", "BTCUSD"]);
    let quote = quotes["rows"].as_array().and_then(|rows| rows.last()).expect("a quote").clone();
    assert_eq!(
        (&quote["bid"], &quote["bid_size"]),
        (&told["books"][0]["bid"]["price"], &told["books"][0]["bid"]["lots"]),
        "{quote} {told}"
    );
    // The other plant was killed in the middle: what it had written can be read.
    let left = ticks(&killed, &[]);
    assert!(number(&left, "found") > 20 && number(&left, "found") < updates, "{left}");
    let open = std::fs::read_dir(&killed).expect("a folder").flatten();
    assert!(open.into_iter().any(|entry| entry.path().extension().is_some_and(|of| of == "open")));
}
