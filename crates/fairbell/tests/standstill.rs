//! A journal without room: the exchange says so everywhere, refuses what it can't log, loses nothing and
//! answers nothing twice, goes on by itself, and ends without a difference whenever it is ended.
//!
//! The room is taken away by a file-size limit, which needs no rights, and by a small tmpfs, which needs
//! root; where that can't be mounted the test says so and does it by the limit.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use types::{ClOrdId, Nanos, Price, Qty, Side, Symbol, TimeInForce, UserRefNum};
use wire::ouch::{self, NewOrder, Outbound};
use wire::soupbin::{ClientEvent, ClientSession, SessionName};

const PATIENCE: Duration = Duration::from_secs(60);

/// What takes the room away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Squeeze {
    FileSize,
    Disk,
}

/// A folder with a journal, on a disk of its own if that is what is squeezed.
struct Site {
    path: PathBuf,
    squeeze: Squeeze,
}

impl Site {
    fn new(name: &str, wanted: Squeeze) -> Site {
        let path = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("journal")).expect("a folder");
        let mut site = Site { path, squeeze: wanted };
        if wanted == Squeeze::Disk && !site.mount("size=64m") {
            eprintln!("NO RIGHT TO MOUNT A TMPFS: the room is taken by a file-size limit instead");
            site.squeeze = Squeeze::FileSize;
        }
        // Without orders of its own the first run leaves a segment with room: the limit comes before the
        // second run makes one that is longer.
        for (file, segment_mib) in [("first.toml", 2), ("second.toml", 3)] {
            let text = format!(
                "[doors]\nplain = true\n[flow]\nsample = \"none\"\ngenerated_rate = 0\n[journal]\ndurability = \"local\"\nsegment_mib = \
                 {segment_mib}\ndir = \"{}\"\n",
                site.journal().display()
            );
            std::fs::write(site.path.join(file), text).expect("a file");
        }
        site
    }

    fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    fn mount(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "fairbell-test"]).arg(self.journal());
        command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn fairbell(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairbell"));
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        command.args(args);
        command
    }

    fn up(&self, config: &str) -> Command {
        let mut command = self.fairbell(&["up", "--json", "--port-base", "0", "--rate", "2000"]);
        command.arg("--config").arg(self.path.join(config));
        command.arg("--out").arg(self.path.join("out"));
        command
    }

    /// No file may be made that is as long as a segment of the second configuration.
    fn take_room(&self, pid: Pid) {
        match self.squeeze {
            Squeeze::FileSize => limit(pid, Some(5 << 19)),
            Squeeze::Disk => {
                let files = std::fs::read_dir(self.journal()).expect("a list").flatten();
                let used: u64 = files.filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum();
                assert!(self.mount(&format!("remount,size={}k", used / 1_024 + 256)));
            }
        }
    }

    fn make_room(&self, pid: Pid) {
        match self.squeeze {
            Squeeze::FileSize => limit(pid, None),
            Squeeze::Disk => assert!(self.mount("remount,size=64m")),
        }
    }

    fn verify(&self) -> Value {
        let mut verify = self.fairbell(&["journal", "verify", "--json"]);
        document(&verify.arg(self.journal()).output().expect("the binary runs"))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if self.squeeze == Squeeze::Disk {
            let _ = Command::new("umount").arg("--lazy").arg(self.journal()).status();
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn limit(pid: Pid, bytes: Option<u64>) {
    let new = Rlimit { current: bytes, maximum: None };
    prlimit(Some(pid), Resource::Fsize, new).expect("a limit");
}

/// What a command printed that succeeded.
fn document(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// An exchange that goes on with a journal, until it is told to stop.
struct Exchange<'a> {
    site: &'a Site,
    child: Option<Child>,
    pid: Pid,
}

impl<'a> Exchange<'a> {
    fn start(site: &'a Site) -> Exchange<'a> {
        let said = std::fs::File::create(site.path.join("said")).expect("a file");
        let mut command = site.up("second.toml");
        let child = command.stdout(Stdio::piped()).stderr(said).spawn().expect("it runs");
        let pid = Pid::from_raw(child.id() as i32).expect("a process");
        Exchange { site, child: Some(child), pid }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.site.path.join("said")).unwrap_or_default()
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < end, "never: {what}; it said: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn door(&self) -> SocketAddr {
        self.until("a door", || {
            let said = self.said();
            let rest = said.split("OUCH 5.0 over SoupBinTCP: ").nth(1)?;
            rest.split_whitespace().next()?.parse().ok()
        })
    }

    fn admin(&self, action: &[&str]) -> Value {
        let mut command = self.site.fairbell(&["admin", "--json", "--socket"]);
        command.arg(self.site.path.join("out/admin.sock")).args(action);
        let output = command.output().expect("the binary runs");
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    fn alarm(&self, key: &str) -> Option<String> {
        let status = self.admin(&["status"]);
        let alarms = status["data"]["alarms"].as_array()?.clone();
        let found = alarms.iter().find(|alarm| alarm["key"] == key)?;
        found["text"].as_str().map(str::to_string)
    }

    fn open_the_day(&self) {
        self.until("a day", || {
            // Refused where the journal goes on with an open one.
            self.admin(&["start-of-day"]);
            (self.admin(&["status"])["data"]["day_open"] == true).then_some(())
        });
        let opened = self.admin(&["phase", "all", "continuous"]);
        assert_eq!(opened["ok"], true, "{opened}");
    }

    /// Its report and exit code.
    fn end(mut self) -> (Option<i32>, Value) {
        kill_process(self.pid, Signal::TERM).expect("it still runs");
        let child = self.child.take().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::Null))
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let ended = child.try_wait();
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                eprintln!("the exchange (ended by itself: {ended:?}) said: {}", self.said());
            }
        }
    }
}

