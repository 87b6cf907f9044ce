//! The group of a root that is one of several: the machines of the group behind one place of the
//! overlay, the network between them, their disks, and what goes wrong there.
//!
//! To everybody else it is the node with the root's number. What is sent to it goes to the machine
//! that led last in the highest term; what machines send leaves as the root's. Between them
//! messages get lost, repeated and late; partitions are among machines, a machine that is cut off
//! hears nobody at all.

mod checks;
mod machine;

use engine::MoveFault;
use exchange::{ExchangeConfig, Life, Member, Role, Secret};
use journal::JournalError;
use overlay::sealed_link::Fleet;
use replication::{Action, ReplicaId};
use types::{Channel, ClockReading, Nanos, Node, Outbox, Peer, SplitMix64};

use crate::queue::Queue;

use super::{faults::FaultKind, report::Figures, sabotage::Sabotage};
use machine::{Done, Machine};

/// A disk that is full may have room again after this, ns.
const ROOM_NS: u64 = 10 * Nanos::MILLI;
/// The retransmission server of each machine is at the channel with its index added to this.
const DOORS: u8 = 16;
/// How far ahead the clocks are by which a [`Sabotage::HastyRetransmission`] answers, ns.
const HASTE_NS: u64 = 10 * Nanos::MILLI;
/// More operations than a disk ever does.
const NO_CRASH: u64 = 1 << 40;

/// Something that happens to a machine.
enum Event {
    Start,
    /// Its disk has done what it was doing.
    Disk,
    /// Its disk may have room again.
    Room,
    Message(Vec<u8>),
    Datagram(Channel, Peer, Vec<u8>),
    /// A partition is over.
    Joined,
}

/// What happened behind a group's place.
#[derive(Clone, Copy, Default)]
struct SeatCounts {
    /// Followers killed, leaders killed, machines that a disk stopped.
    crashes: [u64; 3],
    pauses: u64,
    partitions: u64,
    cut_off: u64,
    /// Messages lost, repeated, or sent to somebody out of reach.
    messages: [u64; 3],
    /// Times that somebody else began to lead.
    terms: u64,
    /// What disks did: torn, lost or short writes, failures, full, slow.
    disk: u64,
    /// Positions at which digests were compared.
    compared: u64,
}

/// The replicas that stand in the root's place.
pub(super) struct ReplicaGroup {
    config: ExchangeConfig,
    machines: Vec<Machine>,
    events: Queue<(usize, u32, Event)>,
    rng: SplitMix64,
    /// Permille of messages between machines that are lost, repeated and late.
    weather: [u64; 3],
    /// Which side of a partition each machine is on.
    sides: Vec<u8>,
    /// The highest term that anybody led in, and who.
    led: (u64, usize),
    healed: bool,
    stopped: Vec<String>,
    sabotage: Sabotage,
    /// What its roots do wrong when an instrument moves.
    moves_wrongly: Option<MoveFault>,
    unheard: Vec<Unheard>,
    counts: SeatCounts,
}

/// What a leader published while nothing of it got out: when, in which stream, which messages, and
/// their deadline.
type Unheard = (Nanos, usize, (u64, u64), Nanos);

impl ReplicaGroup {
    /// The machines of a group, to be started by the first timeout.
    pub(super) fn new(
        config: &ExchangeConfig,
        replicas: u8,
        bound_ns: u64,
        sabotage: Sabotage,
    ) -> ReplicaGroup {
        let mut rng = SplitMix64::new(SplitMix64::mix(config.seed) ^ 0x5EA7_0000);
        let most = bound_ns / 10;
        let machines = (1..=replicas).map(|id| {
            let offset_ns = rng.below(2 * most + 1) as i64 - most as i64;
            Machine::new(id, rng.next_u64(), offset_ns)
        });
        let machines: Vec<Machine> = machines.collect();
        let weather = [rng.below(30), rng.below(30), rng.below(30)];
        let mut group = ReplicaGroup {
            config: config.clone(),
            sides: vec![0; machines.len()],
            machines,
            events: Queue::new(),
            rng,
            weather,
            led: (0, 0),
            healed: false,
            stopped: Vec::new(),
            sabotage,
            moves_wrongly: None,
            unheard: Vec::new(),
            counts: SeatCounts::default(),
        };
        (0..usize::from(replicas)).for_each(|n| group.push(Nanos(0), n, Event::Start));
        group
    }

    /// A mistake of all its machines, before they start.
    pub(super) fn move_wrongly(&mut self, fault: MoveFault) {
        self.moves_wrongly = Some(fault);
    }

