//! A clock agent: probes its neighbours, keeps chains, follows corrections; one is the reference.
//!
//! A [`types::Node`] like every other; the readings it is called with are its free-running clock,
//! which nothing here changes. Once a window the reference asks for chains, waits a moment, solves
//! and sends corrections. Without a reference, nodes go on by their last correction and the bound
//! grows. Another node may become the reference ([`Agent::follow`]): its disciplined clock goes on along
//! its line, and what the others follow is that; nobody's reading steps. Datagrams may be lost, repeated, reordered or forged: a window without them is skipped.
//!
//! Probing rides on idle time: a pair whose turn comes late, because the loop had other things to
//! do, is left out, and the rate falls until turns come in time again. No catching up.

use types::{Channel, ClockReading, Nanos, Node, NodeId, Outbox, Peer, SplitMix64};

use crate::discipline::{Discipline, newer};
use crate::hull::Side;
use crate::mesh;
use crate::path::Path;
use crate::solver::{Solver, SolverConfig, SolverStats};
use crate::wire::{
    self, Bound, Collect, Correction, Message, Probe, ReportWriter, encode_collect,
    encode_correction, encode_probe,
};

/// Settings of an agent: the mesh, its probes, and the correction.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentConfig {
    /// Node that the agent belongs to.
    pub me: NodeId,
    /// All nodes of the mesh, the same everywhere, this one among them.
    pub members: Vec<NodeId>,
    /// The node whose clock the others follow at first; no member's id: nobody's until
    /// [`Agent::follow`] says whose.
    pub reference: NodeId,
    /// Nodes that may become the reference when it is away: all clocks' bounds cover their error while
    /// nobody corrects.
    pub heirs: Vec<NodeId>,
    /// Number of neighbours that each node chooses to probe.
    pub per_node: usize,
    /// Seed from which all nodes work out the same mesh.
    pub seed: u64,
    /// Time between two probe pairs to the same neighbour, ns.
    pub pair_every_ns: u64,
    /// Time between the two probes of a pair, ns.
    pub pair_gap_ns: u64,
    /// Largest change of that gap on the way, ns; pairs with a larger one are refused.
    pub tolerance_ns: u64,
    /// Delay of a timer, ns, beyond which the machine counts as busy.
    pub late_ns: u64,
    /// Longest wait of the reference for reports, ns.
    pub grace_ns: u64,
    /// Largest rate of slewing, in parts of 10^12.
    pub slew_ppt: i64,
    /// Settings of the solver, used while the node is the reference.
    pub solver: SolverConfig,
}

impl AgentConfig {
    /// The default settings for the node `me` of a mesh.
    pub fn new(me: NodeId, members: &[NodeId], reference: NodeId) -> AgentConfig {
        let mut members = members.to_vec();
        members.sort_unstable();
        members.dedup();
        members.truncate(mesh::NODES_MAX);
        AgentConfig {
            me,
            members,
            reference,
            heirs: Vec::new(),
            per_node: 10,
            seed: 1,
            pair_every_ns: 10 * Nanos::MILLI,
            pair_gap_ns: 20 * Nanos::MICRO,
            tolerance_ns: 10 * Nanos::MICRO,
            late_ns: 2 * Nanos::MILLI,
            grace_ns: 100 * Nanos::MILLI,
            slew_ppt: 500_000_000,
            solver: SolverConfig::default(),
        }
    }
}

impl AgentConfig {
    /// Largest error of the reference's own clock, against the time source that it is kept by.
    fn own_bound(&self) -> Bound {
        Bound { ns: self.solver.reference_bound_ns, ..Bound::default() }
    }
}

