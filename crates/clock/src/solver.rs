//! The reference's part: from all chains of the last windows to one correction per node.
//!
//! For every edge the chains of both directions are merged over the last windows and the
//! support-vector line is laid between them. Offsets and drifts of all edges are then fitted over
//! the mesh ([`crate::graph`]). The window slides: it advances by one collection but spans several,
//! so that a drift shows; a filter per node ([`crate::track`]) goes on from window to window.
//!
//! The bound of a correction is: so many standard deviations of the node's value, as the loops'
//! residuals tell them; a configured asymmetry of the paths' base delays, which no protocol sees,
//! times the share of it that reaches the node; the reference's own bound. It grows by the drift's
//! standard deviation and the wander of oscillators ([`crate::wander`]). Where loops are too few to rely on, both are
//! what causality leaves of the offset at that moment and of the drift, and any asymmetry is within.

use std::collections::VecDeque;

use types::{Nanos, NodeId};

use crate::graph::{self, Edge, Fit, Interval};
use crate::hull::{Point, Side, reduce};
use crate::line::{Causal, Line, support_vector};
use crate::track::{Fix, Track, Walk};
use crate::wander::Wander;
use crate::wire::{Bound, CHAIN_MAX, Correction};

/// Settings of the estimates and their bounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SolverConfig {
    /// Time between two collections of reports, ns.
    pub window_ns: u64,
    /// Number of windows that an estimate is made from.
    pub windows: u32,
    /// Number of standard deviations that a bound allows for.
    pub sigmas: f64,
    /// Largest difference of the two directions' base delays on any path, in ns.
    pub asymmetry_ns: u64,
    /// Largest error of the reference's own clock, ns.
    pub reference_bound_ns: u64,
    /// Largest standard deviation of a drift's change within a second, in parts of 10^9: bounds
    /// begin with it, and residuals narrow it.
    pub wander_max_ppb: f64,
    /// Whether the wander is estimated; if not, its maximum is assumed (for comparison).
    pub estimate_wander: bool,
    /// Whether windows are combined by a track; if not, each stands alone (for comparison).
    pub track: bool,
    /// Whether loops correct the edges; if not, values are added along a tree (for comparison).
    pub correct_loops: bool,
}

/// The usual `wander_max_ppb`: a quartz without oven in moving air.
pub const WANDER_MAX_PPB: f64 = 500.0;

impl Default for SolverConfig {
    fn default() -> SolverConfig {
        SolverConfig {
            window_ns: 500 * Nanos::MILLI,
            windows: 4,
            sigmas: 4.0,
            asymmetry_ns: 0,
            reference_bound_ns: 0,
            wander_max_ppb: WANDER_MAX_PPB,
            estimate_wander: true,
            track: true,
            correct_loops: true,
        }
    }
}

/// Figures of the solver's last solution.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SolverStats {
    /// Number of solutions since the start.
    pub solutions: u64,
    /// Number of edges of the mesh.
    pub edges: u64,
    /// Number of edges for which a line was found.
    pub edges_used: u64,
    /// Of these, edges that count less than half because their loops disagree.
    pub edges_doubted: u64,
    /// Number of nodes that got a correction.
    pub nodes: u64,
    /// Standard deviation of an edge's offset, in ns.
    pub edge_sigma_ns: f64,
    /// Median gap between an edge's two bounds, in ns: about its round-trip time.
    pub gap_ns: f64,
    /// Upper limit of the wander of all oscillators, in parts of 10^9.
    pub wander_ppb: f64,
    /// Nodes whose residuals stand out from the others'.
    pub wander_apart: u64,
    /// Whether residuals refute the configured maximum now.
    pub wander_beyond: bool,
    /// Number of solutions at which residuals refuted the maximum.
    pub wander_alarms: u64,
}

/// Fewer loops than these are not relied on: causality is.
const LOOPS_MIN: usize = 20;
/// Clocks that drift apart faster are not believed: 1,000 ppm.
const SLOPE_MAX: f64 = 1e-3;