/// A participant with one connection; answers by UserRefNum.
struct Client {
    stream: TcpStream,
    soup: ClientSession,
    accepted: BTreeMap<u32, u32>,
    refused: BTreeMap<u32, u32>,
    /// All bytes that came, debug packets among them.
    heard: Vec<u8>,
    next: u32,
}

impl Client {
    fn login(door: SocketAddr) -> Client {
        let mut client = Client::ask_in(door, None);
        client.wait("a login", |client| client.soup.is_active());
        client
    }

    /// Asks for the stream from a message on, of a session that it was told before.
    fn ask_in(door: SocketAddr, from: Option<(SessionName, u64)>) -> Client {
        let stream = TcpStream::connect(door).expect("a door");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("an option");
        let mut soup = ClientSession::new("GUEST", "welcome").expect("credentials");
        if let Some((session, next)) = from {
            soup.resume_from(session, next);
        }
        let mut bytes = Vec::new();
        soup.connect(now(), &mut bytes).expect("a login");
        let (accepted, refused) = (BTreeMap::new(), BTreeMap::new());
        let mut client = Client { stream, soup, accepted, refused, heard: Vec::new(), next: 1 };
        client.stream.write_all(&bytes).expect("sent");
        client
    }

    /// Sends so many orders and waits until each is accepted.
    fn trade(&mut self, orders: u32) {
        for _ in 0..orders {
            let number = self.order();
            self.wait("an acceptance", |c| c.accepted.contains_key(&number));
        }
    }

    fn listen(&mut self) {
        let mut buffer = [0; 65_536];
        let count = match self.stream.read(&mut buffer) {
            Ok(0) => {
                panic!("the exchange closed the connection; last it sent: {}", self.last_words())
            }
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => panic!("{error}"),
        };
        let Client { soup, accepted, refused, heard, .. } = self;
        heard.extend_from_slice(&buffer[..count]);
        soup.handle_bytes(now(), &buffer[..count], |event| match event {
            ClientEvent::Sequenced { message, .. } => {
                if let Ok(Outbound::OrderAccepted(m, _)) = ouch::parse_outbound(message) {
                    *accepted.entry(m.user_ref.get()).or_default() += 1;
                }
            }
            ClientEvent::Unsequenced(message) => {
                if let Ok(Outbound::OrderRejected(m, _)) = ouch::parse_outbound(message) {
                    *refused.entry(m.user_ref.get()).or_default() += 1;
                }
            }
            ClientEvent::Violation(violation) => panic!("{violation}"),
            _ => {}
        });
        let mut bytes = Vec::new();
        self.soup.handle_timeout(now(), &mut bytes);
        self.stream.write_all(&bytes).expect("sent");
    }

