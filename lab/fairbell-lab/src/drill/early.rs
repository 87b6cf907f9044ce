//! Somebody who asks the retransmission servers of all replicas for what comes next, all the time, and
//! notes when it hears what.
//!
//! Every message of the feed carries the time at which its input was logged, and none is public before
//! that and the hold: the leader's deadline is the hold behind the time at which the message leaves,
//! which is later. The hold is `hold.cap_ms`, because a receiver whose clock is ahead finds every
//! way longer; a round of the all-reduce in which reports are missing may lower it by a sixteenth, so
//! a quarter is allowed for that. A busy machine makes things later, never earlier.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use exchange::{ExchangeConfig, Role};
use net::{Clock, LoopHandle};
use serde::Serialize;
use types::{Nanos, Outbox};
use wire::itch;
use wire::moldudp::{Packet, Request, Session, TOKEN_LEN, Token, parse_token};

use super::site::Site;
use host::failure::{Failure, on};
use host::replica::checkpoints::Begin;
use host::replica::node::Host;
use host::sockets::io;

/// Between two rounds of requests.
const ASK_EVERY: Duration = Duration::from_micros(200);
/// Messages asked for at once.
const COUNT: u16 = 64;
/// Clocks of processes on one machine are anchored so well, ns.
const ANCHOR_NS: u64 = Nanos::MILLI;
/// How often a follower is told that all is released.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// After this everybody has reported delays.
const WARM: Duration = Duration::from_secs(2);

/// What one replica's server gave out.
#[derive(Serialize, Clone, Debug, Default)]
pub struct FromReplica {
    /// Number of the replica, from 1.
    replica: usize,
    /// Messages heard of it first that it had just got.
    messages: u64,
    /// Of them, those before their time.
    early: u64,
    /// The least time from the input to hearing of it, ns.
    least_ns: u64,
}

/// What was heard.
#[derive(Serialize, Clone, Debug, Default)]
pub struct Heard {
    /// Every message is held so long, ns.
    hold_ns: u64,
    /// Requests sent.
    requests: u64,
    /// By replica.
    of: Vec<FromReplica>,
    /// Messages heard early, of all.
    early: u64,
}

impl Heard {
    /// Nothing was early, and every replica was heard.
    pub fn holds(&self) -> bool {
        self.early == 0 && self.of.iter().all(|of| of.messages > 0)
    }

    pub fn print(&self) {
        let ms = |ns: u64| ns as f64 / 1e6;
        println!(
            "  {} requests for what comes next; hold {:.0} ms",
            self.requests,
            ms(self.hold_ns)
        );
        for of in &self.of {
            println!(
                "  heard of replica {}: {} messages, {} early; {:.2} ms after the input at least",
                of.replica,
                of.messages,
                of.early,
                ms(of.least_ns)
            );
        }
    }
}

/// One who asks, in a thread of its own.
pub struct Ear {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Heard, Failure>>,
}

/// One server that is asked.
struct Asked {
    socket: UdpSocket,
    at: SocketAddr,
    next: u64,
    /// What the server gave it to show.
    token: Token,
    heard: FromReplica,
}

impl Ear {
    /// Begins to ask the replicas of a site.
    pub fn start(site: &Site, cap_ms: u64) -> Result<Ear, Failure> {
        let over = Arc::new(AtomicBool::new(false));
        let (session, midnight, clock) = site.feed();
        let asked = site.roots.cluster.retransmission().zip(1..).map(|(at, replica)| {
            let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(io)?;
            socket.set_nonblocking(true).map_err(io)?;
            let heard = FromReplica { replica, least_ns: u64::MAX, ..FromReplica::default() };
            Ok(Asked { socket, at, next: 1, token: [0; TOKEN_LEN], heard })
        });
        let mut asked = asked.collect::<Result<Vec<_>, Failure>>()?;
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let hold_ns = cap_ms * Nanos::MILLI;
            let mut heard = Heard { hold_ns, ..Heard::default() };
            let from = Instant::now();
            let mut buffer = vec![0; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                for of in &mut asked {
                    of.ask(session)?;
                    heard.requests += 1;
                }
                std::thread::sleep(ASK_EVERY);
                for of in &mut asked {
                    let counts = from.elapsed() > WARM;
                    of.listen(&mut buffer, session, (midnight, clock, hold_ns), counts);
                }
            }
            heard.early = asked.iter().map(|of| of.heard.early).sum();
            heard.of = asked.into_iter().map(|of| of.heard).collect();
            Ok(heard)
        });
        Ok(Ear { over, thread })
    }

    /// Stops asking.
    pub fn end(self) -> Result<Heard, Failure> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| Failure::Run("who asked panicked".to_string()))?
    }
}

