//! One thread's loop: serves ready sockets in order of arrival, fires timers, waits.
//!
//! Timers are looked at between any two calls, so a busy socket delays them by one call at most.
//! A node that always asks for a time that has passed slows its loop down but stops nobody.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer, limits::DATAGRAM_MAX};

use crate::conn::Incoming;
use crate::control::{Commands, Control, LoopHandle};
use crate::io::{Io, Local, LocalBatch, LoopConfig, Notice, Token};
use crate::poller::{WaitStrategy, sharpen_timers};
use crate::secure::SEALED_READ;
use crate::tls::{ClientTls, ServerTls};
use crate::worker::JobSender;
use crate::{Clock, Counters, Directory, Mailbox, TraceSender};
mod planes;
mod receiving;
mod rings;

/// Largest datagram and largest read: 64 KiB.
const BUFFER_BYTES: usize = 65_536;

const _: () = assert!(BUFFER_BYTES >= DATAGRAM_MAX && BUFFER_BYTES > u16::MAX as usize);
const _: () = assert!(BUFFER_BYTES >= 3 * SEALED_READ, "what a read opens to, and a record before");
/// How long a stop flag may go unseen.
const STOP_CHECK_NS: u64 = 10 * Nanos::MILLI;
/// How long the parts of a bundle may wait for the end of a turn, and one token's datagrams more.
const BUNDLE_WAIT_NS: u64 = 50 * Nanos::MICRO;
/// Datagrams that stay in the loop, served in a row while those who steer it wait.
const LOCAL_ROUND: usize = 256;
/// Hops from node to node within a turn: an order's way to the root, its answer's back, and what
/// acknowledges that. What goes further waits until sockets were looked at.
const LOCAL_HOPS: usize = 4;
/// How long traces may wait for their batch to fill.
const TRACE_WAIT_NS: u64 = 2 * Nanos::MILLI;

/// See [`Loop::after_each_call`].
type AfterCall<N> = Box<dyn FnMut(&mut N) + Send>;

/// Nodes on one thread. Build it, share [`Loop::handle`], then [`Loop::run`] it.
pub struct Loop<N> {
    driver: Driver,
    hosted: Hosted<N>,
}

/// The nodes of a loop, and what only code that knows their type can do.
struct Hosted<N> {
    /// `None`: killed.
    nodes: Vec<(NodeId, Option<N>)>,
    commands: Commands<N>,
    after_call: Option<AfterCall<N>>,
}

/// [`Hosted`], whatever the nodes' type: so the driver is compiled once.
trait Nodes {
    /// Nodes, killed ones included.
    fn len(&self) -> usize;
    /// One that is alive.
    fn node(&mut self, host: usize) -> Option<&mut dyn Node>;
    /// What wants to see a node after each call sees it.
    fn after_call(&mut self, host: usize);
    /// Does what those who steer the loop have sent.
    fn obey(&mut self, driver: &mut Driver);
}

/// What serves sockets, timers and nodes.
struct Driver {
    clock: Clock,
    timers: Timers,
    io: Io,
    out: Outbox,
    buffer: Box<[u8]>,
    spare: LocalBatch,
    /// Nodes that were told of more in the present batch.
    batched: Vec<usize>,
    traces: Option<TraceSender>,
    traces_since: Nanos,
    /// When bundles were last sent.
    flushed_at: Nanos,
    stopping: bool,
}

