//! `fairbell up`: a whole exchange on this machine, order flow through it, a report at the end.
//!
//! Three threads run the loops; this one collects traces, draws the view, kills a proxy or a gateway
//! when asked to, and decides when the run is over.

mod accelerate;
mod args;
mod board;
mod capture;
mod clock_report;
mod cloud;
mod day;
mod flow;
mod greeting;
mod judge;
mod outcome;
mod revise;
mod scenario;
mod snapshot;
mod standstill;
mod store;
mod tamper;
mod venue;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use exchange::{Offline, Role};
use feed::ListenerConfig;
use net::{Clock, Loop, LoopHandle, TraceReceiver};
use overlay::topology::Tree;
use participant::{Latency, Phase, RequestKind, Sample};
use telemetry::{DeliveryLedger, LedgerConfig, Recorder};
use types::{Nanos, NodeId, Peer};

use crate::report::{ReplicationReport, Report};
use crate::view::{Snapshot, TopOfBook, View};
use crate::web::Web;
use board::{Board, Figures};
use capture::CaptureFiles;
use host::admin::door;
use host::alarms::Alarms;
use host::clocks::Clocks;
use host::config::Config;
use host::deployment::{DRIVER, LISTENERS, LOG_FILE, Plan, PlanOptions, engine_config};
use host::failure::Failure;
use host::group::{Group, Leaders};
use host::journal::health::{Health, Standing};
use host::journal::kept;
use host::journal::kept::written;
use host::replica::line::RootLine;
use host::sockets::io;
use host::telemetry::{Place, Releases, Service, Telemetry, fairness};
use host::{deployment, group, room, spill, strategies};

use accelerate::Accelerator;
use day::TradingDay;
use outcome::{Artifacts, Elsewhere, quantiles};
use revise::Turns;
use scenario::{Fault, Scenario, Script};
use tamper::Relay;

/// Said when nothing more is played, while the doors serve on.
const FLOW_OVER: &str =
    "the built-in flow is over: nothing more is played; books and doors stay until Ctrl-C";
/// How often figures are copied out of the loops.
const OBSERVE_EVERY: Duration = Duration::from_millis(100);
/// How often traces are taken from the loops.
const COLLECT_EVERY: Duration = Duration::from_millis(5);
/// How long listeners may take to hear the last message, and stray copies to come.
const SETTLE: Duration = Duration::from_secs(20);
/// The same while there is no room for the journal.
const STILL: Duration = Duration::from_secs(1);
/// Time for the end of the session to reach everybody.
const GOODBYE: Duration = Duration::from_millis(150);
/// The loops' names in metrics.
const LOOPS: [&str; 3] = ["root", "edges", "outside"];
/// The root's node.
const ROOT: NodeId = exchange::ExchangeConfig::ROOT;

pub use args::UpArgs;
pub use outcome::quantiles as report_quantiles;

