//! The client side of the floor: requests of fixed length at fixed times, open loop, any reply of
//! the right length counts. It does what a participant must (keep a timetable, write, read, note
//! the time) and nothing else.

use std::collections::VecDeque;

use types::{Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer};

/// How a floor is measured.
#[derive(Clone, Debug)]
pub struct EchoConfig {
    /// The echo server.
    pub server: Peer,
    /// Connections, used in turn.
    pub connections: u32,
    /// Requests per second, all connections together.
    pub rate: u64,
    /// Length of the measurement, in ns.
    pub duration_ns: u64,
    /// Bytes of a request.
    pub request_len: usize,
    /// Bytes of a reply.
    pub reply_len: usize,
}

/// One connection's requests under way, by due time, and reply bytes not yet a whole reply.
#[derive(Default)]
struct Conn {
    due: VecDeque<Nanos>,
    partial: usize,
}

/// The client; a node like any other.
pub struct EchoClient {
    config: EchoConfig,
    request: Vec<u8>,
    conns: Vec<Conn>,
    connected: u32,
    started: bool,
    start: Option<Nanos>,
    sent: u64,
    latencies: Vec<u64>,
}

impl EchoClient {
    /// A client that connects at its first timeout and starts when all connections are open.
    pub fn new(config: EchoConfig) -> EchoClient {
        let mut conns = Vec::new();
        conns.resize_with(config.connections as usize, Conn::default);
        let total = config.rate * (config.duration_ns / Nanos::SECOND + 1);
        EchoClient {
            request: vec![b'x'; config.request_len],
            conns,
            connected: 0,
            started: false,
            start: None,
            sent: 0,
            latencies: Vec::with_capacity(total as usize),
            config,
        }
    }

    /// Time from when each answered request was due to its reply, in ns.
    pub fn latencies(&self) -> &[u64] {
        &self.latencies
    }

    /// Everything sent and answered.
    pub fn is_done(&self) -> bool {
        self.start.is_some() && self.next_due().is_none() && self.under_way() == 0
    }

    fn under_way(&self) -> usize {
        self.conns.iter().map(|conn| conn.due.len()).sum()
    }

    fn next_due(&self) -> Option<Nanos> {
        let offset = self.sent * Nanos::SECOND / self.config.rate.max(1);
        self.start.filter(|_| offset < self.config.duration_ns).map(|start| start.after(offset))
    }
}

impl Node for EchoClient {
    fn handle_datagram(
        &mut self,
        _now: ClockReading,
        _channel: Channel,
        _from: Peer,
        _bytes: &[u8],
        _out: &mut Outbox,
    ) {
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if !self.started {
            self.started = true;
            (0..self.config.connections).for_each(|conn| {
                out.connect(ConnId(conn), self.config.server);
            });
        }
        while let Some(due) = self.next_due().filter(|due| *due <= now.now) {
            let conn = (self.sent % u64::from(self.config.connections)) as u32;
            self.sent += 1;
            if let Some(under_way) = self.conns.get_mut(conn as usize) {
                under_way.due.push_back(due);
            }
            let bytes = out.store(&self.request);
            out.stream(ConnId(conn), bytes);
        }
    }

    fn next_timeout(&self) -> Nanos {
        if !self.started {
            return Nanos(0);
        }
        self.next_due().unwrap_or(Nanos::NEVER)
    }

    fn handle_connect(&mut self, now: ClockReading, _conn: ConnId, _out: &mut Outbox) {
        self.connected += 1;
        if self.connected == self.config.connections {
            self.start = Some(now.now.after(100 * Nanos::MILLI));
        }
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], _out: &mut Outbox) {
        let Some(conn) = self.conns.get_mut(conn.0 as usize) else { return };
        conn.partial += bytes.len();
        while conn.partial >= self.config.reply_len.max(1) {
            conn.partial -= self.config.reply_len.max(1);
            if let Some(due) = conn.due.pop_front() {
                self.latencies.push(now.now - due);
            }
        }
    }
}
