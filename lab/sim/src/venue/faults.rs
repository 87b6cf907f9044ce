//! Faults that strike a run at a time: their kinds, and how a list of them becomes the world's.
//!
//! What a fault leaves open (when, whom, how long) is drawn from the seed. Times count from the
//! moment orders begin to flow. Everything is over by the time the links are healed, or soon after:
//! what comes then is liveness.

use exchange::deploy;
use types::{Channel, ClockReading, Nanos, NodeId, Outbox, SplitMix64};

use super::actor::Actor;
use super::sabotage::Sabotage;
use super::scenario::{Places, Plan, START, Scenario, life};
use crate::world::{Fault, World, address};

/// Play begins so long after the books are loaded, in ns.
pub(super) const START_DELAY_NS: u64 = 200 * Nanos::MILLI;
/// Clocks are stepped to at most this error, in ns: inside every clock's bound.
const STEP_MAX_NS: u64 = 14_000;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What can happen at a time.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum FaultKind {
            $($(#[$doc])* $kind,)*
        }

        impl FaultKind {
            /// All variants, in their order.
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind,)*];

            /// Its name in scenario files.
            pub fn name(self) -> &'static str {
                match self { $(FaultKind::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    /// A proxy dies for good.
    KillProxy = "kill-proxy",
    /// A proxy dies and an empty one takes its place.
    RestartProxy = "restart-proxy",
    /// Receiver and gateway of a VM die and start anew, knowing nothing.
    RestartEdge = "restart-edge",
    /// A listener dies; the one that follows it knows nothing. It hears the feed from the
    /// beginning, or where that is no longer kept, joins by a snapshot.
    RestartListener = "restart-listener",
    /// The root stands still.
    PauseRoot = "pause-root",
    /// A proxy stands still.
    PauseProxy = "pause-proxy",
    /// Receiver and gateway of a VM stand still.
    PauseEdge = "pause-edge",
    /// A listener stands still.
    PauseListener = "pause-listener",
    /// One connection of a participant is cut.
    CutConnection = "cut-connection",
    /// All connections of all participants are cut.
    CutAll = "cut-all",
    /// A node does not hear another one, which hears it.
    OneWay = "one-way-partition",
    /// Two nodes do not hear each other.
    BothWays = "partition",
    /// A node hears nobody and nobody hears it.
    Isolate = "isolation",
    /// A receiver is cut off for about as long as half of the play: where the retransmission server
    /// keeps little, longer than that reaches back.
    CutOff = "cut-off",
    /// A clock jumps, within its bound.
    StepClock = "clock-step",
    /// The root has a proxy that stands by take another's place; refused where none does.
    ReplaceProxy = "replace-proxy",
    /// The root that leads dies, and starts again from its disk.
    CrashLeader = "crash-leader",
    /// Any of several roots dies, and starts again from its disk.
    CrashReplica = "crash-replica",
    /// One of several roots stands still for long.
    PauseReplica = "pause-replica",
    /// One of several roots does not hear the others, who do not hear it.
    PartReplicas = "part-replicas",
    /// One of several roots hears nobody, and nobody hears it.
    CutReplica = "cut-replica",
    /// The disk of one of several roots stops it in the middle of an operation.
    TearDisk = "tear-disk",
    /// The disk of one of several roots is slow, full, short of writes or failing.
    SpoilDisk = "spoil-disk",
}

impl FaultKind {
    /// Of all kinds those that need several roots.
    pub const OF_REPLICAS: &[FaultKind] = &[
        FaultKind::CrashLeader,
        FaultKind::CrashReplica,
        FaultKind::PauseReplica,
        FaultKind::PartReplicas,
        FaultKind::CutReplica,
        FaultKind::TearDisk,
        FaultKind::SpoilDisk,
    ];

    /// What a run lacks of what this needs to have any effect.
    fn missing(self, scenario: &Scenario, proxies: usize) -> Option<&'static str> {
        let of_proxies = matches!(
            self,
            FaultKind::KillProxy
                | FaultKind::RestartProxy
                | FaultKind::PauseProxy
                | FaultKind::ReplaceProxy
        );
        let replaces = self == FaultKind::ReplaceProxy;
        if scenario.replicas == 0 && FaultKind::OF_REPLICAS.contains(&self) {
            Some("there is one root, set exchange.replicas")
        } else if of_proxies && proxies == 0 {
            Some("there are no proxies, set exchange.depth")
        } else if replaces && scenario.options.standby == 0 {
            Some("no proxy stands by, set exchange.standby")
        } else if replaces && scenario.options.streams() > 1 {
            Some("none is replaced where symbols are spread over planes")
        } else {
            None
        }
    }

    /// Whether it goes on for a time, which may be given.
    fn lasts(self) -> bool {
        !matches!(
            self,
            FaultKind::KillProxy
                | FaultKind::CutConnection
                | FaultKind::CutAll
                | FaultKind::StepClock
                | FaultKind::ReplaceProxy
                | FaultKind::CrashLeader
                | FaultKind::CrashReplica
                | FaultKind::TearDisk
                | FaultKind::SpoilDisk
        )
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

/// One fault; what is `None` is drawn from the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultSpec {
    /// The kind of fault.
    pub kind: FaultKind,
    /// When, in ns from the first order on.
    pub at_ns: Option<u64>,
    /// How long, in ns.
    pub for_ns: Option<u64>,
    /// Whom: index from 0 among the nodes of the kind; of partitions and clocks, an edge's.
    pub node: Option<usize>,
    /// The clock's error after the step, in ns.
    pub offset_ns: Option<i64>,
}

impl FaultSpec {
    /// A fault of which everything else is drawn.
    pub fn any(kind: FaultKind) -> FaultSpec {
        FaultSpec { kind, at_ns: None, for_ns: None, node: None, offset_ns: None }
    }

    /// The key that asks for what such a run does not have, and what is wrong with it.
    pub fn complaint(&self, scenario: &Scenario) -> Option<(&'static str, String)> {
        let FaultSpec { kind, at_ns, for_ns, node, offset_ns } = *self;
        let proxies = scenario.proxies();
        if let Some(missing) = kind.missing(scenario, proxies) {
            return Some(("kind", missing.to_string()));
        }
        let end_ns = scenario.flow_ns() / 2;
        if at_ns.is_some_and(|at| at >= end_ns) {
            let end = std::time::Duration::from_nanos(end_ns);
            return Some(("at", format!("must be before the end of the flow, {end:?}")));
        }
        if for_ns.is_some() && !kind.lasts() {
            return Some(("for", format!("a {} has no length", kind.name())));
        }
        if offset_ns.is_some() && kind != FaultKind::StepClock {
            return Some(("offset", "of a clock-step only".to_string()));
        }
        let node = node?;
        let (name, count) = match kind {
            FaultKind::ReplaceProxy => ("proxies", scenario.placed()),
            FaultKind::KillProxy | FaultKind::RestartProxy | FaultKind::PauseProxy => {
                ("proxies", proxies)
            }
            FaultKind::RestartEdge
            | FaultKind::RestartListener
            | FaultKind::PauseEdge
            | FaultKind::PauseListener
            | FaultKind::OneWay
            | FaultKind::BothWays
            | FaultKind::Isolate
            | FaultKind::CutOff
            | FaultKind::StepClock => ("receivers", scenario.struck()),
            kind => return Some(("node", format!("a {} has none to choose", kind.name()))),
        };
        (node >= count).then(|| ("node", format!("there are {count} {name}, from 0 on")))
    }
}

/// A time below `ns`; those that do not fit 32 bits are whole microseconds.
pub(super) fn below(rng: &mut SplitMix64, ns: u64) -> u64 {
    match u32::try_from(ns) {
        Ok(_) => rng.below(ns),
        Err(_) => rng.below(ns / Nanos::MICRO) * Nanos::MICRO,
    }
}

/// Schedules faults in one world.
pub(super) struct Striker<'a> {
    pub(super) seed: u64,
    pub(super) scenario: &'a Scenario,
    pub(super) world: &'a mut World<Actor>,
    pub(super) places: Places,
    /// Between which true times what is drawn happens.
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    pub(super) rng: SplitMix64,
}

impl Striker<'_> {
    /// Schedules one fault and notes it.
    pub(super) fn strike(&mut self, spec: &FaultSpec, plan: &mut Plan) {
        let span = self.until.since(self.from).max(1);
        let drawn = self.from.after(below(&mut self.rng, span));
        let at = spec.at_ns.map_or(drawn, |ns| self.from.after(START_DELAY_NS + ns));
        let drawn = 1 + below(&mut self.rng, span / 4 + 1);
        let for_ns = spec.for_ns.unwrap_or(drawn);
        let end = at.after(for_ns);
        let pick = self.rng.next_u64();
        let of = |count: usize| spec.node.unwrap_or(pick as usize) % count.max(1);
        let Places { root, proxies, receivers } = self.places;
        let struck = self.scenario.struck().min(receivers);
        let (proxy, edge) = (1 + of(proxies), self.places.edge(of(struck)));
        let heard = self.places.listener(of(struck));
        match spec.kind {
            FaultKind::KillProxy | FaultKind::RestartProxy if proxies == 0 => {}
            FaultKind::KillProxy if spec.node.is_some() || self.spared(proxy, plan) => {
                self.world.fault(at, Fault::Kill(proxy));
                plan.proxies_killed += 1;
            }
            FaultKind::KillProxy | FaultKind::RestartProxy => {
                self.reborn(proxy, at, end);
                plan.proxies_restarted += 1;
            }
            FaultKind::RestartEdge => {
                self.reborn(edge, at, end);
                plan.edges_restarted += 1;
            }
            FaultKind::RestartListener => {
                self.reborn(heard, at, end);
                plan.listeners_restarted += 1;
            }
            FaultKind::ReplaceProxy => {
                // One that stands by has no place that another could take.
                let old = NodeId(1 + of(self.scenario.placed()) as u16);
                let tell = move |role: &mut Actor, now, out: &mut Outbox| {
                    let _ =
                        role.with_root(out, |root, out| root.replace_proxy(now, old, None, out));
                };
                self.world.fault(at, Fault::Tell(root, Box::new(tell)));
            }
            FaultKind::PauseRoot => self.pause(root, at, spec),
            FaultKind::PauseProxy if proxies == 0 => {}
            FaultKind::PauseProxy => self.pause(proxy, at, spec),
            FaultKind::PauseEdge => self.pause(edge, at, spec),
            FaultKind::PauseListener => self.pause(heard, at, spec),
            FaultKind::CutConnection => {
                self.world.fault(at, Fault::CutStream(self.places.driver(), pick));
                plan.cuts_planned += 1;
            }
            FaultKind::CutAll => {
                self.world.fault(at, Fault::CutStreams(self.places.driver()));
                plan.cuts_planned += 1;
            }
            FaultKind::OneWay => {
                let (from, to) = self.pair(spec, pick, edge, heard);
                self.world.links_mut().block(from, to, at, end);
                plan.one_way_partitions += 1;
            }
            FaultKind::BothWays => {
                let (from, to) = self.pair(spec, pick, edge, heard);
                self.world.links_mut().block(from, to, at, end);
                self.world.links_mut().block(to, from, at, end);
                plan.partitions += 1;
            }
            FaultKind::Isolate => {
                let named = spec.node.is_some();
                let takes_edge = named || pick >> 32 & 1 == 0 || proxies == 0;
                let node = if takes_edge { edge } else { proxy };
                self.world.links_mut().isolate(node, at, end);
                plan.isolations += 1;
            }
            FaultKind::CutOff => {
                let end = at.after(spec.for_ns.unwrap_or(for_ns + span / 2));
                self.world.links_mut().isolate(edge, at, end);
                plan.cut_off += 1;
            }
            FaultKind::StepClock => {
                let drawn = self.rng.below(2 * STEP_MAX_NS + 1) as i64 - STEP_MAX_NS as i64;
                let nodes = self.places.driver();
                let node = spec.node.map_or(pick as usize % nodes, |_| edge);
                let offset_ns = spec.offset_ns.unwrap_or(drawn);
                self.world.fault(at, Fault::StepClock(node, offset_ns));
            }
            kind => {
                let given_ns = spec.for_ns;
                let tell = move |actor: &mut Actor, now: ClockReading, _: &mut Outbox| {
                    if let Some(group) = actor.group_mut() {
                        group.strike(kind, now.now, given_ns, drawn);
                    }
                };
                self.world.fault(at, Fault::Tell(root, Box::new(tell)));
            }
        }
    }

    /// Whether a proxy may die for good: one of its layer and plane has to live, or no order gets
    /// through, and the one snapshot server needs its feed where little is kept for repairs.
    fn spared(&self, proxy: usize, plan: &Plan) -> bool {
        let topology = self.scenario.config(self.seed).tree().map(|tree| tree.topology);
        let layer = topology.ok().and_then(|topology| {
            let (layer, _) = topology.locate(NodeId(proxy as u16))?;
            topology.plane_sizes().get(layer).copied()
        });
        let served = self.scenario.store.is_none();
        plan.proxies_killed == 0 && served && layer.is_some_and(|size| size > 1)
    }

    /// Two nodes that talk to each other, in the direction of the bit drawn; where an edge is named
    /// it is one of them.
    fn pair(
        &mut self,
        spec: &FaultSpec,
        pick: u64,
        edge: usize,
        listener: usize,
    ) -> (usize, usize) {
        let Places { root, proxies, .. } = self.places;
        let proxy = 1 + pick as usize % proxies.max(1);
        let all = [(root, edge), (edge, listener), (root, listener), (root, proxy), (proxy, edge)];
        let known = if proxies == 0 { 3 } else { all.len() };
        let fits = |(a, b): &(usize, usize)| spec.node.is_none() || [*a, *b].contains(&edge);
        let pairs: Vec<(usize, usize)> = all.into_iter().take(known).filter(fits).collect();
        let draw = self.rng.next_u64();
        let (a, b) = pairs[draw as usize % pairs.len()];
        if draw >> 32 & 1 == 0 { (a, b) } else { (b, a) }
    }

    /// Pauses are short unless a length is given: a stopped VM, not a lost one.
    fn pause(&mut self, node: usize, at: Nanos, spec: &FaultSpec) {
        let drawn = 1 + self.rng.below(20 * Nanos::MILLI);
        self.world.fault(at, Fault::Pause(node, spec.for_ns.unwrap_or(drawn)));
    }

    /// Kills a node and builds it anew.
    pub(super) fn reborn(&mut self, index: usize, at: Nanos, end: Nanos) {
        let (mut config, places) = (self.scenario.config(self.seed), self.places);
        let scenario = self.scenario.clone();
        let rekeys = scenario.rekeys;
        let keys = rekeys.map(|rekeys| rekeys.schedule(self.seed, self.from, places));
        let build = move |now: Nanos| {
            if let Some(heard) = index.checked_sub(places.listener(0)) {
                return Actor::Role(scenario.listener(&config, places, heard));
            }
            let feed_of = |edge: usize| address(places.listener(edge), Channel::FEED);
            // The bug: whoever starts again has the life of its first start.
            let at = if scenario.sabotage == Sabotage::SameLife { START } else { now };
            if let Some(secret) = keys.as_ref().and_then(|keys| keys.secret_at(index, now)) {
                config.options.secret = Some(secret);
            }
            let nodes = deploy(&config, life(config.seed, at), feed_of).unwrap_or_default();
            let node = nodes.into_iter().nth(index);
            Actor::Role(node.expect("a node that was deployed once"))
        };
        self.world.fault(at, Fault::Kill(index));
        self.world.fault(end, Fault::Restart(index, Box::new(build)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Nanos = Nanos(START.0 + Nanos::SECOND);

    /// Which pairs of nodes do not hear each other by a fault of an edge that is named, in one world.
    fn blocked(kind: FaultKind, edge: usize, seed: u64) -> (Places, Vec<(usize, usize)>) {
        let scenario = Scenario { receivers: 12, ..Scenario::default() };
        let (mut world, places) = scenario.build(seed);
        let (from, until, rng) = (AT, AT.after(Nanos::SECOND), SplitMix64::new(seed));
        let (scenario, world) = (&scenario, &mut world);
        let mut striker = Striker { seed, scenario, world, places, from, until, rng };
        let (at_ns, for_ns) = (Some(0), Some(Nanos::SECOND));
        let spec = FaultSpec { at_ns, for_ns, node: Some(edge), ..FaultSpec::any(kind) };
        striker.strike(&spec, &mut Plan::default());
        let now = AT.after(START_DELAY_NS);
        let nodes = 0..places.driver();
        let pairs = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        let links = striker.world.links();
        let held = |&(from, to): &(usize, usize)| {
            from != to && links.blocked_until(from as u32, to as u32, now).is_some()
        };
        (places, pairs.filter(held).collect())
    }

    #[test]
    fn the_edge_that_is_named_is_the_one_that_is_struck() {
        let kinds = [FaultKind::Isolate, FaultKind::CutOff, FaultKind::OneWay, FaultKind::BothWays];
        for kind in kinds {
            for (seed, edge) in (0..24).zip([0, 4, 11].into_iter().cycle()) {
                let (places, pairs) = blocked(kind, edge, seed);
                let struck = places.edge(edge);
                let others = pairs.iter().filter(|(a, b)| ![*a, *b].contains(&struck));
                assert_eq!(others.count(), 0, "{kind:?} of edge {edge}, seed {seed}: {pairs:?}");
                let expected = match kind {
                    FaultKind::OneWay => 1,
                    FaultKind::BothWays => 2,
                    _ => 2 * (places.driver() - 1),
                };
                assert_eq!(pairs.len(), expected, "{kind:?} of edge {edge}, seed {seed}");
            }
        }
    }
}
