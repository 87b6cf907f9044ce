//! From measured delays to trees: all strategies, what each is predicted to take, and whether the best
//! one is better than the present one by more than noise.

use overlay::seating::MOVED_MAX;
use overlay::shape::{CHILD_NS, HOP_NS, Shape};
use overlay::topology::{ROOT, Topology, Tree};
use planner::noise::{Rule, SLICES, chosen_by, judge, judged_by};
use planner::propose::{Problem, Proposal};
use planner::routes::{Hop, Play, Prediction, Probes, Routes, play, play_to_first, predict};
use types::NodeId;

use super::measuring::Measuring;
use super::{Measured, PlanSettings, Predicted, TreeLine, VerdictLine};

/// Messages in a row whose ways are looked at: parents change with every one.
const KINDS: u64 = 64;
/// Messages of a slice that a tree is judged by.
const JUDGED: usize = 64;

/// Machines that may have a place in the tree.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The machine of the root that leads.
    pub root: u16,
    /// Proxies with a place, and those that stand by and answer, with their machines.
    pub proxies: Vec<(NodeId, u16)>,
    /// Proxies of these that answer probes.
    pub answer: Vec<NodeId>,
    /// Edges that answer, with their machines, in the order of their numbers.
    pub edges: Vec<(NodeId, u16)>,
}

/// Input of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The present tree.
    pub tree: &'a Tree,
    /// Machines that may have a place in the tree.
    pub pool: &'a Pool,
    /// Measured one-way delays between them.
    pub delays: &'a Measuring,
    /// Settings of the plan.
    pub settings: &'a PlanSettings,
    /// Seed of all random choices.
    pub seed: u64,
    /// Only places at and below this proxy may change.
    pub subtree: Option<NodeId>,
    /// What the observer measured with the present tree.
    pub measured: Option<Measured>,
    /// Clocks of the root and an edge differ by so much at most, ns.
    pub uncertainty_ns: u64,
}

/// A tree that there could be.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Figures of the tree, without the names of its machines.
    pub line: TreeLine,
    /// Node at each place; `None` for a machine that does not exist yet.
    pub nodes: Vec<Option<NodeId>>,
    /// Depth and fan-out, where they are not the present tree's.
    pub shape: Option<(usize, usize)>,
}

/// Trees that a plan compares, and what it finds of the best one.
#[derive(Clone, Debug)]
pub struct Forest {
    /// Trees, the one that is predicted to be quickest first.
    pub trees: Vec<Candidate>,
    /// The best one that can be, beside the present one.
    pub verdict: VerdictLine,
    /// See [`super::PlanReport::node_ns`].
    pub node_ns: f64,
}

/// Ways of messages through a tree of this topology, of whose leaves only some are looked at.
pub fn routes(topology: &Topology, hedge: usize, dynamic: bool, leaves: &[NodeId]) -> Routes {
    let proxy_layers = topology.depth() - 1;
    let mut places = std::collections::BTreeMap::from([(ROOT, 0u16)]);
    let mut layers = Vec::new();
    for layer in 0..proxy_layers {
        let first = places.len();
        for node in (0..).map_while(|at| topology.node_id(layer, at)) {
            let place = places.len() as u16;
            places.insert(node, place);
        }
        layers.push(first..places.len());
    }
    let first_leaf = places.len();
    for leaf in leaves {
        let place = places.len() as u16;
        places.insert(*leaf, place);
    }
    let mut order: Vec<(u16, NodeId)> = places.iter().map(|(node, at)| (*at, *node)).collect();
    order.sort_unstable();
    order.truncate(first_leaf);
    let hops = |id: u64, hedge: usize| {
        let mut hops = Vec::new();
        for (from, node) in &order {
            let children = topology.children(*node, id, hedge, dynamic);
            let known = children.enumerate().filter_map(|(turn, child)| {
                let to = *places.get(&child)?;
                Some(Hop { from: *from, to, turn: turn as u16 })
            });
            hops.extend(known);
        }
        hops
    };
    Routes {
        layers,
        leaves: first_leaf..places.len(),
        own: hops(0, 0).iter().map(|hop| (hop.from.into(), hop.to.into())).collect(),
        messages: (1..=KINDS).map(|id| hops(id, hedge)).collect(),
    }
}

