//! One slice: the same kind of deadlines for a receiver in its loop and for a bare loop.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use exchange::{ExchangeConfig, Role, Sealed};
use net::{Clock, Directory, Loop, LoopConfig, peer_addr};
use overlay::frame::{self, DataBody, FrameKind, GrantBody, HelloBody, HopHeader};
use overlay::key_ring::KeyRing;
use overlay::lives::Life;
use overlay::mold::{HEADER_LEN, Header};
use overlay::sealed_link::{Fleet, SealedLink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::thread::CpuSet;
use types::{Channel, Incarnation, Nanos, NodeId, SplitMix64};
use zerocopy::IntoBytes;

use super::stamps::{self, Taken};
use super::watch::{Watch, taken_away, waited};
use host::config::Config;
use host::deployment::{exchange_config, life, overlay_options};
use host::failure::Failure;
use host::sockets::io;

/// The receiver's place in a tree of one.
const EDGE: NodeId = NodeId(1);
/// From the start of a slice to its first deadline.
const LEAD_NS: u64 = 100 * Nanos::MILLI;
/// How long before its deadline a packet is sent to the receiver.
const AHEAD_NS: u64 = 30 * Nanos::MILLI;
/// The message of each packet.
const MESSAGE: &[u8; 36] = b"Aone market event, as long as ITCH's";
/// How often packets are sent and stamps are taken.
const LOOK_EVERY: Duration = Duration::from_micros(200);
/// How long the edge may take to say hello, and the last stamps of a slice to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Receive buffer of both sockets.
const BUFFER_BYTES: usize = 64 << 20;
/// Readings of both clocks, of which the closest pair counts.
const BRACKETS: usize = 64;
/// Nice value of the thread that is measured.
const NICE: i32 = -20;
/// Deadlines at a slice's start that don't count: caches and buffers are cold.
pub const WARM_UP: usize = 50;

/// Who sends at the deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The receiver of an edge in a loop that never sleeps.
    Receiver,
    /// A loop that only reads the clock and sends.
    Floor,
    /// The receiver in a loop that sleeps until a deadline.
    Sleeping,
}

/// What all slices of a run share.
pub struct Ground {
    /// What the receiver releases from.
    pub feed: UdpSocket,
    /// Where it goes.
    pub sink: UdpSocket,
    /// Where the kernel takes its stamps.
    pub taken: Taken,
    /// The core of the thread that is measured, if it has one.
    pub core: Option<usize>,
    /// Whether the receiver is behind its link, as in a venue.
    pub sealed: bool,
    /// Deadlines in a second.
    pub rate: u64,
    /// Deadlines of a slice.
    pub deadlines: usize,
    /// Notices when the thread loses its core.
    pub watch: &'static Watch,
}

/// What one slice found.
#[derive(Clone, Default, Debug)]
pub struct Slice {
    /// From each deadline to its stamp, ns; and whether the core was away then.
    pub lateness: Vec<(i64, bool)>,
    /// How wrong a stamp may be against the loop's clock, ns.
    pub uncertainty_ns: u64,
    /// Gaps in the readings of the thread while it waited, ns.
    pub gaps: Vec<u64>,
    /// How long it waited for a core, and how long it had one, ns.
    pub waited_ns: [u64; 2],
    /// Packets that reached the receiver after their deadlines.
    pub fed_late: u64,
}