/// Runs a whole exchange.
pub fn run(args: &UpArgs) -> Result<(), Failure> {
    let config = args.load_config()?;
    if config.memory.lock {
        host::limits::lock_memory()?;
    }
    let mut view = View::new(args.json, args.quiet);
    let clocks = Clocks::start(&config)?;
    let clock = clocks.of[0];
    if let Some(from) = &args.from {
        snapshot::copy(from, Path::new(&config.journal.dir))?;
    }
    let kept = match config.journal.is_local() {
        true => Some(kept::open(Path::new(&config.journal.dir), &config.journal, clock.now())?),
        false => None,
    };
    // What the built-in participants play is played once.
    let resumed = kept.as_ref().is_some_and(|kept| kept.inputs > 0) || group::was_made(&config);
    let scenario =
        args.scenario.as_deref().map(|path| Scenario::read(path, &config)).transpose()?;
    if resumed && scenario.as_ref().is_some_and(|scenario| !scenario.messages.is_empty()) {
        let why = "--scenario: the journal goes on, and its built-in participants have played: leave the \
                   scenario's orders out, its faults are possible";
        return Err(Failure::Usage(why.to_string()));
    }
    let (sample, mut notices) = match flow::load_sample(&config) {
        _ if scenario.is_some() => (None, Vec::new()),
        _ if resumed => (None, vec!["the journal goes on: no built-in flow".to_string()]),
        Ok(sample) => (Some(sample), Vec::new()),
        Err(why) => {
            let seconds = flow::WITHOUT_SAMPLE_S;
            (None, vec![format!("no sample, {seconds} s of generated flow alone: {why}")])
        }
    };
    if let Some(of) = &scenario {
        let (requests, faults) = (of.messages.len(), of.faults.len());
        notices.push(format!("scenario of seed {}: {requests} requests, {faults} faults", of.seed));
    }
    notices.iter().for_each(|notice| view.note(notice));
    let duration_ns = args.duration.map(flow::nanos);
    let driver = |gateways: &[types::Peer]| match (&scenario, resumed) {
        (_, true) => flow::nobody(&config).map(Some),
        (Some(of), _) => flow::scripted(&config, of, duration_ns, gateways).map(Some),
        (None, _) => flow::driver(&config, sample.as_ref(), duration_ns, gateways).map(Some),
    };
    if args.slow_proxy.is_some_and(|proxy| u32::from(proxy) > deployment::proxies(&config)) {
        let most = deployment::proxies(&config);
        return Err(Failure::Usage(format!("--slow-proxy: this tree has {most} proxies")));
    }
    if args.late_listener.is_some() && config.overlay.receivers < 2 {
        return Err(Failure::Usage("--late-listener: needs 2 receivers or more".to_string()));
    }
    if args.slow_proxy.is_some() && config.journal.is_replicated() {
        return Err(Failure::Usage("--slow-proxy: not with replicas of the root".to_string()));
    }
    for (option, given) in
        [("--accelerate", args.accelerate.is_some()), ("--days", args.days.is_some())]
    {
        if given && !config.calendar.is_on() {
            return Err(Failure::Usage(format!("{option}: needs a calendar (calendar.zone)")));
        }
    }
    let capture = args.capture.as_deref().map(CaptureFiles::create).transpose()?;
    let log = args.out.join(LOG_FILE);
    let relay = std::cell::RefCell::new(None);
    let divert = |from: &mut Peer, to: &mut Peer| {
        let Some(packet) = args.corrupt_packet else { return Ok(()) };
        *relay.borrow_mut() = Some(Relay::between(from, to, packet)?);
        Ok(())
    };
    let last = config.overlay.receivers as usize - 1;
    let late = args.late_listener.map(|time| clocks.of[2].now().after(flow::nanos(time)));
    let listener = |place: usize, settings: &mut ListenerConfig| {
        settings.capture = (capture.is_some() && place == 0).then_some(capture::KEPT);
        settings.hears_from = late.filter(|_| place == last).unwrap_or(Nanos(0));
    };
    let around = |nodes| match args.slow_proxy {
        Some(slow) => cloud::delayed(nodes, NodeId(slow), config.flow.seed),
        None => nodes,
    };
    let options = PlanOptions {
        players: if resumed { 0 } else { config.flow.participants as usize },
        listener: &listener,
        divert: &divert,
        around: &around,
        ..PlanOptions::new(&log)
    };
    let plan = deployment::plan(&config, clocks.of, options, kept, driver)?;
    let relay = relay.into_inner();
    notices.extend(plan.writing.iter().flat_map(|writing| writing.notices.iter().cloned()));
    notices.extend(plan.notices.iter().cloned());
    notices.extend(plan.group.iter().flat_map(|group| group.notice.clone()));
    let alarms = Alarms::default();
    let service = Service::start(&config, ("up", Path::new("")), &alarms)?;
    let (door, lines) = door::Door::open(&config, &args.out, &alarms)?;
    let killed = victim(args, &plan)?;
    if let Some(notice) = greeting::hedge_cut(&config, &plan.layers) {
        view.note(&notice);
        notices.push(notice);
    }
    let web = match &args.web {
        Some(file) => {
            let socket = door.path().map(Path::to_path_buf);
            Some(Web::of_run(file.as_deref(), &config, &plan.addresses, socket)?)
        }
        None => None,
    };
    let edge = |number: u32| {
        let place = number as usize - 1;
        let gateway = *plan.addresses.gateways.get(place)?;
        let subscriptions = *plan.addresses.subscriptions.get(place)?;
        Some(strategies::EdgeDoors { gateway, subscriptions })
    };
    let place = strategies::Place {
        doors: &edge,
        tls: host::tls::doors(&config.doors)?.map(|(_, client)| client),
        out: &args.out,
        clock: clocks.of[1],
    };
    let strategies = strategies::Ready::all(&config, &place)?;
    let seen: Vec<_> = strategies.iter().map(|one| (one.name(), one.status())).collect();
    let web_greeting = web.as_ref().map_or(String::new(), |web| format!("\n{}", web.greeting()));
    let metrics = service.as_ref().and_then(Service::address);
    let metrics = metrics.map_or(String::new(), |at| format!("\nmetrics: http://{at}/metrics"));
    let doors = web_greeting + &metrics + &door.greeting();
    view.note(&(greeting::welcome(&config, &plan.addresses) + &doors));
    let run = Run {
        stay: !args.once && args.duration.is_none(),
        kill: killed.map(|victim| (victim, flow::nanos(args.after))),
        bound_ns: clocks.of[1].reading().bound_ns,
        timed: match &scenario {
            Some(scenario) => scenario.messages.len() as u64,
            None if resumed => 0,
            None => flow::timed(&config, sample.as_ref(), duration_ns),
        },
        scenario: scenario.as_ref(),
        flip: args.flip_replica,
        capture: capture.as_ref(),
        hurry: (args.accelerate, args.days),
        alarms,
        telemetry: service.as_ref().map(Service::telemetry),
        clock,
        out: &args.out,
        config: &config,
        sample: sample.as_ref(),
    };
    let follower = store::start(&config, (&run.alarms, run.telemetry))?;
    let mut ended = run.play(plan, (relay, web, strategies), (door, lines), &mut view)?;
    notices.extend(service.map(Service::end).unwrap_or_default());
    notices.extend(seen.iter().map(|(name, status)| strategies::line(name, status)));
    drop(view);
    spill::finish_log(&log, &mut ended.nodes)?;
    notices.extend(ended.notices.iter().cloned());
    let led = ended.replication.as_ref().map(|replication| replication.leader);
    let past = Elsewhere { config: &config, log: &log, led };
    let artifacts = Artifacts {
        past: &past,
        config: &config,
        sample: sample.as_ref(),
        offline: ended.offline,
        layers: &ended.layers,
        nodes: &ended.nodes,
        ledger: &ended.ledger,
        turns: &ended.turns,
        loaded: &ended.loaded,
        rtt: &ended.rtt,
        board: &ended.board,
        notices,
        complaints: ended.complaints.clone(),
        started_at: None,
    };
    let (mut report, plots) = artifacts.report();
    report.clock = clock_report::report(clocks.end(), &config);
    report.replication = ended.replication;
    store::finish(follower, &mut report);
    let files = report
        .write(&args.out, &plots)
        .map_err(|error| Failure::Run(format!("{}: {error}", args.out.display())))?;
    let elsewhere = past.on_disk().transpose()?;
    spill::write_log(&log, &ended.nodes, elsewhere)
        .map_err(|error| host::failure::on(&log, error))?;
    if let Some(capture) = &capture {
        capture.finish(&ended.nodes, &config)?;
    }
    if args.json {
        println!("{}", report.to_json());
    } else {
        println!("{}", report.to_text());
        let [json, html] = files.map(|file| file.display().to_string());
        println!("Written: {json}, {html} and {}", log.display());
    }
    verdict(&report)
}

