//! The root: everything that is ordered, in one node.
//!
//! Order frames come in through the ingress and the sequencer, become inputs of the log, and the
//! engine's events go out as private records and market data. One call does all of it for
//! whatever is due, then flushes: a step's messages share datagrams (corner 12).
//!
//! Contract: an order is acknowledged to its gateway only once it is in the log, and durable there
//! if the log is kept durably ([`Root::keep_durably`]); everything that leaves is derived from the
//! log. Nothing here decides what an order means (the engine does) or
//! how data travels (the overlay does).

use engine::{
    Applied, Engine, Output,
    log::{Draft, InputLog},
};
use overlay::{
    control::{ControlHeader, ControlKind},
    frame::{
        self, AttachBody, FrameKind, GrantBody, HelloBody, HopHeader, OrderBody, PrivateAckBody,
    },
    ingress::{Ingress, Verdict},
    membership::Membership,
    order_ack::Progress,
    private_sender::{PrivateStreams, PrivateStreamsConfig},
    publisher::Publisher,
    sequencer::Sequenced,
    topology::Tree,
    upstream_queue::PacingFeedback,
};
use types::{
    AccountId, Channel, ClockReading, Command, CommandKind, ExecutionReport, GatewayId,
    Incarnation, Nanos, Node, NodeId, Outbox, Peer, Seq, Source, VenueClock,
};
use wire::itch;
use zerocopy::{IntoBytes, TryFromBytes};

use crate::config::{ExchangeConfig, ExchangeError};
use crate::dead_gateway_cancels::DeadGatewayCancels;
use crate::downlinks::{Downlinks, StreamRouter};
use crate::drop_copies::DropCopies;
use crate::{DayRecord, Timetable};

mod checkpoint;
mod directives;
mod durable;
mod expiry;
mod gone;
mod inbound;
mod member;
mod moves;
mod outcomes;
mod room;
mod schedule;
mod shards;
mod trees;

pub use checkpoint::CheckpointError;
pub use directives::DirectError;
use durable::Gate;
pub use durable::ResumeError;
use inbound::Inbound;
pub use member::LogGap;
use member::Standing;
use outcomes::Outcomes;
use room::Room;
pub use room::{Fill, Snapshots};
use schedule::Schedule;
pub use shards::BetweenCounters;
use shards::Shards;
pub use trees::ReplaceError;
use trees::Trees;

/// What the root itself counts; its parts have counters of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RootCounters {
    /// Datagrams that were unreadable, or of a kind the root does not take.
    pub malformed: u64,
    /// Order frames that did not carry an order.
    pub not_an_order: u64,
    /// Accounts whose orders were cancelled because their gateway was gone.
    pub lost_cancels: u64,
    /// Inputs not taken because even the log's reserve is full: commands, and lives of gateways.
    pub log_full: u64,
    /// Times that there was no room for orders; their gateways keep them.
    pub held_back: u64,
    /// Events that could not be written in their format; never above zero unless limits are wrong.
    pub unencodable: u64,
}

/// The root node.
pub struct Root {
    node: NodeId,
    trees: Trees,
    inbound: Inbound,
    log: InputLog,
    /// Where inputs wait until they are durable; `None`: they are applied at once.
    gate: Option<Gate>,
    engine: Engine,
    output: Output,
    itch: itch::Encoder,
    /// A publisher and a roll call per stream.
    downlinks: Downlinks,
    /// MoldUDP64 sessions, by stream.
    sessions: Vec<[u8; 10]>,
    private: PrivateStreams,
    drop_copies: DropCopies,
    schedule: Schedule,
    dead_gateway_cancels: DeadGatewayCancels,
    /// One of a group, which follows or leads; see [`Root::join_group`].
    group: Option<Standing>,
    outcomes: Outcomes,
    room: Room,
    /// The other shards; in a venue of several.
    shards: Option<Box<Shards>>,
    counters: RootCounters,
    /// The log is dated with it, and the timetable goes by it.
    venue_clock: VenueClock,
}

