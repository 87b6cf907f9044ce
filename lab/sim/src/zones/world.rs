//! The two zones, event by event.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use journal::Vote;
use replication::{Action, Config, Entry, Fetch, Recovered, Replica, ReplicaId, Write};
use types::{Nanos, SplitMix64};

use crate::queue::Queue;

use super::{Latency, Layout, Loss, Options, Zone};

enum Event {
    Tick(usize),
    Message(usize, Vec<u8>),
    /// A sync has ended.
    Disk(usize),
    Propose,
}

struct Machine {
    zone: Zone,
    replica: Replica,
    /// What is on its disk.
    log: Vec<Entry>,
    /// What waits for the disk, and what it is doing.
    waiting: VecDeque<(u64, Write)>,
    syncing: Vec<(u64, Write)>,
    serves: bool,
    dead: bool,
}

/// Two zones with a group in them.
pub(super) struct World {
    now: u64,
    events: Queue<Event>,
    rng: SplitMix64,
    options: Options,
    machines: Vec<Machine>,
    /// When the last message on each link arrives: links keep the order.
    arrivals: BTreeMap<(usize, usize), u64>,
    proposing: bool,
    /// The next record's number, and what waits for the leader's disk.
    next: u64,
    queue: Vec<Vec<u8>>,
    proposed: BTreeMap<u64, u64>,
    /// Records that clients were told of, and how long that took.
    told: BTreeSet<u64>,
    latencies: Vec<u64>,
}

