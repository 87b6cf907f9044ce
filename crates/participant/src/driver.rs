//! All participants of a run as one sans-I/O node: their sessions, and the flow they play.
//!
//! Phases: connect and log in everybody; load the opening book (paced by a window of unanswered
//! requests, untimed); play the timetable open loop, each message when it is due whatever the
//! exchange does, or in turn; drain until every request is answered or patience ends; then stay connected.
//! Latency counts from when a message was due, so our own lateness is charged to the result and
//! reported beside it.

use std::collections::BTreeMap;

use types::{ClockReading, ConnId, Instrument, InstrumentId, Nanos, Node, Outbox};
use wire::soupbin::BadCredentials;

use crate::{
    client::{Client, ClientConfig, ClientCounters},
    flow::FlowMessage,
    ledger::{LedgerCounts, NotAsked},
    opening::Opening,
    schedule::Schedule,
    tape::{Tape, TapeConfig},
    venue::Trade,
};

/// Settings of a driver.
#[derive(Clone, Debug)]
pub struct DriverConfig {
    /// Instruments by number and name.
    pub instruments: Vec<Instrument>,
    /// The participants; flow of participant p is played by client p modulo their number.
    pub clients: Vec<ClientConfig>,
    /// Unanswered requests per client while the opening book is loaded.
    pub window: u64,
    /// From the end of loading to the first timed message.
    pub start_delay_ns: u64,
    /// Messages due later than this after the start are not played; `None`: all are.
    pub duration_ns: Option<u64>,
    /// Whether a message of the timetable waits until those before it on its instrument, by other participants who
    /// are connected, are answered: then a play trades the same each time, however late a busy machine lets its
    /// connections be. It makes the timetable a closed loop, with a round trip for each change of participant.
    pub in_turn: bool,
    /// Patience for the loading as a whole, without which the timed part does not start.
    pub load_timeout_ns: u64,
    /// Patience for the last answers.
    pub drain_timeout_ns: u64,
    /// Patience, once everything is answered, for executions still on their way.
    pub settle_timeout_ns: u64,
    /// Bounds of what is recorded.
    pub tape: TapeConfig,
}

impl DriverConfig {
    /// Plays everything there is, with limits that suit one machine.
    pub fn new(instruments: Vec<Instrument>, clients: Vec<ClientConfig>) -> DriverConfig {
        DriverConfig {
            instruments,
            clients,
            window: 512,
            start_delay_ns: 100 * Nanos::MILLI,
            duration_ns: None,
            in_turn: false,
            load_timeout_ns: 60 * Nanos::SECOND,
            drain_timeout_ns: 10 * Nanos::SECOND,
            settle_timeout_ns: Nanos::SECOND,
            tape: TapeConfig::default(),
        }
    }
}

/// Phase of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Connecting and logging in.
    Connecting,
    /// Loading the opening book.
    Loading,
    /// Playing the timetable.
    Playing,
    /// Waiting for the last answers.
    Draining,
    /// Done; sessions stay connected.
    Idle,
}

/// A driver's figures, all clients together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Phase of the run.
    pub phase: Phase,
    /// Counts of requests and answers.
    pub ledger: LedgerCounts,
    /// Requests of the timed part that were asked so far.
    pub timed: u64,
    /// Messages that could not be turned into requests (no room, unknown or repeated order).
    pub not_asked: u64,
    /// Start of the timed part.
    pub started_at: Option<Nanos>,
    /// When the last answer of the drain came, or patience ended.
    pub finished_at: Option<Nanos>,
    /// Patience ended before everything was answered.
    pub timed_out: bool,
    /// How late the latest message was handed to its session, in nanoseconds.
    pub lateness_max_ns: u64,
    /// Clients that are logged in and up.
    pub clients_up: u64,
    /// Counters of the connections.
    pub connections: ClientCounters,
}

/// Node that plays all participants.
#[derive(Debug)]
pub struct Driver {
    config: DriverConfig,
    clients: Vec<Client>,
    opening: Opening,
    schedule: Schedule,
    /// A message that is due and waits for its turn, with its due time.
    held: Option<(u64, FlowMessage)>,
    /// By instrument: who asked for something last.
    last: BTreeMap<InstrumentId, usize>,
    tape: Tape,
    phase: Phase,
    next_conn: u32,
    timed: u64,
    not_asked: u64,
    started_at: Option<Nanos>,
    finished_at: Option<Nanos>,
    /// When patience with the current phase ends.
    deadline: Nanos,
    timed_out: bool,
    stopping: bool,
    /// Whether everything is answered and only executions may still come.
    settling: bool,
    lateness_max_ns: u64,
}

