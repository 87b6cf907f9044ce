//! The network: its start and end, what can be done to it while it runs, and its counters.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use telemetry::{LatencySummary, Recorder};

use crate::host::{self, Host, ProgramRequest};
use crate::interface::{self, NewHost};
use crate::model::Model;
use crate::profile::Profile;
use crate::relay::{Relay, Setup};
use crate::shared::{PathCounters, Shared};

/// Most hosts of a network.
pub const HOSTS_MAX: usize = 64;
/// Smallest and largest MTU: what IPv6 asks for, and what large frames of clouds have.
const MTU: std::ops::RangeInclusive<u16> = 1_280..=9_001;

/// What a network shall be.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Number of hosts, 1 to [`HOSTS_MAX`].
    pub hosts: usize,
    /// What the paths between them are like.
    pub profile: Profile,
    /// Fixes which hosts straggle, the factors of paths, when bursts come, and the sequence of draws;
    /// which packet takes which draw is decided by real time.
    pub seed: u64,
    /// Zone of each host; empty to spread the hosts over the profile's zones in turn.
    pub zones: Vec<u8>,
    /// Largest packet of the interfaces in bytes, 1,280 to 9,001.
    pub mtu: u16,
    /// Bytes of one sender on their way at most; what exceeds them is dropped and counted.
    pub held_bytes_max: usize,
    /// How long the relay spins before a release, in ns, on average; it sleeps until then. 0 never to
    /// spin, which costs punctuality and saves up to one core.
    pub spin_ns: u64,
    /// Packets of a path stay in order, as those of one flow mostly do in real networks: one that
    /// would overtake another waits for it. Delays of packets that follow each other closely are then
    /// longer than the profile says. Otherwise each packet has its own delay, and TCP sees reordering.
    pub in_order: bool,
}

impl Config {
    /// A network of so many hosts: seed 1, MTU 1,500, 4 MiB on their way, spinning for 30 us, in order.
    pub fn new(hosts: usize, profile: Profile) -> Config {
        Config {
            hosts,
            profile,
            seed: 1,
            zones: Vec::new(),
            mtu: 1_500,
            held_bytes_max: 4 << 20,
            spin_ns: 30_000,
            in_order: true,
        }
    }

    /// The zone of each host.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    fn checked_zones(&self) -> Result<Vec<u8>, StartError> {
        let Config { hosts, profile, .. } = self;
        if !(1..=HOSTS_MAX).contains(hosts) {
            return Err(StartError::Config("hosts must be 1 to 64"));
        }
        if !MTU.contains(&self.mtu) {
            return Err(StartError::Config("mtu must be 1280 to 9001"));
        }
        if profile.zones == 0 {
            return Err(StartError::Config("zones of a profile must be 1 or more"));
        }
        match self.zones.len() {
            0 => Ok((0..*hosts).map(|host| (host % usize::from(profile.zones)) as u8).collect()),
            length if length == *hosts => Ok(self.zones.clone()),
            _ => Err(StartError::Config("zones must name the zone of every host, or of none")),
        }
    }
}

/// Why a network did not start; one line.
#[derive(Debug)]
pub enum StartError {
    /// The configuration is impossible: which key must be what.
    Config(&'static str),
    /// This machine or this user may not do what is needed.
    Refused {
        /// What was being done.
        step: &'static str,
        /// What the kernel answered.
        cause: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(what) => write!(out, "network in a box: {what}"),
            StartError::Refused { step, cause } => write!(
                out,
                "network in a box: {step}: {cause}; run it as root on Linux where network namespaces \
                 and /dev/net/tun are allowed"
            ),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Config(_) => None,
            StartError::Refused { cause, .. } => Some(cause),
        }
    }
}

/// A running network of hosts. Dropping it ends it: programs in it are killed, the namespaces go as soon
/// as no [`Host`] and no socket holds them.
pub struct Network {
    pub(crate) config: Config,
    pub(crate) zones: Vec<u8>,
    pub(crate) shared: Arc<Shared>,
    hosts: Vec<Host>,
    wake: OwnedFd,
    relay: Option<JoinHandle<io::Result<()>>>,
    requests: Sender<ProgramRequest>,
    programs: Option<JoinHandle<()>>,
}

