//! The two ends of a measurement of transports: nodes like any other, on the exchange's own loop.
//!
//! A message is its number and filling. The caller keeps at most a window of messages under way to
//! each receiver: one for a ping-pong, many for a rate. Receivers answer every message, or tell
//! every so often how many have come.

use overlay::aes_gcm::AesGcm;
use overlay::seal::{Origin, Sealer, open_body, open_hop};
use telemetry::Recorder;
use types::{Channel, ClockReading, ConnId, Nanos, Node, NodeId, Outbox, Peer};

/// Messages under way to a receiver while the rate is measured.
const WINDOW: u64 = 512;
/// A receiver tells how many have come after so many.
const TOLD_EVERY: u64 = 64;
/// Nothing heard for so long: what is under way is lost.
const STALL: Nanos = Nanos(20 * Nanos::MILLI);
/// Messages sent to a receiver in a row.
const BURST: u64 = 32;
/// Longest message with its sealing.
const LENGTH_MAX: usize = types::limits::DATAGRAM_MAX;

/// What carries messages.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams in clear
    Udp,
    /// Datagrams sealed as between nodes of the exchange
    Sealed,
    /// A TCP connection
    Tcp,
    /// TLS 1.3 over TCP
    Tls,
}

impl Transport {
    /// Whether messages go by a stream.
    pub fn is_stream(self) -> bool {
        matches!(self, Transport::Tcp | Transport::Tls)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Sealed => "sealed",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What carries.
    pub transport: Transport,
    /// Bytes of a message, at least 8.
    pub size: usize,
    /// One message at a time, or as many as go.
    pub pingpong: bool,
    /// Length of the run, ns.
    pub duration_ns: u64,
}

impl Terms {
    /// Datagrams in clear.
    pub fn of_datagrams(size: usize, pingpong: bool, time: std::time::Duration) -> Terms {
        let duration_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4);
        Terms { transport: Transport::Udp, size, pingpong, duration_ns }
    }
}

/// Sealing of one end.
struct Seal {
    key: AesGcm,
    sealer: Sealer,
    number: u64,
    stream: u16,
    sealed: Vec<u8>,
    opened: Vec<u8>,
}

impl Seal {
    fn new(stream: u16) -> Option<Seal> {
        let key = AesGcm::new(b"a bench, no more")?;
        let sealer = Sealer::new(NodeId(stream), 1);
        let (sealed, opened) = (Vec::with_capacity(2_048), Vec::with_capacity(2_048));
        Some(Seal { key, sealer, number: 0, stream, sealed, opened })
    }

    fn seal(&mut self, message: &[u8]) -> &[u8] {
        self.number += 1;
        let origin = Origin { stream: self.stream, life: 1, number: self.number };
        self.sealed.clear();
        self.sealer.seal((&self.key, &self.key), origin, (&[], message), &mut self.sealed);
        &self.sealed
    }

    fn open(&mut self, bytes: &[u8]) -> Option<&[u8]> {
        self.sealed.clear();
        self.sealed.extend_from_slice(bytes);
        let opened = open_hop(&self.key, &mut self.sealed).ok()?;
        open_body(&self.key, &opened, &mut self.opened).ok()?;
        Some(&self.opened)
    }
}

/// Sends to one peer or connection, and cuts what comes into messages.
struct Line {
    to: Peer,
    conn: ConnId,
    stream: bool,
    seal: Option<Seal>,
    size: usize,
    partial: Vec<u8>,
}

impl Line {
    fn new(terms: &Terms, to: Peer, conn: ConnId, stream: u16, size: usize) -> Line {
        let seal = (terms.transport == Transport::Sealed).then(|| Seal::new(stream)).flatten();
        let stream = terms.transport.is_stream();
        Line { to, conn, stream, seal, size, partial: Vec::with_capacity(LENGTH_MAX) }
    }

    fn send(&mut self, message: &[u8], out: &mut Outbox) {
        let bytes = match &mut self.seal {
            Some(seal) => out.store(seal.seal(message)),
            None => out.store(message),
        };
        match self.stream {
            true => out.stream(self.conn, bytes),
            false => out.datagram(Channel(0), self.to, bytes),
        }
    }

    /// The numbers of all whole messages.
    fn take(&mut self, bytes: &[u8], mut heard: impl FnMut(u64)) {
        if !self.stream {
            let message = match &mut self.seal {
                Some(seal) => seal.open(bytes),
                None => Some(bytes),
            };
            return message.and_then(number).into_iter().for_each(heard);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let missing = self.size - self.partial.len();
            let (now, later) = rest.split_at(missing.min(rest.len()));
            self.partial.extend_from_slice(now);
            rest = later;
            if self.partial.len() == self.size {
                number(&self.partial).into_iter().for_each(&mut heard);
                self.partial.clear();
            }
        }
    }
}

/// The first byte of every message: not that of packets which the loop unpacks itself.
const MARK: u8 = b'M';

fn number(message: &[u8]) -> Option<u64> {
    message.first_chunk().map(|bytes| u64::from_le_bytes(*bytes) >> 8)
}

fn write_number(message: &mut [u8], number: u64) {
    if let Some(place) = message.first_chunk_mut() {
        *place = (number << 8 | u64::from(MARK)).to_le_bytes();
    }
}

/// One receiver as the caller sees it.
struct Lane {
    line: Line,
    open: bool,
    sent: u64,
    /// Told by the receiver, or given up.
    done: u64,
    sent_at: Nanos,
    heard_at: Nanos,
}

/// The end that sends.
pub struct Caller {
    terms: Terms,
    lanes: Vec<Lane>,
    message: Vec<u8>,
    start: Option<Nanos>,
    asked: bool,
    now: Nanos,
    /// Round trips.
    pub latencies: Recorder,
}