fn verdict(report: &Report) -> Result<(), Failure> {
    match report.failures().as_slice() {
        [] => Ok(()),
        [only] => Err(Failure::Run(only.clone())),
        [first, rest @ ..] => {
            Err(Failure::Run(format!("{first} (and {} more reasons, see the report)", rest.len())))
        }
    }
}

/// Who is killed while the exchange runs.
#[derive(Clone, Copy)]
enum Victim {
    Proxy(NodeId),
    /// A receiver with its gateway, by its place, and whoever listens to it.
    Edge(usize, NodeId),
}

fn victim(args: &UpArgs, plan: &Plan) -> Result<Option<Victim>, Failure> {
    if let Some(number) = args.fail_gateway {
        let place = usize::from(number).saturating_sub(1);
        let most = plan.receivers.len();
        let none = || Failure::Usage(format!("--fail-gateway: must be 1..={most}, is {number}"));
        let node = plan.receivers.get(place).ok_or_else(none)?;
        return Ok(Some(Victim::Edge(place, *node)));
    }
    let Some(number) = args.fail_proxy else { return Ok(None) };
    match plan.proxies.get(usize::from(number).saturating_sub(1)) {
        Some(proxy) => Ok(Some(Victim::Proxy(*proxy))),
        None if plan.proxies.is_empty() => {
            Err(Failure::Usage("--fail-proxy: a tree of depth 1 has no proxy".to_string()))
        }
        None => Err(Failure::Usage(format!(
            "--fail-proxy: must be 1..={}, is {number}",
            plan.proxies.len()
        ))),
    }
}

/// How a run goes.
struct Run<'a> {
    /// Serve on after the flow has ended, until Ctrl-C.
    stay: bool,
    /// Who is killed, and when after the start of play.
    kill: Option<(Victim, u64)>,
    /// Largest clock error that the edges claim at the start, ns.
    bound_ns: u64,
    /// Messages of the timetable.
    timed: u64,
    /// What is played, where it is a scenario.
    scenario: Option<&'a Scenario>,
    /// Of whose journal, from 1, a bit is flipped before the replicas are compared.
    flip: Option<u8>,
    /// Where the feed of receiver 1 is recorded.
    capture: Option<&'a CaptureFiles>,
    /// Longest wait for a step of the calendar, and days after which the run is over.
    hurry: (Option<Duration>, Option<u32>),
    alarms: Alarms,
    /// Who tells others' tools of the nodes, if anybody.
    telemetry: Option<&'a Telemetry>,
    /// The root's clock.
    clock: Clock,
    /// Where log and private streams are.
    out: &'a Path,
    config: &'a Config,
    sample: Option<&'a Sample>,
}

