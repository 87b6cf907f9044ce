//! One receiver, fed by hand: when it releases, what it asks for, what it refuses.

use overlay::{
    frame::{self, DATA_OLDEST, DataBody, FrameKind, HopHeader, RepairRequestBody},
    mold::{Header, Packet, Session},
    receiver::{Receiver, ReceiverConfig},
    topology::{ROOT, Topology, Tree},
};
use proptest::prelude::*;
use types::{Channel, ClockReading, FeedSeq, Nanos, NodeId, Op, Outbox, Peer, TracePoint};

const SESSION: Session = *b"FAIRBELL01";
const FEED: Peer = Peer::Addr(9);
const T: u64 = 1_000 * Nanos::SECOND;
const MILLI: u64 = Nanos::MILLI;

struct Bench {
    tree: Tree,
    receiver: Receiver,
    out: Outbox,
}

impl Bench {
    fn new(config: ReceiverConfig) -> Bench {
        let topology = Topology::new(2, 3, 9).unwrap();
        let round_ns = 50 * MILLI;
        let tree = Tree { topology, hedge: 1, dynamic: true, epoch: 1, stream: 0, round_ns };
        let mut receiver = Receiver::new(tree, NodeId(4), config);
        receiver.handle_timeout(at(0), &mut Outbox::default());
        Bench { tree, receiver, out: Outbox::default() }
    }

    /// Gives datagram `id` with messages `seq .. seq + count`; what was released, as
    /// (first message, one past the last), and how.
    fn give(&mut self, now: u64, kind: FrameKind, id: u64, seq: u64, count: u16) -> Released {
        let parent = self.tree.parents(NodeId(4), id).next().unwrap();
        let sender = if kind == FrameKind::Repair { ROOT } else { parent };
        let header = HopHeader::new(kind, sender, 1);
        self.out.clear();
        let (bytes, body) = (packet(seq, count), body(id));
        self.receiver.handle_data(at(now), &header, &body, &bytes, &mut self.out);
        self.released()
    }

    fn data(&mut self, now: u64, id: u64, seq: u64, count: u16) -> Released {
        self.give(now, FrameKind::Data, id, seq, count)
    }

    fn timeout(&mut self, now: u64) -> Released {
        self.out.clear();
        self.receiver.handle_timeout(at(now), &mut self.out);
        self.released()
    }

    fn released(&self) -> Released {
        let feed = self.out.ops().iter().filter_map(|op| match *op {
            Op::Datagram { channel: Channel::FEED, to: FEED, bytes } => {
                let packet = Packet::parse(self.out.bytes(bytes)).unwrap();
                Some((packet.header.seq, packet.end()))
            }
            _ => None,
        });
        feed.collect()
    }

    fn points(&self) -> Vec<TracePoint> {
        self.out.traces().iter().map(|trace| trace.point).collect()
    }

    fn requests(&self) -> Vec<(u64, u32)> {
        let asked = self.out.ops().iter().filter_map(|op| match *op {
            Op::Datagram { channel: Channel::OVERLAY, to: Peer::Node(ROOT), bytes } => {
                let (_, rest) = HopHeader::read(self.out.bytes(bytes)).unwrap();
                let (body, _) = frame::body::<RepairRequestBody>(rest).unwrap();
                Some((body.from.0, body.count))
            }
            _ => None,
        });
        asked.collect()
    }
}

type Released = Vec<(u64, u64)>;

fn at(ns: u64) -> ClockReading {
    ClockReading { now: Nanos(T + ns), bound_ns: 3 }
}

/// Sent at `id` ms, to be released 2 ms and a bound of 10 ns later.
fn body(id: u64) -> DataBody {
    let t_sent = Nanos(T + id * MILLI);
    let deadline = t_sent + 2 * MILLI;
    DataBody { id, t_sent, deadline, bound_ns: 10, stream: 0, hedge: 0, flags: 0 }
}

fn packet(seq: u64, count: u16) -> Vec<u8> {
    let mut bytes = Header { session: SESSION, seq, count }.bytes().to_vec();
    if count < u16::MAX {
        (0..count).for_each(|_| bytes.extend_from_slice(&[0, 1, b'x']));
    }
    bytes
}

fn config() -> ReceiverConfig {
    ReceiverConfig { filter_slots: 64, ..ReceiverConfig::new(SESSION, FEED) }
}

