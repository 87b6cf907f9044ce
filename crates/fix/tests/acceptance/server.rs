//! A listener on loopback that drives the production acceptor: one thread that owns it, one that
//! accepts, one that reads each connection. Time comes from a clock that may run fast.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fix::dictionary::Rules;
use fix::session::{MemoryStore, SessionConfig};
use fix::{Acceptor, Limits, Version};
use types::{ConnId, Nanos};

use crate::echo::Echo;

/// Real time, `rate` times as fast.
#[derive(Clone, Copy)]
pub struct Clock {
    base: Nanos,
    start: Instant,
    rate: u64,
}

impl Clock {
    /// Now, from now on fast.
    pub fn new(rate: u64) -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Clock { base: Nanos(since.as_nanos() as u64), start: Instant::now(), rate }
    }

    /// What it says.
    pub fn now(&self) -> Nanos {
        self.base.after(self.start.elapsed().as_nanos() as u64 * self.rate)
    }

    fn until(&self, at: Nanos) -> Duration {
        Duration::from_nanos((at - self.now()) / self.rate)
    }
}

enum Event {
    Open(ConnId, TcpStream),
    Bytes(ConnId, Vec<u8>),
    Closed(ConnId),
    Stop,
}

/// A running door; it stops when dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    events: Sender<Event>,
    thread: Option<std::thread::JoinHandle<()>>,
}

fn their_comp_id(version: Version) -> &'static str {
    match version {
        Version::Fix42 => "TW42",
        Version::Fix44 => "TW44",
        Version::Fix50Sp2 => "TW50SP2",
    }
}

impl Server {
    /// Sessions as the scripts want them, on a free port.
    pub fn start(rules: &[Rules], clock: Clock) -> Server {
        let sessions = rules.iter().map(|rules| {
            let their = their_comp_id(rules.version);
            let mut config = SessionConfig::new("ISLD", their, rules.clone());
            config.reset_on_logon = true;
            (config, MemoryStore::new(1_000, 1 << 20))
        });
        let acceptor = Acceptor::new(sessions.collect(), Limits::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (events, queue) = channel();
        let opened = events.clone();
        std::thread::spawn(move || accept(&listener, &opened));
        let thread = std::thread::spawn(move || Loop::new(acceptor, clock).run(&queue));
        Server { address, events, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The accepting thread ends with its next connection, which finds nobody to tell.
        let _ = self.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let panicked = thread.join().is_err();
            let _ = TcpStream::connect(self.address);
            assert!(!panicked || std::thread::panicking(), "the door panicked");
        }
    }
}

fn accept(listener: &TcpListener, events: &Sender<Event>) {
    for (number, stream) in (1..).zip(listener.incoming()) {
        let Ok(stream) = stream else { return };
        let conn = ConnId(number);
        let Ok(reader) = stream.try_clone() else { return };
        if events.send(Event::Open(conn, stream)).is_err() {
            return;
        }
        let events = events.clone();
        std::thread::spawn(move || read(conn, reader, &events));
    }
}

fn read(conn: ConnId, mut stream: TcpStream, events: &Sender<Event>) {
    let mut buffer = [0; 4_096];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        if events.send(Event::Bytes(conn, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
    let _ = events.send(Event::Closed(conn));
}

struct Loop {
    acceptor: Acceptor<MemoryStore>,
    clock: Clock,
    app: Echo,
    streams: BTreeMap<ConnId, TcpStream>,
}

impl Loop {
    fn new(acceptor: Acceptor<MemoryStore>, clock: Clock) -> Loop {
        Loop { acceptor, clock, app: Echo::default(), streams: BTreeMap::new() }
    }

    fn run(&mut self, queue: &Receiver<Event>) {
        loop {
            let timers = self.streams.keys().map(|&conn| self.acceptor.next_timeout(conn));
            let next = timers.min().unwrap_or(Nanos::NEVER);
            let wait = self.clock.until(next).min(Duration::from_secs(60));
            match queue.recv_timeout(wait) {
                Ok(Event::Open(conn, stream)) => {
                    self.acceptor.handle_connect(self.clock.now(), conn);
                    self.streams.insert(conn, stream);
                }
                Ok(Event::Bytes(conn, bytes)) => self.turn(conn, Some(&bytes)),
                Ok(Event::Closed(conn)) => self.close(conn),
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let due: Vec<ConnId> = self.streams.keys().copied().collect();
            for conn in due {
                if self.acceptor.next_timeout(conn) <= self.clock.now() {
                    self.turn(conn, None);
                }
            }
        }
        for stream in self.streams.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Bytes or a timer.
    fn turn(&mut self, conn: ConnId, bytes: Option<&[u8]>) {
        let Some(stream) = self.streams.get_mut(&conn) else { return };
        let (now, mut out) = (self.clock.now(), Vec::new());
        let ending = match bytes {
            Some(bytes) => self.acceptor.handle_bytes(now, conn, bytes, &mut self.app, &mut out),
            None => self.acceptor.handle_timeout(now, conn, &mut self.app, &mut out),
        };
        let written = stream.write_all(&out);
        if ending.is_some() || written.is_err() {
            self.close(conn);
        }
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(stream) = self.streams.remove(&conn) {
            self.acceptor.handle_close(conn);
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
