//! A Prometheus in the participants' host that reads every machine of a box: whether each query of the
//! dashboards and alerts has data, and which alerts fire when.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use host::failure::{Failure, on};
use host::sockets::io;
use monitoring::queries;
use net::Clock;
use serde::Serialize;
use serde_json::Value;
use types::Nanos;

use super::site::Site;

/// Where machines have their metrics read, TCP.
pub const METRICS_PORT: u16 = 9_464;
/// Where Prometheus answers, in its host.
const AT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9_090);
/// Between two looks at what it says.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// For it to begin, and to read all machines.
const START_MAX: Duration = Duration::from_secs(40);
/// For what is still to come after the trading.
const REST: Duration = Duration::from_secs(20);
/// For an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const RULES: &str = include_str!("../../../../deploy/prometheus/alerts.yml");
const CONFIG: &str = include_str!("../../../../deploy/prometheus/prometheus.yml");
const BOARDS: [(&str, &str); 2] = [
    ("venue", include_str!("../../../../deploy/grafana/venue.json")),
    ("machines", include_str!("../../../../deploy/grafana/machines.json")),
];

/// An alert that fired.
#[derive(Serialize, Clone, Debug)]
pub struct Fired {
    /// Its name.
    pub alert: String,
    /// The machine that it fired for, where it is one's.
    pub machine: String,
    /// When it was first seen to fire, by the participants' clock.
    #[serde(skip)]
    pub at: Nanos,
    /// The same, ms from the begin of the trading.
    pub after_ms: u64,
}

/// What Prometheus made of a run.
#[derive(Serialize, Clone, Default, Debug)]
pub struct Watched {
    /// Queries of dashboards and alerts.
    pub queries: usize,
    /// Those that never had data: where each is from, and the query.
    pub without_data: Vec<(String, String)>,
    /// Those that Prometheus refused.
    pub refused: Vec<String>,
    /// Machines that it read.
    pub machines: usize,
    /// Alerts that fired, in the order in which they were first seen.
    pub alerts: Vec<Fired>,
}

/// A process of Prometheus; it ends with this.
pub struct Prometheus<'a> {
    site: &'a Site<'a>,
    child: Child,
}

