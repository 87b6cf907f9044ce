//! The clocks of a run: who keeps them, and how wrong they may be.
//!
//! With `huygens` each loop has a clock of its own, wrong on purpose if the configuration says so,
//! and an agent that keeps it together with the root's over probes on the loopback address. Nodes
//! get the agents' readings and bounds, so hold-and-release waits for the largest bound of the
//! fleet. Everything is on one machine, so the errors are known, too.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clock::AgentConfig;
use net::{Clock, Directory, Loop, LoopConfig, Timekeeper};
use types::{Channel, Nanos, NodeId};

use crate::clock_agent::{HostedAgent, KeptClock, Wrong};
use crate::clock_sources as source;
use crate::config::Config;
use crate::failure::Failure;
use crate::followed_clock::{self, FollowedClock, Source};

/// How long the first corrections may take.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// Windows that are waited for before anybody reads a clock.
const SETTLE: Duration = Duration::from_secs(3);
/// How often the errors are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks remembered: an hour.
const LOOKS_MAX: usize = 36_000;

/// Bounds and, where they are known, errors in ns, look by look.
#[derive(Default)]
struct Looks {
    bounds: Vec<u64>,
    errors: Vec<u64>,
}

/// What was seen of the clocks of a run, look by look.
#[derive(Clone, Default, Debug)]
pub struct ClockFigures {
    /// Who kept them.
    pub source: String,
    /// Errors that readings claimed at most, ns.
    pub bounds: Vec<u64>,
    /// Errors, where the truth is known, ns; as many as bounds then.
    pub errors: Vec<u64>,
}

/// The clocks of a run.
pub struct Clocks {
    /// Those of the root and proxies, of the edges, and of the outside world.
    pub of: [Clock; 3],
    source: String,
    kept: Vec<&'static KeptClock>,
    looks: Arc<Mutex<Looks>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Clocks {
    /// The clocks as configured, kept from now on.
    ///
    /// # Errors
    /// When whoever is to keep them does not answer.
    pub fn start(config: &Config) -> Result<Clocks, Failure> {
        let own = crate::deployment::clock(config);
        let mut clocks = Clocks {
            of: [own; 3],
            source: "system clock, bound as configured".to_string(),
            kept: Vec::new(),
            looks: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        match followed_clock::source(config)? {
            Some(source) => clocks.follow(config, own, source)?,
            None if config.clock.source == "huygens" => clocks.keep(config, own)?,
            None => {}
        }
        let ptp = source::ptp_clocks();
        if config.clock.source == "system" && !ptp.is_empty() {
            clocks.source += &format!("; PTP hardware clocks are there: {}", ptp.join(", "));
        }
        Ok(clocks)
    }

    /// All follow a source that has to answer now.
    fn follow(
        &mut self,
        config: &Config,
        own: Clock,
        mut source: Box<dyn Source>,
    ) -> Result<(), Failure> {
        let kept = FollowedClock::start(config);
        let failed = |why: String| Failure::Run(format!("clock.source: {why}"));
        kept.ask(&mut *source, &own).map_err(failed)?;
        self.of = [own.kept_by(kept); 3];
        self.source = source.name();
        let (asking, looking) = (Arc::clone(&self.stop), Arc::clone(&self.stop));
        self.threads.push(std::thread::spawn(move || kept.keep(&mut *source, &own, &asking)));
        let looks = Arc::clone(&self.looks);
        self.threads.push(std::thread::spawn(move || {
            while !looking.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                let bound_ns = kept.reading(own.process()).bound_ns;
                look(&looks, |looks| looks.bounds.push(bound_ns));
            }
        }));
        Ok(())
    }

    fn keep(&mut self, config: &Config, own: Clock) -> Result<(), Failure> {
        let io = |error: std::io::Error| Failure::Run(format!("clock.source: {error}"));
        let members = [0, 1, 2].map(NodeId);
        let mut sockets = Vec::new();
        let mut addresses: Vec<(NodeId, SocketAddr)> = Vec::new();
        for id in members {
            let socket = UdpSocket::bind(("127.0.0.1", 0)).map_err(io)?;
            addresses.push((id, socket.local_addr().map_err(io)?));
            sockets.push(socket);
        }
        let directory = Directory::new(&addresses)
            .map_err(|error| Failure::Run(format!("clock.source: {error}")))?;
        let mut agents: Loop<HostedAgent> =
            Loop::new(own, Arc::new(directory), LoopConfig::default()).map_err(io)?;
        let origin = own.process().0;
        for (id, socket) in members.into_iter().zip(sockets) {
            let kept = kept(config, &members, id, origin);
            agents
                .add_node(id, HostedAgent(kept), vec![(Channel::OVERLAY, socket)], [])
                .map_err(io)?;
            if let Some(clock) = self.of.get_mut(usize::from(id.0)) {
                *clock = own.kept_by(kept);
            }
            self.kept.push(kept);
        }
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            let _ = agents.run(&stop, Duration::from_secs(1), |_, _| ());
        }));
        self.settle()?;
        self.source = format!("Huygens, {} agents", members.len());
        let (stop, looks, all) =
            (Arc::clone(&self.stop), Arc::clone(&self.looks), self.kept.clone());
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
                for kept in all.iter().skip(1) {
                    let (process, reading) = kept.look(|| own.process());
                    look(&looks, |looks| {
                        looks.bounds.push(reading.bound_ns);
                        // The reference reads what the process does.
                        looks.errors.push(reading.now.0.abs_diff(process.0));
                    });
                }
            }
        }));
        Ok(())
    }

    /// Waits until every agent has been corrected for a while: the first correction sets the clock,
    /// and nobody may have read it before.
    fn settle(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        let ready = |kept: &&&'static KeptClock| kept.with(|agent| agent.correction().is_some());
        while begun.elapsed() < SETTLE_MAX {
            std::thread::sleep(LOOK_EVERY);
            let corrected = self.kept.iter().skip(1).filter(ready).count();
            if corrected + 1 == self.kept.len() && begun.elapsed() >= SETTLE {
                return Ok(());
            }
        }
        self.stop.store(true, Ordering::Relaxed);
        Err(Failure::Run("clock.source: the agents do not come to a correction".to_string()))
    }

    /// Ends the keeping, and says what was seen of the clocks.
    pub fn end(self) -> ClockFigures {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        let looks = std::mem::take(&mut *self.looks.lock().unwrap_or_else(PoisonError::into_inner));
        ClockFigures { source: self.source, bounds: looks.bounds, errors: looks.errors }
    }
}

