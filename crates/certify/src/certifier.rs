//! The certifier as a node: relays one client at a time to the exchange's own gateway.

use fix::{Frame, Framer};
use types::{Channel, ClockReading, ConnId, Nanos, Node, Outbox, Peer, Symbol};
use wire::soupbin;

use crate::Protocol;
use crate::counter::Counter;
use crate::facts::Facts;
use crate::fix_watch::{self, FixWatch};
use crate::ouch_watch::{self, OuchWatch};
use crate::report::{Report, Status, StepReport};
use crate::steps::{Progress, Step, Verdict};

/// Most bytes of a client that are held back; beyond it they are sent on.
pub const HELD_MAX: usize = 1 << 20;
/// Longest FIX message that is relayed, bytes.
const FIX_MESSAGE_MAX: usize = 64 << 10;
/// Time between two checks of the current step, ns.
const LOOK_NS: u64 = 20 * Nanos::MILLI;
/// Number of the certifier's own session; those to the gateway for the client follow.
const COUNTER: ConnId = ConnId(1);

/// Settings of a certification: doors, symbol, script.
#[derive(Clone, Debug)]
pub struct CertifierConfig {
    /// Protocol that the client speaks.
    pub protocol: Protocol,
    /// Address of the gateway's door for that protocol.
    pub gateway: Peer,
    /// Address of the gateway's OUCH door, for the certifier's own orders.
    pub counter_door: Peer,
    /// User name and password of the certifier's own session.
    pub counter_login: (String, String),
    /// Symbol of the instrument that is traded.
    pub symbol: Symbol,
    /// Steps of the script that are left out.
    pub skip: Vec<Step>,
    /// Longest wait for the client in each step, ns.
    pub patience_ns: u64,
    /// Whether the dialogue goes on after a step that the client did not do within that.
    pub keep_going: bool,
}

/// What the certifier does to the client's connection at present.
#[derive(Debug, Default)]
pub struct Interventions {
    /// Whether the client's bytes are held back.
    pub hold: bool,
    /// Whether no bytes are let through, in either direction.
    pub mute: bool,
    /// Whether the client's next order is given an impossible price.
    pub spoil: bool,
    /// Whether the next message to or from the client is dropped.
    pub lose_out: bool,
    pub lose_in: bool,
    /// Sequence number of the message that the client missed; `None`: none yet.
    pub lost: Option<u64>,
    /// Whether the connection is to be closed now.
    pub cut: bool,
    /// Whether no connection is accepted.
    pub closed: bool,
    /// Whether the market is to be in a call.
    pub call: bool,
}

impl Interventions {
    /// Ends all interventions in the connection.
    pub fn let_go(&mut self) {
        *self = Interventions::default();
    }
}

enum Framing {
    Fix(Framer),
    Soup(soupbin::Framer),
}

impl std::fmt::Debug for Framing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Framing::Fix(_) => "Fix",
            Framing::Soup(_) => "Soup",
        })
    }
}

impl Framing {
    fn new(protocol: Protocol) -> Framing {
        match protocol {
            Protocol::Fix => Framing::Fix(Framer::new(FIX_MESSAGE_MAX)),
            Protocol::Ouch => Framing::Soup(soupbin::Framer::new(soupbin::CLIENT_PACKET_MAX)),
        }
    }

    /// Passes every whole message on; the second argument is how it stands on the wire. False: what
    /// came is no message, and nothing that follows will be.
    fn take(&mut self, mut bytes: &[u8], mut on: impl FnMut(&[u8], &[u8])) -> bool {
        match self {
            Framing::Fix(framer) => loop {
                let taken = framer.push(bytes);
                bytes = bytes.get(taken..).unwrap_or(&[]);
                while let Some(frame) = framer.next_frame() {
                    match frame {
                        Frame::Message(message) => on(message, message),
                        Frame::Garbled => return false,
                    }
                }
                if bytes.is_empty() {
                    return true;
                }
                if taken == 0 {
                    return false;
                }
            },
            Framing::Soup(framer) => loop {
                match framer.next(&mut bytes) {
                    Ok(Some(frame)) => {
                        // A frame came with a length of two bytes.
                        let mut whole = (frame.len() as u16).to_be_bytes().to_vec();
                        whole.extend_from_slice(frame);
                        on(frame, &whole);
                    }
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            },
        }
    }
}

#[derive(Debug)]
enum Watch {
    Fix(Box<FixWatch>),
    Ouch(OuchWatch),
}

/// The client's connection, and the one to the gateway on its behalf.
#[derive(Debug)]
struct Line {
    client: ConnId,
    gateway: ConnId,
    open: bool,
    /// Bytes for the gateway that wait for its connection, or are held back.
    held: Vec<u8>,
    from_client: Framing,
    from_gateway: Framing,
}

/// The certifier: one client at a time, the script, and the report.
#[derive(Debug)]
pub struct Certifier {
    config: CertifierConfig,
    counter: Counter,
    counter_up: bool,
    counter_retry: Nanos,
    watch: Watch,
    facts: Facts,
    interventions: Interventions,
    line: Option<Line>,
    names: u32,
    script: Vec<Step>,
    /// Reports of the steps that are over.
    done: Vec<StepReport>,
    progress: Option<Progress>,
    faults_seen: usize,
    /// Whether the rest of the script was given up.
    given_up: bool,
    look_at: Nanos,
}

impl Certifier {
    /// Waits for its client; `None` when the certifier's own login does not fit SoupBinTCP.
    pub fn new(config: CertifierConfig) -> Option<Certifier> {
        let (user, password) = &config.counter_login;
        let counter = Counter::new(user, password, config.symbol)?;
        let watch = match config.protocol {
            Protocol::Fix => Watch::Fix(Box::default()),
            Protocol::Ouch => Watch::Ouch(OuchWatch::default()),
        };
        let left_out = |step: &Step| config.skip.contains(step) || !step.applies(config.protocol);
        Some(Certifier {
            script: Step::ALL.into_iter().filter(|step| !left_out(step)).collect(),
            counter,
            counter_up: false,
            counter_retry: Nanos(0),
            watch,
            facts: Facts { next_told: 1, ..Facts::default() },
            interventions: Interventions::default(),
            line: None,
            names: COUNTER.0,
            done: Vec::new(),
            progress: None,
            faults_seen: 0,
            given_up: false,
            look_at: Nanos(0),
            config,
        })
    }

