//! Records into a real Redis server that is killed, and out of it again: what is lost is counted exactly, by
//! whoever writes and by whoever reads.
//!
//! The server's program is in `FAIRBELL_REDIS_SERVER`; `scripts/with-monitoring.sh` installs one. Without it the
//! tests say so and end, and fail where `CI` is set.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use monitoring::export::{Export, Source};
use monitoring::queue::queue;
use monitoring::record::{Order, RecordKind};
use monitoring::streams::{Server, Streams};
use monitoring::table::Format;
use monitoring::writer::{Place, Writer};

struct Redis {
    program: PathBuf,
    dir: PathBuf,
    port: u16,
    child: Child,
}

impl Redis {
    /// A server that syncs each write, or nothing where there is no program.
    fn start(name: &str) -> Option<Redis> {
        let program = match std::env::var_os("FAIRBELL_REDIS_SERVER") {
            Some(program) => PathBuf::from(program),
            None => {
                assert!(std::env::var_os("CI").is_none(), "no FAIRBELL_REDIS_SERVER");
                println!("external suites: 0 run, 1 absent");
                return None;
            }
        };
        let dir = std::env::temp_dir().join(format!("fairbell-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("redis")).expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|of| of.local_addr());
        let port = port.expect("a port").port();
        let child = Redis::spawn(&program, &dir, port);
        Some(Redis { program, dir, port, child })
    }

    fn spawn(program: &Path, dir: &Path, port: u16) -> Child {
        let child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--dir"])
            .arg(dir.join("redis"))
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server");
        let until = Instant::now() + Duration::from_secs(20);
        while Server::new(&url(port)).and_then(|mut of| of.names("none")).is_err() {
            assert!(Instant::now() < until, "redis-server does not answer");
            thread::sleep(Duration::from_millis(10));
        }
        child
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    fn again(&mut self) {
        self.child = Redis::spawn(&self.program, &self.dir, self.port);
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/0")
}

fn source(redis: &Redis, prefix: &str) -> Source {
    let server = Server::new(&url(redis.port)).expect("an address");
    Source::Redis { server, prefix: prefix.to_string() }
}

/// 40,000 records while the server dies and comes back, through a queue for `room`: how many were numbered,
/// dropped, got and missing.
fn through_a_death(redis: &mut Redis, prefix: &str, room: usize) -> [u64; 4] {
    let streams = Streams::new(&url(redis.port), (prefix, "m"), 1, 1 << 20).expect("an address");
    let (sender, receivers) = channel();
    let (mut records, receiver) = queue("orders", RecordKind::Orders, room);
    let counts = receiver.counts();
    sender.send(receiver).expect("sent");
    let stop = AtomicBool::new(false);
    let tables = redis.dir.join(prefix);
    let mut export =
        Export::open(source(redis, prefix), &tables, Format::Parquet).expect("a folder");
    let failures = thread::scope(|scope| {
        let stop = &stop;
        let writer = scope.spawn(move || {
            let mut failures = 0;
            let told = |outcome: Result<(), &str>| failures += u32::from(outcome.is_err());
            Writer::new(Place::Redis(streams), room, |_, _, _| {}, told).run(&receivers, stop);
            failures
        });
        scope.spawn(move || {
            // 20 records each millisecond, for two seconds; pushing never waits.
            for turn in 0..2_000u64 {
                for n in 1..=20 {
                    let order = Order { input: turn * 20 + n, ..Order::default() };
                    records.push(order.encode());
                }
                thread::sleep(Duration::from_millis(1));
            }
            drop(records);
            stop.store(true, Ordering::Relaxed);
        });
        thread::sleep(Duration::from_millis(500));
        export.pass().expect("read");
        redis.kill();
        assert!(export.pass().is_err(), "nobody answers");
        thread::sleep(Duration::from_millis(500));
        redis.again();
        writer.join().expect("no panic")
    });
    assert!(failures > 0, "the death was seen");
    export.pass().expect("read");
    export.save().expect("written");
    let of = &export.state().streams["m:orders"].account;
    assert!(of.unended().is_empty(), "it ended in order, though the server had died");
    assert_eq!(counts.written() + counts.dropped(), counts.numbered());
    assert_eq!(of.next, counts.numbered() + 1, "the end was told");
    assert_eq!((of.lives, of.again), (1, 0));
    [counts.numbered(), counts.dropped(), of.got, of.missing]
}

#[test]
fn what_a_dead_server_costs_is_counted_exactly() {
    let Some(mut redis) = Redis::start("records") else { return };
    let [numbered, dropped, got, missing] = through_a_death(&mut redis, "few", 512);
    assert_eq!(numbered, 40_000);
    assert!(dropped > 0, "there was too little room");
    assert_eq!((missing, got), (dropped, numbered - dropped));
    // Control: with room for all that comes meanwhile nothing is lost, and nothing is told to be.
    let all = through_a_death(&mut redis, "many", 65_536);
    assert_eq!(all, [40_000, 0, 40_000, 0]);
}

#[test]
fn what_a_server_deletes_unread_is_missing_and_a_second_export_goes_on() {
    let Some(redis) = Redis::start("deletes") else { return };
    let write = |began: u64, count: u64, keep: u64| {
        let streams = Streams::new(&url(redis.port), ("p", "m"), began, keep).expect("an address");
        let (sender, receivers) = channel();
        let (mut records, receiver) = queue("orders", RecordKind::Orders, 1 << 20);
        sender.send(receiver).expect("sent");
        for input in 1..=count {
            records.push(Order { input, ..Order::default() }.encode());
        }
        drop(records);
        let stop = AtomicBool::new(true);
        Writer::new(Place::Redis(streams), 1 << 20, |_, _, _| {}, |_| {}).run(&receivers, &stop);
    };
    let tables = redis.dir.join("tables");
    let export = || {
        let mut export = Export::open(source(&redis, "p"), &tables, Format::Csv).expect("a folder");
        export.pass().expect("read");
        export.save().expect("written");
        let rows: usize = (export.files.iter())
            .map(|path| std::fs::read_to_string(path).expect("a table").lines().count() - 1)
            .sum();
        (export.state().streams["m:orders"].account.clone(), rows)
    };
    write(10, 5_000, 1 << 20);
    let (account, rows) = export();
    assert_eq!((account.got, account.missing, rows), (5_000, 0, 5_000));
    // A later process, whose clock was set back, and a stream of 100 entries: Redis deletes whole nodes of
    // them, so that more stay.
    write(5, 400_000, 100);
    let (account, rows) = export();
    assert_eq!(account.got + account.missing, 405_000);
    assert!(account.missing > 100_000, "{account:?}");
    assert_eq!((account.lives, rows as u64), (2, account.got - 5_000));
    // Nothing new: nothing more, and nothing twice.
    assert_eq!(export().0, account);
}

#[test]
fn entries_of_others_are_left_and_a_second_writer_of_a_stream_is_told() {
    let Some(redis) = Redis::start("others") else { return };
    let key = "x:m:orders";
    let mut connection = redis::Client::open(url(redis.port)).and_then(|of| of.get_connection());
    let connection = connection.as_mut().expect("connected");
    for (id, fields) in [("1-1", &["a", "b"][..]), ("1-2", &["v", "1", "kind", "orders"])] {
        let mut command = redis::cmd("XADD");
        command.arg(key).arg(id).arg(fields);
        command.query::<()>(connection).expect("added");
    }
    let entry = monitoring::entry::Entry { kind: RecordKind::Orders, first: 1, data: vec![0; 64] };
    let new = |began| Streams::new(&url(redis.port), ("x", "m"), began, 1_000).expect("an address");
    let (mut first, mut second) = (new(7), new(7));
    first.write("orders", &entry).expect("written");
    first.write("orders", &entry).expect("it is there");
    // The second one finds the first one's life, and has a later one.
    second.write("orders", &entry).expect("written");
    let why = first.write("orders", &monitoring::entry::Entry { first: 3, ..entry.clone() });
    assert!(why.expect_err("refused").contains("somebody else"));
    let mut export =
        Export::open(source(&redis, "x"), &redis.dir.join("t"), Format::Csv).expect("a folder");
    export.pass().expect("read");
    let of = &export.state().streams["m:orders"];
    assert_eq!((of.strange, of.account.got, of.account.lives), (2, 4, 2));
}
