//! Names of a cluster file, resolved again while a machine runs: a machine that comes back with another
//! address, as pods do, is found there.
//!
//! Files that have addresses alone are not looked at. A name that has no address at a time keeps the one
//! that it had. Where participants are told addresses of roots (subscriptions), they hear those of the
//! edge's start.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use exchange::Secret;

use super::addresses::{NOWHERE, names_of};
use super::file::ClusterFile;
use super::node::Machine;
use crate::failure::Failure;
use crate::replica::cluster::Cluster;

/// What a machine says then.
pub(super) const MOVED: &str = "a machine's name has another address";
/// Between two looks at all names.
const EVERY: Duration = Duration::from_secs(3);
/// Between two looks whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether the file has a name that may come to another address.
fn has_names(file: &ClusterFile) -> bool {
    file.nodes.iter().flat_map(names_of).any(|name| name.parse::<IpAddr>().is_err())
}

/// Calls `look` now and then until `over`, where the file has names.
pub(super) fn watch(file: &ClusterFile, over: &AtomicBool, mut look: impl FnMut()) {
    if !has_names(file) {
        return;
    }
    let mut looked = Instant::now();
    while !over.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
        if looked.elapsed() >= EVERY {
            look();
            looked = Instant::now();
        }
    }
}

/// Addresses of a machine's neighbours, as they were at the last look.
pub(super) struct Neighbours {
    /// By shard.
    clusters: Vec<Cluster>,
}

impl Neighbours {
    /// As they are now.
    ///
    /// # Errors
    /// A root's name has no address.
    pub fn of(machine: &Machine<'_>) -> Result<Neighbours, Failure> {
        Ok(Neighbours { clusters: all(machine)? })
    }

    /// Hands them to `apply`, by shard, if any has moved since the last look, and again as long as that
    /// fails. Nothing while a root's name has no address. Whether they have moved.
    pub fn look(
        &mut self,
        machine: &Machine<'_>,
        apply: impl FnOnce(&[Cluster]) -> Result<(), Failure>,
    ) -> bool {
        let Ok(mut now) = all(machine) else { return false };
        for (new, known) in now.iter_mut().zip(&self.clusters) {
            keep(new, known);
        }
        let moved = now != self.clusters && apply(&now).is_ok();
        if moved {
            self.clusters = now;
        }
        moved
    }
}

fn all(machine: &Machine<'_>) -> Result<Vec<Cluster>, Failure> {
    (0..machine.parts.len()).map(|at| machine.cluster(at, Secret([0; 32]))).collect()
}

/// Names without an address keep the one that they had.
fn keep(new: &mut Cluster, known: &Cluster) {
    let or = |at: &mut SocketAddr, last: &SocketAddr| {
        if *at == NOWHERE {
            *at = *last;
        }
    };
    for ((_, at), (_, last)) in new.nodes.iter_mut().zip(&known.nodes) {
        or(at, last);
    }
    for (at, last) in new.claims.iter_mut().zip(&known.claims) {
        or(at, last);
    }
}
