//! The post-trade store beside a running exchange: a thread that follows the journal on disk, or that of a
//! replica, and another one's when that one stops.
//!
//! Nothing of the exchange waits for it, and what goes wrong with it is an alarm: the store can always
//! be made again from the journal.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::store::{Query, Table};

use crate::report::{Report, StoreReport};
use crate::store::follow::{Feed, Writing};
use crate::store::{Places, at};
use host::alarms::Alarms;
use host::config::Config;
use host::failure::Failure;

/// How long it may take to catch up with what the exchange wrote last.
const CATCH_UP: Duration = Duration::from_secs(60);

/// The thread.
pub struct Follower {
    thread: JoinHandle<Result<StoreReport, Failure>>,
    over: Arc<AtomicBool>,
}

/// Starts it, where the configuration says so.
pub fn start(config: &Config, alarms: &Alarms) -> Option<Follower> {
    let kept = config.journal.is_local() || config.journal.is_replicated();
    if !config.store.follow || !kept {
        return None;
    }
    let (journal, file) = (PathBuf::from(&config.journal.dir), PathBuf::from(&config.store.file));
    let places = Places { config: config.clone(), journal, file };
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let alarms = alarms.clone();
    let thread = std::thread::spawn(move || {
        let followed = follow(&places, &stop);
        if let Err(error) = &followed {
            let hint = "`fairbell store rebuild` makes it again from the journal";
            alarms.raise("store-failed", format!("the store is fed no more: {error}; {hint}"));
        }
        followed
    });
    Some(Follower { thread, over })
}

fn follow(places: &Places, over: &AtomicBool) -> Result<StoreReport, Failure> {
    let poll = Duration::from_millis(places.config.store.poll_ms);
    let mut feed = loop {
        match Feed::open(places, Writing::Steady)? {
            Some(feed) => break feed,
            None if over.load(Ordering::Relaxed) => return Ok(StoreReport::default()),
            None => std::thread::sleep(poll),
        }
    };
    let (mut until, mut notices) = (None, Vec::new());
    feed.run(poll, &mut |feed, all| {
        notices.extend(feed.take_notices());
        if !over.load(Ordering::Relaxed) {
            return false;
        }
        all || Instant::now() > *until.get_or_insert_with(|| Instant::now() + CATCH_UP)
    })?;
    let query = Query::open(&places.file).map_err(|error| at(&places.file, error))?;
    let count = |table| query.count(table).map_err(|error| at(&places.file, error));
    notices.extend(feed.take_notices());
    let report = StoreReport {
        file: places.file.display().to_string(),
        inputs: feed.keeper.stored().applied,
        orders: count(Table::Orders)?,
        trades: count(Table::Trades)?,
        cancels: count(Table::Cancels)?,
        rows_written: feed.keeper.rows(),
        behind: feed.behind(),
        behind_max: feed.behind_max,
        turned: notices,
    };
    drop(query);
    feed.close()?;
    Ok(report)
}

/// Waits until it has caught up, and reports; nothing where there is none.
pub fn finish(follower: Option<Follower>, report: &mut Report) {
    let Some(Follower { thread, over }) = follower else { return };
    over.store(true, Ordering::Relaxed);
    match thread.join() {
        Ok(Ok(store)) => {
            report.notices.push(format!(
                "{}: {} orders, {} trades up to input {}, {} behind, at most {}",
                store.file,
                store.orders,
                store.trades,
                store.inputs,
                store.behind,
                store.behind_max
            ));
            report.notices.extend(store.turned.iter().map(|line| format!("store: {line}")));
            report.store = Some(store);
        }
        Ok(Err(error)) => report.complaints.push(format!("the post-trade store: {error}")),
        Err(_) => report.complaints.push("the post-trade store's thread panicked".to_string()),
    }
}
