//! The feed of a venue of ours as lines of the plant: every session of MoldUDP64 heard from two edges,
//! A and B, made one, its books kept, its ticks told.
//!
//! Of each packet the first copy is taken, whichever side brings it. What both lack is asked for at the
//! retransmission servers once the other side has had its time, and a plant that starts in the middle
//! of the day, or falls too far behind, joins by a snapshot: see [`crate::Listener`], which does all of
//! that. Here the sides are told apart by where their packets come from, and watched. Books never go on
//! behind a gap: a line either has every message, or the books of a snapshot and a report of what it
//! never heard.

use types::{Channel, ClockReading, ConnId, InstrumentId, Nanos, Node, Outbox, Peer};
use wire::moldudp::Session;

use super::update::{Kind, Update};
use crate::arbiter::{Notice, SIDES, SideStats};
use crate::catch_up::CatchUpCounters;
use crate::listener::{Joined, ListenerConfig, ListenerCounters};
use crate::sides::Sides;
use crate::subscriber::Subscriber;

/// Figures about one session of the feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamHealth {
    /// Name of the session.
    pub session: Session,
    /// Number of the next message.
    pub next: u64,
    /// What the session's listener has counted.
    pub counters: ListenerCounters,
    /// What the session's snapshot client has counted.
    pub catch_up: CatchUpCounters,
    /// Where the listener joined by snapshots; `None`: it heard everything.
    pub joined: Option<Joined>,
    /// Figures about each side.
    pub sides: [SideStats; SIDES],
    /// Whether neither side is heard.
    pub stale: bool,
    /// Whether the session has ended, and all of it was taken.
    pub ended: bool,
}

#[derive(Debug)]
struct Line {
    sides: Sides,
    heard: Nanos,
    stale: bool,
}

/// The sessions of a venue's feed as lines of the plant, one for each.
#[derive(Debug)]
pub struct VenueFeed {
    subscriber: Subscriber,
    lines: Vec<Line>,
    /// Address that each side comes from; `None`: nowhere.
    sources: [Option<Peer>; SIDES],
    /// Silence of a side after which it counts as dead, ns.
    silent: Nanos,
    /// Silence of all sides after which prices of a line count as stale, ns.
    quiet: Nanos,
    updates: Vec<Update>,
}

/// Session, number and count of a packet, without a look at its messages; a count of 0xFFFF says that
/// the session ends.
fn head(bytes: &[u8]) -> Option<(&[u8; 10], u64, u32)> {
    let (session, rest) = bytes.split_first_chunk::<10>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let count = u16::from_be_bytes(*rest.first_chunk()?);
    let count = if count == u16::MAX { 0 } else { count.into() };
    Some((session, u64::from_be_bytes(*number), count))
}

impl VenueFeed {
    /// Follows these sessions, 16 at most, as `settings` say; nobody is heard before
    /// [`VenueFeed::set_side`]. A side is dead after `silent`, a line stale after `quiet`.
    pub fn new(
        settings: &ListenerConfig,
        sessions: impl IntoIterator<Item = (Session, Vec<InstrumentId>)>,
        (silent, quiet): (Nanos, Nanos),
        now: Nanos,
    ) -> VenueFeed {
        let settings = ListenerConfig { sources: Some(Vec::new()), ..settings.clone() };
        let mut subscriber = Subscriber::new(&settings, sessions);
        subscriber.tell_ticks();
        let line = |_| Line { sides: Sides::new(), heard: now, stale: false };
        VenueFeed {
            lines: subscriber.channels().iter().map(line).collect(),
            subscriber,
            sources: [None; SIDES],
            silent,
            quiet,
            updates: Vec::new(),
        }
    }

    /// From now on side 0 (A) or 1 (B) comes from there; from nowhere with `None`.
    pub fn set_side(&mut self, side: usize, source: Option<Peer>) {
        if let Some(place) = self.sources.get_mut(side) {
            *place = source;
        }
        self.subscriber.set_sources(self.sources.iter().flatten().copied().collect());
    }

