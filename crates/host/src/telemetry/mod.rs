//! What the nodes of a process tell other people's tools: metrics for Prometheus, records into Redis or files.
//!
//! Whoever runs loops makes a [`Place`] for each and has it looked at now and then, between two inputs; it
//! copies the nodes' own counts only when somebody has asked for metrics since. Records go from the loops'
//! threads into bounded queues ([`monitoring::queue`]), which never wait. Everything else happens in threads
//! of [`Service`].

mod collect;
pub mod fairness;
pub mod metrics;
pub mod web_door;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use exchange::Role;
use monitoring::door;
use monitoring::files::Files;
use monitoring::metric::{Buckets, Label, Samples};
use monitoring::process;
use monitoring::queue::{Counts, RecordReceiver, RecordSender, queue};
use monitoring::record::{Order, RecordKind, Release};
use monitoring::streams::Streams;
use monitoring::writer::{self, Writer};
use net::{Counters, Loop, LoopHandle};
use types::{ClockReading, INPUT_LATE, INPUT_T_IN_CAPPED, Input, NodeId, Seq, Trace, TracePoint};

use self::metrics as m;
use crate::alarms::Alarms;
use crate::config::Config;
use crate::failure::Failure;

/// How long a page waits for the loops' newest figures; what is older then is told as it is.
const LOOKED_MAX: Duration = Duration::from_millis(400);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Inputs that a root applied at once of which there are records: more come only with a snapshot.
const INPUTS_MAX: u64 = 1 << 16;
/// The alarm of a place of records that takes none.
const ALARM: &str = "telemetry-records";
/// Ends of the buckets of orders' ways, seconds.
const WAYS: &[f64] =
    &[0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// Figures of one loop.
pub struct Place {
    name: Arc<str>,
    /// Of whose nodes, from 0.
    shard: u16,
    symbols: Arc<[Arc<str>]>,
    counters: Box<dyn Fn() -> Counters + Send + Sync>,
    wanted: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    samples: Samples,
    at: Option<Instant>,
    clock: Option<(ClockReading, u64)>,
}

impl Place {
    /// A loop's thread looks at its nodes, if anybody has asked since it last did.
    pub fn look(&self, of: &Loop<Role>, reading: ClockReading) {
        self.take(reading, |samples| {
            for (id, role) in of.nodes() {
                collect::node(samples, (self.shard, id), (role, reading), &self.symbols);
            }
            // Those of several sockets are one figure.
            let mut planes = BTreeMap::new();
            for (kind, figures) in of.plane_figures() {
                let sum: &mut [u64; 3] = planes.entry(kind.name()).or_default();
                sum[0] += figures.clones;
                sum[1] += figures.by_socket;
                sum[2] += figures.dropped;
            }
            for (kind, [clones, by_socket, dropped]) in planes {
                let labels = |way: &'static str| [(&self.name).into(), kind.into(), way.into()];
                samples.count(&m::PLANE_COPIES, labels("plane"), clones);
                samples.count(&m::PLANE_COPIES, labels("socket"), by_socket);
                samples.count(&m::PLANE_DROPPED, [(&self.name).into(), kind.into()], dropped);
            }
        });
    }

    /// As [`Place::look`], for the replica of the root with that number.
    pub fn look_at_replica(&self, id: u8, role: &Role, reading: ClockReading) {
        self.take(reading, |samples| {
            let Some(member) = role.as_member() else { return };
            collect::replica(samples, id, member);
            // The exchange's own figures are the leader's.
            if member.leading().is_some() {
                let root = (self.shard, NodeId(0));
                collect::node(samples, root, (role, reading), &self.symbols);
            }
        });
    }

    fn take(&self, reading: ClockReading, collect: impl FnOnce(&mut Samples)) {
        if !self.wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut seen = lock(&self.seen);
        seen.samples.clear();
        collect(&mut seen.samples);
        seen.at = Some(Instant::now());
        seen.clock = Some((reading, since_1970_ns()));
    }
}

/// What all threads of a process share.
struct Shared {
    machine: String,
    symbols: Arc<[Arc<str>]>,
    alarms: Alarms,
    started: f64,
    places: Mutex<Vec<Arc<Place>>>,
    /// By whoever told them: figures that are told and not asked for.
    told: Mutex<BTreeMap<&'static str, Samples>>,
    /// By stream of orders and gateway.
    ways: Mutex<BTreeMap<Arc<str>, BTreeMap<u16, Buckets>>>,
    streams: Mutex<Vec<(Arc<str>, Arc<Counts>)>>,
    /// To the records' thread.
    records: Mutex<Sender<RecordReceiver>>,
    /// Records are kept, not only looked at.
    kept: bool,
    works: AtomicBool,
    room: usize,
    /// Of so many datagrams of the feed one has records; 0: none.
    every: u64,
}

/// The telemetry of a process; copies are the same one.
#[derive(Clone)]
pub struct Telemetry(Arc<Shared>);

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry").field("machine", &self.0.machine).finish()
    }
}

