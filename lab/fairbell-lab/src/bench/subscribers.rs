//! What a subscriber of an edge costs: a released packet to 1, 8 and 64 places, unicast, by a group and by
//! a ring in shared memory, through receiver and loop, beside bare calls of sendto and sendmmsg and a
//! bare copy into a ring.
//!
//! All take turns, slice by slice, so that they meet the same machine. Packets go over loopback to
//! sockets that are emptied between slices; there the kernel also does the work of the receiving ends
//! within the call, for a group that of all its members on this machine. What n subscribers take
//! beyond one is the time between the first and the last send of a packet: the window.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use host::config::Config;
use host::failure::Failure;
use host::sockets::io;
use net::packet_ring::{PACKET_MAX, PacketRead, PacketRingReader, PacketRingWriter};
use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy, peer_addr};
use overlay::frame::{DataBody, FrameKind, HopHeader};
use overlay::receiver::{Receiver, ReceiverConfig};
use overlay::topology::ROOT;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg, sockopt};
use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer};

/// Options of `fairbell-lab bench subscribers`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell-lab bench subscribers\n  \
    fairbell-lab bench subscribers --slices 100 --json")]
pub struct SubscribersArgs {
    /// Turns of each measurement
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slices: u32,
    /// Packets in a turn
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(2..=200))]
    pub packets: u32,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Subscribers of a packet.
const COUNTS: [usize; 3] = [1, 8, 64];
const WAYS: [Way; 7] = [
    Way::Edge,
    Way::SendTo,
    Way::SendMany,
    Way::EdgeGroup,
    Way::SendToGroup,
    Way::EdgeRing,
    Way::PushRing,
];
const SESSION: [u8; 10] = *b"FAIRBELL01";
const NODE: NodeId = NodeId(1);
/// How long a slice may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// Receiver and loop, a datagram for each.
    Edge,
    /// A bare loop of sendto.
    SendTo,
    /// One sendmmsg for all of them.
    SendMany,
    /// Receiver and loop, one datagram to a group that all have joined.
    EdgeGroup,
    /// A bare sendto to the group.
    SendToGroup,
    /// Receiver and loop, one copy into a ring that all have mapped.
    EdgeRing,
    /// A bare copy into the ring.
    PushRing,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Edge => "edge, unicast",
            Way::SendTo => "bare sendto",
            Way::SendMany => "bare sendmmsg",
            Way::EdgeGroup => "edge, group",
            Way::SendToGroup => "bare sendto to the group",
            Way::EdgeRing => "edge, ring",
            Way::PushRing => "bare copy into a ring",
        }
    }
}

/// A packet of five messages with this number.
fn packet(seq: u64) -> Vec<u8> {
    let mut bytes = SESSION.to_vec();
    bytes.extend(seq.to_be_bytes());
    bytes.extend(5u16.to_be_bytes());
    for _ in 0..5 {
        bytes.extend(36u16.to_be_bytes());
        bytes.extend([b'A'; 36]);
    }
    bytes
}

/// A receiver that is given its packets by a timer that is always due, and notes when.
struct Releaser {
    receiver: Receiver,
    seq: u64,
    left: u32,
    last: Option<Instant>,
    times: Vec<u64>,
    done: Option<SyncSender<Vec<u64>>>,
}

impl Releaser {
    fn release(&mut self, now: ClockReading, out: &mut Outbox) {
        let bytes = packet(self.seq);
        let header = HopHeader::new(FrameKind::Data, ROOT, self.receiver.tree().epoch);
        let (id, t_sent, deadline) = (self.seq.div_ceil(5), now.now, Nanos(0));
        let body = DataBody { id, t_sent, deadline, bound_ns: 0, stream: 0, hedge: 0, flags: 0 };
        self.receiver.handle_data(now, &header, &body, &bytes, out);
        self.seq += 5;
    }
}

impl Node for Releaser {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        let at = Instant::now();
        if let Some(last) = self.last.replace(at) {
            self.times.push(at.duration_since(last).as_nanos() as u64);
        }
        if self.left > 0 {
            self.left -= 1;
            self.release(now, out);
        } else if let Some(done) = self.done.take() {
            self.last = None;
            let _ = done.try_send(std::mem::take(&mut self.times));
        }
    }

    fn next_timeout(&self) -> Nanos {
        if self.done.is_some() { Nanos(0) } else { Nanos::NEVER }
    }
}

/// The ends that hear, and where they are.
struct Ears {
    sockets: Vec<UdpSocket>,
    places: Vec<SocketAddr>,
}