#[test]
fn nothing_leaves_before_the_common_time() {
    let mut bench = Bench::new(config());
    assert!(bench.data(MILLI + 5, 1, 1, 2).is_empty());
    assert!(bench.data(MILLI + 6, 1, 1, 2).is_empty(), "second copy");
    let due = bench.receiver.next_timeout();
    assert_eq!(due, Nanos(T + 3 * MILLI + 10));
    assert!(bench.timeout(3 * MILLI + 9).is_empty());
    assert_eq!(bench.timeout(3 * MILLI + 10), [(1, 3)]);
    assert_eq!(bench.points(), [TracePoint::Released]);
    assert_eq!(bench.receiver.watermark(), FeedSeq(2));
    let stats = bench.receiver.stats();
    assert_eq!((stats.filter.duplicates, stats.hold_ns_sum), (1, 2 * MILLI + 5));
}

#[test]
fn late_and_blocked_are_told_apart() {
    let mut bench = Bench::new(config());
    bench.data(2 * MILLI + 5, 2, 2, 1);
    assert!(bench.timeout(5 * MILLI).is_empty(), "due, but 1 is missing");
    assert_eq!(bench.data(6 * MILLI, 1, 1, 1), [(1, 2), (2, 3)]);
    let expected = [TracePoint::Arrived, TracePoint::ReleasedLate, TracePoint::ReleasedBlocked];
    assert_eq!(bench.points(), expected);
    let stats = bench.receiver.stats();
    assert_eq!((stats.late_self, stats.late_blocked), (1, 1));
    // One that arrives in time and is released by a late timer is neither.
    bench.data(6 * MILLI, 7, 3, 1);
    assert_eq!(bench.timeout(20 * MILLI), [(3, 4)]);
    assert_eq!(bench.points(), [TracePoint::Released]);
}

#[test]
fn gaps_are_asked_for_after_a_wait_and_filled_by_repairs() {
    let mut bench = Bench::new(config());
    bench.data(3 * MILLI, 3, 5, 2);
    let wait = bench.receiver.next_timeout();
    assert_eq!(wait, Nanos(T + 3 * MILLI + 200 * Nanos::MICRO));
    bench.timeout(3 * MILLI + 200 * Nanos::MICRO);
    assert_eq!(bench.requests(), [(1, 4)]);
    bench.timeout(3 * MILLI + 200 * Nanos::MICRO + MILLI);
    assert_eq!(bench.requests(), [(1, 4)], "not answered: again");
    assert_eq!(bench.give(6 * MILLI, FrameKind::Repair, 1, 1, 2), [(1, 3)]);
    assert_eq!(bench.give(6 * MILLI, FrameKind::Repair, 2, 3, 2), [(3, 5), (5, 7)]);
    assert!(bench.data(7 * MILLI, 1, 1, 2).is_empty());
    assert!(!bench.receiver.has_gap());
    let stats = bench.receiver.stats();
    assert_eq!((stats.repairs_requested, stats.repairs_filled, stats.superseded), (2, 2, 1));
}

impl Bench {
    /// The root says that datagram `id`, which begins with message `seq`, is the first it has.
    fn oldest(&mut self, now: u64, sender: NodeId, id: u64, seq: u64) -> Released {
        let header = HopHeader::new(FrameKind::Repair, sender, 1);
        self.out.clear();
        let body = DataBody { flags: DATA_OLDEST, ..body(id) };
        self.receiver.handle_data(at(now), &header, &body, &packet(seq, 0), &mut self.out);
        self.released()
    }
}

#[test]
fn what_the_server_no_longer_has_is_jumped_over_once_it_is_public() {
    let mut bench = Bench::new(config());
    bench.data(MILLI, 1, 1, 2);
    assert_eq!(bench.timeout(4 * MILLI), [(1, 3)]);
    // 3 to 99 are missing; the server has messages from 61 on, in datagram 61.
    bench.data(60 * MILLI, 60, 100, 2);
    bench.timeout(61 * MILLI);
    assert_eq!(bench.requests(), [(3, 97)]);
    assert!(bench.oldest(61 * MILLI, NodeId(1), 40, 90).is_empty());
    assert!(bench.receiver.stats().unexpected == 1, "a proxy has no say in it");
    assert!(bench.oldest(61 * MILLI, ROOT, 61, 61).is_empty(), "its time is not yet");
    assert_eq!(bench.receiver.watermark(), FeedSeq(2));
    assert!(bench.receiver.next_timeout() <= Nanos(T + 63 * MILLI + 10));
    assert!(bench.timeout(63 * MILLI + 9).is_empty());
    bench.timeout(63 * MILLI + 10);
    assert_eq!((bench.receiver.watermark(), bench.receiver.skipped()), (FeedSeq(60), 58));
    // The rest comes by repair, in sequence, and nothing before it is asked for again.
    bench.timeout(70 * MILLI);
    assert!(bench.requests().iter().all(|(from, count)| (*from, *count) == (61, 39)));
    assert_eq!(bench.give(70 * MILLI, FrameKind::Repair, 41, 61, 39), [(61, 100), (100, 102)]);
    assert!(!bench.receiver.has_gap());
    assert!(bench.give(71 * MILLI, FrameKind::Repair, 20, 30, 10).is_empty(), "long over");
    let skip = bench.receiver.stats().skip;
    assert_eq!((skip.messages, skip.jumps, skip.told), (58, 1, 1));
}

