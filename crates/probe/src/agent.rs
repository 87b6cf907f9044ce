//! The agent of a VM: answers whoever proves to know the shared key, and takes part in one job at a
//! time.
//!
//! As a leader it connects to the other members, tells them the job, gathers and reports. As a
//! member it reports to whoever told it. A job ends by itself; it is dropped at once when the
//! connection breaks over which it came, so a dead leader leaves no busy members behind. Everything
//! is bounded: connections, orders, probes kept, time for the handshake.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use planner::cloud::Cloud;
use types::{
    Admission, AdmissionConfig, Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer, Remote,
    SplitMix64, Yields,
};

use crate::job::Part;
use crate::leading::Leading;
use crate::link::{Key, Link, Nonces};
use crate::message::{Message, Order};
use crate::packet::{Probe, job_key};

/// Time between a leader's order and the first probe, for the members to hear of it.
pub const LEAD_NS: u64 = 100 * Nanos::MILLI;
/// Most connections at a time from those that know the key.
const ACCEPTED_MAX: usize = 64;
/// Connections that have proved nothing yet, in all and from one address.
const STRANGERS_MAX: usize = 128;
/// Most unauthenticated connections from one address; see [`STRANGERS_MAX`].
const STRANGERS_PER_SOURCE_MAX: usize = 64;
/// Longest duration of a handshake, ns.
const HANDSHAKE_NS: u64 = 2 * Nanos::SECOND;
/// Most probes that wait for their injected delay.
const WAITING_MAX: usize = 1 << 16;
/// Longest time until the start of a job, ns; an order for a later start is refused.
const AHEAD_MAX_NS: u64 = 60 * Nanos::SECOND;

/// Delays of a synthetic cloud, given to what arrives: for tests on one machine.
#[derive(Clone, Debug)]
pub struct Injection {
    cloud: Arc<Cloud>,
    vm: usize,
    rng: SplitMix64,
}

impl Injection {
    /// For the agent of one VM of the cloud.
    pub fn new(cloud: Arc<Cloud>, vm: usize, seed: u64) -> Injection {
        let rng = SplitMix64::new(SplitMix64::mix(seed ^ ((vm as u64) << 32)));
        Injection { cloud, vm, rng }
    }

    fn delay(&mut self, from: usize) -> u64 {
        if from >= self.cloud.vms() || self.vm >= self.cloud.vms() {
            return 0;
        }
        self.cloud.delay_ns(from, self.vm, &mut self.rng)
    }
}

/// What an agent has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentCounters {
    /// Number of jobs in which the agent took part.
    pub jobs: u64,
    /// Number of orders refused: busy, impossible, not understood.
    pub refused: u64,
    /// Number of connections that did not prove to know the key, in time or at all.
    pub unauthenticated: u64,
    /// Number of datagrams that were no probe of the running job.
    pub strangers: u64,
    /// Number of probes that had come before, which were neither passed on nor noted.
    pub repeated: u64,
}

#[derive(Debug)]
struct Connection {
    conn: ConnId,
    link: Link,
    accepted: bool,
    since: Nanos,
}

impl Connection {
    /// Opened by this agent, and the other end has proved nothing yet.
    fn is_invited(&self) -> bool {
        !self.accepted && !self.link.is_open()
    }
}

/// A probing agent: the node of one VM.
#[derive(Debug)]
pub struct Agent {
    key: Key,
    nonces: Nonces,
    connections: Vec<Connection>,
    /// Accepted connections that have not authenticated yet.
    strangers: Admission<ConnId>,
    next_conn: u32,
    part: Option<Part>,
    /// Connection that the job came from; `None` when this agent leads.
    leader: Option<ConnId>,
    leading: Option<Leading>,
    injection: Option<Injection>,
    waiting: BinaryHeap<Reverse<(Nanos, Probe)>>,
    counters: AgentCounters,
}

