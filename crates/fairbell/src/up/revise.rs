//! Who of a live tree should be replaced by whom: the planner's REVISE, fed by the roll call.
//!
//! The root times a round trip to every proxy many times a second, to those that stand by, too.
//! What of its median is above that of the quickest is what a VM adds, half of it each way. The planner
//! is asked for the one replacement that makes the slowest way quickest.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use overlay::membership::Membership;
use planner::objective::Objective;
use planner::revise::{Layers, Replacement, replace_at};
use telemetry::DeliveryLedger;
use types::{Nanos, NodeId};

use super::board::Figures;
use super::{Watch, flow};
use crate::report::ReplacementReport;
use crate::view::View;

/// Longest wait for the root's answer.
const WAIT: Duration = Duration::from_millis(500);

/// The proxies of a tree, and how soon each answers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    /// By layer, the one below the root first.
    pub layers: Vec<Vec<NodeId>>,
    /// Those without a place who may get one.
    pub standing_by: Vec<NodeId>,
    /// Median round trip in ns, of those of whom it is known.
    pub trips_ns: Vec<(NodeId, u64)>,
    /// A change of the tree is under way.
    pub changing: bool,
    /// When the present tree took over.
    pub since: Nanos,
}

/// One proxy for another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Proposal {
    /// Who leaves, and its median round trip in ns.
    pub old: (NodeId, u64),
    /// Who comes.
    pub new: (NodeId, u64),
    /// What the slowest way gains by it, in ns.
    pub gain_ns: f64,
}

impl Standing {
    /// What the root knows; who was replaced once does not come again.
    pub fn of(membership: &Membership, benched: &[NodeId]) -> Standing {
        let topology = &membership.tree().topology;
        let layer = |layer: usize| -> Vec<NodeId> {
            (0..).map_while(|index| topology.node_id(layer, index)).collect()
        };
        let known = |(node, ns): (NodeId, Option<u64>)| Some((node, ns?));
        Standing {
            layers: (0..topology.depth() - 1).map(layer).collect(),
            standing_by: topology.idle_ids().filter(|node| !benched.contains(node)).collect(),
            trips_ns: membership.round_trips().filter_map(known).collect(),
            changing: membership.is_changing(),
            since: membership
                .changed()
                .last()
                .map_or(Nanos(0), |last| last.asked_at.after(last.prepared_ns)),
        }
    }

    /// The replacement that gains most, if it gains at least so many ns.
    pub fn proposal(&self, least_gain_ns: f64) -> Option<Proposal> {
        let trip = |node: &NodeId| self.trips_ns.iter().find(|(of, _)| of == node).map(|of| of.1);
        let quickest = self.trips_ns.iter().map(|(_, ns)| *ns).min()?;
        let placed: Vec<NodeId> = self.layers.iter().flatten().copied().collect();
        let pool: Vec<NodeId> = placed.iter().chain(&self.standing_by).copied().collect();
        // Half of what it is slower shows on the way in, half on the way out; a message takes both.
        let adds = |node: &NodeId| trip(node).map_or(f64::INFINITY, |ns| (ns - quickest) as f64);
        let objective = Layers {
            sizes: self.layers.iter().map(Vec::len).collect(),
            delay: pool.iter().map(adds).collect(),
        };
        let vms: Vec<usize> = (0..placed.len()).collect();
        let spares: Vec<usize> = (placed.len()..pool.len()).collect();
        // Nobody is judged before all are known.
        if self.changing || !objective.cost(&vms).is_finite() {
            return None;
        }
        let each = vms.iter().filter_map(|at| replace_at(&objective, &vms, *at, &spares));
        let best: Replacement = each.max_by(|a, b| a.gain.total_cmp(&b.gain))?;
        let node = |vm: usize| pool.get(vm).copied().and_then(|node| Some((node, trip(&node)?)));
        let (old, new, gain_ns) = (node(best.old)?, node(best.new)?, best.gain);
        (gain_ns >= least_gain_ns).then_some(Proposal { old, new, gain_ns })
    }
}

/// The trees of a run in turn, and the replacements that the planner asked for.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// Epochs, one per part of the ledger.
    pub epochs: Vec<u32>,
    /// Who was replaced by whom.
    pub replaced: Vec<ReplacementReport>,
}

