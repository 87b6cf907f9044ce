//! A process without free descriptors: it accepts nobody, burns nothing, and goes on when there are some.
//!
//! Alone in its file, because the limit is the whole process's.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use net::{Clock, Directory, Loop, LoopConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use types::{ClockReading, ConnId, Nanos, Node, NodeId, Outbox};

/// Sends back what comes.
struct Echo;

impl Node for Echo {
    fn handle_stream(&mut self, _: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let bytes = out.store(bytes);
        out.stream(conn, bytes);
    }

    fn handle_timeout(&mut self, _: ClockReading, _: &mut Outbox) {}

    fn next_timeout(&self) -> Nanos {
        Nanos::NEVER
    }
}

fn limit(soft: u64) {
    let known = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), ..known }).expect("a limit");
}

#[test]
fn a_listener_rests_while_no_descriptor_is_free_and_goes_on_when_some_are() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("its address");
    let mut running: Loop<Echo> =
        Loop::new(Clock::start(0), Arc::new(Directory::default()), LoopConfig::default())
            .expect("an epoll descriptor");
    running.add_node(NodeId(0), Echo, Vec::new(), Some(listener)).expect("added");
    // The kernel takes them before anybody accepts.
    let connect = |_| {
        let stream = TcpStream::connect(addr);
        let stream = stream.expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    };
    let mut clients: Vec<TcpStream> = (0..40).map(connect).collect();
    let open = std::fs::read_dir("/proc/self/fd").expect("a list").count() as u64;
    let before = getrlimit(Resource::Nofile).current.unwrap_or(1_024);
    limit(open + 10);
    let (handle, stop) = (running.handle(), AtomicBool::new(false));
    let started = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| running.run(&stop, Duration::from_secs(1), |_, _| {}).map(drop));
        let until = Instant::now() + Duration::from_secs(20);
        while handle.counters().accepts_starved < 3 {
            assert!(Instant::now() < until, "{:?}", handle.counters());
            std::thread::sleep(Duration::from_millis(20));
        }
        let counters = handle.counters();
        assert!(counters.accepted >= 1 && counters.accepted < 40, "{counters:?}");
        // One failure for each rest of 100 ms, not hundreds of thousands.
        let most = started.elapsed().as_millis() as u64 / 100 + 2;
        assert!(counters.accepts_starved <= most, "{} > {most}", counters.accepts_starved);
        // Those that leave make room for those that wait.
        let waiting = clients.split_off(20);
        drop(clients);
        for mut client in waiting {
            let mut byte = [0];
            client.write_all(b"x").expect("sent");
            client.read_exact(&mut byte).expect("served in the end");
        }
        limit(before);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
