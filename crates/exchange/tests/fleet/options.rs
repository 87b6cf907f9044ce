//! Every option of the overlay runs end to end in a sealed exchange over bad links: all orders are
//! answered once, all receivers hear everything, and the option did something.

use exchange::{OverlayOptions, Role};
use overlay::{
    egress::{QueueConfig, QueuePolicy},
    estimator::Estimator,
    hedger::HedgeMode,
    hedging::{HedgePolicy, Hedging},
    pacing::PacerConfig,
    proxy::ProxyStats,
    receiver::ReceiverStats,
    repair_cache::CacheConfig,
    topology::DEPTH_MAX,
    upstream_queue::{Pace, UpstreamConfig},
};
use types::Nanos;

use crate::{
    DEEP,
    common::MS,
    sealed,
    world::{CALM, Fleet, Links, ROUGH},
};

struct Ran {
    fleet: Fleet,
    receivers: Vec<ReceiverStats>,
    proxies: Vec<ProxyStats>,
}

/// Plays an exchange with these options, in the middle of it another tree.
fn play(links: Links, set: impl FnOnce(&mut OverlayOptions)) -> Ran {
    let mut config = sealed();
    (config.depth, config.fanout) = (DEEP.depth, DEEP.fanout);
    set(&mut config.options);
    let mut fleet = Fleet::new(&config, links, 3);
    fleet.login();
    fleet.trade(150 * MS, 500 * Nanos::MICRO);
    assert!(fleet.on_root(|root, now, out| root.change_tree(now, crate::WIDE, out)));
    fleet.trade(150 * MS, 500 * Nanos::MICRO);
    fleet.run(1_500 * MS);
    fleet.check(3);
    let receivers = (0..6).map(|n| fleet.edge(n).receiver().stats()).collect();
    let proxies = fleet.nodes.iter().flatten().filter_map(Role::as_proxy);
    let proxies = proxies.map(|proxy| proxy.stats()).collect();
    Ran { fleet, receivers, proxies }
}

fn hedged(hedging: Hedging) -> impl FnOnce(&mut OverlayOptions) {
    move |options| options.hedging = hedging
}

#[test]
fn every_way_of_hedging() {
    let disjoint = Hedging { policy: HedgePolicy::PathDisjoint, ..Hedging::default() };
    let spares = Hedging { policy: HedgePolicy::ExtraFanout, spares: 1, ..Hedging::default() };
    let planes = Hedging { planes: 2, ..Hedging::default() };
    let mut layers = [Hedging::TREE; DEPTH_MAX];
    (layers[1], layers[2]) = (0, 1);
    let only_last = Hedging { layers, ..Hedging::default() };
    for hedging in [disjoint, spares, planes, only_last] {
        let ran = play(ROUGH, hedged(hedging));
        let copies: u64 = ran.receivers.iter().map(|stats| stats.filter.duplicates).sum();
        assert!(copies > 100, "{hedging:?}");
    }
    let bare = [0; DEPTH_MAX];
    let ran = play(CALM, hedged(Hedging { layers: bare, ..Hedging::default() }));
    assert_eq!(ran.receivers.iter().map(|stats| stats.filter.duplicates).sum::<u64>(), 0);
}

#[test]
fn hedging_by_turns_and_by_gain() {
    let ran = play(CALM, |options| options.hedge_mode = HedgeMode::OddOnly);
    for stats in &ran.receivers {
        let (copies, all) = (stats.filter.duplicates, stats.received);
        assert!(copies * 5 > all && copies * 5 < 2 * all, "{copies} of {all}");
    }
    let adaptive = HedgeMode::Adaptive { first: 1, most: 2, gain_permille: 50 };
    let ran = play(CALM, |options| options.hedge_mode = adaptive);
    assert!(ran.fleet.root().publisher().hedger().hedge() <= 2);
}

#[test]
fn estimators_from_samples() {
    let percentile = Estimator::MessagePercentile { permille: 950, window: 200 };
    for estimator in [percentile, Estimator::MissRate { permille: 950 }] {
        let ran = play(CALM, |options| options.estimator = estimator);
        let reducer = ran.fleet.root().publisher().delay();
        assert!(reducer.estimator().taken() > 0, "{estimator:?}");
        let ran = play(ROUGH, |options| {
            (options.estimator, options.samples, options.slowest_first) = (estimator, 16, true);
        });
        assert!(ran.fleet.root().publisher().stats().deadlines > 0);
    }
}

#[test]
fn orders_wait_in_queues_and_leave_at_a_pace() {
    let queue = |policy| QueueConfig { policy, ..QueueConfig::default() };
    let paces = [Pace::Free, Pace::Paper(PacerConfig::default()), Pace::Credits { rate: 64 }];
    let policies = [QueuePolicy::Fifo, QueuePolicy::SimplePq, QueuePolicy::LimitOrder];
    for (policy, pace) in policies.into_iter().zip(paces) {
        let gap_ns = 20 * Nanos::MICRO;
        let upstream = UpstreamConfig { queue: queue(policy), pace, gap_ns };
        // The paper's rule takes a loss for congestion and slows down to a crawl.
        let links = if matches!(pace, Pace::Paper(_)) { CALM } else { ROUGH };
        let ran = play(links, |options| options.upstream = Some(upstream));
        let served: u64 = ran.proxies.iter().map(|stats| stats.upstream.queue.served).sum();
        assert!(served > 500, "{policy:?} served {served}");
        let lost: u64 = ran.proxies.iter().map(|stats| stats.upstream.queue.shed_full).sum();
        assert_eq!(lost, 0);
        let refused: u64 = (0..ran.fleet.nodes.len()).map(|n| ran.fleet.link(n).forbidden).sum();
        assert_eq!(refused, 0, "what queued passes the links");
    }
}

#[test]
fn parity_and_caches_repair() {
    let lossy = Links { loss: 20, ..CALM };
    let none = Hedging { layers: [0; DEPTH_MAX], ..Hedging::default() };
    let ran = play(lossy, |options| (options.parity, options.hedging) = (4, none));
    let filled: u64 = ran.receivers.iter().map(|stats| stats.parity_filled).sum();
    assert!(filled > 20, "{filled} made up");
    let ran = play(lossy, |options| {
        (options.cache, options.hedging) = (Some(CacheConfig::default()), none);
    });
    let cached: u64 = ran.proxies.iter().map(|stats| stats.cache.repaired).sum();
    assert!(cached > 20, "{cached} from caches");
}