#[test]
fn what_is_held_between_two_losses_is_handed_on_and_long_gaps_are_not_repaired() {
    let mut bench = Bench::new(config());
    bench.data(MILLI, 5, 10, 2);
    bench.data(MILLI, 9, 20, 2);
    bench.data(MILLI, 11, 30, 1);
    assert_eq!(bench.oldest(20 * MILLI, ROOT, 10, 25), [(10, 12), (20, 22)]);
    assert_eq!((bench.receiver.watermark(), bench.receiver.skipped()), (FeedSeq(24), 20));
    assert_eq!(bench.give(21 * MILLI, FrameKind::Repair, 10, 25, 5), [(25, 30), (30, 31)]);
    // By its own limit it does not wait for the server at all.
    let mut bench = Bench::new(ReceiverConfig { skip_gap: 50, ..config() });
    bench.data(MILLI, 8, 51, 1);
    assert!(bench.timeout(40 * MILLI).is_empty(), "50 are repaired");
    let mut bench = Bench::new(ReceiverConfig { skip_gap: 50, ..config() });
    bench.data(MILLI, 8, 52, 1);
    assert!(bench.timeout(9 * MILLI).is_empty());
    assert_eq!(bench.timeout(10 * MILLI + 10), [(52, 53)]);
    assert_eq!(bench.receiver.stats().skip.messages, 51);
}

#[test]
fn reordering_lengthens_the_wait() {
    let mut bench = Bench::new(config());
    for pair in 0..40 {
        let (id, now) = (2 * pair + 1, 2 * pair * MILLI);
        bench.data(now, id + 1, id + 1, 1);
        bench.data(now + 900 * Nanos::MICRO, id, id, 1);
    }
    let wait = bench.receiver.gap_wait_ns();
    assert!((1_500 * Nanos::MICRO..2 * MILLI).contains(&wait), "{wait}");
    assert_eq!(bench.receiver.stats().repairs_requested, 0);
}

#[test]
fn heartbeats_reveal_a_lost_tail_and_are_passed_on_in_their_place() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.data(0, 1, 1, 0), [(1, 1)], "nothing before it: passed on");
    assert!(bench.data(MILLI, 3, 4, 0).is_empty() && bench.points().is_empty());
    assert!(bench.data(MILLI, 4, 4, u16::MAX).is_empty());
    bench.timeout(2 * MILLI);
    assert_eq!(bench.requests(), [(1, 3)]);
    assert_eq!(bench.give(9 * MILLI, FrameKind::Repair, 2, 1, 3), [(1, 4), (4, 4)]);
    assert_eq!(bench.data(10 * MILLI, 5, 4, u16::MAX), [(4, 4)], "said again, passed again");
}

#[test]
fn a_deaf_receiver_asks_by_itself() {
    let mut bench = Bench::new(config());
    bench.data(0, 1, 1, 0);
    bench.timeout(350 * MILLI);
    assert_eq!(bench.requests(), [(1, u32::MAX)]);
    bench.give(351 * MILLI, FrameKind::Repair, 2, 1, 3);
    bench.timeout(352 * MILLI);
    assert_eq!(bench.requests(), [(4, u32::MAX)], "keeps asking while answers come");
    bench.data(353 * MILLI, 3, 4, 0);
    bench.timeout(400 * MILLI);
    assert!(bench.requests().is_empty());
}

#[test]
fn one_that_never_heard_anything_asks_too() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.receiver.next_timeout(), Nanos(T + 50 * MILLI), "the next report");
    bench.timeout(349 * MILLI);
    assert!(bench.requests().is_empty());
    bench.timeout(350 * MILLI);
    assert_eq!(bench.requests(), [(1, u32::MAX)]);
}