impl Root {
    /// The root of `trees`, one per stream of the feed and all of one epoch, its trading day not
    /// yet begun; its first timeout is due at once.
    pub fn new(config: &ExchangeConfig, trees: &[Tree]) -> Result<Root, ExchangeError> {
        let tree = trees.first().ok_or(ExchangeError::NoSuchTree)?;
        let node = ExchangeConfig::ROOT;
        let engine_config = config.engine();
        engine_config.check().map_err(ExchangeError::Engine)?;
        let drop_copies = DropCopies::new(config.shard.id, &config.accounts);
        let records_max = match config.log_capacity as u64 {
            0 => u64::MAX,
            inputs => inputs.saturating_mul(4 * (1 + drop_copies.most())),
        };
        let accounts = config.accounts.len() as u16;
        let record_len = size_of::<ExecutionReport>();
        let mut private = PrivateStreamsConfig::new(node, accounts, record_len, records_max);
        private.datagram_max = config.options.datagram_max();
        let private = PrivateStreams::new(private).ok_or(ExchangeError::PrivateStreams)?;
        let leavers = config.accounts.iter().filter(|one| one.cancel_on_disconnect);
        let patience_ns = private.lease_ns().saturating_add(config.cancel_grace_ns);
        let mut engine = Engine::new(engine_config);
        let shards = Shards::new(config, &mut engine);
        Ok(Root {
            dead_gateway_cancels: DeadGatewayCancels::new(leavers.map(|one| one.id), patience_ns),
            node,
            trees: Trees::new(config, tree)?,
            inbound: Inbound::new(config, tree),
            log: InputLog::new(config.log_capacity),
            gate: None,
            engine,
            output: Output::with_capacity(256, 256),
            itch: itch::Encoder::new(&config.instruments, config.midnight),
            downlinks: Downlinks::new(config, trees),
            sessions: trees.iter().map(|tree| config.session_of(tree.stream)).collect(),
            private,
            drop_copies,
            schedule: Schedule::new(&config.timetable),
            group: None,
            outcomes: Outcomes::new(),
            room: Room::default(),
            shards,
            counters: RootCounters::default(),
            venue_clock: VenueClock::default(),
        })
    }

    /// The engine, for its books and counters.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The input log.
    pub fn log(&self) -> &InputLog {
        &self.log
    }

    /// How events become ITCH messages.
    pub fn itch(&self) -> &itch::Encoder {
        &self.itch
    }

    /// The publisher of the first stream.
    pub fn publisher(&self) -> &Publisher {
        self.downlinks.first()
    }

    /// The publishers, one per stream, for their totals and delay estimates.
    pub fn publishers(&self) -> impl ExactSizeIterator<Item = &Publisher> {
        self.downlinks.publishers()
    }

    /// Which event went to which stream, and how far these are.
    pub fn router(&self) -> &StreamRouter {
        self.downlinks.router()
    }

    /// The ingress and its sequencer, for their totals.
    pub fn ingress(&self) -> &Ingress {
        &self.inbound.ingress
    }

    /// The private streams, for their totals.
    pub fn private(&self) -> &PrivateStreams {
        &self.private
    }

    /// Who answers and which trees there were in the first stream; with a roll call only.
    pub fn membership(&self) -> Option<&Membership> {
        self.downlinks.memberships().next()
    }

    /// Who answers and which trees there were, stream by stream; with a roll call only.
    pub fn memberships(&self) -> impl Iterator<Item = &Membership> {
        self.downlinks.memberships()
    }

    /// Auctions and halts so far.
    pub fn day(&self) -> &DayRecord {
        &self.schedule.day
    }

    /// What the root itself counted.
    pub fn counters(&self) -> RootCounters {
        self.counters
    }

    fn handle_control(&mut self, now: ClockReading, bytes: &[u8], out: &mut Outbox) {
        let read = ControlHeader::read(bytes).filter(|(h, _)| h.kind == ControlKind::Status);
        let taken = read.is_some_and(|(header, rest)| {
            self.downlinks.handle_status(now.now, &header, rest, out)
        });
        match taken {
            true => self.follow_tree(),
            false => self.counters.malformed += 1,
        }
    }

