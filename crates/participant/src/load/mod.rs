//! Open-loop order load for any OUCH 5.0 or FIX door.
//!
//! [`Load`] logs in all its clients, learns which numbers their accounts have used, then plays an
//! even timetable: message k is due k / rate after the start and belongs to client k modulo their
//! number, whatever the exchange does. Latency counts from when a message was due to its first
//! answer, so our own lateness is charged to the result. When a connection ends, its client comes
//! back at the next address, and after a grace time sends what has no answer again under its
//! old identifier. At the end every request must have had exactly one answer.
//!
//! Sans-I/O, deterministic from [`LoadConfig::seed`]; memory is reserved at the start and grows with
//! the messages planned and the seconds played, with nothing else.

mod door;
mod fix;
mod flow;
mod ouch;
mod requests;
mod timings;

use types::{ClockReading, ConnId, Instrument, Nanos, Node, Outbox, Peer, Price, SplitMix64};

use door::{Door, Heard};
use flow::Flow;
use requests::Requests;

pub use ::fix::Version;
pub use door::{Login, Protocol};
pub use requests::{Answer, Kind, LoadCounts};
pub use timings::{Mark, SecondPoint, Timings};

/// Connections that one [`Load`] can have: their names are below 2^31, so any number will do that
/// the machine has files for.
pub const CLIENTS_MAX: usize = 4_096;
/// Bytes that a gateway may leave unread of a client, for the loop of a [`Load`]: what is due is ours to keep until
/// the gateway takes it. A loop that cuts a client off for a backlog does so again and again, because all that has
/// no answer goes at once over the next connection.
pub const UNREAD_MAX: usize = 1 << 30;

/// Settings of a load run.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Logins, one per client.
    pub logins: Vec<Login>,
    /// Gateways; client i begins at the i-th, modulo their number.
    pub gateways: Vec<Peer>,
    /// Instrument that is traded: symbol and tick.
    pub instrument: Instrument,
    /// Orders are priced around this.
    pub middle: Price,
    /// Messages per second, all clients together; at least 1.
    pub rate: u64,
    /// Duration of the timetable, ns.
    pub duration_ns: u64,
    /// Answers to messages due earlier than this after the start give no latency.
    pub warmup_ns: u64,
    /// Longest time that logins may take, ns.
    pub login_timeout_ns: u64,
    /// Patience for the last answers.
    pub drain_timeout_ns: u64,
    /// Of a thousand new orders: those with a time of their own to end, 1 ms to 2 s later.
    pub expiring: u64,
    /// Source of sides, prices, quantities and kinds of messages.
    pub seed: u64,
    /// Tells the identifiers of this run from those of others, where they are text; 1 to 4
    /// characters.
    pub run: String,
}

/// Phase of a load run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LoadPhase {
    /// Logging in.
    Connecting,
    /// Playing the timetable.
    Playing,
    /// Waiting for the last answers.
    Draining,
    /// Finished; see [`Load::counts`].
    Done,
}

/// Why a [`Load`] cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// No client, no gateway, or more than [`CLIENTS_MAX`].
    Clients,
    /// A user name of more than 6 or a password of more than 10 bytes.
    Credentials,
    /// A rate of 0, or more messages than 32-bit order numbers for a client.
    Rate,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LoadError::Clients => write!(f, "1 to {CLIENTS_MAX} clients and a gateway are needed"),
            LoadError::Credentials => {
                f.write_str("user name of more than 6 or password of more than 10 bytes")
            }
            LoadError::Rate => f.write_str("a rate of 0, or more messages than there are numbers"),
        }
    }
}

impl std::error::Error for LoadError {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// Not connected; next attempt at this time.
    Down(Nanos),
    Connecting,
    /// Waiting for the login's answer until then.
    LoggingIn(Nanos),
    /// Logged in; what was missed may still come. At `due` requests go out (again): when nothing came for a
    /// while, at the latest at `latest`.
    Settling {
        due: Nanos,
        latest: Nanos,
    },
    Up,
}