    /// The machines, and those that start from now on, get their ring of another secret; lives are
    /// drawn from a number. Whether all that run have taken it.
    pub(super) fn rekey(
        &mut self,
        now: ClockReading,
        secret: &Secret,
        fleet: &Fleet,
        life: u64,
    ) -> bool {
        self.config.options.secret = Some(secret.clone());
        let mut done = true;
        for machine in &mut self.machines {
            let (reading, id) = (machine.reading(now), u64::from(machine.id));
            let Some(up) = machine.up.as_mut() else { continue };
            let ring = secret.ring(ExchangeConfig::ROOT, fleet);
            done &= up.role.rekey(reading, ring, Life::of(life ^ id << 56));
        }
        done
    }

    /// Times that somebody else began to lead.
    pub(super) fn terms(&self) -> u64 {
        self.counts.terms
    }

    /// What leaders published unheard.
    pub(super) fn take_unheard(&mut self) -> Vec<Unheard> {
        std::mem::take(&mut self.unheard)
    }

    /// The channel of the group's address at which the retransmission server of machine `n` is.
    pub(super) fn door(n: u8) -> Channel {
        Channel(DOORS + n)
    }

    /// Who leads now in the highest term.
    fn leads(&self) -> Option<usize> {
        let leads = |n: &usize| self.machines[*n].leading().is_some();
        (0..self.machines.len()).filter(leads).max_by_key(|n| self.machines[*n].leading())
    }

    pub(super) fn leader(&self) -> Option<&Role> {
        self.machines[self.leads()?].up.as_ref().map(|up| &up.role)
    }

    pub(super) fn leader_mut(&mut self) -> Option<&mut Role> {
        let n = self.leads()?;
        self.machines[n].up.as_mut().map(|up| &mut up.role)
    }

    fn push(&mut self, at: Nanos, n: usize, event: Event) {
        let life = self.machines[n].life;
        self.events.push(at, (n, life, event));
    }

    /// Calls a machine's node, then does what it wants of the others and of its disk.
    fn call(
        &mut self,
        (n, now): (usize, ClockReading),
        out: &mut Outbox,
        call: impl FnOnce(&mut Role, ClockReading, &mut Outbox),
    ) {
        let machine = &mut self.machines[n];
        let reading = machine.reading(now);
        let Some(up) = machine.up.as_mut() else { return };
        let mut unheard = Outbox::default();
        let cut = machine.cut_until > now.now;
        let sent = |role: &Role| role.as_root().map(exchange::Root::sent);
        let before = if cut { sent(&up.role) } else { None };
        call(&mut up.role, reading, if cut { &mut unheard } else { out });
        let leads = up.role.as_member().and_then(Member::leading) >= Some(self.led.0);
        if let (Some(before), Some(root)) = (before.filter(|_| leads), up.role.as_root()) {
            let told = before.iter().zip(root.publishers()).enumerate();
            self.unheard.extend(told.filter_map(|(stream, (from, publisher))| {
                let (end, at) = (publisher.sent().0, now.now);
                let of = publisher.release(reading.now);
                let deadline = Nanos(of.release.0 - of.bound_ns.min(of.release.0));
                (end > from.0).then_some((at, stream, (from.0, end), deadline))
            }));
        }
        if let Some(term) = machine.leading().filter(|term| *term > self.led.0) {
            self.led = (term, n);
            self.counts.terms += 1;
        }
        self.backstage(n, now);
    }

    fn with_member(
        &mut self,
        (n, now): (usize, ClockReading),
        out: &mut Outbox,
        call: impl FnOnce(&mut Member, ClockReading, &mut Outbox),
    ) {
        self.call((n, now), out, |role, now, out| {
            if let Some(member) = role.as_member_mut() {
                call(member, now, out);
            }
        });
    }

    fn backstage(&mut self, n: usize, now: ClockReading) {
        let Some(up) = self.machines[n].up.as_mut() else { return };
        for action in up.take_actions() {
            match action {
                Action::Send { to: ReplicaId(to), bytes } => {
                    self.send(n, usize::from(to) - 1, now.now, &bytes);
                }
                Action::Stop(why) => self.stopped.push(format!("replica {}: {why}", n + 1)),
                Action::Differs { who, position } => {
                    let what = format!("replica {}: {who} differs at {position}", n + 1);
                    self.stopped.push(what);
                }
                _ => {}
            }
        }
        self.begin_job(n, now.now);
    }

    fn begin_job(&mut self, n: usize, now: Nanos) {
        let Some(up) = self.machines[n].up.as_mut() else { return };
        match up.begin_job() {
            Ok(None) => {}
            Ok(Some(ns)) => self.push(now.after(ns.max(1)), n, Event::Disk),
            Err(JournalError::Full(_)) => self.push(now.after(ROOM_NS), n, Event::Room),
            Err(_) => {
                self.counts.crashes[2] += 1;
                self.kill(n, now);
            }
        }
    }