    /// Headers name the epoch of the publisher's tree.
    fn follow_tree(&mut self) {
        // All streams begin in one epoch; with several the trees never change.
        let epoch = self.membership().map_or(self.trees.epoch, |known| known.tree().epoch);
        if epoch != self.trees.epoch {
            self.trees.epoch = epoch;
            self.inbound.acks.set_epoch(epoch);
            self.private.set_epoch(epoch);
        }
    }

    fn handle_frame(&mut self, now: ClockReading, bytes: &[u8], out: &mut Outbox) {
        if ControlHeader::is_control(bytes) {
            self.handle_control(now, bytes, out);
            return;
        }
        let Ok((header, rest)) = HopHeader::read(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        match header.kind {
            FrameKind::Order => self.handle_order(now, &header, rest),
            FrameKind::Hello => match frame::body::<HelloBody>(rest) {
                Ok((hello, [])) => self.handle_hello(now, header.sender, &hello, out),
                _ => self.counters.malformed += 1,
            },
            FrameKind::Attach => match frame::body::<AttachBody>(rest) {
                Ok((body, [])) => {
                    self.private.handle_attach(now, header.sender, &body, out);
                    if self.private.attached_at(body.account).is_some() {
                        self.dead_gateway_cancels.attached(body.account);
                    }
                }
                _ => self.counters.malformed += 1,
            },
            FrameKind::PrivateAck => match frame::body::<PrivateAckBody>(rest) {
                Ok((body, [])) => self.private.handle_ack(now, header.sender, &body, out),
                _ => self.counters.malformed += 1,
            },
            FrameKind::Delay | FrameKind::RepairRequest => {
                self.downlinks.handle_frame(now, &header, rest, out);
            }
            FrameKind::Data
            | FrameKind::Repair
            | FrameKind::OrderAck
            | FrameKind::Grant
            | FrameKind::AttachReply
            | FrameKind::Private => self.counters.malformed += 1,
        }
    }

    fn handle_order(&mut self, now: ClockReading, header: &HopHeader, rest: &[u8]) {
        let Ok((order, payload)) = frame::body::<OrderBody>(rest) else {
            self.counters.malformed += 1;
            return;
        };
        if let Some(feedback) = &mut self.inbound.feedback {
            feedback.heard(now.now, header);
        }
        // Checked before it is remembered: what is remembered must be able to reach the log.
        if read_order(payload).is_none() {
            self.counters.not_an_order += 1;
            return;
        }
        match self.inbound.ingress.handle_order(now, header, &order, payload) {
            Verdict::Duplicate | Verdict::Parked => self.inbound.acks.mark(order.source.gateway),
            Verdict::Taken
            | Verdict::UnknownGateway
            | Verdict::StaleIncarnation
            | Verdict::TooFar
            | Verdict::Invalid
            | Verdict::Full => {}
        }
    }

    /// Grants an incarnation through the log, once per start of the gateway.
    fn handle_hello(
        &mut self,
        now: ClockReading,
        sender: NodeId,
        hello: &HelloBody,
        out: &mut Outbox,
    ) {
        let gateway = hello.gateway;
        let index = usize::from(gateway.0);
        // Nobody asks for another's life.
        let Some(to) = self.node_of(gateway).filter(|node| *node == sender) else {
            self.counters.malformed += 1;
            return;
        };
        match self.inbound.granted[index] {
            Some((nonce, incarnation)) if nonce == hello.boot_nonce => {
                self.send_grant((gateway, nonce, incarnation), to, out);
            }
            _ => {
                let nonce = hello.boot_nonce;
                if !self.has_room() {
                    self.counters.log_full += 1;
                    return;
                }
                if self.gate.as_mut().is_some_and(|gate| !gate.begin_grant(gateway, nonce)) {
                    return;
                }
                let mut command = Command::new(CommandKind::GrantIncarnation);
                command.user_ref.0 = nonce;
                let source = Source { gateway, ..self.own_source() };
                let draft = Draft { t_in: now.now, source, flags: 0, command };
                if self.enter_log(now, draft) {
                    self.give_journal(out);
                    self.apply_logged(now, out);
                } else if let Some(gate) = &mut self.gate {
                    gate.end_grant(gateway, nonce);
                }
            }
        }
    }

    /// Tells gateways of the lives that the log has given them.
    fn pass_grants(&mut self, out: &mut Outbox) {
        while let Some(grant) = self.inbound.grants.pop() {
            let (gateway, nonce, incarnation) = grant;
            if let Some(gate) = &mut self.gate {
                gate.end_grant(gateway, nonce);
            }
            // A Hello of an earlier start that was long on its way: the present life goes on.
            let Some(to) = self.node_of(gateway) else { continue };
            if incarnation != self.engine.received(gateway).0 {
                continue;
            }
            self.inbound.granted[usize::from(gateway.0)] = Some((nonce, incarnation));
            self.inbound.ingress.set_incarnation(gateway, incarnation);
            self.send_grant(grant, to, out);
        }
    }

    fn send_grant(
        &self,
        (gateway, boot_nonce, incarnation): (GatewayId, u32, Incarnation),
        to: NodeId,
        out: &mut Outbox,
    ) {
        let grant = GrantBody { gateway, reserved: 0, boot_nonce, incarnation };
        let header = HopHeader::new(FrameKind::Grant, self.node, self.trees.epoch);
        let bytes = out.write(|buffer| frame::encode(buffer, header, &grant, &[]));
        out.datagram(Channel::OVERLAY, Peer::Node(to), bytes);
    }

    fn node_of(&self, gateway: GatewayId) -> Option<NodeId> {
        self.inbound.gateways.get(usize::from(gateway.0).checked_sub(1)?).copied()
    }

    /// Puts an input into the log; false when it is full.
    fn enter_log(&mut self, now: ClockReading, draft: Draft) -> bool {
        let at = |now: Nanos| self.venue_clock.at(now);
        let (t_seq, draft) = (at(now.now), Draft { t_in: at(draft.t_in), ..draft });
        let entered = self.log.append(t_seq, draft).is_ok();
        self.counters.log_full += u64::from(!entered);
        entered
    }

    /// Applies what is in the log and not applied yet, as far as the gate lets it, and passes the
    /// events on; says what became of the last.
    fn apply_logged(&mut self, now: ClockReading, out: &mut Outbox) -> Option<Applied> {
        if self.schedule.ended && self.group.is_none() {
            // The feed is over: what becomes durable now is for the next start.
            return None;
        }
        let Root { engine, log, output, private, counters, itch, downlinks, outcomes, .. } = self;
        let day = &mut self.schedule.day;
        let drop_copies = &self.drop_copies;
        let Inbound { grants, acks, .. } = &mut self.inbound;
        let gate = &self.gate;
        // Who follows tells nobody.
        let follows = self.group == Some(Standing::Follows);
        let mut shards = self.shards.as_mut().filter(|_| !follows);
        let mut last = None;
        let gate = gate.as_ref();
        let inputs = log.after(Seq(engine.applied()));
        let inputs = inputs.take_while(|input| gate.is_none_or(|gate| gate.lets(input)));
        engine.apply_all(inputs, output, |_, input, applied, output| {
            last = Some(applied);
            outcomes.note(input, applied);
            if let Applied::Granted(incarnation) = applied {
                grants.push((input.source.gateway, input.command.user_ref.0, incarnation));
            }
            if gate.is_some() {
                // It was marked when it came, and perhaps acknowledged without this one since.
                acks.mark(input.source.gateway);
            }
            output.market.iter().for_each(|(_, event)| day.note(input.t_seq, event));
            counters.unencodable +=
                downlinks.publish(now, (input.t_seq, &output.market), itch, out);
            for report in &output.executions {
                let report = downlinks.placed(report);
                let appended = private.append(report.account, report.as_bytes());
                counters.unencodable += match appended {
                    Ok(position) => drop_copies.append(&report, position, private),
                    Err(_) => 1,
                };
                if let Some(shards) = &mut shards {
                    shards.note_stream(report.account);
                    drop_copies.to(report.account).iter().for_each(|to| shards.note_stream(*to));
                }
            }
            if let Some(shards) = shards.as_mut().filter(|_| applied == Applied::Done) {
                shards.note_applied(&input.command);
            }
            output.clear();
        });
        self.assert_applied();
        if self.schedule.ends_when_applied && self.waiting() == 0 {
            self.schedule.ends_when_applied = false;
            self.downlinks.end_session(now, out);
        }
        self.pass_grants(out);
        self.follow_record(now, out);
        last
    }

    /// Puts one input into the log, applies it and passes its events on.
    fn log_and_apply(
        &mut self,
        now: ClockReading,
        draft: Draft,
        out: &mut Outbox,
    ) -> Option<Applied> {
        if !self.enter_log(now, draft) {
            return None;
        }
        self.give_journal(out);
        self.apply_logged(now, out)
    }

    fn take(&mut self, now: ClockReading, order: &Sequenced) {
        let Some(command) = read_order(order.payload.as_slice()) else { return };
        let Sequenced { source, t_in, flags, .. } = *order;
        if self.enter_log(now, Draft { t_in, source, flags, command }) {
            self.inbound.acks.mark_logged(order);
        }
    }

    /// Moves whatever is due through the log, then lets everything out.
    fn pump(&mut self, now: ClockReading, out: &mut Outbox) {
        if self.inbound.more {
            return;
        }
        for _ in 0..PUMP_MAX {
            if !self.gate_has_room() || !self.has_room() {
                break;
            }
            let Some(order) = self.inbound.ingress.pop_due(now).filter(|_| !self.schedule.ended)
            else {
                break;
            };
            self.take(now, &order);
        }
        self.give_journal(out);
        self.apply_logged(now, out);
        self.note_room(now.now);
        self.recycle();
        self.downlinks.flush(now, out);
        self.private.flush(now, out);
        self.tell_shards(now, out);
        let (engine, ingress, nodes) =
            (&self.engine, &self.inbound.ingress, &self.inbound.gateways);
        let lookup = |gateway: GatewayId| {
            let to = *nodes.get(usize::from(gateway.0).checked_sub(1)?)?;
            let (incarnation, logged) = engine.received(gateway);
            Some(Progress { to, incarnation, logged, arrivals: ingress.arrivals(gateway) })
        };
        self.inbound.acks.flush_due(now.now, lookup, out);
    }

    /// Tells every listener that the feed's session is over. Orders that still come are not taken
    /// and not acknowledged: their market data could not be published.
    ///
    /// In a group it is over when what waits for its commit is published, too.
    pub fn end_session(&mut self, now: ClockReading, out: &mut Outbox) {
        self.schedule.ended = true;
        if self.group.is_none() || self.waiting() == 0 {
            self.downlinks.end_session(now, out);
        } else {
            self.schedule.ends_when_applied = true;
        }
    }

    /// Logs and applies a command of the exchange's operators, and lets out what follows. `None`
    /// when the log is full, the session has ended, or for a command that only a participant or a
    /// gateway may give; also where the log is kept durably: what becomes of it [`Root::outcome`] says later.
    /// It waits for none of the orders that wait, and has room where they have none.
    pub fn operator(
        &mut self,
        now: ClockReading,
        command: Command,
        out: &mut Outbox,
    ) -> Option<Applied> {
        let applied = self.command(now, command, out);
        self.pump(now, out);
        applied
    }

    /// Replaces what is still due of the trading day; what repeats goes on. In a group every root has
    /// to be told.
    pub fn set_timetable(&mut self, timetable: Timetable) {
        self.schedule.replace(timetable);
    }

    /// Does what the timetable says is due.
    fn keep_time(&mut self, now: ClockReading, out: &mut Outbox) {
        let at = self.venue_clock.at(now.now);
        while let Some(shape) = self.schedule.timetable.pop_tree(at) {
            self.change_tree(now, shape, out);
        }
        while !self.schedule.ended {
            let day = &self.schedule.day;
            let Some(command) = self.schedule.timetable.pop(at, |id| day.in_call(id)) else {
                return;
            };
            self.command(now, command, out);
        }
    }

    fn command(
        &mut self,
        now: ClockReading,
        command: Command,
        out: &mut Outbox,
    ) -> Option<Applied> {
        let foreign = is_order(command.kind)
            || matches!(
                command.kind,
                CommandKind::GrantIncarnation
                    | CommandKind::SessionSlot
                    | CommandKind::Allot
                    | CommandKind::MergeStream
                    | CommandKind::MovePart
            );
        if foreign || self.schedule.ended || self.follows() {
            return None;
        }
        let draft = Draft { t_in: now.now, source: self.own_source(), flags: 0, command };
        self.log_and_apply(now, draft, out)
    }
}

/// Orders that go through before what follows from them goes out; the rest is due at once.
const PUMP_MAX: usize = 512;
/// Orders are of no stream; what is said of them names this one.
const STREAM: u16 = 0;
/// Orders that the root's paced children may have on their way together.
const INLET_ROOM: usize = 1_024;

/// Whether a command is a participant's own.
fn is_order(kind: CommandKind) -> bool {
    matches!(kind, CommandKind::NewOrder | CommandKind::Cancel | CommandKind::Replace)
}

/// The order in a payload; `None` for anything a gateway may not ask for.
fn read_order(payload: &[u8]) -> Option<Command> {
    let command = Command::try_read_from_bytes(payload).ok()?;
    // A mass cancel of no account would be one of all of them: only the exchange asks for that.
    let own = matches!(command.kind, CommandKind::MassCancel | CommandKind::SessionSlot)
        && command.account != AccountId(0);
    (is_order(command.kind) || own).then_some(command)
}

impl Node for Root {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        if channel == Channel::FEED {
            self.downlinks.handle_public_request(now, from, bytes, &self.sessions, out);
            return;
        }
        match channel {
            Channel::SHARDS => self.handle_shard(now, bytes, out),
            _ => self.handle_frame(now, bytes, out),
        }
        self.pump(now, out);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.keep_time(now, out);
        self.cancel_lost(now, out);
        self.expire_orders(now, out);
        self.downlinks.handle_timeout(now, out);
        self.private.handle_timeout(now, out);
        self.downlinks.call_roll(now.now, out);
        self.follow_tree();
        self.replace_silent(now, out);
        self.serve_shards(now, out);
        if let Some(feedback) = &mut self.inbound.feedback {
            let (kind, node) = (ControlKind::HopReport, self.node);
            let header = ControlHeader::new(kind, node, self.trees.epoch, STREAM);
            feedback.handle_timeout(now.now, INLET_ROOM, header, out);
        }
        self.pump(now, out);
    }

