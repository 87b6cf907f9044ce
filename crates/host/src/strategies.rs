//! Participants' programs beside the receivers of this machine's edges: read, checked, and run, each on a thread
//! of its own.
//!
//! To the exchange a strategy is a participant: it subscribes to the feed at its edge's door and has an ordinary
//! OUCH session at the gateway of that edge. What is wrong with its module, its signature or its start is an
//! error before anything runs; what goes wrong later stops that strategy and raises an alarm.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use exchange::{Edge, Role};
use feed::{ListenerConfig, Subscriber};
use net::{ClientTls, Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy, peer_addr};
use strategy::enclave::attestation::Measurement;
use strategy::heard::Opening;
use strategy::{
    Cage, Limits, Login, Module, Programmed, Strategy, StrategyNode, StrategySettings,
    StrategyStatus, signature,
};
use types::{Channel, Instrument, Nanos, NodeId};
use wire::moldudp;
use wire::subscription::{Subscribed, Way};

use crate::alarms::Alarms;
use crate::config::{Config, Enclaves, StrategyEntry};
use crate::enclave::{self, Bounds, Equalizer, Image, Trust};
use crate::failure::{Failure, on};
use crate::sockets::{io, udp_anywhere};
use crate::subscriber::Session;

/// The node's name in its loop.
const STRATEGY_NODE: NodeId = NodeId(60_004);
/// Prices of the exchange are in 1/10000 of the quote currency.
const PRICE_DECIMALS: u8 = 4;
/// Between two attempts to subscribe.
const RETRY: Duration = Duration::from_millis(200);
/// How long a feed that was never heard is waited for.
const LEVEL_WAIT: Duration = Duration::from_secs(10);
/// Between two looks at how it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The doors of an edge.
#[derive(Clone, Copy, Debug)]
pub struct EdgeDoors {
    /// OUCH over SoupBinTCP.
    pub gateway: SocketAddr,
    /// Subscriptions to the feed.
    pub subscriptions: SocketAddr,
}

/// Where the strategies of a machine run.
pub struct Place<'a> {
    /// The doors of its edges, by their numbers from 1; `None`: that one is on another machine.
    pub doors: &'a dyn Fn(u32) -> Option<EdgeDoors>,
    /// How strategies speak with them; `None`: in clear.
    pub tls: Option<ClientTls>,
    /// Folder of records whose names are not absolute.
    pub out: &'a Path,
    /// The clock of its edges.
    pub clock: Clock,
}

/// A strategy that was read, checked and started, and is told nothing yet.
pub struct Ready {
    /// Number of its edge, from 1.
    pub edge: u32,
    entry: StrategyEntry,
    password: String,
    instruments: Vec<Instrument>,
    orders_max: u32,
    strategy: Box<dyn Strategy + Send>,
    doors: EdgeDoors,
    tls: Option<ClientTls>,
    clock: Clock,
    record: Option<File>,
    status: Arc<Mutex<StrategyStatus>>,
}

/// What a strategy is made of.
pub enum Code {
    /// A module for the cage.
    Module(Module),
    /// A program for an enclave, and what it is expected to measure.
    Program(Image, Measurement),
}

/// What strategies of a machine have in common.
pub struct Around {
    /// Whose attestations are believed; `None`: no strategy is in an enclave.
    trust: Option<Trust>,
    equalizer: Equalizer,
    clock: Clock,
}

impl Around {
    /// For the strategies of a configuration.
    ///
    /// # Errors
    /// The root's certificate or the attestor's key can't be read.
    pub fn new(config: &Config, clock: Clock) -> Result<Around, Failure> {
        let Enclaves { root, attestor, boundary_us } = &config.enclaves;
        let any = config.strategies.0.iter().any(|entry| entry.expected().is_some());
        let trust = any.then(|| Trust::read(root, attestor)).transpose()?;
        let equalizer = Equalizer::new(u64::from(*boundary_us) * Nanos::MICRO);
        Ok(Around { trust, equalizer, clock })
    }
}

