//! What can only be seen while the exchange runs, from outside and with true time at hand.
//!
//! The watch reads every datagram and every stream byte as it is sent, and trusts no node: what is
//! public, when, and what it says come from the root's own frames; what was handed on and what
//! clients were told from the bytes that edges send. From that it checks the order and the time of
//! releases and that no execution precedes its tick, and notes the digest of the feed's bytes.

use std::collections::BTreeMap;

use feed::StreamDigest;
use overlay::frame::{self, DataBody, FrameKind, HopHeader};
use types::{Channel, ConnId, Nanos};
use wire::{
    itch::{self, Message},
    moldudp::Packet,
    ouch::{self, Outbound},
    soupbin::{Framer, SERVER_PACKET_MAX, ServerPacket},
};

use super::report::{Checker, Failures};
use crate::{clock::SimClock, world::Sent, world::Written};

/// One datagram of market data as the root published it.
#[derive(Clone, Copy)]
struct Published {
    seq: u64,
    end: u64,
    deadline: Nanos,
    bound_ns: u64,
}

/// What an edge has done so far.
struct Edge {
    clock: SimClock,
    /// The next message to be handed on.
    next: u64,
}

/// The watch over one run.
pub struct Watch {
    root: usize,
    edges: BTreeMap<usize, Edge>,
    last_id: u64,
    published: Vec<Published>,
    stream: StreamDigest,
    /// Feed position of the first message that prints each trade, by match number.
    prints: BTreeMap<u64, u64>,
    /// Feed position of each uncrossing, by its number, which follows those of its trades.
    crosses: BTreeMap<u64, u64>,
    last_match: u64,
    sessions: BTreeMap<(usize, ConnId), Framer>,
    /// Executions that were sent to clients after their tick.
    pub executions: u64,
    /// Order frames that edges sent again.
    pub resends: u64,
    /// Repair frames that the root sent.
    pub repairs: u64,
    /// What does not hold.
    pub failures: Failures,
}

impl Watch {
    /// Watches the root and the edges, given by node index and clock.
    pub fn new(root: usize, edges: impl IntoIterator<Item = (usize, SimClock)>) -> Watch {
        let edge = |(index, clock)| (index, Edge { clock, next: 1 });
        Watch {
            root,
            edges: edges.into_iter().map(edge).collect(),
            last_id: 0,
            published: Vec::new(),
            stream: StreamDigest::default(),
            prints: BTreeMap::new(),
            crosses: BTreeMap::new(),
            last_match: 0,
            sessions: BTreeMap::new(),
            executions: 0,
            resends: 0,
            repairs: 0,
            failures: Failures::default(),
        }
    }

    /// Digest of all messages published, and the number after the last one.
    pub fn published(&self) -> (u64, u64) {
        (self.stream.value(), self.published.last().map_or(1, |last| last.end))
    }

    /// Trades that were printed one by one: all but those of an auction between two orders of
    /// which nothing was displayed.
    pub fn prints(&self) -> u64 {
        self.prints.len() as u64
    }

    /// Uncrossings that traded.
    pub fn crosses(&self) -> u64 {
        self.crosses.len() as u64
    }

    /// Where the feed tells of a trade: by itself, or with the uncrossing it was part of.
    fn tick_of(&self, number: u64) -> Option<u64> {
        let own = self.prints.get(&number);
        own.or_else(|| self.crosses.range(number..).next().map(|(_, at)| at)).copied()
    }

    /// A datagram is sent.
    pub fn datagram(&mut self, sent: &Sent<'_>) {
        if sent.channel == Channel::OVERLAY {
            self.frame(sent);
        } else if sent.channel == Channel::FEED && self.edges.contains_key(&sent.from) {
            self.released(sent);
        }
    }

    fn frame(&mut self, sent: &Sent<'_>) {
        let Ok((header, rest)) = HopHeader::read(sent.bytes) else {
            let (from, at) = (sent.from, sent.at);
            self.failures.add(Checker::Sound, || format!("node {from} sent no frame at {at:?}"));
            return;
        };
        let from_root = sent.from == self.root;
        match header.kind {
            FrameKind::Data if from_root => self.publish(rest),
            FrameKind::Repair if from_root => self.repairs += 1,
            FrameKind::Order if header.attempt > 0 && self.edges.contains_key(&sent.from) => {
                self.resends += 1;
            }
            _ => {}
        }
    }

