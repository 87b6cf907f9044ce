//! The world: events in order of virtual time, the network, the faults, and what machines do.

use std::collections::BTreeMap;

use replication::{Action, Entry, OLDEST, VERSION, unfenced_answer};
use types::{Digest, Nanos, SplitMix64};

use crate::queue::Queue;

use super::check::{End, check};
use super::client::Client;
use super::driver::{Done, Machine, Started, Up, group_config};
use super::ledger::Request;
use super::operator::Operator;
use super::options::{Bug, Options};
use super::receiver::{Packet, Receiver};
use super::report::{Counts, Report};

/// Clients of a run.
const CLIENTS: u64 = 3;
/// Receivers of the feed.
const RECEIVERS: usize = 2;
/// Executions that a new leader publishes again.
const TAIL: usize = 8;
/// Clients and receivers look around this often, ns.
const TURN_NS: u64 = 10_000_000;
pub(super) const MS: u64 = 1_000_000;

/// Something that happens.
#[derive(Clone)]
pub(super) enum Event {
    /// A machine's timer.
    Tick(u8, u32),
    /// A machine's disk has done what it was doing.
    Disk(u8, u32),
    /// A machine's disk may have room again.
    Room(u8, u32),
    Start(u8),
    Message(u8, Vec<u8>),
    Request(u8, Request),
    Answer(u64, u64, u64, u64),
    Redirect(u64, u8, u64),
    Packet(usize, Packet),
    Repair(u8, usize, u64),
    Turn,
    Operate,
    Fault,
    Heal,
    Upgrade,
}

/// How the network treats messages now.
#[derive(Clone, Copy, Default)]
pub(super) struct Weather {
    pub(super) loss: u64,
    pub(super) repeat: u64,
    pub(super) delay: u64,
    pub(super) garble: u64,
}

/// The world of one seed.
pub(super) struct World {
    pub(super) now: u64,
    events: Queue<Event>,
    pub(super) rng: SplitMix64,
    pub(super) options: Options,
    pub(super) seed: u64,
    /// How many there were when the group was made.
    pub(super) replicas: u8,
    pub(super) machines: Vec<Machine>,
    pub(super) clients: Vec<Client>,
    pub(super) operator: Operator,
    receivers: Vec<Receiver>,
    /// Which side of a partition each machine is on; equal for no partition.
    pub(super) sides: Vec<u8>,
    pub(super) weather: Weather,
    pub(super) healed: bool,
    pub(super) stopped: Vec<(u8, String)>,
    /// Who was elected in each term, in which of its lives, and terms in which that happened twice.
    elected: BTreeMap<u64, (u8, u32)>,
    repeated: Vec<String>,
    pub(super) counts: Counts,
    /// When the last leader died, until another answers.
    leaderless: Option<u64>,
    failovers: Vec<u64>,
    digest: Digest,
}

/// The term that a message of the consensus names.
fn term_of(bytes: &[u8]) -> Option<u64> {
    let consensus = bytes.get(5) == Some(&1);
    let term = bytes.get(28..36).and_then(|term| term.try_into().ok());
    term.filter(|_| consensus).map(u64::from_le_bytes)
}

/// Runs a seed.
pub fn run(seed: u64, options: &Options) -> Report {
    let mut world = World::new(seed, options);
    let finished = world.play();
    world.end(finished)
}

