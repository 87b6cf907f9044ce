//! Messages of captured packets in the order of their numbers, each once: each session is a line of its own for
//! [`feed::Arbiter`], whose sides (A and B) are not told apart here.

use std::collections::BTreeMap;

use backtest::{ItchReader, ReadError, Recording};
use feed::{Arbiter, ArbiterConfig, Delivery, LineSink, Notice};
use types::Nanos;
use wire::moldudp::Packet;

/// How long packets behind a gap wait for what may only be late, by the times of the capture.
const WAIT: Nanos = Nanos(Nanos::SECOND);
/// Packets of a session that wait at one time.
const HELD_MAX: usize = 65_536;

/// Puts messages in order and hands them to a reader.
pub struct Sequence {
    /// By session.
    lines: BTreeMap<[u8; 10], Arbiter>,
    /// When the next wait of a session is over; [`Nanos::NEVER`]: none waits.
    due: Nanos,
    played: Played,
}

/// What has its turn.
struct Played {
    reader: ItchReader,
    /// Messages that never came, or too late.
    lost: u64,
    /// Messages that are none of ITCH 5.0.
    refused: u64,
    /// Why nothing more is played.
    failed: Option<ReadError>,
}

impl LineSink for Played {
    fn deliver(&mut self, delivery: Delivery<'_>) {
        // Held as it was parsed before; a heartbeat has nothing to play.
        let Ok(packet) = Packet::parse(delivery.bytes) else { return };
        for message in packet.messages().skip(delivery.skip as usize) {
            if self.failed.is_some() {
                return;
            }
            match self.reader.take(message) {
                Ok(()) => {}
                Err(ReadError::Message(_)) => self.refused += 1,
                Err(error) => self.failed = Some(error),
            }
        }
    }

    fn notice(&mut self, notice: Notice) {
        if let Notice::Gap { from, until } = notice {
            self.lost = self.lost.saturating_add(until - from);
        }
    }
}

impl Sequence {
    /// Nothing yet.
    pub fn new(reader: ItchReader) -> Sequence {
        let played = Played { reader, lost: 0, refused: 0, failed: None };
        Sequence { lines: BTreeMap::new(), due: Nanos::NEVER, played }
    }

    /// Takes a datagram that was captured at `time`; one that is no MoldUDP64 packet is passed over.
    ///
    /// # Errors
    /// The recording is full.
    pub fn datagram(&mut self, time: Nanos, bytes: &[u8]) -> Result<(), ReadError> {
        let Ok(packet) = Packet::parse(bytes) else { return Ok(()) };
        let session = packet.session().0;
        if !self.lines.contains_key(&session) {
            // What is missing of a session when another one begins does not come any more.
            self.poll(Nanos::NEVER);
        } else if time >= self.due {
            self.poll(time);
        }
        let config = ArbiterConfig { wait: WAIT, held_max: HELD_MAX, ..ArbiterConfig::default() };
        let line = self.lines.entry(session).or_insert_with(|| Arbiter::new(config));
        line.packet(time, 0, (packet.seq(), packet.count().into()), bytes, &mut self.played);
        self.due = self.due.min(line.next_timeout().unwrap_or(Nanos::NEVER));
        self.played.failed.take().map_or(Ok(()), Err)
    }

    /// Gives up what has been waited for long enough.
    fn poll(&mut self, now: Nanos) {
        if self.due == Nanos::NEVER {
            return;
        }
        self.due = Nanos::NEVER;
        for line in self.lines.values_mut() {
            line.poll(now, &mut self.played);
            self.due = self.due.min(line.next_timeout().unwrap_or(Nanos::NEVER));
        }
    }

    /// The recording, how many messages were missing, also at the ends of sessions, and how many are
    /// none of ITCH 5.0.
    ///
    /// # Errors
    /// The recording is full.
    pub fn finish(mut self) -> Result<(Recording, u64, u64), ReadError> {
        self.poll(Nanos::NEVER);
        let Played { reader, lost, refused, failed } = self.played;
        failed.map_or_else(|| Ok((reader.finish(), lost, refused)), Err)
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
            sequence.datagram(Nanos(*time), bytes).expect("room");
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