/// Who stands at the places between root and edges, in order.
pub fn seated(topology: &Topology) -> Vec<NodeId> {
    let layers = 0..topology.depth() - 1;
    layers.flat_map(|layer| (0..).map_while(move |at| topology.node_id(layer, at))).collect()
}

/// Nodes that would stand at other places than their own.
fn moved(topology: &Topology, wanted: &[NodeId]) -> usize {
    let plain = topology.with_seating(overlay::seating::Seating::default());
    let own = plain.map(|plain| seated(&plain)).unwrap_or_default();
    let elsewhere = own.iter().zip(wanted).filter(|(own, node)| own != node).count();
    let come = wanted.iter().filter(|node| !own.contains(node)).count();
    elsewhere + come
}

impl Wanted<'_> {
    /// Machines by number of the planner: the root's, those of proxies, those of edges.
    fn machines(&self) -> Vec<u16> {
        let Pool { root, proxies, edges, .. } = self.pool;
        let nodes = proxies.iter().chain(edges).map(|(_, machine)| *machine);
        std::iter::once(*root).chain(nodes).collect()
    }

    fn probes(&self) -> Probes {
        let machines = self.machines();
        let mut probes = Probes::new(machines.len(), SLICES);
        for (from, a) in machines.iter().enumerate() {
            for (to, b) in machines.iter().enumerate().filter(|(to, _)| *to != from) {
                probes.set(from, to, self.delays.delays(*a, *b));
            }
        }
        probes
    }

    /// The planner's number of a proxy.
    fn vm(&self, node: NodeId) -> Option<usize> {
        self.pool.proxies.iter().position(|(of, _)| *of == node).map(|at| at + 1)
    }

    fn node(&self, vm: usize) -> Option<NodeId> {
        self.pool.proxies.get(vm.checked_sub(1)?).map(|(node, _)| *node)
    }

    /// Makes them.
    ///
    /// # Errors
    /// No proxies, no edges, no such subtree.
    pub fn grow(&self) -> Result<Forest, String> {
        let topology = &self.tree.topology;
        let edges: Vec<NodeId> = self.pool.edges.iter().map(|(node, _)| *node).collect();
        if edges.is_empty() {
            return Err("no edge answers".to_string());
        }
        let probes = self.probes();
        let ways = routes(topology, self.tree.hedge, self.tree.dynamic, &edges);
        let stands = seated(topology);
        let present: Option<Vec<usize>> = stands.iter().map(|node| self.vm(*node)).collect();
        let present = present.ok_or("a proxy of the tree is not known")?;
        let pool: Vec<usize> = self.pool.answer.iter().filter_map(|node| self.vm(*node)).collect();
        let free: Vec<usize> = match self.subtree {
            None => (1..=stands.len()).collect(),
            Some(node) => {
                let place = stands.iter().position(|of| *of == node);
                ways.subtree(
                    place.ok_or("the proxy of the subtree has no place in the tree at present")?
                        + 1,
                )
            }
        };
        let leaves: Vec<usize> = (1 + self.pool.proxies.len()..probes.vms()).collect();
        let (chosen, judged) = (chosen_by(SLICES), judged_by(SLICES));
        let problem = Problem {
            routes: &ways,
            probes: &probes,
            root: 0,
            pool: &pool,
            leaves: &leaves,
            present: &present,
            free: &free,
            slices: &chosen,
            copy_ns: CHILD_NS,
            candidates: self.settings.candidates as usize,
            seed: self.seed,
        };
        let how = Play { slices: &judged, messages: JUDGED, copy_ns: CHILD_NS, seed: self.seed };
        let played = |proxies: &[usize]| play(&ways, &problem.vms(proxies), &probes, &how);
        let proposals = problem.proposals();
        let of_present = played(&present);
        let by_probes = predict(&of_present, self.seed);
        let usable = by_probes.incomplete < 0.5;
        let by: Vec<Prediction> =
            proposals.iter().map(|of| predict(&played(&of.proxies), self.seed)).collect();
        let best_ns = by.iter().map(|of| of.p50_ns).fold(by_probes.p50_ns, f64::min);
        // Probes load the machines, so they may take longer than datagrams; that cancels, because all trees are
        // judged by the same probes. Where next to nothing would be left of the best tree, a straggler's datagrams
        // are repaired sooner than they come: then the way to the first edge, which a straggler changes little, says
        // what nodes take.
        let to_first =
            predict(&play_to_first(&ways, &problem.vms(&present), &probes, &how), self.seed);
        let node_ns = self.measured.filter(|_| usable).map_or(0.0, |measured| {
            let last = measured.calm_ns as f64 - by_probes.p50_ns;
            let first = measured.first_ns as f64 - to_first.p50_ns;
            let repaired = last < 0.0 && best_ns + last < best_ns / 4.0;
            (if repaired { first.max(0.0) } else { last }) / ways.depth() as f64
        });
        let shape = |routes: &Routes, fanout: usize| (routes.depth(), fanout);
        let of = |by: &Prediction, depth: usize| {
            Predicted::of(by, node_ns * depth as f64, self.uncertainty_ns as f64)
        };
        let predicted = |played: &[Vec<i64>], depth: usize| of(&predict(played, self.seed), depth);
        let mut trees = Vec::new();
        for (proposal, by) in proposals.iter().zip(&by) {
            let nodes: Vec<Option<NodeId>> =
                proposal.proxies.iter().map(|vm| self.node(*vm)).collect();
            let wanted: Vec<NodeId> = nodes.iter().flatten().copied().collect();
            let (depth, fanout) = shape(&ways, fanout_of(topology));
            let moves = proposal.proxies.iter().zip(&present).filter(|(a, b)| a != b).count();
            let obstacle = match moved(topology, &wanted) {
                more if more > MOVED_MAX && moves > 0 => {
                    format!("{more} nodes would stand elsewhere, and a tree tells of {MOVED_MAX}")
                }
                _ => String::new(),
            };
            let line = TreeLine {
                strategy: proposal.strategy.clone(),
                depth,
                fanout,
                moves,
                predicted: of(by, depth),
                obstacle,
                ..TreeLine::default()
            };
            trees.push(Candidate { line, nodes, shape: None });
        }
        let verdict = self.verdict(&proposals, &trees, &of_present, &played);
        if self.subtree.is_none() {
            trees.extend(self.shapes(&probes, &pool, &leaves, &predicted));
        }
        let p50 = |of: &Candidate| of.line.predicted.p50_ns;
        trees.sort_by(|a, b| p50(a).total_cmp(&p50(b)));
        Ok(Forest { trees, verdict, node_ns })
    }

    /// The best tree that can be, by the probes that trees are chosen by, judged by the others.
    fn verdict(
        &self,
        proposals: &[Proposal],
        trees: &[Candidate],
        present: &[Vec<i64>],
        played: &dyn Fn(&[usize]) -> Vec<Vec<i64>>,
    ) -> VerdictLine {
        let can = proposals.iter().zip(trees).filter(|(_, tree)| tree.line.obstacle.is_empty());
        let best = can.min_by(|(a, _), (b, _)| a.cost_ns.total_cmp(&b.cost_ns));
        let Some((best, _)) = best else { return VerdictLine::default() };
        let rule =
            Rule { alpha: self.settings.alpha, least: self.settings.least_gain_percent / 100.0 };
        let verdict = judge(present, &played(&best.proxies), &rule, self.seed);
        VerdictLine::of(&best.strategy, &verdict)
    }

    /// Why a tree of another shape with these nodes at its places can't be the next epoch; empty: it can.
    fn shape_obstacle(&self, made: &Topology, nodes: &[Option<NodeId>]) -> String {
        let present = &self.tree.topology;
        let new = nodes.iter().filter(|node| node.is_none()).count();
        let wanted: Vec<NodeId> = nodes.iter().flatten().copied().collect();
        let moved = moved(made, &wanted);
        if new > 0 {
            format!("{new} more proxies are needed than there are (overlay.standby)")
        } else if made.receivers() != present.receivers() {
            format!("{} of {} edges answer", made.receivers(), present.receivers())
        } else if present.hedging().spares > 0 || present.only_plane().is_some() {
            "with spare proxies or trees by symbol the tree keeps its shape".to_string()
        } else if moved > MOVED_MAX {
            format!("{moved} nodes would stand elsewhere, and a tree tells of {MOVED_MAX}")
        } else {
            String::new()
        }
    }

    /// Trees of other shapes, of the best machines of the pool and new ones where there are too few.
    fn shapes(
        &self,
        probes: &Probes,
        pool: &[usize],
        leaves: &[usize],
        predicted: &dyn Fn(&[Vec<i64>], usize) -> Predicted,
    ) -> Vec<Candidate> {
        let topology = &self.tree.topology;
        let edges = self.pool.edges.len();
        let (chosen, judged) = (chosen_by(SLICES), judged_by(SLICES));
        let mut hops: Vec<f64> =
            pool.iter().map(|vm| probes.summary(0, *vm, &chosen).p50_ns).collect();
        hops.sort_by(f64::total_cmp);
        let hop_ns = hops.get(hops.len() / 2).map_or(HOP_NS, |ns| ns.max(1.0) as u64);
        let wanted = [
            ("RULE", Shape::by_rule(edges)),
            ("MODEL", Shape::by_model(edges, HOP_NS, CHILD_NS)),
            ("MODEL-MEASURED", Shape::by_model(edges, hop_ns, CHILD_NS)),
        ];
        let mut found: Vec<Candidate> = Vec::new();
        let mut known = vec![topology.plane_sizes()];
        for (name, Shape { depth, fanout }) in wanted {
            let made = Topology::new(depth, fanout.max(1), edges);
            let Ok(made) = made.and_then(|plain| plain.with_hedging(*topology.hedging())) else {
                continue;
            };
            if known.contains(&made.plane_sizes()) {
                continue;
            }
            known.push(made.plane_sizes());
            let all: Vec<NodeId> = made.receiver_ids().collect();
            let ways = routes(&made, self.tree.hedge, self.tree.dynamic, &all);
            let new = ways.proxies().saturating_sub(pool.len());
            // A machine that is not there yet is taken to be like the middle one of the pool.
            let middle = pool.get(pool.len() / 2).copied().unwrap_or(0);
            let probes = probes.with_likes(middle, new);
            let mut pool = pool.to_vec();
            pool.extend(probes.vms() - new..probes.vms());
            let present: Vec<usize> = pool.iter().copied().take(ways.proxies()).collect();
            let free: Vec<usize> = (1..=ways.proxies()).collect();
            let problem = Problem {
                routes: &ways,
                probes: &probes,
                root: 0,
                pool: &pool,
                leaves,
                present: &present,
                free: &free,
                slices: &chosen,
                copy_ns: CHILD_NS,
                candidates: self.settings.candidates as usize,
                seed: self.seed,
            };
            let proposals = problem.proposals();
            let Some(best) = proposals.iter().min_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns)) else {
                continue;
            };
            let how =
                Play { slices: &judged, messages: JUDGED, copy_ns: CHILD_NS, seed: self.seed };
            let played = play(&ways, &problem.vms(&best.proxies), &probes, &how);
            let need = ways.proxies();
            let line = TreeLine {
                strategy: format!("{name}-{depth}x{fanout}"),
                depth,
                fanout,
                new,
                moves: need,
                predicted: predicted(&played, depth),
                ..TreeLine::default()
            };
            let nodes: Vec<Option<NodeId>> = best.proxies.iter().map(|vm| self.node(*vm)).collect();
            let obstacle = self.shape_obstacle(&made, &nodes);
            let line = TreeLine { obstacle, ..line };
            found.push(Candidate { line, nodes, shape: Some((depth, fanout)) });
        }
        found
    }
}

