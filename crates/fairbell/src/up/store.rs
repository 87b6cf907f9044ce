//! The post-trade store beside the exchange of `fairbell up`, and what the report says of it.

use std::path::PathBuf;

use crate::report::Report;
use crate::store::Places;
use crate::store::beside::{Beside, line};
use host::alarms::Alarms;
use host::config::Config;

/// Starts it, where the configuration says so.
pub fn start(config: &Config, alarms: &Alarms) -> Option<Beside> {
    let kept = config.journal.is_local() || config.journal.is_replicated();
    if !config.store.follow || !kept {
        return None;
    }
    let (journal, file) = (PathBuf::from(&config.journal.dir), PathBuf::from(&config.store.file));
    let places = Places { config: config.clone(), journal, file };
    Some(Beside::start(places, alarms))
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