impl<'a> Prometheus<'a> {
    /// Starts `program` in the participants' host, and waits until it reads all machines. It does so twice a
    /// second, and alerts fire when they have stood for a second, whatever the file of rules says.
    ///
    /// # Errors
    /// The program can't be started, or reads too few.
    pub fn start(
        site: &'a Site<'a>,
        program: &Path,
        dir: &Path,
    ) -> Result<Prometheus<'a>, Failure> {
        host::files::folder(dir)?;
        let machines = 0..site.file.nodes.len();
        let targets = machines.map(|place| format!("\"{}\"", metrics_of(site, place)));
        let config = CONFIG.replace("interval: 5s", "interval: 500ms");
        let config = config.replace("\"127.0.0.1:9464\"", &targets.collect::<Vec<_>>().join(", "));
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).map_err(|error| on(&path, error)).map(|()| path)
        };
        write("alerts.yml", &queries::hasty(RULES, 1))?;
        let config = write("prometheus.yml", &config)?;
        let log = dir.join("prometheus.log");
        let log = std::fs::File::create(&log).map_err(|error| on(&log, error))?;
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()));
        command.arg(format!("--web.listen-address={AT}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = site.participants().spawn(&mut command);
        let child = child.map_err(|error| on(program, error))?;
        let started = Prometheus { site, child };
        let (all, until) = (site.file.nodes.len(), Instant::now() + START_MAX);
        let wait = || loop {
            let read = query("up == 1").and_then(Result::ok).map_or(0, |read| read.len());
            if read >= all || Instant::now() > until {
                return read;
            }
            thread::sleep(LOOK_EVERY);
        };
        match site.participants().enter(wait).map_err(io)? {
            read if read < all => {
                Err(Failure::Run(format!("Prometheus reads {read} of {all} machines")))
            }
            _ => Ok(started),
        }
    }

    /// Looks at it until `over`, and then until nothing is missing, of the alerts `due` either, or for 20 s.
    ///
    /// # Errors
    /// The host can't be entered.
    pub fn watch(
        &self,
        (clock, due): (Clock, &[String]),
        over: &AtomicBool,
    ) -> Result<Watched, Failure> {
        let mut open = questions();
        let mut seen = Watched { queries: open.len(), ..Watched::default() };
        let (begun, mut ended) = (clock.now(), None::<Instant>);
        let look = || {
            while ended.is_none_or(|ended| ended.elapsed() < REST) {
                self.look(&mut open, &mut seen, (clock, begun));
                if over.load(Ordering::Relaxed) {
                    let fired = |due: &String| seen.alerts.iter().any(|one| one.alert == *due);
                    if open.is_empty() && due.iter().all(fired) {
                        break;
                    }
                    ended.get_or_insert_with(Instant::now);
                }
                thread::sleep(LOOK_EVERY);
            }
        };
        self.site.participants().enter(look).map_err(io)?;
        seen.without_data = open;
        Ok(seen)
    }

    /// Notes what has data now and which alerts fire; while it does not answer nothing is known.
    fn look(
        &self,
        open: &mut Vec<(String, String)>,
        seen: &mut Watched,
        (clock, begun): (Clock, Nanos),
    ) {
        let Some(Ok(read)) = query("up == 1") else { return };
        seen.machines = seen.machines.max(read.len());
        if let Some(Ok(firing)) = query("ALERTS{alertstate=\"firing\"}") {
            let at = clock.now();
            for of in firing.iter().map(|one| &one["metric"]) {
                let text = |key: &str| of[key].as_str().unwrap_or_default();
                let machine = self.machine(text("instance")).unwrap_or(text("machine"));
                let alert = text("alertname");
                let known = |one: &Fired| one.alert == alert && one.machine == machine;
                if !seen.alerts.iter().any(known) {
                    let after_ms = at.0.saturating_sub(begun.0) / Nanos::MILLI;
                    let (alert, machine) = (alert.to_string(), machine.to_string());
                    seen.alerts.push(Fired { alert, machine, at, after_ms });
                }
            }
        }
        open.retain(|(_, expression)| match query(expression) {
            Some(Ok(data)) => data.is_empty(),
            Some(Err(why)) => {
                seen.refused.push(format!("{expression}: {why}"));
                false
            }
            None => true,
        });
    }

    /// The machine whose metrics are at an address.
    fn machine(&self, instance: &str) -> Option<&str> {
        let mut places = 0..self.site.file.nodes.len();
        let place = places.find(|place| metrics_of(self.site, *place) == instance)?;
        Some(&self.site.file.nodes[place].name)
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watched {
    /// What is wrong with it, where these alerts were due from the first fault on, and not before.
    pub fn complaints(&self, due: &[String], first_fault: Option<Nanos>) -> Vec<String> {
        let mut all = Vec::new();
        if let Some((place, query)) = self.without_data.first() {
            let (lacking, of) = (self.without_data.len(), self.queries);
            all.push(format!(
                "prometheus: {lacking} of {of} queries have no data: {place}: {query}"
            ));
        }
        all.extend(self.refused.iter().map(|why| format!("prometheus: refused: {why}")));
        for alert in due {
            let fired: BTreeSet<u64> =
                self.alerts.iter().filter(|one| one.alert == *alert).map(|one| one.at.0).collect();
            match (fired.first(), first_fault) {
                (None, _) => all.push(format!("alert: {alert} did not fire")),
                (Some(at), Some(fault)) if *at < fault.0 => {
                    all.push(format!("alert: {alert} fired before the first fault"));
                }
                _ => {}
            }
        }
        all
    }
}

/// Where a machine has its metrics read.
fn metrics_of(site: &Site<'_>, place: usize) -> String {
    let host = site.host(place);
    match site.file.nodes[place].address.contains(':') {
        true => format!("[{}]:{METRICS_PORT}", host.v6()),
        false => format!("{}:{METRICS_PORT}", host.v4()),
    }
}

/// Every query of the dashboards, and of each alert what it compares: where it is from, and the query.
fn questions() -> Vec<(String, String)> {
    let alerts = queries::alerts(RULES).into_iter();
    let compared =
        |(name, expression): (String, String)| (name, queries::compared(&expression).to_string());
    let mut all: Vec<_> = alerts.map(compared).collect();
    for (name, board) in BOARDS {
        let board: Value = serde_json::from_str(board).unwrap_or_default();
        let named = |(title, query)| (format!("{name}: {title}"), query);
        all.extend(queries::panels(&board).into_iter().map(named));
    }
    all
}

/// What Prometheus answers a query with, or why it refuses it; `None` while it does not answer.
fn query(expression: &str) -> Option<Result<Vec<Value>, String>> {
    let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut stream = TcpStream::connect_timeout(&AT, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET /api/v1/query?query={escaped} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let answer: Value = serde_json::from_str(body).ok()?;
    match answer["status"].as_str()? {
        "success" => Some(Ok(answer["data"]["result"].as_array()?.clone())),
        _ => Some(Err(answer["error"].to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_is_asked() {
        let all = questions();
        let from = |place: &str| all.iter().filter(|(of, _)| of.starts_with(place)).count();
        assert!(from("Fairbell") > 30 && from("venue: ") > 30 && from("machines: ") > 20);
        assert!(all.iter().all(|(_, query)| !query.is_empty() && !query.contains('$')));
        assert!(CONFIG.contains("\"127.0.0.1:9464\"") && CONFIG.contains("interval: 5s"));
    }

    #[test]
    fn alerts_that_are_due_fire_and_not_before_the_fault() {
        let fired = |at| Fired {
            alert: "A".to_string(),
            machine: String::new(),
            at: Nanos(at),
            after_ms: 0,
        };
        let due = ["A".to_string()];
        let at = |at: u64| Watched { alerts: vec![fired(at)], ..Watched::default() };
        assert_eq!(at(7).complaints(&due, Some(Nanos(5))), Vec::<String>::new());
        assert!(at(4).complaints(&due, Some(Nanos(5)))[0].contains("before"));
        assert!(Watched::default().complaints(&due, Some(Nanos(5)))[0].contains("did not fire"));
        let lacking = Watched {
            queries: 3,
            without_data: vec![("venue: Books".to_string(), "x".to_string())],
            refused: vec!["y: why".to_string()],
            ..Watched::default()
        };
        assert_eq!(lacking.complaints(&[], None).len(), 2);
    }
}