/// Children of a proxy of the layer above the leaves, at most.
fn fanout_of(topology: &Topology) -> usize {
    let layers = topology.layers();
    match layers {
        [.., above, leaves] => leaves.div_ceil(*above) as usize,
        [leaves] => *leaves as usize,
        [] => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::SplitMix64;

    use super::super::Probed;
    use super::*;

    /// Root 1, proxies 2 to 5 with places, 6 and 7 that stand by, edges 8 to 13: machines one more than
    /// nodes. Delays are 50 us and some, 200 us more of a slow machine.
    fn measured(slow: u16, seed: u64) -> (Tree, Pool, Measuring) {
        let topology = Topology::from_layers(&[4, 6]).expect("a tree");
        let topology = topology.with_receivers_at(NodeId(7)).expect("room");
        let tree = Tree { topology, hedge: 0, dynamic: true, epoch: 1, stream: 0, round_ns: 1 };
        let node = |id: u16| (NodeId(id), id + 1);
        let pool = Pool {
            root: 1,
            proxies: (1..=6).map(node).collect(),
            answer: (1..=6).map(NodeId).collect(),
            edges: (7..=12).map(node).collect(),
        };
        let from: Vec<u16> = (1..=7).collect();
        let to: Vec<u16> = (2..=13).collect();
        let mut delays = Measuring::new(&from, &to, 200, 1_000, &[3; 32]);
        let mut rng = SplitMix64::new(seed);
        let mut heard = BTreeMap::<u16, Vec<(u16, Vec<Option<i64>>)>>::new();
        for a in &from {
            for b in to.iter().filter(|b| *b != a) {
                let more = if [*a, *b].contains(&slow) { 200_000 } else { 0 };
                let series = (0..200).map(|_| Some(50_000 + more + rng.below(20_000) as i64));
                heard.entry(*b).or_default().push((*a, series.collect()));
            }
        }
        for machine in 1..=13 {
            let job = delays.order(machine).expect("all take part").job;
            let heard = heard.remove(&machine).unwrap_or_default();
            delays.take(machine, Probed { job, bound_ns: 900, sent: 200, heard, over: true });
        }
        assert!(delays.is_over());
        (tree, pool, delays)
    }

    fn grown(slow: u16, subtree: Option<u16>, measured_p50: Option<u64>) -> Forest {
        let (tree, pool, delays) = measured(slow, 1);
        let settings = PlanSettings::default();
        let measured = measured_p50.map(|p50_ns| Measured {
            messages: 100,
            p50_ns,
            p99_ns: 2 * p50_ns,
            first_ns: 150_000,
            calm_ns: p50_ns,
        });
        let wanted = Wanted {
            tree: &tree,
            pool: &pool,
            delays: &delays,
            settings: &settings,
            seed: 1,
            subtree: subtree.map(NodeId),
            measured,
            uncertainty_ns: 1_800,
        };
        wanted.grow().expect("a forest")
    }

    #[test]
    fn routes_are_those_of_the_topology() {
        let (tree, ..) = measured(0, 1);
        let leaves: Vec<NodeId> = (7..=12).map(NodeId).collect();
        let all = routes(&tree.topology, 1, true, &leaves);
        assert_eq!((all.proxies(), all.depth(), all.leaves.clone()), (4, 2, 5..11));
        // Four from the root, and two copies into each of six leaves.
        assert!(all.messages.iter().all(|hops| hops.len() == 4 + 12), "{:?}", all.messages[0]);
        assert_eq!(all.own.len(), 4 + 6);
        let some = routes(&tree.topology, 1, true, &leaves[..2]);
        assert!(some.messages.iter().all(|hops| hops.len() == 4 + 4));
        // Parents change with the message.
        assert_ne!(all.messages[0], all.messages[1]);
    }

    #[test]
    fn the_straggler_leaves_and_the_prediction_is_calibrated_by_what_was_measured() {
        let forest = grown(3, None, Some(700_000));
        let of = |name: &str| {
            let found = forest.trees.iter().find(|tree| tree.line.strategy == name);
            found.unwrap_or_else(|| panic!("{name}: {forest:?}"))
        };
        assert!(forest.verdict.counts && forest.verdict.share > 0.3, "{:?}", forest.verdict);
        let best = of(&forest.verdict.strategy);
        assert!(!best.nodes.contains(&Some(NodeId(2))), "{best:?}");
        assert_eq!((best.line.obstacle.as_str(), best.line.new, best.line.depth), ("", 0, 2));
        let present = of("PRESENT").line.predicted;
        assert!((present.p50_ns - 700_000.0).abs() < 1.0, "{present:?}");
        // Two hops' 200 us less, and what nodes take stays.
        let gain = present.p50_ns - best.line.predicted.p50_ns;
        assert!((380_000.0..420_000.0).contains(&gain), "{gain}");
        let width = present.high_ns - present.low_ns;
        assert!(width >= 3_600.0 && present.low_ns < 700_000.0 && present.high_ns > 700_000.0);
        // Sorted, with other shapes, one of which needs no proxies.
        let all: Vec<f64> = forest.trees.iter().map(|tree| tree.line.predicted.p50_ns).collect();
        assert!(all.is_sorted(), "{all:?}");
        let flat = of("RULE-1x10");
        assert!(flat.nodes.is_empty() && flat.shape == Some((1, 10)), "{flat:?}");
        assert_eq!(flat.line.obstacle, "", "the root sends to all");
    }

    #[test]
    fn probes_that_take_longer_than_datagrams_cancel_out() {
        let of = |measured: Option<u64>| {
            let forest = grown(3, None, measured);
            let present = forest.trees.iter().find(|tree| tree.line.strategy == "PRESENT");
            let present = present.expect("it is among them").line.predicted.p50_ns;
            (present, forest.trees[0].line.predicted.p50_ns, forest.node_ns)
        };
        let (probed, best, _) = of(None);
        // Datagrams are quicker than the probes said by 20 us.
        let (present, quicker, node_ns) = of(Some(probed as u64 - 20_000));
        assert!((present - (probed - 20_000.0)).abs() < 2.0, "{present} {probed}");
        let depth = (probed - present) / -node_ns;
        assert!(node_ns < 0.0 && (depth - 2.0).abs() < 0.01, "{node_ns}");
        assert!(best - quicker > 9_000.0, "{best} {quicker}");
    }

    #[test]
    fn where_repairs_are_quicker_than_the_tree_the_way_to_the_first_edge_calibrates() {
        // By probes 100 us and some to the first edge, 500 to the last, of which 300 are measured.
        let forest = grown(3, None, Some(300_000));
        assert!((1_000.0..25_000.0).contains(&forest.node_ns), "{}", forest.node_ns);
        let all = forest.trees.iter().map(|tree| tree.line.predicted.p50_ns);
        assert!(all.into_iter().all(|ns| ns > 0.0), "{:?}", forest.trees);
    }

    #[test]
    fn without_a_straggler_nothing_counts_and_a_subtree_is_of_its_own() {
        let forest = grown(0, None, None);
        assert!(!forest.verdict.counts, "{:?}", forest.verdict);
        assert_eq!(forest.node_ns, 0.0);
        let forest = grown(3, Some(2), None);
        for tree in &forest.trees {
            let others = [0, 2, 3].map(|at| tree.nodes[at]);
            assert_eq!(others, [1, 3, 4].map(|id| Some(NodeId(id))), "{tree:?}");
        }
        assert!(forest.verdict.counts);
        let (tree, pool, delays) = measured(3, 1);
        let settings = PlanSettings::default();
        let mut wanted = Wanted {
            tree: &tree,
            pool: &pool,
            delays: &delays,
            settings: &settings,
            seed: 1,
            subtree: Some(NodeId(6)),
            measured: None,
            uncertainty_ns: 0,
        };
        assert!(wanted.grow().expect_err("it stands by").contains("no place"));
        let nobody = Pool { edges: Vec::new(), ..pool.clone() };
        wanted.pool = &nobody;
        assert!(wanted.grow().expect_err("none").contains("edge"));
    }

    #[test]
    fn a_shape_is_an_obstacle_where_proxies_or_edges_are_missing() {
        let (tree, pool, delays) = measured(0, 1);
        let settings = PlanSettings::default();
        let wanted = Wanted {
            tree: &tree,
            pool: &pool,
            delays: &delays,
            settings: &settings,
            seed: 1,
            subtree: None,
            measured: None,
            uncertainty_ns: 0,
        };
        let made = |layers: &[usize]| Topology::from_layers(layers).expect("a tree");
        let nodes = |ids: &[u16]| ids.iter().map(|id| Some(NodeId(*id))).collect::<Vec<_>>();
        assert_eq!(wanted.shape_obstacle(&made(&[2, 6]), &nodes(&[5, 6])), "");
        let short = wanted.shape_obstacle(&made(&[3, 6]), &[nodes(&[1, 2]), vec![None]].concat());
        assert!(short.starts_with("1 more proxies"), "{short}");
        let silent = wanted.shape_obstacle(&made(&[2, 5]), &nodes(&[1, 2]));
        assert!(silent.starts_with("5 of 6 edges"), "{silent}");
    }

    #[test]
    fn nodes_that_stand_elsewhere_are_counted_with_those_they_push_aside() {
        let (tree, ..) = measured(0, 1);
        let nodes = |ids: [u16; 4]| ids.map(NodeId).to_vec();
        assert_eq!(moved(&tree.topology, &nodes([1, 2, 3, 4])), 0);
        assert_eq!(moved(&tree.topology, &nodes([1, 5, 3, 4])), 2);
        assert_eq!(moved(&tree.topology, &nodes([2, 1, 3, 4])), 2);
        assert_eq!(moved(&tree.topology, &nodes([5, 6, 1, 2])), 6);
    }
}