/// A strategy that was started.
pub struct Started {
    /// The module in its cage, or the end of the boundary to its enclave.
    pub strategy: Box<dyn Strategy + Send>,
    /// How it started, for people.
    pub how: String,
}

/// Reads a module or a program and checks its signature.
///
/// # Errors
/// Neither can be read, the signature is not the account's, or it is too large or no strategy.
pub fn code(entry: &StrategyEntry) -> Result<Code, Failure> {
    let path = Path::new(&entry.module);
    let limits = entry.limits();
    let bytes = bounded(path, limits.module_bytes)?;
    let signed = entry.signature_file();
    let text = bounded(Path::new(&signed), 4_096)?;
    let text = String::from_utf8_lossy(&text);
    signature::check(&entry.key, &text, &entry.account, &bytes)
        .map_err(|error| on(Path::new(&signed), error))?;
    let name = entry.name();
    match entry.expected() {
        Some(expected) => Image::new(&bytes)
            .map(|image| Code::Program(image, expected))
            .map_err(|error| on(path, error)),
        None => {
            Module::new(&name, &bytes, &limits).map(Code::Module).map_err(|error| on(path, error))
        }
    }
}

/// The bytes of a file that may be so large.
fn bounded(path: &Path, most: usize) -> Result<Vec<u8>, Failure> {
    let size = std::fs::metadata(path).map_err(|error| on(path, error))?.len();
    if size > most as u64 {
        return Err(on(path, format!("{size} bytes, above {most}")));
    }
    std::fs::read(path).map_err(|error| on(path, error))
}

/// Starts a strategy as it would be in the exchange of this configuration.
///
/// # Errors
/// It can't be started, is not believed, or refuses its settings.
pub fn start(
    code: &Code,
    entry: &StrategyEntry,
    (instruments, around): (&[Instrument], &Around),
) -> Result<Started, Failure> {
    let limits: Limits = entry.limits();
    let path = Path::new(&entry.module);
    let (bounds, told) = ((limits.actions, limits.unanswered), (instruments, PRICE_DECIMALS));
    let right = |failure: Option<&str>| failure.map_or(Ok(()), |why| Err(on(path, why)));
    match code {
        Code::Module(module) => {
            let cage = Cage::new(module, &entry.settings, &limits);
            let cage = cage.map_err(|error| on(path, error))?;
            let mut started = Programmed::start(cage, told, bounds);
            right(started.failure())?;
            let how = format!("{} fuel of {}", started.program_mut().used(), limits.fuel);
            Ok(Started { strategy: Box::new(started), how })
        }
        Code::Program(image, expected) => {
            let (clock, none) = (around.clock, || on(path, "no enclaves here"));
            let trust = around.trust.as_ref().ok_or_else(none)?;
            let within = Bounds {
                memory_bytes: limits.memory_bytes,
                answer: Duration::from_millis(entry.answer_ms.into()),
            };
            let name = entry.name();
            let what = (&name[..], &entry.settings[..]);
            let mut running = enclave::attested(trust, image, what, (expected, &within, clock))?;
            let boundary_ns = enclave::measured(&mut running.enclave)?;
            running.enclave.set_hold(around.equalizer.hold(boundary_ns, clock));
            let started = Programmed::start(running, told, bounds);
            right(started.failure())?;
            let how = format!("an attested enclave, {} us away", boundary_ns / Nanos::MICRO);
            Ok(Started { strategy: Box::new(started), how })
        }
    }
}