impl Driver {
    /// A driver that will load `opening` and then play `schedule`.
    ///
    /// # Errors
    /// A user name or password does not fit SoupBinTCP.
    pub fn new(
        config: DriverConfig,
        opening: Vec<FlowMessage>,
        schedule: Schedule,
    ) -> Result<Driver, BadCredentials> {
        let clients: Result<Vec<_>, _> = config
            .clients
            .iter()
            .enumerate()
            .map(|(index, client)| Client::new(index as u8, client.clone(), &config.instruments))
            .collect();
        Ok(Driver {
            clients: clients?,
            opening: Opening::new(opening),
            schedule,
            held: None,
            last: BTreeMap::new(),
            tape: Tape::new(config.tape),
            // Without participants there is nothing to wait for.
            phase: if config.clients.is_empty() { Phase::Idle } else { Phase::Connecting },
            next_conn: 1,
            timed: 0,
            not_asked: 0,
            started_at: None,
            finished_at: None,
            deadline: Nanos::NEVER,
            timed_out: false,
            stopping: false,
            settling: false,
            lateness_max_ns: 0,
            config,
        })
    }

    /// Phase of the run.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The participants.
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// What the participants saw; to be drained regularly.
    pub fn tape(&mut self) -> &mut Tape {
        &mut self.tape
    }