impl Telemetry {
    /// A place for the figures of a loop with nodes of a shard, from 0.
    pub fn place(&self, name: &str, shard: u16, of: LoopHandle<Role>) -> Arc<Place> {
        let place = Arc::new(Place {
            name: name.into(),
            shard,
            symbols: Arc::clone(&self.0.symbols),
            counters: Box::new(move || of.counters()),
            wanted: AtomicBool::new(true),
            seen: Mutex::default(),
        });
        lock(&self.0.places).push(Arc::clone(&place));
        place
    }

    /// Figures that somebody has now, in place of those it told before.
    pub fn tell(&self, who: &'static str, collect: impl FnOnce(&mut Samples)) {
        let mut samples = Samples::default();
        collect(&mut samples);
        lock(&self.0.told).insert(who, samples);
    }

    fn stream(&self, name: &str, kind: RecordKind) -> RecordSender {
        let (sender, receiver) = queue(name, kind, self.0.room);
        if self.0.kept {
            lock(&self.0.streams).push((name.into(), receiver.counts()));
        }
        // Refused only when all is over.
        let _ = lock(&self.0.records).send(receiver);
        sender
    }

    /// From now on there is a record of each request that the root in this loop applies.
    pub fn record_orders(&self, of: &mut Loop<Role>, stream: &str) {
        let mut sender = self.stream(stream, RecordKind::Orders);
        let applied = |role: &Role| Some(role.as_root()?.engine().applied());
        let mut last = of.nodes().find_map(|(_, role)| applied(role)).unwrap_or(0);
        of.after_each_call(move |role| {
            let Some(root) = role.as_root() else { return };
            let applied = root.engine().applied();
            let new = applied.saturating_sub(last);
            if (1..=INPUTS_MAX).contains(&new) {
                let inputs = root.log().after(Seq(last)).take(new as usize);
                let requests = inputs.filter(|input| input.source.gateway.0 != 0);
                requests.for_each(|input| sender.push(order(input).encode()));
            }
            last = applied;
        });
    }

    /// Where records of the web door's requests go; `None`: nowhere.
    pub fn web_requests(&self) -> Option<RecordSender> {
        self.0.kept.then(|| self.stream("web", RecordKind::Web))
    }

    /// Where records of what nodes saw of datagrams go; `None`: nowhere.
    pub fn releases(&self, stream: &str) -> Option<Releases> {
        let wanted = self.0.kept && self.0.every > 0;
        let every = self.0.every;
        wanted.then(|| Releases { to: self.stream(stream, RecordKind::Releases), every })
    }

