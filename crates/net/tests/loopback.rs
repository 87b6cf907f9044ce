//! Loops on real loopback sockets: every test ends within its own deadline.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy, peer_addr, trace_channel};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Trace, TracePoint};

/// What a scripted node is told.
enum Input<'a> {
    Datagram(Channel, Peer, &'a [u8]),
    Timeout,
    Opened(ConnId),
    Bytes(ConnId, &'a [u8]),
    Closed(ConnId),
    Unread(ConnId),
}

type Script = Box<dyn FnMut(&mut Knobs, Input, Nanos, &mut Outbox) + Send>;

/// What a script may turn.
struct Knobs {
    timeout: Nanos,
    wants: bool,
    last: Nanos,
}

/// A node that does what a closure says, and checks the caller's side of the contract.
struct Scripted {
    knobs: Knobs,
    script: Script,
}

impl Scripted {
    fn new(
        timeout: Nanos,
        script: impl FnMut(&mut Knobs, Input, Nanos, &mut Outbox) + Send + 'static,
    ) -> Scripted {
        let knobs = Knobs { timeout, wants: true, last: Nanos(0) };
        Scripted { knobs, script: Box::new(script) }
    }

    fn input(&mut self, now: ClockReading, input: Input, out: &mut Outbox) {
        assert!(now.now >= self.knobs.last, "time runs backwards");
        assert!(out.is_empty(), "outbox not drained");
        self.knobs.last = now.now;
        (self.script)(&mut self.knobs, input, now.now, out);
    }
}

impl Node for Scripted {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.input(now, Input::Datagram(channel, from, bytes), out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        assert!(now.now >= self.knobs.timeout, "timer fired early");
        self.input(now, Input::Timeout, out);
    }

    fn next_timeout(&self) -> Nanos {
        self.knobs.timeout
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.input(now, Input::Opened(conn), out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        assert!(self.knobs.wants, "bytes that were not wanted");
        self.input(now, Input::Bytes(conn, bytes), out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.input(now, Input::Closed(conn), out);
    }

    fn handle_unread(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.input(now, Input::Unread(conn), out);
    }

    fn wants_stream(&self, _conn: ConnId) -> bool {
        self.knobs.wants
    }
}

type Ended = std::io::Result<Vec<(NodeId, Scripted)>>;

/// A loop on its own thread, stopped when dropped.
struct Running {
    handle: LoopHandle<Scripted>,
    thread: Option<JoinHandle<Ended>>,
}

impl Running {
    fn start(running: Loop<Scripted>) -> Running {
        let handle = running.handle();
        let thread = std::thread::spawn(move || {
            running.run(&AtomicBool::new(false), Duration::from_secs(1), |_, _| {})
        });
        Running { handle, thread: Some(thread) }
    }

    fn finish(mut self) -> Vec<NodeId> {
        self.handle.stop().expect("the loop runs");
        let nodes = self.thread.take().expect("not finished").join().expect("no panic");
        nodes.expect("epoll works").into_iter().map(|(id, _)| id).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.handle.stop();
    }
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "waited 10 s for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn udp() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
    let addr = socket.local_addr().expect("its address");
    (socket, addr)
}

fn tcp() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let addr = listener.local_addr().expect("its address");
    (listener, addr)
}

fn client(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("an option");
    stream
}

fn new_loop(directory: &Directory, config: LoopConfig) -> Loop<Scripted> {
    Loop::new(Clock::start(0), Arc::new(directory.clone()), config).expect("an epoll descriptor")
}

/// A loop with one node that has a listener.
fn server(config: LoopConfig, node: Scripted) -> (Running, SocketAddr) {
    let (listener, addr) = tcp();
    let mut one = new_loop(&Directory::default(), config);
    one.add_node(NodeId(0), node, Vec::new(), Some(listener)).expect("added");
    (Running::start(one), addr)
}

fn echo() -> Scripted {
    Scripted::new(Nanos::NEVER, |_, input, _, out| {
        if let Input::Bytes(conn, bytes) = input {
            let bytes = out.store(bytes);
            out.stream(conn, bytes);
        }
    })
}

#[test]
fn datagrams_between_loops_carry_the_senders_name() {
    let ((a, addr_a), (b, addr_b), (feed, addr_feed), (outside, addr_out)) =
        (udp(), udp(), udp(), udp());
    let directory = Directory::new(&[(NodeId(0), addr_a), (NodeId(1), addr_b)]).expect("distinct");
    // The first sends ten numbers, the second adds one and answers, the first publishes them.
    let mut sent = 0u8;
    let first = Scripted::new(Nanos(0), move |knobs, input, now, out| match input {
        Input::Timeout => {
            let bytes = out.store(&[sent]);
            out.datagram(Channel::OVERLAY, Peer::Node(NodeId(1)), bytes);
            sent += 1;
            knobs.timeout = if sent < 10 { now.after(1_000) } else { Nanos::NEVER };
        }
        Input::Datagram(channel, from, bytes) => {
            assert_eq!((channel, from), (Channel::OVERLAY, Peer::Node(NodeId(1))));
            let bytes = out.store(bytes);
            out.datagram(Channel::FEED, peer_addr(addr_out), bytes);
        }
        _ => panic!("no streams here"),
    });
    let second = Scripted::new(Nanos::NEVER, |_, input, _, out| {
        let Input::Datagram(_, from, bytes) = input else { panic!("only datagrams here") };
        assert_eq!(from, Peer::Node(NodeId(0)));
        let bytes = out.store(&[bytes[0] + 1]);
        out.datagram(Channel::OVERLAY, from, bytes);
        // Nobody has this name: counted, not fatal.
        out.datagram(Channel::OVERLAY, Peer::Node(NodeId(77)), bytes);
        out.datagram(Channel(9), from, bytes);
    });
    // One packet each, to be counted exactly.
    let config = LoopConfig { bundles: false, ..LoopConfig::default() };
    let (mut one, mut two) = (new_loop(&directory, config), new_loop(&directory, config));
    let sockets = vec![(Channel::OVERLAY, a), (Channel::FEED, feed)];
    one.add_node(NodeId(0), first, sockets, None).expect("added");
    two.add_node(NodeId(1), second, vec![(Channel::OVERLAY, b)], None).expect("added");
    assert!(two.add_node(NodeId(1), echo(), Vec::new(), None).is_err(), "the name is taken");
    let (two, one) = (Running::start(two), Running::start(one));
    let mut got = Vec::new();
    let mut buffer = [0; 64];
    while got.len() < 10 {
        let (len, from) = outside.recv_from(&mut buffer).expect("a datagram in time");
        assert_eq!((len, from), (1, addr_feed));
        got.push(buffer[0]);
    }
    got.sort_unstable();
    assert_eq!(got, (1..=10).collect::<Vec<u8>>());
    // A datagram may arrive before its sender has counted it.
    until("all counted", || {
        let (one, two) = (one.handle.counters(), two.handle.counters());
        (one.datagrams_out, two.datagrams_out, two.unroutable) == (20, 10, 20)
    });
    assert_eq!(one.finish(), [NodeId(0)]);
    assert_eq!(two.finish(), [NodeId(1)]);
}

#[test]
fn timers_fire_in_time_and_never_early() {
    const TICKS: usize = 200;
    let late = Arc::new([const { AtomicU64::new(u64::MAX) }; TICKS]);
    let seen = Arc::clone(&late);
    let mut tick = 0;
    let node = Scripted::new(Nanos(0), move |knobs, _, now, _| {
        assert!(now >= knobs.timeout, "early by {} ns", knobs.timeout - now);
        if tick > 0 {
            seen[tick - 1].store(now - knobs.timeout, SeqCst);
        }
        tick += 1;
        knobs.timeout = if tick > TICKS { Nanos::NEVER } else { now.after(700_000) };
    });
    let mut one = new_loop(&Directory::default(), LoopConfig::default());
    one.add_node(NodeId(0), node, Vec::new(), None).expect("added");
    let one = Running::start(one);
    until("all ticks", || late[TICKS - 1].load(SeqCst) != u64::MAX);
    let mut late: Vec<u64> = late.iter().map(|late| late.load(SeqCst)).collect();
    late.sort_unstable();
    // A timer in whole milliseconds would make each of them 300 us late at least; whatever else the
    // machine does, one of ten finds it idle.
    assert!(late[TICKS / 10] < 300_000, "nine of ten {} ns late", late[TICKS / 10]);
    assert_eq!(one.handle.counters().timeouts, TICKS as u64 + 1);
}

/// What a node with a timer 100 ms away and a datagram before it hears first; it sends once to each of
/// two peers then, from one address.
fn first_of_both(guard_ns: u64) -> char {
    let clock = Clock::start(0);
    let (own, at) = udp();
    let (feed, feed_at) = udp();
    let peers = [udp(), udp()];
    let to = peers.each_ref().map(|(_, at)| net::peer_addr(*at));
    let heard = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&heard);
    let node = Scripted::new(clock.now().after(100_000_000), move |knobs, input, _, out| {
        let what = if matches!(input, Input::Timeout) { 't' } else { 'd' };
        let _ = told.compare_exchange(0, what as u64, SeqCst, SeqCst);
        if what == 't' {
            knobs.timeout = Nanos::NEVER;
            let bytes = out.store(b"due");
            to.iter().for_each(|peer| out.datagram(Channel::FEED, *peer, bytes));
        }
    });
    let config = LoopConfig { timer_guard_ns: guard_ns, ..LoopConfig::default() };
    let mut one = Loop::new(clock, Arc::new(Directory::default()), config).expect("a loop");
    one.add_node(NodeId(0), node, vec![(Channel::OVERLAY, own), (Channel::FEED, feed)], None)
        .expect("added");
    one.connect_peers(NodeId(0), Channel::FEED).expect("options");
    assert!(one.connect_peers(NodeId(1), Channel::FEED).is_err(), "no such node");
    udp().0.send_to(b"early", at).expect("sent");
    let _running = Running::start(one);
    let from = peers.map(|(peer, _)| peer.recv_from(&mut [0; 9]).expect("a datagram").1);
    assert_eq!(from, [feed_at; 2]);
    char::from(heard.load(SeqCst) as u8)
}

#[test]
fn a_timer_within_the_guard_goes_before_a_datagram_that_is_there() {
    assert_eq!(first_of_both(10_000_000_000), 't');
    // Control: without a guard what is there goes first.
    assert_eq!(first_of_both(0), 'd');
}

/// What arrives of ten datagrams of 300 bytes that one call sends, and in how many packets.
fn volley(bundles: bool) -> (Vec<u8>, u64) {
    let ((a, addr_a), (b, addr_b)) = (udp(), udp());
    let directory = Directory::new(&[(NodeId(0), addr_a), (NodeId(1), addr_b)]).expect("distinct");
    let config = LoopConfig { bundles, ..LoopConfig::default() };
    let (mut one, mut two) = (new_loop(&directory, config), new_loop(&directory, config));
    let sender = Scripted::new(Nanos(0), |knobs, _, _, out| {
        knobs.timeout = Nanos::NEVER;
        for number in 0..10 {
            let bytes = out.store(&[number; 300]);
            out.datagram(Channel::OVERLAY, Peer::Node(NodeId(1)), bytes);
        }
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    let taker = Scripted::new(Nanos::NEVER, move |_, input, _, _| {
        let Input::Datagram(Channel::OVERLAY, Peer::Node(NodeId(0)), bytes) = input else {
            panic!("only the other's datagrams here");
        };
        assert_eq!(bytes, [bytes[0]; 300]);
        into.lock().expect("no panic").push(bytes[0]);
    });
    one.add_node(NodeId(0), sender, vec![(Channel::OVERLAY, a)], None).expect("added");
    two.add_node(NodeId(1), taker, vec![(Channel::OVERLAY, b)], None).expect("added");
    let (two, one) = (Running::start(two), Running::start(one));
    until("all ten", || seen.lock().expect("no panic").len() == 10);
    until("counted", || one.handle.counters().datagrams_out == two.handle.counters().datagrams_in);
    let numbers = seen.lock().expect("no panic").clone();
    (numbers, two.handle.counters().datagrams_in)
}

#[test]
fn what_a_turn_sends_to_one_node_shares_packets_and_keeps_its_order() {
    let all: Vec<u8> = (0..10).collect();
    assert_eq!(volley(true), (all.clone(), 3));
    assert_eq!(volley(false), (all, 10));
}

/// A ring of nodes on one loop passes a token round; returns the loop when it has gone round.
fn ring(local_delivery: bool) -> net::Counters {
    const NODES: u16 = 48;
    const ROUNDS: u64 = 20;
    let sockets: Vec<_> = (0..NODES).map(|_| udp()).collect();
    let entries: Vec<_> =
        sockets.iter().enumerate().map(|(i, (_, addr))| (NodeId(i as u16), *addr)).collect();
    let directory = Directory::new(&entries).expect("distinct");
    let config = LoopConfig { local_delivery, ..LoopConfig::default() };
    let mut one = new_loop(&directory, config);
    let passed = Arc::new(AtomicU64::new(0));
    for (i, (socket, _)) in sockets.into_iter().enumerate() {
        let (id, next) = (NodeId(i as u16), NodeId((i as u16 + 1) % NODES));
        let passed = Arc::clone(&passed);
        let start = if i == 0 { Nanos(0) } else { Nanos::NEVER };
        let node = Scripted::new(start, move |knobs, input, _, out| {
            knobs.timeout = Nanos::NEVER;
            if let Input::Datagram(_, from, bytes) = input {
                assert_eq!(from, Peer::Node(NodeId((id.0 + NODES - 1) % NODES)));
                assert_eq!(bytes, b"token");
            }
            if passed.fetch_add(1, SeqCst) < u64::from(NODES) * ROUNDS {
                let bytes = out.store(b"token");
                out.datagram(Channel::OVERLAY, Peer::Node(next), bytes);
            }
        });
        one.add_node(id, node, vec![(Channel::OVERLAY, socket)], None).expect("added");
    }
    let one = Running::start(one);
    until("the token's rounds", || passed.load(SeqCst) > u64::from(NODES) * ROUNDS);
    let counters = one.handle.counters();
    assert_eq!(one.finish().len(), usize::from(NODES));
    counters
}

#[test]
fn many_nodes_share_a_loop_with_and_without_the_network() {
    let network = ring(false);
    assert_eq!((network.datagrams_in, network.local_datagrams), (960, 0));
    let memory = ring(true);
    assert_eq!((memory.datagrams_in, memory.local_datagrams), (0, 960));
}

#[test]
fn what_is_for_the_loop_alone_never_takes_the_network() {
    let ((near, near_at), (far, far_at)) = (udp(), udp());
    let ids = [NodeId(0), NodeId(1), NodeId(2)];
    let (own, own_at) = udp();
    let entries = [(ids[0], own_at), (ids[1], near_at), (ids[2], far_at)];
    let directory = Directory::new(&entries).expect("distinct");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = |node: NodeId| {
        let heard = Arc::clone(&heard);
        Scripted::new(Nanos::NEVER, move |_, input, _, _| {
            if let Input::Datagram(channel, from, bytes) = input {
                heard.lock().expect("no panic").push((node, channel, from, bytes.to_vec()));
            }
        })
    };
    // One of its own loop, one of another, and one that nobody knows; then, for comparison, by the network.
    let speaker = Scripted::new(Nanos(0), move |knobs, _, _, out| {
        knobs.timeout = Nanos::NEVER;
        for to in [ids[1], ids[2], NodeId(9)] {
            let bytes = out.store(b"clear");
            out.datagram(Channel::LOCAL, Peer::Node(to), bytes);
        }
        let bytes = out.store(b"sealed");
        out.datagram(Channel::OVERLAY, Peer::Node(ids[2]), bytes);
    });
    let overlay = |socket| vec![(Channel::OVERLAY, socket)];
    let mut one = new_loop(&directory, LoopConfig::default());
    one.add_node(ids[0], speaker, overlay(own), None).expect("added");
    one.add_node(ids[1], listener(ids[1]), overlay(near), None).expect("added");
    let mut two = new_loop(&directory, LoopConfig::default());
    two.add_node(ids[2], listener(ids[2]), overlay(far), None).expect("added");
    let (two, one) = (Running::start(two), Running::start(one));
    until("both datagrams", || heard.lock().expect("no panic").len() >= 2);
    let counters = one.handle.counters();
    assert_eq!((counters.local_datagrams, counters.unroutable, counters.datagrams_out), (1, 2, 1));
    drop((one.finish(), two.finish()));
    let mut heard = heard.lock().expect("no panic").clone();
    heard.sort_by_key(|(node, ..)| *node);
    let from = Peer::Node(ids[0]);
    let clear = (ids[1], Channel::LOCAL, from, b"clear".to_vec());
    assert_eq!(heard, [clear, (ids[2], Channel::OVERLAY, from, b"sealed".to_vec())]);
}

#[test]
fn streams_keep_every_byte_in_order() {
    let (one, addr) = server(LoopConfig::default(), echo());
    let mut stream = client(addr);
    let mut writer = stream.try_clone().expect("a second handle");
    let sent: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let copy = sent.clone();
    let sender = std::thread::spawn(move || writer.write_all(&copy));
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).expect("all comes back");
    assert!(got == sent, "bytes differ");
    sender.join().expect("no panic").expect("sent");
    let counters = one.handle.counters();
    assert_eq!((counters.accepted, counters.stream_bytes_in), (1, sent.len() as u64));
}

#[test]
fn bytes_stay_outside_while_a_node_does_not_want_them() {
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    let node = Scripted::new(Nanos::NEVER, move |knobs, input, _, _| {
        if let Input::Bytes(_, bytes) = input {
            count.fetch_add(bytes.len() as u64, SeqCst);
            knobs.wants = false;
        }
    });
    let (one, addr) = server(LoopConfig::default(), node);
    let mut stream = client(addr);
    stream.write_all(b"first").expect("sent");
    until("the first bytes", || taken.load(SeqCst) == 5);
    // What the kernel's buffers take, and no more.
    stream.set_nonblocking(true).expect("an option");
    let mut sent = 5;
    let blocked = Instant::now();
    while blocked.elapsed() < Duration::from_millis(200) {
        match stream.write(&[0; 16_384]) {
            Ok(n) => sent += n as u64,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(sent < 64 << 20, "no back-pressure");
    }
    assert_eq!(taken.load(SeqCst), 5, "taken though not wanted");
    // One portion each time the node says so, then all of it, then the end of the stream.
    let want = |wants: bool| {
        let call = move |node: &mut Scripted, _: ClockReading, _: &mut Outbox| {
            node.knobs.wants = wants;
        };
        one.handle.call(NodeId(0), call).expect("taken");
    };
    drop(stream);
    until("everything taken in portions", || {
        want(true);
        taken.load(SeqCst) == sent
    });
}

#[test]
fn a_reader_that_does_not_read_is_cut_and_the_node_told() {
    let closed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&closed);
    let mut open = Vec::new();
    let node = Scripted::new(Nanos(0), move |knobs, input, now, out| match input {
        Input::Opened(conn) => open.push(conn),
        Input::Closed(conn) => {
            open.retain(|other| *other != conn);
            count.fetch_add(1, SeqCst);
        }
        Input::Timeout => {
            let bytes = out.store(&[7; 50_000]);
            open.iter().for_each(|conn| out.stream(*conn, bytes));
            knobs.timeout = now.after(500_000);
        }
        _ => {}
    });
    let config = LoopConfig { unread_max: 200_000, ..LoopConfig::default() };
    let (one, addr) = server(config, node);
    let (lazy, mut keen) = (client(addr), client(addr));
    let mut buffer = vec![0; 1 << 20];
    until("the lazy reader is cut", || {
        let n = keen.read(&mut buffer).expect("the keen reader is served");
        assert!(buffer[..n].iter().all(|byte| *byte == 7));
        closed.load(SeqCst) == 1
    });
    let counters = one.handle.counters();
    assert_eq!((counters.slow_consumers, counters.accepted), (1, 2));
    drop(lazy);
}

#[test]
fn a_node_is_told_in_time_to_say_why_before_the_cut() {
    const GOODBYE: &[u8] = b"too much left unread";
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let mut open = Vec::new();
    let node = Scripted::new(Nanos(0), move |knobs, input, now, out| match input {
        Input::Opened(conn) => open.push(conn),
        Input::Unread(conn) => {
            let bytes = out.store(GOODBYE);
            out.stream(conn, bytes);
            out.close(conn);
            open.retain(|other| *other != conn);
            count.fetch_add(1, SeqCst);
        }
        Input::Timeout => {
            let bytes = out.store(&[7; 20_000]);
            open.iter().for_each(|conn| out.stream(*conn, bytes));
            knobs.timeout = now.after(500_000);
        }
        _ => {}
    });
    let config =
        LoopConfig { unread_max: 200_000, linger_ns: 20 * Nanos::SECOND, ..LoopConfig::default() };
    let (one, addr) = server(config, node);
    let mut lazy = client(addr);
    until("the node is told", || told.load(SeqCst) == 1);
    let mut heard = Vec::new();
    lazy.read_to_end(&mut heard).expect("closed in good order");
    assert!(heard.ends_with(GOODBYE), "the last words come behind everything else");
    let before = &heard[..heard.len() - GOODBYE.len()];
    assert!(before.len().is_multiple_of(20_000) && before.iter().all(|byte| *byte == 7));
    let counters = one.handle.counters();
    assert_eq!((counters.slow_consumers, told.load(SeqCst)), (0, 1));
}

#[test]
fn connections_over_the_limit_are_refused_until_one_leaves() {
    let config = LoopConfig { accepted_max: 2, ..LoopConfig::default() };
    let (one, addr) = server(config, echo());
    let mut kept: Vec<TcpStream> = (0..2).map(|_| client(addr)).collect();
    let mut byte = [0];
    for stream in &mut kept {
        stream.write_all(b"x").expect("sent");
        stream.read_exact(&mut byte).expect("served");
    }
    assert!(matches!(client(addr).read(&mut byte), Ok(0) | Err(_)), "the third is refused");
    assert_eq!(one.handle.counters().refused, 1);
    kept.pop();
    until("room again", || {
        let mut stream = client(addr);
        stream.write_all(b"x").is_ok() && stream.read_exact(&mut byte).is_ok()
    });
}

#[test]
fn nodes_open_streams_and_last_words_arrive() {
    let (listener, addr) = tcp();
    // A port nobody listens at.
    let dead = tcp().1;
    let (talker, hearer) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (talk, hear) = (Arc::clone(&talker), Arc::clone(&hearer));
    let opener = Scripted::new(Nanos(0), move |knobs, input, _, out| match input {
        Input::Timeout => {
            knobs.timeout = Nanos::NEVER;
            out.connect(ConnId(1), peer_addr(addr));
            out.connect(ConnId(2), peer_addr(dead));
            out.connect(ConnId(3), Peer::Node(NodeId(5)));
        }
        Input::Opened(conn) => {
            assert_eq!(conn, ConnId(1));
            let bytes = out.store(&[1; 900_000]);
            out.stream(conn, bytes);
            out.close(conn);
            out.stream(conn, bytes);
        }
        Input::Closed(conn) => {
            assert!(conn != ConnId(1), "it closed that one itself");
            talk.fetch_add(u64::from(conn.0), SeqCst);
        }
        _ => panic!("nobody talks to it"),
    });
    let taker = Scripted::new(Nanos::NEVER, move |_, input, _, _| match input {
        Input::Opened(conn) => assert!(conn.0 >= 1 << 31),
        Input::Bytes(_, bytes) => {
            hear.fetch_add(bytes.len() as u64, SeqCst);
        }
        Input::Closed(_) => {
            hear.fetch_add(1 << 32, SeqCst);
        }
        _ => panic!("nothing else"),
    });
    let mut one = new_loop(&Directory::default(), LoopConfig::default());
    one.add_node(NodeId(0), taker, Vec::new(), Some(listener)).expect("added");
    one.add_node(NodeId(1), opener, Vec::new(), None).expect("added");
    let one = Running::start(one);
    until("all bytes and the end", || hearer.load(SeqCst) == (1 << 32) + 900_000);
    until("both failures", || talker.load(SeqCst) == 2 + 3);
    let counters = one.handle.counters();
    assert_eq!((counters.connected, counters.accepted, counters.stream_strays), (1, 1, 1));
}

#[test]
fn connections_are_served_in_the_order_in_which_their_bytes_came() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&order);
    let node = Scripted::new(Nanos::NEVER, move |_, input, _, _| {
        if let Input::Bytes(_, bytes) = input {
            log.lock().expect("not poisoned").extend_from_slice(bytes);
        }
    });
    let (one, addr) = server(LoopConfig::default(), node);
    let mut clients: Vec<TcpStream> = (0..8).map(|_| client(addr)).collect();
    until("all accepted", || one.handle.counters().accepted == 8);
    for round in 0..10u8 {
        // The loop is busy while the bytes arrive, so all of them wait for it together.
        let (busy, free) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begun, end) = (Arc::clone(&busy), Arc::clone(&free));
        let wait = move |_: &mut Scripted, _: ClockReading, _: &mut Outbox| {
            begun.store(true, SeqCst);
            until("bytes sent", || end.load(SeqCst));
        };
        one.handle.call(NodeId(0), wait).expect("taken");
        until("the loop is busy", || busy.load(SeqCst));
        let sent: Vec<u8> = (0..8).map(|i| (i * 3 + round) % 8).collect();
        for &i in &sent {
            clients[usize::from(i)].write_all(&[i]).expect("sent");
        }
        free.store(true, SeqCst);
        until("all served", || order.lock().expect("not poisoned").len() == 8);
        assert_eq!(std::mem::take(&mut *order.lock().expect("not poisoned")), sent);
    }
}