/// Something that a client saw; see [`Load::watch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A login was accepted.
    LoggedIn,
    /// Its connection ended, or none came about, and it did not want that.
    Ended,
    /// The first answer to the request that was due then.
    Answered {
        /// Time at which it was due.
        due: Nanos,
        /// The request was not refused.
        taken: bool,
    },
}

#[derive(Debug)]
struct Member {
    door: Door,
    link: Link,
    conn: Option<ConnId>,
    gateway: usize,
    requests: Requests,
    flow: Flow,
    /// Logins refused in a row.
    refused: u32,
    /// A login was refused for good.
    barred: bool,
    /// Said goodbye; it does not come back.
    leaving: bool,
    /// Answers with their times, where they are recorded.
    seen: Option<Vec<(Nanos, Seen)>>,
}

/// The node; see the module.
#[derive(Debug)]
pub struct Load {
    config: LoadConfig,
    members: Vec<Member>,
    /// Member of each connection name, less one.
    by_conn: Vec<u32>,
    phase: LoadPhase,
    /// When patience with the phase ends.
    deadline: Nanos,
    started_at: Option<Nanos>,
    /// When nothing waited for an answer any more.
    answered_at: Option<Nanos>,
    /// The exchange has told of all orders that end by themselves, too.
    is_told: bool,
    finished_at: Option<Nanos>,
    /// Messages of the timetable, and those of them gone out.
    planned: u64,
    next: u64,
    lateness_max_ns: u64,
    counts: LoadCounts,
    timings: Timings,
    /// No member needs attention before this; may be early.
    members_due: Nanos,
    scratch: Vec<u8>,
    stopping: bool,
}

/// From the end of a connection to the next attempt.
const RECONNECT_NS: u64 = 100 * Nanos::MILLI;
/// How long a login may take.
const LOGIN_NS: u64 = 10 * Nanos::SECOND;
/// From a login to the first request, or to the re-sending of unanswered ones.
const SETTLE_NS: u64 = 500 * Nanos::MILLI;
/// The longest it may be: on a busy account something always comes.
const SETTLE_MAX_NS: u64 = 3 * Nanos::SECOND;
/// A client refused so often in a row gives up, and with it the load.
const REFUSALS_MAX: u32 = 3;
/// Why a login was refused, as far as is known, where the connection was closed instead of an answer.
const UNANSWERED: &str =
    "closed without an answer: wrong password, logged on elsewhere, or the wrong door";
/// From the last login to the start of play.
const START_DELAY_NS: u64 = 100 * Nanos::MILLI;
/// Longest wait, from the last end of an order by its time, until the exchange has told of all of them.
const ENDS_TOLD_NS: u64 = 10 * Nanos::SECOND;
/// From the last answer to the logout: executions that others have caused may still come.
const LINGER_NS: u64 = 200 * Nanos::MILLI;
/// The same when copies of cancels that were sent again may still be answered.
const COPIES_TOLD_NS: u64 = Nanos::SECOND;
/// Most messages played before the loop gets a turn.
const PLAY_BATCH: usize = 256;