/// What a run leaves behind.
struct Ended {
    nodes: Vec<(NodeId, Role)>,
    layers: Vec<u32>,
    ledger: DeliveryLedger,
    turns: Turns,
    loaded: Vec<u64>,
    rtt: Recorder,
    board: Board,
    offline: Option<Offline>,
    replication: Option<ReplicationReport>,
    notices: Vec<String>,
    complaints: Vec<String>,
}

/// What the watching thread keeps between two looks.
struct Watch<'a> {
    run: &'a Run<'a>,
    board: &'a Board,
    /// What operators did.
    lines: Receiver<String>,
    day: TradingDay<'a>,
    accelerator: Accelerator,
    traces: Vec<TraceReceiver>,
    /// Where records of what they say go.
    releases: Option<Releases>,
    /// Datagrams that some receivers did not release, so far.
    incomplete: u64,
    root: RootLine,
    leaders: Option<Leaders>,
    /// How the journal's writer stands, where there is one.
    health: Option<Arc<Health>>,
    /// Gateways refuse requests, because the journal stands still.
    suspended: bool,
    /// It was said that the built-in flow is over.
    said_over: bool,
    /// Connections that found no descriptor, so far.
    starved: u64,
    gateways: Vec<NodeId>,
    proxies: Vec<NodeId>,
    handles: [LoopHandle<Role>; 3],
    /// That of these in which the edges are.
    edges: LoopHandle<Role>,
    latencies: (SyncSender<Vec<Latency>>, Receiver<Vec<Latency>>),
    ledger: DeliveryLedger,
    turns: Turns,
    rtt: Recorder,
    rtt_second: Recorder,
    layers: Vec<u32>,
    /// To whom the web door tells how the exchange is, and the tree of the configuration.
    venue: Option<(Arc<::web::venue::Venue>, Tree)>,
    started: Instant,
    /// When play was seen to have begun.
    playing_since: Option<Instant>,
    /// By stream: messages published before play.
    loaded: Vec<u64>,
    killed: bool,
    /// Faults that are still to come.
    script: Script,
    before: Figures,
    notices: Vec<String>,
    complaints: Vec<String>,
}