    /// The page of metrics.
    fn page(&self) -> String {
        let shared = &self.0;
        let places = lock(&shared.places).clone();
        places.iter().for_each(|place| place.wanted.store(true, Ordering::Relaxed));
        let until = Instant::now() + LOOKED_MAX;
        let waits = |place: &Arc<Place>| place.wanted.load(Ordering::Relaxed);
        while places.iter().any(waits) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        let mut all = Samples::default();
        places.iter().for_each(|place| place.add_to(&mut all));
        lock(&shared.told).values().for_each(|samples| all.extend(samples));
        for (stream, gateways) in lock(&shared.ways).iter() {
            for (gateway, ways) in gateways {
                all.times(&m::WAY, [stream.into(), (*gateway).into()], ways.clone());
            }
        }
        for (stream, counts) in lock(&shared.streams).iter() {
            all.count(&m::RECORDS, [stream.into()], counts.numbered());
            all.count(&m::RECORDS_DROPPED, [stream.into()], counts.dropped());
            all.count(&m::RECORDS_WRITTEN, [stream.into()], counts.written());
        }
        if shared.kept {
            let works = shared.works.load(Ordering::Relaxed);
            all.level(&m::RECORDS_UP, [], f64::from(u8::from(works)));
        }
        let standing = shared.alarms.standing();
        all.level(&m::ALARMS, [], standing.len() as f64);
        for alarm in standing {
            all.level(&m::ALARM, [Label::Name(alarm.key.into())], 1.0);
        }
        all.level(&m::BUILD, [env!("CARGO_PKG_VERSION").into()], 1.0);
        process::collect(&mut all, shared.started);
        all.page(&[("machine", shared.machine.clone())])
    }
}

impl Place {
    fn add_to(&self, all: &mut Samples) {
        let name = || [(&self.name).into()];
        collect::counters(all, &self.name, &(self.counters)());
        let seen = lock(&self.seen);
        all.extend(&seen.samples);
        if let Some(at) = seen.at {
            all.level(&m::LOOP_AGE, name(), at.elapsed().as_secs_f64());
        }
        if let Some((reading, own_ns)) = seen.clock {
            all.level_ns(&m::CLOCK_BOUND, name(), reading.bound_ns);
            let ahead = i128::from(reading.now.0) - i128::from(own_ns);
            all.level(&m::CLOCK_OFFSET, name(), ahead as f64 / 1e9);
        }
    }
}

fn order(input: &Input) -> Order {
    let (late, capped) = (input.flags & INPUT_LATE > 0, input.flags & INPUT_T_IN_CAPPED > 0);
    Order {
        input: input.seq.0,
        came: input.t_in.0,
        logged: input.t_seq.0,
        gateway: input.source.gateway.0,
        account: input.command.account.0,
        instrument: input.command.instrument.0,
        command: input.command.kind as u8,
        flags: u8::from(late) | u8::from(capped) << 1,
    }
}

/// Records of what nodes saw of datagrams, on their way.
pub struct Releases {
    to: RecordSender,
    every: u64,
}

impl Releases {
    /// Takes those of the datagrams that are sampled.
    pub fn take(&mut self, batch: &[Trace]) {
        for trace in batch {
            let datagram = trace.id & ((1 << types::TRACE_ID_BITS) - 1);
            if !datagram.is_multiple_of(self.every) {
                continue;
            }
            let point = match trace.point {
                TracePoint::Published => 0,
                TracePoint::Arrived => 1,
                TracePoint::Released => 2,
                TracePoint::ReleasedLate => 3,
                TracePoint::ReleasedBlocked => 4,
            };
            let (node, message) = (trace.node.0, trace.id);
            let release = Release { point, node, message, at: trace.at.0, deadline: trace.value };
            self.to.push(release.encode());
        }
    }
}

