//! Commands of a fleet as an operator runs them, with processes on loopback: too few roots are whole, a
//! machine joins, a bundle is made.

mod common;
#[path = "../../host/tests/common/ports.rs"]
mod ports;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Running, document, number};
use ports::free_ports;
use serde_json::Value;

const VENUE: &str = "[overlay]\ndepth = 1\nfanout = 1\nreceivers = 1\nhedge = 0\n\n[engine]\n\
                     open_orders_max = 1000\n\n[memory]\nrepair_mib = 1\n\n[journal]\nsegment_mib = \
                     2\n\n[day]\nauctions = false\n";
const PATIENCE: Duration = Duration::from_secs(60);
const FAIRBELL: &str = env!("CARGO_BIN_EXE_fairbell");

/// A venue of three roots and an edge, in a folder that goes with it.
struct Fleet(PathBuf);

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Fleet {
    /// As the documents say: init, addresses, issue.
    fn new(name: &str) -> Fleet {
        Fleet::made(name, &["--roots", "3"], 16)
    }

    /// With these options of init, and so many ports a node.
    fn made(name: &str, options: &[&str], each: u16) -> Fleet {
        let dir = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a folder");
        let fleet = Fleet(dir);
        let account = |number: u8| {
            format!(
                "\n[[account]]\nname = \"n{number}\"\nusername = \"TEST0{number}\"\npassword = \"sesame-9\"\n"
            )
        };
        let text = VENUE.to_string() + &(1..=8).map(account).collect::<String>();
        std::fs::write(fleet.at("my-venue.toml"), text).expect("written");
        let (out, venue) = (fleet.at("cluster"), fleet.at("my-venue.toml"));
        let mut init = Command::new(FAIRBELL);
        init.args(["cluster", "init", "--name", "lab"]).args(options);
        let made = init.arg("--venue").arg(&venue).arg("--out").arg(&out).output();
        let made = made.expect("it runs");
        assert!(made.status.success(), "{}", said(&made));
        let text = std::fs::read_to_string(fleet.file()).expect("read");
        let mut port = free_ports(64);
        let mut lines = Vec::new();
        for line in text.lines() {
            if line.starts_with("address = ") {
                lines.push(format!("address = \"127.0.0.1\"\nport = {port}"));
                port += each;
            } else {
                lines.push(line.to_string());
            }
        }
        std::fs::write(fleet.file(), lines.join("\n") + "\n").expect("written");
        let issued = fleet.cluster(&["issue", "--all"]);
        assert!(issued.status.success(), "{}", said(&issued));
        fleet
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self) -> PathBuf {
        self.at("cluster/cluster.toml")
    }

    /// A command of the cluster.
    fn cluster(&self, args: &[&str]) -> Output {
        let mut command = Command::new(FAIRBELL);
        command.arg("cluster").args(args).arg("--cluster").arg(self.file());
        command.output().expect("it runs")
    }

    fn start(&self, name: &str) -> Running {
        self.start_with(&self.file(), name)
    }

    fn start_with(&self, file: &Path, name: &str) -> Running {
        let mut log = std::fs::OpenOptions::new();
        let log = log.create(true).append(true).open(self.at(&format!("{name}.log")));
        let log = log.expect("a log");
        let mut command = Command::new(FAIRBELL);
        command
            .args(["node", "--metrics", "127.0.0.1:0", "--name", name, "--dir"])
            .arg(self.at(name));
        command.arg("--cluster").arg(file).stdout(Stdio::null()).stderr(log);
        Running(command.spawn().expect("it starts"))
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(&format!("{name}.log"))).unwrap_or_default()
    }

    /// The page of metrics of a machine.
    fn metrics(&self, name: &str) -> String {
        let log = self.log(name);
        let at = log.lines().rev().find_map(|line| line.split("metrics: http://").nth(1));
        let at = at.and_then(|at| at.strip_suffix("/metrics")).expect("an address");
        let mut stream = TcpStream::connect(at).expect("a connection");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("a page");
        page
    }

    fn status(&self) -> Option<Value> {
        let output = self.cluster(&["status", "--json"]);
        output.status.success().then(|| document(&output))
    }

    /// Waits until the status is as it should be.
    fn wait(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status();
            if let Some(status) = status.as_ref().filter(|status| is(status)) {
                return status.clone();
            }
            let logs = ["root-1", "root-2", "root-3", "edge-1"].map(|name| self.log(name));
            assert!(since.elapsed() < PATIENCE, "not {what}: {status:?}\n{}", logs.join("\n"));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn recover(&self, args: &[&str]) -> Output {
        let mut command = Command::new(FAIRBELL);
        command.args(["cluster", "recover", "--cluster"]).arg(self.file());
        command.current_dir(&self.0).args(args).output().expect("it runs")
    }

    /// What a refused order says; nothing was changed by it.
    fn refused(&self, args: &[&str], code: i32) -> String {
        let output = self.recover(args);
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        said(&output)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

fn is_up(status: &Value, name: &str) -> bool {
    let rows = status["nodes"].as_array().expect("rows");
    rows.iter().any(|row| row["node"] == name && row["is"] == "up")
}

fn has_all(status: &Value) -> bool {
    let behind = status["behind"].as_array().expect("a list");
    behind.iter().all(|lacks| lacks.as_u64().is_some_and(|lacks| lacks == 0))
}

/// Changes a byte in the middle of what was written of a root's log.
fn damage(dir: &Path) {
    let logs = std::fs::read_dir(dir).expect("a folder").flatten().map(|one| one.path());
    let mut logs: Vec<PathBuf> = logs
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"))
        })
        .collect();
    logs.sort();
    let mut bytes = std::fs::read(&logs[0]).expect("read");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("something");
    bytes[used / 2 / 4_096 * 4_096 + 20] ^= 0x40;
    std::fs::write(&logs[0], &bytes).expect("written");
}

