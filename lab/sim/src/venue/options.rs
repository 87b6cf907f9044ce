//! What the overlay can do beyond the plain tree, drawn from a seed, and what came of it.
//!
//! Draws have a generator of their own, so that a seed keeps the tree, links and faults it had
//! before there was another option. Not drawn: shapes to change to and spare proxies, with which
//! nodes have other numbers than the rest of this crate counts on.

use exchange::{OverlayOptions, Secret};
use overlay::{
    egress::{QueueConfig, QueuePolicy},
    estimator::Estimator,
    hedger::HedgeMode,
    hedging::{HedgePolicy, Hedging},
    membership::RollCallConfig,
    pacing::PacerConfig,
    repair_cache::CacheConfig,
    upstream_queue::{Pace, UpstreamConfig},
};
use types::{Nanos, SplitMix64};

use super::{
    actor::Actor,
    fuzz::Dice,
    report::{Checker, Failures, Figures},
    scenario::Scenario,
    watch::Watch,
};
use crate::world::World;

/// Of a thousand seeds, so many have any one option.
const EACH: u64 = 180;

/// The options of a seed; for two seeds of five none.
pub(super) fn random(seed: u64, depth: usize) -> OverlayOptions {
    let mut dice = Dice(SplitMix64::new(SplitMix64::mix(seed) ^ 0x0971));
    let mut options = OverlayOptions::default();
    if dice.chance(400) {
        return options;
    }
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&seed.to_le_bytes());
    options.secret = dice.chance(EACH).then_some(Secret(secret));
    options.roll_call = dice.chance(EACH).then(|| roll_call(&mut dice));
    if dice.chance(EACH) {
        options.hedging = hedging(&mut dice, depth);
    }
    if dice.chance(EACH) {
        let (first, most) = (dice.within(0, 2) as u8, dice.within(0, 3) as u8);
        let gain_permille = dice.within(1, 200) as u16;
        options.hedge_mode = match dice.chance(500) {
            true => HedgeMode::OddOnly,
            false => HedgeMode::Adaptive { first, most, gain_permille },
        };
    }
    if dice.chance(EACH) {
        let (permille, window) = (dice.within(500, 999) as u16, dice.within(8, 256) as u16);
        options.estimator = match dice.chance(500) {
            true => Estimator::MessagePercentile { permille, window },
            false => Estimator::MissRate { permille },
        };
    }
    if dice.chance(EACH) {
        options.samples = dice.within(1, 64) as usize;
    }
    options.slowest_first = dice.chance(EACH);
    options.upstream = dice.chance(2 * EACH).then(|| upstream(&mut dice));
    options.parity = if dice.chance(EACH) { dice.within(2, 12) as u16 } else { 0 };
    options.cache = dice.chance(EACH).then(|| CacheConfig {
        datagrams: dice.within(4, 1_024) as usize,
        quiet_ns: dice.within(50, 1_000) * Nanos::MICRO,
        per_ms: dice.within(1, 256) as u32,
    });
    options
}

fn roll_call(dice: &mut Dice) -> RollCallConfig {
    RollCallConfig {
        every_ns: dice.within(10, 60) * Nanos::MILLI,
        patience: dice.within(3, 6) as u32,
        ..RollCallConfig::default()
    }
}

fn hedging(dice: &mut Dice, depth: usize) -> Hedging {
    let mut hedging = Hedging::default();
    if dice.chance(600) {
        hedging.policy = HedgePolicy::PathDisjoint;
    }
    // The last layer's own, which is what reaches receivers.
    if dice.chance(500)
        && let Some(last) = hedging.layers.get_mut(depth.saturating_sub(1))
    {
        *last = dice.within(0, 2) as u8;
    }
    hedging
}