impl Agent {
    /// `entropy`: 32 bytes of the operating system's randomness.
    pub fn new(key: Key, entropy: [u8; 32], injection: Option<Injection>) -> Agent {
        Agent {
            key,
            nonces: Nonces::new(entropy),
            connections: Vec::new(),
            strangers: Admission::new(AdmissionConfig {
                places: STRANGERS_MAX,
                places_per_source: STRANGERS_PER_SOURCE_MAX,
                patience_ns: HANDSHAKE_NS,
                yields: Yields::Oldest,
            }),
            next_conn: 0,
            part: None,
            leader: None,
            leading: None,
            injection,
            waiting: BinaryHeap::new(),
            counters: AgentCounters::default(),
        }
    }

    /// Sets the bounds on connections that have proved nothing.
    #[must_use]
    pub fn with_strangers(self, bounds: AdmissionConfig) -> Agent {
        Agent { strangers: Admission::new(bounds), ..self }
    }

    /// What was counted since the start.
    pub fn counters(&self) -> AgentCounters {
        self.counters
    }

    /// Whether a job is running at present.
    pub fn is_busy(&self) -> bool {
        self.part.is_some() || self.leading.is_some()
    }

    fn tell(&mut self, conn: ConnId, message: &Message, out: &mut Outbox) {
        let Some(connection) = self.connections.iter_mut().find(|c| c.conn == conn) else { return };
        let mut bytes = Vec::new();
        if connection.link.send(&message.encode(), &mut bytes) {
            let span = out.store(&bytes);
            out.stream(conn, span);
        }
    }

    fn refuse(&mut self, conn: ConnId, job: u64, why: &str, out: &mut Outbox) {
        self.counters.refused += 1;
        self.tell(conn, &Message::Refused { job, why: why.to_string() }, out);
    }

    /// A message over a connection whose other end knows the key.
    fn obey(&mut self, now: Nanos, conn: ConnId, message: Message, out: &mut Outbox) {
        let member = self.leading.as_ref().and_then(|leading| leading.member(conn));
        match (message, member) {
            (Message::Lead(order), None) => self.lead(now, conn, order, out),
            (Message::Join(order), None) => self.join(now, conn, order, out),
            (Message::Heard { job, heard, series }, Some(place)) => {
                if let Some(leading) = self.leading.as_mut().filter(|l| l.order.job == job) {
                    leading.gather(place, heard, series);
                }
                self.finish_leading(now, out);
            }
            (Message::Refused { .. }, Some(place)) => {
                if let Some(leading) = &mut self.leading {
                    leading.lose(place);
                }
                self.finish_leading(now, out);
            }
            (_, _) => self.refuse(conn, 0, "nobody asked for that here", out),
        }
    }