impl Ground {
    /// Sockets, and where the kernel takes stamps of them.
    ///
    /// # Errors
    /// No sockets, or a kernel without stamps.
    pub fn new(
        core: Option<usize>,
        sealed: bool,
        rate: u64,
        deadlines: usize,
    ) -> Result<Ground, Failure> {
        let (feed, sink) = (udp()?, udp()?);
        sink.set_nonblocking(true).map_err(io)?;
        // What comes while this end has no core waits, stamps as well; without the right to so much
        // there is room for some 250.
        for socket in [&feed, &sink] {
            let _ = set_socket_recv_buffer_size_force(socket, BUFFER_BYTES);
        }
        let to = sink.local_addr().map_err(io)?;
        let taken = stamps::kind(&feed, to);
        let taken = taken.map_err(|error| {
            Failure::Run(format!("this kernel takes no transmit stamps of the feed's: {error}"))
        })?;
        // As the loop connects a socket that only sends.
        feed.connect(to).map_err(io)?;
        let watch = Watch::start();
        Ok(Ground { feed, sink, taken, core, sealed, rate, deadlines, watch })
    }

    /// Plays a slice.
    ///
    /// # Errors
    /// No sockets, datagrams that got lost, a wall clock that was set meanwhile.
    pub fn play(&self, who: Who, seed: u64) -> Result<Slice, Failure> {
        stamps::ask(&self.feed, self.taken).map_err(io)?;
        let mut junk = [0; 2_048];
        while self.sink.recv(&mut junk).is_ok() {}
        self.watch.begin();
        let clock = Clock::start(0);
        let before = wall_offset(&clock);
        let (due, stamped, thread) = match who {
            Who::Floor => self.floor(&clock, seed)?,
            Who::Receiver => self.receiver(&clock, seed, host::core::own())?,
            Who::Sleeping => self.receiver(&clock, seed, host::core::shared())?,
        };
        let after = wall_offset(&clock);
        let uncertainty_ns = before.1.max(after.1);
        if before.0.abs_diff(after.0) > u128::from(before.1 + after.1) {
            return Err(Failure::Run("the wall clock was set meanwhile: no stamps".to_string()));
        }
        let gaps = if who == Who::Sleeping { Vec::new() } else { self.watch.gaps() };
        let of_loop = |wall_ns: u64| Nanos((i128::from(wall_ns) - before.0).max(0) as u64);
        let lateness = due.iter().zip(&stamped).skip(WARM_UP).map(|(due, wall_ns)| {
            let at = of_loop(*wall_ns);
            (at.0 as i64 - due.0 as i64, taken_away(&gaps, *due, at))
        });
        // A datagram on its way through the kernel is no gap.
        let sends = |from: Nanos, to: Nanos| {
            let next = stamped.partition_point(|at| of_loop(*at) <= from);
            stamped.get(next).is_some_and(|at| of_loop(*at) < to)
        };
        let waiting = gaps.iter().filter(|(from, to)| !sends(*from, *to));
        Ok(Slice {
            lateness: lateness.collect(),
            uncertainty_ns,
            gaps: waiting.map(|(from, to)| to.since(*from)).collect(),
            waited_ns: thread.waited_ns,
            fed_late: thread.fed_late,
        })
    }

    /// The deadlines: evenly spaced but for a drawn part of half the distance.
    fn due(&self, clock: &Clock, seed: u64) -> Vec<Nanos> {
        let first = clock.now().after(LEAD_NS);
        let (every_ns, mut random) = (Nanos::SECOND / self.rate, SplitMix64::new(seed));
        let at = |number| first.after(number * every_ns + random.below(every_ns / 2));
        (0..self.deadlines as u64).map(at).collect()
    }

    /// A thread that waits for each deadline, awake, and sends.
    fn floor(&self, clock: &Clock, seed: u64) -> Result<Times, Failure> {
        let due = self.due(clock, seed);
        let clock = clock.kept_by(self.watch);
        let send = || {
            self.settle();
            let before = waited();
            for (number, due) in (1..).zip(&due) {
                let packet = packet(number);
                while clock.now() < *due {
                    std::hint::spin_loop();
                }
                self.feed.send(&packet)?;
                clock.now();
            }
            Ok::<_, std::io::Error>(Thread::since(before))
        };
        let (stamps, thread) = thread::scope(|scope| {
            let sending = scope.spawn(send);
            let mut sent = Sent::default();
            while !sending.is_finished() {
                sent.look(self)?;
                thread::sleep(LOOK_EVERY);
            }
            let thread = sending.join().map_err(|_| panicked())?.map_err(io)?;
            sent.finish(self, due.len())?;
            Ok::<_, Failure>((sent.stamps, thread))
        })?;
        Ok((due, stamps, thread))
    }

