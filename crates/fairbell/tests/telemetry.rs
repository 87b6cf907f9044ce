//! Metrics, alerts, dashboards and records of a running exchange, with a real Prometheus and a real Redis.
//!
//! Their programs are in `FAIRBELL_PROMETHEUS`, `FAIRBELL_PROMTOOL` and `FAIRBELL_REDIS_SERVER`;
//! `scripts/with-monitoring.sh` installs them. Without them the test says so and ends, and fails where `CI` is
//! set.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Running, number};
use host::telemetry::metrics;
use monitoring::{process, queries};
use serde_json::Value;

/// How long something that must come may take.
const PATIENCE: Duration = Duration::from_secs(40);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An alert: its name and its expression.
fn alerts() -> Vec<(String, String)> {
    let all = queries::alerts(&text("deploy/prometheus/alerts.yml"));
    assert!(all.len() > 20, "{}", all.len());
    all
}

/// Queries of the dashboards: file and title of the panel, query.
fn panels() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for file in ["venue", "machines"] {
        let board: Value = serde_json::from_str(&text(&format!("deploy/grafana/{file}.json")))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(number(&board, "schemaVersion") >= 36 && board["uid"].is_string(), "{file}");
        assert!(board["title"].is_string() && board["time"]["from"].is_string(), "{file}");
        let mut seen = BTreeSet::new();
        for panel in board["panels"].as_array().expect("panels") {
            let title = panel["title"].as_str().expect("a title");
            assert!(seen.insert(number(panel, "id")), "{file}: {title}");
            let place = &panel["gridPos"];
            assert!(number(place, "x") + number(place, "w") <= 24, "{file}: {title}");
            if panel["type"] == "row" {
                continue;
            }
            let targets = panel["targets"].as_array().expect("targets");
            let letters: BTreeSet<&str> =
                targets.iter().filter_map(|of| of["refId"].as_str()).collect();
            assert!(!targets.is_empty() && letters.len() == targets.len(), "{file}: {title}");
            assert!(targets.iter().all(|of| of["expr"].is_string()), "{file}: {title}");
        }
        let queries = queries::panels(&board).into_iter();
        all.extend(queries.map(|(title, query)| (format!("{file}: {title}"), query)));
    }
    all
}

/// Names of all metrics that a program may have.
fn known() -> BTreeSet<String> {
    metrics::ALL.iter().chain(process::ALL).map(|metric| metric.full_name()).collect()
}

/// Names in the first column of the tables of the page.
fn documented() -> BTreeSet<String> {
    let page = text("docs/metrics.md");
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let ours = |name: &&str| name.starts_with("fairbell_") || name.starts_with("process_");
    names.filter(ours).map(str::to_string).collect()
}

#[test]
fn the_page_has_every_metric_and_no_other() {
    assert_eq!(documented(), known());
    let page = text("docs/metrics.md");
    for (name, expression) in alerts() {
        let row = format!("| {name} |");
        let line = page.lines().find(|line| line.starts_with(&row));
        let line = line.unwrap_or_else(|| panic!("no {name}"));
        assert!(line.contains(&expression.replace('|', "\\|")), "{name}: {line}");
    }
    // Whatever queries name is a metric, or a part of a histogram.
    let queries = alerts().into_iter().map(|(_, expression)| expression);
    let all: Vec<String> = queries.chain(panels().into_iter().map(|(_, of)| of)).collect();
    assert!(unknown(&all).is_empty(), "{:?}", unknown(&all));
    assert_eq!(
        unknown(&["rate(fairbell_no_such_total[1m])".to_string()]),
        ["fairbell_no_such_total"]
    );
}

/// Metrics that queries name and that there are not.
fn unknown(queries: &[String]) -> Vec<String> {
    let known = known();
    let wordy = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let words = queries.iter().flat_map(|query| query.split(wordy));
    let ours = words.filter(|word| word.starts_with("fairbell_") || word.starts_with("process_"));
    let plain = |word: &str| {
        let bare = word.strip_suffix("_bucket").or_else(|| word.strip_suffix("_count"));
        known.contains(word) || bare.is_some_and(|bare| known.contains(bare))
    };
    ours.filter(|word| !plain(word)).map(str::to_string).collect()
}

