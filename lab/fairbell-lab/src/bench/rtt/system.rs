//! The exchange under measurement, and the participants who measure it.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use exchange::{ExchangeConfig, Role, deploy};
use net::{Clock, Directory, Loop, LoopConfig, peer_addr};
use participant::load::{Kind, Load, LoadConfig, LoadPhase, Login, Protocol, Version};
use telemetry::Recorder;
use types::{Channel, Nanos, NodeId, Peer, Price};

use super::{CLIENT, CONNECTIONS, address, io, listen, panicked, wait_for, wait_strategy};
use super::{RttArgs, RttPath};
use fairbell::load::ProtocolName;
use fairbell::options::Switch;
use host::config::Config;
use host::deployment::{exchange_config, overlay_options};
use host::failure::Failure;
use host::telemetry::Place;

/// Answers of this time give no latency: caches and buffers are still cold.
const WARM_UP_NS: u64 = 200 * Nanos::MILLI;
/// Between two looks at loops whose figures go somewhere, as in `fairbell up`.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long logins and the last answers may take.
const PATIENCE_NS: u64 = 10 * Nanos::SECOND;

/// What is measured.
pub struct System {
    config: Config,
    path: RttPath,
    protocol: ProtocolName,
    rate: u64,
}

impl System {
    pub fn new(args: &RttArgs) -> System {
        let mut config = Config::default().unlimited();
        config.overlay.sealed = args.sealed == Switch::On;
        match args.path {
            RttPath::Engine => {
                config.overlay.depth = 1;
                config.overlay.receivers = 1;
                config.overlay.hedge = 0;
                config.sequencer.enabled = false;
            }
            RttPath::Tree => {
                config.overlay.depth = 2;
                config.overlay.fanout = 2;
                config.overlay.receivers = 4;
            }
        }
        if args.protocol == ProtocolName::Fix {
            for (number, account) in config.accounts.0.iter_mut().enumerate() {
                account.fix_comp_id = format!("CLIENT{:03}", number + 1);
            }
        }
        System { config, path: args.path, protocol: args.protocol, rate: args.rate }
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its configuration, to be changed before anything is measured.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }

    /// How long the sequencer waits, in ns.
    pub fn window_ns(&self) -> u64 {
        self.config.sequencer.window_ns()
    }

    /// Latencies of the acceptances of new orders, and the mean bytes of a request and of what comes
    /// back for it.
    pub fn slice(&self, slice_ns: u64, seed: u64) -> Result<(Recorder, [usize; 2]), Failure> {
        self.slice_told(slice_ns, seed, |_| Vec::new())
    }

    /// As [`System::slice`]; `told` is given the exchange's loops before they run, and says where their figures
    /// go.
    pub fn slice_told(
        &self,
        slice_ns: u64,
        seed: u64,
        told: impl FnOnce(&mut [Loop<Role>]) -> Vec<Arc<Place>>,
    ) -> Result<(Recorder, [usize; 2]), Failure> {
        let clock = Clock::start(self.config.hold.clock_bound_ns);
        let mut exchange = exchange_config(&self.config, &clock);
        exchange.options.secret = overlay_options(&self.config)?.secret;
        // Nobody reads what is released; the socket stays open so that sending costs the usual.
        let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io)?;
        let (mut inside, entries) = self.exchange(clock, &exchange, &sink)?;
        let places = told(&mut inside);
        let habits = LoopConfig { wait: wait_strategy(self.path), ..LoopConfig::default() };
        let mut outside = Loop::new(clock, Arc::new(Directory::default()), habits).map_err(io)?;
        let load = self.participants(entries, slice_ns, seed)?;
        outside.add_node(CLIENT, load, Vec::new(), None).map_err(io)?;
        let figures = outside.handle();
        let (stop, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let nodes = thread::scope(|scope| {
            let inside: Vec<_> = (inside.into_iter().enumerate())
                .map(|(at, of)| {
                    let (place, stop) = (places.get(at), &stop);
                    let look = move |of: &Loop<Role>, reading| {
                        place.iter().for_each(|place| place.look(of, reading));
                    };
                    let every = if place.is_some() { LOOK_EVERY } else { Duration::from_secs(1) };
                    scope.spawn(move || of.run(stop, every, look))
                })
                .collect();
            let outside = scope.spawn(|| {
                outside.run(&stop, Duration::from_millis(20), |of, _| {
                    let over = of.nodes().all(|(_, load)| load.phase() == LoadPhase::Done);
                    done.store(over, Ordering::Relaxed);
                })
            });
            wait_for(&done, slice_ns);
            stop.store(true, Ordering::Relaxed);
            for of in inside {
                of.join().map_err(|_| panicked())?.map_err(io)?;
            }
            outside.join().map_err(|_| panicked())?.map_err(io)
        })?;
        let moved = figures.counters();
        let Some((_, load)) = nodes.into_iter().next() else { return Err(panicked()) };
        let counts = load.counts();
        if counts.answered < load.planned() || counts.duplicates > 0 {
            return Err(Failure::Run(format!(
                "{} of {} requests answered, {} twice: no measurement",
                counts.answered,
                load.planned(),
                counts.duplicates
            )));
        }
        let mean = |bytes: u64| (bytes / counts.asked.max(1)) as usize;
        let sizes = [mean(moved.stream_bytes_out), mean(moved.stream_bytes_in)];
        let mut latencies = Recorder::new();
        latencies.merge(load.timings().of(Kind::New));
        Ok((latencies, sizes))
    }