    /// A receiver as a node of a venue hosts it, fed by this thread as by the node above it.
    fn receiver(&self, clock: &Clock, seed: u64, habits: LoopConfig) -> Result<Times, Failure> {
        let mut edge = Edge::new(self, clock, habits)?;
        let of = edge.of.take().ok_or_else(panicked)?;
        let stop = AtomicBool::new(false);
        let host = || {
            self.settle();
            let before = waited();
            let nodes = of.run(&stop, Duration::from_secs(1), |_, _| ())?;
            let late = nodes.iter().filter_map(|(_, role)| role.as_edge());
            let fed_late = late.map(|edge| edge.receiver().stats().late_self).sum();
            Ok::<_, std::io::Error>(Thread { fed_late, ..Thread::since(before) })
        };
        thread::scope(|scope| {
            let running = scope.spawn(host);
            let mut sent = Sent::default();
            let all = edge.meet(clock).and_then(|()| {
                let due = self.due(clock, seed);
                edge.feed(clock, &due, || sent.look(self))?;
                sent.finish(self, due.len())?;
                Ok(due)
            });
            stop.store(true, Ordering::Relaxed);
            let thread = running.join().map_err(|_| panicked())?.map_err(io)?;
            Ok((all?, sent.stamps, thread))
        })
    }

    /// The calling thread is the one that is measured.
    fn settle(&self) {
        if let Some(core) = self.core {
            let mut cores = CpuSet::new();
            cores.set(core);
            // One of those that this process may use.
            let _ = rustix::thread::sched_setaffinity(None, &cores);
        }
        // Where it may not, it does without.
        let own = rustix::thread::gettid();
        let _ = rustix::process::setpriority_process(Some(own), NICE);
    }
}

/// Deadlines, the stamps of what went out at them, and what the thread tells of itself.
type Times = (Vec<Nanos>, Vec<u64>, Thread);

/// What the measured thread tells of itself.
struct Thread {
    waited_ns: [u64; 2],
    fed_late: u64,
}

impl Thread {
    fn since(before: [u64; 2]) -> Thread {
        let [ran, waited] = waited();
        Thread { waited_ns: [waited - before[1], ran - before[0]], fed_late: 0 }
    }
}

/// What was sent so far: stamps, and how many messages came to the other end, each in its turn.
#[derive(Default)]
struct Sent {
    stamps: Vec<u64>,
    arrived: u64,
}

impl Sent {
    /// Takes what is there.
    fn look(&mut self, ground: &Ground) -> Result<(), Failure> {
        while let Some(stamp) = stamps::next(&ground.feed).map_err(io)? {
            if stamp.number as usize != self.stamps.len() {
                let wanted = self.stamps.len();
                return Err(Failure::Run(format!("a stamp of {}, not {wanted}", stamp.number)));
            }
            self.stamps.push(stamp.realtime_ns);
        }
        let mut bytes = [0; 2_048];
        while let Ok(len) = ground.sink.recv(&mut bytes) {
            self.arrived += 1;
            if bytes.get(..len) != Some(&packet(self.arrived)) {
                let number = self.arrived;
                return Err(Failure::Run(format!("message {number} is not what was released")));
            }
        }
        Ok(())
    }