impl<N: Node> Loop<N> {
    /// A loop without nodes.
    ///
    /// # Errors
    /// When the kernel refuses an epoll or event descriptor.
    pub fn new(
        clock: Clock,
        directory: Arc<Directory>,
        config: LoopConfig,
    ) -> std::io::Result<Loop<N>> {
        let io = Io::new(directory, config)?;
        let commands = Commands::new()?;
        io.poller.add_input(&*commands.wake, Token::Control.pack())?;
        let driver = Driver {
            clock,
            timers: Timers::default(),
            io,
            out: Outbox::default(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            spare: LocalBatch::default(),
            batched: Vec::new(),
            traces: None,
            traces_since: Nanos(0),
            flushed_at: Nanos(0),
            stopping: false,
        };
        Ok(Loop { driver, hosted: Hosted { nodes: Vec::new(), commands, after_call: None } })
    }

    /// Hosts a node. `id` is its name in the directory and for [`LoopHandle`]; a node that others
    /// don't send overlay datagrams to (a client) needs only the latter. `sockets`: one per
    /// channel, IPv4, bound. `listeners`: the node's doors ([`types::ConnId::door`]), at most
    /// [`types::ConnId::DOORS`]. Their connections get ids from `1 << 31` up, so the ids a node
    /// chooses in [`types::Op::Connect`] must be below; they connect to [`Peer::Addr`] only.
    ///
    /// # Errors
    /// A second node of the same id; too many doors; the kernel refusing a socket option.
    pub fn add_node(
        &mut self,
        id: NodeId,
        node: N,
        sockets: Vec<(Channel, UdpSocket)>,
        listeners: impl IntoIterator<Item = TcpListener>,
    ) -> std::io::Result<()> {
        self.driver.io.add_host(id, sockets, listeners.into_iter().collect())?;
        self.driver.timers.push(node.next_timeout());
        self.hosted.nodes.push((id, Some(node)));
        let hosts = self.driver.io.hosts.len();
        assert!(
            self.hosted.nodes.len() == hosts && self.driver.timers.due.len() == hosts,
            "all are by host"
        );
        Ok(())
    }

    /// From now on a node's socket of that channel only sends, to few peers: each has a socket
    /// connected to it at the same port, which takes a quarter less. What comes to the port is lost.
    ///
    /// # Errors
    /// No such node or socket; the kernel's.
    pub fn connect_peers(&mut self, id: NodeId, channel: Channel) -> std::io::Result<()> {
        let host = self.driver.io.host_of(id).ok_or(std::io::ErrorKind::NotFound)?;
        self.driver.io.connect_peers(host, channel)
    }

    /// How it waits from now on, instead of as [`LoopConfig::wait`] said.
    pub fn set_wait(&mut self, wait: WaitStrategy) {
        self.driver.io.config.wait = wait;
    }

    /// Where traces of this loop's nodes go; without it they are dropped uncounted.
    pub fn send_traces(&mut self, to: TraceSender) {
        self.driver.traces = Some(to);
    }

    /// From now on a door of a node speaks TLS. False: no such node, or no such door.
    pub fn secure_door(&mut self, id: NodeId, door: u8, tls: ServerTls) -> bool {
        let host = self.driver.io.host_of(id).and_then(|host| self.driver.io.hosts.get_mut(host));
        let Some(host) = host.filter(|host| usize::from(door) < host.listeners.len()) else {
            return false;
        };
        host.tls_doors.resize(host.listeners.len(), None);
        if let Some(place) = host.tls_doors.get_mut(usize::from(door)) {
            *place = Some(tls);
        }
        true
    }

    /// From now on the connections that a node opens speak TLS. False: no such node.
    pub fn secure_outgoing(&mut self, id: NodeId, tls: ClientTls) -> bool {
        let host = self.driver.io.host_of(id).and_then(|host| self.driver.io.hosts.get_mut(host));
        host.map(|host| host.tls_out = Some((tls, None))).is_some()
    }

    /// The same of those alone that it opens to these peers.
    pub fn secure_outgoing_to(&mut self, id: NodeId, tls: ClientTls, only: Vec<Peer>) -> bool {
        let host = self.driver.io.host_of(id).and_then(|host| self.driver.io.hosts.get_mut(host));
        host.map(|host| host.tls_out = Some((tls, Some(only)))).is_some()
    }

    /// Who does the work that nodes ask for ([`types::Op::Work`]); without it nobody does.
    pub fn set_worker(&mut self, jobs: JobSender) {
        self.driver.io.jobs = Some(jobs);
    }

    /// Where what this loop's nodes want to be durable goes ([`Outbox::journal`]); without it that
    /// is dropped, and they wait for ever. One node of a loop may want that.
    pub fn send_journal(&mut self, to: Arc<Mailbox>) {
        self.driver.io.journal = Some(to);
    }

    /// After each call of a node, once its outbox is drained, `take` sees it: for what a node wants
    /// of its caller beside sockets and timers. It must not block. Those asked for earlier see it before.
    pub fn after_each_call(&mut self, mut take: impl FnMut(&mut N) + Send + 'static)
    where
        N: 'static,
    {
        self.hosted.after_call = Some(match self.hosted.after_call.take() {
            None => Box::new(take),
            Some(mut earlier) => Box::new(move |node| {
                earlier(node);
                take(node);
            }),
        });
    }

    /// Steers the loop from other threads.
    pub fn handle(&self) -> LoopHandle<N> {
        self.hosted.commands.handle(&self.driver.io.counters)
    }

    /// The nodes alive.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &N)> {
        self.hosted.nodes.iter().filter_map(|(id, node)| Some((*id, node.as_ref()?)))
    }

    /// Figures so far.
    pub fn counters(&self) -> Counters {
        self.driver.io.counters.snapshot()
    }

    /// Ports of all UDP sockets of the loop, for [`crate::kernel_drops`].
    pub fn udp_ports(&self) -> Vec<u16> {
        self.driver.io.udp_ports()
    }

    /// Runs until `stop` is set (seen within 10 ms) or [`LoopHandle::stop`]; gives back the nodes
    /// alive. About every `observe_every`, `observe` sees the loop between two calls.
    ///
    /// # Errors
    /// When epoll itself fails; nodes are lost then. Trouble with single sockets is counted.
    pub fn run(
        mut self,
        stop: &AtomicBool,
        observe_every: Duration,
        mut observe: impl FnMut(&Loop<N>, ClockReading),
    ) -> std::io::Result<Vec<(NodeId, N)>> {
        sharpen_timers();
        let every_ns = u64::try_from(observe_every.as_nanos()).unwrap_or(u64::MAX).max(1);
        let mut observe_at = self.driver.clock.now().after(every_ns);
        while !self.driver.stopping && !stop.load(Ordering::Relaxed) {
            self.driver.turn(&mut self.hosted);
            let reading = self.driver.clock.reading();
            self.driver.flush_traces(reading.now);
            if reading.now >= observe_at {
                observe(&self, reading);
                observe_at = reading.now.after(every_ns);
            }
            let until = self.driver.wake_at(reading.now).min(observe_at);
            self.driver.io.wait(&self.driver.clock, until)?;
        }
        if let Some(traces) = &mut self.driver.traces {
            self.driver.io.counters.traces_dropped.add(traces.flush());
        }
        Ok(self.hosted.nodes.into_iter().filter_map(|(id, node)| Some((id, node?))).collect())
    }
}

impl<N: Node> Nodes for Hosted<N> {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn node(&mut self, host: usize) -> Option<&mut dyn Node> {
        let node = self.nodes.get_mut(host)?.1.as_mut()?;
        Some(node)
    }

