//! One seed is one run; and a checker that never fails would prove nothing.

use exchange::{OverlayOptions, Secret, Spread};
use overlay::hedging::Hedging;
use sim::LinkModel;
use sim::venue::{
    Checker, Departure, FaultKind, FaultSpec, Figures, Outlet, Sabotage, Scenario, SeedReport,
    run_seed, run_seeds,
};

/// Seeds within which an injected bug has to show.
const SEEDS_TO_CATCH: u64 = 8;

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = Scenario::default();
    let run = run_seed(10, &scenario);
    assert!(run.failures.is_empty(), "{run}");
    assert_eq!(run, run_seed(10, &scenario));
    assert_ne!(run.event_hash, run_seed(11, &scenario).event_hash);
}

#[test]
fn every_injected_bug_is_caught_by_its_checker() {
    for sabotage in Sabotage::ALL {
        let expected = match sabotage {
            Sabotage::Nothing => continue,
            Sabotage::LoseResends => Checker::AnsweredOnce,
            Sabotage::FlipReleasedByte => Checker::FeedEqual,
            Sabotage::IgnoreHold => Checker::ReleaseDeadline,
            Sabotage::ReleaseTwice => Checker::ReleaseOrder,
            Sabotage::EarlyExecutions => Checker::TickFirst,
            Sabotage::MisdirectAnswer => Checker::AnsweredOnce,
            Sabotage::ForgetInput => Checker::ReplayEqual,
            Sabotage::ChildSetOffByOne => Checker::ChildSet,
            Sabotage::EarlyRelease => Checker::ReleaseDeadline,
            Sabotage::ForgetLeavers | Sabotage::ForgetLost => Checker::CancelOnDisconnect,
            Sabotage::ForgetExpiry => Checker::NothingExpired,
            Sabotage::EagerFollowers | Sabotage::HastyRetransmission => Checker::NothingEarly,
            Sabotage::SameLife => Checker::FreshNonces,
            // Beside what becomes of them without the bug: `rekey.rs`.
            Sabotage::DropFormerKeys | Sabotage::LeakSecret => continue,
        };
        // What roots say that serve in turn.
        let several = expected == Checker::NothingEarly;
        for options in [OverlayOptions::default(), by_symbol()] {
            let leaver = match sabotage {
                Sabotage::ForgetLeavers => Some(Departure::HangsUp),
                Sabotage::ForgetLost => Some(Departure::WithGateway),
                _ => None,
            };
            // The root cancels what a gateway forgets, as it does for a dead one, but later: only where
            // nothing else goes wrong is there a bound that tells the two apart.
            let faults = match sabotage {
                Sabotage::ForgetLeavers => Some(Vec::new()),
                Sabotage::SameLife => Some(vec![FaultSpec::any(FaultKind::RestartEdge)]),
                _ => None,
            };
            let secret = (sabotage == Sabotage::SameLife).then_some(Secret([3; 32]));
            let options = OverlayOptions { secret, ..options };
            let (replicas, eavesdropper) = (if several { 3 } else { 0 }, several);
            let scenario = Scenario { sabotage, options, leaver, faults, ..Scenario::default() };
            let scenario = Scenario { replicas, eavesdropper, ..scenario };
            let scenario = if several { long_holds(scenario) } else { scenario };
            // Most are caught at once; what needs a requester at the right moment, within a few seeds.
            let of = |seed| run_seed(seed, &scenario);
            let has = |report: &SeedReport| report.failures.iter().any(|f| f.checker == expected);
            let caught = (1..=SEEDS_TO_CATCH).any(|seed| has(&of(seed)));
            assert!(
                caught,
                "{sabotage:?} was not caught by {expected} in seeds 1..={SEEDS_TO_CATCH}"
            );
        }
    }
}

#[test]
fn orders_go_with_their_session_and_with_their_gateway() {
    for leaver in [Departure::HangsUp, Departure::WithGateway] {
        let scenario = Scenario { leaver: Some(leaver), ..Scenario::default() };
        let summary = run_seeds(0..12, 2, &scenario, &|_, _| {});
        let reports: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
        assert_eq!(summary.failed, 0, "{leaver:?}: {}", reports.join("\n"));
        let Figures { sessions_left, gateways_left, orders_left, .. } = summary.total;
        let died = if leaver == Departure::WithGateway { 12 } else { 0 };
        assert_eq!((sessions_left, gateways_left), (12, died));
        assert!(orders_left >= 12 * 6, "{orders_left}");
    }
}

