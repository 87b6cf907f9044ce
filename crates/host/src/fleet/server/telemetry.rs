//! The live figures of fairness of the replica that leads, for metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Server;
use crate::telemetry::{Telemetry, fairness};

/// Between two looks at the figures.
const EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Server {
    /// Tells how fair the venue is, each second while this replica leads, until `stop`.
    pub(in crate::fleet) fn tell_fairness(&self, telemetry: &Telemetry, stop: &AtomicBool) {
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() >= next {
                next = Instant::now() + EVERY;
                let leads = self.standing().term > 0;
                let of = leads.then(|| self.fairness());
                telemetry.tell("fairness", |samples| {
                    if let Some(of) = &of {
                        fairness::observed(samples, of);
                    }
                });
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}