    fn handle_durable(&mut self, now: ClockReading, position: u64, out: &mut Outbox) {
        if let Some(gate) = &mut self.gate {
            gate.open_to(position);
            self.pump(now, out);
        }
    }

    fn expect_more(&mut self) {
        self.inbound.more = true;
    }

    fn handle_batch(&mut self, now: ClockReading, out: &mut Outbox) {
        self.inbound.more = false;
        self.pump(now, out);
    }

    fn next_timeout(&self) -> Nanos {
        if self.inbound.more {
            return Nanos::NEVER;
        }
        // What is due waits for room at the gate, not for a time.
        let due = |at: Nanos| match self.gate_has_room() {
            true => self.room_at(at),
            false => Nanos::NEVER,
        };
        let timers = [
            self.venue_clock.when(self.schedule.next_due()),
            due(self.inbound.ingress.next_timeout()),
            due(self.venue_clock.when(self.expiry_due())),
            self.downlinks.next_timeout(),
            self.private.next_timeout(),
            if self.schedule.ended {
                Nanos::NEVER
            } else {
                self.dead_gateway_cancels.next_timeout()
            },
            self.inbound.acks.next_timeout(),
            self.shards.as_ref().map_or(Nanos::NEVER, |shards| shards.next_timeout()),
            self.inbound.feedback.as_ref().map_or(Nanos::NEVER, PacingFeedback::next_timeout),
        ];
        timers.into_iter().min().unwrap_or(Nanos::NEVER)
    }
}
