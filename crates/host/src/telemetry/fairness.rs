//! How fair a venue is, as samples.

use monitoring::metric::Samples;

use super::metrics as m;
use crate::fleet::observer::{Fairness, Spread};

/// What the observer of a fleet says of its last span.
pub(crate) fn observed(to: &mut Samples, of: &Fairness) {
    messages(to, of.messages, of.incomplete);
    let oml = [("arrival", &of.oml_arrival_ns), ("release", &of.oml_release_ns)];
    for (end, Spread { p50, p99 }) in oml {
        self::oml(to, end, (*p50, *p99));
    }
    window(to, (of.dws_ns.p50, of.dws_ns.p99));
    if of.messages > 0 {
        within(to, "sure", of.p_fair.0);
        within(to, "possible", of.p_fair.1);
    }
    to.level(&m::ORDERS_SEEN, [], of.orders.orders as f64);
    to.level(&m::INVERTED, ["possible".into()], of.orders.inverted as f64);
    to.level(&m::INVERTED, ["sure".into()], of.orders.surely_inverted as f64);
}

/// Datagrams that all receivers released, and that some did not.
pub fn messages(to: &mut Samples, whole: u64, incomplete: u64) {
    to.level(&m::FAIR_MESSAGES, ["released_everywhere".into()], whole as f64);
    to.level(&m::FAIR_MESSAGES, ["incomplete".into()], incomplete as f64);
}

/// Median and 99th percentile of the time to the last `end`, ns.
pub fn oml(to: &mut Samples, end: &'static str, (p50, p99): (u64, u64)) {
    to.level_ns(&m::OML, [end.into(), "0.5".into()], p50);
    to.level_ns(&m::OML, [end.into(), "0.99".into()], p99);
}

/// Median and 99th percentile of the delivery window, ns.
pub fn window(to: &mut Samples, (p50, p99): (u64, u64)) {
    to.level_ns(&m::DWS, ["0.5".into()], p50);
    to.level_ns(&m::DWS, ["0.99".into()], p99);
}

/// Share released everywhere within the window of fairness: as far as it is `certainty`.
pub fn within(to: &mut Samples, certainty: &'static str, share: f64) {
    to.level(&m::P_FAIR, [certainty.into()], share);
}

/// How far the post-trade store is behind the journal, and up to which input it is fed.
pub fn store(to: &mut Samples, behind: u64, inputs: u64) {
    to.level(&m::STORE_BEHIND, [], behind as f64);
    to.level(&m::STORE_INPUTS, [], inputs as f64);
}
