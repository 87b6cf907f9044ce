//! The delays of a synthetic cloud for the nodes of one machine: every datagram between two of them
//! is heard as much later as a hop between two VMs takes. One proxy is a straggler: 60 us more on
//! each hop into or out of it, and twice the spread.

use std::sync::Arc;

use exchange::{Role, SlowProxy};
use planner::cloud::{Cloud, CloudModel};
use types::{NodeId, Peer, SplitMix64};

/// The nodes of an exchange, in order of their numbers, in such a cloud.
pub fn delayed(nodes: Vec<Role>, slow: NodeId, seed: u64) -> Vec<Role> {
    let (model, vms) = (CloudModel::straggler_test(), nodes.len());
    let cloud = Arc::new(Cloud::with_stragglers(model, vms, &[slow.0.into()], seed));
    let late = |(vm, node): (usize, Role)| {
        let cloud = Arc::clone(&cloud);
        let mut rng = SplitMix64::new(SplitMix64::mix(seed ^ ((vm as u64) << 32)));
        let lag = move |from: Peer| match from {
            Peer::Node(NodeId(from)) if usize::from(from) < vms => {
                cloud.delay_ns(from.into(), vm, &mut rng)
            }
            _ => 0,
        };
        Role::SlowProxy(Box::new(SlowProxy::new(node, Box::new(lag))))
    };
    nodes.into_iter().enumerate().map(late).collect()
}
