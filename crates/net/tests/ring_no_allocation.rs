//! A loop whose node publishes to a ring, and a reader of that ring, do not allocate once warm.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use net::packet_ring::{PACKET_MAX, PacketRead, PacketRingReader, PacketRingWriter};
use net::{Clock, Directory, Loop, LoopConfig};
use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const ROUNDS: u64 = 4_000;
const WARM: u64 = 500;

/// Publishes its number, as long as that says, at each tick, and reads what the ring has.
struct Both {
    rounds: u64,
    reader: PacketRingReader,
    into: [u8; PACKET_MAX],
    right: u64,
    lost: u64,
    warm: u64,
    end: u64,
}

impl Both {
    fn len(number: u64) -> usize {
        8 + (number * 97 % (PACKET_MAX as u64 - 8)) as usize
    }

    fn read(&mut self) {
        loop {
            match self.reader.read(&mut self.into) {
                PacketRead::Packet(len) => {
                    let number = self.into.first_chunk().map(|of| u64::from_le_bytes(*of));
                    let expected = self.right + self.lost;
                    let is_right = number == Some(expected) && len == Both::len(expected);
                    assert!(is_right, "{number:?} of {len} bytes in place of {expected}");
                    self.right += 1;
                }
                PacketRead::Lost(count) => self.lost += count,
                PacketRead::Nothing | PacketRead::Closed => return,
            }
        }
    }
}

impl Node for Both {
    fn handle_timeout(&mut self, _: ClockReading, out: &mut Outbox) {
        // Sometimes it is too slow: the ring has 16 places.
        if self.rounds % 100 >= 20 {
            self.read();
        }
        let number = self.rounds;
        let bytes = out.write(|buffer| {
            let to = buffer.len() + Both::len(number);
            buffer.extend_from_slice(&number.to_le_bytes());
            buffer.resize(to, 7);
        });
        out.datagram(Channel::FEED, Peer::RING, bytes);
        self.rounds += 1;
        match self.rounds {
            WARM => self.warm = counting::allocations(),
            ROUNDS => self.end = counting::allocations(),
            _ => {}
        }
    }

    fn next_timeout(&self) -> Nanos {
        if self.rounds < ROUNDS { Nanos(0) } else { Nanos::NEVER }
    }
}

#[test]
fn publishing_and_reading_allocate_nothing_and_lose_only_what_is_told() {
    let path = std::env::temp_dir().join(format!("ring-no-allocation-{}", std::process::id()));
    let ring = PacketRingWriter::create(&path, 16, 3, None).expect("a ring");
    let reader = PacketRingReader::open(&path).expect("a ring");
    let both =
        Both { rounds: 0, reader, into: [0; PACKET_MAX], right: 0, lost: 0, warm: 0, end: 0 };
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), LoopConfig::default())
        .expect("a loop");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    of.add_node(NodeId(4), both, vec![(Channel::FEED, socket)], None).expect("added");
    assert!(of.publish(NodeId(4), ring));
    let handle = of.handle();
    let nodes = of.run(&AtomicBool::new(false), Duration::from_millis(1), |of, _| {
        if of.nodes().all(|(_, node)| node.rounds == ROUNDS) {
            let _ = of.handle().stop();
        }
    });
    let (_, mut both) = nodes.expect("it ran").remove(0);
    both.read();
    assert_eq!(both.right + both.lost, ROUNDS);
    assert!(both.right > ROUNDS / 2 && both.lost > 0, "{} read, {} lost", both.right, both.lost);
    assert_eq!(both.end - both.warm, 0, "allocations after warming up");
    let counters = handle.counters();
    assert_eq!((counters.datagrams_out, counters.unroutable), (0, 0));
    assert!(!path.exists(), "a ring goes with its writer");
}

#[test]
fn without_a_ring_what_is_for_it_is_counted() {
    /// Sends one datagram to the ring.
    struct Once(bool);
    impl Node for Once {
        fn handle_timeout(&mut self, _: ClockReading, out: &mut Outbox) {
            let bytes = out.store(b"packet");
            out.datagram(Channel::FEED, Peer::RING, bytes);
            self.0 = true;
        }

        fn next_timeout(&self) -> Nanos {
            if self.0 { Nanos::NEVER } else { Nanos(0) }
        }
    }
    let mut of = Loop::new(Clock::start(0), Arc::new(Directory::default()), LoopConfig::default())
        .expect("a loop");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    of.add_node(NodeId(4), Once(false), vec![(Channel::FEED, socket)], None).expect("added");
    let handle = of.handle();
    let ran = of.run(&AtomicBool::new(false), Duration::from_millis(1), |of, _| {
        if of.nodes().all(|(_, node)| node.0) {
            let _ = of.handle().stop();
        }
    });
    assert!(ran.is_ok());
    assert_eq!((handle.counters().unroutable, handle.counters().datagrams_out), (1, 0));
}