    /// Of all bytes that came the last ones, as text.
    fn last_words(&self) -> String {
        let from = self.heard.len().saturating_sub(200);
        self.heard[from..].escape_ascii().to_string()
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&Client) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < end, "never: {what}");
            self.listen();
        }
    }

    fn was_told(&self, text: &str) -> bool {
        self.heard.windows(text.len()).any(|window| window == text.as_bytes())
    }

    /// Sends an order that rests; its number.
    fn order(&mut self) -> u32 {
        let number = self.next;
        self.next += 1;
        let order = NewOrder {
            user_ref: UserRefNum(number),
            side: Side::Buy,
            qty: Qty(1),
            symbol: Symbol::new("GENA").expect("a symbol"),
            price: Some(Price::from_whole(50)),
            time_in_force: TimeInForce::Day,
            post_only: false,
            cl_ord_id: ClOrdId(*b"an order      "),
        };
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        ouch::encode_enter_order(&order, &mut message).expect("encodes");
        self.soup.send_unsequenced(now(), &message, &mut bytes).expect("logged in");
        self.stream.write_all(&bytes).expect("sent");
        number
    }

    fn is_answered(&self, number: u32) -> bool {
        self.accepted.contains_key(&number) || self.refused.contains_key(&number)
    }

    /// Trades until orders are refused; those that have no answer then.
    fn until_refused(&mut self) -> Vec<u32> {
        let mut open = Vec::new();
        while self.refused.len() < 5 {
            let number = self.order();
            assert!(number < 2_000, "room without end");
            let end = Instant::now() + Duration::from_secs(3);
            while !self.is_answered(number) && Instant::now() < end {
                self.listen();
            }
            if !self.is_answered(number) {
                open.push(number);
            }
        }
        open
    }
}

fn now() -> Nanos {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Nanos(since.expect("after 1970").as_nanos() as u64)
}

/// A journal that the next exchange goes on with.
fn first_run(site: &Site) {
    let mut first = site.up("first.toml");
    document(&first.args(["--quiet", "--duration", "300ms"]).output().expect("the binary runs"));
}

fn no_differences(report: &Value) {
    assert_eq!(report["books_equal"], true, "{}", report["complaints"]);
    let complaints = report["complaints"].to_string();
    for word in ["another state", "other bytes", "differ"] {
        assert!(!complaints.contains(word), "{complaints}");
    }
}

fn goes_on(name: &str, squeeze: Squeeze) {
    let site = Site::new(name, squeeze);
    first_run(&site);
    let exchange = Exchange::start(&site);
    exchange.open_the_day();
    site.take_room(exchange.pid);
    let mut client = Client::login(exchange.door());
    let open = client.until_refused();
    assert!(!open.is_empty() && open.len() <= 3, "those before the refusals wait: {open:?}");
    assert!(client.was_told("log stands still: requests are refused"));
    let why = exchange.alarm("journal-full").expect("an alarm");
    let reason = if site.squeeze == Squeeze::Disk { "on the disk" } else { "ulimit -f" };
    assert!(why.contains("no room left") && why.contains(reason), "{why}");
    assert!(exchange.said().contains("ALARM: journal-full: "), "{}", exchange.said());
    site.make_room(exchange.pid);
    client.wait("the answers of those that wait", |c| open.iter().all(|n| c.is_answered(*n)));
    exchange.until("the alarm is over", || exchange.alarm("journal-full").is_none().then_some(()));
    client.wait("word of that", |c| c.was_told("log goes on: requests are taken again"));
    client.trade(5);
    // Each order was answered once: accepted, or refused and never logged.
    for number in 1..client.next {
        let times = |of: &BTreeMap<u32, u32>| of.get(&number).copied().unwrap_or(0);
        assert_eq!(times(&client.accepted) + times(&client.refused), 1, "order {number}");
    }
    let said = exchange.said();
    assert!(
        said.contains("alarm over: journal-full: ") && said.contains("nothing is lost"),
        "{said}"
    );
    let (code, report) = exchange.end();
    assert_eq!(code, Some(0), "{}", report["complaints"]);
    no_differences(&report);
    assert!(report["notices"].to_string().contains("journal-full"), "{}", report["notices"]);
    let audit = std::fs::read_to_string(site.path.join("out/admin-audit.jsonl")).expect("a file");
    let lines: Vec<Value> =
        audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let stages = lines.iter().filter(|line| line["action"] == "journal-full");
    let stages: Vec<&str> = stages.filter_map(|line| line["stage"].as_str()).collect();
    assert_eq!(stages, ["alarm", "over"]);
    site.verify();
}

#[test]
fn a_file_size_limit_stops_the_journal_aloud_and_nothing_is_lost() {
    goes_on("standstill-limit", Squeeze::FileSize);
}

#[test]
fn a_full_disk_stops_the_journal_aloud_and_nothing_is_lost() {
    goes_on("standstill-disk", Squeeze::Disk);
}

