//! Replicas that are heard no more and told nothing: those whose machine was revoked.

use std::sync::atomic::{AtomicBool, Ordering};

use replication::ReplicaId;

/// Which replicas are shut out, by number.
#[derive(Debug)]
pub struct Shut([AtomicBool; 256]);

impl Default for Shut {
    fn default() -> Shut {
        Shut([const { AtomicBool::new(false) }; 256])
    }
}

impl Shut {
    /// Whether a replica is.
    pub fn is(&self, id: ReplicaId) -> bool {
        self.0[usize::from(id.0)].load(Ordering::Relaxed)
    }

    /// Shuts a replica out, or lets it in again.
    pub fn set(&self, id: ReplicaId, shut: bool) {
        self.0[usize::from(id.0)].store(shut, Ordering::Relaxed);
    }
}