    fn after_call(&mut self, host: usize) {
        if let Some(take) = &mut self.after_call
            && let Some((_, Some(node))) = self.nodes.get_mut(host)
        {
            take(node);
        }
    }

    fn obey(&mut self, driver: &mut Driver) {
        self.commands.acknowledge();
        while let Ok(command) = self.commands.waiting.try_recv() {
            match command {
                Control::Stop => driver.stopping = true,
                Control::Directory(directory) => driver.io.directory = directory,
                Control::Call(id, call) => {
                    let Some(host) = driver.io.host_of(id) else { continue };
                    let Some((_, Some(node))) = self.nodes.get_mut(host) else { continue };
                    let reading = driver.begin();
                    call(node, reading, &mut driver.out);
                    driver.finish(self, host, reading.now);
                }
                Control::Kill(id) => {
                    let Some(host) = driver.io.host_of(id) else { continue };
                    driver.io.kill(host);
                    driver.timers.set(host, Nanos::NEVER);
                    if let Some((_, node)) = self.nodes.get_mut(host) {
                        *node = None;
                    }
                }
            }
        }
    }
}

impl Driver {
    fn wake_at(&self, now: Nanos) -> Nanos {
        let mut at = now.after(STOP_CHECK_NS).min(self.timers.next);
        for waiting in [&self.io.lingering, &self.io.handshaking] {
            if let Some(&(deadline, ..)) = waiting.front() {
                at = at.min(deadline);
            }
        }
        if let Some(&(until, _)) = self.io.resting.front() {
            at = at.min(until);
        }
        if self.traces.as_ref().is_some_and(TraceSender::is_pending) {
            at = at.min(self.traces_since.after(TRACE_WAIT_NS));
        }
        at
    }

