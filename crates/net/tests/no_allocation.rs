//! A warm loop does not allocate: datagrams, streams, timers and traces over and over.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use net::{Clock, Directory, Loop, LoopConfig, peer_addr, trace_channel};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Trace, TracePoint};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const ROUNDS: u32 = 4_000;
const WARM: u32 = 1_000;

/// Sends itself a datagram, then writes to its own connection, at each tick.
struct Busy {
    rounds: u32,
    open: bool,
    listener: Peer,
    due: Nanos,
    at_warm: u64,
    at_end: u64,
    seen: [u32; 2],
}

impl Node for Busy {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _: Channel,
        _: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.seen[0] += 1;
        out.trace(Trace {
            point: TracePoint::Arrived,
            node: NodeId(0),
            id: 1,
            at: now.now,
            value: bytes.len() as u64,
        });
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.rounds == 0 {
            out.connect(ConnId(1), self.listener);
        }
        self.rounds += 1;
        self.due = now.now.after(20_000);
        let bytes = out.store(&[3; 100]);
        out.datagram(Channel::OVERLAY, Peer::Node(NodeId(0)), bytes);
        if self.open {
            out.stream(ConnId(1), bytes);
            // A stalled machine makes one read of many writes: grow the buffers to the largest.
            if self.rounds.is_multiple_of(100) && self.rounds < WARM {
                let burst = out.store(&[3; 200_000]);
                out.stream(ConnId(1), burst);
            }
        }
        if self.rounds == WARM {
            self.at_warm = counting::allocations();
        }
        if self.rounds == ROUNDS {
            self.at_end = counting::allocations();
            self.due = Nanos::NEVER;
        }
    }

    fn next_timeout(&self) -> Nanos {
        self.due
    }

    fn handle_connect(&mut self, _: ClockReading, conn: ConnId, _: &mut Outbox) {
        self.open |= conn == ConnId(1);
    }

    fn handle_stream(&mut self, _: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.seen[1] += 1;
        if conn != ConnId(1) {
            let bytes = out.store(bytes);
            out.stream(conn, bytes);
        }
    }
}

#[test]
fn a_warm_loop_does_not_allocate() {
    run_warm("127.0.0.1:0");
    run_warm("[::1]:0");
}

fn run_warm(on: &str) {
    let listener = TcpListener::bind(on).expect("a listener");
    let socket = UdpSocket::bind(on).expect("a socket");
    let [tcp, udp] = [listener.local_addr(), socket.local_addr()].map(|at| at.expect("bound"));
    let directory = Directory::new(&[(NodeId(0), udp)]).expect("distinct");
    let mut one = Loop::new(Clock::start(0), Arc::new(directory), LoopConfig::default())
        .expect("an epoll descriptor");
    let busy = Busy {
        rounds: 0,
        open: false,
        listener: peer_addr(tcp),
        due: Nanos(0),
        at_warm: 0,
        at_end: 0,
        seen: [0; 2],
    };
    one.add_node(NodeId(0), busy, vec![(Channel::OVERLAY, socket)], Some(listener)).expect("added");
    let (sender, receiver) = trace_channel(16, 64);
    one.send_traces(sender);
    let handle = one.handle();
    let thread = std::thread::spawn(move || {
        one.run(&AtomicBool::new(false), Duration::from_millis(1), |running, _| {
            if running.nodes().all(|(_, node)| node.rounds == ROUNDS) {
                let _ = running.handle().stop();
            }
        })
    });
    let mut traces = 0;
    while receiver.drain(|batch| traces += batch.len()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let nodes = thread.join().expect("no panic").expect("epoll works");
    let (_, busy) = &nodes[0];
    assert!(busy.seen[0] > ROUNDS / 2 && busy.seen[1] > ROUNDS, "seen {:?}", busy.seen);
    assert_eq!(traces as u64 + handle.counters().traces_dropped, u64::from(busy.seen[0]));
    assert_eq!(busy.at_end - busy.at_warm, 0, "allocations after warming up on {on}");
    assert!(TcpStream::connect(tcp).is_err(), "the listener went with the loop");
}