    /// Why an order can't be taken now.
    fn objection(&self, order: &Order, leads: bool) -> Option<&'static str> {
        match order.check() {
            Err(why) => Some(why),
            Ok(()) if leads != (order.place == 0) => Some("only the member at place 0 leads"),
            Ok(()) => self.is_busy().then_some("busy with another job"),
        }
    }

    fn lead(&mut self, now: Nanos, conn: ConnId, mut order: Order, out: &mut Outbox) {
        if let Some(why) = self.objection(&order, true) {
            return self.refuse(conn, order.job, why, out);
        }
        order.start_ns = now.after(LEAD_NS).0;
        let mut leading = Leading::new(order.clone(), conn);
        for (place, peer) in order.members.iter().enumerate().skip(1) {
            // Below 2^31: those above belong to accepted connections.
            let member = ConnId(self.next_conn);
            self.next_conn = (self.next_conn + 1) & 0x7FFF_FFFF;
            leading.members[place] = Some(member);
            let link = Link::connect(&self.key, self.nonces.draw());
            self.connections.push(Connection { conn: member, link, accepted: false, since: now });
            out.connect(member, Peer::from(*peer));
        }
        self.leading = Some(leading);
        self.begin(order, None);
    }

    fn join(&mut self, now: Nanos, conn: ConnId, order: Order, out: &mut Outbox) {
        if let Some(why) = self.objection(&order, false) {
            return self.refuse(conn, order.job, why, out);
        }
        let start = Nanos(order.start_ns);
        if order.end() <= now || start.since(now) > AHEAD_MAX_NS {
            let why = "the job is over or starts too late: are the clocks synchronised?";
            return self.refuse(conn, order.job, why, out);
        }
        self.begin(order, Some(conn));
    }

    fn begin(&mut self, order: Order, leader: Option<ConnId>) {
        self.counters.jobs += 1;
        self.waiting.clear();
        self.leader = leader;
        let key = job_key(&self.key, order.job);
        self.part = Some(Part::new(order, key));
    }

    /// The part is over: what was heard goes to the leader.
    fn finish_part(&mut self, now: Nanos, out: &mut Outbox) {
        let Some(part) = self.part.take() else { return };
        self.waiting.clear();
        let (heard, series) = part.result();
        match self.leader.take() {
            Some(conn) => {
                let job = part.order().job;
                self.tell(conn, &Message::Heard { job, heard, series }, out);
            }
            None => {
                if let Some(leading) = &mut self.leading {
                    leading.gather(0, heard, series);
                }
                self.finish_leading(now, out);
            }
        }
    }

    /// Reports to the controller when everybody has reported or time is up.
    fn finish_leading(&mut self, now: Nanos, out: &mut Outbox) {
        let done = |leading: &Leading| leading.is_complete() || now >= leading.deadline();
        let Some(leading) = self.leading.take_if(|leading| done(leading)) else { return };
        let message = Message::Done { job: leading.order.job, report: leading.report() };
        self.tell(leading.asked_by, &message, out);
        self.drop_members(&leading, out);
    }

    fn drop_members(&mut self, leading: &Leading, out: &mut Outbox) {
        for conn in leading.members.iter().flatten() {
            self.close(*conn, out);
        }
        // An early end, by a broken connection: the own part has nobody left to report to.
        if self.leader.is_none() {
            self.part = None;
            self.waiting.clear();
        }
    }

    fn close(&mut self, conn: ConnId, out: &mut Outbox) {
        let before = self.connections.len();
        self.connections.retain(|connection| connection.conn != conn);
        if self.connections.len() < before {
            out.close(conn);
        }
    }

    /// A connection is gone, closed by either side.
    fn forget(&mut self, now: Nanos, conn: ConnId, out: &mut Outbox) {
        self.strangers.leave(conn);
        self.connections.retain(|connection| connection.conn != conn);
        if self.leader == Some(conn) {
            self.leader = None;
            self.part = None;
            self.waiting.clear();
        }
        if let Some(leading) = self.leading.take_if(|leading| leading.asked_by == conn) {
            self.drop_members(&leading, out);
        }
        if let Some(leading) = &mut self.leading
            && let Some(place) = leading.member(conn)
        {
            leading.lose(place);
            self.finish_leading(now, out);
        }
    }

    /// Takes bytes of a connection; messages that came in whole.
    fn unpack(&mut self, conn: ConnId, bytes: &[u8], out: &mut Outbox) -> Option<Vec<Vec<u8>>> {
        let connection = self.connections.iter_mut().find(|c| c.conn == conn)?;
        let was_open = connection.link.is_open();
        let mut reply = Vec::new();
        let mut frames = Vec::new();
        let taken = connection.link.take(bytes, &mut reply).and_then(|()| {
            while let Some(frame) = connection.link.next_frame()? {
                frames.push(frame);
            }
            Ok(())
        });
        if taken.is_err() {
            self.counters.unauthenticated += 1;
            return None;
        }
        let opened = !was_open && connection.link.is_open();
        let accepted = connection.accepted;
        if opened && accepted {
            self.strangers.leave(conn);
            let known = self.connections.iter().filter(|c| c.accepted && c.link.is_open());
            if known.count() > ACCEPTED_MAX {
                return None;
            }
        }
        if !reply.is_empty() {
            let span = out.store(&reply);
            out.stream(conn, span);
        }
        if opened && !accepted {
            self.invite(conn, out);
        }
        Some(frames)
    }

    /// A member has proved itself: it is told the job.
    fn invite(&mut self, conn: ConnId, out: &mut Outbox) {
        let Some(leading) = &self.leading else { return };
        let Some(place) = leading.member(conn) else { return };
        let order = Order { place, ..leading.order.clone() };
        self.tell(conn, &Message::Join(order), out);
    }

    /// Closes connections whose handshake takes too long.
    fn expire(&mut self, now: Nanos, out: &mut Outbox) {
        while let Some(conn) = self.strangers.expire(now) {
            self.turn_away(now, conn, out);
        }
        let late = |c: &Connection| c.is_invited() && now >= c.since.after(HANDSHAKE_NS);
        while let Some(late) = self.connections.iter().find(|c| late(c)) {
            let conn = late.conn;
            out.close(conn);
            self.forget(now, conn, out);
        }
    }

    /// A stranger has had its time, or another one needs its place.
    fn turn_away(&mut self, now: Nanos, conn: ConnId, out: &mut Outbox) {
        self.counters.unauthenticated += 1;
        out.close(conn);
        self.forget(now, conn, out);
    }
}