fn program(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "no {variable}");
    found
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The body of an answer, by HTTP/1.0; nothing while nobody answers.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_string())
}

/// What Prometheus answers a query with.
fn query(port: u16, expression: &str) -> Vec<Value> {
    let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let body = get(port, &format!("/api/v1/query?query={escaped}")).unwrap_or_default();
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    assert_ne!(answer["status"], "error", "{expression}: {answer}");
    answer["data"]["result"].as_array().cloned().unwrap_or_default()
}

/// Names of alerts that fire now.
fn firing(port: u16) -> BTreeSet<String> {
    let of = query(port, "ALERTS{alertstate=\"firing\"}");
    of.iter().filter_map(|one| one["metric"]["alertname"].as_str()).map(str::to_string).collect()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn redis(program: &Path, dir: &Path, port: u16) -> Running {
    let mut command = Command::new(program);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always", "--dir"]).arg(dir);
    Running(command.stdout(Stdio::null()).spawn().expect("redis-server"))
}

fn prometheus(program: &Path, dir: &Path, (port, venue): (u16, u16)) -> Running {
    let rules = queries::hasty(&text("deploy/prometheus/alerts.yml"), 1);
    fs::write(dir.join("alerts.yml"), rules).expect("written");
    let config = text("deploy/prometheus/prometheus.yml");
    let config = config.replace("interval: 5s", "interval: 500ms");
    let config = config.replace("127.0.0.1:9464", &format!("127.0.0.1:{venue}"));
    fs::write(dir.join("prometheus.yml"), config).expect("written");
    let log = fs::File::create(dir.join("prometheus.log")).expect("a file");
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    Running(command.stdout(Stdio::null()).stderr(log).spawn().expect("prometheus"))
}

/// Metrics that this exchange has none of, and why.
const NOT_HERE: [&str; 3] = [
    // The observer of a fleet has them.
    "fairbell_fairness_orders",
    "fairbell_fairness_inverted_orders",
    // Only while one stands.
    "fairbell_alarm",
];

#[test]
fn prometheus_reads_a_venue_answers_every_query_and_faults_raise_their_alerts() {
    let programs = ["FAIRBELL_PROMETHEUS", "FAIRBELL_PROMTOOL", "FAIRBELL_REDIS_SERVER"];
    let [Some(server), Some(tool), Some(redis_server)] = programs.map(program) else {
        println!("external suites: 0 run, 1 absent");
        return;
    };
    let dir = std::env::temp_dir().join(format!("fairbell-metrics-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("redis")).expect("a folder");
    for (what, file) in [("rules", "alerts.yml"), ("config", "prometheus.yml")] {
        let path = repository().join("deploy/prometheus").join(file);
        let checked =
            Command::new(&tool).args(["check", what]).arg(path).output().expect("promtool");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }
    let (redis_port, venue, port) = (free_port(), free_port(), free_port());
    let first = redis(&redis_server, &dir.join("redis"), redis_port);
    let at = |name: &str| dir.join(name).display().to_string();
    let config = format!(
        "doors.plain = true\n\
         [hold]\nobserve_every = 1\n\
         [journal]\ndurability = \"replicated\"\ndir = {:?}\nsegment_mib = 4\n\
         [store]\nfollow = true\nfile = {:?}\n\
         [telemetry]\nlisten = \"127.0.0.1:{venue}\"\nrecords = \"redis\"\n\
         redis_url = \"redis://127.0.0.1:{redis_port}/0\"\nqueue_records = 1024\n",
        at("journal"),
        at("store.db")
    );
    fs::write(dir.join("venue.toml"), config).expect("written");
    let up = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .args(["up", "--json", "--web", "--rate", "100", "--receivers", "3", "--fanout", "2"])
        .args(["--config", &at("venue.toml"), "--out", &at("out")])
        .current_dir(repository())
        .stdout(fs::File::create(dir.join("report.json")).expect("a file"))
        .stderr(fs::File::create(dir.join("up.log")).expect("a file"))
        .spawn()
        .expect("started");
    let mut up = Running(up);
    let _prometheus = prometheus(&server, &dir, (port, venue));

    // Every query of the alerts and dashboards is answered with something.
    let alerts = alerts();
    let mut open: Vec<(String, String)> = (alerts.iter())
        .map(|(name, expression)| (name.clone(), queries::compared(expression).to_string()))
        .chain(panels())
        .collect();
    let asked = open.len();
    until("the venue is read", || !query(port, "fairbell_orders_accepted_total > 0").is_empty());
    let end = Instant::now() + PATIENCE;
    while !open.is_empty() {
        assert!(Instant::now() < end, "no data: {open:?}");
        open.retain(|(_, expression)| query(port, expression).is_empty());
    }
    println!("{asked} queries have data");
    // Control: a query for what there is not has none.
    assert!(query(port, "fairbell_no_such_total").is_empty());

    // The page that it reads has every metric, and nothing else.
    let mut all = documented();
    NOT_HERE.iter().for_each(|name| assert!(all.remove(*name), "{name}"));
    // Shares of what nothing came of in the last while are left out.
    let (mut live, end) = (BTreeSet::new(), Instant::now() + PATIENCE);
    while !live.is_superset(&all) && Instant::now() < end {
        let page = get(venue, "/metrics").expect("a page");
        let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        live.extend(types.filter(|name| *name != "fairbell_alarm").map(str::to_string));
    }
    assert_eq!(all, live);

    // Faults raise their alerts, and not before: Redis dies, and at last the exchange ends.
    let before = firing(port);
    let faults = ["FairbellRecordsPlaceDown", "FairbellRecordsLost"];
    let all = faults.iter().chain(&["FairbellDown"]);
    all.for_each(|name| assert!(!before.contains(*name), "{before:?}"));
    drop(first);
    until("the fault is told", || faults.iter().all(|name| firing(port).contains(*name)));
    let page = get(venue, "/metrics").expect("a page");
    assert!(page.contains("fairbell_alarm{machine=\"up\",key=\"telemetry-records\"} 1"), "{page}");
    let _second = redis(&redis_server, &dir.join("redis"), redis_port);
    until("records are taken again", || !query(port, "fairbell_records_place_up == 1").is_empty());

    // No order was affected, and the records that are missing are those that were counted.
    let interrupted = Command::new("kill").args(["-INT", &up.0.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    let status = up.0.wait().expect("ended");
    let log = fs::read_to_string(dir.join("up.log")).expect("a log");
    assert!(status.success(), "{log}");
    let report: Value =
        serde_json::from_slice(&fs::read(dir.join("report.json")).expect("a report"))
            .expect("one document");
    let notices: Vec<&str> =
        report["notices"].as_array().expect("notices").iter().filter_map(Value::as_str).collect();
    let lost = notices.iter().filter_map(|line| line.strip_prefix("telemetry: "));
    let lost: u64 = lost.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum();
    assert!(lost > 0, "{notices:?}");
    let exported = Command::new(env!("CARGO_BIN_EXE_fairbell"))
        .args(["telemetry", "export", "--json", "--to", &at("tables"), "--from"])
        .arg(format!("redis://127.0.0.1:{redis_port}/0"))
        .output()
        .expect("started");
    let tables = common::document(&exported);
    let sum = |key: &str| -> u64 {
        tables["streams"].as_array().expect("streams").iter().map(|of| number(of, key)).sum()
    };
    assert_eq!(sum("missing"), lost, "{tables}");
    let streams: Vec<&str> = (tables["streams"].as_array().expect("streams").iter())
        .filter_map(|of| of["stream"].as_str())
        .collect();
    assert_eq!(streams, ["up:orders-1", "up:orders-2", "up:orders-3", "up:releases", "up:web"]);
    assert!(sum("records") > lost && sum("strange_entries") == 0, "{tables}");
    until("its end is told", || firing(port).contains("FairbellDown"));
    let _ = fs::remove_dir_all(dir);
}