impl Network {
    /// Makes the hosts and starts the relay between them.
    ///
    /// # Errors
    /// When the configuration is impossible, and where namespaces or `/dev/net/tun` are refused.
    pub fn start(config: Config) -> Result<Network, StartError> {
        let zones = config.checked_zones()?;
        let made = interface::make_hosts(config.hosts, config.mtu)?;
        let refused = |step| move |cause| StartError::Refused { step, cause };
        let (requests, to_start) = mpsc::channel();
        let mut hosts = Vec::new();
        let mut tuns = Vec::new();
        for (index, NewHost { namespace, tun }) in made.into_iter().enumerate() {
            let (namespace, programs) = (Arc::new(namespace), requests.clone());
            hosts.push(Host { index, zone: zones[index], namespace, programs });
            tuns.push(tun);
        }
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|error| refused("making an event")(error.into()))?;
        let shared = Arc::new(Shared::new(config.hosts, config.profile.loss_ppm));
        let setup = Setup {
            shared: Arc::clone(&shared),
            model: Model::new(&config.profile, &zones, config.seed, config.seed),
            tuns,
            spin_ns: config.spin_ns,
            in_order: config.in_order,
            held_max: config.held_bytes_max,
        };
        let mut relay = Relay::new(setup, &wake).map_err(refused("making the relay"))?;
        let named = |name: &str| thread::Builder::new().name(name.into());
        let programs = named("emulator-programs").spawn(move || host::start_programs(to_start));
        let programs = programs.map_err(refused("starting a thread"))?;
        // From here on its end joins what has been started.
        let mut network = Network {
            config,
            zones,
            shared,
            hosts,
            wake,
            relay: None,
            requests,
            programs: Some(programs),
        };
        let relay = named("emulator-relay").spawn(move || relay.run());
        network.relay = Some(relay.map_err(refused("starting a thread"))?);
        Ok(network)
    }

    /// The hosts, by number.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// One host.
    ///
    /// # Panics
    /// When there is no such host, as with all methods that take one's number.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// What the network was started with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A model of the same cloud that draws for packets of its own.
    pub fn model(&self, draws: u64) -> Model {
        Model::new(&self.config.profile, &self.zones, self.config.seed, draws)
    }

    /// Loses everything from one host to another, what is on its way included; not the way back.
    pub fn cut(&self, from: usize, to: usize) {
        self.shared.path(from, to).is_cut.store(true, Relaxed);
    }

    /// Undoes [`Network::cut`] for one direction.
    pub fn heal(&self, from: usize, to: usize) {
        self.shared.path(from, to).is_cut.store(false, Relaxed);
    }

    /// Loses everything from and to a host.
    pub fn isolate(&self, host: usize) {
        self.hosts.iter().for_each(|other| {
            self.cut(host, other.index);
            self.cut(other.index, host);
        });
    }

    /// Undoes [`Network::isolate`], and every cut from or to the host.
    pub fn rejoin(&self, host: usize) {
        self.hosts.iter().for_each(|other| {
            self.heal(host, other.index);
            self.heal(other.index, host);
        });
    }

    /// Undoes all cuts.
    pub fn heal_all(&self) {
        self.shared.paths().iter().for_each(|path| path.is_cut.store(false, Relaxed));
    }

    /// Delays everything from and to a host by `extra_ns` more than the profile says; 0 to stop that.
    pub fn slow(&self, host: usize, extra_ns: u64) {
        self.shared.slowed_ns[host].store(extra_ns, Relaxed);
    }

    /// Loses `loss_ppm` of a million packets of a path, in place of the profile's share.
    pub fn set_loss(&self, from: usize, to: usize, loss_ppm: u32) {
        self.shared.path(from, to).loss_ppm.store(loss_ppm, Relaxed);
    }

    /// Counters of the path from one host to another.
    pub fn counters(&self, from: usize, to: usize) -> PathCounters {
        self.shared.path(from, to).counters()
    }

    /// Sums of all paths' counters.
    pub fn total(&self) -> PathCounters {
        let mut total = PathCounters::default();
        self.shared.paths().iter().for_each(|path| total.add(&path.counters()));
        total
    }

    /// Packets for nobody in the box, such as IPv6 multicast; dropped.
    pub fn unroutable(&self) -> u64 {
        self.shared.unroutable.load(Relaxed)
    }

    /// How much later than due packets were handed on since the start, in ns.
    pub fn lateness(&self) -> LatencySummary {
        self.lateness_recorder().summary()
    }

    /// The whole distribution behind [`Network::lateness`], quantiles within 1 %.
    pub fn lateness_recorder(&self) -> Recorder {
        self.shared.lateness().clone()
    }

    /// Whether the relay works; it ends early only when the kernel refuses to wait for it.
    pub fn is_running(&self) -> bool {
        self.relay.as_ref().is_some_and(|relay| !relay.is_finished())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shared.stops.store(true, Relaxed);
        // A relay that has ended already needs no waking, and a thread that has ended no request; a panic
        // in one has been printed.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        let _ = self.requests.send(ProgramRequest::End);
        let _ = self.relay.take().map(JoinHandle::join);
        let _ = self.programs.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_configurations_are_refused_in_one_line() {
        let good = Config::new(3, Profile::clean());
        assert_eq!(good.checked_zones().unwrap(), [0, 0, 0]);
        let spread = Config::new(3, Profile::two_zones());
        assert_eq!(spread.checked_zones().unwrap(), [0, 1, 0]);
        let bad = [
            Config { hosts: 0, ..good.clone() },
            Config { hosts: 65, ..good.clone() },
            Config { mtu: 1_279, ..good.clone() },
            Config { zones: vec![0], ..good.clone() },
            Config { profile: Profile { zones: 0, ..Profile::clean() }, ..good },
        ];
        for config in bad {
            let error = config.checked_zones().unwrap_err().to_string();
            assert!(error.contains("must") && !error.contains('\n'), "{error}");
        }
    }
}