impl Ears {
    fn unicast() -> Result<Ears, Failure> {
        let most = COUNTS.into_iter().max().unwrap_or(1);
        let sockets = (0..most).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
        let sockets = sockets.collect::<std::io::Result<Vec<_>>>().map_err(io)?;
        let place = |socket: &UdpSocket| socket.local_addr().map_err(io);
        let places = sockets.iter().map(place).collect::<Result<Vec<_>, _>>()?;
        Ears { sockets, places }.ready()
    }

    /// A group with so many members.
    fn group(number: u8, members: usize) -> Result<Ears, Failure> {
        let port = Ears::unicast()?.places.first().map_or(0, SocketAddr::port);
        let group = SocketAddr::from((Ipv4Addr::new(239, 77, 7, number), port));
        let hear = |_| host::subscriber::hear(group, Some(group), Ipv4Addr::LOCALHOST.into());
        let sockets = (0..members).map(hear).collect::<std::io::Result<Vec<_>>>().map_err(io)?;
        Ears { sockets, places: vec![group] }.ready()
    }

    fn ready(self) -> Result<Ears, Failure> {
        self.sockets.iter().try_for_each(|socket| socket.set_nonblocking(true)).map_err(io)?;
        Ok(self)
    }

    /// Empties the first `count` sockets; how many packets they held.
    fn empty(&self, count: usize) -> usize {
        let mut bytes = [0; 2_048];
        let mut heard = 0;
        for socket in self.sockets.iter().take(count) {
            while socket.recv(&mut bytes).is_ok() {
                heard += 1;
            }
        }
        heard
    }
}

/// A ring that has more room than a turn needs, and its readers.
struct Rings {
    path: PathBuf,
    readers: Vec<PacketRingReader>,
}

impl Rings {
    fn new(name: &str) -> Result<(Rings, PacketRingWriter), Failure> {
        let path = format!("fairbell-bench-{name}-{}.ring", std::process::id());
        let path = std::env::temp_dir().join(path);
        let writer = PacketRingWriter::create(&path, host::feed_ring::PACKETS, 1, None);
        let writer = writer.map_err(io)?;
        let most = COUNTS.into_iter().max().unwrap_or(1);
        let readers = (0..most).map(|_| PacketRingReader::open(&path).map_err(io));
        Ok((Rings { readers: readers.collect::<Result<_, _>>()?, path }, writer))
    }

    /// Has all read what is there; how many packets the first `count` did.
    fn empty(&mut self, count: usize) -> usize {
        let (mut into, mut heard) = ([0; PACKET_MAX], 0);
        for (place, reader) in self.readers.iter_mut().enumerate() {
            while let PacketRead::Packet(_) = reader.read(&mut into) {
                heard += usize::from(place < count);
            }
        }
        heard
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Everything that takes turns.
struct Bench {
    loop_handle: LoopHandle<Releaser>,
    bare: UdpSocket,
    unicast: Ears,
    /// By place in [`COUNTS`].
    groups: Vec<Ears>,
    /// The edge's, and that of the bare copy.
    rings: [Rings; 2],
    push: PacketRingWriter,
}

fn release_socket() -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
    let set = sockopt::set_ip_multicast_if(&socket, &Ipv4Addr::LOCALHOST);
    set.map_err(|error| io(error.into()))?;
    Ok(socket)
}

impl Bench {
    /// One slice: nanoseconds of each packet, and how many arrived of those sent.
    fn slice(
        &mut self,
        way: Way,
        place: usize,
        packets: u32,
    ) -> Result<(Vec<u64>, usize, usize), Failure> {
        let count = COUNTS.get(place).copied().unwrap_or(1);
        let sent = packets as usize * count;
        match way {
            Way::EdgeRing => {
                let times = self.edge(vec![Peer::RING], packets)?;
                return Ok((times, self.rings[0].empty(count), sent));
            }
            Way::PushRing => {
                let times = push(&mut self.push, packets);
                return Ok((times, self.rings[1].empty(count), sent));
            }
            _ => {}
        }
        let group = self.groups.get(place).ok_or_else(|| Failure::Run("no group".to_string()))?;
        let ears = match way {
            Way::EdgeGroup | Way::SendToGroup => group,
            _ => &self.unicast,
        };
        let to: Vec<SocketAddr> = ears.places.iter().take(count).copied().collect();
        let times = match way {
            Way::SendTo | Way::SendToGroup => send_to(&self.bare, &to, packets),
            Way::SendMany => send_many(&self.bare, &to, packets)?,
            _ => self.edge(to.iter().map(|at| peer_addr(*at)).collect(), packets)?,
        };
        Ok((times, ears.empty(count), sent))
    }