    /// Between machines.
    fn send(&mut self, from: usize, to: usize, now: Nanos, bytes: &[u8]) {
        let cut = |n: usize| self.machines[n].cut_until > now;
        if self.sides[from] != self.sides[to] || cut(from) || cut(to) {
            self.counts.messages[2] += 1;
            return;
        }
        let [loss, repeat, late] = self.weather;
        if self.rng.permille(loss) {
            self.counts.messages[0] += 1;
            return;
        }
        let twice = self.rng.permille(repeat);
        self.counts.messages[1] += u64::from(twice);
        for _ in 0..1 + u64::from(twice) {
            let ns = 30_000 + self.rng.below(60_000);
            let extra = if self.rng.permille(late) { self.rng.below(40 * Nanos::MILLI) } else { 0 };
            self.push(now.after(ns + extra), to, Event::Message(bytes.to_vec()));
        }
    }

    fn kill(&mut self, n: usize, now: Nanos) {
        if self.machines[n].up.is_none() {
            return;
        }
        self.machines[n].stop();
        let down = (5 + self.rng.below(300)) * Nanos::MILLI;
        self.push(now.after(down), n, Event::Start);
    }

    fn happen(&mut self, n: usize, life: u32, event: Event, now: ClockReading, out: &mut Outbox) {
        let current = self.machines[n].life == life;
        match event {
            Event::Start => self.start(n, now),
            Event::Message(bytes) => {
                self.with_member((n, now), out, |member, now, out| {
                    member.handle_message(now, &bytes, out);
                });
            }
            Event::Datagram(channel, from, bytes) => {
                self.datagram((n, now), (channel, from, &bytes), out);
            }
            Event::Room if current => self.begin_job(n, now.now),
            Event::Disk if current => self.disk_done(n, now, out),
            Event::Joined => self.sides.fill(0),
            Event::Room | Event::Disk => {}
        }
    }

    fn start(&mut self, n: usize, now: ClockReading) {
        let replicas = self.machines.len() as u8;
        let again = self.machines[n].start((&self.config, replicas), now);
        if again {
            self.push(now.now.after(20 * Nanos::MILLI), n, Event::Start);
        }
        if let (Some(fault), Some(up)) = (self.moves_wrongly, &mut self.machines[n].up) {
            let mut nobody = Outbox::default();
            up.role.with_root(&mut nobody, |root, _| root.move_wrongly(fault));
        }
        if let (Sabotage::EagerFollowers, Some(up)) = (self.sabotage, &mut self.machines[n].up) {
            let told = [1u64 << 60, 1, 0, 0].map(u64::to_le_bytes).concat();
            let told = told.repeat(usize::from(self.config.options.streams()));
            let mut nobody = Outbox::default();
            up.role.with_root(&mut nobody, |root, _| root.learn_releases(now, &told));
        }
    }

    /// A machine gets a datagram.
    fn datagram(
        &mut self,
        (n, mut now): (usize, ClockReading),
        (channel, from, bytes): (Channel, Peer, &[u8]),
        out: &mut Outbox,
    ) {
        if channel == Channel::FEED && self.sabotage == Sabotage::HastyRetransmission {
            now.now = now.now.after(HASTE_NS);
        }
        self.call((n, now), out, |role, now, out| {
            role.handle_datagram(now, channel, from, bytes, out);
        });
    }

    fn disk_done(&mut self, n: usize, now: ClockReading, out: &mut Outbox) {
        let Some(up) = self.machines[n].up.as_mut() else { return };
        let done = up.under_way.take();
        self.with_member((n, now), out, |member, now, out| match done {
            Some(Done::Written(number)) => member.handle_written(now, number, out),
            Some(Done::Fetched(number, entries)) => {
                member.handle_fetched(now, (number, entries), out);
            }
            None => {}
        });
    }