/// A slow proxy makes long holds: longer than the way to who serves snapshots, and than it takes until
/// a leader knows that it still leads.
fn long_holds(scenario: Scenario) -> Scenario {
    Scenario { slow_proxy: Some(0), straggler_permille: 200_000, ..scenario }
}

/// The ways out whose rule each of these turns off.
#[test]
fn what_leaves_early_by_any_way_out_is_caught() {
    let several = || long_holds(Scenario { replicas: 3, ..Scenario::default() });
    let few = || long_holds(Scenario { store: Some(60), ..Scenario::default() });
    let controls: [(Sabotage, Scenario, &[Outlet]); 5] = [
        (Sabotage::EarlyRelease, Scenario::default(), &[Outlet::Feed, Outlet::MarketData]),
        (Sabotage::IgnoreHold, few(), &[Outlet::Snapshot]),
        (Sabotage::EarlyExecutions, Scenario::default(), &[Outlet::Execution, Outlet::DropCopy]),
        (Sabotage::EagerFollowers, several(), &[Outlet::Retransmission]),
        (Sabotage::HastyRetransmission, several(), &[Outlet::Retransmission]),
    ];
    let mut caught: Vec<Outlet> = Vec::new();
    for (sabotage, scenario, outlets) in controls {
        let faults = Some(vec![FaultSpec::any(FaultKind::RestartListener); 3]);
        let honest = Scenario { eavesdropper: true, faults, ..scenario };
        let mut missing = outlets.to_vec();
        // A snapshot tells what is early only if somebody takes it in that moment.
        for seed in 1..=SEEDS_TO_CATCH {
            let report = run_seed(seed, &honest);
            assert!(report.failures.is_empty(), "seed {seed} without {sabotage:?}: {report}");
            let report = run_seed(seed, &Scenario { sabotage, ..honest.clone() });
            let early = |outlet: &Outlet| {
                report.failures.iter().any(|failure| {
                    failure.checker == Checker::NothingEarly
                        && failure.reason.starts_with(outlet.name())
                })
            };
            missing.retain(|outlet| !early(outlet));
            if missing.is_empty() {
                break;
            }
        }
        assert_eq!(missing, [], "{sabotage:?} was not caught by these ways out");
        caught.extend(outlets);
    }
    assert!(Outlet::ALL.iter().all(|outlet| caught.contains(outlet)), "{caught:?}");
}

/// Two trees for three instruments.
fn by_symbol() -> OverlayOptions {
    let hedging = Hedging { planes: 2, ..Hedging::default() };
    OverlayOptions { hedging, spread: Spread::Symbols(Vec::new()), ..OverlayOptions::default() }
}

#[test]
fn other_trees_and_worse_links_do_as_well() {
    let usual = Scenario { orders: 200, ..Scenario::default() };
    let bad = LinkModel {
        loss_permille: 80,
        duplicate_permille: 80,
        reorder_permille: 150,
        reorder_ns: 5_000_000,
        ..usual.link
    };
    let scenarios = [
        ("unicast", Scenario { depth: 1, kill_every: 0, ..usual.clone() }),
        ("no hedge", Scenario { hedge: 0, kill_every: 2, ..usual.clone() }),
        ("deep", Scenario { depth: 3, fanout: 2, receivers: 7, hedge: 2, ..usual.clone() }),
        ("bad links", Scenario { link: bad, kill_every: 4, ..usual.clone() }),
        ("two trees", Scenario { options: by_symbol(), kill_every: 3, ..usual.clone() }),
        ("perfect links", Scenario { link: LinkModel::default(), ..usual }),
    ];
    for (name, scenario) in scenarios {
        let summary = run_seeds(0..24, 2, &scenario, &|_, _| {});
        let reports: Vec<String> = summary.reports.iter().map(ToString::to_string).collect();
        assert_eq!(summary.failed, 0, "{name}: {}", reports.join("\n"));
        assert_eq!(summary.seeds, 24);
    }
}
