//! What the web door has counted, as samples.

use monitoring::metric::Samples;
use web::counters::Figures;

use super::metrics as m;

/// Classes of HTTP statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

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
