//! The keys of all nodes are exchanged while the exchange trades: on links that lose nothing no
//! datagram is lost by it, and a node that is left out is soon heard by nobody.

use exchange::{OverlayOptions, Secret};
use overlay::membership::RollCallConfig;
use sim::LinkModel;
use sim::venue::{
    Checker, FaultKind, FaultSpec, Rekeys, Sabotage, Scenario, SeedReport, run_each_of, run_seed,
};
use types::Nanos;

const MS: u64 = Nanos::MILLI;

/// Three exchanges, the second of which begins while the former keys of the first are good.
const THRICE: Rekeys =
    Rekeys { times: 3, every_ns: 1_700 * MS, spread_ns: 500 * MS, left_out: None };

/// Keys are exchanged while orders flow; no other fault.
fn scenario(rekeys: Rekeys) -> Scenario {
    let orders = 600;
    Scenario {
        orders,
        rate_per_s: rekeys.rate(orders),
        kill_every: 0,
        faults: Some(Vec::new()),
        options: OverlayOptions { secret: Some(Secret([3; 32])), ..OverlayOptions::default() },
        rekeys: Some(rekeys),
        ..Scenario::default()
    }
}

fn lossless(rekeys: Rekeys) -> Scenario {
    let scenario = scenario(rekeys);
    let link = LinkModel { loss_permille: 0, duplicate_permille: 0, ..scenario.link };
    Scenario { link, ..scenario }
}

fn has(report: &SeedReport, checker: Checker) -> bool {
    report.failures.iter().any(|failure| failure.checker == checker)
}

/// A root, three proxies, nine edges.
const NODES: u64 = 13;

#[test]
fn nothing_is_lost_by_an_exchange_of_keys_on_links_that_lose_nothing() {
    for seed in 0..6 {
        let report = run_seed(seed, &lossless(THRICE));
        assert!(report.failures.is_empty(), "{report}");
        println!("seed {seed}: {:?}", report.rekeys);
        assert_eq!((report.rekeys.rekeyed, report.rekeys.lost), (3 * NODES, 0));
        assert!(report.rekeys.opened > 20_000, "{:?}", report.rekeys);
    }
    // The control.
    let sabotage = Sabotage::DropFormerKeys;
    let report = run_seed(0, &Scenario { sabotage, ..lossless(THRICE) });
    println!("without the former keys: {:?}", report.rekeys);
    assert!(has(&report, Checker::KeysExchanged) && report.rekeys.lost > 100, "{report}");
}

#[test]
fn trading_goes_on_while_keys_are_exchanged_over_links_that_lose_and_nodes_that_start_again() {
    for seed in 0..6 {
        let kinds = [FaultKind::RestartEdge, FaultKind::RestartProxy, FaultKind::Isolate];
        let faults = Some(kinds.map(FaultSpec::any).to_vec());
        let report = run_seed(seed, &Scenario { faults, ..scenario(THRICE) });
        assert!(report.failures.is_empty(), "{report}");
        println!("seed {seed}: {:?}", report.rekeys);
        assert!(report.rekeys.rekeyed > 2 * NODES && report.figures.drops > 500);
    }
}

#[test]
fn random_scenarios_pass_with_exchanges_of_keys() {
    let of = |seed| match seed % 4 {
        3 => Scenario::random(seed).with_replicas(seed).with_rekeys(seed),
        _ => Scenario::random(seed).with_rekeys(seed),
    };
    let summary = run_each_of(0..28, 2, &of, &|_, _| {});
    let reports: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
    assert_eq!(summary.failed, 0, "{}", reports.join("\n"));
    assert_eq!(summary.total.with_sealing, 28);
    println!("{} leaders while keys were exchanged", summary.total.terms_led);
    assert!(of(3).again(3).ends_with("--rekey --seed 3"));
}

/// The first proxy gets no new keys; the root looks who is there.
fn left_out(sabotage: Sabotage) -> Scenario {
    let rekeys = Rekeys { times: 1, every_ns: 3_000 * MS, spread_ns: 500 * MS, left_out: Some(0) };
    let scenario = scenario(rekeys);
    let roll_call = Some(RollCallConfig::default());
    let options = OverlayOptions { roll_call, ..scenario.options };
    Scenario { options, sabotage, ..scenario }
}

#[test]
fn who_is_left_out_is_heard_by_nobody_and_trading_goes_on() {
    for seed in 0..6 {
        let report = run_seed(seed, &left_out(Sabotage::Nothing));
        assert!(report.failures.is_empty(), "{report}");
        println!("seed {seed}: {:?}", report.rekeys);
        assert_eq!((report.rekeys.rekeyed, report.rekeys.heard_after), (NODES - 1, 0));
        assert!(report.rekeys.heard_before > 1_000, "{:?}", report.rekeys);
    }
    // The control: it has the secret that the rings are made of.
    let report = run_seed(0, &left_out(Sabotage::LeakSecret));
    println!("with the whole secret: {:?}", report.rekeys);
    assert!(has(&report, Checker::LeftOut) && report.rekeys.heard_after > 100, "{report}");
}