impl Asked {
    fn ask(&self, session: [u8; 10]) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(36);
        let request = Request { session: Session(session), seq: self.next, count: COUNT };
        request.encode(&mut bytes);
        bytes.extend_from_slice(&self.token);
        // A replica that is dead refuses.
        let _ = self.socket.send_to(&bytes, self.at);
        Ok(())
    }

    fn listen(
        &mut self,
        buffer: &mut [u8],
        session: [u8; 10],
        (midnight, clock, hold_ns): (Nanos, Clock, u64),
        counts: bool,
    ) {
        while let Ok(len) = self.socket.recv(buffer) {
            let now = clock.now();
            let token = buffer.get(..len).and_then(|bytes| parse_token(Session(session), bytes));
            if let Some(token) = token {
                self.token = token;
                continue;
            }
            let Some(Ok(packet)) = buffer.get(..len).map(Packet::parse) else { continue };
            let fresh = self.next.saturating_sub(packet.seq()) as usize;
            // Where a server no longer reaches back, it names the first that it has.
            self.next = self.next.max(packet.next_seq());
            for message in packet.messages().skip(fresh) {
                let Ok(message) = itch::parse(message) else { continue };
                let input = midnight + message.header().time.get();
                let after_ns = now.since(input);
                if !counts {
                    continue;
                }
                self.heard.messages += 1;
                self.heard.least_ns = self.heard.least_ns.min(after_ns);
                self.heard.early += u64::from(after_ns + ANCHOR_NS < hold_ns - hold_ns / 4);
            }
        }
    }
}

/// A follower, in this process, that is told that all of the feed is released: what all of them did
/// once.
pub struct Eager {
    over: Arc<AtomicBool>,
    threads: [JoinHandle<Result<(), Failure>>; 2],
}

impl Eager {
    /// In the place of one that does not lead.
    pub fn start(site: &mut Site) -> Result<Eager, Failure> {
        let leader = site.seat.held().1;
        let number = if leader == 0 { 1 } else { 0 };
        site.roots.kill(number);
        let (journal, cluster) = (site.roots.journal(number), site.roots.seen_by(number));
        let of = (number as u8 + 1, journal.as_path());
        let which = (&site.roots.config, &cluster);
        let host = Host::new(which, of, Clock::start(0), Begin::Checkpoint)
            .map_err(|error| on(&journal, error))?;
        let over = Arc::new(AtomicBool::new(false));
        let (root, stop) = (host.handle(), Arc::clone(&over));
        let runs = std::thread::spawn(move || host.run(&stop).map(drop));
        let stop = Arc::clone(&over);
        let tells = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                tell(&root);
                std::thread::sleep(TELL_EVERY);
            }
            Ok(())
        });
        Ok(Eager { over, threads: [runs, tells] })
    }

    /// Ends it.
    pub fn end(self) -> Result<(), Failure> {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| Failure::Run("the follower panicked".to_string()))?
        })
    }
}

/// Tells the root of a loop that all messages that ever come are released.
fn tell(root: &LoopHandle<Role>) {
    let told = [1u64 << 60, 1, 0, 0].map(u64::to_le_bytes).concat();
    let call = move |role: &mut Role, now, _: &mut Outbox| {
        let mut nobody = Outbox::default();
        role.with_root(&mut nobody, |root, _| root.learn_releases(now, &told));
    };
    // It may have ended.
    let _ = root.call(ExchangeConfig::ROOT, call);
}