#[test]
fn a_closed_connection_lingers_only_so_long() {
    let node = Scripted::new(Nanos::NEVER, |_, input, _, out| match input {
        Input::Bytes(conn, _) => {
            let bytes = out.store(b"bye");
            out.stream(conn, bytes);
            out.close(conn);
        }
        Input::Closed(_) => panic!("it closed them itself"),
        _ => {}
    });
    let linger_ns = 50 * Nanos::MILLI;
    let (one, addr) = server(LoopConfig { accepted_max: 1, linger_ns, ..Default::default() }, node);
    // The first keeps its end open, yet a place comes free.
    let mut first = client(addr);
    first.write_all(b"x").expect("sent");
    let mut words = Vec::new();
    first.read_to_end(&mut words).expect("a clean end");
    assert_eq!(words, b"bye");
    until("a place for the second", || {
        words.clear();
        let mut second = client(addr);
        let _ = second.write_all(b"x");
        second.read_to_end(&mut words).is_ok() && words == b"bye"
    });
    assert_eq!(one.handle.counters().accepted, 2);
}

#[test]
fn a_killed_node_is_gone_and_the_rest_goes_on() {
    let ((socket, addr), (listener, at)) = (udp(), tcp());
    let directory = Directory::new(&[(NodeId(3), addr)]).expect("distinct");
    let mut one = new_loop(&directory, LoopConfig::default());
    let sockets = vec![(Channel::OVERLAY, socket)];
    one.add_node(NodeId(3), echo(), sockets, Some(listener)).expect("added");
    let ticks = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&ticks);
    let ticking = Scripted::new(Nanos(0), move |knobs, _, now, _| {
        count.fetch_add(1, SeqCst);
        knobs.timeout = now.after(100_000);
    });
    one.add_node(NodeId(4), ticking, Vec::new(), None).expect("added");
    let one = Running::start(one);
    let mut stream = client(at);
    let mut byte = [0];
    stream.write_all(b"x").expect("sent");
    stream.read_exact(&mut byte).expect("alive");
    one.handle.kill(NodeId(99)).expect("unknown names are ignored");
    one.handle.kill(NodeId(3)).expect("taken");
    assert!(matches!(stream.read(&mut byte), Ok(0) | Err(_)), "its connections die");
    until("its port is free", || UdpSocket::bind(addr).is_ok());
    let before = ticks.load(SeqCst);
    until("others tick on", || ticks.load(SeqCst) > before + 10);
    assert_eq!(one.finish(), [NodeId(4)]);
}