impl Turns {
    /// A tree has taken over: what is sent from then on has figures of its own.
    pub fn begin(&mut self, epoch: u32, at: Nanos, ledger: &mut DeliveryLedger) {
        if ledger.begin_part(at) {
            self.epochs.push(epoch);
        }
    }
}

impl Watch<'_> {
    /// Notes that another tree has taken over.
    pub(super) fn follow_tree(&mut self, figures: &Figures) {
        let known = self.turns.epochs.last().copied().unwrap_or(u32::MAX);
        if let Some(standing) = figures.standing.as_ref().filter(|_| figures.epoch > known) {
            self.turns.begin(figures.epoch, standing.since, &mut self.ledger);
        }
    }

    /// Asks the planner whether somebody should be replaced, and has the root do it.
    pub(super) fn revise(&mut self, figures: &Figures, view: &mut View) {
        let overlay = &self.run.config.overlay;
        let from_ns = u128::from(self.run.play_ns()) * u128::from(overlay.revise_at_percent) / 100;
        let played_ns = self.playing_since.map(|since| flow::nanos(since.elapsed()));
        let due = played_ns.filter(|ns| u128::from(*ns) >= from_ns);
        let (Some(after_ns), Some(standing)) = (due, &figures.standing) else { return };
        let least_ns = (overlay.revise_gain_us * Nanos::MICRO) as f64;
        let proposal = standing.proposal(least_ns);
        let Some(best) = proposal.filter(|_| overlay.revise_at_percent > 0) else { return };
        let (to, answer) = sync_channel(1);
        let (old, new) = (best.old.0, best.new.0);
        let asked = self.root.call(move |root, now, out| {
            let done = root.replace_proxy(now, old, Some(new), out);
            let _ = to.try_send(done.map_err(|error| error.to_string()));
        });
        let done = asked.ok().and_then(|()| answer.recv_timeout(WAIT).ok());
        let us = |ns: u64| ns as f64 / 1e3;
        let (slow, quick, gain) = (us(best.old.1), us(best.new.1), best.gain_ns / 1e3);
        let line = match &done {
            Some(Ok(_)) => format!(
                "proxy {old} answers after {slow:.0} us, {new} stands by and does after \
                 {quick:.0} us: it takes its place, which gains {gain:.0} us on the slowest way"
            ),
            Some(Err(why)) => format!("proxy {old} was not replaced by {new}: {why}"),
            None => format!("proxy {old} was not replaced by {new}: the root does not answer"),
        };
        if matches!(done, Some(Ok(_))) {
            self.turns.replaced.push(ReplacementReport {
                old: old.0,
                new: new.0,
                epoch: figures.epoch + 1,
                after_ns,
                old_trip_ns: best.old.1,
                new_trip_ns: best.new.1,
                gain_ns: best.gain_ns.round() as u64,
            });
        }
        view.note(&line);
        if self.notices.len() < host::admin::door::NOTICES_MAX {
            self.notices.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(trips_ns: &[u64]) -> Standing {
        let node = |place: usize| NodeId(place as u16 + 1);
        Standing {
            layers: vec![vec![node(0), node(1)], vec![node(2), node(3)]],
            standing_by: vec![node(4), node(5)],
            trips_ns: trips_ns.iter().enumerate().map(|(at, ns)| (node(at), *ns)).collect(),
            changing: false,
            since: Nanos(0),
        }
    }

    #[test]
    fn the_slowest_goes_for_the_quickest_who_stands_by() {
        let slow = standing(&[200, 210, 330, 190, 260, 205]);
        let best = slow.proposal(50.0).expect("a straggler");
        assert_eq!((best.old, best.new), ((NodeId(3), 330), (NodeId(6), 205)));
        // The slowest of its layer is then the one that answers after 205.
        assert_eq!(best.gain_ns, 125.0);
        assert_eq!(slow.proposal(126.0), None, "not worth it");
        assert_eq!(Standing { changing: true, ..slow.clone() }.proposal(50.0), None);
        assert_eq!(Standing { standing_by: Vec::new(), ..slow }.proposal(50.0), None);
    }

    #[test]
    fn nobody_is_judged_before_all_with_a_place_are_known() {
        assert_eq!(standing(&[]).proposal(0.0), None);
        assert_eq!(standing(&[200, 210, 330]).proposal(0.0), None);
        assert_eq!(standing(&[200, 210, 330, 190]).proposal(1.0), None, "nobody known stands by");
        assert!(standing(&[200, 210, 330, 190, 195]).proposal(1.0).is_some());
    }
}