type History = VecDeque<(u32, Vec<Point>)>;

/// The solver, which runs at the reference.
#[derive(Clone, Debug)]
pub struct Solver {
    config: SolverConfig,
    members: Vec<NodeId>,
    reference: usize,
    mesh: Vec<(usize, usize)>,
    /// Per edge: probes from the first end to the second, and back.
    paths: Vec<[History; 2]>,
    first_window: Option<u32>,
    /// Variance of an edge's offset and drift, smoothed.
    variance: Option<(f64, f64)>,
    tracks: Vec<Option<Track>>,
    wander: Wander,
    /// How surprising fixes are of late, at least 1: wander beyond the estimated.
    unrest: f64,
    stats: SolverStats,
}

/// An edge's ends, its line in absolute coordinates, and the chains that it lies between.
struct EdgeLine {
    a: usize,
    b: usize,
    line: Line,
    origin: Point,
    middle: f64,
    above: Vec<Point>,
    below: Vec<Point>,
}

impl EdgeLine {
    /// The offset at reading `at` + `ahead` of the first end's clock.
    fn offset(&self, at: i64, ahead: f64) -> f64 {
        let x = at.wrapping_sub(self.origin.x) as f64 + ahead;
        self.origin.y as f64 + self.line.at(x)
    }

    /// What causality leaves at reading `at` + `ahead` of the first end's clock.
    fn causal(&self, at: i64, ahead: f64) -> Causal {
        let x = at.wrapping_sub(self.origin.x) as f64 + ahead;
        let causal = self.line.causal(&self.above, &self.below, self.origin, x, SLOPE_MAX);
        let (low, high) = causal.offsets;
        let y = self.origin.y as f64;
        Causal { offsets: (y + low, y + high), ..causal }
    }
}

/// Differences that the lines give, either way.
fn edges<'a>(
    lines: impl IntoIterator<Item = &'a EdgeLine>,
    value: impl Fn(&EdgeLine) -> f64,
) -> Vec<Edge> {
    lines.into_iter().map(|line| Edge { a: line.a, b: line.b, value: value(line) }).collect()
}

impl Solver {
    /// A solver for a mesh between `members`, of whom one is the reference.
    pub fn new(
        config: SolverConfig,
        members: &[NodeId],
        reference: usize,
        mesh: &[(usize, usize)],
    ) -> Solver {
        Solver {
            config,
            members: members.to_vec(),
            reference,
            mesh: mesh.to_vec(),
            paths: mesh.iter().map(|_| Default::default()).collect(),
            first_window: None,
            variance: None,
            tracks: vec![None; members.len()],
            wander: Wander::new(
                members.len(),
                config.wander_max_ppb,
                config.windows,
                config.window_ns,
            ),
            unrest: 1.0,
            stats: SolverStats { edges: mesh.len() as u64, ..SolverStats::default() },
        }
    }

    /// Figures of the last solution.
    pub fn stats(&self) -> SolverStats {
        self.stats
    }

    /// Takes the chain of one path and window; what belongs to no path is left aside.
    pub fn add(
        &mut self,
        window: u32,
        sender: usize,
        receiver: usize,
        points: impl Iterator<Item = Point>,
    ) {
        let edge = (sender.min(receiver), sender.max(receiver));
        let Ok(at) = self.mesh.binary_search(&edge) else { return };
        let history = &mut self.paths[at][usize::from(sender > receiver)];
        let points: Vec<Point> = points.take(CHAIN_MAX).collect();
        if points.is_empty() || history.iter().any(|(known, _)| *known == window) {
            return;
        }
        history.push_back((window, points));
        let keep = self.config.windows.max(1) as usize;
        while history.len() > keep {
            history.pop_front();
        }
        self.first_window.get_or_insert(window);
    }