#[test]
fn overlapping_packets_are_cut_so_that_each_message_leaves_once() {
    let mut bench = Bench::new(config());
    bench.data(0, 1, 1, 3);
    bench.data(0, 2, 1, 2);
    bench.data(0, 3, 2, 5);
    bench.data(0, 4, 5, 2);
    bench.data(0, 5, 7, 1);
    assert_eq!(bench.timeout(500 * MILLI), [(1, 4), (4, 7), (7, 8)]);
    assert_eq!(bench.receiver.stats().released_messages, 7);
}

#[test]
fn a_full_hold_keeps_what_is_needed_first() {
    let mut bench = Bench::new(ReceiverConfig { hold_max: 2, ..config() });
    bench.data(0, 2, 2, 1);
    bench.data(0, 3, 3, 1);
    bench.data(0, 4, 4, 1);
    bench.timeout(MILLI);
    assert_eq!(bench.requests(), [(1, 1)], "no room for 4, so it is not asked for");
    bench.give(5 * MILLI, FrameKind::Repair, 1, 1, 1);
    assert_eq!(bench.receiver.watermark(), FeedSeq(2));
    assert_eq!(bench.receiver.stats().hold_dropped, 2);
    bench.timeout(300 * MILLI);
    assert_eq!(bench.requests(), [(3, 1), (4, 1)]);
}

#[test]
fn unbelievable_input_is_counted() {
    let mut bench = Bench::new(config());
    bench.data(0, 1, u64::MAX - 9, 1);
    let header = HopHeader::new(FrameKind::Repair, NodeId(1), 1);
    bench.receiver.handle_data(at(0), &header, &body(2), &packet(1, 1), &mut bench.out);
    let far = DataBody { deadline: Nanos(u64::MAX), ..body(2) };
    let header = HopHeader::new(FrameKind::Repair, ROOT, 1);
    bench.receiver.handle_data(at(0), &header, &far, &packet(1, 1), &mut bench.out);
    assert_eq!(bench.timeout(Nanos::SECOND), [(1, 2)]);
    let stats = bench.receiver.stats();
    assert_eq!((stats.malformed, stats.unexpected, stats.deadlines_cut), (1, 1, 1));
}

proptest! {
    #[test]
    fn mutated_frames_never_panic(
        frames in prop::collection::vec(
            (0u8..14, 0usize..60, any::<u8>(), 0usize..80, 0u64..40, 0u64..40), 1..60),
    ) {
        let mut bench = Bench::new(ReceiverConfig { hold_max: 4, ..config() });
        for (now, (kind, place, value, cut, id, seq)) in frames.into_iter().enumerate() {
            let mut bytes = Vec::new();
            let header = HopHeader::new(FrameKind::Data, NodeId(1), 1);
            frame::encode(&mut bytes, header, &body(id), &packet(seq, 3));
            bytes[1] = if kind == 0 { 1 } else { kind };
            bytes[16 + place % 40] = value;
            bytes.truncate(cut);
            if let Ok((header, rest)) = HopHeader::read(&bytes) {
                bench.receiver.handle_frame(at(now as u64), &header, rest, &mut bench.out);
            }
            bench.timeout(now as u64);
            prop_assert!(bench.receiver.held() <= 4);
        }
    }
}

#[test]
fn a_receiver_whose_clock_is_too_uncertain_says_so_and_counts_for_nothing() {
    use overlay::frame::DelayBody;
    let config = ReceiverConfig { bound_max_ns: 50_000, ..ReceiverConfig::new(SESSION, FEED) };
    let mut bench = Bench::new(config);
    let mut seen = Vec::new();
    for (round, bound_ns) in [(1u64, 40_000), (2, 50_001), (3, 50_000)] {
        let now = 50 * round * MILLI;
        bench.data(now - MILLI, round, round, 1);
        bench.out.clear();
        let reading = ClockReading { now: Nanos(T + now + 49 * MILLI), bound_ns };
        bench.receiver.handle_timeout(reading, &mut bench.out);
        let mut reports = bench.out.ops().iter().filter_map(|op| match *op {
            Op::Datagram { channel: Channel::OVERLAY, bytes, .. } => {
                let (header, rest) = HopHeader::read(bench.out.bytes(bytes)).ok()?;
                (header.kind == FrameKind::Delay).then(|| frame::body::<DelayBody>(rest).unwrap().0)
            }
            _ => None,
        });
        let body = reports.next_back().expect("a report each round");
        seen.push((body.owd_ns > 0, body.bound_ns, body.receivers));
        assert_eq!(bench.receiver.in_quarantine(reading), bound_ns > 50_000);
    }
    assert_eq!(seen, [(true, 40_000, 1), (false, 0, 1), (true, 50_000, 1)]);
    assert_eq!(bench.receiver.stats().quarantined, 1);
}