impl Node for Agent {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _channel: Channel,
        _from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let known = self.part.as_ref().and_then(|part| Some((part, part.decode(bytes)?)));
        let Some((part, probe)) = known else {
            self.counters.strangers += 1;
            return;
        };
        let from = part.order().vms.get(usize::from(probe.sender)).copied();
        match &mut self.injection {
            Some(injection) => {
                let due = now.now.after(injection.delay(from.unwrap_or(usize::MAX)));
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.push(Reverse((due, probe)));
                }
            }
            None => {
                if let Some(part) = &mut self.part
                    && !part.arrive(&probe, now.now, out)
                {
                    self.counters.repeated += 1;
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        let now = now.now;
        while let Some(Reverse((due, _))) = self.waiting.peek()
            && *due <= now
        {
            // Stamped as a kernel behind the delay would: when it came, not when it was looked at.
            if let (Some(Reverse((due, probe))), Some(part)) = (self.waiting.pop(), &mut self.part)
            {
                self.counters.repeated += u64::from(!part.arrive(&probe, due, out));
            }
        }
        if let Some(part) = &mut self.part {
            part.send_due(now, out);
            if now >= part.end() {
                self.finish_part(now, out);
            }
        }
        self.finish_leading(now, out);
        self.expire(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let shaking = self.connections.iter().filter(|c| c.is_invited());
        let waiting = self.waiting.peek().map(|Reverse((due, _))| *due);
        shaking
            .map(|c| c.since.after(HANDSHAKE_NS))
            .chain(waiting)
            .chain([self.strangers.next_timeout()])
            .chain(self.part.as_ref().map(Part::next_timeout))
            .chain(self.leading.as_ref().map(Leading::deadline))
            .min()
            .unwrap_or(Nanos::NEVER)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.handle_accept(now, conn, &Remote::default(), out);
    }

    fn handle_accept(
        &mut self,
        now: ClockReading,
        conn: ConnId,
        remote: &Remote,
        out: &mut Outbox,
    ) {
        // Those that this agent opened are known already.
        if self.connections.iter().any(|connection| connection.conn == conn) {
            return;
        }
        if let Some(oldest) = self.strangers.arrive(now.now, conn, remote.address) {
            self.turn_away(now.now, oldest, out);
        }
        let mut bytes = Vec::new();
        let link = Link::accept(&self.key, self.nonces.draw(), &mut bytes);
        let span = out.store(&bytes);
        out.stream(conn, span);
        self.connections.push(Connection { conn, link, accepted: true, since: now.now });
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if !self.connections.iter().any(|connection| connection.conn == conn) {
            return;
        }
        let Some(frames) = self.unpack(conn, bytes, out) else {
            out.close(conn);
            self.forget(now.now, conn, out);
            return;
        };
        for frame in frames {
            match Message::decode(&frame) {
                Ok(message) => self.obey(now.now, conn, message, out),
                Err(why) => self.refuse(conn, 0, &why, out),
            }
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        self.forget(now.now, conn, out);
    }
}