    /// Takes the rest.
    fn finish(&mut self, ground: &Ground, wanted: usize) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.stamps.len() < wanted || self.arrived < wanted as u64 {
            self.look(ground)?;
            if begun.elapsed() > PATIENCE {
                let (stamps, arrived) = (self.stamps.len(), self.arrived);
                return Err(Failure::Run(format!(
                    "of {wanted} deadlines {stamps} have a stamp and {arrived} a message"
                )));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// An edge in its loop, and the node above it.
struct Edge {
    /// Until it is run.
    of: Option<Loop<Role>>,
    link: Option<SealedLink<KeyRing>>,
    socket: UdpSocket,
    edge: SocketAddr,
    epoch: u32,
    /// The edge's gateway has been answered.
    met: bool,
}

impl Edge {
    fn new(ground: &Ground, clock: &Clock, habits: LoopConfig) -> Result<Edge, Failure> {
        let mut config = Config::default().unlimited();
        config.overlay.sealed = ground.sealed;
        config.overlay.depth = 1;
        config.overlay.receivers = 1;
        config.overlay.hedge = 0;
        let mut exchange = exchange_config(&config, clock);
        exchange.session = SESSION;
        exchange.options.secret = overlay_options(&config)?.secret;
        let wrong = |error: exchange::ExchangeError| Failure::Run(error.to_string());
        let (own, tree) = (life()?, exchange.tree().map_err(wrong)?);
        let to = peer_addr(ground.sink.local_addr().map_err(io)?);
        let mut role = exchange::overlay_node(&exchange, EDGE, own, to).map_err(wrong)?;
        let mut link = None;
        if let Some(secret) = &exchange.options.secret {
            let fleet = Fleet::of(&tree.topology);
            let none = || Failure::Run("the cipher is not there".to_string());
            let link_of = |node, life: Life| secret.link(node, &fleet, life, false);
            let sealed = link_of(EDGE, own).ok_or_else(none)?;
            role = Role::Sealed(Box::new(Sealed::new(role, sealed)));
            link = Some(link_of(ExchangeConfig::ROOT, life()?).ok_or_else(none)?);
        }
        let (socket, inlet) = (udp()?, udp()?);
        let (above, edge) = (socket.local_addr().map_err(io)?, inlet.local_addr().map_err(io)?);
        let known = [(ExchangeConfig::ROOT, above), (EDGE, edge)];
        let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
        let clock = clock.kept_by(ground.watch);
        let mut of = Loop::new(clock, Arc::new(directory), habits).map_err(io)?;
        let released = ground.feed.try_clone().map_err(io)?;
        let sockets = vec![(Channel::OVERLAY, inlet), (Channel::FEED, released)];
        let doors = [listen()?, listen()?];
        of.add_node(EDGE, role, sockets, doors).map_err(io)?;
        of.connect_peers(EDGE, Channel::FEED).map_err(io)?;
        socket.set_nonblocking(true).map_err(io)?;
        let epoch = tree.epoch;
        Ok(Edge { of: Some(of), link, socket, edge, epoch, met: false })
    }

    /// Waits for the gateway's hello, which it answers: the two ends have agreed on keys then.
    fn meet(&mut self, clock: &Clock) -> Result<(), Failure> {
        let begun = Instant::now();
        while !self.met {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::Run("the edge does not say hello".to_string()));
            }
            self.hear(clock.now())?;
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Sends a packet for each deadline ahead of it; `look` is called all along.
    fn feed(
        &mut self,
        clock: &Clock,
        due: &[Nanos],
        mut look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut waiting = due.iter().zip(1..).peekable();
        while waiting.peek().is_some() {
            let now = clock.now();
            self.hear(now)?;
            while let Some((due, number)) = waiting.next_if(|(due, _)| **due < now.after(AHEAD_NS))
            {
                let (now, packet) = (clock.now(), packet(number));
                let body = DataBody {
                    id: number,
                    t_sent: now,
                    deadline: *due,
                    bound_ns: 0,
                    stream: 0,
                    hedge: 0,
                    flags: 0,
                };
                self.send(now, FrameKind::Data, &[body.as_bytes(), &packet].concat())?;
            }
            look()?;
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Sends a frame; what the link holds back until keys are agreed on goes later. True: it went.
    fn send(&mut self, now: Nanos, kind: FrameKind, rest: &[u8]) -> Result<bool, Failure> {
        let header = HopHeader::new(kind, ExchangeConfig::ROOT, self.epoch);
        let clear = [header.as_bytes(), rest].concat();
        let mut sealed = Vec::new();
        let (ready, bytes) = match &mut self.link {
            None => (true, &clear),
            Some(link) => (link.seal(now, EDGE, (&clear, false), &mut sealed), &sealed),
        };
        if ready {
            self.socket.send_to(bytes, self.edge).map_err(io)?;
        }
        self.greet(now)?;
        Ok(ready)
    }

    /// Answers hellos. What else the edge says is of its link, or of no use here.
    fn hear(&mut self, now: Nanos) -> Result<(), Failure> {
        let mut bytes = [0; 2_048];
        while let Ok(len) = self.socket.recv(&mut bytes) {
            let bytes = bytes.get(..len).unwrap_or(&[]);
            let clear = match &mut self.link {
                None => Some(bytes),
                // A refusal shows as packets that never come out.
                Some(link) => link.open(now, bytes).ok().flatten(),
            };
            let hello = clear.and_then(|clear| HopHeader::read(clear).ok());
            let hello = hello.filter(|(header, _)| header.kind == FrameKind::Hello);
            if let Some(Ok((HelloBody { gateway, boot_nonce, .. }, []))) =
                hello.map(|(_, rest)| frame::body::<HelloBody>(rest))
            {
                let incarnation = Incarnation(1);
                let grant = GrantBody { gateway, reserved: 0, boot_nonce, incarnation };
                self.met |= self.send(now, FrameKind::Grant, grant.as_bytes())?;
            }
        }
        self.greet(now)
    }

    fn greet(&mut self, now: Nanos) -> Result<(), Failure> {
        let Edge { link: Some(link), socket, edge, .. } = self else { return Ok(()) };
        if link.next_timeout() <= now {
            link.handle_timeout(now);
        }
        let mut outcome = Ok(());
        let mut send = |_, bytes: &[u8]| {
            let sent = socket.send_to(bytes, *edge).map(drop);
            outcome = std::mem::replace(&mut outcome, Ok(())).and(sent);
        };
        link.take_hellos(&mut send);
        link.take_held(now, &mut send);
        outcome.map_err(io)
    }
}

/// The session of what is released.
const SESSION: [u8; 10] = *b"FAIRBELL01";

/// A packet of one message.
fn packet(number: u64) -> [u8; HEADER_LEN + 2 + MESSAGE.len()] {
    let mut packet = [0; HEADER_LEN + 2 + MESSAGE.len()];
    let (head, rest) = packet.split_at_mut(HEADER_LEN);
    head.copy_from_slice(&Header { session: SESSION, seq: number, count: 1 }.bytes());
    let (length, message) = rest.split_at_mut(2);
    length.copy_from_slice(&(MESSAGE.len() as u16).to_be_bytes());
    message.copy_from_slice(MESSAGE);
    packet
}

/// CLOCK_REALTIME less the process's clock, ns, and half the time that both took to read. One rate drives
/// both, so that holds until the wall clock is set.
fn wall_offset(clock: &Clock) -> (i128, u64) {
    let one = |_| {
        let before = clock.process().0;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let after = clock.process().0;
        let half = (after - before).div_ceil(2);
        (wall.as_nanos() as i128 - i128::from(before + half), half)
    };
    (0..BRACKETS).map(one).min_by_key(|(_, half)| *half).unwrap_or_default()
}

fn udp() -> Result<UdpSocket, Failure> {
    UdpSocket::bind("127.0.0.1:0").map_err(io)
}

fn listen() -> Result<TcpListener, Failure> {
    TcpListener::bind("127.0.0.1:0").map_err(io)
}

fn panicked() -> Failure {
    Failure::Run("a thread of the measurement panicked".to_string())
}
