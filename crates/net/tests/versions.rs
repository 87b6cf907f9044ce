//! Loops on both versions of IP: a node with sockets of both is heard by nodes of either, under the
//! one name that each has.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use net::{Clock, Directory, Loop, LoopConfig};
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer, Remote};

/// In the middle: answers whoever sends, and remembers the names.
const MIDDLE: NodeId = NodeId(0);
/// What each of the others sends until it is answered.
const EVERY: u64 = 5 * Nanos::MILLI;

/// What a test sees.
#[derive(Default)]
struct Seen {
    from: Mutex<Vec<Peer>>,
    streams: Mutex<Vec<String>>,
    answers: [AtomicUsize; 3],
}

/// One node: the one in the middle, or one that asks it and connects to its door.
struct Side {
    own: NodeId,
    door: Peer,
    seen: Arc<Seen>,
    due: Nanos,
}

impl Node for Side {
    fn handle_datagram(
        &mut self,
        _: ClockReading,
        _: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        if self.own == MIDDLE {
            self.seen.from.lock().expect("unpoisoned").push(from);
            let bytes = out.store(bytes);
            out.datagram(Channel::OVERLAY, from, bytes);
        } else {
            assert_eq!(from, Peer::Node(MIDDLE), "an answer comes from whom it was asked of");
            self.seen.answers[usize::from(self.own.0)].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.due == Nanos(0) {
            out.connect(ConnId(1), self.door);
        }
        self.due = now.now.after(EVERY);
        let bytes = out.store(b"word");
        out.datagram(Channel::OVERLAY, Peer::Node(MIDDLE), bytes);
    }

    fn next_timeout(&self) -> Nanos {
        if self.own == MIDDLE { Nanos::NEVER } else { self.due }
    }

    fn handle_accept(&mut self, _: ClockReading, _: ConnId, remote: &Remote, _: &mut Outbox) {
        let from = remote.address.expect("an address").to_string();
        self.seen.streams.lock().expect("unpoisoned").push(from);
    }
}

/// Nodes 1 (IPv4) and 2 (IPv6) ask a node in the middle that is bound to `on`; how many of their
/// questions were answered, once one of them has been or a second is over.
fn ask(on: &str) -> (Arc<Seen>, [usize; 2]) {
    let bind = |at: SocketAddr| UdpSocket::bind(at).expect("a port");
    let middle = bind(on.parse().expect("an address"));
    let door = TcpListener::bind(on).expect("a port");
    let [port, door_port] =
        [middle.local_addr(), door.local_addr()].map(|at| at.expect("bound").port());
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let (seen, mut loops) = (Arc::new(Seen::default()), Vec::new());
    let sides = [v4, v6].map(|ip| bind(SocketAddr::new(ip, 0)));
    let at = |side: &UdpSocket| side.local_addr().expect("bound");
    let known = [(NodeId(1), at(&sides[0])), (NodeId(2), at(&sides[1]))];
    let mut start = |own: NodeId, ip, socket, doors: Option<TcpListener>| {
        let middle = (MIDDLE, SocketAddr::new(ip, port));
        let directory = match own {
            MIDDLE => Directory::new(&known),
            _ => Directory::new(&[middle]),
        };
        let directory = Arc::new(directory.expect("distinct"));
        let mut of = Loop::new(Clock::start(0), directory, LoopConfig::default()).expect("a loop");
        let door = net::peer_addr(SocketAddr::new(ip, door_port));
        let node = Side { own, door, seen: Arc::clone(&seen), due: Nanos(0) };
        of.add_node(own, node, vec![(Channel::OVERLAY, socket)], doors).expect("added");
        loops.push(of);
    };
    start(MIDDLE, v4, middle, Some(door));
    for ((own, ip), socket) in [(NodeId(1), v4), (NodeId(2), v6)].into_iter().zip(sides) {
        start(own, ip, socket, None);
    }
    let over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = loops
        .into_iter()
        .map(|of| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                of.run(&over, Duration::from_millis(20), |_, _| ()).map(drop)
            })
        })
        .collect();
    let answered = || [1, 2].map(|own| seen.answers[own].load(Ordering::Relaxed));
    let since = Instant::now();
    // Long where all is well: nothing that is tested takes time.
    let patience = if on.starts_with("[::]") { 20 } else { 1 };
    let streams = || seen.streams.lock().expect("unpoisoned").len();
    while (answered().contains(&0) || streams() < 2) && since.elapsed().as_secs() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("no panic").expect("epoll works");
    }
    let answered = answered();
    (seen, answered)
}

#[test]
fn a_node_of_both_versions_serves_nodes_of_either_under_their_names() {
    let (seen, answered) = ask("[::]:0");
    assert!(!answered.contains(&0), "{answered:?}");
    let from = seen.from.lock().expect("unpoisoned");
    assert!(from.iter().all(|peer| [1, 2].map(|n| Peer::Node(NodeId(n))).contains(peer)));
    let mut streams = seen.streams.lock().expect("unpoisoned").clone();
    streams.sort_unstable();
    assert_eq!(streams, ["127.0.0.1", "::1"]);
}

#[test]
fn control_a_node_of_one_version_is_not_heard_by_the_other() {
    let (_, [v4, v6]) = ask("127.0.0.1:0");
    assert!(v4 > 0 && v6 == 0, "{v4} {v6}");
    let (_, [v4, v6]) = ask("[::1]:0");
    assert!(v4 == 0 && v6 > 0, "{v4} {v6}");
}
