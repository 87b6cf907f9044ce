//! What a machine says on its control connection, and what becomes of what roots say.

use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

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
    /// Where all else goes that roots say.
    pub sender: Sender<FromRoot>,
    /// What its nodes saw of the feed.
    pub sampled: &'a Sampled,
    /// Its probing agent.
    pub prober: &'a Prober,
    /// The last plan, on a root's machine.
    pub plan: Option<String>,
}

impl Connected for Connection<'_> {
    fn told(&mut self, message: FromRoot) {
        match message {
            FromRoot::Reference(followed) => self.clock.follow(followed),
            FromRoot::Probe(order) => self.prober.begin(order),
            FromRoot::Planned { plan } => self.plan = Some(plan),
            message => drop(self.sender.send(message)),
        }
    }

    fn lost(&mut self, why: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    fn health(&self) -> Option<Health> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Health { follows: self.follows(), probes: true, plans: true, ..health })
    }

    fn follows(&self) -> Followed {
        self.clock.followed()
    }

    fn observed(&self) -> Option<Observed> {
        self.sampled.take()
    }

    fn probed(&self) -> Option<Probed> {
        self.prober.tell()
    }

    fn plan(&self) -> Option<String> {
        self.plan.clone()
    }
}
