//! How long LemonDrop takes at each limit of iterations: the simulator has no clock, so the rows
//! are added here.

use std::time::Instant;

use planner::faq::Qap;
use sim::cloud::lemondrop::{LIMITS, delays, limited};
use sim::cloud::report::{Report, Row};
use sim::cloud::treebuilder::SHAPE;

/// Clouds timed.
const CLOUDS: u64 = 20;

/// Adds a row per limit: nanoseconds from the delay matrix to the placement.
pub fn add(report: &mut Report) {
    let matrices: Vec<_> = (0..CLOUDS.min(report.seeds)).map(delays).collect();
    for limit in LIMITS {
        let time = |delays: &planner::Square| {
            let begin = Instant::now();
            let placement = limited(&Qap::tree(SHAPE, delays.clone()), limit);
            std::hint::black_box(placement.cost);
            begin.elapsed().as_nanos() as f64
        };
        let times: Vec<f64> = matrices.iter().map(time).collect();
        let what = format!("at most {limit} iterations: time on this machine");
        let published = (limit == 1).then_some(38.1e6);
        report.rows.push(Row::new(what, "ns", published, &times));
    }
}
