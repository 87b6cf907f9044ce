//! Who is connected to the admin socket: what each has said so far, and what it is still to be told.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use types::{Admission, AdmissionConfig, Nanos, Yields};

use super::audit::Who;
use super::protocol::{LINE_MAX, Reply};
use super::server::user_name;

/// How often it is looked whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A peer's time to send its line, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time.
const PLACES: usize = 32;

struct Caller {
    stream: UnixStream,
    who: Who,
    line: Vec<u8>,
    /// What is left of its answer, once there is one.
    answer: Option<Vec<u8>>,
}

/// Connections to the admin socket that wait for their request or their answer, by number.
pub(super) struct Callers {
    all: BTreeMap<u64, Caller>,
    places: Admission<u64>,
    next: u64,
    begun: Instant,
}

impl Default for Callers {
    fn default() -> Callers {
        let places = AdmissionConfig {
            places: PLACES,
            places_per_source: PLACES,
            patience_ns: PATIENCE.as_nanos() as u64,
            yields: Yields::Oldest,
        };
        Callers {
            all: BTreeMap::new(),
            places: Admission::new(places),
            next: 0,
            begun: Instant::now(),
        }
    }
}

impl Callers {
    fn now(&self) -> Nanos {
        Nanos(self.begun.elapsed().as_nanos() as u64)
    }

    /// Waits for news: whether somebody wants in, and who of those there goes on.
    pub fn wait(&self, listener: &UnixListener) -> (bool, Vec<u64>) {
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(self.all.values().map(|caller| {
            let writes = caller.answer.is_some();
            let wanted = if writes { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(caller.stream.as_fd(), wanted)
        }));
        let patience = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        if poll(&mut fds, Some(&patience)).is_err() {
            std::thread::sleep(LOOK_EVERY);
        }
        let mut news = fds.iter().map(|fd| !fd.revents().is_empty());
        let waits = news.next().unwrap_or(false);
        (waits, self.all.keys().zip(news).filter(|(_, news)| *news).map(|(id, _)| *id).collect())
    }

    /// Somebody has connected: who, as far as the kernel knows.
    pub fn take(&mut self, stream: UnixStream) -> Option<(u64, Who)> {
        stream.set_nonblocking(true).ok()?;
        let peer = socket_peercred(&stream).ok()?;
        let uid = peer.uid.as_raw();
        let pid = peer.pid.as_raw_nonzero().get();
        let who = Who { uid, pid, user: user_name(uid), operator: None };
        self.next += 1;
        let caller = Caller { stream, who: who.clone(), line: Vec::new(), answer: None };
        self.all.insert(self.next, caller);
        if let Some(oldest) = self.places.arrive(self.now(), self.next, None) {
            self.leave(oldest);
        }
        Some((self.next, who))
    }

    /// Reads or writes on. Who it is and its whole line, or why that is none.
    pub fn go_on(&mut self, id: u64) -> Option<(Who, Result<Vec<u8>, String>)> {
        let caller = self.all.get_mut(&id)?;
        if caller.answer.is_some() {
            self.write(id);
            return None;
        }
        let mut buffer = [0u8; LINE_MAX];
        let read = match caller.stream.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) if error.kind() == ErrorKind::Interrupted => return None,
            Err(_) => {
                self.leave(id);
                return None;
            }
        };
        let part = buffer.get(..read).unwrap_or(&[]);
        let end = part.iter().position(|byte| *byte == b'\n');
        caller.line.extend_from_slice(part.get(..end.unwrap_or(read)).unwrap_or(&[]));
        if caller.line.len() >= LINE_MAX {
            let why = format!("a request has at most {LINE_MAX} bytes");
            return Some((caller.who.clone(), Err(why)));
        }
        let over = end.is_some() || read == 0;
        over.then(|| (caller.who.clone(), Ok(std::mem::take(&mut caller.line))))
    }

    /// Tells somebody an answer, and hangs up when it is told.
    pub fn answer(&mut self, id: u64, reply: &Reply) {
        if let Some(caller) = self.all.get_mut(&id) {
            caller.answer = Some(reply.line().into_bytes());
            self.write(id);
        }
    }

    fn write(&mut self, id: u64) {
        let Some(caller) = self.all.get_mut(&id) else { return };
        let Some(rest) = &mut caller.answer else { return };
        while !rest.is_empty() {
            match caller.stream.write(rest) {
                Ok(0) => break,
                Ok(len) => drop(rest.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.leave(id);
    }

    /// One whose time is up before it said anything whole; those that don't take their answers just
    /// go.
    pub fn expire(&mut self) -> Option<(u64, Who)> {
        let now = self.now();
        while let Some(id) = self.places.expire(now) {
            match self.all.get(&id).filter(|caller| caller.answer.is_none()) {
                Some(caller) => return Some((id, caller.who.clone())),
                None => self.leave(id),
            }
        }
        None
    }

    /// Hangs up.
    pub fn leave(&mut self, id: u64) {
        self.all.remove(&id);
        self.places.leave(id);
    }
}