    /// Serves once whatever is ready.
    fn turn(&mut self, nodes: &mut dyn Nodes) {
        let mut now = self.clock.now();
        self.io.reap(now);
        self.fire_due(nodes, now);
        for _ in 0..self.io.ready.len() {
            let Some(token) = self.io.ready.pop_front() else { break };
            now = self.clock.now();
            match token {
                Token::Control => nodes.obey(self),
                Token::Udp(index) => self.serve_udp(nodes, index),
                Token::Listener(listener) => self.io.accept(listener, now),
                Token::Conn(slot) => self.serve_conn(nodes, slot, now),
            }
            self.deliver_notices(nodes);
            self.fire_due(nodes, now);
            if now >= self.flushed_at.after(BUNDLE_WAIT_NS) {
                self.io.flush_lanes();
                self.flushed_at = now;
            }
        }
        self.io.shake_hands(&mut self.buffer, now);
        self.deliver_notices(nodes);
        for _ in 0..LOCAL_HOPS {
            self.serve_local(nodes);
        }
        self.tell_dropped(nodes);
        self.io.flush_lanes();
        self.flushed_at = now;
    }

    /// The time of a call, with an empty outbox.
    fn begin(&mut self) -> ClockReading {
        self.out.clear();
        self.clock.reading()
    }

    /// Does what a node asked for when it was called.
    fn finish(&mut self, nodes: &mut dyn Nodes, host: usize, now: Nanos) {
        if !self.out.is_empty() {
            self.io.drain(host, &self.out, now);
            if let (Some(traces), false) = (&mut self.traces, self.out.traces().is_empty()) {
                if !traces.is_pending() {
                    self.traces_since = now;
                }
                self.io.counters.traces_dropped.add(traces.push(self.out.traces()));
            }
        }
        nodes.after_call(host);
        if let Some(node) = nodes.node(host) {
            self.timers.set(host, node.next_timeout());
            self.io.unpause(host, |conn| node.wants_stream(conn));
        }
    }

    /// Calls a node and does what it asks for.
    fn call(
        &mut self,
        nodes: &mut dyn Nodes,
        host: usize,
        input: impl FnOnce(&mut dyn Node, ClockReading, &mut Outbox),
    ) -> Option<Nanos> {
        let node = nodes.node(host)?;
        let reading = self.begin();
        input(node, reading, &mut self.out);
        self.finish(nodes, host, reading.now);
        Some(reading.now)
    }

    /// Fires timers due at `now`, the earliest first, at most about one per node.
    fn fire_due(&mut self, nodes: &mut dyn Nodes, now: Nanos) {
        for _ in 0..nodes.len() {
            if self.timers.next > now {
                return;
            }
            let (host, due) = (self.timers.first, self.timers.next);
            let at = self.call(nodes, host, |node, now, out| node.handle_timeout(now, out));
            let late = at.map_or(0, |at| at - due);
            let counters = &self.io.counters;
            counters.timeouts.add(1);
            // A first timer "at once" may be given as time 0: that is no lateness.
            if due > Nanos(0) {
                counters.timeout_late_ns.add(late);
                counters.timeout_late_ns_max.raise(late);
            }
        }
    }

    /// Waits for a timer that is due within the guard, and fires it.
    fn wait_for_timer(&mut self, nodes: &mut dyn Nodes) {
        let guard_ns = self.io.config.timer_guard_ns;
        if guard_ns > 0 && self.timers.next <= self.clock.now().after(guard_ns) {
            while self.clock.now() < self.timers.next {
                std::hint::spin_loop();
            }
            self.fire_due(nodes, self.clock.now());
        }
    }

    fn serve_conn(&mut self, nodes: &mut dyn Nodes, slot: u32, now: Nanos) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let reader = self.io.serve_conn(slot, now, &mut buffer);
        // "Open" is told before the first bytes.
        self.deliver_notices(nodes);
        if let Some((host, conn)) = reader {
            self.read_conn(nodes, slot, host, conn, now, &mut buffer);
        }
        self.buffer = buffer;
    }