#[test]
fn ended_without_room_it_tells_what_was_never_durable_and_nothing_differs() {
    let site = Site::new("standstill-end", Squeeze::FileSize);
    first_run(&site);
    let exchange = Exchange::start(&site);
    exchange.open_the_day();
    site.take_room(exchange.pid);
    let mut client = Client::login(exchange.door());
    let open = client.until_refused();
    let accepted = client.accepted.len() as u64;
    let (code, report) = exchange.end();
    assert_eq!(code, Some(1), "it ended with orders unanswered");
    let complaints = report["complaints"].to_string();
    assert!(complaints.contains("were not durable at the end"), "{complaints}");
    no_differences(&report);
    site.verify();
    // What was accepted is in the journal, and what was not answered is not.
    let log = site.path.join("exported.log");
    let mut export = site.fairbell(&["journal", "export", "--out"]);
    export.arg(&log).arg(site.journal());
    assert!(export.output().expect("the binary runs").status.success());
    let bytes = std::fs::read(&log).expect("a log");
    let logged = bytes.windows(14).filter(|window| *window == b"an order      ").count() as u64;
    assert_eq!(logged, accepted, "{open:?} were never durable");
    assert_eq!(bytes, std::fs::read(site.path.join("out/exchange.log")).expect("a log"));
}

/// A folder is set back to an older copy: the exchange starts, and the first participant who was told more
/// is refused with both numbers, which is an alarm.
#[test]
fn an_older_copy_of_a_folder_is_found_out_by_who_was_told_more() {
    let site = Site::new("older-copy", Squeeze::FileSize);
    first_run(&site);
    let exchange = Exchange::start(&site);
    exchange.open_the_day();
    let mut client = Client::login(exchange.door());
    client.trade(3);
    assert_eq!(exchange.end().0, Some(0));
    let old = site.path.join("old");
    std::fs::create_dir(&old).expect("a folder");
    for entry in std::fs::read_dir(site.journal()).expect("a folder").flatten() {
        std::fs::copy(entry.path(), old.join(entry.file_name())).expect("copied");
    }
    // It goes on, and so does the client.
    let exchange = Exchange::start(&site);
    exchange.open_the_day();
    let from = Some((client.soup.session(), client.soup.next_seq()));
    let next = client.next;
    let mut client = Client::ask_in(exchange.door(), from);
    client.wait("a login", |client| client.soup.is_active());
    client.next = next;
    client.trade(3);
    let known = client.soup.next_seq();
    let session = client.soup.session();
    assert_eq!(exchange.alarm("log-older-than-told-GUEST"), None);
    assert_eq!(exchange.end().0, Some(0));
    // The older copy.
    std::fs::remove_dir_all(site.journal()).expect("removed");
    std::fs::rename(&old, site.journal()).expect("moved");
    let exchange = Exchange::start(&site);
    let mut client = Client::ask_in(exchange.door(), Some((session, known)));
    let said = format!("message {known} was never sent: the next one is ");
    client.wait("the reason", |client| client.was_told(&said));
    let why = exchange.until("an alarm", || exchange.alarm("log-older-than-told-GUEST"));
    assert!(why.contains(&format!("asked for message {known} ")), "{why}");
    let line = "ALARM: log-older-than-told-GUEST";
    exchange.until("a line of it", || exchange.said().contains(line).then_some(()));
    let audit =
        || std::fs::read_to_string(site.path.join("out/admin-audit.jsonl")).expect("a file");
    exchange.until("the record", || audit().contains("log-older-than-told-GUEST").then_some(()));
}

#[test]
fn a_limit_of_descriptors_too_low_is_refused_at_the_start() {
    let site = Site::new("standstill-descriptors", Squeeze::FileSize);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64; exec \"$0\" up --once --quiet --port-base 0"]);
    command.arg(env!("CARGO_BIN_EXE_fairbell"));
    let output = command.current_dir(&site.path).output().expect("a shell");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the limit of open files is 64"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_segment_longer_than_any_file_may_be_is_refused_at_the_start() {
    let site = Site::new("standstill-start", Squeeze::FileSize);
    let run = |path: &Path| {
        let mut command = Command::new("sh");
        // In units of 512 or 1,024 bytes.
        command.args(["-c", "ulimit -f 1000; exec \"$0\" up --once --quiet --config \"$1\""]);
        command.arg(env!("CARGO_BIN_EXE_fairbell")).arg(path);
        command.current_dir(&site.path).output().expect("a shell")
    };
    let output = run(&site.path.join("first.toml"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "no signal ended it: {stderr}");
    assert!(stderr.contains("ulimit -f"), "{stderr}");
}