    /// The step that is being done; `None` before the first and after the last.
    pub fn current(&self) -> Option<Step> {
        self.progress.as_ref().map(|progress| progress.step)
    }

    /// Steps that are over, in order.
    pub fn finished(&self) -> &[StepReport] {
        &self.done
    }

    /// Whether the market is to be in a call, for the owner to see to it.
    pub fn wants_call(&self) -> bool {
        self.interventions.call
    }

    /// Whether nothing more is asked of the client.
    pub fn is_done(&self) -> bool {
        self.given_up || self.done.len() == self.script.len()
    }

    /// The outcome; steps still to come count as not reached.
    pub fn report(&self) -> Report {
        let step = |step: Step| {
            let over = self.done.iter().find(|done| done.name == step.name());
            let status = match self.script.contains(&step) {
                true => Status::NotReached,
                false => Status::LeftOut,
            };
            let open = StepReport { name: step.name(), asked: step.asked(), status, took_ns: 0 };
            over.cloned().unwrap_or(open)
        };
        Report { protocol: self.config.protocol, steps: Step::ALL.map(step).to_vec() }
    }

    /// Judges the step that is being done, and begins the next when it is over.
    fn advance(&mut self, now: Nanos, out: &mut Outbox) {
        while !self.is_done() {
            let (facts, interventions) = (&mut self.facts, &mut self.interventions);
            let Some(progress) = &mut self.progress else {
                let Some(&step) = self.script.get(self.done.len()) else { return };
                self.progress = Some(Progress::new(step, now, facts, interventions));
                continue;
            };
            let mut trade = Vec::new();
            let mut verdict =
                progress.judge(now, facts, interventions, &mut self.counter, &mut trade);
            let step = progress.step;
            let took = now.since(progress.began);
            if let Some(fault) = self.facts.faults.get(self.faults_seen) {
                verdict = Verdict::Failed(fault.clone());
                self.faults_seen = self.facts.faults.len();
            }
            let patience = step.timeout_ns(self.config.patience_ns, self.facts.heartbeat_ns);
            let undone = matches!(verdict, Verdict::Wait);
            let goes_on = undone && took < patience;
            if !goes_on {
                self.counter.withdraw(now, &mut trade);
            }
            tell_gateway(&trade, out);
            if std::mem::take(&mut self.interventions.cut) {
                self.interventions.mute = false;
                self.drop_line(out);
            }
            if goes_on {
                return;
            }
            let status = match verdict {
                Verdict::Passed(seen) => Status::Passed(seen),
                Verdict::Failed(wrong) => Status::Failed(wrong),
                Verdict::Wait => {
                    Status::Failed(format!("not within {} s", patience / Nanos::SECOND))
                }
            };
            // Without a session there is nothing to judge; a client that does not do as asked
            // would let every further step wait, too.
            let failed = matches!(status, Status::Failed(_));
            self.given_up |= failed && step == Step::Logon || undone && !self.config.keep_going;
            self.finish(step, status, took, out);
        }
    }

    fn finish(&mut self, step: Step, status: Status, took_ns: u64, out: &mut Outbox) {
        let (name, asked) = (step.name(), step.asked());
        self.done.push(StepReport { name, asked, status, took_ns });
        self.progress = None;
        self.interventions.let_go();
        self.release(out);
    }