fn number_of(entry: &Entry) -> Option<u64> {
    entry.record.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

impl World {
    pub(super) fn new(layout: Layout, options: &Options) -> World {
        let zones = layout.replicas.iter().chain(layout.learners);
        let machine = |(zone, id): (&Zone, u8)| {
            let config = Config {
                learners: layout.learners.len() as u8,
                seed: options.seed,
                digest_every: 0,
                // Elections wait for the longest way there and back.
                election_ticks: 10 + (4 * options.far_ns / 10_000_000) as u32,
                in_flight: 1_024,
                ..Config::new(1, ReplicaId(id), layout.replicas.len() as u8)
            };
            let recovered = Recovered { vote: Vote::default(), ..Recovered::default() };
            let replica = Replica::new(config, recovered, Nanos(0)).ok()?;
            let (log, waiting, syncing) = (Vec::new(), VecDeque::new(), Vec::new());
            Some(Machine {
                zone: *zone,
                replica,
                log,
                waiting,
                syncing,
                serves: false,
                dead: false,
            })
        };
        World {
            now: 0,
            events: Queue::new(),
            rng: SplitMix64::new(SplitMix64::mix(options.seed) ^ 0x7A6F_6E65),
            options: *options,
            machines: zones.zip(1u8..).filter_map(machine).collect(),
            arrivals: BTreeMap::new(),
            proposing: false,
            next: 0,
            queue: Vec::new(),
            proposed: BTreeMap::new(),
            told: BTreeSet::new(),
            latencies: Vec::new(),
        }
    }

    /// A calm time, then a zone is gone: how long records took before, and what is left.
    pub(super) fn play(mut self, lost: Zone) -> (Latency, Loss) {
        for machine in 0..self.machines.len() {
            self.after(0, Event::Tick(machine));
        }
        self.with(0, |replica, _, out| replica.campaign(out));
        // Until the first one serves.
        self.run_until(Nanos::SECOND);
        self.proposing = true;
        self.after(0, Event::Propose);
        self.run_until(self.now + self.options.duration_ns);
        let calm = Latency::of(std::mem::take(&mut self.latencies));
        for machine in self.machines.iter_mut().filter(|machine| machine.zone == lost) {
            machine.dead = true;
            machine.serves = false;
        }
        let at = self.now;
        let told = self.told.clone();
        // What waited for the leader that is gone is lost to the clients, who were told nothing.
        if !self.machines.iter().any(|machine| machine.serves) {
            self.queue.clear();
            self.proposing = false;
        }
        let kept: BTreeSet<u64> = self
            .machines
            .iter()
            .filter(|machine| !machine.dead)
            .flat_map(|machine| machine.log.iter().filter_map(number_of))
            .collect();
        let missing = told.difference(&kept).count() as u64;
        let serves = self.serve_after(at);
        if serves.is_some() && !self.proposing {
            self.proposing = true;
            self.after(0, Event::Propose);
        }
        // What was under way when the zone went is not what is asked for.
        self.proposed.clear();
        self.run_until(self.now + self.options.duration_ns);
        let after = Latency::of(std::mem::take(&mut self.latencies));
        let told = told.len() as u64;
        (calm, Loss { told, missing, serves_after_ns: serves, after })
    }

    /// How long it takes until somebody serves who can also commit.
    fn serve_after(&mut self, at: u64) -> Option<u64> {
        while self.now < at + self.options.duration_ns {
            // A leader that has lost most of the others finds out after an election's time.
            self.step(u64::MAX);
            let known = |machine: &&Machine| machine.serves && !machine.dead;
            if let Some(leader) = self.machines.iter().find(known) {
                let quorum = leader.replica.config().quorum();
                let replicas = usize::from(leader.replica.config().replicas);
                let counted = self.machines.iter().take(replicas);
                if counted.filter(|machine| !machine.dead).count() >= quorum {
                    return Some(self.now - at);
                }
            }
        }
        None
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.events.push(Nanos(self.now + ns), event);
    }

    fn run_until(&mut self, end: u64) {
        while self.step(end) {}
        self.now = end;
    }

    /// The next event, unless it is later than `end`; false when there is none.
    fn step(&mut self, end: u64) -> bool {
        let Some((at, event)) = self.events.pop_until(Nanos(end)) else { return false };
        self.now = at.0;
        self.happen(event);
        true
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick(id) => {
                self.with(id, |replica, now, out| replica.handle_timeout(now, out));
                self.after(10_000_000, Event::Tick(id));
            }
            Event::Message(id, bytes) => {
                self.with(id, |replica, _, out| replica.handle_message(&bytes, out));
            }
            Event::Disk(id) => self.synced(id),
            Event::Propose => self.propose(),
        }
    }

    fn with(&mut self, id: usize, act: impl FnOnce(&mut Replica, Nanos, &mut Vec<Action>)) {
        let (now, mut actions) = (Nanos(self.now), Vec::new());
        match self.machines.get_mut(id).filter(|machine| !machine.dead) {
            Some(machine) => act(&mut machine.replica, now, &mut actions),
            None => return,
        }
        for action in actions {
            self.act(id, action);
        }
        self.hand_over(id);
    }

    fn act(&mut self, id: usize, action: Action) {
        match action {
            Action::Send { to, bytes } => self.send(id, usize::from(to.0) - 1, bytes),
            Action::Write { number, write } => {
                self.machines[id].waiting.push_back((number, write));
                self.sync(id);
            }
            Action::Fetch(wanted) => self.fetch(id, wanted),
            Action::Apply(entry) => self.apply(id, &entry),
            Action::Lead { .. } => self.machines[id].serves = true,
            Action::Follow { .. } | Action::Stop(_) => self.machines[id].serves = false,
            // Nobody's log is ever cut, so nobody needs a snapshot.
            Action::Differs { .. }
            | Action::Notice(_)
            | Action::Confirmed(_)
            | Action::ReadSnapshot(_)
            | Action::TakeSnapshot
            | Action::Restore(_) => {}
        }
    }

    fn send(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        let zone = |id: usize| self.machines.get(id).map(|machine| machine.zone);
        let near = zone(from) == zone(to);
        let way = if near { self.options.near_ns } else { self.options.far_ns };
        let arrives = self.now + way + self.rng.below(way / 10 + 1);
        let last = self.arrivals.entry((from, to)).or_default();
        *last = arrives.max(*last);
        let wait = *last - self.now;
        self.after(wait, Event::Message(to, bytes));
    }

    /// Begins a sync of all that waits, unless one is under way.
    fn sync(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        if machine.syncing.is_empty() && !machine.waiting.is_empty() {
            machine.syncing.extend(machine.waiting.drain(..));
            self.after(self.options.sync_ns, Event::Disk(id));
        }
    }

    fn synced(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        if machine.dead {
            return;
        }
        let mut done = 0;
        for (number, write) in machine.syncing.drain(..) {
            let kept = write.kept.or(write.entries.first().map(|first| first.position - 1));
            if let Some(kept) = kept {
                machine.log.truncate(kept as usize);
            }
            machine.log.extend(write.entries);
            done = number;
        }
        self.with(id, |replica, _, out| replica.handle_written(done, out));
        self.sync(id);
    }

    fn fetch(&mut self, id: usize, wanted: Fetch) {
        let log = &self.machines[id].log;
        let from = (wanted.from as usize).saturating_sub(1).min(log.len());
        let to = (wanted.to as usize).clamp(from, log.len());
        let mut bytes = 0;
        let found = log[from..to].iter().take_while(|entry| {
            let first = bytes == 0;
            bytes += 24 + entry.record.len() as u64;
            first || bytes <= wanted.bytes
        });
        let found = found.cloned().collect();
        self.with(id, |replica, _, out| replica.handle_fetched(wanted.number, found, out));
    }

    fn apply(&mut self, id: usize, entry: &Entry) {
        // Only a leader tells anybody.
        let Some(number) = number_of(entry).filter(|_| self.machines[id].serves) else { return };
        self.told.insert(number);
        if let Some(at) = self.proposed.remove(&number) {
            self.latencies.push(self.now - at);
        }
    }

    fn propose(&mut self) {
        if !self.proposing {
            return;
        }
        self.next += 1;
        self.proposed.insert(self.next, self.now);
        // As long as an input.
        let mut record = vec![0; 128];
        record[..8].copy_from_slice(&self.next.to_le_bytes());
        self.queue.push(record);
        if let Some(leader) = self.machines.iter().position(|one| one.serves && !one.dead) {
            self.hand_over(leader);
        }
        self.after(Nanos::SECOND / self.options.rate.max(1), Event::Propose);
    }

    /// Gives the leader what waits, when its disk has nothing to do: as the exchange's roots do.
    fn hand_over(&mut self, id: usize) {
        let machine = &mut self.machines[id];
        if !machine.serves || self.queue.is_empty() || machine.replica.writes_waiting() > 0 {
            return;
        }
        let mut actions = Vec::new();
        if machine.replica.propose(self.queue.iter().map(Vec::as_slice), &mut actions).is_ok() {
            self.queue.clear();
        }
        for action in actions {
            self.act(id, action);
        }
    }
}