impl World {
    fn new(seed: u64, options: &Options) -> World {
        let mut rng = SplitMix64::new(SplitMix64::mix(seed) ^ 0x7265_706C_6963_6173);
        let drawn = if rng.below(3) == 0 { 5 } else { 3 };
        let short = options.has_short_logs(seed);
        let replicas = if options.replicas == 0 { drawn } else { options.replicas };
        let mut machines: Vec<Machine> =
            (1..=replicas).map(|id| Machine::new(id, rng.next_u64(), short)).collect();
        // Fewer than half of the disks may rot: what is on the others all can get again.
        let rotten = rng.below(u64::from(replicas / 2) + 1);
        for machine in machines.iter_mut().rev().take(rotten as usize) {
            machine.rots = !options.calm && options.bug.is_none();
        }
        let mut world = World {
            now: 1_000_000_000,
            events: Queue::new(),
            options: *options,
            seed,
            replicas,
            machines,
            clients: (1..=CLIENTS).map(|id| Client::new(id, options.requests, replicas)).collect(),
            operator: Operator::default(),
            receivers: (0..RECEIVERS).map(|_| Receiver::default()).collect(),
            sides: vec![0; usize::from(replicas)],
            weather: Weather::default(),
            healed: false,
            stopped: Vec::new(),
            elected: BTreeMap::new(),
            repeated: Vec::new(),
            counts: Counts::default(),
            leaderless: None,
            failovers: Vec::new(),
            digest: Digest::default(),
            rng,
        };
        for id in 1..=replicas {
            world.after(0, Event::Start(id));
        }
        world.after(TURN_NS, Event::Turn);
        if !options.calm {
            world.after(300 * MS, Event::Fault);
        }
        world.after(options.faults_ns, Event::Heal);
        if options.has_changes(seed) {
            world.after(250 * MS, Event::Operate);
        }
        world
    }

    pub(super) fn after(&mut self, ns: u64, event: Event) {
        self.events.push(Nanos(self.now + ns), event);
    }