#[test]
fn two_of_three_disks_are_lost_and_the_third_ones_log_counts_by_an_operators_word() {
    let fleet = Fleet::new("recover");
    let roots = ["root-1", "root-2", "root-3"];
    let mut running: Vec<Running> = roots.iter().map(|name| fleet.start(name)).collect();
    fleet.wait("up", |status| roots.iter().all(|name| is_up(status, name)));
    for _ in 0..3 {
        assert!(fleet.cluster(&["rotate"]).status.success());
    }
    let before = fleet.wait("whole", |status| has_all(status) && status["key_epoch"] == 3);
    let term = number(&before, "term");

    // Two machines are lost: one's disk is gone, the other's log is damaged.
    drop(running.drain(..2).collect::<Vec<_>>());
    std::fs::remove_dir_all(fleet.at("root-1")).expect("gone");
    damage(&fleet.at("root-2/journal"));
    // A leader finds out after a while that nobody follows.
    let since = Instant::now();
    while fleet.status().is_some() {
        assert!(since.elapsed() < PATIENCE, "one of three leads nobody");
    }

    // Orders that are wrong are refused, and change nothing.
    let whole = ["--name", "root-3", "--dir", "root-3", "--from", "root-3", "--accept-loss"];
    let why = fleet.refused(&whole, 1);
    assert!(why.contains("root-3"), "it runs: {why}");
    drop(running.pop());
    let why = fleet.refused(&whole, 1);
    assert!(why.contains("is whole, and in no doubt"), "{why}");
    let why = fleet.refused(&["--name", "root-1", "--dir", "root-1", "--from", "root-3"], 1);
    assert!(why.contains("no such folder"), "{why}");
    let gone = ["--name", "root-1", "--dir", "root-1", "--from", "root-3", "--disk-gone"];
    let why = fleet.refused(&gone, 1);
    assert!(why.contains("--accept-loss does it") && why.contains("its disk is gone"), "{why}");
    let second = ["--name", "root-2", "--dir", "root-2", "--from", "root-3"];
    let why = fleet.refused(&[&second[..], &["--disk-gone", "--accept-loss"]].concat(), 1);
    assert!(why.contains("holds a journal"), "{why}");
    let why = fleet.refused(&[&second[..], &["--compare", "root-3"]].concat(), 1);
    assert!(why.contains("its log is damaged") && why.contains("root-3 has it up to"), "{why}");
    let why = fleet.refused(&["--name", "edge-1", "--dir", "x", "--from", "root-3"], 2);
    assert!(why.contains("edge-1 is no root"), "{why}");
    let why = fleet.refused(&["--name", "root-1", "--dir", "x", "--from", "root-9"], 2);
    assert!(why.contains("no node root-9"), "{why}");

    // The right ones; the two that are in doubt elect nobody by themselves.
    let done = fleet.recover(&[&gone[..], &["--accept-loss", "--json"]].concat());
    assert_eq!(document(&done)["from"], 3);
    let done = fleet.recover(&[&second[..], &["--accept-loss"]].concat());
    assert!(done.status.success() && said(&done).contains("elects root-3 and nobody else"));
    let mut running: Vec<Running> = roots[..2].iter().map(|name| fleet.start(name)).collect();
    for _ in 0..2 {
        assert!(fleet.status().is_none(), "they elect nobody but root-3");
    }
    running.push(fleet.start("root-3"));
    let after =
        fleet.wait("up", |status| roots.iter().all(|name| is_up(status, name)) && has_all(status));
    assert_eq!((after["key_epoch"].as_u64(), after["leader"].as_u64()), (Some(3), Some(3)));
    assert!(after["term"].as_u64().is_some_and(|now| now > term + 65_536), "{after}");

    // They have the log again: without root-3 they go on.
    drop(running.pop());
    let without = fleet.wait("led", |status| is_up(status, "root-1") && is_up(status, "root-2"));
    assert_eq!(without["key_epoch"], 3);
    assert!(fleet.cluster(&["rotate"]).status.success());
}

