//! The clock of a machine among others: an agent on the machine's own socket, in a mesh of all nodes
//! of the cluster. Which root's clock the others follow the replica that leads says
//! ([`super::reference`]).
//!
//! Agents are numbered as nodes of the file. Where `[clock] source` is not `huygens` nobody probes: each
//! machine follows chrony or a PTP hardware clock of its own, whose bound its readings have, or (`system`)
//! is as right as configured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use clock::AgentConfig;
use net::{Clock, Directory, Loop, LoopConfig, LoopHandle, WaitStrategy};
use types::{Channel, ClockReading, Nanos, NodeId};

use super::file::{ClusterFile, Port};
use super::messages::{Followed, Ring};
use super::names;
use super::node::bind;
use crate::clock_agent::{FreeClock, HostedAgent, KeptClock, UNKNOWN_NS, Wrong};
use crate::config::Config;
use crate::failure::Failure;
use crate::followed_clock::{self, FollowedClock, Source};
use crate::sockets::io;

/// No machine's number.
const NOBODY: NodeId = NodeId(0);
/// Between two words that the clock is waited for.
const REMIND_EVERY: Duration = Duration::from_secs(5);
/// Why an agent may have no bound.
const AGENT_WAITS: &str = "does a root lead, and is the clock's UDP port reached?";
/// Nice value of the agent's thread.
const NICE: i32 = -15;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A machine's clock, not yet kept by anybody but itself.
pub struct NodeClock {
    own: Clock,
    keeper: Keeper,
}

/// Who keeps it.
enum Keeper {
    Nobody,
    Agent(Box<Agent>),
    Source(&'static FollowedClock, Box<dyn Source>),
}

struct Agent {
    kept: &'static KeptClock,
    of: Loop<HostedAgent>,
    members: Vec<NodeId>,
}

impl NodeClock {
    /// The clock of node `number`, as `[clock]` has it. `wrong`: on trial, how wrong the free-running
    /// one is.
    ///
    /// # Errors
    /// Addresses in use; names that can't be resolved.
    pub fn new(
        file: &ClusterFile,
        config: &Config,
        number: u16,
        wrong: Wrong,
    ) -> Result<NodeClock, Failure> {
        let own = Clock::start(config.hold.clock_bound_ns);
        let node = file.numbered(number).filter(|_| config.clock.source == "huygens");
        let origin = if wrong.origin == 0 { own.process().0 } else { wrong.origin };
        let wrong = Wrong { origin, ..wrong };
        if let Some(source) = followed_clock::source(config)? {
            let keeper = Keeper::Source(FollowedClock::start(config), source);
            return Ok(NodeClock { own, keeper });
        }
        let Some(node) = node else {
            let bound_ns = config.hold.clock_bound_ns;
            let is_right = (wrong.offset_ns, wrong.drift_ppb) == (0, 0);
            let clock = match is_right {
                true => own,
                false => own.kept_by(Box::leak(Box::new(FreeClock { wrong, bound_ns }))),
            };
            return Ok(NodeClock { own: clock, keeper: Keeper::Nobody });
        };
        let members: Vec<NodeId> = (1..).zip(&file.nodes).map(|(n, _)| NodeId(n)).collect();
        let mut settings = AgentConfig::new(NodeId(number), &members, NOBODY);
        settings.heirs = file.replicated().map(|(number, _)| NodeId(number)).collect();
        settings.solver.asymmetry_ns = config.clock.asymmetry_us * Nanos::MICRO;
        settings.solver.wander_max_ppb = f64::from(config.clock.wander_max_ppb);
        settings.per_node = config.clock.neighbours as usize;
        settings.pair_every_ns = config.clock.probe_every_ms * Nanos::MILLI;
        settings.tolerance_ns = config.clock.pure_us * Nanos::MICRO;
        let directory = Directory::new(&places(file, number))
            .map_err(|error| Failure::Usage(format!("{}: {error}", file.path.display())))?;
        let kept = KeptClock::start(settings, None, wrong);
        let habits = LoopConfig {
            wait: WaitStrategy { spin_ns: 0, timer_spin_ns: 0 },
            ..LoopConfig::default()
        };
        let socket = bind(file, node, Port::Clock)?;
        let mut of = Loop::new(own, Arc::new(directory), habits).map_err(io)?;
        let sockets = vec![(Channel::OVERLAY, socket)];
        of.add_node(NodeId(number), HostedAgent(kept), sockets, []).map_err(io)?;
        let agent = Box::new(Agent { kept, of, members });
        Ok(NodeClock { own, keeper: Keeper::Agent(agent) })
    }

    /// The clock that nodes are to read, and how to give its agent other keys.
    pub fn handle(&self) -> ClockHandle {
        match &self.keeper {
            Keeper::Nobody => {
                ClockHandle { clock: self.own, agent: None, followed: None, probes: None }
            }
            Keeper::Agent(agent) => ClockHandle {
                clock: self.own.kept_by(agent.kept),
                agent: Some((agent.kept, agent.members.clone())),
                followed: None,
                probes: Some(agent.of.handle()),
            },
            Keeper::Source(followed, _) => ClockHandle {
                clock: self.own.kept_by(*followed),
                agent: None,
                followed: Some(*followed),
                probes: None,
            },
        }
    }