#[test]
fn traces_reach_the_collector_and_observers_see_the_loop() {
    let mut id = 0;
    let node = Scripted::new(Nanos(0), move |knobs, _, now, out| {
        id += 1;
        out.trace(Trace { point: TracePoint::Published, node: NodeId(0), id, at: now, value: 0 });
        knobs.timeout = if id < 100 { now.after(10_000) } else { Nanos::NEVER };
    });
    let mut one = new_loop(&Directory::default(), LoopConfig::default());
    one.add_node(NodeId(0), node, Vec::new(), None).expect("added");
    let (sender, receiver) = trace_channel(8, 16);
    one.send_traces(sender);
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let told = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&told);
    let thread = std::thread::spawn(move || {
        let nodes = one.run(&flag, Duration::from_millis(2), |running, _| {
            assert_eq!(running.nodes().count(), 1);
            seen.store(running.counters().timeouts, SeqCst);
        });
        nodes.map(|nodes| nodes.len()).expect("epoll works")
    });
    let mut ids = Vec::new();
    until("all traces", || {
        receiver.drain(|traces| ids.extend(traces.iter().map(|trace| trace.id)));
        ids.len() == 100
    });
    assert!(ids.is_sorted());
    until("all timeouts", || told.load(SeqCst) == 100);
    stop.store(true, SeqCst);
    assert_eq!(thread.join().expect("no panic"), 1);
    assert!(!receiver.drain(|_| {}), "the loop has ended");
}