fn upstream(dice: &mut Dice) -> UpstreamConfig {
    let capacity = dice.within(16, 4_096) as usize;
    let policies = [QueuePolicy::Fifo, QueuePolicy::SimplePq, QueuePolicy::LimitOrder];
    let queue = QueueConfig {
        policy: policies[dice.0.below(3) as usize],
        capacity,
        account_max: (capacity / dice.within(1, 4) as usize).max(1),
        age_ns: dice.within(1, 30) * Nanos::MILLI,
        age_permille: dice.some(300) as u32,
    };
    let pace = match dice.within(0, 2) {
        0 => Pace::Free,
        1 => Pace::Paper(PacerConfig {
            threshold_ns: dice.within(50, 400) * Nanos::MICRO,
            quantum_max_ns: dice.within(100, 2_000) * Nanos::MICRO,
            ..PacerConfig::default()
        }),
        _ => Pace::Credits { rate: dice.within(16, 512) as u32 },
    };
    UpstreamConfig { queue, pace, gap_ns: dice.some(100) * Nanos::MICRO }
}

/// Counts what the scenario had of options and what they did, and looks whether any link met what
/// it should never meet.
pub(super) fn collect(
    scenario: &Scenario,
    (world, watch): (&World<Actor>, &Watch),
    failures: &mut Failures,
    figures: &mut Figures,
) {
    let options = &scenario.options;
    figures.with_sealing = u64::from(options.secret.is_some());
    figures.with_roll_call = u64::from(options.roll_call.is_some());
    figures.with_hedging = u64::from(options.hedging != Hedging::default());
    figures.with_hedge_mode = u64::from(options.hedge_mode != HedgeMode::Tree);
    figures.with_estimator = u64::from(options.estimator != Estimator::default());
    figures.with_samples = u64::from(options.samples() > 0);
    figures.with_slowest_first = u64::from(options.slowest_first);
    figures.with_queues = u64::from(options.upstream.is_some());
    figures.with_paces =
        u64::from(options.upstream.is_some_and(|upstream| upstream.pace != Pace::Free));
    figures.with_parity = u64::from(options.parity > 0);
    figures.with_caches = u64::from(options.cache.is_some());
    figures.with_replicas = u64::from(scenario.replicas > 0);
    figures.detours = watch.detours;
    for role in world.nodes().flatten() {
        if let Some(edge) = role.as_edge() {
            figures.parity_filled += edge.receiver().stats().parity_filled;
        }
        if let Some(proxy) = role.as_proxy() {
            let stats = proxy.stats();
            figures.cache_repairs += stats.cache.repaired;
            figures.orders_queued += stats.upstream.queue.taken;
        }
        let Some(link) = role.link() else { continue };
        figures.sealed += link.sealed;
        figures.replayed += link.replayed;
        // Others may have new keys before one has.
        let strange = if scenario.rekeys.is_some() { link.unproven } else { 0 };
        let wrong = link.clear + link.forged - strange + link.forbidden + link.unsent;
        failures.check(Checker::Sound, wrong == 0, || format!("a link met {link:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_drawn_often_and_alone_as_well() {
        let drawn: Vec<OverlayOptions> = (0..2_000).map(|seed| random(seed, 2)).collect();
        let has = |option: fn(&OverlayOptions) -> bool| drawn.iter().filter(|o| option(o)).count();
        let counts = [
            has(|o| *o == OverlayOptions::default()),
            has(|o| o.secret.is_some()),
            has(|o| o.roll_call.is_some()),
            has(|o| o.hedging.policy == HedgePolicy::PathDisjoint),
            has(|o| o.hedging.layers != Hedging::default().layers),
            has(|o| o.hedge_mode == HedgeMode::OddOnly),
            has(|o| matches!(o.hedge_mode, HedgeMode::Adaptive { .. })),
            has(|o| matches!(o.estimator, Estimator::MessagePercentile { .. })),
            has(|o| matches!(o.estimator, Estimator::MissRate { .. })),
            has(|o| o.samples > 0),
            has(|o| o.slowest_first),
            has(|o| o.upstream.is_some_and(|upstream| upstream.pace == Pace::Free)),
            has(|o| o.upstream.is_some_and(|upstream| matches!(upstream.pace, Pace::Paper(_)))),
            has(|o| {
                o.upstream.is_some_and(|upstream| matches!(upstream.pace, Pace::Credits { .. }))
            }),
            has(|o| o.parity > 0),
            has(|o| o.cache.is_some()),
        ];
        assert!(counts.iter().all(|count| *count >= 50), "{counts:?}");
    }
}