    /// Takes in a datagram of the root; it comes once per child, the first one counts.
    fn publish(&mut self, rest: &[u8]) {
        let Ok((body, packet)) = frame::body::<DataBody>(rest) else { return };
        let Ok(packet) = Packet::parse(packet) else {
            self.failures.add(Checker::Sound, || "the root published no packet".to_string());
            return;
        };
        if body.id <= self.last_id {
            return;
        }
        self.last_id = body.id;
        if packet.is_heartbeat() || packet.is_end_of_session() {
            return;
        }
        let (seq, end) = (packet.seq(), packet.next_seq());
        let due = self.published().1;
        self.failures.check(Checker::FeedEqual, seq == due, || {
            format!("published message {seq} when {due} was due")
        });
        let bound_ns = u64::from(body.bound_ns);
        self.published.push(Published { seq, end, deadline: body.deadline, bound_ns });
        for (position, message) in (seq..).zip(packet.messages()) {
            self.stream.push(message);
            match itch::parse(message) {
                Ok(Message::OrderExecuted(m)) => self.print(position, m.match_number.get(), false),
                Ok(Message::Trade(m)) => self.print(position, m.match_number.get(), false),
                Ok(Message::OrderExecutedWithPrice(m)) => {
                    self.print(position, m.match_number.get(), true);
                }
                Ok(Message::CrossTrade(m)) => {
                    self.print(position, m.match_number.get(), false);
                    let number = m.match_number.get();
                    self.prints.remove(&number);
                    self.crosses.insert(number, position);
                }
                Ok(_) => {}
                Err(error) => {
                    self.failures.add(Checker::Sound, || format!("message {position}: {error:?}"));
                }
            }
        }
    }

    /// A message prints trade `number`; both orders of an auction trade may print it.
    fn print(&mut self, position: u64, number: u64, twice: bool) {
        let last = self.last_match;
        let follows = number > last || twice && number == last;
        self.failures.check(Checker::Sound, follows, || {
            format!("message {position} prints trade {number} after {last}")
        });
        self.last_match = number.max(last);
        self.prints.entry(number).or_insert(position);
    }

    /// An edge hands on a packet.
    fn released(&mut self, sent: &Sent<'_>) {
        let Some(edge) = self.edges.get_mut(&sent.from) else { return };
        let (from, at) = (sent.from, sent.at);
        let Ok(packet) = Packet::parse(sent.bytes) else {
            self.failures.add(Checker::Sound, || format!("edge {from} released no packet"));
            return;
        };
        let (seq, next) = (packet.seq(), edge.next);
        self.failures.check(Checker::ReleaseOrder, seq == next, || {
            format!("edge {from} released message {seq} when {next} was due, at {}", at.0)
        });
        if packet.is_heartbeat() || packet.is_end_of_session() {
            return;
        }
        edge.next = packet.next_seq().max(next);
        let reading = edge.clock.read(at).now;
        let place = self.published.partition_point(|published| published.end <= seq);
        let Some(published) = self.published.get(place) else {
            self.failures.add(Checker::ReleaseOrder, || {
                format!("edge {from} released message {seq}, which was not published")
            });
            return;
        };
        let due = published.deadline.after(published.bound_ns);
        let stamped = published.deadline != Nanos(0) && published.seq <= seq;
        self.failures.check(Checker::ReleaseDeadline, !stamped || reading >= due, || {
            let early = due.since(reading);
            format!("edge {from} released message {seq} {early} ns early by its own clock")
        });
    }

    /// A node writes to a stream.
    pub fn stream(&mut self, written: &Written<'_>) {
        let from = written.from;
        if !self.edges.contains_key(&from) {
            return;
        }
        let key = (from, written.conn);
        let fresh = || Framer::new(SERVER_PACKET_MAX);
        let mut framer = self.sessions.remove(&key).unwrap_or_else(fresh);
        let mut input = written.bytes;
        while let Ok(Some(frame)) = framer.next(&mut input) {
            let Ok(ServerPacket::Sequenced(message)) = ServerPacket::parse(frame) else { continue };
            let Ok(Outbound::OrderExecuted(executed, _)) = ouch::parse_outbound(message) else {
                continue;
            };
            let number = executed.match_number.get();
            let print = self.tick_of(number);
            let next = self.edges.get(&from).map_or(0, |edge| edge.next);
            let public = print.is_some_and(|position| position < next);
            self.executions += u64::from(public);
            self.failures.check(Checker::TickFirst, public, || {
                format!("edge {from} told of trade {number} (at {print:?}) before message {next}")
            });
        }
        self.sessions.insert(key, framer);
    }
}