#[test]
fn an_empty_machine_joins_by_a_token_and_a_bundle_has_no_key_in_it() {
    let fleet = Fleet::new("join");
    let mut running: Vec<Running> =
        ["root-1", "root-2", "root-3"].iter().map(|name| fleet.start(name)).collect();
    fleet.wait("led", |status| is_up(status, "root-1"));
    let none = fleet.cluster(&["token", "root-2"]);
    assert!(!none.status.success() && said(&none).contains("cluster issue"), "{}", said(&none));
    let token = fleet.cluster(&["token", "edge-1", "--valid", "10m"]);
    assert!(token.status.success(), "{}", said(&token));
    std::fs::write(fleet.at("edge-1.token"), &token.stdout).expect("written");
    let machine = fleet.at("machine");
    std::fs::create_dir_all(&machine).expect("a folder");
    let file = machine.join("cluster.toml");
    std::fs::copy(fleet.file(), &file).expect("copied");
    let join = || {
        let mut command = Command::new(FAIRBELL);
        command.args(["cluster", "join", "--name", "edge-1", "--token-file", "edge-1.token"]);
        command.current_dir(&fleet.0).arg("--cluster").arg(&file).output().expect("it runs")
    };
    let joined = join();
    assert!(joined.status.success(), "{}", said(&joined));
    let again = join();
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
    assert!(said(&again).contains("--replace"), "{}", said(&again));
    std::fs::remove_dir_all(machine.join("keys")).expect("removed");
    let again = join();
    assert_eq!(again.status.code(), Some(4), "{}", said(&again));
    assert!(said(&again).contains("used already"), "{}", said(&again));
    let token = fleet.cluster(&["token", "edge-1"]);
    std::fs::write(fleet.at("edge-1.token"), &token.stdout).expect("written");
    assert!(join().status.success());
    running.push(fleet.start_with(&file, "edge-1"));
    fleet.wait("joined", |status| is_up(status, "edge-1"));

    // Each machine has its own nodes' metrics, and the leader those of the venue.
    let pages = ["root-1", "root-2", "root-3", "edge-1"].map(|name| fleet.metrics(name));
    let with = |what: &str| pages.iter().filter(|page| page.contains(what)).count();
    assert_eq!(with("fairbell_clock_bound_seconds{"), 4);
    assert_eq!(with("fairbell_replica_term{"), 3);
    for once in [
        "fairbell_replica_leading{machine=\"root-1\",replica=\"1\"} ",
        "fairbell_day_open{",
        "fairbell_fairness_inverted_orders{",
        "fairbell_sessions{machine=\"edge-1\",node=\"1\"} 0",
    ] {
        assert_eq!(with(once), 1, "{once}");
    }

    let bundle = |more: &[&str]| {
        let mut command = Command::new(FAIRBELL);
        command.args(["cluster", "bundle", "--json", "--name", "root-1", "--dir", "root-1"]);
        command.args(["--log", "root-1.log", "--out", "bundle.tar.gz"]).args(more);
        command.current_dir(&fleet.0).arg("--cluster").arg(fleet.file());
        document(&command.output().expect("it runs"))
    };
    let names = |of: &Value, key: &str| -> Vec<String> {
        let list = of[key].as_array().expect("a list").iter();
        list.map(|one| one["name"].as_str().expect("text").to_string()).collect()
    };
    let told = bundle(&[]);
    for name in ["cluster.toml", "status.json", "journal.json", "doctor.json", "logs/root-1.log"] {
        assert!(names(&told, "inside").contains(&name.to_string()), "{name}: {told}");
    }
    assert_eq!(names(&told, "missing"), [""; 0]);
    let unpacked = fleet.at("unpacked");
    std::fs::create_dir_all(&unpacked).expect("a folder");
    let mut tar = Command::new("tar");
    tar.arg("xzf").arg(fleet.at("bundle.tar.gz")).arg("-C").arg(&unpacked);
    assert!(tar.status().expect("tar runs").success());
    let journal = std::fs::read_to_string(unpacked.join("journal.json")).expect("there");
    let journal: Value = serde_json::from_str(&journal).expect("JSON");
    assert_eq!(journal["whole"], true);
    let secret = std::fs::read_to_string(fleet.at("cluster/keys/roots.secret")).expect("read");
    for one in std::fs::read_dir(&unpacked).expect("files").flatten() {
        let text = std::fs::read(one.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let name = one.path();
        assert!(!text.contains(secret.trim()), "{}", name.display());
        assert!(!text.contains("PRIVATE KEY"), "{}", name.display());
        assert!(!text.contains("sesame-9"), "{}", name.display());
    }

    running.clear();
    let told = bundle(&["--patience", "300ms"]);
    assert_eq!(names(&told, "missing"), ["status.json"], "the group is away: {told}");
}

#[test]
fn another_file_is_no_upgrade_and_operators_are_told_whom_to_ask_and_what_is_still_on() {
    let fleet = Fleet::new("operators");
    let names = ["root-1", "root-2", "root-3", "edge-1"];
    let _running: Vec<Running> = names.iter().map(|name| fleet.start(name)).collect();
    let status =
        fleet.wait("up", |status| names.iter().all(|name| is_up(status, name)) && has_all(status));
    let leader = number(&status, "leader");

    // A name that nobody has is the command line's fault, whatever is asked for.
    for args in [&["lead"][..], &["drain"], &["revoke"], &["token"], &["replace"]] {
        let none = fleet.cluster(&[args, &["nobody"]].concat());
        assert_eq!(none.status.code(), Some(2), "{args:?}: {}", said(&none));
        assert!(said(&none).contains("no node nobody"), "{args:?}: {}", said(&none));
    }

    // A file with another node: found before the command is run for anybody.
    let text = std::fs::read_to_string(fleet.file()).expect("read");
    let learner = "\n[[node]]\nname = \"learner-1\"\naddress = \"127.0.0.1\"\nport = 40000\nroles = \
                   [\"learner\"]\n";
    std::fs::write(fleet.file(), text.clone() + learner).expect("written");
    let mark = fleet.at("stopped");
    let run = format!("touch {}; false", mark.display());
    let upgrade = fleet.cluster(&["upgrade", "--run", &run, "edge-1"]);
    assert_eq!(upgrade.status.code(), Some(2), "{}", said(&upgrade));
    assert!(said(&upgrade).contains("Stop all machines together"), "{}", said(&upgrade));
    assert!(!mark.exists(), "something was stopped");
    // Control: with the roots' own file it is run.
    std::fs::write(fleet.file(), text).expect("written");
    let upgrade = fleet.cluster(&["upgrade", "--run", &run, "edge-1"]);
    assert!(upgrade.status.code() == Some(1) && mark.exists(), "{}", said(&upgrade));

    // One that leads, and one that follows.
    let ask = |root: u64, args: &[&str]| {
        let mut command = Command::new(FAIRBELL);
        command.args(["admin", "--socket"]).arg(fleet.at(&format!("root-{root}/admin.sock")));
        let output = command.args(args).output().expect("it runs");
        (output.status.code(), said(&output))
    };
    let follower = leader % 3 + 1;
    let (code, told) = ask(follower, &["status"]);
    let ask_that = format!("this root does not lead: replica {leader} does");
    assert!(code == Some(0) && told.contains(&ask_that), "{told}");
    assert!(told.contains("its log goes up to"), "{told}");
    for args in [&["kill", "TEST03"][..], &["revive", "TEST03"], &["end-of-day"]] {
        let (code, told) = ask(follower, args);
        let why = format!("this root does not lead: ask replica {leader}");
        assert!(code == Some(1) && told.contains(&why), "{args:?}: {told}");
    }

    // Sessions are the edges'.
    for args in [&["status"][..], &["sessions"]] {
        let (code, told) = ask(leader, args);
        assert!(code == Some(0) && told.contains("sessions are the edges'"), "{args:?}: {told}");
        assert!(!told.contains("0 sessions") && !told.contains("gateway"), "{args:?}: {told}");
    }
    for (action, instead) in [
        ("lock", "`kill TEST01` cancels"),
        ("unlock", "nobody is locked"),
        ("disconnect", "`fairbell cluster drain EDGE`"),
    ] {
        let (code, told) = ask(leader, &[action, "TEST01"]);
        assert!(code == Some(1) && told.contains("are the edges'"), "{action}: {told}");
        assert!(told.contains(instead), "{action}: {told}");
    }

    // Two switches: one of the exchange, one of each account.
    let steps: [(&[&str], &str); 8] = [
        (&["kill", "all"], ""),
        (&["revive", "TEST03"], "TEST03 is not killed by itself; all accounts are still killed"),
        (&["kill", "TEST05"], ""),
        (&["revive", "all"], "; still killed by themselves: TEST05"),
        (&["revive", "TEST05"], ""),
        (&["revive", "TEST05"], "; TEST05 is not killed"),
        (&["revive", "all"], "; the kill switch of all is not on"),
        (&["status"], "day open"),
    ];
    for (args, what) in steps {
        let (code, told) = ask(leader, args);
        assert!(code == Some(0) && told.contains(what), "{args:?}: {told}");
        assert!(!what.is_empty() || !told.contains("killed"), "{args:?}: {told}");
    }
}

#[test]
fn two_shards_trade_side_by_side_and_statements_are_of_both() {
    let fleet = Fleet::made("shards", &["--roots", "1", "--shards", "2"], 18);
    let text = std::fs::read_to_string(fleet.file()).expect("read");
    assert!(
        text.contains("symbols = [\"GENA\"]") && text.contains("roots = [\"root-2\"]"),
        "{text}"
    );
    let edge_port = |text: &str| {
        let (_, entry) = text.split_once("name = \"edge-1\"").expect("there");
        let (_, port) = entry.split_once("port = ").expect("a port");
        port.lines().next().and_then(|port| port.parse::<u16>().ok()).expect("a number")
    };
    let port = edge_port(&text);
    let doctor = said(&fleet.cluster(&["doctor", "edge-1"]));
    for word in ["2 shards", "shard shard-1", "BTCUSD GENB; roots root-1", "GENA; roots root-2"] {
        assert!(doctor.contains(word), "{word}: {doctor}");
    }
    assert!(doctor.contains(&format!("at UDP {}", port + 17)), "{doctor}");
    let names = ["root-1", "root-2", "edge-1"];
    let mut running: Vec<Running> = names.iter().map(|name| fleet.start(name)).collect();
    fleet.wait("up", |status| {
        let shards = status["shards"].as_array().cloned().unwrap_or_default();
        let own = [&names[..], &names[1..]];
        shards.iter().zip(own).filter(|(of, own)| own.iter().all(|name| is_up(of, name))).count()
            == 2
    });
    let status = said(&fleet.cluster(&["status"]));
    assert!(status.contains("shard shard-2: GENA"), "{status}");
    let load = |symbol: &str, first: &str| {
        let mut command = Command::new(FAIRBELL);
        let address = format!("127.0.0.1:{}", port + 10);
        let ca = fleet.at("cluster/authority.pem");
        command
            .args(["load", "--protocol", "ouch", "--address", &address, "--tls", "--ca"])
            .arg(ca);
        command.args(["--server-name", "lab", "--login", "TEST0{n}:sesame-9", "--clients", "4"]);
        command.args(["--first", first, "--symbol", symbol, "--price", "100", "--tick", "1"]);
        command.args(["--rate", "120", "--duration", "3s", "--warmup", "100ms", "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let loads = [load("BTCUSD", "1"), load("GENA", "5")];
    for load in loads {
        let output = load.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", said(&output));
    }
    // GENA goes to the first shard with the end of the day.
    let ask = |args: &[&str]| {
        let mut command = Command::new(FAIRBELL);
        command.args(["admin", "--json", "--socket"]).arg(fleet.at("root-1/admin.sock"));
        command.args(args).output().expect("it runs")
    };
    let admin = |args: &[&str]| {
        let output = ask(args);
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        document(&output)
    };
    let moved = admin(&["set-instrument", "GENA", "shard", "shard-1"]);
    assert_eq!(moved["data"]["done"], serde_json::json!(["shard-1", "shard-2"]), "{moved}");
    // What the engines refuse is not done, also where one shard alone is asked for it.
    let refusals: [(&[&str], &str); 3] = [
        (&["start-of-day"], "refused by the engine of shard-1, shard-2"),
        (&["set-instrument", "GENA", "shard", "shard-2"], "refused by the engine of"),
        (&["set-instrument", "GENA", "tick", "0"], "refused by the engine of shard-2; a tick is"),
    ];
    for (args, why) in refusals {
        let output = ask(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{args:?}: {}", said(&output));
    }
    admin(&["end-of-day"]);
    let since = Instant::now();
    let at_home = |status: &Value| status.to_string().contains(r#"["BTCUSD","GENA","GENB"]"#);
    while !at_home(&admin(&["status"])) {
        assert!(since.elapsed() < PATIENCE, "GENA has not moved: {}", admin(&["status"]));
        std::thread::sleep(Duration::from_millis(200));
    }
    running.clear();
    let statement = |logs: &[&str]| {
        let mut command = Command::new(FAIRBELL);
        command.args(["statement", "--json", "--config"]).arg(fleet.file());
        for log in logs {
            command.arg("--log").arg(fleet.at(log));
        }
        command.output().expect("it runs")
    };
    let both = document(&statement(&["root-1/journal", "root-2/journal"]));
    assert_eq!((&both["reconciled"], &both["lacks"]), (&true.into(), &"".into()), "{both}");
    assert_eq!(both["shards"], serde_json::json!([1, 2]));
    let rows = both["statements"].as_array().expect("rows");
    let of = |account: u64, symbol: &str| {
        rows.iter().any(|row| row["account"] == account && row["symbol"] == symbol)
    };
    assert!(of(1, "BTCUSD") && of(5, "GENA") && !of(1, "GENA") && !of(5, "BTCUSD"), "{both}");
    assert!(both["trades"].as_u64().is_some_and(|trades| trades > 10), "{both}");
    // What moved has the trades of both shards and its closing price, whichever log comes first.
    let gena = |of: &Value| {
        let all = of["instruments"].as_array().expect("instruments");
        let gena = all.iter().find(|of| of["symbol"] == "GENA").expect("GENA");
        assert!(gena["closing_price"].as_i64().is_some_and(|price| price > 0), "{of}");
        (gena["trades"].as_u64(), gena["volume_lots"].as_u64(), gena["closing_price"].as_i64())
    };
    let bought = rows.iter().filter(|row| row["symbol"] == "GENA");
    let bought: u64 = bought.filter_map(|row| row["bought_lots"].as_u64()).sum();
    assert!(bought > 0 && gena(&both).1 == Some(bought), "{both}");
    let turned = document(&statement(&["root-2/journal", "root-1/journal"]));
    assert_eq!(gena(&turned), gena(&both));
    assert_eq!(gena(&document(&statement(&["root-2/journal"]))), gena(&both), "of before the move");
    // Day by day, shard by shard: what moved is told, and each day is reconciled.
    let days = |log: &[&str]| {
        let mut command = Command::new(FAIRBELL);
        command.args(["statement", "--day", "all", "--json", "--config"]).arg(fleet.file());
        log.iter().for_each(|log| {
            command.arg("--log").arg(fleet.at(log));
        });
        document(&command.output().expect("it runs"))
    };
    let all = days(&["root-1/journal", "root-2/journal"]);
    assert_eq!((&all["reconciled"], &all["shards_missing"]), (&true.into(), &"".into()), "{all}");
    let shards = all["days"].as_array().expect("days").iter().map(|day| day["shard"].as_u64());
    assert_eq!(shards.flatten().collect::<std::collections::BTreeSet<_>>(), [1, 2].into());
    // And the stores of both: rows of all in the order of time.
    for root in ["root-1", "root-2"] {
        let mut command = Command::new(FAIRBELL);
        command.args(["store", "rebuild", "--config"]).arg(fleet.file());
        command.arg("--journal").arg(fleet.at(&format!("{root}/journal")));
        let made = command.arg("--file").arg(fleet.at(&format!("{root}.sqlite"))).output();
        let made = made.expect("it runs");
        assert!(made.status.success(), "{}", said(&made));
    }
    let trades = |roots: &[&str]| {
        let mut command = Command::new(FAIRBELL);
        command.args(["query", "trades", "--limit", "0", "--json"]);
        for root in roots {
            command.arg("--file").arg(fleet.at(&format!("{root}.sqlite")));
        }
        document(&command.output().expect("it runs"))
    };
    let rows = |of: &Value| of["rows"].as_array().expect("rows").clone();
    let (all, one, other) =
        (trades(&["root-1", "root-2"]), trades(&["root-1"]), trades(&["root-2"]));
    assert_eq!(rows(&all).len(), rows(&one).len() + rows(&other).len());
    assert!(!rows(&one).is_empty() && !rows(&other).is_empty(), "{all}");
    let times: Vec<u64> = rows(&all).iter().filter_map(|row| row["t_ns"].as_u64()).collect();
    assert!(times.len() == rows(&all).len() && times.is_sorted(), "{all}");
    // Controls: one shard alone lacks the other, and a log that is named twice is no other shard's.
    let one = document(&statement(&["root-2/journal"]));
    assert_eq!(one["lacks"], "of 2 shards, without number 1", "{one}");
    let twice = statement(&["root-1/journal", "root-1/journal"]);
    assert!(!twice.status.success() && said(&twice).contains("the same shard"), "{}", said(&twice));
}
