//! The post-trade store beside a running exchange, a replica or a root of a venue: a thread that follows the
//! journal on disk, or that of a replica, and another one's when that one stops.
//!
//! Nothing of the exchange waits for it, and what goes wrong with it is an alarm: the store can always
//! be made again from the journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use store::{Place, Query, Table};

use super::follow::{Feed, REPLACED};
use super::{Places, at, place_of};
use crate::report::StoreReport;
use crate::report::numbers::grouped;
use host::alarms::Alarms;
use host::config::Config;
use host::failure::Failure;
use host::telemetry::{Telemetry, fairness};

/// How long it may take to catch up with what the exchange wrote last.
const CATCH_UP: Duration = Duration::from_secs(60);

/// How long a server that is away is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// What it is about.
const ALARM: &str = "store-failed";

/// The thread.
pub struct Beside {
    thread: JoinHandle<Result<StoreReport, Failure>>,
    over: Arc<AtomicBool>,
}

impl Beside {
    /// Follows a journal into a store from now on.
    pub fn start(places: Places, (alarms, telemetry): (&Alarms, Option<&Telemetry>)) -> Beside {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let (alarms, telemetry) = (alarms.clone(), telemetry.cloned());
        let thread = std::thread::spawn(move || {
            let followed = follow(&places, &stop, (&alarms, telemetry.as_ref()));
            if let Err(error) = &followed {
                let hint = "`fairbell store rebuild` makes it again from the journal";
                alarms.raise(ALARM, format!("the store is fed no more: {error}; {hint}"));
            }
            followed
        });
        Beside { thread, over }
    }

    /// Beside a replica or a root with a folder of its own, where the configuration says so. A relative
    /// `store.file` counts from that folder: there may be several on a machine. A store on a server is that of
    /// all of them, and one of them feeds it.
    ///
    /// # Errors
    /// What is wrong with the address of a server.
    pub fn in_folder(
        config: &Config,
        (folder, journal): (&Path, PathBuf),
        told: (&Alarms, Option<&Telemetry>),
    ) -> Result<Option<Beside>, Failure> {
        if !config.store.follow {
            return Ok(None);
        }
        let store = match place_of(config)? {
            Place::File(file) => Place::File(folder.join(file)),
            server => server,
        };
        Ok(Some(Beside::start(Places { config: config.clone(), journal, store }, told)))
    }

    /// Waits until it has caught up with what is committed in the journal.
    ///
    /// # Errors
    /// What was wrong with journal or store.
    pub fn end(self) -> Result<StoreReport, Failure> {
        self.over.store(true, Ordering::Relaxed);
        let panicked = |_| Failure::Run("the post-trade store's thread panicked".to_string());
        self.thread.join().map_err(panicked)?
    }

    /// The same, for whoever has only lines to tell of it.
    pub fn end_in_lines(self) -> Vec<String> {
        match self.end() {
            Ok(report) => vec![line(&report)],
            Err(error) => vec![format!("the post-trade store: {error}")],
        }
    }
}

/// What is in a store, in a line.
pub fn line(store: &StoreReport) -> String {
    let StoreReport { file, orders, trades, inputs, behind, behind_max, .. } = store;
    let (orders, trades) = (grouped(*orders), grouped(*trades));
    format!(
        "{file}: {orders} orders, {trades} trades up to input {inputs}, {behind} behind, at most {behind_max}"
    )
}

/// Feeds it, and once more when a server was away or the file was made anew.
fn follow(
    places: &Places,
    over: &AtomicBool,
    (alarms, telemetry): (&Alarms, Option<&Telemetry>),
) -> Result<StoreReport, Failure> {
    let mut notices = Vec::new();
    loop {
        match follow_once(places, over, (alarms, telemetry), &mut notices) {
            Ok(None) => notices.push(format!("{}: {REPLACED}", places.store)),
            Ok(Some(report)) => return Ok(StoreReport { turned: notices, ..report }),
            Err(error) if places.store.is_server() && !over.load(Ordering::Relaxed) => {
                alarms.raise(ALARM, format!("the store is not fed, and tried again: {error}"));
                std::thread::sleep(RETRY);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Feeds it until the exchange is over; `None`: its file has gone.
fn follow_once(
    places: &Places,
    over: &AtomicBool,
    (alarms, telemetry): (&Alarms, Option<&Telemetry>),
    notices: &mut Vec<String>,
) -> Result<Option<StoreReport>, Failure> {
    let poll = Duration::from_millis(places.config.store.poll_ms);
    let fed = Feed::wait(places, over, |line| notices.push(line.to_string()))?;
    let Some(mut feed) = fed else {
        return Ok(Some(StoreReport { file: places.store.to_string(), ..StoreReport::default() }));
    };
    alarms.clear(ALARM, "the store is fed again");
    let (mut until, mut replaced) = (None, false);
    feed.run(poll, &mut |feed, all| {
        replaced = feed.keeper.is_replaced();
        notices.extend(feed.take_notices());
        if let Some(telemetry) = telemetry {
            let (behind, inputs) = (feed.behind(), feed.keeper.stored().applied);
            telemetry.tell("store", |samples| fairness::store(samples, behind, inputs));
        }
        if replaced || !over.load(Ordering::Relaxed) {
            return replaced;
        }
        all || Instant::now() > *until.get_or_insert_with(|| Instant::now() + CATCH_UP)
    })?;
    if replaced {
        return Ok(None);
    }
    let query = Query::open(&places.store).map_err(|error| at(&places.store, error))?;
    let count = |table| query.count(table).map_err(|error| at(&places.store, error));
    notices.extend(feed.take_notices());
    let report = StoreReport {
        file: places.store.to_string(),
        inputs: feed.keeper.stored().applied,
        orders: count(Table::Orders)?,
        trades: count(Table::Trades)?,
        cancels: count(Table::Cancels)?,
        rows_written: feed.keeper.rows(),
        behind: feed.behind(),
        behind_max: feed.behind_max,
        ..StoreReport::default()
    };
    drop(query);
    feed.close()?;
    Ok(Some(report))
}