impl Run<'_> {
    /// Messages per second while the sample plays.
    fn messages_per_s(&self) -> u64 {
        let instruments = self.config.instruments.0.len();
        self.config.flow.rate_of_all(instruments, self.sample.is_some())
    }

    /// Length of the play as planned.
    fn play_ns(&self) -> u64 {
        if let Some(scenario) = self.scenario {
            return scenario.play_ns();
        }
        let ns = u128::from(self.timed) * u128::from(Nanos::SECOND);
        u64::try_from(ns / u128::from(self.messages_per_s().max(1))).unwrap_or(u64::MAX)
    }

    fn play(
        &self,
        mut plan: Plan,
        (relay, web, strategies): (Option<Relay>, Option<Web>, Vec<strategies::Ready>),
        (door, lines): (door::Door, Receiver<String>),
        view: &mut View,
    ) -> Result<Ended, Failure> {
        let stop = AtomicBool::new(false);
        let interrupted = crate::options::interrupted()?;
        let nodes = 1 + plan.proxies.len() + plan.receivers.len();
        let board = Board::new(nodes, plan.receivers.len(), self.config.instruments.0.len());
        let mut udp_ports: Vec<u16> = plan.loops.iter().flat_map(Loop::udp_ports).collect();
        udp_ports.extend(plan.group.iter().flat_map(|group| &group.udp_ports));
        let root = match &plan.group {
            Some(group) => group.line(),
            None => RootLine::alone(plan.loops[0].handle()),
        };
        let edges = plan.loops[plan.edges_in].handle();
        let steered = (root.clone(), edges.clone());
        let gateways = plan.receivers.clone();
        let edge_of = |ready: &strategies::Ready| gateways[ready.edge as usize - 1];
        let strategies: Vec<_> =
            strategies.into_iter().map(|ready| (edge_of(&ready), ready)).collect();
        let health = plan.writing.is_some();
        let health = health.then(|| Arc::new(Health::new(&self.alarms, "journal")));
        let figures: Vec<_> = match self.telemetry {
            Some(telemetry) => {
                if plan.group.is_none() {
                    telemetry.record_orders(&mut plan.loops[0], "orders");
                }
                let named = LOOPS.into_iter().zip(&plan.loops);
                named.map(|(name, of)| Some(telemetry.place(name, 0, of.handle()))).collect()
            }
            None => plan.loops.iter().map(|_| None).collect(),
        };
        let mut watch = Watch {
            run: self,
            lines,
            board: &board,
            day: TradingDay::new(self.config, root.clone(), self.play_ns()),
            accelerator: Accelerator::new(
                self.hurry,
                root.clone(),
                edges.clone(),
                gateways.clone(),
            ),
            root,
            leaders: plan.group.as_ref().map(Group::leaders),
            health: health.clone(),
            suspended: false,
            said_over: false,
            starved: 0,
            gateways: gateways.clone(),
            proxies: plan.proxies,
            handles: [0, 1, 2].map(|place: usize| plan.loops[place].handle()),
            edges: edges.clone(),
            latencies: sync_channel(16),
            ledger: DeliveryLedger::new(&LedgerConfig {
                streams: plan.streams,
                ..LedgerConfig::new(plan.receivers, fair_window_ns(self.bound_ns))
            }),
            turns: Turns::default(),
            rtt: Recorder::new(),
            rtt_second: Recorder::coarse(),
            traces: plan.traces,
            releases: self.telemetry.and_then(|of| of.releases("releases")),
            incomplete: 0,
            layers: plan.layers,
            venue: match &web {
                Some(web) => Some((web.venue(), deployment::tree(self.config)?)),
                None => None,
            },
            started: Instant::now(),
            playing_since: None,
            loaded: Vec::new(),
            killed: false,
            script: Script::new(self.scenario, door.path().map(Path::to_path_buf))?,
            before: board.figures(),
            notices: Vec::new(),
            complaints: Vec::new(),
        };
        let trouble = Mutex::new(Vec::new());
        let jobs = plan.jobs;
        let (offline, ended, replicas) = thread::scope(|scope| {
            if let Some(relay) = &relay {
                scope.spawn(|| relay.run(&stop));
            }
            scope.spawn(|| door.serve(self.config, steered, gateways, &stop));
            if let Some(web) = web {
                scope.spawn(|| {
                    let served = web.serve(&stop, (&self.alarms, self.telemetry));
                    if let (Err(failure), Ok(mut trouble)) = (served, trouble.lock()) {
                        trouble.push(format!("the web door: {failure}"));
                    }
                });
            }
            for (edge, ready) in strategies {
                let (name, stop, trouble) = (ready.name(), &stop, &trouble);
                let of = edges.clone();
                scope.spawn(move || {
                    let level = |waited| strategies::is_level(&of, edge, waited);
                    let ran = ready.run(&self.alarms, stop, level);
                    if let (Err(failure), Ok(mut trouble)) = (ran, trouble.lock()) {
                        trouble.push(format!("strategy {name}: {failure}"));
                    }
                });
            }
            scope.spawn(move || jobs.serve(&edges, host::password::work));
            let mut threads: Vec<ScopedJoinHandle<_>> = Vec::new();
            for ((of, core), figures) in plan.loops.into_iter().zip(plan.cores).zip(figures) {
                let (stop, board, trouble) = (&stop, &board, &trouble);
                let run = move || host((of, figures), core, stop, board, trouble);
                threads.push(scope.spawn(run));
            }
            let (root, mailbox) =
                (watch.handles[0].clone(), plan.writing.as_ref().map(|w| Arc::clone(&w.mailbox)));
            let writer = plan.writing.zip(health).map(|(writing, health)| {
                scope.spawn(move || kept::write(writing.journal, &writing.mailbox, &root, &health))
            });
            let replicas = plan.group.map(|mut group| {
                let places = self.telemetry.map(|of| group.tell(of)).unwrap_or_default();
                let (board, clock) = (&board, self.clock);
                let observe = move |place, role: &Role| {
                    board.observe_replica(place, role);
                    if let Some(figures) = places.get(place) {
                        figures.look_at_replica(place as u8 + 1, role, clock.reading());
                    }
                };
                group.start(scope, observe, &self.alarms)
            });
            watch.until_over(&interrupted, &stop, view);
            watch.end_session();
            let drops = net::kernel_drops(&udp_ports).unwrap_or(0);
            if drops > 0 {
                watch.notices.push(format!("{drops} datagrams dropped at full socket buffers"));
            }
            stop.store(true, Ordering::Relaxed);
            let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
            if let Some(mailbox) = mailbox {
                mailbox.close();
            }
            if let Some(complaint) = writer.and_then(written) {
                watch.complaints.push(complaint);
            }
            let replicas =
                replicas.map(|replicas| replicas.end(|| board.figures().replicas.are_level()));
            watch.collect();
            // After the run: the engine alone would take a core from it.
            (self.sample.map(|sample| replay(self.config, sample)), ended, replicas)
        });
        let mut complaints = trouble.into_inner().unwrap_or_default();
        complaints.append(&mut watch.complaints);
        let mut nodes = Vec::new();
        for outcome in ended {
            match outcome {
                Ok(some) => nodes.extend(some),
                Err(_) => complaints.push("a loop's thread panicked".to_string()),
            }
        }
        let judged = watch.leaders.take().zip(replicas);
        let replication = judged.map(|(leaders, replicas)| {
            let (report, root, wrong) =
                judge::judge(leaders.seen, self.config, replicas, self.flip);
            nodes.extend(root.map(|root| (ROOT, root)));
            complaints.extend(wrong);
            report
        });
        let dropped: u64 = watch.handles.iter().map(|h| h.counters().traces_dropped).sum();
        if dropped > 0 {
            watch.notices.push(format!("{dropped} traces lost: latency figures lack them"));
        }
        let Watch { mut ledger, turns, rtt, layers, mut notices, loaded, .. } = watch;
        ledger.finish();
        let incomplete = ledger.counts().incomplete;
        if incomplete > 0 {
            notices.push(format!("{incomplete} datagrams are in no latency figure: traces lacked"));
        }
        let offline = offline.transpose()?;
        Ok(Ended {
            nodes,
            layers,
            ledger,
            turns,
            loaded,
            rtt,
            board,
            offline,
            replication,
            notices,
            complaints,
        })
    }
}

