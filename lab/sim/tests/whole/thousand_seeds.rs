//! A thousand whole exchanges, half of them with auctions and halts, under loss, repetition, reordering, dead proxies and cut connections.

use std::io::Write;

use sim::venue::{Scenario, run_seeds};

#[test]
fn a_thousand_seeds_end_with_equal_books_and_every_order_answered_once() {
    let summary = run_seeds(0..1_000, 2, &Scenario::default(), &|_, _| {});
    let total = summary.total;
    let text: Vec<String> = total.iter().map(|(name, value)| format!("{name} {value}")).collect();
    // Past the harness's capture: these sums are a result people want to see.
    let line = format!("{} seeds: {}\n", summary.seeds, text.join(", "));
    let _ = std::io::stderr().write_all(line.as_bytes());
    for report in &summary.reports {
        println!("{report}");
    }
    assert_eq!((summary.seeds, summary.failed), (1_000, 0));
    assert!(total.orders >= 500 * summary.seeds, "{total:?}");
    assert_eq!(total.requests, total.answered);
    // Both sides of each trade, and again what is replayed after a reconnect.
    assert!(total.executions_watched >= 2 * total.trades, "{total:?}");
    assert!(total.proxies_killed >= 100 && total.connections_cut >= 100, "{total:?}");
    for count in [
        total.drops,
        total.duplicates,
        total.reordered,
        total.repairs,
        total.listener_repairs,
        total.resends,
        total.client_resends,
        total.trades,
        total.auctions,
        total.halts,
    ] {
        assert!(count > 0, "{total:?}");
    }
}