    fn client_bytes(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) {
        let Some(mut line) = self.line.take() else { return };
        let (facts, interventions, watch) =
            (&mut self.facts, &mut self.interventions, &mut self.watch);
        let held = &mut line.held;
        let fine = line.from_client.take(bytes, |message, whole| {
            let altered = match watch {
                Watch::Fix(watch) => {
                    watch.client_sends(now, message, facts);
                    interventions.spoil.then(|| fix_watch::off_the_tick(message)).flatten()
                }
                Watch::Ouch(watch) => {
                    watch.client_sends(now, message, facts);
                    let altered =
                        interventions.spoil.then(|| ouch_watch::off_the_tick(message)).flatten();
                    altered.map(|frame| [&(frame.len() as u16).to_be_bytes(), &frame[..]].concat())
                }
            };
            interventions.spoil &= altered.is_none();
            let lost = interventions.lose_in && fix_watch::is_order(message);
            interventions.lose_in &= !lost;
            if !lost && !interventions.mute {
                held.extend_from_slice(altered.as_deref().unwrap_or(whole));
            }
        });
        self.line = Some(line);
        if !fine {
            self.facts.fault("sent bytes that are no message".to_string());
            self.drop_line(out);
        }
        self.release(out);
    }

    /// Sends on the bytes that wait and need not wait any longer.
    fn release(&mut self, out: &mut Outbox) {
        let Some(line) = &mut self.line else { return };
        let hold = self.interventions.hold && line.held.len() < HELD_MAX;
        if line.open && !hold && !line.held.is_empty() {
            let span = out.store(&line.held);
            out.stream(line.gateway, span);
            line.held.clear();
        }
    }

    fn gateway_bytes(&mut self, bytes: &[u8], out: &mut Outbox) {
        let Some(mut line) = self.line.take() else { return };
        let (facts, interventions, watch) =
            (&mut self.facts, &mut self.interventions, &mut self.watch);
        let mut on = Vec::new();
        let _ = line.from_gateway.take(bytes, |message, whole| {
            let lost = interventions.lose_out && fix_watch::can_be_lost(message);
            if lost {
                (interventions.lose_out, interventions.lost) = (false, Some(facts.next_told));
            }
            if lost || interventions.mute {
                return;
            }
            match watch {
                Watch::Fix(watch) => watch.client_hears(message, facts),
                Watch::Ouch(watch) => watch.client_hears(message, facts),
            }
            on.extend_from_slice(whole);
        });
        if !on.is_empty() {
            let span = out.store(&on);
            out.stream(line.client, span);
        }
        self.line = Some(line);
    }

    /// Ends both connections of the client.
    fn drop_line(&mut self, out: &mut Outbox) {
        if let Some(line) = self.line.take() {
            out.close(line.client);
            out.close(line.gateway);
            self.facts.disconnected();
        }
    }

    fn login_counter(&mut self, now: Nanos, out: &mut Outbox) {
        if !self.counter_up && now >= self.counter_retry {
            self.counter_up = true;
            out.connect(COUNTER, self.config.counter_door);
        }
        let mut bytes = Vec::new();
        self.counter.handle_timeout(now, &mut bytes);
        tell_gateway(&bytes, out);
    }
}

/// Sends what the certifier's own session says, if it says anything.
fn tell_gateway(bytes: &[u8], out: &mut Outbox) {
    if !bytes.is_empty() {
        let span = out.store(bytes);
        out.stream(COUNTER, span);
    }
}

impl Node for Certifier {
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
        let now = now.now;
        self.look_at = now.after(LOOK_NS);
        self.login_counter(now, out);
        self.advance(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        if self.is_done() { Nanos::NEVER } else { self.look_at }
    }

    fn handle_connect(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if conn == COUNTER {
            let mut bytes = Vec::new();
            self.counter.connect(now.now, &mut bytes);
            tell_gateway(&bytes, out);
            return;
        }
        if let Some(line) = &mut self.line {
            if line.gateway == conn {
                line.open = true;
                self.release(out);
            } else {
                // One client at a time.
                out.close(conn);
            }
            return;
        }
        if self.interventions.closed {
            out.close(conn);
            return;
        }
        self.names += 1;
        let (gateway, protocol) = (ConnId(self.names), self.config.protocol);
        self.line = Some(Line {
            client: conn,
            gateway,
            open: false,
            held: Vec::new(),
            from_client: Framing::new(protocol),
            from_gateway: Framing::new(protocol),
        });
        out.connect(gateway, self.config.gateway);
    }

    fn handle_stream(&mut self, now: ClockReading, conn: ConnId, bytes: &[u8], out: &mut Outbox) {
        if conn == COUNTER {
            self.counter.handle_bytes(now.now, bytes);
        } else if self.line.as_ref().is_some_and(|line| line.client == conn) {
            self.client_bytes(now.now, bytes, out);
        } else if self.line.as_ref().is_some_and(|line| line.gateway == conn) {
            self.gateway_bytes(bytes, out);
        }
        self.advance(now.now, out);
    }

    fn handle_close(&mut self, now: ClockReading, conn: ConnId, out: &mut Outbox) {
        if conn == COUNTER {
            self.counter.handle_close();
            (self.counter_up, self.counter_retry) = (false, now.now.after(Nanos::SECOND));
        } else if let Some(line) = &self.line {
            let other = match conn {
                conn if conn == line.client => line.gateway,
                conn if conn == line.gateway => line.client,
                _ => return,
            };
            out.close(other);
            self.line = None;
            self.facts.disconnected();
        }
        self.advance(now.now, out);
    }
}
