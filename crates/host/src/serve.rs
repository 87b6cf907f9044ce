//! A whole exchange served without participants of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use types::Peer;

use crate::alarms::Alarms;
use crate::config::Config;
use crate::deployment::{self, Plan, PlanOptions};
use crate::failure::Failure;
use crate::group::Levels;
use crate::journal::health::Health;
use crate::journal::kept::{self, written};
use crate::sockets::io;

/// Serves while `body` runs, which is given the OUCH doors of the gateways.
///
/// # Errors
/// Those of making the exchange, of its loops, its journal or its replicas, and of `body`.
pub fn serve<T>(
    config: &Config,
    body: impl FnOnce(Vec<Peer>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let clock = deployment::clock(config);
    let kept = match config.journal.is_local() {
        true => Some(kept::open(Path::new(&config.journal.dir), &config.journal, clock.now())?),
        false => None,
    };
    let log = Path::new(&config.journal.dir).join(deployment::LOG_FILE);
    let plan = deployment::plan(config, [clock; 3], PlanOptions::new(&log), kept, |_| Ok(None))?;
    let Plan { loops, edges_in, addresses, jobs, writing, group, .. } = plan;
    let levels = Mutex::new(Levels::default());
    let seen = || levels.lock().unwrap_or_else(PoisonError::into_inner);
    let (stop, edges, root) = (AtomicBool::new(false), loops[edges_in].handle(), loops[0].handle());
    thread::scope(|scope| {
        scope.spawn(move || jobs.serve(&edges, crate::password::work));
        let run = |of: net::Loop<_>| {
            scope.spawn(|| of.run(&stop, Duration::from_secs(1), |_, _| {}).map(drop))
        };
        let threads: Vec<ScopedJoinHandle<'_, _>> = loops.into_iter().map(run).collect();
        let mailbox = writing.as_ref().map(|writing| std::sync::Arc::clone(&writing.mailbox));
        let writer = writing.map(|writing| {
            let health = Health::new(&Alarms::default(), "journal");
            scope.spawn(move || kept::write(writing.journal, &writing.mailbox, &root, &health))
        });
        let replicas = group.map(|group| {
            let observe = |place, role: &exchange::Role| {
                seen().observe(place, role);
            };
            group.start(scope, observe, &Alarms::default())
        });
        let gateways = addresses.gateways.iter().map(|at| net::peer_addr(*at)).collect();
        let outcome = body(gateways);
        stop.store(true, Ordering::Relaxed);
        let ended: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
        if let Some(mailbox) = mailbox {
            mailbox.close();
        }
        if let Some(why) = writer.and_then(written) {
            return Err(Failure::Run(why));
        }
        for replica in
            replicas.map_or_else(Vec::new, |replicas| replicas.end(|| seen().are_level()))
        {
            replica.map_err(Failure::Run)?;
        }
        for of in ended {
            of.map_err(|_| Failure::Run("a loop's thread panicked".to_string()))?.map_err(io)?;
        }
        outcome
    })
}