    /// Keeps the clock on a thread of its own until `stop`.
    pub fn run<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        stop: &'scope AtomicBool,
    ) -> Option<ScopedJoinHandle<'scope, std::io::Result<()>>> {
        let NodeClock { own, keeper } = self;
        let agent = match keeper {
            Keeper::Nobody => return None,
            Keeper::Agent(agent) => agent,
            Keeper::Source(followed, mut source) => {
                return Some(scope.spawn(move || {
                    followed.keep(&mut *source, &own, stop);
                    Ok(())
                }));
            }
        };
        Some(scope.spawn(move || {
            // A probe that waits for a core is taken for a slow way. Where it may not, it does without.
            let own = rustix::thread::gettid();
            let _ = rustix::process::setpriority_process(Some(own), NICE);
            agent.of.run(stop, LOOK_EVERY, |_, _| ()).map(drop)
        }))
    }
}

/// A machine's clock as everybody on it reads it.
#[derive(Clone)]
pub struct ClockHandle {
    /// For loops.
    pub clock: Clock,
    agent: Option<(&'static KeptClock, Vec<NodeId>)>,
    followed: Option<&'static FollowedClock>,
    probes: Option<LoopHandle<HostedAgent>>,
}

/// Where the agents of all machines are, as machine `number` reaches them: but for those that it has no version of
/// IP in common with, and those that are nowhere at present.
fn places(file: &ClusterFile, number: u16) -> Vec<(NodeId, SocketAddr)> {
    let place = |(member, node)| {
        let own = file.numbered(number).unwrap_or(node);
        Some((NodeId(member), file.between(own, node, Port::Clock).ok()?))
    };
    (1..).zip(&file.nodes).filter_map(place).collect()
}

impl ClockHandle {
    /// Other keys of the agent.
    ///
    /// # Errors
    /// Keys that can't be read.
    pub fn rekey(&self, ring: &Ring) -> Result<(), Failure> {
        let Some((kept, members)) = &self.agent else { return Ok(()) };
        // One in use stays.
        let _ = kept.rekey(ring.guard(members)?);
        Ok(())
    }

    /// Looks where the other machines' agents are now, until `over`, in a file with names.
    pub fn find(&self, file: &ClusterFile, number: u16, over: &AtomicBool) {
        let Some(probes) = &self.probes else { return };
        let mut known = places(file, number);
        names::watch(file, over, || {
            let now = places(file, number);
            // Whoever has no address at present may come back to the one that it had.
            let gone = known.iter().filter(|(id, _)| now.iter().all(|(of, _)| of != id));
            let all: Vec<_> = now.iter().chain(gone).copied().collect();
            if all != known && Directory::new(&all).is_ok_and(|of| probes.set_directory(of).is_ok())
            {
                known = all;
            }
        });
    }

    /// Follows a reference that was appointed, unless it knows of a later one.
    pub fn follow(&self, followed: Followed) {
        if let Some((kept, _)) = &self.agent {
            let Followed { number, epoch } = followed;
            kept.follow(|| self.clock.process(), NodeId(number), epoch);
        }
    }

    /// Whose clock is followed.
    pub fn followed(&self) -> Followed {
        let Some((kept, _)) = &self.agent else { return Followed::default() };
        let (NodeId(number), epoch) = kept.with(|agent| agent.reference());
        Followed { number, epoch }
    }

    /// On trial: the free-running clock jumps ahead.
    pub fn jump(&self, ns: u64) {
        if let Some((kept, ..)) = &self.agent {
            kept.jump(ns);
        }
    }

    /// CLOCK_MONOTONIC in ns, and the reading at that time.
    pub fn look(&self) -> (u64, ClockReading) {
        let (process, reading) = match &self.agent {
            None => (self.clock.process(), self.clock.reading()),
            Some((kept, ..)) => kept.look(|| self.clock.process()),
        };
        (self.clock.monotonic(process), reading)
    }

    /// Waits for so long at most until the clock has a bound.
    pub fn settle_within(&self, patience: Duration, stop: &AtomicBool) {
        let until = Instant::now() + patience;
        while Instant::now() < until
            && !stop.load(Ordering::Relaxed)
            && self.look().1.bound_ns >= UNKNOWN_NS
        {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until the clock has a bound; `told` says now and then that it has none yet.
    pub fn settle(&self, stop: &AtomicBool, told: &impl Fn(&str)) {
        let mut reminded = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let known = match (&self.agent, self.followed) {
                (Some((kept, _)), _) => {
                    kept.with(|agent| agent.is_reference() || agent.correction().is_some())
                }
                (None, Some(followed)) => followed.is_known(),
                (None, None) => return,
            };
            if known && self.look().1.bound_ns < UNKNOWN_NS {
                return;
            }
            if reminded.elapsed() > REMIND_EVERY {
                reminded = Instant::now();
                let why = self.followed.and_then(FollowedClock::silent);
                let why = why.unwrap_or_else(|| AGENT_WAITS.to_string());
                told(&format!("waits for its clock: {why}"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