    /// One of the faults of machines strikes, for so long as is given, else `drawn_ns`; a pause
    /// draws its own length.
    pub(super) fn strike(
        &mut self,
        kind: FaultKind,
        now: Nanos,
        given_ns: Option<u64>,
        drawn_ns: u64,
    ) {
        if self.healed {
            return;
        }
        let for_ns = given_ns.unwrap_or(drawn_ns);
        let any = self.rng.below(self.machines.len() as u64) as usize;
        let leader = self.leads().unwrap_or(any);
        let either = if self.rng.below(2) == 0 { leader } else { any };
        match kind {
            FaultKind::CrashLeader => self.crash(leader, now),
            FaultKind::CrashReplica => self.crash(any, now),
            FaultKind::PauseReplica => {
                let drawn = (20 + self.rng.below(400)) * Nanos::MILLI;
                let ns = given_ns.unwrap_or(drawn);
                let machine = &mut self.machines[either];
                machine.paused_until = machine.paused_until.max(now.after(ns));
                self.counts.pauses += 1;
            }
            FaultKind::PartReplicas => {
                self.counts.partitions += 1;
                self.sides.fill(0);
                self.sides[either] = 1;
                self.push(now.after(for_ns), either, Event::Joined);
            }
            FaultKind::CutReplica => {
                self.counts.cut_off += 1;
                self.machines[either].cut_until = now.after(for_ns);
            }
            FaultKind::TearDisk => {
                let at = self.rng.below(12);
                self.machines[either].with_disk(|disk| disk.crash_at(at));
            }
            FaultKind::SpoilDisk => self.spoil(either),
            _ => {}
        }
    }

    fn crash(&mut self, n: usize, now: Nanos) {
        if self.machines[n].up.is_some() {
            let led = self.machines[n].leading().is_some();
            self.counts.crashes[usize::from(led)] += 1;
        }
        self.kill(n, now);
    }

    fn spoil(&mut self, n: usize) {
        let (kind, amount) = (self.rng.below(4), 1 + self.rng.below(200));
        let faults = match kind {
            0 => journal::DiskFaults { short: amount, ..Default::default() },
            1 => journal::DiskFaults { failing: amount / 4, ..Default::default() },
            2 => journal::DiskFaults { slow: amount, ..Default::default() },
            // Room for nothing new.
            _ => journal::DiskFaults { room: 1, slow: amount, ..Default::default() },
        };
        self.machines[n].with_disk(|disk| disk.set_faults(faults));
    }

    /// All is mended.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.weather = [0; 3];
        self.sides.fill(0);
        for machine in &mut self.machines {
            (machine.paused_until, machine.cut_until) = (Nanos(0), Nanos(0));
            machine.with_disk(|disk| {
                disk.set_faults(Default::default());
                disk.crash_at(NO_CRASH);
            });
        }
    }

    /// What happened so far.
    fn counts(&mut self) -> SeatCounts {
        let mut counts = self.counts;
        for machine in &mut self.machines {
            machine.with_disk(|disk| {
                let of = disk.stats();
                counts.disk += of.torn + of.lost + of.short + of.failed + of.full + of.slow;
            });
            let member = machine.member();
            counts.compared += member.map_or(0, |member| member.replica().counts().compared);
        }
        counts
    }
}

impl ReplicaGroup {
    /// Adds what happened to the figures of a run.
    pub(super) fn count(&mut self, figures: &mut Figures) {
        let counts = self.counts();
        let [follower, leader, disk] = counts.crashes;
        (figures.replica_crashes, figures.leader_crashes) = (follower, leader);
        figures.disk_crashes = disk;
        figures.replica_pauses = counts.pauses;
        figures.replica_partitions = counts.partitions;
        figures.replicas_cut_off = counts.cut_off;
        figures.replica_messages = counts.messages.iter().sum();
        figures.disk_faults = counts.disk;
        (figures.terms_led, figures.states_compared) = (counts.terms, counts.compared);
    }
}

impl Node for ReplicaGroup {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let door = channel.0.checked_sub(DOORS).map(usize::from);
        let door = door.filter(|n| *n < self.machines.len());
        let (n, channel) = door.map_or((self.led.1, channel), |n| (n, Channel::FEED));
        let Machine { paused_until, cut_until, .. } = self.machines[n];
        if cut_until > now.now {
            self.counts.messages[2] += 1;
        } else if paused_until > now.now {
            self.push(paused_until, n, Event::Datagram(channel, from, bytes.to_vec()));
        } else {
            self.datagram((n, now), (channel, from, bytes), out);
        }
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        while let Some((_, (n, life, event))) = self.events.pop_until(now.now) {
            let paused_until = self.machines[n].paused_until;
            if paused_until > now.now && !matches!(event, Event::Joined) {
                self.events.push(paused_until, (n, life, event));
                continue;
            }
            self.happen(n, life, event, now, out);
        }
        for n in 0..self.machines.len() {
            if self.machines[n].next_timeout() <= now.now {
                self.call((n, now), out, |role, now, out| role.handle_timeout(now, out));
            }
        }
    }

    fn next_timeout(&self) -> Nanos {
        let timers = self.machines.iter().map(Machine::next_timeout);
        timers.min().unwrap_or(Nanos::NEVER).min(self.events.next())
    }
}