    fn edge(&self, peers: Vec<Peer>, packets: u32) -> Result<Vec<u64>, Failure> {
        let (done, times) = sync_channel(1);
        let added = peers.clone();
        let asked = self.loop_handle.call(NODE, move |node: &mut Releaser, _, _| {
            let list = node.receiver.subscribers();
            assert!(added.iter().all(|peer| list.add(*peer)), "there is room for all");
            (node.left, node.done) = (packets, Some(done));
        });
        asked.map_err(|error| Failure::Run(error.to_string()))?;
        let times = times.recv_timeout(PATIENCE);
        let times = times.map_err(|_| Failure::Run("the loop does not answer".to_string()))?;
        let asked = self.loop_handle.call(NODE, move |node: &mut Releaser, _, _| {
            let list = node.receiver.subscribers();
            assert!(peers.iter().all(|peer| list.remove(*peer)), "they were there");
        });
        asked.map_err(|error| Failure::Run(error.to_string()))?;
        Ok(times)
    }
}

fn push(to: &mut PacketRingWriter, packets: u32) -> Vec<u64> {
    let bytes = packet(1);
    let mut times = Vec::with_capacity(packets as usize);
    for _ in 0..packets {
        let begun = Instant::now();
        // What is not there shows at the other end.
        let _ = to.push(&bytes);
        times.push(begun.elapsed().as_nanos() as u64);
    }
    times
}

fn send_to(from: &UdpSocket, to: &[SocketAddr], packets: u32) -> Vec<u64> {
    let bytes = packet(1);
    let mut times = Vec::with_capacity(packets as usize);
    for _ in 0..packets {
        let begun = Instant::now();
        for at in to {
            // What is lost shows at the other end.
            let _ = from.send_to(&bytes, at);
        }
        times.push(begun.elapsed().as_nanos() as u64);
    }
    times
}

fn send_many(from: &UdpSocket, to: &[SocketAddr], packets: u32) -> Result<Vec<u64>, Failure> {
    let bytes = packet(1);
    let slices = [IoSlice::new(&bytes)];
    let places: Vec<SocketAddrAny> = to.iter().map(|at| SocketAddrAny::from(*at)).collect();
    let mut times = Vec::with_capacity(packets as usize);
    for _ in 0..packets {
        let mut controls: Vec<_> = to.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let messages = places.iter().zip(&mut controls);
        let mut messages: Vec<MMsgHdr<'_>> =
            messages.map(|(at, control)| MMsgHdr::new_with_addr(at, &slices, control)).collect();
        let begun = Instant::now();
        let sent = sendmmsg(from, &mut messages, SendFlags::empty());
        times.push(begun.elapsed().as_nanos() as u64);
        sent.map_err(|error| io(error.into()))?;
    }
    Ok(times)
}

/// What one way takes with so many subscribers.
#[derive(Clone, Default)]
struct Found {
    times: Vec<u64>,
    arrived: usize,
    sent: usize,
}

impl Found {
    /// The time of a packet that so many of a thousand stay below, ns.
    fn at(&self, permille: usize) -> u64 {
        let last = self.times.len().saturating_sub(1);
        self.times.get((self.times.len() * permille / 1_000).min(last)).copied().unwrap_or(0)
    }
}

/// Measures and prints.
///
/// # Errors
/// The system's; packets that did not arrive.
pub fn run(args: &SubscribersArgs) -> Result<(), Failure> {
    let found = measure(args)?;
    let lost: usize = found.iter().flatten().map(|one| one.sent - one.arrived).sum();
    let rows = WAYS.iter().zip(&found).flat_map(|(way, of)| {
        let one = of.first().map_or(0, |one| one.at(500));
        COUNTS.iter().zip(of).map(move |(count, found)| {
            let (p50, p99) = (found.at(500), found.at(990));
            let window = [p50, p99].map(|ns| ns.saturating_sub(one));
            (way.name(), *count, p50, p99, p50 as f64 / *count as f64, window)
        })
    });
    if args.json {
        let row = |(way, count, p50, p99, each, window): (_, usize, u64, u64, f64, [u64; 2])| {
            serde_json::json!({ "way": way, "subscribers": count, "packet_ns_p50": p50,
                "packet_ns_p99": p99, "each_ns": each, "window_ns_p50": window[0],
                "window_ns_p99": window[1] })
        };
        let rows: Vec<_> = rows.map(row).collect();
        let document = serde_json::json!({ "slices": args.slices, "packets": args.packets,
            "packet_bytes": packet(1).len(), "lost": lost, "rows": rows });
        println!("{document:#}");
    } else {
        println!(
            "{:<26} {:>11} {:>10} {:>10} {:>9} {:>10} {:>10}",
            "ns of a released packet", "subscribers", "p50", "p99", "each", "window p50", "p99"
        );
        for (way, count, p50, p99, each, [window, window_p99]) in rows {
            println!(
                "{way:<26} {count:>11} {p50:>10} {p99:>10} {each:>9.0} {window:>10} {window_p99:>10}"
            );
        }
        println!(
            "{} turns of {} packets of {} bytes; window: what they take beyond one subscriber",
            args.slices,
            args.packets,
            packet(1).len()
        );
    }
    match lost {
        0 => Ok(()),
        lost => Err(Failure::Run(format!("{lost} packets did not arrive"))),
    }
}

/// By way and count.
fn measure(args: &SubscribersArgs) -> Result<[[Found; 3]; 7], Failure> {
    let config = Config { overlay: one_edge(), ..Config::default() };
    let clock = Clock::start(0);
    let exchange = host::deployment::exchange_config(&config, &clock);
    let tree = exchange.tree().map_err(|error| Failure::Run(error.to_string()))?;
    let receiver = ReceiverConfig::new(SESSION, types::Peer::NOBODY);
    let node = tree.topology.receiver_ids().next().unwrap_or_default();
    let releaser = Releaser {
        receiver: Receiver::new(tree, node, receiver),
        seq: 1,
        left: 0,
        last: None,
        times: Vec::new(),
        done: None,
    };
    let wait = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
    let habits = LoopConfig { wait, ..LoopConfig::default() };
    let mut of = Loop::new(clock, Arc::new(Directory::default()), habits).map_err(io)?;
    of.add_node(NODE, releaser, vec![(Channel::FEED, release_socket()?)], None).map_err(io)?;
    let groups = (0u8..).zip(COUNTS).map(|(number, count)| Ears::group(number, count));
    let (of_edge, writer) = Rings::new("edge")?;
    let (bare, push) = Rings::new("bare")?;
    of.publish(NODE, writer);
    let mut bench = Bench {
        rings: [of_edge, bare],
        push,
        loop_handle: of.handle(),
        bare: release_socket()?,
        unicast: Ears::unicast()?,
        groups: groups.collect::<Result<_, _>>()?,
    };
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| of.run(&over, Duration::from_secs(3_600), |_, _| {}));
        let found = turns(&mut bench, args);
        over.store(true, Ordering::Relaxed);
        let ran = running.join().map_err(|_| Failure::Run("the loop panicked".to_string()))?;
        ran.map_err(io)?;
        found
    })
}