/// The threads behind [`Telemetry`].
pub struct Service {
    telemetry: Telemetry,
    stop: Arc<AtomicBool>,
    at: Option<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts what `[telemetry]` asks for, of a machine with a name; `None` where that is nothing. A relative
    /// folder of records counts from `folder`.
    ///
    /// # Errors
    /// The address is not to be had, or the folder can't be made.
    pub fn start(
        config: &Config,
        (machine, folder): (&str, &Path),
        alarms: &Alarms,
    ) -> Result<Option<Service>, Failure> {
        let settings = &config.telemetry;
        let address = settings.address();
        if address.is_none() && !settings.has_records() {
            return Ok(None);
        }
        let wrong = |why: String| Failure::Usage(format!("[telemetry]: {why}"));
        let began = since_1970_ns() / 1_000_000;
        let place = match &settings.records[..] {
            "redis" => {
                let names = (&settings.prefix[..], machine);
                let streams =
                    Streams::new(&settings.redis_url, names, began, settings.stream_entries);
                writer::Place::Redis(streams.map_err(wrong)?)
            }
            "files" => {
                let folder = folder.join(&settings.dir);
                let bytes = settings.files_mib << 20;
                let files = Files::new(&folder, machine, began, bytes);
                writer::Place::Files(files.map_err(wrong)?)
            }
            _ => writer::Place::Nowhere,
        };
        let listen = |at: SocketAddr| {
            let bound = TcpListener::bind(at).and_then(|of| Ok((of.local_addr()?, of)));
            bound.map_err(|error| Failure::Run(format!("[telemetry]: listen {at}: {error}")))
        };
        let listener = address.map(listen).transpose()?;
        let symbols = config.instruments.0.iter().map(|of| Arc::from(&of.symbol[..])).collect();
        let (sender, streams) = channel();
        let telemetry = Telemetry(Arc::new(Shared {
            machine: machine.to_string(),
            symbols,
            alarms: alarms.clone(),
            started: process::now_s(),
            places: Mutex::default(),
            told: Mutex::default(),
            ways: Mutex::default(),
            streams: Mutex::default(),
            records: Mutex::new(sender),
            kept: settings.has_records(),
            works: AtomicBool::new(true),
            room: settings.queue_records as usize,
            every: config.hold.observe_every,
        }));
        let (stop, mut threads) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let (own, over) = (telemetry.clone(), Arc::clone(&stop));
        let room = settings.queue_records as usize;
        threads.push(thread::spawn(move || {
            let look = |stream: &str, kind, record: &[u8; 32]| {
                if kind == RecordKind::Orders {
                    own.time(stream, &Order::decode(record));
                }
            };
            let told = |outcome: Result<(), &str>| own.place_is(outcome);
            Writer::new(place, room, look, told).run(&streams, &over);
        }));
        let at = listener.as_ref().map(|(at, _)| *at);
        if let Some((_, listener)) = listener {
            let (asked, own) = (telemetry.clone(), telemetry.clone());
            let over = Arc::clone(&stop);
            threads.push(thread::spawn(move || {
                if let Err(error) = door::serve(listener, move || asked.page(), &over) {
                    own.0
                        .alarms
                        .raise("telemetry-door", format!("metrics are not served: {error}"));
                }
            }));
        }
        Ok(Some(Service { telemetry, stop, at, threads }))
    }

    /// What loops and others tell their figures.
    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Where metrics are read.
    pub fn address(&self) -> Option<SocketAddr> {
        self.at
    }

    /// Writes the last records and ends; a line for each stream that lost some. Whoever has records has
    /// ended before.
    pub fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // One that panicked has said so.
            let _ = thread.join();
        }
        let line = |(stream, counts): &(Arc<str>, Arc<Counts>)| {
            let (all, lost) = (counts.numbered(), counts.dropped());
            (lost > 0).then(|| format!("telemetry: {lost} of {all} records of {stream} were lost"))
        };
        lock(&self.telemetry.0.streams).iter().filter_map(line).collect()
    }
}

impl Telemetry {
    fn time(&self, stream: &str, order: &Order) {
        let mut ways = lock(&self.0.ways);
        if !ways.contains_key(stream) {
            ways.insert(stream.into(), BTreeMap::new());
        }
        let Some(gateways) = ways.get_mut(stream) else { return };
        let ways = gateways.entry(order.gateway).or_insert_with(|| Buckets::new(WAYS));
        ways.record_ns(order.logged.saturating_sub(order.came));
    }

    fn place_is(&self, outcome: Result<(), &str>) {
        self.0.works.store(outcome.is_ok(), Ordering::Relaxed);
        match outcome {
            Ok(()) => self.0.alarms.clear(ALARM, "records are taken again"),
            Err(why) => {
                let bounds = "beyond what the queue holds they are lost, and counted";
                self.0.alarms.raise(ALARM, format!("records can't be written: {why}; {bounds}"));
            }
        }
    }
}

fn since_1970_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