/// Within which releases count as one: a microsecond beside what clocks may be apart, ns.
fn fair_window_ns(bound_ns: u64) -> u64 {
    Nanos::MICRO + 2 * bound_ns
}

/// Runs one loop; its nodes, or nothing and a complaint.
/// Runs a loop on the calling thread, which takes `core` if it is to have one.
fn host(
    (of, figures): (Loop<Role>, Option<Arc<Place>>),
    core: Option<u16>,
    stop: &AtomicBool,
    board: &Board,
    trouble: &Mutex<Vec<String>>,
) -> Vec<(NodeId, Role)> {
    let taken = core.map_or(Ok(()), |core| host::core::take("[loops]", core));
    let look = |of: &Loop<Role>, reading| {
        board.observe(of);
        if let Some(figures) = &figures {
            figures.look(of, reading);
        }
    };
    let run = || of.run(stop, OBSERVE_EVERY, look).map_err(io);
    taken.and_then(|()| run()).unwrap_or_else(|error| {
        stop.store(true, Ordering::Relaxed);
        if let Ok(mut trouble) = trouble.lock() {
            trouble.push(format!("a loop failed: {error}"));
        }
        Vec::new()
    })
}

/// The sample through the engine alone.
pub fn replay(config: &Config, sample: &Sample) -> Result<Offline, Failure> {
    exchange::offline(engine_config(config), sample)
        .map_err(|error| Failure::Run(error.to_string()))
}

/// Loads the configured sample, for commands that need it.
pub fn sample(config: &Config) -> Result<Sample, Failure> {
    flow::load_sample(config).map_err(|why| {
        Failure::Run(format!("no sample: {why}; fetch it with scripts/fetch-sample.sh"))
    })
}