/// What an agent has counted since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentStats {
    /// Number of probes sent to neighbours.
    pub probes_sent: u64,
    /// Number of probes received from neighbours.
    pub probes_received: u64,
    /// Number of received pairs that were used, up to the last window.
    pub pairs_pure: u64,
    /// Number of received pairs that were refused because their spacing had changed, up to the last
    /// window.
    pub pairs_impure: u64,
    /// Number of pairs that were not sent because the machine was busy.
    pub pairs_skipped: u64,
    /// Bytes of all datagrams sent, without the seal and the headers of UDP and IP.
    pub bytes_sent: u64,
    /// Number of datagrams sent.
    pub datagrams_sent: u64,
    /// Number of corrections that were followed.
    pub corrections: u64,
    /// Number of datagrams that were refused: no clock message, or from or for another node.
    pub refused: u64,
}

struct Neighbour {
    place: usize,
    id: NodeId,
    number: u32,
    path: Path,
}

/// State that an agent has only while it is the reference.
struct Reference {
    solver: Solver,
    window: u32,
    collect_at: Nanos,
    /// End of the wait for reports, and end of the window that they are about.
    solving: Option<(Nanos, Nanos)>,
    /// Error against the former reference at the time of taking over, ns, and that time.
    inherited: (u64, Nanos),
    /// Largest error of the clocks of the nodes that may be the next reference.
    heirs: Bound,
}

impl Reference {
    fn new(config: &AgentConfig, mesh: &[(usize, usize)], inherited: (u64, Nanos)) -> Option<Self> {
        let me = config.members.iter().position(|member| *member == config.me)?;
        Some(Reference {
            solver: Solver::new(config.solver, &config.members, me, mesh),
            window: 0,
            collect_at: Nanos(0),
            solving: None,
            inherited,
            heirs: Bound::default(),
        })
    }

    /// How far its clock may be from that of the reference before it, for those who have not heard of
    /// it: less and less, and nothing after [`HANDOVER_NS`], when all have.
    fn inherited_ns(&self, raw: Nanos) -> u64 {
        let (ns, since) = self.inherited;
        let left = HANDOVER_NS.saturating_sub(raw.since(since));
        (u128::from(ns) * u128::from(left) / u128::from(HANDOVER_NS)) as u64
    }
}

/// The clock agent of one node.
pub struct Agent {
    config: AgentConfig,
    neighbours: Vec<Neighbour>,
    reference: Option<Reference>,
    /// Number of the appointment of the reference; see [`Agent::follow`].
    epoch: u64,
    discipline: Discipline,
    rng: SplitMix64,
    turn: usize,
    next_pair: Nanos,
    /// Time at which the second probe of a pair is due; `None`: no pair is open.
    open: Option<Nanos>,
    /// Factor, at least 1, by which the interval between pairs is lengthened at present.
    patience: u64,
    in_time: u32,
    window: Option<u32>,
    stats: AgentStats,
}

/// Time after taking over from which every node follows the new reference, ns.
const HANDOVER_NS: u64 = 10 * Nanos::SECOND;
/// Number of windows without a correction after which another reference may have been appointed.
const UNHEARD_WINDOWS: u64 = 4;
/// Largest factor by which intervals are lengthened while the machine is busy.
const PATIENCE_MAX: u64 = 16;
/// Number of timers in time after which the factor is halved.
const IN_TIME: u32 = 16;

impl Agent {
    /// An agent that begins to probe when it is first called. A node that is no member has no
    /// neighbours and never a reading.
    pub fn new(config: AgentConfig) -> Agent {
        let mesh = mesh::edges(config.members.len(), config.per_node, config.seed);
        let place = |id: NodeId| config.members.iter().position(|member| *member == id);
        let me = place(config.me);
        let neighbour = |&(a, b): &(usize, usize)| {
            let (other, side) = match me? {
                me if me == a => (b, Side::Above),
                me if me == b => (a, Side::Below),
                _ => return None,
            };
            let path = Path::new(side, config.tolerance_ns);
            Some(Neighbour { place: other, id: config.members[other], number: 0, path })
        };
        let neighbours = mesh.iter().filter_map(neighbour).collect();
        let mut discipline = Discipline::new(config.slew_ppt);
        let reference = match config.me == config.reference {
            true => Reference::new(&config, &mesh, (0, Nanos(0))),
            false => None,
        };
        if reference.is_some() {
            discipline.lead(Nanos(0), config.own_bound());
        }
        Agent {
            neighbours,
            reference,
            epoch: 0,
            discipline,
            rng: SplitMix64::new(config.seed ^ u64::from(config.me.0) << 32),
            turn: 0,
            next_pair: Nanos(0),
            open: None,
            patience: 1,
            in_time: 0,
            window: None,
            stats: AgentStats::default(),
            config,
        }
    }

