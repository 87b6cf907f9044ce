//! What a machine says on its control connection to the roots of a shard, and what becomes of what roots say.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use types::ShardId;

use super::client::Connected;
use super::clock::ClockHandle;
use super::messages::{Followed, FromRoot, Health, Observed};
use super::plan::Probed;
use super::plan::agent::Prober;
use super::traces::Sampled;

/// A machine's end of its control connection.
pub struct Connection<'a> {
    /// Its clock, which follows whom the roots say.
    pub clock: &'a ClockHandle,
    /// How it is, once it knows.
    pub health: &'a Mutex<Option<Health>>,
    /// Why there is no connection.
    pub trouble: &'a Mutex<String>,
    /// The shard whose roots these are.
    pub shard: ShardId,
    /// Where all else goes that roots say, with their shard.
    pub sender: Sender<(ShardId, FromRoot)>,
    /// What its nodes saw of the feed of that shard.
    pub sampled: &'a Sampled,
    /// The epoch of the keys of that shard that its nodes seal with.
    pub epoch: &'a AtomicU32,
    /// Its probing agent.
    pub prober: &'a Prober,
    /// The shard whose roots it probes for.
    pub probes_for: &'a AtomicU16,
    /// The last plan, on a root's machine.
    pub plan: Option<String>,
}

impl Connected for Connection<'_> {
    fn told(&mut self, message: FromRoot) {
        match message {
            FromRoot::Reference(followed) => self.clock.follow(followed),
            FromRoot::Probe(order) => {
                self.probes_for.store(self.shard.0, Ordering::Relaxed);
                self.prober.begin(order);
            }
            FromRoot::Planned { plan } => self.plan = Some(plan),
            message => drop(self.sender.send((self.shard, message))),
        }
    }

    fn lost(&mut self, why: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn health(&self) -> Option<Health> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let key_epoch = self.epoch.load(Ordering::Relaxed);
        let follows = self.follows();
        Some(Health { follows, probes: true, plans: true, sheds: true, key_epoch, ..health })
    }

    fn follows(&self) -> Followed {
        self.clock.followed()
    }

    fn observed(&self) -> Option<Observed> {
        self.sampled.take()
    }

    fn probed(&self) -> Option<Probed> {
        // Of another shard's order nothing is told here.
        let own = self.probes_for.load(Ordering::Relaxed) == self.shard.0;
        own.then(|| self.prober.tell()).flatten()
    }

    fn plan(&self) -> Option<String> {
        self.plan.clone()
    }
}
