//! Messages of captured packets in the order of their numbers, each once. What A and B lines of one
//! session both carry counts once; what comes behind a gap waits a while for what may only be late.

use std::collections::{BTreeMap, BTreeSet};

use backtest::{ItchReader, ReadError, Recording};
use types::Nanos;
use wire::moldudp::Packet;

/// Messages of a session that wait behind a gap, at most.
const HELD_MAX: usize = 65_536;
/// How long they wait at most, by the times of the capture.
const WAIT: Nanos = Nanos(Nanos::SECOND);

/// One session.
#[derive(Default)]
struct Line<'a> {
    /// Number of the next message to play.
    next: u64,
    /// Number behind the highest one that was told of, also by heartbeats.
    known: u64,
    /// Messages behind a gap.
    held: BTreeMap<u64, &'a [u8]>,
    /// When the gap showed.
    since: Nanos,
}

/// Puts messages in order and hands them to a reader.
pub struct Sequence<'a> {
    reader: ItchReader,
    /// By session.
    lines: BTreeMap<[u8; 10], Line<'a>>,
    /// Sessions that hold messages.
    waiting: BTreeSet<[u8; 10]>,
    /// Messages that never came, or more than [`WAIT`] late.
    lost: u64,
    /// Messages that are none of ITCH 5.0.
    refused: u64,
}

/// Hands a message over; how many were refused.
fn refused(reader: &mut ItchReader, message: &[u8]) -> Result<u64, ReadError> {
    match reader.take(message) {
        Err(ReadError::Message(_)) => Ok(1),
        other => other.map(|()| 0),
    }
}

impl<'a> Sequence<'a> {
    /// Nothing yet.
    pub fn new(reader: ItchReader) -> Sequence<'a> {
        let (lines, waiting) = (BTreeMap::new(), BTreeSet::new());
        Sequence { reader, lines, waiting, lost: 0, refused: 0 }
    }

    /// Takes a packet that was captured at `time`.
    ///
    /// # Errors
    /// The recording is full.
    pub fn packet(&mut self, time: Nanos, packet: &Packet<'a>) -> Result<(), ReadError> {
        let (session, first) = (packet.session().0, packet.seq());
        let is_new = !self.lines.contains_key(&session);
        let late = |line: &Line<'_>| time.0.saturating_sub(line.since.0) > WAIT.0;
        let due = |name: &[u8; 10]| is_new || self.lines.get(name).is_none_or(late);
        // What is missing of a session when another one begins does not come any more.
        let due: Vec<[u8; 10]> = self.waiting.iter().filter(|name| due(name)).copied().collect();
        for name in due {
            while self.skip(name)? {}
        }
        let line = self.lines.entry(session).or_insert_with(|| Line {
            next: first,
            known: first,
            ..Line::default()
        });
        let behind = first.saturating_add(packet.count().into());
        line.known = line.known.max(behind);
        let mut number = first;
        for message in packet.messages() {
            if number == line.next && line.held.is_empty() {
                line.next = line.next.saturating_add(1);
                self.refused += refused(&mut self.reader, message)?;
            } else if number >= line.next {
                if line.held.is_empty() {
                    line.since = time;
                }
                line.held.entry(number).or_insert(message);
            }
            number = number.saturating_add(1);
        }
        let full = line.held.len() > HELD_MAX;
        self.play(session)?;
        if full {
            self.skip(session)?;
        }
        Ok(())
    }

    /// Plays what has its turn.
    fn play(&mut self, session: [u8; 10]) -> Result<(), ReadError> {
        let Some(line) = self.lines.get_mut(&session) else { return Ok(()) };
        while let Some(message) = line.held.remove(&line.next) {
            line.next = line.next.saturating_add(1);
            self.refused += refused(&mut self.reader, message)?;
        }
        match line.held.is_empty() {
            true => self.waiting.remove(&session),
            false => self.waiting.insert(session),
        };
        Ok(())
    }

    /// Gives up what is missing before the first message held, and plays on; whether there was one.
    fn skip(&mut self, session: [u8; 10]) -> Result<bool, ReadError> {
        let line = self.lines.get_mut(&session);
        let Some((line, first)) = line.and_then(|line| {
            let first = *line.held.first_key_value()?.0;
            Some((line, first))
        }) else {
            return Ok(false);
        };
        self.lost = self.lost.saturating_add(first.saturating_sub(line.next));
        line.next = first;
        self.play(session)?;
        Ok(true)
    }

    /// The recording, how many messages were missing, also at the ends of sessions, and how many are
    /// none of ITCH 5.0.
    ///
    /// # Errors
    /// The recording is full.
    pub fn finish(mut self) -> Result<(Recording, u64, u64), ReadError> {
        for name in self.waiting.clone() {
            while self.skip(name)? {}
        }
        let open = |line: &Line<'_>| line.known.saturating_sub(line.next);
        let open = self.lines.values().map(open).fold(0, u64::saturating_add);
        Ok((self.reader.finish(), self.lost.saturating_add(open), self.refused))
    }
}

#[cfg(test)]
mod tests {
    use wire::moldudp::{PacketBuilder, Session, encode_heartbeat};

    use super::*;

    const SESSION: Session = Session(*b"RECORDED01");

    /// Packets of two messages each from these numbers on; 0 messages: a heartbeat.
    fn lost(packets: &[(u64, u64, usize)]) -> (u64, u64) {
        let bytes: Vec<(u64, Vec<u8>)> = packets
            .iter()
            .map(|&(time, first, count)| {
                let mut builder = PacketBuilder::new(SESSION, first, 400);
                // Of no kind that there is: each one that is played is counted.
                (0..count).for_each(|_| assert!(builder.push(b"~~")));
                let mut bytes = builder.bytes().to_vec();
                if count == 0 {
                    bytes.clear();
                    encode_heartbeat(SESSION, first, &mut bytes);
                }
                (time, bytes)
            })
            .collect();
        let mut sequence = Sequence::new(ItchReader::new(Vec::new(), 100));
        for (time, bytes) in &bytes {
            let packet = Packet::parse(bytes).expect("a packet");
            sequence.packet(Nanos(*time), &packet).expect("room");
        }
        let (_, lost, refused) = sequence.finish().expect("room");
        (lost, refused)
    }

    #[test]
    fn a_gap_counts_once_however_often_heartbeats_show_it() {
        assert_eq!(lost(&[(1, 1, 2), (2, 8, 0), (3, 8, 0), (4, 8, 0)]), (5, 2));
        assert_eq!(lost(&[(1, 1, 2), (2, 8, 0), (3, 8, 2), (4, 10, 0), (5, 11, 0)]), (6, 4));
        // The first packet may be any one, and a heartbeat.
        assert_eq!(lost(&[(1, 9, 0), (2, 9, 2), (3, 11, 0)]), (0, 2));
    }

    #[test]
    fn what_is_late_or_comes_twice_is_not_missing() {
        assert_eq!(lost(&[(1, 1, 2), (2, 5, 2), (3, 7, 0), (4, 3, 2), (5, 7, 2)]), (0, 8));
        assert_eq!(lost(&[(1, 1, 2), (2, 1, 2), (3, 2, 2), (4, 3, 1)]), (0, 3));
        // Too late to be played in its place.
        let second = Nanos::SECOND;
        assert_eq!(lost(&[(1, 1, 2), (2, 5, 2), (3 + second, 7, 2), (4 + second, 3, 2)]), (2, 6));
        // The highest numbers that there are.
        assert_eq!(lost(&[(1, 1, 2), (2, u64::MAX - 2, 2)]), (u64::MAX - 5, 4));
    }
}