/// The clock of one loop: the reference's is right, the others are off as configured, one ahead
/// and one behind.
fn kept(config: &Config, members: &[NodeId], id: NodeId, origin: u64) -> &'static KeptClock {
    let mut agent = AgentConfig::new(id, members, NodeId(0));
    agent.solver.asymmetry_ns = config.clock.asymmetry_us * Nanos::MICRO;
    agent.solver.wander_max_ppb = f64::from(config.clock.wander_max_ppb);
    agent.pair_every_ns = config.clock.probe_every_ms * Nanos::MILLI;
    // Loops on few cores wake each other late: far more pairs are impure than between machines.
    agent.tolerance_ns = 300 * Nanos::MICRO;
    let sign = match id.0 {
        0 => 0,
        1 => 1,
        _ => -1,
    };
    let offset_ns = sign * (config.clock.virtual_offset_us * Nanos::MICRO) as i64;
    let drift_ppb = sign * i64::from(config.clock.virtual_drift_ppb);
    KeptClock::start(agent, None, Wrong { origin, offset_ns, drift_ppb })
}

fn look(looks: &Mutex<Looks>, add: impl FnOnce(&mut Looks)) {
    let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
    if looks.bounds.len() < LOOKS_MAX {
        add(&mut looks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(source: &str, offset_us: u64) -> Config {
        let mut config = Config::default();
        config.clock.source = source.to_string();
        config.clock.virtual_offset_us = offset_us;
        config.clock.virtual_drift_ppb = 50_000;
        config
    }

    #[test]
    fn agents_keep_wrong_clocks_together_and_know_how_well() {
        let config = config("huygens", 5_000);
        let clocks = Clocks::start(&config).expect("corrections");
        let mut last = [Nanos(0); 3];
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(5));
            for (clock, last) in clocks.of.iter().zip(&mut last) {
                let (before, reading, after) = (clock.process(), clock.reading(), clock.process());
                assert!(reading.now >= *last, "a clock ran backwards");
                *last = reading.now;
                let (ahead, behind) = (reading.now.since(after), before.since(reading.now));
                let off = ahead.max(behind);
                assert!(off <= reading.bound_ns, "{off} ns off, told {}", reading.bound_ns);
            }
        }
        let mut seen = clocks.end();
        let held = seen.errors.iter().zip(&seen.bounds).all(|(error, bound)| error <= bound);
        assert!(held && !seen.errors.is_empty(), "{seen:?}");
        // Uncorrected they are 5 ms off and more.
        seen.errors.sort_unstable();
        let median = seen.errors[seen.errors.len() / 2];
        assert!(median < 2 * Nanos::MILLI && seen.source.contains("Huygens"), "{seen:?}");
    }

    #[test]
    fn the_system_clock_claims_what_is_configured() {
        let config = config("system", 5_000);
        let clocks = Clocks::start(&config).expect("always there");
        assert_eq!(clocks.of[1].reading().bound_ns, config.hold.clock_bound_ns);
        let (now, own) = (clocks.of[1].now(), clocks.of[0].process());
        assert!(now.0.abs_diff(own.0) < Nanos::SECOND / 2, "no trial offset without agents");
        let seen = clocks.end();
        assert!(seen.bounds.is_empty() && seen.errors.is_empty(), "nobody looked");
    }

    #[test]
    fn whoever_does_not_answer_is_not_used() {
        let asked = Clocks::start(&config("chrony", 0));
        // A machine may have one that answers.
        let told = asked.map(|clocks| clocks.end().source);
        match told {
            Ok(source) => assert!(source.starts_with("chrony"), "{source}"),
            Err(failure) => assert!(failure.to_string().contains("chrony does not answer")),
        }
    }
}
