//! Whole runs of the binary: what passes, what must not, and what the JSON carries.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs `fairbell up` for a short while on free ports; the output folder is named by the test.
fn up(name: &str, args: &[&str]) -> (Output, PathBuf) {
    let out = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
    let common = ["up", "--json", "--quiet", "--rate", "2000", "--out"];
    let ports: &[&str] = if args.contains(&"--port-base") { &[] } else { &["--port-base", "0"] };
    let output = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(common)
        .arg(&out)
        .args(ports)
        .args(args)
        .output()
        .expect("the binary runs");
    (output, out)
}

/// A configuration file of its own for one test.
fn settings(name: &str, text: &str) -> PathBuf {
    let file = std::env::temp_dir().join(format!("fairbell-{name}-{}.toml", std::process::id()));
    let text = format!("doors.plain = true\n{text}");
    std::fs::write(&file, text).expect("a file");
    file
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

fn number(of: &Value, path: &str) -> u64 {
    let value = of.pointer(path).unwrap_or_else(|| panic!("{path} is missing"));
    value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
}

#[test]
fn a_run_passes_and_its_json_has_what_is_promised() {
    let (output, out) = up("pass", &["--duration", "3s"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let report = document(&output);
    assert!(number(&report, "/orders_sent") > 5_000);
    assert_eq!(number(&report, "/orders_sent"), number(&report, "/orders_acknowledged"));
    assert_eq!(number(&report, "/orders_lost") + number(&report, "/duplicates"), 0);
    assert_eq!(report["books_equal"], Value::Bool(true));
    for of in ["rtt_ns", "oml_arrival_ns", "oml_release_ns", "dws_ns"] {
        let quantiles =
            ["p50", "p99", "p999", "max"].map(|q| number(&report, &format!("/{of}/{q}")));
        assert!(quantiles.is_sorted() && quantiles[3] > 0, "{of}: {quantiles:?}");
    }
    for share in ["p_on_time", "p_fair"] {
        assert!((0.0..=1.0).contains(&report[share].as_f64().expect(share)), "{share}");
    }
    assert!(number(&report, "/seed") > 0 && number(&report, "/hold_ns_mean") > 0);
    for key in ["venue_trades", "venue_trades_reproduced_offline", "venue_trades_reproduced_live"] {
        assert!(report.get(key).is_some(), "{key} is missing");
    }
    for file in ["report.json", "report.html", "exchange.log"] {
        assert!(out.join(file).metadata().is_ok_and(|file| file.len() > 1_000), "{file}");
    }
    let kinds: Vec<&str> = report["auctions"]
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|a| a["kind"].as_str())
        .collect();
    for kind in ["opening", "closing"] {
        assert_eq!(kinds.iter().filter(|found| **found == kind).count(), 2, "{kind}: {kinds:?}");
    }
    assert_eq!(report["halts"].as_array().map(Vec::len), Some(1), "{}", report["halts"]);
    // All of it sealed, and another tree since 60 % of the play.
    assert!(number(&report, "/sealing/opened") > 10_000);
    assert_eq!(number(&report, "/sealing/refused") + number(&report, "/sealing/unsent"), 0);
    assert_eq!(number(&report, "/feed_messages_lost"), 0);
    // A proxy that was slow on this machine may have been replaced besides.
    let changes = report["tree_changes"].as_array().expect("a list").len() as u64;
    assert!((1..8).contains(&changes), "{}", report["tree_changes"]);
    assert_eq!(number(&report, "/epoch"), 1 + changes);
    assert_eq!(number(&report, "/tree_changes/0/epoch"), 2);
    assert!(number(&report, "/tree_changes/0/prepared_ns") > 0);
    let log = out.join("exchange.log");
    let statement = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["statement", "--json", "--log"])
        .arg(&log)
        .output()
        .expect("the binary runs");
    assert_eq!(document(&statement)["reconciled"], Value::Bool(true));
    let _ = std::fs::remove_dir_all(out);
}

/// A listener of the user's own hears the released feed and that it is over.
#[test]
fn a_copy_of_the_feed_goes_to_whoever_listens_and_ends_in_order() {
    // A base of its own, below the ports that systems give away; the copy's port is base + 300.
    let base: u16 = 28_000;
    let socket = std::net::UdpSocket::bind(("127.0.0.1", base + 300)).expect("a free port");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a time limit");
    let heard = std::thread::spawn(move || {
        let (mut buffer, mut messages) = ([0u8; 2_048], 0);
        while let Ok((len, _)) = socket.recv_from(&mut buffer) {
            match wire::moldudp::Packet::parse(&buffer[..len]).expect("a MoldUDP64 packet") {
                packet if packet.is_end_of_session() => return Some(messages),
                packet => messages += u64::from(packet.count()),
            }
        }
        None
    });
    let (output, out) = up("copy", &["--duration", "1s", "--port-base", &base.to_string()]);
    assert_eq!(output.status.code(), Some(0));
    let messages = heard.join().expect("the listener").expect("the end of the session");
    // A busy machine may drop some at our socket, but not most.
    let published = number(&document(&output), "/feed_messages");
    assert!(messages <= published && messages > published / 2, "{messages} of {published}");
    let _ = std::fs::remove_dir_all(out);
}

/// Negative control: one bit of one released packet, and the run must not pass.
#[test]
fn a_flipped_byte_of_the_released_feed_fails_the_run() {
    for packet in ["3", "400"] {
        let args = ["--duration", "2s", "--corrupt-packet", packet];
        let (output, out) = up(&format!("flip-{packet}"), &args);
        assert_eq!(output.status.code(), Some(1), "packet {packet}");
        let report = document(&output);
        assert_eq!(report["verdict"], "fail");
        assert_eq!(report["books_equal"], Value::Bool(false));
        let failures = report["failures"].to_string();
        assert!(failures.contains("listener 1"), "{failures}");
        let _ = std::fs::remove_dir_all(out);
    }
}

/// A proxy dies: with hedging nothing is missed, without it repairs and re-sends do the work.
#[test]
fn a_dead_proxy_costs_no_order_and_no_book() {
    for hedge in ["1", "0"] {
        let args = ["--duration", "4s", "--fail-proxy", "2", "--after", "1s", "--hedge", hedge];
        let (output, out) = up(&format!("fail-{hedge}"), &args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "H={hedge}: {stderr}");
        let report = document(&output);
        assert_eq!(number(&report, "/orders_lost"), 0, "H={hedge}");
        assert!(report["notices"].to_string().contains("proxy 2 killed"), "H={hedge}");
        assert!(number(&report, "/resends") > 0, "H={hedge}");
        if hedge == "0" {
            assert!(number(&report, "/repairs") > 0);
        }
        let dead = report["dead_proxies"].as_array().expect("a list");
        assert!(dead.iter().any(|dead| dead["proxy"] == 2), "H={hedge}: {dead:?}");
        let _ = std::fs::remove_dir_all(out);
    }
}

/// Two trees by symbol and orders by two ways: the run passes and says what each tree carried.
#[test]
fn parallel_trees_by_symbol_pass_and_are_reported() {
    let file = settings(
        "trees",
        "[overlay]\nplanes = 2\nplane_use = \"symbols\"\norder_ways = 2\n\
         change_tree_at_percent = 0\n",
    );
    let path = file.display().to_string();
    let (output, out) = up("trees", &["--duration", "2s", "--config", &path]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let report = document(&output);
    assert_eq!(report["books_equal"], Value::Bool(true));
    let trees = report["trees"].as_array().expect("a list");
    let carried: Vec<String> = trees.iter().map(|tree| tree["instruments"].to_string()).collect();
    assert_eq!(carried, ["[\"BTCUSD\",\"GENB\"]", "[\"GENA\"]"]);
    for tree in 0..2 {
        let of = |key: &str| number(&report, &format!("/trees/{tree}/{key}"));
        assert!(of("messages") > 100 && of("messages_per_s") > 0, "{trees:?}");
        assert_eq!(of("messages_per_s"), of("goodput_per_s"), "nothing was lost");
        assert!(of("copies_received") > of("datagrams") && of("datagrams") > 0, "{trees:?}");
    }
    // The steps of the day are in both.
    let sum = number(&report, "/trees/0/messages") + number(&report, "/trees/1/messages");
    assert!(sum > number(&report, "/feed_messages"), "{sum}");
    assert_eq!(number(&report, "/feed_messages_lost"), 0);
    let _ = (std::fs::remove_dir_all(out), std::fs::remove_file(file));
}

/// A listener that starts in mid-session joins by a snapshot: its books are compared with all
/// others, and the report says that the bytes it never heard were not.
#[test]
fn a_late_listener_joins_by_a_snapshot_and_the_report_says_so() {
    // Repair is thought to be slow.
    let file = settings("late", "[snapshot]\nrepair_per_s = 1000\n");
    let path = file.display().to_string();
    let late = ["--duration", "5s", "--late-listener", "3s", "--config", &path];
    let (output, out) = up("late", &late);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let report = document(&output);
    assert_eq!(report["books_equal"], Value::Bool(true));
    let notices = report["notices"].to_string();
    assert!(notices.contains("listener 9 joined by snapshot at "), "{notices}");
    let _ = (std::fs::remove_dir_all(out), std::fs::remove_file(file));
}

/// Edges in the root's loop: what root and edges send each other straight is not sealed, what goes by proxies is, and
/// everything else is as with two loops, also when a gateway dies.
#[test]
fn edges_in_the_roots_loop_pass_with_and_without_proxies() {
    let common = ["--duration", "3s", "--fail-gateway", "2", "--after", "1s"];
    for (name, tree, edges) in [
        ("loop-direct", "depth = 1\nreceivers = 3", "root"),
        ("loop-tree", "depth = 2\nfanout = 2\nreceivers = 4", "root"),
        ("loop-two", "depth = 1\nreceivers = 3", "auto"),
    ] {
        let file = settings(name, &format!("[loops]\nedges = {edges:?}\n[overlay]\n{tree}\n"));
        let config = ["--config", file.to_str().expect("a name")];
        let (output, out) = up(name, &[&common[..], &config].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{name}: {stderr}");
        let report = document(&output);
        assert!(number(&report, "/orders_sent") > 3_000, "{name}");
        assert_eq!(number(&report, "/orders_lost") + number(&report, "/duplicates"), 0, "{name}");
        assert_eq!(report["books_equal"], Value::Bool(true), "{name}");
        let sealed = number(&report, "/sealing/sealed");
        assert_eq!(sealed > 0, name != "loop-direct", "{name}: {sealed} sealed");
        assert_eq!(number(&report, "/sealing/refused"), 0, "{name}");
        let _ = (std::fs::remove_dir_all(out), std::fs::remove_file(file));
    }
}

/// What was captured up to then is whole when the process is killed.
#[test]
fn a_capture_is_written_while_it_is_recorded() {
    let out = std::env::temp_dir().join(format!("fairbell-capturing-{}", std::process::id()));
    std::fs::create_dir_all(&out).expect("a folder");
    let capture = out.join("feed.pcap");
    let child = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args([
            "up",
            "--json",
            "--quiet",
            "--rate",
            "2000",
            "--port-base",
            "0",
            "--duration",
            "90s",
        ])
        .args([Path::new("--out"), &out, Path::new("--capture"), &capture])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut up = child.expect("the binary runs");
    let began = std::time::Instant::now();
    while capture.metadata().map_or(0, |file| file.len()) < 20_000 {
        assert!(began.elapsed().as_secs() < 60 && up.try_wait().is_ok_and(|it| it.is_none()));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    up.kill().expect("it runs");
    up.wait().expect("ended");
    let mut stats = Command::new(env!("CARGO_BIN_EXE_fairbell"));
    let stats = stats.args(["feed", "stats", "--json"]).arg(&capture).output().expect("runs");
    assert_eq!(stats.status.code(), Some(0), "{}", String::from_utf8_lossy(&stats.stderr));
    let _ = std::fs::remove_dir_all(out);
}

/// Whoever looks at an exchange that serves on is told once that nothing more is played.
#[test]
fn the_end_of_the_built_in_flow_is_said_once() {
    let file = settings("over-flow", "");
    let scenario = "seed = 7\n[[order]]\nat = \"0\"\nid = \"one\"\nsymbol = \"GENA\"\nside = \"buy\"\nqty = \"3\"\nprice = \"99\"\n";
    let played = file.with_extension("scenario.toml");
    std::fs::write(&played, scenario).expect("a file");
    let out = std::env::temp_dir().join(format!("fairbell-over-{}", std::process::id()));
    let child = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .args(["up", "--json", "--port-base", "0", "--config"])
        .args([&file, Path::new("--scenario"), &played, Path::new("--out"), &out])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut up = child.expect("the binary runs");
    let told = BufReader::new(up.stderr.take().expect("piped")).lines();
    // A line each second: the third that serves on comes behind whatever is said of that.
    let (mut serving, mut said) = (0, 0);
    for line in told.map_while(Result::ok) {
        said += u32::from(line.contains("the built-in flow is over"));
        serving += u32::from(line.contains("serving; Ctrl-C ends"));
        if serving == 3 {
            let pid = rustix::process::Pid::from_child(&up);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
        }
    }
    assert!(serving >= 3, "{serving} lines");
    assert_eq!(said, 1);
    assert_eq!(up.wait().expect("ended").code(), Some(0));
    let _ = (std::fs::remove_dir_all(out), std::fs::remove_file(file));
    let _ = std::fs::remove_file(played);
}

/// What is locked of a process, KiB, and whether it ended by itself meanwhile.
fn locked_kib(command: &mut Command) -> (Option<u64>, Output) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let path = format!("/proc/{}/status", child.id());
    let mut most = None;
    while child.try_wait().expect("a child").is_none() {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmLck:"));
        most = most.max(line.and_then(|line| line.trim_end_matches("kB").trim().parse().ok()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    (most, child.wait_with_output().expect("it ended"))
}

#[test]
fn memory_is_locked_where_that_is_asked_for_and_allowed() {
    let out = std::env::temp_dir().join(format!("fairbell-lock-{}", std::process::id()));
    let command = |file: &str, before: &[&str]| {
        let program = env!("CARGO_BIN_EXE_fairbell");
        let words = [before, &[program, "up", "--quiet", "--port-base", "0", "--duration", "1s"]];
        let words = words.concat();
        let mut command = Command::new(words[0]);
        let config = settings(file, &format!("memory.lock = {}\n", file == "lock"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).args(&words[1..]);
        command.arg("--out").arg(&out).arg("--config").arg(config);
        command
    };
    // Nothing may be locked, and no right to change that: one line says what is needed.
    let nothing = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-all"];
    let privileged = rustix::process::geteuid().is_root();
    let before: &[&str] = if privileged { &nothing } else { &nothing[..2] };
    let (_, refused) = locked_kib(&mut command("lock", before));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(told.contains("LimitMEMLOCK=infinity") && told.lines().count() == 1, "{told}");
    let (locked, output) = locked_kib(&mut command("no-lock", before));
    assert_eq!((locked, output.status.code()), (Some(0), Some(0)), "{output:?}");
    if rustix::process::getrlimit(rustix::process::Resource::Memlock).maximum.is_none()
        || privileged
    {
        let (locked, output) = locked_kib(&mut command("lock", &["env"]));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(locked > Some(32 << 10), "{locked:?} KiB locked");
    }
    let _ = std::fs::remove_dir_all(out);
}