    /// Solves for what was collected up to `window`, which the reference ended at `collected`.
    pub fn solve(&mut self, window: u32, collected: Nanos) -> Vec<Correction> {
        let Some(first) = self.first_window else { return Vec::new() };
        let lines = self.lines(window);
        let spanned = window.wrapping_sub(first).saturating_add(1).min(self.config.windows);
        let back = u64::from(spanned) * self.config.window_ns / 2;
        let at = collected.0.saturating_sub(back) as i64;
        let (values, drifts) = self.first_look(&lines, at);
        let known = |node: usize| values[node].unwrap_or(0.0);
        let drift = |node: usize| drifts[node].unwrap_or(0.0);
        let used: Vec<&EdgeLine> = lines.iter().filter(|line| values[line.a].is_some()).collect();
        let offsets = edges(used.iter().copied(), |line| line.offset(at, known(line.a)));
        // Per ns of the reference instead of the first end.
        let slopes = edges(used.iter().copied(), |line| line.line.slope * (1.0 + drift(line.a)));
        let offsets = self.fitted(offsets, None);
        let slopes = self.fitted(slopes, Some(&offsets.1.weights));
        self.note(&lines, &offsets.1, &slopes.1);
        self.follow(window, at, [&offsets.1, &slopes.1], spanned == self.config.windows);
        let now = collected.0 as i64;
        let passed = now.wrapping_sub(at) as f64;
        let causal = |line: &&EdgeLine| {
            let ahead = known(line.a) + drift(line.a) * passed;
            (line.a, line.b, line.causal(now, ahead))
        };
        let left = self.left(&used.iter().map(causal).collect::<Vec<_>>());
        self.corrections(window, now, &offsets, &left)
    }

    /// What causality leaves of every node, when it leaves that of edges.
    fn left(&self, edges: &[(usize, usize, Causal)]) -> Vec<Causal> {
        let all = |range: fn(&Causal) -> (f64, f64)| {
            let interval = |(a, b, causal): &(usize, usize, Causal)| {
                let (low, high) = range(causal);
                Interval { a: *a, b: *b, low, high }
            };
            let edges: Vec<Interval> = edges.iter().map(interval).collect();
            graph::intervals(self.members.len(), self.reference, &edges)
        };
        // Edges contradict each other by as much as clocks did not run straight.
        let ordered = |(low, high): (f64, f64)| (low.min(high), low.max(high));
        let offsets = all(|causal| causal.offsets).into_iter().map(ordered);
        let slopes = all(|causal| causal.slopes).into_iter().map(ordered);
        offsets.zip(slopes).map(|(offsets, slopes)| Causal { offsets, slopes }).collect()
    }

    /// Rough values along a tree: good enough to know at which reading of each clock to look.
    fn first_look(&self, lines: &[EdgeLine], at: i64) -> (Vec<Option<f64>>, Vec<Option<f64>>) {
        let tree = |edges: Vec<Edge>| graph::tree(self.members.len(), self.reference, &edges);
        let mut values = tree(edges(lines, |line| line.offset(line.origin.x, line.middle)));
        // Each round shrinks the error of the moment by the drift, a factor of 10^4.
        for _ in 0..2 {
            values = tree(edges(lines, |line| line.offset(at, values[line.a].unwrap_or(0.0))));
        }
        (values, tree(edges(lines, |line| line.line.slope)))
    }

    fn fitted(&self, edges: Vec<Edge>, weights: Option<&[f64]>) -> (Vec<Edge>, Fit) {
        let (nodes, reference) = (self.members.len(), self.reference);
        let mut fit = match weights {
            None => graph::fit(nodes, reference, &edges),
            Some(weights) => graph::weighted(nodes, reference, &edges, weights),
        };
        if !self.config.correct_loops {
            fit.values = graph::tree(nodes, reference, &edges);
        }
        (edges, fit)
    }

