//! A straggler among the proxies is replaced while the exchange trades: no message is lost,
//! repeated or reordered, and the last receiver hears the market sooner.

use exchange::{OverlayOptions, Secret};
use overlay::membership::RollCallConfig;
use sim::venue::{
    Delivery, FaultKind, FaultSpec, Sabotage, Scenario, Timings, run_seed, run_timed,
};
use types::Nanos;

/// When the straggler goes, after play began.
const AT_NS: u64 = 1_000 * Nanos::MILLI;

/// Proxies 1 to 3 of which the second straggles, and two that stand by; no hedge hides it.
fn scenario(replace: bool) -> Scenario {
    let fault =
        FaultSpec { at_ns: Some(AT_NS), node: Some(1), ..FaultSpec::any(FaultKind::ReplaceProxy) };
    Scenario {
        hedge: 0,
        orders: 1_500,
        kill_every: 0,
        auctions_every: 0,
        specials_every: 0,
        slow_proxy: Some(1),
        straggler_permille: 4_000,
        faults: Some(if replace { vec![fault] } else { Vec::new() }),
        options: OverlayOptions {
            standby: 2,
            roll_call: Some(RollCallConfig { every_ns: 20 * Nanos::MILLI, ..Default::default() }),
            secret: Some(Secret([3; 32])),
            ..OverlayOptions::default()
        },
        ..Scenario::default()
    }
}

/// Median time from publication to the last receiver, of what is published between two times after
/// the first datagram, in ns.
fn oml(timings: &Timings, from_ns: u64, to_ns: u64) -> u64 {
    let start = timings.deliveries.first().map_or(Nanos(0), |first| first.at);
    let within = |of: &&Delivery| (from_ns..to_ns).contains(&of.at.since(start));
    let mut all: Vec<u64> =
        timings.complete().filter(within).map(|of| of.last.since(of.at)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

#[test]
fn a_straggler_is_replaced_nothing_is_lost_and_everybody_hears_sooner() {
    for seed in 0..6 {
        let change = AT_NS + 500 * Nanos::MILLI;
        let [replaced, left] = [true, false].map(|replace| {
            let (report, timings) = run_timed(seed, &scenario(replace));
            assert!(report.failures.is_empty(), "{report}");
            assert_eq!(report.figures.proxies_replaced, u64::from(replace), "seed {seed}");
            let end = timings.deliveries.last().map_or(Nanos(0), |last| last.at);
            let start = timings.deliveries.first().map_or(Nanos(0), |first| first.at);
            (oml(&timings, 0, AT_NS), oml(&timings, change, end.since(start)))
        });
        // The same until then; the negative control is the run in which it is left where it is.
        let ((before, after), (same, beside)) = (replaced, left);
        assert!(before.abs_diff(same) < before / 10, "seed {seed}: {before} and {same} ns");
        assert!(after < beside * 4 / 5, "seed {seed}: {after} ns beside {beside} ns");
    }
}

#[test]
fn the_checkers_see_a_bug_while_a_proxy_is_replaced() {
    for sabotage in [Sabotage::FlipReleasedByte, Sabotage::ReleaseTwice] {
        let report = run_seed(1, &Scenario { sabotage, ..scenario(true) });
        assert!(!report.failures.is_empty(), "{sabotage:?} was not caught");
    }
}