    fn read_conn(
        &mut self,
        nodes: &mut dyn Nodes,
        slot: u32,
        host: usize,
        conn: types::ConnId,
        now: Nanos,
        buffer: &mut [u8],
    ) {
        // A notice just delivered may have made the node close it.
        if self.io.conn(slot).is_none_or(|open| (open.host, open.id) != (host, conn)) {
            return;
        }
        if nodes.node(host).is_none_or(|node| !node.wants_stream(conn)) {
            self.io.pause(slot);
            return;
        }
        match self.io.read(slot, buffer) {
            Incoming::Nothing => {}
            Incoming::Bytes(len) => {
                let bytes = buffer.get(..len).unwrap_or(&[]);
                let came = self.io.conn(slot).and_then(|open| open.waited_ns);
                let came = came.map(|waited| Nanos(self.clock.now().0.saturating_sub(waited)));
                self.call(nodes, host, |node, now, out| {
                    if let Some(came) = came {
                        node.expect_arrival(came);
                    }
                    node.handle_stream(now, conn, bytes, out);
                });
            }
            // What the node wrote before still goes out: the other side may only have stopped
            // sending.
            Incoming::Ended => {
                self.io.begin_closing(slot, now);
                self.io.notices.push_back(Notice::Closed { host, conn });
            }
            Incoming::Failed => self.io.lose(slot),
        }
    }

    /// Tells nodes what happened to their connections. News that this causes wait for the next
    /// time, so that a node which reconnects to a closed port for ever can't hold the loop.
    fn deliver_notices(&mut self, nodes: &mut dyn Nodes) {
        for _ in 0..self.io.notices.len() {
            match self.io.notices.pop_front() {
                None => return,
                Some(Notice::Accepted { host, conn, remote }) => {
                    self.call(nodes, host, |node, now, out| {
                        node.handle_accept(now, conn, &remote, out)
                    });
                }
                Some(Notice::Connected { host, conn }) => {
                    self.call(nodes, host, |node, now, out| node.handle_connect(now, conn, out));
                }
                Some(Notice::Closed { host, conn }) => {
                    self.call(nodes, host, |node, now, out| node.handle_close(now, conn, out));
                }
                Some(Notice::Unread { host, conn }) => {
                    self.call(nodes, host, |node, now, out| node.handle_unread(now, conn, out));
                }
            }
        }
    }

    /// Hands over the datagrams that stay in the loop; those they cause wait for the next time.
    fn serve_local(&mut self, nodes: &mut dyn Nodes) {
        if self.io.local.items.is_empty() {
            return;
        }
        std::mem::swap(&mut self.io.local, &mut self.spare);
        let mut batch = std::mem::take(&mut self.spare);
        for (place, item) in batch.items.iter().enumerate() {
            if place % LOCAL_ROUND == LOCAL_ROUND - 1 {
                nodes.obey(self);
            }
            self.announce(nodes, item.to, &batch.items[place + 1..]);
            let (from, bytes) = (Peer::Node(item.from), batch.bytes(item));
            let at = self.call(nodes, item.to, |node, now, out| {
                node.handle_datagram(now, item.channel, from, bytes, out);
            });
            self.fire_due(nodes, at.unwrap_or_default());
        }
        batch.clear();
        self.spare = batch;
        assert!(self.batched.len() <= nodes.len(), "each is told once");
        while let Some(host) = self.batched.pop() {
            self.call(nodes, host, |node, now, out| node.handle_batch(now, out));
        }
    }

    /// Tells a node, once, that there is more for it in this batch. Where there is not, it does at once what it
    /// would have waited with, and is called once instead of twice.
    fn announce(&mut self, nodes: &mut dyn Nodes, host: usize, rest: &[Local]) {
        if !self.batched.contains(&host)
            && rest.iter().any(|later| later.to == host)
            && let Some(node) = nodes.node(host)
        {
            node.expect_more();
            self.batched.push(host);
        }
    }

    fn flush_traces(&mut self, now: Nanos) {
        if let Some(traces) = &mut self.traces
            && traces.is_pending()
            && now >= self.traces_since.after(TRACE_WAIT_NS)
        {
            self.io.counters.traces_dropped.add(traces.flush());
        }
    }
}

/// When each node wants to be called; a scan is cheap for the few dozen nodes of a loop.
struct Timers {
    due: Vec<Nanos>,
    first: usize,
    next: Nanos,
}

impl Default for Timers {
    fn default() -> Self {
        Timers { due: Vec::new(), first: 0, next: Nanos::NEVER }
    }
}