    /// Follows another reference from free-running reading `raw` on, if `epoch` is higher than any
    /// before: whoever appoints references counts them so. The one appointed goes on along its line, and
    /// solves for the others from then on. `false` for one that is no member or of an old epoch.
    pub fn follow(&mut self, raw: Nanos, reference: NodeId, epoch: u64) -> bool {
        if epoch <= self.epoch || !self.config.members.contains(&reference) {
            return false;
        }
        self.epoch = epoch;
        self.config.reference = reference;
        self.window = None;
        match (reference == self.config.me, self.reference.is_some()) {
            (true, true) => {}
            (true, false) => {
                let AgentConfig { members, per_node, seed, .. } = &self.config;
                let mesh = mesh::edges(members.len(), *per_node, *seed);
                let error_ns = self.discipline.lead(raw, self.config.own_bound());
                self.reference = Reference::new(&self.config, &mesh, (error_ns, raw));
            }
            (false, true) => {
                let heirs = self.reference.take().map_or_else(Bound::default, |own| own.heirs);
                self.discipline.stand_down(raw, heirs);
            }
            (false, false) => self.discipline.renew(),
        }
        true
    }

    /// The node whose clock is followed, and the epoch of its appointment.
    pub fn reference(&self) -> (NodeId, u64) {
        (self.config.reference, self.epoch)
    }

    /// Whether this node is the reference, whose clock the others follow.
    pub fn is_reference(&self) -> bool {
        self.reference.is_some()
    }

    /// The disciplined time and its bound at free-running reading `raw`, which must not be before
    /// an earlier one. `None` before the first correction.
    pub fn reading(&mut self, raw: Nanos) -> Option<ClockReading> {
        let reading = self.discipline.read(raw)?;
        let more_ns = match (&self.reference, self.discipline.correction()) {
            (Some(reference), _) => reference.inherited_ns(raw),
            (None, Some(last)) => {
                let unheard_ns = UNHEARD_WINDOWS * self.config.solver.window_ns;
                let passed_ns = raw.since(last.anchor);
                match self.discipline.is_renewed() || passed_ns > unheard_ns {
                    true => last.heirs.at(passed_ns),
                    false => 0,
                }
            }
            (None, None) => 0,
        };
        Some(ClockReading { bound_ns: reading.bound_ns.saturating_add(more_ns), ..reading })
    }

    /// The correction that is followed; `None`: none yet, or the node is the reference.
    pub fn correction(&self) -> Option<&Correction> {
        self.discipline.correction().filter(|_| self.reference.is_none())
    }

    /// The disciplined clock of the node.
    pub fn discipline(&self) -> &Discipline {
        &self.discipline
    }

    /// Number of neighbours that the node probes.
    pub fn neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// What was counted since the start.
    pub fn stats(&self) -> AgentStats {
        self.stats
    }

    /// Figures of the last solution; `None`: the node is not the reference.
    pub fn solver_stats(&self) -> Option<SolverStats> {
        self.reference.as_ref().map(|reference| reference.solver.stats())
    }

    fn send(&mut self, to: NodeId, out: &mut Outbox, fill: impl FnOnce(&mut Vec<u8>)) {
        let span = out.write(fill);
        self.stats.datagrams_sent += 1;
        self.stats.bytes_sent += out.bytes(span).len() as u64;
        out.datagram(Channel::OVERLAY, Peer::Node(to), span);
    }