    /// Trades on one instrument whose both sides were seen, by flow ids.
    pub fn trades(&self, instrument: InstrumentId) -> impl Iterator<Item = Trade> + '_ {
        let of = self.tape.trades().iter().filter(move |joined| joined.instrument == instrument);
        of.map(|joined| joined.trade)
    }

    /// Plays nothing more; at the next timeout the drain begins.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// All counters.
    pub fn status(&self) -> Status {
        let mut ledger = LedgerCounts::default();
        let mut connections = ClientCounters::default();
        for client in &self.clients {
            ledger.add(&client.ledger().counts());
            connections.add(&client.counters());
        }
        Status {
            phase: self.phase,
            ledger,
            timed: self.timed,
            not_asked: self.not_asked,
            started_at: self.started_at,
            finished_at: self.finished_at,
            timed_out: self.timed_out,
            lateness_max_ns: self.lateness_max_ns,
            clients_up: self.clients.iter().filter(|client| client.is_up()).count() as u64,
            connections,
        }
    }

    fn outstanding(&self) -> u64 {
        self.clients.iter().map(|client| client.ledger().outstanding()).sum()
    }

    /// How many participants there are.
    pub fn participants(&self) -> usize {
        self.clients.len()
    }

    /// Moves on as far as what is known now allows.
    fn advance(&mut self, now: Nanos, out: &mut Outbox) {
        if self.phase == Phase::Connecting && self.clients.iter().all(Client::is_up) {
            self.enter(Phase::Loading, now.after(self.config.load_timeout_ns));
        }
        if self.stopping && self.phase < Phase::Draining {
            self.enter(Phase::Draining, now.after(self.config.drain_timeout_ns));
        }
        if self.phase == Phase::Loading {
            self.load(now);
        }
        if self.phase == Phase::Playing {
            self.play(now);
        }
        if self.phase == Phase::Draining {
            self.drain(now);
        }
        self.clients.iter_mut().for_each(|client| client.flush(out));
    }

    fn enter(&mut self, phase: Phase, deadline: Nanos) {
        (self.phase, self.deadline) = (phase, deadline);
    }

    fn load(&mut self, now: Nanos) {
        loop {
            let answered = self.outstanding() == 0;
            let Some(round) = self.opening.round(answered) else { break };
            let mut held = std::mem::take(round);
            let waiting = held.len();
            held.retain(|message| !self.load_one(now, *message));
            let sent = waiting - held.len();
            if let Some(round) = self.opening.round(false) {
                *round = held;
            }
            if sent == 0 {
                break;
            }
        }
        if self.opening.is_done() {
            self.started_at = Some(now.after(self.config.start_delay_ns));
            self.enter(Phase::Playing, Nanos::NEVER);
        } else if self.deadline <= now {
            self.timed_out = true;
            self.enter(Phase::Draining, now.after(self.config.drain_timeout_ns));
        }
    }

    /// False when the client's window is full.
    fn load_one(&mut self, now: Nanos, message: FlowMessage) -> bool {
        let window = self.config.window.max(1);
        match self.client_of(&message) {
            Some(client) if client.ledger().outstanding() >= window => return false,
            _ => self.submit(now, message, None),
        }
        true
    }

    fn play(&mut self, now: Nanos) {
        let Some(start) = self.started_at else { return };
        let until = self.config.duration_ns.unwrap_or(u64::MAX);
        loop {
            match self.schedule.next_due() {
                _ if self.held.is_some() => {}
                Some(due) if due >= until => break,
                Some(due) if start.after(due) > now => return,
                _ => {}
            }
            let Some((due, message)) = self.held.take().or_else(|| self.schedule.pop()) else {
                break;
            };
            if self.config.in_turn && !self.is_its_turn(&message) {
                self.held = Some((due, message));
                return;
            }
            let scheduled = start.after(due);
            self.lateness_max_ns = self.lateness_max_ns.max(now.since(scheduled));
            self.timed += 1;
            self.submit(now, message, Some(scheduled));
        }
        self.enter(Phase::Draining, now.after(self.config.drain_timeout_ns));
    }

    /// Whether nobody else's request on its instrument is under way; remembers whose this one is.
    fn is_its_turn(&mut self, message: &FlowMessage) -> bool {
        let client = self.index_of(message);
        let last = self.last.get(&message.instrument).copied().filter(|last| *last != client);
        let last = last.and_then(|last| self.clients.get(last));
        let is = last.is_none_or(|last| !last.is_up() || last.ledger().outstanding() == 0);
        if is {
            self.last.insert(message.instrument, client);
        }
        is
    }

    /// Ends when everything is answered and both sides of every trade have been seen. The other
    /// side of a trade may be nobody of ours, so for that there is only a short patience.
    fn drain(&mut self, now: Nanos) {
        let answered = self.outstanding() == 0;
        if answered && !self.settling {
            self.settling = true;
            self.deadline = self.deadline.min(now.after(self.config.settle_timeout_ns));
        }
        if answered && self.tape.unmatched() == 0 || self.deadline <= now {
            self.timed_out |= !answered;
            self.finished_at = Some(now);
            self.enter(Phase::Idle, Nanos::NEVER);
        }
    }

    fn index_of(&self, message: &FlowMessage) -> usize {
        usize::from(message.participant) % self.clients.len().max(1)
    }

    fn client_of(&mut self, message: &FlowMessage) -> Option<&mut Client> {
        let index = self.index_of(message);
        self.clients.get_mut(index)
    }

    fn submit(&mut self, now: Nanos, message: FlowMessage, scheduled: Option<Nanos>) {
        let submitted = match self.client_of(&message) {
            Some(client) => client.submit(now, message, scheduled),
            None => Err(NotAsked::Full),
        };
        self.not_asked += u64::from(submitted.is_err());
    }

    fn client_on(&mut self, conn: ConnId) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.conn() == Some(conn))
    }

    /// When the phase itself wants to go on.
    fn phase_timeout(&self) -> Nanos {
        if self.stopping && self.phase < Phase::Draining {
            return Nanos(0);
        }
        match (self.phase, self.started_at) {
            // An answer, or the end of a connection, is what it waits for.
            (Phase::Playing, _) if self.held.is_some() => Nanos::NEVER,
            (Phase::Playing, Some(start)) => {
                // With nothing left to play the phase ends at once.
                self.schedule.next_due().map_or(Nanos(0), |due| start.after(due))
            }
            (Phase::Loading | Phase::Draining, _) => self.deadline,
            _ => Nanos::NEVER,
        }
    }
}

impl Node for Driver {
    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        for client in &mut self.clients {
            if client.next_timeout() <= now.now {
                let used = client.handle_timeout(now.now, ConnId(self.next_conn), out);
                self.next_conn += u32::from(used);
            }
        }
        self.advance(now.now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let clients = self.clients.iter().map(Client::next_timeout);
        clients.fold(self.phase_timeout(), Nanos::min)
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(client) = self.client_on(conn) {
            client.handle_connect(now.now, out);
        }
        self.advance(now.now, out);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        let client = self.clients.iter_mut().find(|client| client.conn() == Some(conn));
        if let Some(client) = client {
            client.handle_stream(now.now, bytes, &mut self.tape, out);
        }
        self.advance(now.now, out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if let Some(client) = self.client_on(conn) {
            client.handle_close(now.now);
        }
        self.advance(now.now, out);
    }
}
