//! From a packet of market data in the sender's memory to the event made of its last message.
//!
//! One thread sends packets of FAST for OPRA, another looks for them again and again, each on a core of its own
//! where there are two, and decodes each to events. The way is a datagram over loopback, a datagram that a data
//! plane sends over a cable between two network namespaces, or a ring in shared memory that one process writes and
//! others map. Paced, every packet's way is timed; streamed, a window of packets is under way and
//! the messages of a second are counted.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use emulator::Cable;
use fast::opra::stream::{Shape, make};
use fast::opra::{V2, checksum, to_event};
use fast::slots::{Message, SlotDecoder, SlotSink};
use host::failure::Failure;
use host::sockets::io;
use net::packet_ring::{PACKET_MAX, PacketRead, PacketRingReader, PacketRingWriter};
use net::plane::{DataPlane, PlaneError, PlaneKind};

use super::fanout::ground::{cable, settle};

/// How packets come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A datagram over loopback.
    Datagram,
    /// A datagram of a data plane over a cable between two network namespaces.
    Plane(PlaneKind),
    /// A ring of packets in shared memory.
    Ring,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Feed {
    /// How packets come.
    pub way: Way,
    /// Bytes of a packet, about.
    pub packet_bytes: usize,
    /// How many packets are sent; at least 1.
    pub packets: usize,
    /// From one packet to the next, ns; 0: as fast as the receiver takes them.
    pub gap_ns: u64,
    /// Whether messages are decoded; without, a packet is an event.
    pub decode: bool,
    /// Start of what is drawn.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Default, Debug)]
pub struct FeedFound {
    /// From the call that sends to the event, ns; of every packet that came while both cores were there, of all
    /// packets where there was none such.
    pub way_ns: Vec<u64>,
    /// Of that, from the packet's being in the receiver's hands, ns.
    pub decode_ns: Vec<u64>,
    /// Packets on whose way a core was away with something else.
    pub away: u64,
    /// From one packet's arrival to the next one's, ns.
    pub gaps_ns: Vec<u64>,
    /// Messages decoded.
    pub messages: u64,
    /// From the first packet's sending to the last event, ns.
    pub span_ns: u64,
    /// Mean bytes of a packet.
    pub mean_bytes: f64,
    /// Packets that did not come.
    pub lost: u64,
    /// How late the last one was sent, ns, where each has its time.
    pub late_ns: u64,
}

/// Where what came over a cable is heard, UDP.
const PLANE_PORT: u16 = 5_000;
/// Packets under way where they are streamed.
const WINDOW: u64 = 256;
/// After so long packets under way count as lost.
const GIVEN_UP: Duration = Duration::from_millis(20);
/// Slots of the ring: where packets are paced, so few that they stay in the caches of both cores.
const SLOTS: [u64; 2] = [256, 4_096];
/// Between two readings of an end's clock, or from before a send to behind it: the core was away, ns.
const AWAY_NS: u64 = 20_000;
/// Silence after which nothing more comes.
const SILENCE: Duration = Duration::from_millis(200);

/// Which packets of a stream may be sent, as far as others have come.
#[derive(Default)]
struct Window {
    /// What is before it has come or counts as lost: nothing waits for it again.
    given_up: u64,
}

impl Window {
    /// Whether the packet at a place may be sent, where those before `reached` have come or were overtaken, and
    /// it has waited for `waited`.
    fn is_open(&mut self, at: u64, reached: u64, waited: Duration) -> bool {
        let under_way = at.saturating_sub(reached.max(self.given_up));
        if under_way >= WINDOW && waited >= GIVEN_UP {
            self.given_up = at;
        }
        under_way < WINDOW || waited >= GIVEN_UP
    }
}

struct Events(u64, u64);

impl SlotSink for Events {
    #[inline(always)]
    fn message(&mut self, message: &Message<'_>) {
        self.0 = checksum::mix(self.0, checksum::of_event(&to_event::<V2>(message)));
        self.1 += 1;
    }
}

/// The end that sends.
enum Sender {
    Datagram(UdpSocket),
    Plane { plane: Box<DataPlane>, socket: UdpSocket, to: SocketAddr, _cable: Box<Cable> },
    Ring(PacketRingWriter),
}

impl Sender {
    fn send(&mut self, packet: &[u8]) -> std::io::Result<()> {
        match self {
            Sender::Datagram(socket) => socket.send(packet).map(|_| ()),
            Sender::Plane { plane, socket, to, .. } => {
                plane.send(socket, *to, packet)?;
                plane.flush(socket)
            }
            Sender::Ring(ring) => {
                ring.push(packet);
                Ok(())
            }
        }
    }
}

/// The end that hears.
enum Receiver {
    Datagram(UdpSocket),
    Ring(Box<PacketRingReader>),
}

impl Receiver {
    /// Bytes of the next packet, at the front of `buffer`; none: there is none yet.
    fn take(&mut self, buffer: &mut [u8; PACKET_MAX]) -> Option<usize> {
        match self {
            Receiver::Datagram(socket) => socket.recv(&mut buffer[..]).ok(),
            Receiver::Ring(ring) => match ring.read(buffer) {
                PacketRead::Packet(len) => Some(len),
                _ => None,
            },
        }
    }
}

fn ends(feed: &Feed) -> Result<(Sender, Receiver), Failure> {
    match feed.way {
        Way::Datagram => {
            let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io);
            let (from, to) = (bind()?, bind()?);
            to.set_nonblocking(true).map_err(io)?;
            from.connect(to.local_addr().map_err(io)?).map_err(io)?;
            Ok((Sender::Datagram(from), Receiver::Datagram(to)))
        }
        Way::Plane(kind) => {
            let cable = Box::new(cable()?);
            let to = SocketAddr::new(Cable::receiver(false, 0), PLANE_PORT);
            let refused = |error: PlaneError| Failure::Unavailable(error.to_string());
            let opened = cable.left().enter(|| {
                let socket = UdpSocket::bind((Cable::left_address(false), 0)).map_err(io)?;
                // Who has the address is known before anything is measured.
                settle(&socket, &[(to, Vec::new())])?;
                let plane = DataPlane::open(kind, &socket, &[to]).map_err(refused)?;
                Ok::<_, Failure>((Box::new(plane), socket))
            });
            let (plane, socket) = opened.map_err(io)??;
            let heard = cable.right().enter(|| UdpSocket::bind(("0.0.0.0", PLANE_PORT)));
            let heard = heard.map_err(io)?.map_err(io)?;
            heard.set_nonblocking(true).map_err(io)?;
            Ok((Sender::Plane { plane, socket, to, _cable: cable }, Receiver::Datagram(heard)))
        }
        Way::Ring => {
            static RINGS: AtomicU64 = AtomicU64::new(0);
            let number = RINGS.fetch_add(1, Ordering::Relaxed);
            let name = format!("fairbell-ring-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let slots = SLOTS[usize::from(feed.gap_ns == 0)];
            let ring = PacketRingWriter::create(&path, slots, 1, None).map_err(io)?;
            let reader = PacketRingReader::open(&path).map_err(io)?;
            Ok((Sender::Ring(ring), Receiver::Ring(Box::new(reader))))
        }
    }
}

/// Has this thread run on the n-th core of those it may, where there are several.
fn stay_on(n: usize) {
    let cores = host::core::allowed().unwrap_or_default();
    if let Some(core) = cores.get(n).filter(|_| cores.len() > 1) {
        let _ = host::core::take("a thread of the measurement", *core as u16);
    }
}

/// Sends packets one way from a thread to another, and times each.
///
/// # Errors
/// Sockets, the ring's file, and packets that cannot be decoded.
pub fn measure(feed: Feed) -> Result<FeedFound, Failure> {
    let due: Vec<u64> = match feed.gap_ns {
        0 => Vec::new(),
        gap_ns => (0..feed.packets as u64).map(|at| at * gap_ns).collect(),
    };
    measure_at(feed, &due)
}

/// As [`measure`], each packet at its own time, ns from the first one's; none: as fast as the receiver takes them.
///
/// # Errors
/// As [`measure`].
pub fn measure_at(feed: Feed, due: &[u64]) -> Result<FeedFound, Failure> {
    let shape = Shape {
        seed: feed.seed,
        // Some more, for packets are longer by a little now and then.
        bytes: (feed.packets + feed.packets / 50 + 1) * feed.packet_bytes,
        packet: feed.packet_bytes,
        ..Shape::default()
    };
    let stream = make::<V2>(shape);
    let packets: Vec<&[u8]> = stream.packets().take(feed.packets).collect();
    let (mut sender, mut receiver) = ends(&feed)?;
    let sent: Vec<AtomicU64> = packets.iter().map(|_| AtomicU64::new(0)).collect();
    // How long the sender took for each.
    let mut sending = vec![0; packets.len()];
    let (reached, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let origin = Instant::now();
    let now = || u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let by_sequence: Vec<u64> = (packets.iter())
        .map(|packet| fast::slots::packet_header::<V2>(packet).map_or(0, |head| head.sequence))
        .collect();
    let (mut found, failed, heard_of) = thread::scope(|scope| {
        let hear = scope.spawn(|| {
            stay_on(1);
            let mut found = FeedFound::default();
            let mut decoder = SlotDecoder::<V2>::default();
            let (mut events, mut buffer, mut failed) = (Events(0, 0), [0; PACKET_MAX], false);
            let (mut last, mut silent) = (0, Instant::now());
            let (mut place, mut seen, mut back) = (0, now(), 0);
            let mut heard_of = Vec::with_capacity(packets.len());
            while heard_of.len() < packets.len() {
                let reading = now();
                if reading - seen > AWAY_NS {
                    back = reading;
                }
                seen = reading;
                let Some(len) = receiver.take(&mut buffer) else {
                    if over.load(Ordering::Relaxed) && silent.elapsed() > SILENCE {
                        break;
                    }
                    std::hint::spin_loop();
                    continue;
                };
                let heard = now();
                let packet = buffer.get(..len).unwrap_or(&[]);
                if feed.decode {
                    failed |= decoder.packet(packet, &mut events).is_err();
                }
                let made = now();
                let sequence = fast::slots::packet_header::<V2>(packet).map_or(0, |of| of.sequence);
                while by_sequence.get(place).is_some_and(|known| *known < sequence) {
                    place += 1;
                }
                if last > 0 {
                    found.gaps_ns.push(heard - last);
                }
                last = heard;
                let at = sent.get(place).map_or(0, |at| at.load(Ordering::Relaxed));
                let away = back > at || made - reading > AWAY_NS;
                heard_of.push((place, made.saturating_sub(at), made - heard, away));
                found.span_ns = made;
                reached.store(place as u64 + 1, Ordering::Relaxed);
                silent = Instant::now();
            }
            found.messages = events.1;
            std::hint::black_box(events.0);
            (found, failed, heard_of)
        });
        // A thread of its own: whose core is chosen keeps it.
        let tell = scope.spawn(|| {
            stay_on(0);
            let (mut outcome, mut late, mut window) = (Ok(()), 0, Window::default());
            // Until the receiver looks.
            thread::sleep(Duration::from_millis(5));
            let begin = now();
            for (at, (packet, took)) in packets.iter().zip(&mut sending).enumerate() {
                if let Some(due) = due.get(at) {
                    while now() < begin + due {
                        std::hint::spin_loop();
                    }
                } else {
                    let (at, begun) = (at as u64, Instant::now());
                    let come = || reached.load(Ordering::Relaxed);
                    while !window.is_open(at, come(), begun.elapsed()) {
                        std::hint::spin_loop();
                    }
                }
                let before = now();
                late = before.saturating_sub(begin + due.get(at).copied().unwrap_or(before));
                if let Some(sent) = sent.get(at) {
                    sent.store(before, Ordering::Relaxed);
                }
                outcome = sender.send(packet);
                *took = now() - before;
                if outcome.is_err() {
                    break;
                }
            }
            (outcome, begin, late)
        });
        let told = tell.join();
        over.store(true, Ordering::Relaxed);
        let heard = hear.join();
        let panicked = |_| Failure::Run("a thread of the measurement panicked".to_string());
        let (outcome, begin, late_ns) = told.map_err(panicked)?;
        outcome.map_err(io)?;
        let (mut found, failed, heard_of) = heard.map_err(panicked)?;
        found.span_ns = found.span_ns.saturating_sub(begin);
        found.late_ns = late_ns;
        Ok::<_, Failure>((found, failed, heard_of))
    })?;
    let came = heard_of.len();
    let is_away =
        |place: usize, away: bool| away || sending.get(place).is_none_or(|took| *took > AWAY_NS);
    // Where other work had a core on the way of each of them, all are told.
    let all = heard_of.iter().all(|(place, _, _, away)| is_away(*place, *away));
    for (place, way, decode, away) in heard_of {
        if is_away(place, away) {
            found.away += 1;
            if !all {
                continue;
            }
        }
        found.way_ns.push(way);
        found.decode_ns.push(decode);
    }
    if failed || came == 0 {
        return Err(Failure::Run("packets came that could not be decoded, or none".to_string()));
    }
    let bytes: usize = packets.iter().map(|packet| packet.len()).sum();
    let lost = (packets.len() - came) as u64;
    Ok(FeedFound { mean_bytes: bytes as f64 / packets.len() as f64, lost, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_whose_packets_are_lost_waits_once_for_each_window() {
        let (mut window, mut waits) = (Window::default(), 0);
        for at in 0..10 * WINDOW {
            if !window.is_open(at, 0, Duration::ZERO) {
                waits += 1;
                assert!(window.is_open(at, 0, GIVEN_UP), "{at}");
            }
        }
        assert_eq!(waits, 9);
        let mut window = Window::default();
        assert!((0..10 * WINDOW).all(|at| window.is_open(at, at, Duration::ZERO)), "control");
        assert!(!window.is_open(WINDOW, 0, Duration::ZERO), "and who is behind is waited for");
    }

    #[test]
    fn every_packet_of_either_way_becomes_events() {
        let planes = PlaneKind::built().map(Way::Plane);
        for way in [Way::Datagram, Way::Ring].into_iter().chain(planes) {
            let feed = Feed {
                way,
                packet_bytes: 256,
                // As many as a socket holds when its reader has no core.
                packets: 150,
                gap_ns: 20_000,
                decode: true,
                seed: 3,
            };
            let paced = match measure(feed) {
                Err(Failure::Unavailable(why)) if std::env::var_os("CI").is_none() => {
                    println!("not tested: {why}");
                    continue;
                }
                paced => paced.expect("a way"),
            };
            // Where other work had a core on the way of each of them, all are told.
            let (told, came) = (paced.way_ns.len() as u64, 150 - paced.lost);
            let all_away = told == came && paced.away == came;
            assert!(all_away || told + paced.away == came, "{way:?}: {told} of {came}");
            assert!(paced.lost < 50, "{way:?}: {}", paced.lost);
            assert!((200.0..=280.0).contains(&paced.mean_bytes), "{}", paced.mean_bytes);
            assert!(paced.messages > 900, "{way:?}: {}", paced.messages);
            let each = paced.way_ns.iter().zip(&paced.decode_ns);
            assert!(each.into_iter().all(|(way, decode)| decode <= way));
            let bare = measure(Feed { decode: false, gap_ns: 0, ..feed }).expect("a way");
            assert_eq!(bare.messages, 0, "a control: nothing is decoded");
        }
    }
}