impl Ready {
    /// Reads, checks and starts the strategies of a configuration whose edges are at a place. All boundaries of
    /// enclaves are measured then, before anything is told.
    ///
    /// # Errors
    /// What is wrong with a module, its signature, its start or its files.
    pub fn all(config: &Config, place: &Place<'_>) -> Result<Vec<Ready>, Failure> {
        let mut ready = Vec::new();
        let Place { out, clock, .. } = *place;
        let around = Around::new(config, clock)?;
        for entry in &config.strategies.0 {
            let Some(doors) = (place.doors)(entry.edge) else { continue };
            let instruments = config.instruments();
            let started = start(&code(entry)?, entry, (&instruments, &around))?;
            let record = match entry.record.as_str() {
                "" => None,
                name => {
                    let path = out.join(name);
                    crate::files::folder(path.parent().unwrap_or(out))?;
                    Some(crate::files::create(&path).map_err(|error| on(&path, error))?)
                }
            };
            let account = config.accounts.0.iter().find(|one| one.username == entry.account);
            ready.push(Ready {
                password: account.map(|one| one.password.clone()).unwrap_or_default(),
                orders_max: config.engine.open_orders_max,
                tls: place.tls.clone(),
                edge: entry.edge,
                entry: entry.clone(),
                instruments,
                strategy: started.strategy,
                doors,
                clock,
                record,
                status: Arc::default(),
            });
        }
        Ok(ready)
    }

    /// Its account and module, for people.
    pub fn name(&self) -> String {
        format!("{} of {}", self.entry.name(), self.entry.account)
    }

    /// Where it is seen how it is, while it runs and afterwards.
    pub fn status(&self) -> Arc<Mutex<StrategyStatus>> {
        Arc::clone(&self.status)
    }

    /// Runs it until `stop` is set, from when its edge says that what it releases is new ([`is_level`]).
    ///
    /// # Errors
    /// The system refuses sockets, or its loop fails.
    pub fn run(
        self,
        alarms: &Alarms,
        stop: &AtomicBool,
        level: impl Fn(bool) -> bool,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) && !level(begun.elapsed() > LEVEL_WAIT) {
            thread::sleep(LOOK_EVERY);
        }
        let socket = udp_anywhere().map_err(io)?;
        let port = socket.local_addr().map_err(io)?.port();
        let name = self.name();
        let Some((mut session, told)) = self.subscribe(port, stop) else { return Ok(()) };
        let streams = told.streams.len().max(1);
        let opening = Opening {
            price_decimals: PRICE_DECIMALS,
            streams: streams as u8,
            orders_max: self.orders_max,
            midnight: Nanos(told.midnight_ns),
            history: std::array::from_fn(|stream| {
                told.streams.get(stream).map_or(0, |(_, first)| first.saturating_sub(1))
            }),
        };
        let settings = StrategySettings {
            login: Login {
                username: self.entry.account.clone(),
                password: self.password.clone(),
                gateways: vec![peer_addr(self.doors.gateway)],
            },
            instruments: self.instruments.clone(),
            opening,
            record: self.record.map(|file| {
                let mut to = BufWriter::new(file);
                let (alarms, name) = (alarms.clone(), name.clone());
                let sink = move |bytes: &[u8]| {
                    if let Err(error) = to.write_all(bytes) {
                        alarms.raise("strategy-record", format!("record of {name}: {error}"));
                    }
                };
                Box::new(sink) as Box<dyn FnMut(&[u8]) + Send>
            }),
        };
        let channels: Vec<_> =
            told.streams.iter().map(|(name, _)| (moldudp::Session(*name), Vec::new())).collect();
        let feed = Subscriber::new(&listener(&told, self.orders_max), channels);
        let node = StrategyNode::new(feed, self.strategy, settings)
            .map_err(|error| Failure::Usage(format!("strategy {name}: {error}")))?;
        let wait = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
        let habits = LoopConfig { wait, ..LoopConfig::default() };
        let mut of = Loop::new(self.clock, Arc::new(Directory::default()), habits).map_err(io)?;
        of.add_node(STRATEGY_NODE, node, vec![(Channel::FEED, socket)], None).map_err(io)?;
        if let Some(tls) = &self.tls {
            of.secure_outgoing(STRATEGY_NODE, ClientTls::clone(tls));
        }
        let handle = of.handle();
        let status = Arc::clone(&self.status);
        let again = Again { doors: self.doors, login: (&self.entry.account, &self.password) };
        thread::scope(|scope| {
            let mut failed = false;
            let look = move |of: &Loop<StrategyNode>, _| {
                let Some((_, node)) = of.nodes().next() else { return };
                let seen = node.status();
                if let Some(why) = seen.failure.as_ref().filter(|_| !failed) {
                    failed = true;
                    alarms.raise(
                        &format!("strategy-{name}"),
                        format!("strategy {name} is stopped, and its orders are cancelled: {why}"),
                    );
                }
                *status.lock().unwrap_or_else(PoisonError::into_inner) = seen;
            };
            let running = scope.spawn(|| of.run(stop, LOOK_EVERY, look));
            while !stop.load(Ordering::Relaxed) {
                if session.turn().is_err() {
                    let tls = self.tls.as_ref();
                    let Some((fresh, told)) = again.subscribe(tls, port, stop) else { break };
                    session = fresh;
                    follow(&handle, &told);
                }
            }
            session.leave();
            let panicked = || Failure::Run("a strategy's thread panicked".to_string());
            let nodes = running.join().map_err(|_| panicked())?.map_err(io)?;
            if let Some((_, node)) = nodes.first() {
                *self.status.lock().unwrap_or_else(PoisonError::into_inner) = node.status();
            }
            Ok(())
        })
    }

    fn subscribe(&self, port: u16, stop: &AtomicBool) -> Option<(Session, Subscribed)> {
        let again = Again { doors: self.doors, login: (&self.entry.account, &self.password) };
        again.subscribe(self.tls.as_ref(), port, stop)
    }
}

