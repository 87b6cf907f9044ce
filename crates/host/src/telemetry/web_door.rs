//! What the web door has counted, as samples; and its requests, as records.

use monitoring::metric::Samples;
use monitoring::record::Web;
use web::account::Stamps;
use web::counters::Figures;

use super::metrics as m;

/// Classes of HTTP statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A request of the account at this place, from 1.
pub fn record(account: u16, of: &Stamps) -> Web {
    let after =
        |at: types::Nanos| u32::try_from(at.0.saturating_sub(of.came.0)).unwrap_or(u32::MAX);
    Web {
        came: of.came.0,
        logged: of.logged.map_or(0, |at| at.0),
        sent: after(of.sent),
        answered: after(of.answered),
        request: of.number,
        account,
        command: of.command as u8,
        flags: u8::from(of.refused),
    }
}

/// All that a door counts.
pub fn counted(to: &mut Samples, of: &Figures) {
    to.level(&m::WEB_CONNECTIONS, [], of.connections as f64);
    to.level(&m::WEB_SOCKETS, [], of.sockets as f64);
    to.level(&m::WEB_SUBSCRIPTIONS, [], of.subscriptions as f64);
    for (over, answers) in [("http", of.rest), ("websocket", of.socket)] {
        for (class, count) in CLASSES.into_iter().zip(answers) {
            to.count(&m::WEB_REQUESTS, [over.into(), class.into()], count);
        }
    }
    for (metric, count) in [
        (&m::WEB_ACCEPTED, of.accepted),
        (&m::WEB_REFUSED, of.refused),
        (&m::WEB_NO_CREDITS, of.no_credits),
        (&m::WEB_IN, of.received),
        (&m::WEB_OUT, of.sent),
        (&m::WEB_SLOW, of.slow),
        (&m::WEB_RESYNCS, of.resyncs),
    ] {
        to.count(metric, [], count);
    }
}