impl Timers {
    fn push(&mut self, at: Nanos) {
        self.due.push(Nanos::NEVER);
        self.set(self.due.len() - 1, at);
    }

    fn set(&mut self, host: usize, at: Nanos) {
        let Some(due) = self.due.get_mut(host) else { return };
        *due = at;
        if at < self.next {
            (self.first, self.next) = (host, at);
        } else if host == self.first {
            let earliest = self.due.iter().enumerate().min_by_key(|&(_, at)| at);
            (self.first, self.next) = earliest.map_or((0, Nanos::NEVER), |(host, at)| (host, *at));
        }
        self.assert_first(host);
    }

    /// The next timer is one of them, and none later than the one that was set.
    fn assert_first(&self, host: usize) {
        assert!(self.due[self.first] == self.next || self.next == Nanos::NEVER);
        assert!(self.next <= self.due[host], "no timer is forgotten");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Mutex;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Speaks so many times to the other one, and notes what it is told.
    struct Talker {
        words: usize,
        told: Arc<Mutex<String>>,
    }

    impl Talker {
        fn note(&self, what: char) {
            self.told.lock().expect("unpoisoned").push(what);
        }
    }

    impl Node for Talker {
        fn handle_datagram(
            &mut self,
            _now: ClockReading,
            _channel: Channel,
            _from: Peer,
            _bytes: &[u8],
            _out: &mut Outbox,
        ) {
            self.note('d');
        }

        fn handle_timeout(&mut self, _now: ClockReading, out: &mut Outbox) {
            for _ in 0..std::mem::take(&mut self.words) {
                let bytes = out.store(b"word");
                out.datagram(Channel::OVERLAY, Peer::Node(NodeId(1)), bytes);
            }
        }

        fn next_timeout(&self) -> Nanos {
            if self.words > 0 { Nanos(0) } else { Nanos::NEVER }
        }

        fn expect_more(&mut self) {
            self.note('m');
        }

        fn handle_batch(&mut self, _now: ClockReading, _out: &mut Outbox) {
            self.note('b');
        }
    }

    /// What the second node is told when the first one says so many words to it at once.
    fn told_of(words: usize) -> String {
        let sockets = [0, 1].map(|n| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let at = socket.local_addr().expect("an address");
            (NodeId(n), at, socket)
        });
        let known = sockets.each_ref().map(|(id, at, _)| (*id, *at));
        let directory = Arc::new(Directory::new(&known).expect("two nodes"));
        let config = LoopConfig { local_delivery: true, ..LoopConfig::default() };
        let mut of = Loop::new(Clock::start(0), directory, config).expect("a loop");
        let told = Arc::new(Mutex::new(String::new()));
        for (id, _, socket) in sockets {
            let words = if id.0 == 0 { words } else { 0 };
            let talker = Talker { words, told: Arc::clone(&told) };
            of.add_node(id, talker, vec![(Channel::OVERLAY, socket)], None).expect("added");
        }
        (0..4).for_each(|_| of.driver.turn(&mut of.hosted));
        let told = told.lock().expect("unpoisoned");
        told.clone()
    }

    #[test]
    fn a_node_is_told_of_a_batch_before_and_after_it_and_not_of_one_datagram() {
        assert_eq!((told_of(3).as_str(), told_of(2).as_str()), ("mdddb", "mddb"));
        assert_eq!(told_of(1), "d");
    }

    #[test]
    #[should_panic(expected = "no timer is forgotten")]
    fn control_no_timer_is_forgotten() {
        let mut timers = Timers::default();
        [7, 9].into_iter().for_each(|at| timers.push(Nanos(at)));
        (timers.first, timers.next) = (1, Nanos(9));
        timers.assert_first(0);
    }

    proptest! {
        #[test]
        fn the_next_timer_is_the_earliest(
            sets in vec((0usize..5, prop_oneof![0u64..20, Just(u64::MAX)]), 1..100),
        ) {
            let mut timers = Timers::default();
            for _ in 0..5 {
                timers.push(Nanos::NEVER);
            }
            for (host, at) in sets {
                timers.set(host, Nanos(at));
                prop_assert_eq!(Some(&timers.next), timers.due.iter().min());
                prop_assert_eq!(timers.due[timers.first], timers.next);
            }
        }
    }
}