/// Whether what the edge of a loop releases is new; see [`Edge::is_level`].
pub fn is_level(of: &LoopHandle<Role>, edge: NodeId, waited: bool) -> bool {
    let (to, answer) = std::sync::mpsc::sync_channel(1);
    let asked = of.call(edge, move |role: &mut Role, _, out| {
        let level = role.with_edge(out, |edge: &mut Edge, _| edge.is_level(waited));
        let _ = to.send(level.unwrap_or(true));
    });
    asked.is_ok() && answer.recv_timeout(RETRY).unwrap_or(false)
}

/// How a strategy was, in one line.
pub fn line(name: &str, status: &Mutex<StrategyStatus>) -> String {
    let of = status.lock().unwrap_or_else(PoisonError::into_inner);
    let ended = match &of.failure {
        Some(why) => format!("stopped: {why}"),
        None => format!("{} orders open", of.open),
    };
    format!(
        "strategy {name}: {} messages and {} reports heard, {} orders and {} cancels, {ended}",
        of.messages, of.reports, of.orders, of.cancels
    )
}

/// What it takes to subscribe.
struct Again<'a> {
    doors: EdgeDoors,
    login: (&'a str, &'a str),
}

impl Again<'_> {
    /// Subscribes at the edge, as often as it takes; `None`: it is over.
    fn subscribe(
        &self,
        tls: Option<&ClientTls>,
        port: u16,
        stop: &AtomicBool,
    ) -> Option<(Session, Subscribed)> {
        while !stop.load(Ordering::Relaxed) {
            let opened = Session::open(self.doors.subscriptions, self.login, tls);
            let told = opened.and_then(|mut session| {
                let to = SocketAddr::new(session.local(), port);
                session.subscribe(Way::Unicast, to).map(|told| (session, told))
            });
            match told {
                Ok(told) => return Some(told),
                Err(_) => thread::sleep(RETRY),
            }
        }
        None
    }
}

fn listener(told: &Subscribed, orders_max: u32) -> ListenerConfig {
    let servers = told.repair.iter().map(|at| peer_addr(*at)).collect();
    let mut settings = ListenerConfig::new(moldudp::Session([b' '; 10]), servers, Vec::new());
    settings.sources = Some(vec![peer_addr(told.from)]);
    settings.orders_max = orders_max as usize;
    settings
}

fn follow(handle: &LoopHandle<StrategyNode>, told: &Subscribed) {
    let sources = vec![peer_addr(told.from)];
    // The loop runs: it takes the call.
    let _ = handle.call(STRATEGY_NODE, move |node: &mut StrategyNode, _, _| {
        node.set_sources(sources);
    });
}
