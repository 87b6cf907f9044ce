//! The post-trade store beside the exchange of `fairbell up`, and what the report says of it.

use std::path::PathBuf;

use crate::report::Report;
use crate::store::beside::{Beside, line};
use crate::store::{Places, place_of};
use host::alarms::Alarms;
use host::config::Config;
use host::failure::Failure;
use host::telemetry::Telemetry;

/// Starts it, where the configuration says so.
///
/// # Errors
/// What is wrong with the address of a server.
pub fn start(
    config: &Config,
    told: (&Alarms, Option<&Telemetry>),
) -> Result<Option<Beside>, Failure> {
    let kept = config.journal.is_local() || config.journal.is_replicated();
    if !config.store.follow || !kept {
        return Ok(None);
    }
    let (journal, store) = (PathBuf::from(&config.journal.dir), place_of(config)?);
    let places = Places { config: config.clone(), journal, store };
    Ok(Some(Beside::start(places, told)))
}

/// Waits until it has caught up, and reports; nothing where there is none.
pub fn finish(beside: Option<Beside>, report: &mut Report) {
    match beside.map(Beside::end) {
        None => {}
        Some(Ok(store)) => {
            report.notices.push(line(&store));
            report.notices.extend(store.turned.iter().map(|line| format!("store: {line}")));
            report.store = Some(store);
        }
        Some(Err(error)) => report.complaints.push(format!("the post-trade store: {error}")),
    }
}
