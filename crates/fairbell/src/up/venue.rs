//! What the web door tells of the exchange: fairness of deliveries, and the tree with its delays.

use overlay::topology::Tree;
use telemetry::DeliveryLedger;
use types::NodeId;
use web::venue::{TreeNode, Venue};

use super::board::Figures;

/// Tells the figures of the last second, within a window of fairness and with clocks so far off, ns.
pub fn tell(
    venue: &Venue,
    ledger: &DeliveryLedger,
    figures: &Figures,
    (tree, window_ns, bound_ns): (&Tree, u64, u64),
) {
    let (_, second) = ledger.last_second();
    let total = ledger.delivery();
    venue.tell_fairness((&second, &total), ledger.receivers(), (window_ns, bound_ns));
    let hedge = u32::try_from(tree.hedge).unwrap_or(u32::MAX);
    venue.tell_tree(figures.epoch, hedge, &nodes(tree, ledger, figures));
}

/// All nodes that have a place, from the root down.
fn nodes(tree: &Tree, ledger: &DeliveryLedger, figures: &Figures) -> Vec<TreeNode> {
    let topology = &tree.topology;
    // Receivers that were killed, by their place, as listeners to them are told; those that traces have given up.
    let killed = |node: NodeId| {
        let place = topology.receiver_ids().position(|of| of == node);
        place.and_then(|place| figures.gone.get(place)).is_some_and(|gone| *gone)
    };
    let given_up = |node: NodeId| ledger.receivers().iter().any(|of| of.node == node && of.gone);
    let mut nodes = vec![TreeNode {
        node: exchange::ExchangeConfig::ROOT,
        kind: "root",
        layer: 0,
        parent: None,
        alive: true,
        copies: [0; 3],
        delay_ns: None,
    }];
    for layer in 0..topology.depth() {
        nodes.extend((0..).map_while(|index| topology.node_id(layer, index)).map(|node| {
            let receiver = topology.is_receiver(node);
            let copies = figures.copies.get(usize::from(node.0)).copied().unwrap_or_default();
            TreeNode {
                node,
                kind: if receiver { "receiver" } else { "proxy" },
                layer: layer + 1,
                // Of message 0; with parents that change it is one of several.
                parent: topology.parents(node, 0, 0, tree.dynamic).next(),
                alive: match receiver {
                    true => !killed(node) && !given_up(node),
                    false => !figures.dead.contains(&node),
                },
                copies: [copies.received, copies.dropped, copies.missing],
                delay_ns: if receiver { arrival(ledger, node) } else { trip(figures, node) },
            }
        }));
    }
    nodes
}

/// Median from sending to arrival at a receiver.
fn arrival(ledger: &DeliveryLedger, node: NodeId) -> Option<u64> {
    let of = ledger.receivers().iter().find(|of| of.node == node)?.arrival.summary();
    (of.count > 0).then_some(of.p50)
}

/// Half of a proxy's median round trip.
fn trip(figures: &Figures, node: NodeId) -> Option<u64> {
    let trips = &figures.standing.as_ref()?.trips_ns;
    trips.iter().find(|(of, _)| *of == node).map(|(_, ns)| ns / 2)
}

#[cfg(test)]
mod tests {
    use overlay::topology::Topology;
    use telemetry::LedgerConfig;

    use super::*;

    #[test]
    fn every_node_of_the_tree_has_a_parent_one_layer_above() {
        let topology = Topology::new(2, 2, 4).expect("a tree");
        let tree = Tree { topology, hedge: 0, dynamic: false, epoch: 1, stream: 0, round_ns: 1 };
        let receivers: Vec<NodeId> = topology.receiver_ids().collect();
        let ledger = DeliveryLedger::new(&LedgerConfig::new(receivers.clone(), 1_000));
        let dead = topology.proxy_ids().next().expect("a proxy");
        let gone = vec![false, true, false, false];
        let figures = Figures { dead: vec![dead], gone, ..Figures::default() };
        let told = nodes(&tree, &ledger, &figures);
        assert_eq!(told.len(), topology.nodes());
        assert_eq!(told.iter().filter(|of| of.kind == "receiver").count(), receivers.len());
        for of in &told[1..] {
            let parent = of.parent.expect("all but the root have one");
            let above = told.iter().find(|one| one.node == parent).expect("it is told, too");
            assert_eq!(above.layer + 1, of.layer);
        }
        let gone: Vec<NodeId> = told.iter().filter(|of| !of.alive).map(|of| of.node).collect();
        assert_eq!(gone, [dead, receivers[1]]);
    }
}