    fn probe(&mut self, now: Nanos, second: bool, out: &mut Outbox) {
        let Some(neighbour) = self.neighbours.get(self.turn) else { return };
        let (from, to, number) = (self.config.me, neighbour.id, neighbour.number);
        let probe = Probe { from, to, number, second, sent: now };
        self.stats.probes_sent += 1;
        self.send(to, out, |bytes| encode_probe(&probe, bytes));
    }

    /// Sends at most one probe, so that each is stamped when it leaves.
    fn turn(&mut self, now: Nanos, out: &mut Outbox) {
        if let Some(due) = self.open {
            if now >= due {
                self.open = None;
                self.probe(now, true, out);
                self.plan(now);
            }
            return;
        }
        if now < self.next_pair || self.neighbours.is_empty() {
            return;
        }
        let late = now.since(self.next_pair) > self.config.late_ns && self.next_pair > Nanos(0);
        if late {
            self.stats.pairs_skipped += 1;
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            self.in_time = 0;
            self.plan(now);
            return;
        }
        self.in_time += 1;
        if self.in_time >= IN_TIME {
            self.patience = (self.patience / 2).max(1);
            self.in_time = 0;
        }
        self.turn = (self.turn + 1) % self.neighbours.len();
        if let Some(neighbour) = self.neighbours.get_mut(self.turn) {
            neighbour.number = neighbour.number.wrapping_add(1);
        }
        self.probe(now, false, out);
        self.open = Some(now.after(self.config.pair_gap_ns));
    }

    /// Plans the next pair; intervals vary at random, so that nodes do not fall into step.
    fn plan(&mut self, now: Nanos) {
        let every = self.config.pair_every_ns * self.patience / self.neighbours.len().max(1) as u64;
        self.next_pair = now.after(every / 2 + self.rng.below(every.max(1)));
    }

    fn refer(&mut self, now: Nanos, out: &mut Outbox) {
        let Some(reference) = &mut self.reference else { return };
        if let Some((due, ended)) = reference.solving {
            if now >= due {
                reference.solving = None;
                let mut corrections = reference.solver.solve(reference.window, ended);
                let line = self.discipline.line(ended);
                let inherited_ns = reference.inherited_ns(ended);
                corrections.iter_mut().for_each(|own| own.compose(line, inherited_ns));
                let heirs = corrections.iter().filter(|of| self.config.heirs.contains(&of.node));
                reference.heirs = heirs.fold(Bound::default(), |heirs, of| heirs.max(&of.bound));
                let heirs = reference.heirs;
                for correction in &mut corrections {
                    correction.heirs = heirs;
                    self.send(correction.node, out, |bytes| encode_correction(correction, bytes));
                }
            }
            return;
        }
        if now < reference.collect_at {
            return;
        }
        // Windows are numbered by time, so that a reference that starts again goes on counting.
        let every = self.config.solver.window_ns.max(1);
        reference.window = (now.0 / every) as u32;
        reference.collect_at = Nanos((now.0 / every + 1) * every);
        reference.solving = Some((now.after(self.config.grace_ns.min(every / 2)), now));
        let window = reference.window;
        let me = self.config.members.iter().position(|member| *member == self.config.me);
        for neighbour in &mut self.neighbours {
            let (points, pairs) = neighbour.path.end();
            if let (Some(reference), Some(me)) = (&mut self.reference, me) {
                reference.solver.add(window, neighbour.place, me, points.iter().copied());
            }
            self.stats.pairs_pure += pairs.pure;
            self.stats.pairs_impure += pairs.impure;
            neighbour.path.begin();
        }
        let collect = Collect { from: self.config.me, window };
        for at in 0..self.config.members.len() {
            let to = self.config.members[at];
            if to != self.config.me {
                self.send(to, out, |bytes| encode_collect(&collect, bytes));
            }
        }
    }

