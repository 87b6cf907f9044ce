//! What TLS costs a warm loop in allocations; the plain path has none, as another test shows.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use net::{ClientTls, Clients, Clock, Directory, Identity, Loop, LoopConfig, ServerTls, peer_addr};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use types::{ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const ROUNDS: u32 = 3_000;
const WARM: u32 = 1_000;
/// For two messages: each is sealed once and opened once.
const ALLOCATIONS_MAX: u64 = 12;
/// Handshakes held open, and what each may keep.
const HELD: usize = 100;
const BYTES_MAX: i64 = 24 << 10;

/// Echoes, or is echoed.
struct Pong {
    to: Option<Peer>,
    started: bool,
    rounds: u32,
    at_warm: u64,
    at_end: u64,
}

impl Pong {
    fn new(to: Option<Peer>) -> Pong {
        Pong { to, started: false, rounds: 0, at_warm: 0, at_end: 0 }
    }
}

impl Node for Pong {
    fn handle_timeout(&mut self, _: ClockReading, out: &mut Outbox) {
        self.started = true;
        if let Some(to) = self.to {
            out.connect(ConnId(1), to);
        }
    }

    fn next_timeout(&self) -> Nanos {
        if self.started { Nanos::NEVER } else { Nanos(0) }
    }

    fn handle_connect(&mut self, _: ClockReading, conn: ConnId, out: &mut Outbox) {
        if self.to.is_some() {
            let span = out.store(&[7; 100]);
            out.stream(conn, span);
        }
    }

    fn handle_stream(&mut self, _: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.rounds += 1;
        match self.rounds {
            WARM => self.at_warm = counting::allocations(),
            ROUNDS => self.at_end = counting::allocations(),
            _ => {}
        }
        if self.rounds <= ROUNDS {
            let span = out.store(bytes);
            out.stream(conn, span);
        }
    }
}

#[test]
fn a_record_costs_a_few_allocations_and_no_more_with_time() {
    let names = vec!["localhost".to_string()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).expect("made");
    let (chain, key) = (cert.pem(), signing_key.serialize_pem());
    let identity = Identity { chain: chain.as_bytes(), key: key.as_bytes() };
    let server = ServerTls::new(identity, Clients::Any).expect("sound");
    let client = ClientTls::new(chain.as_bytes(), "localhost", None).expect("sound");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let directory = Arc::new(Directory::default());
    let mut of = Loop::new(Clock::start(0), directory, LoopConfig::default()).expect("epoll");
    of.add_node(NodeId(1), Pong::new(None), Vec::new(), Some(listener)).expect("added");
    of.add_node(NodeId(2), Pong::new(Some(peer_addr(address))), Vec::new(), None).expect("added");
    assert!(of.secure_door(NodeId(1), 0, server) && of.secure_outgoing(NodeId(2), client));
    let (stop, handle) = (AtomicBool::new(false), of.handle());
    let started = Instant::now();
    let nodes = of.run(&stop, Duration::from_millis(5), |of, _| {
        let done = of.nodes().all(|(_, node)| node.rounds >= ROUNDS);
        if done || started.elapsed() > Duration::from_secs(20) {
            let _ = handle.stop();
        }
    });
    let nodes = nodes.expect("epoll works");
    let (_, node) = &nodes[1];
    assert!(node.rounds >= ROUNDS, "{} rounds", node.rounds);
    let each = (node.at_end - node.at_warm) as f64 / f64::from(ROUNDS - WARM);
    assert!(each <= ALLOCATIONS_MAX as f64, "{each} allocations for two messages");
    assert!(each > 0.0, "it was not sealed");
}

#[test]
fn a_handshake_that_goes_nowhere_keeps_little() {
    let names = vec!["localhost".to_string()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).expect("made");
    let (chain, key) = (cert.pem(), signing_key.serialize_pem());
    let identity = Identity { chain: chain.as_bytes(), key: key.as_bytes() };
    let server = ServerTls::new(identity, Clients::Any).expect("sound");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let directory = Arc::new(Directory::default());
    let mut of = Loop::new(Clock::start(0), directory, LoopConfig::default()).expect("epoll");
    of.add_node(NodeId(1), Pong::new(None), Vec::new(), Some(listener)).expect("added");
    assert!(of.secure_door(NodeId(1), 0, server));
    let (stop, handle) = (AtomicBool::new(false), of.handle());
    let (started, mut before, mut after) = (Instant::now(), None, 0);
    let mut held = Vec::new();
    of.run(&stop, Duration::from_millis(5), |of, _| {
        let first = *before.get_or_insert_with(counting::live_bytes);
        if held.len() < HELD {
            let mut stream = TcpStream::connect(address).expect("connects");
            // The beginning of a ClientHello that never ends.
            let mut part = vec![22, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3];
            part.resize(300, 9);
            stream.write_all(&part).expect("takes it");
            held.push(stream);
        } else if of.counters().accepted == HELD as u64 || started.elapsed().as_secs() > 20 {
            after = counting::live_bytes() - first;
            let _ = handle.stop();
        }
    })
    .expect("epoll works");
    let each = after / HELD as i64;
    assert!(each > 100 && each <= BYTES_MAX, "{each} bytes for a handshake");
}