    /// The listeners of all sessions, with their books.
    pub fn subscriber(&self) -> &Subscriber {
        &self.subscriber
    }

    /// Moves the updates that are new to the end of `to`.
    pub fn take_updates(&mut self, to: &mut Vec<Update>) {
        to.append(&mut self.updates);
    }

    /// Figures about each session.
    pub fn health(&self) -> Vec<StreamHealth> {
        let one = |(line, client): (&Line, &crate::Listener)| StreamHealth {
            session: client.session(),
            next: client.next_seq().0,
            counters: client.counters(),
            catch_up: client.catch_up(),
            joined: client.joined(),
            sides: [0, 1].map(|side| line.sides.stats(side)),
            stale: line.stale,
            ended: client.ended(),
        };
        self.lines.iter().zip(self.subscriber.channels()).map(one).collect()
    }

    /// Notes which side brought a packet before it is taken.
    fn note(&mut self, now: Nanos, from: Peer, bytes: &[u8]) {
        let Some(side) = self.sources.iter().position(|source| *source == Some(from)) else {
            return;
        };
        let Some((session, first, count)) = head(bytes) else { return };
        let Some(place) = self.subscriber.place(session) else { return };
        let (Some(line), Some(client)) =
            (self.lines.get_mut(place), self.subscriber.channels().get(place))
        else {
            return;
        };
        // What is of a session that is not counted yet says only that the side lives.
        let first = client.position(Session(*session), first);
        let next = client.next_seq().0;
        let (number, updates) = (place as u8, &mut self.updates);
        line.heard = now;
        if std::mem::take(&mut line.stale) {
            updates.push(Update::of_line(Kind::Fresh, number, now));
        }
        let mut tell = |notice| updates.extend(of_side(notice, number, now));
        match first {
            Some(first) => line.sides.hear(now, side, (first, count), &mut tell),
            None => line.sides.lives(now, side, &mut tell),
        }
        line.sides.watch(self.silent, &mut tell);
        if let Some(first) = first.filter(|_| count > 0) {
            let old = first.saturating_add(count.into()) <= next;
            match old || line.sides.knows(first) {
                true => line.sides.second(now, side, first),
                false => line.sides.first(now, side, first),
            }
        }
    }

    /// When a line becomes stale next, if nothing is heard until then.
    fn stale_at(&self) -> Nanos {
        let fresh = self.lines.iter().filter(|line| !line.stale);
        let at = fresh.map(|line| line.heard.after(self.quiet.0.saturating_add(1))).min();
        at.unwrap_or(Nanos::NEVER)
    }

    fn watch(&mut self, now: Nanos) {
        for (number, line) in (0..).zip(&mut self.lines) {
            if !line.stale && now.0.saturating_sub(line.heard.0) > self.quiet.0 {
                line.stale = true;
                self.updates.push(Update::of_line(Kind::Stale, number, now));
            }
        }
    }
}

fn of_side(notice: Notice, line: u8, now: Nanos) -> Option<Update> {
    let about = |kind, side| Update { participant: side as u8, ..Update::of_line(kind, line, now) };
    match notice {
        Notice::Stale { side } => Some(about(Kind::SideDead, side)),
        Notice::Alive { side } => Some(about(Kind::SideAlive, side)),
        Notice::Request { .. } | Notice::Gap { .. } => None,
    }
}

impl Node for VenueFeed {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.note(now.now, from, bytes);
        // Whatever socket it came by.
        self.subscriber.handle_datagram(now, Channel::FEED, from, bytes, out);
        self.subscriber.take_ticks(&mut self.updates);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.watch(now.now);
        self.subscriber.handle_timeout(now, out);
        self.subscriber.take_ticks(&mut self.updates);
    }

    fn next_timeout(&self) -> Nanos {
        self.subscriber.next_timeout().min(self.stale_at())
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.subscriber.handle_connect(now, conn, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.subscriber.handle_stream(now, conn, bytes, out);
        self.subscriber.take_ticks(&mut self.updates);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.subscriber.handle_close(now, conn, out);
    }
}