    /// Sends the chains of the window that ends now.
    fn report(&mut self, window: u32, out: &mut Outbox) {
        let (me, to) = (self.config.me, self.config.reference);
        let mut neighbours = std::mem::take(&mut self.neighbours);
        let mut at = 0;
        while at < neighbours.len() {
            let begun = at;
            self.send(to, out, |bytes| {
                let mut report = ReportWriter::new(me, window, bytes);
                while let Some(neighbour) = neighbours.get_mut(at) {
                    let (points, pairs) = neighbour.path.end();
                    let few = |count: u64| u16::try_from(count).unwrap_or(u16::MAX);
                    let pairs = (few(pairs.pure), few(pairs.impure));
                    if !report.push(neighbour.id, pairs, points) {
                        break;
                    }
                    at += 1;
                }
            });
            // A chain fits into an empty report, so this goes on.
            at = at.max(begun + 1);
        }
        for neighbour in &mut neighbours {
            let (_, pairs) = neighbour.path.end();
            self.stats.pairs_pure += pairs.pure;
            self.stats.pairs_impure += pairs.impure;
            neighbour.path.begin();
        }
        self.neighbours = neighbours;
    }

    /// Takes a datagram of a node; `false` for one that is of no use, or not its own.
    fn take(&mut self, now: Nanos, from: NodeId, bytes: &[u8], out: &mut Outbox) -> bool {
        let config = &self.config;
        match wire::decode(bytes) {
            Some(Message::Probe(probe)) if probe.to == config.me && probe.from == from => {
                let sender = |neighbour: &&mut Neighbour| neighbour.id == probe.from;
                let Some(neighbour) = self.neighbours.iter_mut().find(sender) else {
                    return false;
                };
                neighbour.path.arrived(&probe, now);
                self.stats.probes_received += 1;
                true
            }
            Some(Message::Collect(collect))
                if collect.from == config.reference && collect.from == from =>
            {
                let old = self.window.is_some_and(|last| !newer(collect.window, last));
                if self.reference.is_some() || old {
                    return false;
                }
                self.window = Some(collect.window);
                self.report(collect.window, out);
                true
            }
            Some(Message::Report(report)) if report.from == from => {
                let place = |id| config.members.iter().position(|member| *member == id);
                let (Some(reference), Some(from)) = (&mut self.reference, place(report.from))
                else {
                    return false;
                };
                if report.window != reference.window || reference.solving.is_none() {
                    return false;
                }
                for chain in report.chains() {
                    if let Some(sender) = place(chain.sender) {
                        reference.solver.add(report.window, sender, from, chain.points());
                    }
                }
                true
            }
            Some(Message::Correction(correction))
                if correction.node == config.me && from == config.reference =>
            {
                let followed =
                    self.reference.is_none() && self.discipline.correct(now, &correction);
                self.stats.corrections += u64::from(followed);
                followed
            }
            _ => false,
        }
    }
}

impl Node for Agent {
    fn handle_datagram(
        &mut self,
        now: ClockReading,
        _channel: Channel,
        from: Peer,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let taken = match from {
            Peer::Node(from) => self.take(now.now, from, bytes, out),
            Peer::Addr(_) | Peer::V6 { .. } => false,
        };
        self.stats.refused += u64::from(!taken);
    }

    fn handle_timeout(&mut self, now: ClockReading, out: &mut Outbox) {
        self.refer(now.now, out);
        self.turn(now.now, out);
    }

    fn next_timeout(&self) -> Nanos {
        let probing = match (self.neighbours.is_empty(), self.open) {
            (true, _) => Nanos::NEVER,
            (false, Some(due)) => due,
            (false, None) => self.next_pair,
        };
        let referring = self.reference.as_ref().map_or(Nanos::NEVER, |reference| {
            reference.solving.map_or(reference.collect_at, |(due, _)| due)
        });
        probing.min(referring)
    }
}