    /// The loops of the exchange, and its doors: all in one, its datagrams handed over in memory, or
    /// as `fairbell up` has them, root and proxies apart from the gateways.
    pub(super) fn exchange(
        &self,
        clock: Clock,
        exchange: &ExchangeConfig,
        sink: &UdpSocket,
    ) -> Result<(Vec<Loop<Role>>, Vec<Peer>), Failure> {
        let udp = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io);
        let feed = peer_addr(sink.local_addr().map_err(io)?);
        let mut nodes = deploy(exchange, host::deployment::life()?, |_| feed)
            .map_err(|e| Failure::Run(e.to_string()))?;
        let alone = self.path == RttPath::Engine;
        if alone {
            exchange::share_loop(&mut nodes);
        }
        let sockets = nodes.iter().map(|_| udp()).collect::<Result<Vec<_>, _>>()?;
        let mut known = Vec::new();
        for (index, socket) in sockets.iter().enumerate() {
            known.push((NodeId(index as u16), socket.local_addr().map_err(io)?));
        }
        let directory = Directory::new(&known).map_err(|error| Failure::Run(error.to_string()))?;
        let directory = Arc::new(directory);
        let habits = LoopConfig {
            local_delivery: alone,
            wait: wait_strategy(self.path),
            ..LoopConfig::default()
        };
        let one = || Loop::new(clock, Arc::clone(&directory), habits).map_err(io);
        let mut loops = vec![one()?];
        if !alone {
            loops.push(one()?);
        }
        let mut entries = Vec::new();
        for ((index, role), socket) in nodes.into_iter().enumerate().zip(sockets) {
            let mut own = vec![(Channel::OVERLAY, socket)];
            let (mut doors, mut place) = (Vec::new(), 0);
            if role.as_edge().is_some() {
                own.push((Channel::FEED, udp()?));
                doors = vec![listen()?, listen()?];
                entries.push(address(self.door(&doors))?);
                place = loops.len() - 1;
            }
            if let Some(of) = loops.get_mut(place) {
                of.add_node(NodeId(index as u16), role, own, doors).map_err(io)?;
            }
        }
        Ok((loops, entries))
    }

    fn door<'a>(&self, doors: &'a [TcpListener]) -> &'a TcpListener {
        &doors[usize::from(self.protocol == ProtocolName::Fix)]
    }

    fn participants(&self, gateways: Vec<Peer>, slice_ns: u64, seed: u64) -> Result<Load, Failure> {
        let Some(instrument) = self.config.instruments().first().copied() else {
            return Err(Failure::Run("no instrument is configured".to_string()));
        };
        let login = |account: &host::config::AccountEntry| Login {
            protocol: match self.protocol {
                ProtocolName::Ouch => Protocol::Ouch,
                ProtocolName::Fix => Protocol::Fix {
                    version: Version::Fix44,
                    sender: account.fix_comp_id.clone(),
                    target: self.config.gateway.fix_comp_id.clone(),
                },
            },
            username: account.username.clone(),
            password: account.password.clone(),
        };
        let accounts = self.config.accounts.0.iter().take(CONNECTIONS as usize);
        Load::new(LoadConfig {
            logins: accounts.map(login).collect(),
            gateways,
            instrument,
            middle: Price::from_whole(10_000),
            rate: self.rate,
            duration_ns: slice_ns,
            warmup_ns: WARM_UP_NS.min(slice_ns / 4),
            login_timeout_ns: PATIENCE_NS,
            drain_timeout_ns: PATIENCE_NS,
            expiring: 0,
            seed: self.config.flow.seed + seed,
            run: "B".to_string(),
        })
        .map_err(|error| Failure::Run(error.to_string()))
    }
}