    /// Whether all came to a good end in time.
    fn play(&mut self) -> bool {
        let end = self.now + self.options.faults_ns + self.options.healing_ns;
        while let Some((at, event)) =
            self.events.pop_or_postpone(|at, event| paused(&self.machines, at, event))
        {
            self.now = at.0;
            self.digest.fold(at.0);
            if at.0 > end {
                return false;
            }
            let Some(event) = event else { continue };
            self.happen(event);
            if self.healed && self.is_settled() {
                return true;
            }
        }
        false
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(id, life) => self.tick(id, life),
            Event::Disk(id, life) => self.disk_done(id, life),
            Event::Room(id, life) => self.with_up(id, life, World::begin_job),
            Event::Start(id) => self.start(id),
            Event::Message(id, bytes) => self.message(id, &bytes),
            Event::Request(id, request) => self.request(id, request),
            Event::Answer(client, number, execution, term) => {
                let unfenced = self.options.bug == Some(Bug::UnfencedLeader);
                let term = if unfenced { u64::MAX } else { term };
                self.client(client).answer(number, execution, term);
                self.counts.answered += 1;
                if let Some(since) = self.leaderless.take() {
                    self.failovers.push(self.now - since);
                }
            }
            Event::Redirect(client, leader, term) => self.client(client).redirected(leader, term),
            Event::Packet(receiver, packet) => self.receivers[receiver].take(&packet),
            Event::Repair(id, receiver, from) => self.repair(id, receiver, from),
            Event::Turn => self.turn(),
            Event::Operate => self.operate(),
            Event::Fault => self.fault(),
            Event::Heal => self.heal(),
            Event::Upgrade => self.upgrade(),
        }
    }

    fn client(&mut self, id: u64) -> &mut Client {
        &mut self.clients[id as usize - 1]
    }

    pub(super) fn machine(&mut self, id: u8) -> &mut Machine {
        &mut self.machines[usize::from(id) - 1]
    }

    pub(super) fn up(&mut self, id: u8) -> Option<&mut Up> {
        self.machine(id).up.as_mut()
    }

    /// Does something unless the machine has stopped since.
    fn with_up(&mut self, id: u8, life: u32, act: impl FnOnce(&mut World, u8)) {
        let machine = self.machine(id);
        if machine.life == life && machine.up.is_some() {
            act(self, id);
        }
    }

    // What machines do.

    fn start(&mut self, id: u8) {
        let config = group_config(id, self.replicas, self.seed, self.options.digest_every);
        let (bug, now) = (self.options.bug, self.now);
        let (was, newest) = (self.version(id, 0), self.version(id, 1));
        let start = self.rng_of_start(id);
        let config = replication::Config { newest, start, ..config };
        let machine = self.machine(id);
        if machine.up.is_some() || machine.lost.is_some() || machine.gone {
            return;
        }
        let tails = machine.tails;
        let started = machine.start(&config, bug, now);
        let (life, cut) = (machine.life, machine.tails - tails);
        self.counts.tails += cut;
        match started {
            Started::Runs => {
                self.counts.restarts += u64::from(life > 1);
                self.counts.reversioned += u64::from(life > 1 && was != newest);
                self.after(0, Event::Tick(id, life));
            }
            Started::Again => self.after(20 * MS, Event::Start(id)),
            Started::Mended => {
                self.counts.mended += 1;
                self.after(20 * MS, Event::Start(id));
            }
            Started::Lost => self.counts.refused += 1,
        }
    }

    /// A number that no other start has.
    fn rng_of_start(&mut self, id: u8) -> u64 {
        SplitMix64::mix(self.seed ^ self.now ^ (u64::from(id) << 56))
    }

    /// The newest version of the messages that a machine speaks in a life, counted from the one that
    /// is or was: in every other seed without changes of members and older copies of disks, machines are
    /// upgraded and put back all the time, until there is a reason to upgrade them for good.
    fn version(&mut self, id: u8, lives: u32) -> u8 {
        let life = self.machine(id).life + lives;
        // Drawn apart, so that nothing else depends on it.
        let of_seed = SplitMix64::mix(self.seed ^ 0x7665_7273_696F_6E73);
        let of_life = SplitMix64::mix(of_seed ^ (u64::from(id) << 32) ^ u64::from(life));
        if self.options.bug == Some(Bug::VoteForgotten) {
            // The last one without questions: others would tell it.
            return VERSION - 1;
        }
        if self.options.has_old_disks(self.seed) || self.machine(id).upgraded {
            return VERSION;
        }
        match (of_seed % 2, of_life % 2) {
            // Members are changed only where all speak the newest.
            (0, 0) if !self.options.has_changes(self.seed) => OLDEST,
            _ => VERSION,
        }
    }

    fn tick(&mut self, id: u8, life: u32) {
        let now = Nanos(self.now);
        self.with_up(id, life, |world, id| {
            let mut actions = Vec::new();
            let Some(up) = world.up(id) else { return };
            up.replica.handle_timeout(now, &mut actions);
            let next = up.replica.next_timeout();
            world.act(id, actions);
            if next != Nanos::NEVER {
                world.after(next.0.saturating_sub(now.0).max(1), Event::Tick(id, life));
            }
        });
    }

    fn message(&mut self, id: u8, bytes: &[u8]) {
        let fenced = self.options.bug != Some(Bug::UnfencedLeader);
        let Some(up) = self.up(id) else { return };
        let mut actions = Vec::new();
        let config = up.replica.config();
        let term = up.replica.standing().term;
        if !fenced && up.serving.is_some() && term_of(bytes).is_some_and(|told| told > term) {
            // The bug's other half: a leader that does not hear that it is none.
            return;
        }
        match unfenced_answer(config.group, config.id, term, bytes).filter(|_| !fenced) {
            Some(bytes) => {
                let to = bytes.get(7).copied().unwrap_or(0);
                actions.push(Action::Send { to: replication::ReplicaId(to), bytes });
            }
            None => up.replica.handle_message(bytes, &mut actions),
        }
        self.act(id, actions);
    }

    /// Whoever was elected: in its term nobody else may be, nor itself in another life.
    fn watch_terms(&mut self, id: u8) {
        let life = self.machine(id).life;
        let Some(up) = self.up(id) else { return };
        let standing = up.replica.standing();
        if !standing.leading {
            return;
        }
        let known = *self.elected.entry(standing.term).or_insert((id, life));
        if known != (id, life) && self.repeated.len() < 4 {
            let what = format!("term {}: {known:?}, and then {:?}", standing.term, (id, life));
            self.repeated.push(what);
        }
    }

    pub(super) fn act(&mut self, id: u8, actions: Vec<Action>) {
        self.watch_terms(id);
        for action in actions {
            match action {
                Action::Send { to, bytes } => self.send(id, to.0, bytes),
                Action::Write { .. } | Action::Fetch(_) | Action::ReadSnapshot(_) => {
                    self.counts.fetches += u64::from(matches!(action, Action::Fetch(_)));
                    if let Some(up) = self.up(id) {
                        up.queue(action);
                    }
                }
                Action::TakeSnapshot => self.take_snapshot(id),
                Action::Restore(install) => self.restore(id, &install),
                Action::Apply(entry) => self.apply(id, &entry),
                Action::Lead { term } => self.lead(id, term),
                Action::Follow { .. } => {
                    if let Some(up) = self.up(id) {
                        up.serving = None;
                        up.pending.clear();
                    }
                }
                Action::Differs { .. } | Action::Notice(_) | Action::Confirmed(_) => {}
                Action::Stop(why) => self.has_stopped(id, why),
            }
        }
        self.begin_job(id);
    }

    fn apply(&mut self, id: u8, entry: &Entry) {
        let bug = self.options.bug;
        let Some(up) = self.up(id) else { return };
        let before = up.ledger.executed.len();
        let applied = up.apply(bug, entry);
        let repeated = applied.is_some() && up.ledger.executed.len() == before;
        let snapshot = up.is_snapshot_due(entry.position);
        if let Some((request, _)) = applied {
            up.pending.remove(&(request.client, request.number));
        }
        let mut actions = Vec::new();
        if up.replica.wants_digest(entry.position) {
            let digest = up.ledger.digest();
            up.replica.tell_digest(entry.position, digest, &mut actions);
        }
        let serving = up.serving;
        let packet = serving.filter(|_| !repeated && applied.is_some()).map(|epoch| {
            up.packets += 1;
            (epoch, up.packets)
        });
        self.counts.snapshots += u64::from(snapshot);
        self.counts.repeats += u64::from(repeated);
        self.digest.fold(entry.position ^ u64::from(id) << 56);
        if let (Some((request, execution)), Some(term)) = (applied, serving) {
            self.answer(id, request, execution, term);
            if let Some((epoch, number)) = packet {
                self.publish(id, Packet { epoch, id: number, sequence: execution, request });
            }
        }
        self.act(id, actions);
    }

    fn lead(&mut self, id: u8, term: u64) {
        self.counts.terms_led += 1;
        let Some(up) = self.up(id) else { return };
        up.serving = Some(term);
        up.pending.clear();
        // What may have left its predecessor, and may not.
        let all = up.ledger.executed.len();
        let tail: Vec<(usize, Request)> = (1..).zip(up.ledger.executed.iter().copied()).collect();
        let tail: Vec<_> = tail.into_iter().skip(all.saturating_sub(TAIL)).collect();
        up.packets = tail.len() as u64;
        for (number, (sequence, request)) in (1..).zip(tail) {
            let packet = Packet { epoch: term, id: number, sequence: sequence as u64, request };
            self.publish(id, packet);
        }
    }

    fn request(&mut self, id: u8, request: Request) {
        let key = (request.client, request.number);
        // A door that does not always look: who has been executed is known to the ledger.
        let looks = !self.rng.permille(200);
        let Some(up) = self.up(id) else { return };
        let standing = up.replica.standing();
        let Some(term) = up.serving else {
            if let Some(leader) = standing.leader {
                self.tell_client(id, Event::Redirect(request.client, leader.0, standing.term));
            }
            return;
        };
        if let Some(execution) = up.ledger.execution(key.0, key.1).filter(|_| looks) {
            return self.answer(id, request, execution, term);
        }
        if up.pending.contains(&key) {
            return;
        }
        let mut actions = Vec::new();
        if up.replica.propose([&request.bytes()[..]].into_iter(), &mut actions).is_ok() {
            up.pending.insert(key);
        }
        self.act(id, actions);
    }

    fn repair(&mut self, id: u8, receiver: usize, from: u64) {
        let Some(up) = self.up(id) else { return };
        let first = usize::try_from(from).unwrap_or(1).saturating_sub(1);
        let missing = up.ledger.executed.iter().copied().skip(first).take(TAIL);
        let packets: Vec<Packet> = (from..)
            .zip(missing)
            .map(|(sequence, request)| Packet { epoch: 0, id: 0, sequence, request })
            .collect();
        for packet in packets {
            self.tell_client(id, Event::Packet(receiver, packet));
        }
    }

    // Disks.

    fn begin_job(&mut self, id: u8) {
        let Some(up) = self.up(id) else { return };
        if up.under_way.is_some() {
            return;
        }
        let installs = up.installs_next();
        if installs {
            self.trouble_an_install(id);
        }
        let Some(up) = self.up(id) else { return };
        match up.begin_job() {
            Ok(None) => {}
            Ok(Some(ns)) => {
                let life = self.machine(id).life;
                self.after(ns, Event::Disk(id, life));
            }
            Err(journal::JournalError::Full(_)) => {
                let life = self.machine(id).life;
                self.after(10 * MS, Event::Room(id, life));
            }
            Err(_) => {
                let crashed = &mut 0;
                self.machine(id).with_disk(|disk| *crashed = u64::from(disk.has_crashed()));
                self.counts.disk_crashes += *crashed;
                self.counts.install_crashes += *crashed * u64::from(installs);
                self.kill(id);
            }
        }
    }

    fn disk_done(&mut self, id: u8, life: u32) {
        self.with_up(id, life, |world, id| {
            let early = world.options.bug == Some(Bug::AckBeforeCopy);
            let Some(up) = world.up(id) else { return };
            let mut actions = Vec::new();
            let (mut told, serving) = (Vec::new(), up.serving);
            match up.under_way.take() {
                Some(Done::Written(number, entries)) => {
                    told = entries;
                    up.replica.handle_written(number, &mut actions);
                }
                Some(Done::Fetched(number, entries)) => {
                    up.replica.handle_fetched(number, entries, &mut actions);
                }
                Some(Done::Kept(kept)) => up.replica.handle_kept(&kept, &mut actions),
                Some(Done::Read(wanted, bytes)) => {
                    up.replica.handle_snapshot_read(&wanted, &bytes, &mut actions);
                }
                Some(Done::Nothing) | None => {}
            }
            if let Some(term) = serving.filter(|_| early) {
                world.tell_early(id, &told, term);
            }
            world.act(id, actions);
        });
    }

    /// The bug: what is on one disk counts as executed.
    fn tell_early(&mut self, id: u8, entries: &[Entry], term: u64) {
        let Some(up) = self.up(id) else { return };
        let mut ahead = up.ledger.clone();
        let applied = up.replica.applied();
        for entry in entries.iter().filter(|entry| entry.position > applied) {
            if let Some((request, execution)) = ahead.apply(entry.position, &entry.record) {
                self.answer(id, request, execution, term);
            }
        }
    }

    pub(super) fn kill(&mut self, id: u8) {
        let now = self.now;
        let machine = self.machine(id);
        let Some(up) = &machine.up else { return };
        let led = up.serving.is_some();
        self.count_transfers(id);
        let machine = self.machine(id);
        machine.stop();
        machine.paused_until = 0;
        if led {
            self.counts.leaders_killed += 1;
            self.leaderless.get_or_insert(now);
        }
        let down = (5 + self.rng.below(300)) * MS;
        self.after(down, Event::Start(id));
    }

    // The network.

    /// Between machines.
    fn send(&mut self, from: u8, to: u8, bytes: Vec<u8>) {
        let side = |id: u8| self.sides.get(usize::from(id).wrapping_sub(1));
        if side(from) != side(to) {
            self.counts.cut += 1;
            return;
        }
        self.digest.fold(bytes.len() as u64);
        let mut bytes = bytes;
        if self.rng.permille(self.weather.garble) {
            let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.counts.garbled += 1;
        }
        self.travel(Event::Message(to, bytes));
    }

    /// Between a machine and somebody who is no replica; partitions are among replicas.
    fn tell_client(&mut self, _from: u8, event: Event) {
        self.travel(event);
    }

    fn travel(&mut self, event: Event) {
        if self.rng.permille(self.weather.loss) {
            self.counts.lost += 1;
            return;
        }
        if self.rng.permille(self.weather.repeat) {
            self.counts.duplicated += 1;
            let ns = self.way();
            self.after(ns, event.clone());
        }
        let ns = self.way();
        self.after(ns, event);
    }

    fn way(&mut self) -> u64 {
        let ns = 50_000 + self.rng.below(100_000);
        if self.rng.permille(self.weather.delay) {
            self.counts.delayed += 1;
            return ns + self.rng.below(150 * MS);
        }
        ns
    }

    fn answer(&mut self, id: u8, request: Request, execution: u64, term: u64) {
        self.tell_client(id, Event::Answer(request.client, request.number, execution, term));
    }

    fn publish(&mut self, id: u8, packet: Packet) {
        for receiver in 0..RECEIVERS {
            self.tell_client(id, Event::Packet(receiver, packet));
        }
    }

    // Clients and receivers.

    fn turn(&mut self) {
        let now = self.now;
        for place in 0..self.clients.len() {
            let sends = self.clients[place].turn(now, &mut self.rng);
            for (to, request) in sends {
                self.travel(Event::Request(to, request));
            }
        }
        for receiver in 0..RECEIVERS {
            let from = self.receivers[receiver].missing();
            let id = 1 + self.rng.below(self.machines.len() as u64) as u8;
            self.travel(Event::Repair(id, receiver, from));
        }
        self.after(TURN_NS, Event::Turn);
    }

    /// Whether all is done: somebody leads, and everybody has what it has.
    fn is_settled(&self) -> bool {
        if !self.is_operated() {
            return false;
        }
        let living = |machine: &&Machine| machine.lost.is_none() && !machine.gone;
        let mut living = self.machines.iter().filter(living);
        let ups: Option<Vec<&Up>> = living.try_fold(Vec::new(), |mut ups, machine| {
            ups.push(machine.up.as_ref()?);
            Some(ups)
        });
        let Some(ups) = ups else { return false };
        let Some(leader) = ups.iter().find(|up| up.serving.is_some()) else { return false };
        let (end, executed) = (leader.replica.last(), leader.ledger.executed.len() as u64);
        ups.iter().all(|up| up.replica.applied() == end && up.replica.last() == end)
            && self.clients.iter().all(Client::is_done)
            && self.receivers.iter().all(|receiver| receiver.missing() > executed)
    }

    fn end(mut self, finished: bool) -> Report {
        for id in 1..=self.machines.len() as u8 {
            self.count_transfers(id);
        }
        for machine in &mut self.machines {
            let counts = &mut self.counts;
            machine.with_disk(|disk| {
                let stats = disk.stats();
                counts.torn += stats.torn;
                counts.vanished += stats.lost;
                counts.short += stats.short;
                counts.failed += stats.failed;
                counts.slow += stats.slow;
                counts.full += stats.full;
                counts.rotten += stats.corrupted;
            });
            if let Some(up) = &machine.up {
                counts.compared += up.replica.counts().compared;
                counts.records = counts.records.max(up.replica.applied());
            }
        }
        self.counts.virtual_ms = self.now / MS;
        self.counts.retries = self.clients.iter().map(|client| client.retries).sum();
        self.counts.fenced_answers = self.clients.iter().map(|client| client.fenced).sum();
        self.counts.fenced_packets = self.receivers.iter().map(|receiver| receiver.fenced).sum();
        self.counts.repeated_packets =
            self.receivers.iter().map(|receiver| receiver.repeated).sum();
        let found = check(End {
            machines: &mut self.machines,
            clients: &self.clients,
            receivers: &self.receivers,
            stopped: &self.stopped,
            repeated: &self.repeated,
            finished,
        });
        Report {
            seed: self.seed,
            found,
            counts: self.counts,
            failovers_ns: self.failovers,
            digest: self.digest.0,
        }
    }
}

/// Until when the machine that an event is for does nothing.
fn paused(machines: &[Machine], now: Nanos, event: &Event) -> Option<Nanos> {
    let id = match event {
        Event::Tick(id, _)
        | Event::Disk(id, _)
        | Event::Room(id, _)
        | Event::Message(id, _)
        | Event::Request(id, _)
        | Event::Repair(id, ..) => *id,
        _ => return None,
    };
    let until = Nanos(machines.get(usize::from(id) - 1)?.paused_until);
    (until > now).then_some(until)
}