#[test]
fn a_loop_may_spin_without_sleeping() {
    let wait = WaitStrategy { spin_ns: u64::MAX, timer_spin_ns: 0 };
    let (one, addr) = server(LoopConfig { wait, ..LoopConfig::default() }, echo());
    let mut stream = client(addr);
    let mut byte = [0];
    stream.write_all(b"x").expect("sent");
    stream.read_exact(&mut byte).expect("served");
    let handle = one.handle.clone();
    one.finish();
    assert_eq!(handle.counters().parks, 0);
}

/// Two connections have so many bytes each waiting before any is read; how far one of them got ahead
/// of the other, and the longest read.
fn ahead(read_max: usize) -> (usize, usize) {
    const EACH: usize = 40_000;
    let reads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reads);
    let node = Scripted::new(Nanos(0), move |knobs, input, _, _| match input {
        Input::Timeout => (knobs.timeout, knobs.wants) = (Nanos::NEVER, false),
        Input::Bytes(conn, bytes) => seen.lock().expect("unpoisoned").push((conn, bytes.len())),
        _ => {}
    });
    let (one, addr) = server(LoopConfig { read_max, ..LoopConfig::default() }, node);
    let mut clients = [client(addr), client(addr)];
    clients
        .iter_mut()
        .for_each(|client| client.write_all(&[7; EACH]).expect("the kernel has room"));
    // Both were looked at and left alone.
    std::thread::sleep(Duration::from_millis(50));
    let asked = one.handle.call(NodeId(0), |node, _, _| node.knobs.wants = true);
    asked.expect("the loop runs");
    let total = || reads.lock().expect("unpoisoned").iter().map(|(_, len)| len).sum::<usize>();
    until("all is read", || total() == 2 * EACH);
    let (mut got, mut most, mut longest) = ([0usize; 2], 0, 0);
    let reads = reads.lock().expect("unpoisoned");
    let first = reads[0].0;
    for (conn, len) in reads.iter() {
        got[usize::from(*conn != first)] += len;
        longest = longest.max(*len);
        most = most.max(got[0].abs_diff(got[1]));
    }
    (most, longest)
}

#[test]
fn connections_are_read_in_turn_a_portion_each() {
    let (ahead_by, longest) = ahead(4_096);
    assert!(longest <= 4_096 && ahead_by <= 3 * 4_096, "{ahead_by} bytes ahead");
    // Control: without portions the first one is read to its end before the other's turn.
    assert_eq!(ahead(65_536), (40_000, 40_000));
}