fn turns(bench: &mut Bench, args: &SubscribersArgs) -> Result<[[Found; 3]; 7], Failure> {
    let mut found: [[Found; 3]; 7] = Default::default();
    // One more than counts, to warm up.
    for turn in 0..=args.slices {
        for (way, of) in WAYS.into_iter().zip(&mut found) {
            for (place, found) in of.iter_mut().enumerate() {
                let (times, arrived, sent) = bench.slice(way, place, args.packets)?;
                if turn > 0 {
                    found.times.extend(times);
                    found.arrived += arrived;
                    found.sent += sent;
                }
            }
        }
    }
    found.iter_mut().flatten().for_each(|found| found.times.sort_unstable());
    Ok(found)
}

/// Direct unicast to one receiver.
fn one_edge() -> host::config::Overlay {
    host::config::Overlay { depth: 1, fanout: 1, receivers: 1, hedge: 0, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_brings_all_packets_to_all_and_takes_time() {
        let args = SubscribersArgs { slices: 2, packets: 10, json: true };
        let found = measure(&args).expect("measured");
        for (way, of) in WAYS.iter().zip(&found) {
            for (count, found) in COUNTS.iter().zip(of) {
                let what = (way.name(), count);
                assert_eq!((found.sent, found.arrived), (20 * count, 20 * count), "{what:?}");
                assert!(found.times.len() == 20 && found.at(500) > 0, "{what:?}");
            }
            let spread = [&of[0], &of[2]].map(|found| found.at(500));
            let grows = matches!(way, Way::Edge | Way::SendTo | Way::SendMany);
            assert!(!grows || spread[1] > 8 * spread[0], "{}: {spread:?}", way.name());
        }
        assert!(run(&args).is_ok() && run(&SubscribersArgs { json: false, ..args }).is_ok());
    }
}