impl Caller {
    /// A caller of `receivers`.
    pub fn new(terms: Terms, receivers: &[Peer]) -> Caller {
        let size = if terms.pingpong { terms.size } else { 8 };
        let lane = |(index, to): (usize, &Peer)| Lane {
            line: Line::new(&terms, *to, ConnId(index as u32), index as u16, size),
            open: !terms.transport.is_stream(),
            sent: 0,
            done: 0,
            sent_at: Nanos(0),
            heard_at: Nanos(0),
        };
        let lanes = receivers.iter().enumerate().map(lane).collect();
        Caller {
            terms,
            lanes,
            message: vec![b'x'; terms.size.max(8)],
            start: None,
            asked: false,
            now: Nanos(0),
            latencies: Recorder::new(),
        }
    }

    /// Messages sent to all receivers.
    pub fn sent(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.sent).sum()
    }

    /// The time is over.
    pub fn is_done(&self) -> bool {
        self.start.is_some_and(|start| self.now - start > self.terms.duration_ns + STALL.0)
    }

    fn send(&mut self, now: Nanos, out: &mut Outbox) {
        self.now = now;
        if !self.lanes.iter().all(|lane| lane.open) {
            return;
        }
        let start = *self.start.get_or_insert(now);
        if now - start > self.terms.duration_ns {
            return;
        }
        let window = if self.terms.pingpong { 1 } else { WINDOW };
        for lane in &mut self.lanes {
            if lane.sent > lane.done && now - lane.heard_at.max(lane.sent_at) > STALL.0 {
                lane.done = lane.sent;
            }
            let room = window - (lane.sent - lane.done).min(window);
            for _ in 0..room.min(BURST) {
                lane.sent += 1;
                write_number(&mut self.message, lane.sent);
                lane.line.send(&self.message, out);
                lane.sent_at = now;
            }
        }
    }

    fn take(&mut self, index: usize, now: Nanos, bytes: &[u8]) {
        let Some(lane) = self.lanes.get_mut(index) else { return };
        let (pingpong, latencies) = (self.terms.pingpong, &mut self.latencies);
        let (sent, sent_at) = (lane.sent, lane.sent_at);
        let (mut done, mut heard_at) = (lane.done, lane.heard_at);
        lane.line.take(bytes, |number| {
            if number > done && number <= sent {
                done = number;
                heard_at = now;
                if pingpong {
                    latencies.record(now - sent_at);
                }
            }
        });
        (lane.done, lane.heard_at) = (done, heard_at);
    }
}

impl Node for Caller {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        if let Some(index) = self.lanes.iter().position(|lane| lane.line.to == from) {
            self.take(index, now.now, bytes);
        }
        self.send(now.now, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.asked && self.terms.transport.is_stream() {
            for lane in &self.lanes {
                out.connect(lane.line.conn, lane.line.to);
            }
        }
        self.asked = true;
        self.send(now.now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let full = |lane: &Lane| lane.sent - lane.done >= WINDOW || self.terms.pingpong;
        match self.start {
            None if self.asked && self.terms.transport.is_stream() => Nanos::NEVER,
            None => Nanos(0),
            Some(start) if self.now - start > self.terms.duration_ns => self.now.after(STALL.0),
            Some(_) if self.lanes.iter().all(full) => self.now.after(STALL.0),
            Some(_) => self.now,
        }
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(lane) = self.lanes.get_mut(conn.0 as usize) {
            lane.open = true;
        }
        self.send(now.now, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.take(conn.0 as usize, now.now, bytes);
        self.send(now.now, out);
    }
}

/// The end that answers.
pub struct Answerer {
    terms: Terms,
    line: Option<Line>,
    stream: u16,
    message: Vec<u8>,
    /// Messages that came.
    pub count: u64,
    last: Option<Nanos>,
    first: Option<Nanos>,
    /// From one message to the next.
    pub gaps: Recorder,
}

impl Answerer {
    /// The receiver of this number.
    pub fn new(terms: Terms, number: u16) -> Answerer {
        let size = if terms.pingpong { terms.size.max(8) } else { 8 };
        Answerer {
            terms,
            line: None,
            stream: number + 100,
            message: vec![b'y'; size],
            count: 0,
            last: None,
            first: None,
            gaps: Recorder::new(),
        }
    }

    /// From the first message to the last.
    pub fn span_ns(&self) -> u64 {
        self.first.zip(self.last).map_or(0, |(first, last)| last - first)
    }

    fn take(&mut self, now: Nanos, from: (Peer, ConnId), bytes: &[u8], out: &mut Outbox) {
        let (terms, stream) = (self.terms, self.stream);
        let make = || Line::new(&terms, from.0, from.1, stream, terms.size.max(8));
        let line = self.line.get_or_insert_with(make);
        (line.to, line.conn) = from;
        let (mut count, mut answer) = (0, None);
        line.take(bytes, |number| {
            count += 1;
            answer = Some(number);
        });
        for _ in 0..count {
            if let Some(last) = self.last {
                self.gaps.record(now - last);
            }
            self.first.get_or_insert(now);
            self.last = Some(now);
            self.count += 1;
        }
        let due = self.terms.pingpong || self.count % TOLD_EVERY < count;
        if let Some(number) = answer.filter(|_| due) {
            write_number(&mut self.message, number);
            line.send(&self.message, out);
        }
    }
}

impl Node for Answerer {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.take(now.now, (from, ConnId(0)), bytes, out);
    }

    fn handle_timeout(&mut self, _: ClockReading, _: &mut Outbox) {}

    fn next_timeout(&self) -> Nanos {
        Nanos::NEVER
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        self.take(now.now, (Peer::Addr(0), conn), bytes, out);
    }
}