impl Watch<'_> {
    fn until_over(&mut self, interrupted: &AtomicBool, stop: &AtomicBool, view: &mut View) {
        let mut next_view = self.started + Duration::from_secs(1);
        let mut settled_at = None;
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(COLLECT_EVERY);
            self.collect();
            self.note_operators(view);
            let standing = self.follow_journal();
            if standing == Standing::Failed {
                // Nothing can be acknowledged any more: another start goes on with what is durable.
                return self.note_operators(view);
            }
            if Instant::now() >= next_view {
                next_view += Duration::from_secs(1);
                self.hear_ahead();
                self.note_starved();
                self.second(view);
            }
            let figures = self.board.figures();
            if let Some(line) = self.leaders.as_mut().and_then(Leaders::look) {
                view.note(&line);
            }
            self.begin_measuring(&figures);
            self.day.begin(figures.driver.and_then(|status| status.started_at));
            self.kill_if_due(&figures, view);
            self.go_wrong(view);
            self.follow_tree(&figures);
            if let Some(line) = self.accelerator.look() {
                view.note(&line);
                self.notices.push(line);
            }
            let over = interrupted.load(Ordering::Relaxed) || self.accelerator.is_over();
            if over {
                self.stop_driver();
            }
            let idle = figures.driver.is_some_and(|status| status.phase == Phase::Idle)
                && (over || self.script.is_over());
            if idle && self.run.stay && !over {
                self.say_over(view);
            }
            if !idle || (self.run.stay && !over) || !self.day.close() {
                continue;
            }
            let since = *settled_at.get_or_insert_with(Instant::now);
            // Wait a look longer than necessary, so that figures are newer than the last answer.
            let settled = figures.is_settled()
                && since.elapsed() > 3 * OBSERVE_EVERY
                && !self.ends_the_day(&figures);
            // Whoever wants it to end while there is no room does not wait for that; a slow disk answers.
            let patience = if standing == Standing::Full { STILL } else { SETTLE };
            if settled || since.elapsed() > patience {
                return self.note_operators(view);
            }
        }
    }

    /// In a group the end of the day may take a while to be committed.
    fn ends_the_day(&self, figures: &Figures) -> bool {
        self.leaders.is_some() && self.run.config.has_auctions() && figures.day_open
    }

    /// Tells what operators did, and of alarms.
    fn note_operators(&mut self, view: &mut View) {
        for line in self.run.alarms.take_lines() {
            view.alarm(&line);
            if self.notices.len() < door::NOTICES_MAX {
                self.notices.push(line);
            }
        }
        while let Ok(line) = self.lines.try_recv() {
            view.note(&line);
            if self.notices.len() < door::NOTICES_MAX {
                self.notices.push(line);
            }
        }
    }

    /// Lets every listener know that nothing will follow.
    fn end_session(&self) {
        let done = self.root.call(|root, now, out| root.end_session(now, out));
        if done.is_ok() {
            thread::sleep(GOODBYE);
        }
    }

    /// Says once that the built-in participants have played all there was, where the exchange serves on.
    fn say_over(&mut self, view: &mut View) {
        if self.playing_since.is_some() && !std::mem::replace(&mut self.said_over, true) {
            view.note(FLOW_OVER);
        }
    }

    /// Takes traces and latencies.
    fn collect(&mut self) {
        let (ledger, releases) = (&mut self.ledger, &mut self.releases);
        for traces in &self.traces {
            traces.drain(|batch| {
                ledger.record_all(batch);
                if let Some(releases) = releases {
                    releases.take(batch);
                }
            });
        }
        while let Ok(batch) = self.latencies.1.try_recv() {
            for latency in batch.iter().filter(|latency| latency.kind == RequestKind::New) {
                self.rtt.record(latency.ns);
                self.rtt_second.record(latency.ns);
            }
        }
        if let Some(capture) = self.run.capture {
            capture.collect(&self.handles[2]);
        }
        let to = self.latencies.0.clone();
        self.on_driver(move |driver| {
            let mut batch = Vec::new();
            driver.tape().drain_latencies(|latency| batch.push(latency));
            driver.tape().drain_sightings(|_| {});
            if !batch.is_empty() {
                // Full only when this thread sleeps for seconds; the figures then lack a batch.
                let _ = to.try_send(batch);
            }
        });
    }

    fn on_driver(&self, call: impl FnOnce(&mut participant::Driver) + Send + 'static) {
        // Refused only when the loop is over or far behind; both show elsewhere.
        let _ = self.handles[2].call(DRIVER, move |role, _, _| {
            if let Role::Driver(driver) = role {
                call(driver);
            }
        });
    }

    fn stop_driver(&self) {
        self.on_driver(participant::Driver::stop);
    }

    /// Loading the books is no part of the figures.
    fn begin_measuring(&mut self, figures: &Figures) {
        let started = figures.driver.and_then(|status| status.started_at);
        if let (None, Some(at)) = (self.playing_since, started) {
            self.playing_since = Some(Instant::now());
            self.loaded.clone_from(&figures.feed_next);
            self.ledger.measure_from(at);
            self.turns.begin(figures.epoch.max(1), at, &mut self.ledger);
        }
    }

    fn kill_if_due(&mut self, figures: &Figures, view: &mut View) {
        let Some((victim, after_ns)) = self.run.kill.filter(|_| !self.killed) else { return };
        let Some(status) = figures.driver.filter(|status| status.started_at.is_some()) else {
            return;
        };
        let (played_ns, over) = match victim {
            Victim::Proxy(_) if self.run.scenario.is_none() => {
                let played_ns = status.timed * Nanos::SECOND / self.run.messages_per_s().max(1);
                (played_ns, status.phase > Phase::Playing)
            }
            // Its participants may be others than those that play.
            Victim::Edge(..) | Victim::Proxy(_) => {
                (self.playing_since.map_or(0, |since| flow::nanos(since.elapsed())), false)
            }
        };
        if played_ns >= after_ns || over {
            self.killed = true;
            self.strike(victim, played_ns, view);
        }
    }

    /// What the scenario has go wrong by now.
    fn go_wrong(&mut self, view: &mut View) {
        let Some(since) = self.playing_since else { return };
        while let Some(fault) = self.script.due(since.elapsed()) {
            let node = |nodes: &[NodeId], number: u16| {
                nodes.get(usize::from(number).saturating_sub(1)).copied()
            };
            let victim = match fault {
                Fault::Proxy(number) => node(&self.proxies, number).map(Victim::Proxy),
                Fault::Gateway(number) => node(&self.gateways, number)
                    .map(|edge| Victim::Edge(usize::from(number).saturating_sub(1), edge)),
                Fault::Operator(_) => None,
            };
            if let Some(victim) = victim {
                self.strike(victim, flow::nanos(since.elapsed()), view);
            }
        }
    }

    /// Kills a machine.
    fn strike(&mut self, victim: Victim, played_ns: u64, view: &mut View) {
        let (what, done) = match victim {
            Victim::Proxy(proxy) => (format!("proxy {}", proxy.0), self.handles[0].kill(proxy)),
            Victim::Edge(place, node) => {
                // Nobody hears a receiver that is gone.
                let listener = NodeId(LISTENERS.0 + place as u16);
                self.board.forget_listener(place);
                let done = self.handles[2].kill(listener);
                let done = done.and_then(|()| self.edges.kill(node));
                (format!("gateway {} and its receiver", place + 1), done)
            }
        };
        let note = match done {
            Ok(()) => format!("{what} killed after {:.1} s", played_ns as f64 / 1e9),
            Err(error) => format!("{what} not killed: {error}"),
        };
        view.note(&note);
        self.notices.push(note);
    }

    /// Draws the last second.
    fn second(&mut self, view: &mut View) {
        let figures = self.board.figures();
        let snapshot = self.snapshot(&figures);
        view.show(&snapshot);
        if figures.epoch > self.before.epoch && self.before.epoch > 0 {
            view.note(&format!("the tree of epoch {} has taken over", figures.epoch));
        }
        for proxy in figures.dead.iter().filter(|proxy| !self.before.dead.contains(proxy)) {
            view.note(&format!("proxy {proxy} does not answer: it is routed around"));
        }
        self.revise(&figures, view);
        figures.watch_capacities(self.run.config, &self.run.alarms);
        figures.tell_refused(&self.before, &self.run.alarms);
        if let Some((venue, tree)) = &self.venue {
            let bound_ns = self.run.bound_ns;
            let known = (figures.tree.as_ref().unwrap_or(tree), fair_window_ns(bound_ns), bound_ns);
            venue::tell(venue, &self.ledger, &figures, known);
        }
        let percent = room::percent(&figures.fill, room::free(self.run.out), figures.log);
        room::tell(&self.run.alarms, self.run.out, &figures.fill, percent);
        self.rtt_second.clear();
        self.before = figures;
        self.tell_fairness();
    }

    /// How fair the last second was, for metrics.
    fn tell_fairness(&mut self) {
        let Some(telemetry) = self.run.telemetry else { return };
        let (_, of) = self.ledger.last_second();
        let all = self.ledger.counts().incomplete;
        let incomplete = all - std::mem::replace(&mut self.incomplete, all);
        telemetry.tell("fairness", |to| {
            fairness::messages(to, of.messages, incomplete);
            fairness::oml(to, "arrival", (of.oml_arrival_ns.p50, of.oml_arrival_ns.p99));
            fairness::oml(to, "release", (of.oml_release_ns.p50, of.oml_release_ns.p99));
            fairness::window(to, (of.dws_ns.p50, of.dws_ns.p99));
            // The window has what the clocks leave open.
            of.p_fair.iter().for_each(|share| fairness::within(to, "possible", *share));
        });
    }

    fn snapshot(&self, figures: &Figures) -> Snapshot {
        let trades = |figures: &Figures| figures.tops.iter().map(|top| top.trades).sum::<u64>();
        let asked = |figures: &Figures| figures.driver.map_or(0, |status| status.ledger.asked);
        let ledger = figures.driver.map(|status| status.ledger).unwrap_or_default();
        let phase = figures.driver.map_or(Phase::Connecting, |status| status.phase);
        let (_, delivery) = self.ledger.last_second();
        let books = figures.tops.iter().zip(&self.run.config.instruments.0);
        Snapshot {
            elapsed: self.started.elapsed(),
            phase: match phase {
                Phase::Connecting => "connecting",
                Phase::Loading => "loading the opening books",
                Phase::Playing => "playing",
                Phase::Draining => "waiting for the last answers",
                Phase::Idle if self.run.stay => "serving; Ctrl-C ends",
                Phase::Idle => "done",
            },
            progress: (phase == Phase::Playing)
                .then(|| (figures.driver.map_or(0, |status| status.timed), self.run.timed)),
            orders_sent: ledger.asked,
            orders_acknowledged: ledger.answered,
            orders_per_s: asked(figures).saturating_sub(asked(&self.before)),
            trades_per_s: trades(figures).saturating_sub(trades(&self.before)),
            feed_per_s: figures.published().saturating_sub(self.before.published()),
            rtt_ns: quantiles(&self.rtt_second.summary()),
            oml_release_ns: quantiles(&delivery.oml_release_ns),
            p_on_time: delivery.p_on_time,
            p_fair: delivery.p_fair,
            hops: figures.hops(&self.layers),
            repairs: figures.repairs.iter().chain(&figures.listener_repairs).sum(),
            resends: figures.resends.iter().sum(),
            books: books
                .map(|(top, entry)| TopOfBook {
                    symbol: entry.symbol.clone(),
                    lot_decimals: entry.lot_decimals,
                    bid: top.bid,
                    offer: top.offer,
                    trades: top.trades,
                })
                .collect(),
        }
    }
}
