//! From one day's session to the next, on a network that loses what says so.

use std::collections::BTreeSet;

use feed::{Listener, ListenerConfig, StreamDigest};
use types::{
    Channel, ClockReading, FeedSeq, Nanos, Node, Op, Outbox, Peer, SplitMix64, later_session,
};
use wire::moldudp::{self, PacketBuilder, Request, Session};

use crate::common::{Stream, ids};

const FIRST: Session = Session(*b"FAIRBELL01");
const SERVER: Peer = Peer::Addr(7);
const RECEIVER: Peer = Peer::Addr(8);

fn at(now: u64) -> ClockReading {
    ClockReading { now: Nanos(now), bound_ns: 0 }
}

fn session(day: usize) -> Session {
    Session(later_session(FIRST.0, day as u16))
}

fn packet(day: usize, seq: u64, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut builder = PacketBuilder::new(session(day), seq, 1_392);
    assert!(messages.iter().all(|message| builder.push(message)));
    builder.bytes().to_vec()
}

fn end(day: usize, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    moldudp::encode_end_of_session(session(day), messages.len() as u64 + 1, &mut bytes);
    bytes
}

/// What the retransmission server says; it keeps days from `kept` on.
fn answer(days: &[Vec<Vec<u8>>], kept: usize, request: &Request) -> Option<Vec<u8>> {
    let day = (0..days.len()).find(|day| session(*day) == request.session)?;
    let messages = days.get(day)?;
    let over = day + 1 < days.len();
    if over && (day < kept || request.seq > messages.len() as u64) {
        return Some(end(day, messages));
    }
    let from = usize::try_from(request.seq).ok()?.checked_sub(1)?;
    let until = (from + usize::from(request.count)).min(messages.len()).min(from + 20);
    let some = messages.get(from..until).filter(|some| !some.is_empty())?;
    Some(packet(day, request.seq, some))
}

struct World {
    days: Vec<Vec<Vec<u8>>>,
    kept: usize,
    loss_permille: u64,
    rng: SplitMix64,
    listener: Listener,
    now: u64,
}

impl World {
    fn new(seed: u64, days: usize) -> World {
        let day = |n: usize| {
            let mut stream = Stream::new(seed + n as u64);
            (0..200).for_each(|_| stream.step());
            stream.messages
        };
        World {
            days: (0..days).map(day).collect(),
            kept: 0,
            loss_permille: 200,
            rng: SplitMix64::new(seed),
            listener: Listener::new(ListenerConfig::new(FIRST, vec![SERVER], ids())),
            now: 1,
        }
    }

    /// A packet of the receiver, and everything that follows from it.
    fn hand_on(&mut self, bytes: &[u8]) {
        let mut out = Outbox::default();
        self.now += 1_000_000;
        if self.rng.below(1_000) >= self.loss_permille {
            self.listener.handle_datagram(at(self.now), Channel::FEED, RECEIVER, bytes, &mut out);
        }
        self.settle(out, 3);
    }

    /// Requests and answers, for so many rounds at most.
    fn settle(&mut self, mut out: Outbox, rounds: u32) {
        for _ in 0..rounds {
            let asked: Vec<Vec<u8>> = out
                .ops()
                .iter()
                .filter_map(|op| match op {
                    Op::Datagram { to: SERVER, bytes, .. } => Some(out.bytes(*bytes).to_vec()),
                    _ => None,
                })
                .collect();
            out.clear();
            for request in asked {
                let request = Request::parse(&request[..moldudp::HEADER_LEN]).expect("a request");
                let lost = self.rng.below(1_000) < self.loss_permille;
                let answer = answer(&self.days, self.kept, &request).filter(|_| !lost);
                if let Some(answer) = answer {
                    let (channel, now) = (Channel::FEED, at(self.now));
                    self.listener.handle_datagram(now, channel, SERVER, &answer, &mut out);
                }
            }
            if self.listener.next_timeout().0 <= self.now {
                self.listener.handle_timeout(at(self.now), &mut out);
            }
        }
    }

    fn play_from(&mut self, first: usize, says_end: bool) {
        for day in first..self.days.len() {
            let messages = self.days[day].clone();
            for (place, some) in messages.chunks(7).enumerate() {
                self.hand_on(&packet(day, place as u64 * 7 + 1, some));
            }
            if says_end && day + 1 < self.days.len() {
                self.hand_on(&end(day, &messages));
            }
        }
        let last = self.days.len() - 1;
        for _ in 0..400 {
            self.loss_permille = 0;
            let mut heartbeat = Vec::new();
            let next = self.days[last].len() as u64 + 1;
            moldudp::encode_heartbeat(session(last), next, &mut heartbeat);
            self.hand_on(&heartbeat);
        }
    }
}

#[test]
fn every_message_of_every_day_is_heard_once_whatever_is_lost() {
    for seed in 0..30 {
        for says_end in [true, false] {
            let mut world = World::new(seed, 4);
            world.play_from(0, says_end);
            let listener = &world.listener;
            let all: usize = world.days.iter().map(Vec::len).sum();
            assert_eq!(listener.next_seq(), FeedSeq(all as u64 + 1), "seed {seed} {says_end}");
            assert_eq!(listener.counters().messages, all as u64, "seed {seed}: each once");
            assert_eq!((listener.session(), listener.first_session()), (session(3), FIRST));
            assert_eq!(listener.session_next().0, world.days[3].len() as u64 + 1);
            let mut digest = StreamDigest::default();
            world.days.iter().flatten().for_each(|message| digest.push(message));
            assert_eq!(listener.stream_digest(), digest.value(), "seed {seed}: to the last byte");
            assert_eq!((listener.first_error(), listener.joined()), (None, None), "seed {seed}");
        }
    }
}

/// Who comes on the fourth day with the first day's name, when no message of before is kept, begins with
/// the fourth day.
#[test]
fn who_comes_days_later_begins_with_the_day_that_there_is() {
    for seed in 0..10 {
        let mut world = World::new(seed, 4);
        world.kept = 3;
        world.play_from(3, true);
        let listener = &world.listener;
        assert_eq!(listener.session(), session(3), "seed {seed}");
        assert_eq!(listener.session_next().0, world.days[3].len() as u64 + 1, "seed {seed}");
        assert!(listener.joined().is_some_and(|joined| joined.times > 0));
        assert_eq!(listener.counters().messages, world.days[3].len() as u64);
        assert_eq!(listener.first_error(), None, "seed {seed}");
    }
}

/// A name that was damaged on its way sends nobody to another session.
#[test]
fn one_packet_of_a_later_name_changes_nothing() {
    let mut world = World::new(5, 1);
    world.loss_permille = 0;
    let messages = world.days[0].clone();
    world.hand_on(&packet(0, 1, &messages[..7]));
    let names: BTreeSet<usize> = (1..40).collect();
    for day in names {
        world.hand_on(&packet(day, 1, &messages[..7]));
    }
    assert_eq!(world.listener.counters().other_session, 39);
    world.hand_on(&packet(0, 8, &messages[7..14]));
    assert_eq!((world.listener.next_seq(), world.listener.counters().requests), (FeedSeq(15), 0));
}