impl Load {
    /// A load not yet begun; its first timeout is due at once.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn new(config: LoadConfig) -> Result<Load, LoadError> {
        let clients = config.logins.len();
        if clients == 0 || clients > CLIENTS_MAX || config.gateways.is_empty() {
            return Err(LoadError::Clients);
        }
        let planned = u128::from(config.rate) * u128::from(config.duration_ns);
        let planned = u64::try_from(planned / u128::from(Nanos::SECOND)).unwrap_or(u64::MAX);
        let each = planned / clients as u64 + 1;
        if config.rate == 0 || each > u64::from(u32::MAX / 4) {
            return Err(LoadError::Rate);
        }
        let mut seeds = SplitMix64::new(config.seed);
        let member = |(index, login): (usize, &Login)| {
            Ok(Member {
                door: Door::new(login, &config.instrument, &config.run)
                    .ok_or(LoadError::Credentials)?,
                link: Link::Down(Nanos(0)),
                conn: None,
                gateway: index % config.gateways.len(),
                requests: Requests::with_capacity(each as usize),
                flow: Flow::new(
                    seeds.next_u64(),
                    config.middle,
                    config.instrument.tick,
                    config.expiring,
                ),
                refused: 0,
                barred: false,
                leaving: false,
                seen: None,
            })
        };
        let members = config.logins.iter().enumerate().map(member);
        Ok(Load {
            members: members.collect::<Result<_, _>>()?,
            by_conn: Vec::with_capacity(clients * 2),
            phase: LoadPhase::Connecting,
            deadline: Nanos::NEVER,
            started_at: None,
            answered_at: None,
            is_told: false,
            finished_at: None,
            planned,
            next: 0,
            lateness_max_ns: 0,
            counts: LoadCounts::default(),
            timings: Timings::default(),
            members_due: Nanos(0),
            scratch: Vec::with_capacity(1 << 16),
            stopping: false,
            config,
        })
    }

    /// Has each client connect with this gateway the next time, by its place among [`LoadConfig::gateways`]; those
    /// behind the last entry go where they would. A connection that it has stays.
    pub fn begin_at(&mut self, firsts: &[usize]) {
        let gateways = self.config.gateways.len();
        for (member, first) in self.members.iter_mut().zip(firsts) {
            member.gateway = first % gateways;
        }
    }

    /// Phase of the run.
    pub fn phase(&self) -> LoadPhase {
        self.phase
    }

    /// Counts of requests and answers so far.
    pub fn counts(&self) -> LoadCounts {
        let mut counts = self.counts.clone();
        counts.lost = self.members.iter().map(|member| member.requests.waiting()).sum();
        counts
    }

    /// Number of messages in the timetable.
    pub fn planned(&self) -> u64 {
        self.planned
    }

    /// Number of clients that are logged in.
    pub fn up(&self) -> usize {
        self.members.iter().filter(|member| member.link == Link::Up).count()
    }

    /// How late the latest message went out, ns.
    pub fn lateness_max_ns(&self) -> u64 {
        self.lateness_max_ns
    }

    /// Start of the timetable, and when the last answer came or patience ended.
    pub fn times(&self) -> (Option<Nanos>, Option<Nanos>) {
        (self.started_at, self.finished_at)
    }

    /// Response times.
    pub fn timings(&self) -> &Timings {
        &self.timings
    }

    /// Remembers this moment; [`Timings::marks`] says when the first request after it was answered.
    pub fn mark(&mut self, at: Nanos) {
        self.timings.mark(at);
    }

    /// From now on clients note what they see: a few bytes for each answer, login and end of a connection.
    pub fn watch(&mut self) {
        for member in &mut self.members {
            member.seen.get_or_insert_default();
        }
    }

    /// What each client saw, in order; nothing of those that were not to note it.
    pub fn seen(&self) -> impl Iterator<Item = &[(Nanos, Seen)]> {
        self.members.iter().map(|member| member.seen.as_deref().unwrap_or(&[]))
    }

    /// Plays nothing for so long; the timetable goes on later by that. Nothing before it has begun.
    pub fn rest(&mut self, ns: u64) {
        self.started_at = self.started_at.map(|at| at.after(ns));
    }

    /// Sends no further requests.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    fn advance(&mut self, now: Nanos, out: &mut Outbox) {
        if self.phase == LoadPhase::Connecting {
            if self.deadline == Nanos::NEVER {
                self.deadline = now.after(self.config.login_timeout_ns);
            }
            if self.members.iter().all(|member| member.link == Link::Up) {
                self.started_at = Some(now.after(START_DELAY_NS));
                (self.phase, self.deadline) = (LoadPhase::Playing, Nanos::NEVER);
            } else if now >= self.deadline || self.stopping || self.is_hopeless() {
                self.finish(now, out);
            }
        }
        if self.phase == LoadPhase::Playing {
            self.play(now, out);
        }
        if self.phase == LoadPhase::Draining {
            let answered = self.members.iter().all(|member| member.requests.waiting() == 0);
            if answered && self.answered_at.is_none() {
                self.answered_at = Some(now);
                // Orders with a time to end have yet to end, and the exchange to tell of that.
                let ends =
                    self.members.iter().filter_map(|member| member.requests.last_end()).max();
                let ended = ends.map_or(now, |end| end.max(now));
                self.deadline = self.deadline.min(ended.after(ENDS_TOLD_NS));
            }
            let told = answered && !self.members.iter().any(|one| one.requests.awaits_ends());
            if told && !self.is_told {
                self.is_told = true;
                let copies = self.members.iter().any(|member| member.requests.awaits_copies());
                let linger = if copies { COPIES_TOLD_NS } else { LINGER_NS };
                self.deadline = self.deadline.min(now.after(linger));
            }
            if now >= self.deadline {
                self.finish(now, out);
            }
        }
    }

    fn is_hopeless(&self) -> bool {
        self.members.iter().any(|member| member.barred || member.refused >= REFUSALS_MAX)
    }

    fn finish(&mut self, now: Nanos, out: &mut Outbox) {
        self.members.iter_mut().for_each(|member| member.leave(now, out));
        (self.phase, self.deadline) = (LoadPhase::Done, Nanos::NEVER);
        self.finished_at = Some(self.answered_at.unwrap_or(now));
        self.timings.finish();
    }

    fn due(&self, message: u64) -> Nanos {
        let start = self.started_at.unwrap_or(Nanos::NEVER);
        let ns = u128::from(message) * u128::from(Nanos::SECOND) / u128::from(self.config.rate);
        start.after(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn play(&mut self, now: Nanos, out: &mut Outbox) {
        for _ in 0..PLAY_BATCH {
            if self.next >= self.planned || self.stopping {
                let deadline = now.after(self.config.drain_timeout_ns);
                (self.phase, self.deadline) = (LoadPhase::Draining, deadline);
                return;
            }
            let due = self.due(self.next);
            if due > now {
                return;
            }
            self.lateness_max_ns = self.lateness_max_ns.max(now.since(due));
            let index = (self.next % self.members.len() as u64) as usize;
            self.next += 1;
            if let Some(member) = self.members.get_mut(index) {
                member.ask(now, due, &mut self.counts, out, &mut self.scratch);
            }
        }
    }

    fn serve(&mut self, now: Nanos, out: &mut Outbox) {
        let mut due = Nanos::NEVER;
        for (index, member) in self.members.iter_mut().enumerate() {
            if member.next_timeout() <= now {
                let conn = ConnId(self.by_conn.len() as u32 + 1);
                let gateways = &self.config.gateways;
                if member.handle_timeout(now, conn, gateways, &mut self.counts, out) {
                    self.by_conn.push(index as u32);
                }
            }
            due = due.min(member.next_timeout());
        }
        self.members_due = due;
    }

    fn member_on(&mut self, conn: ConnId) -> Option<&mut Member> {
        let index = *self.by_conn.get((conn.0 as usize).checked_sub(1)?)?;
        self.members.get_mut(index as usize).filter(|member| member.conn == Some(conn))
    }
}

impl Member {
    fn note(&mut self, at: Nanos, what: Seen) {
        if let Some(seen) = &mut self.seen {
            seen.push((at, what));
        }
    }

    /// The next request of the flow, due at `due`.
    fn ask(
        &mut self,
        now: Nanos,
        due: Nanos,
        counts: &mut LoadCounts,
        out: &mut Outbox,
        scratch: &mut Vec<u8>,
    ) {
        let request = self.flow.next(&mut self.requests, due);
        counts.asked += 1;
        if self.link != Link::Up {
            return;
        }
        scratch.clear();
        if self.door.send(now, &request, false, scratch) {
            self.requests.note_sent(&request);
            self.write(scratch, out);
        } else {
            counts.unsendable += 1;
        }
    }

    fn write(&self, bytes: &[u8], out: &mut Outbox) {
        if let Some(conn) = self.conn.filter(|_| !bytes.is_empty()) {
            let span = out.store(bytes);
            out.stream(conn, span);
        }
    }

    fn next_timeout(&self) -> Nanos {
        match self.link {
            Link::Down(at) => at,
            Link::Connecting => Nanos::NEVER,
            Link::LoggingIn(at) | Link::Settling { due: at, .. } => {
                at.min(self.door.next_timeout())
            }
            Link::Up => self.door.next_timeout(),
        }
    }

    /// True: a connection named `conn` was asked for.
    fn handle_timeout(
        &mut self,
        now: Nanos,
        conn: ConnId,
        gateways: &[Peer],
        counts: &mut LoadCounts,
        out: &mut Outbox,
    ) -> bool {
        match self.link {
            Link::Down(at) if at <= now => {
                let Some(gateway) = gateways.get(self.gateway % gateways.len().max(1)) else {
                    self.link = Link::Down(Nanos::NEVER);
                    return false;
                };
                self.gateway += 1;
                self.conn = Some(conn);
                self.link = Link::Connecting;
                out.connect(conn, *gateway);
                return true;
            }
            Link::Down(_) | Link::Connecting => return false,
            Link::LoggingIn(at) if at <= now => {
                self.hang_up(now, counts, out);
                return false;
            }
            Link::Settling { due, .. } if due <= now => self.settle(now, counts, out),
            _ => {}
        }
        let mut bytes = Vec::new();
        let alive = self.door.handle_timeout(now, &mut bytes);
        self.write(&bytes, out);
        if !alive {
            self.hang_up(now, counts, out);
        }
        false
    }

    /// Up again: what has no answer goes out in the order it was asked.
    fn settle(&mut self, now: Nanos, counts: &mut LoadCounts, out: &mut Outbox) {
        self.link = Link::Up;
        let mut bytes = Vec::new();
        for request in self.requests.unanswered() {
            if self.door.send(now, &request, request.sent, &mut bytes) {
                self.requests.note_sent(&request);
                counts.resent += u64::from(request.sent);
            } else {
                counts.unsendable += 1;
            }
        }
        self.write(&bytes, out);
    }

    /// Logs out; the other side closes.
    fn leave(&mut self, now: Nanos, out: &mut Outbox) {
        self.leaving = true;
        let mut bytes = Vec::new();
        if self.link == Link::Up {
            self.door.logout(now, &mut bytes);
        }
        self.write(&bytes, out);
    }

    fn hang_up(&mut self, now: Nanos, counts: &mut LoadCounts, out: &mut Outbox) {
        if let Some(conn) = self.conn {
            out.close(conn);
        }
        self.closed(now, counts);
    }

    fn closed(&mut self, now: Nanos, counts: &mut LoadCounts) {
        self.door.handle_close();
        self.conn = None;
        if self.leaving {
            self.link = Link::Down(Nanos::NEVER);
            return;
        }
        counts.connections_lost += 1;
        self.note(now, Seen::Ended);
        if matches!(self.link, Link::LoggingIn(_)) {
            self.note_refusal(UNANSWERED, false, counts);
        }
        // Tries that can't succeed would lock this address.
        let next = if self.barred { Nanos::NEVER } else { now.after(RECONNECT_NS) };
        self.link = Link::Down(next);
    }

    /// A login is refused; `is_final`: another one would be, too.
    fn note_refusal(&mut self, why: &str, is_final: bool, counts: &mut LoadCounts) {
        counts.note_refusal(why);
        self.refused += 1;
        self.barred |= is_final;
        // The end of its connection is no other refusal.
        self.link = Link::Down(Nanos::NEVER);
    }
}

impl Node for Load {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        if now.now >= self.members_due {
            self.serve(now.now, out);
        }
        self.advance(now.now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let phase = match self.phase {
            LoadPhase::Playing if self.next >= self.planned || self.stopping => Nanos(0),
            LoadPhase::Playing => self.due(self.next),
            LoadPhase::Connecting if self.stopping => Nanos(0),
            LoadPhase::Connecting | LoadPhase::Draining => self.deadline,
            LoadPhase::Done => Nanos::NEVER,
        };
        phase.min(self.members_due)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        let Some(member) = self.member_on(conn) else { return };
        let mut bytes = Vec::new();
        member.link = Link::LoggingIn(now.now.after(LOGIN_NS));
        member.door.connect(now.now, &mut bytes);
        member.write(&bytes, out);
        self.members_due = Nanos(0);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let (now, warm) = (now.now, self.started_at.map(|at| at.after(self.config.warmup_ns)));
        let Some(index) = (conn.0 as usize).checked_sub(1).and_then(|at| self.by_conn.get(at))
        else {
            return;
        };
        let Some(member) = self.members.get_mut(*index as usize) else { return };
        if member.conn != Some(conn) {
            return;
        }
        let (counts, timings) = (&mut self.counts, &mut self.timings);
        let Member { door, link, requests, flow, refused, seen, .. } = member;
        let (mut over, mut refused_for_good) = (false, None);
        self.scratch.clear();
        door.handle_bytes(now, bytes, &mut self.scratch, |heard| match heard {
            Heard::LoggedIn => {
                counts.logins += 1;
                *refused = 0;
                if let Some(seen) = seen {
                    seen.push((now, Seen::LoggedIn));
                }
                *link =
                    Link::Settling { due: now.after(SETTLE_NS), latest: now.after(SETTLE_MAX_NS) };
            }
            Heard::Refused { is_final } => {
                refused_for_good = Some(is_final);
            }
            Heard::Answer { order, answer } => {
                let first = requests.answered(order, answer, counts);
                flow.heard(order, answer);
                if let (Some(seen), Some((_, due))) = (&mut *seen, first) {
                    let taken = !matches!(answer, Answer::Rejected(_));
                    seen.push((now, Seen::Answered { due, taken }));
                }
                if let Some((kind, due)) = first
                    && warm.is_some_and(|warm| due >= warm)
                {
                    timings.record(kind, due, now);
                }
            }
            Heard::Executed { order, lots } => {
                if requests.executed(order, lots, counts) {
                    flow.gone(order);
                }
            }
            // Of an earlier run of the account: its numbers are used up.
            Heard::Before { order } => requests.begin_after(order),
            Heard::Stray => counts.stray += 1,
            Heard::Over => over = true,
        });
        if let Link::Settling { due, latest } = link
            && !bytes.is_empty()
        {
            // What was missed still comes in.
            *due = now.after(SETTLE_NS).min(*latest);
        }
        let written = std::mem::take(&mut self.scratch);
        member.write(&written, out);
        self.scratch = written;
        if let Some(is_final) = refused_for_good {
            let why = member.door.refusal().to_string();
            member.note_refusal(&why, is_final, &mut self.counts);
        }
        if over || refused_for_good.is_some() {
            member.hang_up(now, &mut self.counts, out);
        }
        self.members_due = self.members_due.min(member.next_timeout());
        if self.phase != LoadPhase::Playing {
            self.advance(now, out);
        }
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, _out: &mut Outbox) {
        let (index, counts) = ((conn.0 as usize).checked_sub(1), &mut self.counts);
        let Some(index) = index.and_then(|at| self.by_conn.get(at)) else { return };
        if let Some(member) = self.members.get_mut(*index as usize)
            && member.conn == Some(conn)
        {
            member.closed(now.now, counts);
            self.members_due = Nanos(0);
        }
    }
}