    /// The lines of all edges that have one.
    fn lines(&self, window: u32) -> Vec<EdgeLine> {
        let merged = |history: &History, side: Side| -> Vec<Point> {
            let fresh = |(known, _): &&(u32, Vec<Point>)| {
                window.wrapping_sub(*known) < self.config.windows.max(1)
            };
            let mut points: Vec<Point> =
                history.iter().filter(fresh).flat_map(|(_, points)| points).copied().collect();
            reduce(&mut points, side);
            points
        };
        let line = |(&(a, b), [to, back]): (&(usize, usize), &[History; 2])| {
            let late = |history: &History| {
                history.back().is_none_or(|(last, _)| window.wrapping_sub(*last) > 1)
            };
            if late(to) || late(back) {
                return None;
            }
            let (above, below) = (merged(to, Side::Below), merged(back, Side::Above));
            let origin = *above.first()?;
            let start = origin.x.max(below.first()?.x);
            let end = above.last()?.x.min(below.last()?.x);
            if (end.wrapping_sub(start) as u64) < self.config.window_ns / 2 || end < start {
                return None;
            }
            let middle = start.wrapping_sub(origin.x) as f64 + end.wrapping_sub(start) as f64 / 2.0;
            // Without a gap one of the clocks did not run straight; some stamps are nobody's.
            let straight = |line: &Line| {
                line.gap_ns > 0.0 && line.at_origin.is_finite() && line.slope.abs() < SLOPE_MAX
            };
            let line = support_vector(&above, &below, origin, 1.0).filter(straight)?;
            Some(EdgeLine { a, b, line, origin, middle, above, below })
        };
        self.mesh.iter().zip(&self.paths).filter_map(line).collect()
    }

    fn note(&mut self, lines: &[EdgeLine], offsets: &Fit, slopes: &Fit) {
        let now = (offsets.variance, slopes.variance);
        // A worse window is believed at once, a better one by and by.
        let smooth = |old: f64, new: f64| new.max(0.8 * old + 0.2 * new);
        self.variance = Some(match self.variance {
            None => now,
            Some(old) => (smooth(old.0, now.0), smooth(old.1, now.1)),
        });
        let mut gaps: Vec<f64> = lines.iter().map(|line| line.line.gap_ns).collect();
        gaps.sort_by(f64::total_cmp);
        self.stats.solutions += 1;
        self.stats.edges_used = lines.len() as u64;
        self.stats.edges_doubted = offsets.weights.iter().filter(|w| **w < 0.5).count() as u64;
        self.stats.nodes = offsets.values.iter().flatten().count() as u64;
        self.stats.edge_sigma_ns = self.variance.map_or(0.0, |v| v.0.sqrt());
        self.stats.gap_ns = gaps.get(gaps.len() / 2).copied().unwrap_or(0.0);
    }

    /// Takes the window's values into the nodes' tracks.
    fn follow(&mut self, window: u32, at: i64, [offsets, slopes]: [&Fit; 2], whole: bool) {
        let (offset_variance, drift_variance) = self.variance.unwrap_or_default();
        // Windows overlap: that many in a row are worth about one.
        let worth = f64::from(self.config.windows.max(1));
        let half_s = self.spanned() / 2.0;
        let (mut surprise, mut count) = (0.0, 0u32);
        for node in 0..self.tracks.len() {
            let (Some(offset), Some(drift)) = (offsets.values[node], slopes.values[node]) else {
                continue;
            };
            let seen = offset_variance * offsets.spread[node];
            let drift_seen = drift_variance * slopes.spread[node] * 1e18;
            let walk = self.walk(node);
            let fix = Fix {
                offset,
                drift: drift * 1e9,
                offset_variance: (seen * worth).max(1.0),
                drift_variance: (drift_seen * worth).max(1.0),
                half_s,
            };
            match &mut self.tracks[node] {
                Some(track) if self.config.track => match track.update(at, &fix, walk) {
                    Some(one) => (surprise, count) = (surprise + one, count + 1),
                    None => self.wander.forget(node),
                },
                track => *track = Some(Track::new(at, &fix, walk)),
            }
            // The first windows span less and say less.
            if node != self.reference && whole {
                self.wander.take(node, window, at, offset, seen);
            }
        }
        self.wander.end(window);
        if count > 0 {
            let mean = surprise / f64::from(count);
            self.unrest = (0.7 * self.unrest + 0.3 * mean).clamp(1.0, 1e6);
        }
        let nodes = 0..self.members.len();
        self.stats.wander_ppb = self.wander.all();
        self.stats.wander_apart = nodes.filter(|node| self.wander.stands_out(*node)).count() as u64;
        self.stats.wander_beyond = self.config.estimate_wander && self.wander.is_beyond();
        self.stats.wander_alarms += u64::from(self.stats.wander_beyond);
    }

    /// How far a node's drift walks.
    fn walk(&self, node: usize) -> Walk {
        let more = self.unrest.sqrt();
        if !self.config.estimate_wander {
            let most = self.config.wander_max_ppb * more;
            return Walk { likely: most, most };
        }
        Walk { likely: self.wander.likely() * more, most: self.wander.of(node) * more }
    }

    /// Time that an estimate spans, s.
    fn spanned(&self) -> f64 {
        self.config.window_ns as f64 * f64::from(self.config.windows) / 1e9
    }

    fn corrections(
        &self,
        window: u32,
        now: i64,
        (edges, offsets): &(Vec<Edge>, Fit),
        left: &[Causal],
    ) -> Vec<Correction> {
        let (nodes, config) = (self.members.len(), &self.config);
        let reach = match config.asymmetry_ns {
            0 => vec![0.0; nodes],
            _ => graph::reach(nodes, self.reference, edges, &offsets.weights),
        };
        // Some loops tell their own variance badly, as Student's t against the normal; too few tell
        // nothing to rely on.
        let sigmas = config.sigmas * (1.0 + 4.0 / offsets.loops.max(1) as f64);
        let (middle, spanned) = (2.0, self.spanned());
        let farthest = |value: f64, (low, high): (f64, f64)| (value - low).max(high - value);
        let correction = |node: usize| {
            offsets.values[node]?;
            let track = self.tracks[node].as_ref()?;
            let wander = self.walk(node).most;
            // A drift that walks at random moves an offset by wander * sqrt(t^3 / 3), and t^1.5 is
            // nowhere above (c t + t^2 / c) / 2.
            let walk = config.sigmas * wander / 3f64.sqrt();
            let (offset, drift, covariance) = track.at(now, wander);
            let Causal { offsets: within, slopes: (slowest, fastest) } = left[node];
            let offset = offset.max(within.0).min(within.1);
            let causal = farthest(offset, within) + walk * spanned.powf(1.5);
            let (seen, steady) = match offsets.loops < LOOPS_MIN {
                true => (causal, farthest(drift, (slowest * 1e9, fastest * 1e9))),
                false => {
                    let asymmetry = config.asymmetry_ns as f64 / 2.0 * reach[node];
                    let told = sigmas * covariance[0].max(0.0).sqrt();
                    (told + asymmetry, sigmas * covariance[2].max(0.0).sqrt())
                }
            };
            let growth = steady + walk * middle / 2.0;
            let reference = config.reference_bound_ns;
            let rate = drift / 1e9;
            Some(Correction {
                node: self.members[node],
                window,
                anchor: Nanos(now.saturating_add(offset.round() as i64).max(0) as u64),
                offset_ns: offset.round() as i64,
                drift_ppt: (rate / (1.0 + rate) * 1e12).round() as i64,
                bound: Bound {
                    ns: (seen.ceil() as u64).saturating_add(reference + 1),
                    growth_ppt: (growth * 1e3).ceil() as u64,
                    wander_ppt: (walk / middle / 2.0 * 1e3).ceil() as u64,
                },
                heirs: Bound::default(),
                causal_ns: (causal.ceil() as u64).saturating_add(reference + 1),
            })
        };
        (0..nodes).filter(|node| *node != self.reference).filter_map(correction).collect()
    }
}
